//! The extension module `clk._clk`: Clk's programs, sessions and command line for Python.
//!
//! [`program`] has programs and their callables, [`foreign`], [`exchange`], [`gpu`] and [`dlpack`] the arrays of other libraries, [`mod@array`] results,
//! [`convert`] all other values, [`errors`] exceptions, [`signals`] Ctrl-C, [`notebook`] sessions.

#![allow(rustdoc::private_intra_doc_links)]

mod array;
mod attend;
mod convert;
mod dlpack;
mod errors;
mod exchange;
mod foreign;
mod gpu;
mod inspect;
mod notebook;
mod program;
mod signals;
mod stack;

use std::ffi::OsString;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use clk_lang::app::embed;
use pyo3::prelude::*;

/// Records failed allocations, so that an abort for lack of memory can be reported as such.
#[global_allocator]
static MEMORY: clk_lang::app::Memory = clk_lang::app::Memory;

#[pymodule]
fn _clk(module: &Bound<'_, PyModule>) -> PyResult<()> {
    embed::prepare();
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<array::ClkArray>()?;
    module.add_class::<program::Callee>()?;
    module.add_class::<program::Program>()?;
    module.add_class::<notebook::Notebook>()?;
    module.add_function(wrap_pyfunction!(devices, module)?)?;
    module.add_function(wrap_pyfunction!(attend::before_fork, module)?)?;
    module.add_function(wrap_pyfunction!(attend::after_fork_in_parent, module)?)?;
    module.add_function(wrap_pyfunction!(attend::after_fork_in_child, module)?)?;
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

/// Says to the other ranks, if there are any, that this one is over.
#[pyfunction]
fn leave(py: Python<'_>) -> PyResult<()> {
    let stop = Arc::new(AtomicBool::new(false));
    let watch = signals::Watch::begin(stop.clone());
    py.detach(|| {
        watch.aim();
        embed::leave(&stop);
    });
    watch.settled(py)
}

/// Runs the command line of `clk`; returns its exit code. `relaunch` starts this program again.
#[pyfunction]
fn command_line(py: Python<'_>, arguments: Vec<OsString>, relaunch: Vec<OsString>) -> u8 {
    py.detach(|| embed::command_line(arguments, relaunch))
}
