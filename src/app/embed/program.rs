//! A program whose kernels and functions another language calls.

use std::ffi::OsString;
use std::mem;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use smallvec::SmallVec;
use smol_str::SmolStr;

use super::argument::{self, EmbedValue};
use super::describe::{self, Callable, ParamKind};
use super::gpu_arrays::{self, Borrowed, bring_to_host};
use super::report::EmbedReport;
use crate::command_error::CommandError;
use crate::devices::{DeviceChoice, DeviceOptions, DeviceRegistry, VARIABLE};
use crate::effects::CapturedEffects;
use crate::interrupt::Interrupt;
use crate::launch::compiled_launch::{ArgumentType, CallableItem, CompiledLaunch, CompiledLaunches, LaunchCacheKey};
use crate::launch::launch_error::LaunchRequestError;
use crate::ranks::RankMember;
use crate::script::{RunLimits, ScriptDevices};
use crate::{crash, disk, memory, ranks};
use clk_base::aligned;
use clk_base::diag::Diagnostic;
use clk_base::file_error::FileError;
use clk_base::source::SourceMap;
use clk_base::stop;
use clk_check::typed::{Access, GlobalId, NameBinding, Type};
use clk_compile::{CompileResult, Session};
use clk_host::array::{Array, ElementType};
use clk_host::interp::Interpreter;
use clk_host::problem::RuntimeError;
use clk_host::unwind;
use clk_host::value::HostValue;
use clk_runtime::storage::DeviceBytes;
use clk_sim::Proofs;

/// The errors of a run or call, in the order in which they occurred.
pub type EmbedErrors = Vec<EmbedReport>;

/// Options of a run or call.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct CallOptions {
    /// The device, in the syntax of `--device`. `None` selects the device in `CLK_DEVICE`; if that is unset, the
    /// simulator.
    pub device: Option<String>,
    pub check: CheckLevel,
    /// Whether computing a NaN or infinity is a fault.
    pub trap_nan: bool,
    /// Whether blocks behave as if they ran sequentially, so that results do not depend on scheduling.
    pub deterministic: bool,
}

/// Which errors a call checks for, such as races and overflow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum CheckLevel {
    #[default]
    Off,
    /// Checks everything, except for races that a proof has ruled out.
    Unproved,
    Everything,
}

impl CallOptions {
    /// Returns whether these options include checks that only the simulator performs.
    pub fn is_checked(&self) -> bool {
        self.check != CheckLevel::Off || self.trap_nan
    }

    /// Returns the options for calls that are analyzed on the simulator.
    fn simulated() -> CallOptions {
        CallOptions { device: Some("sim".into()), ..CallOptions::default() }
    }
}

/// The arguments of a call, and where its results are placed.
#[derive(Debug, Default)]
pub struct EmbedCall {
    /// One argument for each parameter. `None` for a parameter with a default, and for an `out` array that the call
    /// allocates.
    pub arguments: Vec<Option<EmbedValue>>,
    /// The compile-time arguments: the name of the parameter, and a number or the name of a type or function.
    pub generics: Vec<(SmolStr, SmolStr)>,
    pub dims: Vec<(SmolStr, i64)>,
    pub geometry: Option<([i64; 3], [i64; 3])>,
    /// Whether results stay in GPU memory.
    pub stays: bool,
}

/// A finished call on the simulator, with the interpreter that ran it.
pub(super) struct ObservedCall<'a> {
    pub of: &'a Callable,
    pub session: &'a Session,
    pub interpreter: &'a Interpreter,
    form: &'a CompiledLaunch,
    /// The result of the call; see [`CallResult::value`].
    value: HostValue,
}

impl ObservedCall<'_> {
    /// Returns the arrays that the call has written or returned, by name. The result of a function is called `result`.
    pub fn arrays(&self) -> Vec<(String, Array)> {
        let mut made = match &self.value {
            HostValue::Tuple(parts) if self.of.is_kernel => parts.iter(),
            HostValue::Unit => [].iter(),
            one => std::slice::from_ref(one).iter(),
        };
        let mut found = Vec::new();
        for (global, param) in self.form.params.iter().zip(&self.of.params) {
            let value = match global {
                _ if param.access == Access::In => None,
                Some(global) => self.interpreter.globals.get(global.index()).and_then(Option::as_ref),
                None => made.next(),
            };
            if let Some(HostValue::Array(array)) = value {
                found.push((param.name.clone(), array.clone()));
            }
        }
        if let (false, Some(HostValue::Array(array))) = (self.of.is_kernel, made.next()) {
            found.push(("result".into(), array.clone()));
        }
        found
    }
}

/// The results of a call.
pub struct CallResult {
    /// The result of a function. For a kernel, the `out` arrays that the call has allocated.
    pub value: HostValue,
    /// The arrays passed for `out` and `inout` parameters, each with the index of its parameter.
    pub written: Vec<(usize, Array)>,
    pub warnings: Vec<EmbedReport>,
    /// Handles that keep the memory of results in GPU memory alive.
    pub keep_alive: Vec<Arc<dyn DeviceBytes>>,
}

/// The configuration of a run: its options, and the device named by the environment.
type CallConfig = (CallOptions, Option<OsString>);

/// A compiled program, and the state of its script and calls.
pub struct EmbedProgram {
    /// The file that the program was read from, if any.
    path: Option<PathBuf>,
    name: String,
    text: String,
    session: Session,
    chunks: Range<usize>,
    forms: CompiledLaunches,
    callables: Arc<[Callable]>,
    machine: Arc<DeviceRegistry>,
    stop: Arc<AtomicBool>,
    /// The membership of this process in the communicator, once a run or call of a program that uses ranks has joined
    /// it.
    member: Option<Arc<RankMember>>,
    /// One interpreter for each configuration, because its compiled kernels depend on the configuration.
    runs: Vec<(CallConfig, Interpreter)>,
    /// The values of the script's variables, once the script has run.
    globals: Vec<Option<HostValue>>,
    warnings: Vec<EmbedReport>,
    /// The text that the last run or call printed, even if it failed.
    printed: String,
    /// Total size of results, in bytes, since unused memory was last returned to the system.
    made: usize,
}

/// Total size of results, in bytes, after which unused pooled buffers are returned to the system.
const RETURN_MEMORY_AFTER: usize = 64 << 20;

impl EmbedProgram {
    /// Compiles a file.
    pub fn load(path: &Path) -> Result<EmbedProgram, EmbedErrors> {
        let unreadable =
            |why: FileError| EmbedReport::all(&[disk::unreadable(path, &why)], &Session::default().sources);
        let folder = path.parent().unwrap_or(Path::new("")).to_path_buf();
        let mut session = Session { folder, ..Session::default() };
        let outcome = session.add_path(path, &disk::Disk).map_err(unreadable)?;
        let program = EmbedProgram::of(session, outcome)?;
        Ok(EmbedProgram { path: Some(std::path::absolute(path).unwrap_or_else(|_| path.into())), ..program })
    }

    /// Compiles a source text, called `name` in messages. Imports are relative to `folder`.
    pub fn new(name: &str, text: &str, folder: PathBuf) -> Result<EmbedProgram, EmbedErrors> {
        let mut session = Session { folder, ..Session::default() };
        let outcome = session.add(name, text, &disk::Disk);
        EmbedProgram::of(session, outcome)
    }

    fn of(session: Session, outcome: CompileResult) -> Result<EmbedProgram, EmbedErrors> {
        if outcome.failed() {
            return Err(EmbedReport::all(&outcome.diagnostics, &session.sources));
        }
        let warnings = EmbedReport::all(&outcome.diagnostics, &session.sources);
        let mut program = EmbedProgram {
            path: None,
            name: session.sources.name(outcome.file).to_owned(),
            text: session.sources.text(outcome.file).to_owned(),
            chunks: outcome.chunks,
            session,
            forms: CompiledLaunches::default(),
            callables: Arc::default(),
            machine: DeviceRegistry::new(DeviceOptions::default()),
            stop: Arc::default(),
            member: None,
            runs: Vec::new(),
            globals: Vec::new(),
            warnings,
            printed: String::new(),
            made: 0,
        };
        let mut interpreter = program.interpreter(&CallOptions::simulated())?;
        program.callables = describe::callables(&program.session, &mut interpreter).into();
        Ok(program)
    }

    /// Compiles the program again with a text appended to it.
    pub fn extended(&self, more: &str) -> Result<EmbedProgram, EmbedErrors> {
        EmbedProgram::new(&self.name, &format!("{}{more}", self.text), self.session.folder.clone())
    }

    /// Returns the origin of the source: its file (if any), its text, its name in messages, and the folder for imports.
    pub fn origin(&self) -> (Option<&Path>, &str, &str, &Path) {
        (self.path.as_deref(), &self.text, &self.name, &self.session.folder)
    }

    /// Returns the warnings from compiling the program.
    pub fn warnings(&self) -> &[EmbedReport] {
        &self.warnings
    }

    pub fn callables(&self) -> Arc<[Callable]> {
        self.callables.clone()
    }

    /// Returns the flag that stops a run when any thread sets it. The caller clears it before a run.
    pub fn stop_flag(&self) -> Arc<AtomicBool> {
        self.stop.clone()
    }

    /// Returns the element type for the program's struct with this name.
    pub fn record(&mut self, name: &str) -> Option<ElementType> {
        let module = self.session.program.modules.get(self.session.main?)?;
        let Some(NameBinding::Struct(id)) = module.names.get(name) else { return None };
        let id = *id;
        let mut interpreter = self.interpreter(&CallOptions::simulated()).ok()?;
        Some(interpreter.element(&self.session.program, &Type::Struct(id)))
    }

    /// Returns the names and values of the script's variables. Empty until the script has run.
    pub fn variables(&self) -> Vec<(&str, &HostValue)> {
        let main = self.session.main.and_then(|main| self.session.program.modules.get(main));
        let names = main.into_iter().flat_map(|module| &module.names);
        let value = |id: &GlobalId| self.globals.get(id.index())?.as_ref();
        names
            .filter_map(|(name, binding)| match binding {
                NameBinding::Global(id) => Some((name.as_str(), value(id)?)),
                _ => None,
            })
            .collect()
    }

    /// Returns a new interpreter for these options.
    fn interpreter(&self, how: &CallOptions) -> Result<Interpreter, EmbedErrors> {
        let device_name = how.device.clone().or_else(|| std::env::var(VARIABLE).ok().filter(|name| !name.is_empty()));
        let wrong = |why: CommandError| vec![EmbedReport::of(RuntimeError::new("E0803", why.title))];
        let choice: DeviceChoice = device_name.as_deref().unwrap_or("sim").parse().map_err(wrong)?;
        // An option that only the simulator supports selects the simulator.
        let is_simulated = how.is_checked() || how.deterministic;
        let choice = if is_simulated && how.device.is_none() { DeviceChoice::Sim(None) } else { choice };
        let machine = match (how.check, how.deterministic) {
            (CheckLevel::Off | CheckLevel::Unproved, false) => self.machine.clone(),
            (check, deterministic) => {
                let proofs = if check == CheckLevel::Everything { Proofs::Unused } else { Proofs::Used };
                DeviceRegistry::new(DeviceOptions { proofs, deterministic, ..DeviceOptions::default() })
            }
        };
        let device = machine.choose(choice).map_err(|error| vec![EmbedReport::of(error.into())])?;
        if how.is_checked() && !device.capabilities().checks {
            let problem =
                RuntimeError::new("E0803", format!("`{}` does not look for races and the like", device.name()));
            return Err(vec![EmbedReport::of(problem.help("checked calls run on the simulator: `device=\"sim\"`"))]);
        }
        let places = ScriptDevices { device: Some(device), all: Some(machine) };
        let check = Some(how.check != CheckLevel::Off);
        let (trap_nan, deterministic) = (how.trap_nan, how.deterministic);
        let limits = RunLimits { check, trap_nan, deterministic, places, ..RunLimits::default() };
        let mut interpreter = limits.interpreter(&Interrupt::default(), vec![]);
        interpreter.options.control.stop = self.stop.clone();
        interpreter.globals.clone_from(&self.globals);
        // An array of structs from the caller is matched to the program's struct with the same layout.
        for (id, _) in self.session.program.structs.iter() {
            interpreter.element(&self.session.program, &Type::Struct(id));
        }
        Ok(interpreter)
    }

    /// Returns a new interpreter. If this process is one of several ranks and the program uses them, connects it to the
    /// others.
    fn interpreter_with_ranks(&mut self, how: &CallOptions) -> Result<Interpreter, EmbedErrors> {
        let mut interpreter = self.interpreter(how)?;
        let group = ranks::join_embedded(&self.session.sources, &self.stop);
        self.member = group.map_err(|why| vec![EmbedReport::of(RuntimeError::new("E0554", why.to_string()))])?;
        interpreter.ranks.communicator = self.member.clone().map(|member| member as _);
        Ok(interpreter)
    }

    /// Returns the text that the last run or call printed, and clears it.
    pub fn take_printed(&mut self) -> String {
        mem::take(&mut self.printed)
    }

    /// Runs the statements of the script; returns the warnings.
    pub fn run(
        &mut self,
        how: &CallOptions,
        args: Vec<String>,
        stack_end: usize,
    ) -> Result<Vec<EmbedReport>, EmbedErrors> {
        stop::reset_acknowledged();
        let mut interpreter = self.interpreter_with_ranks(how)?;
        let _stoppable = self.member.as_ref().map(|member| member.begin(self.stop.clone()));
        interpreter.globals.clear();
        interpreter.options.args = args;
        interpreter.stack.end = stack_end;
        let mut world = CapturedEffects::default();
        let ran = run_guarded(&self.stop, || {
            self.chunks.clone().try_for_each(|chunk| interpreter.run_chunk(&self.session, chunk, &mut world).map(drop))
        });
        self.printed = world.printed;
        ran.map_err(|diagnostics| failure_reports(diagnostics, self.member.as_deref(), &self.session.sources))?;
        interpreter.release_shadowed(&self.session);
        self.globals = mem::take(&mut interpreter.globals);
        self.runs.clear();
        Ok(EmbedReport::all(&interpreter.take_warnings(), &self.session.sources))
    }

    /// Calls the kernel or function with this index among the callables. `stack_end` is the lowest address that the
    /// thread's stack may reach; 0 if it is unknown.
    pub fn call(
        &mut self,
        callable: usize,
        how: &CallOptions,
        call: EmbedCall,
        stack_end: usize,
    ) -> Result<CallResult, EmbedErrors> {
        stop::reset_acknowledged();
        let callables = self.callables.clone();
        let Some(of) = callables.get(callable) else { return Err(vec![]) };
        let env_device = if how.device.is_none() { std::env::var_os(VARIABLE) } else { None };
        let at = match self.runs.iter().position(|((own, of), _)| own == how && *of == env_device) {
            Some(at) => at,
            None => {
                let interpreter = self.interpreter_with_ranks(how)?;
                self.runs.push(((how.clone(), env_device), interpreter));
                self.runs.len() - 1
            }
        };
        if self.made > RETURN_MEMORY_AFTER {
            self.made = 0;
            aligned::free_stale_buffers();
            memory::trim();
        }
        let EmbedProgram { session, forms, runs, stop, member, printed, made, .. } = self;
        let _stoppable = member.as_ref().map(|member| member.begin(stop.clone()));
        let Some((_, interpreter)) = runs.get_mut(at) else { return Err(vec![]) };
        let EmbedCall { mut arguments, generics, dims, geometry, stays } = call;
        let device = interpreter.options.device.clone();
        let _visit = device.interop().map(|interop| interop.preserve_thread_state());
        let mut borrowed = Borrowed::new(&*device);
        // If arguments are in the caller's host memory, copies from it may still be pending when the call returns.
        let borrows_here = arguments.iter().flatten().any(|argument| matches!(argument, EmbedValue::Array(_)));
        for (at, argument) in arguments.iter_mut().enumerate() {
            if let Some(EmbedValue::Lent(lending)) = argument {
                let is_written = of.params.get(at).is_some_and(|param| param.access != Access::In);
                let borrowed_array = borrowed.borrow(at, lending, is_written);
                *argument = Some(EmbedValue::Array(borrowed_array.map_err(|problem| vec![EmbedReport::of(problem)])?));
            }
        }
        let call = EmbedCall { arguments, generics, dims, geometry, stays };
        let form = bind(of, call, session, forms, interpreter)?;
        interpreter.movable_globals = argument_globals(&form);
        interpreter.stack.end = stack_end;
        let mut world = CapturedEffects::default();
        let mut keep_alive = Vec::new();
        let ran = run_guarded(stop, || {
            let last = interpreter.run_entry(session, form.chunk, &mut world)?;
            let mut value = last.map_or(HostValue::Unit, |last| last.value);
            let placed = if stays {
                gpu_arrays::make_owned(&mut value, &*device, &mut keep_alive)
            } else {
                bring_to_host(&value)
            };
            let detached = placed.and_then(|()| gpu_arrays::copy_borrowed(&mut value));
            detached.map_err(|problem| Box::new(problem.anywhere()))?;
            Ok(value)
        });
        *printed = world.printed;
        interpreter.movable_globals = 0..0;
        let mut written = take_arguments(interpreter, &form, of);
        let ran = if borrowed.is_empty() {
            ran
        } else {
            // The caller may use its memory again only after all device work of this call has finished.
            let returned = ran.and_then(|value| {
                run_guarded(stop, || {
                    borrowed.give_back(&written).map(|()| value).map_err(|problem| Box::new(problem.anywhere()))
                })
            });
            let handed = borrowed.hand_over(returned.is_ok() && !borrows_here);
            let ended = handed.and(borrowed.end(&mut written));
            returned.and_then(|value| ended.map(|()| value).map_err(|problem| vec![problem.anywhere()]))
        };
        let warnings = EmbedReport::all(&interpreter.take_warnings(), &session.sources);
        match ran {
            Ok(value) => {
                *made = made.saturating_add(value.byte_len());
                Ok(CallResult { value, written, warnings, keep_alive })
            }
            Err(diagnostics) => Err(failure_reports(diagnostics, member.as_deref(), &session.sources)),
        }
    }

    /// Calls a kernel or function on the simulator, on copies of the arguments. `begin` prepares the interpreter, and
    /// `look` examines it after the call.
    pub(super) fn observe<T>(
        &mut self,
        callable: usize,
        call: EmbedCall,
        stack_end: usize,
        begin: impl FnOnce(&mut Interpreter),
        look: impl FnOnce(&ObservedCall<'_>) -> Result<T, Box<Diagnostic>>,
    ) -> Result<T, EmbedErrors> {
        stop::reset_acknowledged();
        let callables = self.callables.clone();
        let Some(of) = callables.get(callable) else { return Err(vec![]) };
        let mut interpreter = self.interpreter_with_ranks(&CallOptions::simulated())?;
        let EmbedProgram { session, forms, stop, member, printed, .. } = self;
        let _stoppable = member.as_ref().map(|member| member.begin(stop.clone()));
        let form = bind(of, call, session, forms, &mut interpreter)?;
        interpreter.stack.end = stack_end;
        begin(&mut interpreter);
        let mut world = CapturedEffects::default();
        let ran = run_guarded(stop, || {
            let last = interpreter.run_entry(session, form.chunk, &mut world)?;
            let value = last.map_or(HostValue::Unit, |last| last.value);
            look(&ObservedCall { of, session, interpreter: &interpreter, form: &form, value })
        });
        *printed = world.printed;
        ran.map_err(|diagnostics| failure_reports(diagnostics, member.as_deref(), &session.sources))
    }

    /// Runs `work`, and converts a stop request, lack of memory or a panic to an error.
    pub(super) fn guard<T>(&self, work: impl FnOnce(&Session) -> Result<T, EmbedErrors>) -> Result<T, EmbedErrors> {
        stop::reset_acknowledged();
        let done = run_guarded(&self.stop, || Ok(work(&self.session)));
        done.map_err(|diagnostics| EmbedReport::all(&with_call_spelling(diagnostics), &self.session.sources))?
    }
}

/// Converts the diagnostics of a failed run or call to reports. If it failed because other ranks have ended, reports
/// their reason instead.
fn failure_reports(diagnostics: Vec<Diagnostic>, member: Option<&RankMember>, sources: &SourceMap) -> EmbedErrors {
    let explained = |diagnostic| match member {
        Some(member) => ranks::explain_failure(member, diagnostic, sources),
        None => diagnostic,
    };
    let diagnostics: Vec<Diagnostic> = diagnostics.into_iter().map(explained).collect();
    EmbedReport::all(&with_call_spelling(diagnostics), sources)
}

/// Command-line options that occur in help texts, and the arguments of a call that have the same effect.
const SPELLINGS: [(&str, &str); 3] = [
    ("`--device sim`", "`device=\"sim\"`"),
    ("`--check`", "`check=True`"),
    ("`--deterministic`", "`deterministic=True`"),
];

/// Replaces command-line options in help texts by the equivalent arguments of a call.
fn with_call_spelling(mut diagnostics: Vec<Diagnostic>) -> Vec<Diagnostic> {
    for diagnostic in &mut diagnostics {
        for text in diagnostic.help.iter_mut().chain(&mut diagnostic.notes) {
            for (option, argument) in SPELLINGS {
                *text = text.replace(option, argument);
            }
        }
    }
    diagnostics
}

/// Runs `work`, and converts a stop request, lack of memory or a panic to a diagnostic.
fn run_guarded<T>(
    stop: &Arc<AtomicBool>,
    work: impl FnOnce() -> Result<T, Box<Diagnostic>>,
) -> Result<T, Vec<Diagnostic>> {
    match crash::catch_panic(|| unwind::catch_stop(stop.clone(), work)) {
        Ok(Ok(Ok(result))) => Ok(result),
        Ok(Ok(Err(diagnostic))) | Err(diagnostic) => Err(vec![*diagnostic]),
        Ok(Err(why)) => Err(vec![why.anywhere()]),
    }
}

fn refusal_reports(refusal: LaunchRequestError, session: &Session) -> EmbedErrors {
    let (diagnostics, sources) = refusal.diagnostics("", &session.sources);
    EmbedReport::all(&diagnostics, &sources)
}

/// Compiles the statement of a call, and assigns the arguments to the variables that it uses.
fn bind(
    of: &Callable,
    call: EmbedCall,
    session: &mut Session,
    forms: &mut CompiledLaunches,
    interpreter: &mut Interpreter,
) -> Result<Arc<CompiledLaunch>, EmbedErrors> {
    let EmbedCall { arguments, generics, dims, geometry, .. } = call;
    let (values, types) =
        convert_arguments(of, arguments, session, interpreter).map_err(|problem| vec![EmbedReport::of(*problem)])?;
    let extents: Vec<i64> = dims.iter().map(|(_, extent)| *extent).collect();
    let names = dims.into_iter().map(|(name, _)| name).collect();
    let path = SmolStr::new(&of.name);
    let key = LaunchCacheKey {
        item: of.item,
        path,
        types,
        generics,
        dims: names,
        geometry: geometry.is_some(),
        origin: None,
    };
    let form = forms.find(session, key).map_err(|refusal| refusal_reports(refusal, session))?;
    assign_arguments(interpreter, &form, values, &extents, geometry);
    Ok(form)
}

type ArgumentValues = (SmallVec<[Option<HostValue>; 6]>, SmallVec<[Option<ArgumentType>; 6]>);

/// Converts the arguments of a call; returns the values and their types.
fn convert_arguments(
    of: &Callable,
    arguments: Vec<Option<EmbedValue>>,
    session: &Session,
    interpreter: &mut Interpreter,
) -> Result<ArgumentValues, Box<RuntimeError>> {
    let generics = infer_types(of, &arguments);
    argument::check_bounds(of, of.item.signature(&session.program), &arguments, &generics)?;
    let (mut values, mut types) = (SmallVec::new(), SmallVec::new());
    let mut remaining = arguments.into_iter();
    for param in &of.params {
        let Some(argument) = remaining.next().flatten() else {
            if param.access != Access::Out && param.default.is_none() {
                let title = format!("`{}` is not given `{}`", of.name, param.name);
                return Err(Box::new(RuntimeError::new("E0802", title).note(format!("it is `{}`", of.head))));
            }
            values.push(None);
            types.push(None);
            continue;
        };
        let value = argument.value(of, param, &generics)?;
        types.push(Some(type_of(of.item, &value, values.len(), session, interpreter)?));
        values.push(Some(value));
    }
    Ok((values, types))
}

/// Infers the type parameters. Arrays take precedence, then numbers with a sized type, then other numbers.
fn infer_types(of: &Callable, arguments: &[Option<EmbedValue>]) -> Vec<Option<ElementType>> {
    let mut inferred = vec![None; of.generics.len()];
    if inferred.is_empty() {
        return inferred;
    }
    let present = || of.params.iter().zip(arguments).filter_map(|(param, argument)| Some((param, argument.as_ref()?)));
    for (param, argument) in present() {
        if let (ParamKind::Array { element: Err(generic), .. }, EmbedValue::Array(array)) = (&param.kind, argument)
            && let Some(slot @ None) = inferred.get_mut(*generic)
        {
            *slot = Some(array.element().clone());
        }
    }
    for typed in [true, false] {
        for (param, argument) in present() {
            let has_type =
                matches!(argument, EmbedValue::Bool(_) | EmbedValue::Int(_, Some(_)) | EmbedValue::Float(_, Some(_)));
            if let (ParamKind::Value(Err(generic)), true) = (&param.kind, has_type == typed)
                && let Some(slot @ None) = inferred.get_mut(*generic)
            {
                *slot = argument.own_type().map(ElementType::Scalar);
            }
        }
    }
    inferred
}

/// Returns the type in the program that corresponds to an argument.
fn type_of(
    item: CallableItem,
    value: &HostValue,
    param: usize,
    session: &Session,
    interpreter: &Interpreter,
) -> Result<ArgumentType, Box<RuntimeError>> {
    Ok(ArgumentType::Other(match value {
        HostValue::Array(array) => match interpreter.element_type(array.element()) {
            Type::Unknown => {
                let title = format!("the program has no struct `{}` with these fields", array.element());
                return Err(Box::new(RuntimeError::new("E0803", title)));
            }
            element => return Ok(ArgumentType::Array(element, array.rank())),
        },
        HostValue::Scalar(number) => Type::Scalar(number.ty),
        HostValue::Vector(vector) => Type::Vector(vector.ty(), vector.lanes() as u8),
        HostValue::Str(_) => Type::Str,
        HostValue::Strings(_) => Type::Strings,
        // A struct or tuple has already been converted to the type of its parameter.
        _ => return Ok(ArgumentType::of(&item.signature(&session.program).params[param].ty)),
    }))
}

/// Assigns the arguments to the variables that the compiled call uses.
fn assign_arguments(
    interpreter: &mut Interpreter,
    form: &CompiledLaunch,
    values: impl IntoIterator<Item = Option<HostValue>>,
    extents: &[i64],
    geometry: Option<([i64; 3], [i64; 3])>,
) {
    let mut set = |global: GlobalId, value: HostValue| {
        let globals = &mut interpreter.globals;
        if globals.len() <= global.index() {
            globals.resize(global.index() + 1, None);
        }
        globals[global.index()] = Some(value);
    };
    for (global, value) in form.params.iter().zip(values) {
        if let (Some(global), Some(value)) = (global, value) {
            set(*global, value);
        }
    }
    for (global, extent) in form.dims.iter().zip(extents) {
        set(*global, HostValue::i64(*extent));
    }
    if let (Some((grid_id, block_id)), Some((grid, block))) = (form.geometry, geometry) {
        set(grid_id, HostValue::Tuple(grid.map(HostValue::i64).to_vec()));
        set(block_id, HostValue::Tuple(block.map(HostValue::i64).to_vec()));
    }
}

/// Returns the indices of the global variables that hold the arguments.
fn argument_globals(form: &CompiledLaunch) -> Range<usize> {
    let globals = || form.params.iter().flatten().map(|global| global.index());
    globals().min().zip(globals().max()).map_or(0..0, |(first, last)| first..last + 1)
}

/// Clears the variables that hold the arguments, so that the interpreter does not keep the caller's memory alive.
/// Returns the arrays that were written.
fn take_arguments(interpreter: &mut Interpreter, form: &CompiledLaunch, of: &Callable) -> Vec<(usize, Array)> {
    let mut written = Vec::new();
    for (at, (global, param)) in form.params.iter().zip(&of.params).enumerate() {
        let slot = global.and_then(|global| interpreter.globals.get_mut(global.index()));
        if let Some(HostValue::Array(array)) = slot.and_then(Option::take)
            && param.access != Access::In
        {
            written.push((at, array));
        }
    }
    written
}
