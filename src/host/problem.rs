//! Errors of operations on values: diagnostics without a location, which the interpreter adds.

use crate::base::diag::Diagnostic;
use crate::base::source::Span;
use crate::device::{DeviceError, device_diagnostic};

/// The help where a derivative stands in the way.
pub(crate) const NO_GRAD: &str = "`no_grad(x)` takes a value as a constant, if that is meant";

/// A run-time error as plain data.
#[derive(Clone, Debug, PartialEq)]
pub struct Problem {
    /// A code of `lang::codes::run`.
    pub code: &'static str,
    /// The message, one sentence without a period.
    pub title: String,
    /// The text at the marked location; may be empty.
    pub label: String,
    pub notes: Vec<String>,
    pub help: Vec<String>,
    pub elsewhere: Option<Box<Elsewhere>>,
}

/// What a problem has its reason in that is not where it shows.
#[derive(Clone, Debug, PartialEq)]
pub enum Elsewhere {
    /// The failure of a device that has kept the bytes of an array from being read. It is the whole message.
    Device(DeviceError),
    /// A place of a kernel that is launched, and what is there.
    Place(Span, String),
    /// The line of a function whose derivative is taken.
    Line(Span),
}

/// Result of an operation on values.
pub type Outcome<T> = Result<T, Problem>;

/// Returns the error for an allocation that failed.
pub fn no_room(bytes: u64) -> Problem {
    let size = crate::device::size(bytes);
    Problem::new("E0509", format!("there is not enough memory: {size} were asked for at once"))
}

impl Problem {
    pub fn new(code: &'static str, title: impl Into<String>) -> Self {
        Problem { code, title: title.into(), label: String::new(), notes: vec![], help: vec![], elsewhere: None }
    }

    /// Sets the text at the marked location.
    pub fn label(mut self, text: impl Into<String>) -> Self {
        self.label = text.into();
        self
    }

    pub fn note(mut self, text: impl Into<String>) -> Self {
        self.notes.push(text.into());
        self
    }

    pub fn help(mut self, text: impl Into<String>) -> Self {
        self.help.push(text.into());
        self
    }

    /// Returns the failure of a device, if that is what it is.
    pub fn device(&self) -> Option<&DeviceError> {
        match self.elsewhere.as_deref() {
            Some(Elsewhere::Device(error)) => Some(error),
            _ => None,
        }
    }

    /// Returns the diagnostic at a location.
    pub fn at(self, span: Span) -> Diagnostic {
        let mut diagnostic = match self.elsewhere.map(|elsewhere| *elsewhere) {
            Some(Elsewhere::Device(error)) => return found_late(&error, span),
            Some(Elsewhere::Place(place, text)) => {
                Diagnostic::error(self.code, self.title).at(place, text).because(span, self.label)
            }
            Some(Elsewhere::Line(line)) => {
                Diagnostic::error(self.code, self.title).at(line, self.label).because(span, "differentiated here")
            }
            None => Diagnostic::error(self.code, self.title).at(span, self.label),
        };
        diagnostic.notes = self.notes;
        diagnostic.help = self.help;
        diagnostic
    }

    /// Returns the diagnostic where no location is known.
    pub fn anywhere(self) -> Diagnostic {
        let mut diagnostic = self.at(Span::default());
        // The kernel of a failed launch has a location of its own.
        diagnostic.labels.retain(|label| label.span != Span::default());
        diagnostic
    }
}

impl From<DeviceError> for Problem {
    fn from(error: DeviceError) -> Problem {
        let Diagnostic { code, title, .. } = device_diagnostic(&error, Span::default());
        Problem { elsewhere: Some(Box::new(Elsewhere::Device(error))), ..Problem::new(code, title) }
    }
}

/// Returns the diagnostic of a device's failure that showed when an array was read.
fn found_late(error: &DeviceError, span: Span) -> Diagnostic {
    let diagnostic = device_diagnostic(error, span);
    match error {
        DeviceError::Earlier(_) | DeviceError::Lost(_) => diagnostic,
        _ => diagnostic.note("found when results were looked at"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_devices_failure_is_the_whole_message() {
        let error = DeviceError::Unavailable { device: "gpu:0".into(), why: "gone".into() };
        let problem = Problem::from(error).label("element 3 of 5").note("a note").help("a help");
        assert_eq!((problem.code, problem.title.as_str()), ("E0595", "`gpu:0` cannot be used: gone"));
        let diagnostic = problem.clone().at(Span::default());
        assert_eq!((diagnostic.labels.len(), diagnostic.labels[0].text.as_str()), (1, ""));
        assert_eq!(diagnostic.notes, ["found when results were looked at"]);
        assert_eq!(diagnostic.help, ["run it on the simulator: `on sim { … }` or `--device sim`"]);
        assert!(problem.anywhere().labels.is_empty());
        let full = Problem::from(DeviceError::NoHostMemory { wanted: 1 << 30 });
        assert_eq!(
            (full.code, full.anywhere().notes),
            ("E0509", vec!["found when results were looked at".to_string()])
        );
    }

    #[test]
    fn what_has_no_location_has_no_label() {
        let diagnostic = Problem::new("E0541", "a title").label("here").note("a note").anywhere();
        assert_eq!((diagnostic.labels.len(), diagnostic.notes.len()), (0, 1));
    }
}
