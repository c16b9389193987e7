//! Converts results of the compiler and of [`ide`](clk_ide) to the protocol's JSON.

use serde_json::{Value, json};

use super::text::{PositionEncoding, Text};
use crate::json_rpc;
use clk_base::diag::{Applicability, Diagnostic, Fix, Severity};
use clk_ide::{
    Analysis, Completion, CompletionKind, DocumentSymbol, Highlight, HighlightClass, SymbolKind, TextLocation,
};
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

pub(crate) fn diagnostics(analysis: &Analysis, text: &Text, address: &str) -> Vec<Value> {
    analysis.diagnostics.iter().map(|d| diagnostic(analysis, text, address, d)).collect()
}

fn diagnostic(analysis: &Analysis, text: &Text, address: &str, found: &Diagnostic) -> Value {
    let primary = found.labels.iter().find(|l| l.is_primary()).or(found.labels.first());
    let own = primary.filter(|l| l.span.file == analysis.file);
    let range = own.map_or_else(|| blamed_import(analysis, found), |l| l.span.range());
    let mut message = found.title.clone();
    if let Some(label) = own.filter(|l| !l.text.is_empty()) {
        message += &format!("\n{}", label.text);
    }
    found.help.iter().for_each(|help| message += &format!("\nhelp: {help}"));
    found.notes.iter().for_each(|note| message += &format!("\nnote: {note}"));
    let others = found.labels.iter().filter(|l| own.is_none_or(|own| l.span != own.span || l.text != own.text));
    let related: Vec<Value> = others
        .map(|label| {
            let place = TextLocation {
                file: analysis.session.sources.name(label.span.file).to_owned(),
                range: label.span.range(),
            };
            json!({ "location": location(analysis, text, address, &place), "message": label.text })
        })
        .collect();
    let severity = match found.severity {
        Severity::Error => 1,
        Severity::Warning => 2,
        Severity::Note => 3,
    };
    let mut out = json!({
        "range": text.json_range(&range),
        "severity": severity,
        "code": found.code,
        "source": "clk",
        "message": message,
        "relatedInformation": related,
    });
    if found.code.starts_with('W') && found.title.contains("never used") {
        out["tags"] = json!([1]);
    }
    out
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

/// Converts a location in this document or in another source to the protocol's JSON.
pub(crate) fn location(analysis: &Analysis, text: &Text, address: &str, place: &TextLocation) -> Value {
    let own = analysis.session.sources.name(analysis.file);
    if place.file == own {
        return json!({ "uri": address, "range": text.json_range(&place.range) });
    }
    let source =
        analysis.session.sources.files().find(|(_, s)| *s.name == *place.file).map(|(_, s)| s.text.to_string());
    let other = Text::new(source.unwrap_or_default(), text.encoding);
    json!({ "uri": super::source_uri::address_of(&place.file), "range": other.json_range(&place.range) })
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

/// Converts fixes to a workspace edit; `None` if they change another file.
pub(crate) fn fix(analysis: &Analysis, text: &Text, address: &str, fixes: &[&Fix]) -> Option<Value> {
    let mut edits = Vec::new();
    for (span, new) in fixes.iter().flat_map(|f| &f.edits) {
        if span.file != analysis.file {
            return None;
        }
        edits.push(json!({ "range": text.json_range(&span.range()), "newText": new }));
    }
    Some(json!({ "changes": { address: edits } }))
}

pub(crate) fn is_sure(fix: &Fix) -> bool {
    fix.applicability == Applicability::MachineApplicable
}
