//! The instruction sets that the lane loops are compiled for.

use std::fmt;
use std::str::FromStr;

/// An instruction set. Kernels compute the same results with every instruction set; wider vectors make them faster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isa {
    /// The instructions that every CPU of the architecture has.
    Base,
    /// AVX2 with fused multiply-add.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// AVX-512 as in server CPUs since 2017 (F, BW, DQ and VL).
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

impl Isa {
    /// All instruction sets of this architecture, the baseline first.
    #[cfg(target_arch = "x86_64")]
    pub const ALL: &[Isa] = &[Isa::Base, Isa::Avx2, Isa::Avx512];
    /// All instruction sets of this architecture.
    #[cfg(not(target_arch = "x86_64"))]
    pub const ALL: &[Isa] = &[Isa::Base];

    /// Returns the best instruction set that this machine supports.
    pub fn detect() -> Isa {
        Isa::ALL.iter().rev().copied().find(|isa| isa.is_supported()).unwrap_or(Isa::Base)
    }

    /// Returns whether this machine supports the instruction set.
    pub fn is_supported(self) -> bool {
        match self {
            Isa::Base => true,
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => has_avx2(),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => {
                use std::arch::is_x86_feature_detected as has;
                has_avx2() && has!("avx512f") && has!("avx512bw") && has!("avx512dq") && has!("avx512vl")
            }
        }
    }

    /// Returns the name of the instruction set on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Isa::Base => "baseline",
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => "avx2",
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => "avx512",
        }
    }
}

#[cfg(target_arch = "x86_64")]
fn has_avx2() -> bool {
    use std::arch::is_x86_feature_detected as has;
    let bits = has!("bmi1") && has!("bmi2") && has!("lzcnt") && has!("popcnt");
    has!("avx2") && has!("fma") && has!("f16c") && bits
}

impl Default for Isa {
    /// Returns the best instruction set that this machine supports.
    fn default() -> Self {
        Isa::detect()
    }
}

impl fmt::Display for Isa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Isa {
    type Err = String;

    /// Parses a name. Returns an error if this machine does not support the instruction set.
    fn from_str(text: &str) -> Result<Isa, String> {
        let names = |list: &mut dyn Iterator<Item = Isa>| list.map(Isa::name).collect::<Vec<_>>().join(", ");
        match Isa::ALL.iter().find(|isa| isa.name() == text) {
            Some(isa) if isa.is_supported() => Ok(*isa),
            Some(isa) => {
                let supported = names(&mut Isa::ALL.iter().copied().filter(|isa| isa.is_supported()));
                Err(format!("this machine does not support {isa}; it supports {supported}"))
            }
            None => {
                let all = names(&mut Isa::ALL.iter().copied());
                Err(format!("unknown instruction set `{text}`; the simulator supports {all}"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_parse_back() {
        for &isa in Isa::ALL {
            assert_eq!(isa.name().parse::<Isa>().is_ok(), isa.is_supported());
        }
        assert_eq!("baseline".parse(), Ok(Isa::Base));
        assert!("sse9".parse::<Isa>().is_err_and(|why| why.contains("baseline")));
        assert!(Isa::detect().is_supported());
    }
}
