//! NCCL: collective operations between the GPUs of several processes, on one node or several.
//!
//! Input: arrays in GPU memory and a group of processes. Output: arrays in GPU memory, written on the context's stream.
//! The app passes candidate locations of the library. The library is opened when a group is formed; a missing library
//! is an error only then.
//!
//! Integer sums and products do not use NCCL, because NCCL does not detect overflow. The order in which NCCL adds
//! floats is unspecified.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use libloading::Library;

use super::context::GpuContext;
use super::driver::{DevicePtr, nvidia};
use super::memory::{make_readable, make_writable};
use clk_runtime::DeviceError;
use clk_runtime::exchange::{
    CollectiveDevice, CollectiveError, CollectiveReduction, CommunicatorDevice, DeviceCollective, ENDED, ExchangeGuard,
};
use clk_runtime::storage::Storage;
use clk_scalar::Scalar;

type NcclStatus = c_int;
type Comm = *mut c_void;
type NcclStream = *mut c_void;

/// NCCL's identifier of a new group.
#[repr(C)]
#[derive(Clone, Copy)]
struct NcclId([u8; ID]);

const ID: usize = 128;
const SUCCESS: NcclStatus = 0;

/// The functions of the library that Clk calls, named without the prefix `nccl`.
struct NcclFunctions {
    unique_id: unsafe extern "C" fn(*mut NcclId) -> NcclStatus,
    init: unsafe extern "C" fn(*mut Comm, c_int, NcclId, c_int) -> NcclStatus,
    abort: unsafe extern "C" fn(Comm) -> NcclStatus,
    error: unsafe extern "C" fn(NcclStatus) -> *const c_char,
    all_reduce: unsafe extern "C" fn(*const c_void, *mut c_void, usize, c_int, c_int, Comm, NcclStream) -> NcclStatus,
    reduce_scatter:
        unsafe extern "C" fn(*const c_void, *mut c_void, usize, c_int, c_int, Comm, NcclStream) -> NcclStatus,
    all_gather: unsafe extern "C" fn(*const c_void, *mut c_void, usize, c_int, Comm, NcclStream) -> NcclStatus,
    broadcast: unsafe extern "C" fn(*const c_void, *mut c_void, usize, c_int, c_int, Comm, NcclStream) -> NcclStatus,
}

/// Why NCCL cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NcclError {
    /// `tried` is empty, or the error for the first library in parentheses.
    #[error("NCCL is not found{tried}; `pip install nvidia-nccl-cu12` brings it, `CLK_NCCL` names it")]
    NotFound { tried: String },
    #[error("{call} says: {message}")]
    Call { call: &'static str, message: String },
    #[error("its kernels run in a process of their own")]
    IsolatedGpu,
    #[error("its place is not known")]
    UnknownPlace,
    #[error("a ticket of NCCL has 128 bytes")]
    Ticket,
    #[error(transparent)]
    Gpu(#[from] DeviceError),
}

impl From<NcclError> for CollectiveError {
    fn from(error: NcclError) -> CollectiveError {
        CollectiveError::Library(error.into())
    }
}

/// The NCCL library, which has been opened.
pub(crate) struct Nccl {
    functions: NcclFunctions,
    /// Keeps the library loaded, so that the functions remain valid.
    _library: Library,
}

impl Nccl {
    /// Opens the first of these libraries that can be loaded.
    fn open(places: &[PathBuf]) -> Result<Nccl, NcclError> {
        let mut first = None;
        for place in places {
            // SAFETY: loading NCCL runs only its initializers.
            match unsafe { Library::new(place) }.and_then(|library| Ok((functions(&library)?, library))) {
                Ok((functions, library)) => return Ok(Nccl { functions, _library: library }),
                Err(error) => drop(first.get_or_insert(error)),
            }
        }
        Err(NcclError::NotFound { tried: first.map_or(String::new(), |error| format!(" ({error})")) })
    }

    fn check(&self, call: &'static str, status: NcclStatus) -> Result<(), NcclError> {
        if status == SUCCESS {
            return Ok(());
        }
        // SAFETY: for every number, the library returns a string that it owns.
        let message = unsafe {
            let text = (self.functions.error)(status);
            if text.is_null() { "an error".into() } else { CStr::from_ptr(text).to_string_lossy().into_owned() }
        };
        Err(NcclError::Call { call, message })
    }
}

fn functions(library: &Library) -> Result<NcclFunctions, libloading::Error> {
    // SAFETY: the types are those in the library's header, which have not changed since version 2.4.
    unsafe {
        Ok(NcclFunctions {
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

/// Returns NCCL's number for a type, or `None` if NCCL does not support the type.
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

fn op_number(how: CollectiveReduction) -> c_int {
    match how {
        CollectiveReduction::Sum => 0,
        CollectiveReduction::Prod => 1,
        CollectiveReduction::Max => 2,
        CollectiveReduction::Min => 3,
    }
}

/// A GPU that can join a group.
pub(crate) struct NcclDevice {
    context: Arc<GpuContext>,
    nccl: Arc<Nccl>,
    identity: String,
}

impl NcclDevice {
    pub fn new(context: &Arc<GpuContext>, places: &[PathBuf]) -> Result<NcclDevice, NcclError> {
        if context.driver()?.stream().is_none() {
            return Err(NcclError::IsolatedGpu);
        }
        let place = nvidia::identity(context.properties.ordinal).ok_or(NcclError::UnknownPlace)?;
        let identity = format!("{}/{place}", context.settings.machine);
        Ok(NcclDevice { context: context.clone(), nccl: Arc::new(Nccl::open(places)?), identity })
    }
}

impl CollectiveDevice for NcclDevice {
    fn identity(&self) -> String {
        self.identity.clone()
    }

    fn ticket(&self) -> Result<Vec<u8>, CollectiveError> {
        let mut id = NcclId([0; ID]);
        // SAFETY: the buffer has the size of an identifier.
        self.nccl.check("ncclGetUniqueId", unsafe { (self.nccl.functions.unique_id)(&mut id) })?;
        Ok(id.0.to_vec())
    }

    fn join(
        &self,
        ticket: &[u8],
        rank: u32,
        ranks: u32,
        guard: ExchangeGuard,
    ) -> Result<Arc<dyn CommunicatorDevice>, CollectiveError> {
        let id = NcclId(ticket.try_into().map_err(|_| NcclError::Ticket)?);
        self.context.enter().map_err(NcclError::from)?;
        let mut comm: Comm = std::ptr::null_mut();
        // SAFETY: the GPU's context is current on this thread, and `comm` receives the communicator.
        let status = unsafe { (self.nccl.functions.init)(&mut comm, ranks as c_int, id, rank as c_int) };
        self.context.enter().map_err(NcclError::from)?;
        self.nccl.check("ncclCommInitRank", status)?;
        self.context.set_exchange_guard(guard);
        let nccl = self.nccl.clone();
        let comm = Communicator::new(comm as usize, move |comm| {
            // SAFETY: the library created the communicator, and no other call uses it any more.
            let _ = unsafe { (nccl.functions.abort)(comm as Comm) };
        });
        Ok(Arc::new(NcclMember { context: self.context.clone(), nccl: self.nccl.clone(), comm, ranks }))
    }
}

/// A GPU that has joined a group.
struct NcclMember {
    context: Arc<GpuContext>,
    nccl: Arc<Nccl>,
    comm: Communicator,
    ranks: u32,
}

/// An NCCL communicator that one thread may abort while other threads call NCCL with it. `ncclCommAbort` frees the
/// communicator, so the last of these calls that returns calls it.
struct Communicator {
    comm: usize,
    state: Mutex<CommState>,
    abort: Box<dyn Fn(usize) + Send + Sync>,
}

#[derive(Default)]
struct CommState {
    /// Number of calls in progress that use the communicator.
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

    /// Calls `call` with the communicator. Returns `None` if the communicator has been aborted.
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

    /// Aborts the communicator: immediately, or when the last call in progress returns.
    fn abort(&self) {
        let is_unused = {
            let mut state = self.state();
            !std::mem::replace(&mut state.aborted, true) && state.calls == 0
        };
        if is_unused {
            (self.abort)(self.comm);
        }
    }
}

impl CommunicatorDevice for NcclMember {
    fn can_reduce(&self, how: CollectiveReduction, scalar: Scalar) -> bool {
        let wraps = scalar.is_int() && matches!(how, CollectiveReduction::Sum | CollectiveReduction::Prod);
        // NCCL does not specify the minimum and maximum if an operand is NaN.
        let unclear = scalar.is_float() && matches!(how, CollectiveReduction::Min | CollectiveReduction::Max);
        type_number(scalar).is_some() && !wraps && !unclear
    }

    fn exchange(&self, what: DeviceCollective, from: &Storage, into: &mut Storage) -> Result<(), DeviceError> {
        let context = &self.context;
        context.flush()?;
        let source = make_readable(from, context)?;
        let target = make_writable(into, context, true)?;
        let broken = |why: String| DeviceError::Unavailable { device: context.name.clone(), why };
        context.enter()?;
        let stream =
            context.driver()?.stream().ok_or_else(|| broken("it has no stream of this process".into()))? as NcclStream;
        let (read, write) = (pointer(source.address()), pointer(target.address()));
        let (bytes, functions) = (from.len(), &self.nccl.functions);
        let number = match what {
            DeviceCollective::AllReduce(_, scalar) | DeviceCollective::ReduceScatter(_, scalar) => {
                type_number(scalar).ok_or_else(|| broken("NCCL has no such type".into()))?
            }
            DeviceCollective::AllGather | DeviceCollective::Broadcast { .. } => BYTES,
        };
        let called = self.comm.with(|comm| {
            context.note_exchange();
            let comm = comm as Comm;
            // SAFETY: the sizes of both arrays match the counts, and the arrays are freed after this operation on the
            // same stream. The communicator belongs to this GPU and is not freed during the call.
            unsafe {
                match what {
                    DeviceCollective::AllReduce(how, scalar) => {
                        let count = bytes / scalar.size();
                        let status = (functions.all_reduce)(read, write, count, number, op_number(how), comm, stream);
                        ("ncclAllReduce", status)
                    }
                    DeviceCollective::ReduceScatter(how, scalar) => {
                        let count = bytes / scalar.size() / self.ranks as usize;
                        let status =
                            (functions.reduce_scatter)(read, write, count, number, op_number(how), comm, stream);
                        ("ncclReduceScatter", status)
                    }
                    DeviceCollective::AllGather => {
                        ("ncclAllGather", (functions.all_gather)(read, write, bytes, number, comm, stream))
                    }
                    DeviceCollective::Broadcast { from } => (
                        "ncclBroadcast",
                        (functions.broadcast)(read, write, bytes, number, from as c_int, comm, stream),
                    ),
                }
            }
        });
        let (call, status) = called.ok_or_else(|| broken(ENDED.into()))?;
        context.enter()?;
        self.nccl.check(call, status).map_err(|error| broken(error.to_string()))
    }

    fn abort(&self) {
        self.comm.abort();
    }
}

fn pointer(address: DevicePtr) -> *mut c_void {
    address.0 as *mut c_void
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_library_is_reported() {
        let why = Nccl::open(&["/nowhere/libnccl.so.2".into()]).err().expect("it is not there").to_string();
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
