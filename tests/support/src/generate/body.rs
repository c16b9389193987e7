//! Generates random statements, including collective operations of the threads of a block.

use clk_ir::build::IrForRange;
use clk_ir::def::*;
use clk_ir::typing::{self, BOOL, I32, U32};
use clk_scalar::ops::{AtomicOp, BarrierKind, WarpOp};
use clk_scalar::{Scalar, ScalarValue};

use super::{Flow, Generator, OwnElement, Readable, Target, Variable};

/// Maximum nesting depth of blocks.
const DEEPEST: usize = 4;

/// A function that generates the value of an array's elements.
type ValueGenerator = fn(&mut Generator, Ty) -> ExprId;

impl Generator {
    pub(super) fn kernel_body(&mut self) {
        self.mark();
        let cooperative = self.grid && self.random.one_in(12);
        self.may_return = !cooperative;
        while self.budget > 0 {
            self.statements(0);
        }
        if self.risks > 0 {
            self.risk();
        }
        if cooperative {
            self.exchange_through_grid();
            self.budget = 5;
            self.statements(0);
        }
        for own in self.own.clone() {
            for leaf in 0..own.layout.leaves.len() {
                self.write_own(&own, leaf);
            }
        }
    }

    pub(super) fn finish_function(&mut self) {
        let values: Vec<ExprId> = self.results.clone().into_iter().map(|ty| self.expr(ty, 2, false)).collect();
        self.b.return_(&values);
    }

    pub(super) fn statements(&mut self, depth: usize) {
        let count = self.random.between(1, 5);
        for _ in 0..count {
            if self.budget == 0 {
                return;
            }
            self.budget -= 1;
            self.mark();
            self.statement(depth);
        }
    }

    pub(super) fn statement(&mut self, depth: usize) {
        let uniform = self.flow == Flow::Uniform;
        match self.random.next_below(30) {
            0..=2 => self.declare_variable(),
            3 | 4 => {
                let ty = self.random.ty();
                let same = self.random.one_in(4);
                let expr = self.expr(ty, 3, same);
                self.remember(expr, same);
            }
            5..=7 => self.assign(),
            8 | 9 if depth < DEEPEST => self.if_statement(depth),
            10 | 11 if depth < DEEPEST => self.for_statement(depth),
            12 if depth < DEEPEST => self.loop_statement(depth),
            13 if depth < DEEPEST => self.labeled_block(depth),
            14 => self.jump(),
            15 => self.local_array(),
            16 => self.count(),
            17 => self.own_place(),
            18 => self.call(),
            19 if self.risks > 0 && !self.in_function => self.risk(),
            20 if self.random.one_in(3) && !self.in_function => self.print(),
            20..=24 if self.grid && uniform && !self.in_function => self.together(),
            25 | 26 => self.permute(),
            27 | 28 if depth < DEEPEST => self.permuting(depth),
            _ => self.assign(),
        }
    }

    fn declare_variable(&mut self) {
        let ty = self.random.ty();
        let uniform = self.flow == Flow::Uniform && self.random.one_in(3);
        let value = self.expr(ty, 2, uniform);
        self.declare_as(ty, uniform, value);
    }

    /// Generates an assignment. A uniform variable is assigned only in uniform control flow, and only a uniform value.
    fn assign(&mut self) {
        let flow = self.flow;
        let open: Vec<Variable> =
            self.variables.iter().flatten().filter(|v| !v.uniform || flow == Flow::Uniform).copied().collect();
        if open.is_empty() {
            return self.declare_variable();
        }
        let to = self.random.pick(&open);
        let value = self.expr(to.ty, 3, to.uniform);
        self.b.write(to.local, value);
    }

    /// Chooses the control flow of a nested block, which determines whether its condition or bounds have to be uniform.
    pub(super) fn nested_flow(&mut self) -> Flow {
        if self.flow == Flow::Uniform && self.random.one_in(2) { Flow::Uniform } else { Flow::Varying }
    }

    fn if_statement(&mut self, depth: usize) {
        let flow = self.nested_flow();
        let cond = self.expr(BOOL, 2, flow == Flow::Uniform);
        let then = self.scope(flow, |g| g.statements(depth + 1));
        let has_else = self.random.one_in(2);
        let other = self.scope(flow, |g| {
            if has_else {
                g.statements(depth + 1)
            }
        });
        self.mark();
        self.b.if_(cond, then, other);
    }

    /// Generates a range of at most a few iterations, sometimes at the limits of its type.
    fn range(&mut self, scalar: Scalar, uniform: bool) -> IrForRange {
        let constant = |g: &mut Self, value: i128| {
            let value = ScalarValue::from_integer(scalar, value).unwrap_or(ScalarValue::zero(scalar));
            g.b.constant(value)
        };
        let down = self.random.one_in(4) && scalar.is_signed();
        let by = self.random.between(1, 3) as i128;
        let inclusive = self.random.one_in(3);
        let (low, high) = if scalar.is_signed() {
            (-(1i128 << (scalar.bits() - 1)), (1i128 << (scalar.bits() - 1)) - 1)
        } else {
            (0, (1i128 << scalar.bits()) - 1)
        };
        let step = constant(self, if down { -by } else { by });
        let (start, end) = match self.random.next_below(4) {
            0 => {
                let iterations = self.random.next_below(5) as i128;
                let (start, end) = if down { (low + iterations, low) } else { (high - iterations, high) };
                (constant(self, start), constant(self, end))
            }
            1 => {
                let (a, b) = (self.random.next_below(6) as i128, self.random.next_below(6) as i128);
                (constant(self, a), constant(self, b))
            }
            _ => (self.few(scalar, uniform), self.few(scalar, uniform)),
        };
        IrForRange { start, end, step, inclusive }
    }

    /// Generates a value from 0 to 7.
    pub(super) fn few(&mut self, scalar: Scalar, uniform: bool) -> ExprId {
        let any = self.expr(Ty::Scalar(scalar), 1, uniform);
        let mask = self.b.constant(ScalarValue::of(7u8).to_type(scalar));
        self.b.binary(BinOp::And, any, mask)
    }

    fn for_statement(&mut self, depth: usize) {
        let flow = self.nested_flow();
        let scalar = self.random.integer();
        let range = self.range(scalar, flow == Flow::Uniform);
        let (label, local) = (self.b.label(), self.b.local(format!("i{}", self.spans), Ty::Scalar(scalar)));
        self.targets.push(Target { label, is_loop: true, flow });
        let body = self.scope(flow, |g| {
            let i = g.b.read(local);
            g.remember(i, flow == Flow::Uniform);
            g.statements(depth + 1);
        });
        self.targets.pop();
        let unroll = self.random.pick(&[Unroll::Auto, Unroll::Auto, Unroll::Full, Unroll::By(2), Unroll::Never]);
        self.mark();
        self.b.for_(label, local, range, unroll, body);
    }

    /// Generates a `loop` with an iteration counter, so that it terminates.
    fn loop_statement(&mut self, depth: usize) {
        let flow = self.nested_flow();
        let uniform = flow == Flow::Uniform;
        let limit = self.few(Scalar::I32, uniform);
        let zero = self.b.i32(0);
        let iterations = self.b.variable(format!("n{}", self.spans), zero);
        let label = self.b.label();
        self.targets.push(Target { label, is_loop: true, flow });
        let body = self.scope(flow, |g| {
            let iteration = g.b.read(iterations);
            let over = g.b.binary(BinOp::Ge, iteration, limit);
            g.b.if_then(over, |b| b.break_(label));
            let one = g.b.i32(1);
            let next = g.b.binary(BinOp::Add, iteration, one);
            g.b.write(iterations, next);
            g.remember(iteration, uniform);
            g.statements(depth + 1);
        });
        self.targets.pop();
        self.mark();
        self.b.loop_(label, Unroll::Auto, body);
    }

    fn labeled_block(&mut self, depth: usize) {
        let flow = self.nested_flow();
        let label = self.b.label();
        self.targets.push(Target { label, is_loop: false, flow });
        let body = self.scope(flow, |g| g.statements(depth + 1));
        self.targets.pop();
        self.mark();
        self.b.block(label, body);
    }

    /// Generates a conditional `break`, `continue` or `return`. In divergent control flow, the jump stays inside the
    /// divergent code, since the threads have to reconverge at its end.
    fn jump(&mut self) {
        let uniform = self.flow == Flow::Uniform;
        let cond = self.expr(BOOL, 2, uniform);
        let targets: Vec<Target> =
            self.targets.iter().filter(|t| uniform || t.flow == Flow::Varying).copied().collect();
        let leaves = self.may_return && (self.in_function || uniform || !self.grid);
        if targets.is_empty() || leaves && self.random.one_in(5) {
            if !leaves {
                return;
            }
            let block = self.scope(self.flow, |g| if g.in_function { g.finish_function() } else { g.b.return_(&[]) });
            return self.b.if_(cond, block, vec![]);
        }
        let target = self.random.pick(&targets);
        let goes_on = target.is_loop && self.random.one_in(2);
        let block = self.b.in_block(|b| if goes_on { b.continue_(target.label) } else { b.break_(target.label) });
        self.b.if_(cond, block, vec![]);
    }

    /// Generates a thread's local array that is initialized, then partially overwritten.
    pub(super) fn local_array(&mut self) {
        if self.random.one_in(4) {
            return self.constants();
        }
        let layout = if self.random.one_in(4) { self.layout() } else { ElementLayout::plain(self.random.ty()) };
        let rank = self.random.between(1, 2);
        let shape: Vec<u32> = (0..rank).map(|_| self.random.between(1, 5) as u32).collect();
        let extents = shape.iter().map(|&n| Extent::Known(n)).collect();
        let memory = self.b.memory(format!("a{}", self.spans), MemorySpace::Local, layout.clone(), extents);
        self.b.declare(memory);
        self.fill(memory, &layout, &shape, vec![], Self::anything);
        let array = Readable { memory, layout, shape: shape.into_iter().map(Some).collect(), own: true };
        for _ in 0..self.random.next_below(3) {
            let indices = self.indices(&array, 2, false);
            self.store_some_leaf(&array.layout, memory, indices);
        }
        if let Some(scope) = self.readable.last_mut() {
            scope.push(array);
        }
    }

    /// Generates a constant array, which any statement may read.
    fn constants(&mut self) {
        let layout = if self.random.one_in(4) { self.layout() } else { ElementLayout::plain(self.random.ty()) };
        let rank = self.random.between(1, 3);
        let shape: Vec<u32> = (0..rank).map(|_| self.random.between(1, 5) as u32).collect();
        let mut values = vec![];
        for _ in 0..shape.iter().product() {
            for leaf in &layout.leaves {
                values.extend((0..leaf.ty.lanes()).map(|_| self.value(leaf.ty.scalar()).bits));
            }
        }
        let extents = shape.iter().map(|&n| Extent::Known(n)).collect();
        let memory = self.b.constants(format!("c{}", self.spans), layout.clone(), extents, values);
        if let Some(scope) = self.readable.last_mut() {
            scope.push(Readable { memory, layout, shape: shape.into_iter().map(Some).collect(), own: false });
        }
    }

    fn anything(&mut self, ty: Ty) -> ExprId {
        self.expr(ty, 1, false)
    }

    fn fill(
        &mut self,
        memory: MemId,
        layout: &ElementLayout,
        shape: &[u32],
        indices: Vec<ExprId>,
        with: ValueGenerator,
    ) {
        let Some((&extent, rest)) = shape.split_first() else {
            for (leaf, ty) in layout.leaves.iter().map(|l| l.ty).enumerate() {
                let value = with(self, ty);
                let place = Place { memory, indices: indices.clone(), leaf: leaf as u32, component: None };
                self.b.store_place(place, value, CacheHint::None);
            }
            return;
        };
        let (label, local) = (self.b.label(), self.b.local(format!("i{}", self.spans), I32));
        let (start, end, step) = (self.b.i32(0), self.b.i32(extent as i32), self.b.i32(1));
        let body = self.scope(self.flow, |g| {
            let i = g.b.read(local);
            let indices = indices.into_iter().chain([i]).collect();
            g.fill(memory, layout, rest, indices, with);
        });
        self.b.for_(label, local, IrForRange { start, end, step, inclusive: false }, Unroll::Auto, body);
    }

    /// Generates a store to one leaf (scalar or vector field) of an element, or to one component of the leaf.
    fn store_some_leaf(&mut self, layout: &ElementLayout, memory: MemId, indices: Vec<ExprId>) {
        let leaf = self.random.next_below(layout.leaves.len());
        let ty = layout.leaves[leaf].ty;
        let component = match ty {
            Ty::Vector(_, n) if self.random.one_in(2) => Some(self.random.next_below(n as usize) as u8),
            _ => None,
        };
        let ty = if component.is_some() { Ty::Scalar(ty.scalar()) } else { ty };
        let value = self.expr(ty, 2, false);
        let hint = self.random.pick(&[CacheHint::None, CacheHint::None, CacheHint::Cached, CacheHint::Streaming]);
        self.b.store_place(Place { memory, indices, leaf: leaf as u32, component }, value, hint);
    }

    fn write_own(&mut self, own: &OwnElement, leaf: usize) {
        self.mark();
        let value = self.expr(own.layout.leaves[leaf].ty, 3, false);
        let place = Place { memory: own.memory, indices: self.place.clone(), leaf: leaf as u32, component: None };
        self.b.store_place(place, value, CacheHint::None);
    }

    /// Generates a read, a write or an atomic operation on an element of an array that only this thread accesses.
    fn own_place(&mut self) {
        if self.own.is_empty() {
            return self.assign();
        }
        let own = self.own[self.random.next_below(self.own.len())].clone();
        let leaf = self.random.next_below(own.layout.leaves.len());
        let ty = own.layout.leaves[leaf].ty;
        if own.access == Access::Out {
            return self.write_own(&own, leaf);
        }
        let place = Place { memory: own.memory, indices: self.place.clone(), leaf: leaf as u32, component: None };
        match (ty, self.random.next_below(3)) {
            (_, 0) => {
                let value = self.b.load_place(place, CacheHint::None);
                self.remember(value, false);
            }
            (Ty::Scalar(s), 1) => self.own_atomic(place, s),
            (Ty::Vector(s, n), 1) => {
                let component = Some(self.random.next_below(n as usize) as u8);
                self.own_atomic(Place { component, ..place }, s);
            }
            _ => self.store_some_leaf(&own.layout, own.memory, self.place.clone()),
        }
    }

    /// Generates an atomic operation on an element that no other thread accesses.
    fn own_atomic(&mut self, place: Place, s: Scalar) {
        let ty = Ty::Scalar(s);
        let value = self.expr(ty, 2, false);
        let bits = s.is_int() || s == Scalar::Bool;
        let op = match self.random.next_below(4) {
            0 => AtomicOp::Exchange,
            1 => AtomicOp::CompareExchange,
            2 if bits => self.random.pick(&[AtomicOp::And, AtomicOp::Or, AtomicOp::Xor]),
            _ if s == Scalar::Bool => AtomicOp::Exchange,
            _ if self.checked && s.is_signed() && !self.random.one_in(10) => {
                self.random.pick(&[AtomicOp::Min, AtomicOp::Max])
            }
            _ => self.random.pick(&[AtomicOp::Add, AtomicOp::Sub, AtomicOp::Min, AtomicOp::Max]),
        };
        // DeviceIR represents an atomic load as a compare-exchange of a value for itself.
        let loads = op == AtomicOp::CompareExchange && self.random.one_in(3);
        let compare = match op {
            AtomicOp::CompareExchange if loads => Some(value),
            AtomicOp::CompareExchange => Some(self.expr(ty, 1, false)),
            _ => None,
        };
        let old = self.b.atomic(op, place, value, compare);
        self.remember(old, false);
    }

    /// Chooses the element type of a counter array and the family of commutative atomic operations on it.
    pub(super) fn counter(&mut self) -> (Scalar, usize) {
        if self.random.one_in(3) {
            let scalar = self.random.float();
            // Sums in half precision are rounded, so their result depends on the order.
            let first = usize::from(scalar.size() == 2);
            return (scalar, self.random.between(first, 2));
        }
        let scalar = self.random.integer();
        // In checked programs, signed sums are excluded: whether an intermediate sum overflows depends on the order.
        let first = usize::from(self.checked && scalar.is_signed());
        (scalar, self.random.between(first, 5))
    }

    /// Generates an operand for atomic operations whose results are exact in any order: an integer, possibly converted
    /// to a float.
    fn counted(&mut self, ty: Ty) -> ExprId {
        if !ty.scalar().is_float() {
            return self.expr(ty, 2, false);
        }
        let few = self.few(Scalar::I32, false);
        self.b.convert(few, ty.scalar())
    }

    /// Generates an atomic operation on an element that all threads share. The order does not matter, since each array
    /// is used with one kind of operation only.
    fn count(&mut self) {
        if self.counters.is_empty() {
            return self.assign();
        }
        let (memory, scalar, extent, family) = self.counters[self.random.next_below(self.counters.len())];
        let value = self.counted(Ty::Scalar(scalar));
        let array = Readable {
            memory,
            layout: ElementLayout::plain(Ty::Scalar(scalar)),
            shape: vec![Some(extent)],
            own: false,
        };
        let indices = self.indices(&array, 2, false);
        let op = self.commutative(family);
        self.b.atomic_unused(op, Place { memory, indices, leaf: 0, component: None }, value, None);
    }

    fn commutative(&mut self, family: usize) -> AtomicOp {
        match family {
            0 => self.random.pick(&[AtomicOp::Add, AtomicOp::Sub]),
            1 => AtomicOp::Min,
            2 => AtomicOp::Max,
            3 => AtomicOp::And,
            4 => AtomicOp::Or,
            _ => AtomicOp::Xor,
        }
    }

    fn call(&mut self) {
        if self.callees.is_empty() {
            return self.assign();
        }
        let callee = self.callees[self.random.next_below(self.callees.len())].clone();
        let memories = match &callee.array {
            None => vec![],
            Some(layout) => {
                // The argument must be an array of rank 1 with the element layout of the parameter.
                let is_suitable = |a: &&Readable| a.layout == *layout && a.shape.len() == 1;
                match self.readable.iter().flatten().find(is_suitable) {
                    Some(array) => vec![array.memory],
                    None => return self.local_array_for(&callee),
                }
            }
        };
        let args: Vec<ExprId> = callee.params.iter().map(|&ty| self.expr(ty, 2, false)).collect();
        for result in self.b.call(callee.id, &callee.results, &args, &memories) {
            self.remember(result, false);
        }
    }

    fn local_array_for(&mut self, callee: &super::Callee) {
        let Some(layout) = callee.array.clone() else { return };
        let memory =
            self.b.memory(format!("a{}", self.spans), MemorySpace::Local, layout.clone(), vec![Extent::Known(3)]);
        self.b.declare(memory);
        self.fill(memory, &layout, &[3], vec![], Self::anything);
        if let Some(scope) = self.readable.last_mut() {
            scope.push(Readable { memory, layout, shape: vec![Some(3)], own: true });
        }
    }

    fn print(&mut self) {
        let ty = Ty::Scalar(self.random.scalar());
        let value = self.expr(ty, 2, false);
        let spec = match ty.scalar() {
            Scalar::Bool => ["", "<7"],
            s if s.is_float() => ["", "+09.3"],
            _ => ["", "#>8x"],
        };
        let spec = self.random.pick(&spec).to_string();
        self.b.print(vec![
            MessageSegment::Text(format!("{}: ", self.spans)),
            MessageSegment::Value(value, spec),
            MessageSegment::Text("\n".into()),
        ]);
    }

    /// Generates a statement that may fault.
    fn risk(&mut self) {
        self.risks -= 1;
        match self.random.next_below(if self.checked { 5 } else { 4 }) {
            4 => self.unwritten(),
            0 => {
                let Some(array) = self.any_readable() else { return };
                let indices: Vec<ExprId> = array.shape.iter().map(|&extent| self.risky_index(extent)).collect();
                let ty = array.layout.leaves[0].ty;
                self.mark();
                let place = Place { memory: array.memory, indices, leaf: 0, component: None };
                let value = self.b.load_place(place, CacheHint::None);
                self.use_up(value, ty);
            }
            1 => {
                let ty = Ty::Scalar(self.random.integer());
                let (left, right) = (self.expr(ty, 2, false), self.expr(ty, 2, false));
                self.mark();
                let op = self.random.pick(&[BinOp::Div, BinOp::Rem]);
                let value = self.b.binary(op, left, right);
                self.use_up(value, ty);
            }
            2 => {
                let cond = self.expr(BOOL, 3, false);
                let shown = self.expr(I32, 1, false);
                self.mark();
                self.b.assert(
                    cond,
                    vec![MessageSegment::Text("not so: ".into()), MessageSegment::Value(shown, String::new())],
                );
            }
            _ => {
                let (start, end, step) =
                    (self.few(Scalar::I32, false), self.few(Scalar::I32, false), self.few(Scalar::I32, false));
                let (label, local) = (self.b.label(), self.b.local("z", I32));
                let body = self.scope(Flow::Varying, |_| ());
                self.mark();
                self.b.for_(label, local, IrForRange { start, end, step, inclusive: false }, Unroll::Never, body);
            }
        }
    }

    /// Generates a read of a local array at an element that may not have been written.
    fn unwritten(&mut self) {
        let ty = Ty::Scalar(self.random.scalar());
        let extents = vec![Extent::Known(8)];
        let memory = self.b.memory(format!("w{}", self.spans), MemorySpace::Local, ElementLayout::plain(ty), extents);
        self.b.declare(memory);
        for at in [self.random.next_below(8), self.random.next_below(8), self.random.next_below(8)] {
            let (index, value) = (self.b.i32(at as i32), self.expr(ty, 1, false));
            self.b.store(memory, &[index], value);
        }
        let index = self.few(Scalar::I32, false);
        self.mark();
        let value = self.b.load(memory, &[index]);
        self.use_up(value, ty);
    }

    /// Generates an arbitrary index, or one slightly out of bounds.
    fn risky_index(&mut self, extent: Option<u32>) -> ExprId {
        match extent {
            Some(extent) if self.random.one_in(2) => {
                let more = self.random.between(0, 3) as u32;
                self.affine(extent + more, false)
            }
            _ => self.expr(I32, 2, false),
        }
    }

    /// Stores the value in a variable, so that a fault in its computation is observable and not optimized away.
    fn use_up(&mut self, value: ExprId, ty: Ty) {
        let local = self.b.variable("risk", value);
        if let Some(scope) = self.variables.last_mut() {
            scope.push(Variable { local, ty, uniform: false });
        }
        let zero = self.constant(ty);
        let same = self.b.binary(BinOp::Eq, value, zero);
        let same = match ty {
            Ty::Scalar(_) => same,
            Ty::Vector(..) => self.b.extract(same, 0),
        };
        let (any, message) =
            (self.b.unary(clk_scalar::ops::UnaryOp::Not, same), vec![MessageSegment::Text("never".into())]);
        let always = self.b.binary(BinOp::Or, same, any);
        self.b.assert(always, message);
    }

    /// Generates a collective operation of the threads of a block.
    fn together(&mut self) {
        match self.random.next_below(6) {
            0 | 1 => self.exchange(),
            2 => self.vote(),
            3 => self.shared_counter(),
            4 => self.shared_scalar(),
            _ => self.warp_operation(),
        }
    }

    fn barrier(&mut self) {
        self.mark();
        self.b.barrier(BarrierKind::Block, None);
    }

    /// Returns the thread's flat index in its block, for arrays of the block's size.
    fn flat(&mut self) -> ExprId {
        let [x, y, z] = [Axis::X, Axis::Y, Axis::Z].map(|axis| self.b.id(BuiltinIndex::Thread, axis));
        let (nx, ny) = (self.b.id(BuiltinIndex::BlockDim, Axis::X), self.b.id(BuiltinIndex::BlockDim, Axis::Y));
        let z = self.b.binary(BinOp::Mul, z, ny);
        let zy = self.b.binary(BinOp::Add, z, y);
        let row = self.b.binary(BinOp::Mul, zy, nx);
        self.b.binary(BinOp::Add, row, x)
    }

    fn block_size(&mut self) -> Extent {
        if self.random.one_in(2) {
            return Extent::Known(self.block);
        }
        let [x, y, z] = [Axis::X, Axis::Y, Axis::Z].map(|axis| self.b.id(BuiltinIndex::BlockDim, axis));
        let xy = self.b.expr_without_let(ExprKind::Binary { op: BinOp::Mul, left: x, right: y }, I32);
        Extent::Dynamic(self.b.expr_without_let(ExprKind::Binary { op: BinOp::Mul, left: xy, right: z }, I32))
    }

    /// Generates an exchange through a shared array: each thread writes its own element (or its row, if the array has
    /// two axes), and after a barrier reads an element of another thread.
    fn exchange(&mut self) {
        let layout = self.layout();
        let extent = self.block_size();
        let columns = if self.random.one_in(4) { Some(self.random.between(1, 3) as u32) } else { None };
        let extents = std::iter::once(extent).chain(columns.map(Extent::Known)).collect();
        let memory = self.b.memory(format!("s{}", self.spans), MemorySpace::Shared, layout.clone(), extents);
        let flat = self.flat();
        for column in 0..columns.unwrap_or(1) {
            let at = self.b.i32(column as i32);
            let indices: Vec<ExprId> = std::iter::once(flat).chain(columns.map(|_| at)).collect();
            for (leaf, ty) in layout.leaves.iter().map(|l| l.ty).enumerate() {
                let value = self.expr(ty, 2, false);
                let place = Place { memory, indices: indices.clone(), leaf: leaf as u32, component: None };
                self.b.store_place(place, value, CacheHint::None);
            }
            if self.random.one_in(3) {
                self.permute_shared(memory, &layout, &indices);
            }
        }
        self.barrier();
        let shape = std::iter::once(Some(self.block)).chain(columns.map(Some)).collect();
        let array = Readable { memory, layout, shape, own: false };
        for _ in 0..self.random.between(1, 3) {
            let indices = self.indices(&array, 2, false);
            let leaf = self.random.next_below(array.layout.leaves.len());
            let lanes = array.layout.leaves[leaf].ty.lanes() as usize;
            let component = (lanes > 1 && self.random.one_in(3)).then(|| self.random.next_below(lanes) as u8);
            let value = self.b.load_place(Place { memory, indices, leaf: leaf as u32, component }, CacheHint::None);
            self.remember(value, false);
        }
        self.barrier();
    }

    fn vote(&mut self) {
        let cond = self.expr(BOOL, 2, false);
        let kind = self.random.pick(&[BarrierKind::BlockAny, BarrierKind::BlockAll, BarrierKind::BlockCount]);
        self.mark();
        if let Some(result) = self.b.barrier(kind, Some(cond)) {
            self.remember(result, true);
        }
    }

    fn shared_counter(&mut self) {
        let (scalar, family) = self.counter();
        let layout = ElementLayout::plain(Ty::Scalar(scalar));
        let extent = self.random.between(1, 4) as u32;
        let memory =
            self.b.memory(format!("s{}", self.spans), MemorySpace::Shared, layout.clone(), vec![Extent::Known(extent)]);
        let (flat, zero) = (self.flat(), self.b.i32(0));
        let first = self.b.binary(BinOp::Eq, flat, zero);
        self.mark();
        let block = self.scope(Flow::Varying, |g| g.fill(memory, &layout, &[extent], vec![], Self::counted));
        self.b.if_(first, block, vec![]);
        self.barrier();
        let array = Readable { memory, layout, shape: vec![Some(extent)], own: false };
        let indices = self.indices(&array, 2, false);
        let value = self.counted(Ty::Scalar(scalar));
        let op = self.commutative(family);
        self.mark();
        self.b.atomic_unused(op, Place { memory, indices, leaf: 0, component: None }, value, None);
        self.barrier();
        let indices = self.indices(&array, 2, false);
        let result = self.b.load(memory, &indices);
        self.remember(result, false);
        self.barrier();
    }

    /// Generates a write of a shared scalar by one thread, and after a barrier reads by all threads.
    fn shared_scalar(&mut self) {
        let ty = self.random.ty();
        let memory = self.b.memory(format!("s{}", self.spans), MemorySpace::Shared, ElementLayout::plain(ty), vec![]);
        let flat = self.flat();
        let lane = self.random.next_below(self.block as usize) as i32;
        let lane_expr = self.b.i32(lane);
        let chosen = self.b.binary(BinOp::Eq, flat, lane_expr);
        self.mark();
        let block = self.scope(Flow::Varying, |g| {
            let value = g.expr(ty, 2, false);
            g.b.store(memory, &[], value);
        });
        self.b.if_(chosen, block, vec![]);
        self.barrier();
        let value = self.b.load(memory, &[]);
        self.remember(value, true);
        self.barrier();
    }

    /// Generates warp operations among the lanes that enter a branch, and among those of them that have the same value.
    fn operations_of_some_lanes(&mut self) {
        self.mark();
        let goes = self.expr(BOOL, 2, false);
        let lanes = self.b.warp(WarpOp::Ballot, goes, None);
        let block = self.scope(Flow::Varying, |g| {
            g.warp_operation_among(Some(lanes));
            g.assign();
            if g.random.one_in(2) {
                let key = g.few(Scalar::I32, false);
                g.mark();
                let same = g.b.warp_masked(WarpOp::MatchAny, key, None, Some(lanes));
                g.warp_operation_among(Some(same));
                g.assign();
            }
        });
        self.b.if_(goes, block, vec![]);
    }

    fn warp_operation(&mut self) {
        if self.random.one_in(4) {
            return self.operations_of_some_lanes();
        }
        self.warp_operation_among(None);
    }

    fn warp_operation_among(&mut self, among: Option<ExprId>) {
        use WarpOp::*;
        if among.is_none() && self.random.one_in(6) {
            self.mark();
            self.b.fence(FenceScope::Block);
            self.b.barrier(BarrierKind::Warp, None);
        }
        let op = self.random.pick(&[
            // Avoids shuffles from lanes that do not exist in checked programs: checks report these, and the reference
            // does not.
            if self.checked { ShuffleUp } else { Shuffle },
            ShuffleUp,
            ShuffleDown,
            ShuffleXor,
            Ballot,
            Any,
            All,
            ReduceAdd,
            ReduceMin,
            ReduceMax,
            ReduceAnd,
            ReduceOr,
            ReduceXor,
            MatchAny,
        ]);
        let ty = match op {
            Shuffle | ShuffleUp | ShuffleDown | ShuffleXor => self.random.ty(),
            Ballot | Any | All => BOOL,
            ReduceAdd | ReduceMin | ReduceMax => Ty::Scalar(self.random.number()),
            ReduceAnd | ReduceOr | ReduceXor => Ty::Scalar(self.random.integer()),
            MatchAny => Ty::Scalar(self.random.integer()),
        };
        let value = self.expr(ty, 2, false);
        let value = if op == ReduceAdd { self.small(value, 7) } else { value };
        let lane = typing::warp_has_lane(op).then(|| {
            let ty = self.random.pick(&[I32, U32]);
            let any = self.expr(ty, 2, false);
            if ty == I32 && self.random.one_in(3) && !self.checked {
                return any;
            }
            let mask = self.b.constant(ScalarValue::of(31u8).to_type(ty.scalar()));
            self.b.binary(BinOp::And, any, mask)
        });
        self.mark();
        let result = self.b.warp_masked(op, value, lane, among);
        self.remember(result, false);
    }

    /// Generates an exchange through global memory: each thread writes its own element of an array, and after a grid
    /// barrier reads an element of another thread.
    fn exchange_through_grid(&mut self) {
        let Some(own) = self.own.iter().find(|own| own.access == Access::InOut).cloned() else { return };
        self.write_own(&own, 0);
        self.mark();
        self.b.barrier(BarrierKind::Grid, None);
        let shape = self.place.iter().map(|_| None).collect();
        let array = Readable { memory: own.memory, layout: own.layout.clone(), shape, own: false };
        for _ in 0..2 {
            let indices = self.indices(&array, 2, false);
            let value =
                self.b.load_place(Place { memory: own.memory, indices, leaf: 0, component: None }, CacheHint::None);
            self.remember(value, false);
        }
        self.mark();
        self.b.barrier(BarrierKind::Grid, None);
    }
}
