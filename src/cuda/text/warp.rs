//! Emits warp operations. Without an explicit mask, all threads of the warp participate, and the code passes a full
//! mask (the last warp of a block may have fewer than 32 threads). With an explicit mask, all threads in it must
//! execute the operation with the same mask, as CUDA requires.

use super::generator::{CudaGenerator, OpFacts};
use super::helpers::FUNCTION;
use super::print;
use super::tree::CudaExpr;
use clk_ir::def::*;
use clk_scalar::ops::{MathFn, WarpOp};

impl CudaGenerator<'_> {
    pub fn warp(&mut self, op: WarpOp, value: ExprId, lane: Option<ExprId>, among: Option<ExprId>, result: ExprId) {
        let ty = self.function.exprs[value].ty;
        let known_lane = lane.and_then(|lane| Some(self.function.const_value(lane)?.bits));
        let value = self.value(value);
        let lane = lane.map(|lane| self.value(lane));
        let among = among.map(|among| self.value(among));
        let mask = among.clone().unwrap_or_else(all);
        let call = match op {
            WarpOp::Ballot => CudaExpr::call("__ballot_sync", [mask, value]),
            WarpOp::Any => CudaExpr::binary("!=", CudaExpr::call("__any_sync", [mask, value]), CudaExpr::int(0)),
            WarpOp::All => CudaExpr::binary("!=", CudaExpr::call("__all_sync", [mask, value]), CudaExpr::int(0)),
            WarpOp::MatchAny => {
                self.preamble.helpers.need("match_any");
                let value = self.of_own_type(ty.scalar(), value);
                CudaExpr::call("match_any", [mask, value])
            }
            WarpOp::Shuffle | WarpOp::ShuffleUp | WarpOp::ShuffleDown | WarpOp::ShuffleXor => {
                let lane = lane.unwrap_or(CudaExpr::int(0));
                match among {
                    Some(among) => self.shuffle_among(op, ty, value, lane, among),
                    None => self.shuffle(op, ty, value, lane, known_lane),
                }
            }
            _ => self.reduce(op, ty.scalar(), value, among),
        };
        self.result(Some(result), call);
    }

    /// Casts a literal to the type of its value, from which its C++ type may differ.
    fn of_own_type(&mut self, s: Scalar, value: CudaExpr) -> CudaExpr {
        let ty = self.preamble.helpers.scalar(s);
        if matches!(value, CudaExpr::Atom(_)) { CudaExpr::call(ty, [value]) } else { value }
    }

    /// Returns the source lane of a shuffle as an `int` expression. The lane may be out of range.
    fn source(&mut self, op: WarpOp, lane: CudaExpr) -> CudaExpr {
        let own = CudaExpr::Atom(self.identity(&ExprKind::LaneIdx));
        let unsigned = |own| CudaExpr::call("unsigned", [own]);
        // The computation on `unsigned` may wrap around, but the result is then still out of range.
        let from = match op {
            WarpOp::Shuffle => CudaExpr::binary("&", lane, CudaExpr::int(31)),
            WarpOp::ShuffleUp => CudaExpr::binary("-", unsigned(own), lane),
            WarpOp::ShuffleDown => CudaExpr::binary("+", unsigned(own), lane),
            _ => CudaExpr::binary("^", own, lane),
        };
        CudaExpr::call("int", [from])
    }

    fn shuffle_among(&mut self, op: WarpOp, ty: Ty, value: CudaExpr, lane: CudaExpr, among: CudaExpr) -> CudaExpr {
        self.preamble.helpers.need("shuffle_among");
        let own = CudaExpr::Atom(self.identity(&ExprKind::LaneIdx));
        let from = self.source(op, lane);
        let value = if ty.lanes() == 1 { self.of_own_type(ty.scalar(), value) } else { value };
        CudaExpr::call("shuffle_among", [value, from, own, among])
    }

    /// Returns whether all warps of a block are known to have 32 threads.
    fn full_warps(&self) -> bool {
        self.options.block.is_some_and(|block| block.iter().map(|&n| u64::from(n)).product::<u64>().is_multiple_of(32))
    }

    fn lanes(&mut self) -> CudaExpr {
        if self.full_warps() {
            return CudaExpr::int(32);
        }
        self.preamble.helpers.need("warp_size");
        CudaExpr::call("warp_size", [])
    }

    fn shuffle(&mut self, op: WarpOp, ty: Ty, value: CudaExpr, lane: CudaExpr, known: Option<u64>) -> CudaExpr {
        let native = matches!(ty, Ty::Scalar(s) if s.size() >= 4);
        let full = self.full_warps();
        let near = known.is_some_and(|lane| lane < 32);
        let name = match op {
            WarpOp::Shuffle if full => Some("__shfl_sync"),
            // A lower lane always exists, so the CUDA function can be used directly.
            WarpOp::ShuffleUp if near => Some("__shfl_up_sync"),
            WarpOp::ShuffleDown if near && full => Some("__shfl_down_sync"),
            WarpOp::ShuffleXor if near && full => Some("__shfl_xor_sync"),
            _ => None,
        };
        if let (Some(name), true) = (name, native) {
            return CudaExpr::call(name, [all(), value, lane]);
        }
        self.preamble.helpers.need("shuffle");
        let own = CudaExpr::Atom(self.identity(&ExprKind::LaneIdx));
        let from = self.source(op, lane);
        let lanes = self.lanes();
        CudaExpr::call("shuffle", [value, from, own, lanes])
    }

    /// Returns a reduction over lanes. For 32-bit integers, it is a single instruction if the GPU has one.
    fn reduce(&mut self, op: WarpOp, s: Scalar, value: CudaExpr, among: Option<CudaExpr>) -> CudaExpr {
        let ty = self.preamble.helpers.scalar(s);
        let op_name = match op {
            WarpOp::ReduceAdd => "add",
            WarpOp::ReduceMin => "min",
            WarpOp::ReduceMax => "max",
            WarpOp::ReduceAnd => "and",
            WarpOp::ReduceOr => "or",
            _ => "xor",
        };
        let suffix = if among.is_some() { "_among" } else { "" };
        let name = format!("warp_{op_name}{suffix}");
        if self.preamble.helpers.is_new(&format!("{name} {ty}")) {
            self.preamble.helpers.need(if among.is_some() { "reduce_among" } else { "butterfly" });
            let (a, b) = (CudaExpr::atom("a"), CudaExpr::atom("b"));
            let facts = OpFacts::default();
            let combined = match op {
                WarpOp::ReduceAdd => self.preamble.helpers.binary(BinOp::Add, s, a, b, facts),
                WarpOp::ReduceMin => self.preamble.helpers.math(MathFn::Min, s, vec![a, b], facts),
                WarpOp::ReduceMax => self.preamble.helpers.math(MathFn::Max, s, vec![a, b], facts),
                WarpOp::ReduceAnd => self.preamble.helpers.binary(BinOp::And, s, a, b, facts),
                WarpOp::ReduceOr => self.preamble.helpers.binary(BinOp::Or, s, a, b, facts),
                _ => self.preamble.helpers.binary(BinOp::Xor, s, a, b, facts),
            };
            let combine = format!("[]({ty} a, {ty} b) -> {ty} {{ return {}; }}", print::expr(&combined));
            let (general, mask, parameters) = match among {
                Some(_) => (format!("    return reduce_among(value, mask, {combine});\n"), "mask", "unsigned mask"),
                None => {
                    (format!("    return butterfly(value, lane, lanes, {combine});\n"), "~0u", "int lane, int lanes")
                }
            };
            let bits = matches!(op, WarpOp::ReduceAnd | WarpOp::ReduceOr | WarpOp::ReduceXor);
            let direct = match (s, bits) {
                (Scalar::I32, true) => Some(format!("int(__reduce_{op_name}_sync({mask}, unsigned(value)))")),
                (Scalar::I32 | Scalar::U32, _) => Some(format!("__reduce_{op_name}_sync({mask}, value)")),
                _ => None,
            };
            let body = match direct {
                Some(direct) => {
                    format!("#if __CUDA_ARCH__ >= 800\n    return {direct};\n#else\n{general}#endif\n")
                }
                None => general,
            };
            self.preamble.helpers.add(&format!("{FUNCTION} {ty} {name}({ty} value, {parameters}) {{\n{body}}}"));
        }
        // Cast literals, because their C++ type may differ from the type of the value.
        let value =
            if matches!(value, CudaExpr::Atom(_)) && s.size() < 4 { CudaExpr::call(ty, [value]) } else { value };
        if let Some(among) = among {
            return CudaExpr::call(name, [value, among]);
        }
        let own = CudaExpr::Atom(self.identity(&ExprKind::LaneIdx));
        let lanes = self.lanes();
        CudaExpr::call(name, [value, own, lanes])
    }
}

/// Returns the mask that contains all lanes.
fn all() -> CudaExpr {
    CudaExpr::atom("~0u")
}
