//! Wrapping of labels: ariadne draws each label in one line after its arrow. This folds a label that is wider than the
//! terminal: beside the arrow if there is enough space, else below it.

use super::wrap;

/// Number of columns beside an arrow that suffice for a wrapped text.
const ENOUGH: usize = 22;

/// Returns the drawn lines with labels wrapped to `width` columns.
pub(super) fn fit(drawn: &str, texts: &[String], width: usize) -> String {
    let lines: Vec<&str> = drawn.lines().collect();
    let mut fitted = String::with_capacity(drawn.len());
    for (at, line) in lines.iter().enumerate() {
        let plain = plain(line);
        let wide = plain.chars().count();
        let text = texts.iter().filter(|text| plain.ends_with(text.as_str()) && line.ends_with(text.as_str()));
        match text.max_by_key(|text| text.len()).filter(|_| wide > width && is_arrow(&plain)) {
            Some(text) => fold(line, &plain, text, lines.get(at + 1).copied().unwrap_or(""), width, &mut fitted),
            None => fitted.push_str(line),
        }
        fitted.push('\n');
    }
    fitted
}

/// Returns a line without its colors.
fn plain(line: &str) -> String {
    anstream::adapter::strip_str(line).to_string()
}

/// Whether a line has the arrow of a label: a margin without a number, then a corner.
fn is_arrow(plain: &str) -> bool {
    let margin = plain.trim_start();
    margin.starts_with(['│', '|', '·', ':']) && plain.contains(['╰', '`', '╯', '\''])
}

fn fold(line: &str, plain: &str, text: &str, next: &str, width: usize, fitted: &mut String) {
    let arrow = &line[..line.len() - text.len()];
    let long = text.chars().count();
    let column = plain.chars().count() - long;
    // The shortest arrow leaves the most space: the corner, two dashes and a blank.
    let corner = plain.chars().take(column).position(|c| matches!(c, '╰' | '`' | '╯' | '\''));
    let short = corner.map(|at| (first_columns(line, at + 3), at + 4)).filter(|(_, short)| *short < column);
    let room = |column: usize| width.saturating_sub(column);
    let margin = margin(line);
    let (arrow, column) = match short {
        Some((shorter, short)) if room(column) < long && (room(short) >= long || room(column) < ENOUGH) => {
            (format!("{shorter}{} ", if line.contains('\x1b') { "\x1b[0m" } else { "" }), short)
        }
        _ => (arrow.to_owned(), column),
    };
    if room(column) >= ENOUGH.min(long) {
        // Bars that lead to the labels below continue beside the text.
        let below = self::plain(next);
        let bars = below.trim_end();
        let only_bars = bars.chars().all(|c| matches!(c, ' ' | '│' | '|' | '┆' | ':' | '·'));
        let beside = if only_bars && bars.chars().count() < column { next.trim_end() } else { margin };
        let pad = column.saturating_sub(self::plain(beside).chars().count());
        for (number, part) in wrap::fold(text, room(column)).iter().enumerate() {
            if number == 0 {
                fitted.push_str(&arrow);
            } else {
                fitted.push('\n');
                fitted.push_str(beside);
                fitted.extend(std::iter::repeat_n(' ', pad));
            }
            fitted.push_str(part);
        }
        return;
    }
    // Not enough space beside the arrow: the text goes below, as far to the right as it fits.
    fitted.push_str(arrow.trim_end());
    let edge = self::plain(margin).chars().count();
    let lines = wrap::fold(text, width.saturating_sub(edge + 2).max(ENOUGH));
    let longest = lines.iter().map(|line| line.chars().count()).max().unwrap_or(0);
    let pad = width.saturating_sub(edge + longest).max(2).min(column.saturating_sub(edge));
    for part in lines {
        fitted.push('\n');
        fitted.push_str(margin);
        fitted.extend(std::iter::repeat_n(' ', pad));
        fitted.push_str(&part);
    }
}

/// Returns the first columns of a line, including color codes.
fn first_columns(line: &str, count: usize) -> &str {
    let (mut seen, mut code) = (0, false);
    for (at, c) in line.char_indices() {
        match (code, c) {
            (true, 'm') => code = false,
            (true, _) => {}
            (false, '\x1b') => code = true,
            (false, _) if seen == count => return &line[..at],
            (false, _) => seen += 1,
        }
    }
    line
}

/// Returns the start of a line up to the frame, including the code that ends its color.
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
    fn long_labels_are_folded_beside_their_arrows() {
        let texts = ["one two three four five six".to_owned()];
        let drawn = "   │      ╰──── one two three four five six\n   │\n";
        assert_eq!(fit(drawn, &texts, 60), drawn);
        // The arrow is shortened before the text is wrapped.
        assert_eq!(fit(drawn, &texts, 41), "   │      ╰── one two three four five six\n   │\n");
        assert_eq!(fit(drawn, &texts, 38), "   │      ╰──── one two three four\n   │            five six\n   │\n");
        // Bars of the labels below continue.
        let bars = "   │  ╰──── one two three four five six\n   │   │\n";
        assert_eq!(fit(bars, &texts, 34), "   │  ╰──── one two three four\n   │   │    five six\n   │   │\n");
    }

    #[test]
    fn where_no_room_is_left_a_label_stands_below() {
        let texts = ["one two three four five".to_owned()];
        let drawn = format!("   │{}╰──── one two three four five\n", " ".repeat(30));
        assert_eq!(
            fit(&drawn, &texts, 40),
            format!("   │{}╰──\n   │{}one two three four five\n", " ".repeat(30), " ".repeat(13))
        );
        let colored = "\x1b[90m   │\x1b[0m  \x1b[31m╰\x1b[0m\x1b[31m─\x1b[0m";
        assert_eq!(first_columns(colored, 7), "\x1b[90m   │\x1b[0m  \x1b[31m╰\x1b[0m\x1b[31m");
    }
}
