//! Bounds of the indices of a kernel's array accesses, by abduction from the guards.
//!
//! Input: a translated kernel. Output: for each access of an array, an upper bound of its index, as a polynomial in the
//! kernel's parameters. Idea: an index is a polynomial in variables; each variable is replaced by the bound that a
//! condition before the access states. A bound may be wrong, because the variables are assumed not to be negative and
//! overflow is ignored: it becomes an assumption, and the prover decides whether it suffices.

mod arithmetic;
mod counted_variables;

use super::assigned_names::{assigned, root};
use super::index_limits::{IndexBound, IndexLimit, LimitOrigin, replace};
use super::path_conditions::{PathCondition, PathExit, SizeCondition, always_leaves, compare, exit_of};
use super::polynomial::{Monomial, SizePolynomial, SizeSymbol};
use super::size_names::{KernelSizes, is_extent};
use super::tree::{ClkFunction, Expr, ExprKind, Stmt, StmtKind};
use crate::source::SourceSpan;
use rustc_hash::{FxHashMap, FxHashSet};
use smol_str::SmolStr;
use std::cell::Cell;

/// Limits on the depth of calls, the number of visited nodes and the number of replacements in an index.
const MAX_CALLS: u32 = 8;
const MAX_STEPS: u32 = 200_000;
const MAX_REPLACEMENTS: u32 = 48;

/// An access of an array whose index has a bound.
#[derive(Clone, Debug)]
pub(super) struct BoundedAccess {
    pub(super) array: SmolStr,
    pub(super) axis: usize,
    /// The index, at most, as a polynomial in parameters of the kernel.
    pub(super) most: SizePolynomial,
    /// Whether a condition or a loop limits the index; otherwise only the size of the launch does.
    pub(super) is_guarded: bool,
    /// The condition that limits the index, or the access.
    pub(super) source: SourceSpan,
    pub(super) span: SourceSpan,
    /// The conditions on parameters under which the kernel makes the access. `None` if they cannot be expressed.
    pub(super) premises: Option<Vec<SizeCondition>>,
    /// Whether the bound is that of the launch although not all threads make the access.
    pub(super) is_launch_excess: bool,
    /// Whether the bound is that of the launch.
    pub(super) from_launch: bool,
    /// Whether the bound is the index, which consists of parameters.
    pub(super) is_exact: bool,
    /// If the index is the sum of a thread index and a number: the axis, and the number.
    pub(super) thread_offset: Option<(usize, i128)>,
    /// If the index is the sum of a thread index and the counter of a loop: the axis, and the steps of the loop.
    pub(super) thread_steps: Option<(usize, CounterSteps)>,
}

/// The values of a loop counter: all multiples of `step` from `first` to `last`.
#[derive(Clone, Copy, Debug)]
pub(super) struct CounterSteps {
    pub(super) first: i128,
    pub(super) last: i128,
    pub(super) step: i128,
}

/// What a name means.
#[derive(Clone, Debug)]
enum Meaning {
    Value(SizePolynomial),
    Array(SmolStr),
    /// A struct that is a parameter of the kernel or a part of one: `v` or `v.sizes`.
    Struct(SmolStr),
}

#[derive(Default)]
struct SymbolInfo {
    /// The name, if it is a parameter of the kernel.
    parameter: Option<SmolStr>,
    definition: Option<SizePolynomial>,
    /// Whether the definition is the value, even if C++ or Clk would wrap around in computing it.
    is_exact: bool,
    /// Whether the value differs between threads or iterations, or depends on memory.
    varies: bool,
    steps: Option<CounterSteps>,
    /// The dividend and the divisor, if the symbol is a quotient.
    quotient: Option<(SizePolynomial, SizePolynomial)>,
}

pub(super) struct Abduction<'a> {
    functions: &'a [ClkFunction],
    symbols: Vec<SymbolInfo>,
    parameters: FxHashMap<SmolStr, SizeSymbol>,
    positions: FxHashMap<(SmolStr, usize), SizeSymbol>,
    quotients: FxHashMap<(SizePolynomial, SizePolynomial), SizeSymbol>,
    bounded_quotients: Cell<u32>,
    /// What the conditions and loops around the current statement state.
    facts: Vec<IndexLimit>,
    /// The conditions on the path to the current statement, with their numbers.
    path: Vec<(u32, PathCondition)>,
    next_condition: u32,
    sizes: KernelSizes<'a>,
    /// What holds everywhere: limits of positions, quotients and remainders.
    limits: Vec<IndexLimit>,
    scopes: Vec<FxHashMap<SmolStr, Meaning>>,
    calls: u32,
    steps: u32,
    pub(super) accesses: Vec<BoundedAccess>,
    /// Numbers that the kernel uses in the place of the block's extent, as in `block_idx.x * 256 + thread_idx.x`.
    pub(super) block_factors: FxHashSet<(usize, i128)>,
    /// The axes along which the kernel computes the number of threads of the launch.
    pub(super) strided_axes: Vec<usize>,
    /// The axes along which the kernel multiplies the index of the block by a part of the block's extent, as in
    /// `blockDim.x / 4 * 4 * blockIdx.x`.
    pub(super) divided_axes: Vec<usize>,
}

const AXES: [&str; 3] = ["x", "y", "z"];

/// Functions whose result depends only on their arguments.
const UNIFORM_FUNCTIONS: [&str; 15] = [
    "i32",
    "u32",
    "i64",
    "u64",
    "f32",
    "f64",
    "bool",
    "i8",
    "u8",
    "min",
    "max",
    "abs",
    "wrapping_add",
    "wrapping_sub",
    "wrapping_mul",
];

/// A comparison of two expressions of parameters.
enum ComparedSizes {
    Always,
    Never,
    Stated(SizeCondition),
}

impl<'a> Abduction<'a> {
    /// Analyzes a kernel. `functions` contains the functions that it calls.
    pub(super) fn of_kernel(sizes: KernelSizes<'a>, functions: &'a [ClkFunction]) -> Abduction<'a> {
        let kernel = sizes.kernel;
        let mut own = Abduction {
            functions,
            sizes,
            symbols: vec![],
            parameters: FxHashMap::default(),
            positions: FxHashMap::default(),
            quotients: FxHashMap::default(),
            bounded_quotients: Cell::default(),
            facts: vec![],
            path: vec![],
            next_condition: 0,
            limits: vec![],
            scopes: vec![FxHashMap::default()],
            calls: 0,
            steps: 0,
            accesses: vec![],
            block_factors: FxHashSet::default(),
            strided_axes: vec![],
            divided_axes: vec![],
        };
        for param in &kernel.params {
            let meaning = if param.ty.starts_with('[') {
                Meaning::Array(param.name.clone())
            } else {
                own.parameter_meaning(&param.name, &param.ty)
            };
            own.define(&param.name, meaning);
        }
        own.block(&kernel.body);
        own
    }

    /// Returns the name of a symbol that is a parameter of the kernel.
    pub(super) fn parameter_name(&self, symbol: SizeSymbol) -> Option<&SmolStr> {
        self.symbols[symbol.0 as usize].parameter.as_ref()
    }

    /// Returns the symbol of a parameter.
    pub(super) fn symbol_of(&self, name: &str) -> Option<SizeSymbol> {
        self.parameters.get(name).copied()
    }

    fn parameter(&mut self, name: &SmolStr) -> SizeSymbol {
        if let Some(known) = self.parameters.get(name) {
            return *known;
        }
        let symbol = self.new_symbol(None);
        self.symbols[symbol.0 as usize].parameter = Some(name.clone());
        self.parameters.insert(name.clone(), symbol);
        symbol
    }

    /// Returns the meaning of a by-value parameter, or of a field of one.
    fn parameter_meaning(&mut self, name: &SmolStr, ty: &str) -> Meaning {
        if is_size_type(ty) {
            return Meaning::Value(SizePolynomial::symbol(self.parameter(name)));
        }
        if self.sizes.fields_of(ty).is_some() {
            return Meaning::Struct(name.clone());
        }
        Meaning::Value(SizePolynomial::symbol(self.new_symbol(None)))
    }

    fn new_symbol(&mut self, definition: Option<SizePolynomial>) -> SizeSymbol {
        self.symbols.push(SymbolInfo { definition, ..SymbolInfo::default() });
        SizeSymbol(self.symbols.len() as u32 - 1)
    }

    fn info(&mut self, symbol: SizeSymbol) -> &mut SymbolInfo {
        &mut self.symbols[symbol.0 as usize]
    }

    /// Returns a new symbol for a value that differs between threads or iterations.
    fn varying_symbol(&mut self) -> SizeSymbol {
        let symbol = self.new_symbol(None);
        self.info(symbol).varies = true;
        symbol
    }

    /// Returns a symbol with a definition; the value itself if that is a symbol or number.
    fn named(&mut self, value: Option<SizePolynomial>, is_exact: bool, varies: bool) -> SizePolynomial {
        match value {
            Some(value) if value.as_symbol().is_some() || value.as_number().is_some() => value,
            value => {
                let symbol = self.new_symbol(value);
                let info = self.info(symbol);
                (info.is_exact, info.varies) = (is_exact, varies);
                SizePolynomial::symbol(symbol)
            }
        }
    }

    fn symbol_varies(&self, symbol: SizeSymbol) -> bool {
        self.symbols[symbol.0 as usize].varies
    }

    /// Returns whether an expression may differ between threads or iterations, or depend on memory.
    fn varies(&self, expr: &Expr) -> bool {
        match &expr.kind {
            ExprKind::Int(..) | ExprKind::Float(..) | ExprKind::Bool(_) | ExprKind::Text(_) => false,
            ExprKind::Name(name) => match self.find(name) {
                Some(Meaning::Value(value)) => value.symbols().any(|symbol| self.symbol_varies(symbol)),
                Some(Meaning::Struct(_)) => false,
                Some(Meaning::Array(_)) | None => true,
            },
            ExprKind::Field(base, _) => match &base.kind {
                ExprKind::Name(name) if name == "block_dim" || name == "grid_dim" => false,
                _ => self.varies(base),
            },
            ExprKind::Unary(_, operand) | ExprKind::Named(_, operand) => self.varies(operand),
            ExprKind::Binary(_, left, right) => self.varies(left) || self.varies(right),
            ExprKind::If(condition, then, otherwise) => {
                self.varies(condition) || self.varies(then) || self.varies(otherwise)
            }
            ExprKind::Call(name, args) => {
                !UNIFORM_FUNCTIONS.contains(&name.as_str()) || args.iter().any(|arg| self.varies(arg))
            }
            ExprKind::Index(..) | ExprKind::Struct(..) | ExprKind::List(_) => true,
        }
    }

    /// Returns whether the polynomial of an expression is its value, because no operation of it wraps around.
    fn is_exact(&self, expr: &Expr) -> bool {
        match &expr.kind {
            ExprKind::Int(..) => true,
            ExprKind::Name(name) => match self.find(name) {
                Some(Meaning::Value(value)) => value.symbols().all(|symbol| {
                    let info = &self.symbols[symbol.0 as usize];
                    info.parameter.is_some() || info.is_exact
                }),
                _ => false,
            },
            ExprKind::Field(base, _) => match &base.kind {
                ExprKind::Name(name) => {
                    name == "block_dim" || name == "grid_dim" || matches!(self.find(name), Some(Meaning::Struct(_)))
                }
                ExprKind::Field(..) => self.is_exact(base),
                _ => false,
            },
            ExprKind::Unary("-", operand) => self.is_exact(operand),
            ExprKind::Binary("+" | "-" | "*", left, right) => self.is_exact(left) && self.is_exact(right),
            ExprKind::Call(name, args) => name == "i64" && args.iter().all(|arg| self.is_exact(arg)),
            _ => false,
        }
    }

    fn is_parameter(&self, symbol: SizeSymbol) -> bool {
        self.symbols[symbol.0 as usize].parameter.is_some()
    }

    fn is_constant(&self, monomial: &[SizeSymbol]) -> bool {
        monomial.iter().all(|symbol| self.is_parameter(*symbol))
    }

    fn define(&mut self, name: &SmolStr, meaning: Meaning) {
        if let Some(scope) = self.scopes.last_mut() {
            scope.insert(name.clone(), meaning);
        }
    }

    fn find(&self, name: &str) -> Option<&Meaning> {
        self.scopes.iter().rev().find_map(|scope| scope.get(name))
    }

    fn assign(&mut self, name: &str, value: Option<SizePolynomial>, is_exact: bool, varies: bool) {
        let value = self.named(value, is_exact, varies);
        if let Some(known) = self.scopes.iter_mut().rev().find_map(|scope| scope.get_mut(name))
            && !matches!(known, Meaning::Array(_))
        {
            *known = Meaning::Value(value);
        }
    }

    fn forget(&mut self, names: &[SmolStr]) {
        for name in names {
            self.assign(name, None, false, true);
        }
    }

    // ---- statements ----

    fn nested(&mut self, f: impl FnOnce(&mut Self)) {
        let (facts, path) = (self.facts.len(), self.path.len());
        self.scopes.push(FxHashMap::default());
        f(self);
        self.scopes.pop();
        self.facts.truncate(facts);
        self.path.truncate(path);
    }

    /// Adds a condition to the path; returns its number.
    fn enter_condition(&mut self, condition: PathCondition) -> u32 {
        self.next_condition += 1;
        self.path.push((self.next_condition, condition));
        self.next_condition
    }

    /// Notes that some threads do not reach the code after a statement.
    fn note_exit(&mut self, exit: Option<PathExit>) {
        match exit {
            Some(PathExit::Uniform) => self.enter_condition(PathCondition::Uniform),
            Some(PathExit::Varying) => self.enter_condition(PathCondition::Varying),
            None => return,
        };
    }

    fn block(&mut self, stmts: &'a [Stmt]) {
        for stmt in stmts {
            self.steps += 1;
            if self.steps > MAX_STEPS {
                return;
            }
            self.stmt(stmt);
        }
    }

    fn stmt(&mut self, stmt: &'a Stmt) {
        match &stmt.kind {
            StmtKind::Declare { name, value, ty, .. } => {
                if ty.starts_with('[') {
                    return self.define(name, Meaning::Array(name.clone()));
                }
                let Some(value) = value else {
                    let symbol = self.varying_symbol();
                    return self.define(name, Meaning::Value(SizePolynomial::symbol(symbol)));
                };
                self.visit(value);
                if let Some(Meaning::Struct(path)) = self.place(value) {
                    return self.define(name, Meaning::Struct(path));
                }
                let (known, is_exact, varies) = (self.value(value), self.is_exact(value), self.varies(value));
                let known = self.named(known, is_exact, varies);
                self.define(name, Meaning::Value(known));
            }
            StmtKind::Shared { name, .. } => self.define(name, Meaning::Array(name.clone())),
            StmtKind::Assign { place, op, value } => {
                self.visit(value);
                match &place.kind {
                    ExprKind::Name(name) => {
                        let mut new = self.value(value);
                        if !op.is_empty() {
                            let old = self.value(place);
                            new = old.zip(new).and_then(|(old, new)| match *op {
                                "+" => old.plus(&new),
                                "-" => old.minus(&new),
                                "*" => old.times(&new),
                                _ => None,
                            });
                        }
                        let is_exact = op.is_empty() && self.is_exact(value);
                        let varies = self.varies(value) || !op.is_empty() && self.varies(place);
                        self.assign(name, new, is_exact, varies);
                    }
                    _ => {
                        self.visit(place);
                        if let Some(name) = root(place)
                            && matches!(self.find(&name), Some(Meaning::Struct(_)))
                        {
                            self.forget(&[name]);
                        }
                    }
                }
            }
            StmtKind::Expr(value) | StmtKind::Return(Some(value)) => self.visit(value),
            StmtKind::If { condition, then, otherwise } => {
                self.visit(condition);
                self.nested(|own| {
                    own.suppose(condition, true);
                    own.block(then);
                });
                self.nested(|own| {
                    own.suppose(condition, false);
                    own.block(otherwise);
                });
                let mut varies = |expr: &Expr| self.varies(expr);
                let (from_then, from_otherwise) =
                    (exit_of(then, false, &mut varies), exit_of(otherwise, false, &mut varies));
                let is_uniform = !varies(condition);
                let mut changed = assigned(then, self.functions);
                changed.extend(assigned(otherwise, self.functions));
                self.forget(&changed);
                let leaves_otherwise = !otherwise.is_empty() && always_leaves(otherwise);
                if always_leaves(then) {
                    self.suppose(condition, false);
                    self.note_exit(from_otherwise);
                } else if leaves_otherwise {
                    self.suppose(condition, true);
                    self.note_exit(from_then);
                } else {
                    let exit = [from_then, from_otherwise].into_iter().flatten();
                    let exit = exit.max_by_key(|exit| *exit == PathExit::Uniform);
                    self.note_exit(exit.map(|exit| if is_uniform { PathExit::Uniform } else { exit }));
                }
            }
            StmtKind::While { condition, body } => {
                self.repeated(body, |own| {
                    own.visit(condition);
                    own.suppose(condition, true);
                });
            }
            StmtKind::Loop(body) => self.repeated(body, |_| {}),
            StmtKind::For { name, from, to, inclusive, step, body } => {
                self.visit(from);
                self.visit(to);
                step.iter().for_each(|step| self.visit(step));
                let (first, last) = (self.value(from), self.value(to));
                let by = match step {
                    Some(step) => self.value(step).and_then(|step| step.as_number()),
                    None => Some(1),
                };
                let down = by.is_some_and(|by| by < 0);
                let condition = self.loop_condition(from, to, *inclusive, down);
                let counts = |last: &Option<SizePolynomial>| last.as_ref().and_then(SizePolynomial::as_number);
                let steps = match (counts(&first), counts(&last), by) {
                    (Some(first), Some(end), Some(step)) if step > 0 && first < end + i128::from(*inclusive) => {
                        let last = first + (end - i128::from(!*inclusive) - first) / step * step;
                        Some(CounterSteps { first, last, step })
                    }
                    _ => None,
                };
                let range = first.as_ref().zip(last.as_ref()).filter(|_| by == Some(1));
                let counted = range.map_or(vec![], |range| self.counted_variables(body, range, *inclusive));
                self.repeated(body, |own| {
                    let counter = own.varying_symbol();
                    own.define_counted(&counted, counter);
                    own.info(counter).steps = steps;
                    own.define(name, Meaning::Value(SizePolynomial::symbol(counter)));
                    let number = match condition {
                        Some(condition) => own.enter_condition(condition),
                        None => 0,
                    };
                    let most = match (down, *inclusive) {
                        (true, _) => first,
                        (false, true) => last,
                        (false, false) => last.and_then(|last| last.plus(&SizePolynomial::number(-1))),
                    };
                    if let Some(right) = most {
                        let left = SizePolynomial::symbol(counter);
                        let origin = LimitOrigin::Condition(number);
                        own.facts.push(IndexLimit { left, right, source: stmt.span, origin });
                    }
                });
                self.finish_counted(&counted);
            }
            StmtKind::Break | StmtKind::Continue | StmtKind::Return(None) => {}
        }
    }

    fn repeated(&mut self, body: &'a [Stmt], enter: impl FnOnce(&mut Self)) {
        let changed = assigned(body, self.functions);
        self.forget(&changed);
        let mut exit = None;
        self.nested(|own| {
            enter(own);
            own.block(body);
            exit = exit_of(body, true, &mut |expr| own.varies(expr));
        });
        self.forget(&changed);
        self.note_exit(exit);
    }

    /// Returns the condition under which the body of a counting loop runs; `None` if it always does.
    fn loop_condition(&mut self, from: &Expr, to: &Expr, inclusive: bool, down: bool) -> Option<PathCondition> {
        let op = if inclusive { "<=" } else { "<" };
        let (first, last) = if down { (to, from) } else { (from, to) };
        match self.compared(first, op, last, true) {
            Some(ComparedSizes::Always) => None,
            Some(ComparedSizes::Stated(condition)) => Some(PathCondition::Stated(condition)),
            // A loop whose range cannot be expressed is expected to run for some thread.
            _ => Some(PathCondition::Varying),
        }
    }

    // ---- conditions ----

    /// Adds the facts that follow from a condition or its negation.
    fn suppose(&mut self, condition: &Expr, holds: bool) {
        match (&condition.kind, holds) {
            (ExprKind::Unary("!", inner), _) => self.suppose(inner, !holds),
            (ExprKind::Binary("&&", left, right), true) | (ExprKind::Binary("||", left, right), false) => {
                self.suppose(left, holds);
                self.suppose(right, holds);
            }
            _ => {
                let Some(path_condition) = self.path_condition(condition, holds) else { return };
                let number = self.enter_condition(path_condition);
                let ExprKind::Binary(op, left, right) = &condition.kind else { return };
                let (Some(left), Some(right)) = (self.value(left), self.value(right)) else { return };
                let source = (condition.span, number);
                match (*op, holds) {
                    ("<", true) | (">=", false) => self.suppose_at_most(&left, &right, 1, source),
                    ("<=", true) | (">", false) => self.suppose_at_most(&left, &right, 0, source),
                    (">", true) | ("<=", false) => self.suppose_at_most(&right, &left, 1, source),
                    (">=", true) | ("<", false) => self.suppose_at_most(&right, &left, 0, source),
                    ("==", true) | ("!=", false) => {
                        self.suppose_at_most(&left, &right, 0, source);
                        self.suppose_at_most(&right, &left, 0, source);
                    }
                    _ => {}
                }
            }
        }
    }

    /// Returns what must hold for a condition to be true, or to be false if `holds` is false. `None` if it always is.
    fn path_condition(&mut self, condition: &Expr, holds: bool) -> Option<PathCondition> {
        match &condition.kind {
            ExprKind::Bool(value) if *value == holds => return None,
            ExprKind::Binary(op, left, right) => match self.compared(left, op, right, holds) {
                Some(ComparedSizes::Always) => return None,
                Some(ComparedSizes::Stated(condition)) => return Some(PathCondition::Stated(condition)),
                Some(ComparedSizes::Never) | None => {}
            },
            _ => {}
        }
        Some(match () {
            () if self.first_thread_satisfies(condition, holds) => PathCondition::FirstThread,
            () if self.varies(condition) => PathCondition::Varying,
            () => PathCondition::Uniform,
        })
    }

    /// Returns whether a condition depends on the position of the thread in its block alone, and holds for the first
    /// thread.
    fn first_thread_satisfies(&mut self, condition: &Expr, holds: bool) -> bool {
        let ExprKind::Binary(op, left, right) = &condition.kind else { return false };
        let mut at_first = |side: &Expr| {
            let value = self.value(side)?;
            let mut value = self.expanded(&value)?;
            for axis in 0..AXES.len() {
                if let Some(thread) = self.positions.get(&("thread_idx".into(), axis)) {
                    value = value.substitute(*thread, &SizePolynomial::default())?;
                }
            }
            value.as_number()
        };
        let (Some(left), Some(right)) = (at_first(left), at_first(right)) else { return false };
        compare(left, op, right) == Some(holds)
    }

    /// Compares two expressions of parameters; `None` if an operand is not such an expression.
    fn compared(&mut self, left: &Expr, op: &str, right: &Expr, holds: bool) -> Option<ComparedSizes> {
        if !self.is_exact(left) || !self.is_exact(right) {
            return None;
        }
        let (left, right) = (self.value(left)?, self.value(right)?);
        let (left, right) = (self.expanded(&left)?, self.expanded(&right)?);
        if let (Some(left), Some(right)) = (left.as_number(), right.as_number()) {
            let is_so = compare(left, op, right)?;
            return Some(if is_so == holds { ComparedSizes::Always } else { ComparedSizes::Never });
        }
        if !left.symbols().chain(right.symbols()).all(|symbol| self.is_parameter(symbol)) {
            return None;
        }
        // The assumption compares in `u64` if a parameter has this type, and a negative number is none of it.
        let is_u64 = |symbol| self.parameter_name(symbol).is_some_and(|name| self.sizes.scalar_of(name) == "u64");
        let is_negative = |side: &SizePolynomial| side.terms().any(|(_, by)| by < 0);
        if (is_negative(&left) || is_negative(&right)) && left.symbols().chain(right.symbols()).any(is_u64) {
            return None;
        }
        SizeCondition::comparison(left, op, right, holds).map(ComparedSizes::Stated)
    }

    /// Adds the fact `left + gap <= right`. `source` is the condition that states it, with its number.
    fn suppose_at_most(
        &mut self,
        left: &SizePolynomial,
        right: &SizePolynomial,
        gap: i128,
        (source, number): (SourceSpan, u32),
    ) {
        let origin = LimitOrigin::Condition(number);
        self.facts.extend(self.inequality(left, right, gap, source, origin));
        let (whole_left, whole_right) = (self.expanded(left), self.expanded(right));
        if let (Some(whole_left), Some(whole_right)) = (whole_left, whole_right)
            && (whole_left != *left || whole_right != *right)
        {
            self.facts.extend(self.inequality(&whole_left, &whole_right, gap, source, origin));
        }
    }

    /// Returns the fact `left + gap <= right`; `None` if it limits no variable.
    fn inequality(
        &self,
        left: &SizePolynomial,
        right: &SizePolynomial,
        gap: i128,
        source: SourceSpan,
        origin: LimitOrigin,
    ) -> Option<IndexLimit> {
        let difference = left.minus(right)?.plus(&SizePolynomial::number(gap))?;
        let (mut upper, mut rest) = (SizePolynomial::default(), SizePolynomial::default());
        for (monomial, coefficient) in difference.terms() {
            let is_variable = coefficient > 0 && !self.is_constant(monomial);
            let (side, sign) = if is_variable { (&mut upper, 1) } else { (&mut rest, -1) };
            *side = side.plus_times(&SizePolynomial::term(monomial.clone(), coefficient), sign)?;
        }
        (upper != SizePolynomial::default()).then_some(IndexLimit { left: upper, right: rest, source, origin })
    }

    /// Returns a new symbol that is at most each of some values.
    fn limited(&mut self, limits: &[&SizePolynomial], origin: LimitOrigin, varies: bool) -> SizePolynomial {
        let symbol = self.new_symbol(None);
        self.info(symbol).varies = varies;
        let symbol = SizePolynomial::symbol(symbol);
        for limit in limits {
            let fact = self.inequality(&symbol, limit, 0, SourceSpan::default(), origin);
            self.limits.extend(fact);
        }
        symbol
    }

    fn any_varies(&self, values: &[&SizePolynomial]) -> bool {
        values.iter().any(|value| value.symbols().any(|symbol| self.symbol_varies(symbol)))
    }

    /// Returns the meaning of a name, or of a field of a parameter.
    fn place(&mut self, expr: &Expr) -> Option<Meaning> {
        match &expr.kind {
            ExprKind::Name(name) => self.find(name).cloned(),
            ExprKind::Field(base, field) => {
                let Some(Meaning::Struct(path)) = self.place(base) else { return None };
                let name = SmolStr::from(format!("{path}.{field}"));
                let ty = self.sizes.type_of(&name)?.to_string();
                Some(self.parameter_meaning(&name, &ty))
            }
            _ => None,
        }
    }

    // ---- values ----

    /// Returns an integer expression as a polynomial.
    fn value(&mut self, expr: &Expr) -> Option<SizePolynomial> {
        self.steps += 1;
        if self.steps > MAX_STEPS {
            return None;
        }
        match &expr.kind {
            ExprKind::Int(value, _) => Some(SizePolynomial::number(*value)),
            ExprKind::Name(name) => match self.find(name)? {
                Meaning::Value(value) => Some(value.clone()),
                Meaning::Array(_) | Meaning::Struct(_) => None,
            },
            ExprKind::Field(base, field) => {
                if let Some(Meaning::Value(value)) = self.place(expr) {
                    return Some(value);
                }
                let ExprKind::Name(base) = &base.kind else { return None };
                let axis = AXES.iter().position(|known| known == field)?;
                self.position(base, axis)
            }
            ExprKind::Unary("-", operand) => SizePolynomial::default().minus(&self.value(operand)?),
            ExprKind::Binary(op, left, right) => {
                let (left, right) = (self.value(left)?, self.value(right)?);
                let result = self.arithmetic(op, &left, &right)?;
                self.note_axes(&result);
                Some(result)
            }
            ExprKind::Call(name, args) => {
                if let ([only], "i32" | "u32" | "i64" | "u64") = (&args[..], name.as_str()) {
                    return self.value(only);
                }
                let [left, right] = &args[..] else { return None };
                let op = match name.as_str() {
                    "wrapping_add" => "+",
                    "wrapping_sub" => "-",
                    "wrapping_mul" => "*",
                    "min" => "min",
                    _ => return None,
                };
                let (left, right) = (self.value(left)?, self.value(right)?);
                let result = self.arithmetic(op, &left, &right)?;
                self.note_axes(&result);
                Some(result)
            }
            _ => None,
        }
    }

    /// Returns a position of the thread or an extent of the launch.
    fn position(&mut self, base: &SmolStr, axis: usize) -> Option<SizePolynomial> {
        let extent = |own: &mut Self, kind: &str| {
            let name = SmolStr::from(format!("{kind}_{}", AXES[axis]));
            own.parameters.get(&name).map(|symbol| SizePolynomial::symbol(*symbol))
        };
        let (grid, block) = (extent(self, "grid")?, extent(self, "block")?);
        let most = match base.as_str() {
            "block_dim" => return Some(block),
            "grid_dim" => return Some(grid),
            "thread_idx" => block,
            "block_idx" => grid,
            "global_idx" => grid.times(&block)?,
            _ => return None,
        };
        let key = (base.clone(), axis);
        if let Some(known) = self.positions.get(&key) {
            return Some(SizePolynomial::symbol(*known));
        }
        let origin = if base == "block_idx" { LimitOrigin::Grid } else { LimitOrigin::Block };
        let value = self.limited(&[&most.plus(&SizePolynomial::number(-1))?], origin, true);
        self.positions.insert(key, value.as_symbol()?);
        Some(value)
    }

    /// Notes what an expression tells about the axes of the launch, such as `block_idx * 256 + thread_idx`.
    fn note_axes(&mut self, value: &SizePolynomial) {
        for (axis, axis_name) in AXES.iter().enumerate() {
            let find = |base: &str| self.positions.get(&(SmolStr::from(base), axis)).copied();
            if let (Some(thread), Some(block)) = (find("thread_idx"), find("block_idx"))
                && value.coefficient(&[thread]) == 1
                && value.coefficient(&[block]) > 1
            {
                self.block_factors.insert((axis, value.coefficient(&[block])));
            }
            let extent = |kind: &str| self.parameters.get(&SmolStr::from(format!("{kind}_{axis_name}"))).copied();
            if let (Some(grid), Some(block)) = (extent("grid"), extent("block")) {
                let mut stride = vec![grid, block];
                stride.sort();
                if value.coefficient(&stride) != 0 && !self.strided_axes.contains(&axis) {
                    self.strided_axes.push(axis);
                }
                if !self.divided_axes.contains(&axis) && self.has_part_of_block(value, axis, block) {
                    self.divided_axes.push(axis);
                }
            }
        }
    }

    /// Returns whether a value contains the index of the block times a quotient of the block's extent.
    fn has_part_of_block(&self, value: &SizePolynomial, axis: usize, block: SizeSymbol) -> bool {
        let whole = SizePolynomial::symbol(block);
        let parts: Vec<SizeSymbol> =
            self.quotients.iter().filter(|((dividend, _), _)| *dividend == whole).map(|(_, part)| *part).collect();
        let Some(position) = self.positions.get(&(SmolStr::from("block_idx"), axis)) else { return false };
        let is_divided = |(monomial, _): (&Monomial, i128)| {
            monomial.contains(position) && monomial.iter().any(|symbol| parts.contains(symbol))
        };
        !parts.is_empty() && self.expanded(value).is_some_and(|value| value.terms().any(is_divided))
    }

    /// Replaces all symbols that have a definition.
    fn expanded(&self, value: &SizePolynomial) -> Option<SizePolynomial> {
        let mut value = value.clone();
        for _ in 0..MAX_REPLACEMENTS {
            let defined = value.symbols().find(|symbol| self.symbols[symbol.0 as usize].definition.is_some());
            let Some(symbol) = defined else { return Some(value) };
            value = value.substitute(symbol, self.symbols[symbol.0 as usize].definition.as_ref()?)?;
        }
        None
    }

    // ---- accesses ----

    fn visit(&mut self, expr: &'a Expr) {
        self.steps += 1;
        if self.steps > MAX_STEPS {
            return;
        }
        match &expr.kind {
            ExprKind::Index(base, indices) => {
                self.visit(base);
                indices.iter().for_each(|index| self.visit(index));
                if let ExprKind::Name(name) = &base.kind
                    && let Some(Meaning::Array(array)) = self.find(name)
                {
                    let array = array.clone();
                    for (axis, index) in indices.iter().enumerate() {
                        if let Some(index) = self.value(index) {
                            self.access(&array, axis, &index, expr.span);
                        }
                    }
                }
            }
            ExprKind::Field(base, _) | ExprKind::Unary(_, base) | ExprKind::Named(_, base) => self.visit(base),
            ExprKind::Binary(op, left, right) => {
                self.visit(left);
                match *op {
                    "&&" | "||" => self.nested(|own| {
                        own.suppose(left, *op == "&&");
                        own.visit(right);
                    }),
                    _ => self.visit(right),
                }
            }
            ExprKind::Call(name, args) => {
                args.iter().for_each(|arg| self.visit(arg));
                self.call(name, args);
            }
            ExprKind::If(condition, then, otherwise) => {
                self.visit(condition);
                for (branch, holds) in [(then, true), (otherwise, false)] {
                    self.nested(|own| {
                        own.suppose(condition, holds);
                        own.visit(branch);
                    });
                }
            }
            ExprKind::Struct(_, fields) => fields.iter().for_each(|(_, value)| self.visit(value)),
            ExprKind::List(items) => items.iter().for_each(|item| self.visit(item)),
            ExprKind::Int(..) | ExprKind::Float(..) | ExprKind::Bool(_) | ExprKind::Name(_) | ExprKind::Text(_) => {}
        }
    }

    /// Visits the body of a called function, whose arrays are those of the arguments.
    fn call(&mut self, name: &SmolStr, args: &'a [Expr]) {
        let Some(function) = self.functions.iter().find(|function| function.name == *name) else { return };
        if self.calls < MAX_CALLS && function.params.len() == args.len() {
            let mut scope = FxHashMap::default();
            for (param, arg) in function.params.iter().zip(args) {
                let meaning = match &arg.kind {
                    ExprKind::Name(name) => self.find(name).cloned(),
                    _ => match self.place(arg) {
                        Some(Meaning::Struct(path)) => Some(Meaning::Struct(path)),
                        _ => self.value(arg).map(Meaning::Value),
                    },
                };
                let meaning = meaning.unwrap_or_else(|| {
                    let symbol = self.new_symbol(None);
                    self.info(symbol).varies = self.varies(arg);
                    Meaning::Value(SizePolynomial::symbol(symbol))
                });
                scope.insert(param.name.clone(), meaning);
            }
            self.calls += 1;
            let (facts, path) = (self.facts.len(), self.path.len());
            let outer = std::mem::replace(&mut self.scopes, vec![scope]);
            self.block(&function.body);
            self.scopes = outer;
            self.facts.truncate(facts);
            self.path.truncate(path);
            self.calls -= 1;
        }
        let changed = function.params.iter().zip(args).filter(|(param, _)| param.inout);
        let names: Vec<SmolStr> = changed.filter_map(|(_, arg)| root(arg)).collect();
        self.forget(&names);
    }

    fn access(&mut self, array: &SmolStr, axis: usize, index: &SizePolynomial, span: SourceSpan) {
        let whole = self.expanded(index);
        let Some(bound) = self.bound(index) else { return };
        let offset_of = |axis: usize| -> Option<SizePolynomial> {
            let thread = self.positions.get(&("thread_idx".into(), axis))?;
            whole.as_ref()?.minus(&SizePolynomial::symbol(*thread))
        };
        let thread_offset = (0..AXES.len()).find_map(|axis| Some((axis, offset_of(axis)?.as_number()?)));
        let thread_steps = (0..AXES.len()).find_map(|axis| {
            let counter = offset_of(axis)?.as_symbol()?;
            Some((axis, self.symbols[counter.0 as usize].steps?))
        });
        let source = bound.source.unwrap_or(span);
        let mut premises = Some(vec![]);
        let mut skips_threads = false;
        for (number, condition) in &self.path {
            match condition {
                PathCondition::Stated(condition) => premises.iter_mut().for_each(|all| all.push(condition.clone())),
                _ if bound.used.contains(number) => {}
                PathCondition::Uniform => premises = None,
                PathCondition::FirstThread => skips_threads |= bound.from_block,
                PathCondition::Varying => skips_threads = true,
            }
        }
        let is_exact = whole.as_ref() == Some(&bound.most) && !bound.from_launch;
        self.accesses.push(BoundedAccess {
            array: array.clone(),
            is_exact,
            axis,
            most: bound.most,
            is_guarded: bound.source.is_some(),
            source,
            span,
            premises,
            is_launch_excess: bound.from_launch && skips_threads,
            from_launch: bound.from_launch,
            thread_offset,
            thread_steps,
        });
    }

    /// Returns an upper bound of an index in parameters of the kernel.
    fn bound(&self, index: &SizePolynomial) -> Option<IndexBound> {
        let mut bound =
            IndexBound { most: index.clone(), source: None, used: vec![], from_launch: false, from_block: false };
        for _ in 0..MAX_REPLACEMENTS {
            let most = &bound.most;
            let variable: Vec<(&Monomial, i128)> =
                most.terms().filter(|(monomial, _)| !self.is_constant(monomial)).collect();
            if variable.is_empty() {
                let has_extent =
                    most.symbols().filter_map(|symbol| self.parameter_name(symbol)).any(|name| is_extent(name));
                bound.from_block |= has_extent && bound.source.is_none() && !bound.from_launch;
                bound.from_launch |= bound.from_block;
                return Some(bound);
            }
            // A negative term is at most 0.
            if let Some((monomial, coefficient)) = variable.iter().find(|(_, coefficient)| *coefficient < 0) {
                bound.most = most.minus(&SizePolynomial::term((*monomial).clone(), *coefficient))?;
                continue;
            }
            if let Some((next, fact)) = self.replaced(most, &self.facts) {
                bound.source = bound.source.or(Some(fact.source));
                if let LimitOrigin::Condition(number) = fact.origin {
                    bound.used.push(number);
                }
                bound.most = next;
                continue;
            }
            let mut symbols = variable.iter().flat_map(|(monomial, _)| monomial.iter());
            if let Some(symbol) = symbols.find(|symbol| self.symbols[symbol.0 as usize].definition.is_some()) {
                bound.most = most.substitute(*symbol, self.symbols[symbol.0 as usize].definition.as_ref()?)?;
                continue;
            }
            let Some((next, limit)) = self.replaced(most, &self.limits) else {
                bound = self.with_bounded_quotient(bound)?;
                continue;
            };
            bound.from_launch |= matches!(limit.origin, LimitOrigin::Grid | LimitOrigin::Block);
            bound.from_block |= limit.origin == LimitOrigin::Block;
            bound.most = next;
        }
        None
    }

    /// Replaces a part of a polynomial by the bound that a fact states. Prefers facts with many terms, then bounds that
    /// consist of parameters, then late facts.
    fn replaced<'f>(
        &self,
        value: &SizePolynomial,
        facts: &'f [IndexLimit],
    ) -> Option<(SizePolynomial, &'f IndexLimit)> {
        let mut best: Option<((usize, bool), SizePolynomial, &IndexLimit)> = None;
        for fact in facts.iter().rev() {
            let is_constant = fact.right.terms().all(|(monomial, _)| self.is_constant(monomial));
            let rank = (fact.left.terms().count(), is_constant);
            if best.as_ref().is_some_and(|(known, ..)| *known >= rank) {
                continue;
            }
            if let Some(next) = replace(value, &fact.left, &fact.right) {
                best = Some((rank, next, fact));
            }
        }
        best.map(|(_, next, fact)| (next, fact))
    }
}

fn is_size_type(ty: &str) -> bool {
    matches!(ty, "i32" | "u32" | "i64" | "u64")
}
