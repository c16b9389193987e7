//! .wav files: sampled sound without compression, as a table of `samples` and their `rate` per second.
//!
//! - `samples` has the shape `[frames]` for one channel, otherwise `[frames, channels]`.
//! - The element type is that of the file: `u8` (with silence at 128), `i16`, `i32`, `i64`, `f32` or `f64`. Samples of
//!   24 bits become the upper bits of an `i32`, as in SciPy, so that the type determines the full scale.

use indexmap::IndexMap;
use smol_str::SmolStr;

use crate::array::Array;
use crate::files::file::{NamedFile, check_shape, table};
use crate::files::items::{SavedItems, scalars_only};
use crate::files::kind::FileFormat;
use crate::problem::{HostResult, RuntimeError};
use crate::value::HostValue;
use clk_base::{alloc, stop};
use clk_scalar::{Scalar, ScalarValue};

/// Codes of sample formats.
const INTEGER: u16 = 1;
const FLOAT: u16 = 3;
/// The code of the sample format is the beginning of a GUID, which ends with [`GUID_END`].
const EXTENSIBLE: u16 = 0xfffe;
const GUID_END: [u8; 14] = [0, 0, 0, 0, 0x10, 0, 0x80, 0, 0, 0xaa, 0, 0x38, 0x9b, 0x71];

/// The content of a `fmt ` chunk.
struct SoundFormat {
    /// [`INTEGER`] or [`FLOAT`], unless the format is unsupported.
    code: u16,
    channels: u16,
    rate: u32,
    /// Size in bytes of the samples of all channels.
    frame_size: u16,
    bits: u16,
}

/// Returns the chunks of a file with their names. The last one may be cut off.
fn chunks<'a>(file: &NamedFile<'a>) -> impl Iterator<Item = ([u8; 4], u32, &'a [u8])> {
    let mut rest = file.bytes.get(12..).unwrap_or(&[]);
    std::iter::from_fn(move || {
        let (name, after) = rest.split_first_chunk::<4>()?;
        let (len, after) = after.split_first_chunk::<4>()?;
        let len = u32::from_le_bytes(*len);
        // Chunks begin at even offsets.
        let padded = (len as usize).saturating_add(len as usize % 2);
        rest = after.get(padded..).unwrap_or(&[]);
        Some((*name, len, after.get(..len as usize).unwrap_or(after)))
    })
}

/// Returns the end of the last chunk, according to the length at the beginning of a file.
fn riff_end(file: &NamedFile) -> u64 {
    let len = file.bytes.get(4..8).and_then(|len| len.try_into().ok()).map_or(0, u32::from_le_bytes);
    8 + u64::from(len)
}

pub(crate) fn decode(file: &NamedFile) -> HostResult<HostValue> {
    if !file.bytes.starts_with(b"RIFF") || file.bytes.get(8..12) != Some(b"WAVE") {
        return Err(file.damaged("it does not begin as a .wav file does"));
    }
    let mut format = None;
    for (name, len, content) in chunks(file) {
        match &name {
            b"fmt " => {
                let parsed = sound_format(content).ok_or_else(|| file.damaged("its `fmt` chunk ends early"))?;
                format = Some(parsed);
            }
            b"data" => {
                let format = format.ok_or_else(|| file.damaged("it has no `fmt` chunk before its samples"))?;
                // A program that stopped early has written samples, and 0 in place of the lengths.
                let follow = file.bytes.len() - (content.as_ptr() as usize - file.bytes.as_ptr() as usize);
                let is_unfinished = len == 0 && follow > 0 && riff_end(file) < file.bytes.len() as u64;
                if content.len() != len as usize || is_unfinished {
                    let problem = file.damaged(format!("it promises {len} bytes of samples, and {follow} follow"));
                    return Err(problem.help("write it again, but not to a pipe: its length is known only at the end"));
                }
                return sound(file, &format, content);
            }
            _ => {}
        }
    }
    Err(file.damaged("it has no `data` chunk"))
}

fn sound_format(content: &[u8]) -> Option<SoundFormat> {
    let u16_at = |at: usize| Some(u16::from_le_bytes(content.get(at..at + 2)?.try_into().ok()?));
    let mut code = u16_at(0)?;
    if code == EXTENSIBLE && content.get(26..40) == Some(&GUID_END) {
        code = u16_at(24)?;
    }
    Some(SoundFormat {
        code,
        channels: u16_at(2)?,
        rate: u32::from_le_bytes(content.get(4..8)?.try_into().ok()?),
        frame_size: u16_at(12)?,
        bits: u16_at(14)?,
    })
}

fn sound(file: &NamedFile, format: &SoundFormat, data: &[u8]) -> HostResult<HostValue> {
    let &SoundFormat { code, channels, rate, frame_size, bits } = format;
    // Samples of, for example, 12 bits are the upper bits of two bytes.
    let sample_size = bits.div_ceil(8);
    if channels == 0 || bits == 0 || u32::from(sample_size) * u32::from(channels) != u32::from(frame_size) {
        let sizes = format!("{channels} channels of {bits} bits in {frame_size} bytes");
        return Err(file.damaged(format!("its `fmt` chunk is inconsistent: {sizes}")));
    }
    let scalar = match (code, sample_size) {
        (INTEGER, 1) => Scalar::U8,
        (INTEGER, 2) => Scalar::I16,
        (INTEGER, 3 | 4) => Scalar::I32,
        (INTEGER, 8) => Scalar::I64,
        (FLOAT, 4) => Scalar::F32,
        (FLOAT, 8) => Scalar::F64,
        (INTEGER | FLOAT, _) => {
            return Err(file.unsupported(format!("holds samples of {bits} bits, which Clk has no type for")));
        }
        _ => {
            let problem = file.unsupported(format!("holds compressed sound (of the format {code:#x})"));
            return Err(problem.help("convert it to a .wav file without compression (PCM)"));
        }
    };
    let frames = data.len() / usize::from(frame_size);
    if frames * usize::from(frame_size) != data.len() {
        return Err(file.damaged(format!("its {} bytes of samples end inside of one", data.len())));
    }
    let mut dims = vec![frames as u64];
    if channels > 1 {
        dims.push(channels.into());
    }
    let (shape, _) = check_shape(file.name, &dims, scalar.size())?;
    let samples = if sample_size == 3 {
        let mut array = Array::zeros(scalar, &shape)?;
        for (to, from) in stop::polled(array.bytes_mut()?.chunks_exact_mut(4).zip(data.chunks_exact(3))) {
            if let [_, upper @ ..] = to {
                upper.copy_from_slice(from);
            }
        }
        array
    } else {
        Array::from_bytes(scalar, &shape, data)?
    };
    let rate = i32::try_from(rate).map_err(|_| file.damaged(format!("it claims {rate} samples per second")))?;
    let rate = Array::full(&HostValue::of(rate), &[])?;
    let columns = [("samples", samples), ("rate", rate)];
    let named = columns.map(|(name, array)| (SmolStr::new_static(name), HostValue::Array(array)));
    Ok(table(IndexMap::from(named)))
}

/// Encodes the arrays `samples` and `rate`.
pub(crate) fn encode(items: &SavedItems) -> HostResult<Vec<u8>> {
    let arrays = items.arrays(FileFormat::Wav)?;
    let (Some(samples), Some(rate), 2) = (arrays.get("samples"), arrays.get("rate"), arrays.len()) else {
        return Err(not_a_sound("a .wav file holds samples and their rate".into()));
    };
    let rate = match (rate.scalar(), rate.rank()) {
        (Some(scalar), 0) if scalar.is_int() => ScalarValue::from_bytes(scalar, rate.bytes()?).as_integer(),
        _ => None,
    };
    let rate = rate.and_then(|rate| i32::try_from(rate).ok()).filter(|rate| *rate > 0);
    let rate = rate.ok_or_else(|| not_a_sound("`rate` is the number of samples per second, an integer".into()))?;
    let (scalar, shape) = scalars_only(samples)?;
    let channels = match shape[..] {
        [_] => 1,
        [_, channels] => u16::try_from(channels).unwrap_or(0),
        _ => 0,
    };
    let frame_size = u16::try_from(usize::from(channels) * scalar.size()).unwrap_or(0);
    if frame_size == 0 {
        let title = format!("`samples` has the shape [frames] or [frames, channels], not {shape:?}");
        return Err(not_a_sound(title));
    }
    let code = match scalar {
        Scalar::U8 | Scalar::I16 | Scalar::I32 | Scalar::I64 => INTEGER,
        Scalar::F32 | Scalar::F64 => FLOAT,
        other => {
            let problem = RuntimeError::new("E0715", format!("a .wav file cannot hold samples of type {other}"));
            return Err(problem.note("it holds u8, i16, i32, i64, f32 or f64").help("convert them: `f32(x)`"));
        }
    };
    let data = samples.bytes()?;
    let too_long = || not_a_sound(format!("a .wav file has less than 4 GiB, and the samples have {}", data.len()));
    let data_len = u32::try_from(data.len()).map_err(|_| too_long())?;
    let padding = data_len % 2;
    // Floats need a `fact` chunk with the number of frames, and a longer `fmt ` chunk.
    let (format_len, fact_len) = if code == FLOAT { (18, 12) } else { (16, 0) };
    let riff_len = data_len.checked_add(4 + 8 + format_len + fact_len + 8 + padding).ok_or_else(too_long)?;
    let byte_rate = u32::try_from(rate).unwrap_or(0).saturating_mul(frame_size.into());
    let mut out = alloc::vec(riff_len as usize + 8);
    out.extend_from_slice(b"RIFF");
    out.extend_from_slice(&riff_len.to_le_bytes());
    out.extend_from_slice(b"WAVEfmt ");
    out.extend_from_slice(&format_len.to_le_bytes());
    out.extend_from_slice(&code.to_le_bytes());
    out.extend_from_slice(&channels.to_le_bytes());
    out.extend_from_slice(&rate.to_le_bytes());
    out.extend_from_slice(&byte_rate.to_le_bytes());
    out.extend_from_slice(&frame_size.to_le_bytes());
    out.extend_from_slice(&(scalar.size() as u16 * 8).to_le_bytes());
    if code == FLOAT {
        out.extend_from_slice(&[0, 0]);
        out.extend_from_slice(b"fact");
        out.extend_from_slice(&4u32.to_le_bytes());
        out.extend_from_slice(&(data_len / u32::from(frame_size)).to_le_bytes());
    }
    out.extend_from_slice(b"data");
    out.extend_from_slice(&data_len.to_le_bytes());
    alloc::append(&mut out, data);
    out.resize(out.len() + padding as usize, 0);
    Ok(out)
}

fn not_a_sound(title: String) -> RuntimeError {
    RuntimeError::new("E0715", title).help("name both: `save(\"x.wav\", samples = x, rate = 44100)`")
}
