//! The command `:set`.

use crate::command_error::{CommandError, CommandResult};
use crate::devices::Isolate;
use crate::repl::settings::NAMES;
use crate::repl::state::Repl;
use crate::repl::transcript::{self, TranscriptEntry};
use clk_host::interp::RandomPosition;

impl Repl<'_> {
    /// Handles `:set`, `:set name` and `:set name value`.
    pub(super) fn set(&mut self, text: &str) -> CommandResult {
        let (name, value) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        let value = value.trim().trim_start_matches('=').trim();
        if name.is_empty() {
            return Ok(self.all_settings());
        }
        if !value.is_empty() {
            self.change(name, value)?;
        }
        let all = self.all_settings();
        let line = all.lines().find(|line| line.split_whitespace().next() == Some(name));
        line.map(|line| format!("{line}\n")).ok_or_else(|| unknown(name))
    }

    fn all_settings(&self) -> String {
        let word = |on: bool| if on { "on" } else { "off" }.to_string();
        let options = &self.interpreter.options;
        let limit = |n: u64| if n == 0 { "none".into() } else { n.to_string() };
        let rows = [
            ("vi", word(self.settings.vi), "keys as in vi"),
            ("hints", word(self.settings.hints), "a suggestion for the rest of the line, in gray"),
            ("highlight", word(self.settings.highlight), "colors while typing"),
            ("ascii", word(self.context.console.style.ascii), "plain characters in messages and pictures"),
            (
                "seed",
                self.interpreter.random_position.seed.to_string(),
                "of the stream that `random` and its kin draw from",
            ),
            ("max-steps", limit(options.control.max_steps), "loop turns a kernel's threads may take"),
            ("workers", options.control.workers.to_string(), "threads of the simulator"),
            ("isolate", self.isolation().into(), "kernels on GPUs run in a process of their own"),
            ("width", self.context.console.style.width.to_string(), "columns of the terminal"),
        ];
        rows.iter().map(|(name, value, about)| format!("{name:<10} {value:<8} {about}\n")).collect()
    }

    fn change(&mut self, name: &str, value: &str) -> CommandResult<()> {
        let options = &mut self.interpreter.options;
        match name {
            "vi" => self.settings.vi = switch(value)?,
            "hints" => self.settings.hints = switch(value)?,
            "highlight" => self.settings.highlight = switch(value)?,
            "ascii" => {
                let ascii = switch(value)?;
                self.context.console.style.ascii = ascii;
                self.context.console.error_style.ascii = ascii;
            }
            "seed" => {
                let seed = number(value)?;
                self.interpreter.random_position = RandomPosition::begin(Some(seed));
                self.log.push(TranscriptEntry::setting(transcript::seeded(seed)));
            }
            "max-steps" => options.control.max_steps = if value == "none" { 0 } else { number(value)? },
            "workers" => options.control.workers = number::<u16>(value)?.clamp(1, 1024).into(),
            "width" => {
                let width = number::<u16>(value)?.clamp(40, 1000).into();
                self.settings.width = Some(width);
                self.context.console.style.width = width;
                self.context.console.error_style.width = width;
            }
            "isolate" => return self.isolate(switch(value)?),
            _ => return Err(unknown(name)),
        }
        Ok(())
    }

    fn isolation(&self) -> &'static str {
        if self.context.machine.isolation() == Isolate::No { "off" } else { "on" }
    }

    /// Sets isolation and reopens the device; arrays are transferred at their next use.
    fn isolate(&mut self, on: bool) -> CommandResult<()> {
        let machine = &self.context.machine;
        machine.set_isolation(if on { Isolate::Yes } else { Isolate::No });
        let device = machine.choose(self.context.device)?;
        self.context.limits.places.device = Some(device.clone());
        self.interpreter.replace_device(device);
        Ok(())
    }
}

fn unknown(name: &str) -> CommandError {
    format!("there is no setting `{name}`; there are {}", NAMES.join(", ")).into()
}

fn switch(value: &str) -> CommandResult<bool> {
    match value {
        "on" | "true" | "yes" | "1" => Ok(true),
        "off" | "false" | "no" | "0" => Ok(false),
        _ => Err(format!("`{value}` is neither `on` nor `off`").into()),
    }
}

fn number<T: std::str::FromStr>(value: &str) -> CommandResult<T> {
    value.replace('_', "").parse().map_err(|_| format!("`{value}` is not a number that fits here").into())
}
