//! `clk launch`: kernels for programs in other languages, with requests and replies as JSON, raw bytes or files.
//!
//! - [`job`], [`json`], [`data`], [`request`]: decoding of requests, which are untrusted.
//! - [`state`], [`form`]: a client's program, device and kept arrays; a launch is compiled as the equivalent script statement,
//!   so that it is checked and run like one.
//! - [`reply`], [`mod@write`], [`refusal`]: replies and errors.
//! - [`frame`], [`ops`], [`serve`], [`pulse`], [`socket`], [`ending`]: servers for one client or several.

mod data;
mod ending;
pub(super) mod form;
mod frame;
mod job;
mod json;
mod ops;
mod pulse;
pub(super) mod refusal;
mod reply;
mod request;
mod serve;
mod socket;
mod state;
mod write;

use std::borrow::Cow;
use std::io::{self, Read, Write};
use std::path::Path;

use smol_str::SmolStr;

use self::data::{Arrays, HostArrays};
pub(crate) use self::job::Job;
use self::refusal::{Refusal, Result};
use self::reply::Reply;
use self::request::parse;
use self::state::State;
use self::write::Encoding;
use super::context::Context;
use super::{disk, exit, script};
use crate::compile::Session;
use crate::host;
use crate::host::value::Value;

/// Fields that every request may have.
const ANY: [&str; 2] = ["id", "blocks"];

/// Enlarges the pipes of standard input and output, which saves context switches between writer and reader. Other streams are
/// unaffected.
fn widen_pipes() {
    #[cfg(target_os = "linux")]
    for descriptor in [libc::STDIN_FILENO, libc::STDOUT_FILENO] {
        // SAFETY: changes the size of the pipe's buffer or fails.
        unsafe { libc::fcntl(descriptor, libc::F_SETPIPE_SZ, 1 << 20) };
    }
}

/// Runs `clk launch`; returns the exit code.
pub(crate) fn main(job: &Job, context: &mut Context) -> u8 {
    widen_pipes();
    match (job.serve, &job.socket) {
        (true, Some(path)) => socket::serve(job, path, context),
        (true, None) => serve::standard(job, context),
        (false, _) if job.protocol => {
            context.console.print(include_str!("protocol.md"));
            exit::OK
        }
        (false, _) => match &job.npz {
            Some((from, to)) => files(job, from, to, context),
            None => once(job, context),
        },
    }
}

/// Runs one launch with the arrays of one file as arguments and writes the results to another.
fn files(job: &Job, from: &Path, to: &Path, context: &mut Context) -> u8 {
    let interpreter = context.limits.interpreter(&context.interrupt, vec![]);
    let mut state = State::new(Session::default(), interpreter, job.max_bytes);
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

fn run_files(job: &Job, state: &mut State, from: &Path, to: &Path) -> Result<()> {
    state.load(&job.file)?;
    let mut launch = job.launch()?;
    job.overrule(&mut launch);
    let dims = state.dimensions(&launch)?;
    for (name, array) in read_arrays(from, job.max_bytes)? {
        // An array of one element whose name is a dimension's gives that dimension's extent.
        let extent = array.item(0)?.filter(|_| array.count() == 1 && dims.contains(&name));
        match extent.and_then(|extent| extent.as_int()) {
            Some(extent) => launch.dims.push((Cow::Owned(name.to_string()), i64::try_from(extent).unwrap_or(-1))),
            None => drop(launch.ready.insert(name, array)),
        }
    }
    let written = state.launch(&launch, &mut [])?;
    // Frees the arguments before the file is built in memory.
    drop(launch);
    let written = state.fetch(written)?.into_iter();
    let values: Vec<(SmolStr, Value)> = written.map(|(name, array)| (name, Value::Array(array.into()))).collect();
    let named: Vec<(Option<&str>, &Value)> = values.iter().map(|(name, value)| (Some(name.as_str()), value)).collect();
    let bytes = host::files::encode(&to.display().to_string(), &named)?;
    disk::write_whole(to, &bytes)
        .map_err(|why| Refusal::new("E0702", format!("`{}` cannot be written: {why}", to.display())))
}

/// Reads the named arrays of a file.
fn read_arrays(path: &Path, limit: u64) -> Result<Arrays> {
    let unreadable = |why: String| Refusal::new("E0701", format!("`{}` cannot be read: {why}", path.display()));
    let file = disk::open(path).map_err(unreadable)?;
    let length = file.metadata().map_or(0, |data| data.len());
    let bytes = disk::contents(file, limit.saturating_add(1)).map_err(unreadable)?;
    if bytes.len() as u64 > limit {
        let title =
            format!("`{}` has {} bytes, and {limit} are allowed", path.display(), length.max(bytes.len() as u64));
        return Err(Refusal::new("E0806", title).help("allow more: `--max-bytes`"));
    }
    let name = path.display().to_string();
    // Compressed content may be a thousand times as large as the file.
    let too_many = |held: u64| {
        let title = format!("`{name}` holds {held} bytes of arrays, and {limit} are allowed");
        Refusal::new("E0806", title).help("allow more: `--max-bytes`")
    };
    if let Some(unpacked) = host::files::unpacked(&name, &bytes)?.filter(|unpacked| *unpacked > limit) {
        return Err(too_many(unpacked));
    }
    match host::files::decode(&name, &bytes)? {
        Value::Table(columns) => {
            columns.check_readable()?;
            let columns = std::sync::Arc::unwrap_or_clone(columns).columns.into_iter();
            let arrays = columns.map(|(name, column)| match column {
                Value::Array(array) => Ok((name, array)),
                _ => {
                    let title = format!("the column `{}` of `{}` is text, which no kernel takes", name, path.display());
                    Err(Refusal::new("E0804", title).help("leave it out of the file"))
                }
            });
            let arrays = arrays.collect::<Result<Arrays>>()?;
            let held: u64 = arrays.values().map(|array| array.byte_len() as u64).sum();
            if held > limit { Err(too_many(held)) } else { Ok(arrays) }
        }
        other => {
            Err(Refusal::new("E0804", format!("`{}` holds a {} without a name", path.display(), other.type_name()))
                .help("save the arrays by name, as .npz or .safetensors"))
        }
    }
}

/// Runs one launch with the request on standard input and the reply on standard output. Errors are reported on standard error, too.
fn once(job: &Job, context: &mut Context) -> u8 {
    let interpreter = context.limits.interpreter(&context.interrupt, vec![]);
    let mut state = State::new(Session::default(), interpreter, job.max_bytes);
    let mut text = String::new();
    let done = run_once(job, &mut state, &mut text);
    let warnings = state.interpreter.take_warnings();
    context.console.report_all(&warnings, &state.session.sources);
    let reply = Reply::to(None, job.stream).output(&state.world.printed).warnings(&warnings, &state.session.sources);
    let (reply, code) = match done {
        Ok((arrays, encoding)) => (reply.arrays(arrays, encoding), exit::OK),
        Err(refusal) => {
            let (diagnostics, sources) = refusal.diagnostics(&text, &state.session.sources);
            context.console.report_all(&diagnostics, &sources);
            (reply.field("errors", refusal::list(&diagnostics, &sources)), script::failure_code(&context.interrupt))
        }
    };
    let mut out = io::BufWriter::with_capacity(1 << 16, io::stdout().lock());
    let written = reply.send(&mut out).and_then(|()| out.flush());
    match written {
        Ok(()) => code,
        // The reader has closed the pipe.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => exit::OK,
        Err(_) => exit::FAILURE,
    }
}

fn run_once(job: &Job, state: &mut State, text: &mut String) -> Result<(HostArrays, Encoding)> {
    state.load(&job.file)?;
    let mut blocks = frame::Blocks::new();
    if job.stream {
        let message = frame::Reader::new(io::stdin().lock(), job.max_bytes).message().map_err(unreadable)?;
        let message = message.ok_or_else(|| Refusal::new("E0807", "the stream ends before a frame"))?;
        (*text, blocks) = (message.text, message.blocks);
        message.refused.map_or(Ok(()), Err)?;
    } else {
        *text = read_text(job.max_bytes)?;
    }
    let mut launch = job.launch()?;
    if !text.trim().is_empty() {
        let known: Vec<&str> = request::LAUNCH.into_iter().chain(ANY).collect();
        for (name, value) in data::fields(parse(text)?, "a request", &known)? {
            launch.take(&name, value)?;
        }
    }
    job.overrule(&mut launch);
    let own = match (job.stream, job.base64) {
        (_, true) => Encoding::Base64,
        (true, false) => Encoding::Block,
        (false, false) => Encoding::List,
    };
    let encoding = launch.encoding.unwrap_or(own);
    if encoding == Encoding::Block && !job.stream {
        return Err(Refusal::new("E0802", "blocks come with framed requests only").help("ask for them with `--stream`"));
    }
    let arrays = state.launch(&launch, &mut blocks)?;
    Ok((state.fetch(arrays)?, encoding))
}

fn unreadable(error: io::Error) -> Refusal {
    Refusal::new("E0701", format!("standard input cannot be read: {error}"))
}

/// Reads all of standard input.
fn read_text(limit: u64) -> Result<String> {
    let mut bytes = Vec::new();
    io::stdin().lock().take(limit.saturating_add(1)).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > limit {
        return Err(Refusal::new("E0806", format!("the request has more than {limit} bytes"))
            .help("allow more: `--max-bytes`; large arrays travel faster with `--npz` and `--stream`"));
    }
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        Refusal::new("E0801", format!("the request is not UTF-8 (at byte {at})"))
    })
}
