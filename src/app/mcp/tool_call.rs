//! The input of a tool.

use std::path::Path;
use std::sync::Arc;

use super::arguments::Arguments;
use super::limits::LaunchCount;

/// A call of a tool.
#[derive(Clone, Copy)]
pub(super) struct ToolCall<'a> {
    pub arguments: &'a Arguments,
    /// The path of the program; empty if the tool has none.
    pub path: &'a Path,
    pub launches: &'a Arc<LaunchCount>,
}
