//! Expressions of the user, evaluated where a thread is.
//!
//! In: a text, and a thread. Out: its value as text, or why it has none. Idea: the expression becomes the body of a kernel whose parameters
//! are the names in it that the thread sees; it is checked and lowered as any other, and the stepper runs it in the thread's place. So
//! all that kernels can compute can be asked for, functions of the program included, and nothing changes by it.

use std::collections::HashMap;
use std::sync::Arc;

use super::frame::{Held, bytes, held, machine_text};
use super::table::{Name, Source};
use crate::base::render::{self, Style};
use crate::base::source::{FileId, Span};
use crate::check::show::Show;
use crate::check::typed::{Program, Type};
use crate::compile::{self, NoFiles, Session};
use crate::device::fault_text;
use crate::device::step::{Block, NoAnswer, Parameter, State, Thread, Val, ask};
use crate::ir::Prepared;
use crate::ir::def::{Leaf, Ty};
use crate::lower::Instance;
use crate::syntax::{self, token::Tok};

/// The kernel that evaluates an expression.
const NAME: &str = "value_of_expression";

/// Expressions that were compiled, for a program.
pub(crate) struct Evaluator {
    session: Session,
    compiled: HashMap<String, Result<Arc<Prepared>, String>>,
}

impl Evaluator {
    pub fn new(session: &Session) -> Evaluator {
        Evaluator { session: session.clone(), compiled: HashMap::new() }
    }

    /// Evaluates an expression in a frame of a thread, at this place in the source.
    pub fn value(&mut self, text: &str, source: &Source, look: &Look<'_, '_>) -> Result<String, String> {
        let (mut params, mut given) = (vec![], vec![]);
        for name in names_in(text, &source.visible(look.at)) {
            let Some(found) = look.thread.frames.get(look.depth).and_then(|frame| held(name, frame)) else {
                return Err(format!("`{}` is nothing that a thread holds", name.name));
            };
            let (ty, parameters) = parameter(&self.session.program, name, found, look)?;
            params.push(format!("{}: {ty}", name.name));
            given.extend(parameters);
        }
        let kernel = format!("kernel {NAME}({}) grid(1) block(1) {{\n    print(({text}))\n}}", params.join(", "));
        let module = self.compiled(kernel)?;
        let printed = ask(look.state, look.block, look.thread, &module.module, &given).map_err(|why| match why {
            NoAnswer::Fault(kind) => fault_text(&kind),
            NoAnswer::Waits => "it waits for other threads".to_string(),
            NoAnswer::Unwritten(array) => format!("`{array}` holds nothing there yet"),
        })?;
        Ok(printed.trim_end_matches('\n').to_string())
    }

    /// Evaluates a condition.
    pub fn holds(&mut self, text: &str, source: &Source, look: &Look<'_, '_>) -> Result<bool, String> {
        match self.value(text, source, look)?.as_str() {
            "true" => Ok(true),
            "false" => Ok(false),
            other => Err(format!("`{text}` is {other}, and a condition is `true` or `false`")),
        }
    }

    fn compiled(&mut self, kernel: String) -> Result<Arc<Prepared>, String> {
        if let Some(known) = self.compiled.get(&kernel) {
            return known.clone();
        }
        let compiled = compiled(&self.session, &kernel).map(Arc::new);
        self.compiled.insert(kernel, compiled.clone());
        compiled
    }
}

/// A thread that is looked at, in one of its frames.
pub(crate) struct Look<'a, 'm> {
    pub state: &'a State<'m>,
    pub block: &'a Block<'m>,
    pub thread: &'a Thread<'m>,
    pub depth: usize,
    /// The statement where the frame is.
    pub at: Span,
}

/// Returns the visible names that occur in a text.
fn names_in<'n>(text: &str, visible: &[&'n Name]) -> Vec<&'n Name> {
    let tokens = syntax::lex(FileId(0), text).tokens;
    let occurs = |name: &&&Name| tokens.iter().any(|t| t.kind == Tok::Name && t.text(text) == name.name);
    visible.iter().filter(occurs).copied().collect()
}

/// Returns the type of a parameter that stands for a name, and its values.
fn parameter(
    program: &Program,
    name: &Name,
    found: Held<'_>,
    look: &Look<'_, '_>,
) -> Result<(String, Vec<Parameter>), String> {
    let show = |ty: &Type| Show { program, sig: None, vars: None }.ty(ty);
    match found {
        Held::Leaves(leaves) => {
            let ty = match leaves.as_slice() {
                [(path, ty, _)] if path.is_empty() => machine_text(*ty),
                _ => show(&name.ty),
            };
            let value = |(path, ty, value): &(String, Ty, Option<Val>)| {
                let dot = if path.is_empty() { "" } else { "." };
                let value = value.ok_or_else(|| format!("`{}{dot}{path}` has no value yet", name.name))?;
                Ok(Parameter::Value(Val { ty: *ty, ..value }))
            };
            Ok((ty, leaves.iter().map(value).collect::<Result<_, String>>()?))
        }
        Held::Array(array) => {
            let element = match (array.layout.leaves.as_slice(), &name.ty) {
                ([leaf], _) if leaf.path.is_empty() => machine_text(leaf.ty),
                (_, Type::Array(ty)) => show(&ty.element),
                (_, ty) => show(ty),
            };
            if array.extents.is_empty() {
                // A shared scalar.
                let bytes = bytes(look.state, look.block, look.thread, array.store);
                let value = |leaf: &Leaf| bytes?.get(leaf.offset, leaf.ty).map(Parameter::Value);
                let values: Option<Vec<Parameter>> = array.layout.leaves.iter().map(value).collect();
                return Ok((element, values.ok_or_else(|| format!("`{}` has no value yet", name.name))?));
            }
            let extents: Vec<String> = array.extents.iter().map(u32::to_string).collect();
            let ty = format!("[{element}; {}]", extents.join(", "));
            Ok((ty, vec![Parameter::Array(array.store, array.extents.clone())]))
        }
    }
}

fn compiled(session: &Session, kernel: &str) -> Result<Prepared, String> {
    let mut session = session.clone();
    let outcome = session.add("<expression>", kernel, &NoFiles);
    let mut failed = outcome.diagnostics.into_iter().filter(|d| d.is_error());
    if let Some(first) = failed.next() {
        let style = Style { color: false, ascii: false, width: 100 };
        return Err(render::text(&first, &session.sources, style).trim_end().to_string());
    }
    let program = &session.program;
    let kernel = program.kernels_of(session.main).filter(|(_, kernel)| kernel.name == NAME).map(|(id, _)| id).last();
    let kernel = kernel.ok_or("it cannot be compiled")?;
    compile::named(program, &Instance::new(kernel, vec![]))
        .map_err(|found| found.first().map_or_else(|| "it cannot be compiled".to_string(), |first| first.title.clone()))
}
