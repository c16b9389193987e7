//! The launches of a file in a form that can be run: the grid, the block and the arguments are integers that may depend
//! on unknown values of host code, such as a command-line argument.

use super::host_launches::{BufferContents, HostLaunch, HostLaunches};
use super::host_values::HostCodeValue;
use super::polynomial::{SizePolynomial, SizeSymbol};
use crate::source::SourceSpan;
use rustc_hash::FxHashMap;
use smol_str::SmolStr;

/// The maximum depth of quotients in quotients.
const MAX_DEPTH: usize = 16;

/// A value of host code that is unknown before the program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostUnknown(SizeSymbol);

/// An integer of host code, which may depend on unknown values.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HostInteger(SizePolynomial);

/// An argument of a launch in host code.
#[derive(Clone, Debug, PartialEq)]
pub enum LaunchArgument {
    /// Not an understood number or array.
    Unknown,
    Integer(HostInteger),
    Float(f64),
    /// Arguments with the same `buffer` are the same array. The number of bytes is known only if the pointer is to the
    /// first byte.
    Array {
        buffer: u32,
        bytes: Option<HostInteger>,
        contents: BufferContents,
    },
}

/// What a parameter of a translated kernel stands for.
#[derive(Clone, Debug, PartialEq)]
pub enum ParameterRole {
    /// The parameter at this position in the CUDA file. A struct with pointers has several parameters in the text.
    Argument(usize),
    /// The extent of the grid or the block along an axis.
    Grid(usize),
    Block(usize),
    /// The length of a dynamic shared array, and the size of its elements if that is known.
    SharedLength {
        element_bytes: Option<i128>,
    },
    /// A variable of the file, with the initial values of its elements. `None` if host code sets them, or if they are
    /// not literals.
    FileVariable {
        initial: Option<Vec<InitialValue>>,
    },
}

/// The initial value of a variable of the file, or of an element of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum InitialValue {
    Int(i128),
    Float(f64),
}

/// A parameter of a translated kernel, in the order of the text.
#[derive(Clone, Debug, PartialEq)]
pub struct KernelParameter {
    /// The name in the CUDA file.
    pub name: SmolStr,
    pub role: ParameterRole,
}

/// A launch in host code. What is not understood is `None`.
#[derive(Clone, Debug)]
pub struct CudaLaunch {
    /// The name of the kernel in the CUDA file.
    pub name: SmolStr,
    /// The name of the kernel in the Clk text; `None` if it is not known which kernel or instance is launched.
    pub kernel: Option<SmolStr>,
    pub place: SourceSpan,
    pub grid: [Option<HostInteger>; 3],
    pub block: [Option<HostInteger>; 3],
    /// The number of bytes of dynamic shared memory.
    pub shared_bytes: Option<HostInteger>,
    pub arguments: Vec<LaunchArgument>,
}

/// The values of host code on which integers depend.
#[derive(Clone, Debug, Default)]
pub struct HostUnknowns {
    /// The dividend and the divisor of values that are quotients.
    quotients: FxHashMap<SizeSymbol, (SizePolynomial, i128)>,
    /// The names of the variables that had an unknown value first.
    names: FxHashMap<SizeSymbol, SmolStr>,
    constants: FxHashMap<SizeSymbol, i128>,
}

impl HostUnknowns {
    pub(super) fn of(host: &HostLaunches<'_>) -> HostUnknowns {
        HostUnknowns { quotients: host.quotients.clone(), names: host.names.clone(), constants: host.values.clone() }
    }

    /// Returns the unknown value that an integer is.
    pub fn as_unknown(&self, integer: &HostInteger) -> Option<HostUnknown> {
        let symbol = integer.0.as_symbol()?;
        let is_known = self.constants.contains_key(&symbol) || self.quotients.contains_key(&symbol);
        (!is_known).then_some(HostUnknown(symbol))
    }

    /// Returns the name of the variable that had the value first.
    pub fn name(&self, unknown: HostUnknown) -> Option<&SmolStr> {
        self.names.get(&unknown.0)
    }

    /// Returns the unknown values on which an integer depends, each once.
    pub fn of_integer(&self, integer: &HostInteger) -> Vec<HostUnknown> {
        let mut found = vec![];
        self.collect(&integer.0, MAX_DEPTH, &mut found);
        found
    }

    fn collect(&self, value: &SizePolynomial, depth: usize, found: &mut Vec<HostUnknown>) {
        for symbol in value.symbols().filter(|symbol| !self.constants.contains_key(symbol)) {
            match self.quotients.get(&symbol) {
                Some((dividend, _)) if depth > 0 => self.collect(dividend, depth - 1, found),
                _ if found.contains(&HostUnknown(symbol)) => {}
                _ => found.push(HostUnknown(symbol)),
            }
        }
    }

    /// Computes an integer. `value_of` returns the value of an unknown.
    pub fn number(&self, integer: &HostInteger, value_of: &dyn Fn(HostUnknown) -> Option<i128>) -> Option<i128> {
        self.evaluate(&integer.0, MAX_DEPTH, value_of)
    }

    fn evaluate(
        &self,
        value: &SizePolynomial,
        depth: usize,
        value_of: &dyn Fn(HostUnknown) -> Option<i128>,
    ) -> Option<i128> {
        let number = |symbol: SizeSymbol| match (self.constants.get(&symbol), self.quotients.get(&symbol)) {
            (Some(constant), _) => Some(*constant),
            (None, Some((dividend, divisor))) => {
                self.evaluate(dividend, depth.checked_sub(1)?, value_of)?.checked_div(*divisor)
            }
            (None, None) => value_of(HostUnknown(symbol)),
        };
        value.substitute_all(|symbol| number(symbol).map(SizePolynomial::number))?.as_number()
    }
}

impl CudaLaunch {
    /// Describes a launch of host code. `kernel` is the name of the kernel in the text.
    pub(super) fn of(launch: &HostLaunch<'_>, kernel: Option<SmolStr>) -> CudaLaunch {
        let integer = |value: &Option<SizePolynomial>| value.clone().map(HostInteger);
        let arguments = launch.args.iter().zip(&launch.contents).map(|(arg, contents)| match arg {
            HostCodeValue::Int(value, _) => LaunchArgument::Integer(HostInteger(value.clone())),
            HostCodeValue::Float(value) => LaunchArgument::Float(*value),
            HostCodeValue::Buffer { id, bytes } => {
                LaunchArgument::Array { buffer: *id, bytes: integer(bytes), contents: *contents }
            }
            _ => LaunchArgument::Unknown,
        });
        CudaLaunch {
            name: launch.kernel.segments.last().map_or("".into(), |last| last.name.text.clone()),
            kernel,
            place: launch.span,
            grid: launch.grid.each_ref().map(integer),
            block: launch.block.each_ref().map(integer),
            shared_bytes: integer(&launch.shared),
            arguments: arguments.collect(),
        }
    }
}
