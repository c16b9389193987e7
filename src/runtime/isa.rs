//! The instruction sets that the lane loops are compiled for.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

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

/// Why a text does not select an instruction set.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum IsaParseError {
    #[error("unknown instruction set `{name}`; the simulator supports {}", names(|_| true))]
    Unknown { name: String },
    #[error("this machine does not support {isa}; it supports {}", names(Isa::is_supported))]
    Unsupported { isa: Isa },
}

fn names(is_listed: impl Fn(Isa) -> bool) -> String {
    Isa::ALL.iter().copied().filter(|isa| is_listed(*isa)).map(Isa::name).collect::<Vec<_>>().join(", ")
}

impl FromStr for Isa {
    type Err = IsaParseError;

    /// Parses a name. Returns an error if this machine does not support the instruction set.
    fn from_str(text: &str) -> Result<Isa, IsaParseError> {
        match Isa::ALL.iter().find(|isa| isa.name() == text) {
            Some(isa) if isa.is_supported() => Ok(*isa),
            Some(isa) => Err(IsaParseError::Unsupported { isa: *isa }),
            None => Err(IsaParseError::Unknown { name: text.into() }),
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
        assert!("sse9".parse::<Isa>().is_err_and(|why| why.to_string().contains("baseline")));
        assert!(Isa::detect().is_supported());
    }
}
