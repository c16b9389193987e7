//! A fake GPU that several processes share: its memory is shared memory, and a kernel is a function selected by name.

pub mod starter;

use std::collections::HashMap;
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use clk_lang::device::cuda::driver::*;
use clk_lang::device::cuda::isolate::{self, Handle, Opener, Segment, Shareable};

/// Environment variable that tells a child process its role: `worker 0 7`.
pub const VARIABLE: &str = "CLK_TEST_CHILD";
/// Size of the GPU's memory in bytes.
pub const MEMORY: u64 = 1 << 30;

/// Runs the role of a child process.
pub fn child() {
    let Ok(words) = std::env::var(VARIABLE) else { return };
    let (role, descriptor) = words.split_once(' ').expect("two words");
    // SAFETY: the parent passed on this descriptor.
    let segment = unsafe { OwnedFd::from_raw_fd(descriptor.parse().expect("a number")) };
    let socket = UnixStream::from(std::io::stdin().as_fd().try_clone_to_owned().expect("a socket"));
    // SAFETY: ends the process.
    isolate::watch(&socket, || unsafe { libc::_exit(4) }).expect("watched");
    let served = match role {
        "early" => return,
        "keeper" => isolate::keep(&Fake, socket),
        _ => isolate::work(&Fake, socket, Segment::open(segment).expect("a segment")),
    };
    served.expect("served");
}

pub struct Fake;

impl Opener for Fake {
    fn probe(&self) -> Result<Properties, String> {
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

    fn open(&self, properties: Properties) -> Answer<Arc<dyn Shareable>> {
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
    graphs: Vec<Vec<Launch>>,
    /// Address of the word that an endless kernel polls.
    endless: Option<u64>,
    /// Words to be written when it ends.
    words: Vec<(u64, u32)>,
    lost: bool,
    events: usize,
}

fn refusal(call: &'static str, code: u32, name: &str) -> Refusal {
    Refusal { call: call.into(), code, name: name.into() }
}

/// Returns a word of mapped memory.
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
    /// Runs an operation on the state in stream order: it waits for an endless kernel to end.
    fn with<T>(&self, call: &'static str, run: impl FnOnce(&mut State) -> T) -> Answer<T> {
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

    fn launch(&mut self, function: Function, arguments: &[Argument]) {
        let address = |k: usize| match arguments[k] {
            Argument::Address(address) => address.0,
            Argument::Value { .. } | Argument::Map(_) => panic!("argument {k} is no address"),
        };
        let number = |k: usize| match arguments[k] {
            Argument::Value { bytes, .. } => bytes[0] as u32,
            Argument::Address(_) | Argument::Map(_) => panic!("argument {k} is no number"),
        };
        match &*self.functions[function.0] {
            "add" => {
                let (first, value) = (address(0), number(2));
                (0..number(1).into()).for_each(|k: u64| {
                    word(first + 4 * k).fetch_add(value, Ordering::SeqCst);
                });
            }
            // A kernel whose first argument is an array; nothing is known about the others.
            "bump" => {
                word(address(0)).fetch_add(1, Ordering::SeqCst);
            }
            // Increments the word that an address in memory points to.
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
    fn allocate(&self, _: u64) -> Answer<Address> {
        Err(refusal("allocate", 801, "CUDA_ERROR_NOT_SUPPORTED"))
    }
    fn free(&self, _: Address) {}
    fn zero(&self, to: Address, bytes: u64) -> Answer {
        // SAFETY: the range is mapped.
        self.with("zero", |_| unsafe { std::ptr::write_bytes(to.0 as *mut u8, 0, bytes as usize) })
    }
    fn upload(&self, to: Address, bytes: &[u8]) -> Answer {
        // SAFETY: the range is mapped.
        self.with("upload", |_| unsafe { std::ptr::copy(bytes.as_ptr(), to.0 as *mut u8, bytes.len()) })
    }
    fn download(&self, from: Address, bytes: &mut [u8]) -> Answer {
        // SAFETY: the range is mapped.
        self.with("download", |_| unsafe { std::ptr::copy(from.0 as *const u8, bytes.as_mut_ptr(), bytes.len()) })
    }
    fn copy(&self, to: Address, from: Address, bytes: u64) -> Answer {
        // SAFETY: the ranges are mapped.
        self.with("copy", |_| unsafe { std::ptr::copy(from.0 as *const u8, to.0 as *mut u8, bytes as usize) })
    }
    fn copy_from_peer(&self, _: Address, _: Peer, _: u64, _: [Event; 2], _: Event) -> Answer {
        Err(refusal("copy", 801, "CUDA_ERROR_NOT_SUPPORTED"))
    }
    fn load(&self, _: &[u8]) -> Answer<Module> {
        Ok(Module(0))
    }
    fn unload(&self, _: Module) {}
    fn function(&self, _: Module, name: &str) -> Answer<Function> {
        let mut state = self.state.lock().unwrap();
        state.functions.push(name.to_string());
        Ok(Function(state.functions.len() - 1))
    }
    fn allow_shared(&self, _: Function, _: u32) -> Answer {
        Ok(())
    }
    fn static_shared(&self, _: Function) -> u32 {
        0
    }
    fn resident_blocks(&self, _: Function, _: u32, _: u32) -> Answer<u32> {
        Ok(1)
    }
    unsafe fn launch(&self, function: Function, _: &Shape, arguments: &[Argument]) -> Answer {
        self.with("launch", |state| state.launch(function, arguments))
    }
    unsafe fn graph(&self, launches: &[Launch]) -> Answer<Graph> {
        let mut state = self.state.lock().unwrap();
        state.graphs.push(launches.to_vec());
        Ok(Graph(state.graphs.len() - 1))
    }
    unsafe fn run_graph(&self, graph: Graph, changes: &[(usize, &Launch)]) -> Answer {
        self.with("graph", |state| {
            changes.iter().for_each(|(at, launch)| state.graphs[graph.0][*at] = (*launch).clone());
            for launch in state.graphs[graph.0].clone() {
                state.launch(launch.function, &launch.arguments);
            }
        })
    }
    fn forget_graph(&self, _: Graph) {}
    fn flag(&self) -> Answer<Address> {
        Err(refusal("flag", 801, "CUDA_ERROR_NOT_SUPPORTED"))
    }
    fn is_flag_up(&self) -> bool {
        false
    }
    fn lower_flag(&self) {}
    fn synchronize(&self) -> Answer {
        self.with("synchronize", |_| ())
    }
    fn is_idle(&self) -> Answer<bool> {
        Ok(!self.state.lock().unwrap().is_busy())
    }
    fn is_reached(&self, _: Event) -> Answer<bool> {
        self.is_idle()
    }
    fn poke(&self, words: Words, value: u32) -> Answer {
        (0..words.count).for_each(|k| word(words.first.0 + k * words.pitch).store(value, Ordering::SeqCst));
        Ok(())
    }
    fn memory(&self) -> Answer<(u64, u64)> {
        let held: u64 = self.state.lock().unwrap().held.values().map(|(bytes, _)| bytes).sum();
        Ok((MEMORY - held, MEMORY))
    }
    fn trim(&self) -> Answer {
        Ok(())
    }
    fn event(&self) -> Answer<Event> {
        let mut state = self.state.lock().unwrap();
        state.events += 1;
        Ok(Event(state.events))
    }
    fn record(&self, _: Event) -> Answer {
        Ok(())
    }
    fn elapsed(&self, _: Event, _: Event) -> Answer<f64> {
        self.with("elapsed", |_| 1.5)
    }
    fn forget_event(&self, _: Event) {}
}

impl Shareable for Gpu {
    fn allocate_shared(&self, bytes: u64) -> Answer<(Address, Handle)> {
        let mut state = self.state.lock().unwrap();
        if state.held.values().map(|(bytes, _)| bytes).sum::<u64>() + bytes > MEMORY {
            return Err(refusal("cuMemAlloc", Refusal::OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY"));
        }
        // SAFETY: the name is a C string, and the descriptor is new.
        let file = File::from(unsafe { OwnedFd::from_raw_fd(libc::memfd_create(c"fake".as_ptr(), 0)) });
        file.set_len(bytes).expect("room");
        let mut handle = [0; 64];
        let text = format!("/proc/{}/fd/{} {bytes} ", std::process::id(), file.as_raw_fd());
        handle[..text.len()].copy_from_slice(text.as_bytes());
        let address = file.as_raw_fd() as u64;
        state.held.insert(address, (bytes, file.into()));
        Ok((Address(address), Handle(handle)))
    }
    fn free_shared(&self, address: Address) {
        assert!(self.state.lock().unwrap().held.remove(&address.0).is_some(), "given back twice");
    }
    fn map(&self, handle: &Handle) -> Answer<Address> {
        let text = String::from_utf8_lossy(&handle.0).into_owned();
        let (path, bytes) = text.split_once(' ').ok_or_else(|| refusal("map", 1, "CUDA_ERROR_INVALID_VALUE"))?;
        let bytes: u64 = bytes.split(' ').next().unwrap_or_default().parse().expect("a number");
        let file = File::options().read(true).write(true).open(path).expect("the keeper's memory");
        let address = map(&file, bytes);
        self.state.lock().unwrap().mapped.insert(address, bytes);
        Ok(Address(address))
    }
    fn unmap(&self, address: Address) {
        let bytes = self.state.lock().unwrap().mapped.remove(&address.0).expect("mapped");
        // SAFETY: the memory is no longer in use.
        unsafe { libc::munmap(address.0 as *mut _, bytes as usize) };
    }
    unsafe fn pin(&self, memory: *mut u8, _: usize) -> Answer<Address> {
        Ok(Address(memory as u64))
    }
    unsafe fn upload_pinned(&self, to: Address, from: *const u8, bytes: usize) -> Answer {
        // SAFETY: guaranteed by the caller.
        self.with("upload", |_| unsafe { std::ptr::copy(from, to.0 as *mut u8, bytes) })
    }
    unsafe fn download_pinned(&self, from: Address, to: *mut u8, bytes: usize) -> Answer {
        // SAFETY: guaranteed by the caller.
        self.with("download", |_| unsafe { std::ptr::copy(from.0 as *const u8, to, bytes) })
    }
    fn wait_for(&self, _: Event) -> Answer {
        self.synchronize()
    }
    fn write_word(&self, address: Address, value: u32) -> Answer {
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
