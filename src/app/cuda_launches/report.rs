//! `clk run` for a CUDA file: runs its launches under checks, and prints a line for each. Faults that depend on
//! generated inputs are warnings.

use serde_json::{Map, Value, json};

use super::inputs::digest;
use super::plan::{CudaLaunchOptions, CudaLaunchPlan, LeftOut};
use super::planned_launch::{InputContents, LaunchArrays, LaunchInputs, PlannedArgument, PlannedLaunch, PlannedValue};
use super::sizes::LengthOrigin;
use super::text::{launch_text, left_out_text, number_text, shown};
use crate::context::AppContext;
use crate::cuda_files;
use crate::derived_lengths::{self, LengthExplanation};
use crate::effects::{CapturedEffects, TerminalEffects};
use crate::exit;
use crate::progress::{self, StallNotes};
use crate::script::CompiledScript;
use clk_base::diag::{Diagnostic, Severity};
use clk_base::render;
use clk_base::source::SourceMap;
use clk_host::array::{Array, element_value};
use clk_host::interp::Interpreter;
use clk_runtime::FaultKind;

/// The code of warnings about faults that depend on generated inputs.
const GENERATED_INPUT: &str = "W0856";

/// The largest number of iterations of a loop, unless the command line states one. Loops whose bounds are elements of
/// arrays may never end with generated elements.
const MAX_STEPS: u64 = 1 << 24;

/// The number of elements of a written array that are shown.
const SHOWN: usize = 4;

/// What a launch has done.
enum LaunchResult {
    /// The arrays that it wrote.
    Done(Vec<(smol_str::SmolStr, Array)>),
    /// The fault that stopped it.
    Stopped(Box<Diagnostic>),
}

/// Runs the launches of a CUDA file; returns the exit code.
pub(crate) fn run(mut compiled: CompiledScript, options: &CudaLaunchOptions, context: &mut AppContext) -> u8 {
    context.limits.check.get_or_insert(true);
    if context.limits.max_steps == 0 {
        context.limits.max_steps = MAX_STEPS;
    }
    let plan = match CudaLaunchPlan::of(&mut compiled, options, &context.limits, &context.interrupt) {
        Ok(plan) => plan,
        Err(why) => return context.show(Err(why)),
    };
    let mut interpreter = context.limits.interpreter(&context.interrupt, vec![]);
    let mut arrays = LaunchArrays::default();
    for launch in &plan.launches {
        if let Some(warning) = scope_warning(launch, &compiled) {
            context.console.report(&warning, &compiled.session.sources);
        }
        let result = run_launch(launch, &compiled, &mut interpreter, &mut arrays, context);
        let warnings = interpreter.take_warnings();
        context.console.report_all(&warnings, &compiled.session.sources);
        if let LaunchResult::Stopped(fault) = &result {
            context.console.report(fault, &compiled.session.sources);
        }
        if let Some(code) = context.interrupt.exit_code() {
            return code;
        }
        let sources = &compiled.session.sources;
        context.console.results(
            "launch",
            || vec![json_of(launch, &result, sources)],
            |_| clk_base::escape::lines(&line_of(launch, &result, sources)).into_owned() + "\n",
        );
    }
    for left in &plan.left_out {
        report_left_out(left, &compiled.session.sources, context);
    }
    if context.console.tally.errors > 0 { exit::FAILURE } else { exit::OK }
}

/// Warns about atomic functions of block scope in a launch with several blocks.
fn scope_warning(launch: &PlannedLaunch, compiled: &CompiledScript) -> Option<Diagnostic> {
    let kernel = compiled.cuda.kernels.iter().find(|kernel| kernel.clk_name == launch.clk_name)?;
    let has_blocks = launch.inputs.numbers.grid.iter().product::<i128>() > 1;
    cuda_files::block_scope_warning(kernel).filter(|_| has_blocks)
}

/// Tells which kernel or launch is not run, and why.
pub(super) fn report_left_out(left: &LeftOut, sources: &SourceMap, context: &mut AppContext) {
    let place = sources.original(left.place);
    let record =
        || vec![json!({ "kernel": left.kernel.as_str(), "at": render::place_json(place, sources), "why": left.why })];
    context.console.results("not_run", record, |_| {
        clk_base::escape::lines(&left_out_text(left.place, &left.kernel, &left.why, sources)).into_owned() + "\n"
    });
}

fn run_launch(
    launch: &PlannedLaunch,
    compiled: &CompiledScript,
    interpreter: &mut Interpreter,
    arrays: &mut LaunchArrays,
    context: &mut AppContext,
) -> LaunchResult {
    let session = &compiled.session;
    let before = arrays.clone();
    let is_json = context.console.is_json();
    let notes = || (!is_json).then(|| StallNotes::new(&session.sources, "`--no-check`"));
    let watch = progress::watch(&interpreter.options.control.progress, progress::OF_LAUNCHES, notes);
    let world = &mut TerminalEffects { console: &mut context.console };
    let ran = launch.run(session, interpreter, world, arrays, (&launch.inputs, InputContents::Random));
    drop(watch);
    let fault = match ran {
        Ok(written) => return LaunchResult::Done(written),
        Err(fault) => fault,
    };
    let Some(kind) = interpreter.observers.last_fault.take() else { return LaunchResult::Stopped(fault) };
    // A second run repeats warnings.
    let warnings = interpreter.take_warnings();
    context.console.report_all(&warnings, &session.sources);
    let judged = judge(launch, compiled, *fault, &kind, &mut |inputs, contents| {
        let is_alternative = !std::ptr::eq(inputs, &launch.inputs);
        let mut arrays = if is_alternative { LaunchArrays::default() } else { before.clone() };
        let world = &mut CapturedEffects::default();
        let again = launch.run(session, interpreter, world, &mut arrays, (inputs, contents)).err();
        interpreter.take_warnings();
        interpreter.observers.last_fault = None;
        again
    });
    LaunchResult::Stopped(Box::new(judged))
}

/// Decides whether a fault is a mistake of the kernel or may be due to generated inputs. `run_with` runs the launch
/// with other inputs, and returns the fault.
fn judge(
    launch: &PlannedLaunch,
    compiled: &CompiledScript,
    mut fault: Diagnostic,
    kind: &FaultKind,
    run_with: &mut dyn FnMut(&LaunchInputs, InputContents) -> Option<Box<Diagnostic>>,
) -> Diagnostic {
    let chosen: Vec<String> = launch.inputs.numbers.chosen.iter().map(number_text).collect();
    if !chosen.is_empty() {
        fault.notes.push(format!("this launch has {}", chosen.join(", ")));
    }
    match kind {
        FaultKind::Interrupted | FaultKind::Device(_) => return fault,
        FaultKind::StepLimit { .. } => return due_to_inputs(fault, "loops may end with other inputs"),
        FaultKind::OutOfBounds { array, indices, .. } if indices.iter().all(|index| *index >= 0) => {
            let planned = launch.inputs.arguments.iter().find_map(|argument| match &argument.value {
                PlannedValue::Array(planned) if argument.clk_name == array.as_str() => Some((argument, planned)),
                _ => None,
            });
            match planned {
                Some((argument, planned)) if planned.origin == LengthOrigin::Unstated => {
                    let why = format!("the file does not state the length of `{}`", argument.name);
                    fault.help.push(format!("state it in a comment, as in `// clk: {}[n]`", argument.name));
                    return due_to_inputs(fault, &why);
                }
                Some((_, planned)) if planned.origin == LengthOrigin::Launch => {}
                _ => {
                    let kernel = compiled.cuda.kernels.iter().find(|kernel| kernel.clk_name == launch.clk_name);
                    let sources = &compiled.session.sources;
                    if let Some(LengthExplanation::Unknown(why)) =
                        kernel.and_then(|kernel| derived_lengths::explain(&mut fault, array, kernel, sources))
                    {
                        return due_to_inputs(fault, &why);
                    }
                    if fault.severity == Severity::Warning {
                        return fault;
                    }
                }
            }
        }
        _ => {}
    }
    let is_race = matches!(kind, FaultKind::Race(_));
    // Either access of a race may come first.
    let is_same_place = |again: &Diagnostic| match is_race {
        true => again.labels.iter().any(|label| fault.labels.iter().any(|own| own.span == label.span)),
        false => again.primary() == fault.primary(),
    };
    let is_repeated = |again: &Option<Box<Diagnostic>>| {
        again.as_ref().is_some_and(|again| again.code == fault.code && is_same_place(again))
    };
    // The title has the index of an access, for example. It is compared only if a second run has the same one.
    let has_title = |again: &Option<Box<Diagnostic>>| again.as_ref().is_some_and(|again| again.title == fault.title);
    let is_deterministic = !is_race && has_title(&run_with(&launch.inputs, InputContents::Random));
    let others = [InputContents::Positions, InputContents::Zeros, InputContents::Ones];
    let needs_contents = others.into_iter().any(|contents| {
        let again = run_with(&launch.inputs, contents);
        !is_repeated(&again) || (is_deterministic && !has_title(&again))
    });
    if needs_contents {
        let what = if is_race { "race" } else { "fault" };
        return due_to_inputs(
            fault,
            &format!("the {what} depends on the integers in arrays, which are generated here"),
        );
    }
    // Other numbers may leave no two threads that race.
    if is_race {
        return fault;
    }
    let needs_numbers = launch.alternatives.iter().any(|inputs| !is_repeated(&run_with(inputs, InputContents::Random)));
    match needs_numbers {
        true => due_to_inputs(fault, "launches with other chosen numbers have no such fault"),
        false => fault,
    }
}

/// Makes a fault a warning.
fn due_to_inputs(fault: Diagnostic, why: &str) -> Diagnostic {
    let mut warning = Diagnostic { code: GENERATED_INPUT, severity: Severity::Warning, ..fault };
    warning.notes.push(why.to_string());
    warning
}

/// Returns the line for a launch.
fn line_of(launch: &PlannedLaunch, result: &LaunchResult, sources: &SourceMap) -> String {
    let line = launch_text(launch, sources);
    match result {
        LaunchResult::Stopped(fault) => line + &format!(": stopped by {}", fault.code),
        LaunchResult::Done(written) if written.is_empty() => line + ": done, writes no array",
        LaunchResult::Done(written) => {
            let arrays = written.iter().map(|(name, array)| {
                let (first, digest) = contents(array);
                let rest = if array.count() > first.len() { ", …" } else { "" };
                format!("{name} = [{}{rest}] ({digest})", first.join(", "))
            });
            line + ": " + &arrays.collect::<Vec<_>>().join(", ")
        }
    }
}

/// Returns the first elements of an array as text, and a digest of all.
fn contents(array: &Array) -> (Vec<String>, String) {
    let Ok(bytes) = array.bytes() else { return (vec![], String::new()) };
    let size = array.element().size().max(1);
    let first = bytes.chunks_exact(size).take(SHOWN);
    let first = first.map(|bytes| shown(&element_value::read(array.element(), bytes))).collect();
    (first, format!("{:016x}", digest(bytes)))
}

fn json_of(launch: &PlannedLaunch, result: &LaunchResult, sources: &SourceMap) -> Value {
    let place = sources.original(launch.place);
    let arguments: Map<String, Value> = launch
        .inputs
        .arguments
        .iter()
        .filter_map(|PlannedArgument { name, value, .. }| match value {
            PlannedValue::Geometry(_) => None,
            PlannedValue::Scalar(value) => Some((name.to_string(), json!(shown(value)))),
            PlannedValue::Array(array) => {
                let origin = match array.origin {
                    LengthOrigin::Launch => "launch",
                    LengthOrigin::Assumed => "assumed",
                    LengthOrigin::Unstated => "unknown",
                };
                Some((name.to_string(), json!({ "length": array.length, "length_from": origin })))
            }
        })
        .collect();
    let chosen: Vec<Value> = launch
        .inputs
        .numbers
        .chosen
        .iter()
        .map(|number| json!({ "name": number.name.as_str(), "value": number.value as i64, "given": number.is_given }))
        .collect();
    let (written, fault) = match result {
        LaunchResult::Stopped(fault) => (Map::new(), Some(fault.code)),
        LaunchResult::Done(written) => {
            let array = |(name, array): &(smol_str::SmolStr, Array)| {
                let (first, digest) = contents(array);
                (name.to_string(), json!({ "first": first, "digest": digest }))
            };
            (written.iter().map(array).collect(), None)
        }
    };
    json!({
        "kernel": launch.kernel.as_str(),
        "at": render::place_json(place, sources),
        "from_file": launch.is_from_file,
        "grid": launch.inputs.numbers.grid.map(|extent| extent as i64),
        "block": launch.inputs.numbers.block.map(|extent| extent as i64),
        "geometry_chosen": launch.inputs.numbers.has_chosen_geometry,
        "arguments": arguments,
        "chosen": chosen,
        "written": written,
        "fault": fault,
    })
}
