//! Compiled programs, and their kernels and functions as Python callables.

use std::mem::ManuallyDrop;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use std::time::Duration;

use clk_check::typed::Access;
use clk_host::array::Array;
use clk_host::value::HostValue;
use clk_lang::embed::{
    self, CallOptions, CallResult, Callable, CheckLevel, EmbedCall, EmbedValue, ParamDescription, ParamKind,
};
use pyo3::exceptions::PyTypeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyString, PyTuple};

use crate::array;
use crate::convert;
use crate::errors;
use crate::gpu;
use crate::imported_array::{self, ArrayForm, ArrayLibrary, ImportedArray};
use crate::interruptible::{self, CallerSignals};
use crate::stack;

/// A compiled program.
#[pyclass(module = "clk._clk", frozen)]
pub struct Program {
    state: Arc<ProgramState>,
}

/// A program, which its callables share.
struct ProgramState {
    program: ManuallyDrop<Mutex<embed::EmbedProgram>>,
    stop: Arc<AtomicBool>,
    callables: Arc<[Callable]>,
    /// For each callable, whether its next call is predicted to take long, because the last one did. Initially true,
    /// since the first call compiles.
    is_long: Box<[AtomicBool]>,
}

impl Drop for ProgramState {
    fn drop(&mut self) {
        // SAFETY: the field is not used after this.
        let mut program = Some(unsafe { ManuallyDrop::take(&mut self.program) });
        // Release the interpreter's lock, because dropping the program may wait for GPU work that needs the
        // interpreter. Without an interpreter, the program is dropped at the end of this function.
        let _ = Python::try_attach(|py| py.detach(|| drop(program.take())));
    }
}

impl ProgramState {
    /// Locks the program, which runs one call at a time. Returns `None` if a signal cancels the call while it waits.
    fn lock(&self, caller: &CallerSignals<'_>) -> Option<MutexGuard<'_, embed::EmbedProgram>> {
        loop {
            match self.program.try_lock() {
                Ok(program) => return Some(program),
                // A call panicked, and has reported the error. The program can still be used.
                Err(TryLockError::Poisoned(poisoned)) => return Some(poisoned.into_inner()),
                Err(TryLockError::WouldBlock) if caller.is_canceled() => return None,
                Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_micros(100)),
            }
        }
    }
}

/// Writes the output of a run to `sys.stdout`.
fn write_stdout(py: Python<'_>, printed: String) -> PyResult<()> {
    if !printed.is_empty() {
        py.import(intern!(py, "sys"))?
            .getattr(intern!(py, "stdout"))?
            .call_method1(intern!(py, "write"), (printed,))?;
    }
    Ok(())
}

fn interrupted_error() -> Vec<embed::EmbedReport> {
    vec![embed::EmbedReport::of_call("E0599", "interrupted", vec![], vec![])]
}

#[pymethods]
impl Program {
    /// Compiles a file.
    #[staticmethod]
    fn load(py: Python<'_>, path: PathBuf) -> PyResult<Program> {
        let load = || embed::EmbedProgram::load(&path);
        Program::from_result(py, py.detach(|| interruptible::without_fork(|| stack::on_large_stack(load))))
    }

    /// Compiles source text.
    #[staticmethod]
    fn source(py: Python<'_>, text: &str, name: &str, folder: PathBuf) -> PyResult<Program> {
        let compile = || embed::EmbedProgram::new(name, text, folder);
        Program::from_result(py, py.detach(|| interruptible::without_fork(|| stack::on_large_stack(compile))))
    }

    /// Compiles a new program: the text of this one with more text appended.
    fn extended(&self, py: Python<'_>, more: &str) -> PyResult<Program> {
        let state = &self.state;
        let extend = || state.program.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).extended(more);
        Program::from_result(py, py.detach(|| interruptible::without_fork(|| stack::on_large_stack(extend))))
    }

    /// The number of callables.
    fn __len__(&self) -> usize {
        self.state.callables.len()
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
        let (device, check) = (normalize_device(py, device)?, parse_check_level(check.as_ref())?);
        let options = CallOptions { device, check, trap_nan, deterministic };
        let state = &self.state;
        let work = |caller: CallerSignals<'_>| match state.lock(&caller) {
            None => (Err(interrupted_error()), String::new()),
            Some(mut program) => {
                caller.begin();
                (program.run(&options, args, caller.stack_end), program.take_printed())
            }
        };
        let ((result, printed), signals) = interruptible::run(py, &state.stop, &AtomicBool::new(true), work);
        write_stdout(py, printed)?;
        signals?;
        errors::warn(py, &result.map_err(|reports| errors::to_exception(py, &reports))?)
    }

    /// Returns the value of a variable of the script. Returns `None` if there is no such variable, or the script has
    /// not run.
    fn variable<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
        let value = py.detach(|| {
            let program = self.state.program.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            program.variables().into_iter().find(|(variable, _)| *variable == name).map(|(_, value)| value.clone())
        });
        value.map(|value| convert::result(py, value, ArrayForm::NUMPY)).transpose()
    }

    /// Returns the NumPy `dtype` of a struct.
    fn dtype<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
        let element =
            py.detach(|| self.state.program.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).record(name));
        element.map(|element| array::dtype_of(py, &element)).transpose()
    }

    /// The names of the variables of the script. Empty until `run` is called.
    fn variables(&self, py: Python<'_>) -> Vec<String> {
        py.detach(|| {
            let program = self.state.program.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            program.variables().into_iter().map(|(name, _)| name.to_string()).collect()
        })
    }

    /// The source of the program: its file or `None`, its text, its name in messages, and the folder for its imports.
    fn origin(&self, py: Python<'_>) -> (Option<PathBuf>, String, String, PathBuf) {
        py.detach(|| {
            let program = self.state.program.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            let (path, text, name, folder) = program.origin();
            // The path is absolute because the result is pickled, and the process that reads the pickle may have
            // another
            // working directory.
            let folder = std::path::absolute(folder).unwrap_or_else(|_| folder.into());
            (path.map(Into::into), text.into(), name.into(), folder)
        })
    }

    /// The text of a stub file (.pyi) for type checkers.
    fn stubs(&self, name: &str) -> String {
        embed::stubs(name, &self.state.callables)
    }
}

impl Program {
    /// Wraps a compiled program. Raises its errors, and issues its warnings.
    fn from_result(py: Python<'_>, program: Result<embed::EmbedProgram, Vec<embed::EmbedReport>>) -> PyResult<Program> {
        let program = program.map_err(|reports| errors::to_exception(py, &reports))?;
        errors::warn(py, program.warnings())?;
        let (stop, callables) = (program.stop_flag(), program.callables());
        let is_long = callables.iter().map(|_| AtomicBool::new(true)).collect();
        let program = ManuallyDrop::new(Mutex::new(program));
        Ok(Program { state: Arc::new(ProgramState { program, stop, callables, is_long }) })
    }
}

/// Converts device names of PyTorch to names of Clk: `cuda:1` to `gpu:1`. Rejects unknown devices.
fn normalize_device(py: Python<'_>, name: Option<String>) -> PyResult<Option<String>> {
    let Some(name) = name else { return Ok(None) };
    let name = match name.split_once(':') {
        None if name == "cpu" => "sim".into(),
        None if name == "cuda" => "gpu".into(),
        Some(("cuda", number)) => format!("gpu:{number}"),
        _ => name,
    };
    match embed::device_error(&name) {
        None => Ok(Some(name)),
        Some(reason) => {
            let help = "`device=\"sim\"`, `device=\"gpu\"`, `device=\"gpu:1\"` or `device=\"both\"`; `clk.devices()` lists them";
            Err(errors::call_error(py, "E0803", reason, &[help], &[]))
        }
    }
}

/// Parses the option `check`: a boolean or "everything". Only "everything" also checks for races that a proof has ruled
/// out.
fn parse_check_level(check: Option<&Bound<'_, PyAny>>) -> PyResult<CheckLevel> {
    let Some(check) = check.filter(|check| !check.is_none()) else { return Ok(CheckLevel::Off) };
    if let Ok(truth) = check.cast::<PyBool>() {
        return Ok(if truth.is_true() { CheckLevel::Unproved } else { CheckLevel::Off });
    }
    match check.cast::<PyString>().ok().and_then(|text| text.to_str().ok()) {
        Some("everything") => Ok(CheckLevel::Everything),
        _ => Err(PyTypeError::new_err("`check` must be True, False or \"everything\"")),
    }
}

/// A kernel or function of a program. The Python class `clk.Callable` derives from it.
#[pyclass(name = "Callable", module = "clk._clk", frozen, subclass, weakref)]
pub struct PyCallable {
    state: Arc<ProgramState>,
    /// The index in the callables of the program.
    index: usize,
    /// The default options of calls.
    options: CallOptions,
}

/// The keyword arguments of a call that are not parameters.
#[derive(Default)]
struct KeywordOptions<'py> {
    out: Option<Bound<'py, PyAny>>,
    call: CallOptions,
    grid: Option<[i64; 3]>,
    block: Option<[i64; 3]>,
}

/// A call whose Python arguments were assigned to parameters, but not converted to values of Clk yet.
pub struct CallRequest<'py> {
    /// The Python argument of each parameter.
    pub values: Vec<Option<Bound<'py, PyAny>>>,
    /// The call, whose `arguments` are still empty: dimensions, compile-time arguments and geometry.
    pub call: EmbedCall,
    pub options: CallOptions,
}

impl PyCallable {
    pub fn callable(&self) -> &Callable {
        &self.state.callables[self.index]
    }

    /// Assigns the arguments of a call to parameters and options.
    pub fn request<'py>(
        &self,
        py: Python<'py>,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<CallRequest<'py>> {
        let callable = self.callable();
        let mut values: Vec<Option<Bound<'py, PyAny>>> = vec![None; callable.params.len()];
        assign_positional(py, callable, args, &mut values)?;
        let mut call = EmbedCall::default();
        let mut options = KeywordOptions { call: self.options.clone(), ..KeywordOptions::default() };
        if let Some(kwargs) = kwargs {
            assign_keywords(callable, kwargs, &mut values, &mut call, &mut options)?;
        }
        if let Some(out) = options.out.take() {
            assign_out(py, callable, &out, &mut values)?;
        }
        call.geometry = match (options.grid, options.block) {
            (Some(grid), Some(block)) => Some((grid, block)),
            (None, None) => None,
            _ => {
                let title = "`grid` and `block` must be given together".to_string();
                return Err(errors::call_error(py, "E0802", title, &[], &[]));
            }
        };
        Ok(CallRequest { values, call, options: options.call })
    }

    /// Runs `work`, which gets the program, the index of the callable, and the lowest stack address that it may use.
    /// Writes the output of the work to `sys.stdout`. Signals stop the work.
    pub fn with_program<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut embed::EmbedProgram, usize, usize) -> Result<T, Vec<embed::EmbedReport>> + Send,
    ) -> PyResult<T> {
        let state = &self.state;
        let work = |caller: CallerSignals<'_>| match state.lock(&caller) {
            None => (Err(interrupted_error()), String::new()),
            Some(mut program) => {
                caller.begin();
                (work(&mut program, self.index, caller.stack_end), program.take_printed())
            }
        };
        let ((result, printed), signals) = interruptible::run(py, &state.stop, &AtomicBool::new(true), work);
        write_stdout(py, printed)?;
        signals?;
        result.map_err(|reports| errors::to_exception(py, &reports))
    }
}

#[pymethods]
impl PyCallable {
    #[new]
    #[pyo3(signature = (program, index, device=None, check=None, trap_nan=false, deterministic=false))]
    fn new(
        program: &Bound<'_, Program>,
        index: usize,
        device: Option<String>,
        check: Option<Bound<'_, PyAny>>,
        trap_nan: bool,
        deterministic: bool,
    ) -> PyResult<PyCallable> {
        let state = program.get().state.clone();
        if index >= state.callables.len() {
            return Err(pyo3::exceptions::PyIndexError::new_err("the program has no such callable"));
        }
        let device = normalize_device(program.py(), device)?;
        let options = CallOptions { device, check: parse_check_level(check.as_ref())?, trap_nan, deterministic };
        Ok(PyCallable { state, index, options })
    }

    #[getter]
    fn __name__(&self) -> &str {
        &self.callable().name
    }

    #[getter]
    fn __qualname__(&self) -> &str {
        &self.callable().name
    }

    /// The signature in Clk, and the documentation comment.
    #[getter]
    fn text(&self) -> String {
        let callable = self.callable();
        let doc = callable.doc.as_deref().map_or_else(String::new, |doc| format!("\n\n{}", doc.trim()));
        format!("{}{doc}", callable.head)
    }

    #[getter]
    fn __signature__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("clk._signature")?.call_method1("signature_of", (slf,))
    }

    #[getter]
    fn __text_signature__(slf: &Bound<'_, Self>) -> PyResult<String> {
        Ok(PyCallable::__signature__(slf)?.str()?.to_string())
    }

    /// Whether the callable is a kernel rather than a function.
    #[getter]
    fn is_kernel(&self) -> bool {
        self.callable().is_kernel
    }

    /// The names of the dimensions.
    #[getter]
    fn dimensions<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, &self.callable().dims)
    }

    /// The name and kind (`type`, `const` or `fn`) of each compile-time parameter.
    #[getter]
    fn generics(&self) -> Vec<(String, &'static str)> {
        self.callable().generics.clone()
    }

    /// For each parameter: name, access (`in`, `out` or `inout`), type in Clk, whether it is an array, and its default
    /// in Clk or `None`.
    #[getter]
    fn parameters(&self) -> Vec<(String, &'static str, String, bool, Option<String>)> {
        let describe = |param: &ParamDescription| {
            let access = match param.access {
                Access::In => "in",
                Access::Out => "out",
                Access::InOut => "inout",
            };
            let is_array = matches!(param.kind, ParamKind::Array { .. });
            (param.name.clone(), access, param.text.clone(), is_array, param.default.clone())
        };
        self.callable().params.iter().map(describe).collect()
    }

    /// The result type of a function in Clk; `None` for kernels and functions without a result.
    #[getter]
    fn result(&self) -> Option<String> {
        self.callable().result.clone()
    }

    fn __repr__(&self) -> String {
        let kind = if self.callable().is_kernel { "kernel" } else { "function" };
        format!("<{kind} {} of Clk>", self.callable().name)
    }

    #[pyo3(signature = (*args, **kwargs))]
    fn __call__<'py>(
        &self,
        py: Python<'py>,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let callable = self.callable();
        let CallRequest { values, mut call, mut options } = self.request(py, args, kwargs)?;
        let mut prepared = PreparedArguments::prepare(py, callable, &values, &options)?;
        if let (Some(number), None) = (prepared.gpu, &options.device) {
            options.device = Some(format!("gpu:{number}"));
        }
        call.stays = prepared.form.on_gpu;
        call.arguments = std::mem::take(&mut prepared.arguments);
        let (state, index, options) = (&self.state, self.index, &options);
        let work = |caller: CallerSignals<'_>| match state.lock(&caller) {
            None => (Err(interrupted_error()), String::new()),
            Some(mut program) => {
                caller.begin();
                (program.call(index, options, call, caller.stack_end), program.take_printed())
            }
        };
        let ((result, printed), signals) = interruptible::run(py, &state.stop, &state.is_long[index], work);
        prepared.increment_torch_versions(py, &values)?;
        write_stdout(py, printed)?;
        signals?;
        match result {
            Ok(result) => prepared.finish(py, callable, &values, result),
            Err(reports) => Err(errors::to_exception(py, &reports)),
        }
    }
}

/// Assigns positional arguments to the parameters that are not `out`, or to all parameters if there are more arguments.
fn assign_positional<'py>(
    py: Python<'py>,
    callable: &Callable,
    args: &Bound<'py, PyTuple>,
    values: &mut [Option<Bound<'py, PyAny>>],
) -> PyResult<()> {
    let count = args.len();
    let inputs = callable.params.iter().filter(|param| param.access != Access::Out).count();
    if count > callable.params.len() {
        let (name, max) = (&callable.name, callable.params.len());
        let title = format!("`{name}` takes at most {max} arguments, but {count} were given");
        return Err(errors::call_error(py, "E0802", title, &[], &[&format!("its signature is `{}`", callable.head)]));
    }
    let includes_out = count > inputs;
    let params = callable.params.iter().enumerate().filter(|(_, param)| includes_out || param.access != Access::Out);
    for ((i, _), argument) in params.zip(args.iter_borrowed()) {
        values[i] = Some(argument.to_owned());
    }
    Ok(())
}

/// The names of the keyword options of calls.
const OPTION_NAMES: &str = "out, device, check, trap_nan, deterministic, grid and block";

/// Assigns keyword arguments. Parameters, dimensions and compile-time parameters shadow options of the same name.
fn assign_keywords<'py>(
    callable: &Callable,
    kwargs: &Bound<'py, PyDict>,
    values: &mut [Option<Bound<'py, PyAny>>],
    call: &mut EmbedCall,
    options: &mut KeywordOptions<'py>,
) -> PyResult<()> {
    let py = kwargs.py();
    for (name, value) in kwargs.iter() {
        let name = name.cast::<PyString>()?.to_str()?;
        if let Some(i) = callable.params.iter().position(|param| param.name == name) {
            if values[i].is_some() {
                let title = format!("`{name}` of `{}` is given twice", callable.name);
                return Err(errors::call_error(py, "E0802", title, &[], &[]));
            }
            values[i] = (!value.is_none()).then_some(value);
        } else if callable.dims.iter().any(|dim| dim == name) {
            call.dims.push((name.into(), value.extract()?));
        } else if callable.generics.iter().any(|(generic, _)| *generic == name) {
            call.generics.push((name.into(), generic_argument(&value)?.into()));
        } else {
            match name {
                "out" => options.out = (!value.is_none()).then_some(value),
                "device" => options.call.device = normalize_device(py, value.extract()?)?,
                "check" => options.call.check = parse_check_level(Some(&value))?,
                "trap_nan" => options.call.trap_nan = value.extract()?,
                "deterministic" => options.call.deterministic = value.extract()?,
                "grid" => options.grid = Some(launch_extents(&value)?),
                "block" => options.block = Some(launch_extents(&value)?),
                _ => {
                    let title = format!("`{}` has no parameter `{name}`", callable.name);
                    let note = format!("its signature is `{}`; calls also accept {OPTION_NAMES}", callable.head);
                    return Err(errors::call_error(py, "E0803", title, &[], &[&note]));
                }
            }
        }
    }
    Ok(())
}

/// Returns a compile-time argument as source text of Clk: a number, or the name of a type or function.
fn generic_argument(value: &Bound<'_, PyAny>) -> PyResult<String> {
    let py = value.py();
    let text = if let Ok(boolean) = value.cast::<PyBool>() {
        boolean.is_true().to_string()
    } else if let Ok(callee) = value.cast::<PyCallable>() {
        callee.get().callable().name.clone()
    } else {
        value.str()?.to_string()
    };
    let is_allowed = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '-' | '+');
    if !text.is_empty() && text.len() <= 200 && text.chars().all(is_allowed) {
        return Ok(text);
    }
    let title = "a compile-time argument must be a number, or the name of a type or function".to_string();
    Err(errors::call_error(py, "E0802", title, &["use the names that types have in Clk: `T=\"f32\"`"], &[]))
}

/// Converts `grid` or `block`, an integer or a tuple of one to three integers, to extents in x, y and z.
fn launch_extents(value: &Bound<'_, PyAny>) -> PyResult<[i64; 3]> {
    let mut extents = [1; 3];
    if let Ok(x) = value.extract::<i64>() {
        extents[0] = x;
        return Ok(extents);
    }
    let items: Vec<i64> = convert::limited_items(value, 3).unwrap_or_default();
    if items.is_empty() {
        let message = "`grid` and `block` must be an integer or a tuple of one to three integers, x first";
        return Err(PyTypeError::new_err(message));
    }
    extents[..items.len()].copy_from_slice(&items);
    Ok(extents)
}

/// Assigns the option `out`: an array, or a tuple with an array for each `out` parameter.
fn assign_out<'py>(
    py: Python<'py>,
    callable: &Callable,
    out: &Bound<'py, PyAny>,
    values: &mut [Option<Bound<'py, PyAny>>],
) -> PyResult<()> {
    let params = &callable.params;
    let outputs: Vec<usize> = (0..params.len()).filter(|&i| params[i].access == Access::Out).collect();
    let arrays: Vec<Bound<'py, PyAny>> = match out.cast::<PyTuple>() {
        Ok(tuple) => tuple.iter().collect(),
        Err(_) => vec![out.clone()],
    };
    if arrays.len() != outputs.len() {
        let (name, count) = (&callable.name, outputs.len());
        let title = format!("`{name}` writes {count} arrays, but `out` has {}", arrays.len());
        return Err(errors::call_error(py, "E0802", title, &[], &[&format!("its signature is `{}`", callable.head)]));
    }
    for (i, array) in outputs.into_iter().zip(arrays) {
        if values[i].is_some() {
            let title = format!("`{}` is given both as an argument and in `out`", params[i].name);
            return Err(errors::call_error(py, "E0802", title, &[], &[]));
        }
        values[i] = (!array.is_none()).then_some(array);
    }
    Ok(())
}

/// The converted arguments of a call, and the data for returning its results.
struct PreparedArguments {
    arguments: Vec<Option<EmbedValue>>,
    /// For each parameter, the imported array.
    arrays: Vec<Option<ImportedArray>>,
    /// References to the inputs. While they exist, Clk copies the memory of an input before it writes to the input.
    inputs: Vec<Array>,
    /// For each parameter, whether the call writes to a copy, which is written back after the call.
    needs_write_back: Vec<bool>,
    /// The GPU whose memory has arrays of the call; `None` if all are in host memory.
    gpu: Option<u32>,
    /// The library and memory of the arrays that the call returns.
    form: ArrayForm,
}

impl PreparedArguments {
    /// Imports the arrays of a call, and converts the other arguments.
    fn prepare(
        py: Python<'_>,
        callable: &Callable,
        values: &[Option<Bound<'_, PyAny>>],
        options: &CallOptions,
    ) -> PyResult<PreparedArguments> {
        let count = callable.params.len();
        let mut prepared = PreparedArguments {
            arguments: Vec::with_capacity(count),
            arrays: Vec::with_capacity(count),
            inputs: Vec::new(),
            needs_write_back: vec![false; count],
            gpu: None,
            form: ArrayForm::NUMPY,
        };
        let streams = gpu::StreamCache::default();
        let destination = gpu::Destination::Call(options, &streams);
        let mut form = None;
        for (param, value) in callable.params.iter().zip(values) {
            let array = match (value, &param.kind) {
                (Some(value), ParamKind::Array { .. }) => {
                    Some(import_argument(py, callable, param, value, &destination)?)
                }
                _ => None,
            };
            form = form.or(array.as_ref().map(ImportedArray::form));
            prepared.arrays.push(array);
        }
        prepared.form = form.unwrap_or(ArrayForm::NUMPY);
        prepared.gpu = gpu::find_common_gpu(py, &prepared.arrays)?;
        prepared.reject_overlapping_outputs(py, callable)?;
        for (i, (param, value)) in callable.params.iter().zip(values).enumerate() {
            let argument = match value {
                None => None,
                Some(_) if prepared.arrays[i].is_some() => Some(prepared.prepare_array(i, param.access)?),
                Some(value) => {
                    if param.access != Access::In {
                        let (param, callee) = (&param.name, &callable.name);
                        let title = format!("`{param}` of `{callee}` is modified, so it must be an array");
                        return Err(errors::call_error(py, "E0802", title, &[], &[]));
                    }
                    Some(convert::argument(value, param, &callable.name)?)
                }
            };
            prepared.arguments.push(argument);
        }
        Ok(prepared)
    }

    /// Rejects written arrays whose memory overlaps.
    fn reject_overlapping_outputs(&self, py: Python<'_>, callable: &Callable) -> PyResult<()> {
        let is_written = |i: &usize| callable.params[*i].access != Access::In;
        let outputs: Vec<usize> = (0..self.arrays.len()).filter(is_written).collect();
        for (i, &a) in outputs.iter().enumerate() {
            for &b in &outputs[i + 1..] {
                if let (Some(first), Some(second)) = (&self.arrays[a], &self.arrays[b])
                    && first.overlaps(second)
                {
                    let (first, second) = (&callable.params[a].name, &callable.params[b].name);
                    let callee = &callable.name;
                    let title =
                        format!("`{first}` and `{second}` of `{callee}` are both written, but overlap in memory");
                    return Err(errors::call_error(py, "E0809", title, &["write to a copy: `x.copy()`"], &[]));
                }
            }
        }
        Ok(())
    }

    /// Converts an imported array to an argument. An input that overlaps an output is copied.
    fn prepare_array(&mut self, index: usize, access: Access) -> PyResult<EmbedValue> {
        let force_copy = access == Access::In && self.overlaps_output(index);
        let Some(imported) = &self.arrays[index] else { return Err(PyTypeError::new_err("not an array")) };
        if let Some(argument) = imported.to_gpu_argument(force_copy) {
            return Ok(argument);
        }
        if access != Access::In {
            let (array, needs_write_back) = imported.to_output()?;
            self.needs_write_back[index] = needs_write_back;
            return Ok(EmbedValue::Array(array));
        }
        let array = imported.to_input(force_copy)?;
        self.inputs.push(array.clone());
        Ok(EmbedValue::Array(array))
    }

    /// Returns whether the call writes to memory of the array with index `index`.
    fn overlaps_output(&self, index: usize) -> bool {
        let Some(array) = &self.arrays[index] else { return false };
        self.arrays.iter().flatten().any(|other| other.is_written && other.overlaps(array))
    }

    /// Increments the version counters of torch tensors that the call may have written, so that autograd rejects
    /// gradients that need their old values. A failed call may also have written elements.
    fn increment_torch_versions(&self, py: Python<'_>, values: &[Option<Bound<'_, PyAny>>]) -> PyResult<()> {
        for (array, value) in self.arrays.iter().zip(values) {
            if let (Some(ImportedArray { library: ArrayLibrary::Torch, is_written: true, .. }), Some(tensor)) = (array, value)
                // Tensors made in inference mode have no version counter.
                && !tensor.call_method0(intern!(py, "is_inference"))?.is_truthy()?
            {
                let graph = py.import(intern!(py, "torch.autograd.graph"))?;
                graph.call_method1(intern!(py, "increment_version"), (tensor,))?;
            }
        }
        Ok(())
    }

    /// Copies outputs that were computed in a copy back to the arguments. Returns the results of the call.
    fn finish<'py>(
        self,
        py: Python<'py>,
        callable: &Callable,
        values: &[Option<Bound<'py, PyAny>>],
        result: CallResult,
    ) -> PyResult<Bound<'py, PyAny>> {
        let CallResult { value, written, warnings, keep_alive } = result;
        for (i, array) in &written {
            let (Some(imported), param) = (&self.arrays[*i], &callable.params[*i]) else { continue };
            if !imported.has_same_shape(array) {
                let title = format!("the call has changed the shape of `{}` of `{}`", param.name, callable.name);
                let note =
                    format!("it is now `{}`, which does not fit in the memory of the argument", array.type_name());
                return Err(errors::call_error(py, "E0809", title, &["return the new array instead"], &[&note]));
            }
            imported.write_back(array)?;
        }
        let returned = self.results(py, callable, values, value)?;
        drop(keep_alive);
        errors::warn(py, &warnings)?;
        Ok(returned)
    }

    /// Returns the result of a function, or the arrays of the `out` parameters of a kernel, in order.
    fn results<'py>(
        &self,
        py: Python<'py>,
        callable: &Callable,
        values: &[Option<Bound<'py, PyAny>>],
        value: HostValue,
    ) -> PyResult<Bound<'py, PyAny>> {
        if !callable.is_kernel {
            return convert::result(py, value, self.form);
        }
        let mut new_arrays = match value {
            HostValue::Tuple(parts) => parts.into_iter(),
            HostValue::Unit => vec![].into_iter(),
            single => vec![single].into_iter(),
        };
        let mut results = Vec::new();
        for (param, passed_array) in callable.params.iter().zip(values).filter(|(param, _)| param.access == Access::Out)
        {
            results.push(match (passed_array, new_arrays.next_if_needed(passed_array.is_none())) {
                (Some(array), _) => array.clone(),
                (None, Some(array)) => convert::result(py, array, self.form)?,
                (None, None) => {
                    let title = format!("internal error: `{}` of `{}` was not written", param.name, callable.name);
                    return Err(errors::call_error(py, "E0999", title, &[], &[]));
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

/// Adds a method to iterators that advances them only under a condition.
trait NextIfNeeded: Iterator {
    fn next_if_needed(&mut self, needed: bool) -> Option<Self::Item> {
        if needed { self.next() } else { None }
    }
}

impl<I: Iterator> NextIfNeeded for I {}

/// Imports the argument of an array parameter. An array that the call writes must be writable and contiguous.
pub fn import_argument(
    py: Python<'_>,
    callable: &Callable,
    param: &ParamDescription,
    value: &Bound<'_, PyAny>,
    destination: &gpu::Destination<'_>,
) -> PyResult<ImportedArray> {
    let ParamKind::Array { element, .. } = &param.kind else { return Err(PyTypeError::new_err("not an array")) };
    let record = match element {
        Ok(element @ clk_host::array::ElementType::Record(_)) => Some((array::dtype_of(py, element)?, element)),
        _ => None,
    };
    let record = record.as_ref().map(|(dtype, element)| (dtype, *element));
    let is_written = param.access != Access::In;
    let imported = imported_array::import_array(value, record, destination);
    if !is_written {
        let normalized = imported.and_then(|array| gpu::normalize(value, array, destination, false));
        return normalized.map_err(|error| add_parameter_note(error, value, callable, param));
    }
    let mut array = imported.map_err(|error| add_parameter_note(error, value, callable, param))?;
    array.is_written = true;
    let (name, callee) = (&param.name, &callable.name);
    if array.readonly {
        let title = format!("`{name}` of `{callee}` is written, but this array is read-only");
        let help = "pass a writable array, such as a copy: `numpy.array(x)`";
        return Err(errors::call_error(py, "E0809", title, &[help], &[]));
    }
    if !array.is_row_major() {
        let title = format!("`{name}` of `{callee}` is written, but this array is not contiguous in row-major order");
        let help = "pass a contiguous array, and copy the result: `x[...] = result`";
        return Err(errors::call_error(py, "E0809", title, &[help], &[]));
    }
    let normalized = gpu::normalize(value, array, destination, true);
    let mut array = normalized.map_err(|error| add_parameter_note(error, value, callable, param))?;
    array.is_written = true;
    Ok(array)
}

/// Adds a note that names the parameter to an exception.
fn add_parameter_note(error: PyErr, value: &Bound<'_, PyAny>, callable: &Callable, param: &ParamDescription) -> PyErr {
    let py = value.py();
    // For an object that is not an array, replace the exception by one whose help names the parameter's type.
    let error = match (imported_array::is_readable(value), &param.kind) {
        (false, ParamKind::Array { element: Ok(clk_host::array::ElementType::Scalar(scalar)), .. }) => {
            imported_array::not_an_array_error(value, Some(embed::numpy_name(*scalar)), param.access == Access::Out)
        }
        (false, _) => imported_array::not_an_array_error(value, None, param.access == Access::Out),
        (true, _) => error,
    };
    let text = format!("`{}` of `{}` is `{}`", param.name, callable.name, param.text);
    let _ = error.value(py).call_method1("add_note", (text,));
    error
}
