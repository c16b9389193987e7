//! Errors of requests: invalid requests, or errors of the program or its run.

use std::ops::Range;

use super::json::Raw;
use crate::base::diag::Diagnostic;
use crate::base::render;
use crate::base::source::{Sources, Span};
use crate::host::problem::Problem;

/// Source name of the request's text in diagnostics.
const NAME: &str = "<request>";
/// Maximum length in bytes of a request whose text is shown in diagnostics; of a longer one only its length is stated.
const LONGEST: usize = 1 << 20;

/// Why a request failed.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// The request is invalid, with the byte range in its text.
    Request(Box<Problem>, Option<Range<usize>>),
    /// The program or its run failed.
    Program(Vec<Diagnostic>),
    /// Compilation failed; with the sources of the text that was not added to the program.
    Compilation(Vec<Diagnostic>, Box<Sources>),
}

pub(crate) type Result<T> = std::result::Result<T, Refusal>;

impl Refusal {
    /// Creates an error about the request as a whole.
    pub fn new(code: &'static str, title: impl Into<String>) -> Refusal {
        Refusal::from(Problem::new(code, title))
    }

    /// Creates an error about one value of the request.
    pub fn at(code: &'static str, title: impl Into<String>, value: Raw<'_>) -> Refusal {
        Refusal::Request(Box::new(Problem::new(code, title)), Some(value.place()))
    }

    /// Creates an error about one value of the request from a problem with help or notes.
    pub fn of(problem: Problem, value: Raw<'_>) -> Refusal {
        Refusal::Request(Box::new(problem), Some(value.place()))
    }

    /// Adds a help.
    pub fn help(self, text: impl Into<String>) -> Refusal {
        match self {
            Refusal::Request(problem, place) => Refusal::Request(Box::new(problem.help(text)), place),
            program => program,
        }
    }

    /// Adds a note.
    pub fn note(self, text: impl Into<String>) -> Refusal {
        match self {
            Refusal::Request(problem, place) => Refusal::Request(Box::new(problem.note(text)), place),
            program => program,
        }
    }

    /// Returns the diagnostics and the sources they refer to.
    pub fn diagnostics(self, request: &str, sources: &Sources) -> (Vec<Diagnostic>, Sources) {
        let mut sources = sources.clone();
        let found = match self {
            Refusal::Program(diagnostics) => diagnostics,
            Refusal::Compilation(diagnostics, own) => return (diagnostics, *own),
            Refusal::Request(problem, Some(place)) if request.len() <= LONGEST => {
                let file = sources.add(NAME, request);
                vec![problem.at(Span::new(file, place.start, place.end))]
            }
            Refusal::Request(problem, place) => {
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
        (found, sources)
    }
}

impl From<Problem> for Refusal {
    fn from(problem: Problem) -> Refusal {
        match problem.device() {
            Some(_) => Refusal::Program(vec![problem.anywhere()]),
            None => Refusal::Request(Box::new(problem), None),
        }
    }
}

impl From<Vec<Diagnostic>> for Refusal {
    fn from(diagnostics: Vec<Diagnostic>) -> Refusal {
        Refusal::Program(diagnostics)
    }
}

/// Returns diagnostics as a JSON list, each in the format of `--json`.
pub(crate) fn list(diagnostics: &[Diagnostic], sources: &Sources) -> String {
    let each: Vec<String> = diagnostics.iter().map(|d| render::json(d, sources)).collect();
    format!("[{}]", each.join(", "))
}
