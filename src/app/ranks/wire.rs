//! The wire format of messages between ranks: each is a JSON text, followed by the bytes of a value.
//!
//! A message consists of the length of its text (4 bytes, little-endian), the text, the length of its value (8 bytes)
//! and the value. Each length is checked before memory is allocated, because the bytes of a socket may be damaged or
//! come from an unrelated client.

use std::io::{self, Read, Write};

use serde_json::{Value, json};

use clk_base::alloc;
use clk_base::source::{FileId, Span};
use clk_host::ranks::{Collective, CollectiveCall, RankCall, ReduceOp};
use clk_scalar::Scalar;

/// The version of the protocol. All ranks must use the same version.
pub(super) const PROTOCOL: u64 = 1;
/// Maximum length in bytes of a message's text before the handshake is complete.
const LONGEST_GREETING: u32 = 64 << 10;
/// Maximum length in bytes of a message's text. The [`RankMessage::Words`] of all ranks must fit.
const LONGEST_TEXT: u32 = 64 << 20;
/// Maximum length in bytes of a message's value before the handshake is complete.
pub(super) const NO_VALUE: u64 = 0;
/// Maximum length in bytes of a message's value. It may be large, because memory is allocated only as the bytes arrive.
pub(super) const ANY_VALUE: u64 = 1 << 46;

/// A message from a rank to rank 0, or from rank 0 to a rank.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum RankMessage {
    /// The handshake, which is the first message of a rank.
    Hello(Hello),
    /// The answer to `Hello` if all ranks are connected.
    Welcome,
    /// The answer to `Hello` if the connection is rejected, with the reason.
    Refused { why: String },
    /// A collective call, a send or a receive. `number` counts the calls of this rank; `value` is the data sent.
    Call { number: u64, call: CollectiveCall, value: Vec<u8> },
    /// A short text that each rank sends to all others before it performs this call between devices.
    Word { number: u64, call: CollectiveCall, word: String },
    /// The answer to a call: its result.
    Answer { number: u64, value: Vec<u8> },
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Hello {
    pub protocol: u64,
    pub version: String,
    /// The hash of the program's sources.
    pub program: String,
    pub token: String,
    pub rank: u32,
    pub ranks: u32,
}

fn collective_to_json(deed: Collective) -> Value {
    match deed {
        Collective::AllReduce(op) | Collective::ReduceScatter(op) => json!([deed.name(), op.name()]),
        Collective::AllGather => json!([deed.name()]),
        Collective::Broadcast { from: rank } | Collective::Send { to: rank } | Collective::Receive { from: rank } => {
            json!([deed.name(), rank])
        }
    }
}

fn collective_from_json(value: &Value) -> Option<Collective> {
    let op = || ReduceOp::from_name(value.get(1)?.as_str()?);
    let rank = || u32::try_from(value.get(1)?.as_u64()?).ok();
    Some(match value.get(0)?.as_str()? {
        "all_reduce" => Collective::AllReduce(op()?),
        "reduce_scatter" => Collective::ReduceScatter(op()?),
        "all_gather" => Collective::AllGather,
        "broadcast" => Collective::Broadcast { from: rank()? },
        "send" => Collective::Send { to: rank()? },
        "receive" => Collective::Receive { from: rank()? },
        _ => return None,
    })
}

fn call_to_json(call: &CollectiveCall) -> Value {
    json!({
        "deed": collective_to_json(call.op),
        "element": call.element,
        "scalar": call.scalar.map(Scalar::name),
        "shape": call.shape,
        "bytes": call.bytes,
        "device": call.by_device,
        "span": [call.span.file.0, call.span.start, call.span.end],
    })
}

fn call_from_json(value: &Value) -> Option<CollectiveCall> {
    let small = |value: &Value| u32::try_from(value.as_u64()?).ok();
    let span = value.get("span")?;
    let [file, start, end] = [0, 1, 2].map(|at| span.get(at).and_then(small));
    let (start, end) = (start?, end?);
    let shape = match value.get("shape")? {
        Value::Null => None,
        Value::Array(extents) => Some(extents.iter().map(Value::as_u64).collect::<Option<Vec<u64>>>()?),
        _ => return None,
    };
    let scalar = match value.get("scalar")? {
        Value::Null => None,
        name => Some(Scalar::from_name(name.as_str()?)?),
    };
    Some(CollectiveCall {
        op: collective_from_json(value.get("deed")?)?,
        element: value.get("element")?.as_str()?.to_string(),
        scalar,
        shape,
        bytes: value.get("bytes")?.as_u64()?,
        by_device: value.get("device")?.as_bool()?,
        span: Span { file: FileId(file?), start, end: end.max(start) },
    })
}

fn rank_call_to_json(of: &RankCall) -> Value {
    json!({ "rank": of.rank, "call": call_to_json(&of.call) })
}

fn rank_call_from_json(value: &Value) -> Option<RankCall> {
    Some(RankCall {
        rank: u32::try_from(value.get("rank")?.as_u64()?).ok()?,
        call: call_from_json(value.get("call")?)?,
    })
}

impl RankMessage {
    /// Returns the JSON text of a message, and its value.
    fn parts(&self) -> (Value, &[u8]) {
        let text = match self {
            RankMessage::Hello(hello) => json!({
                "is": "hello", "protocol": hello.protocol, "version": hello.version, "program": hello.program,
                "token": hello.token, "rank": hello.rank, "ranks": hello.ranks,
            }),
            RankMessage::Welcome => json!({ "is": "welcome" }),
            RankMessage::Refused { why } => json!({ "is": "refused", "why": why }),
            RankMessage::Call { number, call, value } => {
                return (json!({ "is": "call", "number": number, "call": call_to_json(call) }), value);
            }
            RankMessage::Word { number, call, word } => {
                json!({ "is": "word", "number": number, "call": call_to_json(call), "word": word })
            }
            RankMessage::Answer { number, value } => return (json!({ "is": "answer", "number": number }), value),
            RankMessage::Words { number, words } => json!({ "is": "words", "number": number, "words": words }),
            RankMessage::Fits { number } => json!({ "is": "fits", "number": number }),
            RankMessage::Unable { number, code, title, notes } => {
                json!({ "is": "unable", "number": number, "code": code, "title": title, "notes": notes })
            }
            RankMessage::Differ { one, other, stuck } => {
                json!({ "is": "differ", "one": rank_call_to_json(one), "other": rank_call_to_json(other), "stuck": stuck })
            }
            RankMessage::Over { waits, over } => {
                json!({ "is": "over", "waits": rank_call_to_json(waits), "over": over })
            }
            RankMessage::Failed { rank, message } => json!({ "is": "failed", "rank": rank, "message": message }),
            RankMessage::Done => json!({ "is": "done" }),
            RankMessage::AllDone => json!({ "is": "all done" }),
        };
        (text, &[])
    }

    fn of_parts(text: &Value, value: Vec<u8>) -> Option<RankMessage> {
        let number = |name: &str| text.get(name)?.as_u64();
        let small = |name: &str| u32::try_from(text.get(name)?.as_u64()?).ok();
        let word = |name: &str| Some(text.get(name)?.as_str()?.to_string());
        let words = |name: &str| {
            let all = text.get(name)?.as_array()?;
            all.iter().map(|word| Some(word.as_str()?.to_string())).collect::<Option<Vec<String>>>()
        };
        Some(match text.get("is")?.as_str()? {
            "hello" => RankMessage::Hello(Hello {
                protocol: number("protocol")?,
                version: word("version")?,
                program: word("program")?,
                token: word("token")?,
                rank: small("rank")?,
                ranks: small("ranks")?,
            }),
            "welcome" => RankMessage::Welcome,
            "refused" => RankMessage::Refused { why: word("why")? },
            "call" => RankMessage::Call { number: number("number")?, call: call_from_json(text.get("call")?)?, value },
            "word" => RankMessage::Word {
                number: number("number")?,
                call: call_from_json(text.get("call")?)?,
                word: word("word")?,
            },
            "answer" => RankMessage::Answer { number: number("number")?, value },
            "words" => RankMessage::Words { number: number("number")?, words: words("words")? },
            "fits" => RankMessage::Fits { number: number("number")? },
            "unable" => RankMessage::Unable {
                number: number("number")?,
                code: word("code")?,
                title: word("title")?,
                notes: words("notes")?,
            },
            "differ" => RankMessage::Differ {
                one: rank_call_from_json(text.get("one")?)?,
                other: rank_call_from_json(text.get("other")?)?,
                stuck: text.get("stuck")?.as_bool()?,
            },
            "over" => RankMessage::Over { waits: rank_call_from_json(text.get("waits")?)?, over: small("over")? },
            "failed" => RankMessage::Failed { rank: small("rank")?, message: word("message")? },
            "done" => RankMessage::Done,
            "all done" => RankMessage::AllDone,
            _ => return None,
        })
    }
}

fn invalid_data(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why.to_string())
}

/// Writes a message.
pub(super) fn write(output: &mut impl Write, message: &RankMessage) -> io::Result<()> {
    let (text, value) = message.parts();
    write_parts(output, &text, value)
}

/// Writes a call. Unlike [`write()`], does not copy the value first.
pub(super) fn write_call(output: &mut impl Write, number: u64, call: &CollectiveCall, value: &[u8]) -> io::Result<()> {
    write_parts(output, &json!({ "is": "call", "number": number, "call": call_to_json(call) }), value)
}

fn write_parts(output: &mut impl Write, text: &Value, value: &[u8]) -> io::Result<()> {
    let text = text.to_string().into_bytes();
    let length = u32::try_from(text.len()).ok().filter(|&length| length <= LONGEST_TEXT);
    let length = length.ok_or_else(|| invalid_data("a message is too long"))?;
    let mut head = Vec::with_capacity(text.len() + 12);
    head.extend_from_slice(&length.to_le_bytes());
    head.extend_from_slice(&text);
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
    let most = if longest == NO_VALUE { LONGEST_GREETING } else { LONGEST_TEXT };
    if length > most {
        return Err(invalid_data("it is not a message of Clk"));
    }
    let text = read_bytes(input, u64::from(length))?;
    let mut size = [0; 8];
    input.read_exact(&mut size)?;
    let size = u64::from_le_bytes(size);
    if size > longest {
        return Err(invalid_data("a message has a value that is too long"));
    }
    let text: Value = serde_json::from_slice(&text).map_err(|_| invalid_data("it is not a message of Clk"))?;
    let value = read_bytes(input, size)?;
    RankMessage::of_parts(&text, value).map(Some).ok_or_else(|| invalid_data("it is not a message of Clk"))
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
        let mut huge = 2u32.to_le_bytes().to_vec();
        huge.extend_from_slice(b"{}");
        huge.extend_from_slice(&(ANY_VALUE - 1).to_le_bytes());
        assert!(read(&mut &huge[..], ANY_VALUE).is_err());
        assert!(read(&mut &b"GET / HTTP/1.1\r\n\r\n"[..], NO_VALUE).is_err());
    }
}
