//! Verification of statements.

use super::expr::{PlaceUse, access};
use super::verifier::{ExprVisibility, FunctionVerifier};
use super::violation::is_int_scalar;
use crate::def::*;
use crate::typing::{self, BOOL, I32, TypingError, U32};
use clk_scalar::ops::{AtomicOp, BarrierKind};

/// The maximum nesting depth of blocks.
const MAX_DEPTH: usize = 400;

impl FunctionVerifier<'_> {
    pub fn block(&mut self, block: &Block) {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            self.report(format!("blocks nest deeper than {MAX_DEPTH}"));
        } else {
            let mut defined = Vec::new();
            for stmt in block {
                self.stmt(&stmt.kind, &mut defined);
            }
            for id in defined {
                if let Some(state) = self.states.get_mut(id.index()) {
                    *state = ExprVisibility::OutOfScope;
                }
            }
        }
        self.depth -= 1;
    }

    fn check_place(&mut self, place: &Place, usage: PlaceUse) -> Option<Ty> {
        for &index in &place.indices {
            self.operand(index);
        }
        self.valid(self.place(place, usage))
    }

    /// Returns the type, or reports the error.
    fn valid(&mut self, ty: Result<Ty, TypingError>) -> Option<Ty> {
        ty.map_err(|error| self.report(error.to_string())).ok()
    }

    fn stmt(&mut self, kind: &StmtKind, defined: &mut Vec<ExprId>) {
        match kind {
            StmtKind::Let(id) => {
                if self.evaluate(*id) {
                    defined.push(*id);
                }
            }
            StmtKind::Write { local, value } => self.write(*local, *value),
            StmtKind::Store { place, value, .. } => match self.check_place(place, PlaceUse::Write) {
                Some(ty) => self.operand_of_type(*value, ty, "the stored value"),
                None => {
                    self.operand(*value);
                }
            },
            StmtKind::Atomic { op, place, value, compare, result } => {
                let ty = self.atomic(*op, place, *value, *compare);
                self.results(result.as_slice(), ty.as_slice(), defined);
            }
            StmtKind::Barrier { kind, value, result } => {
                self.barrier(*kind, *value);
                let result_ty = typing::barrier(*kind).1;
                let extra = result.is_some() && result_ty.is_none();
                self.require(!extra, || format!("{kind:?} barrier has no result"));
                self.results(result.as_slice(), result_ty.as_slice(), defined);
            }
            StmtKind::Warp { op, value, lane, among, result } => {
                let threads = self.is_threads();
                self.require(!threads, || format!("{op:?} in a `threads` kernel"));
                let result_ty = self.operand(*value).and_then(|ty| self.valid(typing::warp(*op, ty)));
                let needs_lane = typing::warp_has_lane(*op);
                self.require(lane.is_some() == needs_lane, || format!("{op:?} with the lane {lane:?}"));
                if let Some(ty) = lane.and_then(|lane| self.operand(lane)) {
                    self.require(ty == I32 || ty == U32, || format!("a lane is {ty}"));
                }
                if let Some(ty) = among.and_then(|among| self.operand(among)) {
                    self.require(ty == U32, || format!("the lane mask is {ty}"));
                }
                self.results(&[*result], result_ty.as_slice(), defined);
            }
            StmtKind::Fence(_) => {}
            StmtKind::If { cond, then, other } => {
                self.operand_of_type(*cond, BOOL, "a condition");
                self.block(then);
                self.block(other);
            }
            StmtKind::For { .. } => self.for_(kind),
            StmtKind::Loop { label, body, .. } => self.labeled(*label, true, body),
            StmtKind::Block { label, body } => self.labeled(*label, false, body),
            StmtKind::Break(label) => {
                let is_enclosing = self.labels.iter().any(|(l, _)| l == label);
                self.require(is_enclosing, || format!("break '{} is not in a statement with that label", label.0));
            }
            StmtKind::Continue(label) => {
                let is_enclosing = self.labels.contains(&(*label, true));
                self.require(is_enclosing, || format!("continue '{} is not in a loop with that label", label.0));
            }
            StmtKind::Return(values) => self.return_(values),
            StmtKind::Call { function, args, memories, results } => {
                let result_ty = self.call(*function, args, memories);
                if let Some(result_ty) = &result_ty {
                    self.require(result_ty.len() == results.len(), || {
                        format!("a call binds {} of {} results", results.len(), result_ty.len())
                    });
                }
                self.results(results, &result_ty.unwrap_or_default(), defined);
            }
            StmtKind::Assert { cond, message } => {
                self.operand_of_type(*cond, BOOL, "an assertion");
                self.parts(message);
            }
            StmtKind::Print { parts } => self.parts(parts),
            StmtKind::Declare(memory) => {
                let local = self.function.memories.get(*memory).is_some_and(|m| m.space == MemorySpace::Local);
                self.require(local, || format!("declare of {memory:?}, which is not a local array"));
            }
        }
    }

    fn results(&mut self, results: &[ExprId], tys: &[Ty], defined: &mut Vec<ExprId>) {
        for (i, &result) in results.iter().enumerate() {
            if self.result(result, tys.get(i).copied()) {
                defined.push(result);
            }
        }
    }

    fn write(&mut self, local: LocalId, value: ExprId) {
        match self.function.locals.get(local) {
            Some(found) => {
                self.operand_of_type(value, found.ty, "the written value");
                let counter = self.counters.get(&local).is_some_and(|&n| n > 0);
                self.require(!counter, || format!("the body of a for writes its local `{}`", found.name));
            }
            None => {
                self.operand(value);
                self.report(format!("local {local:?} does not exist"));
            }
        }
    }

    fn for_(&mut self, kind: &StmtKind) {
        let StmtKind::For { label, local, start, end, step, collective, body, .. } = kind else { return };
        let ty = self.function.locals.get(*local).map(|l| l.ty);
        match ty {
            Some(ty) => {
                self.require(is_int_scalar(ty), || format!("the variable of a for is {ty}"));
                for (bound, role) in [(start, "a for's start"), (end, "a for's end"), (step, "a for's step")] {
                    self.operand_of_type(*bound, ty, role);
                }
            }
            None => self.report(format!("local {local:?} does not exist")),
        }
        match collective {
            Some(CollectiveLoop::Gemm(product)) => {
                let is_valid = product.extents(self.function).is_some();
                self.require(is_valid, || "the operands of a for do not match its sum".to_string());
            }
            Some(CollectiveLoop::Copy(copy)) => {
                self.require(copy.is_consistent(self.function), || {
                    "the window that a for copies does not match its arrays".to_string()
                });
                kind.operands(|id| {
                    if ![start, end, step].contains(&&id) {
                        self.operand_of_type(id, typing::I32, "an index of the window that a for copies");
                    }
                });
            }
            None => {}
        }
        let is_counter = self.counters.get(local).is_some_and(|&n| n > 0);
        self.require(!is_counter, || "the body of a for writes its local".to_string());
        *self.counters.entry(*local).or_default() += 1;
        self.labeled(*label, true, body);
        *self.counters.entry(*local).or_default() -= 1;
    }

    fn labeled(&mut self, label: Label, is_loop: bool, body: &Block) {
        let fresh = self.used_labels.insert(label);
        self.require(fresh, || format!("label '{} is used twice", label.0));
        self.labels.push((label, is_loop));
        self.block(body);
        self.labels.pop();
    }

    fn atomic(&mut self, op: AtomicOp, place: &Place, value: ExprId, compare: Option<ExprId>) -> Option<Ty> {
        let ty = self.check_place(place, PlaceUse::Write);
        let needs_compare = op == AtomicOp::CompareExchange;
        self.require(compare.is_some() == needs_compare, || format!("{op:?} with the comparison {compare:?}"));
        for id in std::iter::once(value).chain(compare) {
            match ty {
                Some(ty) => self.operand_of_type(id, ty, "an atomic's operand"),
                None => {
                    self.operand(id);
                }
            }
        }
        self.valid(typing::atomic(op, ty?))
    }

    fn barrier(&mut self, kind: BarrierKind, value: Option<ExprId>) {
        let threads = self.is_threads();
        self.require(!threads, || "a barrier in a `threads` kernel".to_string());
        let cooperative = kind != BarrierKind::Grid || self.module.kernel.cooperative;
        self.require(cooperative, || "a grid barrier in a kernel that is not cooperative".to_string());
        let operand_ty = typing::barrier(kind).0;
        self.require(operand_ty.is_some() == value.is_some(), || format!("{kind:?} barrier with the value {value:?}"));
        if let Some(value) = value {
            self.operand_of_type(value, BOOL, "a barrier's value");
        }
    }

    fn return_(&mut self, values: &[ExprId]) {
        let results = &self.function.results;
        self.require(values.len() == results.len(), || {
            format!("return of {} values, not {}", values.len(), results.len())
        });
        for (i, &value) in values.iter().enumerate() {
            match results.get(i) {
                Some(&ty) => self.operand_of_type(value, ty, "a returned value"),
                None => {
                    self.operand(value);
                }
            }
        }
    }

    /// Checks a call. Returns the result types of the callee.
    fn call(&mut self, callee: FunctionId, args: &[ExprId], memories: &[MemId]) -> Option<Vec<Ty>> {
        let before = callee.index() < self.id.index();
        let Some(called) = self.module.functions.get(callee).filter(|_| before) else {
            for &arg in args {
                self.operand(arg);
            }
            self.report(format!("a call of {callee:?}, which does not precede its caller"));
            return None;
        };
        self.require(args.len() == called.params.len(), || {
            format!("a call of `{}` with {} arguments, not {}", called.name, args.len(), called.params.len())
        });
        for (i, &arg) in args.iter().enumerate() {
            match called.params.get(i) {
                Some(&ty) => self.operand_of_type(arg, ty, "an argument"),
                None => {
                    self.operand(arg);
                }
            }
        }
        let params: Vec<&Memory> =
            called.memories.iter().map(|(_, m)| m).filter(|m| matches!(m.space, MemorySpace::Param { .. })).collect();
        self.require(memories.len() == params.len(), || {
            format!("a call of `{}` with {} memories, not {}", called.name, memories.len(), params.len())
        });
        for (&memory, param) in memories.iter().zip(params) {
            self.memory_argument(memory, param);
        }
        Some(called.results.clone())
    }

    fn memory_argument(&mut self, memory: MemId, param: &Memory) {
        let Some(argument) = self.function.memories.get(memory) else {
            return self.report(format!("memory {memory:?} does not exist"));
        };
        let is_compatible = argument.layout == param.layout
            && argument.extents.len() == param.extents.len()
            && (access(param) == Access::In || access(argument) != Access::In);
        self.require(is_compatible, || {
            format!("memory `{}` does not match the parameter `{}`", argument.name, param.name)
        });
    }

    fn parts(&mut self, parts: &[MessageSegment]) {
        for part in parts {
            if let MessageSegment::Value(value, _) = part {
                self.operand(*value);
            }
        }
    }
}
