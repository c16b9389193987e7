//! Writes the file `/tmp/perf-PID.map`, from which `perf report` reads the names of kernels' machine code. Each line is
//! `START SIZE NAME` for one region.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::{Mutex, PoisonError};

use crate::command_error::{CommandError, CommandResult};
use clk_base::file_error::FileError;
use clk_sim::{CodeSymbol, Listener};

/// The environment variable that enables writing the file.
pub(crate) const VARIABLE: &str = "CLK_SIM_PERF";

/// Whether to write the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PerfMapOption(pub bool);

impl FromStr for PerfMapOption {
    type Err = CommandError;

    fn from_str(text: &str) -> CommandResult<PerfMapOption> {
        match text {
            "0" => Ok(PerfMapOption(false)),
            "1" => Ok(PerfMapOption(true)),
            _ => Err(format!("it is 1, to write a map for `perf`, or 0; not `{text}`").into()),
        }
    }
}

/// Returns a listener that writes each region of machine code to this process's file. The first region creates the
/// file.
pub(crate) fn writer() -> Listener {
    let path = PathBuf::from(format!("/tmp/perf-{}.map", std::process::id()));
    let file: Mutex<Option<Option<File>>> = Mutex::default();
    Box::new(move |symbol| {
        let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
        let open = file.get_or_insert_with(|| create(&path).map_err(|why| note(&path, why)).ok());
        if let Some(into) = open
            && let Err(why) = into.write_all(line(symbol).as_bytes())
        {
            note(&path, why);
            *open = None;
        }
    })
}

/// Creates the file. Replaces the file of an earlier process with the same process number. A symbolic link is replaced,
/// not followed.
fn create(path: &Path) -> io::Result<File> {
    let fresh = || OpenOptions::new().write(true).create_new(true).open(path);
    match fresh() {
        Err(why) if why.kind() == ErrorKind::AlreadyExists => fs::remove_file(path).and_then(|()| fresh()),
        result => result,
    }
}

fn note(path: &Path, why: io::Error) {
    eprintln!(
        "note: `{}` is not written, so `perf` cannot name machine code: {}",
        path.display(),
        FileError::from(why)
    );
}

fn line(symbol: &CodeSymbol) -> String {
    format!("{:x} {:x} {}\n", symbol.address, symbol.bytes, symbol.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_match_the_format_of_perf() {
        let symbol = CodeSymbol { name: "clk:saxpy:2#0".into(), address: 0x7f00_1000, bytes: 0xa3 };
        assert_eq!(line(&symbol), "7f001000 a3 clk:saxpy:2#0\n");
    }

    #[test]
    fn link_is_replaced_and_not_followed() {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, other) = (folder.path().join("perf.map"), folder.path().join("mine"));
        fs::write(&other, "mine").expect("written");
        #[cfg(unix)]
        std::os::unix::fs::symlink(&other, &path).expect("linked");
        create(&path).expect("created").write_all(b"1 2 f\n").expect("written");
        assert_eq!(fs::read_to_string(&other).expect("read"), "mine");
        create(&path).expect("created again");
        assert_eq!(fs::read_to_string(&path).expect("read"), "");
    }
}
