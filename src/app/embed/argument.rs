//! Arguments of calls from outside: plain data to values of a parameter's type. Conversions of numbers are exact: a value that the
//! type does not have is refused, except that decimal fractions are rounded to the nearest float, as literals are.

use super::describe::{Callable, Kind, Parameter};
use super::lending::Lending;
use crate::check::typed::{Access, Bound, GenericKind, Signature, Type};
use crate::host::array::{Array, Element, RecordLayout, leaf};
use crate::host::problem::Problem;
use crate::host::value::Value;
use crate::lang::scalar::{self, Scalar};

/// An argument.
#[derive(Debug)]
pub enum Argument {
    Bool(bool),
    /// A number, and its type where it has one of its own.
    Int(i128, Option<Scalar>),
    Float(f64, Option<Scalar>),
    /// The lanes of a vector, or the fields of a tuple or struct in order.
    List(Vec<Argument>),
    /// The fields of a struct by name.
    Fields(Vec<(String, Argument)>),
    Text(String),
    Texts(Vec<String>),
    Array(Array),
    Lent(Lending),
}

/// Says which parameter something is about: asked for by errors alone.
type Place<'a> = &'a dyn Fn() -> String;

type Result<T> = std::result::Result<T, Box<Problem>>;

fn refused(title: String) -> Box<Problem> {
    Box::new(Problem::new("E0804", title))
}

impl Argument {
    /// Says what this is, for messages.
    fn words(&self) -> String {
        match self {
            Argument::Bool(value) => format!("the truth value {value}"),
            Argument::Int(value, None) => format!("the integer {value}"),
            Argument::Int(value, Some(ty)) => format!("the `{ty}` {value}"),
            Argument::Float(value, None) => format!("the number {value:?}"),
            Argument::Float(value, Some(ty)) => format!("the `{ty}` {value:?}"),
            Argument::List(items) => format!("a sequence of {}", items.len()),
            Argument::Fields(_) => "a mapping".into(),
            Argument::Text(_) => "a text".into(),
            Argument::Texts(_) => "a list of texts".into(),
            Argument::Array(array) => format!("an array, `{}`", array.type_name()),
            Argument::Lent(_) => "an array of a GPU".into(),
        }
    }

    /// Returns the type that a type parameter gets from it, unless an array says otherwise.
    pub(super) fn own_type(&self) -> Option<Scalar> {
        match *self {
            Argument::Bool(_) => Some(Scalar::Bool),
            Argument::Int(_, Some(ty)) | Argument::Float(_, Some(ty)) => Some(ty),
            Argument::Int(value, None) => Value::Int(value).settled().as_scalar().map(|value| value.ty),
            Argument::Float(value, None) => Value::Float(value).settled().as_scalar().map(|value| value.ty),
            _ => None,
        }
    }

    /// Converts to a value for a parameter; `generics` are the elements that its type parameters stand for.
    pub(super) fn value(self, of: &Callable, param: &Parameter, generics: &[Option<Element>]) -> Result<Value> {
        let named = |element: &std::result::Result<Element, usize>| match element {
            Ok(element) => Some(element.clone()),
            Err(generic) => generics.get(*generic).cloned().flatten(),
        };
        let place = &|| format!("`{}` of `{}`", param.name, of.name);
        let title = match (&param.kind, self) {
            (Kind::Array { element, rank }, Argument::Array(array)) => {
                return fitted(array, named(element).as_ref(), *rank, place, param).map(Value::Array);
            }
            (Kind::Value(element), value) => match named(element) {
                Some(element) => return value.single(&element, place),
                None => format!("nothing says which type {} has", place()),
            },
            (Kind::Text, Argument::Text(text)) => return Ok(Value::str(text)),
            (Kind::Texts, Argument::Texts(texts)) => {
                return Ok(Value::Strings(texts.into_iter().map(Into::into).collect()));
            }
            (Kind::Other, _) => format!("{} is `{}`, which cannot be given from outside", place(), param.text),
            (_, given) => format!("{} is `{}`, not {}", place(), param.text, given.words()),
        };
        Err(refused(title))
    }

    /// Converts to a value of one element.
    fn single(self, element: &Element, place: Place<'_>) -> Result<Value> {
        if let Element::Scalar(ty) = element {
            return self.scalar(*ty).map(Value::Scalar).ok_or_else(|| self.misfit(*ty, place));
        }
        let mut bytes = vec![0; element.size()];
        self.fill(element, place, &mut bytes)?;
        Ok(leaf::read(element, &bytes))
    }

    fn fill(self, element: &Element, place: Place<'_>, bytes: &mut [u8]) -> Result<()> {
        match (element, self) {
            (Element::Scalar(ty), given) => {
                let value = given.scalar(*ty).ok_or_else(|| given.misfit(*ty, place))?;
                bytes.iter_mut().zip(value.to_bytes()).take(ty.size()).for_each(|(to, from)| *to = from);
                Ok(())
            }
            (Element::Vector(ty, lanes), Argument::List(items)) if items.len() == usize::from(*lanes) => {
                let places = bytes.chunks_exact_mut(ty.size());
                items.into_iter().zip(places).try_for_each(|(item, to)| item.fill(&Element::Scalar(*ty), place, to))
            }
            (Element::Vector(ty, lanes), Argument::Array(array)) if array.shape() == [usize::from(*lanes)] => {
                let fits = array.element() == &Element::Scalar(*ty);
                let wrong = || refused(format!("{} is `{element}`, not `{}`", place(), array.type_name()));
                bytes.copy_from_slice(
                    array.bytes().map_err(Box::new)?.get(..bytes.len()).filter(|_| fits).ok_or_else(wrong)?,
                );
                Ok(())
            }
            (Element::Record(record), given) => given.fill_record(record, place, bytes),
            (element, given) => Err(refused(format!("{} is `{element}`, not {}", place(), given.words()))),
        }
    }

    /// Fills a struct or tuple: each field is converted by itself, and its bytes are moved to where the layout has them.
    fn fill_record(self, record: &RecordLayout, place: Place<'_>, bytes: &mut [u8]) -> Result<()> {
        let what = if record.is_tuple() { "a tuple".into() } else { format!("a `{}`", record.name) };
        let names = || record.fields.iter().map(|field| format!("`{}`", field.name)).collect::<Vec<_>>().join(", ");
        let parts = match self {
            Argument::List(parts) if parts.len() == record.fields.len() => parts,
            Argument::Fields(mut given) => {
                let wrong = |title| Box::new(Problem::new("E0804", title).note(format!("its fields are {}", names())));
                if let Some((name, _)) = given.iter().find(|(name, _)| record.position(name).is_none()) {
                    return Err(wrong(format!("{} is {what}, which has no field `{name}`", place())));
                }
                let mut take = |name: &str| {
                    let at = given.iter().position(|(given, _)| given == name);
                    let missing = || wrong(format!("{} is {what}, and its field `{name}` is not given", place()));
                    at.map(|at| given.swap_remove(at).1).ok_or_else(missing)
                };
                let parts = record.fields.iter().map(|field| take(&field.name)).collect::<Result<Vec<_>>>()?;
                match given.first() {
                    None => parts,
                    Some((name, _)) => {
                        return Err(wrong(format!("{} is {what}, and `{name}` is given twice", place())));
                    }
                }
            }
            given => {
                let title = format!("{} is {what}, not {}", place(), given.words());
                return Err(Box::new(Problem::new("E0804", title).note(format!("its fields are {}", names()))));
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

    /// Returns the number as one of this type, if it has it.
    fn scalar(&self, to: Scalar) -> Option<scalar::Value> {
        match (self, to) {
            (Argument::Bool(value), Scalar::Bool) => Some(scalar::Value::of(*value)),
            (_, Scalar::Bool) => None,
            (Argument::Int(value, _), to) => {
                let found = Value::Int(*value).adapt(to)?;
                // A float may be the nearest one only.
                let is_exact = !to.is_float() || value.unsigned_abs() < 1 << 100 && found.as_f64() as i128 == *value;
                is_exact.then_some(found)
            }
            // What a float stands for is known exactly only if it is an integer or has a narrow type of its own.
            (Argument::Float(value, own), to) if to.is_float() => {
                let found = Value::Float(*value).adapt(to).filter(|found| !value.is_nan() || found.is_nan())?;
                let narrow = own.is_some_and(|own| own != Scalar::F64);
                (!narrow || value.is_nan() || found.as_f64() == *value).then_some(found)
            }
            (Argument::Float(value, _), to) => {
                let whole = value.fract() == 0.0 && value.abs() < 2f64.powi(65);
                if whole { scalar::Value::from_integer(to, *value as i128) } else { None }
            }
            _ => None,
        }
    }

    fn misfit(&self, ty: Scalar, place: Place<'_>) -> Box<Problem> {
        let problem = Problem::new("E0804", format!("{} is `{ty}`, which {} is not", place(), self.words()));
        Box::new(match (self, ty) {
            (Argument::Float(..), ty) if ty.is_int() => problem.help("round it: `int(…)`, `round(…)`"),
            (Argument::Int(..) | Argument::Float(..), Scalar::Bool) => problem.help("compare it: `… != 0`"),
            (Argument::Bool(_), _) => problem.help("write 1 for `True`, 0 for `False`, or `int(…)`"),
            (Argument::Int(..) | Argument::Float(..), _) => {
                problem.note("numbers are never changed on the way: those that the type does not have are refused")
            }
            (Argument::Array(_), _) => problem.help("take one element: `x.item()`, `x[0]`"),
            _ => problem,
        })
    }
}

/// Refuses elements that a bound of a type parameter does not allow: `bool` does not satisfy `T: Num`.
pub(super) fn check_bounds(
    of: &Callable,
    sig: &Signature,
    arguments: &[Option<Argument>],
    generics: &[Option<Element>],
) -> Result<()> {
    for (at, (generic, element)) in sig.generics.iter().zip(generics).enumerate() {
        let (GenericKind::Type { bound }, Some(element)) = (&generic.kind, element) else { continue };
        let (word, like) = match bound {
            Bound::Any => continue,
            Bound::Num => ("Num", Scalar::U8),
            Bound::Int => ("Int", Scalar::I32),
            Bound::Float => ("Float", Scalar::F32),
        };
        if matches!(element, Element::Scalar(scalar) if bound.allows(&Type::Scalar(*scalar))) {
            continue;
        }
        let is_own = |param: &&Parameter| match &param.kind {
            Kind::Array { element, .. } | Kind::Value(element) => *element == Err(at),
            _ => false,
        };
        let given = of.params.iter().zip(arguments).filter(|(param, _)| is_own(param));
        let Some((param, argument)) = given.filter_map(|(param, given)| Some((param, given.as_ref()?))).next() else {
            continue;
        };
        let place = format!("`{}` of `{}` is `{}` with `{}: {word}`", param.name, of.name, param.text, generic.name);
        let name = numpy_name(like);
        return Err(Box::new(match argument {
            Argument::Array(array) => {
                Problem::new("E0809", format!("{place}, and this array is `{}`", array.type_name()))
                    .help(format!("convert it: `x.astype({name:?})`, `x.to(torch.{name})`"))
            }
            given => {
                let convert = if *bound == Bound::Float { "float(…)" } else { "int(…)" };
                Problem::new("E0804", format!("{place}, not {}", given.words()))
                    .help(format!("convert it: `{convert}`"))
            }
        }));
    }
    Ok(())
}

/// Returns an array as one for a parameter: scalars along a last axis of two to four are vectors.
fn fitted(array: Array, element: Option<&Element>, rank: usize, place: Place<'_>, param: &Parameter) -> Result<Array> {
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
    Err(Box::new(Problem::new("E0809", title).note(format!("it is `{}`", array.type_name())).help(help)))
}

fn wrong_elements(array: &Array, element: &Element, place: Place<'_>, param: &Parameter) -> Box<Problem> {
    let title = format!("{} is `{}`, and this array is `{}`", place(), param.text, array.type_name());
    let problem = Problem::new("E0809", title);
    Box::new(match element {
        // A converted copy would take the result, and the caller would never see it.
        Element::Scalar(ty) if param.access == Access::Out => problem.help(format!(
            "`numpy.empty(shape, {0:?})` is an array to write to, as is `torch.empty(shape, dtype=torch.{0})`",
            numpy_name(*ty)
        )),
        Element::Scalar(ty) if array.scalar().is_some() => problem
            .help(format!("convert it, where that is meant: `x.astype({0:?})`, `x.to(torch.{0})`", numpy_name(*ty)))
            .note("arrays are not converted on the way, which would cost a copy at every call"),
        Element::Vector(ty, lanes) => problem
            .help(format!("a `{element}` is a last axis of {lanes} elements of `{ty}`: `x.reshape(-1, {lanes})`")),
        _ => problem.help("make it with the type that `clk.Module.dtype` gives for the struct"),
    })
}

/// Returns the name that NumPy and others have for a type.
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
