//! State of one client: the compiled program, the interpreter with its device, and the kept (named) arrays.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use smol_str::{SmolStr, ToSmolStr};

use super::data::{self, Arrays, HostArrays, Input, Wanted, element_named, fields, quoted, shown};
use super::form::{Form, Forms, Given, Item, Key, array_type};
use super::json::{Kind, Raw};
use super::refusal::{Refusal, Result};
use super::request::Launch;
use crate::app::world::Captured;
use crate::app::{disk, names};
use crate::base::aligned::AlignedBytes;
use crate::base::diag::Diagnostic;
use crate::check::typed::{Access, Binding, GenericKind, GlobalId, Kernel, KernelId, Param, Type};
use crate::compile::Session;
use crate::device::DeviceError;
use crate::host::array::{Array, Element};
use crate::host::interp::{Draws, Interpreter};
use crate::host::problem::Problem;
use crate::host::value::Value;

/// An error of this client's asynchronous launches that was found while serving another client.
#[derive(Default)]
pub(crate) struct Late(Mutex<Option<DeviceError>>);

/// The client whose launches may still be running on the shared device; locked for the duration of a request.
pub(crate) type Iteration = Arc<Mutex<Option<Arc<Late>>>>;

/// A client's program and arrays.
pub(crate) struct State {
    pub session: Session,
    pub interpreter: Interpreter,
    /// Arrays that live across requests.
    pub kept: Arrays,
    /// Output of kernels not yet included in a reply.
    pub world: Captured,
    /// Limit in bytes of an array, and of all kept arrays together.
    pub limit: u64,
    forms: Forms,
    pub iteration: Iteration,
    late: Arc<Late>,
}

/// An argument of a launch.
struct Argument<'a> {
    value: Value,
    ty: Type,
    /// The name of the kept array that is passed.
    kept: Option<(SmolStr, Raw<'a>)>,
}

/// A kernel and the arguments given for it.
struct Call<'a, 'r> {
    kernel: &'a Kernel,
    path: &'a str,
    launch: &'a Launch<'r>,
    /// The type parameters inferred so far.
    types: Vec<Option<Type>>,
}

impl State {
    /// Creates a client's state with a compiled (or empty) program.
    pub fn new(session: Session, interpreter: Interpreter, limit: u64) -> State {
        let mut state = State {
            session,
            interpreter,
            kept: Arrays::new(),
            world: Captured::default(),
            limit,
            forms: Forms::default(),
            iteration: Iteration::default(),
            late: Arc::default(),
        };
        state.learn_structs();
        state
    }

    /// Compiles a file and replaces the program; kept arrays stay. Returns the warnings. If there are errors, the old program
    /// stays.
    pub fn load(&mut self, path: &Path) -> Result<Vec<Diagnostic>> {
        let text = disk::read_source(path).map_err(|why| vec![disk::unreadable(path, &why)])?;
        let folder = path.parent().unwrap_or(Path::new("")).to_path_buf();
        let mut session = Session { folder, ..Session::default() };
        let outcome = session.add(&path.display().to_string(), &text, &disk::Disk);
        if outcome.failed() {
            return Err(Refusal::Compilation(outcome.diagnostics, Box::new(session.sources)));
        }
        self.session = session;
        self.forms = Forms::default();
        self.interpreter.forget_kernels();
        self.interpreter.globals.clear();
        self.interpreter.draws = Draws::begin(self.interpreter.options.seed);
        self.learn_structs();
        Ok(outcome.diagnostics)
    }

    /// Registers the program's structs with the interpreter, so that arrays of structs are matched to their types.
    fn learn_structs(&mut self) {
        let structs: Vec<_> = self.session.program.structs.iter().map(|(id, _)| id).collect();
        for id in structs {
            self.interpreter.element(&self.session.program, &Type::Struct(id));
        }
    }

    /// Returns the size in bytes of all kept arrays.
    pub fn held(&self) -> u64 {
        self.kept.values().map(|array| array.byte_len() as u64).sum()
    }

    /// Keeps arrays: all of them, or none if they exceed the limit.
    pub fn keep_all(&mut self, arrays: Vec<(SmolStr, Array, Raw<'_>)>) -> Result<()> {
        let replaced: u64 =
            arrays.iter().filter_map(|(name, ..)| self.kept.get(name)).map(|a| a.byte_len() as u64).sum();
        let mut bytes = self.held() - replaced;
        for (_, array, place) in &arrays {
            bytes += array.byte_len() as u64;
            if bytes > self.limit {
                let title = format!("the arrays that are kept would have {bytes} bytes together");
                return Err(Refusal::at("E0806", title, *place)
                    .note(format!("there is room for {} bytes", self.limit))
                    .help("free some, or allow more: `--max-bytes`"));
            }
        }
        self.kept.extend(arrays.into_iter().map(|(name, array, _)| (name, array)));
        Ok(())
    }

    /// Begins a request. If another client's launches may still be running, waits for them and stores their error for that client.
    pub fn begin(&self, last: &mut Option<Arc<Late>>) {
        if let Some(other) = last.take().filter(|other| !Arc::ptr_eq(other, &self.late))
            && let Err(error) = self.interpreter.options.device.confirm()
        {
            other.0.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        }
        *last = Some(self.late.clone());
    }

    /// Waits for all launches on the device; returns the first error since the last call.
    pub fn finish(&self) -> Result<()> {
        let late = self.late.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        let device = &self.interpreter.options.device;
        let ended = late.map_or(Ok(()), Err).and_then(|()| device.confirm()).and_then(|()| device.finish());
        ended.map_err(|error| Problem::from(error).into())
    }

    /// Decodes an array whose type does not depend on a kernel.
    pub fn array(&mut self, value: Raw<'_>, blocks: &mut [Option<AlignedBytes>]) -> Result<Array> {
        let State { session, interpreter, limit, .. } = self;
        let mut input = Input { limit: *limit, blocks };
        data::array(value, &Wanted::default(), &mut input, &mut |name| struct_named(session, interpreter, name))
    }

    /// Returns the name and content of a kept array.
    pub fn kept(&self, name: Raw<'_>) -> Result<(SmolStr, &Array)> {
        let text = data::text(name, "the name of an array")?;
        match self.kept.get_key_value(text.as_ref()) {
            Some((name, array)) => Ok((name.clone(), array)),
            None => {
                let refusal = Refusal::at("E0803", format!("no array is kept as `{}`", shown(&text)), name);
                let all = || self.kept.keys().map(SmolStr::as_str);
                let help = names::did_you_mean(&text, all());
                let refusal = help.into_iter().fold(refusal, Refusal::help);
                Err(match self.kept.is_empty() {
                    true => refusal.note("no arrays are kept"),
                    false => refusal.note(format!("there are {}", quoted(all()))),
                })
            }
        }
    }

    /// Runs a launch; returns the written arrays that are not kept, by parameter.
    pub fn launch(&mut self, launch: &Launch<'_>, blocks: &mut [Option<AlignedBytes>]) -> Result<Arrays> {
        let (path, id) = self.kernel(launch)?;
        let kernel = self.session.program.kernels[id].clone();
        refuse_strangers(launch, &kernel, &path)?;
        let types = self.type_arguments(launch, &kernel);
        let mut call = Call { kernel: &kernel, path: &path, launch, types };
        self.bind_types(&mut call)?;
        let arguments = self.arguments(&mut call, blocks)?;
        refuse_double_writes(&kernel, &arguments)?;
        let geometry = match (launch.grid, launch.block) {
            (Some(grid), Some(block)) => Some((grid, block)),
            (None, None) => None,
            _ => return Err(Refusal::new("E0802", "`grid` and `block` are given together, or not at all")),
        };
        let key = Key {
            item: Item::Kernel(id),
            path: path.clone(),
            types: arguments.iter().map(|a| a.as_ref().map(|a| Given::of(&a.ty))).collect(),
            generics: launch.generics.iter().map(|(a, b)| (a.to_smolstr(), b.to_smolstr())).collect(),
            dims: launch.dims.iter().map(|(name, _)| name.to_smolstr()).collect(),
            geometry: geometry.is_some(),
        };
        let form = self.forms.find(&mut self.session, key)?;
        let kept = self.pass(&form, &kernel, arguments);
        for (global, (_, extent)) in form.dims.iter().zip(&launch.dims) {
            self.set(*global, Value::i64(*extent));
        }
        if let (Some((grid_id, block_id)), Some((grid, block))) = (form.geometry, geometry) {
            self.set(grid_id, Value::Tuple(grid.map(Value::i64).to_vec()));
            self.set(block_id, Value::Tuple(block.map(Value::i64).to_vec()));
        }
        self.interpreter.largest = Some(self.limit.saturating_sub(self.held()));
        let ran = self.interpreter.run_entry(&self.session, form.chunk, &mut self.world);
        let mut written = self.collect(&form, &kernel, kept, ran.map(|last| last.map(|last| last.value)))?;
        // An omitted `out` array with a name: allocated by this launch and kept from now on.
        for (param, value) in launch.arrays.iter().filter(|(_, value)| value.kind() == Kind::Text) {
            if let (Some(array), Some(name)) = (written.shift_remove(param.as_ref()), value.string()) {
                self.kept.insert(name.to_smolstr(), array);
            }
        }
        Ok(written)
    }

    /// Returns the names of the launched kernel's dimensions.
    pub fn dimensions(&self, launch: &Launch<'_>) -> Result<Vec<SmolStr>> {
        let (_, id) = self.kernel(launch)?;
        Ok(self.session.program.kernels[id].sig.dims.iter().map(|dim| dim.name.clone()).collect())
    }

    /// Returns the kernel that a launch names, which is optional if the program has only one.
    fn kernel(&self, launch: &Launch<'_>) -> Result<(SmolStr, KernelId)> {
        let program = &self.session.program;
        let own = self.session.main.and_then(|main| program.modules.get(main));
        let all: Vec<(&str, KernelId)> = own
            .iter()
            .flat_map(|module| &module.names)
            .filter_map(|(name, binding)| match binding {
                Binding::Kernel(id) => Some((name.as_str(), *id)),
                _ => None,
            })
            .collect();
        let Some((path, place)) = &launch.kernel else {
            return match all.as_slice() {
                [(name, id)] => Ok((name.to_smolstr(), *id)),
                _ => Err(Refusal::new("E0802", "nothing says which kernel to launch")
                    .note(format!("the program's kernels are {}", quoted(all.iter().map(|(name, _)| *name))))),
            };
        };
        let mut module = own;
        let mut parts = path.split('.').peekable();
        while let Some(part) = parts.next() {
            match module.and_then(|module| module.names.get(part)) {
                Some(Binding::Kernel(id)) if parts.peek().is_none() => return Ok((path.to_smolstr(), *id)),
                Some(Binding::Module(id)) => module = program.modules.get(*id),
                _ => break,
            }
        }
        let title = format!("there is no kernel `{}`", shown(path));
        let refusal = match place {
            Some(place) => Refusal::at("E0803", title, *place),
            None => Refusal::new("E0803", title),
        };
        let help = names::did_you_mean(path, all.iter().map(|(name, _)| *name));
        let refusal = help.into_iter().fold(refusal, Refusal::help);
        Err(match all.is_empty() {
            true => refusal.note("the program has no kernels of its own"),
            false => refusal.note(format!("the program's kernels are {}", quoted(all.iter().map(|(name, _)| *name)))),
        })
    }

    /// Returns the type parameters that a launch gives explicitly.
    fn type_arguments(&mut self, launch: &Launch<'_>, kernel: &Kernel) -> Vec<Option<Type>> {
        let State { session, interpreter, .. } = self;
        let mut found = Vec::with_capacity(kernel.sig.generics.len());
        for generic in &kernel.sig.generics {
            let given = launch.generics.iter().find(|(name, _)| *name == generic.name.as_str());
            let named = given
                .filter(|_| matches!(generic.kind, GenericKind::Type { .. }))
                .and_then(|(_, text)| element_named(text, &mut |name| struct_named(session, interpreter, name)));
            found.push(named.map(|element| interpreter.element_type(&element)));
        }
        found
    }

    /// Infers type parameters from the arguments that state their own type, so that plain numbers can take it.
    fn bind_types(&mut self, call: &mut Call<'_, '_>) -> Result<()> {
        for param in &call.kernel.sig.params {
            let own = match &param.ty {
                Type::Array(array) => &array.element,
                other => other,
            };
            let Type::Param(generic) = own else { continue };
            if let (Some(array), Some(slot @ None)) =
                (call.launch.ready.get(&param.name), call.types.get_mut(*generic as usize))
            {
                *slot = Some(self.interpreter.element_type(array.element()));
            }
            let Some(value) = given(call.launch, param) else { continue };
            let element = match value.kind() {
                Kind::Text if matches!(param.ty, Type::Array(_)) => match self.kept(value) {
                    Ok((_, array)) => Some(array.element().clone()),
                    Err(refusal) if param.access != Access::Out => return Err(refusal),
                    Err(_) => None,
                },
                Kind::Object => {
                    let named = value.fields().find(|(name, _)| name == "type").and_then(|(_, ty)| ty.string());
                    let State { session, interpreter, .. } = self;
                    named.and_then(|name| element_named(&name, &mut |name| struct_named(session, interpreter, name)))
                }
                _ => None,
            };
            if let (Some(element), Some(slot @ None)) = (element, call.types.get_mut(*generic as usize)) {
                *slot = Some(self.interpreter.element_type(&element));
            }
        }
        Ok(())
    }

    /// Returns one argument per parameter; `None` for `out` arrays to be allocated.
    fn arguments<'r>(
        &mut self,
        call: &mut Call<'_, 'r>,
        blocks: &mut [Option<AlignedBytes>],
    ) -> Result<Vec<Option<Argument<'r>>>> {
        let mut arguments = Vec::with_capacity(call.kernel.sig.params.len());
        let mut missing = Vec::new();
        for param in &call.kernel.sig.params {
            match (given(call.launch, param), call.launch.ready.get(&param.name)) {
                (Some(value), _) => arguments.push(self.argument(call, param, value, blocks)?),
                (None, Some(array)) => arguments.push(Some(self.ready(call, param, array)?)),
                (None, None) => {
                    if param.access != Access::Out && param.default.is_none() {
                        missing.push(param.name.as_str());
                    }
                    arguments.push(None);
                }
            }
        }
        if missing.is_empty() {
            return Ok(arguments);
        }
        Err(Refusal::new("E0802", format!("`{}` is not given {}", call.path, quoted(missing)))
            .note("only `out` arrays and parameters with a default may be left off"))
    }

    fn argument<'r>(
        &mut self,
        call: &mut Call<'_, 'r>,
        param: &Param,
        value: Raw<'r>,
        blocks: &mut [Option<AlignedBytes>],
    ) -> Result<Option<Argument<'r>>> {
        let Type::Array(wanted) = &param.ty else {
            let (value, element) = self.scalar(call, &param.ty, value)?;
            let ty = self.interpreter.element_type(&element);
            return Ok(Some(Argument { value, ty, kept: None }));
        };
        if value.kind() == Kind::Text {
            let name = data::text(value, "the name of an array")?.to_smolstr();
            if param.access == Access::Out && !self.kept.contains_key(&name) {
                // To be allocated by the launch and kept under this name.
                return Ok(None);
            }
            let (name, array) = self.kept(value)?;
            let array = array.clone();
            let ty = self.type_of(&array, Some(value))?;
            return Ok(Some(Argument { value: Value::Array(array), ty, kept: Some((name, value)) }));
        }
        let element = self.expected(call, &wanted.element);
        let wanted = Wanted { element, rank: Some(wanted.dims.len()) };
        let State { session, interpreter, limit, .. } = self;
        let mut input = Input { limit: *limit, blocks };
        let find = &mut |name: &str| struct_named(session, interpreter, name);
        let array = data::array(value, &wanted, &mut input, find)?;
        let ty = self.type_of(&array, Some(value))?;
        if let (Type::Array(param), Type::Array(array)) = (&param.ty, &ty)
            && let Type::Param(generic) = &param.element
            && let Some(slot @ None) = call.types.get_mut(*generic as usize)
        {
            *slot = Some(array.element.clone());
        }
        Ok(Some(Argument { value: Value::Array(array), ty, kept: None }))
    }

    /// Returns an argument that was read from a file.
    fn ready<'r>(&mut self, call: &Call<'_, '_>, param: &Param, array: &Array) -> Result<Argument<'r>> {
        let own = match &param.ty {
            Type::Array(wanted) => &wanted.element,
            other => other,
        };
        let meant = self.expected(call, own).and_then(|element| array.recast(&element));
        let array = meant.unwrap_or_else(|| array.clone());
        if matches!(param.ty, Type::Array(_)) {
            let ty = self.type_of(&array, None)?;
            return Ok(Argument { value: Value::Array(array), ty, kept: None });
        }
        match array.item(0)?.filter(|_| array.count() == 1) {
            Some(value) => Ok(Argument { value, ty: self.interpreter.element_type(array.element()), kept: None }),
            None => {
                let title = format!("`{}` is a single value, not `{}`", param.name, array.type_name());
                Err(Refusal::new("E0804", title).note("in a file, a single value is an array of one element"))
            }
        }
    }

    /// Returns the element type that a parameter's type requires, if it is known.
    fn expected(&mut self, call: &Call<'_, '_>, ty: &Type) -> Option<Element> {
        let ty = match ty {
            Type::Param(generic) => call.types.get(*generic as usize)?.clone()?,
            other => other.clone(),
        };
        Some(self.interpreter.element(&self.session.program, &ty))
    }

    /// Decodes a by-value argument: the value itself, or `{"type": …, "value": …}`.
    fn scalar(&mut self, call: &Call<'_, '_>, ty: &Type, value: Raw<'_>) -> Result<(Value, Element)> {
        let mut expected = self.expected(call, ty);
        let mut value = value;
        if value.kind() == Kind::Object
            && matches!(ty, Type::Param(_))
            && value.fields().any(|(name, _)| name == "value")
        {
            for (name, field) in fields(value, "a value with its type", &["type", "value"])? {
                match name.as_ref() {
                    "value" => value = field,
                    _ => {
                        let name = data::text(field, "`type`")?;
                        let State { session, interpreter, .. } = self;
                        let find = &mut |name: &str| struct_named(session, interpreter, name);
                        let unknown = || Refusal::at("E0803", format!("there is no type `{}`", shown(&name)), field);
                        expected = Some(element_named(&name, find).ok_or_else(unknown)?);
                    }
                }
            }
        }
        let settled = || data::settled(value).filter(|_| value.kind() != Kind::List).map(Element::Scalar);
        let element = expected.or_else(settled).ok_or_else(|| {
            Refusal::at("E0802", "nothing says which type this has", value)
                .help("give the type parameter by name, or write `{\"type\": …, \"value\": …}`")
        })?;
        Ok((data::value(&element, value)?, element))
    }

    /// Returns the program's type for an array.
    fn type_of(&self, array: &Array, value: Option<Raw<'_>>) -> Result<Type> {
        match self.interpreter.element_type(array.element()) {
            Type::Unknown => {
                let title = format!("the program has no struct `{}` with these fields", array.element());
                let refusal = match value {
                    Some(value) => Refusal::at("E0803", title, value),
                    None => Refusal::new("E0803", title),
                };
                Err(refusal.note("the array was made for another program"))
            }
            element => Ok(array_type(element, array.rank())),
        }
    }

    /// Assigns the arguments to the form's variables; returns the names of kept arrays by parameter. Kept arrays that the kernel
    /// writes are moved out of the list, since a second reference would force a copy on write.
    fn pass(&mut self, form: &Form, kernel: &Kernel, arguments: Vec<Option<Argument<'_>>>) -> Vec<Option<SmolStr>> {
        let mut kept = Vec::with_capacity(arguments.len());
        for ((argument, global), param) in arguments.into_iter().zip(&form.params).zip(&kernel.sig.params) {
            let (Some(argument), Some(global)) = (argument, global) else {
                kept.push(None);
                continue;
            };
            let name = argument.kept.map(|(name, _)| name).filter(|_| param.access != Access::In);
            self.set(*global, argument.value);
            kept.push(name);
        }
        for name in kept.iter().flatten() {
            self.kept.shift_remove(name);
        }
        kept
    }

    fn set(&mut self, global: GlobalId, value: Value) {
        let globals = &mut self.interpreter.globals;
        if globals.len() <= global.index() {
            globals.resize(global.index() + 1, None);
        }
        if let Some(slot) = globals.get_mut(global.index()) {
            *slot = Some(value);
        }
    }

    /// Moves the variables' values back, also after an error: an array that was partially written stays kept.
    fn collect(
        &mut self,
        form: &Form,
        kernel: &Kernel,
        kept: Vec<Option<SmolStr>>,
        ran: std::result::Result<Option<Value>, Box<Diagnostic>>,
    ) -> Result<Arrays> {
        let mut written = Arrays::new();
        for ((global, param), kept) in form.params.iter().zip(&kernel.sig.params).zip(kept) {
            let slot = global.and_then(|global| self.interpreter.globals.get_mut(global.index()));
            let Some(Value::Array(array)) = slot.and_then(Option::take) else { continue };
            match kept {
                Some(name) => drop(self.kept.insert(name, array)),
                None if param.access != Access::In => drop(written.insert(param.name.clone(), array)),
                None => {}
            }
        }
        let made = match ran {
            Ok(Some(Value::Tuple(parts))) => parts,
            Ok(Some(one)) => vec![one],
            Ok(None) => vec![],
            Err(diagnostic) => return Err(vec![*diagnostic].into()),
        };
        let made_here = |(param, global): &(&Param, &Option<GlobalId>)| param.access == Access::Out && global.is_none();
        let left_off = kernel.sig.params.iter().zip(&form.params).filter(made_here);
        for ((param, _), value) in left_off.zip(made) {
            if let Value::Array(array) = value {
                written.insert(param.name.clone(), array);
            }
        }
        Ok(written)
    }

    /// Copies arrays to host memory, so that nothing can fail while a reply is written.
    pub fn fetch(&self, arrays: Arrays) -> Result<HostArrays> {
        self.finish()?;
        arrays.into_iter().map(|(name, array)| Ok((name, array.fetched()?))).collect()
    }
}

/// Returns a struct of the program's main module as an element type.
fn struct_named(session: &Session, interpreter: &mut Interpreter, name: &str) -> Option<Element> {
    let module = session.program.modules.get(session.main?)?;
    match module.names.get(name) {
        Some(Binding::Struct(id)) => Some(interpreter.element(&session.program, &Type::Struct(*id))),
        _ => None,
    }
}

/// Returns the value that a launch gives for a parameter.
fn given<'r>(launch: &Launch<'r>, param: &Param) -> Option<Raw<'r>> {
    let list = if matches!(param.ty, Type::Array(_)) { &launch.arrays } else { &launch.scalars };
    list.iter().find(|(name, _)| *name == param.name.as_str()).map(|(_, value)| *value)
}

/// Refuses arguments that match no parameter.
fn refuse_strangers(launch: &Launch<'_>, kernel: &Kernel, path: &str) -> Result<()> {
    let params = || kernel.sig.params.iter().map(|param| param.name.as_str());
    if let Some(name) = launch.ready.keys().find(|name| !params().any(|param| param == name.as_str())) {
        let refusal = Refusal::new("E0803", format!("`{path}` has no parameter `{}`", shown(name)));
        return Err(refusal.note(format!("its parameters are {}", quoted(params()))));
    }
    for (list, arrays) in [(&launch.scalars, false), (&launch.arrays, true)] {
        for (name, value) in list {
            let param = kernel.sig.params.iter().find(|param| *name == param.name.as_str());
            match param {
                Some(param) if matches!(param.ty, Type::Array(_)) == arrays => {}
                Some(_) => {
                    let (right, wrong) = if arrays { ("scalars", "arrays") } else { ("arrays", "scalars") };
                    let title = format!("`{name}` of `{path}` belongs into `{right}`, not into `{wrong}`");
                    return Err(Refusal::at("E0802", title, *value));
                }
                None => {
                    let title = format!("`{path}` has no parameter `{}`", shown(name));
                    let refusal = Refusal::at("E0803", title, *value);
                    let refusal = names::did_you_mean(name, params()).into_iter().fold(refusal, Refusal::help);
                    return Err(refusal.note(format!("its parameters are {}", quoted(params()))));
                }
            }
        }
    }
    Ok(())
}

/// Refuses one kept array for two parameters that are written.
fn refuse_double_writes(kernel: &Kernel, arguments: &[Option<Argument<'_>>]) -> Result<()> {
    let mut seen: Vec<&SmolStr> = Vec::new();
    for (argument, param) in arguments.iter().zip(&kernel.sig.params) {
        let Some(Argument { kept: Some((name, place)), .. }) = argument else { continue };
        if param.access == Access::In {
            continue;
        }
        if seen.contains(&name) {
            let title = format!("`{name}` cannot be written through two parameters at once");
            return Err(Refusal::at("E0802", title, *place));
        }
        seen.push(name);
    }
    Ok(())
}
