//! Settings of a session (`:set`).

/// Settings of the line editor. Settings for launches are in the interpreter's options.
#[derive(Clone, Debug)]
pub(crate) struct EditorSettings {
    /// Whether to use vi key bindings.
    pub vi: bool,
    /// Whether to show hints in gray after the cursor.
    pub hints: bool,
    /// Whether to color the line while typing.
    pub highlight: bool,
    /// Columns of the output; `None` for the width of the terminal.
    pub width: Option<usize>,
}

impl Default for EditorSettings {
    fn default() -> Self {
        EditorSettings { vi: false, hints: true, highlight: true, width: None }
    }
}

/// Names of all settings.
pub(crate) const NAMES: &[&str] =
    &["vi", "hints", "highlight", "ascii", "seed", "max-steps", "workers", "width", "isolate"];

/// Returns the possible values of a setting, if it takes one of a fixed set of words.
pub(crate) fn values(name: &str) -> &'static [&'static str] {
    match name {
        "vi" | "hints" | "highlight" | "ascii" | "isolate" => &["on", "off"],
        "max-steps" => &["none"],
        _ => &[],
    }
}
