//! Completion of the word at the cursor.
//!
//! The text at the cursor is rarely a valid program, so the syntactic position is determined by the tokens before it, and the
//! visible names by the analysis of the text, whose error nodes keep the scopes. For a member (`base.…`) the text is analyzed
//! again without the dot, so that the base has its type.

use std::ops::Range;

use super::names::{DefKind, is_prelude_type};
use super::types::{self, Owner};
use super::{Analysis, describe, documentation};
use crate::base::source::Span;
use crate::check::typed::{Binding, ModuleId, Type};
use crate::compile::{Files, library};
use crate::lang::builtin::{TABLE, Worlds};
use crate::lang::scalar::Scalar;
use crate::syntax;
use crate::syntax::ast::ItemKind;
use crate::syntax::token::{CONTEXTUAL, KEYWORDS, Tok, Token};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompletionKind {
    Variable,
    Parameter,
    Dimension,
    Function,
    Kernel,
    Builtin,
    Type,
    Field,
    Constant,
    Module,
    Keyword,
    Argument,
    File,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completion {
    pub label: String,
    pub kind: CompletionKind,
    /// The type or signature, on one line.
    pub detail: String,
    /// Documentation in Markdown.
    pub doc: String,
    /// The range to be replaced.
    pub replace: Range<usize>,
    pub insert: String,
}

/// The kind of code at the cursor.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Kernel,
    Fn,
    Host,
}

impl Analysis {
    /// Returns all completions of the word before an offset, best first.
    pub fn complete(&self, offset: usize, files: &dyn Files) -> Vec<Completion> {
        let before = self.tokens_before(offset);
        if self.is_in_text(offset, &before) {
            return self.file_names(offset, &before, files);
        }
        let (word, context) = match before.split_last() {
            Some((last, rest)) if last.end as usize == offset && (last.kind == Tok::Name || last.kind.is_keyword()) => {
                (last.start as usize..offset, rest)
            }
            _ => (offset..offset, &before[..]),
        };
        let prefix = super::slice(&self.text, word.clone()).to_owned();
        let mut out = match context.last().map(|t| t.kind) {
            Some(Tok::Dot) => self.members(context, &word, files),
            Some(Tok::Import) => vec![entry("std", CompletionKind::Module, "the standard library", &word)],
            // A new name is being typed.
            Some(Tok::Let | Tok::Var | Tok::Fn | Tok::Kernel | Tok::Struct | Tok::Const | Tok::For | Tok::Shared) => {
                vec![]
            }
            _ if self.import_names(context, &word).is_some() => self.import_names(context, &word).unwrap_or_default(),
            Some(Tok::LBrace | Tok::Comma) if self.struct_fields(context, &word).is_some() => {
                self.struct_fields(context, &word).unwrap_or_default()
            }
            Some(Tok::Colon | Tok::Arrow) if !in_call(context) => self.types_here(offset, &word),
            _ => self.everything(offset, context, &word),
        };
        rank(&mut out, &prefix);
        out
    }

    fn tokens_before(&self, offset: usize) -> Vec<Token> {
        let text = super::slice(&self.text, 0..offset.min(self.text.len()));
        let mut tokens = syntax::lex(self.file, text).tokens;
        // Removes implied tokens, such as a bracket closed at the end of the text.
        tokens.retain(|t| t.start < t.end);
        tokens
    }

    /// Whether the cursor is in a string or a comment.
    fn is_in_text(&self, offset: usize, before: &[Token]) -> bool {
        let line = super::slice(&self.text, 0..offset).rsplit('\n').next().unwrap_or("");
        let quotes = before
            .iter()
            .filter(|t| t.start as usize + line.len() >= offset)
            .fold(0i32, |n, t| n + i32::from(t.kind == Tok::StrStart) - i32::from(t.kind == Tok::StrEnd));
        let interpolated = before
            .iter()
            .filter(|t| t.start as usize + line.len() >= offset)
            .fold(0i32, |n, t| n + i32::from(t.kind == Tok::InterpOpen) - i32::from(t.kind == Tok::InterpClose));
        let last = before.last().map_or(0, |t| t.end as usize);
        let gap = super::slice(&self.text, last..offset).rsplit('\n').next().unwrap_or("");
        quotes > interpolated
            || gap.contains("//")
            || before.last().is_some_and(|t| t.kind == Tok::Doc && line_of(&self.text, offset, t))
    }

    fn file_names(&self, offset: usize, before: &[Token], files: &dyn Files) -> Vec<Completion> {
        let Some(quote) = before.iter().rposition(|t| t.kind == Tok::StrStart) else { return vec![] };
        let import = quote.checked_sub(1).and_then(|i| before.get(i)).is_some_and(|t| t.kind == Tok::Import);
        if !import {
            return vec![];
        }
        let typed = super::slice(&self.text, before[quote].end as usize..offset);
        let folder = typed.rfind('/').map_or(0, |at| at + 1);
        let word = before[quote].end as usize + folder..offset;
        let base = self.session.folder.join(super::slice(typed, 0..folder)).join("_");
        let names = files.neighbors(&base);
        let mut out: Vec<Completion> =
            names.iter().filter(|n| n.ends_with(".clk")).map(|n| entry(n, CompletionKind::File, "", &word)).collect();
        rank(&mut out, super::slice(&self.text, word.clone()));
        out
    }

    // Members

    fn members(&self, context: &[Token], word: &Range<usize>, files: &dyn Files) -> Vec<Completion> {
        let Some((dot, base)) = context.split_last() else { return vec![] };
        if let Some(found) = self.import_path(base, word) {
            return found;
        }
        let Some(last) = base.last() else { return vec![] };
        if last.kind == Tok::Name
            && let Some(module) = self.module_named(last.text(&self.text))
        {
            return self.module_members(module, word);
        }
        // The text with the dot and the word after it blanked, so that offsets stay the same.
        let (start, end) = (dot.start as usize, word.end);
        let blank = " ".repeat(end - start);
        let text =
            [super::slice(&self.text, 0..start), &blank, super::slice(&self.text, end..self.text.len())].concat();
        let name = self.session.sources.name(self.file).to_owned();
        let without = Analysis::after(self.before.clone(), &name, &text, files);
        let span = Span { file: without.file, start: postfix_start(base), end: last.end };
        without.types().of(span).map_or(vec![], |(ty, owner)| without.fields(ty, owner, word))
    }

    fn module_named(&self, name: &str) -> Option<ModuleId> {
        match self.binding(name)? {
            Binding::Module(module) => Some(module),
            _ => None,
        }
    }

    fn module_members(&self, module: ModuleId, word: &Range<usize>) -> Vec<Completion> {
        let Some(module) = self.session.program.modules.get(module) else { return vec![] };
        let internal = module.name.strip_prefix("std.").map(library::members);
        let public = |name: &str| internal.as_ref().is_none_or(|members| members.iter().any(|m| m.name == name));
        let items = module.names.iter().filter(|(_, b)| !matches!(b, Binding::Module(_) | Binding::Global(_)));
        let items = items.filter(|(name, _)| public(name));
        items.filter_map(|(name, binding)| self.bound_entry(name, *binding, word)).collect()
    }

    /// Completes `Body { …` with the fields that have no value yet.
    fn struct_fields(&self, context: &[Token], word: &Range<usize>) -> Option<Vec<Completion>> {
        let mut depth = 0usize;
        let open = context.iter().rposition(|token| {
            let opens = matches!(token.kind, Tok::LBrace | Tok::LParen | Tok::LBracket | Tok::InterpOpen);
            let outermost = opens && depth == 0;
            match token.kind {
                Tok::RBrace | Tok::RParen | Tok::RBracket | Tok::InterpClose => depth += 1,
                _ if opens => depth = depth.saturating_sub(1),
                _ => {}
            }
            outermost
        })?;
        let named = context.get(open.checked_sub(1)?).filter(|token| token.kind == Tok::Name)?;
        // `struct Body {` is a definition.
        let defined = open >= 2 && context.get(open - 2).is_some_and(|token| token.kind == Tok::Struct);
        let brace = context.get(open).is_some_and(|token| token.kind == Tok::LBrace);
        let Binding::Struct(id) = self.binding(named.text(&self.text)).filter(|_| brace && !defined)? else {
            return None;
        };
        let inside = context.get(open + 1..)?;
        let given =
            |name: &str| inside.windows(2).any(|pair| pair[1].kind == Tok::Colon && pair[0].text(&self.text) == name);
        let fields = self.fields(&Type::Struct(id), Owner::None, word).into_iter().filter(|field| !given(&field.label));
        Some(fields.map(|field| Completion { insert: format!("{}: ", field.label), ..field }).collect())
    }

    fn fields(&self, ty: &Type, owner: Owner, word: &Range<usize>) -> Vec<Completion> {
        let program = &self.session.program;
        let field = |name: &str, detail: &str| entry(name, CompletionKind::Field, detail, word);
        match ty {
            Type::Struct(id) => {
                let fields = program.structs.get(*id).map_or(&[][..], |s| &s.fields);
                let one = |f: &crate::check::typed::Field| Completion {
                    doc: f.doc.clone().unwrap_or_default(),
                    ..field(&f.name, &types::shown(program, &f.ty, owner))
                };
                fields.iter().map(one).collect()
            }
            Type::Vector(scalar, n) => {
                ["x", "y", "z", "w"].iter().take(usize::from(*n)).map(|lane| field(lane, scalar.name())).collect()
            }
            Type::Tuple(parts) => parts
                .iter()
                .enumerate()
                .map(|(i, part)| field(&i.to_string(), &types::shown(program, part, owner)))
                .collect(),
            Type::Timing => ["median", "min", "max", "runs"].iter().map(|n| field(n, "of the measured runs")).collect(),
            _ => vec![],
        }
    }

    // Imports

    /// Completes `import std.…`.
    fn import_path(&self, base: &[Token], word: &Range<usize>) -> Option<Vec<Completion>> {
        let import = base.iter().rposition(|t| t.kind == Tok::Import)?;
        let path = base.get(import + 1..)?;
        if !path.iter().all(|t| matches!(t.kind, Tok::Name | Tok::Dot)) {
            return None;
        }
        let is_std = path.len() == 1 && path[0].text(&self.text) == "std";
        let modules =
            library::MODULES.iter().map(|(name, _)| entry(name, CompletionKind::Module, library::about(name), word));
        Some(if is_std { modules.collect() } else { vec![] })
    }

    /// Completes `import std.nn.{…` with the names of that module.
    fn import_names(&self, context: &[Token], word: &Range<usize>) -> Option<Vec<Completion>> {
        let import = context.iter().rposition(|t| t.kind == Tok::Import)?;
        let rest = context.get(import + 1..)?;
        let brace = rest.iter().position(|t| t.kind == Tok::LBrace)?;
        let path_only = rest[..brace].iter().all(|t| matches!(t.kind, Tok::Name | Tok::Dot));
        let names_only = rest[brace + 1..].iter().all(|t| matches!(t.kind, Tok::Name | Tok::Comma));
        if !path_only || !names_only || rest[..brace].last().is_none_or(|t| t.kind != Tok::Dot) {
            return None;
        }
        let module = rest.get(brace.checked_sub(2)?)?.text(&self.text);
        let text = format!("import std.{module}");
        let loaded = Analysis::new("<import>", &text, &crate::compile::NoFiles);
        let id = loaded.module_named(module)?;
        Some(loaded.module_members(id, word))
    }

    // Everything else

    fn world(&self, offset: usize) -> Place {
        // A broken item may have an incorrect range: then the last header above decides.
        let item =
            self.tree.items.iter().rev().find(|i| i.span.start as usize <= offset && offset <= i.span.end as usize);
        match item.map(|i| &i.kind) {
            Some(ItemKind::Kernel(k)) if offset > k.name.span.end as usize => Place::Kernel,
            Some(ItemKind::Fn(_)) => Place::Fn,
            Some(ItemKind::Error(_)) => self.world_by_tokens(offset),
            _ => Place::Host,
        }
    }

    fn world_by_tokens(&self, offset: usize) -> Place {
        let mut place = Place::Host;
        let mut depth = 0;
        for token in self.tokens_before(offset) {
            match token.kind {
                Tok::LBrace => depth += 1,
                Tok::RBrace => {
                    depth -= 1;
                    if depth == 0 {
                        place = Place::Host;
                    }
                }
                Tok::Kernel if depth == 0 => place = Place::Kernel,
                Tok::Fn if depth == 0 => place = Place::Fn,
                _ => {}
            }
        }
        place
    }

    fn types_here(&self, offset: usize, word: &Range<usize>) -> Vec<Completion> {
        let mut out: Vec<Completion> = prelude_types(word).collect();
        for index in self.names().visible(offset as u32) {
            let def = &self.names().defs[index];
            if matches!(def.kind, DefKind::Struct | DefKind::TypeParam) {
                out.push(entry(&def.name, CompletionKind::Type, "", word));
            }
        }
        out
    }

    fn everything(&self, offset: usize, context: &[Token], word: &Range<usize>) -> Vec<Completion> {
        let mut out: Vec<Completion> = Vec::new();
        let starts_argument = matches!(context.last().map(|t| t.kind), Some(Tok::LParen | Tok::Comma));
        if starts_argument {
            out.extend(self.argument_names(offset).into_iter().map(|(name, detail)| Completion {
                insert: format!("{name} = "),
                ..entry(&name, CompletionKind::Argument, &detail, word)
            }));
        }
        let place = self.world(offset);
        let names = self.names();
        let visible = names.visible(offset as u32);
        let script_variable = |def: &super::names::Def| {
            matches!(def.kind, DefKind::Let | DefKind::Var) && def.scope.1 as usize >= self.text.len()
        };
        for &index in visible.iter().rev() {
            let def = &names.defs[index];
            if place == Place::Host || !script_variable(def) {
                out.extend(self.def_entry(index, word));
            }
        }
        if let Some(module) = self.session.main.and_then(|main| self.session.program.modules.get(main)) {
            for (name, binding) in &module.names {
                let hidden = matches!(binding, Binding::Global(_)) && place != Place::Host;
                if !hidden && !out.iter().any(|c| c.label == *name) {
                    out.extend(self.bound_entry(name, *binding, word));
                }
            }
        }
        let fits = |worlds: Worlds| match place {
            Place::Kernel => worlds != Worlds::Host,
            Place::Host => worlds != Worlds::Device,
            Place::Fn => true,
        };
        for builtin in TABLE.iter().filter(|e| fits(e.worlds)) {
            out.push(Completion {
                doc: builtin.doc.into(),
                ..entry(builtin.name, CompletionKind::Builtin, builtin.signature, word)
            });
        }
        out.extend(prelude_types(word));
        let words = KEYWORDS.iter().map(|(k, _)| *k).chain(CONTEXTUAL.iter().copied());
        out.extend(words.map(|w| Completion {
            doc: describe::keyword(w).unwrap_or("").into(),
            ..entry(w, CompletionKind::Keyword, "", word)
        }));
        out
    }

    fn def_entry(&self, index: usize, word: &Range<usize>) -> Option<Completion> {
        let def = self.names().defs.get(index)?;
        let kind = match def.kind {
            DefKind::Fn | DefKind::Kernel | DefKind::Struct | DefKind::Const | DefKind::Import => {
                let binding = self.binding(&def.name)?;
                return self.bound_entry(&def.name, binding, word);
            }
            DefKind::Field => return None,
            DefKind::Let | DefKind::Var | DefKind::Loop | DefKind::Shared => CompletionKind::Variable,
            DefKind::ThreadIndex | DefKind::Param(_) => CompletionKind::Parameter,
            DefKind::TypeParam => CompletionKind::Type,
            DefKind::ConstParam => CompletionKind::Constant,
            DefKind::FnParam => CompletionKind::Function,
            DefKind::Dimension => CompletionKind::Dimension,
        };
        let detail = self.type_of(def.span.range()).unwrap_or_default();
        Some(entry(&def.name, kind, &detail, word))
    }

    fn bound_entry(&self, name: &str, binding: Binding, word: &Range<usize>) -> Option<Completion> {
        let kind = match binding {
            Binding::Fn(_) => CompletionKind::Function,
            Binding::Kernel(_) => CompletionKind::Kernel,
            Binding::Struct(_) => CompletionKind::Type,
            Binding::Const(_) => CompletionKind::Constant,
            Binding::Module(_) => CompletionKind::Module,
            Binding::Global(_) => CompletionKind::Variable,
            Binding::Error => return None,
        };
        let described = self.describe(super::Meaning::Bound(binding))?;
        let detail = described.code.split_whitespace().collect::<Vec<_>>().join(" ");
        Some(Completion { doc: described.doc, ..entry(name, kind, &detail, word) })
    }
}

/// Returns the start of the postfix expression (names, calls, indices and members) that ends with the last token.
fn postfix_start(base: &[Token]) -> u32 {
    let mut at = base.len();
    let mut start = base.last().map_or(0, |t| t.start);
    while let Some(index) = at.checked_sub(1) {
        let token = base[index];
        match token.kind {
            Tok::RParen | Tok::RBracket | Tok::RBrace => {
                let mut depth = 0;
                let open = base[..at].iter().rposition(|t| {
                    match t.kind {
                        Tok::RParen | Tok::RBracket | Tok::RBrace => depth += 1,
                        Tok::LParen | Tok::LBracket | Tok::LBrace => depth -= 1,
                        _ => {}
                    }
                    depth == 0
                });
                let Some(open) = open else { return start };
                start = base[open].start;
                at = open;
                // `f(x)` and `a[i]` begin further left, `(x)` begins here.
                let callee = at.checked_sub(1).is_some_and(|i| {
                    matches!(base[i].kind, Tok::Name | Tok::RParen | Tok::RBracket) && base[i].end == start
                });
                if !callee {
                    return start;
                }
            }
            Tok::Name | Tok::Int | Tok::Float => {
                start = token.start;
                if index.checked_sub(1).is_none_or(|i| base[i].kind != Tok::Dot) {
                    return start;
                }
                at = index - 1;
            }
            _ => return start,
        }
    }
    start
}

/// Whether the last token is on the line of the cursor.
fn line_of(text: &str, offset: usize, token: &Token) -> bool {
    !super::slice(text, token.end as usize..offset).contains('\n')
}

/// Whether the innermost open bracket is that of a call or group, in which a colon does not begin a type.
fn in_call(context: &[Token]) -> bool {
    let mut depth = 0;
    for (index, token) in context.iter().enumerate().rev() {
        match token.kind {
            Tok::RParen | Tok::RBracket | Tok::RBrace => depth += 1,
            Tok::LBrace if depth == 0 => {
                // In `Body { place: …` a value follows; in a definition, a type.
                let name = index.checked_sub(1).map(|i| context[i].kind);
                let keyword = index.checked_sub(2).map(|i| context[i].kind);
                return name == Some(Tok::Name) && keyword != Some(Tok::Struct);
            }
            Tok::LParen | Tok::LBracket | Tok::LBrace if depth == 0 => return false,
            Tok::LParen | Tok::LBracket | Tok::LBrace => depth -= 1,
            _ => {}
        }
    }
    false
}

fn entry(label: &str, kind: CompletionKind, detail: &str, word: &Range<usize>) -> Completion {
    Completion {
        label: label.to_owned(),
        kind,
        detail: detail.to_owned(),
        doc: String::new(),
        replace: word.clone(),
        insert: label.to_owned(),
    }
}

fn prelude_types(word: &Range<usize>) -> impl Iterator<Item = Completion> {
    let vectors = ["f32x2", "f32x3", "f32x4", "i32x2", "i32x3", "i32x4"];
    let names = Scalar::ALL.into_iter().map(|s| s.name()).chain(vectors).chain(["str"]);
    names.filter(|n| is_prelude_type(n)).map(move |name| Completion {
        doc: documentation(name).unwrap_or_default(),
        ..entry(name, CompletionKind::Type, "", word)
    })
}

/// Keeps prefix matches (else substring matches) without duplicates, and sorts them by quality.
fn rank(out: &mut Vec<Completion>, prefix: &str) {
    let lower = prefix.to_lowercase();
    let score = |c: &Completion| {
        let label = c.label.to_lowercase();
        if c.label.starts_with(prefix) {
            Some(0)
        } else if label.starts_with(&lower) {
            Some(1)
        } else if lower.len() > 1 && label.contains(&lower) {
            Some(2)
        } else {
            None
        }
    };
    let mut seen = rustc_hash::FxHashSet::default();
    out.retain(|c| score(c).is_some() && seen.insert(c.label.clone()));
    out.sort_by_key(score);
}
