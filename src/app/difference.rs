//! Compares two texts by line and formats the changes in unified diff format, with three lines of context.

use super::console::paint;
use clk_base::escape;
use clk_base::render::RenderStyle;

/// Number of unchanged lines shown before and after a change.
const CONTEXT_LINES: usize = 3;

/// Maximum number of cells in the table of [`diff_lines`]. If the texts need a larger table, the search for a minimal
/// diff takes too long, and all lines between the first and the last difference are shown as replaced.
const MAX_CELLS: usize = 4_000_000;

#[derive(Clone, Copy, PartialEq, Eq)]
enum DiffSide {
    Both,
    Old,
    New,
}

/// Returns the unified diff, empty if the texts are equal.
pub(crate) fn show(name: &str, old: &str, new: &str, style: RenderStyle) -> String {
    if old == new {
        return String::new();
    }
    // Control sequences are escaped for the terminal.
    let (name, old, new) = (escape::name(name), escape::lines(old), escape::lines(new));
    let lines = diff_lines(&old.split('\n').collect::<Vec<_>>(), &new.split('\n').collect::<Vec<_>>());
    let mut out = format!("--- {name}\n+++ {name}\n");
    let changed: Vec<usize> = (0..lines.len()).filter(|&i| lines[i].0 != DiffSide::Both).collect();
    let mut shown = 0;
    let mut next = changed.iter().copied().peekable();
    while let Some(first) = next.next() {
        let mut last = first;
        while let Some(&other) = next.peek().filter(|&&other| other <= last + 2 * CONTEXT_LINES) {
            last = other;
            next.next();
        }
        let from = first.saturating_sub(CONTEXT_LINES).max(shown);
        let to = (last + 1 + CONTEXT_LINES).min(lines.len());
        hunk(&lines, from, to, style, &mut out);
        shown = to;
    }
    out
}

fn hunk(lines: &[(DiffSide, &str)], from: usize, to: usize, style: RenderStyle, out: &mut String) {
    let count = |range: &[(DiffSide, &str)], not: DiffSide| range.iter().filter(|l| l.0 != not).count();
    let (before, lines_shown) = (&lines[..from], &lines[from..to]);
    let (old, new) = (count(before, DiffSide::New) + 1, count(before, DiffSide::Old) + 1);
    let heading =
        format!("@@ -{old},{} +{new},{} @@", count(lines_shown, DiffSide::New), count(lines_shown, DiffSide::Old));
    *out += &(paint(style, "36", &heading) + "\n");
    for (side, line) in lines_shown {
        *out += &match side {
            DiffSide::Both => format!(" {line}"),
            DiffSide::Old => paint(style, "31", &format!("-{line}")),
            DiffSide::New => paint(style, "32", &format!("+{line}")),
        };
        out.push('\n');
    }
}

/// Computes a minimal diff from the longest common subsequence, by dynamic programming. The common prefix and suffix
/// are removed first.
fn diff_lines<'t>(old: &[&'t str], new: &[&'t str]) -> Vec<(DiffSide, &'t str)> {
    let start = old.iter().zip(new).take_while(|(a, b)| a == b).count();
    let (old_rest, new_rest) = (&old[start..], &new[start..]);
    let end = old_rest.iter().rev().zip(new_rest.iter().rev()).take_while(|(a, b)| a == b).count();
    let (a, b) = (&old_rest[..old_rest.len() - end], &new_rest[..new_rest.len() - end]);
    let mut out: Vec<(DiffSide, &str)> = old[..start].iter().map(|l| (DiffSide::Both, *l)).collect();
    diff_middle(a, b, &mut out);
    out.extend(old_rest[old_rest.len() - end..].iter().map(|l| (DiffSide::Both, *l)));
    out
}

fn diff_middle<'t>(a: &[&'t str], b: &[&'t str], out: &mut Vec<(DiffSide, &'t str)>) {
    let columns = b.len() + 1;
    let (mut i, mut j) = (0, 0);
    if a.len().saturating_mul(b.len()) <= MAX_CELLS {
        // common[i][j]: length of the longest common subsequence of `a[i..]` and `b[j..]`.
        let mut common = vec![0u32; (a.len() + 1) * columns];
        for i in (0..a.len()).rev() {
            for j in (0..b.len()).rev() {
                common[i * columns + j] = if a[i] == b[j] {
                    common[(i + 1) * columns + j + 1] + 1
                } else {
                    common[(i + 1) * columns + j].max(common[i * columns + j + 1])
                };
            }
        }
        while i < a.len() && j < b.len() {
            if a[i] == b[j] {
                out.push((DiffSide::Both, a[i]));
                (i, j) = (i + 1, j + 1);
            } else if common[(i + 1) * columns + j] >= common[i * columns + j + 1] {
                out.push((DiffSide::Old, a[i]));
                i += 1;
            } else {
                out.push((DiffSide::New, b[j]));
                j += 1;
            }
        }
    }
    out.extend(a[i..].iter().map(|l| (DiffSide::Old, *l)));
    out.extend(b[j..].iter().map(|l| (DiffSide::New, *l)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_shown_with_context() {
        let style = RenderStyle { color: false, ascii: true, width: 80 };
        let old = "1\n2\n3\n4\n5\n6\n7\n8\n9\n";
        let new = "1\n2\n3\n4\nfive\n6\n7\n8\n9\n";
        let shown = show("a.clk", old, new, style);
        assert_eq!(shown, "--- a.clk\n+++ a.clk\n@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n 8\n");
        assert_eq!(show("a.clk", old, old, style), "");
    }
}
