//! A fake GPU that several processes share: its memory is shared memory, and a kernel is a function selected by name.

pub mod starter;

use std::collections::HashMap;
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use clk_cuda::driver::*;
use clk_cuda::isolate::{self, IpcHandle, Opener, Shareable};
use clk_runtime::import::ForeignStream;
use clk_runtime::worker_process::{self, SharedSegment};

/// Environment variable that tells a child process its role and the descriptor of the shared memory, such as `worker
/// 7`.
pub const VARIABLE: &str = "CLK_TEST_CHILD";
/// Size of the GPU's memory in bytes.
pub const MEMORY: u64 = 1 << 30;

/// Acts as a child process, in the role that [`VARIABLE`] names; returns at once if it is not set.
pub fn child() {
    let Ok(words) = std::env::var(VARIABLE) else { return };
    let (role, descriptor) = words.split_once(' ').expect("two words");
    // SAFETY: the parent passed on this descriptor.
    let segment = unsafe { OwnedFd::from_raw_fd(descriptor.parse().expect("a number")) };
    let socket = UnixStream::from(std::io::stdin().as_fd().try_clone_to_owned().expect("a socket"));
    // SAFETY: ends the process.
    worker_process::watch(&socket, || unsafe { libc::_exit(4) }).expect("watched");
    let served = match role {
        "early" => return,
        "keeper" => isolate::keep(&Fake, socket),
        _ => isolate::work(&Fake, socket, SharedSegment::open(segment).expect("a segment")),
    };
    served.expect("served");
}

pub struct Fake;

impl Opener for Fake {
    fn probe(&self) -> Result<Properties, GpuUnavailable> {
        Ok(Properties {
            name: "Fake".into(),
            architecture: 90,
            memory: MEMORY,
            multiprocessors: 4,
            shared_per_block: 227 << 10,
            grid: [i32::MAX as u32, 65535, 65535],
            ..Properties::default()
        })
    }

    fn open(&self, properties: Properties) -> DriverResult<Arc<dyn Shareable>> {
        Ok(Arc::new(Gpu { properties, state: Mutex::default() }))
    }
}

struct Gpu {
    properties: Properties,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    held: HashMap<u64, (u64, OwnedFd)>,
    mapped: HashMap<u64, u64>,
    functions: Vec<String>,
    graphs: Vec<Vec<DriverLaunch>>,
    /// Address of the word that an endless kernel polls.
    endless: Option<u64>,
    /// Addresses and values of words to write when the endless kernel ends.
    words: Vec<(u64, u32)>,
    lost: bool,
    events: usize,
}

fn refusal(call: &'static str, code: u32, name: &str) -> DriverError {
    DriverError { call: call.into(), code, name: name.into() }
}

/// Returns the word at an address of mapped memory.
fn word(address: u64) -> &'static AtomicU32 {
    // SAFETY: tests pass addresses of mapped memory, which stays mapped.
    unsafe { &*(address as *const AtomicU32) }
}

fn map(file: &impl AsRawFd, bytes: u64) -> u64 {
    // SAFETY: a new mapping of a file of this length.
    let memory = unsafe {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        libc::mmap(std::ptr::null_mut(), bytes as usize, access, libc::MAP_SHARED, file.as_raw_fd(), 0)
    };
    assert_ne!(memory, libc::MAP_FAILED);
    memory as u64
}

impl Gpu {
    /// Runs an operation on the state in stream order: first waits until a running endless kernel has ended.
    fn with<T>(&self, call: &'static str, run: impl FnOnce(&mut State) -> T) -> DriverResult<T> {
        loop {
            let mut state = self.state.lock().unwrap();
            if state.lost {
                return Err(refusal(call, 700, "CUDA_ERROR_ILLEGAL_ADDRESS"));
            }
            if !state.is_busy() {
                return Ok(run(&mut state));
            }
            drop(state);
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl State {
    fn is_busy(&mut self) -> bool {
        if self.endless.is_some_and(|address| word(address).load(Ordering::SeqCst) == 0) {
            return true;
        }
        self.endless = None;
        self.words.drain(..).for_each(|(address, value)| word(address).store(value, Ordering::SeqCst));
        false
    }

    fn launch(&mut self, function: DriverFunction, arguments: &[DriverArgument]) {
        let address = |k: usize| match arguments[k] {
            DriverArgument::Address(address) => address.0,
            DriverArgument::Value { .. } | DriverArgument::Map(_) => panic!("argument {k} is no address"),
        };
        let number = |k: usize| match arguments[k] {
            DriverArgument::Value { bytes, .. } => bytes[0] as u32,
            DriverArgument::Address(_) | DriverArgument::Map(_) => panic!("argument {k} is no number"),
        };
        match &*self.functions[function.0] {
            "add" => {
                let (first, value) = (address(0), number(2));
                (0..number(1).into()).for_each(|k: u64| {
                    word(first + 4 * k).fetch_add(value, Ordering::SeqCst);
                });
            }
            // A kernel that increments the first word of its first argument, an array, and ignores its other arguments.
            "bump" => {
                word(address(0)).fetch_add(1, Ordering::SeqCst);
            }
            // A kernel that increments the word whose address is stored in its argument.
            "follow" => {
                // SAFETY: as for [`word`].
                let target = unsafe { (address(0) as *const u64).read() };
                word(target).fetch_add(1, Ordering::SeqCst);
            }
            "hang" => self.endless = Some(address(0)),
            // SAFETY: ends the process, in two ways.
            "crash" => unsafe {
                libc::kill(libc::getpid(), libc::SIGKILL);
            },
            // SAFETY: as above.
            "exit" => unsafe { libc::_exit(3) },
            _ => self.lost = true,
        }
    }
}

impl Driver for Gpu {
    fn properties(&self) -> &Properties {
        &self.properties
    }
    fn allocate(&self, _: u64) -> DriverResult<DevicePtr> {
        Err(refusal("allocate", 801, "CUDA_ERROR_NOT_SUPPORTED"))
    }
    fn free(&self, _: DevicePtr) {}
    fn zero(&self, to: DevicePtr, bytes: u64) -> DriverResult {
        // SAFETY: the range is mapped.
        self.with("zero", |_| unsafe { std::ptr::write_bytes(to.0 as *mut u8, 0, bytes as usize) })
    }
    fn upload(&self, to: DevicePtr, bytes: &[u8]) -> DriverResult {
        // SAFETY: the range is mapped.
        self.with("upload", |_| unsafe { std::ptr::copy(bytes.as_ptr(), to.0 as *mut u8, bytes.len()) })
    }
    fn download(&self, from: DevicePtr, bytes: &mut [u8]) -> DriverResult {
        // SAFETY: the range is mapped.
        self.with("download", |_| unsafe { std::ptr::copy(from.0 as *const u8, bytes.as_mut_ptr(), bytes.len()) })
    }
    fn copy(&self, to: DevicePtr, from: DevicePtr, bytes: u64) -> DriverResult {
        // SAFETY: the ranges are mapped.
        self.with("copy", |_| unsafe { std::ptr::copy(from.0 as *const u8, to.0 as *mut u8, bytes as usize) })
    }
    fn copy_from_peer(&self, _: DevicePtr, _: Peer, _: u64, _: [StreamEvent; 2], _: StreamEvent) -> DriverResult {
        Err(refusal("copy", 801, "CUDA_ERROR_NOT_SUPPORTED"))
    }
    fn load(&self, _: &[u8]) -> DriverResult<DriverModule> {
        Ok(DriverModule(0))
    }
    fn unload(&self, _: DriverModule) {}
    fn function(&self, _: DriverModule, name: &str) -> DriverResult<DriverFunction> {
        let mut state = self.state.lock().unwrap();
        state.functions.push(name.to_string());
        Ok(DriverFunction(state.functions.len() - 1))
    }
    fn allow_shared(&self, _: DriverFunction, _: u32) -> DriverResult {
        Ok(())
    }
    fn static_shared(&self, _: DriverFunction) -> u32 {
        0
    }
    fn resident_blocks(&self, _: DriverFunction, _: u32, _: u32) -> DriverResult<u32> {
        Ok(1)
    }
    unsafe fn launch(&self, function: DriverFunction, _: &LaunchShape, arguments: &[DriverArgument]) -> DriverResult {
        self.with("launch", |state| state.launch(function, arguments))
    }
    unsafe fn graph(&self, launches: &[DriverLaunch]) -> DriverResult<Graph> {
        let mut state = self.state.lock().unwrap();
        state.graphs.push(launches.to_vec());
        Ok(Graph(state.graphs.len() - 1))
    }
    unsafe fn run_graph(&self, graph: Graph, changes: &[(usize, &DriverLaunch)]) -> DriverResult {
        self.with("graph", |state| {
            changes.iter().for_each(|(at, launch)| state.graphs[graph.0][*at] = (*launch).clone());
            for launch in state.graphs[graph.0].clone() {
                state.launch(launch.function, &launch.arguments);
            }
        })
    }
    fn forget_graph(&self, _: Graph) {}
    fn flag(&self) -> DriverResult<DevicePtr> {
        Err(refusal("flag", 801, "CUDA_ERROR_NOT_SUPPORTED"))
    }
    fn is_flag_set(&self) -> bool {
        false
    }
    fn clear_flag(&self) {}
    fn synchronize(&self) -> DriverResult {
        self.with("synchronize", |_| ())
    }
    fn is_idle(&self) -> DriverResult<bool> {
        Ok(!self.state.lock().unwrap().is_busy())
    }
    fn is_event_reached(&self, _: StreamEvent) -> DriverResult<bool> {
        self.is_idle()
    }
    fn write_words_now(&self, words: StridedWords, value: u32) -> DriverResult {
        (0..words.count).for_each(|k| word(words.first.0 + k * words.pitch).store(value, Ordering::SeqCst));
        Ok(())
    }
    fn memory(&self) -> DriverResult<(u64, u64)> {
        let used: u64 = self.state.lock().unwrap().held.values().map(|(bytes, _)| bytes).sum();
        Ok((MEMORY - used, MEMORY))
    }
    fn trim(&self) -> DriverResult {
        Ok(())
    }
    fn event(&self) -> DriverResult<StreamEvent> {
        let mut state = self.state.lock().unwrap();
        state.events += 1;
        Ok(StreamEvent(state.events))
    }
    fn record(&self, _: StreamEvent) -> DriverResult {
        Ok(())
    }
    fn elapsed(&self, _: StreamEvent, _: StreamEvent) -> DriverResult<f64> {
        self.with("elapsed", |_| 1.5)
    }
    fn forget_event(&self, _: StreamEvent) {}

    fn stream(&self) -> Option<usize> {
        None
    }

    fn can_overlap_uploads(&self) -> bool {
        false
    }

    fn upload_overlapped(&self, to: DevicePtr, bytes: &[u8], _: StreamEvent) -> DriverResult<StreamEvent> {
        self.upload(to, bytes)?;
        let done = self.event()?;
        self.record(done).map(|()| done)
    }

    fn wait_for_stream(&self, _: ForeignStream) -> DriverResult {
        Err(DriverError::not_supported("cuStreamWaitEvent"))
    }

    fn make_streams_wait_for_this(&self, _: &[ForeignStream]) -> DriverResult {
        self.synchronize()
    }

    unsafe fn lock(&self, _: &[u8]) -> DriverResult {
        Err(DriverError::not_supported("cuMemHostRegister"))
    }

    fn unlock(&self, _: usize) {}

    fn quiet(&self) -> DriverResult {
        self.synchronize()
    }

    fn wait(&self, _: StreamEvent) -> DriverResult {
        Ok(())
    }

    fn resolve(&self, address: DevicePtr) -> DriverResult<u64> {
        Ok(address.0)
    }

    fn hold(&self, _: &[(DevicePtr, DevicePtr)]) {}

    fn launched(&self) -> u64 {
        0
    }

    fn take_sticky_error(&self) -> Option<StickyError> {
        None
    }
}

impl Shareable for Gpu {
    fn allocate_shared(&self, bytes: u64) -> DriverResult<(DevicePtr, IpcHandle)> {
        let mut state = self.state.lock().unwrap();
        if state.held.values().map(|(bytes, _)| bytes).sum::<u64>() + bytes > MEMORY {
            return Err(refusal("cuMemAlloc", DriverError::OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY"));
        }
        // SAFETY: the name is a C string, and the descriptor is new.
        let file = File::from(unsafe { OwnedFd::from_raw_fd(libc::memfd_create(c"fake".as_ptr(), 0)) });
        file.set_len(bytes).expect("room");
        let mut handle = [0; 64];
        let text = format!("/proc/{}/fd/{} {bytes} ", std::process::id(), file.as_raw_fd());
        handle[..text.len()].copy_from_slice(text.as_bytes());
        let address = file.as_raw_fd() as u64;
        state.held.insert(address, (bytes, file.into()));
        Ok((DevicePtr(address), IpcHandle(handle)))
    }
    fn free_shared(&self, address: DevicePtr) {
        assert!(self.state.lock().unwrap().held.remove(&address.0).is_some(), "given back twice");
    }
    fn map(&self, handle: &IpcHandle) -> DriverResult<DevicePtr> {
        let text = String::from_utf8_lossy(&handle.0).into_owned();
        let (path, bytes) = text.split_once(' ').ok_or_else(|| refusal("map", 1, "CUDA_ERROR_INVALID_VALUE"))?;
        let bytes: u64 = bytes.split(' ').next().unwrap_or_default().parse().expect("a number");
        let file = File::options().read(true).write(true).open(path).expect("the keeper's memory");
        let address = map(&file, bytes);
        self.state.lock().unwrap().mapped.insert(address, bytes);
        Ok(DevicePtr(address))
    }
    fn unmap(&self, address: DevicePtr) {
        let bytes = self.state.lock().unwrap().mapped.remove(&address.0).expect("mapped");
        // SAFETY: the memory is no longer in use.
        unsafe { libc::munmap(address.0 as *mut _, bytes as usize) };
    }
    unsafe fn pin(&self, memory: *mut u8, _: usize) -> DriverResult<DevicePtr> {
        Ok(DevicePtr(memory as u64))
    }
    unsafe fn upload_pinned(&self, to: DevicePtr, from: *const u8, bytes: usize) -> DriverResult {
        // SAFETY: guaranteed by the caller.
        self.with("upload", |_| unsafe { std::ptr::copy(from, to.0 as *mut u8, bytes) })
    }
    unsafe fn download_pinned(&self, from: DevicePtr, to: *mut u8, bytes: usize) -> DriverResult {
        // SAFETY: guaranteed by the caller.
        self.with("download", |_| unsafe { std::ptr::copy(from.0 as *const u8, to, bytes) })
    }
    fn wait_for(&self, _: StreamEvent) -> DriverResult {
        self.synchronize()
    }
    fn write_word(&self, address: DevicePtr, value: u32) -> DriverResult {
        let mut state = self.state.lock().unwrap();
        if !state.lost {
            if state.is_busy() {
                state.words.push((address.0, value));
            } else {
                word(address.0).store(value, Ordering::SeqCst);
            }
        }
        Ok(())
    }
}
