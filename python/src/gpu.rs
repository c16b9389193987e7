//! Arrays in the memory of GPUs: which device a call runs on, and what `__cuda_array_interface__` says.
//!
//! Input: the device of a call and objects of other libraries. Output: on which GPU an array is and what its work waits for, or a refusal.
//!
//! - A call runs on the GPU of its arrays, unless it names a device: then that has to be this one.
//! - The work that fills an array comes first. Torch and CuPy say which stream they work on, which an event then marks; with DLPack other
//!   producers are given a stream of Clk's to make wait; `__cuda_array_interface__` names the stream: none (nothing to wait for), 1 (the
//!   default one), 2 (that of the thread), or a handle.
//! - What comes after a call waits for its kernels. If all arrays are of torch and CuPy, their streams do, and the call returns before; else,
//!   and where a kernel may report a fault, the call itself waits.
//! - Memory at other addresses than multiples of 16, and what the call writes elsewhere, is copied on the GPU. Elements with gaps, or in
//!   another order, are brought in order by their own library (torch, CuPy), and are refused from others.

use std::cell::Cell;

use clk_lang::app::embed::{self, How};
use clk_lang::host::array::Element;
use clk_lang::lang::scalar::Scalar;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

use crate::array::ClkArray;
use crate::convert;
use crate::dlpack::row_major;
use crate::errors;
use crate::foreign::{self, Foreign, Library, MAX_AXES, Place};

/// The stream on which a library works on a GPU, asked for once a call.
#[derive(Default)]
pub struct Streams(Cell<Option<(Library, u32, usize)>>);

/// Where arrays are wanted.
pub enum Wanted<'a> {
    /// On the host: whoever takes them reads them there.
    Host,
    /// Anywhere: a call runs where they are, unless it says otherwise.
    Call(&'a How, &'a Streams),
}

impl Wanted<'_> {
    /// Returns the stream on which a library works on a GPU now, which `ask` finds out.
    pub fn stream(
        &self,
        py: Python<'_>,
        library: Library,
        gpu: u32,
        ask: impl FnOnce() -> PyResult<usize>,
    ) -> PyResult<usize> {
        let known = match self {
            Wanted::Host => None,
            Wanted::Call(_, streams) => Some(streams),
        };
        if let Some((own, on, stream)) = known.and_then(|streams| streams.0.get())
            && (own, on) == (library, gpu)
        {
            return Ok(stream);
        }
        let stream = ask()?;
        refuse_recorded(py, stream)?;
        known.into_iter().for_each(|streams| streams.0.set(Some((library, gpu, stream))));
        Ok(stream)
    }

    /// Refuses an array of a GPU where it is not wanted.
    pub fn takes(&self, py: Python<'_>, gpu: u32) -> PyResult<()> {
        let copy = "copy it to the host first: `x.cpu()`, `cupy.asnumpy(x)`";
        let how = match self {
            Wanted::Host => {
                let title = "an array in the memory of a GPU is no value here".to_string();
                return Err(errors::refused(py, "E0809", title, &[copy], &[]));
            }
            Wanted::Call(how, _) => how,
        };
        if how.is_checked() {
            let title = "calls with checks run on the simulator, and this array is in the memory of a GPU".to_string();
            return Err(errors::refused(py, "E0809", title, &[copy], &[]));
        }
        let Some(device) = &how.device else { return Ok(()) };
        if gpu_of(device) == Some(gpu) {
            return Ok(());
        }
        let title = format!("the call runs on `{device}`, and this array is in the memory of `gpu:{gpu}`");
        let help = format!("without `device`, a call runs where its arrays are; or `device=\"gpu:{gpu}\"`");
        Err(errors::refused(py, "E0809", title, &[&help, copy], &[]))
    }
}

/// Refuses a stream whose work is being recorded.
fn refuse_recorded(py: Python<'_>, stream: usize) -> PyResult<()> {
    if !embed::is_recorded(stream) {
        return Ok(());
    }
    let title = "a call of Clk cannot be recorded in a CUDA graph, which is done with this stream now".to_string();
    let help = "call it before or after, such as outside of `torch.cuda.graph`";
    let note = "it may wait for its kernels, to report their faults";
    Err(errors::refused(py, "E0809", title, &[help], &[note]))
}

/// Returns the number of the GPU that a device's name stands for.
fn gpu_of(device: &str) -> Option<u32> {
    match device.strip_prefix("gpu") {
        Some("") => Some(0),
        Some(rest) => rest.strip_prefix(':')?.parse().ok(),
        None => (device == "auto").then_some(0),
    }
}

/// Returns the GPU that has the arrays of a call, if one has.
pub fn common(py: Python<'_>, arrays: &[Option<Foreign>]) -> PyResult<Option<u32>> {
    let mut numbers = arrays.iter().flatten().filter(|array| !array.is_empty()).filter_map(Foreign::gpu);
    let Some(first) = numbers.next() else { return Ok(arrays.iter().flatten().find_map(Foreign::gpu)) };
    match numbers.find(|number| *number != first) {
        None => Ok(Some(first)),
        Some(other) => {
            let title = format!("arrays of one call are in the memory of `gpu:{first}` and of `gpu:{other}`");
            let help = "bring them to one: `x.to(\"cuda:0\")`, `jax.device_put(x, device)`";
            Err(errors::refused(py, "E0809", title, &[help], &[]))
        }
    }
}

/// Returns the stream that producers have wait for their work.
pub fn meeting(py: Python<'_>, gpu: u32) -> PyResult<usize> {
    py.detach(|| embed::meeting(gpu)).map_err(|why| {
        let title = format!("this array is in the memory of GPU {gpu}, which cannot be used");
        errors::refused(py, "E0809", title, &[], &[&why])
    })
}

/// Whether a library works on a stream that it calls the current one, to which its allocator leaves the memory of arrays, too.
pub fn is_in_order(library: Library) -> bool {
    matches!(library, Library::Torch | Library::CuPy)
}

/// Asks torch or CuPy which stream of a GPU is its current one.
pub fn stream_of(py: Python<'_>, library: Library, gpu: u32) -> PyResult<usize> {
    let (module, function, handle) = match library {
        Library::CuPy => ("cupy", intern!(py, "get_current_stream"), intern!(py, "ptr")),
        _ => ("torch", intern!(py, "current_stream"), intern!(py, "cuda_stream")),
    };
    let cuda = py.import(module)?.getattr(intern!(py, "cuda"))?;
    cuda.call_method1(function, (gpu,))?.getattr(handle)?.extract()
}

/// Makes a GPU torch's current one as long as `work` takes.
pub fn on_torch_gpu<'py, T>(py: Python<'py>, gpu: u32, work: impl FnOnce() -> PyResult<T>) -> PyResult<T> {
    let cuda = py.import(intern!(py, "torch"))?.getattr(intern!(py, "cuda"))?;
    let current: u32 = cuda.call_method0(intern!(py, "current_device"))?.extract()?;
    if current == gpu {
        return work();
    }
    cuda.call_method1(intern!(py, "set_device"), (gpu,))?;
    let done = work();
    cuda.call_method1(intern!(py, "set_device"), (current,))?;
    done
}

/// What a `__cuda_array_interface__` says.
#[derive(Debug)]
pub struct Described {
    pub address: u64,
    pub scalar: Scalar,
    pub shape: Vec<usize>,
    /// In bytes.
    pub strides: Vec<isize>,
    pub readonly: bool,
    pub after: Option<usize>,
}

/// Reads a `__cuda_array_interface__`.
pub fn described(facts: &Bound<'_, PyDict>) -> PyResult<Described> {
    let py = facts.py();
    let wrong = |title: String| errors::refused(py, "E0809", title, &[], &["this is what its interface says"]);
    let has = |name: &str| Ok::<_, PyErr>(facts.get_item(name)?.filter(|value| !value.is_none()));
    let need = |name: &str| has(name)?.ok_or_else(|| wrong(format!("`__cuda_array_interface__` has no `{name}`")));
    let version: i64 = need("version")?.extract()?;
    if !(2..=3).contains(&version) {
        return Err(wrong(format!("`__cuda_array_interface__` of version {version}; there are 2 and 3")));
    }
    if has("mask")?.is_some() {
        return Err(wrong("a masked array has elements that are none".into()));
    }
    let shape: Vec<usize> = convert::few(&need("shape")?, MAX_AXES)?;
    let kind = need("typestr")?;
    let kind = kind.cast::<PyString>()?.to_string_lossy().into_owned();
    let scalar = scalar_of(&kind).ok_or_else(|| foreign::no_type(py, &kind))?;
    let (address, readonly): (u64, bool) = need("data")?.extract()?;
    let strides = match has("strides")? {
        None => row_major(&shape, scalar.size() as isize),
        Some(strides) => convert::few(&strides, MAX_AXES)?,
    };
    if strides.len() != shape.len() {
        return Err(wrong(format!("an array of {} axes with {} strides", shape.len(), strides.len())));
    }
    let after = match has("stream")?.map(|stream| stream.extract::<i128>()).transpose()? {
        // Version 2 leaves it open what there is to wait for.
        None => (version == 2).then_some(1),
        Some(0) => {
            let title =
                "stream 0 of a `__cuda_array_interface__` is not allowed, as it may mean two streams".to_string();
            let help = "the library has to say 1 for the default stream, 2 for that of the thread";
            return Err(errors::refused(py, "E0809", title, &[help], &[]));
        }
        Some(stream) => Some(
            usize::try_from(stream).map_err(|_| wrong(format!("stream {stream} is none that CUDA could have made")))?,
        ),
    };
    if address == 0 && !shape.contains(&0) {
        return Err(wrong("an array with elements at the address 0".into()));
    }
    Ok(Described { address, scalar, shape, strides, readonly, after })
}

/// Returns whether a `__cuda_array_interface__` says that an array may be written, which capsules of older libraries cannot.
pub fn says_writable(object: &Bound<'_, PyAny>) -> bool {
    let facts = object.getattr(intern!(object.py(), "__cuda_array_interface__"));
    let data = facts.and_then(|facts| facts.get_item("data")?.extract::<(u64, bool)>());
    data.is_ok_and(|(_, readonly)| !readonly)
}

fn scalar_of(kind: &str) -> Option<Scalar> {
    use Scalar::*;
    let order = kind.chars().next()?;
    let found = match kind.get(1..)? {
        "b1" => Bool,
        "i1" => I8,
        "i2" => I16,
        "i4" => I32,
        "i8" => I64,
        "u1" => U8,
        "u2" => U16,
        "u4" => U32,
        "u8" => U64,
        "f2" => F16,
        "f4" => F32,
        "f8" => F64,
        _ => return None,
    };
    (order == '<' || order == '=' || found.size() == 1).then_some(found)
}

/// Returns the letters of a type in `typestr`.
pub fn typestr(scalar: Scalar) -> Option<String> {
    let kind = match scalar {
        Scalar::Bf16 => return None,
        Scalar::Bool => 'b',
        scalar if scalar.is_float() => 'f',
        scalar if scalar.is_unsigned() => 'u',
        _ => 'i',
    };
    let order = if scalar.size() == 1 { '|' } else { '<' };
    Some(format!("{order}{kind}{}", scalar.size()))
}

/// Reads an array by its `__cuda_array_interface__`.
pub fn of_interface(object: &Bound<'_, PyAny>, wanted: &Wanted<'_>) -> PyResult<Foreign> {
    let py = object.py();
    let facts = object.getattr(intern!(py, "__cuda_array_interface__"))?;
    let described = described(facts.cast::<PyDict>()?)?;
    let gpu = match described.address {
        0 => 0,
        address => embed::owner(address).ok_or_else(|| {
            let title = format!("the address {address:#x} of a `__cuda_array_interface__` is in no GPU's memory");
            errors::refused(py, "E0809", title, &[], &["or there is no driver that could say so: `clk devices`"])
        })?,
    };
    wanted.takes(py, gpu)?;
    described.after.map_or(Ok(()), |stream| refuse_recorded(py, stream))?;
    let place = Place::Gpu { number: gpu, after: described.after, in_order: false };
    let Described { address, scalar, shape, strides, readonly, .. } = described;
    let at = std::ptr::without_provenance_mut(address as usize);
    Foreign::of_object(object, at, Element::Scalar(scalar), (shape, strides), readonly, place)
}

/// Returns an array of a GPU that a call can use: one with gaps, in another order, or of truth values is made anew by its library, where
/// it is only read.
pub fn fitting<'py>(
    object: &Bound<'py, PyAny>,
    found: Foreign,
    wanted: &Wanted<'_>,
    is_written: bool,
) -> PyResult<Foreign> {
    let py = object.py();
    let is_bool = found.element == Element::Scalar(Scalar::Bool);
    if found.gpu().is_none() || found.is_empty() || (found.is_row_major() || is_written) && !is_bool {
        return Ok(found);
    }
    let words = |array: &Bound<'py, PyAny>| array.call_method1(intern!(py, "view"), (words_type(py, found.library)?,));
    let made = match found.library {
        Library::Torch if is_bool => {
            // Other bytes than 0 and 1 are true.
            let plain = object.call_method0(intern!(py, "detach"))?;
            let truths = words(&plain)?.call_method1(intern!(py, "ne"), (0,))?;
            if is_written {
                plain.call_method1(intern!(py, "copy_"), (truths,))?;
                return Ok(found);
            }
            truths.call_method0(intern!(py, "contiguous"))?
        }
        Library::Torch => object.call_method0(intern!(py, "contiguous"))?,
        Library::CuPy if is_bool => {
            let truths = words(object)?.call_method1(intern!(py, "__ne__"), (0,))?;
            if is_written {
                object.set_item(py.Ellipsis(), truths)?;
                // The call comes behind that, too.
                return foreign::read(object, None, wanted);
            }
            py.import("cupy")?.call_method1("ascontiguousarray", (truths,))?
        }
        Library::CuPy => py.import("cupy")?.call_method1("ascontiguousarray", (object,))?,
        // Their truth values are 0 and 1.
        Library::Jax if found.is_row_major() => return Ok(found),
        _ if found.is_row_major() && object.is_instance_of::<ClkArray>() => return Ok(found),
        _ if is_bool => {
            let title = "nothing says that the truth values of this array of a GPU are the bytes 0 and 1".to_string();
            let help = "pass its bytes as `u8` and compare them in Clk, or make it an array of torch or CuPy";
            return Err(errors::refused(py, "E0809", title, &[help], &[]));
        }
        _ => {
            let title = "the elements of this array of a GPU are not in row-major order without gaps".to_string();
            let help = "make them so with its library: `x.contiguous()`, `cupy.ascontiguousarray(x)`";
            return Err(errors::refused(py, "E0809", title, &[help], &[]));
        }
    };
    foreign::read(&made, None, wanted)
}

fn words_type(py: Python<'_>, library: Library) -> PyResult<Bound<'_, PyAny>> {
    match library {
        Library::Torch => py.import(intern!(py, "torch"))?.getattr(intern!(py, "uint8")),
        _ => Ok(PyString::new(py, "uint8").into_any()),
    }
}
