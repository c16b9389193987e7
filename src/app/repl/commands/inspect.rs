//! Commands that show types, documentation, variables, memory and code.

use std::fmt::Write as _;

use crate::command_error::CommandResult;
use crate::repl::state::Repl;
use crate::{cli, markdown, suggestions};
use clk_base::arena::Id;
use clk_check::typed::{Access, ExecutionSpace, Geometry, Global, Module, NameBinding, Type};
use clk_host::ExecContext;
use clk_host::array::{Array, ArrayBytes};
use clk_host::format;
use clk_host::ops::{self, ReduceKind};
use clk_host::problem::HostResult;
use clk_host::value::HostValue;

impl Repl<'_> {
    /// Returns the main module of the session, to which entries add definitions.
    pub(super) fn module(&self) -> Option<&Module> {
        self.session.program.modules.get(self.session.main?)
    }

    /// Resolves a name in the session.
    pub(in crate::repl) fn binding(&self, name: &str) -> Option<NameBinding> {
        self.module()?.names.get(name).copied()
    }

    pub(super) fn value(&self, id: Id<Global>) -> Option<&HostValue> {
        self.interpreter.globals.get(id.index()).and_then(Option::as_ref)
    }

    /// Returns the type of an expression, by compiling it in a copy of the session.
    pub(super) fn type_of(&mut self, expression: &str) -> CommandResult {
        if expression.is_empty() {
            return Err("`:type` wants an expression".into());
        }
        let mut trial = self.session.clone();
        let outcome = trial.enter("<type>", &format!("let _type = (\n{expression}\n)"), &crate::disk::Disk).outcome;
        if outcome.failed() {
            self.context.console.report_all(&outcome.diagnostics, &trial.sources);
            return Ok(String::new());
        }
        let declared = trial.main.and_then(|main| match trial.program.modules.get(main)?.names.get("_type")? {
            NameBinding::Global(id) => trial.program.globals.get(*id),
            _ => None,
        });
        let global = declared.ok_or("only an expression has a type")?;
        match global.ty {
            Type::Unknown => Ok("known when it runs\n".into()),
            _ => Ok(clk_check::show_type(&trial.program, None, &global.ty) + "\n"),
        }
    }

    /// Returns the documentation of a name, with the session's definitions taking precedence.
    pub(in crate::repl) fn doc(&mut self, name: &str) -> CommandResult {
        let style = self.context.console.style;
        let (first, member) = name.split_once('.').map_or((name, None), |(first, member)| (first, Some(member)));
        let path = match self.binding(first) {
            Some(NameBinding::Global(_)) if member.is_none() => return self.info(name),
            Some(NameBinding::Module(id)) => {
                let module = self.session.program.modules.get(id).map(|m| m.name.to_string()).unwrap_or_default();
                member.map_or(module.clone(), |member| format!("{module}.{member}"))
            }
            Some(binding) if member.is_none() => {
                let page = cli::documented_item(name, binding, &self.session).unwrap_or_default();
                return Ok(markdown::render(&page, style));
            }
            _ => name.to_string(),
        };
        cli::documentation((!path.is_empty()).then_some(&path), style)
    }

    pub(in crate::repl) fn info(&mut self, name: &str) -> CommandResult {
        let program = &self.session.program;
        let text = match self.binding(name) {
            None => {
                let near = suggestions::did_you_mean(
                    name,
                    self.module().into_iter().flat_map(|m| m.names.keys().map(|k| k.as_str())),
                );
                return match clk_scalar::builtin::find(name) {
                    Some(_) => self.doc(name),
                    None => Err(format!(
                        "nothing here is called `{name}`; {}",
                        near.unwrap_or("`:vars` lists what is".into())
                    )
                    .into()),
                };
            }
            Some(NameBinding::Global(id)) => match about_variable(&program.globals[id], self.value(id)) {
                Ok(text) => text,
                Err(problem) => {
                    self.report_all(&[problem.anywhere()]);
                    return Ok(String::new());
                }
            },
            Some(NameBinding::Kernel(id)) => {
                let kernel = &program.kernels[id];
                let mut text = self.source_line(name);
                let written = |wanted: fn(Access) -> bool| {
                    let params = kernel.sig.params.iter().filter(|p| wanted(p.access));
                    params.map(|p| p.name.as_str()).collect::<Vec<_>>().join(", ")
                };
                let _ = writeln!(text, "reads      {}", written(|a| a != Access::Out));
                let _ = writeln!(text, "writes     {}", written(|a| a != Access::In));
                let dims: Vec<&str> = kernel.sig.dims.iter().map(|d| d.name.as_str()).collect();
                if !dims.is_empty() {
                    let _ = writeln!(text, "dimensions {}", dims.join(", "));
                }
                let form = match kernel.geometry {
                    Geometry::Threads { .. } => "one thread for every index",
                    Geometry::Grid { .. } if kernel.cooperative => {
                        "blocks that wait for each other (a cooperative launch)"
                    }
                    Geometry::Grid { .. } => "a grid of blocks",
                };
                let _ = writeln!(text, "runs as    {form}");
                text
            }
            Some(NameBinding::Fn(id)) => {
                let world = match program.fns[id].space {
                    ExecutionSpace::Both => "anywhere",
                    ExecutionSpace::Host => "in scripts, not in kernels",
                    ExecutionSpace::Device => "in kernels, not in scripts",
                };
                format!("{}runs       {world}\n", self.source_line(name))
            }
            Some(_) => return self.doc(name),
        };
        Ok(text)
    }

    /// Returns the signature of a kernel or function and the entry or file that defines it.
    fn source_line(&self, name: &str) -> String {
        let program = &self.session.program;
        let span = match self.binding(name) {
            Some(NameBinding::Kernel(id)) => program.kernels[id].span,
            Some(NameBinding::Fn(id)) => program.fns[id].span,
            _ => return String::new(),
        };
        let head = self.session.sources.slice(span).split('{').next().unwrap_or(name).trim();
        format!("{head}\ndefined in {}\n", self.session.sources.name(span.file))
    }

    pub(super) fn variables(&self) -> String {
        let program = &self.session.program;
        let Some(module) = self.module() else { return String::new() };
        let mut text = String::new();
        for (name, binding) in &module.names {
            let line = match *binding {
                NameBinding::Global(id) => {
                    // Values of earlier entries, such as `_3`, would dominate the list.
                    if name.starts_with('_') {
                        continue;
                    }
                    let word = if program.globals[id].mutable { "var" } else { "let" };
                    format!("{word} {name}: {}", self.value(id).map_or("(no value yet)".into(), short))
                }
                NameBinding::Fn(_) => format!("fn {name}"),
                NameBinding::Kernel(_) => format!("kernel {name}"),
                NameBinding::Struct(_) => format!("struct {name}"),
                NameBinding::Const(_) => format!("const {name}"),
                NameBinding::Module(_) => format!("import {name}"),
                NameBinding::Error => continue,
            };
            text += &line;
            text.push('\n');
        }
        for (name, why) in self.session.definitions.set_aside() {
            let _ = writeln!(text, "{name} (set aside: {why})");
        }
        text
    }

    /// Lists the arrays bound to variables, with their location (host or GPU), largest first.
    pub(super) fn memory(&self) -> String {
        let mut rows: Vec<(usize, &str, String)> = Vec::new();
        let mut arrays: Vec<&Array> = Vec::new();
        for (name, binding) in self.module().into_iter().flat_map(|m| &m.names) {
            if let NameBinding::Global(id) = binding
                && let Some(value) = self.value(*id)
            {
                let place = match value {
                    HostValue::Array(array) => format!(", {}", array.place()),
                    _ => String::new(),
                };
                rows.push((value.byte_len(), name, value.type_name() + &place));
                if let HostValue::Array(array) = value {
                    arrays.push(array);
                }
            }
        }
        rows.retain(|row| row.0 > 0);
        rows.sort_by_key(|row| std::cmp::Reverse(row.0));
        if rows.is_empty() {
            return "no variable holds an array\n".into();
        }
        let total: usize = rows.iter().map(|row| row.0).sum();
        let mut text = String::new();
        for (bytes, name, ty) in &rows {
            let _ = writeln!(text, "{:>10}  {name}: {ty}", format::size(*bytes));
        }
        let _ = writeln!(
            text,
            "{:>10}  in all; values that are copies of each other share their memory",
            format::size(total)
        );
        let ArrayBytes { host, device } = ArrayBytes::of(&arrays);
        let _ = writeln!(text, "{:>10}  of it on the host", format::size(host));
        if device > 0 {
            let _ = writeln!(text, "{:>10}  of it on a GPU", format::size(device));
        }
        text
    }
}

/// Describes a variable; for an array of numbers, includes its minimum, maximum and mean.
fn about_variable(global: &Global, value: Option<&HostValue>) -> HostResult<String> {
    let word = if global.mutable { "var" } else { "let" };
    let Some(value) = value else { return Ok(format!("{word} {}: no value yet\n", global.name)) };
    let HostValue::Array(array) = value else {
        let shown = match value {
            HostValue::Table(_) => format!("\n{}", format::print(value)?),
            _ => format!(" = {}", format::print_brief(value)?),
        };
        return Ok(format!("{word} {}: {}{shown}\n", global.name, value.type_name()));
    };
    let mut text = format!("{word} {}: {}\n", global.name, format::describe(array));
    let Some(scalar) = array.scalar().filter(|scalar| scalar.is_num()) else { return Ok(text) };
    // Reports an error if the array cannot be read. After that, a reduction fails only if the type does not support it.
    array.bytes()?;
    let exec = &ExecContext::default();
    let numbers = [("min", ReduceKind::Min), ("max", ReduceKind::Max), ("mean", ReduceKind::Mean)];
    for (label, how) in numbers {
        if array.count() > 0
            && let Ok(found) = ops::reduce(exec, how, value, None)
        {
            let _ = writeln!(text, "  {label:<5} {}", format::print(&found)?);
        }
    }
    if scalar.is_float() {
        let strange = count_not_finite(exec, value)?;
        if strange > 0 {
            let _ = writeln!(text, "  {strange} of {} elements are NaN or infinite", array.count());
        }
    }
    Ok(text)
}

/// Formats a value on one short line.
fn short(value: &HostValue) -> String {
    match value {
        HostValue::Scalar(_) | HostValue::Str(_) | HostValue::Vector(_) => {
            let text = format::print_brief(value).unwrap_or_else(|problem| problem.title);
            let text = if text.chars().count() > 40 { text.chars().take(40).collect::<String>() + "…" } else { text };
            format!("{} = {text}", value.type_name())
        }
        HostValue::Array(array) => format::describe(array),
        other => other.type_name(),
    }
}

fn count_not_finite(exec: &ExecContext, value: &HostValue) -> HostResult<usize> {
    match ops::math(exec, clk_scalar::ops::MathFn::IsFinite, std::slice::from_ref(value))? {
        HostValue::Array(flags) => Ok(flags.bytes()?.iter().filter(|&&b| b == 0).count()),
        _ => Ok(0),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use clk_base::source::Span;
    use clk_host::array::Array;
    use clk_runtime::storage::FailedMemory;

    #[test]
    fn variable_on_a_failed_device_is_an_error() {
        let global = Global { name: "x".into(), ty: Type::Unknown, mutable: false, span: Span::default() };
        let mut array = Array::from_items(&[1.0f32, 2.0]).expect("an array");
        let about = |array: &Array| about_variable(&global, Some(&HostValue::Array(array.clone())));
        assert_eq!(about(&array).expect("a text").lines().count(), 4);
        array.storage_mut().expect("memory").set_device_copy(Arc::new(FailedMemory::unavailable()));
        assert_eq!(about(&array).expect_err("lost").code, "E0595");
        let pair = HostValue::Tuple(vec![HostValue::i32(1), HostValue::Array(array)]);
        assert_eq!(about_variable(&global, Some(&pair)).expect_err("lost").code, "E0595");
        assert_eq!(short(&pair), "(i32, [f32; 2])");
    }
}
