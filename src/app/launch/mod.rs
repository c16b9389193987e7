//! `clk launch`: runs kernels for programs in other languages. Requests and replies are JSON, raw bytes or NPZ files.
//!
//! - [`job`], [`json`], [`data`], [`request`]: decode requests, which are untrusted.
//! - [`state`], [`compiled_launch`]: a client's program, device and kept arrays. A launch is compiled as an equivalent
//!   statement of a script.
//! - [`reply`], [`mod@write`], [`launch_error`]: create replies and errors.
//! - [`frame`], [`operations`], [`server`], [`liveness`], [`socket`], [`shutdown`]: serve one client or several.

pub(super) mod compiled_launch;
mod data;
mod frame;
mod job;
mod json;
pub(super) mod launch_error;
mod liveness;
mod operations;
mod reply;
mod request;
mod server;
mod shutdown;
mod socket;
mod state;
mod write;

use std::borrow::Cow;
use std::io::{self, Read, Write};
use std::path::Path;

use smol_str::SmolStr;

use self::data::{HostArrays, NamedArrays};
pub(crate) use self::job::LaunchJob;
use self::launch_error::{LaunchRequestError, Result};
use self::reply::LaunchReply;
use self::request::parse;
use self::state::ClientState;
use self::write::ArrayEncoding;
use super::context::AppContext;
use super::{disk, exit, script};
use clk_base::file_error::FileError;
use clk_compile::Session;
use clk_host::value::HostValue;

/// Fields that every request may contain.
const ANY: [&str; 2] = ["id", "blocks"];

/// If standard input and output are pipes, enlarges their buffers. Fewer context switches between writer and reader are
/// then necessary.
fn widen_pipes() {
    #[cfg(target_os = "linux")]
    for descriptor in [libc::STDIN_FILENO, libc::STDOUT_FILENO] {
        // SAFETY: the call changes the size of the pipe's buffer, or fails.
        unsafe { libc::fcntl(descriptor, libc::F_SETPIPE_SZ, 1 << 20) };
    }
}

/// Runs `clk launch`; returns the exit code.
pub(crate) fn main(job: &LaunchJob, context: &mut AppContext) -> u8 {
    widen_pipes();
    match (job.serve, &job.socket) {
        (true, Some(path)) => socket::serve(job, path, context),
        (true, None) => server::standard(job, context),
        (false, _) if job.protocol => {
            context.console.print(include_str!("protocol.md"));
            exit::OK
        }
        (false, _) => match &job.npz {
            Some((from, to)) => launch_with_files(job, from, to, context),
            None => launch_once(job, context),
        },
    }
}

/// Runs one launch. Its array arguments are in one NPZ file, and the results are written to another.
fn launch_with_files(job: &LaunchJob, from: &Path, to: &Path, context: &mut AppContext) -> u8 {
    let interpreter = context.limits.interpreter(&context.interrupt, vec![]);
    let mut state = ClientState::new(Session::default(), interpreter, job.max_bytes);
    let done = run_files(job, &mut state, from, to);
    context.console.print(&state.world.printed);
    context.console.report_all(&state.interpreter.take_warnings(), &state.session.sources);
    match done {
        Ok(()) => exit::OK,
        Err(refusal) => {
            let (diagnostics, sources) = refusal.diagnostics("", &state.session.sources);
            context.console.report_all(&diagnostics, &sources);
            script::failure_code(&context.interrupt)
        }
    }
}

fn run_files(job: &LaunchJob, state: &mut ClientState, from: &Path, to: &Path) -> Result<()> {
    state.load(&job.file)?;
    let mut launch = job.launch()?;
    job.overrule(&mut launch);
    let dims = state.dimensions(&launch)?;
    for (name, array) in read_arrays(from, job.max_bytes)? {
        // If a dimension has the name of an array with one element, that element is the extent of the dimension.
        let extent = array.item(0)?.filter(|_| array.count() == 1 && dims.contains(&name));
        match extent.and_then(|extent| extent.as_int()) {
            Some(extent) => launch.dims.push((Cow::Owned(name.to_string()), i64::try_from(extent).unwrap_or(-1))),
            None => drop(launch.ready.insert(name, array)),
        }
    }
    let written = state.launch(&launch, &mut [])?;
    // Frees the arguments, because the output file is built in memory next.
    drop(launch);
    let written = state.fetch(written)?.into_iter();
    let values: Vec<(SmolStr, HostValue)> =
        written.map(|(name, array)| (name, HostValue::Array(array.into()))).collect();
    let with_names: Vec<(Option<&str>, &HostValue)> =
        values.iter().map(|(name, value)| (Some(name.as_str()), value)).collect();
    let bytes = clk_host::files::encode(&to.display().to_string(), &with_names)?;
    disk::write_atomically(to, &bytes)
        .map_err(|why| LaunchRequestError::new("E0702", format!("`{}` cannot be written: {why}", to.display())))
}

/// Reads all arrays of an NPZ file, by name.
fn read_arrays(path: &Path, limit: u64) -> Result<NamedArrays> {
    let unreadable =
        |why: FileError| LaunchRequestError::new("E0701", format!("`{}` cannot be read: {why}", path.display()));
    let file = disk::open(path).map_err(unreadable)?;
    let length = file.metadata().map_or(0, |data| data.len());
    let bytes = disk::contents(file, limit.saturating_add(1)).map_err(unreadable)?;
    if bytes.len() as u64 > limit {
        let title =
            format!("`{}` has {} bytes, and {limit} are allowed", path.display(), length.max(bytes.len() as u64));
        return Err(LaunchRequestError::new("E0806", title).help("allow more: `--max-bytes`"));
    }
    let name = path.display().to_string();
    // Compressed arrays may be a thousand times as large as the file, so their total size is limited.
    let too_many = |total: u64| {
        let title = format!("`{name}` holds {total} bytes of arrays, and {limit} are allowed");
        LaunchRequestError::new("E0806", title).help("allow more: `--max-bytes`")
    };
    if let Some(unpacked) = clk_host::files::uncompressed_size(&name, &bytes)?.filter(|unpacked| *unpacked > limit) {
        return Err(too_many(unpacked));
    }
    match clk_host::files::decode(&name, &bytes)? {
        HostValue::Table(columns) => {
            columns.check_readable()?;
            let columns = std::sync::Arc::unwrap_or_clone(columns).columns.into_iter();
            let arrays = columns.map(|(name, column)| match column {
                HostValue::Array(array) => Ok((name, array)),
                _ => {
                    let title = format!("the column `{}` of `{}` is text, which no kernel takes", name, path.display());
                    Err(LaunchRequestError::new("E0804", title).help("leave it out of the file"))
                }
            });
            let arrays = arrays.collect::<Result<NamedArrays>>()?;
            let total: u64 = arrays.values().map(|array| array.byte_len() as u64).sum();
            if total > limit { Err(too_many(total)) } else { Ok(arrays) }
        }
        other => Err(LaunchRequestError::new(
            "E0804",
            format!("`{}` holds a {} without a name", path.display(), other.type_name()),
        )
        .help("save the arrays by name, as .npz or .safetensors")),
    }
}

/// Runs one launch. Reads the request from standard input, and writes the reply to standard output. Also reports errors
/// on standard error.
fn launch_once(job: &LaunchJob, context: &mut AppContext) -> u8 {
    let interpreter = context.limits.interpreter(&context.interrupt, vec![]);
    let mut state = ClientState::new(Session::default(), interpreter, job.max_bytes);
    let mut text = String::new();
    let done = run_once(job, &mut state, &mut text);
    let warnings = state.interpreter.take_warnings();
    context.console.report_all(&warnings, &state.session.sources);
    let reply =
        LaunchReply::to(None, job.stream).output(&state.world.printed).warnings(&warnings, &state.session.sources);
    let (reply, code) = match done {
        Ok((arrays, encoding)) => (reply.arrays(arrays, encoding), exit::OK),
        Err(refusal) => {
            let (diagnostics, sources) = refusal.diagnostics(&text, &state.session.sources);
            context.console.report_all(&diagnostics, &sources);
            (
                reply.field("errors", launch_error::list(&diagnostics, &sources)),
                script::failure_code(&context.interrupt),
            )
        }
    };
    let mut out = io::BufWriter::with_capacity(1 << 16, io::stdout().lock());
    let written = reply.send(&mut out).and_then(|()| out.flush());
    match written {
        Ok(()) => code,
        // The program that reads the replies has closed the pipe.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => exit::OK,
        Err(_) => exit::FAILURE,
    }
}

fn run_once(job: &LaunchJob, state: &mut ClientState, text: &mut String) -> Result<(HostArrays, ArrayEncoding)> {
    state.load(&job.file)?;
    let mut blocks = frame::Blocks::new();
    if job.stream {
        let message = frame::MessageReader::new(io::stdin().lock(), job.max_bytes).message().map_err(unreadable)?;
        let message = message.ok_or_else(|| LaunchRequestError::new("E0807", "the stream ends before a frame"))?;
        (*text, blocks) = (message.text, message.blocks);
        message.refused.map_or(Ok(()), Err)?;
    } else {
        *text = read_text(job.max_bytes)?;
    }
    let mut launch = job.launch()?;
    if !text.trim().is_empty() {
        let allowed: Vec<&str> = request::LAUNCH.into_iter().chain(ANY).collect();
        for (name, value) in data::fields(parse(text)?, "a request", &allowed)? {
            launch.add_field(&name, value)?;
        }
    }
    job.overrule(&mut launch);
    let own = match (job.stream, job.base64) {
        (_, true) => ArrayEncoding::Base64,
        (true, false) => ArrayEncoding::Block,
        (false, false) => ArrayEncoding::List,
    };
    let encoding = launch.encoding.unwrap_or(own);
    if encoding == ArrayEncoding::Block && !job.stream {
        return Err(LaunchRequestError::new("E0802", "blocks come with framed requests only")
            .help("ask for them with `--stream`"));
    }
    let arrays = state.launch(&launch, &mut blocks)?;
    Ok((state.fetch(arrays)?, encoding))
}

fn unreadable(error: io::Error) -> LaunchRequestError {
    LaunchRequestError::new("E0701", format!("standard input cannot be read: {error}"))
}

/// Reads standard input to its end.
fn read_text(limit: u64) -> Result<String> {
    let mut bytes = Vec::new();
    io::stdin().lock().take(limit.saturating_add(1)).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > limit {
        return Err(LaunchRequestError::new("E0806", format!("the request has more than {limit} bytes"))
            .help("allow more: `--max-bytes`; large arrays travel faster with `--npz` and `--stream`"));
    }
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        LaunchRequestError::new("E0801", format!("the request is not UTF-8 (at byte {at})"))
    })
}
