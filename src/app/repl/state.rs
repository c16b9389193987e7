//! State of an interactive session: program, variables, history and settings.

use std::collections::{HashMap, VecDeque};
use std::path::{Path, PathBuf};

use super::settings::EditorSettings;
use super::transcript::TranscriptEntry;
use crate::context::AppContext;
use clk_compile::Session;
use clk_host::interp::Interpreter;

/// The state of a session.
pub(super) struct Repl<'a> {
    pub(super) context: &'a mut AppContext,
    pub(super) session: Session,
    pub(super) interpreter: Interpreter,
    pub(super) settings: EditorSettings,
    /// Number of entries so far, including failed ones; the prompt and `<entry 3>` show the next number.
    pub(super) entries: usize,
    /// Numbers of the entries whose values are still bound (`_3`), oldest first, with the size of each value in bytes.
    pub(super) values: VecDeque<(usize, usize)>,
    /// The successful entries, which `:save` writes as a script.
    pub(super) log: Vec<TranscriptEntry>,
    /// Everything that the user typed, with its entry number, for `:history`.
    pub(super) typed: Vec<(usize, String)>,
    /// The loaded files, which `:reload` runs again.
    pub(super) loaded: Vec<PathBuf>,
    /// Files saved by this session, with the content written. Only these may be overwritten without `!`.
    pub(super) saved: HashMap<PathBuf, String>,
    /// Whether `:reload` is running.
    pub(super) reloading: bool,
    /// Whether the current entry has reset the session.
    pub(super) was_reset: bool,
    /// Code of the last error, for `:explain`.
    pub(super) last_code: Option<&'static str>,
    /// Whether values are computed but not shown, as in `:profile`.
    pub(super) hides_values: bool,
    /// The exit code to end the session with, once an entry has called `exit`.
    pub(super) ended: Option<u8>,
}

impl<'a> Repl<'a> {
    pub(super) fn new(context: &'a mut AppContext) -> Self {
        let interpreter = context.limits.interpreter(&context.interrupt, vec![]);
        Repl {
            context,
            session: fresh(),
            interpreter,
            settings: EditorSettings::default(),
            entries: 0,
            values: VecDeque::new(),
            log: vec![],
            typed: vec![],
            loaded: vec![],
            saved: HashMap::new(),
            reloading: false,
            was_reset: false,
            last_code: None,
            hides_values: false,
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
