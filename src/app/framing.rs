//! Reads and writes the frames of editor protocols (LSP and DAP): JSON messages, each preceded by headers.
//!
//! Clk implements this itself, because the libraries end the session at a damaged frame.

use std::io::{self, BufRead, Read, Write};

use serde_json::Value;

/// Maximum length of a message in bytes.
const MAX_LENGTH: usize = 256 << 20;

/// A frame read from the stream.
#[derive(Debug, PartialEq)]
pub(crate) enum WireFrame {
    Message(Value),
    /// An invalid message, with the reason.
    Garbage(String),
}

/// Reads the next frame and its length in bytes; `None` at the end of the stream.
pub(crate) fn read(input: &mut impl BufRead) -> io::Result<Option<(WireFrame, usize)>> {
    let garbage = |why: String| Ok(Some((WireFrame::Garbage(why), 0)));
    let mut length: Option<usize> = None;
    let mut stray = false;
    loop {
        let mut line = Vec::new();
        if read_line(input, &mut line)? == 0 {
            return Ok(None);
        }
        let text = String::from_utf8_lossy(&line);
        let text = text.trim_end_matches(['\r', '\n']);
        if text.is_empty() {
            match length {
                Some(length) if length <= MAX_LENGTH => return Ok(Some((body(input, length)?, length))),
                Some(length) => return garbage(format!("a message of {length} bytes is too long")),
                None if stray => return garbage("a header without Content-Length".into()),
                None => continue,
            }
        }
        // If a message was damaged, its remaining bytes may precede the next header on the same line.
        let header = text.to_ascii_lowercase();
        match header.rfind("content-length:") {
            Some(at) => length = header[at + "content-length:".len()..].trim().parse().ok().or(length),
            None => stray = true,
        }
    }
}

/// Reads a line of at most 64 KiB, including its line end.
fn read_line(input: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<usize> {
    Read::take(&mut *input, 1 << 16).read_until(b'\n', line)
}

fn body(input: &mut impl BufRead, length: usize) -> io::Result<WireFrame> {
    // Not allocated up front, because the length is untrusted.
    let mut bytes = Vec::new();
    Read::take(&mut *input, length as u64).read_to_end(&mut bytes)?;
    Ok(match serde_json::from_slice(&bytes) {
        Ok(value) => WireFrame::Message(value),
        Err(error) => WireFrame::Garbage(error.to_string()),
    })
}

pub(crate) fn write(output: &mut impl Write, message: &Value) -> io::Result<()> {
    let text = message.to_string();
    write!(output, "Content-Length: {}\r\n\r\n{text}", text.len())?;
    output.flush()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn all(text: &str) -> Vec<WireFrame> {
        let mut input = io::Cursor::new(text.as_bytes().to_vec());
        std::iter::from_fn(|| read(&mut input).expect("memory is read")).map(|(frame, _)| frame).collect()
    }

    #[test]
    fn frames_round_trip() {
        let mut out = Vec::new();
        write(&mut out, &json!({"a": "é"})).expect("memory is written");
        write(&mut out, &json!(1)).expect("memory is written");
        let text = String::from_utf8(out).expect("text");
        assert_eq!(all(&text), [WireFrame::Message(json!({"a": "é"})), WireFrame::Message(json!(1))]);
    }

    #[test]
    fn invalid_message_does_not_affect_the_next() {
        let good = "Content-Length: 1\r\n\r\n7";
        for bad in ["Content-Length: 3\r\n\r\n{,}", "nonsense\r\n\r\n", "Content-Length: x\r\n\r\n", "\r\n"] {
            let frames = all(&format!("{bad}{good}"));
            assert_eq!(frames.last(), Some(&WireFrame::Message(json!(7))), "{bad:?} gave {frames:?}");
        }
        assert_eq!(
            all("Content-Length: 10\r\n\r\n{"),
            [WireFrame::Garbage("EOF while parsing an object at line 1 column 1".into())]
        );
    }
}
