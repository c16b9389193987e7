//! A strict evaluator of regions. Inactive lanes contain garbage. An address outside the accessed array is an error
//! even if it lies inside another array.

use super::*;
use clk_scalar::dynamic;
use clk_scalar::ops::{BinaryOp, UnaryOp};

pub(super) const WIDTH: usize = 8;

/// An array: its bytes and its shape.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct TestArray {
    pub bytes: Vec<u8>,
    pub shape: Vec<u32>,
    /// Bytes of an element.
    pub size: usize,
}

/// The state that a region runs on.
pub(super) struct RegionEvaluator<'a> {
    pub region: &'a LaneRegion,
    /// The values of uniform registers, as lane bits.
    pub uniform: &'a dyn Fn(Reg) -> u64,
    pub memories: Vec<(MemId, TestArray)>,
    /// The extents of the group along x and y.
    pub block: [i32; 2],
    /// For each vector of the batch, the coordinates (x, y) of its first lane.
    pub vectors: Vec<(i32, i32)>,
    pub values: Vec<Vec<u64>>,
    pub steps: usize,
}

/// How control leaves a list of nodes.
#[derive(Clone, Copy, PartialEq)]
enum EvalFlow {
    Next,
    To(Exit),
    /// A check failed and took a side exit.
    Left,
}

fn scalar_of(elem: LaneElem) -> Scalar {
    match elem {
        LaneElem::F32 => Scalar::F32,
        LaneElem::F64 => Scalar::F64,
        LaneElem::I32 => Scalar::I32,
        LaneElem::U32 => Scalar::U32,
        LaneElem::I64 => Scalar::I64,
        LaneElem::U64 => Scalar::U64,
    }
}

fn typed(elem: LaneElem, bits: u64) -> clk_scalar::ScalarValue {
    clk_scalar::ScalarValue::from_bits(scalar_of(elem), if elem.is_wide() { bits } else { bits as u32 as u64 })
}

/// Returns the bits of an operation's result, or `None` for a division by zero.
fn binary(bin: LaneBinOp, elem: LaneElem, a: u64, b: u64) -> Option<u64> {
    let (x, mut y) = (typed(elem, a), typed(elem, b));
    let op = match bin {
        LaneBinOp::Add => BinaryOp::Add,
        LaneBinOp::Sub => BinaryOp::Sub,
        LaneBinOp::Mul => BinaryOp::Mul,
        LaneBinOp::And => BinaryOp::BitAnd,
        LaneBinOp::Or => BinaryOp::BitOr,
        LaneBinOp::Xor => BinaryOp::BitXor,
        LaneBinOp::Shl => BinaryOp::Shl,
        LaneBinOp::Shr => BinaryOp::Shr,
        LaneBinOp::Div => BinaryOp::Div,
        LaneBinOp::Rem => BinaryOp::Rem,
        LaneBinOp::Min => return dynamic::math(MathFn::Min, &[x, y]).ok().map(|v| v.bits),
        LaneBinOp::Max => return dynamic::math(MathFn::Max, &[x, y]).ok().map(|v| v.bits),
    };
    if matches!(bin, LaneBinOp::Shl | LaneBinOp::Shr) {
        y.bits &= if elem.is_wide() { 63 } else { 31 };
    }
    dynamic::binary(op, x, y).ok().map(|v| v.bits)
}

fn related(rel: LaneComparison, elem: LaneElem, a: u64, b: u64) -> bool {
    let op = match rel {
        LaneComparison::Eq => BinaryOp::Eq,
        LaneComparison::Ne => BinaryOp::Ne,
        LaneComparison::Lt => BinaryOp::Lt,
        LaneComparison::Le => BinaryOp::Le,
        LaneComparison::Gt => BinaryOp::Gt,
        LaneComparison::Ge => BinaryOp::Ge,
    };
    dynamic::binary(op, typed(elem, a), typed(elem, b)).expect("a comparison").bits != 0
}

fn unary(un: LaneUnaryOp, elem: LaneElem, a: u64) -> u64 {
    let a = typed(elem, a);
    let function = match un {
        LaneUnaryOp::Neg => return dynamic::unary(UnaryOp::Neg, a).unwrap().bits,
        LaneUnaryOp::Abs => MathFn::Abs,
        LaneUnaryOp::Sqrt => MathFn::Sqrt,
        LaneUnaryOp::Rsqrt => MathFn::Rsqrt,
        LaneUnaryOp::Floor => MathFn::Floor,
        LaneUnaryOp::Ceil => MathFn::Ceil,
        LaneUnaryOp::Trunc => MathFn::Trunc,
        LaneUnaryOp::Round => MathFn::Round,
    };
    dynamic::math(function, &[a]).unwrap().bits
}

/// Returns the garbage value of an inactive lane.
fn garbage(lane: usize) -> u64 {
    0x7b1d_0003_u64.wrapping_mul(lane as u64 + 1) & 0xffff_ffff
}

/// Returns the size in bytes of a column of 4-byte lanes.
pub(super) fn column(block: [i32; 2]) -> usize {
    4 * ((block[0] * block[1]) as usize).next_multiple_of(16)
}

const SPACE: i64 = 1 << 36;

impl RegionEvaluator<'_> {
    /// Runs the setup and the body for the batch. Returns false if a check took a side exit.
    pub fn run(&mut self) -> bool {
        self.values = vec![vec![]; self.region.values.len()];
        let region = self.region;
        let left = region.setup.iter().any(|inst| self.inst(inst) == EvalFlow::Left);
        !left && self.nodes(&region.body) == EvalFlow::Next
    }

    fn nodes(&mut self, nodes: &[LaneNode]) -> EvalFlow {
        for node in nodes {
            let flow = match node {
                LaneNode::Inst(inst) => self.inst(inst),
                // There is only one batch, so a phase runs once.
                LaneNode::Phase(inner) => self.nodes(inner),
                LaneNode::Block(exit, inner) => match self.nodes(inner) {
                    EvalFlow::To(to) if to == *exit => EvalFlow::Next,
                    flow => flow,
                },
                LaneNode::Loop(inner) => loop {
                    match self.nodes(inner) {
                        EvalFlow::Next => {}
                        flow => break flow,
                    }
                },
                LaneNode::Branch(cond, exit) => {
                    let is_taken = match *cond {
                        BranchCond::Always => true,
                        BranchCond::MaskEmpty(mask) => self.values[mask.index()].iter().all(|&m| m == 0),
                        BranchCond::Scalar(rel, elem, a, b) => {
                            related(rel, elem, self.values[a.index()][0], self.values[b.index()][0])
                        }
                    };
                    if is_taken { EvalFlow::To(*exit) } else { EvalFlow::Next }
                }
            };
            if flow != EvalFlow::Next {
                return flow;
            }
        }
        EvalFlow::Next
    }

    fn lanes(&self) -> usize {
        self.vectors.len() * WIDTH
    }

    fn inst(&mut self, inst: &LaneInst) -> EvalFlow {
        self.steps += 1;
        assert!(self.steps < 1_000_000, "a loop does not end");
        let active = |i: usize| inst.mask == LaneValue::NONE || self.values[inst.mask.index()][i] != 0;
        let active: Vec<bool> = (0..self.lanes()).map(active).collect();
        let of =
            |v: LaneValue| if v == LaneValue::NONE { vec![0; self.lanes()] } else { self.values[v.index()].clone() };
        let [a, b, c] = inst.args.map(of);
        if inst.may_exit() {
            return if (0..self.lanes()).any(|i| leaves(inst.op, active[i], self.x(i), [a[i], b[i], c[i]])) {
                EvalFlow::Left
            } else {
                EvalFlow::Next
            };
        }
        if let LaneOp::Store(cell, form) = inst.op {
            for i in (0..self.lanes()).filter(|&i| active[i]) {
                let address = self.address(a[i], form, cell, c[i], i);
                let bytes = b[i].to_le_bytes();
                let size = cell.size() as usize;
                self.cell(address, size).copy_from_slice(&bytes[..size]);
            }
            return EvalFlow::Next;
        }
        if let LaneOp::Atomic(op, elem) = inst.op {
            let cell = if elem.is_wide() { MemoryWidth::W8 } else { MemoryWidth::W4 };
            let mut old_values: Vec<u64> = (0..self.lanes()).map(garbage).collect();
            for i in (0..self.lanes()).filter(|&i| active[i]) {
                let address = self.address(a[i], AddressForm::Indexed, cell, b[i], i);
                let old = typed(elem, self.element(address, cell));
                let expected = inst.is_compare_exchange().then(|| typed(elem, self.values[inst.dst.index()][i]));
                let new = dynamic::atomic(op, old, typed(elem, c[i]), expected).expect("an operation of the type");
                let size = cell.size() as usize;
                self.cell(address, size).copy_from_slice(&new.bits.to_le_bytes()[..size]);
                old_values[i] = old.bits;
            }
            if inst.dst != LaneValue::NONE {
                self.values[inst.dst.index()] = old_values;
            }
            return EvalFlow::Next;
        }
        let any = (0..self.lanes()).any(|i| active[i] && a[i] != 0);
        let mut result = vec![0; self.lanes()];
        for i in 0..self.lanes() {
            result[i] = match inst.op {
                LaneOp::AnyActive => any.into(),
                LaneOp::FirstLane => a[0],
                LaneOp::Load(..) if !active[i] => garbage(i),
                LaneOp::Load(cell, form) => {
                    let address = self.address(a[i], form, cell, b[i], i);
                    self.element(address, cell)
                }
                LaneOp::LoadScalar(cell) => self.element(a[i] as i64, cell),
                LaneOp::Move | LaneOp::Vector(..) if !active[i] => self.values[inst.dst.index()][i],
                LaneOp::Compare(..) if !active[i] => 0,
                op => self.pure(op, [a[i], b[i], c[i]], i),
            };
            if matches!(self.region.ty(inst.dst), LaneTy::V32 | LaneTy::I32) {
                result[i] = u64::from(result[i] as u32);
            }
        }
        self.values[inst.dst.index()] = result;
        EvalFlow::Next
    }

    fn x(&self, i: usize) -> i64 {
        i64::from(self.vectors[i / WIDTH].0) + (i % WIDTH) as i64
    }

    fn address(&self, base: u64, form: AddressForm, cell: MemoryWidth, offset: u64, i: usize) -> i64 {
        base as i64
            + match form {
                AddressForm::Uniform => 0,
                AddressForm::Contiguous => i64::from(cell.size()) * self.x(i),
                AddressForm::Indexed => i64::from(offset as u32 as i32),
                AddressForm::LocalColumn(columns) => self.own(columns, cell, i),
                AddressForm::LocalIndexed(columns) => i64::from(offset as u32 as i32) + self.own(columns, cell, i),
            }
    }

    /// Returns the byte offset of a lane in the column `columns` after an address.
    fn own(&self, columns: i32, cell: MemoryWidth, i: usize) -> i64 {
        let row = i64::from(self.vectors[i / WIDTH].1);
        let lane = row * i64::from(self.block[0]) + self.x(i);
        i64::from(columns) * column(self.block) as i64 + lane * i64::from(cell.size())
    }

    fn cell(&mut self, address: i64, size: usize) -> &mut [u8] {
        let (number, offset) = (address.div_euclid(SPACE), address.rem_euclid(SPACE) as usize);
        let entry = self.memories.iter_mut().find(|(m, _)| m.index() as i64 + 1 == number);
        let (_, array) = entry.unwrap_or_else(|| panic!("no array at {address:#x}"));
        assert!(offset + size <= array.bytes.len(), "byte {offset} of array {number} of {}", array.bytes.len());
        &mut array.bytes[offset..offset + size]
    }

    fn element(&mut self, address: i64, cell: MemoryWidth) -> u64 {
        let mut raw = [0; 8];
        let size = cell.size() as usize;
        raw[..size].copy_from_slice(self.cell(address, size));
        let raw = u64::from_le_bytes(raw);
        match cell {
            MemoryWidth::I8 => raw as i8 as i32 as u32 as u64,
            MemoryWidth::I16 => raw as i16 as i32 as u32 as u64,
            _ => raw,
        }
    }

    fn input(&self, input: RegionInput) -> u64 {
        let array = |m: MemId| &self.memories.iter().find(|(id, _)| *id == m).expect("a memory").1;
        match input {
            RegionInput::Uniform(reg, Scalar::Bool) => u64::from((self.uniform)(reg) != 0),
            RegionInput::Uniform(reg, _) => (self.uniform)(reg),
            RegionInput::Exclusive(_) => 1,
            RegionInput::BaseAddress(memory) => (SPACE * (memory.index() as i64 + 1)) as u64,
            RegionInput::Extent(memory, axis) => array(memory).shape[axis as usize].into(),
            RegionInput::Pitch(memory, axis) => {
                let inner = array(memory).shape[axis as usize + 1..].iter().map(|&n| u64::from(n));
                inner.product::<u64>() * array(memory).size as u64
            }
            RegionInput::FirstCoord(_) => 0,
            RegionInput::LastCoord(axis) => self.block.get(axis as usize).map_or(0, |n| n - 1) as u64,
            RegionInput::ColumnBytes => column(self.block) as u64,
            RegionInput::InitBytes(_) | RegionInput::InitValue(_) => unimplemented!("marks"),
            RegionInput::LaneRegister(_) => unimplemented!("registers of lanes"),
        }
    }

    fn pure(&self, op: LaneOp, [a, b, c]: [u64; 3], i: usize) -> u64 {
        let (x0, y) = self.vectors[i / WIDTH];
        let mask = |m: bool| u64::from(m);
        match op {
            LaneOp::Const(value) => value as u64,
            LaneOp::Input(input) | LaneOp::BroadcastInput(input) => self.input(input),
            LaneOp::Coord(axis) => [x0, y, 0][axis as usize] as u32 as u64,
            LaneOp::Scalar(bin, elem) => binary(bin, elem, a, b).expect("scalars are not divided by zero"),
            LaneOp::Vector(bin, elem) => binary(bin, elem, a, b).unwrap_or(garbage(i)),
            LaneOp::CompareScalar(rel, elem) | LaneOp::Compare(rel, elem) => mask(related(rel, elem, a, b)),
            LaneOp::Sext => a as u32 as i32 as i64 as u64,
            LaneOp::Zext | LaneOp::Trunc => a as u32 as u64,
            LaneOp::SelectScalar | LaneOp::Select => {
                if a != 0 {
                    b
                } else {
                    c
                }
            }
            LaneOp::RowLimit(c) => (a as i64 - i64::from(c.abs()) * (WIDTH as i64 - 1)).max(0) as u64,
            LaneOp::Splat(bits) => bits,
            LaneOp::Broadcast | LaneOp::Move | LaneOp::MaskFromLanes | LaneOp::MaskFromScalar => match op {
                LaneOp::MaskFromLanes | LaneOp::MaskFromScalar => mask(a != 0),
                _ => a,
            },
            LaneOp::Iota(c) => (i64::from(c) * (i % WIDTH) as i64) as u64,
            LaneOp::Unary(un, elem) => unary(un, elem, a),
            LaneOp::Fma(elem) => {
                dynamic::math(MathFn::Fma, &[typed(elem, a), typed(elem, b), typed(elem, c)]).unwrap().bits
            }
            LaneOp::FromHalf => clk_scalar::half::f16_to_f32(clk_scalar::f16::from_bits(a as u16)).to_bits().into(),
            LaneOp::ToHalf => clk_scalar::half::f32_to_f16(f32::from_bits(a as u32)).to_bits().into(),
            LaneOp::Convert(from, to) => dynamic::convert(scalar_of(to), typed(from, a)).bits,
            LaneOp::Call(function, elem) => {
                let args = [typed(elem, a), typed(elem, b)];
                dynamic::math(function, &args[..function.row().arity]).unwrap().bits
            }
            LaneOp::MaskConst(all) => mask(all),
            LaneOp::LanesFromMask => {
                if a != 0 {
                    u64::from(u32::MAX)
                } else {
                    0
                }
            }
            LaneOp::MaskAnd => a & b,
            LaneOp::MaskAndNot => a & (b ^ 1),
            LaneOp::MaskOr => a | b,
            LaneOp::MaskXor => a ^ b,
            LaneOp::MaskNot => a ^ 1,
            LaneOp::EntryMask => mask(self.x(i) < self.block[0].into() && y < self.block[1]),
            op => unimplemented!("{op}"),
        }
    }
}

/// Returns whether a check exits because of this lane.
fn leaves(op: LaneOp, active: bool, x: i64, args: [u64; 3]) -> bool {
    let [a, b, c] = args.map(|v| v as i64);
    let outside = |index: i64, extent: i64| !(0..extent).contains(&index);
    match op {
        LaneOp::CheckUniform => outside(a, b),
        // Machine code may compare with the row limit instead; the result is the same.
        LaneOp::CheckRow(k) => active && outside(a.wrapping_add(x * i64::from(k)), c),
        LaneOp::CheckLanes => active && args[0] >= args[1],
        LaneOp::CheckRange => a < 0 || b >= c,
        LaneOp::ExitIfAny => active && a != 0,
        LaneOp::ExitIfZero => a == 0,
        _ => false,
    }
}
