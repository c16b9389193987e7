//! Command-line arguments shared by several commands.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Arg, ArgAction, value_parser};

/// An argument that is one file.
pub(super) fn file(help: &'static str) -> Arg {
    Arg::new("file").value_name("FILE").required(true).value_parser(value_parser!(PathBuf)).help(help)
}

/// A script and its arguments. They are one list for clap, so that it does not parse words after the file name as
/// options of `clk`.
pub(super) fn script(help: &'static str) -> Arg {
    Arg::new("script")
        .value_name("FILE [ARGS]")
        .required(true)
        .num_args(1..)
        .trailing_var_arg(true)
        .value_parser(value_parser!(OsString))
        .help(help)
}

/// An option without a value.
pub(super) fn switch(id: &'static str, help: &'static str) -> Arg {
    Arg::new(id).long(id).action(ArgAction::SetTrue).help(help)
}
