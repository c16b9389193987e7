//! Settings of the import, and the access to headers.

/// Settings of the preprocessor and of the translation.
#[derive(Clone, Debug)]
pub struct ImportOptions {
    /// `-D NAME=VALUE`; the value of `-D NAME` is `1`.
    pub defines: Vec<(String, String)>,
    /// `-I DIRECTORY`
    pub include_dirs: Vec<String>,
    /// The value of `__CUDA_ARCH__`: 800 for compute capability 8.0. `None` for the host pass, where it is undefined.
    pub cuda_arch: Option<u32>,
    /// Whether products and sums of an expression become `fma`, as nvcc does by default (`-fmad=true`).
    pub contract: bool,
}

impl Default for ImportOptions {
    fn default() -> Self {
        ImportOptions { defines: vec![], include_dirs: vec![], cuda_arch: Some(800), contract: false }
    }
}

/// Reads a header; `None` if the path does not exist. The path begins with the directory of the including file, or with
/// one of `include_dirs`.
pub type HeaderReader<'a> = dyn Fn(&str) -> Option<String> + 'a;
