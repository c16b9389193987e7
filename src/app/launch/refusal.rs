//! Why a request is not done: what is wrong with the request itself, or with the program at it.

use std::ops::Range;

use super::json::Raw;
use crate::base::diag::Diagnostic;
use crate::base::render;
use crate::base::source::{Sources, Span};
use crate::host::problem::Problem;

/// What messages call the text of a request.
const NAME: &str = "<request>";
/// Of a longer request no place is shown, only its number of bytes.
const LONGEST: usize = 1 << 20;

/// Why a request is not done.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// Of the request; the place is in its text.
    Request(Box<Problem>, Option<Range<usize>>),
    /// Of the program and its run.
    Program(Vec<Diagnostic>),
    /// Of a text that did not become part of the program, with its own texts.
    Compilation(Vec<Diagnostic>, Box<Sources>),
}

pub(crate) type Result<T> = std::result::Result<T, Refusal>;

impl Refusal {
    /// Of the request as a whole.
    pub fn new(code: &'static str, title: impl Into<String>) -> Refusal {
        Refusal::from(Problem::new(code, title))
    }

    /// Of one value of the request.
    pub fn at(code: &'static str, title: impl Into<String>, value: Raw<'_>) -> Refusal {
        Refusal::Request(Box::new(Problem::new(code, title)), Some(value.place()))
    }

    /// Of a value of the request, with more to say than a title.
    pub fn of(problem: Problem, value: Raw<'_>) -> Refusal {
        Refusal::Request(Box::new(problem), Some(value.place()))
    }

    /// What to do about it.
    pub fn help(self, text: impl Into<String>) -> Refusal {
        match self {
            Refusal::Request(problem, place) => Refusal::Request(Box::new(problem.help(text)), place),
            program => program,
        }
    }

    /// What else there is to know.
    pub fn note(self, text: impl Into<String>) -> Refusal {
        match self {
            Refusal::Request(problem, place) => Refusal::Request(Box::new(problem.note(text)), place),
            program => program,
        }
    }

    /// The diagnostics and the texts that they point into.
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
        Refusal::Request(Box::new(problem), None)
    }
}

impl From<Vec<Diagnostic>> for Refusal {
    fn from(diagnostics: Vec<Diagnostic>) -> Refusal {
        Refusal::Program(diagnostics)
    }
}

/// Diagnostics as a JSON list, each as `--json` writes it.
pub(crate) fn list(diagnostics: &[Diagnostic], sources: &Sources) -> String {
    let each: Vec<String> = diagnostics.iter().map(|d| render::json(d, sources)).collect();
    format!("[{}]", each.join(", "))
}
