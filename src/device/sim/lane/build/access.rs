//! Loads and stores: addresses in 64 bits, and the checks in front of them.
//!
//! A check moves out of the loops that it does not depend on, and of a loop over whose counter it is linear, as a check of the first
//! and of the last iteration, as long as each iteration would have made it. One that every lane of the group makes anyway moves into
//! the setup, as a check of the range of all their indices.

use super::form::{Atom, Linear, Sym, ZERO};
use super::*;
use crate::ir::def::{Extent, Memory, Place, Space};

/// An index along one axis.
pub(super) enum Index {
    /// And its multiple of x.
    Linear(Linear, i32),
    /// A `v32`.
    Lanes(Value),
}

/// An `i64` that may be known.
#[derive(Clone, Copy)]
pub(super) enum Wide {
    Imm(i64),
    Value(Value),
}

/// Memories with offsets of 32 bits (which are signed) have fewer bytes than this.
const OFFSETS: i64 = 1 << 31;

/// Steps of bytes from lane to lane are smaller than this.
const STEPS: i64 = 1 << 24;

fn note(checks: &mut Vec<Check>, check: Check) {
    if !checks.contains(&check) {
        checks.push(check);
    }
}

/// What an access touches of an element.
pub(super) struct Leaf {
    pub scalar: Scalar,
    pub cell: Cell,
    /// Components.
    pub count: u8,
    /// Bytes (of local arrays: columns) in front of it, and from one component to the next.
    pub offset: i64,
    pub step: i64,
}

/// Where an access goes.
#[derive(Clone, Copy)]
pub(super) struct Target {
    pub address: Value,
    pub form: Form,
    /// Byte offsets, for forms that have some.
    pub offsets: Value,
}

/// What the addresses of an access are relative to: a memory, or a table with a byte for each `unit` bytes of it.
#[derive(Clone, Copy)]
pub(super) struct View {
    pub base: Input,
    pub unit: i64,
}

impl View {
    pub fn of(memory: MemId) -> View {
        View { base: Input::Base(memory), unit: 1 }
    }
}

impl Builder<'_> {
    pub(super) fn load(&mut self, place: &Place, uniform: bool) -> Option<Vec<Lane>> {
        let Leaf { scalar, cell, count, offset, step } = self.leaf(place)?;
        self.touch(place.memory, false);
        let (indices, mut checks) = self.indices(place)?;
        self.guard_access(place, &indices, &mut checks, false)?;
        let mut lanes = vec![];
        for k in 0..count {
            let offset = offset + i64::from(k) * step;
            let target = self.target(place.memory, View::of(place.memory), &indices, offset, cell, &mut checks)?;
            // What is the same in all lanes has no lanes that differ.
            if uniform && target.form != Form::One {
                return None;
            }
            self.note_access(place.memory, target, &checks);
            lanes.push(self.load_cell(&target, cell, scalar, uniform)?);
        }
        Some(lanes)
    }

    fn load_cell(&mut self, target: &Target, cell: Cell, scalar: Scalar, uniform: bool) -> Option<Lane> {
        if uniform && target.form != Form::One {
            return None;
        }
        if uniform && !scalar.is_float() {
            let ty = if cell == Cell::W8 { Ty::I64 } else { Ty::I32 };
            let value = self.result(Op::LoadScalar(cell), ty, &[target.address]);
            return Some(match scalar {
                Scalar::I64 | Scalar::U64 => Lane::Scalar(value),
                Scalar::Bool => {
                    let zero = self.constant(Ty::I32, 0);
                    Lane::Scalar(self.result(Op::Set(Rel::Ne, Elem::I32), Ty::I32, &[value, zero]))
                }
                _ => Lane::Linear(Linear::uniform(value)),
            });
        }
        let mask = if uniform { Value::NONE } else { self.mask };
        let args = [target.address, target.offsets];
        let args = if target.form.has_offsets() { &args[..] } else { &args[..1] };
        let value = self.result_under(Op::Load(cell, target.form), cell.vector(), args, mask);
        Some(if scalar == Scalar::Bool {
            Lane::Mask(self.result(Op::MaskOfLanes, Ty::Mask, &[value]))
        } else {
            Lane::Vector(value)
        })
    }

    pub(super) fn store(&mut self, place: &Place, value: ExprId) -> Option<()> {
        let Leaf { scalar, cell, offset, step, .. } = self.leaf(place)?;
        let own = self.memory(place.memory).space == Space::Local;
        self.touch(place.memory, true);
        let lanes = self.operand(value)?;
        let (indices, mut checks) = self.indices(place)?;
        self.guard_access(place, &indices, &mut checks, true)?;
        for (k, lane) in lanes.iter().enumerate() {
            let offset = offset + k as i64 * step;
            let mut target = self.target(place.memory, View::of(place.memory), &indices, offset, cell, &mut checks)?;
            let mut value = self.vector(lane, scalar);
            if scalar == Scalar::Bool && !own {
                let one = self.splat(false, 1);
                value = self.pure(Op::Vector(Bin::And, Elem::U32), Ty::V32, &[value, one]);
            }
            if target.form == Form::One {
                // Of the lanes that store to one element, the last one wins.
                target.form = Form::Lanes;
                target.offsets = self.splat(false, 0);
            }
            self.note_access(place.memory, target, &checks);
            let args = [target.address, value, target.offsets];
            let args = if target.form.has_offsets() { &args[..] } else { &args[..2] };
            self.push(Inst::new(Op::Store(cell, target.form), Value::NONE, args).under(self.mask));
        }
        Some(())
    }

    pub(super) fn touched(&mut self, memory: MemId) -> &mut Touched {
        let own = self.memory(memory).space == Space::Local;
        let memories = &mut self.region.memories;
        let at = memories.iter().position(|m| m.memory == memory).unwrap_or_else(|| {
            memories.push(Touched {
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

    pub(super) fn touch(&mut self, memory: MemId, store: bool) {
        let touched = self.touched(memory);
        touched.loads |= !store;
        touched.stores |= store;
    }

    /// Notes that the region zeroes a memory, before all accesses unless there have been some.
    pub(super) fn touch_fresh(&mut self, memory: MemId) {
        let touched = self.touched(memory);
        touched.fresh |= !touched.loads && !touched.stores;
        touched.stores = true;
    }

    pub(super) fn note_access(&mut self, memory: MemId, target: Target, checks: &[Check]) {
        let Target { address, offsets, form } = target;
        let access = Access { memory, address, offsets, columns: form.columns().unwrap_or(0), checks: checks.to_vec() };
        if !self.region.accesses.contains(&access) {
            self.region.accesses.push(access);
        }
    }

    pub(super) fn leaf(&self, place: &Place) -> Option<Leaf> {
        let memory = &self.f.memories[place.memory];
        if let Space::Param { .. } = memory.space {
            return None;
        }
        let leaf = memory.layout.leaves.get(place.leaf as usize)?;
        let scalar = leaf.ty.scalar();
        let component = usize::from(place.component.unwrap_or(0));
        let count = if place.component.is_some() { 1 } else { leaf.ty.lanes() };
        let cell = Cell::of(if scalar == Scalar::Bool { Scalar::U8 } else { scalar })?;
        if memory.space == Space::Local {
            let (_, offset) = Self::own_columns(memory, place.leaf as usize, component);
            // Lanes, as registers hold them.
            let cell = if cell == Cell::W8 { Cell::W8 } else { Cell::W4 };
            return Some(Leaf { scalar, cell, count, offset, step: Self::lane_columns(scalar) });
        }
        let offset = (leaf.offset + component * scalar.size()) as i64;
        Some(Leaf { scalar, cell, count, offset, step: cell.size().into() })
    }

    /// Returns the indices of a place, and their checks, which now are made.
    pub(super) fn indices(&mut self, place: &Place) -> Option<(Vec<Index>, Vec<Check>)> {
        let mut indices = vec![];
        for &e in &place.indices {
            let scalar = self.f.exprs[e].ty.scalar();
            if scalar.size() == 8 || !scalar.is_int() {
                return None;
            }
            let lane = match self.operand(e)?.into_iter().next()? {
                // A constant of a small type.
                Lane::Bits(bits) => Lane::Linear(Linear::imm(bits as u32 as i32)),
                lane => lane,
            };
            let index = match &lane {
                Lane::Linear(form) => {
                    let form = self.few_counters(form);
                    match form.as_index() {
                        Some(c) => Index::Linear(form, c),
                        None => Index::Lanes(self.linear_vector(&form)),
                    }
                }
                _ => Index::Lanes(self.vector(&lane, scalar)),
            };
            indices.push(index);
        }
        let mut checks = vec![];
        for (axis, index) in indices.iter().enumerate() {
            let extent = self.extent(place.memory, axis as u8);
            match index {
                Index::Linear(form, c) => self.check_linear(form, *c, extent, &mut checks),
                Index::Lanes(value) => {
                    let extent = self.pure(Op::Trunc, Ty::I32, &[extent]);
                    let extent = self.pure(Op::Broadcast, Ty::V32, &[extent]);
                    checks.push(self.check_at(self.level(), self.mask, Op::CheckLanes, &[*value, extent]));
                }
            }
        }
        Some((indices, checks))
    }

    pub(super) fn memory(&self, memory: MemId) -> &Memory {
        &self.f.memories[memory]
    }

    fn extent(&mut self, memory: MemId, axis: u8) -> Value {
        match self.memory(memory).extents.get(axis as usize) {
            Some(&Extent::Known(n)) => self.constant(Ty::I64, n.into()),
            _ => self.pure(Op::Input(Input::Extent(memory, axis)), Ty::I64, &[]),
        }
    }

    /// Returns the bytes from one index of an axis to the next.
    pub(super) fn pitch(&mut self, memory: MemId, axis: u8) -> Wide {
        let def = self.memory(memory);
        let inner = def.extents.get(axis as usize + 1..).unwrap_or_default();
        let size = def.layout.size as i64;
        let known = inner.iter().try_fold(size, |pitch, extent| match extent {
            Extent::Known(n) => pitch.checked_mul((*n).into()),
            _ => None,
        });
        match known {
            Some(pitch) => Wide::Imm(pitch),
            None => Wide::Value(self.pure(Op::Input(Input::Pitch(memory, axis)), Ty::I64, &[])),
        }
    }

    /// As [`Builder::pitch`], in a view of the memory.
    fn pitch_in(&mut self, memory: MemId, view: View, axis: u8) -> Wide {
        match self.pitch(memory, axis) {
            Wide::Imm(bytes) => Wide::Imm(bytes / view.unit),
            Wide::Value(bytes) if view.unit == 1 => Wide::Value(bytes),
            Wide::Value(bytes) => {
                let unit = self.constant(Ty::I64, view.unit);
                Wide::Value(self.wide_op(Bin::Div, Some(bytes), unit))
            }
        }
    }

    // Checks

    /// Writes a check in front of the loops of higher levels, unless it passes anyway or has been made there.
    pub(super) fn check_at(&mut self, level: u8, mask: Value, op: Op, args: &[Value]) -> Check {
        let inst = Inst::new(op, Value::NONE, args).under(mask);
        let check = Check { op, args: inst.args };
        if self.definitions.passes(&check) {
            return check;
        }
        let key = (op, Ty::Mask, inst.args);
        if self.known.iter().any(|(_, known)| known.contains_key(&key)) {
            return check;
        }
        self.place(level, inst);
        self.remember(level, key, Value::NONE);
        check
    }

    /// Returns the smallest and the largest value that an index of known parts and counters can have.
    fn extremes(&self, form: &Linear) -> Option<(i64, i64)> {
        let Atom::Imm(base) = form.base else { return None };
        let (mut low, mut high) = (i64::from(base), i64::from(base));
        for &(sym, c) in &form.terms {
            let (Sym::Counter(counter), Atom::Imm(c)) = (sym, c) else { return None };
            let most = i64::from(c) * self.lasts.get(&counter)?;
            (low, high) = (low + most.min(0), high + most.max(0));
        }
        Some((low, high))
    }

    /// Notes the checks of an index that is in bounds whatever its counters are; returns whether it is.
    fn is_bounded(&mut self, form: &Linear, extent: Value, checks: &mut Vec<Check>) -> bool {
        let Some((low, high)) = self.extremes(form) else { return false };
        let all = [low, high].map(|at| {
            let at = self.constant(Ty::I64, at);
            Check { op: Op::CheckOne, args: [at, extent, Value::NONE] }
        });
        let passes = all.iter().all(|check| self.definitions.passes(check));
        if passes {
            all.into_iter().for_each(|check| note(checks, check));
        }
        passes
    }

    /// Checks a linear index, in front of the loops that need not repeat the check.
    fn check_linear(&mut self, form: &Linear, c: i32, extent: Value, checks: &mut Vec<Check>) {
        if self.is_bounded(form, extent, checks) {
            return;
        }
        let mut ats: Vec<Vec<(Value, Option<Value>)>> = vec![vec![]];
        let (mut level, mut mask) = (self.level(), self.mask);
        for number in (0..self.loops.len()).rev() {
            let scope = &self.loops[number];
            let always = match self.loops.get(number + 1) {
                Some(inner) => inner.certain,
                None => self.depth == scope.depth && !scope.broken,
            };
            if !always {
                break;
            }
            let mut outer = ats.clone();
            if let Some((counter, last)) = scope.counter
                && form.of(Sym::Counter(counter)) != ZERO
            {
                let with = |value: Option<Value>| {
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
        let all = self.depth == 0 && self.certain && mask == self.entered
            || self.loops.first().is_some_and(|l| level == 1 && l.certain && l.depth == 0 && mask == self.entered);
        if level == 1 && all && self.check_range(form, c, extent, &ats, checks) {
            return;
        }
        for at in ats {
            let row = self.linear_row(form, &at);
            checks.push(if c == 0 {
                self.check_at(level, mask, Op::CheckOne, &[row, extent])
            } else {
                let limit = self.pure(Op::Limit(c), Ty::I64, &[extent]);
                self.check_at(level, mask, Op::CheckRow(c), &[row, limit, extent])
            });
        }
    }

    /// Writes the check into the setup, for the ranges of all coordinates, if it depends on nothing else.
    fn check_range(
        &mut self,
        form: &Linear,
        c: i32,
        extent: Value,
        ats: &[Vec<(Value, Option<Value>)>],
        checks: &mut Vec<Check>,
    ) -> bool {
        let rest = Linear {
            base: form.base,
            terms: form.terms.iter().copied().filter(|(s, _)| !matches!(s, Sym::Axis(_))).collect(),
        };
        let mut axes = vec![(0, c)];
        for axis in 1..3 {
            match form.coefficient(axis) {
                Atom::Imm(c) => axes.push((axis, c)),
                Atom::Value(_) => return false,
            }
        }
        if ats.iter().any(|at| self.linear_level(&rest, at) > 0) {
            return false;
        }
        for at in ats {
            let row = self.linear_row(&rest, at);
            let (mut low, mut high) = (row, row);
            for &(axis, c) in axes.iter().filter(|a| a.1 != 0) {
                let first = self.pure(Op::Input(Input::First(axis)), Ty::I64, &[]);
                let last = self.pure(Op::Input(Input::Last(axis)), Ty::I64, &[]);
                let (least, most) = if c > 0 { (first, last) } else { (last, first) };
                let factor = self.constant(Ty::I64, c.into());
                let least = self.wide_op(Bin::Mul, Some(least), factor);
                let most = self.wide_op(Bin::Mul, Some(most), factor);
                low = self.wide_op(Bin::Add, Some(low), least);
                high = self.wide_op(Bin::Add, Some(high), most);
            }
            checks.push(self.check_at(0, Value::NONE, Op::CheckRange, &[low, high, extent]));
        }
        true
    }

    // Addresses

    pub(super) fn target(
        &mut self,
        memory: MemId,
        view: View,
        indices: &[Index],
        offset: i64,
        cell: Cell,
        checks: &mut Vec<Check>,
    ) -> Option<Target> {
        if self.memory(memory).space == Space::Local {
            return self.own_target(memory, indices, offset);
        }
        let base = self.pure(Op::Input(view.base), Ty::I64, &[]);
        let mut address = match offset {
            0 => base,
            _ => {
                let offset = self.constant(Ty::I64, offset);
                self.wide_op(Bin::Add, Some(base), offset)
            }
        };
        let lanes = indices.iter().any(|i| matches!(i, Index::Lanes(_)));
        let (mut along, mut offsets) = (Wide::Imm(0), None);
        let mut rows: Vec<(Linear, Wide)> = vec![];
        for (axis, index) in indices.iter().enumerate() {
            let pitch = self.pitch_in(memory, view, axis as u8);
            match index {
                Index::Linear(form, 0) => rows.push((form.clone(), pitch)),
                Index::Linear(form, _) if lanes => {
                    let value = self.linear_vector(form);
                    offsets = Some(self.offset(offsets, value, pitch)?);
                }
                Index::Linear(form, c) => {
                    along = self.wide_sum(along, Wide::Imm((*c).into()), pitch);
                    rows.push((form.clone(), pitch));
                }
                Index::Lanes(value) => offsets = Some(self.offset(offsets, *value, pitch)?),
            }
        }
        address = self.row_address(address, &rows);
        if let Some(offsets) = offsets {
            self.check_size(memory, checks)?;
            return Some(Target { address, form: Form::Lanes, offsets });
        }
        let (form, offsets) = match along {
            Wide::Imm(0) => (Form::One, Value::NONE),
            Wide::Imm(bytes) if bytes == i64::from(cell.size()) => (Form::Row, Value::NONE),
            along => {
                let first = self.wide_sym(Sym::Axis(0));
                let (bytes, step) = match along {
                    Wide::Imm(bytes) => {
                        let step = i32::try_from(bytes).ok().filter(|s| i64::from(s.unsigned_abs()) < STEPS)?;
                        (self.constant(Ty::I64, bytes), self.pure(Op::Iota(step), Ty::V32, &[]))
                    }
                    Wide::Value(bytes) => {
                        self.check_step(bytes, checks);
                        let step = self.pure(Op::Trunc, Ty::I32, &[bytes]);
                        let step = self.pure(Op::Broadcast, Ty::V32, &[step]);
                        let lanes = self.pure(Op::Iota(1), Ty::V32, &[]);
                        (bytes, self.pure(Op::Vector(Bin::Mul, Elem::I32), Ty::V32, &[step, lanes]))
                    }
                };
                let first = self.wide_op(Bin::Mul, Some(first), bytes);
                address = self.wide_op(Bin::Add, Some(address), first);
                (Form::Lanes, step)
            }
        };
        Some(Target { address, form, offsets })
    }

    /// Checks in the setup that 32 bits hold all byte offsets of a memory.
    fn check_size(&mut self, memory: MemId, checks: &mut Vec<Check>) -> Option<()> {
        let extent = match self.memory(memory).extents.first()? {
            Extent::Known(n) => Wide::Imm((*n).into()),
            _ => Wide::Value(self.extent(memory, 0)),
        };
        let pitch = self.pitch(memory, 0);
        match self.wide_sum(Wide::Imm(0), extent, pitch) {
            Wide::Imm(bytes) => (0..OFFSETS).contains(&bytes).then_some(()),
            Wide::Value(bytes) => {
                let limit = self.constant(Ty::I64, OFFSETS);
                note(checks, self.check_at(0, Value::NONE, Op::CheckRange, &[bytes, bytes, limit]));
                Some(())
            }
        }
    }

    /// Checks in the setup that 32 bits hold a multiple of this step for each lane of a vector.
    fn check_step(&mut self, bytes: Value, checks: &mut Vec<Check>) {
        let (half, limit) = (self.constant(Ty::I64, STEPS), self.constant(Ty::I64, 2 * STEPS));
        let bytes = self.wide_op(Bin::Add, Some(bytes), half);
        note(checks, self.check_at(0, Value::NONE, Op::CheckRange, &[bytes, bytes, limit]));
    }

    /// Adds the bytes of all parts of these indices but their multiples of x, those that vary least first.
    pub(super) fn row_address(&mut self, address: Value, rows: &[(Linear, Wide)]) -> Value {
        let rows: Vec<(Linear, Wide)> = rows.iter().map(|(form, pitch)| (form.without(Sym::Axis(0)), *pitch)).collect();
        let mut parts = self.parts(&rows);
        let level = |b: &Self, sym: Option<Sym>| match sym {
            None => 0,
            Some(Sym::Axis(_)) => 1,
            Some(Sym::Counter(c)) => b.levels[c.index()],
        };
        parts.sort_by_key(|&(sym, bytes)| {
            let own = if let Wide::Value(v) = bytes { self.levels[v.index()] } else { 0 };
            own.max(level(self, sym))
        });
        let mut sum = address;
        for (sym, bytes) in parts {
            let bytes = self.wide_value(bytes);
            let term = match sym {
                None => bytes,
                Some(sym) => {
                    let sym = self.wide_sym(sym);
                    self.wide_op(Bin::Mul, Some(sym), bytes)
                }
            };
            sum = self.wide_op(Bin::Add, Some(sum), term);
        }
        sum
    }

    /// Returns the bytes of each part of these indices: of the base, and of each multiple.
    pub(super) fn parts(&mut self, rows: &[(Linear, Wide)]) -> Vec<(Option<Sym>, Wide)> {
        let mut parts: Vec<(Option<Sym>, Wide)> = vec![];
        for (form, pitch) in rows {
            let terms = form.terms.iter().map(|&(sym, c)| (Some(sym), c));
            for (sym, c) in std::iter::once((None, form.base)).chain(terms).filter(|part| part.1 != ZERO) {
                let c = match c {
                    Atom::Imm(c) => Wide::Imm(c.into()),
                    Atom::Value(_) => Wide::Value(self.wide(c)),
                };
                match parts.iter().position(|p| p.0 == sym) {
                    Some(at) => parts[at].1 = self.wide_sum(parts[at].1, c, *pitch),
                    None => {
                        let product = self.wide_sum(Wide::Imm(0), c, *pitch);
                        parts.push((sym, product));
                    }
                }
            }
        }
        parts
    }

    pub(super) fn wide_value(&mut self, wide: Wide) -> Value {
        match wide {
            Wide::Imm(v) => self.constant(Ty::I64, v),
            Wide::Value(value) => value,
        }
    }

    /// Returns `sum + a·b`.
    fn wide_sum(&mut self, sum: Wide, a: Wide, b: Wide) -> Wide {
        let product = match (a, b) {
            (Wide::Imm(a), Wide::Imm(b)) => Wide::Imm(a.wrapping_mul(b)),
            (Wide::Imm(1), b) => b,
            (a, Wide::Imm(1)) => a,
            (a, b) => {
                let (a, b) = (self.wide_value(a), self.wide_value(b));
                Wide::Value(self.wide_op(Bin::Mul, Some(a), b))
            }
        };
        match (sum, product) {
            (Wide::Imm(a), Wide::Imm(b)) => Wide::Imm(a.wrapping_add(b)),
            (Wide::Imm(0), product) => product,
            (sum, product) => {
                let (a, b) = (self.wide_value(sum), self.wide_value(product));
                Wide::Value(self.wide_op(Bin::Add, Some(a), b))
            }
        }
    }

    /// Adds the bytes of an index that differs between lanes to offsets.
    pub(super) fn offset(&mut self, offsets: Option<Value>, index: Value, pitch: Wide) -> Option<Value> {
        let bytes = match pitch {
            Wide::Imm(1) => index,
            Wide::Imm(pitch) if (pitch as u64).is_power_of_two() && pitch < 1 << 30 => {
                let by = self.splat(false, u64::from(pitch.trailing_zeros()));
                self.pure(Op::Vector(Bin::Shl, Elem::I32), Ty::V32, &[index, by])
            }
            Wide::Imm(pitch) => {
                let pitch = self.splat(false, u64::from(u32::try_from(pitch).ok()?));
                self.pure(Op::Vector(Bin::Mul, Elem::I32), Ty::V32, &[index, pitch])
            }
            Wide::Value(pitch) => {
                let pitch = self.pure(Op::Trunc, Ty::I32, &[pitch]);
                let pitch = self.pure(Op::Broadcast, Ty::V32, &[pitch]);
                self.pure(Op::Vector(Bin::Mul, Elem::I32), Ty::V32, &[index, pitch])
            }
        };
        Some(match offsets {
            None => bytes,
            Some(sum) => self.pure(Op::Vector(Bin::Add, Elem::I32), Ty::V32, &[sum, bytes]),
        })
    }
}
