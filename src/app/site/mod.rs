//! `clk doc --html`: generates the documentation as a folder of static pages. Input: the manual (from the binary or a
//! copy of the repository), and the documentation of builtins, library and diagnostic codes. Output: HTML, a style
//! sheet, scripts and pictures. Links are checked after all pages are known.
//!
//! The pages need no network. Only the search and the playground need scripts. Programs are highlighted by Clk's own
//! lexer.

mod highlight;
mod markdown;
mod page;
mod plan;
mod playground;
mod reference;
mod search;
mod section_words;
mod template;
mod texts;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use self::markdown::RenderedPage;
use self::page::SitePage;
pub(crate) use self::texts::SiteSources;
use super::{disk, output};
use clk_base::file_error::FileError;

/// A generated site: its files, and the errors in its sources.
pub(crate) struct Website {
    files: BTreeMap<String, Vec<u8>>,
    pages: usize,
    /// Errors in the sources, such as links to pages that do not exist.
    pub complaints: Vec<String>,
}

/// Generates the site of Clk itself. `simulator` is the simulator as WebAssembly; if it is given, the site has a
/// playground.
pub(crate) fn make(texts: &SiteSources, simulator: Option<Vec<u8>>) -> Website {
    let mut pages = plan::pages(texts);
    pages.extend(reference::pages());
    if simulator.is_some() {
        pages.push(playground::page(&pages));
    }
    let mut site = build(pages, texts);
    if let Some(simulator) = simulator {
        site.files.extend(playground::FILES.iter().map(|(name, text)| (name.to_string(), text.as_bytes().to_vec())));
        site.files.insert("playground.wasm".into(), simulator);
    }
    site
}

/// Generates the site for a list of programs (path and text).
pub(crate) fn of_programs(programs: &[(PathBuf, String)]) -> Website {
    build(reference::of_programs(programs), &SiteSources::default())
}

fn build(pages: Vec<SitePage>, texts: &SiteSources) -> Website {
    let is_own = !texts.texts.is_empty();
    let mut places: BTreeMap<&str, &str> =
        pages.iter().filter(|p| !p.source.is_empty()).map(|p| (p.source.as_str(), p.output.as_str())).collect();
    let mut outputs: BTreeSet<&str> = pages.iter().map(|page| page.output.as_str()).collect();
    if is_own {
        let (source, output) = SCHEMA_FILE;
        places.insert(source, output);
        outputs.insert(output);
    }
    let mut complaints = Vec::new();
    let rendered: Vec<RenderedPage> = pages
        .iter()
        .map(|page| markdown::render(page, &markdown::LinkTargets { places: &places, outputs: &outputs, texts }))
        .collect();
    let ids: BTreeMap<&str, &BTreeSet<String>> =
        pages.iter().zip(&rendered).map(|(page, done)| (page.output.as_str(), &done.ids)).collect();
    for (page, done) in pages.iter().zip(&rendered) {
        let name = if page.source.is_empty() { &page.output } else { &page.source };
        complaints.extend(done.complaints.iter().map(|complaint| format!("{name}: {complaint}")));
        for (target, anchor) in &done.anchors {
            if !ids.get(target.as_str()).is_some_and(|ids| ids.contains(anchor)) {
                complaints.push(format!("{name}: `{target}` has no heading for `#{anchor}`"));
            }
        }
    }
    let mut files = BTreeMap::new();
    let navigation = plan::Navigation::new(&pages);
    for (page, done) in pages.iter().zip(&rendered) {
        files.insert(page.output.clone(), template::page(page, done, &navigation).into_bytes());
    }
    files.insert("search-index.js".into(), search::index(&pages, &rendered).into_bytes());
    files.insert("style.css".into(), template::STYLE.into());
    files.insert("search.js".into(), template::SCRIPT.into());
    files.insert("rank.js".into(), template::RANKING.into());
    files.insert(".nojekyll".into(), vec![]);
    if is_own {
        files.insert(SCHEMA_FILE.1.into(), output::SCHEMA.into());
    }
    let pictures: BTreeSet<&String> = rendered.iter().flat_map(|done| &done.pictures).collect();
    for name in pictures {
        if let Some(bytes) = texts.pictures.get(name) {
            files.insert(plan::picture(name), bytes.clone());
        }
    }
    Website { files, pages: pages.len(), complaints }
}

/// The JSON schema of JSON lines: its path in the repository, and in the site.
const SCHEMA_FILE: (&str, &str) = ("docs/schema/clk-output.schema.json", "schema/clk-output.schema.json");

/// The name of the file that lists the files of a site. The next run may replace only these.
const LIST: &str = ".clk-doc";
const LIST_HEAD: &str = "# Files that `clk doc --html` has written here, and may replace.\n";

const FOREIGN: FileError =
    FileError::Refused("`clk doc` has not written this file; give another folder, or remove the file");

impl Website {
    /// Writes all files to a folder and returns the number of pages. On failure, returns the file that cannot be
    /// written, and the reason. Replaces only files that an earlier run has written.
    pub fn write(&self, folder: &Path) -> Result<usize, (PathBuf, FileError)> {
        let list = folder.join(LIST);
        let before = match list.symlink_metadata() {
            Ok(_) => disk::read_source(&list).map_err(|why| (list.clone(), why))?,
            Err(_) => LIST_HEAD.to_owned(),
        };
        let before = before.strip_prefix(LIST_HEAD).ok_or_else(|| (list.clone(), FOREIGN))?;
        let replaceable: BTreeSet<&str> = before.lines().collect();
        let is_foreign = |name: &str, bytes: &[u8]| {
            let path = folder.join(name);
            path.symlink_metadata().is_ok()
                && !replaceable.contains(name)
                && !disk::read(&path).is_ok_and(|old| old == bytes)
        };
        if let Some((name, _)) = self.files.iter().find(|(name, bytes)| is_foreign(name, bytes)) {
            return Err((folder.join(name), FOREIGN));
        }
        // The list is written before the other files, so that an interrupted run can be repeated.
        let names: BTreeSet<&str> = replaceable.into_iter().chain(self.files.keys().map(String::as_str)).collect();
        let names = names.into_iter().fold(String::from(LIST_HEAD), |text, name| text + name + "\n");
        let lists = [(LIST, names.as_bytes())];
        let files = self.files.iter().map(|(name, bytes)| (name.as_str(), bytes.as_slice()));
        for (name, bytes) in lists.into_iter().chain(files) {
            let path = folder.join(name);
            if let Some(parent) = path.parent() {
                std::fs::create_dir_all(parent).map_err(|error| (parent.to_path_buf(), error.into()))?;
            }
            disk::write_atomically(&path, bytes).map_err(|why| (path, why))?;
        }
        Ok(self.pages)
    }
}
