//! Builds accesses to local arrays. Like registers, they are stored in columns: a column contains one 4-byte value per
//! lane.
//!
//! Input: accesses to thread-private memory. Output: loads and stores with [`AddressForm::LocalColumn`] if all lanes of
//! a vector have the same index, otherwise with [`AddressForm::LocalIndexed`]. Main idea: the size of a column depends
//! on the launch, but the number of columns before an element does not. The constant summand of an index is therefore
//! stored in the instruction as a number of columns.

use super::access::{AccessAddress, AxisIndex, WideOperand};
use super::affine_form::{COUNTER_LIMIT, FormOperand, FormSymbol, LaneAffine, ZERO};
use super::*;
use crate::compile::place::columns;
use clk_ir::def::{Leaf, Memory, MemorySpace};

/// Limit for the constant number of columns that an instruction adds to its address.
const COLUMN_LIMIT: i64 = 1 << 15;

/// Maximum number of stores that zero an array without a loop.
const UNROLLED: i64 = 32;

impl RegionBuilder<'_> {
    /// Returns the number of columns of an element, and the number of the element's columns that precede the accessed
    /// component.
    pub(super) fn local_columns(memory: &Memory, leaf: usize, component: usize) -> (i64, i64) {
        let leaves = &memory.layout.leaves;
        let all = |leaves: &[Leaf]| leaves.iter().map(|l| columns(l.ty)).sum::<usize>() as i64;
        let scalar = leaves[leaf].ty.scalar();
        (all(leaves), all(&leaves[..leaf]) + component as i64 * Self::lane_columns(scalar))
    }

    /// Returns the number of columns that one component of this type occupies.
    pub(super) fn lane_columns(scalar: Scalar) -> i64 {
        if scalar.size() == 8 { 2 } else { 1 }
    }

    /// Returns the stride between neighbors along an axis, in columns.
    fn local_stride(&self, memory: MemId, axis: usize) -> Option<i64> {
        let def = &self.f.memories[memory];
        let (element, _) = Self::local_columns(def, 0, 0);
        def.known_stride(axis, element)
    }

    /// Returns the size of this number of columns in bytes.
    fn column_bytes(&mut self, columns: i64) -> LaneValue {
        let column = self.pure(LaneOp::Input(RegionInput::ColumnBytes), LaneTy::I64, &[]);
        let columns = self.constant(LaneTy::I64, columns);
        self.pure(LaneOp::Scalar(LaneBinOp::Mul, LaneElem::I64), LaneTy::I64, &[column, columns])
    }

    /// Returns the address of column number `offset` of the element at these indices.
    pub(super) fn local_address(&mut self, memory: MemId, indices: &[AxisIndex], offset: i64) -> Option<AccessAddress> {
        let (mut constant, mut offsets) = (offset, None);
        let mut rows: Vec<(LaneAffine, WideOperand)> = vec![];
        for (axis, index) in indices.iter().enumerate() {
            let pitch = self.local_stride(memory, axis)?;
            match index {
                AxisIndex::Affine(form, 0) => {
                    let mut form = form.clone();
                    if let FormOperand::Imm(base) = form.base
                        && let Some(ahead) = pitch.checked_mul(base.into()).filter(|ahead| ahead.abs() < COLUMN_LIMIT)
                    {
                        constant += ahead;
                        form.base = ZERO;
                    }
                    if form.base != ZERO || !form.terms.is_empty() {
                        let bytes = self.column_bytes(pitch);
                        rows.push((form, WideOperand::Value(bytes)));
                    }
                }
                index => {
                    let value = match index {
                        AxisIndex::Affine(form, _) => self.linear_vector(form),
                        AxisIndex::Varying(value) => *value,
                    };
                    let bytes = self.column_bytes(pitch);
                    offsets = Some(self.offset(offsets, value, WideOperand::Value(bytes))?);
                }
            }
        }
        let base = self.pure(LaneOp::Input(RegionInput::BaseAddress(memory)), LaneTy::I64, &[]);
        let address = self.row_address(base, &rows);
        let constant = i32::try_from(constant).ok().filter(|c| i64::from(c.abs()) < 2 * COLUMN_LIMIT)?;
        Some(match offsets {
            Some(offsets) => AccessAddress { address, form: AddressForm::LocalIndexed(constant), offsets },
            None => AccessAddress { address, form: AddressForm::LocalColumn(constant), offsets: LaneValue::NONE },
        })
    }

    /// Emits code that zeroes a local array in the active lanes.
    pub(super) fn declare(&mut self, memory: MemId) -> Option<()> {
        let def = &self.f.memories[memory];
        if def.space != MemorySpace::Local {
            return None;
        }
        let count = def.known_len()? as i64;
        let (element, _) = Self::local_columns(def, 0, 0);
        let mut scalars = vec![];
        for leaf in &def.layout.leaves {
            scalars.extend(std::iter::repeat_n(leaf.ty.scalar(), leaf.ty.lanes() as usize));
        }
        self.record_zeroing(memory);
        let base = self.pure(LaneOp::Input(RegionInput::BaseAddress(memory)), LaneTy::I64, &[]);
        if count * scalars.len() as i64 <= UNROLLED {
            return (0..count).try_for_each(|at| self.zero_element(memory, base, at * element, [at, at], &scalars));
        }
        if element >= COLUMN_LIMIT || count >= COUNTER_LIMIT {
            return None;
        }
        let (zero, one) = (self.constant(LaneTy::I64, 0), self.constant(LaneTy::I64, 1));
        let end = self.constant(LaneTy::I64, count);
        self.open(None, false, false);
        let exit = self.flow.frames.last()?.exit;
        let counter = self.open_counted_loop(zero, None);
        let form = LaneAffine { base: ZERO, terms: vec![(FormSymbol::Counter(counter), FormOperand::Imm(1))] };
        let bytes = self.column_bytes(element);
        let address = self.row_address(base, &[(form, WideOperand::Value(bytes))]);
        self.zero_element(memory, address, 0, [0, count - 1], &scalars)?;
        self.push(LaneInst::new(LaneOp::Scalar(LaneBinOp::Add, LaneElem::I64), counter, &[counter, one]));
        self.push_node(LaneNode::Branch(BranchCond::Scalar(LaneComparison::Ge, LaneElem::I64, counter, end), exit));
        self.close_loop();
        self.close();
        Some(())
    }

    /// Emits code that zeroes the element `column` columns after an address. `range` is the smallest and the largest
    /// flat index of the element; the bounds checks need it.
    fn zero_element(
        &mut self,
        memory: MemId,
        address: LaneValue,
        mut column: i64,
        range: [i64; 2],
        scalars: &[Scalar],
    ) -> Option<()> {
        let count = self.f.memories[memory].known_len()? as i64;
        let extent = self.constant(LaneTy::I64, count);
        let checks = range.map(|at| {
            let at = self.constant(LaneTy::I64, at);
            self.check_at(0, LaneValue::NONE, LaneOp::CheckUniform, &[at, extent])
        });
        for &scalar in scalars {
            let wide = scalar.size() == 8;
            let form =
                AddressForm::LocalColumn(i32::try_from(column).ok().filter(|c| i64::from(*c) < 2 * COLUMN_LIMIT)?);
            self.add_access_checks(memory, AccessAddress { address, form, offsets: LaneValue::NONE }, &checks);
            let zero = self.splat(wide, 0);
            let cell = if wide { MemoryWidth::W8 } else { MemoryWidth::W4 };
            let store = LaneInst::new(LaneOp::Store(cell, form), LaneValue::NONE, &[address, zero]);
            self.push(store.with_mask(self.flow.mask));
            column += Self::lane_columns(scalar);
        }
        Some(())
    }
}
