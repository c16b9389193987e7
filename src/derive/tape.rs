//! The tape: values that loops record for the reverse sweep. Each thread has one stack per class of scalar types
//! ([`CLASSES`]).
//!
//! A value is converted without loss to the scalar type of its class and pushed; values are popped in reverse order. A
//! stack of known, small size is a local array. Any other stack is an array parameter, for which a counting kernel
//! determines the number of slots.

use super::derived::DerivedParamRole;
use clk_ir::build::FunctionBuilder;
use clk_ir::def::*;
use clk_scalar::Scalar;

/// The scalar type of the stack of each class.
pub(super) const CLASSES: [Scalar; 4] = [Scalar::F32, Scalar::F64, Scalar::I32, Scalar::I64];

/// The maximum number of slots of a stack in local memory.
const MAX_LOCAL_SLOTS: u64 = 32;

/// The number of slots that a thread needs for each class; `None` if unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct TapeSlots(pub [Option<u64>; 4]);

impl TapeSlots {
    pub fn zero() -> TapeSlots {
        TapeSlots([Some(0); 4])
    }

    pub fn add(&mut self, class: usize, count: Option<u64>) {
        self.0[class] = self.0[class].zip(count).map(|(a, b)| a.saturating_add(b));
    }

    /// Adds the slots that `iterations` iterations of a loop's body need.
    pub fn add_iterations(&mut self, body: TapeSlots, iterations: Option<u64>) {
        for (class, slots) in body.0.into_iter().enumerate() {
            let all = if slots == Some(0) { Some(0) } else { slots.zip(iterations).map(|(a, b)| a.saturating_mul(b)) };
            self.add(class, all);
        }
    }
}

/// Returns the class of a scalar type, an index into [`CLASSES`].
pub(super) fn class(scalar: Scalar) -> usize {
    match scalar {
        Scalar::F64 => 1,
        _ if scalar.is_float() => 0,
        _ if scalar.size() == 8 => 3,
        _ => 2,
    }
}

struct TapeStack {
    /// The array that contains the stack; `None` in a counting kernel.
    memory: Option<MemId>,
    /// The number of slots in use.
    top: LocalId,
    local: bool,
}

pub(super) struct KernelTape {
    stacks: [Option<TapeStack>; 4],
    /// The indices of the thread's own part of a tape parameter.
    thread: Vec<ExprId>,
    counts: Option<MemId>,
}

impl KernelTape {
    /// Creates the stacks for `slots`, or the counters of a counting kernel.
    pub fn new(
        b: &mut FunctionBuilder,
        form: LaunchForm,
        slots: TapeSlots,
        counting: bool,
        roles: &mut Vec<DerivedParamRole>,
    ) -> KernelTape {
        let thread = match form {
            _ if !slots.0.iter().any(|&slots| is_large(slots)) => vec![],
            LaunchForm::Threads { rank } => (0..rank).map(|k| b.index(k)).collect(),
            LaunchForm::Grid => vec![thread_of_launch(b)],
        };
        let zero = b.i32(0);
        let mut tape = KernelTape { stacks: [const { None }; 4], thread, counts: None };
        for (class, &slots) in slots.0.iter().enumerate() {
            if slots == Some(0) || (counting && !is_large(slots)) {
                continue;
            }
            let (scalar, local) = (CLASSES[class], !is_large(slots));
            let (name, layout) = (format!("tape_{}", scalar.name()), ElementLayout::plain(Ty::Scalar(scalar)));
            let memory = if counting {
                None
            } else if local {
                let extent = Extent::Known(slots.unwrap_or(1).max(1) as u32);
                Some(b.memory(name, MemorySpace::Local, layout, vec![extent]))
            } else {
                roles.push(DerivedParamRole::Tape(scalar));
                Some(b.array(name, Access::InOut, layout, 1 + tape.thread.len()))
            };
            let top = b.variable(format!("top_{}", scalar.name()), zero);
            tape.stacks[class] = Some(TapeStack { memory, top, local });
        }
        if counting {
            roles.push(DerivedParamRole::Counts);
            let layout = ElementLayout::plain(Ty::Scalar(Scalar::I32));
            tape.counts = Some(b.array("counts", Access::Out, layout, 1 + tape.thread.len()));
        }
        tape
    }

    /// Emits code that stores the counts, in a counting kernel.
    pub fn finish(&self, b: &mut FunctionBuilder) {
        let Some(counts) = self.counts else { return };
        for (number, stack) in self.stacks.iter().flatten().enumerate() {
            let count = b.read(stack.top);
            let mut indices = vec![b.i32(number as i32)];
            indices.extend(&self.thread);
            b.store(counts, &indices, count);
        }
    }

    pub fn push(&self, b: &mut FunctionBuilder, value: ExprId) {
        match b.ty(value) {
            Ty::Scalar(_) => self.push_scalar(b, value),
            Ty::Vector(_, lanes) => {
                for lane in 0..lanes {
                    let part = b.extract(value, lane);
                    self.push_scalar(b, part);
                }
            }
        }
    }

    pub fn pop(&self, b: &mut FunctionBuilder, ty: Ty) -> Option<ExprId> {
        match ty {
            Ty::Scalar(scalar) => self.pop_scalar(b, scalar),
            Ty::Vector(scalar, lanes) => {
                let mut parts: Vec<ExprId> = (0..lanes).map(|_| self.pop_scalar(b, scalar)).collect::<Option<_>>()?;
                parts.reverse();
                Some(b.compose(&parts))
            }
        }
    }

    fn push_scalar(&self, b: &mut FunctionBuilder, value: ExprId) {
        let Some(stack) = &self.stacks[class(b.ty(value).scalar())] else { return };
        let top = b.read(stack.top);
        if let Some(memory) = stack.memory {
            let stored = pack(b, value);
            let indices = self.indices(stack, top);
            b.store(memory, &indices, stored);
        }
        let one = b.i32(1);
        let next = b.binary(BinOp::Add, top, one);
        b.write(stack.top, next);
    }

    fn pop_scalar(&self, b: &mut FunctionBuilder, scalar: Scalar) -> Option<ExprId> {
        let stack = self.stacks[class(scalar)].as_ref()?;
        let (top, one) = (b.read(stack.top), b.i32(1));
        let slot = b.binary(BinOp::Sub, top, one);
        b.write(stack.top, slot);
        let indices = self.indices(stack, slot);
        let stored = b.load(stack.memory?, &indices);
        Some(unpack(b, stored, scalar))
    }

    fn indices(&self, stack: &TapeStack, slot: ExprId) -> Vec<ExprId> {
        let mut indices = vec![slot];
        if !stack.local {
            indices.extend(&self.thread);
        }
        indices
    }
}

/// Returns whether a stack with this number of slots is too large for local memory. True if the number is unknown.
pub(super) fn is_large(slots: Option<u64>) -> bool {
    slots.is_none_or(|slots| slots > MAX_LOCAL_SLOTS)
}

fn pack(b: &mut FunctionBuilder, value: ExprId) -> ExprId {
    let scalar = b.ty(value).scalar();
    match scalar {
        Scalar::U32 => b.bitcast(value, Scalar::I32),
        Scalar::U64 => b.bitcast(value, Scalar::I64),
        _ => b.convert(value, CLASSES[class(scalar)]),
    }
}

fn unpack(b: &mut FunctionBuilder, value: ExprId, scalar: Scalar) -> ExprId {
    match scalar {
        Scalar::U32 | Scalar::U64 => b.bitcast(value, scalar),
        Scalar::Bool => {
            let zero = b.i32(0);
            b.binary(BinOp::Ne, value, zero)
        }
        _ => b.convert(value, scalar),
    }
}

/// Returns the linear index of the thread in its block, and the size of the block.
pub(super) fn thread_of_block(b: &mut FunctionBuilder) -> (ExprId, ExprId) {
    (linear(b, BuiltinIndex::Thread, BuiltinIndex::BlockDim), volume(b, BuiltinIndex::BlockDim))
}

fn thread_of_launch(b: &mut FunctionBuilder) -> ExprId {
    let block = linear(b, BuiltinIndex::Block, BuiltinIndex::GridDim);
    let (thread, size) = thread_of_block(b);
    let before = b.binary(BinOp::Mul, block, size);
    b.binary(BinOp::Add, before, thread)
}

fn linear(b: &mut FunctionBuilder, of: BuiltinIndex, dim: BuiltinIndex) -> ExprId {
    let [x, y, z] = [Axis::X, Axis::Y, Axis::Z].map(|axis| b.id(of, axis));
    let [width, height] = [Axis::X, Axis::Y].map(|axis| b.id(dim, axis));
    let planes = b.binary(BinOp::Mul, z, height);
    let rows = b.binary(BinOp::Add, planes, y);
    let before = b.binary(BinOp::Mul, rows, width);
    b.binary(BinOp::Add, before, x)
}

fn volume(b: &mut FunctionBuilder, dim: BuiltinIndex) -> ExprId {
    let [x, y, z] = [Axis::X, Axis::Y, Axis::Z].map(|axis| b.id(dim, axis));
    let area = b.binary(BinOp::Mul, x, y);
    b.binary(BinOp::Mul, area, z)
}
