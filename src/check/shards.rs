//! Calls of builtins for arrays that are cut into parts for several devices.

use crate::check::arguments::by_name;
use crate::check::builtin_call::BuiltinCall;
use crate::check::cx::Cx;
use crate::check::eval;
use crate::check::infer::{Kind, array};
use crate::check::make::I32;
use crate::check::typed::*;

impl Cx<'_> {
    /// `gpus(n)`
    pub fn gpus(&mut self, call: BuiltinCall<'_>) -> Expr {
        let Some(given) = self.take(call, 1..=1, &[]) else { return self.after_error(call.args, call.span) };
        let Some(count) = given.first().map(|e| self.expr_as(e, &I32)) else { return self.bad(call.span) };
        let known = eval::int(self, &count).filter(|n| *n >= 0);
        call.make(vec![count], array(I32, vec![known.map_or(Dim::Unknown, Dim::Known)]))
    }

    /// `shard(x, devices, axis = 0, halo = 0, granule = g)`
    pub fn shard(&mut self, call: BuiltinCall<'_>) -> Expr {
        let named = ["axis", "halo", "granule"].map(by_name);
        let Some(given) = self.take(call, 2..=2, &named) else { return self.after_error(call.args, call.span) };
        let Some((x, a)) = given.first().and_then(|e| self.array_arg(call, e, None)) else {
            return self.bad(call.span);
        };
        let Some((devices, _)) = given.get(1).and_then(|e| self.array_arg(call, e, Some(Kind::Int))) else {
            return self.bad(call.span);
        };
        let axis = self.axis(call, None, a.map(|a| a.dims.len())).map(|(e, _)| ("axis".into(), e));
        let others = ["halo", "granule"].map(|name| self.named_int(call, name));
        let named = axis.into_iter().chain(others.into_iter().flatten()).collect();
        let ty = x.ty.clone();
        call.make_named(vec![x, devices], named, ty)
    }
}
