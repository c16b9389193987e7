//! A fault, and what advice on it is taken from.

use crate::check::typed::{Body, Kernel, Program};
use crate::device::{Extents, Fault};

pub(super) struct Case<'a> {
    pub program: &'a Program,
    pub kernel: &'a Kernel,
    pub body: &'a Body,
    pub extents: Extents,
    pub fault: &'a Fault,
}
