//! The last step of checking a body: substitutes type variables, and range-checks literals against their final types.

use crate::base::diag::Diagnostic;
use crate::base::source::Span;
use crate::check::cx::Cx;
use crate::check::fold;
use crate::check::infer::Vars;
use crate::check::literal::Literal;
use crate::check::typed::*;
use crate::lang::scalar::decimal::Decimal;
use crate::lang::scalar::format::{self, SYNTAX, Spec, Style};
use crate::lang::scalar::{Scalar, Value};

struct Finish<'v> {
    vars: &'v Vars,
    program: &'v Program,
    diagnostics: Vec<Diagnostic>,
    /// Span of the first erroneous node.
    hole: Option<Span>,
}

/// Finishes a single expression.
pub(crate) fn expr(cx: &mut Cx<'_>, e: &mut Expr) {
    let mut f = Finish { vars: &cx.vars, program: cx.program, diagnostics: vec![], hole: None };
    f.expr(e);
    let (found, hole) = (f.diagnostics, f.hole);
    cx.diagnostics.extend(found);
    cx.hole = cx.hole.or(hole);
}

/// Finishes the statements of a body together with its locals and new globals.
pub(crate) fn body(cx: &mut Cx<'_>, root: &mut Block) {
    let mut f = Finish { vars: &cx.vars, program: cx.program, diagnostics: vec![], hole: None };
    f.block(root);
    for (_, local) in cx.locals.iter_mut() {
        f.vars.finish_in(&mut local.ty);
    }
    for global in &mut cx.globals {
        f.vars.finish_in(&mut global.ty);
    }
    let (found, hole) = (f.diagnostics, f.hole);
    cx.diagnostics.extend(found);
    cx.hole = cx.hole.or(hole);
}

impl Finish<'_> {
    fn block(&mut self, b: &mut Block) {
        b.stmts.iter_mut().for_each(|s| self.stmt(s));
        if let Some(tail) = &mut b.tail {
            self.expr(tail);
        }
    }

    fn stmt(&mut self, s: &mut Stmt) {
        match &mut s.kind {
            StmtKind::Let { value, declared, .. } => {
                self.opt(value);
                if let Some(declared) = declared {
                    for extent in &mut declared.extents {
                        if let Extent::Is(e) = extent {
                            self.expr(e);
                        }
                    }
                }
            }
            StmtKind::LocalArray { extents, init, .. } => {
                self.all(extents);
                match init {
                    ArrayInit::None => {}
                    ArrayInit::Fill(e) | ArrayInit::Copy(e) => self.expr(e),
                    ArrayInit::Elements(es) => self.all(es),
                }
            }
            StmtKind::Shared { extents, .. } => self.all(extents),
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
            StmtKind::Break | StmtKind::Continue => {}
            StmtKind::Return(value) => self.opt(value),
            StmtKind::On { device, body } => {
                if let OnDevice::Gpu(Some(e)) | OnDevice::Sim(Some(e)) = device {
                    self.expr(e);
                }
                self.block(body);
            }
        }
    }

    fn all(&mut self, es: &mut [Expr]) {
        es.iter_mut().for_each(|e| self.expr(e));
    }

    fn opt(&mut self, e: &mut Option<Expr>) {
        if let Some(e) = e {
            self.expr(e);
        }
    }

    fn boxed(&mut self, e: &mut Option<Box<Expr>>) {
        if let Some(e) = e {
            self.expr(e);
        }
    }

    fn expr(&mut self, e: &mut Expr) {
        self.vars.finish_in(&mut e.ty);
        match &mut e.kind {
            ExprKind::Int(v) => {
                let v = *v;
                if let Type::Scalar(ty) = e.ty {
                    self.fits(Literal::Int(v), ty, e.span);
                    if ty.is_float() {
                        e.kind = ExprKind::Float(Decimal::of_integer(v));
                    }
                }
            }
            ExprKind::Float(number) => {
                if let Type::Scalar(ty) = e.ty {
                    self.fits(Literal::Float(*number), ty, e.span);
                }
            }
            ExprKind::Bool(_)
            | ExprKind::Local(_)
            | ExprKind::Global(_)
            | ExprKind::Const(_)
            | ExprKind::ConstParam(_)
            | ExprKind::Dim(_)
            | ExprKind::Variable(_) => {}
            ExprKind::Error => self.hole = self.hole.or(Some(e.span)),
            ExprKind::Str(parts) => {
                for part in parts {
                    if let StrPart::Value { expr, format } = part {
                        self.expr(expr);
                        if let Some(format) = format {
                            self.format(format, &expr.ty);
                        }
                    }
                }
            }
            ExprKind::Unary { expr, .. } => {
                self.expr(expr);
                self.diagnostics.extend(fold::overflow(self.program, e));
            }
            ExprKind::Convert { expr, .. }
            | ExprKind::ConvertParam { expr, .. }
            | ExprKind::Bitcast { expr }
            | ExprKind::Swizzle { base: expr, .. }
            | ExprKind::Field { base: expr, .. }
            | ExprKind::TupleField { base: expr, .. }
            | ExprKind::DynField { base: expr, .. } => self.expr(expr),
            ExprKind::Binary { left, right, .. } => {
                self.expr(left);
                self.expr(right);
                self.diagnostics.extend(fold::overflow(self.program, e));
            }
            ExprKind::Vector { parts } | ExprKind::Tuple(parts) | ExprKind::Array(parts) => self.all(parts),
            ExprKind::Index { base, indices } => {
                self.expr(base);
                self.all(indices);
            }
            ExprKind::Slice { base, indices } => {
                self.expr(base);
                for index in indices {
                    match index {
                        SliceIndex::At(e) | SliceIndex::Of(e) => self.expr(e),
                        SliceIndex::Range { start, end, step, .. } => {
                            self.opt(start);
                            self.opt(end);
                            self.opt(step);
                        }
                    }
                }
            }
            ExprKind::Call { callee, args } | ExprKind::Lift { callee, args } => {
                self.fn_ref(callee, e.span);
                self.all(args);
            }
            ExprKind::Derive(derive) => {
                self.expr(&mut derive.of);
                derive.seed.iter_mut().for_each(|seed| self.expr(seed));
            }
            ExprKind::Stated(stated) => {
                self.all(&mut stated.args);
                let rule = std::sync::Arc::make_mut(&mut stated.rule);
                self.expr(&mut rule.of);
                self.expr(&mut rule.back);
            }
            ExprKind::Builtin { args, named, .. } => {
                self.all(args);
                named.iter_mut().for_each(|(_, e)| self.expr(e));
            }
            ExprKind::Launch(launch) => self.launch(launch, e.span),
            ExprKind::Range { start, end, step, .. } => {
                self.boxed(start);
                self.boxed(end);
                self.boxed(step);
            }
            ExprKind::If { cond, then, other } => {
                self.expr(cond);
                self.block(then);
                if let Some(other) = other {
                    self.block(other);
                }
            }
            ExprKind::Block(b) | ExprKind::Time(b) => self.block(b),
            ExprKind::Struct { fields, .. } => self.all(fields),
        }
    }

    /// Checks that the format specification after the colon in `{x:.3}` suits the value.
    fn format(&mut self, format: &Format, ty: &Type) {
        let text = format.text.as_str();
        let wrong = match Spec::parse(text) {
            Ok(spec) if !text.is_empty() => misfit(self.program, &spec, ty),
            Ok(_) => None,
            Err(reason) => Some(reason),
        };
        if let Some(reason) = wrong {
            let d = Diagnostic::error("E0545", format!("the format `{text}` {reason}"))
                .at(format.span, "does not fit the value")
                .note(SYNTAX);
            self.diagnostics.push(d);
        }
    }

    fn launch(&mut self, launch: &mut Launch, at: Span) {
        self.generics(&mut launch.generics, at);
        launch.args.iter_mut().for_each(|a| self.opt(a));
        launch.dims.iter_mut().for_each(|(_, e)| self.expr(e));
        self.opt(&mut launch.grid);
        self.opt(&mut launch.block);
    }

    fn fn_ref(&mut self, f: &mut FnRef, at: Span) {
        if let FnRef::Fn { generics, .. } = f {
            self.generics(generics, at);
        }
    }

    fn generics(&mut self, generics: &mut [GenericArg], at: Span) {
        for g in generics {
            match g {
                GenericArg::Type(ty) => self.vars.finish_in(ty),
                GenericArg::Const(e) => self.expr(e),
                GenericArg::Fn(f) => self.fn_ref(f, at),
                GenericArg::Error => self.hole = self.hole.or(Some(at)),
                GenericArg::Infer => {}
            }
        }
    }

    fn fits(&mut self, number: Literal, ty: Scalar, span: Span) {
        if number.to(ty).is_none() {
            self.diagnostics.push(number.misfit(ty, span));
        }
    }
}

/// Explains why a format specification does not suit values of a type; none if it does, or if that is known only at run time.
fn misfit(program: &Program, spec: &Spec, ty: &Type) -> Option<String> {
    match ty {
        Type::Scalar(s) | Type::Vector(s, _) => format::with_spec(Value { ty: *s, bits: 0 }, spec).err(),
        Type::Array(array) => misfit(program, spec, &array.element),
        Type::Tuple(parts) => parts.iter().find_map(|part| misfit(program, spec, part)),
        Type::Struct(id) => program.structs.get(*id)?.fields.iter().find_map(|field| misfit(program, spec, &field.ty)),
        Type::Str | Type::Strings if spec.style != Style::Plain || spec.plus || spec.zeros => {
            Some("is for numbers, and the value is of type str".into())
        }
        _ => None,
    }
}
