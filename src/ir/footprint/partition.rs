//! Partitions the threads of a launch into parts, one for each device, so that each part accesses only its device's
//! shards of the arrays and their halos.
//!
//! Input: a kernel's footprint, a launch, and the shards of its arrays. Output: [`LaunchPartition`] or a
//! [`PartitionError`]. The partitioner picks a coordinate of the launch that determines the index along the sharded
//! axis of the written arrays, and splits its range at the shard boundaries. It then proves that every write of a part
//! stays in the part's shard, and every read in the shard or its halo. The coordinate and its ranges are chosen by a
//! heuristic. A bad choice is safe: it only makes these proofs fail, because every thread is in exactly one part for
//! any choice.

use std::ops::Range;

use super::def::{Footprint, FootprintAccess, FootprintAccessKind, SymbolicLaunch};
use super::formula::*;
use super::full_overwrite::{LaunchNumbers, instantiate, known_values};
use super::proof_obligation::{ObligationAnswer, ObligationBuilder, ProofObligation, SharedContext};
use super::property_obligations;
use super::property_obligations::coordinates;
use crate::def::*;
use clk_base::linear::{AffineForm, SolverBudget, Var};
use clk_base::source::Span;

/// Work limits: solver budget for one obligation, and the number of obligations for a launch.
const WORK: SolverBudget = SolverBudget { cases: 250, exchanges: 5_000 };
const MAX_QUESTIONS: usize = 4_000;

/// The coordinate along which a launch is partitioned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PartitionCoordinate {
    /// An index of a `threads` kernel.
    Index(u8),
    /// The block index along x, y or z.
    Block(u8),
}

/// An array parameter that is sharded along an axis. Shards begin at `boundaries`; the last boundary is the length of
/// the axis.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ShardedParam {
    pub param: u32,
    pub axis: u8,
    pub boundaries: Vec<usize>,
    pub halo: usize,
}

impl ShardedParam {
    fn owned_rows(&self, part: usize) -> Range<i128> {
        self.boundaries[part] as i128..self.boundaries[part + 1] as i128
    }

    fn available_rows(&self, part: usize, halo: usize) -> Range<i128> {
        let owned = self.owned_rows(part);
        let end = self.boundaries.last().map_or(0, |&end| end as i128);
        (owned.start - halo as i128).max(0)..(owned.end + halo as i128).min(end)
    }
}

/// A partitioned launch.
#[derive(Clone, Debug)]
pub struct LaunchPartition {
    pub coordinate: PartitionCoordinate,
    /// The range of the coordinate that each part executes.
    pub ranges: Vec<Range<u32>>,
    /// All sharded arrays, including the outputs that the launch allocates.
    pub arrays: Vec<ShardedParam>,
    /// The parameter positions of the arrays whose halos are read.
    pub halos: Vec<u32>,
    /// For each part, the range of the coordinate whose threads read no halo. The list is empty if these ranges are
    /// unknown.
    pub interior: Vec<Range<u32>>,
    /// Whether all accesses of all parts are proved in bounds.
    pub in_bounds: bool,
}

/// Why a launch cannot be partitioned.
#[derive(Clone, Debug)]
pub enum PartitionError {
    /// An access may be outside its shard.
    OutsideShard {
        span: Span,
        name: String,
        axis: u8,
        writes: bool,
        halo: usize,
        /// The smallest halo size that would contain the access in all parts, if there is one.
        sufficient_halo: Option<usize>,
        part: usize,
        unknowns: Vec<(&'static str, Span)>,
    },
    /// A block writes on both sides of a shard boundary. Shard boundaries at multiples of `granule` would avoid that.
    StraddlesBoundary {
        span: Span,
        name: String,
        granule: usize,
        boundary: usize,
    },
    /// The kernel writes an array that is not sharded.
    UnshardedWrite {
        span: Span,
        name: String,
    },
    Other {
        span: Option<Span>,
        why: String,
    },
}

impl PartitionError {
    fn other(span: Option<Span>, why: impl Into<String>) -> PartitionError {
        PartitionError::Other { span, why: why.into() }
    }
}

/// The launch to be partitioned.
pub(super) struct Partitioner<'a> {
    module: &'a Module,
    symbolic: &'a SymbolicLaunch,
    footprint: &'a Footprint,
    known_values: Vec<(AffineForm, i128)>,
    launch: &'a LaunchNumbers<'a>,
    questions_left: usize,
}

/// Partitions a launch. `arrays` are already sharded. The launch allocates the arrays `outputs`; their shards are
/// chosen to match the writes.
pub(super) fn partition(
    module: &Module,
    symbolic: &SymbolicLaunch,
    footprint: &Footprint,
    launch: &LaunchNumbers<'_>,
    arrays: &[ShardedParam],
    outputs: &[u32],
) -> Result<LaunchPartition, PartitionError> {
    let values = known_values(symbolic, launch);
    let mut partitioner =
        Partitioner { module, symbolic, footprint, known_values: values, launch, questions_left: MAX_QUESTIONS };
    partitioner.check_written_arrays(arrays, outputs)?;
    let mut first_error = None;
    for (coordinate, var) in partitioner.candidates(arrays, outputs) {
        match partitioner.partition_along(coordinate, var, arrays, outputs) {
            Ok(partition) => return Ok(partition),
            Err(error) => _ = first_error.get_or_insert(error),
        }
    }
    Err(first_error.unwrap_or_else(|| {
        let name = arrays.first().map_or(String::new(), |array| partitioner.name(array.param));
        let axis = arrays.first().map_or(0, |array| array.axis);
        PartitionError::other(None, format!("no coordinate of the launch runs along axis {axis} of `{name}`"))
    }))
}

impl Partitioner<'_> {
    fn function(&self) -> &Function {
        &self.module.functions[self.module.kernel.body]
    }

    fn param(&self, memory: MemId) -> Option<(u32, Access)> {
        match self.function().memories[memory].space {
            MemorySpace::Global { param, access } => Some((param, access)),
            _ => None,
        }
    }

    fn name(&self, param: u32) -> String {
        match self.module.kernel.params.get(param as usize) {
            Some(KernelParam::Array { name, .. } | KernelParam::Value { name, .. }) => name.clone(),
            None => String::new(),
        }
    }

    /// Rejects writes to unsharded arrays, and atomic operations that do not commute.
    fn check_written_arrays(&self, arrays: &[ShardedParam], outputs: &[u32]) -> Result<(), PartitionError> {
        for access in &self.footprint.accesses {
            let Some((param, _)) = self.param(access.memory).filter(|_| access.kind != FootprintAccessKind::Load)
            else {
                continue;
            };
            if !arrays.iter().any(|array| array.param == param) && !outputs.contains(&param) {
                return Err(PartitionError::UnshardedWrite { span: access.span, name: self.name(param) });
            }
            if let FootprintAccessKind::Atomic(update) = access.kind
                && !update.commutes(update)
            {
                let why = format!("the order of updates of `{}` matters", self.name(param));
                return Err(PartitionError::other(Some(access.span), why));
            }
        }
        Ok(())
    }

    /// Returns the candidates for the partition coordinate, best first: the coordinates on which an index along a
    /// sharded axis depends. Coordinates in the indices of writes precede coordinates in the indices of reads. Last are
    /// coordinates in the indices of outputs along an axis that is as long as the sharded axis.
    fn candidates(&self, arrays: &[ShardedParam], outputs: &[u32]) -> Vec<(PartitionCoordinate, Var)> {
        let len = arrays.first().and_then(|array| array.boundaries.last()).map_or(0, |&len| len as i128);
        let indices = |access: &'_ FootprintAccess, round: usize| -> Vec<AffineForm> {
            let Some((param, _)) = self.param(access.memory) else { return vec![] };
            let writes = access.kind != FootprintAccessKind::Load;
            match arrays.iter().find(|array| array.param == param) {
                Some(array) if writes == (round == 0) && round < 2 => {
                    access.indices.get(array.axis as usize).cloned().into_iter().collect()
                }
                None if round == 2 && writes && outputs.contains(&param) => {
                    let as_long = |axis: &usize| (self.launch.extent)(param, *axis as u8) == Some(len);
                    (0..access.indices.len()).filter(as_long).map(|axis| access.indices[axis].clone()).collect()
                }
                _ => vec![],
            }
        };
        let mut coordinates: Vec<(PartitionCoordinate, Var)> = vec![];
        for round in 0..3 {
            for index in self.footprint.accesses.iter().flat_map(|access| indices(access, round)) {
                for (coordinate, var) in self.coordinates() {
                    if index.coefficient(&var) != 0 && !coordinates.iter().any(|(known, _)| *known == coordinate) {
                        coordinates.push((coordinate, var));
                    }
                }
            }
        }
        coordinates
    }

    fn coordinates(&self) -> Vec<(PartitionCoordinate, Var)> {
        let indices =
            self.symbolic.indices.iter().enumerate().map(|(k, form)| (PartitionCoordinate::Index(k as u8), form));
        let blocks = self.symbolic.grid.iter().flat_map(|grid| grid.block_idx.iter().enumerate());
        let blocks = blocks.map(|(k, form)| (PartitionCoordinate::Block(k as u8), form));
        indices.chain(blocks).filter_map(|(coordinate, form)| Some((coordinate, single(form)?))).collect()
    }

    /// Returns the number of values of a coordinate in the launch.
    fn count(&self, coordinate: PartitionCoordinate) -> u32 {
        match coordinate {
            PartitionCoordinate::Index(k) => self.launch.grid.get(k as usize).copied().unwrap_or(1),
            PartitionCoordinate::Block(k) => self.launch.grid.get(k as usize).copied().unwrap_or(1),
        }
    }

    /// Partitions the launch along a coordinate, if all accesses of all parts are proved to stay in their shards.
    fn partition_along(
        &mut self,
        coordinate: PartitionCoordinate,
        var: Var,
        arrays: &[ShardedParam],
        outputs: &[u32],
    ) -> Result<LaunchPartition, PartitionError> {
        let mut all = arrays.to_vec();
        for &param in outputs {
            all.push(self.output_param(param, var, arrays)?);
        }
        let (ranges, stride) = self.ranges(coordinate, var, &all)?;
        let mut halos = vec![];
        let mut checked: Vec<(&FootprintAccess, u32)> = vec![];
        let footprint = self.footprint;
        for access in &footprint.accesses {
            let Some((param, _)) = self.param(access.memory) else { continue };
            let Some(array) = all.iter().find(|array| array.param == param) else { continue };
            let axis = array.axis as usize;
            let Some(index) = access.indices.get(axis) else { continue };
            let same = |(other, of): &&(&FootprintAccess, u32)| {
                *of == param
                    && other.indices.get(axis) == Some(index)
                    && other.path == access.path
                    && (other.kind == FootprintAccessKind::Load) == (access.kind == FootprintAccessKind::Load)
            };
            if checked.iter().any(|known| same(&known)) {
                continue;
            }
            checked.push((access, param));
            for (part, range) in ranges.iter().enumerate() {
                if range.is_empty() || self.stays_in_rows(access, index, var, range, &array.owned_rows(part)) {
                    continue;
                }
                let writes = access.kind != FootprintAccessKind::Load;
                if !writes && self.stays_in_rows(access, index, var, range, &array.available_rows(part, array.halo)) {
                    if !halos.contains(&param) {
                        halos.push(param);
                    }
                    continue;
                }
                let sufficient_halo =
                    if writes { None } else { self.find_sufficient_halo(access, index, var, array, &ranges) };
                let name = self.name(param);
                let (halo, unknowns) = (array.halo, self.unknowns(access, index));
                let (span, axis) = (access.span, array.axis);
                return Err(PartitionError::OutsideShard {
                    span,
                    name,
                    axis,
                    writes,
                    halo,
                    sufficient_halo,
                    part,
                    unknowns,
                });
            }
        }
        let in_bounds = self.in_bounds(&all);
        let interior = self.interior(var, &ranges, stride, &all, &halos, &checked).unwrap_or_default();
        Ok(LaunchPartition { coordinate, ranges, arrays: all, halos, interior, in_bounds })
    }

    /// Returns, for each part, the range of the coordinate whose threads read no halo. `None` if the kernel writes an
    /// array whose halo it reads.
    fn interior(
        &mut self,
        var: Var,
        ranges: &[Range<u32>],
        stride: usize,
        all: &[ShardedParam],
        halos: &[u32],
        checked: &[(&FootprintAccess, u32)],
    ) -> Option<Vec<Range<u32>>> {
        let read: Vec<&ShardedParam> = all.iter().filter(|array| halos.contains(&array.param)).collect();
        let is_read = |array: &&ShardedParam| {
            self.module.kernel.params.get(array.param as usize).and_then(KernelParam::access) == Some(Access::In)
        };
        let edge = read.iter().map(|array| array.halo.div_ceil(stride) as u32).max()?;
        if !read.iter().all(is_read) {
            return None;
        }
        let mut inside = vec![];
        for (part, range) in ranges.iter().enumerate() {
            let first = read.iter().all(|array| array.boundaries[part] == 0);
            let last = read.iter().all(|array| Some(&array.boundaries[part + 1]) == array.boundaries.last());
            let start = range.start.saturating_add(if first { 0 } else { edge });
            let end = range.end.saturating_sub(if last { 0 } else { edge });
            let inner = if start < end { start..end } else { range.start..range.start };
            for (access, param) in checked {
                let Some(array) = read.iter().find(|array| array.param == *param) else { continue };
                let index = access.indices.get(array.axis as usize)?;
                if !inner.is_empty() && !self.stays_in_rows(access, index, var, &inner, &array.owned_rows(part)) {
                    return None;
                }
            }
            inside.push(inner);
        }
        Some(inside)
    }

    /// Chooses the sharded axis of an output: an axis whose index depends on the coordinate and that is as long as the
    /// sharded axis of the first array. The output gets the same boundaries as that array.
    fn output_param(&self, param: u32, var: Var, arrays: &[ShardedParam]) -> Result<ShardedParam, PartitionError> {
        let lead = arrays.first().ok_or_else(|| PartitionError::other(None, "no array is sharded"))?;
        let len = lead.boundaries.last().map_or(0, |&len| len as i128);
        let mut span = None;
        for access in &self.footprint.accesses {
            if self.param(access.memory).map(|(param, _)| param) != Some(param)
                || access.kind == FootprintAccessKind::Load
            {
                continue;
            }
            span = Some(access.span);
            for (axis, index) in access.indices.iter().enumerate() {
                let extent = (self.launch.extent)(param, axis as u8);
                if index.coefficient(&var) != 0 && extent == Some(len) {
                    return Ok(ShardedParam { param, axis: axis as u8, ..lead.clone() });
                }
            }
        }
        let (name, lead) = (self.name(param), self.name(lead.param));
        Err(PartitionError::other(span, format!("no axis of `{name}` can be cut where `{lead}` is")))
    }

    /// Returns the range of the coordinate for each part, chosen so that the part writes the rows of its shard. Also
    /// returns the number of rows by which the written row advances if the coordinate grows by 1.
    fn ranges(
        &self,
        coordinate: PartitionCoordinate,
        var: Var,
        all: &[ShardedParam],
    ) -> Result<(Vec<Range<u32>>, usize), PartitionError> {
        let count = i128::from(self.count(coordinate));
        let write = self.footprint.accesses.iter().find_map(|access| {
            let (param, _) = self.param(access.memory).filter(|_| access.kind != FootprintAccessKind::Load)?;
            let array = all.iter().find(|array| array.param == param)?;
            let index = access.indices.get(array.axis as usize).filter(|index| index.coefficient(&var) != 0)?;
            Some((access, array, index))
        });
        let Some((access, array, index)) = write else {
            return Err(PartitionError::other(None, "the kernel writes nothing along the sharded axis"));
        };
        let stride = index.coefficient(&var);
        if stride < 0 {
            let name = self.name(array.param);
            return Err(PartitionError::other(Some(access.span), format!("`{name}` is written in reverse order")));
        }
        let value = |var: &Var| self.known_values.iter().find(|(form, _)| single(form) == Some(*var)).map(|(_, n)| *n);
        let terms = index.terms().iter().filter(|(term, _)| *term != var);
        let first = terms.filter_map(|(term, factor)| Some(value(term)? * factor)).sum::<i128>() + index.constant();
        let parts = array.boundaries.len() - 1;
        let mut ranges = vec![];
        let mut start = 0;
        for part in 0..parts {
            let end = array.boundaries[part + 1] as i128;
            let is_last = array.boundaries[part + 1..].iter().all(|&boundary| boundary as i128 == end)
                && end == array.boundaries[parts] as i128;
            let at = (end - first).div_euclid(stride) + i128::from((end - first).rem_euclid(stride) != 0);
            if !is_last
                && matches!(coordinate, PartitionCoordinate::Block(_))
                && (end - first).rem_euclid(stride) != 0
                && at < count
            {
                let (name, granule) = (self.name(array.param), stride as usize);
                return Err(PartitionError::StraddlesBoundary {
                    span: access.span,
                    name,
                    granule,
                    boundary: end as usize,
                });
            }
            let to = if is_last { count } else { at.clamp(start, count) };
            ranges.push(start as u32..to as u32);
            start = to;
        }
        Ok((ranges, stride as usize))
    }

    /// Returns whether an index is proved to be in `rows` for all threads whose coordinate is in `range`.
    fn stays_in_rows(
        &mut self,
        access: &FootprintAccess,
        index: &AffineForm,
        var: Var,
        range: &Range<u32>,
        rows: &Range<i128>,
    ) -> bool {
        self.questions_left = self.questions_left.saturating_sub(1);
        if self.questions_left == 0 {
            return false;
        }
        let mut builder = ObligationBuilder::new(&self.footprint.variables, SharedContext::default());
        builder.path(&access.path, 0);
        let coordinate = builder.form(&variable(var), 0);
        builder.fact(at_most(&number(i128::from(range.start)), &coordinate));
        builder.fact(less(&coordinate, &number(i128::from(range.end))));
        let index = builder.form(index, 0);
        builder.fact(or([less(&index, &number(rows.start)), at_most(&number(rows.end), &index)]));
        coordinates(self.symbolic).for_each(|form| drop(builder.form(form, 0)));
        let question = instantiate(&builder.question(String::new(), access.span), &self.known_values);
        is_proved(&question)
    }

    /// Returns the smallest halo size with which a read stays in the available rows of every part.
    fn find_sufficient_halo(
        &mut self,
        access: &FootprintAccess,
        index: &AffineForm,
        var: Var,
        array: &ShardedParam,
        ranges: &[Range<u32>],
    ) -> Option<usize> {
        let mut suffices = |halo: usize| {
            let stay = |(part, range): (usize, &Range<u32>)| {
                range.is_empty() || self.stays_in_rows(access, index, var, range, &array.available_rows(part, halo))
            };
            ranges.iter().enumerate().all(stay)
        };
        // A halo must not exceed the smallest shard, because it would then contain rows of more than one neighbor.
        let most = array.boundaries.windows(2).map(|pair| pair[1] - pair[0]).filter(|&len| len > 0).min()?;
        let mut high = (2 * array.halo).max(1);
        while high < most && !suffices(high) {
            high *= 2;
        }
        let mut high = high.min(most);
        if !suffices(high) {
            return None;
        }
        let mut low = array.halo;
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if suffices(middle) { high = middle } else { low = middle }
        }
        Some(high)
    }

    /// Returns the unknown values on which an index depends, each with its reason and location.
    fn unknowns(&self, access: &FootprintAccess, index: &AffineForm) -> Vec<(&'static str, Span)> {
        let mut builder = ObligationBuilder::new(&self.footprint.variables, SharedContext::default());
        builder.form(index, 0);
        builder.question(String::new(), access.span).unknowns
    }

    /// Returns whether all accesses are proved in bounds. Sharded axes are skipped, because their indices have already
    /// been proved to be in the shards.
    fn in_bounds(&mut self, all: &[ShardedParam]) -> bool {
        let footprint = self.footprint;
        footprint.accesses.iter().all(|access| {
            let sharded =
                self.param(access.memory).and_then(|(param, _)| all.iter().find(|array| array.param == param));
            let sharded = sharded.map(|array| array.axis as usize);
            (0..access.indices.len().min(access.extents.len())).filter(|axis| Some(*axis) != sharded).all(|axis| {
                self.questions_left = self.questions_left.saturating_sub(1);
                let outside =
                    property_obligations::axis_in_bounds(self.function(), self.symbolic, footprint, access, axis);
                self.questions_left > 0
                    && outside.is_none_or(|question| is_proved(&instantiate(&question, &self.known_values)))
            })
        })
    }
}

fn is_proved(question: &ProofObligation) -> bool {
    matches!(question.answer(&WORK), ObligationAnswer::Proved(..))
}
