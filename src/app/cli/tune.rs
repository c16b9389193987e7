//! `clk tune`: measures all configurations of tuned kernels in the launches of a program. Writes the fastest ones to a
//! file next to the source.

use std::error::Error;
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::context::AppContext;
use crate::devices::DeviceChoice;
use crate::effects::CapturedEffects;
use crate::script::{self, CompiledScript};
use crate::tuning_files::{self, tuning_path};
use crate::{disk, exit, progress, suggestions};
use clk_base::diag::Diagnostic;
use clk_base::render;
use clk_check::typed::KernelId;
use clk_host::format;
use clk_host::interp::Interpreter;
use clk_host::tuned::file::TunedFile;
use clk_host::tuned::{self, Effort, TuningMode, TuningResult};

/// How long to measure one configuration, in seconds.
const BUDGET: f64 = 0.3;

/// A source file with tuned kernels, and the file in which their configurations are stored.
struct TuneTarget {
    source: String,
    path: PathBuf,
    existing: Option<TunedFile>,
    /// All tuned kernels of the source.
    kernels: Vec<KernelId>,
    /// The kernels to measure.
    selected: Vec<KernelId>,
}

pub(crate) fn file(path: &Path, kernel: Option<&str>, limit: f64, context: &mut AppContext) -> u8 {
    if let DeviceChoice::Both(_) = context.device {
        context.console.error_line("error: `clk tune` measures one device: say `--device gpu` or `--device sim`");
        return exit::USAGE;
    }
    let Some(compiled) = script::compile_file(path, &mut context.console) else {
        context.console.summary();
        return exit::FAILURE;
    };
    let Some(targets) = find_targets(path, kernel, &compiled, context) else { return exit::FAILURE };
    let mut interpreter = context.limits.interpreter(&context.interrupt, vec![]);
    let machine = context.machine.clone();
    interpreter.tuning.mode = TuningMode::Measure(Effort { limit, budget: BUDGET });
    interpreter.tuning.kernels_to_measure = targets.iter().flat_map(|target| target.selected.clone()).collect();
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

/// Returns the sources with kernels to measure, each with the content of its existing configuration file.
fn find_targets(
    path: &Path,
    wanted: Option<&str>,
    compiled: &CompiledScript,
    context: &mut AppContext,
) -> Option<Vec<TuneTarget>> {
    let session = &compiled.session;
    let mut targets: Vec<TuneTarget> = vec![];
    for (id, kernel) in session.program.kernels.iter().filter(|(_, kernel)| !kernel.tunes.is_empty()) {
        let source = session.sources.name(kernel.span.file);
        let Some(tuning_path) = tuning_path(source) else { continue };
        match targets.iter_mut().find(|target| target.path == tuning_path) {
            Some(target) => target.kernels.push(id),
            None => {
                let source = source.into();
                targets.push(TuneTarget {
                    source,
                    path: tuning_path,
                    existing: None,
                    kernels: vec![id],
                    selected: vec![],
                });
            }
        }
    }
    let name_of = |id: &KernelId| session.program.kernels[*id].name.as_str();
    let all: Vec<String> = targets.iter().flat_map(|t| t.kernels.iter().map(name_of)).map(String::from).collect();
    for target in &mut targets {
        let chosen = target.kernels.iter().filter(|id| wanted.is_none_or(|wanted| name_of(id) == wanted));
        target.selected = chosen.copied().collect();
    }
    targets.retain(|target| !target.selected.is_empty());
    if targets.is_empty() {
        let help = match wanted.and_then(|wanted| suggestions::did_you_mean(wanted, all.iter().map(String::as_str))) {
            Some(meant) => meant,
            None => "list values after a kernel's geometry: `tune BLOCK in [64, 128, 256]`".into(),
        };
        let description =
            wanted.map_or("kernel with a `tune` clause".into(), |name| format!("kernel `{name}` with a `tune` clause"));
        context.console.error_line(&format!("error: `{}` has no {description}\n  Help: {help}", path.display()));
        return None;
    }
    for target in &mut targets {
        let read = || -> Result<Option<TunedFile>, Box<dyn Error>> {
            let exists = std::fs::symlink_metadata(&target.path).is_ok();
            if exists { Ok(Some(TunedFile::parse(&disk::read_source(&target.path)?)?)) } else { Ok(None) }
        };
        match read() {
            Ok(old) => target.existing = old,
            Err(why) => {
                let title = format!("`{}` is not a tuning file: {why}", target.path.display());
                let d = Diagnostic::error("E0526", title)
                    .help("nothing is written over it: take it out or mend it, and try again");
                context.console.report(&d, &session.sources);
                return None;
            }
        }
    }
    Some(targets)
}

/// Runs each bench of the program once. If the program has no benches, runs its script.
fn run(
    compiled: &CompiledScript,
    interpreter: &mut Interpreter,
    context: &mut AppContext,
) -> Result<(), Box<Diagnostic>> {
    let (session, mut world) = (&compiled.session, CapturedEffects::default());
    let own = session.program.benches.iter().filter(|(_, bench)| Some(bench.module) == session.main);
    let benches: Vec<_> = own.map(|(id, bench)| (id, bench.uses_globals)).collect();
    if benches.is_empty() || benches.iter().any(|(_, uses_globals)| *uses_globals) {
        let mode = interpreter.tuning.mode;
        if !benches.is_empty() {
            // Only launches in benches are measured, not launches in the script itself.
            interpreter.tuning.mode = TuningMode::UseRecorded;
        }
        let ran = script::run_chunks(compiled, interpreter, &mut world);
        interpreter.tuning.mode = mode;
        if interpreter.exit_code != Some(exit::OK) {
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

/// Shows the measurements and writes them to the files.
fn report(
    targets: &[TuneTarget],
    compiled: &CompiledScript,
    measured: &[TuningResult],
    context: &mut AppContext,
) -> u8 {
    let session = &compiled.session;
    let mut code = exit::OK;
    for target in targets {
        let results: Vec<&TuningResult> = measured.iter().filter(|m| target.kernels.contains(&m.kernel)).collect();
        results.iter().for_each(|measured| show(measured, compiled, context));
        let missed = target.selected.iter().filter(|id| !results.iter().any(|m| m.kernel == **id));
        let missed: Vec<String> = missed.map(|id| format!("`{}`", session.program.kernels[*id].name)).collect();
        if results.is_empty() {
            let plural = if missed.len() == 1 { "it is" } else { "they are" };
            context.console.error_line(&format!(
                "error: nothing launches {}\n  Help: {plural} measured with the launches of `bench` blocks, or of the script: write a bench with the sizes that matter",
                missed.join(", ")
            ));
            code = exit::FAILURE;
            continue;
        }
        if !missed.is_empty() && context.console.is_human() {
            context.console.error_line(&format!("note: nothing launches {}", missed.join(", ")));
        }
        let (file, notes) =
            tuning_files::merge_measurements(target.existing.clone(), session, &target.kernels, &results);
        notes.iter().for_each(|note| context.console.error_line(&format!("note: {note}")));
        let name = Path::new(&target.source)
            .file_name()
            .map_or(target.source.clone(), |name| name.to_string_lossy().into_owned());
        match disk::write_atomically(&target.path, file.text(&name).as_bytes()) {
            Ok(()) if context.console.is_json() => {}
            Ok(()) => context.console.fact(&format!("wrote {}", target.path.display())),
            Err(why) => {
                context.console.report(&disk::unwritable(&target.path, &why), &session.sources);
                code = exit::FAILURE;
            }
        }
    }
    code
}

fn show(measured: &TuningResult, compiled: &CompiledScript, context: &mut AppContext) {
    let session = &compiled.session;
    let kernel = &session.program.kernels[measured.kernel];
    let console = &mut context.console;
    if console.is_json() {
        for (at, (choice, outcome)) in measured.candidates.iter().enumerate() {
            let line = json!({
                "kernel": kernel.name.as_str(), "device": measured.device, "class": measured.class, "sizes": measured.sizes,
                "launched": render::place_json(measured.span, &session.sources), "choice": tuned::choice_text(kernel, choice), "default": at == 0, "chosen": at == measured.best,
                "seconds": outcome.as_ref().ok(), "refused": outcome.as_ref().err(),
            });
            console.record("choice", line);
        }
        return;
    }
    let place =
        format!("{}:{}", session.sources.name(measured.span.file), session.sources.line_column(measured.span).0);
    let at = if measured.sizes.is_empty() { String::new() } else { format!(", {}", measured.sizes) };
    console.fact(&format!("{} on {}{at}, launched at {place}", kernel.name, measured.device));
    let texts: Vec<String> = measured.candidates.iter().map(|(choice, _)| tuned::choice_text(kernel, choice)).collect();
    let width = texts.iter().map(|text| text.chars().count()).max().unwrap_or(0);
    for (i, (text, (_, outcome))) in texts.iter().zip(&measured.candidates).enumerate() {
        let result = match outcome {
            Ok(seconds) => format!("{:>9}", format::seconds(*seconds)),
            Err(why) => format!("  refused: {why}"),
        };
        let default = if i == 0 { "  default" } else { "" };
        let chosen = if i == measured.best { "  chosen" } else { "" };
        console.fact(&format!("  {text:<width$}  {result}{default}{chosen}"));
    }
}
