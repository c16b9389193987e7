//! `clk profile`: runs a program on the simulator, and says what its kernels cost a GPU.

use std::path::Path;

use crate::app::console::Console;
use crate::app::context::Context;
use crate::app::generated::Generator;
use crate::app::profile::advice::{KernelIds, advice_for, names_of_gpus, resources};
use crate::app::profile::{Shown, expressions};
use crate::app::progress::{self, Notes};
use crate::app::script::{self, Compiled};
use crate::app::world::Terminal;
use crate::app::{exit, names};
use crate::base::diag::Diagnostic;
use crate::base::escape;
use crate::compile::Session;
use crate::device::profile::{Counted, Counting, Profile};
use crate::host::interp::Interpreter;
use crate::profile::devices::{GPUS, Gpu, find};
use crate::profile::repair::Kernels;

/// Options of `clk profile` beside the file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wanted {
    /// All kernels if `None`.
    pub kernel: Option<String>,
    /// The GPU of the bounds.
    pub gpu: Option<String>,
    /// Count about so many blocks of a launch.
    pub blocks: Option<u64>,
    /// Also run the `bench` or `test` blocks whose names contain it.
    pub bench: Option<String>,
    pub test: Option<String>,
    /// Also count array expressions.
    pub expressions: bool,
}

pub(crate) fn file(path: &Path, wanted: &Wanted, context: &mut Context) -> u8 {
    let Some(gpu) = gpu(wanted, context) else { return exit::USAGE };
    let Some(compiled) = script::compile_file(path, &mut context.console) else {
        context.console.summary();
        return exit::FAILURE;
    };
    let (ran, session) = (run(&compiled, wanted, context), &compiled.session);
    let generator = Generator::new(context.text.clone(), Some(gpu.limits.architecture));
    let chosen = |profile: &&Profile| {
        profile.of == Counted::Expression || wanted.kernel.as_deref().is_none_or(|name| is_named(&profile.kernel, name))
    };
    let shown: Vec<&Profile> = ran.profiles.iter().filter(chosen).collect();
    if shown.is_empty() && ran.code == exit::OK {
        return nothing(&ran.profiles, wanted, context);
    }
    let kernels = Kernels::new(&session.sources);
    let ids = KernelIds::of(session);
    for profile in &shown {
        if profile.of == Counted::Expression && !context.console.json {
            continue;
        }
        let resources = resources(&generator, session, ids.find(&kernels, profile), profile);
        let text = Shown { profile, resources, gpu, sources: &session.sources, kernels: &kernels };
        match context.console.json {
            true => context.console.line(&escape::json(text.json().to_string())),
            false => {
                let text = text.text(context.console.style) + "\n";
                context.console.print(&text);
            }
        }
        for warning in advice_for(profile, resources, gpu, (session, &kernels, &ids)) {
            context.console.report(&warning, &session.sources);
        }
    }
    if !context.console.json
        && let Some(text) = expressions::table(shown.into_iter(), gpu, &session.sources, context.console.style)
    {
        context.console.print(&text);
    }
    ran.code
}

/// Shows the profiles of an entry of a session.
pub(crate) fn of_session(profiles: &[Profile], session: &Session, console: &mut Console) {
    let (kernels, ids) = (Kernels::new(&session.sources), KernelIds::of(session));
    for profile in profiles.iter().filter(|profile| profile.of != Counted::Expression) {
        let shown = Shown { profile, resources: None, gpu: &GPUS[0], sources: &session.sources, kernels: &kernels };
        let text = shown.text(console.style);
        console.print(&text);
        console.report_all(&advice_for(profile, None, &GPUS[0], (session, &kernels, &ids)), &session.sources);
    }
    if let Some(text) = expressions::table(profiles.iter(), &GPUS[0], &session.sources, console.style) {
        console.print(&text);
    }
}

/// Returns what a run of a program advises, for `clk fix`.
pub(crate) fn advises(compiled: &Compiled, context: &mut Context) -> Vec<Diagnostic> {
    let ran = run(compiled, &Wanted::default(), context);
    let session = &compiled.session;
    let (kernels, ids) = (Kernels::new(&session.sources), KernelIds::of(session));
    let of = |profile: &Profile| advice_for(profile, None, &GPUS[0], (session, &kernels, &ids));
    ran.profiles.iter().flat_map(of).collect()
}

fn gpu(wanted: &Wanted, context: &mut Context) -> Option<&'static Gpu> {
    let Some(name) = &wanted.gpu else { return GPUS.first() };
    let found = find(name);
    if found.is_none() {
        let help = format!("`--for` knows {}", names_of_gpus());
        context.console.error_line(&format!("error: no GPU `{name}` is known\n  Help: {help}"));
    }
    found
}

/// What a run was counted as, and its exit code.
struct Ran {
    profiles: Vec<Profile>,
    code: u8,
}

/// Runs a program on the simulator and counts its launches.
fn run(compiled: &Compiled, wanted: &Wanted, context: &mut Context) -> Ran {
    let counting = Counting::of(wanted.blocks).with_expressions(wanted.expressions);
    context.limits.check = Some(false);
    let mut interpreter = context.limits.interpreter(&context.interrupt, vec![]);
    interpreter.count(Some(counting.clone()));
    let json = context.console.json;
    let notes = || (!json).then(|| Notes::new(&compiled.session.sources, "`clk run --check`"));
    let watch = progress::watch(&interpreter.options.control.progress, progress::OF_LAUNCHES, notes);
    let result = all(compiled, &mut interpreter, wanted, context);
    drop(watch);
    let code = match result {
        Ok(()) => interpreter.ended.unwrap_or(exit::OK),
        Err(diagnostic) => {
            context.console.report(&diagnostic, &compiled.session.sources);
            script::failure_code(&context.interrupt)
        }
    };
    Ran { profiles: counting.take(), code }
}

/// Runs the script, and the blocks that were asked for.
fn all(
    compiled: &Compiled,
    interpreter: &mut Interpreter,
    wanted: &Wanted,
    context: &mut Context,
) -> Result<(), Box<Diagnostic>> {
    let session = &compiled.session;
    let world = &mut Terminal { console: &mut context.console };
    for chunk in compiled.chunks.clone() {
        interpreter.run_chunk(session, chunk, world)?;
        if interpreter.ended.is_some() {
            return Ok(());
        }
    }
    let is_wanted = |title: &str, wanted: &Option<String>| wanted.as_ref().is_some_and(|part| title.contains(&**part));
    for (id, section) in session.program.tests.iter().filter(|(_, section)| is_wanted(&section.title, &wanted.test)) {
        if Some(section.module) == session.main {
            interpreter.run_test(session, id, world)?;
        }
    }
    for (id, section) in session.program.benches.iter().filter(|(_, section)| is_wanted(&section.title, &wanted.bench))
    {
        if Some(section.module) == session.main {
            interpreter.repeat_bench(session, id, 1, world)?;
        }
    }
    Ok(())
}

/// Says that there is nothing to show.
fn nothing(profiles: &[Profile], wanted: &Wanted, context: &mut Context) -> u8 {
    let Some(name) = &wanted.kernel else {
        let (what, help) = match wanted.expressions {
            true => (", and had no array computed", ""),
            false => ("", ", or count array expressions: `--expressions`"),
        };
        let blocks = "launch one in the script, or name a block: `--bench NAME`, `--test NAME`";
        context.console.error_line(&format!("error: the program launched no kernel{what}\n  Help: {blocks}{help}"));
        return exit::FAILURE;
    };
    let help = names::did_you_mean(name, profiles.iter().map(|profile| profile.kernel.as_str()));
    let help = help.map(|meant| format!("\n  Help: {meant}")).unwrap_or_default();
    context.console.error_line(&format!("error: the program launched no kernel `{name}`{help}"));
    exit::FAILURE
}

/// Returns whether a kernel has this name, perhaps with compile-time arguments behind.
fn is_named(kernel: &str, name: &str) -> bool {
    kernel
        .strip_prefix(name)
        .is_some_and(|rest| rest.is_empty() || !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_'))
}
