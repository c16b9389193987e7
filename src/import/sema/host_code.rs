//! Sizes of launches in host code. Input: the host functions of a file. Output: for each launch, the grid, the block
//! and the arguments, as polynomials in host variables.
//!
//! Host code is not run: each function is visited once, in order. A variable that a branch or a loop assigns, or that a
//! call may change, has a new unknown value afterward. What is not understood is unknown.

use super::polynomial::{SizePolynomial, SizeSymbol};
use crate::ast::*;
use crate::source::SourceSpan;
use rustc_hash::{FxHashMap, FxHashSet};

/// Limit on the number of visited nodes of a file.
const MAX_STEPS: u32 = 400_000;

/// A value of a host variable or expression.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum HostCodeValue {
    Unknown,
    Int(SizePolynomial),
    /// A pointer to the first byte of an allocation, and the number of its bytes.
    Buffer {
        id: u32,
        bytes: Option<SizePolynomial>,
    },
    /// A `dim3`.
    Extents([Option<SizePolynomial>; 3]),
}

/// A launch in host code.
#[derive(Clone, Debug)]
pub(super) struct HostLaunch<'a> {
    pub(super) kernel: &'a QualifiedName,
    pub(super) span: SourceSpan,
    pub(super) grid: [Option<SizePolynomial>; 3],
    pub(super) block: [Option<SizePolynomial>; 3],
    pub(super) args: Vec<HostCodeValue>,
}

/// All launches of a file. The host variables in their polynomials are symbols of this table.
#[derive(Default)]
pub(super) struct HostLaunches<'a> {
    pub(super) launches: Vec<HostLaunch<'a>>,
    /// The dividend and the divisor of symbols that are quotients.
    pub(super) quotients: FxHashMap<SizeSymbol, (SizePolynomial, i128)>,
    /// The values of variables that have a constant value.
    values: FxHashMap<SizeSymbol, i128>,
}

impl HostLaunches<'_> {
    /// Returns the number that a polynomial is, if all of its variables have constant values.
    pub(super) fn number(&self, value: &SizePolynomial) -> Option<i128> {
        let mut value = value.clone();
        for _ in 0..16 {
            if let Some(number) = value.as_number() {
                return Some(number);
            }
            let symbol = value.symbols().next()?;
            let number = match self.quotients.get(&symbol) {
                Some((dividend, divisor)) => self.number(dividend)?.checked_div(*divisor)?,
                None => *self.values.get(&symbol)?,
            };
            value = value.substitute(symbol, &SizePolynomial::number(number))?;
        }
        None
    }
}

/// Visits the host functions of a file. `size_of` returns the size of a type in bytes.
pub(super) fn launches_of<'a>(
    unit: &'a TranslationUnit,
    size_of: &mut dyn FnMut(&'a CppType) -> Option<u64>,
) -> HostLaunches<'a> {
    let mut scan = HostScan {
        size_of,
        found: HostLaunches::default(),
        scopes: vec![FxHashMap::default()],
        escaped: FxHashSet::default(),
        symbols: 0,
        buffers: 0,
        steps: 0,
        quotients: FxHashMap::default(),
    };
    scan.decls(&unit.decls);
    scan.found
}

struct HostScan<'a, 's> {
    size_of: &'s mut dyn FnMut(&'a CppType) -> Option<u64>,
    found: HostLaunches<'a>,
    scopes: Vec<FxHashMap<SmolStr, HostCodeValue>>,
    /// Variables whose address is stored somewhere, so that any statement may change them.
    escaped: FxHashSet<SmolStr>,
    symbols: u32,
    buffers: u32,
    steps: u32,
    quotients: FxHashMap<(SizePolynomial, i128), SizeSymbol>,
}

/// Functions that change no variable that is an argument, except through the pointers that `call` handles.
const HARMLESS: [&str; 44] = [
    "printf",
    "fprintf",
    "puts",
    "memset",
    "memcpy",
    "malloc",
    "calloc",
    "free",
    "exit",
    "abort",
    "assert",
    "rand",
    "srand",
    "atoi",
    "atol",
    "atof",
    "sqrt",
    "sqrtf",
    "pow",
    "log",
    "exp",
    "fabs",
    "abs",
    "ceil",
    "floor",
    "min",
    "max",
    "cudaMalloc",
    "cudaMallocManaged",
    "cudaMallocHost",
    "cudaHostAlloc",
    "cudaMallocAsync",
    "cudaMemcpy",
    "cudaMemcpyAsync",
    "cudaMemset",
    "cudaMemsetAsync",
    "cudaFree",
    "cudaDeviceSynchronize",
    "cudaGetLastError",
    "cudaGetErrorString",
    "cudaPeekAtLastError",
    "cudaStreamSynchronize",
    "cudaFuncSetCacheConfig",
    "cudaSetDevice",
];

/// Functions that store the address of new memory in their first argument; the second one is the number of bytes.
const ALLOCATORS: [&str; 5] = ["cudaMalloc", "cudaMallocManaged", "cudaMallocHost", "cudaHostAlloc", "cudaMallocAsync"];

impl<'a> HostScan<'a, '_> {
    fn decls(&mut self, decls: &'a [CppDecl]) {
        for decl in decls {
            match &decl.kind {
                CppDeclKind::Namespace { decls, .. } | CppDeclKind::LinkageBlock(decls) => self.decls(decls),
                CppDeclKind::Record(record) => {
                    for member in record.members.iter().flatten() {
                        self.decls(std::slice::from_ref(&member.decl));
                    }
                }
                CppDeclKind::Variables(decl) => {
                    // Other functions may assign variables of the file.
                    let is_constant =
                        decl.attributes.constexpr || decl.variables.iter().all(|one| one.ty.qualifiers.is_const);
                    if is_constant && self.scopes.len() == 1 {
                        self.variables(decl);
                    }
                }
                CppDeclKind::Function(function) => self.function(function),
                _ => {}
            }
        }
    }

    fn function(&mut self, function: &'a CppFunction) {
        let FunctionBody::Block(body) = &function.body else { return };
        if function.attributes.global || (function.attributes.device && !function.attributes.host) {
            return;
        }
        self.escaped.clear();
        self.scopes.push(FxHashMap::default());
        for param in &function.params {
            if let Some(name) = &param.name {
                let value = match &param.ty.kind {
                    // Another function may change an object behind a reference, but this one reads it as a variable.
                    CppTypeKind::Reference(_) => HostCodeValue::Unknown,
                    _ => self.unknown_of(&param.ty),
                };
                self.define(&name.text, value);
            }
        }
        self.block(body);
        self.scopes.pop();
    }

    fn is_exhausted(&mut self) -> bool {
        self.steps += 1;
        self.steps > MAX_STEPS
    }

    // ---- variables ----

    fn new_symbol(&mut self) -> SizeSymbol {
        self.symbols += 1;
        SizeSymbol(self.symbols)
    }

    fn new_int(&mut self) -> HostCodeValue {
        HostCodeValue::Int(SizePolynomial::symbol(self.new_symbol()))
    }

    /// Returns a value of a type about which nothing is known.
    fn unknown_of(&mut self, ty: &CppType) -> HostCodeValue {
        if is_integer(ty) { self.new_int() } else { HostCodeValue::Unknown }
    }

    fn define(&mut self, name: &SmolStr, value: HostCodeValue) {
        if let Some(scope) = self.scopes.last_mut() {
            scope.insert(name.clone(), value);
        }
    }

    fn find(&self, name: &str) -> Option<&HostCodeValue> {
        self.scopes.iter().rev().find_map(|scope| scope.get(name))
    }

    fn assign(&mut self, name: &str, value: HostCodeValue) {
        if let Some(known) = self.scopes.iter_mut().rev().find_map(|scope| scope.get_mut(name)) {
            *known = value;
        }
    }

    /// Gives a variable a new unknown value.
    fn forget(&mut self, name: &str) {
        let new = match self.find(name) {
            Some(HostCodeValue::Int(_)) => self.new_int(),
            _ => HostCodeValue::Unknown,
        };
        self.assign(name, new);
    }

    fn forget_all(&mut self, names: &FxHashSet<SmolStr>) {
        names.iter().for_each(|name| self.forget(name));
    }

    /// Forgets all variables of the function.
    fn forget_everything(&mut self) {
        let names: FxHashSet<SmolStr> = self.scopes.iter().skip(1).flat_map(|scope| scope.keys().cloned()).collect();
        self.forget_all(&names);
    }

    // ---- statements ----

    fn nested(&mut self, f: impl FnOnce(&mut Self)) {
        self.scopes.push(FxHashMap::default());
        f(self);
        self.scopes.pop();
    }

    fn block(&mut self, block: &'a CppBlock) {
        self.nested(|own| block.stmts.iter().for_each(|stmt| own.stmt(stmt)));
    }

    fn stmt(&mut self, stmt: &'a CppStmt) {
        if self.is_exhausted() {
            return;
        }
        match &stmt.kind {
            CppStmtKind::Empty | CppStmtKind::Break | CppStmtKind::Continue | CppStmtKind::Return(None) => {}
            // Jumps and unknown statements may do anything.
            CppStmtKind::Label(_) | CppStmtKind::Refused(_) => self.forget_everything(),
            CppStmtKind::Expr(value) | CppStmtKind::Return(Some(value)) => {
                self.value(value);
            }
            CppStmtKind::Decl(decl) => {
                if let CppDeclKind::Variables(decl) = &decl.kind {
                    self.variables(decl);
                }
            }
            CppStmtKind::Block(block) => self.block(block),
            CppStmtKind::If(inner) => self.nested(|own| {
                inner.init.iter().for_each(|init| own.stmt(init));
                own.condition(&inner.condition);
                let before = own.scopes.clone();
                own.nested(|own| own.stmt(&inner.then));
                let after_then = std::mem::replace(&mut own.scopes, before);
                if let Some(otherwise) = &inner.otherwise {
                    own.nested(|own| own.stmt(otherwise));
                }
                own.join(after_then);
            }),
            CppStmtKind::While { condition, body, .. } => self.repeated(stmt, |own| {
                own.condition(condition);
                own.stmt(body);
            }),
            CppStmtKind::DoWhile { body, condition, .. } => {
                if is_false(condition) {
                    return self.stmt(body);
                }
                self.repeated(stmt, |own| {
                    own.stmt(body);
                    own.value(condition);
                });
            }
            CppStmtKind::For(inner) => self.nested(|own| {
                own.stmt(&inner.init);
                own.repeated(stmt, |own| {
                    inner.condition.iter().for_each(|condition| own.condition(condition));
                    own.stmt(&inner.body);
                    inner.step.iter().for_each(|step| {
                        own.value(step);
                    });
                });
            }),
            CppStmtKind::RangeFor { variable, range, body } => {
                self.value(range);
                self.nested(|own| {
                    own.repeated(stmt, |own| {
                        own.variables(variable);
                        own.stmt(body);
                    });
                });
            }
            CppStmtKind::Switch(inner) => self.nested(|own| {
                inner.init.iter().for_each(|init| own.stmt(init));
                own.condition(&inner.condition);
                own.repeated(stmt, |own| {
                    for section in &inner.sections {
                        section.stmts.iter().for_each(|stmt| own.stmt(stmt));
                        let mut changed = FxHashSet::default();
                        section.stmts.iter().for_each(|stmt| changed_in(stmt, &mut changed));
                        own.forget_all(&changed);
                    }
                });
            }),
        }
    }

    /// Visits the body of a loop. Before and after it, the variables that it changes are unknown.
    fn repeated(&mut self, stmt: &'a CppStmt, body: impl FnOnce(&mut Self)) {
        let mut changed = FxHashSet::default();
        changed_in(stmt, &mut changed);
        self.forget_all(&changed);
        body(self);
        self.forget_all(&changed);
    }

    /// Forgets the variables that have another value at the end of another branch.
    fn join(&mut self, other: Vec<FxHashMap<SmolStr, HostCodeValue>>) {
        let mut differ = vec![];
        for (at, (own, other)) in self.scopes.iter().zip(&other).enumerate() {
            differ.extend(
                own.iter().filter(|(name, value)| other.get(*name) != Some(value)).map(|(name, _)| (at, name.clone())),
            );
        }
        for (at, name) in differ {
            let new = match self.scopes[at].get(&name) {
                Some(HostCodeValue::Int(_)) => self.new_int(),
                _ => HostCodeValue::Unknown,
            };
            self.scopes[at].insert(name, new);
        }
    }

    fn condition(&mut self, condition: &'a CppCondition) {
        match condition {
            CppCondition::Expr(value) => {
                self.value(value);
            }
            CppCondition::Decl(decl) => self.variables(decl),
        }
    }

    fn variables(&mut self, decl: &'a VariableDecl) {
        for variable in &decl.variables {
            let args: Vec<HostCodeValue> = match &variable.init {
                CppInit::None => vec![],
                CppInit::Equal(value) => vec![self.value(value)],
                CppInit::Paren(values) | CppInit::Brace(values) => {
                    values.iter().map(|value| self.value(value)).collect()
                }
            };
            let name = match &variable.name {
                // A `static` variable has the value of the previous call.
                VariableName::Plain(name) if decl.attributes.is_static && !variable.ty.qualifiers.is_const => {
                    self.define(&name.text, HostCodeValue::Unknown);
                    continue;
                }
                VariableName::Plain(name) => &name.text,
                VariableName::Bindings(names) => {
                    names.iter().for_each(|name| self.define(&name.text, HostCodeValue::Unknown));
                    continue;
                }
                VariableName::Unnamed => continue,
            };
            let value = match &variable.ty.kind {
                CppTypeKind::Reference(_) | CppTypeKind::RvalueReference(_) => {
                    // A store through the reference changes the variable.
                    if let CppInit::Equal(value) = &variable.init {
                        self.escape(value);
                    }
                    HostCodeValue::Unknown
                }
                CppTypeKind::Named(named) if last_name(named) == "dim3" => match (&variable.init, args.first()) {
                    (CppInit::Equal(_), Some(HostCodeValue::Extents(extents))) => {
                        HostCodeValue::Extents(extents.clone())
                    }
                    (CppInit::Equal(_), Some(HostCodeValue::Int(x))) => extents_of(&[HostCodeValue::Int(x.clone())]),
                    (CppInit::Equal(_), _) => HostCodeValue::Unknown,
                    _ if matches!(args.first(), Some(HostCodeValue::Extents(_))) => args[0].clone(),
                    _ => extents_of(&args),
                },
                CppTypeKind::Named(named) if matches!(last_name(named), "vector" | "device_vector") => {
                    let element = named.segments.last().and_then(|last| last.args.as_deref());
                    let size = match element {
                        Some([CppTemplateArg::Type(element), ..]) => (self.size_of)(element),
                        _ => None,
                    };
                    match (args.first(), size, &variable.init) {
                        (Some(HostCodeValue::Int(count)), Some(size), CppInit::Paren(_)) => {
                            self.buffer(count.times(&SizePolynomial::number(i128::from(size))))
                        }
                        _ => HostCodeValue::Unknown,
                    }
                }
                CppTypeKind::Array { length: Some(_), .. } => {
                    let bytes = self.array_bytes(&variable.ty);
                    self.buffer(bytes)
                }
                CppTypeKind::Pointer(_) => args.into_iter().next().unwrap_or(HostCodeValue::Unknown),
                _ if is_integer(&variable.ty) || matches!(variable.ty.kind, CppTypeKind::Auto) => {
                    match args.into_iter().next() {
                        Some(HostCodeValue::Int(value)) => HostCodeValue::Int(self.named(value)),
                        Some(value) if matches!(variable.ty.kind, CppTypeKind::Auto) => value,
                        _ => self.unknown_of(&variable.ty),
                    }
                }
                _ => HostCodeValue::Unknown,
            };
            self.define(name, value);
        }
    }

    /// Returns a symbol for a constant, so that sizes that consist of it and arguments that have it can be compared.
    fn named(&mut self, value: SizePolynomial) -> SizePolynomial {
        let Some(number) = value.as_number().filter(|number| *number > 1) else { return value };
        let symbol = self.new_symbol();
        self.found.values.insert(symbol, number);
        SizePolynomial::symbol(symbol)
    }

    fn buffer(&mut self, bytes: Option<SizePolynomial>) -> HostCodeValue {
        self.buffers += 1;
        HostCodeValue::Buffer { id: self.buffers, bytes }
    }

    fn array_bytes(&mut self, ty: &'a CppType) -> Option<SizePolynomial> {
        match &ty.kind {
            CppTypeKind::Array { element, length: Some(length) } => {
                let HostCodeValue::Int(length) = self.value(length) else { return None };
                self.array_bytes(element)?.times(&length)
            }
            _ => Some(SizePolynomial::number(i128::from((self.size_of)(ty)?))),
        }
    }

    /// Notes that the address of a variable is stored.
    fn escape(&mut self, value: &CppExpr) {
        for name in variables_in(value) {
            self.escaped.insert(name.clone());
            self.forget(name);
        }
    }

    // ---- expressions ----

    fn int(&mut self, value: &'a CppExpr) -> Option<SizePolynomial> {
        match self.value(value) {
            HostCodeValue::Int(value) => Some(value),
            _ => None,
        }
    }

    /// Returns the value of an expression, after its effects.
    fn value(&mut self, expr: &'a CppExpr) -> HostCodeValue {
        if self.is_exhausted() {
            return HostCodeValue::Unknown;
        }
        match &expr.kind {
            CppExprKind::Int(literal) => HostCodeValue::Int(SizePolynomial::number(i128::from(literal.value))),
            CppExprKind::Name(name) => {
                let Some(name) = plain(name) else { return HostCodeValue::Unknown };
                if self.escaped.contains(name) {
                    self.forget(name);
                }
                self.find(name).cloned().unwrap_or(HostCodeValue::Unknown)
            }
            CppExprKind::Unary { op, operand } => self.unary(*op, operand),
            CppExprKind::Binary { op, left, right } => {
                let (left, right) = (self.value(left), self.value(right));
                match (left, right) {
                    (HostCodeValue::Int(left), HostCodeValue::Int(right)) => self.arithmetic(*op, &left, &right),
                    _ => HostCodeValue::Unknown,
                }
            }
            CppExprKind::Comma { left, right } => {
                self.value(left);
                self.value(right)
            }
            CppExprKind::Assign { op, target, value } => {
                let new = self.value(value);
                match variable_in(target).filter(|_| matches!(target.kind, CppExprKind::Name(_))) {
                    Some(name) => {
                        let new = match (op, new, self.find(name).cloned()) {
                            (None, HostCodeValue::Int(new), _) => HostCodeValue::Int(self.named(new)),
                            (None, HostCodeValue::Unknown, Some(HostCodeValue::Int(_))) => self.new_int(),
                            (None, new, _) => new,
                            (Some(op), HostCodeValue::Int(new), Some(HostCodeValue::Int(old))) => {
                                self.arithmetic(*op, &old, &new)
                            }
                            _ => HostCodeValue::Unknown,
                        };
                        self.assign(name, new.clone());
                        new
                    }
                    None => {
                        self.store(target, new);
                        HostCodeValue::Unknown
                    }
                }
            }
            CppExprKind::Conditional { condition, then, otherwise } => {
                self.value(condition);
                let before = self.scopes.clone();
                let first = self.value(then);
                let after = std::mem::replace(&mut self.scopes, before);
                let second = self.value(otherwise);
                self.join(after);
                match (first, second) {
                    (first, second) if first == second => first,
                    (HostCodeValue::Int(_), HostCodeValue::Int(_)) => self.new_int(),
                    _ => HostCodeValue::Unknown,
                }
            }
            CppExprKind::Call { callee, args } => self.call(callee, args),
            CppExprKind::Launch { callee, config, args } => {
                let sizes: Vec<HostCodeValue> = config.iter().map(|value| self.value(value)).collect();
                let args = args.iter().map(|value| self.value(value)).collect();
                if let CppExprKind::Name(kernel) = &callee.kind {
                    let extents = |value: Option<&HostCodeValue>| match value {
                        Some(HostCodeValue::Extents(extents)) => extents.clone(),
                        Some(HostCodeValue::Int(x)) => [Some(x.clone()), Some(one()), Some(one())],
                        _ => [None, None, None],
                    };
                    let (grid, block) = (extents(sizes.first()), extents(sizes.get(1)));
                    self.found.launches.push(HostLaunch { kernel, span: expr.span, grid, block, args });
                }
                HostCodeValue::Unknown
            }
            CppExprKind::Index { base, index } => {
                self.value(base);
                self.value(index);
                HostCodeValue::Unknown
            }
            CppExprKind::Member { base, member, .. } => match (self.value(base), axis_of(member)) {
                (HostCodeValue::Extents(extents), Some(axis)) => {
                    extents[axis].clone().map_or(HostCodeValue::Unknown, HostCodeValue::Int)
                }
                _ => HostCodeValue::Unknown,
            },
            CppExprKind::Cast { ty, value, .. } => self.converted(ty, value),
            CppExprKind::Construct { ty, args, .. } => match (&ty.kind, &args[..]) {
                (CppTypeKind::Named(named), _) if last_name(named) == "dim3" => {
                    let args: Vec<HostCodeValue> = args.iter().map(|value| self.value(value)).collect();
                    extents_of(&args)
                }
                (_, [only]) => self.converted(ty, only),
                _ => {
                    args.iter().for_each(|value| {
                        self.value(value);
                    });
                    HostCodeValue::Unknown
                }
            },
            CppExprKind::InitList(items) => {
                items.iter().for_each(|item| {
                    self.value(&item.value);
                });
                HostCodeValue::Unknown
            }
            CppExprKind::SizeofType(ty) => match (self.size_of)(ty) {
                Some(size) => HostCodeValue::Int(SizePolynomial::number(i128::from(size))),
                None => HostCodeValue::Unknown,
            },
            // A lambda may change each variable that it captures, when it is called.
            CppExprKind::Lambda(_) => {
                let names: Vec<SmolStr> = self.scopes.iter().skip(1).flat_map(|scope| scope.keys().cloned()).collect();
                self.escaped.extend(names);
                self.forget_everything();
                HostCodeValue::Unknown
            }
            CppExprKind::Statements(block) => {
                self.block(block);
                HostCodeValue::Unknown
            }
            CppExprKind::PackExpansion(inner) => {
                self.value(inner);
                HostCodeValue::Unknown
            }
            CppExprKind::Refused(_) => HostCodeValue::Unknown,
            CppExprKind::Float(_)
            | CppExprKind::Char(_)
            | CppExprKind::String(_)
            | CppExprKind::Bool(_)
            | CppExprKind::Nullptr
            | CppExprKind::This
            | CppExprKind::SizeofExpr(_)
            | CppExprKind::AlignofType(_)
            | CppExprKind::SizeofPack(_) => HostCodeValue::Unknown,
        }
    }

    fn unary(&mut self, op: CppUnaryOp, operand: &'a CppExpr) -> HostCodeValue {
        let value = self.value(operand);
        match op {
            CppUnaryOp::Plus => value,
            CppUnaryOp::Minus => match value {
                HostCodeValue::Int(value) => {
                    SizePolynomial::default().minus(&value).map_or(HostCodeValue::Unknown, HostCodeValue::Int)
                }
                _ => HostCodeValue::Unknown,
            },
            CppUnaryOp::AddressOf => {
                // `&v[0]` is the first element of a vector; the address of a variable may be stored.
                if let CppExprKind::Index { base, index } = &operand.kind {
                    let first = matches!(&index.kind, CppExprKind::Int(literal) if literal.value == 0);
                    let base = self.value(base);
                    return if first && matches!(base, HostCodeValue::Buffer { .. }) {
                        base
                    } else {
                        HostCodeValue::Unknown
                    };
                }
                self.escape(operand);
                HostCodeValue::Unknown
            }
            CppUnaryOp::PreIncrement
            | CppUnaryOp::PreDecrement
            | CppUnaryOp::PostIncrement
            | CppUnaryOp::PostDecrement => {
                variables_in(operand).into_iter().for_each(|name| self.forget(name));
                HostCodeValue::Unknown
            }
            CppUnaryOp::Not | CppUnaryOp::BitNot | CppUnaryOp::Deref => HostCodeValue::Unknown,
        }
    }

    fn arithmetic(&mut self, op: CppBinaryOp, left: &SizePolynomial, right: &SizePolynomial) -> HostCodeValue {
        let exact = match op {
            CppBinaryOp::Add => left.plus(right),
            CppBinaryOp::Sub => left.minus(right),
            CppBinaryOp::Mul => left.times(right),
            CppBinaryOp::Shl => self
                .found
                .number(right)
                .and_then(|by| 1i128.checked_shl(u32::try_from(by).ok().filter(|by| *by < 63)?))
                .and_then(|by| left.times(&SizePolynomial::number(by))),
            CppBinaryOp::Div => {
                let (dividend, divisor) = (self.found.number(left), self.found.number(right));
                match (dividend, divisor) {
                    (_, None | Some(..=0)) => None,
                    (Some(dividend), Some(divisor)) => Some(SizePolynomial::number(dividend / divisor)),
                    (None, Some(divisor)) => {
                        // `(n + 255) / 256` with a variable for 256.
                        let left = self.with_numbers(left);
                        let key = (left.clone(), divisor);
                        let symbol = match self.quotients.get(&key) {
                            Some(known) => *known,
                            None => self.new_symbol(),
                        };
                        self.quotients.insert(key, symbol);
                        self.found.quotients.insert(symbol, (left, divisor));
                        Some(SizePolynomial::symbol(symbol))
                    }
                }
            }
            _ => None,
        };
        match exact {
            Some(value) => HostCodeValue::Int(value),
            None => self.new_int(),
        }
    }

    /// Replaces variables with a constant value by it, except in products with other variables.
    fn with_numbers(&self, value: &SizePolynomial) -> SizePolynomial {
        let mut result = value.clone();
        for symbol in value.symbols() {
            if let Some(number) = self.found.values.get(&symbol)
                && let Some(next) = result.substitute(symbol, &SizePolynomial::number(*number))
            {
                result = next;
            }
        }
        result
    }

    fn converted(&mut self, ty: &'a CppType, value: &'a CppExpr) -> HostCodeValue {
        // `(void**)&p` is the argument of `cudaMalloc`, which `call` handles.
        let value = self.value(value);
        match (&ty.kind, &value) {
            (CppTypeKind::Pointer(_), HostCodeValue::Buffer { .. }) => value,
            (_, HostCodeValue::Int(_)) if is_integer(ty) => value,
            _ if is_integer(ty) => self.new_int(),
            _ => HostCodeValue::Unknown,
        }
    }

    fn call(&mut self, callee: &'a CppExpr, args: &'a [CppExpr]) -> HostCodeValue {
        let name = match &callee.kind {
            CppExprKind::Name(name) => last_name(name),
            CppExprKind::Member { base, member, .. } => {
                let object = self.value(base);
                args.iter().for_each(|arg| {
                    self.value(arg);
                });
                return match (last_name(member), object) {
                    ("data" | "begin", object @ HostCodeValue::Buffer { .. }) => object,
                    ("size", HostCodeValue::Buffer { .. } | HostCodeValue::Unknown) => self.new_int(),
                    _ => {
                        // Any other method may change the object.
                        variables_in(base).into_iter().for_each(|name| self.forget(name));
                        args.iter().for_each(|arg| self.forget_argument(arg));
                        HostCodeValue::Unknown
                    }
                };
            }
            _ => "",
        };
        if let (true, [target, bytes, ..]) = (ALLOCATORS.contains(&name), args) {
            let bytes = self.int(bytes);
            let buffer = self.buffer(bytes);
            match address_of(target).and_then(variable_in) {
                Some(variable) => self.assign(variable, buffer),
                None => self.forget_argument(target),
            }
            return HostCodeValue::Unknown;
        }
        match (name, args) {
            ("malloc", [bytes]) => {
                let bytes = self.int(bytes);
                return self.buffer(bytes);
            }
            ("calloc", [count, size]) => {
                let (count, size) = (self.int(count), self.int(size));
                let bytes = count.zip(size).and_then(|(count, size)| count.times(&size));
                return self.buffer(bytes);
            }
            ("raw_pointer_cast", [only]) => return self.value(only),
            ("dim3", _) => {
                let args: Vec<HostCodeValue> = args.iter().map(|value| self.value(value)).collect();
                return extents_of(&args);
            }
            _ => {}
        }
        for arg in args {
            // The address of a variable escapes in `value`, unless the function is known not to keep it.
            if HARMLESS.contains(&name) && address_of(arg).is_some() {
                self.forget_argument(arg);
                continue;
            }
            self.value(arg);
            if !HARMLESS.contains(&name) {
                self.forget_argument(arg);
            }
        }
        self.new_int()
    }

    /// Forgets the variable in an argument that a function may change.
    fn forget_argument(&mut self, arg: &CppExpr) {
        variables_in(address_of(arg).unwrap_or(arg)).into_iter().for_each(|name| self.forget(name));
    }

    /// Stores a value in something that is not a variable.
    fn store(&mut self, target: &'a CppExpr, value: HostCodeValue) {
        if let CppExprKind::Member { base, member, arrow: false } = &target.kind
            && let (Some(name), Some(axis)) = (variable_in(base), axis_of(member))
            && let Some(HostCodeValue::Extents(mut extents)) = self.find(name).cloned()
        {
            extents[axis] = match value {
                HostCodeValue::Int(value) => Some(value),
                _ => None,
            };
            return self.assign(name, HostCodeValue::Extents(extents));
        }
        // An element of an array is not its address.
        let is_element = matches!(target.kind, CppExprKind::Index { .. })
            || matches!(target.kind, CppExprKind::Unary { op: CppUnaryOp::Deref, .. });
        for name in variables_in(target) {
            if !(is_element && matches!(self.find(name), Some(HostCodeValue::Buffer { .. }))) {
                self.forget(name);
            }
        }
    }
}

fn one() -> SizePolynomial {
    SizePolynomial::number(1)
}

/// Returns the `dim3` with these components.
fn extents_of(args: &[HostCodeValue]) -> HostCodeValue {
    let component = |at: usize| match args.get(at) {
        None => Some(one()),
        Some(HostCodeValue::Int(value)) => Some(value.clone()),
        Some(_) => None,
    };
    HostCodeValue::Extents([component(0), component(1), component(2)])
}

fn axis_of(member: &QualifiedName) -> Option<usize> {
    ["x", "y", "z"].iter().position(|axis| *axis == last_name(member))
}

fn last_name(name: &QualifiedName) -> &str {
    name.segments.last().map_or("", |last| last.name.text.as_str())
}

/// Returns a name without a scope.
fn plain(name: &QualifiedName) -> Option<&SmolStr> {
    match &name.segments[..] {
        [only] if !name.global && only.args.is_none() => Some(&only.name.text),
        _ => None,
    }
}

/// Returns the operand of `&`, also inside of casts.
fn address_of(expr: &CppExpr) -> Option<&CppExpr> {
    match &expr.kind {
        CppExprKind::Cast { value, .. } => address_of(value),
        CppExprKind::Unary { op: CppUnaryOp::AddressOf, operand } => Some(operand),
        _ => None,
    }
}

/// Returns the variables of which an expression denotes one, or a part of one.
fn variables_in(expr: &CppExpr) -> Vec<&SmolStr> {
    match &expr.kind {
        CppExprKind::Conditional { then, otherwise, .. } => [variables_in(then), variables_in(otherwise)].concat(),
        CppExprKind::Comma { right, .. } => variables_in(right),
        CppExprKind::Assign { target, .. } => variables_in(target),
        CppExprKind::Cast { value, .. } => variables_in(value),
        CppExprKind::Member { base, .. } | CppExprKind::Index { base, .. } => variables_in(base),
        CppExprKind::Unary { operand, .. } => variables_in(operand),
        CppExprKind::Binary { left, right, .. } => [variables_in(left), variables_in(right)].concat(),
        CppExprKind::InitList(items) => items.iter().flat_map(|item| variables_in(&item.value)).collect(),
        CppExprKind::Construct { args, .. } => args.iter().flat_map(variables_in).collect(),
        _ => variable_in(expr).into_iter().collect(),
    }
}

/// Returns the variable that an expression denotes, or that contains what it denotes.
fn variable_in(expr: &CppExpr) -> Option<&SmolStr> {
    match &expr.kind {
        CppExprKind::Name(name) => plain(name),
        CppExprKind::Cast { value, .. } => variable_in(value),
        CppExprKind::Member { base, .. } | CppExprKind::Index { base, .. } => variable_in(base),
        CppExprKind::Unary { operand, .. } => variable_in(operand),
        _ => None,
    }
}

fn is_false(expr: &CppExpr) -> bool {
    match &expr.kind {
        CppExprKind::Int(literal) => literal.value == 0,
        CppExprKind::Bool(value) => !value,
        _ => false,
    }
}

fn is_integer(ty: &CppType) -> bool {
    use BasicType::*;
    match &ty.kind {
        CppTypeKind::Basic(basic) => {
            matches!(basic, Int | UnsignedInt | Long | UnsignedLong | LongLong | UnsignedLongLong)
        }
        CppTypeKind::Named(name) => {
            matches!(last_name(name), "size_t" | "int32_t" | "uint32_t" | "int64_t" | "uint64_t" | "uint")
        }
        _ => false,
    }
}

/// Adds the variables that a statement may change: those that are assigned, or whose address or value is passed to a
/// function.
fn changed_in(stmt: &CppStmt, changed: &mut FxHashSet<SmolStr>) {
    let mut scan = crate::launches::FunctionScan::default();
    scan.stmt(stmt);
    for value in scan.values {
        let mut add = |expr: &CppExpr| changed.extend(variables_in(expr).into_iter().cloned());
        match &value.kind {
            CppExprKind::Assign { target, .. } => add(target),
            CppExprKind::Unary {
                op:
                    CppUnaryOp::AddressOf
                    | CppUnaryOp::PreIncrement
                    | CppUnaryOp::PreDecrement
                    | CppUnaryOp::PostIncrement
                    | CppUnaryOp::PostDecrement,
                operand,
            } => add(operand),
            CppExprKind::Call { callee, args } => {
                let name = match &callee.kind {
                    CppExprKind::Name(name) => last_name(name),
                    CppExprKind::Member { base, member, .. } => {
                        if !matches!(last_name(member), "data" | "begin" | "size") {
                            add(base);
                        }
                        ""
                    }
                    _ => "",
                };
                for arg in args {
                    if let Some(operand) = address_of(arg) {
                        add(operand);
                    } else if !HARMLESS.contains(&name) {
                        add(arg);
                    }
                }
            }
            _ => {}
        }
    }
}
