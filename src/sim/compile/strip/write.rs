//! Instruction selection for a strip: computes values in the accumulators with as few memory operands as possible.

use super::{Acc, Act, Micro, SCRATCH, StripOperand, StripValue, StripWriter, ValueId};

/// Returns the operation with its operands exchanged.
fn exchanged(act: Act) -> Option<Act> {
    Some(match act {
        Act::Add | Act::Mul | Act::Min | Act::Max | Act::Eq | Act::Ne => act,
        Act::AddI | Act::MulI | Act::EqI | Act::NeI | Act::And | Act::Or | Act::Xor => act,
        Act::Sub => Act::SubFrom,
        Act::Div => Act::DivInto,
        Act::Lt => Act::Gt,
        Act::Le => Act::Ge,
        Act::Gt => Act::Lt,
        Act::Ge => Act::Le,
        Act::SubI => Act::SubFromI,
        Act::LtI => Act::GtI,
        Act::LeI => Act::GeI,
        Act::GtI => Act::LtI,
        Act::GeI => Act::LeI,
        Act::LtU => Act::GtU,
        Act::LeU => Act::GeU,
        Act::GtU => Act::LtU,
        Act::GeU => Act::LeU,
        _ => return None,
    })
}

/// Returns the operation on accumulator B.
fn in_b(act: Act) -> Option<Act> {
    Some(match act {
        Act::Add => Act::AddB,
        Act::Sub => Act::SubB,
        Act::SubFrom => Act::SubFromB,
        Act::Mul => Act::MulB,
        _ => return None,
    })
}

/// Returns the operation whose second operand is accumulator B.
fn with_b(act: Act) -> Option<Act> {
    Some(match act {
        Act::Add => Act::AddAB,
        Act::Sub => Act::SubAB,
        Act::SubFrom => Act::SubFromAB,
        Act::Mul => Act::MulAB,
        _ => return None,
    })
}

/// Returns the operation of an accumulator with itself.
fn doubled(act: Act, acc: Acc) -> Option<Act> {
    Some(match (act, acc) {
        (Act::Mul, Acc::A) => Act::Square,
        (Act::Mul, Acc::B) => Act::SquareB,
        (Act::Add, Acc::A) => Act::Double,
        (Act::Add, Acc::B) => Act::DoubleB,
        _ => return None,
    })
}

/// Returns two operations fused into one, if there is such: memory operands of the first, then of the second.
fn joined(first: Act, second: Act) -> Option<Act> {
    Some(match (first, second) {
        (Act::Load, Act::Add) => Act::LoadAdd,
        (Act::Load, Act::Sub) => Act::LoadSub,
        (Act::Load, Act::Mul) => Act::LoadMul,
        (Act::LoadB, Act::AddB) => Act::LoadAddB,
        (Act::LoadB, Act::SubB) => Act::LoadSubB,
        (Act::LoadB, Act::MulB) => Act::LoadMulB,
        (Act::Add, Act::Add) => Act::AddAdd,
        (Act::Add, Act::Sub) => Act::AddSub,
        (Act::Add, Act::Mul) => Act::AddMul,
        (Act::Sub, Act::Add) => Act::SubAdd,
        (Act::Sub, Act::Sub) => Act::SubSub,
        (Act::Sub, Act::Mul) => Act::SubMul,
        (Act::SubFrom, Act::Add) => Act::FromAdd,
        (Act::SubFrom, Act::Sub) => Act::FromSub,
        (Act::SubFrom, Act::Mul) => Act::FromMul,
        (Act::Mul, Act::Add) => Act::MulAdd,
        (Act::Mul, Act::Sub) => Act::MulSub,
        (Act::Mul, Act::SubFrom) => Act::MulFrom,
        (Act::Mul, Act::Mul) => Act::MulMul,
        _ => return None,
    })
}

impl StripWriter {
    fn place(&mut self, place: StripOperand) -> u8 {
        let at = self.def.places.iter().position(|&p| p == place).unwrap_or_else(|| {
            self.def.places.push(place);
            self.def.places.len() - 1
        });
        u8::try_from(at).unwrap_or_else(|_| {
            self.too_large = true;
            0
        })
    }

    /// Appends an operation; the accumulator that it changes no longer holds its value.
    pub fn emit(&mut self, act: Act, places: &[StripOperand]) {
        let at: Vec<u8> = places.iter().map(|&p| self.place(p)).collect();
        let at = |k: usize| at.get(k).copied().unwrap_or(0);
        match act {
            Act::Store | Act::StoreB | Act::StoreMasked | Act::Keep | Act::KeepNot => {}
            Act::LoadB | Act::AddB | Act::SubB | Act::SubFromB | Act::MulB | Act::SquareB | Act::DoubleB => {
                self.holds[1] = None;
            }
            _ => self.holds[0] = None,
        }
        if let Some(last) = self.def.micros.last_mut() {
            if let Some(both) = joined(last.code, act) {
                *last = Micro { code: both, m: last.m, n: at(0), q: 0 };
                return;
            }
            // A load that is subtracted from an operand, or multiplied by itself.
            let turned = match (last.code, act) {
                (Act::Load, Act::SubFrom) => Some((Act::LoadSub, at(0))),
                (Act::LoadB, Act::SubFromB) => Some((Act::LoadSubB, at(0))),
                (Act::Load, Act::Square) => Some((Act::LoadMul, last.m)),
                (Act::LoadB, Act::SquareB) => Some((Act::LoadMulB, last.m)),
                _ => None,
            };
            if let Some((code, m)) = turned {
                *last = Micro { code, m, n: last.m, q: 0 };
                return;
            }
        }
        self.def.micros.push(Micro { code: act, m: at(0), n: at(1), q: at(2) });
    }

    /// Allocates a scratch slot.
    pub fn scratch(&mut self) -> StripOperand {
        let at = self.scratch_free.pop().unwrap_or_else(|| {
            self.scratch_used += 1;
            self.scratch_used - 1
        });
        self.too_large |= usize::from(self.scratch_used) > SCRATCH;
        StripOperand::Scratch(at)
    }

    /// Frees the scratch slot of a value.
    pub fn free(&mut self, value: ValueId) {
        if let Some(StripOperand::Scratch(at)) = self.values[value].place.take() {
            self.scratch_free.push(at);
        }
    }

    pub fn store(&mut self, acc: Acc, place: StripOperand) {
        let sum = self.place(place);
        // `x = m * n + x`
        if let (Acc::A, [.., product, add]) = (acc, self.def.micros.as_slice())
            && let (Act::LoadMul, Act::Add) = (product.code, add.code)
            && add.m == sum
        {
            let whole = Micro { code: Act::Accumulate, q: sum, ..*product };
            self.def.micros.pop();
            self.def.micros.pop();
            self.def.micros.push(whole);
            return;
        }
        self.emit(if acc == Acc::A { Act::Store } else { Act::StoreB }, &[place]);
    }

    /// Stores a value that has further uses.
    pub fn store_if_wanted(&mut self, value: ValueId, acc: Acc) {
        if self.values[value].uses > 0 && self.values[value].place.is_none() {
            let place = self.scratch();
            self.store(acc, place);
            self.values[value].place = Some(place);
            self.holds[acc as usize] = Some(value);
        }
    }

    fn in_memory(&self, value: ValueId) -> bool {
        self.values[value].place.is_some()
    }

    /// Consumes one use of a value as a memory operand.
    pub fn spend(&mut self, value: ValueId) -> StripOperand {
        self.values[value].uses -= 1;
        let place = self.values[value].place.unwrap_or(StripOperand::Mask);
        if self.values[value].uses == 0 && matches!(place, StripOperand::Scratch(_)) {
            self.free(value);
        }
        place
    }

    /// Computes a value that is not in memory yet and stores it.
    pub fn settle(&mut self, value: ValueId) {
        if !self.in_memory(value) {
            self.bring(value, Acc::A);
            self.store_if_wanted(value, Acc::A);
        }
    }

    /// Consumes one use of a value by computing or loading it into an accumulator.
    pub fn take(&mut self, value: ValueId, acc: Acc) {
        self.bring(value, acc);
        self.values[value].uses -= 1;
        if self.values[value].uses == 0 {
            self.free(value);
        } else {
            self.store_if_wanted(value, acc);
        }
    }

    /// Computes or loads a value into an accumulator; the number of its uses stays the same.
    pub fn bring(&mut self, value: ValueId, acc: Acc) {
        if self.holds[acc as usize] == Some(value) {
            return;
        }
        if let Some(place) = self.values[value].place {
            return self.emit(if acc == Acc::A { Act::Load } else { Act::LoadB }, &[place]);
        }
        let StripValue { act: Some(act), ref args, .. } = self.values[value] else {
            return;
        };
        let args = args.clone();
        match *args.as_slice() {
            [one] => {
                self.take(one, acc);
                self.emit(act, &[]);
            }
            [left, right] => self.two(act, left, right, acc),
            [first, ref others @ ..] => {
                others.iter().for_each(|&o| self.settle(o));
                self.take(first, acc);
                let places: Vec<StripOperand> = others.iter().map(|&o| self.spend(o)).collect();
                self.emit(act, &places);
            }
            [] => {}
        }
    }

    fn two(&mut self, act: Act, left: ValueId, right: ValueId, acc: Acc) {
        if left == right {
            if let Some(act) = doubled(act, acc) {
                self.values[left].uses -= 1;
                self.take(left, acc);
                return self.emit(act, &[]);
            }
            self.settle(right);
        }
        let held = self.holds[acc as usize];
        if let Some(turned) = exchanged(act)
            && (!self.in_memory(right) && self.in_memory(left) || held == Some(right) && self.in_memory(left))
        {
            return self.with_memory(turned, right, left, acc);
        }
        if self.in_memory(right) {
            return self.with_memory(act, left, right, acc);
        }
        if acc == Acc::A && with_b(act).is_some() {
            for (act, first, second) in [(Some(act), left, right), (exchanged(act), right, left)] {
                if let Some(act) = act
                    && let Some(joint) = with_b(act)
                    && self.fits_b(second)
                {
                    self.take(first, Acc::A);
                    // Computing the first operand may have stored the second.
                    if self.in_memory(second) {
                        let place = self.spend(second);
                        return self.emit(act, &[place]);
                    }
                    self.take(second, Acc::B);
                    return self.emit(joint, &[]);
                }
            }
        }
        self.settle(right);
        self.with_memory(act, left, right, acc);
    }

    fn with_memory(&mut self, act: Act, first: ValueId, second: ValueId, acc: Acc) {
        self.take(first, acc);
        let place = self.spend(second);
        let act = if acc == Acc::A { act } else { in_b(act).unwrap_or(act) };
        self.emit(act, &[place]);
    }

    /// Returns whether a value can be computed with accumulator B alone.
    fn fits_b(&self, value: ValueId) -> bool {
        let v = &self.values[value];
        match (v.place, v.act, v.args.as_slice()) {
            (Some(_), ..) => true,
            (None, Some(act), &[left, right]) if left == right => doubled(act, Acc::B).is_some() && self.fits_b(left),
            (None, Some(act), &[left, right]) if in_b(act).is_some() => {
                self.in_memory(left) && self.fits_b(right) || self.in_memory(right) && self.fits_b(left)
            }
            _ => false,
        }
    }
}
