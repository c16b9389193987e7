//! Compiled kernels.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::cuts::{PartKey, Plan, PlanKey};
use super::site::Sites;
use crate::check::typed::Type;
use crate::device::{Executable, Extents};
use crate::host::grad;
use crate::ir::Prepared;
use crate::lower::{Function, Instance};

/// Cache key of a lifted function: the function, and each parameter's type and whether it is an array.
pub(crate) type MapKey = (Function, Vec<(Type, bool)>);

/// Compiled kernels of one device.
#[derive(Default)]
pub(crate) struct Kernels {
    pub(super) loaded: FxHashMap<Instance, Arc<dyn Executable>>,
    pub(super) sites: Sites,
    /// Kernels of which those for parts are made, those kernels, and how launches are cut.
    pub(super) whole: FxHashMap<Instance, Arc<Prepared>>,
    pub(super) parts: FxHashMap<PartKey, Arc<dyn Executable>>,
    pub(super) cuts: FxHashMap<PlanKey, Arc<Plan>>,
    /// Kernels whose derivatives are taken, for launches as declared, or of these extents.
    pub(super) derived: FxHashMap<(Instance, Option<Extents>), Arc<grad::Kernel>>,
    pub(super) derived_maps: FxHashMap<MapKey, Arc<grad::Kernel>>,
    /// Lifted functions, and whether they print.
    pub(super) maps: FxHashMap<MapKey, (Arc<dyn Executable>, bool)>,
}
