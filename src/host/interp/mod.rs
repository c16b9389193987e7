//! Runs the host world: statements top to bottom, arrays by value, launches through `dyn Device`.
//!
//! The interpreter walks the typed tree. It knows neither the terminal nor the file system: those are the [`World`]'s.

mod assign;
mod bind;
mod builtin;
mod call;
mod conform;
mod create;
mod eval;
mod exec;
mod extent;
mod frame;
mod launch;
mod layout;
mod map;
mod site;
mod text;
mod timing;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use rustc_hash::FxHashMap;

use crate::base::diag::Diagnostic;
use crate::base::source::{Sources, Span};
use crate::base::stop;
use crate::check::typed::{ConstId, Expr, Program, Section, Type};
use crate::compile::Session;
use crate::device::{Control, Device, DeviceError, Devices, device_diagnostic};
use crate::host::array::{Array, Element};
use crate::host::picture::heat::Heat;
use crate::host::unwind;
use crate::host::value::{Record, Value};
use crate::ir::Checks;

use frame::Frame;
use launch::Kernels;
pub(crate) use launch::constant_block;
use layout::Layouts;
pub(crate) use timing::BenchResult;

/// What a script does to the world outside. The app room provides it; tests provide a recording one.
pub trait World {
    /// Writes to standard output, exactly this text.
    fn print(&mut self, text: &str);
    /// Shows a picture where the user looks: the terminal.
    fn show(&mut self, picture: Shown);
    /// The bytes of a file, or why there are none.
    fn read(&mut self, path: &str) -> Result<Vec<u8>, String>;
    /// Writes a file whole or not at all.
    fn write(&mut self, path: &str, bytes: &[u8]) -> Result<(), String>;
}

/// A picture without a path.
pub enum Shown {
    /// `[H, W]` or `[H, W, 3|4]`
    Image(Array),
    Plot {
        x: Array,
        y: Array,
    },
    Heat(Heat),
}

/// How scripts run.
#[derive(Clone)]
pub struct Options {
    /// `args`
    pub args: Vec<String>,
    /// Ctrl-C, step limit and worker threads of launches.
    pub control: Control,
    /// Replaces the default seed (0) of the stream that `random` and its kin draw from where they are given none.
    pub seed: Option<u64>,
    /// Where launches run.
    pub device: Arc<dyn Device>,
}

/// Why evaluation left the ordinary path.
pub(crate) enum Signal {
    Error(Box<Diagnostic>),
    /// The value, and where it was written.
    Return(Value, Span),
    Break,
    Continue,
    /// The script is over, with this exit code, as is said there.
    Exit(u8, Span),
}

pub(crate) type Eval<T = Value> = Result<T, Signal>;

/// The part of the random stream that `test` and `bench` blocks begin with.
const OF_SECTIONS: u64 = 1 << 63;

/// Calls on the host nest at most this deep where the end of the stack is known, and where it is not.
pub(crate) const MAX_DEPTH: usize = 10_000;
const CAUTIOUS_DEPTH: usize = 1000;

/// The state of a script or a session.
pub struct Interpreter {
    pub options: Options,
    /// By `GlobalId`; `None` until its `let` has run.
    pub globals: Vec<Option<Value>>,
    /// The next part of the random stream: each draw takes one.
    pub draws: u64,
    /// What `on … { }` may ask for; without it there is only [`Options::device`].
    pub devices: Option<Arc<dyn Devices>>,
    /// The most bytes that an array may have which a launch makes; none bounds it but memory.
    pub largest: Option<u64>,
    /// A piece may end before its launches do, and whoever set this asks [`Device::confirm`] how those ended.
    pub pipelined: bool,
    /// Checked launches say what their size cannot show.
    pub hints: bool,
    /// What checked launches warned of, each once.
    pub warnings: Vec<Diagnostic>,
    warned: Vec<Diagnostic>,
    pub(crate) kernels: Kernels,
    /// Kernels of devices that are not in use at the moment, by the device's name.
    pub(crate) parked: Vec<(String, Kernels)>,
    /// Devices that `on … { }` has named since launches were last waited for.
    pub(crate) visited: Vec<Arc<dyn Device>>,
    pub(crate) layouts: Layouts,
    /// The values of constants that were needed, each with the expression it came from.
    pub(crate) constants: FxHashMap<ConstId, (Arc<Expr>, Value)>,
    /// Those whose values are being computed.
    pub(crate) computing: Vec<ConstId>,
    pub(crate) depth: usize,
    /// Where the stack of the thread that runs this must not go below; 0 if nobody knows.
    pub stack_end: usize,
    /// Calls that a fault has left so far and that its message does not show.
    pub(crate) left: usize,
    /// The statement that runs, for errors that have no place of their own.
    pub(crate) at: Span,
    /// The exit code that what ran last has called for. Whoever ran it takes it, or reports the error that it ended with.
    pub ended: Option<u8>,
}

/// The value of a chunk's last statement, if that is an expression with one.
#[derive(Clone, Debug)]
pub struct Last {
    pub value: Value,
    pub ty: Type,
    /// A `;` stands behind it.
    pub quiet: bool,
}

/// What evaluation needs at hand: the interpreter's state, the program, the world.
pub(crate) struct Machine<'a> {
    pub interp: &'a mut Interpreter,
    pub program: &'a Program,
    pub sources: &'a Sources,
    pub world: &'a mut dyn World,
}

impl Interpreter {
    /// The depth that one more call would exceed, if it would. Beyond the number of calls it is the stack that counts: calls
    /// inside of large expressions take more of it.
    pub(crate) fn too_deep(&self) -> Option<usize> {
        let marker = 0u8;
        let here = std::ptr::from_ref(&marker).addr();
        let limit = if self.stack_end == 0 { CAUTIOUS_DEPTH } else { MAX_DEPTH };
        (self.depth >= limit || here < self.stack_end).then_some(limit.min(self.depth))
    }

    pub fn new(options: Options) -> Self {
        Interpreter {
            options,
            globals: Vec::new(),
            draws: 0,
            warnings: Vec::new(),
            warned: Vec::new(),
            devices: None,
            largest: None,
            pipelined: false,
            hints: false,
            kernels: Kernels::default(),
            parked: Vec::new(),
            visited: Vec::new(),
            layouts: Layouts::default(),
            constants: FxHashMap::default(),
            computing: Vec::new(),
            depth: 0,
            stack_end: 0,
            left: 0,
            at: Span::default(),
            ended: None,
        }
    }

    /// Runs chunk number `chunk` of the program. The value is that of a last expression statement without `;`.
    pub fn run_chunk(
        &mut self,
        session: &Session,
        chunk: usize,
        world: &mut dyn World,
    ) -> Result<Option<Value>, Box<Diagnostic>> {
        let last = self.run_entry(session, chunk, world)?;
        Ok(last.filter(|last| !last.quiet).map(|last| last.value))
    }

    /// Runs chunk number `chunk` of the program, the chunk of a session's entry.
    pub fn run_entry(
        &mut self,
        session: &Session,
        chunk: usize,
        world: &mut dyn World,
    ) -> Result<Option<Last>, Box<Diagnostic>> {
        let Some(chunk) = session.program.chunks.get(chunk).cloned() else { return Ok(None) };
        let mut machine = self.machine(session, world);
        let mut frame = Frame::of_body(&chunk.body);
        let ran = machine.guarded(|machine| {
            machine.compile_ahead(session.main);
            let last = machine.chunk(&mut frame, &chunk.body.root)?;
            // It will be shown, where a device that has failed can be reported no more.
            last.iter().filter(|last| !last.quiet).for_each(|last| settle(&last.value));
            Ok(last)
        });
        self.settled(ran, None)
    }

    /// Runs a `test` block.
    pub fn run_test(
        &mut self,
        session: &Session,
        id: crate::base::arena::Id<Section>,
        world: &mut dyn World,
    ) -> Result<(), Box<Diagnostic>> {
        let body = session.program.tests[id].body.clone();
        let mut frame = Frame::of_body(&body);
        let ran = self.section(session, world, |machine| machine.block(&mut frame, &body.root).map(drop));
        self.settled(ran, ())
    }

    /// Times a `bench` block: warm-up, then samples.
    pub(crate) fn run_bench(
        &mut self,
        session: &Session,
        id: crate::base::arena::Id<Section>,
        world: &mut dyn World,
    ) -> Result<BenchResult, Box<Diagnostic>> {
        let section = session.program.benches[id].clone();
        let ran = self.section(session, world, |machine| machine.bench(&section));
        self.settled(ran, BenchResult::default())
    }

    /// Runs a `bench` block `runs` times in a row and nothing else; seconds a run.
    pub(crate) fn repeat_bench(
        &mut self,
        session: &Session,
        id: crate::base::arena::Id<Section>,
        runs: u32,
        world: &mut dyn World,
    ) -> Result<f64, Box<Diagnostic>> {
        let ran = self.section(session, world, |machine| machine.repeat(&session.program.benches[id], runs));
        self.settled(ran, 0.0)
    }

    /// What came of a piece; `nothing` of one that jumped away.
    fn settled<T>(&mut self, ran: Eval<T>, nothing: T) -> Result<T, Box<Diagnostic>> {
        match ran {
            Ok(result) => Ok(result),
            Err(Signal::Error(diagnostic)) => Err(diagnostic),
            Err(Signal::Exit(code, span)) => {
                self.ended = Some(code);
                let title = format!("`exit({code})` where there is more to do than the script");
                let diagnostic = Diagnostic::error("E0547", title).at(span, "called here");
                Err(Box::new(
                    diagnostic.help("`exit` ends a script that `clk run` runs, or a session by an entry of its own"),
                ))
            }
            Err(Signal::Return(..) | Signal::Break | Signal::Continue) => Ok(nothing),
        }
    }

    /// Runs a `test` or `bench` block. Each begins with the same random numbers, whatever ran before it, and none of them
    /// with those of the script.
    fn section<T>(
        &mut self,
        session: &Session,
        world: &mut dyn World,
        run: impl FnOnce(&mut Machine<'_>) -> Eval<T>,
    ) -> Eval<T> {
        let draws = std::mem::replace(&mut self.draws, OF_SECTIONS);
        let result = self.machine(session, world).guarded(run);
        self.draws = draws;
        result
    }

    /// The warnings since the last time.
    pub fn take_warnings(&mut self) -> Vec<Diagnostic> {
        let new = std::mem::take(&mut self.warnings);
        self.warned.extend(new.iter().cloned());
        new
    }

    /// Keeps a warning unless the same place was warned of before.
    pub(crate) fn warn(&mut self, warning: Diagnostic) {
        let same = |w: &Diagnostic| w.code == warning.code && w.primary() == warning.primary();
        if !self.warnings.iter().chain(&self.warned).any(same) {
            self.warnings.push(warning);
        }
    }

    /// Launches go to this device from now on; its kernels are kept while others are in use. Returns the one before.
    pub(crate) fn use_device(&mut self, device: Arc<dyn Device>) -> Arc<dyn Device> {
        let name = device.name();
        let outer = std::mem::replace(&mut self.options.device, device);
        if outer.name() != name {
            let parked = self.parked.iter().position(|(of, _)| *of == name);
            let kernels = parked.map(|at| self.parked.swap_remove(at).1).unwrap_or_default();
            let before = std::mem::replace(&mut self.kernels, kernels);
            self.parked.push((outer.name(), before));
        }
        outer
    }

    /// What launches look for from now on. Kernels are prepared for their checks, so they are compiled anew.
    pub(crate) fn use_checks(&mut self, checks: Checks) {
        if self.options.control.checks != checks {
            self.options.control.checks = checks;
            self.kernels = Kernels::default();
            self.parked.clear();
        }
    }

    /// How values of a type lie in arrays. What cannot be an element is taken for `f32`.
    pub(crate) fn element(&mut self, program: &Program, ty: &Type) -> Element {
        self.layouts.element(program, ty)
    }

    /// The type that elements of arrays have in the program. A struct's layout has to come from [`Interpreter::element`].
    pub(crate) fn element_type(&self, element: &Element) -> Type {
        self.layouts.element_type(element)
    }

    /// Forgets compiled kernels, for a program whose numbering has changed.
    pub(crate) fn forget_kernels(&mut self) {
        self.kernels = Kernels::default();
        self.parked.clear();
        self.layouts = Layouts::default();
    }

    fn machine<'a>(&'a mut self, session: &'a Session, world: &'a mut dyn World) -> Machine<'a> {
        let wanted = session.program.globals.len();
        if self.globals.len() < wanted {
            self.globals.resize(wanted, None);
        }
        self.depth = 0;
        self.computing.clear();
        self.ended = None;
        Machine { interp: self, program: &session.program, sources: &session.sources, world }
    }
}

/// Has the arrays of a value here.
fn settle(value: &Value) {
    match value {
        Value::Array(array) => drop(array.bytes()),
        Value::Tuple(parts) | Value::Record(Record { fields: parts, .. }) => parts.iter().for_each(settle),
        _ => {}
    }
}

impl Machine<'_> {
    /// Runs a piece of a script. If it unwinds because a device fails while something of it is looked at, because it was asked
    /// to stop or because there is no room for its data, that is the piece's error.
    fn guarded<T>(&mut self, run: impl FnOnce(&mut Self) -> Eval<T>) -> Eval<T> {
        let device = self.interp.options.device.clone();
        let flag = self.interp.options.control.stop.clone();
        let ran = unwind::caught(flag, || run(self));
        if ran.is_err() && !Arc::ptr_eq(&device, &self.interp.options.device) {
            // It came from inside of an `on … { }`.
            self.interp.use_device(device);
        }
        let ended = ran.unwrap_or_else(|why| Err(self.error(why.at(self.interp.at))));
        if self.interp.options.control.stop.load(Ordering::Relaxed) {
            stop::heed();
        }
        if self.interp.pipelined { ended } else { self.confirmed(ended) }
    }

    /// The end of a piece, once all its launches are over: one that has failed did so before anything else went wrong.
    fn confirmed<T>(&mut self, ended: Eval<T>) -> Eval<T> {
        let visited = std::mem::take(&mut self.interp.visited);
        let is_over = matches!(ended, Ok(_) | Err(Signal::Exit(..)));
        let mut failure = None;
        for device in std::iter::once(&self.interp.options.device).chain(&visited) {
            match device.confirm() {
                Ok(()) => {}
                Err(error @ (DeviceError::Earlier(_) | DeviceError::Lost(_))) => failure = Some(error),
                Err(error) if is_over => failure = failure.or(Some(error)),
                Err(_) => {}
            }
        }
        match failure {
            Some(error) => Err(self.error(device_diagnostic(&error, self.interp.at))),
            None => ended,
        }
    }

    /// Waits for launches on the device in use that may yet report a fault.
    pub(crate) fn confirm(&mut self, span: Span) -> Eval<()> {
        let confirmed = self.interp.options.device.confirm();
        confirmed.map_err(|error| self.error(device_diagnostic(&error, span)))
    }

    /// Ends a script that was asked to stop.
    pub(crate) fn poll(&self, span: Span) -> Eval<()> {
        if self.interp.options.control.stop.load(Ordering::Relaxed) {
            return Err(self.error(unwind::interrupted(span)));
        }
        Ok(())
    }
}
