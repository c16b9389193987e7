//! Tests of the CUDA runtime with a fake driver, whose GPU memory is host memory and whose kernels are Rust functions.

mod declared;
mod endless;
mod fake_compiler;
mod imports;
mod overlapped_uploads;
mod peers;
mod products;
mod tiles;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use self::fake_compiler::Paper;
use super::driver::{
    DevicePtr, Driver, DriverArgument, DriverError, DriverFunction, DriverLaunch, DriverModule, DriverResult, Graph,
    LaunchShape, Peer, Properties, StickyError, StreamEvent, StridedWords, TensorMap,
};
use super::nvrtc::{CudaCompiler, NvrtcError, NvrtcOutput};
use super::text::abi::{CodegenOptions, KernelArgument, TmaBox};
use super::text::{OperandStaging, cuda_text};
use super::{CudaGpu, GpuSettings};
use clk_base::aligned::AlignedBytes;
use clk_ir::PreparedKernel;
use clk_ir::build::{FunctionBuilder, build_module};
use clk_ir::def::*;
use clk_ir::verify::verify;
use clk_runtime::fault_record::{NOTICE_AT, RECORD_BYTES};
use clk_runtime::import::ForeignStream;
use clk_runtime::storage::Storage;
use clk_runtime::{
    Arg, Control, Device, DeviceError, DeviceMemory, Executable, FaultKind, Interop, LaunchConfig, LaunchExtents,
};
use clk_scalar::ScalarValue;
use clk_scalar::tensor_core_model::TensorCoreModel;

/// A launch as the fake kernel sees it: the arguments by kind, and the memory to which they point.
struct Call<'a> {
    arguments: &'a [(KernelArgument, u64)],
    memory: &'a mut BTreeMap<u64, Vec<u8>>,
    shape: LaunchShape,
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

/// The fake driver, which counts calls.
struct Fake {
    properties: Properties,
    params: Vec<KernelArgument>,
    body: Body,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Maximum number of resident blocks of a cooperative launch. `None`: one block per multiprocessor.
    resident: Option<u32>,
    memory: BTreeMap<u64, Vec<u8>>,
    /// Whether the next load of a module fails.
    refuses_load: bool,
    graphs: Vec<Option<Vec<DriverLaunch>>>,
    /// Whether the flag becomes visible only in a wait, as if kernels started only then.
    late: bool,
    /// Whether kernels run until their stop words are written.
    runs_until_poked: bool,
    running: Vec<(LaunchShape, Vec<DriverArgument>)>,
    /// The tensor maps of the last launch.
    maps: Vec<TensorMap>,
    /// Overlapped copies for which no operation has waited yet, by their event.
    beside: BTreeMap<usize, (u64, Vec<u8>)>,
    /// Whether a wait followed the last launch.
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

    /// Runs the kernel of a launch.
    fn run(&self, state: &mut State, shape: &LaunchShape, arguments: &[DriverArgument]) {
        state.waited = false;
        if state.runs_until_poked {
            state.running.push((*shape, arguments.to_vec()));
            return;
        }
        assert_eq!(arguments.len(), self.params.len());
        let maps = arguments.iter().filter_map(|a| if let DriverArgument::Map(map) = a { Some(*map) } else { None });
        state.maps = maps.collect();
        let values = arguments.iter().map(|argument| match argument {
            DriverArgument::Value { bytes, .. } => bytes[0],
            DriverArgument::Address(address) => address.0,
            DriverArgument::Map(map) => map.address.0,
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

/// Returns the allocation that contains an address, and the offset.
fn at(memory: &mut BTreeMap<u64, Vec<u8>>, address: DevicePtr) -> (&mut Vec<u8>, usize) {
    let (start, bytes) = memory.range_mut(..=address.0).next_back().expect("an address of this driver");
    (bytes, (address.0 - start) as usize)
}

impl Driver for Fake {
    fn properties(&self) -> &Properties {
        &self.properties
    }
    fn allocate(&self, bytes: u64) -> DriverResult<DevicePtr> {
        self.with("allocate", |state| {
            let used_bytes: u64 = state.memory.values().map(|b| b.len() as u64).sum();
            if used_bytes + bytes > self.properties.memory {
                let name = "CUDA_ERROR_OUT_OF_MEMORY".into();
                return Err(DriverError { call: "cuMemAllocAsync".into(), code: DriverError::OUT_OF_MEMORY, name });
            }
            state.next += 1 << 40;
            let address = state.next;
            // Fill new memory with nonzero bytes, because real memory is uninitialized.
            state.memory.insert(address, vec![0xa5; bytes as usize]);
            Ok(DevicePtr(address))
        })
    }
    fn free(&self, address: DevicePtr) {
        self.with("free", |state| {
            overlapped_uploads::is_over(state, address);
            assert!(state.memory.remove(&address.0).is_some(), "freed twice");
        });
    }
    fn zero(&self, address: DevicePtr, bytes: u64) -> DriverResult {
        self.with("zero", |state| {
            let (memory, start) = at(&mut state.memory, address);
            memory[start..start + bytes as usize].fill(0);
        });
        Ok(())
    }
    fn upload(&self, to: DevicePtr, bytes: &[u8]) -> DriverResult {
        self.with("upload", |state| {
            let (memory, start) = at(&mut state.memory, to);
            memory[start..start + bytes.len()].copy_from_slice(bytes);
        });
        Ok(())
    }
    fn download(&self, from: DevicePtr, bytes: &mut [u8]) -> DriverResult {
        self.with("download", |state| {
            state.wait();
            let (memory, start) = at(&mut state.memory, from);
            bytes.copy_from_slice(&memory[start..start + bytes.len()]);
        });
        Ok(())
    }
    fn copy(&self, to: DevicePtr, from: DevicePtr, bytes: u64) -> DriverResult {
        self.with("copy", |state| {
            let (memory, start) = at(&mut state.memory, from);
            let copied = memory[start..start + bytes as usize].to_vec();
            let (memory, start) = at(&mut state.memory, to);
            memory[start..start + bytes as usize].copy_from_slice(&copied);
        });
        Ok(())
    }
    fn copy_from_peer(
        &self,
        to: DevicePtr,
        from: Peer,
        bytes: u64,
        _: [StreamEvent; 2],
        _: StreamEvent,
    ) -> DriverResult {
        self.copy(to, from.address, bytes)
    }
    fn load(&self, cubin: &[u8]) -> DriverResult<DriverModule> {
        assert!(cubin.starts_with(b"machine code of "));
        self.with("load", |state| match std::mem::take(&mut state.refuses_load) {
            true => {
                Err(DriverError { call: "cuModuleLoadData".into(), code: 2, name: "CUDA_ERROR_OUT_OF_MEMORY".into() })
            }
            false => Ok(DriverModule(1)),
        })
    }
    fn unload(&self, _: DriverModule) {
        self.with("unload", |state| {
            if !state.waited && state.counts.contains_key("launch") {
                *state.counts.entry("unload early").or_default() += 1;
            }
        });
    }
    fn function(&self, _: DriverModule, _: &str) -> DriverResult<DriverFunction> {
        Ok(DriverFunction(1))
    }
    fn allow_shared(&self, _: DriverFunction, _: u32) -> DriverResult {
        Ok(())
    }
    fn static_shared(&self, _: DriverFunction) -> u32 {
        0
    }
    fn resident_blocks(&self, _: DriverFunction, _: u32, _: u32) -> DriverResult<u32> {
        Ok(self.state.lock().unwrap().resident.unwrap_or(self.properties.multiprocessors))
    }
    unsafe fn launch(&self, _: DriverFunction, shape: &LaunchShape, arguments: &[DriverArgument]) -> DriverResult {
        self.with("launch", |state| self.run(state, shape, arguments));
        Ok(())
    }
    unsafe fn graph(&self, launches: &[DriverLaunch]) -> DriverResult<Graph> {
        Ok(self.with("graph", |state| {
            state.graphs.push(Some(launches.to_vec()));
            Graph(state.graphs.len() - 1)
        }))
    }
    unsafe fn run_graph(&self, graph: Graph, changes: &[(usize, &DriverLaunch)]) -> DriverResult {
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
    fn flag(&self) -> DriverResult<DevicePtr> {
        self.with("flag", |state| {
            state.memory.entry(FLAG).or_insert_with(|| vec![0; 4]);
        });
        Ok(DevicePtr(FLAG))
    }
    fn is_flag_set(&self) -> bool {
        let state = self.state.lock().unwrap();
        (!state.late || state.waited) && state.memory.get(&FLAG).is_some_and(|word| word[0] != 0)
    }
    fn clear_flag(&self) {
        self.with("lower_flag", |state| state.memory.get_mut(&FLAG).expect("the flag").fill(0));
    }
    fn synchronize(&self) -> DriverResult {
        self.with("synchronize", State::wait);
        Ok(())
    }
    fn is_idle(&self) -> DriverResult<bool> {
        let mut state = self.state.lock().unwrap();
        state.waited |= state.running.is_empty();
        Ok(state.waited)
    }
    fn is_event_reached(&self, _: StreamEvent) -> DriverResult<bool> {
        self.is_idle()
    }
    fn write_words_now(&self, words: StridedWords, value: u32) -> DriverResult {
        self.with("poke", |state| {
            for k in 0..words.count {
                let (memory, at) = at(&mut state.memory, DevicePtr(words.first.0 + k * words.pitch));
                memory[at..at + 4].copy_from_slice(&value.to_le_bytes());
            }
            state.runs_until_poked = false;
            for (shape, arguments) in std::mem::take(&mut state.running) {
                self.run(state, &shape, &arguments);
            }
        });
        Ok(())
    }
    fn memory(&self) -> DriverResult<(u64, u64)> {
        let used_bytes: u64 = self.state.lock().unwrap().memory.values().map(|b| b.len() as u64).sum();
        Ok((self.properties.memory - used_bytes, self.properties.memory))
    }
    fn trim(&self) -> DriverResult {
        self.with("trim", |_| Ok(()))
    }
    fn event(&self) -> DriverResult<StreamEvent> {
        self.with("event", |_| Ok(StreamEvent(1)))
    }
    fn record(&self, _: StreamEvent) -> DriverResult {
        Ok(())
    }
    fn wait(&self, event: StreamEvent) -> DriverResult {
        self.with("wait", |state| overlapped_uploads::arrive(state, event));
        Ok(())
    }
    fn wait_for_stream(&self, stream: ForeignStream) -> DriverResult {
        self.with("come_behind", |state| imports::note_wait(state, stream))
    }
    fn make_streams_wait_for_this(&self, streams: &[ForeignStream]) -> DriverResult {
        self.with("go_before", |state| imports::part(state, streams))
    }
    fn can_overlap_uploads(&self) -> bool {
        true
    }
    fn upload_overlapped(&self, to: DevicePtr, bytes: &[u8], after: StreamEvent) -> DriverResult<StreamEvent> {
        self.with("upload_beside", |state| overlapped_uploads::begin(state, to, bytes, after))
    }
    fn elapsed(&self, _: StreamEvent, _: StreamEvent) -> DriverResult<f64> {
        Ok(1.5)
    }
    fn forget_event(&self, _: StreamEvent) {
        self.with("forget_event", |_| ());
    }

    fn stream(&self) -> Option<usize> {
        None
    }

    unsafe fn lock(&self, _: &[u8]) -> DriverResult {
        Err(DriverError::not_supported("cuMemHostRegister"))
    }

    fn unlock(&self, _: usize) {}

    fn quiet(&self) -> DriverResult {
        self.synchronize()
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

/// Returns a GPU with this much memory, a kernel on it, and the GPU's fake driver.
fn gpu(prepared: PreparedKernel, memory: u64, body: Body) -> (CudaGpu, Arc<dyn Executable>, Arc<Fake>) {
    let properties = Properties {
        name: "Fake".into(),
        architecture: 90,
        memory,
        multiprocessors: 4,
        shared_per_block: 227 << 10,
        grid: [i32::MAX as u32, 65535, 65535],
        ..Properties::default()
    };
    let options = CodegenOptions { stop: true, product: Some(OperandStaging::Boxes), ..CodegenOptions::default() };
    let params = cuda_text(&prepared, &options, None).params;
    let fake = Arc::new(Fake { properties: properties.clone(), params, body, state: Mutex::default() });
    let driver = fake.clone();
    let settings = GpuSettings { timed: true, ..GpuSettings::default() };
    let gpu = CudaGpu::with_parts(properties, settings, move |_| Ok(driver), || Ok(Arc::new(Paper)));
    let kernel = gpu.load(Arc::new(prepared), None);
    (gpu, kernel, fake)
}

fn f32_array(b: &mut FunctionBuilder, name: &str, access: Access) -> MemId {
    b.array(name, access, ElementLayout::plain(clk_ir::typing::F32), 1)
}

/// Returns the kernel `y[i] = x[i + shift]`, where `shift` is an argument or absent; for an `inout` array `y[i] += …`.
fn shifted(access: Access, shift: bool) -> PreparedKernel {
    let mut b = FunctionBuilder::new("shifted");
    let d = shift.then(|| b.value("d", clk_ir::typing::I32));
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
    let module = verify(build_module(Default::default(), b, LaunchForm::Threads { rank: 1 })).expect("a sound kernel");
    PreparedKernel::new(module, Default::default())
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

fn run(kernel: &Arc<dyn Executable>, x: &Storage, y: &mut Storage) -> Result<String, Box<clk_runtime::Fault>> {
    let n = x.len() as u32 / 4;
    let args = &mut [Arg::Array { storage: x, shape: vec![n] }, Arg::ArrayMut { storage: y, shape: vec![n] }];
    kernel.launch(&LaunchExtents::Threads([n, 1, 1]).into(), args, &Control::default())
}

#[test]
fn arrays_stay_on_the_device_that_uses_them() {
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
    assert_eq!(
        (stats.launches, stats.uploaded, stats.downloaded, stats.compiled, stats.array_bytes),
        (10, 12, 12, 1, 36)
    );
    assert!((stats.kernel_seconds - 0.015).abs() < 1e-9, "{stats:?}");
    drop((x, y, z));
    assert_eq!(gpu.statistics().array_bytes, 0);
    assert_eq!(gpu.statistics().peak_array_bytes, 36);
    drop((kernel, gpu));
    assert_eq!((fake.count("unload"), fake.state.lock().unwrap().memory.len()), (1, 0));
}

#[test]
fn failed_loads_are_retried() {
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
fn shared_memory_is_copied_on_write() {
    let (_gpu, kernel, fake) = gpu(shifted(Access::InOut, false), 1 << 20, copy);
    let (x, mut y) = (storage(&[1.0, 2.0]), storage(&[8.0, 9.0]));
    run(&kernel, &x, &mut y).unwrap();
    let mut copy = y.duplicate().unwrap();
    let other = storage(&[5.0, 6.0]);
    run(&kernel, &other, &mut copy).unwrap();
    assert_eq!((floats(&y), floats(&copy)), (vec![1.0, 2.0], vec![5.0, 6.0]));
    assert_eq!((fake.count("copy"), fake.count("upload")), (1, 3));
    // After a write on the host, the array is uploaded again; after a read, it is not.
    y.bytes_mut().unwrap()[..4].copy_from_slice(&7.0f32.to_le_bytes());
    run(&kernel, &y, &mut copy).unwrap();
    run(&kernel, &y, &mut copy).unwrap();
    assert_eq!(floats(&copy), [7.0, 2.0]);
    assert_eq!(fake.count("upload"), 4);
}

#[test]
fn caller_buffers_are_uploaded_and_downloaded() {
    let (_gpu, kernel, fake) = gpu(shifted(Access::Out, false), 1 << 20, copy);
    let (x, mut y) = ([1u32, 2, 3, 4], [0u32; 4]);
    let args = &mut [
        Arg::Read { bytes: bytemuck::cast_slice(&x), shape: vec![4] },
        Arg::Write { bytes: bytemuck::cast_slice_mut(&mut y), shape: vec![4] },
    ];
    kernel.launch(&LaunchExtents::Threads([4, 1, 1]).into(), args, &Control::default()).unwrap();
    assert_eq!(y, x);
    assert!(fake.state.lock().unwrap().memory.is_empty(), "nothing is left there");
}

#[test]
fn empty_launches_start_no_kernel() {
    let (_gpu, kernel, fake) = gpu(shifted(Access::Out, false), 1 << 20, copy);
    let (x, mut y) = (Storage::zeros(0), Storage::zeros(0));
    run(&kernel, &x, &mut y).unwrap();
    assert_eq!((fake.count("launch"), fake.count("allocate")), (0, 0));
}

#[test]
fn arrays_are_evicted_to_the_host_if_memory_is_full() {
    let (gpu, kernel, fake) = gpu(shifted(Access::Out, false), 100, copy);
    let arrays: Vec<Storage> = (1..=5u8)
        .map(|v| {
            let (x, mut y) = (storage(&[f32::from(v); 10]), Storage::zeros(40));
            run(&kernel, &x, &mut y).unwrap();
            y
        })
        .collect();
    assert_eq!(gpu.spilled(), 4 * 40, "two arrays have room");
    assert!(fake.count("trim") > 0, "what the pool kept was given back first");
    // Reading one array on the host makes another resident again, which evicts the least recently used one.
    assert_eq!(floats(&arrays[1]), [2.0; 10]);
    let (downloads, mut z) = (fake.count("download"), Storage::zeros(40));
    run(&kernel, &arrays[0], &mut z).unwrap();
    assert_eq!((gpu.spilled(), fake.count("download")), (5 * 40, downloads + 1));
    let elements: Vec<f32> = arrays.iter().chain([&z]).map(|y| floats(y)[9]).collect();
    assert_eq!(elements, [1.0, 2.0, 3.0, 4.0, 5.0, 1.0]);
    // A copy of an evicted array is independent: a write in place to one array does not change the other.
    let mut twin = arrays[2].duplicate().unwrap();
    run(&kernel, &arrays[0], &mut twin).unwrap();
    assert_eq!((floats(&twin)[0], floats(&arrays[2])[0]), (1.0, 3.0));
    drop((arrays, z, twin));
    assert!(fake.state.lock().unwrap().memory.keys().all(|&at| at == FLAG), "nothing is left there");
}

#[test]
fn exhausted_memory_is_an_error_with_sizes_and_loses_nothing() {
    let (_gpu, kernel, fake) = gpu(shifted(Access::Out, false), 100, copy);
    let (x, mut y) = (storage(&[1.0; 10]), Storage::zeros(40));
    run(&kernel, &x, &mut y).unwrap();
    drop(x);
    // Memory of another program.
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
    // A launch whose arrays exceed the GPU's memory is rejected before anything is copied.
    let (large, mut result) = (Storage::zeros(80), Storage::zeros(80));
    let copies = fake.count("allocate");
    let fault = run(&kernel, &large, &mut result).unwrap_err();
    assert!(matches!(fault.kind, FaultKind::Device(DeviceError::TooLarge { .. })), "{fault:?}");
    assert_eq!(fake.count("allocate"), copies);
}

/// Acts as a thread that faults: fills its fault record and sets the flag. The record has site `place`, one more
/// faulting thread, thread index 3, and array index 5 with extent 5.
fn report(call: &mut Call<'_>, place: u32) {
    let record = DevicePtr(call.find(KernelArgument::Faults));
    let (memory, start) = at(call.memory, record);
    let record = &mut memory[start..start + RECORD_BYTES];
    if record[..4] != [0; 4] {
        return;
    }
    let stop = record[4];
    let words = [place + 1, stop.into(), 1, 2, 0, 0, 0, 3, 0, 0, 5, 0, 5, 0];
    record[..4 * words.len()].copy_from_slice(bytemuck::cast_slice(&words));
    let number = |at: usize| u64::from_le_bytes(record[at..at + 8].try_into().unwrap());
    let (first, flag) = (number(NOTICE_AT), number(NOTICE_AT + 8));
    let own = number(NOTICE_AT + 16) as u32;
    if first != 0 {
        let (memory, start) = at(call.memory, DevicePtr(first));
        if memory[start..start + 4] == [0; 4] {
            memory[start..start + 4].copy_from_slice(&own.to_le_bytes());
        }
        call.memory.get_mut(&flag).expect("the flag")[..4].copy_from_slice(&1u32.to_le_bytes());
    }
}

/// A kernel that faults if its argument `shift` is not zero.
fn copy_or_report(call: &mut Call<'_>) {
    let record = DevicePtr(call.find(KernelArgument::Faults));
    let (memory, start) = at(call.memory, record);
    assert!(memory[start..start + NOTICE_AT].iter().all(|&b| b == 0), "the record is zero before the launch");
    match call.find(KernelArgument::Value { param: 0, ty: clk_ir::typing::I32 }) as i32 {
        0 => {
            let x = call.array(1).clone();
            *call.array(2) = x;
        }
        _ => report(call, 0),
    }
}

fn line(number: u32) -> clk_base::source::Span {
    clk_base::source::Span { start: number, end: number + 1, ..Default::default() }
}

/// Launches [`shifted`] from a statement at source position `place`.
fn shift(
    kernel: &Arc<dyn Executable>,
    d: i32,
    x: &Storage,
    y: &mut Storage,
    place: u32,
    wait: bool,
) -> Result<String, Box<clk_runtime::Fault>> {
    let n = x.len() as u32 / 4;
    let args = &mut [
        Arg::Value(vec![ScalarValue::of(d)]),
        Arg::Array { storage: x, shape: vec![n] },
        Arg::ArrayMut { storage: y, shape: vec![n] },
    ];
    let config = LaunchConfig { wait, ..LaunchConfig::new(LaunchExtents::Threads([n, 1, 1]), line(place)) };
    kernel.launch(&config, args, &Control::default())
}

fn is_out_of_bounds(fault: &clk_runtime::Fault) {
    let expected =
        FaultKind::OutOfBounds { array: "x".into(), indices: vec![5], shape: vec![5], axis: 0, write: false };
    assert_eq!((&fault.kind, fault.index.as_deref(), fault.others), (&expected, Some(&[3][..]), 1));
}

fn earlier(error: DeviceError) -> clk_runtime::EarlierFault {
    match error {
        DeviceError::EarlierLaunch(earlier) => *earlier,
        other => panic!("{other:?}"),
    }
}

#[test]
fn synchronous_launches_return_their_own_fault() {
    let (gpu, kernel, fake) = gpu(shifted(Access::Out, true), 1 << 20, copy_or_report);
    let (x, mut y) = (storage(&[1.0; 5]), Storage::zeros(20));
    is_out_of_bounds(&shift(&kernel, 2, &x, &mut y, 1, true).unwrap_err());
    shift(&kernel, 0, &x, &mut y, 2, true).unwrap();
    gpu.report_pending_faults().unwrap();
    assert_eq!(floats(&y), [1.0; 5]);
    assert_eq!(fake.count("flag"), 0);
}

#[test]
fn faults_appear_only_at_reads() {
    let (gpu, kernel, fake) = gpu(shifted(Access::Out, true), 1 << 20, copy_or_report);
    let (x, mut y) = (storage(&[1.0; 5]), Storage::zeros(20));
    shift(&kernel, 0, &x, &mut y, 1, false).unwrap();
    let (allocated, zeroed) = (fake.count("allocate"), fake.count("zero"));
    for place in 2..100 {
        shift(&kernel, 0, &x, &mut y, place, false).unwrap();
    }
    assert_eq!((fake.count("allocate"), fake.count("zero")), (allocated, zeroed), "a launch costs no memory");
    assert_eq!((fake.count("download"), fake.count("synchronize")), (0, 0), "and waits for nothing");
    gpu.report_pending_faults().unwrap();
    let (mut z, mut w) = (Storage::zeros(20), Storage::zeros(20));
    // The second launch would not be issued if the flag were visible before it. Here, it becomes visible later.
    fake.state.lock().unwrap().late = true;
    shift(&kernel, 1, &x, &mut z, 7, false).unwrap();
    shift(&kernel, 2, &x, &mut w, 8, false).unwrap();
    shift(&kernel, 0, &x, &mut w, 9, false).unwrap();
    fake.state.lock().unwrap().late = false;
    let earlier_fault = earlier(z.bytes().unwrap_err());
    is_out_of_bounds(&earlier_fault.fault);
    assert_eq!(earlier_fault.origin.launched, line(7), "the first of them, at its own launch");
    gpu.report_pending_faults().expect("it is reported once");
    // The GPU is still usable, and the next fault gets its own report.
    assert_eq!((floats(&y), floats(&w), z.bytes().is_ok()), (vec![1.0; 5], vec![1.0; 5], true));
    shift(&kernel, 0, &x, &mut z, 10, false).unwrap();
    assert_eq!(floats(&z), [1.0; 5]);
    shift(&kernel, 3, &x, &mut z, 11, false).unwrap();
    assert_eq!(earlier(gpu.finish().unwrap_err()).origin.launched, line(11));
}

#[test]
fn faults_are_detected_at_the_next_launch() {
    let (_gpu, kernel, fake) = gpu(shifted(Access::Out, true), 1 << 20, copy_or_report);
    let (x, mut y) = (storage(&[1.0; 5]), Storage::zeros(20));
    shift(&kernel, 1, &x, &mut y, 1, false).unwrap();
    let launches = fake.count("launch");
    let fault = shift(&kernel, 0, &x, &mut y, 2, false).unwrap_err();
    let FaultKind::Device(error) = fault.kind else { panic!("{fault:?}") };
    assert_eq!(earlier(error).origin.launched, line(1));
    assert_eq!(fake.count("launch"), launches, "it was not made");
    shift(&kernel, 0, &x, &mut y, 3, false).unwrap();
}

#[test]
fn reused_records_keep_launches_apart() {
    let (gpu, kernel, fake) = gpu(shifted(Access::Out, true), 1 << 20, copy_or_report);
    let (x, mut y) = (storage(&[1.0; 5]), Storage::zeros(20));
    for place in 0..5000 {
        shift(&kernel, 0, &x, &mut y, place, false).unwrap();
    }
    assert_eq!(fake.count("synchronize"), 0);
    fake.state.lock().unwrap().late = true;
    let mut earlier_fault = None;
    for place in 5000..8000 {
        let result = shift(&kernel, i32::from(place >= 5700), &x, &mut y, place, false);
        if let Err(fault) = result {
            earlier_fault = Some((place, fault));
            break;
        }
    }
    let (place, fault) = earlier_fault.expect("found when its half of the ring is needed again");
    assert!(place < 5700 + 1024, "{place}");
    let FaultKind::Device(error) = fault.kind else { panic!("{fault:?}") };
    assert_eq!(earlier(error).origin.launched, line(5700));
    fake.state.lock().unwrap().late = false;
    gpu.report_pending_faults().unwrap();
    assert_eq!(fake.count("event"), fake.count("forget_event"), "events are given back");
}

/// Copies each array to the next one with one launch each, in a batch. `place` is the source position of the first
/// statement.
fn relay(gpu: &CudaGpu, kernel: &Arc<dyn Executable>, arrays: &mut [Storage], shifts: &[i32], place: u32) {
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
fn repeated_batches_become_one_graph() {
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
    // With other arrays, the same graph is used with new arguments.
    let mut others = chain(2.0, 4);
    relay(&gpu, &kernel, &mut others, &[0; 4], 1);
    assert_eq!(counts(&["launch", "graph", "run_graph", "change"]), [4, 1, 11, 4]);
    assert_eq!((floats(&arrays[4]), floats(&others[4])), (vec![1.0; 5], vec![2.0; 5]));
    // A longer run with the same prefix is a different run.
    let mut longer = chain(3.0, 6);
    relay(&gpu, &kernel, &mut longer, &[0; 6], 1);
    assert_eq!(counts(&["launch", "graph", "run_graph"]), [10, 1, 11]);
    assert_eq!(floats(&longer[6]), [3.0; 5]);
    // A shorter run is also a different run.
    relay(&gpu, &kernel, &mut longer, &[0; 2], 1);
    assert_eq!(counts(&["launch", "graph", "run_graph"]), [12, 1, 11]);
    gpu.report_pending_faults().unwrap();
    assert_eq!(gpu.statistics().launches, 4 * 12 + 8);
    drop((arrays, others, longer));
    drop(kernel);
    assert_eq!(fake.count("forget_graph"), 1, "with its kernel a graph goes");
    drop(gpu);
    let left: Vec<u64> = fake.state.lock().unwrap().memory.keys().copied().filter(|&at| at != FLAG).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn reads_within_a_batch_are_allowed() {
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
        // The outer batch is still open here.
        drop(arrays.remove(2));
        gpu.end_batch().unwrap();
        assert_eq!(floats(&arrays[5]), [iteration as f32; 5]);
    }
    // Both halves of the batch are the same run of three launches.
    assert_eq!((fake.count("launch"), fake.count("graph"), fake.count("run_graph")), (3, 1, 5));
}

#[test]
fn faults_in_batches_name_their_launch() {
    let (gpu, kernel, fake) = gpu(shifted(Access::Out, true), 1 << 20, copy_or_report);
    let mut arrays = chain(1.0, 4);
    for _ in 0..3 {
        relay(&gpu, &kernel, &mut arrays, &[0; 4], 1);
    }
    gpu.report_pending_faults().unwrap();
    fake.state.lock().unwrap().late = true;
    relay(&gpu, &kernel, &mut arrays, &[0, 0, 1, 1], 20);
    shift(&kernel, 1, &arrays[0], &mut Storage::zeros(20), 30, false).unwrap();
    let earlier_fault = earlier(gpu.report_pending_faults().unwrap_err());
    assert_eq!(earlier_fault.origin.launched, line(22), "the third of the graph's");
    is_out_of_bounds(&earlier_fault.fault);
    // The graph's fault records are reset, so the next run reports nothing.
    relay(&gpu, &kernel, &mut arrays, &[0; 4], 40);
    gpu.report_pending_faults().unwrap();
    assert_eq!(floats(&arrays[4]), [1.0; 5]);
    assert_eq!(fake.count("graph"), 1);
}

#[test]
fn written_floats_are_read_back() {
    let (_gpu, kernel, _) = gpu(shifted(Access::InOut, false), 1 << 20, |call| {
        let doubled: Vec<f32> = call.floats(0).iter().map(|v| 2.0 * v).collect();
        call.array(1).copy_from_slice(bytemuck::cast_slice(&doubled));
    });
    let (x, mut y) = (storage(&[1.5, -2.0]), storage(&[0.0, 0.0]));
    run(&kernel, &x, &mut y).unwrap();
    assert_eq!(floats(&y), [3.0, -4.0]);
}
