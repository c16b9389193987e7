//! The shape of an op: what it expects of its fields, and where it continues. Each [`Step`](super::lanes::Step) declares its own;
//! [`verify`](super::verify) holds compiled code against the shapes of its ops.

/// The bytes of a lane in a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Width {
    Four,
    Eight,
}

impl Width {
    /// Returns the width of lanes of this type.
    pub const fn of<T>() -> Width {
        if size_of::<T>() == 8 { Width::Eight } else { Width::Four }
    }
}

/// The role of `d`, `a`, `b` or `c`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Field {
    /// Not a register that the op names by itself: nothing, a plain number, or what the op's table checks.
    Free,
    /// Lanes that are read, of a uniform register or one of lanes.
    Read(Width),
    /// The same, or none.
    MayRead(Width),
    /// The one value of a uniform register is read.
    Uniform(Width),
    /// The register that is written. If it is uniform, so are all that are read.
    Write(Width),
    /// All lanes of a register of lanes are written.
    Lanes(Width),
    /// A uniform register is written, or none.
    MaySet(Width),
    /// The slot of a register of 4-byte lanes is redirected.
    View,
    /// A mask that is used.
    Mask,
    /// A mask that is computed.
    SetMask,
}

/// The role of `x` or `y`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Word {
    /// Not looked at, or a plain number for which any value will do.
    Free,
    /// The number of a span, or none.
    Span,
    /// The position of an op.
    Target,
    /// A register that is read.
    Read(Width),
    /// An access that loads or stores elements of this many bytes.
    Load(Indices, usize),
    Store(Indices, usize),
    /// An access to a local array.
    Local(Indices, Width, Write),
    /// An entry of the accesses with this many affine forms and no memory.
    Forms(usize),
    /// An atomic operation, on elements of this many bytes if it is not 0.
    Atomic(Indices, usize),
    Slow,
    Warp,
    Message,
    Loop(Loop),
    Strip,
    List,
    Memory(Kind),
    Note,
    /// As many notes, from this one on, as `c` says.
    Notes,
    Wait,
    Birth,
    /// The number of a scalar type, as is `c`, which is that of the register `a`.
    Types,
    Region,
    Product,
    Copy,
    /// The bytes of shared arrays.
    Shared,
}

/// What a method of access takes as indices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Indices {
    /// Uniform registers without coefficients.
    Uniform,
    /// Uniform registers, with coefficients.
    Affine,
    /// Any registers without coefficients.
    Lanes,
    /// Registers of lanes without coefficients, or uniform ones with some.
    Any,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Write {
    No,
    Yes,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Loop {
    /// Bounds and local are uniform.
    Uniform,
    /// The same, and the op names the local as `d` and the step as `a`; `c` may be 1 for 4-byte locals.
    Next,
    /// The same as `Uniform`, of `i32`s.
    Words,
    /// The same, unless `c` is 0.
    Told,
    /// Trip counts differ between lanes. `c` is 1 if the local is a register of lanes.
    Lanes,
    /// The same, at the loop's start: `a` is the uniform start of a local that is not.
    Enter,
}

/// The memory that an op takes by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Local,
    /// A shared array of one axis of 4-byte elements.
    Words,
}

/// Where control goes behind an op.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flow {
    /// To the next op (or to a target, or nowhere).
    Next,
    /// To a target only.
    Jump,
    /// To the next op or the one behind it.
    Skip,
    /// Nowhere.
    End,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    pub name: &'static str,
    pub d: Field,
    pub a: Field,
    pub b: Field,
    pub c: Field,
    pub x: Word,
    pub y: Word,
    pub flow: Flow,
    /// The names of the ops of which one has to follow, if any.
    pub before: &'static [&'static str],
}

impl Shape {
    pub const fn new(name: &'static str) -> Shape {
        let (field, word) = (Field::Free, Word::Free);
        Shape { name, d: field, a: field, b: field, c: field, x: word, y: word, flow: Flow::Next, before: &[] }
    }

    pub const fn d(self, d: Field) -> Shape {
        Shape { d, ..self }
    }

    pub const fn a(self, a: Field) -> Shape {
        Shape { a, ..self }
    }

    pub const fn b(self, b: Field) -> Shape {
        Shape { b, ..self }
    }

    pub const fn c(self, c: Field) -> Shape {
        Shape { c, ..self }
    }

    pub const fn x(self, x: Word) -> Shape {
        Shape { x, ..self }
    }

    pub const fn y(self, y: Word) -> Shape {
        Shape { y, ..self }
    }

    pub const fn flow(self, flow: Flow) -> Shape {
        Shape { flow, ..self }
    }

    pub const fn before(self, before: &'static [&'static str]) -> Shape {
        Shape { before, ..self }
    }
}
