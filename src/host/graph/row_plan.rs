//! What the kernel of an expression with reductions of rows computes: see [`rows`](crate::host::graph::rows), which plans it.

use crate::host::array::Array;
use crate::host::graph::node::{Fold, Op};
use crate::host::graph::plan::Source;
use crate::lang::scalar::{Scalar, Value};

/// The most elements of a row, and the most rows.
pub(super) const LONGEST: usize = 1 << 16;
pub(super) const MOST_ROWS: usize = 1 << 30;
/// The most elements that a thread combines in a round.
pub(super) const EACH: usize = 64;
/// From so many results on, their number is an odd multiple of a cache line's elements: what one thread combines lies as far apart, and
/// with a power of two between them, all would share a few sets of a cache.
const SPREAD: usize = 1 << 12;
const LINE: usize = 16;
/// Threads of a block.
pub(super) const THREADS: usize = 256;

/// The lanes of a vector, of the processors that have the longest ones.
const VECTOR: usize = 16;
/// The fewest neighboring threads that read whole sectors of a GPU's memory, and those of a warp.
const SECTOR: usize = 8;
const WARP: usize = 32;
/// The blocks that keep a GPU busy whatever one thread does.
const FEW: usize = 256;
/// Bytes of shared memory that a block may have on every GPU, less what arrays are aligned to.
const ROOM: usize = 47 << 10;

/// Returns the number of results of a round that combines so many elements.
pub(crate) fn results(elements: usize) -> usize {
    match elements.div_ceil(EACH) {
        few @ ..SPREAD => few,
        many => (many.div_ceil(LINE) | 1) * LINE,
    }
}

/// What a value belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Spread {
    Element,
    Row,
    Column,
    All,
}

#[derive(Debug, PartialEq)]
pub(super) enum What {
    Apply(Op, Vec<Source>),
    /// A reduction of elements, with its divisor.
    Fold(Fold, Source, Option<usize>),
}

#[derive(Debug, PartialEq)]
pub(super) struct Step {
    pub what: What,
    /// `Element` or `Row`.
    pub spread: Spread,
    /// The number of passes over the row that precede it.
    pub level: usize,
}

pub(super) struct Input {
    pub array: Array,
    pub scalar: Scalar,
    pub spread: Spread,
}

/// What a kernel computes for each row.
#[derive(Default)]
pub(super) struct RowPlan {
    pub rows: usize,
    pub len: usize,
    pub inputs: Vec<Input>,
    pub scalars: Vec<Value>,
    /// In order of evaluation; the last one is the result.
    pub steps: Vec<Step>,
}

/// How a block is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Division {
    /// Threads of a row, and rows of a block.
    pub threads: usize,
    pub rows: usize,
    /// Room for the results of the first round of a row.
    pub results: usize,
    /// The inputs, a bit each, of which a block first copies its rows to shared memory.
    kept: u32,
    /// Whether there are too few rows for a GPU to hide the time of loads behind other rows.
    pub few: bool,
    /// Whether all threads have the same number of elements and all blocks the same number of rows, so that no size but that is a
    /// parameter: a processor then needs no masks.
    pub exact: bool,
}

impl Division {
    /// A thread for each result of the first round, which reads the inputs itself.
    pub fn of(plan: &RowPlan) -> Division {
        let results = plan.len.div_ceil(EACH).next_power_of_two();
        let threads = results.min(THREADS);
        let rows = THREADS / threads;
        let exact = plan.len == results * EACH && plan.rows.is_multiple_of(rows);
        Division { threads, rows, results, kept: 0, few: plan.rows / rows < FEW, exact }
    }

    /// As far as there is room, keeps what several passes read in shared memory, or all if the threads of a row would be too few to
    /// read neighboring elements.
    pub fn keeping(plan: &RowPlan) -> Division {
        let plain = Division { exact: false, ..Division::of(plan) };
        let kept = if plain.threads < WARP { plan.elements() } else { plan.read_again() };
        let with = |threads| Division { threads, rows: THREADS / threads, kept, ..plain };
        let widths = (SECTOR.ilog2()..=THREADS.ilog2()).map(|log| 1 << log);
        let divisions = widths.filter(|width| *width >= plain.threads).map(with);
        let mut fits = divisions.filter(|division| division.rows * plan.bytes_of_row(division) <= ROOM);
        fits.next().filter(|division| division.kept != 0).unwrap_or(plain)
    }

    /// Whether a row of the block's threads is a row of elements: a processor's vectors then lie in one row, and load neighboring elements.
    pub fn is_wide(&self) -> bool {
        self.threads >= VECTOR
    }

    /// Returns the shape of a block.
    pub fn block(&self) -> [u32; 3] {
        if self.is_wide() { [self.threads as u32, self.rows as u32, 1] } else { [THREADS as u32, 1, 1] }
    }

    pub fn keeps(&self, input: usize) -> bool {
        input < u32::BITS as usize && self.kept >> input & 1 == 1
    }

    /// Elements between the kept ones of two rows, so that rows which one warp reads lie in different banks.
    pub fn padding(&self) -> usize {
        if self.threads < WARP { self.threads } else { 0 }
    }
}

impl RowPlan {
    /// Returns the inputs of elements, a bit each.
    fn elements(&self) -> u32 {
        let inputs = self.inputs.iter().take(u32::BITS as usize).enumerate();
        inputs.filter(|(_, input)| input.spread == Spread::Element).fold(0, |all, (i, _)| all | 1 << i)
    }

    /// Returns those that are read in several passes: of one level's reductions each, and of the result.
    fn read_again(&self) -> u32 {
        let top = self.steps.iter().map(|step| step.level).max().unwrap_or(0);
        let mut passes = vec![0; top + 2];
        for step in &self.steps {
            if let What::Fold(_, source, _) = step.what {
                passes[step.level] |= self.below(source);
            }
        }
        let result = Source::Step(self.steps.len().saturating_sub(1));
        passes[top + 1] = self.below(result);
        let again = |i: u32| passes.iter().filter(|pass| *pass >> i & 1 == 1).count() > 1;
        self.elements() & (0..u32::BITS).filter(|&i| again(i)).fold(0, |all, i| all | 1 << i)
    }

    /// Returns the inputs of which elements are needed for those of a source, a bit each.
    fn below(&self, source: Source) -> u32 {
        let (mut found, mut left, mut seen) = (0, vec![source], vec![false; self.steps.len()]);
        while let Some(source) = left.pop() {
            match source {
                Source::Input(i) if i < u32::BITS as usize => found |= 1 << i,
                Source::Step(i) if !std::mem::replace(&mut seen[i], true) => {
                    if let (What::Apply(_, sources), Spread::Element) = (&self.steps[i].what, self.steps[i].spread) {
                        left.extend(sources);
                    }
                }
                _ => {}
            }
        }
        found
    }

    /// Returns the bytes of shared memory that a row takes.
    fn bytes_of_row(&self, division: &Division) -> usize {
        let inputs = self.inputs.iter().enumerate().filter(|(i, _)| division.keeps(*i));
        let kept: usize = inputs.map(|(_, input)| (self.len + division.padding()) * input.scalar.size()).sum();
        let folds = self.steps.iter().map(|step| match step.what {
            What::Fold(fold, ..) => (division.results + division.results / EACH + 1) * fold.wide.size(),
            What::Apply(..) => 0,
        });
        kept + folds.sum::<usize>()
    }

    /// Returns a text of bytes that is equal for plans with the same kernel.
    pub fn key(&self, division: Division, result: Scalar) -> Vec<u8> {
        // No other kernel's key begins with this number.
        let mut key = vec![253, division.threads.ilog2() as u8, division.results.ilog2() as u8, result as u8];
        key.extend(division.kept.to_le_bytes());
        key.extend([u8::from(division.few), u8::from(division.exact)]);
        key.extend([self.inputs.len() as u8, self.scalars.len() as u8]);
        key.extend(self.inputs.iter().flat_map(|input| [input.scalar as u8, input.spread as u8]));
        key.extend(self.scalars.iter().map(|value| value.ty as u8));
        for step in &self.steps {
            key.extend([step.spread as u8, step.level as u8]);
            match &step.what {
                What::Apply(op, sources) => {
                    key.extend(op.key());
                    sources.iter().for_each(|source| source.key(&mut key));
                }
                What::Fold(fold, source, divisor) => {
                    key.extend([9, fold.wide as u8, fold.result as u8, divisor.map_or(0, |i| i as u8 + 1)]);
                    key.extend(fold.combine.key());
                    source.key(&mut key);
                }
            }
        }
        key
    }
}
