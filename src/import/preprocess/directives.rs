//! Executes the directives of the preprocessor.

use super::condition::evaluate;
use super::definition::{PpToken, parse_definition};
use super::{ConditionalGroup, Preprocessor, headers};
use crate::ast::SmolStr;
use crate::lex::{self, CppTok, RawToken};
use crate::source::SourceSpan;
use clk_base::source::{FileId, Span};
use std::rc::Rc;

/// Maximum nesting of included files.
const MAX_INCLUDES: usize = 64;
/// Maximum nesting of `#if` groups of a file.
const MAX_GROUPS: usize = 256;

/// The name of a header in an `#include`.
struct HeaderName {
    path: String,
    /// Whether the name is in quotes. Such a header is first searched in the directory of the including file.
    quoted: bool,
}

/// The result of looking for a header.
enum FoundHeader {
    /// A header that is known by name.
    Known,
    Local(FileId, Rc<Vec<RawToken>>),
    Missing,
}

impl Preprocessor<'_> {
    /// Executes the directive after the `#` that was just read. Returns the tokens that replace it.
    pub(super) fn directive(&mut self) -> Vec<PpToken> {
        let is_main_file = self.files.len() == 1;
        let Some(file) = self.files.last() else { return vec![] };
        let start = file.tokens[file.next - 1].span.start;
        let tokens = self.execute_directive();
        if is_main_file && let Some(file) = self.files.first() {
            let end = if file.groups.last().is_some_and(|group| !group.active) {
                file.tokens[super::next_directive(&file.tokens, file.next)].span.start
            } else {
                file.tokens[file.next - 1].span.end
            };
            self.unread.push(start..end);
        }
        tokens
    }

    fn execute_directive(&mut self) -> Vec<PpToken> {
        let Some(file) = self.files.last_mut() else { return vec![] };
        let hash = file.tokens[file.next - 1].span;
        let rest = &file.tokens[file.next..];
        let length = rest.iter().position(|token| token.line_start).unwrap_or(rest.len());
        let line: Vec<RawToken> = rest[..length].to_vec();
        file.next += length;
        let active = file.groups.last().is_none_or(|group| group.active);
        let Some((name, arguments)) = line.split_first() else { return vec![] };
        let place: SourceSpan = hash.to(name.span).into();
        match name.text.as_str() {
            "if" | "ifdef" | "ifndef" => self.if_directive(&name.text, arguments, active, place),
            "elif" | "elifdef" | "elifndef" => self.elif_directive(&name.text, arguments, place),
            "else" => self.else_directive(place),
            "endif" => {
                if self.files.last_mut().and_then(|file| file.groups.pop()).is_none() {
                    self.error(place, "`#endif` without `#if`".to_string());
                }
            }
            _ if !active => {}
            "define" => self.define(arguments, place),
            "undef" => match arguments {
                [name, ..] if name.kind == CppTok::Ident => {
                    self.macros.remove(&name.text);
                }
                _ => self.error(place, "expected the name of a macro".to_string()),
            },
            "include" | "include_next" | "import" => self.include(arguments, place),
            "pragma" => {
                let line: Vec<PpToken> = arguments.iter().map(PpToken::from).collect();
                return self.pragma(&line, place);
            }
            "error" => {
                let message = self.line_text(arguments);
                self.error(place, format!("`#error`: {message}"));
            }
            "warning" => {
                let message = self.line_text(arguments);
                self.warning(place, format!("`#warning`: {message}"));
            }
            "line" | "ident" | "sccs" => {}
            _ if name.kind == CppTok::Number => {}
            other => self.error(place, format!("unknown directive `#{other}`")),
        }
        vec![]
    }

    /// Returns the text of the tokens of a line as written.
    fn line_text(&self, tokens: &[RawToken]) -> String {
        let ends = tokens.first().zip(tokens.last());
        ends.map_or_else(String::new, |(first, last)| self.sources.slice(first.span.to(last.span)).to_string())
    }

    fn if_directive(&mut self, name: &str, arguments: &[RawToken], active: bool, place: SourceSpan) {
        let holds = active && self.condition(name.trim_start_matches("if"), arguments, place);
        let Some(file) = self.files.last_mut() else { return };
        if file.groups.len() >= MAX_GROUPS {
            self.exhausted(Some(place), "conditionals are nested too deeply");
            return;
        }
        let group = ConditionalGroup { directive: place.span, active: holds, taken: holds || !active, has_else: false };
        file.groups.push(group);
    }

    fn elif_directive(&mut self, name: &str, arguments: &[RawToken], place: SourceSpan) {
        let Some(group) = self.files.last_mut().and_then(|file| file.groups.last_mut()) else {
            return self.error(place, format!("`#{name}` without `#if`"));
        };
        let (taken, has_else) = (group.taken, group.has_else);
        group.active = false;
        if has_else {
            self.error(place, format!("`#{name}` after `#else`"));
        }
        // The condition is not evaluated if an earlier part was read.
        if !taken
            && self.condition(name.trim_start_matches("elif"), arguments, place)
            && let Some(group) = self.files.last_mut().and_then(|file| file.groups.last_mut())
        {
            (group.active, group.taken) = (true, true);
        }
    }

    fn else_directive(&mut self, place: SourceSpan) {
        let Some(group) = self.files.last_mut().and_then(|file| file.groups.last_mut()) else {
            return self.error(place, "`#else` without `#if`".to_string());
        };
        let again = group.has_else;
        group.active = !group.taken;
        group.taken = true;
        group.has_else = true;
        if again {
            self.error(place, "a second `#else`".to_string());
        }
    }

    /// Evaluates the condition of `#if` (empty `kind`), `#ifdef` or `#ifndef`. An invalid one is false.
    fn condition(&mut self, kind: &str, arguments: &[RawToken], place: SourceSpan) -> bool {
        if kind == "def" || kind == "ndef" {
            return match arguments.first() {
                Some(name) if name.kind == CppTok::Ident => self.is_defined(&name.text) == (kind == "def"),
                _ => {
                    self.error(place, "expected the name of a macro".to_string());
                    false
                }
            };
        }
        let mut tokens = Vec::new();
        let mut at = 0;
        while let Some(token) = arguments.get(at) {
            at += 1;
            let value = match token.text.as_str() {
                "defined" => {
                    let parenthesis = arguments.get(at).is_some_and(|token| token.kind == CppTok::LParen);
                    let name = arguments.get(at + usize::from(parenthesis)).filter(|name| name.kind == CppTok::Ident);
                    let Some(name) = name else {
                        self.error(place, "expected the name of a macro after `defined`".to_string());
                        return false;
                    };
                    at += if parenthesis { 3 } else { 1 };
                    self.is_defined(&name.text)
                }
                "__has_include" | "__has_include_next" => {
                    let end = arguments[at..].iter().position(|token| token.kind == CppTok::RParen);
                    let Some(end) = end.filter(|&end| end > 1) else {
                        self.error(place, "expected `__has_include(…)`".to_string());
                        return false;
                    };
                    let name = self.header_name(&arguments[at + 1..at + end]);
                    at += end + 1;
                    name.is_some_and(|name| !matches!(self.find_header(&name, place.span), FoundHeader::Missing))
                }
                "__has_builtin" | "__has_attribute" | "__has_cpp_attribute" | "__has_feature" | "__has_extension" => {
                    let end = arguments[at..].iter().position(|token| token.kind == CppTok::RParen);
                    at += end.map_or(0, |end| end + 1);
                    false
                }
                _ => {
                    tokens.push(PpToken::from(token));
                    continue;
                }
            };
            let text = SmolStr::new_static(if value { "1" } else { "0" });
            tokens.push(PpToken { kind: CppTok::Number, text, ..PpToken::from(token) });
        }
        let tokens = self.expand_list(&tokens);
        match evaluate(&tokens) {
            Ok(value) => value,
            Err(error) => {
                self.error(place, error.message);
                false
            }
        }
    }

    fn is_defined(&self, name: &str) -> bool {
        self.macros.contains_key(name) || matches!(name, "__LINE__" | "__FILE__" | "__COUNTER__" | "__has_include")
    }

    fn define(&mut self, arguments: &[RawToken], place: SourceSpan) {
        match parse_definition(arguments, arguments.first().map(|name| name.span)) {
            Ok((name, definition)) => {
                self.macros.insert(name, definition);
            }
            Err(message) => self.error(place, message.to_string()),
        }
    }

    /// Executes `#include`: opens a local header.
    fn include(&mut self, arguments: &[RawToken], place: SourceSpan) {
        let name = self.header_name(arguments).or_else(|| {
            // The name may be the expansion of a macro.
            let tokens: Vec<PpToken> = arguments.iter().map(PpToken::from).collect();
            let text: String = self.expand_list(&tokens).iter().map(|token| token.text.as_str()).collect();
            self.header_name(&lex::lex_fragment(&text, place.span)).or_else(|| quoted_header(&text))
        });
        let Some(name) = name else {
            return self.error(place, "expected the name of a header".to_string());
        };
        match self.find_header(&name, place.span) {
            FoundHeader::Known => self.known_header(&name.path),
            FoundHeader::Local(id, _) if self.once.contains(&id) => {}
            FoundHeader::Local(id, tokens) => {
                if self.files.len() >= MAX_INCLUDES {
                    return self.exhausted(Some(place), "includes are nested too deeply");
                }
                // The tokens of skipped parts count as well, so that a header that includes itself ends.
                if self.spend(1 + tokens.len() / 8, place) {
                    self.provenance.add_include(id, place.span);
                    self.open(id, tokens);
                }
            }
            FoundHeader::Missing => {
                self.warning(place, format!("the header `{}` is not found; its declarations are unknown", name.path));
            }
        }
    }

    /// Applies the effect that a known header has each time it is included.
    fn known_header(&mut self, path: &str) {
        if path == "assert.h" || path == "cassert" {
            let disabled = self.macros.contains_key("NDEBUG");
            self.macros.remove("assert");
            if disabled {
                self.define_text("assert(condition) ((void)0)", Span::default());
            }
        }
    }

    /// Returns the header that the tokens name, `"path"` or `<path>`.
    fn header_name(&self, tokens: &[RawToken]) -> Option<HeaderName> {
        let first = tokens.first()?;
        match first.kind {
            CppTok::Str => quoted_header(&first.text),
            CppTok::Less => {
                let close = tokens.iter().find(|token| token.kind == CppTok::Greater)?;
                let inner = Span { file: first.span.file, start: first.span.end, end: close.span.start };
                // Tokens of macros have no text of their own between them.
                let written = self.sources.slice(inner).trim();
                let path = match written {
                    "" => tokens[1..]
                        .iter()
                        .take_while(|token| token.kind != CppTok::Greater)
                        .map(|t| t.text.as_str())
                        .collect(),
                    _ => written.to_string(),
                };
                Some(HeaderName { path, quoted: false })
            }
            _ => None,
        }
    }

    /// Searches a header in the directory of the including file, in the include directories, and among the known
    /// headers.
    fn find_header(&mut self, name: &HeaderName, directive: Span) -> FoundHeader {
        if name.path.is_empty() || name.path.contains('\0') {
            return FoundHeader::Missing;
        }
        let mut candidates = Vec::new();
        if name.quoted {
            let includer = self.sources.name(directive.file);
            candidates.push(join(includer.rfind('/').map_or("", |at| &includer[..at]), &name.path));
        }
        // A known header in angle brackets is never a local one, unless a directory of the options has it.
        candidates.extend(self.options.include_dirs.iter().map(|directory| join(directory, &name.path)));
        for path in candidates {
            if let Some((id, tokens)) = self.headers.get(&path) {
                return FoundHeader::Local(*id, tokens.clone());
            }
            if let Some(text) = (self.read_header)(&path) {
                let id = self.sources.add(path.as_str(), text.as_str());
                let lexed = lex::lex(id, &text);
                self.comments.extend(lexed.comments);
                let tokens = Rc::new(lexed.tokens);
                self.headers.insert(path, (id, tokens.clone()));
                return FoundHeader::Local(id, tokens);
            }
        }
        if headers::is_known(&name.path) { FoundHeader::Known } else { FoundHeader::Missing }
    }

    /// Executes a pragma. Only `unroll` yields tokens.
    pub(super) fn pragma(&mut self, line: &[PpToken], place: SourceSpan) -> Vec<PpToken> {
        let word = |at: usize| line.get(at).map_or("", |token| token.text.as_str());
        let count = match (word(0), word(1)) {
            ("unroll", _) => &line[1..],
            ("nounroll", _) => &[],
            ("GCC", "unroll") | ("clang", "unroll") => &line[2..],
            ("once", _) => {
                self.once.extend(self.files.last().map(|file| file.id));
                return vec![];
            }
            ("push_macro" | "pop_macro", _) => {
                self.macro_pragma(word(0) == "push_macro", line, place);
                return vec![];
            }
            ("pack", _) => {
                self.warning(place, "`#pragma pack` is ignored: fields keep their natural alignment".to_string());
                return vec![];
            }
            _ => return vec![],
        };
        let marker = |kind| PpToken {
            kind,
            text: SmolStr::new_static("#pragma unroll"),
            span: place,
            space: true,
            line_start: false,
            hidden: None,
        };
        let mut tokens = vec![marker(CppTok::PragmaUnroll)];
        tokens.extend(count.iter().cloned().map(|token| PpToken { line_start: false, ..token }));
        tokens.push(marker(CppTok::PragmaEnd));
        tokens
    }

    /// Executes `#pragma push_macro("name")` or `pop_macro`.
    fn macro_pragma(&mut self, push: bool, line: &[PpToken], place: SourceSpan) {
        let name = line.get(2).filter(|token| token.kind == CppTok::Str).map(|token| token.text.trim_matches('"'));
        let Some(name) = name.map(SmolStr::new) else {
            return self.error(place, "expected the name of a macro in quotes".to_string());
        };
        if push {
            let definition = self.macros.get(&name).cloned();
            self.pushed.push((name, definition));
        } else if let Some(at) = self.pushed.iter().rposition(|(pushed, _)| *pushed == name) {
            let (name, definition) = self.pushed.remove(at);
            match definition {
                Some(definition) => self.macros.insert(name, definition),
                None => self.macros.remove(&name),
            };
        }
    }
}

fn quoted_header(text: &str) -> Option<HeaderName> {
    let path = text.strip_prefix('"')?.strip_suffix('"')?;
    Some(HeaderName { path: path.to_string(), quoted: true })
}

/// Joins a directory and a path, and removes `.` and `..` where possible.
fn join(directory: &str, path: &str) -> String {
    let absolute = path.starts_with('/') || (directory.starts_with('/') && !path.starts_with('/'));
    let full = if path.starts_with('/') { path.to_string() } else { format!("{directory}/{path}") };
    let mut parts: Vec<&str> = Vec::new();
    for part in full.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|last| *last != "..") => {
                parts.pop();
            }
            _ => parts.push(part),
        }
    }
    let joined = parts.join("/");
    if absolute { format!("/{joined}") } else { joined }
}
