//! Sharded arrays: an array is divided along an axis, and each shard resides on its own device. A sharded array is an
//! [`Array`] whose bytes are deferred; its [`Sharded`] work holds the shards. Code that does not support shards reads
//! the bytes, which gathers the shards on one device; [`ShardTransferCounters`] counts these gathers. Code that
//! supports shards *lifts* an operation: it runs the operation on each shard. `docs/internals/sharding.md` has the
//! details.
//! ```text
//!                       held by part 1
//!               ┌─halo─┬───────────────┬─halo─┐
//!   ├───────────┼──────┴───────────────┴──────┼──────────┤   the axis
//!   0         part 0 ▲     part 1      ▲    part 2       n
//!                  cuts[1]          cuts[2]
//! ```

pub(crate) mod layout;
pub(crate) mod lift;
pub(crate) mod ordered_reduce;
pub(crate) mod sharded;

pub(crate) use layout::ShardLayout;
pub use sharded::ShardTransferCounters;
pub(crate) use sharded::{ShardDevices, Sharded, as_sharded, replicate, shard, slice_rows, write_rows};

#[cfg(doc)]
use crate::array::Array;
