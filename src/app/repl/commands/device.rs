//! `:device` and `:check`: the device of the session and the checks of its runs.

use std::fmt::Write as _;
use std::sync::atomic::Ordering;

use crate::app::console::paint;
use crate::app::devices::{self, Choice};
use crate::app::repl::state::{Answer, Repl};
use crate::ir::Checks;

/// Arguments of `:device`.
pub(crate) const CHOICES: &[&str] = &["auto", "sim", "gpu", "both"];
/// Arguments of `:check` other than an entry.
pub(crate) const SWITCHES: &[&str] = &["on", "off"];

impl Repl<'_> {
    pub(super) fn device(&mut self, name: &str) -> Answer {
        if name.is_empty() {
            return Ok(self.devices());
        }
        let choice: Choice = name.parse()?;
        let opened = self.context.machine.choose(choice);
        let device = opened.map_err(|error| format!("{error}; kernels run on {} as before", self.here()))?;
        // Waits for launches on the old device and reports their errors.
        self.interpreter.options.device.finish().map_err(|error| error.to_string())?;
        self.context.limits.places.device = Some(device.clone());
        self.interpreter.use_device(device);
        Ok(format!("kernels run on {} from now on; values stay\n", self.here()))
    }

    /// Returns the name of the device in use, for messages.
    fn here(&self) -> String {
        match self.interpreter.options.device.name().as_str() {
            "sim" => "the simulator".into(),
            name => name.split(" and ").map(|name| format!("`{name}`")).collect::<Vec<_>>().join(" and "),
        }
    }

    fn devices(&self) -> String {
        let used = self.interpreter.options.device.name();
        let mut text = String::new();
        for (name, about) in devices::list() {
            let mark = if used.split(" and ").any(|used| used == name) { '*' } else { ' ' };
            let _ = writeln!(text, "{mark} {name:<8}{about}");
        }
        text + "kernels run where the * is; `:device NAME` changes it: auto, sim, sim:N for N virtual devices, gpu, gpu:N, or both to compare\n"
    }

    pub(super) fn check(&mut self, text: &str) -> Answer {
        let nan = self.interpreter.options.control.checks.nan;
        match text {
            "" => {}
            "on" | "off" => {
                let on = text == "on";
                self.context.limits.check = Some(on);
                self.interpreter.use_checks(Checks { memory: on, arithmetic: on, nan });
            }
            entry => {
                self.checked(entry)?;
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
            "checks are on: races, memory that nobody wrote, barriers that threads miss, overflow, shifts, conversions\n",
        );
        if !self.interpreter.options.device.is_watchful() {
            let _ = writeln!(
                text,
                "{} has only those for bounds, division by zero and `assert`; `:check ENTRY` runs an entry on the simulator, with all",
                self.here()
            );
        }
        text
    }

    /// Runs an entry with all checks, on the simulator if the device in use does not support them.
    fn checked(&mut self, entry: &str) -> Result<(), String> {
        let elsewhere = match self.interpreter.options.device.is_watchful() {
            true => None,
            false => Some(self.context.machine.choose(Choice::Sim(None)).map_err(|error| error.to_string())?),
        };
        let outer = elsewhere.map(|simulator| self.interpreter.use_device(simulator));
        let usual = self.interpreter.options.control.checks;
        self.interpreter.use_checks(Checks { memory: true, arithmetic: true, ..usual });
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
        self.interpreter.use_checks(usual);
        if let Some(outer) = outer {
            self.interpreter.use_device(outer);
        }
        Ok(())
    }
}
