//! The session at a terminal: line editing, history and prompt.

use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use rustyline::config::Configurer;
use rustyline::error::ReadlineError;
use rustyline::history::MemHistory;
use rustyline::{CompletionType, Config, EditMode, Editor, EventHandler, KeyCode, KeyEvent, Modifiers};

use super::helper::LineHelper;
use super::history::{self, History};
use super::keys::{self, HistorySearch};
use super::state::Repl;
use crate::tty;

fn editor(color: bool, search: &Arc<HistorySearch>) -> rustyline::Result<Editor<LineHelper, MemHistory>> {
    let config = Config::builder()
        .max_history_size(history::LIMIT)?
        .history_ignore_dups(true)?
        .completion_type(CompletionType::List)
        // Completion lists are shown without asking: short ones fit on the screen, and longer ones pause at each
        // screenful.
        .completion_prompt_limit(usize::MAX)
        .auto_add_history(false)
        .build();
    let history = MemHistory::with_config(&config);
    let mut editor = Editor::with_history(config, history)?;
    let entry = LineHelper::new(color);
    let steps_back = entry.steps_back.clone();
    editor.set_helper(Some(entry));
    let enter = || EventHandler::Conditional(Box::new(keys::EnterKey { search: search.clone() }));
    editor.bind_sequence(KeyEvent(KeyCode::Enter, Modifiers::NONE), enter());
    editor.bind_sequence(KeyEvent::ctrl('M'), enter());
    for key in ['R', 'S'] {
        let searching = keys::SearchKey { search: search.clone() };
        editor.bind_sequence(KeyEvent::ctrl(key), EventHandler::Conditional(Box::new(searching)));
    }
    // Terminals send Alt-Enter as Escape followed by one of two characters.
    for key in [
        KeyEvent(KeyCode::Enter, Modifiers::ALT),
        KeyEvent(KeyCode::Char('M'), Modifiers::CTRL_ALT),
        KeyEvent(KeyCode::Char('J'), Modifiers::CTRL_ALT),
    ] {
        editor.bind_sequence(key, EventHandler::Conditional(Box::new(keys::NewLine)));
    }
    editor.bind_sequence(
        KeyEvent(KeyCode::Char('}'), Modifiers::NONE),
        EventHandler::Conditional(Box::new(keys::CloseBrace { steps_back })),
    );
    Ok(editor)
}

/// Discards pending input, including the rest of a paste that is still arriving.
#[cfg(unix)]
fn discard_input() {
    for _ in 0..4 {
        // SAFETY: the call discards pending input of the terminal, or fails if standard input is not a terminal.
        unsafe { libc::tcflush(libc::STDIN_FILENO, libc::TCIFLUSH) };
        std::thread::sleep(Duration::from_millis(25));
    }
}

#[cfg(not(unix))]
fn discard_input() {}

/// Reads and runs entries until the user ends the session.
pub(crate) fn read_all(repl: &mut Repl<'_>) -> rustyline::Result<()> {
    tty::save_settings();
    let search = Arc::new(HistorySearch::default());
    let mut editor = editor(repl.context.console.style.color, &search)?;
    let history = History::open();
    for entry in history.iter().flat_map(History::entries) {
        search.add(&entry);
        editor.add_history_entry(entry)?;
    }
    let greeting = format!(
        "Clk {}. :help lists commands, :help kernel shows a first kernel, Ctrl-D ends.",
        env!("CARGO_PKG_VERSION")
    );
    repl.context.console.line(&greeting);
    loop {
        editor.set_edit_mode(if repl.settings.vi { EditMode::Vi } else { EditMode::Emacs });
        if let Some(helper) = editor.helper_mut() {
            helper.set_settings(&repl.settings);
            helper.exchange_session(&mut repl.session);
        }
        search.reset();
        let line = editor.readline(&format!("clk {}> ", repl.entries + 1));
        if let Some(helper) = editor.helper_mut() {
            helper.exchange_session(&mut repl.session);
        }
        match line {
            Ok(entry) => {
                search.add(entry.trim_end());
                let is_new = editor.add_history_entry(entry.trim_end())?;
                if let (true, Some(history)) = (is_new, &history) {
                    history.add(entry.trim_end());
                }
                if repl.settings.width.is_none() {
                    repl.context.console.measure();
                }
                if repl.enter(&entry).is_break() {
                    return Ok(());
                }
            }
            // Ctrl-C at the prompt discards the line.
            Err(ReadlineError::Interrupted) => {}
            Err(ReadlineError::Eof) => return Ok(()),
            Err(ReadlineError::Io(error)) if error.kind() == ErrorKind::InvalidData => {
                // The rest of an interrupted paste must not run.
                discard_input();
                repl.context
                    .console
                    .error_line("\nerror: what came from the terminal is not UTF-8; the entry was dropped");
            }
            Err(error) => return Err(error),
        }
    }
}
