//! The command line: one file per command, each of which returns an exit code.

mod args;
mod bench;
mod check;
mod doc;
mod emit;
mod explain;
mod fix;
mod fmt;
mod run;
mod test;

use std::ffi::OsString;

use self::args::{Cli, Task};
use super::console::Console;
use super::interrupt::Interrupt;
use super::script::Limits;
use super::{exit, lsp, repl};

pub use self::doc::lookup as documentation;
pub use self::explain::page as explanation;

/// Runs all of standard input as a script.
pub fn run_stdin(context: &mut Context) -> u8 {
    run::stdin(vec![], context)
}

/// What every command has at hand.
pub struct Context {
    pub console: Console,
    pub interrupt: Interrupt,
    pub limits: Limits,
}

/// Reads the command line and does what it says.
pub fn main(arguments: Vec<OsString>) -> u8 {
    let cli = match args::parse(arguments) {
        Ok(cli) => cli,
        Err(answer) => {
            let code = if answer.use_stderr() { exit::USAGE } else { exit::OK };
            // Help that nobody reads any more is no failure.
            let _ = answer.print();
            return code;
        }
    };
    let mut console = Console::new(cli.look);
    if let Some(complaint) = no_device(&cli) {
        console.error_line(&complaint);
        return exit::NO_DEVICE;
    }
    let mut context = Context { console, interrupt: Interrupt::default(), limits: cli.limits };
    let code = perform(cli.task, &mut context);
    context.console.flush();
    code
}

fn perform(task: Task, context: &mut Context) -> u8 {
    match task {
        Task::Run { .. } | Task::Eval { .. } | Task::Test { .. } | Task::Bench { .. } | Task::Repl { .. } => {
            context.interrupt = Interrupt::listen();
        }
        Task::Check { .. }
        | Task::Emit { .. }
        | Task::Explain { .. }
        | Task::Doc { .. }
        | Task::Fmt { .. }
        | Task::Fix { .. }
        | Task::Lsp => {}
    }
    match task {
        Task::Run { file, args } => run::file(&file, args, context),
        Task::Eval { text } => run::eval(&text, context),
        Task::Check { files } => check::files(&files, context),
        Task::Test { paths, filter } => test::paths(&paths, filter.as_deref(), context),
        Task::Bench { paths, filter, on_demand: true } => bench::on_demand(&paths, filter.as_deref(), context),
        Task::Bench { paths, filter, on_demand: false } => bench::paths(&paths, filter.as_deref(), context),
        Task::Emit { file, stage, kernel, text } => emit::file(&file, stage, kernel.as_deref(), text, context),
        Task::Explain { code } => explain::code(code.as_deref(), context),
        Task::Doc { name } => doc::name(name.as_deref(), context),
        Task::Fix { paths, dry_run } => fix::paths(&paths, dry_run, context),
        Task::Lsp => lsp::main(),
        Task::Fmt { paths, check, range } => fmt::paths(&paths, check, range, context),
        Task::Repl { plain } => repl::main(plain, context),
    }
}

fn no_device(cli: &Cli) -> Option<String> {
    (cli.device != "sim").then(|| {
        let known = if cli.device.starts_with("gpu") { "no GPU support in this build" } else { "no such device" };
        format!("error: device `{}`: {known}\n  Help: leave `--device` off, or say `--device sim`", cli.device)
    })
}
