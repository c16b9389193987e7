//! Failures of a device itself, as opposed to faults of a kernel.

use std::fmt;

use super::Fault;
use crate::base::source::Span;

/// Why a device failed.
#[derive(Clone, Debug, PartialEq)]
pub enum DeviceError {
    /// An allocation of `wanted` bytes failed; nothing is lost. `free` and `total` are the device's, `arrays` the bytes that this
    /// program's arrays take of it.
    OutOfMemory { device: String, wanted: u64, free: u64, total: u64, arrays: u64 },
    /// Host memory has no room for an array that is read back from the device.
    NoHostMemory { wanted: u64 },
    /// The launch exceeds a limit of the device: the resource, the requested amount, and the limit.
    TooLarge { device: String, what: &'static str, wanted: String, limit: String },
    /// The device's compiler rejected the text that Clk generated: a bug in Clk.
    Rejected { kernel: String, log: String },
    /// A driver call failed. `lost`: all further calls of this process fail too.
    Driver { device: String, call: String, name: String, lost: bool },
    /// A fault of an earlier asynchronous launch, which is only noticed now.
    Earlier(Box<Earlier>),
    /// The process that runs kernels was lost; arrays were not, and a new process has them.
    Lost(Box<Loss>),
    /// The device is not usable at all.
    Unavailable { device: String, why: String },
}

/// A fault of a launch that had already returned.
#[derive(Clone, Debug, PartialEq)]
pub struct Earlier {
    pub fault: Fault,
    /// The statement that launched it.
    pub launched: Span,
}

/// The loss of a process that runs kernels, and what is known of the cause.
#[derive(Clone, Debug, PartialEq)]
pub struct Loss {
    pub device: String,
    /// The driver's error, or how the process ended.
    pub how: String,
    /// The user asked to stop it.
    pub stopped: bool,
    /// Name and span of the kernel that was running.
    pub kernel: Option<(String, Span)>,
    /// The statement that launched it.
    pub launched: Option<Span>,
    /// Launches queued behind it, which did not start.
    pub waiting: usize,
    /// Seconds until a new process had replaced it, or why none has.
    pub replaced: Result<f64, String>,
    /// The result of the launch on the simulator.
    pub(crate) verdict: Verdict,
}

/// The result of running a launch again with its arrays as the lost process left them.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Verdict {
    /// It faults.
    Fault(Box<Fault>),
    /// It was still running, at this location, after this many seconds.
    Endless(Box<Fault>, f64),
    /// It ends normally.
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

/// Formats a number of bytes: `1.5 GiB`.
pub(crate) fn size(bytes: u64) -> String {
    let (scale, unit) = match bytes {
        b if b >= 1 << 30 => ((1u64 << 30) as f64, "GiB"),
        b if b >= 1 << 20 => ((1u64 << 20) as f64, "MiB"),
        b if b >= 1 << 10 => ((1u64 << 10) as f64, "KiB"),
        _ => return format!("{bytes} bytes"),
    };
    format!("{:.1} {unit}", bytes as f64 / scale)
}
