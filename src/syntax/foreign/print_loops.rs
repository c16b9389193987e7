//! Prints foreign loops: those that count become loops over ranges.

use super::print_statements::StatementPrinter;
use super::statements::positional;
use super::tree::{ForeignArgument, ForeignExpr, ForeignStmt, ForeignVariable, StmtShape, Subscript};
use super::usage::count_assignments;
use super::value_types::ForeignType;
use std::collections::HashMap;

impl StatementPrinter {
    /// Prints a loop over a range or over elements.
    pub(super) fn for_loop(&mut self, names: &[String], elements: &ForeignExpr, body: &[ForeignStmt]) -> Option<()> {
        let int = || ForeignType::scalar("i32");
        // `x.iter().enumerate()` is `enumerate(x)`.
        if let ForeignExpr::Call(callee, args) = elements
            && let ForeignExpr::Field(base, method) = &**callee
            && matches!(method.as_str(), "enumerate" | "zip" | "iter")
            && !matches!(**base, ForeignExpr::Name(_) if method == "zip")
        {
            let array = without_iterator(base);
            if method == "iter" {
                return self.for_loop(names, array, body);
            }
            let first = ForeignArgument { name: None, value: array.clone() };
            let args = std::iter::once(first).chain(args.iter().cloned()).collect();
            let call = ForeignExpr::Call(Box::new(ForeignExpr::name(method)), args);
            return self.for_loop(names, &call, body);
        }
        if let ForeignExpr::Call(callee, args) = elements {
            let path = callee.path()?;
            match (path.rsplit('.').next()?, names) {
                ("range" | "arange" | "prange" | "xrange", [name]) => {
                    let args: Vec<&ForeignExpr> = args.iter().map(|arg| &arg.value).collect();
                    let range = match args[..] {
                        [end] => format!("0..{}", self.expr(end)?),
                        [start, end] => format!("{}..{}", self.expr(start)?, self.expr(end)?),
                        [start, end, step] => {
                            format!("{}..{} step {}", self.expr(start)?, self.expr(end)?, self.expr(step)?)
                        }
                        _ => return None,
                    };
                    return self.braces(&format!("for {name} in {range}"), body, &[(name.clone(), int())]);
                }
                ("enumerate", [index, value]) => {
                    let array = positional(args, 0)?;
                    let text = self.expr(array)?;
                    let body = with_bindings(body, &[(value.clone(), element(array, index))]);
                    return self.braces(&format!("for {index} in 0..len({text})"), &body, &[(index.clone(), int())]);
                }
                ("zip", names) if names.len() == args.len() => {
                    let index = ["i", "j", "k", "at"]
                        .into_iter()
                        .find(|name| !self.scope.declares(name) && !body.iter().any(|stmt| stmt.uses(name)))?;
                    let text = self.expr(positional(args, 0)?)?;
                    let bindings: Vec<(String, ForeignExpr)> =
                        names.iter().zip(args).map(|(name, arg)| (name.clone(), element(&arg.value, index))).collect();
                    let body = with_bindings(body, &bindings);
                    return self.braces(&format!("for {index} in 0..len({text})"), &body, &[(index.to_owned(), int())]);
                }
                ("reversed", [name]) => {
                    let text = self.expr(positional(args, 0)?)?;
                    return self.braces(
                        &format!("for {name} in flip({text})"),
                        body,
                        &[(name.clone(), ForeignType::Unknown)],
                    );
                }
                _ => {}
            }
        }
        let [name] = names else { return None };
        let ty = match elements {
            ForeignExpr::Range(..) => int(),
            other => match self.scope.type_of(other) {
                ForeignType::Array(element) => ForeignType::Scalar(element),
                _ => ForeignType::Unknown,
            },
        };
        let text = self.expr(elements)?;
        self.braces(&format!("for {name} in {text}"), body, &[(name.clone(), ty)])
    }

    /// Prints a loop of C as a `for` over a range if it counts, and otherwise as a `while`.
    pub(super) fn c_for(
        &mut self,
        first: Option<&ForeignStmt>,
        condition: Option<&ForeignExpr>,
        step: Option<&ForeignStmt>,
        body: &[ForeignStmt],
    ) -> Option<()> {
        if let Some((name, range)) = self.counted(first, condition, step, body) {
            return self.braces(&format!("for {name} in {range}"), body, &[(name, ForeignType::scalar("i32"))]);
        }
        // A `continue` would skip the step.
        let mut continues = false;
        body.iter().for_each(|stmt| stmt.visit(&mut |inner| continues |= inner.shape == StmtShape::Jump("continue")));
        if continues && step.is_some() {
            return None;
        }
        let outer = self.scope.variables.clone();
        if let Some(first) = first {
            self.statement(first, &[])?;
        }
        let head = match condition {
            Some(condition) => format!("while {}", self.printer().condition(condition)?),
            None => "loop".to_owned(),
        };
        let body: Vec<ForeignStmt> = body.iter().chain(step).cloned().collect();
        self.braces(&head, &body, &[])?;
        self.scope.variables = outer;
        Some(())
    }

    /// Returns the variable and the range of a loop that counts.
    fn counted(
        &self,
        first: Option<&ForeignStmt>,
        condition: Option<&ForeignExpr>,
        step: Option<&ForeignStmt>,
        body: &[ForeignStmt],
    ) -> Option<(String, String)> {
        let (name, start) = match &first?.shape {
            StmtShape::Declare { ty, variables, .. } if ty.starts_with(['i', 'u']) || ty.is_empty() => {
                match &variables[..] {
                    [ForeignVariable { name, value: Some(value), .. }] => (name, value),
                    _ => return None,
                }
            }
            // The loop variable of Clk is a new one, and not seen after the loop.
            StmtShape::Assign(places, "", value) => match &places[..] {
                [ForeignExpr::Name(name)] if !self.scope.declares(name) => (name, value),
                _ => return None,
            },
            _ => return None,
        };
        let mut changes = HashMap::new();
        body.iter().for_each(|stmt| count_assignments(stmt, &mut changes));
        if changes.contains_key(name) {
            return None;
        }
        let StmtShape::Assign(places, op, amount) = &step?.shape else { return None };
        let (op, amount) = match (*op, amount) {
            // `i = i + 2`
            ("", ForeignExpr::Binary(op @ ("+" | "-" | "*"), a, b)) if a.is_name(name) => (*op, &**b),
            (op, amount) => (op, amount),
        };
        let ForeignExpr::Binary(comparison, left, end) = condition? else { return None };
        if !places[0].is_name(name) || !left.is_name(name) || end.uses(name) {
            return None;
        }
        let end_changes = changes.keys().any(|changed| end.uses(changed) || amount.uses(changed));
        if end_changes {
            return None;
        }
        let (start, end_text) = (self.expr(start)?, self.printer().print(end)?);
        let end_value = |shift: i64| match end.integer() {
            Some(value) => (value + shift).to_string(),
            None if shift < 0 => format!("{end_text} - 1"),
            None => format!("{end_text} + 1"),
        };
        let range = match (*comparison, op) {
            ("<" | "!=", "+") if amount.integer() == Some(1) => format!("{start}..{end_text}"),
            ("<", "+") => format!("{start}..{end_text} step {}", self.expr(amount)?),
            ("<=", "+") if amount.integer() == Some(1) => format!("{start}..={end_text}"),
            ("<=", "+") => format!("{start}..={end_text} step {}", self.expr(amount)?),
            (">", "-") => format!("{start}..{end_text} step -{}", self.at_unary(amount)?),
            (">=", "-") => format!("{start}..{} step -{}", end_value(-1), self.at_unary(amount)?),
            _ => return None,
        };
        Some((name.clone(), range))
    }

    fn at_unary(&self, e: &ForeignExpr) -> Option<String> {
        match e {
            ForeignExpr::Number(_) | ForeignExpr::Name(_) => self.expr(e),
            _ => Some(format!("({})", self.expr(e)?)),
        }
    }
}

/// Returns the array of `x.iter()`.
fn without_iterator(e: &ForeignExpr) -> &ForeignExpr {
    match e {
        ForeignExpr::Call(callee, args) if args.is_empty() => match &**callee {
            ForeignExpr::Field(base, method) if matches!(method.as_str(), "iter" | "into_iter") => base,
            _ => e,
        },
        _ => e,
    }
}

fn element(array: &ForeignExpr, index: &str) -> ForeignExpr {
    ForeignExpr::Index(Box::new(array.clone()), vec![Subscript::Element(ForeignExpr::name(index))])
}

/// Returns a body that begins with `let` for each binding.
fn with_bindings(body: &[ForeignStmt], bindings: &[(String, ForeignExpr)]) -> Vec<ForeignStmt> {
    let bind = |(name, value): &(String, ForeignExpr)| {
        ForeignStmt::new(StmtShape::Bind("let", name.clone(), Some(value.clone())))
    };
    bindings.iter().map(bind).chain(body.iter().cloned()).collect()
}
