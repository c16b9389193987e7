//! Upper bounds of the cost of warp-wide accesses, for all launch sizes.
//!
//! Input: a footprint. Output: the maximum number of shared-memory transactions or global-memory sectors of one warp at
//! an access ([`SymbolicWarps::cost`]). The coordinates of the 32 lanes are substituted into the index, which leaves a
//! common base address plus a constant for each lane. The cost is the maximum over all alignments of the base that its
//! known divisors allow. Lanes with different base addresses are assumed to share no transaction. Lanes that execute an
//! access together are in the same iterations of the enclosing loops, but may have exited previous loops in different
//! iterations ([`UniformCounters`]).

use rustc_hash::FxHashMap;

use super::def::*;
use super::formula::*;
use super::vars::{DerivedVar, VarRole, VarSpace as Variables};
use crate::def::*;
use crate::memory_transactions::{self, LANES, LaneAddress, SECTOR};
use clk_base::affine::gcd;
use clk_base::linear::{AffineForm, Atom, Formula, Var};

/// The maximum number of warps per block.
const MAX_WARPS: i128 = 32;
/// The maximum depth of nested products that are searched for divisors.
const MAX_FACTOR_DEPTH: u32 = 4;
/// Addresses that differ by a multiple of this number of bytes are in the same bank.
const BANK_PERIOD: i128 = 128;

/// The unit in which the cost of an access is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CostMeasure {
    SharedTransactions,
    Sectors,
}

impl CostMeasure {
    /// Returns the unit for this memory space; `None` if lanes do not share transactions there.
    pub fn for_space(space: MemorySpace) -> Option<CostMeasure> {
        match space {
            MemorySpace::Shared => Some(CostMeasure::SharedTransactions),
            MemorySpace::Global { .. } => Some(CostMeasure::Sectors),
            MemorySpace::Local | MemorySpace::Constant | MemorySpace::Param { .. } => None,
        }
    }
}

/// The coordinates of one lane: its value for each coordinate variable that differs between the lanes of a warp.
type LaneCoordinates = FxHashMap<Var, AffineForm>;

/// The warps of a symbolic launch.
pub struct SymbolicWarps {
    space: Variables,
    /// Representative warps, as lists of lanes. Each represents all warps that differ from it only in the values of
    /// variables that are equal for all lanes of a warp.
    warps: Vec<Vec<LaneCoordinates>>,
    /// See [`Footprint::convergent_loops`].
    convergent_loops: FxHashMap<Var, Vec<Var>>,
}

/// Determines which loop counters are equal for all lanes that execute an access together.
struct UniformCounters<'a> {
    /// The counters of the loops around the access.
    enclosing: &'a [Var],
    convergent_loops: &'a FxHashMap<Var, Vec<Var>>,
}

impl UniformCounters<'_> {
    fn is_uniform_counter(&self, counter: Var) -> bool {
        let is_uniform = |outer: &Vec<Var>| outer.iter().all(|&counter| self.is_uniform_counter(counter));
        self.enclosing.contains(&counter) || self.convergent_loops.get(&counter).is_some_and(is_uniform)
    }
}

/// The reason why a cost is unknown.
pub(crate) type UnknownCost = &'static str;

const NOT_LINEAR: UnknownCost = "the index is not a linear function of the lane";

impl SymbolicWarps {
    /// Returns the warps of a kernel, or the reason why it is unknown which threads form a warp.
    pub fn new(module: &Module, launch: &SymbolicLaunch, footprint: &Footprint) -> Result<SymbolicWarps, UnknownCost> {
        let mut space = footprint.variables.clone();
        let warps = match &launch.grid {
            Some(grid) => blocks(&mut space, grid)?,
            None => vec![tile(&mut space, &launch.indices, memory_transactions::warp_tile(module))],
        };
        Ok(SymbolicWarps { space, warps, convergent_loops: footprint.convergent_loops.clone() })
    }

    /// Returns an upper bound on the cost of an access, over all warps and launch sizes.
    pub fn cost(
        &mut self,
        function: &Function,
        access: &FootprintAccess,
        cost: CostMeasure,
    ) -> Result<u32, UnknownCost> {
        let memory = &function.memories[access.memory];
        let leaf = memory.layout.leaves.get(access.leaf as usize).ok_or(NOT_LINEAR)?;
        let atomic = matches!(access.kind, FootprintAccessKind::Atomic(_));
        let mut worst = 0;
        for number in 0..self.warps.len() {
            let lanes = std::mem::take(&mut self.warps[number]);
            let offsets = self.lane_offsets(&lanes, access, memory.layout.size as i128);
            self.warps[number] = lanes;
            let offsets = offsets?;
            for (begin, size) in memory_transactions::split_access(leaf.ty, access.component) {
                let begin = begin + leaf.offset as i128;
                let most = match cost {
                    CostMeasure::SharedTransactions => self.shared_transactions(&offsets, begin, size, atomic),
                    CostMeasure::Sectors => self.sectors(&offsets, begin, size),
                };
                worst = worst.max(most);
            }
        }
        Ok(worst)
    }

    /// Returns the byte offset of each lane's element, for the lanes that may execute the access.
    fn lane_offsets(
        &mut self,
        lanes: &[LaneCoordinates],
        access: &FootprintAccess,
        size: i128,
    ) -> Result<Vec<(usize, AffineForm)>, UnknownCost> {
        let mut all = vec![];
        for (number, lane) in lanes.iter().enumerate() {
            let common = UniformCounters { enclosing: &access.counters, convergent_loops: &self.convergent_loops };
            let mut at = LaneEvaluator { space: &mut self.space, lane, common, known: FxHashMap::default() };
            if access.path.iter().any(|condition| at.is_false(condition)) {
                continue;
            }
            let mut flat = AffineForm::from(0);
            for (index, extent) in access.indices.iter().zip(&access.extents) {
                let (index, extent) = (at.form(index)?, at.form(extent)?);
                flat = at.space.product(&flat, &extent).plus(&index);
            }
            let offset = at.space.product(&flat, &AffineForm::from(size));
            if !is_tame(&offset) {
                return Err(NOT_LINEAR);
            }
            all.push((number, offset));
        }
        Ok(all)
    }

    fn shared_transactions(&self, offsets: &[(usize, AffineForm)], begin: i128, size: i128, atomic: bool) -> u32 {
        // Base addresses that differ by multiples of [`BANK_PERIOD`] are treated as equal, because banks repeat with
        // this period.
        let mut rounds: Vec<(Vec<(Var, i128)>, i128, Vec<LaneAddress>)> = vec![];
        for address in lane_addresses(offsets, begin) {
            let form = &offsets[address.origin as usize].1;
            let reduced: Vec<(Var, i128)> = form
                .terms()
                .iter()
                .map(|&(var, by)| (var, by.rem_euclid(BANK_PERIOD)))
                .filter(|(_, by)| *by != 0)
                .collect();
            match rounds.iter_mut().find(|(terms, ..)| *terms == reduced) {
                Some((_, _, all)) => all.push(address),
                None => rounds.push((reduced, self.divisor(form, 4), vec![address])),
            }
        }
        let round_cost = |(_, step, offsets): &(Vec<(Var, i128)>, i128, Vec<LaneAddress>)| {
            let shifts = (0..4).step_by(*step as usize);
            shifts
                .map(|shift| memory_transactions::shared_transactions(&shifted(offsets, shift), size, atomic).0)
                .max()
                .unwrap_or(0)
        };
        rounds.iter().map(round_cost).sum::<u32>().min(LANES as u32)
    }

    fn sectors(&self, offsets: &[(usize, AffineForm)], begin: i128, size: i128) -> u32 {
        let lanes = lane_addresses(offsets, begin);
        let mut origins: Vec<u32> = lanes.iter().map(|address| address.origin).collect();
        origins.sort_unstable();
        origins.dedup();
        let origin_sectors = |origin: u32| {
            let same_origin: Vec<LaneAddress> =
                lanes.iter().copied().filter(|address| address.origin == origin).collect();
            let step = self.divisor(&offsets[origin as usize].1, SECTOR);
            let shifts = (0..SECTOR).step_by(step as usize);
            shifts
                .map(|shift| memory_transactions::sector_count(&shifted(&same_origin, shift), size))
                .max()
                .unwrap_or(0)
        };
        origins.into_iter().map(origin_sectors).sum()
    }

    /// Returns a common divisor of `of` and of all values that the affine form can have, ignoring its constant.
    fn divisor(&self, form: &AffineForm, of: i128) -> i128 {
        form.terms()
            .iter()
            .fold(of, |all, &(var, by)| gcd(all, by.saturating_mul(self.known_divisor(var, MAX_FACTOR_DEPTH))))
    }

    /// Returns a known divisor of all values of a variable. Factors of nested products are considered up to `depth`.
    fn known_divisor(&self, var: Var, depth: u32) -> i128 {
        let divisor_from = |form: &AffineForm| {
            let (own, rest): (Vec<_>, Vec<_>) = form.terms().iter().partition(|(other, _)| *other == var);
            let all = rest.iter().fold(form.constant(), |all, &&(_, by)| gcd(all, by));
            if matches!(own[..], [(_, 1 | -1)]) { all } else { 1 }
        };
        let mut by = match self.space.products.get(&var) {
            Some(times) if depth > 0 => {
                self.known_divisor(times.left, depth - 1).saturating_mul(self.known_divisor(times.right, depth - 1))
            }
            _ => 1,
        };
        for fact in &self.space.get(var).facts {
            if let Formula::Atom(Atom::Zero(form)) = fact {
                by = by.max(divisor_from(form));
            }
        }
        by.clamp(1, 1 << 20)
    }
}

/// Returns the address of each lane. `origin` is the position in `offsets` of the first lane with the same base
/// address.
fn lane_addresses(offsets: &[(usize, AffineForm)], begin: i128) -> Vec<LaneAddress> {
    let first =
        |form: &AffineForm| offsets.iter().position(|(_, other)| other.terms() == form.terms()).unwrap_or(0) as u32;
    offsets
        .iter()
        .map(|(lane, form)| LaneAddress { lane: *lane, origin: first(form), at: form.constant() + begin })
        .collect()
}

fn shifted(offsets: &[LaneAddress], by: i128) -> Vec<LaneAddress> {
    offsets.iter().map(|address| LaneAddress { at: address.at + by, ..*address }).collect()
}

/// Returns the lanes of an arbitrary warp of a `threads` kernel: a tile of indices along the last two axes.
fn tile(space: &mut Variables, indices: &[AffineForm], tile: [u32; 2]) -> Vec<LaneCoordinates> {
    let mut lanes = vec![LaneCoordinates::default(); LANES];
    let mut is_inside = [true; LANES];
    let mut stride = 1;
    for (index, extent) in indices.iter().rev().zip(tile) {
        let place = |lane: usize| i128::from(lane as u32 / stride % extent);
        match single(index) {
            Some(var) if extent > 1 => {
                let (name, high) =
                    (format!("warp of {}", space.get(var).name), space.get(var).high / i128::from(extent));
                let warp = variable(space.fresh(name, VarRole::Block, 0, high)).times(extent.into());
                let set_coordinate = |(number, lane): (usize, &mut LaneCoordinates)| {
                    lane.insert(var, warp.plus(&AffineForm::from(place(number))))
                };
                lanes.iter_mut().enumerate().for_each(|lane| drop(set_coordinate(lane)));
            }
            Some(_) => {}
            None => is_inside.iter_mut().enumerate().for_each(|(lane, is_inside)| *is_inside &= place(lane) == 0),
        }
        stride *= extent;
    }
    let mut is_inside = is_inside.into_iter();
    lanes.retain(|_| is_inside.next() == Some(true));
    lanes
}

/// Returns the lanes of each warp of a block.
fn blocks(space: &mut Variables, grid: &SymbolicGrid) -> Result<Vec<Vec<LaneCoordinates>>, UnknownCost> {
    let [x, y, z] = &grid.thread;
    let extents = [0, 1, 2].map(|k| constant(&grid.block[k]));
    let lanes = |at: &dyn Fn(i128) -> LaneCoordinates| (0..LANES as i128).map(at).collect::<Vec<LaneCoordinates>>();
    match extents {
        [Some(a), Some(b), Some(c)] => {
            let threads = a.saturating_mul(b).saturating_mul(c);
            if !(1..=MAX_WARPS * LANES as i128).contains(&threads) {
                return Err("a block of this size is not launched");
            }
            let at = |flat: i128| {
                let place = [(x, flat % a), (y, flat / a % b), (z, flat / a / b)];
                place.into_iter().filter_map(|(form, at)| Some((single(form)?, AffineForm::from(at)))).collect()
            };
            let all: Vec<LaneCoordinates> = (0..threads).map(at).collect();
            Ok(all.chunks(LANES).map(<[LaneCoordinates]>::to_vec).collect())
        }
        [Some(a), ..] if a % LANES as i128 == 0 && a > 0 => {
            let Some(var) = single(x) else { return Err("the extents of a block are not known") };
            let warp = |number: i128| {
                lanes(&|lane| LaneCoordinates::from_iter([(var, AffineForm::from(number * LANES as i128 + lane))]))
            };
            Ok((0..(a / LANES as i128).min(MAX_WARPS)).map(warp).collect())
        }
        [_, Some(1), Some(1)] => {
            let Some(var) = single(x) else { return Err("the extents of a block are not known") };
            let warp = variable(space.fresh("warp_idx", VarRole::Block, 0, MAX_WARPS - 1)).times(LANES as i128);
            Ok(vec![lanes(&|lane| LaneCoordinates::from_iter([(var, warp.plus(&AffineForm::from(lane)))]))])
        }
        _ => Err("the extents of a block are not known"),
    }
}

/// Evaluates affine forms for one lane.
struct LaneEvaluator<'a> {
    space: &'a mut Variables,
    lane: &'a LaneCoordinates,
    common: UniformCounters<'a>,
    known: FxHashMap<Var, Result<AffineForm, UnknownCost>>,
}

impl LaneEvaluator<'_> {
    /// Returns whether a condition is known to be false for this lane.
    fn is_false(&mut self, condition: &Formula) -> bool {
        let mut open = false;
        let condition_of_lane = substitute_in_formula(condition, &mut |var| {
            self.value(var).unwrap_or_else(|_| {
                open = true;
                variable(var)
            })
        });
        !open && is_never(&self.space.simplify_by_bounds(condition_of_lane))
    }

    fn form(&mut self, form: &AffineForm) -> Result<AffineForm, UnknownCost> {
        let mut sum = AffineForm::from(form.constant());
        for &(var, by) in form.terms() {
            sum = sum.plus(&self.value(var)?.times(by));
            if !is_tame(&sum) {
                return Err(NOT_LINEAR);
            }
        }
        Ok(sum)
    }

    fn value(&mut self, var: Var) -> Result<AffineForm, UnknownCost> {
        if let Some(known) = self.lane.get(&var) {
            return Ok(known.clone());
        }
        if !self.varies(var) {
            return Ok(variable(var));
        }
        if let Some(known) = self.known.get(&var) {
            return known.clone();
        }
        let value = self.eval_derived(var);
        self.known.insert(var, value.clone());
        value
    }

    /// Returns whether a variable may differ among the lanes of a warp.
    fn varies(&self, var: Var) -> bool {
        !self.space.is_uniform(var, &|var, role| match role {
            VarRole::Counter => self.common.is_uniform_counter(var),
            VarRole::Thread => !self.lane.contains_key(&var),
            VarRole::Launch | VarRole::Block | VarRole::Derived(_) => true,
            VarRole::Unknown(..) => false,
        })
    }

    /// Evaluates a derived variable for this lane by its definition. Returns the reason if its value is unknown or not
    /// linear.
    fn eval_derived(&mut self, var: Var) -> Result<AffineForm, UnknownCost> {
        match self.space.get(var).role {
            VarRole::Unknown(why, _) => return Err(why),
            VarRole::Counter => return Err("an index depends on when a lane left a loop"),
            _ => {}
        }
        if let Some(DerivedVar::Table(values, index)) = self.space.definitions.get(&var).cloned() {
            let at = constant(&self.form(&index)?).and_then(|at| usize::try_from(at).ok());
            return at.and_then(|at| values.get(at)).map(|&value| AffineForm::from(value)).ok_or(NOT_LINEAR);
        }
        if self.space.elements.contains_key(&var) {
            return Err("an index is read from memory");
        }
        if let Some(times) = self.space.products.get(&var).copied() {
            let (left, right) = (self.value(times.left)?, self.value(times.right)?);
            return Ok(self.space.product(&left, &right));
        }
        match self.space.definitions.get(&var).cloned() {
            Some(DerivedVar::Quotient(a, b, floor)) => {
                let (a, b) = (self.form(&a)?, self.form(&b)?);
                self.quotient(&a, &b, floor)
            }
            Some(DerivedVar::Form(form)) => self.form(&form),
            Some(DerivedVar::Bits(op, a, b)) => match (constant(&self.form(&a)?), constant(&self.form(&b)?), op) {
                (Some(a), Some(b), BinOp::And) => Ok(AffineForm::from(a & b)),
                (Some(a), Some(b), BinOp::Or) => Ok(AffineForm::from(a | b)),
                (Some(a), Some(b), BinOp::Xor) => Ok(AffineForm::from(a ^ b)),
                _ => Err(NOT_LINEAR),
            },
            Some(DerivedVar::Choice(cases)) => {
                let left: Vec<&(Formula, AffineForm)> =
                    cases.iter().filter(|(condition, _)| !self.is_false(condition)).collect();
                match &left[..] {
                    [(_, value)] => self.form(value),
                    _ => Err("an index depends on a condition"),
                }
            }
            Some(DerivedVar::Table(..)) | None => Err(NOT_LINEAR),
        }
    }

    /// Returns the quotient as an affine form. This is possible if the divisor divides the coefficients of all
    /// variables. The constant, which differs between lanes, need not be divisible.
    fn quotient(&mut self, a: &AffineForm, b: &AffineForm, floor: bool) -> Result<AffineForm, UnknownCost> {
        let down = floor || self.space.bounds(a).0 >= 0;
        let quotient = match constant(b).filter(|&by| by > 0) {
            Some(_) if a.terms().is_empty() => Some(self.space.quotient(a, b, floor)),
            Some(by) if down => a.divide_floor(by),
            _ => None,
        };
        quotient.ok_or("a division by an unknown number, or with a remainder that differs between lanes")
    }
}
