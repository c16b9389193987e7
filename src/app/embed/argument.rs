//! Converts the arguments of calls from other languages to values of the parameters' types. A number that a type cannot
//! represent is rejected. The exception is a decimal fraction, which is rounded to the nearest float, as a literal is.

use super::describe::{Callable, ParamDescription, ParamKind};
use super::gpu_arrays::Lending;
use clk_check::typed::{Access, GenericKind, Signature, Type, TypeBound};
use clk_host::array::{Array, ElementType, RecordLayout, element_value};
use clk_host::problem::RuntimeError;
use clk_host::value::HostValue;
use clk_scalar::Scalar;

/// An argument of a call, before its conversion to the parameter's type.
#[derive(Debug)]
pub enum EmbedValue {
    Bool(bool),
    /// An integer. If it had a sized type in the caller's language (such as a NumPy scalar), also that type.
    Int(i128, Option<Scalar>),
    Float(f64, Option<Scalar>),
    /// A sequence: the lanes of a vector, or the fields of a tuple or struct in order.
    List(Vec<EmbedValue>),
    /// The fields of a struct, by name.
    Fields(Vec<(String, EmbedValue)>),
    Text(String),
    Texts(Vec<String>),
    Array(Array),
    Lent(Lending),
}

/// A function that returns the name of a parameter. It is called only for error messages.
type ParamNamer<'a> = &'a dyn Fn() -> String;

type Result<T> = std::result::Result<T, Box<RuntimeError>>;

fn argument_error(title: String) -> Box<RuntimeError> {
    Box::new(RuntimeError::new("E0804", title))
}

impl EmbedValue {
    /// Describes the argument for messages.
    fn description(&self) -> String {
        match self {
            EmbedValue::Bool(value) => format!("the truth value {value}"),
            EmbedValue::Int(value, None) => format!("the integer {value}"),
            EmbedValue::Int(value, Some(ty)) => format!("the `{ty}` {value}"),
            EmbedValue::Float(value, None) => format!("the number {value:?}"),
            EmbedValue::Float(value, Some(ty)) => format!("the `{ty}` {value:?}"),
            EmbedValue::List(items) => format!("a sequence of {}", items.len()),
            EmbedValue::Fields(_) => "a mapping".into(),
            EmbedValue::Text(_) => "a text".into(),
            EmbedValue::Texts(_) => "a list of texts".into(),
            EmbedValue::Array(array) => format!("an array, `{}`", array.type_name()),
            EmbedValue::Lent(_) => "an array of a GPU".into(),
        }
    }

    /// Returns the type that this argument implies for a type parameter, if it is a number. Arrays are handled by the
    /// caller and take precedence.
    pub(super) fn own_type(&self) -> Option<Scalar> {
        match *self {
            EmbedValue::Bool(_) => Some(Scalar::Bool),
            EmbedValue::Int(_, Some(ty)) | EmbedValue::Float(_, Some(ty)) => Some(ty),
            EmbedValue::Int(value, None) => HostValue::Int(value).with_default_type().as_scalar().map(|value| value.ty),
            EmbedValue::Float(value, None) => {
                HostValue::Float(value).with_default_type().as_scalar().map(|value| value.ty)
            }
            _ => None,
        }
    }

    /// Converts the argument to a value for a parameter. `generics` are the types inferred for the type parameters.
    pub(super) fn value(
        self,
        of: &Callable,
        param: &ParamDescription,
        generics: &[Option<ElementType>],
    ) -> Result<HostValue> {
        let resolve = |element: &std::result::Result<ElementType, usize>| match element {
            Ok(element) => Some(element.clone()),
            Err(generic) => generics.get(*generic).cloned().flatten(),
        };
        let place = &|| format!("`{}` of `{}`", param.name, of.name);
        let title = match (&param.kind, self) {
            (ParamKind::Array { element, rank }, EmbedValue::Array(array)) => {
                return adapt_array(array, resolve(element).as_ref(), *rank, place, param).map(HostValue::Array);
            }
            (ParamKind::Value(element), value) => match resolve(element) {
                Some(element) => return value.single(&element, place),
                None => format!("the type of {} is unknown", place()),
            },
            (ParamKind::Text, EmbedValue::Text(text)) => return Ok(HostValue::str(text)),
            (ParamKind::Texts, EmbedValue::Texts(texts)) => {
                return Ok(HostValue::Strings(texts.into_iter().map(Into::into).collect()));
            }
            (ParamKind::Other, _) => format!("{} is `{}`, which cannot be given from outside", place(), param.text),
            (_, given) => format!("{} is `{}`, not {}", place(), param.text, given.description()),
        };
        Err(argument_error(title))
    }

    /// Converts the argument to a value of an element type.
    fn single(self, element: &ElementType, place: ParamNamer<'_>) -> Result<HostValue> {
        if let ElementType::Scalar(ty) = element {
            return self.scalar(*ty).map(HostValue::Scalar).ok_or_else(|| self.type_mismatch(*ty, place));
        }
        let mut bytes = vec![0; element.size()];
        self.fill(element, place, &mut bytes)?;
        Ok(element_value::read(element, &bytes))
    }

    fn fill(self, element: &ElementType, place: ParamNamer<'_>, bytes: &mut [u8]) -> Result<()> {
        match (element, self) {
            (ElementType::Scalar(ty), given) => {
                let value = given.scalar(*ty).ok_or_else(|| given.type_mismatch(*ty, place))?;
                bytes.iter_mut().zip(value.to_bytes()).take(ty.size()).for_each(|(to, from)| *to = from);
                Ok(())
            }
            (ElementType::Vector(ty, lanes), EmbedValue::List(items)) if items.len() == usize::from(*lanes) => {
                let places = bytes.chunks_exact_mut(ty.size());
                items.into_iter().zip(places).try_for_each(|(item, to)| item.fill(&ElementType::Scalar(*ty), place, to))
            }
            (ElementType::Vector(ty, lanes), EmbedValue::Array(array)) if array.shape() == [usize::from(*lanes)] => {
                let has_type = array.element() == &ElementType::Scalar(*ty);
                let wrong = || argument_error(format!("{} is `{element}`, not `{}`", place(), array.type_name()));
                bytes.copy_from_slice(
                    array.bytes().map_err(Box::new)?.get(..bytes.len()).filter(|_| has_type).ok_or_else(wrong)?,
                );
                Ok(())
            }
            (ElementType::Record(record), given) => given.fill_record(record, place, bytes),
            (element, given) => Err(argument_error(format!("{} is `{element}`, not {}", place(), given.description()))),
        }
    }

    /// Converts a sequence or mapping to a struct or tuple: converts each field separately, and writes its bytes at the
    /// field's offset.
    fn fill_record(self, record: &RecordLayout, place: ParamNamer<'_>, bytes: &mut [u8]) -> Result<()> {
        let expected = if record.is_tuple() { "a tuple".into() } else { format!("a `{}`", record.name) };
        let names = || record.fields.iter().map(|field| format!("`{}`", field.name)).collect::<Vec<_>>().join(", ");
        let parts = match self {
            EmbedValue::List(parts) if parts.len() == record.fields.len() => parts,
            EmbedValue::Fields(mut given) => {
                let wrong =
                    |title| Box::new(RuntimeError::new("E0804", title).note(format!("its fields are {}", names())));
                if let Some((name, _)) = given.iter().find(|(name, _)| record.position(name).is_none()) {
                    return Err(wrong(format!("{} is {expected}, which has no field `{name}`", place())));
                }
                let mut remove_field = |name: &str| {
                    let at = given.iter().position(|(given, _)| given == name);
                    let missing = || wrong(format!("{} is {expected}, and its field `{name}` is not given", place()));
                    at.map(|at| given.swap_remove(at).1).ok_or_else(missing)
                };
                let parts = record.fields.iter().map(|field| remove_field(&field.name)).collect::<Result<Vec<_>>>()?;
                match given.first() {
                    None => parts,
                    Some((name, _)) => {
                        return Err(wrong(format!("{} is {expected}, and `{name}` is given twice", place())));
                    }
                }
            }
            given => {
                let title = format!("{} is {expected}, not {}", place(), given.description());
                return Err(Box::new(RuntimeError::new("E0804", title).note(format!("its fields are {}", names()))));
            }
        };
        for (field, part) in record.fields.iter().zip(parts) {
            let mut own = vec![0; field.element.size()];
            part.fill(&field.element, &|| format!("`{}` of {}", field.name, place()), &mut own)?;
            let inner = field.element.layout();
            for (leaf, from) in record.layout.leaves.get(field.leaves.clone()).unwrap_or(&[]).iter().zip(&inner.leaves)
            {
                let size = leaf.ty.size();
                if let (Some(to), Some(from)) =
                    (bytes.get_mut(leaf.offset..leaf.offset + size), own.get(from.offset..from.offset + size))
                {
                    to.copy_from_slice(from);
                }
            }
        }
        Ok(())
    }

    /// Converts a number to this type; `None` if the type cannot represent it.
    fn scalar(&self, to: Scalar) -> Option<clk_scalar::ScalarValue> {
        match (self, to) {
            (EmbedValue::Bool(value), Scalar::Bool) => Some(clk_scalar::ScalarValue::of(*value)),
            (_, Scalar::Bool) => None,
            (EmbedValue::Int(value, _), to) => {
                let converted = HostValue::Int(*value).adapt(to)?;
                // The conversion to a float may have rounded the integer, which is not allowed.
                let is_exact =
                    !to.is_float() || value.unsigned_abs() < 1 << 100 && converted.as_f64() as i128 == *value;
                is_exact.then_some(converted)
            }
            // A float of a type narrower than `f64` must be converted exactly. An `f64`, or a float without a sized
            // type, may be rounded.
            (EmbedValue::Float(value, own), to) if to.is_float() => {
                let converted =
                    HostValue::Float(*value).adapt(to).filter(|converted| !value.is_nan() || converted.is_nan())?;
                let narrow = own.is_some_and(|own| own != Scalar::F64);
                (!narrow || value.is_nan() || converted.as_f64() == *value).then_some(converted)
            }
            (EmbedValue::Float(value, _), to) => {
                let whole = value.fract() == 0.0 && value.abs() < 2f64.powi(65);
                if whole { clk_scalar::ScalarValue::from_integer(to, *value as i128) } else { None }
            }
            _ => None,
        }
    }

    fn type_mismatch(&self, ty: Scalar, place: ParamNamer<'_>) -> Box<RuntimeError> {
        let problem = RuntimeError::new("E0804", format!("{} is `{ty}`, which {} is not", place(), self.description()));
        Box::new(match (self, ty) {
            (EmbedValue::Float(..), ty) if ty.is_int() => problem.help("round it: `int(…)`, `round(…)`"),
            (EmbedValue::Int(..) | EmbedValue::Float(..), Scalar::Bool) => problem.help("compare it: `… != 0`"),
            (EmbedValue::Bool(_), _) => problem.help("write 1 for `True`, 0 for `False`, or `int(…)`"),
            (EmbedValue::Int(..) | EmbedValue::Float(..), _) => {
                problem.note("numbers are never changed on the way: those that the type does not have are refused")
            }
            (EmbedValue::Array(_), _) => problem.help("take one element: `x.item()`, `x[0]`"),
            _ => problem,
        })
    }
}

/// Rejects arguments whose type does not satisfy the bound of a type parameter, such as `bool` for `T: Num`.
pub(super) fn check_bounds(
    of: &Callable,
    sig: &Signature,
    arguments: &[Option<EmbedValue>],
    generics: &[Option<ElementType>],
) -> Result<()> {
    for (at, (generic, element)) in sig.generics.iter().zip(generics).enumerate() {
        let (GenericKind::Type { bound }, Some(element)) = (&generic.kind, element) else { continue };
        let (word, like) = match bound {
            TypeBound::Any => continue,
            TypeBound::Num => ("Num", Scalar::U8),
            TypeBound::Int => ("Int", Scalar::I32),
            TypeBound::Float => ("Float", Scalar::F32),
        };
        if matches!(element, ElementType::Scalar(scalar) if bound.allows(&Type::Scalar(*scalar))) {
            continue;
        }
        let is_own = |param: &&ParamDescription| match &param.kind {
            ParamKind::Array { element, .. } | ParamKind::Value(element) => *element == Err(at),
            _ => false,
        };
        let given = of.params.iter().zip(arguments).filter(|(param, _)| is_own(param));
        let Some((param, argument)) = given.filter_map(|(param, given)| Some((param, given.as_ref()?))).next() else {
            continue;
        };
        let place = format!("`{}` of `{}` is `{}` with `{}: {word}`", param.name, of.name, param.text, generic.name);
        let name = numpy_name(like);
        return Err(Box::new(match argument {
            EmbedValue::Array(array) => {
                RuntimeError::new("E0809", format!("{place}, and this array is `{}`", array.type_name()))
                    .help(format!("convert it: `x.astype({name:?})`, `x.to(torch.{name})`"))
            }
            given => {
                let convert = if *bound == TypeBound::Float { "float(…)" } else { "int(…)" };
                RuntimeError::new("E0804", format!("{place}, not {}", given.description()))
                    .help(format!("convert it: `{convert}`"))
            }
        }));
    }
    Ok(())
}

/// Adapts an array to a parameter's type. For a parameter with vector elements, the last axis of two to four scalars
/// becomes the vector.
fn adapt_array(
    array: Array,
    element: Option<&ElementType>,
    rank: usize,
    place: ParamNamer<'_>,
    param: &ParamDescription,
) -> Result<Array> {
    let text = &param.text;
    let array = match element {
        None => array,
        Some(element) => array.recast(element).ok_or_else(|| wrong_elements(&array, element, place, param))?,
    };
    if array.rank() == rank {
        return Ok(array);
    }
    let axes = |n: usize| if n == 1 { "one axis".to_string() } else { format!("{n} axes") };
    let title = format!("{} is `{text}`, with {}, and this array has {}", place(), axes(rank), axes(array.rank()));
    let help = if array.rank() == 0 {
        "a single number is an array by `x.reshape(1)`"
    } else {
        "`x.reshape(…)` makes another shape"
    };
    Err(Box::new(RuntimeError::new("E0809", title).note(format!("it is `{}`", array.type_name())).help(help)))
}

fn wrong_elements(
    array: &Array,
    element: &ElementType,
    place: ParamNamer<'_>,
    param: &ParamDescription,
) -> Box<RuntimeError> {
    let title = format!("{} is `{}`, and this array is `{}`", place(), param.text, array.type_name());
    let problem = RuntimeError::new("E0809", title);
    Box::new(match element {
        // The help does not suggest a conversion: the kernel would write to the converted copy, and the caller would
        // not see the result.
        ElementType::Scalar(ty) if param.access == Access::Out => problem.help(format!(
            "`numpy.empty(shape, {0:?})` is an array to write to, as is `torch.empty(shape, dtype=torch.{0})`",
            numpy_name(*ty)
        )),
        ElementType::Scalar(ty) if array.scalar().is_some() => problem
            .help(format!("convert it, where that is meant: `x.astype({0:?})`, `x.to(torch.{0})`", numpy_name(*ty)))
            .note("arrays are not converted on the way, which would cost a copy at every call"),
        ElementType::Vector(ty, lanes) => problem
            .help(format!("a `{element}` is a last axis of {lanes} elements of `{ty}`: `x.reshape(-1, {lanes})`")),
        _ => problem.help("make it with the type that `clk.Module.dtype` gives for the struct"),
    })
}

/// Returns NumPy's name for a scalar type.
pub fn numpy_name(ty: Scalar) -> &'static str {
    match ty {
        Scalar::Bool => "bool",
        Scalar::I8 => "int8",
        Scalar::I16 => "int16",
        Scalar::I32 => "int32",
        Scalar::I64 => "int64",
        Scalar::U8 => "uint8",
        Scalar::U16 => "uint16",
        Scalar::U32 => "uint32",
        Scalar::U64 => "uint64",
        Scalar::F16 => "float16",
        Scalar::Bf16 => "bfloat16",
        Scalar::F32 => "float32",
        Scalar::F64 => "float64",
    }
}
