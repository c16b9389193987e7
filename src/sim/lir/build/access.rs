//! Builds loads and stores: their 64-bit addresses, and the bounds checks that precede them.
//!
//! Main idea: a bounds check is hoisted out of each loop on whose counter its index does not depend. If the index is
//! affine in the counter, checks for the first and the last iteration replace the check, provided that every iteration
//! performs it. A check that every lane of the group performs moves to the setup, where one check covers the range of
//! all indices.

use super::affine_form::{FormOperand, FormSymbol, LaneAffine, ZERO};
use super::*;
use clk_ir::def::{Extent, Memory, MemorySpace, Place};

/// The index of an access along one axis of the array.
pub(super) enum AxisIndex {
    /// The index as an affine form, and the form's coefficient of the x coordinate.
    Affine(LaneAffine, i32),
    /// A vector of one index per lane (`v32`).
    Varying(LaneValue),
}

/// An `i64` operand: a constant or a computed value.
#[derive(Clone, Copy)]
pub(super) enum WideOperand {
    Imm(i64),
    Value(LaneValue),
}

/// Exclusive limit in bytes for the size of a memory whose lanes are addressed with signed 32-bit byte offsets.
const OFFSET_LIMIT: i64 = 1 << 31;

/// Limit in bytes for the stride between the elements of adjacent lanes.
const STRIDE_LIMIT: i64 = 1 << 24;

fn note(checks: &mut Vec<LaneCheck>, check: LaneCheck) {
    if !checks.contains(&check) {
        checks.push(check);
    }
}

/// The leaf (scalar or vector field) of an element that an access reads or writes, or one component of a vector leaf.
pub(super) struct LeafAccess {
    pub scalar: Scalar,
    pub cell: MemoryWidth,
    /// Number of components that are accessed.
    pub count: u8,
    /// Offset of the first component in the element, and distance between components. Unit: bytes, or columns for local
    /// arrays.
    pub offset: i64,
    pub step: i64,
}

/// The operands and the form of an access's address.
#[derive(Clone, Copy)]
pub(super) struct AccessAddress {
    pub address: LaneValue,
    pub form: AddressForm,
    /// Vector of byte offsets, one per lane, if the address form requires it ([`AddressForm::has_offsets`]).
    pub offsets: LaneValue,
}

/// The base address of an access: a memory (`unit` is 1), or a table with one byte for each `unit` bytes of the memory.
#[derive(Clone, Copy)]
pub(super) struct AddressBase {
    pub base: RegionInput,
    pub unit: i64,
}

impl AddressBase {
    pub fn for_memory(memory: MemId) -> AddressBase {
        AddressBase { base: RegionInput::BaseAddress(memory), unit: 1 }
    }
}

impl RegionBuilder<'_> {
    pub(super) fn load(&mut self, place: &Place, uniform: bool) -> Option<Vec<ComponentValue>> {
        let LeafAccess { scalar, cell, count, offset, step } = self.leaf(place)?;
        self.record_access(place.memory, false);
        let (indices, mut checks) = self.indices(place)?;
        self.guard_access(place, &indices, &mut checks, false)?;
        let mut lanes = vec![];
        for k in 0..count {
            let offset = offset + i64::from(k) * step;
            let target = self.access_address(
                place.memory,
                AddressBase::for_memory(place.memory),
                &indices,
                offset,
                cell,
                &mut checks,
            )?;
            // If the expression is uniform but its address is not, the region is not built.
            if uniform && target.form != AddressForm::Uniform {
                return None;
            }
            self.add_access_checks(place.memory, target, &checks);
            lanes.push(self.load_cell(&target, cell, scalar, uniform)?);
        }
        Some(lanes)
    }

    fn load_cell(
        &mut self,
        target: &AccessAddress,
        cell: MemoryWidth,
        scalar: Scalar,
        uniform: bool,
    ) -> Option<ComponentValue> {
        if uniform && target.form != AddressForm::Uniform {
            return None;
        }
        if uniform && !scalar.is_float() {
            let ty = if cell == MemoryWidth::W8 { LaneTy::I64 } else { LaneTy::I32 };
            let value = self.result(LaneOp::LoadScalar(cell), ty, &[target.address]);
            return Some(match scalar {
                Scalar::I64 | Scalar::U64 => ComponentValue::Scalar(value),
                Scalar::Bool => {
                    let zero = self.constant(LaneTy::I32, 0);
                    ComponentValue::Scalar(self.result(
                        LaneOp::CompareScalar(LaneComparison::Ne, LaneElem::I32),
                        LaneTy::I32,
                        &[value, zero],
                    ))
                }
                _ => ComponentValue::Affine(LaneAffine::uniform(value)),
            });
        }
        let mask = if uniform { LaneValue::NONE } else { self.flow.mask };
        let args = [target.address, target.offsets];
        let args = if target.form.has_offsets() { &args[..] } else { &args[..1] };
        let value = self.result_under(LaneOp::Load(cell, target.form), cell.vector_ty(), args, mask);
        Some(if scalar == Scalar::Bool {
            ComponentValue::Mask(self.result(LaneOp::MaskFromLanes, LaneTy::Mask, &[value]))
        } else {
            ComponentValue::Vector(value)
        })
    }

    pub(super) fn store(&mut self, place: &Place, value: ExprId) -> Option<()> {
        let LeafAccess { scalar, cell, offset, step, .. } = self.leaf(place)?;
        let own = self.memory(place.memory).space == MemorySpace::Local;
        self.record_access(place.memory, true);
        let lanes = self.operand(value)?;
        let (indices, mut checks) = self.indices(place)?;
        self.guard_access(place, &indices, &mut checks, true)?;
        for (k, lane) in lanes.iter().enumerate() {
            let offset = offset + k as i64 * step;
            let mut target = self.access_address(
                place.memory,
                AddressBase::for_memory(place.memory),
                &indices,
                offset,
                cell,
                &mut checks,
            )?;
            let mut value = self.vector(lane, scalar);
            if scalar == Scalar::Bool && !own {
                let one = self.splat(false, 1);
                value = self.pure(LaneOp::Vector(LaneBinOp::And, LaneElem::U32), LaneTy::V32, &[value, one]);
            }
            if target.form == AddressForm::Uniform {
                // If several lanes store to one element, the last lane wins.
                target.form = AddressForm::Indexed;
                target.offsets = self.splat(false, 0);
            }
            self.add_access_checks(place.memory, target, &checks);
            let args = [target.address, value, target.offsets];
            let args = if target.form.has_offsets() { &args[..] } else { &args[..2] };
            self.push(LaneInst::new(LaneOp::Store(cell, target.form), LaneValue::NONE, args).with_mask(self.flow.mask));
        }
        Some(())
    }

    pub(super) fn region_memory(&mut self, memory: MemId) -> &mut RegionMemory {
        let own = self.memory(memory).space == MemorySpace::Local;
        let memories = &mut self.region.memories;
        let at = memories.iter().position(|m| m.memory == memory).unwrap_or_else(|| {
            memories.push(RegionMemory {
                memory,
                loads: false,
                stores: false,
                own,
                fresh: false,
                updates: false,
                restored: false,
            });
            memories.len() - 1
        });
        &mut memories[at]
    }

    pub(super) fn record_access(&mut self, memory: MemId, store: bool) {
        let touched = self.region_memory(memory);
        touched.loads |= !store;
        touched.stores |= store;
    }

    /// Records that the region zeroes a memory. Sets `fresh` if the region has not accessed the memory before.
    pub(super) fn record_zeroing(&mut self, memory: MemId) {
        let touched = self.region_memory(memory);
        touched.fresh |= !touched.loads && !touched.stores;
        touched.stores = true;
    }

    pub(super) fn add_access_checks(&mut self, memory: MemId, target: AccessAddress, checks: &[LaneCheck]) {
        let AccessAddress { address, offsets, form } = target;
        let access = AccessChecks {
            memory,
            address,
            offsets,
            columns: form.column_offset().unwrap_or(0),
            checks: checks.to_vec(),
        };
        if !self.region.accesses.contains(&access) {
            self.region.accesses.push(access);
        }
    }

    pub(super) fn leaf(&self, place: &Place) -> Option<LeafAccess> {
        let memory = &self.f.memories[place.memory];
        if let MemorySpace::Param { .. } = memory.space {
            return None;
        }
        let leaf = memory.layout.leaves.get(place.leaf as usize)?;
        let scalar = leaf.ty.scalar();
        let component = usize::from(place.component.unwrap_or(0));
        let count = if place.component.is_some() { 1 } else { leaf.ty.lanes() };
        let cell = MemoryWidth::from_scalar(if scalar == Scalar::Bool { Scalar::U8 } else { scalar })?;
        if memory.space == MemorySpace::Local {
            let (_, offset) = Self::local_columns(memory, place.leaf as usize, component);
            // Local arrays store elements as registers do: small types are extended to 4 bytes.
            let cell = if cell == MemoryWidth::W8 { MemoryWidth::W8 } else { MemoryWidth::W4 };
            return Some(LeafAccess { scalar, cell, count, offset, step: Self::lane_columns(scalar) });
        }
        let offset = (leaf.offset + component * scalar.size()) as i64;
        Some(LeafAccess { scalar, cell, count, offset, step: cell.size().into() })
    }

    /// Computes the indices of the accessed element and emits their bounds checks. Returns the indices and the checks.
    pub(super) fn indices(&mut self, place: &Place) -> Option<(Vec<AxisIndex>, Vec<LaneCheck>)> {
        let mut indices = vec![];
        for &e in &place.indices {
            let scalar = self.f.exprs[e].ty.scalar();
            if scalar.size() == 8 || !scalar.is_int() {
                return None;
            }
            let lane = match self.operand(e)?.into_iter().next()? {
                // `Bits` is a constant of an 8-bit or 16-bit integer type.
                ComponentValue::Bits(bits) => ComponentValue::Affine(LaneAffine::imm(bits as u32 as i32)),
                lane => lane,
            };
            let index = match &lane {
                ComponentValue::Affine(form) => {
                    let form = self.limit_counters(form);
                    match form.index_coefficient() {
                        Some(c) => AxisIndex::Affine(form, c),
                        None => AxisIndex::Varying(self.linear_vector(&form)),
                    }
                }
                _ => AxisIndex::Varying(self.vector(&lane, scalar)),
            };
            indices.push(index);
        }
        let mut checks = vec![];
        for (axis, index) in indices.iter().enumerate() {
            let extent = self.extent(place.memory, axis as u8);
            match index {
                AxisIndex::Affine(form, c) => self.check_linear(form, *c, extent, &mut checks),
                AxisIndex::Varying(value) => {
                    let extent = self.pure(LaneOp::Trunc, LaneTy::I32, &[extent]);
                    let extent = self.pure(LaneOp::Broadcast, LaneTy::V32, &[extent]);
                    checks.push(self.check_at(self.level(), self.flow.mask, LaneOp::CheckLanes, &[*value, extent]));
                }
            }
        }
        Some((indices, checks))
    }

    pub(super) fn memory(&self, memory: MemId) -> &Memory {
        &self.f.memories[memory]
    }

    fn extent(&mut self, memory: MemId, axis: u8) -> LaneValue {
        match self.memory(memory).extents.get(axis as usize) {
            Some(&Extent::Known(n)) => self.constant(LaneTy::I64, n.into()),
            _ => self.pure(LaneOp::Input(RegionInput::Extent(memory, axis)), LaneTy::I64, &[]),
        }
    }

    /// Returns the stride between neighbors along an axis of a memory, in bytes.
    pub(super) fn pitch(&mut self, memory: MemId, axis: u8) -> WideOperand {
        let def = self.memory(memory);
        match def.known_stride(axis.into(), def.layout.size as i64) {
            Some(pitch) => WideOperand::Imm(pitch),
            None => WideOperand::Value(self.pure(LaneOp::Input(RegionInput::Pitch(memory, axis)), LaneTy::I64, &[])),
        }
    }

    /// Like [`RegionBuilder::pitch`], but in units of [`AddressBase::unit`] bytes.
    fn pitch_in(&mut self, memory: MemId, view: AddressBase, axis: u8) -> WideOperand {
        match self.pitch(memory, axis) {
            WideOperand::Imm(bytes) => WideOperand::Imm(bytes / view.unit),
            WideOperand::Value(bytes) if view.unit == 1 => WideOperand::Value(bytes),
            WideOperand::Value(bytes) => {
                let unit = self.constant(LaneTy::I64, view.unit);
                WideOperand::Value(self.wide_op(LaneBinOp::Div, Some(bytes), unit))
            }
        }
    }

    // Bounds checks

    /// Emits a check at a level, that is, outside the loops nested deeper than the level. Emits nothing if the check
    /// provably passes or an earlier identical check is available.
    pub(super) fn check_at(&mut self, level: u8, mask: LaneValue, op: LaneOp, args: &[LaneValue]) -> LaneCheck {
        let inst = LaneInst::new(op, LaneValue::NONE, args).with_mask(mask);
        let check = LaneCheck { op, args: inst.args };
        if self.definitions.passes(&check) {
            return check;
        }
        let key = (op, LaneTy::Mask, inst.args);
        if self.numbering.iter().any(|(_, known)| known.contains_key(&key)) {
            return check;
        }
        self.place(level, inst);
        self.remember(level, key, LaneValue::NONE);
        check
    }

    /// Returns the smallest and the largest value of an index if its base, its coefficients and the last values of its
    /// counters are constants.
    fn extremes(&self, form: &LaneAffine) -> Option<(i64, i64)> {
        let FormOperand::Imm(base) = form.base else { return None };
        let (mut low, mut high) = (i64::from(base), i64::from(base));
        for &(sym, c) in &form.terms {
            let (FormSymbol::Counter(counter), FormOperand::Imm(c)) = (sym, c) else { return None };
            let most = i64::from(c) * self.last_values.get(&counter)?;
            (low, high) = (low + most.min(0), high + most.max(0));
        }
        Some((low, high))
    }

    /// Returns whether an index is provably in bounds for all values of its loop counters. If so, adds the proved
    /// checks to `checks`.
    fn is_bounded(&mut self, form: &LaneAffine, extent: LaneValue, checks: &mut Vec<LaneCheck>) -> bool {
        let Some((low, high)) = self.extremes(form) else { return false };
        let all = [low, high].map(|at| {
            let at = self.constant(LaneTy::I64, at);
            LaneCheck { op: LaneOp::CheckUniform, args: [at, extent, LaneValue::NONE] }
        });
        let passes = all.iter().all(|check| self.definitions.passes(check));
        if passes {
            all.into_iter().for_each(|check| note(checks, check));
        }
        passes
    }

    /// Emits the bounds checks of an affine index, hoisted out of as many enclosing loops as possible. `c` is the
    /// index's coefficient of x.
    fn check_linear(&mut self, form: &LaneAffine, c: i32, extent: LaneValue, checks: &mut Vec<LaneCheck>) {
        if self.is_bounded(form, extent, checks) {
            return;
        }
        let mut ats: Vec<Vec<(LaneValue, Option<LaneValue>)>> = vec![vec![]];
        let (mut level, mut mask) = (self.level(), self.flow.mask);
        for number in (0..self.flow.loops.len()).rev() {
            let scope = &self.flow.loops[number];
            let always = match self.flow.loops.get(number + 1) {
                Some(inner) => inner.always_runs,
                None => self.flow.depth == scope.depth && !scope.may_end_early,
            };
            if !always {
                break;
            }
            let mut outer = ats.clone();
            if let Some((counter, last)) = scope.counter
                && form.coefficient_of(FormSymbol::Counter(counter)) != ZERO
            {
                let with = |value: Option<LaneValue>| {
                    ats.iter().map(move |at| at.iter().copied().chain([(counter, value)]).collect::<Vec<_>>())
                };
                outer = with(None).chain(with(Some(last))).collect();
            }
            let front = number as u8 + 1;
            if outer.len() > 4 || outer.iter().any(|at| self.linear_level(form, at) > front) {
                break;
            }
            (ats, level, mask) = (outer, front, scope.mask);
        }
        let all = self.flow.depth == 0 && self.flow.always_runs && mask == self.flow.entered
            || self
                .flow
                .loops
                .first()
                .is_some_and(|l| level == 1 && l.always_runs && l.depth == 0 && mask == self.flow.entered);
        if level == 1 && all && self.check_range(form, c, extent, &ats, checks) {
            return;
        }
        for at in ats {
            let row = self.linear_row(form, &at);
            checks.push(if c == 0 {
                self.check_at(level, mask, LaneOp::CheckUniform, &[row, extent])
            } else {
                let limit = self.pure(LaneOp::RowLimit(c), LaneTy::I64, &[extent]);
                self.check_at(level, mask, LaneOp::CheckRow(c), &[row, limit, extent])
            });
        }
    }

    /// If the index depends only on coordinates and setup values, emits a check in the setup that covers all active
    /// lanes, and returns true.
    fn check_range(
        &mut self,
        form: &LaneAffine,
        c: i32,
        extent: LaneValue,
        ats: &[Vec<(LaneValue, Option<LaneValue>)>],
        checks: &mut Vec<LaneCheck>,
    ) -> bool {
        let rest = LaneAffine {
            base: form.base,
            terms: form.terms.iter().copied().filter(|(s, _)| !matches!(s, FormSymbol::Axis(_))).collect(),
        };
        let mut axes = vec![(0, c)];
        for axis in 1..3 {
            match form.coefficient(axis) {
                FormOperand::Imm(c) => axes.push((axis, c)),
                FormOperand::Value(_) => return false,
            }
        }
        if ats.iter().any(|at| self.linear_level(&rest, at) > 0) {
            return false;
        }
        for at in ats {
            let row = self.linear_row(&rest, at);
            let (mut low, mut high) = (row, row);
            for &(axis, c) in axes.iter().filter(|a| a.1 != 0) {
                let first = self.pure(LaneOp::Input(RegionInput::FirstCoord(axis)), LaneTy::I64, &[]);
                let last = self.pure(LaneOp::Input(RegionInput::LastCoord(axis)), LaneTy::I64, &[]);
                let (least, most) = if c > 0 { (first, last) } else { (last, first) };
                let factor = self.constant(LaneTy::I64, c.into());
                let least = self.wide_op(LaneBinOp::Mul, Some(least), factor);
                let most = self.wide_op(LaneBinOp::Mul, Some(most), factor);
                low = self.wide_op(LaneBinOp::Add, Some(low), least);
                high = self.wide_op(LaneBinOp::Add, Some(high), most);
            }
            checks.push(self.check_at(0, LaneValue::NONE, LaneOp::CheckRange, &[low, high, extent]));
        }
        true
    }

    // Computation of addresses

    pub(super) fn access_address(
        &mut self,
        memory: MemId,
        view: AddressBase,
        indices: &[AxisIndex],
        offset: i64,
        cell: MemoryWidth,
        checks: &mut Vec<LaneCheck>,
    ) -> Option<AccessAddress> {
        if self.memory(memory).space == MemorySpace::Local {
            return self.local_address(memory, indices, offset);
        }
        let base = self.pure(LaneOp::Input(view.base), LaneTy::I64, &[]);
        let mut address = match offset {
            0 => base,
            _ => {
                let offset = self.constant(LaneTy::I64, offset);
                self.wide_op(LaneBinOp::Add, Some(base), offset)
            }
        };
        let lanes = indices.iter().any(|i| matches!(i, AxisIndex::Varying(_)));
        let (mut along, mut offsets) = (WideOperand::Imm(0), None);
        let mut rows: Vec<(LaneAffine, WideOperand)> = vec![];
        for (axis, index) in indices.iter().enumerate() {
            let pitch = self.pitch_in(memory, view, axis as u8);
            match index {
                AxisIndex::Affine(form, 0) => rows.push((form.clone(), pitch)),
                AxisIndex::Affine(form, _) if lanes => {
                    let value = self.linear_vector(form);
                    offsets = Some(self.offset(offsets, value, pitch)?);
                }
                AxisIndex::Affine(form, c) => {
                    along = self.wide_sum(along, WideOperand::Imm((*c).into()), pitch);
                    rows.push((form.clone(), pitch));
                }
                AxisIndex::Varying(value) => offsets = Some(self.offset(offsets, *value, pitch)?),
            }
        }
        address = self.row_address(address, &rows);
        if let Some(offsets) = offsets {
            self.check_size(memory, checks)?;
            return Some(AccessAddress { address, form: AddressForm::Indexed, offsets });
        }
        let (form, offsets) = match along {
            WideOperand::Imm(0) => (AddressForm::Uniform, LaneValue::NONE),
            WideOperand::Imm(bytes) if bytes == i64::from(cell.size()) => (AddressForm::Contiguous, LaneValue::NONE),
            along => {
                let first = self.wide_sym(FormSymbol::Axis(0));
                let (bytes, step) = match along {
                    WideOperand::Imm(bytes) => {
                        let step = i32::try_from(bytes).ok().filter(|s| i64::from(s.unsigned_abs()) < STRIDE_LIMIT)?;
                        (self.constant(LaneTy::I64, bytes), self.pure(LaneOp::Iota(step), LaneTy::V32, &[]))
                    }
                    WideOperand::Value(bytes) => {
                        self.check_step(bytes, checks);
                        let step = self.pure(LaneOp::Trunc, LaneTy::I32, &[bytes]);
                        let step = self.pure(LaneOp::Broadcast, LaneTy::V32, &[step]);
                        let lanes = self.pure(LaneOp::Iota(1), LaneTy::V32, &[]);
                        (bytes, self.pure(LaneOp::Vector(LaneBinOp::Mul, LaneElem::I32), LaneTy::V32, &[step, lanes]))
                    }
                };
                let first = self.wide_op(LaneBinOp::Mul, Some(first), bytes);
                address = self.wide_op(LaneBinOp::Add, Some(address), first);
                (AddressForm::Indexed, step)
            }
        };
        Some(AccessAddress { address, form, offsets })
    }

    /// Emits a check in the setup that all byte offsets of a memory fit in 32 bits.
    fn check_size(&mut self, memory: MemId, checks: &mut Vec<LaneCheck>) -> Option<()> {
        let extent = match self.memory(memory).extents.first()? {
            Extent::Known(n) => WideOperand::Imm((*n).into()),
            _ => WideOperand::Value(self.extent(memory, 0)),
        };
        let pitch = self.pitch(memory, 0);
        match self.wide_sum(WideOperand::Imm(0), extent, pitch) {
            WideOperand::Imm(bytes) => (0..OFFSET_LIMIT).contains(&bytes).then_some(()),
            WideOperand::Value(bytes) => {
                let limit = self.constant(LaneTy::I64, OFFSET_LIMIT);
                note(checks, self.check_at(0, LaneValue::NONE, LaneOp::CheckRange, &[bytes, bytes, limit]));
                Some(())
            }
        }
    }

    /// Emits a check in the setup that this byte stride times any lane number of a vector fits in 32 bits.
    fn check_step(&mut self, bytes: LaneValue, checks: &mut Vec<LaneCheck>) {
        let (half, limit) = (self.constant(LaneTy::I64, STRIDE_LIMIT), self.constant(LaneTy::I64, 2 * STRIDE_LIMIT));
        let bytes = self.wide_op(LaneBinOp::Add, Some(bytes), half);
        note(checks, self.check_at(0, LaneValue::NONE, LaneOp::CheckRange, &[bytes, bytes, limit]));
    }

    /// Adds the byte offsets of these indices, except their multiples of x, to an address. Loop-invariant terms are
    /// added first, so that the partial sums can be hoisted.
    pub(super) fn row_address(&mut self, address: LaneValue, rows: &[(LaneAffine, WideOperand)]) -> LaneValue {
        let rows: Vec<(LaneAffine, WideOperand)> =
            rows.iter().map(|(form, pitch)| (form.without(FormSymbol::Axis(0)), *pitch)).collect();
        let mut parts = self.parts(&rows);
        parts.sort_by_key(|&(sym, bytes)| {
            let own = if let WideOperand::Value(v) = bytes { self.levels[v.index()] } else { 0 };
            own.max(sym.map_or(0, |sym| self.sym_level(sym)))
        });
        let mut sum = address;
        for (sym, bytes) in parts {
            let bytes = self.wide_value(bytes);
            let term = match sym {
                None => bytes,
                Some(sym) => {
                    let sym = self.wide_sym(sym);
                    self.wide_op(LaneBinOp::Mul, Some(sym), bytes)
                }
            };
            sum = self.wide_op(LaneBinOp::Add, Some(sum), term);
        }
        sum
    }

    /// Returns the total byte offset of the indices as an affine form: the coefficient of each symbol, in bytes. The
    /// base has the symbol `None`.
    pub(super) fn parts(&mut self, rows: &[(LaneAffine, WideOperand)]) -> Vec<(Option<FormSymbol>, WideOperand)> {
        let mut parts: Vec<(Option<FormSymbol>, WideOperand)> = vec![];
        for (form, pitch) in rows {
            let terms = form.terms.iter().map(|&(sym, c)| (Some(sym), c));
            for (sym, c) in std::iter::once((None, form.base)).chain(terms).filter(|part| part.1 != ZERO) {
                let c = match c {
                    FormOperand::Imm(c) => WideOperand::Imm(c.into()),
                    FormOperand::Value(_) => WideOperand::Value(self.wide(c)),
                };
                match parts.iter().position(|p| p.0 == sym) {
                    Some(at) => parts[at].1 = self.wide_sum(parts[at].1, c, *pitch),
                    None => {
                        let product = self.wide_sum(WideOperand::Imm(0), c, *pitch);
                        parts.push((sym, product));
                    }
                }
            }
        }
        parts
    }

    pub(super) fn wide_value(&mut self, wide: WideOperand) -> LaneValue {
        match wide {
            WideOperand::Imm(v) => self.constant(LaneTy::I64, v),
            WideOperand::Value(value) => value,
        }
    }

    /// Returns `sum + a·b`.
    fn wide_sum(&mut self, sum: WideOperand, a: WideOperand, b: WideOperand) -> WideOperand {
        let product = match (a, b) {
            (WideOperand::Imm(a), WideOperand::Imm(b)) => WideOperand::Imm(a.wrapping_mul(b)),
            (WideOperand::Imm(1), b) => b,
            (a, WideOperand::Imm(1)) => a,
            (a, b) => {
                let (a, b) = (self.wide_value(a), self.wide_value(b));
                WideOperand::Value(self.wide_op(LaneBinOp::Mul, Some(a), b))
            }
        };
        match (sum, product) {
            (WideOperand::Imm(a), WideOperand::Imm(b)) => WideOperand::Imm(a.wrapping_add(b)),
            (WideOperand::Imm(0), product) => product,
            (sum, product) => {
                let (a, b) = (self.wide_value(sum), self.wide_value(product));
                WideOperand::Value(self.wide_op(LaneBinOp::Add, Some(a), b))
            }
        }
    }

    /// Adds a varying index times its pitch to a vector of byte offsets.
    pub(super) fn offset(
        &mut self,
        offsets: Option<LaneValue>,
        index: LaneValue,
        pitch: WideOperand,
    ) -> Option<LaneValue> {
        let bytes = match pitch {
            WideOperand::Imm(1) => index,
            WideOperand::Imm(pitch) if (pitch as u64).is_power_of_two() && pitch < 1 << 30 => {
                let by = self.splat(false, u64::from(pitch.trailing_zeros()));
                self.pure(LaneOp::Vector(LaneBinOp::Shl, LaneElem::I32), LaneTy::V32, &[index, by])
            }
            WideOperand::Imm(pitch) => {
                let pitch = self.splat(false, u64::from(u32::try_from(pitch).ok()?));
                self.pure(LaneOp::Vector(LaneBinOp::Mul, LaneElem::I32), LaneTy::V32, &[index, pitch])
            }
            WideOperand::Value(pitch) => {
                let pitch = self.pure(LaneOp::Trunc, LaneTy::I32, &[pitch]);
                let pitch = self.pure(LaneOp::Broadcast, LaneTy::V32, &[pitch]);
                self.pure(LaneOp::Vector(LaneBinOp::Mul, LaneElem::I32), LaneTy::V32, &[index, pitch])
            }
        };
        Some(match offsets {
            None => bytes,
            Some(sum) => self.pure(LaneOp::Vector(LaneBinOp::Add, LaneElem::I32), LaneTy::V32, &[sum, bytes]),
        })
    }
}
