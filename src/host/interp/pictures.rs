//! Evaluates the builtins that draw: `image`, `heat`, `plot`, `scatter`, `bar` and `hist`.

use super::builtin::{NamedArgs, as_f64};
use super::context::{Eval, EvalContext, Signal};
use super::frame::HostFrame;
use crate::array::Array;
use crate::ops;
use crate::picture::chart::{self, ChartKind, ChartOptions};
use crate::picture::{self, shown::ShownPicture};
use crate::value::HostValue;
use clk_base::diag::Diagnostic;
use clk_base::source::Span;
use clk_check::typed::{Expr, SmolStr};

/// The value of a named argument.
struct NamedValue<'e> {
    name: &'e str,
    value: HostValue,
    span: Span,
}

impl EvalContext<'_> {
    /// Evaluates `image` or `heat`.
    pub(super) fn raster_builtin(
        &mut self,
        frame: &mut HostFrame,
        is_heat: bool,
        (args, more): (&[Expr], NamedArgs<'_>),
        span: Span,
    ) -> Eval {
        let values = self.eval_all(frame, args)?;
        let options = self.named_values(frame, more)?;
        let fps = self.number_option(&options, "fps")?;
        match &values[..] {
            [HostValue::Array(array)] => {
                let shown = if is_heat { ShownPicture::heat(array, fps) } else { ShownPicture::image(array, fps) };
                let shown = shown.map_err(|p| self.problem(p, span))?;
                self.effects.show(shown);
            }
            [HostValue::Str(path), HostValue::Array(array)] => {
                let draw = if is_heat { picture::heat_file } else { picture::image_file };
                let bytes = draw(path, array, fps).map_err(|p| self.problem(p, span))?;
                self.write_file(path, &bytes, span)?;
            }
            values => return Err(self.unsupported_data(if is_heat { "heat" } else { "image" }, values, span)),
        }
        Ok(HostValue::Unit)
    }

    /// Evaluates `plot`, `scatter`, `bar` or `hist`.
    pub(super) fn chart_builtin(
        &mut self,
        frame: &mut HostFrame,
        kind: ChartKind,
        (args, more): (&[Expr], NamedArgs<'_>),
        span: Span,
    ) -> Eval {
        let values = self.eval_all(frame, args)?;
        let (path, values) = match &values[..] {
            [HostValue::Str(path), values @ ..] => (Some(path), values),
            values => (None, values),
        };
        let options = self.named_values(frame, more)?;
        let fps = self.number_option(&options, "fps")?;
        let bins = options.iter().find(|option| option.name == "bins");
        let options = ChartOptions {
            title: self.text_option(&options, "title")?,
            x_label: self.text_option(&options, "xlabel")?,
            y_label: self.text_option(&options, "ylabel")?,
            log: self.text_option(&options, "log")?,
            labels: self.texts_option(&options, "labels")?,
            styles: self.texts_option(&options, "style")?,
            low: self.array_option(&options, "low")?,
            high: self.array_option(&options, "high")?,
            bins: bins.map(|bins| self.as_integer(&bins.value, bins.span)).transpose()?,
            is_animated: fps.is_some(),
        };
        let figures = chart::figures(kind, values, &options).map_err(|p| self.problem(p, span))?;
        match path {
            Some(path) => {
                let bytes = picture::chart_file(path, &figures, fps).map_err(|p| self.problem(p, span))?;
                self.write_file(path, &bytes, span)?;
            }
            None => {
                let shown = ShownPicture::chart(figures, fps).map_err(|p| self.problem(p, span))?;
                self.effects.show(shown);
            }
        }
        Ok(HostValue::Unit)
    }

    /// Evaluates named arguments in their order.
    fn named_values<'e>(&mut self, frame: &mut HostFrame, more: NamedArgs<'e>) -> Eval<Vec<NamedValue<'e>>> {
        let evaluate = |(name, option): &'e (SmolStr, Expr)| {
            let value = self.eval(frame, option)?;
            Ok(NamedValue { name, value, span: option.span })
        };
        more.iter().map(evaluate).collect()
    }

    fn text_option(&self, options: &[NamedValue<'_>], name: &str) -> Eval<String> {
        match options.iter().find(|option| option.name == name) {
            Some(NamedValue { value: HostValue::Str(text), .. }) => Ok(text.to_string()),
            Some(other) => Err(self.wrong_option(other, "a text")),
            None => Ok(String::new()),
        }
    }

    fn texts_option(&self, options: &[NamedValue<'_>], name: &str) -> Eval<Vec<String>> {
        let Some(option) = options.iter().find(|option| option.name == name) else { return Ok(vec![]) };
        match &option.value {
            HostValue::Str(text) => Ok(vec![text.to_string()]),
            HostValue::Strings(texts) => Ok(texts.iter().map(ToString::to_string).collect()),
            _ => Err(self.wrong_option(option, "a text or an array of texts")),
        }
    }

    fn array_option(&self, options: &[NamedValue<'_>], name: &str) -> Eval<Option<Array>> {
        match options.iter().find(|option| option.name == name) {
            Some(NamedValue { value: HostValue::Array(array), .. }) => Ok(Some(array.clone())),
            Some(other) => Err(self.wrong_option(other, "an array")),
            None => Ok(None),
        }
    }

    fn number_option(&self, options: &[NamedValue<'_>], name: &str) -> Eval<Option<f64>> {
        let Some(option) = options.iter().find(|option| option.name == name) else { return Ok(None) };
        as_f64(&option.value).map(Some).ok_or_else(|| self.wrong_option(option, "a number"))
    }

    fn wrong_option(&self, option: &NamedValue<'_>, expected: &str) -> Signal {
        let (name, actual) = (option.name, option.value.type_name());
        let d = Diagnostic::error("E0505", format!("`{name}` must be {expected}, but this is `{actual}`"));
        self.error(d.at(option.span, format!("this is `{actual}`")))
    }

    /// Returns the error for values that a picture does not accept. The checker reports the same error if it knows the
    /// types of the values.
    fn unsupported_data(&self, name: &str, values: &[HostValue], span: Span) -> Signal {
        let values: Vec<&HostValue> = values.iter().collect();
        let problem = ops::operand::undefined(&format!("`{name}`"), &values);
        self.problem(problem.help("it takes a path as text, which comes first, and an array of numbers"), span)
    }
}
