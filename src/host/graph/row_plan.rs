//! What the kernel of an expression with reductions of rows computes: see [`rows`](crate::host::graph::rows), which plans it.

use crate::host::array::Array;
use crate::host::graph::node::{Fold, Op};
use crate::host::graph::plan::Source;
use crate::lang::scalar::{Scalar, Value};

/// Elements that a thread combines.
pub(super) const EACH: usize = 64;
/// Threads of a block.
pub(super) const THREADS: usize = 256;

/// What a value belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
}

impl Division {
    pub fn of(len: usize) -> Division {
        let results = len.div_ceil(EACH).next_power_of_two();
        let threads = results.min(THREADS);
        Division { threads, rows: THREADS / threads, results }
    }
}

impl RowPlan {
    /// Returns a text of bytes that is equal for plans with the same kernel.
    pub fn key(&self, division: Division, result: Scalar) -> Vec<u8> {
        // No other kernel's key begins with this number.
        let mut key = vec![253, division.threads.ilog2() as u8, division.results.ilog2() as u8, result as u8];
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
