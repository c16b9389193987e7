//! What the definitions of values say about them wherever they are used: which checks pass without being made.
//!
//! Input: instructions. Output: the range that a value lies in, as a signed number, if that is known. The idea: intervals, only through
//! values with one definition, so that neither control nor masks matter. (Lanes that take no part may hold anything; no check is
//! about them.)

use super::*;

/// The definitions of values that have one.
pub(crate) struct Definitions {
    insts: Vec<Option<Inst>>,
    /// See [`Region::whole`].
    whole: Option<[u32; 3]>,
}

/// How far definitions are followed.
const DEPTH: u32 = 8;

/// A smallest and a largest value, of 32 bits.
type Range = (i64, i64);

const ALL: Range = (i32::MIN as i64, i32::MAX as i64);

impl Definitions {
    pub fn new() -> Definitions {
        Definitions { insts: vec![], whole: None }
    }

    pub fn of(region: &Region) -> Definitions {
        let mut definitions = Definitions { insts: vec![], whole: region.whole };
        let mut note = |inst: &Inst| {
            if region.values.get(inst.dst.index()).is_some_and(|def| !def.mutable) {
                definitions.note(inst);
            }
        };
        region.setup.iter().for_each(&mut note);
        each_inst(&region.body, &mut |inst| note(inst));
        definitions
    }

    /// Notes the only definition of a value.
    pub fn note(&mut self, inst: &Inst) {
        let at = inst.dst.index();
        if self.insts.len() <= at {
            self.insts.resize(at + 1, None);
        }
        self.insts[at] = Some(*inst);
    }

    fn get(&self, value: Value) -> Option<&Inst> {
        self.insts.get(value.index())?.as_ref()
    }

    /// Returns a scalar that is known.
    pub fn constant(&self, value: Value) -> Option<i64> {
        match self.get(value)?.op {
            Op::Const(c) => Some(c),
            _ => None,
        }
    }

    /// Returns whether a check cannot fail.
    pub fn passes(&self, check: &Check) -> bool {
        let [a, b, c] = check.args;
        let within = |index: Option<Range>, extent: Value| {
            let extent = self.constant(extent).or_else(|| Some(self.range(extent)?.0));
            index.zip(extent).is_some_and(|((low, high), extent)| low >= 0 && high < extent)
        };
        match check.op {
            Op::CheckOne | Op::CheckLanes => within(self.range(a), b),
            Op::CheckRange => within(self.range(a).zip(self.range(b)).map(|(a, b)| (a.0, b.1)), c),
            // Lanes have the coordinates from 0 to the last one.
            Op::CheckRow(factor) => self.last(0).is_some_and(|last| {
                let along = i64::from(factor) * last;
                within(self.range(a).map(|(low, high)| (low + along.min(0), high + along.max(0))), c)
            }),
            _ => false,
        }
    }

    /// Returns the last coordinate along an axis, if the group's extent is known.
    fn last(&self, axis: u8) -> Option<i64> {
        let extent = *self.whole?.get(usize::from(axis))?;
        (extent > 0).then(|| i64::from(extent) - 1)
    }

    pub fn range(&self, value: Value) -> Option<Range> {
        self.follow(value, DEPTH)
    }

    fn follow(&self, value: Value, depth: u32) -> Option<Range> {
        let inst = self.get(value)?;
        if depth == 0 {
            return None;
        }
        let of = |k: usize| self.follow(inst.args[k], depth - 1);
        let fits = |(low, high): Range| (low >= ALL.0 && high <= ALL.1).then_some((low, high));
        match inst.op {
            Op::Const(c) => fits((c, c)),
            // The same of 4-byte and of 8-byte lanes.
            Op::Splat(bits) => i32::try_from(bits).ok().map(|c| (c.into(), c.into())),
            Op::Scalar(bin, elem) | Op::Vector(bin, elem) if !elem.is_float() => {
                binary(bin, elem, of(0), of(1)).and_then(fits)
            }
            Op::Coord(axis) | Op::Input(Input::First(axis) | Input::Last(axis)) => {
                self.last(axis).map(|last| (0, last))
            }
            Op::Select | Op::Choose => of(1).zip(of(2)).map(|(a, b)| (a.0.min(b.0), a.1.max(b.1))),
            Op::Sext | Op::Trunc | Op::Broadcast | Op::FirstLane => of(0),
            Op::Zext => of(0).filter(|r| r.0 >= 0),
            Op::Load(cell, _) | Op::LoadScalar(cell) => match cell {
                Cell::U8 => Some((0, 0xff)),
                Cell::I8 => Some((-0x80, 0x7f)),
                Cell::U16 => Some((0, 0xffff)),
                Cell::I16 => Some((-0x8000, 0x7fff)),
                Cell::W4 | Cell::W8 => None,
            },
            _ => None,
        }
    }
}

/// Returns the range of a result, if that of the operands says something about it. What does not fit 32 bits may have wrapped.
fn binary(bin: Bin, elem: Elem, a: Option<Range>, b: Option<Range>) -> Option<Range> {
    let natural = |r: Option<Range>| r.filter(|r| r.0 >= 0);
    let known = b.filter(|b| b.0 == b.1).map(|b| b.0);
    let unsigned = matches!(elem, Elem::U32 | Elem::U64);
    match bin {
        Bin::And => {
            let most = natural(a).into_iter().chain(natural(b)).map(|r| r.1).min()?;
            Some((0, most))
        }
        Bin::Shr => match (natural(a), known.filter(|_| !elem.is_wide()).map(|by| by & 31)) {
            (Some(a), Some(by)) => Some((a.0 >> by, a.1 >> by)),
            (Some(a), None) => Some((0, a.1)),
            (None, Some(by)) if unsigned => Some((0, i64::from(u32::MAX) >> by)),
            (None, Some(by)) => a.or(Some(ALL)).map(|a| (a.0 >> by, a.1 >> by)),
            (None, None) => None,
        },
        Bin::Rem => {
            let most = known.filter(|&by| by > 0)? - 1;
            match natural(a) {
                Some(a) => Some((0, a.1.min(most))),
                None => Some((if unsigned { 0 } else { -most }, most)),
            }
        }
        Bin::Div => {
            let by = known.filter(|&by| by > 0)?;
            natural(a).map(|a| (a.0 / by, a.1 / by))
        }
        Bin::Min if unsigned => {
            let most = natural(a).into_iter().chain(natural(b)).map(|r| r.1).min()?;
            Some((0, most))
        }
        Bin::Max if unsigned => natural(a).zip(natural(b)).map(|(a, b)| (a.0.max(b.0), a.1.max(b.1))),
        Bin::Min | Bin::Max if !elem.is_wide() => {
            let (a, b) = (a.unwrap_or(ALL), b.unwrap_or(ALL));
            Some(if bin == Bin::Min { (a.0.min(b.0), a.1.min(b.1)) } else { (a.0.max(b.0), a.1.max(b.1)) })
        }
        Bin::Add => a.zip(b).map(|(a, b)| (a.0 + b.0, a.1 + b.1)),
        Bin::Sub => a.zip(b).map(|(a, b)| (a.0 - b.1, a.1 - b.0)),
        Bin::Mul => {
            let ((a, b), (c, d)) = a.zip(b)?;
            let corners = [a * c, a * d, b * c, b * d];
            Some((corners.into_iter().min()?, corners.into_iter().max()?))
        }
        Bin::Min | Bin::Max | Bin::Or | Bin::Xor | Bin::Shl => None,
    }
}
