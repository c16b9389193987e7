//! Syntax highlighting: by tokens alone, fast enough for every keystroke, and semantically, using the analysis, for editors.

use std::ops::Range;

use super::names::{DefKind, Meaning, is_prelude_type};
use super::{Analysis, names};
use crate::check::typed::{Binding, Type};
use crate::lang::builtin;
use crate::syntax;
use crate::syntax::token::{CONTEXTUAL, Tok, Token};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    Keyword,
    Type,
    Function,
    Kernel,
    Builtin,
    Variable,
    Parameter,
    Property,
    Constant,
    Dimension,
    Namespace,
    Number,
    String,
    Operator,
    Comment,
    /// Brackets, commas and the like; also parts without color.
    Punctuation,
    /// Characters that the lexer does not accept.
    Error,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Highlight {
    pub range: Range<usize>,
    pub class: Class,
    pub defined: bool,
    /// Whether it cannot be assigned to.
    pub readonly: bool,
    /// Whether it is part of Clk.
    pub library: bool,
}

/// Classifies a text by its tokens; names that are neither builtins, types nor called are variables.
pub fn highlight(text: &str) -> Vec<(Range<usize>, Class)> {
    let tokens = syntax::lex(Default::default(), text).tokens;
    let mut out = Vec::with_capacity(tokens.len());
    let mut at = 0;
    for (index, token) in tokens.iter().enumerate() {
        comments(text, at, token.start as usize, &mut out);
        at = at.max(token.end as usize);
        if token.end > token.start
            && let Some(class) = class(text, &tokens, index)
        {
            out.push((token.start as usize..token.end as usize, class));
        }
    }
    comments(text, at, text.len(), &mut out);
    out
}

/// Classifies the comments between two tokens, where there are otherwise only blanks. (Text at which lexing stopped is not a
/// comment.)
fn comments(text: &str, from: usize, to: usize, out: &mut Vec<(Range<usize>, Class)>) {
    let Some(gap) = text.get(from..to).filter(|gap| gap.contains('/') || gap.contains('#')) else { return };
    let mut at = from;
    for line in gap.split_inclusive('\n') {
        let body = line.trim();
        if !body.is_empty() {
            let start = at + line.find(body).unwrap_or(0);
            out.push((start..start + body.len(), Class::Comment));
        }
        at += line.len();
    }
}

fn class(text: &str, tokens: &[Token], index: usize) -> Option<Class> {
    let token = tokens[index];
    let next = tokens.get(index + 1).map(|t| t.kind);
    let before = index.checked_sub(1).and_then(|i| tokens.get(i)).map(|t| t.kind);
    Some(match token.kind {
        Tok::Int | Tok::Float => Class::Number,
        Tok::True | Tok::False => Class::Constant,
        Tok::StrStart | Tok::StrText | Tok::StrEnd | Tok::Format | Tok::Quoted => Class::String,
        Tok::Doc => Class::Comment,
        Tok::Newline | Tok::Eof => return None,
        Tok::Name => word(token.text(text), before, next),
        kind if kind.is_keyword() => Class::Keyword,
        Tok::Unroll | Tok::NoUnroll => Class::Keyword,
        Tok::LParen | Tok::RParen | Tok::LBracket | Tok::RBracket | Tok::LBrace | Tok::RBrace => Class::Punctuation,
        Tok::Comma | Tok::Semi | Tok::Colon | Tok::Dot | Tok::InterpOpen | Tok::InterpClose => Class::Punctuation,
        Tok::Question | Tok::PlusPlus | Tok::Tilde | Tok::ColonColon | Tok::FatArrow | Tok::Hash => Class::Error,
        _ => Class::Operator,
    })
}

fn word(name: &str, before: Option<Tok>, next: Option<Tok>) -> Class {
    match (before, next) {
        (Some(Tok::Dot), Some(Tok::LParen)) => Class::Function,
        (Some(Tok::Dot), _) => Class::Property,
        (Some(Tok::Kernel), _) => Class::Kernel,
        (Some(Tok::Fn), _) => Class::Function,
        (Some(Tok::Struct), _) => Class::Type,
        (Some(Tok::Const), _) => Class::Constant,
        (Some(Tok::Let | Tok::Var | Tok::For | Tok::Shared), _) => Class::Variable,
        _ if is_prelude_type(name) => Class::Type,
        (_, Some(Tok::Assign | Tok::Colon)) => Class::Variable,
        _ if is_contextual(name, before, next) => Class::Keyword,
        _ if builtin::find(name).is_some() => Class::Builtin,
        (_, Some(Tok::LParen)) => Class::Function,
        (_, Some(Tok::LaunchOpen)) => Class::Kernel,
        _ => Class::Variable,
    }
}

fn is_contextual(name: &str, before: Option<Tok>, next: Option<Tok>) -> bool {
    use Tok::*;
    let value_before = matches!(before, Some(Name | Int | RParen | RBracket | StrEnd | Gt));
    let value_next = matches!(next, Some(Name | Int | LParen | Minus));
    CONTEXTUAL.contains(&name)
        && match name {
            "threads" | "grid" | "block" => before == Some(RParen) && next == Some(LParen),
            "assume" | "expect" | "tune" => value_before && !matches!(next, Some(Assign | Dot | Comma | RParen)),
            "step" => value_before && value_next,
            "as" => value_before && next == Some(Name),
            "on" => !value_before && next == Some(Name),
            _ => next == Some(LBrace),
        }
}

impl Analysis {
    /// Classifies the whole text in order, using the meanings of names.
    pub fn highlights(&self) -> Vec<Highlight> {
        let names = self.names();
        let mut known: rustc_hash::FxHashMap<usize, (Class, bool, bool, bool)> = rustc_hash::FxHashMap::default();
        for used in &names.uses {
            if let Some((class, readonly, library)) = self.class_of(used.meaning) {
                known.insert(used.span.start as usize, (class, false, readonly, library));
            }
        }
        for (index, def) in names.defs.iter().enumerate() {
            if let Some((class, readonly, library)) = self.class_of(Meaning::Def(index)) {
                known.insert(def.span.start as usize, (class, true, readonly, library));
            }
        }
        let plain = |(range, class): (Range<usize>, Class)| {
            let is_name = !matches!(class, Class::String | Class::Comment | Class::Keyword);
            let (class, defined, readonly, library) = match known.get(&range.start) {
                Some(found) if is_name => *found,
                _ => (class, false, false, class == Class::Builtin),
            };
            Highlight { range, class, defined, readonly, library }
        };
        highlight(&self.text).into_iter().map(plain).collect()
    }

    fn class_of(&self, meaning: Meaning) -> Option<(Class, bool, bool)> {
        let program = &self.session.program;
        let library = self.defined(meaning).is_some_and(|s| self.session.sources.name(s.file).starts_with("std/"));
        let class = match meaning {
            Meaning::Builtin(_) => return Some((Class::Builtin, true, true)),
            Meaning::Type => return Some((Class::Type, true, true)),
            Meaning::Field(..) => return Some((Class::Property, false, library)),
            Meaning::Elsewhere(_) => return Some((Class::Parameter, true, library)),
            Meaning::Bound(binding) => match binding {
                Binding::Fn(_) => Class::Function,
                Binding::Kernel(_) => Class::Kernel,
                Binding::Struct(_) => Class::Type,
                Binding::Const(_) => Class::Constant,
                Binding::Module(_) => Class::Namespace,
                Binding::Global(id) => {
                    let readonly = program.globals.get(id).is_some_and(|g| !g.mutable);
                    return Some((Class::Variable, readonly, false));
                }
                Binding::Error => return None,
            },
            Meaning::Def(index) => {
                let def = self.names().defs.get(index)?;
                match def.kind {
                    names::DefKind::Fn => Class::Function,
                    DefKind::Kernel => Class::Kernel,
                    DefKind::Struct | DefKind::TypeParam => Class::Type,
                    DefKind::Const | DefKind::ConstParam => Class::Constant,
                    DefKind::FnParam => Class::Function,
                    DefKind::Dimension => Class::Dimension,
                    DefKind::Field => return Some((Class::Property, false, false)),
                    DefKind::Param(access) => {
                        return Some((Class::Parameter, access == crate::check::typed::Access::In, false));
                    }
                    DefKind::Var | DefKind::Shared => return Some((Class::Variable, false, false)),
                    DefKind::Let | DefKind::Loop | DefKind::ThreadIndex => Class::Variable,
                    DefKind::Import => {
                        let binding = self.binding(&def.name)?;
                        return self.class_of(Meaning::Bound(binding));
                    }
                }
            }
        };
        Some((class, true, library))
    }

    /// Whether a type exists only on the host.
    pub(super) fn is_host_type(ty: &Type) -> bool {
        matches!(ty, Type::Str | Type::Range | Type::Timing | Type::Strings | Type::Kernel(_) | Type::Module(_))
    }
}
