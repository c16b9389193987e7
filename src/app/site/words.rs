//! The words of a page, by section, for the search. Input: its Markdown. Output: for each section the words with a weight by where they
//! stand, and the rows of its tables. Programs contribute their comments and the builtins that they call.

use std::collections::BTreeMap;

use pulldown_cmark::{CodeBlockKind, Event, HeadingLevel, Options, Parser, Tag, TagEnd};

use crate::ide::{self, Class};

/// How much a word says of its section: 1 for text, 2 in backquotes, one more where it comes three times; in bold type this.
pub(super) const HEAVIEST: usize = 4;

#[derive(Default)]
pub(super) struct Section {
    /// Weight, and how often the word occurs.
    words: BTreeMap<String, (usize, usize)>,
    /// The first cell of each row, and what the others say.
    pub rows: Vec<(String, String)>,
}

/// Words that stand everywhere. A query may have them; they are left out there as well, in `assets/rank.js`.
const STOP: &str = " a an and are as at be been but by can do does for from has have here how if in into is it its may more must no not \
     of on one only or other own same so some such than that the their them then there these they this those to too two up was what when \
     where which while who why will with would you your ";

impl Section {
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

/// Returns the words that are worth an entry, in the form in which they are compared.
fn words(text: &str) -> impl Iterator<Item = String> {
    let parts =
        text.split(|c: char| !c.is_alphanumeric() && c != '_').map(|word| word.trim_matches('_').to_lowercase());
    let kept = parts.filter(|word| {
        let number = word.bytes().all(|b| b.is_ascii_digit());
        (if number { 3 } else { 2 }..=40).contains(&word.len()) && !STOP.contains(&format!(" {word} "))
    });
    kept.map(|word| stem(&word).to_owned())
}

/// Returns a word without the ending of a plural.
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

/// Returns the text before the first heading below the title, and behind each such heading of the third level at most.
pub(super) fn sections(markdown: &str) -> Vec<Section> {
    let mut reader = Reader { done: vec![Section::default()], ..Reader::default() };
    for event in Parser::new_ext(markdown, Options::ENABLE_TABLES) {
        reader.event(event);
    }
    reader.done
}

#[derive(Default)]
struct Reader {
    done: Vec<Section>,
    /// Whether this is text of a program, and if so, of which kind.
    block: Option<String>,
    bold: bool,
    heading: bool,
    /// The cells of the row that is read.
    cells: Option<Vec<String>>,
}

impl Reader {
    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Start(Tag::Heading { level, .. }) => {
                if (HeadingLevel::H2..=HeadingLevel::H3).contains(&level) {
                    self.done.push(Section::default());
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
        // Headings are entries of their own.
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
        for (range, class) in ide::highlight(text) {
            if matches!(class, Class::Comment | Class::Builtin) {
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
        let found = sections(text);
        let first: Vec<_> = found[0].words().collect();
        assert_eq!(first, [("guard", 4), ("syncthread", 2), ("type", 2)]);
        let second: Vec<_> = found[1].words().map(|(word, _)| word).collect();
        assert_eq!(second, ["barrier", "float4", "pass", "vector"]);
        assert_eq!(found[1].rows, [("float4".to_owned(), "a vector".to_owned())]);
        assert_eq!(found.len(), 2);
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
    fn the_script_leaves_out_the_same_words() {
        let script = include_str!("assets/rank.js");
        let list = script.split_once("new Set((").and_then(|(_, rest)| rest.split_once(").split")).expect("the list").0;
        let theirs: Vec<&str> = list.split(|c: char| !c.is_alphabetic()).filter(|word| !word.is_empty()).collect();
        assert_eq!(theirs, STOP.split_whitespace().collect::<Vec<_>>());
    }
}
