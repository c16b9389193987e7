//! The wire format of messages between ranks: each has a header in postcard's format, followed by the bytes of a value.
//!
//! A message consists of the length of its header (4 bytes, little-endian), the header, the length of its value
//! (8 bytes) and the value. Each length is checked before memory is allocated, because the bytes of a socket may be
//! damaged or come from an unrelated client.

use std::io::{self, Read, Write};

use serde::{Deserialize, Serialize};

use clk_base::alloc;
use clk_host::ranks::{CollectiveCall, RankCall};

/// The version of the protocol. All ranks must use the same version.
pub(super) const PROTOCOL: u64 = 2;
/// Maximum length in bytes of a message's header before the handshake is complete.
const MAX_HELLO: u32 = 64 << 10;
/// Maximum length in bytes of a message's header. The [`RankMessage::Words`] of all ranks must fit.
const MAX_HEADER: u32 = 64 << 20;
/// Maximum length in bytes of a message's value before the handshake is complete.
pub(super) const NO_VALUE: u64 = 0;
/// Maximum length in bytes of a message's value. It may be large, because memory is allocated only as the bytes arrive.
pub(super) const ANY_VALUE: u64 = 1 << 46;

/// A message from a rank to rank 0, or from rank 0 to a rank.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum RankMessage {
    /// The handshake, which is the first message of a rank.
    Hello(Hello),
    /// The answer to `Hello` if all ranks are connected.
    Welcome,
    /// The answer to `Hello` if the connection is rejected, with the reason.
    Refused { why: String },
    /// A collective call, a send or a receive. `number` counts the calls of this rank; `value` is the data sent.
    Call {
        number: u64,
        call: CollectiveCall,
        #[serde(skip)]
        value: Vec<u8>,
    },
    /// A short text that each rank sends to all others before it performs this call between devices.
    Word { number: u64, call: CollectiveCall, word: String },
    /// The answer to a call: its result.
    Answer {
        number: u64,
        #[serde(skip)]
        value: Vec<u8>,
    },
    /// The answer to `Word`: the texts of all ranks.
    Words { number: u64, words: Vec<String> },
    /// The answer to an announced call between devices: all ranks have made matching calls.
    Fits { number: u64 },
    /// The answer to a call that cannot be performed, with the reason.
    Unable { number: u64, code: String, title: String, notes: Vec<String> },
    /// Ends all ranks: two of them made different calls (a collective mismatch). If `stuck`, they wait for each other.
    Differ { one: RankCall, other: RankCall, stuck: bool },
    /// Ends all ranks: one of them waits for a rank whose script has finished.
    Over { waits: RankCall, over: u32 },
    /// A rank has failed, with this message.
    Failed { rank: u32, message: String },
    /// The script of a rank has finished.
    Done,
    /// The scripts of all ranks have finished.
    AllDone,
}

/// The content of the handshake.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Hello {
    pub protocol: u64,
    pub version: String,
    /// The hash of the program's sources.
    pub program: String,
    pub token: String,
    pub rank: u32,
    pub ranks: u32,
}

fn invalid_data(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why.to_string())
}

/// Writes a message.
pub(super) fn write(output: &mut impl Write, message: &RankMessage) -> io::Result<()> {
    let value = match message {
        RankMessage::Call { value, .. } | RankMessage::Answer { value, .. } => value.as_slice(),
        _ => &[],
    };
    write_parts(output, message, value)
}

/// Writes a call. Unlike [`write()`], does not copy the value first.
pub(super) fn write_call(output: &mut impl Write, number: u64, call: &CollectiveCall, value: &[u8]) -> io::Result<()> {
    write_parts(output, &RankMessage::Call { number, call: call.clone(), value: vec![] }, value)
}

fn write_parts(output: &mut impl Write, message: &RankMessage, value: &[u8]) -> io::Result<()> {
    let header = postcard::to_stdvec(message).map_err(io::Error::other)?;
    let length = u32::try_from(header.len()).ok().filter(|&length| length <= MAX_HEADER);
    let length = length.ok_or_else(|| invalid_data("a message is too long"))?;
    let mut head = Vec::with_capacity(header.len() + 12);
    head.extend_from_slice(&length.to_le_bytes());
    head.extend_from_slice(&header);
    head.extend_from_slice(&(value.len() as u64).to_le_bytes());
    output.write_all(&head)?;
    output.write_all(value)?;
    output.flush()
}

/// Reads a message whose value has at most `longest` bytes; `None` if the stream ends before the message.
pub(super) fn read(input: &mut impl Read, longest: u64) -> io::Result<Option<RankMessage>> {
    let mut length = [0; 4];
    let mut got = 0;
    while got < length.len() {
        match input.read(&mut length[got..]) {
            Ok(0) if got == 0 => return Ok(None),
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => got += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    let length = u32::from_le_bytes(length);
    let most = if longest == NO_VALUE { MAX_HELLO } else { MAX_HEADER };
    if length > most {
        return Err(invalid_data("it is not a message of Clk"));
    }
    let header = read_bytes(input, u64::from(length))?;
    let mut size = [0; 8];
    input.read_exact(&mut size)?;
    let size = u64::from_le_bytes(size);
    if size > longest {
        return Err(invalid_data("a message has a value that is too long"));
    }
    let Ok((mut message, [])) = postcard::take_from_bytes(&header) else {
        return Err(invalid_data("it is not a message of Clk"));
    };
    let received = read_bytes(input, size)?;
    match &mut message {
        RankMessage::Call { value, .. } | RankMessage::Answer { value, .. } => *value = received,
        _ if received.is_empty() => {}
        _ => return Err(invalid_data("it is not a message of Clk")),
    }
    Ok(Some(message))
}

/// Decodes a handshake from the bytes received so far; `None` if it is incomplete.
pub(super) fn read_hello(bytes: &[u8]) -> io::Result<Option<RankMessage>> {
    let mut rest = bytes;
    match read(&mut rest, NO_VALUE) {
        Ok(message) if rest.is_empty() => Ok(message),
        Ok(_) => Err(invalid_data("a greeting is followed by something else")),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        Err(error) => Err(error),
    }
}

/// Reads `count` bytes. Allocates memory only as they arrive.
fn read_bytes(input: &mut impl Read, count: u64) -> io::Result<Vec<u8>> {
    const PIECE: u64 = 1 << 20;
    let mut bytes = Vec::new();
    while (bytes.len() as u64) < count {
        let received = bytes.len();
        // Doubles the buffer each time. A wrong length thus allocates little memory, and a large value is copied
        // rarely.
        let more = (count - received as u64).min(PIECE.max(received as u64)) as usize;
        if !alloc::is_available(more) || bytes.try_reserve_exact(more).is_err() {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        bytes.resize(received + more, 0);
        input.read_exact(&mut bytes[received..])?;
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clk_base::source::{FileId, Span};
    use clk_host::ranks::{Collective, ReduceOp};
    use clk_scalar::Scalar;

    fn a_call() -> CollectiveCall {
        CollectiveCall {
            op: Collective::AllReduce(ReduceOp::Max),
            element: "f32x3".into(),
            scalar: Some(Scalar::F32),
            shape: Some(vec![2, 3]),
            bytes: 72,
            by_device: true,
            span: Span::new(FileId(1), 20, 30),
        }
    }

    fn all() -> Vec<RankMessage> {
        let call = a_call;
        let of = |rank| RankCall {
            rank,
            call: CollectiveCall { op: Collective::Send { to: 3 }, shape: None, scalar: None, ..call() },
        };
        let (version, program, token) = ("0.1.0".into(), "12ab".into(), "secret".into());
        vec![
            RankMessage::Hello(Hello { protocol: PROTOCOL, version, program, token, rank: 1, ranks: 4 }),
            RankMessage::Welcome,
            RankMessage::Refused { why: "no".into() },
            RankMessage::Call { number: 7, call: call(), value: vec![1, 2, 3] },
            RankMessage::Call {
                number: 8,
                call: CollectiveCall { op: Collective::AllGather, ..call() },
                value: vec![],
            },
            RankMessage::Call {
                number: 9,
                call: CollectiveCall { op: Collective::Broadcast { from: 2 }, ..call() },
                value: vec![],
            },
            RankMessage::Call {
                number: 9,
                call: CollectiveCall { op: Collective::ReduceScatter(ReduceOp::Sum), ..call() },
                value: vec![],
            },
            RankMessage::Call {
                number: 9,
                call: CollectiveCall { op: Collective::Receive { from: 2 }, ..call() },
                value: vec![],
            },
            RankMessage::Word { number: 3, call: call(), word: "yes".into() },
            RankMessage::Answer { number: 7, value: vec![0; 3_000_000] },
            RankMessage::Words { number: 3, words: vec!["yes".into(), "no".into()] },
            RankMessage::Fits { number: 5 },
            RankMessage::Unable { number: 5, code: "E0612".into(), title: "t".into(), notes: vec!["n".into()] },
            RankMessage::Differ { one: of(0), other: of(1), stuck: true },
            RankMessage::Over { waits: of(1), over: 0 },
            RankMessage::Failed { rank: 2, message: "m".into() },
            RankMessage::Done,
            RankMessage::AllDone,
        ]
    }

    #[test]
    fn messages_round_trip() {
        let mut bytes = vec![];
        all().iter().for_each(|message| write(&mut bytes, message).expect("written"));
        let mut input = &bytes[..];
        for message in all() {
            assert_eq!(read(&mut input, ANY_VALUE).expect("whole"), Some(message));
        }
        assert_eq!(read(&mut input, ANY_VALUE).expect("the end"), None);
    }

    #[test]
    fn texts_of_many_ranks_are_transmitted() {
        let words = vec!["no NCCL: ".repeat(100); super::super::environment::MAX_RANKS as usize];
        let (mut bytes, message) = (vec![], RankMessage::Words { number: 1, words });
        write(&mut bytes, &message).expect("written");
        assert!(read(&mut &bytes[..], NO_VALUE).is_err(), "too long for a stranger");
        assert_eq!(read(&mut &bytes[..], ANY_VALUE).expect("whole"), Some(message));
    }

    #[test]
    fn damaged_messages_are_errors_and_allocate_no_memory() {
        let mut bytes = vec![];
        write(&mut bytes, &RankMessage::Call { number: 7, call: a_call(), value: vec![1, 2, 3] }).expect("written");
        for cut in 1..bytes.len() {
            assert!(read(&mut &bytes[..cut], ANY_VALUE).is_err(), "cut at {cut}");
        }
        assert!(read(&mut &bytes[..], 2).is_err(), "a value that is too long");
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x5a;
            // The damaged bytes may be a valid message or an error. In both cases, reading must not panic or allocate
            // much memory.
            let _ = read(&mut &damaged[..], ANY_VALUE);
        }
        let mut huge = 1u32.to_le_bytes().to_vec();
        huge.extend_from_slice(&postcard::to_stdvec(&RankMessage::Done).expect("encoded"));
        huge.extend_from_slice(&(ANY_VALUE - 1).to_le_bytes());
        assert!(read(&mut &huge[..], ANY_VALUE).is_err());
        assert!(read(&mut &b"GET / HTTP/1.1\r\n\r\n"[..], NO_VALUE).is_err());
    }
}
