//! Sessions for notebooks: cells run on a thread of Clk, and their events come as tuples.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use clk_lang::app::embed::{self, Event};
use clk_lang::host::value::Value;
use pyo3::exceptions::{PyNameError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};

use crate::convert;
use crate::errors;
use crate::foreign::{self, Form};
use crate::gpu::Wanted;

/// How long a cell runs between two looks for Ctrl-C and progress.
const TICK: Duration = Duration::from_millis(50);

/// A session of Clk. Cells run one after the other.
#[pyclass(module = "clk._clk", frozen)]
pub struct Notebook {
    inner: embed::Notebook,
    /// The events of the cell that runs.
    events: Mutex<Option<Receiver<Event>>>,
    /// Whether the cell is to stop.
    interrupted: AtomicBool,
}

#[pymethods]
impl Notebook {
    #[new]
    #[pyo3(signature = (check=true))]
    fn new(check: bool) -> PyResult<Notebook> {
        let inner = embed::Notebook::start(check).map_err(PyRuntimeError::new_err)?;
        Ok(Notebook { inner, events: Mutex::new(None), interrupted: AtomicBool::new(false) })
    }

    /// Starts a cell. `next` returns its events.
    fn start(&self, cell: &str) {
        self.interrupted.store(false, Ordering::SeqCst);
        *self.events.lock().unwrap_or_else(PoisonError::into_inner) = Some(self.inner.run(cell));
    }

    /// Returns the next event of the cell, with its kind first: ("print", text), ("error", text), ("report", diagnostic),
    /// ("picture", MIME type, bytes, text), ("value", value, text, HTML or None), and at last ("done", success, exit code or None).
    /// ("progress", started, all) comes whenever there is none for a while.
    fn next<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let received = py.detach(|| {
            let events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
            events.as_ref().map_or(Err(RecvTimeoutError::Disconnected), |events| events.recv_timeout(TICK))
        });
        match received {
            Ok(event) => event_tuple(py, event),
            Err(RecvTimeoutError::Timeout) => {
                py.check_signals()?;
                // Once more: the session forgets what came before it began with the cell.
                if self.interrupted.load(Ordering::SeqCst) {
                    self.inner.interrupt();
                }
                let (begun, of) = self.inner.progress();
                ("progress", begun, of).into_pyobject(py)
            }
            Err(RecvTimeoutError::Disconnected) => Err(PyRuntimeError::new_err("the session has ended")),
        }
    }

    /// Stops the cell that runs.
    fn interrupt(&self) {
        self.interrupted.store(true, Ordering::SeqCst);
        self.inner.interrupt();
    }

    /// Returns completions at a position in characters: texts, and where the replaced text begins.
    fn complete(&self, py: Python<'_>, cell: &str, position: usize) -> (Vec<String>, usize) {
        let at = bytes_at(cell, position);
        let found = py.detach(|| self.inner.complete(cell, at));
        let start = found.first().map_or(at, |first| first.start);
        let texts = found.into_iter().map(|candidate| candidate.text).collect();
        (texts, cell.get(..start).unwrap_or("").chars().count())
    }

    /// Returns what is known of the name at a position in characters, as Markdown.
    fn inspect(&self, py: Python<'_>, cell: &str, position: usize) -> Option<String> {
        py.detach(|| self.inner.inspect(cell, bytes_at(cell, position)))
    }

    /// Whether a cell needs more lines.
    #[staticmethod]
    fn is_unfinished(cell: &str) -> bool {
        embed::Notebook::is_unfinished(cell)
    }

    /// Whether a cell has an error of syntax.
    #[staticmethod]
    fn is_invalid(cell: &str) -> bool {
        embed::Notebook::is_invalid(cell)
    }

    /// Defines a variable with a copy of an array, a number or a string.
    fn set(&self, py: Python<'_>, name: &str, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let value = match convert::plain(value)? {
            Some(plain) => plain,
            None => Value::Array(foreign::read(value, None, &Wanted::Host)?.reading(true)?),
        };
        py.detach(|| self.inner.set(name, value)).map_err(PyValueError::new_err)
    }

    /// Returns the definitions of the session as a program, and the folder of its imports, if this is the name of a kernel or function.
    fn program_with(&self, py: Python<'_>, name: &str) -> Option<(String, PathBuf)> {
        py.detach(|| self.inner.program_with(name))
    }

    /// Returns the value of a variable.
    fn get<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
        let value = py.detach(|| self.inner.get(name));
        let value = value.ok_or_else(|| PyNameError::new_err(format!("the session has no variable `{name}`")))?;
        convert::result(py, value, Form::NUMPY)
    }
}

/// Returns the byte offset of a position in characters.
fn bytes_at(text: &str, position: usize) -> usize {
    text.char_indices().nth(position).map_or(text.len(), |(at, _)| at)
}

fn event_tuple(py: Python<'_>, event: Event) -> PyResult<Bound<'_, PyTuple>> {
    match event {
        Event::Print(text) => ("print", text).into_pyobject(py),
        Event::Error(text) => ("error", text).into_pyobject(py),
        Event::Report(report) => ("report", errors::diagnostic(py, &report)?).into_pyobject(py),
        Event::Picture(kind, content, text) => ("picture", kind, PyBytes::new(py, &content), text).into_pyobject(py),
        Event::Value(value, text, html) => {
            // What Python has no value for is shown all the same.
            let value = convert::result(py, *value, Form::NUMPY).unwrap_or_else(|_| py.None().into_bound(py));
            ("value", value, text, html).into_pyobject(py)
        }
        Event::Done(success, code) => ("done", success, code).into_pyobject(py),
    }
}
