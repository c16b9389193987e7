//! Errors of operations on values. They become diagnostics when the interpreter adds a location.

use clk_base::diag::Diagnostic;
use clk_base::source::Span;
use clk_runtime::{DeviceError, device_diagnostic};

/// The help text of errors about values that have no derivative.
pub(crate) const NO_GRAD: &str = "`no_grad(x)` treats a value as a constant, if that is intended";

/// A run-time error, which has no location yet.
#[derive(Clone, Debug, PartialEq)]
pub struct RuntimeError {
    /// The diagnostic code, such as `E0501`.
    pub code: &'static str,
    /// The message, one sentence without a period.
    pub title: String,
    /// The label at the location that the interpreter adds; may be empty.
    pub label: String,
    pub notes: Vec<String>,
    pub help: Vec<String>,
    pub origin: Option<Box<ErrorOrigin>>,
}

/// The cause of an error, if it is not at the location that the interpreter adds.
#[derive(Clone, Debug, PartialEq)]
pub enum ErrorOrigin {
    /// The failure of a device whose memory held an array. It replaces the message of the error.
    Device(DeviceError),
    /// A location in a launched kernel, with the text of its label.
    KernelSource(Span, String),
    /// A location in the function that is differentiated.
    FunctionLine(Span),
}

/// Result of an operation on values.
pub type HostResult<T> = Result<T, RuntimeError>;

/// Returns the error for an allocation that failed.
pub fn out_of_memory(bytes: u64) -> RuntimeError {
    let size = clk_runtime::size(bytes);
    RuntimeError::new("E0509", format!("there is not enough memory: {size} were requested at once"))
}

impl RuntimeError {
    pub fn new(code: &'static str, title: impl Into<String>) -> Self {
        RuntimeError { code, title: title.into(), label: String::new(), notes: vec![], help: vec![], origin: None }
    }

    /// Sets the label at the location that the interpreter adds.
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

    /// Returns the device failure that caused this error, if any.
    pub fn device(&self) -> Option<&DeviceError> {
        match self.origin.as_deref() {
            Some(ErrorOrigin::Device(error)) => Some(error),
            _ => None,
        }
    }

    /// Converts the error to a diagnostic at a location.
    pub fn at(self, span: Span) -> Diagnostic {
        let mut diagnostic = match self.origin.map(|elsewhere| *elsewhere) {
            Some(ErrorOrigin::Device(error)) => return deferred_error(&error, span),
            Some(ErrorOrigin::KernelSource(place, text)) => {
                Diagnostic::error(self.code, self.title).at(place, text).because(span, self.label)
            }
            Some(ErrorOrigin::FunctionLine(line)) => {
                Diagnostic::error(self.code, self.title).at(line, self.label).because(span, "differentiated here")
            }
            None => Diagnostic::error(self.code, self.title).at(span, self.label),
        };
        diagnostic.notes = self.notes;
        diagnostic.help = self.help;
        diagnostic
    }

    /// Converts the error to a diagnostic without a location.
    pub fn anywhere(self) -> Diagnostic {
        let mut diagnostic = self.at(Span::default());
        // Labels in the kernel of a failed launch have locations, so they are kept.
        diagnostic.labels.retain(|label| label.span != Span::default());
        diagnostic
    }
}

impl From<DeviceError> for RuntimeError {
    fn from(error: DeviceError) -> RuntimeError {
        let Diagnostic { code, title, .. } = device_diagnostic(&error, Span::default());
        RuntimeError { origin: Some(Box::new(ErrorOrigin::Device(error))), ..RuntimeError::new(code, title) }
    }
}

/// Returns the diagnostic for a device failure that was detected when an array was read.
fn deferred_error(error: &DeviceError, span: Span) -> Diagnostic {
    let diagnostic = device_diagnostic(error, span);
    match error {
        DeviceError::EarlierLaunch(_) | DeviceError::Lost(_) => diagnostic,
        _ => diagnostic.note("found when a result was read"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_failures_are_the_whole_message() {
        let error = DeviceError::Unavailable { device: "gpu:0".into(), why: "gone".into() };
        let problem = RuntimeError::from(error).label("element 3 of 5").note("a note").help("a help");
        assert_eq!((problem.code, problem.title.as_str()), ("E0595", "`gpu:0` cannot be used: gone"));
        let diagnostic = problem.clone().at(Span::default());
        assert_eq!((diagnostic.labels.len(), diagnostic.labels[0].text.as_str()), (1, ""));
        assert_eq!(diagnostic.notes, ["found when a result was read"]);
        assert_eq!(diagnostic.help, ["run it on the simulator: `on sim { … }` or `--device sim`"]);
        assert!(problem.anywhere().labels.is_empty());
        let full = RuntimeError::from(DeviceError::NoHostMemory { wanted: 1 << 30 });
        assert_eq!((full.code, full.anywhere().notes), ("E0509", vec!["found when a result was read".to_string()]));
    }

    #[test]
    fn errors_without_a_location_have_no_label() {
        let diagnostic = RuntimeError::new("E0541", "a title").label("here").note("a note").anywhere();
        assert_eq!((diagnostic.labels.len(), diagnostic.notes.len()), (0, 1));
    }
}
