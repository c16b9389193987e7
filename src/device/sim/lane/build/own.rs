//! Local arrays: columns of lanes, as registers are.
//!
//! Input: accesses to a memory of a thread's own. Output: loads and stores of [`Form::Own`] where the index is the same for a vector, else
//! of [`Form::OwnLanes`]. The idea: how many bytes a column has depends on the launch, but not how many columns lie in front of an
//! element, so that the constant part of an index becomes a constant of the instruction.

use super::access::{Index, Target, Wide};
use super::form::{Atom, COUNTERS, Linear, Sym, ZERO};
use super::*;
use crate::device::sim::compile::place::columns;
use crate::ir::def::{Extent, Leaf, Memory, Space};

/// The largest number of columns that is a constant of an instruction.
const FAR: i64 = 1 << 15;

/// Stores that zero an array without a loop.
const UNROLLED: i64 = 32;

impl Builder<'_> {
    /// Returns the number of columns of an element, and of those in front of the component that an access touches.
    pub(super) fn own_columns(memory: &Memory, leaf: usize, component: usize) -> (i64, i64) {
        let leaves = &memory.layout.leaves;
        let all = |leaves: &[Leaf]| leaves.iter().map(|l| columns(l.ty)).sum::<usize>() as i64;
        let scalar = leaves[leaf].ty.scalar();
        (all(leaves), all(&leaves[..leaf]) + component as i64 * Self::lane_columns(scalar))
    }

    /// Returns the columns of one component.
    pub(super) fn lane_columns(scalar: Scalar) -> i64 {
        if scalar.size() == 8 { 2 } else { 1 }
    }

    /// Returns the columns from one index of an axis to the next.
    fn own_pitch(&self, memory: MemId, axis: usize) -> Option<i64> {
        let def = &self.f.memories[memory];
        let (element, _) = Self::own_columns(def, 0, 0);
        def.extents.get(axis + 1..)?.iter().try_fold(element, |pitch, extent| match extent {
            Extent::Known(n) => pitch.checked_mul((*n).into()),
            _ => None,
        })
    }

    /// Returns these columns in bytes.
    fn column_bytes(&mut self, columns: i64) -> Value {
        let column = self.pure(Op::Input(Input::Column), Ty::I64, &[]);
        let columns = self.constant(Ty::I64, columns);
        self.pure(Op::Scalar(Bin::Mul, Elem::I64), Ty::I64, &[column, columns])
    }

    /// Returns where the column `offset` of an element lies.
    pub(super) fn own_target(&mut self, memory: MemId, indices: &[Index], offset: i64) -> Option<Target> {
        let (mut constant, mut offsets) = (offset, None);
        let mut rows: Vec<(Linear, Wide)> = vec![];
        for (axis, index) in indices.iter().enumerate() {
            let pitch = self.own_pitch(memory, axis)?;
            match index {
                Index::Linear(form, 0) => {
                    let mut form = form.clone();
                    if let Atom::Imm(base) = form.base
                        && let Some(ahead) = pitch.checked_mul(base.into()).filter(|ahead| ahead.abs() < FAR)
                    {
                        constant += ahead;
                        form.base = ZERO;
                    }
                    if form.base != ZERO || !form.terms.is_empty() {
                        let bytes = self.column_bytes(pitch);
                        rows.push((form, Wide::Value(bytes)));
                    }
                }
                index => {
                    let value = match index {
                        Index::Linear(form, _) => self.linear_vector(form),
                        Index::Lanes(value) => *value,
                    };
                    let bytes = self.column_bytes(pitch);
                    offsets = Some(self.offset(offsets, value, Wide::Value(bytes))?);
                }
            }
        }
        let base = self.pure(Op::Input(Input::Base(memory)), Ty::I64, &[]);
        let address = self.row_address(base, &rows);
        let constant = i32::try_from(constant).ok().filter(|c| i64::from(c.abs()) < 2 * FAR)?;
        Some(match offsets {
            Some(offsets) => Target { address, form: Form::OwnLanes(constant), offsets },
            None => Target { address, form: Form::Own(constant), offsets: Value::NONE },
        })
    }

    /// Zeroes a local array in the active lanes.
    pub(super) fn declare(&mut self, memory: MemId) -> Option<()> {
        let def = &self.f.memories[memory];
        if def.space != Space::Local {
            return None;
        }
        let count = def.known_len()? as i64;
        let (element, _) = Self::own_columns(def, 0, 0);
        let mut scalars = vec![];
        for leaf in &def.layout.leaves {
            scalars.extend(std::iter::repeat_n(leaf.ty.scalar(), leaf.ty.lanes() as usize));
        }
        self.touch_fresh(memory);
        let base = self.pure(Op::Input(Input::Base(memory)), Ty::I64, &[]);
        if count * scalars.len() as i64 <= UNROLLED {
            return (0..count).try_for_each(|at| self.zero_element(memory, base, at * element, [at, at], &scalars));
        }
        if element >= FAR || count >= COUNTERS {
            return None;
        }
        let (zero, one) = (self.constant(Ty::I64, 0), self.constant(Ty::I64, 1));
        let end = self.constant(Ty::I64, count);
        self.open(None, false, false);
        let exit = self.frames.last()?.exit;
        let counter = self.count(zero, None);
        let form = Linear { base: ZERO, terms: vec![(Sym::Counter(counter), Atom::Imm(1))] };
        let bytes = self.column_bytes(element);
        let address = self.row_address(base, &[(form, Wide::Value(bytes))]);
        self.zero_element(memory, address, 0, [0, count - 1], &scalars)?;
        self.push(Inst::new(Op::Scalar(Bin::Add, Elem::I64), counter, &[counter, one]));
        self.push_node(Node::Branch(Cond::Scalar(Rel::Ge, Elem::I64, counter, end), exit));
        self.close_loop();
        self.close();
        Some(())
    }

    /// Zeroes the element `column` columns behind an address, whose index along all axes as one lies in a range.
    fn zero_element(
        &mut self,
        memory: MemId,
        address: Value,
        mut column: i64,
        range: [i64; 2],
        scalars: &[Scalar],
    ) -> Option<()> {
        let count = self.f.memories[memory].known_len()? as i64;
        let extent = self.constant(Ty::I64, count);
        let checks = range.map(|at| {
            let at = self.constant(Ty::I64, at);
            self.check_at(0, Value::NONE, Op::CheckOne, &[at, extent])
        });
        for &scalar in scalars {
            let wide = scalar.size() == 8;
            let form = Form::Own(i32::try_from(column).ok().filter(|c| i64::from(*c) < 2 * FAR)?);
            self.note_access(memory, Target { address, form, offsets: Value::NONE }, &checks);
            let zero = self.splat(wide, 0);
            let cell = if wide { Cell::W8 } else { Cell::W4 };
            let store = Inst::new(Op::Store(cell, form), Value::NONE, &[address, zero]);
            self.push(store.under(self.mask));
            column += Self::lane_columns(scalar);
        }
        Some(())
    }
}
