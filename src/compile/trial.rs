//! Launches that scripts make, for what is to be found out about their kernels besides: [`Trials`] sees each before it happens,
//! [`Evidence`] those in which a race was found.

use std::ops::Range;

use crate::base::diag::Diagnostic;
use crate::base::source::Span;
use crate::check::typed::{KernelId, Program};
use crate::device::{Control, Extents, Fault};
use crate::lang::scalar::Value;
use crate::lower::Instance;

/// An argument, in the order of the kernel's parameters on a device.
pub enum Argument<'a> {
    /// A scalar, or the lanes of a vector.
    Value(Vec<Value>),
    Array {
        bytes: &'a [u8],
        shape: Vec<u32>,
        writes: bool,
    },
}

/// A launch that is about to happen. Whoever tries it has copies of the arrays written.
pub struct Trial<'a> {
    pub instance: Instance,
    pub extents: Extents,
    pub args: Vec<Argument<'a>>,
    pub control: &'a Control,
    /// The geometry is that of the kernel's signature.
    pub declared: bool,
    pub span: Span,
}

pub trait Trials: Send + Sync {
    /// Returns whether launches of a kernel are to be tried.
    fn wants(&self, program: &Program, kernel: KernelId, declared: bool) -> bool;

    /// Tries a launch; an error is that of the test that makes it.
    fn launch(&self, program: &Program, trial: &Trial<'_>) -> Result<(), Box<Diagnostic>>;
}

/// A launch in which a checked run has found a race. The arrays that it writes hold anything by now.
pub struct Raced<'a> {
    pub trial: Trial<'a>,
    /// The dimensions, by number.
    pub dims: Vec<i128>,
    pub written: Written<'a>,
}

/// The text of a launch, and what stands where in it.
pub struct Written<'a> {
    pub text: &'a str,
    /// The arguments, by parameter of the signature.
    pub args: Vec<Option<Range<usize>>>,
    /// Dimensions that are given by name: their numbers and values.
    pub dims: Vec<(u32, Range<usize>)>,
    /// Grid and block of `<<<grid, block>>>`.
    pub geometry: Option<[Range<usize>; 2]>,
}

pub trait Evidence: Send + Sync {
    /// Returns what else is known of a race, a note each.
    fn of_race(&self, program: &Program, raced: &Raced<'_>, fault: &Fault) -> Vec<String>;
}
