//! `gradcheck(f, x)`: the derivative of a function against differences, and forward against reverse mode.
//!
//! Three things are compared along each direction ([`measured`]): both modes in the function's own types, both modes in its twin in
//! `f64` ([`Twin`]), and differences of the twin. So a wrong rule is found however small its part is, and is told from digits that are
//! lost. Numbers at kinks are left out, with a warning.

use crate::base::diag::Diagnostic;
use crate::base::source::Span;
use crate::check::typed::{Derive, ExprKind, FnRef};
use crate::check::widen;
use crate::host::grad::{self, Finds, Slope};
use crate::host::ops;
use crate::host::value::Value;
use crate::lang::builtin::Builtin;
use crate::lang::scalar::Scalar;

use super::frame::Frame;
use super::machine::{Eval, Held, Machine, Signal};
use super::measure::{Measured, Modes, Plan, ROUNDS, Way, again, is_smooth, kink, measured, worst};
use super::subject::{Quiet, Subject, Twin};

/// How a twin is compared with its differences: a rule that is right differs by less.
const EXACT: Way = Way { epsilon: f64::EPSILON, tolerance: 1e-6 };

/// A place, and what is said of it.
type Remark = (Span, String);

/// The call of a check.
#[derive(Clone, Copy)]
struct Checked<'c> {
    frame: &'c Frame,
    derive: &'c Derive,
    values: &'c [Value],
    span: Span,
}

impl Machine<'_> {
    pub(super) fn gradcheck(&mut self, frame: &mut Frame, derive: &Derive, values: Vec<Value>, span: Span) -> Eval {
        let values: Vec<Value> = values.iter().map(grad::primal).collect();
        let draws = self.interp.draws;
        let checked = self.compared(Checked { frame, derive, values: &values, span });
        self.interp.draws = draws;
        self.interp.held = Held::Not;
        checked.map(|()| Value::Unit)
    }

    fn compared(&mut self, of: Checked<'_>) -> Eval<()> {
        let survey = widen::survey(self.program, &of.derive.of);
        if let Some(held) = survey.held {
            let title = "`gradcheck` needs differences, and these change what a kernel takes as a constant";
            let wrong = Diagnostic::error("E0721", title)
                .at(held, "this value changes with the arguments")
                .because(of.span, "checked here")
                .help("take the constant in the function that launches the kernel, and pass it to the kernel");
            return Err(self.error(wrong));
        }
        let epsilon = epsilon(survey.narrowest);
        let plan = self.with_own(of, Plan::new)?;
        let mut obstacle = survey.obstacle;
        let mut wide = None;
        if obstacle.is_none() {
            match self.with_twin(of, |twin| measured(twin, &plan, EXACT)) {
                Ok(found) => wide = Some(found),
                Err(Signal::Error(error)) => {
                    let at = error.primary().filter(|at| *at != of.span);
                    obstacle = Some((at.unwrap_or(of.span), format!("in `f64` this fails: {}", error.title)));
                }
                Err(other) => return Err(other),
            }
        }
        let is_twin = wide.is_some();
        let found = match wide {
            Some(found) => found,
            None => {
                let loose = Way { epsilon, tolerance: (4.0 * epsilon.cbrt()).min(0.5) };
                self.with_own(of, |own| measured(own, &plan, loose))?
            }
        };
        let own = self.with_own(of, |own| again(own, &found))?;
        let way = Way { epsilon, tolerance: epsilon.sqrt().max(EXACT.tolerance) };
        let report = Report { names: self.names(of), way, ty: survey.narrowest, is_twin, span: of.span };
        for (measured, own) in found.iter().zip(own) {
            if let Some(wrong) = report.wrong(measured, own) {
                let wrong = if is_twin { self.explained(of, &report, &plan, wrong, measured) } else { wrong };
                return Err(self.error(wrong));
            }
        }
        let at_kinks = found.iter().any(|of| !is_smooth(of.slope) || of.left_out > 0);
        let kink = if at_kinks && is_twin { self.with_twin(of, |twin| Ok(kink(twin)))? } else { None };
        for warning in report.warnings(&found, kink, obstacle) {
            self.interp.warn(warning);
        }
        Ok(())
    }

    /// Runs something with the function in its own types.
    fn with_own<T>(&mut self, of: Checked<'_>, run: impl FnOnce(&mut Subject<'_>) -> Eval<T>) -> Eval<T> {
        let draws = self.interp.draws;
        let mut world = Quiet(&mut *self.world);
        let machine =
            Machine { interp: &mut *self.interp, program: self.program, sources: self.sources, world: &mut world };
        let frame = Frame::new(of.frame.generics.clone(), of.frame.dims.clone());
        let Checked { derive, values, span, .. } = of;
        let result = run(&mut Subject { machine, frame, derive, values: values.to_vec(), span, draws, held: vec![] });
        self.interp.draws = draws;
        result
    }

    /// Runs something with the function's twin.
    fn with_twin<T>(&mut self, of: Checked<'_>, run: impl FnOnce(&mut Subject<'_>) -> Eval<T>) -> Eval<T> {
        let mut twin = Twin::new(self, of.frame, of.derive);
        let values = of.values.iter().map(|value| twin.value(self, value)).collect();
        let values: Vec<Value> = self.settle_problem(values, of.span)?;
        let (draws, span, frame) = (self.interp.draws, of.span, twin.frame(of.frame));
        let Twin { program, mut interp, derive, .. } = twin;
        let _standing = interp.site().enter();
        let mut world = Quiet(&mut *self.world);
        let machine = Machine { interp: &mut interp, program: &program, sources: self.sources, world: &mut world };
        run(&mut Subject { machine, frame, derive: &derive, values, span, draws, held: vec![] })
    }

    /// Adds to an error the number and the line that are at fault, as far as they are found.
    fn explained(
        &mut self,
        of: Checked<'_>,
        report: &Report,
        plan: &Plan,
        mut wrong: Diagnostic,
        measured: &Measured,
    ) -> Diagnostic {
        if let Ok(Some((at, reverse, differences))) = self.with_twin(of, |twin| worst(twin, measured, EXACT)) {
            let param = of.derive.wrt.get(measured.param).and_then(|&at| of.values.get(at as usize));
            let name = report.name_of(measured.param);
            let place = match (param, at - plan.params[measured.param].start) {
                (Some(Value::Array(array)), at) => format!("`{name}{}`", ops::index_text(array.shape(), at)),
                (Some(Value::Scalar(_)), _) => format!("`{name}`"),
                (_, at) => format!("number {} of `{name}`", at + 1),
            };
            let (reverse, differences) = (short(reverse), short(differences));
            wrong = wrong.note(format!(
                "the largest part of it is by {place}: reverse mode says {reverse}, differences {differences}"
            ));
        }
        let finite = measured.modes.all().all(f64::is_finite);
        if !finite {
            wrong = wrong.note("a derivative that is infinite or NaN spreads to all that it is multiplied with");
        }
        let finds = if finite { Finds::Wrong } else { Finds::Kinks };
        if let Ok(Some((at, says))) = self.with_twin(of, |twin| Ok(twin.culprit(finds))) {
            wrong = wrong.because(at, says);
        }
        wrong
    }

    fn names(&self, of: Checked<'_>) -> Names {
        let call = of.derive.call();
        let (name, params) = match &call.kind {
            ExprKind::Call { callee: FnRef::Fn { id, .. }, .. } => {
                let function = &self.program.fns[*id];
                let params = function.sig.params.iter().map(|param| param.name.to_string()).collect();
                (function.name.to_string(), params)
            }
            _ => ("the function".to_string(), vec![]),
        };
        let mut name = name;
        let mut outer = &of.derive.of;
        let mut around = vec![];
        while let ExprKind::Derive(derive) = &outer.kind {
            around.push(Builtin::Derive(derive.what).name());
            outer = &derive.of;
        }
        for derivative in around.iter().rev() {
            name = format!("{derivative}({name})");
        }
        let param = |&at: &u32| params.get(at as usize).cloned().unwrap_or_else(|| format!("argument {}", at + 1));
        Names { function: name, params: of.derive.wrt.iter().map(param).collect() }
    }
}

/// How the function and the parameters are called that its derivative is by.
struct Names {
    function: String,
    params: Vec<String>,
}

/// What is known of a check for its messages.
struct Report {
    names: Names,
    /// Of the function's own types, the narrowest of which is `ty`.
    way: Way,
    ty: Scalar,
    is_twin: bool,
    span: Span,
}

impl Report {
    fn name_of(&self, param: usize) -> &str {
        self.names.params.get(param).map_or("?", String::as_str)
    }

    /// Returns the error if what is said of a direction does not agree.
    fn wrong(&self, of: &Measured, own: Modes) -> Option<Diagnostic> {
        let (function, param) = (&self.names.function, self.name_of(of.param));
        let Slope::Smooth { value, noise } = of.slope else {
            // Where there are no differences, both modes have the same conventions. Infinities and NaN are no error there.
            let apart = |modes: Modes, way: Way| {
                let most = way.tolerance * modes.scale + floor(way, of);
                modes.forward.is_some_and(|forward| (forward - modes.reverse).abs() > most)
            };
            let (wide, narrow) = (apart(of.modes, EXACT) && self.is_twin, apart(own, self.way));
            let modes = if wide { of.modes } else { own };
            let title = format!("forward and reverse mode do not agree on the derivative of `{function}` by `{param}`");
            return (wide || narrow).then(|| self.error(title, of, modes, None));
        };
        let scale = of.modes.scale + value.abs();
        let off = |found: f64, way: Way| {
            let most = way.tolerance * scale + noise + floor(way, of);
            found.is_nan() || (found - value).abs() > most
        };
        let loose = Way { tolerance: 4.0 * self.way.epsilon.cbrt(), ..self.way };
        let way = if self.is_twin { EXACT } else { loose };
        if of.modes.all().any(|found| off(found, way)) {
            let finite = of.modes.all().all(f64::is_finite);
            let title = format!(
                "the derivative of `{function}` by `{param}` is {}",
                if finite { "wrong" } else { "not finite" }
            );
            return Some(self.error(title, of, of.modes, Some(value)));
        }
        if self.is_twin && own.all().any(|found| off(found, self.way)) {
            let fails = if own.all().all(f64::is_finite) { "loses its digits" } else { "is not finite" };
            let title = format!("the derivative of `{function}` by `{param}` {fails} in `{}`", self.ty);
            let error = self.error(title, of, own, Some(value));
            return Some(error.note("its rules are right: in `f64` both modes agree with the differences"));
        }
        None
    }

    fn error(&self, title: String, of: &Measured, modes: Modes, differences: Option<f64>) -> Diagnostic {
        let mut said = format!("reverse mode says {}", short(modes.reverse));
        if let Some(forward) = modes.forward {
            said += &format!(", forward mode {}", short(forward));
        }
        if let Some(value) = differences {
            said += &format!(", differences {}", short(value));
        }
        let own: Vec<f64> = of.direction.iter().copied().filter(|v| *v != 0.0).collect();
        let along =
            format!("along `{}` = {} (direction {} of {ROUNDS})", self.name_of(of.param), list(&own), of.round + 1);
        let weighted = match &of.cotangent[..] {
            [one] => format!("{along}, of the result times {}", short(*one)),
            several => format!("{along}, of the sum of the results times {}", list(several)),
        };
        Diagnostic::error("E0721", title).at(self.span, said).note(weighted)
    }

    /// Returns what could not be compared.
    fn warnings(&self, found: &[Measured], kink: Option<Remark>, obstacle: Option<Remark>) -> Vec<Diagnostic> {
        let function = &self.names.function;
        let mut warnings = vec![];
        for param in 0..self.names.params.len() {
            let own = || found.iter().filter(|of| of.param == param);
            let rough = own().filter(|of| !is_smooth(of.slope)).count();
            let left_out = own().map(|of| of.left_out).max().unwrap_or(0);
            let name = self.name_of(param);
            let says = match (rough, left_out) {
                (0, 0) => continue,
                (0, 1) => "1 of its numbers is left out, being at a kink".to_string(),
                (0, n) => format!("{n} of its numbers are left out, being at kinks"),
                (rough, _) => format!("differences say nothing in {rough} of {ROUNDS} directions"),
            };
            let why = match own().any(|of| of.slope == Slope::Outside) {
                true => "it is at the end of where it has finite values, or at a kink",
                false => "it is at a kink or a jump, or lacks digits",
            };
            let title = format!("the derivative of `{function}` by `{name}` is not compared everywhere: {why}");
            let mut warning = Diagnostic::warning("W0721", title).at(self.span, says);
            if let Some((at, says)) = &kink {
                warning = warning.because(*at, says.clone());
            }
            warnings.push(warning);
        }
        if let Some((at, why)) = found.iter().find_map(|of| of.refused.clone()) {
            let title = format!("the derivative of `{function}` is compared in reverse mode alone");
            let warning = Diagnostic::warning("W0721", title).at(self.span, "forward mode is refused");
            warnings.push(if at == self.span { warning.note(why) } else { warning.because(at, why) });
        }
        if let Some((at, why)) = obstacle {
            let title = format!("the derivative of `{function}` is compared in `{}`, with few digits", self.ty);
            let warning = Diagnostic::warning("W0721", title).at(self.span, "there is no twin in `f64`");
            warnings.push(if at == self.span { warning.note(why) } else { warning.because(at, why) });
        }
        warnings
    }
}

/// The part of a derivative that rounding may leave where the function cancels: a few units in the last place of the function.
fn floor(way: Way, of: &Measured) -> f64 {
    const UNITS: f64 = 16.0;
    if of.size.is_finite() { UNITS * way.epsilon * of.size } else { 0.0 }
}

/// The distance from 1 to the next number of a type.
fn epsilon(ty: Scalar) -> f64 {
    match ty {
        Scalar::Bf16 => 2f64.powi(-7),
        Scalar::F16 => 2f64.powi(-10),
        Scalar::F32 => f64::from(f32::EPSILON),
        _ => f64::EPSILON,
    }
}

/// Returns a number with few digits.
fn short(number: f64) -> String {
    let size = number.abs();
    if number == 0.0 || (1e-3..1e7).contains(&size) {
        let digits = 6 - (size.max(1.0).log10().floor() as usize).min(6);
        let text = format!("{number:.digits$}");
        let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
        return text.to_string();
    }
    format!("{number:.5e}")
}

/// Returns the first of several numbers.
fn list(numbers: &[f64]) -> String {
    const SHOWN: usize = 4;
    let first: Vec<String> = numbers.iter().take(SHOWN).map(|number| short(*number)).collect();
    let more = if numbers.len() > SHOWN { ", …" } else { "" };
    match numbers {
        [_] => first.concat(),
        _ => format!("[{}{more}]", first.join(", ")),
    }
}
