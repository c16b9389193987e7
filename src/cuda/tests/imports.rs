//! Tests of imported buffers of other libraries. Clk uses them in place, and in stream order with their owners' work.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use clk_runtime::import::{ImportedBuffer, KeepAlive};

/// Handle of the owner's stream.
const STREAM: ForeignStream = ForeignStream(77);

/// Handle of a stream that has been destroyed.
const GONE: ForeignStream = ForeignStream(78);

/// Records that the GPU waits for a stream.
pub(super) fn note_wait(_state: &mut State, stream: ForeignStream) -> DriverResult {
    assert_eq!(stream, STREAM, "the lender's");
    Ok(())
}

/// Records that streams wait for the GPU.
pub(super) fn part(_state: &mut State, streams: &[ForeignStream]) -> DriverResult {
    if streams == [GONE] {
        let name = "CUDA_ERROR_INVALID_HANDLE".into();
        return Err(DriverError { call: "cuStreamWaitEvent".into(), code: 400, name });
    }
    assert_eq!(streams, [STREAM], "the lender's");
    Ok(())
}

/// Owner of a buffer. When dropped, it records how often the host had waited for the driver.
struct Owner {
    fake: Arc<Fake>,
    ended: Arc<AtomicUsize>,
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.ended.store(1 + self.fake.count("synchronize"), Ordering::Relaxed);
    }
}

/// Returns a library's buffer with these elements, as the arguments of a Clk call describe it.
fn library(fake: &Arc<Fake>, address: u64, values: &[f32]) -> (ImportedBuffer, Arc<AtomicUsize>) {
    let bytes = bytemuck::cast_slice(values).to_vec();
    let ended = Arc::new(AtomicUsize::new(0));
    let keep_alive: KeepAlive = Arc::new(Owner { fake: fake.clone(), ended: ended.clone() });
    let lent = ImportedBuffer { gpu: 0, address, bytes: bytes.len(), after: Some(STREAM), in_order: false, keep_alive };
    fake.state.lock().unwrap().memory.insert(address, bytes);
    (lent, ended)
}

fn imported_floats(fake: &Fake, lent: &ImportedBuffer) -> Vec<f32> {
    bytemuck::cast_slice(&fake.state.lock().unwrap().memory[&lent.address]).to_vec()
}

fn borrowed(gpu: &CudaGpu, lent: &ImportedBuffer, copied: bool) -> Storage {
    let mut storage = Storage::zeros(lent.bytes);
    // SAFETY: the fake driver never frees this memory.
    storage.set_device_copy(unsafe { gpu.import_buffer(lent, copied) }.expect("its own memory"));
    storage
}

fn give_back(gpu: &CudaGpu, lent: &ImportedBuffer, storage: &Storage) {
    // SAFETY: as above.
    unsafe { gpu.write_back(lent, storage) }.unwrap();
}

#[test]
fn imported_memory_is_used_in_place() {
    let (gpu, kernel, fake) = gpu(shifted(Access::Out, false), 1 << 20, copy);
    let (x, y) = (library(&fake, 0x1000, &[1.0, 2.0, 3.0]), library(&fake, 0x2000, &[0.0; 3]));
    let (from, mut to) = (borrowed(&gpu, &x.0, false), borrowed(&gpu, &y.0, false));
    assert_eq!((fake.count("come_behind"), fake.count("launch")), (2, 0), "before any launch");
    for _ in 0..3 {
        run(&kernel, &from, &mut to).unwrap();
    }
    assert_eq!(fake.count("come_behind"), 2, "each is waited for once");
    give_back(&gpu, &y.0, &to);
    assert_eq!(imported_floats(&fake, &y.0), [1.0, 2.0, 3.0]);
    assert_eq!((fake.count("copy"), fake.count("upload"), fake.count("download")), (0, 0, 0));
    assert_eq!(floats(&to), [1.0, 2.0, 3.0]);
    gpu.finish().unwrap();
    drop((from, to));
    assert_eq!(fake.count("free"), 0, "it is not Clk's");
    assert_eq!(gpu.statistics().array_bytes, 0);
    assert_eq!(x.1.load(Ordering::Relaxed), 0, "the caller has it still");
    drop((x.0, y.0));
    assert!(x.1.load(Ordering::Relaxed) > 0 && y.1.load(Ordering::Relaxed) > 0);
}

#[test]
fn shared_or_foreign_memory_is_returned_unwritten() {
    let (gpu, kernel, fake) = gpu(shifted(Access::InOut, false), 1 << 20, copy);
    let x = storage(&[5.0, 6.0]);
    let (y, _) = library(&fake, 0x1000, &[1.0, 2.0]);
    // The argument is only read, so a clone of the storage may share the buffer.
    let mut array = borrowed(&gpu, &y, false);
    let kept = array.duplicate().unwrap();
    run(&kernel, &x, &mut array).unwrap();
    assert_eq!(
        (imported_floats(&fake, &y), floats(&array), floats(&kept)),
        (vec![1.0, 2.0], vec![5.0, 6.0], vec![1.0, 2.0])
    );
    // If the clone is written nevertheless, its bytes are copied back to the buffer on the GPU.
    let copies = fake.count("copy");
    give_back(&gpu, &y, &array);
    assert_eq!((imported_floats(&fake, &y), fake.count("copy") - copies), (vec![5.0, 6.0], 1));
    // Arrays that were imported as a copy, and arrays that the host has written, are also copied back.
    let mut array = borrowed(&gpu, &y, true);
    run(&kernel, &storage(&[7.0, 8.0]), &mut array).unwrap();
    assert_eq!(imported_floats(&fake, &y), [5.0, 6.0]);
    give_back(&gpu, &y, &array);
    assert_eq!(imported_floats(&fake, &y), [7.0, 8.0]);
    let mut array = borrowed(&gpu, &y, false);
    array.bytes_mut().unwrap()[..4].copy_from_slice(&9.0f32.to_le_bytes());
    assert_eq!(imported_floats(&fake, &y), [7.0, 8.0]);
    give_back(&gpu, &y, &array);
    assert_eq!(imported_floats(&fake, &y), [9.0, 8.0]);
}

#[test]
fn results_own_persistent_memory() {
    let (gpu, kernel, fake) = gpu(shifted(Access::Out, false), 1 << 10, copy);
    let (x, _) = library(&fake, 0x1000, &[1.0; 8]);
    let mut array = borrowed(&gpu, &x, false);
    let place = gpu.make_owned(&mut array).unwrap().place().expect("on a GPU");
    assert!(place.0 == 0 && place.1 != x.address);
    assert_eq!(fake.count("copy"), 1, "it was the argument");
    let mut result = Storage::zeros(32);
    run(&kernel, &array, &mut result).unwrap();
    let held = gpu.make_owned(&mut result).unwrap();
    let place = held.place();
    assert_eq!(fake.count("copy"), 1, "a result is its own");
    let mut host_array = storage(&[3.0; 8]);
    assert!(gpu.make_owned(&mut host_array).unwrap().place().is_some(), "what the host has computed goes there");
    // An imported buffer is not evicted, even when memory is full.
    drop(array);
    let _large = gpu.reserve_upload(900, false).unwrap();
    assert!(place.is_some() && held.place() == place);
    assert!(gpu.reserve_upload(900, false).is_err());
    assert_eq!(floats(&result), [1.0; 8]);
    held.quiet().unwrap();
}

#[test]
fn imports_are_released_after_all_work() {
    let (gpu, kernel, fake) = gpu(shifted(Access::Out, false), 1 << 20, copy);
    let (x, ended) = library(&fake, 0x1000, &[1.0, 2.0]);
    let array = borrowed(&gpu, &x, false);
    run(&kernel, &array, &mut Storage::zeros(8)).unwrap();
    // Drop the array although nothing has waited for its operations, as happens after an error.
    let before = fake.count("synchronize");
    drop(x);
    assert_eq!(ended.load(Ordering::Relaxed), 0, "the array is still there");
    drop(array);
    assert_eq!(ended.load(Ordering::Relaxed), before + 2, "the device was waited for first");
}

#[test]
fn owner_streams_wait_instead_of_the_host() {
    let (gpu, kernel, fake) = gpu(shifted(Access::Out, false), 1 << 20, copy);
    let (x, ended) = library(&fake, 0x1000, &[1.0, 2.0]);
    let x = ImportedBuffer { in_order: true, ..x };
    let array = borrowed(&gpu, &x, false);
    run(&kernel, &array, &mut Storage::zeros(8)).unwrap();
    let before = fake.count("synchronize");
    gpu.order_streams_after(&[STREAM]).unwrap();
    assert_eq!((fake.count("go_before"), fake.count("synchronize")), (1, before), "the host does not wait");
    drop((x, array));
    assert_eq!(ended.load(Ordering::Relaxed), before + 1, "nor where the memory is freed");
}

#[test]
fn the_host_waits_if_streams_cannot() {
    let (gpu, kernel, fake) = gpu(shifted(Access::Out, false), 1 << 20, copy);
    let (x, _) = library(&fake, 0x1000, &[1.0, 2.0]);
    let array = borrowed(&gpu, &ImportedBuffer { in_order: true, ..x }, false);
    run(&kernel, &array, &mut Storage::zeros(8)).unwrap();
    let before = fake.count("synchronize");
    gpu.order_streams_after(&[GONE]).unwrap();
    assert_eq!(fake.count("synchronize"), before + 1);
}

#[test]
fn machine_code_outlives_its_launches() {
    let (gpu, kernel, fake) = gpu(shifted(Access::Out, false), 1 << 20, copy);
    let (x, _) = library(&fake, 0x1000, &[1.0, 2.0]);
    let array = borrowed(&gpu, &ImportedBuffer { in_order: true, ..x }, false);
    run(&kernel, &array, &mut Storage::zeros(8)).unwrap();
    gpu.order_streams_after(&[STREAM]).unwrap();
    assert!(!fake.state.lock().unwrap().waited);
    // Drop everything, as happens after the call has returned.
    drop((array, kernel, gpu));
    assert_eq!((fake.count("unload"), fake.count("unload early")), (1, 0));
}

#[test]
fn launches_that_may_report_a_fault_are_waited_for() {
    let (gpu, kernel, fake) = gpu(shifted(Access::Out, true), 1 << 20, copy_or_report);
    let (x, _) = library(&fake, 0x1000, &[1.0, 2.0]);
    let array = borrowed(&gpu, &x, false);
    shift(&kernel, 0, &array, &mut Storage::zeros(8), 1, false).unwrap();
    let before = fake.count("synchronize");
    gpu.order_streams_after(&[STREAM]).unwrap();
    assert_eq!((fake.count("go_before"), fake.count("synchronize")), (0, before + 1));
    shift(&kernel, 2, &array, &mut Storage::zeros(8), 2, false).unwrap();
    assert!(matches!(gpu.order_streams_after(&[STREAM]), Err(DeviceError::EarlierLaunch(_))));
    let before = fake.count("synchronize");
    // After a wait, the outcome of the launches is known, so the streams can be ordered.
    gpu.order_streams_after(&[STREAM]).unwrap();
    assert_eq!((fake.count("go_before"), fake.count("synchronize")), (1, before));
}

#[test]
fn memory_of_another_gpu_is_refused() {
    let (gpu, _kernel, fake) = gpu(shifted(Access::Out, false), 1 << 20, copy);
    let (x, _) = library(&fake, 0x1000, &[1.0]);
    let other = ImportedBuffer { gpu: 1, ..x.clone() };
    // SAFETY: the buffer is not accessed.
    let refused = unsafe { gpu.import_buffer(&other, false) }.err().expect("a refusal");
    assert!(refused.to_string().contains("gpu:1"), "{refused}");
}
