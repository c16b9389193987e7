//! Makes a kernel record what one of its threads computes.
//!
//! Input: a kernel and a thread. Output: the kernel with one more parameter, an array in which the thread leaves its values in the order
//! in which it computes them, each behind the number of its expression. Idea: a variable counts the values; that of all other threads is out of
//! the array's bounds from the start, so that a value costs them a comparison.

use std::sync::Arc;

use crate::base::arena::Id;
use crate::base::source::Span;
use crate::device::step::Ids;
use crate::ir::Prepared;
use crate::ir::def::*;
use crate::ir::verify::verify;
use crate::lang::scalar::{Scalar, Value};

/// The values that a record has room for.
pub(super) const ROOM: u32 = 1 << 16;

/// A value that a thread has computed: the expression, the lane of a vector, and the bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub expr: ExprId,
    pub lane: u8,
    pub bits: u64,
}

/// Returns the entries of a record.
pub(super) fn entries(record: &[u8]) -> Vec<Entry> {
    let word = |bytes: &[u8]| bytes.iter().rev().fold(0u64, |all, &byte| all << 8 | u64::from(byte));
    let entry = |bytes: &[u8]| {
        let (key, bits) = (word(&bytes[..8]), word(&bytes[8..]));
        (key > 0).then(|| Entry { expr: Id::new((key >> 8) as usize - 1), lane: (key & 0xff) as u8, bits })
    };
    record.chunks_exact(16).map_while(entry).collect()
}

/// Returns the kernel that records; `None` for one of tiles, which devices need not compute by its body.
pub(super) fn recording(kernel: &Prepared, who: &Ids) -> Option<Prepared> {
    let mut module: Module = (*kernel.module).clone();
    if module.kernel.product.is_some() || module.kernel.tiles.is_some() {
        return None;
    }
    let param = u32::try_from(module.kernel.params.len()).ok()?;
    let body = module.kernel.body;
    let function = &mut module.functions[body];
    let mut together = false;
    crate::ir::visit::each_stmt(&function.body, &mut |stmt| {
        together |= matches!(stmt.kind, StmtKind::For { together: Some(_), .. });
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
        space: Space::Global { param, access },
        layout: Layout::plain(Ty::Scalar(Scalar::U64)),
        extents: vec![Extent::Launch],
        values: Arc::from([]),
        span,
    });
    let counter = function.locals.push(Local { name: "recorded".into(), ty: Ty::Scalar(Scalar::I32), span });
    let block = std::mem::take(&mut function.body);
    let mut recorder = Recorder { function, memory, counter };
    let mut out = vec![];
    recorder.begin(&mut out, who);
    recorder.block(block, &mut out);
    recorder.function.body = out;
    module.kernel.params.push(KernelParam::Array { name, access, memory });
    Some(Prepared::new(verify(module).ok()?, Default::default()))
}

struct Recorder<'a> {
    function: &'a mut Function,
    memory: MemId,
    counter: LocalId,
}

impl Recorder<'_> {
    /// Adds an expression; it is evaluated here unless it is free.
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
        self.push(out, ExprKind::Const(Value::of(value).bits), Scalar::I32, span)
    }

    /// Sets the counter to 0 for the thread, and to -1 for all others.
    fn begin(&mut self, out: &mut Block, who: &Ids) {
        let span = self.function.span;
        let axes = [Axis::X, Axis::Y, Axis::Z];
        let wanted: Vec<(ExprKind, u32)> = match who.index {
            Some((index, rank)) => (0..rank).map(|k| (ExprKind::Index(k as u8), index[k])).collect(),
            None => (0..3)
                .flat_map(|k| {
                    [
                        (ExprKind::Id(Id3::Block, axes[k]), who.block[k]),
                        (ExprKind::Id(Id3::Thread, axes[k]), who.thread[k]),
                    ]
                })
                .collect(),
        };
        let mut is_it = self.push(out, ExprKind::Const(1), Scalar::Bool, span);
        for (kind, number) in wanted {
            let own = self.push(out, kind, Scalar::I32, span);
            let number = self.i32(out, number as i32, span);
            let same = self.push(out, ExprKind::Binary { op: BinOp::Eq, left: own, right: number }, Scalar::Bool, span);
            is_it = self.push(out, ExprKind::Binary { op: BinOp::And, left: is_it, right: same }, Scalar::Bool, span);
        }
        let (then, other) = (self.i32(out, 0, span), self.i32(out, -1, span));
        let value = self.push(out, ExprKind::Select { cond: is_it, then, other }, Scalar::I32, span);
        out.push(Stmt { kind: StmtKind::Write { local: self.counter, value }, span });
    }

    /// Adds the statements of a block, and records what they compute.
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
            let room = self.push(out, ExprKind::Const(u64::from(ROOM)), Scalar::U32, span);
            let fits = ExprKind::Binary { op: BinOp::Lt, left: number, right: room };
            let cond = self.push(out, fits, Scalar::Bool, span);
            let mut then = vec![];
            let key = (expr.index() as u64 + 1) << 8 | u64::from(lane);
            let key = self.push(&mut then, ExprKind::Const(key), Scalar::U64, span);
            let bits = self.bits(&mut then, value, ty.scalar(), span);
            let one = self.i32(&mut then, 1, span);
            let add = |left: ExprId, right: ExprId| ExprKind::Binary { op: BinOp::Add, left, right };
            let twice = self.push(&mut then, add(own, own), Scalar::I32, span);
            let behind = self.push(&mut then, add(twice, one), Scalar::I32, span);
            for (index, value) in [(twice, key), (behind, bits)] {
                let place = Place { memory: self.memory, indices: vec![index], leaf: 0, component: None };
                then.push(Stmt { kind: StmtKind::Store { place, value, hint: Hint::None }, span });
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
