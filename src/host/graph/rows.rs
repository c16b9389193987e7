//! Expressions that contain reductions of rows, computed by one kernel: `exp(x - max) / sum`, where `max` and `sum` are those of the row.
//!
//! # Idea
//! A reduction along the last axes is deferred ([`Folded`]), as elementwise operations are. If an expression needs some of the same rows,
//! a group of threads computes a row: in a first pass over it the reductions of what is read, in the next one those of what depends
//! on their results, and so on; in the last pass the elements of the result. So memory is read once, as far as rows stay in the caches
//! of a processor or fit into the shared memory of a GPU,
//! and neither reductions nor common parts are computed twice.
//!
//! Every value belongs to an element of a row, to a row, to a column, or is one for all. Expressions in which something repeats in
//! another way, and rows that are too long or too few, are left to [`plan`](crate::host::graph::plan).
//!
//! # Order
//! The rounds are those of [`fold`](mod@crate::host::graph::fold): a thread combines the 64 elements of a result of the first
//! round, and the others are combined in the block's shared memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::device::storage::Storage;
use crate::device::{Arg, Extents};
use crate::host::array::{Array, Element};
use crate::host::graph::library;
use crate::host::graph::memo::{Key, Memo};
use crate::host::graph::node::{Fold, Folded, MOST, Node, Operand, essential, folded_of, node_of};
use crate::host::graph::place::prepare;
use crate::host::graph::plan::{Source, is_constant};
use crate::host::graph::row_kernel;
use crate::host::graph::row_plan::{Division, Input, LONGEST, MOST_ROWS, RowPlan, Spread, Step, What, results};
use crate::host::graph::run;
use crate::host::graph::site::Site;
use crate::host::problem::Outcome;
use crate::lang::scalar::{Scalar, Value};

/// The fewest rows.
const FEWEST: usize = 64;
/// The longest row that one block finishes, of an array with few rows.
const FINISHED: usize = 1 << 14;
/// The most reductions of a kernel.
const MOST_FOLDS: usize = 4;

/// Computes the bytes of a node whose expression contains deferred reductions; `None` if they are not such of one kernel.
pub(super) fn of_node(node: &Node) -> Outcome<Option<Storage>> {
    if !node.folds {
        return Ok(None);
    }
    let Some((rows, len)) = rows_of(node, 0).filter(|&(rows, len)| is_fit(rows, len)) else { return Ok(None) };
    let count: usize = node.shape.iter().product();
    let spread = match count {
        _ if count == rows * len => Spread::Element,
        _ if count == rows => Spread::Row,
        _ => return Ok(None),
    };
    let mut planner = Planner::new(rows, len, &node.site);
    if spread == Spread::Element && planner.split(&node.shape).is_none() {
        return Ok(None);
    }
    let root = planner.node(spread, node)?;
    if !planner.is_result(root) || !planner.is_worth_it() {
        return Ok(None);
    }
    launch(planner.plan, node.scalar, &node.site).map(Some)
}

/// Computes the bytes of a reduction; `None` if it is none of rows for such a kernel.
pub(super) fn of_folded(folded: &Folded) -> Outcome<Option<Storage>> {
    if !is_fit(folded.rows, folded.len) {
        return Ok(None);
    }
    let mut planner = Planner::new(folded.rows, folded.len, &folded.site);
    let root = planner.fold(folded)?;
    if !planner.is_result(root) || !planner.is_worth_it() {
        return Ok(None);
    }
    launch(planner.plan, folded.fold.result, &folded.site).map(Some)
}

/// Finishes a reduction: combines the results of a round, so many rows of so many, in one launch.
pub(super) fn of_results(fold: &Fold, array: &Array, (rows, len): (usize, usize), site: &Site) -> Outcome<Storage> {
    let mut planner = Planner::new(rows, len, site);
    let source = planner.input(array, Spread::Element)?;
    planner.reduce(fold, source);
    launch(planner.plan, fold.result, site)
}

/// Returns whether [`of_results`] takes so many rows of so many.
pub(super) fn is_finish(rows: usize, len: usize) -> bool {
    rows <= MOST_ROWS && (2..=FINISHED).contains(&len)
}

pub(super) fn is_fit(rows: usize, len: usize) -> bool {
    (FEWEST..=MOST_ROWS).contains(&rows) && (2..=LONGEST).contains(&len)
}

/// Returns the rows that an expression reduces, if it does; `depth` bounds the search.
fn rows_of(node: &Node, depth: usize) -> Option<(usize, usize)> {
    node.operands().iter().find_map(|operand| {
        let Operand::Array(array, _) = operand else { return None };
        let work = array.data().work()?;
        if let Some(folded) = folded_of(&*work) {
            return Some((folded.rows, folded.len));
        }
        let below = node_of(&*work).filter(|below| below.folds && depth < MOST)?;
        rows_of(below, depth + 1)
    })
}

struct Planner<'s> {
    site: &'s Site,
    plan: RowPlan,
    /// Steps by the array that they compute.
    steps: Memo<Spread, usize>,
}

impl<'s> Planner<'s> {
    fn new(rows: usize, len: usize, site: &'s Site) -> Planner<'s> {
        let plan = RowPlan { rows, len, ..RowPlan::default() };
        Planner { site, plan, steps: Memo::default() }
    }

    /// Whether a step is the last one, the result of the kernel.
    fn is_result(&self, step: Option<usize>) -> bool {
        step.is_some_and(|step| step + 1 == self.plan.steps.len())
    }

    /// Whether there are reductions, and not too many.
    fn is_worth_it(&self) -> bool {
        let folds = self.plan.steps.iter().filter(|step| matches!(step.what, What::Fold(..))).count();
        (1..=MOST_FOLDS).contains(&folds)
    }

    /// Returns where the axes within a row begin in the shape of elements.
    fn split(&self, shape: &[usize]) -> Option<usize> {
        let mut len = 1usize;
        for (axis, &extent) in shape.iter().enumerate().rev() {
            len = len.checked_mul(extent)?;
            if len == self.plan.len {
                return (shape[..axis].iter().product::<usize>() == self.plan.rows).then_some(axis);
            }
        }
        None
    }

    /// Returns what an operand's scalars belong to, if it is used by an operation on elements or on rows of the shape `user`.
    fn spread(&self, of_user: Spread, user: &[usize], shape: &[usize]) -> Option<Spread> {
        let ahead = user.len().checked_sub(shape.len())?;
        let own: Vec<usize> = std::iter::repeat_n(1, ahead).chain(shape.iter().copied()).collect();
        let whole = |own: &[usize], user: &[usize]| match own {
            _ if own == user => Some(true),
            _ if own.iter().all(|&n| n == 1) => Some(false),
            _ => None,
        };
        if of_user == Spread::Row {
            return whole(&own, user).map(|whole| if whole { Spread::Row } else { Spread::All });
        }
        let axis = self.split(user)?;
        Some(match (whole(&own[..axis], &user[..axis])?, whole(&own[axis..], &user[axis..])?) {
            (true, true) => Spread::Element,
            (true, false) => Spread::Row,
            (false, true) => Spread::Column,
            (false, false) => Spread::All,
        })
    }

    fn level(&self, source: Source) -> usize {
        match source {
            Source::Step(i) => self.plan.steps.get(i).map_or(0, |step| step.level),
            _ => 0,
        }
    }

    /// Adds a node's operation behind those of its operands; returns its number.
    fn node(&mut self, spread: Spread, node: &Node) -> Outcome<Option<usize>> {
        let operands = node.operands();
        let mut sources = Vec::with_capacity(operands.len());
        for (position, operand) in operands.iter().enumerate() {
            sources.push(match operand {
                Operand::Scalar(value) if is_constant(node.op, position, *value) => Source::Constant(*value),
                Operand::Scalar(value) => Source::Scalar(self.scalar(*value)),
                Operand::Array(array, shape) => match self.array(spread, &node.shape, array, shape)? {
                    Some(source) => source,
                    None => return Ok(None),
                },
            });
        }
        let level = sources.iter().map(|&source| self.level(source)).max().unwrap_or(0);
        Ok(Some(self.add(Step { what: What::Apply(node.op, sources), spread, level })))
    }

    /// Adds a step, unless there is the same one; returns its number.
    fn add(&mut self, step: Step) -> usize {
        let known = self.plan.steps.iter().position(|known| *known == step);
        known.unwrap_or_else(|| {
            self.plan.steps.push(step);
            self.plan.steps.len() - 1
        })
    }

    fn scalar(&mut self, value: Value) -> usize {
        let known = self.plan.scalars.iter().position(|known| *known == value);
        known.unwrap_or_else(|| {
            self.plan.scalars.push(value);
            self.plan.scalars.len() - 1
        })
    }

    /// Adds a reduction behind what it reduces.
    fn fold(&mut self, folded: &Folded) -> Outcome<Option<usize>> {
        let Some(source) = self.array(Spread::Element, &folded.shape, &folded.array, &folded.shape)? else {
            return Ok(None);
        };
        Ok(Some(self.reduce(&folded.fold, source)))
    }

    fn reduce(&mut self, fold: &Fold, source: Source) -> usize {
        let divisor = fold.divisor.map(|by| self.scalar(Value::of(by).to_type(fold.wide)));
        let level = self.level(source) + 1;
        self.add(Step { what: What::Fold(*fold, source, divisor), spread: Spread::Row, level })
    }

    fn array(&mut self, of_user: Spread, user: &[usize], array: &Array, shape: &[usize]) -> Outcome<Option<Source>> {
        let Some(spread) = self.spread(of_user, user, shape) else { return Ok(None) };
        if let Some(work) = array.data().work()
            && matches!(spread, Spread::Element | Spread::Row)
        {
            let key = Key::new(array, spread);
            if let Some(step) = self.steps.get(&key) {
                return Ok(Some(Source::Step(step)));
            }
            let is_first =
                |seen: &AtomicBool| !seen.swap(true, Ordering::Relaxed) || Arc::strong_count(array.data()) == 1;
            let step = match (node_of(&*work), folded_of(&*work)) {
                (Some(node), _) if self.belongs(node, array, shape) && is_first(&node.seen) => {
                    self.node(spread, node)?
                }
                (_, Some(folded))
                    if spread == Spread::Row && self.is_of_rows(folded, array) && is_first(&folded.seen) =>
                {
                    self.fold(folded)?
                }
                _ => return self.input(array, spread).map(Some),
            };
            let Some(step) = step else { return Ok(None) };
            self.steps.insert(key, (array, work), step);
            return Ok(Some(Source::Step(step)));
        }
        self.input(array, spread).map(Some)
    }

    /// Whether a node's elements are those of the rows, or the rows, in order.
    fn belongs(&self, node: &Node, array: &Array, shape: &[usize]) -> bool {
        node.site.is(self.site) && array.scalar() == Some(node.scalar) && essential(&node.shape).eq(essential(shape))
    }

    fn is_of_rows(&self, folded: &Folded, array: &Array) -> bool {
        folded.site.is(self.site)
            && array.scalar() == Some(folded.fold.result)
            && (folded.rows, folded.len) == (self.plan.rows, self.plan.len)
    }

    fn input(&mut self, array: &Array, spread: Spread) -> Outcome<Source> {
        prepare(array, self.site)?;
        let scalar = array.scalar().ok_or_else(|| run::broken("an array of structs in an expression"))?;
        let same = |input: &Input| {
            Arc::ptr_eq(input.array.data(), array.data()) && input.scalar == scalar && input.spread == spread
        };
        if let Some(known) = self.plan.inputs.iter().position(same) {
            return Ok(Source::Input(known));
        }
        self.plan.inputs.push(Input { array: array.clone(), scalar, spread });
        Ok(Source::Input(self.plan.inputs.len() - 1))
    }
}

/// Runs the kernel of a plan, whose result has elements of this type.
fn launch(plan: RowPlan, result: Scalar, site: &Site) -> Outcome<Storage> {
    let (rows, len) = (plan.rows, plan.len);
    let is_row = plan.steps.last().is_some_and(|step| step.spread == Spread::Row);
    let shape = if is_row { vec![rows] } else { vec![rows, len] };
    let bytes = shape.iter().product::<usize>() * result.size();
    let read: usize = plan.inputs.iter().map(|input| input.array.byte_len()).max().unwrap_or(0);
    let site = run::nearest(site, plan.inputs.iter().map(|input| &input.array), bytes.max(read)).clone();
    let division = if site.keeps_rows() { Division::keeping(&plan) } else { Division::of(&plan) };
    let make = || run::load(&site, row_kernel::kernel(&plan, division, result), false);
    let executable = site.kernel(plan.key(division, result), make)?;
    let mut storage = Storage::unset(bytes);
    let mut args = Vec::with_capacity(plan.inputs.len() + plan.scalars.len() + 5);
    for input in &plan.inputs {
        let shape = match input.spread {
            Spread::Element => vec![rows, len],
            Spread::Row => vec![rows],
            Spread::Column => vec![len],
            Spread::All => vec![1],
        };
        args.push(Arg::Array { storage: input.array.storage()?, shape: run::extents(&shape) });
    }
    args.push(Arg::ArrayMut { storage: &mut storage, shape: run::extents(&shape) });
    args.extend(plan.scalars.iter().map(|value| Arg::Value(vec![*value])));
    let results = results(len);
    args.extend([rows, len, results, len / results].map(|n| Arg::Value(vec![Value::of(n as i32)])));
    let grid = [rows.div_ceil(division.rows) as u32, 1, 1];
    let extents = Extents::Grid { grid, block: division.block() };
    library::launch(&site, &*executable, extents, &mut args, (&Element::Scalar(result), &shape))?;
    drop(args);
    Ok(storage)
}
