//! Kernels in a process of their own: the death of a worker loses what it was running, and nothing else.
//!
//! The processes are real but the GPU is fake: its memory is shared memory owned by the keeper, and its kernels are a few
//! functions selected by name, of which some kill their process or never end. The children run this test binary.
#![cfg(target_os = "linux")]

mod fake;

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use clk_lang::device::cuda::driver::{Address, Argument, Driver, Function, Launch, Refusal, Shape, Words};
use clk_lang::device::cuda::isolate::{self, Child, Process, Remote, Role, Segment, Starter, code, wire};
use fake::starter::Children;

/// Not a test: the entry point of the children of this binary.
#[test]
#[ignore = "run by the other tests"]
fn child_process() {
    fake::child();
}

fn remote() -> (Arc<Children>, Remote) {
    let children = Arc::new(Children::default());
    let starting = isolate::start(0, children.clone()).expect("children start");
    assert_eq!(starting.properties().name, "Fake");
    (children, starting.finish().expect("children are ready"))
}

fn function(remote: &Remote, name: &str) -> Function {
    let module = remote.load(b"machine code").expect("loaded");
    remote.function(module, name).expect("a function")
}

fn array(remote: &Remote, values: &[u32]) -> Address {
    let address = remote.allocate(4 * values.len() as u64).expect("memory");
    remote.upload(address, bytemuck::cast_slice(values)).expect("uploaded");
    address
}

fn values(remote: &Remote, address: Address, count: usize) -> Vec<u32> {
    let mut values = vec![0u32; count];
    remote.download(address, bytemuck::cast_slice_mut(&mut values)).expect("downloaded");
    values
}

const SHAPE: Shape = Shape { grid: [1; 3], block: [1; 3], shared: 0, cooperative: false };

fn number(value: u32) -> Argument {
    Argument::Value { bytes: [value.into(), 0, 0, 0], len: 4 }
}

/// Launches a kernel that adds to the elements of an array.
fn add(remote: &Remote, function: Function, address: Address, count: u32, value: u32) {
    let arguments = [Argument::Address(address), number(count), number(value)];
    // SAFETY: these match the function's parameters.
    unsafe { remote.launch(function, &SHAPE, &arguments) }.expect("launched");
}

fn start(remote: &Remote, function: Function, arguments: &[Argument]) {
    // SAFETY: these match the function's parameters.
    unsafe { remote.launch(function, &SHAPE, arguments) }.expect("launched");
}

#[test]
fn arrays_come_and_go() {
    let (_, remote) = remote();
    let plus = function(&remote, "add");
    let a = array(&remote, &[1, 2, 3]);
    add(&remote, plus, a, 3, 10);
    let b = remote.allocate(12).unwrap();
    remote.copy(b, a, 12).unwrap();
    remote.zero(a, 8).unwrap();
    assert_eq!(values(&remote, a, 3), [0, 0, 13]);
    assert_eq!(values(&remote, b, 3), [11, 12, 13]);
    assert_eq!(values(&remote, Address(b.0 + 4), 2), [12, 13], "a place within an array");
    remote.free(a);
    assert_eq!(array(&remote, &[7]), a, "what is given back is used again");
    // Large arrays go through shared memory, in several chunks each.
    let large: Vec<u32> = (0..9_000_001).collect();
    let c = array(&remote, &large);
    add(&remote, plus, c, large.len() as u32, 1);
    let back = values(&remote, c, large.len());
    assert!(back.iter().zip(&large).all(|(b, l)| *b == l + 1));
    assert!(remote.synchronize().is_ok() && remote.is_idle().unwrap());
}

#[test]
fn a_worker_that_dies_costs_a_launch_and_nothing_else() {
    for (name, says) in [("crash", "signal 9"), ("exit", "exit code 3"), ("illegal", "CUDA_ERROR_ILLEGAL_ADDRESS")] {
        let (_, remote) = remote();
        let (plus, bad) = (function(&remote, "add"), function(&remote, name));
        remote.allow_shared(plus, 100_000).unwrap();
        let large: Vec<u32> = (0..300_000).collect();
        let (a, b) = (array(&remote, &[1, 2, 3]), array(&remote, &large));
        add(&remote, plus, a, 3, 1);
        start(&remote, bad, &[Argument::Address(a)]);
        // After the loss: launches are not run, and memory stays as it was. This launch may already report the loss.
        let behind = [Argument::Address(a), number(3), number(100)];
        // SAFETY: these match the function's parameters.
        let behind = unsafe { remote.launch(plus, &SHAPE, &behind) };
        let c = array(&remote, &[5, 6]);
        let d = remote.allocate(12).unwrap();
        let copied = remote.copy(d, a, 12).and_then(|()| remote.synchronize());
        let refusal = behind.and(copied).expect_err("the loss is told");
        assert!(format!("{refusal:?}").contains(says), "{name}: {refusal:?}");
        let casualty = remote.take_casualty().expect("a loss");
        assert_eq!((casualty.launch, casualty.stopped), (Some(2), false), "{name}: {casualty:?}");
        assert!(casualty.waiting <= 1, "{name}: {casualty:?}");
        assert!(casualty.replaced.is_some(), "{casualty:?}");
        assert_eq!(values(&remote, a, 3), [2, 3, 4], "{name}");
        assert_eq!(values(&remote, b, large.len()), large);
        assert_eq!(values(&remote, c, 2), [5, 6], "{name}");
        assert_eq!(values(&remote, d, 3), [2, 3, 4], "{name}");
        add(&remote, plus, a, 3, 1);
        assert_eq!(values(&remote, a, 3), [3, 4, 5], "functions are there again");
        assert!(remote.take_casualty().is_none());
    }
}

#[test]
fn an_idle_worker_that_dies_is_not_missed() {
    let (children, remote) = remote();
    let plus = function(&remote, "add");
    let a = array(&remote, &[1]);
    assert_eq!(values(&remote, a, 1), [1]);
    children.end(Role::Worker);
    assert_eq!(values(&remote, a, 1), [1]);
    add(&remote, plus, a, 1, 1);
    assert_eq!(values(&remote, a, 1), [2]);
    assert!(remote.take_casualty().is_none());
}

/// Ends the worker while no other can be started.
fn end_without_replacement(children: &Children, remote: &Remote) {
    children.refuses.store(true, Ordering::SeqCst);
    children.end(Role::Worker);
    remote.resolve(Address(0)).expect_err("there is no worker");
    children.refuses.store(false, Ordering::SeqCst);
}

#[test]
fn a_launch_that_restarts_the_worker_is_waited_for_and_can_be_lost() {
    let (children, remote) = remote();
    let (plus, hang) = (function(&remote, "add"), function(&remote, "hang"));
    let (a, word) = (array(&remote, &[1, 0]), array(&remote, &[0]));
    assert_eq!(values(&remote, a, 1), [1]);
    end_without_replacement(&children, &remote);
    assert!(remote.take_casualty().is_some_and(|casualty| casualty.replaced.is_none()));
    // The first operation after the loss is a launch.
    start(&remote, hang, &[Argument::Address(word)]);
    assert!(!remote.is_idle().unwrap(), "the kernel runs");
    remote.poke(Words { first: word, pitch: 4, count: 1 }, 1).unwrap();
    add(&remote, plus, a, 1, 1);
    remote.synchronize().unwrap();
    assert!(remote.is_idle().unwrap());
    assert_eq!(values(&remote, a, 1), [2]);
    end_without_replacement(&children, &remote);
    remote.take_casualty();
    start(&remote, hang, &[Argument::Address(Address(a.0 + 4))]);
    children.end(Role::Worker);
    remote.synchronize().expect_err("a launch is lost");
    let casualty = remote.take_casualty().expect("a loss");
    assert_eq!((casualty.launch, casualty.replaced.is_some()), (Some(3), true), "{casualty:?}");
    assert_eq!(values(&remote, a, 2), [2, 0]);
}

#[test]
fn pending_memory_operations_outlive_failed_restarts() {
    let (children, remote) = remote();
    let hang = function(&remote, "hang");
    let (a, b) = (array(&remote, &[1, 0]), array(&remote, &[3, 4]));
    remote.synchronize().unwrap();
    start(&remote, hang, &[Argument::Address(Address(a.0 + 4))]);
    // These wait for the kernel.
    remote.copy(a, b, 8).unwrap();
    remote.upload(b, bytemuck::cast_slice(&[5u32, 6])).unwrap();
    end_without_replacement(&children, &remote);
    let casualty = remote.take_casualty().expect("a loss");
    assert_eq!((casualty.launch, casualty.replaced), (Some(1), None), "{casualty:?}");
    // A worker that ends before it is ready changes nothing.
    for _ in 0..2 {
        children.ends_early.store(true, Ordering::SeqCst);
        remote.resolve(Address(0)).expect_err("it does not get ready");
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
    let old = children.last(Role::Worker);
    old.never_ends.store(true, Ordering::SeqCst);
    old.kill();
    let refusal = remote.resolve(a).expect_err("its kernel may still write");
    assert!(format!("{refusal:?}").contains("has not ended"), "{refusal:?}");
    let problem = remote.take_casualty().and_then(|casualty| casualty.problem).expect("it is not replaced");
    assert!(problem.contains("can still write"), "{problem}");
    assert_eq!(remote.upload(a, &[0; 4]).unwrap_err().code, code::GONE);
    old.never_ends.store(false, Ordering::SeqCst);
    add(&remote, plus, a, 1, 1);
    assert_eq!(values(&remote, a, 1), [2], "the failed upload is not made up for later");
}

#[test]
fn an_endless_kernel_stops_at_its_word() {
    let (_, remote) = remote();
    let hang = function(&remote, "hang");
    let word = array(&remote, &[0, 0]);
    start(&remote, hang, &[Argument::Address(Address(word.0 + 4))]);
    let event = remote.event().unwrap();
    remote.record(event).unwrap();
    std::thread::sleep(Duration::from_millis(20));
    assert!(!remote.is_idle().unwrap() && !remote.is_reached(event).unwrap());
    remote.poke(Words { first: Address(word.0 + 4), pitch: 4, count: 1 }, 1).unwrap();
    let begin = Instant::now();
    while !remote.is_idle().unwrap() {
        assert!(begin.elapsed() < Duration::from_secs(10));
    }
    assert!(remote.is_reached(event).unwrap());
    assert_eq!(values(&remote, word, 2), [0, 1]);
}

/// As at the second Ctrl-C: another thread ends the worker while this one waits for it.
#[test]
fn an_endless_kernel_ends_with_its_process() {
    let (children, remote) = remote();
    let (plus, hang) = (function(&remote, "add"), function(&remote, "hang"));
    let a = array(&remote, &[1, 0]);
    add(&remote, plus, a, 1, 1);
    start(&remote, hang, &[Argument::Address(Address(a.0 + 4))]);
    let refusal = std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(50));
            let worker = children.last(Role::Worker);
            worker.stopped.store(true, Ordering::SeqCst);
            worker.kill();
        });
        remote.synchronize().expect_err("it does not end by itself")
    });
    assert_eq!(refusal.code, code::STOPPED);
    let casualty = remote.take_casualty().expect("a loss");
    assert!(casualty.stopped && casualty.launch == Some(2), "{casualty:?}");
    assert_eq!(values(&remote, a, 2), [2, 0]);
}

#[test]
fn graphs_and_events_outlive_a_worker() {
    let (_, remote) = remote();
    let (plus, crash) = (function(&remote, "add"), function(&remote, "crash"));
    let a = array(&remote, &[0]);
    let launch = |value| Launch {
        function: plus,
        shape: SHAPE,
        arguments: vec![Argument::Address(a), number(1), number(value)],
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
    assert!(remote.is_reached(first).unwrap(), "nothing will come any more");
    remote.record(second).unwrap();
    assert!(remote.elapsed(first, second).is_err(), "the two are of different processes");
    remote.record(first).unwrap();
    assert!(remote.elapsed(second, first).is_ok());
    // SAFETY: as above.
    unsafe { remote.run_graph(graph, &[]) }.expect("started");
    assert_eq!(values(&remote, a, 1), [12], "with the change that was made before");
    assert_eq!(remote.launched(), 3);
}

#[test]
fn addresses_in_memory_are_right_for_every_worker() {
    let (children, remote) = remote();
    let follow = function(&remote, "follow");
    let (target, place) = (array(&remote, &[5]), remote.allocate(16).unwrap());
    let as_held = |address: Address| remote.resolve(address).unwrap().to_le_bytes();
    remote.upload(Address(place.0 + 8), &as_held(target)).unwrap();
    remote.hold(&[(Address(place.0 + 8), target)]);
    start(&remote, follow, &[Argument::Address(Address(place.0 + 8))]);
    assert_eq!(values(&remote, target, 1), [6]);
    // An array at a different address in the next worker, which handles that with an additional mapping.
    let before = as_held(target);
    let _more: Vec<Address> = (0..3).map(|_| remote.allocate(20 << 20).unwrap()).collect();
    children.end(Role::Worker);
    start(&remote, function(&remote, "follow"), &[Argument::Address(Address(place.0 + 8))]);
    assert_eq!(values(&remote, target, 1), [7]);
    println!("{before:?} became {:?}", as_held(target));
    remote.free(place);
    let other = array(&remote, &[1, 2, 3, 4]);
    assert_eq!(other, place, "memory that was given back holds no addresses");
    children.end(Role::Worker);
    assert_eq!(values(&remote, other, 4), [1, 2, 3, 4]);
}

#[test]
fn the_flag_is_this_process_memory() {
    let (_, remote) = remote();
    let plus = function(&remote, "add");
    let flag = remote.flag().unwrap();
    assert!(!remote.is_flag_up());
    add(&remote, plus, flag, 1, 1);
    remote.synchronize().unwrap();
    assert!(remote.is_flag_up());
    remote.lower_flag();
    assert!(!remote.is_flag_up());
}

#[test]
fn memory_goes_back_to_the_keeper_and_full_is_an_error() {
    let (_, remote) = remote();
    let (free, total) = remote.memory().unwrap();
    let a = remote.allocate(100 << 20).unwrap();
    let b = remote.allocate(100 << 20).unwrap();
    let refusal = remote.allocate(1 << 40).unwrap_err();
    assert!(refusal.is_out_of_memory() && !refusal.is_lost(), "{refusal:?}");
    remote.free(a);
    assert!(remote.memory().unwrap().0 >= free - (101 << 20), "what lies idle counts as free");
    remote.trim().unwrap();
    remote.upload(b, &[1; 4]).unwrap();
    assert_eq!(values(&remote, b, 1), [0x0101_0101]);
    remote.free(b);
    remote.trim().unwrap();
    assert_eq!(remote.memory().unwrap(), (total, total));
}

#[test]
fn launches_go_out_without_waiting() {
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
fn a_keeper_that_dies_is_an_error() {
    let (children, remote) = remote();
    let a = array(&remote, &[1]);
    children.last(Role::Keeper).kill();
    assert_eq!(remote.allocate(1 << 30).unwrap_err().code, code::GONE);
    assert!(remote.memory().is_err());
    assert_eq!(values(&remote, a, 1), [1], "the worker still has what it mapped");
}

#[test]
fn children_end_with_the_program() {
    let children = Arc::new(Children::default());
    let starting = isolate::start(0, children.clone()).expect("children start");
    let remote = starting.finish().expect("children are ready");
    let hang = function(&remote, "hang");
    let word = array(&remote, &[0]);
    start(&remote, hang, &[Argument::Address(word)]);
    let (worker, keeper) = (children.last(Role::Worker), children.last(Role::Keeper));
    assert!(worker.is_running() && keeper.is_running());
    // As if the program were killed: its ends of the sockets close, and the children are not killed.
    children.keep_alive.store(true, Ordering::SeqCst);
    drop(remote);
    let begin = Instant::now();
    while worker.is_running() || keeper.is_running() {
        assert!(begin.elapsed() < Duration::from_secs(10), "a child is left");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A fake child that sends the given messages.
struct Liar {
    words: Mutex<Vec<Vec<u8>>>,
    /// The sockets of the fake children, which stay open and send nothing else.
    ends: Mutex<Vec<UnixStream>>,
}

fn liar(keeper: Vec<u8>, worker: Vec<u8>) -> Arc<Liar> {
    // The worker is started first.
    Arc::new(Liar { words: Mutex::new(vec![keeper, worker]), ends: Mutex::default() })
}

struct Nobody;

impl Child for Nobody {
    fn kill(&self) {}
    fn wait(&self) -> Option<String> {
        Some("it was never there".into())
    }
    fn is_stopped(&self) -> bool {
        false
    }
}

impl Starter for Liar {
    fn start(&self, _: Role, _: u32, _: &Segment) -> std::io::Result<Process> {
        let (ours, mut theirs) = UnixStream::pair()?;
        if let Some(words) = self.words.lock().unwrap().pop() {
            theirs.write_all(&words)?;
        }
        theirs.shutdown(std::net::Shutdown::Write)?;
        self.ends.lock().unwrap().push(theirs);
        Ok(Process { socket: ours, child: Arc::new(Nobody) })
    }
}

/// Returns the first messages of a child.
fn hello(more: &[u8]) -> Vec<u8> {
    [&wire::Reply::Properties(Box::default()).encode(), &wire::Reply::Done.encode(), more].concat()
}

#[test]
fn trim_gives_back_all_arenas_whatever_the_worker_answers() {
    use wire::Reply;
    let (done, handle) = (Reply::Done.encode(), Reply::Handle(isolate::Handle([0; 64])).encode());
    let name = "CUDA_ERROR_UNKNOWN".into();
    let refused = Reply::Refused(Refusal { call: "cuIpcCloseMemHandle".into(), code: 30, name }).encode();
    // Two arenas are made and released, and another one is made.
    let keeper = hello(&[&handle[..], &handle, &done, &done, &handle].concat());
    let worker = hello(&[&done[..], &done, &done, &refused, &done, &done].concat());
    let remote = isolate::start(0, liar(keeper, worker)).expect("properties").finish().expect("ready");
    let large = remote.allocate(16 << 20).unwrap();
    remote.free(large);
    assert_eq!(remote.trim().unwrap_err().code, 30);
    assert_ne!(remote.allocate(16 << 20).unwrap(), large, "no arena is left that is not mapped");
}

#[test]
fn a_child_that_speaks_nonsense_is_an_error() {
    use wire::Reply;
    let nonsense: [&[u8]; 5] =
        [b"", b"\xff\xff\xff\xff\xff", b"\x01\0\0\0\x63", b"\x05\0\0\0\x08\xff\xff\xff\xff", b"\x01\0\0\0\x01"];
    for words in nonsense {
        // As the first message of both.
        if let Ok(starting) = isolate::start(0, liar(words.to_vec(), words.to_vec())) {
            assert!(starting.finish().is_err());
        }
        // As the keeper's first answer, and as the worker's.
        assert!(isolate::start(0, liar(hello(words), hello(b""))).expect("properties").finish().is_err());
        let handle = Reply::Handle(isolate::Handle([0; 64])).encode();
        let finished = isolate::start(0, liar(hello(&handle), hello(words))).expect("properties").finish();
        assert_eq!(finished.is_ok(), words == b"\x01\0\0\0\x01", "`done` is a right answer there");
        if let Ok(remote) = finished {
            let (memory, allocated) = (remote.memory(), remote.allocate(1 << 30));
            assert!(memory.is_err(), "{words:?}: {memory:?}");
            assert!(allocated.is_err(), "{words:?}: {allocated:?}");
        }
    }
}
