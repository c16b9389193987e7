//! Models of tensor cores: the arithmetic of `mma`, to the bit, which differs between generations of GPUs.
//!
//! In: a model, chosen for a whole run. Out: how many terms are added at once, and how many bits of them are kept; and which GPUs compute so.
//! The row of `sm_90` was found, and compared with results of an H200, for Clk. The row of `sm_80`, and which other GPUs a row is true
//! of, are published measurements (MMA-Sim, arXiv 2511.10909).

use std::fmt;
use std::str::FromStr;

/// Whose tensor cores `mma` computes like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Cores {
    /// GPUs of compute capability 8.x.
    Sm80,
    /// Those of compute capability 9.0, 10.x and 12.x: what `mma` means unless the run says otherwise.
    #[default]
    Sm90,
}

impl Cores {
    pub const ALL: [Cores; 2] = [Cores::Sm80, Cores::Sm90];

    pub fn name(self) -> &'static str {
        match self {
            Cores::Sm80 => "sm_80",
            Cores::Sm90 => "sm_90",
        }
    }

    /// Returns the bits below the largest exponent that are kept of each term.
    pub fn kept(self) -> i32 {
        match self {
            Cores::Sm80 => 24,
            Cores::Sm90 => 25,
        }
    }

    /// Returns how many terms are added at once, of factors with so many bytes.
    pub fn group(self, bytes: usize) -> u32 {
        let most = match self {
            Cores::Sm80 => 16,
            Cores::Sm90 => 32,
        };
        most / bytes as u32
    }

    /// Returns the model of a GPU by its compute capability, 90 for `sm_90`; `None` if it has no tensor cores for all types of factors.
    pub fn of(architecture: u32) -> Option<Cores> {
        match architecture {
            80..90 => Some(Cores::Sm80),
            90..130 => Some(Cores::Sm90),
            _ => None,
        }
    }

    /// Whether a GPU's tensor cores multiply where `mma` is to have these bits: if they have them, and that was compared with what such a GPU
    /// computes, or the run names the model and so `relies` on what is published.
    pub fn multiply_on(self, architecture: u32, relies: bool) -> bool {
        Cores::of(architecture) == Some(self) && (relies || Cores::is_verified(architecture))
    }

    /// Whether the model of this GPU was compared with what such a GPU computes, when Clk was made.
    pub fn is_verified(architecture: u32) -> bool {
        architecture == 90
    }
}

impl fmt::Display for Cores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Cores {
    type Err = String;

    fn from_str(text: &str) -> Result<Cores, String> {
        let found = Cores::ALL.into_iter().find(|cores| cores.name() == text);
        let names = Cores::ALL.map(Cores::name).join(" and ");
        found.ok_or_else(|| format!("there is no model of tensor cores `{text}`; models are {names}"))
    }
}
