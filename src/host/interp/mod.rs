//! The script interpreter: compiles host code to bytecode ([`code`]), executes it, and launches kernels through
//! `dyn Device`.
//!
//! It accesses the terminal and the file system only through [`HostEffects`].

mod array_creation;
mod assign;
mod autotuning;
mod bench;
mod bind;
mod builtin;
mod bytecode;
mod call;
mod call_cache;
mod call_cache_key;
mod code;
mod collectives;
mod compiled_kernels;
mod context;
mod contracts;
mod copy_statistics;
mod custom_vjp;
mod derive;
mod directional_derivative;
mod element_access;
mod element_origin;
mod elementwise_call;
mod eval;
mod exact_integers;
mod faults;
mod frame;
mod geometry;
mod gradcheck;
mod gradcheck_function;
mod inline;
mod launch;
mod launch_cache;
mod launch_coverage;
mod launch_observers;
mod layout;
mod open_literals;
mod partition_cache;
mod pictures;
mod provenance;
mod recorded_launch;
mod reduction_origin;
mod scalar_call;
mod sharded_launch;
#[cfg(test)]
mod tests;
mod text;
mod time_limit;
mod timing;
mod trace_statements;
mod tree_nodes;
mod type_mismatch;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::array::ElementType;
use crate::graph::ExecContext;
use crate::problem::HostResult;
use crate::tuned::Tuning;
use crate::unwind;
use crate::value::{HostValue, RecordValue};
use clk_base::diag::Diagnostic;
use clk_base::source::Span;
use clk_base::stop;
use clk_check::typed::{Body, NameBinding, Program, ScriptChunk, StmtKind, TestSection, Type};
use clk_compile::Session;
use clk_ir::Checks;
use clk_lower::MmaPrecision;
use clk_runtime::profile::ProfileCollector;
use clk_runtime::{Device, DeviceError};

pub use bench::BenchResult;
use bytecode::RunEnd;
use call_cache::CallCache;
use code::{CodeSource, Codes};
use compiled_kernels::DeviceKernels;
pub use context::{
    CallStack, DevicePool, HostEffects, Interpreter, LastValue, LaunchObservers, RandomPosition, RankExchange,
    ScriptOptions, WarningLog,
};
use context::{CodeCaches, ConstValues, DerivativeState, NoGradCapture};
pub(crate) use context::{Eval, EvalContext, Signal};
pub use copy_statistics::{CopyCounts, CopyStatistics};
use frame::HostFrame;
pub use geometry::constant_block;
pub use launch_coverage::{LaunchCoverage, UncoveredSizes};
pub use launch_observers::recorded_args;
use layout::Layouts;
pub use provenance::{ElementOrigin, ProvenanceTrace, ReductionOrigin, TraceOperand, TraceStep};
pub use recorded_launch::RecordedLaunch;

/// Index of the random substream with which each `test` and `bench` block starts. Scripts use substreams from 0 on, so
/// they never reach it.
const TEST_SECTION_STREAM: u64 = 1 << 63;

impl Interpreter {
    pub fn new(options: ScriptOptions) -> Self {
        Interpreter {
            random_position: RandomPosition::begin(options.seed),
            options,
            globals: Vec::new(),
            movable_globals: 0..0,
            max_array_bytes: None,
            pipelined: false,
            mma_precision: MmaPrecision::default(),
            tuning: Tuning::default(),
            copy_statistics: None,
            exit_code: None,
            expressions: Arc::default(),
            device_pool: DevicePool::default(),
            ranks: RankExchange::default(),
            observers: LaunchObservers::default(),
            warning_log: WarningLog::default(),
            stack: CallStack::default(),
            caches: CodeCaches::default(),
            const_values: ConstValues::default(),
            derivatives: DerivativeState::default(),
        }
    }

    /// Returns the location of the current or last executed statement.
    pub fn current_statement(&self) -> Span {
        self.stack.span
    }

    /// Runs a chunk of the program. If its last statement is an expression without `;`, returns the value.
    pub fn run_chunk(
        &mut self,
        session: &Session,
        chunk: usize,
        world: &mut dyn HostEffects,
    ) -> Result<Option<HostValue>, Box<Diagnostic>> {
        let last = self.run_entry(session, chunk, world)?;
        Ok(last.filter(|last| !last.is_quiet).map(|last| last.value))
    }

    /// Runs a chunk as a session entry. If its last statement is an expression, returns the value, even if `;` follows.
    pub fn run_entry(
        &mut self,
        session: &Session,
        chunk: usize,
        world: &mut dyn HostEffects,
    ) -> Result<Option<LastValue>, Box<Diagnostic>> {
        let Some(chunk) = session.program.chunks.get(chunk).cloned() else { return Ok(None) };
        let mut machine = self.new_context(session, world);
        let ran = machine.run_guarded(|machine| {
            machine.compile_ahead(session.main);
            let last = machine.execute_chunk(&chunk)?;
            // The caller prints the value after this function returns. Copying it now attributes a device failure to
            // the statement.
            if let Some(last) = last.as_ref().filter(|last| !last.is_quiet) {
                copy_to_host(&last.value).map_err(|p| machine.problem(p, machine.interp.stack.span))?;
            }
            Ok(last)
        });
        self.finish_run(ran, None)
    }

    /// Runs a `test` block.
    pub fn run_test(
        &mut self,
        session: &Session,
        id: clk_base::arena::Id<TestSection>,
        world: &mut dyn HostEffects,
    ) -> Result<(), Box<Diagnostic>> {
        let body = session.program.tests[id].body.clone();
        let ran = self.run_section(session, world, |machine| {
            let mut frame = machine.compile_body(&body);
            machine.run_frame(&mut frame).map(drop)
        });
        self.finish_run(ran, ())
    }

    /// Measures a `bench` block: runs it once for warm-up, and then takes time samples.
    pub fn run_bench(
        &mut self,
        session: &Session,
        id: clk_base::arena::Id<TestSection>,
        world: &mut dyn HostEffects,
    ) -> Result<BenchResult, Box<Diagnostic>> {
        let section = session.program.benches[id].clone();
        let ran = self.run_section(session, world, |machine| machine.run_bench_section(&section));
        self.finish_run(ran, BenchResult::default())
    }

    /// Runs a `bench` block `runs` times in a row; returns the seconds per run.
    pub fn repeat_bench(
        &mut self,
        session: &Session,
        id: clk_base::arena::Id<TestSection>,
        runs: u32,
        world: &mut dyn HostEffects,
    ) -> Result<f64, Box<Diagnostic>> {
        let ran =
            self.run_section(session, world, |machine| machine.repeat_section(&session.program.benches[id], runs));
        self.finish_run(ran, 0.0)
    }

    /// Converts the outcome of an execution to a `Result`. If it ended by `return`, `break` or `continue`, the result
    /// is `nothing`.
    fn finish_run<T>(&mut self, ran: Eval<T>, nothing: T) -> Result<T, Box<Diagnostic>> {
        match ran {
            Ok(result) => Ok(result),
            Err(Signal::Error(diagnostic)) => Err(diagnostic),
            Err(Signal::Exit(code, span)) => {
                self.exit_code = Some(code);
                let title = format!("`exit({code})` is called where it cannot end the process");
                let diagnostic = Diagnostic::error("E0547", title).at(span, "called here");
                Err(Box::new(
                    diagnostic.help("`exit` ends a script under `clk run`, or a session if it is an entry of its own"),
                ))
            }
            Err(Signal::Return(..) | Signal::Break | Signal::Continue) => Ok(nothing),
        }
    }

    /// Runs a `test` or `bench` block. Every block starts at the random substream [`TEST_SECTION_STREAM`], so its
    /// random numbers do not depend on other blocks.
    fn run_section<T>(
        &mut self,
        session: &Session,
        world: &mut dyn HostEffects,
        run: impl FnOnce(&mut EvalContext<'_>) -> Eval<T>,
    ) -> Eval<T> {
        let draws = self.random_position;
        self.random_position.next_substream = TEST_SECTION_STREAM;
        let result = self.new_context(session, world).run_guarded(run);
        self.random_position = draws;
        result
    }

    /// Returns the warnings that were added since the last call.
    pub fn take_warnings(&mut self) -> Vec<Diagnostic> {
        let new = std::mem::take(&mut self.warning_log.pending);
        self.warning_log.reported.extend(new.iter().cloned());
        new
    }

    /// Adds a warning unless the same one exists for its location.
    pub(crate) fn warn(&mut self, warning: Diagnostic) {
        let same = |w: &Diagnostic| w.code == warning.code && w.primary() == warning.primary();
        if !self.warning_log.pending.iter().chain(&self.warning_log.reported).any(same) {
            self.warning_log.pending.push(warning);
        }
    }

    /// Makes a device the current one and returns the previous one. Compiled kernels are kept for each device name,
    /// because devices of the same name can share executables.
    pub fn switch_device(&mut self, device: Arc<dyn Device>) -> Arc<dyn Device> {
        let name = device.name();
        let outer = std::mem::replace(&mut self.options.device, device);
        if outer.name() != name {
            let parked = self.device_pool.inactive_kernels.iter().position(|(of, _)| *of == name);
            let kernels = parked.map(|at| self.device_pool.inactive_kernels.swap_remove(at).1).unwrap_or_default();
            let before = std::mem::replace(&mut self.device_pool.kernels, kernels);
            self.device_pool.inactive_kernels.push((outer.name(), before));
        }
        outer
    }

    /// Returns the context in which array expressions are evaluated on the current device.
    fn exec_context(&self) -> ExecContext {
        ExecContext::new(self.options.device.clone(), &self.options.control, self.expressions.clone())
    }

    /// Sets the run-time checks of launches. Discards compiled kernels, because the previous checks are compiled into
    /// them.
    pub fn set_checks(&mut self, checks: Checks) {
        if self.options.control.checks != checks {
            self.options.control.checks = checks;
            self.device_pool.kernels = DeviceKernels::default();
            self.device_pool.inactive_kernels.clear();
        }
    }

    /// Sets the profile collector for launches. Discards compiled kernels, because counting is compiled into them.
    pub fn set_profile_collector(&mut self, counting: Option<ProfileCollector>) {
        self.options.control.counting = counting;
        self.device_pool.kernels = DeviceKernels::default();
        self.device_pool.inactive_kernels.clear();
    }

    /// Returns the array element type that corresponds to a type of the program; `f32` for types that cannot be
    /// elements.
    pub fn element(&mut self, program: &Program, ty: &Type) -> ElementType {
        self.caches.layouts.element(program, ty)
    }

    /// Returns the type of the program that corresponds to an array element type. The layout of a struct must have been
    /// returned by [`Interpreter::element`].
    pub fn element_type(&self, element: &ElementType) -> Type {
        self.caches.layouts.element_type(element)
    }

    /// Frees the values of shadowed variables. Only the main module uses its variables, so no later statement can read
    /// the shadowed ones.
    pub fn release_shadowed(&mut self, session: &Session) {
        let Program { modules, globals, .. } = &session.program;
        let Some(module) = session.main.and_then(|main| modules.get(main)) else { return };
        for ((id, global), slot) in globals.iter().zip(&mut self.globals) {
            if slot.is_some() && module.names.get(&global.name) != Some(&NameBinding::Global(id)) {
                *slot = None;
            }
        }
    }

    /// Replaces the current device by another one of the same name. Discards all kernels that were loaded on the old
    /// device.
    pub fn replace_device(&mut self, device: Arc<dyn Device>) {
        self.options.device = device;
        self.expressions = self.expressions.without_kernels();
        self.device_pool.kernels = DeviceKernels::default();
        self.device_pool.inactive_kernels.clear();
    }

    /// Discards compiled code, kernels and layouts. Must be called when the ids of the program's definitions have
    /// changed, because the caches use them as keys.
    pub fn discard_compiled(&mut self) {
        self.device_pool.kernels = DeviceKernels::default();
        self.device_pool.inactive_kernels.clear();
        self.caches.codes = Codes::default();
        self.caches.calls = CallCache::default();
        self.caches.layouts = Layouts::default();
    }

    /// Clears the call and launch caches if the program has new definitions. A name that a call passes as a
    /// compile-time argument may now refer to another definition.
    fn invalidate_after_redefinitions(&mut self, program: &Program) {
        let definitions = program.definitions();
        if std::mem::replace(&mut self.caches.definition_count, definitions) != definitions {
            self.caches.calls = CallCache::default();
            let parked = self.device_pool.inactive_kernels.iter_mut().map(|(_, kernels)| kernels);
            parked.chain([&mut self.device_pool.kernels]).for_each(|kernels| kernels.launch_cache = Default::default());
        }
    }

    fn new_context<'a>(&'a mut self, session: &'a Session, world: &'a mut dyn HostEffects) -> EvalContext<'a> {
        self.invalidate_after_redefinitions(&session.program);
        let global_count = session.program.globals.len();
        if self.globals.len() < global_count {
            self.globals.resize(global_count, None);
        }
        self.stack.depth = 0;
        self.derivatives.depth = 0;
        self.derivatives.tapes.clear();
        self.derivatives.no_grad = NoGradCapture::Off;
        self.const_values.in_progress.clear();
        self.exit_code = None;
        let exec = self.exec_context();
        EvalContext { interp: self, program: &session.program, sources: &session.sources, effects: world, exec }
    }
}

impl EvalContext<'_> {
    /// Executes the statements of a chunk. Returns the value of the last statement if it is an expression.
    fn execute_chunk(&mut self, chunk: &Arc<ScriptChunk>) -> Eval<Option<LastValue>> {
        let body = &chunk.body;
        let code = self.chunk_code(chunk);
        self.interp.observers.provenance.chunk =
            self.interp.observers.recorded_launches.is_some().then(|| chunk.clone());
        let mut frame = self.interp.caches.frames.pop().unwrap_or_else(|| Box::new(HostFrame::empty()));
        frame.prepare(&code);
        let value = self.run_frame(&mut frame)?;
        self.recycle_frame(frame);
        let (ty, quiet) = match (&body.root.tail, body.root.stmts.last().map(|stmt| &stmt.kind)) {
            (Some(tail), _) => (tail.ty.clone(), false),
            (None, Some(StmtKind::Expr { expr, quiet })) => (expr.ty.clone(), *quiet),
            _ => return Ok(None),
        };
        Ok(Some(LastValue { value, ty, is_quiet: quiet }).filter(|last| !matches!(last.value, HostValue::Unit)))
    }

    /// Compiles the body of a `test` or `bench` block, and returns a frame in which it can run.
    pub(crate) fn compile_body(&mut self, body: &Body) -> HostFrame {
        self.interp.observers.provenance.chunk = None;
        let mut frame = HostFrame::empty();
        frame.prepare(&Arc::new(code::build(self.program, &[], CodeSource::Body(body), self.code_mode())));
        frame
    }

    /// Runs the code of a frame from its beginning.
    pub(crate) fn run_frame(&mut self, frame: &mut HostFrame) -> Eval {
        let Some(code) = frame.code.clone() else {
            return Err(self.internal_error(Span::default(), "a frame without code ran"));
        };
        match self.run_code(frame, &code, 0)? {
            RunEnd::End(value) => Ok(value),
            RunEnd::Return(value, at) => Err(Signal::Return(value, at)),
        }
    }
}

/// Copies all arrays in a value to the host.
fn copy_to_host(value: &HostValue) -> HostResult<()> {
    match value {
        HostValue::Array(array) => array.bytes().map(drop),
        HostValue::Tuple(parts) | HostValue::Record(RecordValue { fields: parts, .. }) => {
            parts.iter().try_for_each(copy_to_host)
        }
        // The arrays of a table come from a file, not from a device, and may not have been read yet.
        _ => Ok(()),
    }
}

impl EvalContext<'_> {
    /// Makes a device the current one and returns the previous one.
    pub(crate) fn switch_device(&mut self, device: Arc<dyn Device>) -> Arc<dyn Device> {
        let outer = self.interp.switch_device(device);
        self.exec = self.interp.exec_context().at(self.exec.location());
        outer
    }

    /// Runs part of a script. A stop request or a failed allocation unwinds the stack; this function converts that
    /// unwind to an error.
    fn run_guarded<T>(&mut self, run: impl FnOnce(&mut Self) -> Eval<T>) -> Eval<T> {
        let device = self.interp.options.device.clone();
        let flag = self.interp.options.control.stop.clone();
        let ran = unwind::catch_stop(flag, || run(self));
        if ran.is_err() && !Arc::ptr_eq(&device, &self.interp.options.device) {
            // The unwind left an `on … { }` block, so its device is still the current one.
            self.switch_device(device);
        }
        let ended = ran.unwrap_or_else(|why| Err(self.error(why.at(self.interp.stack.span))));
        if self.interp.options.control.stop.load(Ordering::Relaxed) {
            stop::acknowledge();
        }
        if self.interp.pipelined { ended } else { self.wait_for_launches(ended) }
    }

    /// Waits for the pending launches of a part of a script that ended with `ended`. If a launch failed, returns its
    /// error instead, because the launch came before any other error.
    fn wait_for_launches<T>(&mut self, ended: Eval<T>) -> Eval<T> {
        let visited = std::mem::take(&mut self.interp.device_pool.used);
        let is_over = matches!(ended, Ok(_) | Err(Signal::Exit(..)));
        let mut failure = None;
        for device in
            std::iter::once(&self.interp.options.device).chain(&visited).chain(&self.interp.device_pool.shards)
        {
            match device.report_pending_faults() {
                Ok(()) => {}
                Err(error @ (DeviceError::EarlierLaunch(_) | DeviceError::Lost(_))) => failure = Some(error),
                Err(error) if is_over => failure = failure.or(Some(error)),
                Err(_) => {}
            }
        }
        match failure {
            Some(error) => Err(self.device_error(&error, self.interp.stack.span)),
            None => ended,
        }
    }

    /// Waits for launches that may still report a fault, on the current device and on all devices with shards.
    pub(crate) fn report_pending_faults(&mut self, span: Span) -> Eval<()> {
        let own = std::iter::once(&self.interp.options.device);
        let confirmed =
            own.chain(&self.interp.device_pool.shards).try_for_each(|device| device.report_pending_faults());
        confirmed.map_err(|error| self.device_error(&error, span))
    }

    /// Returns an error if a stop was requested.
    pub(crate) fn check_stop(&self, span: Span) -> Eval<()> {
        if self.interp.options.control.stop.load(Ordering::Relaxed) {
            return Err(self.error(unwind::interrupted(span)));
        }
        Ok(())
    }
}
