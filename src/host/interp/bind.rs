//! Binds arguments to a signature: infers type parameters and dimensions, and checks shapes.

use std::fmt;

use smol_str::SmolStr;

use crate::value::HostValue;
use clk_base::diag::Diagnostic;
use clk_base::source::Span;
use clk_check::solve_dims;
use clk_check::typed::{ArrayType, Dim, GenericKind, Signature, Type};
use clk_lower::GenericArgument;

use super::context::{Eval, EvalContext};
use super::frame::HostFrame;
use super::layout::Layouts;

/// Values of a signature's dimensions by index, each with its origin.
pub(super) type BoundDims = Vec<Option<(i64, DimOrigin)>>;

/// Binds the type parameters and dimensions of a signature to the values of arguments, one argument at a time.
pub(crate) struct Binder<'a> {
    pub sig: &'a Signature,
    pub layouts: &'a Layouts,
    /// The type bound to each type parameter, by index in `sig.generics`.
    pub types: Vec<Option<Type>>,
    /// The value bound to each dimension, by index in `sig.dims`.
    pub dims: BoundDims,
    /// Extents that dimension expressions must equal: index in `sig.dim_exprs`, extent, and origin of the extent.
    pub expr_extents: Vec<(usize, i64, DimOrigin)>,
}

/// The origin of a dimension's value, for error messages.
#[derive(Clone, Debug)]
pub(crate) struct DimOrigin {
    pub provenance: DimProvenance,
    pub span: Span,
}

impl DimOrigin {
    fn from_axis(argument: &BoundArgument<'_>, axis: usize) -> DimOrigin {
        DimOrigin { provenance: DimProvenance::Axis { axis, of: argument.name.into() }, span: argument.span }
    }
}

/// The axis or named argument that determined the value of a dimension. It is formatted only when an error is reported,
/// because every launch binds dimensions.
#[derive(Clone, Debug)]
pub(crate) enum DimProvenance {
    Axis { axis: usize, of: SmolStr },
    Named { name: SmolStr, extent: i64 },
}

impl fmt::Display for DimProvenance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DimProvenance::Axis { axis, of } => write!(f, "axis {axis} of `{of}`"),
            DimProvenance::Named { name, extent } => write!(f, "`{name} = {extent}`"),
        }
    }
}

/// An argument of a call: the parameter's name and type, the value and its location.
pub(crate) struct BoundArgument<'a> {
    pub name: &'a str,
    pub ty: &'a Type,
    pub value: &'a HostValue,
    pub span: Span,
}

impl<'a> Binder<'a> {
    pub fn new(sig: &'a Signature, layouts: &'a Layouts) -> Self {
        Binder {
            sig,
            layouts,
            types: vec![None; sig.generics.len()],
            dims: vec![None; sig.dims.len()],
            expr_extents: vec![],
        }
    }

    /// Binds one argument. The error for a mismatch shows the argument and the expected type.
    pub fn bind_argument(&mut self, argument: &BoundArgument<'_>) -> Result<(), Box<Diagnostic>> {
        match (argument.ty, argument.value) {
            (_, HostValue::Traced(traced)) => {
                self.bind_argument(&BoundArgument { value: traced.primal(), ..*argument })
            }
            (Type::Array(expected), HostValue::Array(array)) => {
                let element = self.layouts.element_type(array.element());
                if !self.unify(&expected.element, &element) {
                    return Err(self.type_error(argument));
                }
                self.bind_shape(argument, expected, array.shape())
            }
            (Type::Array(_), _) => Err(self.type_error(argument)),
            (Type::Tuple(types), HostValue::Tuple(values)) if types.len() == values.len() => {
                types.iter().zip(values).enumerate().try_for_each(|(i, (ty, value))| {
                    let name = format!("{}.{i}", argument.name);
                    self.bind_argument(&BoundArgument { name: &name, ty, value, span: argument.span })
                })
            }
            (ty, HostValue::Array(_) | HostValue::Table(_) | HostValue::Kernel(_)) if *ty != Type::Unknown => {
                Err(self.type_error(argument))
            }
            (ty, HostValue::Int(_) | HostValue::Float(_)) if self.accepts_literal(ty) => Ok(()),
            (ty, value) => {
                let actual = self.layouts.type_of(value);
                if self.unify(ty, &actual) { Ok(()) } else { Err(self.type_error(argument)) }
            }
        }
    }

    /// Returns whether an untyped literal can be passed to a parameter of this type: a numeric type or a type
    /// parameter.
    fn accepts_literal(&mut self, ty: &Type) -> bool {
        matches!(ty, Type::Scalar(s) if s.is_num()) || matches!(ty, Type::Param(_))
    }

    fn unify(&mut self, expected: &Type, actual: &Type) -> bool {
        match (expected, actual) {
            (Type::Unknown, _) | (_, Type::Unknown) => true,
            (Type::Param(i), actual) => self.bind_type(*i as usize, actual),
            (Type::Tuple(a), Type::Tuple(b)) => {
                a.len() == b.len() && a.iter().zip(b.iter()).all(|(a, b)| self.unify(a, b))
            }
            (a, b) => a == b,
        }
    }

    fn bind_type(&mut self, i: usize, actual: &Type) -> bool {
        let is_allowed = match self.sig.generics.get(i).map(|g| &g.kind) {
            Some(GenericKind::Type { bound }) => bound.allows(actual),
            _ => false,
        };
        match self.types.get_mut(i) {
            Some(Some(known)) => known == actual,
            Some(slot) if is_allowed => {
                *slot = Some(actual.clone());
                true
            }
            _ => false,
        }
    }

    fn bind_shape(
        &mut self,
        argument: &BoundArgument<'_>,
        expected: &ArrayType,
        shape: &[usize],
    ) -> Result<(), Box<Diagnostic>> {
        if expected.dims.len() != shape.len() {
            return Err(self.type_error(argument));
        }
        for (axis, (dim, &extent)) in expected.dims.iter().zip(shape).enumerate() {
            let extent = extent as i64;
            match dim {
                Dim::Known(k) if *k != extent => {
                    let title = format!("`{}` has the wrong shape: axis {axis} is {extent}, not {k}", argument.name);
                    let text = format!("this is `{}`", argument.value.type_name());
                    return Err(Box::new(Diagnostic::error("E0511", title).at(argument.span, text)));
                }
                Dim::Name(i) => self.bind_dim(argument, *i as usize, axis, extent)?,
                // Dimension expressions are solved and compared after all arguments are bound.
                Dim::Expr(i) => self.expr_extents.push((*i as usize, extent, DimOrigin::from_axis(argument, axis))),
                _ => {}
            }
        }
        Ok(())
    }

    fn bind_dim(
        &mut self,
        argument: &BoundArgument<'_>,
        i: usize,
        axis: usize,
        extent: i64,
    ) -> Result<(), Box<Diagnostic>> {
        let origin = DimOrigin::from_axis(argument, axis);
        let Some(slot) = self.dims.get_mut(i) else { return Ok(()) };
        match slot {
            None => *slot = Some((extent, origin)),
            Some((known, _)) if *known == extent => {}
            Some((known, first)) => {
                let name = &self.sig.dims[i].name;
                let title = format!("dimension `{name}` is {known} and {extent} at once");
                let diagnostic = Diagnostic::error("E0510", title)
                    .at(argument.span, format!("{} makes `{name}` {extent}", origin.provenance))
                    .because(first.span, format!("{} makes `{name}` {known}", first.provenance));
                return Err(Box::new(diagnostic));
            }
        }
        Ok(())
    }

    fn type_error(&self, argument: &BoundArgument<'_>) -> Box<Diagnostic> {
        let expected = self.layouts.format_type(argument.ty, self.sig);
        let actual = argument.value.type_name();
        let title = format!("`{}` must be `{expected}`, not `{actual}`", argument.name);
        let mut diagnostic = Diagnostic::error("E0512", title).at(argument.span, format!("this is `{actual}`"));
        if let (Type::Array(a), HostValue::Array(b)) = (argument.ty, argument.value)
            && a.dims.len() == b.shape().len()
            && let Type::Scalar(s) = a.element
        {
            diagnostic = diagnostic.help(format!("convert it: `{s}(…)`"));
        }
        Box::new(diagnostic)
    }
}

impl EvalContext<'_> {
    /// Solves for the dimensions that only occur in dimension expressions, such as `N` in `[f32; N + 1]`, from the
    /// extents that the expressions must equal.
    pub(super) fn solve_dims(
        &mut self,
        sig: &Signature,
        arguments: &[GenericArgument],
        dims: &mut BoundDims,
        late: &[(usize, i64, DimOrigin)],
    ) -> Eval<()> {
        while dims.iter().any(Option::is_none) {
            let open = |dim: u32| dims.get(dim as usize).is_some_and(Option::is_none);
            let unknown = |i: usize| solve_dims::solvable_dim(sig.dim_exprs.get(i)?, &open);
            let equation = late.iter().find_map(|(i, extent, origin)| Some((unknown(*i)?, *i, *extent, origin)));
            let Some((dim, i, extent, origin)) = equation else { break };
            let expr = sig.dim_exprs[i].clone();
            let mut at = |value| {
                let mut values: Vec<_> = dims.iter().map(|dim| dim.as_ref().map(|(value, _)| *value)).collect();
                values[dim as usize] = Some(value);
                self.eval_integer(
                    &mut HostFrame { generics: arguments.into(), dims: values, ..HostFrame::empty() },
                    &expr,
                )
            };
            let Some(value) = solve_dims::solution(extent, at(0)?, at(1)?) else {
                let name = &sig.dims[dim as usize].name;
                let d = Diagnostic::error("E0511", format!("no `{name}` gives an extent of {extent}"));
                let d = d.at(origin.span, format!("{} is {extent}", origin.provenance));
                let text = format!("this is its extent, and `{name}` a whole number of at least 0");
                return Err(self.error(d.because(expr.span, text)));
            };
            dims[dim as usize] = Some((value, origin.clone()));
        }
        Ok(())
    }
}
