//! The launches in host code, with sizes and arguments as polynomials in host variables.

use super::host_values::{HostCodeValue, HostInt, HostTypes, is_natural, one};
use super::polynomial::{SizePolynomial, SizeSymbol};
use crate::ast::{CppName, QualifiedName};
use crate::source::SourceSpan;
use rustc_hash::{FxHashMap, FxHashSet};
use smol_str::SmolStr;
use std::cell::RefCell;

/// The contents of an array before a launch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BufferContents {
    /// The number of times that host code has written the array before. Launches do not count.
    pub version: u32,
    /// The value of all bytes, if the last write was a `cudaMemset` of the whole array.
    pub byte: Option<u8>,
}

/// A launch in host code.
#[derive(Clone, Debug)]
pub(super) struct HostLaunch<'a> {
    pub(super) kernel: &'a QualifiedName,
    pub(super) span: SourceSpan,
    pub(super) grid: [Option<SizePolynomial>; 3],
    pub(super) block: [Option<SizePolynomial>; 3],
    /// The number of bytes of dynamic shared memory.
    pub(super) shared: Option<SizePolynomial>,
    pub(super) args: Vec<HostCodeValue>,
    /// For each argument, the variable of the pointer that it is.
    pub(super) roots: Vec<Option<String>>,
    /// For each argument, the contents of the array that it is.
    pub(super) contents: Vec<BufferContents>,
    /// Whether the grid and the block are integers, and have one dimension therefore.
    pub(super) is_integer: [bool; 2],
}

impl HostLaunch<'_> {
    /// Forgets all that the values of variables say.
    pub(super) fn forget(&mut self) {
        let unknown = |is_integer: bool| [None, is_integer.then(one), is_integer.then(one)];
        (self.grid, self.block, self.shared) = (unknown(self.is_integer[0]), unknown(self.is_integer[1]), None);
        self.args.iter_mut().for_each(|arg| *arg = HostCodeValue::Unknown);
    }
}

/// The maximum number of unsigned operations and sizes that [`HostLaunches::guessed`] replaces.
const MAX_EXACT_STEPS: usize = 16;

/// All launches of a file. The host variables in their polynomials are symbols of this table.
#[derive(Default)]
pub(super) struct HostLaunches<'a> {
    pub(super) launches: Vec<HostLaunch<'a>>,
    /// Names of kernels in calls that launch nothing, such as that of `cudaFuncSetAttribute`.
    pub(super) mentions: Vec<&'a CppName>,
    /// The dividend and the divisor of symbols that are quotients. No dividend is a number.
    pub(super) quotients: FxHashMap<SizeSymbol, (SizePolynomial, i128)>,
    /// The values of variables that have a constant value.
    pub(super) values: FxHashMap<SizeSymbol, i128>,
    /// The values of unsigned arithmetic if it does not wrap around.
    pub(super) exact_values: FxHashMap<SizeSymbol, SizePolynomial>,
    /// Sizes of types that are parameters of a template.
    pub(super) type_sizes: FxHashSet<SizeSymbol>,
    /// Variables of signed types.
    pub(super) signed: FxHashSet<SizeSymbol>,
    /// Signed variables in values that are converted to unsigned types of 32 bits: they are taken not to be negative.
    pub(super) natural: RefCell<FxHashSet<SizeSymbol>>,
    /// The integer types of the file.
    pub(super) types: HostTypes,
    /// The names of the variables that had an unknown value first.
    pub(super) names: FxHashMap<SizeSymbol, SmolStr>,
    /// Variables of the file whose contents host code sets.
    pub(super) set_variables: Vec<SmolStr>,
}

impl HostLaunches<'_> {
    /// Returns the number that a polynomial is, if all of its variables have constant values.
    pub(super) fn number(&self, value: &SizePolynomial) -> Option<i128> {
        value.symbols().all(|symbol| self.values.contains_key(&symbol)).then(|| self.with_numbers(value).as_number())?
    }

    /// Replaces variables with a constant value by it.
    pub(super) fn with_numbers(&self, value: &SizePolynomial) -> SizePolynomial {
        let mut result = value.clone();
        for symbol in value.symbols() {
            if let Some(number) = self.values.get(&symbol)
                && let Some(next) = result.substitute(symbol, &SizePolynomial::number(*number))
            {
                result = next;
            }
        }
        result
    }

    /// Returns a value if no arithmetic wraps around and the sizes of template parameters are `element`.
    pub(super) fn guessed(&self, value: &SizePolynomial, element: i128) -> SizePolynomial {
        let mut result = value.clone();
        for _ in 0..MAX_EXACT_STEPS {
            let next = result.symbols().find_map(|symbol| match self.exact_values.get(&symbol) {
                Some(exact) => result.substitute(symbol, exact),
                None if self.type_sizes.contains(&symbol) => {
                    result.substitute(symbol, &SizePolynomial::number(element))
                }
                None => None,
            });
            match next {
                Some(next) => result = next,
                None => return result,
            }
        }
        result
    }

    /// Converts a value to another integer type. `None` if that may change it. Values of 64 bits are equal modulo 2^64,
    /// which is enough for sizes in bytes; those of 32 bits are taken not to be negative, which
    /// [`HostLaunches::natural`] notes.
    pub(super) fn converted(&self, value: &SizePolynomial, from: HostInt, to: HostInt) -> Option<SizePolynomial> {
        let number = self.number(value);
        if !to.keeps(from, number, is_natural(&self.with_numbers(value))) {
            return None;
        }
        if number.is_none() && from.is_signed && !to.is_signed && to.bits == 32 {
            self.note_natural(value);
        }
        Some(value.clone())
    }

    /// Notes that the signed variables in a value are taken not to be negative.
    pub(super) fn note_natural(&self, value: &SizePolynomial) {
        self.natural.borrow_mut().extend(value.symbols().filter(|symbol| self.signed.contains(symbol)));
    }
}
