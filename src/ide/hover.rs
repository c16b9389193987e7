//! Hover texts.

use std::ops::Range;

use super::types::{self};
use super::{Analysis, documentation, slice};
use clk_base::source::Span;
use clk_check::typed::{NameTarget, Type};
use clk_syntax::token::Tok;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hover {
    pub range: Range<usize>,
    /// The text in Markdown.
    pub text: String,
}

impl Analysis {
    /// Returns the definition, type and documentation of the name at an offset. Without a name, returns the type of the
    /// smallest expression.
    pub fn hover(&self, offset: usize) -> Option<Hover> {
        if let Some((span, target)) = self.names().at(offset as u32) {
            if target == NameTarget::Type {
                let text = documentation(slice(&self.text, span.range()))?;
                return Some(Hover { range: span.range(), text });
            }
            if let Some(found) = self.describe(target) {
                let mut text = found.markdown();
                // The type of a generic or elementwise builtin depends on the call.
                if let NameTarget::Builtin(_) = target
                    && let Some(ty) = self.result_type(span)
                {
                    text += &format!("\n\nHere: `{ty}`");
                }
                return Some(Hover { range: span.range(), text });
            }
        }
        let lexed = clk_syntax::lex(self.file, &self.text);
        let at = lexed.tokens.partition_point(|t| t.end as usize <= offset);
        let token = lexed.tokens.get(at).filter(|t| t.start as usize <= offset)?;
        if token.kind.is_keyword() || token.kind == Tok::Name {
            let range = token.start as usize..token.end as usize;
            if let Some(text) = documentation(token.text(&self.text)) {
                return Some(Hover { range, text });
            }
        }
        if token.start == token.end {
            return None;
        }
        let (start, end) = self.types().smallest_around(offset as u32)?;
        let span = Span { file: self.file, start, end };
        let (ty, owner) = self.types().get(span)?;
        // The expression is or contains an unknown name.
        if *ty == Type::Error {
            return None;
        }
        let ty = types::show_type(&self.session.program, ty, owner);
        Some(Hover { range: span.range(), text: format!("```clk\n{ty}\n```") })
    }

    /// Returns the type of the expression with exactly this range, as text.
    pub(crate) fn type_of(&self, range: Range<usize>) -> Option<String> {
        let span = Span::new(self.file, range.start, range.end);
        let (ty, owner) = self.types().get(span)?;
        Some(types::show_type(&self.session.program, ty, owner))
    }

    /// Returns the type of the call (or variable) whose name is at this span.
    fn result_type(&self, name: Span) -> Option<String> {
        let rest = self.text.get(name.end as usize..)?;
        let end = if rest.starts_with('(') { name.end as usize + closing(rest)? } else { name.end as usize };
        self.type_of(name.start as usize..end)
    }
}

/// Returns the offset after the closing bracket that matches the first bracket.
fn closing(text: &str) -> Option<usize> {
    let mut depth = 0;
    for token in clk_syntax::lex(Default::default(), text.get(..text.len().min(4096)).unwrap_or("")).tokens {
        match token.kind {
            Tok::LParen | Tok::LBracket | Tok::LBrace => depth += 1,
            Tok::RParen | Tok::RBracket | Tok::RBrace => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(token.end as usize);
        }
    }
    None
}
