//! Settings of a session (`:set`).

/// Settings of the line editor. Settings of runs are in the interpreter's options.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// Whether to use vi key bindings.
    pub vi: bool,
    /// Whether to show hints in gray after the cursor.
    pub hints: bool,
    /// Whether to color the line while typing.
    pub highlight: bool,
    /// Columns of the output, if not those of the terminal.
    pub width: Option<usize>,
}

impl Default for Settings {
    fn default() -> Self {
        Settings { vi: false, hints: true, highlight: true, width: None }
    }
}

/// Names of all settings.
pub(crate) const NAMES: &[&str] =
    &["vi", "hints", "highlight", "ascii", "seed", "max-steps", "workers", "width", "isolate"];

/// Returns the possible values of a setting that takes words.
pub(crate) fn values(name: &str) -> &'static [&'static str] {
    match name {
        "vi" | "hints" | "highlight" | "ascii" | "isolate" => &["on", "off"],
        "max-steps" => &["none"],
        _ => &[],
    }
}
