//! Shows launches to whoever tries them in other ways: before they happen (`clk test`), or when a race was found in them; and keeps
//! them for whoever asks later what they did.

use std::ops::Range;

use crate::base::source::Span;
use crate::check::typed::{Access, Expr, Launch};
use crate::compile::trial::{Argument, Raced, Trial, Written};
use crate::device::{Arg, Extents, Fault, FaultKind};
use crate::host::problem::Outcome;
use crate::host::value::Value;
use crate::lower::{Instance, Sums};

use super::frame::Frame;
use super::launch::push_value;
use super::machine::{Eval, Machine, Signal};
use super::record::Recorded;

impl Machine<'_> {
    /// Has a launch tried, if someone wants to; an error says what is wrong with it.
    pub(super) fn tried(
        &mut self,
        launch: &Launch,
        inner: &Frame,
        extents: Extents,
        (values, hidden): (&[Option<Value>], &[Value]),
        span: Span,
    ) -> Eval<()> {
        let Some(trials) = self.interp.trials.clone() else { return Ok(()) };
        let declared = launch.grid.is_none() && launch.block.is_none();
        if !trials.wants(self.program, launch.kernel, declared) {
            return Ok(());
        }
        let params = &self.program.kernels[launch.kernel].sig.params;
        let mut given = vec![];
        for (value, param) in values.iter().zip(params) {
            let Some(value) = value else { return Ok(()) };
            let value = match value {
                Value::Array(_) => value.clone(),
                value => self.as_param(inner, &param.ty, value.clone(), span)?,
            };
            given.push((value, param.access != Access::In));
        }
        given.extend(hidden.iter().map(|value| (value.clone(), false)));
        // An array that cannot be read is the launch's to report.
        let Ok(args) = arguments(&given) else { return Ok(()) };
        let sums = Sums::Cut(self.interp.sums.cores());
        let instance = Instance { sums, ..Instance::new(launch.kernel, inner.generics.to_vec()) };
        let control = &self.interp.options.control;
        let trial = Trial { instance, extents, args, control, declared, span };
        trials.launch(self.program, &trial).map_err(Signal::Error)
    }

    /// Returns what else is known of a fault, if someone looks for it: notes for its report.
    pub(super) fn evidence(
        &self,
        launch: &Launch,
        inner: &Frame,
        extents: Extents,
        (values, hidden): (&[(Value, bool)], &[Value]),
        (fault, span): (&Fault, Span),
    ) -> Vec<String> {
        let (Some(evidence), FaultKind::Race(_)) = (&self.interp.evidence, &fault.kind) else { return vec![] };
        let mut given = values.to_vec();
        given.extend(hidden.iter().map(|value| (value.clone(), false)));
        let (Ok(args), Some(written)) = (arguments(&given), self.written(launch, span)) else { return vec![] };
        let instance = Instance::new(launch.kernel, inner.generics.to_vec());
        let control = &self.interp.options.control;
        let declared = launch.grid.is_none() && launch.block.is_none();
        let trial = Trial { instance, extents, args, control, declared, span };
        let dims = inner.dims.iter().map(|dim| i128::from(dim.unwrap_or(0))).collect();
        evidence.of_race(self.program, &Raced { trial, dims, written }, fault)
    }

    /// Takes down a launch that is about to happen, if launches are recorded.
    pub(super) fn record(
        &mut self,
        launch: &Launch,
        inner: &Frame,
        extents: Extents,
        (given, hidden): (Vec<(Value, bool)>, &[Value]),
        span: Span,
    ) {
        let Some(recorded) = &mut self.interp.recorded else { return };
        let instance = Instance::new(launch.kernel, inner.generics.to_vec());
        let places = launch.args.iter().map(|arg| arg.as_ref().map(|arg| arg.span)).collect();
        let given = given.into_iter().map(|(value, _)| value).chain(hidden.iter().cloned()).collect();
        recorded.push(Recorded { instance, extents, span, places, given, left: vec![] });
    }

    /// Takes down what the last launch left.
    pub(super) fn record_left(&mut self, arrays: &[Option<Value>]) {
        if let Some(last) = self.interp.recorded.as_mut().and_then(|recorded| recorded.last_mut()) {
            last.left = arrays.to_vec();
        }
    }

    /// Returns the text of a launch, if its parts lie in it.
    fn written(&self, launch: &Launch, span: Span) -> Option<Written<'_>> {
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
        Some(Written { text, args, dims: dims.collect::<Option<_>>()?, geometry })
    }
}

/// Returns the arguments of a launch as a device takes them, and the position of each parameter among them.
pub fn args_of(recorded: &Recorded) -> Outcome<(Vec<Arg<'_>>, Vec<usize>)> {
    let (mut args, mut positions) = (vec![], vec![]);
    for value in &recorded.given {
        positions.push(args.len());
        match value {
            Value::Array(array) => args.push(Arg::Read { bytes: array.bytes()?, shape: array.extents() }),
            value => push_value(&mut args, value)?,
        }
    }
    Ok((args, positions))
}

/// Returns the arguments of values, and whether the kernel writes to them.
fn arguments(given: &[(Value, bool)]) -> Outcome<Vec<Argument<'_>>> {
    let mut all = vec![];
    for (value, writes) in given {
        if let Value::Array(array) = value {
            all.push(Argument::Array { bytes: array.bytes()?, shape: array.extents(), writes: *writes });
            continue;
        }
        let mut parts = vec![];
        push_value(&mut parts, value)?;
        all.extend(parts.into_iter().filter_map(|part| match part {
            Arg::Value(lanes) => Some(Argument::Value(lanes)),
            _ => None,
        }));
    }
    Ok(all)
}
