//! `printf`: the numbers and texts of a format become arguments of `print`. Widths and precisions of numbers are left
//! out.

use super::arith::realize;
use super::lower::{Local, Lower};
use super::tree::{Expr, ExprKind};
use super::value::{Denoted, Res, refuse};
use crate::ast::{BasicType, CppExpr, CppExprKind, StringLiteral};
use crate::source::SourceSpan;

/// A part of a format.
enum FormatPart {
    Text(String),
    Number,
    /// `%s`, with the maximum number of bytes.
    String(Option<usize>),
}

impl<'a> Lower<'_, 'a> {
    pub(crate) fn call_printf(&mut self, format: &'a CppExpr, values: &'a [CppExpr], span: SourceSpan) -> Res<Denoted> {
        let Some(format) = self.literal_text(format) else {
            return refuse("`printf` with a computed format", span, "use a string literal");
        };
        let parts = format_parts(format.trim_end_matches('\n'), span)?;
        let conversions = parts.iter().filter(|part| !matches!(part, FormatPart::Text(_)));
        for (part, value) in conversions.zip(values) {
            if let (FormatPart::String(_), None) = (part, self.literal_text(value)) {
                let help = "use a string literal, or a variable that is initialized with one";
                return refuse("`%s` of a computed string", value.span, help);
            }
        }
        let numbers: Vec<&CppExpr> = values.iter().filter(|value| self.literal_text(value).is_none()).collect();
        let mut numbers = self.operands(&numbers)?.into_iter();
        let mut values = values.iter();
        let mut exprs: Vec<Expr> = vec![];
        let mut text = String::new();
        for part in parts {
            let mut next = || match values.next() {
                Some(value) => Ok(value),
                None => refuse("`printf` with too few arguments", span, ""),
            };
            match part {
                FormatPart::Text(own) => text.push_str(&own),
                FormatPart::String(limit) => {
                    let own = self.literal_text(next()?).unwrap_or_default();
                    text.extend(own.chars().take(limit.unwrap_or(usize::MAX)));
                }
                FormatPart::Number => {
                    let value = next()?;
                    let (true, Some(number)) = (self.literal_text(value).is_none(), numbers.next()) else {
                        return refuse("a string for a number of `printf`", value.span, "use `%s`");
                    };
                    if !number.ty.is_arithmetic() {
                        return refuse("`printf` of this argument", span, "print numbers");
                    }
                    exprs.extend(text_expr(&text, span));
                    text.clear();
                    exprs.push(realize(&number));
                }
            }
        }
        exprs.extend(text_expr(&text, span));
        self.void_call("print", exprs, span)
    }

    /// Returns the text of a string literal, or of a variable that is initialized with one and never assigned.
    fn literal_text(&self, value: &CppExpr) -> Option<String> {
        match &value.kind {
            CppExprKind::String(literal) => text_of(literal),
            CppExprKind::Name(name) => match (name.segments.as_slice(), name.global) {
                ([only], false) => match self.find_local(&only.name.text)? {
                    Local::Text(text) => Some(text.to_string()),
                    _ => None,
                },
                _ => None,
            },
            _ => None,
        }
    }
}

/// Returns the text of a literal of `char`, up to its first zero.
pub(crate) fn text_of(literal: &StringLiteral) -> Option<String> {
    let bytes = literal.bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    (literal.ty == BasicType::Char).then(|| String::from_utf8_lossy(bytes).into_owned())
}

/// Returns a text as an argument of `print`, which separates its arguments by spaces.
fn text_expr(text: &str, span: SourceSpan) -> Option<Expr> {
    let mut escaped = String::new();
    for c in text.chars() {
        match c {
            '{' => escaped.push_str("{{"),
            '}' => escaped.push_str("}}"),
            '"' => escaped.push_str("\\\""),
            '\\' => escaped.push_str("\\\\"),
            c if c.is_control() => escaped.push(' '),
            c => escaped.push(c),
        }
    }
    let trimmed = escaped.trim();
    (!trimmed.is_empty()).then(|| Expr::new(ExprKind::Text(format!("\"{trimmed}\"")), span))
}

fn format_parts(format: &str, span: SourceSpan) -> Res<Vec<FormatPart>> {
    let mut parts = vec![];
    let mut rest = format;
    while let Some((text, after)) = rest.split_once('%') {
        parts.push(FormatPart::Text(text.into()));
        let Some(end) =
            after.find(|c: char| c.is_ascii_alphabetic() && !matches!(c, 'l' | 'h' | 'z' | 'j' | 't') || c == '%')
        else {
            return refuse("`printf` with an incomplete format", span, "write `%%` for a percent sign");
        };
        let (options, conversion) = (&after[..end], after.as_bytes()[end]);
        if options.contains('*') {
            return refuse("`printf` with a width that is an argument", span, "write the width in the format");
        }
        parts.push(match conversion {
            b'%' => FormatPart::Text("%".into()),
            b's' => FormatPart::String(options.split_once('.').map(|(_, precision)| precision.parse().unwrap_or(0))),
            b'd' | b'i' | b'u' | b'o' | b'x' | b'X' | b'c' | b'f' | b'F' | b'e' | b'E' | b'g' | b'G' | b'a' | b'A' => {
                FormatPart::Number
            }
            other => {
                let construct = format!("`%{}` in `printf`", char::from(other));
                return refuse(construct, span, "print numbers and string literals");
            }
        });
        rest = &after[end + 1..];
    }
    parts.push(FormatPart::Text(rest.into()));
    Ok(parts)
}
