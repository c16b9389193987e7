//! The options of `clk mcp`.

use std::path::PathBuf;
use std::time::Duration;

/// The options of `clk mcp`.
#[derive(Clone, Debug)]
pub(crate) struct McpOptions {
    /// The folder whose files tools may read; `None` for no files.
    pub root: Option<PathBuf>,
    /// The absolute path of the root as the user has written it, perhaps with symbolic links. Clients may write it too.
    /// It only serves to recognize such paths.
    pub named_root: Option<PathBuf>,
    /// Whether scripts may write files in the root.
    pub may_write: bool,
    pub limits: CallLimits,
}

/// The limits of a call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CallLimits {
    pub time: Duration,
    /// Address space in bytes beyond the stacks and the binary.
    pub memory: u64,
    /// Number of kernel launches.
    pub launches: u64,
    /// Size in bytes of the text of a result, and of its structured content.
    pub output: usize,
    /// Number of calls that run at the same time.
    pub parallel: usize,
}
