//! The table of builtins: every entry is documented.

use std::collections::BTreeSet;

use clk_lang::lang::builtin::{TABLE, find};

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
