//! Code generation for loads, stores and atomics.

use super::state::{Kind, Role, Sort};
use super::*;
use crate::device::sim::events::{Form, Touch, Traits};
use crate::device::sim::lanes::{is_wide, pick_wide};
use crate::device::sim::memory::{Flag, I1, I2, LoadAffine, LoadGather, LoadUniform, U1, U2, W4, W8};
use crate::device::sim::store::{StoreAffine, StoreScatter, StoreWords};
use crate::device::sim::{atomics, local};
use crate::lang::ops::AtomicOp;
use crate::lang::scalar::Scalar;

/// How the indices of an access vary between lanes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Spread {
    Uniform,
    Affine,
    Lanes,
}

impl From<Spread> for Form {
    fn from(spread: Spread) -> Form {
        match spread {
            Spread::Uniform => Form::One,
            Spread::Affine => Form::Rows,
            Spread::Lanes => Form::Lanes,
        }
    }
}

/// Selects the op of an access by the representation of its elements in memory.
macro_rules! by_form {
    ($self:ident, $scalar:expr, $step:ident) => {
        match $scalar {
            Scalar::Bool => $self.pick::<$step<Flag>>(),
            Scalar::I8 => $self.pick::<$step<I1>>(),
            Scalar::U8 => $self.pick::<$step<U1>>(),
            Scalar::I16 => $self.pick::<$step<I2>>(),
            Scalar::U16 | Scalar::F16 | Scalar::Bf16 => $self.pick::<$step<U2>>(),
            Scalar::I32 | Scalar::U32 | Scalar::F32 => $self.pick::<$step<W4>>(),
            Scalar::I64 | Scalar::U64 | Scalar::F64 => $self.pick::<$step<W8>>(),
        }
    };
}

impl<'a> Compiler<'a> {
    /// Returns the scalar type and the number of the components that an access touches.
    fn components(&self, place: &Place) -> (Scalar, u8) {
        let leaf = &self.f.memories[place.memory].layout.leaves[place.leaf as usize];
        (leaf.ty.scalar(), if place.component.is_some() { 1 } else { leaf.ty.lanes() })
    }

    fn access(&mut self, place: &Place, span: Span, write: bool) -> (Access, Spread) {
        let memory = &self.f.memories[place.memory];
        let (scalar, _) = self.components(place);
        let leaf = &memory.layout.leaves[place.leaf as usize];
        let component = usize::from(place.component.unwrap_or(0));
        let offset = match memory.space {
            // Offsets count lane columns.
            Space::Local => {
                let before = &memory.layout.leaves[..place.leaf as usize];
                before.iter().map(|l| columns(l.ty)).sum::<usize>() + component * columns(Ty::Scalar(scalar))
            }
            _ => leaf.offset + component * scalar.size(),
        };
        let (axes, spread) = self.indices(&place.indices);
        let span = self.span(span);
        let memory = place.memory.index() as u32;
        let offset = offset as u32;
        (Access { memory, axes, offset, scalar, regs: vec![], span, write, view: false, ahead: false }, spread)
    }

    fn indices(&mut self, indices: &[ExprId]) -> (Vec<Index>, Spread) {
        let vals: Vec<Val> = indices.iter().map(|&i| self.value(i)[0].clone()).collect();
        let spread = |c: &Self, v: &Val| match v {
            Val::Affine(_) => Spread::Affine,
            _ if c.is_uniform(v) => Spread::Uniform,
            _ => Spread::Lanes,
        };
        let most = vals.iter().map(|v| spread(self, v)).max().unwrap_or(Spread::Uniform);
        let axes = indices
            .iter()
            .zip(&vals)
            .map(|(&e, val)| {
                let scalar = self.f.exprs[e].ty.scalar();
                let mut index = match val {
                    Val::Affine(affine) if most == Spread::Affine => self.affine_index(affine),
                    _ => Index {
                        base: self.regs_of(e)[0],
                        wide: is_wide(scalar),
                        unsigned: false,
                        coef: [Coef::Zero; AXES],
                    },
                };
                index.unsigned = scalar == Scalar::U32;
                index
            })
            .collect();
        (axes, most)
    }

    fn push_access(&mut self, access: Access) -> u32 {
        self.accesses.push(access);
        self.accesses.len() as u32 - 1
    }

    pub fn load(&mut self, e: ExprId, place: &Place) -> Vec<Val> {
        let (scalar, count) = self.components(place);
        let span = self.f.spans[e];
        let (mut access, spread) = self.access(place, span, false);
        let is_local = self.f.memories[place.memory].space == Space::Local;
        access.view = spread == Spread::Affine && count == 1 && scalar.size() == 4 && !is_local && self.may_view;
        access.ahead = access.view && matches!(self.f.memories[place.memory].space, Space::Global { .. });
        for _ in 0..count {
            let reg = match (access.view, count) {
                (true, _) => self.alloc(Kind::View),
                (_, 1) => self.result(spread == Spread::Uniform && !is_local, scalar),
                _ => self.alloc_for(spread == Spread::Uniform && !is_local, scalar),
            };
            access.regs.push(reg);
        }
        let vals = access.regs.iter().map(|&r| Val::Reg(r)).collect();
        let run = match (is_local, spread) {
            (true, spread) => self.local_op(scalar, spread, false),
            (_, Spread::Uniform) => by_form!(self, scalar, LoadUniform),
            (_, Spread::Affine) => by_form!(self, scalar, LoadAffine),
            (_, Spread::Lanes) => by_form!(self, scalar, LoadGather),
        };
        let early = !is_local && spread != Spread::Lanes;
        if access.view {
            self.views.extend(access.regs.iter().map(|&reg| (reg, access.memory)));
        }
        let writes = access.regs.clone();
        let x = self.push_access(access);
        let own = self.is_stored(place);
        self.report_touch(Touch::Load, x, spread.into(), vec![], Traits { own, ..Traits::default() });
        self.emit(run, Op { x, ..nothing() });
        if !is_local && spread == Spread::Affine {
            self.sort(Sort::AffineLoad);
        }
        if early {
            self.role(Role::Early { writes });
        }
        vals
    }

    fn local_op(&self, scalar: Scalar, spread: Spread, write: bool) -> OpFn {
        let lanes = spread != Spread::Uniform;
        match (is_wide(scalar), lanes, write) {
            (false, false, false) => self.pick::<local::LoadColumn<u32>>(),
            (true, false, false) => self.pick::<local::LoadColumn<u64>>(),
            (false, false, true) => self.pick::<local::StoreColumn<u32>>(),
            (true, false, true) => self.pick::<local::StoreColumn<u64>>(),
            (false, true, false) => self.pick::<local::Lanewise<u32, false>>(),
            (true, true, false) => self.pick::<local::Lanewise<u64, false>>(),
            (false, true, true) => self.pick::<local::Lanewise<u32, true>>(),
            (true, true, true) => self.pick::<local::Lanewise<u64, true>>(),
        }
    }

    pub fn store(&mut self, place: &Place, value: ExprId, span: Span) {
        let (scalar, _) = self.components(place);
        let (mut access, spread) = self.access(place, span, true);
        access.regs = self.regs_of(value);
        let is_local = self.f.memories[place.memory].space == Space::Local;
        let run = match (is_local, spread) {
            (true, spread) => self.local_op(scalar, spread, true),
            (_, Spread::Affine) if scalar.size() == 4 => pick_wide!(self.isa, V => StoreWords<V>),
            (_, Spread::Uniform | Spread::Affine) => by_form!(self, scalar, StoreAffine),
            (_, Spread::Lanes) => by_form!(self, scalar, StoreScatter),
        };
        let words = !is_local && spread == Spread::Affine && scalar.size() == 4;
        let role = match access.regs.as_slice() {
            &[value] if words => Role::Store { value, memory: access.memory },
            _ => Role::Other,
        };
        let values = access.regs.clone();
        let x = self.push_access(access);
        self.report_touch(Touch::Store, x, spread.into(), values, Traits::default());
        self.emit(run, Op { x, ..nothing() });
        self.role(role);
    }

    pub fn atomic(
        &mut self,
        op: AtomicOp,
        place: &Place,
        value: ExprId,
        compare: Option<ExprId>,
        result: Option<ExprId>,
        span: Span,
    ) {
        let (scalar, _) = self.components(place);
        let (access, spread) = self.access(place, span, true);
        // An exchange of a value for itself changes nothing, whatever the value.
        let touch = if compare == Some(value) { Touch::Look } else { Touch::Atomic };
        let value = self.regs_of(value)[0];
        let compare = compare.map_or(NONE, |c| self.regs_of(c)[0]);
        let reg = match result {
            Some(e) => {
                let reg = self.alloc_for(false, scalar);
                self.bind(e, vec![Val::Reg(reg)]);
                reg
            }
            None => NONE,
        };
        let access = self.push_access(access);
        let overwrites = op == AtomicOp::Exchange && result.is_none();
        let decides = result.is_some_and(|result| self.deciding.contains(&result));
        let takes = result.is_some_and(|result| self.taking.contains(&result));
        self.report_touch(touch, access, spread.into(), vec![value], Traits { overwrites, decides, takes, own: false });
        let x = self.atomics.len() as u32;
        self.atomics.push(AtomicDef { op, access, value, compare, result: reg });
        let checked = if scalar.is_float() { self.checks.nan } else { self.checks.arithmetic && scalar.is_signed() };
        let unseen = result.is_none() && self.f.memories[place.memory].space != Space::Local;
        let run = if atomics::is_word_add(op, scalar) {
            let negate = op == AtomicOp::Sub;
            if checked {
                self.add_word::<true>(negate, spread, unseen)
            } else {
                self.add_word::<false>(negate, spread, unseen)
            }
        } else if op == AtomicOp::Add
            && scalar.is_float()
            && !checked
            && unseen
            && spread != Spread::Lanes
            && scalar.size() >= 4
        {
            if scalar == Scalar::F64 {
                self.pick::<atomics::AddFloats<true>>()
            } else {
                self.pick::<atomics::AddFloats<false>>()
            }
        } else if checked {
            plain::<atomics::Atomic<true>>()
        } else {
            plain::<atomics::Atomic<false>>()
        };
        self.emit(run, Op { x, ..nothing() });
    }
}

impl Compiler<'_> {
    /// Returns the op of an atomic addition (`negate`: subtraction) on 4-byte integers; `unseen` if the old values are unused.
    fn add_word<const C: bool>(&self, negate: bool, spread: Spread, unseen: bool) -> OpFn {
        match (unseen, spread, negate) {
            (false, _, false) => self.pick::<atomics::AddWord<false, C>>(),
            (false, _, true) => self.pick::<atomics::AddWord<true, C>>(),
            (true, Spread::Lanes, false) => self.pick::<atomics::Count<false, C>>(),
            (true, Spread::Lanes, true) => self.pick::<atomics::Count<true, C>>(),
            (true, _, false) => self.pick::<atomics::AddRows<false, C>>(),
            (true, _, true) => self.pick::<atomics::AddRows<true, C>>(),
        }
    }
}

/// Returns the number of 4-byte lane columns that a leaf (a scalar or vector component of an element) takes.
pub(crate) fn columns(ty: Ty) -> usize {
    usize::from(ty.lanes()) * if is_wide(ty.scalar()) { 2 } else { 1 }
}
