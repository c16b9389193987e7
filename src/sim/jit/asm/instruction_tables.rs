//! Tables of vector instructions and their encodings. There is one enum for each operand pattern, and one row for each
//! instruction.
//!
//! An instruction's name ends in the element type: `Ps` and `Pd` are 32-bit and 64-bit floats, `D` and `Q` integers,
//! `Ud` and `Uq` unsigned integers.

use super::vex_encoding::{InstructionEncoding, M0F, M3A, M38, NONE, P66, PF2, PF3, Tuple};

/// Declares an enum of instructions and the table of their encodings.
macro_rules! table {
    ($(#[$doc:meta])* $name:ident { $($(#[$row:meta])* $op:ident $form:expr;)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub(crate) enum $name { $($(#[$row])* $op),* }

        impl $name {
            const FORMS: &'static [InstructionEncoding] = &[$($form),*];

            #[cfg(test)]
            pub(super) const ALL: &'static [$name] = &[$($name::$op),*];

            pub(super) fn form(self) -> InstructionEncoding {
                Self::FORMS[self as usize]
            }
        }
    };
}
pub(super) use table;

pub(super) const fn ps(opcode: u8) -> InstructionEncoding {
    InstructionEncoding::new(NONE, M0F, opcode)
}

pub(super) const fn pd(opcode: u8) -> InstructionEncoding {
    InstructionEncoding::new(P66, M0F, opcode).q()
}

pub(super) const fn int(opcode: u8) -> InstructionEncoding {
    InstructionEncoding::new(P66, M0F, opcode)
}

pub(super) const fn i38(opcode: u8) -> InstructionEncoding {
    InstructionEncoding::new(P66, M38, opcode)
}

pub(super) const fn i3a(opcode: u8) -> InstructionEncoding {
    InstructionEncoding::new(P66, M3A, opcode)
}

const fn f3(opcode: u8) -> InstructionEncoding {
    InstructionEncoding::new(PF3, M0F, opcode)
}

const fn f2(opcode: u8) -> InstructionEncoding {
    InstructionEncoding::new(PF2, M0F, opcode)
}

/// Returns the tuple type of a memory operand whose size is the vector's size divided by 2^`power`.
pub(super) const fn part(power: u8) -> Tuple {
    Tuple::Part(power)
}

table! {
    /// Instructions with a destination and two sources.
    V3 {
        AddPs ps(0x58);
        AddPd pd(0x58);
        SubPs ps(0x5c);
        SubPd pd(0x5c);
        MulPs ps(0x59);
        MulPd pd(0x59);
        DivPs ps(0x5e);
        DivPd pd(0x5e);
        MinPs ps(0x5d);
        MinPd pd(0x5d);
        MaxPs ps(0x5f);
        MaxPd pd(0x5f);
        AndPs ps(0x54);
        AddD int(0xfe);
        AddQ int(0xd4).q();
        SubD int(0xfa);
        SubQ int(0xfb).q();
        MulD i38(0x40);
        MulQ i38(0x40).q().evex_only();
        /// Multiplies the low halves of 64-bit lanes, unsigned.
        MulUdq int(0xf4).q();
        /// Multiplies the low halves of 64-bit lanes, signed.
        MulDq i38(0x28).q();
        And int(0xdb);
        /// Computes `!a & b`.
        AndNot int(0xdf);
        Or int(0xeb);
        Xor int(0xef);
        AndQ int(0xdb).q();
        AndNotQ int(0xdf).q();
        OrQ int(0xeb).q();
        XorQ int(0xef).q();
        ShlvD i38(0x47);
        ShlvQ i38(0x47).w1();
        ShrvD i38(0x45);
        ShrvQ i38(0x45).w1();
        SarvD i38(0x46);
        SarvQ i38(0x46).q().evex_only();
        MinSd i38(0x39);
        MaxSd i38(0x3d);
        MinUd i38(0x3b);
        MaxUd i38(0x3f);
        MinSq i38(0x39).q().evex_only();
        MaxSq i38(0x3d).q().evex_only();
        MinUq i38(0x3b).q().evex_only();
        MaxUq i38(0x3f).q().evex_only();
        /// Computes `d = a * b + d`.
        Fmadd231Ps i38(0xb8);
        Fmadd231Pd i38(0xb8).w1();
        /// Computes `d = a * d + b`.
        Fmadd213Ps i38(0xa8);
        Fmadd213Pd i38(0xa8).w1();
        /// Computes `d = d * b + a`.
        Fmadd132Ps i38(0x98);
        Fmadd132Pd i38(0x98).w1();
        Fnmadd231Ps i38(0xbc);
        Fnmadd231Pd i38(0xbc).w1();
        Fnmadd213Ps i38(0xac);
        Fnmadd213Pd i38(0xac).w1();
        Fmsub231Ps i38(0xba);
        Fmsub231Pd i38(0xba).w1();
        Fmsub213Ps i38(0xaa);
        Fmsub213Pd i38(0xaa).w1();
        /// Takes lanes whose mask bit is set from `b`, and other lanes from `a`.
        BlendD i38(0x64).evex_only();
        BlendQ i38(0x64).q().evex_only();
        /// Permutes the elements of `b` by the indices in `a`.
        PermD i38(0x36).from256();
        UnpackLoD int(0x62);
        UnpackHiD int(0x6a);
        PackUsDw i38(0x2b);
        PackSsDw int(0x6b);
        PackUsWb int(0x67).vex_only();
        EqD int(0x76).vex_only();
        GtD int(0x66).vex_only();
        EqQ i38(0x29).vex_only();
        GtQ i38(0x37).vex_only();
        ScalefPs i38(0x2c).evex_only();
        ScalefPd i38(0x2c).q().evex_only();
    }
}

table! {
    /// Instructions with a destination and one source. The vector length is the longer of the two operands' lengths.
    V2 {
        Move ps(0x10).tuple(part(0));
        /// A move whose mask has one bit for each 64-bit lane.
        MovePd pd(0x10).tuple(part(0));
        SqrtPs ps(0x51);
        SqrtPd pd(0x51);
        CvtDqPs ps(0x5b);
        CvtUdqPs f2(0x7a).evex_only();
        CvttPsDq f3(0x5b);
        CvttPsUdq ps(0x78).evex_only();
        CvtPsPd ps(0x5a).tuple(Tuple::Half);
        CvtPdPs pd(0x5a);
        CvtDqPd f3(0xe6).tuple(Tuple::Half);
        CvtUdqPd f3(0x7a).tuple(Tuple::Half).evex_only();
        CvttPdDq pd(0xe6);
        CvttPdUdq ps(0x78).q().evex_only();
        CvtQqPd f3(0xe6).q().evex_only();
        CvtUqqPd f3(0x7a).q().evex_only();
        CvttPdQq pd(0x7a).evex_only();
        CvttPdUqq pd(0x78).evex_only();
        CvtQqPs ps(0x5b).q().evex_only();
        CvtUqqPs f2(0x7a).q().evex_only();
        CvttPsQq int(0x7a).tuple(Tuple::Half).evex_only();
        CvttPsUqq int(0x78).tuple(Tuple::Half).evex_only();
        CvtPhPs i38(0x13).tuple(part(1));
        BroadcastSs i38(0x18).tuple(Tuple::Bytes(4));
        BroadcastSd i38(0x19).q().tuple(Tuple::Bytes(8)).from256();
        BroadcastD i38(0x58).tuple(Tuple::Bytes(4));
        BroadcastQ i38(0x59).q().tuple(Tuple::Bytes(8));
        AbsD i38(0x1e);
        AbsQ i38(0x1f).q().evex_only();
        ZxBd i38(0x31).tuple(part(2));
        SxBd i38(0x21).tuple(part(2));
        ZxWd i38(0x33).tuple(part(1));
        SxWd i38(0x23).tuple(part(1));
        ZxDq i38(0x35).tuple(part(1));
        SxDq i38(0x25).tuple(part(1));
        Rsqrt14Ps i38(0x4e).evex_only();
        Rsqrt14Pd i38(0x4e).q().evex_only();
        Rcp14Ps i38(0x4c).evex_only();
        RsqrtPs ps(0x52).vex_only();
        LzcntD i38(0x44).evex_only();
        LzcntQ i38(0x44).q().evex_only();
        GetExpPs i38(0x42).evex_only();
        GetExpPd i38(0x42).q().evex_only();
    }
}

table! {
    /// Instructions with a destination, one source and an immediate operand.
    V2i {
        ShlD int(0x72).digit(6);
        ShrD int(0x72).digit(2);
        SarD int(0x72).digit(4);
        ShlQ int(0x73).q().digit(6);
        ShrQ int(0x73).q().digit(2);
        SarQ int(0x72).q().digit(4).evex_only();
        /// Rounds to integers. The immediate operand is the rounding mode: 0 nearest, 1 down, 2 up, 3 toward zero; plus
        /// 8 to suppress the exception for inexact results.
        RoundPs i3a(0x08);
        RoundPd i3a(0x09).q();
        ShufD int(0x70);
        PermQ i3a(0x00).w1().from256();
        GetMantPs i3a(0x26).evex_only();
        GetMantPd i3a(0x26).q().evex_only();
    }
}

table! {
    /// Instructions with a destination, two sources and an immediate operand.
    V3i {
        TernlogD i3a(0x25).evex_only();
        TernlogQ i3a(0x25).q().evex_only();
        ShufPs ps(0xc6);
        AlignD i3a(0x03).evex_only();
        FixupPs i3a(0x54).evex_only();
        FixupPd i3a(0x54).q().evex_only();
        /// Selects two of the four 128-bit halves of `a` and `b`.
        Perm2 i3a(0x46).vex_only().from256();
    }
}

table! {
    /// Comparisons into a mask register. The immediate operand is the predicate.
    Cmp {
        Ps ps(0xc2).evex_only();
        Pd pd(0xc2).evex_only();
        D i3a(0x1f).evex_only();
        Ud i3a(0x1e).evex_only();
        Q i3a(0x1f).q().evex_only();
        Uq i3a(0x1e).q().evex_only();
    }
}
