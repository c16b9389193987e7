//! Exchange of arrays between the devices of several processes, without the host.
//!
//! Input: arrays in any memory. Output: arrays in the device's memory, written behind all earlier operations; calls return before that is
//! done. All processes of a group make the same calls in the same order, which the caller sees to: what differs may wait for ever, or give
//! bytes without meaning. The device therefore asks a [`Guard`] before it gives bytes to the host.

use std::sync::Arc;

use super::fault::DeviceError;
use super::storage::Storage;
use crate::lang::scalar::Scalar;

/// Why a device gives no bytes when the processes have ended.
pub const ENDED: &str = "the ranks have ended";

/// How the elements of all processes become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Combine {
    Sum,
    Prod,
    Min,
    Max,
}

/// What is exchanged how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exchanged {
    /// Numbers of this type, each combined with those of the others.
    AllReduce(Combine, Scalar),
    /// The same, of which each process gets its part.
    ReduceScatter(Combine, Scalar),
    /// The bytes of all, one behind the other.
    AllGather,
    /// The bytes of one.
    Broadcast { from: u32 },
}

/// Says whether what the processes have exchanged so far belongs together; waits until that is known.
pub type Guard = Arc<dyn Fn() -> bool + Send + Sync>;

/// A device that can join those of other processes.
pub trait Exchange: Send + Sync {
    /// Returns what tells this device from all others, on all machines.
    fn identity(&self) -> String;

    /// Returns the bytes by which the devices of a new group find each other.
    fn ticket(&self) -> Result<Vec<u8>, String>;

    /// Joins a group; waits for all of it.
    fn join(&self, ticket: &[u8], rank: u32, ranks: u32, guard: Guard) -> Result<Arc<dyn Joined>, String>;
}

/// A device in a group.
pub trait Joined: Send + Sync {
    /// Whether it combines numbers of this type in this way.
    fn combines(&self, how: Combine, scalar: Scalar) -> bool;

    /// Exchanges the bytes of an array; `into` is as long as the result, and what it holds is overwritten.
    fn exchange(&self, what: Exchanged, from: &Storage, into: &mut Storage) -> Result<(), DeviceError>;

    /// Ends pending exchanges, which leave bytes without meaning.
    fn abort(&self);
}
