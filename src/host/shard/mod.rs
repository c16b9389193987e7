//! Arrays on several devices: an array is cut along an axis, and each part lives on a device of its own.
//!
//! # Idea
//! Sharding is placement, as residency is, and no type: a sharded array is an [`Array`] whose bytes are yet to be put together, by
//! [`Sharded`], which has the parts. Who does not know of shards asks for the bytes, and so has them gathered: the result is right, and
//! the copy is counted ([`Counts`]). What knows of them *lifts* an operation: the same operation on the parts, each at the site of its
//! part. As the parts are ordinary arrays, expressions are fused within each of them.
//!
//! ```text
//!                      held by part 1
//!              ┌─halo─┬───────────────┬─halo─┐
//!  ├───────────┼──────┴───────────────┴──────┼──────────┤   the axis
//!  0         part 0 ▲     part 1      ▲    part 2       n
//!                 cuts[1]          cuts[2]
//! ```
//!
//! # Parts
//! - [`layout`]: where the cuts lie, and what a part holds;
//! - [`value`]: the parts of an array; sharding, gathering, halos;
//! - [`lift`]: operations on parts: elementwise, rows, slices;
//! - [`chain`]: reductions along the cut axis whose order matters.
//!
//! # Invariants
//! - The parts together are the array: a part owns `cuts[p]..cuts[p + 1]`, and nobody else owns that.
//! - A part also has up to `halo` rows on both sides, as far as the array goes. They have the owners' elements if the halos are fresh;
//!   after a launch they are stale, and are exchanged before somebody reads them. What is computed of stale rows is stale.
//! - Operations that may fault by the elements that they read do not read stale ones.
//! - Results have the same bits for any number of parts. What depends on an order (sums of floats along the cut axis) is computed
//!   in that of the whole array.
//! - A write (a launch, an assignment) makes a new [`Sharded`] of the parts; a part that somebody else has is copied first, as any
//!   array is.

pub(crate) mod chain;
pub(crate) mod layout;
pub(crate) mod lift;
pub(crate) mod value;

pub(crate) use layout::Layout;
pub use value::Counts;
pub(crate) use value::{Sharded, Team, of, put, replica, rows, shard};

#[cfg(doc)]
use crate::host::array::Array;
