//! The abstract domain of range analysis: an interval with upper bounds relative to launch constants.

use clk_scalar::Scalar;
use clk_scalar::exact::limits;

/// A launch constant: a number that is the same throughout a launch and known when it starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LaunchConstant {
    /// The extent of the kernel's array parameter at this position along an axis.
    Extent {
        param: u32,
        axis: u8,
    },
    /// The value parameter at this position.
    Param(u32),
    /// The extent of the k-th index of a `threads` kernel.
    Index(u8),
    /// The number of threads per block along an axis.
    BlockDim(u8),
    GridDim(u8),
    /// The number of threads along an axis: the number of blocks times the threads per block.
    Threads(u8),
}

/// The bounds of a value: `low <= value <= high`, and `value <= symbol + number` for each pair in `upper_bounds`.
#[derive(Clone, Debug, PartialEq)]
pub struct ValueBounds {
    pub low: i128,
    pub high: i128,
    pub upper_bounds: Vec<(LaunchConstant, i128)>,
    pub nonzero: bool,
}

/// The maximum number of symbolic bounds of a value. Keeping more of them costs time and proves few additional
/// accesses.
const MAX_SYMBOLS: usize = 6;

impl ValueBounds {
    pub fn new(low: i128, high: i128) -> ValueBounds {
        ValueBounds { low, high, upper_bounds: vec![], nonzero: low > 0 || high < 0 }
    }

    /// Returns the bounds of an arbitrary value of the type.
    pub fn any(scalar: Scalar) -> ValueBounds {
        let (low, high) = limits(scalar);
        ValueBounds::new(low, high)
    }

    /// Adds the upper bound `symbol + plus`.
    pub fn with(mut self, symbol: LaunchConstant, plus: i128) -> ValueBounds {
        self.add(symbol, plus);
        self
    }

    fn add(&mut self, symbol: LaunchConstant, plus: i128) {
        match self.upper_bounds.iter_mut().find(|(known, _)| *known == symbol) {
            Some((_, known)) => *known = plus.min(*known),
            None => {
                if self.upper_bounds.len() < MAX_SYMBOLS {
                    self.upper_bounds.push((symbol, plus));
                }
            }
        }
    }

    pub fn fits_in(&self, scalar: Scalar) -> bool {
        let (low, high) = limits(scalar);
        low <= self.low && self.high <= high
    }

    /// Returns the bounds of a value that satisfies both `self` and `other`.
    pub fn intersect(&self, other: &ValueBounds) -> ValueBounds {
        let mut intersection = ValueBounds {
            low: self.low.max(other.low),
            high: self.high.min(other.high),
            upper_bounds: self.upper_bounds.clone(),
            nonzero: self.nonzero || other.nonzero,
        };
        other.upper_bounds.iter().for_each(|&(symbol, plus)| intersection.add(symbol, plus));
        intersection.normalized()
    }

    /// Returns the bounds of a value that satisfies `self` or `other`.
    pub fn join(&self, other: &ValueBounds) -> ValueBounds {
        let common = |&(symbol, plus): &(LaunchConstant, i128)| {
            other.upper_bounds.iter().find(|(known, _)| *known == symbol).map(|&(_, also)| (symbol, plus.max(also)))
        };
        ValueBounds {
            low: self.low.min(other.low),
            high: self.high.max(other.high),
            upper_bounds: self.upper_bounds.iter().filter_map(common).collect(),
            nonzero: self.nonzero && other.nonzero,
        }
    }

    /// Excludes 0 from the ends of the interval if `nonzero` is set. The interval may become empty in unreachable code.
    fn normalized(mut self) -> ValueBounds {
        if self.nonzero && self.low == 0 {
            self.low = 1;
        }
        if self.nonzero && self.high == 0 {
            self.high = -1;
        }
        self.nonzero |= self.low > 0 || self.high < 0;
        self
    }

    pub fn without_zero(mut self) -> ValueBounds {
        self.nonzero = true;
        self.normalized()
    }

    /// Returns the bounds of the value plus a constant.
    pub fn shifted(&self, by: i128) -> ValueBounds {
        let upper_bounds = self.upper_bounds.iter().map(|&(symbol, plus)| (symbol, plus + by)).collect();
        ValueBounds { low: self.low + by, high: self.high + by, upper_bounds, nonzero: false }.normalized()
    }

    /// Adds the upper bounds of `other`, each increased by `by`.
    pub fn limited_by(&self, other: &ValueBounds, by: i128) -> ValueBounds {
        let limit = ValueBounds { low: self.low, high: other.high + by, upper_bounds: vec![], nonzero: false };
        let mut fact = self.intersect(&limit);
        other.upper_bounds.iter().for_each(|&(symbol, plus)| fact.add(symbol, plus + by));
        fact
    }

    /// Returns whether these bounds imply `other`.
    pub fn implies(&self, other: &ValueBounds) -> bool {
        let limit =
            |(symbol, plus): &(LaunchConstant, i128)| self.upper_bounds.iter().any(|(s, p)| s == symbol && p <= plus);
        other.low <= self.low
            && self.high <= other.high
            && other.upper_bounds.iter().all(limit)
            && (self.nonzero || !other.nonzero)
    }

    /// Returns bounds that include both `self` and `next`, widened so that repeated widening reaches a fixpoint
    /// quickly.
    pub fn widened(&self, next: &ValueBounds, scalar: Scalar) -> ValueBounds {
        let (least, most) = limits(scalar);
        let low = match next.low {
            low if low >= self.low => self.low,
            low => *[1, 0, -1].iter().find(|&&step| step <= low).unwrap_or(&least),
        };
        let is_kept =
            |(symbol, plus): &&(LaunchConstant, i128)| next.upper_bounds.iter().any(|(s, p)| s == symbol && p <= plus);
        ValueBounds {
            low,
            high: if next.high <= self.high { self.high } else { most },
            upper_bounds: self.upper_bounds.iter().filter(is_kept).copied().collect(),
            nonzero: self.nonzero && next.nonzero,
        }
    }
}
