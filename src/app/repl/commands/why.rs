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
        let end = asked.rfind(']').map_or(asked.len(), |at| at + 1);
        let (element, part) = (&asked[..end], part(&asked[end..])?);
        let (mut session, mut interpreter) = self.once_more()?;
        let tree = why::element(&mut session, &mut interpreter, element, &part)?;
        Ok(tree.text(|place| format!(":why {element} more {place}")))
    }

    pub(super) fn why_not_finite(&mut self, asked: &str) -> Answer {
        let (name, rest) = asked.trim().split_once(' ').unwrap_or((asked, ""));
        let part = part(rest)?;
        let (session, interpreter) = self.once_more()?;
        let tree = why::not_finite(&session, &interpreter, name, &part)?;
        Ok(tree.text(|place| format!(":whynan {name} more {place}")))
    }

    /// Runs the entries of the session again, with its launches kept.
    fn once_more(&mut self) -> Result<(Session, Interpreter), String> {
        let text = transcript::script(&self.log, self.context.limits.seed, Path::new("session.clk"));
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

/// Reads what follows an element: `9` for so many levels, `more 2.1` for what an earlier answer left out.
fn part(rest: &str) -> Result<why::Part, String> {
    let (mut levels, mut from) = (None, None);
    let mut words = rest.split_whitespace();
    while let Some(word) = words.next() {
        match word {
            "more" => {
                from = Some(words.next().ok_or("`more` is followed by a number that the tree shows in brackets")?)
            }
            word => levels = Some(word.parse().map_err(|_| format!("`{word}` is no number of levels"))?),
        }
    }
    why::Part::new(levels, from)
}
