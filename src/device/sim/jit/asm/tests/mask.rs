//! Instructions on mask registers.

use super::*;

const OPERATIONS: [(Kop, &str); 5] =
    [(Kop::And, "kandw"), (Kop::Andn, "kandnw"), (Kop::Or, "korw"), (Kop::Xnor, "kxnorw"), (Kop::Xor, "kxorw")];

fn reg(register: Kreg) -> Want {
    Want::Reg(kreg(register))
}

#[test]
fn masks() {
    assert_eq!(OPERATIONS.map(|(op, _)| op).as_slice(), Kop::ALL);
    let mut random = Random::new(31);
    for _ in 0..300 {
        let (d, a, b, at, g) = (random.kreg(), random.kreg(), random.kreg(), random.mem(), random.gpr());
        let scalar = Want::Reg(gpr(Size::S32, g));
        Wanted::new("kmovw", [reg(d), reg(a)]).check(true, |asm| asm.kmov(d, a));
        Wanted::new("kmovw", [reg(d), scalar.clone()]).check(true, |asm| asm.kmov_from(d, g));
        Wanted::new("kmovw", [scalar, reg(a)]).check(true, |asm| asm.kmov_to(g, a));
        Wanted::new("kmovw", [reg(d), mem(at)]).check(true, |asm| asm.kload(d, at));
        Wanted::new("kmovw", [mem(at), reg(a)]).check(true, |asm| asm.kstore(at, a));
        for (op, name) in OPERATIONS {
            Wanted::new(name, [reg(d), reg(a), reg(b)]).check(true, |asm| asm.kop(op, d, a, b));
        }
        Wanted::new("knotw", [reg(d), reg(a)]).check(true, |asm| asm.knot(d, a));
        Wanted::new("kortestw", [reg(a), reg(b)]).check(true, |asm| asm.kortest(a, b));
        let n = random.below(16) as u8;
        Wanted::new("kshiftrw", [reg(d), reg(a), Want::Imm(n.into())]).check(true, |asm| asm.kshiftr(d, a, n));
    }
}
