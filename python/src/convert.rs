//! Converts values between Python and Clk: numbers, strings, structs and tuples. See [`imported_array`] and
//! [`mod@array`] for arrays.

use clk_host::array::ElementType;
use clk_host::value::HostValue;
use clk_lang::embed::{EmbedValue, ParamDescription, ParamKind, numpy_name};
use clk_scalar::Scalar;
use pyo3::exceptions::{PyMemoryError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyMapping, PySequence, PyString, PyTuple};

use crate::array;
use crate::errors;
use crate::gpu;
use crate::imported_array::{self, ArrayForm};

/// Maximum number of elements of each sequence or mapping in a value for a parameter whose type is a type parameter.
/// [`MAX_DEPTH`] is the maximum depth of nesting.
const MAX_PARTS: usize = 256;
const MAX_DEPTH: usize = 16;

/// The number of items converted between two checks for Ctrl-C.
const ITEMS_PER_CHECK: usize = 4096;

/// Converts an argument for a parameter that is not an array. The conversion must end even for a list that contains
/// itself, and if `len` returns a wrong number. So the type of the parameter limits the depth, and lengths are checked
/// before elements are converted.
pub fn argument(value: &Bound<'_, PyAny>, param: &ParamDescription, callee: &str) -> PyResult<EmbedValue> {
    let expected = match &param.kind {
        ParamKind::Value(Ok(element)) => ExpectedType::Element(element),
        ParamKind::Value(Err(_)) => ExpectedType::Any { depth: 0 },
        _ => ExpectedType::Single,
    };
    let converter = ArgumentConverter { py: value.py(), param, callee };
    match &param.kind {
        ParamKind::Texts if !value.is_instance_of::<PyString>() => converter.strings(value).map(EmbedValue::Texts),
        _ => converter.convert(value, expected),
    }
}

/// The type to which a value, or an element or field of it, is converted.
#[derive(Clone, Copy)]
enum ExpectedType<'e> {
    Element(&'e ElementType),
    /// A type parameter, whose type other arguments determine. `depth` is the current depth of nesting.
    Any {
        depth: usize,
    },
    /// A number or a string.
    Single,
}

/// Converts the argument for a parameter of a kernel or function.
struct ArgumentConverter<'a, 'py> {
    py: Python<'py>,
    param: &'a ParamDescription,
    /// The name of the kernel or function.
    callee: &'a str,
}

impl<'py> ArgumentConverter<'_, 'py> {
    /// Returns the exception for an argument of a wrong type.
    fn type_error(&self, actual: &str) -> PyErr {
        let title = format!("`{}` of `{}` is `{}`, not {actual}", self.param.name, self.callee, self.param.text);
        errors::call_error(self.py, "E0804", title, &[], &[])
    }

    fn convert(&self, value: &Bound<'py, PyAny>, expected: ExpectedType<'_>) -> PyResult<EmbedValue> {
        if let Some(number) = number(value)? {
            return Ok(number);
        }
        if let Ok(text) = value.cast::<PyString>() {
            return to_string(text).map(EmbedValue::Text);
        }
        if let Some(fields) = NamedFields::of(value)? {
            return self.convert_fields(value, &fields, expected);
        }
        if imported_array::is_array(value) {
            return import_array(value);
        }
        if let Ok(mapping) = value.cast::<PyMapping>() {
            self.check_count(mapping.len()?, expected, "mapping")?;
            let mut fields = Vec::new();
            for item in mapping.items()?.iter() {
                let (name, field): (Bound<'_, PyAny>, Bound<'_, PyAny>) = item.extract()?;
                let Ok(name) = name.cast::<PyString>() else {
                    return Err(self.type_error("a mapping with keys that are not strings"));
                };
                let name = to_string(name)?;
                let field_type = field_type(expected, &name);
                fields.push((name, self.convert(&field, field_type)?));
            }
            return Ok(EmbedValue::Fields(fields));
        }
        if let Ok(sequence) = value.cast::<PySequence>() {
            let count = sequence.len()?;
            self.check_count(count, expected, "sequence")?;
            let convert_item = |i| self.convert(&sequence.get_item(i)?, item_type(expected, i));
            return Ok(EmbedValue::List((0..count).map(convert_item).collect::<PyResult<_>>()?));
        }
        let python_type = value.get_type().name()?.to_string();
        Err(self.type_error(&format!("a Python `{python_type}`")))
    }

    /// Converts a named tuple, a data class, or a NumPy struct: by field name for a struct, by position for a tuple of
    /// Clk.
    fn convert_fields(
        &self,
        value: &Bound<'py, PyAny>,
        fields: &NamedFields,
        expected: ExpectedType<'_>,
    ) -> PyResult<EmbedValue> {
        self.check_count(fields.names.len(), expected, "mapping")?;
        let is_tuple = match expected {
            ExpectedType::Element(ElementType::Record(record)) => record.is_tuple(),
            ExpectedType::Element(ElementType::Vector(..)) => true,
            _ => false,
        };
        if is_tuple && !fields.is_sequence() {
            let python_type = value.get_type().name()?.to_string();
            return Err(self.type_error(&format!("a `{python_type}`, whose fields have names")));
        }
        let mut parts = Vec::new();
        for (i, name) in fields.names.iter().enumerate() {
            let field = fields.field(value, name)?;
            let part_type = if is_tuple { item_type(expected, i) } else { field_type(expected, name) };
            parts.push((name.clone(), self.convert(&field, part_type)?));
        }
        Ok(match is_tuple {
            true => EmbedValue::List(parts.into_iter().map(|(_, part)| part).collect()),
            false => EmbedValue::Fields(parts),
        })
    }

    /// Returns an error if the expected type has another number of elements or fields.
    fn check_count(&self, count: usize, expected: ExpectedType<'_>, kind: &str) -> PyResult<()> {
        let is_valid = match expected {
            ExpectedType::Element(ElementType::Vector(_, lanes)) => count == usize::from(*lanes),
            // `fill_record` checks the names of the fields; its error lists the expected ones.
            ExpectedType::Element(ElementType::Record(record)) => {
                count == record.fields.len() || kind == "mapping" && count <= MAX_PARTS
            }
            ExpectedType::Any { depth } => count <= MAX_PARTS && depth < MAX_DEPTH,
            ExpectedType::Element(ElementType::Scalar(_)) | ExpectedType::Single => false,
        };
        if is_valid { Ok(()) } else { Err(self.type_error(&format!("a {kind} of length {count}"))) }
    }

    /// Converts a sequence of strings. It may be long, so the conversion checks for Ctrl-C.
    fn strings(&self, value: &Bound<'py, PyAny>) -> PyResult<Vec<String>> {
        let Ok(sequence) = value.cast::<PySequence>() else {
            let python_type = value.get_type().name()?.to_string();
            return Err(self.type_error(&format!("a Python `{python_type}`")));
        };
        let mut strings: Vec<String> = Vec::new();
        for i in 0..sequence.len()? {
            if i.is_multiple_of(ITEMS_PER_CHECK) {
                self.py.check_signals()?;
                strings.try_reserve(ITEMS_PER_CHECK).map_err(|_| PyMemoryError::new_err("too many strings"))?;
            }
            let item = sequence.get_item(i)?;
            let Ok(text) = item.cast::<PyString>() else {
                let python_type = item.get_type().name()?.to_string();
                return Err(self.type_error(&format!("a sequence with a `{python_type}` at index {i}")));
            };
            strings.push(to_string(text)?);
        }
        Ok(strings)
    }
}

/// Returns the expected type of the item with index `index` in a sequence.
fn item_type(expected: ExpectedType<'_>, index: usize) -> ExpectedType<'_> {
    match expected {
        ExpectedType::Element(ElementType::Record(record)) => {
            record.fields.get(index).map_or(ExpectedType::Single, |field| ExpectedType::Element(&field.element))
        }
        ExpectedType::Any { depth } => ExpectedType::Any { depth: depth + 1 },
        _ => ExpectedType::Single,
    }
}

/// Returns the expected type of a named field.
fn field_type<'e>(expected: ExpectedType<'e>, name: &str) -> ExpectedType<'e> {
    match expected {
        ExpectedType::Element(ElementType::Record(record)) => {
            let field = record.fields.iter().find(|field| field.name == name);
            field.map_or(ExpectedType::Single, |field| ExpectedType::Element(&field.element))
        }
        ExpectedType::Any { depth } => ExpectedType::Any { depth: depth + 1 },
        _ => ExpectedType::Single,
    }
}

/// The named fields of a Python object.
struct NamedFields {
    names: Vec<String>,
    access: FieldAccess,
}

/// How a field of a Python object is read.
enum FieldAccess {
    /// An attribute of a named tuple, which is also a sequence.
    NamedTuple,
    Attribute,
    /// An item of a NumPy struct.
    Item,
}

impl NamedFields {
    /// Returns the fields of a named tuple, a data class or a NumPy struct, and `None` for other objects.
    fn of(value: &Bound<'_, PyAny>) -> PyResult<Option<NamedFields>> {
        let py = value.py();
        if value.is_instance_of::<PyTuple>() {
            // A fast path for tuples without names, which are frequent.
            let is_plain_tuple = value.is_exact_instance_of::<PyTuple>();
            let names = if is_plain_tuple { None } else { value.getattr(intern!(py, "_fields")).ok() };
            let names = names.and_then(|names| limited_items(&names, MAX_PARTS).ok());
            return Ok(names.map(|names| NamedFields { names, access: FieldAccess::NamedTuple }));
        }
        if value.is_instance_of::<PyList>() || value.is_instance_of::<PyDict>() {
            return Ok(None);
        }
        if let Ok(names) = value.get_type().getattr(intern!(py, "__dataclass_fields__")) {
            let names = names.call_method0(intern!(py, "keys"))?.try_iter()?;
            let names = names.take(MAX_PARTS + 1).map(|name| name?.extract()).collect::<PyResult<Vec<String>>>()?;
            return Ok(Some(NamedFields { names, access: FieldAccess::Attribute }));
        }
        let Ok(dtype) = value.getattr(intern!(py, "dtype")) else { return Ok(None) };
        let names = dtype.getattr(intern!(py, "names")).ok().filter(|names| !names.is_none());
        let rank = value.getattr(intern!(py, "ndim")).and_then(|ndim| ndim.extract::<usize>());
        match names.filter(|_| rank.is_ok_and(|rank| rank == 0)) {
            Some(names) => {
                let names = limited_items(&names, MAX_PARTS)?;
                Ok(Some(NamedFields { names, access: FieldAccess::Item }))
            }
            None => Ok(None),
        }
    }

    fn is_sequence(&self) -> bool {
        matches!(self.access, FieldAccess::NamedTuple)
    }

    fn field<'py>(&self, value: &Bound<'py, PyAny>, name: &str) -> PyResult<Bound<'py, PyAny>> {
        match self.access {
            FieldAccess::NamedTuple | FieldAccess::Attribute => value.getattr(name),
            FieldAccess::Item => value.get_item(name),
        }
    }
}

/// Converts a string. Rejects lone surrogates, which UTF-8 cannot represent.
fn to_string(text: &Bound<'_, PyString>) -> PyResult<String> {
    let to_error = |_| {
        let title = "this string has a lone surrogate, which is not a character".to_string();
        let help = "replace it: `s.encode(\"utf-8\", \"replace\").decode()`";
        errors::call_error(text.py(), "E0804", title, &[help], &[])
    };
    text.to_str().map(str::to_string).map_err(to_error)
}

/// Returns the items of a sequence. Rejects more than `max` items.
pub fn limited_items<'py, T>(value: &Bound<'py, PyAny>, max: usize) -> PyResult<Vec<T>>
where
    T: for<'a> FromPyObject<'a, 'py, Error: Into<PyErr>>,
{
    let sequence = value.cast::<PySequence>()?;
    let count = sequence.len()?;
    if count > max {
        return Err(PyValueError::new_err(format!("the sequence has {count} items; the maximum is {max}")));
    }
    (0..count).map(|i| sequence.get_item(i)?.extract().map_err(Into::into)).collect()
}

/// Converts a number of Python or NumPy. Returns `None` for other objects.
fn number(value: &Bound<'_, PyAny>) -> PyResult<Option<EmbedValue>> {
    let py = value.py();
    if let Ok(float) = value.cast::<PyFloat>() {
        // `numpy.float64` is a subclass of `float`.
        let scalar_type = (!value.is_exact_instance_of::<PyFloat>()).then_some(Scalar::F64);
        return Ok(Some(EmbedValue::Float(float.value(), scalar_type)));
    }
    if let Ok(truth) = value.cast::<PyBool>() {
        return Ok(Some(EmbedValue::Bool(truth.is_true())));
    }
    if value.cast::<PyInt>().is_ok() {
        return integer(value).map(Some);
    }
    // A NumPy scalar has a `dtype` and no axes.
    let Ok(dtype) = value.getattr(intern!(py, "dtype")) else { return Ok(None) };
    let is_single =
        value.getattr(intern!(py, "ndim")).and_then(|ndim| ndim.extract::<usize>()).is_ok_and(|ndim| ndim == 0);
    if !is_single {
        return Ok(None);
    }
    let name = dtype.str()?.to_string();
    let name = name.rsplit('.').next().unwrap_or(&name).to_string();
    let Some(scalar) = Scalar::ALL.into_iter().find(|scalar| numpy_name(*scalar) == name) else { return Ok(None) };
    Ok(Some(match scalar {
        Scalar::Bool => EmbedValue::Bool(value.is_truthy()?),
        _ if scalar.is_float() => {
            EmbedValue::Float(value.call_method0(intern!(py, "__float__"))?.extract()?, Some(scalar))
        }
        _ => match integer(&value.call_method0(intern!(py, "__int__"))?)? {
            EmbedValue::Int(number, _) => EmbedValue::Int(number, Some(scalar)),
            other => other,
        },
    }))
}

fn integer(value: &Bound<'_, PyAny>) -> PyResult<EmbedValue> {
    if let Ok(number) = value.extract::<i64>() {
        return Ok(EmbedValue::Int(number.into(), None));
    }
    // Check the size first: converting a huge integer to decimal digits is slow.
    let bits: usize = value.call_method0(intern!(value.py(), "bit_length"))?.extract()?;
    let number = if bits > 128 { None } else { value.str()?.to_string().parse::<i128>().ok() };
    number.map(|number| EmbedValue::Int(number, None)).ok_or_else(|| {
        let title = "this integer has more than 128 bits, more than any type of Clk".to_string();
        errors::call_error(value.py(), "E0804", title, &[], &[])
    })
}

/// Converts a number or a string to a value of a script. A Python number gets the type of a literal. Returns `None` for
/// other objects.
pub fn scalar_or_string(value: &Bound<'_, PyAny>) -> PyResult<Option<HostValue>> {
    if let Ok(text) = value.cast::<PyString>() {
        return Ok(Some(HostValue::str(to_string(text)?)));
    }
    Ok(match number(value)? {
        Some(EmbedValue::Bool(truth)) => Some(HostValue::Scalar(clk_scalar::ScalarValue::of(truth))),
        Some(EmbedValue::Int(number, ty)) => Some(with_type(value, HostValue::Int(number), ty)?),
        Some(EmbedValue::Float(number, ty)) => Some(with_type(value, HostValue::Float(number), ty)?),
        _ => None,
    })
}

/// Converts a number to the type `ty`, or to the default type of a literal if `ty` is `None`.
fn with_type(value: &Bound<'_, PyAny>, number: HostValue, ty: Option<Scalar>) -> PyResult<HostValue> {
    let converted = match ty {
        Some(ty) => number.adapt(ty).map(HostValue::Scalar),
        None => Some(number.with_default_type()),
    };
    converted.filter(|value| matches!(value, HostValue::Scalar(_))).ok_or_else(|| {
        let title = "no type of Clk can represent this number".to_string();
        errors::call_error(value.py(), "E0804", title, &[], &[])
    })
}

/// Imports an array as the argument for a parameter that is a vector or a number.
fn import_array(value: &Bound<'_, PyAny>) -> PyResult<EmbedValue> {
    let array = imported_array::import_array(value, None, &gpu::Destination::Host)?;
    Ok(EmbedValue::Array(array.to_input(true)?))
}

/// Converts a result to Python. `form` selects the library and memory of arrays in it.
pub fn result<'py>(py: Python<'py>, value: HostValue, form: ArrayForm) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value {
        HostValue::Unit => py.None().into_bound(py),
        HostValue::Scalar(number) => scalar_to_python(py, number)?,
        HostValue::Int(number) => number.into_pyobject(py)?.into_any(),
        HostValue::Float(number) => number.into_pyobject(py)?.into_any(),
        HostValue::Vector(vector) => tuple(py, vector.values().map(|lane| scalar_to_python(py, lane)))?,
        HostValue::Str(text) => PyString::new(py, &text).into_any(),
        HostValue::Array(elements) => array::to_library_array(py, elements, form)?,
        HostValue::Tuple(parts) => tuple(py, parts.into_iter().map(|part| result(py, part, form)))?,
        HostValue::Record(record) => {
            let fields = PyDict::new(py);
            for (name, field) in record.named_fields() {
                fields.set_item(name, result(py, field.clone(), form)?)?;
            }
            fields.into_any()
        }
        HostValue::Table(table) => {
            table.check_readable().map_err(errors::from_runtime_error)?;
            let columns = PyDict::new(py);
            for (name, column) in table.iter() {
                columns.set_item(name.as_str(), result(py, column.clone(), form)?)?;
            }
            columns.into_any()
        }
        HostValue::Strings(texts) => PyList::new(py, texts.iter().map(|text| text.as_str()))?.into_any(),
        HostValue::Timing(timing) => {
            let statistics = PyDict::new(py);
            statistics.set_item("median", timing.median)?;
            statistics.set_item("min", timing.min)?;
            statistics.set_item("max", timing.max)?;
            statistics.set_item("runs", timing.runs)?;
            statistics.into_any()
        }
        other => {
            let title = format!("a value of type `{}` cannot be returned to Python", other.type_name());
            return Err(errors::call_error(py, "E0804", title, &[], &[]));
        }
    })
}

fn tuple<'py>(
    py: Python<'py>,
    parts: impl Iterator<Item = PyResult<Bound<'py, PyAny>>>,
) -> PyResult<Bound<'py, PyAny>> {
    Ok(PyTuple::new(py, parts.collect::<PyResult<Vec<_>>>()?)?.into_any())
}

fn scalar_to_python(py: Python<'_>, number: clk_scalar::ScalarValue) -> PyResult<Bound<'_, PyAny>> {
    Ok(match number.ty {
        Scalar::Bool => PyBool::new(py, number.is_true()).to_owned().into_any(),
        ty if ty.is_float() => number.as_f64().into_pyobject(py)?.into_any(),
        _ => number.as_integer().unwrap_or(0).into_pyobject(py)?.into_any(),
    })
}
