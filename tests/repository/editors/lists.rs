//! Tests the generated word lists in files of the grammar and the editor packages. In each file a line with `generated:
//! NAME` precedes the generated text, and a line with `generated end` follows it; in JSON the generated text is the
//! single line after the marker.

use super::words::{constants, control, declarations, functions, lines, quoted, types, variables};
use super::{compare, files, read, root};
use clk_syntax::token::CONTEXTUAL;

const GRAMMAR: &str = "grammar/tree-sitter-clk/queries/highlights.scm";
const VSCODE: &str = "editors/vscode/syntaxes/clk.tmLanguage.json";
const VIM: &str = "editors/vim/syntax/clk.vim";
const EMACS: &str = "editors/emacs/clk-mode.el";
const SUBLIME: &str = "editors/sublime/Clk.sublime-syntax";

/// Returns the word list with this name, as used in the markers.
fn list(name: &str) -> Vec<String> {
    match name {
        "control" => control(),
        "declarations" => declarations(),
        "constants" => constants(),
        "types" => types(),
        "functions" => functions(),
        "variables" => variables(),
        _ => panic!("there is no list `{name}`"),
    }
}

/// Replaces each generated list in a text by the result of `render` for its name.
fn renew(text: &str, render: impl Fn(&str) -> String) -> String {
    let mut out = String::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        out += line;
        out.push('\n');
        let Some((_, rest)) = line.split_once("generated: ") else { continue };
        let name: String = rest.chars().take_while(|c| c.is_ascii_alphabetic()).collect();
        out += &render(&name);
        out.push('\n');
        if line.contains("\"comment\"") {
            lines.next();
        } else {
            while lines.next_if(|line| !line.contains("generated end")).is_some() {}
            assert!(lines.peek().is_some(), "the list `{name}` has no end");
        }
    }
    out
}

fn query(name: &str) -> String {
    let words = lines(&quoted(&list(name)), "    ", 120);
    let one = |node: &str, capture: &str| format!("({node} @{capture}\n  (#any-of? @{capture}\n{words}))");
    match name {
        "types" => [one("(type_identifier)", "type.builtin"), one("(identifier)", "type.builtin")].join("\n"),
        "functions" => one("call_expression function: (identifier)", "function.builtin"),
        _ => one("(identifier)", "variable.builtin"),
    }
}

fn alternatives(name: &str) -> String {
    list(name).join("|")
}

/// Returns the highlight query of the grammar with its lists regenerated.
pub fn highlights() -> String {
    renew(&read(GRAMMAR), query)
}

#[test]
fn queries() {
    compare(GRAMMAR, &highlights());
}

#[test]
fn vscode() {
    let lookahead = |name: &str| if name == "functions" { "(?=\\\\s*\\\\()" } else { "" };
    let line =
        |name: &str| format!("      \"match\": \"(?<!\\\\.)\\\\b({})\\\\b{}\"", alternatives(name), lookahead(name));
    compare(VSCODE, &renew(&read(VSCODE), line));
}

/// Words that Vim's `syn keyword` would interpret as its own options.
const VIM_OPTIONS: [&str; 4] = ["contains", "contained", "display", "fold"];

#[test]
fn vim() {
    let group = |name: &str| match name {
        "control" => "clkStatement",
        "declarations" => "clkKeyword",
        "constants" => "clkBoolean",
        "types" => "clkType",
        "functions" => "clkFunction",
        _ => "clkVariable",
    };
    let render = |name: &str| {
        let (options, words): (Vec<String>, _) =
            list(name).into_iter().partition(|word| VIM_OPTIONS.contains(&word.as_str()));
        let mut text = lines(&words, &format!("syn keyword {} ", group(name)), 120);
        if !options.is_empty() {
            text += &format!("\nsyn match {} \"\\<\\%({}\\)\\>\"", group(name), options.join("\\|"));
        }
        text
    };
    compare(VIM, &renew(&read(VIM), render));
}

#[test]
fn emacs() {
    let constant = |name: &str| {
        let words = lines(&quoted(&list(name)), "    ", 100);
        format!("(defconst clk-{name}\n  '({})\n  \"Words of Clk: {name}.\")", words.trim_start())
    };
    compare(EMACS, &renew(&read(EMACS), constant));
}

#[test]
fn sublime() {
    compare(SUBLIME, &renew(&read(SUBLIME), |name| format!("  {name}: '{}'", alternatives(name))));
}

/// Each highlighter handles all contextual keywords (words that are keywords only in some places).
#[test]
fn contextual_words() {
    for path in [GRAMMAR, VSCODE, VIM, EMACS, SUBLIME] {
        let text = read(path);
        let words: Vec<&str> = text.split(|c: char| !c.is_ascii_alphanumeric()).collect();
        // In a regular expression, `\\b` may precede the word, so that it appears with the letter `b` before it.
        let is_listed = |word: &&str| words.contains(word) || words.contains(&format!("b{word}").as_str());
        let missing: Vec<&&str> = CONTEXTUAL.iter().filter(|word| !is_listed(word)).collect();
        assert!(missing.is_empty(), "{path} lacks {missing:?}");
    }
}

/// The tests above cover every file that contains a generated list.
#[test]
fn every_word_list_is_generated() {
    let renewed: Vec<_> = [GRAMMAR, VSCODE, VIM, EMACS, SUBLIME].iter().map(|path| root().join(path)).collect();
    for folder in ["editors", "grammar"] {
        for path in files(folder, "") {
            let listed = std::fs::read_to_string(&path).is_ok_and(|text| text.contains("generated: "));
            let derived = path.to_string_lossy().contains("queries") || path.to_string_lossy().contains("languages");
            assert!(
                !listed || renewed.contains(&path) || derived,
                "no test regenerates the list in {}",
                path.display()
            );
        }
    }
}
