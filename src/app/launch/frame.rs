//! The framing of messages on a stream: lines of JSON, or binary frames with a JSON header and raw blocks.
//!
//! A frame consists of `CLK` and the byte 1; the length of the header (u32) and the total length of the blocks (u64),
//! both little-endian; the header; and the blocks. The field `blocks` of the header lists the length of each block.
//! Each length is checked before memory is allocated for it. An invalid frame is skipped, so that the next message can
//! be read.

use std::io::{self, BufRead, BufReader, ErrorKind, Read};

use super::data::fields;
use super::launch_error::{LaunchRequestError, Result};
use super::request::{block_lengths, parse};
use clk_base::aligned::AlignedBytes;

/// The first bytes of a frame. They identify it, because no JSON text starts with them.
pub(crate) const MAGIC: [u8; 4] = *b"CLK\x01";

const BUFFER: usize = 1 << 18;

/// The raw blocks of a frame. Each can be used by one array.
pub(crate) type Blocks = Vec<Option<AlignedBytes>>;

/// A message of the client, or the reason why it was rejected.
#[derive(Debug)]
pub(crate) struct ClientMessage {
    /// The JSON text: the line, or the header of the frame.
    pub text: String,
    pub blocks: Blocks,
    /// Whether the message was a frame, so that the reply must be one too.
    pub framed: bool,
    /// The error if the message is invalid.
    pub refused: Option<LaunchRequestError>,
    /// Whether this is the last message, because the beginning of the next one cannot be found.
    pub last: bool,
    /// Size of the message in memory, in bytes.
    pub bytes: u64,
}

/// Reads the messages of a client from a stream.
pub(crate) struct MessageReader<R> {
    input: BufReader<R>,
    /// Maximum size of a message in bytes.
    limit: u64,
    /// Number of bytes of a rejected message that were not read yet.
    skip: u64,
}

/// Whether an error means that the client has closed the connection. Other errors have local causes.
fn is_end(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::ConnectionAborted)
}

impl<R: Read> MessageReader<R> {
    pub fn new(input: R, limit: u64) -> MessageReader<R> {
        MessageReader { input: BufReader::with_capacity(BUFFER, input), limit, skip: 0 }
    }

    /// Reads the next message; `None` at the end of the stream.
    pub fn message(&mut self) -> io::Result<Option<ClientMessage>> {
        self.message_watched(|_| ())
    }

    /// Like [`MessageReader::message`], but calls `within(true)` when a message begins. Calls `within(false)` when a
    /// rejected message has been skipped.
    pub fn message_watched(&mut self, within: impl Fn(bool)) -> io::Result<Option<ClientMessage>> {
        if self.skip > 0 {
            within(true);
            io::copy(&mut self.input.by_ref().take(self.skip), &mut io::sink())?;
            self.skip = 0;
            within(false);
        }
        loop {
            let first = match self.input.fill_buf() {
                Ok([]) => return Ok(None),
                Ok(bytes) => bytes[0],
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) if is_end(&error) => return Ok(None),
                Err(error) => return Err(error),
            };
            match first {
                b' ' | b'\t' | b'\r' | b'\n' => self.input.consume(1),
                first => {
                    within(true);
                    return if first == MAGIC[0] { self.frame() } else { self.line() }.map(Some);
                }
            }
        }
    }

    fn line(&mut self) -> io::Result<ClientMessage> {
        let mut bytes = Vec::new();
        self.input.by_ref().take(self.limit.saturating_add(1)).read_until(b'\n', &mut bytes)?;
        if bytes.len() as u64 > self.limit {
            if bytes.last() != Some(&b'\n') {
                self.input.skip_until(b'\n')?;
            }
            return Ok(ClientMessage::refused(too_large(self.limit), false));
        }
        Ok(match String::from_utf8(bytes) {
            Ok(text) => ClientMessage { bytes: text.len() as u64, text, ..ClientMessage::empty(false) },
            Err(error) => ClientMessage::refused(not_utf8(error.utf8_error().valid_up_to()), false),
        })
    }

    fn frame(&mut self) -> io::Result<ClientMessage> {
        let mut prefix = [0; 16];
        let mut filled = 0;
        // Checks the bytes after each read, because input that is not a frame may be shorter than a frame's prefix.
        while filled < prefix.len() {
            match self.input.read(&mut prefix[filled..]) {
                Ok(0) => return Ok(ClientMessage::cut_off()),
                Ok(more) => filled += more,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if is_end(&error) => return Ok(ClientMessage::cut_off()),
                Err(error) => return Err(error),
            }
            let compared = filled.min(MAGIC.len());
            if prefix[..compared] != MAGIC[..compared] {
                let refusal = LaunchRequestError::new("E0807", "this is neither JSON nor a frame")
                    .note("frames begin with `CLK` and the byte 1")
                    .note("nothing that follows can be understood: the connection ends");
                return Ok(ClientMessage { last: true, ..ClientMessage::refused(refusal, true) });
            }
        }
        let [header, payload] = lengths(&prefix);
        let total = u128::from(header) + u128::from(payload);
        if total > u128::from(self.limit) {
            self.skip = u64::try_from(total).unwrap_or(u64::MAX);
            return Ok(ClientMessage::refused(too_large(self.limit), true));
        }
        let mut bytes = Vec::new();
        self.input.by_ref().take(header).read_to_end(&mut bytes)?;
        if bytes.len() as u64 != header {
            return Ok(ClientMessage::cut_off());
        }
        let text = match String::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => {
                self.skip = payload;
                return Ok(ClientMessage::refused(not_utf8(error.utf8_error().valid_up_to()), true));
            }
        };
        match block_lengths_of(&text, payload) {
            Ok(lengths) => self.blocks(text, &lengths, total as u64),
            Err(refusal) => {
                self.skip = payload;
                Ok(ClientMessage { text, ..ClientMessage::refused(refusal, true) })
            }
        }
    }

    fn blocks(&mut self, text: String, lengths: &[u64], bytes: u64) -> io::Result<ClientMessage> {
        let mut blocks = Blocks::new();
        let mut left: u64 = lengths.iter().sum();
        if blocks.try_reserve_exact(lengths.len()).is_err() {
            self.skip = left;
            let refusal = LaunchRequestError::new("E0806", format!("there is no memory for {} blocks", lengths.len()));
            return Ok(ClientMessage { text, ..ClientMessage::refused(refusal, true) });
        }
        for length in lengths {
            let buffer = usize::try_from(*length).ok().and_then(AlignedBytes::zeroed);
            let Some(mut block) = buffer else {
                self.skip = left;
                let refusal =
                    LaunchRequestError::new("E0806", format!("there is no memory for a block of {length} bytes"));
                return Ok(ClientMessage { text, ..ClientMessage::refused(refusal, true) });
            };
            match self.input.read_exact(&mut block) {
                Ok(()) => blocks.push(Some(block)),
                Err(error) if is_end(&error) => return Ok(ClientMessage::cut_off()),
                Err(error) => return Err(error),
            }
            left -= length;
        }
        Ok(ClientMessage { text, blocks, bytes, ..ClientMessage::empty(true) })
    }
}

/// Returns the lengths of the blocks, as a header lists them. Rejects the header if their sum is not the total length
/// in the prefix.
fn block_lengths_of(header: &str, payload: u64) -> Result<Vec<u64>> {
    let request_fields = fields(parse(header)?, "a request", &[])?;
    let blocks = request_fields.iter().find(|(name, _)| name == "blocks");
    let lengths = blocks.map_or(Ok(vec![]), |(_, value)| block_lengths(*value))?;
    let sum: u128 = lengths.iter().map(|n| u128::from(*n)).sum();
    if sum != u128::from(payload) {
        let title = format!("the blocks have {sum} bytes together, and {payload} follow the header");
        return Err(match blocks {
            Some((_, value)) => LaunchRequestError::at("E0807", title, *value),
            None => LaunchRequestError::new("E0807", title).help("say how long each block is: `\"blocks\": [400, 16]`"),
        });
    }
    Ok(lengths)
}

fn lengths(prefix: &[u8; 16]) -> [u64; 2] {
    let number = |range: std::ops::Range<usize>| {
        let bytes = prefix.get(range).unwrap_or(&[]);
        bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
    };
    [number(4..8), number(8..16)]
}

/// Returns the fixed-length prefix of a frame, which precedes the header.
pub(crate) fn prefix(header: usize, payload: u64) -> io::Result<[u8; 16]> {
    let header = u32::try_from(header).map_err(|_| io::Error::other("the header of an answer is too long"))?;
    let mut prefix = [0; 16];
    prefix[..4].copy_from_slice(&MAGIC);
    prefix[4..8].copy_from_slice(&header.to_le_bytes());
    prefix[8..].copy_from_slice(&payload.to_le_bytes());
    Ok(prefix)
}

fn too_large(limit: u64) -> LaunchRequestError {
    LaunchRequestError::new("E0806", format!("the request has more than {limit} bytes"))
        .help("allow more: `--max-bytes`")
}

fn not_utf8(at: usize) -> LaunchRequestError {
    LaunchRequestError::new("E0801", format!("the request is not UTF-8 (at byte {at})"))
}

impl ClientMessage {
    fn empty(framed: bool) -> ClientMessage {
        ClientMessage { text: String::new(), blocks: vec![], framed, refused: None, last: false, bytes: 0 }
    }

    fn refused(refusal: LaunchRequestError, framed: bool) -> ClientMessage {
        ClientMessage { refused: Some(refusal), ..ClientMessage::empty(framed) }
    }

    /// Returns the error for a request that the client did not complete in time.
    pub fn timed_out() -> ClientMessage {
        let refusal = LaunchRequestError::new("E0807", "a request was begun and does not go on: the connection ends");
        ClientMessage { last: true, ..ClientMessage::refused(refusal, false) }
    }

    /// Returns the error for a frame that is incomplete because the stream has ended.
    fn cut_off() -> ClientMessage {
        let refusal = LaunchRequestError::new("E0807", "the stream ends inside of a frame");
        ClientMessage { last: true, ..ClientMessage::refused(refusal, true) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn framed(header: &str, payload: &[u8]) -> Vec<u8> {
        [&prefix(header.len(), payload.len() as u64).expect("short")[..], header.as_bytes(), payload].concat()
    }

    fn all(bytes: &[u8], limit: u64) -> Vec<ClientMessage> {
        let mut reader = MessageReader::new(bytes, limit);
        std::iter::from_fn(|| reader.message().expect("memory is read")).collect()
    }

    fn code(message: &ClientMessage) -> &'static str {
        match &message.refused {
            Some(LaunchRequestError::Request(problem, _)) => problem.code,
            _ => "",
        }
    }

    #[test]
    fn lines_and_frames_come_in_any_order() {
        let bytes = [&b"{\"id\": 1}\n"[..], &framed("{\"blocks\": [2, 1]}", b"abc"), b"\n\n {}"].concat();
        let messages = all(&bytes, 1000);
        assert_eq!(
            messages.iter().map(|m| m.text.trim()).collect::<Vec<_>>(),
            ["{\"id\": 1}", "{\"blocks\": [2, 1]}", "{}"]
        );
        let blocks: Vec<&[u8]> = messages[1].blocks.iter().flatten().map(|block| &block[..]).collect();
        assert_eq!(blocks, [&b"ab"[..], b"c"]);
        assert_eq!(messages.iter().map(|m| m.framed).collect::<Vec<_>>(), [false, true, false]);
    }

    #[test]
    fn refused_message_does_not_affect_the_next() {
        let good = b"{}\n";
        let cases: [(Vec<u8>, &str); 7] = [
            (framed("{\"blocks\": [2]}", b"abc"), "E0807"),
            (framed("{}", b"abc"), "E0807"),
            (framed("{\"blocks\": [-1]}", b"abc"), "E0802"),
            (framed("{\"blocks\": [18446744073709551615, 18446744073709551615]}", b"abc"), "E0807"),
            (framed("{,}", b"CLK\x01"), "E0801"),
            (framed("{}", &[b'x'; 200]), "E0806"),
            ([&[b'x'; 200][..], b"\n"].concat(), "E0806"),
        ];
        for (bytes, expected) in cases {
            let messages = all(&[&bytes[..], good].concat(), 100);
            assert_eq!(messages.len(), 2, "{:?}", String::from_utf8_lossy(&bytes));
            assert_eq!((code(&messages[0]), messages[1].text.as_str()), (expected, "{}\n"));
        }
    }

    #[test]
    fn invalid_framing_ends_the_stream() {
        for bytes in [&b"CLX...\n{}\n"[..], b"CLK\x01\x05\x00", &framed("{\"blocks\": [9]}", &[0; 9])[..30]] {
            let messages = all(bytes, 100);
            assert_eq!(code(&messages[0]), "E0807");
            assert!(messages[0].last);
        }
    }

    #[test]
    fn wrong_lengths_allocate_no_memory() {
        let mut bytes = prefix(2, u64::MAX).expect("short").to_vec();
        bytes.extend(b"{}");
        assert_eq!(all(&bytes, 1 << 40).iter().map(code).collect::<Vec<_>>(), ["E0806"]);
        let bytes = prefix(u32::MAX as usize, 0).expect("short");
        assert_eq!(all(&bytes, 1 << 40).iter().map(code).collect::<Vec<_>>(), ["E0807"]);
    }
}
