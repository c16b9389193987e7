//! Caching of launch preparation per launch expression, for arguments of the same types and shapes: loops launch the same
//! kernels thousands of times.

use std::sync::Arc;

use crate::base::source::Span;
use crate::check::typed::{Expr, ExprKind, GenericArg, Geometry, Kernel, KernelId, Launch};
use crate::check::walk;
use crate::device::{Executable, Extents};
use crate::host::array::Element;
use crate::host::value::Value;
use crate::lang::scalar::Scalar;

use super::frame::Frame;

/// Maximum number of cached sites; beyond it the cache is cleared.
const KEPT: usize = 1024;

/// A prepared launch.
pub(crate) struct Site {
    kernel: KernelId,
    kinds: Vec<Kind>,
    /// The arrays that the launch allocates: parameter index, element type and shape.
    pub missing: Vec<(usize, Element, Vec<usize>)>,
    /// Compile-time arguments and dimensions; without locals.
    pub inner: Frame,
    pub executable: Arc<dyn Executable>,
    pub extents: Extents,
    /// Dimensions passed to the kernel as additional arguments.
    pub hidden: Vec<Value>,
}

/// What a launch is made of, beside its arguments.
#[derive(Clone, Copy)]
pub(super) struct Made<'a> {
    pub executable: &'a Arc<dyn Executable>,
    pub extents: Extents,
    /// Dimensions passed to the kernel as additional arguments.
    pub hidden: &'a [Value],
}

/// The properties of an argument that must be the same for reuse.
#[derive(PartialEq)]
enum Kind {
    Missing,
    Array(Element, Vec<usize>),
    Scalar(Scalar),
    /// An untyped literal.
    Int,
    Float,
}

impl Kind {
    /// Returns the kind of an argument; `None` for values that prevent caching.
    fn of(value: Option<&Value>) -> Option<Kind> {
        Some(match value {
            None => Kind::Missing,
            Some(Value::Array(array)) => Kind::Array(array.element().clone(), array.shape().to_vec()),
            Some(Value::Scalar(value)) => Kind::Scalar(value.ty),
            Some(Value::Int(_)) => Kind::Int,
            Some(Value::Float(_)) => Kind::Float,
            Some(_) => return None,
        })
    }

    fn is_of(&self, value: Option<&Value>) -> bool {
        match (self, value) {
            (Kind::Missing, None) => true,
            (Kind::Array(element, shape), Some(Value::Array(array))) => {
                array.shape() == shape && array.element() == element
            }
            (Kind::Scalar(ty), Some(Value::Scalar(value))) => value.ty == *ty,
            (Kind::Int, Some(Value::Int(_))) | (Kind::Float, Some(Value::Float(_))) => true,
            _ => false,
        }
    }
}

/// The prepared launches of a device, by the span of the launch expression.
#[derive(Default)]
pub(crate) struct Sites(rustc_hash::FxHashMap<Span, Arc<Site>>);

impl Sites {
    pub fn find(&self, launch: &Launch, values: &[Option<Value>], span: Span) -> Option<Arc<Site>> {
        let site = self.0.get(&span)?;
        let same = site.kernel == launch.kernel
            && site.kinds.len() == values.len()
            && site.kinds.iter().zip(values).all(|(kind, value)| kind.is_of(value.as_ref()));
        same.then(|| site.clone())
    }

    /// Caches a prepared launch.
    pub(super) fn remember(
        &mut self,
        launch: &Launch,
        given: Kinds,
        values: &[Option<Value>],
        inner: &Frame,
        made: Made<'_>,
        span: Span,
    ) {
        let Kinds(Some(kinds)) = given else { return };
        let missing = kinds.iter().zip(values).enumerate().filter_map(|(i, (kind, value))| match (kind, value) {
            (Kind::Missing, Some(Value::Array(array))) => Some((i, array.element().clone(), array.shape().to_vec())),
            _ => None,
        });
        let Made { executable, extents, hidden } = made;
        let site = Site {
            kernel: launch.kernel,
            missing: missing.collect(),
            kinds,
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

/// Kinds of a launch's arguments as given, before omitted arrays are allocated; `None` if it cannot be cached.
pub(crate) struct Kinds(Option<Vec<Kind>>);

impl Kinds {
    /// Returns the kinds if the instance, shapes and geometry of a launch depend on them alone.
    pub fn of(launch: &Launch, kernel: &Kernel, values: &[Option<Value>]) -> Kinds {
        let plain = launch.dims.is_empty()
            && launch.grid.is_none()
            && launch.block.is_none()
            && launch.generics.iter().all(is_the_same)
            && !depends_on_values(kernel);
        Kinds(if plain { values.iter().map(|value| Kind::of(value.as_ref())).collect() } else { None })
    }
}

/// Whether a compile-time argument is the same at each launch by an expression, or follows from the other arguments.
fn is_the_same(generic: &GenericArg) -> bool {
    match generic {
        GenericArg::Infer => true,
        GenericArg::Const(e) => matches!(e.kind, ExprKind::Int(_) | ExprKind::Bool(_) | ExprKind::Const(_)),
        _ => false,
    }
}

/// Whether shapes or geometry depend on the values of parameters.
fn depends_on_values(kernel: &Kernel) -> bool {
    let mut found = false;
    let mut look = |expr: &Expr| {
        walk::expr(expr, &mut |e| found |= matches!(e.kind, ExprKind::Local(_) | ExprKind::Global(_)));
    };
    kernel.sig.dim_exprs.iter().for_each(|expr| look(expr));
    match &kernel.geometry {
        Geometry::Threads { extents, .. } => extents.iter().for_each(look),
        Geometry::Grid { grid, block, .. } => grid.iter().chain(block).for_each(look),
    }
    found
}
