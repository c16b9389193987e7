//! Values between Python and Clk: numbers, texts, structs and tuples. Arrays have files of their own.

use clk_lang::app::embed::{Argument, Kind, Parameter, numpy_name};
use clk_lang::host::value::Value;
use clk_lang::lang::scalar::{self, Scalar};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyMapping, PySequence, PyString, PyTuple};

use crate::array;
use crate::errors;
use crate::foreign::{self, Form};
use crate::gpu::Wanted;

/// Converts an argument that is no array parameter's.
pub fn argument(value: &Bound<'_, PyAny>, param: &Parameter, of: &str) -> PyResult<Argument> {
    if let Some(number) = number(value)? {
        return Ok(number);
    }
    if let Ok(text) = value.cast::<PyString>() {
        return Ok(Argument::Text(text.to_string_lossy().into_owned()));
    }
    if matches!(param.kind, Kind::Texts) {
        return Ok(Argument::Texts(value.extract()?));
    }
    if foreign::is_array(value) {
        return of_array(value);
    }
    if let Ok(mapping) = value.cast::<PyMapping>() {
        let items = mapping.items()?;
        let fields = items.iter().map(|item| {
            let (name, field): (String, Bound<'_, PyAny>) = item.extract()?;
            Ok((name, argument(&field, param, of)?))
        });
        return Ok(Argument::Fields(fields.collect::<PyResult<_>>()?));
    }
    if let Ok(sequence) = value.cast::<PySequence>() {
        let parts = (0..sequence.len()?).map(|at| argument(&sequence.get_item(at)?, param, of));
        return Ok(Argument::List(parts.collect::<PyResult<_>>()?));
    }
    let py = value.py();
    let kind = value.get_type().name()?.to_string();
    let title = format!("`{}` of `{of}` is `{}`, not a `{kind}` of Python", param.name, param.text);
    Err(errors::refused(py, "E0804", title, &[], &[]))
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
    match value.extract::<i64>() {
        Ok(number) => Ok(Argument::Int(number.into(), None)),
        Err(_) => match value.str()?.to_string().parse::<i128>() {
            Ok(number) => Ok(Argument::Int(number, None)),
            Err(_) => {
                let title = "this integer has more than 128 bits, which no type of Clk has".to_string();
                Err(errors::refused(value.py(), "E0804", title, &[], &[]))
            }
        },
    }
}

/// Reads an array for a parameter that is none: a vector, or a single number.
fn of_array(value: &Bound<'_, PyAny>) -> PyResult<Argument> {
    let mut foreign = foreign::read(value, None, &Wanted::Host)?;
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
