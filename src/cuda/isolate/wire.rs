//! Messages between the program and its child processes. A message consists of a four-byte length, a tag and the
//! fields, all little-endian. The program validates messages from child processes, because a misbehaving kernel may
//! make its process send anything.

use std::borrow::Cow;
use std::io::{self, Read};

use super::super::driver::{
    DevicePtr, DriverArgument, DriverError, DriverLaunch, LaunchShape, MapElement, Properties, StridedWords, TensorMap,
};
use super::super::text::abi::{MAX_AXES, TmaBox};
use super::IpcHandle;

/// Maximum length of a request in bytes. The longest requests contain machine code.
pub(crate) const MAX_REQUEST: usize = 256 << 20;
/// Maximum length of a reply in bytes.
pub(crate) const MAX_REPLY: usize = 1 << 20;

/// A request of the program to a child process. The program assigns numbers to modules, functions, graphs and events.
#[derive(Clone, Debug, PartialEq)]
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
#[derive(Clone, Debug, PartialEq)]
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
    Bytes(Vec<u8>),
    Place(u64),
    /// The error of the request, or of an earlier operation without a reply.
    Refused(DriverError),
}

/// A malformed message.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct WireError;

type ReadResult<T> = Result<T, WireError>;

/// A message that is being written. Its length is filled in at the end.
struct MessageWriter(Vec<u8>);

impl MessageWriter {
    fn new(tag: u8) -> MessageWriter {
        MessageWriter(vec![0, 0, 0, 0, tag])
    }

    fn u32(mut self, value: u32) -> MessageWriter {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    fn u64(mut self, value: u64) -> MessageWriter {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    fn triple(self, values: [u32; 3]) -> MessageWriter {
        values.into_iter().fold(self, MessageWriter::u32)
    }

    fn raw(mut self, bytes: &[u8]) -> MessageWriter {
        self.0.extend_from_slice(bytes);
        self
    }

    /// Appends bytes, prefixed with their length.
    fn bytes(self, bytes: &[u8]) -> MessageWriter {
        self.u32(bytes.len() as u32).raw(bytes)
    }

    fn shape(self, shape: &LaunchShape) -> MessageWriter {
        self.triple(shape.grid).triple(shape.block).u32(shape.shared).u32(shape.cooperative.into())
    }

    fn arguments(self, arguments: &[DriverArgument]) -> MessageWriter {
        arguments.iter().fold(self.u32(arguments.len() as u32), |out, argument| match argument {
            DriverArgument::Address(address) => out.u32(u32::MAX).u64(address.0),
            DriverArgument::Map(TensorMap { address, element, axes, extents, tma_box }) => {
                [*extents, tma_box.extents, tma_box.steps]
                    .into_iter()
                    .flatten()
                    .fold(out.u32(MAP).u64(address.0).u32(*element as u32).u32(*axes), MessageWriter::u32)
            }
            DriverArgument::Value { bytes, len } => {
                let len = (*len).min(32);
                out.u32(len.into()).raw(&bytemuck::cast_slice::<u64, u8>(bytes)[..len.into()])
            }
        })
    }

    fn launch(self, launch: &DriverLaunch) -> MessageWriter {
        self.u32(launch.function.0 as u32).shape(&launch.shape).arguments(&launch.arguments)
    }

    fn end(mut self) -> Vec<u8> {
        let length = self.0.len() as u32 - 4;
        self.0[..4].copy_from_slice(&length.to_le_bytes());
        self.0
    }
}

/// Marks a tensor map. It is stored where other arguments have the length of their value.
const MAP: u32 = u32::MAX - 1;

/// The unread rest of a message.
struct WireReader<'a>(&'a [u8]);

impl<'a> WireReader<'a> {
    fn take_bytes(&mut self, count: usize) -> ReadResult<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(count).ok_or(WireError)?;
        self.0 = rest;
        Ok(head)
    }

    fn u32(&mut self) -> ReadResult<u32> {
        self.take_bytes(4)?.try_into().map(u32::from_le_bytes).map_err(|_| WireError)
    }

    fn u64(&mut self) -> ReadResult<u64> {
        self.take_bytes(8)?.try_into().map(u64::from_le_bytes).map_err(|_| WireError)
    }

    fn triple(&mut self) -> ReadResult<[u32; 3]> {
        Ok([self.u32()?, self.u32()?, self.u32()?])
    }

    fn bytes(&mut self) -> ReadResult<&'a [u8]> {
        let count = self.u32()?;
        self.take_bytes(count as usize)
    }

    fn text(&mut self) -> ReadResult<&'a str> {
        std::str::from_utf8(self.bytes()?).map_err(|_| WireError)
    }

    fn address(&mut self) -> ReadResult<DevicePtr> {
        self.u64().map(DevicePtr)
    }

    fn handle(&mut self) -> ReadResult<IpcHandle> {
        self.take_bytes(64)?.try_into().map(IpcHandle).map_err(|_| WireError)
    }

    fn shape(&mut self) -> ReadResult<LaunchShape> {
        Ok(LaunchShape {
            grid: self.triple()?,
            block: self.triple()?,
            shared: self.u32()?,
            cooperative: self.u32()? != 0,
        })
    }

    /// Reads a list. Allocates no memory for the announced number of elements before they have been read, because the
    /// number may be wrong.
    fn list<T>(&mut self, mut each: impl FnMut(&mut Self) -> ReadResult<T>) -> ReadResult<Vec<T>> {
        let count = self.u32()?;
        let mut list = Vec::with_capacity((count as usize).min(self.0.len() / 4));
        for _ in 0..count {
            list.push(each(self)?);
        }
        Ok(list)
    }

    fn axes(&mut self) -> ReadResult<[u32; MAX_AXES]> {
        let mut found = [0; MAX_AXES];
        for own in &mut found {
            *own = self.u32()?;
        }
        Ok(found)
    }

    fn argument(&mut self) -> ReadResult<DriverArgument> {
        match self.u32()? {
            u32::MAX => self.address().map(DriverArgument::Address),
            MAP => Ok(DriverArgument::Map(TensorMap {
                address: self.address()?,
                element: *MapElement::ALL.get(self.u32()? as usize).ok_or(WireError)?,
                axes: self.u32()?,
                extents: self.axes()?,
                tma_box: TmaBox { extents: self.axes()?, steps: self.axes()? },
            })),
            len @ 0..=32 => {
                let mut bytes = [0u64; 4];
                bytemuck::cast_slice_mut::<u64, u8>(&mut bytes)[..len as usize]
                    .copy_from_slice(self.take_bytes(len as usize)?);
                Ok(DriverArgument::Value { bytes, len: len as u8 })
            }
            _ => Err(WireError),
        }
    }

    fn launch(&mut self) -> ReadResult<DriverLaunch> {
        let function = super::super::driver::DriverFunction(self.u32()? as usize);
        Ok(DriverLaunch { function, shape: self.shape()?, arguments: self.list(WireReader::argument)? })
    }

    fn end<T>(&self, value: T) -> ReadResult<T> {
        if self.0.is_empty() { Ok(value) } else { Err(WireError) }
    }
}

impl<'a> WorkerRequest<'a> {
    /// Returns the message, length included.
    pub fn encode(&self) -> Vec<u8> {
        let out = match self {
            WorkerRequest::Keep { arena, bytes } => MessageWriter::new(1).u32(*arena).u64(*bytes),
            WorkerRequest::Release { arena } => MessageWriter::new(2).u32(*arena),
            WorkerRequest::Map { arena, handle } => MessageWriter::new(3).u32(*arena).raw(&handle.0),
            WorkerRequest::Unmap { arena } => MessageWriter::new(4).u32(*arena),
            WorkerRequest::Begin { number } => MessageWriter::new(5).u32(*number),
            WorkerRequest::Zero { to, bytes } => MessageWriter::new(6).u64(to.0).u64(*bytes),
            WorkerRequest::Upload { to, bytes } => MessageWriter::new(7).u64(to.0).bytes(bytes),
            WorkerRequest::Download { from, bytes } => MessageWriter::new(8).u64(from.0).u32(*bytes),
            WorkerRequest::Copy { to, from, bytes } => MessageWriter::new(9).u64(to.0).u64(from.0).u64(*bytes),
            WorkerRequest::UploadSlot { to, slot, bytes } => MessageWriter::new(10).u64(to.0).u32(*slot).u32(*bytes),
            WorkerRequest::DownloadSlot { from, slot, bytes } => {
                MessageWriter::new(11).u64(from.0).u32(*slot).u32(*bytes)
            }
            WorkerRequest::Settle { slot } => MessageWriter::new(12).u32(*slot),
            WorkerRequest::Load { module, cubin } => MessageWriter::new(13).u32(*module).bytes(cubin),
            WorkerRequest::Unload { module } => MessageWriter::new(14).u32(*module),
            WorkerRequest::Function { function, module, name } => {
                MessageWriter::new(15).u32(*function).u32(*module).bytes(name.as_bytes())
            }
            WorkerRequest::AllowShared { function, bytes } => MessageWriter::new(16).u32(*function).u32(*bytes),
            WorkerRequest::Resident { function, threads, shared } => {
                MessageWriter::new(17).u32(*function).u32(*threads).u32(*shared)
            }
            WorkerRequest::Launch { function, shape, arguments } => {
                MessageWriter::new(18).u32(*function).shape(shape).arguments(arguments)
            }
            WorkerRequest::Graph { graph, launches } => launches
                .iter()
                .fold(MessageWriter::new(19).u32(*graph).u32(launches.len() as u32), MessageWriter::launch),
            WorkerRequest::RunGraph { graph, changes } => changes
                .iter()
                .fold(MessageWriter::new(20).u32(*graph).u32(changes.len() as u32), |out, (at, launch)| {
                    out.u32(*at).launch(launch)
                }),
            WorkerRequest::ForgetGraph { graph } => MessageWriter::new(21).u32(*graph),
            WorkerRequest::Synchronize => MessageWriter::new(22),
            WorkerRequest::IsIdle => MessageWriter::new(23),
            WorkerRequest::IsReached { event } => MessageWriter::new(24).u32(*event),
            WorkerRequest::Poke { words, value } => {
                MessageWriter::new(25).u64(words.first.0).u64(words.pitch).u64(words.count).u32(*value)
            }
            WorkerRequest::Memory => MessageWriter::new(26),
            WorkerRequest::Resolve { address } => MessageWriter::new(31).u64(address.0),
            WorkerRequest::Event { event } => MessageWriter::new(27).u32(*event),
            WorkerRequest::Record { event } => MessageWriter::new(28).u32(*event),
            WorkerRequest::Elapsed { from, to } => MessageWriter::new(29).u32(*from).u32(*to),
            WorkerRequest::ForgetEvent { event } => MessageWriter::new(30).u32(*event),
        };
        out.end()
    }

    /// Parses a message without its length.
    pub fn decode(message: &'a [u8]) -> Result<WorkerRequest<'a>, WireError> {
        let (&tag, fields) = message.split_first().ok_or(WireError)?;
        let mut f = WireReader(fields);
        let request = match tag {
            1 => WorkerRequest::Keep { arena: f.u32()?, bytes: f.u64()? },
            2 => WorkerRequest::Release { arena: f.u32()? },
            3 => WorkerRequest::Map { arena: f.u32()?, handle: f.handle()? },
            4 => WorkerRequest::Unmap { arena: f.u32()? },
            5 => WorkerRequest::Begin { number: f.u32()? },
            6 => WorkerRequest::Zero { to: f.address()?, bytes: f.u64()? },
            7 => WorkerRequest::Upload { to: f.address()?, bytes: f.bytes()?.into() },
            8 => WorkerRequest::Download { from: f.address()?, bytes: f.u32()? },
            9 => WorkerRequest::Copy { to: f.address()?, from: f.address()?, bytes: f.u64()? },
            10 => WorkerRequest::UploadSlot { to: f.address()?, slot: f.u32()?, bytes: f.u32()? },
            11 => WorkerRequest::DownloadSlot { from: f.address()?, slot: f.u32()?, bytes: f.u32()? },
            12 => WorkerRequest::Settle { slot: f.u32()? },
            13 => WorkerRequest::Load { module: f.u32()?, cubin: f.bytes()?.into() },
            14 => WorkerRequest::Unload { module: f.u32()? },
            15 => WorkerRequest::Function { function: f.u32()?, module: f.u32()?, name: f.text()?.into() },
            16 => WorkerRequest::AllowShared { function: f.u32()?, bytes: f.u32()? },
            17 => WorkerRequest::Resident { function: f.u32()?, threads: f.u32()?, shared: f.u32()? },
            18 => WorkerRequest::Launch {
                function: f.u32()?,
                shape: f.shape()?,
                arguments: f.list(WireReader::argument)?.into(),
            },
            19 => WorkerRequest::Graph { graph: f.u32()?, launches: f.list(WireReader::launch)?.into() },
            20 => WorkerRequest::RunGraph {
                graph: f.u32()?,
                changes: f.list(|f| Ok((f.u32()?, Cow::Owned(f.launch()?))))?,
            },
            21 => WorkerRequest::ForgetGraph { graph: f.u32()? },
            22 => WorkerRequest::Synchronize,
            23 => WorkerRequest::IsIdle,
            24 => WorkerRequest::IsReached { event: f.u32()? },
            25 => WorkerRequest::Poke {
                words: StridedWords { first: f.address()?, pitch: f.u64()?, count: f.u64()? },
                value: f.u32()?,
            },
            26 => WorkerRequest::Memory,
            27 => WorkerRequest::Event { event: f.u32()? },
            28 => WorkerRequest::Record { event: f.u32()? },
            29 => WorkerRequest::Elapsed { from: f.u32()?, to: f.u32()? },
            31 => WorkerRequest::Resolve { address: f.address()? },
            30 => WorkerRequest::ForgetEvent { event: f.u32()? },
            _ => return Err(WireError),
        };
        f.end(request)
    }
}

impl WorkerReply {
    /// Returns the message, length included.
    pub fn encode(&self) -> Vec<u8> {
        let out = match self {
            WorkerReply::Done => MessageWriter::new(1),
            WorkerReply::Properties(p) => {
                let Properties { name, ordinal, architecture, memory, multiprocessors, shared_per_block, grid, driver } =
                    &**p;
                let out = MessageWriter::new(2).bytes(name.as_bytes()).u32(*ordinal).u32(*architecture).u64(*memory);
                out.u32(*multiprocessors).u32(*shared_per_block).triple(*grid).u32(*driver)
            }
            WorkerReply::Absent(why) => MessageWriter::new(3).bytes(why.as_bytes()),
            WorkerReply::Handle(handle) => MessageWriter::new(4).raw(&handle.0),
            WorkerReply::Number(number) => MessageWriter::new(5).u32(*number),
            WorkerReply::Memory { free, total } => MessageWriter::new(6).u64(*free).u64(*total),
            WorkerReply::Milliseconds(time) => MessageWriter::new(7).u64(time.to_bits()),
            WorkerReply::Place(place) => MessageWriter::new(10).u64(*place),
            WorkerReply::Bytes(bytes) => MessageWriter::new(8).bytes(bytes),
            WorkerReply::Refused(refusal) => {
                MessageWriter::new(9).bytes(refusal.call.as_bytes()).u32(refusal.code).bytes(refusal.name.as_bytes())
            }
        };
        out.end()
    }

    /// Parses a message without its length.
    pub(crate) fn decode(message: &[u8]) -> Result<WorkerReply, WireError> {
        let (&tag, fields) = message.split_first().ok_or(WireError)?;
        let mut f = WireReader(fields);
        let reply = match tag {
            1 => WorkerReply::Done,
            2 => WorkerReply::Properties(Box::new(Properties {
                name: f.text()?.to_string(),
                ordinal: f.u32()?,
                architecture: f.u32()?,
                memory: f.u64()?,
                multiprocessors: f.u32()?,
                shared_per_block: f.u32()?,
                grid: f.triple()?,
                driver: f.u32()?,
            })),
            3 => WorkerReply::Absent(f.text()?.to_string()),
            4 => WorkerReply::Handle(f.handle()?),
            5 => WorkerReply::Number(f.u32()?),
            6 => WorkerReply::Memory { free: f.u64()?, total: f.u64()? },
            7 => WorkerReply::Milliseconds(f64::from_bits(f.u64()?)),
            10 => WorkerReply::Place(f.u64()?),
            8 => WorkerReply::Bytes(f.bytes()?.to_vec()),
            9 => WorkerReply::Refused(DriverError {
                call: f.text()?.to_string().into(),
                code: f.u32()?,
                name: f.text()?.to_string(),
            }),
            _ => return Err(WireError),
        };
        f.end(reply)
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
    use super::super::super::driver::DriverFunction;
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
        assert_eq!(WorkerReply::decode(&[8, 255, 255, 255, 255, 1]), Err(WireError));
        assert_eq!(WorkerReply::decode(&[1, 0]), Err(WireError));
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
