//! The variables of a footprint: what each one stands for, and what is known of it.
//!
//! A quotient, a product of two variables, a minimum, a value that depends on a condition: each is a variable of its own with
//! facts that define it, so that all that is computed from it stays linear.

use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::form::*;
use crate::base::linear::{Atom, Formula, Linear, Var};
use crate::base::source::Span;
use crate::ir::def::BinOp;
use crate::lang::ops::BinaryOp;

/// Bounds beyond those of every machine type stand for "none".
pub(crate) const ENDLESS: i128 = 1 << 80;

/// What the value of a variable belongs to.
#[derive(Clone, Debug, PartialEq)]
pub enum Role {
    /// The launch: a dimension, a parameter, an extent of the grid.
    Launch,
    /// The block: a coordinate along an axis.
    Block,
    /// The thread: a coordinate within its block, or an index of a `threads` kernel.
    Thread,
    /// The thread: the number of an iteration of a loop, from 0. After the loop it is the iteration in which the thread left.
    Counter,
    /// A function of other variables: it belongs to whatever they belong to.
    Derived(Vec<Var>),
    /// The thread, and nothing is known of it but its bounds, for this reason.
    Unknown(&'static str, Span),
}

#[derive(Clone, Debug)]
pub struct Variable {
    pub name: String,
    pub role: Role,
    pub low: i128,
    pub high: i128,
    pub facts: Vec<Formula>,
    /// The facts about a derived value define it for all values of the others.
    pub total: bool,
}

/// A product of two variables.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    pub left: Var,
    pub right: Var,
}

/// How a derived value is computed, where that is not a product.
#[derive(Clone, Debug)]
pub enum Definition {
    /// Rounded toward zero, or down.
    Quotient(Linear, Linear, bool),
    Part(Linear),
    Bits(BinOp, Linear, Linear),
    /// The value whose condition holds.
    Choice(Vec<(Formula, Linear)>),
    /// The number at this index.
    Table(Arc<[i128]>, Linear),
}

/// An element of an array that the kernel does not write: a function of its indices. Beyond the extents its values are any that
/// agree with the array's order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Element {
    /// The array, by its position in the launch.
    pub param: u32,
    pub leaf: u32,
    pub indices: Vec<Linear>,
}

/// What is promised of the elements of an array.
#[derive(Clone, Debug, Default)]
pub struct Promised {
    pub extents: Vec<Linear>,
    /// How each one compares with a number.
    pub all: Vec<(BinaryOp, Linear)>,
    pub ascending: bool,
    pub distinct: bool,
}

#[derive(Clone, Debug, Default)]
pub struct Space {
    pub variables: Vec<Variable>,
    pub products: FxHashMap<Var, Times>,
    /// The elements that were read, with the place of the first read.
    pub elements: FxHashMap<Var, (Element, Span)>,
    /// By position of the array.
    pub promised: FxHashMap<u32, Promised>,
    pub defined: FxHashMap<Var, Definition>,
    known_elements: FxHashMap<Element, Var>,
    known_products: FxHashMap<(Var, Var), Var>,
    known_quotients: FxHashMap<(Linear, Linear, bool), Var>,
    named: FxHashMap<Linear, Var>,
}

/// The name of a value that depends on a condition.
const CHOICE: &str = "choice";

/// The most elements of an array of constants that are told apart; of others their bounds and their order are known.
const MAX_CASES: usize = 16;

/// The most products that one multiplication is expanded to.
const MAX_PRODUCTS: usize = 4;

impl Space {
    pub fn fresh(&mut self, name: impl Into<String>, role: Role, low: i128, high: i128) -> Var {
        let var = Var(self.variables.len() as u32);
        self.variables.push(Variable { name: name.into(), role, low, high, facts: vec![], total: false });
        var
    }

    pub fn get(&self, var: Var) -> &Variable {
        &self.variables[var.index()]
    }

    /// Whether a condition holds for a variable and all that it is computed from, each of which is looked at once.
    fn all_origins(&self, var: Var, holds: &dyn Fn(Var, &Variable) -> bool) -> bool {
        let (mut left, mut seen) = (vec![var], FxHashSet::default());
        while let Some(var) = left.pop() {
            if !seen.insert(var) {
                continue;
            }
            let known = self.get(var);
            if !holds(var, known) {
                return false;
            }
            if let Role::Derived(on) = &known.role {
                left.extend(on);
            }
        }
        true
    }

    /// Returns whether a variable is the same for all threads of a launch that are at the same iterations of the loops with these
    /// counters. The counter of a loop that a thread has left tells when it left, which may be another iteration for each thread.
    pub fn is_common(&self, var: Var, counters: &[Var]) -> bool {
        self.all_origins(var, &|var, known| match &known.role {
            Role::Launch | Role::Derived(_) => true,
            Role::Counter => counters.contains(&var),
            Role::Block | Role::Thread | Role::Unknown(..) => false,
        })
    }

    /// Returns whether a variable of a thread stays what it is while the loops with these counters are at one iteration.
    pub fn is_fixed(&self, var: Var, counters: &[Var]) -> bool {
        self.all_origins(var, &|var, known| match &known.role {
            Role::Launch | Role::Block | Role::Thread | Role::Derived(_) => true,
            Role::Counter => counters.contains(&var),
            Role::Unknown(..) => false,
        })
    }

    /// Returns whether a variable is the same for all lanes of a warp: all that it is computed from is.
    pub fn is_uniform(&self, var: Var, is_uniform: &dyn Fn(Var, &Role) -> bool) -> bool {
        self.all_origins(var, &|var, known| matches!(known.role, Role::Derived(_)) || is_uniform(var, &known.role))
    }

    /// Returns whether a variable is computed from another one, which is not computed itself.
    pub fn depends(&self, var: Var, on: Var) -> bool {
        !self.all_origins(var, &|var, known| matches!(known.role, Role::Derived(_)) || var != on)
    }

    /// Calls `f` with a variable and all that it is computed from.
    pub fn each_origin(&self, var: Var, f: &mut dyn FnMut(Var)) {
        let found = std::cell::RefCell::new(vec![]);
        self.all_origins(var, &|var, _| {
            found.borrow_mut().push(var);
            true
        });
        found.into_inner().into_iter().for_each(f);
    }

    pub fn learn(&mut self, var: Var, fact: Formula) {
        if !is_always(&fact) {
            self.variables[var.index()].facts.push(fact);
        }
    }

    /// Narrows the bounds of a variable that is alone in an inequality that always holds.
    pub fn narrow(&mut self, fact: &Formula) {
        if let Formula::Atom(Atom::NonNegative(form)) = fact
            && let &[(var, by)] = form.terms()
        {
            let at = &mut self.variables[var.index()];
            match by {
                1 => at.low = at.low.max(-form.constant()),
                -1 => at.high = at.high.min(form.constant()),
                _ => {}
            }
        }
    }

    /// Returns what a quotient is the quotient of.
    pub fn divided(&self, quotient: Var) -> Option<(&Linear, &Linear)> {
        match self.defined.get(&quotient) {
            Some(Definition::Quotient(a, b, _)) => Some((a, b)),
            _ => None,
        }
    }

    /// Returns dividend and divisor of a form that is a remainder.
    pub fn remainder(&self, form: &Linear) -> Option<(Linear, Linear)> {
        form.terms().iter().find_map(|&(var, _)| {
            let (quotient, (a, b)) = self.quotient_in(var)?;
            let back = match (self.products.get(&var), constant(b)) {
                (None, Some(n)) => variable(quotient).times(n),
                (Some(times), None) if single(b).is_some_and(|b| [times.left, times.right].contains(&b)) => {
                    variable(var)
                }
                _ => return None,
            };
            (a.minus(&back) == *form).then(|| (a.clone(), b.clone()))
        })
    }

    /// Returns the quotient that a variable is, or is a multiple of, with what it is the quotient of.
    pub fn quotient_in(&self, var: Var) -> Option<(Var, (&Linear, &Linear))> {
        let factors = self.products.get(&var).map_or([var, var], |times| [times.left, times.right]);
        factors.into_iter().find_map(|quotient| Some((quotient, self.divided(quotient)?)))
    }

    /// Returns the product of two variables, if it occurs.
    pub fn known_product(&self, a: Var, b: Var) -> Option<Var> {
        self.known_products.get(&(a.min(b), a.max(b))).copied()
    }

    /// Whether a value depends on the launch alone: it is one of the launch, or computed from such.
    pub fn is_of_launch(&self, var: Var) -> bool {
        self.all_origins(var, &|_, known| match &known.role {
            Role::Launch => true,
            Role::Derived(_) => known.total,
            _ => false,
        })
    }

    /// States that the facts about a derived value define it for all values of the others.
    pub fn define(&mut self, var: Var) {
        self.variables[var.index()].total = true;
    }

    /// Returns bounds of a form that follow from those of its variables.
    pub fn bounds(&self, form: &Linear) -> (i128, i128) {
        let (mut low, mut high) = (form.constant(), form.constant());
        for &(var, factor) in form.terms() {
            let at = self.get(var);
            let (a, b) = (at.low.saturating_mul(factor), at.high.saturating_mul(factor));
            low = low.saturating_add(a.min(b));
            high = high.saturating_add(a.max(b));
        }
        (low.max(-ENDLESS), high.min(ENDLESS))
    }

    /// Returns a formula in place of which a known truth stands, where bounds decide it.
    pub fn settled(&self, formula: Formula) -> Formula {
        match formula {
            Formula::Atom(Atom::NonNegative(form)) => match self.bounds(&form) {
                (low, _) if low >= 0 => always(),
                (_, high) if high < 0 => never(),
                _ => Formula::Atom(Atom::NonNegative(form)),
            },
            Formula::Atom(Atom::Zero(form)) => match self.bounds(&form) {
                (0, 0) => always(),
                (low, high) if low > 0 || high < 0 => never(),
                _ => Formula::Atom(Atom::Zero(form)),
            },
            Formula::And(parts) => and(parts.into_iter().map(|part| self.settled(part)).collect::<Vec<_>>()),
            Formula::Or(parts) => or(parts.into_iter().map(|part| self.settled(part)).collect::<Vec<_>>()),
        }
    }

    /// As [`settled`](Self::settled); a variable stands for a long formula. A chain of conditions has each in the next one more than
    /// once, so that it would grow exponentially.
    pub fn short(&mut self, formula: Formula) -> Formula {
        const LONG: usize = 32;
        let formula = self.settled(formula);
        let mut atoms = 0;
        each_form(&formula, &mut |_| atoms += 1);
        if atoms <= LONG {
            return formula;
        }
        let value = self.either(&formula, &number(1), &number(0));
        nonnegative(value.minus(&number(1)))
    }

    fn derived(&mut self, name: &str, from: &[&Linear], low: i128, high: i128) -> Var {
        let mut on: Vec<Var> = from.iter().flat_map(|form| form.terms().iter().map(|&(var, _)| var)).collect();
        on.sort();
        on.dedup();
        self.fresh(name, Role::Derived(on), low, high)
    }

    /// Returns a variable with the value of a form.
    pub fn name(&mut self, form: &Linear) -> Var {
        if let Some(var) = single(form).or_else(|| self.named.get(form).copied()) {
            return var;
        }
        let (low, high) = self.bounds(form);
        let var = self.derived("part", &[form], low, high);
        self.variables[var.index()].total = true;
        self.learn(var, equal(&variable(var), form));
        self.named.insert(form.clone(), var);
        self.defined.insert(var, Definition::Part(form.clone()));
        var
    }

    fn product_of(&mut self, a: Var, b: Var) -> Var {
        let (left, right) = (a.min(b), a.max(b));
        if let Some(known) = self.known_products.get(&(left, right)) {
            return *known;
        }
        let (x, y) = (self.get(left), self.get(right));
        let corner = |a: i128, b: i128| a.saturating_mul(b);
        let corners = [corner(x.low, y.low), corner(x.low, y.high), corner(x.high, y.low), corner(x.high, y.high)];
        let low = corners.into_iter().min().unwrap_or(-ENDLESS).max(-ENDLESS);
        let high = corners.into_iter().max().unwrap_or(ENDLESS).min(ENDLESS);
        let name = format!("{} * {}", x.name, y.name);
        let result = self.fresh(name, Role::Derived(vec![left, right]), low, high);
        self.variables[result.index()].total = true;
        self.products.insert(result, Times { left, right });
        self.known_products.insert((left, right), result);
        result
    }

    /// Returns the product of two forms.
    pub fn product(&mut self, a: &Linear, b: &Linear) -> Linear {
        // Products of small numbers have 128 bits.
        let small = |form: &Linear| {
            let mut numbers = form.terms().iter().map(|&(_, by)| by).chain([form.constant()]);
            numbers.all(|n| n.unsigned_abs() < 1 << 60)
        };
        let fits = small(a) && small(b);
        if let (Some(n), true) = (constant(a), fits) {
            return b.times(n);
        }
        if let (Some(n), true) = (constant(b), fits) {
            return a.times(n);
        }
        let whole = |form: &Linear, space: &mut Space| variable(space.name(form));
        let (a, b) = match (a.terms().len(), b.terms().len()) {
            (x, y) if fits && x * y <= MAX_PRODUCTS && (x == 1 || y == 1 || a.constant() == 0 || b.constant() == 0) => {
                (a.clone(), b.clone())
            }
            _ => (whole(a, self), whole(b, self)),
        };
        let mut sum = number(a.constant() * b.constant());
        for &(x, p) in a.terms() {
            sum = sum.plus(&variable(x).times(p * b.constant()));
            for &(y, q) in b.terms() {
                sum = sum.plus(&variable(self.product_of(x, y)).times(p * q));
            }
        }
        for &(y, q) in b.terms() {
            sum = sum.plus(&variable(y).times(q * a.constant()));
        }
        sum
    }

    /// Returns `a / b` rounded toward zero, or down if `floor`; `b` is positive where the quotient is used, or it is unknown.
    pub fn quotient(&mut self, a: &Linear, b: &Linear, floor: bool) -> Linear {
        if let (Some(x), Some(y)) = (constant(a), constant(b))
            && y != 0
        {
            return number(if floor { x.div_euclid(y) } else { x / y });
        }
        if constant(b) == Some(1) {
            return a.clone();
        }
        let ((low, high), (least, _)) = (self.bounds(a), self.bounds(b));
        if let Some(n) = constant(b).filter(|n| *n > 1 && (floor || low >= 0)) {
            if low >= 0 && high < n {
                return number(0);
            }
            let whole = multiples(a, n);
            if whole != number(0) {
                let rest = a.minus(&whole.times(n));
                return whole.plus(&self.quotient(&rest, b, true));
            }
        }
        let key = (a.clone(), b.clone(), floor);
        if let Some(known) = self.known_quotients.get(&key) {
            return variable(*known);
        }
        let by = least.max(1);
        let (from, to) = match constant(b) {
            Some(n) if n > 0 => (low.div_euclid(n), high.div_euclid(n) + i128::from(low < 0)),
            // The magnitude does not grow, except by a negative divisor's sign.
            _ if least > 0 => (if low < 0 { low } else { 0 }, if high < 0 { 0 } else { high / by }),
            _ => (-low.abs().max(high.abs()), low.abs().max(high.abs())),
        };
        let var = self.derived("quotient", &[a, b], from, to);
        self.variables[var.index()].total = true;
        self.known_quotients.insert(key, var);
        self.defined.insert(var, Definition::Quotient(a.clone(), b.clone(), floor));
        let q = variable(var);
        let back = self.product(&q, b);
        let rest = a.minus(&back);
        let down = and([at_most(&number(0), &rest), less(&rest, b)]);
        let up = and([at_most(&rest, &number(0)), less(&number(0).minus(b), &rest)]);
        let positive = less(&number(0), b);
        // Facts hold also for coordinates that are out of range, where a divisor that depends on them may have another sign.
        let fact = match (floor || low >= 0, constant(b).is_some_and(|n| n > 0)) {
            (true, true) => down,
            (true, false) => or([and([positive.clone(), down]), not(&positive)]),
            (false, true) => {
                let sign = at_most(&number(0), a);
                or([and([sign.clone(), down]), and([not(&sign), up])])
            }
            (false, false) => {
                let sign = at_most(&number(0), a);
                let known = or([and([sign.clone(), down]), and([not(&sign), up])]);
                or([and([positive.clone(), known]), not(&positive)])
            }
        };
        self.learn(var, fact);
        q
    }

    /// Returns `a / b` rounded up, of numbers that are not negative; `b` as in [`quotient`](Self::quotient).
    pub fn quotient_up(&mut self, a: &Linear, b: &Linear) -> Linear {
        self.quotient(&a.plus(b).minus(&number(1)), b, true)
    }

    /// Returns an element of an array that the kernel does not write, a number in this range.
    pub fn element(&mut self, element: Element, name: &str, range: (i128, i128), span: Span) -> Var {
        if let Some(known) = self.known_elements.get(&element) {
            return *known;
        }
        let indices: Vec<&Linear> = element.indices.iter().collect();
        let var = self.derived(name, &indices, range.0, range.1);
        self.define(var);
        if let Some(promised) = self.promised.get(&element.param).cloned() {
            let outside = promised.outside(&element.indices);
            for (op, bound) in &promised.all {
                let holds = compared(*op, &variable(var), bound);
                self.learn(var, or([outside.clone(), holds]));
            }
        }
        self.known_elements.insert(element.clone(), var);
        self.elements.insert(var, (element, span));
        var
    }

    /// Returns an element of an array of constants, which has one index. Outside of the array its value is any in this range.
    pub fn table(
        &mut self,
        element: Element,
        name: &str,
        values: Arc<[i128]>,
        range: (i128, i128),
        span: Span,
    ) -> Linear {
        let [index] = &element.indices[..] else { return number(0) };
        let index = index.clone();
        let known = constant(&index).and_then(|at| values.get(usize::try_from(at).ok()?));
        if let Some(&known) = known {
            return number(known);
        }
        if let Some(known) = self.known_elements.get(&element) {
            return variable(*known);
        }
        let is_short = values.len() <= MAX_CASES;
        if let (false, Some(least), Some(most)) = (is_short, values.iter().min(), values.iter().max()) {
            let mut sorted = values.to_vec();
            sorted.sort_unstable();
            let promised = Promised {
                extents: vec![number(values.len() as i128)],
                all: vec![(BinaryOp::Ge, number(*least)), (BinaryOp::Le, number(*most))],
                ascending: values.is_sorted(),
                distinct: sorted.windows(2).all(|pair| pair[0] != pair[1]),
            };
            self.promised.insert(element.param, promised);
            let var = self.element(element, name, range, span);
            self.defined.insert(var, Definition::Table(values, index));
            return variable(var);
        }
        let var = self.derived(name, &[&index], range.0, range.1);
        self.define(var);
        let is = |(at, value): (i128, &i128)| and([equal(&index, &number(at)), equal(&variable(var), &number(*value))]);
        let outside = or([less(&index, &number(0)), at_most(&number(values.len() as i128), &index)]);
        let cases = or((0..).zip(values.iter()).map(is).chain([outside]).collect::<Vec<_>>());
        self.learn(var, cases);
        self.known_elements.insert(element, var);
        self.defined.insert(var, Definition::Table(values, index));
        variable(var)
    }

    /// Returns the place from which a form is read, if that is an array which is promised to be a permutation, and its length.
    pub fn permuted(&self, form: &Linear) -> Option<(Linear, Linear)> {
        let (element, _) = self.elements.get(&single(form)?)?;
        let promised = self.promised.get(&element.param).filter(|promised| promised.is_permutation())?;
        Some((element.indices.first()?.clone(), promised.extents.first()?.clone()))
    }

    /// Returns the value that is `a` under the condition and `b` else.
    pub fn either(&mut self, condition: &Formula, a: &Linear, b: &Linear) -> Linear {
        if a == b || is_always(condition) {
            return a.clone();
        }
        if is_never(condition) {
            return b.clone();
        }
        let value = self.one_of(&[(condition.clone(), a.clone()), (not(condition), b.clone())]);
        if let Some(var) = single(&value) {
            self.variables[var.index()].total = true;
        }
        value
    }

    /// Returns the smaller of two values.
    pub fn least(&mut self, a: &Linear, b: &Linear) -> Linear {
        let most = self.bounds(a).1.min(self.bounds(b).1);
        let value = self.either(&at_most(a, b), a, b);
        self.limit(&value, -ENDLESS, most);
        value
    }

    /// Returns the larger of two values.
    pub fn greatest(&mut self, a: &Linear, b: &Linear) -> Linear {
        let least = self.bounds(a).0.max(self.bounds(b).0);
        let value = self.either(&at_most(a, b), b, a);
        self.limit(&value, least, ENDLESS);
        value
    }

    /// Narrows the bounds of a choice.
    fn limit(&mut self, value: &Linear, low: i128, high: i128) {
        if let Some(var) = single(value) {
            let known = &mut self.variables[var.index()];
            if known.name == CHOICE {
                (known.low, known.high) = (known.low.max(low), known.high.min(high));
            }
        }
    }

    /// Returns the value of the one case whose condition holds.
    pub fn one_of(&mut self, cases: &[(Formula, Linear)]) -> Linear {
        let bounds: Vec<(i128, i128)> = cases.iter().map(|(_, value)| self.bounds(value)).collect();
        let low = bounds.iter().map(|b| b.0).min().unwrap_or(0);
        let high = bounds.iter().map(|b| b.1).max().unwrap_or(0);
        let mut on: FxHashSet<Var> = FxHashSet::default();
        for (condition, value) in cases {
            each_var(condition, &mut |var| {
                on.insert(var);
            });
            on.extend(value.terms().iter().map(|&(var, _)| var));
        }
        let mut on: Vec<Var> = on.into_iter().collect();
        on.sort();
        let var = self.fresh(CHOICE, Role::Derived(on), low, high);
        let is = |(condition, value): &(Formula, Linear)| and([condition.clone(), equal(&variable(var), value)]);
        // Where the value is asked for in a formula, control may not have come there.
        let elsewhere = and(cases.iter().map(|(condition, _)| not(condition)));
        let is_complete = matches!(cases, [(a, _), (b, _)] if are_opposite(a, b));
        let elsewhere = Some(elsewhere).filter(|elsewhere| !is_complete && !is_never(elsewhere));
        let fact = or(cases.iter().map(is).chain(elsewhere).collect::<Vec<_>>());
        self.learn(var, fact);
        self.defined.insert(var, Definition::Choice(cases.to_vec()));
        variable(var)
    }
}

impl Promised {
    /// Whether the elements are the numbers from 0 to their count.
    fn is_permutation(&self) -> bool {
        let has = |op: BinaryOp, bound: &Linear| self.all.iter().any(|known| known.0 == op && known.1 == *bound);
        let [count] = &self.extents[..] else { return false };
        self.distinct && has(BinaryOp::Ge, &number(0)) && has(BinaryOp::Lt, count)
    }

    /// Returns whether there is no such element.
    pub fn outside(&self, indices: &[Linear]) -> Formula {
        let axes = indices.iter().zip(&self.extents);
        or(axes.flat_map(|(index, extent)| [less(index, &number(0)), at_most(extent, index)]).collect::<Vec<_>>())
    }
}

/// Returns how often a number goes into the terms of a form that are multiples of it: `it` for `thread + 128 * it` and 128.
fn multiples(form: &Linear, n: i128) -> Linear {
    let terms = form.terms().iter().filter(|(_, weight)| weight % n == 0).map(|&(var, weight)| (var, weight / n));
    Linear::new(form.constant() / n, terms).unwrap_or_else(|| number(0))
}

/// Returns the formula of a comparison.
pub(crate) fn compared(op: BinaryOp, a: &Linear, b: &Linear) -> Formula {
    match op {
        BinaryOp::Eq => equal(a, b),
        BinaryOp::Ne => different(a, b),
        BinaryOp::Lt => less(a, b),
        BinaryOp::Le => at_most(a, b),
        BinaryOp::Gt => less(b, a),
        BinaryOp::Ge => at_most(b, a),
        _ => always(),
    }
}
