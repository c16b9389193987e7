//! Messages between the program and its child processes. A message consists of a four-byte length and the value in
//! postcard's format. The program validates messages from child processes, because a misbehaving kernel may make its
//! process send anything.

use std::borrow::Cow;
use std::io::{self, Read};

use serde::{Deserialize, Serialize};

use super::super::driver::{
    DevicePtr, DriverArgument, DriverError, DriverLaunch, LaunchShape, Properties, StridedWords,
};
use super::IpcHandle;

/// Maximum length of a request in bytes. The longest requests contain machine code.
pub(crate) const MAX_REQUEST: usize = 256 << 20;
/// Maximum length of a reply in bytes.
pub(crate) const MAX_REPLY: usize = 1 << 20;

/// A request of the program to a child process. The program assigns numbers to modules, functions, graphs and events.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum WorkerRequest<'a> {
    /// For the memory owner: allocates an arena with this number. The reply is [`WorkerReply::Handle`].
    Keep {
        arena: u32,
        bytes: u64,
    },
    /// For the memory owner: frees an arena.
    Release {
        arena: u32,
    },
    Map {
        arena: u32,
        handle: IpcHandle,
    },
    Unmap {
        arena: u32,
    },
    /// Sets the number of the last operation, from which the worker continues to count.
    Begin {
        number: u32,
    },
    Zero {
        to: DevicePtr,
        bytes: u64,
    },
    Upload {
        to: DevicePtr,
        #[serde(borrow, with = "serde_bytes")]
        bytes: Cow<'a, [u8]>,
    },
    Download {
        from: DevicePtr,
        bytes: u32,
    },
    Copy {
        to: DevicePtr,
        from: DevicePtr,
        bytes: u64,
    },
    /// Copies from a slot of the segment to GPU memory. The slot can be reused after a `Settle` request for it.
    UploadSlot {
        to: DevicePtr,
        slot: u32,
        bytes: u32,
    },
    /// Copies from GPU memory to a slot of the segment. The bytes are valid after a `Settle` request for the slot.
    DownloadSlot {
        from: DevicePtr,
        slot: u32,
        bytes: u32,
    },
    Settle {
        slot: u32,
    },
    Load {
        module: u32,
        #[serde(borrow, with = "serde_bytes")]
        cubin: Cow<'a, [u8]>,
    },
    Unload {
        module: u32,
    },
    /// Looks up a function in a module. The reply is [`WorkerReply::Number`]: the bytes of the function's static shared
    /// memory.
    Function {
        function: u32,
        module: u32,
        #[serde(borrow)]
        name: Cow<'a, str>,
    },
    AllowShared {
        function: u32,
        bytes: u32,
    },
    Resident {
        function: u32,
        threads: u32,
        shared: u32,
    },
    Launch {
        function: u32,
        shape: LaunchShape,
        arguments: Cow<'a, [DriverArgument]>,
    },
    Graph {
        graph: u32,
        launches: Cow<'a, [DriverLaunch]>,
    },
    RunGraph {
        graph: u32,
        changes: Vec<(u32, Cow<'a, DriverLaunch>)>,
    },
    ForgetGraph {
        graph: u32,
    },
    Synchronize,
    IsIdle,
    IsReached {
        event: u32,
    },
    Poke {
        words: StridedWords,
        value: u32,
    },
    Memory,
    /// Translates an address of the program to an address in the worker. The reply is [`WorkerReply::Place`].
    Resolve {
        address: DevicePtr,
    },
    Event {
        event: u32,
    },
    Record {
        event: u32,
    },
    Elapsed {
        from: u32,
        to: u32,
    },
    ForgetEvent {
        event: u32,
    },
}

/// A reply of a child process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum WorkerReply {
    Done,
    /// The first message of a child process: the properties of its GPU.
    Properties(Box<Properties>),
    /// The first message of a child process if it has no GPU: the reason.
    Absent(String),
    Handle(IpcHandle),
    Number(u32),
    Memory {
        free: u64,
        total: u64,
    },
    Milliseconds(f64),
    Bytes(#[serde(with = "serde_bytes")] Vec<u8>),
    Place(u64),
    /// The error of the request, or of an earlier operation without a reply.
    Refused(DriverError),
}

/// A malformed message.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct WireError;

impl<'a> WorkerRequest<'a> {
    /// Returns the message, length included.
    pub fn encode(&self) -> Vec<u8> {
        encode(self)
    }

    /// Parses a message without its length.
    pub fn decode(message: &'a [u8]) -> Result<WorkerRequest<'a>, WireError> {
        decode(message)
    }
}

impl WorkerReply {
    /// Returns the message, length included.
    pub fn encode(&self) -> Vec<u8> {
        encode(self)
    }

    /// Parses a message without its length.
    pub(crate) fn decode(message: &[u8]) -> Result<WorkerReply, WireError> {
        decode(message)
    }
}

fn encode(message: &impl Serialize) -> Vec<u8> {
    // Only values of unknown length cannot be serialized, and messages have none. The reader refuses an empty message.
    let mut bytes = postcard::to_extend(message, vec![0; 4]).unwrap_or_else(|_| vec![0; 4]);
    let length = bytes.len() as u32 - 4;
    bytes[..4].copy_from_slice(&length.to_le_bytes());
    bytes
}

fn decode<'a, T: Deserialize<'a>>(message: &'a [u8]) -> Result<T, WireError> {
    match postcard::take_from_bytes(message) {
        Ok((value, [])) => Ok(value),
        _ => Err(WireError),
    }
}

/// Reads one message into `message`, without its length; false at the end of the stream.
pub(crate) fn read(stream: &mut impl Read, longest: usize, message: &mut Vec<u8>) -> io::Result<bool> {
    let mut length = [0; 4];
    match stream.read_exact(&mut length) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(false),
        read => read?,
    }
    let length = u32::from_le_bytes(length) as usize;
    if length > longest {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "a message of impossible length"));
    }
    message.clear();
    // Allocate no memory for the announced length before the bytes have been read, because the length may be wrong.
    stream.take(length as u64).read_to_end(message)?;
    if message.len() == length { Ok(true) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

#[cfg(test)]
mod tests {
    use super::super::super::driver::{DriverFunction, MapElement, TensorMap};
    use super::super::super::text::abi::TmaBox;
    use super::*;

    fn requests() -> Vec<WorkerRequest<'static>> {
        let shape = LaunchShape { grid: [1, 2, 3], block: [4, 5, 6], shared: 7, cooperative: true };
        let arguments = vec![
            DriverArgument::Address(DevicePtr(1 << 45)),
            DriverArgument::Value { bytes: [0x0102_0304, 0, 0, 0], len: 4 },
            DriverArgument::Value { bytes: [1, 2, 3, 4], len: 32 },
            DriverArgument::Map(TensorMap {
                address: DevicePtr(1 << 45),
                element: MapElement::Tf32,
                axes: 3,
                extents: [64, 3, 2, 1, 1],
                tma_box: TmaBox { extents: [64, 8, 1, 1, 1], steps: [1, 2, 1, 1, 1] },
            }),
        ];
        let launch = DriverLaunch { function: DriverFunction(3), shape, arguments: arguments.clone() };
        vec![
            WorkerRequest::Keep { arena: 1, bytes: 1 << 40 },
            WorkerRequest::Map { arena: 9, handle: IpcHandle([7; 64]) },
            WorkerRequest::Upload { to: DevicePtr(5), bytes: vec![1, 2, 3].into() },
            WorkerRequest::Copy { to: DevicePtr(1), from: DevicePtr(2), bytes: 3 },
            WorkerRequest::Load { module: 2, cubin: vec![0; 100].into() },
            WorkerRequest::Function { function: 1, module: 2, name: "saxpy".into() },
            WorkerRequest::Launch { function: 1, shape, arguments: arguments.into() },
            WorkerRequest::Graph { graph: 4, launches: vec![launch.clone(), launch.clone()].into() },
            WorkerRequest::RunGraph { graph: 4, changes: vec![(1, Cow::Owned(launch))] },
            WorkerRequest::Poke { words: StridedWords { first: DevicePtr(8), pitch: 4, count: 2 }, value: 1 },
            WorkerRequest::Synchronize,
        ]
    }

    #[test]
    fn messages_round_trip() {
        for request in requests() {
            let message = request.encode();
            assert_eq!(message.len() - 4, u32::from_le_bytes(message[..4].try_into().unwrap()) as usize);
            assert_eq!(WorkerRequest::decode(&message[4..]), Ok(request));
        }
        let refusal = DriverError { call: "cuMemAlloc".into(), code: 2, name: "CUDA_ERROR_OUT_OF_MEMORY".into() };
        let properties = Properties { name: "a GPU".into(), memory: 1 << 37, grid: [1, 2, 3], ..Properties::default() };
        for reply in [
            WorkerReply::Done,
            WorkerReply::Properties(Box::new(properties)),
            WorkerReply::Handle(IpcHandle([1; 64])),
            WorkerReply::Milliseconds(0.25),
            WorkerReply::Bytes(vec![1, 2]),
            WorkerReply::Refused(refusal),
        ] {
            assert_eq!(WorkerReply::decode(&reply.encode()[4..]), Ok(reply));
        }
    }

    /// Tests messages that are truncated, too long or have one changed byte. Parsing them returns an error or a
    /// different message, and never panics.
    #[test]
    fn damaged_messages_are_refused() {
        let replies = [WorkerReply::Bytes(vec![1, 2, 3]), WorkerReply::Absent("none".into()), WorkerReply::Number(5)];
        let whole = requests()
            .iter()
            .map(WorkerRequest::encode)
            .chain(replies.iter().map(WorkerReply::encode))
            .collect::<Vec<_>>();
        for message in whole {
            let body = &message[4..];
            for cut in 0..body.len() {
                assert!(WorkerRequest::decode(&body[..cut]).is_err() || WorkerReply::decode(&body[..cut]).is_err());
            }
            for at in 0..body.len() {
                for value in [0, 1, 0x7f, 0xff] {
                    let mut changed = body.to_vec();
                    changed[at] = value;
                    let _ = (WorkerRequest::decode(&changed), WorkerReply::decode(&changed));
                }
            }
        }
        // A claimed length that exceeds the message, bytes after the message, and a value of too many bytes.
        assert_eq!(WorkerReply::decode(&[7, 255, 255, 255, 255, 1]), Err(WireError));
        assert_eq!(WorkerReply::decode(&[0, 0]), Err(WireError));
        let arguments = vec![DriverArgument::Value { bytes: [0; 4], len: 33 }].into();
        let shape = LaunchShape { grid: [1; 3], block: [1; 3], shared: 0, cooperative: false };
        let message = WorkerRequest::Launch { function: 1, shape, arguments }.encode();
        assert_eq!(WorkerRequest::decode(&message[4..]), Err(WireError));
    }

    #[test]
    fn claimed_lengths_are_not_trusted() {
        let mut message = Vec::new();
        let huge = [255, 255, 255, 255, 1];
        assert!(read(&mut &huge[..], MAX_REPLY, &mut message).is_err());
        let short = [9, 0, 0, 0, 1];
        assert!(read(&mut &short[..], MAX_REPLY, &mut message).is_err());
        assert!(!read(&mut &[][..], MAX_REPLY, &mut message).unwrap());
    }
}
