//! `clk completions` and `clk man`: generate shell completions and manual pages from the definition of the command
//! line. Packages install them together with the binary.

use std::path::{Path, PathBuf};

use clap::{Arg, Command, value_parser};
use clap_complete::Shell;

use crate::context::AppContext;
use crate::{disk, exit};
use clk_base::source::SourceMap;

pub(crate) fn completions_command() -> Command {
    Command::new("completions").about("Write the completions of a shell to standard output").arg(
        Arg::new("shell")
            .value_name("SHELL")
            .required(true)
            .value_parser(value_parser!(Shell))
            .help("For bash: `clk completions bash > ~/.local/share/bash-completion/completions/clk`"),
    )
}

pub(crate) fn man_command() -> Command {
    Command::new("man").about("Write the manual pages of all commands into a folder").arg(
        Arg::new("folder")
            .value_name("FOLDER")
            .required(true)
            .value_parser(value_parser!(PathBuf))
            .help("Such as `~/.local/share/man/man1`; it is made if it is not there"),
    )
}

pub(crate) fn completions(shell: Shell, mut clk: Command, context: &mut AppContext) -> u8 {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut clk, "clk", &mut text);
    context.console.print(&String::from_utf8_lossy(&text));
    exit::OK
}

pub(crate) fn man(folder: &Path, mut clk: Command, context: &mut AppContext) -> u8 {
    if let Err(error) = std::fs::create_dir_all(folder) {
        context.console.report(&disk::unwritable(folder, &error.into()), &SourceMap::default());
        return exit::FAILURE;
    }
    clk.build();
    let pages = pages(&clk);
    for (name, page) in &pages {
        let path = folder.join(name);
        if let Err(why) = disk::write_atomically(&path, page) {
            context.console.report(&disk::unwritable(&path, &why), &SourceMap::default());
            return exit::FAILURE;
        }
    }
    context.console.fact(&format!("wrote {} pages to {}", pages.len(), folder.display()));
    exit::OK
}

/// Returns the pages of a command and of its subcommands, with their file names.
fn pages(command: &Command) -> Vec<(String, Vec<u8>)> {
    // The short help hides some options; a manual page must list all of them.
    let full = command.clone().mut_args(|arg| arg.hide_short_help(false));
    let page = clap_mangen::Man::new(full).source(format!("clk {}", env!("CARGO_PKG_VERSION")));
    let mut text = Vec::new();
    // Writing to memory cannot fail.
    let _ = page.render(&mut text);
    let mut all_pages = vec![(page.get_filename(), text)];
    all_pages.extend(command.get_subcommands().filter(|sub| !sub.is_hide_set()).flat_map(pages));
    all_pages
}
