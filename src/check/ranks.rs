//! Calls of builtins by which the processes of a script exchange values: `all_reduce`, `broadcast`, `send` and the others.
//!
//! Input: the call. Output: a typed call whose options (`op`, `from`, `to`) are arguments by name. Numbers, vectors, structs and arrays of
//! them can be exchanged, but texts, tables and what has no fixed size cannot; sums and the like are of numbers.

use crate::base::diag::Diagnostic;
use crate::check::arguments::at;
use crate::check::builtin_call::BuiltinCall;
use crate::check::cx::Cx;
use crate::check::eval;
use crate::check::infer::{Kind, array};
use crate::check::make::I32;
use crate::check::ops::scalar_of;
use crate::check::typed::*;
use crate::lang::builtin::Together;

/// The operations of `all_reduce` and `reduce_scatter`.
const OPERATIONS: [&str; 4] = ["sum", "prod", "min", "max"];

impl Cx<'_> {
    pub fn together(&mut self, call: BuiltinCall<'_>, what: Together, want: Option<&Type>) -> Expr {
        if matches!(what, Together::Rank | Together::Ranks) {
            return match self.take(call, 0..=0, &[]) {
                Some(_) => call.make(vec![], I32),
                None => self.after_error(call.args, call.span),
            };
        }
        // The option, and whether there is a default.
        let (option, given) = match what {
            Together::AllReduce | Together::ReduceScatter => ("op", false),
            Together::Broadcast => ("from", false),
            Together::Receive => ("from", true),
            Together::Send => ("to", true),
            _ => ("", false),
        };
        let most = if option.is_empty() { 1 } else { 2 };
        let least = if given && call.named(option).is_none() { 2 } else { 1 };
        let option_at = [at(option, 1)];
        let named = if option.is_empty() { &[][..] } else { &option_at };
        let Some(parts) = self.take(call, least..=most, named) else {
            return self.after_error(call.args, call.span);
        };
        let reduces = option == "op";
        let want = want.filter(|_| matches!(what, Together::AllReduce | Together::Broadcast | Together::Receive));
        let Some(x) = parts.first().map(|x| self.expr(x, want)) else { return self.bad(call.span) };
        let ty = self.vars.shallow(&x.ty);
        if !self.is_exchanged(call, &x, &ty, reduces, what) {
            return self.bad(call.span);
        }
        let option_value = parts.get(1).copied().or_else(|| call.named(option));
        let named = match option_value {
            Some(value) if reduces => self.text_argument(value),
            Some(value) => {
                let value = self.expr(value, Some(&I32));
                if !self.require_kind(&value, Kind::Int, &format!("`{option}`")) {
                    return self.bad(call.span);
                }
                value
            }
            None => return call.make(vec![x], result(what, ty)),
        };
        if let ExprKind::Str(parts) = &named.kind
            && let [StrPart::Text(op)] = &parts[..]
            && reduces
            && !OPERATIONS.contains(&op.as_str())
        {
            let d = Diagnostic::error("E0552", format!("`{}` has no operation `{op}`", call.entry.name));
            self.report(d.at(named.span, "\"sum\", \"prod\", \"min\" or \"max\""));
        }
        if eval::int(self, &named).is_some_and(|rank| rank < 0) {
            let d = Diagnostic::error("E0552", "there is no rank below 0").at(named.span, "ranks count from 0");
            self.report(d);
        }
        call.make_named(vec![x], vec![(option.into(), named)], result(what, ty))
    }

    /// Whether values of a type can be exchanged; reports it if not.
    fn is_exchanged(&mut self, call: BuiltinCall<'_>, x: &Expr, ty: &Type, reduces: bool, what: Together) -> bool {
        let name = call.entry.name;
        let found = |cx: &Self| cx.ty_text(ty);
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
            | Type::Module(_) => Some(format!("`{name}` takes numbers and arrays, but this is `{}`", found(self))),
            Type::Array(_) => None,
            _ if what == Together::ReduceScatter => {
                Some(format!("`{name}` takes an array, but this is `{}`", found(self)))
            }
            _ => None,
        };
        let title = title.or_else(|| {
            let is_number = !matches!(element, Type::Struct(_) | Type::Tuple(_))
                && self.vars.require(&scalar_of(&element), Kind::Num);
            (reduces && !is_number).then(|| format!("`{name}` takes numbers, but this is `{}`", found(self)))
        });
        if let Some(title) = title {
            let text = format!("this is `{}`", found(self));
            self.report(Diagnostic::error("E0301", title).at(x.span, text));
            return false;
        }
        self.is_element(&element, x.span).is_ok()
    }
}

/// Returns the type of what a call gives.
fn result(what: Together, ty: Type) -> Type {
    match (what, ty) {
        (Together::Send, _) => Type::Unit,
        (_, Type::Unknown) => Type::Unknown,
        (Together::AllGather | Together::ReduceScatter, Type::Array(a)) => {
            let dims = std::iter::once(Dim::Unknown).chain(a.dims.iter().skip(1).cloned());
            array(a.element.clone(), dims.collect())
        }
        (Together::AllGather, number) => array(number, vec![Dim::Unknown]),
        (_, same) => same,
    }
}
