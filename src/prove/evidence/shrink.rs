//! Shrinking: finds a small launch that still has a race.
//!
//! Input: the sizes of a launch that has the race. Output: the smallest sizes found, with the choice of array contents.
//! First, all sizes are limited by the same number; then each size and each group of equal sizes is reduced, as long as
//! runs still report a race between the same two lines.

use super::replay_case::{Contents, LaunchSize, RaceIdentity, ReplayBudget, ReplayCase, thread_count};
use clk_runtime::Fault;

/// The limits that are tried for all sizes together, and the values that are tried for a single large size.
const SIZE_STEPS: [i128; 27] =
    [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 16, 17, 32, 33, 64, 65, 96, 128, 129, 192, 256, 257, 512, 513, 1024, 2048];
/// For a single size, all values up to this number are tried.
const MAX_EXHAUSTIVE: i128 = 20;

/// The maximum number of larger launches that are tried to find one for which the two orders have different results.
const MAX_LARGER_LAUNCHES: usize = 12;

/// A smaller launch that has the race, and the fault that its run reported.
pub(super) struct ShrunkRace {
    pub size: LaunchSize,
    pub contents: Contents,
    pub fault: Fault,
    /// Whether the launch completes without checks, so that the consequences of the race are visible in its results.
    pub ends_well: bool,
}

/// Identifies one of the sizes of a launch.
#[derive(Clone, Copy, Debug, PartialEq)]
enum SizeParameter {
    Dim(usize),
    /// The integer parameter at this position.
    Scalar(u32),
    /// An extent of the grid (0) or the block (1), along an axis.
    Geometry(usize, usize),
}

impl LaunchSize {
    fn parameters(&self) -> Vec<SizeParameter> {
        let geometry = self
            .geometry
            .iter()
            .flat_map(|_| (0..2).flat_map(|k| (0..3).map(move |axis| SizeParameter::Geometry(k, axis))));
        (0..self.sizes.dims.len())
            .map(SizeParameter::Dim)
            .chain(geometry)
            .chain(self.free.iter().copied().map(SizeParameter::Scalar))
            .collect()
    }

    fn get(&self, parameter: SizeParameter) -> i128 {
        match parameter {
            SizeParameter::Dim(i) => self.sizes.dims[i],
            SizeParameter::Scalar(position) => self.sizes.scalars.get(&position).copied().unwrap_or(0),
            SizeParameter::Geometry(k, axis) => self.geometry.map_or(1, |geometry| i128::from(geometry[k][axis])),
        }
    }

    fn set(&mut self, parameter: SizeParameter, to: i128) {
        match parameter {
            SizeParameter::Dim(i) => self.sizes.dims[i] = to,
            SizeParameter::Scalar(position) => {
                self.sizes.scalars.insert(position, to);
            }
            SizeParameter::Geometry(k, axis) => {
                if let Some(geometry) = &mut self.geometry {
                    geometry[k][axis] = to as u32;
                }
            }
        }
    }

    /// Returns these sizes, each limited to `most`. Integer parameters are limited only if `scalars` is set.
    fn clamped(&self, most: i128, scalars: bool) -> LaunchSize {
        let mut size = self.clone();
        for parameter in self.parameters() {
            if scalars || !matches!(parameter, SizeParameter::Scalar(_)) {
                size.set(parameter, self.get(parameter).min(most));
            }
        }
        size
    }
}

/// Returns the smallest launch with the race that was found; `None` if no launch within the limits has the race.
pub(super) fn find_smallest(
    case: &ReplayCase<'_>,
    race: &RaceIdentity,
    start: &LaunchSize,
    contents: &[Contents],
    budget: &mut ReplayBudget<'_>,
) -> Option<ShrunkRace> {
    let mut small = find_bounded(case, race, start, contents, budget)?;
    loop {
        let before = small.size.clone();
        for group in parameter_groups(&small.size) {
            lower_sizes(case, race, &group, &mut small, budget);
        }
        if small.size == before || budget.is_spent() {
            return Some(small);
        }
    }
}

/// Returns a launch with the race, for the lowest limit of all sizes for which there is one. Prefers launches without
/// other faults.
fn find_bounded(
    case: &ReplayCase<'_>,
    race: &RaceIdentity,
    start: &LaunchSize,
    contents: &[Contents],
    budget: &mut ReplayBudget<'_>,
) -> Option<ShrunkRace> {
    let mut tried: Vec<LaunchSize> = vec![];
    let mut faulty = None;
    for most in SIZE_STEPS {
        for scalars in [false, true] {
            let size = start.clamped(most, scalars);
            if tried.contains(&size) {
                continue;
            }
            for &contents in contents {
                if budget.is_spent() {
                    return faulty;
                }
                if let Some(fault) = case.reproduce_race(race, &size, contents, budget) {
                    let ends_well = case.ends_well(&size, contents, budget);
                    let small = ShrunkRace { size: size.clone(), contents, fault, ends_well };
                    if ends_well {
                        return Some(small);
                    }
                    faulty.get_or_insert(small);
                }
            }
            tried.push(size);
        }
    }
    faulty
}

/// Returns the groups of sizes that are reduced together: first groups of equal sizes, which may have to stay equal,
/// then each size by itself.
fn parameter_groups(size: &LaunchSize) -> Vec<Vec<SizeParameter>> {
    let parameters: Vec<SizeParameter> =
        size.parameters().into_iter().filter(|parameter| size.get(*parameter) > 1).collect();
    let mut all: Vec<Vec<SizeParameter>> = vec![];
    for &parameter in &parameters {
        let equal: Vec<SizeParameter> =
            parameters.iter().copied().filter(|other| size.get(*other) == size.get(parameter)).collect();
        if equal.len() > 1 && !all.contains(&equal) {
            all.push(equal);
        }
    }
    all.extend(parameters.into_iter().map(|parameter| vec![parameter]));
    all
}

/// Reduces sizes as long as the race remains.
fn lower_sizes(
    case: &ReplayCase<'_>,
    race: &RaceIdentity,
    group: &[SizeParameter],
    small: &mut ShrunkRace,
    budget: &mut ReplayBudget<'_>,
) {
    let Some(current) = group.first().map(|parameter| small.size.get(*parameter)) else { return };
    if group.iter().any(|parameter| small.size.get(*parameter) != current) {
        return;
    }
    let most = launch_measure(case, &small.size);
    let mut attempt = |to: i128, small: &mut ShrunkRace| {
        let mut size = small.size.clone();
        group.iter().for_each(|parameter| size.set(*parameter, to));
        if budget.is_spent() || launch_measure(case, &size) >= most {
            return false;
        }
        let Some(fault) = case.reproduce_race(race, &size, small.contents, budget) else { return false };
        if small.ends_well && !case.ends_well(&size, small.contents, budget) {
            return false;
        }
        *small = ShrunkRace { size, fault, ..*small };
        true
    };
    let candidates = (1..current.min(MAX_EXHAUSTIVE + 1))
        .chain(SIZE_STEPS.into_iter().filter(|step| *step > MAX_EXHAUSTIVE && *step < current));
    let (mut low, mut high) = (0, current);
    for to in candidates {
        if attempt(to, small) {
            high = to;
            break;
        }
        low = to;
    }
    while high - low > 1 {
        let middle = (low + high) / 2;
        if attempt(middle, small) { high = middle } else { low = middle }
    }
}

/// Returns a few launches larger than `small`, smallest first: the original sizes with various limits.
pub(super) fn larger_launches(case: &ReplayCase<'_>, start: &LaunchSize, small: &LaunchSize) -> Vec<LaunchSize> {
    let least = launch_measure(case, small);
    let mut all: Vec<LaunchSize> = vec![];
    for size in SIZE_STEPS.into_iter().map(|most| start.clamped(most, true)) {
        if !all.contains(&size) && launch_measure(case, &size) > least && case.shaped(&size).is_some() {
            all.push(size);
        }
    }
    all.truncate(MAX_LARGER_LAUNCHES);
    all
}

/// Returns the measure that is minimized, in lexicographic order: number of threads, number of array elements, sum of
/// the sizes.
fn launch_measure(case: &ReplayCase<'_>, size: &LaunchSize) -> (u64, u64, i128) {
    let Some(shaped) = case.shaped(size) else { return (u64::MAX, 0, 0) };
    let count = |shape: &Vec<u32>| shape.iter().fold(1u64, |all, &n| all.saturating_mul(u64::from(n)));
    let elements = shaped.shapes.iter().flatten().map(count).fold(0, u64::saturating_add);
    (
        thread_count(shaped.extents),
        elements,
        size.parameters().into_iter().map(|parameter| size.get(parameter).abs()).sum(),
    )
}
