//! Prints foreign statements and functions in Clk's syntax.

use super::print_expressions::ExpressionPrinter;
use super::statements::positional;
use super::tree::{Dialect, ForeignArgument, ForeignExpr, ForeignStmt, ForeignVariable, StmtShape};
use super::usage::{added_float, appended_type, changes_elements, count_assignments, infer_locals};
use super::value_types::{ForeignScope, ForeignType};
use std::collections::HashMap;

/// Maximum length of a block in one line.
pub(super) const LINE: usize = 80;

/// Prints statements as lines of Clk.
pub(super) struct StatementPrinter {
    pub scope: ForeignScope,
    pub dialect: Dialect,
    pub lines: Vec<String>,
    pub indent: usize,
    /// Whether the statements are in a block of Clk.
    pub nested: bool,
    /// The number of assignments to each variable of the function.
    pub assignments: HashMap<String, usize>,
    /// The result type of the function that contains the statements, if it is known.
    pub result: ForeignType,
    /// Whether the statements are in a function. `return` needs one.
    pub in_function: bool,
}

impl StatementPrinter {
    pub fn new(scope: ForeignScope, dialect: Dialect, indent: usize) -> StatementPrinter {
        StatementPrinter {
            scope,
            dialect,
            lines: Vec::new(),
            indent,
            nested: false,
            assignments: HashMap::new(),
            result: ForeignType::Unknown,
            in_function: false,
        }
    }

    pub(super) fn expr(&self, e: &ForeignExpr) -> Option<String> {
        self.printer().print(e)
    }

    pub(super) fn printer(&self) -> ExpressionPrinter<'_> {
        ExpressionPrinter { scope: &self.scope, dialect: self.dialect }
    }

    pub(super) fn line(&mut self, text: &str) {
        self.lines.push(if text.is_empty() { String::new() } else { format!("{}{text}", " ".repeat(self.indent)) });
    }

    /// Prints the first `count` statements. The others only tell how the variables are used.
    pub fn print(&mut self, stmts: &[ForeignStmt], count: usize) -> Option<()> {
        self.in_function = self.nested;
        for stmt in stmts {
            count_assignments(stmt, &mut self.assignments);
        }
        for stmt in stmts {
            if let StmtShape::Function(function) = &stmt.shape {
                self.scope.results.insert(function.name.clone(), ForeignType::Unknown);
            }
        }
        self.first_of(stmts, count)
    }

    /// Prints the statements of a block.
    pub(super) fn block(&mut self, stmts: &[ForeignStmt]) -> Option<()> {
        self.first_of(stmts, stmts.len())
    }

    fn first_of(&mut self, stmts: &[ForeignStmt], count: usize) -> Option<()> {
        for (index, stmt) in stmts.iter().enumerate().take(count) {
            if index > 0 && stmt.is_after_gap && !self.lines.last().is_some_and(String::is_empty) {
                self.line("");
            }
            for comment in &stmt.comments {
                self.line(&format!("// {comment}"));
            }
            let first = self.lines.len();
            self.declare_before(stmt, &stmts[index + 1..])?;
            self.statement(stmt, &stmts[index + 1..])?;
            if let (Some(comment), Some(last)) =
                (&stmt.trailing_comment, self.lines.get_mut(first..).and_then(<[_]>::last_mut))
            {
                *last += &format!(" // {comment}");
            }
        }
        Some(())
    }

    /// Declares the variables that a compound statement of Python assigns and a later statement uses.
    fn declare_before(&mut self, stmt: &ForeignStmt, later: &[ForeignStmt]) -> Option<()> {
        if stmt.blocks().is_empty() || self.dialect == Dialect::C || self.if_as_value(stmt).is_some() {
            return Some(());
        }
        let mut assigned: Vec<(String, ForeignType)> = Vec::new();
        let mut scope = self.scope.clone();
        infer_locals(std::slice::from_ref(stmt), &mut scope);
        stmt.visit(&mut |inner| {
            if let StmtShape::Assign(places, "", value) = &inner.shape {
                for place in places {
                    if let ForeignExpr::Name(name) = place
                        && !assigned.iter().any(|(known, _)| known == name)
                    {
                        assigned.push((name.clone(), scope.type_of(value)));
                    }
                }
            }
        });
        for (name, ty) in assigned {
            let is_used = later.iter().any(|stmt| stmt.uses(&name));
            if self.scope.declares(&name) || !is_used {
                continue;
            }
            let ty = ty.scalar_name().unwrap_or("f32").to_owned();
            self.line(&format!("var {name}: {ty}"));
            self.scope.variables.insert(name, ForeignType::scalar(&ty));
        }
        Some(())
    }

    /// Prints a nested block between braces, after `head`.
    pub(super) fn braces(&mut self, head: &str, body: &[ForeignStmt], names: &[(String, ForeignType)]) -> Option<()> {
        let outer = self.scope.variables.clone();
        self.scope.variables.extend(names.iter().cloned());
        self.line(&format!("{head} {{"));
        self.indent += 4;
        let first = self.lines.len();
        self.block(body)?;
        self.indent -= 4;
        self.scope.variables = outer;
        if self.close_empty(first) {
            return Some(());
        }
        // A short block stays in one line.
        if let [only] = &self.lines[first..] {
            let opened = &self.lines[first - 1];
            let joined = format!("{opened} {} }}", only.trim_start());
            if joined.len() <= LINE && !only.contains("//") && !only.ends_with('}') {
                self.lines.truncate(first - 1);
                self.lines.push(joined);
                return Some(());
            }
        }
        self.line("}");
        Some(())
    }

    /// Closes a block whose lines begin at `first` in the line of its head if it is empty.
    pub(super) fn close_empty(&mut self, first: usize) -> bool {
        let is_empty = self.lines.len() == first;
        if is_empty && let Some(head) = self.lines.last_mut() {
            *head += " }";
        }
        is_empty
    }

    pub(super) fn statement(&mut self, stmt: &ForeignStmt, later: &[ForeignStmt]) -> Option<()> {
        match &stmt.shape {
            StmtShape::Declare { ty, is_constant, is_shared, variables } => {
                for variable in variables {
                    self.declare(ty, *is_constant, *is_shared, variable)?;
                }
            }
            StmtShape::Bind(word, pattern, value) => self.bind(word, pattern, value.as_ref())?,
            StmtShape::Assign(places, op, value) => {
                for place in places.iter().rev() {
                    self.assign(place, op, value, later)?;
                }
            }
            StmtShape::Value(e) => self.value(e)?,
            StmtShape::If(branches, otherwise) => {
                if let Some((name, value)) = self.if_as_value(stmt) {
                    // Each branch has one of the assignments.
                    let branches = branches.len() + 1;
                    let is_changed = self.assignments.get(&name).is_some_and(|count| *count > branches);
                    let word = if is_changed { "var" } else { "let" };
                    let ty = self.scope.type_of(&value);
                    let text = self.expr(&value)?;
                    self.line(&format!("{word} {name} = {text}"));
                    self.scope.variables.insert(name, ty);
                } else {
                    self.if_statement(branches, otherwise)?;
                }
            }
            StmtShape::While(condition, body) => {
                let is_endless =
                    matches!(condition, ForeignExpr::Number(text) if text == "1") || condition.is_name("true");
                let head = match is_endless {
                    true => "loop".to_owned(),
                    false => format!("while {}", self.printer().condition(condition)?),
                };
                self.braces(&head, body, &[])?;
            }
            StmtShape::DoWhile(body, condition) => {
                let outer = self.scope.variables.clone();
                self.line("loop {");
                self.indent += 4;
                self.block(body)?;
                let condition = ForeignExpr::Unary("!", Box::new(condition.clone()));
                let condition = self.printer().condition(&negated(condition))?;
                self.line(&format!("if {condition} {{ break }}"));
                self.indent -= 4;
                self.line("}");
                self.scope.variables = outer;
            }
            StmtShape::For(names, elements, body) => self.for_loop(names, elements, body)?,
            StmtShape::CFor(first, condition, step, body) => {
                self.c_for((**first).as_ref(), condition.as_ref(), (**step).as_ref(), body)?;
            }
            StmtShape::Loop(body) => self.braces("loop", body, &[])?,
            StmtShape::Block(body) => {
                let outer = self.scope.variables.clone();
                self.line("{");
                self.indent += 4;
                self.block(body)?;
                self.indent -= 4;
                self.line("}");
                self.scope.variables = outer;
            }
            StmtShape::Return(value) => {
                let text = match value {
                    Some(value) => format!("return {}", self.result_text(value)?),
                    None => "return".to_owned(),
                };
                self.in_function.then_some(())?;
                self.line(&text);
            }
            StmtShape::Jump(word) => self.line(word),
            StmtShape::Function(function) => self.function(function)?,
            StmtShape::Assert(condition, message) => {
                let condition = self.printer().condition(condition)?;
                let message = match message {
                    Some(message) => format!(", {}", self.expr(message)?),
                    None => String::new(),
                };
                self.line(&format!("assert({condition}{message})"));
            }
            StmtShape::Hint(hint) => self.line(hint),
            StmtShape::Nothing => {}
            StmtShape::Item(head, body) => {
                if self.indent > 0 || self.nested {
                    return None;
                }
                let outer = (self.scope.variables.clone(), std::mem::take(&mut self.assignments));
                self.scope.variables.extend(declared_in_head(head));
                let was_in_function = std::mem::replace(&mut self.in_function, true);
                body.iter().for_each(|stmt| count_assignments(stmt, &mut self.assignments));
                self.braces_of_function(head, body, None)?;
                self.in_function = was_in_function;
                (self.scope.variables, self.assignments) = outer;
            }
            StmtShape::Raw(text) => {
                let name = text.split_once(' ').map(|(_, rest)| rest);
                if let Some((name, ty)) = name.and_then(|rest| rest.split_once(':')) {
                    let element = ty.trim().trim_start_matches('[').split([';', ']', ' ']).next().unwrap_or("");
                    let ty = if ty.contains('[') {
                        ForeignType::Array(element.into())
                    } else {
                        ForeignType::scalar(element)
                    };
                    if text.starts_with("shared") {
                        self.scope.variables.insert(name.trim().to_owned(), ty);
                    }
                }
                self.line(text);
            }
        }
        Some(())
    }

    /// Returns the variable and the value of an `if` whose branches only assign one new variable.
    fn if_as_value(&self, stmt: &ForeignStmt) -> Option<(String, ForeignExpr)> {
        let StmtShape::If(branches, otherwise) = &stmt.shape else { return None };
        let single = |body: &[ForeignStmt]| match body {
            [ForeignStmt { shape: StmtShape::Assign(places, "", value), comments, .. }] if comments.is_empty() => {
                match &places[..] {
                    [ForeignExpr::Name(name)] => Some((name.clone(), value.clone())),
                    _ => None,
                }
            }
            _ => None,
        };
        let (name, mut value) = single(otherwise)?;
        for (condition, body) in branches.iter().rev() {
            let (other, yes) = single(body)?;
            if other != name {
                return None;
            }
            value = ForeignExpr::Conditional(Box::new([condition.clone(), yes, value]));
        }
        (!self.scope.declares(&name)).then_some((name, value))
    }

    fn if_statement(&mut self, branches: &[(ForeignExpr, Vec<ForeignStmt>)], otherwise: &[ForeignStmt]) -> Option<()> {
        if let ([(condition, body)], []) = (branches, otherwise) {
            let head = format!("if {}", self.printer().condition(condition)?);
            return self.braces(&head, body, &[]);
        }
        let mut head = String::new();
        for (index, (condition, body)) in branches.iter().enumerate() {
            let word = if index == 0 { "if" } else { "else if" };
            head = format!("{head}{word} {}", self.printer().condition(condition)?);
            self.open_block(&head, body)?;
            head = "} ".to_owned();
        }
        if !otherwise.is_empty() {
            self.open_block("} else", otherwise)?;
        }
        self.line("}");
        self.join_short_branches();
        Some(())
    }

    /// Prints a block without its closing brace.
    fn open_block(&mut self, head: &str, body: &[ForeignStmt]) -> Option<()> {
        let outer = self.scope.variables.clone();
        self.line(&format!("{head} {{"));
        self.indent += 4;
        self.block(body)?;
        self.indent -= 4;
        self.scope.variables = outer;
        Some(())
    }

    /// Puts `if a { b } else { c }` in one line if it is short.
    fn join_short_branches(&mut self) {
        let count = self.lines.len();
        let Some(lines) = count.checked_sub(5).map(|first| &self.lines[first..]) else { return };
        let indent = " ".repeat(self.indent);
        let [head, yes, middle, no, end] = lines else { return };
        let is_pair = head.starts_with(&format!("{indent}if "))
            && middle.trim_start() == "} else {"
            && end.trim_start() == "}"
            && !yes.ends_with('}')
            && !no.ends_with('}');
        let joined = format!("{head} {} {} {} }}", yes.trim_start(), middle.trim_start(), no.trim_start());
        if is_pair && joined.len() <= LINE && !joined.contains("//") {
            self.lines.truncate(count - 5);
            self.lines.push(joined);
        }
    }

    /// Returns the word that declares a variable.
    fn word_of(&self, name: &str) -> &'static str {
        if self.assignments.get(name).copied().unwrap_or(0) > 1 { "var" } else { "let" }
    }

    /// Prints a declaration of C.
    /// Returns whether `name = value` only repeats the index that the head of a kernel declares.
    fn is_own_index(&self, name: &str, value: &ForeignExpr) -> bool {
        self.printer().own_index(value).is_some_and(|index| index == name)
    }

    fn declare(&mut self, ty: &str, is_constant: bool, is_shared: bool, variable: &ForeignVariable) -> Option<()> {
        let name = &variable.name;
        let array = |printer: &Self, element: &str| {
            // `extern __shared__ float s[]` has an element for each thread.
            let extent = |e: &ForeignExpr| match e.is_name("") {
                true => printer.scope.block_extent.clone().filter(|_| is_shared),
                false => printer.expr(e),
            };
            let extents: Option<Vec<String>> = variable.extents.iter().map(extent).collect();
            Some(format!("[{element}; {}]", extents?.join(", ")))
        };
        let is_array = !variable.extents.is_empty();
        if is_shared {
            let text = if is_array { array(self, ty)? } else { ty.to_owned() };
            if variable.value.is_some() {
                return None;
            }
            self.line(&format!("shared {name}: {text}"));
            let declared = if is_array { ForeignType::Array(ty.to_owned()) } else { ForeignType::scalar(ty) };
            self.scope.variables.insert(name.clone(), declared);
            return Some(());
        }
        if variable.is_pointer {
            return None;
        }
        if variable.value.as_ref().is_some_and(|value| self.is_own_index(name, value)) {
            return Some(());
        }
        // A constant at the top level, a variable in a block.
        let word = match is_constant && !self.nested && self.indent == 0 {
            true => "const",
            false if is_constant => "let",
            false => self.word_of(name),
        };
        if is_array {
            let text = match &variable.value {
                None => format!("var {name}: {}", array(self, ty)?),
                Some(ForeignExpr::List(parts)) if parts.len() <= 1 => {
                    let value = parts.first().cloned().unwrap_or(ForeignExpr::Number("0".into()));
                    let is_zero =
                        value.integer() == Some(0) || matches!(&value, ForeignExpr::Number(text) if text == "0.0");
                    if !is_zero && variable.extents.first().and_then(ForeignExpr::integer) != Some(1) {
                        return None;
                    }
                    format!("var {name}: {} = {}", array(self, ty)?, self.printer().converted(&value, ty)?)
                }
                Some(ForeignExpr::List(parts)) => {
                    let count = parts.len() as i64;
                    let extent = variable.extents.first().and_then(ForeignExpr::integer);
                    if variable.extents.len() != 1 || extent.is_some_and(|extent| extent != count) {
                        return None;
                    }
                    let parts: Option<Vec<String>> = parts.iter().map(|e| self.printer().converted(e, ty)).collect();
                    let parts = parts?.join(", ");
                    let stated =
                        if matches!(ty, "f32" | "i32" | "") { String::new() } else { format!(": [{ty}; {count}]") };
                    format!("{word} {name}{stated} = [{parts}]")
                }
                Some(_) => return None,
            };
            self.line(&text);
            self.scope.variables.insert(name.clone(), ForeignType::Array(ty.to_owned()));
            return Some(());
        }
        let declared = match (&variable.value, ty) {
            (Some(value), "") => self.scope.type_of(value),
            _ => ForeignType::scalar(ty),
        };
        let text = match &variable.value {
            None if ty.is_empty() => return None,
            None => format!("var {name}: {ty}"),
            Some(value) => {
                let own = self.scope.type_of(value);
                let printed = if ty.is_empty() { self.expr(value)? } else { self.printer().converted(value, ty)? };
                // A float literal is an `f32`, and a variable has the type of its value.
                let is_stated = match own {
                    _ if ty.is_empty() => false,
                    ForeignType::Decimal => ty != "f32",
                    ForeignType::Integer => ty != "f32",
                    ForeignType::Scalar(_) => false,
                    _ => true,
                };
                let stated = if is_stated { format!(": {ty}") } else { String::new() };
                format!("{word} {name}{stated} = {printed}")
            }
        };
        self.line(&text);
        self.scope.variables.insert(name.clone(), declared);
        Some(())
    }

    /// Prints `let` and `var` of Clk.
    fn bind(&mut self, word: &str, pattern: &str, value: Option<&ForeignExpr>) -> Option<()> {
        let (name, stated) = match pattern.split_once(':') {
            Some((name, ty)) => (name.trim(), Some(ty.trim())),
            None => (pattern.trim(), None),
        };
        let Some(value) = value else {
            let (Some(ty), "var") = (stated, word) else { return None };
            self.line(&format!("var {name}: {ty}"));
            self.scope.variables.insert(name.to_owned(), stated_type(ty));
            return Some(());
        };
        // `[0.0; 4]` in a kernel or a function is an array of constant extent.
        if let ForeignExpr::Call(callee, args) = value
            && callee.is_name("full")
            && self.nested
            && let [count, element] = &args[..]
            && count.value.integer().is_some()
        {
            let ty = self.scope.type_of(&element.value).scalar_name().unwrap_or("f32").to_owned();
            let (count, element) = (self.expr(&count.value)?, self.expr(&element.value)?);
            self.line(&format!("var {name}: [{ty}; {count}] = {element}"));
            self.scope.variables.insert(name.to_owned(), ForeignType::Array(ty));
            return Some(());
        }
        if let ForeignExpr::Closure(params, body) = value {
            return self.closure(name, params, body);
        }
        if let Some((text, ty)) = self.numba_array(name, value) {
            self.line(&text);
            self.scope.variables.insert(name.to_owned(), ty);
            return Some(());
        }
        let text = match stated {
            Some(ty) => format!("{word} {name}: {ty} = {}", self.printer().converted(value, ty)?),
            None => format!("{word} {pattern} = {}", self.expr(value)?),
        };
        let declared = stated.map_or_else(|| self.scope.type_of(value), stated_type);
        self.line(&text);
        for name in name.trim_matches(['(', ')']).split(',') {
            self.scope.variables.insert(name.trim().to_owned(), declared.clone());
        }
        Some(())
    }

    /// Returns the declaration of `cuda.shared.array(64, float32)` and `cuda.local.array(…)`.
    fn numba_array(&self, name: &str, value: &ForeignExpr) -> Option<(String, ForeignType)> {
        let ForeignExpr::Call(callee, args) = value else { return None };
        let path = callee.path()?;
        let is_shared = path.ends_with("shared.array");
        if !is_shared && !path.ends_with("local.array") {
            return None;
        }
        let arg = |index: usize, key: &str| {
            let named = args.iter().find(|arg| arg.name.as_deref() == Some(key)).map(|arg| &arg.value);
            positional(args, index).or(named)
        };
        let extents = match arg(0, "shape")? {
            ForeignExpr::Tuple(parts) => {
                parts.iter().map(|e| self.expr(e)).collect::<Option<Vec<String>>>()?.join(", ")
            }
            other => self.expr(other)?,
        };
        let ty = arg(1, "dtype").and_then(ForeignExpr::path).unwrap_or_else(|| "float32".to_owned());
        let ty = crate::mistakes::c_type(ty.rsplit('.').next()?)?;
        let text = match is_shared {
            true => format!("shared {name}: [{ty}; {extents}]"),
            false => format!("var {name}: [{ty}; {extents}] = {}", if ty.starts_with('f') { "0.0" } else { "0" }),
        };
        Some((text, ForeignType::Array(ty.to_owned())))
    }

    fn assign(
        &mut self,
        place: &ForeignExpr,
        op: &'static str,
        value: &ForeignExpr,
        later: &[ForeignStmt],
    ) -> Option<()> {
        match place {
            ForeignExpr::Name(name) if op.is_empty() && self.is_own_index(name, value) => Some(()),
            ForeignExpr::Name(name) if op.is_empty() && !self.scope.declares(name) => {
                if let ForeignExpr::Closure(params, body) = value {
                    return self.closure(name, params, body);
                }
                if let Some((text, ty)) = self.numba_array(name, value) {
                    self.line(&text);
                    self.scope.variables.insert(name.clone(), ty);
                    return Some(());
                }
                if let ForeignExpr::List(parts) = value
                    && parts.is_empty()
                {
                    let ty = appended_type(name, later, &self.scope);
                    self.line(&format!(
                        "var {name} = zeros(0{})",
                        if ty == "f32" { String::new() } else { format!(", type = {ty}") }
                    ));
                    self.scope.variables.insert(name.clone(), ForeignType::Array(ty));
                    return Some(());
                }
                let ty = self.scope.type_of(value);
                let is_grown = later.iter().any(|stmt| changes_elements(stmt, name));
                let word = if is_grown { "var" } else { self.word_of(name) };
                // An integer literal takes its type from the first use.
                let becomes_float =
                    ty == ForeignType::Integer && word == "var" && added_float(name, later, &self.scope);
                let text = match becomes_float {
                    true => self.printer().converted(value, "f32")?,
                    false => self.expr(value)?,
                };
                self.line(&format!("{word} {name} = {text}"));
                let ty = match ty {
                    ForeignType::Integer if becomes_float => ForeignType::scalar("f32"),
                    ForeignType::Integer => ForeignType::scalar("i32"),
                    ForeignType::Decimal => ForeignType::scalar("f32"),
                    other => other,
                };
                self.scope.variables.insert(name.clone(), ty);
                Some(())
            }
            // `square(x) = x * x` of Julia.
            ForeignExpr::Call(callee, args) if op.is_empty() => {
                let names = args.iter().map(|arg| match &arg.value {
                    ForeignExpr::Name(name) if arg.name.is_none() => Some(name.clone()),
                    _ => None,
                });
                let params = names.collect::<Option<Vec<String>>>()?;
                // `x(i) = 1` is an element in other languages.
                if !params.iter().all(|param| value.uses(param)) {
                    return None;
                }
                self.closure(&callee.path()?, &params, value)
            }
            ForeignExpr::Tuple(places) if op.is_empty() => self.assign_several(places, value, later),
            ForeignExpr::Name(_) | ForeignExpr::Index(..) | ForeignExpr::Field(..) | ForeignExpr::Pointee(_) => {
                let target = self.expr(place)?;
                let ty = self.scope.type_of(place);
                let text = match &ty {
                    ForeignType::Scalar(name) => self.printer().converted(value, name)?,
                    ForeignType::Array(_) | ForeignType::Unknown | ForeignType::Text => self.expr(value)?,
                    ForeignType::Integer | ForeignType::Decimal => self.expr(value)?,
                };
                match op {
                    "//" if !ty.is_float() => self.line(&format!("{target} /= {text}")),
                    "//" => self.line(&format!("{target} = floor({target} / {text})")),
                    _ => self.line(&format!("{target} {op}= {text}")),
                }
                Some(())
            }
            _ => None,
        }
    }

    /// Prints `a, b = b, a` and `x, y = f(z)`.
    fn assign_several(&mut self, places: &[ForeignExpr], value: &ForeignExpr, later: &[ForeignStmt]) -> Option<()> {
        let new =
            |p: &Self| places.iter().all(|place| matches!(place, ForeignExpr::Name(name) if !p.scope.declares(name)));
        let names: Vec<String> = places.iter().filter_map(ForeignExpr::path).collect();
        if new(self) {
            // The names are not new if the values use them.
            if names.iter().any(|name| value.uses(name)) {
                return None;
            }
            let word = if names.iter().any(|name| self.word_of(name) == "var") { "var" } else { "let" };
            let text = self.expr(value)?;
            self.line(&format!("{word} ({}) = {text}", names.join(", ")));
            for (index, name) in names.iter().enumerate() {
                let ty = match value {
                    ForeignExpr::Tuple(values) => values.get(index).map(|v| self.scope.type_of(v)).unwrap_or_default(),
                    _ => ForeignType::Unknown,
                };
                self.scope.variables.insert(name.clone(), ty);
            }
            return Some(());
        }
        if let ForeignExpr::Tuple(values) = value {
            if values.len() != places.len() {
                return None;
            }
            // Every value is computed before the first assignment.
            let is_independent = places.iter().enumerate().all(|(index, place)| {
                let base = match place {
                    ForeignExpr::Index(base, _) => base.path(),
                    other => other.path(),
                };
                base.is_some_and(|base| !values.iter().skip(index + 1).any(|value| value.uses(&base)))
            });
            if is_independent {
                return places.iter().zip(values).try_for_each(|(place, value)| self.assign(place, "", value, later));
            }
        }
        let places = places.iter().map(|place| self.expr(place)).collect::<Option<Vec<_>>>()?;
        let text = self.expr(value)?;
        self.line(&format!("({}) = {text}", places.join(", ")));
        Some(())
    }

    /// Prints an expression as a statement.
    fn value(&mut self, e: &ForeignExpr) -> Option<()> {
        if let ForeignExpr::Call(callee, args) = e
            && let ForeignExpr::Field(base, method) = &**callee
            && matches!(method.as_str(), "append" | "push")
            && let Some(value) = positional(args, 0)
        {
            let array = self.expr(base)?;
            let text = self.expr(value)?;
            self.line(&format!("{array} = concat({array}, [{text}])"));
            return Some(());
        }
        if let Some((condition, message)) = test_assertion(e) {
            let shape = StmtShape::Assert(condition, message);
            return self.statement(&ForeignStmt::new(shape), &[]);
        }
        let text = self.expr(e)?;
        self.line(&text);
        Some(())
    }
}

/// Returns the parameters and indices that a head of Clk declares, with their types.
fn declared_in_head(head: &str) -> Vec<(String, ForeignType)> {
    let parts = head.split(['(', ',', ';', ')', '<', '>']);
    let named = parts.filter_map(|part| part.split_once(':'));
    named
        .map(|(name, ty)| {
            let name = name.split_whitespace().last().unwrap_or_default().to_owned();
            let ty = match stated_type(ty.trim()) {
                // An index of `threads(i: N)`.
                ForeignType::Scalar(ty) if clk_scalar::Scalar::from_name(&ty).is_none() => ForeignType::scalar("i32"),
                ty => ty,
            };
            (name, ty)
        })
        .collect()
}

/// Returns the type that a text states: `f32`, `[f32; N]`.
pub(super) fn stated_type(text: &str) -> ForeignType {
    match text.strip_prefix('[') {
        Some(rest) => ForeignType::Array(rest.split([';', ']']).next().unwrap_or("").trim().to_owned()),
        None if text.starts_with('(') => ForeignType::Unknown,
        None => ForeignType::scalar(text),
    }
}

/// Returns the condition and the message of an assertion of a test framework: `self.assertEqual(a, b)`.
fn test_assertion(e: &ForeignExpr) -> Option<(ForeignExpr, Option<ForeignExpr>)> {
    let ForeignExpr::Call(callee, args) = e else { return None };
    let path = callee.path()?;
    let values: Vec<ForeignExpr> = args.iter().filter(|arg| arg.name.is_none()).map(|arg| arg.value.clone()).collect();
    let arg = |value: &ForeignExpr| ForeignArgument { name: None, value: value.clone() };
    let call =
        |name: &str| ForeignExpr::Call(Box::new(ForeignExpr::name(name)), values.iter().take(2).map(arg).collect());
    let pair = |op| Some(ForeignExpr::binary(op, values.first()?.clone(), values.get(1)?.clone()));
    let condition = match path.rsplit('.').next()? {
        "assertTrue" => values.first()?.clone(),
        "assertFalse" => ForeignExpr::Unary("!", Box::new(values.first()?.clone())),
        "assertEqual" | "assert_equal" | "assert_array_equal" | "assert_eq" => pair("==")?,
        "assertNotEqual" => pair("!=")?,
        "assertLess" => pair("<")?,
        "assertGreater" => pair(">")?,
        "assertAlmostEqual" | "assert_allclose" | "assert_array_almost_equal" | "assert_almost_equal" => call("close"),
        _ => return None,
    };
    Some((condition, None))
}

/// Returns the opposite of a comparison, or `!` of another condition.
fn negated(condition: ForeignExpr) -> ForeignExpr {
    match condition {
        ForeignExpr::Unary("!", inner) => match *inner {
            ForeignExpr::Binary(op, a, b) => {
                // For NaN, both `a < b` and `a >= b` are false.
                let opposite = match op {
                    "==" => "!=",
                    "!=" => "==",
                    _ => return ForeignExpr::Unary("!", Box::new(ForeignExpr::Binary(op, a, b))),
                };
                ForeignExpr::Binary(opposite, a, b)
            }
            other => ForeignExpr::Unary("!", Box::new(other)),
        },
        other => other,
    }
}
