//! Statements, blocks and patterns.

use crate::build::{I32, bare, make};
use crate::const_eval;
use crate::context::{BodyKind, Cx, Info};
use crate::divergence::Fork;
use crate::expr::MAX_DEPTH;
use crate::generics::is_constant;
use crate::infer::{TypeClass, array};
use crate::lints;
use crate::scopes::LocalMeaning;
use crate::typed::*;
use crate::types::DimContext;
use clk_base::diag::{Applicability, Diagnostic};
use clk_base::source::Span;
use clk_scalar::builtin::Builtin;
use clk_scalar::ops::BinaryOp;
use clk_syntax::ast::{self, ExprKind as Ast, StmtKind as AstStmt};

/// A variable declaration being checked.
pub(crate) struct LetDeclaration<'e> {
    pub mutable: bool,
    pub pattern: &'e ast::Pattern,
    pub ty: Option<&'e ast::Type>,
    pub value: Option<&'e ast::Expr>,
    pub span: Span,
}

impl LetDeclaration<'_> {
    /// Returns the span of the keyword `let` or `var`.
    fn word(&self) -> Span {
        Span { end: self.span.start + 3, ..self.span }
    }

    /// Returns the span of the initial value if it is a decimal integer without a suffix.
    fn whole(&self) -> Option<Span> {
        let value = bare(self.value?);
        let Ast::Int { value: number, suffix: None } = &value.kind else { return None };
        let is_decimal = number.to_string().len() == (value.span.end - value.span.start) as usize;
        (self.ty.is_none() && is_decimal).then_some(value.span)
    }

    fn name(&self) -> Option<&ast::Name> {
        match self.pattern {
            ast::Pattern::Name(n) => Some(n),
            ast::Pattern::Tuple(..) => None,
        }
    }
}

impl Cx<'_> {
    /// Checks a block in a new scope. If `value` is false, its last expression is an ordinary statement, not the value
    /// of the block.
    pub fn block(&mut self, b: &ast::Block, value: bool, want: Option<&Type>) -> (Block, Type) {
        self.scopes.open(b.span);
        let checked = self.block_here(b, value, want);
        self.scopes.close();
        checked
    }

    fn block_here(&mut self, b: &ast::Block, value: bool, want: Option<&Type>) -> (Block, Type) {
        let mut stmts = Vec::with_capacity(b.stmts.len());
        let mut ends: Option<Span> = None;
        let mut warned = false;
        for s in &b.stmts {
            if let (Some(end), false) = (ends, warned) {
                self.unreachable(s.span, end);
                warned = true;
            }
            if self.stmt(s, &mut stmts) == Type::Never {
                ends = ends.or(Some(s.span));
            }
        }
        let mut ty = Type::Unit;
        let mut tail = None;
        if let Some(e) = &b.tail {
            if let (Some(end), false) = (ends, warned) {
                self.unreachable(e.span, end);
            }
            if value {
                let e = self.expr(e, want);
                ty = e.ty.clone();
                tail = Some(Box::new(e));
            } else if self.expr_stmt(e, true, &mut stmts) == Type::Never {
                ty = Type::Never;
            }
        }
        // The value may be in a statement that failed to parse.
        let is_broken = matches!(b.stmts.last().map(|s| &s.kind), Some(AstStmt::Error)) && b.tail.is_none();
        if value && is_broken {
            ty = Type::Error;
        }
        if ends.is_some() {
            ty = Type::Never;
        }
        (Block { stmts, tail, span: b.span }, ty)
    }

    fn unreachable(&mut self, span: Span, end: Span) {
        let d = Diagnostic::warning("W0006", "this is never reached")
            .at(span, "nothing gets here")
            .because(end, "everything ends or jumps away here");
        self.report(d);
    }

    /// Checks a statement and appends it to `out`. Returns `Never` if the statements after it are unreachable.
    pub fn stmt(&mut self, s: &ast::Stmt, out: &mut Vec<Stmt>) -> Type {
        self.depth += 1;
        let outer_end = std::mem::replace(&mut self.scopes.stmt_end, s.span.end);
        let begin = self.vars.begin_statement();
        let ty = if self.depth > MAX_DEPTH { self.too_deep(s.span).ty } else { self.stmt_inner(s, out) };
        self.vars.end_statement(begin);
        self.scopes.stmt_end = outer_end;
        self.depth -= 1;
        ty
    }

    fn stmt_inner(&mut self, s: &ast::Stmt, out: &mut Vec<Stmt>) -> Type {
        let kind = match &s.kind {
            AstStmt::Let { mutable, pattern, ty, value } => {
                let d = LetDeclaration {
                    mutable: *mutable,
                    pattern,
                    ty: ty.as_deref(),
                    value: value.as_ref(),
                    span: s.span,
                };
                match self.declaration(&d) {
                    Some(kind) => kind,
                    None => return Type::Unit,
                }
            }
            AstStmt::Shared { name, ty } => match self.shared(name, ty, s.span) {
                Some(kind) => kind,
                None => return Type::Unit,
            },
            AstStmt::Assign { place, op: None, value } if let Ast::Tuple(places) = &bare(place).kind => {
                self.assign_parts(places, value, place.span, out);
                return Type::Unit;
            }
            AstStmt::Assign { place, op, value } => self.assign(place, *op, value),
            AstStmt::Expr { expr, quiet } => return self.expr_stmt(expr, *quiet, out),
            AstStmt::For { pattern, iter, body, unroll } => self.for_loop(pattern, iter, body, *unroll),
            AstStmt::While { cond, body, unroll } => {
                let cond = self.condition(cond, Fork::While);
                let (body, _) = self.loop_body(body);
                self.end_condition();
                StmtKind::While { cond, body: Box::new(body), unroll: *unroll }
            }
            AstStmt::Loop { body } => {
                let (body, broke) = self.loop_body(body);
                out.push(Stmt { kind: StmtKind::Loop { body }, span: s.span });
                return if broke { Type::Unit } else { Type::Never };
            }
            AstStmt::Break | AstStmt::Continue => {
                let is_break = matches!(s.kind, AstStmt::Break);
                if !self.loops.is_inside() {
                    let word = if is_break { "break" } else { "continue" };
                    let d = Diagnostic::error("E0322", format!("`{word}` outside of a loop"))
                        .at(s.span, "no loop is around this");
                    self.report(d);
                }
                if is_break {
                    self.loops.record_break();
                }
                let kind = if is_break { StmtKind::Break } else { StmtKind::Continue };
                out.push(Stmt { kind, span: s.span });
                return Type::Never;
            }
            AstStmt::Return(value) => {
                let value = self.return_value(value.as_ref(), s.span);
                self.divergence.record_return(s.span);
                out.push(Stmt { kind: StmtKind::Return(value), span: s.span });
                return Type::Never;
            }
            AstStmt::On { device, body } => {
                self.need_host(s.span, "`on`");
                let device = self.on_device(device);
                let (body, _) = self.block(body, false, None);
                StmtKind::On { device, body }
            }
            AstStmt::Batch { body } => {
                self.need_host(s.span, "`batch`");
                let (body, _) = self.block(body, false, None);
                StmtKind::Batch { body }
            }
            AstStmt::Error => return Type::Unit,
        };
        out.push(Stmt { kind, span: s.span });
        Type::Unit
    }

    /// Checks an expression statement. Its value is unused, except that a session shows the value of an entry's last
    /// statement.
    fn expr_stmt(&mut self, e: &ast::Expr, quiet: bool, out: &mut Vec<Stmt>) -> Type {
        let shown = self.home == BodyKind::Script && self.scopes.is_outermost();
        let checked = match &bare(e).kind {
            Ast::If { cond, then, other } if !(shown && gives_value(then, other.as_deref())) => {
                self.if_statement(cond, then, other.as_deref(), e.span)
            }
            Ast::Block(b) => {
                let (block, ty) = self.block(b, shown, None);
                make(ExprKind::Block(block), ty, e.span)
            }
            Ast::Call { callee, args } if self.method_in_place(callee, args, e.span) => self.bad(e.span),
            _ => {
                let checked = self.expr(e, None);
                if self.measured == 0 && lints::has_no_effect(&checked) {
                    self.unused_result(&checked, shown);
                }
                checked
            }
        };
        let ty = if checked.ty == Type::Never { Type::Never } else { Type::Unit };
        let span = checked.span;
        out.push(Stmt { kind: StmtKind::Expr { expr: checked, quiet }, span });
        ty
    }

    /// Returns the keyword `let` of the declaration of a variable that cannot be assigned.
    fn keyword_of_constant(&self, name: &str) -> Option<Span> {
        match self.scopes.get(name)? {
            LocalMeaning::Local(id) if !self.locals.get(id)?.mutable => self.info.get(id.index())?.keyword,
            LocalMeaning::Global(id) if !self.global(id)?.mutable => self.global_keyword(id),
            _ => None,
        }
    }

    /// Reports the statement `x.sort()` of other languages, which changes an array. Returns whether it was reported.
    fn method_in_place(&mut self, callee: &ast::Expr, args: &[ast::Arg], span: Span) -> bool {
        let Ast::Field { base, name } = &bare(callee).kind else { return false };
        let Ast::Name(array) = &bare(base).kind else { return false };
        let function = match &*name.text {
            "sort" => "sort",
            "reverse" => "flip",
            _ => return false,
        };
        if !args.is_empty() || self.in_kernel() || !matches!(self.type_of_variable(base), Some(Type::Array(_))) {
            return false;
        }
        let keyword = self.keyword_of_constant(&array.text);
        let text = format!("{0} = {function}({0})", array.text);
        let mut edits = vec![(span, text.clone())];
        edits.extend(keyword.map(|keyword| (keyword, "var".to_owned())));
        let d = Diagnostic::error("E0311", format!("Clk has no methods, so there is no `.{}()`", name.text))
            .at(name.span, "written as a method")
            .help(format!("`{function}` returns a new array, which `=` assigns"))
            .fix_all(format!("write `{text}`"), edits, Applicability::MaybeIncorrect);
        self.report(d);
        true
    }

    /// Checks a block that is executed to be timed, so unused values in it are not reported.
    pub fn measured(&mut self, b: &ast::Block) -> Block {
        self.measured += 1;
        let (block, _) = self.block(b, false, None);
        self.measured -= 1;
        block
    }

    fn unused_result(&mut self, e: &Expr, top: bool) {
        let mut d = Diagnostic::warning("W0005", "this value is not used").at(e.span, "computed and thrown away");
        d = match &e.kind {
            ExprKind::Binary { op: BinaryOp::Eq, .. } => d.help("`==` compares; `=` assigns"),
            _ if top => d.help("`print(…)` shows it; a session shows the last value of an entry by itself"),
            _ => d.help("give it a name with `let`, or remove it"),
        };
        self.report(d);
    }

    // Declarations

    fn declaration(&mut self, d: &LetDeclaration<'_>) -> Option<StmtKind> {
        let in_device = !self.in_host();
        let (mut extents, mut open) = (Vec::new(), Vec::new());
        let ty = d.ty.map(|t| {
            let mut dims = if in_device { DimContext::Extents(&mut extents) } else { DimContext::Free(&mut open) };
            self.ty(t, &mut dims)
        });
        let literal = d.value.is_some_and(|v| matches!(bare(v).kind, Ast::Array(_)));
        match (&ty, d.value) {
            (Some(Type::Array(_)), value) if in_device && value.is_none_or(|v| literal || self.is_fill(v)) => {
                return self.local_array(d, ty.unwrap_or_default(), extents);
            }
            (None, Some(value)) if in_device && literal => return self.literal_array(d, value),
            (None, None) => {
                let m = Diagnostic::error("E0324", "this variable needs a type or a value")
                    .at(d.span, "neither is given")
                    .help("write `var x = 0.0`, or `var x: f32`");
                self.report(m);
                self.bind_pattern(d, d.pattern, &Type::Error);
                return None;
            }
            _ => {}
        }
        let before = self.divergence.varying_reads;
        let value = match d.value {
            Some(v) => Some(match &ty {
                Some(ty) => self.declared_value(v, ty),
                None => self.expr(v, None),
            }),
            None => {
                if !d.mutable || matches!(ty, Some(Type::Array(_))) {
                    let m = Diagnostic::error("E0324", "this variable needs a value")
                        .at(d.span, "it would never have one")
                        .help(if d.mutable {
                            "write `= zeros(…)`"
                        } else {
                            "only a `var` may be given its value later"
                        });
                    self.report(m);
                }
                None
            }
        };
        let varying = self.divergence.varying_reads != before;
        let value = match d.pattern {
            ast::Pattern::Tuple(parts, _) if ty.is_none() => {
                value.map(|value| self.components_as_tuple(value, parts.len()))
            }
            _ => value,
        };
        if let (Some(ty @ Type::Array(_)), Some(value), Some(name)) = (&ty, &value, d.name())
            && self.home == BodyKind::Fn
            && self.fills(value)
        {
            extents.iter().for_each(|e| self.constant_extent(e));
            let local = self.declare(name, ty.clone(), d.mutable, LocalKind::Var, Some(d.word()));
            self.keep_extents(local, &extents);
            return Some(StmtKind::LocalArray { local, extents, init: ArrayInit::Fill(value.clone()) });
        }
        if let (Some(ty @ Type::Array(_)), Some(value), Some(name)) = (&ty, &value, d.name())
            && matches!(self.vars.shallow(&value.ty), Type::Array(_))
            && self.is_device_array(ty)
        {
            self.check_storable(value, ty);
            let local = self.declare(name, ty.clone(), d.mutable, LocalKind::Var, Some(d.word()));
            self.keep_extents(local, &extents);
            return Some(StmtKind::LocalArray { local, extents, init: ArrayInit::Copy(value.clone()) });
        }
        let declared = d.ty.zip(ty.clone()).filter(|_| !self.in_kernel()).map(|(t, ty)| {
            let extents = if in_device { extents.into_iter().map(DeclaredExtent::Is).collect() } else { open };
            Box::new(DeclaredType { ty, extents, span: t.span })
        });
        let value_ty = value.as_ref().map(|v| v.ty.clone());
        let mut ty = ty.or(value_ty).unwrap_or_default();
        if let Some(value) = &value {
            self.check_storable(value, &ty);
        }
        if d.mutable && d.ty.is_none() && !self.is_device_array(&ty) {
            ty = self.open_dims(ty);
        }
        let const_value =
            value.as_ref().filter(|_| !d.mutable && d.name().is_some()).and_then(|v| const_eval::int(self, v));
        let pattern = self.bind_pattern(d, d.pattern, &ty);
        if let Some(value) = &value {
            self.mark_varying_parts(&pattern, value, varying);
        }
        let info = match &pattern {
            Pattern::Local(id) => self.info.get_mut(id.index()),
            Pattern::Global(id) => self.global_info(*id),
            _ => None,
        };
        if let Some(info) = info {
            info.const_value = const_value;
            info.varying = varying;
        }
        Some(StmtKind::Let { pattern, value, declared })
    }

    /// Returns whether the initializer `= e` of an array declaration may be a single value for all elements (`= 0.0`)
    /// instead of an array.
    fn is_fill(&self, e: &ast::Expr) -> bool {
        if !self.in_kernel() {
            return matches!(bare(e).kind, Ast::Int { .. } | Ast::Float { .. } | Ast::Bool(_) | Ast::Unary { .. });
        }
        true
    }

    /// Checks the initializer of a declaration that has a type.
    pub fn declared_value(&mut self, value: &ast::Expr, ty: &Type) -> Expr {
        let e = self.expr(value, Some(ty));
        if let (Type::Array(a), true) = (ty, self.in_host() || self.home == BodyKind::Const)
            && self.fills(&e)
        {
            return self.filled_array(a.clone(), e);
        }
        let want = match ty {
            Type::Array(a) if self.home == BodyKind::Fn && self.fills(&e) => a.element.clone(),
            _ => ty.clone(),
        };
        if e.ty != want {
            self.coerce_to_declared(&e, &want, None);
        }
        e
    }

    /// Returns whether the initializer of an array declaration is one value for all elements.
    fn fills(&self, value: &Expr) -> bool {
        let ty = self.vars.shallow(&value.ty);
        matches!(ty, Type::Scalar(_) | Type::Param(_) | Type::Vector(..) | Type::Struct(_) | Type::Tuple(_))
    }

    /// Rewrites `var acc: [f32; 8] = 0.0` in a script to `full(8, 0.0)`.
    fn filled_array(&mut self, a: std::sync::Arc<ArrayType>, value: Expr) -> Expr {
        self.coerce(&value, &a.element, None);
        let span = value.span;
        let mut args = Vec::new();
        for dim in &a.dims {
            match dim {
                Dim::Known(n) => args.push(make(ExprKind::Int(i128::from(*n)), I32, span)),
                _ => {
                    let d = Diagnostic::error("E0324", "the shape of this array is open")
                        .at(span, "one value fills an array whose dimensions are numbers")
                        .help("write `full(n, value)`");
                    self.report(d);
                    return self.bad(span);
                }
            }
        }
        args.push(value);
        make(ExprKind::Builtin { builtin: Builtin::Full, args, named: vec![] }, Type::Array(a), span)
    }

    fn check_storable(&mut self, value: &Expr, ty: &Type) {
        match self.vars.shallow(ty) {
            Type::Unit | Type::Never => {
                let d = Diagnostic::error("E0301", "this gives no value to keep")
                    .at(value.span, "nothing comes back from here");
                let d = match &value.kind {
                    ExprKind::If { .. } => {
                        d.help("an `if` that gives a value needs an `else`: `if p { a } else { b }`")
                    }
                    _ => self.without_result(d, value),
                };
                self.report(d);
            }
            Type::Array(_) if self.is_device_array(ty) => self.note_read(value, value.span),
            Type::Array(_) if !self.in_host() => {
                let before = self.diagnostics.len();
                self.need_host(value.span, "a copy of an array whose extents are not constants");
                if let Some(d) = self.diagnostics.get_mut(before) {
                    d.help.push("a thread's own array has constant extents: `var a: [f32; 8] = 0.0`".into());
                }
            }
            _ => {}
        }
    }

    /// Returns whether an array can be a value on the device, which requires constant extents. In a function that
    /// already requires the host, no array is a device value.
    pub fn is_device_array(&self, ty: &Type) -> bool {
        let Type::Array(array) = self.vars.shallow(ty) else { return false };
        let constant = |dim: &Dim| match dim {
            Dim::Known(_) | Dim::Local(_) => true,
            Dim::Expr(i) => self.sig.dim_exprs.get(*i as usize).is_some_and(|e| is_constant(e)),
            Dim::Name(_) | Dim::Unknown => false,
        };
        let may_be_device = self.in_kernel() || self.home == BodyKind::Fn && self.needs.host.is_none();
        may_be_device && !array.dims.is_empty() && array.dims.iter().all(constant)
    }

    /// Replaces the extents in the type of an array variable by unknown extents, because assignments may change the
    /// shape of the array.
    fn open_dims(&self, ty: Type) -> Type {
        match self.vars.shallow(&ty) {
            Type::Array(a) if self.in_host() || self.home == BodyKind::Fn => {
                array(a.element.clone(), vec![Dim::Unknown; a.dims.len()])
            }
            Type::Tuple(parts) => Type::Tuple(parts.iter().map(|p| self.open_dims(p.clone())).collect()),
            _ => ty,
        }
    }

    fn local_array(&mut self, d: &LetDeclaration<'_>, ty: Type, extents: Vec<Expr>) -> Option<StmtKind> {
        let Type::Array(a) = &ty else { return None };
        let Some(name) = d.name() else {
            self.bind_pattern(d, d.pattern, &Type::Error);
            return None;
        };
        for e in &extents {
            self.constant_extent(e);
        }
        let init = match d.value {
            None => ArrayInit::None,
            Some(value) => match &bare(value).kind {
                Ast::Array(_) => {
                    let e = self.expr(value, Some(&ty));
                    self.coerce(&e, &ty, None);
                    match e.kind {
                        ExprKind::Array(parts) => ArrayInit::Elements(parts),
                        _ => ArrayInit::None,
                    }
                }
                _ => {
                    let e = self.expr(value, Some(&a.element));
                    if matches!(self.vars.shallow(&e.ty), Type::Array(_)) {
                        self.coerce(&e, &ty, None);
                        self.check_storable(&e, &ty);
                        ArrayInit::Copy(e)
                    } else {
                        if e.ty != a.element {
                            self.coerce(&e, &a.element, None);
                        }
                        ArrayInit::Fill(e)
                    }
                }
            },
        };
        let local = self.declare(name, ty.clone(), d.mutable, LocalKind::Var, Some(d.word()));
        self.keep_extents(local, &extents);
        self.without_value(local, d);
        Some(StmtKind::LocalArray { local, extents, init })
    }

    /// Marks a variable as uninitialized if its declaration has no value.
    fn without_value(&mut self, local: LocalId, d: &LetDeclaration<'_>) {
        if let (None, Some(info)) = (d.value, self.info.get_mut(local.index())) {
            info.uninitialized = true;
        }
    }

    /// Records the extent expressions of a local or shared array, unless all of them are literals.
    fn keep_extents(&mut self, local: LocalId, extents: &[Expr]) {
        if extents.iter().any(|e| !matches!(e.kind, ExprKind::Int(_))) {
            self.extents.insert(local, extents.to_vec());
        }
    }

    fn constant_extent(&mut self, e: &Expr) {
        if !is_constant(e) {
            let d = Diagnostic::error("E0314", "the size of a local array must be a constant")
                .at(e.span, "this is only known when the kernel runs")
                .help("use a `const`, or a const parameter of the kernel: `<const T: i32 = 16>`");
            self.report(d);
        }
    }

    /// Checks `let w = [0.25, 0.5, 0.25]` in device code, where it declares a local array.
    fn literal_array(&mut self, d: &LetDeclaration<'_>, value: &ast::Expr) -> Option<StmtKind> {
        let e = self.expr(value, None);
        let Some(name) = d.name() else {
            self.bind_pattern(d, d.pattern, &e.ty.clone());
            return None;
        };
        let ty = e.ty.clone();
        let local = self.declare(name, ty.clone(), d.mutable, LocalKind::Var, Some(d.word()));
        let (Type::Array(a), ExprKind::Array(parts)) = (&ty, e.kind) else { return None };
        let extents = a.dims.iter().map(|dim| {
            let n = if let Dim::Known(n) = dim { *n } else { 0 };
            make(ExprKind::Int(i128::from(n)), I32, e.span)
        });
        Some(StmtKind::LocalArray { local, extents: extents.collect(), init: ArrayInit::Elements(parts) })
    }

    pub(crate) fn bind_pattern(&mut self, d: &LetDeclaration<'_>, pattern: &ast::Pattern, ty: &Type) -> Pattern {
        match pattern {
            ast::Pattern::Name(name) if name.text == "_" => Pattern::Discard,
            ast::Pattern::Name(name) => {
                self.warn_hidden(name);
                if self.home == BodyKind::Script && self.scopes.is_outermost() {
                    return Pattern::Global(self.declare_global(name, ty.clone(), d));
                }
                let local = self.declare(name, ty.clone(), d.mutable, LocalKind::Var, Some(d.word()));
                if let Some(info) = self.local_info(local) {
                    info.int_literal = d.whole();
                }
                self.without_value(local, d);
                Pattern::Local(local)
            }
            ast::Pattern::Tuple(parts, span) => {
                let types = self.part_types(ty, parts.len(), *span, d.value);
                Pattern::Tuple(parts.iter().zip(&types).map(|(p, t)| self.bind_pattern(d, p, t)).collect())
            }
        }
    }

    fn declare_global(&mut self, name: &ast::Name, ty: Type, d: &LetDeclaration<'_>) -> GlobalId {
        let id = GlobalId::new(self.program.globals.len() + self.globals.len());
        self.globals.push(Global { name: name.text.clone(), ty, mutable: d.mutable, span: name.span });
        self.global_info.push(Info { keyword: Some(d.word()), int_literal: d.whole(), ..Info::default() });
        self.scopes.bind(name.text.clone(), LocalMeaning::Global(id));
        let kind = if d.mutable { DefinitionKind::Var } else { DefinitionKind::Let };
        self.record_variable(name, kind, NameTarget::Item(NameBinding::Global(id)));
        id
    }

    /// Warns about a variable that shadows a `var` of an outer block. Usually, an assignment was intended.
    fn warn_hidden(&mut self, name: &ast::Name) {
        let Some(LocalMeaning::Local(id)) = self.scopes.get(&name.text) else { return };
        if self.scopes.is_bound_here(&name.text) {
            return;
        }
        let Some(outer) = self.locals.get(id).filter(|l| l.mutable && l.kind == LocalKind::Var) else { return };
        let at = outer.span;
        let d = Diagnostic::warning("W0007", format!("this `{}` hides the variable of an outer block", name.text))
            .at(name.span, "a new variable, which ends with this block")
            .because(at, "this one keeps its value")
            .help(format!("to change the outer one, write `{} = …` without `let` or `var`", name.text));
        self.report(d);
    }

    fn shared(&mut self, name: &ast::Name, ty: &ast::Type, span: Span) -> Option<StmtKind> {
        match self.home {
            BodyKind::Kernel { threads: false } => {}
            BodyKind::Kernel { threads: true } => {
                self.need_device(span, "`shared`", true);
            }
            _ => {
                let d = Diagnostic::error("E0409", "`shared` memory belongs to a kernel")
                    .at(span, "there is no block here whose threads could share it")
                    .help("declare it in the kernel, and pass it to functions as an argument");
                self.report(d);
            }
        }
        let mut extents = Vec::new();
        let ty = self.ty(ty, &mut DimContext::Extents(&mut extents));
        for e in &extents {
            self.uniform(e, "the size of a `shared` array", "E0409");
        }
        let ty = match ty {
            ty @ (Type::Scalar(_) | Type::Vector(..) | Type::Struct(_) | Type::Tuple(_) | Type::Param(_)) => {
                match self.is_element(&ty, span) {
                    Ok(()) => array(ty, vec![]),
                    Err(_) => Type::Error,
                }
            }
            other => other,
        };
        let local = self.declare(name, ty, true, LocalKind::Shared, None);
        self.keep_extents(local, &extents);
        Some(StmtKind::Shared { local, extents })
    }

    /// Returns whether an expression is uniform (has the same value in all threads of the launch). Reports an error if
    /// it is not.
    pub fn uniform(&mut self, e: &Expr, what: &str, code: &'static str) -> bool {
        if self.is_uniform(e) {
            return true;
        }
        let d = Diagnostic::error(code, format!("{what} must be the same for the whole launch"))
            .at(e.span, "only constants, dimensions and scalar parameters are allowed here");
        let mut names_block = false;
        crate::visit::expr(e, &mut |e| names_block |= matches!(e.kind, ExprKind::Variable(Builtin::BlockDim)));
        self.report(match names_block {
            true => d.help("give the size of the block a name: `kernel k<const T: i32 = 32>(…) grid(…) block(T)`"),
            false => d.help("take the largest size that can be needed: a `const`, or a const parameter of the kernel"),
        });
        false
    }

    fn is_uniform(&self, e: &Expr) -> bool {
        match &e.kind {
            ExprKind::Int(_)
            | ExprKind::Float(_)
            | ExprKind::Bool(_)
            | ExprKind::Const(_)
            | ExprKind::ConstParam(_)
            | ExprKind::Dim(_)
            | ExprKind::Error => true,
            ExprKind::Local(id) => self.locals.get(*id).is_some_and(|l| matches!(l.kind, LocalKind::Param(_))),
            ExprKind::Unary { expr, .. } | ExprKind::Convert { expr, .. } => self.is_uniform(expr),
            ExprKind::Field { base, .. } | ExprKind::TupleField { base, .. } | ExprKind::Swizzle { base, .. } => {
                self.is_uniform(base)
            }
            ExprKind::Binary { left, right, .. } => self.is_uniform(left) && self.is_uniform(right),
            ExprKind::Builtin { builtin, args, .. } => {
                matches!(builtin, Builtin::Math(_) | Builtin::CeilDiv | Builtin::Select | Builtin::Len | Builtin::Shape)
                    && args.iter().all(|a| self.is_uniform(a))
            }
            _ => false,
        }
    }

    // Loops and jumps

    fn loop_body(&mut self, body: &ast::Block) -> (Block, bool) {
        let outer = self.loops.enter();
        let (body, _) = self.block(body, false, None);
        (body, self.loops.leave(outer))
    }

    fn for_loop(
        &mut self,
        pattern: &ast::Pattern,
        iter: &ast::Expr,
        body: &ast::Block,
        unroll: ast::Unroll,
    ) -> StmtKind {
        let before = self.divergence.varying_reads;
        let begin = self.vars.begin_statement();
        let (iterated, ty) = self.iterated(iter);
        self.vars.end_statement(begin);
        let varying = self.divergence.varying_reads != before;
        self.scopes.open(body.span);
        let (id, unpacked) = match pattern {
            ast::Pattern::Name(name) => (self.declare(name, ty, false, LocalKind::Loop, None), None),
            ast::Pattern::Tuple(parts, span) => {
                let (id, unpacked) = self.unpack_element(pattern, parts.len(), *span, iter, ty, varying);
                (id, Some(unpacked))
            }
        };
        if let Some(info) = self.local_info(id) {
            info.varying = varying;
        }
        self.divergence.enter(iter.span, Fork::For, before);
        let (mut body, _) = self.loop_body(body);
        body.stmts.splice(0..0, unpacked);
        self.divergence.leave();
        self.scopes.close();
        StmtKind::For { var: id, iter: iterated, body: Box::new(body), unroll }
    }

    fn iterated(&mut self, iter: &ast::Expr) -> (Expr, Type) {
        match &bare(iter).kind {
            Ast::Range { start, end, inclusive, step } => {
                if end.is_none() {
                    let d = Diagnostic::error("E0321", "this range has no end")
                        .at(iter.span, "the loop would not know where to stop");
                    self.report(d.help("write `0..n`, or use `loop` with a `break`"));
                }
                return self.range(start.as_deref(), end.as_deref(), *inclusive, step.as_deref(), iter.span);
            }
            Ast::Array(parts) => {
                let e = self.array_literal(parts, iter.span, None);
                let ty = match &e.ty {
                    Type::Array(a) if a.dims.len() == 1 => a.element.clone(),
                    Type::Strings => Type::Str,
                    Type::Unknown => Type::Unknown,
                    Type::Error => Type::Error,
                    _ => self.not_iterable(&e),
                };
                return (e, ty);
            }
            _ => {}
        }
        let e = self.expr(iter, None);
        let ty = match self.vars.shallow(&e.ty) {
            Type::Array(a) if a.dims.len() == 1 => a.element.clone(),
            Type::Range => I32,
            Type::Strings | Type::Str => Type::Str,
            Type::Unknown => Type::Unknown,
            Type::Error => Type::Error,
            _ => self.not_iterable(&e),
        };
        (e, ty)
    }

    fn not_iterable(&mut self, e: &Expr) -> Type {
        let actual = self.ty_text(&e.ty);
        let mut d = Diagnostic::error("E0321", format!("a loop can't go through `{actual}`"))
            .at(e.span, format!("this is `{actual}`"));
        d = match self.vars.shallow(&e.ty) {
            ty if self.vars.scalar_kind(&ty) == Some(TypeClass::Int) || self.vars.kind(&ty).is_some() => d.fix(
                "loop over the numbers below it",
                Span { end: e.span.start, ..e.span },
                "0..",
                Applicability::MaybeIncorrect,
            ),
            Type::Array(_) => d.help("loop over its indices: `for i in 0..len(x) { … x[i, j] … }`"),
            _ => d.help("a loop goes through a range `a..b` or an array of one axis"),
        };
        self.report(d);
        Type::Error
    }

    fn return_value(&mut self, value: Option<&ast::Expr>, span: Span) -> Option<Expr> {
        let Some(result) = self.result.clone() else {
            let e = value.map(|v| self.expr(v, None));
            let d = if self.in_kernel() {
                e.as_ref()?;
                Diagnostic::error("E0301", "a kernel gives its results through `out` arrays")
                    .at(span, "a kernel returns no value")
                    .help("declare a parameter `out r: [f32; N]`, and write `r[i] = …`")
            } else {
                Diagnostic::error("E0322", "`return` outside of a function").at(span, "there is nothing to return from")
            };
            self.report(d);
            return e;
        };
        match value {
            Some(v) if result == Type::Unit && self.missing_result.is_some() => {
                let e = self.expr(v, None);
                let ty = self.vars.shallow(&e.ty);
                if !matches!(ty, Type::Unit | Type::Never | Type::Error | Type::Unknown) {
                    let d = Diagnostic::error("E0301", "this function has no result type, but returns a value")
                        .at(e.span, format!("this is `{}`", self.ty_text(&ty)));
                    let d = self.result_type_fix(d, &ty);
                    self.report(d);
                }
                Some(e)
            }
            Some(v) => Some(self.expr_as(v, &result)),
            None => {
                if !matches!(result, Type::Unit | Type::Error) {
                    let text = self.ty_text(&result);
                    let d =
                        Diagnostic::error("E0310", format!("this function gives `{text}`, so `return` needs a value"))
                            .at(span, "nothing is returned here");
                    self.report(d);
                }
                None
            }
        }
    }

    fn on_device(&mut self, e: &ast::Expr) -> OnDevice {
        match &bare(e).kind {
            Ast::Name(n) if n.text == "sim" || n.text == "cpu" => return OnDevice::Sim(None),
            Ast::Name(n) if n.text == "gpu" => return OnDevice::Gpu(None),
            Ast::Call { callee, args } => {
                if let (Ast::Name(n), [arg]) = (&bare(callee).kind, args.as_slice())
                    && (n.text == "gpu" || n.text == "sim")
                {
                    let number = Some(Box::new(self.expr_as(&arg.value, &I32)));
                    return if n.text == "gpu" { OnDevice::Gpu(number) } else { OnDevice::Sim(number) };
                }
            }
            _ => {}
        }
        let d = Diagnostic::error("E0413", "this is not a device")
            .at(e.span, "`sim`, `gpu`, `gpu(i)` or `sim(i)` was expected");
        self.report(d);
        OnDevice::Sim(None)
    }

    // Bodies

    /// Checks the body of a function. Its last expression is the result of the function.
    pub fn function_body(&mut self, body: &ast::Block, result: &Type, result_span: Span) -> Block {
        if *result == Type::Unit {
            let before = self.diagnostics.len();
            let block = self.block(body, false, None).0;
            self.suggest_result_type(&block, before);
            return block;
        }
        let (block, ty) = self.block(body, true, Some(result));
        // The value may be in a statement that failed to parse.
        let broken = matches!(body.stmts.last().map(|s| &s.kind), Some(ast::StmtKind::Error)) && body.tail.is_none();
        match (&block.tail, &ty) {
            _ if broken => {}
            (_, Type::Never | Type::Error) => {}
            (Some(tail), _) if !(ty == Type::Unit && *result != Type::Error) => {
                let text = self.ty_text(result);
                self.coerce_to_declared(tail, result, Some((result_span, format!("the function gives `{text}`"))));
            }
            (_, _) if *result != Type::Error => {
                let text = self.ty_text(result);
                let d = Diagnostic::error("E0310", format!("this function gives `{text}`, but its end gives nothing"));
                let end = Span { start: body.span.end.saturating_sub(1), ..body.span };
                let d = match block.stmts.last().map(|s| &s.kind) {
                    Some(StmtKind::Expr { expr: value, .. }) if self.vars.shallow(&value.ty) != Type::Unit => d
                        .at(value.span, "without the `;` after it, this would be the value")
                        .help("remove the `;` after the last expression"),
                    _ => {
                        d.at(end, "a value is missing here").help("end the body with the value, or with `return value`")
                    }
                };
                self.report(d.because(result_span, "declared here"));
            }
            _ => {}
        }
        block
    }
}

fn gives_value(then: &ast::Block, other: Option<&ast::Expr>) -> bool {
    then.tail.is_some()
        && match other.map(|o| &o.kind) {
            Some(Ast::Block(b)) => b.tail.is_some(),
            Some(Ast::If { then, other, .. }) => gives_value(then, other.as_deref()),
            Some(_) => true,
            None => false,
        }
}
