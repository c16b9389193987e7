//! Reads and writes the frames of protocols: JSON messages, each preceded by headers (LSP and DAP) or on a line of its
//! own (MCP).
//!
//! Clk implements this itself, because the libraries end the session at a damaged frame.

use std::io::{self, BufRead, Read, Write};

use serde_json::Value;

/// Maximum length of a message in bytes.
const MAX_LENGTH: usize = 256 << 20;

/// How a protocol separates messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    /// A message follows headers, which contain its length.
    Headers,
    /// Each message is a line.
    Lines,
}

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
    Ok(parse(&bytes))
}

fn parse(bytes: &[u8]) -> WireFrame {
    match serde_json::from_slice(bytes) {
        Ok(value) => WireFrame::Message(value),
        Err(error) => WireFrame::Garbage(error.to_string()),
    }
}

/// Reads the next message that is a line; `None` at the end of the stream. Skips empty lines. A line of more than
/// `most` bytes is skipped and reported as garbage.
pub(crate) fn read_message_line(input: &mut impl BufRead, most: u64) -> io::Result<Option<WireFrame>> {
    let mut line = Vec::new();
    loop {
        line.clear();
        if Read::take(&mut *input, most).read_until(b'\n', &mut line)? == 0 {
            return Ok(None);
        }
        if line.last() != Some(&b'\n') && line.len() as u64 >= most {
            skip_line(input)?;
            return Ok(Some(WireFrame::Garbage(format!("a message is longer than {most} bytes"))));
        }
        if !line.trim_ascii().is_empty() {
            return Ok(Some(parse(&line)));
        }
    }
}

/// Skips the rest of a line without storing it.
fn skip_line(input: &mut impl BufRead) -> io::Result<()> {
    loop {
        let buffered = input.fill_buf()?;
        let end = buffered.iter().position(|&byte| byte == b'\n');
        let length = end.map_or(buffered.len(), |end| end + 1);
        let is_over = end.is_some() || buffered.is_empty();
        input.consume(length);
        if is_over {
            return Ok(());
        }
    }
}

/// Writes a message in a framing.
pub(crate) fn write_framed(output: &mut impl Write, framing: Framing, message: &Value) -> io::Result<()> {
    match framing {
        Framing::Headers => write(output, message),
        Framing::Lines => {
            // One write, so that the client receives the message as a whole.
            output.write_all((message.to_string() + "\n").as_bytes())?;
            output.flush()
        }
    }
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
    fn lines_are_messages() {
        let mut input = io::Cursor::new(b"{\"a\": 1}\r\n\n  \nnonsense\n[123456789012345678]\n\xff\n7".to_vec());
        let mut frames = vec![];
        while let Some(frame) = read_message_line(&mut input, 16).expect("memory is read") {
            frames.push(frame);
        }
        assert_eq!(frames[0], WireFrame::Message(json!({"a": 1})));
        assert!(matches!(frames[1..4], [WireFrame::Garbage(_), WireFrame::Garbage(_), WireFrame::Garbage(_)]));
        assert_eq!(frames[2], WireFrame::Garbage("a message is longer than 16 bytes".into()));
        assert_eq!(frames[4..], [WireFrame::Message(json!(7))]);
        let mut out = Vec::new();
        write_framed(&mut out, Framing::Lines, &json!({"a": "x\ny"})).expect("memory is written");
        assert_eq!(out, b"{\"a\":\"x\\ny\"}\n");
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
