//! The lexer for code in another language. It fails, with `None`, on text that no dialect has.

use super::tree::Dialect;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ForeignTokenKind {
    Name,
    Number,
    /// A string, with its prefix and its quotes.
    Text,
    Operator,
    /// A line of the C preprocessor, without the `#`.
    Directive,
    /// The end of a line that may end a statement.
    LineEnd,
    End,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct ForeignToken<'t> {
    pub kind: ForeignTokenKind,
    pub text: &'t str,
    pub start: usize,
    /// The number of blanks before the first token of this line.
    pub indent: usize,
    /// Whether it is the first token of its line.
    pub is_first: bool,
}

impl ForeignToken<'_> {
    pub fn end(&self) -> usize {
        self.start + self.text.len()
    }
}

/// A comment, without its marks.
pub(super) struct ForeignComment {
    pub start: usize,
    /// The end of the comment with its marks.
    pub end: usize,
    pub text: String,
    /// Whether only blanks precede it in its line.
    pub is_alone: bool,
}

#[derive(Default)]
pub(super) struct ForeignTokens<'t> {
    pub tokens: Vec<ForeignToken<'t>>,
    pub comments: Vec<ForeignComment>,
}

/// Operators of all languages, longer ones first.
const OPERATORS: &[&str] = &[
    "<<<", ">>>", "**=", "//=", "<<=", ">>=", "...", "..=", "===", "!==", "->", "=>", "++", "--", "+=", "-=", "*=",
    "/=", "%=", "&=", "|=", "^=", "@=", "**", "//", "==", "!=", "<=", ">=", "&&", "||", "<<", ">>", "|>", "::", ":=",
    "..", ".+", ".-", ".*", "./", ".^", "+", "-", "*", "/", "%", "=", "<", ">", "!", "&", "|", "^", "~", "?", ":", ";",
    ",", ".", "(", ")", "[", "]", "{", "}", "@",
];

/// Lexes `text` from `start`, at most up to `limit` tokens.
pub(super) fn read_tokens(text: &str, start: usize, dialect: Dialect, limit: usize) -> Option<ForeignTokens<'_>> {
    let mut out = ForeignTokens::default();
    let mut reader = ForeignReader { text, at: start, dialect, brackets: Vec::new(), indent: 0, is_first: true };
    let line = text[..start].rfind('\n').map_or(0, |newline| newline + 1);
    reader.indent = text[line..start].chars().take_while(|c| *c == ' ' || *c == '\t').count();
    while out.tokens.len() < limit {
        if !reader.next(&mut out)? {
            break;
        }
    }
    let end = reader.at;
    reader.push(&mut out, ForeignTokenKind::LineEnd, end, end);
    reader.push(&mut out, ForeignTokenKind::End, end, end);
    Some(out)
}

struct ForeignReader<'t> {
    text: &'t str,
    at: usize,
    dialect: Dialect,
    brackets: Vec<u8>,
    indent: usize,
    is_first: bool,
}

impl<'t> ForeignReader<'t> {
    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    fn push(&mut self, out: &mut ForeignTokens<'t>, kind: ForeignTokenKind, start: usize, end: usize) {
        let is_first = std::mem::take(&mut self.is_first);
        out.tokens.push(ForeignToken { kind, text: &self.text[start..end], start, indent: self.indent, is_first });
        self.at = end;
    }

    /// Reads a token or a comment; returns false at the end of the text.
    fn next(&mut self, out: &mut ForeignTokens<'t>) -> Option<bool> {
        let rest = self.rest();
        let Some(c) = rest.chars().next() else { return Some(false) };
        match c {
            ' ' | '\t' | '\r' => self.at += 1,
            '\n' => self.line(out),
            '\\' if rest[1..].trim_start_matches([' ', '\r']).starts_with('\n') => {
                self.at += rest.find('\n').unwrap_or(0) + 1;
            }
            '\\' if rest[1..].starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') => {
                self.push(out, ForeignTokenKind::Operator, self.at, self.at + 1);
            }
            '#' => self.hash(out),
            '/' if rest.starts_with("/*") => {
                let length = rest[2..].find("*/")?;
                self.comment(out, self.at + 2, self.at + 2 + length);
                self.at += length + 4;
            }
            '/' if rest.starts_with("//") && !self.divides(out) => self.comment_to_line_end(out, 2),
            // The transposed matrix of Julia: `a'`.
            '\'' if out.tokens.last().is_some_and(|token| token.end() == self.at && ends_operand(token)) => {
                self.push(out, ForeignTokenKind::Operator, self.at, self.at + 1);
            }
            '"' | '\'' => self.string(out, 0)?,
            _ if c.is_ascii_digit() || c == '.' && rest[1..].starts_with(|c: char| c.is_ascii_digit()) => {
                let length = number_length(rest);
                self.push(out, ForeignTokenKind::Number, self.at, self.at + length);
            }
            _ if c.is_ascii_alphabetic() || c == '_' => {
                let length = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
                let is_prefix = length <= 2 && rest[..length].chars().all(|c| "fFrRbBuU".contains(c));
                match is_prefix && rest[length..].starts_with(['"', '\'']) {
                    true => self.string(out, length)?,
                    false => self.push(out, ForeignTokenKind::Name, self.at, self.at + length),
                }
            }
            _ => {
                let is_dotted = |op: &&&str| self.dialect == Dialect::Julia || !op.starts_with('.') || is_dots(op);
                let op = OPERATORS.iter().filter(is_dotted).find(|op| rest.starts_with(**op))?;
                match op.as_bytes()[0] {
                    open @ (b'(' | b'[' | b'{') => self.brackets.push(open),
                    b')' | b']' | b'}' => drop(self.brackets.pop()),
                    _ => {}
                }
                self.push(out, ForeignTokenKind::Operator, self.at, self.at + op.len());
            }
        }
        Some(true)
    }

    /// Returns whether `//` divides: in Python, and in no other language.
    fn divides(&self, out: &ForeignTokens<'_>) -> bool {
        self.dialect == Dialect::Python && out.tokens.last().is_some_and(ends_operand)
    }

    fn comment(&mut self, out: &mut ForeignTokens<'t>, start: usize, end: usize) {
        let text =
            self.text[start..end].split('\n').map(|line| line.trim().trim_start_matches("* ")).collect::<Vec<_>>();
        let line = self.text[..start].rfind('\n').map_or(0, |newline| newline + 1);
        let is_alone = self.text[line..start].trim().len() <= 2;
        let end = if self.rest().starts_with("/*") { end + 2 } else { end };
        out.comments.push(ForeignComment { start, end, text: text.join(" ").trim().to_owned(), is_alone });
    }

    fn comment_to_line_end(&mut self, out: &mut ForeignTokens<'t>, marks: usize) {
        let length = self.rest().find('\n').unwrap_or(self.rest().len());
        self.comment(out, self.at + marks, self.at + length);
        self.at += length;
    }

    fn hash(&mut self, out: &mut ForeignTokens<'t>) {
        const DIRECTIVES: [&str; 6] = ["include", "define", "pragma", "unroll", "nounroll", "if"];
        let rest = self.rest();
        let word = rest[1..].split(|c: char| !c.is_ascii_alphabetic()).next().unwrap_or("");
        // An attribute of Rust is neither a comment nor a directive.
        let is_attribute = self.dialect == Dialect::C && rest.starts_with("#[");
        if self.dialect != Dialect::C || !is_attribute && !DIRECTIVES.contains(&word) {
            return self.comment_to_line_end(out, 1);
        }
        let length = rest.find('\n').unwrap_or(rest.len());
        let start = self.at + 1;
        self.push(out, ForeignTokenKind::Directive, start, start + length - 1);
    }

    /// Handles the end of a line.
    fn line(&mut self, out: &mut ForeignTokens<'t>) {
        let is_continued = matches!(self.brackets.last(), Some(b'(' | b'['))
            || self.dialect != Dialect::Python && out.tokens.last().is_some_and(continues_after)
            || self.dialect != Dialect::Python && continues_before(self.rest().trim_start());
        if !is_continued {
            self.push(out, ForeignTokenKind::LineEnd, self.at, self.at);
        }
        self.at += 1;
        let rest = self.rest();
        let blanks = rest.len() - rest.trim_start_matches([' ', '\t']).len();
        if !is_continued && !rest[blanks..].starts_with(['\n', '\r']) {
            self.indent = blanks;
            self.is_first = true;
        }
    }

    /// Reads a string whose prefix has `prefix` letters.
    fn string(&mut self, out: &mut ForeignTokens<'t>, prefix: usize) -> Option<()> {
        let quoted = &self.rest()[prefix..];
        let quote = &quoted[..1];
        let triple = quote.repeat(3);
        let quote = if quoted.starts_with(&triple) { &quoted[..3] } else { quote };
        let mut length = quote.len();
        loop {
            let rest = quoted.get(length..)?;
            match rest.chars().next()? {
                '\\' => length += 1 + rest[1..].chars().next()?.len_utf8(),
                '\n' if quote.len() == 1 => return None,
                _ if rest.starts_with(quote) => break,
                c => length += c.len_utf8(),
            }
        }
        self.push(out, ForeignTokenKind::Text, self.at, self.at + prefix + length + quote.len());
        Some(())
    }
}

/// Returns whether an operand may end with a token.
fn ends_operand(token: &ForeignToken<'_>) -> bool {
    matches!(token.kind, ForeignTokenKind::Name | ForeignTokenKind::Number) || matches!(token.text, ")" | "]" | "'")
}

fn is_dots(op: &str) -> bool {
    op.bytes().all(|b| b == b'.') || op == "..="
}

/// Returns whether a statement continues after a line that ends with this token, in languages other than Python.
fn continues_after(token: &ForeignToken<'_>) -> bool {
    let is_end = matches!(token.text, ")" | "]" | "}" | "{" | ";" | "++" | "--" | ":" | "?" | "..");
    token.kind == ForeignTokenKind::Operator && !is_end
}

/// Returns whether a line that begins like this continues the statement before it.
fn continues_before(line: &str) -> bool {
    const OPERATORS: [&str; 10] = ["&&", "||", "+ ", "/ ", "? ", ": ", ".", "== ", "<< ", "else"];
    OPERATORS.iter().any(|op| line.starts_with(op)) && !line.starts_with("else")
}

/// Returns the length of the number at the beginning of a text, with its suffix.
fn number_length(text: &str) -> usize {
    let bytes = text.as_bytes();
    let at = |index: usize| bytes.get(index).copied().unwrap_or(0);
    let is_hexadecimal = text.starts_with("0x") || text.starts_with("0X");
    let mut length = 0;
    loop {
        match at(length) {
            b'0'..=b'9' | b'_' => length += 1,
            b'.' if !is_hexadecimal && !text[..length].contains('.') => {
                let next = at(length + 1);
                // A range, or a field.
                if next == b'.' || next.is_ascii_alphabetic() && !b"fFeE".contains(&next) {
                    return length;
                }
                length += 1;
            }
            b'.' => return length,
            b'e' | b'E' if !is_hexadecimal && (at(length + 1) == b'-' || at(length + 1) == b'+') => length += 2,
            b'a'..=b'z' | b'A'..=b'Z' => length += 1,
            _ => return length,
        }
    }
}

/// Returns a number in Clk's spelling: `0.5f` is `0.5`, `1.f` is `1.0`, `3u` is `3u32`, `1e-5` and `1_000` stay.
pub(super) fn clk_number(text: &str) -> Option<String> {
    if text.starts_with("0x") || text.starts_with("0X") || text.starts_with("0b") {
        let digits = text.trim_end_matches(['u', 'U', 'l', 'L']);
        return Some(format!("0{}", digits[1..].to_ascii_lowercase()));
    }
    let digits = text.find(|c: char| !c.is_ascii_digit() && !"._".contains(c)).unwrap_or(text.len());
    let exponent = match text[digits..].strip_prefix(['e', 'E']) {
        Some(rest) => 1 + rest.find(|c: char| !c.is_ascii_digit() && !"+-".contains(c)).unwrap_or(rest.len()),
        None => 0,
    };
    let (mantissa, suffix) = (&text[..digits + exponent], &text[digits + exponent..]);
    let is_float = mantissa.contains(['.', 'e', 'E']);
    let mut number = mantissa.to_owned();
    if number.starts_with('.') {
        number.insert(0, '0');
    }
    if let Some(point) = number.find('.')
        && !number[point + 1..].starts_with(|c: char| c.is_ascii_digit())
    {
        number.insert(point + 1, '0');
    }
    let suffix = match suffix {
        "f" | "F" if is_float => "",
        "f" | "F" => return Some(format!("{number}.0")),
        "u" | "U" => "u32",
        "l" | "L" | "ll" | "LL" if !is_float => "i64",
        "ul" | "UL" | "ull" | "ULL" => "u64",
        "" => "",
        _ if clk_scalar::Scalar::from_name(suffix).is_some() => suffix,
        _ => return None,
    };
    Some(number + suffix)
}

/// Returns a name that is not a keyword of Clk: `in` and `out` are common names of parameters.
pub(super) fn clk_name(name: &str) -> String {
    match name {
        "in" => "input".to_owned(),
        "out" => "output".to_owned(),
        _ if crate::token::KEYWORDS.iter().any(|(word, _)| *word == name) => format!("{name}_"),
        _ => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_get_the_spelling_of_clk() {
        for (foreign, clk) in [
            ("0.5f", "0.5"),
            ("1.f", "1.0"),
            (".5", "0.5"),
            ("2f", "2.0"),
            ("3u", "3u32"),
            ("7LL", "7i64"),
            ("1e-5f", "1e-5"),
            ("0xFFu", "0xff"),
            ("2.5f64", "2.5f64"),
        ] {
            assert_eq!(number_length(foreign), foreign.len(), "{foreign}");
            assert_eq!(clk_number(foreign).as_deref(), Some(clk), "{foreign}");
        }
        assert_eq!(number_length("1..n"), 1);
        assert_eq!(number_length("1.x"), 1);
    }

    #[test]
    fn slashes_divide_only_in_python() {
        let count = |dialect| read_tokens("n // 2", 0, dialect, 9).map(|out| (out.tokens.len(), out.comments.len()));
        assert_eq!(count(Dialect::Python), Some((5, 0)));
        assert_eq!(count(Dialect::C), Some((3, 1)));
    }
}
