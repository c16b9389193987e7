//! Calls of `sort` and `argsort`.

use crate::arguments::by_name;
use crate::build::{BOOL, I32};
use crate::builtin_call::BuiltinCall;
use crate::context::Cx;
use crate::infer::{TypeClass, array};
use crate::typed::*;
use clk_base::diag::Diagnostic;
use clk_scalar::builtin::Builtin;

impl Cx<'_> {
    /// Checks `sort(x, axis = k, descending = d)` and `argsort`.
    pub fn sort(&mut self, call: BuiltinCall<'_>) -> Expr {
        let Some(positional) = self.take_positional(call, 1..=1, &[by_name("axis"), by_name("descending")]) else {
            return self.after_error(call.args, call.span);
        };
        let Some((x, a)) = positional.first().and_then(|e| self.array_arg(call, e, Some(TypeClass::Num))) else {
            return self.bad(call.span);
        };
        let axis = self.axis(call, None, a.as_ref().map(|a| a.dims.len()));
        if axis.is_none() && !self.has_one_axis(call, &x, a.as_deref(), "say along which to sort: `axis = 0`") {
            return self.bad(call.span);
        }
        let mut named: Vec<(SmolStr, Expr)> = axis.map(|(e, _)| ("axis".into(), e)).into_iter().collect();
        named.extend(self.descending(call));
        let ty = match (a, call.entry.builtin) {
            (Some(a), Builtin::Argsort) => array(I32, a.dims.clone()),
            (Some(a), _) => array(a.element.clone(), a.dims.clone()),
            (None, _) => self.open_array(&x),
        };
        call.make_named(vec![x], named, ty)
    }

    fn descending(&mut self, call: BuiltinCall<'_>) -> Option<(SmolStr, Expr)> {
        call.named_arg("descending").map(|e| ("descending".into(), self.expr_as(e, &BOOL)))
    }

    /// Reports an array with a known number of axes other than one. Returns whether there was no error.
    fn has_one_axis(&mut self, call: BuiltinCall<'_>, x: &Expr, a: Option<&ArrayType>, help: &str) -> bool {
        let Some(axes) = a.map(|a| a.dims.len()).filter(|&axes| axes != 1) else { return true };
        let title = format!("`{}` takes an array of one axis, but this has {axes}", call.entry.name);
        let d = Diagnostic::error("E0306", title).at(x.span, format!("this is `{}`", self.ty_text(&x.ty)));
        self.report(d.help(help));
        false
    }

    /// Checks `sort(keys, values, descending = d)`.
    pub fn sort_with(&mut self, call: BuiltinCall<'_>) -> Expr {
        let Some(positional) = self.take_positional(call, 2..=2, &[by_name("descending")]) else {
            return self.after_error(call.args, call.span);
        };
        let mut args = Vec::with_capacity(2);
        let mut types = Vec::with_capacity(2);
        for (e, kind) in positional.into_iter().zip([Some(TypeClass::Num), None]) {
            let Some((x, a)) = self.array_arg(call, e, kind) else { return self.bad(call.span) };
            if self.vars.shallow(&x.ty) == Type::Strings {
                let d = Diagnostic::error("E0301", "`sort` of keys and values does not take texts")
                    .at(x.span, "this is an array of texts");
                self.report(d);
                return self.bad(call.span);
            }
            args.push(x);
            types.push(a);
        }
        let help = "sort the rows by one of their columns: `sort(keys[.., 0], values)`";
        if !self.has_one_axis(call, &args[0], types[0].as_deref(), help) {
            return self.bad(call.span);
        }
        let differ = |a: &Dim, b: &Dim| matches!((a, b), (Dim::Known(a), Dim::Known(b)) if a != b);
        if let [Some(keys), Some(values)] = types.as_slice()
            && values.dims.first().is_none_or(|rows| differ(&keys.dims[0], rows))
        {
            let (x, y) = (self.dims_text(&keys.dims), self.dims_text(&values.dims));
            let d = Diagnostic::error("E0305", "`sort` needs a value, or a row of them, for each key")
                .at(args[1].span, format!("this has shape {y}"))
                .because(args[0].span, format!("this has shape {x}"));
            self.report(d);
            return self.bad(call.span);
        }
        let types = types.iter().map(|a| a.as_ref().map_or(Type::Unknown, |a| Type::Array(a.clone())));
        let ty = Type::Tuple(types.collect());
        let named = self.descending(call).into_iter().collect();
        call.make_named(args, named, ty)
    }
}
