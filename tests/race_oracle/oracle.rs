//! The truth about the races of a launch: all pairs of accesses in the stepper's trace, compared by happens-before.
//!
//! Nothing of this is the checker's code. A thread counts the barriers that it has passed: of the grid, its block and its warp. If two
//! threads wait at the same barriers, accesses with different counts are ordered. Two unordered accesses to the same bytes conflict
//! unless both only read or both are atomic.

use std::collections::BTreeMap;

use clk_lang::device::step::{Access, At, Kind, Launch, Observer, Store, Thread};
use clk_lang::device::{Arg, Deed, Extents, Fault, FaultKind, Race, Who};
use clk_lang::ir::def::{Module, Stmt, StmtKind};
use clk_lang::lang::ops::BarrierKind;
use clk_lang::lang::scalar::Value;

use super::kernels::{Form, Program};

/// Synchronizations that a thread has passed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Passed {
    grid: u32,
    block: u32,
    warp: u32,
}

/// One access of one thread.
#[derive(Clone, Debug)]
pub struct Step {
    block: u64,
    thread: u32,
    passed: Passed,
    deed: Deed,
    line: usize,
    /// The first byte of the element that is accessed, and the bytes that are read or written.
    from: usize,
    bytes: Vec<u8>,
    values: Vec<Value>,
}

/// The accesses to one element: its array, for a shared array also the block, and its number.
type Element = (String, Option<u64>, usize);

/// The unordered pairs of a launch.
pub struct Truth {
    elements: BTreeMap<Element, Vec<Step>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// No two unordered accesses conflict.
    Clean,
    /// Some do, and all of these write the same value.
    Same,
    Race,
}

struct Tracer<'t> {
    text: &'t str,
    lines: Vec<&'t str>,
    passed: BTreeMap<(u64, u32), Passed>,
    elements: BTreeMap<Element, Vec<Step>>,
}

fn line(text: &str, at: u32) -> usize {
    text[..(at as usize).min(text.len())].matches('\n').count() + 1
}

impl Observer for Tracer<'_> {
    fn statement(&mut self, at: At, _: &Thread<'_>, stmt: &Stmt) {
        let passed = self.passed.entry((at.block, at.thread)).or_default();
        match &stmt.kind {
            StmtKind::Barrier { kind: BarrierKind::Grid, .. } => passed.grid += 1,
            StmtKind::Barrier { kind: BarrierKind::Warp, .. } | StmtKind::Warp { .. } => passed.warp += 1,
            StmtKind::Barrier { .. } => passed.block += 1,
            _ => {}
        }
    }

    fn access(&mut self, at: At, access: &Access<'_, '_>) {
        let block = match access.store() {
            Store::Global(_) => None,
            Store::Shared(..) => Some(at.block),
            Store::Local(_) => return,
        };
        let line = line(self.text, access.span.start);
        let deed = match access.kind {
            Kind::Read => Deed::Reads,
            Kind::Write => Deed::Writes,
            Kind::Atomic if self.lines[line - 1].contains("atomic_load") => Deed::Looks,
            Kind::Atomic => Deed::Updates,
        };
        let size = access.array.layout.size;
        let values: Vec<Value> = access.value.values().collect();
        let scalar = access.ty.scalar().size();
        let bytes = values.iter().flat_map(|value| value.to_bytes()[..scalar].to_vec()).collect();
        let step = Step {
            block: at.block,
            thread: at.thread,
            passed: self.passed.get(&(at.block, at.thread)).copied().unwrap_or_default(),
            deed,
            line,
            from: access.offset % size,
            bytes,
            values,
        };
        self.elements.entry((access.array.name.to_string(), block, access.offset / size)).or_default().push(step);
    }
}

impl Step {
    /// Returns whether two accesses are by one thread, or a barrier of both threads separates them.
    fn is_ordered(&self, other: &Step) -> bool {
        if (self.block, self.thread) == (other.block, other.thread) || self.passed.grid != other.passed.grid {
            return true;
        }
        self.block == other.block
            && (self.passed.block != other.passed.block
                || self.thread / 32 == other.thread / 32 && self.passed.warp != other.passed.warp)
    }

    fn overlap(&self, other: &Step) -> std::ops::Range<usize> {
        let end = |step: &Step| step.from + step.bytes.len();
        self.from.max(other.from)..end(self).min(end(other))
    }

    /// Returns the verdict on two accesses to one element.
    fn verdict(&self, other: &Step) -> Verdict {
        use Deed::*;
        let overlap = self.overlap(other);
        let conflict = match (self.deed, other.deed) {
            (Writes, _) | (_, Writes) => true,
            (Reads, Updates) | (Updates, Reads) => true,
            (Reads | Updates | Looks, _) => false,
        };
        if overlap.is_empty() || !conflict || self.is_ordered(other) {
            return Verdict::Clean;
        }
        let part = |step: &Step| step.bytes[overlap.start - step.from..overlap.end - step.from].to_vec();
        match (self.deed, other.deed) {
            (Writes, Writes) if part(self) == part(other) => Verdict::Same,
            _ => Verdict::Race,
        }
    }

    fn is_by(&self, form: Form, who: &Who) -> bool {
        match (form, &who.index) {
            (Form::Threads(_), Some(index)) => self.block * 32 + u64::from(self.thread) == u64::from(index[0]),
            _ => (self.block, self.thread) == (u64::from(who.block[0]), who.thread[0]),
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
            Form::Grid { blocks, threads } => Extents::Grid { grid: [blocks, 1, 1], block: [threads, 1, 1] },
            Form::Threads(n) => Extents::Threads([n, 1, 1]),
        };
        let launch = Launch::new(module, extents, &args, 100_000);
        let mut state = launch.start(&args).expect("arrays of the host");
        let text = &program.text;
        let lines = text.lines().collect();
        let mut tracer = Tracer { text, lines, passed: BTreeMap::new(), elements: BTreeMap::new() };
        let mut output = String::new();
        while state.step(&launch, &mut output, &mut tracer) {}
        assert!(state.faults.is_empty(), "{:?}\n{text}", state.faults);
        Truth { elements: tracer.elements }
    }

    fn pairs(steps: &[Step]) -> impl Iterator<Item = (&Step, &Step)> {
        steps.iter().enumerate().flat_map(|(at, a)| steps[..at].iter().map(move |b| (b, a)))
    }

    /// Returns the worst verdict on an element.
    fn of_element(steps: &[Step]) -> Verdict {
        Truth::pairs(steps).map(|(a, b)| a.verdict(b)).max().unwrap_or(Verdict::Clean)
    }

    pub fn verdict(&self) -> Verdict {
        self.elements.values().map(|steps| Truth::of_element(steps)).max().unwrap_or(Verdict::Clean)
    }

    /// Returns why a report is not what happens in the launch; `None` if it is.
    pub fn contradiction(&self, program: &Program, fault: &Fault) -> Option<String> {
        let FaultKind::Race(race) = &fault.kind else { return Some("it is no race".into()) };
        let who = Who { block: fault.block, thread: fault.thread, index: fault.index.clone() };
        let at = |start: u32| line(&program.text, start);
        let (own, other) = (at(fault.span.start), at(race.other_span.start));
        let (name, number, part) = place(race);
        let is_same = race.deed == Deed::Writes && race.other_deed == Deed::Writes && race.value == race.other_value;
        let wanted = if is_same { Verdict::Same } else { Verdict::Race };
        let elements = self.elements.iter().filter(|((array, block, element), _)| {
            let is_here = block.is_none_or(|block| (block, program.form) == (u64::from(who.block[0]), program.form));
            (array, element) == (&name, &number) && is_here && block.is_some() == race.shared
        });
        let steps: Vec<&Step> = elements.flat_map(|(_, steps)| steps).collect();
        let atomics = steps.iter().any(|step| step.deed == Deed::Updates);
        // What a thread reads depends on the order in a racy launch, but is a value that some thread stores, or the initial one.
        let possible = |step: &&Step, value: &Option<Value>| match (step.deed, value) {
            (_, None) => true,
            (Deed::Reads, Some(value)) => {
                let stored = |step: &&Step| step.deed == Deed::Writes && step.values.contains(value);
                atomics || value.bits == 0 || steps.iter().any(stored)
            }
            (_, Some(value)) => step.values.contains(value),
        };
        let of = |who: &Who, deed: Deed, line: usize, value: &Option<Value>| -> Vec<&Step> {
            let fits = |step: &&Step| step.is_by(program.form, who) && (step.deed, step.line) == (deed, line);
            let there = |step: &&Step| part.is_none_or(|at| (step.from..step.from + step.bytes.len()).contains(&at));
            steps.iter().copied().filter(|step| fits(step) && there(step) && possible(step, value)).collect()
        };
        let ours = of(&who, race.deed, own, &race.value);
        let theirs = of(&race.other, race.other_deed, other, &race.other_value);
        if ours.is_empty() || theirs.is_empty() {
            let which = if ours.is_empty() { "the access" } else { "the other access" };
            return Some(format!("{which} does not happen"));
        }
        if !ours.iter().any(|a| theirs.iter().any(|b| a.verdict(b) == wanted)) {
            return Some(format!("these accesses are not {wanted:?}"));
        }
        if is_same
            && self.elements.iter().any(|((array, block, element), steps)| {
                let is_here = block.is_none_or(|block| block == u64::from(who.block[0]));
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
                // A line has one warning, which covers all elements of its array.
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

/// Returns the array, the element's number and the byte in the element of the place that a report names.
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
