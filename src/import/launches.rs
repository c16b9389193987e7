//! Finds the launches of kernels in host functions, whose template arguments say which instances of a template exist.
//! Host code is never executed.

use crate::ast::*;
use crate::source::SourceSpan;

/// Returns the names in `kernel<T><<<grid, block>>>(…)` of all launches in the functions of a file that parse.
pub(crate) fn launched_kernels(unit: &TranslationUnit) -> Vec<&QualifiedName> {
    let mut launched = vec![];
    find_in_decls(&unit.decls, &mut launched);
    launched
}

fn find_in_decls<'a>(decls: &'a [CppDecl], launched: &mut Vec<&'a QualifiedName>) {
    for decl in decls {
        match &decl.kind {
            CppDeclKind::Namespace { decls, .. } | CppDeclKind::LinkageBlock(decls) => find_in_decls(decls, launched),
            CppDeclKind::Record(record) => {
                for member in record.members.iter().flatten() {
                    find_in_decls(std::slice::from_ref(&member.decl), launched);
                }
            }
            CppDeclKind::Function(function) => find_in_function(function, launched),
            _ => {}
        }
    }
}

fn find_in_function<'a>(function: &'a CppFunction, launched: &mut Vec<&'a QualifiedName>) {
    let FunctionBody::Block(body) = &function.body else { return };
    if function.attributes.global || (function.attributes.device && !function.attributes.host) {
        return;
    }
    let mut scan = FunctionScan::default();
    scan.block(body);
    for value in scan.values {
        if let CppExprKind::Launch { callee, .. } = &value.kind
            && let CppExprKind::Name(kernel) = &callee.kind
        {
            launched.push(kernel);
        }
    }
}

/// The expressions of a function.
#[derive(Default)]
pub(crate) struct FunctionScan<'a> {
    /// An outer expression precedes its operands.
    pub(crate) values: Vec<&'a CppExpr>,
    /// The variables that are declared in the function.
    pub(crate) variables: Vec<&'a CppVariable>,
    /// The names of types and of `using` declarations in the function.
    pub(crate) types: Vec<&'a CppName>,
    /// Code whose expressions are not listed, such as lambdas.
    pub(crate) opaque: Vec<SourceSpan>,
    /// Whether the function has a label or a jump to one.
    pub(crate) has_label: bool,
    /// Whether the code of lambdas and the operands of `sizeof` are listed as well.
    enters_lambdas: bool,
}

impl<'a> FunctionScan<'a> {
    /// Scans the body of a function, and the code of the lambdas in it.
    pub(crate) fn with_lambdas(body: &'a FunctionBody) -> FunctionScan<'a> {
        let mut scan = FunctionScan { enters_lambdas: true, ..FunctionScan::default() };
        if let FunctionBody::Block(block) = body {
            scan.block(block);
        }
        scan
    }

    pub(crate) fn block(&mut self, block: &'a CppBlock) {
        for stmt in &block.stmts {
            self.stmt(stmt);
        }
    }

    pub(crate) fn stmt(&mut self, stmt: &'a CppStmt) {
        match &stmt.kind {
            CppStmtKind::Empty | CppStmtKind::Break | CppStmtKind::Continue | CppStmtKind::Return(None) => {}
            CppStmtKind::Label(_) | CppStmtKind::Goto(_) => self.has_label = true,
            CppStmtKind::Refused(refusal) => {
                self.has_label |= refusal.construct.contains("`goto`");
                self.opaque.push(stmt.span);
            }
            CppStmtKind::Expr(value) | CppStmtKind::Return(Some(value)) => self.value(value),
            CppStmtKind::Decl(decl) => self.decl(decl),
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

    fn decl(&mut self, decl: &'a CppDecl) {
        match &decl.kind {
            CppDeclKind::Variables(decl) => self.variables(decl),
            CppDeclKind::Alias(alias) => self.types.push(&alias.name),
            CppDeclKind::Enum(own) => self.types.extend(&own.name),
            // A local class does not see the variables of the function.
            CppDeclKind::Record(record) => self.types.extend(&record.name),
            CppDeclKind::UsingName(name) => self.types.extend(name.segments.last().map(|last| &last.name)),
            CppDeclKind::UsingNamespace(_) | CppDeclKind::StaticAssert { .. } => {}
            _ => self.opaque.push(decl.span),
        }
    }

    fn condition(&mut self, condition: &'a CppCondition) {
        match condition {
            CppCondition::Expr(value) => self.value(value),
            CppCondition::Decl(decl) => self.variables(decl),
        }
    }

    fn variables(&mut self, decl: &'a VariableDecl) {
        for variable in &decl.variables {
            self.variables.push(variable);
            match &variable.ty.kind {
                CppTypeKind::Record(record) => self.types.extend(&record.name),
                CppTypeKind::Enum(own) => self.types.extend(&own.name),
                _ => {}
            }
            let mut ty = &variable.ty;
            while let CppTypeKind::Array { element, length } = &ty.kind {
                length.iter().for_each(|length| self.value(length));
                ty = element;
            }
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

    pub(crate) fn value(&mut self, value: &'a CppExpr) {
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
            CppExprKind::Lambda(lambda) if self.enters_lambdas => {
                lambda.captures.iter().filter_map(|capture| capture.init.as_ref()).for_each(|init| self.value(init));
                if let Some(FunctionBody::Block(body)) = lambda.call().map(|call| &call.body) {
                    self.block(body);
                }
            }
            CppExprKind::Statements(block) if self.enters_lambdas => self.block(block),
            CppExprKind::SizeofExpr(operand) if self.enters_lambdas => self.value(operand),
            // Launches in a lambda run when it is called, which is unknown.
            CppExprKind::Lambda(_) | CppExprKind::Statements(_) => self.opaque.push(value.span),
            CppExprKind::Refused(refusal) => {
                if !is_harmless(refusal) {
                    self.opaque.push(value.span);
                }
            }
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
            | CppExprKind::SizeofPack(_) => {}
        }
    }
}

/// Returns whether a refused expression assigns nothing and keeps no references.
pub(crate) fn is_harmless(refusal: &Refusal) -> bool {
    matches!(refusal.construct.as_str(), "a `new` expression" | "a `delete` expression")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ImportOptions, parse};
    use clk_base::source::SourceMap;

    #[test]
    fn launches_of_host_code() {
        let text = "
            template <typename T> __global__ void k(T *x, int n);
            int main() {
                int n = 100;
                CHECK(cudaMalloc((void **)&x, n));
                for (int i = 0; i < 3; ++i) k<float><<<(n + 255) / 256, 256, 0>>>(x, n);
            }
            struct S { void go() { ns::f<<<1, 2>>>(); } };
            __global__ void parent() { f<<<1, 1>>>(); }";
        let mut sources = SourceMap::default();
        let file = sources.add("file.cu", text);
        let parsed = parse(&mut sources, file, &ImportOptions::default(), &|_| None);
        let names: Vec<&str> =
            launched_kernels(&parsed.unit).iter().map(|name| sources.slice(name.span.span)).collect();
        assert_eq!(names, ["k<float>", "ns::f"]);
    }
}
