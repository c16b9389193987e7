//! Access patterns: which elements an access touches, and by which lanes.

use super::rows::Row;
use crate::device::sim::memory::Run;

/// Elements along one axis: count, distance of elements, and distance of lanes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Axis {
    pub count: usize,
    pub step: isize,
    pub lanes: usize,
}

pub(crate) const NO_AXIS: Axis = Axis { count: 1, step: 0, lanes: 0 };

/// Elements and the lanes that access them: successive elements along an axis are `step` elements and `lanes` lanes apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pattern {
    pub first: usize,
    pub lane: usize,
    /// The distance from the first to the last lane of an element.
    pub spread: usize,
    pub axes: [Axis; 5],
}

impl Pattern {
    /// Returns the pattern of a run, relative to element 0; `None` if its strides are no multiples of a shadow word's `unit`
    /// bytes.
    pub fn of(run: &Run, unit: usize) -> Option<Pattern> {
        let unit = unit as isize;
        let mut pattern = Pattern { first: 0, lane: run.lane, spread: 0, axes: [NO_AXIS; 5] };
        let (mut lanes, mut used) = (1, 0);
        for (count, stride) in std::iter::zip(run.count, run.stride).filter(|(count, _)| *count > 1) {
            if stride % unit != 0 {
                return None;
            }
            let step = stride / unit;
            if step == 0 {
                pattern.spread += (count - 1) * lanes;
            } else {
                pattern.axes[used] = Axis { count, step, lanes };
                used += 1;
            }
            lanes *= count;
        }
        Some(pattern)
    }

    /// Returns the pattern of all iterations of a loop, which are one more axis; `turn` is the bytes from iteration to iteration.
    pub fn over(run: &Run, unit: usize, iterations: usize, iteration: isize) -> Option<Pattern> {
        let mut pattern = Pattern::of(run, unit)?;
        if iteration % unit as isize != 0 || iterations == 0 {
            return None;
        }
        if iteration != 0 {
            let free = pattern.axes.iter_mut().find(|a| a.count == 1)?;
            *free = Axis { count: iterations, step: iteration / unit as isize, lanes: 0 };
        }
        Some(pattern)
    }

    /// Returns the smallest and the largest element.
    pub(crate) fn hull(&self) -> (isize, isize) {
        let mut hull = (self.first as isize, self.first as isize);
        for axis in &self.axes {
            let span = axis.step * (axis.count as isize - 1);
            hull = (hull.0 + span.min(0), hull.1 + span.max(0));
        }
        hull
    }

    /// Calls `f` with first element, step and count of each row.
    pub fn rows(&self, mut f: impl FnMut(usize, isize, usize) -> bool) -> bool {
        self.walk(std::ptr::null()).each(self.first, |row, cell| f(cell, row.step, row.count))
    }

    /// Returns its rows, of contiguous elements where possible. The mask is that of [`Row`].
    pub fn walk(&self, mask: *const u32) -> Walk {
        let mut axes = self.axes;
        if let Some(best) = axes.iter().position(|a| a.step == 1 && a.count > 1) {
            axes.swap(0, best);
        }
        let [w, r, a] = [std::ptr::null_mut(); 3];
        let [Axis { count, step, lanes: lane_step }, outer @ ..] = axes;
        Walk { row: Row { w, r, a, step, count, lane: self.lane, lane_step, spread: self.spread, mask }, outer }
    }

    /// Returns whether it is a single element.
    pub(crate) fn is_point(&self) -> bool {
        self.axes.iter().all(|a| a.count == 1)
    }

    /// Returns the axes with several elements, sorted by step, and their number.
    fn sorted(&self) -> ([Axis; 5], usize) {
        let (mut axes, mut used) = ([NO_AXIS; 5], 0);
        for axis in self.axes.iter().filter(|a| a.count > 1) {
            let at = axes[..used].iter().position(|a| a.step.abs() > axis.step.abs()).unwrap_or(used);
            axes.copy_within(at..used, at + 1);
            axes[at] = *axis;
            used += 1;
        }
        (axes, used)
    }

    /// Returns whether it is all elements from the smallest to the largest, each once.
    pub(crate) fn is_dense(&self) -> bool {
        let (axes, used) = self.sorted();
        let mut next = 1;
        axes[..used].iter().all(|a| {
            let fits = a.step.abs() == next;
            next *= a.count as isize;
            fits
        })
    }

    /// Returns whether every element occurs once, with one lane.
    pub(crate) fn is_single(&self) -> bool {
        let (axes, used) = self.sorted();
        let mut span = 0;
        let apart = |a: &Axis| {
            let fits = a.step.abs() > span;
            span += a.step.abs() * (a.count as isize - 1);
            fits
        };
        self.spread == 0 && axes[..used].iter().all(apart)
    }

    /// Returns the step of the only axis along which lanes differ (by one lane per step), and the extent of the others. `None` if
    /// there are several.
    fn ladder(&self) -> Option<(isize, isize)> {
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

    /// Returns whether every common element belongs to the same lane in both (conservative): the patterns are equal, or have the
    /// same distance from lane to lane, and the elements of a lane lie between its first element and the next lane's.
    pub(crate) fn agrees(&self, other: &Pattern) -> bool {
        if self.spread + other.spread > 0 {
            return false;
        }
        if self == other {
            return self.is_single();
        }
        let (Some((step, reach)), Some((other_step, other_reach))) = (self.ladder(), other.ladder()) else {
            return false;
        };
        let origin = |p: &Pattern| p.first as isize - p.lane as isize * step;
        let (a, b) = (origin(self), origin(other));
        step == other_step && (a + reach).max(b + other_reach) - a.min(b) < step
    }

    /// Merges a pattern that differs only in its first element, if both are iterations along one more axis.
    pub fn extend(&mut self, other: &Pattern) -> bool {
        if (self.lane, self.spread) != (other.lane, other.spread) || self.axes[..4] != other.axes[..4] {
            return false;
        }
        let (iterations, step) = (self.axes[4], other.first as isize - self.first as isize);
        if other.axes[4] != NO_AXIS || iterations.lanes != 0 || step == 0 {
            return *self == *other;
        }
        if iterations.count == 1 {
            self.axes[4] = Axis { count: 2, step, lanes: 0 };
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

/// The innermost rows of a pattern, and the axes around them.
pub(crate) struct Walk {
    pub row: Row,
    outer: [Axis; 4],
}

impl Walk {
    /// Calls `f` with each row and its first element, until it returns false.
    #[inline(always)]
    pub fn each(&self, cell: usize, mut f: impl FnMut(Row, usize) -> bool) -> bool {
        let [x, y, z, w] = self.outer;
        let at = |a: &Axis, i: usize| (i as isize * a.step, i * a.lanes);
        for l in 0..w.count {
            for k in 0..z.count {
                for j in 0..y.count {
                    for i in 0..x.count {
                        let places = [at(&x, i), at(&y, j), at(&z, k), at(&w, l)];
                        let step: isize = places.iter().map(|p| p.0).sum();
                        let lane = self.row.lane + places.iter().map(|p| p.1).sum::<usize>();
                        if !f(Row { lane, ..self.row }, (cell as isize + step) as usize) {
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

    /// Pseudo-random numbers, for patterns of all kinds.
    pub(crate) struct Dice(pub u64);

    impl Dice {
        pub(crate) fn below(&mut self, n: u64) -> u64 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 33) % n
        }

        /// Returns a small pattern, mostly of the kinds that occur in kernels.
        pub(crate) fn pattern(&mut self) -> Pattern {
            let mut axes = [NO_AXIS; 5];
            let mut lanes = 1;
            for axis in axes.iter_mut().take(1 + self.below(2) as usize) {
                let count = 1 + self.below(5) as usize;
                let step = [1, 1, 2, 3, 4, 5, -1, -2][self.below(8) as usize];
                *axis = Axis { count, step: if count > 1 { step } else { 0 }, lanes };
                if count == 1 {
                    *axis = NO_AXIS;
                }
                lanes *= count;
            }
            if self.below(3) == 0 {
                axes[4] = Axis { count: 2 + self.below(2) as usize, step: 1 + self.below(9) as isize, lanes: 0 };
            }
            let spread = if self.below(6) == 0 { lanes } else { 0 };
            Pattern { first: 16 + self.below(12) as usize, lane: self.below(3) as usize, spread, axes }
        }
    }

    /// Returns the elements with their lanes; of several lanes, the first and the last.
    pub(crate) fn touched(pattern: &Pattern) -> Vec<(usize, usize)> {
        let mut all = vec![];
        pattern.walk(std::ptr::null()).each(pattern.first, |row, cell| {
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
    fn what_patterns_say_of_themselves_is_so() {
        let mut dice = Dice(7);
        for _ in 0..20_000 {
            let pattern = dice.pattern();
            let all = touched(&pattern);
            let cells = || all.iter().map(|&(cell, _)| cell as isize);
            let hull = (cells().min().unwrap_or(0), cells().max().unwrap_or(0));
            assert_eq!(pattern.hull(), hull, "{pattern:?}");
            let mut once: Vec<isize> = cells().collect();
            once.sort_unstable();
            let count = once.len();
            once.dedup();
            if pattern.is_single() {
                assert_eq!(once.len(), count, "{pattern:?}");
            }
            if pattern.is_dense() {
                assert_eq!(once.len() as isize, hull.1 - hull.0 + 1, "{pattern:?}");
            }
        }
    }

    #[test]
    fn patterns_that_agree_meet_in_one_lane_only() {
        let mut dice = Dice(11);
        let mut agreed = 0;
        for _ in 0..200_000 {
            let (p, mut q) = (dice.pattern(), dice.pattern());
            if dice.below(2) == 0 {
                q.axes = p.axes;
            }
            if dice.below(2) == 0 {
                (q.first, q.lane) = (p.first, p.lane);
            }
            if p.agrees(&q) {
                agreed += 1;
                let theirs = touched(&q);
                let clash = |&(cell, lane): &(usize, usize)| theirs.iter().any(|&(c, l)| c == cell && l != lane);
                assert!(!touched(&p).iter().any(clash), "{p:?} {q:?}");
            }
        }
        assert!(agreed > 1_000, "{agreed}");
    }

    #[test]
    fn a_pattern_that_took_in_another_touches_both() {
        let mut dice = Dice(13);
        let mut taken = 0;
        for _ in 0..100_000 {
            let mut p = dice.pattern();
            let mut q = p;
            q.first += dice.below(5) as usize;
            q.axes[4] = NO_AXIS;
            let before = [touched(&p), touched(&q)].concat();
            if p.extend(&q) {
                taken += 1;
                let after = touched(&p);
                assert!(before.iter().all(|t| after.contains(t)), "{p:?} {q:?}");
                assert!(after.iter().all(|t| before.contains(t)), "{p:?} {q:?}");
            }
        }
        assert!(taken > 1_000, "{taken}");
    }
}
