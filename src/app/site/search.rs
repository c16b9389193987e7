//! The index of the search, as JSON in a script, so that it also loads from a local file: titles and headings, rows of tables in which
//! names of other languages stand, keywords, and all words with the sections that have them. `assets/rank.js` looks into it.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::markdown::Rendered;
use super::page::Page;
use super::words::{self, HEAVIEST};
use crate::check::foreign;
use crate::ide;
use crate::lang::builtin;

/// A row of a table in a page.
const ROW: u8 = 0;
/// Foreign names, separated by spaces, that mean nothing else.
const NAMES: u8 = 1;
/// Foreign names that are plain words as well.
const WORDS: u8 = 2;

#[derive(Default)]
struct Index {
    /// Title, where it is found, address.
    entries: Vec<[String; 3]>,
    /// The first cell of a row, what the others say, where it is found, address, and what kind of row it is.
    rows: Vec<(String, String, String, String, u8)>,
    /// The entries that have a word, ascending, with its weight.
    words: BTreeMap<String, Vec<(usize, usize)>>,
}

/// Returns a script that defines the index.
pub(super) fn index(pages: &[Page], rendered: &[Rendered]) -> String {
    let mut index = Index::default();
    for (page, done) in pages.iter().zip(rendered) {
        index.page(page, done);
    }
    if pages.iter().any(|page| page.output == "reference.html") {
        index.keywords();
        index.foreign_names();
    }
    // `</script>` cannot occur: the entries are in a file of their own.
    format!("window.CLK_INDEX = {};\n", index.json())
}

impl Index {
    fn page(&mut self, page: &Page, done: &Rendered) {
        let headings = done.headings.iter().filter(|heading| heading.level <= 3);
        let mut entries = vec![[page.title.clone(), kind(&page.output).to_owned(), page.output.clone()]];
        entries.extend(headings.map(|h| [h.text.clone(), page.title.clone(), format!("{}#{}", page.output, h.id)]));
        let tables = ["numpy-functions.html", "reference.html", "commands.html"].contains(&page.output.as_str());
        let tables = tables || page.output.starts_with("from/");
        for (entry, section) in entries.into_iter().zip(words::sections(&page.markdown)) {
            for (word, weight) in section.words() {
                self.words.entry(word.to_owned()).or_default().push((self.entries.len(), weight));
            }
            for (name, here) in section.rows.into_iter().filter(|_| tables) {
                self.rows.push((name, here, page.title.clone(), entry[2].clone(), ROW));
            }
            self.entries.push(entry);
        }
    }

    fn keywords(&mut self) {
        for (anchor, keywords) in KEYWORDS {
            for word in keywords.split(' ') {
                let about = ide::keyword(word).unwrap_or("A word of the language.").replace('`', "");
                self.entries.push([word.to_owned(), about, format!("reference.html#{anchor}")]);
            }
        }
    }

    /// Adds the names that the compiler knows of other languages.
    fn foreign_names(&mut self) {
        let builtins: BTreeSet<&str> = builtin::TABLE.iter().map(|entry| entry.name).collect();
        let of_members = foreign::names().flat_map(|(names, _)| names.split(' '));
        let modules: BTreeSet<&str> = of_members.filter_map(|name| Some(name.split_once('.')?.0)).collect();
        for (names, meant) in foreign::names() {
            let mentioned =
                meant.help.split(|c: char| !c.is_alphanumeric() && c != '_').find(|word| builtins.contains(*word));
            let (place, to) = match meant.word.filter(|word| builtins.contains(word)).or(mentioned) {
                Some(word) => ("Builtin functions".to_owned(), format!("builtins.html#{word}")),
                None => elsewhere(names, meant.word),
            };
            let here = meant.word.map_or_else(|| meant.help.replace('`', ""), str::to_owned);
            // Who types the name of a library wants its page.
            let is_plain = meant.plain || names.split(' ').any(|name| modules.contains(name));
            self.rows.push((names.to_owned(), here, place, to, if is_plain { WORDS } else { NAMES }));
        }
    }

    fn json(&self) -> Value {
        let mut lines = String::new();
        for (word, found) in &self.words {
            lines += word;
            let mut last = 0;
            for &(entry, weight) in found {
                lines += &format!(" {}", base36((entry - last) * HEAVIEST + weight - 1));
                last = entry;
            }
            lines.push('\n');
        }
        json!({ "entries": self.entries, "rows": self.rows, "words": lines })
    }
}

/// The keywords, by the section of the reference that is about them.
const KEYWORDS: &[(&str, &str)] = &[
    ("items", "fn struct const import as"),
    ("kernels", "kernel out inout threads grid block assume expect tune"),
    ("statements-and-expressions", "let var if else for in while loop break continue return step"),
    ("inside-kernels", "shared"),
    ("devices-and-batches", "on batch"),
    ("scripts", "time"),
    ("tests-and-benches", "test bench"),
    ("text", "true false"),
];

/// Returns page and address for foreign names whose equivalent, if it is a word, is no builtin.
fn elsewhere(names: &str, word: Option<&str>) -> (String, String) {
    let (place, to) = match (word, names.split_once('.').map_or("", |(module, _)| module)) {
        (Some(word), _) if word.starts_with(char::is_alphabetic) => ("The Clk language", "reference.html#types"),
        (Some(_), _) => ("The Clk language", "reference.html#operators"),
        (None, "tl") => ("Triton → Clk", "from/triton.html#words"),
        (None, "np") => ("NumPy → Clk", "from/numpy.html#rules-that-differ"),
        (None, _) => ("CUDA → Clk", "from/cuda.html#words"),
    };
    (place.to_owned(), to.to_owned())
}

/// Returns a number in digits and letters.
fn base36(mut number: usize) -> String {
    let mut digits = Vec::new();
    loop {
        digits.push(char::from_digit((number % 36) as u32, 36).unwrap_or('0'));
        number /= 36;
        if number == 0 {
            return digits.iter().rev().collect();
        }
    }
}

fn kind(output: &str) -> &'static str {
    match output.split_once('/').map_or("", |(folder, _)| folder) {
        "book" => "Tutorial",
        "howto" => "How to",
        "from" => "Coming from",
        "errors" => "Error",
        "std" => "Standard library",
        "examples" => "Example",
        _ => "Page",
    }
}
