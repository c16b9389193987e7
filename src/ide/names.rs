//! Name resolution of a file: a walk over the syntax tree with its scopes, which also records the visible names.
//!
//! It follows the scoping rules of `check` (a test compares both on all available programs), but also resolves names that the
//! checker does not record: types, dimensions, named arguments, imports, and the parts of invalid statements.

use rustc_hash::FxHashMap;

use super::types::Types;
use crate::base::source::Span;
use crate::check::typed::{Binding, ModuleId, Program, SmolStr, StructId, Type};
use crate::lang::builtin::{self, Entry};
use crate::lang::scalar::Scalar;
use crate::syntax::ast::{self, *};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DefKind {
    Fn,
    Kernel,
    Struct,
    Const,
    Field,
    /// A name bound by an import.
    Import,
    Let,
    Var,
    Loop,
    Shared,
    ThreadIndex,
    Param(Access),
    TypeParam,
    ConstParam,
    FnParam,
    Dimension,
}

/// The definition of a name in the file.
#[derive(Clone, Debug)]
pub(crate) struct Def {
    pub name: SmolStr,
    pub span: Span,
    pub kind: DefKind,
    /// The byte range in which it is visible.
    pub scope: (u32, u32),
    /// Index of the item that contains it.
    pub item: usize,
}

/// The meaning of a name.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Meaning {
    Def(usize),
    /// A binding in the module's scope that the text itself does not define, or one of another module.
    Bound(Binding),
    Field(StructId, u32),
    /// A type parameter, dimension or parameter of a definition in another file: its location.
    Elsewhere(Span),
    Builtin(usize),
    /// A predefined type.
    Type,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Use {
    pub span: Span,
    pub meaning: Meaning,
    /// Whether it is called or launched.
    pub called: bool,
    /// Whether it is assigned to.
    pub written: bool,
}

#[derive(Default)]
pub(crate) struct Names {
    pub defs: Vec<Def>,
    /// Uses in textual order.
    pub uses: Vec<Use>,
}

impl Names {
    pub fn read(tree: &ast::File, program: &Program, main: Option<ModuleId>, types: &Types, end: usize) -> Names {
        let mut walk = Walk {
            program,
            main,
            types,
            out: Names::default(),
            globals: FxHashMap::default(),
            scopes: FxHashMap::default(),
            undo: vec![],
            ends: vec![end as u32],
            item: 0,
            struct_fields: FxHashMap::default(),
            arguments: vec![],
        };
        walk.file(tree);
        let mut names = walk.out;
        names.uses.sort_by_key(|u| (u.span.start, u.span.end));
        names
    }

    /// Returns the definition or use whose name covers an offset.
    pub fn at(&self, offset: u32) -> Option<(Span, Meaning)> {
        let first = self.uses.partition_point(|u| u.span.end < offset);
        let found =
            self.uses.iter().skip(first).take_while(|u| u.span.start <= offset).find(|u| u.span.contains(offset));
        let definition = || self.defs.iter().position(|d| d.span.contains(offset));
        found.map(|u| (u.span, u.meaning)).or_else(|| definition().map(|i| (self.defs[i].span, Meaning::Def(i))))
    }

    /// Returns the definitions visible at an offset; inner ones shadow outer ones.
    pub fn visible(&self, offset: u32) -> Vec<usize> {
        let mut found: FxHashMap<&SmolStr, usize> = FxHashMap::default();
        for (index, def) in self.defs.iter().enumerate() {
            if def.kind == DefKind::Field || !(def.scope.0 <= offset && offset <= def.scope.1) {
                continue;
            }
            let narrower = |other: usize| {
                let scope = self.defs[other].scope;
                scope.1 - scope.0 >= def.scope.1 - def.scope.0
            };
            if found.get(&def.name).is_none_or(|&other| narrower(other)) {
                found.insert(&def.name, index);
            }
        }
        let mut found: Vec<usize> = found.into_values().collect();
        found.sort_unstable();
        found
    }
}

/// Whether this is the name of a predefined type.
pub(crate) fn is_prelude_type(name: &str) -> bool {
    let scalar = |text: &str| Scalar::from_name(text);
    let vector = || {
        let (element, lanes) = name.rsplit_once('x')?;
        matches!(lanes, "2" | "3" | "4").then_some(scalar(element)?)
    };
    name == "str" || scalar(name).is_some() || vector().is_some()
}

struct Walk<'a> {
    program: &'a Program,
    main: Option<ModuleId>,
    types: &'a Types,
    out: Names,
    /// Items and imports.
    globals: FxHashMap<SmolStr, usize>,
    scopes: FxHashMap<SmolStr, usize>,
    undo: Vec<(SmolStr, Option<usize>)>,
    /// Ends of the open scopes.
    ends: Vec<u32>,
    item: usize,
    /// Fields of the structs of this file, by the struct's definition.
    struct_fields: FxHashMap<usize, Vec<usize>>,
    /// Named arguments, resolved when all items are known: callee and name.
    arguments: Vec<(Meaning, Name)>,
}

impl Walk<'_> {
    fn file(&mut self, tree: &ast::File) {
        self.globals(tree);
        // Tests and benches see all variables of the script, wherever they are declared.
        let is_section = |item: &Item| matches!(item.kind, ItemKind::Test(_) | ItemKind::Bench(_));
        for sections in [false, true] {
            for (index, item) in tree.items.iter().enumerate().filter(|(_, item)| is_section(item) == sections) {
                self.item = index;
                self.item(item);
            }
        }
        self.named_arguments();
    }

    fn end(&self) -> u32 {
        self.ends.last().copied().unwrap_or(u32::MAX)
    }

    fn define(&mut self, name: &Name, kind: DefKind, scope: (u32, u32)) -> usize {
        self.out.defs.push(Def { name: name.text.clone(), span: name.span, kind, scope, item: self.item });
        self.out.defs.len() - 1
    }

    fn globals(&mut self, tree: &ast::File) {
        let all = (0, self.end());
        for (index, item) in tree.items.iter().enumerate() {
            self.item = index;
            match &item.kind {
                ItemKind::Const(c) => self.global(&c.name, DefKind::Const, all),
                ItemKind::Fn(f) => self.global(&f.name, DefKind::Fn, all),
                ItemKind::Kernel(k) => self.global(&k.name, DefKind::Kernel, all),
                ItemKind::Struct(s) => {
                    self.global(&s.name, DefKind::Struct, all);
                    let owner = self.out.defs.len() - 1;
                    let fields = s.fields.iter().map(|f| self.define(&f.name, DefKind::Field, all)).collect();
                    self.struct_fields.insert(owner, fields);
                }
                ItemKind::Import(import) => self.import_names(import, all),
                ItemKind::Test(_) | ItemKind::Bench(_) | ItemKind::Stmt(_) | ItemKind::Error(_) => {}
            }
        }
    }

    fn global(&mut self, name: &Name, kind: DefKind, scope: (u32, u32)) {
        let def = self.define(name, kind, scope);
        self.globals.insert(name.text.clone(), def);
    }

    fn import_names(&mut self, import: &Import, all: (u32, u32)) {
        match &import.what {
            ImportWhat::Module { alias: Some(alias) } => self.global(alias, DefKind::Import, all),
            ImportWhat::Module { alias: None } => match &import.source {
                ImportSource::Path(path) => {
                    if let Some(last) = path.last() {
                        self.global(last, DefKind::Import, all);
                    }
                }
                ImportSource::File { path, span } => {
                    let file = path.rsplit(['/', '\\']).next().unwrap_or(path);
                    let text = file.strip_suffix(".clk").unwrap_or(file).into();
                    self.global(&Name { text, span: *span }, DefKind::Import, all);
                }
            },
            ImportWhat::Names(names) => {
                for (name, alias) in names {
                    let local = alias.as_ref().unwrap_or(name);
                    self.global(local, DefKind::Import, all);
                    if alias.is_some()
                        && let Some(binding) = self.binding(&local.text)
                    {
                        self.add(name.span, Meaning::Bound(binding));
                    }
                }
            }
        }
    }

    fn binding(&self, name: &str) -> Option<Binding> {
        self.program.modules.get(self.main?)?.names.get(name).copied().filter(|b| *b != Binding::Error)
    }

    // Scopes

    fn scoped(&mut self, end: u32, inside: impl FnOnce(&mut Self)) {
        let mark = self.undo.len();
        self.ends.push(end);
        inside(self);
        self.ends.pop();
        while self.undo.len() > mark {
            if let Some((name, old)) = self.undo.pop() {
                match old {
                    Some(old) => self.scopes.insert(name, old),
                    None => self.scopes.remove(&name),
                };
            }
        }
    }

    /// Opens a scope in which the script's variables are not visible.
    fn closed(&mut self, end: u32, inside: impl FnOnce(&mut Self)) {
        let outer = std::mem::take(&mut self.scopes);
        self.scoped(end, inside);
        self.scopes = outer;
    }

    /// Makes a name visible from `from` to the end of the innermost scope.
    fn bind(&mut self, name: &Name, kind: DefKind, from: u32) {
        if name.text == "_" {
            return;
        }
        let end = self.end();
        let def = self.define(name, kind, (from, end.max(from)));
        let old = self.scopes.insert(name.text.clone(), def);
        self.undo.push((name.text.clone(), old));
    }

    fn lookup(&self, name: &str) -> Option<Meaning> {
        if let Some(def) = self.scopes.get(name) {
            return Some(Meaning::Def(*def));
        }
        if let Some(&def) = self.globals.get(name) {
            return Some(Meaning::Def(def));
        }
        if let Some(binding) = self.binding(name) {
            return Some(Meaning::Bound(binding));
        }
        if let Some(index) = builtin::TABLE.iter().position(|e: &Entry| e.name == name) {
            return Some(Meaning::Builtin(index));
        }
        is_prelude_type(name).then_some(Meaning::Type)
    }

    fn add(&mut self, span: Span, meaning: Meaning) {
        self.out.uses.push(Use { span, meaning, called: false, written: false });
    }

    fn name(&mut self, name: &Name) -> Option<Meaning> {
        let meaning = self.lookup(&name.text)?;
        self.add(name.span, meaning);
        Some(meaning)
    }

    /// Returns the program's binding of a definition.
    fn bound(&self, meaning: Meaning) -> Option<Binding> {
        match meaning {
            Meaning::Bound(binding) => Some(binding),
            Meaning::Def(def) => {
                let def = self.out.defs.get(def)?;
                let global = matches!(
                    def.kind,
                    DefKind::Fn | DefKind::Kernel | DefKind::Struct | DefKind::Const | DefKind::Import
                );
                global.then(|| self.binding(&def.name)).flatten()
            }
            _ => None,
        }
    }

    /// Resolves `a.b.c`, where `a` may be a module.
    fn path(&mut self, path: &[Name]) -> Option<Meaning> {
        let (first, rest) = path.split_first()?;
        let mut meaning = self.name(first)?;
        for name in rest {
            let Some(Binding::Module(module)) = self.bound(meaning) else { return None };
            let binding = self.program.modules.get(module)?.names.get(&name.text)?;
            meaning = Meaning::Bound(*binding);
            self.add(name.span, meaning);
        }
        Some(meaning)
    }

    // Items

    fn item(&mut self, item: &Item) {
        match &item.kind {
            ItemKind::Const(c) => {
                c.ty.iter().for_each(|t| self.ty(t));
                self.expr(&c.value);
            }
            ItemKind::Struct(s) => s.fields.iter().for_each(|f| self.ty(&f.ty)),
            ItemKind::Fn(f) => self.closed(item.span.end, |w| {
                w.signature(&f.generics, &f.params, item.span);
                f.result.iter().for_each(|t| w.ty(t));
                w.parameters(&f.params, f.body.span.start);
                w.block(&f.body);
            }),
            ItemKind::Kernel(k) => self.closed(item.span.end, |w| {
                w.signature(&k.generics, &k.params, item.span);
                w.parameters(&k.params, k.params.last().map_or(k.name.span.end, |p| p.span.end));
                w.geometry(&k.geometry, k.body.span.start);
                k.assumes.iter().for_each(|e| w.expr(e));
                for tune in &k.tunes {
                    w.name(&tune.name);
                    w.expr(&tune.values);
                }
                w.block(&k.body);
            }),
            ItemKind::Test(s) | ItemKind::Bench(s) => self.section(s),
            ItemKind::Stmt(s) => self.stmt(s),
            ItemKind::Import(_) | ItemKind::Error(_) => {}
        }
    }

    fn section(&mut self, section: &Section) {
        for (_, rate) in &section.rates {
            self.expr(rate);
        }
        self.block(&section.body);
    }

    fn signature(&mut self, generics: &[Generic], params: &[Param], item: Span) {
        for generic in generics {
            let kind = match &generic.kind {
                GenericKind::Type { .. } => DefKind::TypeParam,
                GenericKind::Const { .. } => DefKind::ConstParam,
                GenericKind::Fn { .. } => DefKind::FnParam,
            };
            self.bind(&generic.name, kind, item.start);
        }
        for generic in generics {
            if let GenericKind::Const { ty, default } | GenericKind::Fn { ty, default } = &generic.kind {
                self.ty(ty);
                default.iter().for_each(|e| self.expr(e));
            }
        }
        for param in params {
            self.dimensions(&param.ty, item.start);
            self.ty(&param.ty);
            param.default.iter().for_each(|e| self.expr(e));
        }
    }

    /// Declares the dimensions in an array type: the first use of a name in extents defines it.
    fn dimensions(&mut self, ty: &ast::Type, from: u32) {
        match &ty.kind {
            TypeKind::Array { element, dims } => {
                self.dimensions(element, from);
                dims.iter().for_each(|d| self.dimension(d, from));
            }
            TypeKind::Tuple(parts) => parts.iter().for_each(|p| self.dimensions(p, from)),
            TypeKind::Placed { ty, .. } => self.dimensions(ty, from),
            TypeKind::Name(_) | TypeKind::Fn { .. } => {}
        }
    }

    fn dimension(&mut self, e: &Expr, from: u32) {
        match &e.kind {
            ExprKind::Name(name) if self.lookup(&name.text).is_none() => self.bind(name, DefKind::Dimension, from),
            ExprKind::Binary { left, right, .. } => {
                self.dimension(left, from);
                self.dimension(right, from);
            }
            ExprKind::Unary { expr, .. } | ExprKind::Paren(expr) => self.dimension(expr, from),
            ExprKind::Call { args, .. } => args.iter().for_each(|a| self.dimension(&a.value, from)),
            _ => {}
        }
    }

    fn parameters(&mut self, params: &[Param], from: u32) {
        params.iter().for_each(|p| self.bind(&p.name, DefKind::Param(p.access), from));
    }

    fn geometry(&mut self, geometry: &Geometry, body: u32) {
        match geometry {
            Geometry::Threads { indices, block, .. } => {
                indices.iter().for_each(|(_, e)| self.expr(e));
                block.iter().flatten().for_each(|e| self.expr(e));
                indices.iter().for_each(|(name, _)| self.bind(name, DefKind::ThreadIndex, body));
            }
            Geometry::Grid { grid, block, .. } => grid.iter().chain(block).for_each(|e| self.expr(e)),
            Geometry::Missing(_) => {}
        }
    }

    fn ty(&mut self, ty: &ast::Type) {
        match &ty.kind {
            TypeKind::Name(path) => drop(self.path(path)),
            TypeKind::Array { element, dims } => {
                self.ty(element);
                dims.iter().for_each(|d| self.expr(d));
            }
            TypeKind::Tuple(parts) => parts.iter().for_each(|p| self.ty(p)),
            TypeKind::Fn { params, result } => {
                params.iter().for_each(|p| self.ty(p));
                result.iter().for_each(|r| self.ty(r));
            }
            TypeKind::Placed { ty, .. } => self.ty(ty),
        }
    }

    // Statements

    fn block(&mut self, block: &Block) {
        self.scoped(block.span.end, |w| {
            block.stmts.iter().for_each(|s| w.stmt(s));
            block.tail.iter().for_each(|e| w.expr(e));
        });
    }

    fn pattern(&mut self, pattern: &Pattern, kind: DefKind, from: u32) {
        match pattern {
            Pattern::Name(name) => self.bind(name, kind, from),
            Pattern::Tuple(parts, _) => parts.iter().for_each(|p| self.pattern(p, kind, from)),
        }
    }

    fn stmt(&mut self, stmt: &Stmt) {
        match &stmt.kind {
            StmtKind::Let { mutable, pattern, ty, value } => {
                ty.iter().for_each(|t| self.ty(t));
                value.iter().for_each(|e| self.expr(e));
                self.pattern(pattern, if *mutable { DefKind::Var } else { DefKind::Let }, stmt.span.end);
            }
            StmtKind::Shared { name, ty } => {
                self.ty(ty);
                self.bind(name, DefKind::Shared, stmt.span.end);
            }
            StmtKind::Assign { place, value, .. } => {
                let first = self.out.uses.len();
                self.expr(place);
                let root = place_root(place);
                for used in self.out.uses.iter_mut().skip(first).filter(|u| Some(u.span) == root) {
                    used.written = true;
                }
                self.expr(value);
            }
            StmtKind::Expr { expr, .. } => self.expr(expr),
            StmtKind::For { var, iter, body, .. } => {
                self.expr(iter);
                self.scoped(body.span.end, |w| {
                    w.bind(var, DefKind::Loop, body.span.start);
                    w.block(body);
                });
            }
            StmtKind::While { cond, body, .. } => {
                self.expr(cond);
                self.block(body);
            }
            StmtKind::Loop { body } | StmtKind::Batch { body } => self.block(body),
            StmtKind::On { device, body } => {
                self.expr(device);
                self.block(body);
            }
            StmtKind::Return(value) => value.iter().for_each(|e| self.expr(e)),
            StmtKind::Break | StmtKind::Continue | StmtKind::Error => {}
        }
    }

    // Expressions

    fn exprs(&mut self, list: &[Expr]) {
        list.iter().for_each(|e| self.expr(e));
    }

    fn expr(&mut self, e: &Expr) {
        match &e.kind {
            ExprKind::Name(name) => drop(self.name(name)),
            ExprKind::Field { base, name } => {
                self.expr(base);
                self.member(base, name);
            }
            ExprKind::Index { base, args } => {
                self.expr(base);
                self.exprs(args);
            }
            ExprKind::Call { callee, args } => self.call(callee, args),
            ExprKind::Launch { callee, grid, block, args } => {
                self.expr(grid);
                self.expr(block);
                self.call(callee, args);
            }
            ExprKind::Unary { expr, .. } | ExprKind::Paren(expr) => self.expr(expr),
            ExprKind::Binary { left, right, .. } => {
                self.expr(left);
                self.expr(right);
            }
            ExprKind::Range { start, end, step, .. } => {
                [start, end, step].into_iter().flatten().for_each(|e| self.expr(e));
            }
            ExprKind::If { cond, then, other } => {
                self.expr(cond);
                self.block(then);
                other.iter().for_each(|e| self.expr(e));
            }
            ExprKind::Block(block) | ExprKind::Time(block) => self.block(block),
            ExprKind::Tuple(parts) | ExprKind::Array(parts) => self.exprs(parts),
            ExprKind::Struct { path, fields } => {
                let meaning = self.path(path);
                let id = meaning.and_then(|m| self.bound(m));
                for (name, value) in fields {
                    if let Some(Binding::Struct(id)) = id {
                        self.field(id, name);
                    }
                    self.expr(value);
                }
            }
            ExprKind::Str(parts) => {
                for part in parts {
                    if let StrPart::Value { expr, .. } = part {
                        self.expr(expr);
                    }
                }
            }
            ExprKind::Int { .. } | ExprKind::Float { .. } | ExprKind::Bool(_) | ExprKind::Error => {}
        }
    }

    fn call(&mut self, callee: &Expr, args: &[Arg]) {
        let first = self.out.uses.len();
        self.expr(callee);
        let end = callee.span.end;
        let used = self.out.uses.iter_mut().skip(first).find(|u| u.span.end == end);
        let meaning = used.map(|used| {
            used.called = true;
            used.meaning
        });
        for arg in args {
            if let (Some(meaning), Some(name)) = (meaning, &arg.name) {
                self.arguments.push((meaning, name.clone()));
            }
            self.expr(&arg.value);
        }
    }

    fn member(&mut self, base: &Expr, name: &Name) {
        let last = self.out.uses.last().filter(|u| u.span.end == base.span.end).map(|u| u.meaning);
        if let Some(Binding::Module(module)) = last.and_then(|m| self.bound(m)) {
            let module = self.program.modules.get(module);
            if let Some(binding) = module.and_then(|m| m.names.get(&name.text)) {
                self.add(name.span, Meaning::Bound(*binding));
            }
            return;
        }
        if let Some((Type::Struct(id), _)) = self.types.of(base.span) {
            self.field(*id, name);
        }
    }

    fn field(&mut self, id: StructId, name: &Name) {
        let fields = self.program.structs.get(id).map_or(&[][..], |s| &s.fields);
        if let Some(index) = fields.iter().position(|f| f.name == name.text) {
            self.add(name.span, Meaning::Field(id, index as u32));
        }
    }

    /// Resolves named arguments such as `T = 32`: compile-time parameters, dimensions, or parameters of the callee.
    fn named_arguments(&mut self) {
        for (callee, name) in std::mem::take(&mut self.arguments) {
            let own = match callee {
                Meaning::Def(def) => self.out.defs.get(def).filter(|d| d.kind != DefKind::Import).map(|d| d.item),
                _ => None,
            };
            if let Some(item) = own {
                let named = |d: &Def| {
                    d.item == item
                        && d.name == name.text
                        && matches!(
                            d.kind,
                            DefKind::TypeParam
                                | DefKind::ConstParam
                                | DefKind::FnParam
                                | DefKind::Dimension
                                | DefKind::Param(_)
                        )
                };
                if let Some(def) = self.out.defs.iter().position(named) {
                    self.add(name.span, Meaning::Def(def));
                }
                continue;
            }
            let sig = match self.bound(callee) {
                Some(Binding::Fn(id)) => self.program.fns.get(id).map(|f| &f.sig),
                Some(Binding::Kernel(id)) => self.program.kernels.get(id).map(|k| &k.sig),
                _ => None,
            };
            let Some(sig) = sig else { continue };
            let generics = sig.generics.iter().map(|g| (&g.name, g.span));
            let dims = sig.dims.iter().map(|d| (&d.name, d.span));
            let params = sig.params.iter().map(|p| (&p.name, p.span));
            let found = generics.chain(dims).chain(params).find(|(n, _)| **n == name.text).map(|(_, span)| span);
            if let Some(span) = found {
                self.add(name.span, Meaning::Elsewhere(span));
            }
        }
    }
}

/// Returns the variable that an assignment changes.
fn place_root(place: &Expr) -> Option<Span> {
    match &place.kind {
        ExprKind::Name(name) => Some(name.span),
        ExprKind::Field { base, .. } | ExprKind::Index { base, .. } => place_root(base),
        ExprKind::Paren(inner) => place_root(inner),
        _ => None,
    }
}
