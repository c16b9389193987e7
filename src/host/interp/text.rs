//! Text in scripts: string interpolation, `print`, arrays of texts, text files, and `exit`.

use crate::base::diag::Diagnostic;
use crate::base::source::Span;
use crate::base::{room, stop};
use crate::check::typed::{Expr, StrPart};
use crate::host::value::Value;
use crate::host::{files, format, ops};

use super::builtin::Named;
use super::eval::named;
use super::frame::Frame;
use super::machine::{Eval, Machine, Signal};

impl Machine<'_> {
    /// Evaluates a string literal with interpolated values.
    pub(crate) fn string(&mut self, frame: &mut Frame, parts: &[StrPart]) -> Eval {
        let mut text = String::new();
        for part in parts {
            match part {
                StrPart::Text(piece) => ops::text::push(&mut text, piece),
                StrPart::Value { expr, format } => {
                    let value = self.eval(frame, expr)?;
                    let spec = format.as_ref().map_or("", |f| f.text.as_str());
                    match (&value, spec, parts) {
                        // A text by itself is shared rather than copied.
                        (Value::Str(_), "", [_]) => return Ok(value),
                        (Value::Str(piece), "", _) => ops::text::push(&mut text, piece),
                        _ => {
                            let piece = format::with_spec(&value, spec).map_err(|p| self.problem(p, expr.span))?;
                            ops::text::push(&mut text, &piece);
                        }
                    }
                }
            }
        }
        ops::text::made(text).map(Value::Str).map_err(|p| self.problem(p, self.interp.at))
    }

    /// Evaluates `print(a, b)`: the values separated by spaces, followed by a newline.
    pub(crate) fn print(&mut self, frame: &mut Frame, args: &[Expr]) -> Eval<()> {
        let mut text = String::new();
        for (i, arg) in args.iter().enumerate() {
            if i > 0 {
                text.push(' ');
            }
            match self.eval(frame, arg)? {
                Value::Str(piece) => ops::text::push(&mut text, &piece),
                value => {
                    let piece = format::print(&value).map_err(|p| self.problem(p, arg.span))?;
                    ops::text::push(&mut text, &piece);
                }
            }
        }
        text.push('\n');
        // An error of an earlier kernel must be reported before later output.
        self.confirm(self.interp.at)?;
        self.world.print(&text);
        Ok(())
    }

    /// Evaluates `["a", "b"]`.
    pub(super) fn texts_literal(&mut self, values: Vec<Value>, items: &[&Expr], span: Span) -> Eval {
        let mut texts = room::vec(values.len());
        for (i, value) in stop::polled(values.into_iter().enumerate()) {
            let Value::Str(text) = value else {
                let found = value.type_name();
                let diagnostic = Diagnostic::error("E0504", format!("an array of texts can't hold `{found}`"));
                let place = items.get(i).map_or(span, |item| item.span);
                let diagnostic = diagnostic.at(place, format!("this is `{found}`"));
                return Err(self.error(diagnostic.help("`str(x)` makes text of a value")));
            };
            texts.push(text);
        }
        self.settle_problem(ops::text::texts(texts), span)
    }

    /// Evaluates `parse(f64, text)`. If the checker did not know whether `text` is one text or an array, the type is a named
    /// argument.
    pub(super) fn parse(&mut self, frame: &mut Frame, args: &[Expr], more: Named<'_>, expr: &Expr) -> Eval {
        let ty = named(more, "type").map_or(&expr.ty, |ty| &ty.ty);
        let to = self.scalar_of(frame, ty, expr.span)?;
        let Some(text) = args.first() else { return Err(self.broken(expr.span, "`parse` of nothing")) };
        let text = self.eval(frame, text)?;
        self.settle_problem(ops::parse(to, &text), expr.span)
    }

    /// Evaluates `read_text(path)`.
    pub(super) fn read_text(&mut self, frame: &mut Frame, args: &[Expr], span: Span) -> Eval {
        let path = self.text_argument(frame, args, span)?;
        let place = args.first().map_or(span, |a| a.span);
        let bytes = self.read_file(&path, place)?;
        let text = files::text(&path, &bytes).and_then(|text| ops::text::of_pieces(std::iter::once(text)));
        self.settle_problem(text.map(Value::Str), place)
    }

    /// Evaluates `write_text(path, text)`.
    pub(super) fn write_text(&mut self, frame: &mut Frame, args: &[Expr], span: Span) -> Eval {
        let values = self.values(frame, args)?;
        let [Value::Str(path), Value::Str(text)] = values.as_slice() else {
            let diagnostic =
                Diagnostic::error("E0504", "`write_text` takes a path and a text").at(span, "one is neither");
            return Err(
                self.error(diagnostic.help("`join(parts, \"\\n\")` makes one text of many, `str(x)` of a value"))
            );
        };
        self.write_file(path, text.as_bytes(), args.first().map_or(span, |a| a.span))?;
        Ok(Value::Unit)
    }

    /// Evaluates `exit(code)`.
    pub(super) fn exit(&mut self, frame: &mut Frame, args: &[Expr], span: Span) -> Eval {
        let code = args.first().map_or(Ok(0), |code| self.integer(frame, code))?;
        let Ok(code) = u8::try_from(code) else {
            let place = args.first().map_or(span, |a| a.span);
            let diagnostic = Diagnostic::error("E0541", format!("{code} is no exit code")).at(place, "from 0 to 255");
            return Err(self.error(diagnostic.help("0 says that all is well, any other code that something is not")));
        };
        Err(Signal::Exit(code, span))
    }
}
