//! `clk tune`: measures the choices of tuned kernels with the launches of a program, and writes what is best beside the source.

use std::path::{Path, PathBuf};

use serde_json::json;

use crate::app::context::Context;
use crate::app::devices::Choice;
use crate::app::script::{self, Compiled};
use crate::app::tunings::{self, beside};
use crate::app::world::Captured;
use crate::app::{disk, exit, names, progress};
use crate::base::diag::Diagnostic;
use crate::base::escape;
use crate::check::typed::KernelId;
use crate::host::format;
use crate::host::interp::Interpreter;
use crate::host::tuned::file::File;
use crate::host::tuned::{self, Effort, Measured, Mode};

/// Seconds of measurements of one choice.
const BUDGET: f64 = 0.3;

/// A source with tuned kernels, and the file of their choices.
struct Target {
    source: String,
    path: PathBuf,
    old: Option<File>,
    /// All tuned kernels of the source.
    kernels: Vec<KernelId>,
    /// Those that are to be measured.
    wanted: Vec<KernelId>,
}

pub(crate) fn file(path: &Path, kernel: Option<&str>, limit: f64, context: &mut Context) -> u8 {
    if let Choice::Both(_) = context.device {
        context.console.error_line("error: `clk tune` measures one device: say `--device gpu` or `--device sim`");
        return exit::USAGE;
    }
    let Some(compiled) = script::compile_file(path, &mut context.console) else {
        context.console.summary();
        return exit::FAILURE;
    };
    let Some(targets) = targets(path, kernel, &compiled, context) else { return exit::FAILURE };
    let mut interpreter = context.limits.interpreter(&context.interrupt, vec![]);
    let machine = context.machine.clone();
    interpreter.tuning.mode = Mode::Measure(Effort { limit, budget: BUDGET });
    interpreter.tuning.wanted = targets.iter().flat_map(|target| target.wanted.clone()).collect();
    interpreter.tuning.end_kernels = Some(std::sync::Arc::new(move || {
        machine.stop_kernels();
    }));
    let watch = progress::watch(&interpreter.tuning.progress, "choices", || None);
    let ran = run(&compiled, &mut interpreter, context);
    drop(watch);
    let warnings = interpreter.take_warnings();
    context.console.report_all(&warnings, &compiled.session.sources);
    if let Err(diagnostic) = ran {
        context.console.report(&diagnostic, &compiled.session.sources);
        return script::failure_code(&context.interrupt);
    }
    report(&targets, &compiled, &interpreter.tuning.measured, context)
}

/// Returns the sources whose kernels are to be measured, with what their files say already.
fn targets(path: &Path, wanted: Option<&str>, compiled: &Compiled, context: &mut Context) -> Option<Vec<Target>> {
    let session = &compiled.session;
    let mut targets: Vec<Target> = vec![];
    for (id, kernel) in session.program.kernels.iter().filter(|(_, kernel)| !kernel.tunes.is_empty()) {
        let source = session.sources.name(kernel.span.file);
        let Some(beside) = beside(source) else { continue };
        match targets.iter_mut().find(|target| target.path == beside) {
            Some(target) => target.kernels.push(id),
            None => {
                let source = source.into();
                targets.push(Target { source, path: beside, old: None, kernels: vec![id], wanted: vec![] });
            }
        }
    }
    let name_of = |id: &KernelId| session.program.kernels[*id].name.as_str();
    let all: Vec<String> = targets.iter().flat_map(|t| t.kernels.iter().map(name_of)).map(String::from).collect();
    for target in &mut targets {
        let chosen = target.kernels.iter().filter(|id| wanted.is_none_or(|wanted| name_of(id) == wanted));
        target.wanted = chosen.copied().collect();
    }
    targets.retain(|target| !target.wanted.is_empty());
    if targets.is_empty() {
        let help = match wanted.and_then(|wanted| names::did_you_mean(wanted, all.iter().map(String::as_str))) {
            Some(meant) => meant,
            None => "list values behind a kernel's geometry: `tune BLOCK in [64, 128, 256]`".into(),
        };
        let what =
            wanted.map_or("kernel with a `tune` clause".into(), |name| format!("kernel `{name}` with a `tune` clause"));
        context.console.error_line(&format!("error: `{}` has no {what}\n  Help: {help}", path.display()));
        return None;
    }
    for target in &mut targets {
        let text = match std::fs::symlink_metadata(&target.path) {
            Ok(_) => disk::read_source(&target.path).map(Some),
            Err(_) => Ok(None),
        };
        let parsed = text.and_then(|text| {
            let file = text.map(|text| File::parse(&text)).transpose();
            file.map_err(|damage| format!("line {}: {}", damage.line, damage.why))
        });
        match parsed {
            Ok(old) => target.old = old,
            Err(why) => {
                let title = format!("`{}` is no file of choices: {why}", target.path.display());
                let d = Diagnostic::error("E0526", title)
                    .help("nothing is written over it: take it out or mend it, and try again");
                context.console.report(&d, &session.sources);
                return None;
            }
        }
    }
    Some(targets)
}

/// Runs the benches of the program once each; without one, its script.
fn run(compiled: &Compiled, interpreter: &mut Interpreter, context: &mut Context) -> Result<(), Box<Diagnostic>> {
    let (session, mut world) = (&compiled.session, Captured::default());
    let own = session.program.benches.iter().filter(|(_, bench)| Some(bench.module) == session.main);
    let benches: Vec<_> = own.map(|(id, bench)| (id, bench.uses_globals)).collect();
    if benches.is_empty() || benches.iter().any(|(_, uses_globals)| *uses_globals) {
        let mode = interpreter.tuning.mode;
        if !benches.is_empty() {
            // Only what the benches launch is measured.
            interpreter.tuning.mode = Mode::Take;
        }
        let ran = script::run_chunks(compiled, interpreter, &mut world);
        interpreter.tuning.mode = mode;
        if interpreter.ended != Some(exit::OK) {
            ran?;
        }
    }
    for (id, _) in benches {
        interpreter.repeat_bench(session, id, 1, &mut world)?;
        if context.interrupt.is_set() {
            break;
        }
    }
    Ok(())
}

/// Shows what was found, and writes the files.
fn report(targets: &[Target], compiled: &Compiled, measured: &[Measured], context: &mut Context) -> u8 {
    let session = &compiled.session;
    let mut code = exit::OK;
    for target in targets {
        let found: Vec<&Measured> = measured.iter().filter(|m| target.kernels.contains(&m.kernel)).collect();
        found.iter().for_each(|measured| show(measured, compiled, context));
        let missed = target.wanted.iter().filter(|id| !found.iter().any(|m| m.kernel == **id));
        let missed: Vec<String> = missed.map(|id| format!("`{}`", session.program.kernels[*id].name)).collect();
        if found.is_empty() {
            let plural = if missed.len() == 1 { "it is" } else { "they are" };
            context.console.error_line(&format!(
                "error: nothing launches {}\n  Help: {plural} measured with the launches of `bench` blocks, or of the script: write a bench with the sizes that matter",
                missed.join(", ")
            ));
            code = exit::FAILURE;
            continue;
        }
        if !missed.is_empty() && !context.console.json {
            context.console.error_line(&format!("note: nothing launches {}", missed.join(", ")));
        }
        let (file, notes) = tunings::merged(target.old.clone(), session, &target.kernels, &found);
        notes.iter().for_each(|note| context.console.error_line(&format!("note: {note}")));
        let name = Path::new(&target.source)
            .file_name()
            .map_or(target.source.clone(), |name| name.to_string_lossy().into_owned());
        match disk::write_whole(&target.path, file.text(&name).as_bytes()) {
            Ok(()) if context.console.json => {}
            Ok(()) => context.console.fact(&format!("wrote {}", target.path.display())),
            Err(why) => {
                context.console.report(&disk::unwritable(&target.path, &why), &session.sources);
                code = exit::FAILURE;
            }
        }
    }
    code
}

fn show(measured: &Measured, compiled: &Compiled, context: &mut Context) {
    let session = &compiled.session;
    let kernel = &session.program.kernels[measured.kernel];
    let place =
        format!("{}:{}", session.sources.name(measured.span.file), session.sources.line_column(measured.span).0);
    let console = &mut context.console;
    if console.json {
        for (at, (choice, outcome)) in measured.tried.iter().enumerate() {
            let line = json!({
                "kernel": kernel.name.as_str(), "device": measured.device, "class": measured.class, "at": measured.at,
                "launched": place, "choice": tuned::text(kernel, choice), "default": at == 0, "chosen": at == measured.best,
                "seconds": outcome.as_ref().ok(), "refused": outcome.as_ref().err(),
            });
            console.line(&escape::json(line.to_string()));
        }
        return;
    }
    let at = if measured.at.is_empty() { String::new() } else { format!(", {}", measured.at) };
    console.fact(&format!("{} on {}{at}, launched at {place}", kernel.name, measured.device));
    let texts: Vec<String> = measured.tried.iter().map(|(choice, _)| tuned::text(kernel, choice)).collect();
    let width = texts.iter().map(|text| text.chars().count()).max().unwrap_or(0);
    for (i, (text, (_, outcome))) in texts.iter().zip(&measured.tried).enumerate() {
        let what = match outcome {
            Ok(seconds) => format!("{:>9}", format::seconds(*seconds)),
            Err(why) => format!("  refused: {why}"),
        };
        let default = if i == 0 { "  default" } else { "" };
        let chosen = if i == measured.best { "  chosen" } else { "" };
        console.fact(&format!("  {text:<width$}  {what}{default}{chosen}"));
    }
}
