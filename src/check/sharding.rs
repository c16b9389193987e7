//! Calls of `gpus` and `shard`, the builtins that distribute arrays over several devices.

use crate::arguments::by_name;
use crate::build::I32;
use crate::builtin_call::BuiltinCall;
use crate::const_eval;
use crate::context::Cx;
use crate::infer::{TypeClass, array};
use crate::typed::*;

impl Cx<'_> {
    /// Checks `gpus(n)`.
    pub fn gpus(&mut self, call: BuiltinCall<'_>) -> Expr {
        let Some(positional) = self.take_positional(call, 1..=1, &[]) else {
            return self.after_error(call.args, call.span);
        };
        let Some(count) = positional.first().map(|e| self.expr_as(e, &I32)) else { return self.bad(call.span) };
        let device_count = const_eval::int(self, &count).filter(|n| *n >= 0);
        call.make(vec![count], array(I32, vec![device_count.map_or(Dim::Unknown, Dim::Known)]))
    }

    /// Checks `shard(x, devices, axis = 0, halo = 0, granule = g)`.
    pub fn shard(&mut self, call: BuiltinCall<'_>) -> Expr {
        let named_params = ["axis", "halo", "granule"].map(by_name);
        let Some(positional) = self.take_positional(call, 2..=2, &named_params) else {
            return self.after_error(call.args, call.span);
        };
        let Some((x, a)) = positional.first().and_then(|e| self.array_arg(call, e, None)) else {
            return self.bad(call.span);
        };
        let Some((devices, _)) = positional.get(1).and_then(|e| self.array_arg(call, e, Some(TypeClass::Int))) else {
            return self.bad(call.span);
        };
        let axis = self.axis(call, None, a.map(|a| a.dims.len())).map(|(e, _)| ("axis".into(), e));
        let others = ["halo", "granule"].map(|name| self.named_int(call, name));
        let named_args = axis.into_iter().chain(others.into_iter().flatten()).collect();
        let ty = x.ty.clone();
        call.make_named(vec![x, devices], named_args, ty)
    }
}
