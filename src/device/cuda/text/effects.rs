//! Guards, assertions, output, barriers.
//!
//! A thread that faults writes a record and returns. That does not block the others: barriers and warp operations of the hardware
//! wait only for threads that have not exited, and a grid barrier polls the fault record while it waits.

use super::abi::{MAX_FAULT_VALUES, Piece, Place as FaultPlace, PlaceKind};
use super::generator::Gen;
use super::helpers::COMPONENTS;
use super::scalar::not;
use super::tree::{Expr, Stmt as Out};
use crate::base::source::Span;
use crate::ir::def::*;
use crate::ir::ranges::Site;
use crate::lang::builtin::Builtin;
use crate::lang::ops::{BarrierKind, WarpOp};

impl Gen<'_> {
    /// Emits a guard: the thread reports a fault and returns if `broken` is true.
    pub fn guard(&mut self, broken: Expr, place: FaultPlace, values: Vec<Expr>) {
        let number = self.places.len();
        self.places.push(place);
        let report = self.report(number, values);
        self.push(Out::If(broken, vec![report, Out::Return], vec![]));
    }

    /// Returns the report of a fault at a place.
    pub fn report(&mut self, place: usize, values: Vec<Expr>) -> Out {
        self.helpers.need("report");
        self.uses_faults = true;
        let (block, thread) = match self.indices.as_slice() {
            [] => (Expr::atom("blockIdx"), Expr::atom("threadIdx")),
            indices => {
                let mut index: Vec<Expr> = indices.iter().map(|(name, _)| Expr::atom(name)).collect();
                index.resize(3, Expr::int(0));
                (Expr::atom("make_uint3(0, 0, 0)"), Expr::call("make_uint3", index))
            }
        };
        let mut args = vec![Expr::atom("faults"), Expr::int(place as i128), block, thread];
        args.extend(values.into_iter().take(MAX_FAULT_VALUES));
        Out::Do(Expr::call("report", args))
    }

    /// Emits the bounds check of an access, as far as its indices were not proved to be in bounds.
    pub fn guard_access(&mut self, site: Site, place: &Place, write: bool, span: Span) {
        if !self.options.checked {
            return;
        }
        let Some(axes) = self.ranges.guards.get(&site).cloned() else { return };
        let function = self.function;
        let load = if let (Site::Load(id), Some(_)) = (site, &self.late) { Some(id) } else { None };
        let mut tests = vec![];
        for axis in axes {
            let index = place.indices[axis as usize];
            let s = function.exprs[index].ty.scalar();
            let index = self.value(index);
            let extent = self.extent(place.memory, axis as usize);
            let wide = s.size() == 8;
            if wide {
                self.helpers.need("u64");
            }
            let name = if wide { "u64" } else { "unsigned" };
            let index = if s.is_unsigned() && s.size() >= 4 { index } else { Expr::call(name, [index]) };
            let op = if load.is_some() { "<" } else { ">=" };
            tests.push(Expr::binary(op, index, Expr::call(name, [extent])));
        }
        let Some(test) = Expr::all(if load.is_some() { "&&" } else { "||" }, tests) else { return };
        self.helpers.need("wide");
        let indices = place.indices.iter().map(|&index| Expr::call("wide", [self.value(index)])).collect();
        let extents = (0..place.indices.len()).map(|axis| Expr::call("wide", [self.extent(place.memory, axis)]));
        let extents: Vec<Expr> = extents.collect();
        let rank = place.indices.len();
        let array = function.memories[place.memory].name.clone();
        let place = FaultPlace { span, kind: PlaceKind::OutOfBounds { array, rank, write } };
        match load {
            Some(id) => self.guard_late(id, test, place, [indices, extents]),
            None => self.guard(test, place, [indices, extents].concat()),
        }
    }

    pub fn guard_division(&mut self, id: ExprId, left: ExprId, right: ExprId, span: Span) {
        if !self.options.checked || !self.ranges.zero_divisors.contains(&id) {
            return;
        }
        let ty = self.function.exprs[left].ty;
        let (left, right) = (self.value(left), self.value(right));
        let lanes = self.components(ty, &right);
        let zero = |lane: &Expr| Expr::binary("==", lane.clone(), Expr::int(0));
        let Some(broken) = Expr::all("||", lanes.iter().map(zero)) else { return };
        let mut values = self.components(ty, &left);
        values.extend(lanes);
        let values = self.raw(values);
        self.guard(broken, FaultPlace { span, kind: PlaceKind::DivisionByZero { ty } }, values);
    }

    /// Emits the check that the mask of a warp operation includes the thread's own lane. (Whether the other lanes arrive cannot
    /// be checked on a GPU.)
    pub fn guard_among(&mut self, op: WarpOp, among: Option<ExprId>, span: Span) {
        let Some(among) = among.filter(|_| self.options.checked) else { return };
        self.helpers.need("wide");
        let lane = Expr::Atom(self.identity(&ExprKind::LaneIdx));
        let mask = self.value(among);
        let bit = Expr::binary("&", Expr::binary(">>", mask.clone(), lane.clone()), Expr::int(1));
        let values = vec![Expr::call("wide", [mask]), Expr::call("wide", [lane])];
        let what = Builtin::Warp(op).name().to_string();
        let place = FaultPlace { span, kind: PlaceKind::Among { what } };
        self.guard(Expr::binary("==", bit, Expr::int(0)), place, values);
    }

    pub fn guard_step(&mut self, step: ExprId, span: Span) {
        let constant = matches!(self.function.exprs[step].kind, ExprKind::Const(bits) if bits != 0);
        if self.options.checked && !constant {
            let step = self.value(step);
            let place = FaultPlace { span, kind: PlaceKind::ZeroStep };
            self.guard(Expr::binary("==", step, Expr::int(0)), place, vec![]);
        }
    }

    fn components(&self, ty: Ty, value: &Expr) -> Vec<Expr> {
        match ty {
            Ty::Scalar(_) => vec![value.clone()],
            Ty::Vector(_, n) => COMPONENTS[..n as usize].iter().map(|c| Expr::member(value.clone(), *c)).collect(),
        }
    }

    fn raw(&mut self, values: Vec<Expr>) -> Vec<Expr> {
        self.helpers.need("raw");
        values.into_iter().map(|value| Expr::call("raw", [value])).collect()
    }

    /// Returns a message's pieces, and its values in order.
    fn message(&mut self, parts: &[Part]) -> (Vec<Piece>, Vec<Expr>) {
        let mut pieces = vec![];
        let mut values = vec![];
        for part in parts {
            match part {
                Part::Text(text) => pieces.push(Piece::Text(text.clone())),
                Part::Value(id, format) => {
                    let ty = self.function.exprs[*id].ty;
                    let name = self.helpers.ty(ty);
                    // The type of a literal is exact only after a cast.
                    let value = match self.function.exprs[*id].kind {
                        ExprKind::Const(_) if !matches!(ty.scalar(), Scalar::F16 | Scalar::Bf16) => {
                            let value = self.value(*id);
                            Expr::call(name, [value])
                        }
                        _ => self.value(*id),
                    };
                    values.extend(self.components(ty, &value));
                    pieces.push(Piece::Value(ty, format.clone()));
                }
            }
        }
        let values = if values.is_empty() { values } else { self.raw(values) };
        (pieces, values)
    }

    pub fn assert(&mut self, cond: ExprId, message: &[Part], span: Span) {
        let cond = self.value(cond);
        let (message, values) = self.message(message);
        self.guard(not(cond), FaultPlace { span, kind: PlaceKind::Assert { message } }, values);
    }

    pub fn print(&mut self, parts: &[Part]) {
        self.helpers.need("print");
        self.uses_prints = true;
        let (pieces, values) = self.message(parts);
        let number = self.prints.len();
        self.prints.push(pieces);
        let mut args = vec![Expr::atom("prints"), Expr::int(number as i128), Expr::atom("printed++")];
        args.extend(self.whose());
        args.extend(values);
        self.push(Out::Do(Expr::call("print", args)));
    }

    /// Returns the identity of the printing thread: the block and the thread within it, or the linear index of a `threads`
    /// kernel.
    fn whose(&mut self) -> [Expr; 2] {
        let mut index: Option<Expr> = None;
        for (name, extent) in &self.indices {
            index = Some(match index {
                None => Expr::call("u64", [Expr::atom(name)]),
                Some(rows) => Expr::binary("+", Expr::binary("*", rows, Expr::atom(extent)), Expr::atom(name)),
            });
        }
        match index {
            Some(index) => [index, Expr::int(0)],
            None => {
                self.helpers.need("numbers");
                [Expr::call("block_number", []), Expr::call("thread_number", [])]
            }
        }
    }

    pub fn barrier(&mut self, kind: BarrierKind, value: Option<ExprId>, result: Option<ExprId>) {
        let value: Vec<Expr> = value.into_iter().map(|id| self.value(id)).collect();
        let isnt_zero = |call: Expr| Expr::binary("!=", call, Expr::int(0));
        let call = match kind {
            BarrierKind::Block => Expr::call("__syncthreads", []),
            BarrierKind::BlockAny => isnt_zero(Expr::call("__syncthreads_or", value)),
            BarrierKind::BlockAll => isnt_zero(Expr::call("__syncthreads_and", value)),
            BarrierKind::BlockCount => Expr::call("__syncthreads_count", value),
            BarrierKind::Warp => Expr::call("__syncwarp", []),
            BarrierKind::Grid => return self.grid_barrier(),
        };
        self.result(result, call);
    }

    fn grid_barrier(&mut self) {
        self.helpers.need("grid_barrier");
        self.uses_grid = true;
        // Whether any site reports faults is only known at the end; the placeholder then becomes the address of the record's
        // first word.
        let args = [Expr::atom("grid_arrivals"), Expr::atom("FAULT_WORD")];
        self.push(Out::If(Expr::call("grid_barrier", args), vec![Out::Return], vec![]));
    }
}
