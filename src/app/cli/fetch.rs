//! `clk fetch`: downloads the Git dependencies of a project, and of what it depends on, and pins them in `clk.lock`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use clap::{Arg, ArgAction, Command, value_parser};

use crate::app::context::Context;
use crate::app::interrupt::Interrupt;
use crate::app::project::{self, LOCK, Lock, Source, UNFETCHED, Wrong};
use crate::app::{disk, exit, script};
use crate::base::diag::Diagnostic;
use crate::base::source::Sources;

pub(crate) fn command() -> Command {
    Command::new("fetch")
        .about("Download a project's dependencies by Git, and pin them in `clk.lock`")
        .arg(
            Arg::new("folder")
                .value_name("FOLDER")
                .value_parser(value_parser!(PathBuf))
                .help("A folder of the project [default: .]"),
        )
        .arg(
            Arg::new("update")
                .long("update")
                .action(ArgAction::SetTrue)
                .help("Pin again what branches and tags are by now"),
        )
}

pub(crate) fn folder(folder: &Path, update: bool, context: &mut Context) -> u8 {
    let root = project::folder_of(folder).unwrap_or_else(|| folder.to_path_buf());
    let mut walk = Walk { update, seen: BTreeSet::new(), said: vec![], interrupt: &context.interrupt };
    let done = walk.project(&root, Own::Yes);
    for line in walk.said {
        context.console.fact(&line);
    }
    match done {
        Ok(()) => exit::OK,
        Err(_) if context.interrupt.is_set() => {
            context.console.report(&Diagnostic::error("E0599", "interrupted"), &Sources::default());
            script::failure_code(&context.interrupt)
        }
        Err(wrong) => {
            context.console.report_all(&wrong.diagnostics, &wrong.sources);
            exit::FAILURE
        }
    }
}

/// Whether a project is the user's own; a fetched one is not changed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Own {
    Yes,
    Fetched,
}

struct Walk<'a> {
    update: bool,
    /// Projects that were visited: dependencies may go in circles.
    seen: BTreeSet<PathBuf>,
    said: Vec<String>,
    interrupt: &'a Interrupt,
}

impl Walk<'_> {
    fn project(&mut self, root: &Path, own: Own) -> Result<(), Wrong> {
        let full = std::fs::canonicalize(root).unwrap_or_else(|_| root.to_path_buf());
        if !self.seen.insert(full) {
            return Ok(());
        }
        let project = project::read(root)?;
        let (before, mut pins) = (project::pins(root)?, Lock::default());
        let mut next = Vec::new();
        for (name, source) in &project.manifest.dependencies {
            let (url, wanted) = match source {
                Source::Path(path) => {
                    next.push((project.folder.join(path), own));
                    continue;
                }
                Source::Git { url, wanted } => (url, wanted),
            };
            let known = before.find(name, url, wanted).map(|pin| pin.commit.as_str());
            if own == Own::Fetched && known.is_none() {
                return Err(unpinned(name, &project.manifest.name, root));
            }
            let known = known.filter(|_| own == Own::Fetched || !self.update);
            let pin =
                project::fetch(url, wanted, known, root, self.interrupt).map_err(|why| failed(name, url, &why))?;
            self.said.push(format!("{name}  {}  {wanted} of {url}", pin.commit.get(..12).unwrap_or(&pin.commit)));
            next.extend(project::checkout(url, &pin.commit).map(|home| (home, Own::Fetched)));
            pins.0.insert(name.clone(), pin);
        }
        if own == Own::Yes && pins != before {
            let path = root.join(LOCK);
            disk::write_whole(&path, pins.text().as_bytes()).map_err(|why| alone(disk::unwritable(&path, &why)))?;
            self.said.push(format!("wrote {}", path.display()));
        }
        next.into_iter().try_for_each(|(root, own)| self.project(&root, own))
    }
}

fn alone(diagnostic: Diagnostic) -> Wrong {
    Wrong { diagnostics: vec![diagnostic], sources: Sources::default() }
}

fn failed(name: &str, url: &str, why: &str) -> Wrong {
    alone(
        Diagnostic::error(UNFETCHED, format!("the dependency `{name}` cannot be fetched from `{url}`"))
            .note(why)
            .help("`git clone` has to work with this address, without a question; it begins with `https://`, `ssh://` or `file://`, or is `user@host:path` or a path"),
    )
}

fn unpinned(name: &str, project: &str, root: &Path) -> Wrong {
    alone(
        Diagnostic::error(UNFETCHED, format!("`{project}` does not pin its dependency `{name}`"))
            .note(format!("there is no entry in `{}`", root.join(LOCK).display()))
            .help(format!("run `clk fetch` in the sources of `{project}`, and commit the `clk.lock` that it writes")),
    )
}
