//! Wrapping of text.

/// Wraps a text to at most `width` columns, unless a word is longer. Keeps line ends; continuation lines repeat the
/// indentation of their line.
pub fn fold(text: &str, width: usize) -> Vec<String> {
    text.lines().flat_map(|line| fold_line(line, width)).collect()
}

fn fold_line(line: &str, width: usize) -> Vec<String> {
    if line.chars().count() <= width {
        return vec![line.trim_end().to_string()];
    }
    let indent: String = line.chars().take_while(|c| c.is_whitespace()).collect();
    let mut lines = Vec::new();
    let mut current = indent.clone();
    let mut columns = indent.chars().count();
    for word in words(line, width) {
        let word_columns = word.chars().count();
        let empty = current.len() == indent.len();
        if !empty && columns + 1 + word_columns > width {
            lines.push(std::mem::replace(&mut current, indent.clone()));
            columns = indent.chars().count();
        } else if !empty {
            current.push(' ');
            columns += 1;
        }
        current.push_str(word);
        columns += word_columns;
    }
    lines.push(current);
    lines
}

/// Splits a line into words. Short code in backquotes is one word.
fn words(line: &str, width: usize) -> Vec<&str> {
    let longest = width.min(62);
    let mut words = Vec::new();
    let mut start = None;
    let mut code_until = 0;
    for (at, c) in line.char_indices() {
        if c == '`' && at >= code_until {
            code_until = line[at + 1..].find('`').filter(|&len| len + 2 <= longest).map_or(0, |len| at + 1 + len + 1);
        }
        match (c.is_whitespace() && at >= code_until, start) {
            (true, Some(from)) => {
                words.push(&line[from..at]);
                start = None;
            }
            (false, None) => start = Some(at),
            (true, None) | (false, Some(_)) => {}
        }
    }
    words.extend(start.map(|from| &line[from..]));
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folds_at_words_and_keeps_lines() {
        assert_eq!(fold("one two three\nfour", 8), ["one two", "three", "four"]);
        assert_eq!(fold("  ab cd ef", 6), ["  ab", "  cd", "  ef"]);
        assert_eq!(fold("unbreakable", 4), ["unbreakable"]);
        assert_eq!(fold("see `a b` now", 6), ["see", "`a b`", "now"]);
        assert_eq!(fold("an ` alone é", 5), ["an `", "alone", "é"]);
        assert_eq!(fold("", 4), Vec::<String>::new());
    }
}
