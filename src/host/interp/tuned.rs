//! Launches of kernels with a `tune` clause: which choice they take, and trials of all choices on copies of their arrays.
//!
//! Input is a launch that is bound with the defaults; output is the same launch, bound with what was measured for its device,
//! types and sizes. Trials (`clk tune`, `clk test --tunings`) leave the launch with its defaults.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::base::clock::Instant;
use crate::base::diag::Diagnostic;
use crate::base::source::Span;
use crate::check::choices::{self, Choice};
use crate::check::typed::{Access, Kernel, Launch};
use crate::device::{Arg, Control, Device, Executable, Extents, Mark, device_diagnostic, fault_diagnostic};
use crate::host::array::Array;
use crate::host::format;
use crate::host::tuned::file::File;
use crate::host::tuned::{self, Effort, Known, Lacking, Measured, Mode, clause};
use crate::host::value::Value;
use crate::lower::{Argument, Instance, describe};

use super::frame::Frame;
use super::launch::{Bound, Passed, device_args};
use super::limit::Watched;
use super::machine::{Eval, Machine, Signal};

/// How much faster than the default another choice has to be: less is noise.
const WORTH: f64 = 0.97;

/// Most launches of a choice that are queued, and most bytes of the copies that these take.
const QUEUED: usize = 8;
const COPIES: usize = 1 << 28;

/// Most and fewest samples of a choice.
const MOST: usize = 200;
const LEAST: usize = 3;

/// A launch with its arguments, bound with the defaults.
struct Tried<'l> {
    launch: &'l Launch,
    kernel: &'l Kernel,
    values: &'l [Option<Value>],
    bound: &'l Bound,
    span: Span,
}

impl Machine<'_> {
    /// Returns a launch bound with the choice that it takes; `bound` has the defaults.
    pub(super) fn tuned(
        &mut self,
        frame: &mut Frame,
        launch: &Launch,
        kernel: &Kernel,
        values: &[Option<Value>],
        bound: Bound,
        span: Span,
    ) -> Eval<Bound> {
        if kernel.tunes.is_empty() {
            return Ok(bound);
        }
        if let Some(why) = left_alone(launch, kernel) {
            self.took(kernel, &bound, why);
            return Ok(bound);
        }
        let tried = Tried { launch, kernel, values, bound: &bound, span };
        match self.interp.tuning.mode {
            Mode::Take => match self.taken(frame, &tried)? {
                Some(other) => Ok(other),
                None => Ok(bound),
            },
            Mode::Measure(effort) => self.measured(frame, &tried, effort).map(|()| bound),
            Mode::Compare => self.all_choices(frame, &tried).map(|()| bound),
        }
    }

    /// Returns the launch with the choice that was measured; `None` if that is the default, or nothing was measured.
    fn taken(&mut self, frame: &mut Frame, tried: &Tried<'_>) -> Eval<Option<Bound>> {
        let Tried { kernel, bound, .. } = *tried;
        let Some((name, file)) = self.choices_beside(kernel, tried.span)? else {
            self.took(kernel, bound, "nothing was measured: `clk tune` does that");
            return Ok(None);
        };
        let (device, class) = (self.interp.options.device.model(), self.class(kernel, &bound.inner));
        let of = if class.is_empty() { String::new() } else { format!(" for {class}") };
        let mut measured = format!("measured{of} on {device} ({name})");
        match tuned::look_up(&file, self.program, kernel, self.sources, (&device, &class)) {
            Ok(Known { choice, is_of_other_body }) => {
                if is_of_other_body {
                    measured.push_str(", before its body changed");
                }
                if choice == choice_of(kernel, bound) {
                    self.took(kernel, bound, &measured);
                    return Ok(None);
                }
                match self.with_choice(frame, tried, &choice) {
                    Ok(other) => {
                        self.took(kernel, &other, &measured);
                        return Ok(Some(other));
                    }
                    Err(Signal::Error(why)) => {
                        let text = tuned::text(kernel, &choice);
                        self.took(kernel, bound, &format!("{text} of {name} does not fit this launch: {}", why.title));
                    }
                    Err(other) => return Err(other),
                }
            }
            Err(Lacking::Nothing) => self.took(kernel, bound, &format!("{name} has nothing{of} on {device}")),
            Err(Lacking::Stale { line, why }) => {
                self.took(kernel, bound, &format!("line {line} of {name} is out of date"));
                self.interp.warn(tuned::stale(kernel, self.sources, (&name, line), &why));
            }
        }
        Ok(None)
    }

    /// Returns the file of choices of a kernel's source with its name, if there is one; an error if it cannot be taken.
    fn choices_beside(&mut self, kernel: &Kernel, span: Span) -> Eval<Option<(String, Arc<File>)>> {
        let read = self.interp.tuning.file(kernel.span.file, self.sources);
        let taken = read.whole(self.sources.name(kernel.span.file), clause(kernel));
        taken.map_err(|d| self.error(d.because(span, "launched here")))
    }

    /// Remembers for `--stats` what a launch takes, and why.
    fn took(&mut self, kernel: &Kernel, bound: &Bound, why: &str) {
        if self.interp.copies.is_some() {
            let choice = tuned::text(kernel, &choice_of(kernel, bound));
            self.interp.tuning.said.insert(format!("{}: {choice}; {why}", kernel.name));
        }
    }

    /// Returns the class of a launch: the compile-time arguments that are not tuned, and ranges of sizes.
    fn class(&self, kernel: &Kernel, inner: &Frame) -> String {
        self.spelled(kernel, inner, &|name, size| format!("{name} {}", tuned::range(size)))
    }

    fn spelled(&self, kernel: &Kernel, inner: &Frame, of: &dyn Fn(&str, i64) -> String) -> String {
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

    /// Binds a launch with a choice; an error if it does not fit the launch.
    fn with_choice(
        &mut self,
        frame: &mut Frame,
        tried: &Tried<'_>,
        choice: &[crate::lang::scalar::Value],
    ) -> Eval<Bound> {
        let Tried { launch, kernel, values, bound, span } = *tried;
        let mut generics = bound.inner.generics.to_vec();
        for (tunable, value) in kernel.tunes.iter().zip(choice) {
            if let Some(slot) = generics.get_mut(tunable.param as usize) {
                *slot = Argument::Const(*value);
            }
        }
        let mut inner = Frame::new(generics.into(), bound.inner.dims.clone());
        inner.locals = bound.inner.locals.clone();
        self.contracts(&mut inner, kernel, values, span)?;
        let extents = self.geometry(frame, &mut inner, launch, kernel, span)?;
        let instance = Instance { arguments: inner.generics.to_vec(), ..bound.instance.clone() };
        Ok(Bound { inner, extents, instance, hidden: bound.hidden.clone() })
    }

    /// Runs a launch with each other choice on copies of its arrays, and compares what it writes with the default.
    fn all_choices(&mut self, frame: &mut Frame, tried: &Tried<'_>) -> Eval<()> {
        let Tried { kernel, bound, span, .. } = *tried;
        let default = choice_of(kernel, bound);
        // A launch that fails with its defaults reports that itself.
        let Some(expected) = self.attempt(tried, bound, None)?.ok() else { return Ok(()) };
        self.interp.tuning.compared.0 += 1;
        for choice in choices::admissible(self.program, kernel).into_iter().filter(|choice| *choice != default) {
            let other = match self.with_choice(frame, tried, &choice) {
                Ok(other) => other,
                // It does not fit this launch, which would take the defaults.
                Err(Signal::Error(_)) => continue,
                Err(other) => return Err(other),
            };
            let why = match self.attempt(tried, &other, None)? {
                Ok(arrays) => self.difference(kernel, &expected, &arrays, span)?,
                Err(why) => Some(why),
            };
            if let Some(why) = why {
                let text = tuned::text(kernel, &choice);
                let d = Diagnostic::error("E0619", format!("with {text}, `{}` does something else", kernel.name));
                let d = d.at(span, "launched here").because(clause(kernel), "what is tuned");
                let default = tuned::text(kernel, &default);
                let d = d.note(why).note(format!("the default is {default}"));
                return Err(self.error(
                    d.help("results may not depend on what is tuned: mend the kernel, or take this choice out"),
                ));
            }
            self.interp.tuning.compared.1 += 1;
        }
        Ok(())
    }

    /// Measures all choices for a launch, unless launches of its class were measured already.
    fn measured(&mut self, frame: &mut Frame, tried: &Tried<'_>, effort: Effort) -> Eval<()> {
        let Tried { launch, kernel, bound, span, .. } = *tried;
        let (device, class) = (self.interp.options.device.model(), self.class(kernel, &bound.inner));
        let wanted = self.interp.tuning.wanted.contains(&launch.kernel);
        let known = |m: &Measured| m.kernel == launch.kernel && m.device == device && m.class == class;
        if !wanted || self.interp.tuning.measured.iter().any(known) {
            return Ok(());
        }
        let expected = match self.attempt(tried, bound, Some(effort))? {
            Ok(expected) => expected,
            Err(why) if why.starts_with(TOO_LONG) => {
                let title = format!("the defaults of `{}` take longer than {} s", kernel.name, effort.limit);
                let d = Diagnostic::error("E0527", title).at(span, "launched here");
                return Err(self.error(d.help("allow more: `--timeout SECONDS`, or measure a smaller launch")));
            }
            // A fault is the launch's to report.
            Err(_) => return Ok(()),
        };
        let default = choice_of(kernel, bound);
        let mut all = choices::admissible(self.program, kernel);
        all.retain(|choice| *choice != default);
        all.insert(0, default);
        let mut found: Vec<(Choice, Result<f64, String>)> = vec![];
        let progress = self.interp.tuning.progress.clone();
        progress.begun.store(0, Ordering::Relaxed);
        progress.of.store(all.len() as u64, Ordering::Relaxed);
        for choice in all {
            let outcome = match self.with_choice(frame, tried, &choice) {
                Ok(other) => self.tested(tried, &other, &expected, effort)?,
                Err(Signal::Error(why)) => Err(format!("{} {}", why.code, why.title)),
                Err(other) => return Err(other),
            };
            found.push((choice, outcome));
            progress.begun.store(found.len() as u64, Ordering::Relaxed);
        }
        progress.of.store(0, Ordering::Relaxed);
        let at = self.spelled(kernel, &bound.inner, &|name, size| format!("{name} = {size}"));
        let best = best(&found);
        let measured = Measured { kernel: launch.kernel, device, class, at, span, tried: found, best };
        self.interp.tuning.measured.push(measured);
        Ok(())
    }

    /// Returns the seconds of a launch with a choice, or why it is refused.
    fn tested(
        &mut self,
        tried: &Tried<'_>,
        bound: &Bound,
        expected: &[(usize, Array)],
        effort: Effort,
    ) -> Eval<Result<f64, String>> {
        let arrays = match self.attempt(tried, bound, Some(effort))? {
            Ok(arrays) => arrays,
            Err(why) => return Ok(Err(why)),
        };
        if let Some(why) = self.difference(tried.kernel, expected, &arrays, tried.span)? {
            return Ok(Err(why));
        }
        drop(arrays);
        let device = self.interp.options.device.clone();
        let executable = self.executable(&bound.instance, tried.span)?;
        let (mut samples, begin) = (vec![], Instant::now());
        while samples.len() < LEAST || (samples.len() < MOST && begin.elapsed().as_secs_f64() < effort.budget) {
            let written: usize = tried.values.iter().flatten().map(bytes).sum();
            let most = if device.is_remote() { (COPIES / written.max(1)).clamp(1, QUEUED) } else { 1 };
            let mut sets = vec![];
            for _ in 0..most {
                sets.push(self.copies(tried, bound)?);
            }
            match self.queued(tried, bound, &executable, &mut sets, effort)? {
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

    /// Runs a launch once on copies; returns the arrays that it writes by parameter, or why it fails.
    fn attempt(
        &mut self,
        tried: &Tried<'_>,
        bound: &Bound,
        effort: Option<Effort>,
    ) -> Eval<Result<Vec<(usize, Array)>, String>> {
        let executable = match self.executable(&bound.instance, tried.span) {
            Ok(executable) => executable,
            Err(Signal::Error(why)) => return Ok(Err(format!("{} {}", why.code, why.title))),
            Err(other) => return Err(other),
        };
        let mut sets = vec![self.copies(tried, bound)?];
        let effort = effort.unwrap_or(Effort { limit: f64::INFINITY, budget: 0.0 });
        if let Err(why) = self.queued(tried, bound, &executable, &mut sets, effort)? {
            return Ok(Err(why));
        }
        let passed = sets.into_iter().flatten().enumerate();
        Ok(Ok(passed
            .filter_map(|(i, passed)| match passed {
                Passed::Array(array, true) => Some((i, array)),
                _ => None,
            })
            .collect()))
    }

    /// Returns the arguments of a launch, which shares no array that is written with it.
    fn copies(&mut self, tried: &Tried<'_>, bound: &Bound) -> Eval<Vec<Passed>> {
        let Tried { launch, kernel, values, span, .. } = *tried;
        let mut passed = Vec::with_capacity(values.len());
        for (i, (value, param)) in values.iter().zip(&kernel.sig.params).enumerate() {
            let Some(value) = value else { return Err(self.broken(span, "a launch without an argument")) };
            passed.push(match value {
                Value::Array(array) if matches!(launch.args.get(i), Some(None)) => {
                    Passed::Array(self.new_result(array.element().clone(), array.shape(), span)?, true)
                }
                // Storage that is shared is copied before it is written.
                Value::Array(array) => Passed::Array(array.clone(), param.access != Access::In),
                value => Passed::Value(self.as_param(&bound.inner, &param.ty, value.clone(), span)?),
            });
        }
        Ok(passed)
    }

    /// Launches once for each set of arguments, and waits; returns the seconds of each, or why one fails.
    fn queued(
        &mut self,
        tried: &Tried<'_>,
        bound: &Bound,
        executable: &Arc<dyn Executable>,
        sets: &mut [Vec<Passed>],
        effort: Effort,
    ) -> Eval<Result<Vec<f64>, String>> {
        let mut inner = Frame::new(bound.inner.generics.clone(), bound.inner.dims.clone());
        inner.locals = bound.inner.locals.clone();
        self.rely(&mut inner, tried.kernel, tried.values, &**executable, tried.span)?;
        let declared = match sets.first() {
            Some(first) => self.as_declared(tried.launch, tried.kernel, &inner, first, &**executable),
            None => None,
        };
        let own = Control {
            warnings: Arc::default(),
            crowds: Arc::default(),
            progress: Arc::default(),
            ..self.interp.options.control.clone()
        };
        let (outer, stop) = (own.stop.clone(), Arc::new(AtomicBool::new(false)));
        let control = Control { stop: stop.clone(), launched: tried.span, larger: None, declared, ..own };
        let mut args: Vec<Vec<Arg<'_>>> = vec![];
        for set in sets.iter_mut() {
            args.push(device_args(set, &bound.hidden).map_err(|problem| self.problem(problem, tried.span))?);
        }
        let device = self.interp.options.device.clone();
        device.finish().map_err(|error| self.error(device_diagnostic(&error, tried.span)))?;
        // The limit is one of a launch.
        let limit = effort.limit * args.len() as f64;
        let watched = Watched::begin(limit, stop, outer, self.interp.tuning.end_kernels.clone());
        let timed = timed(&*device, &**executable, bound.extents, &mut args, &control);
        let late = watched.end();
        self.poll(tried.span)?;
        Ok(if late { Err(format!("{TOO_LONG} {} s", effort.limit)) } else { timed })
    }

    /// Describes the first element in which what was written differs from what was expected.
    fn difference(
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
                item.and_then(Result::ok).and_then(|item| format::brief(&item).ok()).unwrap_or_default()
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

/// How the reason begins for which a choice is refused that takes too long.
const TOO_LONG: &str = "it takes longer than";

/// Launches once for each set of arguments, and waits; returns the seconds of each, or why one fails.
fn timed(
    device: &dyn Device,
    executable: &dyn Executable,
    extents: Extents,
    sets: &mut [Vec<Arg<'_>>],
    control: &Control,
) -> Result<Vec<f64>, String> {
    let text = |d: Diagnostic| format!("{} {}", d.code, d.title);
    let mark = || (device.mark(), Instant::now());
    let (mut marks, mut failure) = (vec![mark()], None);
    for args in sets {
        if let Err(fault) = executable.launch(extents, args, control) {
            failure = Some(text(fault_diagnostic(&fault)));
            break;
        }
        marks.push(mark());
    }
    // Both are asked, so that no fault is left for the next launch.
    for ended in [device.finish(), device.confirm()] {
        if let Err(error) = ended {
            failure.get_or_insert(text(device_diagnostic(&error, control.launched)));
        }
    }
    if let Some(why) = failure {
        return Err(why);
    }
    let since = |pair: &[(Option<Mark>, Instant)]| {
        let [(from, begin), (to, end)] = pair else { return None };
        let on_device = from.as_ref().zip(to.as_ref()).and_then(|(from, to)| to.since(&**from));
        Some(on_device.unwrap_or_else(|| end.duration_since(*begin).as_secs_f64()))
    };
    Ok(marks.windows(2).filter_map(since).collect())
}

/// Returns the position of the fastest choice; that of the default, which is the first, unless another is clearly faster.
fn best(found: &[(Choice, Result<f64, String>)]) -> usize {
    let seconds = |at: usize| found.get(at).and_then(|(_, outcome)| outcome.as_ref().ok()).copied();
    let worth = seconds(0).map_or(f64::INFINITY, |seconds| seconds * WORTH);
    let faster = (1..found.len()).filter_map(|at| Some((at, seconds(at)?))).filter(|(_, seconds)| *seconds < worth);
    faster.min_by(|(_, a), (_, b)| a.total_cmp(b)).map_or(0, |(at, _)| at)
}

/// Returns why a launch is not tuned, if it is not.
fn left_alone(launch: &Launch, kernel: &Kernel) -> Option<&'static str> {
    if launch.grid.is_some() || launch.block.is_some() {
        return Some("the launch has a geometry of its own");
    }
    let given = kernel.tunes.iter().any(|tunable| !launch.left_off.contains(&tunable.param));
    given.then_some("the launch says so")
}

/// Returns the values of the tuned constants of a launch.
fn choice_of(kernel: &Kernel, bound: &Bound) -> Choice {
    let value = |param: u32| match bound.inner.generics.get(param as usize) {
        Some(Argument::Const(value)) => Some(*value),
        _ => None,
    };
    kernel.tunes.iter().filter_map(|tunable| value(tunable.param)).collect()
}

fn bytes(value: &Value) -> usize {
    if let Value::Array(array) = value { array.byte_len() } else { 0 }
}
