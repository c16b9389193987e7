//! Instructions on general-purpose registers.

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

const CONDITIONS: [(Cond, &str); 16] = [
    (Cond::O, "o"),
    (Cond::No, "no"),
    (Cond::B, "b"),
    (Cond::Ae, "ae"),
    (Cond::E, "e"),
    (Cond::Ne, "ne"),
    (Cond::Be, "be"),
    (Cond::A, "a"),
    (Cond::S, "s"),
    (Cond::Ns, "ns"),
    (Cond::P, "p"),
    (Cond::Np, "np"),
    (Cond::L, "l"),
    (Cond::Ge, "ge"),
    (Cond::Le, "le"),
    (Cond::G, "g"),
];

fn reg(s: Size, register: Gpr) -> Want {
    Want::Reg(gpr(s, register))
}

/// An immediate operand, as the decoder shows one of this size.
fn imm(s: Size, value: i32) -> Want {
    Want::Imm(if s == Size::S32 { value as u32 as u64 } else { value as u64 })
}

/// A source: a register, an address or an immediate operand.
fn source(random: &mut Random, s: Size) -> (Rm, Want) {
    match random.below(3) {
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

/// A source in a register or in memory.
fn place(random: &mut Random, s: Size) -> (Rm, Want) {
    loop {
        let found = source(random, s);
        if !matches!(found.0, Rm::Imm(_)) {
            return found;
        }
    }
}

#[test]
fn moves() {
    let mut random = Random::new(1);
    for _ in 0..ROUNDS {
        let (s, d, at) = (random.size(), random.gpr(), random.mem());
        let (src, want) = source(&mut random, s);
        Wanted::new("mov", [reg(s, d), want]).check(false, |asm| asm.mov(s, d, src));
        Wanted::new("mov", [mem(at), reg(s, d)]).check(false, |asm| asm.store(s, at, d));
        let value = random.imm32();
        Wanted::new("mov", [mem(at), imm(s, value)]).check(false, |asm| asm.store_imm(s, at, value));
        Wanted::new("lea", [reg(s, d), mem(at)]).check(false, |asm| asm.lea(s, d, at));
        let (src, want) = place(&mut random, Size::S32);
        Wanted::new("movsxd", [reg(Size::S64, d), want]).check(false, |asm| asm.movsxd(d, src));
        Wanted::new("push", [reg(Size::S64, d)]).check(false, |asm| asm.push(d));
        Wanted::new("pop", [reg(Size::S64, d)]).check(false, |asm| asm.pop(d));
        let a = random.gpr();
        for (c, name) in CONDITIONS {
            let name = format!("cmov{name}");
            Wanted::new(&name, [reg(s, d), reg(s, a)]).check(false, |asm| asm.cmov(c, s, d, a));
        }
    }
}

#[test]
fn large_constants() {
    let values = [0, 1, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff, 0x1_0000_0000, 1 << 63, u64::MAX, -2i64 as u64];
    for (i, value) in values.into_iter().enumerate() {
        for d in (0..16).map(Gpr) {
            let (s, length) = match value {
                0..=0xffff_ffff => (Size::S32, 5 + usize::from(d.0 > 7)),
                _ if i64::from(value as i32) as u64 == value => (Size::S64, 7),
                _ => (Size::S64, 10),
            };
            let mut asm = Assembler::new(i % 2 == 0);
            asm.mov_imm64(d, value);
            assert_eq!(asm.position(), length, "{value:#x}");
            Wanted::new("mov", [reg(s, d), Want::Imm(value)]).check_code(asm);
        }
    }
}

#[test]
fn bytes_and_words() {
    let mut random = Random::new(2);
    for _ in 0..ROUNDS {
        let (d, at) = (random.gpr(), random.mem());
        let (narrow, wide) = (reg(Size::S32, d), reg(Size::S64, d));
        Wanted::new("movzx", [narrow.clone(), mem(at)]).check(false, |asm| asm.load_zx8(d, at));
        Wanted::new("movzx", [narrow.clone(), mem(at)]).check(false, |asm| asm.load_zx16(d, at));
        Wanted::new("movsx", [wide.clone(), mem(at)]).check(false, |asm| asm.load_sx8(d, at));
        Wanted::new("movsx", [wide, mem(at)]).check(false, |asm| asm.load_sx16(d, at));
        Wanted::new("mov", [mem(at), Want::Reg(gpr8(d))]).check(false, |asm| asm.store8(at, d));
        Wanted::new("prefetcht0", [mem(at)]).check(false, |asm| asm.prefetch(at, false));
        Wanted::new("prefetchw", [mem(at)]).check(false, |asm| asm.prefetch(at, true));
        let word = Want::Reg(Register::AX + u32::from(d.0));
        Wanted::new("mov", [mem(at), word]).check(false, |asm| asm.store16(at, d));
        let a = random.gpr();
        Wanted::new("movzx", [narrow, Want::Reg(gpr8(a))]).check(false, |asm| asm.movzx8(d, a));
        for (c, name) in CONDITIONS {
            Wanted::new(&format!("set{name}"), [Want::Reg(gpr8(d))]).check(false, |asm| asm.setcc(c, d));
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
    // SIL needs a prefix, without which it would be DH.
    Wanted::new("mov", [mem(at), Want::Reg(Register::SIL)]).check(false, |asm| asm.store8(at, Gpr::RSI));
}

#[test]
fn arithmetic() {
    let mut random = Random::new(3);
    for _ in 0..ROUNDS {
        let (s, d, at) = (random.size(), random.gpr(), random.mem());
        for (op, name) in ALU {
            let (src, want) = source(&mut random, s);
            Wanted::new(name, [reg(s, d), want]).check(false, |asm| asm.alu(op, s, d, src));
            let (a, value) = (random.gpr(), random.imm32());
            Wanted::new(name, [mem(at), reg(s, a)]).check(false, |asm| asm.alu_mem(op, s, at, a));
            Wanted::new(name, [mem(at), imm(s, value)]).check(false, |asm| asm.alu_mem(op, s, at, value));
        }
        for (op, name) in &ALU[..7] {
            let a = random.gpr();
            Wanted::new(name, [mem(at), reg(s, a)]).check(false, |asm| asm.alu_locked(*op, s, at, a));
        }
        Wanted::new("xadd", [mem(at), reg(s, d)]).check(false, |asm| asm.xadd_locked(s, at, d));
        Wanted::new("cmpxchg", [mem(at), reg(s, d)]).check(false, |asm| asm.cmpxchg_locked(s, at, d));
        Wanted::new("xchg", [mem(at), reg(s, d)]).check(false, |asm| asm.xchg(s, at, d));
        let (a, value) = (random.gpr(), random.imm32());
        Wanted::new("test", [reg(s, d), reg(s, a)]).check(false, |asm| asm.test(s, d, a));
        let (src, want) = place(&mut random, s);
        Wanted::new("imul", [reg(s, d), want]).check(false, |asm| asm.imul(s, d, src));
        let operands = [reg(s, d), reg(s, a), imm(s, value)];
        Wanted::new("imul", operands).check(false, |asm| asm.imul_imm(s, d, a, value));
        let operands = [reg(s, d), reg(s, d), imm(s, value)];
        Wanted::new("imul", operands).check(false, |asm| asm.imul(s, d, value));
    }
}

#[test]
fn operations_on_one_register() {
    type Emit = fn(&mut Assembler, Size, Gpr);
    const ONE: [(&str, Emit); 6] = [
        ("not", Assembler::not),
        ("neg", Assembler::neg),
        ("mul", Assembler::mul_wide),
        ("imul", Assembler::imul_wide),
        ("div", Assembler::div),
        ("idiv", Assembler::idiv),
    ];
    const SHIFTS: [(Shift, &str); 5] =
        [(Shift::Shl, "shl"), (Shift::Shr, "shr"), (Shift::Sar, "sar"), (Shift::Rol, "rol"), (Shift::Ror, "ror")];
    for d in (0..16).map(Gpr) {
        for s in [Size::S32, Size::S64] {
            for (name, emit) in ONE {
                Wanted::new(name, [reg(s, d)]).check(false, |asm| emit(asm, s, d));
            }
            for (op, name) in SHIFTS {
                for n in [0, 1, 7, 31, 63] {
                    let operands = [reg(s, d), Want::Imm(n.into())];
                    Wanted::new(name, operands).check(false, |asm| asm.shift_imm(op, s, d, n));
                }
            }
        }
        Wanted::new("call", [reg(Size::S64, d)]).check(false, |asm| asm.call(d));
    }
}

#[test]
fn operations_on_two_registers() {
    type Emit = fn(&mut Assembler, Size, Gpr, Gpr);
    const TWO: [(&str, Emit); 3] =
        [("popcnt", Assembler::popcnt), ("lzcnt", Assembler::lzcnt), ("tzcnt", Assembler::tzcnt)];
    const SHIFTS: [(Shift, &str); 3] = [(Shift::Shl, "shlx"), (Shift::Shr, "shrx"), (Shift::Sar, "sarx")];
    let mut random = Random::new(4);
    for i in 0..ROUNDS {
        let (s, d, a, count) = (random.size(), random.gpr(), random.gpr(), random.gpr());
        for (name, emit) in TWO {
            Wanted::new(name, [reg(s, d), reg(s, a)]).check(false, |asm| emit(asm, s, d, a));
        }
        for (op, name) in SHIFTS {
            let operands = [reg(s, d), reg(s, a), reg(s, count)];
            Wanted::new(name, operands).check(i % 2 == 0, |asm| asm.shift(op, s, d, a, count));
        }
    }
}

#[test]
fn instructions_without_operands() {
    Wanted::new("cdq", []).check(false, |asm| asm.cdq(Size::S32));
    Wanted::new("cqo", []).check(false, |asm| asm.cdq(Size::S64));
    Wanted::new("ret", []).check(false, Assembler::ret);
    Wanted::new("ud2", []).check(false, Assembler::ud2);
    Wanted::new("vzeroupper", []).check(false, Assembler::vzeroupper);
}

#[test]
fn conditions_and_their_opposites() {
    for pair in CONDITIONS.chunks(2) {
        let [(c, _), (not, name)] = pair else { panic!("a pair") };
        assert_eq!((c.not(), not.not()), (*not, *c));
        let mut asm = Assembler::new(false);
        let here = asm.label();
        asm.bind(here);
        asm.jcc(c.not(), here);
        let decoded = decode(&asm.finish());
        assert_eq!(format!("{:?}", decoded.mnemonic()).to_lowercase(), format!("j{name}"));
        assert_eq!(decoded.near_branch_target(), 0);
    }
}
