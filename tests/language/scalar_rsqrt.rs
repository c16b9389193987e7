//! The simulator computes `rsqrt` of `f32` with a faster algorithm than its definition; both have to agree for every
//! mantissa.

use std::sync::Arc;

use clk_ir::{PreparedKernel, text, verify};
use clk_runtime::{Arg, Control, Device, Executable, LaunchExtents};
use clk_scalar::Float;
use clk_testing::isa;

const KERNEL: &str = "kernel roots(x: in @x, y: out @y) threads 1
fn roots() {
    global 0 in @x: f32[_]
    global 1 out @y: f32[_]
    %0: f32 = load @x[index0]
    %1: f32 = rsqrt(%0)
    store @y[index0] = %1
}
";

/// Compares the kernel with the definition for inputs with these bits.
fn compare(kernel: &dyn Executable, inputs: impl Iterator<Item = u32>) {
    let x: Vec<u32> = inputs.collect();
    let mut y = vec![0u32; x.len()];
    let shape = vec![x.len() as u32];
    let mut arguments = [
        Arg::Read { bytes: bytemuck::cast_slice(&x), shape: shape.clone() },
        Arg::Write { bytes: bytemuck::cast_slice_mut(&mut y), shape },
    ];
    let extents = LaunchExtents::Threads([x.len() as u32, 1, 1]);
    kernel.launch(&extents.into(), &mut arguments, &Control::default()).expect("no faults");
    for (&x, &y) in x.iter().zip(&y) {
        let (input, actual) = (f32::from_bits(x), f32::from_bits(y));
        let defined = input.op_rsqrt();
        let same = defined.to_bits() == y || defined.is_nan() && actual.is_nan();
        assert!(same, "rsqrt({input:e}) is {actual:e} and should be {defined:e} ({x:#x})");
    }
}

#[test]
fn every_mantissa_is_rounded_as_defined() {
    let module = verify::verify(text::parse(KERNEL).expect("reads")).expect("verifies");
    let prepared = Arc::new(PreparedKernel::new(module, Default::default()));
    for simulator in isa::some_simulators() {
        every_mantissa(&*simulator.load(prepared.clone(), None));
    }
}

fn every_mantissa(kernel: &dyn Executable) {
    // All numbers from 1 to 4: both parities of the exponent.
    for start in (0x3f80_0000..0x4080_0000).step_by(1 << 20) {
        compare(kernel, start..start + (1 << 20));
    }
    // All exponents and signs, including zeros, subnormals, infinities and NaNs.
    compare(kernel, (0..1 << 20).map(|k: u32| k.wrapping_mul(4099)));
    let edges = [0u32, 1, 0x7f_ffff, 0x80_0000, 0x717f_ffff, 0x7180_0000, 0x7f7f_ffff, 0x7f80_0000, 0x7fc0_0000];
    compare(kernel, edges.into_iter().flat_map(|bits| [bits, bits | 1 << 31]));
}
