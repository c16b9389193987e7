//! `clk profile`: runs a program on the simulator and estimates what its kernels would cost on a GPU.

use std::path::Path;

use crate::console::Console;
use crate::context::AppContext;
use crate::cuda_launches::{CudaLaunchOptions, CudaLaunchPlan};
use crate::effects::TerminalEffects;
use crate::generated::KernelEmitter;
use crate::profile::advice::{KernelIds, advice_for, names_of_gpus, resources};
use crate::profile::{ProfileView, expressions};
use crate::progress::{self, StallNotes};
use crate::script::{self, CompiledScript};
use crate::{exit, suggestions};
use clk_base::diag::Diagnostic;
use clk_compile::Session;
use clk_host::interp::Interpreter;
use clk_profile::edits::ParsedKernels;
use clk_profile::gpus::{GPUS, GpuModel, find_gpu};
use clk_runtime::profile::{CostCounting, Profile, ProfileCollector};

/// Options of `clk profile` other than the file.
#[derive(Clone, Debug, Default)]
pub(crate) struct ProfileOptions {
    /// The kernel to show; `None` for all kernels.
    pub kernel: Option<String>,
    /// The GPU whose time bounds are computed.
    pub gpu: Option<String>,
    /// The approximate number of blocks to count in each launch; `None` for all blocks.
    pub blocks: Option<u64>,
    /// If set, also runs the `bench` (or `test`) blocks whose names contain this text.
    pub bench: Option<String>,
    pub test: Option<String>,
    /// Whether to also profile array expressions.
    pub expressions: bool,
    /// The launches of a CUDA file.
    pub launches: CudaLaunchOptions,
}

pub(crate) fn file(path: &Path, wanted: &ProfileOptions, context: &mut AppContext) -> u8 {
    let Some(gpu) = gpu(wanted, context) else { return exit::USAGE };
    let Some(mut compiled) = script::compile_file(path, &mut context.console) else {
        context.console.summary();
        return exit::FAILURE;
    };
    let plan = match compiled.is_cuda() {
        true => match CudaLaunchPlan::of(&mut compiled, &wanted.launches, &context.limits, &context.interrupt) {
            Ok(plan) => Some(plan.announced(&compiled.session, &mut context.console)),
            Err(why) => return context.show(Err(why)),
        },
        false => match wanted.launches.for_clk_program() {
            Ok(()) => None,
            Err(why) => return context.show(Err(why)),
        },
    };
    let (ran, session) = (run(&compiled, plan.as_ref(), wanted, context), &compiled.session);
    let generator = KernelEmitter::new(context.text, Some(gpu.limits.architecture));
    let chosen = |profile: &&Profile| {
        profile.of == CostCounting::Expression
            || wanted.kernel.as_deref().is_none_or(|name| has_kernel_name(&profile.kernel, name))
    };
    let shown: Vec<&Profile> = ran.profiles.iter().filter(chosen).collect();
    if shown.is_empty() && ran.code == exit::OK {
        return report_nothing_to_show(&ran.profiles, wanted, context);
    }
    let kernels = ParsedKernels::new(&session.sources);
    let ids = KernelIds::of(session);
    for profile in &shown {
        let is_expression = profile.of == CostCounting::Expression;
        if is_expression && !context.console.keeps_records() {
            continue;
        }
        let resources = resources(&generator, session, ids.find(&kernels, profile), profile);
        let view = ProfileView { profile, resources, gpu, sources: &session.sources, kernels: &kernels };
        let text = |style| if is_expression { String::new() } else { view.text(style) + "\n" };
        context.console.results("profile", || vec![view.json()], text);
        for warning in advice_for(profile, resources, gpu, session, &kernels, &ids) {
            context.console.report(&warning, &session.sources);
        }
    }
    if context.console.is_human()
        && let Some(text) = expressions::table(shown.into_iter(), gpu, &session.sources, context.console.style)
    {
        context.console.print(&text);
    }
    ran.code
}

/// Shows the profiles of an entry of a session.
pub(crate) fn of_session(profiles: &[Profile], session: &Session, console: &mut Console) {
    let (kernels, ids) = (ParsedKernels::new(&session.sources), KernelIds::of(session));
    for profile in profiles.iter().filter(|profile| profile.of != CostCounting::Expression) {
        let shown =
            ProfileView { profile, resources: None, gpu: &GPUS[0], sources: &session.sources, kernels: &kernels };
        let text = shown.text(console.style);
        console.print(&text);
        console.report_all(&advice_for(profile, None, &GPUS[0], session, &kernels, &ids), &session.sources);
    }
    if let Some(text) = expressions::table(profiles.iter(), &GPUS[0], &session.sources, console.style) {
        console.print(&text);
    }
}

/// Profiles a program and returns the resulting advice, for `clk fix`.
pub(crate) fn advice_of(compiled: &CompiledScript, context: &mut AppContext) -> Vec<Diagnostic> {
    let profiled = run(compiled, None, &ProfileOptions::default(), context);
    let session = &compiled.session;
    let (kernels, ids) = (ParsedKernels::new(&session.sources), KernelIds::of(session));
    let of = |profile: &Profile| advice_for(profile, None, &GPUS[0], session, &kernels, &ids);
    profiled.profiles.iter().flat_map(of).collect()
}

fn gpu(wanted: &ProfileOptions, context: &mut AppContext) -> Option<&'static GpuModel> {
    let Some(name) = &wanted.gpu else { return GPUS.first() };
    let known_gpu = find_gpu(name);
    if known_gpu.is_none() {
        let help = format!("`--for` knows {}", names_of_gpus());
        context.console.error_line(&format!("error: no GPU `{name}` is known\n  Help: {help}"));
    }
    known_gpu
}

/// The result of a profiling run: the profiles of its launches, and the exit code.
struct ProfiledRun {
    profiles: Vec<Profile>,
    code: u8,
}

/// Runs a program on the simulator and counts the costs of its launches.
fn run(
    compiled: &CompiledScript,
    plan: Option<&CudaLaunchPlan>,
    wanted: &ProfileOptions,
    context: &mut AppContext,
) -> ProfiledRun {
    let counting = ProfileCollector::of(wanted.blocks).with_expressions(wanted.expressions);
    context.limits.check = Some(false);
    let mut interpreter = context.limits.interpreter(&context.interrupt, vec![]);
    interpreter.set_profile_collector(Some(counting.clone()));
    let is_json = context.console.is_json();
    let notes = || (!is_json).then(|| StallNotes::new(&compiled.session.sources, "`clk run --check`"));
    let watch = progress::watch(&interpreter.options.control.progress, progress::OF_LAUNCHES, notes);
    let result = match plan {
        Some(plan) => {
            let world = &mut TerminalEffects { console: &mut context.console };
            plan.run(&compiled.session, &mut interpreter, world)
        }
        None => run_program(compiled, &mut interpreter, wanted, context),
    };
    drop(watch);
    let code = match result {
        Ok(()) => interpreter.exit_code.unwrap_or(exit::OK),
        Err(diagnostic) => {
            context.console.report(&diagnostic, &compiled.session.sources);
            script::failure_code(&context.interrupt)
        }
    };
    ProfiledRun { profiles: counting.take(), code }
}

/// Runs the script, and the `test` and `bench` blocks that the options select.
fn run_program(
    compiled: &CompiledScript,
    interpreter: &mut Interpreter,
    wanted: &ProfileOptions,
    context: &mut AppContext,
) -> Result<(), Box<Diagnostic>> {
    let session = &compiled.session;
    let world = &mut TerminalEffects { console: &mut context.console };
    for chunk in compiled.chunks.clone() {
        interpreter.run_chunk(session, chunk, world)?;
        if interpreter.exit_code.is_some() {
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

/// Reports why there is no profile to show; returns the exit code.
fn report_nothing_to_show(profiles: &[Profile], wanted: &ProfileOptions, context: &mut AppContext) -> u8 {
    let Some(name) = &wanted.kernel else {
        let (what, help) = match wanted.expressions {
            true => (", and had no array computed", ""),
            false => ("", ", or count array expressions: `--expressions`"),
        };
        let blocks = "launch one in the script, or name a block: `--bench NAME`, `--test NAME`";
        context.console.error_line(&format!("error: the program launched no kernel{what}\n  Help: {blocks}{help}"));
        return exit::FAILURE;
    };
    let help = suggestions::did_you_mean(name, profiles.iter().map(|profile| profile.kernel.as_str()));
    let help = help.map(|meant| format!("\n  Help: {meant}")).unwrap_or_default();
    context.console.error_line(&format!("error: the program launched no kernel `{name}`{help}"));
    exit::FAILURE
}

/// Returns whether a kernel has this name. Compile-time arguments after the kernel's name are ignored.
fn has_kernel_name(kernel: &str, name: &str) -> bool {
    kernel
        .strip_prefix(name)
        .is_some_and(|rest| rest.is_empty() || !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_'))
}
