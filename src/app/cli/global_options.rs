//! The options of all commands.

use clap::builder::TypedValueParser;
use clap::{Arg, ArgAction, value_parser};

use super::format_option;
use crate::devices::DeviceChoice;
use clk_scalar::tensor_core_model::TensorCoreModel;

/// Values of options and names of flags that are used more than once.
const UNPROVED: &str = "unproved";
pub(super) const EVERYTHING: &str = "everything";
pub(super) const FAST_MMA: &str = "fast-mma";
pub(super) const MMA: &str = "mma";
pub(super) const NO_STARTUP: &str = "no-startup";

/// Returns the options of all commands.
pub(super) fn global_options() -> Vec<Arg> {
    let number = |id: &'static str, value: &'static str, help: &'static str| {
        Arg::new(id).long(id).value_name(value).global(true).help(help).hide_short_help(true)
    };
    let flag = |id: &'static str, help: &'static str| {
        Arg::new(id).long(id).action(ArgAction::SetTrue).global(true).hide_short_help(true).help(help)
    };
    vec![
        Arg::new("check")
            .long("check")
            .value_name("WHAT")
            .global(true)
            .num_args(0..=1)
            .require_equals(true)
            .default_missing_value(UNPROVED)
            .value_parser([UNPROVED, EVERYTHING])
            .hide_possible_values(true)
            .hide_short_help(true)
            .overrides_with("no-check")
            .help(
                "Look for races, reads of unwritten memory, overflow and the like [default: in `test` and sessions]; \
                 with `=everything` also for races that are proved not to exist",
            ),
        flag(NO_STARTUP, "In sessions: do not run the startup file (`clk/startup.clk` among your configuration files)"),
        flag("no-check", "Do not look for them").overrides_with("check"),
        flag("trap-nan", "Stop where the first NaN or infinity is computed"),
        flag(
            "deterministic",
            "Kernels with atomics give the same in each run, at the price of running on one worker, not on a GPU",
        ),
        flag(
            FAST_MMA,
            "On the simulator: `mma` adds in `f32`, in a third of the time, without the bits of tensor cores",
        )
        .conflicts_with(MMA),
        number(
            MMA,
            "CORES",
            "On all devices: `mma` has the bits of these tensor cores, sm_80 or sm_90 [default: sm_90]",
        )
        .value_parser(|text: &str| text.parse::<TensorCoreModel>()),
        Arg::new("color")
            .long("color")
            .value_name("WHEN")
            .global(true)
            .value_parser(["auto", "always", "never"])
            .help("Use color [default: auto, which obeys NO_COLOR]"),
        Arg::new("ascii")
            .long("ascii")
            .action(ArgAction::SetTrue)
            .global(true)
            .help("Draw messages with ASCII characters only"),
        format_option::json(),
        format_option::format(),
        Arg::new("device")
            .long("device")
            .value_name("NAME")
            .global(true)
            .value_parser(|text: &str| text.parse::<DeviceChoice>())
            .help("Where kernels run: auto, sim, sim:N for N virtual devices, gpu, gpu:N, or both to compare [default: auto]"),
        Arg::new("stats")
            .long("stats")
            .action(ArgAction::SetTrue)
            .global(true)
            .help("Print a summary of the device's work at the end: launches, copies, times"),
        flag("unchecked", "On GPUs: leave out the guards by which faults are reported at their lines"),
        flag("line-info", "On GPUs: machine code names the program's lines, for compute-sanitizer and ncu"),
        flag(
            "isolate",
            "On GPUs: run kernels in a process of their own, and survive those that kill it [default: in sessions]",
        )
        .overrides_with("no-isolate"),
        flag("no-isolate", "Run them in this one").overrides_with("isolate"),
        flag("no-coarsen", "On GPUs: let a thread of a `threads` kernel take one index"),
        flag("fast-math", "On GPUs: approximate functions and division"),
        flag("contract", "In CUDA files and on GPUs: let `a * b + c` round once"),
        number("max-steps", "N", "Stop a kernel whose threads take more loop iterations than this [default: no limit]")
            .value_parser(value_parser!(u64)),
        number("workers", "N", "Worker threads of the simulator [default: one per core]")
            .value_parser(value_parser!(u64).range(..=1024).map(|n| n as usize)),
        number("seed", "N", "Seed of the stream that `random` and similar builtins draw from [default: 0]")
            .value_parser(value_parser!(u64)),
    ]
}
