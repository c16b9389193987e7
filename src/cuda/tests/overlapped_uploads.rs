//! Tests of uploads that overlap with kernels. Operations that use the bytes must wait for the copy, and the memory
//! must not be freed before the copy ends. The fake driver performs the copy only when something waits for its event.

use super::*;

/// Begins a fake upload, which is performed when something waits for its event.
pub(super) fn begin(state: &mut State, to: DevicePtr, bytes: &[u8], after: StreamEvent) -> DriverResult<StreamEvent> {
    assert_eq!(after, StreamEvent(1), "an event that was recorded when the memory was free");
    let event = StreamEvent(1000 + state.beside.len());
    state.beside.insert(event.0, (to.0, bytes.to_vec()));
    Ok(event)
}

pub(super) fn arrive(state: &mut State, event: StreamEvent) {
    if let Some((to, bytes)) = state.beside.remove(&event.0) {
        let (memory, start) = at(&mut state.memory, DevicePtr(to));
        memory[start..start + bytes.len()].copy_from_slice(&bytes);
    }
}

/// Checks that no copy to this memory is pending.
pub(super) fn is_over(state: &State, address: DevicePtr) {
    assert!(state.beside.values().all(|(to, _)| *to != address.0), "freed while it is copied to");
}

/// Returns an array whose bytes are being uploaded.
fn coming(gpu: &CudaGpu, values: &[f32]) -> Storage {
    let bytes: &[u8] = bytemuck::cast_slice(values);
    let upload = gpu.reserve_upload(bytes.len(), false).unwrap().expect("a device that copies beside kernels");
    let remote = std::thread::scope(|scope| scope.spawn(|| upload.copy(bytes)).join().unwrap()).unwrap();
    let mut storage = Storage::zeros(bytes.len());
    storage.set_device_copy(remote);
    storage
}

#[test]
fn kernels_and_reads_wait_for_pending_uploads() {
    let (gpu, kernel, fake) = gpu(shifted(Access::Out, false), 1 << 20, copy);
    let (x, mut y) = (coming(&gpu, &[1.0, 2.0, 3.0]), Storage::zeros(12));
    assert_eq!((fake.count("upload_beside"), fake.count("upload"), fake.count("wait")), (1, 0, 0));
    run(&kernel, &x, &mut y).unwrap();
    run(&kernel, &x, &mut y).unwrap();
    assert_eq!(floats(&y), [1.0, 2.0, 3.0]);
    assert_eq!(fake.count("wait"), 1, "once");
    assert_eq!(floats(&coming(&gpu, &[4.0, 5.0])), [4.0, 5.0]);
    let stats = gpu.statistics();
    assert_eq!((stats.uploads, stats.uploaded, stats.overlapped_upload_bytes), (2, 20, 20));
}

#[test]
fn memory_is_freed_after_the_copy() {
    let (gpu, kernel, fake) = gpu(shifted(Access::InOut, false), 1 << 20, copy);
    drop(coming(&gpu, &[1.0; 8]));
    assert_eq!((fake.count("wait"), fake.count("free")), (1, 1));
    // Reserve memory without an upload.
    drop(gpu.reserve_upload(64, true).unwrap());
    assert_eq!(fake.count("free"), 2);
    // The first use of one array is a write, and the first use of the other is a copy.
    let (x, mut y) = (storage(&[7.0, 8.0]), coming(&gpu, &[1.0, 2.0]));
    let shared = y.duplicate().unwrap();
    run(&kernel, &x, &mut y).unwrap();
    assert_eq!((floats(&y), floats(&shared)), (vec![7.0, 8.0], vec![1.0, 2.0]));
}

#[test]
fn spare_buffers_evict_nothing() {
    let (gpu, _kernel, fake) = gpu(shifted(Access::Out, false), 1 << 10, copy);
    let array = coming(&gpu, &[3.0; 200]);
    assert!(gpu.reserve_upload(400, true).is_err());
    assert_eq!(fake.count("download"), 0);
    assert!(gpu.reserve_upload(400, false).unwrap().is_some(), "the array moves to the host");
    assert_eq!((fake.count("download"), floats(&array)), (1, vec![3.0; 200]));
}
