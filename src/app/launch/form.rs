//! Launch requests as script text: a request is compiled as the statement `saxpy(alpha, x, y);`, once per combination of
//! argument types.
//!
//! This way launches from outside share the checking, binding and execution of scripts, and their error messages, which point
//! into that text.

use std::sync::Arc;

use indexmap::IndexMap;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use smol_str::{SmolStr, ToSmolStr};

use super::refusal::{Refusal, Result};
use crate::app::disk::Disk;
use crate::base::diag::Diagnostic;
use crate::base::source::Span;
use crate::check::typed::{
    Access, ArrayType, Binding, Dim, FnId, Global, GlobalId, KernelId, Module, Program, Signature, Type,
};
use crate::compile::Session;
use crate::lang::scalar::Scalar;

/// Source name of the text in diagnostics.
pub(crate) const NAME: &str = "<launch>";
/// Maximum number of cached forms; distinct combinations of argument types are rarely more.
const MOST: usize = 4096;

/// What is launched or called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Item {
    Kernel(KernelId),
    Function(FnId),
}

impl Item {
    pub fn signature(self, program: &Program) -> &Signature {
        match self {
            Item::Kernel(id) => &program.kernels[id].sig,
            Item::Function(id) => &program.fns[id].sig,
        }
    }
}

/// Cache key: everything that requires a new compilation if it changes.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub item: Item,
    /// The item as the request names it: `saxpy`, `linalg.matmul`.
    pub path: SmolStr,
    /// By parameter; `None` for an omitted `out` array.
    pub types: SmallVec<[Option<Given>; 6]>,
    /// Compile-time arguments: name and text.
    pub generics: Vec<(SmolStr, SmolStr)>,
    /// Names of the dimensions given explicitly.
    pub dims: Vec<SmolStr>,
    /// Whether grid and block are given.
    pub geometry: bool,
}

/// The type of an argument.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) enum Given {
    /// An array of such elements with so many axes.
    Array(Type, usize),
    Other(Type),
}

impl Given {
    pub fn of(ty: &Type) -> Given {
        match ty {
            Type::Array(array) => Given::Array(array.element.clone(), array.dims.len()),
            other => Given::Other(other.clone()),
        }
    }

    fn ty(&self) -> Type {
        match self {
            Given::Array(element, rank) => array_type(element.clone(), *rank),
            Given::Other(ty) => ty.clone(),
        }
    }
}

/// A compiled launch and the global variables that hold its arguments.
#[derive(Clone, Debug)]
pub(crate) struct Form {
    pub chunk: usize,
    /// Variables of the arguments, by parameter.
    pub params: Vec<Option<GlobalId>>,
    /// Variables of the dimensions, in the order of the key's.
    pub dims: Vec<GlobalId>,
    /// Variables of grid and block, tuples of three.
    pub geometry: Option<(GlobalId, GlobalId)>,
}

/// The cache of a program's compiled launches.
#[derive(Default)]
pub(crate) struct Forms(FxHashMap<Key, Arc<Form>>);

impl Forms {
    /// Returns the compiled launch for a key, compiling it if necessary.
    pub fn find(&mut self, session: &mut Session, key: Key) -> Result<Arc<Form>> {
        if let Some(form) = self.0.get(&key) {
            return Ok(form.clone());
        }
        if self.0.len() >= MOST {
            return Err(Refusal::new("E0806", format!("launches of {MOST} different forms were made"))
                .help("load the file again, which forgets them"));
        }
        let form = Arc::new(compile(session, &key)?);
        self.0.insert(key, form.clone());
        Ok(form)
    }
}

/// Declares the variables of the arguments in a separate module that sees everything the program's main module sees.
struct Scope<'a> {
    session: &'a mut Session,
    names: IndexMap<SmolStr, Binding>,
    /// Names that must not be shadowed.
    taken: Vec<SmolStr>,
}

impl Scope<'_> {
    /// Declares a variable named `name`, with underscores appended if that name is taken.
    fn variable(&mut self, name: &str, ty: Type) -> (SmolStr, GlobalId) {
        let mut own = name.to_smolstr();
        while self.taken.contains(&own) {
            own = format!("{own}_").into();
        }
        self.taken.push(own.clone());
        let global = Global { name: own.clone(), ty, mutable: true, span: Span::default() };
        let id = self.session.program.globals.push(global);
        self.names.insert(own.clone(), Binding::Global(id));
        (own, id)
    }
}

/// Compiles a launch. If that fails, the session is restored, and the refusal carries the sources its diagnostics refer to.
fn compile(session: &mut Session, key: &Key) -> Result<Form> {
    let before = session.clone();
    add(session, key).map_err(|diagnostics| {
        let refused = std::mem::replace(session, before);
        Refusal::Compilation(diagnostics, Box::new(refused.sources))
    })
}

fn add(session: &mut Session, key: &Key) -> std::result::Result<Form, Vec<Diagnostic>> {
    let sig = key.item.signature(&session.program).clone();
    let main = session.main.and_then(|main| session.program.modules.get(main));
    let names = main.map(|main| main.names.clone()).unwrap_or_default();
    let spoken = std::iter::once(&key.path).chain(key.generics.iter().map(|(_, value)| value));
    let taken = spoken.flat_map(|text| text.split('.').map(SmolStr::from)).collect();
    let mut scope = Scope { session, names, taken };
    let (text, mut form) = write(&mut scope, key, &sig);
    let module = Module { names: scope.names, ..Module::default() };
    let before = session.main;
    session.main = Some(session.program.modules.push(module));
    let mut outcome = session.add(NAME, &text, &Disk);
    session.main = before;
    if outcome.failed() {
        return Err(outcome.diagnostics.drain(..).filter(Diagnostic::is_error).collect());
    }
    form.chunk = outcome.chunks.start;
    Ok(form)
}

/// Generates the statement and declares its variables.
fn write(scope: &mut Scope<'_>, key: &Key, sig: &Signature) -> (String, Form) {
    let mut form = Form { chunk: 0, params: Vec::new(), dims: Vec::new(), geometry: None };
    let all_given = key.types.iter().all(Option::is_some);
    let inputs_only =
        sig.params.iter().zip(&key.types).all(|(param, ty)| ty.is_some() == (param.access != Access::Out));
    let mut words = Vec::new();
    for (param, ty) in sig.params.iter().zip(&key.types) {
        let Some(ty) = ty else {
            form.params.push(None);
            continue;
        };
        let (name, id) = scope.variable(&param.name, ty.ty());
        form.params.push(Some(id));
        words.push(if all_given || inputs_only { name.to_string() } else { format!("{} = {name}", param.name) });
    }
    words.extend(key.generics.iter().map(|(name, value)| format!("{name} = {value}")));
    for dim in &key.dims {
        let (name, id) = scope.variable(dim, Type::Scalar(Scalar::I64));
        form.dims.push(id);
        words.push(format!("{dim} = {name}"));
    }
    let mut shape = String::new();
    if key.geometry {
        let triple = || Type::Tuple(vec![Type::Scalar(Scalar::I64); 3].into());
        let (grid, grid_id) = scope.variable("grid", triple());
        let (block, block_id) = scope.variable("block", triple());
        form.geometry = Some((grid_id, block_id));
        shape = format!("<<<{grid}, {block}>>>");
    }
    // The `;` discards the result, so that arrays stay where they are.
    (format!("{}{shape}({});", key.path, words.join(", ")), form)
}

/// Returns the type of an array argument.
pub(crate) fn array_type(element: Type, rank: usize) -> Type {
    Type::Array(ArrayType { element, dims: vec![Dim::Unknown; rank] }.into())
}
