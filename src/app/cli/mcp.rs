//! Command-line arguments of `clk mcp`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Arg, ArgMatches, Command, value_parser};

use super::common_args::switch;
use super::launch::bytes;
use crate::mcp::{CallLimits, McpOptions};

/// Default values of the options.
const SECONDS: u64 = 30;
const MEMORY: u64 = 2 << 30;
/// Smallest memory limit in bytes. Below it, most programs do not even compile.
const LEAST_MEMORY: u64 = 64 << 20;
const LAUNCHES: u64 = 100_000;
const OUTPUT: u64 = 100 << 10;

/// Returns the definition of the command line of `clk mcp`.
pub(crate) fn command() -> Command {
    let option =
        |id: &'static str, value: &'static str, help: &'static str| Arg::new(id).long(id).value_name(value).help(help);
    let seconds = |text: &str| {
        let seconds = text.parse::<f64>().ok().filter(|seconds| *seconds > 0.0 && *seconds <= 1e6);
        seconds.map(Duration::from_secs_f64).ok_or_else(|| format!("`{text}` is not a number of seconds"))
    };
    let memory = |text: &str| match bytes(text) {
        Ok(number) if number < LEAST_MEMORY => Err(format!("a call needs at least {}M", LEAST_MEMORY >> 20).into()),
        other => other,
    };
    Command::new("mcp")
        .about("Serve an agent: tools of the Model Context Protocol, on standard input and output")
        .arg(
            option(
                "root",
                "FOLDER",
                "The folder whose files tools may read [default: no files, only text that the agent sends]",
            )
            .value_parser(value_parser!(PathBuf)),
        )
        .arg(switch("write", "Let scripts write files in that folder").requires("root"))
        .arg(option("time", "SECONDS", "Time limit of a call [default: 30]").value_parser(seconds))
        .arg(
            option("memory", "BYTES", "Memory limit of a call, at least 64M; K, M, G [default: 2G]")
                .value_parser(memory),
        )
        .arg(
            option("launches", "N", "Kernel launches of a call, at most [default: 100000]")
                .value_parser(value_parser!(u64)),
        )
        .arg(option("output", "BYTES", "Size of a result, at most; K, M, G [default: 100K]").value_parser(bytes))
        .arg(
            option("parallel", "N", "Calls that run at the same time; others wait [default: one per core]")
                .value_parser(value_parser!(u64).range(1..=64)),
        )
}

pub(crate) fn options_of(sub: &ArgMatches) -> McpOptions {
    let number = |id: &str, default: u64| sub.get_one::<u64>(id).copied().unwrap_or(default);
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
    let limits = CallLimits {
        time: sub.get_one("time").copied().unwrap_or(Duration::from_secs(SECONDS)),
        memory: number("memory", MEMORY),
        launches: number("launches", LAUNCHES),
        output: usize::try_from(number("output", OUTPUT)).unwrap_or(usize::MAX),
        parallel: sub.get_one::<u64>("parallel").map_or(cores, |parallel| *parallel as usize),
    };
    let root: Option<PathBuf> = sub.get_one("root").cloned();
    let named_root = root.as_ref().and_then(|root| std::path::absolute(root).ok());
    McpOptions { root, named_root, may_write: sub.get_flag("write"), limits }
}
