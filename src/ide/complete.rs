//! Completion of the word at the cursor.
//!
//! The text at the cursor is rarely a valid program. So the tokens before the cursor determine the syntactic position,
//! and the visible names come from the analysis of the text, whose error nodes keep the scopes. For a member
//! (`base.…`), the text is analyzed again without the dot, so that the base has a type.

use std::ops::Range;

use super::types::{self, TypeOwner};
use super::{Analysis, describe, documentation, is_prelude_type};
use clk_base::source::Span;
use clk_check::typed::{Definition, DefinitionKind, ModuleId, NameBinding, NameTarget, Type};
use clk_compile::{Files, library};
use clk_scalar::Scalar;
use clk_scalar::builtin::{BuiltinSpaces, TABLE};
use clk_scalar::foreign_names::{self, ClkEquivalent};
use clk_syntax::ast::ItemKind;
use clk_syntax::token::{CONTEXTUAL, KEYWORDS, Tok, Token};

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
    /// The range to replace by `insert`.
    pub replace: Range<usize>,
    pub insert: String,
}

/// The kind of code at the cursor, which determines the words that are offered.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CompletionContext {
    Kernel,
    Fn,
    Host,
}

impl Analysis {
    /// Returns all completions of the word before an offset, the best match first.
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
            // The user is typing a new name, so nothing can be completed.
            Some(Tok::Let | Tok::Var | Tok::Fn | Tok::Kernel | Tok::Struct | Tok::Const | Tok::For | Tok::Shared) => {
                vec![]
            }
            _ if self.import_names(context, &word).is_some() => self.import_names(context, &word).unwrap_or_default(),
            Some(Tok::LBrace | Tok::Comma) if self.struct_fields(context, &word).is_some() => {
                self.struct_fields(context, &word).unwrap_or_default()
            }
            Some(Tok::Colon | Tok::Arrow) if !in_struct_literal(context) => self.type_completions(offset, &word),
            _ => self.all_names(offset, context, &word),
        };
        rank(&mut out, &prefix);
        if let [.., module, dot] = context
            && (module.kind, dot.kind) == (Tok::Name, Tok::Dot)
            && out.is_empty()
            && !self.is_visible(module.text(&self.text), offset)
        {
            let whole = module.start as usize..word.end;
            out = foreign_completions(&prefix, module.text(&self.text), &whole);
        }
        out
    }

    /// Returns whether the program defines a name that is visible at an offset.
    fn is_visible(&self, name: &str, offset: usize) -> bool {
        self.names().visible(offset as u32).iter().any(|definition| definition.name == name)
            || self.binding(name).is_some()
    }

    fn tokens_before(&self, offset: usize) -> Vec<Token> {
        let text = super::slice(&self.text, 0..offset.min(self.text.len()));
        let mut tokens = clk_syntax::lex(self.file, text).tokens;
        // Remove implied tokens, such as a bracket that the lexer closed at the end of the text.
        tokens.retain(|t| t.start < t.end);
        tokens
    }

    /// Returns whether the cursor is in a string or a comment.
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
            || before.last().is_some_and(|t| t.kind == Tok::Doc && ends_on_line(&self.text, offset, t))
    }

    fn file_names(&self, offset: usize, before: &[Token], files: &dyn Files) -> Vec<Completion> {
        let Some(quote) = before.iter().rposition(|t| t.kind == Tok::StrStart) else { return vec![] };
        let import = quote.checked_sub(1).and_then(|i| before.get(i)).is_some_and(|t| t.kind == Tok::Import);
        if !import {
            return vec![];
        }
        let path_prefix = super::slice(&self.text, before[quote].end as usize..offset);
        let folder = path_prefix.rfind('/').map_or(0, |at| at + 1);
        let word = before[quote].end as usize + folder..offset;
        let base = self.session.folder.join(super::slice(path_prefix, 0..folder)).join("_");
        let names = files.neighbors(&base);
        let mut out: Vec<Completion> =
            names.iter().filter(|n| n.ends_with(".clk")).map(|n| entry(n, CompletionKind::File, "", &word)).collect();
        rank(&mut out, super::slice(&self.text, word.clone()));
        out
    }

    // Completion of members:

    fn members(&self, context: &[Token], word: &Range<usize>, files: &dyn Files) -> Vec<Completion> {
        let Some((dot, base)) = context.split_last() else { return vec![] };
        if let Some(completions) = self.import_path(base, word) {
            return completions;
        }
        let Some(last) = base.last() else { return vec![] };
        if last.kind == Tok::Name
            && let Some(module) = self.module_named(last.text(&self.text))
        {
            return self.module_members(module, word);
        }
        // Replace the dot and the word after it with blanks, so that offsets stay the same.
        let (start, end) = (dot.start as usize, word.end);
        let blank = " ".repeat(end - start);
        let text =
            [super::slice(&self.text, 0..start), &blank, super::slice(&self.text, end..self.text.len())].concat();
        let name = self.session.sources.name(self.file).to_owned();
        let analysis = Analysis::after(self.previous_session.clone(), &name, &text, files);
        let span = Span { file: analysis.file, start: postfix_start(base), end: last.end };
        analysis.types().get(span).map_or(vec![], |(ty, owner)| analysis.fields(ty, owner, word))
    }

    fn module_named(&self, name: &str) -> Option<ModuleId> {
        match self.binding(name)? {
            NameBinding::Module(module) => Some(module),
            _ => None,
        }
    }

    fn module_members(&self, module: ModuleId, word: &Range<usize>) -> Vec<Completion> {
        let Some(module) = self.session.program.modules.get(module) else { return vec![] };
        let internal = module.name.strip_prefix("std.").map(library::members);
        let public = |name: &str| internal.as_ref().is_none_or(|members| members.iter().any(|m| m.name == name));
        let items = module.names.iter().filter(|(_, b)| !matches!(b, NameBinding::Module(_) | NameBinding::Global(_)));
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
        let name_token = context.get(open.checked_sub(1)?).filter(|token| token.kind == Tok::Name)?;
        // The `{` belongs to a definition `struct Body {`, not to a literal.
        let is_definition = open >= 2 && context.get(open - 2).is_some_and(|token| token.kind == Tok::Struct);
        let brace = context.get(open).is_some_and(|token| token.kind == Tok::LBrace);
        let NameBinding::Struct(id) = self.binding(name_token.text(&self.text)).filter(|_| brace && !is_definition)?
        else {
            return None;
        };
        let inside = context.get(open + 1..)?;
        let has_value =
            |name: &str| inside.windows(2).any(|pair| pair[1].kind == Tok::Colon && pair[0].text(&self.text) == name);
        let fields =
            self.fields(&Type::Struct(id), TypeOwner::None, word).into_iter().filter(|field| !has_value(&field.label));
        Some(fields.map(|field| Completion { insert: format!("{}: ", field.label), ..field }).collect())
    }

    fn fields(&self, ty: &Type, owner: TypeOwner, word: &Range<usize>) -> Vec<Completion> {
        let program = &self.session.program;
        let field = |name: &str, detail: &str| entry(name, CompletionKind::Field, detail, word);
        match ty {
            Type::Struct(id) => {
                let fields = program.structs.get(*id).map_or(&[][..], |s| &s.fields);
                let one = |f: &clk_check::typed::Field| Completion {
                    doc: f.doc.clone().unwrap_or_default(),
                    ..field(&f.name, &types::show_type(program, &f.ty, owner))
                };
                fields.iter().map(one).collect()
            }
            Type::Vector(scalar, n) => {
                ["x", "y", "z", "w"].iter().take(usize::from(*n)).map(|lane| field(lane, scalar.name())).collect()
            }
            Type::Tuple(parts) => parts
                .iter()
                .enumerate()
                .map(|(i, part)| field(&i.to_string(), &types::show_type(program, part, owner)))
                .collect(),
            Type::Timing => {
                ["median", "min", "max", "runs"].iter().map(|n| field(n, "a statistic of the measured runs")).collect()
            }
            _ => vec![],
        }
    }

    // Completion in imports:

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
        let loaded = Analysis::new("<import>", &text, &clk_compile::NoFiles);
        let id = loaded.module_named(module)?;
        Some(loaded.module_members(id, word))
    }

    // Completion of all other words:

    fn context_at(&self, offset: usize) -> CompletionContext {
        // An item with errors may have an incorrect range; use the last header above instead.
        let item =
            self.tree.items.iter().rev().find(|i| i.span.start as usize <= offset && offset <= i.span.end as usize);
        match item.map(|i| &i.kind) {
            Some(ItemKind::Kernel(k)) if offset > k.name.span.end as usize => CompletionContext::Kernel,
            Some(ItemKind::Fn(_)) => CompletionContext::Fn,
            Some(ItemKind::Error(_)) => self.context_by_tokens(offset),
            _ => CompletionContext::Host,
        }
    }

    fn context_by_tokens(&self, offset: usize) -> CompletionContext {
        let mut context = CompletionContext::Host;
        let mut depth = 0;
        for token in self.tokens_before(offset) {
            match token.kind {
                Tok::LBrace => depth += 1,
                Tok::RBrace => {
                    depth -= 1;
                    if depth == 0 {
                        context = CompletionContext::Host;
                    }
                }
                Tok::Kernel if depth == 0 => context = CompletionContext::Kernel,
                Tok::Fn if depth == 0 => context = CompletionContext::Fn,
                _ => {}
            }
        }
        context
    }

    fn type_completions(&self, offset: usize, word: &Range<usize>) -> Vec<Completion> {
        let mut out: Vec<Completion> = prelude_types(word).collect();
        for def in self.names().visible(offset as u32) {
            if matches!(def.kind, DefinitionKind::Struct | DefinitionKind::TypeParam) {
                out.push(entry(&def.name, CompletionKind::Type, "", word));
            }
        }
        out
    }

    fn all_names(&self, offset: usize, context: &[Token], word: &Range<usize>) -> Vec<Completion> {
        let mut out: Vec<Completion> = Vec::new();
        let starts_argument = matches!(context.last().map(|t| t.kind), Some(Tok::LParen | Tok::Comma));
        if starts_argument {
            out.extend(self.argument_names(offset).into_iter().map(|(name, detail)| Completion {
                insert: format!("{name} = "),
                ..entry(&name, CompletionKind::Argument, &detail, word)
            }));
        }
        let code_context = self.context_at(offset);
        let script_variable = |def: &Definition| matches!(def.target, NameTarget::Item(NameBinding::Global(_)));
        for def in self.names().visible(offset as u32).into_iter().rev() {
            if code_context == CompletionContext::Host || !script_variable(def) {
                out.extend(self.def_entry(def, word));
            }
        }
        if let Some(module) = self.session.main.and_then(|main| self.session.program.modules.get(main)) {
            for (name, binding) in &module.names {
                let hidden = matches!(binding, NameBinding::Global(_)) && code_context != CompletionContext::Host;
                if !hidden && !out.iter().any(|c| c.label == *name) {
                    out.extend(self.bound_entry(name, *binding, word));
                }
            }
        }
        let is_available = |spaces: BuiltinSpaces| match code_context {
            CompletionContext::Kernel => spaces != BuiltinSpaces::Host,
            CompletionContext::Host => spaces != BuiltinSpaces::Device,
            CompletionContext::Fn => true,
        };
        for builtin in TABLE.iter().filter(|e| is_available(e.spaces)) {
            out.push(Completion {
                doc: builtin.doc.into(),
                ..entry(builtin.name, CompletionKind::Builtin, builtin.signature, word)
            });
        }
        out.extend(foreign_completions(super::slice(&self.text, word.clone()), "", word));
        out.extend(prelude_types(word));
        let words = KEYWORDS.iter().map(|(k, _)| *k).chain(CONTEXTUAL.iter().copied());
        out.extend(words.map(|w| Completion {
            doc: describe::keyword_doc(w).unwrap_or("").into(),
            ..entry(w, CompletionKind::Keyword, "", word)
        }));
        out
    }

    fn def_entry(&self, def: &Definition, word: &Range<usize>) -> Option<Completion> {
        let kind = match def.kind {
            DefinitionKind::Fn
            | DefinitionKind::Kernel
            | DefinitionKind::Struct
            | DefinitionKind::Const
            | DefinitionKind::Import => {
                let binding = self.binding(&def.name)?;
                return self.bound_entry(&def.name, binding, word);
            }
            DefinitionKind::Field => return None,
            DefinitionKind::Let | DefinitionKind::Var | DefinitionKind::Loop | DefinitionKind::Shared => {
                CompletionKind::Variable
            }
            DefinitionKind::ThreadIndex | DefinitionKind::Param(_) => CompletionKind::Parameter,
            DefinitionKind::TypeParam => CompletionKind::Type,
            DefinitionKind::ConstParam => CompletionKind::Constant,
            DefinitionKind::FnParam => CompletionKind::Function,
            DefinitionKind::Dimension => CompletionKind::Dimension,
        };
        let detail = self.type_of(def.span.range()).unwrap_or_default();
        Some(entry(&def.name, kind, &detail, word))
    }

    fn bound_entry(&self, name: &str, binding: NameBinding, word: &Range<usize>) -> Option<Completion> {
        let kind = match binding {
            NameBinding::Fn(_) => CompletionKind::Function,
            NameBinding::Kernel(_) => CompletionKind::Kernel,
            NameBinding::Struct(_) => CompletionKind::Type,
            NameBinding::Const(_) => CompletionKind::Constant,
            NameBinding::Module(_) => CompletionKind::Module,
            NameBinding::Global(_) => CompletionKind::Variable,
            NameBinding::Error => return None,
        };
        let described = self.describe(NameTarget::Item(binding))?;
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
                // The operand `(x)` begins at this bracket; `f(x)` and `a[i]` begin before it.
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

/// Returns whether a token ends on the line of the cursor.
fn ends_on_line(text: &str, offset: usize, token: &Token) -> bool {
    !super::slice(text, token.end as usize..offset).contains('\n')
}

/// Returns whether the innermost open bracket belongs to a struct literal, in which a value follows a colon, not a
/// type.
fn in_struct_literal(context: &[Token]) -> bool {
    let mut depth = 0;
    for (index, token) in context.iter().enumerate().rev() {
        match token.kind {
            Tok::RParen | Tok::RBracket | Tok::RBrace => depth += 1,
            Tok::LBrace if depth == 0 => {
                // In a literal `Body { place: …`, a value follows the colon. In the definition of a struct, a type
                // follows it.
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

/// Shortest beginning of a foreign name that is completed, so that such names do not crowd out Clk's own.
const FOREIGN_PREFIX: usize = 3;

/// Completes names of other languages to their equivalents in Clk: `cli` and `np.cli` to `clamp`. `module` is the name
/// before the dot, or empty. Names without an equivalent are not offered.
fn foreign_completions(prefix: &str, module: &str, replace: &Range<usize>) -> Vec<Completion> {
    let is_module = foreign_names::is_module(module);
    if !(is_module || module.is_empty() && prefix.len() >= FOREIGN_PREFIX) {
        return vec![];
    }
    let names = foreign_names::rows().flat_map(|row| row.names.split(' ')).filter(|name| {
        let name = if module.is_empty() { name } else { foreign_names::last_name(name) };
        name.starts_with(prefix) && !foreign_names::is_module(name)
    });
    let completion = |name: &str| {
        let path =
            if module.is_empty() { name.to_owned() } else { format!("{module}.{}", foreign_names::last_name(name)) };
        let row = foreign_names::find(&path)?;
        let code = match row.equivalent {
            ClkEquivalent::Same if module.is_empty() => return None,
            ClkEquivalent::Same => foreign_names::last_name(name),
            ClkEquivalent::Name(clk) | ClkEquivalent::Code { clk, .. } => clk,
            ClkEquivalent::Absent { .. } => return None,
        };
        let doc = format!("{}.", row.help(&path));
        Some(Completion { doc, insert: code.to_owned(), ..entry(&path, CompletionKind::Builtin, code, replace) })
    };
    let mut out: Vec<Completion> = names.filter_map(completion).collect();
    let mut labels = rustc_hash::FxHashSet::default();
    out.retain(|one| labels.insert(one.label.clone()));
    out
}

fn prelude_types(word: &Range<usize>) -> impl Iterator<Item = Completion> {
    let vectors = ["f32x2", "f32x3", "f32x4", "i32x2", "i32x3", "i32x4"];
    let names = Scalar::ALL.into_iter().map(|s| s.name()).chain(vectors).chain(["str"]);
    names.filter(|n| is_prelude_type(n)).map(move |name| Completion {
        doc: documentation(name).unwrap_or_default(),
        ..entry(name, CompletionKind::Type, "", word)
    })
}

/// Keeps the labels that contain the prefix, without duplicates, and sorts the best matches first.
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
    let mut labels = rustc_hash::FxHashSet::default();
    out.retain(|c| score(c).is_some() && labels.insert(c.label.clone()));
    out.sort_by_key(score);
}
