//! `gradcheck(f, x)`: compares the derivative of a function with finite differences, and forward with reverse mode.
//!
//! Computes the derivative along each direction ([`measure`]) in three ways: in both modes in the function's own types,
//! in both modes of its `f64` shadow ([`F64Shadow`]), and by finite differences of the shadow. If the shadow's modes
//! disagree with the differences, a derivative rule is wrong. If only the function's own types disagree, precision was
//! lost. Inputs at kinks are left out, with a warning.

use crate::grad::{self, AuditTarget, Slope};
use crate::ops;
use crate::value::HostValue;
use clk_base::diag::Diagnostic;
use clk_base::source::Span;
use clk_check::promote_f64;
use clk_check::typed::{Derive, ExprKind, FnRef};
use clk_scalar::Scalar;
use clk_scalar::builtin::Builtin;

use super::context::{Eval, EvalContext, NoGradCapture, Signal};
use super::directional_derivative::{
    DerivativeModes, DifferencePrecision, DirectionalDerivative, GradcheckPlan, ROUNDS, find_kink, is_smooth, measure,
    recompute_modes, worst_number,
};
use super::frame::HostFrame;
use super::gradcheck_function::{F64Shadow, GradcheckFunction, SilentEffects};

/// Precision of the `f64` shadow. The relative error of a correct rule, compared with finite differences, is below the
/// tolerance.
const EXACT: DifferencePrecision = DifferencePrecision { epsilon: f64::EPSILON, tolerance: 1e-6 };

/// A source location and the text of its label.
type LocatedText = (Span, String);

/// A call of `gradcheck`.
#[derive(Clone, Copy)]
struct GradcheckCall<'c> {
    frame: &'c HostFrame,
    derive: &'c Derive,
    values: &'c [HostValue],
    span: Span,
}

impl EvalContext<'_> {
    pub(super) fn gradcheck(
        &mut self,
        frame: &mut HostFrame,
        derive: &Derive,
        values: Vec<HostValue>,
        span: Span,
    ) -> Eval {
        let values: Vec<HostValue> = values.iter().map(grad::primal).collect();
        let draws = self.interp.random_position;
        let checked = self.compare_derivatives(GradcheckCall { frame, derive, values: &values, span });
        self.interp.random_position = draws;
        self.interp.derivatives.no_grad = NoGradCapture::Off;
        checked.map(|()| HostValue::Unit)
    }

    fn compare_derivatives(&mut self, of: GradcheckCall<'_>) -> Eval<()> {
        let survey = promote_f64::survey(self.program, &of.derive.of);
        if let Some(held) = survey.detached {
            let title = "`gradcheck` needs finite differences, which would change a compile-time constant of a kernel";
            let wrong = Diagnostic::error("E0721", title)
                .at(held, "this value changes with the arguments")
                .because(of.span, "checked here")
                .help("compute the constant outside of the checked function");
            return Err(self.error(wrong));
        }
        let epsilon = epsilon_of(survey.narrowest);
        let plan = self.with_function(of, GradcheckPlan::new)?;
        let mut obstacle = survey.obstacle;
        let mut wide = None;
        if obstacle.is_none() {
            match self.with_shadow(of, |shadow| measure(shadow, &plan, EXACT)) {
                Ok(found) => wide = Some(found),
                Err(Signal::Error(error)) => {
                    let at = error.primary().filter(|at| *at != of.span);
                    obstacle = Some((at.unwrap_or(of.span), format!("in `f64` this fails: {}", error.title)));
                }
                Err(other) => return Err(other),
            }
        }
        let is_twin = wide.is_some();
        let derivatives = match wide {
            Some(derivatives) => derivatives,
            None => {
                let loose = DifferencePrecision { epsilon, tolerance: (4.0 * epsilon.cbrt()).min(0.5) };
                self.with_function(of, |own| measure(own, &plan, loose))?
            }
        };
        let own = self.with_function(of, |own| recompute_modes(own, &derivatives))?;
        let precision = DifferencePrecision { epsilon, tolerance: epsilon.sqrt().max(EXACT.tolerance) };
        let report = GradcheckReport {
            names: self.gradcheck_names(of),
            precision,
            ty: survey.narrowest,
            has_shadow: is_twin,
            span: of.span,
        };
        for (measured, own) in derivatives.iter().zip(own) {
            if let Some(wrong) = report.disagreement(measured, own) {
                let wrong = if is_twin { self.explain_error(of, &report, &plan, wrong, measured) } else { wrong };
                return Err(self.error(wrong));
            }
        }
        let at_kinks = derivatives.iter().any(|of| !is_smooth(of.slope) || of.left_out > 0);
        let kink = if at_kinks && is_twin { self.with_shadow(of, |shadow| Ok(find_kink(shadow)))? } else { None };
        for warning in report.warnings(&derivatives, kink, obstacle) {
            self.interp.warn(warning);
        }
        Ok(())
    }

    /// Calls `run` with the function in its own types.
    fn with_function<T>(
        &mut self,
        of: GradcheckCall<'_>,
        run: impl FnOnce(&mut GradcheckFunction<'_>) -> Eval<T>,
    ) -> Eval<T> {
        let draws = self.interp.random_position;
        let mut world = SilentEffects(&mut *self.effects);
        let machine = EvalContext {
            interp: &mut *self.interp,
            program: self.program,
            sources: self.sources,
            effects: &mut world,
            exec: self.exec.clone(),
        };
        let frame = HostFrame::new(of.frame.generics.clone(), of.frame.dims.clone());
        let GradcheckCall { derive, values, span, .. } = of;
        let result = run(&mut GradcheckFunction {
            context: machine,
            frame,
            derive,
            values: values.to_vec(),
            span,
            random_position: draws,
            no_grad_values: vec![],
        });
        self.interp.random_position = draws;
        result
    }

    /// Calls `run` with the function's `f64` shadow.
    fn with_shadow<T>(
        &mut self,
        of: GradcheckCall<'_>,
        run: impl FnOnce(&mut GradcheckFunction<'_>) -> Eval<T>,
    ) -> Eval<T> {
        let mut shadow = F64Shadow::new(self, of.frame, of.derive);
        let values = of.values.iter().map(|value| shadow.widen_value(self, value)).collect();
        let values: Vec<HostValue> = self.locate_error(values, of.span)?;
        let (draws, span, frame) = (self.interp.random_position, of.span, shadow.shadow_frame(of.frame));
        let F64Shadow { program, mut interp, derive, .. } = shadow;
        let exec = interp.exec_context().at(self.exec.location());
        let mut world = SilentEffects(&mut *self.effects);
        let machine =
            EvalContext { interp: &mut interp, program: &program, sources: self.sources, effects: &mut world, exec };
        run(&mut GradcheckFunction {
            context: machine,
            frame,
            derive: &derive,
            values,
            span,
            random_position: draws,
            no_grad_values: vec![],
        })
    }

    /// Adds the input element and the source line that cause an error to it, if they can be found.
    fn explain_error(
        &mut self,
        of: GradcheckCall<'_>,
        report: &GradcheckReport,
        plan: &GradcheckPlan,
        mut wrong: Diagnostic,
        measured: &DirectionalDerivative,
    ) -> Diagnostic {
        if let Ok(Some((at, reverse, differences))) =
            self.with_shadow(of, |shadow| worst_number(shadow, measured, EXACT))
        {
            let param = of.derive.wrt.get(measured.param).and_then(|&at| of.values.get(at as usize));
            let name = report.param_name(measured.param);
            let place = match (param, at - plan.params[measured.param].start) {
                (Some(HostValue::Array(array)), at) => format!("`{name}{}`", ops::index_text(array.shape(), at)),
                (Some(HostValue::Scalar(_)), _) => format!("`{name}`"),
                (_, at) => format!("number {} of `{name}`", at + 1),
            };
            let (reverse, differences) = (format_short(reverse), format_short(differences));
            wrong = wrong.note(format!(
                "the largest part of it is by {place}: reverse mode says {reverse}, differences {differences}"
            ));
        }
        let finite = measured.modes.values().all(f64::is_finite);
        if !finite {
            wrong = wrong.note("an infinite or NaN derivative makes every product with it infinite or NaN");
        }
        let finds = if finite { AuditTarget::WrongRules } else { AuditTarget::Kinks };
        if let Ok(Some((at, says))) = self.with_shadow(of, |shadow| Ok(shadow.locate(finds))) {
            wrong = wrong.because(at, says);
        }
        wrong
    }

    fn gradcheck_names(&self, of: GradcheckCall<'_>) -> GradcheckNames {
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
            around.push(Builtin::Derive(derive.kind).name());
            outer = &derive.of;
        }
        for derivative in around.iter().rev() {
            name = format!("{derivative}({name})");
        }
        let param = |&at: &u32| params.get(at as usize).cloned().unwrap_or_else(|| format!("argument {}", at + 1));
        GradcheckNames { function: name, params: of.derive.wrt.iter().map(param).collect() }
    }
}

/// Names of the function and its differentiated parameters.
struct GradcheckNames {
    function: String,
    params: Vec<String>,
}

/// The properties of a check that its messages need.
struct GradcheckReport {
    names: GradcheckNames,
    /// Precision of the narrowest float type in the function, which is `ty`.
    precision: DifferencePrecision,
    ty: Scalar,
    has_shadow: bool,
    span: Span,
}

impl GradcheckReport {
    fn param_name(&self, param: usize) -> &str {
        self.names.params.get(param).map_or("?", String::as_str)
    }

    /// Returns an error if the derivatives along a direction disagree.
    fn disagreement(&self, of: &DirectionalDerivative, own: DerivativeModes) -> Option<Diagnostic> {
        let (function, param) = (&self.names.function, self.param_name(of.param));
        let Slope::Smooth { value, noise } = of.slope else {
            // There are no finite differences along this direction, so only the two modes are compared. Infinities and
            // NaNs are not errors then.
            let differ = |modes: DerivativeModes, way: DifferencePrecision| {
                let most = way.tolerance * modes.scale + rounding_floor(way, of);
                modes.forward.is_some_and(|forward| (forward - modes.reverse).abs() > most)
            };
            let (wide, narrow) = (differ(of.modes, EXACT) && self.has_shadow, differ(own, self.precision));
            let modes = if wide { of.modes } else { own };
            let title = format!("forward and reverse mode do not agree on the derivative of `{function}` by `{param}`");
            return (wide || narrow).then(|| self.error_with_values(title, of, modes, None));
        };
        let scale = of.modes.scale + value.abs();
        let off = |found: f64, way: DifferencePrecision| {
            let most = way.tolerance * scale + noise + rounding_floor(way, of);
            found.is_nan() || (found - value).abs() > most
        };
        let loose = DifferencePrecision { tolerance: 4.0 * self.precision.epsilon.cbrt(), ..self.precision };
        let precision = if self.has_shadow { EXACT } else { loose };
        if of.modes.values().any(|found| off(found, precision)) {
            let finite = of.modes.values().all(f64::is_finite);
            let title = format!(
                "the derivative of `{function}` by `{param}` is {}",
                if finite { "wrong" } else { "not finite" }
            );
            return Some(self.error_with_values(title, of, of.modes, Some(value)));
        }
        if self.has_shadow && own.values().any(|found| off(found, self.precision)) {
            let fails = if own.values().all(f64::is_finite) { "loses its digits" } else { "is not finite" };
            let title = format!("the derivative of `{function}` by `{param}` {fails} in `{}`", self.ty);
            let error = self.error_with_values(title, of, own, Some(value));
            return Some(error.note("its rules are right: in `f64` both modes agree with the differences"));
        }
        None
    }

    fn error_with_values(
        &self,
        title: String,
        of: &DirectionalDerivative,
        modes: DerivativeModes,
        differences: Option<f64>,
    ) -> Diagnostic {
        let mut values_text = format!("reverse mode says {}", format_short(modes.reverse));
        if let Some(forward) = modes.forward {
            values_text += &format!(", forward mode {}", format_short(forward));
        }
        if let Some(value) = differences {
            values_text += &format!(", differences {}", format_short(value));
        }
        let own: Vec<f64> = of.direction.iter().copied().filter(|v| *v != 0.0).collect();
        let direction_text = format!(
            "along `{}` = {} (direction {} of {ROUNDS})",
            self.param_name(of.param),
            format_list(&own),
            of.round + 1
        );
        let weighted = match &of.cotangent[..] {
            [one] => format!("{direction_text}, of the result times {}", format_short(*one)),
            several => format!("{direction_text}, of the sum of the results times {}", format_list(several)),
        };
        Diagnostic::error("E0721", title).at(self.span, values_text).note(weighted)
    }

    /// Returns warnings about directions, inputs and modes that could not be compared.
    fn warnings(
        &self,
        found: &[DirectionalDerivative],
        kink: Option<LocatedText>,
        obstacle: Option<LocatedText>,
    ) -> Vec<Diagnostic> {
        let function = &self.names.function;
        let mut warnings = vec![];
        for param in 0..self.names.params.len() {
            let own = || found.iter().filter(|of| of.param == param);
            let rough = own().filter(|of| !is_smooth(of.slope)).count();
            let left_out = own().map(|of| of.left_out).max().unwrap_or(0);
            let name = self.param_name(param);
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
            let warning = Diagnostic::warning("W0721", title).at(self.span, "there is no `f64` shadow to compare with");
            warnings.push(if at == self.span { warning.note(why) } else { warning.because(at, why) });
        }
        warnings
    }
}

/// Returns the rounding error that a derivative may have because of cancellation: a few ULPs of the magnitude
/// `of.size`.
fn rounding_floor(way: DifferencePrecision, of: &DirectionalDerivative) -> f64 {
    const UNITS: f64 = 16.0;
    if of.size.is_finite() { UNITS * way.epsilon * of.size } else { 0.0 }
}

/// Returns the distance from 1 to the next larger number of a type.
fn epsilon_of(ty: Scalar) -> f64 {
    match ty {
        Scalar::Bf16 => 2f64.powi(-7),
        Scalar::F16 => 2f64.powi(-10),
        Scalar::F32 => f64::from(f32::EPSILON),
        _ => f64::EPSILON,
    }
}

/// Formats a number with about six significant digits.
fn format_short(number: f64) -> String {
    let size = number.abs();
    if number == 0.0 || (1e-3..1e7).contains(&size) {
        let digits = 6 - (size.max(1.0).log10().floor() as usize).min(6);
        let text = format!("{number:.digits$}");
        let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
        return text.to_string();
    }
    format!("{number:.5e}")
}

/// Formats a list of numbers; a long list is truncated.
fn format_list(numbers: &[f64]) -> String {
    const SHOWN: usize = 4;
    let first: Vec<String> = numbers.iter().take(SHOWN).map(|number| format_short(*number)).collect();
    let more = if numbers.len() > SHOWN { ", …" } else { "" };
    match numbers {
        [_] => first.concat(),
        _ => format!("[{}{more}]", first.join(", ")),
    }
}
