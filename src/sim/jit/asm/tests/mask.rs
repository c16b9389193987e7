//! Tests of instructions on mask registers.

use super::*;

const OPERATIONS: [(Kop, &str); 5] =
    [(Kop::And, "kandw"), (Kop::Andn, "kandnw"), (Kop::Or, "korw"), (Kop::Xnor, "kxnorw"), (Kop::Xor, "kxorw")];

fn reg(register: Kreg) -> ExpectedOperand {
    ExpectedOperand::Reg(kreg(register))
}

#[test]
fn masks() {
    assert_eq!(OPERATIONS.map(|(op, _)| op).as_slice(), Kop::ALL);
    let mut random = OperandRandom::new(31);
    for _ in 0..300 {
        let (d, a, b, at, g) = (random.kreg(), random.kreg(), random.kreg(), random.mem(), random.gpr());
        let scalar = ExpectedOperand::Reg(gpr(OperandSize::S32, g));
        ExpectedInstruction::new("kmovw", [reg(d), reg(a)]).check(true, |asm| asm.kmov(d, a));
        ExpectedInstruction::new("kmovw", [reg(d), scalar.clone()]).check(true, |asm| asm.kmov_from(d, g));
        ExpectedInstruction::new("kmovw", [scalar, reg(a)]).check(true, |asm| asm.kmov_to(g, a));
        ExpectedInstruction::new("kmovw", [reg(d), mem(at)]).check(true, |asm| asm.kload(d, at));
        ExpectedInstruction::new("kmovw", [mem(at), reg(a)]).check(true, |asm| asm.kstore(at, a));
        for (op, name) in OPERATIONS {
            ExpectedInstruction::new(name, [reg(d), reg(a), reg(b)]).check(true, |asm| asm.kop(op, d, a, b));
        }
        ExpectedInstruction::new("knotw", [reg(d), reg(a)]).check(true, |asm| asm.knot(d, a));
        ExpectedInstruction::new("kortestw", [reg(a), reg(b)]).check(true, |asm| asm.kortest(a, b));
        let n = random.next_below(16) as u8;
        ExpectedInstruction::new("kshiftrw", [reg(d), reg(a), ExpectedOperand::Imm(n.into())])
            .check(true, |asm| asm.kshiftr(d, a, n));
    }
}
