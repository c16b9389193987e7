//! State of the interpreter: what scripts see of the world, options, variables, and the ways in which evaluation ends.

use std::ops::Range;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::code::Codes;
use super::copies::Copies;
use super::frame::Frame;
use super::kernels::Kernels;
use super::layout::Layouts;
use super::record::Recorded;
use super::small::Small;
use super::trail::Trail;
use super::visit::Visits;
use crate::base::diag::Diagnostic;
use crate::base::source::{Sources, Span};
use crate::check::typed::{ConstId, Expr, Program, Type};
use crate::compile::trial::{Evidence, Trials};
use crate::device::exchange::Joined;
use crate::device::{Control, Device, Devices};
use crate::host::array::HostArray;
use crate::host::grad::Tape;
use crate::host::graph;
use crate::host::picture::heat::Heat;
use crate::host::ranks::Group;
use crate::host::shard::Counts;
use crate::host::tuned::Tuning;
use crate::host::value::Value;
use crate::lower::Sums;

/// Side effects of scripts. Implemented by `app`, and by recording implementations in tests.
pub trait World {
    /// Writes a text to standard output verbatim.
    fn print(&mut self, text: &str);
    /// Shows a picture in the terminal.
    fn show(&mut self, picture: Shown);
    /// Returns the content of a file, or the reason why it cannot be read.
    fn read(&mut self, path: &str) -> Result<Vec<u8>, String>;
    /// Writes a file completely, or returns the reason and leaves it unchanged.
    fn write(&mut self, path: &str, bytes: &[u8]) -> Result<(), String>;
}

/// A picture to be shown rather than saved.
pub enum Shown {
    /// An array of shape `[H, W]` or `[H, W, 3|4]`.
    Image(HostArray),
    Plot {
        x: HostArray,
        y: HostArray,
    },
    Heat(Heat),
}

/// Options for running scripts.
#[derive(Clone)]
pub struct Options {
    /// The script's arguments, `args`.
    pub args: Vec<String>,
    /// Stop flag, step limit and worker threads of launches.
    pub control: Control,
    /// Replaces the default seed (0) of the stream used by `random` and similar builtins without a `seed` argument.
    pub seed: Option<u64>,
    /// The device for launches.
    pub device: Arc<dyn Device>,
}

/// Why evaluation left the normal control flow.
pub(crate) enum Signal {
    Error(Box<Diagnostic>),
    /// The returned value and its location.
    Return(Value, Span),
    Break,
    Continue,
    /// The script called `exit` with this code at this location.
    Exit(u8, Span),
}

pub(crate) type Eval<T = Value> = Result<T, Signal>;

/// The position in the script's stream of random numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Draws {
    pub seed: u64,
    /// Index of the next random substream; each draw takes one.
    pub next: u64,
}

impl Draws {
    /// Returns the beginning of the stream with a seed.
    pub fn begin(seed: Option<u64>) -> Draws {
        Draws { seed: seed.unwrap_or(0), next: 0 }
    }
}

/// State of a script or a session.
pub struct Interpreter {
    pub options: Options,
    /// By `GlobalId`; `None` until the `let` has been executed.
    pub globals: Vec<Option<Value>>,
    /// Globals that hold the arguments of a call from outside. Its only statement uses each of them once, so that an argument passed by
    /// reference is moved: a clone would have the first write copy the array.
    pub moved: Range<usize>,
    pub draws: Draws,
    /// Devices available to `on … { }`; without them there is only [`Options::device`].
    pub devices: Option<Arc<dyn Devices>>,
    /// The other processes that run the script; without them there is one rank.
    pub group: Option<Arc<dyn Group>>,
    /// How often values have been exchanged with them.
    pub(crate) exchanges: u64,
    /// The device among those of the other ranks: whether there is such a thing is known from the first array on that ranks exchange.
    pub(crate) joined: Option<Option<Arc<dyn Joined>>>,
    /// Limit in bytes of an array allocated by a launch; `None` means that only memory limits it.
    pub largest: Option<u64>,
    /// Whether a piece may complete before its launches do; the caller then has to call [`Device::confirm`].
    pub pipelined: bool,
    /// Whether checked launches report what their size keeps them from finding.
    pub hints: bool,
    /// How `mma` adds on the simulator.
    pub sums: Sums,
    /// With hints: kernels whose launches were all too small to show what several blocks or warps do.
    pub small: Small,
    /// Whoever tries launches in other ways first.
    pub trials: Option<Arc<dyn Trials>>,
    /// Whoever looks for what else is known of a race.
    pub evidence: Option<Arc<dyn Evidence>>,
    /// The launches so far, if they are to be kept.
    pub recorded: Option<Vec<Recorded>>,
    /// With them: what array expressions did.
    pub trail: Trail,
    /// What launches of tuned kernels take.
    pub tuning: Tuning,
    /// New warnings of checked launches, without duplicates.
    pub warnings: Vec<Diagnostic>,
    pub(super) warned: Vec<Diagnostic>,
    pub(crate) kernels: Kernels,
    /// Compiled bodies of host code.
    pub(crate) codes: Codes,
    /// Calls whose arguments were bound.
    pub(super) visits: Visits,
    /// How many definitions the program had when these were found.
    pub(super) definitions: usize,
    /// Frames of calls that have ended, for reuse: boxed, since calls move them in and out.
    #[allow(clippy::vec_box)]
    pub(crate) frames: Vec<Box<Frame>>,
    /// Copies of arrays by statement, if they are to be counted.
    pub copies: Option<Copies>,
    /// Whether it was noted that arrays were moved to the host.
    pub(crate) spilled: bool,
    /// Kernels of array expressions.
    pub(crate) expressions: Arc<graph::Kernels>,
    /// Kernels of devices not currently in use, by device name.
    pub(crate) parked: Vec<(String, Kernels)>,
    /// Devices used by `on … { }` since launches were last waited for.
    pub(crate) visited: Vec<Arc<dyn Device>>,
    /// Devices that have parts of arrays.
    pub(crate) members: Vec<Arc<dyn Device>>,
    /// What has been moved between parts of arrays.
    pub shards: Arc<Counts>,
    pub(crate) layouts: Layouts,
    /// Values of constants evaluated so far, each with its expression.
    pub(crate) constants: FxHashMap<ConstId, (Arc<Expr>, Value)>,
    /// Constants being evaluated.
    pub(crate) computing: Vec<ConstId>,
    pub(crate) depth: usize,
    /// How many derivatives are being taken, one within the other.
    pub(crate) tracing: u32,
    /// The tapes that are being recorded, outermost first.
    pub(crate) tapes: Vec<Arc<Tape>>,
    /// What `no_grad` gives, while differences are taken.
    pub(crate) held: Held,
    /// Lowest address that the stack of this thread may reach; 0 if unknown.
    pub stack_end: usize,
    /// Number of calls in the current error's trace that its message does not show.
    pub(crate) left: usize,
    /// The current statement, for errors without a location of their own.
    pub(crate) at: Span,
    /// The exit code, if the last run has called `exit`. The caller ends with it, or reports the error returned by the run.
    pub ended: Option<u8>,
}

/// What `no_grad` gives: a function with other arguments, whose constants are to stay, gets those of its first run.
#[derive(Default)]
pub(crate) enum Held {
    /// The values as they are.
    #[default]
    Not,
    /// The same, which are kept.
    Kept(Vec<Value>),
    /// Those that were kept, in order.
    Given(std::collections::VecDeque<Value>),
}

impl Held {
    pub fn pass(&mut self, value: Value) -> Value {
        match self {
            Held::Not => value,
            Held::Kept(values) => {
                values.push(value.clone());
                value
            }
            Held::Given(values) => values.pop_front().unwrap_or(value),
        }
    }
}

/// The value of a chunk's last statement, if that is an expression with a value.
#[derive(Clone, Debug)]
pub struct Last {
    pub value: Value,
    pub ty: Type,
    /// Whether it is followed by `;`.
    pub quiet: bool,
}

/// Context of evaluation: the interpreter's state, the program, the sources and the world.
pub(crate) struct Machine<'a> {
    pub interp: &'a mut Interpreter,
    pub program: &'a Program,
    pub sources: &'a Sources,
    pub world: &'a mut dyn World,
}
