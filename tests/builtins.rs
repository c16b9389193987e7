//! The table of builtins: every entry is documented.

use std::collections::BTreeSet;

use clk_lang::compile::{NoFiles, Session};
use clk_lang::lang::builtin::{TABLE, Worlds, find};

#[test]
fn every_builtin_is_documented() {
    for entry in TABLE {
        assert!(entry.doc.trim().len() >= 3, "{} has no documentation", entry.name);
        assert!(entry.doc.trim_end().ends_with('.'), "{}: documentation ends with a full stop", entry.name);
        assert!(!entry.signature.trim().is_empty(), "{} has no signature", entry.name);
        assert_eq!(entry.doc.matches('`').count() % 2, 0, "{}: a backquote is not closed", entry.name);
    }
}

#[test]
fn names_are_distinct_and_found() {
    let names: BTreeSet<&str> = TABLE.iter().map(|e| e.name).collect();
    assert_eq!(names.len(), TABLE.len(), "two builtins have one name");
    for entry in TABLE {
        assert_eq!(find(entry.name).map(|e| e.builtin), Some(entry.builtin));
        assert_eq!(entry.builtin.name(), entry.name);
    }
}

/// What is said of builtins of the host that expressions of tiles have as well is what the compiler takes.
#[test]
fn builtins_of_tiles_say_so() {
    let calls = [
        ("sum", "reshape(sum(t, axis = 1), 4, 1)"),
        ("transpose", "transpose(t)"),
        ("reshape", "reshape(t, 4, 4)"),
        ("arange", "f32(arange(4))"),
        ("cumsum", "cumsum(t)"),
        ("flip", "flip(t)"),
        ("sort", "sort(t)"),
    ];
    for (name, call) in calls {
        let text = format!(
            "kernel k(out y: [f32; 4, 4]) grid(1) block(32) {{\n    shared t: [f32; 4, 4]\n    t = 1.0\n    t = t + {call}\n    y[0..4, ..] = t\n}}\n"
        );
        let outcome = Session::default().add("<text>", &text, &NoFiles);
        let entry = find(name).expect("a builtin");
        assert_eq!(entry.worlds, Worlds::Host, "{name}");
        assert_eq!(!outcome.failed(), entry.in_tiles(), "{name}: {:?}", outcome.diagnostics);
        assert_eq!(entry.place().contains("tiles"), entry.in_tiles(), "{name}");
    }
    let listed = TABLE.iter().filter(|entry| entry.in_tiles());
    assert!(listed.into_iter().all(|entry| calls.iter().any(|(name, _)| *name == entry.name)), "each is tried above");
}
