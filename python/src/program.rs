//! Programs, and their kernels and functions as callables.

use std::mem::ManuallyDrop;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use std::time::Duration;

use clk_lang::app::embed::{self, Argument, Call, Callable, Check, How, Kind, Parameter, Returned};
use clk_lang::check::typed::Access;
use clk_lang::host::array::Array;
use clk_lang::host::value::Value;
use pyo3::exceptions::PyTypeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyString, PyTuple};

use crate::array;
use crate::attend::{self, Caller};
use crate::convert;
use crate::errors;
use crate::foreign::{self, Foreign, Form, Library};
use crate::gpu;
use crate::stack;

/// A compiled program.
#[pyclass(module = "clk._clk", frozen)]
pub struct Program {
    shared: Arc<Shared>,
}

struct Shared {
    program: ManuallyDrop<Mutex<embed::Program>>,
    stop: Arc<AtomicBool>,
    callables: Arc<[Callable]>,
    /// By callable, whether its last call took long; set for those that were not called yet.
    lasts: Box<[AtomicBool]>,
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: nothing uses it from here on.
        let mut program = Some(unsafe { ManuallyDrop::take(&mut self.program) });
        // Its launches may be behind work that needs the interpreter: what is not taken here goes at the end of this function.
        let _ = Python::try_attach(|py| py.detach(|| drop(program.take())));
    }
}

impl Shared {
    /// Waits for the program, which runs one call at a time; `None` if the caller gives up first.
    fn lock(&self, caller: &Caller<'_>) -> Option<MutexGuard<'_, embed::Program>> {
        loop {
            match self.program.try_lock() {
                Ok(program) => return Some(program),
                // A call that panicked has reported that.
                Err(TryLockError::Poisoned(poisoned)) => return Some(poisoned.into_inner()),
                Err(TryLockError::WouldBlock) if caller.gives_up() => return None,
                Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_micros(100)),
            }
        }
    }
}

/// Writes what a run has printed to `sys.stdout`.
fn write(py: Python<'_>, printed: String) -> PyResult<()> {
    if !printed.is_empty() {
        py.import(intern!(py, "sys"))?
            .getattr(intern!(py, "stdout"))?
            .call_method1(intern!(py, "write"), (printed,))?;
    }
    Ok(())
}

fn interrupted() -> Vec<embed::Report> {
    vec![embed::Report::of_call("E0599", "interrupted", vec![], vec![])]
}

#[pymethods]
impl Program {
    /// Compiles a file.
    #[staticmethod]
    fn load(py: Python<'_>, path: PathBuf) -> PyResult<Program> {
        Program::made(py, py.detach(|| attend::counted(|| stack::roomy(|| embed::Program::load(&path)))))
    }

    /// Compiles a text.
    #[staticmethod]
    fn source(py: Python<'_>, text: &str, name: &str, folder: PathBuf) -> PyResult<Program> {
        Program::made(py, py.detach(|| attend::counted(|| stack::roomy(|| embed::Program::new(name, text, folder)))))
    }

    /// Compiles the program again with more text at its end.
    fn extended(&self, py: Python<'_>, more: &str) -> PyResult<Program> {
        let shared = &self.shared;
        let extend = || shared.program.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).extended(more);
        Program::made(py, py.detach(|| attend::counted(|| stack::roomy(extend))))
    }

    /// The number of callables.
    fn __len__(&self) -> usize {
        self.shared.callables.len()
    }

    /// Runs the statements of the script.
    #[pyo3(signature = (args, device=None, check=None, trap_nan=false, deterministic=false))]
    fn run(
        &self,
        py: Python<'_>,
        args: Vec<String>,
        device: Option<String>,
        check: Option<Bound<'_, PyAny>>,
        trap_nan: bool,
        deterministic: bool,
    ) -> PyResult<()> {
        let how = How { device: device_name(py, device)?, check: checked(check.as_ref())?, trap_nan, deterministic };
        let shared = &self.shared;
        let work = |caller: Caller<'_>| match shared.lock(&caller) {
            None => (Err(interrupted()), String::new()),
            Some(mut program) => {
                caller.begin();
                (program.run(&how, args, caller.stack_end), program.take_printed())
            }
        };
        let ((ran, printed), signals) = attend::run(py, &shared.stop, &AtomicBool::new(true), work);
        write(py, printed)?;
        signals?;
        errors::warn(py, &ran.map_err(|reports| errors::raise(py, &reports))?)
    }

    /// Returns the value of a variable of the script, which has run.
    fn variable<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
        let found = py.detach(|| {
            let program = self.shared.program.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            program.variables().into_iter().find(|(own, _)| *own == name).map(|(_, value)| value.clone())
        });
        found.map(|value| convert::result(py, value, Form::NUMPY)).transpose()
    }

    /// Returns NumPy's type of a struct.
    fn dtype<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
        let element =
            py.detach(|| self.shared.program.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).record(name));
        element.map(|element| array::dtype_of(py, &element)).transpose()
    }

    /// The names of the variables of the script, which has run.
    fn variables(&self, py: Python<'_>) -> Vec<String> {
        py.detach(|| {
            let program = self.shared.program.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            program.variables().into_iter().map(|(name, _)| name.to_string()).collect()
        })
    }

    /// The source of the program: its file or `None`, its text, its name in messages, the folder of its imports.
    fn origin(&self, py: Python<'_>) -> (Option<PathBuf>, String, String, PathBuf) {
        py.detach(|| {
            let program = self.shared.program.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            let (path, text, name, folder) = program.origin();
            // A folder that is relative means another one in another process.
            let folder = std::path::absolute(folder).unwrap_or_else(|_| folder.into());
            (path.map(Into::into), text.into(), name.into(), folder)
        })
    }

    /// The text of a file with types for type checkers.
    fn stubs(&self, name: &str) -> String {
        embed::stubs(name, &self.shared.callables)
    }
}

impl Program {
    fn made(py: Python<'_>, program: Result<embed::Program, Vec<embed::Report>>) -> PyResult<Program> {
        let program = program.map_err(|reports| errors::raise(py, &reports))?;
        errors::warn(py, program.warnings())?;
        let (stop, callables) = (program.stop_flag(), program.callables());
        let lasts = callables.iter().map(|_| AtomicBool::new(true)).collect();
        let program = ManuallyDrop::new(Mutex::new(program));
        Ok(Program { shared: Arc::new(Shared { program, stop, callables, lasts }) })
    }
}

/// Returns the name of a device as Clk has it.
fn device_name(py: Python<'_>, name: Option<String>) -> PyResult<Option<String>> {
    let Some(name) = name else { return Ok(None) };
    let name = match name.split_once(':') {
        None if name == "cpu" => "sim".into(),
        None if name == "cuda" => "gpu".into(),
        Some(("cuda", number)) => format!("gpu:{number}"),
        _ => name,
    };
    match embed::device_error(&name) {
        None => Ok(Some(name)),
        Some(why) => {
            let help = "`device=\"sim\"`, `device=\"gpu\"`, `device=\"gpu:1\"` or `device=\"both\"`; `clk.devices()` lists them";
            Err(errors::refused(py, "E0803", why, &[help], &[]))
        }
    }
}

/// Converts `check`: a truth value, or "everything", which does not skip races that a proof has ruled out.
fn checked(check: Option<&Bound<'_, PyAny>>) -> PyResult<Check> {
    let Some(check) = check.filter(|check| !check.is_none()) else { return Ok(Check::Off) };
    if let Ok(truth) = check.cast::<PyBool>() {
        return Ok(if truth.is_true() { Check::Unproved } else { Check::Off });
    }
    match check.cast::<PyString>().ok().and_then(|text| text.to_str().ok()) {
        Some("everything") => Ok(Check::Everything),
        _ => Err(PyTypeError::new_err("`check` is True, False or \"everything\"")),
    }
}

/// A kernel or function of a program. `clk.Callable` is a subclass, whose instances have documentation of their own.
#[pyclass(name = "Callable", module = "clk._clk", frozen, subclass, weakref)]
pub struct Callee {
    shared: Arc<Shared>,
    at: usize,
    how: How,
}

/// What a call gives by name beside arguments.
#[derive(Default)]
struct Options<'py> {
    out: Option<Bound<'py, PyAny>>,
    how: How,
    grid: Option<[i64; 3]>,
    block: Option<[i64; 3]>,
}

/// A call as Python states it.
pub struct Request<'py> {
    /// The arguments, by parameter.
    pub given: Vec<Option<Bound<'py, PyAny>>>,
    /// Everything but the arguments.
    pub call: Call,
    pub how: How,
}

impl Callee {
    pub fn of(&self) -> &Callable {
        &self.shared.callables[self.at]
    }

    /// Reads the arguments of a call.
    pub fn request<'py>(
        &self,
        py: Python<'py>,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Request<'py>> {
        let of = self.of();
        let mut given: Vec<Option<Bound<'py, PyAny>>> = vec![None; of.params.len()];
        positional(py, of, args, &mut given)?;
        let mut call = Call::default();
        let mut options = Options { how: self.how.clone(), ..Options::default() };
        if let Some(kwargs) = kwargs {
            named(of, kwargs, &mut given, &mut call, &mut options)?;
        }
        if let Some(out) = options.out.take() {
            place_out(py, of, &out, &mut given)?;
        }
        call.geometry = match (options.grid, options.block) {
            (Some(grid), Some(block)) => Some((grid, block)),
            (None, None) => None,
            _ => {
                let title = "`grid` and `block` are given together, or not at all".to_string();
                return Err(errors::refused(py, "E0802", title, &[], &[]));
            }
        };
        Ok(Request { given, call, how: options.how })
    }

    /// Works on the program, at the position of the callable, and writes what that prints. Signals stop the work.
    pub fn ask<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut embed::Program, usize, usize) -> Result<T, Vec<embed::Report>> + Send,
    ) -> PyResult<T> {
        let shared = &self.shared;
        let work = |caller: Caller<'_>| match shared.lock(&caller) {
            None => (Err(interrupted()), String::new()),
            Some(mut program) => {
                caller.begin();
                (work(&mut program, self.at, caller.stack_end), program.take_printed())
            }
        };
        let ((answer, printed), signals) = attend::run(py, &shared.stop, &AtomicBool::new(true), work);
        write(py, printed)?;
        signals?;
        answer.map_err(|reports| errors::raise(py, &reports))
    }
}

#[pymethods]
impl Callee {
    #[new]
    #[pyo3(signature = (program, at, device=None, check=None, trap_nan=false, deterministic=false))]
    fn new(
        program: &Bound<'_, Program>,
        at: usize,
        device: Option<String>,
        check: Option<Bound<'_, PyAny>>,
        trap_nan: bool,
        deterministic: bool,
    ) -> PyResult<Callee> {
        let shared = program.get().shared.clone();
        if at >= shared.callables.len() {
            return Err(pyo3::exceptions::PyIndexError::new_err("the program has no such callable"));
        }
        let device = device_name(program.py(), device)?;
        let how = How { device, check: checked(check.as_ref())?, trap_nan, deterministic };
        Ok(Callee { shared, at, how })
    }

    #[getter]
    fn __name__(&self) -> &str {
        &self.of().name
    }

    #[getter]
    fn __qualname__(&self) -> &str {
        &self.of().name
    }

    /// The head of the definition, and its documentation comment.
    #[getter]
    fn text(&self) -> String {
        let of = self.of();
        let doc = of.doc.as_deref().map_or_else(String::new, |doc| format!("\n\n{}", doc.trim()));
        format!("{}{doc}", of.head)
    }

    #[getter]
    fn __signature__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("clk._signature")?.call_method1("of", (slf,))
    }

    #[getter]
    fn __text_signature__(slf: &Bound<'_, Self>) -> PyResult<String> {
        Ok(Callee::__signature__(slf)?.str()?.to_string())
    }

    /// Whether this is a kernel.
    #[getter]
    fn is_kernel(&self) -> bool {
        self.of().is_kernel
    }

    /// The names of the dimensions.
    #[getter]
    fn dimensions<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, &self.of().dims)
    }

    /// The compile-time parameters: names, and `type`, `const` or `fn`.
    #[getter]
    fn generics(&self) -> Vec<(String, &'static str)> {
        self.of().generics.clone()
    }

    /// The parameters: name, `in`, `out` or `inout`, type in Clk, whether it is an array, and its default in Clk or `None`.
    #[getter]
    fn parameters(&self) -> Vec<(String, &'static str, String, bool, Option<String>)> {
        let describe = |param: &Parameter| {
            let access = match param.access {
                Access::In => "in",
                Access::Out => "out",
                Access::InOut => "inout",
            };
            let is_array = matches!(param.kind, Kind::Array { .. });
            (param.name.clone(), access, param.text.clone(), is_array, param.default.clone())
        };
        self.of().params.iter().map(describe).collect()
    }

    /// The type of the result in Clk, of functions.
    #[getter]
    fn result(&self) -> Option<String> {
        self.of().result.clone()
    }

    fn __repr__(&self) -> String {
        let word = if self.of().is_kernel { "kernel" } else { "function" };
        format!("<{word} {} of Clk>", self.of().name)
    }

    #[pyo3(signature = (*args, **kwargs))]
    fn __call__<'py>(
        &self,
        py: Python<'py>,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let of = self.of();
        let Request { given, mut call, mut how } = self.request(py, args, kwargs)?;
        let mut passed = Passed::read(py, of, &given, &how)?;
        if let (Some(number), None) = (passed.gpu, &how.device) {
            how.device = Some(format!("gpu:{number}"));
        }
        call.stays = passed.form.far;
        call.arguments = std::mem::take(&mut passed.arguments);
        let (shared, at, how) = (&self.shared, self.at, &how);
        let work = |caller: Caller<'_>| match shared.lock(&caller) {
            None => (Err(interrupted()), String::new()),
            Some(mut program) => {
                caller.begin();
                (program.call(at, how, call, caller.stack_end), program.take_printed())
            }
        };
        let ((ran, printed), signals) = attend::run(py, &shared.stop, &shared.lasts[at], work);
        passed.count_writes(py, &given)?;
        write(py, printed)?;
        signals?;
        match ran {
            Ok(returned) => passed.finish(py, of, &given, returned),
            Err(reports) => Err(errors::raise(py, &reports)),
        }
    }
}

/// Assigns positional arguments: to the inputs if there are at most as many, else to all parameters.
fn positional<'py>(
    py: Python<'py>,
    of: &Callable,
    args: &Bound<'py, PyTuple>,
    given: &mut [Option<Bound<'py, PyAny>>],
) -> PyResult<()> {
    let count = args.len();
    let inputs = of.params.iter().filter(|param| param.access != Access::Out).count();
    if count > of.params.len() {
        let title = format!("`{}` takes at most {} arguments, and {count} are given", of.name, of.params.len());
        return Err(errors::refused(py, "E0802", title, &[], &[&format!("it is `{}`", of.head)]));
    }
    let all = count > inputs;
    let places = (0..of.params.len()).filter(|&at| all || of.params[at].access != Access::Out);
    for (place, argument) in places.zip(args.iter_borrowed()) {
        given[place] = Some(argument.to_owned());
    }
    Ok(())
}

/// The options of calls.
const OPTIONS: &str = "out, device, check, trap_nan, deterministic, grid and block";

/// Assigns arguments by name: parameters, dimensions and compile-time parameters of the callable come before options of calls.
fn named<'py>(
    of: &Callable,
    kwargs: &Bound<'py, PyDict>,
    given: &mut [Option<Bound<'py, PyAny>>],
    call: &mut Call,
    options: &mut Options<'py>,
) -> PyResult<()> {
    let py = kwargs.py();
    for (name, value) in kwargs.iter() {
        let name = name.cast::<PyString>()?.to_str()?;
        if let Some(at) = of.params.iter().position(|param| param.name == name) {
            if given[at].is_some() {
                let title = format!("`{name}` of `{}` is given twice", of.name);
                return Err(errors::refused(py, "E0802", title, &[], &[]));
            }
            given[at] = (!value.is_none()).then_some(value);
        } else if of.dims.iter().any(|own| own == name) {
            call.dims.push((name.into(), value.extract()?));
        } else if of.generics.iter().any(|(own, _)| *own == name) {
            call.generics.push((name.into(), generic(&value)?.into()));
        } else {
            match name {
                "out" => options.out = (!value.is_none()).then_some(value),
                "device" => options.how.device = device_name(py, value.extract()?)?,
                "check" => options.how.check = checked(Some(&value))?,
                "trap_nan" => options.how.trap_nan = value.extract()?,
                "deterministic" => options.how.deterministic = value.extract()?,
                "grid" => options.grid = Some(triple(&value)?),
                "block" => options.block = Some(triple(&value)?),
                _ => {
                    let title = format!("`{}` has no parameter `{name}`", of.name);
                    let note = format!("it is `{}`; calls also take {OPTIONS}", of.head);
                    return Err(errors::refused(py, "E0803", title, &[], &[&note]));
                }
            }
        }
    }
    Ok(())
}

/// Returns a compile-time argument as a word of Clk: a number, or the name of a type or function.
fn generic(value: &Bound<'_, PyAny>) -> PyResult<String> {
    let py = value.py();
    let word = if let Ok(truth) = value.cast::<PyBool>() {
        truth.is_true().to_string()
    } else if let Ok(callee) = value.cast::<Callee>() {
        callee.get().of().name.clone()
    } else {
        value.str()?.to_string()
    };
    let fits = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '-' | '+');
    if !word.is_empty() && word.len() <= 200 && word.chars().all(fits) {
        return Ok(word);
    }
    let title = "a compile-time argument is a number, or the name of a type or function".to_string();
    Err(errors::refused(py, "E0802", title, &["types are named as in Clk: `T=\"f32\"`"], &[]))
}

/// Returns an integer, or a tuple of one to three, as extents of x, y and z.
fn triple(value: &Bound<'_, PyAny>) -> PyResult<[i64; 3]> {
    let mut sizes = [1; 3];
    if let Ok(one) = value.extract::<i64>() {
        sizes[0] = one;
        return Ok(sizes);
    }
    let several: Vec<i64> = convert::few(value, 3).unwrap_or_default();
    if several.is_empty() {
        return Err(PyTypeError::new_err("grid and block are an integer or a tuple of one to three, x first"));
    }
    sizes[..several.len()].copy_from_slice(&several);
    Ok(sizes)
}

/// Assigns `out`: an array, or a tuple of as many as there are `out` parameters.
fn place_out<'py>(
    py: Python<'py>,
    of: &Callable,
    out: &Bound<'py, PyAny>,
    given: &mut [Option<Bound<'py, PyAny>>],
) -> PyResult<()> {
    let places: Vec<usize> = (0..of.params.len()).filter(|&at| of.params[at].access == Access::Out).collect();
    let arrays: Vec<Bound<'py, PyAny>> = match out.cast::<PyTuple>() {
        Ok(several) => several.iter().collect(),
        Err(_) => vec![out.clone()],
    };
    if arrays.len() != places.len() {
        let title = format!("`{}` writes {} arrays, and `out` has {}", of.name, places.len(), arrays.len());
        return Err(errors::refused(py, "E0802", title, &[], &[&format!("it is `{}`", of.head)]));
    }
    for (at, array) in places.into_iter().zip(arrays) {
        if given[at].is_some() {
            let title = format!("`{}` is given by itself and in `out`", of.params[at].name);
            return Err(errors::refused(py, "E0802", title, &[], &[]));
        }
        given[at] = (!array.is_none()).then_some(array);
    }
    Ok(())
}

/// The arguments of a call.
struct Passed {
    arguments: Vec<Option<Argument>>,
    /// The arrays among them, by parameter.
    arrays: Vec<Option<Foreign>>,
    /// Clones of the arrays that are only read: as long as they live, nobody writes into the memory.
    read: Vec<Array>,
    /// By parameter, whether what is written has to be copied back.
    copies: Vec<bool>,
    /// The GPU that has arrays among them.
    gpu: Option<u32>,
    /// The form in which results are returned.
    form: Form,
}

impl Passed {
    fn read(py: Python<'_>, of: &Callable, given: &[Option<Bound<'_, PyAny>>], how: &How) -> PyResult<Passed> {
        let count = of.params.len();
        let mut passed = Passed {
            arguments: Vec::with_capacity(count),
            arrays: Vec::with_capacity(count),
            read: Vec::new(),
            copies: vec![false; count],
            gpu: None,
            form: Form::NUMPY,
        };
        let streams = gpu::Streams::default();
        let wanted = gpu::Wanted::Call(how, &streams);
        let mut form = None;
        for (param, value) in of.params.iter().zip(given) {
            let foreign = match (value, &param.kind) {
                (Some(value), Kind::Array { .. }) => Some(array_argument(py, of, param, value, &wanted)?),
                _ => None,
            };
            form = form.or(foreign.as_ref().map(Foreign::form));
            passed.arrays.push(foreign);
        }
        passed.form = form.unwrap_or(Form::NUMPY);
        passed.gpu = gpu::common(py, &passed.arrays)?;
        passed.refuse_double_writes(py, of)?;
        for (at, (param, value)) in of.params.iter().zip(given).enumerate() {
            let argument = match value {
                None => None,
                Some(_) if passed.arrays[at].is_some() => Some(passed.pass(at, param.access)?),
                Some(value) => {
                    if param.access != Access::In {
                        let title =
                            format!("`{}` of `{}` is changed, which no number of Python can be", param.name, of.name);
                        return Err(errors::refused(py, "E0802", title, &[], &[]));
                    }
                    Some(convert::argument(value, param, &of.name)?)
                }
            };
            passed.arguments.push(argument);
        }
        Ok(passed)
    }

    /// Refuses arrays in the same memory that are both written.
    fn refuse_double_writes(&self, py: Python<'_>, of: &Callable) -> PyResult<()> {
        let written = |at: &usize| of.params[*at].access != Access::In;
        let places: Vec<usize> = (0..self.arrays.len()).filter(written).collect();
        for (i, &a) in places.iter().enumerate() {
            for &b in &places[i + 1..] {
                if let (Some(one), Some(other)) = (&self.arrays[a], &self.arrays[b])
                    && one.overlaps(other)
                {
                    let (one, other) = (&of.params[a].name, &of.params[b].name);
                    let title =
                        format!("`{one}` and `{other}` of `{}` are both written, and in the same memory", of.name);
                    return Err(errors::refused(py, "E0809", title, &["write to a copy: `x.copy()`"], &[]));
                }
            }
        }
        Ok(())
    }

    /// Returns an array as an argument. One that is read in memory which the call writes is copied before.
    fn pass(&mut self, at: usize, access: Access) -> PyResult<Argument> {
        let shared = access == Access::In && self.writes_into(at);
        let Some(foreign) = &self.arrays[at] else { return Err(PyTypeError::new_err("no array")) };
        if let Some(lending) = foreign.lending(shared) {
            return Ok(lending);
        }
        if access != Access::In {
            let (array, copied) = foreign.writing()?;
            self.copies[at] = copied;
            return Ok(Argument::Array(array));
        }
        let array = foreign.reading(shared)?;
        self.read.push(array.clone());
        Ok(Argument::Array(array))
    }

    /// Whether the call writes into memory of an array.
    fn writes_into(&self, at: usize) -> bool {
        let Some(own) = &self.arrays[at] else { return false };
        self.arrays.iter().flatten().any(|other| other.written && other.overlaps(own))
    }

    /// Tells torch which tensors were written, also by a call that failed: it refuses gradients that need what was there before.
    fn count_writes(&self, py: Python<'_>, given: &[Option<Bound<'_, PyAny>>]) -> PyResult<()> {
        for (array, given) in self.arrays.iter().zip(given) {
            if let (Some(Foreign { library: Library::Torch, written: true, .. }), Some(tensor)) = (array, given)
                // These have no counter.
                && !tensor.call_method0(intern!(py, "is_inference"))?.is_truthy()?
            {
                let graph = py.import(intern!(py, "torch.autograd.graph"))?;
                graph.call_method1(intern!(py, "increment_version"), (tensor,))?;
            }
        }
        Ok(())
    }

    /// Copies back what was written elsewhere, and returns the results.
    fn finish<'py>(
        self,
        py: Python<'py>,
        of: &Callable,
        given: &[Option<Bound<'py, PyAny>>],
        returned: Returned,
    ) -> PyResult<Bound<'py, PyAny>> {
        let Returned { value, written, warnings, held } = returned;
        for (at, array) in &written {
            let (Some(foreign), param) = (&self.arrays[*at], &of.params[*at]) else { continue };
            if !foreign.has_shape_of(array) {
                let title = format!("`{}` of `{}` has another shape after the call", param.name, of.name);
                let note = format!("it is `{}` now, which does not fit into the memory it had", array.type_name());
                return Err(errors::refused(py, "E0809", title, &["return the new array instead"], &[&note]));
            }
            foreign.store(array)?;
        }
        let result = self.results(py, of, given, value)?;
        drop(held);
        errors::warn(py, &warnings)?;
        Ok(result)
    }

    /// Returns the result of a function, or the arrays that a kernel has written to `out` parameters, in order.
    fn results<'py>(
        &self,
        py: Python<'py>,
        of: &Callable,
        given: &[Option<Bound<'py, PyAny>>],
        value: Value,
    ) -> PyResult<Bound<'py, PyAny>> {
        if !of.is_kernel {
            return convert::result(py, value, self.form);
        }
        let mut made = match value {
            Value::Tuple(parts) => parts.into_iter(),
            Value::Unit => vec![].into_iter(),
            one => vec![one].into_iter(),
        };
        let mut results = Vec::new();
        for (param, given) in of.params.iter().zip(given).filter(|(param, _)| param.access == Access::Out) {
            results.push(match (given, made.next_if_needed(given.is_none())) {
                (Some(given), _) => given.clone(),
                (None, Some(array)) => convert::result(py, array, self.form)?,
                (None, None) => {
                    let title = format!("internal error: `{}` of `{}` was not written", param.name, of.name);
                    return Err(errors::refused(py, "E0999", title, &[], &[]));
                }
            });
        }
        Ok(match results.len() {
            0 => py.None().into_bound(py),
            1 => results.remove(0),
            _ => PyTuple::new(py, results)?.into_any(),
        })
    }
}

/// Takes the next item only where it is needed.
trait NextIfNeeded: Iterator {
    fn next_if_needed(&mut self, needed: bool) -> Option<Self::Item> {
        if needed { self.next() } else { None }
    }
}

impl<I: Iterator> NextIfNeeded for I {}

/// Reads an argument of an array parameter. One that is written has to be writable, and without gaps.
pub fn array_argument(
    py: Python<'_>,
    of: &Callable,
    param: &Parameter,
    value: &Bound<'_, PyAny>,
    wanted: &gpu::Wanted<'_>,
) -> PyResult<Foreign> {
    let Kind::Array { element, .. } = &param.kind else { return Err(PyTypeError::new_err("no array")) };
    let record = match element {
        Ok(element @ clk_lang::host::array::Element::Record(_)) => Some((array::dtype_of(py, element)?, element)),
        _ => None,
    };
    let record = record.as_ref().map(|(dtype, element)| (dtype, *element));
    let written = param.access != Access::In;
    let foreign = foreign::read(value, record, wanted);
    if !written {
        let fit = foreign.and_then(|foreign| gpu::fitting(value, foreign, wanted, false));
        return fit.map_err(|error| about(error, value, of, param));
    }
    let mut foreign = foreign.map_err(|error| about(error, value, of, param))?;
    foreign.written = true;
    let place = || format!("`{}` of `{}` is written", param.name, of.name);
    if foreign.readonly {
        let title = format!("{}, and this array is read-only", place());
        let help = "pass a writable array, such as a copy: `numpy.array(x)`";
        return Err(errors::refused(py, "E0809", title, &[help], &[]));
    }
    if !foreign.is_row_major() {
        let title = format!("{}, and the elements of this array are not in row-major order without gaps", place());
        let help = "pass an array of its own, and copy it where it belongs: `x[...] = result`";
        return Err(errors::refused(py, "E0809", title, &[help], &[]));
    }
    let mut fit = gpu::fitting(value, foreign, wanted, true).map_err(|error| about(error, value, of, param))?;
    fit.written = true;
    Ok(fit)
}

/// Says which parameter an error is about.
fn about(error: PyErr, value: &Bound<'_, PyAny>, of: &Callable, param: &Parameter) -> PyErr {
    let py = value.py();
    // Only the parameter knows the type that the remedy names.
    let error = match (foreign::is_readable(value), &param.kind) {
        (false, Kind::Array { element: Ok(clk_lang::host::array::Element::Scalar(scalar)), .. }) => {
            foreign::no_array(value, Some(embed::numpy_name(*scalar)), param.access == Access::Out)
        }
        (false, _) => foreign::no_array(value, None, param.access == Access::Out),
        (true, _) => error,
    };
    let text = format!("`{}` of `{}` is `{}`", param.name, of.name, param.text);
    // An error of another library gets a note, as `Exception.add_note` makes them.
    let _ = error.value(py).call_method1("add_note", (text,));
    error
}
