//! Layout of an array's text: nested brackets, wrapped lines, and summarization of large arrays.

/// Arrays with more elements than this are summarized.
pub(crate) const THRESHOLD: usize = 1000;
/// Number of elements shown at each end of a summarized axis.
const EDGE: usize = 3;
/// Number of columns at which `print` wraps lines. It does not depend on the terminal.
pub(crate) const LINE: usize = 75;
const GAP: &str = "...";

/// The elements of an array that are shown, and the gaps between them.
pub(crate) struct ArrayTextLayout {
    shape: Vec<usize>,
    summarized: bool,
}

/// A position along an axis that is shown, or a gap (`...`).
#[derive(Clone, Copy)]
enum LayoutStep {
    At(usize),
    Gap,
}

impl ArrayTextLayout {
    pub fn new(shape: &[usize]) -> ArrayTextLayout {
        ArrayTextLayout { shape: shape.to_vec(), summarized: shape.iter().product::<usize>() > THRESHOLD }
    }

    fn steps(&self, len: usize) -> Vec<LayoutStep> {
        match self.summarized && len > 2 * EDGE {
            false => (0..len).map(LayoutStep::At).collect(),
            true => {
                let edges = (0..EDGE).chain(len - EDGE..len).map(LayoutStep::At);
                let mut steps: Vec<LayoutStep> = edges.collect();
                steps.insert(EDGE, LayoutStep::Gap);
                steps
            }
        }
    }

    /// Returns the row-major positions of the shown elements, in increasing order.
    pub fn shown(&self) -> Vec<usize> {
        if self.shape.contains(&0) {
            return vec![];
        }
        let mut positions = vec![0];
        for &len in &self.shape {
            let steps = self.steps(len);
            let indices: Vec<usize> =
                steps.iter().filter_map(|s| if let LayoutStep::At(i) = s { Some(*i) } else { None }).collect();
            positions = positions.iter().flat_map(|at| indices.iter().map(move |i| at * len + i)).collect();
        }
        positions
    }

    /// Renders the array from the texts of the shown elements, wrapped at `columns`.
    pub fn render(&self, texts: Vec<String>, columns: usize) -> String {
        if self.shape.contains(&0) {
            return "[]".into();
        }
        let mut texts = texts.into_iter();
        match self.shape.is_empty() {
            true => texts.next().unwrap_or_default().trim_start().to_string(),
            false => self.axis(&self.shape, 1, columns, &mut texts),
        }
    }

    /// Renders an axis. `indent` columns precede its elements on a new line; `width` columns are available.
    fn axis(&self, shape: &[usize], indent: usize, width: usize, texts: &mut impl Iterator<Item = String>) -> String {
        let Some((&len, rest)) = shape.split_first() else { return texts.next().unwrap_or_default() };
        let steps = self.steps(len);
        let body = match rest.len() {
            0 => row(steps, indent, width, texts),
            depth => {
                let separator = "\n".repeat(depth);
                let parts = steps.into_iter().map(|step| match step {
                    LayoutStep::Gap => GAP.to_string(),
                    LayoutStep::At(_) => self.axis(rest, indent + 1, width - 1, texts),
                });
                let parts: Vec<String> = parts.collect();
                parts.join(&format!("{separator}{}", " ".repeat(indent)))
            }
        };
        format!("[{body}]")
    }
}

/// Renders a row (the elements along the last axis), wrapped at `width` columns.
fn row(steps: Vec<LayoutStep>, indent: usize, width: usize, texts: &mut impl Iterator<Item = String>) -> String {
    let limit = width - 1;
    let mut lines = String::new();
    // The current column. At first, it is the one after the opening bracket.
    let mut column = indent;
    for (position, step) in steps.into_iter().enumerate() {
        let word = match step {
            LayoutStep::Gap => GAP.to_string(),
            LayoutStep::At(_) => texts.next().unwrap_or_default(),
        };
        let length = word.chars().count();
        let space = usize::from(position > 0);
        if position > 0 && column + space + length > limit {
            lines.truncate(lines.trim_end().len());
            lines.push('\n');
            lines.push_str(&" ".repeat(indent));
            column = indent;
        } else if space > 0 {
            lines.push(' ');
            column += 1;
        }
        lines.push_str(&word);
        column += length;
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_edges_of_a_large_array_are_shown() {
        let layout = ArrayTextLayout::new(&[2000]);
        assert_eq!(layout.shown(), [0, 1, 2, 1997, 1998, 1999]);
        let texts = layout.shown().iter().map(usize::to_string).collect();
        assert_eq!(layout.render(texts, LINE), "[0 1 2 ... 1997 1998 1999]");
        assert_eq!(ArrayTextLayout::new(&[1000, 2]).shown().len(), 12);
        assert_eq!(ArrayTextLayout::new(&[0, 5]).render(vec![], LINE), "[]");
        assert!(ArrayTextLayout::new(&[0, usize::MAX]).shown().is_empty(), "however long the other axes are");
        assert_eq!(ArrayTextLayout::new(&[]).render(vec![" 7".into()], LINE), "7");
    }
}
