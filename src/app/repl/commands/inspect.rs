//! Commands that show types, documentation, variables, memory and code.

use std::fmt::Write as _;

use crate::app::repl::state::{Answer, Repl};
use crate::app::{cli, markdown, names};
use crate::base::arena::Id;
use crate::check;
use crate::check::typed::{Access, Binding, Geometry, Global, Module, Type, World};
use crate::host::array::{Array, Footprint};
use crate::host::format;
use crate::host::ops::{self, Reduce};
use crate::host::problem::Outcome;
use crate::host::value::Value;

impl Repl<'_> {
    /// Returns the module that entries extend.
    pub(super) fn module(&self) -> Option<&Module> {
        self.session.program.modules.get(self.session.main?)
    }

    /// Returns the binding of a name.
    pub(in crate::app::repl) fn binding(&self, name: &str) -> Option<Binding> {
        self.module()?.names.get(name).copied()
    }

    pub(super) fn value(&self, id: Id<Global>) -> Option<&Value> {
        self.interpreter.globals.get(id.index()).and_then(Option::as_ref)
    }

    /// Returns the type of an expression, by compiling it in a copy of the session.
    pub(super) fn type_of(&mut self, expression: &str) -> Answer {
        if expression.is_empty() {
            return Err("`:type` wants an expression".into());
        }
        let mut trial = self.session.clone();
        let outcome =
            trial.enter("<type>", &format!("let _type = (\n{expression}\n)"), &crate::app::disk::Disk).outcome;
        if outcome.failed() {
            self.context.console.report_all(&outcome.diagnostics, &trial.sources);
            return Ok(String::new());
        }
        let found = trial.main.and_then(|main| match trial.program.modules.get(main)?.names.get("_type")? {
            Binding::Global(id) => trial.program.globals.get(*id),
            _ => None,
        });
        let global = found.ok_or("only an expression has a type")?;
        match global.ty {
            Type::Unknown => Ok("known when it runs\n".into()),
            _ => Ok(check::show_type(&trial.program, None, &global.ty) + "\n"),
        }
    }

    /// Returns the documentation of a name, with the session's definitions taking precedence.
    pub(in crate::app::repl) fn doc(&mut self, name: &str) -> Answer {
        let style = self.context.console.style;
        let (first, member) = name.split_once('.').map_or((name, None), |(first, member)| (first, Some(member)));
        let path = match self.binding(first) {
            Some(Binding::Global(_)) if member.is_none() => return self.info(name),
            Some(Binding::Module(id)) => {
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

    pub(in crate::app::repl) fn info(&mut self, name: &str) -> Answer {
        let program = &self.session.program;
        let text = match self.binding(name) {
            None => {
                let near = names::did_you_mean(
                    name,
                    self.module().into_iter().flat_map(|m| m.names.keys().map(|k| k.as_str())),
                );
                return match crate::lang::builtin::find(name) {
                    Some(_) => self.doc(name),
                    None => Err(format!(
                        "nothing here is called `{name}`; {}",
                        near.unwrap_or("`:vars` lists what is".into())
                    )),
                };
            }
            Some(Binding::Global(id)) => match about_variable(&program.globals[id], self.value(id)) {
                Ok(text) => text,
                Err(problem) => {
                    self.report_all(&[problem.anywhere()]);
                    return Ok(String::new());
                }
            },
            Some(Binding::Kernel(id)) => {
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
            Some(Binding::Fn(id)) => {
                let world = match program.fns[id].world {
                    World::Both => "anywhere",
                    World::Host => "in scripts, not in kernels",
                    World::Device => "in kernels, not in scripts",
                };
                format!("{}runs       {world}\n", self.source_line(name))
            }
            Some(_) => return self.doc(name),
        };
        Ok(text)
    }

    /// Returns the head of a definition and where it was entered.
    fn source_line(&self, name: &str) -> String {
        let program = &self.session.program;
        let span = match self.binding(name) {
            Some(Binding::Kernel(id)) => program.kernels[id].span,
            Some(Binding::Fn(id)) => program.fns[id].span,
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
                Binding::Global(id) => {
                    // Kept values such as `_3` would dominate the list.
                    if name.starts_with('_') {
                        continue;
                    }
                    let word = if program.globals[id].mutable { "var" } else { "let" };
                    format!("{word} {name}: {}", self.value(id).map_or("(no value yet)".into(), short))
                }
                Binding::Fn(_) => format!("fn {name}"),
                Binding::Kernel(_) => format!("kernel {name}"),
                Binding::Struct(_) => format!("struct {name}"),
                Binding::Const(_) => format!("const {name}"),
                Binding::Module(_) => format!("import {name}"),
                Binding::Error => continue,
            };
            text += &line;
            text.push('\n');
        }
        for (name, why) in self.session.definitions.set_aside() {
            let _ = writeln!(text, "{name} (set aside: {why})");
        }
        text
    }

    /// Lists the arrays bound to variables and where they are, largest first.
    pub(super) fn memory(&self) -> String {
        let mut rows: Vec<(usize, &str, String)> = Vec::new();
        let mut held: Vec<&Array> = Vec::new();
        for (name, binding) in self.module().into_iter().flat_map(|m| &m.names) {
            if let Binding::Global(id) = binding
                && let Some(value) = self.value(*id)
            {
                let place = match value {
                    Value::Array(array) => format!(", {}", array.place()),
                    _ => String::new(),
                };
                rows.push((value.byte_len(), name, value.type_name() + &place));
                if let Value::Array(array) = value {
                    held.push(array);
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
        let Footprint { host, device } = Footprint::of(&held);
        let _ = writeln!(text, "{:>10}  of it on the host", format::size(host));
        if device > 0 {
            let _ = writeln!(text, "{:>10}  of it on a GPU", format::size(device));
        }
        text
    }
}

/// Describes a variable; an array of numbers with its range.
fn about_variable(global: &Global, value: Option<&Value>) -> Outcome<String> {
    let word = if global.mutable { "var" } else { "let" };
    let Some(value) = value else { return Ok(format!("{word} {}: no value yet\n", global.name)) };
    let Value::Array(array) = value else {
        let shown = match value {
            Value::Table(_) => format!("\n{}", format::print(value)?),
            _ => format!(" = {}", format::brief(value)?),
        };
        return Ok(format!("{word} {}: {}{shown}\n", global.name, value.type_name()));
    };
    let mut text = format!("{word} {}: {}\n", global.name, format::describe(array));
    let Some(scalar) = array.scalar().filter(|scalar| scalar.is_num()) else { return Ok(text) };
    // Where it cannot be read, that is the answer; after this, a reduction fails only if it is none for this type.
    array.bytes()?;
    let numbers = [("min", Reduce::Min), ("max", Reduce::Max), ("mean", Reduce::Mean)];
    for (label, how) in numbers {
        if array.count() > 0
            && let Ok(found) = ops::reduce(how, value, None)
        {
            let _ = writeln!(text, "  {label:<5} {}", format::print(&found)?);
        }
    }
    if scalar.is_float() {
        let strange = count_not_finite(value)?;
        if strange > 0 {
            let _ = writeln!(text, "  {strange} of {} elements are NaN or infinite", array.count());
        }
    }
    Ok(text)
}

/// Formats a value in brief.
fn short(value: &Value) -> String {
    match value {
        Value::Scalar(_) | Value::Str(_) | Value::Vector(_) => {
            let text = format::brief(value).unwrap_or_else(|problem| problem.title);
            let text = if text.chars().count() > 40 { text.chars().take(40).collect::<String>() + "…" } else { text };
            format!("{} = {text}", value.type_name())
        }
        Value::Array(array) => format::describe(array),
        other => other.type_name(),
    }
}

fn count_not_finite(value: &Value) -> Outcome<usize> {
    match ops::math(crate::lang::ops::MathFn::IsFinite, std::slice::from_ref(value))? {
        Value::Array(flags) => Ok(flags.bytes()?.iter().filter(|&&b| b == 0).count()),
        _ => Ok(0),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::base::source::Span;
    use crate::device::storage::Gone;
    use crate::host::array::Array;

    #[test]
    fn a_variable_on_a_failed_device_cannot_be_described() {
        let global = Global { name: "x".into(), ty: Type::Unknown, mutable: false, span: Span::default() };
        let mut array = Array::from_items(&[1.0f32, 2.0]).expect("an array");
        let about = |array: &Array| about_variable(&global, Some(&Value::Array(array.clone())));
        assert_eq!(about(&array).expect("a text").lines().count(), 4);
        array.storage_mut().expect("memory").written_remotely(Arc::new(Gone::unavailable()));
        assert_eq!(about(&array).expect_err("lost").code, "E0595");
        let pair = Value::Tuple(vec![Value::i32(1), Value::Array(array)]);
        assert_eq!(about_variable(&global, Some(&pair)).expect_err("lost").code, "E0595");
        assert_eq!(short(&pair), "(i32, [f32; 2])");
    }
}
