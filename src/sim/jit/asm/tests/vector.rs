//! Tests of the vector instructions in the tables, with VEX and EVEX prefixes. The tables in this file contain the
//! mnemonics from Intel's manual.

use super::*;

/// Number of random test cases for each instruction, prefix and length.
const ROUNDS: u64 = 60;

/// Each row has an instruction, its mnemonic with an EVEX prefix, and its mnemonic with a VEX prefix. `-` means that
/// the encoding does not exist.
const V3_NAMES: &str = "
    AddPs vaddps vaddps; AddPd vaddpd vaddpd; SubPs vsubps vsubps; SubPd vsubpd vsubpd;
    MulPs vmulps vmulps; MulPd vmulpd vmulpd; DivPs vdivps vdivps; DivPd vdivpd vdivpd;
    MinPs vminps vminps; MinPd vminpd vminpd; MaxPs vmaxps vmaxps; MaxPd vmaxpd vmaxpd; AndPs vandps vandps;
    AddD vpaddd vpaddd; AddQ vpaddq vpaddq; SubD vpsubd vpsubd; SubQ vpsubq vpsubq;
    MulD vpmulld vpmulld; MulQ vpmullq -; MulUdq vpmuludq vpmuludq; MulDq vpmuldq vpmuldq;
    And vpandd vpand; AndNot vpandnd vpandn; Or vpord vpor; Xor vpxord vpxor;
    AndQ vpandq vpand; AndNotQ vpandnq vpandn; OrQ vporq vpor; XorQ vpxorq vpxor;
    ShlvD vpsllvd vpsllvd; ShlvQ vpsllvq vpsllvq; ShrvD vpsrlvd vpsrlvd; ShrvQ vpsrlvq vpsrlvq;
    SarvD vpsravd vpsravd; SarvQ vpsravq -;
    MinSd vpminsd vpminsd; MaxSd vpmaxsd vpmaxsd; MinUd vpminud vpminud; MaxUd vpmaxud vpmaxud;
    MinSq vpminsq -; MaxSq vpmaxsq -; MinUq vpminuq -; MaxUq vpmaxuq -;
    Fmadd231Ps vfmadd231ps vfmadd231ps; Fmadd231Pd vfmadd231pd vfmadd231pd;
    Fmadd213Ps vfmadd213ps vfmadd213ps; Fmadd213Pd vfmadd213pd vfmadd213pd;
    Fmadd132Ps vfmadd132ps vfmadd132ps; Fmadd132Pd vfmadd132pd vfmadd132pd;
    Fnmadd231Ps vfnmadd231ps vfnmadd231ps; Fnmadd231Pd vfnmadd231pd vfnmadd231pd;
    Fnmadd213Ps vfnmadd213ps vfnmadd213ps; Fnmadd213Pd vfnmadd213pd vfnmadd213pd;
    Fmsub231Ps vfmsub231ps vfmsub231ps; Fmsub231Pd vfmsub231pd vfmsub231pd;
    Fmsub213Ps vfmsub213ps vfmsub213ps; Fmsub213Pd vfmsub213pd vfmsub213pd;
    BlendD vpblendmd -; BlendQ vpblendmq -; PermD vpermd vpermd;
    UnpackLoD vpunpckldq vpunpckldq; UnpackHiD vpunpckhdq vpunpckhdq;
    PackUsDw vpackusdw vpackusdw; PackSsDw vpackssdw vpackssdw; PackUsWb - vpackuswb;
    EqD - vpcmpeqd; GtD - vpcmpgtd; EqQ - vpcmpeqq; GtQ - vpcmpgtq; ScalefPs vscalefps -; ScalefPd vscalefpd -";

/// Like `V3_NAMES`, but each row also has the divisors of the vector length for destination and source (0 means 128
/// bits), and `b` if memory operands can be broadcast.
const V2_NAMES: &str = "
    Move vmovups vmovups 1 1; MovePd vmovupd vmovupd 1 1; SqrtPs vsqrtps vsqrtps 1 1 b; SqrtPd vsqrtpd vsqrtpd 1 1 b;
    CvtDqPs vcvtdq2ps vcvtdq2ps 1 1 b; CvtUdqPs vcvtudq2ps - 1 1 b;
    CvttPsDq vcvttps2dq vcvttps2dq 1 1 b; CvttPsUdq vcvttps2udq - 1 1 b;
    CvtPsPd vcvtps2pd vcvtps2pd 1 2 b; CvtPdPs vcvtpd2ps vcvtpd2ps 2 1 b;
    CvtDqPd vcvtdq2pd vcvtdq2pd 1 2 b; CvtUdqPd vcvtudq2pd - 1 2 b;
    CvttPdDq vcvttpd2dq vcvttpd2dq 2 1 b; CvttPdUdq vcvttpd2udq - 2 1 b;
    CvtQqPd vcvtqq2pd - 1 1 b; CvtUqqPd vcvtuqq2pd - 1 1 b; CvttPdQq vcvttpd2qq - 1 1 b; CvttPdUqq vcvttpd2uqq - 1 1 b;
    CvtQqPs vcvtqq2ps - 2 1 b; CvtUqqPs vcvtuqq2ps - 2 1 b; CvttPsQq vcvttps2qq - 1 2 b; CvttPsUqq vcvttps2uqq - 1 2 b;
    CvtPhPs vcvtph2ps vcvtph2ps 1 2; BroadcastSs vbroadcastss vbroadcastss 1 0; BroadcastSd vbroadcastsd vbroadcastsd 1 0;
    BroadcastD vpbroadcastd vpbroadcastd 1 0; BroadcastQ vpbroadcastq vpbroadcastq 1 0;
    AbsD vpabsd vpabsd 1 1 b; AbsQ vpabsq - 1 1 b;
    ZxBd vpmovzxbd vpmovzxbd 1 4; SxBd vpmovsxbd vpmovsxbd 1 4; ZxWd vpmovzxwd vpmovzxwd 1 2; SxWd vpmovsxwd vpmovsxwd 1 2;
    ZxDq vpmovzxdq vpmovzxdq 1 2; SxDq vpmovsxdq vpmovsxdq 1 2;
    Rsqrt14Ps vrsqrt14ps - 1 1 b; Rsqrt14Pd vrsqrt14pd - 1 1 b; Rcp14Ps vrcp14ps - 1 1 b; RsqrtPs - vrsqrtps 1 1;
    LzcntD vplzcntd - 1 1 b; LzcntQ vplzcntq - 1 1 b; GetExpPs vgetexpps - 1 1 b; GetExpPd vgetexppd - 1 1 b";

const V2I_NAMES: &str = "
    ShlD vpslld vpslld; ShrD vpsrld vpsrld; SarD vpsrad vpsrad; ShlQ vpsllq vpsllq; ShrQ vpsrlq vpsrlq; SarQ vpsraq -;
    RoundPs vrndscaleps vroundps; RoundPd vrndscalepd vroundpd; ShufD vpshufd vpshufd; PermQ vpermq vpermq;
    GetMantPs vgetmantps -; GetMantPd vgetmantpd -";

const V3I_NAMES: &str = "
    TernlogD vpternlogd -; TernlogQ vpternlogq -; ShufPs vshufps vshufps; AlignD valignd -;
    FixupPs vfixupimmps -; FixupPd vfixupimmpd -; Perm2 - vperm2i128";

const CMP_NAMES: &str = "Ps vcmpps -; Pd vcmppd -; D vpcmpd -; Ud vpcmpud -; Q vpcmpq -; Uq vpcmpuq -";

/// Returns the cells of this instruction's row, except the instruction itself.
fn row(table: &'static str, op: &dyn std::fmt::Debug) -> Vec<&'static str> {
    let name = format!("{op:?}");
    let mut rows = table.split(';').map(|row| row.split_whitespace().collect::<Vec<_>>());
    rows.find(|row| row[0] == name).unwrap_or_else(|| panic!("{name} is not in the table"))[1..].to_vec()
}

/// A prefix and a vector length with which an instruction exists.
#[derive(Clone)]
struct EncodingCase {
    evex: bool,
    len: Len,
    name: &'static str,
    row: Vec<&'static str>,
}

impl EncodingCase {
    fn reg(&self, register: Vreg) -> ExpectedOperand {
        ExpectedOperand::Reg(vreg(self.len.bytes(), register))
    }

    /// Returns the expected register, whose length is the vector length divided by the number in this cell.
    fn part(&self, cell: usize, register: Vreg) -> ExpectedOperand {
        let part: usize = self.row[cell].parse().expect("a number");
        ExpectedOperand::Reg(vreg(self.len.bytes().checked_div(part).unwrap_or(16), register))
    }
}

/// Returns the encodings of an instruction: each prefix and length for which the table has a mnemonic.
fn cases(table: &'static str, op: &dyn std::fmt::Debug) -> Vec<EncodingCase> {
    let row = row(table, op);
    let mut encodings = Vec::new();
    for (evex, name) in [(true, row[0]), (false, row[1])] {
        for len in [Len::L128, Len::L256, Len::L512] {
            let lacks = |names: &[&str]| names.contains(&name);
            let is_short = len == Len::L128 && lacks(&["vpermd", "vpermq", "vbroadcastsd", "vperm2i128"]);
            if name != "-" && !is_short && (evex || len != Len::L512) {
                encodings.push(EncodingCase { evex, len, name, row: row.clone() });
            }
        }
    }
    assert!(!encodings.is_empty(), "{op:?}");
    encodings
}

/// A source, its expected decoding, and whether it is a broadcast.
struct SourceCase {
    src: Src,
    want: ExpectedOperand,
    broadcast: bool,
}

/// Chooses a random source operand. `register`: the expected decoding if it is a register.
fn source(
    random: &mut OperandRandom,
    asm: &mut Assembler,
    broadcasts: bool,
    register: impl Fn(Vreg) -> ExpectedOperand,
) -> SourceCase {
    let broadcasts = broadcasts && asm.is_evex();
    let size = random.one(&[4, 8, 16, 32, 64]);
    let bytes = [size as u8; 64];
    match random.next_below(if broadcasts { 6 } else { 4 }) {
        0 => {
            let a = random.vreg(asm.is_evex());
            SourceCase { src: a.into(), want: register(a), broadcast: false }
        }
        1 => SourceCase {
            src: asm.constant(&bytes[..size]).into(),
            want: ExpectedOperand::Const(size),
            broadcast: false,
        },
        2 | 3 => {
            let at = random.mem();
            SourceCase { src: at.into(), want: mem(at), broadcast: false }
        }
        4 => SourceCase {
            src: Src::ConstBroadcast(asm.constant(&bytes[..size])),
            want: ExpectedOperand::Const(size),
            broadcast: true,
        },
        _ => {
            let at = random.mem();
            SourceCase { src: Src::Broadcast(at), want: mem(at), broadcast: true }
        }
    }
}

#[test]
fn two_sources() {
    let mut random = OperandRandom::new(11);
    for &op in V3::ALL {
        for case in cases(V3_NAMES, &op) {
            for _ in 0..ROUNDS {
                let mut asm = Assembler::new(case.evex);
                let b = source(&mut random, &mut asm, true, |b| case.reg(b));
                let (d, a) = (random.vreg(case.evex), random.vreg(case.evex));
                let m = random.masking(case.evex);
                asm.v3(op, case.len, d, a, b.src, m);
                let expected = ExpectedInstruction::new(case.name, [case.reg(d), case.reg(a), b.want]);
                expected.masked(m).broadcast(b.broadcast).check_code(asm);
            }
        }
    }
}

#[test]
fn one_source() {
    let mut random = OperandRandom::new(12);
    for &op in V2::ALL {
        for case in cases(V2_NAMES, &op) {
            for _ in 0..ROUNDS {
                let mut asm = Assembler::new(case.evex);
                let a = source(&mut random, &mut asm, case.row.contains(&"b"), |a| case.part(3, a));
                let (d, m) = (random.vreg(case.evex), random.masking(case.evex));
                asm.v2(op, case.len, d, a.src, m);
                let expected = ExpectedInstruction::new(case.name, [case.part(2, d), a.want]);
                expected.masked(m).broadcast(a.broadcast).check_code(asm);
            }
        }
    }
}

#[test]
fn one_source_and_an_immediate_operand() {
    let mut random = OperandRandom::new(13);
    for &op in V2i::ALL {
        for case in cases(V2I_NAMES, &op) {
            let is_shift = case.name.starts_with("vps") && case.name != "vpshufd";
            for _ in 0..ROUNDS {
                let mut asm = Assembler::new(case.evex);
                let mut a = source(&mut random, &mut asm, true, |a| case.reg(a));
                if is_shift && !case.evex {
                    let register = random.vreg(false);
                    a = SourceCase { src: register.into(), want: case.reg(register), broadcast: false };
                    asm = Assembler::new(false);
                }
                let (d, imm, m) = (random.vreg(case.evex), random.imm8(), random.masking(case.evex));
                asm.v2i(op, case.len, d, a.src, imm, m);
                let expected =
                    ExpectedInstruction::new(case.name, [case.reg(d), a.want, ExpectedOperand::Imm(imm.into())]);
                expected.masked(m).broadcast(a.broadcast).check_code(asm);
            }
        }
    }
}

#[test]
fn two_sources_and_an_immediate_operand() {
    let mut random = OperandRandom::new(14);
    for &op in V3i::ALL {
        for case in cases(V3I_NAMES, &op) {
            for _ in 0..ROUNDS {
                let mut asm = Assembler::new(case.evex);
                let b = source(&mut random, &mut asm, true, |b| case.reg(b));
                let (d, a, imm) = (random.vreg(case.evex), random.vreg(case.evex), random.imm8());
                let m = random.masking(case.evex);
                asm.v3i(op, case.len, d, a, b.src, imm, m);
                let expected = ExpectedInstruction::new(
                    case.name,
                    [case.reg(d), case.reg(a), b.want, ExpectedOperand::Imm(imm.into())],
                );
                expected.masked(m).broadcast(b.broadcast).check_code(asm);
            }
        }
    }
}

#[test]
fn comparisons_into_masks() {
    let mut random = OperandRandom::new(15);
    for &op in Cmp::ALL {
        for case in cases(CMP_NAMES, &op) {
            for _ in 0..ROUNDS {
                let mut asm = Assembler::new(true);
                let b = source(&mut random, &mut asm, true, |b| case.reg(b));
                let (d, a, imm) = (random.kreg(), random.vreg(true), random.next_below(8) as u8);
                let within = random.some_mask(true);
                asm.cmp(op, case.len, d, a, b.src, imm, within);
                let operands = [ExpectedOperand::Reg(kreg(d)), case.reg(a), b.want, ExpectedOperand::Imm(imm.into())];
                ExpectedInstruction::new(case.name, operands)
                    .masked(within.into())
                    .broadcast(b.broadcast)
                    .check_code(asm);
            }
        }
    }
}

#[test]
fn tests_of_bits() {
    let mut random = OperandRandom::new(16);
    for i in 0..6 * ROUNDS {
        let (s, len) = (random.size(), random.one(&[Len::L128, Len::L256, Len::L512]));
        let mut asm = Assembler::new(true);
        let b = source(&mut random, &mut asm, true, |b| ExpectedOperand::Reg(vreg(len.bytes(), b)));
        let (d, a, within) = (random.kreg(), random.vreg(true), random.some_mask(true));
        let name = match i % 2 {
            0 => {
                asm.testm(s, len, d, a, b.src, within);
                "vptestm"
            }
            _ => {
                asm.testnm(s, len, d, a, b.src, within);
                "vptestnm"
            }
        };
        let name = format!("{name}{}", if s == OperandSize::S32 { 'd' } else { 'q' });
        let operands = [ExpectedOperand::Reg(kreg(d)), ExpectedOperand::Reg(vreg(len.bytes(), a)), b.want];
        ExpectedInstruction::new(&name, operands).masked(within.into()).broadcast(b.broadcast).check_code(asm);
    }
}

#[test]
fn comparisons_and_choices_of_avx2() {
    let mut random = OperandRandom::new(17);
    for i in 0..4 * ROUNDS {
        let double = i % 2 == 0;
        let name = |single: &'static str| format!("{single}{}", if double { "pd" } else { "ps" });
        let len = random.one(&[Len::L128, Len::L256]);
        let reg = |register: Vreg| ExpectedOperand::Reg(vreg(len.bytes(), register));
        let (d, a, mask, imm) =
            (random.vreg(false), random.vreg(false), random.vreg(false), random.next_below(32) as u8);
        let mut asm = Assembler::new(false);
        let b = source(&mut random, &mut asm, false, reg);
        asm.cmp_vex(double, len, d, a, b.src, imm);
        ExpectedInstruction::new(&name("vcmp"), [reg(d), reg(a), b.want, ExpectedOperand::Imm(imm.into())])
            .check_code(asm);
        let mut asm = Assembler::new(false);
        let b = source(&mut random, &mut asm, false, reg);
        asm.blendv(double, len, d, a, b.src, mask);
        ExpectedInstruction::new(&name("vblendv"), [reg(d), reg(a), b.want, reg(mask)]).check_code(asm);
        let g = random.gpr();
        let operands = [ExpectedOperand::Reg(gpr(OperandSize::S32, g)), reg(a)];
        ExpectedInstruction::new(&name("vmovmsk"), operands).check(false, |asm| asm.movmsk(double, len, g, a));
        ExpectedInstruction::new("vptest", [reg(a), reg(d)]).check(false, |asm| asm.ptest(len, a, d));
    }
}

/// A displacement that is a small multiple of the EVEX scale is encoded in one byte.
#[test]
fn short_displacements() {
    type Emit<'a> = &'a dyn Fn(&mut Assembler, Mem);
    let length = |emit: Emit, disp: i32| {
        let mut asm = Assembler::new(true);
        emit(&mut asm, Mem::at(Gpr::RAX, disp));
        asm.position()
    };
    let units: [(i32, Emit); 9] = [
        (64, &|asm, m| asm.v3(V3::AddPs, Len::L512, Vreg(1), Vreg(2), m, Masking::None)),
        (32, &|asm, m| asm.v3(V3::AddPs, Len::L256, Vreg(1), Vreg(2), m, Masking::None)),
        (4, &|asm, m| asm.v3(V3::AddPs, Len::L512, Vreg(1), Vreg(2), Src::Broadcast(m), Masking::None)),
        (8, &|asm, m| asm.v3(V3::AddPd, Len::L512, Vreg(1), Vreg(2), Src::Broadcast(m), Masking::None)),
        (32, &|asm, m| asm.v2(V2::CvtPsPd, Len::L512, Vreg(1), m, Masking::None)),
        (4, &|asm, m| asm.v2(V2::CvtPsPd, Len::L512, Vreg(1), Src::Broadcast(m), Masking::None)),
        (16, &|asm, m| asm.v2(V2::ZxBd, Len::L512, Vreg(1), m, Masking::None)),
        (8, &|asm, m| asm.v2(V2::BroadcastQ, Len::L512, Vreg(1), m, Masking::None)),
        (8, &|asm, m| asm.vstore_narrow(Narrow::QB, Len::L512, m, Vreg(1), None)),
    ];
    for (i, (unit, emit)) in units.into_iter().enumerate() {
        let none = length(emit, 0);
        for (disp, bytes) in [(unit, 1), (127 * unit, 1), (-128 * unit, 1), (128 * unit, 4), (-129 * unit, 4), (1, 4)] {
            assert_eq!(length(emit, disp), none + bytes, "case {i}, {disp}");
        }
    }
}

#[test]
#[cfg(debug_assertions)]
fn unencodable_instructions_panic() {
    let (r, k, at) = (Vreg(1), Masking::Merge(Kreg(1)), Mem::at(Gpr::RAX, 0));
    type Emit<'a> = &'a (dyn Fn(&mut Assembler) + std::panic::RefUnwindSafe);
    let wrong: [(bool, &str, Emit); 12] = [
        (false, "MulQ", &|asm| asm.v3(V3::MulQ, Len::L256, r, r, r, Masking::None)),
        (true, "EqD", &|asm| asm.v3(V3::EqD, Len::L256, r, r, r, Masking::None)),
        (false, "AddD", &|asm| asm.v3(V3::AddD, Len::L256, r, Vreg(16), r, Masking::None)),
        (false, "AddD", &|asm| asm.v3(V3::AddD, Len::L512, r, r, r, Masking::None)),
        (false, "AddD", &|asm| asm.v3(V3::AddD, Len::L256, r, r, r, k)),
        (false, "AddD", &|asm| asm.v3(V3::AddD, Len::L256, r, r, Src::Broadcast(at), Masking::None)),
        (true, "AddD", &|asm| asm.v3(V3::AddD, Len::L256, r, r, r, Masking::Zero(Kreg(0)))),
        (true, "Move", &|asm| asm.v2(V2::Move, Len::L256, r, Src::Broadcast(at), Masking::None)),
        (true, "PermD", &|asm| asm.v3(V3::PermD, Len::L128, r, r, r, Masking::None)),
        (false, "ShlD", &|asm| asm.v2i(V2i::ShlD, Len::L256, r, at, 1, Masking::None)),
        (false, "And", &|asm| asm.kop(Kop::And, Kreg(1), Kreg(1), Kreg(1))),
        (true, "Rol", &|asm| asm.shift(ShiftOp::Rol, OperandSize::S32, Gpr::RAX, Gpr::RAX, Gpr::RAX)),
    ];
    for (evex, name, emit) in wrong {
        let stopped = std::panic::catch_unwind(|| emit(&mut Assembler::new(evex))).expect_err(name);
        let text = stopped.downcast_ref::<String>().expect("a message");
        assert!(text.contains(name), "{text}");
    }
}
