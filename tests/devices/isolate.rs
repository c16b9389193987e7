//! Tests kernels that run in a separate worker process: if the worker crashes, only the running kernels are lost.
//!
//! The processes are real but the GPU is fake: a child process, the memory owner, holds its memory, and its kernels are
//! a few functions selected by name. Some of these functions kill their process or never return. The children run this
//! test binary.
#![cfg(target_os = "linux")]

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use clk_cuda::driver::{
    DevicePtr, Driver, DriverArgument, DriverError, DriverFunction, DriverLaunch, LaunchShape, StridedWords,
};
use clk_cuda::isolate::{self, IsolatedGpu, code, wire};
use clk_runtime::worker_process::{Child, ChildRole, Process, SharedSegment, Starter};
use clk_testing::fake::starter::Children;

fn remote() -> (Arc<Children>, IsolatedGpu) {
    let children = Arc::new(Children::default());
    let starting = isolate::start(0, children.clone()).expect("children start");
    assert_eq!(starting.properties().name, "Fake");
    (children, starting.finish().expect("children are ready"))
}

fn function(remote: &IsolatedGpu, name: &str) -> DriverFunction {
    let module = remote.load(b"machine code").expect("loaded");
    remote.function(module, name).expect("a function")
}

fn array(remote: &IsolatedGpu, values: &[u32]) -> DevicePtr {
    let address = remote.allocate(4 * values.len() as u64).expect("memory");
    remote.upload(address, bytemuck::cast_slice(values)).expect("uploaded");
    address
}

fn values(remote: &IsolatedGpu, address: DevicePtr, count: usize) -> Vec<u32> {
    let mut values = vec![0u32; count];
    remote.download(address, bytemuck::cast_slice_mut(&mut values)).expect("downloaded");
    values
}

const SHAPE: LaunchShape = LaunchShape { grid: [1; 3], block: [1; 3], shared: 0, cooperative: false };

fn number(value: u32) -> DriverArgument {
    DriverArgument::Value { bytes: [value.into(), 0, 0, 0], len: 4 }
}

/// Launches a kernel that adds to the elements of an array.
fn add(remote: &IsolatedGpu, function: DriverFunction, address: DevicePtr, count: u32, value: u32) {
    let arguments = [DriverArgument::Address(address), number(count), number(value)];
    // SAFETY: these match the function's parameters.
    unsafe { remote.launch(function, &SHAPE, &arguments) }.expect("launched");
}

fn start(remote: &IsolatedGpu, function: DriverFunction, arguments: &[DriverArgument]) {
    // SAFETY: these match the function's parameters.
    unsafe { remote.launch(function, &SHAPE, arguments) }.expect("launched");
}

#[test]
fn arrays_are_allocated_and_freed() {
    let (_, remote) = remote();
    let plus = function(&remote, "add");
    let a = array(&remote, &[1, 2, 3]);
    add(&remote, plus, a, 3, 10);
    let b = remote.allocate(12).unwrap();
    remote.copy(b, a, 12).unwrap();
    remote.zero(a, 8).unwrap();
    assert_eq!(values(&remote, a, 3), [0, 0, 13]);
    assert_eq!(values(&remote, b, 3), [11, 12, 13]);
    assert_eq!(values(&remote, DevicePtr(b.0 + 4), 2), [12, 13], "an address within an array");
    remote.free(a);
    assert_eq!(array(&remote, &[7]), a, "freed memory is reused");
    // Large arrays are transferred through shared memory, in several chunks each.
    let large: Vec<u32> = (0..9_000_001).collect();
    let c = array(&remote, &large);
    add(&remote, plus, c, large.len() as u32, 1);
    let back = values(&remote, c, large.len());
    assert!(back.iter().zip(&large).all(|(b, l)| *b == l + 1));
    assert!(remote.synchronize().is_ok() && remote.is_idle().unwrap());
}

#[test]
fn a_worker_crash_loses_only_one_launch() {
    for (name, says) in [("crash", "signal 9"), ("exit", "exit code 3"), ("illegal", "CUDA_ERROR_ILLEGAL_ADDRESS")] {
        let (_, remote) = remote();
        let (plus, bad) = (function(&remote, "add"), function(&remote, name));
        remote.allow_shared(plus, 100_000).unwrap();
        let large: Vec<u32> = (0..300_000).collect();
        let (a, b) = (array(&remote, &[1, 2, 3]), array(&remote, &large));
        add(&remote, plus, a, 3, 1);
        start(&remote, bad, &[DriverArgument::Address(a)]);
        // After the loss of the worker, launches do not run, and memory is unchanged. This launch may already report
        // the loss.
        let second_arguments = [DriverArgument::Address(a), number(3), number(100)];
        // SAFETY: these match the function's parameters.
        let second_launch = unsafe { remote.launch(plus, &SHAPE, &second_arguments) };
        let c = array(&remote, &[5, 6]);
        let d = remote.allocate(12).unwrap();
        let copied = remote.copy(d, a, 12).and_then(|()| remote.synchronize());
        let refusal = second_launch.and(copied).expect_err("the loss is told");
        assert!(format!("{refusal:?}").contains(says), "{name}: {refusal:?}");
        let loss = remote.take_sticky_error().expect("a loss");
        assert_eq!((loss.launch, loss.stopped), (Some(2), false), "{name}: {loss:?}");
        assert!(loss.waiting <= 1, "{name}: {loss:?}");
        assert!(loss.replaced.is_some(), "{loss:?}");
        assert_eq!(values(&remote, a, 3), [2, 3, 4], "{name}");
        assert_eq!(values(&remote, b, large.len()), large);
        assert_eq!(values(&remote, c, 2), [5, 6], "{name}");
        assert_eq!(values(&remote, d, 3), [2, 3, 4], "{name}");
        add(&remote, plus, a, 3, 1);
        assert_eq!(values(&remote, a, 3), [3, 4, 5], "functions are there again");
        assert!(remote.take_sticky_error().is_none());
    }
}

#[test]
fn a_crash_of_an_idle_worker_loses_nothing() {
    let (children, remote) = remote();
    let plus = function(&remote, "add");
    let a = array(&remote, &[1]);
    assert_eq!(values(&remote, a, 1), [1]);
    children.end(ChildRole::Worker);
    assert_eq!(values(&remote, a, 1), [1]);
    add(&remote, plus, a, 1, 1);
    assert_eq!(values(&remote, a, 1), [2]);
    assert!(remote.take_sticky_error().is_none());
}

/// Kills the worker while no replacement can be started.
fn end_without_replacement(children: &Children, remote: &IsolatedGpu) {
    children.refuses.store(true, Ordering::SeqCst);
    children.end(ChildRole::Worker);
    remote.resolve(DevicePtr(0)).expect_err("there is no worker");
    children.refuses.store(false, Ordering::SeqCst);
}

#[test]
fn launches_that_restart_the_worker_can_fail() {
    let (children, remote) = remote();
    let (plus, hang) = (function(&remote, "add"), function(&remote, "hang"));
    let (a, word) = (array(&remote, &[1, 0]), array(&remote, &[0]));
    assert_eq!(values(&remote, a, 1), [1]);
    end_without_replacement(&children, &remote);
    assert!(remote.take_sticky_error().is_some_and(|casualty| casualty.replaced.is_none()));
    // The first operation after the loss of the worker is a launch, which starts a new worker.
    start(&remote, hang, &[DriverArgument::Address(word)]);
    assert!(!remote.is_idle().unwrap(), "the kernel runs");
    remote.write_words_now(StridedWords { first: word, pitch: 4, count: 1 }, 1).unwrap();
    add(&remote, plus, a, 1, 1);
    remote.synchronize().unwrap();
    assert!(remote.is_idle().unwrap());
    assert_eq!(values(&remote, a, 1), [2]);
    end_without_replacement(&children, &remote);
    remote.take_sticky_error();
    start(&remote, hang, &[DriverArgument::Address(DevicePtr(a.0 + 4))]);
    children.end(ChildRole::Worker);
    remote.synchronize().expect_err("a launch is lost");
    let loss = remote.take_sticky_error().expect("a loss");
    assert_eq!((loss.launch, loss.replaced.is_some()), (Some(3), true), "{loss:?}");
    assert_eq!(values(&remote, a, 2), [2, 0]);
}

#[test]
fn pending_memory_operations_outlive_failed_restarts() {
    let (children, remote) = remote();
    let hang = function(&remote, "hang");
    let (a, b) = (array(&remote, &[1, 0]), array(&remote, &[3, 4]));
    remote.synchronize().unwrap();
    start(&remote, hang, &[DriverArgument::Address(DevicePtr(a.0 + 4))]);
    // These operations wait until the kernel ends.
    remote.copy(a, b, 8).unwrap();
    remote.upload(b, bytemuck::cast_slice(&[5u32, 6])).unwrap();
    end_without_replacement(&children, &remote);
    let loss = remote.take_sticky_error().expect("a loss");
    assert_eq!((loss.launch, loss.replaced), (Some(1), None), "{loss:?}");
    // If a new worker ends before it is ready, the pending operations stay pending.
    for _ in 0..2 {
        children.ends_early.store(true, Ordering::SeqCst);
        remote.resolve(DevicePtr(0)).expect_err("it does not get ready");
    }
    children.ends_early.store(false, Ordering::SeqCst);
    assert_eq!((values(&remote, a, 2), values(&remote, b, 2)), (vec![3, 4], vec![5, 6]));
    assert!(remote.synchronize().is_ok() && remote.is_idle().unwrap());
}

#[test]
fn a_worker_that_does_not_end_is_not_replaced() {
    let (children, remote) = remote();
    let plus = function(&remote, "add");
    let a = array(&remote, &[1]);
    remote.synchronize().unwrap();
    let old = children.last(ChildRole::Worker);
    old.never_ends.store(true, Ordering::SeqCst);
    old.kill();
    let refusal = remote.resolve(a).expect_err("its kernel may still write");
    assert!(format!("{refusal:?}").contains("has not ended"), "{refusal:?}");
    let problem = remote.take_sticky_error().and_then(|casualty| casualty.problem).expect("it is not replaced");
    assert!(problem.contains("can still write"), "{problem}");
    assert_eq!(remote.upload(a, &[0; 4]).unwrap_err().code, code::GONE);
    old.never_ends.store(false, Ordering::SeqCst);
    add(&remote, plus, a, 1, 1);
    assert_eq!(values(&remote, a, 1), [2], "the failed upload is not repeated later");
}

#[test]
fn an_endless_kernel_stops_by_the_stop_flag() {
    let (_, remote) = remote();
    let hang = function(&remote, "hang");
    let word = array(&remote, &[0, 0]);
    start(&remote, hang, &[DriverArgument::Address(DevicePtr(word.0 + 4))]);
    let event = remote.event().unwrap();
    remote.record(event).unwrap();
    std::thread::sleep(Duration::from_millis(20));
    assert!(!remote.is_idle().unwrap() && !remote.is_event_reached(event).unwrap());
    remote.write_words_now(StridedWords { first: DevicePtr(word.0 + 4), pitch: 4, count: 1 }, 1).unwrap();
    let begin = Instant::now();
    while !remote.is_idle().unwrap() {
        assert!(begin.elapsed() < Duration::from_secs(10));
    }
    assert!(remote.is_event_reached(event).unwrap());
    assert_eq!(values(&remote, word, 2), [0, 1]);
}

/// Simulates a second Ctrl-C: another thread kills the worker while this thread waits for a kernel.
#[test]
fn an_endless_kernel_ends_with_its_process() {
    let (children, remote) = remote();
    let (plus, hang) = (function(&remote, "add"), function(&remote, "hang"));
    let a = array(&remote, &[1, 0]);
    add(&remote, plus, a, 1, 1);
    start(&remote, hang, &[DriverArgument::Address(DevicePtr(a.0 + 4))]);
    let refusal = std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(50));
            let worker = children.last(ChildRole::Worker);
            worker.stopped.store(true, Ordering::SeqCst);
            worker.kill();
        });
        remote.synchronize().expect_err("it does not end by itself")
    });
    assert_eq!(refusal.code, code::STOPPED);
    let loss = remote.take_sticky_error().expect("a loss");
    assert!(loss.stopped && loss.launch == Some(2), "{loss:?}");
    assert_eq!(values(&remote, a, 2), [2, 0]);
}

#[test]
fn graphs_and_events_outlive_a_worker() {
    let (_, remote) = remote();
    let (plus, crash) = (function(&remote, "add"), function(&remote, "crash"));
    let a = array(&remote, &[0]);
    let launch = |value| DriverLaunch {
        function: plus,
        shape: SHAPE,
        arguments: vec![DriverArgument::Address(a), number(1), number(value)],
    };
    // SAFETY: these match the function's parameters.
    let graph = unsafe { remote.graph(&[launch(1), launch(2)]) }.expect("a graph");
    // SAFETY: as above.
    unsafe { remote.run_graph(graph, &[(1, &launch(5))]) }.expect("started");
    assert_eq!(values(&remote, a, 1), [6]);
    let (first, second) = (remote.event().unwrap(), remote.event().unwrap());
    remote.record(first).unwrap();
    start(&remote, crash, &[]);
    assert!(remote.synchronize().is_err());
    assert!(remote.is_event_reached(first).unwrap(), "events of a lost worker count as reached");
    remote.record(second).unwrap();
    assert!(remote.elapsed(first, second).is_err(), "the events belong to different processes");
    remote.record(first).unwrap();
    assert!(remote.elapsed(second, first).is_ok());
    // SAFETY: as above.
    unsafe { remote.run_graph(graph, &[]) }.expect("started");
    assert_eq!(values(&remote, a, 1), [12], "with the earlier change");
    assert_eq!(remote.launched(), 3);
}

#[test]
fn device_addresses_are_valid_in_every_worker() {
    let (children, remote) = remote();
    let follow = function(&remote, "follow");
    let (target, place) = (array(&remote, &[5]), remote.allocate(16).unwrap());
    let as_held = |address: DevicePtr| remote.resolve(address).unwrap().to_le_bytes();
    remote.upload(DevicePtr(place.0 + 8), &as_held(target)).unwrap();
    remote.hold(&[(DevicePtr(place.0 + 8), target)]);
    start(&remote, follow, &[DriverArgument::Address(DevicePtr(place.0 + 8))]);
    assert_eq!(values(&remote, target, 1), [6]);
    // The next worker maps the array at a different address. An additional mapping keeps the old address valid, which
    // device memory still contains.
    let before = as_held(target);
    let _more: Vec<DevicePtr> = (0..3).map(|_| remote.allocate(20 << 20).unwrap()).collect();
    children.end(ChildRole::Worker);
    start(&remote, function(&remote, "follow"), &[DriverArgument::Address(DevicePtr(place.0 + 8))]);
    assert_eq!(values(&remote, target, 1), [7]);
    println!("{before:?} became {:?}", as_held(target));
    remote.free(place);
    let other = array(&remote, &[1, 2, 3, 4]);
    assert_eq!(other, place, "freed memory is not used for addresses");
    children.end(ChildRole::Worker);
    assert_eq!(values(&remote, other, 4), [1, 2, 3, 4]);
}

#[test]
fn the_stop_flag_is_in_this_process_memory() {
    let (_, remote) = remote();
    let plus = function(&remote, "add");
    let flag = remote.flag().unwrap();
    assert!(!remote.is_flag_set());
    add(&remote, plus, flag, 1, 1);
    remote.synchronize().unwrap();
    assert!(remote.is_flag_set());
    remote.clear_flag();
    assert!(!remote.is_flag_set());
}

#[test]
fn memory_is_returned_to_its_owner_and_exhaustion_is_an_error() {
    let (_, remote) = remote();
    let (free, total) = remote.memory().unwrap();
    let a = remote.allocate(100 << 20).unwrap();
    let b = remote.allocate(100 << 20).unwrap();
    let refusal = remote.allocate(1 << 40).unwrap_err();
    assert!(refusal.is_out_of_memory() && !refusal.is_sticky(), "{refusal:?}");
    remote.free(a);
    assert!(remote.memory().unwrap().0 >= free - (101 << 20), "cached memory counts as free");
    remote.trim().unwrap();
    remote.upload(b, &[1; 4]).unwrap();
    assert_eq!(values(&remote, b, 1), [0x0101_0101]);
    remote.free(b);
    remote.trim().unwrap();
    assert_eq!(remote.memory().unwrap(), (total, total));
}

#[test]
fn launches_are_asynchronous() {
    let (_, remote) = remote();
    let plus = function(&remote, "add");
    let a = array(&remote, &[0]);
    remote.synchronize().unwrap();
    let begin = Instant::now();
    for _ in 0..10_000 {
        add(&remote, plus, a, 1, 1);
    }
    let sent = begin.elapsed();
    assert_eq!(values(&remote, a, 1), [10_000]);
    println!("10,000 launches: {sent:?} to send, {:?} in all", begin.elapsed());
    let begin = Instant::now();
    for _ in 0..1000 {
        remote.synchronize().unwrap();
    }
    println!("a question and its answer: {:?}", begin.elapsed() / 1000);
}

#[test]
fn a_crash_of_the_memory_owner_is_an_error() {
    let (children, remote) = remote();
    let a = array(&remote, &[1]);
    children.last(ChildRole::Keeper).kill();
    assert_eq!(remote.allocate(1 << 30).unwrap_err().code, code::GONE);
    assert!(remote.memory().is_err());
    assert_eq!(values(&remote, a, 1), [1], "the worker still has its mappings");
}

#[test]
fn children_end_with_the_program() {
    let children = Arc::new(Children::default());
    let starting = isolate::start(0, children.clone()).expect("children start");
    let remote = starting.finish().expect("children are ready");
    let hang = function(&remote, "hang");
    let word = array(&remote, &[0]);
    start(&remote, hang, &[DriverArgument::Address(word)]);
    let (worker, owner) = (children.last(ChildRole::Worker), children.last(ChildRole::Keeper));
    assert!(worker.is_running() && owner.is_running());
    // Simulates that the program is killed: its ends of the sockets close, and it does not kill its children.
    children.keep_alive.store(true, Ordering::SeqCst);
    drop(remote);
    let begin = Instant::now();
    while worker.is_running() || owner.is_running() {
        assert!(begin.elapsed() < Duration::from_secs(10), "a child is left");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Starts fake child processes that send the given messages.
struct ScriptedChild {
    words: Mutex<Vec<Vec<u8>>>,
    /// The fake children's ends of the sockets, which stay open.
    ends: Mutex<Vec<UnixStream>>,
}

fn scripted_child(owner: Vec<u8>, worker: Vec<u8>) -> Arc<ScriptedChild> {
    // The messages are taken from the end, and the worker is started first.
    Arc::new(ScriptedChild { words: Mutex::new(vec![owner, worker]), ends: Mutex::default() })
}

struct EndedChild;

impl Child for EndedChild {
    fn kill(&self) {}
    fn wait(&self) -> Option<String> {
        Some("it was never there".into())
    }
    fn is_stopped(&self) -> bool {
        false
    }
}

impl Starter for ScriptedChild {
    fn start(&self, _: ChildRole, _: u32, _: &SharedSegment) -> std::io::Result<Process> {
        let (ours, mut theirs) = UnixStream::pair()?;
        if let Some(words) = self.words.lock().unwrap().pop() {
            theirs.write_all(&words)?;
        }
        theirs.shutdown(std::net::Shutdown::Write)?;
        self.ends.lock().unwrap().push(theirs);
        Ok(Process { socket: ours, child: Arc::new(EndedChild) })
    }
}

/// Returns the messages with which a child starts, followed by `more`.
fn hello(more: &[u8]) -> Vec<u8> {
    [&wire::WorkerReply::Properties(Box::default()).encode(), &wire::WorkerReply::Done.encode(), more].concat()
}

#[test]
fn trim_frees_all_arenas() {
    use wire::WorkerReply;
    let (done, handle) = (WorkerReply::Done.encode(), WorkerReply::Handle(isolate::IpcHandle([0; 64])).encode());
    let name = "CUDA_ERROR_UNKNOWN".into();
    let refused = WorkerReply::Refused(DriverError { call: "cuIpcCloseMemHandle".into(), code: 30, name }).encode();
    // The memory owner replies to the creation of two arenas, to their release, and to the creation of another one.
    let owner = hello(&[&handle[..], &handle, &done, &done, &handle].concat());
    let worker = hello(&[&done[..], &done, &done, &refused, &done, &done].concat());
    let remote = isolate::start(0, scripted_child(owner, worker)).expect("properties").finish().expect("ready");
    let large = remote.allocate(16 << 20).unwrap();
    remote.free(large);
    assert_eq!(remote.trim().unwrap_err().code, 30);
    assert_ne!(remote.allocate(16 << 20).unwrap(), large, "all arenas are mapped");
}

#[test]
fn invalid_replies_of_a_child_are_errors() {
    use wire::WorkerReply;
    let nonsense: [&[u8]; 5] =
        [b"", b"\xff\xff\xff\xff\xff", b"\x01\0\0\0\x63", b"\x05\0\0\0\x07\xff\xff\xff\x7f", b"\x01\0\0\0\0"];
    for words in nonsense {
        // Both children send the invalid bytes as their first message.
        if let Ok(starting) = isolate::start(0, scripted_child(words.to_vec(), words.to_vec())) {
            assert!(starting.finish().is_err());
        }
        // First the memory owner, then the worker sends the invalid bytes as its first reply after the start.
        assert!(isolate::start(0, scripted_child(hello(words), hello(b""))).expect("properties").finish().is_err());
        let handle = WorkerReply::Handle(isolate::IpcHandle([0; 64])).encode();
        let finished = isolate::start(0, scripted_child(hello(&handle), hello(words))).expect("properties").finish();
        assert_eq!(finished.is_ok(), words == b"\x01\0\0\0\0", "`done` is a valid reply there");
        if let Ok(remote) = finished {
            let (memory, allocated) = (remote.memory(), remote.allocate(1 << 30));
            assert!(memory.is_err(), "{words:?}: {memory:?}");
            assert!(allocated.is_err(), "{words:?}: {allocated:?}");
        }
    }
}
