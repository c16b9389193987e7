//! Where the session's history is kept.

use std::path::PathBuf;

use crate::app::folders;

/// The history file, with its folder made; none where there is no home.
pub fn path() -> Option<PathBuf> {
    let folder = folders::state(&folders::environment)?;
    std::fs::create_dir_all(&folder).ok()?;
    Some(folder.join("history"))
}
