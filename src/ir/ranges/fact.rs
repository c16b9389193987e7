//! The abstract domain of range analysis: an interval, and upper bounds relative to launch constants.

use crate::lang::scalar::Scalar;

/// A launch constant: a number that is the same throughout a launch and known when it starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Symbol {
    /// The extent of the kernel's array parameter at this position along an axis.
    Extent {
        param: u32,
        axis: u8,
    },
    /// The value parameter at this position.
    Param(u32),
    /// The extent of the k-th index of a `threads` kernel.
    Index(u8),
    /// Along x, y, z, as the two below.
    BlockDim(u8),
    GridDim(u8),
    /// Number of blocks times threads per block.
    Threads(u8),
}

/// `low <= value <= high`, and `value <= symbol + number` for each of `below`.
#[derive(Clone, Debug, PartialEq)]
pub struct Fact {
    pub low: i128,
    pub high: i128,
    pub below: Vec<(Symbol, i128)>,
    pub nonzero: bool,
}

/// The largest number of relative bounds of a fact; more do not pay.
const MAX_SYMBOLS: usize = 6;

pub fn type_range(scalar: Scalar) -> (i128, i128) {
    let bits = scalar.bits();
    match scalar {
        Scalar::Bool => (0, 1),
        s if s.is_signed() => (-(1 << (bits - 1)), (1 << (bits - 1)) - 1),
        _ => (0, (1i128 << bits) - 1),
    }
}

impl Fact {
    pub fn of(low: i128, high: i128) -> Fact {
        Fact { low, high, below: vec![], nonzero: low > 0 || high < 0 }
    }

    /// Returns the range of the type.
    pub fn any(scalar: Scalar) -> Fact {
        let (low, high) = type_range(scalar);
        Fact::of(low, high)
    }

    pub fn with(mut self, symbol: Symbol, plus: i128) -> Fact {
        self.add(symbol, plus);
        self
    }

    fn add(&mut self, symbol: Symbol, plus: i128) {
        match self.below.iter_mut().find(|(known, _)| *known == symbol) {
            Some((_, known)) => *known = plus.min(*known),
            None => {
                if self.below.len() < MAX_SYMBOLS {
                    self.below.push((symbol, plus));
                }
            }
        }
    }

    pub fn fits(&self, scalar: Scalar) -> bool {
        let (low, high) = type_range(scalar);
        low <= self.low && self.high <= high
    }

    /// Returns the conjunction of two facts on one value.
    pub fn meet(&self, other: &Fact) -> Fact {
        let mut both = Fact {
            low: self.low.max(other.low),
            high: self.high.min(other.high),
            below: self.below.clone(),
            nonzero: self.nonzero || other.nonzero,
        };
        other.below.iter().for_each(|&(symbol, plus)| both.add(symbol, plus));
        both.settled()
    }

    /// Returns a fact that both facts imply.
    pub fn join(&self, other: &Fact) -> Fact {
        let common = |&(symbol, plus): &(Symbol, i128)| {
            other.below.iter().find(|(known, _)| *known == symbol).map(|&(_, also)| (symbol, plus.max(also)))
        };
        Fact {
            low: self.low.min(other.low),
            high: self.high.max(other.high),
            below: self.below.iter().filter_map(common).collect(),
            nonzero: self.nonzero && other.nonzero,
        }
    }

    /// Tightens the interval by `nonzero`; it may have become empty in unreachable code.
    fn settled(mut self) -> Fact {
        if self.nonzero && self.low == 0 {
            self.low = 1;
        }
        if self.nonzero && self.high == 0 {
            self.high = -1;
        }
        self.nonzero |= self.low > 0 || self.high < 0;
        self
    }

    pub fn without_zero(mut self) -> Fact {
        self.nonzero = true;
        self.settled()
    }

    /// Returns the fact for the value plus a constant.
    pub fn shifted(&self, by: i128) -> Fact {
        let below = self.below.iter().map(|&(symbol, plus)| (symbol, plus + by)).collect();
        Fact { low: self.low + by, high: self.high + by, below, nonzero: false }.settled()
    }

    /// Adds the upper bounds of another fact plus `by`.
    pub fn limited_by(&self, other: &Fact, by: i128) -> Fact {
        let limit = Fact { low: self.low, high: other.high + by, below: vec![], nonzero: false };
        let mut fact = self.meet(&limit);
        other.below.iter().for_each(|&(symbol, plus)| fact.add(symbol, plus + by));
        fact
    }

    /// Returns whether this fact implies `other`.
    pub fn implies(&self, other: &Fact) -> bool {
        let limit = |(symbol, plus): &(Symbol, i128)| self.below.iter().any(|(s, p)| s == symbol && p <= plus);
        other.low <= self.low
            && self.high <= other.high
            && other.below.iter().all(limit)
            && (self.nonzero || !other.nonzero)
    }

    /// Returns a fact that both imply, widened so far that such steps end after a few.
    pub fn widened(&self, next: &Fact, scalar: Scalar) -> Fact {
        let (least, most) = type_range(scalar);
        let low = match next.low {
            low if low >= self.low => self.low,
            low => *[1, 0, -1].iter().find(|&&step| step <= low).unwrap_or(&least),
        };
        let kept = |(symbol, plus): &&(Symbol, i128)| next.below.iter().any(|(s, p)| s == symbol && p <= plus);
        Fact {
            low,
            high: if next.high <= self.high { self.high } else { most },
            below: self.below.iter().filter(kept).copied().collect(),
            nonzero: self.nonzero && next.nonzero,
        }
    }
}
