//! Tile expressions: operations on whole arrays in kernels with `grid(…) block(…)`. All threads of a block compute such
//! an expression together.
//!
//! Input: calls of tile builtins such as `mma`. Output: typed calls. The checker determines element types and the
//! number of axes. Lowering (`clk_lower::tiles`) compares the shapes.

use crate::build::F32;
use crate::builtin_call::BuiltinCall;
use crate::context::Cx;
use crate::infer::array;
use crate::scopes::LocalMeaning;
use crate::typed::*;
use clk_base::diag::{Applicability, Diagnostic};
use clk_base::source::Span;
use clk_scalar::Scalar;
use clk_scalar::builtin::Builtin;
use clk_scalar::ops::MathFn;
use clk_syntax::ast;

/// Returns whether a tile expression rounds its elements to `tf32` explicitly, as tensor cores require for `f32`.
pub fn is_tf32(tile: &Expr) -> bool {
    match &tile.kind {
        ExprKind::Builtin { builtin: Builtin::Math(MathFn::Tf32), .. } => true,
        ExprKind::Builtin { builtin: Builtin::Transpose | Builtin::Reshape, args, .. } => {
            args.first().is_some_and(is_tf32)
        }
        _ => false,
    }
}

impl Cx<'_> {
    /// Returns whether all threads of a block perform an assignment to this lvalue together. It must be a whole shared
    /// array or a slice of an array.
    pub fn is_tile(&self, place: &Expr) -> bool {
        self.in_blocks()
            && match (&place.kind, self.vars.shallow(&place.ty)) {
                (ExprKind::Local(id), Type::Array(a)) => {
                    !a.dims.is_empty() && self.locals.get(*id).is_some_and(|local| local.kind == LocalKind::Shared)
                }
                (ExprKind::Slice { base, .. }, _) => {
                    let ExprKind::Local(id) = base.kind else { return false };
                    let own = |local: &Local| matches!(local.kind, LocalKind::Shared | LocalKind::Param(_));
                    self.locals.get(id).is_some_and(own)
                }
                _ => false,
            }
    }

    /// Returns whether the operand of a reduction is a tile: a tile expression, or a shared array with constant
    /// extents.
    pub fn reduces_tile(&self, call: BuiltinCall<'_>) -> bool {
        let array = |name: &ast::Name| match self.scopes.get(&name.text) {
            Some(LocalMeaning::Local(id)) => self.locals.get(id),
            _ => None,
        };
        let has_const_extents = |ty: &Type| match self.vars.shallow(ty) {
            Type::Array(a) => !a.dims.iter().any(|dim| matches!(dim, Dim::Name(_) | Dim::Unknown)),
            _ => false,
        };
        self.in_blocks()
            && call.positional().next().is_some_and(|of| match &of.kind {
                ast::ExprKind::Name(name) => array(name).is_some_and(|local| match local.kind {
                    LocalKind::Shared => true,
                    LocalKind::Param(_) => has_const_extents(&local.ty),
                    _ => false,
                }),
                _ => true,
            })
    }

    /// Reports a value in a tile expression that differs between the threads of the block, which compute the tile
    /// together.
    pub fn differs(&mut self, value: &Expr) {
        let d = Diagnostic::error("E0335", "the threads of a block compute one tile, but each has a value of its own")
            .at(value.span, "something in this depends on the thread")
            .help("`arange` counts along an axis; or let each thread write its elements: `t[i, j] = …`");
        self.report(d);
    }

    /// Checks `mma(acc, a, b)`.
    pub fn mma(&mut self, call: BuiltinCall<'_>) -> Expr {
        if !self.need_device(call.at, "`mma`", true) {
            return self.after_error(call.args, call.span);
        }
        self.require_convergence(call.at, "`mma`");
        let Some(positional) = self.take_positional(call, 3..=3, &[]) else {
            return self.after_error(call.args, call.span);
        };
        let parts: Vec<Expr> = positional.iter().map(|e| self.expr(e, None)).collect();
        let types: Vec<Type> = parts.iter().map(|part| self.vars.shallow(&part.ty)).collect();
        if types.contains(&Type::Error) {
            return self.bad(call.span);
        }
        let matrix = |ty: &Type| match ty {
            Type::Array(a) if a.dims.len() == 2 => Some(a.clone()),
            _ => None,
        };
        let float = |ty: &Type| matches!(ty, Type::Scalar(Scalar::F16 | Scalar::Bf16 | Scalar::F32) | Type::Param(_));
        let [acc, a, b] = [0, 1, 2].map(|at| types.get(at).and_then(matrix));
        // A literal takes the type of the other operands.
        let is_valid = match (&acc, &a, &b) {
            (Some(acc), Some(a), Some(b)) => {
                let same = self.vars.unify(&acc.element, &F32) && self.vars.unify(&a.element, &b.element);
                same && float(&self.vars.shallow(&a.element))
            }
            _ => false,
        };
        let is_plain = |(part, ty): &(&Expr, &Type)| matches!(ty, Type::Array(a) if a.element == F32) && !is_tf32(part);
        let plain: Vec<Span> = parts.iter().zip(&types).skip(1).filter(is_plain).map(|(part, _)| part.span).collect();
        if let (true, Some(first)) = (is_valid, plain.first()) {
            let edits = |span: &Span| {
                [(Span { end: span.start, ..*span }, "tf32(".to_string()), (span.after(), ")".to_string())]
            };
            let d = Diagnostic::error("E0334", "`mma` does not multiply `f32`, unless it is rounded by `tf32`")
                .at(*first, "this has 23 bits of fraction")
                .help("tensor cores multiply 10 bits of them: `tf32(a[i..i + 64, k..k + 32])`, for both factors")
                .fix_all("round with `tf32(…)`", plain.iter().flat_map(edits).collect(), Applicability::MaybeIncorrect);
            self.report(d);
            return self.bad(call.span);
        }
        let (Some(acc), true) = (acc, is_valid) else {
            let title = "`mma` takes a matrix of `f32`, and two of `f16`, of `bf16` or of `f32` that `tf32` rounds";
            let mut d =
                Diagnostic::error("E0334", title).at(call.at, "the sum of the first, and of the product of the others");
            for (part, ty) in parts.iter().zip(&types) {
                d = d.because(part.span, format!("this is `{}`", self.ty_text(ty)));
            }
            let d = d.help("for other types write a loop over the terms, or `@` in a script");
            self.report(d);
            return self.bad(call.span);
        };
        call.make(parts, array(F32, acc.dims.clone()))
    }
}
