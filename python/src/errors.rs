//! Converts diagnostics of Clk to Python exceptions and warnings.
//!
//! The module `clk._errors` defines the classes and selects one by the diagnostic's code. Each is a subclass of
//! `clk.Error` and of the corresponding built-in exception.

use clk_host::problem::RuntimeError;
use clk_lang::embed::EmbedReport;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

/// Converts a report (a diagnostic with its rendered text) to the dictionary that `clk._errors` expects.
fn to_dict<'py>(py: Python<'py>, report: &EmbedReport) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("code", report.code)?;
    dict.set_item("severity", report.severity)?;
    dict.set_item("title", &report.title)?;
    dict.set_item("notes", &report.notes)?;
    dict.set_item("help", &report.help)?;
    dict.set_item("rendered", &report.plain)?;
    dict.set_item("colored", &report.colored)?;
    let spans = PyList::empty(py);
    for place in &report.places {
        let span = (
            &place.file,
            place.line,
            place.column,
            place.end_line,
            place.end_column,
            place.start,
            place.end,
            &place.text,
        );
        spans.append(span)?;
    }
    dict.set_item("spans", spans)?;
    Ok(dict)
}

fn to_dicts<'py>(py: Python<'py>, reports: &[EmbedReport]) -> PyResult<Bound<'py, PyList>> {
    let list = PyList::empty(py);
    for report in reports {
        list.append(to_dict(py, report)?)?;
    }
    Ok(list)
}

/// Converts a report to a `clk.Diagnostic`.
pub fn to_diagnostic<'py>(py: Python<'py>, report: &EmbedReport) -> PyResult<Bound<'py, PyAny>> {
    py.import(intern!(py, "clk._errors"))?.call_method1(intern!(py, "diagnostic"), (to_dict(py, report)?,))
}

/// Returns the exception for errors. The first error determines its class.
pub fn to_exception(py: Python<'_>, reports: &[EmbedReport]) -> PyErr {
    let make = || py.import(intern!(py, "clk._errors"))?.call_method1(intern!(py, "error"), (to_dicts(py, reports)?,));
    make().map_or_else(|error| error, PyErr::from_value)
}

/// Issues warnings through Python's `warnings` module. Returns an exception if Python turns one into an error
/// (`python -W error`).
pub fn warn(py: Python<'_>, reports: &[EmbedReport]) -> PyResult<()> {
    if !reports.is_empty() {
        py.import(intern!(py, "clk._errors"))?.call_method1(intern!(py, "warn"), (to_dicts(py, reports)?,))?;
    }
    Ok(())
}

/// Returns the exception for a call that is rejected before it runs.
pub fn call_error(py: Python<'_>, code: &'static str, title: String, help: &[&str], notes: &[&str]) -> PyErr {
    let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_string()).collect();
    to_exception(py, &[EmbedReport::of_call(code, title, owned(notes), owned(help))])
}

/// Returns the exception for a failed operation on values.
pub fn from_runtime_error(error: RuntimeError) -> PyErr {
    Python::attach(|py| to_exception(py, &[EmbedReport::of_call(error.code, error.title, error.notes, error.help)]))
}
