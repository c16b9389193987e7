//! Commands that show how an element came to be: `:why`, `:whynan`. The session's entries run again for that, as `:save` would write them.

use std::path::Path;

use crate::app::disk;
use crate::app::repl::state::{Answer, Repl};
use crate::app::repl::transcript;
use crate::app::script::{self, Compiled};
use crate::app::why;
use crate::app::world::Captured;
use crate::compile::Session;
use crate::host::interp::Interpreter;

impl Repl<'_> {
    pub(super) fn why(&mut self, asked: &str) -> Answer {
        let (element, levels) = match asked.rsplit_once(']') {
            Some((element, rest)) if !rest.trim().is_empty() => {
                let levels = rest.trim().parse().map_err(|_| format!("`{}` is no number of levels", rest.trim()))?;
                (format!("{element}]"), levels)
            }
            _ => (asked.to_string(), why::LEVELS),
        };
        let (mut session, mut interpreter) = self.once_more()?;
        why::element(&mut session, &mut interpreter, &element, levels)
    }

    pub(super) fn why_not_finite(&mut self, name: &str) -> Answer {
        let (session, interpreter) = self.once_more()?;
        why::not_finite(&session, &interpreter, name, why::LEVELS)
    }

    /// Runs the entries of the session again, with its launches kept.
    fn once_more(&mut self) -> Result<(Session, Interpreter), String> {
        let text = transcript::script(&self.log, Path::new("session.clk"));
        let mut session = Session { folder: self.session.folder.clone(), ..Session::default() };
        let outcome = session.add("<session>", &text, &disk::Disk);
        if outcome.failed() {
            return Err("the session cannot be run again as a script: a definition that was in use has changed".into());
        }
        let mut interpreter = self.context.limits.interpreter(&self.context.interrupt, vec![]);
        interpreter.recorded = Some(vec![]);
        let compiled = Compiled { session, chunks: outcome.chunks };
        script::run_chunks(&compiled, &mut interpreter, &mut Captured::default()).map_err(|error| error.title)?;
        Ok((compiled.session, interpreter))
    }
}
