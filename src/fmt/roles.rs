//! Roles of ambiguous tokens, determined by the tokens around them.

use super::elements::{Element, NONE, Role};
use crate::syntax::token::Tok;

/// An open bracket and the state of the statement around it.
#[derive(Default)]
struct Level {
    opener: u32,
    /// Whether a header awaits its `{`.
    header: bool,
    kernel: bool,
    fields: bool,
    import: bool,
    /// Whether the type parameters of a `fn` or `kernel` are open.
    generics: bool,
}

/// Determines the role of every element and matches the brackets.
pub(crate) fn assign(text: &str, elements: &mut [Element]) {
    let mut levels: Vec<Level> = vec![Level { opener: NONE, ..Level::default() }];
    // The last two tokens.
    let (mut before, mut before_that): (Option<usize>, Option<usize>) = (None, None);
    for index in 0..elements.len() {
        let Some(tok) = elements[index].tok() else { continue };
        let Some(level) = levels.last_mut() else { return };
        if elements[index].boundary || tok == Tok::Semi {
            (level.header, level.kernel, level.fields, level.import) = (false, false, false, false);
        }
        let around =
            Around { text, elements, index, before: if elements[index].boundary { None } else { before }, before_that };
        let role = around.role(tok, level);
        let (opener, generics) = (level.opener, level.generics);
        let outer = elements.get(opener as usize).map_or(NONE, |open| if generics { open.within } else { opener });
        (elements[index].role, elements[index].within) = (role, outer);
        match tok {
            Tok::LParen | Tok::LBracket | Tok::LBrace | Tok::LaunchOpen => {
                if tok == Tok::LBrace {
                    level.header = false;
                }
                levels.push(Level { opener: index as u32, ..Level::default() });
            }
            Tok::Lt if role == Role::Open => {
                levels.push(Level { opener: index as u32, generics: true, ..Level::default() })
            }
            Tok::Gt if level.generics => close(elements, &mut levels, index),
            Tok::RParen | Tok::RBracket | Tok::RBrace | Tok::LaunchClose => close(elements, &mut levels, index),
            Tok::Kernel => (level.header, level.kernel) = (true, true),
            Tok::Struct => (level.header, level.fields) = (true, true),
            Tok::Import => level.import = true,
            Tok::Fn | Tok::Test | Tok::Bench | Tok::If | Tok::Else | Tok::For | Tok::While | Tok::Loop => {
                level.header = true;
            }
            Tok::Name if role == Role::Word && matches!(elements[index].text(text), "on" | "batch") => {
                level.header = true;
            }
            _ => {}
        }
        (before_that, before) = (before, Some(index));
    }
}

fn close(elements: &mut [Element], levels: &mut Vec<Level>, index: usize) {
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
struct Around<'e> {
    text: &'e str,
    elements: &'e [Element],
    index: usize,
    /// The previous token in the same statement.
    before: Option<usize>,
    before_that: Option<usize>,
}

impl Around<'_> {
    fn role(&self, tok: Tok, level: &Level) -> Role {
        match tok {
            Tok::LParen | Tok::LBracket if self.follows_callee() => Role::Call,
            Tok::LParen | Tok::LBracket | Tok::LaunchOpen => Role::Open,
            Tok::LBrace => self.brace(level),
            Tok::Lt if self.opens_generics() => Role::Open,
            Tok::Gt if level.generics => Role::Plain,
            Tok::Minus | Tok::Bang if !self.follows_value() => Role::Prefix,
            Tok::At if self.is_placement() => Role::Placed,
            Tok::Name => self.word(level),
            Tok::Dot if self.between_numbers() => Role::Apart,
            _ => strength(tok).map_or(Role::Plain, Role::Binary),
        }
    }

    fn element(&self, index: Option<usize>) -> Option<&Element> {
        index.and_then(|i| self.elements.get(i))
    }

    fn next(&self, n: usize) -> Option<&Element> {
        self.elements.get(self.index + 1..)?.iter().filter(|e| !e.is_comment()).nth(n)
    }

    /// Whether the previous token ends a value.
    fn follows_value(&self) -> bool {
        let Some(before) = self.element(self.before) else { return false };
        ends_value(before)
    }

    /// Whether the previous token is something that is called, indexed, or has parameters.
    fn follows_callee(&self) -> bool {
        let Some(before) = self.element(self.before) else { return false };
        match before.tok() {
            Some(Tok::Name) => !matches!(before.role, Role::Word | Role::Clause),
            Some(Tok::RParen | Tok::RBracket | Tok::StrEnd | Tok::LaunchClose | Tok::Fn | Tok::Unroll) => true,
            Some(Tok::Gt) => before.closes,
            // `t.0[i]`
            Some(Tok::Int | Tok::Float) => self.element(self.before_that).is_some_and(|e| e.is(Tok::Dot)),
            _ => false,
        }
    }

    fn between_numbers(&self) -> bool {
        let number = |e: &Element| e.is(Tok::Int) || e.is(Tok::Float);
        self.element(self.before).is_some_and(|e| e.is(Tok::Int)) && self.next(0).is_some_and(number)
    }

    fn opens_generics(&self) -> bool {
        let (name, keyword) = (self.element(self.before), self.element(self.before_that));
        name.is_some_and(|n| n.is(Tok::Name)) && keyword.is_some_and(|k| k.is(Tok::Fn) || k.is(Tok::Kernel))
    }

    fn brace(&self, level: &Level) -> Role {
        let Some(before) = self.element(self.before) else { return Role::Block };
        if before.is(Tok::Dot) && level.import {
            return Role::Names;
        }
        if level.fields {
            return Role::Fields;
        }
        let named = before.is(Tok::Name) && before.role == Role::Plain && !level.header;
        let empty = self.next(0).is_some_and(|e| e.is(Tok::RBrace));
        let field = self.next(0).is_some_and(|e| e.is(Tok::Name)) && self.next(1).is_some_and(|e| e.is(Tok::Colon));
        let time = before.text(self.text) == "time";
        if named && (empty && !time || field) { Role::Fields } else { Role::Block }
    }

    /// Whether this is a placement, `[f32; N] @gpu`, rather than a matrix product.
    fn is_placement(&self) -> bool {
        let at = self.elements.get(self.index);
        let glued = at
            .zip(self.next(0))
            .is_some_and(|(at, name)| at.end == name.start && matches!(name.text(self.text), "cpu" | "gpu" | "sim"));
        glued && self.element(self.before).is_some_and(|e| e.is(Tok::RBracket))
    }

    fn word(&self, level: &Level) -> Role {
        let text = self.elements.get(self.index).map_or("", |e| e.text(self.text));
        let before = self.element(self.before);
        let statement = before.is_none_or(|e| e.is(Tok::LBrace) || e.is(Tok::RBrace) || e.is(Tok::Semi));
        match text {
            "threads" | "grid" | "block" if level.kernel && level.header && self.follows_value() => Role::Geometry,
            "assume" | "expect" | "tune" if level.kernel && level.header && self.follows_value() => Role::Clause,
            "step" if before.is_some_and(|e| ends_value(e) || e.is(Tok::DotDot)) => Role::Word,
            "as" if self.follows_value() => Role::Word,
            "on" if statement && self.next(0).is_some_and(|e| e.is(Tok::Name)) => Role::Word,
            "batch" if statement && self.next(0).is_some_and(|e| e.is(Tok::LBrace)) => Role::Word,
            _ => Role::Plain,
        }
    }
}

/// Whether a value can end with this token.
pub(crate) fn ends_value(element: &Element) -> bool {
    use Tok::*;
    match element.tok() {
        Some(Name) => !matches!(element.role, Role::Word | Role::Clause),
        Some(Int | Float | True | False | StrEnd | RParen | RBracket | RBrace) => true,
        _ => false,
    }
}

/// Returns the precedence of an operator; a line is broken at the lowest first.
fn strength(tok: Tok) -> Option<u8> {
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
