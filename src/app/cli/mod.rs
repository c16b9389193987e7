//! The command line. Each command has its own module and returns an exit code.

mod args;
mod bench;
mod cache;
mod check;
mod common_args;
mod doc;
mod doc_site;
mod doctor;
mod emit;
mod explain;
mod fetch;
mod fix;
mod fmt;
mod format_option;
mod global_options;
mod help;
mod import;
mod install;
mod launch;
mod mcp;
mod new;
mod profile;
mod prove;
mod run;
mod stats;
mod stubs;
mod test;
mod tune;
mod watch;
mod why;

use self::args::CliCommand;
use super::console::Console;
use super::context::AppContext;
use super::devices::DeviceRegistry;
use super::interrupt::Interrupt;
use super::script::ScriptDevices;
use super::{dap, debug, exit, lsp, ranks, repl};
use clk_lower::MmaPrecision;
use std::ffi::OsString;

pub(crate) use self::bench::summary as bench_summary;
pub(crate) use self::check::{CheckProofs, files as check_files};
pub(crate) use self::doc::{group_title, imported, is_own, item as documented_item, lookup as documentation};
pub(crate) use self::explain::page as explanation;
pub(crate) use self::import::{coverage as import_coverage, files as import_files};
pub(crate) use self::profile::{ProfileOptions, file as profile_file, of_session as profile_of_session};
pub(crate) use self::prove::file as prove_file;
pub(crate) use self::run::{file as run_file, stdin as run_stdin};
pub(crate) use self::why::file as why_file;

/// Parses the command line and runs the command.
pub(crate) fn main(arguments: Vec<OsString>) -> u8 {
    #[cfg(target_os = "linux")]
    if let Some(code) = super::worker_processes::run_hidden_command(&arguments, super::devices::serve) {
        return code;
    }
    if let Some(code) = super::mcp::run_hidden_command(&arguments) {
        return code;
    }
    let cli = match args::parse(arguments) {
        Ok(cli) => cli,
        Err(answer) => {
            let code = if answer.use_stderr() { exit::USAGE } else { exit::OK };
            // When the help is printed, a closed pipe is not an error.
            let _ = answer.print();
            return code;
        }
    };
    let interrupt = Interrupt::listen();
    let mut console = Console::new(cli.look);
    console.cuda_options = cli.cuda;
    let (text, isa, jit) = (cli.usage.text, cli.usage.isa, cli.usage.jit);
    let machine = DeviceRegistry::new(cli.usage);
    machine.set_isolation(cli.isolate);
    let mut limits = cli.limits;
    limits.count_copies = cli.stats;
    if let (CliCommand::Run { .. }, Ok(Some(place))) = (&cli.task, ranks::place()) {
        machine.prefer_gpu(place.local);
    }
    if cli.task.runs() {
        match machine.choose(cli.device) {
            Ok(device) => limits.places = ScriptDevices { device: Some(device), all: Some(machine.clone()) },
            Err(error) => {
                console.error_line(&format!("error: {error}\n  Help: leave `--device` off, or say `--device sim`"));
                console.finish(exit::NO_DEVICE);
                return exit::NO_DEVICE;
            }
        }
    }
    if cli.task.runs() && limits.sums == MmaPrecision::Sequential {
        console.error_line("note: `mma` adds in `f32` (--fast-mma): the last bits are not those of tensor cores");
    }
    let mut context = AppContext { console, interrupt, limits, text, machine, device: cli.device, isa, jit };
    let code = perform(cli.task, &mut context);
    if let (true, Some(device)) = (cli.stats, &context.limits.places.device) {
        context.console.error_line(&stats::device_line(&**device));
    }
    // If Clk has reported an internal error, that exit code replaces the code of a failed program.
    let code = if code == exit::FAILURE && context.console.internal { exit::INTERNAL } else { code };
    context.console.finish(code);
    code
}

fn perform(task: CliCommand, context: &mut AppContext) -> u8 {
    if task.runs() {
        let machine = context.machine.clone();
        context.interrupt.on_second_press(move || machine.stop_kernels());
    }
    match task {
        CliCommand::Run { ranks: Some(ranks), file, .. } if !ranks::is_launched() => run::ranks(ranks, &file, context),
        CliCommand::Run { file, args, debug_on_fault, launches, .. } => {
            context.limits.hints = context.limits.check == Some(true);
            run::file(&file, args, debug_on_fault, &launches, context)
        }
        CliCommand::Debug { file, args, commands, test, launches } => {
            let script = debug::DebuggedScript { path: &file, args, test: test.as_deref(), launches };
            debug::main(script, commands, context)
        }
        CliCommand::Eval { text } => run::eval(&text, context),
        CliCommand::Check { files, proofs } => check::files(&files, proofs, context),
        CliCommand::Test { paths, filter, how } => {
            context.limits.check.get_or_insert(true);
            test::paths(&paths, filter.as_deref(), how, context)
        }
        CliCommand::Tune { file, kernel, limit } => tune::file(&file, kernel.as_deref(), limit, context),
        CliCommand::Bench { paths, filter, on_demand: true } => bench::on_demand(&paths, filter.as_deref(), context),
        CliCommand::Bench { paths, filter, on_demand: false } => bench::paths(&paths, filter.as_deref(), context),
        CliCommand::Emit { file, stage, kernel, architecture, lines } => {
            emit::file(&file, stage, &emit::EmitOptions { kernel: kernel.as_deref(), architecture, lines }, context)
        }
        CliCommand::Prove { file, kernel, certificates } => {
            prove::file(&file, kernel.as_deref(), certificates, context)
        }
        CliCommand::Why { file, element, levels, more, nan } => {
            why::file(&file, &element, levels, more.as_deref(), nan, context)
        }
        CliCommand::Profile { file, wanted } => profile::file(&file, &wanted, context),
        CliCommand::Explain { code } => explain::code(code.as_deref(), context),
        CliCommand::Doc { name } => doc::name(name.as_deref(), context),
        CliCommand::Site { out, own, paths } => doc_site::make(&out, &own, &paths, context),
        CliCommand::Fix { paths, dry_run, profile } => {
            fix::paths(&paths, fix::FixOptions { dry_run, profile }, context)
        }
        CliCommand::Stubs { file } => stubs::file(&file, context),
        CliCommand::Lsp => lsp::main(),
        CliCommand::Dap => dap::main(context),
        CliCommand::Mcp { options } => super::mcp::main(options, context),
        CliCommand::Import { files, coverage: true, .. } => import::coverage(&files, context),
        CliCommand::Import { files, output, script, .. } => import::files(&files, output.as_deref(), script, context),
        CliCommand::Fmt { paths, check, range } => fmt::paths(&paths, check, range, context),
        CliCommand::Cache { action } => cache::perform(action, context),
        CliCommand::Launch { job } => super::launch::main(&job, context),
        CliCommand::Doctor => doctor::report(context),
        CliCommand::New { path } => new::folder(&path, context),
        CliCommand::Fetch { folder, update } => fetch::folder(&folder, update, context),
        CliCommand::Watch { wanted } => watch::file(&wanted, context),
        CliCommand::Help { topic } => help::topic(topic.as_deref(), args::command(), context),
        CliCommand::Completions { shell } => install::completions(shell, args::command(), context),
        CliCommand::Man { folder } => install::man(&folder, args::command(), context),
        CliCommand::Repl { plain, startup } => {
            context.limits.check.get_or_insert(true);
            repl::main(plain, startup, context)
        }
    }
}
