//! Commands that show the provenance of an element: `:why`, `:whynan`. They run the session's entries again, as a
//! script like that of `:save`.

use std::path::Path;

use crate::command_error::CommandResult;
use crate::disk;
use crate::effects::CapturedEffects;
use crate::repl::state::Repl;
use crate::repl::transcript;
use crate::script::{self, CompiledScript};
use crate::why;
use clk_compile::Session;
use clk_host::interp::Interpreter;

impl Repl<'_> {
    pub(super) fn why(&mut self, asked: &str) -> CommandResult {
        let end = asked.rfind(']').map_or(asked.len(), |at| at + 1);
        let (element, part) = (&asked[..end], part(&asked[end..])?);
        let (mut session, mut interpreter) = self.rerun_recorded()?;
        let tree = why::element(&mut session, &mut interpreter, element, &part)?;
        Ok(tree.text(|place| format!(":why {element} more {place}")))
    }

    pub(super) fn why_not_finite(&mut self, asked: &str) -> CommandResult {
        let (name, rest) = asked.trim().split_once(' ').unwrap_or((asked, ""));
        let part = part(rest)?;
        let (session, interpreter) = self.rerun_recorded()?;
        let tree = why::trace_nonfinite(&session, &interpreter, name, &part)?;
        Ok(tree.text(|place| format!(":whynan {name} more {place}")))
    }

    /// Runs the entries of the session again as one script, and records its launches.
    fn rerun_recorded(&mut self) -> CommandResult<(Session, Interpreter)> {
        let text = transcript::script(&self.log, self.context.limits.seed, Path::new("session.clk"));
        let mut session = Session { folder: self.session.folder.clone(), ..Session::default() };
        let outcome = session.add("<session>", &text, &disk::Disk);
        if outcome.failed() {
            return Err("the session cannot be run again as a script: a definition that was in use has changed".into());
        }
        let mut interpreter = self.context.limits.interpreter(&self.context.interrupt, vec![]);
        interpreter.observers.recorded_launches = Some(vec![]);
        let compiled = CompiledScript { session, chunks: outcome.chunks, cuda: Default::default() };
        script::run_chunks(&compiled, &mut interpreter, &mut CapturedEffects::default())
            .map_err(|error| error.title)?;
        Ok((compiled.session, interpreter))
    }
}

/// Parses the arguments after an element. `9` is the number of levels to show; `more 2.1` shows a subtree that an
/// earlier answer left out.
fn part(rest: &str) -> CommandResult<why::TreeWindow> {
    let (mut levels, mut from) = (None, None);
    let mut words = rest.split_whitespace();
    while let Some(word) = words.next() {
        match word {
            "more" => {
                from = Some(words.next().ok_or("`more` is followed by a number that the tree shows in brackets")?)
            }
            word => levels = Some(word.parse().map_err(|_| format!("`{word}` is not a number of levels"))?),
        }
    }
    why::TreeWindow::new(levels, from)
}
