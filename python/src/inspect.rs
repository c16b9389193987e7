//! Proves, compiles, profiles and traces kernels and functions; `clk._callable` wraps these functions in methods.
//!
//! `profile` and `why` run a call on the simulator with copies of its arrays, so that the caller's arrays do not
//! change.

use clk_lang::embed::{EmbedCall, EmbedProgram, EmbedReport, EmbedValue, OriginQuery, ParamKind};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::convert;
use crate::errors;
use crate::gpu::Destination;
use crate::program::{CallRequest, PyCallable, import_argument};

/// Result of a proof: the text, the verdict on each property, counterexamples, and whether the proof covers all
/// launches in the program.
type ProofFacts<'py> = (String, Vec<(String, &'static str)>, Vec<Bound<'py, PyAny>>, bool);

/// Proves the properties of a kernel for all sizes, or finds counterexamples.
#[pyfunction]
pub fn prove<'py>(py: Python<'py>, callee: &Bound<'py, PyCallable>) -> PyResult<ProofFacts<'py>> {
    let proof = callee.get().with_program(py, |program, index, _| program.prove(index))?;
    Ok((proof.text, proof.verdicts, diagnostics(py, &proof.counterexamples)?, proof.is_complete))
}

/// Returns the CUDA C++ of a kernel.
#[pyfunction]
pub fn cuda(py: Python<'_>, callee: &Bound<'_, PyCallable>) -> PyResult<String> {
    callee.get().with_program(py, |program, index, _| program.cuda(index))
}

/// Runs a call and returns its estimated cost on a GPU: a text, the counts as JSON, and advice.
#[pyfunction]
pub fn profile<'py>(
    py: Python<'py>,
    callee: &Bound<'py, PyCallable>,
    args: &Bound<'py, PyTuple>,
    kwargs: &Bound<'py, PyDict>,
    gpu: Option<String>,
) -> PyResult<(String, Vec<String>, Vec<Bound<'py, PyAny>>)> {
    let call = call_with_copies(py, callee.get(), args, kwargs, "profile")?;
    let work = |program: &mut EmbedProgram, index, end| program.profile(index, call, gpu.as_deref(), end);
    let profile = callee.get().with_program(py, work)?;
    Ok((profile.text, profile.counts, diagnostics(py, &profile.advice)?))
}

/// Runs a call, and explains how an element of an array that the call writes or returns was computed.
#[pyfunction]
pub fn why<'py>(
    py: Python<'py>,
    callee: &Bound<'py, PyCallable>,
    element: String,
    args: &Bound<'py, PyTuple>,
    kwargs: &Bound<'py, PyDict>,
    levels: Option<usize>,
    more: Option<String>,
    first_nan: bool,
) -> PyResult<String> {
    let call = call_with_copies(py, callee.get(), args, kwargs, "why")?;
    let query = OriginQuery { element, levels, more, first_nan };
    callee.get().with_program(py, |program, index, end| program.why(index, call, &query, end))
}

/// Converts a call, with copies of its arrays.
fn call_with_copies<'py>(
    py: Python<'py>,
    callee: &PyCallable,
    args: &Bound<'py, PyTuple>,
    kwargs: &Bound<'py, PyDict>,
    method: &str,
) -> PyResult<EmbedCall> {
    let callable = callee.callable();
    let CallRequest { values, call, options } = callee.request(py, args, Some(kwargs))?;
    if let Some(device) = options.device.filter(|device| device != "sim") {
        let title = format!("`{method}` runs on the simulator, not on `{device}`");
        return Err(errors::call_error(py, "E0803", title, &["leave out `device`, or pass `device=\"sim\"`"], &[]));
    }
    let arguments = callable.params.iter().zip(&values).map(|(param, value)| {
        let Some(value) = value else { return Ok(None) };
        let argument = match &param.kind {
            ParamKind::Array { .. } => {
                let array = import_argument(py, callable, param, value, &Destination::Host)?;
                EmbedValue::Array(array.to_input(true)?)
            }
            _ => convert::argument(value, param, &callable.name)?,
        };
        Ok::<_, PyErr>(Some(argument))
    });
    Ok(EmbedCall { arguments: arguments.collect::<PyResult<_>>()?, ..call })
}

fn diagnostics<'py>(py: Python<'py>, reports: &[EmbedReport]) -> PyResult<Vec<Bound<'py, PyAny>>> {
    reports.iter().map(|report| errors::to_diagnostic(py, report)).collect()
}
