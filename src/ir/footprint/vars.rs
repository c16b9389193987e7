//! The variables of a footprint: the role of each, and the facts about it.
//!
//! A quotient, a product of two variables, a minimum, or a value that depends on a condition is represented by a new
//! variable, called a *derived* variable. Facts define its value. So every value in the analysis is an affine form of
//! variables.

use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::formula::*;
use crate::def::BinOp;
use clk_base::linear::{AffineForm, Atom, Formula, Var};
use clk_base::source::Span;
use clk_scalar::ops::BinaryOp;

/// A bound with this absolute value means "unbounded". It exceeds every number of a machine type.
pub(crate) const ENDLESS: i128 = 1 << 80;

/// What determines the value of a variable.
#[derive(Clone, Debug, PartialEq)]
pub enum VarRole {
    /// Determined by the launch: a dimension, a parameter, or an extent of the grid.
    Launch,
    /// Determined by the block: its coordinate along an axis.
    Block,
    /// Determined by the thread: a coordinate within its block, or an index of a `threads` kernel.
    Thread,
    /// The thread's current iteration of a loop, counted from 0. After the loop, it is the iteration in which the
    /// thread exited.
    Counter,
    /// A derived variable: a function of these other variables.
    Derived(Vec<Var>),
    /// May differ between threads, and is unknown except for its bounds. Contains the reason and the location.
    Unknown(&'static str, Span),
}

#[derive(Clone, Debug)]
pub struct SymbolicVar {
    pub name: String,
    pub role: VarRole,
    pub low: i128,
    pub high: i128,
    pub facts: Vec<Formula>,
    /// Whether the facts define the value for all values of the variables from which it is derived.
    pub is_total: bool,
}

/// A product of two variables.
#[derive(Clone, Copy, Debug)]
pub struct VarProduct {
    pub left: Var,
    pub right: Var,
}

/// The definition of a derived variable that is not a product. Products are in [`VarSpace::products`].
#[derive(Clone, Debug)]
pub enum DerivedVar {
    /// A quotient: its dividend, its divisor, and whether it is rounded down (`true`) or toward zero (`false`).
    Quotient(AffineForm, AffineForm, bool),
    /// The value of an affine form.
    Form(AffineForm),
    /// A bitwise operation.
    Bits(BinOp, AffineForm, AffineForm),
    /// Pairs of a condition and a value. The variable equals the value whose condition is true.
    Choice(Vec<(Formula, AffineForm)>),
    /// The element of a constant array at this index.
    Table(Arc<[i128]>, AffineForm),
}

/// An element of an array that the kernel does not write, so loads with equal indices return equal values. If the
/// indices are out of bounds, the value is arbitrary, but the promised order of the elements still holds.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SymbolicLoad {
    /// The position of the array's parameter.
    pub param: u32,
    pub leaf: u32,
    pub indices: Vec<AffineForm>,
}

/// The promises about the elements of an array.
#[derive(Clone, Debug, Default)]
pub struct ArrayPromises {
    pub extents: Vec<AffineForm>,
    /// Comparisons that are true for every element: the operator and the right operand.
    pub all: Vec<(BinaryOp, AffineForm)>,
    pub ascending: bool,
    pub distinct: bool,
}

#[derive(Clone, Debug, Default)]
pub struct VarSpace {
    pub variables: Vec<SymbolicVar>,
    pub products: FxHashMap<Var, VarProduct>,
    /// The array elements that were read, each with the location of its first read.
    pub elements: FxHashMap<Var, (SymbolicLoad, Span)>,
    /// The promises about arrays, by position of the parameter.
    pub array_promises: FxHashMap<u32, ArrayPromises>,
    pub definitions: FxHashMap<Var, DerivedVar>,
    known_elements: FxHashMap<SymbolicLoad, Var>,
    known_products: FxHashMap<(Var, Var), Var>,
    known_quotients: FxHashMap<(AffineForm, AffineForm, bool), Var>,
    named: FxHashMap<AffineForm, Var>,
}

/// The name of variables whose value depends on a condition.
const CHOICE: &str = "choice";

/// If a constant array has at most this many elements, the facts about a loaded element list the value for each index.
/// For longer arrays, they contain only the bounds and the order of the elements.
const MAX_CASES: usize = 16;

/// The maximum number of products of two variables into which a multiplication of two affine forms is expanded.
const MAX_PRODUCTS: usize = 4;

impl VarSpace {
    pub fn fresh(&mut self, name: impl Into<String>, role: VarRole, low: i128, high: i128) -> Var {
        let var = Var(self.variables.len() as u32);
        self.variables.push(SymbolicVar { name: name.into(), role, low, high, facts: vec![], is_total: false });
        var
    }

    pub fn get(&self, var: Var) -> &SymbolicVar {
        &self.variables[var.index()]
    }

    /// Returns whether a predicate is true for a variable and for all variables from which it is computed.
    fn holds_for_origins(&self, var: Var, holds: &dyn Fn(Var, &SymbolicVar) -> bool) -> bool {
        let (mut pending, mut visited) = (vec![var], FxHashSet::default());
        while let Some(var) = pending.pop() {
            if !visited.insert(var) {
                continue;
            }
            let var_def = self.get(var);
            if !holds(var, var_def) {
                return false;
            }
            if let VarRole::Derived(on) = &var_def.role {
                pending.extend(on);
            }
        }
        true
    }

    /// Returns whether a variable is equal for all threads of a launch that are in the same iterations of the loops
    /// with these counters. The counter of a finished loop may differ between threads, because it is the iteration in
    /// which the thread exited.
    pub fn is_common(&self, var: Var, counters: &[Var]) -> bool {
        self.holds_for_origins(var, &|var, known| match &known.role {
            VarRole::Launch | VarRole::Derived(_) => true,
            VarRole::Counter => counters.contains(&var),
            VarRole::Block | VarRole::Thread | VarRole::Unknown(..) => false,
        })
    }

    /// Returns whether the value of a variable cannot change in a thread as long as the loops with these counters stay
    /// in the same iteration. Returns `false` if the variable depends on another loop's counter or on an unknown value.
    pub fn is_fixed(&self, var: Var, counters: &[Var]) -> bool {
        self.holds_for_origins(var, &|var, known| match &known.role {
            VarRole::Launch | VarRole::Block | VarRole::Thread | VarRole::Derived(_) => true,
            VarRole::Counter => counters.contains(&var),
            VarRole::Unknown(..) => false,
        })
    }

    /// Returns whether a variable is certainly equal for all lanes of a warp: whether `is_uniform` is true for all
    /// underived variables from which it is computed.
    pub fn is_uniform(&self, var: Var, is_uniform: &dyn Fn(Var, &VarRole) -> bool) -> bool {
        self.holds_for_origins(var, &|var, known| {
            matches!(known.role, VarRole::Derived(_)) || is_uniform(var, &known.role)
        })
    }

    /// Returns whether a variable is computed from the variable `on`. `on` must not be a derived variable.
    pub fn depends_on(&self, var: Var, on: Var) -> bool {
        !self.holds_for_origins(var, &|var, known| matches!(known.role, VarRole::Derived(_)) || var != on)
    }

    /// Calls `f` with a variable and with all variables from which it is computed.
    pub fn each_origin(&self, var: Var, f: &mut dyn FnMut(Var)) {
        let origins = std::cell::RefCell::new(vec![]);
        self.holds_for_origins(var, &|var, _| {
            origins.borrow_mut().push(var);
            true
        });
        origins.into_inner().into_iter().for_each(f);
    }

    pub fn add_fact(&mut self, var: Var, fact: Formula) {
        if !is_always(&fact) {
            self.variables[var.index()].facts.push(fact);
        }
    }

    /// Narrows the bounds of a variable if the fact is an inequality that contains no other variable.
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

    /// Returns the dividend and divisor if the variable is a quotient.
    pub fn divided(&self, quotient: Var) -> Option<(&AffineForm, &AffineForm)> {
        match self.definitions.get(&quotient) {
            Some(DerivedVar::Quotient(a, b, _)) => Some((a, b)),
            _ => None,
        }
    }

    /// Returns the dividend and divisor of an affine form that is a remainder, `a - (a / b) * b`.
    pub fn remainder(&self, form: &AffineForm) -> Option<(AffineForm, AffineForm)> {
        form.terms().iter().find_map(|&(var, _)| {
            let (quotient, (a, b)) = self.find_quotient(var)?;
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

    /// If the variable is a quotient or the product of a quotient and a variable, returns the quotient with its
    /// dividend and divisor.
    pub fn find_quotient(&self, var: Var) -> Option<(Var, (&AffineForm, &AffineForm))> {
        let factors = self.products.get(&var).map_or([var, var], |times| [times.left, times.right]);
        factors.into_iter().find_map(|quotient| Some((quotient, self.divided(quotient)?)))
    }

    /// Returns the variable that represents the product of two variables, if it already exists.
    pub fn known_product(&self, a: Var, b: Var) -> Option<Var> {
        self.known_products.get(&(a.min(b), a.max(b))).copied()
    }

    /// Returns whether a variable is computed only from variables of the launch, by total definitions
    /// ([`SymbolicVar::is_total`]).
    pub fn is_launch_constant(&self, var: Var) -> bool {
        self.holds_for_origins(var, &|_, known| match &known.role {
            VarRole::Launch => true,
            VarRole::Derived(_) => known.is_total,
            _ => false,
        })
    }

    /// Sets [`SymbolicVar::is_total`]: the facts define the variable for all values of the variables from which it is
    /// derived.
    pub fn define(&mut self, var: Var) {
        self.variables[var.index()].is_total = true;
    }

    /// Returns lower and upper bounds of an affine form, computed from the bounds of its variables.
    pub fn bounds(&self, form: &AffineForm) -> (i128, i128) {
        let (mut low, mut high) = (form.constant(), form.constant());
        for &(var, factor) in form.terms() {
            let at = self.get(var);
            let (a, b) = (at.low.saturating_mul(factor), at.high.saturating_mul(factor));
            low = low.saturating_add(a.min(b));
            high = high.saturating_add(a.max(b));
        }
        (low.max(-ENDLESS), high.min(ENDLESS))
    }

    /// Replaces the atoms of a formula that follow from, or contradict, the variables' bounds by true or false.
    pub fn simplify_by_bounds(&self, formula: Formula) -> Formula {
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
            Formula::And(parts) => and(parts.into_iter().map(|part| self.simplify_by_bounds(part)).collect::<Vec<_>>()),
            Formula::Or(parts) => or(parts.into_iter().map(|part| self.simplify_by_bounds(part)).collect::<Vec<_>>()),
        }
    }

    /// Like [`VarSpace::simplify_by_bounds`], but replaces a long formula by a condition on a new variable. Otherwise,
    /// formulas would grow exponentially in a kernel in which each condition uses the previous condition several times.
    pub fn shorten(&mut self, formula: Formula) -> Formula {
        const LONG: usize = 32;
        let formula = self.simplify_by_bounds(formula);
        let mut atoms = 0;
        each_form(&formula, &mut |_| atoms += 1);
        if atoms <= LONG {
            return formula;
        }
        let value = self.either(&formula, &number(1), &number(0));
        nonnegative(value.minus(&number(1)))
    }

    fn new_derived(&mut self, name: &str, from: &[&AffineForm], low: i128, high: i128) -> Var {
        let mut on: Vec<Var> = from.iter().flat_map(|form| form.terms().iter().map(|&(var, _)| var)).collect();
        on.sort();
        on.dedup();
        self.fresh(name, VarRole::Derived(on), low, high)
    }

    /// Returns a variable that equals an affine form. Adds a new variable if there is none.
    pub fn name(&mut self, form: &AffineForm) -> Var {
        if let Some(var) = single(form).or_else(|| self.named.get(form).copied()) {
            return var;
        }
        let (low, high) = self.bounds(form);
        let var = self.new_derived("part", &[form], low, high);
        self.variables[var.index()].is_total = true;
        self.add_fact(var, equal(&variable(var), form));
        self.named.insert(form.clone(), var);
        self.definitions.insert(var, DerivedVar::Form(form.clone()));
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
        let result = self.fresh(name, VarRole::Derived(vec![left, right]), low, high);
        self.variables[result.index()].is_total = true;
        self.products.insert(result, VarProduct { left, right });
        self.known_products.insert((left, right), result);
        result
    }

    /// Returns the product of two affine forms. Products of two variables become variables.
    pub fn product(&mut self, a: &AffineForm, b: &AffineForm) -> AffineForm {
        // Products of small numbers fit in 128 bits.
        let small = |form: &AffineForm| {
            let mut numbers = form.terms().iter().map(|&(_, by)| by).chain([form.constant()]);
            numbers.all(|n| n.unsigned_abs() < 1 << 60)
        };
        let is_small = small(a) && small(b);
        if let (Some(n), true) = (constant(a), is_small) {
            return b.times(n);
        }
        if let (Some(n), true) = (constant(b), is_small) {
            return a.times(n);
        }
        let whole = |form: &AffineForm, space: &mut VarSpace| variable(space.name(form));
        let (a, b) = match (a.terms().len(), b.terms().len()) {
            (x, y)
                if is_small
                    && x * y <= MAX_PRODUCTS
                    && (x == 1 || y == 1 || a.constant() == 0 || b.constant() == 0) =>
            {
                (a.clone(), b.clone())
            }
            _ => (whole(a, self), whole(b, self)),
        };
        a.multiply(&b, |&x, &y| Some(self.product_of(x, y))).expect("coefficients are limited")
    }

    /// Returns `a / b` rounded toward zero, or down if `floor`. Facts define the quotient only for positive `b`. For
    /// other values of `b`, the quotient is arbitrary within its bounds.
    pub fn quotient(&mut self, a: &AffineForm, b: &AffineForm, floor: bool) -> AffineForm {
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
            // The divisor is positive, so the quotient has the sign of the dividend and no larger magnitude.
            _ if least > 0 => (if low < 0 { low } else { 0 }, if high < 0 { 0 } else { high / by }),
            _ => (-low.abs().max(high.abs()), low.abs().max(high.abs())),
        };
        let var = self.new_derived("quotient", &[a, b], from, to);
        self.variables[var.index()].is_total = true;
        self.known_quotients.insert(key, var);
        self.definitions.insert(var, DerivedVar::Quotient(a.clone(), b.clone(), floor));
        let q = variable(var);
        let back = self.product(&q, b);
        let rest = a.minus(&back);
        let down = and([at_most(&number(0), &rest), less(&rest, b)]);
        let up = and([at_most(&rest, &number(0)), less(&number(0).minus(b), &rest)]);
        let positive = less(&number(0), b);
        // Facts must also hold for out-of-range coordinates, for which a divisor may be negative.
        let fact = match (floor || low >= 0, constant(b).is_some_and(|n| n > 0)) {
            (true, true) => down,
            (true, false) => or([and([positive.clone(), down]), not(&positive)]),
            (false, true) => {
                let sign = at_most(&number(0), a);
                or([and([sign.clone(), down]), and([not(&sign), up])])
            }
            (false, false) => {
                let sign = at_most(&number(0), a);
                let rounded = or([and([sign.clone(), down]), and([not(&sign), up])]);
                or([and([positive.clone(), rounded]), not(&positive)])
            }
        };
        self.add_fact(var, fact);
        q
    }

    /// Returns the value of a form after wrapping around in the range from `low` to `high`: the form less a multiple of
    /// the number of values in the range.
    pub fn wrapped(&mut self, form: &AffineForm, low: i128, high: i128) -> AffineForm {
        let count = high - low + 1;
        let turns = self.quotient(&form.minus(&number(low)), &number(count), true);
        let var = self.name(&form.minus(&turns.times(count)));
        let known = &mut self.variables[var.index()];
        (known.low, known.high) = (known.low.max(low), known.high.min(high));
        variable(var)
    }

    /// Returns `a / b` rounded up, for nonnegative `a`. For `b` that is not positive, see [`quotient`](Self::quotient).
    pub fn ceil_quotient(&mut self, a: &AffineForm, b: &AffineForm) -> AffineForm {
        self.quotient(&a.plus(b).minus(&number(1)), b, true)
    }

    /// Returns the variable that represents an element of an array that the kernel does not write. Its values are in
    /// `range`.
    pub fn element(&mut self, element: SymbolicLoad, name: &str, range: (i128, i128), span: Span) -> Var {
        if let Some(known) = self.known_elements.get(&element) {
            return *known;
        }
        let indices: Vec<&AffineForm> = element.indices.iter().collect();
        let var = self.new_derived(name, &indices, range.0, range.1);
        self.define(var);
        if let Some(promised) = self.array_promises.get(&element.param).cloned() {
            let outside = promised.outside(&element.indices);
            for (op, bound) in &promised.all {
                let holds = comparison(*op, &variable(var), bound);
                self.add_fact(var, or([outside.clone(), holds]));
            }
        }
        self.known_elements.insert(element.clone(), var);
        self.elements.insert(var, (element, span));
        var
    }

    /// Returns an element of a one-dimensional constant array. If the index is out of bounds, the value is arbitrary
    /// within the range of the elements.
    pub fn constant_array_element(
        &mut self,
        element: SymbolicLoad,
        name: &str,
        values: Arc<[i128]>,
        range: (i128, i128),
        span: Span,
    ) -> AffineForm {
        let [index] = &element.indices[..] else { return number(0) };
        let index = index.clone();
        let value = constant(&index).and_then(|at| values.get(usize::try_from(at).ok()?));
        if let Some(&value) = value {
            return number(value);
        }
        if let Some(known) = self.known_elements.get(&element) {
            return variable(*known);
        }
        let is_short = values.len() <= MAX_CASES;
        if let (false, Some(least), Some(most)) = (is_short, values.iter().min(), values.iter().max()) {
            let mut sorted = values.to_vec();
            sorted.sort_unstable();
            let promised = ArrayPromises {
                extents: vec![number(values.len() as i128)],
                all: vec![(BinaryOp::Ge, number(*least)), (BinaryOp::Le, number(*most))],
                ascending: values.is_sorted(),
                distinct: sorted.windows(2).all(|pair| pair[0] != pair[1]),
            };
            self.array_promises.insert(element.param, promised);
            let var = self.element(element, name, range, span);
            self.definitions.insert(var, DerivedVar::Table(values, index));
            return variable(var);
        }
        let var = self.new_derived(name, &[&index], range.0, range.1);
        self.define(var);
        let holds_value =
            |(at, value): (i128, &i128)| and([equal(&index, &number(at)), equal(&variable(var), &number(*value))]);
        let outside = or([less(&index, &number(0)), at_most(&number(values.len() as i128), &index)]);
        let cases = or((0..).zip(values.iter()).map(holds_value).chain([outside]).collect::<Vec<_>>());
        self.add_fact(var, cases);
        self.known_elements.insert(element, var);
        self.definitions.insert(var, DerivedVar::Table(values, index));
        variable(var)
    }

    /// If an affine form is an element of an array that is promised to be a permutation, returns the element's index
    /// and the array's length.
    pub fn permutation_operands(&self, form: &AffineForm) -> Option<(AffineForm, AffineForm)> {
        let (element, _) = self.elements.get(&single(form)?)?;
        let promised = self.array_promises.get(&element.param).filter(|promised| promised.is_permutation())?;
        Some((element.indices.first()?.clone(), promised.extents.first()?.clone()))
    }

    /// Returns a value that is `a` if the condition holds, and `b` otherwise.
    pub fn either(&mut self, condition: &Formula, a: &AffineForm, b: &AffineForm) -> AffineForm {
        if a == b || is_always(condition) {
            return a.clone();
        }
        if is_never(condition) {
            return b.clone();
        }
        let value = self.choice(&[(condition.clone(), a.clone()), (not(condition), b.clone())]);
        if let Some(var) = single(&value) {
            self.variables[var.index()].is_total = true;
        }
        value
    }

    /// Returns the smaller of two values.
    pub fn min_form(&mut self, a: &AffineForm, b: &AffineForm) -> AffineForm {
        let most = self.bounds(a).1.min(self.bounds(b).1);
        let value = self.either(&at_most(a, b), a, b);
        self.limit(&value, -ENDLESS, most);
        value
    }

    /// Returns the larger of two values.
    pub fn max_form(&mut self, a: &AffineForm, b: &AffineForm) -> AffineForm {
        let least = self.bounds(a).0.max(self.bounds(b).0);
        let value = self.either(&at_most(a, b), b, a);
        self.limit(&value, least, ENDLESS);
        value
    }

    /// Narrows the bounds of a value that depends on a condition.
    fn limit(&mut self, value: &AffineForm, low: i128, high: i128) {
        if let Some(var) = single(value) {
            let var_def = &mut self.variables[var.index()];
            if var_def.name == CHOICE {
                (var_def.low, var_def.high) = (var_def.low.max(low), var_def.high.min(high));
            }
        }
    }

    /// Returns a new variable that equals the value of the case whose condition is true. `cases` are pairs of a
    /// condition and a value.
    pub fn choice(&mut self, cases: &[(Formula, AffineForm)]) -> AffineForm {
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
        let var = self.fresh(CHOICE, VarRole::Derived(on), low, high);
        let holds_value =
            |(condition, value): &(Formula, AffineForm)| and([condition.clone(), equal(&variable(var), value)]);
        // A formula may use the value on a path where no condition holds; the value is arbitrary then.
        let no_case = and(cases.iter().map(|(condition, _)| not(condition)));
        let is_complete = matches!(cases, [(a, _), (b, _)] if are_opposite(a, b));
        let no_case = Some(no_case).filter(|no_case| !is_complete && !is_never(no_case));
        let fact = or(cases.iter().map(holds_value).chain(no_case).collect::<Vec<_>>());
        self.add_fact(var, fact);
        self.definitions.insert(var, DerivedVar::Choice(cases.to_vec()));
        variable(var)
    }
}

impl ArrayPromises {
    /// Returns whether the promises imply that the elements are a permutation of `0..count`.
    fn is_permutation(&self) -> bool {
        let has_bound =
            |op: BinaryOp, bound: &AffineForm| self.all.iter().any(|known| known.0 == op && known.1 == *bound);
        let [count] = &self.extents[..] else { return false };
        self.distinct && has_bound(BinaryOp::Ge, &number(0)) && has_bound(BinaryOp::Lt, count)
    }

    /// Returns the formula that the indices are outside the array.
    pub fn outside(&self, indices: &[AffineForm]) -> Formula {
        let axes = indices.iter().zip(&self.extents);
        or(axes.flat_map(|(index, extent)| [less(index, &number(0)), at_most(extent, index)]).collect::<Vec<_>>())
    }
}

/// Returns the terms whose coefficients are multiples of `n`, divided by `n`: for `thread + 128 * it` and 128, the
/// result is `it`.
fn multiples(form: &AffineForm, n: i128) -> AffineForm {
    let terms = form.terms().iter().filter(|(_, weight)| weight % n == 0).map(|&(var, weight)| (var, weight / n));
    AffineForm::new(form.constant() / n, terms).unwrap_or_else(|| number(0))
}

/// Returns the formula of a comparison of two affine forms.
pub(crate) fn comparison(op: BinaryOp, a: &AffineForm, b: &AffineForm) -> Formula {
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
