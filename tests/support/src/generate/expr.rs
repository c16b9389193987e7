//! Random expressions.

use clk_ir::def::*;
use clk_ir::typing;
use clk_scalar::ops::{MathFamily, MathFn, UnaryOp};
use clk_scalar::{Scalar, ScalarValue};

use super::{Generator, Readable};

const ARITHMETIC: [BinOp; 3] = [BinOp::Add, BinOp::Sub, BinOp::Mul];
const COMPARISONS: [BinOp; 6] = [BinOp::Eq, BinOp::Ne, BinOp::Lt, BinOp::Le, BinOp::Gt, BinOp::Ge];
const BITWISE: [BinOp; 3] = [BinOp::And, BinOp::Or, BinOp::Xor];
const SHIFTS: [BinOp; 2] = [BinOp::Shl, BinOp::Shr];

const OF_FLOATS: [MathFamily; 3] = [MathFamily::Floats, MathFamily::Approximations, MathFamily::Powers];

/// Returns the mathematical functions of these families.
fn functions(of: &[MathFamily]) -> Vec<MathFn> {
    MathFn::TABLE.iter().filter(|row| of.contains(&row.family)).map(|row| row.function).collect()
}

impl Generator {
    pub(super) fn constant(&mut self, ty: Ty) -> ExprId {
        let value = self.value(ty.scalar());
        let scalar = self.b.constant(value);
        match ty {
            Ty::Scalar(_) => scalar,
            Ty::Vector(s, n) => {
                let mut lanes = vec![scalar];
                while lanes.len() < n as usize {
                    let value = self.value(s);
                    lanes.push(self.b.constant(value));
                }
                self.b.compose(&lanes)
            }
        }
    }

    /// Generates an expression of a type; if `uniform`, its value is the same for all threads of a block.
    pub(super) fn expr(&mut self, ty: Ty, depth: usize, uniform: bool) -> ExprId {
        let expr = self.new_expr(ty, depth, uniform);
        // Give some expressions more than one use.
        if self.random.one_in(6) {
            self.remember(expr, uniform);
        }
        expr
    }

    fn new_expr(&mut self, ty: Ty, depth: usize, uniform: bool) -> ExprId {
        self.mark();
        if depth == 0 || self.random.one_in(3) {
            return self.leaf(ty, uniform);
        }
        match self.random.next_below(12) {
            0 | 1 => self.leaf(ty, uniform),
            2 => {
                let cond = self.condition(ty, depth - 1, uniform);
                let (then, other) = (self.expr(ty, depth - 1, uniform), self.expr(ty, depth - 1, uniform));
                self.b.select(cond, then, other)
            }
            3 => {
                let from = ty.with_scalar(self.random.scalar());
                let from = if let Ty::Vector(Scalar::Bool, n) = from { Ty::Vector(Scalar::I32, n) } else { from };
                let value = self.expr(from, depth - 1, uniform);
                let value = if ty.scalar().is_int() { self.small_float(value, ty.scalar()) } else { value };
                self.b.convert(value, ty.scalar())
            }
            4 => self.bitcast(ty, depth - 1, uniform),
            5 | 6 => self.load(ty, depth - 1, uniform),
            7 => match ty {
                Ty::Vector(s, n) => {
                    let lanes: Vec<ExprId> = (0..n).map(|_| self.expr(Ty::Scalar(s), depth - 1, uniform)).collect();
                    self.b.compose(&lanes)
                }
                Ty::Scalar(Scalar::Bool) => self.operation(ty, depth, uniform),
                Ty::Scalar(s) => {
                    let values = self.known.iter().flatten().filter(|k| k.uniform || !uniform).map(|k| k.expr);
                    let of = |&e: &ExprId| self.b.ty(e).lanes() > 1 && self.b.ty(e).scalar() == s;
                    let vectors: Vec<ExprId> = values.filter(of).collect();
                    let vector = if !vectors.is_empty() && self.random.one_in(2) {
                        self.random.pick(&vectors)
                    } else {
                        let lanes = self.random.between(2, 4) as u8;
                        self.expr(Ty::Vector(s, lanes), depth - 1, uniform)
                    };
                    let lanes = self.b.ty(vector).lanes();
                    let lane = self.random.next_below(lanes as usize) as u8;
                    self.b.extract(vector, lane)
                }
            },
            _ => self.operation(ty, depth, uniform),
        }
    }

    /// Generates a condition for a `select` of values of this type: one `bool`, or one per component.
    fn condition(&mut self, ty: Ty, depth: usize, uniform: bool) -> ExprId {
        match ty {
            Ty::Vector(s, n) if self.random.one_in(2) && s != Scalar::Bool => {
                let of = Ty::Vector(self.random.number(), n);
                self.compare(of, depth, uniform)
            }
            _ => self.expr(Ty::Scalar(Scalar::Bool), depth, uniform),
        }
    }

    fn compare(&mut self, of: Ty, depth: usize, uniform: bool) -> ExprId {
        let (left, right) = (self.expr(of, depth, uniform), self.expr(of, depth, uniform));
        let operators = if of.scalar() == Scalar::Bool { &COMPARISONS[..2] } else { &COMPARISONS[..] };
        let op = self.random.pick(operators);
        self.b.binary(op, left, right)
    }

    fn operation(&mut self, ty: Ty, depth: usize, uniform: bool) -> ExprId {
        let s = ty.scalar();
        let depth = depth - 1;
        if s == Scalar::Bool {
            return self.bool_operation(ty, depth, uniform);
        }
        let x = self.expr(ty, depth, uniform);
        if s.is_int() {
            match self.random.next_below(8) {
                0 => {
                    let x = self.small(x, 1);
                    self.b.unary(if self.random.one_in(2) { UnaryOp::Neg } else { UnaryOp::Not }, x)
                }
                1 => {
                    let amount = ty.with_scalar(self.random.integer());
                    let amount = self.expr(amount, depth, uniform);
                    let amount = self.amount(amount, s);
                    let op = self.random.pick(&SHIFTS);
                    self.b.binary(op, x, amount)
                }
                2 => self.divide(ty, x, depth, uniform),
                3 => self.function_of(&functions(&[MathFamily::Integers]), ty, x, depth, uniform),
                4 => {
                    let x = self.small(x, 1);
                    self.function_of(&functions(&[MathFamily::Numbers]), ty, x, depth, uniform)
                }
                _ => {
                    let y = self.expr(ty, depth, uniform);
                    let op = match self.random.next_below(10) {
                        0..=5 => self.random.pick(&ARITHMETIC),
                        9 => BinOp::Pow,
                        _ => self.random.pick(&BITWISE),
                    };
                    // In checked programs, the operands have at most the bits of the type divided by `part`, so that
                    // the result rarely overflows.
                    let part = match op {
                        BinOp::Add | BinOp::Sub => 2,
                        BinOp::Mul => 3,
                        BinOp::Pow => 7,
                        _ => return self.b.binary(op, x, y),
                    };
                    let (x, y) = (self.small(x, part), self.small(y, part));
                    self.b.binary(op, x, y)
                }
            }
        } else {
            match self.random.next_below(6) {
                0 => self.b.unary(UnaryOp::Neg, x),
                1 => {
                    let mut functions = functions(&OF_FLOATS);
                    if s == Scalar::F32 {
                        functions.push(MathFn::Tf32);
                    }
                    self.function_of(&functions, ty, x, depth, uniform)
                }
                2 => self.function_of(&functions(&[MathFamily::Numbers]), ty, x, depth, uniform),
                _ => {
                    let y = self.expr(ty, depth, uniform);
                    let op = match self.random.next_below(8) {
                        6 => BinOp::Div,
                        7 => self.random.pick(&[BinOp::Rem, BinOp::Pow]),
                        _ => self.random.pick(&ARITHMETIC),
                    };
                    self.b.binary(op, x, y)
                }
            }
        }
    }

    fn bool_operation(&mut self, ty: Ty, depth: usize, uniform: bool) -> ExprId {
        match self.random.next_below(8) {
            0 => {
                let x = self.expr(ty, depth, uniform);
                self.b.unary(UnaryOp::Not, x)
            }
            1 | 2 => {
                let (x, y) = (self.expr(ty, depth, uniform), self.expr(ty, depth, uniform));
                let op = self.random.pick(&BITWISE);
                self.b.binary(op, x, y)
            }
            3 => {
                let of = ty.with_scalar(self.random.float());
                let x = self.expr(of, depth, uniform);
                let function = self.random.pick(&[MathFn::IsNan, MathFn::IsInf, MathFn::IsFinite]);
                self.b.math(function, &[x])
            }
            _ => {
                let of = match ty {
                    Ty::Scalar(_) => Ty::Scalar(self.random.scalar()),
                    Ty::Vector(_, n) => Ty::Vector(self.random.number(), n),
                };
                self.compare(of, depth, uniform)
            }
        }
    }

    /// Generates a division by an odd number, so never by zero.
    fn divide(&mut self, ty: Ty, x: ExprId, depth: usize, uniform: bool) -> ExprId {
        let y = self.expr(ty, depth, uniform);
        let one = self.all(ScalarValue::one(ty.scalar()), ty);
        let odd = self.b.binary(BinOp::Or, y, one);
        let op = self.random.pick(&[BinOp::Div, BinOp::Rem]);
        self.b.binary(op, x, odd)
    }

    /// Returns a constant of type `ty`, with this value in every component.
    pub(super) fn all(&mut self, value: ScalarValue, ty: Ty) -> ExprId {
        let scalar = self.b.constant(value);
        if let Ty::Vector(_, n) = ty { self.b.broadcast(scalar, n) } else { scalar }
    }

    fn function_of(&mut self, functions: &[MathFn], ty: Ty, x: ExprId, depth: usize, uniform: bool) -> ExprId {
        let function = self.random.pick(functions);
        let mut args = vec![x];
        while args.len() < function.row().arity {
            let arg = self.expr(ty, depth, uniform);
            // The sign of a NaN is unspecified, so `copysign` must not use it.
            args.push(if function == MathFn::Copysign { self.no_nan(arg) } else { arg });
        }
        self.b.math(function, &args)
    }

    /// In checked programs, mostly reduces an integer to the bits of its type divided by `part`, so that a sum, product
    /// or power of such integers does not overflow.
    pub(super) fn small(&mut self, x: ExprId, part: u32) -> ExprId {
        let ty = self.b.ty(x);
        if !self.checked || !ty.scalar().is_int() || self.random.one_in(60) {
            return x;
        }
        let bits = ((ty.scalar().bits() - 1) / part).min(if part > 3 { 3 } else { 64 });
        let most = self.all(ScalarValue::from_bits(ty.scalar(), (1 << bits) - 1), ty);
        self.b.binary(BinOp::And, x, most)
    }

    /// In checked programs, mostly keeps the amount of a shift below the width.
    fn amount(&mut self, amount: ExprId, shifted: Scalar) -> ExprId {
        if !self.checked || self.random.one_in(60) {
            return amount;
        }
        let ty = self.b.ty(amount);
        let most = self.all(ScalarValue::of(shifted.bits() as i32 - 1).to_type(ty.scalar()), ty);
        self.b.binary(BinOp::And, amount, most)
    }

    /// In checked programs, mostly keeps a float in the range of an integer type.
    fn small_float(&mut self, x: ExprId, to: Scalar) -> ExprId {
        let ty = self.b.ty(x);
        if !self.checked || !ty.scalar().is_float() || self.random.one_in(60) {
            return x;
        }
        let low = self.all(ScalarValue::of(if to.is_signed() { -100 } else { 0 }).to_type(ty.scalar()), ty);
        let high = self.all(ScalarValue::of(100).to_type(ty.scalar()), ty);
        self.b.math(MathFn::Clamp, &[x, low, high])
    }

    /// Replaces a NaN by a constant, unless the program may observe the bits of NaNs.
    fn no_nan(&mut self, value: ExprId) -> ExprId {
        if self.checked { value } else { self.without_nan(value) }
    }

    fn without_nan(&mut self, value: ExprId) -> ExprId {
        let ty = self.b.ty(value);
        let nan = self.b.math(MathFn::IsNan, &[value]);
        let other = self.all(ScalarValue::one(ty.scalar()), ty);
        self.b.select(nan, other, value)
    }

    fn bitcast(&mut self, ty: Ty, depth: usize, uniform: bool) -> ExprId {
        let same_size: Vec<Scalar> =
            Scalar::ALL.into_iter().filter(|s| s.size() == ty.scalar().size() && s.is_num()).collect();
        if ty.scalar() == Scalar::Bool {
            return self.leaf(ty, uniform);
        }
        let from = ty.with_scalar(self.random.pick(&same_size));
        let value = self.expr(from, depth, uniform);
        let value = if from.scalar().is_float() { self.no_nan(value) } else { value };
        let value = self.b.bitcast(value, ty.scalar());
        if self.checked && ty.scalar().is_float() { self.without_nan(value) } else { value }
    }

    /// Returns an existing value, or else a constant.
    fn leaf(&mut self, ty: Ty, uniform: bool) -> ExprId {
        let in_scope: Vec<ExprId> =
            self.known.iter().flatten().filter(|k| k.uniform || !uniform).map(|k| k.expr).collect();
        let of_type: Vec<ExprId> = in_scope.into_iter().filter(|&e| self.b.ty(e) == ty).collect();
        let variables = self.variables.iter().flatten().filter(|v| v.ty == ty && (v.uniform || !uniform));
        let variables: Vec<LocalId> = variables.map(|v| v.local).collect();
        match self.random.next_below(8) {
            0..=2 if !of_type.is_empty() => self.random.pick(&of_type),
            3..=5 if !variables.is_empty() => {
                let local = self.random.pick(&variables);
                self.b.read(local)
            }
            6 | 7 if ty == typing::I32 => self.index_leaf(uniform),
            _ => self.constant(ty),
        }
    }

    /// Returns an `i32` that is an index of the thread, or an extent of the launch or of an array.
    fn index_leaf(&mut self, uniform: bool) -> ExprId {
        let axis = self.random.pick(&[Axis::X, Axis::X, Axis::Y, Axis::Z]);
        let choice = self.random.next_below(8);
        if self.in_function || choice == 0 {
            if let Some(array) = self.any_readable() {
                let axis = self.random.next_below(array.shape.len()) as u8;
                return self.b.extent(array.memory, axis);
            }
            return self.constant(typing::I32);
        }
        if !self.grid {
            return match uniform {
                true => self.constant(typing::I32),
                false => {
                    let place = self.place.clone();
                    self.random.pick(&place)
                }
            };
        }
        if uniform {
            let id = self.random.pick(&[BuiltinIndex::Block, BuiltinIndex::BlockDim, BuiltinIndex::GridDim]);
            return self.b.id(id, axis);
        }
        match choice {
            1 => self.b.lane_idx(),
            2 => self.b.warp_idx(),
            3 => self.b.id(BuiltinIndex::Global, axis),
            _ => self.b.id(BuiltinIndex::Thread, axis),
        }
    }

    pub(super) fn any_readable(&mut self) -> Option<Readable> {
        let all: Vec<&Readable> = self.readable.iter().flatten().collect();
        if all.is_empty() { None } else { Some(all[self.random.next_below(all.len())].clone()) }
    }

    /// Loads an arbitrary element of an array that has values of this type. Without such an array, returns an existing
    /// value or a constant.
    fn load(&mut self, ty: Ty, depth: usize, uniform: bool) -> ExprId {
        let leaves_of = |layout: &ElementLayout| -> Vec<(u32, Option<u8>)> {
            let mut leaves = vec![];
            for (i, leaf) in layout.leaves.iter().enumerate() {
                if leaf.ty == ty {
                    leaves.push((i as u32, None));
                } else if leaf.ty.lanes() > 1 && Ty::Scalar(leaf.ty.scalar()) == ty {
                    leaves.extend((0..leaf.ty.lanes()).map(|lane| (i as u32, Some(lane))));
                }
            }
            leaves
        };
        let candidates: Vec<(Readable, (u32, Option<u8>))> = self
            .readable
            .iter()
            .flatten()
            .filter(|array| !(uniform && array.own))
            .flat_map(|array| leaves_of(&array.layout).into_iter().map(|leaf| (array.clone(), leaf)))
            .collect();
        if candidates.is_empty() {
            return self.leaf(ty, uniform);
        }
        let (array, (leaf, component)) = candidates[self.random.next_below(candidates.len())].clone();
        let indices = self.indices(&array, depth, uniform);
        let hint = self.random.pick(&[CacheHint::None, CacheHint::None, CacheHint::Cached, CacheHint::Streaming]);
        self.b.load_place(Place { memory: array.memory, indices, leaf, component }, hint)
    }

    /// Generates in-bounds indices.
    pub(super) fn indices(&mut self, array: &Readable, depth: usize, uniform: bool) -> Vec<ExprId> {
        let axes: Vec<(usize, Option<u32>)> = array.shape.iter().copied().enumerate().collect();
        axes.into_iter().map(|(axis, extent)| self.index(array.memory, axis as u8, extent, depth, uniform)).collect()
    }

    fn index(&mut self, memory: MemId, axis: u8, extent: Option<u32>, depth: usize, uniform: bool) -> ExprId {
        if let Some(extent) = extent
            && self.random.one_in(3)
        {
            let at = self.random.next_below(extent as usize) as i32;
            return self.b.i32(at);
        }
        if let Some(extent) = extent
            && self.random.one_in(2)
        {
            return self.affine(extent, uniform);
        }
        // Clears the sign of an arbitrary integer, and then reduces it modulo the extent.
        let scalar = if extent.is_some() { self.random.integer() } else { Scalar::I32 };
        let ty = Ty::Scalar(scalar);
        let any = self.expr(ty, depth, uniform);
        let positive = if scalar.is_signed() {
            let most = ScalarValue::from_bits(scalar, (1u64 << (scalar.bits() - 1)) - 1);
            let mask = self.b.constant(most);
            self.b.binary(BinOp::And, any, mask)
        } else {
            any
        };
        let extent = match extent {
            Some(n) => self.b.constant(ScalarValue::of(n).to_type(scalar)),
            None => self.b.extent(memory, axis),
        };
        self.b.binary(BinOp::Rem, positive, extent)
    }

    /// Generates an index below `extent` that is a sum of multiples of the thread's coordinates and a uniform value.
    pub(super) fn affine(&mut self, extent: u32, uniform: bool) -> ExprId {
        let (mut low, mut high) = (0, 0);
        let mut sum = None;
        for _ in 0..self.random.between(1, 3) {
            let coefficient = self.random.pick(&[1, 1, 1, -1, 2, -2, 3]);
            let few = uniform || self.coordinates.is_empty() || self.random.one_in(3);
            let (term, count) = if few {
                (self.few(Scalar::I32, true), 8)
            } else {
                let coordinates = self.coordinates.clone();
                self.random.pick(&coordinates)
            };
            let most = coefficient * (count.max(1) as i32 - 1);
            if high.max(high + most) - low.min(low + most) >= extent as i32 {
                continue;
            }
            (low, high) = (low + most.min(0), high + most.max(0));
            let factor = self.b.i32(coefficient);
            let term = if coefficient == 1 { term } else { self.b.binary(BinOp::Mul, term, factor) };
            sum = Some(sum.map_or(term, |sum| self.b.binary(BinOp::Add, sum, term)));
        }
        let start = self.random.next_below((extent as i32 - (high - low)) as usize) as i32 - low;
        let start = self.b.i32(start);
        let index = sum.map_or(start, |sum| self.b.binary(BinOp::Add, sum, start));
        match self.random.next_below(8) {
            0 => self.b.convert(index, Scalar::I64),
            1 => self.b.convert(index, Scalar::U32),
            2 => self.b.convert(index, Scalar::U64),
            _ => index,
        }
    }
}
