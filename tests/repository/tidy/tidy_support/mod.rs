//! Reads Rust sources for the rules of `tests/repository/tidy.rs`: blanks everything that is not code, splits it into
//! tokens with their lines, and finds the imports between files (`circles`). A lexer suffices for that, since the code
//! is known to compile.

pub mod circles;

/// Whether string literals remain in a blanked text.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Strings {
    Kept,
    Blanked,
}

/// Returns the text without comments, test items and, if requested, literals. Line numbers do not change.
pub fn code(text: &str, strings: Strings) -> String {
    let bytes = text.as_bytes();
    let mut out = bytes.to_vec();
    let mut blank = |from: usize, to: usize| {
        out[from..to].iter_mut().filter(|b| **b != b'\n').for_each(|b| *b = b' ');
    };
    // The text without literals and comments, in which test items are searched.
    let mut bare = bytes.to_vec();
    let mut at = 0;
    while at < bytes.len() {
        let (end, is_comment) = match literal_end(bytes, at) {
            Some(found) => found,
            None => {
                at += 1;
                continue;
            }
        };
        bare[at..end].iter_mut().filter(|b| **b != b'\n').for_each(|b| *b = b' ');
        if is_comment || strings == Strings::Blanked {
            blank(at, end);
        }
        at = end;
    }
    let bare = String::from_utf8_lossy(&bare).into_owned();
    for (start, _) in bare.match_indices("#[cfg(test)]") {
        blank(start, item_end(bare.as_bytes(), start + "#[cfg(test)]".len()));
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// Returns the end of the comment or literal that begins here, and whether it is a comment.
fn literal_end(bytes: &[u8], at: usize) -> Option<(usize, bool)> {
    let rest = &bytes[at..];
    let is_word = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    let inside_word = at > 0 && is_word(bytes[at - 1]);
    if rest.starts_with(b"//") {
        return Some((at + rest.iter().position(|&b| b == b'\n').unwrap_or(rest.len()), true));
    }
    if rest.starts_with(b"/*") {
        let (mut depth, mut i) = (0, 0);
        while i < rest.len() {
            match &rest[i..] {
                [b'/', b'*', ..] => (depth, i) = (depth + 1, i + 2),
                [b'*', b'/', ..] => (depth, i) = (depth - 1, i + 2),
                _ => i += 1,
            }
            if depth == 0 {
                break;
            }
        }
        return Some((at + i, true));
    }
    let prefix = rest.iter().take_while(|b| matches!(b, b'b' | b'c' | b'r')).count();
    let hashes = rest[prefix..].iter().take_while(|b| **b == b'#').count();
    let is_raw = prefix > 0 && rest[prefix - 1] == b'r';
    if !inside_word && is_raw && rest.get(prefix + hashes) == Some(&b'"') {
        let close = format!("\"{}", "#".repeat(hashes)).into_bytes();
        let body = prefix + hashes + 1;
        let len = rest[body..].windows(close.len()).position(|w| w == close)?;
        return Some((at + body + len + close.len(), false));
    }
    if rest[0] == b'"' {
        let mut i = 1;
        while i < rest.len() && rest[i] != b'"' {
            i += if rest[i] == b'\\' { 2 } else { 1 };
        }
        return Some((at + (i + 1).min(rest.len()), false));
    }
    // Unlike a character literal, a lifetime has no quote after its first letter.
    if rest[0] == b'\'' && rest.get(1) == Some(&b'\\') {
        let len = rest[3..].iter().position(|&b| b == b'\'')?;
        return Some((at + 3 + len + 1, false));
    }
    if rest[0] == b'\'' {
        let letter = std::str::from_utf8(&rest[1..rest.len().min(5)]).map_or_else(|e| e.valid_up_to(), str::len);
        let width = std::str::from_utf8(&rest[1..1 + letter]).ok()?.chars().next()?.len_utf8();
        return (rest.get(1 + width) == Some(&b'\'')).then_some((at + width + 2, false));
    }
    None
}

/// Returns the end of the item that follows, including its attributes.
fn item_end(bytes: &[u8], from: usize) -> usize {
    let mut depth = 0;
    for (i, b) in bytes.iter().enumerate().skip(from) {
        match b {
            b'{' => depth += 1,
            b'}' if depth <= 1 => return i + usize::from(depth == 1),
            b'}' => depth -= 1,
            b';' if depth == 0 => return i + 1,
            _ => {}
        }
    }
    bytes.len()
}

/// A token of Rust code: a word, `::`, or one other character.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token<'t> {
    pub text: &'t str,
    pub line: usize,
}

impl Token<'_> {
    pub fn is_word(&self) -> bool {
        self.text.starts_with(|c: char| c.is_alphabetic() || c == '_')
    }
}

/// Returns the tokens of blanked code.
pub fn tokens(code: &str) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    for (index, text) in code.lines().enumerate() {
        let mut rest = text.trim_start();
        while let Some(first) = rest.chars().next() {
            let is_word = |c: char| c.is_alphanumeric() || c == '_';
            let len = match first {
                c if is_word(c) => rest.find(|c| !is_word(c)).unwrap_or(rest.len()),
                ':' if rest.starts_with("::") => 2,
                // A lifetime.
                '\'' => 1 + rest[1..].find(|c| !is_word(c)).unwrap_or(rest.len() - 1),
                c => c.len_utf8(),
            };
            tokens.push(Token { text: &rest[..len], line: index + 1 });
            rest = rest[len..].trim_start();
        }
    }
    tokens
}

#[test]
fn comments_and_literals_are_blanked() {
    let text = "let a = \"x // y\"; // z\n/* a /* b */ c */ let b = '\"'; let c: &'a str = r#\"q\"#;\n\
                #[cfg(test)]\nmod tests {\n { }\n}\nlet d = '\\'';";
    let without_tests = code(text, Strings::Kept);
    assert_eq!(without_tests.lines().next(), Some("let a = \"x // y\";     "));
    assert!(!without_tests.contains("tests") && without_tests.contains("let d"), "{without_tests}");
    let blanked: Vec<String> = code(text, Strings::Blanked).lines().map(|l| l.trim().to_string()).collect();
    assert_eq!(blanked[1].split_whitespace().collect::<Vec<_>>().join(" "), "let b = ; let c: &'a str = ;");
    assert_eq!(blanked.len(), text.lines().count());
    let words: Vec<&str> = tokens("a::b\n.c").into_iter().map(|t| t.text).collect();
    assert_eq!(words, ["a", "::", "b", ".", "c"]);
}
