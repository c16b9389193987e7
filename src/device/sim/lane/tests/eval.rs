//! An evaluator of regions that takes nothing on trust: lanes that do not take part hold garbage, and an address outside of its
//! array is an error even where it is harmless.

use super::*;
use crate::lang::ops::{BinaryOp, UnaryOp};
use crate::lang::scalar;
use crate::lang::scalar::dynamic;

pub(super) const WIDTH: usize = 8;

/// An array: its bytes and its shape.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Array {
    pub bytes: Vec<u8>,
    pub shape: Vec<u32>,
    /// Bytes of an element.
    pub size: usize,
}

/// What a region runs on.
pub(super) struct World<'a> {
    pub region: &'a Region,
    /// The lane bits of uniform registers.
    pub uniform: &'a dyn Fn(Reg) -> u64,
    pub memories: Vec<(MemId, Array)>,
    /// The extents of the group.
    pub block: [i32; 2],
    /// The vectors of the batch: coordinates of the first lane.
    pub vectors: Vec<(i32, i32)>,
    pub values: Vec<Vec<u64>>,
    pub steps: usize,
}

/// How control leaves a list of nodes.
#[derive(Clone, Copy, PartialEq)]
enum Flow {
    Next,
    To(Exit),
    /// Out of the region.
    Left,
}

fn scalar_of(elem: Elem) -> Scalar {
    match elem {
        Elem::F32 => Scalar::F32,
        Elem::F64 => Scalar::F64,
        Elem::I32 => Scalar::I32,
        Elem::U32 => Scalar::U32,
        Elem::I64 => Scalar::I64,
        Elem::U64 => Scalar::U64,
    }
}

fn typed(elem: Elem, bits: u64) -> scalar::Value {
    scalar::Value::from_bits(scalar_of(elem), if elem.is_wide() { bits } else { bits as u32 as u64 })
}

/// Returns the bits of an operation's result; `None` for a division by zero.
fn binary(bin: Bin, elem: Elem, a: u64, b: u64) -> Option<u64> {
    let (x, mut y) = (typed(elem, a), typed(elem, b));
    let op = match bin {
        Bin::Add => BinaryOp::Add,
        Bin::Sub => BinaryOp::Sub,
        Bin::Mul => BinaryOp::Mul,
        Bin::And => BinaryOp::BitAnd,
        Bin::Or => BinaryOp::BitOr,
        Bin::Xor => BinaryOp::BitXor,
        Bin::Shl => BinaryOp::Shl,
        Bin::Shr => BinaryOp::Shr,
        Bin::Div => BinaryOp::Div,
        Bin::Rem => BinaryOp::Rem,
        Bin::Min => return dynamic::math(MathFn::Min, &[x, y]).ok().map(|v| v.bits),
        Bin::Max => return dynamic::math(MathFn::Max, &[x, y]).ok().map(|v| v.bits),
    };
    if matches!(bin, Bin::Shl | Bin::Shr) {
        y.bits &= if elem.is_wide() { 63 } else { 31 };
    }
    dynamic::binary(op, x, y).ok().map(|v| v.bits)
}

fn related(rel: Rel, elem: Elem, a: u64, b: u64) -> bool {
    let op = match rel {
        Rel::Eq => BinaryOp::Eq,
        Rel::Ne => BinaryOp::Ne,
        Rel::Lt => BinaryOp::Lt,
        Rel::Le => BinaryOp::Le,
        Rel::Gt => BinaryOp::Gt,
        Rel::Ge => BinaryOp::Ge,
    };
    dynamic::binary(op, typed(elem, a), typed(elem, b)).expect("a comparison").bits != 0
}

fn unary(un: Un, elem: Elem, a: u64) -> u64 {
    let a = typed(elem, a);
    let function = match un {
        Un::Neg => return dynamic::unary(UnaryOp::Neg, a).unwrap().bits,
        Un::Abs => MathFn::Abs,
        Un::Sqrt => MathFn::Sqrt,
        Un::Rsqrt => MathFn::Rsqrt,
        Un::Floor => MathFn::Floor,
        Un::Ceil => MathFn::Ceil,
        Un::Trunc => MathFn::Trunc,
        Un::Round => MathFn::Round,
    };
    dynamic::math(function, &[a]).unwrap().bits
}

/// What a lane holds that takes no part.
fn garbage(lane: usize) -> u64 {
    0x7b1d_0003_u64.wrapping_mul(lane as u64 + 1) & 0xffff_ffff
}

/// Returns the bytes of a column of 4-byte lanes.
pub(super) fn column(block: [i32; 2]) -> usize {
    4 * ((block[0] * block[1]) as usize).next_multiple_of(16)
}

const SPACE: i64 = 1 << 36;

impl World<'_> {
    /// Runs setup and body for the batch; returns false if it left.
    pub fn run(&mut self) -> bool {
        self.values = vec![vec![]; self.region.values.len()];
        let region = self.region;
        let left = region.setup.iter().any(|inst| self.inst(inst) == Flow::Left);
        !left && self.nodes(&region.body) == Flow::Next
    }

    fn nodes(&mut self, nodes: &[Node]) -> Flow {
        for node in nodes {
            let flow = match node {
                Node::Inst(inst) => self.inst(inst),
                // One batch.
                Node::Each(inner) => self.nodes(inner),
                Node::Block(exit, inner) => match self.nodes(inner) {
                    Flow::To(to) if to == *exit => Flow::Next,
                    flow => flow,
                },
                Node::Loop(inner) => loop {
                    match self.nodes(inner) {
                        Flow::Next => {}
                        flow => break flow,
                    }
                },
                Node::Branch(cond, exit) => {
                    let taken = match *cond {
                        Cond::Always => true,
                        Cond::None(mask) => self.values[mask.index()].iter().all(|&m| m == 0),
                        Cond::Scalar(rel, elem, a, b) => {
                            related(rel, elem, self.values[a.index()][0], self.values[b.index()][0])
                        }
                    };
                    if taken { Flow::To(*exit) } else { Flow::Next }
                }
            };
            if flow != Flow::Next {
                return flow;
            }
        }
        Flow::Next
    }

    fn lanes(&self) -> usize {
        self.vectors.len() * WIDTH
    }

    fn inst(&mut self, inst: &Inst) -> Flow {
        self.steps += 1;
        assert!(self.steps < 1_000_000, "a loop does not end");
        let active = |i: usize| inst.mask == Value::NONE || self.values[inst.mask.index()][i] != 0;
        let active: Vec<bool> = (0..self.lanes()).map(active).collect();
        let of = |v: Value| if v == Value::NONE { vec![0; self.lanes()] } else { self.values[v.index()].clone() };
        let [a, b, c] = inst.args.map(of);
        if inst.leaves() {
            return if (0..self.lanes()).any(|i| leaves(inst.op, active[i], self.x(i), [a[i], b[i], c[i]])) {
                Flow::Left
            } else {
                Flow::Next
            };
        }
        if let Op::Store(cell, form) = inst.op {
            for i in (0..self.lanes()).filter(|&i| active[i]) {
                let address = self.address(a[i], form, cell, c[i], i);
                let bytes = b[i].to_le_bytes();
                let size = cell.size() as usize;
                self.cell(address, size).copy_from_slice(&bytes[..size]);
            }
            return Flow::Next;
        }
        if let Op::Atomic(op, elem) = inst.op {
            let cell = if elem.is_wide() { Cell::W8 } else { Cell::W4 };
            let mut found: Vec<u64> = (0..self.lanes()).map(garbage).collect();
            for i in (0..self.lanes()).filter(|&i| active[i]) {
                let address = self.address(a[i], Form::Lanes, cell, b[i], i);
                let old = typed(elem, self.element(address, cell));
                let expected = inst.compares().then(|| typed(elem, self.values[inst.dst.index()][i]));
                let new = dynamic::atomic(op, old, typed(elem, c[i]), expected).expect("an operation of the type");
                let size = cell.size() as usize;
                self.cell(address, size).copy_from_slice(&new.bits.to_le_bytes()[..size]);
                found[i] = old.bits;
            }
            if inst.dst != Value::NONE {
                self.values[inst.dst.index()] = found;
            }
            return Flow::Next;
        }
        let any = (0..self.lanes()).any(|i| active[i] && a[i] != 0);
        let mut result = vec![0; self.lanes()];
        for i in 0..self.lanes() {
            result[i] = match inst.op {
                Op::Any => any.into(),
                Op::FirstLane => a[0],
                Op::Load(..) if !active[i] => garbage(i),
                Op::Load(cell, form) => {
                    let address = self.address(a[i], form, cell, b[i], i);
                    self.element(address, cell)
                }
                Op::LoadScalar(cell) => self.element(a[i] as i64, cell),
                Op::Move | Op::Vector(..) if !active[i] => self.values[inst.dst.index()][i],
                Op::Compare(..) if !active[i] => 0,
                op => self.pure(op, [a[i], b[i], c[i]], i),
            };
            if matches!(self.region.ty(inst.dst), Ty::V32 | Ty::I32) {
                result[i] = u64::from(result[i] as u32);
            }
        }
        self.values[inst.dst.index()] = result;
        Flow::Next
    }

    fn x(&self, i: usize) -> i64 {
        i64::from(self.vectors[i / WIDTH].0) + (i % WIDTH) as i64
    }

    fn address(&self, base: u64, form: Form, cell: Cell, offset: u64, i: usize) -> i64 {
        base as i64
            + match form {
                Form::One => 0,
                Form::Row => i64::from(cell.size()) * self.x(i),
                Form::Lanes => i64::from(offset as u32 as i32),
                Form::Own(columns) => self.own(columns, cell, i),
                Form::OwnLanes(columns) => i64::from(offset as u32 as i32) + self.own(columns, cell, i),
            }
    }

    /// Returns the bytes from the start of a column to a lane of one of those behind it.
    fn own(&self, columns: i32, cell: Cell, i: usize) -> i64 {
        let row = i64::from(self.vectors[i / WIDTH].1);
        let lane = row * i64::from(self.block[0]) + self.x(i);
        i64::from(columns) * column(self.block) as i64 + lane * i64::from(cell.size())
    }

    fn cell(&mut self, address: i64, size: usize) -> &mut [u8] {
        let (number, offset) = (address.div_euclid(SPACE), address.rem_euclid(SPACE) as usize);
        let found = self.memories.iter_mut().find(|(m, _)| m.index() as i64 + 1 == number);
        let (_, array) = found.unwrap_or_else(|| panic!("no array at {address:#x}"));
        assert!(offset + size <= array.bytes.len(), "byte {offset} of array {number} of {}", array.bytes.len());
        &mut array.bytes[offset..offset + size]
    }

    fn element(&mut self, address: i64, cell: Cell) -> u64 {
        let mut raw = [0; 8];
        let size = cell.size() as usize;
        raw[..size].copy_from_slice(self.cell(address, size));
        let raw = u64::from_le_bytes(raw);
        match cell {
            Cell::I8 => raw as i8 as i32 as u32 as u64,
            Cell::I16 => raw as i16 as i32 as u32 as u64,
            _ => raw,
        }
    }

    fn input(&self, input: Input) -> u64 {
        let array = |m: MemId| &self.memories.iter().find(|(id, _)| *id == m).expect("a memory").1;
        match input {
            Input::Uniform(reg, Scalar::Bool) => u64::from((self.uniform)(reg) != 0),
            Input::Uniform(reg, _) => (self.uniform)(reg),
            Input::Alone(_) => 1,
            Input::Base(memory) => (SPACE * (memory.index() as i64 + 1)) as u64,
            Input::Extent(memory, axis) => array(memory).shape[axis as usize].into(),
            Input::Pitch(memory, axis) => {
                let inner = array(memory).shape[axis as usize + 1..].iter().map(|&n| u64::from(n));
                inner.product::<u64>() * array(memory).size as u64
            }
            Input::First(_) => 0,
            Input::Last(axis) => self.block.get(axis as usize).map_or(0, |n| n - 1) as u64,
            Input::Column => column(self.block) as u64,
            Input::Marks(_) | Input::Mark(_) => unimplemented!("marks"),
            Input::Lanes(_) => unimplemented!("registers of lanes"),
        }
    }

    fn pure(&self, op: Op, [a, b, c]: [u64; 3], i: usize) -> u64 {
        let (x0, y) = self.vectors[i / WIDTH];
        let mask = |m: bool| u64::from(m);
        match op {
            Op::Const(value) => value as u64,
            Op::Input(input) | Op::BroadcastInput(input) => self.input(input),
            Op::Coord(axis) => [x0, y, 0][axis as usize] as u32 as u64,
            Op::Scalar(bin, elem) => binary(bin, elem, a, b).expect("scalars are not divided by zero"),
            Op::Vector(bin, elem) => binary(bin, elem, a, b).unwrap_or(garbage(i)),
            Op::Set(rel, elem) | Op::Compare(rel, elem) => mask(related(rel, elem, a, b)),
            Op::Sext => a as u32 as i32 as i64 as u64,
            Op::Zext | Op::Trunc => a as u32 as u64,
            Op::Choose | Op::Select => {
                if a != 0 {
                    b
                } else {
                    c
                }
            }
            Op::Limit(c) => (a as i64 - i64::from(c.abs()) * (WIDTH as i64 - 1)).max(0) as u64,
            Op::Splat(bits) => bits,
            Op::Broadcast | Op::Move | Op::MaskOfLanes | Op::MaskOf => match op {
                Op::MaskOfLanes | Op::MaskOf => mask(a != 0),
                _ => a,
            },
            Op::Iota(c) => (i64::from(c) * (i % WIDTH) as i64) as u64,
            Op::Unary(un, elem) => unary(un, elem, a),
            Op::Fma(elem) => {
                dynamic::math(MathFn::Fma, &[typed(elem, a), typed(elem, b), typed(elem, c)]).unwrap().bits
            }
            Op::FromHalf => scalar::half::f16_to_f32(scalar::f16::from_bits(a as u16)).to_bits().into(),
            Op::ToHalf => scalar::half::f32_to_f16(f32::from_bits(a as u32)).to_bits().into(),
            Op::Convert(from, to) => dynamic::convert(scalar_of(to), typed(from, a)).bits,
            Op::Call(function, elem) => {
                let args = [typed(elem, a), typed(elem, b)];
                dynamic::math(function, &args[..function.row().arity]).unwrap().bits
            }
            Op::MaskConst(all) => mask(all),
            Op::LanesOfMask => {
                if a != 0 {
                    u64::from(u32::MAX)
                } else {
                    0
                }
            }
            Op::MaskAnd => a & b,
            Op::MaskWithout => a & (b ^ 1),
            Op::MaskOr => a | b,
            Op::MaskXor => a ^ b,
            Op::MaskNot => a ^ 1,
            Op::Entered => mask(self.x(i) < self.block[0].into() && y < self.block[1]),
            op => unimplemented!("{op}"),
        }
    }
}

/// Returns whether a check or the like leaves because of this lane.
fn leaves(op: Op, active: bool, x: i64, args: [u64; 3]) -> bool {
    let [a, b, c] = args.map(|v| v as i64);
    let outside = |index: i64, extent: i64| !(0..extent).contains(&index);
    match op {
        Op::CheckOne => outside(a, b),
        // The limit only saves work.
        Op::CheckRow(k) => active && outside(a.wrapping_add(x * i64::from(k)), c),
        Op::CheckLanes => active && args[0] >= args[1],
        Op::CheckRange => a < 0 || b >= c,
        Op::LeaveAny => active && a != 0,
        Op::LeaveZero => a == 0,
        _ => false,
    }
}
