//! Proves, compiles, profiles and traces kernels and functions; `clk._callable` wraps these functions in methods.
//!
//! `profile` and `why` run a call on the simulator with copies of its arrays, so that the caller's arrays do not change.

use clk_lang::app::embed::{Argument, Call, Kind, OriginQuery};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::convert;
use crate::errors;
use crate::gpu::Wanted;
use crate::program::{Callee, Request, array_argument};

/// A text, verdicts by property, counterexamples, and whether all launches were examined.
type ProofFacts<'py> = (String, Vec<(String, &'static str)>, Vec<Bound<'py, PyAny>>, bool);

/// Proves the properties of a kernel for all sizes, or finds counterexamples.
#[pyfunction]
pub fn prove<'py>(py: Python<'py>, callee: &Bound<'py, Callee>) -> PyResult<ProofFacts<'py>> {
    let proof = callee.get().ask(py, |program, at, _| program.prove(at))?;
    Ok((proof.text, proof.verdicts, diagnostics(py, &proof.counterexamples)?, proof.is_complete))
}

/// Returns the CUDA C++ of a kernel.
#[pyfunction]
pub fn cuda(py: Python<'_>, callee: &Bound<'_, Callee>) -> PyResult<String> {
    callee.get().ask(py, |program, at, _| program.cuda(at))
}

/// Runs a call and returns its cost on a GPU: as text, as counts in JSON, and as advice.
#[pyfunction]
pub fn profile<'py>(
    py: Python<'py>,
    callee: &Bound<'py, Callee>,
    args: &Bound<'py, PyTuple>,
    kwargs: &Bound<'py, PyDict>,
    gpu: Option<String>,
) -> PyResult<(String, Vec<String>, Vec<Bound<'py, PyAny>>)> {
    let call = copied(py, callee.get(), args, kwargs, "profile")?;
    let found = callee.get().ask(py, |program, at, end| program.profile(at, call, gpu.as_deref(), end))?;
    Ok((found.text, found.counts, diagnostics(py, &found.advice)?))
}

/// Runs a call and returns the origin of an element of an array that it writes or returns.
#[pyfunction]
pub fn why<'py>(
    py: Python<'py>,
    callee: &Bound<'py, Callee>,
    element: String,
    args: &Bound<'py, PyTuple>,
    kwargs: &Bound<'py, PyDict>,
    levels: Option<usize>,
    more: Option<String>,
    first_nan: bool,
) -> PyResult<String> {
    let call = copied(py, callee.get(), args, kwargs, "why")?;
    let query = OriginQuery { element, levels, more, first_nan };
    callee.get().ask(py, |program, at, end| program.why(at, call, &query, end))
}

/// Reads a call with copies of its arrays.
fn copied<'py>(
    py: Python<'py>,
    callee: &Callee,
    args: &Bound<'py, PyTuple>,
    kwargs: &Bound<'py, PyDict>,
    method: &str,
) -> PyResult<Call> {
    let of = callee.of();
    let Request { given, call, how } = callee.request(py, args, Some(kwargs))?;
    if let Some(device) = how.device.filter(|device| device != "sim") {
        let title = format!("`{method}` runs on the simulator, not on `{device}`");
        return Err(errors::refused(py, "E0803", title, &["leave out `device`, or pass `device=\"sim\"`"], &[]));
    }
    let arguments = of.params.iter().zip(&given).map(|(param, value)| {
        let Some(value) = value else { return Ok(None) };
        let argument = match &param.kind {
            Kind::Array { .. } => Argument::Array(array_argument(py, of, param, value, &Wanted::Host)?.reading(true)?),
            _ => convert::argument(value, param, &of.name)?,
        };
        Ok::<_, PyErr>(Some(argument))
    });
    Ok(Call { arguments: arguments.collect::<PyResult<_>>()?, ..call })
}

fn diagnostics<'py>(py: Python<'py>, reports: &[clk_lang::app::embed::Report]) -> PyResult<Vec<Bound<'py, PyAny>>> {
    reports.iter().map(|report| errors::diagnostic(py, report)).collect()
}
