//! `clk run` and `clk -e`.

use std::io::Read;
use std::path::Path;

use super::{args, stats};
use crate::app::context::Context;
use crate::app::progress::{self, Notes};
use crate::app::script::{self, Compiled};
use crate::app::world::Terminal;
use crate::app::{debug, disk, exit, proof, ranks};
use crate::base::diag::Diagnostic;
use crate::base::source::FileId;
use crate::compile::Session;
use crate::host::interp::Interpreter;
use crate::syntax::{self, token::Tok};

/// Runs a script file in several processes.
pub(crate) fn ranks(ranks: u32, path: &Path, context: &mut Context) -> u8 {
    if path == Path::new("-") {
        context
            .console
            .error_line("error: standard input has one script, and `--ranks` needs it several times: name a file");
        return exit::USAGE;
    }
    ranks::all(ranks, context)
}

/// Runs a script file; `-` is standard input.
pub(crate) fn file(path: &Path, args: Vec<String>, debug_on_fault: bool, context: &mut Context) -> u8 {
    if path == Path::new("-") {
        return stdin(args, context);
    }
    ranks::follow_launcher();
    let compiled = script::compile_file(path, &mut context.console);
    if let Some(compiled) = &compiled {
        misplaced(path, &args, compiled, context);
        if debug_on_fault {
            return debug::on_fault(path, compiled, args, context);
        }
    }
    finish(compiled, args, false, context)
}

/// Warns about options of Clk after the script's name, which go to the script, if the script does not read its arguments.
fn misplaced(path: &Path, words: &[String], compiled: &Compiled, context: &mut Context) {
    let Some(option) = words.iter().find_map(|word| args::option_named(word)) else { return };
    let program = &compiled.session.program;
    let main = compiled.session.main.and_then(|main| program.modules.get(main));
    let text = main.map_or("", |main| compiled.session.sources.text(main.file));
    let tokens = syntax::lex(FileId(0), text).tokens;
    if tokens.iter().any(|token| token.kind == Tok::Name && token.text(text) == "args") {
        return;
    }
    context.console.error_line(&format!(
        "note: `{option}` stands behind the script's name, so it is an argument of the script, which looks at none; \
         for Clk it stands before: `clk run {option} … {}`",
        path.display()
    ));
}

/// Runs standard input as a script.
pub(crate) fn stdin(args: Vec<String>, context: &mut Context) -> u8 {
    let mut bytes = Vec::new();
    let text = match std::io::stdin().lock().take(disk::MAX_SOURCE + 1).read_to_end(&mut bytes) {
        Ok(_) => disk::source_text(bytes),
        Err(error) => Err(disk::reason(&error)),
    };
    match text {
        Ok(text) => {
            let compiled = script::compile_text("<stdin>", &text, Path::new(""), &mut context.console);
            finish(compiled, args, false, context)
        }
        Err(why) => {
            let diagnostic = Diagnostic::error(disk::CODE, format!("standard input cannot be read: {why}"));
            context.console.report(&diagnostic, &Session::default().sources);
            exit::FAILURE
        }
    }
}

/// Runs a text and prints the value of its last expression.
pub(crate) fn eval(text: &str, context: &mut Context) -> u8 {
    let compiled = script::compile_text("<text>", text, Path::new(""), &mut context.console);
    finish(compiled, vec![], true, context)
}

fn finish(compiled: Option<Compiled>, args: Vec<String>, show_value: bool, context: &mut Context) -> u8 {
    let Some(compiled) = compiled else {
        context.console.summary();
        return exit::FAILURE;
    };
    let mut interpreter = context.limits.interpreter(&context.interrupt, args);
    let member = match ranks::enter(&compiled.session, context) {
        Ok(member) => member,
        Err(why) => {
            context.console.report(&Diagnostic::error("E0554", why), &compiled.session.sources);
            return script::failure_code(&context.interrupt);
        }
    };
    interpreter.group = member.clone().map(|member| member as _);
    let (mut failed, mut code) = run(&compiled, &mut interpreter, show_value, context);
    if let Some(member) = member {
        (failed, code) = ranks::leave(&member, failed, code, &compiled.session.sources);
    }
    if let Some(diagnostic) = failed {
        context.console.report(&diagnostic, &compiled.session.sources);
    }
    if let Some(copies) = &interpreter.copies {
        let lines = stats::copies(copies, &compiled.session.sources);
        let parts = stats::parts(&interpreter.shards);
        lines.iter().chain(&parts).chain(&interpreter.tuning.said).for_each(|line| context.console.error_line(line));
    }
    code
}

/// Runs all pieces; returns the diagnostic with which that ended, if it failed, and the exit code.
fn run(
    compiled: &Compiled,
    interpreter: &mut Interpreter,
    show_value: bool,
    context: &mut Context,
) -> (Option<Diagnostic>, u8) {
    for chunk in compiled.chunks.clone() {
        let json = context.console.json;
        let notes = || (!json).then(|| Notes::new(&compiled.session.sources, "`--check`"));
        let watch = progress::watch(&interpreter.options.control.progress, progress::OF_LAUNCHES, notes);
        let result = interpreter.run_chunk(&compiled.session, chunk, &mut Terminal { console: &mut context.console });
        drop(watch);
        let warnings = proof::beyond(
            interpreter,
            &compiled.session,
            result.as_ref().err().map(|failed| &**failed),
            &context.interrupt,
        );
        context.console.report_all(&warnings, &compiled.session.sources);
        if let Some(code) = interpreter.ended {
            return (None, code);
        }
        let text = result.and_then(|value| value.filter(|_| show_value).as_ref().map(script::shown).transpose());
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
