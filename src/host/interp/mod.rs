//! The script interpreter: compiles host code to bytecode ([`code`]), executes it, and launches kernels through `dyn Device`.
//!
//! It accesses the terminal and the file system only through [`World`].

mod alike;
mod assign;
mod bench;
mod bind;
mod builtin;
mod call;
mod code;
mod conform;
mod contracts;
mod copies;
mod create;
mod cuts;
mod derive;
mod direct;
mod element;
mod eval;
mod exec;
mod extent;
mod faults;
mod frame;
mod geometry;
mod gradcheck;
mod inline;
mod kernels;
mod launch;
mod layout;
mod limit;
mod machine;
mod map;
mod measure;
mod note;
mod open;
mod origin;
mod ranks;
mod record;
mod reduced;
mod run;
mod shards;
mod site;
mod small;
mod stated;
mod subject;
#[cfg(test)]
mod tests;
mod text;
mod timing;
mod trail;
mod trial;
mod tuned;
mod visit;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use rustc_hash::FxHashMap;

use crate::base::diag::Diagnostic;
use crate::base::source::Span;
use crate::base::stop;
use crate::check::typed::{Binding, Body, Chunk, Program, Section, StmtKind, Type};
use crate::compile::Session;
use crate::device::profile::Counting;
use crate::device::{Device, DeviceError, device_diagnostic};
use crate::host::array::Element;
use crate::host::graph::Site;
use crate::host::problem::Outcome;
use crate::host::tuned::Tuning;
use crate::host::unwind;
use crate::host::value::{Record, Value};
use crate::ir::Checks;
use crate::lower::Sums;

pub use bench::BenchResult;
use code::{Codes, Source};
pub use copies::{Copied, Copies};
use frame::Frame;
pub use geometry::constant_block;
use kernels::Kernels;
use layout::Layouts;
use machine::Held;
pub use machine::{Draws, Interpreter, Last, Options, Shown, World};
pub(crate) use machine::{Eval, Machine, Signal};
pub use record::Recorded;
use run::Done;
pub use small::{Missed, Small};
pub use trail::{Operand, Origin, Reduced, Step, Trail};
pub use trial::args_of;
use visit::Visits;

/// Index of the random substream with which `test` and `bench` blocks start.
const OF_SECTIONS: u64 = 1 << 63;

/// Maximum depth of host calls: with a known and with an unknown end of the stack.
pub(crate) const MAX_DEPTH: usize = 10_000;
const CAUTIOUS_DEPTH: usize = 1000;

impl Interpreter {
    /// Returns the depth limit that one more call would exceed, if it would. Besides the number of calls, the stack's size is
    /// checked: calls inside large expressions use more of it.
    pub(crate) fn too_deep(&self) -> Option<usize> {
        let marker = 0u8;
        let here = std::ptr::from_ref(&marker).addr();
        let limit = if self.stack_end == 0 { CAUTIOUS_DEPTH } else { MAX_DEPTH };
        (self.depth >= limit || here < self.stack_end).then_some(limit.min(self.depth))
    }

    pub fn new(options: Options) -> Self {
        Interpreter {
            draws: Draws::begin(options.seed),
            options,
            globals: Vec::new(),
            moved: 0..0,
            warnings: Vec::new(),
            warned: Vec::new(),
            devices: None,
            group: None,
            exchanges: 0,
            joined: None,
            largest: None,
            pipelined: false,
            hints: false,
            sums: Sums::default(),
            small: Small::default(),
            trials: None,
            evidence: None,
            recorded: None,
            trail: Trail::default(),
            tuning: Tuning::default(),
            kernels: Kernels::default(),
            codes: Codes::default(),
            visits: Visits::default(),
            definitions: 0,
            frames: Vec::new(),
            copies: None,
            spilled: false,
            expressions: Arc::default(),
            parked: Vec::new(),
            visited: Vec::new(),
            members: Vec::new(),
            shards: Arc::default(),
            layouts: Layouts::default(),
            constants: FxHashMap::default(),
            computing: Vec::new(),
            depth: 0,
            tracing: 0,
            tapes: vec![],
            held: Held::Not,
            stack_end: 0,
            left: 0,
            at: Span::default(),
            ended: None,
        }
    }

    /// Returns the statement that runs, or ran last.
    pub fn place(&self) -> Span {
        self.at
    }

    /// Runs a chunk of the program; returns the value of a last expression statement without `;`.
    pub fn run_chunk(
        &mut self,
        session: &Session,
        chunk: usize,
        world: &mut dyn World,
    ) -> Result<Option<Value>, Box<Diagnostic>> {
        let last = self.run_entry(session, chunk, world)?;
        Ok(last.filter(|last| !last.quiet).map(|last| last.value))
    }

    /// Runs a chunk of the program as an entry of a session.
    pub fn run_entry(
        &mut self,
        session: &Session,
        chunk: usize,
        world: &mut dyn World,
    ) -> Result<Option<Last>, Box<Diagnostic>> {
        let Some(chunk) = session.program.chunks.get(chunk).cloned() else { return Ok(None) };
        let mut machine = self.machine(session, world);
        let ran = machine.guarded(|machine| {
            machine.compile_ahead(session.main);
            let last = machine.chunk(&chunk)?;
            // The value will be shown later, when a device failure can no longer be located.
            if let Some(last) = last.as_ref().filter(|last| !last.quiet) {
                settle(&last.value).map_err(|p| machine.problem(p, machine.interp.at))?;
            }
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
        let ran = self.section(session, world, |machine| {
            let mut frame = machine.frame_of(&body);
            machine.whole(&mut frame).map(drop)
        });
        self.settled(ran, ())
    }

    /// Measures a `bench` block: warm-up, then samples.
    pub fn run_bench(
        &mut self,
        session: &Session,
        id: crate::base::arena::Id<Section>,
        world: &mut dyn World,
    ) -> Result<BenchResult, Box<Diagnostic>> {
        let section = session.program.benches[id].clone();
        let ran = self.section(session, world, |machine| machine.bench(&section));
        self.settled(ran, BenchResult::default())
    }

    /// Runs a `bench` block `runs` times in a row; returns the seconds per run.
    pub fn repeat_bench(
        &mut self,
        session: &Session,
        id: crate::base::arena::Id<Section>,
        runs: u32,
        world: &mut dyn World,
    ) -> Result<f64, Box<Diagnostic>> {
        let ran = self.section(session, world, |machine| machine.repeat(&session.program.benches[id], runs));
        self.settled(ran, 0.0)
    }

    /// Returns the result of a run; `nothing` if it ended by a jump.
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

    /// Runs a `test` or `bench` block. Each starts with the same random numbers, independent of earlier ones and different from the
    /// script's.
    fn section<T>(
        &mut self,
        session: &Session,
        world: &mut dyn World,
        run: impl FnOnce(&mut Machine<'_>) -> Eval<T>,
    ) -> Eval<T> {
        let draws = self.draws;
        self.draws.next = OF_SECTIONS;
        let result = self.machine(session, world).guarded(run);
        self.draws = draws;
        result
    }

    /// Returns the new warnings.
    pub fn take_warnings(&mut self) -> Vec<Diagnostic> {
        let new = std::mem::take(&mut self.warnings);
        self.warned.extend(new.iter().cloned());
        new
    }

    /// Adds a warning unless the same one exists for its location.
    pub(crate) fn warn(&mut self, warning: Diagnostic) {
        let same = |w: &Diagnostic| w.code == warning.code && w.primary() == warning.primary();
        if !self.warnings.iter().chain(&self.warned).any(same) {
            self.warnings.push(warning);
        }
    }

    /// Switches launches to this device and returns the previous one. Compiled kernels are kept by the name of their device: devices of one
    /// name run each other's executables.
    pub fn use_device(&mut self, device: Arc<dyn Device>) -> Arc<dyn Device> {
        let name = device.name();
        let outer = std::mem::replace(&mut self.options.device, device);
        if outer.name() != name {
            let parked = self.parked.iter().position(|(of, _)| *of == name);
            let kernels = parked.map(|at| self.parked.swap_remove(at).1).unwrap_or_default();
            let before = std::mem::replace(&mut self.kernels, kernels);
            self.parked.push((outer.name(), before));
        }
        self.site().switch();
        outer
    }

    /// Returns where array expressions are evaluated: the device in use.
    fn site(&self) -> Site {
        Site::new(self.options.device.clone(), &self.options.control, self.expressions.clone())
    }

    /// Sets the checks of launches. Kernels are compiled for particular checks, so compiled ones are discarded.
    pub fn use_checks(&mut self, checks: Checks) {
        if self.options.control.checks != checks {
            self.options.control.checks = checks;
            self.kernels = Kernels::default();
            self.parked.clear();
        }
    }

    /// Sets how launches are counted, if they are. Kernels are compiled for it, so compiled ones are discarded.
    pub fn count(&mut self, counting: Option<Counting>) {
        self.options.control.counting = counting;
        self.kernels = Kernels::default();
        self.parked.clear();
    }

    /// Returns the element type of a type. Types that cannot be elements give `f32`.
    pub fn element(&mut self, program: &Program, ty: &Type) -> Element {
        self.layouts.element(program, ty)
    }

    /// Returns the program's type of an element type. A struct's layout must come from [`Interpreter::element`].
    pub fn element_type(&self, element: &Element) -> Type {
        self.layouts.element_type(element)
    }

    /// Frees the values of shadowed variables. Only statements of the main module see its variables, so
    /// no later statement can reach those.
    pub fn release_shadowed(&mut self, session: &Session) {
        let Program { modules, globals, .. } = &session.program;
        let Some(module) = session.main.and_then(|main| modules.get(main)) else { return };
        for ((id, global), slot) in globals.iter().zip(&mut self.globals) {
            if slot.is_some() && module.names.get(&global.name) != Some(&Binding::Global(id)) {
                *slot = None;
            }
        }
    }

    /// Switches launches to a device that replaces one of the same name. Nothing that was loaded on that one is used again.
    pub fn replace_device(&mut self, device: Arc<dyn Device>) {
        self.options.device = device;
        self.expressions = Arc::default();
        self.kernels = Kernels::default();
        self.parked.clear();
    }

    /// Discards compiled kernels, for a program whose ids have changed.
    pub fn forget_kernels(&mut self) {
        self.kernels = Kernels::default();
        self.parked.clear();
        self.codes = Codes::default();
        self.visits = Visits::default();
        self.layouts = Layouts::default();
    }

    /// Discards what was found at calls and launches, if there are new definitions: a name that one of them gives as a compile-time argument
    /// may mean another one now, at the same place.
    fn follow(&mut self, program: &Program) {
        let definitions = program.definitions();
        if std::mem::replace(&mut self.definitions, definitions) != definitions {
            self.visits = Visits::default();
            let parked = self.parked.iter_mut().map(|(_, kernels)| kernels);
            parked.chain([&mut self.kernels]).for_each(|kernels| kernels.sites = Default::default());
        }
    }

    fn machine<'a>(&'a mut self, session: &'a Session, world: &'a mut dyn World) -> Machine<'a> {
        self.follow(&session.program);
        let wanted = session.program.globals.len();
        if self.globals.len() < wanted {
            self.globals.resize(wanted, None);
        }
        self.depth = 0;
        self.tracing = 0;
        self.tapes.clear();
        self.held = Held::Not;
        self.computing.clear();
        self.ended = None;
        Machine { interp: self, program: &session.program, sources: &session.sources, world }
    }
}

impl Machine<'_> {
    /// Executes the statements of a chunk; returns the value of the last if it is an expression.
    fn chunk(&mut self, chunk: &Arc<Chunk>) -> Eval<Option<Last>> {
        let body = &chunk.body;
        let code = self.code_of_chunk(chunk);
        self.interp.trail.chunk = self.interp.recorded.is_some().then(|| chunk.clone());
        let mut frame = self.interp.frames.pop().unwrap_or_else(|| Box::new(Frame::empty()));
        frame.prepare(&code);
        let value = self.whole(&mut frame)?;
        self.keep(frame);
        let (ty, quiet) = match (&body.root.tail, body.root.stmts.last().map(|stmt| &stmt.kind)) {
            (Some(tail), _) => (tail.ty.clone(), false),
            (None, Some(StmtKind::Expr { expr, quiet })) => (expr.ty.clone(), *quiet),
            _ => return Ok(None),
        };
        Ok(Some(Last { value, ty, quiet }).filter(|last| !matches!(last.value, Value::Unit)))
    }

    /// Compiles a body without a signature and returns a frame to run it in.
    pub(crate) fn frame_of(&mut self, body: &Body) -> Frame {
        self.interp.trail.chunk = None;
        let mut frame = Frame::empty();
        frame.prepare(&Arc::new(code::build(self.program, &[], Source::Body(body), self.mode())));
        frame
    }

    /// Runs the code of a frame from its beginning.
    pub(crate) fn whole(&mut self, frame: &mut Frame) -> Eval {
        let Some(code) = frame.code.clone() else {
            return Err(self.broken(Span::default(), "a frame without code ran"));
        };
        match self.run(frame, &code, 0)? {
            Done::End(value) => Ok(value),
            Done::Return(value, at) => Err(Signal::Return(value, at)),
        }
    }
}

/// Copies the arrays of a value to the host.
fn settle(value: &Value) -> Outcome<()> {
    match value {
        Value::Array(array) => array.bytes().map(drop),
        Value::Tuple(parts) | Value::Record(Record { fields: parts, .. }) => parts.iter().try_for_each(settle),
        Value::Table(table) => table.values().try_for_each(settle),
        _ => Ok(()),
    }
}

impl Machine<'_> {
    /// Runs a piece of a script. Unwinding because of a stop request or lack of memory is converted to an error of the piece.
    fn guarded<T>(&mut self, run: impl FnOnce(&mut Self) -> Eval<T>) -> Eval<T> {
        let device = self.interp.options.device.clone();
        let flag = self.interp.options.control.stop.clone();
        let _standing = self.interp.site().enter();
        let ran = unwind::caught(flag, || run(self));
        if ran.is_err() && !Arc::ptr_eq(&device, &self.interp.options.device) {
            // The unwinding left an `on … { }` block.
            self.interp.use_device(device);
        }
        let ended = ran.unwrap_or_else(|why| Err(self.error(why.at(self.interp.at))));
        if self.interp.options.control.stop.load(Ordering::Relaxed) {
            stop::heed();
        }
        if self.interp.pipelined { ended } else { self.confirmed(ended) }
    }

    /// Completes a piece when all its launches have completed. The error of a failed launch takes precedence, since it happened
    /// before any other error.
    fn confirmed<T>(&mut self, ended: Eval<T>) -> Eval<T> {
        let visited = std::mem::take(&mut self.interp.visited);
        let is_over = matches!(ended, Ok(_) | Err(Signal::Exit(..)));
        let mut failure = None;
        for device in std::iter::once(&self.interp.options.device).chain(&visited).chain(&self.interp.members) {
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

    /// Waits for launches on the device in use, and on those that have parts of arrays, that may still report a fault.
    pub(crate) fn confirm(&mut self, span: Span) -> Eval<()> {
        let own = std::iter::once(&self.interp.options.device);
        let confirmed = own.chain(&self.interp.members).try_for_each(|device| device.confirm());
        confirmed.map_err(|error| self.error(device_diagnostic(&error, span)))
    }

    /// Returns an error if a stop was requested.
    pub(crate) fn poll(&self, span: Span) -> Eval<()> {
        if self.interp.options.control.stop.load(Ordering::Relaxed) {
            return Err(self.error(unwind::interrupted(span)));
        }
        Ok(())
    }
}
