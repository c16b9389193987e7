//! Types of a file's expressions and variables by location, collected from the typed tree.

use rustc_hash::FxHashMap;

use clk_base::source::{FileId, Span};
use clk_check::typed::*;
use clk_check::visit::{self, Visit};
use clk_lower::ConstEvaluator;

/// The definition whose dimensions and type parameters a type refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TypeOwner {
    Fn(FnId),
    Kernel(KernelId),
    None,
}

impl TypeOwner {
    pub fn signature(self, program: &Program) -> Option<&Signature> {
        match self {
            TypeOwner::Fn(id) => program.fns.get(id).map(|f| &f.sig),
            TypeOwner::Kernel(id) => program.kernels.get(id).map(|k| &k.sig),
            TypeOwner::None => None,
        }
    }
}

/// A `shared` array: its location, its element type, and its constant extents.
pub(crate) struct SharedArrayType {
    pub span: Span,
    pub element: Type,
    pub extents: Vec<Option<i64>>,
}

#[derive(Default)]
pub(crate) struct Types {
    /// Types of expressions, and of variables at their declarations. If expressions have the same range, the outermost
    /// one wins.
    places: FxHashMap<(u32, u32), (Type, OwnerIndex)>,
    owners: Vec<TypeOwner>,
    pub shared: Vec<SharedArrayType>,
    /// Globals and locals declared by `let` and `var`.
    pub variables: Vec<Span>,
}

type OwnerIndex = u32;

impl Types {
    /// Collects the types of the expressions and variables in one file of a program.
    pub fn read(program: &Program, file: FileId) -> Types {
        let mut walk = TypeCollector { program, file, types: Types::default(), locals: None };
        walk.program();
        walk.types
    }

    pub fn get(&self, span: Span) -> Option<(&Type, TypeOwner)> {
        let (ty, owner) = self.places.get(&(span.start, span.end))?;
        Some((ty, self.owners.get(*owner as usize).copied().unwrap_or(TypeOwner::None)))
    }

    /// Returns the smallest expression around an offset.
    pub fn smallest_around(&self, offset: u32) -> Option<(u32, u32)> {
        let contains = |&&(start, end): &&(u32, u32)| start <= offset && offset < end.max(start + 1);
        self.places.keys().filter(contains).min_by_key(|(start, end)| end - start).copied()
    }
}

/// Formats a type as diagnostics do.
pub(crate) fn show_type(program: &Program, ty: &Type, owner: TypeOwner) -> String {
    clk_check::show_type(program, owner.signature(program), ty)
}

struct TypeCollector<'p> {
    program: &'p Program,
    file: FileId,
    types: Types,
    locals: Option<&'p Body>,
}

impl<'p> TypeCollector<'p> {
    fn program(&mut self) {
        let (program, file) = (self.program, self.file);
        for (id, f) in program.fns.iter().filter(|(_, f)| f.span.file == file) {
            self.owner(TypeOwner::Fn(id));
            self.signature(&f.sig);
            if let Some(body) = &f.body {
                self.body(body);
            }
        }
        for (id, k) in program.kernels.iter().filter(|(_, k)| k.span.file == file) {
            self.owner(TypeOwner::Kernel(id));
            self.signature(&k.sig);
            let lists: [&[Expr]; 2] = match &k.geometry {
                Geometry::Threads { extents, block, .. } => [extents, block.as_deref().unwrap_or(&[])],
                Geometry::Grid { grid, block, .. } => [grid, block],
            };
            if let Some(body) = &k.body {
                self.body(body);
            }
            k.assumes.iter().flat_map(|assume| assume.exprs()).for_each(|e| self.visit_expr(e));
            lists.into_iter().flatten().for_each(|e| self.visit_expr(e));
        }
        self.owner(TypeOwner::None);
        for (_, c) in program.consts.iter().filter(|(_, c)| c.span.file == file) {
            self.visit_expr(&c.value);
            self.add(c.span, &c.ty);
        }
        for (_, s) in program.structs.iter().filter(|(_, s)| s.span.file == file) {
            s.fields.iter().for_each(|f| self.add(f.span, &f.ty));
        }
        for (_, g) in program.globals.iter().filter(|(_, g)| g.span.file == file) {
            self.add(g.span, &g.ty);
            self.types.variables.push(g.span);
        }
        for chunk in program.chunks.iter().filter(|c| c.body.root.span.file == file) {
            self.body(&chunk.body);
        }
        for (_, section) in program.tests.iter().chain(program.benches.iter()) {
            if section.span.file == file {
                section.rates.iter().for_each(|(_, e)| self.visit_expr(e));
                self.body(&section.body);
            }
        }
    }

    fn owner(&mut self, owner: TypeOwner) {
        self.types.owners.push(owner);
    }

    fn add(&mut self, span: Span, ty: &Type) {
        if span.file == self.file {
            let owner = self.types.owners.len().saturating_sub(1) as u32;
            self.types.places.insert((span.start, span.end), (ty.clone(), owner));
        }
    }

    fn signature(&mut self, sig: &'p Signature) {
        sig.dim_exprs.iter().for_each(|e| self.visit_expr(e));
        let int = Type::Scalar(clk_scalar::Scalar::I32);
        sig.dims.iter().for_each(|d| self.add(d.span, &int));
    }

    fn body(&mut self, body: &'p Body) {
        self.locals = Some(body);
        for (_, local) in body.locals.iter() {
            self.add(local.span, &local.ty);
            if local.kind == LocalKind::Var {
                self.types.variables.push(local.span);
            }
        }
        self.visit_block(&body.root);
    }

    fn shared(&mut self, local: LocalId, extents: &[Expr]) {
        let Some(local) = self.locals.and_then(|body| body.locals.get(local)) else { return };
        let element = match &local.ty {
            Type::Array(array) => array.element.clone(),
            other => other.clone(),
        };
        let extents = extents.iter().map(|e| constant(self.program, e)).collect();
        self.types.shared.push(SharedArrayType { span: local.span, element, extents });
    }
}

impl<'p> Visit<'p> for TypeCollector<'p> {
    fn visit_stmt(&mut self, stmt: &'p Stmt) {
        if let StmtKind::Shared { local, extents } = &stmt.kind {
            self.shared(*local, extents);
        }
        visit::walk_stmt(self, stmt);
    }

    fn visit_expr(&mut self, e: &'p Expr) {
        visit::walk_expr(self, e);
        self.add(e.span, &e.ty);
    }

    /// The calls in a rule have no text of their own.
    fn visit_rule(&mut self, _: &'p Rule) {}
}

/// Evaluates a constant integer expression.
fn constant(program: &Program, e: &Expr) -> Option<i64> {
    let value = ConstEvaluator::new(program, &[]).evaluate(e).ok()?;
    value.as_integer()?.try_into().ok()
}

/// Returns the size in bytes of an array element; `None` if the type alone does not determine it.
pub(crate) fn element_size(program: &Program, ty: &Type) -> Option<u64> {
    let layout = clk_lower::layout(program, ty).ok()?;
    Some(layout.size as u64)
}
