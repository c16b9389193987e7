//! The lexer of DeviceIR's text form.

use super::parse_error::{IrParseError, IrParseErrorReason as Reason};

/// A token. Names and numbers are stored as text.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum IrToken {
    Word(String),
    /// Digits with their suffix: `12`, `1.5e-3f32`.
    Number(String),
    /// Raw bits in hexadecimal: `#7fc0`.
    Bits(u64),
    Text(String),
    /// Operators and brackets, longest first.
    Punctuation(&'static str),
    Newline,
}

const PUNCTUATION: [&str; 36] = [
    "..=", "<<", ">>", "==", "!=", "<=", ">=", "**", "..", "->", "+", "-", "*", "/", "%", "&", "|", "^", "<", ">", "=",
    "(", ")", "[", "]", "{", "}", ",", ";", ":", ".", "@", "$", "'", "!", "?",
];

/// Returns the tokens with their line numbers, from 1.
pub(crate) fn tokens(text: &str) -> Result<Vec<(IrToken, usize)>, IrParseError> {
    let mut out = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let mut rest = line.trim_start();
        while !rest.is_empty() && !rest.starts_with("//") {
            let (token, length) = token(rest).map_err(|reason| IrParseError { line: number + 1, reason })?;
            out.push((token, number + 1));
            rest = rest.get(length..).unwrap_or("").trim_start();
        }
        out.push((IrToken::Newline, number + 1));
    }
    Ok(out)
}

fn token(rest: &str) -> Result<(IrToken, usize), Reason> {
    let first = rest.chars().next().unwrap_or(' ');
    let run = |text: &str| text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len());
    if first.is_ascii_alphabetic() || first == '_' {
        let length = run(rest);
        return Ok((IrToken::Word(rest[..length].to_string()), length));
    }
    if first.is_ascii_digit() {
        let length = number_length(rest);
        return Ok((IrToken::Number(rest[..length].to_string()), length));
    }
    if first == '#' {
        let length = run(&rest[1..]);
        let bits = u64::from_str_radix(&rest[1..1 + length], 16).map_err(|_| Reason::Bits)?;
        return Ok((IrToken::Bits(bits), 1 + length));
    }
    if first == '"' {
        return text(rest);
    }
    match PUNCTUATION.into_iter().find(|p| rest.starts_with(p)) {
        Some(p) => Ok((IrToken::Punctuation(p), p.len())),
        None => Err(Reason::Character(first)),
    }
}

fn number_length(rest: &str) -> usize {
    let bytes = rest.as_bytes();
    let digit = |i: usize| bytes.get(i).is_some_and(u8::is_ascii_digit);
    let digits = |mut i: usize| {
        while digit(i) {
            i += 1;
        }
        i
    };
    let mut end = digits(0);
    if bytes.get(end) == Some(&b'.') && digit(end + 1) {
        end = digits(end + 1);
    }
    if bytes.get(end) == Some(&b'e') {
        let sign = usize::from(matches!(bytes.get(end + 1), Some(b'-' | b'+')));
        if digit(end + 1 + sign) {
            end = digits(end + 1 + sign);
        }
    }
    while bytes.get(end).is_some_and(u8::is_ascii_alphanumeric) {
        end += 1;
    }
    end
}

fn text(rest: &str) -> Result<(IrToken, usize), Reason> {
    let mut out = String::new();
    let mut chars = rest.char_indices().skip(1);
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Ok((IrToken::Text(out), at + 1)),
            '\\' => match chars.next().map(|(_, c)| c) {
                Some('n') => out.push('\n'),
                Some('r') => out.push('\r'),
                Some('t') => out.push('\t'),
                Some(c) => out.push(c),
                None => break,
            },
            c => out.push(c),
        }
    }
    Err(Reason::OpenText)
}
