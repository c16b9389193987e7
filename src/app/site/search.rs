//! Generates the index of the search: titles and headings, table rows with names from other languages, keywords, and
//! all words with the sections that contain them. The index is JSON in a JavaScript file, so that pages can load it
//! even if they are local files. `assets/rank.js` reads it.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::markdown::RenderedPage;
use super::page::SitePage;
use super::section_words::{self, HEAVIEST};
use clk_scalar::builtin;
use clk_scalar::foreign_names::{self, ClkEquivalent, ForeignName, NameOrigin};

/// Kind of row: a row of a table in a page.
const ROW: u8 = 0;
/// Kind of row: names from other languages, separated by spaces, that are not ordinary words.
const NAMES: u8 = 1;
/// Kind of row: names from other languages that are also ordinary words.
const WORDS: u8 = 2;

#[derive(Default)]
struct SearchIndex {
    /// The title of each entry, a description of where it is, and its address.
    entries: Vec<[String; 3]>,
    /// The first cell of each table row, its other cells, the title of the page, the address, and the kind of row.
    rows: Vec<(String, String, String, String, u8)>,
    /// For each word, the indices of the entries that contain it, in ascending order, each with a weight.
    words: BTreeMap<String, Vec<(usize, usize)>>,
}

/// Returns the JavaScript file that defines the index.
pub(super) fn index(pages: &[SitePage], rendered: &[RenderedPage]) -> String {
    let mut index = SearchIndex::default();
    for (page, done) in pages.iter().zip(rendered) {
        index.page(page, done);
    }
    if pages.iter().any(|page| page.output == "reference.html") {
        index.keywords();
        index.foreign_names();
    }
    // The text is not part of an HTML page, so it needs no escapes for HTML.
    format!("window.CLK_INDEX = {};\n", index.json())
}

impl SearchIndex {
    fn page(&mut self, page: &SitePage, done: &RenderedPage) {
        let headings = done.headings.iter().filter(|heading| heading.level <= 3);
        let mut entries = vec![[page.title.clone(), kind(&page.output).to_owned(), page.output.clone()]];
        entries.extend(headings.map(|h| [h.text.clone(), page.title.clone(), format!("{}#{}", page.output, h.id)]));
        let tables = ["numpy-functions.html", "reference.html", "commands.html"].contains(&page.output.as_str());
        let tables = tables || page.output.starts_with("from/");
        for (entry, section) in entries.into_iter().zip(section_words::sections(&page.markdown)) {
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
                let about = clk_ide::keyword_doc(word).unwrap_or("A word of the language.").replace('`', "");
                self.entries.push([word.to_owned(), about, format!("reference.html#{anchor}")]);
            }
        }
    }

    /// Adds those names from other languages that the compiler recognizes.
    fn foreign_names(&mut self) {
        let builtins: BTreeSet<&str> = builtin::TABLE.iter().map(|entry| entry.name).collect();
        for row in foreign_names::rows() {
            let text = match row.equivalent {
                ClkEquivalent::Same => continue,
                ClkEquivalent::Name(clk) => clk.to_owned(),
                ClkEquivalent::Code { clk, note: "" } => clk.to_owned(),
                ClkEquivalent::Code { clk, note } => format!("{clk} ({note})").replace('`', ""),
                ClkEquivalent::Absent { reason, alternative } => {
                    format!("not in Clk, because {reason}: {alternative}").replace('`', "")
                }
            };
            let mentioned =
                text.split(|c: char| !c.is_alphanumeric() && c != '_').find(|word| builtins.contains(*word));
            let (place, to) = match (mentioned, row.equivalent) {
                // A loop that prints is not about `print`.
                (Some(word), ClkEquivalent::Name(_) | ClkEquivalent::Code { .. }) if !text.starts_with("for ") => {
                    ("Builtin functions".to_owned(), format!("builtins.html#{word}"))
                }
                _ => page_of_row(row),
            };
            // If a name is that of a library, the best result is the page about the library. Such a name is treated as
            // an ordinary word.
            let is_plain = row.is_common_word || row.names.split(' ').any(foreign_names::is_module);
            self.rows.push((row.names.to_owned(), text, place, to, if is_plain { WORDS } else { NAMES }));
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

/// The keywords, grouped by the anchor of the section in the reference that describes them.
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

/// Returns the page and the address for names from other languages that have no builtin as their equivalent.
fn page_of_row(row: &ForeignName) -> (String, String) {
    let (place, to) = match (row.replacement(row.names), row.origin) {
        (Some(word), _) if word.starts_with(char::is_alphabetic) => ("The Clk language", "reference.html#types"),
        (Some(_), _) => ("The Clk language", "reference.html#operators"),
        (None, NameOrigin::Triton) => ("Triton → Clk", "from/triton.html#words"),
        (None, NameOrigin::Cuda | NameOrigin::Numba | NameOrigin::Warp) => ("CUDA → Clk", "from/cuda.html#words"),
        (None, NameOrigin::NumPy | NameOrigin::Python | NameOrigin::Other) => {
            ("NumPy → Clk", "from/numpy.html#rules-that-differ")
        }
    };
    (place.to_owned(), to.to_owned())
}

/// Formats a number in base 36.
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
