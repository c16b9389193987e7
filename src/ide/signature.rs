//! Signature help: the signature of the call at the cursor, and the current parameter.

use std::ops::Range;

use super::{Analysis, slice};
use clk_base::source::Span;
use clk_check::typed::{NameBinding, NameTarget};
use clk_scalar::builtin;
use clk_syntax::token::{Tok, Token};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignatureHelp {
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
    pub fn signature(&self, offset: usize) -> Option<SignatureHelp> {
        let (callee, argument, argument_name) = self.call_around(offset)?;
        let (label, doc) = match self.target_of(callee)? {
            NameTarget::Builtin(name) => {
                let entry = builtin::find(name)?;
                (format!("{}{}", entry.name, entry.signature), entry.doc.to_owned())
            }
            target => {
                let described = self.describe(target)?;
                let code = described.code.split_whitespace().collect::<Vec<_>>().join(" ");
                (code, described.doc)
            }
        };
        let parameters = parameters(&label);
        let by_name = argument_name.and_then(|name| {
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
        Some(SignatureHelp { label, parameters, active, doc })
    }

    /// Returns the definition of a name token, from the analysis or, if its statement has errors, from its text.
    fn target_of(&self, callee: Token) -> Option<NameTarget> {
        let span = callee.span(self.file);
        let used = self.names().uses.iter().find(|used| used.span == span).map(|used| used.target);
        used.or_else(|| self.target_by_text(callee.text(&self.text), span))
    }

    pub(super) fn target_by_text(&self, name: &str, at: Span) -> Option<NameTarget> {
        let visible = self.names().visible(at.start);
        let local = visible.into_iter().find(|definition| definition.name == name).map(|definition| definition.target);
        let bound = || self.binding(name).filter(|b| *b != NameBinding::Error).map(NameTarget::Item);
        let builtin = || builtin::find(name).map(|entry| NameTarget::Builtin(entry.name));
        local.or_else(bound).or_else(builtin)
    }

    /// Returns the callee of the innermost open `(` at an offset, the index of the argument, and the argument's name if
    /// it has one.
    fn call_around(&self, offset: usize) -> Option<(Token, usize, Option<String>)> {
        let lexed = clk_syntax::lex(self.file, &self.text);
        let before: Vec<Token> = lexed.tokens.iter().copied().take_while(|t| (t.end as usize) <= offset).collect();
        let (mut depth, mut commas) = (0usize, 0usize);
        let mut argument_name = None;
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
                    return (callee.kind == Tok::Name).then_some((*callee, commas, argument_name));
                }
                Tok::LParen | Tok::LBracket | Tok::LBrace | Tok::LaunchOpen => depth -= 1,
                Tok::Comma if depth == 0 => commas += 1,
                Tok::Assign if depth == 0 && commas == 0 => {
                    argument_name =
                        index.checked_sub(1).and_then(|i| before.get(i)).map(|t| t.text(&self.text).to_owned());
                }
                _ => {}
            }
        }
        None
    }

    /// Returns the names that a call may use for named arguments: compile-time parameters, dimensions, and parameters
    /// with defaults.
    pub(super) fn argument_names(&self, offset: usize) -> Vec<(String, String)> {
        let Some((callee, _, _)) = self.call_around(offset) else { return vec![] };
        let binding = match self.target_of(callee) {
            Some(NameTarget::Item(binding)) => binding,
            Some(NameTarget::Builtin(name)) => {
                return builtin::find(name).map_or(vec![], |entry| builtin_names(entry.signature));
            }
            _ => return vec![],
        };
        let program = &self.session.program;
        let sig = match binding {
            NameBinding::Fn(id) => program.fns.get(id).map(|f| &f.sig),
            NameBinding::Kernel(id) => program.kernels.get(id).map(|k| &k.sig),
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
    let names = parameters(&label).into_iter().filter_map(|range| {
        let text = slice(&label, range);
        let (head, _) = text.split_once('=')?;
        let name = head.split(':').next()?.trim();
        Some((name.to_owned(), text.to_owned()))
    });
    names.collect()
}

/// Returns the ranges of the parameters: the texts between the commas in the first parentheses.
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
