//! `clk stubs FILE`: the kernels and functions of a program as a stub file, for type checkers of Python.

use std::path::Path;

use clap::Command;

use super::common_args;
use crate::context::AppContext;
use crate::embed;
use crate::{exit, script};

pub(crate) fn command() -> Command {
    Command::new("stubs")
        .about("Print a program's kernels and functions as a stub file (.pyi), for type checkers of Python")
        .arg(common_args::file("The program"))
}

/// Writes the stubs of a program to standard output.
pub(crate) fn file(path: &Path, context: &mut AppContext) -> u8 {
    let Some(compiled) = script::compile_file(path, &mut context.console) else { return exit::FAILURE };
    let mut interpreter = context.limits.interpreter(&context.interrupt, vec![]);
    let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
    let callables = embed::describe::callables(&compiled.session, &mut interpreter);
    context.console.print(&embed::stubs(&name, &callables));
    exit::OK
}
