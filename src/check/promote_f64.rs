//! The `f64` shadow of a program: a copy in which smaller float types are replaced by `f64` in all types, conversions
//! and literals.
//!
//! Input: a program without errors. Output: the shadow program, in which each function and kernel has
//! the same id as in the original. Integer types are not changed.
//! Random numbers are generated in their original type and then widened, so that both programs use the same numbers.
//! [`survey`] reports operations that can't be widened.

use std::collections::HashSet;
use std::sync::Arc;

use crate::typed::*;
use crate::visit::{self, VisitMut, walk_mut};
use clk_base::source::Span;
use clk_scalar::Scalar;
use clk_scalar::builtin::Builtin;

/// A survey of the floating-point operations of a function and its callees.
pub struct FloatSurvey {
    /// The float type with the fewest digits.
    pub narrowest: Scalar,
    /// The first operation without a counterpart in `f64`, and the reason.
    pub obstacle: Option<(Span, String)>,
    /// A value in a kernel that derivatives treat as a constant (`no_grad`).
    pub detached: Option<Span>,
}

/// Returns `f64` for a float type, and any other type unchanged.
pub fn scalar(ty: Scalar) -> Scalar {
    if ty.is_float() { Scalar::F64 } else { ty }
}

/// Replaces the float types in a type by `f64`.
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

/// Returns the shadow of a program.
pub fn program(program: &Program) -> Program {
    let mut shadow = program.clone();
    for (_, of) in shadow.structs.iter_mut() {
        of.fields.iter_mut().for_each(|field| field.ty = ty(&field.ty));
    }
    for (_, constant) in shadow.consts.iter_mut() {
        constant.ty = ty(&constant.ty);
        expr(Arc::make_mut(&mut constant.value));
    }
    for (_, function) in shadow.fns.iter_mut() {
        signature(&mut function.sig);
        function.result = ty(&function.result);
        function.body.iter_mut().for_each(|body| self::body(Arc::make_mut(body)));
    }
    for (_, kernel) in shadow.kernels.iter_mut() {
        signature(&mut kernel.sig);
        let (extents, more) = match &mut kernel.geometry {
            Geometry::Threads { extents, block, .. } => (extents, block.as_mut()),
            Geometry::Grid { grid, block, .. } => (grid, Some(block)),
        };
        all(extents);
        more.into_iter().for_each(|block| all(block));
        kernel.body.iter_mut().for_each(|body| self::body(Arc::make_mut(body)));
    }
    shadow
}

/// Returns a copy of a derivative expression in which smaller floats are `f64`.
pub fn derive(derive: &Derive) -> Derive {
    let mut shadow = derive.clone();
    expr(&mut shadow.of);
    shadow
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
                default.iter_mut().for_each(|default| Promoter.visit_fn_ref(default));
            }
        }
    }
    sig.dim_exprs.iter_mut().for_each(|e| expr(Arc::make_mut(e)));
}

fn body(body: &mut Body) {
    for (_, local) in body.locals.iter_mut() {
        local.ty = ty(&local.ty);
    }
    Promoter.visit_block(&mut body.root);
}

fn all(es: &mut [Expr]) {
    es.iter_mut().for_each(expr);
}

fn expr(e: &mut Expr) {
    Promoter.visit_expr(e);
}

struct Promoter;

impl VisitMut for Promoter {
    fn visit_type(&mut self, of: &mut Type) {
        *of = ty(of);
    }

    fn visit_expr(&mut self, e: &mut Expr) {
        let narrow = e.ty.clone();
        walk_mut::walk_expr(self, e);
        match &mut e.kind {
            ExprKind::Builtin { builtin: Builtin::Random | Builtin::RandomNormal, .. } => {
                let own = Expr { kind: std::mem::replace(&mut e.kind, ExprKind::Error), ty: narrow, span: e.span };
                e.kind = ExprKind::Convert { to: Scalar::F64, expr: Box::new(own) };
            }
            ExprKind::Convert { to, .. } => *to = scalar(*to),
            _ => {}
        }
    }
}

/// Surveys all operations that an expression evaluates, including those of callees and kernels.
pub fn survey(program: &Program, of: &Expr) -> FloatSurvey {
    let mut walker = Walker::new(program);
    visit::expr(of, &mut |e| walker.look(e, false));
    walker.finish()
}

/// Surveys all operations of a kernel and its callees.
pub fn survey_kernel(program: &Program, id: KernelId) -> FloatSurvey {
    let mut walker = Walker::new(program);
    walker.enter(program.kernels.get(id).and_then(|kernel| kernel.body.clone()), true);
    walker.finish()
}

struct Walker<'p> {
    program: &'p Program,
    seen: HashSet<(*const Body, bool)>,
    survey: FloatSurvey,
    /// Bodies still to visit. The flag is true if the body belongs to a kernel.
    open: Vec<(Arc<Body>, bool)>,
}

impl<'p> Walker<'p> {
    fn new(program: &'p Program) -> Self {
        let survey = FloatSurvey { narrowest: Scalar::F64, obstacle: None, detached: None };
        Walker { program, seen: HashSet::new(), survey, open: vec![] }
    }

    /// Visits all bodies that are reachable.
    fn finish(mut self) -> FloatSurvey {
        while let Some((body, is_device)) = self.open.pop() {
            for (_, local) in body.locals.iter() {
                self.note(&local.ty);
            }
            visit::exprs(&body.root, &mut |e| self.look(e, is_device));
        }
        self.survey
    }

    fn look(&mut self, e: &Expr, is_device: bool) {
        self.note(&e.ty);
        match &e.kind {
            ExprKind::Bitcast { expr } if has_float(&e.ty) || has_float(&expr.ty) => {
                self.object(e.span, "a float of another type has different bits");
            }
            ExprKind::Call { callee, .. } => self.reach(callee, is_device),
            ExprKind::Lift { callee, .. } => self.reach(callee, true),
            ExprKind::Launch(launch) => {
                self.reach_all(&launch.generics, true);
                let body = self.program.kernels.get(launch.kernel).and_then(|kernel| kernel.body.clone());
                self.enter(body, true);
            }
            ExprKind::Builtin { builtin: Builtin::Load, .. } => {
                self.object(e.span, "the types in a file are known only when it is read");
            }
            ExprKind::Builtin { builtin: Builtin::NoGrad, .. } if is_device && has_float(&e.ty) => {
                self.survey.detached.get_or_insert(e.span);
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

    fn reach_all(&mut self, args: &[GenericArg], is_device: bool) {
        for argument in args {
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
