//! Caches prepared launches by launch expression. Loops and library functions launch the same kernels thousands of
//! times, usually with arguments of the same types and shapes.

use std::sync::Arc;

use crate::array::ElementType;
use crate::value::HostValue;
use clk_base::source::Span;
use clk_check::typed::{Assume, AssumeKind, Expr, ExprKind, Geometry, Kernel, KernelId, LaunchExpr};
use clk_check::visit;
use clk_lower::GenericArgument;
use clk_runtime::{Executable, LaunchExtents};

use super::call_cache_key::{ArgumentKind, depends_only_on_caller, have_same_arguments, reads_variable};
use super::frame::HostFrame;

/// Maximum number of cached launches. A full cache is cleared.
const MAX_ENTRIES: usize = 1024;

/// A launch expression of the program.
#[derive(Clone, Copy)]
pub(super) struct LaunchSite<'p> {
    pub launch: &'p LaunchExpr,
    /// The kernel that the expression launches.
    pub kernel: &'p Kernel,
    pub span: Span,
}

/// A prepared launch, which later launches with arguments of the same kinds reuse.
pub(crate) struct LaunchCacheEntry {
    kernel: KernelId,
    kinds: Vec<ArgumentKind>,
    named: NamedLaunchArgs,
    /// The caller's compile-time arguments, if those of the launch depend on nothing else.
    caller: Option<Arc<[GenericArgument]>>,
    /// Indices in `kernel.assumes` of the conditions that read parameters. They must be checked at each launch. The
    /// other conditions depend only on the cache key.
    pub open_conditions: Vec<usize>,
    /// Whether the kernel has `assume` clauses about elements of arrays.
    has_promises: bool,
    /// The omitted `out` arrays, which the launch allocates: parameter index, element type and shape.
    pub missing: Vec<(usize, ElementType, Vec<usize>)>,
    /// Frame with the compile-time arguments and dimensions of the kernel, without locals.
    pub inner: HostFrame,
    pub executable: Arc<dyn Executable>,
    pub extents: LaunchExtents,
    /// Values of the hidden parameters: dimensions that are passed to the kernel as additional arguments.
    pub hidden: Vec<HostValue>,
}

impl LaunchCacheEntry {
    /// Returns whether the arguments have the same kinds as those of the prepared launch.
    pub fn matches_arguments(&self, values: &[Option<HostValue>]) -> bool {
        self.kinds.len() == values.len()
            && self.kinds.iter().zip(values).all(|(kind, value)| kind.matches(value.as_ref()))
    }

    /// Returns whether the named arguments equal those of the prepared launch.
    pub fn matches_named(&self, named: &NamedLaunchArgs) -> bool {
        self.named == *named
    }

    /// Returns whether `assume` clauses must be checked again for new arguments.
    pub fn needs_checks(&self) -> bool {
        self.has_promises || !self.open_conditions.is_empty()
    }

    /// Returns whether named dimensions equal those of the prepared launch.
    pub fn matches_dims(&self, dims: &[i64]) -> bool {
        self.named.dims == dims
    }
}

/// The evaluated named arguments of a launch.
#[derive(Clone, PartialEq)]
pub(super) struct NamedLaunchArgs {
    /// Compile-time arguments, by index in `sig.generics`; `None` if inferred. Empty if all are inferred.
    pub generics: Vec<Option<GenericArgument>>,
    /// Extents of named dimensions, in the order of the launch expression.
    pub dims: Vec<i64>,
}

/// The properties of a prepared launch that do not depend on its arguments.
#[derive(Clone, Copy)]
pub(super) struct LaunchParts<'a> {
    pub executable: &'a Arc<dyn Executable>,
    pub extents: LaunchExtents,
    /// Values of the hidden parameters: dimensions that are passed to the kernel as additional arguments.
    pub hidden: &'a [HostValue],
}

/// The prepared launches of one device, by the span of the launch expression.
#[derive(Default)]
pub(crate) struct LaunchCache(rustc_hash::FxHashMap<Span, Arc<LaunchCacheEntry>>);

impl LaunchCache {
    /// Returns the launch that was last prepared at a location. The flag is whether a launch from this frame has the
    /// same compile-time arguments for certain, so that they need not be evaluated.
    pub fn find(&self, launch: &LaunchExpr, frame: &HostFrame, span: Span) -> Option<(Arc<LaunchCacheEntry>, bool)> {
        let entry = self.0.get(&span).filter(|entry| entry.kernel == launch.kernel)?;
        let same = entry.caller.as_ref().is_some_and(|caller| have_same_arguments(caller, &frame.generics));
        Some((entry.clone(), same))
    }

    /// Caches a prepared launch. `caller` is the frame with the launch expression, and `inner` that of the kernel.
    pub(super) fn insert(
        &mut self,
        site: LaunchSite<'_>,
        caller: &HostFrame,
        given: ArgumentKinds,
        values: &[Option<HostValue>],
        inner: &HostFrame,
        parts: LaunchParts<'_>,
    ) {
        let LaunchSite { launch, kernel, span } = site;
        let ArgumentKinds(Some((kinds, named))) = given else { return };
        let missing = kinds.iter().zip(values).enumerate().filter_map(|(i, (kind, value))| match (kind, value) {
            (ArgumentKind::Missing, Some(HostValue::Array(array))) => {
                Some((i, array.element().clone(), array.shape().to_vec()))
            }
            _ => None,
        });
        let LaunchParts { executable, extents, hidden } = parts;
        let entry = LaunchCacheEntry {
            kernel: launch.kernel,
            missing: missing.collect(),
            kinds,
            named,
            caller: depends_only_on_caller(&launch.generics).then(|| caller.generics.clone()),
            open_conditions: open_assumes(kernel),
            has_promises: kernel.assumes.iter().any(|assume| matches!(assume.kind, AssumeKind::Array { .. })),
            inner: HostFrame::new(inner.generics.clone(), inner.dims.clone()),
            executable: executable.clone(),
            extents,
            hidden: hidden.to_vec(),
        };
        if self.0.len() >= MAX_ENTRIES {
            self.0.clear();
        }
        self.0.insert(span, Arc::new(entry));
    }
}

/// Cache key of a launch: the kinds of its arguments before omitted arrays are allocated, and its named arguments.
/// `None` if the launch cannot be cached.
pub(crate) struct ArgumentKinds(Option<(Vec<ArgumentKind>, NamedLaunchArgs)>);

impl ArgumentKinds {
    /// Returns the cache key of a launch. The launch can be cached if its instance, shapes and geometry depend only on
    /// the kinds of its arguments and on its named arguments.
    pub fn of(
        launch: &LaunchExpr,
        kernel: &Kernel,
        values: &[Option<HostValue>],
        named: &NamedLaunchArgs,
    ) -> ArgumentKinds {
        let plain =
            launch.grid.is_none() && launch.block.is_none() && !depends_on_values(kernel) && !chooses_by_values(kernel);
        let kinds =
            || values.iter().map(|value| ArgumentKind::of(value.as_ref())).collect::<Option<Vec<ArgumentKind>>>();
        ArgumentKinds(if plain { kinds().map(|kinds| (kinds, named.clone())) } else { None })
    }
}

/// Returns the indices in `kernel.assumes` of the conditions that read parameters.
fn open_assumes(kernel: &Kernel) -> Vec<usize> {
    let is_open =
        |assume: &Assume| matches!(&assume.kind, AssumeKind::Condition(condition) if reads_variable(condition));
    kernel.assumes.iter().enumerate().filter(|(_, assume)| is_open(assume)).map(|(i, _)| i).collect()
}

/// Returns whether the shapes or the geometry in a kernel's signature depend on the values of scalar parameters.
fn depends_on_values(kernel: &Kernel) -> bool {
    let mut exprs = kernel.sig.dim_exprs.iter();
    exprs.any(|expr| reads_variable(expr))
        || match &kernel.geometry {
            Geometry::Threads { extents, .. } => extents.iter().any(reads_variable),
            Geometry::Grid { grid, block, .. } => grid.iter().chain(block).any(reads_variable),
        }
}

/// Returns whether the validity of a tuned configuration may depend on the values of arguments. It may if `assume`
/// clauses constrain both.
fn chooses_by_values(kernel: &Kernel) -> bool {
    let contains = |expr: &Expr, is_wanted: &dyn Fn(&ExprKind) -> bool| {
        let mut is_found = false;
        visit::expr(expr, &mut |e| is_found |= is_wanted(&e.kind));
        is_found
    };
    let is_tuned =
        |kind: &ExprKind| matches!(kind, ExprKind::ConstParam(i) if kernel.tunes.iter().any(|own| own.param == *i));
    !kernel.tunes.is_empty()
        && kernel.assumes.iter().any(|assume| match &assume.kind {
            AssumeKind::Condition(_) => assume.exprs().any(|e| contains(e, &|kind| matches!(kind, ExprKind::Local(_)))),
            AssumeKind::Array { .. } => assume.exprs().any(|e| contains(e, &is_tuned)),
        })
}
