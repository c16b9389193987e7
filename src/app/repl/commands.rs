//! The session's commands; each may be shortened to any beginning that only it has.

use std::ops::ControlFlow;

use super::Repl;
use crate::app::cli;
use crate::app::disk::Disk;
use crate::check;
use crate::check::typed::Binding;

pub struct Command {
    pub name: &'static str,
    usage: &'static str,
    about: &'static str,
}

pub const COMMANDS: &[Command] = &[
    Command { name: "help", usage: ":help", about: "this list" },
    Command { name: "doc", usage: ":doc NAME", about: "what a builtin or a module does" },
    Command { name: "explain", usage: ":explain CODE", about: "the page of a message's code" },
    Command { name: "type", usage: ":type EXPRESSION", about: "the type of an expression, without running it" },
    Command { name: "vars", usage: ":vars", about: "the session's variables, functions and kernels" },
    Command { name: "reset", usage: ":reset", about: "forget everything" },
    Command { name: "quit", usage: ":quit", about: "end (also Ctrl-D)" },
];

/// The command that a word means, or why it means none.
fn find(word: &str) -> Result<&'static str, String> {
    let meant: Vec<&str> = COMMANDS.iter().map(|c| c.name).filter(|name| name.starts_with(word)).collect();
    match meant.as_slice() {
        [one] => Ok(one),
        [] => Err(format!("there is no command `:{word}`; `:help` lists them")),
        several => Err(format!("`:{word}` could be :{}", several.join(" or :"))),
    }
}

impl Repl<'_> {
    pub(super) fn command(&mut self, text: &str) -> ControlFlow<()> {
        let (word, rest) = text.trim().split_once(char::is_whitespace).unwrap_or((text.trim(), ""));
        let rest = rest.trim();
        let style = self.context.console.style;
        let answer = match find(word) {
            Ok("quit") => return ControlFlow::Break(()),
            Ok("help") => Ok(help()),
            Ok("doc") => cli::documentation((!rest.is_empty()).then_some(rest), style),
            Ok("explain") if rest.is_empty() => Err("`:explain` wants a code, such as E0301".into()),
            Ok("explain") => cli::explanation(rest, style),
            Ok("type") => self.type_of(rest),
            Ok("vars") => Ok(self.variables()),
            Ok("reset") => {
                self.reset();
                Ok(String::new())
            }
            Ok(other) => Err(format!("`:{other}` does nothing")),
            Err(complaint) => Err(complaint),
        };
        match answer {
            Ok(text) => self.context.console.print(&text),
            Err(complaint) => self.context.console.error_line(&complaint),
        }
        ControlFlow::Continue(())
    }

    /// The type of an expression, found in a copy of the session that never runs.
    fn type_of(&mut self, expression: &str) -> Result<String, String> {
        if expression.is_empty() {
            return Err("`:type` wants an expression".into());
        }
        let mut trial = self.session.clone();
        let outcome = trial.add("<type>", &format!("let _type = (\n{expression}\n)"), &Disk);
        if outcome.failed() {
            self.context.console.report_all(&outcome.diagnostics, &trial.sources);
            return Ok(String::new());
        }
        let found = trial.main.and_then(|main| match trial.program.modules.get(main)?.names.get("_type")? {
            Binding::Global(id) => trial.program.globals.get(*id),
            _ => None,
        });
        let global = found.ok_or("only an expression has a type")?;
        Ok(check::show_type(&trial.program, None, &global.ty) + "\n")
    }

    fn variables(&self) -> String {
        let program = &self.session.program;
        let Some(module) = self.session.main.and_then(|main| program.modules.get(main)) else { return String::new() };
        let mut text = String::new();
        for (name, binding) in &module.names {
            let line = match *binding {
                Binding::Global(id) => {
                    let value = self.interpreter.globals.get(id.index()).and_then(Option::as_ref);
                    let word = if program.globals[id].mutable { "var" } else { "let" };
                    format!("{word} {name}: {}", value.map_or_else(|| "(no value yet)".into(), |v| v.type_name()))
                }
                Binding::Fn(_) => format!("fn {name}"),
                Binding::Kernel(_) => format!("kernel {name}"),
                Binding::Struct(_) => format!("struct {name}"),
                Binding::Const(_) => format!("const {name}"),
                Binding::Module(_) => format!("import {name}"),
                Binding::Error => continue,
            };
            text += &line;
            text.push('\n');
        }
        text
    }
}

fn help() -> String {
    let mut text =
        String::from("Statements and expressions run at once; a `;` at the end keeps a value from being printed.\n");
    for command in COMMANDS {
        text += &format!("  {:<18} {}\n", command.usage, command.about);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beginnings_are_enough() {
        assert_eq!(find("q"), Ok("quit"));
        assert_eq!(find("help"), Ok("help"));
        assert!(find("zz").is_err_and(|e| e.contains(":help")));
    }
}
