//! Tests of buffer donation: results are written into an operand's memory only if no other value changes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::far::RemoteTestDevice;
use super::*;
use crate::array::SliceSpec;
use crate::unwind::{UnwindReason, catch_stop};
use clk_base::alloc;
use clk_base::source::SourceMap;
use clk_ir::PreparedKernel;
use clk_runtime::{Arg, Device, DeviceWrapper, Executable, Fault, LaunchConfig, PrintedText};

/// Returns the address of an array's bytes on the host.
fn address(value: &HostValue) -> usize {
    array(value).bytes().expect("bytes").as_ptr().addr()
}

fn times(exec: &ExecContext, a: &HostValue, b: &HostValue) -> HostValue {
    ops::binary(exec, BinaryOp::Mul, a, b).expect("a product")
}

fn first(value: &HostValue, n: usize) -> Vec<f32> {
    array(value).items::<f32>().expect("numbers")[..n].to_vec()
}

/// `x * 2 + y`.
fn step(exec: &ExecContext, x: &HostValue, y: &HostValue) -> HostValue {
    add(exec, &times(exec, x, &HostValue::Float(2.0)), y)
}

#[test]
fn results_reuse_the_memory_of_old_values() {
    for device in simulators() {
        run_on(device, |exec| {
            let (mut x, y) = (numbers(1000), numbers(1000));
            let before = address(&x);
            x = step(exec, &x, &y);
            assert_eq!((first(&x, 3), address(&x)), (vec![0.0, 3.0, 6.0], before));
            assert_eq!(first(&y, 3), [0.0, 1.0, 2.0]);
            // Use the operand twice in one expression, and through an unshared common subexpression.
            x = {
                let double = add(exec, &x, &x);
                times(exec, &double, &add(exec, &double, &y))
            };
            assert_eq!((first(&x, 3), address(&x)), (vec![0.0, 6.0 * 7.0, 12.0 * 14.0], before));
        });
    }
}

#[test]
fn long_histories_reuse_the_memory_of_their_beginning() {
    run_on(Simulator::default(), |exec| {
        let mut x = numbers(1000);
        let before = address(&x);
        for _ in 0..10 * node::MAX_OPS {
            x = add(exec, &x, &HostValue::Float(1.0));
        }
        assert_eq!((first(&x, 2), address(&x)), (vec![640.0, 641.0], before));
    });
}

#[test]
fn small_results_are_not_donated() {
    let exec = &ExecContext::default();
    for (n, is_over) in [((1 << 18) - 1, false), (1 << 18, true)] {
        let mut x = numbers(n);
        let before = address(&x);
        x = step(exec, &x, &HostValue::Float(1.0));
        assert_eq!((first(&x, 2), address(&x) == before), (vec![1.0, 3.0], is_over));
    }
}

/// Operands that other variables still reference keep their values.
#[test]
fn aliases_views_and_others_keep_old_values() {
    let far = std::sync::Arc::new(RemoteTestDevice::default());
    let work = |exec: &ExecContext, moved: &dyn Fn(HostValue) -> HostValue| {
        let old: Vec<f32> = first(&numbers(1000), 1000);
        let keeps = |keep: &dyn Fn(&HostValue) -> HostValue, expected: &dyn Fn(usize) -> f32| {
            let mut x = moved(numbers(1000));
            let alias = keep(&x);
            x = step(exec, &x, &HostValue::Float(1.0));
            assert_eq!(first(&x, 4), [1.0, 3.0, 5.0, 7.0]);
            let old_values = array(&alias).items::<f32>().expect("numbers");
            assert!(old_values.iter().enumerate().all(|(i, n)| *n == expected(i)), "{old_values:?}");
        };
        keeps(&HostValue::clone, &|i| old[i]);
        keeps(&|x| step(exec, x, &HostValue::Float(0.0)), &|i| 2.0 * old[i]);
        keeps(&|x| ops::index(exec, x, &[span(3, 900)]).expect("a slice"), &|i| old[i + 3]);
        keeps(&|x| ops::flip(exec, x, 0).expect("a flip"), &|i| old[999 - i]);
        keeps(&|x| ops::reshape(x, &[10, 100]).expect("rows"), &|i| old[i]);
        keeps(&|x| add(exec, &ops::index(exec, x, &[span(1, 1000)]).expect("a slice"), &HostValue::Float(0.5)), &|i| {
            old[i] + 1.5
        });
    };
    run_on(Simulator::default(), |exec| work(exec, &|x| x));
    far.run(|exec| work(exec, &|x| far.upload(&x)));
}

/// An operand is not donated if its elements are read at other positions than the result is written.
#[test]
fn neighbors_are_read_before_they_change() {
    run_on(Simulator::default(), |exec| {
        let mut x = numbers(1000);
        let flipped = ops::flip(exec, &x, 0).expect("a flip");
        x = add(exec, &x, &flipped);
        drop(flipped);
        assert!(array(&x).items::<f32>().expect("numbers").iter().all(|n| *n == 999.0));
        let mut x = numbers(1000);
        let (left, right) = (ops::index(exec, &x, &[span(0, 999)]), ops::index(exec, &x, &[span(1, 1000)]));
        x = add(exec, &left.expect("a slice"), &right.expect("a slice"));
        assert!(array(&x).items::<f32>().expect("numbers").iter().enumerate().all(|(i, n)| *n == 2.0 * i as f32 + 1.0));
        let row = ops::reshape(&numbers(1000), &[1, 1000]).expect("a row");
        let mut rows = ops::reshape(&numbers(3000), &[3, 1000]).expect("rows");
        rows = add(exec, &row, &rows);
        assert_eq!(array(&rows).items::<f32>().expect("numbers")[1001], 1002.0);
        assert_eq!(first(&row, 3), [0.0, 1.0, 2.0]);
    });
}

/// After a fault, or if a kernel cannot run, the operands keep their values. In the second case, the result can be
/// requested again.
#[test]
fn faults_leave_old_values() {
    run_on(Simulator::default(), |exec| {
        let counts = HostValue::Array(Array::from_items(&(0..1000).collect::<Vec<i32>>()).expect("memory"));
        let mut divisors = ops::binary(exec, BinaryOp::Sub, &counts, &HostValue::Int(500)).expect("numbers");
        divisors = ops::binary(exec, BinaryOp::Mul, &divisors, &HostValue::Int(2)).expect("numbers");
        let sum = ops::binary(exec, BinaryOp::Add, &counts, &HostValue::Int(1)).expect("numbers");
        assert_eq!(ops::binary(exec, BinaryOp::Div, &sum, &divisors).expect_err("a zero").code, "E0506");
        assert_eq!(array(&sum).items::<i32>().expect("numbers")[..2], [1, 2]);
        assert_eq!(array(&divisors).items::<i32>().expect("numbers")[..2], [-1000, -998]);
        assert_eq!(array(&counts).items::<i32>().expect("numbers")[..2], [0, 1]);
    });
}

#[test]
fn failed_results_can_be_read_again() {
    use clk_runtime::storage::FailedMemory;
    run_on(Simulator::default(), |exec| {
        let (mut x, mut y) = (numbers(1000), array(&numbers(1000)).clone());
        y.storage_mut().expect("memory").set_device_copy(std::sync::Arc::new(FailedMemory::unavailable()));
        x = step(exec, &x, &HostValue::Array(y.clone()));
        for _ in 0..2 {
            assert!(array(&x).bytes().is_err());
        }
        let stop: clk_base::stop::StopFlag = Default::default();
        let control = Control { stop: stop.clone(), ..Control::default() };
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        let context = ExecContext::new(std::sync::Arc::new(Simulator::default()), &control, Default::default())
            .with_min_donated(0);
        let exec = &context;
        let mut z = numbers(100_000);
        z = step(exec, &z, &HostValue::Float(1.0));
        // The donating kernel was not interrupted in the middle.
        assert_eq!(first(&z, 3), [1.0, 3.0, 5.0]);
    });
}

fn span(start: i64, end: i64) -> SliceSpec {
    SliceSpec::Range { start: Some(start), end: Some(end), inclusive: false, step: None }
}

/// A simulator whose launches run out of memory while `is_full` is set, after they have written.
struct FullDevice {
    simulator: Simulator,
    is_full: Arc<AtomicBool>,
}

struct FullExecutable {
    kernel: Arc<dyn Executable>,
    is_full: Arc<AtomicBool>,
}

impl DeviceWrapper for FullDevice {
    fn inner(&self) -> &dyn Device {
        &self.simulator
    }

    fn load(&self, kernel: Arc<PreparedKernel>, sources: Option<&SourceMap>) -> Arc<dyn Executable> {
        let kernel = Device::load(&self.simulator, kernel, sources);
        Arc::new(FullExecutable { kernel, is_full: self.is_full.clone() })
    }
}

impl Executable for FullExecutable {
    fn launch(
        &self,
        config: &LaunchConfig,
        args: &mut [Arg<'_>],
        control: &Control,
    ) -> Result<PrintedText, Box<Fault>> {
        let output = self.kernel.launch(config, args, control);
        if self.is_full.load(Ordering::Relaxed) {
            alloc::fail(64);
        }
        output
    }

    fn depends_on_promises(&self) -> bool {
        self.kernel.depends_on_promises()
    }

    fn prepare_block_shape(&self, shape: [u32; 3]) {
        self.kernel.prepare_block_shape(shape);
    }
}

/// A donated operand may be partly overwritten when the launch unwinds. It must not be read again.
#[test]
fn operands_of_launches_that_unwind_are_lost() {
    let is_full = Arc::new(AtomicBool::new(false));
    run_on(FullDevice { simulator: Simulator::default(), is_full: is_full.clone() }, |exec| {
        let x = step(exec, &numbers(1000), &HostValue::Float(1.0));
        is_full.store(true, Ordering::Relaxed);
        let unwound = catch_stop(Default::default(), || array(&x).bytes().map(drop));
        assert!(matches!(unwound, Err(UnwindReason::OutOfMemory(64))));
        is_full.store(false, Ordering::Relaxed);
        let problem = array(&x).bytes().expect_err("the operand is lost");
        assert_eq!(problem.code, "E0509");
    });
}
