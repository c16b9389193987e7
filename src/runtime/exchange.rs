//! Collective operations on arrays of several processes. The devices exchange the data directly, without copies through
//! the host.
//!
//! Input: arrays in any memory. Output: arrays in device memory, written after all earlier operations; calls return
//! before the operation is done. All processes of a group must make the same calls in the same order; otherwise a call
//! may wait forever or produce meaningless bytes. Therefore the device calls an [`ExchangeGuard`] before it copies
//! results to the host.

use std::error::Error;
use std::sync::Arc;

use super::fault::DeviceError;
use super::storage::Storage;
use clk_scalar::Scalar;

/// Error message of a device that cannot return results because the other processes have ended.
pub const ENDED: &str = "the ranks have ended";

/// The operator that reduces corresponding elements of all processes to one element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CollectiveReduction {
    Sum,
    Prod,
    Min,
    Max,
}

/// A collective operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceCollective {
    /// Reduces each element over all processes.
    AllReduce(CollectiveReduction, Scalar),
    /// Like all-reduce, but each process receives only its own shard of the result.
    ReduceScatter(CollectiveReduction, Scalar),
    /// Concatenates the bytes of all processes.
    AllGather,
    /// Copies the bytes of one process to all.
    Broadcast { from: u32 },
}

/// Waits for the other processes, and returns whether all processes have made the same collective calls so far.
pub type ExchangeGuard = Arc<dyn Fn() -> bool + Send + Sync>;

/// Why a device does not take part in collective operations.
#[derive(Debug, thiserror::Error)]
pub enum CollectiveError {
    #[error("{0} exchanges nothing with other processes")]
    Unsupported(String),
    #[error("{0} exchanges nothing with other processes while it is debugged")]
    Debugged(String),
    /// An error of the library for collective operations.
    #[error(transparent)]
    Library(#[from] Box<dyn Error + Send + Sync>),
}

/// A device that can form a group with devices of other processes.
pub trait CollectiveDevice: Send + Sync {
    /// Returns an identifier that is unique among the devices of all machines.
    fn identity(&self) -> String;

    /// Returns the identifier of a new group. Every member passes it to [`CollectiveDevice::join`].
    fn ticket(&self) -> Result<Vec<u8>, CollectiveError>;

    /// Joins a group. Waits until all members have joined.
    fn join(
        &self,
        ticket: &[u8],
        rank: u32,
        ranks: u32,
        guard: ExchangeGuard,
    ) -> Result<Arc<dyn CommunicatorDevice>, CollectiveError>;
}

/// A device that has joined a group of devices of several processes.
pub trait CommunicatorDevice: Send + Sync {
    /// Returns whether the device supports this reduction for this type.
    fn can_reduce(&self, how: CollectiveReduction, scalar: Scalar) -> bool;

    /// Starts a collective operation on the array `from`. `into` has the size of the result and is overwritten.
    fn exchange(&self, what: DeviceCollective, from: &Storage, into: &mut Storage) -> Result<(), DeviceError>;

    /// Aborts pending operations; their results are meaningless.
    fn abort(&self);
}
