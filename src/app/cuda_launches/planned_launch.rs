//! A launch whose sizes and inputs are determined, and the arrays that launches share.

use std::collections::BTreeMap;
use std::sync::Arc;

use smol_str::SmolStr;

use super::inputs::{self, IntegerContents};
use super::sizes::{ChosenSizes, LengthOrigin};
use crate::launch::compiled_launch::CompiledLaunch;
use clk_base::diag::Diagnostic;
use clk_base::source::Span;
use clk_check::typed::{GlobalId, Type};
use clk_compile::Session;
use clk_host::array::{Array, ElementType};
use clk_host::interp::{HostEffects, Interpreter};
use clk_host::problem::HostResult;
use clk_host::value::HostValue;
use clk_import::{BufferContents, InitialValue};

/// A launch whose sizes and inputs are determined.
pub(crate) struct PlannedLaunch {
    /// The name of the kernel in the CUDA file.
    pub kernel: SmolStr,
    /// The name in the Clk text.
    pub clk_name: SmolStr,
    /// The launch in the file, or the kernel.
    pub place: Span,
    /// Whether the file has the launch.
    pub is_from_file: bool,
    pub inputs: LaunchInputs,
    /// Inputs with other chosen numbers.
    pub alternatives: Vec<LaunchInputs>,
    pub compiled: Arc<CompiledLaunch>,
}

/// The numbers and arguments of a launch.
pub(crate) struct LaunchInputs {
    pub numbers: ChosenSizes,
    pub arguments: Vec<PlannedArgument>,
    /// One more than the largest index that every array allows.
    pub index_limit: u64,
}

/// An argument of a planned launch.
pub(crate) struct PlannedArgument {
    /// The name of the parameter in the CUDA file.
    pub name: SmolStr,
    /// The name in the Clk text.
    pub clk_name: SmolStr,
    pub value: PlannedValue,
}

pub(crate) enum PlannedValue {
    /// An extent of the grid or the block, or the length of dynamic shared memory.
    Geometry(HostValue),
    Scalar(HostValue),
    Array(PlannedArray),
}

/// An array argument.
pub(crate) struct PlannedArray {
    pub element: ElementType,
    pub length: usize,
    pub origin: LengthOrigin,
    pub is_written: bool,
    pub source: ArraySource,
}

/// Where the contents of an array come from.
pub(crate) enum ArraySource {
    /// An array of host code, which several launches may pass.
    Buffer(u32, BufferContents),
    /// A variable of the file, with the initial values of its elements if they are known.
    Variable(SmolStr, Option<Vec<InitialValue>>),
    /// An array that only this launch has. With `is_zero`, the kernel updates it atomically, or it is one integer.
    Own { is_zero: bool },
}

/// The arrays of host code and the variables of the file, between launches.
#[derive(Clone, Default)]
pub(crate) struct LaunchArrays {
    buffers: BTreeMap<u32, (u32, Array)>,
    variables: BTreeMap<SmolStr, Array>,
}

/// How the generated arrays of a launch are filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InputContents {
    Random,
    /// Integers are the positions of their elements.
    Positions,
    /// Integers are zero.
    Zeros,
    /// Integers are one, so that they may be divisors.
    Ones,
}

/// Registers the program's structs with an interpreter, so that it recognizes arrays of these structs.
pub(super) fn register_structs(session: &Session, interpreter: &mut Interpreter) {
    for (id, _) in session.program.structs.iter() {
        interpreter.element(&session.program, &Type::Struct(id));
    }
}

impl PlannedLaunch {
    /// Runs the launch, with arrays of earlier launches. Afterward, `arrays` has the arrays that the kernel wrote, also
    /// after a fault.
    pub fn run(
        &self,
        session: &Session,
        interpreter: &mut Interpreter,
        world: &mut dyn HostEffects,
        arrays: &mut LaunchArrays,
        (inputs, contents): (&LaunchInputs, InputContents),
    ) -> Result<Vec<(SmolStr, Array)>, Box<Diagnostic>> {
        register_structs(session, interpreter);
        let globals: Vec<Option<GlobalId>> = self.compiled.params.clone();
        for (argument, global) in inputs.arguments.iter().zip(&globals) {
            let Some(global) = global else { continue };
            let value = match &argument.value {
                PlannedValue::Geometry(value) | PlannedValue::Scalar(value) => value.clone(),
                PlannedValue::Array(array) => {
                    let input = inputs.input(argument, array, arrays, contents);
                    HostValue::Array(input.map_err(|problem| Box::new(problem.anywhere()))?)
                }
            };
            set_global(interpreter, *global, value);
        }
        let ran = interpreter.run_entry(session, self.compiled.chunk, world);
        let mut written = vec![];
        for (argument, global) in inputs.arguments.iter().zip(&globals) {
            let PlannedValue::Array(array) = &argument.value else { continue };
            let slot = global.and_then(|global| interpreter.globals.get_mut(global.index()));
            let Some(HostValue::Array(result)) = slot.and_then(Option::take) else { continue };
            match &array.source {
                ArraySource::Buffer(id, contents) => {
                    drop(arrays.buffers.insert(*id, (contents.version, result.clone())));
                }
                ArraySource::Variable(name, _) => drop(arrays.variables.insert(name.clone(), result.clone())),
                ArraySource::Own { .. } => {}
            }
            if array.is_written {
                written.push((argument.name.clone(), result));
            }
        }
        ran.map(|_| written)
    }
}

impl LaunchInputs {
    /// Returns the array for an argument.
    fn input(
        &self,
        argument: &PlannedArgument,
        array: &PlannedArray,
        arrays: &mut LaunchArrays,
        contents: InputContents,
    ) -> HostResult<Array> {
        let is_same = |known: &Array| *known.element() == array.element && known.count() == array.length;
        let limit = self.index_limit;
        let integers = match contents {
            InputContents::Random => IntegerContents::Random { limit },
            InputContents::Positions => IntegerContents::Positions { limit },
            InputContents::Zeros => IntegerContents::All(0),
            InputContents::Ones => IntegerContents::All(1),
        };
        let generated = |name: &str| inputs::array(&array.element, array.length, name, integers);
        match &array.source {
            ArraySource::Buffer(id, before) => {
                // The array is moved, since a second reference would copy it at the first write.
                let known = arrays.buffers.remove(id);
                let known = known.filter(|(version, known)| *version == before.version && is_same(known));
                let input = match (known, before.byte) {
                    (Some((_, known)), _) => known,
                    (None, Some(byte)) => inputs::filled(&array.element, array.length, byte)?,
                    (None, None) => generated(&argument.name)?,
                };
                if !array.is_written {
                    // The launch may pass it for another parameter.
                    arrays.buffers.insert(*id, (before.version, input.clone()));
                }
                Ok(input)
            }
            ArraySource::Variable(name, initial) => match (arrays.variables.remove(name), initial) {
                (Some(known), _) if is_same(&known) => Ok(known),
                (_, Some(initial)) => inputs::listed(&array.element, array.length, initial),
                _ => generated(&argument.name),
            },
            ArraySource::Own { is_zero: true } => inputs::filled(&array.element, array.length, 0),
            ArraySource::Own { is_zero: false } => generated(&argument.name),
        }
    }
}

fn set_global(interpreter: &mut Interpreter, global: GlobalId, value: HostValue) {
    let globals = &mut interpreter.globals;
    if globals.len() <= global.index() {
        globals.resize(global.index() + 1, None);
    }
    if let Some(slot) = globals.get_mut(global.index()) {
        *slot = Some(value);
    }
}
