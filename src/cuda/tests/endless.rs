//! Tests of endless kernels, which stop when the user asks for it.

use super::*;
use clk_runtime::LaunchConfig;
use clk_runtime::fault_record::STOP_WORD_AT;

/// Returns a kernel with a loop that never ends by itself.
fn endless_kernel() -> PreparedKernel {
    let mut b = FunctionBuilder::new("endless");
    let y = f32_array(&mut b, "y", Access::InOut);
    let i = b.index(0);
    let label = b.label();
    let body = b.in_block(|b| {
        let old = b.load(y, &[i]);
        b.store(y, &[i], old);
        let zero = b.f32(0.0);
        let done = b.binary(BinOp::Gt, old, zero);
        b.if_then(done, |b| b.break_(label));
    });
    b.loop_(label, Unroll::default(), body);
    let module = verify(build_module(Default::default(), b, LaunchForm::Threads { rank: 1 })).expect("a sound kernel");
    PreparedKernel::new(module, Default::default())
}

#[test]
fn waiting_threads_stop_endless_queued_kernels() {
    let (gpu, kernel, fake) = gpu(endless_kernel(), 1 << 20, |call| {
        let (memory, start) = at(call.memory, DevicePtr(call.find(KernelArgument::Faults)));
        if memory[start + STOP_WORD_AT as usize] != 0 {
            report(call, 0);
        }
    });
    fake.state.lock().unwrap().runs_until_poked = true;
    let mut y = storage(&[0.0; 4]);
    let control = Control::default();
    for _ in 0..2 {
        let args = &mut [Arg::ArrayMut { storage: &mut y, shape: vec![4] }];
        let config = LaunchConfig::new(LaunchExtents::Threads([4, 1, 1]), line(3));
        kernel.launch(&config, args, &control).expect("it is only queued");
    }
    let stop = control.stop.clone();
    let stopper = std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(5));
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    let earlier_fault = earlier(y.bytes().unwrap_err());
    assert_eq!((&earlier_fault.fault.kind, earlier_fault.origin.launched), (&FaultKind::Interrupted, line(3)));
    stopper.join().unwrap();
    assert!(fake.count("poke") >= 1);
    // If the driver's queue were full, a launch would block the host, which could then not ask kernels to stop.
    fake.state.lock().unwrap().runs_until_poked = true;
    let second_fault = (0..1000).find_map(|_| {
        let args = &mut [Arg::ArrayMut { storage: &mut y, shape: vec![4] }];
        kernel.launch(&LaunchExtents::Threads([4, 1, 1]).into(), args, &control).err()
    });
    let fault = second_fault.expect("it does not queue 1000");
    let FaultKind::Device(error) = fault.kind else { panic!("{fault:?}") };
    assert_eq!(earlier(error).fault.kind, FaultKind::Interrupted);
    // The next launch is not affected.
    fake.state.lock().unwrap().runs_until_poked = false;
    control.stop.store(false, std::sync::atomic::Ordering::Relaxed);
    let args = &mut [Arg::ArrayMut { storage: &mut y, shape: vec![4] }];
    kernel.launch(&LaunchExtents::Threads([4, 1, 1]).into(), args, &control).unwrap();
    gpu.finish().unwrap();
    assert_eq!(floats(&y), [0.0; 4]);
}
