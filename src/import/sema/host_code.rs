//! Sizes of launches in host code. Input: the host functions of a file. Output: for each launch, the grid, the block
//! and the arguments, as polynomials in host variables.
//!
//! Host code is not run: each function is visited once, in order. A variable that a branch or a loop assigns, or that a
//! call may change, has a new unknown value afterward. A variable to which a reference is kept is unknown in the whole
//! function. A construct that is not understood, such as a `goto`, makes all launches of its function unknown.

use super::host_calls::{ALLOCATORS, KERNEL_QUERIES, READERS, library_name};
use super::host_declarations::HostDeclarations;
use super::host_escapes::{assigned_by, assigned_in_call, hidden_names, kept_names};
use super::host_launches::{BufferContents, HostLaunch, HostLaunches};
use super::host_values::*;
use super::polynomial::{SizePolynomial, SizeSymbol};
use crate::ast::*;
use crate::launches::FunctionScan;
use rustc_hash::{FxHashMap, FxHashSet};

/// Limit on the number of visited nodes of a file.
const MAX_STEPS: usize = 400_000;

/// Visits the host functions of a file. `size_of` returns the size of a type in bytes.
pub(super) fn launches_of<'a>(
    unit: &'a TranslationUnit,
    size_of: &mut dyn FnMut(&'a CppType) -> Option<u64>,
) -> HostLaunches<'a> {
    let mut scan = HostScan {
        size_of,
        found: HostLaunches::default(),
        scopes: vec![FxHashMap::default()],
        declarations: HostDeclarations::of(unit, &kept_names),
        hidden: FxHashSet::default(),
        template_names: FxHashSet::default(),
        is_nested: false,
        is_unclear: false,
        escaped: FxHashSet::default(),
        symbols: 0,
        buffers: 0,
        steps: 0,
        quotients: FxHashMap::default(),
        sums: FxHashMap::default(),
        contents: FxHashMap::default(),
    };
    scan.found.types = scan.declarations.types.clone();
    scan.decls(&unit.decls, false);
    if scan.steps > MAX_STEPS {
        scan.found.launches.iter_mut().for_each(HostLaunch::forget);
    }
    scan.found
}

pub(super) struct HostScan<'a, 's> {
    size_of: &'s mut dyn FnMut(&'a CppType) -> Option<u64>,
    pub(super) found: HostLaunches<'a>,
    /// The outermost scope has the constants of the file.
    scopes: Vec<FxHashMap<SmolStr, HostVariable>>,
    declarations: HostDeclarations<'a>,
    /// Template parameters and local types of the function, which hide names of the file.
    hidden: FxHashSet<SmolStr>,
    /// The parameters of the function's template.
    template_names: FxHashSet<SmolStr>,
    /// Whether the function is in a record or namespace. Names declared there hide names of the file.
    is_nested: bool,
    /// Whether the function contains a construct that is not understood.
    is_unclear: bool,
    /// Variables to which references are kept, so that any statement may change them.
    escaped: FxHashSet<SmolStr>,
    symbols: u32,
    buffers: u32,
    steps: usize,
    pub(super) quotients: FxHashMap<(SizePolynomial, i128), SizeSymbol>,
    /// Sums of unsigned values that may wrap around: the exact sum, and the constant in it.
    pub(super) sums: FxHashMap<SizeSymbol, (SizePolynomial, i128)>,
    /// The contents of allocations that host code has written.
    contents: FxHashMap<u32, BufferContents>,
}

impl<'a> HostScan<'a, '_> {
    fn decls(&mut self, decls: &'a [CppDecl], is_nested: bool) {
        for decl in decls {
            match &decl.kind {
                CppDeclKind::LinkageBlock(decls) => self.decls(decls, is_nested),
                CppDeclKind::Namespace { decls, .. } => self.decls(decls, true),
                CppDeclKind::Record(record) => {
                    for member in record.members.iter().flatten() {
                        self.decls(std::slice::from_ref(&member.decl), true);
                    }
                }
                CppDeclKind::Variables(decl) => {
                    // Other functions may assign variables of the file.
                    let is_constant =
                        decl.attributes.constexpr || decl.variables.iter().all(|one| one.ty.qualifiers.is_const);
                    if is_constant && !is_nested && !decl.attributes.is_extern {
                        self.variables(decl);
                    }
                }
                CppDeclKind::Function(function) => self.function(function, is_nested || function.scope.is_some()),
                _ => {}
            }
        }
    }

    fn function(&mut self, function: &'a CppFunction, is_nested: bool) {
        let FunctionBody::Block(body) = &function.body else { return };
        if function.attributes.global || (function.attributes.device && !function.attributes.host) {
            return;
        }
        let first = self.found.launches.len();
        let mut code = FunctionScan::default();
        code.block(body);
        self.hidden = hidden_names(function, &code);
        self.template_names = template_names(function);
        let found = kept_names(&self.declarations, function, body);
        (self.escaped, self.is_nested, self.is_unclear) = (found.kept, is_nested, found.is_unclear);
        let constants = if is_nested { std::mem::take(&mut self.scopes) } else { vec![] };
        self.scopes.push(FxHashMap::default());
        for name in self.hidden.clone() {
            self.define(&name, VariableKind::Other, HostCodeValue::Unknown);
        }
        for param in &function.params {
            if let Some(name) = &param.name {
                // Other code may assign the object to which a reference refers.
                if matches!(param.ty.kind, CppTypeKind::Reference(_) | CppTypeKind::RvalueReference(_)) {
                    self.escaped.insert(name.text.clone());
                }
                let kind = self.kind_of(&param.ty);
                let value = match kind {
                    VariableKind::Pointer => self.buffer(None),
                    kind => self.unknown(kind),
                };
                self.define(&name.text, kind, value);
            }
        }
        self.block(body);
        self.scopes.pop();
        if is_nested {
            self.scopes = constants;
        }
        if self.is_unclear {
            self.found.launches[first..].iter_mut().for_each(HostLaunch::forget);
        }
        (self.is_nested, self.is_unclear) = (false, false);
        self.hidden.clear();
        self.escaped.clear();
    }

    fn is_exhausted(&mut self) -> bool {
        self.steps += 1;
        self.steps > MAX_STEPS
    }

    // ---- variables ----

    pub(super) fn new_symbol(&mut self) -> SizeSymbol {
        self.symbols += 1;
        SizeSymbol(self.symbols)
    }

    pub(super) fn new_int(&mut self, ty: HostInt) -> HostCodeValue {
        let symbol = self.new_symbol();
        if ty.is_signed {
            self.found.signed.insert(symbol);
        }
        HostCodeValue::Int(SizePolynomial::symbol(symbol), ty)
    }

    fn int_of(&self, ty: &CppType) -> Option<HostInt> {
        // In a namespace or record, a name may mean another type than the one of the file.
        let is_clear =
            !self.is_nested || !matches!(ty.kind, CppTypeKind::Named(_)) || !self.declarations.types.defines(ty);
        self.declarations.types.int_of(ty, &self.hidden).filter(|_| is_clear)
    }

    /// Returns a value about which nothing but its type is known.
    fn unknown(&mut self, kind: VariableKind) -> HostCodeValue {
        match kind {
            VariableKind::Int(ty) => self.new_int(ty),
            _ => HostCodeValue::Unknown,
        }
    }

    fn kind_of(&self, ty: &CppType) -> VariableKind {
        if let Some(ty) = self.int_of(ty) {
            return VariableKind::Int(ty);
        }
        match &ty.kind {
            CppTypeKind::Basic(BasicType::Float | BasicType::Double) => VariableKind::Float,
            CppTypeKind::Named(name) if !self.declarations.types.defines(ty) => {
                match library_name(name, &self.hidden, &self.declarations) {
                    Some("dim3") => VariableKind::Dim3,
                    Some("vector" | "device_vector" | "host_vector") => VariableKind::Vector,
                    _ => VariableKind::Other,
                }
            }
            CppTypeKind::Pointer(_) | CppTypeKind::Array { .. } => VariableKind::Pointer,
            _ => VariableKind::Other,
        }
    }

    fn define(&mut self, name: &SmolStr, kind: VariableKind, value: HostCodeValue) {
        self.name_value(name, &value);
        if let Some(scope) = self.scopes.last_mut() {
            scope.insert(name.clone(), HostVariable { kind, value });
        }
    }

    fn find(&self, name: &str) -> Option<&HostVariable> {
        self.scopes.iter().rev().find_map(|scope| scope.get(name))
    }

    /// Notes the name of a variable with an unknown value.
    fn name_value(&mut self, name: &str, value: &HostCodeValue) {
        if let HostCodeValue::Int(value, _) = value
            && let Some(symbol) = value.as_symbol()
            && !self.found.values.contains_key(&symbol)
            && !self.found.quotients.contains_key(&symbol)
        {
            self.found.names.entry(symbol).or_insert_with(|| name.into());
        }
    }

    fn assign(&mut self, name: &str, value: HostCodeValue) {
        let Some(kind) = self.find(name).map(|known| known.kind) else { return };
        let value = self.stored(kind, value);
        self.name_value(name, &value);
        if let Some(known) = self.scopes.iter_mut().rev().find_map(|scope| scope.get_mut(name)) {
            known.value = value;
        }
    }

    /// Returns the value of a variable after a store.
    fn stored(&mut self, kind: VariableKind, value: HostCodeValue) -> HostCodeValue {
        match (kind, value) {
            (VariableKind::Int(to), HostCodeValue::Int(value, from)) => match self.found.converted(&value, from, to) {
                Some(value) => HostCodeValue::Int(self.named(value), to),
                None => self.new_int(to),
            },
            (VariableKind::Float, value @ HostCodeValue::Float(_)) => value,
            (VariableKind::Dim3, value @ HostCodeValue::Extents(_)) => value,
            (VariableKind::Dim3, value @ HostCodeValue::Int(..)) => self.extents_of(&[value]),
            (VariableKind::Pointer, value @ HostCodeValue::Buffer { .. }) => value,
            // A vector is copied.
            (VariableKind::Vector, HostCodeValue::Vector { bytes, .. }) => self.vector(bytes),
            (kind, _) => self.unknown(kind),
        }
    }

    /// Gives a variable a new unknown value.
    fn forget(&mut self, name: &str) {
        self.assign(name, HostCodeValue::Unknown);
    }

    fn forget_all(&mut self, names: &FxHashSet<SmolStr>) {
        names.iter().for_each(|name| self.forget(name));
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
            // Labels make the function unclear. Variables of a refused statement are unknown.
            CppStmtKind::Label(_) | CppStmtKind::Goto(_) | CppStmtKind::Refused(_) => {}
            CppStmtKind::Switch(inner) => self.nested(|own| own.switch(stmt, inner)),
            CppStmtKind::RangeFor { variable, range, body } => self.nested(|own| {
                own.value(range);
                own.repeated(stmt, |own| {
                    own.variables(variable);
                    own.nested(|own| own.stmt(body));
                });
            }),
            CppStmtKind::Expr(value) | CppStmtKind::Return(Some(value)) => {
                self.value(value);
            }
            CppStmtKind::Decl(decl) => match &decl.kind {
                CppDeclKind::Variables(decl) => self.variables(decl),
                // The names are hidden in the whole function.
                CppDeclKind::Alias(_) | CppDeclKind::Record(_) => {}
                CppDeclKind::UsingNamespace(_) | CppDeclKind::StaticAssert { .. } => {}
                CppDeclKind::UsingName(name) => {
                    if let Some(last) = name.segments.last() {
                        self.define(&last.name.text, VariableKind::Other, HostCodeValue::Unknown);
                    }
                }
                CppDeclKind::Enum(own) => self.enumerators(own),
                _ => self.is_unclear = true,
            },
            CppStmtKind::Block(block) => self.block(block),
            CppStmtKind::If(inner) => self.nested(|own| {
                inner.init.iter().for_each(|init| own.stmt(init));
                own.condition(&inner.condition);
                let before = own.copied_scopes();
                own.nested(|own| own.stmt(&inner.then));
                let after_then = std::mem::replace(&mut own.scopes, before);
                if let Some(otherwise) = &inner.otherwise {
                    own.nested(|own| own.stmt(otherwise));
                }
                own.join(&after_then);
            }),
            CppStmtKind::While { condition, body, .. } => self.repeated(stmt, |own| {
                own.condition(condition);
                own.nested(|own| own.stmt(body));
            }),
            CppStmtKind::DoWhile { body, condition, .. } => {
                if is_false(condition) && !has_jump(body) {
                    return self.nested(|own| own.stmt(body));
                }
                self.repeated(stmt, |own| {
                    own.nested(|own| own.stmt(body));
                    own.value(condition);
                });
            }
            CppStmtKind::For(inner) => self.nested(|own| {
                own.stmt(&inner.init);
                own.repeated(stmt, |own| {
                    inner.condition.iter().for_each(|condition| own.condition(condition));
                    own.nested(|own| own.stmt(&inner.body));
                    inner.step.iter().for_each(|step| {
                        own.value(step);
                    });
                });
            }),
        }
    }

    fn enumerators(&mut self, own: &CppEnum) {
        for one in own.enumerators.iter().flatten() {
            self.define(&one.name.text, VariableKind::Other, HostCodeValue::Unknown);
        }
    }

    /// Visits the sections of a `switch`, each of which may be the first.
    fn switch(&mut self, stmt: &'a CppStmt, inner: &'a CppSwitch) {
        inner.init.iter().for_each(|init| self.stmt(init));
        self.condition(&inner.condition);
        let changed = self.changed(|scan| scan.stmt(stmt));
        self.nested(|own| {
            inner.prologue.iter().for_each(|stmt| own.stmt(stmt));
            for section in &inner.sections {
                own.forget_all(&changed);
                section.stmts.iter().for_each(|stmt| own.stmt(stmt));
            }
        });
        self.forget_all(&changed);
    }

    /// Returns the variables that code may assign. `list` adds the code to a scan.
    fn changed(&mut self, list: impl FnOnce(&mut FunctionScan<'a>)) -> FxHashSet<SmolStr> {
        let mut scan = FunctionScan::default();
        list(&mut scan);
        self.steps += scan.values.len();
        assigned_by(&scan.values, &self.hidden, &self.declarations)
    }

    /// Visits the body of a loop. Before and after it, the variables that it changes are unknown.
    fn repeated(&mut self, stmt: &'a CppStmt, body: impl FnOnce(&mut Self)) {
        let changed = self.changed(|scan| scan.stmt(stmt));
        self.forget_all(&changed);
        body(self);
        self.forget_all(&changed);
    }

    fn copied_scopes(&mut self) -> Vec<FxHashMap<SmolStr, HostVariable>> {
        self.steps += self.scopes.iter().map(FxHashMap::len).sum::<usize>() / 4;
        self.scopes.clone()
    }

    /// Forgets the variables that have another value at the end of another branch.
    fn join(&mut self, other: &[FxHashMap<SmolStr, HostVariable>]) {
        let mut differ = vec![];
        for (at, (own, other)) in self.scopes.iter().zip(other).enumerate() {
            let differs = |(name, value): &(&SmolStr, &HostVariable)| other.get(*name) != Some(value);
            differ.extend(own.iter().filter(differs).map(|(name, value)| (at, name.clone(), value.kind)));
        }
        for (at, name, kind) in differ {
            let value = self.unknown(kind);
            self.scopes[at].insert(name, HostVariable { kind, value });
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
                VariableName::Plain(name) => &name.text,
                VariableName::Bindings(names) => {
                    for name in names {
                        self.define(&name.text, VariableKind::Other, HostCodeValue::Unknown);
                    }
                    continue;
                }
                VariableName::Unnamed => continue,
            };
            if let CppTypeKind::Enum(own) = &variable.ty.kind {
                self.enumerators(own);
            }
            let is_const = variable.ty.qualifiers.is_const || decl.attributes.constexpr;
            if (decl.attributes.is_static && !is_const) || decl.attributes.is_extern || variable.ty.qualifiers.volatile
            {
                // Other calls and functions may change it.
                self.escaped.insert(name.clone());
            }
            let kind = match (&variable.ty.kind, args.first()) {
                (CppTypeKind::Auto, Some(value)) => match value {
                    HostCodeValue::Int(_, ty) => VariableKind::Int(*ty),
                    HostCodeValue::Float(_) => VariableKind::Float,
                    HostCodeValue::Buffer { .. } => VariableKind::Pointer,
                    HostCodeValue::Vector { .. } => VariableKind::Vector,
                    HostCodeValue::Extents(_) => VariableKind::Dim3,
                    HostCodeValue::Unknown => VariableKind::Other,
                },
                _ => self.kind_of(&variable.ty),
            };
            let value = match (kind, &variable.ty.kind) {
                _ if decl.attributes.is_extern => self.unknown(kind),
                (VariableKind::Dim3, CppTypeKind::Named(_)) => match (&variable.init, args.first()) {
                    (CppInit::Equal(_), _) => {
                        let value = args.into_iter().next().unwrap_or(HostCodeValue::Unknown);
                        self.stored(kind, value)
                    }
                    (_, Some(HostCodeValue::Extents(_))) if args.len() == 1 => args[0].clone(),
                    // A function may return a `dim3`.
                    (_, Some(HostCodeValue::Unknown)) if args.len() == 1 => HostCodeValue::Unknown,
                    _ => self.extents_of(&args),
                },
                (VariableKind::Vector, CppTypeKind::Named(named)) => {
                    let element = named.segments.last().and_then(|last| last.args.as_deref());
                    let size = match element {
                        Some([CppTemplateArg::Type(element), ..]) => self.size(element),
                        _ => None,
                    };
                    match (args.first(), size, &variable.init) {
                        (Some(HostCodeValue::Int(count, from)), Some(size), CppInit::Paren(_)) => {
                            let count = self.found.converted(count, *from, HostInt::SIZE);
                            let bytes = count.and_then(|count| count.times(&SizePolynomial::number(size)));
                            self.vector(bytes)
                        }
                        (Some(value @ HostCodeValue::Vector { .. }), _, _) if args.len() == 1 => {
                            self.stored(kind, value.clone())
                        }
                        _ => HostCodeValue::Unknown,
                    }
                }
                (_, CppTypeKind::Array { length: Some(_), .. }) => {
                    let bytes = self.array_bytes(&variable.ty);
                    self.buffer(bytes)
                }
                _ => {
                    let value = args.into_iter().next().unwrap_or(HostCodeValue::Unknown);
                    self.stored(kind, value)
                }
            };
            self.define(name, kind, value);
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

    fn vector(&mut self, bytes: Option<SizePolynomial>) -> HostCodeValue {
        self.buffers += 1;
        HostCodeValue::Vector { id: self.buffers, bytes }
    }

    /// Returns the size of a type that is not known.
    fn type_size(&mut self, ty: &CppType) -> HostCodeValue {
        let symbol = self.new_symbol();
        if matches!(&ty.kind, CppTypeKind::Named(name) if self.template_names.contains(last_name(name))) {
            self.found.type_sizes.insert(symbol);
        }
        HostCodeValue::Int(SizePolynomial::symbol(symbol), HostInt::SIZE)
    }

    /// Returns the size of a type, unless a name in it may have another meaning in this function.
    fn size(&mut self, ty: &'a CppType) -> Option<i128> {
        let is_clear = match &ty.kind {
            CppTypeKind::Basic(_) | CppTypeKind::Pointer(_) => true,
            CppTypeKind::Named(name) => {
                self.int_of(ty).is_some() || (!self.is_nested && !self.hidden.contains(last_name(name)))
            }
            _ => false,
        };
        if is_clear { (self.size_of)(ty).map(i128::from) } else { None }
    }

    fn array_bytes(&mut self, ty: &'a CppType) -> Option<SizePolynomial> {
        match &ty.kind {
            CppTypeKind::Array { element, length: Some(length) } => {
                let HostCodeValue::Int(length, _) = self.value(length) else { return None };
                self.array_bytes(element)?.times(&length)
            }
            _ => Some(SizePolynomial::number(self.size(ty)?)),
        }
    }

    // ---- expressions ----

    /// Returns a number of bytes.
    fn bytes(&mut self, value: &'a CppExpr) -> Option<SizePolynomial> {
        match self.value(value) {
            HostCodeValue::Int(value, from) => self.found.converted(&value, from, HostInt::SIZE),
            _ => None,
        }
    }

    fn values(&mut self, values: &'a [CppExpr]) -> Vec<HostCodeValue> {
        self.open_order(values.iter());
        values.iter().map(|value| self.value(value)).collect()
    }

    /// Forgets variables whose values depend on the order in which operands are evaluated: C++ leaves it open.
    fn open_order(&mut self, values: impl Iterator<Item = &'a CppExpr> + Clone) {
        for (at, value) in values.clone().enumerate() {
            let changed = self.changed(|scan| scan.value(value));
            if changed.is_empty() {
                continue;
            }
            for (_, other) in values.clone().enumerate().filter(|(other, _)| *other != at) {
                let mut scan = FunctionScan::default();
                scan.value(other);
                self.escaped.extend(scan.values.iter().filter_map(|value| match &value.kind {
                    CppExprKind::Name(name) => plain(name).filter(|name| changed.contains(*name)).cloned(),
                    _ => None,
                }));
            }
        }
    }

    /// Returns the value of an operand that is not always evaluated.
    fn conditional_value(&mut self, value: &'a CppExpr) -> HostCodeValue {
        let changed = self.changed(|scan| scan.value(value));
        let result = self.value(value);
        self.forget_all(&changed);
        result
    }

    /// Returns the name of a function of a library; an empty one if it may be another function.
    fn known_function<'n>(&self, name: &'n QualifiedName) -> &'n str {
        let own = last_name(name);
        let is_variable = self.find(own).is_some();
        library_name(name, &self.hidden, &self.declarations).filter(|_| !is_variable).unwrap_or("")
    }

    /// Returns the value of an expression, after its effects.
    fn value(&mut self, expr: &'a CppExpr) -> HostCodeValue {
        if self.is_exhausted() {
            return HostCodeValue::Unknown;
        }
        match &expr.kind {
            CppExprKind::Int(literal) => {
                let number = SizePolynomial::number(i128::from(literal.value));
                HostCodeValue::Int(number, HostInt::of_literal(literal))
            }
            CppExprKind::Name(name) => {
                let Some(name) = plain(name) else { return HostCodeValue::Unknown };
                if self.escaped.contains(name) {
                    self.forget(name);
                }
                self.find(name).map_or(HostCodeValue::Unknown, |known| known.value.clone())
            }
            CppExprKind::Unary { op, operand } => self.unary(*op, operand),
            CppExprKind::Binary { op, left, right } => self.binary(*op, left, right),
            CppExprKind::Comma { left, right } => {
                self.value(left);
                self.value(right)
            }
            CppExprKind::Assign { op, target, value } => {
                self.open_order([&**target, &**value].into_iter().filter(|_| op.is_some()));
                let new = self.value(value);
                if let CppExprKind::Name(name) = &target.kind {
                    let Some(name) = plain(name) else { return HostCodeValue::Unknown };
                    let new = match (op, self.find(name).map(|known| known.value.clone())) {
                        (None, _) => new,
                        (Some(op), Some(old)) => self.arithmetic(*op, old, new),
                        (Some(_), None) => HostCodeValue::Unknown,
                    };
                    self.assign(name, new);
                    return self.find(name).map_or(HostCodeValue::Unknown, |known| known.value.clone());
                }
                self.store(target, if op.is_some() { HostCodeValue::Unknown } else { new });
                HostCodeValue::Unknown
            }
            CppExprKind::Conditional { condition, then, otherwise } => {
                self.value(condition);
                match (self.conditional_value(then), self.conditional_value(otherwise)) {
                    (first, second) if first == second => first,
                    (HostCodeValue::Int(_, first), HostCodeValue::Int(_, second)) => self.new_int(first.common(second)),
                    _ => HostCodeValue::Unknown,
                }
            }
            CppExprKind::Call { callee, args } => self.call(callee, args),
            CppExprKind::Launch { callee, config, args } => {
                self.open_order(config.iter().chain(args));
                let sizes = self.values(config);
                let roots = args.iter().map(pointer_root).collect();
                let args = self.values(args);
                if let CppExprKind::Name(kernel) = &callee.kind {
                    let is_integer =
                        [0, 1].map(|at| config.get(at).zip(sizes.get(at)).is_some_and(|(e, v)| self.is_integer(e, v)));
                    let extents = |at: usize| match sizes.get(at) {
                        Some(HostCodeValue::Extents(extents)) => extents.clone(),
                        Some(value @ HostCodeValue::Int(..)) => [self.extent(value), Some(one()), Some(one())],
                        _ if is_integer[at] => [None, Some(one()), Some(one())],
                        _ => [None, None, None],
                    };
                    let shared = match (config.len(), sizes.get(2)) {
                        (2, _) => Some(SizePolynomial::default()),
                        (_, Some(HostCodeValue::Int(bytes, from))) => self.found.converted(bytes, *from, HostInt::SIZE),
                        _ => None,
                    };
                    let (grid, block) = (extents(0), extents(1));
                    let span = expr.span;
                    let contents = args.iter().map(|arg| self.contents_of(arg)).collect();
                    let launch = HostLaunch { kernel, span, grid, block, shared, args, roots, contents, is_integer };
                    self.found.launches.push(launch);
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
                    let ty = HostInt { bits: 32, is_signed: false };
                    extents[axis].clone().map_or(HostCodeValue::Unknown, |extent| {
                        // A negative extent, which no launch has, would be a large number here.
                        self.found.note_natural(&extent);
                        HostCodeValue::Int(extent, ty)
                    })
                }
                _ => HostCodeValue::Unknown,
            },
            CppExprKind::Cast { ty, value, .. } => self.cast(ty, value),
            CppExprKind::Construct { ty, args, .. } => match (&ty.kind, &args[..]) {
                (CppTypeKind::Named(named), _) if last_name(named) == "dim3" => self.dim3(args),
                (_, [only]) => self.cast(ty, only),
                _ => {
                    self.values(args);
                    HostCodeValue::Unknown
                }
            },
            CppExprKind::InitList(items) => {
                items.iter().for_each(|item| {
                    self.value(&item.value);
                });
                HostCodeValue::Unknown
            }
            CppExprKind::SizeofType(ty) => match self.size(ty) {
                Some(size) => HostCodeValue::Int(SizePolynomial::number(size), HostInt::SIZE),
                None => self.type_size(ty),
            },
            // Variables in these are unknown in the whole function.
            CppExprKind::Refused(_) | CppExprKind::Lambda(_) | CppExprKind::Statements(_) => HostCodeValue::Unknown,
            CppExprKind::PackExpansion(_) => {
                self.is_unclear = true;
                HostCodeValue::Unknown
            }
            CppExprKind::SizeofExpr(_) | CppExprKind::AlignofType(_) | CppExprKind::SizeofPack(_) => {
                self.new_int(HostInt::SIZE)
            }
            CppExprKind::Float(literal) => HostCodeValue::Float(match literal.ty {
                BasicType::Float => f64::from(literal.single),
                _ => literal.double,
            }),
            CppExprKind::Char(_)
            | CppExprKind::String(_)
            | CppExprKind::Bool(_)
            | CppExprKind::Nullptr
            | CppExprKind::This => HostCodeValue::Unknown,
        }
    }

    /// Returns whether an expression has an arithmetic type, and not the type `dim3`.
    fn is_integer(&self, expr: &CppExpr, value: &HostCodeValue) -> bool {
        match (value, &expr.kind) {
            (HostCodeValue::Int(..), _) => true,
            (_, CppExprKind::Binary { .. }) => !self.declarations.has_dim3_operators,
            (_, CppExprKind::Cast { ty, .. }) => self.int_of(ty).is_some(),
            (_, CppExprKind::Call { callee, .. }) => match &callee.kind {
                CppExprKind::Name(name) => {
                    matches!(self.known_function(name), "min" | "max" | "ceil" | "floor" | "abs" | "atoi")
                }
                _ => false,
            },
            _ => false,
        }
    }

    fn dim3(&mut self, args: &'a [CppExpr]) -> HostCodeValue {
        let values = self.values(args);
        match &values[..] {
            [value @ HostCodeValue::Extents(_)] => value.clone(),
            [HostCodeValue::Unknown] if !self.is_integer(&args[0], &values[0]) => HostCodeValue::Unknown,
            _ => self.extents_of(&values),
        }
    }

    /// Returns the component of a `dim3` that is made from a value. A negative number makes the launch fail.
    fn extent(&self, value: &HostCodeValue) -> Option<SizePolynomial> {
        let HostCodeValue::Int(value, from) = value else { return None };
        let is_kept = match self.found.number(value) {
            Some(number) => (0..1 << 32).contains(&number),
            None => from.bits == 32,
        };
        is_kept.then(|| value.clone())
    }

    /// Returns the `dim3` with these components.
    fn extents_of(&self, args: &[HostCodeValue]) -> HostCodeValue {
        let component = |at: usize| args.get(at).map_or_else(|| Some(one()), |value| self.extent(value));
        HostCodeValue::Extents([component(0), component(1), component(2)])
    }

    fn unary(&mut self, op: CppUnaryOp, operand: &'a CppExpr) -> HostCodeValue {
        if op == CppUnaryOp::AddressOf {
            // `&v[0]` is the first element of a vector; the address of a variable may be stored.
            if let CppExprKind::Index { base, index } = &operand.kind {
                let is_first = matches!(&index.kind, CppExprKind::Int(literal) if literal.value == 0);
                self.value(index);
                return match self.value(base) {
                    HostCodeValue::Buffer { id, bytes } | HostCodeValue::Vector { id, bytes } => {
                        HostCodeValue::Buffer { id, bytes: bytes.filter(|_| is_first) }
                    }
                    _ => HostCodeValue::Unknown,
                };
            }
            self.value(operand);
            return HostCodeValue::Unknown;
        }
        let value = self.value(operand);
        match op {
            CppUnaryOp::Plus => value,
            CppUnaryOp::Minus => match value {
                HostCodeValue::Int(value, ty) => {
                    let zero = HostCodeValue::Int(SizePolynomial::default(), ty);
                    self.arithmetic(CppBinaryOp::Sub, zero, HostCodeValue::Int(value, ty))
                }
                HostCodeValue::Float(value) => HostCodeValue::Float(-value),
                _ => HostCodeValue::Unknown,
            },
            CppUnaryOp::PreIncrement
            | CppUnaryOp::PreDecrement
            | CppUnaryOp::PostIncrement
            | CppUnaryOp::PostDecrement => {
                match &operand.kind {
                    CppExprKind::Name(name) => plain(name).into_iter().for_each(|name| self.forget(name)),
                    _ => self.store(operand, HostCodeValue::Unknown),
                }
                HostCodeValue::Unknown
            }
            _ => HostCodeValue::Unknown,
        }
    }

    fn binary(&mut self, op: CppBinaryOp, left: &'a CppExpr, right: &'a CppExpr) -> HostCodeValue {
        if matches!(op, CppBinaryOp::And | CppBinaryOp::Or) {
            let (left, right) = (self.value(left), self.conditional_value(right));
            return self.arithmetic(op, left, right);
        }
        // `std::cin >> n` changes `n`.
        if matches!(op, CppBinaryOp::Shl | CppBinaryOp::Shr) {
            let mut stream = left;
            while let CppExprKind::Binary { op: CppBinaryOp::Shl, left, .. } = &stream.kind {
                stream = left;
            }
            let is_output = matches!(&stream.kind, CppExprKind::Name(name)
                if matches!(last_name(name), "cout" | "cerr" | "clog"));
            let (left, right) = (self.value(left), self.value(right));
            if let (HostCodeValue::Int(..), HostCodeValue::Int(..)) = (&left, &right) {
                return self.arithmetic(op, left, right);
            }
            self.is_unclear |= !(is_output && op == CppBinaryOp::Shl);
            return HostCodeValue::Unknown;
        }
        self.open_order([left, right].into_iter());
        let (left, right) = (self.value(left), self.value(right));
        self.arithmetic(op, left, right)
    }

    fn cast(&mut self, ty: &'a CppType, value: &'a CppExpr) -> HostCodeValue {
        // `(void**)&p` is the argument of `cudaMalloc`, which `call` handles.
        let value = self.value(value);
        match (self.kind_of(ty), value) {
            (VariableKind::Int(to), HostCodeValue::Int(value, from)) => match self.found.converted(&value, from, to) {
                Some(value) => HostCodeValue::Int(value, to),
                None => self.new_int(to),
            },
            (VariableKind::Int(to), _) => self.new_int(to),
            (VariableKind::Pointer, value @ HostCodeValue::Buffer { .. }) => value,
            (VariableKind::Float, value @ HostCodeValue::Float(_)) => value,
            _ => HostCodeValue::Unknown,
        }
    }

    fn call(&mut self, callee: &'a CppExpr, args: &'a [CppExpr]) -> HostCodeValue {
        let called = match &callee.kind {
            CppExprKind::Name(name) => name,
            CppExprKind::Member { base, member, .. } => {
                let object = self.value(base);
                self.values(args);
                self.forget_assigned(callee, args);
                return match (last_name(member), object) {
                    ("data" | "begin", HostCodeValue::Vector { id, bytes }) => HostCodeValue::Buffer { id, bytes },
                    ("get", object @ HostCodeValue::Buffer { .. }) => object,
                    ("size", _) => self.new_int(HostInt::SIZE),
                    _ => HostCodeValue::Unknown,
                };
            }
            // A pointer to a function.
            _ => {
                self.value(callee);
                self.values(args);
                self.forget_assigned(callee, args);
                return HostCodeValue::Unknown;
            }
        };
        let name = self.known_function(called);
        if let (true, [target, bytes, ..]) = (ALLOCATORS.contains(&name), args) {
            self.open_order(args.iter());
            let bytes = self.bytes(bytes);
            let buffer = self.buffer(bytes);
            self.forget_assigned(callee, args);
            if let Some(CppExprKind::Name(variable)) = address_of(target).map(|target| &target.kind)
                && let Some(variable) = plain(variable)
            {
                self.assign(variable, buffer);
            }
            return HostCodeValue::Unknown;
        }
        match (name, args) {
            ("malloc", [bytes]) => {
                let bytes = self.bytes(bytes);
                return self.buffer(bytes);
            }
            ("calloc", [count, size]) => {
                self.open_order(args.iter());
                let (count, size) = (self.bytes(count), self.bytes(size));
                let bytes = count.zip(size).and_then(|(count, size)| count.times(&size));
                return self.buffer(bytes);
            }
            ("cudaMemset" | "cudaMemsetAsync" | "memset", [target, byte, bytes, ..])
                if address_of(target).is_none() =>
            {
                let (target, byte, bytes) = (self.value(target), self.value(byte), self.bytes(bytes));
                let is_whole = |known: &Option<SizePolynomial>| known.is_some() && *known == bytes;
                let byte = match (&target, byte) {
                    (HostCodeValue::Buffer { bytes, .. }, HostCodeValue::Int(byte, _)) if is_whole(bytes) => {
                        self.found.number(&byte).map(|byte| byte.to_le_bytes()[0])
                    }
                    _ => None,
                };
                self.write_contents(&target, byte);
                args.iter().skip(3).for_each(|arg| drop(self.value(arg)));
                return HostCodeValue::Unknown;
            }
            ("cudaMemcpyToSymbol" | "cudaMemcpyToSymbolAsync", [target, ..]) => {
                let target = address_of(target).unwrap_or(target);
                if let CppExprKind::Name(name) = &target.kind {
                    self.found.set_variables.push(last_name(name).into());
                }
            }
            ("raw_pointer_cast", [only]) => return self.value(only),
            ("dim3", _) => return self.dim3(args),
            // With `NDEBUG`, the operand is not evaluated.
            ("assert", [only]) => return self.conditional_value(only),
            _ => {}
        }
        if KERNEL_QUERIES.contains(&name) {
            for arg in args {
                let mut arg = address_of(arg).unwrap_or(arg);
                while let CppExprKind::Cast { value, .. } = &arg.kind {
                    arg = value;
                }
                if let CppExprKind::Name(name) = &arg.kind {
                    self.found.mentions.extend(name.segments.last().map(|last| &last.name));
                }
            }
        }
        let values = self.values(args);
        let is_copy = name.starts_with("cudaMemcpy") || name == "memcpy";
        for (at, value) in values.iter().enumerate() {
            if !(READERS.contains(&name) || (is_copy && at > 0)) {
                self.write_contents(value, None);
            }
        }
        self.forget_assigned(callee, args);
        match self.declarations.functions.get(last_name(called)).and_then(|function| function.result) {
            Some(ty) if !self.hidden.contains(last_name(called)) => self.new_int(ty),
            _ => HostCodeValue::Unknown,
        }
    }

    /// Forgets the variables that a call may assign.
    fn forget_assigned(&mut self, callee: &'a CppExpr, args: &'a [CppExpr]) {
        let changed = assigned_in_call(callee, args, &self.hidden, &self.declarations);
        self.forget_all(&changed);
    }

    /// Returns the contents of the array that a value points to.
    fn contents_of(&self, value: &HostCodeValue) -> BufferContents {
        match value {
            HostCodeValue::Buffer { id, .. } | HostCodeValue::Vector { id, .. } => {
                self.contents.get(id).copied().unwrap_or_default()
            }
            _ => BufferContents::default(),
        }
    }

    /// Notes that host code writes an array: all of its bytes with this value, or anything.
    fn write_contents(&mut self, target: &HostCodeValue, byte: Option<u8>) {
        if let HostCodeValue::Buffer { id, .. } | HostCodeValue::Vector { id, .. } = target {
            let known = self.contents.entry(*id).or_default();
            *known = BufferContents { version: known.version + 1, byte };
        }
    }

    /// Stores a value in something that is not a variable.
    fn store(&mut self, target: &'a CppExpr, value: HostCodeValue) {
        match &target.kind {
            // An element of an array is not its address. Variables whose address is stored are unknown anyway.
            CppExprKind::Index { base, index } => {
                self.value(index);
                match &base.kind {
                    CppExprKind::Index { .. } => self.store(base, HostCodeValue::Unknown),
                    _ => {
                        let base = self.value(base);
                        self.write_contents(&base, None);
                    }
                }
            }
            CppExprKind::Unary { op: CppUnaryOp::Deref, operand } => {
                let pointer = self.value(operand);
                self.write_contents(&pointer, None);
            }
            CppExprKind::Member { base, member, arrow } => {
                let variable = match &base.kind {
                    CppExprKind::Name(name) => plain(name),
                    _ => None,
                };
                let (Some(name), false) = (variable, *arrow) else {
                    self.value(base);
                    return;
                };
                let known = self.find(name).map(|known| known.value.clone());
                match (known, axis_of(member)) {
                    (Some(HostCodeValue::Extents(mut extents)), Some(axis)) => {
                        extents[axis] = self.extent(&value);
                        self.assign(name, HostCodeValue::Extents(extents));
                    }
                    _ => self.forget(name),
                }
            }
            _ => self.is_unclear = true,
        }
    }
}
