//! The errors of requests: the request itself is invalid, or its program does not compile or run.

use std::ops::Range;

use super::json::JsonRaw;
use clk_base::diag::Diagnostic;
use clk_base::render;
use clk_base::source::{SourceMap, Span};
use clk_host::problem::RuntimeError;

/// The source name of a request in diagnostics.
const NAME: &str = "<request>";
/// Diagnostics show the text of a request only if it is at most this long, in bytes. For longer requests, they contain
/// the byte offset.
const LONGEST: usize = 1 << 20;

/// Why a request failed.
#[derive(Debug)]
pub(crate) enum LaunchRequestError {
    /// The request is invalid. The range is the part of its text that is wrong, if there is one.
    Request(Box<RuntimeError>, Option<Range<usize>>),
    /// The program or the launch failed, with these diagnostics.
    Program(Vec<Diagnostic>),
    /// The generated launch statement does not compile. The sources include that statement, which is not part of the
    /// program.
    Compilation(Vec<Diagnostic>, Box<SourceMap>),
}

pub(crate) type Result<T> = std::result::Result<T, LaunchRequestError>;

impl LaunchRequestError {
    /// Creates an error that concerns the request as a whole.
    pub fn new(code: &'static str, title: impl Into<String>) -> LaunchRequestError {
        LaunchRequestError::from(RuntimeError::new(code, title))
    }

    /// Creates an error that concerns one value of the request.
    pub fn at(code: &'static str, title: impl Into<String>, value: JsonRaw<'_>) -> LaunchRequestError {
        LaunchRequestError::Request(Box::new(RuntimeError::new(code, title)), Some(value.place()))
    }

    /// Converts an error, with its help and notes, to an error that concerns one value of the request.
    pub fn of(problem: RuntimeError, value: JsonRaw<'_>) -> LaunchRequestError {
        LaunchRequestError::Request(Box::new(problem), Some(value.place()))
    }

    /// Adds a help text.
    pub fn help(self, text: impl Into<String>) -> LaunchRequestError {
        match self {
            LaunchRequestError::Request(problem, place) => {
                LaunchRequestError::Request(Box::new(problem.help(text)), place)
            }
            program => program,
        }
    }

    /// Adds a note.
    pub fn note(self, text: impl Into<String>) -> LaunchRequestError {
        match self {
            LaunchRequestError::Request(problem, place) => {
                LaunchRequestError::Request(Box::new(problem.note(text)), place)
            }
            program => program,
        }
    }

    /// Returns the diagnostics of this error, and the sources to which they refer. `request` is the text of the
    /// request.
    pub fn diagnostics(self, request: &str, sources: &SourceMap) -> (Vec<Diagnostic>, SourceMap) {
        let mut sources = sources.clone();
        let result = match self {
            LaunchRequestError::Program(diagnostics) => diagnostics,
            LaunchRequestError::Compilation(diagnostics, own) => return (diagnostics, *own),
            LaunchRequestError::Request(problem, Some(place)) if request.len() <= LONGEST => {
                let file = sources.add(NAME, request);
                vec![problem.at(Span::new(file, place.start, place.end))]
            }
            LaunchRequestError::Request(problem, place) => {
                let problem = *problem;
                let mut diagnostic = Diagnostic::error(problem.code, problem.title);
                diagnostic.notes = problem.notes;
                diagnostic.help = problem.help;
                match place {
                    Some(place) => vec![diagnostic.note(format!("at byte {} of the request", place.start))],
                    None => vec![diagnostic],
                }
            }
        };
        (result, sources)
    }
}

impl From<RuntimeError> for LaunchRequestError {
    fn from(problem: RuntimeError) -> LaunchRequestError {
        match problem.device() {
            Some(_) => LaunchRequestError::Program(vec![problem.anywhere()]),
            None => LaunchRequestError::Request(Box::new(problem), None),
        }
    }
}

impl From<Vec<Diagnostic>> for LaunchRequestError {
    fn from(diagnostics: Vec<Diagnostic>) -> LaunchRequestError {
        LaunchRequestError::Program(diagnostics)
    }
}

/// Formats diagnostics as a JSON list. Each has the format that the option `--json` produces.
pub(crate) fn list(diagnostics: &[Diagnostic], sources: &SourceMap) -> String {
    let each: Vec<String> = diagnostics.iter().map(|d| render::json(d, sources)).collect();
    format!("[{}]", each.join(", "))
}
