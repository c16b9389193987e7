//! Tests of instructions on general-purpose registers.

use super::*;

const ROUNDS: u64 = 300;

const ALU: [(Alu, &str); 8] = [
    (Alu::Add, "add"),
    (Alu::Or, "or"),
    (Alu::Adc, "adc"),
    (Alu::Sbb, "sbb"),
    (Alu::And, "and"),
    (Alu::Sub, "sub"),
    (Alu::Xor, "xor"),
    (Alu::Cmp, "cmp"),
];

const CONDITIONS: [(ConditionCode, &str); 16] = [
    (ConditionCode::O, "o"),
    (ConditionCode::No, "no"),
    (ConditionCode::B, "b"),
    (ConditionCode::Ae, "ae"),
    (ConditionCode::E, "e"),
    (ConditionCode::Ne, "ne"),
    (ConditionCode::Be, "be"),
    (ConditionCode::A, "a"),
    (ConditionCode::S, "s"),
    (ConditionCode::Ns, "ns"),
    (ConditionCode::P, "p"),
    (ConditionCode::Np, "np"),
    (ConditionCode::L, "l"),
    (ConditionCode::Ge, "ge"),
    (ConditionCode::Le, "le"),
    (ConditionCode::G, "g"),
];

fn reg(s: OperandSize, register: Gpr) -> ExpectedOperand {
    ExpectedOperand::Reg(gpr(s, register))
}

/// Returns an immediate operand in the decoder's format for this operand size.
fn imm(s: OperandSize, value: i32) -> ExpectedOperand {
    ExpectedOperand::Imm(if s == OperandSize::S32 { value as u32 as u64 } else { value as u64 })
}

/// Returns a random source operand (register, address or immediate) and its expected decoding.
fn source(random: &mut OperandRandom, s: OperandSize) -> (Rm, ExpectedOperand) {
    match random.next_below(3) {
        0 => {
            let a = random.gpr();
            (a.into(), reg(s, a))
        }
        1 => {
            let a = random.mem();
            (a.into(), mem(a))
        }
        _ => {
            let a = random.imm32();
            (a.into(), imm(s, a))
        }
    }
}

/// Returns a random source operand in a register or in memory, and its expected decoding.
fn place(random: &mut OperandRandom, s: OperandSize) -> (Rm, ExpectedOperand) {
    loop {
        let choice = source(random, s);
        if !matches!(choice.0, Rm::Imm(_)) {
            return choice;
        }
    }
}

#[test]
fn moves() {
    let mut random = OperandRandom::new(1);
    for _ in 0..ROUNDS {
        let (s, d, at) = (random.size(), random.gpr(), random.mem());
        let (src, want) = source(&mut random, s);
        ExpectedInstruction::new("mov", [reg(s, d), want]).check(false, |asm| asm.mov(s, d, src));
        ExpectedInstruction::new("mov", [mem(at), reg(s, d)]).check(false, |asm| asm.store(s, at, d));
        let value = random.imm32();
        ExpectedInstruction::new("mov", [mem(at), imm(s, value)]).check(false, |asm| asm.store_imm(s, at, value));
        ExpectedInstruction::new("lea", [reg(s, d), mem(at)]).check(false, |asm| asm.lea(s, d, at));
        let (src, want) = place(&mut random, OperandSize::S32);
        ExpectedInstruction::new("movsxd", [reg(OperandSize::S64, d), want]).check(false, |asm| asm.movsxd(d, src));
        ExpectedInstruction::new("push", [reg(OperandSize::S64, d)]).check(false, |asm| asm.push(d));
        ExpectedInstruction::new("pop", [reg(OperandSize::S64, d)]).check(false, |asm| asm.pop(d));
        let a = random.gpr();
        for (c, name) in CONDITIONS {
            let name = format!("cmov{name}");
            ExpectedInstruction::new(&name, [reg(s, d), reg(s, a)]).check(false, |asm| asm.cmov(c, s, d, a));
        }
    }
}

#[test]
fn large_constants() {
    let values = [0, 1, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff, 0x1_0000_0000, 1 << 63, u64::MAX, -2i64 as u64];
    for (i, value) in values.into_iter().enumerate() {
        for d in (0..16).map(Gpr) {
            let (s, length) = match value {
                0..=0xffff_ffff => (OperandSize::S32, 5 + usize::from(d.0 > 7)),
                _ if i64::from(value as i32) as u64 == value => (OperandSize::S64, 7),
                _ => (OperandSize::S64, 10),
            };
            let mut asm = Assembler::new(i % 2 == 0);
            asm.mov_imm64(d, value);
            assert_eq!(asm.position(), length, "{value:#x}");
            ExpectedInstruction::new("mov", [reg(s, d), ExpectedOperand::Imm(value)]).check_code(asm);
        }
    }
}

#[test]
fn byte_and_word_operations() {
    let mut random = OperandRandom::new(2);
    for _ in 0..ROUNDS {
        let (d, at) = (random.gpr(), random.mem());
        let (narrow, wide) = (reg(OperandSize::S32, d), reg(OperandSize::S64, d));
        ExpectedInstruction::new("movzx", [narrow.clone(), mem(at)]).check(false, |asm| asm.load_zx8(d, at));
        ExpectedInstruction::new("movzx", [narrow.clone(), mem(at)]).check(false, |asm| asm.load_zx16(d, at));
        ExpectedInstruction::new("movsx", [wide.clone(), mem(at)]).check(false, |asm| asm.load_sx8(d, at));
        ExpectedInstruction::new("movsx", [wide, mem(at)]).check(false, |asm| asm.load_sx16(d, at));
        ExpectedInstruction::new("mov", [mem(at), ExpectedOperand::Reg(gpr8(d))]).check(false, |asm| asm.store8(at, d));
        ExpectedInstruction::new("prefetcht0", [mem(at)]).check(false, |asm| asm.prefetch(at, false));
        ExpectedInstruction::new("prefetchw", [mem(at)]).check(false, |asm| asm.prefetch(at, true));
        let word = ExpectedOperand::Reg(Register::AX + u32::from(d.0));
        ExpectedInstruction::new("mov", [mem(at), word]).check(false, |asm| asm.store16(at, d));
        let a = random.gpr();
        ExpectedInstruction::new("movzx", [narrow, ExpectedOperand::Reg(gpr8(a))]).check(false, |asm| asm.movzx8(d, a));
        for (c, name) in CONDITIONS {
            ExpectedInstruction::new(&format!("set{name}"), [ExpectedOperand::Reg(gpr8(d))])
                .check(false, |asm| asm.setcc(c, d));
        }
    }
}

#[test]
fn bytes_differ_from_words() {
    let code = |emit: fn(&mut Assembler)| {
        let mut asm = Assembler::new(false);
        emit(&mut asm);
        asm.finish()
    };
    let at = Mem::at(Gpr::RDI, 0);
    assert_eq!(code(|asm| asm.load_zx8(Gpr::RAX, Mem::at(Gpr::RDI, 0))), [0x0f, 0xb6, 0x07]);
    assert_eq!(code(|asm| asm.load_sx8(Gpr::RAX, Mem::at(Gpr::RDI, 0))), [0x48, 0x0f, 0xbe, 0x07]);
    assert_eq!(code(|asm| asm.load_zx16(Gpr::RAX, Mem::at(Gpr::RDI, 0))), [0x0f, 0xb7, 0x07]);
    assert_eq!(code(|asm| asm.load_sx16(Gpr::RAX, Mem::at(Gpr::RDI, 0))), [0x48, 0x0f, 0xbf, 0x07]);
    // SIL needs a REX prefix; without it, the same encoding means DH.
    ExpectedInstruction::new("mov", [mem(at), ExpectedOperand::Reg(Register::SIL)])
        .check(false, |asm| asm.store8(at, Gpr::RSI));
}

#[test]
fn arithmetic() {
    let mut random = OperandRandom::new(3);
    for _ in 0..ROUNDS {
        let (s, d, at) = (random.size(), random.gpr(), random.mem());
        for (op, name) in ALU {
            let (src, want) = source(&mut random, s);
            ExpectedInstruction::new(name, [reg(s, d), want]).check(false, |asm| asm.alu(op, s, d, src));
            let (a, value) = (random.gpr(), random.imm32());
            ExpectedInstruction::new(name, [mem(at), reg(s, a)]).check(false, |asm| asm.alu_mem(op, s, at, a));
            ExpectedInstruction::new(name, [mem(at), imm(s, value)]).check(false, |asm| asm.alu_mem(op, s, at, value));
        }
        for (op, name) in &ALU[..7] {
            let a = random.gpr();
            ExpectedInstruction::new(name, [mem(at), reg(s, a)]).check(false, |asm| asm.alu_locked(*op, s, at, a));
        }
        ExpectedInstruction::new("xadd", [mem(at), reg(s, d)]).check(false, |asm| asm.xadd_locked(s, at, d));
        ExpectedInstruction::new("cmpxchg", [mem(at), reg(s, d)]).check(false, |asm| asm.cmpxchg_locked(s, at, d));
        ExpectedInstruction::new("xchg", [mem(at), reg(s, d)]).check(false, |asm| asm.xchg(s, at, d));
        let (a, value) = (random.gpr(), random.imm32());
        ExpectedInstruction::new("test", [reg(s, d), reg(s, a)]).check(false, |asm| asm.test(s, d, a));
        let (src, want) = place(&mut random, s);
        ExpectedInstruction::new("imul", [reg(s, d), want]).check(false, |asm| asm.imul(s, d, src));
        let operands = [reg(s, d), reg(s, a), imm(s, value)];
        ExpectedInstruction::new("imul", operands).check(false, |asm| asm.imul_imm(s, d, a, value));
        let operands = [reg(s, d), reg(s, d), imm(s, value)];
        ExpectedInstruction::new("imul", operands).check(false, |asm| asm.imul(s, d, value));
    }
}

#[test]
fn operations_on_one_register() {
    type Emit = fn(&mut Assembler, OperandSize, Gpr);
    const ONE: [(&str, Emit); 6] = [
        ("not", Assembler::not),
        ("neg", Assembler::neg),
        ("mul", Assembler::mul_wide),
        ("imul", Assembler::imul_wide),
        ("div", Assembler::div),
        ("idiv", Assembler::idiv),
    ];
    const SHIFTS: [(ShiftOp, &str); 5] = [
        (ShiftOp::Shl, "shl"),
        (ShiftOp::Shr, "shr"),
        (ShiftOp::Sar, "sar"),
        (ShiftOp::Rol, "rol"),
        (ShiftOp::Ror, "ror"),
    ];
    for d in (0..16).map(Gpr) {
        for s in [OperandSize::S32, OperandSize::S64] {
            for (name, emit) in ONE {
                ExpectedInstruction::new(name, [reg(s, d)]).check(false, |asm| emit(asm, s, d));
            }
            for (op, name) in SHIFTS {
                for n in [0, 1, 7, 31, 63] {
                    let operands = [reg(s, d), ExpectedOperand::Imm(n.into())];
                    ExpectedInstruction::new(name, operands).check(false, |asm| asm.shift_imm(op, s, d, n));
                }
            }
        }
        ExpectedInstruction::new("call", [reg(OperandSize::S64, d)]).check(false, |asm| asm.call(d));
    }
}

#[test]
fn operations_on_two_registers() {
    type Emit = fn(&mut Assembler, OperandSize, Gpr, Gpr);
    const TWO: [(&str, Emit); 3] =
        [("popcnt", Assembler::popcnt), ("lzcnt", Assembler::lzcnt), ("tzcnt", Assembler::tzcnt)];
    const SHIFTS: [(ShiftOp, &str); 3] = [(ShiftOp::Shl, "shlx"), (ShiftOp::Shr, "shrx"), (ShiftOp::Sar, "sarx")];
    let mut random = OperandRandom::new(4);
    for i in 0..ROUNDS {
        let (s, d, a, count) = (random.size(), random.gpr(), random.gpr(), random.gpr());
        for (name, emit) in TWO {
            ExpectedInstruction::new(name, [reg(s, d), reg(s, a)]).check(false, |asm| emit(asm, s, d, a));
        }
        for (op, name) in SHIFTS {
            let operands = [reg(s, d), reg(s, a), reg(s, count)];
            ExpectedInstruction::new(name, operands).check(i % 2 == 0, |asm| asm.shift(op, s, d, a, count));
        }
    }
}

#[test]
fn instructions_without_operands() {
    ExpectedInstruction::new("cdq", []).check(false, |asm| asm.cdq(OperandSize::S32));
    ExpectedInstruction::new("cqo", []).check(false, |asm| asm.cdq(OperandSize::S64));
    ExpectedInstruction::new("ret", []).check(false, Assembler::ret);
    ExpectedInstruction::new("ud2", []).check(false, Assembler::ud2);
    ExpectedInstruction::new("vzeroupper", []).check(false, Assembler::vzeroupper);
}

#[test]
fn conditions_and_their_opposites() {
    for pair in CONDITIONS.chunks(2) {
        let [(c, _), (not, name)] = pair else { panic!("a pair") };
        assert_eq!((c.not(), not.not()), (*not, *c));
        let mut asm = Assembler::new(false);
        let target = asm.label();
        asm.bind(target);
        asm.jcc(c.not(), target);
        let decoded = decode(&asm.finish());
        assert_eq!(format!("{:?}", decoded.mnemonic()).to_lowercase(), format!("j{name}"));
        assert_eq!(decoded.near_branch_target(), 0);
    }
}
