//! The extension module `clk._clk`: Clk's programs, sessions and command line for Python.
//!
//! - [`program`]: programs and their callables; [`inspect`]: proofs, generated code, profiles and origins of elements.
//! - [`imported_array`], [`dlpack_exchange`], [`gpu`], [`dlpack`]: arrays of other libraries; [`mod@array`]:
//!   `clk.Array`; [`convert`]: other values.
//! - [`errors`]: exceptions; [`interruptible`], [`signals`], [`stack`]: how calls run; [`notebook`]: sessions.

#![allow(rustdoc::private_intra_doc_links)]

mod array;
mod convert;
mod dlpack;
mod dlpack_exchange;
mod errors;
mod gpu;
mod imported_array;
mod inspect;
mod interruptible;
mod notebook;
mod program;
mod signals;
mod stack;

use std::ffi::OsString;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use clk_lang::embed;
use pyo3::prelude::*;

/// The allocator. It records failed allocations, so that an abort after one can be reported as out of memory.
#[global_allocator]
static MEMORY: clk_lang::RecordingAllocator = clk_lang::RecordingAllocator;

#[pymodule]
fn _clk(module: &Bound<'_, PyModule>) -> PyResult<()> {
    embed::prepare();
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<array::ClkArray>()?;
    module.add_class::<program::PyCallable>()?;
    module.add_class::<program::Program>()?;
    module.add_class::<notebook::Notebook>()?;
    module.add_function(wrap_pyfunction!(devices, module)?)?;
    module.add_function(wrap_pyfunction!(interruptible::before_fork, module)?)?;
    module.add_function(wrap_pyfunction!(interruptible::after_fork_in_parent, module)?)?;
    module.add_function(wrap_pyfunction!(interruptible::after_fork_in_child, module)?)?;
    module.add_function(wrap_pyfunction!(inspect::prove, module)?)?;
    module.add_function(wrap_pyfunction!(inspect::cuda, module)?)?;
    module.add_function(wrap_pyfunction!(inspect::profile, module)?)?;
    module.add_function(wrap_pyfunction!(inspect::why, module)?)?;
    module.add_function(wrap_pyfunction!(leave, module)?)?;
    module.add_function(wrap_pyfunction!(command_line, module)?)
}

/// Returns the names of the devices, each with a description or the reason why it cannot be used.
#[pyfunction]
fn devices() -> Vec<(String, String)> {
    embed::devices()
}

/// Notifies the other ranks, if there are any, that this rank ends.
#[pyfunction]
fn leave(py: Python<'_>) -> PyResult<()> {
    let stop = Arc::new(AtomicBool::new(false));
    let guard = signals::InterruptGuard::new(stop.clone());
    py.detach(|| {
        guard.arm();
        embed::leave(&stop);
    });
    guard.finish(py)
}

/// Runs the command line of `clk` and returns its exit code. `relaunch` is the command that starts this program again.
#[pyfunction]
fn command_line(py: Python<'_>, arguments: Vec<OsString>, relaunch: Vec<OsString>) -> u8 {
    py.detach(|| embed::command_line(arguments, relaunch))
}
