//! Finds the first operation that has equal operands but different results on two devices.
//!
//! Input: a kernel, a launch, and an element in which the devices differ. Output: the operation, its thread and both
//! values. Both devices run an instrumented kernel, in which the thread that wrote the element records all values it
//! computes ([`super::value_recorder`]). The records of both devices are compared. If the first difference is a loaded
//! value, the search continues in the thread that stored it. The stepper finds the thread that wrote a value.

use super::compare::compare;
use super::copies::{WrittenArrays, duplicate_arrays, with_copy};
use super::value_recorder::{RECORD_CAPACITY, ValueRecord, parse_records, with_recording};
use clk_base::aligned::AlignedBytes;
use clk_base::source::Span;
use clk_ir::PreparedKernel;
use clk_ir::def::*;
use clk_runtime::{Arg, Control, Device, LaunchConfig, thread_description};
use clk_runtime::{DivergenceKind, DivergentOp, FirstDivergence};
use clk_scalar::{ScalarValue, format};
use clk_step::{AccessEvent, AccessKind, ArrayStorage, StepLaunch, StepObserver, StepPosition, ThreadIds, ThreadValue};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Maximum number of steps in one execution of the stepper.
const MOST_STEPS: u64 = 1 << 22;
/// Maximum number of threads whose values are recorded.
const MOST_THREADS: usize = 16;

/// Two devices, and a launch that produces different results on them.
pub(super) struct DivergenceSearch<'a, 'b> {
    pub devices: [&'a Arc<dyn Device>; 2],
    pub kernel: &'a PreparedKernel,
    pub config: LaunchConfig,
    pub args: &'a [Arg<'b>],
    /// Copies of the arrays as they were before the launch.
    pub before: &'a WrittenArrays,
    pub control: &'a Control,
    /// Whether small differences are allowed.
    pub approximate: bool,
}

impl DivergenceSearch<'_, '_> {
    /// Finds the operation that caused a difference in the array argument at `position`, in `size` bytes at `offset`.
    /// Returns `None` for tile programs, and for launches that are too large for the search.
    pub fn find_divergence(&self, position: usize, offset: usize, size: usize) -> Option<FirstDivergence> {
        let mut target =
            TargetBytes { store: ArrayStorage::Global(position), block: 0, offset, size, before: u64::MAX };
        let mut examined: Vec<(u64, u32)> = vec![];
        let mut divergence = None;
        while examined.len() < MOST_THREADS {
            let Some(writer) = self.find_last_writer(&target)? else { return divergence };
            if examined.contains(&(writer.block, writer.thread)) {
                return divergence;
            }
            examined.push((writer.block, writer.thread));
            let launch = StepLaunch::new(&self.kernel.module, self.config.extents, self.args, 0);
            let ids = launch.ids(writer.block, u64::from(writer.thread));
            let name =
                thread_description(ids.index.as_ref().map(|(index, rank)| &index[..*rank]), ids.thread, ids.block);
            let ([ours, theirs], left) = self.record_on_both(&ids, position)?;
            let Some(at) = self.first_difference(&ours, &theirs) else {
                let part = |bytes: &Vec<u8>| bytes.get(offset..offset + size).map(<[u8]>::to_vec);
                // All recorded values are equal. If the search followed a load to this thread, the equal value was
                // stored but loaded differently, so that the load is the divergence.
                return Some(divergence.unwrap_or_else(|| match part(&left[0]) == part(&left[1]) {
                    true => FirstDivergence::HiddenByRecording(name),
                    false => FirstDivergence::NotFound(name, ours.len().min(theirs.len())),
                }));
            };
            let (spot, load) = self.describe_difference(name, [&ours, &theirs], at);
            divergence = Some(FirstDivergence::At(Box::new(spot)));
            match load.and_then(|turn| self.find_loaded_bytes(writer, ours[at].expr, turn)) {
                Some(next) => target = next,
                None => return divergence,
            }
        }
        divergence
    }

    fn body(&self) -> &Function {
        &self.kernel.module.functions[self.kernel.module.kernel.body]
    }

    /// Returns the index of the first records that differ. If one list is a prefix of the other, returns its last
    /// index.
    fn first_difference(&self, ours: &[ValueRecord], theirs: &[ValueRecord]) -> Option<usize> {
        let differ =
            |(a, b): (&ValueRecord, &ValueRecord)| (a.expr, a.lane) != (b.expr, b.lane) || self.values(a, b).is_some();
        let common = ours.len().min(theirs.len());
        let difference = ours.iter().zip(theirs).position(differ);
        difference.or((ours.len() != theirs.len() && common > 0).then(|| common - 1))
    }

    /// Returns the values of two records as text if they differ.
    fn values(&self, a: &ValueRecord, b: &ValueRecord) -> Option<[String; 2]> {
        let scalar = self.body().exprs.get(a.expr)?.ty.scalar();
        let layout = ElementLayout::plain(Ty::Scalar(scalar));
        let [a, b] = [a, b].map(|entry| entry.bits.to_le_bytes());
        Some(compare(&a[..scalar.size()], &b[..scalar.size()], &layout, self.approximate)?.values)
    }

    /// Describes the first difference of two records. For a load, also returns how often the thread executed the same
    /// load before.
    fn describe_difference(
        &self,
        thread: String,
        [ours, theirs]: [&[ValueRecord]; 2],
        at: usize,
    ) -> (DivergentOp, Option<usize>) {
        let (body, a) = (self.body(), ours[at]);
        let span = body.spans[a.expr];
        let Some(values) = theirs.get(at).filter(|b| b.expr == a.expr).and_then(|b| self.values(&a, b)) else {
            // The values are equal but control flow differs. It diverged after this record, or after the previous one
            // if the two devices recorded different expressions here.
            let is_same = theirs.get(at).is_some_and(|b| b.expr == a.expr);
            let span = body.spans[ours[if is_same { at } else { at.saturating_sub(1) }].expr];
            return (DivergentOp { span, thread, kind: DivergenceKind::ControlFlow }, None);
        };
        if matches!(body.exprs[a.expr].kind, ExprKind::Load { .. }) {
            let turn = ours[..at].iter().filter(|entry| (entry.expr, entry.lane) == (a.expr, a.lane)).count();
            return (DivergentOp { span, thread, kind: DivergenceKind::Load { values } }, Some(turn));
        }
        let operand = |expr: ExprId| {
            let Expr { kind, ty } = body.exprs.get(expr)?;
            let bits = match kind {
                ExprKind::Const(bits) => *bits,
                _ => ours[..at].iter().rfind(|entry| entry.expr == expr)?.bits,
            };
            Some(format::plain(ScalarValue { ty: ty.scalar(), bits }))
        };
        let operands = operands(&body.exprs[a.expr].kind).into_iter().filter_map(operand).collect();
        (DivergentOp { span, thread, kind: DivergenceKind::Computation { values, operands } }, None)
    }

    /// Runs the instrumented kernel on both devices. Returns the records of both, and the final contents of the array
    /// argument at `position`.
    fn record_on_both(&self, who: &ThreadIds, position: usize) -> Option<([Vec<ValueRecord>; 2], [Vec<u8>; 2])> {
        let recording = Arc::new(with_recording(self.kernel, who)?);
        let run = |device: &Arc<dyn Device>| {
            let mut arrays = duplicate_arrays(self.before)?;
            let mut record = AlignedBytes::zeroed(16 * RECORD_CAPACITY as usize)?;
            let mut given: Vec<Arg<'_>> =
                self.args.iter().zip(&mut arrays).map(|(arg, copy)| with_copy(arg, copy)).collect();
            given.push(Arg::Write { bytes: &mut record, shape: vec![2 * RECORD_CAPACITY] });
            let (warnings, launches) = (Default::default(), Default::default());
            let control = Control { warnings, launches, ..self.control.clone() };
            let config = LaunchConfig { declared: None, larger: None, ..self.config };
            device.load(recording.clone(), None).launch(&config, &mut given, &control).ok()?;
            drop(given);
            let left = arrays.get(position)?.as_ref()?.bytes().ok()?.to_vec();
            let is_known = |entry: &ValueRecord| self.body().exprs.get(entry.expr).is_some();
            Some((parse_records(&record).into_iter().take_while(is_known).collect(), left))
        };
        let [first, other] = self.devices;
        let (first, other) = (run(first)?, run(other)?);
        Some(([first.0, other.0], [first.1, other.1]))
    }

    /// Runs the launch on the stepper. `None` if it takes too many steps, is interrupted, or there is not enough
    /// memory.
    fn run_stepper(&self, observer: &mut dyn StepObserver) -> Option<()> {
        let mut arrays = duplicate_arrays(self.before)?;
        let copied_args: Vec<Arg<'_>> =
            self.args.iter().zip(&mut arrays).map(|(arg, copy)| with_copy(arg, copy)).collect();
        let launch = StepLaunch::new(&self.kernel.module, self.config.extents, &copied_args, 0);
        let mut state = launch.start(&copied_args).ok()?;
        let mut output = String::new();
        while state.step(&launch, &mut output, observer) {
            let is_stopped = state.step.is_multiple_of(1024) && self.control.stop.load(Ordering::Relaxed);
            if state.step > MOST_STEPS || is_stopped {
                return None;
            }
        }
        Some(())
    }

    /// Returns the position of the last write to the target bytes.
    fn find_last_writer(&self, target: &TargetBytes) -> Option<Option<StepPosition>> {
        let mut writer = LastWriteFinder { target, found: None };
        self.run_stepper(&mut writer)?;
        Some(writer.found)
    }

    /// Returns the location of the bytes that a thread loads when it executes an expression for the `turn`-th time,
    /// counted from 0.
    fn find_loaded_bytes(&self, by: StepPosition, expr: ExprId, turn: usize) -> Option<TargetBytes> {
        let expr = std::ptr::from_ref(&self.body().exprs[expr]) as usize;
        let mut loader = LoadFinder { by: (by.block, by.thread), expr, turns: turn, access: None, found: None };
        self.run_stepper(&mut loader)?;
        loader.found
    }
}

/// Returns the operands of an operation.
fn operands(kind: &ExprKind) -> Vec<ExprId> {
    match kind {
        ExprKind::Unary { value, .. } | ExprKind::Convert(value) | ExprKind::Bitcast(value) => vec![*value],
        ExprKind::Binary { left, right, .. } => vec![*left, *right],
        ExprKind::Math { args, .. } => args.clone(),
        ExprKind::Select { cond, then, other } => vec![*cond, *then, *other],
        _ => vec![],
    }
}

/// Bytes of an array whose last writer before the step `before` is searched.
struct TargetBytes {
    store: ArrayStorage,
    /// The block that owns the array, if it is shared.
    block: u64,
    offset: usize,
    size: usize,
    before: u64,
}

/// Observes a launch, and finds the last write to the target bytes.
struct LastWriteFinder<'a> {
    target: &'a TargetBytes,
    found: Option<StepPosition>,
}

impl StepObserver for LastWriteFinder<'_> {
    fn access(&mut self, at: StepPosition, access: &AccessEvent<'_, '_>) {
        let TargetBytes { store, block, offset, size, before } = *self.target;
        let is_own = access.store() == store && (matches!(store, ArrayStorage::Global(_)) || at.block == block);
        if is_own && at.step < before && access.writes() && access.touches(offset, size) {
            self.found = Some(at);
        }
    }
}

/// Observes a launch, and finds the bytes that a thread loads in one execution of an expression.
struct LoadFinder {
    by: (u64, u32),
    /// The address of the expression in memory, which identifies it.
    expr: usize,
    turns: usize,
    access: Option<TargetBytes>,
    found: Option<TargetBytes>,
}

impl StepObserver for LoadFinder {
    fn access(&mut self, at: StepPosition, access: &AccessEvent<'_, '_>) {
        if (at.block, at.thread) == self.by && access.kind == AccessKind::Load {
            let (store, offset, size) = (access.store(), access.offset, access.ty.size());
            // Local arrays are not followed: the values that a thread stores there are in its own record.
            let is_shared = !matches!(store, ArrayStorage::Local(_));
            self.access = is_shared.then_some(TargetBytes { store, block: at.block, offset, size, before: at.step });
        }
    }

    fn value(&mut self, at: StepPosition, expr: &Expr, _: Span, _: ThreadValue) {
        if (at.block, at.thread) != self.by || std::ptr::from_ref(expr) as usize != self.expr {
            return;
        }
        if self.turns == 0 && self.found.is_none() {
            self.found = self.access.take();
        }
        self.turns = self.turns.wrapping_sub(1);
    }
}
