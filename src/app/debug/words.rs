//! The words of the debugger's commands.

/// A command.
pub(crate) struct Word {
    pub name: &'static str,
    /// Other spellings.
    pub short: &'static [&'static str],
    pub takes: &'static str,
    pub about: &'static str,
}

const fn word(name: &'static str, short: &'static [&'static str], takes: &'static str, about: &'static str) -> Word {
    Word { name, short, takes, about }
}

pub(crate) const WORDS: &[Word] = &[
    word("break", &["b"], "LINE | FILE:LINE | NAME | nan [thread T] [block B] [if EXPR]", "stop there"),
    word("tbreak", &["tb"], "the same", "stop there once"),
    word("watch", &[], "ARRAY[INDEX, …] [thread T] [block B] [if EXPR]", "stop when the element is written"),
    word("delete", &["d"], "[NUMBER]", "remove a breakpoint, or all"),
    word("disable", &[], "NUMBER", "keep a breakpoint, and do not stop there"),
    word("enable", &[], "NUMBER", "stop there again"),
    word("run", &["r"], "", "run the script, from its start"),
    word("launch", &[], "", "run to the next launch"),
    word("continue", &["c"], "", "run to the next stop"),
    word("reverse-continue", &["rc"], "", "run backwards to the last stop"),
    word("step", &["s"], "[COUNT]", "the thread's next statement, into functions"),
    word("reverse-step", &["rs", "back"], "[COUNT]", "the thread's last statement, into functions"),
    word("next", &["n"], "[COUNT]", "the thread's next statement, over functions"),
    word("reverse-next", &["rn"], "[COUNT]", "the thread's last statement, over functions"),
    word("finish", &["fin"], "", "to where the function returns"),
    word("reverse-finish", &["rf"], "", "to where the function was called"),
    word("goto", &["g"], "STEP | start | end | block N", "go to a step of the launch"),
    word("print", &["p"], "EXPR", "the value of an expression in the thread"),
    word("print-all", &["pa"], "EXPR", "its value in all threads of the warp"),
    word("heat", &[], "ARRAY", "an array of numbers as a picture"),
    word("plot", &[], "ARRAY", "an array of numbers as a curve"),
    word("info", &["i"], "locals | threads | barriers | break | launch | history", "what there is"),
    word("mask", &[], "", "who of the warp runs, waits, has ended"),
    word("thread", &["t"], "[INDEX | (X, Y, Z)]", "look at another thread of the block"),
    word("block", &[], "[INDEX | (X, Y, Z)]", "look at another block"),
    word("where", &["bt"], "", "the calls of the thread"),
    word("up", &[], "", "look at the caller"),
    word("down", &[], "", "look at the called function"),
    word("list", &["l"], "", "the source around the place"),
    word("help", &["h"], "[COMMAND]", "this"),
    word("quit", &["q"], "", "end"),
];

/// Returns the command that a word means: its name, a short form, or the beginning of one name.
pub(crate) fn find(text: &str) -> Result<&'static Word, String> {
    if let Some(exact) = WORDS.iter().find(|word| word.name == text || word.short.contains(&text)) {
        return Ok(exact);
    }
    let begun: Vec<&Word> = WORDS.iter().filter(|word| word.name.starts_with(text)).collect();
    match begun.as_slice() {
        [one] => Ok(one),
        [] => {
            let near =
                WORDS.iter().map(|w| w.name).max_by(|a, b| strsim::jaro(a, text).total_cmp(&strsim::jaro(b, text)));
            Err(format!("there is no command `{text}`; did you mean `{}`? `help` lists them", near.unwrap_or("help")))
        }
        several => {
            let names: Vec<String> = several.iter().map(|word| format!("`{}`", word.name)).collect();
            Err(format!("`{text}` begins several commands: {}", names.join(", ")))
        }
    }
}

/// Returns the help for a command, or for all.
pub(crate) fn help(text: &str) -> String {
    let one = |word: &Word| {
        let short = if word.short.is_empty() { String::new() } else { format!(" ({})", word.short.join(", ")) };
        let takes = if word.takes.is_empty() { String::new() } else { format!(" {}", word.takes) };
        format!("{}{short}{takes}\n    {}\n", word.name, word.about)
    };
    if text.is_empty() {
        return WORDS.iter().map(one).collect::<String>()
            + "An empty line repeats the last command. Ctrl-C stops a run. T and B are an index or a tuple: `3`, `(1, 2)`.\n";
    }
    match find(text) {
        Ok(word) => one(word),
        Err(why) => why + "\n",
    }
}
