//! Types of a file's expressions and variables by location, collected from the typed tree.

use rustc_hash::FxHashMap;

use crate::base::source::{FileId, Span};
use crate::check::{self, typed::*};
use crate::lower::{self, Constants};

/// The definition whose dimension and type names a type refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    Fn(FnId),
    Kernel(KernelId),
    None,
}

impl Owner {
    pub fn signature(self, program: &Program) -> Option<&Signature> {
        match self {
            Owner::Fn(id) => program.fns.get(id).map(|f| &f.sig),
            Owner::Kernel(id) => program.kernels.get(id).map(|k| &k.sig),
            Owner::None => None,
        }
    }
}

/// A `shared` array: its location, and its extents where they are constant.
pub(crate) struct Shared {
    pub span: Span,
    pub element: Type,
    pub extents: Vec<Option<i64>>,
}

#[derive(Default)]
pub(crate) struct Types {
    /// Types of expressions, and of variables at their declarations. The last entry for a range wins, which is the outermost
    /// expression.
    places: FxHashMap<(u32, u32), (Type, OwnerIndex)>,
    owners: Vec<Owner>,
    pub shared: Vec<Shared>,
    /// Globals and locals declared by `let` and `var`.
    pub variables: Vec<Span>,
}

type OwnerIndex = u32;

impl Types {
    /// Collects the types in one file of a program.
    pub fn read(program: &Program, file: FileId) -> Types {
        let mut walk = Walk { program, file, types: Types::default(), locals: None };
        walk.program();
        walk.types
    }

    pub fn of(&self, span: Span) -> Option<(&Type, Owner)> {
        let (ty, owner) = self.places.get(&(span.start, span.end))?;
        Some((ty, self.owners.get(*owner as usize).copied().unwrap_or(Owner::None)))
    }

    /// Returns the smallest expression around an offset.
    pub fn around(&self, offset: u32) -> Option<(u32, u32)> {
        let holds = |&&(start, end): &&(u32, u32)| start <= offset && offset < end.max(start + 1);
        self.places.keys().filter(holds).min_by_key(|(start, end)| end - start).copied()
    }
}

/// Formats a type as in messages.
pub(crate) fn shown(program: &Program, ty: &Type, owner: Owner) -> String {
    check::show_type(program, owner.signature(program), ty)
}

struct Walk<'p> {
    program: &'p Program,
    file: FileId,
    types: Types,
    locals: Option<&'p Body>,
}

impl<'p> Walk<'p> {
    fn program(&mut self) {
        let (program, file) = (self.program, self.file);
        for (id, f) in program.fns.iter().filter(|(_, f)| f.span.file == file) {
            self.owner(Owner::Fn(id));
            self.signature(&f.sig);
            if let Some(body) = &f.body {
                self.body(body);
            }
        }
        for (id, k) in program.kernels.iter().filter(|(_, k)| k.span.file == file) {
            self.owner(Owner::Kernel(id));
            self.signature(&k.sig);
            let lists: [&[Expr]; 2] = match &k.geometry {
                Geometry::Threads { extents, block, .. } => [extents, block.as_deref().unwrap_or(&[])],
                Geometry::Grid { grid, block, .. } => [grid, block],
            };
            if let Some(body) = &k.body {
                self.body(body);
            }
            k.assumes.iter().flat_map(|assume| assume.exprs()).for_each(|e| self.expr(e));
            lists.into_iter().flatten().for_each(|e| self.expr(e));
        }
        self.owner(Owner::None);
        for (_, c) in program.consts.iter().filter(|(_, c)| c.span.file == file) {
            self.expr(&c.value);
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
                section.rates.iter().for_each(|(_, e)| self.expr(e));
                self.body(&section.body);
            }
        }
    }

    fn owner(&mut self, owner: Owner) {
        self.types.owners.push(owner);
    }

    fn add(&mut self, span: Span, ty: &Type) {
        if span.file == self.file {
            let owner = self.types.owners.len().saturating_sub(1) as u32;
            self.types.places.insert((span.start, span.end), (ty.clone(), owner));
        }
    }

    fn signature(&mut self, sig: &'p Signature) {
        sig.dim_exprs.iter().for_each(|e| self.expr(e));
        let int = Type::Scalar(crate::lang::scalar::Scalar::I32);
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
        self.block(&body.root);
    }

    fn block(&mut self, block: &'p Block) {
        block.stmts.iter().for_each(|s| self.stmt(s));
        if let Some(tail) = &block.tail {
            self.expr(tail);
        }
    }

    fn stmt(&mut self, stmt: &'p Stmt) {
        match &stmt.kind {
            StmtKind::Let { value, .. } | StmtKind::Return(value) => value.iter().for_each(|e| self.expr(e)),
            StmtKind::LocalArray { extents, init, .. } => {
                extents.iter().for_each(|e| self.expr(e));
                match init {
                    ArrayInit::None => {}
                    ArrayInit::Fill(e) | ArrayInit::Copy(e) => self.expr(e),
                    ArrayInit::Elements(es) => es.iter().for_each(|e| self.expr(e)),
                }
            }
            StmtKind::Shared { local, extents } => {
                self.shared(*local, extents);
                extents.iter().for_each(|e| self.expr(e));
            }
            StmtKind::Assign { place, value, .. } => {
                self.expr(place);
                self.expr(value);
            }
            StmtKind::Expr { expr, .. } => self.expr(expr),
            StmtKind::For { iter, body, .. } => {
                self.expr(iter);
                self.block(body);
            }
            StmtKind::While { cond, body, .. } => {
                self.expr(cond);
                self.block(body);
            }
            StmtKind::Loop { body } | StmtKind::Batch { body } => self.block(body),
            StmtKind::On { device, body } => {
                if let Some(e) = device.number() {
                    self.expr(e);
                }
                self.block(body);
            }
            StmtKind::Break | StmtKind::Continue => {}
        }
    }

    fn shared(&mut self, local: LocalId, extents: &[Expr]) {
        let Some(local) = self.locals.and_then(|body| body.locals.get(local)) else { return };
        let element = match &local.ty {
            Type::Array(array) => array.element.clone(),
            other => other.clone(),
        };
        let extents = extents.iter().map(|e| constant(self.program, e)).collect();
        self.types.shared.push(Shared { span: local.span, element, extents });
    }

    fn exprs(&mut self, list: &'p [Expr]) {
        list.iter().for_each(|e| self.expr(e));
    }

    fn expr(&mut self, e: &'p Expr) {
        match &e.kind {
            ExprKind::Unary { expr, .. }
            | ExprKind::Convert { expr, .. }
            | ExprKind::ConvertParam { expr, .. }
            | ExprKind::Bitcast { expr } => self.expr(expr),
            ExprKind::Binary { left, right, .. } => {
                self.expr(left);
                self.expr(right);
            }
            ExprKind::Swizzle { base, .. }
            | ExprKind::Field { base, .. }
            | ExprKind::TupleField { base, .. }
            | ExprKind::DynField { base, .. } => self.expr(base),
            ExprKind::Index { base, indices } => {
                self.expr(base);
                self.exprs(indices);
            }
            ExprKind::Slice { base, indices } => {
                self.expr(base);
                for index in indices {
                    match index {
                        SliceIndex::At(e) | SliceIndex::Of(e) => self.expr(e),
                        SliceIndex::Range { start, end, step, .. } => {
                            [start, end, step].into_iter().flatten().for_each(|e| self.expr(e));
                        }
                    }
                }
            }
            ExprKind::Call { args, .. } | ExprKind::Lift { args, .. } => self.exprs(args),
            ExprKind::Stated(stated) => self.exprs(&stated.args),
            ExprKind::Derive(derive) => {
                self.expr(&derive.of);
                derive.seed.iter().for_each(|seed| self.expr(seed));
            }
            ExprKind::Builtin { args, named, .. } => {
                self.exprs(args);
                named.iter().for_each(|(_, e)| self.expr(e));
            }
            ExprKind::Launch(launch) => {
                launch.args.iter().flatten().for_each(|e| self.expr(e));
                launch.dims.iter().for_each(|(_, e)| self.expr(e));
                [&launch.grid, &launch.block].into_iter().flatten().for_each(|e| self.expr(e));
            }
            ExprKind::Range { start, end, step, .. } => {
                [start, end, step].into_iter().flatten().for_each(|e| self.expr(e));
            }
            ExprKind::If { cond, then, other } => {
                self.expr(cond);
                self.block(then);
                other.iter().for_each(|b| self.block(b));
            }
            ExprKind::Block(block) | ExprKind::Time(block) => self.block(block),
            ExprKind::Vector { parts } => self.exprs(parts),
            ExprKind::Tuple(parts) | ExprKind::Array(parts) => self.exprs(parts),
            ExprKind::Struct { fields, .. } => self.exprs(fields),
            ExprKind::Str(parts) => {
                for part in parts {
                    if let StrPart::Value { expr, .. } = part {
                        self.expr(expr);
                    }
                }
            }
            ExprKind::Int(_)
            | ExprKind::Float(_)
            | ExprKind::Bool(_)
            | ExprKind::Local(_)
            | ExprKind::Global(_)
            | ExprKind::Const(_)
            | ExprKind::ConstParam(_)
            | ExprKind::Dim(_)
            | ExprKind::Variable(_)
            | ExprKind::Error => {}
        }
        self.add(e.span, &e.ty);
    }
}

/// Evaluates a constant integer expression.
fn constant(program: &Program, e: &Expr) -> Option<i64> {
    let value = Constants::new(program, &[]).evaluate(e).ok()?;
    value.as_integer()?.try_into().ok()
}

/// Returns the size in bytes of a value in an array; `None` if it depends on more than the type.
pub(crate) fn bytes(program: &Program, ty: &Type) -> Option<u64> {
    let layout = lower::layout(program, ty).ok()?;
    Some(layout.size as u64)
}
