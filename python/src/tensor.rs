//! Tensors of torch, read by their attributes.
//!
//! Input: an object of exactly torch's tensor type. Output: what [`foreign`](crate::foreign) reads of a capsule of DLPack, or `None` for
//! tensors of which attributes do not say all: sparse and quantized ones, those of other devices, those that a transformation wraps. A capsule
//! of torch is made by code in Python, which takes longer than a small kernel with its call.

use clk_lang::host::array::Element;
use clk_lang::lang::scalar::Scalar;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

use crate::foreign::{Foreign, Library, Place};
use crate::gpu::Wanted;

/// What is asked of torch once.
struct Torch {
    tensor: Py<PyAny>,
    strided: Py<PyAny>,
    types: Vec<(Py<PyAny>, Scalar)>,
    /// What it calls `cuda` is CUDA.
    is_cuda: bool,
}

fn torch(py: Python<'_>) -> PyResult<&'static Torch> {
    static TORCH: PyOnceLock<Torch> = PyOnceLock::new();
    TORCH.get_or_try_init(py, || {
        let module = py.import("torch")?;
        let has = |scalar: &Scalar| module.getattr(numpy_like(*scalar)).ok().map(|found| (found.unbind(), *scalar));
        Ok(Torch {
            tensor: module.getattr("Tensor")?.unbind(),
            strided: module.getattr("strided")?.unbind(),
            types: Scalar::ALL.iter().filter_map(has).collect(),
            is_cuda: module.getattr("version")?.getattr("hip").is_ok_and(|hip| hip.is_none()),
        })
    })
}

/// Returns torch's name of a type; older versions have no wide unsigned integers.
fn numpy_like(scalar: Scalar) -> &'static str {
    clk_lang::app::embed::numpy_name(scalar)
}

/// Reads a tensor that is not refused for what it is.
pub fn read(object: &Bound<'_, PyAny>, wanted: &Wanted<'_>) -> PyResult<Option<Foreign>> {
    let py = object.py();
    let torch = torch(py)?;
    if !object.get_type().is(&torch.tensor) || !object.getattr(intern!(py, "layout"))?.is(&torch.strided) {
        return Ok(None);
    }
    let dtype = object.getattr(intern!(py, "dtype"))?;
    let Some(scalar) = torch.types.iter().find(|(known, _)| dtype.is(known)).map(|(_, scalar)| *scalar) else {
        return Ok(None);
    };
    let is = |name: &Bound<'_, pyo3::types::PyString>| object.getattr(name)?.extract::<bool>();
    let number: Option<u32> = match (is(intern!(py, "is_cpu"))?, is(intern!(py, "is_cuda"))?) {
        (true, _) => None,
        (false, true) if torch.is_cuda => Some(object.call_method0(intern!(py, "get_device"))?.extract()?),
        _ => return Ok(None),
    };
    // A tensor without memory of its own says so here.
    let Ok(address) = object.call_method0(intern!(py, "data_ptr")).and_then(|address| address.extract::<usize>())
    else {
        return Ok(None);
    };
    let shape: Vec<usize> = object.getattr(intern!(py, "shape"))?.extract()?;
    if address == 0 && !shape.contains(&0) {
        return Ok(None);
    }
    let mut strides: Vec<isize> = object.call_method0(intern!(py, "stride"))?.extract()?;
    let size = scalar.size() as isize;
    strides.iter_mut().for_each(|stride| *stride = stride.saturating_mul(size));
    // The memory is the storage's, which another thread may exchange in the tensor.
    let keeper = object.call_method0(intern!(py, "untyped_storage"))?;
    let (place, data) = match number {
        None => (Place::Host, std::ptr::with_exposed_provenance_mut(address)),
        Some(number) => {
            wanted.takes(py, number)?;
            let after = Some(wanted.stream_of_torch(py, number)?);
            (Place::Gpu { number, after }, std::ptr::without_provenance_mut(address))
        }
    };
    Ok(Some(Foreign::kept(&keeper, Library::Torch, data, Element::Scalar(scalar), (shape, strides), false, place)))
}
