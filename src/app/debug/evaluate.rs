//! Evaluates the user's expressions at a thread's current location.
//!
//! Input: an expression and a thread. Output: its value as text, or an error. The expression becomes the body of a
//! kernel whose parameters are the variables that it uses. The kernel is checked and lowered like any other, and the
//! stepper runs it without changing the state. Expressions may thus call functions of the program.

use std::collections::HashMap;
use std::sync::Arc;

use super::frame::{NamedContents, contents_of, machine_text, stored_bytes};
use super::stmt_table::{ProgramSource, ScopedName};
use crate::command_error::CommandResult;
use clk_base::render::{self, RenderStyle};
use clk_base::source::{FileId, Span};
use clk_check::format_types::Show;
use clk_check::typed::{Program, Type};
use clk_compile::{NoFiles, Session};
use clk_ir::PreparedKernel;
use clk_ir::def::{Leaf, Ty};
use clk_lower::Instance;
use clk_step::{BlockState, LaunchSnapshot, ParamValue, Thread, ThreadValue, ask};
use clk_syntax::token::Tok;

/// Name of the generated kernel that evaluates an expression.
const NAME: &str = "value_of_expression";

/// Evaluates expressions of one program, and caches their compiled kernels.
pub(crate) struct Evaluator {
    session: Session,
    compiled: HashMap<String, CommandResult<Arc<PreparedKernel>>>,
}

impl Evaluator {
    pub fn new(session: &Session) -> Evaluator {
        Evaluator { session: session.clone(), compiled: HashMap::new() }
    }

    /// Returns the text of an expression's value in a frame of a thread.
    pub fn value(&mut self, text: &str, source: &ProgramSource, look: &InspectedFrame<'_, '_>) -> CommandResult {
        let (mut params, mut given) = (vec![], vec![]);
        for name in names_in(text, &source.visible(look.at)) {
            let Some(found) = look.thread.frames.get(look.depth).and_then(|frame| contents_of(name, frame)) else {
                return Err(format!("`{}` is nothing that a thread holds", name.name).into());
            };
            let (ty, parameters) = parameter(&self.session.program, name, found, look)?;
            params.push(format!("{}: {ty}", name.name));
            given.extend(parameters);
        }
        let kernel = format!("kernel {NAME}({}) grid(1) block(1) {{\n    print(({text}))\n}}", params.join(", "));
        let module = self.compiled(kernel)?;
        let printed = ask(look.state, look.block, look.thread, &module.module, &given)?;
        Ok(printed.trim_end_matches('\n').to_string())
    }

    /// Evaluates a condition; an expression that is not a Boolean is an error.
    pub fn holds(&mut self, text: &str, source: &ProgramSource, look: &InspectedFrame<'_, '_>) -> CommandResult<bool> {
        match self.value(text, source, look)?.as_str() {
            "true" => Ok(true),
            "false" => Ok(false),
            other => Err(format!("`{text}` is {other}, and a condition is `true` or `false`").into()),
        }
    }

    fn compiled(&mut self, kernel: String) -> CommandResult<Arc<PreparedKernel>> {
        if let Some(known) = self.compiled.get(&kernel) {
            return known.clone();
        }
        let compiled = compiled(&self.session, &kernel).map(Arc::new);
        self.compiled.insert(kernel, compiled.clone());
        compiled
    }
}

/// A frame of a thread, in which expressions are evaluated.
pub(crate) struct InspectedFrame<'a, 'm> {
    pub state: &'a LaunchSnapshot<'m>,
    pub block: &'a BlockState<'m>,
    pub thread: &'a Thread<'m>,
    pub depth: usize,
    /// The span of the statement that the frame is executing.
    pub at: Span,
}

/// Returns the visible variables whose names occur in a text.
fn names_in<'n>(text: &str, visible: &[&'n ScopedName]) -> Vec<&'n ScopedName> {
    let tokens = clk_syntax::lex(FileId(0), text).tokens;
    let occurs = |name: &&&ScopedName| tokens.iter().any(|t| t.kind == Tok::Name && t.text(text) == name.name);
    visible.iter().filter(occurs).copied().collect()
}

/// Returns the type and the values of the parameter that passes a variable to the generated kernel.
fn parameter(
    program: &Program,
    name: &ScopedName,
    found: NamedContents<'_>,
    look: &InspectedFrame<'_, '_>,
) -> CommandResult<(String, Vec<ParamValue>)> {
    let show = |ty: &Type| Show { program, sig: None, vars: None }.ty(ty);
    match found {
        NamedContents::Leaves(leaves) => {
            let ty = match leaves.as_slice() {
                [(path, ty, _)] if path.is_empty() => machine_text(*ty),
                _ => show(&name.ty),
            };
            let value = |(path, ty, value): &(String, Ty, Option<ThreadValue>)| {
                let dot = if path.is_empty() { "" } else { "." };
                let value = value.ok_or_else(|| format!("`{}{dot}{path}` has no value yet", name.name))?;
                Ok(ParamValue::Value(ThreadValue { ty: *ty, ..value }))
            };
            Ok((ty, leaves.iter().map(value).collect::<CommandResult<_>>()?))
        }
        NamedContents::Array(array) => {
            let element = match (array.layout.leaves.as_slice(), &name.ty) {
                ([leaf], _) if leaf.path.is_empty() => machine_text(leaf.ty),
                (_, Type::Array(ty)) => show(&ty.element),
                (_, ty) => show(ty),
            };
            if array.extents.is_empty() {
                // An array without axes is a scalar in shared memory.
                let bytes = stored_bytes(look.state, look.block, look.thread, array.store);
                let value = |leaf: &Leaf| bytes?.get(leaf.offset, leaf.ty).map(ParamValue::Value);
                let values: Option<Vec<ParamValue>> = array.layout.leaves.iter().map(value).collect();
                return Ok((element, values.ok_or_else(|| format!("`{}` has no value yet", name.name))?));
            }
            let extents: Vec<String> = array.extents.iter().map(u32::to_string).collect();
            let ty = format!("[{element}; {}]", extents.join(", "));
            Ok((ty, vec![ParamValue::Array(array.store, array.extents.clone())]))
        }
    }
}

fn compiled(session: &Session, kernel: &str) -> CommandResult<PreparedKernel> {
    let mut session = session.clone();
    let outcome = session.add("<expression>", kernel, &NoFiles);
    let mut failed = outcome.diagnostics.into_iter().filter(|d| d.is_error());
    if let Some(first) = failed.next() {
        let style = RenderStyle { color: false, ascii: false, width: 100 };
        return Err(render::text(&first, &session.sources, style).trim_end().into());
    }
    let program = &session.program;
    let kernel = program.kernels_of(session.main).filter(|(_, kernel)| kernel.name == NAME).map(|(id, _)| id).last();
    let kernel = kernel.ok_or("it cannot be compiled")?;
    clk_compile::compile_unoptimized(program, &Instance::new(kernel, vec![]))
        .map_err(|found| found.first().map_or("it cannot be compiled", |first| first.title.as_str()).into())
}
