//! Items: constants, structs, functions, kernels, imports, tests, benchmarks; and the statements of a script.

use super::expressions::{expression, head};
use super::primitive::*;
use super::statements::{block, declared, ends_with_block, statement};
use super::strings::plain;
use super::types::{annotation, generics, params, path, result, ty};
use crate::base::diag::{Applicability, Diagnostic};
use crate::base::source::Span;
use crate::syntax::ast::{
    Const, Expr, ExprKind, Field, Fn, Geometry, Import, ImportSource, ImportWhat, Item, ItemKind, Kernel, Name,
    Pattern, Section, StmtKind, Struct, Tune,
};
use crate::syntax::token::{Tok, Token};
use chumsky::Parser;
use chumsky::primitive::custom;

/// Parses one piece of a file: the tokens between two top-level statement ends, usually a single item.
pub(crate) fn piece(inp: &mut Input<'_, '_>, quiet: bool) -> Parsed<Vec<Item>> {
    let mut items = Vec::with_capacity(1);
    while peek(inp) != Tok::Eof {
        let doc = doc(inp);
        if peek(inp) == Tok::Eof {
            break;
        }
        let mark = mark(inp);
        let from = inp.save();
        let item = match item(inp).and_then(|kind| ended(inp, kind)) {
            Ok(kind) => kind,
            Err(_) => {
                let start = here_of(inp, *from.cursor().inner());
                let kind = remains(inp, start);
                let span = recover(inp, &mark, from);
                items.push(Item { kind, span, doc });
                // Recovery stops early only at an unbalanced bracket, which `lex` rules out; skip the rest to guarantee progress.
                while peek(inp) != Tok::Eof {
                    bump(inp);
                }
                continue;
            }
        };
        let (kind, span) = item;
        items.push(Item { kind, span, doc });
    }
    if quiet
        && let Some(Item { kind: ItemKind::Stmt(stmt), .. }) = items.last_mut()
        && let StmtKind::Expr { quiet, .. } = &mut stmt.kind
    {
        *quiet = true;
    }
    Ok(items)
}

/// Returns the index in the file of the token at `offset` of the input.
fn here_of(inp: &mut Input<'_, '_>, offset: usize) -> usize {
    let now = *inp.cursor().inner();
    (here(inp) + offset).saturating_sub(now)
}

/// Returns the node for an item that failed to parse; it keeps the name.
fn remains(inp: &mut Input<'_, '_>, start: usize) -> ItemKind {
    let state = inp.state();
    let keyword = state.token(start);
    let named = match keyword.kind {
        Tok::Fn | Tok::Kernel | Tok::Struct => Some(state.token(start + 1)).filter(|named| named.kind == Tok::Name),
        _ => declared(state, start),
    };
    let Some(named) = named else { return ItemKind::Error(None) };
    let name = state.name_of(named);
    let value = Expr { kind: ExprKind::Error, span: name.span };
    match keyword.kind {
        Tok::Let | Tok::Var | Tok::Name => {
            let mutable = keyword.kind != Tok::Let;
            let span = name.span;
            let kind = StmtKind::Let { mutable, pattern: Pattern::Name(name), ty: None, value: Some(value) };
            ItemKind::Stmt(crate::syntax::ast::Stmt { kind, span })
        }
        Tok::Const => ItemKind::Const(Const { name, ty: None, value }),
        Tok::Fn | Tok::Kernel | Tok::Struct => ItemKind::Error(Some(name)),
        _ => ItemKind::Error(None),
    }
}

/// Checks that nothing follows the item, unless the item ended with its own `}`.
fn ended(inp: &mut Input<'_, '_>, (kind, span): (ItemKind, Span)) -> Parsed<(ItemKind, Span)> {
    let closed = match &kind {
        ItemKind::Struct(_) | ItemKind::Fn(_) | ItemKind::Kernel(_) | ItemKind::Test(_) | ItemKind::Bench(_) => true,
        ItemKind::Stmt(stmt) => ends_with_block(stmt),
        ItemKind::Const(_) | ItemKind::Import(_) | ItemKind::Error(_) => false,
    };
    if closed || peek(inp) == Tok::Eof { Ok((kind, span)) } else { missing(inp, Label::End) }
}

fn item(inp: &mut Input<'_, '_>) -> Parsed<(ItemKind, Span)> {
    let start = here(inp);
    let kind = match peek(inp) {
        Tok::Kernel => ItemKind::Kernel(kernel(inp)?),
        Tok::Fn => ItemKind::Fn(function(inp)?),
        Tok::Struct => ItemKind::Struct(structure(inp)?),
        Tok::Const => ItemKind::Const(constant(inp)?),
        Tok::Import => ItemKind::Import(import(inp)?),
        Tok::Test => ItemKind::Test(section(inp)?),
        Tok::Bench => ItemKind::Bench(section(inp)?),
        _ => ItemKind::Stmt(statement(inp)?),
    };
    Ok((kind, span_from(inp, start)))
}

/// Returns the documentation of a file (`///` lines at its top, followed by a blank line), and the index of the first token
/// after it.
pub(crate) fn file_doc(tokens: &[Token], text: &str) -> (Option<String>, usize) {
    let docs = tokens.iter().take_while(|t| t.kind == Tok::Doc).count();
    let blank_behind = |index: usize| {
        let end = tokens.get(index).map_or(0, |t| t.end as usize);
        let rest = text.get(end..).unwrap_or("");
        rest.lines().nth(1).is_some_and(|line| line.trim().is_empty())
    };
    match (0..docs).find(|&index| blank_behind(index)) {
        Some(last) => (Some(doc_text(text, tokens.get(..=last).unwrap_or(&[]))), last + 1),
        None => (None, 0),
    }
}

fn doc_text(text: &str, docs: &[Token]) -> String {
    let line = |token: &Token| {
        let line = token.text(text).trim_start_matches("///");
        line.strip_prefix(' ').unwrap_or(line).trim_end().to_owned()
    };
    docs.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// Parses the `///` lines above an item.
fn doc(inp: &mut Input<'_, '_>) -> Option<String> {
    if peek(inp) != Tok::Doc {
        return None;
    }
    let start = here(inp);
    while peek(inp) == Tok::Doc {
        bump(inp);
    }
    let end = here(inp);
    let state = inp.state();
    state.tokens.get(start..end).map(|docs| doc_text(state.text, docs))
}

/// Parses `const NAME: type = value`.
fn constant(inp: &mut Input<'_, '_>) -> Parsed<Const> {
    let named = tok(Tok::Const).ignore_then(custom(name)).then(custom(annotation));
    let ((name, ty), value) = inp.parse(named.then_ignore(tok(Tok::Assign)).then(custom(expression)))?;
    Ok(Const { name, ty, value })
}

/// Parses `struct Name { field: type, … }`.
fn structure(inp: &mut Input<'_, '_>) -> Parsed<Struct> {
    let name = inp.parse(tok(Tok::Struct).ignore_then(custom(name)).then_ignore(tok(Tok::LBrace)))?;
    let mut fields = Vec::new();
    loop {
        let doc = doc(inp);
        if peek(inp) == Tok::RBrace {
            bump(inp);
            return Ok(Struct { name, fields });
        }
        let (name, ty) = inp.parse(custom(super::primitive::name).then_ignore(tok(Tok::Colon)).then(custom(ty)))?;
        fields.push(Field { name, ty, doc });
        match peek(inp) {
            Tok::Comma | Tok::Newline | Tok::Semi => {
                bump(inp);
            }
            Tok::RBrace => {}
            _ => {
                expect(inp, Tok::Comma)?;
            }
        }
    }
}

/// Parses `fn name<generics>(params) -> type { … }`.
fn function(inp: &mut Input<'_, '_>) -> Parsed<Fn> {
    let header = tok(Tok::Fn).ignore_then(custom(name)).then(custom(generics)).then(custom(params));
    let (((name, generics), params), result) = inp.parse(header.then(custom(result)))?;
    Ok(Fn { name, generics, params, result, body: block(inp)? })
}

/// Parses `kernel name<generics>(params) geometry contracts { … }`.
fn kernel(inp: &mut Input<'_, '_>) -> Parsed<Kernel> {
    let header = tok(Tok::Kernel).ignore_then(custom(name)).then(custom(generics)).then(custom(params));
    let ((name, generics), params) = inp.parse(header)?;
    let geometry = geometry(inp, &name)?;
    let Contracts { assumes, expects, tunes } = contracts(inp)?;
    Ok(Kernel { name, generics, params, geometry, assumes, expects, tunes, body: block(inp)? })
}

/// The clauses of a kernel behind its geometry.
#[derive(Default)]
struct Contracts {
    assumes: Vec<Expr>,
    expects: Vec<Expr>,
    tunes: Vec<Tune>,
}

/// Parses `assume a, b`, `expect a, b` and `tune A in [1, 2], B in [3, 4]` clauses.
fn contracts(inp: &mut Input<'_, '_>) -> Parsed<Contracts> {
    let mut found = Contracts::default();
    while let Some(clause) = begins_contract(inp) {
        loop {
            bump(inp);
            match clause {
                Clause::Assume => found.assumes.push(head(inp)?),
                Clause::Expect => found.expects.push(head(inp)?),
                Clause::Tune => found.tunes.push(tune(inp)?),
            }
            if peek(inp) != Tok::Comma {
                break;
            }
        }
    }
    Ok(found)
}

/// Parses `BM in [64, 128]`.
fn tune(inp: &mut Input<'_, '_>) -> Parsed<Tune> {
    let (name, values) = inp.parse(custom(name).then_ignore(tok(Tok::In)).then(custom(head)))?;
    Ok(Tune { name, values })
}

#[derive(Clone, Copy)]
enum Clause {
    Assume,
    Expect,
    Tune,
}

fn begins_contract(inp: &mut Input<'_, '_>) -> Option<Clause> {
    if peek(inp) != Tok::Name {
        return None;
    }
    match peek_text(inp) {
        "assume" => Some(Clause::Assume),
        "expect" => Some(Clause::Expect),
        "tune" => Some(Clause::Tune),
        _ => None,
    }
}

/// The geometry clauses of a kernel, in source order.
#[derive(Default)]
struct Clauses {
    threads: Option<Vec<(Name, Expr)>>,
    grid: Option<Vec<Expr>>,
    block: Option<Vec<Expr>>,
}

fn geometry(inp: &mut Input<'_, '_>, kernel: &Name) -> Parsed<Geometry> {
    let start = here(inp);
    let mut clauses = Clauses::default();
    while peek(inp) == Tok::Name && peek_at(inp, 1) == Tok::LParen {
        match peek_text(inp) {
            "threads" => {
                bump(inp);
                clauses.threads = Some(inp.parse(list(Tok::LParen, extent, Tok::RParen))?);
            }
            "grid" => {
                bump(inp);
                clauses.grid = Some(inp.parse(list(Tok::LParen, expression, Tok::RParen))?);
            }
            "block" => {
                bump(inp);
                clauses.block = Some(inp.parse(list(Tok::LParen, expression, Tok::RParen))?);
            }
            _ => break,
        }
    }
    if peek(inp) != Tok::LBrace && begins_contract(inp).is_none() {
        return missing(inp, Label::Geometry);
    }
    let span = span_from(inp, start);
    Ok(match clauses {
        Clauses { threads: Some(indices), grid: None, block } => Geometry::Threads { indices, block, span },
        Clauses { threads: None, grid: Some(grid), block: Some(block) } => Geometry::Grid { grid, block, span },
        clauses => {
            let place = span_from(inp, here_before(start));
            report_geometry(inp, kernel, &clauses, if clauses.any() { span } else { place.after() });
            Geometry::Missing(span)
        }
    })
}

fn here_before(index: usize) -> usize {
    index.saturating_sub(1)
}

impl Clauses {
    fn any(&self) -> bool {
        self.threads.is_some() || self.grid.is_some() || self.block.is_some()
    }
}

/// Parses `row: M`.
fn extent(inp: &mut Input<'_, '_>) -> Parsed<(Name, Expr)> {
    inp.parse(custom(name).then_ignore(tok(Tok::Colon)).then(custom(expression)))
}

fn report_geometry(inp: &mut Input<'_, '_>, kernel: &Name, clauses: &Clauses, span: Span) {
    let error = |title: String| Diagnostic::error("E0125", title);
    let diagnostic = match clauses {
        Clauses { threads: Some(_), .. } => error("a kernel has either `threads` or `grid`".into())
            .at(span, "both are given")
            .help("`threads(i: N)` runs the body once for every index; `grid(…) block(…)` gives you the blocks"),
        Clauses { grid: Some(_), .. } => error("`grid` needs a `block`".into())
            .at(span, "how many threads has a block?")
            .fix("add `block(256)`", span.after(), " block(256)", Applicability::MaybeIncorrect),
        Clauses { block: Some(_), .. } => error("`block` needs a `grid` or `threads`".into())
            .at(span, "how many blocks are there?")
            .help("write `grid(ceil_div(N, 256)) block(256)`, or `threads(i: N) block(256)`"),
        _ => error(format!("kernel `{}` does not say how many threads it runs", kernel.text))
            .at(span, "its shape is missing here")
            .because(kernel.span, "this kernel")
            .help("`threads(i: N)` runs the body once for every `i` from 0 to N - 1")
            .help("`grid(blocks) block(threads)` is the CUDA way, with barriers and shared memory")
            .fix("add `threads(i: N)`", span, " threads(i: N)", Applicability::MaybeIncorrect),
    };
    say(inp, diagnostic);
}

/// Parses `import std.nn.{softmax, relu as r}`, `import "./shapes.clk" as shapes`.
fn import(inp: &mut Input<'_, '_>) -> Parsed<Import> {
    let start = here(inp);
    expect(inp, Tok::Import)?;
    let source = match peek(inp) {
        Tok::StrStart => {
            let (path, span) = plain(inp)?;
            ImportSource::File { path, span }
        }
        _ => {
            wanted(inp, Label::Text);
            ImportSource::Path(path(inp)?)
        }
    };
    let what = if peek(inp) == Tok::Dot {
        bump(inp);
        ImportWhat::Names(inp.parse(list(Tok::LBrace, imported, Tok::RBrace))?)
    } else {
        ImportWhat::Module { alias: alias(inp)? }
    };
    Ok(Import { source, span: span_from(inp, start), what })
}

fn imported(inp: &mut Input<'_, '_>) -> Parsed<(Name, Option<Name>)> {
    inp.parse(custom(name).then(custom(alias)))
}

/// Parses an optional `as name`.
fn alias(inp: &mut Input<'_, '_>) -> Parsed<Option<Name>> {
    if !at_word(inp, "as") {
        return Ok(None);
    }
    bump(inp);
    Ok(Some(name(inp)?))
}

/// Parses `test "name" { … }`, `bench "name" bytes = …, flops = … { … }`.
fn section(inp: &mut Input<'_, '_>) -> Parsed<Section> {
    let bench = bump(inp).kind == Tok::Bench;
    let (title, title_span) = plain(inp)?;
    let mut rates = Vec::new();
    while bench && peek(inp) == Tok::Name {
        rates.push(inp.parse(custom(name).then_ignore(tok(Tok::Assign)).then(custom(head)))?);
        if eat(inp, Tok::Comma).is_none() {
            break;
        }
    }
    Ok(Section { title, title_span, rates, body: block(inp)? })
}
