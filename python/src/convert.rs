//! Values between Python and Clk: numbers, texts, structs and tuples. Arrays have files of their own.

use clk_lang::app::embed::{Argument, Kind, Parameter, numpy_name};
use clk_lang::host::array::Element;
use clk_lang::host::value::Value;
use clk_lang::lang::scalar::{self, Scalar};
use pyo3::exceptions::{PyMemoryError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyMapping, PySequence, PyString, PyTuple};

use crate::array;
use crate::errors;
use crate::foreign::{self, Form};
use crate::gpu;

/// Limits of a value whose type is a type parameter: the number of parts of each value, and how deep they may be nested.
const MOST_PARTS: usize = 256;
const DEEPEST: usize = 16;

/// Items that are converted between two looks for Ctrl-C.
const POLLED: usize = 4096;

/// Converts an argument of a parameter that is not an array. The parameter's type bounds the depth, and lengths are checked before parts are
/// converted: a list may contain itself, and `len` may return any number.
pub fn argument(value: &Bound<'_, PyAny>, param: &Parameter, of: &str) -> PyResult<Argument> {
    let wanted = match &param.kind {
        Kind::Value(Ok(element)) => Wanted::Element(element),
        Kind::Value(Err(_)) => Wanted::Any { depth: 0 },
        _ => Wanted::Single,
    };
    let target = Target { py: value.py(), param, of };
    match &param.kind {
        Kind::Texts if !value.is_instance_of::<PyString>() => target.texts(value).map(Argument::Texts),
        _ => target.convert(value, wanted),
    }
}

/// The type that a value, or a part of one, is converted to.
#[derive(Clone, Copy)]
enum Wanted<'e> {
    Element(&'e Element),
    /// The parameter has the type of a type parameter, which other arguments determine.
    Any {
        depth: usize,
    },
    /// A number or a string.
    Single,
}

/// A parameter that a value is converted for.
struct Target<'a, 'py> {
    py: Python<'py>,
    param: &'a Parameter,
    of: &'a str,
}

impl<'py> Target<'_, 'py> {
    fn refused(&self, given: &str) -> PyErr {
        let title = format!("`{}` of `{}` is `{}`, not {given}", self.param.name, self.of, self.param.text);
        errors::refused(self.py, "E0804", title, &[], &[])
    }

    fn convert(&self, value: &Bound<'py, PyAny>, wanted: Wanted<'_>) -> PyResult<Argument> {
        if let Some(number) = number(value)? {
            return Ok(number);
        }
        if let Ok(text) = value.cast::<PyString>() {
            return text_of(text).map(Argument::Text);
        }
        if let Some(named) = Named::of(value)? {
            return self.convert_named(value, &named, wanted);
        }
        if foreign::is_array(value) {
            return of_array(value);
        }
        if let Ok(mapping) = value.cast::<PyMapping>() {
            self.allow(mapping.len()?, wanted, "mapping")?;
            let mut fields = Vec::new();
            for item in mapping.items()?.iter() {
                let (name, field): (Bound<'_, PyAny>, Bound<'_, PyAny>) = item.extract()?;
                let Ok(name) = name.cast::<PyString>() else {
                    return Err(self.refused("a mapping with keys that are not strings"));
                };
                let name = text_of(name)?;
                let part = part_named(wanted, &name);
                fields.push((name, self.convert(&field, part)?));
            }
            return Ok(Argument::Fields(fields));
        }
        if let Ok(sequence) = value.cast::<PySequence>() {
            let count = sequence.len()?;
            self.allow(count, wanted, "sequence")?;
            let part = |at| self.convert(&sequence.get_item(at)?, part_at(wanted, at));
            return Ok(Argument::List((0..count).map(part).collect::<PyResult<_>>()?));
        }
        let kind = value.get_type().name()?.to_string();
        Err(self.refused(&format!("a `{kind}` of Python")))
    }

    /// Converts a named tuple, a data class, or a struct of NumPy: by the names of its fields. A tuple of Clk has no names.
    fn convert_named(&self, value: &Bound<'py, PyAny>, named: &Named, wanted: Wanted<'_>) -> PyResult<Argument> {
        self.allow(named.names.len(), wanted, "mapping")?;
        let is_tuple = match wanted {
            Wanted::Element(Element::Record(record)) => record.is_tuple(),
            Wanted::Element(Element::Vector(..)) => true,
            _ => false,
        };
        if is_tuple && !named.is_sequence() {
            let kind = value.get_type().name()?.to_string();
            return Err(self.refused(&format!("a `{kind}`, whose fields have names")));
        }
        let mut parts = Vec::new();
        for (at, name) in named.names.iter().enumerate() {
            let field = named.field(value, name)?;
            let part = if is_tuple { part_at(wanted, at) } else { part_named(wanted, name) };
            parts.push((name.clone(), self.convert(&field, part)?));
        }
        Ok(match is_tuple {
            true => Argument::List(parts.into_iter().map(|(_, part)| part).collect()),
            false => Argument::Fields(parts),
        })
    }

    /// Refuses a number of parts that the type does not have.
    fn allow(&self, count: usize, wanted: Wanted<'_>, kind: &str) -> PyResult<()> {
        let fits = match wanted {
            Wanted::Element(Element::Vector(_, lanes)) => count == usize::from(*lanes),
            // `fill_record` refuses wrong names, and lists the fields.
            Wanted::Element(Element::Record(record)) => {
                count == record.fields.len() || kind == "mapping" && count <= MOST_PARTS
            }
            Wanted::Any { depth } => count <= MOST_PARTS && depth < DEEPEST,
            Wanted::Element(Element::Scalar(_)) | Wanted::Single => false,
        };
        if fits { Ok(()) } else { Err(self.refused(&format!("a {kind} of {count}"))) }
    }

    /// Converts a list of strings, which may be long.
    fn texts(&self, value: &Bound<'py, PyAny>) -> PyResult<Vec<String>> {
        let Ok(sequence) = value.cast::<PySequence>() else {
            let kind = value.get_type().name()?.to_string();
            return Err(self.refused(&format!("a `{kind}` of Python")));
        };
        let mut texts: Vec<String> = Vec::new();
        for at in 0..sequence.len()? {
            if at.is_multiple_of(POLLED) {
                self.py.check_signals()?;
                texts.try_reserve(POLLED).map_err(|_| PyMemoryError::new_err("too many strings"))?;
            }
            let text = sequence.get_item(at)?;
            let Ok(text) = text.cast::<PyString>() else {
                let kind = text.get_type().name()?.to_string();
                return Err(self.refused(&format!("a sequence with a `{kind}` at {at}")));
            };
            texts.push(text_of(text)?);
        }
        Ok(texts)
    }
}

/// Returns the type of the part at a position of a sequence.
fn part_at(wanted: Wanted<'_>, at: usize) -> Wanted<'_> {
    match wanted {
        Wanted::Element(Element::Record(record)) => {
            record.fields.get(at).map_or(Wanted::Single, |field| Wanted::Element(&field.element))
        }
        Wanted::Any { depth } => Wanted::Any { depth: depth + 1 },
        _ => Wanted::Single,
    }
}

/// Returns the type of the part with a name.
fn part_named<'e>(wanted: Wanted<'e>, name: &str) -> Wanted<'e> {
    match wanted {
        Wanted::Element(Element::Record(record)) => {
            let field = record.fields.iter().find(|field| field.name == name);
            field.map_or(Wanted::Single, |field| Wanted::Element(&field.element))
        }
        Wanted::Any { depth } => Wanted::Any { depth: depth + 1 },
        _ => Wanted::Single,
    }
}

/// The fields of an object that has some.
struct Named {
    names: Vec<String>,
    by: Access,
}

/// How a field is read.
enum Access {
    /// An attribute of a named tuple, whose fields are also in order.
    NamedTuple,
    Attribute,
    /// An item of a struct of NumPy.
    Item,
}

impl Named {
    fn of(value: &Bound<'_, PyAny>) -> PyResult<Option<Named>> {
        let py = value.py();
        if value.is_instance_of::<PyTuple>() {
            // Tuples are the most frequent ones, and most of them have no names.
            let is_plain = value.is_exact_instance_of::<PyTuple>();
            let names = if is_plain { None } else { value.getattr(intern!(py, "_fields")).ok() };
            let names = names.and_then(|names| few(&names, MOST_PARTS).ok());
            return Ok(names.map(|names| Named { names, by: Access::NamedTuple }));
        }
        if value.is_instance_of::<PyList>() || value.is_instance_of::<PyDict>() {
            return Ok(None);
        }
        if let Ok(names) = value.get_type().getattr(intern!(py, "__dataclass_fields__")) {
            let names = names.call_method0(intern!(py, "keys"))?.try_iter()?;
            let names = names.take(MOST_PARTS + 1).map(|name| name?.extract()).collect::<PyResult<Vec<String>>>()?;
            return Ok(Some(Named { names, by: Access::Attribute }));
        }
        let Ok(dtype) = value.getattr(intern!(py, "dtype")) else { return Ok(None) };
        let names = dtype.getattr(intern!(py, "names")).ok().filter(|names| !names.is_none());
        let rank = value.getattr(intern!(py, "ndim")).and_then(|ndim| ndim.extract::<usize>());
        match names.filter(|_| rank.is_ok_and(|rank| rank == 0)) {
            Some(names) => Ok(Some(Named { names: few(&names, MOST_PARTS)?, by: Access::Item })),
            None => Ok(None),
        }
    }

    fn is_sequence(&self) -> bool {
        matches!(self.by, Access::NamedTuple)
    }

    fn field<'py>(&self, value: &Bound<'py, PyAny>, name: &str) -> PyResult<Bound<'py, PyAny>> {
        match self.by {
            Access::NamedTuple | Access::Attribute => value.getattr(name),
            Access::Item => value.get_item(name),
        }
    }
}

/// Returns the text of a string; refuses surrogates, which are no characters.
fn text_of(text: &Bound<'_, PyString>) -> PyResult<String> {
    let refuse = |_| {
        let title = "this string has a lone surrogate, which is no character".to_string();
        let help = "replace it: `s.encode(\"utf-8\", \"replace\").decode()`";
        errors::refused(text.py(), "E0804", title, &[help], &[])
    };
    text.to_str().map(str::to_string).map_err(refuse)
}

/// Returns the items of a sequence, at most `most`.
pub fn few<'py, T>(value: &Bound<'py, PyAny>, most: usize) -> PyResult<Vec<T>>
where
    T: for<'a> FromPyObject<'a, 'py, Error: Into<PyErr>>,
{
    let sequence = value.cast::<PySequence>()?;
    let count = sequence.len()?;
    if count > most {
        return Err(PyValueError::new_err(format!("a sequence of {count}, where {most} are the most")));
    }
    (0..count).map(|at| sequence.get_item(at)?.extract().map_err(Into::into)).collect()
}

/// Converts a number, of Python or NumPy.
fn number(value: &Bound<'_, PyAny>) -> PyResult<Option<Argument>> {
    let py = value.py();
    if let Ok(float) = value.cast::<PyFloat>() {
        // `numpy.float64` is one, too.
        let own = (!value.is_exact_instance_of::<PyFloat>()).then_some(Scalar::F64);
        return Ok(Some(Argument::Float(float.value(), own)));
    }
    if let Ok(truth) = value.cast::<PyBool>() {
        return Ok(Some(Argument::Bool(truth.is_true())));
    }
    if value.cast::<PyInt>().is_ok() {
        return integer(value).map(Some);
    }
    // A scalar of NumPy, which has a type and is one element.
    let Ok(dtype) = value.getattr(intern!(py, "dtype")) else { return Ok(None) };
    let is_single =
        value.getattr(intern!(py, "ndim")).and_then(|ndim| ndim.extract::<usize>()).is_ok_and(|ndim| ndim == 0);
    if !is_single {
        return Ok(None);
    }
    let name = dtype.str()?.to_string();
    let name = name.rsplit('.').next().unwrap_or(&name).to_string();
    let Some(own) = Scalar::ALL.into_iter().find(|scalar| numpy_name(*scalar) == name) else { return Ok(None) };
    Ok(Some(match own {
        Scalar::Bool => Argument::Bool(value.is_truthy()?),
        own if own.is_float() => Argument::Float(value.call_method0(intern!(py, "__float__"))?.extract()?, Some(own)),
        own => match integer(&value.call_method0(intern!(py, "__int__"))?)? {
            Argument::Int(number, _) => Argument::Int(number, Some(own)),
            other => other,
        },
    }))
}

fn integer(value: &Bound<'_, PyAny>) -> PyResult<Argument> {
    if let Ok(number) = value.extract::<i64>() {
        return Ok(Argument::Int(number.into(), None));
    }
    // The decimal digits of a large integer take long.
    let bits: usize = value.call_method0(intern!(value.py(), "bit_length"))?.extract()?;
    let number = if bits > 128 { None } else { value.str()?.to_string().parse::<i128>().ok() };
    number.map(|number| Argument::Int(number, None)).ok_or_else(|| {
        let title = "this integer has more than 128 bits, which no type of Clk has".to_string();
        errors::refused(value.py(), "E0804", title, &[], &[])
    })
}

/// Returns a number or a string as a value of a script: a number of Python has the type that a literal would have.
pub fn plain(value: &Bound<'_, PyAny>) -> PyResult<Option<Value>> {
    if let Ok(text) = value.cast::<PyString>() {
        return Ok(Some(Value::str(text_of(text)?)));
    }
    Ok(match number(value)? {
        Some(Argument::Bool(truth)) => Some(Value::Scalar(scalar::Value::of(truth))),
        Some(Argument::Int(number, own)) => Some(typed(value, Value::Int(number), own)?),
        Some(Argument::Float(number, own)) => Some(typed(value, Value::Float(number), own)?),
        _ => None,
    })
}

/// Returns a number with the type that it has, or that a literal would have.
fn typed(given: &Bound<'_, PyAny>, number: Value, own: Option<Scalar>) -> PyResult<Value> {
    let found = match own {
        Some(own) => number.adapt(own).map(Value::Scalar),
        None => Some(number.settled()),
    };
    found.filter(|value| matches!(value, Value::Scalar(_))).ok_or_else(|| {
        let title = "no type of Clk has this number".to_string();
        errors::refused(given.py(), "E0804", title, &[], &[])
    })
}

/// Reads an array for a parameter that is none: a vector, or a single number.
fn of_array(value: &Bound<'_, PyAny>) -> PyResult<Argument> {
    let foreign = foreign::read(value, None, &gpu::Wanted::Host)?;
    Ok(Argument::Array(foreign.reading(true)?))
}

/// Converts a result; arrays become those of a library (`form`).
pub fn result<'py>(py: Python<'py>, value: Value, form: Form) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value {
        Value::Unit => py.None().into_bound(py),
        Value::Scalar(number) => scalar_of(py, number)?,
        Value::Int(number) => number.into_pyobject(py)?.into_any(),
        Value::Float(number) => number.into_pyobject(py)?.into_any(),
        Value::Vector(vector) => tuple(py, vector.values().map(|lane| scalar_of(py, lane)))?,
        Value::Str(text) => PyString::new(py, &text).into_any(),
        Value::Array(found) => array::in_form(py, found, form)?,
        Value::Tuple(parts) => tuple(py, parts.into_iter().map(|part| result(py, part, form)))?,
        Value::Record(record) => {
            let fields = PyDict::new(py);
            for (name, field) in record.named_fields() {
                fields.set_item(name, result(py, field.clone(), form)?)?;
            }
            fields.into_any()
        }
        Value::Table(table) => {
            table.check_readable().map_err(errors::of_problem)?;
            let columns = PyDict::new(py);
            for (name, column) in table.iter() {
                columns.set_item(name.as_str(), result(py, column.clone(), form)?)?;
            }
            columns.into_any()
        }
        Value::Strings(texts) => PyList::new(py, texts.iter().map(|text| text.as_str()))?.into_any(),
        Value::Timing(timing) => {
            let facts = PyDict::new(py);
            facts.set_item("median", timing.median)?;
            facts.set_item("min", timing.min)?;
            facts.set_item("max", timing.max)?;
            facts.set_item("runs", timing.runs)?;
            facts.into_any()
        }
        other => {
            let title = format!("a value of type `{}` cannot be returned to Python", other.type_name());
            return Err(errors::refused(py, "E0804", title, &[], &[]));
        }
    })
}

fn tuple<'py>(
    py: Python<'py>,
    parts: impl Iterator<Item = PyResult<Bound<'py, PyAny>>>,
) -> PyResult<Bound<'py, PyAny>> {
    Ok(PyTuple::new(py, parts.collect::<PyResult<Vec<_>>>()?)?.into_any())
}

fn scalar_of(py: Python<'_>, number: scalar::Value) -> PyResult<Bound<'_, PyAny>> {
    Ok(match number.ty {
        Scalar::Bool => PyBool::new(py, number.is_true()).to_owned().into_any(),
        ty if ty.is_float() => number.as_f64().into_pyobject(py)?.into_any(),
        _ => number.as_integer().unwrap_or(0).into_pyobject(py)?.into_any(),
    })
}
