//! Evaluates the builtins that draw: `image`, `heat`, `plot`, `scatter`, `bar` and `hist`.

use super::builtin::{NamedArgs, as_f64};
use super::context::{Eval, EvalContext, Signal};
use super::eval::named_arg;
use super::frame::HostFrame;
use crate::array::Array;
use crate::ops;
use crate::picture::chart::{self, ChartKind, ChartOptions};
use crate::picture::{self, shown::ShownPicture};
use crate::value::HostValue;
use clk_base::diag::Diagnostic;
use clk_base::source::Span;
use clk_check::typed::Expr;

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
        let fps = self.number_option(frame, more, "fps")?;
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
        let fps = self.number_option(frame, more, "fps")?;
        let bins = match named_arg(more, "bins") {
            Some(bins) => Some(self.eval_integer(frame, bins)?),
            None => None,
        };
        let options = ChartOptions {
            title: self.text_option(frame, more, "title")?,
            x_label: self.text_option(frame, more, "xlabel")?,
            y_label: self.text_option(frame, more, "ylabel")?,
            log: self.text_option(frame, more, "log")?,
            labels: self.texts_option(frame, more, "labels")?,
            styles: self.texts_option(frame, more, "style")?,
            low: self.array_option(frame, more, "low")?,
            high: self.array_option(frame, more, "high")?,
            bins,
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

    fn text_option(&mut self, frame: &mut HostFrame, more: NamedArgs<'_>, name: &str) -> Eval<String> {
        match named_arg(more, name) {
            Some(option) => Ok(self.text_argument(frame, std::slice::from_ref(option), option.span)?.to_string()),
            None => Ok(String::new()),
        }
    }

    fn texts_option(&mut self, frame: &mut HostFrame, more: NamedArgs<'_>, name: &str) -> Eval<Vec<String>> {
        let Some(option) = named_arg(more, name) else { return Ok(vec![]) };
        match self.eval(frame, option)? {
            HostValue::Str(text) => Ok(vec![text.to_string()]),
            HostValue::Strings(texts) => Ok(texts.iter().map(ToString::to_string).collect()),
            other => Err(self.wrong_option(name, "a text or an array of texts", &other, option.span)),
        }
    }

    fn array_option(&mut self, frame: &mut HostFrame, more: NamedArgs<'_>, name: &str) -> Eval<Option<Array>> {
        let Some(option) = named_arg(more, name) else { return Ok(None) };
        match self.eval(frame, option)? {
            HostValue::Array(array) => Ok(Some(array)),
            other => Err(self.wrong_option(name, "an array", &other, option.span)),
        }
    }

    fn number_option(&mut self, frame: &mut HostFrame, more: NamedArgs<'_>, name: &str) -> Eval<Option<f64>> {
        let Some(option) = named_arg(more, name) else { return Ok(None) };
        let value = self.eval(frame, option)?;
        match as_f64(&value) {
            Some(number) => Ok(Some(number)),
            None => Err(self.wrong_option(name, "a number", &value, option.span)),
        }
    }

    fn wrong_option(&self, name: &str, expected: &str, value: &HostValue, span: Span) -> Signal {
        let actual = value.type_name();
        let d = Diagnostic::error("E0505", format!("`{name}` must be {expected}, but this is `{actual}`"));
        self.error(d.at(span, format!("this is `{actual}`")))
    }

    /// Returns the error for values that a picture does not accept. The checker reports the same error if it knows the
    /// types of the values.
    fn unsupported_data(&self, name: &str, values: &[HostValue], span: Span) -> Signal {
        let values: Vec<&HostValue> = values.iter().collect();
        let problem = ops::operand::undefined(&format!("`{name}`"), &values);
        self.problem(problem.help("it takes a path as text, which comes first, and an array of numbers"), span)
    }
}
