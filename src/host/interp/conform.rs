//! Run-time checks that a value conforms to a declared type, where the checker could not know.
//!
//! Inputs are a declared type (of a variable, result, field or parameter) with the values of its dimensions, and a value. The
//! result is the value, with an untyped literal converted to the type, or a diagnostic that shows both.

use crate::base::diag::Diagnostic;
use crate::base::source::Span;
use crate::check::typed::{ArrayType, Declared, Dim, Extent, Pattern, Signature, Type};
use crate::host::array::Array;
use crate::host::value::Value;

use super::frame::Frame;
use super::machine::{Eval, Machine, Signal};

/// Values of the dimensions in a type. An unbound name is bound by the first axis that uses it.
#[derive(Default)]
pub(crate) struct Extents {
    /// By index in `sig.dims`.
    pub names: Vec<Option<i64>>,
    /// By index in `sig.dim_exprs`.
    pub exprs: Vec<Option<i64>>,
    /// By the index in `Dim::Local`.
    pub locals: Vec<Option<i64>>,
}

impl Extents {
    /// Checks an extent against a dimension, binding it if it is unbound; `Err` is the expected extent.
    fn allows(&mut self, dim: &Dim, extent: i64) -> Result<(), i64> {
        let (list, i) = match dim {
            Dim::Known(k) => return if *k == extent { Ok(()) } else { Err(*k) },
            Dim::Unknown => return Ok(()),
            Dim::Name(i) => (&mut self.names, *i as usize),
            Dim::Expr(i) => (&mut self.exprs, *i as usize),
            Dim::Local(i) => (&mut self.locals, *i as usize),
        };
        if list.len() <= i {
            list.resize(i + 1, None);
        }
        match *list[i].get_or_insert(extent) {
            known if known == extent => Ok(()),
            known => Err(known),
        }
    }

    /// Binds the dimensions named in a variable's annotation to the extents of its old value, which a new value must keep.
    pub fn hold(&mut self, ty: &Type, old: &Value) {
        match (ty, old) {
            (Type::Array(ty), Value::Array(array)) if ty.dims.len() == array.rank() => {
                for (dim, &extent) in ty.dims.iter().zip(array.shape()) {
                    if matches!(dim, Dim::Local(_)) {
                        let _ = self.allows(dim, extent as i64);
                    }
                }
            }
            (Type::Tuple(types), Value::Tuple(parts)) => {
                types.iter().zip(parts).for_each(|(ty, part)| self.hold(ty, part));
            }
            _ => {}
        }
    }
}

/// How a value differs from its type.
pub(crate) enum Misfit {
    Type,
    Extent { axis: usize, found: i64, wanted: i64 },
}

/// Description of a value's destination, for messages.
pub(crate) struct Place {
    pub code: &'static str,
    /// For example "`v` is declared as `[i32; 7]`".
    pub what: String,
    pub declared: Option<Span>,
}

impl Machine<'_> {
    /// Checks that a value has a type and converts untyped literals.
    pub(super) fn fits(
        &mut self,
        frame: &Frame,
        extents: &mut Extents,
        ty: &Type,
        value: &mut Value,
    ) -> Result<(), Misfit> {
        match (ty, &mut *value) {
            // The most frequent case first.
            (Type::Scalar(s), Value::Scalar(number)) if number.ty == *s => Ok(()),
            (_, Value::Traced(traced)) => self.fits(frame, extents, ty, &mut traced.primal().clone()),
            (Type::Unknown | Type::Error | Type::Never | Type::Fn(_) | Type::Module(_), _) => Ok(()),
            (Type::Param(_), _) => match self.concrete(frame, ty) {
                Type::Param(_) => Ok(()),
                concrete => self.fits(frame, extents, &concrete, value),
            },
            (Type::Scalar(s), Value::Int(_) | Value::Float(_)) => match value.adapt(*s) {
                Some(number) => {
                    *value = Value::Scalar(number);
                    Ok(())
                }
                None => Err(Misfit::Type),
            },
            (Type::Vector(s, n), Value::Vector(v)) if v.ty() == *s && v.lanes() == usize::from(*n) => Ok(()),
            (Type::Array(wanted), Value::Array(array)) => self.fits_array(frame, extents, wanted, array),
            (Type::Array(wanted), Value::Strings(_)) if wanted.element == Type::Unknown && wanted.dims.len() == 1 => {
                Ok(())
            }
            (Type::Struct(id), Value::Record(record)) => {
                let layout = self.interp.layouts.of_struct(self.program, *id);
                if layout == record.layout { Ok(()) } else { Err(Misfit::Type) }
            }
            (Type::Tuple(types), Value::Tuple(parts)) if types.len() == parts.len() => {
                types.iter().zip(parts).try_for_each(|(ty, part)| self.fits(frame, extents, ty, part))
            }
            (Type::Kernel(id), Value::Kernel(known)) if known == id => Ok(()),
            (Type::Unit, Value::Unit)
            | (Type::Str, Value::Str(_))
            | (Type::Range, Value::Range(_))
            | (Type::Timing, Value::Timing(_))
            | (Type::Strings, Value::Strings(_)) => Ok(()),
            _ => Err(Misfit::Type),
        }
    }

    fn fits_array(
        &mut self,
        frame: &Frame,
        extents: &mut Extents,
        wanted: &ArrayType,
        array: &Array,
    ) -> Result<(), Misfit> {
        let element = self.concrete(frame, &wanted.element);
        if !is_open(&element) && self.interp.layouts.element(self.program, &element) != *array.element()
            || wanted.dims.len() != array.rank()
        {
            return Err(Misfit::Type);
        }
        for (axis, (dim, &extent)) in wanted.dims.iter().zip(array.shape()).enumerate() {
            let found = extent as i64;
            extents.allows(dim, found).map_err(|wanted| Misfit::Extent { axis, found, wanted })?;
        }
        Ok(())
    }

    /// Returns the error for a value that does not conform.
    pub(super) fn misfit(&self, misfit: &Misfit, place: &Place, value: &Value, at: Span) -> Signal {
        let found = value.type_name();
        let title = format!("{}, but this is `{found}`", place.what);
        let mut diagnostic = Diagnostic::error(place.code, title).at(at, format!("this is `{found}`"));
        if let Some(declared) = place.declared {
            diagnostic = diagnostic.because(declared, "declared here");
        }
        if let Misfit::Extent { axis, found, wanted } = misfit {
            diagnostic = diagnostic.note(format!("axis {axis} is {found}, and has to be {wanted}"));
        }
        self.error(diagnostic)
    }

    /// Checks the initializer of a `let` or `var` with a type annotation.
    pub(super) fn declared(
        &mut self,
        frame: &mut Frame,
        declared: &Declared,
        pattern: &Pattern,
        mut value: Value,
        at: Span,
    ) -> Eval {
        let mut extents = Extents { names: frame.dims.clone(), ..Extents::default() };
        for extent in &declared.extents {
            extents.locals.push(match extent {
                Extent::Is(expr) => Some(self.integer(frame, expr)?),
                Extent::Named(_) => None,
            });
        }
        match self.fits(frame, &mut extents, &declared.ty, &mut value) {
            Ok(()) => Ok(value),
            Err(misfit) => {
                let name = self.name_of(frame, pattern);
                let name = name.map_or("this".into(), |name| format!("`{name}`"));
                let what = format!("{name} is declared as `{}`", self.sources.slice(declared.span));
                let place = Place { code: "E0524", what, declared: Some(declared.span) };
                Err(self.misfit(&misfit, &place, &value, at))
            }
        }
    }

    fn name_of(&self, frame: &Frame, pattern: &Pattern) -> Option<String> {
        match pattern {
            Pattern::Local(id) => Some(frame.body()?.locals.get(*id)?.name.to_string()),
            Pattern::Global(id) => Some(self.program.globals.get(*id)?.name.to_string()),
            Pattern::Discard | Pattern::Tuple(_) => None,
        }
    }

    /// Evaluates the dimensions of a type in a signature inside a call.
    pub(super) fn extents_in(&mut self, sig: &Signature, ty: &Type, inner: &mut Frame) -> Eval<Extents> {
        let mut extents = Extents { names: inner.dims.clone(), ..Extents::default() };
        extents.exprs = vec![None; sig.dim_exprs.len()];
        let mut wanted = Vec::new();
        expressions(ty, &mut wanted);
        for i in wanted {
            if let Some(expr) = sig.dim_exprs.get(i) {
                extents.exprs[i] = Some(self.integer(inner, expr)?);
            }
        }
        Ok(extents)
    }

    /// Checks a value to be assigned to an lvalue of this type.
    pub(super) fn assignable(
        &mut self,
        frame: &Frame,
        ty: &Type,
        old: Option<&Value>,
        mut value: Value,
        at: Span,
    ) -> Eval {
        let mut extents = Extents { names: frame.dims.clone(), ..Extents::default() };
        if let Some(old) = old {
            extents.hold(ty, old);
        }
        match self.fits(frame, &mut extents, ty, &mut value) {
            Ok(()) => Ok(value),
            Err(misfit) => {
                let wanted = match (&misfit, old) {
                    (Misfit::Extent { .. }, Some(old)) => old.type_name(),
                    _ => crate::check::show_type(self.program, None, ty),
                };
                let what = format!("a `{wanted}` is assigned to here");
                let place = Place { code: "E0524", what, declared: None };
                Err(self.misfit(&misfit, &place, &value, at))
            }
        }
    }
}

/// Whether an element type is known only at run time.
fn is_open(element: &Type) -> bool {
    match element {
        Type::Unknown | Type::Error | Type::Param(_) => true,
        Type::Tuple(parts) => parts.iter().any(is_open),
        _ => false,
    }
}

/// Collects the dimensions of a type that are expressions.
fn expressions(ty: &Type, found: &mut Vec<usize>) {
    match ty {
        Type::Array(array) => {
            found.extend(array.dims.iter().filter_map(|d| if let Dim::Expr(i) = d { Some(*i as usize) } else { None }));
        }
        Type::Tuple(parts) => parts.iter().for_each(|part| expressions(part, found)),
        _ => {}
    }
}
