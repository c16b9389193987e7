//! Determines the roles of ambiguous tokens from the tokens around them.

use super::elements::{FormatElement, NONE, TokenRole};
use clk_syntax::token::Tok;

/// An open bracket and the state of the statement around it.
#[derive(Default)]
struct BracketContext {
    opener: u32,
    /// Whether the header of a statement or item was read, but not yet its `{`.
    header: bool,
    kernel: bool,
    fields: bool,
    import: bool,
    /// Whether the type parameters of a `fn` or `kernel` are open.
    generics: bool,
}

/// Determines the role of every element and matches the brackets.
pub(crate) fn assign(text: &str, elements: &mut [FormatElement]) {
    let mut levels: Vec<BracketContext> = vec![BracketContext { opener: NONE, ..BracketContext::default() }];
    // Indices of the last two tokens.
    let (mut before, mut before_that): (Option<usize>, Option<usize>) = (None, None);
    for index in 0..elements.len() {
        let Some(tok) = elements[index].tok() else { continue };
        let Some(level) = levels.last_mut() else { return };
        if elements[index].boundary || tok == Tok::Semi {
            (level.header, level.kernel, level.fields, level.import) = (false, false, false, false);
        }
        let context = TokenContext {
            text,
            elements,
            index,
            before: if elements[index].boundary { None } else { before },
            before_that,
        };
        let role = context.role(tok, level);
        let (opener, generics) = (level.opener, level.generics);
        let outer = elements.get(opener as usize).map_or(NONE, |open| if generics { open.within } else { opener });
        (elements[index].role, elements[index].within) = (role, outer);
        match tok {
            Tok::LParen | Tok::LBracket | Tok::LBrace | Tok::LaunchOpen => {
                if tok == Tok::LBrace {
                    level.header = false;
                }
                levels.push(BracketContext { opener: index as u32, ..BracketContext::default() });
            }
            Tok::Lt if role == TokenRole::Open => {
                levels.push(BracketContext { opener: index as u32, generics: true, ..BracketContext::default() })
            }
            Tok::Gt if level.generics => close(elements, &mut levels, index),
            Tok::RParen | Tok::RBracket | Tok::RBrace | Tok::LaunchClose => close(elements, &mut levels, index),
            Tok::Kernel => (level.header, level.kernel) = (true, true),
            Tok::Struct => (level.header, level.fields) = (true, true),
            Tok::Import => level.import = true,
            Tok::Fn | Tok::Test | Tok::Bench | Tok::If | Tok::Else | Tok::For | Tok::While | Tok::Loop => {
                level.header = true;
            }
            Tok::Name if role == TokenRole::Word && matches!(elements[index].text(text), "on" | "batch") => {
                level.header = true;
            }
            _ => {}
        }
        (before_that, before) = (before, Some(index));
    }
}

fn close(elements: &mut [FormatElement], levels: &mut Vec<BracketContext>, index: usize) {
    if levels.len() < 2 {
        return;
    }
    let opener = levels.pop().map_or(NONE, |level| level.opener);
    let Some(open) = elements.get_mut(opener as usize) else { return };
    (open.mate, open.opens) = (index as u32, true);
    let role = open.role;
    let closer = &mut elements[index];
    (closer.mate, closer.closes, closer.role) = (opener, true, role);
}

/// A token with its context.
struct TokenContext<'e> {
    text: &'e str,
    elements: &'e [FormatElement],
    index: usize,
    /// The previous token in the same statement.
    before: Option<usize>,
    before_that: Option<usize>,
}

impl TokenContext<'_> {
    fn role(&self, tok: Tok, level: &BracketContext) -> TokenRole {
        match tok {
            Tok::LParen | Tok::LBracket if self.follows_callee() => TokenRole::Call,
            Tok::LParen | Tok::LBracket | Tok::LaunchOpen => TokenRole::Open,
            Tok::LBrace => self.brace(level),
            Tok::Lt if self.opens_generics() => TokenRole::Open,
            Tok::Gt if level.generics => TokenRole::Plain,
            Tok::Minus | Tok::Bang if !self.follows_value() => TokenRole::Prefix,
            Tok::At if self.is_placement() => TokenRole::Placed,
            Tok::Name => self.word(level),
            Tok::Dot if self.between_numbers() => TokenRole::SpacedDot,
            _ => precedence(tok).map_or(TokenRole::Plain, TokenRole::Binary),
        }
    }

    fn element(&self, index: Option<usize>) -> Option<&FormatElement> {
        index.and_then(|i| self.elements.get(i))
    }

    fn next(&self, n: usize) -> Option<&FormatElement> {
        self.elements.get(self.index + 1..)?.iter().filter(|e| !e.is_comment()).nth(n)
    }

    /// Returns whether the previous token ends a value.
    fn follows_value(&self) -> bool {
        let Some(before) = self.element(self.before) else { return false };
        ends_value(before)
    }

    /// Returns whether the previous token can be called or indexed, or has parameters.
    fn follows_callee(&self) -> bool {
        let Some(before) = self.element(self.before) else { return false };
        match before.tok() {
            Some(Tok::Name) => !matches!(before.role, TokenRole::Word | TokenRole::Clause),
            Some(Tok::RParen | Tok::RBracket | Tok::StrEnd | Tok::LaunchClose | Tok::Fn | Tok::Unroll) => true,
            Some(Tok::Gt) => before.closes,
            // The number is a field, as in `t.0[i]`.
            Some(Tok::Int | Tok::Float) => self.element(self.before_that).is_some_and(|e| e.is_token(Tok::Dot)),
            _ => false,
        }
    }

    fn between_numbers(&self) -> bool {
        let number = |e: &FormatElement| e.is_token(Tok::Int) || e.is_token(Tok::Float);
        self.element(self.before).is_some_and(|e| e.is_token(Tok::Int)) && self.next(0).is_some_and(number)
    }

    fn opens_generics(&self) -> bool {
        let (name, keyword) = (self.element(self.before), self.element(self.before_that));
        name.is_some_and(|n| n.is_token(Tok::Name))
            && keyword.is_some_and(|k| k.is_token(Tok::Fn) || k.is_token(Tok::Kernel))
    }

    fn brace(&self, level: &BracketContext) -> TokenRole {
        let Some(before) = self.element(self.before) else { return TokenRole::Block };
        if before.is_token(Tok::Dot) && level.import {
            return TokenRole::Names;
        }
        if level.fields {
            return TokenRole::Fields;
        }
        let follows_name = before.is_token(Tok::Name) && before.role == TokenRole::Plain && !level.header;
        let empty = self.next(0).is_some_and(|e| e.is_token(Tok::RBrace));
        let field =
            self.next(0).is_some_and(|e| e.is_token(Tok::Name)) && self.next(1).is_some_and(|e| e.is_token(Tok::Colon));
        let time = before.text(self.text) == "time";
        if follows_name && (empty && !time || field) { TokenRole::Fields } else { TokenRole::Block }
    }

    /// Returns whether this is the `@` of a placement, `[f32; N] @gpu`, rather than a matrix product.
    fn is_placement(&self) -> bool {
        let token = self.elements.get(self.index);
        let glued = token.zip(self.next(0)).is_some_and(|(token, name)| {
            token.end == name.start && matches!(name.text(self.text), "cpu" | "gpu" | "sim")
        });
        glued && self.element(self.before).is_some_and(|e| e.is_token(Tok::RBracket))
    }

    fn word(&self, level: &BracketContext) -> TokenRole {
        let text = self.elements.get(self.index).map_or("", |e| e.text(self.text));
        let before = self.element(self.before);
        let statement =
            before.is_none_or(|e| e.is_token(Tok::LBrace) || e.is_token(Tok::RBrace) || e.is_token(Tok::Semi));
        match text {
            "threads" | "grid" | "block" if level.kernel && level.header && self.follows_value() => TokenRole::Geometry,
            "assume" | "expect" | "tune" if level.kernel && level.header && self.follows_value() => TokenRole::Clause,
            "step" if before.is_some_and(|e| ends_value(e) || e.is_token(Tok::DotDot)) => TokenRole::Word,
            "as" if self.follows_value() => TokenRole::Word,
            "on" if statement && self.next(0).is_some_and(|e| e.is_token(Tok::Name)) => TokenRole::Word,
            "batch" if statement && self.next(0).is_some_and(|e| e.is_token(Tok::LBrace)) => TokenRole::Word,
            _ => TokenRole::Plain,
        }
    }
}

/// Returns whether a value can end with this token.
pub(crate) fn ends_value(element: &FormatElement) -> bool {
    use Tok::*;
    match element.tok() {
        Some(Name) => !matches!(element.role, TokenRole::Word | TokenRole::Clause),
        Some(Int | Float | True | False | StrEnd | RParen | RBracket | RBrace) => true,
        _ => false,
    }
}

/// Returns the precedence of an operator. Long lines are split at the lowest precedence first.
fn precedence(tok: Tok) -> Option<u8> {
    use Tok::*;
    Some(match tok {
        PipePipe => 1,
        AndAnd => 2,
        EqEq | NotEq | Lt | Le | Gt | Ge => 3,
        Pipe => 4,
        Caret => 5,
        And => 6,
        Shl | Shr => 7,
        Plus | Minus => 8,
        Star | Slash | Percent | At => 9,
        StarStar => 10,
        _ => return None,
    })
}
