//! Finds kernel launches and device allocations in host functions, as hints about geometry, array lengths and aliasing.
//!
//! Host code is never executed. A result only says what the text states: `cudaMalloc(&x, n * sizeof(float))` gives the
//! pointer `x` and the number of elements `n`, in the names of the host function.

use crate::ast::*;
use crate::source::SourceSpan;

/// A launch, `kernel<<<grid, block, shared_bytes, stream>>>(args)`.
#[derive(Clone, Debug)]
pub(crate) struct HostLaunch<'a> {
    /// The host function that contains it.
    pub function: &'a CppFunction,
    /// The kernel, with its explicit template arguments.
    pub kernel: &'a QualifiedName,
    /// One to four expressions.
    pub config: &'a [CppExpr],
    pub args: &'a [CppExpr],
    pub span: SourceSpan,
}

/// The memory of a pointer of a host function.
#[derive(Clone, Debug)]
pub(crate) struct HostAllocation<'a> {
    /// The host function that contains it; `None` for a variable outside of functions.
    pub function: Option<&'a CppFunction>,
    /// The variable that points to the memory, or that is the array.
    pub pointer: &'a SmolStr,
    pub memory: HostMemory,
    /// The type in `sizeof(T)`, or of the elements of an array; `None` if the size does not tell.
    pub element: Option<&'a CppType>,
    /// The number of elements is the product of these expressions; of bytes, if `element` is `None`.
    pub factors: Vec<&'a CppExpr>,
    pub span: SourceSpan,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HostMemory {
    /// `cudaMalloc` and its variants.
    Device,
    /// `cudaMallocManaged`, which both sides use.
    Managed,
    /// `malloc` and `cudaMallocHost`.
    Host,
    /// An array variable.
    Array,
}

/// The launches and allocations of a file, in the order of the text.
#[derive(Clone, Debug, Default)]
pub(crate) struct HostUses<'a> {
    pub launches: Vec<HostLaunch<'a>>,
    pub allocations: Vec<HostAllocation<'a>>,
}

/// Finds all launches and allocations in the functions of a file that parse.
pub(crate) fn find_host_uses(unit: &TranslationUnit) -> HostUses<'_> {
    let mut uses = HostUses::default();
    find_in_decls(&unit.decls, &mut uses);
    uses
}

fn find_in_decls<'a>(decls: &'a [CppDecl], uses: &mut HostUses<'a>) {
    for decl in decls {
        match &decl.kind {
            CppDeclKind::Namespace { decls, .. } | CppDeclKind::LinkageBlock(decls) => find_in_decls(decls, uses),
            CppDeclKind::Record(record) => {
                for member in record.members.iter().flatten() {
                    find_in_decls(std::slice::from_ref(&member.decl), uses);
                }
            }
            CppDeclKind::Function(function) => find_in_function(function, uses),
            CppDeclKind::Variables(variables) => find_arrays(None, variables, uses),
            _ => {}
        }
    }
}

fn find_in_function<'a>(function: &'a CppFunction, uses: &mut HostUses<'a>) {
    let FunctionBody::Block(body) = &function.body else { return };
    if function.attributes.global || (function.attributes.device && !function.attributes.host) {
        return;
    }
    let mut scan = FunctionScan::default();
    scan.block(body);
    for variables in &scan.variables {
        find_arrays(Some(function), variables, uses);
    }
    for value in &scan.values {
        match &value.kind {
            CppExprKind::Launch { callee, config, args } => {
                if let CppExprKind::Name(kernel) = &callee.kind {
                    uses.launches.push(HostLaunch { function, kernel, config, args, span: value.span });
                }
            }
            CppExprKind::Call { callee, args } => {
                if let Some((memory, pointer, bytes)) = device_allocation(callee, args) {
                    uses.allocations.push(scan.allocation(function, memory, pointer, bytes, value.span));
                }
            }
            CppExprKind::Assign { op: None, target, value: source } => {
                if let (Some(pointer), Some(bytes)) = (plain_name(target), host_allocation(source)) {
                    uses.allocations.push(scan.allocation(function, HostMemory::Host, pointer, bytes, value.span));
                }
            }
            _ => {}
        }
    }
    for variable in scan.variables.iter().flat_map(|decl| &decl.variables) {
        if let (VariableName::Plain(name), CppInit::Equal(source)) = (&variable.name, &variable.init)
            && let Some(bytes) = host_allocation(source)
        {
            uses.allocations.push(scan.allocation(function, HostMemory::Host, &name.text, bytes, variable.span));
        }
    }
}

/// Adds the arrays among variables.
fn find_arrays<'a>(function: Option<&'a CppFunction>, decl: &'a VariableDecl, uses: &mut HostUses<'a>) {
    for variable in &decl.variables {
        let VariableName::Plain(name) = &variable.name else { continue };
        let (mut ty, mut factors) = (&variable.ty, Vec::new());
        while let CppTypeKind::Array { element, length: Some(length) } = &ty.kind {
            factors.push(&**length);
            ty = element;
        }
        // An array without a length has that of its initializer.
        if !factors.is_empty() && !matches!(ty.kind, CppTypeKind::Array { .. }) {
            let memory =
                if decl.attributes.device || decl.attributes.constant { HostMemory::Device } else { HostMemory::Array };
            let (pointer, element, span) = (&name.text, Some(ty), variable.span);
            uses.allocations.push(HostAllocation { function, pointer, memory, element, factors, span });
        }
    }
}

/// Returns the pointer and the size of a call such as `cudaMalloc((void **)&x, bytes)`.
fn device_allocation<'a>(callee: &CppExpr, args: &'a [CppExpr]) -> Option<(HostMemory, &'a SmolStr, &'a CppExpr)> {
    let CppExprKind::Name(name) = &callee.kind else { return None };
    let memory = match name.segments.last()?.name.text.as_str() {
        "cudaMalloc" | "cudaMallocAsync" => HostMemory::Device,
        "cudaMallocManaged" => HostMemory::Managed,
        "cudaMallocHost" | "cudaHostAlloc" => HostMemory::Host,
        _ => return None,
    };
    let [pointer, bytes, ..] = args else { return None };
    match &without_casts(pointer).kind {
        CppExprKind::Unary { op: CppUnaryOp::AddressOf, operand } => Some((memory, plain_name(operand)?, bytes)),
        _ => None,
    }
}

/// Returns the size of `(T *)malloc(bytes)`.
fn host_allocation(value: &CppExpr) -> Option<&CppExpr> {
    let CppExprKind::Call { callee, args } = &without_casts(value).kind else { return None };
    match (plain_name(callee)?.as_str(), &args[..]) {
        ("malloc", [bytes]) => Some(bytes),
        _ => None,
    }
}

fn without_casts(value: &CppExpr) -> &CppExpr {
    match &value.kind {
        CppExprKind::Cast { value, .. } => without_casts(value),
        _ => value,
    }
}

/// Returns the name of an expression that is only a variable.
fn plain_name(value: &CppExpr) -> Option<&SmolStr> {
    match &value.kind {
        CppExprKind::Name(QualifiedName { global: false, segments, .. }) => match &segments[..] {
            [NameSegment { name, args: None }] => Some(&name.text),
            _ => None,
        },
        _ => None,
    }
}

/// The expressions and variables of a function.
#[derive(Default)]
struct FunctionScan<'a> {
    /// All expressions, an outer one before its operands.
    values: Vec<&'a CppExpr>,
    variables: Vec<&'a VariableDecl>,
}

impl<'a> FunctionScan<'a> {
    fn allocation(
        &self,
        function: &'a CppFunction,
        memory: HostMemory,
        pointer: &'a SmolStr,
        bytes: &'a CppExpr,
        span: SourceSpan,
    ) -> HostAllocation<'a> {
        let mut factors = Vec::new();
        product(self.value_of(bytes), &mut factors);
        let sizes = factors.iter().position(|factor| matches!(factor.kind, CppExprKind::SizeofType(_)));
        let element = sizes.and_then(|at| match &factors.remove(at).kind {
            CppExprKind::SizeofType(ty) => Some(&**ty),
            _ => None,
        });
        HostAllocation { function: Some(function), pointer, memory, element, factors, span }
    }

    /// Returns the initializer of a variable that keeps its first value, else the expression itself.
    fn value_of(&self, value: &'a CppExpr) -> &'a CppExpr {
        let Some(name) = plain_name(value) else { return value };
        let mut found = None;
        for variable in self.variables.iter().flat_map(|decl| &decl.variables) {
            if let VariableName::Plain(own) = &variable.name
                && own.text == *name
            {
                // Two variables of one name may be in different scopes.
                if found.is_some() {
                    return value;
                }
                found = Some(&variable.init);
            }
        }
        match found {
            Some(CppInit::Equal(init)) if !self.changes(name) => init,
            _ => value,
        }
    }

    /// Returns whether a variable may get another value than its initializer.
    fn changes(&self, name: &SmolStr) -> bool {
        self.values.iter().any(|value| match &value.kind {
            CppExprKind::Assign { target, .. } => plain_name(target) == Some(name),
            CppExprKind::Unary { op, operand } => {
                let pure = matches!(
                    op,
                    CppUnaryOp::Plus | CppUnaryOp::Minus | CppUnaryOp::Not | CppUnaryOp::BitNot | CppUnaryOp::Deref
                );
                !pure && plain_name(operand) == Some(name)
            }
            // A reference parameter or capture may change it, too; lambdas are not followed.
            CppExprKind::Lambda(_) => true,
            _ => false,
        })
    }

    fn block(&mut self, block: &'a CppBlock) {
        for stmt in &block.stmts {
            self.stmt(stmt);
        }
    }

    fn stmt(&mut self, stmt: &'a CppStmt) {
        match &stmt.kind {
            CppStmtKind::Empty | CppStmtKind::Break | CppStmtKind::Continue => {}
            CppStmtKind::Label(_) | CppStmtKind::Refused(_) | CppStmtKind::Return(None) => {}
            CppStmtKind::Expr(value) | CppStmtKind::Return(Some(value)) => self.value(value),
            CppStmtKind::Decl(decl) => {
                if let CppDeclKind::Variables(decl) = &decl.kind {
                    self.variables(decl);
                }
            }
            CppStmtKind::Block(block) => self.block(block),
            CppStmtKind::If(inner) => {
                inner.init.iter().for_each(|init| self.stmt(init));
                self.condition(&inner.condition);
                self.stmt(&inner.then);
                inner.otherwise.iter().for_each(|otherwise| self.stmt(otherwise));
            }
            CppStmtKind::While { condition, body, .. } => {
                self.condition(condition);
                self.stmt(body);
            }
            CppStmtKind::DoWhile { body, condition, .. } => {
                self.stmt(body);
                self.value(condition);
            }
            CppStmtKind::For(inner) => {
                self.stmt(&inner.init);
                inner.condition.iter().for_each(|condition| self.condition(condition));
                inner.step.iter().for_each(|step| self.value(step));
                self.stmt(&inner.body);
            }
            CppStmtKind::RangeFor { variable, range, body } => {
                self.variables(variable);
                self.value(range);
                self.stmt(body);
            }
            CppStmtKind::Switch(inner) => {
                inner.init.iter().for_each(|init| self.stmt(init));
                self.condition(&inner.condition);
                let stmts = inner.prologue.iter().chain(inner.sections.iter().flat_map(|section| &section.stmts));
                stmts.for_each(|stmt| self.stmt(stmt));
            }
        }
    }

    fn condition(&mut self, condition: &'a CppCondition) {
        match condition {
            CppCondition::Expr(value) => self.value(value),
            CppCondition::Decl(decl) => self.variables(decl),
        }
    }

    fn variables(&mut self, decl: &'a VariableDecl) {
        self.variables.push(decl);
        for variable in &decl.variables {
            match &variable.init {
                CppInit::None => {}
                CppInit::Equal(value) => self.value(value),
                CppInit::Paren(values) | CppInit::Brace(values) => self.all(values),
            }
        }
    }

    fn all(&mut self, values: &'a [CppExpr]) {
        values.iter().for_each(|value| self.value(value));
    }

    fn value(&mut self, value: &'a CppExpr) {
        self.values.push(value);
        match &value.kind {
            CppExprKind::Unary { operand, .. } => self.value(operand),
            CppExprKind::Binary { left, right, .. } | CppExprKind::Comma { left, right } => {
                self.value(left);
                self.value(right);
            }
            CppExprKind::Assign { target, value, .. } => {
                self.value(target);
                self.value(value);
            }
            CppExprKind::Conditional { condition, then, otherwise } => {
                self.value(condition);
                self.value(then);
                self.value(otherwise);
            }
            CppExprKind::Call { callee, args } => {
                self.value(callee);
                self.all(args);
            }
            CppExprKind::Launch { callee, config, args } => {
                self.value(callee);
                self.all(config);
                self.all(args);
            }
            CppExprKind::Index { base, index } => {
                self.value(base);
                self.value(index);
            }
            CppExprKind::Member { base, .. } => self.value(base),
            CppExprKind::Cast { value, .. } => self.value(value),
            CppExprKind::Construct { args, .. } => self.all(args),
            CppExprKind::InitList(items) => items.iter().for_each(|item| self.value(&item.value)),
            CppExprKind::PackExpansion(inner) => self.value(inner),
            // Launches in a lambda run when it is called, which is unknown.
            CppExprKind::Lambda(_) => {}
            CppExprKind::Int(_)
            | CppExprKind::Float(_)
            | CppExprKind::Char(_)
            | CppExprKind::String(_)
            | CppExprKind::Bool(_)
            | CppExprKind::Nullptr
            | CppExprKind::This
            | CppExprKind::Name(_)
            | CppExprKind::SizeofExpr(_)
            | CppExprKind::SizeofType(_)
            | CppExprKind::AlignofType(_)
            | CppExprKind::SizeofPack(_)
            | CppExprKind::Refused(_) => {}
        }
    }
}

/// Adds the factors of a product.
fn product<'a>(value: &'a CppExpr, factors: &mut Vec<&'a CppExpr>) {
    match &value.kind {
        CppExprKind::Binary { op: CppBinaryOp::Mul, left, right } => {
            product(left, factors);
            product(right, factors);
        }
        _ => factors.push(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ImportOptions, parse};
    use clk_base::source::SourceMap;

    #[test]
    fn launches_and_allocations_of_host_code() {
        let text = "
            __constant__ float table[16];
            template <typename T> __global__ void k(T *x, int n);
            int main() {
                int n = 100;
                size_t bytes = n * sizeof(float), moved = n * sizeof(int);
                float *x, *y, *h = (float *)malloc(bytes), local[4][8];
                int *z;
                moved += 4;
                CHECK(cudaMalloc((void **)&x, bytes));
                cudaMalloc(&y, sizeof(float) * n * 2);
                cudaMallocManaged(&z, moved);
                for (int i = 0; i < 3; ++i) k<float><<<(n + 255) / 256, 256, 0>>>(x, n);
            }
            struct S { void go() { ns::f<<<1, 2>>>(); } };
            __global__ void parent() { f<<<1, 1>>>(); }";
        let mut sources = SourceMap::default();
        let file = sources.add("file.cu", text);
        let parsed = parse(&mut sources, file, &ImportOptions::default(), &|_| None);
        let uses = find_host_uses(&parsed.unit);
        let slice = |span: SourceSpan| sources.slice(span.span).to_string();
        let launches: Vec<(String, Vec<String>, Vec<String>)> = uses
            .launches
            .iter()
            .map(|launch| {
                let texts = |values: &[CppExpr]| values.iter().map(|value| slice(value.span)).collect();
                (slice(launch.kernel.span), texts(launch.config), texts(launch.args))
            })
            .collect();
        let strings = |words: &[&str]| words.iter().map(|word| word.to_string()).collect::<Vec<_>>();
        assert_eq!(
            launches,
            [
                ("k<float>".to_string(), strings(&["(n + 255) / 256", "256", "0"]), strings(&["x", "n"])),
                ("ns::f".to_string(), strings(&["1", "2"]), strings(&[])),
            ]
        );
        let allocations: Vec<String> = uses
            .allocations
            .iter()
            .map(|found| {
                let factors: Vec<String> = found.factors.iter().map(|factor| slice(factor.span)).collect();
                let element = found.element.map_or("bytes".to_string(), |ty| slice(ty.span));
                format!("{:?} {}: {} of {element}", found.memory, found.pointer, factors.join(" * "))
            })
            .collect();
        assert_eq!(
            allocations,
            [
                "Device table: 16 of float",
                "Array local: 4 * 8 of float",
                "Device x: n of float",
                "Device y: n * 2 of float",
                "Managed z: moved of bytes",
                "Host h: n of float",
            ]
        );
    }
}
