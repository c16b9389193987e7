//! Binding of arguments to a signature at a call: type parameters, dimensions and shapes.

use std::fmt;

use smol_str::SmolStr;

use crate::base::diag::Diagnostic;
use crate::base::source::Span;
use crate::check::solve;
use crate::check::typed::{ArrayType, Dim, GenericKind, Signature, Type};
use crate::host::value::Value;
use crate::lower::Argument;

use super::frame::Frame;
use super::layout::Layouts;
use super::machine::{Eval, Machine};

/// Values of a signature's dimensions by index, with their origins.
pub(super) type Dims = Vec<Option<(i64, Origin)>>;

/// The bindings of a signature's names while its arguments are processed in order.
pub(crate) struct Binder<'a> {
    pub sig: &'a Signature,
    pub layouts: &'a Layouts,
    /// By index in `sig.generics`; only type parameters.
    pub types: Vec<Option<Type>>,
    /// By index in `sig.dims`: the value, and its origin for messages.
    pub dims: Dims,
    /// The extents that dimension expressions are given for: index in `sig.dim_exprs`, extent, origin.
    pub late: Vec<(usize, i64, Origin)>,
}

/// The origin of a dimension's value.
#[derive(Clone, Debug)]
pub(crate) struct Origin {
    pub what: Source,
    pub span: Span,
}

impl Origin {
    fn axis(given: &Given<'_>, axis: usize) -> Origin {
        Origin { what: Source::Axis { axis, of: given.name.into() }, span: given.span }
    }
}

/// What determined a dimension. Formatted only for messages, since every launch binds dimensions.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    Axis { axis: usize, of: SmolStr },
    Named { name: SmolStr, extent: i64 },
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Axis { axis, of } => write!(f, "axis {axis} of `{of}`"),
            Source::Named { name, extent } => write!(f, "`{name} = {extent}`"),
        }
    }
}

/// An argument of a call: the parameter's name and type, the value and its location.
pub(crate) struct Given<'a> {
    pub name: &'a str,
    pub ty: &'a Type,
    pub value: &'a Value,
    pub span: Span,
}

impl<'a> Binder<'a> {
    pub fn new(sig: &'a Signature, layouts: &'a Layouts) -> Self {
        Binder { sig, layouts, types: vec![None; sig.generics.len()], dims: vec![None; sig.dims.len()], late: vec![] }
    }

    /// Binds one argument; an error shows both sides of a mismatch.
    pub fn fit(&mut self, given: &Given<'_>) -> Result<(), Box<Diagnostic>> {
        match (given.ty, given.value) {
            (_, Value::Traced(traced)) => self.fit(&Given { value: traced.primal(), ..*given }),
            (Type::Array(wanted), Value::Array(array)) => {
                let element = self.layouts.element_type(array.element());
                if !self.unify(&wanted.element, &element) {
                    return Err(self.wrong_type(given));
                }
                self.fit_shape(given, wanted, array.shape())
            }
            (Type::Array(_), _) => Err(self.wrong_type(given)),
            (ty, Value::Array(_) | Value::Table(_) | Value::Kernel(_)) if *ty != Type::Unknown => {
                Err(self.wrong_type(given))
            }
            (ty, Value::Int(_) | Value::Float(_)) if self.accepts_literal(ty) => Ok(()),
            (ty, value) => {
                let actual = self.layouts.type_of(value);
                if self.unify(ty, &actual) { Ok(()) } else { Err(self.wrong_type(given)) }
            }
        }
    }

    /// Whether an untyped literal can be passed: it takes any numeric type, and a type parameter bound by nothing else takes its
    /// default type.
    fn accepts_literal(&mut self, ty: &Type) -> bool {
        matches!(ty, Type::Scalar(s) if s.is_num()) || matches!(ty, Type::Param(_))
    }

    fn unify(&mut self, wanted: &Type, actual: &Type) -> bool {
        match (wanted, actual) {
            (Type::Unknown, _) | (_, Type::Unknown) => true,
            (Type::Param(i), actual) => self.bind_type(*i as usize, actual),
            (Type::Tuple(a), Type::Tuple(b)) => {
                a.len() == b.len() && a.iter().zip(b.iter()).all(|(a, b)| self.unify(a, b))
            }
            (a, b) => a == b,
        }
    }

    fn bind_type(&mut self, i: usize, actual: &Type) -> bool {
        let fits = match self.sig.generics.get(i).map(|g| &g.kind) {
            Some(GenericKind::Type { bound }) => bound.allows(actual),
            _ => false,
        };
        match self.types.get_mut(i) {
            Some(Some(known)) => known == actual,
            Some(slot) if fits => {
                *slot = Some(actual.clone());
                true
            }
            _ => false,
        }
    }

    fn fit_shape(&mut self, given: &Given<'_>, wanted: &ArrayType, shape: &[usize]) -> Result<(), Box<Diagnostic>> {
        if wanted.dims.len() != shape.len() {
            return Err(self.wrong_type(given));
        }
        for (axis, (dim, &extent)) in wanted.dims.iter().zip(shape).enumerate() {
            let extent = extent as i64;
            match dim {
                Dim::Known(k) if *k != extent => {
                    let title = format!("`{}` has the wrong shape: axis {axis} is {extent}, not {k}", given.name);
                    let text = format!("this is `{}`", given.value.type_name());
                    return Err(Box::new(Diagnostic::error("E0511", title).at(given.span, text)));
                }
                Dim::Name(i) => self.bind_dim(given, *i as usize, axis, extent)?,
                // Dimension expressions are solved and compared by the call, when all other names are bound.
                Dim::Expr(i) => self.late.push((*i as usize, extent, Origin::axis(given, axis))),
                _ => {}
            }
        }
        Ok(())
    }

    fn bind_dim(&mut self, given: &Given<'_>, i: usize, axis: usize, extent: i64) -> Result<(), Box<Diagnostic>> {
        let origin = Origin::axis(given, axis);
        let Some(slot) = self.dims.get_mut(i) else { return Ok(()) };
        match slot {
            None => *slot = Some((extent, origin)),
            Some((known, _)) if *known == extent => {}
            Some((known, first)) => {
                let name = &self.sig.dims[i].name;
                let title = format!("dimension `{name}` is {known} and {extent} at once");
                let diagnostic = Diagnostic::error("E0510", title)
                    .at(given.span, format!("{} makes `{name}` {extent}", origin.what))
                    .because(first.span, format!("{} makes `{name}` {known}", first.what));
                return Err(Box::new(diagnostic));
            }
        }
        Ok(())
    }

    fn wrong_type(&self, given: &Given<'_>) -> Box<Diagnostic> {
        let wanted = self.layouts.type_text(given.ty, self.sig);
        let actual = given.value.type_name();
        let title = format!("`{}` has to be `{wanted}`, not `{actual}`", given.name);
        let mut diagnostic = Diagnostic::error("E0512", title).at(given.span, format!("this is `{actual}`"));
        if let (Type::Array(a), Value::Array(b)) = (given.ty, given.value)
            && a.dims.len() == b.shape().len()
            && let Type::Scalar(s) = a.element
        {
            diagnostic = diagnostic.help(format!("convert it: `{s}(…)`"));
        }
        Box::new(diagnostic)
    }
}

impl Machine<'_> {
    /// Binds the dimensions that only dimension expressions name, from the extents that these are given for.
    pub(super) fn solve_dims(
        &mut self,
        sig: &Signature,
        arguments: &[Argument],
        dims: &mut Dims,
        late: &[(usize, i64, Origin)],
    ) -> Eval<()> {
        while dims.iter().any(Option::is_none) {
            let open = |dim: u32| dims.get(dim as usize).is_some_and(Option::is_none);
            let unknown = |i: usize| solve::unknown(sig.dim_exprs.get(i)?, &open);
            let found = late.iter().find_map(|(i, extent, origin)| Some((unknown(*i)?, *i, *extent, origin)));
            let Some((dim, i, extent, origin)) = found else { break };
            let expr = sig.dim_exprs[i].clone();
            let mut at = |value| {
                let mut values: Vec<_> = dims.iter().map(|dim| dim.as_ref().map(|(value, _)| *value)).collect();
                values[dim as usize] = Some(value);
                self.integer(&mut Frame { generics: arguments.into(), dims: values, ..Frame::empty() }, &expr)
            };
            let Some(value) = solve::solution(extent, at(0)?, at(1)?) else {
                let name = &sig.dims[dim as usize].name;
                let d = Diagnostic::error("E0511", format!("no `{name}` gives an extent of {extent}"));
                let d = d.at(origin.span, format!("{} is {extent}", origin.what));
                let text = format!("this is its extent, and `{name}` a whole number of at least 0");
                return Err(self.error(d.because(expr.span, text)));
            };
            dims[dim as usize] = Some((value, origin.clone()));
        }
        Ok(())
    }
}
