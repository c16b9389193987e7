//! State of an interactive session: program, variables, history and settings.

use std::collections::{HashMap, VecDeque};
use std::path::{Path, PathBuf};

use super::settings::Settings;
use super::transcript::Kept;
use crate::app::context::Context;
use crate::compile::Session;
use crate::host::interp::Interpreter;

/// A text to show, or an error message.
pub(super) type Answer = Result<String, String>;

/// The state of a session.
pub(super) struct Repl<'a> {
    pub(super) context: &'a mut Context,
    pub(super) session: Session,
    pub(super) interpreter: Interpreter,
    pub(super) settings: Settings,
    /// Number of entries so far, including failed ones; the prompt and `<entry 3>` show the next number.
    pub(super) entries: usize,
    /// Numbers of the entries whose values are still bound (`_3`), oldest first, with the bytes of each.
    pub(super) values: VecDeque<(usize, usize)>,
    /// Successful entries, for `:save`.
    pub(super) log: Vec<Kept>,
    /// Everything typed, with its number, for `:history`.
    pub(super) typed: Vec<(usize, String)>,
    /// Loaded files, for `:reload`.
    pub(super) loaded: Vec<PathBuf>,
    /// Files saved by this session and their content; it may overwrite those.
    pub(super) saved: HashMap<PathBuf, String>,
    /// Whether `:reload` is running.
    pub(super) reloading: bool,
    /// Whether the current entry has emptied the session.
    pub(super) was_reset: bool,
    /// Code of the last error, for `:explain`.
    pub(super) last_code: Option<&'static str>,
    /// The exit code, if an entry has called `exit`.
    pub(super) ended: Option<u8>,
}

impl<'a> Repl<'a> {
    pub(super) fn new(context: &'a mut Context) -> Self {
        let interpreter = context.limits.interpreter(&context.interrupt, vec![]);
        Repl {
            context,
            session: fresh(),
            interpreter,
            settings: Settings::default(),
            entries: 0,
            values: VecDeque::new(),
            log: vec![],
            typed: vec![],
            loaded: vec![],
            saved: HashMap::new(),
            reloading: false,
            was_reset: false,
            last_code: None,
            ended: None,
        }
    }

    pub(super) fn reset(&mut self) {
        self.session = fresh();
        self.interpreter = self.context.limits.interpreter(&self.context.interrupt, vec![]);
        self.values.clear();
        self.log.clear();
        self.loaded.clear();
        self.was_reset = true;
    }
}

fn fresh() -> Session {
    Session { folder: Path::new(".").to_path_buf(), ..Session::default() }
}
