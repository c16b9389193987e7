//! `:profile`: shows the estimated cost of an entry's launches on a GPU.

use crate::cli::profile_of_session;
use crate::command_error::CommandResult;
use crate::devices::DeviceChoice;
use crate::repl::state::Repl;
use clk_runtime::profile::ProfileCollector;

impl Repl<'_> {
    /// Runs an entry on the simulator, and shows the profiles of its kernels.
    pub(super) fn profile(&mut self, entry: &str) -> CommandResult {
        if entry.is_empty() {
            return Err(
                "`:profile` wants an entry that launches kernels or computes arrays, as in `:profile saxpy(2.0, x, y)`"
                    .into(),
            );
        }
        let other_device = match self.interpreter.options.device.capabilities().checks {
            true => None,
            false => Some(self.context.machine.choose(DeviceChoice::Sim(None))?),
        };
        let outer = other_device.map(|simulator| self.interpreter.switch_device(simulator));
        let (usual, counting) =
            (self.interpreter.options.control.checks, ProfileCollector::default().with_expressions(true));
        self.interpreter.set_checks(Default::default());
        self.interpreter.set_profile_collector(Some(counting.clone()));
        self.hides_values = true;
        let ran = self.program(entry);
        self.hides_values = false;
        self.interpreter.set_profile_collector(None);
        self.interpreter.set_checks(usual);
        if let Some(outer) = outer {
            self.interpreter.switch_device(outer);
        }
        let profiles = counting.take();
        if ran && profiles.is_empty() {
            return Ok("no kernel was launched\n".into());
        }
        profile_of_session(&profiles, &self.session, &mut self.context.console);
        Ok(String::new())
    }
}
