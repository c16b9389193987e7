//! Messages between the program and its child processes: a four-byte length, a tag, the fields, all little-endian.
//!
//! Messages of a child are validated: a child with a misbehaving kernel may write anything.

use std::borrow::Cow;
use std::io::{self, Read};

use super::super::driver::{Address, Argument, Launch, Map, MapElement, Properties, Refusal, Shape, Words};
use super::super::text::abi::{MOST_AXES, OfBox};
use super::Handle;

/// The longest request: the largest payload is machine code.
pub(crate) const MAX_REQUEST: usize = 256 << 20;
/// The longest reply.
pub(crate) const MAX_REPLY: usize = 1 << 20;

/// A request of the program. Modules, functions, graphs and events have numbers that the program assigns.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Request<'a> {
    /// To the keeper: allocates memory under a number. Answered by [`Reply::Handle`].
    Keep {
        arena: u32,
        bytes: u64,
    },
    /// To the keeper: frees it.
    Release {
        arena: u32,
    },
    Map {
        arena: u32,
        handle: Handle,
    },
    Unmap {
        arena: u32,
    },
    /// Operations are counted from this number on.
    Begin {
        number: u32,
    },
    Zero {
        to: Address,
        bytes: u64,
    },
    Upload {
        to: Address,
        bytes: Cow<'a, [u8]>,
    },
    Download {
        from: Address,
        bytes: u32,
    },
    Copy {
        to: Address,
        from: Address,
        bytes: u64,
    },
    /// Copies from a slot of the segment to GPU memory; the slot is free once it is settled.
    UploadSlot {
        to: Address,
        slot: u32,
        bytes: u32,
    },
    /// Copies from GPU memory to a slot of the segment; the bytes are valid once it is settled.
    DownloadSlot {
        from: Address,
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
    /// Answered by [`Reply::Number`], its bytes of static shared memory.
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
        shape: Shape,
        arguments: Cow<'a, [Argument]>,
    },
    Graph {
        graph: u32,
        launches: Cow<'a, [Launch]>,
    },
    RunGraph {
        graph: u32,
        changes: Vec<(u32, Cow<'a, Launch>)>,
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
        words: Words,
        value: u32,
    },
    Memory,
    /// Asks for an address in the worker's mapping; answered by [`Reply::Place`].
    Resolve {
        address: Address,
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

/// A reply of a child.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    Done,
    /// The first message of a child: the properties of its GPU.
    Properties(Box<Properties>),
    /// Sent instead if there is no GPU: the reason.
    Absent(String),
    Handle(Handle),
    Number(u32),
    Memory {
        free: u64,
        total: u64,
    },
    Milliseconds(f64),
    Bytes(Vec<u8>),
    Place(u64),
    /// The request failed, or an earlier operation without a reply of its own did.
    Refused(Refusal),
}

/// A malformed message.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Malformed;

type Read_<T> = Result<T, Malformed>;

/// A message being written; the length is filled in at the end.
struct Out(Vec<u8>);

impl Out {
    fn new(tag: u8) -> Out {
        Out(vec![0, 0, 0, 0, tag])
    }

    fn u32(mut self, value: u32) -> Out {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    fn u64(mut self, value: u64) -> Out {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    fn triple(self, values: [u32; 3]) -> Out {
        values.into_iter().fold(self, Out::u32)
    }

    fn raw(mut self, bytes: &[u8]) -> Out {
        self.0.extend_from_slice(bytes);
        self
    }

    /// Appends bytes, prefixed with their length.
    fn bytes(self, bytes: &[u8]) -> Out {
        self.u32(bytes.len() as u32).raw(bytes)
    }

    fn shape(self, shape: &Shape) -> Out {
        self.triple(shape.grid).triple(shape.block).u32(shape.shared).u32(shape.cooperative.into())
    }

    fn arguments(self, arguments: &[Argument]) -> Out {
        arguments.iter().fold(self.u32(arguments.len() as u32), |out, argument| match argument {
            Argument::Address(address) => out.u32(u32::MAX).u64(address.0),
            Argument::Map(Map { address, element, axes, extents, of_box }) => [*extents, of_box.extents, of_box.steps]
                .into_iter()
                .flatten()
                .fold(out.u32(MAP).u64(address.0).u32(*element as u32).u32(*axes), Out::u32),
            Argument::Value { bytes, len } => {
                let len = (*len).min(32);
                out.u32(len.into()).raw(&bytemuck::cast_slice::<u64, u8>(bytes)[..len.into()])
            }
        })
    }

    fn launch(self, launch: &Launch) -> Out {
        self.u32(launch.function.0 as u32).shape(&launch.shape).arguments(&launch.arguments)
    }

    fn end(mut self) -> Vec<u8> {
        let length = self.0.len() as u32 - 4;
        self.0[..4].copy_from_slice(&length.to_le_bytes());
        self.0
    }
}

/// What stands for a map where the length of a value would.
const MAP: u32 = u32::MAX - 1;

/// A message being read.
struct In<'a>(&'a [u8]);

impl<'a> In<'a> {
    fn take(&mut self, count: usize) -> Read_<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(count).ok_or(Malformed)?;
        self.0 = rest;
        Ok(head)
    }

    fn u32(&mut self) -> Read_<u32> {
        self.take(4)?.try_into().map(u32::from_le_bytes).map_err(|_| Malformed)
    }

    fn u64(&mut self) -> Read_<u64> {
        self.take(8)?.try_into().map(u64::from_le_bytes).map_err(|_| Malformed)
    }

    fn triple(&mut self) -> Read_<[u32; 3]> {
        Ok([self.u32()?, self.u32()?, self.u32()?])
    }

    fn bytes(&mut self) -> Read_<&'a [u8]> {
        let count = self.u32()?;
        self.take(count as usize)
    }

    fn text(&mut self) -> Read_<&'a str> {
        std::str::from_utf8(self.bytes()?).map_err(|_| Malformed)
    }

    fn address(&mut self) -> Read_<Address> {
        self.u64().map(Address)
    }

    fn handle(&mut self) -> Read_<Handle> {
        self.take(64)?.try_into().map(Handle).map_err(|_| Malformed)
    }

    fn shape(&mut self) -> Read_<Shape> {
        Ok(Shape { grid: self.triple()?, block: self.triple()?, shared: self.u32()?, cooperative: self.u32()? != 0 })
    }

    /// Reads a list; the count is not trusted before the elements are there.
    fn list<T>(&mut self, mut each: impl FnMut(&mut Self) -> Read_<T>) -> Read_<Vec<T>> {
        let count = self.u32()?;
        let mut list = Vec::with_capacity((count as usize).min(self.0.len() / 4));
        for _ in 0..count {
            list.push(each(self)?);
        }
        Ok(list)
    }

    fn axes(&mut self) -> Read_<[u32; MOST_AXES]> {
        let mut found = [0; MOST_AXES];
        for own in &mut found {
            *own = self.u32()?;
        }
        Ok(found)
    }

    fn argument(&mut self) -> Read_<Argument> {
        match self.u32()? {
            u32::MAX => self.address().map(Argument::Address),
            MAP => Ok(Argument::Map(Map {
                address: self.address()?,
                element: *MapElement::ALL.get(self.u32()? as usize).ok_or(Malformed)?,
                axes: self.u32()?,
                extents: self.axes()?,
                of_box: OfBox { extents: self.axes()?, steps: self.axes()? },
            })),
            len @ 0..=32 => {
                let mut bytes = [0u64; 4];
                bytemuck::cast_slice_mut::<u64, u8>(&mut bytes)[..len as usize]
                    .copy_from_slice(self.take(len as usize)?);
                Ok(Argument::Value { bytes, len: len as u8 })
            }
            _ => Err(Malformed),
        }
    }

    fn launch(&mut self) -> Read_<Launch> {
        let function = super::super::driver::Function(self.u32()? as usize);
        Ok(Launch { function, shape: self.shape()?, arguments: self.list(In::argument)? })
    }

    fn end<T>(&self, value: T) -> Read_<T> {
        if self.0.is_empty() { Ok(value) } else { Err(Malformed) }
    }
}

impl<'a> Request<'a> {
    /// Returns the message, length included.
    pub fn encode(&self) -> Vec<u8> {
        let out = match self {
            Request::Keep { arena, bytes } => Out::new(1).u32(*arena).u64(*bytes),
            Request::Release { arena } => Out::new(2).u32(*arena),
            Request::Map { arena, handle } => Out::new(3).u32(*arena).raw(&handle.0),
            Request::Unmap { arena } => Out::new(4).u32(*arena),
            Request::Begin { number } => Out::new(5).u32(*number),
            Request::Zero { to, bytes } => Out::new(6).u64(to.0).u64(*bytes),
            Request::Upload { to, bytes } => Out::new(7).u64(to.0).bytes(bytes),
            Request::Download { from, bytes } => Out::new(8).u64(from.0).u32(*bytes),
            Request::Copy { to, from, bytes } => Out::new(9).u64(to.0).u64(from.0).u64(*bytes),
            Request::UploadSlot { to, slot, bytes } => Out::new(10).u64(to.0).u32(*slot).u32(*bytes),
            Request::DownloadSlot { from, slot, bytes } => Out::new(11).u64(from.0).u32(*slot).u32(*bytes),
            Request::Settle { slot } => Out::new(12).u32(*slot),
            Request::Load { module, cubin } => Out::new(13).u32(*module).bytes(cubin),
            Request::Unload { module } => Out::new(14).u32(*module),
            Request::Function { function, module, name } => {
                Out::new(15).u32(*function).u32(*module).bytes(name.as_bytes())
            }
            Request::AllowShared { function, bytes } => Out::new(16).u32(*function).u32(*bytes),
            Request::Resident { function, threads, shared } => Out::new(17).u32(*function).u32(*threads).u32(*shared),
            Request::Launch { function, shape, arguments } => {
                Out::new(18).u32(*function).shape(shape).arguments(arguments)
            }
            Request::Graph { graph, launches } => {
                launches.iter().fold(Out::new(19).u32(*graph).u32(launches.len() as u32), Out::launch)
            }
            Request::RunGraph { graph, changes } => {
                changes.iter().fold(Out::new(20).u32(*graph).u32(changes.len() as u32), |out, (at, launch)| {
                    out.u32(*at).launch(launch)
                })
            }
            Request::ForgetGraph { graph } => Out::new(21).u32(*graph),
            Request::Synchronize => Out::new(22),
            Request::IsIdle => Out::new(23),
            Request::IsReached { event } => Out::new(24).u32(*event),
            Request::Poke { words, value } => {
                Out::new(25).u64(words.first.0).u64(words.pitch).u64(words.count).u32(*value)
            }
            Request::Memory => Out::new(26),
            Request::Resolve { address } => Out::new(31).u64(address.0),
            Request::Event { event } => Out::new(27).u32(*event),
            Request::Record { event } => Out::new(28).u32(*event),
            Request::Elapsed { from, to } => Out::new(29).u32(*from).u32(*to),
            Request::ForgetEvent { event } => Out::new(30).u32(*event),
        };
        out.end()
    }

    /// Parses a message without its length.
    pub fn decode(message: &'a [u8]) -> Result<Request<'a>, Malformed> {
        let (&tag, fields) = message.split_first().ok_or(Malformed)?;
        let mut f = In(fields);
        let request = match tag {
            1 => Request::Keep { arena: f.u32()?, bytes: f.u64()? },
            2 => Request::Release { arena: f.u32()? },
            3 => Request::Map { arena: f.u32()?, handle: f.handle()? },
            4 => Request::Unmap { arena: f.u32()? },
            5 => Request::Begin { number: f.u32()? },
            6 => Request::Zero { to: f.address()?, bytes: f.u64()? },
            7 => Request::Upload { to: f.address()?, bytes: f.bytes()?.into() },
            8 => Request::Download { from: f.address()?, bytes: f.u32()? },
            9 => Request::Copy { to: f.address()?, from: f.address()?, bytes: f.u64()? },
            10 => Request::UploadSlot { to: f.address()?, slot: f.u32()?, bytes: f.u32()? },
            11 => Request::DownloadSlot { from: f.address()?, slot: f.u32()?, bytes: f.u32()? },
            12 => Request::Settle { slot: f.u32()? },
            13 => Request::Load { module: f.u32()?, cubin: f.bytes()?.into() },
            14 => Request::Unload { module: f.u32()? },
            15 => Request::Function { function: f.u32()?, module: f.u32()?, name: f.text()?.into() },
            16 => Request::AllowShared { function: f.u32()?, bytes: f.u32()? },
            17 => Request::Resident { function: f.u32()?, threads: f.u32()?, shared: f.u32()? },
            18 => Request::Launch { function: f.u32()?, shape: f.shape()?, arguments: f.list(In::argument)?.into() },
            19 => Request::Graph { graph: f.u32()?, launches: f.list(In::launch)?.into() },
            20 => Request::RunGraph { graph: f.u32()?, changes: f.list(|f| Ok((f.u32()?, Cow::Owned(f.launch()?))))? },
            21 => Request::ForgetGraph { graph: f.u32()? },
            22 => Request::Synchronize,
            23 => Request::IsIdle,
            24 => Request::IsReached { event: f.u32()? },
            25 => Request::Poke {
                words: Words { first: f.address()?, pitch: f.u64()?, count: f.u64()? },
                value: f.u32()?,
            },
            26 => Request::Memory,
            27 => Request::Event { event: f.u32()? },
            28 => Request::Record { event: f.u32()? },
            29 => Request::Elapsed { from: f.u32()?, to: f.u32()? },
            31 => Request::Resolve { address: f.address()? },
            30 => Request::ForgetEvent { event: f.u32()? },
            _ => return Err(Malformed),
        };
        f.end(request)
    }
}

impl Reply {
    /// Returns the message, length included.
    pub fn encode(&self) -> Vec<u8> {
        let out = match self {
            Reply::Done => Out::new(1),
            Reply::Properties(p) => {
                let Properties { name, ordinal, architecture, memory, multiprocessors, shared_per_block, grid, driver } =
                    &**p;
                let out = Out::new(2).bytes(name.as_bytes()).u32(*ordinal).u32(*architecture).u64(*memory);
                out.u32(*multiprocessors).u32(*shared_per_block).triple(*grid).u32(*driver)
            }
            Reply::Absent(why) => Out::new(3).bytes(why.as_bytes()),
            Reply::Handle(handle) => Out::new(4).raw(&handle.0),
            Reply::Number(number) => Out::new(5).u32(*number),
            Reply::Memory { free, total } => Out::new(6).u64(*free).u64(*total),
            Reply::Milliseconds(time) => Out::new(7).u64(time.to_bits()),
            Reply::Place(place) => Out::new(10).u64(*place),
            Reply::Bytes(bytes) => Out::new(8).bytes(bytes),
            Reply::Refused(refusal) => {
                Out::new(9).bytes(refusal.call.as_bytes()).u32(refusal.code).bytes(refusal.name.as_bytes())
            }
        };
        out.end()
    }

    /// Parses a message without its length.
    pub(crate) fn decode(message: &[u8]) -> Result<Reply, Malformed> {
        let (&tag, fields) = message.split_first().ok_or(Malformed)?;
        let mut f = In(fields);
        let reply = match tag {
            1 => Reply::Done,
            2 => Reply::Properties(Box::new(Properties {
                name: f.text()?.to_string(),
                ordinal: f.u32()?,
                architecture: f.u32()?,
                memory: f.u64()?,
                multiprocessors: f.u32()?,
                shared_per_block: f.u32()?,
                grid: f.triple()?,
                driver: f.u32()?,
            })),
            3 => Reply::Absent(f.text()?.to_string()),
            4 => Reply::Handle(f.handle()?),
            5 => Reply::Number(f.u32()?),
            6 => Reply::Memory { free: f.u64()?, total: f.u64()? },
            7 => Reply::Milliseconds(f64::from_bits(f.u64()?)),
            10 => Reply::Place(f.u64()?),
            8 => Reply::Bytes(f.bytes()?.to_vec()),
            9 => Reply::Refused(Refusal {
                call: f.text()?.to_string().into(),
                code: f.u32()?,
                name: f.text()?.to_string(),
            }),
            _ => return Err(Malformed),
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
    // The length is not trusted before the bytes are there.
    stream.take(length as u64).read_to_end(message)?;
    if message.len() == length { Ok(true) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

#[cfg(test)]
mod tests {
    use super::super::super::driver::Function;
    use super::*;

    fn requests() -> Vec<Request<'static>> {
        let shape = Shape { grid: [1, 2, 3], block: [4, 5, 6], shared: 7, cooperative: true };
        let arguments = vec![
            Argument::Address(Address(1 << 45)),
            Argument::Value { bytes: [0x0102_0304, 0, 0, 0], len: 4 },
            Argument::Value { bytes: [1, 2, 3, 4], len: 32 },
            Argument::Map(Map {
                address: Address(1 << 45),
                element: MapElement::Tf32,
                axes: 3,
                extents: [64, 3, 2, 1, 1],
                of_box: OfBox { extents: [64, 8, 1, 1, 1], steps: [1, 2, 1, 1, 1] },
            }),
        ];
        let launch = Launch { function: Function(3), shape, arguments: arguments.clone() };
        vec![
            Request::Keep { arena: 1, bytes: 1 << 40 },
            Request::Map { arena: 9, handle: Handle([7; 64]) },
            Request::Upload { to: Address(5), bytes: vec![1, 2, 3].into() },
            Request::Copy { to: Address(1), from: Address(2), bytes: 3 },
            Request::Load { module: 2, cubin: vec![0; 100].into() },
            Request::Function { function: 1, module: 2, name: "saxpy".into() },
            Request::Launch { function: 1, shape, arguments: arguments.into() },
            Request::Graph { graph: 4, launches: vec![launch.clone(), launch.clone()].into() },
            Request::RunGraph { graph: 4, changes: vec![(1, Cow::Owned(launch))] },
            Request::Poke { words: Words { first: Address(8), pitch: 4, count: 2 }, value: 1 },
            Request::Synchronize,
        ]
    }

    #[test]
    fn messages_come_out_as_they_went_in() {
        for request in requests() {
            let message = request.encode();
            assert_eq!(message.len() - 4, u32::from_le_bytes(message[..4].try_into().unwrap()) as usize);
            assert_eq!(Request::decode(&message[4..]), Ok(request));
        }
        let refusal = Refusal { call: "cuMemAlloc".into(), code: 2, name: "CUDA_ERROR_OUT_OF_MEMORY".into() };
        let properties = Properties { name: "a GPU".into(), memory: 1 << 37, grid: [1, 2, 3], ..Properties::default() };
        for reply in [
            Reply::Done,
            Reply::Properties(Box::new(properties)),
            Reply::Handle(Handle([1; 64])),
            Reply::Milliseconds(0.25),
            Reply::Bytes(vec![1, 2]),
            Reply::Refused(refusal),
        ] {
            assert_eq!(Reply::decode(&reply.encode()[4..]), Ok(reply));
        }
    }

    /// Messages that are truncated, too long, or have one byte changed are rejected or parse as another message, and nothing
    /// panics.
    #[test]
    fn damaged_messages_are_refused() {
        let replies = [Reply::Bytes(vec![1, 2, 3]), Reply::Absent("none".into()), Reply::Number(5)];
        let whole = requests().iter().map(Request::encode).chain(replies.iter().map(Reply::encode)).collect::<Vec<_>>();
        for message in whole {
            let body = &message[4..];
            for cut in 0..body.len() {
                assert!(Request::decode(&body[..cut]).is_err() || Reply::decode(&body[..cut]).is_err());
            }
            for at in 0..body.len() {
                for value in [0, 1, 0x7f, 0xff] {
                    let mut changed = body.to_vec();
                    changed[at] = value;
                    let _ = (Request::decode(&changed), Reply::decode(&changed));
                }
            }
        }
        assert_eq!(Reply::decode(&[8, 255, 255, 255, 255, 1]), Err(Malformed));
        assert_eq!(Reply::decode(&[1, 0]), Err(Malformed));
    }

    #[test]
    fn a_length_is_not_believed() {
        let mut message = Vec::new();
        let huge = [255, 255, 255, 255, 1];
        assert!(read(&mut &huge[..], MAX_REPLY, &mut message).is_err());
        let short = [9, 0, 0, 0, 1];
        assert!(read(&mut &short[..], MAX_REPLY, &mut message).is_err());
        assert!(!read(&mut &[][..], MAX_REPLY, &mut message).unwrap());
    }
}
