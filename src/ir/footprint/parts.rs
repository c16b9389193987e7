//! Whether a launch can be cut into parts, of which each has only its own rows of some arrays, and those of halos.
//!
//! Input: the footprint of a kernel, the numbers of a launch, and how its arrays are cut. Output: [`Parted`], which says which coordinates
//! belong to which part, or a [`Refusal`]. Idea: a coordinate of the launch runs along the cut axis of what is written; its range is cut
//! where the array is, and then it is asked of every access of every part whether its index stays in the part: of a write in the rows that
//! the part owns, of a read in those that it holds.
//!
//! What is guessed here (the coordinate, and its range for each part) is only guessed: all threads of the launch are in one part, and what
//! each of them does is proved to be allowed. What cannot be proved is refused.

use std::ops::Range;

use super::claim;
use super::claim::coordinates;
use super::def::{Deed, Footprint, Given, Touch};
use super::form::*;
use super::question::{Answer, Builder, Common, Question};
use super::whole::{Numbers, at, known};
use crate::base::linear::{Budget, Linear, Var};
use crate::base::source::Span;
use crate::ir::def::*;

/// The work for an answer, and the answers for a launch.
const WORK: Budget = Budget { cases: 250, exchanges: 5_000 };
const MAX_QUESTIONS: usize = 4_000;

/// What a launch is cut along.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Coordinate {
    /// An index of a `threads` kernel.
    Index(u8),
    /// The blocks along x, y or z.
    Block(u8),
}

/// An array that is cut along an axis: parts begin at `cuts`, whose last one is the length of the axis.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CutArray {
    pub param: u32,
    pub axis: u8,
    pub cuts: Vec<usize>,
    pub halo: usize,
}

impl CutArray {
    fn own(&self, part: usize) -> Range<i128> {
        self.cuts[part] as i128..self.cuts[part + 1] as i128
    }

    fn held(&self, part: usize, halo: usize) -> Range<i128> {
        let own = self.own(part);
        let end = self.cuts.last().map_or(0, |&end| end as i128);
        (own.start - halo as i128).max(0)..(own.end + halo as i128).min(end)
    }
}

/// A launch in parts.
#[derive(Clone, Debug)]
pub struct Parted {
    pub coordinate: Coordinate,
    /// The coordinates of each part.
    pub ranges: Vec<Range<u32>>,
    /// The arrays that are cut, those that the launch makes among them.
    pub arrays: Vec<CutArray>,
    /// The arrays whose halos are read.
    pub halos: Vec<u32>,
    /// Of each part the coordinates that read no halo; none are known where there is no part.
    pub interior: Vec<Range<u32>>,
    /// All accesses of all parts are in bounds.
    pub in_bounds: bool,
}

/// Why a launch cannot be cut.
#[derive(Clone, Debug)]
pub enum Refusal {
    /// An access may be outside of its part.
    Leaves {
        span: Span,
        name: String,
        axis: u8,
        writes: bool,
        halo: usize,
        /// The halo that would do.
        enough: Option<usize>,
        part: usize,
        unknowns: Vec<(&'static str, Span)>,
    },
    /// A block writes on both sides of a cut; cuts at multiples of a granule would do.
    Straddles {
        span: Span,
        name: String,
        granule: usize,
        cut: usize,
    },
    /// An array that is not cut is written.
    Unsharded {
        span: Span,
        name: String,
    },
    Other {
        span: Option<Span>,
        why: String,
    },
}

impl Refusal {
    fn other(span: Option<Span>, why: impl Into<String>) -> Refusal {
        Refusal::Other { span, why: why.into() }
    }
}

/// The launch that is to be cut.
pub(super) struct Cutter<'a> {
    module: &'a Module,
    given: &'a Given,
    found: &'a Footprint,
    known: Vec<(Linear, i128)>,
    launch: &'a Numbers<'a>,
    left: usize,
}

/// Cuts a launch: `arrays` are cut already; the launch makes the arrays `made`, which are cut as they are written.
pub(super) fn parted(
    module: &Module,
    given: &Given,
    found: &Footprint,
    launch: &Numbers<'_>,
    arrays: &[CutArray],
    made: &[u32],
) -> Result<Parted, Refusal> {
    let known = known(given, launch);
    let mut cutter = Cutter { module, given, found, known, launch, left: MAX_QUESTIONS };
    cutter.whole_arrays(arrays, made)?;
    let mut first = None;
    for (coordinate, var) in cutter.candidates(arrays, made) {
        match cutter.along(coordinate, var, arrays, made) {
            Ok(parted) => return Ok(parted),
            Err(refusal) => _ = first.get_or_insert(refusal),
        }
    }
    Err(first.unwrap_or_else(|| {
        let name = arrays.first().map_or(String::new(), |array| cutter.name(array.param));
        let axis = arrays.first().map_or(0, |array| array.axis);
        Refusal::other(None, format!("no coordinate of the launch runs along axis {axis} of `{name}`"))
    }))
}

impl Cutter<'_> {
    fn function(&self) -> &Function {
        &self.module.functions[self.module.kernel.body]
    }

    fn param(&self, memory: MemId) -> Option<(u32, Access)> {
        match self.function().memories[memory].space {
            Space::Global { param, access } => Some((param, access)),
            _ => None,
        }
    }

    fn name(&self, param: u32) -> String {
        match self.module.kernel.params.get(param as usize) {
            Some(KernelParam::Array { name, .. } | KernelParam::Value { name, .. }) => name.clone(),
            None => String::new(),
        }
    }

    /// Refuses writes to arrays that are not cut, and updates whose order matters.
    fn whole_arrays(&self, arrays: &[CutArray], made: &[u32]) -> Result<(), Refusal> {
        for touch in &self.found.accesses {
            let Some((param, _)) = self.param(touch.memory).filter(|_| touch.deed != Deed::Reads) else { continue };
            if !arrays.iter().any(|array| array.param == param) && !made.contains(&param) {
                return Err(Refusal::Unsharded { span: touch.span, name: self.name(param) });
            }
            if let Deed::Updates(update) = touch.deed
                && !update.commutes(update)
            {
                let why = format!("the order of updates of `{}` matters", self.name(param));
                return Err(Refusal::other(Some(touch.span), why));
            }
        }
        Ok(())
    }

    /// Returns the coordinates that an index along a cut axis depends on: of writes first, then of reads, then of writes to arrays that
    /// the launch makes, along an axis that is as long.
    fn candidates(&self, arrays: &[CutArray], made: &[u32]) -> Vec<(Coordinate, Var)> {
        let len = arrays.first().and_then(|array| array.cuts.last()).map_or(0, |&len| len as i128);
        let indices = |touch: &'_ Touch, round: usize| -> Vec<Linear> {
            let Some((param, _)) = self.param(touch.memory) else { return vec![] };
            let writes = touch.deed != Deed::Reads;
            match arrays.iter().find(|array| array.param == param) {
                Some(array) if writes == (round == 0) && round < 2 => {
                    touch.indices.get(array.axis as usize).cloned().into_iter().collect()
                }
                None if round == 2 && writes && made.contains(&param) => {
                    let as_long = |axis: &usize| (self.launch.extent)(param, *axis as u8) == Some(len);
                    (0..touch.indices.len()).filter(as_long).map(|axis| touch.indices[axis].clone()).collect()
                }
                _ => vec![],
            }
        };
        let mut found: Vec<(Coordinate, Var)> = vec![];
        for round in 0..3 {
            for index in self.found.accesses.iter().flat_map(|touch| indices(touch, round)) {
                for (coordinate, var) in self.coordinates() {
                    if index.coefficient(var) != 0 && !found.iter().any(|(known, _)| *known == coordinate) {
                        found.push((coordinate, var));
                    }
                }
            }
        }
        found
    }

    fn coordinates(&self) -> Vec<(Coordinate, Var)> {
        let indices = self.given.indices.iter().enumerate().map(|(k, form)| (Coordinate::Index(k as u8), form));
        let blocks = self.given.grid.iter().flat_map(|grid| grid.at.iter().enumerate());
        let blocks = blocks.map(|(k, form)| (Coordinate::Block(k as u8), form));
        indices.chain(blocks).filter_map(|(coordinate, form)| Some((coordinate, single(form)?))).collect()
    }

    /// Returns how many values a coordinate has in the launch.
    fn count(&self, coordinate: Coordinate) -> u32 {
        match coordinate {
            Coordinate::Index(k) => self.launch.grid.get(k as usize).copied().unwrap_or(1),
            Coordinate::Block(k) => self.launch.grid.get(k as usize).copied().unwrap_or(1),
        }
    }

    /// Cuts along a coordinate.
    fn along(
        &mut self,
        coordinate: Coordinate,
        var: Var,
        arrays: &[CutArray],
        made: &[u32],
    ) -> Result<Parted, Refusal> {
        let mut all = arrays.to_vec();
        for &param in made {
            all.push(self.made(param, var, arrays)?);
        }
        let (ranges, by) = self.ranges(coordinate, var, &all)?;
        let mut halos = vec![];
        let mut asked: Vec<(&Touch, u32)> = vec![];
        let found = self.found;
        for touch in &found.accesses {
            let Some((param, _)) = self.param(touch.memory) else { continue };
            let Some(array) = all.iter().find(|array| array.param == param) else { continue };
            let axis = array.axis as usize;
            let Some(index) = touch.indices.get(axis) else { continue };
            let same = |(other, of): &&(&Touch, u32)| {
                *of == param
                    && other.indices.get(axis) == Some(index)
                    && other.path == touch.path
                    && (other.deed == Deed::Reads) == (touch.deed == Deed::Reads)
            };
            if asked.iter().any(|known| same(&known)) {
                continue;
            }
            asked.push((touch, param));
            for (part, range) in ranges.iter().enumerate() {
                if range.is_empty() || self.stays(touch, index, (var, range), &array.own(part)) {
                    continue;
                }
                let writes = touch.deed != Deed::Reads;
                if !writes && self.stays(touch, index, (var, range), &array.held(part, array.halo)) {
                    if !halos.contains(&param) {
                        halos.push(param);
                    }
                    continue;
                }
                let enough = if writes { None } else { self.enough(touch, index, var, array, &ranges) };
                let name = self.name(param);
                let (halo, unknowns) = (array.halo, self.unknowns(touch, index));
                let (span, axis) = (touch.span, array.axis);
                return Err(Refusal::Leaves { span, name, axis, writes, halo, enough, part, unknowns });
            }
        }
        let in_bounds = self.in_bounds(&all);
        let interior = self.interior(var, (&ranges, by), &all, &halos, &asked).unwrap_or_default();
        Ok(Parted { coordinate, ranges, arrays: all, halos, interior, in_bounds })
    }

    /// Returns the coordinates of each part that read no halo, if no array whose halo is read is written meanwhile.
    fn interior(
        &mut self,
        var: Var,
        (ranges, by): (&[Range<u32>], usize),
        all: &[CutArray],
        halos: &[u32],
        asked: &[(&Touch, u32)],
    ) -> Option<Vec<Range<u32>>> {
        let read: Vec<&CutArray> = all.iter().filter(|array| halos.contains(&array.param)).collect();
        let is_read = |array: &&CutArray| {
            self.module.kernel.params.get(array.param as usize).and_then(KernelParam::access) == Some(Access::In)
        };
        let edge = read.iter().map(|array| array.halo.div_ceil(by) as u32).max()?;
        if !read.iter().all(is_read) {
            return None;
        }
        let mut inside = vec![];
        for (part, range) in ranges.iter().enumerate() {
            let first = read.iter().all(|array| array.cuts[part] == 0);
            let last = read.iter().all(|array| Some(&array.cuts[part + 1]) == array.cuts.last());
            let start = range.start.saturating_add(if first { 0 } else { edge });
            let end = range.end.saturating_sub(if last { 0 } else { edge });
            let own = if start < end { start..end } else { range.start..range.start };
            for (touch, param) in asked {
                let Some(array) = read.iter().find(|array| array.param == *param) else { continue };
                let index = touch.indices.get(array.axis as usize)?;
                if !own.is_empty() && !self.stays(touch, index, (var, &own), &array.own(part)) {
                    return None;
                }
            }
            inside.push(own);
        }
        Some(inside)
    }

    /// Returns how an array that the launch makes is cut: along an axis whose index depends on the coordinate.
    fn made(&self, param: u32, var: Var, arrays: &[CutArray]) -> Result<CutArray, Refusal> {
        let lead = arrays.first().ok_or_else(|| Refusal::other(None, "no array is sharded"))?;
        let len = lead.cuts.last().map_or(0, |&len| len as i128);
        let mut span = None;
        for touch in &self.found.accesses {
            if self.param(touch.memory).map(|(param, _)| param) != Some(param) || touch.deed == Deed::Reads {
                continue;
            }
            span = Some(touch.span);
            for (axis, index) in touch.indices.iter().enumerate() {
                let extent = (self.launch.extent)(param, axis as u8);
                if index.coefficient(var) != 0 && extent == Some(len) {
                    return Ok(CutArray { param, axis: axis as u8, ..lead.clone() });
                }
            }
        }
        let (name, lead) = (self.name(param), self.name(lead.param));
        Err(Refusal::other(span, format!("no axis of `{name}` can be cut where `{lead}` is")))
    }

    /// Returns the coordinates of each part: those that write its rows; and the rows of a coordinate.
    fn ranges(&self, coordinate: Coordinate, var: Var, all: &[CutArray]) -> Result<(Vec<Range<u32>>, usize), Refusal> {
        let count = i128::from(self.count(coordinate));
        let write = self.found.accesses.iter().find_map(|touch| {
            let (param, _) = self.param(touch.memory).filter(|_| touch.deed != Deed::Reads)?;
            let array = all.iter().find(|array| array.param == param)?;
            let index = touch.indices.get(array.axis as usize).filter(|index| index.coefficient(var) != 0)?;
            Some((touch, array, index))
        });
        let Some((touch, array, index)) = write else {
            return Err(Refusal::other(None, "nothing is written along the cut axis"));
        };
        let by = index.coefficient(var);
        if by < 0 {
            let name = self.name(array.param);
            return Err(Refusal::other(Some(touch.span), format!("`{name}` is written in reverse order")));
        }
        let value = |var: &Var| self.known.iter().find(|(form, _)| single(form) == Some(*var)).map(|(_, n)| *n);
        let terms = index.terms().iter().filter(|(term, _)| *term != var);
        let first = terms.filter_map(|(term, factor)| Some(value(term)? * factor)).sum::<i128>() + index.constant();
        let parts = array.cuts.len() - 1;
        let mut ranges = vec![];
        let mut start = 0;
        for part in 0..parts {
            let end = array.cuts[part + 1] as i128;
            let is_last =
                array.cuts[part + 1..].iter().all(|&cut| cut as i128 == end) && end == array.cuts[parts] as i128;
            let at = (end - first).div_euclid(by) + i128::from((end - first).rem_euclid(by) != 0);
            if !is_last && matches!(coordinate, Coordinate::Block(_)) && (end - first).rem_euclid(by) != 0 && at < count
            {
                let (name, granule) = (self.name(array.param), by as usize);
                return Err(Refusal::Straddles { span: touch.span, name, granule, cut: end as usize });
            }
            let to = if is_last { count } else { at.clamp(start, count) };
            ranges.push(start as u32..to as u32);
            start = to;
        }
        Ok((ranges, by as usize))
    }

    /// Returns whether an index is in a range, for all threads whose coordinate is in another one.
    fn stays(&mut self, touch: &Touch, index: &Linear, (var, range): (Var, &Range<u32>), rows: &Range<i128>) -> bool {
        self.left = self.left.saturating_sub(1);
        if self.left == 0 {
            return false;
        }
        let mut builder = Builder::new(&self.found.variables, Common::default());
        builder.path(&touch.path, 0);
        let own = builder.form(&variable(var), 0);
        builder.fact(at_most(&number(i128::from(range.start)), &own));
        builder.fact(less(&own, &number(i128::from(range.end))));
        let index = builder.form(index, 0);
        builder.fact(or([less(&index, &number(rows.start)), at_most(&number(rows.end), &index)]));
        coordinates(self.given).for_each(|form| drop(builder.form(form, 0)));
        let question = at(&builder.question(String::new(), touch.span), &self.known);
        is_never(&question)
    }

    /// Returns the least halo that keeps a read in all parts.
    fn enough(
        &mut self,
        touch: &Touch,
        index: &Linear,
        var: Var,
        array: &CutArray,
        ranges: &[Range<u32>],
    ) -> Option<usize> {
        let mut does = |halo: usize| {
            let stay = |(part, range): (usize, &Range<u32>)| {
                range.is_empty() || self.stays(touch, index, (var, range), &array.held(part, halo))
            };
            ranges.iter().enumerate().all(stay)
        };
        // As large as the smallest part: beyond that, each part would have all of another one.
        let most = array.cuts.windows(2).map(|pair| pair[1] - pair[0]).filter(|&len| len > 0).min()?;
        let mut high = (2 * array.halo).max(1);
        while high < most && !does(high) {
            high *= 2;
        }
        let mut high = high.min(most);
        if !does(high) {
            return None;
        }
        let mut low = array.halo;
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if does(middle) { high = middle } else { low = middle }
        }
        Some(high)
    }

    /// Returns the unknown values that an access depends on.
    fn unknowns(&self, touch: &Touch, index: &Linear) -> Vec<(&'static str, Span)> {
        let mut builder = Builder::new(&self.found.variables, Common::default());
        builder.form(index, 0);
        builder.question(String::new(), touch.span).unknowns
    }

    /// Returns whether all accesses are in bounds: along cut axes that has been shown.
    fn in_bounds(&mut self, all: &[CutArray]) -> bool {
        let found = self.found;
        found.accesses.iter().all(|touch| {
            let cut = self.param(touch.memory).and_then(|(param, _)| all.iter().find(|array| array.param == param));
            let cut = cut.map(|array| array.axis as usize);
            (0..touch.indices.len().min(touch.extents.len())).filter(|axis| Some(*axis) != cut).all(|axis| {
                self.left = self.left.saturating_sub(1);
                let outside = claim::outside(self.function(), self.given, found, touch, axis);
                self.left > 0 && outside.is_none_or(|question| is_never(&at(&question, &self.known)))
            })
        })
    }
}

fn is_never(question: &Question) -> bool {
    matches!(question.answer(&WORK), Answer::Never(..))
}
