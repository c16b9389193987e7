//! Command-line parsing.

use std::ffi::OsString;
use std::path::PathBuf;
use std::str::FromStr;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};

use super::profile::Wanted;
use super::test::How;
use super::words::{file, script, switch};
use super::{fetch, help, install, launch, new, site, stubs, watch, why};
use crate::app::console::{Look, When};
use crate::app::devices::{self, Choice, Isolate, Usage};
use crate::app::generated::Level;
use crate::app::launch::Job;
use crate::app::perf;
use crate::app::script::Limits;
use crate::device::cuda::text::Options;
use crate::device::sim::Proofs;
use crate::lang::cores::Cores;
use crate::lower::Sums;

/// A command with its arguments.
#[derive(Debug)]
pub(crate) enum Task {
    Run { file: PathBuf, args: Vec<String>, debug_on_fault: bool, ranks: Option<u32> },
    Debug { file: PathBuf, args: Vec<String>, commands: Vec<String> },
    Eval { text: String },
    Check { files: Vec<PathBuf> },
    Test { paths: Vec<PathBuf>, filter: Option<String>, how: How },
    Tune { file: PathBuf, kernel: Option<String>, limit: f64 },
    Bench { paths: Vec<PathBuf>, filter: Option<String>, on_demand: bool },
    Emit { file: PathBuf, stage: Stage, kernel: Option<String>, architecture: Option<u32>, lines: bool },
    Prove { file: PathBuf, kernel: Option<String>, certificates: bool },
    Why { file: PathBuf, element: String, levels: Option<usize>, more: Option<String>, nan: bool },
    Profile { file: PathBuf, wanted: Box<Wanted> },
    Explain { code: Option<String> },
    Doc { name: Option<String> },
    Site { out: PathBuf, own: site::Own, paths: Vec<PathBuf> },
    Fix { paths: Vec<PathBuf>, dry_run: bool, profile: bool },
    Stubs { file: PathBuf },
    Lsp,
    Dap,
    Fmt { paths: Vec<PathBuf>, check: bool, range: Option<(usize, usize)> },
    Cache { action: CacheAction },
    Launch { job: Box<Job> },
    Doctor,
    New { path: PathBuf },
    Fetch { folder: PathBuf, update: bool },
    Watch { wanted: watch::Wanted },
    Help { topic: Option<String> },
    Completions { shell: clap_complete::Shell },
    Man { folder: PathBuf },
    Repl { plain: bool, startup: bool },
}

impl Task {
    /// Whether the command runs programs and so needs a device.
    pub fn runs(&self) -> bool {
        match self {
            Task::Debug { .. } | Task::Dap => true,
            Task::Run { .. } | Task::Eval { .. } | Task::Test { .. } | Task::Bench { .. } | Task::Repl { .. } => true,
            Task::Launch { .. } | Task::Why { .. } | Task::Tune { .. } => true,
            // Profiles are of the simulator.
            Task::Check { .. } | Task::Emit { .. } | Task::Prove { .. } | Task::Profile { .. } => false,
            Task::Explain { .. } => false,
            Task::Site { .. } | Task::Stubs { .. } => false,
            Task::Doc { .. } | Task::Fmt { .. } | Task::Fix { .. } | Task::Lsp => false,
            Task::Cache { .. } | Task::Doctor => false,
            // Each run of a watch is a process of its own.
            Task::New { .. } | Task::Fetch { .. } | Task::Watch { .. } => false,
            Task::Help { .. } | Task::Completions { .. } | Task::Man { .. } => false,
        }
    }
}

/// An action of `clk cache`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CacheAction {
    Dir,
    List,
    Clean,
}

/// What `--check` looks at.
const UNPROVED: &str = "unproved";
const EVERYTHING: &str = "everything";
const FAST_MMA: &str = "fast-mma";
const MMA: &str = "mma";
const NO_STARTUP: &str = "no-startup";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    Ast,
    Typed,
    Kernels(Level),
}

/// A parsed command line.
#[derive(Debug)]
pub(crate) struct Cli {
    pub task: Task,
    pub look: Look,
    pub limits: Limits,
    pub device: Choice,
    pub usage: Usage,
    /// Whether kernels run in a separate process.
    pub isolate: Isolate,
    /// Whether to report the devices' statistics at the end.
    pub stats: bool,
}

/// Parses the command line; `Err` is clap's output (including help and version).
pub(crate) fn parse(arguments: Vec<OsString>) -> Result<Cli, Box<clap::Error>> {
    let matches = command().try_get_matches_from(with_run(arguments))?;
    let look = Look {
        color: match matches.get_one::<String>("color").map(String::as_str) {
            Some("always") => When::Always,
            Some("never") => When::Never,
            _ => When::Auto,
        },
        ascii: matches.get_flag("ascii"),
        json: matches.get_flag("json"),
    };
    // `clk fmt` has one of its own.
    let check = matches.try_get_one::<String>("check").ok().flatten();
    let limits = Limits {
        max_steps: matches.get_one("max-steps").copied().unwrap_or(0),
        workers: matches.get_one("workers").copied().unwrap_or(0),
        seed: matches.get_one("seed").copied(),
        check: match (check.is_some(), matches.get_flag("no-check")) {
            (true, _) => Some(true),
            (_, true) => Some(false),
            _ => None,
        },
        trap_nan: matches.get_flag("trap-nan"),
        deterministic: matches.get_flag("deterministic"),
        sums: match matches.get_flag(FAST_MMA) {
            true => Sums::Rounded,
            false => Sums::Cut(matches.get_one(MMA).copied().unwrap_or_default()),
        },
        ..Limits::default()
    };
    let stats = matches.get_flag("stats");
    let text = Options {
        checked: !matches.get_flag("unchecked"),
        coarsen: !matches.get_flag("no-coarsen"),
        fast_math: matches.get_flag("fast-math"),
        contract: matches.get_flag("contract"),
        ..Options::default()
    };
    // Profilers inject a library into the process; they need line information.
    let lines = matches.get_flag("line-info") || std::env::var_os("CUDA_INJECTION64_PATH").is_some();
    let (isa, jit) = (from_environment(devices::ISA)?, from_environment(devices::JIT)?);
    let proofs = if check.is_some_and(|what| what == EVERYTHING) { Proofs::Unused } else { Proofs::Used };
    let (perf, deterministic) = (from_environment(perf::VARIABLE)?, limits.deterministic);
    let tensor = from_environment(devices::TENSOR)?;
    let relies = matches.contains_id(MMA);
    let usage = Usage { timed: stats, lines, text, tensor, relies, isa, jit, proofs, perf, deterministic };
    let device = match matches.get_one::<Choice>("device") {
        Some(choice) => *choice,
        // Options that only the simulator supports select it.
        None if limits.check == Some(true) || limits.trap_nan || limits.deterministic => Choice::Sim(None),
        None if limits.sums == Sums::Rounded => Choice::Sim(None),
        None => from_environment(devices::VARIABLE)?,
    };
    if limits.sums == Sums::Rounded && !matches!(device, Choice::Sim(_)) {
        let complaint = "--fast-mma is for the simulator: leave it off, or choose `--device sim`";
        return Err(Box::new(command().error(clap::error::ErrorKind::ArgumentConflict, complaint)));
    }
    let task = task(&matches);
    let isolate = match (&task, matches.get_flag("isolate"), matches.get_flag("no-isolate")) {
        (_, true, _) => Isolate::Yes,
        (Task::Repl { .. }, _, false) => Isolate::IfPossible,
        (Task::Tune { .. }, _, false) => Isolate::Yes,
        _ => Isolate::No,
    };
    Ok(Cli { task, look, limits, device, usage, isolate, stats })
}

/// Parses an environment variable; the default if it is unset or empty.
fn from_environment<T: FromStr<Err = String> + Default>(variable: &str) -> Result<T, Box<clap::Error>> {
    match std::env::var(variable) {
        Ok(text) if !text.is_empty() => text.parse().map_err(|why: String| {
            let complaint = format!("{variable}: {why}");
            Box::new(command().error(clap::error::ErrorKind::InvalidValue, complaint))
        }),
        _ => Ok(T::default()),
    }
}

/// Turns `clk demo.clk` into `clk run demo.clk`. With an optional FILE beside the subcommands, clap would answer a misspelled
/// subcommand with "no such file".
fn with_run(mut arguments: Vec<OsString>) -> Vec<OsString> {
    let is_file = arguments.get(1).and_then(|a| a.to_str()).is_some_and(|a| !a.starts_with('-') && a.ends_with(".clk"));
    if is_file {
        arguments.insert(1, "run".into());
    }
    arguments
}

fn task(matches: &ArgMatches) -> Task {
    if let Some(text) = matches.get_one::<String>("eval") {
        return Task::Eval { text: text.clone() };
    }
    let Some((name, sub)) = matches.subcommand() else {
        return Task::Repl { plain: false, startup: !matches.get_flag(NO_STARTUP) };
    };
    let one = |id: &str| sub.get_one::<String>(id).cloned();
    let path = |id: &str| sub.get_one::<PathBuf>(id).cloned().unwrap_or_default();
    let paths = |id: &str| sub.get_many::<PathBuf>(id).unwrap_or_default().cloned().collect();
    match name {
        "run" => {
            let mut words = sub.get_many::<OsString>("script").unwrap_or_default().cloned();
            let file = words.next().map(PathBuf::from).unwrap_or_default();
            let args = words.map(|a| a.to_string_lossy().into_owned()).collect();
            let ranks = sub.get_one::<u32>("ranks").copied();
            Task::Run { file, args, debug_on_fault: sub.get_flag("debug-on-fault"), ranks }
        }
        "debug" => {
            let mut words = sub.get_many::<OsString>("script").unwrap_or_default().cloned();
            let file = words.next().map(PathBuf::from).unwrap_or_default();
            let commands = sub.get_many::<String>("command").unwrap_or_default().cloned().collect();
            Task::Debug { file, args: words.map(|a| a.to_string_lossy().into_owned()).collect(), commands }
        }
        "check" => Task::Check { files: paths("files") },
        "test" => {
            let how = How { tunings: sub.get_flag("tunings"), deny_warnings: sub.get_flag("deny-warnings") };
            Task::Test { paths: paths("paths"), filter: one("filter"), how }
        }
        "tune" => Task::Tune {
            file: path("file"),
            kernel: one("kernel"),
            limit: sub.get_one("timeout").copied().unwrap_or(LIMIT),
        },
        "bench" => Task::Bench { paths: paths("paths"), filter: one("filter"), on_demand: sub.get_flag("on-demand") },
        "emit" => Task::Emit {
            file: path("file"),
            stage: sub.get_one("stage").copied().unwrap_or(Stage::Kernels(Level::Ir)),
            kernel: one("kernel"),
            architecture: sub.get_one("arch").copied(),
            lines: sub.get_flag("lines"),
        },
        "prove" => Task::Prove { file: path("file"), kernel: one("kernel"), certificates: sub.get_flag("certificate") },
        "why" => Task::Why {
            file: path("file"),
            element: one("element").unwrap_or_default(),
            levels: sub.get_one::<usize>("levels").copied(),
            more: one("more"),
            nan: sub.get_flag("nan"),
        },
        "profile" => {
            let blocks = sub.get_one("blocks").copied();
            let (gpu, bench, test) = (one("for"), one("bench"), one("test"));
            let expressions = sub.get_flag("expressions");
            let wanted = Wanted { kernel: one("kernel"), gpu, blocks, bench, test, expressions };
            Task::Profile { file: path("file"), wanted: Box::new(wanted) }
        }
        "explain" => Task::Explain { code: one("code") },
        "doc" => {
            let words: Vec<String> = sub.get_many::<String>("name").unwrap_or_default().cloned().collect();
            match sub.get_one::<PathBuf>("html") {
                Some(out) => {
                    let paths = words.iter().map(PathBuf::from).collect();
                    let own = site::Own {
                        from: sub.get_one("from").cloned(),
                        playground: sub.get_one("playground").cloned(),
                    };
                    Task::Site { out: out.clone(), own, paths }
                }
                None => Task::Doc { name: (!words.is_empty()).then(|| words.join(" ")) },
            }
        }
        "fix" => {
            Task::Fix { paths: paths("paths"), dry_run: sub.get_flag("dry-run"), profile: sub.get_flag("profile") }
        }
        "lsp" => Task::Lsp,
        "dap" => Task::Dap,
        "fmt" => Task::Fmt {
            paths: paths("paths"),
            check: sub.get_flag("check"),
            range: sub.get_one::<(usize, usize)>("range").copied(),
        },
        "cache" => Task::Cache {
            action: match sub.subcommand_name() {
                Some("ls") => CacheAction::List,
                Some("clean") => CacheAction::Clean,
                _ => CacheAction::Dir,
            },
        },
        "launch" => Task::Launch { job: Box::new(launch::job(sub)) },
        "doctor" => Task::Doctor,
        "new" => Task::New { path: path("path") },
        "fetch" => {
            let folder = sub.get_one::<PathBuf>("folder").cloned().unwrap_or_else(|| ".".into());
            Task::Fetch { folder, update: sub.get_flag("update") }
        }
        "watch" => Task::Watch { wanted: watch::wanted(sub) },
        "help" => {
            let words: Vec<String> = sub.get_many::<String>("topic").unwrap_or_default().cloned().collect();
            Task::Help { topic: (!words.is_empty()).then(|| words.join(" ")) }
        }
        "completions" => {
            Task::Completions { shell: sub.get_one("shell").copied().unwrap_or(clap_complete::Shell::Bash) }
        }
        "man" => Task::Man { folder: path("folder") },
        "stubs" => Task::Stubs { file: path("file") },
        _ => Task::Repl { plain: sub.get_flag("plain"), startup: !matches.get_flag(NO_STARTUP) },
    }
}

pub(crate) fn command() -> Command {
    Command::new("clk")
        .version(env!("CARGO_PKG_VERSION"))
        .about("Clk: write a GPU kernel, run it at once, see the fault at its line")
        .after_help("`clk FILE.clk` is short for `clk run FILE.clk`; `clk` alone starts a session.")
        .subcommand_required(false)
        .args_conflicts_with_subcommands(false)
        .disable_help_subcommand(true)
        .arg(
            Arg::new("eval")
                .short('e')
                .long("eval")
                .value_name("TEXT")
                .help("Run TEXT as a script and print its values"),
        )
        .args(global_options())
        .subcommands([
            run(),
            debug(),
            check(),
            test(),
            bench(),
            tune(),
            emit(),
            with_short_help(prove()),
            why::command(),
            profile(),
            with_short_help(explain()),
            with_short_help(doc()),
            with_short_help(fmt()),
            with_short_help(fix()),
            with_short_help(lsp()),
            dap(),
            launch::command(),
            with_short_help(stubs::command()),
            with_short_help(cache()),
            with_short_help(doctor()),
            repl(),
            with_short_help(new::command()),
            with_short_help(fetch::command()),
            watch::command(),
            with_short_help(help::command()),
            with_short_help(install::completions_command()),
            with_short_help(install::man_command()),
        ])
}

fn global_options() -> Vec<Arg> {
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
        .value_parser(|text: &str| text.parse::<Cores>()),
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
        Arg::new("json")
            .long("json")
            .action(ArgAction::SetTrue)
            .global(true)
            .help("Diagnostics and results as JSON lines"),
        Arg::new("device")
            .long("device")
            .value_name("NAME")
            .global(true)
            .value_parser(|text: &str| text.parse::<Choice>())
            .help("Where kernels run: auto, sim, sim:N for N virtual devices, gpu, gpu:N, or both to compare [default: auto]"),
        Arg::new("stats")
            .long("stats")
            .action(ArgAction::SetTrue)
            .global(true)
            .help("Tell at the end what the device did: launches, copies, times"),
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
        flag("contract", "On GPUs: let `a * b + c` round once"),
        number("max-steps", "N", "Stop a kernel whose threads take more loop iterations than this [default: no limit]")
            .value_parser(value_parser!(u64)),
        number("workers", "N", "Worker threads of the simulator [default: one per core]")
            .value_parser(value_parser!(u64).range(..=1024).map(|n| n as usize)),
        number("seed", "N", "Seed of the stream that `random` and similar builtins draw from [default: 0]")
            .value_parser(value_parser!(u64)),
    ]
}

fn paths(help: &'static str) -> Arg {
    Arg::new("paths").value_name("PATH").num_args(0..).value_parser(value_parser!(PathBuf)).help(help)
}

fn filter() -> Arg {
    Arg::new("filter").long("filter").short('f').value_name("TEXT").help("Only those whose name contains TEXT")
}

/// File and arguments are one list for clap, so that nothing after the file name is parsed as an option of `clk`.
fn run() -> Command {
    let on_fault = Arg::new("debug-on-fault").long("debug-on-fault").action(ArgAction::SetTrue);
    let ranks = Arg::new("ranks").long("ranks").value_name("N");
    let ranks = ranks.value_parser(value_parser!(u32).range(1..=i64::from(crate::app::ranks::environment::MOST)));
    Command::new("run")
        .about("Run a script")
        .override_usage("clk run [OPTIONS] FILE [ARGS]...")
        .arg(ranks.help("Run it in N processes of this machine, which exchange arrays (`all_reduce` and the like)"))
        .arg(on_fault.help("Open the debugger at the fault of a kernel"))
        .arg(script("The script (- is standard input), and what it finds in `args`"))
}

fn debug() -> Command {
    Command::new("debug")
        .about("Debug a script: step through its kernels, forwards and backwards")
        .override_usage("clk debug [OPTIONS] FILE [ARGS]...")
        .arg(
            Arg::new("command")
                .long("command")
                .short('c')
                .value_name("COMMAND")
                .action(ArgAction::Append)
                .help("A command of the debugger, instead of those that standard input has; may be repeated"),
        )
        .arg(script("The script, and what it finds in `args`"))
}

fn check() -> Command {
    Command::new("check").about("Report the mistakes of programs without running them").arg(
        Arg::new("files")
            .value_name("PATH")
            .num_args(1..)
            .required(true)
            .value_parser(value_parser!(PathBuf))
            .help("Files, or folders of them"),
    )
}

fn test() -> Command {
    Command::new("test")
        .about("Run the `test` blocks of files and folders")
        .arg(paths("Files and folders [default: .]"))
        .arg(filter())
        .arg(switch("tunings", "Run each launch of a kernel with `tune` with all choices, which have to give the same"))
        .arg(switch("deny-warnings", "Fail tests whose launches have warnings, such as elements that were not written"))
}

/// Seconds that the launches of one choice may take.
const LIMIT: f64 = 10.0;

fn tune() -> Command {
    let seconds = |text: &str| {
        let seconds = text.parse::<f64>().ok().filter(|seconds| *seconds > 0.0 && *seconds <= 1e6);
        seconds.ok_or_else(|| format!("`{text}` is no number of seconds"))
    };
    Command::new("tune")
        .about("Measure the choices of kernels with `tune`, and write the best beside the source")
        .arg(file("The program, whose benches are run; without one, its script"))
        .arg(Arg::new("kernel").value_name("KERNEL").help("Only this kernel [default: all that are launched]"))
        .arg(
            Arg::new("timeout")
                .long("timeout")
                .value_name("SECONDS")
                .value_parser(seconds)
                .help("Refuse a choice whose launch takes longer [default: 10]"),
        )
}

fn bench() -> Command {
    Command::new("bench")
        .about("Time the `bench` blocks of files and folders")
        .arg(paths("Files and folders [default: .]"))
        .arg(filter())
        .arg(
            Arg::new("on-demand")
                .long("on-demand")
                .action(ArgAction::SetTrue)
                .help("Time one bench as often as each line of standard input says; answers in seconds a run"),
        )
}

/// Parses a compute capability: `sm_90` or `90`.
fn architecture(text: &str) -> Result<u32, String> {
    let number = text.trim_start_matches("sm_").parse().ok().filter(|n| (30..1000).contains(n));
    number.ok_or_else(|| "an architecture is named such as `sm_90`".to_string())
}

fn emit() -> Command {
    let names = ["ast", "typed", "ir", "grad", "lanes", "cuda", "ptx", "sass"];
    let stages = PossibleValuesParser::new(names).map(|name| match name.as_str() {
        "ast" => Stage::Ast,
        "typed" => Stage::Typed,
        "grad" => Stage::Kernels(Level::Grad),
        "lanes" => Stage::Kernels(Level::Lanes),
        "cuda" => Stage::Kernels(Level::Cuda),
        "ptx" => Stage::Kernels(Level::Ptx),
        "sass" => Stage::Kernels(Level::Sass),
        _ => Stage::Kernels(Level::Ir),
    });
    Command::new("emit")
        .about("Show what a program becomes on its way to a device")
        .arg(
            Arg::new("lines")
                .long("lines")
                .action(ArgAction::SetTrue)
                .help("CUDA, PTX and instructions with the program's lines"),
        )
        .arg(
            Arg::new("stage")
                .long("stage")
                .short('s')
                .value_name("STAGE")
                .value_parser(stages)
                .help("ast, typed, ir, grad (its derivative, as source), lanes (what the simulator compiles), cuda, ptx or sass; the last two with what each kernel needs [default: ir]"),
        )
        .arg(
            Arg::new("arch")
                .long("arch")
                .value_name("ARCH")
                .value_parser(architecture)
                .help("For ptx and sass: such as sm_90 [default: the GPU's, or sm_90]"),
        )
        .arg(Arg::new("kernel").long("kernel").short('k').value_name("NAME").help("Only this kernel [default: all]"))
        .arg(file("The program"))
}

fn prove() -> Command {
    Command::new("prove")
        .about("Prove kernels right for every size, or show a size at which they are not")
        .arg(file("The program"))
        .arg(Arg::new("kernel").value_name("KERNEL").help("Only this kernel [default: all of the program's own]"))
        .arg(
            Arg::new("certificate")
                .long("certificate")
                .action(ArgAction::SetTrue)
                .help("Print the proofs as well: each question with the steps that answer it"),
        )
}

fn profile() -> Command {
    let name =
        |id: &'static str, value: &'static str, help: &'static str| Arg::new(id).long(id).value_name(value).help(help);
    Command::new("profile")
        .about("Count what a program's kernels cost a GPU, line by line, on the simulator")
        .arg(file("The program, which is run"))
        .arg(Arg::new("kernel").value_name("KERNEL").help("Only this kernel [default: all that the program launches]"))
        .arg(name("for", "GPU", "The GPU of the bounds: h200, h100, a100, rtx4090, … [default: h200]"))
        .arg(
            name("blocks", "N", "Count about N blocks of each launch, and extrapolate")
                .value_parser(value_parser!(u64).range(1..)),
        )
        .arg(
            Arg::new("expressions")
                .long("expressions")
                .action(ArgAction::SetTrue)
                .help("Also count array expressions, computed as on a GPU"),
        )
        .arg(name("bench", "NAME", "Also run the `bench` blocks with NAME in their names, once"))
        .arg(name("test", "NAME", "Also run the `test` blocks with NAME in their names"))
}

/// Makes `--help` as short as `-h` for a command that runs nothing, since the options of runs do not apply to it.
fn with_short_help(command: Command) -> Command {
    let help = Arg::new("help").short('h').long("help").action(ArgAction::HelpShort).help("Print help");
    command.disable_help_flag(true).arg(help)
}

fn explain() -> Command {
    Command::new("explain")
        .about("Explain the code of a message, with examples")
        .arg(Arg::new("code").value_name("CODE").help("Such as E0301; without it, all are listed"))
}

fn doc() -> Command {
    Command::new("doc").about("Show what is documented: builtins, modules, keywords, files; or look for words").arg(
        Arg::new("name").value_name("NAME").num_args(0..).help(
            "A builtin (`sqrt`), a module (`std.linalg`), a member of one (`std.linalg.matmul`), a keyword, a file, or \
             words to look for; without it, all are listed. With `--html`, files and folders to document; without any, Clk itself",
        ),
    )
    .args(site::options())
}

/// Returns the option of Clk that a word spells, if any; used for words after the script's name.
pub(crate) fn option_named(word: &str) -> Option<String> {
    let name = word.strip_prefix("--")?.split('=').next()?;
    let known = global_options().into_iter().any(|arg| arg.get_long() == Some(name));
    known.then(|| format!("--{name}"))
}

fn fmt() -> Command {
    Command::new("fmt")
        .about("Lay out programs in the one style of Clk")
        .arg(paths("Files and folders; - is standard input, laid out to standard output [default: .]"))
        .arg(
            Arg::new("check")
                .long("check")
                .action(ArgAction::SetTrue)
                .help("Change nothing; show what would change, and fail if anything would"),
        )
        .arg(
            Arg::new("range")
                .long("range")
                .value_name("FIRST:LAST")
                .value_parser(line_range)
                .help("Only these lines, counted from 1"),
        )
}

fn fix() -> Command {
    Command::new("fix")
        .about("Apply the machine-applicable fixes of messages")
        .arg(paths("Files and folders [default: .]"))
        .arg(
            Arg::new("dry-run")
                .long("dry-run")
                .action(ArgAction::SetTrue)
                .help("Change nothing; show what would change"),
        )
        .arg(
            Arg::new("profile")
                .long("profile")
                .action(ArgAction::SetTrue)
                .help("Also run the programs, and apply what `clk profile` advises and is sure of"),
        )
}

/// `--stdio` is accepted because editors pass it; there is no other transport.
fn lsp() -> Command {
    Command::new("lsp")
        .about("Serve an editor: the language server, on standard input and output")
        .arg(Arg::new("stdio").long("stdio").action(ArgAction::SetTrue).hide(true))
}

fn dap() -> Command {
    Command::new("dap")
        .about("Serve an editor: the debugger, by the Debug Adapter Protocol, on standard input and output")
}

fn line_range(text: &str) -> Result<(usize, usize), String> {
    let (first, last) = text.split_once(':').ok_or("two line numbers, as in `10:20`")?;
    let number =
        |text: &str| text.parse::<usize>().ok().filter(|n| *n > 0).ok_or(format!("`{text}` is no line number"));
    let (first, last) = (number(first)?, number(last)?);
    if first > last { Err("the first line stands behind the last".into()) } else { Ok((first, last)) }
}

fn cache() -> Command {
    Command::new("cache")
        .about("The folder of kernels that were compiled for GPUs")
        .subcommand_required(true)
        .subcommands([
            Command::new("dir").about("Say where it is"),
            Command::new("ls").about("List what is in it"),
            Command::new("clean").about("Remove what is in it"),
        ])
}

fn doctor() -> Command {
    Command::new("doctor").about("Say which devices and libraries are found")
}

fn repl() -> Command {
    Command::new("repl").about("Start a session: one entry at a time, results at once").arg(
        Arg::new("plain")
            .long("plain")
            .action(ArgAction::SetTrue)
            .help("Read entries from standard input, without prompt and line editing"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cli(words: &[&str]) -> Cli {
        match parse(std::iter::once("clk").chain(words.iter().copied()).map(OsString::from).collect()) {
            Ok(cli) => cli,
            Err(error) => panic!("{error}"),
        }
    }

    #[test]
    fn the_definition_is_sound() {
        command().debug_assert();
    }

    #[test]
    fn a_file_alone_is_run() {
        let Task::Run { file, args, .. } = cli(&["a.clk", "--width", "3"]).task else { panic!("run") };
        assert_eq!((file, args), (PathBuf::from("a.clk"), vec!["--width".to_string(), "3".to_string()]));
    }

    #[test]
    fn options_stand_before_the_script() {
        let parsed = cli(&["run", "--seed", "7", "a.clk", "--seed", "8"]);
        assert_eq!(parsed.limits.seed, Some(7));
        assert!(matches!(parsed.task, Task::Run { args, .. } if args == ["--seed", "8"]));
    }

    #[test]
    fn help_is_as_long_as_what_it_is_about() {
        let help = |words: &[&str]| {
            let words = std::iter::once("clk").chain(words.iter().copied());
            parse(words.map(OsString::from).collect()).expect_err("help").to_string()
        };
        for command in ["explain", "doc", "fmt", "fix", "cache", "doctor"] {
            let long = help(&[command, "--help"]);
            assert_eq!(long, help(&[command, "-h"]));
            assert!(!long.contains("--fast-math"), "{long}");
        }
        assert!(help(&["run", "--help"]).contains("--fast-math"));
    }

    #[test]
    fn checks_look_at_what_is_not_proved_or_at_everything() {
        let parsed = |words: &[&str]| parse(words.iter().map(OsString::from).collect());
        let found = |words: &[&str]| {
            let cli = parsed(words).expect("a command line");
            (cli.limits.check, cli.usage.proofs)
        };
        assert_eq!(found(&["clk", "run", "a.clk"]), (None, Proofs::Used));
        assert_eq!(found(&["clk", "run", "--check", "a.clk"]), (Some(true), Proofs::Used));
        assert_eq!(found(&["clk", "--check=everything", "run", "a.clk"]), (Some(true), Proofs::Unused));
        assert_eq!(found(&["clk", "run", "--check=everything", "--no-check", "a.clk"]).0, Some(false));
        assert!(matches!(parsed(&["clk", "fmt", "--check"]).expect("fmt").task, Task::Fmt { check: true, .. }));
        assert!(parsed(&["clk", "run", "--check=nothing", "a.clk"]).is_err());
    }

    #[test]
    fn options_of_clk_are_known() {
        assert_eq!(option_named("--seed=7").as_deref(), Some("--seed"));
        assert_eq!(option_named("--width"), None);
        assert_eq!(option_named("seed"), None);
    }

    #[test]
    fn misspelt_commands_are_corrected() {
        let error = parse(["clk", "chekc"].map(OsString::from).to_vec()).expect_err("an error").to_string();
        assert!(error.contains("check"), "{error}");
    }
}
