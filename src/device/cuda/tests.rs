//! Tests of the CUDA runtime with a fake driver: its memory is this process's and its kernels are Rust functions.

mod beside;
mod declared;
mod endless;
mod lent;
mod paper;
mod peers;
mod products;
mod tiles;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use self::paper::Paper;
use super::driver::{
    Address, Answer, Argument, Driver, Event, Function, Graph, Launch, Map, Module, Peer, Properties, Refusal, Shape,
    Words,
};
use super::nvrtc::{Compiled, Compiler, Failure};
use super::text::abi::{FAULT_BYTES, FAULT_NOTICE_AT, KernelArgument, OfBox, Options};
use super::text::{Copies, cuda_text};
use super::{Gpu, Settings};
use crate::base::aligned::AlignedBytes;
use crate::device::storage::Storage;
use crate::device::{Arg, Control, Device, DeviceError, Executable, Extents, FaultKind};
use crate::ir::Prepared;
use crate::ir::build::{FunctionBuilder, module};
use crate::ir::def::*;
use crate::ir::verify::verify;
use crate::lang::cores::Cores;
use crate::lang::scalar::Value;

/// The arguments of a call, by kind, and the memory that they point to.
struct Call<'a> {
    arguments: &'a [(KernelArgument, u64)],
    memory: &'a mut BTreeMap<u64, Vec<u8>>,
    shape: Shape,
}

impl Call<'_> {
    fn find(&self, wanted: KernelArgument) -> u64 {
        self.arguments.iter().find(|(what, _)| *what == wanted).expect("an argument").1
    }

    fn array(&mut self, param: usize) -> &mut Vec<u8> {
        let address = self.find(KernelArgument::Array { param });
        self.memory.get_mut(&address).expect("an array's address")
    }

    fn floats(&mut self, param: usize) -> Vec<f32> {
        self.array(param).chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect()
    }
}

type Body = fn(&mut Call<'_>);

/// A GPU that counts the calls of its driver.
struct Fake {
    properties: Properties,
    params: Vec<KernelArgument>,
    body: Body,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// How many blocks that meet run at the same time, if not one for each multiprocessor.
    resident: Option<u32>,
    memory: BTreeMap<u64, Vec<u8>>,
    /// The next load of a module fails.
    refuses_load: bool,
    graphs: Vec<Option<Vec<Launch>>>,
    /// Only waits see the flag, as if kernels started only then.
    late: bool,
    /// Kernels run until they are asked to stop.
    runs_until_poked: bool,
    running: Vec<(Shape, Vec<Argument>)>,
    /// The maps of the last launch.
    maps: Vec<Map>,
    /// Copies that nobody has waited for, by event.
    beside: BTreeMap<usize, (u64, Vec<u8>)>,
    /// A wait followed the last launch.
    waited: bool,
    next: u64,
    counts: BTreeMap<&'static str, usize>,
}

impl State {
    fn wait(&mut self) {
        assert!(self.running.is_empty(), "a wait for what does not end");
        self.waited = true;
    }
}

impl Fake {
    fn count(&self, what: &'static str) -> usize {
        self.state.lock().unwrap().counts.get(what).copied().unwrap_or(0)
    }

    /// Runs a launch.
    fn run(&self, state: &mut State, shape: &Shape, arguments: &[Argument]) {
        state.waited = false;
        if state.runs_until_poked {
            state.running.push((*shape, arguments.to_vec()));
            return;
        }
        assert_eq!(arguments.len(), self.params.len());
        let maps = arguments.iter().filter_map(|a| if let Argument::Map(map) = a { Some(*map) } else { None });
        state.maps = maps.collect();
        let values = arguments.iter().map(|argument| match argument {
            Argument::Value { bytes, .. } => bytes[0],
            Argument::Address(address) => address.0,
            Argument::Map(map) => map.address.0,
        });
        let arguments: Vec<_> = self.params.iter().cloned().zip(values).collect();
        (self.body)(&mut Call { arguments: &arguments, memory: &mut state.memory, shape: *shape });
    }

    fn with<T>(&self, what: &'static str, run: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.state.lock().unwrap();
        *state.counts.entry(what).or_default() += 1;
        run(&mut state)
    }
}

/// The address of the flag, which is not GPU memory.
const FLAG: u64 = 64;

/// Returns the allocation that an address lies in, and the offset.
fn at(memory: &mut BTreeMap<u64, Vec<u8>>, address: Address) -> (&mut Vec<u8>, usize) {
    let (start, bytes) = memory.range_mut(..=address.0).next_back().expect("an address of this driver");
    (bytes, (address.0 - start) as usize)
}

impl Driver for Fake {
    fn properties(&self) -> &Properties {
        &self.properties
    }
    fn allocate(&self, bytes: u64) -> Answer<Address> {
        self.with("allocate", |state| {
            let held: u64 = state.memory.values().map(|b| b.len() as u64).sum();
            if held + bytes > self.properties.memory {
                let name = "CUDA_ERROR_OUT_OF_MEMORY".into();
                return Err(Refusal { call: "cuMemAllocAsync".into(), code: Refusal::OUT_OF_MEMORY, name });
            }
            state.next += 1 << 40;
            let address = state.next;
            // Fresh memory is filled with nonzero bytes.
            state.memory.insert(address, vec![0xa5; bytes as usize]);
            Ok(Address(address))
        })
    }
    fn free(&self, address: Address) {
        self.with("free", |state| {
            beside::is_over(state, address);
            assert!(state.memory.remove(&address.0).is_some(), "freed twice");
        });
    }
    fn zero(&self, address: Address, bytes: u64) -> Answer {
        self.with("zero", |state| {
            let (memory, start) = at(&mut state.memory, address);
            memory[start..start + bytes as usize].fill(0);
        });
        Ok(())
    }
    fn upload(&self, to: Address, bytes: &[u8]) -> Answer {
        self.with("upload", |state| {
            let (memory, start) = at(&mut state.memory, to);
            memory[start..start + bytes.len()].copy_from_slice(bytes);
        });
        Ok(())
    }
    fn download(&self, from: Address, bytes: &mut [u8]) -> Answer {
        self.with("download", |state| {
            state.wait();
            let (memory, start) = at(&mut state.memory, from);
            bytes.copy_from_slice(&memory[start..start + bytes.len()]);
        });
        Ok(())
    }
    fn copy(&self, to: Address, from: Address, bytes: u64) -> Answer {
        self.with("copy", |state| {
            let (memory, start) = at(&mut state.memory, from);
            let copied = memory[start..start + bytes as usize].to_vec();
            let (memory, start) = at(&mut state.memory, to);
            memory[start..start + bytes as usize].copy_from_slice(&copied);
        });
        Ok(())
    }
    fn copy_from_peer(&self, to: Address, from: Peer, bytes: u64, _: [Event; 2], _: Event) -> Answer {
        self.copy(to, from.address, bytes)
    }
    fn load(&self, cubin: &[u8]) -> Answer<Module> {
        assert!(cubin.starts_with(b"machine code of "));
        self.with("load", |state| match std::mem::take(&mut state.refuses_load) {
            true => Err(Refusal { call: "cuModuleLoadData".into(), code: 2, name: "CUDA_ERROR_OUT_OF_MEMORY".into() }),
            false => Ok(Module(1)),
        })
    }
    fn unload(&self, _: Module) {
        self.with("unload", |state| {
            if !state.waited && state.counts.contains_key("launch") {
                *state.counts.entry("unload early").or_default() += 1;
            }
        });
    }
    fn function(&self, _: Module, _: &str) -> Answer<Function> {
        Ok(Function(1))
    }
    fn allow_shared(&self, _: Function, _: u32) -> Answer {
        Ok(())
    }
    fn static_shared(&self, _: Function) -> u32 {
        0
    }
    fn resident_blocks(&self, _: Function, _: u32, _: u32) -> Answer<u32> {
        Ok(self.state.lock().unwrap().resident.unwrap_or(self.properties.multiprocessors))
    }
    unsafe fn launch(&self, _: Function, shape: &Shape, arguments: &[Argument]) -> Answer {
        self.with("launch", |state| self.run(state, shape, arguments));
        Ok(())
    }
    unsafe fn graph(&self, launches: &[Launch]) -> Answer<Graph> {
        Ok(self.with("graph", |state| {
            state.graphs.push(Some(launches.to_vec()));
            Graph(state.graphs.len() - 1)
        }))
    }
    unsafe fn run_graph(&self, graph: Graph, changes: &[(usize, &Launch)]) -> Answer {
        self.with("run_graph", |state| {
            *state.counts.entry("change").or_default() += changes.len();
            let mut launches = state.graphs[graph.0].take().expect("a graph that is kept");
            changes.iter().for_each(|&(index, launch)| launches[index] = launch.clone());
            launches.iter().for_each(|launch| self.run(state, &launch.shape, &launch.arguments));
            state.graphs[graph.0] = Some(launches);
        });
        Ok(())
    }
    fn forget_graph(&self, graph: Graph) {
        self.with("forget_graph", |state| assert!(state.graphs[graph.0].take().is_some(), "forgotten twice"));
    }
    fn flag(&self) -> Answer<Address> {
        self.with("flag", |state| {
            state.memory.entry(FLAG).or_insert_with(|| vec![0; 4]);
        });
        Ok(Address(FLAG))
    }
    fn is_flag_up(&self) -> bool {
        let state = self.state.lock().unwrap();
        (!state.late || state.waited) && state.memory.get(&FLAG).is_some_and(|word| word[0] != 0)
    }
    fn lower_flag(&self) {
        self.with("lower_flag", |state| state.memory.get_mut(&FLAG).expect("the flag").fill(0));
    }
    fn synchronize(&self) -> Answer {
        self.with("synchronize", State::wait);
        Ok(())
    }
    fn is_idle(&self) -> Answer<bool> {
        let mut state = self.state.lock().unwrap();
        state.waited |= state.running.is_empty();
        Ok(state.waited)
    }
    fn is_reached(&self, _: Event) -> Answer<bool> {
        self.is_idle()
    }
    fn poke(&self, words: Words, value: u32) -> Answer {
        self.with("poke", |state| {
            for k in 0..words.count {
                let (memory, at) = at(&mut state.memory, Address(words.first.0 + k * words.pitch));
                memory[at..at + 4].copy_from_slice(&value.to_le_bytes());
            }
            state.runs_until_poked = false;
            for (shape, arguments) in std::mem::take(&mut state.running) {
                self.run(state, &shape, &arguments);
            }
        });
        Ok(())
    }
    fn memory(&self) -> Answer<(u64, u64)> {
        let held: u64 = self.state.lock().unwrap().memory.values().map(|b| b.len() as u64).sum();
        Ok((self.properties.memory - held, self.properties.memory))
    }
    fn trim(&self) -> Answer {
        self.with("trim", |_| Ok(()))
    }
    fn event(&self) -> Answer<Event> {
        self.with("event", |_| Ok(Event(1)))
    }
    fn record(&self, _: Event) -> Answer {
        Ok(())
    }
    fn wait(&self, event: Event) -> Answer {
        self.with("wait", |state| beside::arrive(state, event));
        Ok(())
    }
    fn come_behind(&self, stream: usize) -> Answer {
        self.with("come_behind", |state| lent::meet(state, stream))
    }
    fn go_before(&self, streams: &[usize]) -> Answer {
        self.with("go_before", |state| lent::part(state, streams))
    }
    fn has_beside(&self) -> bool {
        true
    }
    fn upload_beside(&self, to: Address, bytes: &[u8], after: Event) -> Answer<Event> {
        self.with("upload_beside", |state| beside::begin(state, to, bytes, after))
    }
    fn elapsed(&self, _: Event, _: Event) -> Answer<f64> {
        Ok(1.5)
    }
    fn forget_event(&self, _: Event) {
        self.with("forget_event", |_| ());
    }
}

/// Returns a GPU with this much memory, a kernel on it, and its driver.
fn gpu(prepared: Prepared, memory: u64, body: Body) -> (Gpu, Arc<dyn Executable>, Arc<Fake>) {
    let properties = Properties {
        name: "Fake".into(),
        architecture: 90,
        memory,
        multiprocessors: 4,
        shared_per_block: 227 << 10,
        grid: [i32::MAX as u32, 65535, 65535],
        ..Properties::default()
    };
    let options = Options { stop: true, product: Some(Copies::Boxes), ..Options::default() };
    let params = cuda_text(&prepared, &options, None).params;
    let fake = Arc::new(Fake { properties: properties.clone(), params, body, state: Mutex::default() });
    let driver = fake.clone();
    let settings = Settings { timed: true, ..Settings::default() };
    let gpu = Gpu::with_parts(properties, settings, move |_| Ok(driver), || Ok(Arc::new(Paper)));
    let kernel = gpu.load(Arc::new(prepared));
    (gpu, kernel, fake)
}

fn f32_array(b: &mut FunctionBuilder, name: &str, access: Access) -> MemId {
    b.array(name, access, Layout::plain(crate::ir::typing::F32), 1)
}

/// Returns the kernel `y[i] = x[i + shift]`, where `shift` is an argument or absent; for an `inout` array `y[i] += …`.
fn shifted(access: Access, shift: bool) -> Prepared {
    let mut b = FunctionBuilder::new("shifted");
    let d = shift.then(|| b.value("d", crate::ir::typing::I32));
    let x = f32_array(&mut b, "x", Access::In);
    let y = f32_array(&mut b, "y", access);
    let i = b.index(0);
    let from = d.map_or(i, |d| b.binary(BinOp::Add, i, d));
    let mut v = b.load(x, &[from]);
    if access == Access::InOut {
        let old = b.load(y, &[i]);
        v = b.binary(BinOp::Add, old, v);
    }
    b.store(y, &[i], v);
    let module = verify(module(Default::default(), b, Form::Threads { rank: 1 })).expect("a sound kernel");
    Prepared::new(module, Default::default())
}

fn copy(call: &mut Call<'_>) {
    assert!(call.shape.grid[0] > 0 && call.shape.block[0] > 0);
    let x = call.array(0).clone();
    *call.array(1) = x;
}

fn storage(values: &[f32]) -> Storage {
    Storage::of_bytes(AlignedBytes::copy_of(bytemuck::cast_slice(values)).unwrap())
}

fn floats(storage: &Storage) -> Vec<f32> {
    bytemuck::cast_slice(storage.bytes().unwrap()).to_vec()
}

fn run(kernel: &Arc<dyn Executable>, x: &Storage, y: &mut Storage) -> Result<String, Box<crate::device::Fault>> {
    let n = x.len() as u32 / 4;
    let args = &mut [Arg::Array { storage: x, shape: vec![n] }, Arg::ArrayMut { storage: y, shape: vec![n] }];
    kernel.launch(Extents::Threads([n, 1, 1]), args, &Control::default())
}

#[test]
fn arrays_stay_where_they_are_used() {
    let (gpu, kernel, fake) = gpu(shifted(Access::Out, false), 1 << 20, copy);
    let (x, mut y, mut z) = (storage(&[1.0, 2.0, 3.0]), Storage::zeros(12), Storage::zeros(12));
    for _ in 0..5 {
        run(&kernel, &x, &mut y).unwrap();
        run(&kernel, &y, &mut z).unwrap();
    }
    assert_eq!((fake.count("upload"), fake.count("download"), fake.count("launch")), (1, 0, 10));
    assert_eq!(fake.count("zero"), 0, "every element is written, whatever was there before");
    assert_eq!(fake.count("load"), 1);
    assert_eq!(floats(&z), [1.0, 2.0, 3.0]);
    assert_eq!(floats(&z), [1.0, 2.0, 3.0]);
    assert_eq!(fake.count("download"), 1);
    let stats = gpu.statistics();
    assert_eq!((stats.launches, stats.uploaded, stats.downloaded, stats.compiled, stats.held), (10, 12, 12, 1, 36));
    assert!((stats.kernel_seconds - 0.015).abs() < 1e-9, "{stats:?}");
    drop((x, y, z));
    assert_eq!(gpu.statistics().held, 0);
    assert_eq!(gpu.statistics().held_most, 36);
    drop((kernel, gpu));
    assert_eq!((fake.count("unload"), fake.state.lock().unwrap().memory.len()), (1, 0));
}

#[test]
fn a_failed_load_is_tried_again() {
    let (_gpu, kernel, fake) = gpu(shifted(Access::Out, false), 1 << 20, copy);
    let (x, mut y) = (storage(&[1.0, 2.0]), Storage::zeros(8));
    fake.state.lock().unwrap().refuses_load = true;
    let fault = run(&kernel, &x, &mut y).expect_err("the module is not loaded");
    assert!(format!("{fault:?}").contains("CUDA_ERROR_OUT_OF_MEMORY"), "{fault:?}");
    run(&kernel, &x, &mut y).expect("it is loaded now");
    run(&kernel, &x, &mut y).expect("it stays loaded");
    assert_eq!((floats(&y), fake.count("load")), (vec![1.0, 2.0], 2));
}

#[test]
fn what_is_shared_is_copied_before_it_is_written() {
    let (_gpu, kernel, fake) = gpu(shifted(Access::InOut, false), 1 << 20, copy);
    let (x, mut y) = (storage(&[1.0, 2.0]), storage(&[8.0, 9.0]));
    run(&kernel, &x, &mut y).unwrap();
    let mut copy = y.duplicate().unwrap();
    let other = storage(&[5.0, 6.0]);
    run(&kernel, &other, &mut copy).unwrap();
    assert_eq!((floats(&y), floats(&copy)), (vec![1.0, 2.0], vec![5.0, 6.0]));
    assert_eq!((fake.count("copy"), fake.count("upload")), (1, 3));
    // After a write on the host it is uploaded again; after a read it is not.
    y.bytes_mut().unwrap()[..4].copy_from_slice(&7.0f32.to_le_bytes());
    run(&kernel, &y, &mut copy).unwrap();
    run(&kernel, &y, &mut copy).unwrap();
    assert_eq!(floats(&copy), [7.0, 2.0]);
    assert_eq!(fake.count("upload"), 4);
}

#[test]
fn bytes_of_the_callers_go_and_come_back() {
    let (_gpu, kernel, fake) = gpu(shifted(Access::Out, false), 1 << 20, copy);
    let (x, mut y) = ([1u32, 2, 3, 4], [0u32; 4]);
    let args = &mut [
        Arg::Read { bytes: bytemuck::cast_slice(&x), shape: vec![4] },
        Arg::Write { bytes: bytemuck::cast_slice_mut(&mut y), shape: vec![4] },
    ];
    kernel.launch(Extents::Threads([4, 1, 1]), args, &Control::default()).unwrap();
    assert_eq!(y, x);
    assert!(fake.state.lock().unwrap().memory.is_empty(), "nothing is left there");
}

#[test]
fn a_launch_of_nothing_starts_nothing() {
    let (_gpu, kernel, fake) = gpu(shifted(Access::Out, false), 1 << 20, copy);
    let (x, mut y) = (Storage::zeros(0), Storage::zeros(0));
    run(&kernel, &x, &mut y).unwrap();
    assert_eq!((fake.count("launch"), fake.count("allocate")), (0, 0));
}

#[test]
fn arrays_are_moved_to_the_host_where_memory_is_full() {
    let (gpu, kernel, fake) = gpu(shifted(Access::Out, false), 100, copy);
    let made: Vec<Storage> = (1..=5u8)
        .map(|v| {
            let (x, mut y) = (storage(&[f32::from(v); 10]), Storage::zeros(40));
            run(&kernel, &x, &mut y).unwrap();
            y
        })
        .collect();
    assert_eq!(gpu.spilled(), 4 * 40, "two arrays have room");
    assert!(fake.count("trim") > 0, "what the pool kept was given back first");
    // One is read on the host, another one is brought back, for which the one that was used last has to go.
    assert_eq!(floats(&made[1]), [2.0; 10]);
    let (downloads, mut z) = (fake.count("download"), Storage::zeros(40));
    run(&kernel, &made[0], &mut z).unwrap();
    assert_eq!((gpu.spilled(), fake.count("download")), (5 * 40, downloads + 1));
    let found: Vec<f32> = made.iter().chain([&z]).map(|y| floats(y)[9]).collect();
    assert_eq!(found, [1.0, 2.0, 3.0, 4.0, 5.0, 1.0]);
    // A copy of one that was moved, and a write in place, do not change the other.
    let mut twin = made[2].duplicate().unwrap();
    run(&kernel, &made[0], &mut twin).unwrap();
    assert_eq!((floats(&twin)[0], floats(&made[2])[0]), (1.0, 3.0));
    drop((made, z, twin));
    assert!(fake.state.lock().unwrap().memory.keys().all(|&at| at == FLAG), "nothing is left there");
}

#[test]
fn full_memory_is_an_error_with_its_numbers_and_loses_nothing() {
    let (_gpu, kernel, fake) = gpu(shifted(Access::Out, false), 100, copy);
    let (x, mut y) = (storage(&[1.0; 10]), Storage::zeros(40));
    run(&kernel, &x, &mut y).unwrap();
    drop(x);
    // Another program's.
    fake.state.lock().unwrap().memory.insert(1 << 60, vec![0; 40]);
    let mut z = Storage::zeros(40);
    let fault = run(&kernel, &y, &mut z).unwrap_err();
    let expected = DeviceError::OutOfMemory { device: "gpu:0".into(), wanted: 40, free: 20, total: 100, arrays: 40 };
    assert_eq!(fault.kind, FaultKind::Device(expected));
    assert_eq!(fake.count("trim"), 1, "what the pool kept was given back first");
    assert_eq!(floats(&y), [1.0; 10]);
    fake.state.lock().unwrap().memory.remove(&(1 << 60));
    run(&kernel, &y, &mut z).unwrap();
    assert_eq!(floats(&z), [1.0; 10]);
    // A launch that can never fit is rejected up front.
    let (large, mut result) = (Storage::zeros(80), Storage::zeros(80));
    let copies = fake.count("allocate");
    let fault = run(&kernel, &large, &mut result).unwrap_err();
    assert!(matches!(fault.kind, FaultKind::Device(DeviceError::TooLarge { .. })), "{fault:?}");
    assert_eq!(fake.count("allocate"), copies);
}

/// Acts as a thread that faults: fills its record and notifies the host. Place 0, one other thread, index 3; the index 5 of 5.
fn report(call: &mut Call<'_>, place: u32) {
    let record = Address(call.find(KernelArgument::Faults));
    let (memory, start) = at(call.memory, record);
    let record = &mut memory[start..start + FAULT_BYTES];
    if record[..4] != [0; 4] {
        return;
    }
    let stop = record[4];
    let words = [place + 1, stop.into(), 1, 2, 0, 0, 0, 3, 0, 0, 5, 0, 5, 0];
    record[..4 * words.len()].copy_from_slice(bytemuck::cast_slice(&words));
    let number = |at: usize| u64::from_le_bytes(record[at..at + 8].try_into().unwrap());
    let (first, flag) = (number(FAULT_NOTICE_AT), number(FAULT_NOTICE_AT + 8));
    let own = number(FAULT_NOTICE_AT + 16) as u32;
    if first != 0 {
        let (memory, start) = at(call.memory, Address(first));
        if memory[start..start + 4] == [0; 4] {
            memory[start..start + 4].copy_from_slice(&own.to_le_bytes());
        }
        call.memory.get_mut(&flag).expect("the flag")[..4].copy_from_slice(&1u32.to_le_bytes());
    }
}

/// Faults if its shift is not zero.
fn copy_or_report(call: &mut Call<'_>) {
    let record = Address(call.find(KernelArgument::Faults));
    let (memory, start) = at(call.memory, record);
    assert!(memory[start..start + FAULT_NOTICE_AT].iter().all(|&b| b == 0), "the record is zero before the launch");
    match call.find(KernelArgument::Value { param: 0, ty: crate::ir::typing::I32 }) as i32 {
        0 => {
            let x = call.array(1).clone();
            *call.array(2) = x;
        }
        _ => report(call, 0),
    }
}

fn line(number: u32) -> crate::base::source::Span {
    crate::base::source::Span { start: number, end: number + 1, ..Default::default() }
}

/// Launches [`shifted`] from a statement at `place`.
fn shift(
    kernel: &Arc<dyn Executable>,
    d: i32,
    x: &Storage,
    y: &mut Storage,
    place: u32,
    wait: bool,
) -> Result<String, Box<crate::device::Fault>> {
    let n = x.len() as u32 / 4;
    let args = &mut [
        Arg::Value(vec![Value::of(d)]),
        Arg::Array { storage: x, shape: vec![n] },
        Arg::ArrayMut { storage: y, shape: vec![n] },
    ];
    kernel.launch(Extents::Threads([n, 1, 1]), args, &Control { launched: line(place), wait, ..Control::default() })
}

fn is_out_of_bounds(fault: &crate::device::Fault) {
    let expected =
        FaultKind::OutOfBounds { array: "x".into(), indices: vec![5], shape: vec![5], axis: 0, write: false };
    assert_eq!((&fault.kind, fault.index.as_deref(), fault.others), (&expected, Some(&[3][..]), 1));
}

fn earlier(error: DeviceError) -> crate::device::Earlier {
    match error {
        DeviceError::Earlier(earlier) => *earlier,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_launch_that_is_waited_for_has_its_own_fault() {
    let (gpu, kernel, fake) = gpu(shifted(Access::Out, true), 1 << 20, copy_or_report);
    let (x, mut y) = (storage(&[1.0; 5]), Storage::zeros(20));
    is_out_of_bounds(&shift(&kernel, 2, &x, &mut y, 1, true).unwrap_err());
    shift(&kernel, 0, &x, &mut y, 2, true).unwrap();
    gpu.confirm().unwrap();
    assert_eq!(floats(&y), [1.0; 5]);
    assert_eq!(fake.count("flag"), 0);
}

#[test]
fn a_fault_shows_when_something_is_read_and_only_then() {
    let (gpu, kernel, fake) = gpu(shifted(Access::Out, true), 1 << 20, copy_or_report);
    let (x, mut y) = (storage(&[1.0; 5]), Storage::zeros(20));
    shift(&kernel, 0, &x, &mut y, 1, false).unwrap();
    let (allocated, zeroed) = (fake.count("allocate"), fake.count("zero"));
    for place in 2..100 {
        shift(&kernel, 0, &x, &mut y, place, false).unwrap();
    }
    assert_eq!((fake.count("allocate"), fake.count("zero")), (allocated, zeroed), "a launch costs no memory");
    assert_eq!((fake.count("download"), fake.count("synchronize")), (0, 0), "and waits for nothing");
    gpu.confirm().unwrap();
    let (mut z, mut w) = (Storage::zeros(20), Storage::zeros(20));
    // The second launch is not issued if the flag is seen in time; here it is raised too late.
    fake.state.lock().unwrap().late = true;
    shift(&kernel, 1, &x, &mut z, 7, false).unwrap();
    shift(&kernel, 2, &x, &mut w, 8, false).unwrap();
    shift(&kernel, 0, &x, &mut w, 9, false).unwrap();
    fake.state.lock().unwrap().late = false;
    let found = earlier(z.bytes().unwrap_err());
    is_out_of_bounds(&found.fault);
    assert_eq!(found.launched, line(7), "the first of them, at its own launch");
    gpu.confirm().expect("it is reported once");
    // The GPU still works, and the next fault is reported on its own.
    assert_eq!((floats(&y), floats(&w), z.bytes().is_ok()), (vec![1.0; 5], vec![1.0; 5], true));
    shift(&kernel, 0, &x, &mut z, 10, false).unwrap();
    assert_eq!(floats(&z), [1.0; 5]);
    shift(&kernel, 3, &x, &mut z, 11, false).unwrap();
    assert_eq!(earlier(gpu.finish().unwrap_err()).launched, line(11));
}

#[test]
fn a_fault_is_seen_at_the_next_launch() {
    let (_gpu, kernel, fake) = gpu(shifted(Access::Out, true), 1 << 20, copy_or_report);
    let (x, mut y) = (storage(&[1.0; 5]), Storage::zeros(20));
    shift(&kernel, 1, &x, &mut y, 1, false).unwrap();
    let launches = fake.count("launch");
    let fault = shift(&kernel, 0, &x, &mut y, 2, false).unwrap_err();
    let FaultKind::Device(error) = fault.kind else { panic!("{fault:?}") };
    assert_eq!(earlier(error).launched, line(1));
    assert_eq!(fake.count("launch"), launches, "it was not made");
    shift(&kernel, 0, &x, &mut y, 3, false).unwrap();
}

#[test]
fn records_are_used_again_without_mixing_launches_up() {
    let (gpu, kernel, fake) = gpu(shifted(Access::Out, true), 1 << 20, copy_or_report);
    let (x, mut y) = (storage(&[1.0; 5]), Storage::zeros(20));
    for place in 0..5000 {
        shift(&kernel, 0, &x, &mut y, place, false).unwrap();
    }
    assert_eq!(fake.count("synchronize"), 0);
    fake.state.lock().unwrap().late = true;
    let mut found = None;
    for place in 5000..8000 {
        let result = shift(&kernel, i32::from(place >= 5700), &x, &mut y, place, false);
        if let Err(fault) = result {
            found = Some((place, fault));
            break;
        }
    }
    let (place, fault) = found.expect("found when its half of the ring is needed again");
    assert!(place < 5700 + 1024, "{place}");
    let FaultKind::Device(error) = fault.kind else { panic!("{fault:?}") };
    assert_eq!(earlier(error).launched, line(5700));
    fake.state.lock().unwrap().late = false;
    gpu.confirm().unwrap();
    assert_eq!(fake.count("event"), fake.count("forget_event"), "events are given back");
}

/// Runs `y = x; z = y; …` through all of these arrays in a batch; `place` is the first statement's.
fn relay(gpu: &Gpu, kernel: &Arc<dyn Executable>, arrays: &mut [Storage], shifts: &[i32], place: u32) {
    gpu.begin_batch();
    for (k, d) in shifts.iter().enumerate() {
        let [x, y] = &mut arrays[k..k + 2] else { panic!("an array for each launch") };
        shift(kernel, *d, x, y, place + k as u32, false).unwrap();
    }
    gpu.end_batch().unwrap();
}

fn chain(first: f32, count: usize) -> Vec<Storage> {
    std::iter::once(storage(&[first; 5])).chain((0..count).map(|_| Storage::zeros(20))).collect()
}

#[test]
fn a_batch_that_comes_again_is_one_graph() {
    let (gpu, kernel, fake) = gpu(shifted(Access::Out, true), 1 << 20, copy_or_report);
    let counts = |what: &[&'static str]| what.iter().map(|what| fake.count(what)).collect::<Vec<_>>();
    let mut arrays = chain(1.0, 4);
    relay(&gpu, &kernel, &mut arrays, &[0; 4], 1);
    assert_eq!(counts(&["launch", "graph", "run_graph"]), [4, 0, 0], "the first time one by one");
    assert_eq!(floats(&arrays[4]), [1.0; 5]);
    for _ in 0..10 {
        relay(&gpu, &kernel, &mut arrays, &[0; 4], 1);
    }
    assert_eq!(counts(&["launch", "graph", "run_graph", "change"]), [4, 1, 10, 0]);
    // Other arrays are new arguments of the same graph.
    let mut others = chain(2.0, 4);
    relay(&gpu, &kernel, &mut others, &[0; 4], 1);
    assert_eq!(counts(&["launch", "graph", "run_graph", "change"]), [4, 1, 11, 4]);
    assert_eq!((floats(&arrays[4]), floats(&others[4])), (vec![1.0; 5], vec![2.0; 5]));
    // A longer run has the same prefix but is a different run.
    let mut longer = chain(3.0, 6);
    relay(&gpu, &kernel, &mut longer, &[0; 6], 1);
    assert_eq!(counts(&["launch", "graph", "run_graph"]), [10, 1, 11]);
    assert_eq!(floats(&longer[6]), [3.0; 5]);
    // So is a shorter one.
    relay(&gpu, &kernel, &mut longer, &[0; 2], 1);
    assert_eq!(counts(&["launch", "graph", "run_graph"]), [12, 1, 11]);
    gpu.confirm().unwrap();
    assert_eq!(gpu.statistics().launches, 4 * 12 + 8);
    drop((arrays, others, longer));
    drop(kernel);
    assert_eq!(fake.count("forget_graph"), 1, "with its kernel a graph goes");
    drop(gpu);
    let left: Vec<u64> = fake.state.lock().unwrap().memory.keys().copied().filter(|&at| at != FLAG).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn reading_in_a_batch_is_no_error() {
    let (gpu, kernel, fake) = gpu(shifted(Access::Out, true), 1 << 20, copy_or_report);
    for iteration in 0..3 {
        let mut arrays = chain(iteration as f32, 6);
        gpu.begin_batch();
        gpu.begin_batch();
        for k in 0..6 {
            let [x, y] = &mut arrays[k..k + 2] else { panic!("an array for each launch") };
            shift(&kernel, 0, x, y, 1, false).unwrap();
            if k == 2 {
                assert_eq!(floats(y), [iteration as f32; 5]);
            }
        }
        gpu.end_batch().unwrap();
        // The outer batch is still open.
        drop(arrays.remove(2));
        gpu.end_batch().unwrap();
        assert_eq!(floats(&arrays[5]), [iteration as f32; 5]);
    }
    // Both halves are the same run of three launches.
    assert_eq!((fake.count("launch"), fake.count("graph"), fake.count("run_graph")), (3, 1, 5));
}

#[test]
fn a_fault_in_a_batch_is_its_own_launchs() {
    let (gpu, kernel, fake) = gpu(shifted(Access::Out, true), 1 << 20, copy_or_report);
    let mut arrays = chain(1.0, 4);
    for _ in 0..3 {
        relay(&gpu, &kernel, &mut arrays, &[0; 4], 1);
    }
    gpu.confirm().unwrap();
    fake.state.lock().unwrap().late = true;
    relay(&gpu, &kernel, &mut arrays, &[0, 0, 1, 1], 20);
    shift(&kernel, 1, &arrays[0], &mut Storage::zeros(20), 30, false).unwrap();
    let found = earlier(gpu.confirm().unwrap_err());
    assert_eq!(found.launched, line(22), "the third of the graph's");
    is_out_of_bounds(&found.fault);
    // Its records are reset.
    relay(&gpu, &kernel, &mut arrays, &[0; 4], 40);
    gpu.confirm().unwrap();
    assert_eq!(floats(&arrays[4]), [1.0; 5]);
    assert_eq!(fake.count("graph"), 1);
}

#[test]
fn the_float_that_a_kernel_writes_is_the_one_that_is_read() {
    let (_gpu, kernel, _) = gpu(shifted(Access::InOut, false), 1 << 20, |call| {
        let doubled: Vec<f32> = call.floats(0).iter().map(|v| 2.0 * v).collect();
        call.array(1).copy_from_slice(bytemuck::cast_slice(&doubled));
    });
    let (x, mut y) = (storage(&[1.5, -2.0]), storage(&[0.0, 0.0]));
    run(&kernel, &x, &mut y).unwrap();
    assert_eq!(floats(&y), [3.0, -4.0]);
}
