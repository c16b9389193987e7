//! Emits guards, assertions, output and barriers.
//!
//! A thread that faults writes a fault record and returns. This does not block other threads: hardware barriers and
//! warp operations wait only for threads that have not exited, and a grid barrier polls the fault record while it
//! waits.

use super::generator::CudaGenerator;
use super::helpers::COMPONENTS;
use super::scalar::not;
use super::tree::{CudaExpr, CudaStmt as Out};
use clk_base::source::Span;
use clk_ir::def::*;
use clk_ir::ranges::BodySite;
use clk_runtime::fault_record::{FaultSite as FaultPlace, FaultSiteKind, MAX_VALUES, RecordedSegment};
use clk_scalar::builtin::Builtin;
use clk_scalar::ops::{BarrierKind, WarpOp};

impl CudaGenerator<'_> {
    /// Emits a guard: if `broken` is true, the thread reports a fault and returns.
    pub fn guard(&mut self, broken: CudaExpr, place: FaultPlace, values: Vec<CudaExpr>) {
        let number = self.records.places.len();
        self.records.places.push(place);
        let report = self.report(number, values);
        self.push(Out::If(broken, vec![report, Out::Return], vec![]));
    }

    /// Returns the statement that reports a fault at a site.
    pub fn report(&mut self, place: usize, values: Vec<CudaExpr>) -> Out {
        self.preamble.helpers.need("report");
        self.records.uses_faults = true;
        let (block, thread) = match self.naming.indices.as_slice() {
            [] => (CudaExpr::atom("blockIdx"), CudaExpr::atom("threadIdx")),
            indices => {
                let mut index: Vec<CudaExpr> = indices.iter().map(|(name, _)| CudaExpr::atom(name)).collect();
                index.resize(3, CudaExpr::int(0));
                (CudaExpr::atom("make_uint3(0, 0, 0)"), CudaExpr::call("make_uint3", index))
            }
        };
        let mut args = vec![CudaExpr::atom("faults"), CudaExpr::int(place as i128), block, thread];
        args.extend(values.into_iter().take(MAX_VALUES));
        Out::Do(CudaExpr::call("report", args))
    }

    /// Emits the bounds check of an access. It tests only the axes for which the index is not proved to be in bounds.
    pub fn guard_access(&mut self, site: BodySite, place: &Place, write: bool, span: Span) {
        if !self.options.checked {
            return;
        }
        let Some(axes) = self.analyses.ranges.guards.get(&site).cloned() else { return };
        let function = self.function;
        let load = if let (BodySite::Load(id), Some(_)) = (site, &self.deferred.checks) { Some(id) } else { None };
        let mut tests = vec![];
        for axis in axes {
            let index = place.indices[axis as usize];
            let s = function.exprs[index].ty.scalar();
            let index = self.value(index);
            let extent = self.extent(place.memory, axis as usize);
            let wide = s.size() == 8;
            if wide {
                self.preamble.helpers.need("u64");
            }
            let name = if wide { "u64" } else { "unsigned" };
            let index = if s.is_unsigned() && s.size() >= 4 { index } else { CudaExpr::call(name, [index]) };
            let op = if load.is_some() { "<" } else { ">=" };
            tests.push(CudaExpr::binary(op, index, CudaExpr::call(name, [extent])));
        }
        let Some(test) = CudaExpr::all(if load.is_some() { "&&" } else { "||" }, tests) else { return };
        self.preamble.helpers.need("wide");
        let indices = place.indices.iter().map(|&index| CudaExpr::call("wide", [self.value(index)])).collect();
        let extents = (0..place.indices.len()).map(|axis| CudaExpr::call("wide", [self.extent(place.memory, axis)]));
        let extents: Vec<CudaExpr> = extents.collect();
        let rank = place.indices.len();
        let array = function.memories[place.memory].name.clone();
        let place = FaultPlace { span, kind: FaultSiteKind::OutOfBounds { array, rank, write } };
        match load {
            Some(id) => self.defer_guard(id, test, place, [indices, extents]),
            None => self.guard(test, place, [indices, extents].concat()),
        }
    }

    pub fn guard_division(&mut self, id: ExprId, left: ExprId, right: ExprId, span: Span) {
        if !self.options.checked || !self.analyses.ranges.zero_divisors.contains(&id) {
            return;
        }
        let ty = self.function.exprs[left].ty;
        let (left, right) = (self.value(left), self.value(right));
        let lanes = self.components(ty, &right);
        let zero = |lane: &CudaExpr| CudaExpr::binary("==", lane.clone(), CudaExpr::int(0));
        let Some(broken) = CudaExpr::all("||", lanes.iter().map(zero)) else { return };
        let mut values = self.components(ty, &left);
        values.extend(lanes);
        let values = self.raw(values);
        self.guard(broken, FaultPlace { span, kind: FaultSiteKind::DivisionByZero { ty } }, values);
    }

    /// Emits a check that the mask of a warp operation includes the thread's own lane. Code on a GPU cannot check
    /// whether the other lanes of the mask execute the operation.
    pub fn guard_among(&mut self, op: WarpOp, among: Option<ExprId>, span: Span) {
        let Some(among) = among.filter(|_| self.options.checked) else { return };
        self.preamble.helpers.need("wide");
        let lane = CudaExpr::Atom(self.identity(&ExprKind::LaneIdx));
        let mask = self.value(among);
        let bit = CudaExpr::binary("&", CudaExpr::binary(">>", mask.clone(), lane.clone()), CudaExpr::int(1));
        let values = vec![CudaExpr::call("wide", [mask]), CudaExpr::call("wide", [lane])];
        let operation = Builtin::Warp(op).name().to_string();
        let place = FaultPlace { span, kind: FaultSiteKind::Among { what: operation } };
        self.guard(CudaExpr::binary("==", bit, CudaExpr::int(0)), place, values);
    }

    pub fn guard_step(&mut self, step: ExprId, span: Span) {
        let constant = matches!(self.function.exprs[step].kind, ExprKind::Const(bits) if bits != 0);
        if self.options.checked && !constant {
            let step = self.value(step);
            let place = FaultPlace { span, kind: FaultSiteKind::ZeroStep };
            self.guard(CudaExpr::binary("==", step, CudaExpr::int(0)), place, vec![]);
        }
    }

    fn components(&self, ty: Ty, value: &CudaExpr) -> Vec<CudaExpr> {
        match ty {
            Ty::Scalar(_) => vec![value.clone()],
            Ty::Vector(_, n) => COMPONENTS[..n as usize].iter().map(|c| CudaExpr::member(value.clone(), *c)).collect(),
        }
    }

    fn raw(&mut self, values: Vec<CudaExpr>) -> Vec<CudaExpr> {
        self.preamble.helpers.need("raw");
        values.into_iter().map(|value| CudaExpr::call("raw", [value])).collect()
    }

    /// Returns the segments of a message, and the expressions of its values in order.
    fn message(&mut self, parts: &[MessageSegment]) -> (Vec<RecordedSegment>, Vec<CudaExpr>) {
        let mut pieces = vec![];
        let mut values = vec![];
        for part in parts {
            match part {
                MessageSegment::Text(text) => pieces.push(RecordedSegment::Text(text.clone())),
                MessageSegment::Value(id, format) => {
                    let ty = self.function.exprs[*id].ty;
                    let name = self.preamble.helpers.ty(ty);
                    // A C++ literal may have a different type than the constant, so it needs a cast.
                    let value = match self.function.exprs[*id].kind {
                        ExprKind::Const(_) if !matches!(ty.scalar(), Scalar::F16 | Scalar::Bf16) => {
                            let value = self.value(*id);
                            CudaExpr::call(name, [value])
                        }
                        _ => self.value(*id),
                    };
                    values.extend(self.components(ty, &value));
                    pieces.push(RecordedSegment::Value(ty, format.clone()));
                }
            }
        }
        let values = if values.is_empty() { values } else { self.raw(values) };
        (pieces, values)
    }

    pub fn assert(&mut self, cond: ExprId, message: &[MessageSegment], span: Span) {
        let cond = self.value(cond);
        let (message, values) = self.message(message);
        self.guard(not(cond), FaultPlace { span, kind: FaultSiteKind::Assert { message } }, values);
    }

    pub fn print(&mut self, parts: &[MessageSegment]) {
        self.preamble.helpers.need("print");
        self.records.uses_prints = true;
        let (pieces, values) = self.message(parts);
        let number = self.records.prints.len();
        self.records.prints.push(pieces);
        let mut args = vec![CudaExpr::atom("prints"), CudaExpr::int(number as i128), CudaExpr::atom("printed++")];
        args.extend(self.thread_identity());
        args.extend(values);
        self.push(Out::Do(CudaExpr::call("print", args)));
    }

    /// Returns the numbers that identify the printing thread: its block and its number in the block, or for a `threads`
    /// kernel its linear index.
    fn thread_identity(&mut self) -> [CudaExpr; 2] {
        let mut index: Option<CudaExpr> = None;
        for (name, extent) in &self.naming.indices {
            index = Some(match index {
                None => CudaExpr::call("u64", [CudaExpr::atom(name)]),
                Some(rows) => {
                    CudaExpr::binary("+", CudaExpr::binary("*", rows, CudaExpr::atom(extent)), CudaExpr::atom(name))
                }
            });
        }
        match index {
            Some(index) => [index, CudaExpr::int(0)],
            None => {
                self.preamble.helpers.need("numbers");
                [CudaExpr::call("block_number", []), CudaExpr::call("thread_number", [])]
            }
        }
    }

    pub fn barrier(&mut self, kind: BarrierKind, value: Option<ExprId>, result: Option<ExprId>) {
        let value: Vec<CudaExpr> = value.into_iter().map(|id| self.value(id)).collect();
        let isnt_zero = |call: CudaExpr| CudaExpr::binary("!=", call, CudaExpr::int(0));
        let call = match kind {
            BarrierKind::Block => CudaExpr::call("__syncthreads", []),
            BarrierKind::BlockAny => isnt_zero(CudaExpr::call("__syncthreads_or", value)),
            BarrierKind::BlockAll => isnt_zero(CudaExpr::call("__syncthreads_and", value)),
            BarrierKind::BlockCount => CudaExpr::call("__syncthreads_count", value),
            BarrierKind::Warp => CudaExpr::call("__syncwarp", []),
            BarrierKind::Grid => return self.grid_barrier(),
        };
        self.result(result, call);
    }

    fn grid_barrier(&mut self) {
        self.preamble.helpers.need("grid_barrier");
        self.records.uses_grid = true;
        let args = [CudaExpr::atom("grid_arrivals"), CudaExpr::atom("fault_word")];
        self.push(Out::If(CudaExpr::call("grid_barrier", args), vec![Out::Return], vec![]));
    }
}
