//! Command-line arguments of `clk launch`.

use std::path::PathBuf;

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};

use crate::command_error::CommandResult;
use crate::cuda_launches::CudaLaunchOptions;
use crate::launch::LaunchJob;

/// Default value of `--max-bytes`, in bytes.
const MAX_BYTES: u64 = 8 << 30;

pub(crate) fn command() -> Command {
    let pair = |id: &'static str, value: &'static str, help: &'static str| {
        Arg::new(id).long(id).value_name(value).action(ArgAction::Append).value_parser(pair).help(help)
    };
    let triple = |id: &'static str, help: &'static str| {
        Arg::new(id).long(id).value_name("X[,Y[,Z]]").value_parser(triple).help(help)
    };
    Command::new("launch")
        .about("Launch a kernel for another program: arguments as JSON on standard input, results on standard output")
        .arg(
            Arg::new("file")
                .value_name("FILE")
                .required_unless_present("protocol")
                .value_parser(value_parser!(PathBuf))
                .help("The program"),
        )
        .arg(Arg::new("kernel").value_name("KERNEL").help("The kernel [default: as the request says, or the only one]"))
        .arg(triple("grid", "Blocks of the grid [default: as the kernel says]").requires("block"))
        .arg(triple("block", "Threads of a block").requires("grid"))
        .arg(pair("generic", "NAME=VALUE", "A compile-time argument: `T=f64`, `TILE=32`, `op=max`"))
        .arg(
            Arg::new("dim")
                .long("dim")
                .value_name("NAME=N")
                .action(ArgAction::Append)
                .value_parser(dimension)
                .help("A dimension that no argument has"),
        )
        .arg(pair("scalar", "NAME=VALUE", "A by-value argument, as JSON"))
        .arg(
            Arg::new("base64")
                .long("base64")
                .action(ArgAction::SetTrue)
                .help("Arrays of the answer as Base64 of their bytes, not as lists"),
        )
        .arg(
            Arg::new("stream")
                .long("stream")
                .action(ArgAction::SetTrue)
                .conflicts_with("serve")
                .help("The request and the answer are frames followed by raw bytes"),
        )
        .arg(
            Arg::new("npz")
                .long("npz")
                .value_names(["IN", "OUT"])
                .num_args(2)
                .value_parser(value_parser!(PathBuf))
                .conflicts_with_all(["stream", "serve", "base64"])
                .help("Take the arguments from one .npz (or .safetensors) file and write the results to another"),
        )
        .arg(
            Arg::new("protocol")
                .long("protocol")
                .action(ArgAction::SetTrue)
                .conflicts_with("serve")
                .help("Show how programs talk to this command"),
        )
        .arg(
            Arg::new("serve")
                .long("serve")
                .action(ArgAction::SetTrue)
                .conflicts_with_all(["kernel", "grid", "generic", "dim", "scalar", "base64"])
                .help("Answer many requests, and keep arrays between them"),
        )
        .arg(
            Arg::new("socket")
                .long("socket")
                .value_name("PATH")
                .requires("serve")
                .value_parser(value_parser!(PathBuf))
                .help("Serve a Unix socket, not standard input and output"),
        )
        .arg(
            Arg::new("max-bytes")
                .long("max-bytes")
                .value_name("N")
                .value_parser(bytes)
                .help("Bytes of a request, of an array and of all that are kept, at most; K, M, G [default: 8G]"),
        )
}

/// Options of `clk run`, `clk profile` and `clk debug` for the launches of a CUDA file.
pub(super) fn cuda_arguments() -> [Arg; 4] {
    let option =
        |id: &'static str, value: &'static str, help: &'static str| Arg::new(id).long(id).value_name(value).help(help);
    [
        option("kernel", "KERNEL", "For a CUDA file: launch only this kernel"),
        option("grid", "X[,Y[,Z]]", "For a CUDA file: blocks of the grid [default: as the file launches it]")
            .value_parser(triple),
        option("block", "X[,Y[,Z]]", "For a CUDA file: threads of a block [default: as the file launches it]")
            .value_parser(triple),
        option("arg", "NAME=VALUE", "For a CUDA file: the value of a parameter or of a variable of its host code")
            .action(ArgAction::Append)
            .value_parser(pair),
    ]
}

pub(super) fn cuda_options(sub: &ArgMatches) -> CudaLaunchOptions {
    CudaLaunchOptions {
        kernel: sub.get_one("kernel").cloned(),
        grid: sub.get_one("grid").copied(),
        block: sub.get_one("block").copied(),
        arguments: sub.get_many("arg").unwrap_or_default().cloned().collect(),
    }
}

pub(crate) fn job(sub: &ArgMatches) -> LaunchJob {
    let pairs = |id: &str| sub.get_many::<(String, String)>(id).unwrap_or_default().cloned().collect::<Vec<_>>();
    LaunchJob {
        file: sub.get_one::<PathBuf>("file").cloned().unwrap_or_default(),
        kernel: sub.get_one::<String>("kernel").cloned(),
        grid: sub.get_one("grid").copied(),
        block: sub.get_one("block").copied(),
        generics: pairs("generic"),
        dims: sub.get_many::<(String, i64)>("dim").unwrap_or_default().cloned().collect(),
        scalars: pairs("scalar"),
        base64: sub.get_flag("base64"),
        stream: sub.get_flag("stream"),
        npz: sub.get_many::<PathBuf>("npz").and_then(|mut paths| Some((paths.next()?.clone(), paths.next()?.clone()))),
        protocol: sub.get_flag("protocol"),
        serve: sub.get_flag("serve"),
        socket: sub.get_one::<PathBuf>("socket").cloned(),
        max_bytes: sub.get_one("max-bytes").copied().unwrap_or(MAX_BYTES),
    }
}

fn pair(text: &str) -> CommandResult<(String, String)> {
    let (name, value) = text.split_once('=').ok_or("a name and a value, as in `N=1024`")?;
    if name.is_empty() || value.is_empty() {
        return Err("a name and a value, as in `N=1024`".into());
    }
    Ok((name.into(), value.into()))
}

fn dimension(text: &str) -> CommandResult<(String, i64)> {
    let (name, extent) = pair(text)?;
    let extent = extent.parse().map_err(|_| format!("`{extent}` is not an integer"))?;
    Ok((name, extent))
}

fn triple(text: &str) -> CommandResult<[i64; 3]> {
    let mut sizes = [1; 3];
    let parts: Vec<&str> = text.split(',').collect();
    if parts.len() > 3 {
        return Err("x, y and z at most".into());
    }
    for (slot, part) in sizes.iter_mut().zip(parts) {
        *slot = part.trim().parse().map_err(|_| format!("`{part}` is not an integer"))?;
    }
    Ok(sizes)
}

pub(super) fn bytes(text: &str) -> CommandResult<u64> {
    let (digits, shift) = match text.char_indices().last() {
        Some((at, 'K' | 'k')) => (&text[..at], 10),
        Some((at, 'M' | 'm')) => (&text[..at], 20),
        Some((at, 'G' | 'g')) => (&text[..at], 30),
        _ => (text, 0),
    };
    let number = digits.parse::<u64>().ok().and_then(|n| n.checked_mul(1 << shift));
    number.ok_or_else(|| format!("`{text}` is not a number of bytes").into())
}
