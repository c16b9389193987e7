//! Interfaces for analyses of the launches of a script: [`Trials`] is called before each launch, [`RaceEvidenceFinder`]
//! after a launch in which a race was found.

use std::ops::Range;

use clk_base::diag::Diagnostic;
use clk_base::source::Span;
use clk_check::typed::{KernelId, Program};
use clk_lower::Instance;
use clk_runtime::{Control, Fault, LaunchExtents};
use clk_scalar::ScalarValue;

/// An argument of a launch, for one parameter of the device kernel.
pub enum TrialArgument<'a> {
    /// The value of a scalar, or the values of the lanes of a vector.
    Value(Vec<ScalarValue>),
    Array {
        bytes: &'a [u8],
        shape: Vec<u32>,
        writes: bool,
    },
}

/// A launch that is about to be executed. Trial runs must write only to copies of the arrays.
pub struct TrialLaunch<'a> {
    pub instance: Instance,
    pub extents: LaunchExtents,
    pub args: Vec<TrialArgument<'a>>,
    pub control: &'a Control,
    /// Whether the launch uses the geometry that the kernel's signature declares.
    pub declared: bool,
    pub span: Span,
}

pub trait Trials: Send + Sync {
    /// Returns whether launches of a kernel need a trial run.
    fn wants(&self, program: &Program, kernel: KernelId, declared: bool) -> bool;

    /// Runs a trial of a launch. An error is reported as a failure of the test that contains the launch.
    fn launch(&self, program: &Program, trial: &TrialLaunch<'_>) -> Result<(), Box<Diagnostic>>;
}

/// A launch in which the simulator's checks found a race. The contents of the arrays that it wrote are undefined.
pub struct RacedLaunch<'a> {
    pub trial: TrialLaunch<'a>,
    /// The dimensions, in the order of the signature.
    pub dims: Vec<i128>,
    pub written: LaunchText<'a>,
}

/// The source text of a launch, with the byte ranges of its arguments and geometry.
pub struct LaunchText<'a> {
    pub text: &'a str,
    /// The range of the argument for each parameter of the signature.
    pub args: Vec<Option<Range<usize>>>,
    /// Dimensions that are passed by name: the position of each in the signature, and the range of its value.
    pub dims: Vec<(u32, Range<usize>)>,
    /// The ranges of grid and block in `<<<grid, block>>>`.
    pub geometry: Option<[Range<usize>; 2]>,
}

pub trait RaceEvidenceFinder: Send + Sync {
    /// Returns notes about a race that are added to its diagnostic.
    fn of_race(&self, program: &Program, raced: &RacedLaunch<'_>, fault: &Fault) -> Vec<String>;
}
