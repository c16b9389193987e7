//! Access patterns: the elements that an access covers, and the lanes that access them.

use super::race_rules::ShadowRow;
use crate::memory::AddressRun;

/// One axis of a pattern: the number of elements along it, and the distance from one to the next in elements (`step`)
/// and in lanes (`lanes`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PatternAxis {
    pub count: usize,
    pub step: isize,
    pub lanes: usize,
}

pub(crate) const NO_AXIS: PatternAxis = PatternAxis { count: 1, step: 0, lanes: 0 };

/// The elements of an access, and the lane that accesses each of them. They form a grid with up to five axes, which
/// begins at element `first` and lane `lane`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AccessPattern {
    pub first: usize,
    pub lane: usize,
    /// The distance from the first to the last lane that accesses the same element.
    pub spread: usize,
    pub axes: [PatternAxis; 5],
}

impl AccessPattern {
    /// Returns the pattern of an affine access, relative to element 0. `None` if its strides are not multiples of
    /// `unit`, the number of bytes that a shadow word covers.
    pub fn from_run(run: &AddressRun, unit: usize) -> Option<AccessPattern> {
        let unit = unit as isize;
        let mut pattern = AccessPattern { first: 0, lane: run.lane, spread: 0, axes: [NO_AXIS; 5] };
        let (mut lanes, mut used) = (1, 0);
        for (count, stride) in std::iter::zip(run.count, run.stride).filter(|(count, _)| *count > 1) {
            if stride % unit != 0 {
                return None;
            }
            let step = stride / unit;
            if step == 0 {
                pattern.spread += (count - 1) * lanes;
            } else {
                pattern.axes[used] = PatternAxis { count, step, lanes };
                used += 1;
            }
            lanes *= count;
        }
        Some(pattern)
    }

    /// Returns the pattern of an affine access in all iterations of a loop; the iterations are an additional axis.
    /// `iteration` is the distance in bytes from one iteration to the next.
    pub fn over_iterations(
        run: &AddressRun,
        unit: usize,
        iterations: usize,
        iteration: isize,
    ) -> Option<AccessPattern> {
        let mut pattern = AccessPattern::from_run(run, unit)?;
        if iteration % unit as isize != 0 || iterations == 0 {
            return None;
        }
        if iteration != 0 {
            let free = pattern.axes.iter_mut().find(|a| a.count == 1)?;
            *free = PatternAxis { count: iterations, step: iteration / unit as isize, lanes: 0 };
        }
        Some(pattern)
    }

    /// Returns the smallest and the largest element.
    pub(crate) fn bounds(&self) -> (isize, isize) {
        let mut hull = (self.first as isize, self.first as isize);
        for axis in &self.axes {
            let span = axis.step * (axis.count as isize - 1);
            hull = (hull.0 + span.min(0), hull.1 + span.max(0));
        }
        hull
    }

    /// Calls `f` with the first element, the step and the number of elements of each row, until it returns false.
    pub fn for_each_row(&self, mut f: impl FnMut(usize, isize, usize) -> bool) -> bool {
        self.to_rows(std::ptr::null()).for_each(self.first, |row, cell| f(cell, row.step, row.count))
    }

    /// Divides the pattern into rows, of contiguous elements if possible. `mask` is as in [`ShadowRow`].
    pub fn to_rows(self, mask: *const u32) -> PatternRows {
        let mut axes = self.axes;
        if let Some(best) = axes.iter().position(|a| a.step == 1 && a.count > 1) {
            axes.swap(0, best);
        }
        let [w, r, a] = [std::ptr::null_mut(); 3];
        let [PatternAxis { count, step, lanes: lane_step }, outer @ ..] = axes;
        PatternRows {
            row: ShadowRow { w, r, a, step, count, lane: self.lane, lane_step, spread: self.spread, mask },
            outer,
        }
    }

    /// Returns whether the pattern consists of a single element.
    pub(crate) fn is_point(&self) -> bool {
        self.axes.iter().all(|a| a.count == 1)
    }

    /// Returns the axes with more than one element, sorted by the absolute value of their step, and the number of these
    /// axes.
    fn sorted(&self) -> ([PatternAxis; 5], usize) {
        let (mut axes, mut used) = ([NO_AXIS; 5], 0);
        for axis in self.axes.iter().filter(|a| a.count > 1) {
            let at = axes[..used].iter().position(|a| a.step.abs() > axis.step.abs()).unwrap_or(used);
            axes.copy_within(at..used, at + 1);
            axes[at] = *axis;
            used += 1;
        }
        (axes, used)
    }

    /// Returns whether the pattern contains each element from the smallest to the largest exactly once.
    pub(crate) fn is_dense(&self) -> bool {
        let (axes, used) = self.sorted();
        let mut next = 1;
        axes[..used].iter().all(|a| {
            let is_next = a.step.abs() == next;
            next *= a.count as isize;
            is_next
        })
    }

    /// Returns whether each element of the pattern is accessed exactly once, by one lane (conservative: may return
    /// false if it is).
    pub(crate) fn is_single(&self) -> bool {
        let (axes, used) = self.sorted();
        let mut span = 0;
        let is_separate = |a: &PatternAxis| {
            let is_next = a.step.abs() > span;
            span += a.step.abs() * (a.count as isize - 1);
            is_next
        };
        self.spread == 0 && axes[..used].iter().all(is_separate)
    }

    /// Returns the step of the only axis along which lanes differ (by one lane per step), and the distance in elements
    /// that the other axes span. `None` if there is no such axis, or if lanes differ along several axes.
    fn single_lane_axis(&self) -> Option<(isize, isize)> {
        let (mut rung, mut reach) = (None, 0);
        for axis in self.axes.iter().filter(|a| a.count > 1) {
            match axis.lanes {
                0 if axis.step > 0 => reach += axis.step * (axis.count as isize - 1),
                1 if rung.is_none() && axis.step > 0 => rung = Some(axis.step),
                _ => return None,
            }
        }
        Some((rung?, reach))
    }

    /// Returns whether each element that is in both patterns is accessed by the same lane in both (conservative: may
    /// return false if it is). This holds if the patterns are equal. It also holds if both patterns have the same
    /// distance in elements from lane to lane, and in both, a lane's elements lie between the same two bounds, which do
    /// not overlap those of other lanes.
    pub(crate) fn has_same_lanes(&self, other: &AccessPattern) -> bool {
        if self.spread + other.spread > 0 {
            return false;
        }
        if self == other {
            return self.is_single();
        }
        let (Some((step, reach)), Some((other_step, other_reach))) =
            (self.single_lane_axis(), other.single_lane_axis())
        else {
            return false;
        };
        let origin = |p: &AccessPattern| p.first as isize - p.lane as isize * step;
        let (a, b) = (origin(self), origin(other));
        step == other_step && (a + reach).max(b + other_reach) - a.min(b) < step
    }

    /// Merges another pattern that differs only in its first element, as a further iteration of a loop. Returns false
    /// if the patterns cannot be merged.
    pub fn merge_iteration(&mut self, other: &AccessPattern) -> bool {
        if (self.lane, self.spread) != (other.lane, other.spread) || self.axes[..4] != other.axes[..4] {
            return false;
        }
        let (iterations, step) = (self.axes[4], other.first as isize - self.first as isize);
        if other.axes[4] != NO_AXIS || iterations.lanes != 0 || step == 0 {
            return *self == *other;
        }
        if iterations.count == 1 {
            self.axes[4] = PatternAxis { count: 2, step, lanes: 0 };
            return true;
        }
        let next = iterations.step * iterations.count as isize;
        if step == next {
            self.axes[4].count += 1;
        }
        step == next
            || (step % iterations.step == 0 && (0..iterations.count as isize).contains(&(step / iterations.step)))
    }
}

/// The rows of a pattern: the first row, and the axes along which it is repeated.
pub(crate) struct PatternRows {
    pub row: ShadowRow,
    outer: [PatternAxis; 4],
}

impl PatternRows {
    /// Calls `f` with each row and the row's first element, until it returns false.
    #[inline(always)]
    pub fn for_each(&self, cell: usize, mut f: impl FnMut(ShadowRow, usize) -> bool) -> bool {
        let [x, y, z, w] = self.outer;
        let at = |a: &PatternAxis, i: usize| (i as isize * a.step, i * a.lanes);
        for l in 0..w.count {
            for k in 0..z.count {
                for j in 0..y.count {
                    for i in 0..x.count {
                        let places = [at(&x, i), at(&y, j), at(&z, k), at(&w, l)];
                        let step: isize = places.iter().map(|p| p.0).sum();
                        let lane = self.row.lane + places.iter().map(|p| p.1).sum::<usize>();
                        if !f(ShadowRow { lane, ..self.row }, (cell as isize + step) as usize) {
                            return false;
                        }
                    }
                }
            }
        }
        true
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A generator of pseudorandom numbers and patterns.
    pub(crate) struct PatternGenerator(pub u64);

    impl PatternGenerator {
        pub(crate) fn below(&mut self, n: u64) -> u64 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 33) % n
        }

        /// Returns a small pattern, mostly of the kinds that occur in kernels.
        pub(crate) fn pattern(&mut self) -> AccessPattern {
            let mut axes = [NO_AXIS; 5];
            let mut lanes = 1;
            for axis in axes.iter_mut().take(1 + self.below(2) as usize) {
                let count = 1 + self.below(5) as usize;
                let step = [1, 1, 2, 3, 4, 5, -1, -2][self.below(8) as usize];
                *axis = PatternAxis { count, step: if count > 1 { step } else { 0 }, lanes };
                if count == 1 {
                    *axis = NO_AXIS;
                }
                lanes *= count;
            }
            if self.below(3) == 0 {
                axes[4] = PatternAxis { count: 2 + self.below(2) as usize, step: 1 + self.below(9) as isize, lanes: 0 };
            }
            let spread = if self.below(6) == 0 { lanes } else { 0 };
            AccessPattern { first: 16 + self.below(12) as usize, lane: self.below(3) as usize, spread, axes }
        }
    }

    /// Returns each element with the lane that accesses it. An element that several lanes access is listed with the
    /// first and the last of them.
    pub(crate) fn elements_with_lanes(pattern: &AccessPattern) -> Vec<(usize, usize)> {
        let mut all = vec![];
        pattern.to_rows(std::ptr::null()).for_each(pattern.first, |row, cell| {
            for i in 0..row.count {
                let (cell, lane) = ((cell as isize + i as isize * row.step) as usize, row.lane + i * row.lane_step);
                all.push((cell, lane));
                if row.spread > 0 {
                    all.push((cell, lane + row.spread));
                }
            }
            true
        });
        all
    }

    #[test]
    fn properties_match_the_elements() {
        let mut generator = PatternGenerator(7);
        for _ in 0..20_000 {
            let pattern = generator.pattern();
            let all = elements_with_lanes(&pattern);
            let cells = || all.iter().map(|&(cell, _)| cell as isize);
            let hull = (cells().min().unwrap_or(0), cells().max().unwrap_or(0));
            assert_eq!(pattern.bounds(), hull, "{pattern:?}");
            let mut distinct: Vec<isize> = cells().collect();
            distinct.sort_unstable();
            let count = distinct.len();
            distinct.dedup();
            if pattern.is_single() {
                assert_eq!(distinct.len(), count, "{pattern:?}");
            }
            if pattern.is_dense() {
                assert_eq!(distinct.len() as isize, hull.1 - hull.0 + 1, "{pattern:?}");
            }
        }
    }

    #[test]
    fn patterns_with_same_lanes_do_not_conflict() {
        let mut generator = PatternGenerator(11);
        let mut agreed = 0;
        for _ in 0..200_000 {
            let (p, mut q) = (generator.pattern(), generator.pattern());
            if generator.below(2) == 0 {
                q.axes = p.axes;
            }
            if generator.below(2) == 0 {
                (q.first, q.lane) = (p.first, p.lane);
            }
            if p.has_same_lanes(&q) {
                agreed += 1;
                let theirs = elements_with_lanes(&q);
                let conflicts = |&(cell, lane): &(usize, usize)| theirs.iter().any(|&(c, l)| c == cell && l != lane);
                assert!(!elements_with_lanes(&p).iter().any(conflicts), "{p:?} {q:?}");
            }
        }
        assert!(agreed > 1_000, "{agreed}");
    }

    #[test]
    fn merged_patterns_cover_both() {
        let mut generator = PatternGenerator(13);
        let mut merged = 0;
        for _ in 0..100_000 {
            let mut p = generator.pattern();
            let mut q = p;
            q.first += generator.below(5) as usize;
            q.axes[4] = NO_AXIS;
            let before = [elements_with_lanes(&p), elements_with_lanes(&q)].concat();
            if p.merge_iteration(&q) {
                merged += 1;
                let after = elements_with_lanes(&p);
                assert!(before.iter().all(|t| after.contains(t)), "{p:?} {q:?}");
                assert!(after.iter().all(|t| before.contains(t)), "{p:?} {q:?}");
            }
        }
        assert!(merged > 1_000, "{merged}");
    }
}
