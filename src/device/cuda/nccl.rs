//! NCCL: exchanges arrays between GPUs of several processes, on one node or several.
//!
//! Input: arrays in GPU memory and a group of processes. Output: arrays in GPU memory, written on the context's stream. The library is
//! opened when a group is formed; the app says where it may be, and a machine without it is no error here.
//!
//! Sums and products of integers are not NCCL's, which would wrap them; floats are added in an order of NCCL's own.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use libloading::Library;

use super::context::Context;
use super::driver::{Address, nvidia};
use super::memory::{for_reading, for_writing};
use crate::device::DeviceError;
use crate::device::exchange::{Combine, ENDED, Exchange, Exchanged, Guard, Joined};
use crate::device::storage::Storage;
use crate::lang::scalar::Scalar;

type Status = c_int;
type Comm = *mut c_void;
type Stream = *mut c_void;

/// The name of a new group.
#[repr(C)]
#[derive(Clone, Copy)]
struct Id([u8; ID]);

const ID: usize = 128;
const SUCCESS: Status = 0;

/// The functions of the library that are used, named without the prefix `nccl`.
struct Functions {
    unique_id: unsafe extern "C" fn(*mut Id) -> Status,
    init: unsafe extern "C" fn(*mut Comm, c_int, Id, c_int) -> Status,
    abort: unsafe extern "C" fn(Comm) -> Status,
    error: unsafe extern "C" fn(Status) -> *const c_char,
    all_reduce: unsafe extern "C" fn(*const c_void, *mut c_void, usize, c_int, c_int, Comm, Stream) -> Status,
    reduce_scatter: unsafe extern "C" fn(*const c_void, *mut c_void, usize, c_int, c_int, Comm, Stream) -> Status,
    all_gather: unsafe extern "C" fn(*const c_void, *mut c_void, usize, c_int, Comm, Stream) -> Status,
    broadcast: unsafe extern "C" fn(*const c_void, *mut c_void, usize, c_int, c_int, Comm, Stream) -> Status,
}

/// The open library.
pub(crate) struct Nccl {
    functions: Functions,
    /// Holds the functions.
    _library: Library,
}

impl Nccl {
    /// Opens the first of these that is there.
    fn open(places: &[PathBuf]) -> Result<Nccl, String> {
        let mut first = None;
        for place in places {
            // SAFETY: loading NCCL runs its initializers only.
            match unsafe { Library::new(place) }.and_then(|library| Ok((functions(&library)?, library))) {
                Ok((functions, library)) => return Ok(Nccl { functions, _library: library }),
                Err(error) => drop(first.get_or_insert(error)),
            }
        }
        let tried = first.map_or(String::new(), |error| format!(" ({error})"));
        Err(format!("NCCL is not found{tried}; `pip install nvidia-nccl-cu12` brings it, `CLK_NCCL` names it"))
    }

    fn said(&self, call: &str, status: Status) -> Result<(), String> {
        if status == SUCCESS {
            return Ok(());
        }
        // SAFETY: the library returns a text that it owns for every number.
        let text = unsafe {
            let text = (self.functions.error)(status);
            if text.is_null() { "an error".into() } else { CStr::from_ptr(text).to_string_lossy().into_owned() }
        };
        Err(format!("{call} says: {text}"))
    }
}

fn functions(library: &Library) -> Result<Functions, libloading::Error> {
    // SAFETY: the types are those of the library's header, which has kept them since version 2.4.
    unsafe {
        Ok(Functions {
            unique_id: *library.get(b"ncclGetUniqueId\0")?,
            init: *library.get(b"ncclCommInitRank\0")?,
            abort: *library.get(b"ncclCommAbort\0")?,
            error: *library.get(b"ncclGetErrorString\0")?,
            all_reduce: *library.get(b"ncclAllReduce\0")?,
            reduce_scatter: *library.get(b"ncclReduceScatter\0")?,
            all_gather: *library.get(b"ncclAllGather\0")?,
            broadcast: *library.get(b"ncclBroadcast\0")?,
        })
    }
}

/// Returns the library's number of a type; `None` for those that it does not have.
fn type_number(scalar: Scalar) -> Option<c_int> {
    Some(match scalar {
        Scalar::I8 => 0,
        Scalar::U8 => 1,
        Scalar::I32 => 2,
        Scalar::U32 => 3,
        Scalar::I64 => 4,
        Scalar::U64 => 5,
        Scalar::F16 => 6,
        Scalar::F32 => 7,
        Scalar::F64 => 8,
        Scalar::Bf16 => 9,
        Scalar::Bool | Scalar::I16 | Scalar::U16 => return None,
    })
}

const BYTES: c_int = 1;

fn op_number(how: Combine) -> c_int {
    match how {
        Combine::Sum => 0,
        Combine::Prod => 1,
        Combine::Max => 2,
        Combine::Min => 3,
    }
}

/// A GPU that can join others.
pub(crate) struct Ready {
    context: Arc<Context>,
    nccl: Arc<Nccl>,
    identity: String,
}

impl Ready {
    pub fn new(context: &Arc<Context>, places: &[PathBuf]) -> Result<Ready, String> {
        let driver = context.driver().map_err(|error| error.to_string())?;
        if driver.stream().is_none() {
            return Err("its kernels run in a process of their own".into());
        }
        let place = nvidia::identity(context.properties.ordinal).ok_or("its place is not known")?;
        let identity = format!("{}/{place}", context.settings.machine);
        Ok(Ready { context: context.clone(), nccl: Arc::new(Nccl::open(places)?), identity })
    }
}

impl Exchange for Ready {
    fn identity(&self) -> String {
        self.identity.clone()
    }

    fn ticket(&self) -> Result<Vec<u8>, String> {
        let mut id = Id([0; ID]);
        // SAFETY: there is room for an id.
        self.nccl.said("ncclGetUniqueId", unsafe { (self.nccl.functions.unique_id)(&mut id) })?;
        Ok(id.0.to_vec())
    }

    fn join(&self, ticket: &[u8], rank: u32, ranks: u32, guard: Guard) -> Result<Arc<dyn Joined>, String> {
        let id = Id(ticket.try_into().map_err(|_| "a ticket of NCCL has 128 bytes".to_string())?);
        self.context.enter()?;
        let mut comm: Comm = std::ptr::null_mut();
        // SAFETY: the GPU's context is current on this thread, `comm` is a pointer.
        let status = unsafe { (self.nccl.functions.init)(&mut comm, ranks as c_int, id, rank as c_int) };
        self.context.enter()?;
        self.nccl.said("ncclCommInitRank", status)?;
        self.context.guard_by(guard);
        let nccl = self.nccl.clone();
        let comm = Communicator::new(comm as usize, move |comm| {
            // SAFETY: the library made the communicator, and no call uses it any more.
            let _ = unsafe { (nccl.functions.abort)(comm as Comm) };
        });
        Ok(Arc::new(Member { context: self.context.clone(), nccl: self.nccl.clone(), comm, ranks }))
    }
}

/// A GPU in a group.
struct Member {
    context: Arc<Context>,
    nccl: Arc<Nccl>,
    comm: Communicator,
    ranks: u32,
}

/// A communicator of NCCL that one thread may abort while others call NCCL with it. `ncclCommAbort` frees it, so the last of
/// these calls to return does that.
struct Communicator {
    comm: usize,
    state: Mutex<CommState>,
    abort: Box<dyn Fn(usize) + Send + Sync>,
}

#[derive(Default)]
struct CommState {
    /// Calls in progress.
    calls: u32,
    aborted: bool,
}

impl Communicator {
    fn new(comm: usize, abort: impl Fn(usize) + Send + Sync + 'static) -> Communicator {
        Communicator { comm, state: Mutex::default(), abort: Box::new(abort) }
    }

    fn state(&self) -> MutexGuard<'_, CommState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls `call` with the communicator; returns `None` if it has been aborted.
    fn with<R>(&self, call: impl FnOnce(usize) -> R) -> Option<R> {
        {
            let mut state = self.state();
            if state.aborted {
                return None;
            }
            state.calls += 1;
        }
        let result = call(self.comm);
        let last = {
            let mut state = self.state();
            state.calls -= 1;
            state.aborted && state.calls == 0
        };
        if last {
            (self.abort)(self.comm);
        }
        Some(result)
    }

    /// Aborts the communicator: at once, or when the last call in progress returns.
    fn abort(&self) {
        let now = {
            let mut state = self.state();
            !std::mem::replace(&mut state.aborted, true) && state.calls == 0
        };
        if now {
            (self.abort)(self.comm);
        }
    }
}

impl Joined for Member {
    fn combines(&self, how: Combine, scalar: Scalar) -> bool {
        let wraps = scalar.is_int() && matches!(how, Combine::Sum | Combine::Prod);
        // What a least float is among NaN, NCCL does not say.
        let unclear = scalar.is_float() && matches!(how, Combine::Min | Combine::Max);
        type_number(scalar).is_some() && !wraps && !unclear
    }

    fn exchange(&self, what: Exchanged, from: &Storage, into: &mut Storage) -> Result<(), DeviceError> {
        let context = &self.context;
        context.flush()?;
        let source = for_reading(from, context)?;
        let target = for_writing(into, context, true)?;
        let broken = |why: String| DeviceError::Unavailable { device: context.name.clone(), why };
        context.enter().map_err(broken)?;
        let stream =
            context.driver()?.stream().ok_or_else(|| broken("it has no stream of this process".into()))? as Stream;
        let (read, write) = (pointer(source.address()), pointer(target.address()));
        let (bytes, functions) = (from.len(), &self.nccl.functions);
        let number = match what {
            Exchanged::AllReduce(_, scalar) | Exchanged::ReduceScatter(_, scalar) => {
                type_number(scalar).ok_or_else(|| broken("NCCL has no such type".into()))?
            }
            Exchanged::AllGather | Exchanged::Broadcast { .. } => BYTES,
        };
        let called = self.comm.with(|comm| {
            context.exchanged();
            let comm = comm as Comm;
            // SAFETY: both arrays have as many bytes as the counts say, and are freed after this operation on the same stream. The
            // communicator is this GPU's, and is not freed during the call.
            unsafe {
                match what {
                    Exchanged::AllReduce(how, scalar) => {
                        let count = bytes / scalar.size();
                        let status = (functions.all_reduce)(read, write, count, number, op_number(how), comm, stream);
                        ("ncclAllReduce", status)
                    }
                    Exchanged::ReduceScatter(how, scalar) => {
                        let count = bytes / scalar.size() / self.ranks as usize;
                        let status =
                            (functions.reduce_scatter)(read, write, count, number, op_number(how), comm, stream);
                        ("ncclReduceScatter", status)
                    }
                    Exchanged::AllGather => {
                        ("ncclAllGather", (functions.all_gather)(read, write, bytes, number, comm, stream))
                    }
                    Exchanged::Broadcast { from } => (
                        "ncclBroadcast",
                        (functions.broadcast)(read, write, bytes, number, from as c_int, comm, stream),
                    ),
                }
            }
        });
        let (call, status) = called.ok_or_else(|| broken(ENDED.into()))?;
        context.enter().map_err(broken)?;
        self.nccl.said(call, status).map_err(broken)
    }

    fn abort(&self) {
        self.comm.abort();
    }
}

fn pointer(address: Address) -> *mut c_void {
    address.0 as *mut c_void
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_library_is_said() {
        let why = Nccl::open(&["/nowhere/libnccl.so.2".into()]).err().expect("it is not there");
        assert!(why.contains("NCCL is not found") && why.contains("CLK_NCCL"), "{why}");
    }

    #[test]
    fn a_communicator_in_use_is_aborted_by_its_last_call() {
        let aborts = Arc::new(Mutex::new(Vec::new()));
        let log = aborts.clone();
        let comm = Communicator::new(7, move |comm| log.lock().unwrap().push(comm));
        let inner = comm.with(|outer| {
            comm.abort();
            comm.abort();
            assert!(aborts.lock().unwrap().is_empty(), "it is in use");
            assert!(comm.with(|_| ()).is_none(), "no further call begins");
            outer
        });
        assert_eq!((inner, &*aborts.lock().unwrap()), (Some(7), &vec![7]));
        comm.abort();
        assert_eq!(aborts.lock().unwrap().len(), 1, "it is aborted once");
        let unused = aborts.clone();
        Communicator::new(8, move |comm| unused.lock().unwrap().push(comm)).abort();
        assert_eq!(*aborts.lock().unwrap(), [7, 8]);
    }

    #[test]
    fn every_type_has_its_own_number() {
        let numbers: Vec<c_int> = Scalar::ALL.iter().filter_map(|&scalar| type_number(scalar)).collect();
        let distinct: std::collections::BTreeSet<c_int> = numbers.iter().copied().collect();
        assert_eq!((numbers.len(), distinct.len()), (10, 10));
    }
}
