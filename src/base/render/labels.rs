//! Wrapping of labels. Ariadne draws each label on one line after its arrow; this module wraps labels that are wider
//! than the terminal, next to the arrow if there is enough space, else below it.

use super::wrap;

/// Minimum number of columns next to an arrow for a wrapped text.
const MIN_COLUMNS: usize = 22;

/// Returns the drawn lines with labels wrapped to `width` columns.
pub(super) fn wrap_labels(drawn: &str, texts: &[String], width: usize) -> String {
    let lines: Vec<&str> = drawn.lines().collect();
    let mut fitted = String::with_capacity(drawn.len());
    for (index, line) in lines.iter().enumerate() {
        let plain = plain(line);
        let columns = plain.chars().count();
        let text = texts.iter().filter(|text| plain.ends_with(text.as_str()) && line.ends_with(text.as_str()));
        match text.max_by_key(|text| text.len()).filter(|_| columns > width && is_arrow(&plain)) {
            Some(text) => {
                wrap_label(line, &plain, text, lines.get(index + 1).copied().unwrap_or(""), width, &mut fitted)
            }
            None => fitted.push_str(line),
        }
        fitted.push('\n');
    }
    fitted
}

/// Returns a line without its color codes.
fn plain(line: &str) -> String {
    anstream::adapter::strip_str(line).to_string()
}

/// Returns whether a line has the arrow of a label: a margin without a line number, then a corner.
fn is_arrow(plain: &str) -> bool {
    let margin = plain.trim_start();
    margin.starts_with(['│', '|', '·', ':']) && plain.contains(['╰', '`', '╯', '\''])
}

fn wrap_label(line: &str, plain: &str, text: &str, next: &str, width: usize, fitted: &mut String) {
    let arrow = &line[..line.len() - text.len()];
    let text_columns = text.chars().count();
    let column = plain.chars().count() - text_columns;
    // The shortest arrow is the corner, two dashes and a blank; it leaves the most space.
    let corner = plain.chars().take(column).position(|c| matches!(c, '╰' | '`' | '╯' | '\''));
    let shortest = corner.map(|at| (first_columns(line, at + 3), at + 4)).filter(|(_, shortest)| *shortest < column);
    let space_after = |column: usize| width.saturating_sub(column);
    let margin = margin(line);
    let (arrow, column) = match shortest {
        Some((shorter, shortest))
            if space_after(column) < text_columns
                && (space_after(shortest) >= text_columns || space_after(column) < MIN_COLUMNS) =>
        {
            (format!("{shorter}{} ", if line.contains('\x1b') { "\x1b[0m" } else { "" }), shortest)
        }
        _ => (arrow.to_owned(), column),
    };
    if space_after(column) >= MIN_COLUMNS.min(text_columns) {
        // The bars that lead to labels below continue next to the wrapped text.
        let next_plain = self::plain(next);
        let bars = next_plain.trim_end();
        let only_bars = bars.chars().all(|c| matches!(c, ' ' | '│' | '|' | '┆' | ':' | '·'));
        let continuation = if only_bars && bars.chars().count() < column { next.trim_end() } else { margin };
        let pad = column.saturating_sub(self::plain(continuation).chars().count());
        for (number, part) in wrap::fold(text, space_after(column)).iter().enumerate() {
            if number == 0 {
                fitted.push_str(&arrow);
            } else {
                fitted.push('\n');
                fitted.push_str(continuation);
                fitted.extend(std::iter::repeat_n(' ', pad));
            }
            fitted.push_str(part);
        }
        return;
    }
    // There is not enough space next to the arrow: put the text below it, as far right as it fits.
    fitted.push_str(arrow.trim_end());
    let edge = self::plain(margin).chars().count();
    let lines = wrap::fold(text, width.saturating_sub(edge + 2).max(MIN_COLUMNS));
    let longest = lines.iter().map(|line| line.chars().count()).max().unwrap_or(0);
    let pad = width.saturating_sub(edge + longest).max(2).min(column.saturating_sub(edge));
    for part in lines {
        fitted.push('\n');
        fitted.push_str(margin);
        fitted.extend(std::iter::repeat_n(' ', pad));
        fitted.push_str(&part);
    }
}

/// Returns the first `count` columns of a line, including color codes.
fn first_columns(line: &str, count: usize) -> &str {
    let (mut columns, mut code) = (0, false);
    for (at, c) in line.char_indices() {
        match (code, c) {
            (true, 'm') => code = false,
            (true, _) => {}
            (false, '\x1b') => code = true,
            (false, _) if columns == count => return &line[..at],
            (false, _) => columns += 1,
        }
    }
    line
}

/// Returns the start of a line up to and including the vertical bar of the frame and the code that ends its color.
fn margin(line: &str) -> &str {
    let Some((at, bar)) = line.char_indices().find(|(_, c)| matches!(c, '│' | '|' | '┆')) else { return "" };
    let end = at + bar.len_utf8();
    let off = "\x1b[0m";
    let rest = &line[end..];
    if rest.starts_with(off) { &line[..end + off.len()] } else { &line[..end] }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_labels_wrap_next_to_their_arrows() {
        let texts = ["one two three four five six".to_owned()];
        let drawn = "   │      ╰──── one two three four five six\n   │\n";
        assert_eq!(wrap_labels(drawn, &texts, 60), drawn);
        // The arrow is shortened before the text is wrapped.
        assert_eq!(wrap_labels(drawn, &texts, 41), "   │      ╰── one two three four five six\n   │\n");
        assert_eq!(
            wrap_labels(drawn, &texts, 38),
            "   │      ╰──── one two three four\n   │            five six\n   │\n"
        );
        // The bars that lead to labels below continue next to the wrapped text.
        let bars = "   │  ╰──── one two three four five six\n   │   │\n";
        assert_eq!(wrap_labels(bars, &texts, 34), "   │  ╰──── one two three four\n   │   │    five six\n   │   │\n");
    }

    #[test]
    fn labels_without_space_go_below_their_arrows() {
        let texts = ["one two three four five".to_owned()];
        let drawn = format!("   │{}╰──── one two three four five\n", " ".repeat(30));
        assert_eq!(
            wrap_labels(&drawn, &texts, 40),
            format!("   │{}╰──\n   │{}one two three four five\n", " ".repeat(30), " ".repeat(13))
        );
        let colored = "\x1b[90m   │\x1b[0m  \x1b[31m╰\x1b[0m\x1b[31m─\x1b[0m";
        assert_eq!(first_columns(colored, 7), "\x1b[90m   │\x1b[0m  \x1b[31m╰\x1b[0m\x1b[31m");
    }
}
