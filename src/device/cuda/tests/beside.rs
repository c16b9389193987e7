//! Uploads beside kernels: what is copied is seen by those who wait for it, and memory is not freed before. The fake driver copies when it is
//! waited for.

use super::*;

/// Begins an upload, which is over when its event is waited for.
pub(super) fn begin(state: &mut State, to: Address, bytes: &[u8], after: Event) -> Answer<Event> {
    assert_eq!(after, Event(1), "an event that was recorded when the memory was free");
    let event = Event(1000 + state.beside.len());
    state.beside.insert(event.0, (to.0, bytes.to_vec()));
    Ok(event)
}

pub(super) fn arrive(state: &mut State, event: Event) {
    if let Some((to, bytes)) = state.beside.remove(&event.0) {
        let (memory, start) = at(&mut state.memory, Address(to));
        memory[start..start + bytes.len()].copy_from_slice(&bytes);
    }
}

/// Checks that no copy to this memory is under way.
pub(super) fn is_over(state: &State, address: Address) {
    assert!(state.beside.values().all(|(to, _)| *to != address.0), "freed while it is copied to");
}

/// Returns bytes on their way to the GPU, as the storage of an array.
fn coming(gpu: &Gpu, values: &[f32]) -> Storage {
    let bytes: &[u8] = bytemuck::cast_slice(values);
    let room = gpu.expect(bytes.len(), false).unwrap().expect("a device that copies beside kernels");
    let remote = std::thread::scope(|scope| scope.spawn(|| room.copy(bytes)).join().unwrap()).unwrap();
    let mut storage = Storage::zeros(bytes.len());
    storage.written_remotely(remote);
    storage
}

#[test]
fn kernels_and_reads_wait_for_what_is_on_its_way() {
    let (gpu, kernel, fake) = gpu(shifted(Access::Out, false), 1 << 20, copy);
    let (x, mut y) = (coming(&gpu, &[1.0, 2.0, 3.0]), Storage::zeros(12));
    assert_eq!((fake.count("upload_beside"), fake.count("upload"), fake.count("wait")), (1, 0, 0));
    run(&kernel, &x, &mut y).unwrap();
    run(&kernel, &x, &mut y).unwrap();
    assert_eq!(floats(&y), [1.0, 2.0, 3.0]);
    assert_eq!(fake.count("wait"), 1, "once");
    assert_eq!(floats(&coming(&gpu, &[4.0, 5.0])), [4.0, 5.0]);
    let stats = gpu.statistics();
    assert_eq!((stats.uploads, stats.uploaded, stats.uploaded_beside), (2, 20, 20));
}

#[test]
fn memory_is_free_when_the_copy_is_over() {
    let (gpu, kernel, fake) = gpu(shifted(Access::InOut, false), 1 << 20, copy);
    drop(coming(&gpu, &[1.0; 8]));
    assert_eq!((fake.count("wait"), fake.count("free")), (1, 1));
    // What was expected and never came.
    drop(gpu.expect(64, true).unwrap());
    assert_eq!(fake.count("free"), 2);
    // One that is written before it has been read, and another one that is copied first.
    let (x, mut y) = (storage(&[7.0, 8.0]), coming(&gpu, &[1.0, 2.0]));
    let shared = y.duplicate().unwrap();
    run(&kernel, &x, &mut y).unwrap();
    assert_eq!((floats(&y), floats(&shared)), (vec![7.0, 8.0], vec![1.0, 2.0]));
}

#[test]
fn what_is_spare_makes_nobody_move() {
    let (gpu, _kernel, fake) = gpu(shifted(Access::Out, false), 1 << 10, copy);
    let held = coming(&gpu, &[3.0; 200]);
    assert!(gpu.expect(400, true).is_err());
    assert_eq!(fake.count("download"), 0);
    assert!(gpu.expect(400, false).unwrap().is_some(), "the array moves to the host");
    assert_eq!((fake.count("download"), floats(&held)), (1, vec![3.0; 200]));
}
