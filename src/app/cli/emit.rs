//! `clk emit`: prints a program at one stage of compilation.

use std::path::Path;

use super::args::EmitTarget;
use crate::context::AppContext;
use crate::generated::{EmitError, EmitStage, KernelEmitter};
use crate::script::{self, CompiledScript};
use crate::{crash, disk, exit, suggestions};
use clk_base::diag::Diagnostic;
use clk_base::source::SourceMap;
use clk_check::typed::{Kernel, KernelId};
use clk_compile::Session;

/// Options of `clk emit` other than the stage.
pub(crate) struct EmitOptions<'a> {
    /// The kernel to print; `None` for all kernels.
    pub kernel: Option<&'a str>,
    /// The compute capability, such as 90 for `sm_90`.
    pub architecture: Option<u32>,
    pub lines: bool,
}

pub(crate) fn file(path: &Path, stage: EmitTarget, wanted: &EmitOptions<'_>, context: &mut AppContext) -> u8 {
    let done = match stage {
        EmitTarget::Ast => ast(path, context),
        EmitTarget::Typed => typed(path, context),
        EmitTarget::Kernels(level) => kernels(path, level, wanted, context),
    };
    context.console.summary();
    if done.is_some() { exit::OK } else { exit::FAILURE }
}

/// Prints the syntax tree. Syntax errors do not prevent this, because the tree has nodes for them.
fn ast(path: &Path, context: &mut AppContext) -> Option<()> {
    let mut sources = SourceMap::default();
    let text = match disk::read_source(path) {
        Ok(text) => text,
        Err(why) => {
            context.console.report(&disk::unreadable(path, &why), &sources);
            return None;
        }
    };
    let file = sources.add(path.display().to_string(), text.as_str());
    let (tree, diagnostics) = clk_syntax::parse(file, &text);
    context.console.print(&clk_syntax::dump(&tree));
    context.console.report_all(&diagnostics, &sources);
    (!diagnostics.iter().any(|d| d.is_error())).then_some(())
}

fn typed(path: &Path, context: &mut AppContext) -> Option<()> {
    let CompiledScript { session, .. } = script::compile_file(path, &mut context.console)?;
    let text = clk_check::dump(&session.program, session.main?);
    context.console.print(&text);
    Some(())
}

fn kernels(path: &Path, level: EmitStage, wanted: &EmitOptions<'_>, context: &mut AppContext) -> Option<()> {
    let CompiledScript { session, .. } = script::compile_file(path, &mut context.console)?;
    let own: Vec<(KernelId, &Kernel)> = session.program.kernels_of(session.main).collect();
    let selected: Vec<_> = own.iter().filter(|(_, k)| wanted.kernel.is_none_or(|name| k.name == name)).collect();
    if let (Some(name), true) = (wanted.kernel, selected.is_empty()) {
        let help = suggestions::did_you_mean(name, own.iter().map(|(_, k)| k.name.as_str()))
            .map(|meant| format!("\n  Help: {meant}"))
            .unwrap_or_default();
        context.console.error_line(&format!("error: `{}` has no kernel `{name}`{help}", path.display()));
        return None;
    }
    let limits = &context.limits;
    let generator = KernelEmitter::new(context.text, wanted.architecture);
    let generator = generator.checking(limits.checks()).adding(limits.sums, context.machine.requires_exact_mma());
    let (mut whole, mut said) = (Some(()), String::new());
    for (id, kernel) in selected {
        match generator.kernel(&session, *id, level, wanted.lines) {
            Ok(text) => context.console.print(&text),
            // Without `--kernel`, prints the tile programs of the file.
            Err(EmitError::NoTiles { why, statements }) if wanted.kernel.is_none() => {
                context.console.line(&format!("// kernel {}: no tile program: {why}", kernel.name));
                context.console.print(&statements);
            }
            Err(failure) => {
                whole = whole.filter(|()| matches!(failure, EmitError::Open));
                report_failure(&failure, kernel, &session, &mut said, context);
            }
        }
    }
    whole
}

/// Reports why no code was generated. `said` is the last problem with a tool that was reported; the same problem is not
/// reported again.
fn report_failure(
    failure: &EmitError,
    kernel: &Kernel,
    session: &Session,
    said: &mut String,
    context: &mut AppContext,
) {
    let (name, console) = (&kernel.name, &mut context.console);
    match failure {
        EmitError::Program(diagnostics) => console.report_all(diagnostics, &session.sources),
        EmitError::Open => {
            console.line(&format!("// kernel {name}: left out, since a compile-time parameter of it has no default"));
        }
        EmitError::NoTiles { why, .. } => console.error_line(&format!("error: `{name}` has no tile program: {why}")),
        EmitError::Tool { what, help, shown } => {
            console.print(shown);
            if said != what {
                console.error_line(&format!("error: {what}\n  Help: {help}"));
                said.clone_from(what);
            }
        }
        EmitError::Internal(why) => {
            let title = format!("internal error while `{name}` was prepared: {why}");
            console.report(&Diagnostic::error(crash::CODE, title), &session.sources);
        }
    }
}
