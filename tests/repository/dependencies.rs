//! Tests that `deny.toml` allows the sources and licenses of Clk's dependencies. Reads Cargo's lock file and metadata,
//! without network access. `cargo deny` makes the same checks, and also reports known vulnerabilities.

use std::process::Command;

use clk_testing::root;
use serde_json::Value;

fn read(name: &str) -> String {
    std::fs::read_to_string(root().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Returns the strings of a list in a TOML file.
fn list(text: &str, name: &str) -> Vec<String> {
    let start = text.find(&format!("\n{name} = [")).unwrap_or_else(|| panic!("no list `{name}`"));
    let list = text[start..].split_once('[').expect("its start").1.split_once(']').expect("its end").0;
    list.split('"').skip(1).step_by(2).map(str::to_string).collect()
}

/// Returns whether allowed licenses satisfy a license expression: `A OR B` requires one of them, `A AND B` both.
fn is_allowed(expression: &str, allowed: &[String]) -> bool {
    // Older crates write `/` for `OR`.
    let expression = expression.replace('/', " OR ");
    let mut depth = 0usize;
    let words: Vec<&str> = expression.split_whitespace().collect();
    for operator in ["AND", "OR"] {
        let mut parts = vec![vec![]];
        for word in &words {
            let inside = depth > 0;
            depth = depth + word.matches('(').count() - word.matches(')').count();
            match !inside && *word == operator {
                true => parts.push(vec![]),
                false => parts.last_mut().expect("a part").push(*word),
            }
        }
        if parts.len() > 1 {
            let mut each = parts.iter().map(|part| is_allowed(&part.join(" "), allowed));
            return if operator == "AND" { each.all(|ok| ok) } else { each.any(|ok| ok) };
        }
    }
    let plain = words.join(" ");
    match plain.strip_prefix('(').and_then(|inner| inner.strip_suffix(')')) {
        Some(inner) => is_allowed(inner.trim(), allowed),
        None => allowed.contains(&plain),
    }
}

#[test]
fn license_expressions_are_parsed() {
    let allowed = ["MIT", "Apache-2.0", "Apache-2.0 WITH LLVM-exception"].map(String::from);
    for good in [
        "MIT",
        "MIT OR GPL-3.0",
        "GPL-3.0/MIT",
        "MIT AND Apache-2.0",
        "(MIT OR GPL-3.0) AND Apache-2.0",
        "Apache-2.0 WITH LLVM-exception OR GPL-3.0",
    ] {
        assert!(is_allowed(good, &allowed), "{good}");
    }
    for bad in ["GPL-3.0", "MIT AND GPL-3.0", "(MIT OR Apache-2.0) AND GPL-3.0", "GPL-3.0 OR AGPL-3.0", ""] {
        assert!(!is_allowed(bad, &allowed), "{bad}");
    }
}

#[test]
fn every_crate_comes_from_the_registry() {
    let allowed = list(&read("deny.toml"), "allow-registry");
    let lock = read("Cargo.lock");
    let mut count = 0;
    for package in lock.split("[[package]]").skip(1) {
        let field = |name: &str| {
            let value = |line: &str| Some(line.strip_prefix(name)?.strip_prefix(" = ")?.trim_matches('"').to_string());
            package.lines().find_map(value)
        };
        let name = field("name").expect("a name");
        let Some(source) = field("source") else {
            let is_ours = name == "clk-python" || name == "clk-lang" || name.starts_with("clk-lang-");
            assert!(is_ours, "{name} has no source; only crates of the workspace may have none");
            continue;
        };
        count += 1;
        let registry = source.strip_prefix("registry+").unwrap_or_else(|| panic!("{name} comes from {source}"));
        assert!(allowed.iter().any(|one| one == registry), "{name} comes from {source}");
        assert!(field("checksum").is_some_and(|sum| sum.len() == 64), "{name} has no checksum");
    }
    assert!(count > 50, "the lock file lists {count} crates");
}

#[test]
fn every_license_is_one_of_the_allowed() {
    let allowed = list(&read("deny.toml"), "allow");
    let rustc = Command::new("rustc").arg("-vV").output().expect("rustc runs");
    let rustc = String::from_utf8(rustc.stdout).expect("text");
    let host = rustc.lines().find_map(|line| line.strip_prefix("host: ")).expect("a host");
    // Cargo does not download dependencies that only other operating systems need, so their licenses are not tested.
    // The test above covers the sources of all dependencies.
    let arguments = ["metadata", "--format-version", "1", "--offline", "--locked", "--filter-platform", host];
    let output = Command::new(env!("CARGO")).args(arguments).current_dir(root()).output().expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let packages = metadata["packages"].as_array().expect("packages");
    let refused: Vec<String> = packages
        .iter()
        .filter(|package| !is_allowed(package["license"].as_str().unwrap_or(""), &allowed))
        .map(|package| format!("{}: {}", package["name"], package["license"]))
        .collect();
    assert!(packages.len() > 50 && refused.is_empty(), "of {} crates: {refused:#?}", packages.len());
}
