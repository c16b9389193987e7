//! Interpolated strings and `print`.

use crate::check::typed::{Expr, StrPart};
use crate::host::format;

use super::frame::Frame;
use super::{Eval, Machine};

impl Machine<'_> {
    /// A string literal with its values put in.
    pub(crate) fn string(&mut self, frame: &mut Frame, parts: &[StrPart]) -> Eval<String> {
        let mut text = String::new();
        for part in parts {
            match part {
                StrPart::Text(piece) => text.push_str(piece),
                StrPart::Value { expr, format } => {
                    let value = self.eval(frame, expr)?;
                    let spec = format.as_ref().map_or("", |f| f.text.as_str());
                    let piece = format::with_spec(&value, spec).map_err(|p| self.problem(p, expr.span))?;
                    text.push_str(&piece);
                }
            }
        }
        Ok(text)
    }

    /// `print(a, b)`: the values with spaces between and a newline behind.
    pub(crate) fn print(&mut self, frame: &mut Frame, args: &[Expr]) -> Eval<()> {
        let mut text = String::new();
        for (i, arg) in args.iter().enumerate() {
            if i > 0 {
                text.push(' ');
            }
            let value = self.eval(frame, arg)?;
            text.push_str(&format::print(&value));
        }
        text.push('\n');
        // A kernel that has failed comes before what the script says next.
        self.confirm(self.interp.at)?;
        self.world.print(&text);
        Ok(())
    }
}
