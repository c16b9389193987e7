//! Bounds of the indices of a kernel's array accesses, by abduction from the guards.
//!
//! Input: a translated kernel. Output: for each access of an array, an upper bound of its index, as a polynomial in the
//! kernel's parameters. Idea: an index is a polynomial in variables; each variable is replaced by the bound that a
//! condition before the access states. A bound may be wrong, because the variables are assumed not to be negative and
//! overflow is ignored: it becomes an assumption, and the prover decides whether it suffices.

use super::polynomial::{Monomial, SizePolynomial, SizeSymbol, divide};
use super::tree::{ClkFunction, Expr, ExprKind, Stmt, StmtKind};
use crate::source::SourceSpan;
use rustc_hash::{FxHashMap, FxHashSet};
use smol_str::SmolStr;

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
    /// If the index is the sum of a thread index and a number: the axis, and the number.
    pub(super) thread_offset: Option<(usize, i128)>,
}

/// What a name means.
#[derive(Clone, Debug)]
enum Meaning {
    Value(SizePolynomial),
    Array(SmolStr),
}

/// The inequality `left <= right`. Terms of `left` have positive coefficients and a symbol that is not a parameter.
#[derive(Clone, Debug)]
struct IndexLimit {
    left: SizePolynomial,
    right: SizePolynomial,
    source: SourceSpan,
}

#[derive(Default)]
struct SymbolInfo {
    /// The name, if it is a parameter of the kernel.
    parameter: Option<SmolStr>,
    definition: Option<SizePolynomial>,
}

pub(super) struct Abduction<'a> {
    functions: &'a [ClkFunction],
    symbols: Vec<SymbolInfo>,
    parameters: FxHashMap<SmolStr, SizeSymbol>,
    positions: FxHashMap<(SmolStr, usize), SizeSymbol>,
    quotients: FxHashMap<(SizePolynomial, i128), SizeSymbol>,
    /// What the conditions and loops around the current statement state.
    facts: Vec<IndexLimit>,
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
}

const AXES: [&str; 3] = ["x", "y", "z"];

impl<'a> Abduction<'a> {
    /// Analyzes a kernel. `functions` contains the functions that it calls.
    pub(super) fn of_kernel(kernel: &'a ClkFunction, functions: &'a [ClkFunction]) -> Abduction<'a> {
        let mut own = Abduction {
            functions,
            symbols: vec![],
            parameters: FxHashMap::default(),
            positions: FxHashMap::default(),
            quotients: FxHashMap::default(),
            facts: vec![],
            limits: vec![],
            scopes: vec![FxHashMap::default()],
            calls: 0,
            steps: 0,
            accesses: vec![],
            block_factors: FxHashSet::default(),
            strided_axes: vec![],
        };
        for param in &kernel.params {
            let meaning = if param.ty.starts_with('[') {
                Meaning::Array(param.name.clone())
            } else if is_size_type(&param.ty) {
                Meaning::Value(SizePolynomial::symbol(own.parameter(&param.name)))
            } else {
                Meaning::Value(SizePolynomial::symbol(own.new_symbol(None)))
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

    fn parameter(&mut self, name: &SmolStr) -> SizeSymbol {
        if let Some(known) = self.parameters.get(name) {
            return *known;
        }
        let symbol = self.new_symbol(None);
        self.symbols[symbol.0 as usize].parameter = Some(name.clone());
        self.parameters.insert(name.clone(), symbol);
        symbol
    }

    fn new_symbol(&mut self, definition: Option<SizePolynomial>) -> SizeSymbol {
        self.symbols.push(SymbolInfo { parameter: None, definition });
        SizeSymbol(self.symbols.len() as u32 - 1)
    }

    /// Returns a symbol with a definition; the value itself if that is a symbol or number.
    fn named(&mut self, value: Option<SizePolynomial>) -> SizePolynomial {
        match value {
            Some(value) if value.as_symbol().is_some() || value.as_number().is_some() => value,
            value => SizePolynomial::symbol(self.new_symbol(value)),
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

    fn assign(&mut self, name: &str, value: Option<SizePolynomial>) {
        let value = self.named(value);
        if let Some(known) = self.scopes.iter_mut().rev().find_map(|scope| scope.get_mut(name))
            && matches!(known, Meaning::Value(_))
        {
            *known = Meaning::Value(value);
        }
    }

    fn forget(&mut self, names: &[SmolStr]) {
        for name in names {
            self.assign(name, None);
        }
    }

    // ---- statements ----

    fn nested(&mut self, f: impl FnOnce(&mut Self)) {
        let facts = self.facts.len();
        self.scopes.push(FxHashMap::default());
        f(self);
        self.scopes.pop();
        self.facts.truncate(facts);
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
                let known = value.as_ref().and_then(|value| {
                    self.visit(value);
                    self.value(value)
                });
                let known = self.named(known);
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
                        self.assign(name, new);
                    }
                    _ => self.visit(place),
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
                let mut changed = assigned(then, self.functions);
                changed.extend(assigned(otherwise, self.functions));
                self.forget(&changed);
                if always_leaves(then) {
                    self.suppose(condition, false);
                } else if !otherwise.is_empty() && always_leaves(otherwise) {
                    self.suppose(condition, true);
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
                let down = step.as_ref().and_then(|step| self.value(step)?.as_number()).is_some_and(|by| by < 0);
                self.repeated(body, |own| {
                    let counter = own.new_symbol(None);
                    own.define(name, Meaning::Value(SizePolynomial::symbol(counter)));
                    let most = match (down, *inclusive) {
                        (true, _) => first,
                        (false, true) => last,
                        (false, false) => last.and_then(|last| last.plus(&SizePolynomial::number(-1))),
                    };
                    if let Some(right) = most {
                        let left = SizePolynomial::symbol(counter);
                        own.facts.push(IndexLimit { left, right, source: stmt.span });
                    }
                });
            }
            StmtKind::Break | StmtKind::Continue | StmtKind::Return(None) => {}
        }
    }

    fn repeated(&mut self, body: &'a [Stmt], enter: impl FnOnce(&mut Self)) {
        let changed = assigned(body, self.functions);
        self.forget(&changed);
        self.nested(|own| {
            enter(own);
            own.block(body);
        });
        self.forget(&changed);
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
            (ExprKind::Binary(op, left, right), _) => {
                let (Some(left), Some(right)) = (self.value(left), self.value(right)) else { return };
                let source = condition.span;
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
            _ => {}
        }
    }

    /// Adds the fact `left + gap <= right`.
    fn suppose_at_most(&mut self, left: &SizePolynomial, right: &SizePolynomial, gap: i128, source: SourceSpan) {
        self.facts.extend(self.inequality(left, right, gap, source));
        let (whole_left, whole_right) = (self.expanded(left), self.expanded(right));
        if let (Some(whole_left), Some(whole_right)) = (whole_left, whole_right)
            && (whole_left != *left || whole_right != *right)
        {
            self.facts.extend(self.inequality(&whole_left, &whole_right, gap, source));
        }
    }

    /// Returns the fact `left + gap <= right`; `None` if it limits no variable.
    fn inequality(
        &self,
        left: &SizePolynomial,
        right: &SizePolynomial,
        gap: i128,
        source: SourceSpan,
    ) -> Option<IndexLimit> {
        let difference = left.minus(right)?.plus(&SizePolynomial::number(gap))?;
        let (mut upper, mut rest) = (SizePolynomial::default(), SizePolynomial::default());
        for (monomial, coefficient) in difference.terms() {
            let is_variable = coefficient > 0 && !self.is_constant(monomial);
            let (side, sign) = if is_variable { (&mut upper, 1) } else { (&mut rest, -1) };
            *side = side.plus_times(&SizePolynomial::term(monomial.clone(), coefficient), sign)?;
        }
        (upper != SizePolynomial::default()).then_some(IndexLimit { left: upper, right: rest, source })
    }

    /// Returns a new symbol that is at most each of some values.
    fn limited(&mut self, limits: &[&SizePolynomial]) -> SizePolynomial {
        let symbol = SizePolynomial::symbol(self.new_symbol(None));
        for limit in limits {
            let fact = self.inequality(&symbol, limit, 0, SourceSpan::default());
            self.limits.extend(fact);
        }
        symbol
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
                Meaning::Array(_) => None,
            },
            ExprKind::Field(base, axis) => {
                let ExprKind::Name(base) = &base.kind else { return None };
                let axis = AXES.iter().position(|known| known == axis)?;
                self.position(base, axis)
            }
            ExprKind::Unary("-", operand) => SizePolynomial::default().minus(&self.value(operand)?),
            ExprKind::Binary(op, left, right) => {
                let (left, right) = (self.value(left)?, self.value(right)?);
                let result = self.arithmetic(op, &left, &right)?;
                self.note_block_factor(&result);
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
                self.arithmetic(op, &left, &right)
            }
            _ => None,
        }
    }

    fn arithmetic(&mut self, op: &str, left: &SizePolynomial, right: &SizePolynomial) -> Option<SizePolynomial> {
        match op {
            "+" => left.plus(right),
            "-" => left.minus(right),
            "*" => left.times(right),
            "<<" => left.times(&SizePolynomial::number(1i128.checked_shl(u32::try_from(right.as_number()?).ok()?)?)),
            "/" | ">>" => {
                let number = right.as_number()?;
                let by = if op == "/" { number } else { 1i128.checked_shl(u32::try_from(number).ok()?)? };
                if by < 1 {
                    return None;
                }
                let key = (left.clone(), by);
                let quotient = match self.quotients.get(&key) {
                    Some(known) => *known,
                    None => {
                        let new = self.new_symbol(None);
                        self.quotients.insert(key, new);
                        new
                    }
                };
                let multiple = SizePolynomial::term(vec![quotient], by);
                let fact = self.inequality(&multiple, left, 0, SourceSpan::default());
                self.limits.extend(fact);
                Some(SizePolynomial::symbol(quotient))
            }
            "%" | "&" => {
                // `a % b` and `a & m` are at most `b - 1` and `m`.
                let most = if op == "%" { right.plus(&SizePolynomial::number(-1))? } else { right.clone() };
                let is_limit = op == "%" || most.as_number().is_some_and(|most| most >= 0);
                is_limit.then(|| self.limited(&[&most]))
            }
            "min" => Some(self.limited(&[left, right])),
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
        let value = self.limited(&[&most.plus(&SizePolynomial::number(-1))?]);
        self.positions.insert(key, value.as_symbol()?);
        Some(value)
    }

    /// Notes `block_idx * 256 + thread_idx`.
    fn note_block_factor(&mut self, value: &SizePolynomial) {
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
            }
        }
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
                    _ => self.value(arg).map(Meaning::Value),
                };
                let meaning = meaning.unwrap_or_else(|| Meaning::Value(SizePolynomial::symbol(self.new_symbol(None))));
                scope.insert(param.name.clone(), meaning);
            }
            self.calls += 1;
            let (facts, outer) = (self.facts.len(), std::mem::replace(&mut self.scopes, vec![scope]));
            self.block(&function.body);
            self.scopes = outer;
            self.facts.truncate(facts);
            self.calls -= 1;
        }
        let changed = function.params.iter().zip(args).filter(|(param, _)| param.inout);
        let names: Vec<SmolStr> = changed.filter_map(|(_, arg)| root(arg)).collect();
        self.forget(&names);
    }

    fn access(&mut self, array: &SmolStr, axis: usize, index: &SizePolynomial, span: SourceSpan) {
        let Some((most, used)) = self.bound(index) else { return };
        let thread_offset = self.expanded(index).and_then(|index| {
            (0..AXES.len()).find_map(|axis| {
                let thread = self.positions.get(&("thread_idx".into(), axis))?;
                Some((axis, index.minus(&SizePolynomial::symbol(*thread))?.as_number()?))
            })
        });
        let source = used.unwrap_or(span);
        let access =
            BoundedAccess { array: array.clone(), axis, most, is_guarded: used.is_some(), source, thread_offset };
        self.accesses.push(access);
    }

    /// Returns an upper bound of an index in parameters of the kernel, and the condition that states it.
    fn bound(&self, index: &SizePolynomial) -> Option<(SizePolynomial, Option<SourceSpan>)> {
        let (mut most, mut used) = (index.clone(), None);
        for _ in 0..MAX_REPLACEMENTS {
            let variable: Vec<(&Monomial, i128)> =
                most.terms().filter(|(monomial, _)| !self.is_constant(monomial)).collect();
            if variable.is_empty() {
                return Some((most, used));
            }
            // A negative term is at most 0.
            if let Some((monomial, coefficient)) = variable.iter().find(|(_, coefficient)| *coefficient < 0) {
                most = most.minus(&SizePolynomial::term((*monomial).clone(), *coefficient))?;
                continue;
            }
            if let Some((next, source)) = self.replaced(&most, &self.facts) {
                used = used.or(Some(source));
                most = next;
                continue;
            }
            let mut symbols = variable.iter().flat_map(|(monomial, _)| monomial.iter());
            if let Some(symbol) = symbols.find(|symbol| self.symbols[symbol.0 as usize].definition.is_some()) {
                most = most.substitute(*symbol, self.symbols[symbol.0 as usize].definition.as_ref()?)?;
                continue;
            }
            most = self.replaced(&most, &self.limits)?.0;
        }
        None
    }

    /// Replaces a part of a polynomial by the bound that a fact states. Prefers facts with many terms, then bounds that
    /// consist of parameters, then late facts.
    fn replaced(&self, value: &SizePolynomial, facts: &[IndexLimit]) -> Option<(SizePolynomial, SourceSpan)> {
        let mut best: Option<((usize, bool), SizePolynomial, SourceSpan)> = None;
        for fact in facts.iter().rev() {
            let is_constant = fact.right.terms().all(|(monomial, _)| self.is_constant(monomial));
            let rank = (fact.left.terms().count(), is_constant);
            if best.as_ref().is_some_and(|(known, ..)| *known >= rank) {
                continue;
            }
            if let Some(next) = replace(value, &fact.left, &fact.right) {
                best = Some((rank, next, fact.source));
            }
        }
        best.map(|(_, next, source)| (next, source))
    }
}

/// Replaces a multiple of `left` in a polynomial by that multiple of `right`. `None` if no term contains `left`.
fn replace(value: &SizePolynomial, left: &SizePolynomial, right: &SizePolynomial) -> Option<SizePolynomial> {
    let (first, by) = left.terms().next()?;
    value.terms().find_map(|(monomial, coefficient)| {
        let factor = divide(monomial, first)?;
        let count = coefficient / by;
        if count < 1 || coefficient % by != 0 {
            return None;
        }
        let multiple = SizePolynomial::term(factor, count);
        let part = left.times(&multiple)?;
        let fits = part.terms().all(|(monomial, coefficient)| value.coefficient(monomial) >= coefficient);
        if !fits {
            return None;
        }
        value.minus(&part)?.plus(&right.times(&multiple)?)
    })
}

fn is_size_type(ty: &str) -> bool {
    matches!(ty, "i32" | "u32" | "i64" | "u64")
}

fn root(place: &Expr) -> Option<SmolStr> {
    match &place.kind {
        ExprKind::Name(name) => Some(name.clone()),
        ExprKind::Field(base, _) | ExprKind::Index(base, _) => root(base),
        _ => None,
    }
}

/// Returns the variables that statements assign or pass to functions that change them.
fn assigned(stmts: &[Stmt], functions: &[ClkFunction]) -> Vec<SmolStr> {
    let mut names = vec![];
    for stmt in stmts {
        match &stmt.kind {
            StmtKind::Assign { place, value, .. } => {
                names.extend(root(place));
                names.extend(passed(value, functions));
            }
            StmtKind::Expr(value) | StmtKind::Declare { value: Some(value), .. } => {
                names.extend(passed(value, functions));
            }
            StmtKind::If { then, otherwise, .. } => {
                names.extend(assigned(then, functions));
                names.extend(assigned(otherwise, functions));
            }
            StmtKind::While { body, .. } | StmtKind::Loop(body) | StmtKind::For { body, .. } => {
                names.extend(assigned(body, functions));
            }
            _ => {}
        }
    }
    names
}

/// Returns the variables that a call may change.
fn passed(value: &Expr, functions: &[ClkFunction]) -> Vec<SmolStr> {
    let ExprKind::Call(name, args) = &value.kind else { return vec![] };
    let Some(function) = functions.iter().find(|function| function.name == *name) else { return vec![] };
    let changed = function.params.iter().zip(args).filter(|(param, _)| param.inout);
    changed.filter_map(|(_, arg)| root(arg)).collect()
}

/// Returns whether the code after a block is reached only if the block is not.
fn always_leaves(stmts: &[Stmt]) -> bool {
    match stmts.last().map(|stmt| &stmt.kind) {
        Some(StmtKind::Return(_) | StmtKind::Break | StmtKind::Continue) => true,
        Some(StmtKind::If { then, otherwise, .. }) => always_leaves(then) && always_leaves(otherwise),
        _ => false,
    }
}
