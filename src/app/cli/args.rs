//! Definition and parsing of the command line.

use std::ffi::OsString;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::error::{ContextKind, ContextValue};
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};

use super::check::CheckProofs;
use super::common_args::{file, script, switch};
use super::format_option::{self, FormatNeeds};
use super::global_options::{EVERYTHING, FAST_MMA, MMA, NO_STARTUP, global_options};
use super::profile::ProfileOptions;
use super::test::TestOptions;
use super::{doc_site, fetch, help, install, launch, mcp, new, stubs, watch, why};
use crate::command_error::CommandResult;
use crate::console::{ColorMode, OutputOptions};
use crate::cuda_files::is_cuda_file;
use crate::cuda_launches::CudaLaunchOptions;
use crate::devices::{self, DeviceChoice, DeviceOptions, GpuCodeOptions, Isolate};
use crate::generated::EmitStage;
use crate::launch::LaunchJob;
use crate::mcp::McpOptions;
use crate::perf_map;
use crate::script::RunLimits;
use crate::suggestions;
use clk_import::ImportOptions;
use clk_lower::MmaPrecision;
use clk_sim::Proofs;

/// A command of `clk` with its arguments.
#[derive(Debug)]
pub(crate) enum CliCommand {
    Run { file: PathBuf, args: Vec<String>, debug_on_fault: bool, ranks: Option<u32>, launches: CudaLaunchOptions },
    Debug { file: PathBuf, args: Vec<String>, commands: Vec<String>, test: Option<String>, launches: CudaLaunchOptions },
    Eval { text: String },
    Check { files: Vec<PathBuf>, proofs: CheckProofs },
    Test { paths: Vec<PathBuf>, filter: Option<String>, how: TestOptions },
    Tune { file: PathBuf, kernel: Option<String>, limit: f64 },
    Bench { paths: Vec<PathBuf>, filter: Option<String>, on_demand: bool },
    Emit { file: PathBuf, stage: EmitTarget, kernel: Option<String>, architecture: Option<u32>, lines: bool },
    Prove { file: PathBuf, kernel: Option<String>, certificates: bool },
    Why { file: PathBuf, element: String, levels: Option<usize>, more: Option<String>, nan: bool },
    Profile { file: PathBuf, wanted: Box<ProfileOptions> },
    Explain { code: Option<String> },
    Doc { name: Option<String> },
    Site { out: PathBuf, own: doc_site::SiteInputs, paths: Vec<PathBuf> },
    Fix { paths: Vec<PathBuf>, dry_run: bool, profile: bool },
    Stubs { file: PathBuf },
    Lsp,
    Dap,
    Mcp { options: McpOptions },
    Import { files: Vec<PathBuf>, output: Option<PathBuf>, coverage: bool, script: bool },
    Fmt { paths: Vec<PathBuf>, check: bool, range: Option<(usize, usize)> },
    Cache { action: CacheAction },
    Launch { job: Box<LaunchJob> },
    Doctor,
    New { path: PathBuf },
    Fetch { folder: PathBuf, update: bool },
    Watch { wanted: watch::WatchOptions },
    Help { topic: Option<String> },
    Completions { shell: clap_complete::Shell },
    Man { folder: PathBuf },
    Repl { plain: bool, startup: bool },
}

impl CliCommand {
    /// Returns whether the command launches kernels and so needs a device.
    pub fn runs(&self) -> bool {
        match self {
            CliCommand::Debug { .. } | CliCommand::Dap => true,
            CliCommand::Run { .. }
            | CliCommand::Eval { .. }
            | CliCommand::Test { .. }
            | CliCommand::Bench { .. }
            | CliCommand::Repl { .. } => true,
            CliCommand::Launch { .. } | CliCommand::Why { .. } | CliCommand::Tune { .. } => true,
            // `clk profile` always runs on the simulator.
            CliCommand::Check { .. }
            | CliCommand::Emit { .. }
            | CliCommand::Prove { .. }
            | CliCommand::Profile { .. } => false,
            CliCommand::Explain { .. } => false,
            CliCommand::Site { .. } | CliCommand::Stubs { .. } => false,
            CliCommand::Import { .. } => false,
            CliCommand::Doc { .. } | CliCommand::Fmt { .. } | CliCommand::Fix { .. } | CliCommand::Lsp => false,
            // Each call of a tool runs in a separate process, and that process opens the device.
            CliCommand::Mcp { .. } => false,
            CliCommand::Cache { .. } | CliCommand::Doctor => false,
            // `clk watch` starts a separate process for each run, and that process opens the device.
            CliCommand::New { .. } | CliCommand::Fetch { .. } | CliCommand::Watch { .. } => false,
            CliCommand::Help { .. } | CliCommand::Completions { .. } | CliCommand::Man { .. } => false,
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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EmitTarget {
    Ast,
    Typed,
    Kernels(EmitStage),
}

/// A parsed command line.
#[derive(Debug)]
pub(crate) struct Cli {
    pub task: CliCommand,
    pub look: OutputOptions,
    /// Macros and folders for CUDA files.
    pub cuda: ImportOptions,
    pub limits: RunLimits,
    pub device: DeviceChoice,
    pub usage: DeviceOptions,
    /// Whether GPU kernels run in a separate process.
    pub isolate: Isolate,
    /// Whether to print the devices' statistics after the command (`--stats`).
    pub stats: bool,
}

/// Parses the command line. `Err` is clap's output, which can also be the help or the version.
pub(crate) fn parse(arguments: Vec<OsString>) -> Result<Cli, Box<clap::Error>> {
    let matches = match_arguments(with_run(arguments))?;
    let look = OutputOptions {
        color: match matches.get_one::<String>("color").map(String::as_str) {
            Some("always") => ColorMode::Always,
            Some("never") => ColorMode::Never,
            _ => ColorMode::Auto,
        },
        ascii: matches.get_flag("ascii"),
        format: format_option::chosen(&matches).map_err(conflict)?,
    };
    // `clk fmt` has a different `--check` option, which is a flag without a value.
    let check = matches.try_get_one::<String>("check").ok().flatten();
    let limits = RunLimits {
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
            true => MmaPrecision::Sequential,
            false => MmaPrecision::TensorCore(matches.get_one(MMA).copied().unwrap_or_default()),
        },
        ..RunLimits::default()
    };
    let stats = matches.get_flag("stats");
    let text = GpuCodeOptions {
        checked: !matches.get_flag("unchecked"),
        coarsen: !matches.get_flag("no-coarsen"),
        fast_math: matches.get_flag("fast-math"),
        contract: matches.get_flag("contract"),
    };
    // A profiler that injects a library into this process needs line information in the machine code.
    let lines = matches.get_flag("line-info") || std::env::var_os("CUDA_INJECTION64_PATH").is_some();
    let (isa, jit) = (from_environment(devices::ISA)?, from_environment(devices::JIT)?);
    let proofs = if check.is_some_and(|what| what == EVERYTHING) { Proofs::Unused } else { Proofs::Used };
    let (perf, deterministic) = (from_environment(perf_map::VARIABLE)?, limits.deterministic);
    let tensor = from_environment(devices::TENSOR)?;
    let relies = matches.contains_id(MMA);
    let usage = DeviceOptions { timed: stats, lines, text, tensor, relies, isa, jit, proofs, perf, deterministic };
    let device = match matches.get_one::<DeviceChoice>("device") {
        Some(choice) => *choice,
        // An option that only the simulator supports selects the simulator.
        None if limits.check == Some(true) || limits.trap_nan || limits.deterministic => DeviceChoice::Sim(None),
        None if limits.sums == MmaPrecision::Sequential => DeviceChoice::Sim(None),
        None => from_environment(devices::VARIABLE)?,
    };
    if limits.sums == MmaPrecision::Sequential && !matches!(device, DeviceChoice::Sim(_)) {
        return Err(conflict("--fast-mma is for the simulator: leave it off, or choose `--device sim`"));
    }
    let task = task(&matches);
    format_option::check(look.format, format_needs(&task)).map_err(conflict)?;
    let isolate = match (&task, matches.get_flag("isolate"), matches.get_flag("no-isolate")) {
        (_, true, _) => Isolate::Yes,
        (CliCommand::Repl { .. }, _, false) => Isolate::IfPossible,
        (CliCommand::Tune { .. }, _, false) => Isolate::Yes,
        _ => Isolate::No,
    };
    let cuda = matches.subcommand().map_or_else(ImportOptions::default, |(_, sub)| cuda_options(sub));
    let cuda = ImportOptions { contract: text.contract, ..cuda };
    Ok(Cli { task, look, cuda, limits, device, usage, isolate, stats })
}

/// Parses the arguments with the definition of their subcommand alone: Clap spends most of a start on copying the
/// global options to all subcommands. If that fails, or asks for help, the complete definition gives the answer.
fn match_arguments(arguments: Vec<OsString>) -> Result<ArgMatches, Box<clap::Error>> {
    let named = arguments.iter().find_map(|word| SUBCOMMANDS.iter().find(|(name, _)| word == name));
    let quick = root().subcommands(named.map(|(_, subcommand)| subcommand()));
    match quick.try_get_matches_from(arguments.iter()) {
        Ok(matches) => Ok(matches),
        Err(_) => Ok(command().try_get_matches_from(arguments).map_err(with_similar_command)?),
    }
}

/// Returns an error about options that exclude each other.
fn conflict(complaint: impl Display) -> Box<clap::Error> {
    Box::new(command().error(clap::error::ErrorKind::ArgumentConflict, complaint))
}

/// Returns which formats suit a command.
fn format_needs(task: &CliCommand) -> FormatNeeds {
    let (has_ranks, debugs) = match task {
        CliCommand::Run { ranks, debug_on_fault, .. } => (ranks.is_some(), *debug_on_fault),
        _ => (false, false),
    };
    let has_tests = matches!(task, CliCommand::Test { .. });
    let has_findings =
        matches!(task, CliCommand::Check { .. } | CliCommand::Prove { .. } | CliCommand::Run { .. }) || has_tests;
    FormatNeeds { has_findings, has_tests, has_ranks, debugs }
}

/// Adds `-D` and `-I`, which are for CUDA files.
fn with_cuda_options(command: Command) -> Command {
    command
        .arg(
            Arg::new("define")
                .short('D')
                .value_name("NAME=VALUE")
                .action(ArgAction::Append)
                .help("Define a macro in CUDA files; the value of `-D NAME` is 1"),
        )
        .arg(
            Arg::new("include")
                .short('I')
                .value_name("FOLDER")
                .action(ArgAction::Append)
                .help("Look for headers of CUDA files in this folder as well"),
        )
}

fn cuda_options(matches: &ArgMatches) -> ImportOptions {
    let all = |id: &str| -> Vec<String> {
        let values = matches.try_get_many::<String>(id).ok().flatten();
        values.map(|values| values.cloned().collect()).unwrap_or_default()
    };
    let define = |text: String| match text.split_once('=') {
        Some((name, value)) => (name.to_owned(), value.to_owned()),
        None => (text, "1".to_owned()),
    };
    ImportOptions {
        defines: all("define").into_iter().map(define).collect(),
        include_dirs: all("include"),
        ..ImportOptions::default()
    }
}

/// Parses the value of an environment variable. Returns the default if the variable is unset or empty.
fn from_environment<T: FromStr<Err: Display> + Default>(variable: &str) -> Result<T, Box<clap::Error>> {
    match std::env::var(variable) {
        Ok(text) if !text.is_empty() => text.parse().map_err(|why| {
            let complaint = format!("{variable}: {why}");
            Box::new(command().error(clap::error::ErrorKind::InvalidValue, complaint))
        }),
        _ => Ok(T::default()),
    }
}

/// Adds the commands with a similar name to an error about an unknown command. Clap's own measure finds none for a
/// short word such as `rn`.
fn with_similar_command(mut error: clap::Error) -> clap::Error {
    let unknown = match error.get(ContextKind::InvalidSubcommand) {
        Some(ContextValue::String(word)) => word.clone(),
        _ => return error,
    };
    if error.get(ContextKind::SuggestedSubcommand).is_some() {
        return error;
    }
    let commands = command();
    let similar = suggestions::nearest_names(&unknown, commands.get_subcommands().map(|command| command.get_name()));
    if !similar.is_empty() {
        let similar = similar.into_iter().map(str::to_owned).collect();
        error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(similar));
    }
    error
}

/// Turns `clk demo.clk` into `clk run demo.clk`. Clap could parse FILE as an optional argument next to the subcommands,
/// but would then report a misspelled subcommand as "no such file". The words after a CUDA file are options of Clk,
/// since such a file has no arguments of its own: they are moved before the file.
fn with_run(mut arguments: Vec<OsString>) -> Vec<OsString> {
    let is_file = arguments.get(1).and_then(|a| a.to_str()).is_some_and(|a| !a.starts_with('-') && a.ends_with(".clk"));
    if is_file {
        arguments.insert(1, "run".into());
    }
    let is_program = |word: &OsString| {
        let path = Path::new(word);
        is_cuda_file(path) || path.extension().is_some_and(|extension| extension == "clk")
    };
    let runs = arguments.iter().position(|word| word == "run" || word == "debug");
    let program = runs.and_then(|at| Some(at + arguments.iter().skip(at).position(is_program)?));
    if let Some(at) = program.filter(|at| is_cuda_file(Path::new(&arguments[*at]))) {
        let file = arguments.remove(at);
        arguments.push(file);
    }
    arguments
}

fn task(matches: &ArgMatches) -> CliCommand {
    if let Some(text) = matches.get_one::<String>("eval") {
        return CliCommand::Eval { text: text.clone() };
    }
    let Some((name, sub)) = matches.subcommand() else {
        return CliCommand::Repl { plain: false, startup: !matches.get_flag(NO_STARTUP) };
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
            let launches = launch::cuda_options(sub);
            CliCommand::Run { file, args, debug_on_fault: sub.get_flag("debug-on-fault"), ranks, launches }
        }
        "debug" => {
            let mut words = sub.get_many::<OsString>("script").unwrap_or_default().cloned();
            let file = words.next().map(PathBuf::from).unwrap_or_default();
            let commands = sub.get_many::<String>("command").unwrap_or_default().cloned().collect();
            let args = words.map(|a| a.to_string_lossy().into_owned()).collect();
            let launches = launch::cuda_options(sub);
            CliCommand::Debug { file, args, commands, test: one("test"), launches }
        }
        "check" => {
            let proofs = match (sub.get_flag("prove"), sub.get_flag("no-prove")) {
                (true, _) => CheckProofs::All,
                (false, true) => CheckProofs::None,
                (false, false) => CheckProofs::Faults,
            };
            CliCommand::Check { files: paths("files"), proofs }
        }
        "test" => {
            let options =
                TestOptions { tunings: sub.get_flag("tunings"), deny_warnings: sub.get_flag("deny-warnings") };
            CliCommand::Test { paths: paths("paths"), filter: one("filter"), how: options }
        }
        "tune" => CliCommand::Tune {
            file: path("file"),
            kernel: one("kernel"),
            limit: sub.get_one("timeout").copied().unwrap_or(LIMIT),
        },
        "bench" => {
            CliCommand::Bench { paths: paths("paths"), filter: one("filter"), on_demand: sub.get_flag("on-demand") }
        }
        "emit" => CliCommand::Emit {
            file: path("file"),
            stage: sub.get_one("stage").copied().unwrap_or(EmitTarget::Kernels(EmitStage::Ir)),
            kernel: one("kernel"),
            architecture: sub.get_one("arch").copied(),
            lines: sub.get_flag("lines"),
        },
        "prove" => {
            CliCommand::Prove { file: path("file"), kernel: one("kernel"), certificates: sub.get_flag("certificate") }
        }
        "why" => CliCommand::Why {
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
            let launches = launch::cuda_options(sub);
            let kernel = one("profiled").or_else(|| launches.kernel.clone());
            let launches = CudaLaunchOptions { kernel: kernel.clone(), ..launches };
            let profile_options = ProfileOptions { kernel, gpu, blocks, bench, test, expressions, launches };
            CliCommand::Profile { file: path("file"), wanted: Box::new(profile_options) }
        }
        "explain" => CliCommand::Explain { code: one("code") },
        "doc" => {
            let words: Vec<String> = sub.get_many::<String>("name").unwrap_or_default().cloned().collect();
            match sub.get_one::<PathBuf>("html") {
                Some(out) => {
                    let paths = words.iter().map(PathBuf::from).collect();
                    let own = doc_site::SiteInputs {
                        from: sub.get_one("from").cloned(),
                        playground: sub.get_one("playground").cloned(),
                    };
                    CliCommand::Site { out: out.clone(), own, paths }
                }
                None => CliCommand::Doc { name: (!words.is_empty()).then(|| words.join(" ")) },
            }
        }
        "fix" => CliCommand::Fix {
            paths: paths("paths"),
            dry_run: sub.get_flag("dry-run"),
            profile: sub.get_flag("profile"),
        },
        "lsp" => CliCommand::Lsp,
        "dap" => CliCommand::Dap,
        "mcp" => CliCommand::Mcp { options: mcp::options_of(sub) },
        "import" => CliCommand::Import {
            files: paths("files"),
            output: sub.get_one::<PathBuf>("output").cloned(),
            coverage: sub.get_flag("coverage"),
            script: sub.get_flag("script"),
        },
        "fmt" => CliCommand::Fmt {
            paths: paths("paths"),
            check: sub.get_flag("check"),
            range: sub.get_one::<(usize, usize)>("range").copied(),
        },
        "cache" => CliCommand::Cache {
            action: match sub.subcommand_name() {
                Some("ls") => CacheAction::List,
                Some("clean") => CacheAction::Clean,
                _ => CacheAction::Dir,
            },
        },
        "launch" => CliCommand::Launch { job: Box::new(launch::job(sub)) },
        "doctor" => CliCommand::Doctor,
        "new" => CliCommand::New { path: path("path") },
        "fetch" => {
            let folder = sub.get_one::<PathBuf>("folder").cloned().unwrap_or_else(|| ".".into());
            CliCommand::Fetch { folder, update: sub.get_flag("update") }
        }
        "watch" => CliCommand::Watch { wanted: watch::options_of(sub) },
        "help" => {
            let words: Vec<String> = sub.get_many::<String>("topic").unwrap_or_default().cloned().collect();
            CliCommand::Help { topic: (!words.is_empty()).then(|| words.join(" ")) }
        }
        "completions" => {
            CliCommand::Completions { shell: sub.get_one("shell").copied().unwrap_or(clap_complete::Shell::Bash) }
        }
        "man" => CliCommand::Man { folder: path("folder") },
        "stubs" => CliCommand::Stubs { file: path("file") },
        _ => CliCommand::Repl { plain: sub.get_flag("plain"), startup: !matches.get_flag(NO_STARTUP) },
    }
}

/// The subcommands by name, in the order of the help.
const SUBCOMMANDS: &[(&str, fn() -> Command)] = &[
    ("run", run),
    ("debug", debug),
    ("check", check),
    ("test", test),
    ("bench", bench),
    ("tune", tune),
    ("emit", emit),
    ("prove", || with_short_help(prove())),
    ("why", why::command),
    ("profile", profile),
    ("explain", || with_short_help(explain())),
    ("doc", || with_short_help(doc())),
    ("import", || with_short_help(import())),
    ("fmt", || with_short_help(fmt())),
    ("fix", || with_short_help(fix())),
    ("lsp", || with_short_help(lsp())),
    ("dap", dap),
    ("mcp", || with_short_help(mcp::command())),
    ("launch", launch::command),
    ("stubs", || with_short_help(stubs::command())),
    ("cache", || with_short_help(cache())),
    ("doctor", || with_short_help(doctor())),
    ("repl", repl),
    ("new", || with_short_help(new::command())),
    ("fetch", || with_short_help(fetch::command())),
    ("watch", watch::command),
    ("help", || with_short_help(help::command())),
    ("completions", || with_short_help(install::completions_command())),
    ("man", || with_short_help(install::man_command())),
];

pub(crate) fn command() -> Command {
    root().subcommands(SUBCOMMANDS.iter().map(|(_, subcommand)| subcommand()))
}

/// Returns the definition without subcommands.
fn root() -> Command {
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
}

fn paths(help: &'static str) -> Arg {
    Arg::new("paths").value_name("PATH").num_args(0..).value_parser(value_parser!(PathBuf)).help(help)
}

fn filter() -> Arg {
    Arg::new("filter").long("filter").short('f').value_name("TEXT").help("Only those whose name contains TEXT")
}

/// The file and its arguments are one list for clap, so that it does not parse words after the file name as options of
/// `clk`.
fn run() -> Command {
    let on_fault = Arg::new("debug-on-fault").long("debug-on-fault").action(ArgAction::SetTrue);
    let ranks = Arg::new("ranks").long("ranks").value_name("N");
    let ranks = ranks.value_parser(value_parser!(u32).range(1..=i64::from(crate::ranks::environment::MAX_RANKS)));
    let command = Command::new("run")
        .about("Run a script, or the launches of a CUDA file")
        .override_usage("clk run [OPTIONS] FILE [ARGS]...")
        .arg(ranks.help("Run it in N processes of this machine, which exchange arrays (`all_reduce` and the like)"))
        .arg(on_fault.help("Open the debugger at the fault of a kernel"))
        .arg(script("The script (- is standard input), and its arguments (`args`)"));
    with_cuda_options(command.args(launch::cuda_arguments()))
}

fn debug() -> Command {
    let command = Command::new("debug")
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
        .arg(
            Arg::new("test")
                .long("test")
                .value_name("TITLE")
                .help("Debug the `test` blocks whose titles contain TITLE, instead of the statements of the script"),
        )
        .arg(script("The script, and its arguments (`args`)"));
    with_cuda_options(command.args(launch::cuda_arguments()))
}

fn check() -> Command {
    let command = Command::new("check")
        .about("Report the mistakes of programs without running them")
        .arg(
            Arg::new("files")
                .value_name("PATH")
                .num_args(1..)
                .required(true)
                .value_parser(value_parser!(PathBuf))
                .help("Files, or folders of them"),
        )
        .arg(switch("prove", "Also prove all kernels, as `clk prove` does").conflicts_with("no-prove"))
        .arg(
            Arg::new("no-prove")
                .long("no-prove")
                .action(ArgAction::SetTrue)
                .help("Do not run kernels to look for faults"),
        );
    with_cuda_options(command)
}

fn test() -> Command {
    Command::new("test")
        .about("Run the `test` blocks of files and folders")
        .arg(paths("Files and folders [default: .]"))
        .arg(filter())
        .arg(switch("tunings", "Run each launch of a kernel with `tune` with all choices, which have to give the same"))
        .arg(switch("deny-warnings", "Fail tests whose launches have warnings, such as elements that were not written"))
}

/// Default time limit for the launches of one configuration, in seconds.
const LIMIT: f64 = 10.0;

fn tune() -> Command {
    let seconds = |text: &str| {
        let seconds = text.parse::<f64>().ok().filter(|seconds| *seconds > 0.0 && *seconds <= 1e6);
        seconds.ok_or_else(|| format!("`{text}` is not a number of seconds"))
    };
    Command::new("tune")
        .about("Measure kernels with `tune` clauses, and write the best choices to a file next to the source")
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
fn architecture(text: &str) -> CommandResult<u32> {
    let number = text.trim_start_matches("sm_").parse().ok().filter(|n| (30..1000).contains(n));
    number.ok_or_else(|| "an architecture is named such as `sm_90`".into())
}

fn emit() -> Command {
    let names = ["ast", "typed", "tiles", "ir", "grad", "lanes", "cuda", "ptx", "sass"];
    let stages = PossibleValuesParser::new(names).map(|name| match name.as_str() {
        "ast" => EmitTarget::Ast,
        "typed" => EmitTarget::Typed,
        "tiles" => EmitTarget::Kernels(EmitStage::Tiles),
        "grad" => EmitTarget::Kernels(EmitStage::Grad),
        "lanes" => EmitTarget::Kernels(EmitStage::Lanes),
        "cuda" => EmitTarget::Kernels(EmitStage::Cuda),
        "ptx" => EmitTarget::Kernels(EmitStage::Ptx),
        "sass" => EmitTarget::Kernels(EmitStage::Sass),
        _ => EmitTarget::Kernels(EmitStage::Ir),
    });
    Command::new("emit")
        .about("Show a program in an intermediate form, or its generated code")
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
                .help("ast, typed, tiles (whole-tile steps), ir, grad (its derivative, as source), lanes (what the simulator compiles), cuda, ptx or sass; the last two with what each kernel needs [default: ir]"),
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
    let command = Command::new("prove")
        .about("Prove kernels right for every size, or show a size at which they are not")
        .arg(file("The program"))
        .arg(Arg::new("kernel").value_name("KERNEL").help("Only this kernel [default: all of the program's own]"))
        .arg(
            Arg::new("certificate")
                .long("certificate")
                .action(ArgAction::SetTrue)
                .help("Print the proofs as well: each question with the steps that answer it"),
        );
    with_cuda_options(command)
}

fn profile() -> Command {
    let name =
        |id: &'static str, value: &'static str, help: &'static str| Arg::new(id).long(id).value_name(value).help(help);
    let command = Command::new("profile")
        .about("Estimate the GPU cost of a program's kernels, line by line, on the simulator")
        .arg(file("The program, which is run"))
        .arg(
            Arg::new("profiled")
                .value_name("KERNEL")
                .conflicts_with("kernel")
                .help("Only this kernel [default: all that the program launches]"),
        )
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
        .arg(name("test", "NAME", "Also run the `test` blocks with NAME in their names"));
    with_cuda_options(command.args(launch::cuda_arguments()))
}

/// Makes `--help` print the same text as `-h`. For commands that run no programs: the long help lists options of runs,
/// which do not apply.
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
    Command::new("doc").about("Show or search the documentation of builtins, modules, keywords and files").arg(
        Arg::new("name").value_name("NAME").num_args(0..).help(
            "A builtin (`sqrt`), a module (`std.linalg`), a member of one (`std.linalg.matmul`), a keyword, a file, or \
             words to look for; without it, all are listed. With `--html`, files and folders to document; without any, Clk itself",
        ),
    )
    .args(doc_site::options())
}

/// Returns the name of Clk's option that `word` spells, if any. Used to detect options placed after the script's name.
pub(crate) fn option_named(word: &str) -> Option<String> {
    let name = word.strip_prefix("--")?.split('=').next()?;
    let is_option = global_options().into_iter().any(|arg| arg.get_long() == Some(name));
    is_option.then(|| format!("--{name}"))
}

fn import() -> Command {
    let command = Command::new("import")
        .about("Translate the kernels of a CUDA C++ file to Clk")
        .arg(
            Arg::new("files")
                .value_name("FILE")
                .num_args(1..)
                .required(true)
                .value_parser(value_parser!(PathBuf))
                .help("The CUDA file; several files with --coverage"),
        )
        .arg(
            Arg::new("output")
                .short('o')
                .long("output")
                .value_name("FILE")
                .value_parser(value_parser!(PathBuf))
                .help("Write the translation to this file [default: standard output]"),
        )
        .arg(
            switch("coverage", "Count the kernels that can be translated, and the constructs that stop the others")
                .conflicts_with("output"),
        )
        .arg(
            switch("script", "Append a script that launches each kernel once, with arguments to start from")
                .conflicts_with("coverage"),
        );
    with_cuda_options(command)
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

/// Accepts `--stdio` because editors pass it. There is no other transport.
fn lsp() -> Command {
    Command::new("lsp")
        .about("Serve an editor: the language server, on standard input and output")
        .arg(Arg::new("stdio").long("stdio").action(ArgAction::SetTrue).hide(true))
}

fn dap() -> Command {
    Command::new("dap")
        .about("Serve an editor: the debugger, by the Debug Adapter Protocol, on standard input and output")
}

fn line_range(text: &str) -> CommandResult<(usize, usize)> {
    let (first, last) = text.split_once(':').ok_or("two line numbers, as in `10:20`")?;
    let number =
        |text: &str| text.parse::<usize>().ok().filter(|n| *n > 0).ok_or(format!("`{text}` is not a line number"));
    let (first, last) = (number(first)?, number(last)?);
    if first > last { Err("the first line is after the last".into()) } else { Ok((first, last)) }
}

fn cache() -> Command {
    Command::new("cache")
        .about("The folder of kernels that were compiled for GPUs")
        .subcommand_required(true)
        .subcommands([
            Command::new("dir").about("Say where it is"),
            Command::new("ls").about("List its entries"),
            Command::new("clean").about("Remove its entries"),
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
    fn subcommands_have_their_names() {
        for (name, subcommand) in SUBCOMMANDS {
            assert_eq!(subcommand().get_name(), *name);
        }
    }

    #[test]
    fn command_definition_is_valid() {
        command().debug_assert();
    }

    #[test]
    fn file_without_command_is_run() {
        let CliCommand::Run { file, args, .. } = cli(&["a.clk", "--width", "3"]).task else { panic!("run") };
        assert_eq!((file, args), (PathBuf::from("a.clk"), vec!["--width".to_string(), "3".to_string()]));
    }

    #[test]
    fn options_after_the_script_are_its_arguments() {
        let parsed = cli(&["run", "--seed", "7", "a.clk", "--seed", "8"]);
        assert_eq!(parsed.limits.seed, Some(7));
        assert!(matches!(parsed.task, CliCommand::Run { args, .. } if args == ["--seed", "8"]));
    }

    #[test]
    fn short_help_for_commands_that_run_nothing() {
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
    fn check_levels_are_parsed() {
        let parsed = |words: &[&str]| parse(words.iter().map(OsString::from).collect());
        let check_of = |words: &[&str]| {
            let cli = parsed(words).expect("a command line");
            (cli.limits.check, cli.usage.proofs)
        };
        assert_eq!(check_of(&["clk", "run", "a.clk"]), (None, Proofs::Used));
        assert_eq!(check_of(&["clk", "run", "--check", "a.clk"]), (Some(true), Proofs::Used));
        assert_eq!(check_of(&["clk", "--check=everything", "run", "a.clk"]), (Some(true), Proofs::Unused));
        assert_eq!(check_of(&["clk", "run", "--check=everything", "--no-check", "a.clk"]).0, Some(false));
        assert!(matches!(parsed(&["clk", "fmt", "--check"]).expect("fmt").task, CliCommand::Fmt { check: true, .. }));
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
