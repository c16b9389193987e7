//! The texts and pictures that the site is made of: those in the binary, or those of a copy of the repository.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::app::{disk, manual};
use crate::compile::library;

/// Texts and pictures by their path from the root of the repository.
#[derive(Default)]
pub(crate) struct Texts {
    pub texts: BTreeMap<String, String>,
    pub pictures: BTreeMap<String, Vec<u8>>,
    /// The repository's folder, in which links to other files are looked up.
    pub root: Option<PathBuf>,
}

/// Files outside of the folders that are read whole.
const SINGLE: &[&str] =
    &["CONTRIBUTING.md", "SECURITY.md", "grammar/README.md", "grammar/numpy.md", "grammar/clk.ebnf"];
/// Folders of texts and pictures, with the extension of what is taken.
const FOLDERS: &[(&str, &str)] = &[
    ("docs", "md"),
    ("docs/book", "md"),
    ("docs/howto", "md"),
    ("docs/from", "md"),
    ("docs/pictures", "png"),
    ("docs/screens", "png"),
    ("examples", "clk"),
    ("stdlib", "clk"),
];

impl Texts {
    /// The texts in the binary.
    pub fn embedded() -> Texts {
        let of = |list: &[(&str, &str)]| -> Vec<(String, String)> {
            list.iter().map(|(path, text)| (path.to_string(), text.to_string())).collect()
        };
        let mut texts: BTreeMap<String, String> = of(manual::PAGES).into_iter().collect();
        texts.extend(of(manual::OTHERS));
        texts.extend(of(manual::EXAMPLES));
        texts.extend(library::MODULES.iter().map(|(name, text)| (format!("stdlib/{name}.clk"), text.to_string())));
        let pictures = manual::PICTURES.iter().map(|(path, bytes)| (path.to_string(), bytes.to_vec())).collect();
        Texts { texts, pictures, root: None }
    }

    /// The texts of a copy of the repository; `Err` names what cannot be read.
    pub fn of_folder(root: &Path) -> Result<Texts, (PathBuf, String)> {
        let mut found = Texts { root: Some(root.to_path_buf()), ..Texts::default() };
        for name in SINGLE {
            found.add(root, (*name).to_owned())?;
        }
        for (folder, extension) in FOLDERS {
            let path = root.join(folder);
            let entries = std::fs::read_dir(&path).map_err(|error| (path.clone(), disk::reason(&error)))?;
            let names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
            for name in names.filter(|name| name.ends_with(&format!(".{extension}"))) {
                found.add(root, format!("{folder}/{name}"))?;
            }
        }
        Ok(found)
    }

    fn add(&mut self, root: &Path, name: String) -> Result<(), (PathBuf, String)> {
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
    fn the_binary_has_what_the_repository_has() {
        let there = Texts::of_folder(Path::new(env!("CARGO_MANIFEST_DIR"))).expect("the repository");
        let here = Texts::embedded();
        let names = |texts: &Texts| texts.texts.keys().chain(texts.pictures.keys()).cloned().collect::<Vec<_>>();
        assert_eq!(names(&here), names(&there), "the lists in src/app/manual.rs and the folders differ");
        assert!(here.texts == there.texts && here.pictures == there.pictures, "built from older files");
    }
}
