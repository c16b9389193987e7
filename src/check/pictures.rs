//! Calls of the builtins that draw: `image`, `heat`, `plot`, `scatter`, `bar` and `hist`.
//!
//! Each takes a path, if it writes a file, then arrays, and options by name.

use crate::arguments::{NamedParam, by_name};
use crate::build::bare;
use crate::builtin_call::BuiltinCall;
use crate::context::Cx;
use crate::infer::TypeClass;
use crate::typed::*;
use clk_base::diag::{Applicability, Diagnostic};
use clk_base::source::Span;
use clk_scalar::builtin::Builtin;
use clk_syntax::ast::{self, ExprKind as Ast};

/// The type of an option.
#[derive(Clone, Copy)]
enum OptionType {
    Text,
    /// One of these texts.
    OneOf(&'static [&'static str]),
    /// A text, or an array of texts with one for each series.
    Texts,
    Array,
    Int,
    Number,
}

const LOG: (&str, OptionType) = ("log", OptionType::OneOf(&["x", "y", "xy"]));
const TITLE: (&str, OptionType) = ("title", OptionType::Text);
const X_LABEL: (&str, OptionType) = ("xlabel", OptionType::Text);
const Y_LABEL: (&str, OptionType) = ("ylabel", OptionType::Text);
const LABELS: (&str, OptionType) = ("labels", OptionType::Texts);
const LOW: (&str, OptionType) = ("low", OptionType::Array);
const HIGH: (&str, OptionType) = ("high", OptionType::Array);
const FPS: (&str, OptionType) = ("fps", OptionType::Number);

/// Returns the options of a builtin.
fn options_of(builtin: Builtin) -> &'static [(&'static str, OptionType)] {
    match builtin {
        Builtin::Plot => &[LABELS, ("style", OptionType::Texts), LOW, HIGH, LOG, TITLE, X_LABEL, Y_LABEL, FPS],
        Builtin::Scatter => &[LABELS, LOW, HIGH, LOG, TITLE, X_LABEL, Y_LABEL, FPS],
        Builtin::Bar => &[LABELS, LOW, HIGH, ("log", OptionType::OneOf(&["y"])), TITLE, X_LABEL, Y_LABEL, FPS],
        Builtin::Hist => {
            &[LABELS, ("bins", OptionType::Int), ("log", OptionType::OneOf(&["y"])), TITLE, X_LABEL, Y_LABEL]
        }
        _ => &[FPS],
    }
}

impl Cx<'_> {
    pub(super) fn picture(&mut self, call: BuiltinCall<'_>) -> Expr {
        let builtin = call.entry.builtin;
        let most = if matches!(builtin, Builtin::Image | Builtin::Heat) { 2 } else { usize::MAX };
        let options = options_of(builtin);
        let named_params: Vec<NamedParam<'_>> = options.iter().map(|(name, _)| by_name(name)).collect();
        let Some(positional) = self.take_positional(call, 1..=most, &named_params) else {
            return self.after_error(call.args, call.span);
        };
        let mut args: Vec<Expr> = Vec::with_capacity(positional.len());
        for e in &positional {
            let is_text = matches!(bare(e).kind, Ast::Str(_));
            args.push(if is_text { self.text_argument(e) } else { self.expr(e, None) });
        }
        let is_path = |e: &Expr| self.vars.shallow(&e.ty) == Type::Str;
        match args.iter().position(is_path) {
            Some(0) if args.len() == 1 => {
                let d = Diagnostic::error("E0304", format!("`{}` is given nothing to draw", call.entry.name))
                    .at(call.span, "only a path");
                self.report(d.note(format!("`{}{}`", call.entry.name, call.entry.signature)));
            }
            Some(0) | None => {
                let data = usize::from(args.first().is_some_and(|e| self.vars.shallow(&e.ty) == Type::Str));
                for (at, e) in args.iter().enumerate().skip(data) {
                    self.drawn(call, e, at == data);
                }
            }
            Some(at) => self.path_comes_first(call, positional.first().copied(), positional.get(at).copied()),
        }
        let mut named_args = Vec::new();
        for (name, ty) in options {
            if let Some(e) = call.named_arg(name) {
                named_args.push(((*name).into(), self.option(call, name, *ty, e)));
            }
        }
        call.make_named(args, named_args, Type::Unit)
    }

    /// Checks an argument that is drawn. `is_first` arguments of `bar` may be names.
    fn drawn(&mut self, call: BuiltinCall<'_>, e: &Expr, is_first: bool) {
        let builtin = call.entry.builtin;
        let is_drawn = match self.vars.shallow(&e.ty) {
            Type::Array(_) | Type::Unknown | Type::Error => true,
            Type::Strings => builtin == Builtin::Bar && is_first,
            Type::Tuple(parts) if matches!(builtin, Builtin::Plot | Builtin::Scatter | Builtin::Bar) => {
                let is_array =
                    |ty: &Type| matches!(self.vars.shallow(ty), Type::Array(_) | Type::Unknown | Type::Error);
                parts.len() == 2 && parts.iter().all(is_array)
            }
            _ => false,
        };
        if !is_drawn {
            let (name, actual) = (call.entry.name, self.ty_text(&e.ty));
            let d = Diagnostic::error("E0301", format!("`{name}` takes a path and arrays, but this is `{actual}`"))
                .at(e.span, format!("this is `{actual}`"));
            self.report(d.note(format!("`{name}{}`", call.entry.signature)));
        }
    }

    /// Reports a path that is not the first argument.
    fn path_comes_first(&mut self, call: BuiltinCall<'_>, first: Option<&ast::Expr>, path: Option<&ast::Expr>) {
        let (Some(first), Some(path)) = (first, path) else { return };
        let name = call.entry.name;
        let d = Diagnostic::error("E0304", format!("the first argument of `{name}` is the path"))
            .at(path.span, "the path is here")
            .because(first.span, "it belongs before this");
        // The argument before the path, which may be a named one.
        let previous = call.args.iter().map(|arg| arg.value.span).rfind(|span| span.end <= path.span.start);
        self.report(match (written(path), previous) {
            (Some(text), Some(previous)) => {
                let start = Span { end: first.span.start, ..first.span };
                let edits =
                    vec![(start, format!("{text}, ")), (Span { start: previous.end, ..path.span }, String::new())];
                d.fix_all("write the path first", edits, Applicability::MachineApplicable)
            }
            _ => d.help(format!("write `{name}(path, …)`")),
        });
    }

    fn option(&mut self, call: BuiltinCall<'_>, name: &str, ty: OptionType, e: &ast::Expr) -> Expr {
        match ty {
            OptionType::Text => self.text_argument(e),
            OptionType::OneOf(choices) => {
                let e = self.text_argument(e);
                if let ExprKind::Str(parts) = &e.kind
                    && let [StrPart::Text(choice)] = &parts[..]
                    && !choices.contains(&choice.as_str())
                {
                    let quoted: Vec<String> = choices.iter().map(|choice| format!("\"{choice}\"")).collect();
                    let title = format!("`{name}` of `{}` can't be \"{choice}\"", call.entry.name);
                    self.report(Diagnostic::error("E0717", title).at(e.span, quoted.join(" or ")));
                }
                e
            }
            OptionType::Texts => {
                let e = self.expr(e, None);
                let ty = self.vars.shallow(&e.ty);
                let is_texts = matches!(ty, Type::Str | Type::Strings | Type::Unknown | Type::Error);
                self.expect_option(name, &e, is_texts, "a text or an array of texts");
                e
            }
            OptionType::Array => {
                let e = self.expr(e, None);
                let is_array = matches!(self.vars.shallow(&e.ty), Type::Array(_) | Type::Unknown | Type::Error);
                self.expect_option(name, &e, is_array, "an array");
                e
            }
            OptionType::Int | OptionType::Number => {
                let e = self.expr(e, None);
                let class = if matches!(ty, OptionType::Int) { TypeClass::Int } else { TypeClass::Num };
                self.require_kind(&e, class, &format!("`{name}`"));
                e
            }
        }
    }

    fn expect_option(&mut self, name: &str, e: &Expr, is_expected: bool, expected: &str) {
        if !is_expected {
            let actual = self.ty_text(&e.ty);
            let d = Diagnostic::error("E0301", format!("`{name}` must be {expected}, but this is `{actual}`"));
            self.report(d.at(e.span, format!("this is `{actual}`")));
        }
    }
}

/// Returns the text of an expression that can be moved without a change of its meaning: a name, or a string literal
/// whose interpolated values are names.
fn written(e: &ast::Expr) -> Option<String> {
    let parts = match &bare(e).kind {
        Ast::Name(name) => return Some(name.text.to_string()),
        Ast::Str(parts) => parts,
        _ => return None,
    };
    let mut text = String::from("\"");
    for part in parts {
        match part {
            ast::StrPart::Text(words) if words.chars().all(|c| !c.is_control() && !"\"\\{}".contains(c)) => {
                text += words;
            }
            ast::StrPart::Value { expr, format } => {
                let Ast::Name(name) = &expr.kind else { return None };
                let format = format.as_ref().map(|format| format!(":{}", format.text)).unwrap_or_default();
                text += &format!("{{{}{format}}}", name.text);
            }
            ast::StrPart::Text(_) => return None,
        }
    }
    Some(text + "\"")
}
