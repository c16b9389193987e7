//! Calls of builtins that rearrange arrays: `reshape`, `flip`, `transpose`, `concat` and `stack`.
//!
//! Input: the call. Output: a typed call, whose type contains those extents of the result that are known at compile
//! time.

use std::sync::Arc;

use crate::arguments::{at, by_name};
use crate::builtin_call::BuiltinCall;
use crate::context::Cx;
use crate::infer::array;
use crate::typed::*;
use clk_base::diag::Diagnostic;
use clk_base::source::Span;
use clk_syntax::ast;

impl Cx<'_> {
    pub fn flip(&mut self, call: BuiltinCall<'_>) -> Expr {
        let Some(positional) = self.take_positional(call, 1..=2, &[at("axis", 1)]) else {
            return self.after_error(call.args, call.span);
        };
        let Some((x, a)) = positional.first().and_then(|e| self.array_arg(call, e, None)) else {
            return self.bad(call.span);
        };
        let axis = self.axis(call, positional.get(1).copied(), a.map(|a| a.dims.len()));
        let named_args = axis.map(|(e, _)| ("axis".into(), e)).into_iter().collect();
        let ty = x.ty.clone();
        call.make_named(vec![x], named_args, ty)
    }

    pub fn reshape(&mut self, call: BuiltinCall<'_>) -> Expr {
        let Some(positional) = self.take_positional(call, 2..=9, &[]) else {
            return self.after_error(call.args, call.span);
        };
        let Some((first, extents)) = positional.split_first() else { return self.bad(call.span) };
        let Some((x, a)) = self.array_arg(call, first, None) else { return self.bad(call.span) };
        let Some((more, mut dims)) = self.dims_of(extents, true) else { return self.bad(call.span) };
        let total = a.as_ref().and_then(|a| product(&a.dims));
        let open = dims.iter().filter(|d| **d == Dim::Known(-1)).count();
        if open > 1 {
            let d = Diagnostic::error("E0305", "only one dimension can be -1")
                .at(call.span, "with several, the shape is ambiguous");
            self.report(d);
            return self.bad(call.span);
        }
        if let Some(i) = dims.iter().position(|d| *d == Dim::Known(-1)) {
            let others: Vec<Dim> = dims.iter().filter(|d| **d != Dim::Known(-1)).cloned().collect();
            let rest = product(&others);
            if let Some(slot) = dims.get_mut(i) {
                *slot = match (total, rest) {
                    (Some(t), Some(r)) if r > 0 && t % r == 0 => Dim::Known(t / r),
                    (Some(t), Some(r)) => return self.wrong_size(t, r, call.span),
                    _ => Dim::Unknown,
                };
            }
        } else if let (Some(t), Some(n)) = (total, product(&dims))
            && t != n
        {
            return self.wrong_size(t, n, call.span);
        }
        let ty = a.map_or(Type::Unknown, |a| self.array_of(a.element.clone(), dims, &more));
        let mut args = vec![x];
        args.extend(more);
        call.make(args, ty)
    }

    fn wrong_size(&mut self, count: i64, expected: i64, span: Span) -> Expr {
        let d = Diagnostic::error("E0305", format!("{count} elements don't fit into this shape"))
            .at(span, format!("the dimensions given make {expected}"));
        self.report(d);
        self.bad(span)
    }

    /// Checks the arguments of a builtin that combines arrays: equal element types and ranks.
    fn several(
        &mut self,
        call: BuiltinCall<'_>,
        positional: &[&ast::Expr],
    ) -> Option<(Vec<Expr>, Option<Vec<Arc<ArrayType>>>)> {
        let mut args: Vec<Expr> = Vec::with_capacity(positional.len());
        let mut types: Option<Vec<Arc<ArrayType>>> = Some(vec![]);
        for e in positional {
            let (e, a) = self.array_arg(call, e, None)?;
            match (&mut types, a) {
                (Some(types), Some(a)) => {
                    if let (Some(first), Some(at)) = (types.first().cloned(), args.first())
                        && (first.dims.len() != a.dims.len() || !self.vars.unify(&first.element, &a.element))
                    {
                        let (x, y) = (self.ty_text(&at.ty), self.ty_text(&e.ty));
                        let d =
                            Diagnostic::error("E0302", format!("`{}` can't combine `{x}` and `{y}`", call.entry.name))
                                .at(e.span, format!("this is `{y}`"))
                                .because(at.span, format!("this is `{x}`"));
                        self.report(d);
                        return None;
                    }
                    types.push(a);
                }
                _ => types = None,
            }
            args.push(e);
        }
        Some((args, types))
    }

    pub fn concat(&mut self, call: BuiltinCall<'_>) -> Expr {
        let Some(positional) = self.take_positional(call, 1..=usize::MAX, &[by_name("axis")]) else {
            return self.after_error(call.args, call.span);
        };
        let Some((args, types)) = self.several(call, &positional) else { return self.bad(call.span) };
        let rank = types.as_ref().and_then(|t| t.first()).map(|a| a.dims.len());
        let axis = self.axis(call, None, rank);
        let axis_value = match &axis {
            None => Some(0),
            Some((_, axis_value)) => *axis_value,
        };
        let ty = match (&types, axis_value) {
            (Some(types), Some(axis)) => self.concat_type(types, axis, &args),
            (Some(types), None) => {
                types.first().map_or(Type::Error, |a| array(a.element.clone(), vec![Dim::Unknown; a.dims.len()]))
            }
            (None, _) => self.concat_texts(call, &args),
        };
        let named_args = axis.map(|(e, _)| ("axis".into(), e)).into_iter().collect();
        call.make_named(args, named_args, ty)
    }

    /// Returns the type of a concatenation in which an argument is an array of strings or has a type that is known only
    /// at run time.
    fn concat_texts(&mut self, call: BuiltinCall<'_>, args: &[Expr]) -> Type {
        let types: Vec<Type> = args.iter().map(|arg| self.vars.shallow(&arg.ty)).collect();
        let texts = args.iter().zip(&types).find(|(_, ty)| **ty == Type::Strings);
        let arrays = args.iter().zip(&types).find(|(_, ty)| matches!(ty, Type::Array(_)));
        if let (Some((texts, _)), Some((other, ty))) = (texts, arrays) {
            let actual = self.ty_text(ty);
            let d =
                Diagnostic::error("E0302", format!("`{}` can't combine `[str; _]` and `{actual}`", call.entry.name))
                    .at(other.span, format!("this is `{actual}`"))
                    .because(texts.span, "this is an array of texts");
            self.report(d);
            return Type::Error;
        }
        if types.iter().all(|ty| *ty == Type::Strings) {
            return Type::Strings;
        }
        self.leave_literals_open(&args.iter().collect::<Vec<_>>());
        Type::Unknown
    }

    fn concat_type(&mut self, types: &[Arc<ArrayType>], axis: usize, args: &[Expr]) -> Type {
        let Some(first) = types.first() else { return Type::Error };
        let mut dims = first.dims.clone();
        for (a, arg) in types.iter().zip(args).skip(1) {
            for (i, (d, e)) in dims.iter_mut().zip(&a.dims).enumerate() {
                match (&*d, e) {
                    (Dim::Known(x), Dim::Known(y)) if i == axis => *d = Dim::Known(x + y),
                    _ if i == axis => *d = Dim::Unknown,
                    (Dim::Known(x), Dim::Known(y)) if x != y => {
                        let at = args.first().map_or(arg.span, |a| a.span);
                        let d = Diagnostic::error(
                            "E0305",
                            format!("`concat` along axis {axis} needs the other axes to agree"),
                        )
                        .at(arg.span, format!("axis {i} is {y}"))
                        .because(at, format!("axis {i} is {x}"));
                        self.report(d);
                        return Type::Error;
                    }
                    _ => {}
                }
            }
        }
        array(first.element.clone(), dims)
    }

    pub fn stack(&mut self, call: BuiltinCall<'_>) -> Expr {
        let Some(positional) = self.take_positional(call, 1..=usize::MAX, &[by_name("axis")]) else {
            return self.after_error(call.args, call.span);
        };
        let Some((args, types)) = self.several(call, &positional) else { return self.bad(call.span) };
        let rank = types.as_ref().and_then(|types| types.first()).map(|a| a.dims.len() + 1);
        let axis = self.axis(call, None, rank);
        let position = axis.as_ref().map_or(Some(0), |(_, axis)| *axis);
        let named: Vec<_> = axis.map(|(e, _)| ("axis".into(), e)).into_iter().collect();
        let Some(types) = types else {
            self.leave_literals_open(&args.iter().collect::<Vec<_>>());
            return call.make_named(args, named, Type::Unknown);
        };
        let Some(first) = types.first() else { return self.bad(call.span) };
        for (a, arg) in types.iter().zip(&args) {
            if a.dims.iter().zip(&first.dims).any(|(x, y)| !crate::infer::same_dim(x, y)) {
                let (x, y) = (self.dims_text(&first.dims), self.dims_text(&a.dims));
                let at = args.first().map_or(arg.span, |a| a.span);
                let d = Diagnostic::error("E0305", "`stack` needs arrays of one shape")
                    .at(arg.span, format!("this has shape {y}"))
                    .because(at, format!("this has shape {x}"));
                self.report(d);
                return self.bad(call.span);
            }
        }
        let mut dims = first.dims.clone();
        match position {
            Some(axis) => dims.insert(axis, Dim::Known(types.len() as i64)),
            None => dims = vec![Dim::Unknown; dims.len() + 1],
        }
        let ty = array(first.element.clone(), dims);
        call.make_named(args, named, ty)
    }

    /// Checks `transpose(x)` and `transpose(x, axes = (2, 0, 1))`.
    pub fn transpose(&mut self, call: BuiltinCall<'_>) -> Expr {
        let Some(positional) = self.take_positional(call, 1..=2, &[at("axes", 1)]) else {
            return self.after_error(call.args, call.span);
        };
        let Some((x, a)) = positional.first().and_then(|e| self.array_arg(call, e, None)) else {
            return self.bad(call.span);
        };
        let rank = a.as_ref().map(|a| a.dims.len());
        let axes = call.named_arg("axes").or(positional.get(1).copied());
        if axes.is_some() && !self.need_host(call.at, "`transpose` with `axes`") {
            return self.bad(call.span);
        }
        let Some((axes, count, order)) = axes.and_then(|e| self.axes_of(e, rank, "`axes`")) else {
            let ty = a.map_or_else(
                || self.open_array(&x),
                |a| array(a.element.clone(), a.dims.iter().rev().cloned().collect()),
            );
            return call.make(vec![x], ty);
        };
        if let Some(rank) = rank.filter(|&rank| count > 0 && rank != count) {
            let title = format!("`axes` has {count} of the {rank} axes");
            let d = Diagnostic::error("E0306", title).at(axes.span, "each axis is named once, in the new order");
            self.report(d.help("`transpose(x, axes = (0, 2, 1))` exchanges the last two of three axes"));
            return self.bad(call.span);
        }
        let ty = a.map_or(Type::Unknown, |a| {
            let dims = match order {
                Some(order) if order.len() == a.dims.len() => order.iter().map(|&axis| a.dims[axis].clone()).collect(),
                _ => vec![Dim::Unknown; a.dims.len()],
            };
            array(a.element.clone(), dims)
        });
        call.make(vec![x, axes], ty)
    }
}

fn product(dims: &[Dim]) -> Option<i64> {
    dims.iter().try_fold(1i64, |n, d| match d {
        Dim::Known(k) => n.checked_mul(*k),
        _ => None,
    })
}
