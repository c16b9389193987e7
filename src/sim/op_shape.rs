//! Op shapes: the operands that an op expects, and the ops at which it may continue. Each implementation of
//! [`OpStep`](super::lanes::OpStep) declares the shape of its op; [`verify`](super::verify) checks compiled code
//! against the shapes of its ops.

/// The size of a register's lanes: 4 or 8 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Width {
    Four,
    Eight,
}

impl Width {
    /// Returns the lane width of a register that holds values of type `T`.
    pub const fn of<T>() -> Width {
        if size_of::<T>() == 8 { Width::Eight } else { Width::Four }
    }
}

/// The role of operand `d`, `a`, `b` or `c` of an op.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RegisterRole {
    /// Not a register operand: it is unused, a plain number, or checked together with the op's table entry.
    Free,
    /// A uniform or lane register that the op reads.
    Read(Width),
    /// Like `Read`, but the operand may be absent (`NONE`).
    MayRead(Width),
    /// A uniform register that the op reads.
    Uniform(Width),
    /// The register that the op writes. If it is uniform, all registers that the op reads must be uniform.
    Write(Width),
    /// A lane register; the op writes all its lanes.
    Lanes(Width),
    /// A uniform register that the op writes; may be absent (`NONE`).
    MaySet(Width),
    /// A register of 4-byte lanes whose slot the op may redirect.
    View,
    /// A mask that the op reads.
    Mask,
    /// A mask that the op writes.
    SetMask,
}

/// The role of operand `x` or `y` of an op.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OperandRole {
    /// The operand is unused, or a plain number that may have any value.
    Free,
    /// The index of a span; may be absent.
    Span,
    /// The position of the op at which control may continue.
    Target,
    /// A register that the op reads.
    Read(Width),
    /// The index of an access that loads or stores elements of this many bytes.
    Load(Indices, usize),
    Store(Indices, usize),
    /// The index of an access to a local array.
    Local(Indices, Width, WriteKind),
    /// The index of an entry in the table of accesses. The op uses only the entry's affine indices (this many), not its
    /// memory.
    Forms(usize),
    /// The index of an atomic operation on elements of this many bytes; 0 means any size.
    Atomic(Indices, usize),
    Slow,
    Warp,
    Message,
    Loop(LoopKind),
    Strip,
    List,
    Memory(MemoryOperandKind),
    AccessSite,
    /// The index of the first of several access sites; operand `c` is the number of sites.
    AccessSites,
    PollingLoop,
    NanCheck,
    /// The index of a scalar type; operand `c` is the index of the scalar type of register `a`.
    Types,
    Region,
    Product,
    Copy,
    /// A number of bytes, at most the size of the block's shared arrays.
    Shared,
}

/// The kinds of indices that an access op supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Indices {
    /// Uniform registers without coefficients.
    Uniform,
    /// Uniform registers, with coefficients.
    Affine,
    /// Uniform or lane registers, without coefficients.
    Lanes,
    /// Lane registers without coefficients, or uniform registers with coefficients.
    Any,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WriteKind {
    No,
    Yes,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LoopKind {
    /// A loop whose bounds and loop variable are uniform.
    Uniform,
    /// Like `Uniform`, for the op that starts the next iteration. Operand `d` is the loop variable and `a` the step;
    /// `c` may be 1 if the loop variable has 4 bytes.
    Next,
    /// Like `Uniform`, but the loop counts in `i32`.
    Words,
    /// Like `Words`, or like `Uniform` if operand `c` is 0.
    OptionalI32,
    /// A loop whose trip counts may differ between lanes. Operand `c` is 1 if the loop variable is a lane register.
    Lanes,
    /// Like `Lanes`, for the op that starts the loop. If the loop variable is not a lane register, operand `a` is its
    /// uniform start value.
    Enter,
}

/// The kind of memory that an op requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MemoryOperandKind {
    Local,
    /// A shared array with one axis of 4-byte elements.
    Words,
}

/// The positions at which control may continue after an op.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OpFlow {
    /// Control continues at the next op or at a target, or the op stops the group.
    Next,
    /// Control continues at a target.
    Jump,
    /// Control continues at the next op, or skips it and continues at the op after it.
    Skip,
    /// The op ends the execution of the group.
    End,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OpShape {
    pub name: &'static str,
    pub d: RegisterRole,
    pub a: RegisterRole,
    pub b: RegisterRole,
    pub c: RegisterRole,
    pub x: OperandRole,
    pub y: OperandRole,
    pub flow: OpFlow,
    /// Names of ops. If the list is not empty, an op with one of these names must follow.
    pub followers: &'static [&'static str],
}

impl OpShape {
    pub const fn new(name: &'static str) -> OpShape {
        let (field, word) = (RegisterRole::Free, OperandRole::Free);
        OpShape { name, d: field, a: field, b: field, c: field, x: word, y: word, flow: OpFlow::Next, followers: &[] }
    }

    pub const fn d(self, d: RegisterRole) -> OpShape {
        OpShape { d, ..self }
    }

    pub const fn a(self, a: RegisterRole) -> OpShape {
        OpShape { a, ..self }
    }

    pub const fn b(self, b: RegisterRole) -> OpShape {
        OpShape { b, ..self }
    }

    pub const fn c(self, c: RegisterRole) -> OpShape {
        OpShape { c, ..self }
    }

    pub const fn x(self, x: OperandRole) -> OpShape {
        OpShape { x, ..self }
    }

    pub const fn y(self, y: OperandRole) -> OpShape {
        OpShape { y, ..self }
    }

    pub const fn flow(self, flow: OpFlow) -> OpShape {
        OpShape { flow, ..self }
    }

    pub const fn before(self, before: &'static [&'static str]) -> OpShape {
        OpShape { followers: before, ..self }
    }
}
