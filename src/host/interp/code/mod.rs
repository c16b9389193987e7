//! Bytecode of host code: what scripts, host functions, tests and benches are compiled to before they run.
//!
//! Input is the typed tree of one body with its compile-time arguments, output a [`Code`]; [`mod@build`] makes it and
//! `interp::run` executes it. The idea is that of Lua's and Wren's register machines, made for a typed language: an
//! instruction names its operands by number, nothing is pushed or popped, and nothing is dispatched on the type of a value.
//!
//! # Registers
//!
//! An activation ([`Frame`](super::frame::Frame)) has two files of registers:
//!
//! - *slots*, 64 bits each, hold scalars whose type is known when the code is built, as [`Value`](crate::lang::scalar::Value) holds them
//!   (zero-extended bits), without their type. The variable `LocalId(i)` has slot `i`. Behind the variables lie the constants,
//!   which are set when the frame is made, and then temporaries, which are released at the end of their statement.
//! - *locals* hold all other variables as a [`Value`](crate::host::value::Value): arrays, texts, vectors, structs, what only
//!   run time knows the type of, and scalars that are declared without a value (their absence has to be noticed).
//!
//! # Instructions
//!
//! Arithmetic is defined once, in `lang::scalar`: an instruction for an operator carries a pointer to the function that
//! [`arith`] makes of it for the operand's type. [`Op::TryOne`] and [`Op::TryTwo`] carry a function that may give up. Then the
//! operation is done again as whole values by `host::ops`, which finds out whether and why it fails and says so. Thus there
//! is one set of messages, and a fast path has to be right only where it gives a result.
//!
//! The most frequent operators of `i32`, `i64`, `f32` and `f64` have instructions of their own ([`Op::Fast`]), comparisons
//! and jumps are one instruction, a counting loop advances in one, and reading or writing `x[i]` is one.
//!
//! # Script variables
//!
//! A script variable is a [`Value`](crate::host::value::Value) that nodes, later entries and messages find. While a loop of a script
//! runs, those that are scalars have slots, too ([`Region`]): its instructions use these, and everything else that could look at
//! the variables is preceded by writing them back, and followed by reading them again if it could change them.
//!
//! # Nodes
//!
//! What is not about scalars (array expressions, texts, launches, pictures) costs far more than finding out what to do. Its
//! instruction is [`Op::Eval`] of a [`Node`]: a part of the typed tree, evaluated by `interp::eval`, whose operands are code
//! again where they are scalars or contain statements. Such an operand stands in the tree as a local variable with a number
//! from [`COMPUTED`] on, a *computed* local: reading it runs the code that computes it. So operands are evaluated when, and
//! as often as, the operation wants them (the sides of a failed `assert` twice, the block of `time` many times).
//!
//! # Invariants
//!
//! - A slot is written as the last effect of an expression, so `x = x + f(x)` may compute into the slot of `x`.
//! - An operand that is a variable's own slot is copied to a temporary if a later operand could assign to that variable.
//! - `spans[pc]` is the place of the instruction at `pc`; an error of that instruction is reported there.
//! - Code is valid for one body (`Arc<Body>`), its compile-time arguments, and whether arithmetic is checked. A redefined
//!   function has another body, and so have its callers, since they are checked again.
//! - All statements are compiled; nothing else executes a statement.

mod arith;
mod build;
mod expr;
mod operand;
mod region;
mod resident;

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::base::source::Span;
use crate::check::typed::{ArrayInit, Body, Chunk, Declared, Expr, FnId, GlobalId, LocalId, OnDevice, Pattern};
use crate::lang::ops::{BinaryOp, MathFn, UnaryOp};
use crate::lang::scalar::Scalar;
use crate::lower::Argument;

pub(super) use build::{Source, build};

/// Number of a register for scalars.
pub(crate) type Slot = u32;
/// Position of an instruction.
pub(crate) type Pc = u32;

/// The first number of a computed local.
pub(crate) const COMPUTED: usize = 1 << 31;

/// The code of a body, or of an expression.
#[derive(Debug, Default)]
pub(crate) struct Code {
    pub ops: Vec<Op>,
    /// By position of the instruction.
    pub spans: Vec<Span>,
    /// By `LocalId`: the type of a variable that is kept in a slot.
    pub scalars: Vec<Option<Scalar>>,
    /// Number of slots.
    pub slots: usize,
    /// Slots from this one on hold constants.
    pub first_constant: Slot,
    pub constants: Vec<u64>,
    /// Number of locals to set up; more are added on demand.
    pub locals: usize,
    pub nodes: Vec<Node>,
    pub faults: FxHashMap<Pc, Fault>,
    pub elements: Vec<Element>,
    pub calls: Vec<Call>,
    pub loops: Vec<Items>,
    pub regions: Vec<Region>,
    /// It has loops of a script, whose regions depend on which variables had values when it was built.
    pub loops_in_script: bool,
    /// By number of the computed local, less [`COMPUTED`]: where its code begins.
    pub computed: Vec<Pc>,
    /// Where `break` and `continue` inside of the operands of an instruction lead.
    pub jumps: FxHashMap<Pc, (Pc, Pc)>,
    /// The body that this was built of.
    pub body: Option<Arc<Body>>,
}

/// Where a value goes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Dest {
    Slot(Slot, Scalar),
    /// The value of a condition, which may turn out to be none at run time.
    Truth(Slot),
    Local(LocalId),
    Global(GlobalId),
    /// What a loop goes over.
    Held(u32),
    /// The result of the code.
    Result,
    Nowhere,
}

/// A frequent operator that has an instruction of its own.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Fast {
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

/// A frequent comparison.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Test {
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
pub(crate) enum Op {
    Load {
        dst: Slot,
        bits: u64,
    },
    Move {
        dst: Slot,
        src: Slot,
    },
    /// A dimension of the signature.
    Dim {
        dst: Slot,
        index: u32,
    },
    Fast {
        what: Fast,
        dst: Slot,
        a: Slot,
        b: Slot,
    },
    One {
        f: fn(u64) -> u64,
        dst: Slot,
        a: Slot,
    },
    Two {
        f: fn(u64, u64) -> u64,
        dst: Slot,
        a: Slot,
        b: Slot,
    },
    /// Where the function gives up, `faults` says what the operation is.
    TryOne {
        f: fn(u64) -> Option<u64>,
        dst: Slot,
        a: Slot,
    },
    TryTwo {
        f: fn(u64, u64) -> Option<u64>,
        dst: Slot,
        a: Slot,
        b: Slot,
    },
    /// A function of one to three scalars, which lie side by side.
    Math {
        function: MathFn,
        ty: Scalar,
        count: u8,
        dst: Slot,
        args: Slot,
    },
    Select {
        dst: Slot,
        cond: Slot,
        then: Slot,
        other: Slot,
    },
    Jump {
        to: Pc,
    },
    /// Jumps if the condition is `when`.
    If {
        cond: Slot,
        when: bool,
        to: Pc,
    },
    /// Jumps if the comparison gives `when`.
    IfFast {
        test: Test,
        when: bool,
        a: Slot,
        b: Slot,
        to: Pc,
    },
    IfTwo {
        f: fn(u64, u64) -> u64,
        when: bool,
        a: Slot,
        b: Slot,
        to: Pc,
    },
    /// Ends the run if a stop was requested.
    Poll,
    /// Begins to count: `state` and the two slots behind it are the counter, the end and the step. Jumps to `exit` if there is
    /// nothing to count.
    Enter {
        state: Slot,
        var: Slot,
        count: Count,
        exit: Pc,
    },
    /// Counts on, and jumps back to the body.
    Again {
        state: Slot,
        var: Slot,
        count: Count,
        body: Pc,
    },
    /// Begins to go over a value: see [`Items`].
    Begin {
        items: u32,
    },
    /// Takes the next of it, or jumps.
    Next {
        items: u32,
        exit: Pc,
    },
    /// Reads the script variables of a loop, before it.
    Enlist {
        region: u32,
    },
    /// Writes them back.
    Dismiss {
        region: u32,
    },
    /// Reads a script variable that is a scalar.
    GetGlobal {
        dst: Slot,
        id: GlobalId,
        ty: Scalar,
    },
    SetGlobal {
        src: Slot,
        id: GlobalId,
        ty: Scalar,
    },
    /// Reads a scalar out of a local.
    GetLocal {
        dst: Slot,
        local: LocalId,
        ty: Scalar,
    },
    /// Makes a value of a slot.
    Put {
        src: Slot,
        ty: Scalar,
        dst: Dest,
    },
    Unit {
        dst: Dest,
    },
    GetElement {
        dst: Slot,
        element: u32,
    },
    SetElement {
        src: Slot,
        element: u32,
    },
    /// The extent of an axis of an array.
    Extent {
        dst: Slot,
        base: Base,
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
    /// Ends with the scalar in a slot.
    End {
        src: Slot,
        ty: Scalar,
    },
    /// Ends with the value that was stored as the result.
    EndValue,
    Return {
        src: Slot,
        ty: Scalar,
    },
    ReturnValue,
    /// `break` and `continue` of a loop around an operand that contains them.
    Break,
    Continue,
    /// Control arrives where it cannot.
    Unreachable,
}

/// How a loop counts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Count {
    pub up: bool,
    pub inclusive: bool,
    /// The width of the variable's type.
    pub bits: u8,
}

/// A part of the tree that is evaluated as a whole.
#[derive(Debug)]
pub(crate) struct Node {
    pub kind: NodeKind,
    /// The statement that it belongs to.
    pub at: Span,
}

// Not boxed: a node is only ever stored in the list of a code.
#[allow(clippy::large_enum_variant)]
#[derive(Debug)]
pub(crate) enum NodeKind {
    Expr(Expr),
    Let { pattern: Pattern, declared: Option<Box<Declared>>, value: Expr },
    LocalArray { local: LocalId, extents: Vec<Expr>, init: ArrayInit },
    Assign { place: Expr, op: Option<BinaryOp>, value: Expr },
    On { device: OnDevice, body: Expr },
    Batch { body: Expr },
}

/// An operation that is done by `host::ops` if its fast function gives up.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fault {
    Unary(UnaryOp, (Slot, Scalar)),
    /// With the places of the operands, if an error shows them.
    Binary(BinaryOp, (Slot, Scalar), (Slot, Scalar), Option<(Span, Span)>),
    Convert(Scalar, (Slot, Scalar)),
}

/// A variable that holds an array.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Base {
    Local(LocalId),
    Global(GlobalId),
}

/// An element of an array, `x[i, j]`.
#[derive(Debug)]
pub(crate) struct Element {
    pub base: Base,
    pub indices: Vec<(Slot, Scalar)>,
    pub ty: Scalar,
    /// The expression, for messages.
    pub expr: Expr,
    /// It is read as a part of `x[i] += y`.
    pub compound: bool,
    pub at: Span,
}

/// An argument of a call.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Passed {
    Scalar(Slot, Scalar),
    Array(Base),
}

/// A call of a function that takes scalars and arrays and has no compile-time parameters.
#[derive(Debug)]
pub(crate) struct Call {
    pub id: FnId,
    pub args: Vec<Passed>,
    pub spans: Vec<Span>,
    pub at: Span,
}

/// A loop over a value: a range whose type or step is known only at run time, an array, or texts.
#[derive(Debug)]
pub(crate) struct Items {
    /// The number of the value, see [`Dest::Held`].
    pub held: u32,
    /// The slot that counts.
    pub state: Slot,
    pub var: LocalId,
    /// The type of a range.
    pub scalar: Scalar,
}

/// Instructions of a loop that have script variables in slots, while the values of these are old.
#[derive(Debug)]
pub(crate) struct Region {
    pub first: Pc,
    /// Behind the last one.
    pub end: Pc,
    pub variables: Vec<Resident>,
}

/// A script variable in a slot.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Resident {
    pub id: GlobalId,
    pub slot: Slot,
    pub ty: Scalar,
    /// Whether the loop may write it.
    pub mutable: bool,
}

impl Code {
    /// Returns the variables that are in slots at an instruction.
    #[inline(always)]
    pub fn residents(&self, pc: usize) -> &[Resident] {
        if self.regions.is_empty() {
            return &[];
        }
        let inside = |region: &&Region| (region.first as usize..region.end as usize).contains(&pc);
        self.regions.iter().find(inside).map_or(&[], |region| &region.variables)
    }

    /// Returns the type of a variable that is kept in a slot.
    pub fn scalar(&self, local: LocalId) -> Option<Scalar> {
        self.scalars.get(local.index()).copied().flatten()
    }
}

/// What code is built for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Mode {
    /// A run with checks of arithmetic.
    pub checked: bool,
    /// A function that is differentiated, or a run whose expressions are kept: floats are values, which derivatives are taken along
    /// with, or which are asked where they came from, and not in slots.
    pub traced: bool,
}

/// Compiled bodies.
#[derive(Default)]
pub(crate) struct Codes {
    /// By function without compile-time parameters: without and with checks of arithmetic.
    pub plain: Vec<[Option<Arc<Code>>; 2]>,
    /// By address of the body (which the code keeps alive), compile-time arguments, and what the code is for.
    pub others: FxHashMap<(usize, Arc<[Argument]>, Mode), Arc<Code>>,
    /// By address of the chunk, which is kept: statements that are run again and again, such as those of calls from other languages.
    pub chunks: FxHashMap<(usize, Mode), (Arc<Chunk>, Arc<Code>)>,
}
