//! Sizes of a kernel that the launches of its file determine: lengths of arrays, the grid and the block, in terms of
//! the kernel's parameters. A quantity on which the launches disagree, or that is not understood, stays unknown.

use super::host_code::{HostCodeValue, HostLaunch, HostLaunches};
use super::polynomial::{Monomial, SizePolynomial, SizeSymbol};
use crate::source::SourceSpan;
use smol_str::SmolStr;

/// The launches of one kernel.
#[derive(Clone, Default)]
pub(super) struct KernelLaunches<'h> {
    host: Option<&'h HostLaunches<'h>>,
    launches: Vec<&'h HostLaunch<'h>>,
    /// The names in C++ of the kernel's parameters.
    params: Vec<SmolStr>,
}

/// The number of blocks along an axis.
pub(super) enum GridSize {
    Number(i128),
    /// `(n + 255) / 256`: the parameter and the divisor.
    CeilQuotient(SizeSymbol, i128),
    Quotient(SizeSymbol, i128),
}

/// Returns the symbol of a parameter by its name in C++.
pub(super) type SymbolOf<'f> = dyn Fn(&str) -> Option<SizeSymbol> + 'f;

impl<'h> KernelLaunches<'h> {
    /// Returns the launches of the kernel with this name.
    pub(super) fn of(host: &'h HostLaunches<'h>, name: &str, params: Vec<SmolStr>) -> KernelLaunches<'h> {
        let is_own = |launch: &&HostLaunch<'_>| {
            launch.kernel.segments.last().is_some_and(|last| last.name.text == name)
                && launch.args.len() == params.len()
        };
        KernelLaunches { host: Some(host), launches: host.launches.iter().filter(is_own).collect(), params }
    }

    /// Returns the place of the first launch.
    pub(super) fn source(&self) -> Option<SourceSpan> {
        self.launches.first().map(|launch| launch.span)
    }

    /// Returns whether all launches have one block. `None` without a launch.
    pub(super) fn has_one_block(&self) -> Option<bool> {
        let is_one = |launch: &&HostLaunch<'_>| {
            launch.grid.iter().all(|extent| extent.as_ref().and_then(|extent| self.number(extent)) == Some(1))
        };
        (!self.launches.is_empty()).then(|| self.launches.iter().all(is_one))
    }

    /// Returns the extent of the block along an axis, if all launches have the same.
    pub(super) fn block(&self, axis: usize) -> Option<i128> {
        self.agreed(|launch| self.number(launch.block.get(axis)?.as_ref()?))
    }

    /// Returns the extent of the grid along an axis, if all launches have the same.
    pub(super) fn grid(&self, axis: usize, symbol_of: &SymbolOf<'_>) -> Option<GridSize> {
        let size = |launch: &HostLaunch<'_>| {
            let extent = launch.grid.get(axis)?.as_ref()?;
            if let Some(number) = self.number(extent) {
                return Some((None, number, true));
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
        self.agreed(|launch| {
            let HostCodeValue::Buffer { bytes: Some(bytes), .. } = self.argument(launch, param)? else { return None };
            let mut count = SizePolynomial::default();
            for (monomial, coefficient) in bytes.terms() {
                if coefficient % element != 0 {
                    return self.number(bytes).map(|bytes| SizePolynomial::number(bytes / element));
                }
                count = count.plus(&SizePolynomial::term(monomial.clone(), coefficient / element))?;
            }
            self.in_parameters(launch, &count, symbol_of)
        })
    }

    /// Returns the value of a parameter in terms of others, or as a number, if all launches have the same.
    pub(super) fn value(&self, param: &str, symbol_of: &SymbolOf<'_>) -> Option<SizePolynomial> {
        self.agreed(|launch| {
            let HostCodeValue::Int(value) = self.argument(launch, param)? else { return None };
            self.in_parameters(launch, value, symbol_of)
        })
    }

    /// Returns the number that all launches pass for a parameter.
    pub(super) fn number_of(&self, param: &str) -> Option<i128> {
        self.agreed(|launch| match self.argument(launch, param)? {
            HostCodeValue::Int(value) => self.number(value),
            _ => None,
        })
    }

    /// Returns two parameters for which a launch passes the same array, and the launch. The kernel writes one of them.
    pub(super) fn aliased(&self, is_written: &dyn Fn(&SmolStr) -> bool) -> Option<(&SmolStr, &SmolStr, SourceSpan)> {
        let arrays = |launch: &'h HostLaunch<'h>| {
            self.params.iter().zip(&launch.args).filter_map(|(name, arg)| match arg {
                HostCodeValue::Buffer { id, .. } => Some((name, *id)),
                _ => None,
            })
        };
        self.launches.iter().find_map(|launch| {
            let all: Vec<(&SmolStr, u32)> = arrays(launch).collect();
            all.iter().enumerate().find_map(|(at, (second, id))| {
                let is_same =
                    |(first, other): &&(&SmolStr, u32)| other == id && (is_written(first) || is_written(second));
                all[..at].iter().find(is_same).map(|(first, _)| (*first, *second, launch.span))
            })
        })
    }

    fn argument<'l>(&self, launch: &'l HostLaunch<'_>, param: &str) -> Option<&'l HostCodeValue> {
        launch.args.get(self.params.iter().position(|known| known == param)?)
    }

    fn number(&self, value: &SizePolynomial) -> Option<i128> {
        self.host?.number(value)
    }

    /// Returns what a function returns for all launches.
    fn agreed<T: PartialEq>(&self, of: impl Fn(&HostLaunch<'h>) -> Option<T>) -> Option<T> {
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
        let integers = self.params.iter().zip(&launch.args).filter_map(|(name, arg)| match arg {
            HostCodeValue::Int(arg) if arg.as_number().is_none() => Some((symbol_of(name)?, arg)),
            _ => None,
        });
        let integers: Vec<(SizeSymbol, &SizePolynomial)> = integers.collect();
        let owner = |variable: SizeSymbol| {
            integers.iter().find(|(_, arg)| arg.as_symbol() == Some(variable)).map(|(symbol, _)| *symbol)
        };
        let mut sum = SizePolynomial::default();
        let by_variables = value.terms().try_for_each(|(monomial, coefficient)| {
            let mut product = SizePolynomial::number(coefficient);
            for variable in monomial {
                let own = match owner(*variable) {
                    Some(symbol) => SizePolynomial::symbol(symbol),
                    None => SizePolynomial::number(self.number(&SizePolynomial::symbol(*variable))?),
                };
                product = product.times(&own)?;
            }
            sum = sum.plus(&product)?;
            Some(())
        });
        if by_variables.is_some() {
            return Some(sum);
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
