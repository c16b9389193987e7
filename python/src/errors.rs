//! Reports of Clk as Python exceptions and warnings, which `clk._errors` defines: by the code, each is a subclass of `clk.Error` and of
//! the exception that Python has for such a case.

use clk_lang::app::embed::Report;
use clk_lang::host::problem::Problem;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

/// Returns what `clk._errors` makes its objects from.
fn facts<'py>(py: Python<'py>, report: &Report) -> PyResult<Bound<'py, PyDict>> {
    let facts = PyDict::new(py);
    facts.set_item("code", report.code)?;
    facts.set_item("severity", report.severity)?;
    facts.set_item("title", &report.title)?;
    facts.set_item("notes", &report.notes)?;
    facts.set_item("help", &report.help)?;
    facts.set_item("rendered", &report.plain)?;
    facts.set_item("colored", &report.colored)?;
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
    facts.set_item("spans", spans)?;
    Ok(facts)
}

fn list<'py>(py: Python<'py>, reports: &[Report]) -> PyResult<Bound<'py, PyList>> {
    let list = PyList::empty(py);
    for report in reports {
        list.append(facts(py, report)?)?;
    }
    Ok(list)
}

/// Returns an object of `clk._errors` for a report.
pub fn diagnostic<'py>(py: Python<'py>, report: &Report) -> PyResult<Bound<'py, PyAny>> {
    py.import(intern!(py, "clk._errors"))?.call_method1(intern!(py, "diagnostic"), (facts(py, report)?,))
}

/// Returns the exception for errors, the first of which decides its type.
pub fn raise(py: Python<'_>, reports: &[Report]) -> PyErr {
    let made = || py.import(intern!(py, "clk._errors"))?.call_method1(intern!(py, "error"), (list(py, reports)?,));
    made().map_or_else(|error| error, PyErr::from_value)
}

/// Issues warnings. With `python -W error` the first one is raised.
pub fn warn(py: Python<'_>, reports: &[Report]) -> PyResult<()> {
    if !reports.is_empty() {
        py.import(intern!(py, "clk._errors"))?.call_method1(intern!(py, "warn"), (list(py, reports)?,))?;
    }
    Ok(())
}

/// Returns the exception for a call that is refused.
pub fn refused(py: Python<'_>, code: &'static str, title: String, help: &[&str], notes: &[&str]) -> PyErr {
    let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_string()).collect();
    raise(py, &[Report::of_call(code, title, owned(notes), owned(help))])
}

/// Returns the exception for an operation on values that has failed.
pub fn of_problem(problem: Problem) -> PyErr {
    Python::attach(|py| raise(py, &[Report::of_call(problem.code, problem.title, problem.notes, problem.help)]))
}
