//! Finds the first operation in which two devices part: it has the same operands on both, and different results.
//!
//! Input: a kernel, a launch of it, and an element that the devices left different. Output: the operation, its thread and the two values. Idea: the
//! thread that wrote the element records all that it computes ([`record`](super::record)), on both devices, and the records are compared. Where the first
//! difference is a value that was loaded, the thread that had written it is looked at next. Who wrote what is known from the stepper.

use super::compare::compare;
use super::copies::{Copies, again, duplicated};
use super::outcome::{How, Parting, Spot};
use super::record::{Entry, ROOM, entries, recording};
use crate::base::aligned::AlignedBytes;
use crate::base::source::Span;
use crate::device::step::{Access, At, Ids, Kind, Launch, Observer, Store, Val};
use crate::device::{Arg, Control, Device, Extents, who_text};
use crate::ir::Prepared;
use crate::ir::def::*;
use crate::lang::scalar::{Value, format};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Steps of the stepper, and threads that are looked at, one after the other.
const MOST_STEPS: u64 = 1 << 22;
const MOST_THREADS: usize = 16;

/// Two devices, and a launch that they end differently.
pub(super) struct Search<'a, 'b> {
    pub devices: [&'a Arc<dyn Device>; 2],
    pub kernel: &'a Prepared,
    pub extents: Extents,
    pub args: &'a [Arg<'b>],
    /// The contents of the arrays before.
    pub before: &'a Copies,
    pub control: &'a Control,
    /// Small differences are allowed.
    pub approximate: bool,
}

impl Search<'_, '_> {
    /// Looks for the operation to which the difference of an element goes back: so many bytes of the array at a position, from an offset on.
    /// `None`: the launch is too large for that, or it is one of tiles.
    pub fn parting(&self, position: usize, (offset, size): (usize, usize)) -> Option<Parting> {
        let mut target = Target { store: Store::Global(position), block: 0, offset, size, before: u64::MAX };
        let mut seen: Vec<(u64, u32)> = vec![];
        let mut parting = None;
        while seen.len() < MOST_THREADS {
            let Some(writer) = self.writer(&target)? else { return parting };
            if seen.contains(&(writer.block, writer.thread)) {
                return parting;
            }
            seen.push((writer.block, writer.thread));
            let launch = Launch::new(&self.kernel.module, self.extents, self.args, 0);
            let ids = launch.ids(writer.block, u64::from(writer.thread));
            let name = who_text(ids.index.as_ref().map(|(index, rank)| &index[..*rank]), ids.thread, ids.block);
            let ([ours, theirs], left) = self.records(&ids, position)?;
            let Some(at) = self.first_difference(&ours, &theirs) else {
                let part = |bytes: &Vec<u8>| bytes.get(offset..offset + size).map(<[u8]>::to_vec);
                // What was loaded was the same when it was stored.
                return Some(parting.unwrap_or_else(|| match part(&left[0]) == part(&left[1]) {
                    true => Parting::Vanished(name),
                    false => Parting::Unseen(name, ours.len().min(theirs.len())),
                }));
            };
            let (spot, load) = self.spot(name, [&ours, &theirs], at);
            parting = Some(Parting::At(Box::new(spot)));
            match load.and_then(|turn| self.loaded(writer, ours[at].expr, turn)) {
                Some(next) => target = next,
                None => return parting,
            }
        }
        parting
    }

    fn body(&self) -> &Function {
        &self.kernel.module.functions[self.kernel.module.kernel.body]
    }

    /// Returns the place of the first entries that differ; at the end of one of the records if it is the beginning of the other.
    fn first_difference(&self, ours: &[Entry], theirs: &[Entry]) -> Option<usize> {
        let differ = |(a, b): (&Entry, &Entry)| (a.expr, a.lane) != (b.expr, b.lane) || self.values(a, b).is_some();
        let common = ours.len().min(theirs.len());
        let found = ours.iter().zip(theirs).position(differ);
        found.or((ours.len() != theirs.len() && common > 0).then(|| common - 1))
    }

    /// Returns two values as texts if they differ.
    fn values(&self, a: &Entry, b: &Entry) -> Option<[String; 2]> {
        let scalar = self.body().exprs.get(a.expr)?.ty.scalar();
        let layout = Layout::plain(Ty::Scalar(scalar));
        let [a, b] = [a, b].map(|entry| entry.bits.to_le_bytes());
        Some(compare(&a[..scalar.size()], &b[..scalar.size()], &layout, self.approximate)?.values)
    }

    /// Tells of the first difference; of a load also how often the thread had been there.
    fn spot(&self, thread: String, [ours, theirs]: [&[Entry]; 2], at: usize) -> (Spot, Option<usize>) {
        let (body, a) = (self.body(), ours[at]);
        let span = body.spans[a.expr];
        let Some(values) = theirs.get(at).filter(|b| b.expr == a.expr).and_then(|b| self.values(&a, b)) else {
            // Up to here all was the same, or up to the entry before if the expressions differ.
            let is_same = theirs.get(at).is_some_and(|b| b.expr == a.expr);
            let span = body.spans[ours[if is_same { at } else { at.saturating_sub(1) }].expr];
            return (Spot { span, thread, how: How::Goes }, None);
        };
        if matches!(body.exprs[a.expr].kind, ExprKind::Load { .. }) {
            let turn = ours[..at].iter().filter(|entry| (entry.expr, entry.lane) == (a.expr, a.lane)).count();
            return (Spot { span, thread, how: How::Loads { values } }, Some(turn));
        }
        let operand = |expr: ExprId| {
            let Expr { kind, ty } = body.exprs.get(expr)?;
            let bits = match kind {
                ExprKind::Const(bits) => *bits,
                _ => ours[..at].iter().rfind(|entry| entry.expr == expr)?.bits,
            };
            Some(format::plain(Value { ty: ty.scalar(), bits }))
        };
        let operands = operands(&body.exprs[a.expr].kind).into_iter().filter_map(operand).collect();
        (Spot { span, thread, how: How::Computes { values, operands } }, None)
    }

    /// Runs a kernel that records on both devices; returns the records, and what the runs left in the array at a position.
    fn records(&self, who: &Ids, position: usize) -> Option<([Vec<Entry>; 2], [Vec<u8>; 2])> {
        let recording = Arc::new(recording(self.kernel, who)?);
        let run = |device: &Arc<dyn Device>| {
            let mut arrays = duplicated(self.before)?;
            let mut record = AlignedBytes::zeroed(16 * ROOM as usize)?;
            let mut given: Vec<Arg<'_>> =
                self.args.iter().zip(&mut arrays).map(|(arg, copy)| again(arg, copy)).collect();
            given.push(Arg::Write { bytes: &mut record, shape: vec![2 * ROOM] });
            let (warnings, launches) = (Default::default(), Default::default());
            let control = Control { warnings, launches, declared: None, larger: None, ..self.control.clone() };
            device.load(recording.clone()).launch(self.extents, &mut given, &control).ok()?;
            drop(given);
            let left = arrays.get(position)?.as_ref()?.bytes().ok()?.to_vec();
            let is_known = |entry: &Entry| self.body().exprs.get(entry.expr).is_some();
            Some((entries(&record).into_iter().take_while(is_known).collect(), left))
        };
        let [first, other] = self.devices;
        let (first, other) = (run(first)?, run(other)?);
        Some(([first.0, other.0], [first.1, other.1]))
    }

    /// Steps through the launch; `None` if it is too long, or there is not enough memory.
    fn stepped(&self, observer: &mut dyn Observer) -> Option<()> {
        let mut arrays = duplicated(self.before)?;
        let given: Vec<Arg<'_>> = self.args.iter().zip(&mut arrays).map(|(arg, copy)| again(arg, copy)).collect();
        let launch = Launch::new(&self.kernel.module, self.extents, &given, 0);
        let mut state = launch.start(&given).ok()?;
        let mut output = String::new();
        while state.step(&launch, &mut output, observer) {
            let is_stopped = state.step.is_multiple_of(1024) && self.control.stop.load(Ordering::Relaxed);
            if state.step > MOST_STEPS || is_stopped {
                return None;
            }
        }
        Some(())
    }

    /// Returns who wrote an element last.
    fn writer(&self, target: &Target) -> Option<Option<At>> {
        let mut writer = Writer { target, found: None };
        self.stepped(&mut writer)?;
        Some(writer.found)
    }

    /// Returns what a thread loads by an expression when it has done so a number of times.
    fn loaded(&self, by: At, expr: ExprId, turn: usize) -> Option<Target> {
        let expr = std::ptr::from_ref(&self.body().exprs[expr]) as usize;
        let mut loader = Loader { by: (by.block, by.thread), expr, turns: turn, access: None, found: None };
        self.stepped(&mut loader)?;
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

/// Bytes of an array, as they are in front of a step.
struct Target {
    store: Store,
    /// Whose shared array it is.
    block: u64,
    offset: usize,
    size: usize,
    before: u64,
}

/// Looks for the last write to some bytes.
struct Writer<'a> {
    target: &'a Target,
    found: Option<At>,
}

impl Observer for Writer<'_> {
    fn access(&mut self, at: At, access: &Access<'_, '_>) {
        let Target { store, block, offset, size, before } = *self.target;
        let is_own = access.store() == store && (matches!(store, Store::Global(_)) || at.block == block);
        if is_own && at.step < before && access.writes() && access.touches(offset, size) {
            self.found = Some(at);
        }
    }
}

/// Looks for what an expression loads in one of the turns of a thread.
struct Loader {
    by: (u64, u32),
    /// Its address.
    expr: usize,
    turns: usize,
    access: Option<Target>,
    found: Option<Target>,
}

impl Observer for Loader {
    fn access(&mut self, at: At, access: &Access<'_, '_>) {
        if (at.block, at.thread) == self.by && access.kind == Kind::Read {
            let (store, offset, size) = (access.store(), access.offset, access.ty.size());
            // A thread's own arrays are in its own record.
            let is_shared = !matches!(store, Store::Local(_));
            self.access = is_shared.then_some(Target { store, block: at.block, offset, size, before: at.step });
        }
    }

    fn value(&mut self, at: At, expr: &Expr, _: Span, _: Val) {
        if (at.block, at.thread) != self.by || std::ptr::from_ref(expr) as usize != self.expr {
            return;
        }
        if self.turns == 0 && self.found.is_none() {
            self.found = self.access.take();
        }
        self.turns = self.turns.wrapping_sub(1);
    }
}
