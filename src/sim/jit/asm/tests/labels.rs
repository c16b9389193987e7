//! Tests of labels and pool constants.

use super::*;

/// Decodes instructions up to the end of the code.
fn decode_all(code: &[u8]) -> Vec<Instruction> {
    Decoder::with_ip(64, code, 0, DecoderOptions::NONE).into_iter().collect()
}

#[test]
fn jumps_forward_and_backward() {
    let mut asm = Assembler::new(false);
    let (top, end, here) = (asm.label(), asm.label(), asm.label());
    asm.bind(top);
    asm.alu(Alu::Sub, OperandSize::S32, Gpr::RAX, 1);
    asm.jcc(ConditionCode::E, end);
    asm.jcc(ConditionCode::G, here);
    for _ in 0..100 {
        asm.imul(OperandSize::S64, Gpr::R9, Gpr::R10);
    }
    asm.bind(here);
    let middle = asm.position();
    asm.jmp(top);
    asm.bind(end);
    let last = asm.position();
    asm.ret();
    let code = asm.finish();
    let targets: Vec<u64> =
        decode_all(&code).iter().filter(|i| i.op0_kind() == OpKind::NearBranch64).map(|i| i.near_branch64()).collect();
    assert_eq!(targets, [last as u64, middle as u64, 0]);
    assert_eq!(code.len(), last + 1);
}

#[test]
fn constants_are_aligned_and_shared() {
    let mut asm = Assembler::new(true);
    let values: [&[u8]; 4] = [&[1; 4], &[2; 64], &[3; 8], &[4; 16]];
    for value in values {
        let constant = asm.constant(value);
        assert_eq!(asm.constant(value), constant);
        asm.v2(V2::Move, Len::L512, Vreg(20), constant, Masking::None);
        // The distance is relative to the end of the instruction, so it includes the immediate operand after the
        // reference.
        asm.v2i(V2i::ShufD, Len::L512, Vreg(20), Src::Const(constant), 3, Masking::None);
    }
    asm.ret();
    let end = asm.position();
    let code = asm.finish();
    let decoded = decode_all(&code[..end]);
    assert_eq!(decoded.len(), 9);
    for (i, value) in values.into_iter().enumerate() {
        for instruction in &decoded[2 * i..2 * i + 2] {
            let at = instruction.memory_displacement64() as usize;
            assert_eq!(&code[at..at + value.len()], value);
            assert_eq!(at % value.len(), 0);
        }
    }
    let start = end.next_multiple_of(64);
    assert!(code[end..start].iter().all(|&byte| byte == 0xcc), "the gap holds breakpoints");
    assert_eq!(code.len(), start + 64 + 16 + 8 + 4);
}

#[test]
#[cfg(debug_assertions)]
#[should_panic(expected = "is not bound")]
fn jumps_need_a_target() {
    let mut asm = Assembler::new(false);
    let nowhere = asm.label();
    asm.jmp(nowhere);
    asm.finish();
}
