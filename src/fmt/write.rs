//! Text and edits from elements and the gaps before them.

use super::elements::Element;
use super::layout::Gap;
use super::{Edit, Formatted};

pub fn write(text: &str, elements: &[Element], gaps: &[Gap]) -> Formatted {
    let mut out =
        Writer { text, out: String::with_capacity(text.len() + text.len() / 16), edits: Vec::new(), at: 0, mark: 0 };
    for (element, gap) in elements.iter().zip(gaps) {
        if !element.deleted {
            out.element(element, *gap);
        }
    }
    if !out.out.is_empty() {
        out.out.push('\n');
    }
    out.gap(text.len());
    Formatted { text: out.out, edits: out.edits }
}

struct Writer<'t> {
    text: &'t str,
    out: String,
    edits: Vec<Edit>,
    /// Up to where the source was taken over, and where that ends in `out`.
    at: usize,
    mark: usize,
}

impl Writer<'_> {
    fn element(&mut self, element: &Element, gap: Gap) {
        for _ in 0..gap.newlines {
            self.out.push('\n');
        }
        for _ in 0..gap.blanks {
            self.out.push(' ');
        }
        self.gap(element.start as usize);
        self.out.push_str(element.text(self.text));
        (self.at, self.mark) = (element.end as usize, self.out.len());
        if element.comma {
            self.out.push(',');
        }
    }

    /// Notes an edit if what was written since the last element is not what stands in the source up to `until`.
    fn gap(&mut self, until: usize) {
        let (old, new) = (self.text.get(self.at..until).unwrap_or(""), self.out.get(self.mark..).unwrap_or(""));
        if old != new {
            self.edits.push(Edit { range: self.at..until, text: new.to_owned() });
        }
    }
}
