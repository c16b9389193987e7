//! `clk fetch`: downloads the Git dependencies of a project, including indirect ones, and pins their commits in
//! `clk.lock`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use clap::{Arg, ArgAction, Command, value_parser};

use crate::context::AppContext;
use crate::interrupt::Interrupt;
use crate::project::{self, DependencySource, LOCK, LockFile, ProjectErrors, UNFETCHED};
use crate::{disk, exit, script};
use clk_base::diag::Diagnostic;
use clk_base::source::SourceMap;

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

pub(crate) fn folder(folder: &Path, update: bool, context: &mut AppContext) -> u8 {
    let root = project::folder_of(folder).unwrap_or_else(|| folder.to_path_buf());
    let mut walk = DependencyFetcher { update, seen: BTreeSet::new(), said: vec![], interrupt: &context.interrupt };
    let done = walk.project(&root, ProjectKind::Root);
    for line in walk.said {
        context.console.fact(&line);
    }
    match done {
        Ok(()) => exit::OK,
        Err(_) if context.interrupt.is_set() => {
            context.console.report(&Diagnostic::error("E0599", "interrupted"), &SourceMap::default());
            script::failure_code(&context.interrupt)
        }
        Err(wrong) => {
            context.console.report_all(&wrong.diagnostics, &wrong.sources);
            exit::FAILURE
        }
    }
}

/// Whether a project belongs to the user or was fetched. The files of a fetched project are not changed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ProjectKind {
    Root,
    Fetched,
}

struct DependencyFetcher<'a> {
    update: bool,
    /// The folders of the projects already visited, because dependencies may be cyclic.
    seen: BTreeSet<PathBuf>,
    said: Vec<String>,
    interrupt: &'a Interrupt,
}

impl DependencyFetcher<'_> {
    fn project(&mut self, root: &Path, own: ProjectKind) -> Result<(), ProjectErrors> {
        let full = std::fs::canonicalize(root).unwrap_or_else(|_| root.to_path_buf());
        if !self.seen.insert(full) {
            return Ok(());
        }
        let project = project::read(root)?;
        let (before, mut pins) = (project::read_pins(root)?, LockFile::default());
        let mut next = Vec::new();
        for (name, source) in &project.manifest.dependencies {
            let (url, wanted) = match source {
                DependencySource::Path(path) => {
                    next.push((project.folder.join(path), own));
                    continue;
                }
                DependencySource::Git { url, wanted } => (url, wanted),
            };
            let pinned = before.find(name, url, wanted).map(|pin| pin.commit.as_str());
            if own == ProjectKind::Fetched && pinned.is_none() {
                return Err(unpinned(name, &project.manifest.name, root));
            }
            let pinned = pinned.filter(|_| own == ProjectKind::Fetched || !self.update);
            let pin = project::fetch(url, wanted, pinned, root, self.interrupt)
                .map_err(|why| failed(name, url, &why.to_string()))?;
            self.said.push(format!("{name}  {}  {wanted} of {url}", pin.commit.get(..12).unwrap_or(&pin.commit)));
            next.extend(project::checkout(url, &pin.commit).map(|home| (home, ProjectKind::Fetched)));
            pins.0.insert(name.clone(), pin);
        }
        if own == ProjectKind::Root && pins != before {
            let path = root.join(LOCK);
            disk::write_atomically(&path, pins.text().as_bytes())
                .map_err(|why| single_error(disk::unwritable(&path, &why)))?;
            self.said.push(format!("wrote {}", path.display()));
        }
        next.into_iter().try_for_each(|(root, own)| self.project(&root, own))
    }
}

fn single_error(diagnostic: Diagnostic) -> ProjectErrors {
    ProjectErrors { diagnostics: vec![diagnostic], sources: SourceMap::default() }
}

fn failed(name: &str, url: &str, why: &str) -> ProjectErrors {
    single_error(
        Diagnostic::error(UNFETCHED, format!("the dependency `{name}` cannot be fetched from `{url}`"))
            .note(why)
            .help("`git clone` has to work with this address, without a question; it begins with `https://`, `ssh://` or `file://`, or is `user@host:path` or a path"),
    )
}

fn unpinned(name: &str, project: &str, root: &Path) -> ProjectErrors {
    single_error(
        Diagnostic::error(UNFETCHED, format!("`{project}` does not pin its dependency `{name}`"))
            .note(format!("there is no entry in `{}`", root.join(LOCK).display()))
            .help(format!("run `clk fetch` in the sources of `{project}`, and commit the `clk.lock` that it writes")),
    )
}
