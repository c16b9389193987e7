//! The formats of the command line's output (`--format`). [`Console`](super::console::Console) writes text and JSON
//! lines at once. SARIF and JUnit are documents: they collect the reports of a command, and are written when it ends.
//! `docs/internals/output-formats.md` describes which stream has what.

pub(crate) mod annotation;
pub(crate) mod junit;
pub(crate) mod sarif;

use serde_json::{Value, json};

use clk_base::render::JSON_VERSION;

/// The JSON schema of JSON lines.
pub(crate) const SCHEMA: &str = include_str!("../../../docs/schema/clk-output.schema.json");

/// The format of a command's results and diagnostics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum OutputFormat {
    #[default]
    Human,
    /// One JSON object per line.
    Json,
    /// A SARIF 2.1.0 log.
    Sarif,
    /// Text, and annotations of GitHub workflows.
    Github,
    /// A JUnit XML report.
    Junit,
}

impl OutputFormat {
    pub const ALL: [OutputFormat; 5] =
        [OutputFormat::Human, OutputFormat::Json, OutputFormat::Sarif, OutputFormat::Github, OutputFormat::Junit];

    pub fn from_name(name: &str) -> Option<OutputFormat> {
        OutputFormat::ALL.into_iter().find(|format| format.name() == name)
    }

    /// Returns the name, which is the value of `--format`.
    pub fn name(self) -> &'static str {
        match self {
            OutputFormat::Human => "human",
            OutputFormat::Json => "json",
            OutputFormat::Sarif => "sarif",
            OutputFormat::Github => "github",
            OutputFormat::Junit => "junit",
        }
    }
}

/// The document that a command writes when it ends.
pub(crate) enum OutputDocument {
    Sarif(Box<sarif::SarifLog>),
    Junit(junit::JunitReport),
}

impl OutputDocument {
    /// Returns the empty document of a format; `None` if the format is not a document.
    pub fn of(format: OutputFormat) -> Option<OutputDocument> {
        match format {
            OutputFormat::Sarif => Some(OutputDocument::Sarif(Box::default())),
            OutputFormat::Junit => Some(OutputDocument::Junit(junit::JunitReport::default())),
            OutputFormat::Human | OutputFormat::Json | OutputFormat::Github => None,
        }
    }
}

/// Returns a record of the JSON output: the object with its version and kind.
pub(crate) fn record(kind: &str, mut object: Value) -> Value {
    object["version"] = json!(JSON_VERSION);
    object["kind"] = json!(kind);
    object
}

/// A message without a code, such as `note: the proof was stopped`, split into its parts.
pub(crate) struct PlainMessage<'a> {
    /// `error`, `warning` or `note`.
    pub severity: &'static str,
    pub text: &'a str,
    pub help: Option<&'a str>,
}

impl<'a> PlainMessage<'a> {
    /// Splits the text of a message. A message without a severity is a note.
    pub fn parse(message: &'a str) -> PlainMessage<'a> {
        let prefixes = [("error: ", "error"), ("warning: ", "warning"), ("note: ", "note")];
        let (rest, severity) = prefixes
            .into_iter()
            .find_map(|(prefix, severity)| Some((message.strip_prefix(prefix)?, severity)))
            .unwrap_or((message, "note"));
        let (text, help) = match rest.split_once("\n  Help: ") {
            Some((text, help)) => (text, Some(help)),
            None => (rest, None),
        };
        PlainMessage { severity, text, help }
    }
}
