//! Sizes of a kernel that the launches of its file determine: lengths of arrays, the grid and the block, in terms of
//! the kernel's parameters. A quantity on which the launches disagree, or that is not understood, stays unknown.
//!
//! A kernel may have launches that are not understood, through a pointer to it for example. Then the launches say
//! nothing about sizes.

use super::host_launches::{HostLaunch, HostLaunches};
use super::host_values::{HostCodeValue, HostInt};
use super::polynomial::{Monomial, SizePolynomial, SizeSymbol};
use super::program::{self, Program};
use crate::ast::{CppFunction, FunctionBody, TranslationUnit};
use crate::source::SourceSpan;
use rustc_hash::FxHashSet;
use smol_str::SmolStr;

/// The launches of one kernel.
#[derive(Clone, Default)]
pub(super) struct KernelLaunches<'h> {
    host: Option<&'h HostLaunches<'h>>,
    /// All launches with the name of the kernel.
    launches: Vec<&'h HostLaunch<'h>>,
    /// Whether the launches are for this kernel, and not for another one of the same name or another instance.
    is_only: bool,
    /// A use of the name that is not understood, so that it may be a launch.
    pub(super) unclear_use: Option<SourceSpan>,
    /// The names in C++ of the kernel's parameters, and their types if they are integers.
    params: Vec<(SmolStr, Option<HostInt>)>,
}

/// The number of blocks along an axis.
pub(super) enum GridSize {
    Number(i128),
    /// `(n + 255) / 256`: the parameter and the divisor.
    CeilQuotient(SizeSymbol, i128),
    Quotient(SizeSymbol, i128),
}

/// Why a property that holds under the assumptions of a kernel may not hold for the launches of its file.
#[derive(Clone, Debug)]
pub struct LaunchDoubt {
    pub why: String,
    /// The launch in the CUDA file.
    pub place: SourceSpan,
}

/// Returns the name in C++ of the parameter that a symbol is, or that of an extent, such as `block_x`.
pub(super) type NameOf<'f> = dyn Fn(SizeSymbol) -> Option<SmolStr> + 'f;

/// Returns the symbol of a parameter by its name in C++.
pub(super) type SymbolOf<'f> = dyn Fn(&str) -> Option<SizeSymbol> + 'f;

impl<'h> KernelLaunches<'h> {
    /// Returns the launches of a kernel, a function of the program. `has_instances` says that it has several instances.
    pub(super) fn of(
        host: &'h HostLaunches<'h>,
        unit: &TranslationUnit,
        program: &Program<'_>,
        id: usize,
        has_instances: bool,
    ) -> KernelLaunches<'h> {
        let (function, own) = (program.functions[id].function, &program.functions[id]);
        let name = &own.name;
        let is_own =
            |launch: &&HostLaunch<'_>| launch.kernel.segments.last().is_some_and(|last| last.name.text == *name);
        let launches: Vec<&HostLaunch<'_>> = host.launches.iter().filter(is_own).collect();
        let mut others = program.functions.iter().filter(|other| other.name == *name);
        // A declaration of the same kernel has as many parameters and no body.
        let is_same = |other: &program::FunctionDecl<'_>| {
            std::ptr::eq(other.function, function)
                || (other.scope == own.scope
                    && other.function.params.len() == function.params.len()
                    && matches!(other.function.body, FunctionBody::None))
        };
        let is_only = !has_instances
            && others.all(is_same)
            && !program.refused.iter().any(|(refused, ..)| refused == name)
            && launches.iter().all(|launch| launch.args.len() <= function.params.len());
        let hidden: FxHashSet<SmolStr> = super::host_values::template_names(function);
        let params = function.params.iter().map(|param| {
            let name = param.name.as_ref().map_or("".into(), |name| name.text.clone());
            (name, host.types.int_of(&param.ty, &hidden))
        });
        let unclear_use = unclear_use(host, unit, program, name, &launches);
        KernelLaunches { host: Some(host), is_only, unclear_use, params: params.collect(), launches }
    }

    fn is_known(&self) -> bool {
        self.is_only && self.unclear_use.is_none()
    }

    /// Returns the place of the first launch.
    pub(super) fn source(&self) -> Option<SourceSpan> {
        self.launches.first().filter(|_| self.is_known()).map(|launch| launch.span)
    }

    /// Returns whether all launches have one block along an axis. `None` without a launch.
    pub(super) fn has_one_block(&self, axis: usize) -> Option<bool> {
        let is_one =
            |launch: &&HostLaunch<'_>| launch.grid[axis].as_ref().and_then(|extent| self.number(extent)) == Some(1);
        let has_launch = !self.launches.is_empty() || self.unclear_use.is_some();
        has_launch.then(|| self.is_known() && self.launches.iter().all(is_one))
    }

    /// Returns why launches may have more dimensions than the kernel reads.
    pub(super) fn dimensions_doubt(&self, kernel: &str, dimensions: usize) -> Option<LaunchDoubt> {
        if let Some(place) = self.unclear_use {
            let why = format!("this use of `{kernel}` may be a launch with other sizes than those assumed");
            return Some(LaunchDoubt { why, place });
        }
        self.launches.iter().find_map(|launch| {
            let unread = launch.grid.iter().skip(dimensions).chain(launch.block.iter().skip(dimensions));
            let numbers: Vec<Option<i128>> =
                unread.map(|extent| extent.as_ref().and_then(|extent| self.number(extent))).collect();
            let why = if numbers.iter().any(|number| number.is_some_and(|number| number != 1)) {
                format!("this launch has more dimensions than `{kernel}` reads")
            } else if numbers.contains(&None) {
                format!("this launch may have more dimensions than `{kernel}` reads")
            } else {
                return None;
            };
            Some(LaunchDoubt { why, place: launch.span })
        })
    }

    /// Tests a limit of the block's extent along an axis in all launches: a launch that exceeds it, or one that may.
    pub(super) fn block_test(&self, axis: usize, keeps: &dyn Fn(i128) -> bool) -> LimitTest {
        let block = |launch: &HostLaunch<'_>| self.number(launch.block.get(axis)?.as_ref()?);
        if self.launches.iter().any(|launch| block(launch).is_some_and(|extent| !keeps(extent))) {
            return LimitTest::Broken;
        }
        match self.launches.iter().find(|launch| block(launch).is_none()) {
            Some(launch) => LimitTest::Open(launch.span),
            None => self.unclear_use.map_or(LimitTest::Kept, LimitTest::Open),
        }
    }

    /// Returns the extent of the block along an axis, if all launches have the same.
    pub(super) fn block(&self, axis: usize) -> Option<i128> {
        self.agreed(|launch| self.number(launch.block.get(axis)?.as_ref()?).filter(is_size))
    }

    /// Compares a length of an array with those that the launches pass. `element` is the number of bytes of an element,
    /// if it is known. A launch that passes an array of unknown length allows every length. Host arithmetic and
    /// conversions are taken not to wrap around, `sizeof(T)` with a parameter of a template as the size of an element,
    /// and unknown numbers as positive. A grid that is rounded up exceeds a length from the size of the launch.
    pub(super) fn test_length(
        &self,
        param: &str,
        element: Option<i128>,
        (least, is_from_launch): (&SizePolynomial, bool),
        name_of: &NameOf<'_>,
    ) -> LimitTest {
        let bytes_of = |launch: &HostLaunch<'_>| match self.argument(launch, param)? {
            HostCodeValue::Buffer { bytes, .. } => bytes,
            _ => None,
        };
        self.test_bytes(&bytes_of, element, (least, is_from_launch), name_of)
    }

    /// Compares a length of a dynamic shared array with those that the launches give.
    pub(super) fn test_shared_length(
        &self,
        element: Option<i128>,
        least: (&SizePolynomial, bool),
        name_of: &NameOf<'_>,
    ) -> LimitTest {
        self.test_bytes(&|launch| launch.shared.clone(), element, least, name_of)
    }

    fn test_bytes(
        &self,
        bytes_of: &dyn Fn(&HostLaunch<'_>) -> Option<SizePolynomial>,
        element: Option<i128>,
        (least, is_from_launch): (&SizePolynomial, bool),
        name_of: &NameOf<'_>,
    ) -> LimitTest {
        let mut result = LimitTest::Kept;
        for launch in &self.launches {
            let Some(bytes) = bytes_of(launch) else { continue };
            let Some(rest) = self.unused_bytes(launch, &bytes, element, least, name_of) else {
                result = LimitTest::Open(launch.span);
                continue;
            };
            if self.without_quotients(&rest).is_some_and(|least| least.is_nonnegative()) {
                continue;
            }
            let is_short = SizePolynomial::default().minus(&rest).is_some_and(|missing| missing.is_nonnegative());
            if is_short || is_from_launch && self.has_quotient(&rest) {
                return LimitTest::Broken;
            }
            result = LimitTest::Open(launch.span);
        }
        result
    }

    fn has_quotient(&self, value: &SizePolynomial) -> bool {
        self.host.is_some_and(|host| value.symbols().any(|symbol| host.quotients.contains_key(&symbol)))
    }

    /// Returns a value that is at most the given one: a quotient with a negative factor is at most the exact quotient.
    fn without_quotients(&self, value: &SizePolynomial) -> Option<SizePolynomial> {
        let host = self.host?;
        let mut least = value.clone();
        for (monomial, by) in value.terms().filter(|(_, by)| *by < 0) {
            let [symbol] = monomial[..] else { continue };
            let Some((dividend, divisor)) = host.quotients.get(&symbol) else { continue };
            if by % divisor == 0 {
                least = least.minus(&SizePolynomial::term(monomial.clone(), by))?.plus_times(dividend, by / divisor)?;
            }
        }
        Some(least)
    }

    /// Returns the number of bytes of an array in a launch past a number of elements.
    fn unused_bytes(
        &self,
        launch: &HostLaunch<'_>,
        bytes: &SizePolynomial,
        element: Option<i128>,
        least: &SizePolynomial,
        name_of: &NameOf<'_>,
    ) -> Option<SizePolynomial> {
        let (host, element) = (self.host.filter(|_| self.is_only)?, element?);
        let value = |symbol| self.unconverted_value(launch, &name_of(symbol)?);
        let needed = least.times(&SizePolynomial::number(element))?.substitute_all(value)?;
        let number = |value: &SizePolynomial| host.with_numbers(&host.guessed(value, element));
        number(bytes).minus(&number(&needed))
    }

    /// Returns the value of a parameter or an extent, such as `block_x`, in a launch, if the conversion to the type of
    /// the parameter does not change it.
    fn unconverted_value(&self, launch: &HostLaunch<'_>, name: &str) -> Option<SizePolynomial> {
        let axis = |axis: &str| ["x", "y", "z"].iter().position(|own| *own == axis);
        match (name.strip_prefix("block_").and_then(axis), name.strip_prefix("grid_").and_then(axis)) {
            (Some(axis), _) => launch.block[axis].clone(),
            (_, Some(axis)) => launch.grid[axis].clone(),
            _ => match launch.args.get(self.params.iter().position(|(known, _)| known == name)?)? {
                HostCodeValue::Int(value, _) => Some(value.clone()),
                _ => None,
            },
        }
    }

    /// Returns the number of elements of a dynamic shared array, if all launches have the same.
    pub(super) fn shared_length(&self, element: i128, symbol_of: &SymbolOf<'_>) -> Option<SizePolynomial> {
        self.agreed(|launch| self.count(launch, launch.shared.as_ref()?, element, symbol_of))
    }

    /// Returns the extent of the grid along an axis, if all launches have the same.
    pub(super) fn grid(&self, axis: usize, symbol_of: &SymbolOf<'_>) -> Option<GridSize> {
        let size = |launch: &HostLaunch<'_>| {
            let extent = launch.grid.get(axis)?.as_ref()?;
            if let Some(number) = self.number(extent) {
                return is_size(&number).then_some((None, number, true));
            }
            let (dividend, divisor) = self.host?.quotients.get(&extent.as_symbol()?)?;
            let rounded = dividend.plus(&SizePolynomial::number(1 - divisor))?;
            let whole = |value| self.in_parameters(launch, value, symbol_of)?.as_symbol();
            match whole(&rounded) {
                Some(symbol) => Some((Some(symbol), *divisor, true)),
                None => Some((Some(whole(dividend)?), *divisor, false)),
            }
        };
        Some(match self.agreed(size)? {
            (None, number, _) => GridSize::Number(number),
            (Some(symbol), divisor, true) => GridSize::CeilQuotient(symbol, divisor),
            (Some(symbol), divisor, false) => GridSize::Quotient(symbol, divisor),
        })
    }

    /// Returns the number of elements of the array that is passed for a parameter, if all launches have the same.
    /// `element` is the number of bytes of an element.
    pub(super) fn length(&self, param: &str, element: i128, symbol_of: &SymbolOf<'_>) -> Option<SizePolynomial> {
        self.agreed(|launch| match self.argument(launch, param)? {
            HostCodeValue::Buffer { bytes: Some(bytes), .. } => self.count(launch, &bytes, element, symbol_of),
            _ => None,
        })
    }

    /// Returns the number of elements in a number of bytes, in terms of the kernel's parameters.
    fn count(
        &self,
        launch: &HostLaunch<'_>,
        bytes: &SizePolynomial,
        element: i128,
        symbol_of: &SymbolOf<'_>,
    ) -> Option<SizePolynomial> {
        let mut count = SizePolynomial::default();
        for (monomial, coefficient) in bytes.terms() {
            if coefficient % element != 0 {
                return self.number(bytes).map(|bytes| SizePolynomial::number(bytes / element)).filter(is_small);
            }
            count = count.plus(&SizePolynomial::term(monomial.clone(), coefficient / element))?;
        }
        self.in_parameters(launch, &count, symbol_of).filter(is_small)
    }

    /// Returns the value of a parameter in terms of others, or as a number, if all launches have the same.
    pub(super) fn value(&self, param: &str, symbol_of: &SymbolOf<'_>) -> Option<SizePolynomial> {
        self.agreed(|launch| {
            let HostCodeValue::Int(value, _) = self.argument(launch, param)? else { return None };
            self.in_parameters(launch, &value, symbol_of).filter(is_small)
        })
    }

    /// Returns the number that all launches pass for a parameter.
    pub(super) fn number_of(&self, param: &str) -> Option<i128> {
        self.agreed(|launch| match self.argument(launch, param)? {
            HostCodeValue::Int(value, _) => {
                self.number(&value).filter(|number| is_small(&SizePolynomial::number(*number)))
            }
            _ => None,
        })
    }

    /// Returns two parameters for which a launch passes the same array, and the launch. The kernel writes one of them.
    pub(super) fn aliased(
        &self,
        is_array: &dyn Fn(&SmolStr) -> bool,
        is_written: &dyn Fn(&SmolStr) -> bool,
    ) -> Option<(&SmolStr, &SmolStr, SourceSpan)> {
        self.launches.iter().find_map(|launch| {
            let id_of = |at: usize| match launch.args.get(at) {
                Some(HostCodeValue::Buffer { id, .. }) => Some(*id),
                _ => None,
            };
            let root_of = |at: usize| launch.roots.get(at).and_then(Option::as_ref);
            let count = launch.args.len().min(self.params.len());
            let arrays: Vec<usize> = (0..count).filter(|at| is_array(&self.params[*at].0)).collect();
            arrays.iter().enumerate().find_map(|(number, second)| {
                let is_same = |first: &&usize| {
                    let (first, second) = (**first, *second);
                    let is_same_array = match (id_of(first), id_of(second)) {
                        (Some(first), Some(second)) => first == second,
                        _ => root_of(first).is_some() && root_of(first) == root_of(second),
                    };
                    is_same_array && (is_written(&self.params[first].0) || is_written(&self.params[second].0))
                };
                let first = arrays[..number].iter().find(is_same)?;
                Some((&self.params[*first].0, &self.params[*second].0, launch.span))
            })
        })
    }

    /// Returns the value that a launch passes for a parameter, after the conversion to its type.
    fn argument(&self, launch: &HostLaunch<'_>, param: &str) -> Option<HostCodeValue> {
        let at = self.params.iter().position(|(known, _)| known == param)?;
        match (launch.args.get(at)?, self.params[at].1) {
            (HostCodeValue::Int(value, from), Some(to)) => {
                Some(HostCodeValue::Int(self.host?.converted(value, *from, to)?, to))
            }
            (HostCodeValue::Int(..), None) => None,
            (value, _) => Some(value.clone()),
        }
    }

    /// Returns a launch whose sizes or arguments rely on it that signed values that become unsigned are not negative.
    pub(super) fn converted_to_unsigned(&self) -> Option<SourceSpan> {
        let host = self.host?;
        let natural = host.natural.borrow();
        let is_natural = |value: &SizePolynomial| {
            value.symbols().any(|symbol| {
                let dividend = host.quotients.get(&symbol).map(|(dividend, _)| dividend);
                natural.contains(&symbol) || dividend.is_some_and(|value| value.symbols().any(|s| natural.contains(&s)))
            })
        };
        let is_signed = |value: &SizePolynomial| {
            self.number(value).is_none()
                && value.terms().any(|(monomial, coefficient)| {
                    coefficient < 0 || monomial.iter().any(|symbol| host.signed.contains(symbol))
                })
        };
        let relies = |launch: &&&HostLaunch<'h>| {
            let args = launch.args.iter().zip(&self.params).any(|(arg, (_, ty))| match arg {
                HostCodeValue::Int(value, _) => {
                    is_natural(value) || (ty.is_some_and(|ty| !ty.is_signed) && is_signed(value))
                }
                HostCodeValue::Buffer { bytes: Some(bytes), .. } => is_natural(bytes),
                _ => false,
            });
            args || launch.grid.iter().chain(&launch.block).chain([&launch.shared]).flatten().any(is_natural)
        };
        self.launches.iter().find(relies).map(|launch| launch.span)
    }

    fn number(&self, value: &SizePolynomial) -> Option<i128> {
        self.host?.number(value)
    }

    /// Returns the value that `of` returns for every launch; `None` if the values differ or one is unknown.
    fn agreed<T: PartialEq>(&self, of: impl Fn(&HostLaunch<'h>) -> Option<T>) -> Option<T> {
        if !self.is_known() {
            return None;
        }
        let mut all = self.launches.iter().map(|launch| of(launch));
        let first = all.next()??;
        all.all(|other| other.as_ref() == Some(&first)).then_some(first)
    }

    /// Returns a polynomial of host variables as one of the kernel's parameters, with the same value in this launch.
    fn in_parameters(
        &self,
        launch: &HostLaunch<'_>,
        value: &SizePolynomial,
        symbol_of: &SymbolOf<'_>,
    ) -> Option<SizePolynomial> {
        let integers = self.params.iter().filter_map(|(name, _)| match self.argument(launch, name)? {
            HostCodeValue::Int(arg, _) if arg.as_number().is_none() => Some((symbol_of(name)?, arg)),
            _ => None,
        });
        let integers: Vec<(SizeSymbol, SizePolynomial)> = integers.collect();
        let owner = |variable: SizeSymbol| {
            integers.iter().find(|(_, arg)| arg.as_symbol() == Some(variable)).map(|(symbol, _)| *symbol)
        };
        let by_variables = value.substitute_all(|variable| match owner(variable) {
            Some(symbol) => Some(SizePolynomial::symbol(symbol)),
            None => self.number(&SizePolynomial::symbol(variable)).map(SizePolynomial::number),
        });
        if by_variables.is_some() {
            return by_variables;
        }
        // A multiple of an argument that is not a variable, such as `total` with `int total = rows * columns`.
        integers.iter().find_map(|(symbol, arg)| {
            let (monomial, by): (&Monomial, i128) = arg.terms().next()?;
            let factor = value.coefficient(monomial) / by;
            (factor != 0 && arg.times(&SizePolynomial::number(factor)).as_ref() == Some(value))
                .then(|| SizePolynomial::term(vec![*symbol], factor))
        })
    }
}

/// The result of a test of a limit in all launches.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum LimitTest {
    Kept,
    Broken,
    /// This launch may keep or break the limit.
    Open(SourceSpan),
}

/// Returns whether a number may be an extent of a grid or block.
fn is_size(number: &i128) -> bool {
    (1..=i128::from(i32::MAX)).contains(number)
}

/// Returns whether the coefficients of a size have 32 bits, so that a clause may have them.
fn is_small(size: &SizePolynomial) -> bool {
    size.terms().all(|(_, coefficient)| coefficient.abs() <= i128::from(i32::MAX))
}

/// Returns a place where the name of a kernel occurs, other than its definitions, its declarations and understood
/// launches.
fn unclear_use(
    host: &HostLaunches<'_>,
    unit: &TranslationUnit,
    program: &Program<'_>,
    name: &SmolStr,
    launches: &[&HostLaunch<'_>],
) -> Option<SourceSpan> {
    let kernels: Vec<&CppFunction> = program
        .functions
        .iter()
        .filter(|own| own.name == *name && own.function.attributes.global)
        .map(|own| own.function)
        .chain(program.instantiations.iter().map(|(function, _)| *function))
        .filter(|function| program::function_key(&function.name) == *name)
        .collect();
    let is_in_definition = |place: &SourceSpan| {
        kernels.iter().any(|kernel| match &kernel.body {
            FunctionBody::Block(body) => {
                let (first, last, place) = (kernel.name_span.span, body.span.span, place.span);
                place.file == first.file
                    && place.file == last.file
                    && first.start <= place.start
                    && place.end <= last.end
            }
            _ => false,
        })
    };
    let uses: Vec<SourceSpan> =
        unit.identifiers.get(name).into_iter().flatten().filter(|place| !is_in_definition(place)).copied().collect();
    // The name of a specialization, `k<float>`, has template arguments.
    let identifier = |kernel: &&CppFunction| {
        let mut place = kernel.name_span;
        place.span.end = place.span.end.min(place.span.start + name.len() as u32);
        place
    };
    let declared = kernels.iter().map(identifier).filter(|place| !is_in_definition(place));
    let launched = launches.iter().filter_map(|launch| launch.kernel.segments.last()).map(|last| last.name.span);
    let mentioned = host.mentions.iter().filter(|mention| mention.text == *name).map(|mention| mention.span);
    let understood: Vec<SourceSpan> = declared.chain(launched).chain(mentioned).collect();
    let is_unclear = |place: &&SourceSpan| !understood.contains(place);
    // Tokens of a macro may have one place.
    uses.iter().find(is_unclear).or(uses.last().filter(|_| uses.len() > understood.len())).copied()
}
