//! Items: constants, structs, functions, kernels, imports, tests, benchmarks, and the statements of a script.

use super::expressions::{expression, head};
use super::primitive::*;
use super::statements::{block, declared_name, declares_mutable, ends_with_block, statement};
use super::strings::plain;
use super::types::{annotation, generics, params, path, result, ty};
use crate::ast::{
    Const, Expr, ExprKind, Field, Fn, Geometry, Import, ImportItems, ImportSource, Item, ItemKind, Kernel, Name,
    Pattern, SectionItem, StmtKind, Struct, Tune,
};
use crate::token::{Tok, Token};
use chumsky::Parser;
use chumsky::primitive::custom;
use clk_base::diag::{Applicability, Diagnostic};
use clk_base::source::Span;

/// Parses one piece of a file: the tokens between two ends of top-level statements. Usually, this is a single item.
pub(crate) fn piece(inp: &mut ParserInput<'_, '_>, quiet: bool) -> ParseResult<Vec<Item>> {
    let mut items = Vec::with_capacity(1);
    while peek(inp) != Tok::Eof {
        let doc = doc(inp);
        if peek(inp) == Tok::Eof {
            break;
        }
        let checkpoint = checkpoint(inp);
        let from = inp.save();
        let item = match item(inp).and_then(|item| check_end(inp, item)) {
            Ok(kind) => kind,
            Err(_) => {
                let start = file_index(inp, *from.cursor().inner());
                let kind = error_node(inp, start);
                let span = recover(inp, &checkpoint, from);
                items.push(Item { kind, span, doc });
                // Recovery stops before the end of the piece only at an unbalanced bracket, and `lex` balances all
                // brackets. Skip the remaining tokens anyway, to guarantee progress.
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

/// Converts the offset of a token in the input to its index in the file.
fn file_index(inp: &mut ParserInput<'_, '_>, offset: usize) -> usize {
    let current = *inp.cursor().inner();
    (position(inp) + offset).saturating_sub(current)
}

/// Returns the node for an item that failed to parse. A definition keeps its name.
fn error_node(inp: &mut ParserInput<'_, '_>, start: usize) -> ItemKind {
    let state = inp.state();
    let keyword = state.token(start);
    let name_token = match keyword.kind {
        Tok::Fn | Tok::Kernel | Tok::Struct => {
            Some(state.token(start + 1)).filter(|name_token| name_token.kind == Tok::Name)
        }
        _ => declared_name(state, start),
    };
    let Some(name_token) = name_token else { return ItemKind::Error(None) };
    let name = state.name_of(name_token);
    let value = Expr { kind: ExprKind::Error, span: name.span };
    match keyword.kind {
        Tok::Let | Tok::Var | Tok::Name => {
            let mutable = declares_mutable(state, start);
            let span = name.span;
            let kind = StmtKind::Let { mutable, pattern: Pattern::Name(name), ty: None, value: Some(value) };
            ItemKind::Stmt(crate::ast::Stmt { kind, span })
        }
        Tok::Const => ItemKind::Const(Const { name, ty: None, value }),
        Tok::Fn | Tok::Kernel | Tok::Struct => ItemKind::Error(Some(name)),
        _ => ItemKind::Error(None),
    }
}

/// Checks that no token follows the item, unless the item ended with its own `}`.
fn check_end(inp: &mut ParserInput<'_, '_>, item: (ItemKind, Span)) -> ParseResult<(ItemKind, Span)> {
    let closed = match &item.0 {
        ItemKind::Struct(_) | ItemKind::Fn(_) | ItemKind::Kernel(_) | ItemKind::Test(_) | ItemKind::Bench(_) => true,
        ItemKind::Stmt(stmt) => ends_with_block(stmt),
        ItemKind::Const(_) | ItemKind::Import(_) | ItemKind::Error(_) => false,
    };
    if closed || peek(inp) == Tok::Eof { Ok(item) } else { fail_expecting(inp, ExpectedConstruct::End) }
}

fn item(inp: &mut ParserInput<'_, '_>) -> ParseResult<(ItemKind, Span)> {
    let start = position(inp);
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

/// Returns the documentation of a file, and the index of the first token after it. The documentation consists of the
/// `///` lines at the top of the file if a blank line follows.
pub(crate) fn file_doc(tokens: &[Token], text: &str) -> (Option<String>, usize) {
    let docs = tokens.iter().take_while(|t| t.kind == Tok::Doc).count();
    let blank_follows = |index: usize| {
        let end = tokens.get(index).map_or(0, |t| t.end as usize);
        let rest = text.get(end..).unwrap_or("");
        rest.lines().nth(1).is_some_and(|line| line.trim().is_empty())
    };
    match (0..docs).find(|&index| blank_follows(index)) {
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
fn doc(inp: &mut ParserInput<'_, '_>) -> Option<String> {
    if peek(inp) != Tok::Doc {
        return None;
    }
    let start = position(inp);
    while peek(inp) == Tok::Doc {
        bump(inp);
    }
    let end = position(inp);
    let state = inp.state();
    state.tokens.get(start..end).map(|docs| doc_text(state.text, docs))
}

/// Parses `const NAME: type = value`.
fn constant(inp: &mut ParserInput<'_, '_>) -> ParseResult<Const> {
    let header = tok(Tok::Const).ignore_then(custom(name)).then(custom(annotation));
    let ((name, ty), value) = inp.parse(header.then_ignore(tok(Tok::Assign)).then(custom(expression)))?;
    Ok(Const { name, ty, value })
}

/// Parses `struct Name { field: type, … }`.
fn structure(inp: &mut ParserInput<'_, '_>) -> ParseResult<Struct> {
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
fn function(inp: &mut ParserInput<'_, '_>) -> ParseResult<Fn> {
    let header = tok(Tok::Fn).ignore_then(custom(name)).then(custom(generics)).then(custom(params));
    let (((name, generics), params), result) = inp.parse(header.then(custom(result)))?;
    Ok(Fn { name, generics, params, result, body: block(inp)? })
}

/// Parses `kernel name<generics>(params) geometry contracts { … }`.
fn kernel(inp: &mut ParserInput<'_, '_>) -> ParseResult<Kernel> {
    let header = tok(Tok::Kernel).ignore_then(custom(name)).then(custom(generics)).then(custom(params));
    let ((name, generics), params) = inp.parse(header)?;
    let geometry = geometry(inp, &name)?;
    let ContractClauses { assumes, expects, tunes } = contracts(inp)?;
    Ok(Kernel { name, generics, params, geometry, assumes, expects, tunes, body: block(inp)? })
}

/// The clauses of a kernel after its geometry.
#[derive(Default)]
struct ContractClauses {
    assumes: Vec<Expr>,
    expects: Vec<Expr>,
    tunes: Vec<Tune>,
}

/// Parses `assume a, b`, `expect a, b` and `tune A in [1, 2], B in [3, 4]` clauses.
fn contracts(inp: &mut ParserInput<'_, '_>) -> ParseResult<ContractClauses> {
    let mut clauses = ContractClauses::default();
    while let Some(clause) = begins_contract(inp) {
        loop {
            bump(inp);
            match clause {
                Clause::Assume => clauses.assumes.push(head(inp)?),
                Clause::Expect => clauses.expects.push(head(inp)?),
                Clause::Tune => clauses.tunes.push(tune(inp)?),
            }
            if peek(inp) != Tok::Comma {
                break;
            }
        }
    }
    Ok(clauses)
}

/// Parses `BM in [64, 128]`.
fn tune(inp: &mut ParserInput<'_, '_>) -> ParseResult<Tune> {
    let (name, values) = inp.parse(custom(name).then_ignore(tok(Tok::In)).then(custom(head)))?;
    Ok(Tune { name, values })
}

#[derive(Clone, Copy)]
enum Clause {
    Assume,
    Expect,
    Tune,
}

fn begins_contract(inp: &mut ParserInput<'_, '_>) -> Option<Clause> {
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

fn geometry(inp: &mut ParserInput<'_, '_>, kernel: &Name) -> ParseResult<Geometry> {
    let start = position(inp);
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
        return fail_expecting(inp, ExpectedConstruct::Geometry);
    }
    let span = span_from(inp, start);
    Ok(match clauses {
        Clauses { threads: Some(indices), grid: None, block } => Geometry::Threads { indices, block, span },
        Clauses { threads: None, grid: Some(grid), block: Some(block) } => Geometry::Grid { grid, block, span },
        clauses => {
            let place = span_from(inp, previous_index(start));
            report_geometry(inp, kernel, &clauses, if clauses.any() { span } else { place.after() });
            Geometry::Missing(span)
        }
    })
}

fn previous_index(index: usize) -> usize {
    index.saturating_sub(1)
}

impl Clauses {
    fn any(&self) -> bool {
        self.threads.is_some() || self.grid.is_some() || self.block.is_some()
    }
}

/// Parses `row: M`.
fn extent(inp: &mut ParserInput<'_, '_>) -> ParseResult<(Name, Expr)> {
    inp.parse(custom(name).then_ignore(tok(Tok::Colon)).then(custom(expression)))
}

/// Returns whether the body of the kernel, which follows, names the threads of blocks.
fn body_names_blocks(inp: &mut ParserInput<'_, '_>) -> bool {
    let start = position(inp);
    let state = inp.state();
    let (mut depth, mut found) = (0usize, false);
    for token in state.tokens.iter().skip(start) {
        match token.kind {
            Tok::LBrace => depth += 1,
            Tok::RBrace => depth = depth.saturating_sub(1),
            Tok::Name => {
                found |= matches!(state.text_of(*token), "global_idx" | "thread_idx" | "block_idx" | "block_dim")
            }
            _ => {}
        }
        if depth == 0 || found {
            break;
        }
    }
    found
}

fn report_geometry(inp: &mut ParserInput<'_, '_>, kernel: &Name, clauses: &Clauses, span: Span) {
    let error = |title: String| Diagnostic::error("E0125", title);
    let has_blocks = body_names_blocks(inp);
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
        _ if has_blocks => error(format!("kernel `{}` does not say how many threads it runs", kernel.text))
            .at(span, "its shape is missing here")
            .because(kernel.span, "this kernel")
            .help("`grid(blocks) block(threads)`: the body uses the threads of blocks")
            .fix(
                "add the blocks that `N` elements need",
                span,
                " grid(ceil_div(N, 256)) block(256)",
                Applicability::MaybeIncorrect,
            ),
        _ => error(format!("kernel `{}` does not say how many threads it runs", kernel.text))
            .at(span, "its shape is missing here")
            .because(kernel.span, "this kernel")
            .help("`threads(i: N)` runs the body once for every `i` from 0 to N - 1")
            .help("`grid(blocks) block(threads)` is the CUDA way, with barriers and shared memory")
            .fix("add `threads(i: N)`", span, " threads(i: N)", Applicability::MaybeIncorrect),
    };
    report(inp, diagnostic);
}

/// Parses `import std.nn.{softmax, relu as r}`, `import "./shapes.clk" as shapes`.
fn import(inp: &mut ParserInput<'_, '_>) -> ParseResult<Import> {
    let start = position(inp);
    expect(inp, Tok::Import)?;
    let source = match peek(inp) {
        Tok::StrStart => {
            let (path, span) = plain(inp)?;
            ImportSource::File { path, span }
        }
        _ => {
            record_expected(inp, ExpectedConstruct::Text);
            ImportSource::Path(path(inp)?)
        }
    };
    let items = if peek(inp) == Tok::Dot {
        bump(inp);
        ImportItems::Names(inp.parse(list(Tok::LBrace, imported, Tok::RBrace))?)
    } else {
        ImportItems::Module { alias: alias(inp)? }
    };
    Ok(Import { source, span: span_from(inp, start), items })
}

fn imported(inp: &mut ParserInput<'_, '_>) -> ParseResult<(Name, Option<Name>)> {
    inp.parse(custom(name).then(custom(alias)))
}

/// Parses an optional `as name`.
fn alias(inp: &mut ParserInput<'_, '_>) -> ParseResult<Option<Name>> {
    if !at_word(inp, "as") {
        return Ok(None);
    }
    bump(inp);
    Ok(Some(name(inp)?))
}

/// Parses `test "name" { … }`, `bench "name" bytes = …, flops = … { … }`.
fn section(inp: &mut ParserInput<'_, '_>) -> ParseResult<SectionItem> {
    let bench = bump(inp).kind == Tok::Bench;
    let (title, title_span) = plain(inp)?;
    let mut rates = Vec::new();
    while bench && peek(inp) == Tok::Name {
        rates.push(inp.parse(custom(name).then_ignore(tok(Tok::Assign)).then(custom(head)))?);
        if eat(inp, Tok::Comma).is_none() {
            break;
        }
    }
    Ok(SectionItem { title, title_span, rates, body: block(inp)? })
}
