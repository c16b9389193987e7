//! Determines the launches of a CUDA file that are run, with all numbers and inputs.

use std::collections::BTreeMap;

use smol_str::SmolStr;

use super::inputs;
use super::parameters::{KernelParameters, ParameterArray};
use super::planned_launch::{
    ArraySource, InputContents, LaunchArrays, LaunchInputs, PlannedArgument, PlannedArray, PlannedLaunch, PlannedValue,
    register_structs,
};
use super::sizes::{ChosenSizes, HostNumbers, LengthOrigin, SizeQuestion};
use super::text;
use crate::command_error::CommandResult;
use crate::console::Console;
use crate::interrupt::Interrupt;
use crate::launch::compiled_launch::{ArgumentType, CallableItem, CompiledLaunches, LaunchCacheKey};
use crate::script::{CompiledScript, RunLimits};
use crate::suggestions;
use clk_base::diag::Diagnostic;
use clk_base::source::Span;
use clk_check::typed::{Dim, NameBinding, Type};
use clk_compile::Session;
use clk_host::array::ElementType;
use clk_host::interp::{HostEffects, Interpreter};
use clk_import::{BufferContents, CudaLaunch, KernelParameter, LaunchArgument, ParameterRole, TranslatedKernel};
use clk_ir::Checks;
use clk_ir::def::{KernelParam, MemId, Module, StmtKind};
use clk_ir::visit::each_stmt;
use clk_lower::Instance;

/// Options of the command line for launches of a CUDA file.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct CudaLaunchOptions {
    /// The kernel to launch; all kernels without it.
    pub kernel: Option<String>,
    pub grid: Option<[i64; 3]>,
    pub block: Option<[i64; 3]>,
    /// Values of parameters and of variables of host code, by name.
    pub arguments: Vec<(String, String)>,
}

impl CudaLaunchOptions {
    /// Rejects the options for a Clk program, whose script launches kernels itself.
    pub fn for_clk_program(&self) -> CommandResult<()> {
        match self.grid.is_none() && self.block.is_none() && self.arguments.is_empty() {
            true => Ok(()),
            false => Err("error: `--grid`, `--block` and `--arg` are for CUDA files".into()),
        }
    }
}

/// The launches of a CUDA file, and the kernels and launches that are not run.
#[derive(Default)]
pub(crate) struct CudaLaunchPlan {
    pub launches: Vec<PlannedLaunch>,
    pub left_out: Vec<LeftOut>,
}

/// A kernel or launch that is not run.
pub(crate) struct LeftOut {
    pub kernel: SmolStr,
    /// The name in the Clk text, if it is known which kernel or instance is left out.
    clk_name: Option<SmolStr>,
    pub place: Span,
    pub why: String,
}

impl CudaLaunchPlan {
    /// Plans the launches of a CUDA file. Adds the statements of the launches to the program.
    pub fn of(
        compiled: &mut CompiledScript,
        options: &CudaLaunchOptions,
        limits: &RunLimits,
        interrupt: &Interrupt,
    ) -> CommandResult<CudaLaunchPlan> {
        let mut planner = Planner::new(compiled, options, limits.interpreter(interrupt, vec![]))?;
        let launches = std::mem::take(&mut planner.compiled.cuda.launches);
        for launch in &launches {
            planner.host_launch(launch);
        }
        planner.compiled.cuda.launches = launches;
        planner.other_kernels();
        planner.check_names()?;
        Ok(planner.plan)
    }

    /// Notes the chosen numbers, and the kernels and launches that are not run.
    pub fn announced(self, session: &Session, console: &mut Console) -> CudaLaunchPlan {
        for launch in &self.launches {
            console.error_line(&format!("note: {}", text::launch_text(launch, &session.sources)));
        }
        for left in &self.left_out {
            console.error_line(&format!(
                "note: {}",
                text::left_out_text(left.place, &left.kernel, &left.why, &session.sources)
            ));
        }
        self
    }

    /// Runs all launches until the first fault.
    pub fn run(
        &self,
        session: &Session,
        interpreter: &mut Interpreter,
        world: &mut dyn HostEffects,
    ) -> Result<(), Box<Diagnostic>> {
        let mut arrays = LaunchArrays::default();
        for launch in &self.launches {
            launch.run(session, interpreter, world, &mut arrays, (&launch.inputs, InputContents::Random))?;
        }
        Ok(())
    }
}

struct Planner<'a> {
    compiled: &'a mut CompiledScript,
    options: &'a CudaLaunchOptions,
    /// Knows the layouts of elements.
    interpreter: Interpreter,
    given: BTreeMap<SmolStr, i128>,
    given_floats: BTreeMap<SmolStr, f64>,
    known: HostNumbers,
    forms: CompiledLaunches,
    /// The names to which an option may give a value.
    names: Vec<SmolStr>,
    plan: CudaLaunchPlan,
}

impl<'a> Planner<'a> {
    fn new(
        compiled: &'a mut CompiledScript,
        options: &'a CudaLaunchOptions,
        mut interpreter: Interpreter,
    ) -> CommandResult<Planner<'a>> {
        register_structs(&compiled.session, &mut interpreter);
        let (mut given, mut given_floats) = (BTreeMap::new(), BTreeMap::new());
        for (name, text) in &options.arguments {
            let float: f64 =
                text.parse().map_err(|_| format!("error: `{text}` is not a number, so it is no value of `{name}`"))?;
            given_floats.insert(SmolStr::from(name), float);
            if let Ok(integer) = text.parse::<i128>() {
                given.insert(SmolStr::from(name), integer);
            }
        }
        let planner = Planner {
            compiled,
            options,
            interpreter,
            given,
            given_floats,
            known: HostNumbers::default(),
            forms: CompiledLaunches::default(),
            names: vec![],
            plan: CudaLaunchPlan::default(),
        };
        planner.check_kernel()?;
        Ok(planner)
    }

    /// Tests whether the file has the kernel of the command line.
    fn check_kernel(&self) -> CommandResult<()> {
        let Some(wanted) = &self.options.kernel else { return Ok(()) };
        let cuda = &self.compiled.cuda;
        let names = cuda.kernels.iter().chain(&cuda.faulty).flat_map(|kernel| [&kernel.name, &kernel.clk_name]);
        let names: Vec<&str> =
            names.chain(cuda.refused.iter().map(|refused| &refused.name)).map(|n| n.as_str()).collect();
        if names.contains(&wanted.as_str()) {
            return Ok(());
        }
        let help = suggestions::did_you_mean(wanted, names).map(|meant| format!("\n  Help: {meant}"));
        Err(format!("error: the file has no kernel `{wanted}`{}", help.unwrap_or_default()).into())
    }

    /// Tests whether each name of the command line is a parameter or a variable of host code.
    fn check_names(&self) -> CommandResult<()> {
        for (name, _) in &self.options.arguments {
            if !self.names.iter().any(|known| known == name) {
                let help = suggestions::did_you_mean(name, self.names.iter().map(SmolStr::as_str));
                let help = help.map(|meant| format!("\n  Help: {meant}")).unwrap_or_default();
                return Err(format!("error: no launch depends on `{name}`{help}").into());
            }
        }
        Ok(())
    }

    fn is_wanted(&self, name: &str, clk_name: Option<&str>) -> bool {
        self.options.kernel.as_deref().is_none_or(|wanted| wanted == name || Some(wanted) == clk_name)
    }

    fn leave_out(&mut self, kernel: &SmolStr, clk_name: Option<&SmolStr>, place: Span, why: impl Into<String>) {
        let (kernel, clk_name) = (kernel.clone(), clk_name.cloned());
        self.plan.left_out.push(LeftOut { kernel, clk_name, place, why: why.into() });
    }

    /// Plans a launch in host code.
    fn host_launch(&mut self, launch: &CudaLaunch) {
        if !self.is_wanted(&launch.name, launch.kernel.as_deref()) {
            return;
        }
        let place = launch.place.span;
        let Some(clk_name) = &launch.kernel else {
            if !self.compiled.cuda.refused.iter().any(|refused| refused.name == launch.name) {
                self.leave_out(&launch.name, None, place, "it is not known which kernel this launch runs");
            }
            return;
        };
        let translated = self.compiled.cuda.kernels.iter().find(|kernel| kernel.clk_name == *clk_name).cloned();
        let Some(translated) = translated else { return };
        if let Err(why) = self.plan_launch(&translated, Some(launch)) {
            self.leave_out(&launch.name, Some(clk_name), place, why.to_string());
        }
    }

    /// Plans a launch of each kernel that no launch of the file runs.
    fn other_kernels(&mut self) {
        let kernels = self.compiled.cuda.kernels.clone();
        for kernel in &kernels {
            let is_planned = self.plan.launches.iter().any(|launch| launch.clk_name == kernel.clk_name);
            let is_left_out = self.plan.left_out.iter().any(|left| left.clk_name.as_ref() == Some(&kernel.clk_name));
            if is_planned || is_left_out || !self.is_wanted(&kernel.name, Some(&kernel.clk_name)) {
                continue;
            }
            if let Err(why) = self.plan_launch(kernel, None) {
                self.leave_out(&kernel.name, Some(&kernel.clk_name), kernel.source.span, why.to_string());
            }
        }
        for faulty in &self.compiled.cuda.faulty.clone() {
            if self.is_wanted(&faulty.name, Some(&faulty.clk_name)) {
                self.leave_out(&faulty.name, Some(&faulty.clk_name), faulty.source.span, "it has an error".to_string());
            }
        }
        let refused = self.compiled.cuda.refused.clone();
        for refused in &refused {
            if self.is_wanted(&refused.name, None) {
                self.leave_out(&refused.name, None, refused.source.span, format!("it uses {}", refused.construct));
            }
        }
    }

    fn plan_launch(&mut self, translated: &TranslatedKernel, launch: Option<&CudaLaunch>) -> CommandResult<()> {
        let program = &self.compiled.session.program;
        let main = self.compiled.session.main.and_then(|main| program.modules.get(main));
        let id = match main.and_then(|main| main.names.get(&translated.clk_name)) {
            Some(NameBinding::Kernel(id)) => *id,
            _ => return Err("the translation has no such kernel".into()),
        };
        let kernel = program.kernels.get(id).ok_or("the translation has no such kernel")?;
        let instance = Instance::new(id, vec![]);
        let checks = Checks { memory: true, arithmetic: true, nan: false };
        let prepared =
            clk_compile::compile_kernel(program, &instance, checks).map_err(|_| "its translation does not compile")?;
        let parameters = KernelParameters::of(program, kernel, translated, &mut self.interpreter);
        let host = &self.compiled.cuda.unknowns;
        let question = SizeQuestion {
            program,
            kernel,
            instance: &instance,
            module: &prepared.module,
            translated,
            parameters: &parameters,
            launch,
            unknowns: host,
            grid: self.options.grid,
            block: self.options.block,
            given: &self.given,
        };
        self.names.extend(question.names());
        let numbers = match question.answer(&mut self.known) {
            Ok(numbers) => numbers,
            // Other values of host code may suit this launch.
            Err(_) => question.answer(&mut HostNumbers::default())?,
        };
        let alternatives = question.alternatives();
        let mut elements = vec![];
        for param in &kernel.sig.params {
            elements.push(match &param.ty {
                Type::Array(_) => None,
                ty => Some(self.interpreter.element(program, ty)),
            });
        }
        let names = translated.parameters.iter().map(|own| own.name.clone());
        self.names.extend(names);
        let inputs_of = |numbers| launch_inputs(&question, &elements, &self.given_floats, numbers);
        let inputs = inputs_of(numbers)?;
        let alternatives = alternatives.into_iter().filter_map(|numbers| inputs_of(numbers).ok()).collect();
        reject_aliases(&inputs.arguments)?;
        let place = launch.map_or(translated.source, |launch| launch.place).span;
        let types = kernel.sig.params.iter().map(|param| Some(ArgumentType::of(&param.ty))).collect();
        let key = LaunchCacheKey {
            item: CallableItem::Kernel(id),
            path: translated.clk_name.clone(),
            types,
            generics: vec![],
            dims: vec![],
            geometry: false,
            origin: Some(place),
        };
        let compiled = self.forms.find(&mut self.compiled.session, key);
        let compiled = compiled.map_err(|_| "its launch does not compile")?;
        self.plan.launches.push(PlannedLaunch {
            kernel: translated.name.clone(),
            clk_name: translated.clk_name.clone(),
            place,
            is_from_file: launch.is_some(),
            inputs,
            alternatives,
            compiled,
        });
        Ok(())
    }
}

/// Returns the arguments of a launch with these numbers. `elements` has the types of the parameters that are no arrays.
fn launch_inputs(
    question: &SizeQuestion<'_>,
    elements: &[Option<ElementType>],
    given: &BTreeMap<SmolStr, f64>,
    numbers: ChosenSizes,
) -> CommandResult<LaunchInputs> {
    let mut arguments = vec![];
    let mut position = 0;
    for (at, (param, element)) in question.kernel.sig.params.iter().zip(elements).enumerate() {
        let own = question.translated.parameters.get(at);
        let name = own.map_or_else(|| param.name.clone(), |own| own.name.clone());
        let value = match (question.parameters.arrays.iter().find(|array| array.param == at), element) {
            (Some(array), _) => {
                position += 1;
                let is_atomic = is_updated_atomically(question.module, position - 1);
                PlannedValue::Array(planned_array(array, &numbers, own, question.launch, is_atomic)?)
            }
            (None, Some(element)) => {
                let first = position;
                position += element.layout().leaves.len() as u32;
                let given = given.get(&name).copied().or_else(|| match question.launch_argument(at) {
                    Some(LaunchArgument::Float(value)) => Some(*value),
                    _ => None,
                });
                let number = |leaf: usize| numbers.sizes.scalars.get(&(first + leaf as u32)).copied();
                let value = inputs::value(element, &name, given, &number)
                    .ok_or_else(|| format!("the value of `{name}` is out of range"))?;
                match own.map(|own| &own.role) {
                    Some(ParameterRole::Argument(_)) | None => PlannedValue::Scalar(value),
                    Some(_) => PlannedValue::Geometry(value),
                }
            }
            (None, None) => return Err(format!("`{name}` has no type").into()),
        };
        arguments.push(PlannedArgument { name, clk_name: param.name.clone(), value });
    }
    let lengths = arguments.iter().filter_map(|argument| match &argument.value {
        PlannedValue::Array(array) if array.length > 1 => Some(array.length as u64),
        _ => None,
    });
    let index_limit = lengths.min().unwrap_or(1);
    Ok(LaunchInputs { numbers, arguments, index_limit })
}

fn planned_array(
    array: &ParameterArray,
    numbers: &ChosenSizes,
    own: Option<&KernelParameter>,
    launch: Option<&CudaLaunch>,
    is_atomic: bool,
) -> CommandResult<PlannedArray> {
    let (length, origin) = match array.dims[..] {
        [Dim::Known(length)] => (length as i128, LengthOrigin::Launch),
        [Dim::Name(dim)] => {
            let dim = dim as usize;
            let origin = numbers.lengths.get(dim).copied().unwrap_or(LengthOrigin::Unstated);
            (numbers.sizes.dims.get(dim).copied().unwrap_or(0), origin)
        }
        _ => return Err(format!("the shape of `{}` is not known", array.name).into()),
    };
    let length = usize::try_from(length).map_err(|_| format!("`{}` has a negative length", array.name))?;
    let is_integer = matches!(&array.element, ElementType::Scalar(scalar) if scalar.is_int());
    let own_source = ArraySource::Own { is_zero: is_integer && (is_atomic || length == 1) };
    let source = match own.map(|own| &own.role) {
        Some(ParameterRole::FileVariable { initial }) => ArraySource::Variable(array.name.clone(), initial.clone()),
        Some(ParameterRole::Argument(position)) => match launch.and_then(|launch| launch.arguments.get(*position)) {
            Some(LaunchArgument::Array { buffer, contents, .. }) => {
                match (contents.version, contents.byte, &own_source) {
                    // Nothing has written the array, so zeros are as good as any other contents.
                    (0, None, ArraySource::Own { is_zero: true }) => {
                        ArraySource::Buffer(*buffer, BufferContents { byte: Some(0), ..*contents })
                    }
                    _ => ArraySource::Buffer(*buffer, *contents),
                }
            }
            _ => own_source,
        },
        _ => own_source,
    };
    Ok(PlannedArray { element: array.element.clone(), length, origin, is_written: array.is_written, source })
}

/// Rejects a launch that passes one array for two parameters, if the kernel writes it: the translation has two arrays.
fn reject_aliases(arguments: &[PlannedArgument]) -> CommandResult<()> {
    let buffer = |argument: &PlannedArgument| match &argument.value {
        PlannedValue::Array(PlannedArray { source: ArraySource::Buffer(id, _), is_written, .. }) => {
            Some((*id, *is_written))
        }
        _ => None,
    };
    for (at, second) in arguments.iter().enumerate() {
        for first in &arguments[..at] {
            if let (Some((first_id, is_first_written)), Some((second_id, is_second_written))) =
                (buffer(first), buffer(second))
                && first_id == second_id
                && (is_first_written || is_second_written)
            {
                return Err(format!("it passes the same array for `{}` and `{}`", first.name, second.name).into());
            }
        }
    }
    Ok(())
}

/// Returns whether the kernel updates elements of a parameter atomically.
fn is_updated_atomically(module: &Module, position: u32) -> bool {
    let Some(KernelParam::Array { memory, .. }) = module.kernel.params.get(position as usize) else { return false };
    let memory: MemId = *memory;
    let Some(body) = module.functions.get(module.kernel.body) else { return false };
    let mut is_atomic = false;
    each_stmt(&body.body, &mut |stmt| {
        is_atomic |= matches!(&stmt.kind, StmtKind::Atomic { place, .. } if place.memory == memory);
    });
    is_atomic
}
