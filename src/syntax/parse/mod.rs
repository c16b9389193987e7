//! Parses tokens into a syntax tree with chumsky; one file per area of the grammar.
//!
//! Each production is a plain function over the input. The file is split at newlines outside brackets into pieces,
//! usually items. They are parsed independently, large files on several threads, so a syntax error does not affect
//! other pieces. A production that fails records the expected token in [`ParserState::unexpected`]. Statement and item
//! lists report it, skip the statement and continue.

mod expressions;
mod items;
mod primitive;
mod statements;
mod strings;
mod types;

use crate::ast;
use crate::lex::{MAX_ERRORS, lex};
use crate::mistakes;
use crate::syntax_error::SyntaxError;
use crate::token::{Tok, Token};
use chumsky::Parser;
use chumsky::primitive::custom;
use clk_base::diag::{self, Diagnostic};
use clk_base::source::FileId;
use clk_base::stop;
use primitive::ParserState;
use std::ops::Range;

/// Nesting depth that fits on the calling thread's stack. A browser has no other threads, so deeper nesting is an error
/// there.
const SHALLOW: u32 = if cfg!(target_family = "wasm") { 64 } else { 24 };
/// Nesting depth that fits on a parser thread's stack. `lex` limits the nesting of brackets to less than this.
const DEEP: u32 = 260;
/// Stack size of a parser thread in bytes (virtual; only touched pages are allocated).
const STACK: usize = 64 << 20;
/// Files with fewer tokens are parsed on the calling thread.
const LARGE: usize = 60_000;

/// Parses a file: returns its tree, diagnostics and tokens.
pub(crate) fn file(file: FileId, text: &str) -> (ast::SourceFile, Vec<Diagnostic>, Vec<Token>) {
    if text.len() >= u32::MAX as usize {
        let error = Diagnostic::error("E0111", "a source text is larger than 4 GiB");
        return (ast::SourceFile { file, doc: None, items: vec![] }, vec![error], vec![]);
    }
    let mut lexed = lex(file, text);
    let (doc, first) = items::file_doc(&lexed.tokens, text);
    let pieces = split_pieces(&lexed.tokens, first);
    // An invalid number is still a number token, so other errors in its statement are reported too.
    let reported = lexed.diagnostics.iter().filter(|d| d.code != "E0107");
    let mut lexer_errors: Vec<u32> = reported.filter_map(|d| d.primary()).map(|s| s.start).collect();
    lexer_errors.sort_unstable();
    let job = ParseInput { file, text, tokens: &lexed.tokens, lexer_errors: &lexer_errors };
    let mut done = if lexed.too_deep { ParsedItems::default() } else { job.run(&pieces) };
    let mut syntax_errors = std::mem::take(&mut done.errors);
    if !lexed.unclosed_braces.is_empty() {
        let follows = ranges_after_braces(&pieces, &lexed.tokens, &lexed.unclosed_braces);
        syntax_errors.retain(|mistake| !follows.iter().any(|range| range.contains(&mistake.place(&lexed.tokens))));
    }
    let mut diagnostics = std::mem::take(&mut lexed.diagnostics);
    let limit = MAX_ERRORS.saturating_sub(diagnostics.len());
    let left_out = syntax_errors.len().saturating_sub(limit);
    diagnostics.extend(syntax_errors.into_iter().take(limit).map(|e| mistakes::explain(file, text, &lexed.tokens, e)));
    let mut diagnostics = one_per_position(diagnostics);
    if let Some(last) = diagnostics.last_mut() {
        last.notes.extend(diag::hidden_errors_note(left_out));
    }
    (ast::SourceFile { file, doc, items: done.items }, diagnostics, lexed.tokens)
}

/// Returns the range from each unclosed `{` to the end of its piece. Errors in these ranges are not reported, because
/// the text was parsed in the wrong context.
fn ranges_after_braces(pieces: &[ItemTokens], tokens: &[Token], braces: &[u32]) -> Vec<Range<u32>> {
    let end_of = |piece: &ItemTokens| tokens.get(piece.tokens.end).map_or(u32::MAX, |t| t.end);
    let range_after = |&brace: &u32| {
        let piece = pieces.partition_point(|piece| end_of(piece) < brace);
        brace..pieces.get(piece).map_or(u32::MAX, end_of).saturating_add(1)
    };
    braces.iter().map(range_after).collect()
}

/// Sorts diagnostics by position and keeps the first one at each position.
fn one_per_position(mut diagnostics: Vec<Diagnostic>) -> Vec<Diagnostic> {
    diagnostics.sort_by_key(|d| d.primary().map(|s| s.start));
    diagnostics.dedup_by_key(|d| d.primary().map(|s| s.start));
    diagnostics
}

/// The input of the parser, which all parser threads share.
#[derive(Clone, Copy)]
struct ParseInput<'t> {
    file: FileId,
    text: &'t str,
    tokens: &'t [Token],
    /// Positions of the lexer's diagnostics, sorted.
    lexer_errors: &'t [u32],
}

#[derive(Default)]
struct ParsedItems {
    items: Vec<ast::Item>,
    errors: Vec<SyntaxError>,
}

impl ParsedItems {
    fn append(&mut self, mut other: ParsedItems) {
        self.items.append(&mut other.items);
        self.errors.append(&mut other.errors);
    }
}

impl<'t> ParseInput<'t> {
    fn run(self, pieces: &[ItemTokens]) -> ParsedItems {
        // Querying the number of cores costs more than parsing a small file.
        if self.tokens.len() < LARGE {
            return self.parse_pieces(pieces);
        }
        let threads = std::thread::available_parallelism().map_or(1, |n| n.get()).min(8);
        if threads < 2 {
            return self.parse_pieces(pieces);
        }
        let share = pieces.len().div_ceil(threads * 4).max(1);
        let next = std::sync::atomic::AtomicUsize::new(0);
        let shares: Vec<&[ItemTokens]> = pieces.chunks(share).collect();
        let flag = stop::flag();
        let work = || {
            let mut mine = Vec::new();
            loop {
                let index = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                let Some(share) = shares.get(index) else { return mine };
                mine.push((index, self.parse_pieces(share)));
            }
        };
        let worker = || stop::with_flag(flag.clone(), work);
        let mut parts: Vec<(usize, ParsedItems)> = std::thread::scope(|scope| {
            // If no thread can be started, the current thread parses all pieces.
            let helper = |_| std::thread::Builder::new().spawn_scoped(scope, worker).ok();
            let handles: Vec<_> = (1..threads).filter_map(helper).collect();
            let mut parts = worker();
            for handle in handles {
                match handle.join() {
                    Ok(part) => parts.extend(part),
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
            parts
        });
        parts.sort_by_key(|(index, _)| *index);
        let mut done = ParsedItems::default();
        for (_, part) in parts {
            done.append(part);
        }
        done
    }

    /// Parses pieces on the current thread. Parses a deeply nested piece on a thread with a large stack.
    fn parse_pieces(self, pieces: &[ItemTokens]) -> ParsedItems {
        let mut done = ParsedItems { items: Vec::with_capacity(pieces.len()), errors: Vec::new() };
        for piece in pieces {
            let (part, overflow) = self.parse_piece(piece, SHALLOW);
            done.append(if overflow { self.parse_deep_piece(piece) } else { part });
            if done.errors.len() > MAX_ERRORS * 4 {
                break;
            }
        }
        done
    }

    fn parse_deep_piece(self, piece: &ItemTokens) -> ParsedItems {
        let parsed = std::thread::scope(|scope| {
            let builder = std::thread::Builder::new().stack_size(STACK);
            let flag = stop::flag();
            let handle = builder.spawn_scoped(scope, || stop::with_flag(flag, || self.parse_piece(piece, DEEP).0));
            handle.ok().and_then(|handle| handle.join().ok())
        });
        // The thread may have ended because of a stop request.
        stop::poll();
        // If no thread can be started, nesting that exceeds the stack of the current thread is an error.
        parsed.unwrap_or_else(|| self.parse_piece(piece, SHALLOW).0)
    }

    /// Parses a piece; also returns whether its nesting exceeds `max_depth`. If it does, the result contains an error.
    fn parse_piece(self, piece: &ItemTokens, max_depth: u32) -> (ParsedItems, bool) {
        let mut state = ParserState::new(self.file, self.text, self.tokens, piece.tokens.start, max_depth);
        state.lexer_errors = self.lexer_errors;
        let input = self.tokens.get(piece.tokens.clone()).unwrap_or(&[]);
        let items = custom(|inp: &mut primitive::ParserInput<'t, '_>| items::piece(inp, piece.quiet))
            .parse_with_state(input, &mut state)
            .into_output()
            .unwrap_or_default();
        // Report excessive nesting even if backtracking dropped the error.
        if let (Some(span), true) = (state.too_deep_at, state.errors.is_empty()) {
            state.errors.push(SyntaxError::Reported(Box::new(primitive::nested_too_deeply(span))));
        }
        (ParsedItems { items, errors: state.errors }, state.overflow)
    }
}

/// A piece of the file: the tokens of one top-level item or statement.
struct ItemTokens {
    tokens: Range<usize>,
    /// Whether the piece ends with a `;`.
    quiet: bool,
}

/// Splits the file into pieces at the ends of statements outside brackets.
fn split_pieces(tokens: &[Token], first: usize) -> Vec<ItemTokens> {
    let mut pieces = Vec::with_capacity(tokens.len() / 32 + 4);
    let (mut depth, mut start) = (0usize, first);
    for (index, token) in tokens.iter().enumerate().skip(first) {
        match token.kind {
            Tok::LParen | Tok::LBracket | Tok::LBrace | Tok::InterpOpen => depth += 1,
            Tok::RParen | Tok::RBracket | Tok::RBrace | Tok::InterpClose => depth = depth.saturating_sub(1),
            Tok::Newline | Tok::Semi | Tok::Eof if depth == 0 => {
                if index > start {
                    pieces.push(ItemTokens { tokens: start..index, quiet: token.kind == Tok::Semi });
                }
                start = index + 1;
            }
            _ => {}
        }
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn excessive_nesting_is_an_error_everywhere() {
        let parsed = |text: &str, depth: u32| {
            let tokens = lex(FileId(0), text).tokens;
            let job = ParseInput { file: FileId(0), text, tokens: &tokens, lexer_errors: &[] };
            let (done, overflow) = job.parse_piece(&split_pieces(&tokens, 0)[0], depth);
            (overflow, done.errors.len())
        };
        for (open, close) in [("(", ")"), ("[", "]"), ("-(", ")"), ("f(", ")")] {
            let nested = format!("{}1{}", open.repeat(70), close.repeat(70));
            for text in [format!("print({nested})"), format!("let x = {nested}"), nested.clone()] {
                let (overflow, errors) = parsed(&text, SHALLOW);
                assert!(overflow && errors > 0, "{text}");
            }
        }
        let sum = format!("{}1", "1 + ".repeat(1000));
        for text in [format!("print({sum})"), format!("let x = {sum}"), format!("f([{sum}])")] {
            assert!(parsed(&text, DEEP).1 > 0, "{text}");
        }
    }
}
