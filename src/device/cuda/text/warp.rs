//! Operations among the lanes of a warp. Either all of its threads take part, with a full mask (a block's last warp may be
//! short), or those in an explicit mask: as CUDA requires, all of these execute the operation with the same mask.

use super::generator::{Gen, Known};
use super::helpers::FUNCTION;
use super::print;
use super::tree::Expr;
use crate::ir::def::*;
use crate::lang::ops::{MathFn, WarpOp};

impl Gen<'_> {
    pub fn warp(&mut self, op: WarpOp, value: ExprId, (lane, among): (Option<ExprId>, Option<ExprId>), result: ExprId) {
        let ty = self.function.exprs[value].ty;
        let known_lane = lane.and_then(|lane| match self.function.exprs[lane].kind {
            ExprKind::Const(bits) => Some(bits),
            _ => None,
        });
        let value = self.value(value);
        let lane = lane.map(|lane| self.value(lane));
        let among = among.map(|among| self.value(among));
        let mask = among.clone().unwrap_or_else(all);
        let call = match op {
            WarpOp::Ballot => Expr::call("__ballot_sync", [mask, value]),
            WarpOp::Any => Expr::binary("!=", Expr::call("__any_sync", [mask, value]), Expr::int(0)),
            WarpOp::All => Expr::binary("!=", Expr::call("__all_sync", [mask, value]), Expr::int(0)),
            WarpOp::MatchAny => {
                self.helpers.need("match_any");
                let value = self.of_own_type(ty.scalar(), value);
                Expr::call("match_any", [mask, value])
            }
            WarpOp::Shuffle | WarpOp::ShuffleUp | WarpOp::ShuffleDown | WarpOp::ShuffleXor => {
                let lane = lane.unwrap_or(Expr::int(0));
                match among {
                    Some(among) => self.shuffle_among(op, ty, value, lane, among),
                    None => self.shuffle(op, ty, value, lane, known_lane),
                }
            }
            _ => self.reduce(op, ty.scalar(), value, among),
        };
        self.result(Some(result), call);
    }

    /// Casts a literal, whose C++ type may differ from its value's.
    fn of_own_type(&mut self, s: Scalar, value: Expr) -> Expr {
        let ty = self.helpers.scalar(s);
        if matches!(value, Expr::Atom(_)) { Expr::call(ty, [value]) } else { value }
    }

    /// Returns the source lane of a shuffle as an `int`; it may be out of range.
    fn source(&mut self, op: WarpOp, lane: Expr) -> Expr {
        let own = Expr::Atom(self.identity(&ExprKind::LaneIdx));
        let unsigned = |own| Expr::call("unsigned", [own]);
        // Far lanes wrap around to others that are out of range.
        let from = match op {
            WarpOp::Shuffle => Expr::binary("&", lane, Expr::int(31)),
            WarpOp::ShuffleUp => Expr::binary("-", unsigned(own), lane),
            WarpOp::ShuffleDown => Expr::binary("+", unsigned(own), lane),
            _ => Expr::binary("^", own, lane),
        };
        Expr::call("int", [from])
    }

    fn shuffle_among(&mut self, op: WarpOp, ty: Ty, value: Expr, lane: Expr, among: Expr) -> Expr {
        self.helpers.need("shuffle_among");
        let own = Expr::Atom(self.identity(&ExprKind::LaneIdx));
        let from = self.source(op, lane);
        let value = if ty.lanes() == 1 { self.of_own_type(ty.scalar(), value) } else { value };
        Expr::call("shuffle_among", [value, from, own, among])
    }

    /// Returns whether all warps have 32 lanes.
    fn full_warps(&self) -> bool {
        self.options.block.is_some_and(|block| block.iter().map(|&n| u64::from(n)).product::<u64>().is_multiple_of(32))
    }

    fn lanes(&mut self) -> Expr {
        if self.full_warps() {
            return Expr::int(32);
        }
        self.helpers.need("warp_size");
        Expr::call("warp_size", [])
    }

    fn shuffle(&mut self, op: WarpOp, ty: Ty, value: Expr, lane: Expr, known: Option<u64>) -> Expr {
        let native = matches!(ty, Ty::Scalar(s) if s.size() >= 4);
        let full = self.full_warps();
        let near = known.is_some_and(|lane| lane < 32);
        let name = match op {
            WarpOp::Shuffle if full => Some("__shfl_sync"),
            // Lower lanes always exist.
            WarpOp::ShuffleUp if near => Some("__shfl_up_sync"),
            WarpOp::ShuffleDown if near && full => Some("__shfl_down_sync"),
            WarpOp::ShuffleXor if near && full => Some("__shfl_xor_sync"),
            _ => None,
        };
        if let (Some(name), true) = (name, native) {
            return Expr::call(name, [all(), value, lane]);
        }
        self.helpers.need("shuffle");
        let own = Expr::Atom(self.identity(&ExprKind::LaneIdx));
        let from = self.source(op, lane);
        let lanes = self.lanes();
        Expr::call("shuffle", [value, from, own, lanes])
    }

    /// Returns a reduction; on 32-bit integers by one instruction, where there is one.
    fn reduce(&mut self, op: WarpOp, s: Scalar, value: Expr, among: Option<Expr>) -> Expr {
        let ty = self.helpers.scalar(s);
        let what = match op {
            WarpOp::ReduceAdd => "add",
            WarpOp::ReduceMin => "min",
            WarpOp::ReduceMax => "max",
            WarpOp::ReduceAnd => "and",
            WarpOp::ReduceOr => "or",
            _ => "xor",
        };
        let suffix = if among.is_some() { "_among" } else { "" };
        let name = format!("warp_{what}{suffix}");
        if self.helpers.is_new(&format!("{name} {ty}")) {
            self.helpers.need(if among.is_some() { "reduce_among" } else { "butterfly" });
            let (a, b) = (Expr::atom("a"), Expr::atom("b"));
            let known = Known::default();
            let combined = match op {
                WarpOp::ReduceAdd => self.helpers.binary(BinOp::Add, s, a, b, known),
                WarpOp::ReduceMin => self.helpers.math(MathFn::Min, s, vec![a, b], known),
                WarpOp::ReduceMax => self.helpers.math(MathFn::Max, s, vec![a, b], known),
                WarpOp::ReduceAnd => self.helpers.binary(BinOp::And, s, a, b, known),
                WarpOp::ReduceOr => self.helpers.binary(BinOp::Or, s, a, b, known),
                _ => self.helpers.binary(BinOp::Xor, s, a, b, known),
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
                (Scalar::I32, true) => Some(format!("int(__reduce_{what}_sync({mask}, unsigned(value)))")),
                (Scalar::I32 | Scalar::U32, _) => Some(format!("__reduce_{what}_sync({mask}, value)")),
                _ => None,
            };
            let body = match direct {
                Some(direct) => {
                    format!("#if __CUDA_ARCH__ >= 800\n    return {direct};\n#else\n{general}#endif\n")
                }
                None => general,
            };
            self.helpers.add(&format!("{FUNCTION} {ty} {name}({ty} value, {parameters}) {{\n{body}}}"));
        }
        // The C++ type of literals may differ from their value's.
        let value = if matches!(value, Expr::Atom(_)) && s.size() < 4 { Expr::call(ty, [value]) } else { value };
        if let Some(among) = among {
            return Expr::call(name, [value, among]);
        }
        let own = Expr::Atom(self.identity(&ExprKind::LaneIdx));
        let lanes = self.lanes();
        Expr::call(name, [value, own, lanes])
    }
}

/// Returns the mask of all lanes.
fn all() -> Expr {
    Expr::atom("~0u")
}
