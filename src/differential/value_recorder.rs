//! Instruments a kernel so that one of its threads records the values it computes.
//!
//! Input: a kernel and a thread. Output: the kernel with an additional array parameter. The thread stores its values
//! there in order, each preceded by the id of its expression. A local variable is the index of the next record. In all
//! other threads it is out of bounds, so that they only execute a comparison per value.

use std::sync::Arc;

use clk_base::arena::Id;
use clk_base::source::Span;
use clk_ir::PreparedKernel;
use clk_ir::def::*;
use clk_ir::verify::verify;
use clk_scalar::{Scalar, ScalarValue};
use clk_step::ThreadIds;

/// The maximum number of recorded values.
pub(super) const RECORD_CAPACITY: u32 = 1 << 16;

/// A value that a thread computed: its expression, its lane in a vector, and its bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ValueRecord {
    pub expr: ExprId,
    pub lane: u8,
    pub bits: u64,
}

/// Decodes the contents of the array of records.
pub(super) fn parse_records(record: &[u8]) -> Vec<ValueRecord> {
    let word = |bytes: &[u8]| bytes.iter().rev().fold(0u64, |all, &byte| all << 8 | u64::from(byte));
    let entry = |bytes: &[u8]| {
        let (key, bits) = (word(&bytes[..8]), word(&bytes[8..]));
        (key > 0).then(|| ValueRecord { expr: Id::new((key >> 8) as usize - 1), lane: (key & 0xff) as u8, bits })
    };
    record.chunks_exact(16).map_while(entry).collect()
}

/// Returns the instrumented kernel; `None` for tile programs and other kernels whose body a device need not execute
/// statement by statement.
pub(super) fn with_recording(kernel: &PreparedKernel, who: &ThreadIds) -> Option<PreparedKernel> {
    let mut module: Module = (*kernel.module).clone();
    if module.kernel.gemm.is_some() || module.kernel.tile_program.is_some() {
        return None;
    }
    let param = u32::try_from(module.kernel.params.len()).ok()?;
    let body = module.kernel.body;
    let function = &mut module.functions[body];
    let mut together = false;
    clk_ir::visit::each_stmt(&function.body, &mut |stmt| {
        together |= matches!(stmt.kind, StmtKind::For { collective: Some(_), .. });
    });
    if together {
        return None;
    }
    let (access, span) = (Access::InOut, function.span);
    let mut name = "record".to_string();
    while function.memories.iter().any(|(_, memory)| memory.name == name) {
        name.push('_');
    }
    let memory = function.memories.push(Memory {
        name: name.clone(),
        space: MemorySpace::Global { param, access },
        layout: ElementLayout::plain(Ty::Scalar(Scalar::U64)),
        extents: vec![Extent::Launch],
        values: Arc::from([]),
        span,
    });
    let counter = function.locals.push(Local { name: "recorded".into(), ty: Ty::Scalar(Scalar::I32), span });
    let block = std::mem::take(&mut function.body);
    let mut recorder = ValueRecorder { function, memory, counter };
    let mut out = vec![];
    recorder.begin(&mut out, who);
    recorder.block(block, &mut out);
    recorder.function.body = out;
    module.kernel.params.push(KernelParam::Array { name, access, memory });
    Some(PreparedKernel::new(verify(module).ok()?, Default::default()))
}

struct ValueRecorder<'a> {
    function: &'a mut Function,
    memory: MemId,
    counter: LocalId,
}

impl ValueRecorder<'_> {
    /// Adds an expression, and a `Let` statement that evaluates it at this point unless the expression is free.
    fn push(&mut self, out: &mut Block, kind: ExprKind, scalar: Scalar, span: Span) -> ExprId {
        let free = kind.is_free();
        let id = self.function.exprs.push(Expr { kind, ty: Ty::Scalar(scalar) });
        self.function.spans.push(span);
        if !free {
            out.push(Stmt { kind: StmtKind::Let(id), span });
        }
        id
    }

    fn i32(&mut self, out: &mut Block, value: i32, span: Span) -> ExprId {
        self.push(out, ExprKind::Const(ScalarValue::of(value).bits), Scalar::I32, span)
    }

    /// Sets the index of the next record to 0 in the recorded thread, and to -1 (out of bounds) in all others.
    fn begin(&mut self, out: &mut Block, who: &ThreadIds) {
        let span = self.function.span;
        let axes = [Axis::X, Axis::Y, Axis::Z];
        let thread_indices: Vec<(ExprKind, u32)> = match who.index {
            Some((index, rank)) => (0..rank).map(|k| (ExprKind::Index(k as u8), index[k])).collect(),
            None => (0..3)
                .flat_map(|k| {
                    [
                        (ExprKind::Id(BuiltinIndex::Block, axes[k]), who.block[k]),
                        (ExprKind::Id(BuiltinIndex::Thread, axes[k]), who.thread[k]),
                    ]
                })
                .collect(),
        };
        let mut is_it = self.push(out, ExprKind::Const(1), Scalar::Bool, span);
        for (kind, number) in thread_indices {
            let own = self.push(out, kind, Scalar::I32, span);
            let number = self.i32(out, number as i32, span);
            let same = self.push(out, ExprKind::Binary { op: BinOp::Eq, left: own, right: number }, Scalar::Bool, span);
            is_it = self.push(out, ExprKind::Binary { op: BinOp::And, left: is_it, right: same }, Scalar::Bool, span);
        }
        let (then, other) = (self.i32(out, 0, span), self.i32(out, -1, span));
        let value = self.push(out, ExprKind::Select { cond: is_it, then, other }, Scalar::I32, span);
        out.push(Stmt { kind: StmtKind::Write { local: self.counter, value }, span });
    }

    /// Adds the statements of a block, and code that records the values they compute.
    fn block(&mut self, block: Block, out: &mut Block) {
        for mut stmt in block {
            for inner in stmt.kind.blocks_mut() {
                let mut new = vec![];
                self.block(std::mem::take(inner), &mut new);
                *inner = new;
            }
            let computed = match &stmt.kind {
                StmtKind::Let(expr) => (!self.function.exprs[*expr].kind.is_free()).then_some(*expr),
                StmtKind::Warp { result, .. } => Some(*result),
                StmtKind::Atomic { result, .. } | StmtKind::Barrier { result, .. } => *result,
                _ => None,
            };
            let span = stmt.span;
            out.push(stmt);
            if let Some(expr) = computed {
                self.record(out, expr, span);
            }
        }
    }

    fn record(&mut self, out: &mut Block, expr: ExprId, span: Span) {
        let ty = self.function.exprs[expr].ty;
        for lane in 0..ty.lanes() {
            let value = match ty {
                Ty::Scalar(_) => expr,
                Ty::Vector(scalar, _) => self.push(out, ExprKind::Extract { value: expr, lane }, scalar, span),
            };
            let own = self.push(out, ExprKind::Read(self.counter), Scalar::I32, span);
            let number = self.push(out, ExprKind::Bitcast(own), Scalar::U32, span);
            let capacity = self.push(out, ExprKind::Const(u64::from(RECORD_CAPACITY)), Scalar::U32, span);
            let has_capacity = ExprKind::Binary { op: BinOp::Lt, left: number, right: capacity };
            let cond = self.push(out, has_capacity, Scalar::Bool, span);
            let mut then = vec![];
            let key = (expr.index() as u64 + 1) << 8 | u64::from(lane);
            let key = self.push(&mut then, ExprKind::Const(key), Scalar::U64, span);
            let bits = self.bits(&mut then, value, ty.scalar(), span);
            let one = self.i32(&mut then, 1, span);
            let add = |left: ExprId, right: ExprId| ExprKind::Binary { op: BinOp::Add, left, right };
            let twice = self.push(&mut then, add(own, own), Scalar::I32, span);
            let value_index = self.push(&mut then, add(twice, one), Scalar::I32, span);
            for (index, value) in [(twice, key), (value_index, bits)] {
                let place = Place { memory: self.memory, indices: vec![index], leaf: 0, component: None };
                then.push(Stmt { kind: StmtKind::Store { place, value, hint: CacheHint::None }, span });
            }
            let next = self.push(&mut then, add(own, one), Scalar::I32, span);
            then.push(Stmt { kind: StmtKind::Write { local: self.counter, value: next }, span });
            out.push(Stmt { kind: StmtKind::If { cond, then, other: vec![] }, span });
        }
    }

    /// Returns the bits of a scalar as a `u64`.
    fn bits(&mut self, out: &mut Block, value: ExprId, scalar: Scalar, span: Span) -> ExprId {
        if scalar == Scalar::Bool {
            let then = self.push(out, ExprKind::Const(1), Scalar::U64, span);
            let other = self.push(out, ExprKind::Const(0), Scalar::U64, span);
            return self.push(out, ExprKind::Select { cond: value, then, other }, Scalar::U64, span);
        }
        let plain = match scalar.size() {
            1 => Scalar::U8,
            2 => Scalar::U16,
            4 => Scalar::U32,
            _ => Scalar::U64,
        };
        let plainly = if plain == scalar { value } else { self.push(out, ExprKind::Bitcast(value), plain, span) };
        if plain == Scalar::U64 { plainly } else { self.push(out, ExprKind::Convert(plainly), Scalar::U64, span) }
    }
}
