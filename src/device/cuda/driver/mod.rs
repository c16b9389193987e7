//! What the run time asks of a GPU's driver: memory, copies, modules, launches, all in the order of one stream.
//!
//! The real driver is [`nvidia`]; tests have one whose memory is the host's.

pub(crate) mod nvidia;
pub(crate) mod pieces;

use std::borrow::Cow;

/// An address in the GPU's memory; 0 is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address(pub u64);

/// A loaded module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Module(pub usize);

/// An entry point of a module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Function(pub usize);

/// A point in the stream whose time is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event(pub usize);

/// A chain of launches that is started as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Graph(pub usize);

/// What a GPU is and has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Properties {
    /// As the driver calls it.
    pub name: String,
    /// The number in `gpu:N`.
    pub ordinal: u32,
    /// 90 for `sm_90`.
    pub architecture: u32,
    /// Bytes of memory.
    pub memory: u64,
    pub multiprocessors: u32,
    /// Bytes of shared memory that a block may have if it asks for it.
    pub shared_per_block: u32,
    /// The most blocks of a grid by axis.
    pub grid: [u32; 3],
    /// The driver's CUDA version: 13000 for 13.0.
    pub driver: u32,
}

/// How a launch is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    pub grid: [u32; 3],
    pub block: [u32; 3],
    /// Bytes of dynamic shared memory.
    pub shared: u32,
    /// All blocks run at once and may wait for each other.
    pub cooperative: bool,
}

/// One argument of a launch, as data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Argument {
    /// The first `len` bytes of these: a number, or the lanes of a vector side by side.
    Value { bytes: [u64; 4], len: u8 },
    /// In the GPU's memory, or 0 for none.
    Address(Address),
}

/// One launch, as data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launch {
    pub function: Function,
    pub shape: Shape,
    /// By position in the function's signature.
    pub arguments: Vec<Argument>,
}

/// Words of 32 bits in the GPU's memory, `pitch` bytes from one to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Words {
    pub first: Address,
    pub pitch: u64,
    pub count: u64,
}

/// A call that did not succeed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The driver's function.
    pub call: Cow<'static, str>,
    /// Its `CUresult`.
    pub code: u32,
    /// The result's name: `CUDA_ERROR_OUT_OF_MEMORY`.
    pub name: String,
}

impl Refusal {
    /// `CUDA_ERROR_OUT_OF_MEMORY`, after which everything works as before.
    pub const OUT_OF_MEMORY: u32 = 2;

    pub fn is_out_of_memory(&self) -> bool {
        self.code == Self::OUT_OF_MEMORY
    }

    /// Whether every call of this process to the GPU fails from now on: after an illegal address, a misaligned one, a failed
    /// assertion, a trap and their kin.
    pub fn is_lost(&self) -> bool {
        (700..=720).contains(&self.code) && ![701, 704, 705].contains(&self.code) || self.code == 999
    }
}

/// What came of a driver's loss where kernels run in a process of their own.
#[derive(Clone, Debug, PartialEq)]
pub struct Casualty {
    /// The launch that was running, if one was, by its number from 1 on.
    pub launch: Option<u64>,
    /// Launches behind it, which did not begin.
    pub waiting: usize,
    /// The user asked for its end.
    pub stopped: bool,
    /// Seconds until another process had taken the place of the lost one; none if that failed.
    pub replaced: Option<f64>,
    /// Why it failed.
    pub problem: Option<String>,
}

pub type Answer<T = ()> = Result<T, Refusal>;

/// One GPU. Operations happen one after the other in the order of the calls, but most calls return before.
pub trait Driver: Send + Sync {
    fn properties(&self) -> &Properties;

    /// Memory for so many bytes (more than 0), with whatever was in it.
    fn allocate(&self, bytes: u64) -> Answer<Address>;

    /// Gives memory back once all earlier operations are done with it.
    fn free(&self, address: Address);

    fn zero(&self, address: Address, bytes: u64) -> Answer;

    /// Copies to the GPU. The bytes may change as soon as the call returns.
    fn upload(&self, to: Address, bytes: &[u8]) -> Answer;

    /// Copies from the GPU after all earlier operations; returns when the bytes are there.
    fn download(&self, from: Address, bytes: &mut [u8]) -> Answer;

    /// Copies within the GPU's memory.
    fn copy(&self, to: Address, from: Address, bytes: u64) -> Answer;

    /// Copies from the memory of another GPU; returns when the bytes are there.
    fn copy_from_peer(&self, to: Address, peer: u32, from: Address, bytes: u64) -> Answer;

    /// Loads machine code.
    fn load(&self, cubin: &[u8]) -> Answer<Module>;

    fn unload(&self, module: Module);

    /// An entry point, allowed to have so much dynamic shared memory.
    fn function(&self, module: Module, name: &str) -> Answer<Function>;

    /// Lets a function have more dynamic shared memory than the 48 KiB that all have.
    fn allow_shared(&self, function: Function, bytes: u32) -> Answer;

    /// Bytes of shared memory that a function has without dynamic ones.
    fn static_shared(&self, function: Function) -> u32;

    /// How many blocks can run at once on the whole GPU: the limit of cooperative launches.
    fn resident_blocks(&self, function: Function, threads: u32, shared: u32) -> Answer<u32>;

    /// Starts a kernel.
    ///
    /// # Safety
    /// The arguments are as many as the kernel has, and each is of its parameter's size; addresses among them belong to memory
    /// that is not given back before this call returns.
    unsafe fn launch(&self, function: Function, shape: &Shape, arguments: &[Argument]) -> Answer;

    /// Makes a chain of launches, each of which begins when the one before has ended; none of them is cooperative.
    ///
    /// # Safety
    /// As [`Driver::launch`], for as long as the graph is run.
    unsafe fn graph(&self, launches: &[Launch]) -> Answer<Graph>;

    /// Starts a graph whose launches at these positions are others from now on, of the same functions. Runs that were started
    /// before keep theirs.
    ///
    /// # Safety
    /// As [`Driver::graph`].
    unsafe fn run_graph(&self, graph: Graph, changes: &[(usize, &Launch)]) -> Answer;

    /// Runs that were started go on to their end.
    fn forget_graph(&self, graph: Graph);

    /// A word of this process's memory that kernels can write: its address for them. It is 0 until one of them does.
    fn flag(&self) -> Answer<Address>;

    /// Whether a kernel wrote the flag: always known once a wait is over, and earlier as a rule. Asking costs nothing.
    fn is_flag_up(&self) -> bool;

    /// Makes the flag 0 again.
    fn lower_flag(&self);

    /// Waits for everything under way, and says whether something went wrong.
    fn synchronize(&self) -> Answer;

    /// Whether nothing is under way.
    fn is_idle(&self) -> Answer<bool>;

    /// Whether everything before a recorded event is done.
    fn is_reached(&self, event: Event) -> Answer<bool>;

    /// Writes a number to words now, whatever is under way; [`Driver::flag`] was called before that began.
    fn poke(&self, words: Words, value: u32) -> Answer;

    /// Free and total bytes.
    fn memory(&self) -> Answer<(u64, u64)>;

    /// Returns unused memory that the pool holds to the system. Waits.
    fn trim(&self) -> Answer;

    fn event(&self) -> Answer<Event>;

    fn record(&self, event: Event) -> Answer;

    /// Milliseconds between two recorded events; waits for the second.
    fn elapsed(&self, from: Event, to: Event) -> Answer<f64>;

    fn forget_event(&self, event: Event);

    /// An address as kernels find it in memory, where nobody translates it as is done for arguments of launches.
    fn resolve(&self, address: Address) -> Answer<u64> {
        Ok(address.0)
    }

    /// Says that memory holds resolved addresses at these places, which are to be right as long as the memory is not given back.
    fn hold(&self, _addresses: &[(Address, Address)]) {}

    /// How many launches there were, graphs included, where that is kept to tell which of them was lost.
    fn launched(&self) -> u64 {
        0
    }

    /// What the last loss did, once, where the driver works on after it.
    fn take_casualty(&self) -> Option<Casualty> {
        None
    }
}
