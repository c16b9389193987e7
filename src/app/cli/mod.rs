//! The command line: one module per command; each command returns an exit code.

mod args;
mod bench;
mod cache;
mod check;
mod doc;
mod doctor;
mod emit;
mod explain;
mod fetch;
mod fix;
mod fmt;
mod help;
mod install;
mod launch;
mod new;
mod profile;
mod prove;
mod run;
mod site;
mod stats;
mod stubs;
mod test;
mod tune;
mod watch;
mod why;
mod words;

use self::args::Task;
use super::console::Console;
use super::context::Context;
use super::devices::Machine;
use super::interrupt::Interrupt;
use super::script::Places;
use super::{dap, debug, exit, lsp, ranks, repl};
use crate::lower::Sums;
use std::ffi::OsString;

pub(crate) use self::bench::summary as bench_summary;
pub(crate) use self::doc::{group_title, imported, is_own, item as documented_item, lookup as documentation};
pub(crate) use self::explain::page as explanation;
pub(crate) use self::profile::of_session as profile_of_session;
pub(crate) use self::run::stdin as run_stdin;

/// Parses the command line and runs the command.
pub(crate) fn main(arguments: Vec<OsString>) -> u8 {
    #[cfg(target_os = "linux")]
    if let Some(code) = super::isolate::as_child(&arguments) {
        return code;
    }
    let cli = match args::parse(arguments) {
        Ok(cli) => cli,
        Err(answer) => {
            let code = if answer.use_stderr() { exit::USAGE } else { exit::OK };
            // A closed pipe is no failure for help.
            let _ = answer.print();
            return code;
        }
    };
    let interrupt = Interrupt::listen();
    let mut console = Console::new(cli.look);
    let (text, isa, jit) = (cli.usage.text.clone(), cli.usage.isa, cli.usage.jit);
    let machine = Machine::new(cli.usage);
    machine.set_isolation(cli.isolate);
    let mut limits = cli.limits;
    limits.count_copies = cli.stats;
    if let (Task::Run { .. }, Ok(Some(place))) = (&cli.task, ranks::place()) {
        machine.prefer_gpu(place.local);
    }
    if cli.task.runs() {
        match machine.choose(cli.device) {
            Ok(device) => limits.places = Places { device: Some(device), all: Some(machine.clone()) },
            Err(error) => {
                console.error_line(&format!("error: {error}\n  Help: leave `--device` off, or say `--device sim`"));
                return exit::NO_DEVICE;
            }
        }
    }
    if cli.task.runs() && limits.sums == Sums::Rounded {
        console.error_line("note: `mma` adds in `f32` (--fast-mma): the last bits are not those of tensor cores");
    }
    let mut context = Context { console, interrupt, limits, text, machine, device: cli.device, isa, jit };
    let code = perform(cli.task, &mut context);
    if let (true, Some(device)) = (cli.stats, &context.limits.places.device) {
        context.console.error_line(&stats::line(&**device));
    }
    context.console.flush();
    // An internal error takes precedence over a failure of the program.
    if code == exit::FAILURE && context.console.internal { exit::INTERNAL } else { code }
}

fn perform(task: Task, context: &mut Context) -> u8 {
    if task.runs() {
        let machine = context.machine.clone();
        context.interrupt.at_second(move || machine.stop_kernels());
    }
    match task {
        Task::Run { ranks: Some(ranks), file, .. } if !ranks::is_launched() => run::ranks(ranks, &file, context),
        Task::Run { file, args, debug_on_fault, .. } => {
            context.limits.hints = context.limits.check == Some(true);
            run::file(&file, args, debug_on_fault, context)
        }
        Task::Debug { file, args, commands } => debug::main(&file, args, commands, context),
        Task::Eval { text } => run::eval(&text, context),
        Task::Check { files } => check::files(&files, context),
        Task::Test { paths, filter, how } => {
            context.limits.check.get_or_insert(true);
            test::paths(&paths, filter.as_deref(), how, context)
        }
        Task::Tune { file, kernel, limit } => tune::file(&file, kernel.as_deref(), limit, context),
        Task::Bench { paths, filter, on_demand: true } => bench::on_demand(&paths, filter.as_deref(), context),
        Task::Bench { paths, filter, on_demand: false } => bench::paths(&paths, filter.as_deref(), context),
        Task::Emit { file, stage, kernel, architecture, lines } => {
            emit::file(&file, stage, &emit::Wanted { kernel: kernel.as_deref(), architecture, lines }, context)
        }
        Task::Prove { file, kernel, certificates } => prove::file(&file, kernel.as_deref(), certificates, context),
        Task::Why { file, element, levels, more, nan } => {
            why::file(&file, &element, (levels, more.as_deref()), nan, context)
        }
        Task::Profile { file, wanted } => profile::file(&file, &wanted, context),
        Task::Explain { code } => explain::code(code.as_deref(), context),
        Task::Doc { name } => doc::name(name.as_deref(), context),
        Task::Site { out, own, paths } => site::make(&out, &own, &paths, context),
        Task::Fix { paths, dry_run, profile } => fix::paths(&paths, fix::Manner { dry_run, profile }, context),
        Task::Stubs { file } => stubs::file(&file, context),
        Task::Lsp => lsp::main(),
        Task::Dap => dap::main(context),
        Task::Fmt { paths, check, range } => fmt::paths(&paths, check, range, context),
        Task::Cache { action } => cache::perform(action, context),
        Task::Launch { job } => super::launch::main(&job, context),
        Task::Doctor => doctor::report(context),
        Task::New { path } => new::folder(&path, context),
        Task::Fetch { folder, update } => fetch::folder(&folder, update, context),
        Task::Watch { wanted } => watch::file(&wanted, context),
        Task::Help { topic } => help::topic(topic.as_deref(), args::command(), context),
        Task::Completions { shell } => install::completions(shell, args::command(), context),
        Task::Man { folder } => install::man(&folder, args::command(), context),
        Task::Repl { plain, startup } => {
            context.limits.check.get_or_insert(true);
            repl::main(plain, startup, context)
        }
    }
}
