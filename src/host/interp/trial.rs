//! Shows launches to whoever tries them in other ways (`clk test`), before they happen.

use crate::base::source::Span;
use crate::check::typed::{Access, Launch};
use crate::compile::trial::{Argument, Trial};
use crate::device::{Arg, Extents};
use crate::host::problem::Outcome;
use crate::host::value::Value;
use crate::lower::{Instance, Sums};

use super::frame::Frame;
use super::launch::push_value;
use super::machine::{Eval, Machine, Signal};

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
