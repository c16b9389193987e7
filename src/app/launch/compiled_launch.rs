//! Compiles a launch request as a statement of a script, such as `saxpy(alpha, x, y);`. Each combination of argument
//! types is compiled only once.
//!
//! Requests thus share the type checking, argument binding and execution of scripts. The locations in error messages
//! refer to the generated statement.

use std::sync::Arc;

use indexmap::IndexMap;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use smol_str::{SmolStr, ToSmolStr};

use super::launch_error::{LaunchRequestError, Result};
use crate::disk::Disk;
use clk_base::diag::Diagnostic;
use clk_base::source::{Span, TextOrigin};
use clk_check::typed::{
    Access, ArrayType, Dim, FnId, Global, GlobalId, KernelId, Module, NameBinding, Program, Signature, Type,
};
use clk_compile::Session;
use clk_scalar::Scalar;

/// The source name of generated statements in diagnostics.
pub(crate) const SOURCE_NAME: &str = "<launch>";
/// Maximum number of compiled launches in the cache.
const MAX_CACHED_LAUNCHES: usize = 4096;

/// A kernel that a request launches, or a function that it calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum CallableItem {
    Kernel(KernelId),
    Function(FnId),
}

impl CallableItem {
    pub fn signature(self, program: &Program) -> &Signature {
        match self {
            CallableItem::Kernel(id) => &program.kernels[id].sig,
            CallableItem::Function(id) => &program.fns[id].sig,
        }
    }
}

/// Cache key: contains everything on which the compiled statement depends.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct LaunchCacheKey {
    pub item: CallableItem,
    /// The name of the kernel or function in the request: `saxpy`, `linalg.matmul`.
    pub path: SmolStr,
    /// The type of the argument for each parameter; `None` for an `out` array that the launch allocates.
    pub types: SmallVec<[Option<ArgumentType>; 6]>,
    /// The compile-time arguments: name and text.
    pub generics: Vec<(SmolStr, SmolStr)>,
    /// Names of the dimensions whose extents the request contains.
    pub dims: Vec<SmolStr>,
    /// Whether the request contains the grid and block sizes.
    pub geometry: bool,
    /// The launch in a CUDA file that the statement stands for. Messages are about it.
    pub origin: Option<Span>,
}

/// The origin of a statement that stands for a launch in a CUDA file.
#[derive(Debug)]
struct StatementOrigin(Span);

impl TextOrigin for StatementOrigin {
    fn source_of(&self, _: std::ops::Range<usize>) -> Option<Span> {
        Some(self.0)
    }
}

/// The type of an argument.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) enum ArgumentType {
    /// An array: its element type and its number of axes.
    Array(Type, usize),
    Other(Type),
}

impl ArgumentType {
    pub fn of(ty: &Type) -> ArgumentType {
        match ty {
            Type::Array(array) => ArgumentType::Array(array.element.clone(), array.dims.len()),
            other => ArgumentType::Other(other.clone()),
        }
    }

    fn ty(&self) -> Type {
        match self {
            ArgumentType::Array(element, rank) => array_type(element.clone(), *rank),
            ArgumentType::Other(ty) => ty.clone(),
        }
    }
}

/// A compiled launch statement, and the global variables that hold its arguments.
#[derive(Clone, Debug)]
pub(crate) struct CompiledLaunch {
    pub chunk: usize,
    /// For each parameter, the variable that holds its argument.
    pub params: Vec<Option<GlobalId>>,
    /// The variables that hold the extents of dimensions, in the order of [`LaunchCacheKey::dims`].
    pub dims: Vec<GlobalId>,
    /// The variables that hold the grid and block sizes; each is a tuple of three numbers.
    pub geometry: Option<(GlobalId, GlobalId)>,
}

/// A cache of the launches compiled for a program.
#[derive(Default)]
pub(crate) struct CompiledLaunches(FxHashMap<LaunchCacheKey, Arc<CompiledLaunch>>);

impl CompiledLaunches {
    /// Returns the compiled launch for a key. Compiles it at the first request.
    pub fn find(&mut self, session: &mut Session, key: LaunchCacheKey) -> Result<Arc<CompiledLaunch>> {
        if let Some(form) = self.0.get(&key) {
            return Ok(form.clone());
        }
        if self.0.len() >= MAX_CACHED_LAUNCHES {
            return Err(LaunchRequestError::new(
                "E0806",
                format!("launches of {MAX_CACHED_LAUNCHES} different forms were made"),
            )
            .help("load the file again, which forgets them"));
        }
        let form = Arc::new(compile(session, &key)?);
        self.0.insert(key, form.clone());
        Ok(form)
    }
}

/// Declares the variables that hold the arguments. They are in a separate module, in which all names of the program's
/// main module are visible.
struct ArgumentScope<'a> {
    session: &'a mut Session,
    names: IndexMap<SmolStr, NameBinding>,
    /// Names of the main module, which the variables must not shadow.
    taken: Vec<SmolStr>,
}

impl ArgumentScope<'_> {
    /// Declares a variable called `name`. If that name is taken, appends underscores.
    fn variable(&mut self, name: &str, ty: Type) -> (SmolStr, GlobalId) {
        let mut own = name.to_smolstr();
        while self.taken.contains(&own) {
            own = format!("{own}_").into();
        }
        self.taken.push(own.clone());
        let global = Global { name: own.clone(), ty, mutable: true, span: Span::default() };
        let id = self.session.program.globals.push(global);
        self.names.insert(own.clone(), NameBinding::Global(id));
        (own, id)
    }
}

/// Compiles a launch statement. On failure, restores the session; the error contains the sources to which its
/// diagnostics refer.
fn compile(session: &mut Session, key: &LaunchCacheKey) -> Result<CompiledLaunch> {
    let before = session.clone();
    add(session, key).map_err(|diagnostics| {
        let refused = std::mem::replace(session, before);
        LaunchRequestError::Compilation(diagnostics, Box::new(refused.sources))
    })
}

fn add(session: &mut Session, key: &LaunchCacheKey) -> std::result::Result<CompiledLaunch, Vec<Diagnostic>> {
    let sig = key.item.signature(&session.program).clone();
    let main = session.main.and_then(|main| session.program.modules.get(main));
    let names = main.map(|main| main.names.clone()).unwrap_or_default();
    let spoken = std::iter::once(&key.path).chain(key.generics.iter().map(|(_, value)| value));
    let reserved = spoken.flat_map(|text| text.split('.').map(SmolStr::from)).collect();
    let mut scope = ArgumentScope { session, names, taken: reserved };
    let (text, mut form) = write(&mut scope, key, &sig);
    let module = Module { names: scope.names, ..Module::default() };
    let before = session.main;
    session.main = Some(session.program.modules.push(module));
    let file = match key.origin {
        Some(origin) => session.sources.add_generated(SOURCE_NAME, text, Arc::new(StatementOrigin(origin))),
        None => session.sources.add(SOURCE_NAME, text),
    };
    let mut outcome = session.add_file(file, &Disk);
    session.main = before;
    if outcome.failed() {
        return Err(outcome.diagnostics.drain(..).filter(Diagnostic::is_error).collect());
    }
    form.chunk = outcome.chunks.start;
    Ok(form)
}

/// Generates the text of a launch statement and declares its variables.
fn write(scope: &mut ArgumentScope<'_>, key: &LaunchCacheKey, sig: &Signature) -> (String, CompiledLaunch) {
    let mut form = CompiledLaunch { chunk: 0, params: Vec::new(), dims: Vec::new(), geometry: None };
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
    // The `;` discards the result of the statement, so that arrays stay on the device.
    (format!("{}{shape}({});", key.path, words.join(", ")), form)
}

/// Returns the type of an array with this element type and number of axes.
pub(crate) fn array_type(element: Type, rank: usize) -> Type {
    Type::Array(ArrayType { element, dims: vec![Dim::Unknown; rank] }.into())
}
