//! The state of one client: its compiled program, the interpreter with the device, and the arrays that are kept by
//! name.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use smol_str::{SmolStr, ToSmolStr};

use super::compiled_launch::{
    ArgumentType, CallableItem, CompiledLaunch, CompiledLaunches, LaunchCacheKey, array_type,
};
use super::data::{
    self, DecodeInput, ExpectedArray, HostArrays, NamedArrays, abbreviated, element_named, fields, quote_names,
};
use super::json::{JsonKind, JsonRaw};
use super::launch_error::{LaunchRequestError, Result};
use super::request::LaunchRequest;
use crate::effects::CapturedEffects;
use crate::{disk, suggestions};
use clk_base::aligned::AlignedBytes;
use clk_base::diag::Diagnostic;
use clk_check::typed::{
    Access, Expr, ExprKind, GenericKind, Geometry, GlobalId, Kernel, KernelId, NameBinding, Param, Type,
};
use clk_compile::Session;
use clk_host::array::{Array, ElementType};
use clk_host::interp::{Interpreter, RandomPosition};
use clk_host::problem::RuntimeError;
use clk_host::value::HostValue;
use clk_runtime::DeviceError;
use clk_scalar::{Scalar, ScalarValue};

/// A slot for an error of this client's asynchronous launches. The error is stored here if it is found while the server
/// serves another client.
#[derive(Default)]
pub(crate) struct AsyncError(Mutex<Option<DeviceError>>);

/// The client whose launches may still be running on the shared device. The lock is held during each request.
pub(crate) type AsyncClient = Arc<Mutex<Option<Arc<AsyncError>>>>;

/// The program and the arrays of one client.
pub(crate) struct ClientState {
    pub session: Session,
    pub interpreter: Interpreter,
    /// The named arrays, which persist until the client removes them.
    pub kept: NamedArrays,
    /// Collects the text that kernels print until a reply contains it.
    pub world: CapturedEffects,
    /// Maximum size in bytes of an array, and of all kept arrays together.
    pub limit: u64,
    forms: CompiledLaunches,
    pub iteration: AsyncClient,
    late: Arc<AsyncError>,
}

/// An argument of a launch.
struct RequestArgument<'a> {
    value: HostValue,
    ty: Type,
    /// If the argument is a kept array, its name.
    kept: Option<(SmolStr, JsonRaw<'a>)>,
}

/// A kernel and the launch request for it.
struct LaunchCall<'a, 'r> {
    kernel: &'a Kernel,
    path: &'a str,
    launch: &'a LaunchRequest<'r>,
    /// The types inferred so far for the type parameters.
    types: Vec<Option<Type>>,
}

impl ClientState {
    /// Creates the state of a client. The program may be empty.
    pub fn new(session: Session, interpreter: Interpreter, limit: u64) -> ClientState {
        let mut state = ClientState {
            session,
            interpreter,
            kept: NamedArrays::new(),
            world: CapturedEffects::default(),
            limit,
            forms: CompiledLaunches::default(),
            iteration: AsyncClient::default(),
            late: Arc::default(),
        };
        state.learn_structs();
        state
    }

    /// Compiles a file, and replaces the program by it; returns the warnings. If there are errors, keeps the old
    /// program. Kept arrays do not change.
    pub fn load(&mut self, path: &Path) -> Result<Vec<Diagnostic>> {
        let folder = path.parent().unwrap_or(Path::new("")).to_path_buf();
        let mut session = Session { folder, ..Session::default() };
        let outcome = session.add_path(path, &disk::Disk).map_err(|why| vec![disk::unreadable(path, &why)])?;
        if outcome.failed() {
            return Err(LaunchRequestError::Compilation(outcome.diagnostics, Box::new(session.sources)));
        }
        self.session = session;
        self.forms = CompiledLaunches::default();
        self.interpreter.discard_compiled();
        self.interpreter.globals.clear();
        self.interpreter.random_position = RandomPosition::begin(self.interpreter.options.seed);
        self.learn_structs();
        Ok(outcome.diagnostics)
    }

    /// Registers the program's structs with the interpreter, so that it recognizes arrays of these structs.
    fn learn_structs(&mut self) {
        let structs: Vec<_> = self.session.program.structs.iter().map(|(id, _)| id).collect();
        for id in structs {
            self.interpreter.element(&self.session.program, &Type::Struct(id));
        }
    }

    /// Returns the size in bytes of all kept arrays.
    pub fn kept_bytes(&self) -> u64 {
        self.kept.values().map(|array| array.byte_len() as u64).sum()
    }

    /// Adds arrays to the kept ones. If they exceed the limit, adds none.
    pub fn keep_all(&mut self, arrays: Vec<(SmolStr, Array, JsonRaw<'_>)>) -> Result<()> {
        let replaced: u64 =
            arrays.iter().filter_map(|(name, ..)| self.kept.get(name)).map(|a| a.byte_len() as u64).sum();
        let mut bytes = self.kept_bytes() - replaced;
        for (_, array, place) in &arrays {
            bytes += array.byte_len() as u64;
            if bytes > self.limit {
                let title = format!("the arrays that are kept would have {bytes} bytes together");
                return Err(LaunchRequestError::at("E0806", title, *place)
                    .note(format!("there is room for {} bytes", self.limit))
                    .help("free some, or allow more: `--max-bytes`"));
            }
        }
        self.kept.extend(arrays.into_iter().map(|(name, array, _)| (name, array)));
        Ok(())
    }

    /// Begins a request of this client. If launches of another client may still be running, waits for them first, and
    /// stores their error for that client.
    pub fn begin(&self, last: &mut Option<Arc<AsyncError>>) {
        if let Some(other) = last.take().filter(|other| !Arc::ptr_eq(other, &self.late))
            && let Err(error) = self.interpreter.options.device.report_pending_faults()
        {
            other.0.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        }
        *last = Some(self.late.clone());
    }

    /// Waits for all launches on the device; returns the first error since the previous call.
    pub fn finish(&self) -> Result<()> {
        let pending = self.late.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        let device = &self.interpreter.options.device;
        let ended =
            pending.map_or(Ok(()), Err).and_then(|()| device.report_pending_faults()).and_then(|()| device.finish());
        ended.map_err(|error| RuntimeError::from(error).into())
    }

    /// Decodes an array that is not an argument, so that no kernel determines its type.
    pub fn array(&mut self, value: JsonRaw<'_>, blocks: &mut [Option<AlignedBytes>]) -> Result<Array> {
        let ClientState { session, interpreter, limit, .. } = self;
        let mut input = DecodeInput { limit: *limit, blocks };
        data::array(value, &ExpectedArray::default(), &mut input, &mut |name| struct_named(session, interpreter, name))
    }

    /// Returns the kept array that a request refers to by name.
    pub fn kept_array(&self, name: JsonRaw<'_>) -> Result<(SmolStr, &Array)> {
        let text = data::text(name, "the name of an array")?;
        match self.kept.get_key_value(text.as_ref()) {
            Some((name, array)) => Ok((name.clone(), array)),
            None => {
                let refusal =
                    LaunchRequestError::at("E0803", format!("no array is kept as `{}`", abbreviated(&text)), name);
                let all = || self.kept.keys().map(SmolStr::as_str);
                let help = suggestions::did_you_mean(&text, all());
                let refusal = help.into_iter().fold(refusal, LaunchRequestError::help);
                Err(match self.kept.is_empty() {
                    true => refusal.note("no arrays are kept"),
                    false => refusal.note(format!("there are {}", quote_names(all()))),
                })
            }
        }
    }

    /// Runs a launch. Returns the arrays that it has written and that are not kept, with the names of their parameters.
    pub fn launch(&mut self, launch: &LaunchRequest<'_>, blocks: &mut [Option<AlignedBytes>]) -> Result<NamedArrays> {
        let (path, id) = self.kernel(launch)?;
        let kernel = self.session.program.kernels[id].clone();
        reject_unknown_arguments(launch, &kernel, &path)?;
        let types = self.type_arguments(launch, &kernel);
        let mut call = LaunchCall { kernel: &kernel, path: &path, launch, types };
        self.bind_types(&mut call)?;
        let arguments = self.arguments(&mut call, blocks)?;
        reject_double_writes(&kernel, &arguments)?;
        let geometry = match (launch.grid, launch.block) {
            // The arguments have the extents.
            (Some(grid), Some(block)) if has_extent_parameters(&kernel) => {
                reject_unread_axes(&kernel, grid, block)?;
                None
            }
            (Some(grid), Some(block)) => Some((grid, block)),
            (None, None) => None,
            _ => return Err(LaunchRequestError::new("E0802", "`grid` and `block` are given together, or not at all")),
        };
        let key = LaunchCacheKey {
            item: CallableItem::Kernel(id),
            path: path.clone(),
            types: arguments.iter().map(|a| a.as_ref().map(|a| ArgumentType::of(&a.ty))).collect(),
            generics: launch.generics.iter().map(|(a, b)| (a.to_smolstr(), b.to_smolstr())).collect(),
            dims: launch.dims.iter().map(|(name, _)| name.to_smolstr()).collect(),
            geometry: geometry.is_some(),
            origin: None,
        };
        let form = self.forms.find(&mut self.session, key)?;
        let binding = self.pass(&form, &kernel, arguments);
        for (global, (_, extent)) in form.dims.iter().zip(&launch.dims) {
            self.set(*global, HostValue::i64(*extent));
        }
        if let (Some((grid_id, block_id)), Some((grid, block))) = (form.geometry, geometry) {
            self.set(grid_id, HostValue::Tuple(grid.map(HostValue::i64).to_vec()));
            self.set(block_id, HostValue::Tuple(block.map(HostValue::i64).to_vec()));
        }
        self.interpreter.max_array_bytes = Some(self.limit.saturating_sub(self.kept_bytes()));
        let ran = self.interpreter.run_entry(&self.session, form.chunk, &mut self.world);
        let mut written = self.collect(&form, &kernel, binding, ran.map(|last| last.map(|last| last.value)))?;
        // The request names an `out` array that did not exist. The launch has allocated it, and it is kept under that
        // name.
        for (param, value) in launch.arrays.iter().filter(|(_, value)| value.kind() == JsonKind::Text) {
            if let (Some(array), Some(name)) = (written.shift_remove(param.as_ref()), value.string()) {
                self.kept.insert(name.to_smolstr(), array);
            }
        }
        Ok(written)
    }

    /// Returns the names of the dimensions of the kernel that a request launches.
    pub fn dimensions(&self, launch: &LaunchRequest<'_>) -> Result<Vec<SmolStr>> {
        let (_, id) = self.kernel(launch)?;
        Ok(self.session.program.kernels[id].sig.dims.iter().map(|dim| dim.name.clone()).collect())
    }

    /// Returns the kernel that a request names. If the program has only one kernel, the name is optional.
    fn kernel(&self, launch: &LaunchRequest<'_>) -> Result<(SmolStr, KernelId)> {
        let program = &self.session.program;
        let own = self.session.main.and_then(|main| program.modules.get(main));
        let all: Vec<(&str, KernelId)> = own
            .iter()
            .flat_map(|module| &module.names)
            .filter_map(|(name, binding)| match binding {
                NameBinding::Kernel(id) => Some((name.as_str(), *id)),
                _ => None,
            })
            .collect();
        let Some((path, place)) = &launch.kernel else {
            return match all.as_slice() {
                [(name, id)] => Ok((name.to_smolstr(), *id)),
                _ => Err(LaunchRequestError::new("E0802", "the kernel to launch is not given")
                    .note(format!("the program's kernels are {}", quote_names(all.iter().map(|(name, _)| *name))))),
            };
        };
        let mut module = own;
        let mut parts = path.split('.').peekable();
        while let Some(part) = parts.next() {
            match module.and_then(|module| module.names.get(part)) {
                Some(NameBinding::Kernel(id)) if parts.peek().is_none() => return Ok((path.to_smolstr(), *id)),
                Some(NameBinding::Module(id)) => module = program.modules.get(*id),
                _ => break,
            }
        }
        let title = format!("there is no kernel `{}`", abbreviated(path));
        let refusal = match place {
            Some(place) => LaunchRequestError::at("E0803", title, *place),
            None => LaunchRequestError::new("E0803", title),
        };
        let help = suggestions::did_you_mean(path, all.iter().map(|(name, _)| *name));
        let refusal = help.into_iter().fold(refusal, LaunchRequestError::help);
        Err(match all.is_empty() {
            true => refusal.note("the program has no kernels of its own"),
            false => {
                refusal.note(format!("the program's kernels are {}", quote_names(all.iter().map(|(name, _)| *name))))
            }
        })
    }

    /// Returns the types that a request contains for the type parameters of a kernel.
    fn type_arguments(&mut self, launch: &LaunchRequest<'_>, kernel: &Kernel) -> Vec<Option<Type>> {
        let ClientState { session, interpreter, .. } = self;
        let mut arguments = Vec::with_capacity(kernel.sig.generics.len());
        for generic in &kernel.sig.generics {
            let type_argument = launch.generics.iter().find(|(name, _)| *name == generic.name.as_str());
            let element = type_argument
                .filter(|_| matches!(generic.kind, GenericKind::Type { .. }))
                .and_then(|(_, text)| element_named(text, &mut |name| struct_named(session, interpreter, name)));
            arguments.push(element.map(|element| interpreter.element_type(&element)));
        }
        arguments
    }

    /// Infers type parameters from those arguments that have a type of their own. Numbers without a type are then
    /// converted to the inferred type.
    fn bind_types(&mut self, call: &mut LaunchCall<'_, '_>) -> Result<()> {
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
            let Some(value) = argument_of(call.launch, param) else { continue };
            let element = match value.kind() {
                JsonKind::Text if matches!(param.ty, Type::Array(_)) => match self.kept_array(value) {
                    Ok((_, array)) => Some(array.element().clone()),
                    Err(refusal) if param.access != Access::Out => return Err(refusal),
                    Err(_) => None,
                },
                JsonKind::Object => {
                    let type_name = value.fields().find(|(name, _)| name == "type").and_then(|(_, ty)| ty.string());
                    let ClientState { session, interpreter, .. } = self;
                    type_name
                        .and_then(|name| element_named(&name, &mut |name| struct_named(session, interpreter, name)))
                }
                _ => None,
            };
            if let (Some(element), Some(slot @ None)) = (element, call.types.get_mut(*generic as usize)) {
                *slot = Some(self.interpreter.element_type(&element));
            }
        }
        Ok(())
    }

    /// Returns the argument for each parameter. `None` for an `out` array that the launch allocates.
    fn arguments<'r>(
        &mut self,
        call: &mut LaunchCall<'_, 'r>,
        blocks: &mut [Option<AlignedBytes>],
    ) -> Result<Vec<Option<RequestArgument<'r>>>> {
        let mut arguments = Vec::with_capacity(call.kernel.sig.params.len());
        let mut missing = Vec::new();
        for (at, param) in call.kernel.sig.params.iter().enumerate() {
            match (argument_of(call.launch, param), call.launch.ready.get(&param.name)) {
                (Some(value), _) => arguments.push(self.argument(call, param, value, blocks)?),
                (None, Some(array)) => arguments.push(Some(self.array_argument(call, param, array)?)),
                (None, None) if let Some(extent) = requested_extent(call, at) => {
                    let value = HostValue::Scalar(ScalarValue::of(extent));
                    arguments.push(Some(RequestArgument { value, ty: Type::Scalar(Scalar::I32), kept: None }));
                }
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
        Err(LaunchRequestError::new("E0802", format!("`{}` is not given {}", call.path, quote_names(missing)))
            .note("only `out` arrays and parameters with a default may be left off"))
    }

    fn argument<'r>(
        &mut self,
        call: &mut LaunchCall<'_, 'r>,
        param: &Param,
        value: JsonRaw<'r>,
        blocks: &mut [Option<AlignedBytes>],
    ) -> Result<Option<RequestArgument<'r>>> {
        let Type::Array(expected) = &param.ty else {
            let (value, element) = self.scalar(call, &param.ty, value)?;
            let ty = self.interpreter.element_type(&element);
            return Ok(Some(RequestArgument { value, ty, kept: None }));
        };
        if value.kind() == JsonKind::Text {
            let name = data::text(value, "the name of an array")?.to_smolstr();
            if param.access == Access::Out && !self.kept.contains_key(&name) {
                // The launch allocates this array, which is then kept under the given name.
                return Ok(None);
            }
            let (name, array) = self.kept_array(value)?;
            let array = array.clone();
            let ty = self.type_of(&array, Some(value))?;
            return Ok(Some(RequestArgument { value: HostValue::Array(array), ty, kept: Some((name, value)) }));
        }
        let element = self.expected(call, &expected.element);
        let expected = ExpectedArray { element, rank: Some(expected.dims.len()) };
        let ClientState { session, interpreter, limit, .. } = self;
        let mut input = DecodeInput { limit: *limit, blocks };
        let find = &mut |name: &str| struct_named(session, interpreter, name);
        let array = data::array(value, &expected, &mut input, find)?;
        let ty = self.type_of(&array, Some(value))?;
        if let (Type::Array(param), Type::Array(array)) = (&param.ty, &ty)
            && let Type::Param(generic) = &param.element
            && let Some(slot @ None) = call.types.get_mut(*generic as usize)
        {
            *slot = Some(array.element.clone());
        }
        Ok(Some(RequestArgument { value: HostValue::Array(array), ty, kept: None }))
    }

    /// Converts an array that was read from a file to an argument.
    fn array_argument<'r>(
        &mut self,
        call: &LaunchCall<'_, '_>,
        param: &Param,
        array: &Array,
    ) -> Result<RequestArgument<'r>> {
        let own = match &param.ty {
            Type::Array(wanted) => &wanted.element,
            other => other,
        };
        let recast = self.expected(call, own).and_then(|element| array.recast(&element));
        let array = recast.unwrap_or_else(|| array.clone());
        if matches!(param.ty, Type::Array(_)) {
            let ty = self.type_of(&array, None)?;
            return Ok(RequestArgument { value: HostValue::Array(array), ty, kept: None });
        }
        match array.item(0)?.filter(|_| array.count() == 1) {
            Some(value) => {
                Ok(RequestArgument { value, ty: self.interpreter.element_type(array.element()), kept: None })
            }
            None => {
                let title = format!("`{}` is a single value, not `{}`", param.name, array.type_name());
                Err(LaunchRequestError::new("E0804", title)
                    .note("in a file, a single value is an array of one element"))
            }
        }
    }

    /// Returns the element type that a parameter requires, if it is known.
    fn expected(&mut self, call: &LaunchCall<'_, '_>, ty: &Type) -> Option<ElementType> {
        let ty = match ty {
            Type::Param(generic) => call.types.get(*generic as usize)?.clone()?,
            other => other.clone(),
        };
        Some(self.interpreter.element(&self.session.program, &ty))
    }

    /// Decodes a by-value argument: a value, or an object `{"type": …, "value": …}`.
    fn scalar(&mut self, call: &LaunchCall<'_, '_>, ty: &Type, value: JsonRaw<'_>) -> Result<(HostValue, ElementType)> {
        let mut expected = self.expected(call, ty);
        let mut value = value;
        if value.kind() == JsonKind::Object
            && matches!(ty, Type::Param(_))
            && value.fields().any(|(name, _)| name == "value")
        {
            for (name, field) in fields(value, "a value with its type", &["type", "value"])? {
                match name.as_ref() {
                    "value" => value = field,
                    _ => {
                        let name = data::text(field, "`type`")?;
                        let ClientState { session, interpreter, .. } = self;
                        let find = &mut |name: &str| struct_named(session, interpreter, name);
                        let unknown = || {
                            LaunchRequestError::at("E0803", format!("there is no type `{}`", abbreviated(&name)), field)
                        };
                        expected = Some(element_named(&name, find).ok_or_else(unknown)?);
                    }
                }
            }
        }
        let default_type =
            || data::default_scalar_type(value).filter(|_| value.kind() != JsonKind::List).map(ElementType::Scalar);
        let element = expected.or_else(default_type).ok_or_else(|| {
            LaunchRequestError::at("E0802", "the type of this value is not given", value)
                .help("give the type parameter by name, or write `{\"type\": …, \"value\": …}`")
        })?;
        Ok((data::value(&element, value)?, element))
    }

    /// Returns the type in the program that corresponds to an array.
    fn type_of(&self, array: &Array, value: Option<JsonRaw<'_>>) -> Result<Type> {
        match self.interpreter.element_type(array.element()) {
            Type::Unknown => {
                let title = format!("the program has no struct `{}` with these fields", array.element());
                let refusal = match value {
                    Some(value) => LaunchRequestError::at("E0803", title, value),
                    None => LaunchRequestError::new("E0803", title),
                };
                Err(refusal.note("the array was made for another program"))
            }
            element => Ok(array_type(element, array.rank())),
        }
    }

    /// Assigns the arguments to the variables of a compiled launch. Returns the names of the kept arrays among them, by
    /// parameter. A kept array that the kernel writes is moved out of the list, because with a second reference to it,
    /// the write would copy it.
    fn pass(
        &mut self,
        form: &CompiledLaunch,
        kernel: &Kernel,
        arguments: Vec<Option<RequestArgument<'_>>>,
    ) -> Vec<Option<SmolStr>> {
        let mut outputs = Vec::with_capacity(arguments.len());
        for ((argument, global), param) in arguments.into_iter().zip(&form.params).zip(&kernel.sig.params) {
            let (Some(argument), Some(global)) = (argument, global) else {
                outputs.push(None);
                continue;
            };
            let name = argument.kept.map(|(name, _)| name).filter(|_| param.access != Access::In);
            self.set(*global, argument.value);
            outputs.push(name);
        }
        for name in outputs.iter().flatten() {
            self.kept.shift_remove(name);
        }
        outputs
    }

    fn set(&mut self, global: GlobalId, value: HostValue) {
        let globals = &mut self.interpreter.globals;
        if globals.len() <= global.index() {
            globals.resize(global.index() + 1, None);
        }
        if let Some(slot) = globals.get_mut(global.index()) {
            *slot = Some(value);
        }
    }

    /// Moves the values of the variables back to the kept arrays. This also happens after an error, so that arrays that
    /// were partially written are not lost.
    fn collect(
        &mut self,
        form: &CompiledLaunch,
        kernel: &Kernel,
        kept: Vec<Option<SmolStr>>,
        ran: std::result::Result<Option<HostValue>, Box<Diagnostic>>,
    ) -> Result<NamedArrays> {
        let mut written = NamedArrays::new();
        for ((global, param), kept) in form.params.iter().zip(&kernel.sig.params).zip(kept) {
            let slot = global.and_then(|global| self.interpreter.globals.get_mut(global.index()));
            let Some(HostValue::Array(array)) = slot.and_then(Option::take) else { continue };
            match kept {
                Some(name) => drop(self.kept.insert(name, array)),
                None if param.access != Access::In => drop(written.insert(param.name.clone(), array)),
                None => {}
            }
        }
        let created = match ran {
            Ok(Some(HostValue::Tuple(parts))) => parts,
            Ok(Some(one)) => vec![one],
            Ok(None) => vec![],
            Err(diagnostic) => return Err(vec![*diagnostic].into()),
        };
        let made_here = |(param, global): &(&Param, &Option<GlobalId>)| param.access == Access::Out && global.is_none();
        let left_off = kernel.sig.params.iter().zip(&form.params).filter(made_here);
        for ((param, _), value) in left_off.zip(created) {
            if let HostValue::Array(array) = value {
                written.insert(param.name.clone(), array);
            }
        }
        Ok(written)
    }

    /// Copies arrays to host memory. Done before a reply is written, because an error of the device cannot be reported
    /// in the middle of it.
    pub fn fetch(&self, arrays: NamedArrays) -> Result<HostArrays> {
        self.finish()?;
        arrays.into_iter().map(|(name, array)| Ok((name, array.fetched()?))).collect()
    }
}

/// Returns the element type for a struct of the program's main module.
fn struct_named(session: &Session, interpreter: &mut Interpreter, name: &str) -> Option<ElementType> {
    let module = session.program.modules.get(session.main?)?;
    match module.names.get(name) {
        Some(NameBinding::Struct(id)) => Some(interpreter.element(&session.program, &Type::Struct(*id))),
        _ => None,
    }
}

/// Returns the value that a request contains for a parameter.
fn argument_of<'r>(launch: &LaunchRequest<'r>, param: &Param) -> Option<JsonRaw<'r>> {
    let list = if matches!(param.ty, Type::Array(_)) { &launch.arrays } else { &launch.scalars };
    list.iter().find(|(name, _)| *name == param.name.as_str()).map(|(_, value)| *value)
}

/// Returns the extents of a kernel that are parameters of it, as in the translation of a CUDA kernel: those of the
/// grid, then those of the block, with the index of each parameter.
fn extent_parameters(kernel: &Kernel) -> [Vec<Option<usize>>; 2] {
    let Geometry::Grid { grid, block, .. } = &kernel.geometry else { return [vec![], vec![]] };
    let index = |extent: &Expr| match extent.kind {
        ExprKind::Local(local) if local.index() < kernel.sig.params.len() => Some(local.index()),
        _ => None,
    };
    [grid, block].map(|extents| extents.iter().map(index).collect())
}

fn has_extent_parameters(kernel: &Kernel) -> bool {
    extent_parameters(kernel).iter().flatten().any(Option::is_some)
}

/// Returns the extent that a request states for a parameter.
fn requested_extent(call: &LaunchCall<'_, '_>, param: usize) -> Option<i32> {
    let extents = extent_parameters(call.kernel).into_iter().zip([call.launch.grid, call.launch.block]);
    let of = |(params, stated): (Vec<Option<usize>>, Option<[i64; 3]>)| {
        let axis = params.iter().position(|known| *known == Some(param))?;
        i32::try_from(*stated?.get(axis)?).ok()
    };
    extents.into_iter().find_map(of)
}

/// Rejects a grid or block with more dimensions than the kernel has.
fn reject_unread_axes(kernel: &Kernel, grid: [i64; 3], block: [i64; 3]) -> Result<()> {
    let [of_grid, of_block] = extent_parameters(kernel).map(|extents| extents.len());
    if grid.iter().skip(of_grid).chain(block.iter().skip(of_block)).all(|extent| *extent == 1) {
        return Ok(());
    }
    let title = format!("`{}` has {of_grid} dimensions, and the request has more", kernel.name);
    Err(LaunchRequestError::new("E0802", title))
}

/// Rejects a request if one of its arguments matches no parameter.
fn reject_unknown_arguments(launch: &LaunchRequest<'_>, kernel: &Kernel, path: &str) -> Result<()> {
    let params = || kernel.sig.params.iter().map(|param| param.name.as_str());
    if let Some(name) = launch.ready.keys().find(|name| !params().any(|param| param == name.as_str())) {
        let refusal = LaunchRequestError::new("E0803", format!("`{path}` has no parameter `{}`", abbreviated(name)));
        return Err(refusal.note(format!("its parameters are {}", quote_names(params()))));
    }
    for (list, arrays) in [(&launch.scalars, false), (&launch.arrays, true)] {
        for (name, value) in list {
            let param = kernel.sig.params.iter().find(|param| *name == param.name.as_str());
            match param {
                Some(param) if matches!(param.ty, Type::Array(_)) == arrays => {}
                Some(_) => {
                    let (right, wrong) = if arrays { ("scalars", "arrays") } else { ("arrays", "scalars") };
                    let title = format!("`{name}` of `{path}` belongs into `{right}`, not into `{wrong}`");
                    return Err(LaunchRequestError::at("E0802", title, *value));
                }
                None => {
                    let title = format!("`{path}` has no parameter `{}`", abbreviated(name));
                    let refusal = LaunchRequestError::at("E0803", title, *value);
                    let refusal =
                        suggestions::did_you_mean(name, params()).into_iter().fold(refusal, LaunchRequestError::help);
                    return Err(refusal.note(format!("its parameters are {}", quote_names(params()))));
                }
            }
        }
    }
    Ok(())
}

/// Rejects a request that passes the same kept array to two parameters that the kernel writes.
fn reject_double_writes(kernel: &Kernel, arguments: &[Option<RequestArgument<'_>>]) -> Result<()> {
    let mut names: Vec<&SmolStr> = Vec::new();
    for (argument, param) in arguments.iter().zip(&kernel.sig.params) {
        let Some(RequestArgument { kept: Some((name, place)), .. }) = argument else { continue };
        if param.access == Access::In {
            continue;
        }
        if names.contains(&name) {
            let title = format!("`{name}` cannot be written through two parameters at once");
            return Err(LaunchRequestError::at("E0802", title, *place));
        }
        names.push(name);
    }
    Ok(())
}
