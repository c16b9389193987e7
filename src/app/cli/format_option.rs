//! The options `--format` and `--json`, and which formats suit a command.

use clap::{Arg, ArgAction, ArgMatches};

use crate::command_error::CommandResult;
use crate::output::OutputFormat;

/// The properties of a command that determine its formats.
#[derive(Clone, Copy, Debug)]
pub(super) struct FormatNeeds {
    /// Whether the command reports findings in programs.
    pub has_findings: bool,
    pub has_tests: bool,
    /// Whether several processes run the script.
    pub has_ranks: bool,
    /// Whether a fault opens the debugger.
    pub debugs: bool,
}

pub(super) fn json() -> Arg {
    Arg::new("json")
        .long("json")
        .action(ArgAction::SetTrue)
        .global(true)
        .help("Diagnostics and results as JSON lines: short for `--format json`")
}

pub(super) fn format() -> Arg {
    Arg::new("format")
        .long("format")
        .value_name("FORMAT")
        .global(true)
        .value_parser(OutputFormat::ALL.map(OutputFormat::name))
        .hide_possible_values(true)
        .hide_short_help(true)
        .help(
            "Format of diagnostics and results: human or json; in `check`, `prove`, `run` and `test` also sarif, or \
             github for annotations of workflows; in `test` also junit [default: human]",
        )
}

/// Returns the format that the options name.
pub(super) fn chosen(matches: &ArgMatches) -> CommandResult<OutputFormat> {
    let named = matches.get_one::<String>("format").and_then(|name| OutputFormat::from_name(name));
    match (named, matches.get_flag("json")) {
        (Some(format), true) if format != OutputFormat::Json => {
            Err(format!("--json is short for `--format json`: leave out --json, or `--format {}`", format.name())
                .into())
        }
        (_, true) => Ok(OutputFormat::Json),
        (named, false) => Ok(named.unwrap_or_default()),
    }
}

/// Refuses a format that does not suit the command.
pub(super) fn check(format: OutputFormat, needs: FormatNeeds) -> CommandResult<()> {
    const OTHERS: &str = "is for `clk check`, `clk prove`, `clk run` and `clk test`; all commands have `--format json`";
    let complaint = match format {
        OutputFormat::Human | OutputFormat::Json => return Ok(()),
        OutputFormat::Junit if needs.has_tests => return Ok(()),
        OutputFormat::Junit => {
            "a JUnit report has the results of tests: `--format junit` is for `clk test`; `clk check`, `clk prove` and \
             `clk run` have `--format sarif`, all commands `--format json`"
                .to_owned()
        }
        OutputFormat::Sarif if needs.has_ranks => {
            "each rank reports its own findings, and a SARIF log is one document: use `--format json`, or leave out \
             `--ranks`"
                .to_owned()
        }
        OutputFormat::Sarif if needs.debugs => {
            "standard output has the SARIF log, and the debugger needs it: leave out `--debug-on-fault`".to_owned()
        }
        OutputFormat::Sarif | OutputFormat::Github if needs.has_findings => return Ok(()),
        OutputFormat::Sarif => format!("this command has no findings for a SARIF log: `--format sarif` {OTHERS}"),
        OutputFormat::Github => format!("this command has no findings to annotate: `--format github` {OTHERS}"),
    };
    Err(complaint.into())
}
