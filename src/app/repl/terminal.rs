//! A session at a terminal: line editing, history, prompt.

use rustyline::config::Configurer;
use rustyline::error::ReadlineError;
use rustyline::history::FileHistory;
use rustyline::{CompletionType, Config, EditMode, Editor, EventHandler, KeyCode, KeyEvent, Modifiers};

use super::helper::Entry;
use super::{Repl, history, keys};

fn editor(color: bool) -> rustyline::Result<Editor<Entry, FileHistory>> {
    let config = Config::builder()
        .max_history_size(10_000)?
        .history_ignore_dups(true)?
        .completion_type(CompletionType::List)
        .auto_add_history(false)
        .build();
    let mut editor = Editor::with_config(config)?;
    let entry = Entry::new(color);
    let steps_back = entry.steps_back.clone();
    editor.set_helper(Some(entry));
    let enter = || EventHandler::Conditional(Box::new(keys::Enter));
    editor.bind_sequence(KeyEvent(KeyCode::Enter, Modifiers::NONE), enter());
    editor.bind_sequence(KeyEvent::ctrl('M'), enter());
    editor.bind_sequence(
        KeyEvent(KeyCode::Char('}'), Modifiers::NONE),
        EventHandler::Conditional(Box::new(keys::Close { steps_back })),
    );
    Ok(editor)
}

/// Reads and runs entries until the user ends the session.
pub fn read_all(repl: &mut Repl<'_>) -> rustyline::Result<()> {
    let mut editor = editor(repl.context.console.style.color)?;
    let history = history::path();
    if let Some(path) = &history {
        // The first session has no history yet.
        let _ = editor.load_history(path);
    }
    let greeting = format!(
        "Clk {}. :help lists commands, :help kernel shows a first kernel, Ctrl-D ends.",
        env!("CARGO_PKG_VERSION")
    );
    repl.context.console.line(&greeting);
    loop {
        editor.set_edit_mode(if repl.settings.vi { EditMode::Vi } else { EditMode::Emacs });
        if let Some(helper) = editor.helper_mut() {
            helper.follow(&repl.session, &repl.settings);
        }
        match editor.readline(&format!("clk {}> ", repl.entries + 1)) {
            Ok(entry) => {
                let _ = editor.add_history_entry(entry.trim_end());
                if let Some(path) = &history {
                    // A history that cannot be kept is no reason to end the session.
                    let _ = editor.append_history(path);
                }
                if repl.settings.width.is_none() {
                    repl.context.console.measure();
                }
                if repl.enter(&entry).is_break() {
                    return Ok(());
                }
            }
            // Ctrl-C at the prompt drops the line.
            Err(ReadlineError::Interrupted) => {}
            Err(ReadlineError::Eof) => return Ok(()),
            Err(error) => return Err(error),
        }
    }
}
