//! Where the session's history is kept.

use std::path::PathBuf;

/// The history file, with its folder made; none where there is no home.
pub fn path() -> Option<PathBuf> {
    let folder = state_folder(|name| std::env::var_os(name))?.join("clk");
    std::fs::create_dir_all(&folder).ok()?;
    Some(folder.join("history"))
}

/// The folder for state, by the XDG rules: `XDG_STATE_HOME` if it is absolute, else `~/.local/state`.
fn state_folder(variable: impl Fn(&str) -> Option<std::ffi::OsString>) -> Option<PathBuf> {
    let named = variable("XDG_STATE_HOME").map(PathBuf::from).filter(|p| p.is_absolute());
    let home = || variable("HOME").map(PathBuf::from).filter(|p| p.is_absolute());
    let local = || variable("LOCALAPPDATA").map(PathBuf::from);
    named.or_else(|| home().map(|h| h.join(".local/state"))).or_else(local)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn xdg_rules() {
        let of = |set: &[(&str, &str)]| {
            let set: Vec<(String, String)> = set.iter().map(|(a, b)| (a.to_string(), b.to_string())).collect();
            state_folder(move |name| set.iter().find(|(n, _)| n == name).map(|(_, v)| v.into()))
        };
        assert_eq!(of(&[("XDG_STATE_HOME", "/s"), ("HOME", "/h")]), Some("/s".into()));
        assert_eq!(of(&[("XDG_STATE_HOME", "relative"), ("HOME", "/h")]), Some("/h/.local/state".into()));
        assert_eq!(of(&[]), None);
    }
}
