//! Sessions for notebooks. Cells run on a separate thread; Python code receives their events as tuples.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use clk_host::value::HostValue;
use clk_lang::embed::{self, Event};
use pyo3::exceptions::{PyNameError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};

use crate::convert;
use crate::errors;
use crate::gpu::Destination;
use crate::imported_array::{self, ArrayForm};

/// The time between two checks for Ctrl-C and progress while a cell runs.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// A session of Clk. Cells run sequentially.
#[pyclass(module = "clk._clk", frozen)]
pub struct Notebook {
    inner: embed::Notebook,
    /// The events of the running cell.
    events: Mutex<Option<Receiver<Event>>>,
    /// Whether the running cell should stop.
    is_interrupted: AtomicBool,
}

#[pymethods]
impl Notebook {
    #[new]
    #[pyo3(signature = (check=true))]
    fn new(check: bool) -> PyResult<Notebook> {
        let inner = embed::Notebook::start(check).map_err(|error| PyRuntimeError::new_err(error.to_string()))?;
        Ok(Notebook { inner, events: Mutex::new(None), is_interrupted: AtomicBool::new(false) })
    }

    /// Starts a cell. `next` returns its events.
    fn start(&self, cell: &str) {
        self.is_interrupted.store(false, Ordering::SeqCst);
        *self.events.lock().unwrap_or_else(PoisonError::into_inner) = Some(self.inner.run(cell));
    }

    /// Returns the next event of the cell. The first item is its kind:
    ///
    /// - ("print", text), ("error", text), ("report", diagnostic), ("picture", MIME type, bytes, text)
    /// - ("value", value, text, HTML or None)
    /// - ("progress", number of started thread groups, number of all thread groups), after [`POLL_INTERVAL`] without
    ///   events
    /// - ("done", success, exit code or None), the last event
    fn next<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let received = py.detach(|| {
            let events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
            events.as_ref().map_or(Err(RecvTimeoutError::Disconnected), |events| events.recv_timeout(POLL_INTERVAL))
        });
        match received {
            Ok(event) => event_tuple(py, event),
            Err(RecvTimeoutError::Timeout) => {
                py.check_signals()?;
                // Interrupt again: if an interrupt arrives before the session has started the cell, the session
                // discards it.
                if self.is_interrupted.load(Ordering::SeqCst) {
                    self.inner.interrupt();
                }
                let (started, total) = self.inner.progress();
                ("progress", started, total).into_pyobject(py)
            }
            Err(RecvTimeoutError::Disconnected) => Err(PyRuntimeError::new_err("the session has ended")),
        }
    }

    /// Stops the running cell.
    fn interrupt(&self) {
        self.is_interrupted.store(true, Ordering::SeqCst);
        self.inner.interrupt();
    }

    /// Returns completions at a position: their texts, and the start of the text to replace. Positions count
    /// characters.
    fn complete(&self, py: Python<'_>, cell: &str, position: usize) -> (Vec<String>, usize) {
        let offset = byte_offset(cell, position);
        let candidates = py.detach(|| self.inner.complete(cell, offset));
        let start = candidates.first().map_or(offset, |first| first.start);
        let texts = candidates.into_iter().map(|candidate| candidate.text).collect();
        (texts, cell.get(..start).unwrap_or("").chars().count())
    }

    /// Returns the documentation of the name at a position, as Markdown. Positions count characters.
    fn inspect(&self, py: Python<'_>, cell: &str, position: usize) -> Option<String> {
        py.detach(|| self.inner.inspect(cell, byte_offset(cell, position)))
    }

    /// Returns whether a cell is incomplete, so that the user should continue it on the next line.
    #[staticmethod]
    fn is_unfinished(cell: &str) -> bool {
        embed::Notebook::is_unfinished(cell)
    }

    /// Returns whether a cell has a syntax error.
    #[staticmethod]
    fn is_invalid(cell: &str) -> bool {
        embed::Notebook::is_invalid(cell)
    }

    /// Defines a variable: a copy of an array, a number or a string.
    fn set(&self, py: Python<'_>, name: &str, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let value = match convert::scalar_or_string(value)? {
            Some(value) => value,
            None => HostValue::Array(imported_array::import_array(value, None, &Destination::Host)?.to_input(true)?),
        };
        py.detach(|| self.inner.set(name, value)).map_err(|error| PyValueError::new_err(error.to_string()))
    }

    /// Returns the definitions of the session as the text of a program, and the folder for its imports. Returns `None`
    /// if the session has no kernel or function of this name.
    fn program_with(&self, py: Python<'_>, name: &str) -> Option<(String, PathBuf)> {
        py.detach(|| self.inner.program_with(name))
    }

    /// Returns the value of a variable, converted to Python.
    fn get<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
        let value = py.detach(|| self.inner.get(name));
        let value = value.ok_or_else(|| PyNameError::new_err(format!("the session has no variable `{name}`")))?;
        convert::result(py, value, ArrayForm::NUMPY)
    }
}

/// Converts a position in characters to an offset in bytes.
fn byte_offset(text: &str, position: usize) -> usize {
    text.char_indices().nth(position).map_or(text.len(), |(at, _)| at)
}

fn event_tuple(py: Python<'_>, event: Event) -> PyResult<Bound<'_, PyTuple>> {
    match event {
        Event::Print(text) => ("print", text).into_pyobject(py),
        Event::Error(text) => ("error", text).into_pyobject(py),
        Event::Report(report) => ("report", errors::to_diagnostic(py, &report)?).into_pyobject(py),
        Event::Picture(kind, content, text) => ("picture", kind, PyBytes::new(py, &content), text).into_pyobject(py),
        Event::Value(value, text, html) => {
            // A value that cannot be converted becomes None; its text is still shown.
            let value = convert::result(py, *value, ArrayForm::NUMPY).unwrap_or_else(|_| py.None().into_bound(py));
            ("value", value, text, html).into_pyobject(py)
        }
        Event::Done(success, code) => ("done", success, code).into_pyobject(py),
    }
}
