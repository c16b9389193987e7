//! Parses tokens into a syntax tree, with chumsky; one file per area of the grammar.
//!
//! Each production is a function over the input, so the grammar recurses through plain calls and needs no setup. The file is
//! split into items at the newlines outside of brackets (which `lex` balanced). Each piece is parsed independently, so a
//! syntax error does not affect other pieces, and the pieces of a large file are parsed on several threads.
//!
//! chumsky's error type is empty: a production that misses a token records this in [`State::miss`], which keeps the furthest
//! token. Statement lists and the item list turn the miss into a diagnostic (`mistakes`), skip to the end of the statement
//! and continue.

mod expressions;
mod items;
mod primitive;
mod statements;
mod strings;
mod types;

use crate::base::diag::{self, Diagnostic};
use crate::base::source::FileId;
use crate::base::stop;
use crate::syntax::ast;
use crate::syntax::lex::{MAX_ERRORS, lex};
use crate::syntax::miss::Mistake;
use crate::syntax::mistakes;
use crate::syntax::token::{Tok, Token};
use chumsky::Parser;
use chumsky::primitive::custom;
use primitive::State;
use std::ops::Range;

/// Nesting depth that fits the calling thread's stack; in a browser there is no other, and what exhausts that is reported.
const SHALLOW: u32 = if cfg!(target_family = "wasm") { 64 } else { 24 };
/// Nesting depth that fits a parser thread's stack; `lex` limits bracket nesting below it.
const DEEP: u32 = 260;
/// Stack size of a parser thread in bytes (virtual; only touched pages are allocated).
const STACK: usize = 64 << 20;
/// Files with fewer tokens are parsed on the calling thread.
const LARGE: usize = 60_000;

/// Parses a file: returns its tree, diagnostics and tokens.
pub(crate) fn file(file: FileId, text: &str) -> (ast::File, Vec<Diagnostic>, Vec<Token>) {
    if text.len() >= u32::MAX as usize {
        let error = Diagnostic::error("E0111", "a source text is larger than 4 GiB");
        return (ast::File { file, doc: None, items: vec![] }, vec![error], vec![]);
    }
    let mut lexed = lex(file, text);
    let (doc, first) = items::file_doc(&lexed.tokens, text);
    let pieces = pieces(&lexed.tokens, first);
    // An invalid number is still a number token, so it does not suppress other diagnostics of its statement.
    let reported = lexed.diagnostics.iter().filter(|d| d.code != "E0107");
    let mut faults: Vec<u32> = reported.filter_map(|d| d.primary()).map(|s| s.start).collect();
    faults.sort_unstable();
    let job = Job { file, text, tokens: &lexed.tokens, faults: &faults };
    let mut done = if lexed.too_deep { Done::default() } else { job.run(&pieces) };
    let mut found = std::mem::take(&mut done.errors);
    if !lexed.unclosed_braces.is_empty() {
        let follows = behind_braces(&pieces, &lexed.tokens, &lexed.unclosed_braces);
        found.retain(|mistake| !follows.iter().any(|range| range.contains(&mistake.place(&lexed.tokens))));
    }
    let mut diagnostics = std::mem::take(&mut lexed.diagnostics);
    let room = MAX_ERRORS.saturating_sub(diagnostics.len());
    let left_out = found.len().saturating_sub(room);
    diagnostics.extend(found.into_iter().take(room).map(|e| mistakes::explain(file, text, &lexed.tokens, e)));
    let mut diagnostics = one_per_place(diagnostics);
    if let Some(last) = diagnostics.last_mut() {
        last.notes.extend(diag::and_more(left_out));
    }
    (ast::File { file, doc, items: done.items }, diagnostics, lexed.tokens)
}

/// Returns the range from each unclosed `{` to the end of its piece. Errors in it are suppressed, since that text was parsed
/// in the wrong context.
fn behind_braces(pieces: &[Piece], tokens: &[Token], braces: &[u32]) -> Vec<Range<u32>> {
    let end_of = |piece: &Piece| tokens.get(piece.tokens.end).map_or(u32::MAX, |t| t.end);
    let behind = |&brace: &u32| {
        let piece = pieces.partition_point(|piece| end_of(piece) < brace);
        brace..pieces.get(piece).map_or(u32::MAX, end_of).saturating_add(1)
    };
    braces.iter().map(behind).collect()
}

/// Sorts diagnostics by position and keeps the first one at each position.
fn one_per_place(mut diagnostics: Vec<Diagnostic>) -> Vec<Diagnostic> {
    diagnostics.sort_by_key(|d| d.primary().map(|s| s.start));
    diagnostics.dedup_by_key(|d| d.primary().map(|s| s.start));
    diagnostics
}

/// The input of a parse, shared by the threads.
#[derive(Clone, Copy)]
struct Job<'t> {
    file: FileId,
    text: &'t str,
    tokens: &'t [Token],
    /// Positions of the lexer's diagnostics, sorted.
    faults: &'t [u32],
}

#[derive(Default)]
struct Done {
    items: Vec<ast::Item>,
    errors: Vec<Mistake>,
}

impl Done {
    fn append(&mut self, mut other: Done) {
        self.items.append(&mut other.items);
        self.errors.append(&mut other.errors);
    }
}

impl<'t> Job<'t> {
    fn run(self, pieces: &[Piece]) -> Done {
        // Querying the number of cores costs more than parsing a small file.
        if self.tokens.len() < LARGE {
            return self.some(pieces);
        }
        let threads = std::thread::available_parallelism().map_or(1, |n| n.get()).min(8);
        if threads < 2 {
            return self.some(pieces);
        }
        let share = pieces.len().div_ceil(threads * 4).max(1);
        let next = std::sync::atomic::AtomicUsize::new(0);
        let shares: Vec<&[Piece]> = pieces.chunks(share).collect();
        let flag = stop::flag();
        let work = || {
            let mut mine = Vec::new();
            loop {
                let index = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                let Some(share) = shares.get(index) else { return mine };
                mine.push((index, self.some(share)));
            }
        };
        let worker = || stop::watched(flag.clone(), work);
        let mut parts: Vec<(usize, Done)> = std::thread::scope(|scope| {
            // Without threads, this one does it all.
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
        let mut done = Done::default();
        for (_, part) in parts {
            done.append(part);
        }
        done
    }

    /// Parses some pieces on this thread, and deeply nested ones on a thread with a large stack.
    fn some(self, pieces: &[Piece]) -> Done {
        let mut done = Done { items: Vec::with_capacity(pieces.len()), errors: Vec::new() };
        for piece in pieces {
            let (part, overflow) = self.piece(piece, SHALLOW);
            done.append(if overflow { self.deep_piece(piece) } else { part });
            if done.errors.len() > MAX_ERRORS * 4 {
                break;
            }
        }
        done
    }

    fn deep_piece(self, piece: &Piece) -> Done {
        let parsed = std::thread::scope(|scope| {
            let builder = std::thread::Builder::new().stack_size(STACK);
            let flag = stop::flag();
            let handle = builder.spawn_scoped(scope, || stop::watched(flag, || self.piece(piece, DEEP).0));
            handle.ok().and_then(|handle| handle.join().ok())
        });
        // The thread may have ended because of a stop request.
        stop::poll();
        // Without a thread, what is nested deeper than this stack allows is an error.
        parsed.unwrap_or_else(|| self.piece(piece, SHALLOW).0)
    }

    /// Parses a piece; returns also whether it is nested more deeply than this, which then is an error.
    fn piece(self, piece: &Piece, max_depth: u32) -> (Done, bool) {
        let mut state = State::new(self.file, self.text, self.tokens, piece.tokens.start, max_depth);
        state.faults = self.faults;
        let input = self.tokens.get(piece.tokens.clone()).unwrap_or(&[]);
        let items = custom(|inp: &mut primitive::Input<'t, '_>| items::piece(inp, piece.quiet))
            .parse_with_state(input, &mut state)
            .into_output()
            .unwrap_or_default();
        // A piece that is refused says so, whatever was tried after that.
        if let (Some(span), true) = (state.refused, state.errors.is_empty()) {
            state.errors.push(Mistake::Said(Box::new(primitive::nested_too_deeply(span))));
        }
        (Done { items, errors: state.errors }, state.overflow)
    }
}

/// The tokens of one top-level item or statement.
struct Piece {
    tokens: Range<usize>,
    /// The piece ended with a `;`.
    quiet: bool,
}

/// Splits the file at the statement ends outside of brackets.
fn pieces(tokens: &[Token], first: usize) -> Vec<Piece> {
    let mut pieces = Vec::with_capacity(tokens.len() / 32 + 4);
    let (mut depth, mut start) = (0usize, first);
    for (index, token) in tokens.iter().enumerate().skip(first) {
        match token.kind {
            Tok::LParen | Tok::LBracket | Tok::LBrace | Tok::InterpOpen => depth += 1,
            Tok::RParen | Tok::RBracket | Tok::RBrace | Tok::InterpClose => depth = depth.saturating_sub(1),
            Tok::Newline | Tok::Semi | Tok::Eof if depth == 0 => {
                if index > start {
                    pieces.push(Piece { tokens: start..index, quiet: token.kind == Tok::Semi });
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
    fn what_is_too_deep_is_an_error_wherever_it_stands() {
        let parsed = |text: &str, depth: u32| {
            let tokens = lex(FileId(0), text).tokens;
            let job = Job { file: FileId(0), text, tokens: &tokens, faults: &[] };
            let (done, overflow) = job.piece(&pieces(&tokens, 0)[0], depth);
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
