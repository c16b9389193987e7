//! The preprocessor: directives, macros and includes turn the tokens of a file into those that the parser reads.
//!
//! The caller's [`HeaderReader`] reads local headers. Headers of the C++ library and of CUDA are skipped
//! ([`headers`]). The work is bounded by [`MAX_TOKENS`], so nested macros cannot exhaust memory.

mod condition;
mod definition;
mod directives;
mod headers;
mod macros;
mod predefined;
#[cfg(test)]
mod tests;

use self::definition::{MacroDefinition, PpStream, PpToken, parse_definition};
use crate::ast::{CppComment, SmolStr};
use crate::lex::{self, CppTok, RawToken};
use crate::options::{HeaderReader, ImportOptions};
use crate::source::{Provenance, SourceSpan};
use clk_base::diag::{Diagnostic, Severity};
use clk_base::source::{FileId, SourceMap, Span};
use clk_base::stop;
use rustc_hash::{FxHashMap, FxHashSet};
use std::ops::Range;
use std::rc::Rc;

/// Maximum number of tokens of all files and macro expansions together.
const MAX_TOKENS: usize = 2_000_000;
/// Maximum number of diagnostics.
const MAX_DIAGNOSTICS: usize = 50;

/// A token after preprocessing.
#[derive(Clone, Debug)]
pub(crate) struct CppToken {
    pub kind: CppTok,
    pub text: SmolStr,
    pub span: SourceSpan,
    /// Whether white space precedes it.
    pub space: bool,
}

/// The result of preprocessing. The last token is `Eof`.
pub(crate) struct Preprocessed {
    pub tokens: Vec<CppToken>,
    pub comments: Vec<CppComment>,
    pub provenance: Provenance,
    pub diagnostics: Vec<Diagnostic>,
}

/// A file that is being read.
struct OpenFile {
    id: FileId,
    tokens: Rc<Vec<RawToken>>,
    next: usize,
    /// The `#if` groups around the current position.
    groups: Vec<ConditionalGroup>,
}

/// An `#if` with its `#elif` and `#else`.
struct ConditionalGroup {
    directive: Span,
    /// Whether the current part is read.
    active: bool,
    /// Whether a part has been read, or the group is in a part that is skipped.
    taken: bool,
    has_else: bool,
}

struct Preprocessor<'a> {
    sources: &'a mut SourceMap,
    options: &'a ImportOptions,
    read_header: &'a HeaderReader<'a>,
    macros: FxHashMap<SmolStr, MacroDefinition>,
    /// The definitions that `#pragma push_macro` has saved.
    pushed: Vec<(SmolStr, Option<MacroDefinition>)>,
    files: Vec<OpenFile>,
    /// The tokens of each header that was read, by path.
    headers: FxHashMap<String, (FileId, Rc<Vec<RawToken>>)>,
    once: FxHashSet<FileId>,
    comments: Vec<CppComment>,
    /// The directives of the main file, and the groups of it that are skipped.
    unread: Vec<Range<u32>>,
    provenance: Provenance,
    diagnostics: Vec<Diagnostic>,
    /// The number of tokens that may still be produced.
    budget: usize,
    /// The nesting of macro arguments.
    depth: usize,
    counter: usize,
    /// Whether a limit was exceeded: no further tokens are produced.
    stopped: bool,
}

/// Preprocesses a file of `sources`. Headers are added to `sources`.
pub(crate) fn preprocess(
    sources: &mut SourceMap,
    file: FileId,
    options: &ImportOptions,
    read_header: &HeaderReader<'_>,
) -> Preprocessed {
    let mut preprocessor = Preprocessor {
        sources,
        options,
        read_header,
        macros: FxHashMap::default(),
        pushed: vec![],
        files: vec![],
        headers: FxHashMap::default(),
        once: FxHashSet::default(),
        comments: vec![],
        unread: vec![],
        provenance: Provenance::default(),
        diagnostics: vec![],
        budget: MAX_TOKENS,
        depth: 0,
        counter: 0,
        stopped: false,
    };
    preprocessor.predefine(file);
    let text = preprocessor.sources.text(file).to_string();
    let lexed = lex::lex(file, &text);
    preprocessor.comments.extend(lexed.comments);
    preprocessor.open(file, Rc::new(lexed.tokens));
    let tokens = preprocessor.run(Span::new(file, text.len(), text.len()));
    let unread = &preprocessor.unread;
    let is_read = |comment: &CppComment| {
        let is_own = |range: &Range<u32>| range.contains(&comment.span.start) || comment.line_code == Some(range.end);
        comment.span.file != file || !unread.iter().any(is_own)
    };
    preprocessor.comments.retain(is_read);
    Preprocessed {
        tokens,
        comments: preprocessor.comments,
        provenance: preprocessor.provenance,
        diagnostics: preprocessor.diagnostics,
    }
}

impl Preprocessor<'_> {
    fn run(&mut self, end: Span) -> Vec<CppToken> {
        let mut stream = PpStream { pending: vec![], files: true };
        let mut tokens: Vec<CppToken> = Vec::new();
        while !self.stopped
            && let Some(token) = self.next_expanded(&mut stream)
        {
            stop::poll();
            if !self.spend(1, token.span) {
                break;
            }
            tokens.push(CppToken { kind: token.kind, text: token.text, span: token.span, space: token.space });
        }
        tokens.push(CppToken { kind: CppTok::Eof, text: SmolStr::default(), span: end.into(), space: true });
        tokens
    }

    /// Defines the predefined macros, and then the macros in [`ImportOptions::defines`](crate::ImportOptions).
    fn predefine(&mut self, file: FileId) {
        let span = Span::new(file, 0, 0);
        for line in predefined::PREDEFINED.lines() {
            self.define_text(line, span);
        }
        if let Some(version) = self.options.cuda_arch {
            self.define_text(&format!("__CUDA_ARCH__ {version}"), span);
        }
        for (name, value) in &self.options.defines {
            self.define_text(&format!("{name} {value}"), span);
        }
    }

    fn define_text(&mut self, text: &str, span: Span) {
        let mut tokens = lex::lex_fragment(text, span);
        // The distance between name and parameters decides whether a macro has parameters.
        if let Some(second) = tokens.get_mut(1) {
            second.space = !text.trim_start_matches(|c: char| c.is_alphanumeric() || c == '_').starts_with('(');
        }
        match parse_definition(&tokens, None) {
            Ok((name, definition)) => {
                self.macros.insert(name, definition);
            }
            Err(message) => self.error(span.into(), format!("{message}: `-D {text}`")),
        }
    }

    fn open(&mut self, id: FileId, tokens: Rc<Vec<RawToken>>) {
        self.files.push(OpenFile { id, tokens, next: 0, groups: vec![] });
    }

    /// Returns the next token of the open files that is not in a skipped group, and executes directives. Without
    /// `cross_files`, it stops at the end of an included file.
    fn next_file_token(&mut self, stream: &mut PpStream, cross_files: bool) -> Option<PpToken> {
        while !self.stopped {
            let file = self.files.last_mut()?;
            let token = file.tokens.get(file.next)?;
            if token.kind == CppTok::Eof {
                if !cross_files {
                    return None;
                }
                self.close_file();
                continue;
            }
            file.next += 1;
            if token.kind == CppTok::Hash && token.line_start {
                let tokens = self.directive();
                stream.pending.extend(tokens.into_iter().rev());
                if let Some(token) = stream.pending.pop() {
                    return Some(token);
                }
                continue;
            }
            if file.groups.last().is_some_and(|group| !group.active) {
                file.next = next_directive(&file.tokens, file.next);
                continue;
            }
            return Some(PpToken::from(token));
        }
        None
    }

    fn close_file(&mut self) {
        if let Some(file) = self.files.pop() {
            for group in &file.groups {
                self.error(group.directive.into(), "this conditional has no `#endif`".to_string());
            }
        }
    }

    /// Takes a number of tokens from the budget. Returns `false` if it is exhausted.
    fn spend(&mut self, tokens: usize, place: SourceSpan) -> bool {
        match self.budget.checked_sub(tokens) {
            Some(rest) => self.budget = rest,
            None => self.exhausted(Some(place), "macros expand to too many tokens"),
        }
        !self.stopped
    }

    /// Reports that a limit is exceeded, and stops.
    fn exhausted(&mut self, place: Option<SourceSpan>, message: &str) {
        if !self.stopped {
            self.stopped = true;
            let place = place.unwrap_or_default();
            let diagnostic = Diagnostic::error("E0852", message).at(place.span, "the file is not read any further");
            let diagnostic = self.provenance.explain(diagnostic, place);
            self.diagnostics.push(diagnostic);
        }
    }

    fn error(&mut self, place: SourceSpan, message: String) {
        self.report(Severity::Error, place, message);
    }

    fn warning(&mut self, place: SourceSpan, message: String) {
        self.report(Severity::Warning, place, message);
    }

    fn report(&mut self, severity: Severity, place: SourceSpan, message: String) {
        if self.stopped || self.diagnostics.len() >= MAX_DIAGNOSTICS {
            return;
        }
        let code = if severity == Severity::Error { "E0851" } else { "W0852" };
        let diagnostic = Diagnostic::new(severity, code, message).at(place.span, "");
        let diagnostic = self.provenance.explain(diagnostic, place);
        self.diagnostics.push(diagnostic);
    }
}

/// Returns the position of the next `#` at the start of a line, or of the last token.
fn next_directive(tokens: &[RawToken], from: usize) -> usize {
    let found = tokens[from..].iter().position(|token| token.kind == CppTok::Hash && token.line_start);
    found.map_or(tokens.len().saturating_sub(1), |at| from + at)
}
