//! The error of commands: of the command line, of a session and of the debugger.

use std::fmt;

use clk_host::problem::RuntimeError;
use clk_runtime::DeviceError;
use clk_step::QueryError;
use clk_step::timeline::Interrupted;

/// Why a command has no result: a message for the user, and what to do about it, if that is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CommandError {
    pub title: String,
    pub help: Option<String>,
}

pub(crate) type CommandResult<T = String> = Result<T, CommandError>;

impl CommandError {
    pub fn help(self, text: impl Into<String>) -> CommandError {
        CommandError { help: Some(text.into()), ..self }
    }
}

impl std::error::Error for CommandError {}

impl fmt::Display for CommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.title)?;
        self.help.as_ref().map_or(Ok(()), |help| write!(f, "\n  Help: {help}"))
    }
}

impl From<String> for CommandError {
    fn from(title: String) -> CommandError {
        CommandError { title, help: None }
    }
}

impl From<&str> for CommandError {
    fn from(title: &str) -> CommandError {
        title.to_string().into()
    }
}

impl From<DeviceError> for CommandError {
    fn from(error: DeviceError) -> CommandError {
        error.to_string().into()
    }
}

impl From<RuntimeError> for CommandError {
    fn from(error: RuntimeError) -> CommandError {
        error.anywhere().title.into()
    }
}

impl From<Interrupted> for CommandError {
    fn from(Interrupted: Interrupted) -> CommandError {
        "interrupted".into()
    }
}

impl From<QueryError> for CommandError {
    fn from(error: QueryError) -> CommandError {
        match error {
            QueryError::Fault(kind) => clk_runtime::fault_message(&kind).into(),
            QueryError::Waits => "it waits for other threads".into(),
            QueryError::Unwritten(array) => format!("`{array}` holds nothing there yet").into(),
        }
    }
}
