//! The source texts and pictures of the site, from the binary or from a copy of the repository.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::{disk, manual};
use clk_base::file_error::FileError;
use clk_compile::library;

/// The texts and pictures of the site, by path relative to the root of the repository.
#[derive(Default)]
pub(crate) struct SiteSources {
    pub texts: BTreeMap<String, String>,
    pub pictures: BTreeMap<String, Vec<u8>>,
    /// The folder of the repository copy, if any. Links to files that are not pages are checked against it.
    pub root: Option<PathBuf>,
}

/// The files to read that are not in one of the [`FOLDERS`].
const SINGLE: &[&str] =
    &["CONTRIBUTING.md", "SECURITY.md", "grammar/README.md", "grammar/numpy.md", "grammar/clk.ebnf"];
/// The folders to read, each with the extension of its texts or pictures.
const FOLDERS: &[(&str, &str)] = &[
    ("docs", "md"),
    ("docs/book", "md"),
    ("docs/howto", "md"),
    ("docs/from", "md"),
    ("docs/internals", "md"),
    ("docs/pictures", "png"),
    ("docs/screens", "png"),
    ("examples", "clk"),
    ("stdlib", "clk"),
];

/// The table of renamed items in `docs/internals`. It is only for contributors and does not become a page.
const RENAMES: &str = "renames.md";

impl SiteSources {
    /// Returns the texts and pictures that are part of the binary.
    pub fn embedded() -> SiteSources {
        let of = |list: &[(&str, &str)]| -> Vec<(String, String)> {
            list.iter().map(|(path, text)| (path.to_string(), text.to_string())).collect()
        };
        let mut texts: BTreeMap<String, String> = of(manual::PAGES).into_iter().collect();
        texts.extend(of(manual::OTHERS));
        texts.extend(of(manual::EXAMPLES));
        texts.extend(library::MODULES.iter().map(|(name, text)| (format!("stdlib/{name}.clk"), text.to_string())));
        let pictures = manual::PICTURES.iter().map(|(path, bytes)| (path.to_string(), bytes.to_vec())).collect();
        SiteSources { texts, pictures, root: None }
    }

    /// Reads the texts and pictures from a copy of the repository. `Err` is the file that cannot be read, and the
    /// error.
    pub fn of_folder(root: &Path) -> Result<SiteSources, (PathBuf, FileError)> {
        let mut sources = SiteSources { root: Some(root.to_path_buf()), ..SiteSources::default() };
        for name in SINGLE {
            sources.add(root, (*name).to_owned())?;
        }
        for (folder, extension) in FOLDERS {
            let path = root.join(folder);
            let entries = std::fs::read_dir(&path).map_err(|error| (path.clone(), error.into()))?;
            let names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
            for name in names.filter(|name| name.ends_with(&format!(".{extension}")) && name != RENAMES) {
                sources.add(root, format!("{folder}/{name}"))?;
            }
        }
        Ok(sources)
    }

    fn add(&mut self, root: &Path, name: String) -> Result<(), (PathBuf, FileError)> {
        let path = root.join(&name);
        if name.ends_with(".png") {
            let bytes = disk::read(&path).map_err(|why| (path, why))?;
            self.pictures.insert(name, bytes);
        } else {
            let text = disk::read_source(&path).map_err(|why| (path, why))?;
            self.texts.insert(name, text);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn embedded_texts_match_the_repository() {
        let on_disk = SiteSources::of_folder(Path::new(env!("CARGO_MANIFEST_DIR"))).expect("the repository");
        let embedded = SiteSources::embedded();
        let names = |texts: &SiteSources| texts.texts.keys().chain(texts.pictures.keys()).cloned().collect::<Vec<_>>();
        assert_eq!(names(&embedded), names(&on_disk), "the lists in src/app/manual.rs and the folders differ");
        assert!(embedded.texts == on_disk.texts && embedded.pictures == on_disk.pictures, "built from older files");
    }
}
