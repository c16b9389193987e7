//! The plan of a row-wise kernel, created by [`row_planner`](crate::graph::row_planner).

use crate::array::Array;
use crate::graph::node::{ElementwiseOp, ReductionOp};
use crate::graph::plan::OperandSource;
use clk_scalar::{Scalar, ScalarValue};

/// Maximum length of a row.
pub(super) const MAX_ROW_LEN: usize = 1 << 16;
/// Maximum number of rows.
pub(super) const MAX_ROWS: usize = 1 << 30;
/// Maximum number of elements that one thread combines in a reduction round.
pub(super) const TERMS_PER_RESULT: usize = 64;
/// If a round has at least this number of results, the number is rounded up to an odd multiple of [`LINE`]. The number
/// of results is the stride of the elements that one thread combines; a power of two would map all of them to a few
/// cache sets.
const MIN_SPREAD_RESULTS: usize = 1 << 12;
/// Number of elements in a cache line.
const LINE: usize = 16;
/// Number of threads in a block.
pub(super) const THREADS: usize = 256;

/// Maximum number of vector lanes of CPUs.
const VECTOR: usize = 16;
/// Minimum number of adjacent threads that read whole memory sectors of a GPU.
const SECTOR: usize = 8;
/// Number of threads in a warp.
const WARP: usize = 32;
/// Number of blocks from which on a GPU is busy even if each thread waits for memory.
const BUSY_BLOCKS: usize = 256;
/// Shared memory in bytes that a block may use on every GPU, minus the padding for alignment.
const SHARED_BYTES: usize = 47 << 10;

/// Returns the number of results of a round that combines `elements` elements.
pub(crate) fn round_results(elements: usize) -> usize {
    match elements.div_ceil(TERMS_PER_RESULT) {
        few @ ..MIN_SPREAD_RESULTS => few,
        many => (many.div_ceil(LINE) | 1) * LINE,
    }
}

/// The indices on which a value of a row-wise kernel depends: the element (row and column), the row, the column, or
/// none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum RowVariance {
    Element,
    Row,
    Column,
    All,
}

#[derive(Debug, PartialEq)]
pub(super) enum RowOp {
    Apply(ElementwiseOp, Vec<OperandSource>),
    /// A reduction of the row's elements. The last field is the index of the scalar by which the result is divided, if
    /// any.
    Reduce(ReductionOp, OperandSource, Option<usize>),
}

#[derive(Debug, PartialEq)]
pub(super) struct RowStep {
    pub op: RowOp,
    /// The variance of the result: `Element` or `Row`.
    pub variance: RowVariance,
    /// Number of passes over the row that precede this step.
    pub level: usize,
}

pub(super) struct RowInput {
    pub array: Array,
    pub scalar: Scalar,
    pub variance: RowVariance,
}

/// The computation of a row-wise kernel for each row.
#[derive(Default)]
pub(super) struct RowPlan {
    pub rows: usize,
    pub len: usize,
    pub inputs: Vec<RowInput>,
    pub scalars: Vec<ScalarValue>,
    /// The steps in the order of evaluation. The last step is the result.
    pub steps: Vec<RowStep>,
}

/// The assignment of a block's threads to rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RowBlockShape {
    /// Number of threads per row. A block processes `rows` rows.
    pub threads: usize,
    pub rows: usize,
    /// Capacity for the results of a row's first reduction round.
    pub results: usize,
    /// Bitset of the inputs that are cached: a block first copies its rows of them to shared memory.
    cached_inputs: u32,
    /// Whether there are too few blocks for a GPU to hide the latency of loads.
    pub has_few_blocks: bool,
    /// Whether all threads process the same number of elements, and all blocks the same number of rows. In that case
    /// the sizes are constants, and a CPU needs no masks.
    pub exact: bool,
}

impl RowBlockShape {
    /// Returns a shape with one thread for each result of the first round, up to `THREADS`. No inputs are cached.
    pub fn for_plan(plan: &RowPlan) -> RowBlockShape {
        let results = plan.len.div_ceil(TERMS_PER_RESULT).next_power_of_two();
        let threads = results.min(THREADS);
        let rows = THREADS / threads;
        let exact = plan.len == results * TERMS_PER_RESULT && plan.rows.is_multiple_of(rows);
        RowBlockShape {
            threads,
            rows,
            results,
            cached_inputs: 0,
            has_few_blocks: plan.rows / rows < BUSY_BLOCKS,
            exact,
        }
    }

    /// Like [`Self::for_plan`], but caches inputs if shared memory suffices: all inputs if a row has less than a warp
    /// of threads, so that adjacent threads would not read adjacent elements; otherwise the inputs that several passes
    /// read.
    pub fn caching_rows(plan: &RowPlan) -> RowBlockShape {
        let plain = RowBlockShape { exact: false, ..RowBlockShape::for_plan(plan) };
        let cached_inputs = if plain.threads < WARP { plan.element_inputs() } else { plan.reread_inputs() };
        let with = |threads| RowBlockShape { threads, rows: THREADS / threads, cached_inputs, ..plain };
        let widths = (SECTOR.ilog2()..=THREADS.ilog2()).map(|log| 1 << log);
        let divisions = widths.filter(|width| *width >= plain.threads).map(with);
        let mut fitting =
            divisions.filter(|division| division.rows * plan.shared_bytes_per_row(division) <= SHARED_BYTES);
        fitting.next().filter(|division| division.cached_inputs != 0).unwrap_or(plain)
    }

    /// Returns whether a row has at least as many threads as a CPU vector has lanes. The block is then two-dimensional,
    /// so that the lanes of a vector are in one row and load adjacent elements.
    pub fn is_wide(&self) -> bool {
        self.threads >= VECTOR
    }

    /// Returns the shape of a block.
    pub fn block(&self) -> [u32; 3] {
        if self.is_wide() { [self.threads as u32, self.rows as u32, 1] } else { [THREADS as u32, 1, 1] }
    }

    pub fn is_cached(&self, input: usize) -> bool {
        input < u32::BITS as usize && self.cached_inputs >> input & 1 == 1
    }

    /// Returns the number of padding elements between two cached rows. Padding prevents bank conflicts between the rows
    /// that one warp reads.
    pub fn padding(&self) -> usize {
        if self.threads < WARP { self.threads } else { 0 }
    }
}

impl RowPlan {
    /// Returns a bitset of the inputs that depend on the row and the column.
    fn element_inputs(&self) -> u32 {
        let inputs = self.inputs.iter().take(u32::BITS as usize).enumerate();
        inputs.filter(|(_, input)| input.variance == RowVariance::Element).fold(0, |all, (i, _)| all | 1 << i)
    }

    /// Returns a bitset of the inputs that several passes read. There is one pass for the reductions of each level, and
    /// one for the result.
    fn reread_inputs(&self) -> u32 {
        let top = self.steps.iter().map(|step| step.level).max().unwrap_or(0);
        let mut passes = vec![0; top + 2];
        for step in &self.steps {
            if let RowOp::Reduce(_, source, _) = step.op {
                passes[step.level] |= self.inputs_below(source);
            }
        }
        let result = OperandSource::Step(self.steps.len().saturating_sub(1));
        passes[top + 1] = self.inputs_below(result);
        let is_reread = |i: u32| passes.iter().filter(|pass| *pass >> i & 1 == 1).count() > 1;
        self.element_inputs() & (0..u32::BITS).filter(|&i| is_reread(i)).fold(0, |all, i| all | 1 << i)
    }

    /// Returns a bitset of the inputs whose elements `source` depends on.
    fn inputs_below(&self, source: OperandSource) -> u32 {
        let (mut inputs, mut left, mut visited) = (0, vec![source], vec![false; self.steps.len()]);
        while let Some(source) = left.pop() {
            match source {
                OperandSource::Input(i) if i < u32::BITS as usize => inputs |= 1 << i,
                OperandSource::Step(i) if !std::mem::replace(&mut visited[i], true) => {
                    if let (RowOp::Apply(_, sources), RowVariance::Element) =
                        (&self.steps[i].op, self.steps[i].variance)
                    {
                        left.extend(sources);
                    }
                }
                _ => {}
            }
        }
        inputs
    }

    /// Returns the number of bytes of shared memory that a row needs.
    fn shared_bytes_per_row(&self, division: &RowBlockShape) -> usize {
        let inputs = self.inputs.iter().enumerate().filter(|(i, _)| division.is_cached(*i));
        let cached_bytes: usize = inputs.map(|(_, input)| (self.len + division.padding()) * input.scalar.size()).sum();
        let folds = self.steps.iter().map(|step| match step.op {
            RowOp::Reduce(fold, ..) => {
                (division.results + division.results / TERMS_PER_RESULT + 1) * fold.accumulator.size()
            }
            RowOp::Apply(..) => 0,
        });
        cached_bytes + folds.sum::<usize>()
    }

    /// Returns the cache key of the kernel: plans with equal keys have the same kernel.
    pub fn cache_key(&self, division: RowBlockShape, result: Scalar) -> Vec<u8> {
        // 253 is unique to row-wise kernels: no other cache key begins with it.
        let mut key = vec![253, division.threads.ilog2() as u8, division.results.ilog2() as u8, result as u8];
        key.extend(division.cached_inputs.to_le_bytes());
        key.extend([u8::from(division.has_few_blocks), u8::from(division.exact)]);
        key.extend([self.inputs.len() as u8, self.scalars.len() as u8]);
        key.extend(self.inputs.iter().flat_map(|input| [input.scalar as u8, input.variance as u8]));
        key.extend(self.scalars.iter().map(|value| value.ty as u8));
        for step in &self.steps {
            key.extend([step.variance as u8, step.level as u8]);
            match &step.op {
                RowOp::Apply(op, sources) => {
                    key.extend(op.key());
                    sources.iter().for_each(|source| source.append_key(&mut key));
                }
                RowOp::Reduce(fold, source, divisor) => {
                    key.extend([9, fold.accumulator as u8, fold.result as u8, divisor.map_or(0, |i| i as u8 + 1)]);
                    key.extend(fold.combine.key());
                    source.append_key(&mut key);
                }
            }
        }
        key
    }
}
