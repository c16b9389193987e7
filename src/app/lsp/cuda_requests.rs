//! Answers requests about CUDA files. Requests that need more than the translation are answered with nothing.

use std::sync::Arc;

use serde_json::{Value, json};

use super::code_actions;
use super::convert;
use super::cuda_analysis::CudaAnalysis;
use super::snapshot::DocumentsView;
use super::text::Text;
use crate::{cuda_proofs, proof};
use clk_base::stop;
use clk_ide::{LensKind, SymbolKind};
use clk_prove::ProofReport;

/// The CUDA file that a request refers to, with its analysis.
pub(super) struct CudaDocument {
    address: String,
    text: Text,
    analysis: Arc<CudaAnalysis>,
}

impl CudaDocument {
    pub fn of(view: &DocumentsView, params: &Value) -> Option<CudaDocument> {
        let address = params.pointer("/textDocument/uri").and_then(Value::as_str)?;
        let analysis = view.cuda(address)?;
        let text = view.documents.get(address)?.text.clone();
        Some(CudaDocument { address: address.to_owned(), text, analysis })
    }
}

/// Answers a request; returns `None` if the server does not offer the method.
pub(super) fn answer(target: &CudaDocument, method: &str, params: &Value) -> Option<Value> {
    Some(match method {
        "textDocument/hover" => hover(target, params),
        "textDocument/documentSymbol" => symbols(target),
        "textDocument/codeLens" => lenses(target),
        "textDocument/codeAction" => code_actions(target, params),
        // The file is not Clk, and other servers know its language.
        _ if method.starts_with("textDocument/") => Value::Null,
        _ => return None,
    })
}

fn hover(target: &CudaDocument, params: &Value) -> Value {
    let offset = target.text.offset_of(params.get("position").unwrap_or(&Value::Null));
    target.analysis.hover(offset).map_or(Value::Null, |(text, range)| {
        json!({ "contents": { "kind": "markdown", "value": text }, "range": target.text.json_range(&range) })
    })
}

fn symbols(target: &CudaDocument) -> Value {
    let all = target.analysis.symbols();
    let symbols = all.iter().map(|symbol| {
        json!({
            "name": symbol.name,
            "detail": symbol.detail,
            "kind": convert::symbol_kind(SymbolKind::Fn),
            "range": target.text.json_range(&symbol.range),
            "selectionRange": target.text.json_range(&symbol.name_range),
        })
    });
    symbols.collect()
}

/// Returns lenses that prove and profile each translated kernel.
fn lenses(target: &CudaDocument) -> Value {
    let mut all = vec![];
    for kernel in target.analysis.kernels() {
        for kind in [LensKind::Prove, LensKind::Profile] {
            let (title, command) = convert::lens_command(kind);
            let title = if kernel.is_instance { format!("{title} {}", kernel.name) } else { title.to_owned() };
            let arguments = json!([target.address, kernel.name]);
            let command = json!({ "title": title, "command": command, "arguments": arguments });
            all.push(convert::lens(&target.text, kernel.place.start, command));
        }
    }
    Value::Array(all)
}

fn code_actions(target: &CudaDocument, params: &Value) -> Value {
    let (analysis, text) = (&target.analysis, &target.text);
    let range = params.get("range").map_or(0..text.as_str().len(), |range| text.range_of(range));
    let shown = || convert::cuda_diagnostics(analysis, text, &target.address);
    code_actions::actions_of(&analysis.places(text, &target.address), &analysis.diagnostics(), &shown, range, params)
}

/// Proves a kernel. Returns the report, and its text with the assumptions of the translation.
pub(super) fn prove(analysis: &CudaAnalysis, name: &str) -> Option<(ProofReport, String)> {
    let kernels = &analysis.loaded.program.kernels;
    let report =
        cuda_proofs::prove(&analysis.session, analysis.kernel(name)?, kernels, &stop::flag().unwrap_or_default());
    let sources = &analysis.session.sources;
    let mut text = String::new();
    for assumption in kernels.iter().filter(|kernel| kernel.clk_name == name).flat_map(|kernel| &kernel.assumptions) {
        let (line, _) = sources.line_column(assumption.source.span);
        text += &format!("note: the translation of `{name}` assumes that {} (line {line})\n", assumption.text);
    }
    text += &proof::report_text(&report, sources);
    Some((report, text))
}
