//! A program whose kernels and functions are called from outside.

use std::ffi::OsString;
use std::mem;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use smallvec::SmallVec;
use smol_str::SmolStr;

use super::argument::{self, Argument};
use super::describe::{self, Callable, Kind};
use super::lending::{self, Borrowed, settle};
use super::report::Report;
use crate::app::devices::{Choice, Machine, Usage, VARIABLE};
use crate::app::interrupt::Interrupt;
use crate::app::launch::form::{Form, Forms, Given, Item, Key};
use crate::app::launch::refusal::Refusal;
use crate::app::ranks::Member;
use crate::app::script::{Limits, Places};
use crate::app::world::Captured;
use crate::app::{crash, disk, memory, ranks};
use crate::base::aligned;
use crate::base::diag::Diagnostic;
use crate::base::source::Sources;
use crate::base::stop;
use crate::check::typed::{Access, Binding, GlobalId, Type};
use crate::compile::Session;
use crate::device::cuda::driver::nvidia::Visit;
use crate::device::sim::Proofs;
use crate::device::storage::Remote;
use crate::host::array::{Array, Element};
use crate::host::interp::Interpreter;
use crate::host::problem::Problem;
use crate::host::unwind;
use crate::host::value::Value;

/// What went wrong, the first error first.
pub type Failure = Vec<Report>;

/// How a call runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct How {
    /// The device, as `--device` takes it; absent for `CLK_DEVICE`, else the simulator.
    pub device: Option<String>,
    pub check: Check,
    /// Whether the first NaN or infinity that is computed is a fault.
    pub trap_nan: bool,
    /// Whether results that depend on the order of blocks are computed as if blocks ran sequentially.
    pub deterministic: bool,
}

/// Whether a call looks for races, overflow and the like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Check {
    #[default]
    Off,
    /// Except for races that are proved not to exist.
    Unproved,
    Everything,
}

impl How {
    /// Whether the simulator has to run the call, which alone has these checks.
    pub fn is_checked(&self) -> bool {
        self.check != Check::Off || self.trap_nan
    }

    /// Returns the way to run on the simulator.
    fn simulated() -> How {
        How { device: Some("sim".into()), ..How::default() }
    }
}

/// A call.
#[derive(Debug, Default)]
pub struct Call {
    /// By parameter; absent for defaults, and for `out` arrays to be allocated.
    pub arguments: Vec<Option<Argument>>,
    /// Compile-time arguments by name: numbers, or names of types and functions.
    pub generics: Vec<(SmolStr, SmolStr)>,
    pub dims: Vec<(SmolStr, i64)>,
    pub geometry: Option<([i64; 3], [i64; 3])>,
    /// Whether results stay in the memory of the GPU that the call runs on.
    pub stays: bool,
}

/// A call that has run, with its interpreter.
pub(super) struct ObservedCall<'a> {
    pub of: &'a Callable,
    pub session: &'a Session,
    pub interpreter: &'a Interpreter,
    form: &'a Form,
    /// Like [`Returned::value`].
    value: Value,
}

impl ObservedCall<'_> {
    /// Returns the arrays that the call has written or returned, by name. The result of a function is called `result`.
    pub fn arrays(&self) -> Vec<(String, Array)> {
        let mut made = match &self.value {
            Value::Tuple(parts) if self.of.is_kernel => parts.iter(),
            Value::Unit => [].iter(),
            one => std::slice::from_ref(one).iter(),
        };
        let mut found = Vec::new();
        for (global, param) in self.form.params.iter().zip(&self.of.params) {
            let value = match global {
                _ if param.access == Access::In => None,
                Some(global) => self.interpreter.globals.get(global.index()).and_then(Option::as_ref),
                None => made.next(),
            };
            if let Some(Value::Array(array)) = value {
                found.push((param.name.clone(), array.clone()));
            }
        }
        if let (false, Some(Value::Array(array))) = (self.of.is_kernel, made.next()) {
            found.push(("result".into(), array.clone()));
        }
        found
    }
}

/// What a call has given.
pub struct Returned {
    /// The result of a function, or the arrays that a kernel has allocated.
    pub value: Value,
    /// The arrays that were passed to be written, by parameter.
    pub written: Vec<(usize, Array)>,
    pub warnings: Vec<Report>,
    /// Keeps results where they are, if they stay on a GPU.
    pub held: Vec<Arc<dyn Remote>>,
}

/// A way to run: as asked for, and the device that the environment names.
type Way = (How, Option<OsString>);

/// A compiled program with the state of its runs.
pub struct Program {
    /// The file that the program was read from.
    path: Option<PathBuf>,
    name: String,
    text: String,
    session: Session,
    chunks: Range<usize>,
    forms: Forms,
    callables: Arc<[Callable]>,
    machine: Arc<Machine>,
    stop: Arc<AtomicBool>,
    /// This process among the ranks, once a run or a call of a program that has to do with them has joined.
    member: Option<Arc<Member>>,
    /// One interpreter for each way to run, since kernels are compiled for it.
    runs: Vec<(Way, Interpreter)>,
    /// The variables of the script, once it has run.
    globals: Vec<Option<Value>>,
    warnings: Vec<Report>,
    /// What the last run or call has printed, also one that failed.
    printed: String,
    /// Bytes of results since freed memory was last returned.
    made: usize,
}

/// Bytes of results after which buffers that did not recur are freed.
const MADE: usize = 64 << 20;

impl Program {
    /// Compiles a file.
    pub fn load(path: &Path) -> Result<Program, Failure> {
        let unreadable = |why: String| Report::all(&[disk::unreadable(path, &why)], &Session::default().sources);
        let text = disk::read_source(path).map_err(unreadable)?;
        let folder = path.parent().unwrap_or(Path::new("")).to_path_buf();
        let program = Program::new(&path.display().to_string(), &text, folder)?;
        Ok(Program { path: Some(std::path::absolute(path).unwrap_or_else(|_| path.into())), ..program })
    }

    /// Compiles a text; `name` stands for it in messages. Imports are relative to `folder`.
    pub fn new(name: &str, text: &str, folder: PathBuf) -> Result<Program, Failure> {
        let mut session = Session { folder, ..Session::default() };
        let outcome = session.add(name, text, &disk::Disk);
        if outcome.failed() {
            return Err(Report::all(&outcome.diagnostics, &session.sources));
        }
        let warnings = Report::all(&outcome.diagnostics, &session.sources);
        let mut program = Program {
            path: None,
            name: name.to_string(),
            text: text.to_string(),
            chunks: outcome.chunks,
            session,
            forms: Forms::default(),
            callables: Arc::default(),
            machine: Machine::new(Usage::default()),
            stop: Arc::default(),
            member: None,
            runs: Vec::new(),
            globals: Vec::new(),
            warnings,
            printed: String::new(),
            made: 0,
        };
        let mut interpreter = program.interpreter(&How::simulated())?;
        program.callables = describe::callables(&program.session, &mut interpreter).into();
        Ok(program)
    }

    /// Compiles the program again with more text at its end.
    pub fn extended(&self, more: &str) -> Result<Program, Failure> {
        Program::new(&self.name, &format!("{}{more}", self.text), self.session.folder.clone())
    }

    /// Returns the source: the file if there is one, the text, its name in messages, the folder of imports.
    pub fn origin(&self) -> (Option<&Path>, &str, &str, &Path) {
        (self.path.as_deref(), &self.text, &self.name, &self.session.folder)
    }

    /// Returns the compiler's warnings.
    pub fn warnings(&self) -> &[Report] {
        &self.warnings
    }

    pub fn callables(&self) -> Arc<[Callable]> {
        self.callables.clone()
    }

    /// Returns the flag that stops a run, from any thread. Who starts one clears it before.
    pub fn stop_flag(&self) -> Arc<AtomicBool> {
        self.stop.clone()
    }

    /// Returns the element type of a struct of the program.
    pub fn record(&mut self, name: &str) -> Option<Element> {
        let module = self.session.program.modules.get(self.session.main?)?;
        let Some(Binding::Struct(id)) = module.names.get(name) else { return None };
        let id = *id;
        let mut interpreter = self.interpreter(&How::simulated()).ok()?;
        Some(interpreter.element(&self.session.program, &Type::Struct(id)))
    }

    /// Returns the variables of the script that has run, by name.
    pub fn variables(&self) -> Vec<(&str, &Value)> {
        let main = self.session.main.and_then(|main| self.session.program.modules.get(main));
        let names = main.into_iter().flat_map(|module| &module.names);
        let value = |id: &GlobalId| self.globals.get(id.index())?.as_ref();
        names
            .filter_map(|(name, binding)| match binding {
                Binding::Global(id) => Some((name.as_str(), value(id)?)),
                _ => None,
            })
            .collect()
    }

    /// Returns a new interpreter.
    fn interpreter(&self, how: &How) -> Result<Interpreter, Failure> {
        let named = how.device.clone().or_else(|| std::env::var(VARIABLE).ok().filter(|name| !name.is_empty()));
        let wrong = |why: String| vec![Report::of(Problem::new("E0803", why))];
        let choice: Choice = named.as_deref().unwrap_or("sim").parse().map_err(wrong)?;
        // Options that only the simulator supports select it.
        let is_simulated = how.is_checked() || how.deterministic;
        let choice = if is_simulated && how.device.is_none() { Choice::Sim(None) } else { choice };
        let machine = match (how.check, how.deterministic) {
            (Check::Off | Check::Unproved, false) => self.machine.clone(),
            (check, deterministic) => {
                let proofs = if check == Check::Everything { Proofs::Unused } else { Proofs::Used };
                Machine::new(Usage { proofs, deterministic, ..Usage::default() })
            }
        };
        let device = machine.choose(choice).map_err(|error| vec![Report::of(error.into())])?;
        if how.is_checked() && !device.is_watchful() {
            let problem = Problem::new("E0803", format!("`{}` does not look for races and the like", device.name()));
            return Err(vec![Report::of(problem.help("checked calls run on the simulator: `device=\"sim\"`"))]);
        }
        let places = Places { device: Some(device), all: Some(machine) };
        let check = Some(how.check != Check::Off);
        let (trap_nan, deterministic) = (how.trap_nan, how.deterministic);
        let limits = Limits { check, trap_nan, deterministic, places, ..Limits::default() };
        let mut interpreter = limits.interpreter(&Interrupt::default(), vec![]);
        interpreter.options.control.stop = self.stop.clone();
        interpreter.globals.clone_from(&self.globals);
        // Arrays of structs are matched to the program's types by their layouts.
        for (id, _) in self.session.program.structs.iter() {
            interpreter.element(&self.session.program, &Type::Struct(id));
        }
        Ok(interpreter)
    }

    /// Returns a new interpreter, which exchanges values with the other ranks if there are any.
    fn ranked(&mut self, how: &How) -> Result<Interpreter, Failure> {
        let mut interpreter = self.interpreter(how)?;
        let group = ranks::embedded(&self.session.sources, &self.stop);
        self.member = group.map_err(|why| vec![Report::of(Problem::new("E0554", why))])?;
        interpreter.group = self.member.clone().map(|member| member as _);
        Ok(interpreter)
    }

    /// Returns what the last run or call has printed.
    pub fn take_printed(&mut self) -> String {
        mem::take(&mut self.printed)
    }

    /// Runs the statements of the script; returns warnings.
    pub fn run(&mut self, how: &How, args: Vec<String>, stack_end: usize) -> Result<Vec<Report>, Failure> {
        stop::forget();
        let mut interpreter = self.ranked(how)?;
        let _stoppable = self.member.as_ref().map(|member| member.begin(self.stop.clone()));
        interpreter.globals.clear();
        interpreter.options.args = args;
        interpreter.stack_end = stack_end;
        let mut world = Captured::default();
        let ran = guarded(&self.stop, || {
            self.chunks.clone().try_for_each(|chunk| interpreter.run_chunk(&self.session, chunk, &mut world).map(drop))
        });
        self.printed = world.printed;
        ran.map_err(|diagnostics| failure(diagnostics, self.member.as_deref(), &self.session.sources))?;
        interpreter.release_shadowed(&self.session);
        self.globals = mem::take(&mut interpreter.globals);
        self.runs.clear();
        Ok(Report::all(&interpreter.take_warnings(), &self.session.sources))
    }

    /// Calls a kernel or function by its position among the callables. `stack_end` is the lowest address that the thread's stack may
    /// reach; 0 if it is unknown.
    pub fn call(&mut self, callable: usize, how: &How, call: Call, stack_end: usize) -> Result<Returned, Failure> {
        stop::forget();
        let callables = self.callables.clone();
        let Some(of) = callables.get(callable) else { return Err(vec![]) };
        let named = if how.device.is_none() { std::env::var_os(VARIABLE) } else { None };
        let at = match self.runs.iter().position(|((own, of), _)| own == how && *of == named) {
            Some(at) => at,
            None => {
                let interpreter = self.ranked(how)?;
                self.runs.push(((how.clone(), named), interpreter));
                self.runs.len() - 1
            }
        };
        if self.made > MADE {
            self.made = 0;
            aligned::retire();
            memory::trim();
        }
        let Program { session, forms, runs, stop, member, printed, made, .. } = self;
        let _stoppable = member.as_ref().map(|member| member.begin(stop.clone()));
        let Some((_, interpreter)) = runs.get_mut(at) else { return Err(vec![]) };
        let Call { mut arguments, generics, dims, geometry, stays } = call;
        let device = interpreter.options.device.clone();
        let _visit = device.is_remote().then(Visit::begin);
        let mut borrowed = Borrowed::new(&*device);
        // Memory of the host may still be copied from.
        let borrows_here = arguments.iter().flatten().any(|argument| matches!(argument, Argument::Array(_)));
        for (at, argument) in arguments.iter_mut().enumerate() {
            if let Some(Argument::Lent(lending)) = argument {
                let is_written = of.params.get(at).is_some_and(|param| param.access != Access::In);
                let taken = borrowed.take(at, lending, is_written);
                *argument = Some(Argument::Array(taken.map_err(|problem| vec![Report::of(problem)])?));
            }
        }
        let call = Call { arguments, generics, dims, geometry, stays };
        let form = bind(of, call, session, forms, interpreter)?;
        interpreter.moved = moved(&form);
        interpreter.stack_end = stack_end;
        let mut world = Captured::default();
        let mut held = Vec::new();
        let ran = guarded(stop, || {
            let last = interpreter.run_entry(session, form.chunk, &mut world)?;
            let mut value = last.map_or(Value::Unit, |last| last.value);
            let settled = if stays { lending::own(&mut value, &*device, &mut held) } else { settle(&value) };
            let detached = settled.and_then(|()| lending::detach(&mut value));
            detached.map_err(|problem| Box::new(problem.anywhere()))?;
            Ok(value)
        });
        *printed = world.printed;
        interpreter.moved = 0..0;
        let mut written = collect(interpreter, &form, of);
        let ran = if borrowed.is_empty() {
            ran
        } else {
            // The caller may use its memory again when nothing of this call is under way any more.
            let given = ran.and_then(|value| {
                guarded(stop, || {
                    borrowed.give_back(&written).map(|()| value).map_err(|problem| Box::new(problem.anywhere()))
                })
            });
            let handed = borrowed.hand_over(given.is_ok() && !borrows_here);
            let ended = handed.and(borrowed.end(&mut written));
            given.and_then(|value| ended.map(|()| value).map_err(|problem| vec![problem.anywhere()]))
        };
        let warnings = Report::all(&interpreter.take_warnings(), &session.sources);
        match ran {
            Ok(value) => {
                *made = made.saturating_add(value.byte_len());
                Ok(Returned { value, written, warnings, held })
            }
            Err(diagnostics) => Err(failure(diagnostics, member.as_deref(), &session.sources)),
        }
    }

    /// Calls a kernel or function on the simulator, with arguments in memory of their own, and looks at the run. `begin` prepares the
    /// interpreter.
    pub(super) fn observe<T>(
        &mut self,
        callable: usize,
        call: Call,
        stack_end: usize,
        begin: impl FnOnce(&mut Interpreter),
        look: impl FnOnce(&ObservedCall<'_>) -> Result<T, Box<Diagnostic>>,
    ) -> Result<T, Failure> {
        stop::forget();
        let callables = self.callables.clone();
        let Some(of) = callables.get(callable) else { return Err(vec![]) };
        let mut interpreter = self.ranked(&How::simulated())?;
        let Program { session, forms, stop, member, printed, .. } = self;
        let _stoppable = member.as_ref().map(|member| member.begin(stop.clone()));
        let form = bind(of, call, session, forms, &mut interpreter)?;
        interpreter.stack_end = stack_end;
        begin(&mut interpreter);
        let mut world = Captured::default();
        let ran = guarded(stop, || {
            let last = interpreter.run_entry(session, form.chunk, &mut world)?;
            let value = last.map_or(Value::Unit, |last| last.value);
            look(&ObservedCall { of, session, interpreter: &interpreter, form: &form, value })
        });
        *printed = world.printed;
        ran.map_err(|diagnostics| failure(diagnostics, member.as_deref(), &session.sources))
    }

    /// Does work that may be stopped, run out of memory, or panic.
    pub(super) fn guard<T>(&self, work: impl FnOnce(&Session) -> Result<T, Failure>) -> Result<T, Failure> {
        stop::forget();
        let done = guarded(&self.stop, || Ok(work(&self.session)));
        done.map_err(|diagnostics| Report::all(&spelled(diagnostics), &self.session.sources))?
    }
}

/// Returns why a run or a call has failed; if the end of the ranks has stopped it, that is why.
fn failure(diagnostics: Vec<Diagnostic>, member: Option<&Member>, sources: &Sources) -> Failure {
    let explained = |diagnostic| match member {
        Some(member) => ranks::explained(member, diagnostic, sources),
        None => diagnostic,
    };
    let diagnostics: Vec<Diagnostic> = diagnostics.into_iter().map(explained).collect();
    Report::all(&spelled(diagnostics), sources)
}

/// Options of the command line in advice, and how a call spells them.
const SPELLINGS: [(&str, &str); 3] = [
    ("`--device sim`", "`device=\"sim\"`"),
    ("`--check`", "`check=True`"),
    ("`--deterministic`", "`deterministic=True`"),
];

/// Returns diagnostics whose advice is for callers.
fn spelled(mut diagnostics: Vec<Diagnostic>) -> Vec<Diagnostic> {
    for diagnostic in &mut diagnostics {
        for text in diagnostic.help.iter_mut().chain(&mut diagnostic.notes) {
            for (option, argument) in SPELLINGS {
                *text = text.replace(option, argument);
            }
        }
    }
    diagnostics
}

/// Runs work that may be stopped, run out of memory, or panic.
fn guarded<T>(stop: &Arc<AtomicBool>, work: impl FnOnce() -> Result<T, Box<Diagnostic>>) -> Result<T, Vec<Diagnostic>> {
    match crash::survived(|| unwind::caught(stop.clone(), work)) {
        Ok(Ok(Ok(result))) => Ok(result),
        Ok(Ok(Err(diagnostic))) | Err(diagnostic) => Err(vec![*diagnostic]),
        Ok(Err(why)) => Err(vec![why.anywhere()]),
    }
}

fn refused(refusal: Refusal, session: &Session) -> Failure {
    let (diagnostics, sources) = refusal.diagnostics("", &session.sources);
    Report::all(&diagnostics, &sources)
}

/// Compiles the statement of a call, and assigns the arguments to its variables.
fn bind(
    of: &Callable,
    call: Call,
    session: &mut Session,
    forms: &mut Forms,
    interpreter: &mut Interpreter,
) -> Result<Arc<Form>, Failure> {
    let Call { arguments, generics, dims, geometry, .. } = call;
    let (values, types) = values(of, arguments, session, interpreter).map_err(|problem| vec![Report::of(*problem)])?;
    let extents: Vec<i64> = dims.iter().map(|(_, extent)| *extent).collect();
    let names = dims.into_iter().map(|(name, _)| name).collect();
    let path = SmolStr::new(&of.name);
    let key = Key { item: of.item, path, types, generics, dims: names, geometry: geometry.is_some() };
    let form = forms.find(session, key).map_err(|refusal| refused(refusal, session))?;
    place(interpreter, &form, values, &extents, geometry);
    Ok(form)
}

type Values = (SmallVec<[Option<Value>; 6]>, SmallVec<[Option<Given>; 6]>);

/// Converts the arguments, and says what type each has.
fn values(
    of: &Callable,
    arguments: Vec<Option<Argument>>,
    session: &Session,
    interpreter: &mut Interpreter,
) -> Result<Values, Box<Problem>> {
    let generics = elements(of, &arguments);
    argument::check_bounds(of, of.item.signature(&session.program), &arguments, &generics)?;
    let (mut values, mut types) = (SmallVec::new(), SmallVec::new());
    let mut given = arguments.into_iter();
    for param in &of.params {
        let Some(argument) = given.next().flatten() else {
            if param.access != Access::Out && param.default.is_none() {
                let title = format!("`{}` is not given `{}`", of.name, param.name);
                return Err(Box::new(Problem::new("E0802", title).note(format!("it is `{}`", of.head))));
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

/// Returns what the type parameters stand for: arrays say it, else numbers with types of their own, else other numbers.
fn elements(of: &Callable, arguments: &[Option<Argument>]) -> Vec<Option<Element>> {
    let mut found = vec![None; of.generics.len()];
    if found.is_empty() {
        return found;
    }
    let given = || of.params.iter().zip(arguments).filter_map(|(param, argument)| Some((param, argument.as_ref()?)));
    for (param, argument) in given() {
        if let (Kind::Array { element: Err(generic), .. }, Argument::Array(array)) = (&param.kind, argument)
            && let Some(slot @ None) = found.get_mut(*generic)
        {
            *slot = Some(array.element().clone());
        }
    }
    for typed in [true, false] {
        for (param, argument) in given() {
            let has_type =
                matches!(argument, Argument::Bool(_) | Argument::Int(_, Some(_)) | Argument::Float(_, Some(_)));
            if let (Kind::Value(Err(generic)), true) = (&param.kind, has_type == typed)
                && let Some(slot @ None) = found.get_mut(*generic)
            {
                *slot = argument.own_type().map(Element::Scalar);
            }
        }
    }
    found
}

/// Returns the program's type of an argument.
fn type_of(
    item: Item,
    value: &Value,
    param: usize,
    session: &Session,
    interpreter: &Interpreter,
) -> Result<Given, Box<Problem>> {
    Ok(Given::Other(match value {
        Value::Array(array) => match interpreter.element_type(array.element()) {
            Type::Unknown => {
                let title = format!("the program has no struct `{}` with these fields", array.element());
                return Err(Box::new(Problem::new("E0803", title)));
            }
            element => return Ok(Given::Array(element, array.rank())),
        },
        Value::Scalar(number) => Type::Scalar(number.ty),
        Value::Vector(vector) => Type::Vector(vector.ty(), vector.lanes() as u8),
        Value::Str(_) => Type::Str,
        Value::Strings(_) => Type::Strings,
        // A struct or tuple is of the type that it was made for.
        _ => return Ok(Given::of(&item.signature(&session.program).params[param].ty)),
    }))
}

/// Assigns the arguments to the variables of the compiled call.
fn place(
    interpreter: &mut Interpreter,
    form: &Form,
    values: impl IntoIterator<Item = Option<Value>>,
    extents: &[i64],
    geometry: Option<([i64; 3], [i64; 3])>,
) {
    let mut set = |global: GlobalId, value: Value| {
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
        set(*global, Value::i64(*extent));
    }
    if let (Some((grid_id, block_id)), Some((grid, block))) = (form.geometry, geometry) {
        set(grid_id, Value::Tuple(grid.map(Value::i64).to_vec()));
        set(block_id, Value::Tuple(block.map(Value::i64).to_vec()));
    }
}

/// Returns the range of the globals that hold the arguments.
fn moved(form: &Form) -> Range<usize> {
    let globals = || form.params.iter().flatten().map(|global| global.index());
    globals().min().zip(globals().max()).map_or(0..0, |(first, last)| first..last + 1)
}

/// Takes all arguments back, so that nothing keeps memory of the caller; returns the arrays that were written.
fn collect(interpreter: &mut Interpreter, form: &Form, of: &Callable) -> Vec<(usize, Array)> {
    let mut written = Vec::new();
    for (at, (global, param)) in form.params.iter().zip(&of.params).enumerate() {
        let slot = global.and_then(|global| interpreter.globals.get_mut(global.index()));
        if let Some(Value::Array(array)) = slot.and_then(Option::take)
            && param.access != Access::In
        {
            written.push((at, array));
        }
    }
    written
}
