//! Tests the metadata and snippets of the editor packages.

use super::{files, read, root};

/// JSON files are valid JSON.
#[test]
fn json_is_json() {
    for folder in ["editors", "grammar"] {
        for path in files(folder, ".json") {
            if path.components().any(|part| part.as_os_str() == "node_modules") {
                continue;
            }
            let text = std::fs::read_to_string(&path).expect("UTF-8");
            let read: Result<serde_json::Value, _> = serde_json::from_str(&text);
            assert!(read.is_ok(), "{}: {}", path.display(), read.unwrap_err());
        }
    }
}

/// The packages have the version of the crate.
#[test]
fn versions_agree() {
    let version = env!("CARGO_PKG_VERSION");
    for (path, place) in [
        ("editors/vscode/package.json", "\"version\": \""),
        ("grammar/tree-sitter-clk/tree-sitter.json", "\"version\": \""),
        ("editors/zed/extension.toml", "\nversion = \""),
        ("editors/emacs/clk-mode.el", "\n;; Version: "),
    ] {
        let text = read(path);
        let (_, rest) = text.split_once(place).unwrap_or_else(|| panic!("{path} has no {place:?}"));
        assert!(rest.starts_with(version), "{path} has another version than {version}");
    }
}

/// Each editor has a page with installation instructions.
#[test]
fn every_editor_has_a_page() {
    for entry in std::fs::read_dir(root().join("editors")).expect("editors") {
        let path = entry.expect("entry").path();
        if path.is_dir() {
            let page = std::fs::read_to_string(path.join("README.md")).unwrap_or_default();
            assert!(page.contains("## Install"), "{} has no README.md with `## Install`", path.display());
        }
    }
}

/// Expands a snippet with its defaults: `${1:name}`, `${1|a,b|}`, and `$1` where it is used again.
fn expand(body: &str) -> String {
    let mut values: std::collections::BTreeMap<String, String> = Default::default();
    let mut out = String::new();
    let mut rest = body;
    while let Some((before, after)) = rest.split_once('$') {
        out += before;
        let digits = |text: &str| text.chars().take_while(char::is_ascii_digit).collect::<String>();
        let (number, value, left) = match after.strip_prefix('{') {
            Some(inside) => {
                let (field, left) = inside.split_once('}').expect("a closing brace");
                let number = digits(field);
                let value =
                    field[number.len()..].trim_matches([':', '|']).split(',').next().expect("a value").to_string();
                (number, Some(value), left)
            }
            None => {
                let number = digits(after);
                let left = &after[number.len()..];
                (number, None, left)
            }
        };
        let value = value.unwrap_or_else(|| values.get(&number).cloned().unwrap_or_default());
        out += &value;
        values.insert(number, value);
        rest = left;
    }
    out + rest
}

/// Expanded snippets are syntactically valid programs.
#[test]
fn snippets_parse() {
    let snippets: serde_json::Value = serde_json::from_str(&read("editors/vscode/snippets/clk.json")).expect("JSON");
    let snippets = snippets.as_object().expect("an object");
    assert!(snippets.len() >= 10);
    for (name, snippet) in snippets {
        let body = match &snippet["body"] {
            serde_json::Value::Array(lines) => {
                lines.iter().filter_map(|line| line.as_str()).collect::<Vec<_>>().join("\n")
            }
            body => body.as_str().expect("a text").to_string(),
        };
        // Fills in the empty `assert()` and import list, where a snippet places the cursor.
        let text = expand(&body).replace("assert()", "assert(true)").replace(".{}", ".{a}");
        let (_, diagnostics) = clk_syntax::parse(clk_base::source::FileId(0), &text);
        assert!(diagnostics.is_empty(), "{name}:\n{text}\n{diagnostics:#?}");
        assert!(super::parser::first_error(&super::parser::parse(&text), &text).is_none(), "{name}:\n{text}");
    }
}
