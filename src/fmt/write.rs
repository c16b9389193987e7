//! Writes the text from the elements and the whitespace before them.

use super::elements::FormatElement;
use super::layout::WhitespaceGap;

pub(crate) fn write(text: &str, elements: &[FormatElement], gaps: &[WhitespaceGap]) -> String {
    let mut out = String::with_capacity(text.len() + text.len() / 16);
    for (element, gap) in elements.iter().zip(gaps).filter(|(element, _)| !element.deleted) {
        out.extend(std::iter::repeat_n('\n', usize::from(gap.newlines)));
        out.extend(std::iter::repeat_n(' ', gap.blanks as usize));
        out.push_str(element.text(text));
        if element.comma {
            out.push(',');
        }
    }
    if !out.is_empty() {
        out.push('\n');
    }
    out
}
