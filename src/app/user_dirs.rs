//! Directories for the user's cache and state, by the XDG Base Directory specification.

use std::ffi::OsString;
use std::path::PathBuf;

/// A function that returns the value of an environment variable. Tests replace it.
pub(crate) type EnvLookup<'v> = &'v dyn Fn(&str) -> Option<OsString>;

/// Returns the value of an environment variable of this process unless it is unset or empty.
pub(crate) fn environment(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

/// Returns the directory for reproducible data: `XDG_CACHE_HOME/clk` if that is absolute, else `~/.cache/clk`.
pub(crate) fn cache(variable: EnvLookup<'_>) -> Option<PathBuf> {
    of(variable, "XDG_CACHE_HOME", ".cache/clk", "clk/cache")
}

/// Returns the directory for state such as the history: `XDG_STATE_HOME/clk` if that is absolute, otherwise
/// `~/.local/state/clk`.
pub(crate) fn state(variable: EnvLookup<'_>) -> Option<PathBuf> {
    of(variable, "XDG_STATE_HOME", ".local/state/clk", "clk")
}

/// Returns the directory for configuration: `XDG_CONFIG_HOME/clk` if that is absolute, else `~/.config/clk`.
pub(crate) fn configuration(variable: EnvLookup<'_>) -> Option<PathBuf> {
    of(variable, "XDG_CONFIG_HOME", ".config/clk", "clk/config")
}

fn of(variable: EnvLookup<'_>, named: &str, at_home: &str, local: &str) -> Option<PathBuf> {
    let absolute = |name: &str| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    absolute(named)
        .map(|folder| folder.join("clk"))
        .or_else(|| absolute("HOME").map(|home| home.join(at_home)))
        .or_else(|| variable("LOCALAPPDATA").map(|folder| PathBuf::from(folder).join(local)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_depend_on_environment() {
        let of = |set: &[(&str, &str)], folder: fn(EnvLookup<'_>) -> Option<PathBuf>| {
            folder(&|name| set.iter().find(|(n, _)| *n == name).map(|(_, value)| value.into()))
        };
        let home = ("HOME", "/h");
        assert_eq!(of(&[("XDG_CACHE_HOME", "/c"), home], cache), Some("/c/clk".into()));
        assert_eq!(of(&[("XDG_CACHE_HOME", "relative"), home], cache), Some("/h/.cache/clk".into()));
        assert_eq!(of(&[("XDG_STATE_HOME", "/s"), home], state), Some("/s/clk".into()));
        assert_eq!(of(&[("XDG_STATE_HOME", "relative"), home], state), Some("/h/.local/state/clk".into()));
        assert_eq!(of(&[home], configuration), Some("/h/.config/clk".into()));
        assert_eq!(of(&[], cache), None);
    }
}
