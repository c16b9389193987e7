//! E05xx (running a script), E07xx (files and formats).

use super::Page;

pub static PAGES: &[Page] = &[];
