//! The user's folders, by the XDG rules.

use std::ffi::OsString;
use std::path::PathBuf;

/// Looks a variable of the environment up.
pub(crate) type Variable<'v> = &'v dyn Fn(&str) -> Option<OsString>;

/// A variable of this process that is not empty.
pub(crate) fn environment(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

/// The folder for what can be made anew: `XDG_CACHE_HOME/clk` if that is absolute, else `~/.cache/clk`.
pub(crate) fn cache(variable: Variable<'_>) -> Option<PathBuf> {
    of(variable, "XDG_CACHE_HOME", ".cache/clk", "clk/cache")
}

/// The folder for state such as a history: `XDG_STATE_HOME/clk` if that is absolute, else `~/.local/state/clk`.
pub(crate) fn state(variable: Variable<'_>) -> Option<PathBuf> {
    of(variable, "XDG_STATE_HOME", ".local/state/clk", "clk")
}

fn of(variable: Variable<'_>, named: &str, at_home: &str, local: &str) -> Option<PathBuf> {
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
    fn the_rules() {
        let of = |set: &[(&str, &str)], folder: fn(Variable<'_>) -> Option<PathBuf>| {
            folder(&|name| set.iter().find(|(n, _)| *n == name).map(|(_, value)| value.into()))
        };
        let home = ("HOME", "/h");
        assert_eq!(of(&[("XDG_CACHE_HOME", "/c"), home], cache), Some("/c/clk".into()));
        assert_eq!(of(&[("XDG_CACHE_HOME", "relative"), home], cache), Some("/h/.cache/clk".into()));
        assert_eq!(of(&[("XDG_STATE_HOME", "/s"), home], state), Some("/s/clk".into()));
        assert_eq!(of(&[("XDG_STATE_HOME", "relative"), home], state), Some("/h/.local/state/clk".into()));
        assert_eq!(of(&[], cache), None);
    }
}
