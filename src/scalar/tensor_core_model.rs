//! Models of tensor cores. A model defines the bit-exact arithmetic of `mma`, which differs between generations of
//! GPUs.
//!
//! Every execution of a program uses one model for all of its `mma` operations. The model determines how many products
//! are added at once, to how many bits they are truncated, and which GPUs have this arithmetic. The `sm_90` model is
//! based on measurements on an H200. The `sm_80` model and the assignment of other GPUs to models follow published
//! measurements (MMA-Sim, arXiv 2511.10909).

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// A generation of tensor cores whose arithmetic `mma` reproduces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum TensorCoreModel {
    /// GPUs of compute capability 8.x.
    Sm80,
    /// GPUs of compute capability 9.0, 10.x and 12.x; the default.
    #[default]
    Sm90,
}

impl TensorCoreModel {
    pub const ALL: [TensorCoreModel; 2] = [TensorCoreModel::Sm80, TensorCoreModel::Sm90];

    pub fn name(self) -> &'static str {
        match self {
            TensorCoreModel::Sm80 => "sm_80",
            TensorCoreModel::Sm90 => "sm_90",
        }
    }

    /// Returns the number of bits to which products are truncated before they are added, counted from the largest
    /// exponent among them.
    pub fn kept_bits(self) -> i32 {
        match self {
            TensorCoreModel::Sm80 => 24,
            TensorCoreModel::Sm90 => 25,
        }
    }

    /// Returns the number of products that are added at once if the elements of the operands have `bytes` bytes.
    pub fn group(self, bytes: usize) -> u32 {
        let most = match self {
            TensorCoreModel::Sm80 => 16,
            TensorCoreModel::Sm90 => 32,
        };
        most / bytes as u32
    }

    /// Returns the model for GPUs of this compute capability (90 for `sm_90`). `None` if their tensor cores do not
    /// support all operand types.
    pub fn for_architecture(architecture: u32) -> Option<TensorCoreModel> {
        match architecture {
            80..90 => Some(TensorCoreModel::Sm80),
            90..130 => Some(TensorCoreModel::Sm90),
            _ => None,
        }
    }

    /// Returns whether `mma` with this model may use the tensor cores of a GPU of this compute capability. They must
    /// have the arithmetic of the model, and this must have been verified on such a GPU. If the user selected the model
    /// explicitly (`relies`), published measurements suffice.
    pub fn can_use_gpu(self, architecture: u32, relies: bool) -> bool {
        TensorCoreModel::for_architecture(architecture) == Some(self)
            && (relies || TensorCoreModel::is_verified(architecture))
    }

    /// Returns whether the model was compared with the results of a GPU of this compute capability.
    pub fn is_verified(architecture: u32) -> bool {
        architecture == 90
    }
}

impl fmt::Display for TensorCoreModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The text is not the name of a model.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("there is no model of tensor cores `{name}`; models are {}", TensorCoreModel::ALL.map(TensorCoreModel::name).join(" and "))]
pub struct UnknownTensorCoreModel {
    name: String,
}

impl FromStr for TensorCoreModel {
    type Err = UnknownTensorCoreModel;

    fn from_str(text: &str) -> Result<TensorCoreModel, UnknownTensorCoreModel> {
        let selected = TensorCoreModel::ALL.into_iter().find(|cores| cores.name() == text);
        selected.ok_or_else(|| UnknownTensorCoreModel { name: text.into() })
    }
}
