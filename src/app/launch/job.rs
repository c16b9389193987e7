//! The command-line arguments of `clk launch`.

use std::borrow::Cow;
use std::path::PathBuf;

use super::json::{JsonError, JsonRaw};
use super::launch_error::{LaunchRequestError, Result};
use super::request::{self, LaunchRequest};

#[derive(Debug, Default)]
pub(crate) struct LaunchJob {
    pub file: PathBuf,
    pub kernel: Option<String>,
    /// Number of blocks along x, y and z.
    pub grid: Option<[i64; 3]>,
    pub block: Option<[i64; 3]>,
    /// Compile-time arguments such as `T=f64`: name and text.
    pub generics: Vec<(String, String)>,
    /// Extents of dimensions, such as `N=1024`.
    pub dims: Vec<(String, i64)>,
    /// By-value arguments such as `alpha=2.5`: name and JSON text.
    pub scalars: Vec<(String, String)>,
    pub base64: bool,
    /// Whether the request and the reply are binary frames instead of JSON lines.
    pub stream: bool,
    /// The NPZ file with the arguments, and the NPZ file for the results.
    pub npz: Option<(PathBuf, PathBuf)>,
    /// Whether to print the documentation of the protocol and do nothing else.
    pub protocol: bool,
    /// Whether to serve requests on standard input, or on the Unix socket at this path.
    pub serve: bool,
    pub socket: Option<PathBuf>,
    /// Maximum size in bytes of a request, of an array, and of all kept arrays together.
    pub max_bytes: u64,
}

impl LaunchJob {
    /// Returns a launch request with the scalars, dimensions and compile-time arguments of the command line. The
    /// client's request adds other arguments to it.
    pub fn launch(&self) -> Result<LaunchRequest<'_>> {
        let mut launch = LaunchRequest::default();
        for (name, text) in &self.generics {
            if !request::is_word(text) {
                return Err(LaunchRequestError::new("E0802", format!("`{name}` cannot be `{text}`"))
                    .note("a compile-time argument is a number, or the name of a type or function"));
            }
            launch.generics.push((Cow::Borrowed(name), Cow::Borrowed(text)));
        }
        launch.dims = self.dims.iter().map(|(name, extent)| (Cow::Borrowed(name.as_str()), *extent)).collect();
        for (name, text) in &self.scalars {
            let value = JsonRaw::parse(text).map_err(|JsonError { why, .. }| {
                LaunchRequestError::new("E0801", format!("the value of `{name}` is not valid JSON: {why}"))
            })?;
            launch.scalars.push((Cow::Borrowed(name), value));
        }
        Ok(launch)
    }

    /// Replaces the kernel, grid and block of a request by the values of the command line, where it has them.
    pub fn overrule<'a>(&'a self, launch: &mut LaunchRequest<'a>) {
        if let Some(kernel) = &self.kernel {
            launch.kernel = Some((Cow::Borrowed(kernel), None));
        }
        launch.grid = self.grid.or(launch.grid);
        launch.block = self.block.or(launch.block);
    }
}
