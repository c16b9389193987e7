//! Tests of instructions that move vectors: stores, narrowing, extraction and insertion of parts, gathers and scatters.

use super::*;

const ROUNDS: u64 = 400;

const LENGTHS: [Len; 3] = [Len::L128, Len::L256, Len::L512];

fn len(random: &mut OperandRandom, evex: bool) -> Len {
    random.one(if evex { &LENGTHS } else { &LENGTHS[..2] })
}

fn reg(len: Len, register: Vreg) -> ExpectedOperand {
    ExpectedOperand::Reg(vreg(len.bytes(), register))
}

/// Returns the suffix of a mnemonic for this element size: `d` or `q`.
fn letter(s: OperandSize) -> char {
    if s == OperandSize::S32 { 'd' } else { 'q' }
}

#[test]
fn stores() {
    let mut random = OperandRandom::new(21);
    for i in 0..ROUNDS {
        let evex = i % 2 == 0;
        let (len, at, a, mask) = (len(&mut random, evex), random.mem(), random.vreg(evex), random.some_mask(evex));
        for (double, name) in [(false, "vmovups"), (true, "vmovupd")] {
            let expected = ExpectedInstruction::new(name, [mem(at), reg(len, a)]).masked(mask.into());
            expected.check(evex, |asm| asm.vstore(double, len, at, a, mask));
        }
    }
}

#[test]
fn narrowing() {
    const ROWS: [(Narrow, &str, usize); 5] = [
        (Narrow::DB, "vpmovdb", 4),
        (Narrow::DW, "vpmovdw", 2),
        (Narrow::QB, "vpmovqb", 8),
        (Narrow::QW, "vpmovqw", 4),
        (Narrow::QD, "vpmovqd", 2),
    ];
    assert_eq!(ROWS.map(|(op, ..)| op).as_slice(), Narrow::ALL);
    let mut random = OperandRandom::new(22);
    for _ in 0..ROUNDS {
        let (len, at, a, d) = (len(&mut random, true), random.mem(), random.vreg(true), random.vreg(true));
        let (mask, m, imm) = (random.some_mask(true), random.masking(true), random.imm8());
        for (op, name, part) in ROWS {
            let expected = ExpectedInstruction::new(name, [mem(at), reg(len, a)]).masked(mask.into());
            expected.check(true, |asm| asm.vstore_narrow(op, len, at, a, mask));
            let d_part = ExpectedOperand::Reg(vreg(len.bytes() / part, d));
            ExpectedInstruction::new(name, [d_part, reg(len, a)])
                .masked(m)
                .check(true, |asm| asm.narrow(op, len, d, a, m));
        }
        let half = ExpectedOperand::Reg(vreg(len.bytes() / 2, d));
        let expected =
            ExpectedInstruction::new("vcvtps2ph", [half, reg(len, a), ExpectedOperand::Imm(imm.into())]).masked(m);
        expected.check(true, |asm| asm.cvt_ps_ph(len, d, a, imm, m));
    }
    let operands = [reg(Len::L128, Vreg(9)), reg(Len::L256, Vreg(12)), ExpectedOperand::Imm(4)];
    let expected = ExpectedInstruction::new("vcvtps2ph", operands);
    expected.check(false, |asm| asm.cvt_ps_ph(Len::L256, Vreg(9), Vreg(12), 4, Masking::None));
}

#[test]
fn masked_moves_of_avx2() {
    let mut random = OperandRandom::new(23);
    for _ in 0..ROUNDS {
        let (s, len, at) = (random.size(), len(&mut random, false), random.mem());
        let (d, mask) = (random.vreg(false), random.vreg(false));
        let name = format!("vpmaskmov{}", letter(s));
        let expected = ExpectedInstruction::new(&name, [reg(len, d), reg(len, mask), mem(at)]);
        expected.check(false, |asm| asm.maskmov_load(s, len, d, mask, at));
        let expected = ExpectedInstruction::new(&name, [mem(at), reg(len, mask), reg(len, d)]);
        expected.check(false, |asm| asm.maskmov_store(s, len, at, mask, d));
    }
}

#[test]
fn scalars_in_vectors() {
    let mut random = OperandRandom::new(24);
    for i in 0..ROUNDS {
        let evex = i % 2 == 0;
        let (s, len, g, r) = (random.size(), len(&mut random, evex), random.gpr(), random.vreg(evex));
        let (scalar, first) = (ExpectedOperand::Reg(gpr(s, g)), reg(Len::L128, r));
        let name = format!("vmov{}", letter(s));
        ExpectedInstruction::new(&name, [first.clone(), scalar.clone()]).check(evex, |asm| asm.from_gpr(s, r, g));
        ExpectedInstruction::new(&name, [scalar.clone(), first]).check(evex, |asm| asm.to_gpr(s, g, r));
        let m = random.masking(true);
        let expected = ExpectedInstruction::new(&format!("vpbroadcast{}", letter(s)), [reg(len, r), scalar]).masked(m);
        expected.check(true, |asm| asm.broadcast_gpr(s, len, r, g, m));
    }
}

#[test]
fn broadcast_of_a_scalar_with_avx2() {
    for s in [OperandSize::S32, OperandSize::S64] {
        let mut asm = Assembler::new(false);
        asm.broadcast_gpr(s, Len::L256, Vreg(9), Gpr::R10, Masking::None);
        let code = asm.finish();
        let first = decode(&code);
        let second = decode(&code[first.len()..]);
        assert_eq!(first.len() + second.len(), code.len());
        let x = reg(Len::L128, Vreg(9));
        let moved = ExpectedInstruction::new(
            &format!("vmov{}", letter(s)),
            [x.clone(), ExpectedOperand::Reg(gpr(s, Gpr::R10))],
        );
        assert_eq!(to_expected(&first, 0), moved);
        let broadcast = ExpectedInstruction::new(&format!("vpbroadcast{}", letter(s)), [reg(Len::L256, Vreg(9)), x]);
        assert_eq!(to_expected(&second, 0), broadcast);
    }
}

#[test]
fn parts() {
    let mut random = OperandRandom::new(25);
    for i in 0..ROUNDS {
        let evex = i % 2 == 0;
        let (d, a, b) = (random.vreg(evex), random.vreg(evex), random.vreg(evex));
        let n = random.next_below(if evex { 4 } else { 2 }) as u8;
        let imm = ExpectedOperand::Imm(n.into());
        let whole = if n < 2 { Len::L256 } else { Len::L512 };
        let name = |kind: &str| format!("v{kind}i{}", if evex { "32x4" } else { "128" });
        let expected = ExpectedInstruction::new(&name("extract"), [reg(Len::L128, d), reg(whole, a), imm.clone()]);
        expected.check(evex, |asm| asm.extract128(d, a, n));
        let expected =
            ExpectedInstruction::new(&name("insert"), [reg(whole, d), reg(whole, a), reg(Len::L128, b), imm]);
        expected.check(evex, |asm| asm.insert128(whole, d, a, b, n));
        if evex {
            let n = n & 1;
            let imm = ExpectedOperand::Imm(n.into());
            let expected =
                ExpectedInstruction::new("vextracti64x4", [reg(Len::L256, d), reg(Len::L512, a), imm.clone()]);
            expected.check(true, |asm| asm.extract256(d, a, n));
            let operands = [reg(Len::L512, d), reg(Len::L512, a), reg(Len::L256, b), imm];
            ExpectedInstruction::new("vinserti64x4", operands).check(true, |asm| asm.insert256(d, a, b, n));
        }
    }
}

/// For each gather: the mnemonic, and the lengths of index and data, each as a divisor of the longer length.
const GATHERS: [(Gather, &str, usize, usize); 4] =
    [(Gather::DD, "dd", 1, 1), (Gather::DQ, "dq", 2, 1), (Gather::QD, "qd", 1, 2), (Gather::QQ, "qq", 1, 1)];

/// Returns addresses with this index, and their expected decoding.
fn addresses(random: &mut OperandRandom, bytes: usize, index: Vreg) -> (VecMem, ExpectedOperand) {
    let at = random.mem();
    let vec = VecMem { base: at.base, index, scale: random.one(&[1, 2, 4, 8]), disp: at.disp };
    let base = gpr(OperandSize::S64, at.base);
    (vec, ExpectedOperand::Mem { base, index: vreg(bytes, index), scale: vec.scale.into(), disp: at.disp.into() })
}

#[test]
fn gathers_and_scatters() {
    assert_eq!(GATHERS.map(|(op, ..)| op).as_slice(), Gather::ALL);
    let mut random = OperandRandom::new(26);
    for (op, name, index_part, data_part) in GATHERS {
        for _ in 0..ROUNDS {
            let whole = random.one(&LENGTHS[data_part - 1..]);
            let data = LENGTHS[whole as usize + 1 - data_part];
            let (d, k) = (random.vreg(true), random.mask());
            let index = Vreg((d.0 + 1 + random.next_below(31) as u8) % 32);
            let (at, place) = addresses(&mut random, whole.bytes() / index_part, index);
            let expected = ExpectedInstruction::new(&format!("vpgather{name}"), [reg(data, d), place.clone()]);
            expected.masked(Masking::Merge(k)).check(true, |asm| asm.gather(op, data, d, at, k));
            let expected = ExpectedInstruction::new(&format!("vpscatter{name}"), [place, reg(data, d)]);
            expected.masked(Masking::Merge(k)).check(true, |asm| asm.scatter(op, data, at, d, k));
        }
    }
}

#[test]
fn gathers_of_avx2() {
    let mut random = OperandRandom::new(27);
    for (op, name, index_part, data_part) in GATHERS {
        for _ in 0..ROUNDS {
            let whole = random.one(&LENGTHS[data_part - 1..2]);
            let data = LENGTHS[whole as usize + 1 - data_part];
            let d = random.vreg(false);
            let index = Vreg((d.0 + 1 + random.next_below(7) as u8) % 16);
            let mask = Vreg((d.0 + 8 + random.next_below(8) as u8) % 16);
            let (at, place) = addresses(&mut random, whole.bytes() / index_part, index);
            let expected = ExpectedInstruction::new(&format!("vpgather{name}"), [reg(data, d), place, reg(data, mask)]);
            expected.check(false, |asm| asm.gather_vex(op, data, d, at, mask));
        }
    }
}
