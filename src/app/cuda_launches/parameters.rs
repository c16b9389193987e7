//! The parameters of a translated kernel: its arrays, and the numbers of its other parameters.

use smol_str::SmolStr;

use clk_check::typed::{Access, Dim, Kernel, Program, Type};
use clk_host::array::ElementType;
use clk_host::interp::Interpreter;
use clk_import::TranslatedKernel;
use clk_ir::def::Ty;

/// A number of a parameter that is not an array: the parameter itself, or a field of it.
#[derive(Clone, Debug)]
pub(crate) struct ParameterLeaf {
    /// The position among the numbers and arrays of all parameters.
    pub position: u32,
    /// The index of the parameter.
    pub param: usize,
    /// The name in the CUDA file: `n`, `v.n`.
    pub name: SmolStr,
    /// Whether the parameter has no other numbers.
    pub is_whole: bool,
}

/// An array parameter.
#[derive(Clone, Debug)]
pub(crate) struct ParameterArray {
    pub param: usize,
    /// The name in the CUDA file.
    pub name: SmolStr,
    pub element: ElementType,
    pub element_bytes: usize,
    pub dims: Vec<Dim>,
    pub is_written: bool,
}

/// The parameters of a kernel.
#[derive(Clone, Debug, Default)]
pub(crate) struct KernelParameters {
    pub arrays: Vec<ParameterArray>,
    pub integers: Vec<ParameterLeaf>,
    /// By parameter: the position of its first number.
    first_leaves: Vec<u32>,
}

impl KernelParameters {
    pub fn of(
        program: &Program,
        kernel: &Kernel,
        translated: &TranslatedKernel,
        interpreter: &mut Interpreter,
    ) -> KernelParameters {
        let mut all = KernelParameters::default();
        let mut position = 0;
        for (param, own) in kernel.sig.params.iter().enumerate() {
            let name = translated.parameters.get(param).map_or_else(|| own.name.clone(), |known| known.name.clone());
            all.first_leaves.push(position);
            if let Type::Array(array) = &own.ty {
                let element = interpreter.element(program, &array.element);
                all.arrays.push(ParameterArray {
                    param,
                    name,
                    element_bytes: element.size().max(1),
                    element,
                    dims: array.dims.to_vec(),
                    is_written: own.access != Access::In,
                });
                position += 1;
                continue;
            }
            let leaves = interpreter.element(program, &own.ty).layout().leaves;
            for (at, leaf) in leaves.iter().enumerate() {
                let is_integer = matches!(leaf.ty, Ty::Scalar(scalar) if scalar.is_int());
                if is_integer {
                    let name = if leaf.path.is_empty() { name.clone() } else { format!("{name}.{}", leaf.path).into() };
                    let position = position + at as u32;
                    all.integers.push(ParameterLeaf { position, param, name, is_whole: leaves.len() == 1 });
                }
            }
            position += leaves.len() as u32;
        }
        all
    }

    /// Returns the position of the first number of a parameter.
    pub fn first_leaf(&self, param: usize) -> Option<u32> {
        self.first_leaves.get(param).copied()
    }
}
