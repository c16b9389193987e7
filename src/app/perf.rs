//! The file by which `perf report` names the machine code of kernels: `/tmp/perf-PID.map`, with a line `START SIZE NAME` for each
//! region.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::{Mutex, PoisonError};

use super::disk;
use crate::device::sim::{Listener, Symbol};

/// The environment variable that asks for the file.
pub(crate) const VARIABLE: &str = "CLK_SIM_PERF";

/// Whether the file is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Wanted(pub bool);

impl FromStr for Wanted {
    type Err = String;

    fn from_str(text: &str) -> Result<Wanted, String> {
        match text {
            "0" => Ok(Wanted(false)),
            "1" => Ok(Wanted(true)),
            _ => Err(format!("it is 1, to write a map for `perf`, or 0; not `{text}`")),
        }
    }
}

/// Returns a listener that writes the file of this process. It is created for the first region.
pub(crate) fn writer() -> Listener {
    let path = PathBuf::from(format!("/tmp/perf-{}.map", std::process::id()));
    let file: Mutex<Option<Option<File>>> = Mutex::default();
    Box::new(move |symbol| {
        let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
        let open = file.get_or_insert_with(|| create(&path).map_err(|why| note(&path, &why)).ok());
        if let Some(into) = open
            && let Err(why) = into.write_all(line(symbol).as_bytes())
        {
            note(&path, &why);
            *open = None;
        }
    })
}

/// Creates the file. One of an earlier process with the same number is replaced; what a link of this name points to is left alone.
fn create(path: &Path) -> io::Result<File> {
    let fresh = || OpenOptions::new().write(true).create_new(true).open(path);
    match fresh() {
        Err(why) if why.kind() == ErrorKind::AlreadyExists => fs::remove_file(path).and_then(|()| fresh()),
        result => result,
    }
}

fn note(path: &Path, why: &io::Error) {
    eprintln!("note: `{}` is not written, so `perf` cannot name machine code: {}", path.display(), disk::reason(why));
}

fn line(symbol: &Symbol) -> String {
    format!("{:x} {:x} {}\n", symbol.address, symbol.bytes, symbol.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_as_perf_reads_them() {
        let symbol = Symbol { name: "clk:saxpy:2#0".into(), address: 0x7f00_1000, bytes: 0xa3 };
        assert_eq!(line(&symbol), "7f001000 a3 clk:saxpy:2#0\n");
    }

    #[test]
    fn a_link_is_replaced_and_not_followed() {
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
