//! Value range analysis, which finds bounds checks that always pass.
//!
//! Input: instructions. Output: the range of a value as a signed number, if it is known. Main idea: interval analysis
//! of values that have only one definition, so neither control flow nor masks matter. The range may be wrong for
//! inactive lanes, but no check covers them.

use super::*;

/// The instructions that define the immutable values.
pub(crate) struct ValueDefinitions {
    insts: Vec<Option<LaneInst>>,
    /// See [`LaneRegion::full_group`].
    full_group: Option<[u32; 3]>,
}

/// Maximum number of definitions that the analysis follows from a value to its operands.
const DEPTH: u32 = 8;

/// The smallest and the largest value, inclusive. Both fit in 32 bits.
type ValueRange = (i64, i64);

const ALL: ValueRange = (i32::MIN as i64, i32::MAX as i64);

impl ValueDefinitions {
    pub fn new() -> ValueDefinitions {
        ValueDefinitions { insts: vec![], full_group: None }
    }

    pub fn of(region: &LaneRegion) -> ValueDefinitions {
        let mut definitions = ValueDefinitions { insts: vec![], full_group: region.full_group };
        let mut note = |inst: &LaneInst| {
            if region.values.get(inst.dst.index()).is_some_and(|def| !def.mutable) {
                definitions.note(inst);
            }
        };
        region.setup.iter().for_each(&mut note);
        for_each_inst(&region.body, &mut |inst| note(inst));
        definitions
    }

    /// Records the only definition of a value.
    pub fn note(&mut self, inst: &LaneInst) {
        let at = inst.dst.index();
        if self.insts.len() <= at {
            self.insts.resize(at + 1, None);
        }
        self.insts[at] = Some(*inst);
    }

    fn get(&self, value: LaneValue) -> Option<&LaneInst> {
        self.insts.get(value.index())?.as_ref()
    }

    /// Returns the value of a scalar constant.
    pub fn constant(&self, value: LaneValue) -> Option<i64> {
        match self.get(value)?.op {
            LaneOp::Const(c) => Some(c),
            _ => None,
        }
    }

    /// Returns whether a check cannot fail.
    pub fn passes(&self, check: &LaneCheck) -> bool {
        let [a, b, c] = check.args;
        let within = |index: Option<ValueRange>, extent: LaneValue| {
            let extent = self.constant(extent).or_else(|| Some(self.range(extent)?.0));
            index.zip(extent).is_some_and(|((low, high), extent)| low >= 0 && high < extent)
        };
        match check.op {
            LaneOp::CheckUniform | LaneOp::CheckLanes => within(self.range(a), b),
            LaneOp::CheckRange => within(self.range(a).zip(self.range(b)).map(|(a, b)| (a.0, b.1)), c),
            // The lanes of a full group have the coordinates from 0 to the last one.
            LaneOp::CheckRow(factor) => self.last(0).is_some_and(|last| {
                let offset = i64::from(factor) * last;
                within(self.range(a).map(|(low, high)| (low + offset.min(0), high + offset.max(0))), c)
            }),
            _ => false,
        }
    }

    /// Removes the checks that cannot fail from those that accesses require. Passes may then remove the definitions
    /// that prove them.
    pub fn drop_proved_checks(&self, accesses: &mut [AccessChecks]) {
        for access in accesses {
            access.checks.retain(|check| !self.passes(check));
        }
    }

    /// Returns the last coordinate along an axis if the group's extent is known.
    fn last(&self, axis: u8) -> Option<i64> {
        let extent = *self.full_group?.get(usize::from(axis))?;
        (extent > 0).then(|| i64::from(extent) - 1)
    }

    pub fn range(&self, value: LaneValue) -> Option<ValueRange> {
        self.follow(value, DEPTH)
    }

    fn follow(&self, value: LaneValue, depth: u32) -> Option<ValueRange> {
        let inst = self.get(value)?;
        if depth == 0 {
            return None;
        }
        let of = |k: usize| self.follow(inst.args[k], depth - 1);
        let fit_in_i32 = |(low, high): ValueRange| (low >= ALL.0 && high <= ALL.1).then_some((low, high));
        match inst.op {
            LaneOp::Const(c) => fit_in_i32((c, c)),
            // The range is valid for 4-byte and for 8-byte lanes, because the constant fits in an `i32`.
            LaneOp::Splat(bits) => i32::try_from(bits).ok().map(|c| (c.into(), c.into())),
            LaneOp::Scalar(bin, elem) | LaneOp::Vector(bin, elem) if !elem.is_float() => {
                binary(bin, elem, of(0), of(1)).and_then(fit_in_i32)
            }
            LaneOp::Coord(axis) | LaneOp::Input(RegionInput::FirstCoord(axis) | RegionInput::LastCoord(axis)) => {
                self.last(axis).map(|last| (0, last))
            }
            LaneOp::Select | LaneOp::SelectScalar => of(1).zip(of(2)).map(|(a, b)| (a.0.min(b.0), a.1.max(b.1))),
            LaneOp::Sext | LaneOp::Trunc | LaneOp::Broadcast | LaneOp::FirstLane => of(0),
            LaneOp::Zext => of(0).filter(|r| r.0 >= 0),
            LaneOp::Load(cell, _) | LaneOp::LoadScalar(cell) => match cell {
                MemoryWidth::U8 => Some((0, 0xff)),
                MemoryWidth::I8 => Some((-0x80, 0x7f)),
                MemoryWidth::U16 => Some((0, 0xffff)),
                MemoryWidth::I16 => Some((-0x8000, 0x7fff)),
                MemoryWidth::W4 | MemoryWidth::W8 => None,
            },
            _ => None,
        }
    }
}

/// Returns the range of a result if the operand ranges bound it. The caller discards ranges beyond 32 bits, because the
/// operation may have wrapped around.
fn binary(bin: LaneBinOp, elem: LaneElem, a: Option<ValueRange>, b: Option<ValueRange>) -> Option<ValueRange> {
    let natural = |r: Option<ValueRange>| r.filter(|r| r.0 >= 0);
    let constant = b.filter(|b| b.0 == b.1).map(|b| b.0);
    let unsigned = matches!(elem, LaneElem::U32 | LaneElem::U64);
    match bin {
        LaneBinOp::And => {
            let most = natural(a).into_iter().chain(natural(b)).map(|r| r.1).min()?;
            Some((0, most))
        }
        LaneBinOp::Shr => match (natural(a), constant.filter(|_| !elem.is_wide()).map(|by| by & 31)) {
            (Some(a), Some(by)) => Some((a.0 >> by, a.1 >> by)),
            (Some(a), None) => Some((0, a.1)),
            (None, Some(by)) if unsigned => Some((0, i64::from(u32::MAX) >> by)),
            (None, Some(by)) => a.or(Some(ALL)).map(|a| (a.0 >> by, a.1 >> by)),
            (None, None) => None,
        },
        LaneBinOp::Rem => {
            let most = constant.filter(|&by| by > 0)? - 1;
            match natural(a) {
                Some(a) => Some((0, a.1.min(most))),
                None => Some((if unsigned { 0 } else { -most }, most)),
            }
        }
        LaneBinOp::Div => {
            let by = constant.filter(|&by| by > 0)?;
            natural(a).map(|a| (a.0 / by, a.1 / by))
        }
        LaneBinOp::Min if unsigned => {
            let most = natural(a).into_iter().chain(natural(b)).map(|r| r.1).min()?;
            Some((0, most))
        }
        LaneBinOp::Max if unsigned => natural(a).zip(natural(b)).map(|(a, b)| (a.0.max(b.0), a.1.max(b.1))),
        LaneBinOp::Min | LaneBinOp::Max if !elem.is_wide() => {
            let (a, b) = (a.unwrap_or(ALL), b.unwrap_or(ALL));
            Some(if bin == LaneBinOp::Min { (a.0.min(b.0), a.1.min(b.1)) } else { (a.0.max(b.0), a.1.max(b.1)) })
        }
        LaneBinOp::Add => a.zip(b).map(|(a, b)| (a.0 + b.0, a.1 + b.1)),
        LaneBinOp::Sub => a.zip(b).map(|(a, b)| (a.0 - b.1, a.1 - b.0)),
        LaneBinOp::Mul => {
            let ((a, b), (c, d)) = a.zip(b)?;
            let corners = [a * c, a * d, b * c, b * d];
            Some((corners.into_iter().min()?, corners.into_iter().max()?))
        }
        LaneBinOp::Min | LaneBinOp::Max | LaneBinOp::Or | LaneBinOp::Xor | LaneBinOp::Shl => None,
    }
}
