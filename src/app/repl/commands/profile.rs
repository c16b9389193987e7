//! `:profile`: what the launches of an entry cost a GPU.

use crate::app::cli::profile_of_session;
use crate::app::devices::Choice;
use crate::app::repl::state::{Answer, Repl};
use crate::device::profile::Counting;

impl Repl<'_> {
    /// Runs an entry on the simulator, and shows what its kernels cost.
    pub(super) fn profile(&mut self, entry: &str) -> Answer {
        if entry.is_empty() {
            return Err(
                "`:profile` wants an entry that launches kernels or computes arrays, as in `:profile saxpy(2.0, x, y)`"
                    .into(),
            );
        }
        let elsewhere = match self.interpreter.options.device.is_watchful() {
            true => None,
            false => Some(self.context.machine.choose(Choice::Sim(None)).map_err(|error| error.to_string())?),
        };
        let outer = elsewhere.map(|simulator| self.interpreter.use_device(simulator));
        let (usual, counting) = (self.interpreter.options.control.checks, Counting::default().with_expressions(true));
        self.interpreter.use_checks(Default::default());
        self.interpreter.count(Some(counting.clone()));
        let ran = self.program(entry);
        self.interpreter.count(None);
        self.interpreter.use_checks(usual);
        if let Some(outer) = outer {
            self.interpreter.use_device(outer);
        }
        let profiles = counting.take();
        if ran && profiles.is_empty() {
            return Ok("no kernel was launched\n".into());
        }
        profile_of_session(&profiles, &self.session, &mut self.context.console);
        Ok(String::new())
    }
}
