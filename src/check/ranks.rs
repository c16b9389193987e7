//! Calls of builtins for communication between the ranks (processes) of a script: `all_reduce`, `broadcast`, `send` and
//! others.
//!
//! Input: the call. Output: a typed call whose options (`op`, `from`, `to`) are named arguments. Numbers, vectors,
//! structs and arrays of them can be exchanged; strings, tables and other values without a fixed size cannot.
//! Reductions accept only numbers.

use crate::arguments::at;
use crate::build::I32;
use crate::builtin_call::BuiltinCall;
use crate::const_eval;
use crate::context::Cx;
use crate::infer::{TypeClass, array};
use crate::ops::scalar_of;
use crate::typed::*;
use clk_base::diag::Diagnostic;
use clk_scalar::builtin::RankFn;

/// The operations of `all_reduce` and `reduce_scatter`.
const OPERATIONS: [&str; 4] = ["sum", "prod", "min", "max"];

impl Cx<'_> {
    pub fn rank_call(&mut self, call: BuiltinCall<'_>, function: RankFn, want: Option<&Type>) -> Expr {
        if matches!(function, RankFn::Rank | RankFn::Ranks) {
            return match self.take_positional(call, 0..=0, &[]) {
                Some(_) => call.make(vec![], I32),
                None => self.after_error(call.args, call.span),
            };
        }
        // The named argument of the function, and whether it is required.
        let (option, is_required) = match function {
            RankFn::AllReduce | RankFn::ReduceScatter => ("op", false),
            RankFn::Broadcast => ("from", false),
            RankFn::Receive => ("from", true),
            RankFn::Send => ("to", true),
            _ => ("", false),
        };
        let most = if option.is_empty() { 1 } else { 2 };
        let least = if is_required && call.named_arg(option).is_none() { 2 } else { 1 };
        let option_at = [at(option, 1)];
        let named_params = if option.is_empty() { &[][..] } else { &option_at };
        let Some(parts) = self.take_positional(call, least..=most, named_params) else {
            return self.after_error(call.args, call.span);
        };
        let reduces = option == "op";
        let want = want.filter(|_| matches!(function, RankFn::AllReduce | RankFn::Broadcast | RankFn::Receive));
        let Some(x) = parts.first().map(|x| self.expr(x, want)) else { return self.bad(call.span) };
        let ty = self.vars.shallow(&x.ty);
        if !self.is_exchanged(call, &x, &ty, reduces, function) {
            return self.bad(call.span);
        }
        let option_value = parts.get(1).copied().or_else(|| call.named_arg(option));
        let option_arg = match option_value {
            Some(value) if reduces => self.text_argument(value),
            Some(value) => {
                let value = self.expr(value, Some(&I32));
                if !self.require_kind(&value, TypeClass::Int, &format!("`{option}`")) {
                    return self.bad(call.span);
                }
                value
            }
            None => return call.make(vec![x], result(function, ty)),
        };
        if let ExprKind::Str(parts) = &option_arg.kind
            && let [StrPart::Text(op)] = &parts[..]
            && reduces
            && !OPERATIONS.contains(&op.as_str())
        {
            let d = Diagnostic::error("E0552", format!("`{}` has no operation `{op}`", call.entry.name));
            self.report(d.at(option_arg.span, "\"sum\", \"prod\", \"min\" or \"max\""));
        }
        if const_eval::int(self, &option_arg).is_some_and(|rank| rank < 0) {
            let d = Diagnostic::error("E0552", "there is no rank below 0").at(option_arg.span, "ranks count from 0");
            self.report(d);
        }
        call.make_named(vec![x], vec![(option.into(), option_arg)], result(function, ty))
    }

    /// Returns whether values of a type can be exchanged. Reports an error if they cannot.
    fn is_exchanged(&mut self, call: BuiltinCall<'_>, x: &Expr, ty: &Type, reduces: bool, function: RankFn) -> bool {
        let name = call.entry.name;
        let actual = |cx: &Self| cx.ty_text(ty);
        let element = match ty {
            Type::Error => return false,
            Type::Unknown => return true,
            Type::Array(a) => self.vars.shallow(&a.element),
            other => other.clone(),
        };
        let title = match ty {
            Type::Str
            | Type::Strings
            | Type::Unit
            | Type::Range
            | Type::Never
            | Type::Fn(_)
            | Type::Timing
            | Type::Kernel(_)
            | Type::Module(_) => Some(format!("`{name}` takes numbers and arrays, but this is `{}`", actual(self))),
            Type::Array(_) => None,
            _ if function == RankFn::ReduceScatter => {
                Some(format!("`{name}` takes an array, but this is `{}`", actual(self)))
            }
            _ => None,
        };
        let title = title.or_else(|| {
            let is_number = !matches!(element, Type::Struct(_) | Type::Tuple(_))
                && self.vars.require(&scalar_of(&element), TypeClass::Num);
            (reduces && !is_number).then(|| format!("`{name}` takes numbers, but this is `{}`", actual(self)))
        });
        if let Some(title) = title {
            let text = format!("this is `{}`", actual(self));
            self.report(Diagnostic::error("E0301", title).at(x.span, text));
            return false;
        }
        self.is_element(&element, x.span).is_ok()
    }
}

/// Returns the result type of a call.
fn result(function: RankFn, ty: Type) -> Type {
    match (function, ty) {
        (RankFn::Send, _) => Type::Unit,
        (_, Type::Unknown) => Type::Unknown,
        (RankFn::AllGather | RankFn::ReduceScatter, Type::Array(a)) => {
            let dims = std::iter::once(Dim::Unknown).chain(a.dims.iter().skip(1).cloned());
            array(a.element.clone(), dims.collect())
        }
        (RankFn::AllGather, number) => array(number, vec![Dim::Unknown]),
        (_, same) => same,
    }
}
