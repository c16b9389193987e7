//! Command-line arguments of `clk launch`.

use std::borrow::Cow;
use std::path::PathBuf;

use super::json::{Malformed, Raw};
use super::refusal::{Refusal, Result};
use super::request::{self, Launch};

#[derive(Debug, Default)]
pub(crate) struct Job {
    pub file: PathBuf,
    pub kernel: Option<String>,
    /// In the order x, y, z.
    pub grid: Option<[i64; 3]>,
    pub block: Option<[i64; 3]>,
    /// Compile-time arguments such as `T=f64`.
    pub generics: Vec<(String, String)>,
    /// Dimensions such as `N=1024`.
    pub dims: Vec<(String, i64)>,
    /// By-value arguments such as `alpha=2.5`: name and JSON text.
    pub scalars: Vec<(String, String)>,
    pub base64: bool,
    /// Whether request and reply are frames.
    pub stream: bool,
    /// NPZ files of the arguments and of the results.
    pub npz: Option<(PathBuf, PathBuf)>,
    /// Whether only to print the documentation of the protocol.
    pub protocol: bool,
    /// Whether to serve requests on standard input, or on the socket at this path.
    pub serve: bool,
    pub socket: Option<PathBuf>,
    /// Limit in bytes of a request, of an array, and of all kept arrays together.
    pub max_bytes: u64,
}

impl Job {
    /// Returns a launch with the scalars, dimensions and compile-time arguments of the command line, to which the request adds.
    pub fn launch(&self) -> Result<Launch<'_>> {
        let mut launch = Launch::default();
        for (name, text) in &self.generics {
            if !request::is_word(text) {
                return Err(Refusal::new("E0802", format!("`{name}` cannot be `{text}`"))
                    .note("a compile-time argument is a number, or the name of a type or function"));
            }
            launch.generics.push((Cow::Borrowed(name), Cow::Borrowed(text)));
        }
        launch.dims = self.dims.iter().map(|(name, extent)| (Cow::Borrowed(name.as_str()), *extent)).collect();
        for (name, text) in &self.scalars {
            let value = Raw::parse(text).map_err(|Malformed { why, .. }| {
                Refusal::new("E0801", format!("the value of `{name}` is no JSON: {why}"))
            })?;
            launch.scalars.push((Cow::Borrowed(name), value));
        }
        Ok(launch)
    }

    /// Applies the command line's kernel, grid and block, which take precedence over the request's.
    pub fn overrule<'a>(&'a self, launch: &mut Launch<'a>) {
        if let Some(kernel) = &self.kernel {
            launch.kernel = Some((Cow::Borrowed(kernel), None));
        }
        launch.grid = self.grid.or(launch.grid);
        launch.block = self.block.or(launch.block);
    }
}
