//! E01xx: what the lexer and the parser report.

use super::Page;

pub static PAGES: &[Page] = &[];
