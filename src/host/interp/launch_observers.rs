//! Optional work before and after launches: trials of other configurations before a launch (`clk test`), the search for
//! evidence after a race, and the recording of launches for provenance queries (`clk why`).

use std::ops::Range;

use crate::problem::HostResult;
use crate::value::HostValue;
use clk_base::source::Span;
use clk_check::typed::{Access, Expr, LaunchExpr};
use clk_compile::trials::{LaunchText, RacedLaunch, TrialArgument, TrialLaunch};
use clk_lower::{Instance, MmaPrecision};
use clk_runtime::{Arg, Fault, FaultKind, LaunchExtents};

use super::context::{Eval, EvalContext, Signal};
use super::frame::HostFrame;
use super::launch::push_value;
use super::launch_cache::LaunchParts;
use super::recorded_launch::RecordedLaunch;

impl EvalContext<'_> {
    /// Runs the trials of a launch, if there are any. Returns the error that a trial found.
    pub(super) fn run_trials(
        &mut self,
        launch: &LaunchExpr,
        inner: &HostFrame,
        extents: LaunchExtents,
        values: &[Option<HostValue>],
        hidden: &[HostValue],
        span: Span,
    ) -> Eval<()> {
        let Some(trials) = self.interp.observers.trials.clone() else { return Ok(()) };
        let declared = launch.grid.is_none() && launch.block.is_none();
        if !trials.wants(self.program, launch.kernel, declared) {
            return Ok(());
        }
        let params = &self.program.kernels[launch.kernel].sig.params;
        let mut all_values = vec![];
        for (value, param) in values.iter().zip(params) {
            let Some(value) = value else { return Ok(()) };
            let value = match value {
                HostValue::Array(_) => value.clone(),
                value => self.convert_to_param(inner, &param.ty, value.clone(), span)?,
            };
            all_values.push((value, param.access != Access::In));
        }
        all_values.extend(hidden.iter().map(|value| (value.clone(), false)));
        // If an array cannot be read, there is no trial, because the launch reports the error.
        let Ok(args) = trial_arguments(&all_values) else { return Ok(()) };
        let sums = MmaPrecision::TensorCore(self.interp.mma_precision.cores());
        let instance = Instance { sums, ..Instance::new(launch.kernel, inner.generics.to_vec()) };
        let control = &self.interp.options.control;
        let trial = TrialLaunch { instance, extents, args, control, declared, span };
        trials.launch(self.program, &trial).map_err(Signal::Error)
    }

    /// Returns additional notes for the report of a race. Returns none for other faults, or without an evidence finder.
    pub(super) fn race_evidence(
        &self,
        launch: &LaunchExpr,
        inner: &HostFrame,
        parts: LaunchParts<'_>,
        values: &[(HostValue, bool)],
        fault: &Fault,
        span: Span,
    ) -> Vec<String> {
        let (Some(evidence), FaultKind::Race(_)) = (&self.interp.observers.race_evidence, &fault.kind) else {
            return vec![];
        };
        let mut all_values = values.to_vec();
        all_values.extend(parts.hidden.iter().map(|value| (value.clone(), false)));
        let (Ok(args), Some(written)) = (trial_arguments(&all_values), self.launch_text(launch, span)) else {
            return vec![];
        };
        let instance = Instance::new(launch.kernel, inner.generics.to_vec());
        let control = &self.interp.options.control;
        let declared = launch.grid.is_none() && launch.block.is_none();
        let trial = TrialLaunch { instance, extents: parts.extents, args, control, declared, span };
        let dims = inner.dims.iter().map(|dim| i128::from(dim.unwrap_or(0))).collect();
        evidence.of_race(self.program, &RacedLaunch { trial, dims, written }, fault)
    }

    /// Records a launch before it runs, if launches are recorded.
    pub(super) fn record_launch(
        &mut self,
        launch: &LaunchExpr,
        inner: &HostFrame,
        extents: LaunchExtents,
        all_values: Vec<(HostValue, bool)>,
        hidden: &[HostValue],
        span: Span,
    ) {
        let Some(recorded) = &mut self.interp.observers.recorded_launches else { return };
        let instance = Instance::new(launch.kernel, inner.generics.to_vec());
        let places = launch.args.iter().map(|arg| arg.as_ref().map(|arg| arg.span)).collect();
        let all_values = all_values.into_iter().map(|(value, _)| value).chain(hidden.iter().cloned()).collect();
        recorded.push(RecordedLaunch {
            instance,
            extents,
            span,
            arg_spans: places,
            arguments: all_values,
            results: vec![],
        });
    }

    /// Records the arrays that the last launch wrote.
    pub(super) fn record_results(&mut self, arrays: &[Option<HostValue>]) {
        if let Some(last) = self.interp.observers.recorded_launches.as_mut().and_then(|recorded| recorded.last_mut()) {
            last.results = arrays.to_vec();
        }
    }

    /// Returns the source text of a launch, with the ranges of its arguments, dimensions and geometry in the text.
    /// Returns `None` if one of them is outside of the launch expression.
    fn launch_text(&self, launch: &LaunchExpr, span: Span) -> Option<LaunchText<'_>> {
        let text = self.sources.slice(span);
        let within = |part: Span| -> Option<Range<usize>> {
            let inside = part.file == span.file && part.start >= span.start && part.end <= span.end;
            inside.then(|| (part.start - span.start) as usize..(part.end - span.start) as usize)
        };
        let arg = |arg: &Option<Expr>| match arg {
            Some(arg) => within(arg.span).map(Some),
            None => Some(None),
        };
        let args = launch.args.iter().map(arg).collect::<Option<_>>()?;
        let dims = launch.dims.iter().map(|(number, value)| Some((*number, within(value.span)?)));
        let geometry = match (&launch.grid, &launch.block) {
            (Some(grid), Some(block)) => Some([within(grid.span)?, within(block.span)?]),
            _ => None,
        };
        Some(LaunchText { text, args, dims: dims.collect::<Option<_>>()?, geometry })
    }
}

/// Converts the arguments of a recorded launch to device arguments. Also returns the index of each parameter's first
/// device argument.
pub fn recorded_args(recorded: &RecordedLaunch) -> HostResult<(Vec<Arg<'_>>, Vec<usize>)> {
    let (mut args, mut positions) = (vec![], vec![]);
    for value in &recorded.arguments {
        positions.push(args.len());
        match value {
            HostValue::Array(array) => args.push(Arg::Read { bytes: array.bytes()?, shape: array.extents() }),
            value => push_value(&mut args, value)?,
        }
    }
    Ok((args, positions))
}

/// Converts values to arguments of a trial. The flag of a value is whether the kernel may write to it.
fn trial_arguments(all_values: &[(HostValue, bool)]) -> HostResult<Vec<TrialArgument<'_>>> {
    let mut all = vec![];
    for (value, writes) in all_values {
        if let HostValue::Array(array) = value {
            all.push(TrialArgument::Array { bytes: array.bytes()?, shape: array.extents(), writes: *writes });
            continue;
        }
        let mut parts = vec![];
        push_value(&mut parts, value)?;
        all.extend(parts.into_iter().filter_map(|part| match part {
            Arg::Value(lanes) => Some(TrialArgument::Value(lanes)),
            _ => None,
        }));
    }
    Ok(all)
}
