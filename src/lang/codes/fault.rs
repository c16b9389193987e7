//! E06xx: faults of running kernels.

use super::Page;

pub static PAGES: &[Page] = &[];
