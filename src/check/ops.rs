//! Operators on scalars, on vectors (also combined with scalars), and on host arrays (with broadcasting).

use crate::build::{BOOL, bare, is_literal, is_text, make};
use crate::context::Cx;
use crate::infer::{TypeClass, array};
use crate::typed::*;
use clk_base::diag::{Applicability, Diagnostic, Fix};
use clk_base::source::Span;
use clk_scalar::ops::{BinaryOp, UnaryOp};
use clk_syntax::ast;

/// An operand as syntax and as a typed expression.
#[derive(Clone, Copy)]
pub(crate) struct CheckedOperand<'e> {
    pub ast: &'e ast::Expr,
    pub typed: &'e Expr,
}

/// The common type of the operands of an elementwise operation.
pub(crate) enum CommonType {
    /// An error was reported.
    Bad,
    /// The common type is known only at run time.
    Unknown,
    /// The common scalar type, and the type `whole` of the result: this scalar type, or a vector or array of it.
    Is { scalar: Type, whole: Type },
}

impl CommonType {
    pub fn whole(self) -> Type {
        match self {
            CommonType::Bad => Type::Error,
            CommonType::Unknown => Type::Unknown,
            CommonType::Is { whole, .. } => whole,
        }
    }
}

/// Returns the scalar type inside of vectors and arrays.
pub(crate) fn scalar_of(ty: &Type) -> Type {
    match ty {
        Type::Array(a) => scalar_of(&a.element),
        Type::Vector(s, _) => Type::Scalar(*s),
        other => other.clone(),
    }
}

/// Replaces the scalar type inside of a vector or array type.
pub(crate) fn with_scalar(ty: &Type, scalar: &Type) -> Type {
    match (ty, scalar) {
        (Type::Array(a), _) => array(with_scalar(&a.element, scalar), a.dims.clone()),
        (Type::Vector(_, n), Type::Scalar(s)) => Type::Vector(*s, *n),
        (Type::Error | Type::Unknown, _) => ty.clone(),
        _ => scalar.clone(),
    }
}

impl Cx<'_> {
    pub fn unary(&mut self, op: UnaryOp, op_span: Span, e: &ast::Expr, span: Span, want: Option<&Type>) -> Expr {
        if op == UnaryOp::Neg
            && let ast::ExprKind::Int { value, suffix } = &bare(e).kind
        {
            return self.int(-i128::from(*value), suffix.as_ref(), span, want);
        }
        let value = self.expr(e, want);
        let ty = self.vars.shallow(&value.ty);
        let scalar = scalar_of(&ty);
        let ok = match op {
            UnaryOp::Neg => match &scalar {
                Type::Scalar(s) => s.is_float() || s.is_signed(),
                _ => self.vars.require(&scalar, TypeClass::Num),
            },
            UnaryOp::Not => scalar == BOOL || self.vars.require(&scalar, TypeClass::Int),
        };
        if !ok {
            let symbol = if op == UnaryOp::Neg { "-" } else { "!" };
            let actual = self.ty_text(&ty);
            let mut d = Diagnostic::error("E0303", format!("`{symbol}` is not defined for `{actual}`"))
                .at(op_span, "this operator")
                .because(value.span, format!("this is `{actual}`"));
            if matches!(&scalar, Type::Scalar(s) if s.is_unsigned()) {
                d = d.help("an unsigned number has no negative: `wrapping_neg(x)` wraps around");
            }
            self.report(d);
            return self.bad(span);
        }
        if matches!(ty, Type::Array(_)) {
            self.need_arrays(op_span, "an operator on whole arrays");
        }
        make(ExprKind::Unary { op, expr: Box::new(value) }, ty, span)
    }

    pub fn binary(
        &mut self,
        op: BinaryOp,
        op_span: Span,
        left: &ast::Expr,
        right: &ast::Expr,
        span: Span,
        want: Option<&Type>,
    ) -> Expr {
        if op.is_logical() {
            return self.logical(op, op_span, left, right, span);
        }
        let want = if op.is_comparison() { None } else { want };
        let (l, r) = if is_literal(left) && !is_literal(right) && !matches!(op, BinaryOp::Shl | BinaryOp::Shr) {
            let r = self.expr(right, want);
            let hint = scalar_of(&r.ty);
            (self.expr(left, Some(&hint)), r)
        } else {
            let l = self.expr(left, want);
            let r = match op {
                BinaryOp::Shl | BinaryOp::Shr => self.expr(right, None),
                _ => {
                    let hint = scalar_of(&l.ty);
                    self.expr(right, Some(&hint))
                }
            };
            (l, r)
        };
        let ty = match self.text_operator(
            op,
            op_span,
            CheckedOperand { ast: left, typed: &l },
            CheckedOperand { ast: right, typed: &r },
        ) {
            true => Type::Error,
            false => self.binary_type(op, op_span, &l, &r),
        };
        make(ExprKind::Binary { op, left: Box::new(l), right: Box::new(r) }, ty, span)
    }

    fn logical(&mut self, op: BinaryOp, op_span: Span, left: &ast::Expr, right: &ast::Expr, span: Span) -> Expr {
        let mut arrays = false;
        let mut side = |e: &ast::Expr| {
            let e = self.expr(e, Some(&BOOL));
            if !self.vars.unify(&e.ty, &BOOL) {
                let actual = self.ty_text(&e.ty);
                let mut d =
                    Diagnostic::error("E0308", format!("`{}` takes `bool`, but this is `{actual}`", op.symbol()))
                        .at(e.span, format!("this is `{actual}`"));
                if matches!(e.ty, Type::Array(_)) {
                    let word = if op == BinaryOp::And { "&" } else { "|" };
                    d = d.help(format!("`{word}` combines arrays of `bool` element by element, and binds tighter"));
                    d = in_parentheses(d, left.span, op_span, word, right.span);
                }
                // If both operands are arrays, only one error is reported.
                if !std::mem::replace(&mut arrays, matches!(e.ty, Type::Array(_))) {
                    self.report(d);
                }
            }
            Box::new(e)
        };
        let (left, right) = (side(left), side(right));
        make(ExprKind::Binary { op, left, right }, BOOL, span)
    }

    /// Returns whether a sum in a kernel is the address of an element in C: `bins + i`.
    fn is_pointer_arithmetic(&self, l: &Expr, r: &Expr) -> bool {
        let is_index = matches!(self.vars.shallow(&r.ty), Type::Scalar(ty) if ty.is_int());
        self.in_kernel() && !self.in_tile() && is_index && matches!(self.vars.shallow(&l.ty), Type::Array(_))
    }

    /// Returns the type of `l op r` for all operators but `&&` and `||`; also used for `place op= value`.
    pub fn binary_type(&mut self, op: BinaryOp, op_span: Span, l: &Expr, r: &Expr) -> Type {
        match op {
            BinaryOp::MatMul | BinaryOp::Shl | BinaryOp::Shr if is_text(&l.ty) || is_text(&r.ty) => {}
            BinaryOp::MatMul => return self.matmul(op_span, l, r),
            BinaryOp::Add if self.is_pointer_arithmetic(l, r) => {
                let edits = vec![
                    (Span { start: l.span.end, end: r.span.start, ..r.span }, "[".to_owned()),
                    (r.span.after(), "]".to_owned()),
                ];
                let d = Diagnostic::error("E0140", "there are no pointers in Clk")
                    .at(op_span, "an array and an index")
                    .fix_all("write the element in brackets", edits, Applicability::MaybeIncorrect);
                self.report(d);
                return Type::Error;
            }
            BinaryOp::Shl | BinaryOp::Shr => return self.shift(op, op_span, l, r),
            _ => {}
        }
        // A fast path for two scalars of the same type, which is by far the most frequent case.
        if let (Type::Scalar(a), Type::Scalar(b)) = (&l.ty, &r.ty)
            && a == b
            && a.is_num()
            && !op.is_bitwise()
        {
            return if op.is_comparison() { BOOL } else { l.ty.clone() };
        }
        if let Some(ty) = self.text_type(op, op_span, l, r) {
            return ty;
        }
        let (lt, rt) = (self.vars.shallow(&l.ty), self.vars.shallow(&r.ty));
        if matches!(op, BinaryOp::Eq | BinaryOp::Ne)
            && matches!((&lt, &rt), (Type::Tuple(_), Type::Tuple(_)) | (Type::Struct(_), Type::Struct(_)))
            && self.vars.unify(&lt, &rt)
        {
            return BOOL;
        }
        let joined = self.elementwise(&[l, r], op_span, op.symbol());
        let CommonType::Is { scalar, whole } = joined else { return joined.whole() };
        let is_valid = match op {
            BinaryOp::Eq | BinaryOp::Ne => scalar == BOOL || self.vars.require(&scalar, TypeClass::Num),
            op if op.is_comparison() => self.vars.require(&scalar, TypeClass::Num),
            BinaryOp::BitAnd | BinaryOp::BitOr | BinaryOp::BitXor => {
                scalar == BOOL || self.vars.require(&scalar, TypeClass::Int)
            }
            _ => self.vars.require(&scalar, TypeClass::Num),
        };
        if !is_valid {
            return self.undefined(op, op_span, l, r, &scalar);
        }
        // The results of these operators differ between integers and floats, so the operand type must be fixed now.
        if matches!(op, BinaryOp::Div | BinaryOp::Rem | BinaryOp::Pow) {
            self.vars.record_use(&scalar);
        }
        if op.is_comparison() { with_scalar(&whole, &BOOL) } else { whole }
    }

    fn undefined(&mut self, op: BinaryOp, op_span: Span, l: &Expr, r: &Expr, scalar: &Type) -> Type {
        let actual = self.ty_text(scalar);
        let mut d = Diagnostic::error("E0303", format!("`{}` is not defined for `{actual}`", op.symbol()))
            .at(op_span, "this operator")
            .because(l.span, format!("this is `{}`", self.ty_text(&l.ty)))
            .because(r.span, format!("this is `{}`", self.ty_text(&r.ty)));
        let float = matches!(self.vars.scalar_kind(scalar), Some(TypeClass::Float | TypeClass::Element));
        if let (Type::Param(p), None) = (scalar, self.vars.kind(scalar)) {
            if let Some(g) = self.sig.generics.get(*p as usize) {
                let bound = if op.is_bitwise() { "Int" } else { "Num" };
                d = d.because(g.span, format!("`{}` may be any type its bound allows", g.name));
                d = d.help(format!("write the bound `{}: {bound}`", g.name));
            }
        } else if op.is_bitwise() && float {
            d = match op {
                BinaryOp::BitXor => d.help("a power is written `x ** y`; `^` is the exclusive or of integers").fix(
                    "write `**`",
                    op_span,
                    "**",
                    Applicability::MachineApplicable,
                ),
                _ => d.help("only integers have bit operations: `bitcast(u32, x)` returns the bits of a float"),
            };
            let calls = self.vars.element_calls(scalar);
            if !calls.is_empty() {
                d = self.type_fix(d, &calls, "i32");
            }
        } else if *scalar == BOOL {
            let of_arrays = [l, r].into_iter().any(|e| matches!(self.vars.shallow(&e.ty), Type::Array(_)));
            let logical = if of_arrays { "`&`, `|`, `!`" } else { "`&&`, `||`, `!`" };
            d = d.help(format!("count it as a number with `i32(…)`, or combine it with {logical}"));
        }
        self.report(d);
        Type::Error
    }

    fn shift(&mut self, op: BinaryOp, op_span: Span, l: &Expr, r: &Expr) -> Type {
        let (lt, rt) = (self.vars.shallow(&l.ty), self.vars.shallow(&r.ty));
        for ty in [&lt, &rt] {
            let scalar = scalar_of(ty);
            if !self.vars.require(&scalar, TypeClass::Int) {
                return self.undefined(op, op_span, l, r, &scalar);
            }
        }
        match (&lt, &rt) {
            (Type::Error, _) | (_, Type::Error) => Type::Error,
            (Type::Unknown, _) | (_, Type::Unknown) => Type::Unknown,
            (Type::Array(_), _) | (_, Type::Array(_)) => {
                self.need_arrays(op_span, "an operator on whole arrays");
                match self.shape_together(&[l, r], op_span, op.symbol(), &scalar_of(&lt)) {
                    Some(ty) => ty,
                    None => Type::Error,
                }
            }
            (Type::Scalar(_), Type::Vector(_, n)) => with_scalar(&Type::Vector(clk_scalar::Scalar::I32, *n), &lt),
            _ => lt,
        }
    }

    /// Computes the common type of the operands of an elementwise operation, by the rules of arithmetic.
    pub fn elementwise(&mut self, parts: &[&Expr], at: Span, what: &str) -> CommonType {
        let types: Vec<Type> = parts.iter().map(|p| self.vars.shallow(&p.ty)).collect();
        if types.contains(&Type::Error) {
            return CommonType::Bad;
        }
        // This includes arrays whose element type is unknown.
        if types.iter().any(|ty| scalar_of(ty) == Type::Unknown) {
            for ty in &types {
                if self.vars.kind(ty).is_some() {
                    self.vars.unify(ty, &Type::Unknown);
                }
            }
            self.leave_literals_open(parts);
            return CommonType::Unknown;
        }
        let mut scalar = scalar_of(types.first().unwrap_or(&Type::Error));
        let plain = |cx: &Self, t: &Type| matches!(t, Type::Scalar(_) | Type::Param(_)) || cx.vars.kind(t).is_some();
        for (part, ty) in parts.iter().zip(&types) {
            let this = scalar_of(ty);
            if !plain(self, &this) {
                let actual = self.ty_text(ty);
                let d = Diagnostic::error("E0303", format!("`{what}` is not defined for `{actual}`"))
                    .at(part.span, format!("this is `{actual}`"));
                let d = self.without_result(d, part);
                self.report(d);
                return CommonType::Bad;
            }
            if !self.vars.unify(&scalar, &this) {
                self.mixed(parts, at, what);
                return CommonType::Bad;
            }
        }
        scalar = self.vars.shallow(&scalar);
        match self.shape_together(parts, at, what, &scalar) {
            Some(whole) => CommonType::Is { scalar, whole },
            None => CommonType::Bad,
        }
    }

    /// Defers the element type of array literals to run time. In `d + [1, 2]`, it is the element type of `d`, which is
    /// known only then.
    pub fn leave_literals_open(&mut self, parts: &[&Expr]) {
        for part in parts.iter().filter(|part| part.is_literal_array()) {
            if let Type::Array(a) = self.vars.shallow(&part.ty)
                && self.vars.kind(&a.element).is_some()
            {
                self.vars.unify(&a.element, &Type::Unknown);
            }
        }
    }

    /// Computes the result type of an elementwise operation on scalars, vectors or arrays, with scalar type `scalar`.
    pub fn shape_together(&mut self, parts: &[&Expr], at: Span, what: &str, scalar: &Type) -> Option<Type> {
        let types: Vec<Type> = parts.iter().map(|p| self.vars.shallow(&p.ty)).collect();
        if types.contains(&Type::Unknown) {
            return Some(Type::Unknown);
        }
        let mut lanes: Option<(u8, Span)> = None;
        let mut dims: Option<(Vec<Dim>, Span)> = None;
        for (part, ty) in parts.iter().zip(&types) {
            let element = match ty {
                Type::Array(a) => {
                    dims = Some(match dims {
                        None => (a.dims.clone(), part.span),
                        Some((before, span)) => {
                            (self.broadcast(&before, span, &a.dims, part.span, at, what)?, span.to(part.span))
                        }
                    });
                    &a.element
                }
                other => other,
            };
            if let Type::Vector(_, n) = element {
                match lanes {
                    Some((m, span)) if m != *n => {
                        let d =
                            Diagnostic::error("E0302", format!("`{what}` can't combine vectors of {m} and {n} lanes"))
                                .at(part.span, format!("{n} lanes"))
                                .because(span, format!("{m} lanes"));
                        self.report(d);
                        return None;
                    }
                    _ => lanes = Some((*n, part.span)),
                }
            }
        }
        let element = match (lanes, scalar) {
            (Some((n, _)), Type::Scalar(s)) => Type::Vector(*s, n),
            _ => scalar.clone(),
        };
        match dims {
            None => Some(element),
            Some((dims, _)) => self.need_arrays(at, "an operator on whole arrays").then(|| array(element, dims)),
        }
    }

    /// Computes the broadcast shape of several arrays.
    pub fn dims_together(&mut self, parts: &[&Expr], at: Span, what: &str) -> Option<Vec<Dim>> {
        let mut dims: Option<(Vec<Dim>, Span)> = None;
        for part in parts {
            if let Type::Array(a) = self.vars.shallow(&part.ty) {
                dims = Some(match dims {
                    None => (a.dims.clone(), part.span),
                    Some((before, span)) => {
                        (self.broadcast(&before, span, &a.dims, part.span, at, what)?, span.to(part.span))
                    }
                });
            }
        }
        Some(dims.map_or_else(Vec::new, |d| d.0))
    }

    /// Applies NumPy's broadcasting rule, axis by axis from the last.
    fn broadcast(
        &mut self,
        a: &[Dim],
        a_span: Span,
        b: &[Dim],
        b_span: Span,
        at: Span,
        what: &str,
    ) -> Option<Vec<Dim>> {
        let rank = a.len().max(b.len());
        let axis = |d: &[Dim], i: usize| {
            (i + d.len()).checked_sub(rank).and_then(|i| d.get(i).cloned()).unwrap_or(Dim::Known(1))
        };
        let mut dims = Vec::with_capacity(rank);
        for i in 0..rank {
            dims.push(match (axis(a, i), axis(b, i)) {
                (Dim::Known(1), d) | (d, Dim::Known(1)) => d,
                (Dim::Known(m), Dim::Known(n)) if m != n => {
                    let product = match (a, b) {
                        ([rows, k], [k2, columns]) if k == k2 && what == "*" => {
                            Some(self.dims_text(&[rows.clone(), columns.clone()]))
                        }
                        _ => None,
                    };
                    let are_vectors = a.len() == 1 && b.len() == 1;
                    let padded = with_trailing_axes(a, b).or_else(|| with_trailing_axes(b, a));
                    let (a, b) = (self.dims_text(a), self.dims_text(b));
                    let mut d = Diagnostic::error("E0305", format!("`{what}` can't combine the shapes {a} and {b}"))
                        .at(at, format!("{m} against {n}"))
                        .because(a_span, format!("this has shape {a}"))
                        .because(b_span, format!("this has shape {b}"))
                        .note("Shapes are compared from the last axis; two extents must be equal, or one of them must be 1.");
                    if let Some(shape) = product {
                        d = d
                            .help(format!("`*` multiplies element by element; the matrix product `@` has the shape {shape}"))
                            .fix("write `@`", at, "@", Applicability::MaybeIncorrect);
                    }
                    if are_vectors && what == "+" {
                        d = d.help("`+` adds element by element; `concat(x, y)` joins two arrays");
                    }
                    if let Some((short, extents)) = padded {
                        let short = self.dims_text(&short);
                        d = d.help(format!("one number for each row? `reshape(…, {extents})` gives {short} an axis that is repeated"));
                    }
                    self.report(d);
                    return None;
                }
                (Dim::Known(n), _) | (_, Dim::Known(n)) => Dim::Known(n),
                (x, y) if x == y => x,
                _ => Dim::Unknown,
            });
        }
        Some(dims)
    }

    pub fn dims_text(&self, dims: &[Dim]) -> String {
        let dims: Vec<_> = dims.iter().map(|d| self.show().dim(d)).collect();
        format!("[{}]", dims.join(", "))
    }

    /// Reports operands whose scalar types differ, and suggests which one to convert.
    fn mixed(&mut self, parts: &[&Expr], at: Span, what: &str) {
        let types: Vec<Type> = parts.iter().map(|p| scalar_of(&self.vars.shallow(&p.ty))).collect();
        let Some(first) = types.first() else { return };
        let Some(i) = types.iter().position(|t| !self.vars.clone().unify(first, t)) else { return };
        let (Some(a), Some(b), Some(other)) = (parts.first(), parts.get(i), types.get(i)) else { return };
        let (at_text, bt_text) = (self.ty_text(&a.ty), self.ty_text(&b.ty));
        let mut d = Diagnostic::error("E0302", format!("`{what}` can't mix `{at_text}` and `{bt_text}`"))
            .at(at, "both sides need one element type")
            .because(a.span, format!("this is `{at_text}`"))
            .because(b.span, format!("this is `{bt_text}`"));
        let is_array = |e: &Expr| matches!(self.vars.shallow(&e.ty), Type::Array(_));
        if !self.in_host() && is_array(a) != is_array(b) {
            // Pointer arithmetic as in C: `x + i`.
            self.report(d.help("an array is not a pointer: its element is `x[i]`, wherever it is read or written"));
            return;
        }
        let rank = |cx: &Self, t: &Type| match t {
            Type::Scalar(s) if s.is_float() => Some(100 + s.bits()),
            Type::Scalar(s) if s.is_int() => Some(s.bits()),
            Type::Scalar(_) => Some(0),
            Type::Param(p) if cx.vars.kind(t).is_none() && cx.sig.generics.get(*p as usize).is_some() => Some(99),
            t => cx.vars.kind(t).map(|k| if matches!(k, TypeClass::Float | TypeClass::Element) { 132 } else { 1 }),
        };
        if let (Some(x), Some(y)) = (rank(self, first), rank(self, other)) {
            // If one operand is a literal and the type of the other is a type parameter, the suggestion converts the
            // literal.
            let is_param = |t: &Type| matches!(t, Type::Param(_)) && self.vars.kind(t).is_none();
            let left_is_weak = if is_param(other) { true } else { x < y && !is_param(first) };
            let (weak, strong) = if left_is_weak { (a, other) } else { (b, first) };
            let to = self.vars.finish(strong);
            let to = self.ty_text(&to);
            d = match self.initial_int_literal(weak).filter(|_| (x < 100) != (y < 100)) {
                Some(literal) => float_from_the_start(d, literal, &to),
                None => self.conversion_fix(d, weak, &to),
            };
        }
        if [first, other].contains(&&BOOL) {
            d = d.note("`select(condition, a, b)` chooses between two values");
        }
        d = self.element_fix(d, first, other);
        self.report(d);
    }

    /// Returns the span of a variable's initial value, if that is a number without a point or a suffix.
    fn initial_int_literal(&self, e: &Expr) -> Option<Span> {
        let info = match e.kind {
            ExprKind::Local(id) => self.info.get(id.index()),
            ExprKind::Global(id) => self.global_info.get(id.index().checked_sub(self.program.globals.len())?),
            _ => None,
        };
        info?.int_literal
    }

    /// Replaces a suggested conversion of the left side of `place op= value`, because a converted value can't be
    /// assigned to.
    pub fn no_converted_place(&mut self, place: Span, before: usize) {
        let converts = |fix: &Fix| fix.edits.iter().any(|(at, _)| *at == place.after());
        let help = "a variable keeps its type: convert the value, or declare the variable with the other type";
        self.instead_of_conversion(before, help, |d| d.fixes.iter().any(converts));
    }

    /// Replaces a suggested conversion to float in an index expression, since an index must be an integer.
    pub fn no_float_index(&mut self, index: &ast::Expr, before: usize) {
        fn has_operator(e: &ast::Expr, at: Span) -> bool {
            match &bare(e).kind {
                ast::ExprKind::Binary { op_span, left, right, .. } => {
                    *op_span == at || has_operator(left, at) || has_operator(right, at)
                }
                _ => false,
            }
        }
        let to_float = |fix: &Fix| fix.title.starts_with("convert it with `f");
        let help = "an index is an integer: `i / 2` and `i % 2` are, too";
        self.instead_of_conversion(before, help, |d| {
            d.fixes.iter().any(to_float) && d.primary().is_some_and(|at| has_operator(index, at))
        });
    }

    /// Replaces the suggested conversion by `help` in errors about mixed types, from diagnostic number `before` on.
    fn instead_of_conversion(&mut self, before: usize, help: &str, applies: impl std::ops::Fn(&Diagnostic) -> bool) {
        for d in self.diagnostics.iter_mut().skip(before).filter(|d| d.code == "E0302" && applies(d)) {
            d.fixes.clear();
            d.help = vec![help.into()];
        }
    }

    fn matmul(&mut self, op_span: Span, l: &Expr, r: &Expr) -> Type {
        if !self.need_host(op_span, "`@`") {
            return Type::Error;
        }
        let (lt, rt) = (self.vars.shallow(&l.ty), self.vars.shallow(&r.ty));
        match (&lt, &rt) {
            (Type::Error, _) | (_, Type::Error) => return Type::Error,
            (Type::Unknown, _) | (_, Type::Unknown) => {
                self.leave_literals_open(&[l, r]);
                return Type::Unknown;
            }
            _ => {}
        }
        let (Type::Array(a), Type::Array(b)) = (&lt, &rt) else {
            let d = Diagnostic::error("E0303", "`@` is the product of matrices")
                .at(op_span, "both sides must be arrays")
                .because(l.span, format!("this is `{}`", self.ty_text(&lt)))
                .because(r.span, format!("this is `{}`", self.ty_text(&rt)));
            self.report(d);
            return Type::Error;
        };
        if !self.vars.unify(&a.element, &b.element) || !self.vars.require(&a.element, TypeClass::Num) {
            self.mixed(&[l, r], op_span, "@");
            return Type::Error;
        }
        let (inner, dims) = match (a.dims.as_slice(), b.dims.as_slice()) {
            ([front_a @ .., m, k], [front_b @ .., k2, n]) => {
                let Some(mut dims) = self.broadcast(front_a, l.span, front_b, r.span, op_span, "@") else {
                    return Type::Error;
                };
                dims.extend([m.clone(), n.clone()]);
                ((k, k2), dims)
            }
            ([front @ .., k], [k2]) => ((k, k2), front.to_vec()),
            ([k], [front @ .., k2, n]) => ((k, k2), front.iter().chain([n]).cloned().collect()),
            _ => {
                let d =
                    Diagnostic::error("E0306", "`@` takes arrays with axes: matrices, vectors, or batches of matrices")
                        .at(op_span, format!("{} axes against {}", a.dims.len(), b.dims.len()));
                self.report(d);
                return Type::Error;
            }
        };
        let ordinal = if b.dims.len() > 2 { "last but one" } else { "first" };
        if let (Dim::Known(k), Dim::Known(k2)) = inner
            && k != k2
        {
            let (x, y) = (self.dims_text(&a.dims), self.dims_text(&b.dims));
            let mut d = Diagnostic::error("E0305", format!("`@` can't multiply the shapes {x} and {y}"))
                .at(op_span, format!("the inner extents differ: {k} and {k2}"))
                .because(l.span, format!("the last axis is {k}"))
                .because(r.span, format!("the {ordinal} axis is {k2}"));
            let transpositions = transpositions(&a.dims, &b.dims);
            for (side, dims) in &transpositions {
                let (side, operand) = match side {
                    Side::Left => ("left", l.span),
                    Side::Right => ("right", r.span),
                };
                let edits = vec![
                    (Span { end: operand.start, ..operand }, "transpose(".to_owned()),
                    (operand.after(), ")".to_owned()),
                ];
                let mut title = format!("transpose the {side} operand");
                if transpositions.len() > 1 {
                    title += &format!(" for the shape {}", self.dims_text(dims));
                }
                d = d.fix_all(title, edits, Applicability::MaybeIncorrect);
            }
            self.report(d);
            return Type::Error;
        }
        if dims.is_empty() { a.element.clone() } else { array(a.element.clone(), dims) }
    }
}

/// An operand of a matrix product.
#[derive(Clone, Copy)]
enum Side {
    Left,
    Right,
}

/// Returns the operands whose transposition makes a matrix product possible, with the shapes of the products.
fn transpositions(a: &[Dim], b: &[Dim]) -> Vec<(Side, Vec<Dim>)> {
    let mut found = vec![];
    if let ([m, columns], [k, rest @ ..]) = (a, b)
        && m == k
        && b.len() <= 2
    {
        found.push((Side::Left, [std::slice::from_ref(columns), rest].concat()));
    }
    if let ([rest @ .., k], [rows, n]) = (a, b)
        && k == n
        && a.len() <= 2
    {
        found.push((Side::Right, [rest, std::slice::from_ref(rows)].concat()));
    }
    found
}

/// Adds a fix that replaces the operator and puts both operands in parentheses.
fn in_parentheses(d: Diagnostic, left: Span, op_span: Span, word: &str, right: Span) -> Diagnostic {
    let before = |span: Span| Span { end: span.start, ..span };
    let edits = [(before(left), "("), (left.after(), ")"), (op_span, word), (before(right), "("), (right.after(), ")")];
    let edits = edits.into_iter().map(|(span, text)| (span, text.to_owned())).collect();
    d.fix_all(format!("write `{word}`"), edits, Applicability::MaybeIncorrect)
}

/// If the longer shape begins with the shorter one, returns the shorter shape and the extents that make it broadcast.
fn with_trailing_axes(short: &[Dim], long: &[Dim]) -> Option<(Vec<Dim>, String)> {
    let begins = short.len() < long.len() && !short.is_empty() && long.starts_with(short);
    let extent = |dim: &Dim| if let Dim::Known(n) = dim { Some(n.to_string()) } else { None };
    let mut extents = short.iter().map(extent).collect::<Option<Vec<String>>>().filter(|_| begins)?;
    extents.resize(long.len(), "1".into());
    Some((short.to_vec(), extents.join(", ")))
}

/// Adds a label at the integer literal that determined the type of a variable, if the variable is combined with a
/// float.
fn float_from_the_start(d: Diagnostic, literal: Span, to: &str) -> Diagnostic {
    d.because(literal, "an integer: its first use does not need a float")
        .help(format!("begin with a float if it should be one; `{to}(…)` converts the integer"))
        .fix("begin with a float", literal.after(), ".0", Applicability::MaybeIncorrect)
}
