//! The instruction sets that the lane loops are compiled for.

use std::fmt;
use std::str::FromStr;

/// An instruction set. All give the same results; wider vectors are faster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isa {
    /// The baseline of the architecture.
    Base,
    /// AVX2 with fused multiply-add.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// AVX-512, as servers have had it since 2017.
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

    /// Returns the best one that this machine supports.
    pub fn detect() -> Isa {
        Isa::ALL.iter().rev().copied().find(|isa| isa.is_here()).unwrap_or(Isa::Base)
    }

    /// Returns whether this machine supports it.
    pub fn is_here(self) -> bool {
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

    /// Returns its name on the command line.
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
    /// Returns the best one that this machine supports.
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

    /// Parses a name; an error if this machine does not support it.
    fn from_str(text: &str) -> Result<Isa, String> {
        let names = |list: &mut dyn Iterator<Item = Isa>| list.map(Isa::name).collect::<Vec<_>>().join(", ");
        match Isa::ALL.iter().find(|isa| isa.name() == text) {
            Some(isa) if isa.is_here() => Ok(*isa),
            Some(isa) => {
                let here = names(&mut Isa::ALL.iter().copied().filter(|isa| isa.is_here()));
                Err(format!("this machine has no {isa}; it has {here}"))
            }
            None => {
                let all = names(&mut Isa::ALL.iter().copied());
                Err(format!("there is no instruction set `{text}`; the simulator knows {all}"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        for &isa in Isa::ALL {
            assert_eq!(isa.name().parse::<Isa>().is_ok(), isa.is_here());
        }
        assert_eq!("baseline".parse(), Ok(Isa::Base));
        assert!("sse9".parse::<Isa>().is_err_and(|why| why.contains("baseline")));
        assert!(Isa::detect().is_here());
    }
}
