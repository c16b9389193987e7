//! Answers the client's requests, with one function for each method.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Value, json};

use super::code_actions;
use super::convert::{self, PROVE};
use super::cuda_requests::{self, CudaDocument};
use super::document::Overlay;
use super::snapshot::DocumentsView;
use super::source_places::SourcePlaces;
use super::text::Text;
use super::workspace::WorkspaceSearch;
use crate::json_rpc::{self, RequestError};
use crate::proof;
use clk_base::source::FileId;
use clk_fmt::Formatted;
use clk_ide::{Analysis, InlayHint, Lens, LensKind};
use clk_prove::prove_kernel;

type RequestResult = Result<Value, RequestError>;

/// The document that a request refers to, with its analysis.
struct RequestDocument {
    address: String,
    text: Text,
    analysis: Arc<Analysis>,
}

impl RequestDocument {
    fn places(&self) -> SourcePlaces<'_> {
        convert::places(&self.analysis, &self.text, &self.address)
    }

    fn json_range(&self, range: &Range<usize>) -> Value {
        self.text.json_range(range)
    }
}

/// Answers a request. Adds notifications that the client shows to the user to `messages`.
pub(crate) fn answer(view: &DocumentsView, method: &str, params: &Value, messages: &mut Vec<Value>) -> RequestResult {
    if method == "workspace/symbol" {
        return workspace_symbols(view, params, messages);
    }
    if method == "workspace/executeCommand" {
        return execute(view, params, messages);
    }
    if let Some(target) = CudaDocument::of(view, params) {
        return cuda_requests::answer(&target, method, params).ok_or_else(|| unknown(method));
    }
    let is_document_method = method.starts_with("textDocument/") || method.starts_with("$/");
    let Some(target) = target(view, params) else {
        let address = params.pointer("/textDocument/uri").and_then(Value::as_str);
        return match address {
            _ if !is_document_method => Err(unknown(method)),
            // The document was closed after the client sent the request.
            Some(_) => Ok(Value::Null),
            None => Err(RequestError { code: json_rpc::INVALID_PARAMS, message: "no `textDocument.uri`".into() }),
        };
    };
    let offset = target.text.offset_of(params.get("position").unwrap_or(&Value::Null));
    let range = params.get("range").map_or(0..target.text.as_str().len(), |r| target.text.range_of(r));
    match method {
        "textDocument/hover" => Ok(hover(&target, offset)),
        "textDocument/completion" => Ok(completion(view, &target, offset)),
        "textDocument/signatureHelp" => Ok(signature(&target, offset)),
        "textDocument/definition" => Ok(definition(&target, offset)),
        "textDocument/references" => Ok(references(view, &target, offset, params, messages)),
        "textDocument/documentHighlight" => Ok(highlight(&target, offset)),
        "textDocument/prepareRename" => prepare_rename(&target, offset),
        "textDocument/rename" => rename(view, &target, offset, params, messages),
        "textDocument/documentSymbol" => {
            Ok(target.analysis.symbols().iter().map(|s| convert::symbol(&target.text, s)).collect())
        }
        "textDocument/foldingRange" => Ok(folding_ranges(&target)),
        "textDocument/semanticTokens/full" => Ok(tokens(&target, None)),
        "textDocument/semanticTokens/range" => Ok(tokens(&target, Some(range))),
        "textDocument/inlayHint" => Ok(target.analysis.hints(range).iter().map(|hint| inlay(&target, hint)).collect()),
        "textDocument/codeLens" => Ok(target.analysis.lenses().iter().map(|lens| code_lens(&target, lens)).collect()),
        "textDocument/codeAction" => Ok(code_actions(&target, range, params)),
        "textDocument/formatting" => Ok(formatting(&target, None)),
        "textDocument/rangeFormatting" => Ok(formatting(&target, Some(range))),
        _ => Err(unknown(method)),
    }
}

/// Executes the server's only command, which proves a kernel. The answer is the complete report as text. The client
/// also shows a summary to the user.
fn execute(view: &DocumentsView, params: &Value, messages: &mut Vec<Value>) -> RequestResult {
    if params.get("command").and_then(Value::as_str) != Some(PROVE) {
        return Err(RequestError {
            code: json_rpc::INVALID_PARAMS,
            message: format!("the server has the command `{PROVE}`"),
        });
    }
    let words: Vec<&str> =
        params.get("arguments").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
    let [address, name, ..] = words[..] else {
        return Err(RequestError {
            code: json_rpc::INVALID_PARAMS,
            message: "a document and a kernel are wanted".into(),
        });
    };
    let no_kernel = || RequestError::refused(format!("there is no kernel `{name}`, or the program has errors"));
    let (report, text) = match view.cuda(address) {
        Some(analysis) => cuda_requests::prove(&analysis, name).ok_or_else(no_kernel)?,
        None => {
            let Some(analysis) = view.analysis(address) else { return Ok(Value::Null) };
            let session = &analysis.session;
            let mut kernels = session.program.kernels_of(session.main);
            let (kernel, _) = kernels.find(|(_, kernel)| kernel.name == name).ok_or_else(no_kernel)?;
            let report = prove_kernel(&session.program, kernel);
            let text = proof::report_text(&report, &session.sources);
            (report, text)
        }
    };
    // If a property is refuted, the summary is a warning.
    let kind = if report.is_refuted() { 2 } else { 3 };
    messages.push(show_message(kind, &proof::summary(&report)));
    Ok(json!(text))
}

/// Returns the notification that makes the client show a text, as a warning (2) or information (3).
fn show_message(kind: u8, text: &str) -> Value {
    json_rpc::notification("window/showMessage", json!({ "type": kind, "message": text }))
}

/// Notifies the user if a search was incomplete. `missing` is the reason.
fn report_incomplete(missing: Option<String>, messages: &mut Vec<Value>) {
    messages.extend(missing.map(|text| show_message(2, &text)));
}

fn unknown(method: &str) -> RequestError {
    RequestError { code: json_rpc::METHOD_NOT_FOUND, message: format!("`{method}` is not offered") }
}

fn target(view: &DocumentsView, params: &Value) -> Option<RequestDocument> {
    let address = params.pointer("/textDocument/uri").and_then(Value::as_str)?;
    let analysis = view.analysis(address)?;
    let text = view.documents.get(address)?.text.clone();
    Some(RequestDocument { address: address.to_owned(), text, analysis })
}

fn hover(target: &RequestDocument, offset: usize) -> Value {
    target.analysis.hover(offset).map_or(Value::Null, |hover| {
        json!({ "contents": { "kind": "markdown", "value": hover.text }, "range": target.json_range(&hover.range) })
    })
}

fn completion(view: &DocumentsView, target: &RequestDocument, offset: usize) -> Value {
    let completions = target.analysis.complete(offset, &Overlay(&view.documents));
    let items: Vec<Value> =
        completions.iter().enumerate().map(|(i, c)| convert::completion(&target.text, c, i)).collect();
    json!({ "isIncomplete": false, "items": items })
}

fn signature(target: &RequestDocument, offset: usize) -> Value {
    let Some(found) = target.analysis.signature(offset) else { return Value::Null };
    // Offsets in a signature's label count UTF-16 code units, even if positions use another encoding.
    let units = |at: usize| found.label.get(..at).unwrap_or("").encode_utf16().count();
    let parameters: Vec<Value> =
        found.parameters.iter().map(|r| json!({ "label": [units(r.start), units(r.end)] })).collect();
    let mut out = json!({
        "signatures": [{
            "label": found.label,
            "documentation": { "kind": "markdown", "value": found.doc },
            "parameters": parameters,
        }],
        "activeSignature": 0,
    });
    if let Some(active) = found.active {
        out["activeParameter"] = json!(active);
    }
    out
}

fn definition(target: &RequestDocument, offset: usize) -> Value {
    let place = target.analysis.definition(offset);
    place.map_or(Value::Null, |place| target.places().location(&place))
}

/// Returns all references to a name, with the URIs of their documents. If the name is visible outside of its document,
/// also returns the search of the workspace.
fn all_references(
    view: &DocumentsView,
    target: &RequestDocument,
    offset: usize,
) -> (Vec<(String, Value, bool)>, Option<WorkspaceSearch>) {
    let own = target.analysis.references(offset);
    let mut out: Vec<(String, Value, bool)> =
        own.iter().map(|(range, write)| (target.address.clone(), target.json_range(range), *write)).collect();
    let Some(place) = target.analysis.definition(offset) else { return (out, None) };
    if !target.analysis.is_shared(offset) {
        return (out, None);
    }
    let word = own.first().and_then(|(range, _)| target.analysis.text.get(range.clone())).unwrap_or("");
    // A text that imports the name under an alias also contains the original name, so the search finds it.
    let search = view.search_word(word);
    for analyzed in &search.texts {
        if analyzed.address != target.address {
            let references = analyzed.analysis.references_to(&place.file, &place.range);
            out.extend(
                references.iter().map(|(r, write)| (analyzed.address.clone(), analyzed.text.json_range(r), *write)),
            );
        }
    }
    (out, Some(search))
}

fn references(
    view: &DocumentsView,
    target: &RequestDocument,
    offset: usize,
    params: &Value,
    messages: &mut Vec<Value>,
) -> Value {
    let with_definition = params.pointer("/context/includeDeclaration").and_then(Value::as_bool).unwrap_or(true);
    let definition = self::definition(target, offset);
    let (found, search) = all_references(view, target, offset);
    report_incomplete(search.and_then(|search| search.missing()), messages);
    let locations = found.into_iter().map(|(address, range, _)| json!({ "uri": address, "range": range }));
    locations.filter(|location| with_definition || *location != definition).collect()
}

fn highlight(target: &RequestDocument, offset: usize) -> Value {
    let references = target.analysis.references(offset);
    let one = |(range, write): &(Range<usize>, bool)| json!({ "range": target.json_range(range), "kind": if *write { 3 } else { 2 } });
    references.iter().map(one).collect()
}

fn prepare_rename(target: &RequestDocument, offset: usize) -> RequestResult {
    target.analysis.renamable(offset).map(|range| target.json_range(&range)).map_err(RequestError::refused)
}

fn rename(
    view: &DocumentsView,
    target: &RequestDocument,
    offset: usize,
    params: &Value,
    messages: &mut Vec<Value>,
) -> RequestResult {
    let new = params.get("newName").and_then(Value::as_str).unwrap_or("");
    target.analysis.rename(offset, new, &Overlay(&view.documents)).map_err(RequestError::refused)?;
    let mut changes = json!({});
    let (places, search) = all_references(view, target, offset);
    let defined = target.analysis.definition(offset).map(|place| PathBuf::from(place.file));
    if let (Some(search), Some(file)) = (&search, &defined) {
        if let Some(why) = search.missing_of(file) {
            return Err(RequestError::refused(format!("{why}, and it may have the name, too: nothing was renamed")));
        }
        let name = target.analysis.renamable(offset).map_err(RequestError::refused)?;
        let name = target.analysis.text.get(name).unwrap_or("");
        for analysis in search.texts.iter().filter(|text| text.address != target.address).map(|text| &text.analysis) {
            if let Some(place) = analysis.unresolved(name, true) {
                return Err(RequestError::refused(analysis.unresolved_error(name, &place)));
            }
        }
        report_incomplete(search.missing(), messages);
    }
    for (address, range, _) in places {
        let edit = json!({ "range": range, "newText": new });
        match changes.get_mut(&address).and_then(Value::as_array_mut) {
            Some(edits) => edits.push(edit),
            None => changes[&address] = json!([edit]),
        }
    }
    Ok(json!({ "changes": changes }))
}

fn workspace_symbols(view: &DocumentsView, params: &Value, messages: &mut Vec<Value>) -> RequestResult {
    let query = params.get("query").and_then(Value::as_str).unwrap_or("").to_lowercase();
    let mut out = Vec::new();
    let search = view.search_word(&query);
    report_incomplete(search.missing(), messages);
    for analyzed in search.texts {
        for symbol in analyzed.analysis.symbols() {
            if symbol.name.to_lowercase().contains(&query) {
                let location =
                    json!({ "uri": analyzed.address, "range": analyzed.text.json_range(&symbol.name_range) });
                out.push(
                    json!({ "name": symbol.name, "kind": convert::symbol_kind(symbol.kind), "location": location }),
                );
            }
        }
    }
    Ok(Value::Array(out))
}

fn folding_ranges(target: &RequestDocument) -> Value {
    let one = |fold: clk_ide::FoldingRange| {
        let (first, last) = (target.text.line_of(fold.range.start), target.text.line_of(fold.range.end));
        // The folded range ends before the line of the closing bracket, so that this line stays visible.
        let last = if fold.comment || fold.imports { last } else { last.saturating_sub(1) };
        let mut out = json!({ "startLine": first, "endLine": last });
        if fold.comment || fold.imports {
            out["kind"] = json!(if fold.comment { "comment" } else { "imports" });
        }
        (last > first).then_some(out)
    };
    target.analysis.folds().into_iter().filter_map(one).collect()
}

fn tokens(target: &RequestDocument, range: Option<Range<usize>>) -> Value {
    let mut highlights = target.analysis.highlights();
    if let Some(range) = range {
        highlights.retain(|h| h.range.end >= range.start && h.range.start <= range.end);
    }
    json!({ "data": convert::semantic_tokens(&target.text, &highlights) })
}

fn inlay(target: &RequestDocument, hint: &InlayHint) -> Value {
    let mut out = json!({ "position": target.text.json_position(hint.offset), "label": hint.text });
    if hint.is_type {
        out["kind"] = json!(1);
    } else {
        out["paddingLeft"] = json!(true);
    }
    out
}

/// Converts a code lens. When the user clicks it, the client runs its command in a terminal.
fn code_lens(target: &RequestDocument, lens: &Lens) -> Value {
    let mut arguments = vec![json!(target.address), json!(lens.name)];
    if lens.kind == LensKind::Emit {
        arguments.push(json!("cuda"));
    }
    let (title, command) = convert::lens_command(lens.kind);
    convert::lens(&target.text, lens.range.start, json!({ "title": title, "command": command, "arguments": arguments }))
}

fn code_actions(target: &RequestDocument, range: Range<usize>, params: &Value) -> Value {
    let shown = || convert::diagnostics(&target.analysis, &target.text, &target.address);
    code_actions::actions_of(&target.places(), &target.analysis.diagnostics, &shown, range, params)
}

/// Formats a document. Returns no edits if the document has syntax errors, which are published as diagnostics.
fn formatting(target: &RequestDocument, range: Option<Range<usize>>) -> Value {
    let text = target.text.as_str();
    let formatted = match range {
        Some(range) => clk_fmt::format_range(FileId(0), text, range),
        None => clk_fmt::format(FileId(0), text),
    };
    let edit = |e: &clk_fmt::Edit| json!({ "range": target.json_range(&e.range), "newText": e.text });
    formatted.map_or(Value::Null, |Formatted { edits, .. }| edits.iter().map(edit).collect())
}
