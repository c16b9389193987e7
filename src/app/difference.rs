//! Line diff of two texts in unified format, with three lines of context.

use super::console::paint;
use crate::base::escape;
use crate::base::render::Style;

/// Lines of context around a change.
const AROUND: usize = 3;

/// Limit on the table of [`compare`]. Beyond it the differing middles are shown as replaced entirely, because the smallest diff
/// would take too long.
const MAX_CELLS: usize = 4_000_000;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Both,
    Old,
    New,
}

/// Returns the unified diff, empty if the texts are equal.
pub(crate) fn show(name: &str, old: &str, new: &str, style: Style) -> String {
    if old == new {
        return String::new();
    }
    // Control sequences are escaped for the terminal.
    let (name, old, new) = (escape::name(name), escape::lines(old), escape::lines(new));
    let lines = compare(&old.split('\n').collect::<Vec<_>>(), &new.split('\n').collect::<Vec<_>>());
    let mut out = format!("--- {name}\n+++ {name}\n");
    let changed: Vec<usize> = (0..lines.len()).filter(|&i| lines[i].0 != Side::Both).collect();
    let mut shown = 0;
    let mut next = changed.iter().copied().peekable();
    while let Some(first) = next.next() {
        let mut last = first;
        while let Some(&other) = next.peek().filter(|&&other| other <= last + 2 * AROUND) {
            last = other;
            next.next();
        }
        let from = first.saturating_sub(AROUND).max(shown);
        let to = (last + 1 + AROUND).min(lines.len());
        hunk(&lines, from, to, style, &mut out);
        shown = to;
    }
    out
}

fn hunk(lines: &[(Side, &str)], from: usize, to: usize, style: Style, out: &mut String) {
    let count = |range: &[(Side, &str)], not: Side| range.iter().filter(|l| l.0 != not).count();
    let (before, own) = (&lines[..from], &lines[from..to]);
    let (old, new) = (count(before, Side::New) + 1, count(before, Side::Old) + 1);
    let heading = format!("@@ -{old},{} +{new},{} @@", count(own, Side::New), count(own, Side::Old));
    *out += &(paint(style, "36", &heading) + "\n");
    for (side, line) in own {
        *out += &match side {
            Side::Both => format!(" {line}"),
            Side::Old => paint(style, "31", &format!("-{line}")),
            Side::New => paint(style, "32", &format!("+{line}")),
        };
        out.push('\n');
    }
}

/// Diffs by longest common subsequence (dynamic programming), after stripping the common prefix and suffix.
fn compare<'t>(old: &[&'t str], new: &[&'t str]) -> Vec<(Side, &'t str)> {
    let start = old.iter().zip(new).take_while(|(a, b)| a == b).count();
    let (old_rest, new_rest) = (&old[start..], &new[start..]);
    let end = old_rest.iter().rev().zip(new_rest.iter().rev()).take_while(|(a, b)| a == b).count();
    let (a, b) = (&old_rest[..old_rest.len() - end], &new_rest[..new_rest.len() - end]);
    let mut out: Vec<(Side, &str)> = old[..start].iter().map(|l| (Side::Both, *l)).collect();
    middle(a, b, &mut out);
    out.extend(old_rest[old_rest.len() - end..].iter().map(|l| (Side::Both, *l)));
    out
}

fn middle<'t>(a: &[&'t str], b: &[&'t str], out: &mut Vec<(Side, &'t str)>) {
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
                out.push((Side::Both, a[i]));
                (i, j) = (i + 1, j + 1);
            } else if common[(i + 1) * columns + j] >= common[i * columns + j + 1] {
                out.push((Side::Old, a[i]));
                i += 1;
            } else {
                out.push((Side::New, b[j]));
                j += 1;
            }
        }
    }
    out.extend(a[i..].iter().map(|l| (Side::Old, *l)));
    out.extend(b[j..].iter().map(|l| (Side::New, *l)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_stand_between_their_neighbours() {
        let style = Style { color: false, ascii: true, width: 80 };
        let old = "1\n2\n3\n4\n5\n6\n7\n8\n9\n";
        let new = "1\n2\n3\n4\nfive\n6\n7\n8\n9\n";
        let shown = show("a.clk", old, new, style);
        assert_eq!(shown, "--- a.clk\n+++ a.clk\n@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n 8\n");
        assert_eq!(show("a.clk", old, old, style), "");
    }
}
