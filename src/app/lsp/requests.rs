//! Handlers of the requests, one function each.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Value, json};

use super::answer::{self, Failure};
use super::convert::{self, PROVE};
use super::document::Overlay;
use super::text::Text;
use super::view::View;
use super::workspace::Search;
use crate::app::proof;
use crate::base::diag::{Diagnostic, Fix};
use crate::base::render::{self, Style};
use crate::base::source::FileId;
use crate::fmt::{self, Formatted};
use crate::ide::{Analysis, Hint, Lens, LensKind};
use crate::prove::examine;

type Answer = Result<Value, Failure>;

/// The document that a request refers to.
struct Target {
    address: String,
    text: Text,
    analysis: Arc<Analysis>,
}

impl Target {
    fn json_range(&self, range: &Range<usize>) -> Value {
        self.text.json_range(range)
    }
}

/// Answers a request; `messages` are for the client to show.
pub(crate) fn answer(view: &View, method: &str, params: &Value, messages: &mut Vec<Value>) -> Answer {
    if method == "workspace/symbol" {
        return workspace_symbols(view, params, messages);
    }
    if method == "workspace/executeCommand" {
        return execute(view, params, messages);
    }
    let known = method.starts_with("textDocument/") || method.starts_with("$/");
    let Some(target) = target(view, params) else {
        let address = params.pointer("/textDocument/uri").and_then(Value::as_str);
        return match address {
            _ if !known => Err(unknown(method)),
            // The document was closed meanwhile.
            Some(_) => Ok(Value::Null),
            None => Err(Failure { code: answer::INVALID_PARAMS, message: "no `textDocument.uri`".into() }),
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
        "textDocument/foldingRange" => Ok(folds(&target)),
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

/// Executes the one command that the server has: to say what is proved of a kernel. The answer is the text; the client is told a
/// summary.
fn execute(view: &View, params: &Value, messages: &mut Vec<Value>) -> Answer {
    if params.get("command").and_then(Value::as_str) != Some(PROVE) {
        return Err(Failure { code: answer::INVALID_PARAMS, message: format!("the server has the command `{PROVE}`") });
    }
    let words: Vec<&str> =
        params.get("arguments").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
    let [address, name, ..] = words[..] else {
        return Err(Failure { code: answer::INVALID_PARAMS, message: "a document and a kernel are wanted".into() });
    };
    let Some(analysis) = view.analysis(address) else { return Ok(Value::Null) };
    let session = &analysis.session;
    let Some((kernel, _)) = session.program.kernels_of(session.main).find(|(_, k)| k.name == name) else {
        return Err(Failure::refused(format!("there is no kernel `{name}`, or the program has errors")));
    };
    let report = examine(&session.program, kernel);
    let style = Style::default();
    let mut text = proof::text(&report, &session.sources, style);
    for found in proof::counterexamples(&report) {
        text += &format!("\n{}", render::text(&found, &session.sources, style));
    }
    // Warnings stand out as what is not proved should.
    let kind = if report.is_refuted() { 2 } else { 3 };
    messages.push(shown(kind, &proof::summary(&report)));
    Ok(json!(text))
}

/// Returns the message that shows a text: a warning (2) or information (3).
fn shown(kind: u8, text: &str) -> Value {
    answer::notification("window/showMessage", json!({ "type": kind, "message": text }))
}

/// Tells the user that a search was incomplete.
fn mention(missing: Option<String>, messages: &mut Vec<Value>) {
    messages.extend(missing.map(|text| shown(2, &text)));
}

fn unknown(method: &str) -> Failure {
    Failure { code: answer::METHOD_NOT_FOUND, message: format!("`{method}` is not offered") }
}

fn target(view: &View, params: &Value) -> Option<Target> {
    let address = params.pointer("/textDocument/uri").and_then(Value::as_str)?;
    let analysis = view.analysis(address)?;
    let text = view.documents.get(address)?.text.clone();
    Some(Target { address: address.to_owned(), text, analysis })
}

fn hover(target: &Target, offset: usize) -> Value {
    target.analysis.hover(offset).map_or(Value::Null, |hover| {
        json!({ "contents": { "kind": "markdown", "value": hover.text }, "range": target.json_range(&hover.range) })
    })
}

fn completion(view: &View, target: &Target, offset: usize) -> Value {
    let found = target.analysis.complete(offset, &Overlay(&view.documents));
    let items: Vec<Value> = found.iter().enumerate().map(|(i, c)| convert::completion(&target.text, c, i)).collect();
    json!({ "isIncomplete": false, "items": items })
}

fn signature(target: &Target, offset: usize) -> Value {
    let Some(found) = target.analysis.signature(offset) else { return Value::Null };
    // Offsets in the label count UTF-16 code units, whatever the negotiated position encoding.
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

fn definition(target: &Target, offset: usize) -> Value {
    let place = target.analysis.definition(offset);
    place.map_or(Value::Null, |place| convert::location(&target.analysis, &target.text, &target.address, &place))
}

/// Returns the locations of a name in all texts, with their URIs, and the search for them, unless one text has them all.
fn places(view: &View, target: &Target, offset: usize) -> (Vec<(String, Value, bool)>, Option<Search>) {
    let own = target.analysis.references(offset);
    let mut out: Vec<(String, Value, bool)> =
        own.iter().map(|(range, write)| (target.address.clone(), target.json_range(range), *write)).collect();
    let Some(place) = target.analysis.definition(offset) else { return (out, None) };
    if !target.analysis.is_shared(offset) {
        return (out, None);
    }
    let word = own.first().and_then(|(range, _)| target.analysis.text.get(range.clone())).unwrap_or("");
    // A text that imports the name under an alias also contains the original name.
    let search = view.everything_with(word);
    for seen in &search.seen {
        if seen.address != target.address {
            let found = seen.analysis.references_to(&place.file, &place.range);
            out.extend(found.iter().map(|(r, write)| (seen.address.clone(), seen.text.json_range(r), *write)));
        }
    }
    (out, Some(search))
}

fn references(view: &View, target: &Target, offset: usize, params: &Value, messages: &mut Vec<Value>) -> Value {
    let with_definition = params.pointer("/context/includeDeclaration").and_then(Value::as_bool).unwrap_or(true);
    let definition = self::definition(target, offset);
    let (found, search) = places(view, target, offset);
    mention(search.and_then(|search| search.missing()), messages);
    let locations = found.into_iter().map(|(address, range, _)| json!({ "uri": address, "range": range }));
    locations.filter(|location| with_definition || *location != definition).collect()
}

fn highlight(target: &Target, offset: usize) -> Value {
    let found = target.analysis.references(offset);
    let one = |(range, write): &(Range<usize>, bool)| json!({ "range": target.json_range(range), "kind": if *write { 3 } else { 2 } });
    found.iter().map(one).collect()
}

fn prepare_rename(target: &Target, offset: usize) -> Answer {
    target.analysis.renamable(offset).map(|range| target.json_range(&range)).map_err(Failure::refused)
}

fn rename(view: &View, target: &Target, offset: usize, params: &Value, messages: &mut Vec<Value>) -> Answer {
    let new = params.get("newName").and_then(Value::as_str).unwrap_or("");
    target.analysis.rename(offset, new, &Overlay(&view.documents)).map_err(Failure::refused)?;
    let mut changes = json!({});
    let (places, search) = places(view, target, offset);
    let defined = target.analysis.definition(offset).map(|place| PathBuf::from(place.file));
    if let (Some(search), Some(file)) = (&search, &defined) {
        if let Some(why) = search.missing_of(file) {
            return Err(Failure::refused(format!("{why}, and it may have the name, too: nothing was renamed")));
        }
        mention(search.missing(), messages);
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

fn workspace_symbols(view: &View, params: &Value, messages: &mut Vec<Value>) -> Answer {
    let query = params.get("query").and_then(Value::as_str).unwrap_or("").to_lowercase();
    let mut out = Vec::new();
    let search = view.everything_with(&query);
    mention(search.missing(), messages);
    for seen in search.seen {
        for symbol in seen.analysis.symbols() {
            if symbol.name.to_lowercase().contains(&query) {
                let location = json!({ "uri": seen.address, "range": seen.text.json_range(&symbol.name_range) });
                out.push(
                    json!({ "name": symbol.name, "kind": convert::symbol_kind(symbol.kind), "location": location }),
                );
            }
        }
    }
    Ok(Value::Array(out))
}

fn folds(target: &Target) -> Value {
    let one = |fold: crate::ide::Fold| {
        let (first, last) = (target.text.line_of(fold.range.start), target.text.line_of(fold.range.end));
        // The line of a closing bracket stays visible.
        let last = if fold.comment || fold.imports { last } else { last.saturating_sub(1) };
        let mut out = json!({ "startLine": first, "endLine": last });
        if fold.comment || fold.imports {
            out["kind"] = json!(if fold.comment { "comment" } else { "imports" });
        }
        (last > first).then_some(out)
    };
    target.analysis.folds().into_iter().filter_map(one).collect()
}

fn tokens(target: &Target, range: Option<Range<usize>>) -> Value {
    let mut found = target.analysis.highlights();
    if let Some(range) = range {
        found.retain(|h| h.range.end >= range.start && h.range.start <= range.end);
    }
    json!({ "data": convert::semantic_tokens(&target.text, &found) })
}

fn inlay(target: &Target, hint: &Hint) -> Value {
    let mut out = json!({ "position": target.text.json_position(hint.offset), "label": hint.text });
    if hint.is_type {
        out["kind"] = json!(1);
    } else {
        out["paddingLeft"] = json!(true);
    }
    out
}

/// Converts a code lens. Its commands are executed by the client, in its own terminal.
fn code_lens(target: &Target, lens: &Lens) -> Value {
    let (title, command) = match lens.kind {
        LensKind::Run => ("▶ run", "clk.run"),
        LensKind::Test => ("▶ test", "clk.test"),
        LensKind::Bench => ("▶ bench", "clk.bench"),
        LensKind::Emit => ("CUDA", "clk.emit"),
        LensKind::Prove => ("prove", PROVE),
        LensKind::Profile => ("profile", "clk.profile"),
    };
    let mut arguments = vec![json!(target.address), json!(lens.name)];
    if lens.kind == LensKind::Emit {
        arguments.push(json!("cuda"));
    }
    let line = target.text.offset(target.text.line_of(lens.range.start), 0);
    json!({
        "range": target.json_range(&(line..line)),
        "command": { "title": title, "command": command, "arguments": arguments },
    })
}

fn code_actions(target: &Target, range: Range<usize>, params: &Value) -> Value {
    let only: Option<Vec<&str>> =
        params.pointer("/context/only").and_then(Value::as_array).map(|o| o.iter().filter_map(Value::as_str).collect());
    let wanted = |kind: &str| only.as_ref().is_none_or(|only| only.iter().any(|o| kind.starts_with(o)));
    let mut out = Vec::new();
    if wanted("quickfix") {
        for found in &target.analysis.diagnostics {
            let touches = found.labels.iter().any(|l| {
                l.span.file == target.analysis.file
                    && l.span.range().start <= range.end
                    && range.start <= l.span.range().end
            });
            if touches {
                out.extend(found.fixes.iter().filter_map(|f| quick_fix(target, found, f)));
            }
        }
    }
    let sure: Vec<&Fix> = crate::app::fixes::together(&target.analysis.diagnostics, target.analysis.file);
    if wanted("source.fixAll")
        && !sure.is_empty()
        && let Some(edit) = convert::fix(&target.analysis, &target.text, &target.address, &sure)
    {
        out.push(json!({ "title": "Apply all fixes that are sure", "kind": "source.fixAll", "edit": edit }));
    }
    Value::Array(out)
}

fn quick_fix(target: &Target, found: &Diagnostic, fix: &Fix) -> Option<Value> {
    let edit = convert::fix(&target.analysis, &target.text, &target.address, &[fix])?;
    let diagnostics = convert::diagnostics(&target.analysis, &target.text, &target.address);
    let index = target.analysis.diagnostics.iter().position(|d| d == found)?;
    Some(json!({
        "title": fix.title,
        "kind": "quickfix",
        "isPreferred": convert::is_sure(fix),
        "diagnostics": [diagnostics.get(index)],
        "edit": edit,
    }))
}

/// Formats a document; returns no edits if it has syntax errors, which its diagnostics report.
fn formatting(target: &Target, range: Option<Range<usize>>) -> Value {
    let text = target.text.as_str();
    let formatted = match range {
        Some(range) => fmt::format_range(FileId(0), text, range),
        None => fmt::format(FileId(0), text),
    };
    let edit = |e: &fmt::Edit| json!({ "range": target.json_range(&e.range), "newText": e.text });
    formatted.map_or(Value::Null, |Formatted { edits, .. }| edits.iter().map(edit).collect())
}
