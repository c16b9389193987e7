//! Memory that other libraries lend: used in place, after their work, and theirs all the time.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::device::lent::{Keeper, Lent};

/// A stream of the lender.
const STREAM: usize = 77;

/// One that is gone.
const GONE: usize = 78;

/// Notes that the device waits for a stream.
pub(super) fn meet(_state: &mut State, stream: usize) -> Answer {
    assert_eq!(stream, STREAM, "the lender's");
    Ok(())
}

/// Notes that streams wait for the device.
pub(super) fn part(_state: &mut State, streams: &[usize]) -> Answer {
    if streams == [GONE] {
        let name = "CUDA_ERROR_INVALID_HANDLE".into();
        return Err(Refusal { call: "cuStreamWaitEvent".into(), code: 400, name });
    }
    assert_eq!(streams, [STREAM], "the lender's");
    Ok(())
}

/// Counts how often the driver had been waited for when it was dropped.
struct Owner {
    fake: Arc<Fake>,
    ended: Arc<AtomicUsize>,
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.ended.store(1 + self.fake.count("synchronize"), Ordering::Relaxed);
    }
}

/// Returns memory of a library with these elements, as a call of Clk gets it.
fn library(fake: &Arc<Fake>, address: u64, values: &[f32]) -> (Lent, Arc<AtomicUsize>) {
    let bytes = bytemuck::cast_slice(values).to_vec();
    let ended = Arc::new(AtomicUsize::new(0));
    let keeper: Keeper = Arc::new(Owner { fake: fake.clone(), ended: ended.clone() });
    let lent = Lent { gpu: 0, address, bytes: bytes.len(), after: Some(STREAM), in_order: false, keeper };
    fake.state.lock().unwrap().memory.insert(address, bytes);
    (lent, ended)
}

fn there(fake: &Fake, lent: &Lent) -> Vec<f32> {
    bytemuck::cast_slice(&fake.state.lock().unwrap().memory[&lent.address]).to_vec()
}

fn borrowed(gpu: &Gpu, lent: &Lent, copied: bool) -> Storage {
    let mut storage = Storage::zeros(lent.bytes);
    // SAFETY: the fake driver's memory stays.
    storage.written_remotely(unsafe { gpu.lend(lent, copied) }.expect("its own memory"));
    storage
}

fn give_back(gpu: &Gpu, lent: &Lent, storage: &Storage) {
    // SAFETY: as above.
    unsafe { gpu.give_back(lent, storage) }.unwrap();
}

#[test]
fn lent_memory_is_read_and_written_in_place() {
    let (gpu, kernel, fake) = gpu(shifted(Access::Out, false), 1 << 20, copy);
    let (x, y) = (library(&fake, 0x1000, &[1.0, 2.0, 3.0]), library(&fake, 0x2000, &[0.0; 3]));
    let (from, mut to) = (borrowed(&gpu, &x.0, false), borrowed(&gpu, &y.0, false));
    assert_eq!((fake.count("come_behind"), fake.count("launch")), (2, 0), "before any launch");
    for _ in 0..3 {
        run(&kernel, &from, &mut to).unwrap();
    }
    assert_eq!(fake.count("come_behind"), 2, "each is waited for once");
    give_back(&gpu, &y.0, &to);
    assert_eq!(there(&fake, &y.0), [1.0, 2.0, 3.0]);
    assert_eq!((fake.count("copy"), fake.count("upload"), fake.count("download")), (0, 0, 0));
    assert_eq!(floats(&to), [1.0, 2.0, 3.0]);
    gpu.finish().unwrap();
    drop((from, to));
    assert_eq!(fake.count("free"), 0, "it is not Clk's");
    assert_eq!(gpu.statistics().held, 0);
    assert_eq!(x.1.load(Ordering::Relaxed), 0, "the caller has it still");
    drop((x.0, y.0));
    assert!(x.1.load(Ordering::Relaxed) > 0 && y.1.load(Ordering::Relaxed) > 0);
}

#[test]
fn memory_that_is_shared_or_elsewhere_is_not_written_but_given_back() {
    let (gpu, kernel, fake) = gpu(shifted(Access::InOut, false), 1 << 20, copy);
    let x = storage(&[5.0, 6.0]);
    let (y, _) = library(&fake, 0x1000, &[1.0, 2.0]);
    // A clone that is kept: the argument is only read.
    let mut array = borrowed(&gpu, &y, false);
    let kept = array.duplicate().unwrap();
    run(&kernel, &x, &mut array).unwrap();
    assert_eq!((there(&fake, &y), floats(&array), floats(&kept)), (vec![1.0, 2.0], vec![5.0, 6.0], vec![1.0, 2.0]));
    // One that is written all the same comes back by one copy on the GPU.
    let copies = fake.count("copy");
    give_back(&gpu, &y, &array);
    assert_eq!((there(&fake, &y), fake.count("copy") - copies), (vec![5.0, 6.0], 1));
    // So does what was read from a copy, and what the host has written.
    let mut array = borrowed(&gpu, &y, true);
    run(&kernel, &storage(&[7.0, 8.0]), &mut array).unwrap();
    assert_eq!(there(&fake, &y), [5.0, 6.0]);
    give_back(&gpu, &y, &array);
    assert_eq!(there(&fake, &y), [7.0, 8.0]);
    let mut array = borrowed(&gpu, &y, false);
    array.bytes_mut().unwrap()[..4].copy_from_slice(&9.0f32.to_le_bytes());
    assert_eq!(there(&fake, &y), [7.0, 8.0]);
    give_back(&gpu, &y, &array);
    assert_eq!(there(&fake, &y), [9.0, 8.0]);
}

#[test]
fn results_have_memory_of_their_own_that_stays() {
    let (gpu, kernel, fake) = gpu(shifted(Access::Out, false), 1 << 10, copy);
    let (x, _) = library(&fake, 0x1000, &[1.0; 8]);
    let mut array = borrowed(&gpu, &x, false);
    let place = gpu.own(&mut array).unwrap().place().expect("on a GPU");
    assert!(place.0 == 0 && place.1 != x.address);
    assert_eq!(fake.count("copy"), 1, "it was the argument");
    let mut made = Storage::zeros(32);
    run(&kernel, &array, &mut made).unwrap();
    let held = gpu.own(&mut made).unwrap();
    let place = held.place();
    assert_eq!(fake.count("copy"), 1, "a result is its own");
    let mut here = storage(&[3.0; 8]);
    assert!(gpu.own(&mut here).unwrap().place().is_some(), "what the host has computed goes there");
    // What others have stays, also where memory is full; the rest makes room.
    drop(array);
    let _large = gpu.expect(900, false).unwrap();
    assert!(place.is_some() && held.place() == place);
    assert!(gpu.expect(900, false).is_err());
    assert_eq!(floats(&made), [1.0; 8]);
    held.quiet().unwrap();
}

#[test]
fn the_lender_gets_it_back_when_all_work_is_over() {
    let (gpu, kernel, fake) = gpu(shifted(Access::Out, false), 1 << 20, copy);
    let (x, ended) = library(&fake, 0x1000, &[1.0, 2.0]);
    let array = borrowed(&gpu, &x, false);
    run(&kernel, &array, &mut Storage::zeros(8)).unwrap();
    // Nobody has waited, as after an error.
    let before = fake.count("synchronize");
    drop(x);
    assert_eq!(ended.load(Ordering::Relaxed), 0, "the array is still there");
    drop(array);
    assert_eq!(ended.load(Ordering::Relaxed), before + 2, "the device was waited for first");
}

#[test]
fn a_stream_of_the_lender_waits_instead_of_the_host() {
    let (gpu, kernel, fake) = gpu(shifted(Access::Out, false), 1 << 20, copy);
    let (x, ended) = library(&fake, 0x1000, &[1.0, 2.0]);
    let x = Lent { in_order: true, ..x };
    let array = borrowed(&gpu, &x, false);
    run(&kernel, &array, &mut Storage::zeros(8)).unwrap();
    let before = fake.count("synchronize");
    gpu.pass_on(&[STREAM]).unwrap();
    assert_eq!((fake.count("go_before"), fake.count("synchronize")), (1, before), "nobody waits here");
    drop((x, array));
    assert_eq!(ended.load(Ordering::Relaxed), before + 1, "nor where the memory is freed");
}

#[test]
fn the_host_waits_where_a_stream_cannot() {
    let (gpu, kernel, fake) = gpu(shifted(Access::Out, false), 1 << 20, copy);
    let (x, _) = library(&fake, 0x1000, &[1.0, 2.0]);
    let array = borrowed(&gpu, &Lent { in_order: true, ..x }, false);
    run(&kernel, &array, &mut Storage::zeros(8)).unwrap();
    let before = fake.count("synchronize");
    gpu.pass_on(&[GONE]).unwrap();
    assert_eq!(fake.count("synchronize"), before + 1);
}

#[test]
fn machine_code_stays_until_its_launches_are_over() {
    let (gpu, kernel, fake) = gpu(shifted(Access::Out, false), 1 << 20, copy);
    let (x, _) = library(&fake, 0x1000, &[1.0, 2.0]);
    let array = borrowed(&gpu, &Lent { in_order: true, ..x }, false);
    run(&kernel, &array, &mut Storage::zeros(8)).unwrap();
    gpu.pass_on(&[STREAM]).unwrap();
    assert!(!fake.state.lock().unwrap().waited);
    // The call is over, and its program is dropped.
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
    gpu.pass_on(&[STREAM]).unwrap();
    assert_eq!((fake.count("go_before"), fake.count("synchronize")), (0, before + 1));
    shift(&kernel, 2, &array, &mut Storage::zeros(8), 2, false).unwrap();
    assert!(matches!(gpu.pass_on(&[STREAM]), Err(DeviceError::Earlier(_))));
    let before = fake.count("synchronize");
    // They are known then.
    gpu.pass_on(&[STREAM]).unwrap();
    assert_eq!((fake.count("go_before"), fake.count("synchronize")), (1, before));
}

#[test]
fn memory_of_another_gpu_is_refused() {
    let (gpu, _kernel, fake) = gpu(shifted(Access::Out, false), 1 << 20, copy);
    let (x, _) = library(&fake, 0x1000, &[1.0]);
    let other = Lent { gpu: 1, ..x.clone() };
    // SAFETY: nothing is done with it.
    let refused = unsafe { gpu.lend(&other, false) }.err().expect("a refusal");
    assert!(refused.to_string().contains("gpu:1"), "{refused}");
}
