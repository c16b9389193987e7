//! `clk help`: topics in the terminal. A topic is a command, a page of the manual, a section of the language reference,
//! a diagnostic code, or any name that `clk doc` documents.

use clap::{Arg, Command};

use super::{doc, explain};
use crate::command_error::CommandResult;
use crate::context::AppContext;
use crate::{manual, markdown, output, repl};

pub(crate) fn command() -> Command {
    Command::new("help").about("Show a topic: a command, a page of the manual, a part of the language, a name").arg(
        Arg::new("topic")
            .value_name("TOPIC")
            .num_args(0..)
            .help("Such as `run`, `proofs`, `kernels`, `sqrt`, `E0601`; without it, all topics are listed"),
    )
}

/// Shows the help for a topic. `clk` is the definition of the command line.
pub(crate) fn topic(topic: Option<&str>, mut clk: Command, context: &mut AppContext) -> u8 {
    clk.build();
    let text = match topic {
        None => Ok(overview(&clk)),
        Some(topic) => page(topic, &mut clk, context),
    };
    context.show(text)
}

/// The topic that shows the JSON schema of JSON lines.
const SCHEMA: &str = "schema";

fn page(topic: &str, clk: &mut Command, context: &AppContext) -> CommandResult {
    if topic == SCHEMA {
        return Ok(output::SCHEMA.to_owned());
    }
    let style = context.console.style;
    if let Some(command) = clk.find_subcommand_mut(topic) {
        return Ok(command.render_long_help().to_string());
    }
    if let Some(text) = repl::topic(topic) {
        return Ok(text.to_owned());
    }
    if let Some(page) = manual::page(topic) {
        return Ok(markdown::render(page, style));
    }
    if clk_codes::find(topic).is_some() {
        return explain::page(topic, style);
    }
    if let Some(section) = manual::section(topic) {
        return Ok(markdown::render(&section, style));
    }
    doc::lookup(Some(topic), style).map_err(|error| match error.help.as_deref() {
        Some(doc::LIST_HELP) => error.help("`clk help` lists all topics"),
        _ => error,
    })
}

fn overview(clk: &Command) -> String {
    let mut text = String::from("clk help TOPIC shows one of these.\n\nCommands\n");
    let commands: Vec<&Command> = clk.get_subcommands().filter(|command| !command.is_hide_set()).collect();
    for command in commands {
        text += &format!("  {:<12} {}\n", command.get_name(), command.get_about().cloned().unwrap_or_default());
    }
    text += "\nFirst steps\n";
    text += &format!("  {}\n", repl::TOPICS.join("  "));
    text += "\nPages of the manual\n";
    for (name, title) in manual::titles() {
        text += &format!("  {name:<18} {title}\n");
    }
    text += "\nThe language\n";
    for section in manual::sections() {
        text += &format!("  {section}\n");
    }
    text += "\nThe JSON schema of `--json`\n  schema\n";
    text += "\nAny name that `clk doc` knows (`sqrt`, `std.linalg`), and any code that `clk explain` knows (`E0601`), is a topic, too.\n";
    text
}
