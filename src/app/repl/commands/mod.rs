//! The commands of a session. A command can be abbreviated to any unambiguous prefix.

mod code;
mod definitions;
mod device;
mod files;
mod inspect;
mod measure;
mod profile;
mod set;
mod why;

use std::ops::ControlFlow;

use super::guide;
use super::state::Repl;
use crate::command_error::CommandResult;
use crate::generated::EmitStage;
use crate::{cli, suggestions};

/// What kind of argument a command takes, for completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wants {
    Nothing,
    /// Program text: an expression, a name or statements.
    Program,
    /// A name that has documentation.
    Doc,
    /// A topic of `:help` or a command.
    Topic,
    Kernel,
    /// A diagnostic code.
    Code,
    File,
    /// A setting.
    Setting,
    /// One of a fixed set of words.
    Word(&'static [&'static str]),
    /// One of a fixed set of words, or program text.
    WordOrProgram(&'static [&'static str]),
}

pub(crate) struct Command {
    pub name: &'static str,
    pub usage: &'static str,
    about: &'static str,
    pub wants: Wants,
    run: fn(&mut Repl<'_>, &str) -> CommandResult,
}

use Wants::{Code, Doc, File, Kernel, Nothing, Program, Setting, Topic, Word, WordOrProgram};
use device::{CHOICES, SWITCHES};

#[rustfmt::skip]
pub(crate) const COMMANDS: &[Command] = &[
    Command { name: "help", usage: ":help [TOPIC]", about: "this list; or `kernel`, `blocks`, `arrays`, a command", wants: Topic, run: help },
    Command { name: "doc", usage: ":doc [NAME], ?NAME", about: "all builtins and modules; the documentation of a name; or a search", wants: Doc, run: |repl, rest| repl.doc(rest) },
    Command { name: "type", usage: ":type EXPRESSION", about: "the type of an expression, without running it", wants: Program, run: |repl, rest| repl.type_of(rest) },
    Command { name: "info", usage: ":info NAME", about: "all about a variable, function or kernel", wants: Program, run: |repl, rest| repl.info(rest) },
    Command { name: "vars", usage: ":vars", about: "the session's variables, functions and kernels", wants: Nothing, run: |repl, _| Ok(repl.variables()) },
    Command { name: "mem", usage: ":mem", about: "the memory that variables take", wants: Nothing, run: |repl, _| Ok(repl.memory()) },
    Command { name: "time", usage: ":time EXPRESSION", about: "how long it takes, compilation left out", wants: Program, run: |repl, rest| repl.time(rest) },
    Command { name: "profile", usage: ":profile ENTRY", about: "the GPU cost of the kernels that an entry launches, line by line", wants: Program, run: |repl, rest| repl.profile(rest) },
    Command { name: "bench", usage: ":bench EXPRESSION", about: "the same with more samples, and bytes per second", wants: Program, run: |repl, rest| repl.bench(rest) },
    Command { name: "check", usage: ":check [on|off|ENTRY]", about: "whether runs look for races and the like; or run one entry so", wants: WordOrProgram(SWITCHES), run: |repl, rest| repl.check(rest) },
    Command { name: "device", usage: ":device [NAME]", about: "the devices there are; or run kernels on another one", wants: Word(CHOICES), run: |repl, rest| repl.device(rest) },
    Command { name: "ir", usage: ":ir KERNEL", about: "the IR of a kernel, which all devices run", wants: Kernel, run: |repl, rest| repl.listing("ir", rest, EmitStage::Ir) },
    Command { name: "cuda", usage: ":cuda KERNEL", about: "the CUDA C++ that GPUs are given", wants: Kernel, run: |repl, rest| repl.listing("cuda", rest, EmitStage::Cuda) },
    Command { name: "ptx", usage: ":ptx KERNEL", about: "the PTX it is compiled to, and its registers", wants: Kernel, run: |repl, rest| repl.listing("ptx", rest, EmitStage::Ptx) },
    Command { name: "sass", usage: ":sass KERNEL", about: "the instructions of the GPU itself", wants: Kernel, run: |repl, rest| repl.listing("sass", rest, EmitStage::Sass) },
    Command { name: "prove", usage: ":prove [KERNEL]", about: "the properties proved for a kernel, or for all kernels, for every size", wants: Kernel, run: |repl, rest| repl.prove(rest) },
    Command { name: "why", usage: ":why ELEMENT [LEVELS] [more N]", about: "how an element came to be (`y[17]`), back to the inputs", wants: Program, run: |repl, rest| repl.why(rest) },
    Command { name: "whynan", usage: ":whynan NAME [more N]", about: "the first number that is not finite on the way to an array", wants: Program, run: |repl, rest| repl.why_not_finite(rest) },
    Command { name: "load", usage: ":load FILE", about: "run a file as if it were typed here", wants: File, run: |repl, rest| repl.load(rest) },
    Command { name: "reload", usage: ":reload", about: "read loaded and imported files again", wants: Nothing, run: |repl, _| repl.reload() },
    Command { name: "edit", usage: ":edit [NAME]", about: "a definition, or the last entry, in $EDITOR", wants: Program, run: |repl, rest| repl.edit(rest) },
    Command { name: "save", usage: ":save[!] FILE", about: "write a script that does what this session did; with `!` over another file", wants: File, run: |repl, rest| repl.save(rest, false) },
    Command { name: "history", usage: ":history [TEXT]", about: "what was typed (Ctrl-R searches earlier sessions too)", wants: Nothing, run: |repl, rest| repl.history(rest) },
    Command { name: "explain", usage: ":explain [CODE]", about: "the page of a message's code; of the last one, if none is given", wants: Code, run: |repl, rest| repl.explain(rest) },
    Command { name: "reset", usage: ":reset", about: "forget everything", wants: Nothing, run: |repl, _| { repl.reset(); Ok(String::new()) } },
    Command { name: "set", usage: ":set [NAME [VALUE]]", about: "show or change a setting", wants: Setting, run: |repl, rest| repl.set(rest) },
    Command { name: "quit", usage: ":quit", about: "end (also Ctrl-D)", wants: Nothing, run: |_, _| Ok(String::new()) },
];

/// Finds a command by its name or a prefix, with or without `!`; returns an error message if there is none.
pub(crate) fn find(word: &str) -> CommandResult<&'static Command> {
    let word = word.strip_suffix('!').unwrap_or(word);
    if let Some(exact) = COMMANDS.iter().find(|c| c.name == word) {
        return Ok(exact);
    }
    let matching: Vec<&Command> = COMMANDS.iter().filter(|c| !word.is_empty() && c.name.starts_with(word)).collect();
    match matching.as_slice() {
        [one] => Ok(one),
        [] => {
            let near = suggestions::did_you_mean(word, COMMANDS.iter().map(|c| c.name));
            Err(format!("there is no command `:{word}`; {}", near.unwrap_or_else(|| "`:help` lists them".into()))
                .into())
        }
        several => {
            let names: Vec<&str> = several.iter().map(|c| c.name).collect();
            Err(format!("`:{word}` could be :{}", names.join(" or :")).into())
        }
    }
}

impl Repl<'_> {
    pub(super) fn command(&mut self, text: &str) -> ControlFlow<()> {
        let (word, rest) = text.trim().split_once(char::is_whitespace).unwrap_or((text.trim(), ""));
        let forced = word.ends_with('!');
        let answer = match find(word) {
            Ok(command) if forced && command.name == "save" => self.save(rest.trim(), true),
            Ok(command) if forced => Err(format!("`:{}` takes no `!`", command.name).into()),
            Ok(command) if command.name == "quit" => return ControlFlow::Break(()),
            Ok(command) => (command.run)(self, rest.trim()),
            Err(complaint) => Err(complaint),
        };
        match answer {
            Ok(text) => self.context.console.print(&text),
            Err(complaint) => self.context.console.error_line(&complaint.to_string()),
        }
        ControlFlow::Continue(())
    }

    fn explain(&mut self, code: &str) -> CommandResult {
        let code = match (code, self.last_code) {
            ("", Some(last)) => last,
            ("", None) => return Err("there was no message yet; `:explain E0301` shows the page of a code".into()),
            (given, _) => given,
        };
        cli::explanation(code, self.context.console.style)
    }

    fn history(&mut self, wanted: &str) -> CommandResult {
        let earlier = self.typed.len().saturating_sub(1);
        let lines = self.typed.iter().take(earlier).filter(|(_, line)| line.contains(wanted));
        Ok(lines.map(|(number, line)| format!("{number:>4}  {}\n", line.replace('\n', "\n      "))).collect())
    }
}

/// Wraps a paragraph between words, with this indentation of all lines but the first.
fn wrapped(paragraph: &str, width: usize, indent: usize) -> String {
    let (mut lines, mut line) = (String::new(), String::new());
    for (at, word) in paragraph.split(' ').enumerate() {
        let fits = line.chars().count() + 1 + word.chars().count() <= width;
        if at > 0 && !fits && !line.trim().is_empty() {
            lines += line.trim_end();
            lines.push('\n');
            line = " ".repeat(indent);
        } else if at > 0 {
            line.push(' ');
        }
        line += word;
    }
    lines + &line + "\n"
}

fn help(repl: &mut Repl<'_>, word: &str) -> CommandResult {
    let word = word.trim_start_matches(':');
    if !word.is_empty() {
        return match guide::find(word) {
            Some(text) => Ok(text.to_string()),
            None => match find(word) {
                Ok(command) => Ok(format!("{}: {}\n", command.usage, command.about)),
                Err(complaint) => repl.doc(word).map_err(|_| complaint),
            },
        };
    }
    let width = repl.context.console.style.width;
    let mut text =
        wrapped("New here? `:help kernel` has a first kernel to enter, `:help arrays` what is around it.", width, 0);
    text += "\n";
    text += &wrapped(
        "Statements and expressions run at once; a `;` at the end keeps a value from being shown. `_` is the last value, \
         `_3` that of entry 3. Commands may be shortened: `:t` for `:type` would be two, `:ty` is one.",
        width,
        0,
    );
    text += "\n";
    for command in COMMANDS {
        text += &wrapped(&format!("  {:<23} {}", command.usage, command.about), width, 26);
    }
    text += "\n";
    text += &wrapped(
        "Enter runs a whole entry, and breaks the line inside of one; Alt-Enter always does. Tab completes, Ctrl-R searches \
         what was typed, Ctrl-C stops what runs, Ctrl-D ends. `:doc` lists builtins, the standard library and keywords.",
        width,
        0,
    );
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_may_be_abbreviated() {
        let name = |word: &str| find(word).map(|c| c.name);
        assert_eq!(name("q"), Ok("quit"));
        assert_eq!(name("help"), Ok("help"));
        assert!(name("zz").is_err_and(|e| e.title.contains(":help")));
        assert!(name("hepl").is_err_and(|e| e.title.contains("help")));
        assert!(name("re").is_err_and(|e| e.title.contains(":reload or :reset")));
    }
}
