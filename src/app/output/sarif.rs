//! SARIF 2.1.0: the log of a command's diagnostics, which GitHub, GitLab and editors show at their places.
//!
//! A diagnostic is a result, its other labels are related locations, and its fixes are fixes. The two accesses of a
//! race are the thread flows of a code flow. Messages without a place are notifications. Other JSON records, such as
//! the verdicts of `clk prove`, are in the property `records` of the run.

use std::path::{Component, Path, PathBuf};

use serde_json::{Value, json};

use clk_base::diag::{DiagLabel, Diagnostic, Fix, LabelRole, Severity};
use clk_base::escape;
use clk_base::render::{applicability_word, severity_word};
use clk_base::source::{SourceMap, Span};

use crate::{exit, uri};

/// The name of the folder to which the paths are relative.
const BASE: &str = "%SRCROOT%";

/// The results of a run so far.
pub(crate) struct SarifLog {
    /// The current folder; `None` if it is unknown.
    folder: Option<PathBuf>,
    results: Vec<Value>,
    /// The codes of the results, in the order of their first use.
    rules: Vec<&'static str>,
    notifications: Vec<Value>,
    has_errors: bool,
    records: Vec<Value>,
}

impl Default for SarifLog {
    fn default() -> SarifLog {
        let folder = std::env::current_dir().ok();
        SarifLog { folder, results: vec![], rules: vec![], notifications: vec![], has_errors: false, records: vec![] }
    }
}

impl SarifLog {
    pub fn add_diagnostic(&mut self, diagnostic: &Diagnostic, sources: &SourceMap) {
        let diagnostic = &*diagnostic.at_origins(sources);
        let level = severity_word(diagnostic.severity);
        let Some(primary) = diagnostic.primary() else {
            // Code scanning refuses results without a location.
            return self.notify(level, &message_text(diagnostic), Some(diagnostic.code));
        };
        let rule = self.rules.iter().position(|code| *code == diagnostic.code).unwrap_or_else(|| {
            self.rules.push(diagnostic.code);
            self.rules.len() - 1
        });
        let mut result = json!({
            "ruleId": diagnostic.code,
            "ruleIndex": rule,
            "level": level,
            "message": { "text": message_text(diagnostic) },
            "locations": [{ "physicalLocation": self.physical_location(primary, sources) }],
        });
        let others = diagnostic.labels.iter().filter(|label| !label.is_primary());
        let related: Vec<Value> = others
            .enumerate()
            .map(|(number, label)| {
                let mut location = self.location(label, sources);
                location["id"] = json!(number + 1);
                location
            })
            .collect();
        if !related.is_empty() {
            result["relatedLocations"] = json!(related);
        }
        if let Some(flow) = self.code_flow(diagnostic, sources) {
            result["codeFlows"] = json!([flow]);
        }
        if !diagnostic.fixes.is_empty() {
            let fixes: Vec<Value> = diagnostic.fixes.iter().map(|fix| self.fix(fix, sources)).collect();
            result["fixes"] = json!(fixes);
        }
        self.results.push(result);
    }

    /// Adds a message without a location.
    pub fn notify(&mut self, level: &str, text: &str, code: Option<&str>) {
        self.has_errors |= level == "error";
        let mut notification = json!({ "level": level, "message": { "text": text } });
        if let Some(code) = code {
            notification["associatedRule"] = json!({ "id": code });
        }
        self.notifications.push(notification);
    }

    /// Adds a record of the JSON output.
    pub fn add_record(&mut self, record: Value) {
        self.records.push(record);
    }

    /// Returns the document. `code` is the exit code of the process.
    pub fn finish(&self, code: u8) -> String {
        // Errors of programs are results; they do not mean that the tool failed.
        let is_successful = matches!(code, exit::OK | exit::FAILURE) && !self.has_errors;
        let mut invocation = json!({
            "executionSuccessful": is_successful,
            "exitCode": code,
            "toolExecutionNotifications": self.notifications,
        });
        let rules: Vec<Value> = self.rules.iter().map(|code| rule(code)).collect();
        let mut run = json!({
            "tool": { "driver": {
                "name": "Clk",
                "semanticVersion": env!("CARGO_PKG_VERSION"),
                "rules": rules,
            } },
            "columnKind": "unicodeCodePoints",
            "results": self.results,
        });
        if let Some(folder) = &self.folder {
            let uri = folder_uri(folder);
            invocation["workingDirectory"] = json!({ "uri": uri });
            run["originalUriBaseIds"] = json!({ BASE: { "uri": uri } });
        }
        run["invocations"] = json!([invocation]);
        if !self.records.is_empty() {
            run["properties"] = json!({ "records": self.records });
        }
        let log = json!({
            "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
            "version": "2.1.0",
            "runs": [run],
        });
        escape::json(format!("{log:#}\n"))
    }

    fn location(&self, label: &DiagLabel, sources: &SourceMap) -> Value {
        let mut location = json!({ "physicalLocation": self.physical_location(label.span, sources) });
        if !label.text.is_empty() {
            location["message"] = json!({ "text": label.text });
        }
        location
    }

    fn physical_location(&self, span: Span, sources: &SourceMap) -> Value {
        json!({
            "artifactLocation": self.artifact_location(sources.name(span.file)),
            "region": region(span, sources),
        })
    }

    /// Returns a flow with the locations of each thread that takes part in the fault; `None` if there is only one.
    fn code_flow(&self, diagnostic: &Diagnostic, sources: &SourceMap) -> Option<Value> {
        let labels = &diagnostic.labels;
        let others: Vec<&DiagLabel> = labels.iter().filter(|label| label.role == LabelRole::OtherThread).collect();
        if others.is_empty() {
            return None;
        }
        // The labels of calls begin with the innermost one.
        let calls = labels.iter().filter(|label| label.role == LabelRole::Call).rev();
        let first: Vec<&DiagLabel> = calls.chain(labels.iter().filter(|label| label.is_primary())).collect();
        let threads = std::iter::once(first).chain(others.into_iter().map(|label| vec![label]));
        let flows: Vec<Value> = threads
            .enumerate()
            .map(|(number, thread)| {
                let step = |label: &&DiagLabel| json!({ "location": self.location(label, sources) });
                let locations: Vec<Value> = thread.iter().map(step).collect();
                json!({ "id": format!("thread {}", number + 1), "locations": locations })
            })
            .collect();
        Some(json!({ "threadFlows": flows }))
    }

    fn fix(&self, fix: &Fix, sources: &SourceMap) -> Value {
        let mut files: Vec<(Span, Vec<Value>)> = vec![];
        for (span, text) in &fix.edits {
            let replacement = json!({ "deletedRegion": region(*span, sources), "insertedContent": { "text": text } });
            match files.iter_mut().find(|(first, _)| first.file == span.file) {
                Some((_, edits)) => edits.push(replacement),
                None => files.push((*span, vec![replacement])),
            }
        }
        let changes: Vec<Value> = files
            .into_iter()
            .map(|(span, edits)| {
                let artifact = self.artifact_location(sources.name(span.file));
                json!({ "artifactLocation": artifact, "replacements": edits })
            })
            .collect();
        json!({
            "description": { "text": fix.title },
            "artifactChanges": changes,
            "properties": { "applicability": applicability_word(fix.applicability) },
        })
    }

    /// Returns the location of a source. Texts that are not files, such as modules of the standard library, have the
    /// scheme `clk`.
    fn artifact_location(&self, name: &str) -> Value {
        let Some(folder) = self.folder.as_ref().filter(|_| Path::new(name).exists()) else {
            return json!({ "uri": format!("clk:{}", uri::percent_encode(name)) });
        };
        let path = normalize(&folder.join(name));
        match path.strip_prefix(normalize(folder)) {
            Ok(relative) => json!({ "uri": uri::percent_encode(&slashes(relative)), "uriBaseId": BASE }),
            Err(_) => json!({ "uri": uri::from_path(&path) }),
        }
    }
}

/// Returns the text of a diagnostic without excerpts: the title, the primary label, notes and help, one per line.
pub(crate) fn message_text(diagnostic: &Diagnostic) -> String {
    let label = diagnostic.labels.iter().find(|label| label.is_primary()).map(|label| label.text.clone());
    let notes = diagnostic.notes.iter().map(|note| format!("Note: {note}"));
    let help = diagnostic.help.iter().map(|help| format!("Help: {help}"));
    let fixes = diagnostic.fixes.iter().map(|fix| format!("Help: {}", fix.title));
    let lines = label.into_iter().filter(|text| !text.is_empty()).chain(notes).chain(help).chain(fixes);
    std::iter::once(diagnostic.title.clone()).chain(lines).collect::<Vec<_>>().join("\n")
}

/// Returns the description of a code.
fn rule(code: &str) -> Value {
    let severity = if code.starts_with('W') { Severity::Warning } else { Severity::Error };
    let mut rule = json!({ "id": code, "defaultConfiguration": { "level": severity_word(severity) } });
    if let Some(page) = clk_codes::find(code) {
        rule["shortDescription"] = json!({ "text": page.title });
        rule["help"] = json!({ "text": page.text.trim(), "markdown": page.text.trim() });
    }
    rule
}

fn region(span: Span, sources: &SourceMap) -> Value {
    let (line, column) = sources.line_column(span);
    let (end_line, end_column) = sources.line_column(span.after());
    json!({ "startLine": line, "startColumn": column, "endLine": end_line, "endColumn": end_column })
}

/// Removes `.` and resolves `..` without asking the disk.
fn normalize(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                normal.pop();
            }
            other => normal.push(other),
        }
    }
    normal
}

fn slashes(path: &Path) -> String {
    let parts: Vec<String> = path.components().map(|part| part.as_os_str().to_string_lossy().into_owned()).collect();
    parts.join("/")
}

/// Returns the URI of a folder, which ends with a slash.
fn folder_uri(path: &Path) -> String {
    let folder = uri::from_path(path);
    if folder.ends_with('/') { folder } else { folder + "/" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uris_are_encoded() {
        assert_eq!(uri::percent_encode("a b/é%.clk"), "a%20b/%C3%A9%25.clk");
        assert_eq!(folder_uri(Path::new("/tmp/x y")), "file:///tmp/x%20y/");
        assert_eq!(normalize(Path::new("/a/./b/../c")), PathBuf::from("/a/c"));
        let location = SarifLog::default().artifact_location("<stdin>");
        assert_eq!(location, json!({ "uri": "clk:%3Cstdin%3E" }));
    }

    #[test]
    fn threads_have_flows() {
        let mut sources = SourceMap::default();
        let file = sources.add("Cargo.toml", "one two three four");
        let span = |start, end| Span::new(file, start, end);
        let diagnostic = Diagnostic::error("E0610", "a race")
            .at(span(0, 3), "thread 0 writes")
            .label(LabelRole::Call, span(4, 7), "called from here")
            .label(LabelRole::OtherThread, span(8, 13), "thread 1 reads")
            .because(span(14, 18), "launched here");
        let mut log = SarifLog::default();
        log.add_diagnostic(&diagnostic, &sources);
        let result = &log.results[0];
        assert_eq!(result["relatedLocations"].as_array().map(Vec::len), Some(3));
        let flows = &result["codeFlows"][0]["threadFlows"];
        let columns = |flow: &Value| -> Vec<Value> {
            let steps = flow["locations"].as_array().into_iter().flatten();
            steps.map(|step| step["location"]["physicalLocation"]["region"]["startColumn"].clone()).collect()
        };
        assert_eq!(columns(&flows[0]), [5, 1]);
        assert_eq!(columns(&flows[1]), [9]);
        assert!(flows[2].is_null());
    }
}
