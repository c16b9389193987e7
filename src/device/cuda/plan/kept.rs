//! The facts about a launch that its plan depends on, and cached plans.

use std::sync::Arc;

use crate::device::cuda::driver::Shape;
use crate::device::cuda::text::abi::LaunchFacts;
use crate::device::cuda::variant::Variant;
use crate::device::{Arg, Declared, DeviceError, Extents, Fault};
use crate::lang::scalar::Value;

/// The facts about a launch that texts depend on.
pub(crate) struct Facts<'a, 'b> {
    pub args: &'a [Arg<'b>],
    pub extents: Extents,
    pub declared: Option<Declared>,
}

impl LaunchFacts for Facts<'_, '_> {
    fn value(&self, param: usize) -> Option<Value> {
        match self.args.get(param)? {
            Arg::Value(values) => values.first().copied(),
            _ => None,
        }
    }

    fn extent(&self, param: usize, axis: usize) -> Option<u32> {
        self.args.get(param)?.shape()?.get(axis).copied()
    }

    fn rank(&self, param: usize) -> Option<usize> {
        self.args.get(param)?.shape().map(<[u32]>::len)
    }

    fn extents(&self) -> Extents {
        self.extents
    }
}

/// Whether there is memory for packed factors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Room {
    Some,
    None,
}

/// A variant and its launch geometry.
pub(crate) struct Plan {
    pub variant: Arc<Variant>,
    pub shape: Shape,
    /// By argument: the launch overwrites all of the array.
    pub whole: Vec<bool>,
}

/// A plan and the launches that it fits.
pub(crate) struct Kept {
    pub(super) extents: Extents,
    pub(super) is_declared: bool,
    /// It is one that the kernel's signature describes.
    pub(super) has_signature: bool,
    /// The shapes of all arrays, concatenated; a kernel's arrays have fixed ranks.
    pub(super) shapes: Vec<u32>,
    /// The values of parameters, where the plan depends on them.
    pub(super) values: Option<Vec<Value>>,
    pub(super) plan: Option<Arc<Plan>>,
}

impl Kept {
    pub(super) fn is_for(&self, facts: &Facts<'_, '_>, is_declared: bool) -> bool {
        self.extents == facts.extents
            && self.is_declared == is_declared
            && self.has_signature == facts.declared.is_some()
            && shapes(facts).eq(self.shapes.iter().copied())
            && self.values.as_ref().is_none_or(|known| same_values(known, facts))
    }
}

pub(super) fn shapes<'a>(facts: &'a Facts<'_, '_>) -> impl Iterator<Item = u32> + 'a {
    facts.args.iter().filter_map(Arg::shape).flatten().copied()
}

pub(super) fn values<'a>(facts: &'a Facts<'_, '_>) -> impl Iterator<Item = Value> + 'a {
    facts.args.iter().filter_map(|arg| if let Arg::Value(values) = arg { values.first().copied() } else { None })
}

pub(super) fn same_values(known: &[Value], facts: &Facts<'_, '_>) -> bool {
    let mut known = known.iter();
    values(facts).all(|v| known.next().is_some_and(|k| k.ty == v.ty && k.bits == v.bits)) && known.next().is_none()
}

/// Why a launch ended early.
pub(crate) enum End {
    Fault(Box<Fault>),
    Device(DeviceError),
}

impl From<DeviceError> for End {
    fn from(error: DeviceError) -> End {
        End::Device(error)
    }
}
