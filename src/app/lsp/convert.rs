//! Converts results of the compiler and of [`ide`](clk_ide) to the protocol's JSON.

use serde_json::{Value, json};

use super::cuda_analysis::CudaAnalysis;
use super::source_places::SourcePlaces;
use super::text::{PositionEncoding, Text};
use crate::json_rpc;
use clk_base::diag::{Applicability, Diagnostic, Fix};
use clk_ide::{Analysis, Completion, CompletionKind, DocumentSymbol, Highlight, HighlightClass, LensKind, SymbolKind};
use clk_syntax::ast::{ImportSource, ItemKind};

/// The name of the command that the server executes. It proves the properties of a kernel and reports the verdicts.
pub(super) const PROVE: &str = "clk.prove";

/// Types of semantic tokens. A type's index in this list is its number in the protocol.
const TOKEN_TYPES: &[&str] = &[
    "keyword",
    "type",
    "function",
    "variable",
    "parameter",
    "property",
    "typeParameter",
    "namespace",
    "number",
    "string",
    "operator",
    "comment",
    "enumMember",
];
const TOKEN_MODIFIERS: &[&str] = &["declaration", "readonly", "defaultLibrary", "kernel"];

pub(crate) fn capabilities(encoding: PositionEncoding) -> Value {
    json!({
        "capabilities": {
            "positionEncoding": if encoding == PositionEncoding::Utf8 { "utf-8" } else { "utf-16" },
            "textDocumentSync": { "openClose": true, "change": 2, "save": true },
            "hoverProvider": true,
            "completionProvider": { "triggerCharacters": [".", "(", ",", "{", "\"", "/"] },
            "signatureHelpProvider": { "triggerCharacters": ["(", ","], "retriggerCharacters": ["="] },
            "definitionProvider": true,
            "referencesProvider": true,
            "documentHighlightProvider": true,
            "documentSymbolProvider": true,
            "workspaceSymbolProvider": true,
            "codeActionProvider": { "codeActionKinds": ["quickfix", "source.fixAll"] },
            "codeLensProvider": { "resolveProvider": false },
            "executeCommandProvider": { "commands": [PROVE] },
            "documentFormattingProvider": true,
            "documentRangeFormattingProvider": true,
            "renameProvider": { "prepareProvider": true },
            "foldingRangeProvider": true,
            "inlayHintProvider": true,
            "semanticTokensProvider": {
                "legend": { "tokenTypes": TOKEN_TYPES, "tokenModifiers": TOKEN_MODIFIERS },
                "full": true,
                "range": true,
            },
        },
        "serverInfo": { "name": "clk", "version": env!("CARGO_PKG_VERSION") },
    })
}

pub(crate) fn publish(address: &str, version: Option<i64>, diagnostics: Vec<Value>) -> Value {
    let mut params = json!({ "uri": address, "diagnostics": diagnostics });
    if let Some(version) = version {
        params["version"] = json!(version);
    }
    json_rpc::notification("textDocument/publishDiagnostics", params)
}

/// Returns how to show places of an analysis in its document.
pub(crate) fn places<'a>(analysis: &'a Analysis, text: &'a Text, address: &'a str) -> SourcePlaces<'a> {
    SourcePlaces { sources: &analysis.session.sources, file: analysis.file, text, address }
}

pub(crate) fn diagnostics(analysis: &Analysis, text: &Text, address: &str) -> Vec<Value> {
    let places = places(analysis, text, address);
    let at_origins = analysis.diagnostics.iter().map(|found| found.at_origins(&analysis.session.sources));
    at_origins.map(|found| places.diagnostic(&found, &|found| blamed_import(analysis, found))).collect()
}

pub(crate) fn cuda_diagnostics(analysis: &CudaAnalysis, text: &Text, address: &str) -> Vec<Value> {
    let places = analysis.places(text, address);
    let all = analysis.diagnostics();
    all.iter().map(|found| places.diagnostic(found, &|found| analysis.blamed_include(found))).collect()
}

/// If a diagnostic is in an imported file, returns the range of the import statement through which this file depends on
/// it.
fn blamed_import(analysis: &Analysis, matching: &Diagnostic) -> std::ops::Range<usize> {
    let name = matching.primary().map(|span| analysis.session.sources.name(span.file)).unwrap_or("");
    let file_name = |path: &str| path.rsplit(['/', '\\']).next().unwrap_or(path).to_owned();
    let imports = analysis.tree.items.iter().filter_map(|item| match &item.kind {
        ItemKind::Import(import) => Some(import),
        _ => None,
    });
    let mut spans = imports.filter_map(|import| match &import.source {
        ImportSource::File { path, span } => Some((path, span)),
        ImportSource::Path(_) => None,
    });
    let first = spans.clone().next();
    let matching = spans.find(|(path, _)| file_name(path) == file_name(name)).or(first);
    matching.map_or(0..0, |(_, span)| span.range())
}

pub(crate) fn completion(text: &Text, found: &Completion, order: usize) -> Value {
    let kind = match found.kind {
        CompletionKind::Variable => 6,
        CompletionKind::Parameter | CompletionKind::Argument => 6,
        CompletionKind::Dimension => 25,
        CompletionKind::Function | CompletionKind::Kernel | CompletionKind::Builtin => 3,
        CompletionKind::Type => 22,
        CompletionKind::Field => 5,
        CompletionKind::Constant => 21,
        CompletionKind::Module => 9,
        CompletionKind::Keyword => 14,
        CompletionKind::File => 17,
    };
    json!({
        "label": found.label,
        "kind": kind,
        "detail": found.detail,
        "documentation": { "kind": "markdown", "value": found.doc },
        "sortText": format!("{order:05}"),
        "filterText": found.label,
        "textEdit": { "range": text.json_range(&found.replace), "newText": found.insert },
    })
}

pub(crate) fn symbol_kind(kind: SymbolKind) -> u32 {
    match kind {
        SymbolKind::Fn | SymbolKind::Kernel => 12,
        SymbolKind::Struct => 23,
        SymbolKind::Field => 8,
        SymbolKind::Const => 14,
        SymbolKind::Module => 2,
        SymbolKind::Variable => 13,
        SymbolKind::Test | SymbolKind::Bench => 6,
    }
}

pub(crate) fn symbol(text: &Text, found: &DocumentSymbol) -> Value {
    let children: Vec<Value> = found.children.iter().map(|c| symbol(text, c)).collect();
    json!({
        "name": found.name,
        "detail": found.detail,
        "kind": symbol_kind(found.kind),
        "range": text.json_range(&found.range),
        "selectionRange": text.json_range(&found.name_range),
        "children": children,
    })
}

/// Returns the title and the command of a code lens.
pub(crate) fn lens_command(kind: LensKind) -> (&'static str, &'static str) {
    match kind {
        LensKind::Run => ("▶ run", "clk.run"),
        LensKind::Test => ("▶ test", "clk.test"),
        LensKind::Bench => ("▶ bench", "clk.bench"),
        LensKind::Emit => ("CUDA", "clk.emit"),
        LensKind::Prove => ("prove", PROVE),
        LensKind::Profile => ("profile", "clk.profile"),
    }
}

/// Returns a code lens above the line of an offset.
pub(crate) fn lens(text: &Text, offset: usize, command: Value) -> Value {
    let line = text.offset(text.line_of(offset), 0);
    json!({ "range": text.json_range(&(line..line)), "command": command })
}

/// Encodes semantic tokens. As the protocol requires, positions are relative to the previous token.
pub(crate) fn semantic_tokens(text: &Text, found: &[Highlight]) -> Vec<usize> {
    let mut data = Vec::with_capacity(found.len() * 5);
    let (mut line, mut column) = (0, 0);
    for token in found {
        let Some((kind, modifiers)) = semantic(token) else { continue };
        let Some(word) = text.as_str().get(token.range.clone()).filter(|w| !w.contains(['\n', '\r'])) else { continue };
        let (own_line, own_column) = text.position(token.range.start);
        let from = if own_line == line { column } else { 0 };
        data.extend([own_line - line, own_column - from, text.units(word), kind, modifiers]);
        (line, column) = (own_line, own_column);
    }
    data
}

fn semantic(token: &Highlight) -> Option<(usize, usize)> {
    let name = match token.class {
        HighlightClass::Keyword => "keyword",
        HighlightClass::Type => "type",
        HighlightClass::Function | HighlightClass::Kernel | HighlightClass::Builtin => "function",
        HighlightClass::Variable => "variable",
        HighlightClass::Parameter => "parameter",
        HighlightClass::Property => "property",
        HighlightClass::Constant => "enumMember",
        HighlightClass::Dimension => "typeParameter",
        HighlightClass::Namespace => "namespace",
        HighlightClass::Number => "number",
        HighlightClass::String => "string",
        HighlightClass::Operator => "operator",
        HighlightClass::Comment => "comment",
        HighlightClass::Punctuation | HighlightClass::Error => return None,
    };
    let kind = TOKEN_TYPES.iter().position(|t| *t == name)?;
    let set = [token.defined, token.readonly, token.library, token.class == HighlightClass::Kernel];
    let modifiers = set.iter().enumerate().map(|(bit, set)| usize::from(*set) << bit).sum();
    Some((kind, modifiers))
}

pub(crate) fn is_sure(fix: &Fix) -> bool {
    fix.applicability == Applicability::MachineApplicable
}
