//! Run-time checks that a value conforms to a declared type, for values whose type the checker does not know.
//!
//! Input: a value, and the declared type of its variable, result, field or parameter, with the values of dimensions.
//! Output: the value, with untyped literals converted to the type, or a diagnostic that shows the value's type and the
//! declared type.

use crate::array::Array;
use crate::value::HostValue;
use clk_base::diag::Diagnostic;
use clk_base::source::Span;
use clk_check::typed::{ArrayType, DeclaredExtent, DeclaredType, Dim, Pattern, Signature, Type};

use super::context::{Eval, EvalContext, Signal};
use super::frame::HostFrame;

/// Values of the dimensions in a type. The first axis that uses an unbound dimension binds it to its extent.
#[derive(Default)]
pub(crate) struct DimBindings {
    /// Dimension names of a signature, by index in `sig.dims`.
    pub names: Vec<Option<i64>>,
    /// Dimension expressions of a signature, by index in `sig.dim_exprs`.
    pub exprs: Vec<Option<i64>>,
    /// Dimension names in the annotation of a variable, by index in `Dim::Local`.
    pub locals: Vec<Option<i64>>,
}

impl DimBindings {
    /// Checks that an extent equals the value of a dimension, or binds the dimension if it is unbound. The error is the
    /// expected extent.
    fn bind_extent(&mut self, dim: &Dim, extent: i64) -> Result<(), i64> {
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

    /// Binds the dimensions in a variable's annotation to the extents of its old value. A new value must have the same
    /// extents.
    pub fn bind_to_old_value(&mut self, ty: &Type, old: &HostValue) {
        match (ty, old) {
            (Type::Array(ty), HostValue::Array(array)) if ty.dims.len() == array.rank() => {
                for (dim, &extent) in ty.dims.iter().zip(array.shape()) {
                    if matches!(dim, Dim::Local(_)) {
                        let _ = self.bind_extent(dim, extent as i64);
                    }
                }
            }
            (Type::Tuple(types), HostValue::Tuple(parts)) => {
                types.iter().zip(parts).for_each(|(ty, part)| self.bind_to_old_value(ty, part));
            }
            _ => {}
        }
    }
}

/// How a value differs from its type.
pub(crate) enum TypeMismatch {
    Type,
    Extent { axis: usize, found: i64, wanted: i64 },
}

/// Destination of a value, such as a variable, for the error if the value does not have the destination's type.
pub(crate) struct ValueDestination {
    pub code: &'static str,
    /// The requirement, such as "`v` is declared as `[i32; 7]`".
    pub description: String,
    pub declared: Option<Span>,
}

impl EvalContext<'_> {
    /// Checks that a value has a type and converts untyped literals.
    pub(super) fn conform(
        &mut self,
        frame: &HostFrame,
        extents: &mut DimBindings,
        ty: &Type,
        value: &mut HostValue,
    ) -> Result<(), TypeMismatch> {
        match (ty, &mut *value) {
            // A fast path for the most frequent case.
            (Type::Scalar(s), HostValue::Scalar(number)) if number.ty == *s => Ok(()),
            (_, HostValue::Traced(traced)) => self.conform(frame, extents, ty, &mut traced.primal().clone()),
            (Type::Unknown | Type::Error | Type::Never | Type::Fn(_) | Type::Module(_), _) => Ok(()),
            (Type::Param(_), _) => match self.concrete(frame, ty) {
                Type::Param(_) => Ok(()),
                concrete => self.conform(frame, extents, &concrete, value),
            },
            (Type::Scalar(s), HostValue::Int(_) | HostValue::Float(_)) => match value.adapt(*s) {
                Some(number) => {
                    *value = HostValue::Scalar(number);
                    Ok(())
                }
                None => Err(TypeMismatch::Type),
            },
            (Type::Vector(s, n), HostValue::Vector(v)) if v.ty() == *s && v.lanes() == usize::from(*n) => Ok(()),
            (Type::Array(wanted), HostValue::Array(array)) => self.conform_array(frame, extents, wanted, array),
            (Type::Array(wanted), HostValue::Strings(_))
                if wanted.element == Type::Unknown && wanted.dims.len() == 1 =>
            {
                Ok(())
            }
            (Type::Struct(id), HostValue::Record(record)) => {
                let layout = self.interp.caches.layouts.struct_layout(self.program, *id);
                if layout == record.layout { Ok(()) } else { Err(TypeMismatch::Type) }
            }
            (Type::Tuple(types), HostValue::Tuple(parts)) if types.len() == parts.len() => {
                types.iter().zip(parts).try_for_each(|(ty, part)| self.conform(frame, extents, ty, part))
            }
            (Type::Kernel(id), HostValue::Kernel(known)) if known == id => Ok(()),
            (Type::Unit, HostValue::Unit)
            | (Type::Str, HostValue::Str(_))
            | (Type::Range, HostValue::Range(_))
            | (Type::Timing, HostValue::Timing(_))
            | (Type::Strings, HostValue::Strings(_)) => Ok(()),
            _ => Err(TypeMismatch::Type),
        }
    }

    fn conform_array(
        &mut self,
        frame: &HostFrame,
        extents: &mut DimBindings,
        wanted: &ArrayType,
        array: &Array,
    ) -> Result<(), TypeMismatch> {
        let element = self.concrete(frame, &wanted.element);
        if !is_dynamic(&element) && self.interp.caches.layouts.element(self.program, &element) != *array.element()
            || wanted.dims.len() != array.rank()
        {
            return Err(TypeMismatch::Type);
        }
        for (axis, (dim, &extent)) in wanted.dims.iter().zip(array.shape()).enumerate() {
            let found = extent as i64;
            extents.bind_extent(dim, found).map_err(|wanted| TypeMismatch::Extent { axis, found, wanted })?;
        }
        Ok(())
    }

    /// Returns the error for a value that does not conform.
    pub(super) fn mismatch_error(
        &self,
        misfit: &TypeMismatch,
        place: &ValueDestination,
        value: &HostValue,
        at: Span,
    ) -> Signal {
        let found = value.type_name();
        let title = format!("{}, but this is `{found}`", place.description);
        let mut diagnostic = Diagnostic::error(place.code, title).at(at, format!("this is `{found}`"));
        if let Some(declared) = place.declared {
            diagnostic = diagnostic.because(declared, "declared here");
        }
        if let TypeMismatch::Extent { axis, found, wanted } = misfit {
            diagnostic = diagnostic.note(format!("axis {axis} is {found}, but must be {wanted}"));
        }
        self.error(diagnostic)
    }

    /// Checks the initializer of a `let` or `var` with a type annotation.
    pub(super) fn check_declared(
        &mut self,
        frame: &mut HostFrame,
        declared: &DeclaredType,
        pattern: &Pattern,
        mut value: HostValue,
        at: Span,
    ) -> Eval {
        let mut extents = DimBindings { names: frame.dims.clone(), ..DimBindings::default() };
        for extent in &declared.extents {
            extents.locals.push(match extent {
                DeclaredExtent::Is(expr) => Some(self.eval_integer(frame, expr)?),
                DeclaredExtent::Named(_) => None,
            });
        }
        match self.conform(frame, &mut extents, &declared.ty, &mut value) {
            Ok(()) => Ok(value),
            Err(misfit) => {
                let name = self.pattern_name(frame, pattern);
                let name = name.map_or("this".into(), |name| format!("`{name}`"));
                let what = format!("{name} is declared as `{}`", self.sources.slice(declared.span));
                let place = ValueDestination { code: "E0524", description: what, declared: Some(declared.span) };
                Err(self.mismatch_error(&misfit, &place, &value, at))
            }
        }
    }

    fn pattern_name(&self, frame: &HostFrame, pattern: &Pattern) -> Option<String> {
        match pattern {
            Pattern::Local(id) => Some(frame.body()?.locals.get(*id)?.name.to_string()),
            Pattern::Global(id) => Some(self.program.globals.get(*id)?.name.to_string()),
            Pattern::Discard | Pattern::Tuple(_) => None,
        }
    }

    /// Returns the values of the dimensions in a type of a signature. `inner` is the frame of the call.
    pub(super) fn signature_extents(&mut self, sig: &Signature, ty: &Type, inner: &mut HostFrame) -> Eval<DimBindings> {
        let mut extents = DimBindings { names: inner.dims.clone(), ..DimBindings::default() };
        extents.exprs = vec![None; sig.dim_exprs.len()];
        let mut wanted = Vec::new();
        dim_expressions(ty, &mut wanted);
        for i in wanted {
            if let Some(expr) = sig.dim_exprs.get(i) {
                extents.exprs[i] = Some(self.eval_integer(inner, expr)?);
            }
        }
        Ok(extents)
    }

    /// Checks a value to be assigned to an lvalue of this type.
    pub(super) fn check_assignable(
        &mut self,
        frame: &HostFrame,
        ty: &Type,
        old: Option<&HostValue>,
        mut value: HostValue,
        at: Span,
    ) -> Eval {
        let mut extents = DimBindings { names: frame.dims.clone(), ..DimBindings::default() };
        if let Some(old) = old {
            extents.bind_to_old_value(ty, old);
        }
        match self.conform(frame, &mut extents, ty, &mut value) {
            Ok(()) => Ok(value),
            Err(misfit) => {
                let wanted = match (&misfit, old) {
                    (TypeMismatch::Extent { .. }, Some(old)) => old.type_name(),
                    _ => clk_check::show_type(self.program, None, ty),
                };
                let what = format!("a `{wanted}` is assigned to here");
                let place = ValueDestination { code: "E0524", description: what, declared: None };
                Err(self.mismatch_error(&misfit, &place, &value, at))
            }
        }
    }
}

/// Returns whether an array element type, or a part of a tuple type, is only known at run time.
fn is_dynamic(element: &Type) -> bool {
    match element {
        Type::Unknown | Type::Error | Type::Param(_) => true,
        Type::Tuple(parts) => parts.iter().any(is_dynamic),
        _ => false,
    }
}

/// Collects the dimension expressions in a type, as indices in `sig.dim_exprs`.
fn dim_expressions(ty: &Type, found: &mut Vec<usize>) {
    match ty {
        Type::Array(array) => {
            found.extend(array.dims.iter().filter_map(|d| if let Dim::Expr(i) = d { Some(*i as usize) } else { None }));
        }
        Type::Tuple(parts) => parts.iter().for_each(|part| dim_expressions(part, found)),
        _ => {}
    }
}
