//! Text in scripts: string interpolation, `print`, arrays of texts, text files, and `exit`.

use crate::value::HostValue;
use crate::{files, format, ops};
use clk_base::diag::Diagnostic;
use clk_base::source::Span;
use clk_base::{alloc, stop};
use clk_check::typed::{Expr, StrPart};

use super::builtin::NamedArgs;
use super::context::{Eval, EvalContext, Signal};
use super::eval::named_arg;
use super::frame::HostFrame;

impl EvalContext<'_> {
    /// Evaluates a string literal with interpolated values.
    pub(crate) fn eval_string(&mut self, frame: &mut HostFrame, parts: &[StrPart]) -> Eval {
        let mut text = String::new();
        for part in parts {
            match part {
                StrPart::Text(piece) => ops::text::push(&mut text, piece),
                StrPart::Value { expr, format } => {
                    let value = self.eval(frame, expr)?;
                    let spec = format.as_ref().map_or("", |f| f.text.as_str());
                    match (&value, spec, parts) {
                        // The text of `"{text}"` is shared rather than copied.
                        (HostValue::Str(_), "", [_]) => return Ok(value),
                        (HostValue::Str(piece), "", _) => ops::text::push(&mut text, piece),
                        _ => {
                            let piece = format::with_spec(&value, spec).map_err(|p| self.problem(p, expr.span))?;
                            ops::text::push(&mut text, &piece);
                        }
                    }
                }
            }
        }
        ops::text::checked_text(text).map(HostValue::Str).map_err(|p| self.problem(p, self.interp.stack.span))
    }

    /// Evaluates `print(a, b)`: the values separated by spaces, followed by a newline.
    pub(crate) fn print(&mut self, frame: &mut HostFrame, args: &[Expr]) -> Eval<()> {
        let mut text = String::new();
        for (i, arg) in args.iter().enumerate() {
            if i > 0 {
                text.push(' ');
            }
            match self.eval(frame, arg)? {
                HostValue::Str(piece) => ops::text::push(&mut text, &piece),
                value => {
                    let piece = format::print(&value).map_err(|p| self.problem(p, arg.span))?;
                    ops::text::push(&mut text, &piece);
                }
            }
        }
        text.push('\n');
        // An error of an earlier kernel must be reported before later output.
        self.report_pending_faults(self.interp.stack.span)?;
        self.effects.print(&text);
        Ok(())
    }

    /// Evaluates `["a", "b"]`.
    pub(super) fn texts_literal(&mut self, values: Vec<HostValue>, items: &[&Expr], span: Span) -> Eval {
        let mut texts = alloc::vec(values.len());
        for (i, value) in stop::polled(values.into_iter().enumerate()) {
            let HostValue::Str(text) = value else {
                let actual = value.type_name();
                let diagnostic = Diagnostic::error("E0504", format!("an array of texts can't hold `{actual}`"));
                let place = items.get(i).map_or(span, |item| item.span);
                let diagnostic = diagnostic.at(place, format!("this is `{actual}`"));
                return Err(self.error(diagnostic.help("`str(x)` makes text of a value")));
            };
            texts.push(text);
        }
        self.locate_error(ops::text::texts(texts), span)
    }

    /// Evaluates `parse(f64, text)`. The checker passes the type as a named argument if it does not know whether `text`
    /// is one text or an array of texts.
    pub(super) fn parse(&mut self, frame: &mut HostFrame, args: &[Expr], more: NamedArgs<'_>, expr: &Expr) -> Eval {
        let ty = named_arg(more, "type").map_or(&expr.ty, |ty| &ty.ty);
        let to = self.scalar_of(frame, ty, expr.span)?;
        let Some(text) = args.first() else { return Err(self.internal_error(expr.span, "`parse` of nothing")) };
        let text = self.eval(frame, text)?;
        self.locate_error(ops::parse(to, &text), expr.span)
    }

    /// Evaluates `read_text(path)`.
    pub(super) fn read_text(&mut self, frame: &mut HostFrame, args: &[Expr], span: Span) -> Eval {
        let path = self.text_argument(frame, args, span)?;
        let place = args.first().map_or(span, |a| a.span);
        let bytes = self.read_file(&path, place)?;
        let text = files::text(&path, &bytes).and_then(|text| ops::text::concat_pieces(std::iter::once(text)));
        self.locate_error(text.map(HostValue::Str), place)
    }

    /// Evaluates `write_text(path, text)`.
    pub(super) fn write_text(&mut self, frame: &mut HostFrame, args: &[Expr], span: Span) -> Eval {
        let values = self.eval_all(frame, args)?;
        let [HostValue::Str(path), HostValue::Str(text)] = values.as_slice() else {
            let diagnostic =
                Diagnostic::error("E0504", "`write_text` takes a path and a text").at(span, "one is neither");
            return Err(
                self.error(diagnostic.help("`join(parts, \"\\n\")` makes one text of many, `str(x)` of a value"))
            );
        };
        self.write_file(path, text.as_bytes(), args.first().map_or(span, |a| a.span))?;
        Ok(HostValue::Unit)
    }

    /// Evaluates `exit(code)`.
    pub(super) fn exit(&mut self, frame: &mut HostFrame, args: &[Expr], span: Span) -> Eval {
        let code = args.first().map_or(Ok(0), |code| self.eval_integer(frame, code))?;
        let Ok(code) = u8::try_from(code) else {
            let place = args.first().map_or(span, |a| a.span);
            let diagnostic =
                Diagnostic::error("E0541", format!("{code} is not an exit code")).at(place, "from 0 to 255");
            return Err(self.error(diagnostic.help("0 means success, and any other code failure")));
        };
        Err(Signal::Exit(code, span))
    }
}
