//! Generates assignments of permuted values: vectors, structs (one local per field), array elements and their
//! components are assigned a permutation of themselves. The assignments are in loops whose trip count the launch
//! determines, and in branches where threads diverge.

use clk_ir::build::IrForRange;
use clk_ir::def::*;
use clk_ir::typing::BOOL;
use clk_scalar::ops::UnaryOp;
use clk_scalar::{Scalar, ScalarValue};

use super::{Flow, Generator, Readable, Target, Variable};

/// A location that holds a value.
#[derive(Clone)]
enum Cell {
    Local(LocalId),
    Place(Place),
}

impl Generator {
    /// Generates a loop or a branch in which previously declared aggregates are permuted.
    pub(super) fn permuting(&mut self, depth: usize) {
        self.declare_aggregates();
        let flow = self.nested_flow();
        let uniform = flow == Flow::Uniform;
        if self.random.one_in(4) {
            let cond = self.expr(BOOL, 2, uniform);
            let then = self.scope(flow, |g| g.permutations(depth + 1));
            let other = self.scope(flow, |g| g.permutations(depth + 1));
            self.mark();
            return self.b.if_(cond, then, other);
        }
        let body = |g: &mut Self| g.permutations(depth + 1);
        self.repeat(flow, body);
    }

    /// Generates a loop of at most a few iterations.
    fn repeat(&mut self, flow: Flow, fill: impl FnOnce(&mut Self)) {
        let uniform = flow == Flow::Uniform;
        let scalar = self.random.integer();
        let end = match self.place.first() {
            Some(&place) if !uniform && scalar == Scalar::I32 && self.random.one_in(2) => {
                let most = self.b.i32(7);
                self.b.binary(BinOp::And, place, most)
            }
            _ => self.few(scalar, uniform),
        };
        let (start, step) = (self.b.constant(ScalarValue::zero(scalar)), self.b.constant(ScalarValue::one(scalar)));
        let (label, local) = (self.b.label(), self.b.local(format!("i{}", self.spans), Ty::Scalar(scalar)));
        self.targets.push(Target { label, is_loop: true, flow });
        let body = self.scope(flow, |g| {
            let i = g.b.read(local);
            g.remember(i, uniform);
            fill(g);
        });
        self.targets.pop();
        let unroll = self.random.pick(&[Unroll::Auto, Unroll::Auto, Unroll::By(2), Unroll::Never]);
        self.mark();
        self.b.for_(label, local, IrForRange { start, end, step, inclusive: false }, unroll, body);
    }

    fn permutations(&mut self, depth: usize) {
        for _ in 0..self.random.between(1, 3) {
            if self.budget > 0 && self.random.one_in(5) {
                self.budget -= 1;
                self.statement(depth);
            } else {
                self.permute();
            }
        }
    }

    /// Declares a vector, and several variables of one type, like the fields of a struct.
    fn declare_aggregates(&mut self) {
        let vector = Ty::Vector(self.random.number(), self.random.between(2, 4) as u8);
        self.declare(vector);
        let ty = self.random.ty();
        for _ in 0..self.random.next_below(4) {
            self.declare(ty);
        }
        if self.random.one_in(4) {
            self.local_array();
        }
    }

    pub(super) fn permute(&mut self) {
        self.mark();
        match self.random.next_below(5) {
            0 | 1 => self.permute_vector(),
            2 => self.assign_components(),
            _ => {
                let (ty, cells, uniform) = self.some_cells();
                self.permute_cells(ty, &cells, uniform);
            }
        }
    }

    /// Returns a variable of a vector type, declaring one if necessary.
    fn some_vector(&mut self) -> Variable {
        let open = self.open_variables();
        let vectors: Vec<Variable> = open.into_iter().filter(|v| v.ty.lanes() > 1).collect();
        if !vectors.is_empty() {
            return self.random.pick(&vectors);
        }
        let vector = Ty::Vector(self.random.number(), self.random.between(2, 4) as u8);
        self.declare(vector)
    }

    /// Generates `v = i32x3(v.z, -v.x, w.y)`.
    fn permute_vector(&mut self) {
        let Variable { local, ty, uniform } = self.some_vector();
        let alike = self.open_variables();
        let alike: Vec<LocalId> =
            alike.iter().filter(|v| v.ty == ty && v.uniform == uniform).map(|v| v.local).collect();
        let old = self.b.read(local);
        let mut lanes: Vec<u8> = (0..ty.lanes()).collect();
        self.shuffle(&mut lanes);
        let parts: Vec<ExprId> = lanes
            .into_iter()
            .map(|lane| match self.random.next_below(8) {
                0 => {
                    let other = self.random.pick(&alike);
                    let other = self.b.read(other);
                    self.b.extract(other, lane)
                }
                1 => {
                    let lane = self.random.next_below(ty.lanes() as usize) as u8;
                    self.b.extract(old, lane)
                }
                _ => {
                    let part = self.b.extract(old, lane);
                    self.altered(part, uniform)
                }
            })
            .collect();
        let new = self.b.compose(&parts);
        self.b.write(local, new);
        // Values read before the write must keep their old value after it.
        let touched = [old, new, parts[0]];
        for value in touched {
            if self.random.one_in(4) {
                self.remember(value, uniform);
            }
        }
    }

    /// Generates `v.x = v.y; v.y = -v.x`.
    fn assign_components(&mut self) {
        let Variable { local, ty, uniform } = self.some_vector();
        let n = ty.lanes() as usize;
        for _ in 0..self.random.between(1, 3) {
            let (to, from) = (self.random.next_below(n), self.random.next_below(n) as u8);
            let old = self.b.read(local);
            let mut parts: Vec<ExprId> = (0..n).map(|lane| self.b.extract(old, lane as u8)).collect();
            let part = self.b.extract(old, from);
            parts[to] = self.altered(part, uniform);
            if self.random.one_in(4) {
                self.remember(parts[to], uniform);
            }
            let new = self.b.compose(&parts);
            self.b.write(local, new);
        }
    }

    /// Returns the value, or a value computed from it.
    fn altered(&mut self, value: ExprId, uniform: bool) -> ExprId {
        if !self.random.one_in(4) {
            return value;
        }
        let ty = self.b.ty(value);
        if ty.scalar() == Scalar::Bool {
            return self.b.unary(UnaryOp::Not, value);
        }
        if self.random.one_in(2) {
            let value = self.small(value, 1);
            return self.b.unary(UnaryOp::Neg, value);
        }
        let other = self.expr(ty, 1, uniform);
        let op = self.random.pick(&[BinOp::Add, BinOp::Sub, BinOp::Mul]);
        let (value, other) = (self.small(value, 3), self.small(other, 3));
        self.b.binary(op, value, other)
    }

    /// Returns two or more locations of one type, and whether the values assigned to them have to be uniform.
    fn some_cells(&mut self) -> (Ty, Vec<Cell>, bool) {
        let arrays: Vec<Readable> = self.readable.iter().flatten().filter(|a| a.own).cloned().collect();
        let own: Vec<_> = self.own.iter().filter(|own| own.access == Access::InOut).cloned().collect();
        let places = match self.random.next_below(4) {
            0 | 1 if !arrays.is_empty() => {
                let array = arrays[self.random.next_below(arrays.len())].clone();
                Some(self.places_of(&array))
            }
            2 if !own.is_empty() => {
                let own = own[self.random.next_below(own.len())].clone();
                self.parts_of(own.memory, &own.layout, &self.place.clone())
            }
            _ => None,
        };
        if let Some((ty, places)) = places {
            return (ty, places.into_iter().map(Cell::Place).collect(), false);
        }
        let open = self.open_variables();
        let first = match open.as_slice() {
            [] => {
                let ty = self.random.ty();
                self.declare(ty)
            }
            some => self.random.pick(some),
        };
        let mut cells: Vec<LocalId> = vec![first.local];
        let alike = |v: &&Variable| v.ty == first.ty && v.uniform == first.uniform && v.local != first.local;
        cells.extend(open.iter().filter(alike).map(|v| v.local));
        while cells.len() < 2 {
            let value = self.expr(first.ty, 1, first.uniform);
            let other = self.declare_as(first.ty, first.uniform, value);
            cells.push(other.local);
        }
        self.shuffle(&mut cells);
        cells.truncate(4);
        (first.ty, cells.into_iter().map(Cell::Local).collect(), first.uniform)
    }

    /// Returns several places of one type in a thread's local array, and the type. They are in one element, or they are
    /// the same leaf (scalar or vector field), or components of it, of several elements.
    fn places_of(&mut self, array: &Readable) -> (Ty, Vec<Place>) {
        let memory = array.memory;
        if self.random.one_in(3) {
            let indices = self.indices(array, 1, false);
            if let Some(parts) = self.parts_of(memory, &array.layout, &indices) {
                return parts;
            }
        }
        let leaf = self.random.next_below(array.layout.leaves.len());
        let ty = array.layout.leaves[leaf].ty;
        let single = ty.lanes() > 1 && self.random.one_in(2);
        let mut places = vec![];
        for _ in 0..self.random.between(2, 3) {
            let indices = self.indices(array, 1, false);
            let component = single.then(|| self.random.next_below(ty.lanes() as usize) as u8);
            places.push(Place { memory, indices, leaf: leaf as u32, component });
        }
        (if single { Ty::Scalar(ty.scalar()) } else { ty }, places)
    }

    /// Returns several places of one type in an element, and the type: the components of a vector field, or fields of
    /// equal type. Returns `None` if the element has neither.
    fn parts_of(&mut self, memory: MemId, layout: &ElementLayout, indices: &[ExprId]) -> Option<(Ty, Vec<Place>)> {
        let first = self.random.next_below(layout.leaves.len());
        let ty = layout.leaves[first].ty;
        let place = |leaf: usize, component| Place { memory, indices: indices.to_vec(), leaf: leaf as u32, component };
        let alike = (0..layout.leaves.len()).filter(|&i| layout.leaves[i].ty == ty);
        let mut leaves: Vec<Place> = alike.map(|i| place(i, None)).collect();
        if leaves.len() > 1 && self.random.one_in(2) {
            self.shuffle(&mut leaves);
            return Some((ty, leaves));
        }
        let mut parts: Vec<Place> = (0..ty.lanes()).map(|lane| place(first, Some(lane))).collect();
        self.shuffle(&mut parts);
        (ty.lanes() > 1).then_some((Ty::Scalar(ty.scalar()), parts))
    }

    /// Permutes the values of locations: either reads all of them before writing the first one, or assigns to each
    /// location the value of the next one.
    fn permute_cells(&mut self, ty: Ty, cells: &[Cell], uniform: bool) {
        if self.random.one_in(2) {
            let values: Vec<ExprId> = cells.iter().map(|cell| self.get(cell)).collect();
            let mut to: Vec<usize> = (0..cells.len()).collect();
            self.shuffle(&mut to);
            for (at, value) in to.into_iter().zip(values) {
                let value = self.altered(value, uniform);
                self.set(&cells[at], value);
            }
            return;
        }
        let first = self.get(&cells[0]);
        for pair in cells.windows(2) {
            let value = self.get(&pair[1]);
            let value = self.altered(value, uniform);
            self.set(&pair[0], value);
        }
        debug_assert_eq!(self.b.ty(first), ty);
        self.set(&cells[cells.len() - 1], first);
    }

    fn get(&mut self, cell: &Cell) -> ExprId {
        match cell {
            Cell::Local(local) => self.b.read(*local),
            Cell::Place(place) => self.b.load_place(place.clone(), CacheHint::None),
        }
    }

    fn set(&mut self, cell: &Cell, value: ExprId) {
        match cell {
            Cell::Local(local) => self.b.write(*local, value),
            Cell::Place(place) => self.b.store_place(place.clone(), value, CacheHint::None),
        }
    }

    /// Generates a loop that permutes the fields of the thread's own element of a shared array.
    pub(super) fn permute_shared(&mut self, memory: MemId, layout: &ElementLayout, indices: &[ExprId]) {
        let Some((ty, places)) = self.parts_of(memory, layout, indices) else { return };
        let cells: Vec<Cell> = places.into_iter().map(Cell::Place).collect();
        let flow = self.nested_flow();
        self.repeat(flow, |g| g.permute_cells(ty, &cells, false));
    }

    fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.random.next_below(i + 1));
        }
    }

    /// Returns the variables that may be written at this point.
    fn open_variables(&self) -> Vec<Variable> {
        let flow = self.flow;
        self.variables.iter().flatten().filter(|v| !v.uniform || flow == Flow::Uniform).copied().collect()
    }

    fn declare(&mut self, ty: Ty) -> Variable {
        let uniform = self.flow == Flow::Uniform && self.random.one_in(3);
        let value = self.expr(ty, 2, uniform);
        self.declare_as(ty, uniform, value)
    }

    pub(super) fn declare_as(&mut self, ty: Ty, uniform: bool, value: ExprId) -> Variable {
        let local = self.b.variable(format!("l{}", self.spans), value);
        let variable = Variable { local, ty, uniform };
        if let Some(scope) = self.variables.last_mut() {
            scope.push(variable);
        }
        variable
    }

    /// Returns the layout of a struct that contains a struct.
    pub(super) fn nested_layout(&mut self) -> ElementLayout {
        let mut leaves = vec![];
        for i in 0..self.random.between(1, 4) {
            if self.random.one_in(3) {
                let inner = self.random.between(1, 2);
                leaves.extend((0..inner).map(|k| (format!("f{i}.g{k}"), self.random.ty())));
            } else {
                leaves.push((format!("f{i}"), self.random.ty()));
            }
        }
        // Make two fields equal in type, so that they can be exchanged.
        if leaves.len() > 1 && self.random.one_in(2) {
            leaves[0].1 = leaves[leaves.len() - 1].1;
        }
        ElementLayout::from_leaves(leaves)
    }
}
