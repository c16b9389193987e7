//! Finds the true races of a launch: compares all pairs of accesses in the stepper's trace by the happens-before
//! relation, without using code of the checker.
//!
//! A thread counts the barriers of the grid, its block and its warp that it has passed. For a barrier that both threads
//! pass, two accesses with different counts are ordered. Unordered accesses to the same bytes conflict unless both read
//! or both are atomic.

use std::collections::BTreeMap;

use clk_ir::def::{Module, Stmt, StmtKind};
use clk_runtime::{AccessKind, Arg, Fault, FaultKind, LaunchExtents, Race, ThreadId};
use clk_scalar::ScalarValue;
use clk_scalar::ops::BarrierKind;
use clk_step::{AccessEvent, ArrayStorage, StepLaunch, StepObserver, StepPosition, Thread};

use super::kernels::{Form, Program};

/// Numbers of barriers that a thread has passed, by scope.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct SyncCounts {
    grid: u32,
    block: u32,
    warp: u32,
}

/// One access of one thread.
#[derive(Clone, Debug)]
pub struct Step {
    block: u64,
    thread: u32,
    syncs: SyncCounts,
    access_kind: AccessKind,
    line: usize,
    /// Offset of the access within the element, in bytes, and the bytes that are read or written.
    from: usize,
    bytes: Vec<u8>,
    values: Vec<ScalarValue>,
}

/// An element: its array, the block for a shared array, and its index.
type Element = (String, Option<u64>, usize);

/// The accesses of a launch by element.
pub struct Truth {
    elements: BTreeMap<Element, Vec<Step>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// No two unordered accesses conflict.
    Clean,
    /// Unordered accesses conflict, but all write the same value.
    Same,
    Race,
}

struct Tracer<'t> {
    text: &'t str,
    lines: Vec<&'t str>,
    syncs: BTreeMap<(u64, u32), SyncCounts>,
    elements: BTreeMap<Element, Vec<Step>>,
}

fn line(text: &str, at: u32) -> usize {
    text[..(at as usize).min(text.len())].matches('\n').count() + 1
}

impl StepObserver for Tracer<'_> {
    fn statement(&mut self, at: StepPosition, _: &Thread<'_>, stmt: &Stmt) {
        let syncs = self.syncs.entry((at.block, at.thread)).or_default();
        match &stmt.kind {
            StmtKind::Barrier { kind: BarrierKind::Grid, .. } => syncs.grid += 1,
            StmtKind::Barrier { kind: BarrierKind::Warp, .. } | StmtKind::Warp { .. } => syncs.warp += 1,
            StmtKind::Barrier { .. } => syncs.block += 1,
            _ => {}
        }
    }

    fn access(&mut self, at: StepPosition, access: &AccessEvent<'_, '_>) {
        let block = match access.store() {
            ArrayStorage::Global(_) => None,
            ArrayStorage::Shared(..) => Some(at.block),
            ArrayStorage::Local(_) => return,
        };
        let line = line(self.text, access.span.start);
        // The stepper does not distinguish atomic loads from updates.
        let access_kind = match access.kind {
            AccessKind::AtomicRmw if self.lines[line - 1].contains("atomic_load") => AccessKind::AtomicLoad,
            kind => kind,
        };
        let size = access.array.layout.size;
        let values: Vec<ScalarValue> = access.value.values().collect();
        let scalar = access.ty.scalar().size();
        let bytes = values.iter().flat_map(|value| value.to_bytes()[..scalar].to_vec()).collect();
        let step = Step {
            block: at.block,
            thread: at.thread,
            syncs: self.syncs.get(&(at.block, at.thread)).copied().unwrap_or_default(),
            access_kind,
            line,
            from: access.offset % size,
            bytes,
            values,
        };
        self.elements.entry((access.array.name.to_string(), block, access.offset / size)).or_default().push(step);
    }
}

impl Step {
    /// Returns whether two accesses are ordered: they are by one thread, or a barrier that both threads pass separates
    /// them.
    fn is_ordered(&self, other: &Step) -> bool {
        if (self.block, self.thread) == (other.block, other.thread) || self.syncs.grid != other.syncs.grid {
            return true;
        }
        self.block == other.block
            && (self.syncs.block != other.syncs.block
                || self.thread / 32 == other.thread / 32 && self.syncs.warp != other.syncs.warp)
    }

    fn overlap(&self, other: &Step) -> std::ops::Range<usize> {
        let end = |step: &Step| step.from + step.bytes.len();
        self.from.max(other.from)..end(self).min(end(other))
    }

    /// Returns whether two accesses to one element race.
    fn verdict(&self, other: &Step) -> Verdict {
        use AccessKind::*;
        let overlap = self.overlap(other);
        let conflict = match (self.access_kind, other.access_kind) {
            (Store, _) | (_, Store) => true,
            (Load, AtomicRmw) | (AtomicRmw, Load) => true,
            (Load | AtomicRmw | AtomicLoad, _) => false,
        };
        if overlap.is_empty() || !conflict || self.is_ordered(other) {
            return Verdict::Clean;
        }
        let part = |step: &Step| step.bytes[overlap.start - step.from..overlap.end - step.from].to_vec();
        match (self.access_kind, other.access_kind) {
            (Store, Store) if part(self) == part(other) => Verdict::Same,
            _ => Verdict::Race,
        }
    }

    fn is_by(&self, form: Form, thread: &ThreadId) -> bool {
        match (form, &thread.index) {
            (Form::Threads(_), Some(index)) => self.block * 32 + u64::from(self.thread) == u64::from(index[0]),
            _ => (self.block, self.thread) == (u64::from(thread.block[0]), thread.thread[0]),
        }
    }
}

impl Truth {
    /// Runs a program's kernel in the stepper.
    pub fn of(program: &Program, module: &Module) -> Truth {
        let mut arrays: Vec<(Vec<u8>, u32)> =
            program.arrays.iter().map(|&(len, size)| (vec![0; len as usize * size], len)).collect();
        let args: Vec<Arg<'_>> =
            arrays.iter_mut().map(|(bytes, len)| Arg::Write { bytes, shape: vec![*len] }).collect();
        let extents = match program.form {
            Form::Grid { blocks, threads } => LaunchExtents::Grid { grid: [blocks, 1, 1], block: [threads, 1, 1] },
            Form::Threads(n) => LaunchExtents::Threads([n, 1, 1]),
        };
        let launch = StepLaunch::new(module, extents, &args, 100_000);
        let mut state = launch.start(&args).expect("arrays of the host");
        let text = &program.text;
        let lines = text.lines().collect();
        let mut tracer = Tracer { text, lines, syncs: BTreeMap::new(), elements: BTreeMap::new() };
        let mut output = String::new();
        while state.step(&launch, &mut output, &mut tracer) {}
        assert!(state.faults.is_empty(), "{:?}\n{text}", state.faults);
        Truth { elements: tracer.elements }
    }

    fn pairs(steps: &[Step]) -> impl Iterator<Item = (&Step, &Step)> {
        steps.iter().enumerate().flat_map(|(at, a)| steps[..at].iter().map(move |b| (b, a)))
    }

    /// Returns the worst verdict on any two accesses to an element.
    fn of_element(steps: &[Step]) -> Verdict {
        Truth::pairs(steps).map(|(a, b)| a.verdict(b)).max().unwrap_or(Verdict::Clean)
    }

    pub fn verdict(&self) -> Verdict {
        self.elements.values().map(|steps| Truth::of_element(steps)).max().unwrap_or(Verdict::Clean)
    }

    /// Returns how a report contradicts the trace of the launch; `None` if it is correct.
    pub fn contradiction(&self, program: &Program, fault: &Fault) -> Option<String> {
        let FaultKind::Race(race) = &fault.kind else { return Some("it is no race".into()) };
        let thread = ThreadId { block: fault.block, thread: fault.thread, index: fault.index.clone() };
        let at = |start: u32| line(&program.text, start);
        let (own, other) = (at(fault.span.start), at(race.other_span.start));
        let (name, number, part) = place(race);
        let is_same = race.access_kind == AccessKind::Store
            && race.other_access_kind == AccessKind::Store
            && race.value == race.other_value;
        let expected = if is_same { Verdict::Same } else { Verdict::Race };
        let elements = self.elements.iter().filter(|((array, block, element), _)| {
            let is_here = block.is_none_or(|block| (block, program.form) == (u64::from(thread.block[0]), program.form));
            (array, element) == (&name, &number) && is_here && block.is_some() == race.shared
        });
        let steps: Vec<&Step> = elements.flat_map(|(_, steps)| steps).collect();
        let atomics = steps.iter().any(|step| step.access_kind == AccessKind::AtomicRmw);
        // In a racy launch the read value depends on the order, but it is the initial value or one that some thread
        // stores.
        let possible = |step: &&Step, value: &Option<ScalarValue>| match (step.access_kind, value) {
            (_, None) => true,
            (AccessKind::Load, Some(value)) => {
                let stored = |step: &&Step| step.access_kind == AccessKind::Store && step.values.contains(value);
                atomics || value.bits == 0 || steps.iter().any(stored)
            }
            (_, Some(value)) => step.values.contains(value),
        };
        let of = |thread: &ThreadId, access_kind: AccessKind, line: usize, value: &Option<ScalarValue>| -> Vec<&Step> {
            let is_same_access =
                |step: &&Step| step.is_by(program.form, thread) && (step.access_kind, step.line) == (access_kind, line);
            let is_in_part =
                |step: &&Step| part.is_none_or(|at| (step.from..step.from + step.bytes.len()).contains(&at));
            steps
                .iter()
                .copied()
                .filter(|step| is_same_access(step) && is_in_part(step) && possible(step, value))
                .collect()
        };
        let ours = of(&thread, race.access_kind, own, &race.value);
        let theirs = of(&race.other, race.other_access_kind, other, &race.other_value);
        if ours.is_empty() || theirs.is_empty() {
            let subject = if ours.is_empty() { "the access" } else { "the other access" };
            return Some(format!("{subject} does not happen"));
        }
        if !ours.iter().any(|a| theirs.iter().any(|b| a.verdict(b) == expected)) {
            return Some(format!("these accesses are not {expected:?}"));
        }
        if is_same
            && self.elements.iter().any(|((array, block, element), steps)| {
                let is_here = block.is_none_or(|block| block == u64::from(thread.block[0]));
                (array, element) == (&name, &number) && is_here && Truth::of_element(steps) == Verdict::Race
            })
        {
            return Some("other accesses to the element race".into());
        }
        None
    }

    /// Returns an element that is written with the same value by unordered threads and that no warning covers.
    pub fn unreported(&self, program: &Program, warnings: &[Fault]) -> Option<String> {
        let is_told = |element: &Element, lines: &[usize]| {
            warnings.iter().any(|fault| {
                let FaultKind::Race(race) = &fault.kind else { return false };
                let is_line = lines.contains(&line(&program.text, fault.span.start));
                // The checker reports only one warning for a line, which covers all elements of the array.
                is_line && (place(race).0 == element.0)
            })
        };
        self.elements.iter().find_map(|(element, steps)| {
            let same = Truth::pairs(steps).filter(|(a, b)| a.verdict(b) == Verdict::Same);
            let lines: Vec<usize> = same.flat_map(|(a, b)| [a.line, b.line]).collect();
            (!lines.is_empty() && !is_told(element, &lines)).then(|| format!("{element:?}: lines {lines:?}"))
        })
    }
}

/// Returns the array, the element index, and the byte offset in the element that a report names.
fn place(race: &Race) -> (String, usize, Option<usize>) {
    let (name, rest) = race.place.split_once('[').expect("an element");
    let (number, path) = rest.split_once(']').expect("an index");
    let part = match path {
        ".x" | ".n" => Some(0),
        ".y" | ".f" => Some(4),
        _ => None,
    };
    (name.to_string(), number.parse().expect("a number"), part)
}
