//! E02xx (names, imports), E03xx (types), E04xx (worlds, device rules) and warnings W00xx.

use super::Page;

pub static PAGES: &[Page] = &[];
