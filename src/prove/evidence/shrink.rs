//! Finds a small launch that still has a race.
//!
//! Input: the sizes of a launch that has it. Output: the smallest sizes found, with the contents of the arrays. All sizes are first made
//! small together; then one after the other, and groups of equal ones, as long as runs still report a race of the same two lines.

use super::case::{Budget, Case, Contents, Size, Which, threads};
use crate::device::Fault;

/// Sizes that are tried for all dimensions at once, and for one that is not small.
const STEPS: [i128; 27] =
    [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 16, 17, 32, 33, 64, 65, 96, 128, 129, 192, 256, 257, 512, 513, 1024, 2048];
/// A size is looked for among all numbers up to this one.
const SMALL: i128 = 20;

/// How many launches that are larger than the smallest are tried for one whose orders differ.
const LARGER: usize = 12;

/// A launch that has the race, and what its run reported.
pub(super) struct Small {
    pub size: Size,
    pub contents: Contents,
    pub fault: Fault,
    /// It has no other fault: what the race leads to can be seen.
    pub ends_well: bool,
}

/// A size of a launch.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Knob {
    Dim(usize),
    /// The integer parameter at this position.
    Scalar(u32),
    /// Grid or block, and an axis.
    Geometry(usize, usize),
}

impl Size {
    fn knobs(&self) -> Vec<Knob> {
        let geometry =
            self.geometry.iter().flat_map(|_| (0..2).flat_map(|k| (0..3).map(move |axis| Knob::Geometry(k, axis))));
        (0..self.what.dims.len())
            .map(Knob::Dim)
            .chain(geometry)
            .chain(self.free.iter().copied().map(Knob::Scalar))
            .collect()
    }

    fn get(&self, knob: Knob) -> i128 {
        match knob {
            Knob::Dim(i) => self.what.dims[i],
            Knob::Scalar(position) => self.what.scalars.get(&position).copied().unwrap_or(0),
            Knob::Geometry(k, axis) => self.geometry.map_or(1, |geometry| i128::from(geometry[k][axis])),
        }
    }

    fn set(&mut self, knob: Knob, to: i128) {
        match knob {
            Knob::Dim(i) => self.what.dims[i] = to,
            Knob::Scalar(position) => {
                self.what.scalars.insert(position, to);
            }
            Knob::Geometry(k, axis) => {
                if let Some(geometry) = &mut self.geometry {
                    geometry[k][axis] = to as u32;
                }
            }
        }
    }

    /// Returns these sizes with all that are larger than `most` cut to it.
    fn within(&self, most: i128, scalars: bool) -> Size {
        let mut size = self.clone();
        for knob in self.knobs() {
            if scalars || !matches!(knob, Knob::Scalar(_)) {
                size.set(knob, self.get(knob).min(most));
            }
        }
        size
    }
}

/// Returns the smallest launch found; `None` if no launch that is small enough to be tried has the race.
pub(super) fn smallest(
    case: &Case<'_>,
    which: &Which,
    start: &Size,
    contents: &[Contents],
    budget: &mut Budget<'_>,
) -> Option<Small> {
    let mut small = first(case, which, start, contents, budget)?;
    loop {
        let before = small.size.clone();
        for group in groups(&small.size) {
            lower(case, which, &group, &mut small, budget);
        }
        if small.size == before || budget.is_spent() {
            return Some(small);
        }
    }
}

/// Returns a launch with the race, all sizes of which are bounded by a number that is as small as possible; one without other faults if
/// there is one.
fn first(
    case: &Case<'_>,
    which: &Which,
    start: &Size,
    contents: &[Contents],
    budget: &mut Budget<'_>,
) -> Option<Small> {
    let mut tried: Vec<Size> = vec![];
    let mut faulty = None;
    for most in STEPS {
        for scalars in [false, true] {
            let size = start.within(most, scalars);
            if tried.contains(&size) {
                continue;
            }
            for &contents in contents {
                if budget.is_spent() {
                    return faulty;
                }
                if let Some(fault) = case.has(which, &size, contents, budget) {
                    let ends_well = case.ends_well(&size, contents, budget);
                    let small = Small { size: size.clone(), contents, fault, ends_well };
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

/// Returns the sizes to be lowered together: equal ones, which may have to stay so, then each.
fn groups(size: &Size) -> Vec<Vec<Knob>> {
    let knobs: Vec<Knob> = size.knobs().into_iter().filter(|knob| size.get(*knob) > 1).collect();
    let mut all: Vec<Vec<Knob>> = vec![];
    for &knob in &knobs {
        let equal: Vec<Knob> = knobs.iter().copied().filter(|other| size.get(*other) == size.get(knob)).collect();
        if equal.len() > 1 && !all.contains(&equal) {
            all.push(equal);
        }
    }
    all.extend(knobs.into_iter().map(|knob| vec![knob]));
    all
}

/// Lowers sizes as far as the race stays.
fn lower(case: &Case<'_>, which: &Which, group: &[Knob], small: &mut Small, budget: &mut Budget<'_>) {
    let Some(now) = group.first().map(|knob| small.size.get(*knob)) else { return };
    if group.iter().any(|knob| small.size.get(*knob) != now) {
        return;
    }
    let most = measure(case, &small.size);
    let mut attempt = |to: i128, small: &mut Small| {
        let mut size = small.size.clone();
        group.iter().for_each(|knob| size.set(*knob, to));
        if budget.is_spent() || measure(case, &size) >= most {
            return false;
        }
        let Some(fault) = case.has(which, &size, small.contents, budget) else { return false };
        if small.ends_well && !case.ends_well(&size, small.contents, budget) {
            return false;
        }
        *small = Small { size, fault, ..*small };
        true
    };
    let candidates = (1..now.min(SMALL + 1)).chain(STEPS.into_iter().filter(|step| *step > SMALL && *step < now));
    let (mut low, mut high) = (0, now);
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

/// Returns a few launches that are larger than one, from the smallest on: the sizes of a launch, bounded by a number.
pub(super) fn larger(case: &Case<'_>, start: &Size, small: &Size) -> Vec<Size> {
    let least = measure(case, small);
    let mut all: Vec<Size> = vec![];
    for size in STEPS.into_iter().map(|most| start.within(most, true)) {
        if !all.contains(&size) && measure(case, &size) > least && case.shaped(&size).is_some() {
            all.push(size);
        }
    }
    all.truncate(LARGER);
    all
}

/// Returns what makes a launch large: threads, elements of arrays, then the numbers themselves.
fn measure(case: &Case<'_>, size: &Size) -> (u64, u64, i128) {
    let Some(shaped) = case.shaped(size) else { return (u64::MAX, 0, 0) };
    let count = |shape: &Vec<u32>| shape.iter().fold(1u64, |all, &n| all.saturating_mul(u64::from(n)));
    let elements = shaped.shapes.iter().flatten().map(count).fold(0, u64::saturating_add);
    (threads(shaped.extents), elements, size.knobs().into_iter().map(|knob| size.get(knob).abs()).sum())
}
