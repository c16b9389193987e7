//! The debugger's command names and their help texts.
use crate::command_error::CommandResult;

/// A command of the debugger.
pub(crate) struct DebugCommand {
    pub name: &'static str,
    /// Abbreviations and aliases of the name.
    pub short: &'static [&'static str],
    pub arguments: &'static str,
    pub about: &'static str,
}

const fn command(
    name: &'static str,
    short: &'static [&'static str],
    takes: &'static str,
    about: &'static str,
) -> DebugCommand {
    DebugCommand { name, short, arguments: takes, about }
}

pub(crate) const WORDS: &[DebugCommand] = &[
    command("break", &["b"], "LINE | FILE:LINE | NAME | nan [thread T] [block B] [if EXPR]", "stop there"),
    command("tbreak", &["tb"], "the same", "stop there once"),
    command("watch", &[], "ARRAY[INDEX, …] [thread T] [block B] [if EXPR]", "stop when the element is written"),
    command("delete", &["d"], "[NUMBER]", "remove a breakpoint, or all"),
    command("disable", &[], "NUMBER", "keep a breakpoint, and do not stop there"),
    command("enable", &[], "NUMBER", "stop there again"),
    command("run", &["r"], "", "run the script, from its start"),
    command("launch", &[], "", "run to the next launch"),
    command("continue", &["c"], "", "run to the next stop"),
    command("reverse-continue", &["rc"], "", "run backwards to the last stop"),
    command("step", &["s"], "[COUNT]", "the thread's next statement, into functions"),
    command("reverse-step", &["rs", "back"], "[COUNT]", "the thread's last statement, into functions"),
    command("next", &["n"], "[COUNT]", "the thread's next statement, over functions"),
    command("reverse-next", &["rn"], "[COUNT]", "the thread's last statement, over functions"),
    command("finish", &["fin"], "", "to where the function returns"),
    command("reverse-finish", &["rf"], "", "to where the function was called"),
    command("goto", &["g"], "STEP | start | end | block N", "go to a step of the launch"),
    command("print", &["p"], "EXPR", "the value of an expression in the thread"),
    command("print-all", &["pa"], "EXPR", "its value in all threads of the warp"),
    command("heat", &[], "ARRAY", "an array of numbers as a picture"),
    command("plot", &[], "ARRAY", "an array of numbers as a curve"),
    command("info", &["i"], "locals | threads | barriers | break | launch | history", "what there is"),
    command("mask", &[], "", "who of the warp runs, waits, has ended"),
    command("thread", &["t"], "[INDEX | (X, Y, Z)]", "look at another thread of the block"),
    command("block", &[], "[INDEX | (X, Y, Z)]", "look at another block"),
    command("where", &["bt"], "", "the calls of the thread"),
    command("up", &[], "", "look at the caller"),
    command("down", &[], "", "look at the called function"),
    command("list", &["l"], "", "the source around the place"),
    command("help", &["h"], "[COMMAND]", "this"),
    command("quit", &["q"], "", "end"),
];

/// Finds a command by its name, an alias, or an unambiguous prefix.
pub(crate) fn find(text: &str) -> CommandResult<&'static DebugCommand> {
    if let Some(exact) = WORDS.iter().find(|word| word.name == text || word.short.contains(&text)) {
        return Ok(exact);
    }
    let begun: Vec<&DebugCommand> = WORDS.iter().filter(|word| word.name.starts_with(text)).collect();
    match begun.as_slice() {
        [one] => Ok(one),
        [] => {
            let near =
                WORDS.iter().map(|w| w.name).max_by(|a, b| strsim::jaro(a, text).total_cmp(&strsim::jaro(b, text)));
            Err(format!("there is no command `{text}`; did you mean `{}`? `help` lists them", near.unwrap_or("help"))
                .into())
        }
        several => {
            let names: Vec<String> = several.iter().map(|word| format!("`{}`", word.name)).collect();
            Err(format!("`{text}` begins several commands: {}", names.join(", ")).into())
        }
    }
}

/// Returns the help for one command, or for all commands.
pub(crate) fn help(text: &str) -> String {
    let one = |word: &DebugCommand| {
        let short = if word.short.is_empty() { String::new() } else { format!(" ({})", word.short.join(", ")) };
        let arguments = if word.arguments.is_empty() { String::new() } else { format!(" {}", word.arguments) };
        format!("{}{short}{arguments}\n    {}\n", word.name, word.about)
    };
    if text.is_empty() {
        return WORDS.iter().map(one).collect::<String>()
            + "An empty line repeats the last command. Ctrl-C stops a run. T and B are an index or a tuple: `3`, `(1, 2)`.\n";
    }
    match find(text) {
        Ok(word) => one(word),
        Err(error) => format!("{error}\n"),
    }
}
