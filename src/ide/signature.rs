//! Signature help: the signature of the call at the cursor, and the current parameter.

use std::ops::Range;

use super::names::{DefKind, Meaning};
use super::{Analysis, slice};
use crate::base::source::Span;
use crate::check::typed::Binding;
use crate::lang::builtin;
use crate::syntax;
use crate::syntax::token::{Tok, Token};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signature {
    /// The signature, such as `saxpy(alpha: f32, …)`.
    pub label: String,
    /// Ranges of the parameters in the label.
    pub parameters: Vec<Range<usize>>,
    pub active: Option<usize>,
    /// Documentation in Markdown.
    pub doc: String,
}

impl Analysis {
    /// Returns the signature of the innermost call around an offset.
    pub fn signature(&self, offset: usize) -> Option<Signature> {
        let (callee, argument, named) = self.call_around(offset)?;
        let (label, doc) = match self.meaning_of(callee)? {
            Meaning::Builtin(index) => {
                let entry = builtin::TABLE.get(index)?;
                (format!("{}{}", entry.name, entry.signature), entry.doc.to_owned())
            }
            meaning => {
                let described = self.describe(meaning)?;
                let code = described.code.split_whitespace().collect::<Vec<_>>().join(" ");
                (code, described.doc)
            }
        };
        let parameters = parameters(&label);
        let by_name = named.and_then(|name| {
            let starts = |r: &Range<usize>| {
                let text = slice(&label, r.clone());
                text.split(':').next().is_some_and(|head| head.split_whitespace().next_back() == Some(name.as_str()))
            };
            parameters.iter().position(starts)
        });
        let last = parameters.len().checked_sub(1);
        let variadic = last.is_some_and(|l| slice(&label, parameters[l].clone()).contains('…'));
        let active = by_name.or(if argument < parameters.len() {
            Some(argument)
        } else if variadic {
            last
        } else {
            None
        });
        Some(Signature { label, parameters, active, doc })
    }

    /// Returns the meaning of a name token: from the analysis, or by its text alone if the statement around it is invalid.
    fn meaning_of(&self, callee: Token) -> Option<Meaning> {
        let names = self.names();
        let span = callee.span(self.file);
        if let Some(found) = names.uses.iter().find(|u| u.span == span) {
            return Some(found.meaning);
        }
        self.meaning_by_text(callee.text(&self.text), span)
    }

    pub(super) fn meaning_by_text(&self, name: &str, at: Span) -> Option<Meaning> {
        let names = self.names();
        let visible = names.visible(at.start);
        let local = visible.into_iter().find(|&i| names.defs[i].name == name).map(Meaning::Def);
        let bound = || self.binding(name).filter(|b| *b != Binding::Error).map(Meaning::Bound);
        let builtin = || builtin::TABLE.iter().position(|e| e.name == name).map(Meaning::Builtin);
        local.or_else(bound).or_else(builtin)
    }

    /// Returns the name before the innermost open `(` at an offset, the index of the argument there and its name if it has one.
    fn call_around(&self, offset: usize) -> Option<(Token, usize, Option<String>)> {
        let lexed = syntax::lex(self.file, &self.text);
        let before: Vec<Token> = lexed.tokens.iter().copied().take_while(|t| (t.end as usize) <= offset).collect();
        let (mut depth, mut commas) = (0usize, 0usize);
        let mut named = None;
        for (index, token) in before.iter().enumerate().rev() {
            if token.start == token.end {
                continue;
            }
            match token.kind {
                Tok::RParen | Tok::RBracket | Tok::RBrace | Tok::LaunchClose => depth += 1,
                Tok::LBracket | Tok::LaunchOpen if depth == 0 => return None,
                Tok::LBrace if depth == 0 => return None,
                Tok::LParen if depth == 0 => {
                    let mut callee = before.get(index.checked_sub(1)?)?;
                    if callee.kind == Tok::LaunchClose {
                        let open = before.get(..index)?.iter().rposition(|t| t.kind == Tok::LaunchOpen)?;
                        callee = before.get(open.checked_sub(1)?)?;
                    }
                    return (callee.kind == Tok::Name).then_some((*callee, commas, named));
                }
                Tok::LParen | Tok::LBracket | Tok::LBrace | Tok::LaunchOpen => depth -= 1,
                Tok::Comma if depth == 0 => commas += 1,
                Tok::Assign if depth == 0 && commas == 0 => {
                    named = index.checked_sub(1).and_then(|i| before.get(i)).map(|t| t.text(&self.text).to_owned());
                }
                _ => {}
            }
        }
        None
    }

    /// Returns the names that a call may use for named arguments: compile-time parameters, dimensions, and parameters with a
    /// default.
    pub(super) fn argument_names(&self, offset: usize) -> Vec<(String, String)> {
        let Some((callee, _, _)) = self.call_around(offset) else { return vec![] };
        let Some(meaning) = self.meaning_of(callee) else { return vec![] };
        let binding = match meaning {
            Meaning::Bound(binding) => Some(binding),
            Meaning::Def(def) => self
                .names()
                .defs
                .get(def)
                .filter(|d| d.kind != DefKind::Param(crate::check::typed::Access::In))
                .and_then(|d| self.binding(&d.name)),
            Meaning::Builtin(index) => return builtin_names(builtin::TABLE[index].signature),
            _ => None,
        };
        let program = &self.session.program;
        let sig = match binding {
            Some(Binding::Fn(id)) => program.fns.get(id).map(|f| &f.sig),
            Some(Binding::Kernel(id)) => program.kernels.get(id).map(|k| &k.sig),
            _ => None,
        };
        let Some(sig) = sig else { return vec![] };
        let generics = sig.generics.iter().map(|g| (g.name.to_string(), self.session.sources.slice(g.span).to_owned()));
        let dims = sig.dims.iter().map(|d| (d.name.to_string(), "dimension".to_owned()));
        let optional = sig.params.iter().filter(|p| p.default.is_some());
        let optional = optional.map(|p| (p.name.to_string(), self.session.sources.slice(p.span).to_owned()));
        generics.chain(dims).chain(optional).collect()
    }
}

/// Returns the named parameters of a builtin: those with a default.
fn builtin_names(signature: &str) -> Vec<(String, String)> {
    let label = format!("f{signature}");
    let named = parameters(&label).into_iter().filter_map(|range| {
        let text = slice(&label, range);
        let (head, _) = text.split_once('=')?;
        let name = head.split(':').next()?.trim();
        Some((name.to_owned(), text.to_owned()))
    });
    named.collect()
}

/// Returns the ranges between the commas of the first parentheses.
fn parameters(label: &str) -> Vec<Range<usize>> {
    let mut out = Vec::new();
    let (mut depth, mut angle, mut start) = (0, 0, None);
    let mut before = ' ';
    for (at, c) in label.char_indices() {
        match c {
            '<' if start.is_none() => angle += 1,
            '>' if start.is_none() && before != '-' => angle -= 1,
            '(' if start.is_none() && angle == 0 => start = Some(at + 1),
            '(' | '[' if start.is_some() => depth += 1,
            ')' | ',' if depth == 0 && start.is_some() => {
                let from = start.unwrap_or(at);
                let text = slice(label, from..at);
                let trimmed = text.trim();
                if !trimmed.is_empty() {
                    let from = from + text.find(trimmed).unwrap_or(0);
                    out.push(from..from + trimmed.len());
                }
                start = Some(at + 1);
                if c == ')' {
                    break;
                }
            }
            ')' | ']' if start.is_some() => depth -= 1,
            _ => {}
        }
        before = c;
    }
    out
}
