//! What can go wrong with a device itself, as opposed to a fault of a kernel.

use std::fmt;

use super::Fault;
use crate::base::source::Span;

/// Why a device could not do what was asked.
#[derive(Clone, Debug, PartialEq)]
pub enum DeviceError {
    /// Memory for `wanted` bytes is not there, with nothing lost. `free` and `total` are the device's, `arrays` what arrays
    /// of this program hold of it.
    OutOfMemory { device: String, wanted: u64, free: u64, total: u64, arrays: u64 },
    /// This process's memory has no room for an array that is to be read from the device.
    NoHostMemory { wanted: u64 },
    /// The launch asks for more than the device has: of what, how much, and how much there is.
    TooLarge { device: String, what: &'static str, wanted: String, limit: String },
    /// The text that Clk generated was refused by the compiler behind it. A fault of Clk.
    Rejected { kernel: String, log: String },
    /// A call of the driver failed. `lost` says that the device does nothing more for this process.
    Driver { device: String, call: String, name: String, lost: bool },
    /// A kernel that was launched before has failed, which shows only now.
    Earlier(Box<Earlier>),
    /// The process that runs kernels was lost, and arrays were not: another process has them.
    Lost(Box<Loss>),
    /// The device cannot be used at all.
    Unavailable { device: String, why: String },
}

/// A fault of a launch that had returned.
#[derive(Clone, Debug, PartialEq)]
pub struct Earlier {
    pub fault: Fault,
    /// The statement that launched it.
    pub launched: Span,
}

/// How a process that runs kernels was lost, and what is known of the reason.
#[derive(Clone, Debug, PartialEq)]
pub struct Loss {
    pub device: String,
    /// What the driver said, or how the process ended.
    pub how: String,
    /// The user asked for it.
    pub stopped: bool,
    /// Name and place of the kernel that was running.
    pub kernel: Option<(String, Span)>,
    /// The statement that launched it.
    pub launched: Option<Span>,
    /// Launches behind it, which did not begin.
    pub waiting: usize,
    /// Seconds until another process had taken its place, or why none has.
    pub replaced: Result<f64, String>,
    /// What the launch does on the simulator.
    pub(crate) verdict: Verdict,
}

/// What came of running a launch again with its arrays as the lost process left them.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Verdict {
    /// It has this fault there.
    Fault(Box<Fault>),
    /// After so many seconds it was here.
    Endless(Box<Fault>, f64),
    /// It ends well there.
    Nothing,
    /// It was not run again, for this reason.
    Untried(String),
}

impl fmt::Display for DeviceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DeviceError::OutOfMemory { device, wanted, .. } => {
                write!(f, "`{device}` has no room for {}", size(*wanted))
            }
            DeviceError::NoHostMemory { wanted } => {
                write!(f, "there is not enough memory to read an array of {} from the device", size(*wanted))
            }
            DeviceError::TooLarge { device, what, wanted, limit } => {
                write!(f, "the launch needs {wanted} {what}, and `{device}` has {limit}")
            }
            DeviceError::Rejected { kernel, .. } => {
                write!(f, "internal error: the text generated for `{kernel}` was refused")
            }
            DeviceError::Driver { device, call, name, .. } => write!(f, "`{device}` failed: {call} says {name}"),
            DeviceError::Earlier(earlier) => write!(f, "a kernel launched before has failed: {}", earlier.fault),
            DeviceError::Lost(loss) => match (&loss.kernel, loss.stopped) {
                (_, true) => f.write_str("interrupted"),
                (Some((kernel, _)), _) => write!(f, "`{}` failed in kernel `{kernel}`: {}", loss.device, loss.how),
                (None, _) => write!(f, "`{}` failed: {}", loss.device, loss.how),
            },
            DeviceError::Unavailable { device, why } => write!(f, "`{device}` cannot be used: {why}"),
        }
    }
}

/// A number of bytes as people say it: `1.5 GiB`.
pub(crate) fn size(bytes: u64) -> String {
    let (scale, unit) = match bytes {
        b if b >= 1 << 30 => ((1u64 << 30) as f64, "GiB"),
        b if b >= 1 << 20 => ((1u64 << 20) as f64, "MiB"),
        b if b >= 1 << 10 => ((1u64 << 10) as f64, "KiB"),
        _ => return format!("{bytes} bytes"),
    };
    format!("{:.1} {unit}", bytes as f64 / scale)
}
