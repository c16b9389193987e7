//! Tests that execute assembled code.

use super::*;
use crate::jit::executable_memory::{ExecutableMemory, allowed};
use clk_runtime::Isa;

/// Assembles code and maps it into executable memory. If this machine cannot run the code, prints the reason and
/// returns `None`.
fn build(isa: Isa, emit: impl FnOnce(&mut Assembler)) -> Option<ExecutableMemory> {
    if !isa.is_supported() || !allowed() {
        println!("skipped: this machine has no {isa}, or the system forbids executable memory");
        return None;
    }
    let mut asm = Assembler::new(isa == Isa::Avx512);
    emit(&mut asm);
    Some(ExecutableMemory::new(&asm.finish()).expect("executable memory"))
}

/// Reinterprets the entry of assembled code as a function with the given parameter types.
macro_rules! function {
    ($exec:expr, $type:ty) => {
        // SAFETY: the code is a complete function of this type.
        unsafe { std::mem::transmute::<*const u8, $type>($exec.entry()) }
    };
}

fn bytes<const N: usize>(values: [f32; N]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

#[test]
fn a_sum_of_two_numbers() {
    let Some(exec) = build(Isa::Base, |asm| {
        asm.lea(OperandSize::S64, Gpr::RAX, Mem::index(Gpr::RDI, Gpr::RSI, 1, 0));
        asm.ret();
    }) else {
        return;
    };
    let add = function!(exec, extern "sysv64" fn(u64, u64) -> u64);
    assert_eq!((add(40, 2), add(u64::MAX, 5)), (42, 4));
}

#[test]
fn a_sum_over_an_array() {
    let Some(exec) = build(Isa::Base, |asm| {
        let (top, done) = (asm.label(), asm.label());
        asm.alu(Alu::Xor, OperandSize::S32, Gpr::RAX, Gpr::RAX);
        asm.alu(Alu::Xor, OperandSize::S32, Gpr::RCX, Gpr::RCX);
        asm.bind(top);
        asm.alu(Alu::Cmp, OperandSize::S64, Gpr::RCX, Gpr::RSI);
        asm.jcc(ConditionCode::E, done);
        asm.alu(Alu::Add, OperandSize::S32, Gpr::RAX, Mem::index(Gpr::RDI, Gpr::RCX, 4, 0));
        asm.alu(Alu::Add, OperandSize::S64, Gpr::RCX, 1);
        asm.jmp(top);
        asm.bind(done);
        asm.ret();
    }) else {
        return;
    };
    let sum = function!(exec, extern "sysv64" fn(*const u32, usize) -> u32);
    let values: Vec<u32> = (1..=1000).collect();
    assert_eq!(sum(values.as_ptr(), values.len()), 500_500);
    assert_eq!(sum(values.as_ptr(), 0), 0);
}

#[test]
fn a_vector_sum_with_avx2() {
    let Some(exec) = build(Isa::Avx2, |asm| {
        let tenths = asm.constant(&bytes([0.5; 8]));
        asm.v2(V2::Move, Len::L256, Vreg(9), Mem::at(Gpr::RDI, 0), Masking::None);
        asm.v3(V3::AddPs, Len::L256, Vreg(10), Vreg(9), Mem::at(Gpr::RSI, 0), Masking::None);
        asm.v3(V3::MulPs, Len::L256, Vreg(10), Vreg(10), tenths, Masking::None);
        asm.vstore(false, Len::L256, Mem::at(Gpr::RDX, 0), Vreg(10), None);
        asm.vzeroupper();
        asm.ret();
    }) else {
        return;
    };
    let mean = function!(exec, extern "sysv64" fn(*const f32, *const f32, *mut f32));
    let (a, b) = (std::array::from_fn::<f32, 8, _>(|i| i as f32), [10.0f32; 8]);
    let mut c = [0.0f32; 8];
    mean(a.as_ptr(), b.as_ptr(), c.as_mut_ptr());
    assert_eq!(c, a.map(|x| (x + 10.0) / 2.0));
}

/// Adds lanes for which a comparison holds. The code uses registers above 15, a broadcast constant, a mask and scaled
/// displacements.
#[test]
fn a_masked_sum_with_avx512() {
    let Some(exec) = build(Isa::Avx512, |asm| {
        let three = asm.constant(&3.0f32.to_le_bytes());
        asm.v2(V2::Move, Len::L512, Vreg(17), Mem::at(Gpr::RDI, 64), Masking::None);
        asm.cmp(Cmp::Ps, Len::L512, Kreg(3), Vreg(17), Src::ConstBroadcast(three), 1, None);
        asm.v3(V3::AddPs, Len::L512, Vreg(17), Vreg(17), Src::Broadcast(Mem::at(Gpr::RSI, 4)), Masking::Merge(Kreg(3)));
        asm.vstore(false, Len::L512, Mem::at(Gpr::RDI, 64), Vreg(17), None);
        asm.kmov_to(Gpr::RAX, Kreg(3));
        asm.vzeroupper();
        asm.ret();
    }) else {
        return;
    };
    let run = function!(exec, extern "sysv64" fn(*mut f32, *const f32) -> u32);
    let mut values = std::array::from_fn::<f32, 32, _>(|i| i as f32 - 16.0);
    let mask = run(values.as_mut_ptr(), [0.0f32, 100.0].as_ptr());
    assert_eq!(mask, 0b111);
    assert_eq!(values[15..20], [-1.0, 100.0, 101.0, 102.0, 3.0]);
}

/// Reverses an array with a gather, and stores every second element with a scatter.
#[test]
fn a_gather_and_a_scatter() {
    let Some(exec) = build(Isa::Avx512, |asm| {
        let down: Vec<u8> = (0..16u32).rev().flat_map(u32::to_le_bytes).collect();
        let down = asm.constant(&down);
        asm.v2(V2::Move, Len::L512, Vreg(30), down, Masking::None);
        asm.mov(OperandSize::S32, Gpr::RAX, 0xffff);
        asm.kmov_from(Kreg(1), Gpr::RAX);
        let at = |base, index| VecMem { base, index, scale: 4, disp: 0 };
        asm.gather(Gather::DD, Len::L512, Vreg(18), at(Gpr::RDI, Vreg(30)), Kreg(1));
        asm.mov(OperandSize::S32, Gpr::RAX, 0x5555);
        asm.kmov_from(Kreg(1), Gpr::RAX);
        asm.scatter(Gather::DD, Len::L512, at(Gpr::RSI, Vreg(30)), Vreg(18), Kreg(1));
        asm.vzeroupper();
        asm.ret();
    }) else {
        return;
    };
    let run = function!(exec, extern "sysv64" fn(*const u32, *mut u32));
    let from = std::array::from_fn::<u32, 16, _>(|i| i as u32 * 3);
    let mut to = [7u32; 16];
    run(from.as_ptr(), to.as_mut_ptr());
    // Lane i contains element 15 - i, and the even lanes are stored.
    assert_eq!(to, std::array::from_fn(|i| if i % 2 == 1 { i as u32 * 3 } else { 7 }));
}

#[test]
fn a_masked_copy_with_avx2() {
    let Some(exec) = build(Isa::Avx2, |asm| {
        let zero = Vreg(0);
        asm.v3(V3::Xor, Len::L256, zero, zero, zero, Masking::None);
        asm.v2(V2::Move, Len::L256, Vreg(1), Mem::at(Gpr::RDI, 0), Masking::None);
        asm.v3(V3::GtD, Len::L256, Vreg(2), Vreg(1), zero, Masking::None);
        asm.maskmov_store(OperandSize::S32, Len::L256, Mem::at(Gpr::RSI, 0), Vreg(2), Vreg(1));
        asm.movmsk(false, Len::L256, Gpr::RAX, Vreg(2));
        asm.vzeroupper();
        asm.ret();
    }) else {
        return;
    };
    let run = function!(exec, extern "sysv64" fn(*const i32, *mut i32) -> u32);
    let mut to = [9i32; 8];
    assert_eq!(run([1, -1, 2, 0, 3, -3, 4, -4].as_ptr(), to.as_mut_ptr()), 0b0101_0101);
    assert_eq!(to, [1, 9, 2, 9, 3, 9, 4, 9]);
}
