//! Code generation for loads, stores and atomics.

use super::state::{CompilerRegClass, OpClass, StripRole};
use super::*;
use crate::events::{AccessKind, AccessTraits};
use crate::lanes::{is_wide, pick_wide};
use crate::memory::{Flag, I1, I2, LoadAffine, LoadGather, LoadUniform, U1, U2, W4, W8};
use crate::store::{StoreAffine, StoreScatter, StoreWords};
use crate::{atomics, local_arrays};
use clk_scalar::Scalar;
use clk_scalar::ops::AtomicOp;

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

impl<'a> KernelCompiler<'a> {
    /// Returns the scalar type and the number of the components that an access touches.
    fn components(&self, place: &Place) -> (Scalar, u8) {
        let leaf = &self.f.memories[place.memory].layout.leaves[place.leaf as usize];
        (leaf.ty.scalar(), if place.component.is_some() { 1 } else { leaf.ty.lanes() })
    }

    fn access(&mut self, place: &Place, span: Span, write: bool) -> (AccessOperands, Variance) {
        let memory = &self.f.memories[place.memory];
        let (scalar, _) = self.components(place);
        let leaf = &memory.layout.leaves[place.leaf as usize];
        let component = usize::from(place.component.unwrap_or(0));
        let offset = match memory.space {
            // Offsets count lane columns.
            MemorySpace::Local => {
                let before = &memory.layout.leaves[..place.leaf as usize];
                before.iter().map(|l| columns(l.ty)).sum::<usize>() + component * columns(Ty::Scalar(scalar))
            }
            _ => leaf.offset + component * scalar.size(),
        };
        let (axes, spread) = self.indices(&place.indices);
        let span = self.span(span);
        let memory = place.memory.index() as u32;
        let offset = offset as u32;
        (
            AccessOperands {
                memory,
                axes,
                offset,
                scalar,
                regs: vec![],
                span,
                write,
                may_view: false,
                prefetch: false,
            },
            spread,
        )
    }

    fn indices(&mut self, indices: &[ExprId]) -> (Vec<AffineIndex>, Variance) {
        let vals: Vec<CompiledValue> = indices.iter().map(|&i| self.value(i)[0].clone()).collect();
        let spread = |c: &Self, v: &CompiledValue| match v {
            CompiledValue::Affine(_) => Variance::Affine,
            _ if c.is_uniform(v) => Variance::Uniform,
            _ => Variance::Varying,
        };
        let most = vals.iter().map(|v| spread(self, v)).max().unwrap_or(Variance::Uniform);
        let axes = indices
            .iter()
            .zip(&vals)
            .map(|(&e, val)| {
                let scalar = self.f.exprs[e].ty.scalar();
                let mut index = match val {
                    CompiledValue::Affine(affine) if most == Variance::Affine => self.affine_index(affine),
                    _ => AffineIndex {
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

    fn push_access(&mut self, access: AccessOperands) -> u32 {
        self.tables.accesses.push(access);
        self.tables.accesses.len() as u32 - 1
    }

    pub fn load(&mut self, e: ExprId, place: &Place) -> Vec<CompiledValue> {
        let (scalar, count) = self.components(place);
        let span = self.f.spans[e];
        let (mut access, spread) = self.access(place, span, false);
        let is_local = self.f.memories[place.memory].space == MemorySpace::Local;
        access.may_view =
            spread == Variance::Affine && count == 1 && scalar.size() == 4 && !is_local && self.viewing.is_allowed;
        access.prefetch = access.may_view && matches!(self.f.memories[place.memory].space, MemorySpace::Global { .. });
        for _ in 0..count {
            let reg = match (access.may_view, count) {
                (true, _) => self.alloc(CompilerRegClass::View),
                (_, 1) => self.result(spread == Variance::Uniform && !is_local, scalar),
                _ => self.alloc_for(spread == Variance::Uniform && !is_local, scalar),
            };
            access.regs.push(reg);
        }
        let vals = access.regs.iter().map(|&r| CompiledValue::Reg(r)).collect();
        let run = match (is_local, spread) {
            (true, spread) => self.local_op(scalar, spread, false),
            (_, Variance::Uniform) => by_form!(self, scalar, LoadUniform),
            (_, Variance::Affine) => by_form!(self, scalar, LoadAffine),
            (_, Variance::Varying) => by_form!(self, scalar, LoadGather),
        };
        let early = !is_local && spread != Variance::Varying;
        if access.may_view {
            self.viewing.regs.extend(access.regs.iter().map(|&reg| (reg, access.memory)));
        }
        let writes = access.regs.clone();
        let x = self.push_access(access);
        let own = self.is_stored(place);
        self.report_touch(
            AccessKind::Load,
            x,
            spread,
            vec![],
            AccessTraits { reads_own_store: own, ..AccessTraits::default() },
        );
        self.emit(run, Op { x, ..nothing() });
        if !is_local && spread == Variance::Affine {
            self.sort(OpClass::AffineLoad);
        }
        if early {
            self.role(StripRole::Early { writes });
        }
        vals
    }

    fn local_op(&self, scalar: Scalar, spread: Variance, write: bool) -> OpFn {
        let lanes = spread != Variance::Uniform;
        match (is_wide(scalar), lanes, write) {
            (false, false, false) => self.pick::<local_arrays::LoadColumn<u32>>(),
            (true, false, false) => self.pick::<local_arrays::LoadColumn<u64>>(),
            (false, false, true) => self.pick::<local_arrays::StoreColumn<u32>>(),
            (true, false, true) => self.pick::<local_arrays::StoreColumn<u64>>(),
            (false, true, false) => self.pick::<local_arrays::LocalLanewise<u32, false>>(),
            (true, true, false) => self.pick::<local_arrays::LocalLanewise<u64, false>>(),
            (false, true, true) => self.pick::<local_arrays::LocalLanewise<u32, true>>(),
            (true, true, true) => self.pick::<local_arrays::LocalLanewise<u64, true>>(),
        }
    }

    pub fn store(&mut self, place: &Place, value: ExprId, span: Span) {
        let (scalar, _) = self.components(place);
        let (mut access, spread) = self.access(place, span, true);
        access.regs = self.regs_of(value);
        let is_local = self.f.memories[place.memory].space == MemorySpace::Local;
        let run = match (is_local, spread) {
            (true, spread) => self.local_op(scalar, spread, true),
            (_, Variance::Affine) if scalar.size() == 4 => pick_wide!(self.isa, V => StoreWords<V>),
            (_, Variance::Uniform | Variance::Affine) => by_form!(self, scalar, StoreAffine),
            (_, Variance::Varying) => by_form!(self, scalar, StoreScatter),
        };
        let words = !is_local && spread == Variance::Affine && scalar.size() == 4;
        let role = match access.regs.as_slice() {
            &[value] if words => StripRole::Store { value, memory: access.memory },
            _ => StripRole::Other,
        };
        let values = access.regs.clone();
        let x = self.push_access(access);
        self.report_touch(AccessKind::Store, x, spread, values, AccessTraits::default());
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
        let touch = if compare == Some(value) { AccessKind::AtomicLoad } else { AccessKind::AtomicRmw };
        let value = self.regs_of(value)[0];
        let compare = compare.map_or(NONE, |c| self.regs_of(c)[0]);
        let reg = match result {
            Some(e) => {
                let reg = self.alloc_for(false, scalar);
                self.bind(e, vec![CompiledValue::Reg(reg)]);
                reg
            }
            None => NONE,
        };
        let access = self.push_access(access);
        let overwrites = op == AtomicOp::Exchange && result.is_none();
        let decides = result.is_some_and(|result| self.facts.deciding.contains(&result));
        let takes = result.is_some_and(|result| self.facts.taking.contains(&result));
        self.report_touch(
            touch,
            access,
            spread,
            vec![value],
            AccessTraits {
                ignores_old_value: overwrites,
                influences_control: decides,
                is_retried: takes,
                reads_own_store: false,
            },
        );
        let x = self.tables.atomics.len() as u32;
        self.tables.atomics.push(AtomicDef { op, access, value, compare, result: reg });
        let checked = if scalar.is_float() {
            self.tables.events.checks.nan
        } else {
            self.tables.events.checks.arithmetic && scalar.is_signed()
        };
        let unseen = result.is_none() && self.f.memories[place.memory].space != MemorySpace::Local;
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
            && spread != Variance::Varying
            && scalar.size() >= 4
        {
            if scalar == Scalar::F64 {
                self.pick::<atomics::AddFloats<true>>()
            } else {
                self.pick::<atomics::AddFloats<false>>()
            }
        } else if checked {
            plain::<atomics::GeneralAtomic<true>>()
        } else {
            plain::<atomics::GeneralAtomic<false>>()
        };
        self.emit(run, Op { x, ..nothing() });
    }
}

impl KernelCompiler<'_> {
    /// Returns the op of an atomic addition (`negate`: subtraction) on 4-byte integers; `unseen` if the old values are
    /// unused.
    fn add_word<const C: bool>(&self, negate: bool, spread: Variance, unseen: bool) -> OpFn {
        match (unseen, spread, negate) {
            (false, _, false) => self.pick::<atomics::AddWord<false, C>>(),
            (false, _, true) => self.pick::<atomics::AddWord<true, C>>(),
            (true, Variance::Varying, false) => self.pick::<atomics::AddUnordered<false, C>>(),
            (true, Variance::Varying, true) => self.pick::<atomics::AddUnordered<true, C>>(),
            (true, _, false) => self.pick::<atomics::AddRows<false, C>>(),
            (true, _, true) => self.pick::<atomics::AddRows<true, C>>(),
        }
    }
}

/// Returns the number of 4-byte lane columns that a leaf (a scalar or vector component of an element) takes.
pub(crate) fn columns(ty: Ty) -> usize {
    usize::from(ty.lanes()) * if is_wide(ty.scalar()) { 2 } else { 1 }
}
