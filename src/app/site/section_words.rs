//! Extracts the words of a page for the search. Input: the page in Markdown. Output: for each section, its words with
//! weights, and the rows of its tables. From programs, only comments and called builtins are extracted.

use std::collections::BTreeMap;

use pulldown_cmark::{CodeBlockKind, Event, HeadingLevel, Options, Parser, Tag, TagEnd};

use clk_ide::HighlightClass;

/// The maximum weight of a word. A word in plain text has weight 1, in backquotes 2, and in bold this weight. A word
/// that occurs at least three times gets 1 more, up to this weight.
pub(super) const HEAVIEST: usize = 4;

#[derive(Default)]
pub(super) struct PageSection {
    /// For each word, its weight and how often it occurs.
    words: BTreeMap<String, (usize, usize)>,
    /// For each table row, the text of the first cell and that of the other cells.
    pub rows: Vec<(String, String)>,
}

/// Stop words, which are not indexed. `assets/rank.js` removes the same words from queries.
const STOP: &str = " a an and are as at be been but by can do does for from has have here how if in into is it its may more must no not \
     of on one only or other own same so some such than that the their them then there these they this those to too two up was what when \
     where which while who why will with would you your ";

impl PageSection {
    fn add(&mut self, text: &str, weight: usize) {
        for word in words(text) {
            let entry = self.words.entry(word).or_default();
            *entry = (entry.0.max(weight), entry.1 + 1);
        }
    }

    pub fn words(&self) -> impl Iterator<Item = (&str, usize)> {
        self.words
            .iter()
            .map(|(word, &(weight, count))| (word.as_str(), (weight + usize::from(count > 2)).min(HEAVIEST)))
    }
}

/// Returns the words of a text, in lower case and without plural endings.
fn words(text: &str) -> impl Iterator<Item = String> {
    let parts =
        text.split(|c: char| !c.is_alphanumeric() && c != '_').map(|word| word.trim_matches('_').to_lowercase());
    let indexed = parts.filter(|word| {
        let number = word.bytes().all(|b| b.is_ascii_digit());
        (if number { 3 } else { 2 }..=40).contains(&word.len()) && !STOP.contains(&format!(" {word} "))
    });
    indexed.map(|word| stem(&word).to_owned())
}

/// Returns a word without its plural ending.
fn stem(word: &str) -> &str {
    match word {
        "matrices" => "matrix",
        "indices" => "index",
        "axes" => "axis",
        _ if word.len() > 4 && ["ches", "shes", "sses", "xes"].iter().any(|ending| word.ends_with(ending)) => {
            word.strip_suffix("es").unwrap_or(word)
        }
        _ => {
            let is_plural = word.len() > 3 && !["ss", "us", "is"].iter().any(|ending| word.ends_with(ending));
            word.strip_suffix('s').filter(|_| is_plural).unwrap_or(word)
        }
    }
}

/// Splits a page into sections. The first is the text before the first heading below the title. Each heading of level 2
/// or 3 begins another one.
pub(super) fn sections(markdown: &str) -> Vec<PageSection> {
    let mut reader = SectionReader { done: vec![PageSection::default()], ..SectionReader::default() };
    for event in Parser::new_ext(markdown, Options::ENABLE_TABLES) {
        reader.event(event);
    }
    reader.done
}

#[derive(Default)]
struct SectionReader {
    done: Vec<PageSection>,
    /// The info string of the code block that contains the current event, if any.
    block: Option<String>,
    bold: bool,
    heading: bool,
    /// The cells of the current table row so far, if any.
    cells: Option<Vec<String>>,
}

impl SectionReader {
    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Start(Tag::Heading { level, .. }) => {
                if (HeadingLevel::H2..=HeadingLevel::H3).contains(&level) {
                    self.done.push(PageSection::default());
                }
                self.heading = true;
            }
            Event::End(TagEnd::Heading(_)) => self.heading = false,
            Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(info))) => self.block = Some(info.to_string()),
            Event::Start(Tag::CodeBlock(CodeBlockKind::Indented)) => self.block = Some(String::new()),
            Event::End(TagEnd::CodeBlock) => self.block = None,
            Event::Start(Tag::Strong) => self.bold = true,
            Event::End(TagEnd::Strong) => self.bold = false,
            Event::Start(Tag::TableRow) => self.cells = Some(Vec::new()),
            Event::Start(Tag::TableCell) => self.cells.iter_mut().for_each(|cells| cells.push(String::new())),
            Event::End(TagEnd::TableRow) => self.row(),
            Event::Text(text) => match self.block.clone() {
                Some(info) => self.program(&info, &text),
                None => self.text(&text, if self.bold { HEAVIEST } else { 1 }),
            },
            Event::Code(text) => self.text(&text, if self.bold { HEAVIEST } else { 2 }),
            Event::SoftBreak | Event::HardBreak => self.text(" ", 1),
            _ => {}
        }
    }

    fn text(&mut self, text: &str, weight: usize) {
        if let Some(cell) = self.cells.as_mut().and_then(|cells| cells.last_mut()) {
            cell.push_str(text);
        }
        // Text in headings is not added, because headings have their own entries in the index.
        if let Some(section) = self.done.last_mut().filter(|_| !self.heading) {
            section.add(text, weight);
        }
    }

    fn row(&mut self) {
        let cells = self.cells.take().unwrap_or_default();
        if let (Some(section), [first, rest @ ..]) = (self.done.last_mut(), cells.as_slice()) {
            let rest: Vec<&str> = rest.iter().map(String::as_str).collect();
            section.rows.push((first.clone(), rest.join(": ")));
        }
    }

    fn program(&mut self, info: &str, text: &str) {
        let Some(section) = self.done.last_mut().filter(|_| info.split(' ').next() == Some("clk")) else { return };
        for (range, class) in clk_ide::highlight(text) {
            if matches!(class, HighlightClass::Comment | HighlightClass::Builtin) {
                section.add(text.get(range).unwrap_or(""), 1);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_sections() {
        let text = "# T\n\nThe **guard** of `x[i]` and `__syncthreads()`: types, types, types.\n\n## Next\n\n| a | b |\n| --- | --- |\n\
             | `float4` | a vector |\n\n```clk\n// One pass.\nbarrier()\nlet other_name = 1\n```\n";
        let sections_found = sections(text);
        let first: Vec<_> = sections_found[0].words().collect();
        assert_eq!(first, [("guard", 4), ("syncthread", 2), ("type", 2)]);
        let second: Vec<_> = sections_found[1].words().map(|(word, _)| word).collect();
        assert_eq!(second, ["barrier", "float4", "pass", "vector"]);
        assert_eq!(sections_found[1].rows, [("float4".to_owned(), "a vector".to_owned())]);
        assert_eq!(sections_found.len(), 2);
    }

    #[test]
    fn plurals() {
        let cases = [
            ("threads", "thread"),
            ("launches", "launch"),
            ("indices", "index"),
            ("axis", "axis"),
            ("pass", "pass"),
            ("bus", "bus"),
        ];
        for (word, expected) in cases {
            assert_eq!(stem(word), expected);
        }
    }

    #[test]
    fn script_ignores_the_same_words() {
        let script = include_str!("assets/rank.js");
        let list = script.split_once("new Set((").and_then(|(_, rest)| rest.split_once(").split")).expect("the list").0;
        let theirs: Vec<&str> = list.split(|c: char| !c.is_alphabetic()).filter(|word| !word.is_empty()).collect();
        assert_eq!(theirs, STOP.split_whitespace().collect::<Vec<_>>());
    }
}
