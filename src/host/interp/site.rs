//! Caching of launch preparation per launch expression, for arguments of the same types and shapes, and with the same compile-time
//! arguments and dimensions: loops, and functions of libraries, launch the same kernels thousands of times.

use std::sync::Arc;

use crate::base::source::Span;
use crate::check::typed::{Assume, AssumeKind, Expr, ExprKind, Geometry, Kernel, KernelId, Launch};
use crate::check::walk;
use crate::device::{Executable, Extents};
use crate::host::array::Element;
use crate::host::value::Value;
use crate::lower::Argument;

use super::alike::{Kind, are_same, is_closed, reads};
use super::frame::Frame;

/// Maximum number of cached sites; beyond it the cache is cleared.
const KEPT: usize = 1024;

/// A prepared launch.
pub(crate) struct Site {
    kernel: KernelId,
    kinds: Vec<Kind>,
    named: Named,
    /// The caller's compile-time arguments, if the launch's depend on nothing else.
    caller: Option<Arc<[Argument]>>,
    /// The conditions that read parameters: others held when the launch was prepared, and do from then on.
    pub open: Vec<usize>,
    /// Whether the kernel promises something about arrays.
    promises: bool,
    /// The arrays that the launch allocates: parameter index, element type and shape.
    pub missing: Vec<(usize, Element, Vec<usize>)>,
    /// Compile-time arguments and dimensions; without locals.
    pub inner: Frame,
    pub executable: Arc<dyn Executable>,
    pub extents: Extents,
    /// Dimensions passed to the kernel as additional arguments.
    pub hidden: Vec<Value>,
}

impl Site {
    /// Whether the arguments are like those of the prepared launch.
    pub fn takes(&self, values: &[Option<Value>]) -> bool {
        self.kinds.len() == values.len()
            && self.kinds.iter().zip(values).all(|(kind, value)| kind.is_of(value.as_ref()))
    }

    /// Whether what is given by name is as in the prepared launch.
    pub fn is_named(&self, named: &Named) -> bool {
        self.named == *named
    }

    /// Whether something about the arguments has to be tested again.
    pub fn is_tested(&self) -> bool {
        self.promises || !self.open.is_empty()
    }

    /// Whether dimensions given by name are those of the prepared launch.
    pub fn has_dims(&self, dims: &[i64]) -> bool {
        self.named.dims == dims
    }
}

/// What a launch gives by name, evaluated.
#[derive(Clone, PartialEq)]
pub(super) struct Named {
    /// By index in `sig.generics`, `None` where they are to be inferred; empty if all are.
    pub generics: Vec<Option<Argument>>,
    /// In the order of the launch.
    pub dims: Vec<i64>,
}

/// What a launch is made of, beside its arguments.
#[derive(Clone, Copy)]
pub(super) struct Made<'a> {
    pub executable: &'a Arc<dyn Executable>,
    pub extents: Extents,
    /// Dimensions passed to the kernel as additional arguments.
    pub hidden: &'a [Value],
}

/// The prepared launches of a device, by the span of the launch expression.
#[derive(Default)]
pub(crate) struct Sites(rustc_hash::FxHashMap<Span, Arc<Site>>);

impl Sites {
    /// Returns the launch that was prepared last at a place, and whether it has the compile-time arguments of a launch from this frame
    /// without a look at these.
    pub fn last(&self, launch: &Launch, frame: &Frame, span: Span) -> Option<(Arc<Site>, bool)> {
        let site = self.0.get(&span).filter(|site| site.kernel == launch.kernel)?;
        let same = site.caller.as_ref().is_some_and(|caller| are_same(caller, &frame.generics));
        Some((site.clone(), same))
    }

    /// Caches a prepared launch.
    pub(super) fn remember(
        &mut self,
        (launch, kernel, frame): (&Launch, &Kernel, &Frame),
        given: Kinds,
        values: &[Option<Value>],
        inner: &Frame,
        made: Made<'_>,
        span: Span,
    ) {
        let Kinds(Some((kinds, named))) = given else { return };
        let missing = kinds.iter().zip(values).enumerate().filter_map(|(i, (kind, value))| match (kind, value) {
            (Kind::Missing, Some(Value::Array(array))) => Some((i, array.element().clone(), array.shape().to_vec())),
            _ => None,
        });
        let Made { executable, extents, hidden } = made;
        let site = Site {
            kernel: launch.kernel,
            missing: missing.collect(),
            kinds,
            named,
            caller: is_closed(&launch.generics).then(|| frame.generics.clone()),
            open: open(kernel),
            promises: kernel.assumes.iter().any(|assume| matches!(assume.kind, AssumeKind::Array { .. })),
            inner: Frame::new(inner.generics.clone(), inner.dims.clone()),
            executable: executable.clone(),
            extents,
            hidden: hidden.to_vec(),
        };
        self.keep(span, site);
    }

    fn keep(&mut self, span: Span, site: Site) {
        if self.0.len() >= KEPT {
            self.0.clear();
        }
        self.0.insert(span, Arc::new(site));
    }
}

/// Kinds of a launch's arguments as given, before omitted arrays are allocated, and what is given by name; `None` if it cannot be cached.
pub(crate) struct Kinds(Option<(Vec<Kind>, Named)>);

impl Kinds {
    /// Returns the kinds if the instance, shapes and geometry of a launch depend on them and on what is named alone.
    pub fn of(launch: &Launch, kernel: &Kernel, values: &[Option<Value>], named: &Named) -> Kinds {
        let plain =
            launch.grid.is_none() && launch.block.is_none() && !depends_on_values(kernel) && !chooses_by_values(kernel);
        let kinds = || values.iter().map(|value| Kind::of(value.as_ref())).collect::<Option<Vec<Kind>>>();
        Kinds(if plain { kinds().map(|kinds| (kinds, named.clone())) } else { None })
    }
}

/// Returns the conditions that read parameters.
fn open(kernel: &Kernel) -> Vec<usize> {
    let is_open = |assume: &Assume| matches!(&assume.kind, AssumeKind::Condition(condition) if reads(condition));
    kernel.assumes.iter().enumerate().filter(|(_, assume)| is_open(assume)).map(|(i, _)| i).collect()
}

/// Whether shapes or geometry depend on the values of parameters.
fn depends_on_values(kernel: &Kernel) -> bool {
    let mut exprs = kernel.sig.dim_exprs.iter();
    exprs.any(|expr| reads(expr))
        || match &kernel.geometry {
            Geometry::Threads { extents, .. } => extents.iter().any(reads),
            Geometry::Grid { grid, block, .. } => grid.iter().chain(block).any(reads),
        }
}

/// Whether values of arguments decide if a choice of tuned constants can be taken: only where it meets the conditions.
fn chooses_by_values(kernel: &Kernel) -> bool {
    let has = |expr: &Expr, wanted: &dyn Fn(&ExprKind) -> bool| {
        let mut found = false;
        walk::expr(expr, &mut |e| found |= wanted(&e.kind));
        found
    };
    let is_tuned =
        |kind: &ExprKind| matches!(kind, ExprKind::ConstParam(i) if kernel.tunes.iter().any(|own| own.param == *i));
    !kernel.tunes.is_empty()
        && kernel.assumes.iter().any(|assume| match &assume.kind {
            AssumeKind::Condition(_) => assume.exprs().any(|e| has(e, &|kind| matches!(kind, ExprKind::Local(_)))),
            AssumeKind::Array { .. } => assume.exprs().any(|e| has(e, &is_tuned)),
        })
}
