//! The stages of code generation that `clk emit` prints, and why a stage has no code.

use clk_base::diag::Diagnostic;

/// A stage of code generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EmitStage {
    Ir,
    /// The tile program of the kernel.
    Tiles,
    /// The derivative of the kernel, as source text.
    Grad,
    /// LaneIR, which the simulator compiles to machine code.
    Lanes,
    Cuda,
    Ptx,
    /// The machine instructions of a GPU.
    Sass,
}

/// Why there is no generated code.
#[derive(Debug)]
pub(crate) enum EmitError {
    /// The program has errors.
    Program(Vec<Diagnostic>),
    /// A compile-time parameter of the kernel has no default, so there is no instance to compile.
    Open,
    /// The kernel has no tile program: the reason, and its tile statements, one a line.
    NoTiles { why: String, statements: String },
    /// A library or a tool is missing or failed: the problem and its remedy. `shown` is the code generated before the
    /// failure.
    Tool { what: String, help: String, shown: String },
    /// An internal error of Clk.
    Internal(String),
}
