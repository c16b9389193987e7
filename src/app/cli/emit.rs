//! `clk emit`: prints a program at each stage of the compiler.

use std::path::Path;

use super::args::Stage;
use crate::app::context::Context;
use crate::app::generated::{Failure, Generator, Level};
use crate::app::script::{self, Compiled};
use crate::app::{crash, disk, exit, names};
use crate::base::diag::Diagnostic;
use crate::base::source::Sources;
use crate::check::typed::{Kernel, KernelId};
use crate::compile::Session;
use crate::{check, syntax};

/// Options of `clk emit` beside the stage.
pub(crate) struct Wanted<'a> {
    /// All kernels if `None`.
    pub kernel: Option<&'a str>,
    /// The compute capability, 90 for `sm_90`.
    pub architecture: Option<u32>,
    pub lines: bool,
}

pub(crate) fn file(path: &Path, stage: Stage, wanted: &Wanted<'_>, context: &mut Context) -> u8 {
    let done = match stage {
        Stage::Ast => ast(path, context),
        Stage::Typed => typed(path, context),
        Stage::Kernels(level) => kernels(path, level, wanted, context),
    };
    context.console.summary();
    if done.is_some() { exit::OK } else { exit::FAILURE }
}

/// Prints the syntax tree, even after syntax errors: it has nodes for them.
fn ast(path: &Path, context: &mut Context) -> Option<()> {
    let mut sources = Sources::default();
    let text = match disk::read_source(path) {
        Ok(text) => text,
        Err(why) => {
            context.console.report(&disk::unreadable(path, &why), &sources);
            return None;
        }
    };
    let file = sources.add(path.display().to_string(), text.as_str());
    let (tree, diagnostics) = syntax::parse(file, &text);
    context.console.print(&syntax::dump(&tree));
    context.console.report_all(&diagnostics, &sources);
    (!diagnostics.iter().any(|d| d.is_error())).then_some(())
}

fn typed(path: &Path, context: &mut Context) -> Option<()> {
    let Compiled { session, .. } = script::compile_file(path, &mut context.console)?;
    let text = check::dump(&session.program, session.main?);
    context.console.print(&text);
    Some(())
}

fn kernels(path: &Path, level: Level, wanted: &Wanted<'_>, context: &mut Context) -> Option<()> {
    let Compiled { session, .. } = script::compile_file(path, &mut context.console)?;
    let own: Vec<(KernelId, &Kernel)> = session.program.kernels_of(session.main).collect();
    let found: Vec<_> = own.iter().filter(|(_, k)| wanted.kernel.is_none_or(|name| k.name == name)).collect();
    if let (Some(name), true) = (wanted.kernel, found.is_empty()) {
        let help = names::did_you_mean(name, own.iter().map(|(_, k)| k.name.as_str()))
            .map(|meant| format!("\n  Help: {meant}"))
            .unwrap_or_default();
        context.console.error_line(&format!("error: `{}` has no kernel `{name}`{help}", path.display()));
        return None;
    }
    let limits = &context.limits;
    let generator = Generator::new(context.text.clone(), wanted.architecture);
    let generator = generator.checking(limits.checks()).adding(limits.sums, context.machine.relies());
    let (mut whole, mut said) = (Some(()), String::new());
    for (id, kernel) in found {
        match generator.kernel(&session, *id, level, wanted.lines) {
            Ok(text) => context.console.print(&text),
            Err(failure) => {
                whole = whole.filter(|()| matches!(failure, Failure::Open));
                failed(&failure, kernel, &session, &mut said, context);
            }
        }
    }
    whole
}

/// Reports a failure. The same missing tool is reported only once; `said` is the last one reported.
fn failed(failure: &Failure, kernel: &Kernel, session: &Session, said: &mut String, context: &mut Context) {
    let (name, console) = (&kernel.name, &mut context.console);
    match failure {
        Failure::Program(diagnostics) => console.report_all(diagnostics, &session.sources),
        Failure::Open => {
            console.line(&format!("// kernel {name}: left out, since a compile-time parameter of it has no default"));
        }
        Failure::Tool { what, help, shown } => {
            console.print(shown);
            if said != what {
                console.error_line(&format!("error: {what}\n  Help: {help}"));
                said.clone_from(what);
            }
        }
        Failure::Internal(why) => {
            let title = format!("internal error while `{name}` was prepared: {why}");
            console.report(&Diagnostic::error(crash::CODE, title), &session.sources);
        }
    }
}
