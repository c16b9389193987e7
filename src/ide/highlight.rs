//! Syntax highlighting: lexical, which is fast enough for every keystroke, and semantic, which uses the analysis.

use std::ops::Range;

use super::{Analysis, is_prelude_type};
use clk_check::typed::{DefinitionKind, NameBinding, NameTarget, Type};
use clk_scalar::builtin;
use clk_syntax::token::{CONTEXTUAL, Tok, Token};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HighlightClass {
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
    /// Brackets, commas and similar tokens.
    Punctuation,
    /// Characters that the lexer rejects.
    Error,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Highlight {
    pub range: Range<usize>,
    pub class: HighlightClass,
    pub defined: bool,
    /// Whether the name cannot be assigned to.
    pub readonly: bool,
    /// Whether the name is defined by Clk, not by the program.
    pub library: bool,
}

/// Classifies a text by its tokens. Names that are not builtins, types or callees are variables.
pub fn highlight(text: &str) -> Vec<(Range<usize>, HighlightClass)> {
    let tokens = clk_syntax::lex(Default::default(), text).tokens;
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

/// Adds the comments between two tokens. After the point where lexing stopped, `//` does not begin a comment.
fn comments(text: &str, from: usize, to: usize, out: &mut Vec<(Range<usize>, HighlightClass)>) {
    let Some(gap) = text.get(from..to).filter(|gap| gap.contains('/') || gap.contains('#')) else { return };
    let mut at = from;
    for line in gap.split_inclusive('\n') {
        let body = line.trim();
        if !body.is_empty() {
            let start = at + line.find(body).unwrap_or(0);
            out.push((start..start + body.len(), HighlightClass::Comment));
        }
        at += line.len();
    }
}

fn class(text: &str, tokens: &[Token], index: usize) -> Option<HighlightClass> {
    let token = tokens[index];
    let next = tokens.get(index + 1).map(|t| t.kind);
    let before = index.checked_sub(1).and_then(|i| tokens.get(i)).map(|t| t.kind);
    Some(match token.kind {
        Tok::Int | Tok::Float => HighlightClass::Number,
        Tok::True | Tok::False => HighlightClass::Constant,
        Tok::StrStart | Tok::StrText | Tok::StrEnd | Tok::Format | Tok::Quoted => HighlightClass::String,
        Tok::Doc => HighlightClass::Comment,
        Tok::Newline | Tok::Eof => return None,
        Tok::Name => word(token.text(text), before, next),
        kind if kind.is_keyword() => HighlightClass::Keyword,
        Tok::Unroll | Tok::NoUnroll => HighlightClass::Keyword,
        Tok::LParen | Tok::RParen | Tok::LBracket | Tok::RBracket | Tok::LBrace | Tok::RBrace => {
            HighlightClass::Punctuation
        }
        Tok::Comma | Tok::Semi | Tok::Colon | Tok::Dot | Tok::InterpOpen | Tok::InterpClose => {
            HighlightClass::Punctuation
        }
        Tok::Question | Tok::PlusPlus | Tok::Tilde | Tok::ColonColon | Tok::FatArrow | Tok::Hash => {
            HighlightClass::Error
        }
        _ => HighlightClass::Operator,
    })
}

fn word(name: &str, before: Option<Tok>, next: Option<Tok>) -> HighlightClass {
    match (before, next) {
        (Some(Tok::Dot), Some(Tok::LParen)) => HighlightClass::Function,
        (Some(Tok::Dot), _) => HighlightClass::Property,
        (Some(Tok::Kernel), _) => HighlightClass::Kernel,
        (Some(Tok::Fn), _) => HighlightClass::Function,
        (Some(Tok::Struct), _) => HighlightClass::Type,
        (Some(Tok::Const), _) => HighlightClass::Constant,
        (Some(Tok::Let | Tok::Var | Tok::For | Tok::Shared), _) => HighlightClass::Variable,
        _ if is_prelude_type(name) => HighlightClass::Type,
        (_, Some(Tok::Assign | Tok::Colon)) => HighlightClass::Variable,
        _ if is_contextual(name, before, next) => HighlightClass::Keyword,
        _ if builtin::find(name).is_some() => HighlightClass::Builtin,
        (_, Some(Tok::LParen)) => HighlightClass::Function,
        (_, Some(Tok::LaunchOpen)) => HighlightClass::Kernel,
        _ => HighlightClass::Variable,
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
    /// Classifies the tokens of the text, using the definitions of names.
    pub fn highlights(&self) -> Vec<Highlight> {
        let names = self.names();
        let mut classes: rustc_hash::FxHashMap<usize, (HighlightClass, bool, bool, bool)> =
            rustc_hash::FxHashMap::default();
        for used in &names.uses {
            if let Some((class, readonly, library)) = self.class_of(used.target) {
                classes.insert(used.span.start as usize, (class, false, readonly, library));
            }
        }
        for definition in &names.definitions {
            if let Some((class, readonly, library)) = self.class_of(definition.target) {
                classes.insert(definition.span.start as usize, (class, true, readonly, library));
            }
        }
        let plain = |(range, class): (Range<usize>, HighlightClass)| {
            let is_name = !matches!(class, HighlightClass::String | HighlightClass::Comment | HighlightClass::Keyword);
            let (class, defined, readonly, library) = match classes.get(&range.start) {
                Some(found) if is_name => *found,
                _ => (class, false, false, class == HighlightClass::Builtin),
            };
            Highlight { range, class, defined, readonly, library }
        };
        highlight(&self.text).into_iter().map(plain).collect()
    }

    fn class_of(&self, target: NameTarget) -> Option<(HighlightClass, bool, bool)> {
        let program = &self.session.program;
        let library =
            self.definition_span(target).is_some_and(|s| self.session.sources.name(s.file).starts_with("std/"));
        let class = match target {
            NameTarget::Builtin(_) => return Some((HighlightClass::Builtin, true, true)),
            NameTarget::Type => return Some((HighlightClass::Type, true, true)),
            NameTarget::Field(..) => return Some((HighlightClass::Property, false, library)),
            NameTarget::Item(binding) => match binding {
                NameBinding::Fn(_) => HighlightClass::Function,
                NameBinding::Kernel(_) => HighlightClass::Kernel,
                NameBinding::Struct(_) => HighlightClass::Type,
                NameBinding::Const(_) => HighlightClass::Constant,
                NameBinding::Module(_) => HighlightClass::Namespace,
                NameBinding::Global(id) => {
                    let readonly = program.globals.get(id).is_some_and(|g| !g.mutable);
                    return Some((HighlightClass::Variable, readonly, false));
                }
                NameBinding::Error => return None,
            },
            NameTarget::Local(span) => {
                let Some(definition) = self.names().definition(span) else {
                    return Some((HighlightClass::Parameter, true, library));
                };
                match definition.kind {
                    DefinitionKind::Fn | DefinitionKind::FnParam => HighlightClass::Function,
                    DefinitionKind::Kernel => HighlightClass::Kernel,
                    DefinitionKind::Struct | DefinitionKind::TypeParam => HighlightClass::Type,
                    DefinitionKind::Const | DefinitionKind::ConstParam => HighlightClass::Constant,
                    DefinitionKind::Dimension => HighlightClass::Dimension,
                    DefinitionKind::Field => return Some((HighlightClass::Property, false, false)),
                    DefinitionKind::Param(access) => {
                        return Some((HighlightClass::Parameter, access == clk_check::typed::Access::In, false));
                    }
                    DefinitionKind::Var | DefinitionKind::Shared => {
                        return Some((HighlightClass::Variable, false, false));
                    }
                    DefinitionKind::Let | DefinitionKind::Loop | DefinitionKind::ThreadIndex => {
                        HighlightClass::Variable
                    }
                    // An import with an error.
                    DefinitionKind::Import => return None,
                }
            }
        };
        Some((class, true, library))
    }

    /// Returns whether a type exists only on the host.
    pub(super) fn is_host_type(ty: &Type) -> bool {
        matches!(ty, Type::Str | Type::Range | Type::Timing | Type::Strings | Type::Kernel(_) | Type::Module(_))
    }
}
