//! The function `einsum`. Input: its subscripts, such as `"ij,jk->ik"`, and its operands. Output: a typed call. The
//! interpreter reads the same [`Subscripts`].

use crate::build::bare;
use crate::builtin_call::BuiltinCall;
use crate::context::Cx;
use crate::infer::{TypeClass, array};
use crate::typed::*;
use clk_base::diag::Diagnostic;
use clk_base::source::Span;
use clk_syntax::ast::{self, ExprKind as Ast};

/// The names of the axes of the operands and of the result. Each name is a letter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subscripts {
    pub operands: Vec<Vec<char>>,
    pub result: Vec<char>,
}

impl Subscripts {
    /// Parses subscripts. Blanks are ignored. The error is the text of a diagnostic: a title and a help.
    pub fn parse(text: &str) -> Result<Subscripts, (String, String)> {
        let text: String = text.chars().filter(|c| !c.is_whitespace()).collect();
        let wrong = |title: String, help: &str| Err((title, help.to_owned()));
        if text.contains("...") {
            return wrong("`einsum` has no `...`".into(), "name every axis: `\"bij,bjk->bik\"`");
        }
        let (operands, result) = match text.split_once("->") {
            Some((operands, result)) => (operands, Some(result)),
            None => (text.as_str(), None),
        };
        let operands: Vec<Vec<char>> = operands.split(',').map(|letters| letters.chars().collect()).collect();
        let named = |letter: &char| operands.iter().flatten().filter(|other| *other == letter).count();
        let result: Vec<char> = match result {
            Some(result) => result.chars().collect(),
            None => {
                let mut once: Vec<char> = operands.iter().flatten().copied().filter(|c| named(c) == 1).collect();
                once.sort_unstable();
                once
            }
        };
        if let Some(other) = operands.iter().flatten().chain(&result).find(|c| !c.is_ascii_alphabetic()) {
            let help = "letters name the axes, commas separate the operands, and the result follows `->`: \
                        `\"ij,jk->ik\"`";
            return wrong(format!("`{other}` in the subscripts of `einsum`"), help);
        }
        if let Some(absent) = result.iter().find(|c| named(c) == 0) {
            return wrong(
                format!("no operand of `einsum` has the axis `{absent}`"),
                "an axis of the result is one of an operand",
            );
        }
        if let Some(twice) = result.iter().find(|c| result.iter().filter(|other| other == c).count() > 1) {
            return wrong(
                format!("the result of `einsum` has the axis `{twice}` twice"),
                "each axis of the result has its own letter",
            );
        }
        if operands.len() > 2 {
            let title = format!("`einsum` of {} operands", operands.len());
            return wrong(title, "contract two at a time, in the order that needs the fewest operations");
        }
        Ok(Subscripts { operands, result })
    }
}

impl Cx<'_> {
    /// Checks `einsum("ij,jk->ik", a, b)`.
    pub fn einsum(&mut self, call: BuiltinCall<'_>) -> Expr {
        let Some(positional) = self.take_positional(call, 2..=3, &[]) else {
            return self.after_error(call.args, call.span);
        };
        let Some((text, operands)) = positional.split_first() else { return self.bad(call.span) };
        let Some(subscripts) = self.subscripts(text, operands.len()) else { return self.bad(call.span) };
        let mut args = vec![self.text_argument(text)];
        let mut types = vec![];
        for e in operands {
            let Some((x, a)) = self.array_arg(call, e, Some(TypeClass::Num)) else { return self.bad(call.span) };
            args.push(x);
            types.extend(a);
        }
        if types.len() < operands.len() {
            self.leave_literals_open(&args.iter().skip(1).collect::<Vec<_>>());
            return call.make(args, Type::Unknown);
        }
        if let [a, b] = &types[..]
            && !self.vars.unify(&a.element, &b.element)
        {
            let (x, y) = (self.ty_text(&args[1].ty), self.ty_text(&args[2].ty));
            let d = Diagnostic::error("E0302", format!("`einsum` can't combine `{x}` and `{y}`"))
                .at(args[2].span, format!("this is `{y}`"))
                .because(args[1].span, format!("this is `{x}`"));
            self.report(d);
            return self.bad(call.span);
        }
        let Some(extents) = self.extents_of_letters(&subscripts, &args[1..], &types) else {
            return self.bad(call.span);
        };
        let element = types[0].element.clone();
        let dims: Vec<Dim> = subscripts
            .result
            .iter()
            .filter_map(|letter| extents.iter().find(|(other, ..)| other == letter))
            .map(|(_, dim, _)| dim.clone())
            .collect();
        call.make(args, if dims.is_empty() { element } else { array(element, dims) })
    }

    /// Parses the first argument, a text literal.
    fn subscripts(&mut self, text: &ast::Expr, count: usize) -> Option<Subscripts> {
        let literal = match &bare(text).kind {
            Ast::Str(parts) => match &parts[..] {
                [] => Some(""),
                [ast::StrPart::Text(text)] => Some(text.as_str()),
                _ => None,
            },
            _ => None,
        };
        let Some(literal) = literal else {
            let d = Diagnostic::error("E0304", "the subscripts of `einsum` are a text literal")
                .at(text.span, "the type of the result depends on it")
                .help("write it first: `einsum(\"ij,jk->ik\", a, b)`");
            self.report(d);
            return None;
        };
        let parsed = Subscripts::parse(literal).and_then(|subscripts| match subscripts.operands.len() {
            named if named == count => Ok(subscripts),
            named => Err((
                format!("these subscripts of `einsum` are for {named} operands, not for {count}"),
                "a comma separates the axes of the operands".into(),
            )),
        });
        parsed
            .map_err(|(title, help)| {
                self.report(Diagnostic::error("E0304", title).at(text.span, "these subscripts").help(help));
            })
            .ok()
    }

    /// Returns the extent of each letter. An error if an operand has another number of axes than letters, or if axes
    /// with one letter differ.
    fn extents_of_letters(
        &mut self,
        subscripts: &Subscripts,
        args: &[Expr],
        types: &[std::sync::Arc<ArrayType>],
    ) -> Option<Vec<(char, Dim, Span)>> {
        let mut extents: Vec<(char, Dim, Span)> = vec![];
        for ((letters, e), a) in subscripts.operands.iter().zip(args).zip(types) {
            if letters.len() != a.dims.len() {
                let (given, name) = (a.dims.len(), letters.iter().collect::<String>());
                let d = Diagnostic::error(
                    "E0306",
                    format!("`{name}` names {} axes, but the array has {given}", letters.len()),
                )
                .at(e.span, format!("this is `{}`", self.ty_text(&e.ty)));
                self.report(d.help("each axis of an operand has a letter"));
                return None;
            }
            for (letter, dim) in letters.iter().zip(&a.dims) {
                match extents.iter_mut().find(|(other, ..)| other == letter) {
                    None => extents.push((*letter, dim.clone(), e.span)),
                    Some((_, known, at)) => match (&*known, dim) {
                        (Dim::Known(x), Dim::Known(y)) if x != y => {
                            let d =
                                Diagnostic::error("E0305", format!("the axis `{letter}` has two extents: {x} and {y}"))
                                    .at(e.span, format!("here it is {y}"))
                                    .because(*at, format!("here it is {x}"));
                            self.report(d);
                            return None;
                        }
                        (Dim::Known(_), _) => {}
                        _ => *known = dim.clone(),
                    },
                }
            }
        }
        Some(extents)
    }
}
