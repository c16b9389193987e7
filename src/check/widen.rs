//! A program's twin in `f64`: every float of a smaller type, in types, conversions and literals, has become one.
//!
//! Input is a program without errors, output the twin, whose items have the same ids. Integers stay. Random numbers are drawn in their
//! own type and widened, so that they are the same. [`survey`] says what cannot be widened of what a function reaches.

use std::collections::HashSet;
use std::sync::Arc;

use crate::base::source::Span;
use crate::check::typed::*;
use crate::check::walk;
use crate::lang::builtin::Builtin;
use crate::lang::scalar::Scalar;

/// What a function and all that it calls compute with.
pub struct Survey {
    /// The float type of the fewest digits.
    pub narrowest: Scalar,
    /// What has no counterpart in `f64`, and where it is.
    pub obstacle: Option<(Span, String)>,
    /// A value in a kernel that derivatives take as a constant.
    pub held: Option<Span>,
}

/// Returns a float type's twin; other types stay.
pub fn scalar(ty: Scalar) -> Scalar {
    if ty.is_float() { Scalar::F64 } else { ty }
}

/// Returns a type's twin.
pub fn ty(ty: &Type) -> Type {
    match ty {
        Type::Scalar(s) => Type::Scalar(scalar(*s)),
        Type::Vector(s, lanes) => Type::Vector(scalar(*s), *lanes),
        Type::Array(array) => {
            Type::Array(Arc::new(ArrayType { element: self::ty(&array.element), dims: array.dims.clone() }))
        }
        Type::Tuple(parts) => Type::Tuple(parts.iter().map(self::ty).collect()),
        Type::Fn(function) => Type::Fn(Arc::new(FnType {
            params: function.params.iter().map(self::ty).collect(),
            result: self::ty(&function.result),
        })),
        other => other.clone(),
    }
}

/// Returns the twin of a program.
pub fn program(program: &Program) -> Program {
    let mut twin = program.clone();
    for (_, of) in twin.structs.iter_mut() {
        of.fields.iter_mut().for_each(|field| field.ty = ty(&field.ty));
    }
    for (_, constant) in twin.consts.iter_mut() {
        constant.ty = ty(&constant.ty);
        expr(Arc::make_mut(&mut constant.value));
    }
    for (_, function) in twin.fns.iter_mut() {
        signature(&mut function.sig);
        function.result = ty(&function.result);
        function.body.iter_mut().for_each(|body| self::body(Arc::make_mut(body)));
    }
    for (_, kernel) in twin.kernels.iter_mut() {
        signature(&mut kernel.sig);
        let (extents, more) = match &mut kernel.geometry {
            Geometry::Threads { extents, block, .. } => (extents, block.as_mut()),
            Geometry::Grid { grid, block, .. } => (grid, Some(block)),
        };
        all(extents);
        more.into_iter().for_each(|block| all(block));
        kernel.body.iter_mut().for_each(|body| self::body(Arc::make_mut(body)));
    }
    twin
}

/// Returns the twin of a derivative that is taken.
pub fn derive(derive: &Derive) -> Derive {
    let mut twin = derive.clone();
    expr(&mut twin.of);
    twin
}

fn signature(sig: &mut Signature) {
    for param in &mut sig.params {
        param.ty = ty(&param.ty);
    }
    for generic in &mut sig.generics {
        match &mut generic.kind {
            GenericKind::Type { .. } => {}
            GenericKind::Const { ty: of, default } => {
                *of = ty(of);
                default.iter_mut().for_each(|default| expr(Arc::make_mut(default)));
            }
            GenericKind::Fn { ty: of, default } => {
                if let Type::Fn(wide) = ty(&Type::Fn(of.clone())) {
                    *of = wide;
                }
                default.iter_mut().for_each(callee);
            }
        }
    }
    sig.dim_exprs.iter_mut().for_each(|e| expr(Arc::make_mut(e)));
}

fn body(body: &mut Body) {
    for (_, local) in body.locals.iter_mut() {
        local.ty = ty(&local.ty);
    }
    block(&mut body.root);
}

fn block(b: &mut Block) {
    b.stmts.iter_mut().for_each(stmt);
    b.tail.iter_mut().for_each(|tail| expr(tail));
}

fn stmt(s: &mut Stmt) {
    match &mut s.kind {
        StmtKind::Let { value, declared, .. } => {
            value.iter_mut().for_each(expr);
            if let Some(declared) = declared {
                declared.ty = ty(&declared.ty);
                for extent in &mut declared.extents {
                    if let Extent::Is(e) = extent {
                        expr(e);
                    }
                }
            }
        }
        StmtKind::LocalArray { extents, init, .. } => {
            all(extents);
            match init {
                ArrayInit::None => {}
                ArrayInit::Fill(e) | ArrayInit::Copy(e) => expr(e),
                ArrayInit::Elements(es) => all(es),
            }
        }
        StmtKind::Shared { extents, .. } => all(extents),
        StmtKind::Assign { place, value, .. } => {
            expr(place);
            expr(value);
        }
        StmtKind::Expr { expr: e, .. } => expr(e),
        StmtKind::For { iter, body, .. } => {
            expr(iter);
            block(body);
        }
        StmtKind::While { cond, body, .. } => {
            expr(cond);
            block(body);
        }
        StmtKind::Loop { body } | StmtKind::Batch { body } | StmtKind::On { body, .. } => block(body),
        StmtKind::Break | StmtKind::Continue => {}
        StmtKind::Return(value) => value.iter_mut().for_each(expr),
    }
}

fn all(es: &mut [Expr]) {
    es.iter_mut().for_each(expr);
}

fn expr(e: &mut Expr) {
    let narrow = std::mem::replace(&mut e.ty, Type::Unit);
    e.ty = ty(&narrow);
    match &mut e.kind {
        ExprKind::Builtin { builtin: Builtin::Random | Builtin::RandomNormal, args, named } => {
            all(args);
            named.iter_mut().for_each(|(_, e)| expr(e));
            let own = Expr { kind: std::mem::replace(&mut e.kind, ExprKind::Error), ty: narrow, span: e.span };
            e.kind = ExprKind::Convert { to: Scalar::F64, expr: Box::new(own) };
        }
        ExprKind::Convert { to, expr: e } => {
            *to = scalar(*to);
            expr(e);
        }
        ExprKind::Str(parts) => {
            for part in parts {
                if let StrPart::Value { expr: e, .. } = part {
                    expr(e);
                }
            }
        }
        ExprKind::Unary { expr: e, .. }
        | ExprKind::ConvertParam { expr: e, .. }
        | ExprKind::Bitcast { expr: e }
        | ExprKind::Swizzle { base: e, .. }
        | ExprKind::Field { base: e, .. }
        | ExprKind::TupleField { base: e, .. }
        | ExprKind::DynField { base: e, .. } => expr(e),
        ExprKind::Binary { left, right, .. } => {
            expr(left);
            expr(right);
        }
        ExprKind::Vector { parts: es }
        | ExprKind::Tuple(es)
        | ExprKind::Array(es)
        | ExprKind::Struct { fields: es, .. } => all(es),
        ExprKind::Index { base, indices } => {
            expr(base);
            all(indices);
        }
        ExprKind::Slice { base, indices } => {
            expr(base);
            for index in indices {
                match index {
                    SliceIndex::At(e) | SliceIndex::Of(e) => expr(e),
                    SliceIndex::Range { start, end, step, .. } => {
                        [start, end, step].into_iter().flatten().for_each(expr);
                    }
                }
            }
        }
        ExprKind::Call { callee: f, args } | ExprKind::Lift { callee: f, args } => {
            callee(f);
            all(args);
        }
        ExprKind::Derive(derive) => {
            expr(&mut derive.of);
            derive.seed.iter_mut().for_each(expr);
        }
        ExprKind::Stated(stated) => {
            all(&mut stated.args);
            let rule = Arc::make_mut(&mut stated.rule);
            expr(&mut rule.of);
            expr(&mut rule.back);
        }
        ExprKind::Builtin { args, named, .. } => {
            all(args);
            named.iter_mut().for_each(|(_, e)| expr(e));
        }
        ExprKind::Launch(launch) => {
            generics(&mut launch.generics);
            launch.args.iter_mut().flatten().for_each(expr);
            launch.dims.iter_mut().for_each(|(_, e)| expr(e));
            [&mut launch.grid, &mut launch.block].into_iter().flatten().for_each(expr);
        }
        ExprKind::Range { start, end, step, .. } => {
            [start, end, step].into_iter().flatten().for_each(|e| expr(e));
        }
        ExprKind::If { cond, then, other } => {
            expr(cond);
            block(then);
            other.iter_mut().for_each(|b| block(b));
        }
        ExprKind::Block(b) | ExprKind::Time(b) => block(b),
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
}

fn callee(f: &mut FnRef) {
    if let FnRef::Fn { generics: given, .. } = f {
        generics(given);
    }
}

fn generics(given: &mut [GenericArg]) {
    for argument in given {
        match argument {
            GenericArg::Type(of) => *of = ty(of),
            GenericArg::Const(e) => expr(e),
            GenericArg::Fn(f) => callee(f),
            GenericArg::Error | GenericArg::Infer => {}
        }
    }
}

/// Looks at everything that an expression reaches.
pub fn survey(program: &Program, of: &Expr) -> Survey {
    let mut walker = Walker::new(program);
    walk::expr(of, &mut |e| walker.look(e, false));
    walker.finish()
}

/// Looks at everything that a kernel reaches.
pub fn survey_kernel(program: &Program, id: KernelId) -> Survey {
    let mut walker = Walker::new(program);
    walker.enter(program.kernels.get(id).and_then(|kernel| kernel.body.clone()), true);
    walker.finish()
}

struct Walker<'p> {
    program: &'p Program,
    seen: HashSet<(*const Body, bool)>,
    survey: Survey,
    /// With whether a kernel runs them.
    open: Vec<(Arc<Body>, bool)>,
}

impl<'p> Walker<'p> {
    fn new(program: &'p Program) -> Self {
        let survey = Survey { narrowest: Scalar::F64, obstacle: None, held: None };
        Walker { program, seen: HashSet::new(), survey, open: vec![] }
    }

    /// Looks at all bodies that were found.
    fn finish(mut self) -> Survey {
        while let Some((body, is_device)) = self.open.pop() {
            for (_, local) in body.locals.iter() {
                self.note(&local.ty);
            }
            walk::exprs(&body.root, &mut |e| self.look(e, is_device));
        }
        self.survey
    }

    fn look(&mut self, e: &Expr, is_device: bool) {
        self.note(&e.ty);
        match &e.kind {
            ExprKind::Bitcast { expr } if has_float(&e.ty) || has_float(&expr.ty) => {
                self.object(e.span, "the bits of a float of another type are others");
            }
            ExprKind::Call { callee, .. } => self.reach(callee, is_device),
            ExprKind::Lift { callee, .. } => self.reach(callee, true),
            ExprKind::Launch(launch) => {
                self.reach_all(&launch.generics, true);
                let body = self.program.kernels.get(launch.kernel).and_then(|kernel| kernel.body.clone());
                self.enter(body, true);
            }
            ExprKind::Builtin { builtin: Builtin::Load, .. } => {
                self.object(e.span, "the types of what a file holds are known when it is read");
            }
            ExprKind::Builtin { builtin: Builtin::NoGrad, .. } if is_device && has_float(&e.ty) => {
                self.survey.held.get_or_insert(e.span);
            }
            _ => {}
        }
    }

    fn object(&mut self, span: Span, why: &str) {
        self.survey.obstacle.get_or_insert_with(|| (span, why.to_string()));
    }

    fn reach(&mut self, callee: &FnRef, is_device: bool) {
        if let FnRef::Fn { id, generics } = callee {
            self.reach_all(generics, is_device);
            let body = self.program.fns.get(*id).and_then(|function| function.body.clone());
            self.enter(body, is_device);
        }
    }

    fn reach_all(&mut self, given: &[GenericArg], is_device: bool) {
        for argument in given {
            match argument {
                GenericArg::Fn(callee) => self.reach(callee, is_device),
                GenericArg::Type(ty) => self.note(ty),
                _ => {}
            }
        }
    }

    fn enter(&mut self, body: Option<Arc<Body>>, is_device: bool) {
        let new = body.filter(|body| self.seen.insert((Arc::as_ptr(body), is_device)));
        self.open.extend(new.map(|body| (body, is_device)));
    }

    fn note(&mut self, ty: &Type) {
        match ty {
            Type::Scalar(s) | Type::Vector(s, _) => self.narrowed(*s),
            Type::Array(array) => self.note(&array.element),
            Type::Tuple(parts) => parts.iter().for_each(|part| self.note(part)),
            _ => {}
        }
    }

    fn narrowed(&mut self, ty: Scalar) {
        let digits = |ty: Scalar| match ty {
            Scalar::Bf16 => 8,
            Scalar::F16 => 11,
            Scalar::F32 => 24,
            _ => 53,
        };
        if ty.is_float() && digits(ty) < digits(self.survey.narrowest) {
            self.survey.narrowest = ty;
        }
    }
}

fn has_float(ty: &Type) -> bool {
    match ty {
        Type::Scalar(s) | Type::Vector(s, _) => s.is_float(),
        Type::Array(array) => has_float(&array.element),
        Type::Param(_) => true,
        _ => false,
    }
}
