//! Messages between ranks as bytes: a short JSON text that says what it is, and the bytes of a value behind it.
//!
//! Input and output: a stream. A message is the length of its text (4 bytes, little-endian), the text, the length of the value (8 bytes)
//! and the value. Lengths are bounded before anything is allocated: what comes over a socket may be damaged or of somebody else.

use std::io::{self, Read, Write};

use serde_json::{Value, json};

use crate::base::room;
use crate::base::source::{FileId, Span};
use crate::host::ranks::{Call, Deed, Of, Op};
use crate::lang::scalar::Scalar;

/// The number of this protocol.
pub(super) const PROTOCOL: u64 = 1;
/// The longest text of somebody who is not known yet.
const LONGEST_GREETING: u32 = 64 << 10;
/// The longest text of a rank: the words of all ranks are in one.
const LONGEST_TEXT: u32 = 64 << 20;
/// The longest value of a message of somebody who is not known yet.
pub(super) const NO_VALUE: u64 = 0;
/// The longest value of a rank: its length is that of an array, and memory for it is only taken as it arrives.
pub(super) const ANY_VALUE: u64 = 1 << 46;

/// A message between a rank and rank 0.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Message {
    /// Of a rank, first.
    Hello(Hello),
    /// The answer: it is one of the ranks.
    Welcome,
    /// The answer: it is not, for this reason.
    Refused { why: String },
    /// The call of a rank with this number, and the value it gives.
    Call { number: u64, call: Call, value: Vec<u8> },
    /// The word of a rank, before this call.
    Word { number: u64, call: Call, word: String },
    /// What a call gives.
    Answer { number: u64, value: Vec<u8> },
    /// The words of all ranks.
    Words { number: u64, words: Vec<String> },
    /// All calls by devices up to this number fit.
    Fits { number: u64 },
    /// The ranks cannot do what calls of this number say.
    Unable { number: u64, code: String, title: String, notes: Vec<String> },
    /// Two ranks do not do the same, or wait for each other.
    Differ { one: Of, other: Of, stuck: bool },
    /// A rank waits for one whose script is over.
    Over { waits: Of, over: u32 },
    /// A rank has failed.
    Failed { rank: u32, message: String },
    /// The script of a rank is over.
    Done,
    /// The scripts of all ranks are over.
    AllDone,
}

/// What a rank says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Hello {
    pub protocol: u64,
    pub version: String,
    /// A hash of the program's sources.
    pub program: String,
    pub token: String,
    pub rank: u32,
    pub ranks: u32,
}

fn of_deed(deed: Deed) -> Value {
    match deed {
        Deed::AllReduce(op) | Deed::ReduceScatter(op) => json!([deed.name(), op.name()]),
        Deed::AllGather => json!([deed.name()]),
        Deed::Broadcast { from: rank } | Deed::Send { to: rank } | Deed::Receive { from: rank } => {
            json!([deed.name(), rank])
        }
    }
}

fn deed(value: &Value) -> Option<Deed> {
    let op = || Op::from_name(value.get(1)?.as_str()?);
    let rank = || u32::try_from(value.get(1)?.as_u64()?).ok();
    Some(match value.get(0)?.as_str()? {
        "all_reduce" => Deed::AllReduce(op()?),
        "reduce_scatter" => Deed::ReduceScatter(op()?),
        "all_gather" => Deed::AllGather,
        "broadcast" => Deed::Broadcast { from: rank()? },
        "send" => Deed::Send { to: rank()? },
        "receive" => Deed::Receive { from: rank()? },
        _ => return None,
    })
}

fn of_call(call: &Call) -> Value {
    json!({
        "deed": of_deed(call.deed),
        "element": call.element,
        "scalar": call.scalar.map(Scalar::name),
        "shape": call.shape,
        "bytes": call.bytes,
        "device": call.by_device,
        "span": [call.span.file.0, call.span.start, call.span.end],
    })
}

fn call(value: &Value) -> Option<Call> {
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
    Some(Call {
        deed: deed(value.get("deed")?)?,
        element: value.get("element")?.as_str()?.to_string(),
        scalar,
        shape,
        bytes: value.get("bytes")?.as_u64()?,
        by_device: value.get("device")?.as_bool()?,
        span: Span { file: FileId(file?), start, end: end.max(start) },
    })
}

fn of_of(of: &Of) -> Value {
    json!({ "rank": of.rank, "call": of_call(&of.call) })
}

fn of(value: &Value) -> Option<Of> {
    Some(Of { rank: u32::try_from(value.get("rank")?.as_u64()?).ok()?, call: call(value.get("call")?)? })
}

impl Message {
    /// Returns the text and the value.
    fn parts(&self) -> (Value, &[u8]) {
        let text = match self {
            Message::Hello(hello) => json!({
                "is": "hello", "protocol": hello.protocol, "version": hello.version, "program": hello.program,
                "token": hello.token, "rank": hello.rank, "ranks": hello.ranks,
            }),
            Message::Welcome => json!({ "is": "welcome" }),
            Message::Refused { why } => json!({ "is": "refused", "why": why }),
            Message::Call { number, call, value } => {
                return (json!({ "is": "call", "number": number, "call": of_call(call) }), value);
            }
            Message::Word { number, call, word } => {
                json!({ "is": "word", "number": number, "call": of_call(call), "word": word })
            }
            Message::Answer { number, value } => return (json!({ "is": "answer", "number": number }), value),
            Message::Words { number, words } => json!({ "is": "words", "number": number, "words": words }),
            Message::Fits { number } => json!({ "is": "fits", "number": number }),
            Message::Unable { number, code, title, notes } => {
                json!({ "is": "unable", "number": number, "code": code, "title": title, "notes": notes })
            }
            Message::Differ { one, other, stuck } => {
                json!({ "is": "differ", "one": of_of(one), "other": of_of(other), "stuck": stuck })
            }
            Message::Over { waits, over } => json!({ "is": "over", "waits": of_of(waits), "over": over }),
            Message::Failed { rank, message } => json!({ "is": "failed", "rank": rank, "message": message }),
            Message::Done => json!({ "is": "done" }),
            Message::AllDone => json!({ "is": "all done" }),
        };
        (text, &[])
    }

    fn of_parts(text: &Value, value: Vec<u8>) -> Option<Message> {
        let number = |name: &str| text.get(name)?.as_u64();
        let small = |name: &str| u32::try_from(text.get(name)?.as_u64()?).ok();
        let word = |name: &str| Some(text.get(name)?.as_str()?.to_string());
        let words = |name: &str| {
            let all = text.get(name)?.as_array()?;
            all.iter().map(|word| Some(word.as_str()?.to_string())).collect::<Option<Vec<String>>>()
        };
        Some(match text.get("is")?.as_str()? {
            "hello" => Message::Hello(Hello {
                protocol: number("protocol")?,
                version: word("version")?,
                program: word("program")?,
                token: word("token")?,
                rank: small("rank")?,
                ranks: small("ranks")?,
            }),
            "welcome" => Message::Welcome,
            "refused" => Message::Refused { why: word("why")? },
            "call" => Message::Call { number: number("number")?, call: call(text.get("call")?)?, value },
            "word" => Message::Word { number: number("number")?, call: call(text.get("call")?)?, word: word("word")? },
            "answer" => Message::Answer { number: number("number")?, value },
            "words" => Message::Words { number: number("number")?, words: words("words")? },
            "fits" => Message::Fits { number: number("number")? },
            "unable" => Message::Unable {
                number: number("number")?,
                code: word("code")?,
                title: word("title")?,
                notes: words("notes")?,
            },
            "differ" => Message::Differ {
                one: of(text.get("one")?)?,
                other: of(text.get("other")?)?,
                stuck: text.get("stuck")?.as_bool()?,
            },
            "over" => Message::Over { waits: of(text.get("waits")?)?, over: small("over")? },
            "failed" => Message::Failed { rank: small("rank")?, message: word("message")? },
            "done" => Message::Done,
            "all done" => Message::AllDone,
            _ => return None,
        })
    }
}

fn damaged(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why.to_string())
}

/// Writes a message.
pub(super) fn write(output: &mut impl Write, message: &Message) -> io::Result<()> {
    let (text, value) = message.parts();
    write_parts(output, &text, value)
}

/// Writes a call with a value that is not copied.
pub(super) fn write_call(output: &mut impl Write, number: u64, call: &Call, value: &[u8]) -> io::Result<()> {
    write_parts(output, &json!({ "is": "call", "number": number, "call": of_call(call) }), value)
}

fn write_parts(output: &mut impl Write, text: &Value, value: &[u8]) -> io::Result<()> {
    let text = text.to_string().into_bytes();
    let length = u32::try_from(text.len()).ok().filter(|&length| length <= LONGEST_TEXT);
    let length = length.ok_or_else(|| damaged("a message is too long"))?;
    let mut head = Vec::with_capacity(text.len() + 12);
    head.extend_from_slice(&length.to_le_bytes());
    head.extend_from_slice(&text);
    head.extend_from_slice(&(value.len() as u64).to_le_bytes());
    output.write_all(&head)?;
    output.write_all(value)?;
    output.flush()
}

/// Reads a message whose value has at most `longest` bytes; `None` if the stream ends before it.
pub(super) fn read(input: &mut impl Read, longest: u64) -> io::Result<Option<Message>> {
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
        return Err(damaged("it is no message of Clk"));
    }
    let text = take(input, u64::from(length))?;
    let mut size = [0; 8];
    input.read_exact(&mut size)?;
    let size = u64::from_le_bytes(size);
    if size > longest {
        return Err(damaged("a message has a value that is too long"));
    }
    let text: Value = serde_json::from_slice(&text).map_err(|_| damaged("it is no message of Clk"))?;
    let value = take(input, size)?;
    Message::of_parts(&text, value).map(Some).ok_or_else(|| damaged("it is no message of Clk"))
}

/// Returns the message that a stranger has sent; `None` if its end is missing.
pub(super) fn greeting(bytes: &[u8]) -> io::Result<Option<Message>> {
    let mut rest = bytes;
    match read(&mut rest, NO_VALUE) {
        Ok(message) if rest.is_empty() => Ok(message),
        Ok(_) => Err(damaged("a greeting is followed by something else")),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        Err(error) => Err(error),
    }
}

/// Reads so many bytes; memory is taken as they arrive.
fn take(input: &mut impl Read, count: u64) -> io::Result<Vec<u8>> {
    const PIECE: u64 = 1 << 20;
    let mut bytes = Vec::new();
    while (bytes.len() as u64) < count {
        let had = bytes.len();
        // As much again as there is, so that a false length costs no memory, and a large value few copies.
        let more = (count - had as u64).min(PIECE.max(had as u64)) as usize;
        if !room::has(more) || bytes.try_reserve_exact(more).is_err() {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        bytes.resize(had + more, 0);
        input.read_exact(&mut bytes[had..])?;
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn a_call() -> Call {
        Call {
            deed: Deed::AllReduce(Op::Max),
            element: "f32x3".into(),
            scalar: Some(Scalar::F32),
            shape: Some(vec![2, 3]),
            bytes: 72,
            by_device: true,
            span: Span::new(FileId(1), 20, 30),
        }
    }

    fn all() -> Vec<Message> {
        let call = a_call;
        let of = |rank| Of { rank, call: Call { deed: Deed::Send { to: 3 }, shape: None, scalar: None, ..call() } };
        let (version, program, token) = ("0.1.0".into(), "12ab".into(), "secret".into());
        vec![
            Message::Hello(Hello { protocol: PROTOCOL, version, program, token, rank: 1, ranks: 4 }),
            Message::Welcome,
            Message::Refused { why: "no".into() },
            Message::Call { number: 7, call: call(), value: vec![1, 2, 3] },
            Message::Call { number: 8, call: Call { deed: Deed::AllGather, ..call() }, value: vec![] },
            Message::Call { number: 9, call: Call { deed: Deed::Broadcast { from: 2 }, ..call() }, value: vec![] },
            Message::Call { number: 9, call: Call { deed: Deed::ReduceScatter(Op::Sum), ..call() }, value: vec![] },
            Message::Call { number: 9, call: Call { deed: Deed::Receive { from: 2 }, ..call() }, value: vec![] },
            Message::Word { number: 3, call: call(), word: "yes".into() },
            Message::Answer { number: 7, value: vec![0; 3_000_000] },
            Message::Words { number: 3, words: vec!["yes".into(), "no".into()] },
            Message::Fits { number: 5 },
            Message::Unable { number: 5, code: "E0612".into(), title: "t".into(), notes: vec!["n".into()] },
            Message::Differ { one: of(0), other: of(1), stuck: true },
            Message::Over { waits: of(1), over: 0 },
            Message::Failed { rank: 2, message: "m".into() },
            Message::Done,
            Message::AllDone,
        ]
    }

    #[test]
    fn messages_come_back() {
        let mut bytes = vec![];
        all().iter().for_each(|message| write(&mut bytes, message).expect("written"));
        let mut input = &bytes[..];
        for message in all() {
            assert_eq!(read(&mut input, ANY_VALUE).expect("whole"), Some(message));
        }
        assert_eq!(read(&mut input, ANY_VALUE).expect("the end"), None);
    }

    #[test]
    fn the_words_of_many_ranks_come_through() {
        let words = vec!["no NCCL: ".repeat(100); super::super::environment::MOST as usize];
        let (mut bytes, message) = (vec![], Message::Words { number: 1, words });
        write(&mut bytes, &message).expect("written");
        assert!(read(&mut &bytes[..], NO_VALUE).is_err(), "too long for a stranger");
        assert_eq!(read(&mut &bytes[..], ANY_VALUE).expect("whole"), Some(message));
    }

    #[test]
    fn damage_is_an_error_and_takes_no_memory() {
        let mut bytes = vec![];
        write(&mut bytes, &Message::Call { number: 7, call: a_call(), value: vec![1, 2, 3] }).expect("written");
        for cut in 1..bytes.len() {
            assert!(read(&mut &bytes[..cut], ANY_VALUE).is_err(), "cut at {cut}");
        }
        assert!(read(&mut &bytes[..], 2).is_err(), "a value that is too long");
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x5a;
            // It may be another message, or none, but it is read in bounded memory and without a panic.
            let _ = read(&mut &damaged[..], ANY_VALUE);
        }
        let mut huge = 2u32.to_le_bytes().to_vec();
        huge.extend_from_slice(b"{}");
        huge.extend_from_slice(&(ANY_VALUE - 1).to_le_bytes());
        assert!(read(&mut &huge[..], ANY_VALUE).is_err());
        assert!(read(&mut &b"GET / HTTP/1.1\r\n\r\n"[..], NO_VALUE).is_err());
    }
}
