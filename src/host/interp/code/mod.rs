//! Bytecode of host code: scripts, host functions, tests and benches compile to it before they run.
//!
//! Input: the typed tree of one body with its compile-time arguments. Output: a [`HostCode`], built by [`mod@build`]
//! and executed by `interp::execute`. The design is a register machine like Lua's or Wren's, for a typed language:
//! instructions name their operands by number, and none dispatches on the type of a value.
//!
//! # Registers
//!
//! An activation ([`HostFrame`](super::frame::HostFrame)) has two register files:
//!
//! - *slots*, 64 bits each, hold the zero-extended bits of scalars whose type is known when the code is built, like
//!   [`ScalarValue`](clk_scalar::ScalarValue) without its type. The variable `LocalId(i)` has slot `i`. The
//!   slots after the variables hold constants, which are set when the frame is created. Temporaries follow, and are
//!   released at the end of their statement.
//! - *locals* hold all other variables as a [`HostValue`](crate::value::HostValue): arrays, texts, vectors,
//!   structs, values whose type is only known at run time, and scalars declared without a value (reading one before it
//!   is set must be detected).
//!
//! # Instructions
//!
//! Arithmetic is defined once, in `clk_scalar`. An operator instruction carries a pointer to the function that
//! [`arithmetic`] instantiates for the operand's type. The function in [`HostOp::TryUnary`] and [`HostOp::TryBinary`]
//! is a fast path that may return `None`. The interpreter then repeats the operation with `clk_host::ops`, which also
//! reports errors. So error messages are written once, in `clk_host::ops`, and a fast path may give up on any input.
//!
//! The most frequent operators of `i32`, `i64`, `f32` and `f64` have their own instructions ([`HostOp::Fast`]). Each
//! of the following is a single instruction: a comparison with its jump, the step of a counting loop, and a read or
//! write of `x[i]`.
//!
//! # Script variables
//!
//! A script variable is a [`HostValue`](crate::value::HostValue) that nodes, later session entries and messages
//! can access. While a script's loop runs, its scalar variables also have slots ([`ScalarizedLoop`]), which the loop's
//! instructions use. Any other access to the variables first stores the slots back, and reloads them afterwards if it
//! could change the variables.
//!
//! # Nodes
//!
//! Operations on other values (array expressions, texts, launches, pictures) cost far more than their dispatch.
//! [`HostOp::Eval`] evaluates a [`TreeNode`], a part of the typed tree, with `interp::eval`. Operands that are scalars
//! or contain statements are outlined: their code is separate, and the tree contains a *computed* local instead, whose
//! number is at least [`COMPUTED`]. Reading a computed local runs its code. So operands are evaluated on demand and as
//! often as needed, for example the sides of a failed `assert` twice, and the block of `time` many times.
//!
//! # Invariants
//!
//! - A slot is written as the last effect of an expression, so `x = x + f(x)` may compute into the slot of `x`.
//! - If a later operand could assign to a variable, an earlier operand that reads its slot is copied to a temporary.
//! - `spans[pc]` is the location at which errors of the instruction at `pc` are reported.
//! - Code is valid for one body (`Arc<Body>`), one list of compile-time arguments, and one mode of arithmetic checks.
//!   Redefining a function gives a new body to the function and to its callers, which are type-checked again.
//! - Every statement is compiled to bytecode. Expressions whose values are not scalars, such as array expressions and
//!   launches, are tree nodes that an instruction of the bytecode evaluates.

mod arithmetic;
mod build;
mod expr;
mod operand;
mod scalarized_loop;
mod slot_variables;

use std::sync::Arc;

use rustc_hash::FxHashMap;

use clk_base::source::Span;
use clk_check::typed::{ArrayInit, Body, DeclaredType, Expr, FnId, GlobalId, LocalId, OnDevice, Pattern, ScriptChunk};
use clk_lower::GenericArgument;
use clk_scalar::Scalar;
use clk_scalar::ops::{BinaryOp, MathFn, UnaryOp};

pub(super) use build::{CodeSource, build};

/// Index of a slot (scalar register) in [`HostFrame`](super::frame::HostFrame).
pub(crate) type SlotIndex = u32;
/// Index of an instruction in [`HostCode::ops`].
pub(crate) type Pc = u32;

/// The smallest number of a computed local. The locals of a body have smaller numbers.
pub(crate) const COMPUTED: usize = 1 << 31;

/// The code of a body, or of an expression.
#[derive(Debug, Default)]
pub(crate) struct HostCode {
    pub ops: Vec<HostOp>,
    /// Source location of each instruction in `ops`.
    pub spans: Vec<Span>,
    /// For each `LocalId`: the type of the variable if it is in a slot, otherwise `None`.
    pub scalars: Vec<Option<Scalar>>,
    /// Number of slots that a frame needs for this code.
    pub slots: usize,
    /// The first slot that holds a constant.
    pub first_constant: SlotIndex,
    pub constants: Vec<u64>,
    /// Number of locals that a new frame has. Frames add further locals on demand.
    pub locals: usize,
    pub nodes: Vec<TreeNode>,
    pub slow_paths: FxHashMap<Pc, SlowPathOp>,
    pub elements: Vec<ElementAccess>,
    pub calls: Vec<ScalarCall>,
    pub loops: Vec<ValueLoop>,
    pub scalarized_loops: Vec<ScalarizedLoop>,
    /// Whether the code contains loops of a script. Their slot variables depend on which variables had values when the
    /// code was built, so the code is not cached.
    pub loops_in_script: bool,
    /// For each computed local (its number minus [`COMPUTED`]): the first instruction of its code.
    pub computed: Vec<Pc>,
    /// For instructions whose operands may contain `break` or `continue`: the targets of both jumps.
    pub jumps: FxHashMap<Pc, (Pc, Pc)>,
    /// The body that was compiled.
    pub body: Option<Arc<Body>>,
}

/// Destination of a value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Dest {
    Slot(SlotIndex, Scalar),
    /// A condition, which is checked to be `bool` at run time.
    Condition(SlotIndex),
    Local(LocalId),
    Global(GlobalId),
    /// The value that a `for` loop iterates over.
    LoopValue(u32),
    /// The result of this code, such as a function's return value.
    Result,
    Nowhere,
}

/// A frequent operator with its own instruction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum FastOp {
    AddI32,
    SubI32,
    MulI32,
    AddI64,
    SubI64,
    MulI64,
    AddF32,
    SubF32,
    MulF32,
    DivF32,
    AddF64,
    SubF64,
    MulF64,
    DivF64,
}

/// A frequent comparison with its own instruction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum FastTest {
    EqI32,
    LtI32,
    LeI32,
    EqI64,
    LtI64,
    LeI64,
    LtF32,
    LeF32,
    LtF64,
    LeF64,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum HostOp {
    Load {
        dst: SlotIndex,
        bits: u64,
    },
    Move {
        dst: SlotIndex,
        src: SlotIndex,
    },
    /// Reads the value of a dimension name of the function's signature.
    Dim {
        dst: SlotIndex,
        index: u32,
    },
    Fast {
        op: FastOp,
        dst: SlotIndex,
        a: SlotIndex,
        b: SlotIndex,
    },
    Unary {
        f: fn(u64) -> u64,
        dst: SlotIndex,
        a: SlotIndex,
    },
    Binary {
        f: fn(u64, u64) -> u64,
        dst: SlotIndex,
        a: SlotIndex,
        b: SlotIndex,
    },
    /// A unary operator. If `f` returns `None`, the interpreter executes the operation in [`HostCode::slow_paths`].
    TryUnary {
        f: fn(u64) -> Option<u64>,
        dst: SlotIndex,
        a: SlotIndex,
    },
    TryBinary {
        f: fn(u64, u64) -> Option<u64>,
        dst: SlotIndex,
        a: SlotIndex,
        b: SlotIndex,
    },
    /// A math function of one to three scalars in adjacent slots.
    Math {
        function: MathFn,
        ty: Scalar,
        count: u8,
        dst: SlotIndex,
        args: SlotIndex,
    },
    Select {
        dst: SlotIndex,
        cond: SlotIndex,
        then: SlotIndex,
        other: SlotIndex,
    },
    Jump {
        to: Pc,
    },
    /// Jumps to `to` if the condition equals `when`.
    If {
        cond: SlotIndex,
        when: bool,
        to: Pc,
    },
    /// Jumps to `to` if the result of the comparison equals `when`.
    IfFast {
        test: FastTest,
        when: bool,
        a: SlotIndex,
        b: SlotIndex,
        to: Pc,
    },
    IfBinary {
        f: fn(u64, u64) -> u64,
        when: bool,
        a: SlotIndex,
        b: SlotIndex,
        to: Pc,
    },
    /// Ends the execution with an error if a stop was requested, for example by Ctrl-C.
    Poll,
    /// Starts a counting loop: `state` and the next two slots are the counter, the end and the step. Jumps to `exit` if
    /// the range is empty.
    BeginCount {
        state: SlotIndex,
        var: SlotIndex,
        count: LoopCounter,
        exit: Pc,
    },
    /// Advances the counter, and jumps back to the body unless the range is exhausted.
    AdvanceCount {
        state: SlotIndex,
        var: SlotIndex,
        count: LoopCounter,
        body: Pc,
    },
    /// Starts the loop over a value that [`ValueLoop`] describes.
    BeginItems {
        items: u32,
    },
    /// Sets the loop variable to the next item, or jumps to `exit` after the last.
    NextItem {
        items: u32,
        exit: Pc,
    },
    /// Loads a loop's script variables into their slots, before the loop.
    LoadVariables {
        region: u32,
    },
    /// Stores the slots of a loop's script variables back to the variables.
    StoreVariables {
        region: u32,
    },
    /// Reads a scalar script variable into a slot.
    GetGlobal {
        dst: SlotIndex,
        id: GlobalId,
        ty: Scalar,
    },
    SetGlobal {
        src: SlotIndex,
        id: GlobalId,
        ty: Scalar,
    },
    /// Reads a scalar from a local.
    GetLocal {
        dst: SlotIndex,
        local: LocalId,
        ty: Scalar,
    },
    /// Converts the scalar in a slot to a `HostValue` and stores it in `dst`.
    StoreScalar {
        src: SlotIndex,
        ty: Scalar,
        dst: Dest,
    },
    Unit {
        dst: Dest,
    },
    GetElement {
        dst: SlotIndex,
        element: u32,
    },
    SetElement {
        src: SlotIndex,
        element: u32,
    },
    /// Reads the extent of an array's axis.
    Extent {
        dst: SlotIndex,
        base: ArrayVariable,
        axis: u8,
    },
    Call {
        call: u32,
        dst: Dest,
    },
    Eval {
        node: u32,
        dst: Dest,
    },
    /// Ends the execution of this code; its value is the scalar in slot `src`.
    End {
        src: SlotIndex,
        ty: Scalar,
    },
    /// Ends the execution of this code; its value was stored to [`Dest::Result`].
    EndValue,
    Return {
        src: SlotIndex,
        ty: Scalar,
    },
    ReturnValue,
    /// `break` inside an outlined operand; it leaves the loop that contains the operand. `Continue` is analogous.
    Break,
    Continue,
    /// Control flow never reaches this instruction; executing it is an internal error.
    Unreachable,
}

/// Direction and end condition of a counting loop.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LoopCounter {
    pub up: bool,
    pub inclusive: bool,
    /// The width in bits of the loop variable's type.
    pub bits: u8,
}

/// A subtree of the typed tree that `interp::eval` evaluates, as the operation of one instruction.
#[derive(Debug)]
pub(crate) struct TreeNode {
    pub kind: NodeKind,
    /// Location of the enclosing statement.
    pub stmt_span: Span,
}

// The large variants are not boxed, because nodes are stored only in the `nodes` list of a `HostCode`.
#[allow(clippy::large_enum_variant)]
#[derive(Debug)]
pub(crate) enum NodeKind {
    Expr(Expr),
    Let { pattern: Pattern, declared: Option<Box<DeclaredType>>, value: Expr },
    LocalArray { local: LocalId, extents: Vec<Expr>, init: ArrayInit },
    Assign { place: Expr, op: Option<BinaryOp>, value: Expr },
    On { device: OnDevice, body: Expr },
    Batch { body: Expr },
}

/// An operation that `clk_host::ops` executes if its fast path returns `None`.
#[derive(Clone, Copy, Debug)]
pub(crate) enum SlowPathOp {
    Unary(UnaryOp, (SlotIndex, Scalar)),
    /// Operator, left operand, right operand, and the locations of the operands if error messages show them.
    Binary(BinaryOp, (SlotIndex, Scalar), (SlotIndex, Scalar), Option<(Span, Span)>),
    Convert(Scalar, (SlotIndex, Scalar)),
}

/// A variable that holds an array.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum ArrayVariable {
    Local(LocalId),
    Global(GlobalId),
}

/// An element of an array, `x[i, j]`.
#[derive(Debug)]
pub(crate) struct ElementAccess {
    pub base: ArrayVariable,
    pub indices: Vec<(SlotIndex, Scalar)>,
    pub ty: Scalar,
    /// The expression `x[i, j]`, for error messages.
    pub expr: Expr,
    /// Whether the element is read for a compound assignment, `x[i] += y`.
    pub compound: bool,
    pub stmt_span: Span,
}

/// An argument of a call.
#[derive(Clone, Copy, Debug)]
pub(crate) enum CallOperand {
    Scalar(SlotIndex, Scalar),
    Array(ArrayVariable),
}

/// A call of a function without compile-time parameters that takes scalars and arrays.
#[derive(Debug)]
pub(crate) struct ScalarCall {
    pub id: FnId,
    pub args: Vec<CallOperand>,
    pub spans: Vec<Span>,
    pub stmt_span: Span,
}

/// A `for` loop that is not a counting loop: over an array, an array of texts, or a range whose type or step is known
/// only at run time.
#[derive(Debug)]
pub(crate) struct ValueLoop {
    /// The index of the iterated value in `HostFrame::loop_values`.
    pub loop_value: u32,
    /// The slot that holds the current position in the iterated value.
    pub state: SlotIndex,
    pub var: LocalId,
    /// The counter's type, if the value is a range.
    pub scalar: Scalar,
}

/// A script loop whose scalar script variables are in slots. While it runs, the variables' `HostValue`s are stale.
#[derive(Debug)]
pub(crate) struct ScalarizedLoop {
    pub first: Pc,
    /// One past the last instruction of the loop.
    pub end: Pc,
    pub variables: Vec<SlotVariable>,
}

/// A script variable that has a slot during a loop.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SlotVariable {
    pub id: GlobalId,
    pub slot: SlotIndex,
    pub ty: Scalar,
    /// Whether the loop may write it.
    pub mutable: bool,
}

impl HostCode {
    /// Returns the script variables that are in slots when instruction `pc` executes.
    #[inline(always)]
    pub fn slot_variables_at(&self, pc: usize) -> &[SlotVariable] {
        if self.scalarized_loops.is_empty() {
            return &[];
        }
        let inside = |region: &&ScalarizedLoop| (region.first as usize..region.end as usize).contains(&pc);
        self.scalarized_loops.iter().find(inside).map_or(&[], |region| &region.variables)
    }

    /// Returns the type of a variable if it is in a slot.
    pub fn scalar(&self, local: LocalId) -> Option<Scalar> {
        self.scalars.get(local.index()).copied().flatten()
    }
}

/// Options that change the bytecode built for a body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct CodeMode {
    /// Whether arithmetic is checked for overflow and other lost information.
    pub checked: bool,
    /// Whether floats are traced, in functions that are being differentiated and in executions that record provenance.
    /// Traced floats are `HostValue`s rather than slots, so that they can carry derivatives and provenance.
    pub traced: bool,
}

/// Cache of the bytecode of functions and script chunks.
#[derive(Default)]
pub(crate) struct Codes {
    /// For functions without compile-time parameters, by function: code without and with arithmetic checks.
    pub plain: Vec<[Option<Arc<HostCode>>; 2]>,
    /// For other functions: code by address of the body (which the code keeps alive), compile-time arguments, and mode.
    pub instances: FxHashMap<(usize, Arc<[GenericArgument]>, CodeMode), Arc<HostCode>>,
    /// For script chunks: code by address of the chunk (which the map's value keeps alive) and mode. Some chunks run
    /// repeatedly, such as calls from Python.
    pub chunks: FxHashMap<(usize, CodeMode), (Arc<ScriptChunk>, Arc<HostCode>)>,
}
