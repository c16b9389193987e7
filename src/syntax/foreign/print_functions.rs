//! Prints foreign functions and kernels.

use super::kernels::ClkKernel;
use super::print_statements::{LINE, StatementPrinter, stated_type};
use super::tokens::clk_name;
use super::tree::{Dialect, ForeignExpr, ForeignFunction, ForeignParameter, ForeignStmt, FunctionRole, StmtShape};
use super::usage::{changes_elements, count_assignments, infer_locals, inferred};
use super::value_types::ForeignType;
use std::collections::HashMap;

impl StatementPrinter {
    /// Prints `let square = |x| x * x` as a function, which only a file may contain.
    pub(super) fn closure(&mut self, name: &str, params: &[String], body: &ForeignExpr) -> Option<()> {
        let params_of_function = params.iter().map(|name| ForeignParameter::untyped(name)).collect();
        let function = ForeignFunction::of_value(name, params_of_function, body.clone());
        // A function does not see the variables of the script.
        let captures = body.contains(|e| match e {
            ForeignExpr::Name(name) => self.scope.declares(name) && !params.contains(name),
            _ => false,
        });
        (!captures).then(|| self.function(&function))?
    }

    /// Prints the value of a `return`.
    pub(super) fn result_text(&self, value: &ForeignExpr) -> Option<String> {
        match &self.result {
            ForeignType::Scalar(name) => self.printer().converted(value, name),
            _ => self.expr(value),
        }
    }

    /// Prints a function.
    pub fn function(&mut self, function: &ForeignFunction) -> Option<()> {
        // An item is only allowed at the top level of a file.
        if self.indent > 0 || self.nested {
            return None;
        }
        if function.role == FunctionRole::Kernel {
            return self.kernel(function);
        }
        let params: Vec<ForeignParameter> =
            function.params.iter().map(|param| inferred(param, function, &self.scope)).collect();
        let outer = (self.scope.variables.clone(), std::mem::take(&mut self.assignments));
        let mut copies = Vec::new();
        let mut texts = Vec::new();
        self.scope.variables.retain(|_, ty| *ty == ForeignType::Unknown);
        let mut changes = HashMap::new();
        function.body.iter().for_each(|stmt| count_assignments(stmt, &mut changes));
        for param in &params {
            let name = clk_name(&param.name);
            let ty = if param.is_array {
                ForeignType::Array(param.element.clone())
            } else {
                ForeignType::scalar(&param.element)
            };
            let extents = match param.extents.is_empty() {
                true => "N".to_owned(),
                false => {
                    let extents: Option<Vec<String>> = param.extents.iter().map(|e| self.expr(e)).collect();
                    extents?.join(", ")
                }
            };
            let is_changed = function.body.iter().any(|stmt| changes_elements(stmt, &param.name));
            let access = if param.is_array && is_changed { "inout " } else { "" };
            let shown = if param.is_array { format!("[{}; {extents}]", param.element) } else { param.element.clone() };
            let default = match &param.default {
                Some(value) => format!(" = {}", self.printer().converted(value, &param.element)?),
                None => String::new(),
            };
            texts.push(format!("{access}{name}: {shown}{default}"));
            // A parameter cannot be assigned to.
            if changes.contains_key(&param.name) && access.is_empty() {
                copies.push(format!("var {name} = {name}"));
            }
            self.scope.variables.insert(name, ty);
        }
        let result = self.result_of(function)?;
        let arrow = if result.is_empty() { String::new() } else { format!(" -> {result}") };
        let generics =
            if function.generics.is_empty() { String::new() } else { format!("<{}>", function.generics.join(", ")) };
        let head = format!("fn {}{generics}({}){arrow}", clk_name(&function.name), texts.join(", "));
        self.scope.results.insert(function.name.clone(), stated_type(&result));
        let result = std::mem::replace(&mut self.result, stated_type(&result));
        let was_in_function = std::mem::replace(&mut self.in_function, true);
        function.body.iter().for_each(|stmt| count_assignments(stmt, &mut self.assignments));
        let mut body: Vec<ForeignStmt> =
            copies.into_iter().map(|text| ForeignStmt::new(StmtShape::Raw(text))).collect();
        body.extend(function.body.iter().cloned());
        // The value of the function is its last expression.
        let last = match body.last_mut() {
            Some(ForeignStmt { shape: shape @ StmtShape::Return(Some(_)), .. }) => {
                let StmtShape::Return(Some(value)) = std::mem::replace(shape, StmtShape::Nothing) else { return None };
                Some(value)
            }
            _ => None,
        };
        let first = self.lines.len();
        self.braces_of_function(&head, &body, last.as_ref())?;
        (self.result, self.in_function) = (result, was_in_function);
        (self.scope.variables, self.assignments) = outer;
        self.scope.variables.insert(function.name.clone(), ForeignType::Unknown);
        self.scope.variables.remove(&function.name);
        (self.lines.len() > first).then_some(())
    }

    pub(super) fn braces_of_function(
        &mut self,
        head: &str,
        body: &[ForeignStmt],
        last: Option<&ForeignExpr>,
    ) -> Option<()> {
        // A long head ends with a line break.
        let blank = if head.ends_with('\n') { "" } else { " " };
        self.line(&format!("{head}{blank}{{"));
        self.indent += 4;
        let first = self.lines.len();
        self.block(body)?;
        if let Some(last) = last {
            let text = self.result_text(last)?;
            self.line(&text);
        }
        self.indent -= 4;
        if self.close_empty(first) {
            return Some(());
        }
        if let [only] = &self.lines[first..] {
            let joined = format!("{} {} }}", self.lines[first - 1], only.trim_start());
            if joined.len() <= LINE && !only.contains("//") {
                self.lines.truncate(first - 1);
                self.lines.push(joined);
                return Some(());
            }
        }
        self.line("}");
        Some(())
    }

    /// Prints a kernel: its head follows from its body.
    fn kernel(&mut self, function: &ForeignFunction) -> Option<()> {
        let kernel = ClkKernel::new(function)?;
        let outer = (self.scope.variables.clone(), std::mem::take(&mut self.assignments));
        self.scope.variables.retain(|_, ty| *ty == ForeignType::Unknown);
        self.scope.variables.extend(kernel.variables.iter().cloned());
        let was_in_function = std::mem::replace(&mut self.in_function, true);
        kernel.body.iter().for_each(|stmt| count_assignments(stmt, &mut self.assignments));
        self.braces_of_function(&kernel.head, &kernel.body, None)?;
        self.in_function = was_in_function;
        (self.scope.variables, self.assignments) = outer;
        Some(())
    }

    /// Returns the result type of a function; empty if it has no result.
    fn result_of(&self, function: &ForeignFunction) -> Option<String> {
        if let Some(result) = function.result.as_ref().filter(|result| !result.is_empty() || self.dialect == Dialect::C)
        {
            return Some(result.clone());
        }
        let mut scope = self.scope.clone();
        infer_locals(&function.body, &mut scope);
        let mut results = Vec::new();
        for stmt in &function.body {
            stmt.visit(&mut |inner| {
                if let StmtShape::Return(Some(value)) = &inner.shape {
                    results.push(match value {
                        ForeignExpr::Tuple(parts) => {
                            let parts: Vec<String> = parts.iter().map(|part| type_text(&scope.type_of(part))).collect();
                            format!("({})", parts.join(", "))
                        }
                        other => match scope.type_of(other) {
                            ForeignType::Unknown => String::new(),
                            ty => type_text(&ty),
                        },
                    });
                }
            });
        }
        if results.is_empty() {
            return Some(String::new());
        }
        let float = results.iter().find(|ty| ty.contains('f')).cloned();
        let known = float.or_else(|| results.iter().find(|ty| !ty.is_empty()).cloned());
        Some(known.unwrap_or_else(|| "f32".to_owned()))
    }
}

fn type_text(ty: &ForeignType) -> String {
    match ty {
        ForeignType::Array(element) => format!("[{element}; N]"),
        other => other.scalar_name().unwrap_or("f32").to_owned(),
    }
}
