//! Reductions along an axis, in an order that depends on the axis's length alone.
//!
//! # Order
//! A reduction of `n` elements runs in rounds. A round has `m` results ([`results`]: `ceil(n / 64)`, or a few more), of which the `j`-th
//! combines the elements `j`, `j + m`, `j + 2m`, … one after the other. They are the elements of the next round; the last round has one
//! result. So the operations, and their order, are the same on every device and with any number of workers, and so are all bits of the
//! result.
//!
//! A sum of floats is computed in `f64` in this order and rounded to its type once. An element takes part in at most 63 additions
//! per round, and there are `r` rounds, `ceil(log64(n))` or one more: the sum before rounding is within `63 r 2^-53` of the sum of the magnitudes,
//! relatively (2.1e-14 for a million elements).
//!
//! # Kernels
//! A round is a `threads` kernel over the axes before, the `m` results and the axes behind, whose neighboring threads read
//! neighboring elements. The first one computes the elements: the expression that is reduced takes no memory.

use std::any::Any;
use std::cell::RefCell;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Weak};

use crate::device::profile::{place, standing_at};
use crate::device::storage::Storage;
use crate::device::{Arg, Extents};
use crate::host::array::{Array, Data, Element, Work};
use crate::host::graph::emit::{self, AXES, Round};
use crate::host::graph::library;
use crate::host::graph::node::{Fold, Folded, MOST, MOST_PINNED, Op, Rows, node_of};
use crate::host::graph::plan::{Plan, Source};
use crate::host::graph::row_plan::results;
use crate::host::graph::rows;
use crate::host::graph::run::{self, broken};
use crate::host::graph::site::{Held, Site};
use crate::host::graph::view::MUCH;
use crate::host::problem::Outcome;
use crate::lang::scalar::{Scalar, Value};

/// The longest axis whose indices kernels compute in 32 bits.
pub(super) const LONG: usize = 1 << 30;
/// The threads from which a GPU has enough loads in flight whatever one thread does.
const MANY: usize = 1 << 17;
/// The threads of a GPU below which each computes too much of an expression by itself.
const FEW: usize = 1 << 14;
/// The most scalars that are reduced on the host.
pub(super) const SMALL: usize = 256;

/// Reduces the rows of an array of this shape (with the components of vectors as a last axis), whose axes before, along and behind
/// the rows are marked by 0, 1 and 2. `None` if there are no rows, or more than an axis has.
pub(crate) fn fold(fold: &Fold, array: &Array, shape: &[usize], groups: &[u8], rows: Rows) -> Outcome<Option<Array>> {
    let Rows { outer, len, inner } = rows;
    if len == 0 || outer * inner == 0 {
        return Ok(None);
    }
    let here = array.data().computed().is_some_and(|storage| storage.here().is_some());
    if outer * len * inner <= SMALL && here {
        return on_host(fold, array, rows).map(Some);
    }
    if inner == 1 && rows::is_fit(outer, len) {
        return defer(fold, array, shape, rows).map(Some);
    }
    let found = in_rounds(fold, array, shape, groups, rows)?;
    found.map(|storage| Array::with_storage(Element::Scalar(fold.result), &[outer, 1, inner], storage)).transpose()
}

/// Defers the reduction of rows, which the kernel of an expression may compute together with what depends on it.
fn defer(fold: &Fold, array: &Array, shape: &[usize], rows: Rows) -> Outcome<Array> {
    let mut below = run::below(array);
    if below.size + 1 > MOST {
        array.storage()?;
        below = run::below(array);
    }
    let folded = Folded {
        fold: *fold,
        array: array.clone(),
        shape: shape.to_vec(),
        rows: rows.outer,
        len: rows.len,
        size: below.size + 1,
        inputs: below.inputs,
        pinned: below.pinned,
        site: Site::current(),
        seen: AtomicBool::new(false),
        span: place(),
    };
    let result = Array::deferred(Element::Scalar(fold.result), &[rows.outer, 1, 1], Arc::new(folded))?;
    Held::keep(&result, std::iter::once(array))?;
    wait_for(&result, array.byte_len());
    Ok(result)
}

/// A deferred reduction that keeps so many bytes in memory.
struct Waiting {
    result: Weak<Data>,
    bytes: usize,
}

/// Bytes from which what a reduction keeps is counted.
const COUNTED: usize = 1 << 20;
/// The last reductions, which the expression at hand may need together with what they reduce.
const LAST: usize = 4;

thread_local! {
    static WAITING: RefCell<Vec<Waiting>> = const { RefCell::new(Vec::new()) };
}

/// Notes a deferred reduction of an array; if all together keep too many bytes in memory, the oldest ones are computed.
fn wait_for(result: &Array, bytes: usize) {
    if bytes < COUNTED || bytes / MUCH < result.byte_len() {
        return;
    }
    let due = WAITING.with_borrow_mut(|waiting| {
        waiting.retain(|of| of.result.upgrade().is_some_and(|data| data.computed().is_none()));
        waiting.push(Waiting { result: Arc::downgrade(result.data()), bytes });
        let mut all = waiting.iter().fold(0, |all: usize, of| all.saturating_add(of.bytes));
        let mut due = Vec::new();
        while all > MOST_PINNED && waiting.len() > LAST {
            let oldest = waiting.remove(0);
            all -= oldest.bytes.min(all);
            due.extend(oldest.result.upgrade());
        }
        due
    });
    for data in due {
        // An error is that of its reader, who tries again.
        drop(data.storage());
    }
}

impl Work for Folded {
    fn run(&self, _: usize) -> Outcome<Storage> {
        let _place = self.site.counts().then(|| standing_at(self.span));
        if let Some(storage) = rows::of_folded(self)? {
            return Ok(storage);
        }
        // It runs where it was entered. The rows are the last axes.
        let _standing = self.site.clone().enter();
        let mut inside = 1;
        let within = self.shape.iter().rev().take_while(|&&extent| {
            let is_inside = inside < self.len;
            inside *= extent;
            is_inside
        });
        let first = self.shape.len() - within.count();
        let groups: Vec<u8> = (0..self.shape.len()).map(|axis| u8::from(axis >= first)).collect();
        let rows = Rows { outer: self.rows, len: self.len, inner: 1 };
        let found = in_rounds(&self.fold, &self.array, &self.shape, &groups, rows)?;
        found.ok_or_else(|| broken("a reduction of too many rows"))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// As [`fold()`], at once and round by round.
fn in_rounds(fold: &Fold, array: &Array, shape: &[usize], groups: &[u8], rows: Rows) -> Outcome<Option<Storage>> {
    let Rows { outer, len, inner } = rows;
    store_few(array, outer * results(len) * inner)?;
    let Some(Lined { site, mut plan, mut element, mut axis }) = lined(array, shape, groups, rows, fold.wide.size())?
    else {
        return Ok(None);
    };
    let mut left = len;
    loop {
        let results = results(left);
        let is_last = results == 1;
        let result = if is_last { fold.result } else { fold.wide };
        let divide = is_last && fold.divisor.is_some();
        let index = if left > LONG { Scalar::I64 } else { Scalar::I32 };
        let few = outer * results * inner < MANY;
        let round = Round { element, axis, index, combine: fold.combine, wide: fold.wide, few, divide, result };
        let storage = launch(&plan, &round, (left, results), fold.divisor, &site)?;
        if is_last {
            return Ok(Some(storage));
        }
        let array = Array::with_storage(Element::Scalar(result), &[outer, results, inner], storage)?;
        if inner == 1 && rows::is_finish(outer, results) {
            return rows::of_results(fold, &array, (outer, results), &site).map(Some);
        }
        Lined { plan, element, axis, .. } = Lined::of_results(&array, &site)?;
        left = results;
    }
}

/// Computes the elements of an expression first where so few threads would compute all that they reduce: a GPU does that faster with a
/// thread for each.
fn store_few(array: &Array, threads: usize) -> Outcome<()> {
    let is_expression = array.data().work().is_some_and(|work| node_of(&*work).is_some());
    if is_expression && threads < FEW && Site::current().is_gpu() {
        array.storage()?;
    }
    Ok(())
}

/// The plan of an array that is reduced.
pub(super) struct Lined {
    pub site: Site,
    pub plan: Plan,
    pub element: Source,
    /// The axis of the plan along which elements are combined.
    pub axis: usize,
}

impl Lined {
    /// Plans the next round for the results of one: `outer` blocks of rows of scalars.
    fn of_results(results: &Array, site: &Site) -> Outcome<Lined> {
        let (plan, element, kinds) = Plan::grouped(results, results.shape(), &[0, 1, 2], site)?;
        let axis = kinds.iter().position(|kind| *kind == 1).ok_or_else(|| broken("a reduction without its axis"))?;
        Ok(Lined { site: site.clone(), plan, element, axis })
    }
}

/// Plans the reduction of an array; `None` if it has more rows than an axis has. `size` is that of a result.
pub(super) fn lined(array: &Array, shape: &[usize], groups: &[u8], rows: Rows, size: usize) -> Outcome<Option<Lined>> {
    let site = Site::current();
    let (mut plan, mut element, mut kinds) = Plan::grouped(array, shape, groups, &site)?;
    let is_even = |kinds: &[u8]| kinds.windows(2).all(|pair| pair[0] != pair[1]);
    if !is_even(&kinds) {
        // The elements lie in several strides along one of the groups.
        array.storage()?;
        (plan, element, kinds) = Plan::grouped(array, shape, groups, &site)?;
        if !is_even(&kinds) {
            return Ok(None);
        }
    }
    if rows.len == 1 {
        // One element, which a round of one result takes as it is.
        let at = kinds.iter().take_while(|kind| **kind == 0).count();
        let single = kinds.is_empty() || plan.axes == [1];
        if single {
            kinds = vec![1];
        } else {
            plan.axes.insert(at, 1);
            plan.inputs.iter_mut().for_each(|input| input.strides.insert(at, 0));
            kinds.insert(at, 1);
        }
    }
    if plan.axes.len() > AXES {
        return Ok(None);
    }
    Held::used(array);
    let site = run::place(&site, &plan, rows.outer * rows.len * rows.inner * size).clone();
    let axis = kinds.iter().position(|kind| *kind == 1).ok_or_else(|| broken("a reduction without its axis"))?;
    Ok(Some(Lined { site, plan, element, axis }))
}

/// Runs a round that combines `len` elements along the axis into `results`.
fn launch(
    plan: &Plan,
    round: &Round,
    (len, results): (usize, usize),
    divisor: Option<f64>,
    site: &Site,
) -> Outcome<Storage> {
    let mut key = plan.key();
    key.extend(match round.element {
        Source::Input(i) => [250, i as u8],
        Source::Step(i) => [251, i as u8],
        Source::Scalar(_) | Source::Constant(_) => return Err(broken("a reduction of a scalar")),
    });
    key.extend([round.axis as u8, round.index as u8, round.wide as u8, round.result as u8]);
    key.extend([u8::from(round.few), u8::from(round.divide)]);
    key.extend(match round.combine {
        Op::Binary(op) => [0, op as u8],
        Op::Math(function) => [1, function as u8],
        _ => return Err(broken("a reduction by no operator")),
    });
    let executable = site.kernel(key, || run::load(site, emit::round(plan, round), plan.guards))?;
    let mut axes = plan.axes.clone();
    axes[round.axis] = results;
    let mut storage = Storage::unset(axes.iter().product::<usize>() * round.result.size());
    let mut args = run::inputs(plan)?;
    args.push(Arg::ArrayMut { storage: &mut storage, shape: run::extents(&axes) });
    args.extend(plan.scalars.iter().map(|value| Arg::Value(vec![*value])));
    args.extend([results, len / results, len].map(|n| Arg::Value(vec![Value::of(n as i64).to_type(round.index)])));
    if let (true, Some(divisor)) = (round.divide, divisor) {
        args.push(Arg::Value(vec![Value::of(divisor).to_type(round.wide)]));
    }
    let mut space = [1; AXES];
    space.iter_mut().zip(&axes).for_each(|(slot, &n)| *slot = n as u32);
    library::launch(site, &*executable, Extents::Threads(space), &mut args, (&round.result.into(), &axes))?;
    drop(args);
    Ok(storage)
}

/// Reduces a small array on the host, in the same order.
fn on_host(fold: &Fold, array: &Array, Rows { outer, len, inner }: Rows) -> Outcome<Array> {
    let scalar = array.scalar().ok_or_else(|| broken("a reduction of structs"))?;
    let bytes = array.bytes()?;
    let mut result = Array::zeros(fold.result, &[outer, 1, inner])?;
    let size = fold.result.size();
    for (column, place) in result.bytes_mut()?.chunks_exact_mut(size).enumerate() {
        let (block, within) = (column / inner, column % inner);
        let element = |row: usize| {
            let at = ((block * len + row) * inner + within) * scalar.size();
            Value::from_bytes(scalar, bytes.get(at..).unwrap_or(&[])).to_type(fold.wide)
        };
        let mut elements: Vec<Value> = (0..len).map(element).collect();
        loop {
            elements = combined(fold, &elements)?;
            if elements.len() <= 1 {
                break;
            }
        }
        let Some(mut total) = elements.first().copied() else { continue };
        if let Some(divisor) = fold.divisor {
            let divide = Op::Binary(crate::lang::ops::BinaryOp::Div);
            total = divide.apply(&[total, Value::of(divisor).to_type(fold.wide)]).map_err(run::failed)?;
        }
        place.copy_from_slice(&total.to_type(fold.result).to_bytes()[..size]);
    }
    Ok(result)
}

/// One round.
fn combined(fold: &Fold, elements: &[Value]) -> Outcome<Vec<Value>> {
    let results = results(elements.len());
    let column = |(j, first): (usize, &Value)| {
        let mut others = elements.iter().skip(j + results).step_by(results).copied();
        others.try_fold(*first, |total, x| fold.combine.apply(&[total, x]).map_err(run::failed))
    };
    elements.iter().take(results).enumerate().map(column).collect()
}
