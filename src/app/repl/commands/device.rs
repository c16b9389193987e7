//! `:device` and `:check`: the device of the session and the checks of its runs.

use std::fmt::Write as _;
use std::sync::atomic::Ordering;

use crate::command_error::CommandResult;
use crate::console::paint;
use crate::devices::{self, DeviceChoice};
use crate::repl::state::Repl;
use clk_ir::Checks;

/// The fixed arguments of `:device`, for completion.
pub(crate) const CHOICES: &[&str] = &["auto", "sim", "gpu", "both"];
/// The fixed arguments of `:check`, for completion. Any other argument is an entry to run.
pub(crate) const SWITCHES: &[&str] = &["on", "off"];

impl Repl<'_> {
    pub(super) fn device(&mut self, name: &str) -> CommandResult {
        if name.is_empty() {
            return Ok(self.devices());
        }
        let choice: DeviceChoice = name.parse()?;
        let opened = self.context.machine.choose(choice);
        let device = opened.map_err(|error| format!("{error}; kernels run on {} as before", self.device_label()))?;
        // Waits for launches on the old device and reports their errors.
        self.interpreter.options.device.finish()?;
        self.context.limits.places.device = Some(device.clone());
        self.interpreter.switch_device(device);
        Ok(format!("kernels run on {} from now on; values stay\n", self.device_label()))
    }

    /// Returns the name of the device in use, for messages.
    fn device_label(&self) -> String {
        match self.interpreter.options.device.name().as_str() {
            "sim" => "the simulator".into(),
            name => name.split(" and ").map(|name| format!("`{name}`")).collect::<Vec<_>>().join(" and "),
        }
    }

    fn devices(&self) -> String {
        let used = self.interpreter.options.device.name();
        let mut text = String::new();
        for (name, about) in devices::list_devices() {
            let mark = if used.split(" and ").any(|used| used == name) { '*' } else { ' ' };
            let _ = writeln!(text, "{mark} {name:<8}{about}");
        }
        text + "kernels run where the * is; `:device NAME` changes it: auto, sim, sim:N for N virtual devices, gpu, gpu:N, or both to compare\n"
    }

    pub(super) fn check(&mut self, text: &str) -> CommandResult {
        let nan = self.interpreter.options.control.checks.nan;
        match text {
            "" => {}
            "on" | "off" => {
                let on = text == "on";
                self.context.limits.check = Some(on);
                self.interpreter.set_checks(Checks { memory: on, arithmetic: on, nan });
            }
            entry => {
                self.run_checked(entry)?;
                return Ok(String::new());
            }
        }
        Ok(self.checks())
    }

    fn checks(&self) -> String {
        if !self.interpreter.options.control.checks.memory {
            return "checks are off; `:check on` turns them on, `:check ENTRY` runs one entry with them\n".into();
        }
        let mut text = String::from(
            "checks are on: races, uninitialized memory, missed barriers, overflow, shifts, conversions\n",
        );
        if !self.interpreter.options.device.capabilities().checks {
            let _ = writeln!(
                text,
                "{} has only those for bounds, division by zero and `assert`; `:check ENTRY` runs an entry on the simulator, with all",
                self.device_label()
            );
        }
        text
    }

    /// Runs an entry with all checks. If the device in use does not support them, the simulator runs it.
    fn run_checked(&mut self, entry: &str) -> CommandResult<()> {
        let other_device = match self.interpreter.options.device.capabilities().checks {
            true => None,
            false => Some(self.context.machine.choose(DeviceChoice::Sim(None))?),
        };
        let outer = other_device.map(|simulator| self.interpreter.switch_device(simulator));
        let usual = self.interpreter.options.control.checks;
        self.interpreter.set_checks(Checks { memory: true, arithmetic: true, ..usual });
        let launches = self.interpreter.options.control.launches.clone();
        let before = launches.load(Ordering::Relaxed);
        if self.program(entry) {
            let text = match launches.load(Ordering::Relaxed) - before {
                0 => "nothing was launched that could be checked".to_string(),
                1 => "1 launch checked".to_string(),
                n => format!("{n} launches checked"),
            };
            self.context.console.line(&paint(self.context.console.style, "2", &text));
        }
        self.interpreter.set_checks(usual);
        if let Some(outer) = outer {
            self.interpreter.switch_device(outer);
        }
        Ok(())
    }
}
