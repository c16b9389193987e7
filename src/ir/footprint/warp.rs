//! What the accesses of warps cost at most, for all sizes of launches.
//!
//! Input: a footprint. Output: for an access to a shared or global array, the most passes or sectors that one warp takes ([`warps`]). The
//! coordinates of the 32 lanes are put into the access's indices. What remains in an address is the same for all lanes, so that their
//! distances are numbers; of the first address its divisors count, and each position that they leave open. Lanes with different remains
//! count as if they were far apart. The lanes that make an access together are in the same iterations of the loops around it. A loop that
//! they have left may have ended for each in another iteration ([`Common`]).

use rustc_hash::FxHashMap;

use super::def::*;
use super::form::*;
use super::space::{Definition, Role, Space as Variables};
use crate::base::linear::{Atom, Formula, Linear, Var};
use crate::ir::def::*;
use crate::ir::warps::{self, LANES, SECTOR, Spot};

/// Warps of a block, at most.
const MAX_WARPS: i128 = 32;
/// The depth of factors of products whose divisors are looked at.
const DEEPEST_FACTOR: u32 = 4;
/// Bytes after which banks come again.
const ROUND: i128 = 128;

/// What an access costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cost {
    Passes,
    Sectors,
}

impl Cost {
    /// Returns what costs an access to such memory; `None` where that depends on no other lane.
    pub fn of(space: Space) -> Option<Cost> {
        match space {
            Space::Shared => Some(Cost::Passes),
            Space::Global { .. } => Some(Cost::Sectors),
            Space::Local | Space::Constant | Space::Param { .. } => None,
        }
    }
}

/// The coordinates of a lane, by the variables that differ among lanes.
type Lane = FxHashMap<Var, Linear>;

/// The warps of a launch in symbols.
pub struct Warps {
    space: Variables,
    /// Each stands for all warps that differ in no more than variables.
    warps: Vec<Vec<Lane>>,
    /// See [`Footprint::together`].
    together: FxHashMap<Var, Vec<Var>>,
}

/// The counters of loops that are the same for all lanes that make an access together.
struct Common<'a> {
    /// Those of the loops around the access.
    around: &'a [Var],
    together: &'a FxHashMap<Var, Vec<Var>>,
}

impl Common<'_> {
    fn has(&self, counter: Var) -> bool {
        let is_uniform = |outer: &Vec<Var>| outer.iter().all(|&counter| self.has(counter));
        self.around.contains(&counter) || self.together.get(&counter).is_some_and(is_uniform)
    }
}

/// Why nothing is known of a cost.
pub(crate) type Why = &'static str;

const OPEN: Why = "the index of a lane is no linear form of its number";

impl Warps {
    /// Returns the warps of a kernel; an error if which threads form one is not known.
    pub fn of(module: &Module, given: &Given, found: &Footprint) -> Result<Warps, Why> {
        let mut space = found.variables.clone();
        let warps = match &given.grid {
            Some(grid) => blocks(&mut space, grid)?,
            None => vec![tile(&mut space, &given.indices, warps::tile(module))],
        };
        Ok(Warps { space, warps, together: found.together.clone() })
    }

    /// Returns what an access costs at most.
    pub fn cost(&mut self, function: &Function, touch: &Touch, cost: Cost) -> Result<u32, Why> {
        let memory = &function.memories[touch.memory];
        let leaf = memory.layout.leaves.get(touch.leaf as usize).ok_or(OPEN)?;
        let atomic = matches!(touch.deed, Deed::Updates(_));
        let mut worst = 0;
        for number in 0..self.warps.len() {
            let lanes = std::mem::take(&mut self.warps[number]);
            let spots = self.spots(&lanes, touch, memory.layout.size as i128);
            self.warps[number] = lanes;
            let spots = spots?;
            for (begin, size) in warps::pieces(leaf.ty, touch.component) {
                let begin = begin + leaf.offset as i128;
                let most = match cost {
                    Cost::Passes => self.passes(&spots, begin, size, atomic),
                    Cost::Sectors => self.sectors(&spots, begin, size),
                };
                worst = worst.max(most);
            }
        }
        Ok(worst)
    }

    /// Returns the offset of each lane's element in bytes, where the lane may make the access.
    fn spots(&mut self, lanes: &[Lane], touch: &Touch, size: i128) -> Result<Vec<(usize, Linear)>, Why> {
        let mut all = vec![];
        for (number, lane) in lanes.iter().enumerate() {
            let common = Common { around: &touch.counters, together: &self.together };
            let mut at = At { space: &mut self.space, lane, common, known: FxHashMap::default() };
            if touch.path.iter().any(|condition| at.fails(condition)) {
                continue;
            }
            let mut flat = number_of(0);
            for (index, extent) in touch.indices.iter().zip(&touch.extents) {
                let (index, extent) = (at.form(index)?, at.form(extent)?);
                flat = at.space.product(&flat, &extent).plus(&index);
            }
            let spread = at.space.product(&flat, &number_of(size));
            if !is_tame(&spread) {
                return Err(OPEN);
            }
            all.push((number, spread));
        }
        Ok(all)
    }

    fn passes(&self, spots: &[(usize, Linear)], begin: i128, size: i128, atomic: bool) -> u32 {
        // Origins that are as far apart as whole rounds of all banks have distances between banks.
        let mut rounds: Vec<(Vec<(Var, i128)>, i128, Vec<Spot>)> = vec![];
        for spot in placed(spots, begin) {
            let form = &spots[spot.origin as usize].1;
            let reduced: Vec<(Var, i128)> =
                form.terms().iter().map(|&(var, by)| (var, by.rem_euclid(ROUND))).filter(|(_, by)| *by != 0).collect();
            match rounds.iter_mut().find(|(terms, ..)| *terms == reduced) {
                Some((_, _, all)) => all.push(spot),
                None => rounds.push((reduced, self.divisor(form, 4), vec![spot])),
            }
        }
        let of = |(_, step, spots): &(Vec<(Var, i128)>, i128, Vec<Spot>)| {
            let shifts = (0..4).step_by(*step as usize);
            shifts.map(|shift| warps::passes(&shifted(spots, shift), size, atomic).0).max().unwrap_or(0)
        };
        rounds.iter().map(of).sum::<u32>().min(LANES as u32)
    }

    fn sectors(&self, spots: &[(usize, Linear)], begin: i128, size: i128) -> u32 {
        let placed = placed(spots, begin);
        let mut origins: Vec<u32> = placed.iter().map(|spot| spot.origin).collect();
        origins.sort_unstable();
        origins.dedup();
        let of = |origin: u32| {
            let own: Vec<Spot> = placed.iter().copied().filter(|spot| spot.origin == origin).collect();
            let step = self.divisor(&spots[origin as usize].1, SECTOR);
            let shifts = (0..SECTOR).step_by(step as usize);
            shifts.map(|shift| warps::sectors(&shifted(&own, shift), size)).max().unwrap_or(0)
        };
        origins.into_iter().map(of).sum()
    }

    /// Returns the largest common divisor of a number and of all that a form may be, its constant aside.
    fn divisor(&self, form: &Linear, of: i128) -> i128 {
        form.terms()
            .iter()
            .fold(of, |all, &(var, by)| divisor(all, by.saturating_mul(self.divides(var, DEEPEST_FACTOR))))
    }

    /// Returns a number that divides a variable; of products of products, factors up to some depth are looked at.
    fn divides(&self, var: Var, depth: u32) -> i128 {
        let known = |form: &Linear| {
            let (own, rest): (Vec<_>, Vec<_>) = form.terms().iter().partition(|(other, _)| *other == var);
            let all = rest.iter().fold(form.constant(), |all, &&(_, by)| divisor(all, by));
            if matches!(own[..], [(_, 1 | -1)]) { all } else { 1 }
        };
        let mut by = match self.space.products.get(&var) {
            Some(times) if depth > 0 => {
                self.divides(times.left, depth - 1).saturating_mul(self.divides(times.right, depth - 1))
            }
            _ => 1,
        };
        for fact in &self.space.get(var).facts {
            if let Formula::Atom(Atom::Zero(form)) = fact {
                by = by.max(known(form));
            }
        }
        by.clamp(1, 1 << 20)
    }
}

/// Returns the lanes with their distances from the first one of the same origin, whose number stands for it.
fn placed(spots: &[(usize, Linear)], begin: i128) -> Vec<Spot> {
    let first = |form: &Linear| spots.iter().position(|(_, other)| other.terms() == form.terms()).unwrap_or(0) as u32;
    spots.iter().map(|(lane, form)| Spot { lane: *lane, origin: first(form), at: form.constant() + begin }).collect()
}

fn shifted(spots: &[Spot], by: i128) -> Vec<Spot> {
    spots.iter().map(|spot| Spot { at: spot.at + by, ..*spot }).collect()
}

fn divisor(a: i128, b: i128) -> i128 {
    let (mut a, mut b) = (a.abs(), b.abs());
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// Returns the lanes of any warp of a `threads` kernel: a tile of indices along the last axis and the one before.
fn tile(space: &mut Variables, indices: &[Linear], tile: [u32; 2]) -> Vec<Lane> {
    let mut lanes = vec![Lane::default(); LANES];
    let mut inside = [true; LANES];
    let mut below = 1;
    for (index, extent) in indices.iter().rev().zip(tile) {
        let place = |lane: usize| i128::from(lane as u32 / below % extent);
        match single(index) {
            Some(var) if extent > 1 => {
                let (name, high) =
                    (format!("warp of {}", space.get(var).name), space.get(var).high / i128::from(extent));
                let warp = variable(space.fresh(name, Role::Block, 0, high)).times(extent.into());
                let at = |(number, lane): (usize, &mut Lane)| lane.insert(var, warp.plus(&number_of(place(number))));
                lanes.iter_mut().enumerate().for_each(|lane| drop(at(lane)));
            }
            Some(_) => {}
            None => inside.iter_mut().enumerate().for_each(|(lane, inside)| *inside &= place(lane) == 0),
        }
        below *= extent;
    }
    let mut inside = inside.into_iter();
    lanes.retain(|_| inside.next() == Some(true));
    lanes
}

fn number_of(n: i128) -> Linear {
    super::form::number(n)
}

/// Returns the lanes of the warps of a block.
fn blocks(space: &mut Variables, grid: &Grid) -> Result<Vec<Vec<Lane>>, Why> {
    let [x, y, z] = &grid.thread;
    let extents = [0, 1, 2].map(|k| constant(&grid.block[k]));
    let lanes = |at: &dyn Fn(i128) -> Lane| (0..LANES as i128).map(at).collect::<Vec<Lane>>();
    match extents {
        [Some(a), Some(b), Some(c)] => {
            let threads = a.saturating_mul(b).saturating_mul(c);
            if !(1..=MAX_WARPS * LANES as i128).contains(&threads) {
                return Err("a block of this size is not launched");
            }
            let at = |flat: i128| {
                let place = [(x, flat % a), (y, flat / a % b), (z, flat / a / b)];
                place.into_iter().filter_map(|(form, at)| Some((single(form)?, number_of(at)))).collect()
            };
            let all: Vec<Lane> = (0..threads).map(at).collect();
            Ok(all.chunks(LANES).map(<[Lane]>::to_vec).collect())
        }
        [Some(a), ..] if a % LANES as i128 == 0 && a > 0 => {
            let Some(var) = single(x) else { return Err("the extents of a block are not known") };
            let warp = |number: i128| lanes(&|lane| Lane::from_iter([(var, number_of(number * LANES as i128 + lane))]));
            Ok((0..(a / LANES as i128).min(MAX_WARPS)).map(warp).collect())
        }
        [_, Some(1), Some(1)] => {
            let Some(var) = single(x) else { return Err("the extents of a block are not known") };
            let warp = variable(space.fresh("warp_idx", Role::Block, 0, MAX_WARPS - 1)).times(LANES as i128);
            Ok(vec![lanes(&|lane| Lane::from_iter([(var, warp.plus(&number_of(lane)))]))])
        }
        _ => Err("the extents of a block are not known"),
    }
}

/// Evaluation for a lane.
struct At<'a> {
    space: &'a mut Variables,
    lane: &'a Lane,
    common: Common<'a>,
    known: FxHashMap<Var, Result<Linear, Why>>,
}

impl At<'_> {
    /// Returns whether a condition is known to fail.
    fn fails(&mut self, condition: &Formula) -> bool {
        let mut open = false;
        let here = renamed(condition, &mut |var| {
            self.value(var).unwrap_or_else(|_| {
                open = true;
                variable(var)
            })
        });
        !open && is_never(&self.space.settled(here))
    }

    fn form(&mut self, form: &Linear) -> Result<Linear, Why> {
        let mut sum = number_of(form.constant());
        for &(var, by) in form.terms() {
            sum = sum.plus(&self.value(var)?.times(by));
            if !is_tame(&sum) {
                return Err(OPEN);
            }
        }
        Ok(sum)
    }

    fn value(&mut self, var: Var) -> Result<Linear, Why> {
        if let Some(known) = self.lane.get(&var) {
            return Ok(known.clone());
        }
        if !self.varies(var) {
            return Ok(variable(var));
        }
        if let Some(known) = self.known.get(&var) {
            return known.clone();
        }
        let value = self.defined(var);
        self.known.insert(var, value.clone());
        value
    }

    /// Returns whether a variable may differ among the lanes of a warp.
    fn varies(&self, var: Var) -> bool {
        !self.space.is_uniform(var, &|var, role| match role {
            Role::Counter => self.common.has(var),
            Role::Thread => !self.lane.contains_key(&var),
            Role::Launch | Role::Block | Role::Derived(_) => true,
            Role::Unknown(..) => false,
        })
    }

    /// Returns the value of a variable that is computed from others.
    fn defined(&mut self, var: Var) -> Result<Linear, Why> {
        match self.space.get(var).role {
            Role::Unknown(why, _) => return Err(why),
            Role::Counter => return Err("an index depends on when a lane left a loop"),
            _ => {}
        }
        if let Some(Definition::Table(values, index)) = self.space.defined.get(&var).cloned() {
            let at = constant(&self.form(&index)?).and_then(|at| usize::try_from(at).ok());
            return at.and_then(|at| values.get(at)).map(|&value| number_of(value)).ok_or(OPEN);
        }
        if self.space.elements.contains_key(&var) {
            return Err("an index is read from memory");
        }
        if let Some(times) = self.space.products.get(&var).copied() {
            let (left, right) = (self.value(times.left)?, self.value(times.right)?);
            return Ok(self.space.product(&left, &right));
        }
        match self.space.defined.get(&var).cloned() {
            Some(Definition::Quotient(a, b, floor)) => {
                let (a, b) = (self.form(&a)?, self.form(&b)?);
                self.quotient(&a, &b, floor)
            }
            Some(Definition::Part(form)) => self.form(&form),
            Some(Definition::Bits(op, a, b)) => match (constant(&self.form(&a)?), constant(&self.form(&b)?), op) {
                (Some(a), Some(b), BinOp::And) => Ok(number_of(a & b)),
                (Some(a), Some(b), BinOp::Or) => Ok(number_of(a | b)),
                (Some(a), Some(b), BinOp::Xor) => Ok(number_of(a ^ b)),
                _ => Err(OPEN),
            },
            Some(Definition::Choice(cases)) => {
                let left: Vec<&(Formula, Linear)> = cases.iter().filter(|(when, _)| !self.fails(when)).collect();
                match &left[..] {
                    [(_, value)] => self.form(value),
                    _ => Err("an index depends on a condition"),
                }
            }
            Some(Definition::Table(..)) | None => Err(OPEN),
        }
    }

    /// Divides: exactly, as far as the divisor divides what is the same for all lanes.
    fn quotient(&mut self, a: &Linear, b: &Linear, floor: bool) -> Result<Linear, Why> {
        let down = floor || self.space.bounds(a).0 >= 0;
        match constant(b) {
            Some(by) if by > 0 && down && a.terms().iter().all(|(_, factor)| factor % by == 0) => {
                let whole = a.terms().iter().map(|&(var, factor)| variable(var).times(factor / by));
                Ok(whole.fold(number_of(a.constant().div_euclid(by)), |sum, term| sum.plus(&term)))
            }
            Some(by) if by > 0 && a.terms().is_empty() => Ok(self.space.quotient(a, b, floor)),
            _ => Err("lanes divide by what is not known, or what it does not divide"),
        }
    }
}
