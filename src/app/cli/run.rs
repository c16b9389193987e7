//! `clk run` and `clk -e`.

use std::io::Read;
use std::path::Path;

use super::{args, stats};
use crate::context::AppContext;
use crate::cuda_launches::{self, CudaLaunchOptions};
use crate::effects::TerminalEffects;
use crate::progress::{self, StallNotes};
use crate::script::{self, CompiledScript};
use crate::{debug, disk, exit, proof, ranks};
use clk_base::diag::Diagnostic;
use clk_base::source::FileId;
use clk_compile::Session;
use clk_host::interp::Interpreter;
use clk_syntax::token::Tok;

/// Runs a script file in several processes (`--ranks`).
pub(crate) fn ranks(ranks: u32, path: &Path, context: &mut AppContext) -> u8 {
    if path == Path::new("-") {
        context
            .console
            .error_line("error: standard input has one script, and `--ranks` needs it several times: name a file");
        return exit::USAGE;
    }
    ranks::run_ranks(ranks, context)
}

/// Runs a script file. The name `-` means standard input, except in a confined process, whose standard input belongs to
/// the server.
pub(crate) fn file(
    path: &Path,
    args: Vec<String>,
    debug_on_fault: bool,
    launches: &CudaLaunchOptions,
    context: &mut AppContext,
) -> u8 {
    if path == Path::new("-") && !disk::is_confined() {
        return stdin(args, context);
    }
    ranks::follow_launcher();
    let compiled = script::compile_file(path, &mut context.console);
    let compiled = match compiled {
        Some(compiled) if compiled.is_cuda() && debug_on_fault => {
            return debug::cuda_faults(path, compiled, launches, context);
        }
        Some(compiled) if compiled.is_cuda() => return cuda_launches::report::run(compiled, launches, context),
        compiled => compiled,
    };
    if let Err(why) = launches.for_clk_program() {
        context.console.error_line(&why.to_string());
        return exit::USAGE;
    }
    if let Some(compiled) = &compiled {
        warn_misplaced_option(path, &args, compiled, context);
        if debug_on_fault {
            return debug::on_fault(path, compiled, args, context);
        }
    }
    run_compiled(compiled, args, false, context)
}

/// Warns if an option of Clk follows the script's name and the script does not read its arguments.
fn warn_misplaced_option(path: &Path, words: &[String], compiled: &CompiledScript, context: &mut AppContext) {
    let Some(option) = words.iter().find_map(|word| args::option_named(word)) else { return };
    let program = &compiled.session.program;
    let main = compiled.session.main.and_then(|main| program.modules.get(main));
    let text = main.map_or("", |main| compiled.session.sources.text(main.file));
    let tokens = clk_syntax::lex(FileId(0), text).tokens;
    if tokens.iter().any(|token| token.kind == Tok::Name && token.text(text) == "args") {
        return;
    }
    context.console.error_line(&format!(
        "note: `{option}` follows the script's name, so it is an argument of the script, which does not read `args`; \
         to pass it to Clk, write `clk run {option} … {}`",
        path.display()
    ));
}

/// Runs standard input as a script.
pub(crate) fn stdin(args: Vec<String>, context: &mut AppContext) -> u8 {
    let mut bytes = Vec::new();
    let text = match std::io::stdin().lock().take(disk::MAX_SOURCE + 1).read_to_end(&mut bytes) {
        Ok(_) => disk::source_text(bytes),
        Err(error) => Err(error.into()),
    };
    match text {
        Ok(text) => {
            let compiled = script::compile_text("<stdin>", &text, Path::new(""), &mut context.console);
            run_compiled(compiled, args, false, context)
        }
        Err(why) => {
            let diagnostic = Diagnostic::error(disk::CODE, format!("standard input cannot be read: {why}"));
            context.console.report(&diagnostic, &Session::default().sources);
            exit::FAILURE
        }
    }
}

/// Runs a program text and prints the value of its last expression.
pub(crate) fn eval(text: &str, context: &mut AppContext) -> u8 {
    let compiled = script::compile_text("<text>", text, Path::new(""), &mut context.console);
    run_compiled(compiled, vec![], true, context)
}

fn run_compiled(compiled: Option<CompiledScript>, args: Vec<String>, show_value: bool, context: &mut AppContext) -> u8 {
    let Some(compiled) = compiled else {
        context.console.summary();
        return exit::FAILURE;
    };
    let mut interpreter = context.limits.interpreter(&context.interrupt, args);
    let member = match ranks::join(&compiled.session, context) {
        Ok(member) => member,
        Err(why) => {
            context.console.report(&Diagnostic::error("E0554", why.to_string()), &compiled.session.sources);
            return script::failure_code(&context.interrupt);
        }
    };
    interpreter.ranks.communicator = member.clone().map(|member| member as _);
    let (mut failed, mut code) = run(&compiled, &mut interpreter, show_value, context);
    if let Some(member) = member {
        (failed, code) = ranks::leave(&member, failed, code, &compiled.session.sources);
    }
    if let Some(diagnostic) = failed {
        context.console.report(&diagnostic, &compiled.session.sources);
    }
    if let Some(copies) = &interpreter.copy_statistics {
        let lines = stats::copy_lines(copies, &compiled.session.sources);
        let parts = stats::shard_line(&interpreter.device_pool.shard_counters);
        lines.iter().chain(&parts).chain(&interpreter.tuning.notices).for_each(|line| context.console.error_line(line));
    }
    code
}

/// Runs all chunks of a script. Returns the exit code and, if a chunk failed, the diagnostic.
fn run(
    compiled: &CompiledScript,
    interpreter: &mut Interpreter,
    show_value: bool,
    context: &mut AppContext,
) -> (Option<Diagnostic>, u8) {
    for chunk in compiled.chunks.clone() {
        let is_json = context.console.is_json();
        let notes = || (!is_json).then(|| StallNotes::new(&compiled.session.sources, "`--check`"));
        let watch = progress::watch(&interpreter.options.control.progress, progress::OF_LAUNCHES, notes);
        let result =
            interpreter.run_chunk(&compiled.session, chunk, &mut TerminalEffects { console: &mut context.console });
        drop(watch);
        let warnings = proof::unproved_warnings(
            interpreter,
            &compiled.session,
            result.as_ref().err().map(|failed| &**failed),
            &context.interrupt,
        );
        context.console.report_all(&warnings, &compiled.session.sources);
        if let Some(code) = interpreter.exit_code {
            return (None, code);
        }
        let text = result.and_then(|value| value.filter(|_| show_value).as_ref().map(script::format_value).transpose());
        match text {
            Ok(Some(text)) => context.console.line(&text),
            Ok(None) => {}
            Err(diagnostic) => {
                return (Some(*diagnostic), script::failure_code(&context.interrupt));
            }
        }
    }
    (None, exit::OK)
}
