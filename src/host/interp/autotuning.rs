//! Autotuning: selects the configuration for launches of kernels with a `tune` clause, and measures or compares all
//! configurations on copies of the arrays.
//!
//! Input: a launch bound with the default values of its tuned constants. Output: the launch
//! bound with the fastest configuration that was recorded for its device, types and sizes. While configurations are
//! measured (`clk tune`) or compared (`clk test --tunings`), the launch itself runs with the default.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::array::Array;
use crate::format;
use crate::tuned::file::TunedFile;
use crate::tuned::{self, Effort, NoChoiceReason, RecordedChoice, TuningMode, TuningResult, tune_clause};
use crate::value::HostValue;
use clk_base::clock::Instant;
use clk_base::diag::Diagnostic;
use clk_base::source::Span;
use clk_check::tune_configs::{self, TuneConfig};
use clk_check::typed::{Access, Kernel, LaunchExpr};
use clk_compile::advice::FaultOrigin;
use clk_lower::{GenericArgument, Instance, describe};
use clk_runtime::{Arg, BoxedTimestamp, Control, Device, Executable, LaunchConfig, device_diagnostic};

use super::context::{Eval, EvalContext, Signal};
use super::frame::HostFrame;
use super::launch::{BoundLaunch, PreparedArgument, device_args};
use super::time_limit::TimeLimit;

/// A configuration replaces the default only if its time is less than this fraction of the default's. Smaller
/// improvements are noise.
const WORTHWHILE_RATIO: f64 = 0.97;

/// Maximum number of launches of a configuration in one queue. Each needs copies of the arrays; [`MAX_COPY_BYTES`]
/// limits the total size of the copies.
const MAX_QUEUED: usize = 8;
const MAX_COPY_BYTES: usize = 1 << 28;

/// Maximum and minimum number of samples of a configuration.
const MAX_SAMPLES: usize = 200;
const MIN_SAMPLES: usize = 3;

/// A launch of a kernel with a `tune` clause, with its arguments, bound with the default configuration.
struct TunedLaunch<'l> {
    launch: &'l LaunchExpr,
    kernel: &'l Kernel,
    values: &'l [Option<HostValue>],
    bound: &'l BoundLaunch,
    span: Span,
}

impl EvalContext<'_> {
    /// Selects the configuration for a launch, and returns the launch bound with it. `bound` is the launch bound with
    /// the default.
    pub(super) fn apply_tuning(
        &mut self,
        frame: &mut HostFrame,
        launch: &LaunchExpr,
        kernel: &Kernel,
        values: &[Option<HostValue>],
        bound: BoundLaunch,
        span: Span,
    ) -> Eval<BoundLaunch> {
        if kernel.tunes.is_empty() {
            return Ok(bound);
        }
        if let Some(why) = why_not_tuned(launch, kernel) {
            self.note_choice(kernel, &bound, why);
            return Ok(bound);
        }
        let tuned_launch = TunedLaunch { launch, kernel, values, bound: &bound, span };
        match self.interp.tuning.mode {
            TuningMode::UseRecorded => match self.with_recorded_choice(frame, &tuned_launch)? {
                Some(other) => Ok(other),
                None => Ok(bound),
            },
            TuningMode::Measure(effort) => self.measure_choices(frame, &tuned_launch, effort).map(|()| bound),
            TuningMode::Compare => self.compare_choices(frame, &tuned_launch).map(|()| bound),
        }
    }

    /// Returns the launch bound with the recorded configuration. Returns `None` if that is the default, or if there is
    /// no valid record.
    fn with_recorded_choice(
        &mut self,
        frame: &mut HostFrame,
        tuned_launch: &TunedLaunch<'_>,
    ) -> Eval<Option<BoundLaunch>> {
        let TunedLaunch { kernel, bound, .. } = *tuned_launch;
        let Some((name, file)) = self.choices_file(kernel, tuned_launch.span)? else {
            self.note_choice(kernel, bound, "nothing was measured: `clk tune` does that");
            return Ok(None);
        };
        let (device, class) = (self.interp.options.device.model(), self.tuning_class(kernel, &bound.inner));
        let of = if class.is_empty() { String::new() } else { format!(" for {class}") };
        let mut measured = format!("measured{of} on {device} ({name})");
        match tuned::look_up_choice(&file, self.program, kernel, self.sources, &device, &class) {
            Ok(RecordedChoice { choice, is_of_other_body }) => {
                if is_of_other_body {
                    measured.push_str(", before its body changed");
                }
                if choice == choice_of(kernel, bound) {
                    self.note_choice(kernel, bound, &measured);
                    return Ok(None);
                }
                match self.with_choice(frame, tuned_launch, &choice) {
                    Ok(other) => {
                        self.note_choice(kernel, &other, &measured);
                        return Ok(Some(other));
                    }
                    Err(Signal::Error(why)) => {
                        let text = tuned::choice_text(kernel, &choice);
                        self.note_choice(
                            kernel,
                            bound,
                            &format!("{text} of {name} does not fit this launch: {}", why.title),
                        );
                    }
                    Err(other) => return Err(other),
                }
            }
            Err(NoChoiceReason::Nothing) => {
                self.note_choice(kernel, bound, &format!("{name} has nothing{of} on {device}"))
            }
            Err(NoChoiceReason::Stale { line, reason }) => {
                self.note_choice(kernel, bound, &format!("line {line} of {name} is out of date"));
                self.interp.warn(tuned::stale_warning(kernel, self.sources, &name, line, &reason));
            }
        }
        Ok(None)
    }

    /// Returns the name and content of the tuning file for a kernel's source file, if it exists. An invalid file is an
    /// error.
    fn choices_file(&mut self, kernel: &Kernel, span: Span) -> Eval<Option<(String, Arc<TunedFile>)>> {
        let read = self.interp.tuning.file(kernel.span.file, self.sources);
        let content = read.into_file(self.sources.name(kernel.span.file), tune_clause(kernel));
        content.map_err(|d| self.error(d.because(span, "launched here")))
    }

    /// Records for `--stats` which configuration a launch uses, and why.
    fn note_choice(&mut self, kernel: &Kernel, bound: &BoundLaunch, why: &str) {
        if self.interp.copy_statistics.is_some() {
            let choice = tuned::choice_text(kernel, &choice_of(kernel, bound));
            self.interp.tuning.notices.insert(format!("{}: {choice}; {why}", kernel.name));
        }
    }

    /// Returns the tuning class of a launch, for which one configuration is recorded: the compile-time arguments that
    /// are not tuned, and the size range of each dimension.
    fn tuning_class(&self, kernel: &Kernel, inner: &HostFrame) -> String {
        self.describe_launch(kernel, inner, &|name, size| format!("{name} {}", tuned::size_class(size)))
    }

    fn describe_launch(&self, kernel: &Kernel, inner: &HostFrame, of: &dyn Fn(&str, i64) -> String) -> String {
        let mut parts = vec![];
        for (i, pair) in kernel.sig.generics.iter().zip(inner.generics.iter()).enumerate() {
            if !kernel.tunes.iter().any(|tunable| tunable.param as usize == i) {
                let (generic, argument) = (std::slice::from_ref(pair.0), std::slice::from_ref(pair.1));
                parts.extend(describe(self.program, generic, argument));
            }
        }
        for (dim, size) in kernel.sig.dims.iter().zip(&inner.dims) {
            parts.extend(size.map(|size| of(&dim.name, size)));
        }
        parts.join(", ")
    }

    /// Binds a launch with a configuration. Returns an error if the configuration is invalid for the launch.
    fn with_choice(
        &mut self,
        frame: &mut HostFrame,
        tuned_launch: &TunedLaunch<'_>,
        choice: &[clk_scalar::ScalarValue],
    ) -> Eval<BoundLaunch> {
        let TunedLaunch { launch, kernel, values, bound, span } = *tuned_launch;
        let mut generics = bound.inner.generics.to_vec();
        for (tunable, value) in kernel.tunes.iter().zip(choice) {
            if let Some(slot) = generics.get_mut(tunable.param as usize) {
                *slot = GenericArgument::Const(*value);
            }
        }
        let mut inner = HostFrame::new(generics.into(), bound.inner.dims.clone());
        inner.locals = bound.inner.locals.clone();
        self.check_contracts(&mut inner, kernel, values, span)?;
        let extents = self.eval_geometry(frame, &mut inner, launch, kernel, span)?;
        let instance = Instance { arguments: inner.generics.to_vec(), ..bound.instance.clone() };
        Ok(BoundLaunch { inner, extents, instance, hidden: bound.hidden.clone() })
    }

    /// Runs a launch with each other configuration on copies of its arrays, and compares the results with those of the
    /// default.
    fn compare_choices(&mut self, frame: &mut HostFrame, tuned_launch: &TunedLaunch<'_>) -> Eval<()> {
        let TunedLaunch { kernel, bound, span, .. } = *tuned_launch;
        let default = choice_of(kernel, bound);
        // If the launch fails with the default, the caller's own launch reports the failure.
        let Some(expected) = self.run_once(tuned_launch, bound, None)?.ok() else { return Ok(()) };
        self.interp.tuning.compared.0 += 1;
        for choice in tune_configs::admissible(self.program, kernel).into_iter().filter(|choice| *choice != default) {
            let other = match self.with_choice(frame, tuned_launch, &choice) {
                Ok(other) => other,
                // The configuration is invalid for this launch, so tuning would not select it.
                Err(Signal::Error(_)) => continue,
                Err(other) => return Err(other),
            };
            let why = match self.run_once(tuned_launch, &other, None)? {
                Ok(arrays) => self.first_difference(kernel, &expected, &arrays, span)?,
                Err(why) => Some(why),
            };
            if let Some(why) = why {
                let text = tuned::choice_text(kernel, &choice);
                let d = Diagnostic::error("E0619", format!("with {text}, `{}` does something else", kernel.name));
                let d = d.at(span, "launched here").because(tune_clause(kernel), "what is tuned");
                let default = tuned::choice_text(kernel, &default);
                let d = d.note(why).note(format!("the default is {default}"));
                return Err(self.error(
                    d.help("results must not depend on tuned constants: fix the kernel, or remove this choice"),
                ));
            }
            self.interp.tuning.compared.1 += 1;
        }
        Ok(())
    }

    /// Measures all configurations for a launch, unless its tuning class was already measured.
    fn measure_choices(&mut self, frame: &mut HostFrame, tuned_launch: &TunedLaunch<'_>, effort: Effort) -> Eval<()> {
        let TunedLaunch { launch, kernel, bound, span, .. } = *tuned_launch;
        let (device, class) = (self.interp.options.device.model(), self.tuning_class(kernel, &bound.inner));
        let is_selected = self.interp.tuning.kernels_to_measure.contains(&launch.kernel);
        let is_measured = |m: &TuningResult| m.kernel == launch.kernel && m.device == device && m.class == class;
        if !is_selected || self.interp.tuning.measured.iter().any(is_measured) {
            return Ok(());
        }
        let expected = match self.run_once(tuned_launch, bound, Some(effort))? {
            Ok(expected) => expected,
            Err(why) if why.starts_with(TOO_LONG) => {
                let title = format!("the defaults of `{}` take longer than {} s", kernel.name, effort.limit);
                let d = Diagnostic::error("E0527", title).at(span, "launched here");
                return Err(self.error(d.help("allow more: `--timeout SECONDS`, or measure a smaller launch")));
            }
            // If the kernel faults with the default, the caller's own launch reports the fault.
            Err(_) => return Ok(()),
        };
        let default = choice_of(kernel, bound);
        let mut all = tune_configs::admissible(self.program, kernel);
        all.retain(|choice| *choice != default);
        all.insert(0, default);
        let mut candidates: Vec<(TuneConfig, Result<f64, String>)> = vec![];
        let progress = self.interp.tuning.progress.clone();
        progress.started.store(0, Ordering::Relaxed);
        progress.total.store(all.len() as u64, Ordering::Relaxed);
        for choice in all {
            let outcome = match self.with_choice(frame, tuned_launch, &choice) {
                Ok(other) => self.measure_choice(tuned_launch, &other, &expected, effort)?,
                Err(Signal::Error(why)) => Err(format!("{} {}", why.code, why.title)),
                Err(other) => return Err(other),
            };
            candidates.push((choice, outcome));
            progress.started.store(candidates.len() as u64, Ordering::Relaxed);
        }
        progress.total.store(0, Ordering::Relaxed);
        let at = self.describe_launch(kernel, &bound.inner, &|name, size| format!("{name} = {size}"));
        let best = fastest_choice(&candidates);
        let measured = TuningResult { kernel: launch.kernel, device, class, sizes: at, span, candidates, best };
        self.interp.tuning.measured.push(measured);
        Ok(())
    }

    /// Returns the time in seconds of a launch with a configuration, or the reason why the configuration is rejected.
    fn measure_choice(
        &mut self,
        tuned_launch: &TunedLaunch<'_>,
        bound: &BoundLaunch,
        expected: &[(usize, Array)],
        effort: Effort,
    ) -> Eval<Result<f64, String>> {
        let arrays = match self.run_once(tuned_launch, bound, Some(effort))? {
            Ok(arrays) => arrays,
            Err(why) => return Ok(Err(why)),
        };
        if let Some(why) = self.first_difference(tuned_launch.kernel, expected, &arrays, tuned_launch.span)? {
            return Ok(Err(why));
        }
        drop(arrays);
        let device = self.interp.options.device.clone();
        let executable = self.compiled_kernel(&bound.instance, tuned_launch.span)?;
        let (mut samples, begin) = (vec![], Instant::now());
        while samples.len() < MIN_SAMPLES
            || (samples.len() < MAX_SAMPLES && begin.elapsed().as_secs_f64() < effort.budget)
        {
            let written: usize = tuned_launch.values.iter().flatten().map(array_bytes).sum();
            let most = if device.capabilities().asynchronous {
                (MAX_COPY_BYTES / written.max(1)).clamp(1, MAX_QUEUED)
            } else {
                1
            };
            let mut sets = vec![];
            for _ in 0..most {
                sets.push(self.copy_arguments(tuned_launch, bound)?);
            }
            match self.run_queued(tuned_launch, bound, &executable, &mut sets, effort)? {
                Ok(more) => samples.extend(more),
                Err(why) => return Ok(Err(why)),
            }
            if begin.elapsed().as_secs_f64() > effort.limit {
                break;
            }
        }
        samples.sort_by(f64::total_cmp);
        Ok(Ok(samples.get(samples.len() / 2).copied().unwrap_or(f64::INFINITY)))
    }

    /// Runs a launch once on copies of its arrays. Returns the arrays that it wrote, each with its parameter index, or
    /// the reason why it failed.
    fn run_once(
        &mut self,
        tuned_launch: &TunedLaunch<'_>,
        bound: &BoundLaunch,
        effort: Option<Effort>,
    ) -> Eval<Result<Vec<(usize, Array)>, String>> {
        let executable = match self.compiled_kernel(&bound.instance, tuned_launch.span) {
            Ok(executable) => executable,
            Err(Signal::Error(why)) => return Ok(Err(format!("{} {}", why.code, why.title))),
            Err(other) => return Err(other),
        };
        let mut sets = vec![self.copy_arguments(tuned_launch, bound)?];
        let effort = effort.unwrap_or(Effort { limit: f64::INFINITY, budget: 0.0 });
        if let Err(why) = self.run_queued(tuned_launch, bound, &executable, &mut sets, effort)? {
            return Ok(Err(why));
        }
        let prepared_args = sets.into_iter().flatten().enumerate();
        Ok(Ok(prepared_args
            .filter_map(|(i, prepared_args)| match prepared_args {
                PreparedArgument::Array(array, true) => Some((i, array)),
                _ => None,
            })
            .collect()))
    }

    /// Returns a copy of a launch's arguments that shares no written array with the launch.
    fn copy_arguments(&mut self, tuned_launch: &TunedLaunch<'_>, bound: &BoundLaunch) -> Eval<Vec<PreparedArgument>> {
        let TunedLaunch { launch, kernel, values, span, .. } = *tuned_launch;
        let mut prepared_args = Vec::with_capacity(values.len());
        for (i, (value, param)) in values.iter().zip(&kernel.sig.params).enumerate() {
            let Some(value) = value else { return Err(self.internal_error(span, "a launch without an argument")) };
            prepared_args.push(match value {
                HostValue::Array(array) if matches!(launch.args.get(i), Some(None)) => {
                    PreparedArgument::Array(self.new_result(array.element().clone(), array.shape(), span)?, true)
                }
                // Arrays are copy-on-write, so the launch that writes to the clone copies it.
                HostValue::Array(array) => PreparedArgument::Array(array.clone(), param.access != Access::In),
                value => {
                    PreparedArgument::Value(self.convert_to_param(&bound.inner, &param.ty, value.clone(), span)?)
                }
            });
        }
        Ok(prepared_args)
    }

    /// Queues one launch for each set of arguments, and waits for all. Returns the time of each in seconds, or the
    /// reason why one failed or exceeded the time limit.
    fn run_queued(
        &mut self,
        tuned_launch: &TunedLaunch<'_>,
        bound: &BoundLaunch,
        executable: &Arc<dyn Executable>,
        sets: &mut [Vec<PreparedArgument>],
        effort: Effort,
    ) -> Eval<Result<Vec<f64>, String>> {
        let mut inner = HostFrame::new(bound.inner.generics.clone(), bound.inner.dims.clone());
        inner.locals = bound.inner.locals.clone();
        self.check_required_promises(
            &mut inner,
            tuned_launch.kernel,
            tuned_launch.values,
            &**executable,
            tuned_launch.span,
        )?;
        let declared = match sets.first() {
            Some(first) => {
                self.signature_promise(tuned_launch.launch, tuned_launch.kernel, &inner, first, &**executable)
            }
            None => None,
        };
        let own = Control {
            warnings: Arc::default(),
            worst_accesses: Arc::default(),
            progress: Arc::default(),
            ..self.interp.options.control.clone()
        };
        let (outer, stop) = (own.stop.clone(), Arc::new(AtomicBool::new(false)));
        let control = Control { stop: stop.clone(), ..own };
        let config = LaunchConfig { declared, ..LaunchConfig::new(bound.extents, tuned_launch.span) };
        let mut args: Vec<Vec<Arg<'_>>> = vec![];
        for set in sets.iter_mut() {
            args.push(
                device_args(&self.exec, set, &bound.hidden)
                    .map_err(|problem| self.problem(problem, tuned_launch.span))?,
            );
        }
        let device = self.interp.options.device.clone();
        device.finish().map_err(|error| self.device_error(&error, tuned_launch.span))?;
        // `effort.limit` is the limit of a single launch.
        let limit = effort.limit * args.len() as f64;
        let watched = TimeLimit::begin(limit, stop, outer, self.interp.tuning.end_kernels.clone());
        let origin = FaultOrigin::new(self.program, Some((tuned_launch.kernel, bound.extents)), tuned_launch.span);
        let timed = time_launches(&*device, &**executable, origin, &config, &mut args, &control);
        let timed_out = watched.end();
        self.check_stop(tuned_launch.span)?;
        Ok(if timed_out { Err(format!("{TOO_LONG} {} s", effort.limit)) } else { timed })
    }

    /// Describes the first element that differs from the expected results; `None` if all elements are equal.
    fn first_difference(
        &mut self,
        kernel: &Kernel,
        expected: &[(usize, Array)],
        found: &[(usize, Array)],
        span: Span,
    ) -> Eval<Option<String>> {
        for ((param, expected), (_, found)) in expected.iter().zip(found) {
            let bytes = |array: &Array| array.bytes().map(<[u8]>::to_vec);
            let (a, b) = match (bytes(expected), bytes(found)) {
                (Ok(a), Ok(b)) => (a, b),
                (Err(problem), _) | (_, Err(problem)) => return Err(self.problem(problem, span)),
            };
            if a == b {
                continue;
            }
            let size = expected.element().size().max(1);
            let at = a.chunks(size).zip(b.chunks(size)).position(|(a, b)| a != b).unwrap_or(0);
            let shown = |array: &Array| {
                let item = array.items_at(at..at + 1).next();
                item.and_then(Result::ok).and_then(|item| format::print_brief(&item).ok()).unwrap_or_default()
            };
            let (mut rest, mut index) = (at, vec![]);
            for &extent in expected.shape().iter().rev() {
                index.insert(0, (rest % extent.max(1)).to_string());
                rest /= extent.max(1);
            }
            let name = kernel.sig.params.get(*param).map_or("", |param| &param.name);
            let (found, expected) = (shown(found), shown(expected));
            return Ok(Some(format!("`{name}[{}]` is {found}, by default {expected}", index.join(", "))));
        }
        Ok(None)
    }
}

/// Start of the text that says why a configuration is rejected if it exceeds the time limit.
const TOO_LONG: &str = "it takes longer than";

/// Queues one launch for each set of arguments, and waits for all. Returns the time of each in seconds, or the reason
/// why one failed.
fn time_launches(
    device: &dyn Device,
    executable: &dyn Executable,
    origin: FaultOrigin<'_>,
    config: &LaunchConfig,
    sets: &mut [Vec<Arg<'_>>],
    control: &Control,
) -> Result<Vec<f64>, String> {
    let text = |d: Diagnostic| format!("{} {}", d.code, d.title);
    let mark = || (device.record_timestamp(), Instant::now());
    let (mut marks, mut failure) = (vec![mark()], None);
    for args in sets {
        if let Err(fault) = executable.launch(config, args, control) {
            failure = Some(text(origin.explain(&fault)));
            break;
        }
        marks.push(mark());
    }
    // Both calls are needed: otherwise the next launch would report a fault of these launches.
    for ended in [device.finish(), device.report_pending_faults()] {
        if let Err(error) = ended {
            failure.get_or_insert(text(device_diagnostic(&error, config.span)));
        }
    }
    if let Some(why) = failure {
        return Err(why);
    }
    let elapsed = |pair: &[(Option<BoxedTimestamp>, Instant)]| {
        let [(from, begin), (to, end)] = pair else { return None };
        let on_device = from.as_ref().zip(to.as_ref()).and_then(|(from, to)| to.seconds_since(&**from));
        Some(on_device.unwrap_or_else(|| end.duration_since(*begin).as_secs_f64()))
    };
    Ok(marks.windows(2).filter_map(elapsed).collect())
}

/// Returns the index of the fastest configuration. The default has index 0, and wins unless another configuration is
/// clearly faster ([`WORTHWHILE_RATIO`]).
fn fastest_choice(found: &[(TuneConfig, Result<f64, String>)]) -> usize {
    let seconds = |at: usize| found.get(at).and_then(|(_, outcome)| outcome.as_ref().ok()).copied();
    let worth = seconds(0).map_or(f64::INFINITY, |seconds| seconds * WORTHWHILE_RATIO);
    let faster = (1..found.len()).filter_map(|at| Some((at, seconds(at)?))).filter(|(_, seconds)| *seconds < worth);
    faster.min_by(|(_, a), (_, b)| a.total_cmp(b)).map_or(0, |(at, _)| at)
}

/// Returns the reason why no configuration can be selected for a launch, or `None` if one can be selected.
fn why_not_tuned(launch: &LaunchExpr, kernel: &Kernel) -> Option<&'static str> {
    if launch.grid.is_some() || launch.block.is_some() {
        return Some("the launch has a geometry of its own");
    }
    let is_fixed = kernel.tunes.iter().any(|tunable| !launch.left_off.contains(&tunable.param));
    is_fixed.then_some("the launch says so")
}

/// Returns the values of the tuned constants of a launch.
fn choice_of(kernel: &Kernel, bound: &BoundLaunch) -> TuneConfig {
    let value = |param: u32| match bound.inner.generics.get(param as usize) {
        Some(GenericArgument::Const(value)) => Some(*value),
        _ => None,
    };
    kernel.tunes.iter().filter_map(|tunable| value(tunable.param)).collect()
}

fn array_bytes(value: &HostValue) -> usize {
    if let HostValue::Array(array) = value { array.byte_len() } else { 0 }
}
