//! `clk doc --html`: writes the documentation as a folder of static pages, that of Clk itself or that of programs.

use std::path::{Path, PathBuf};

use clap::{Arg, value_parser};

use super::check;
use crate::app::context::Context;
use crate::app::site::{self, Texts};
use crate::app::{disk, exit};
use crate::base::source::Sources;

/// Options of `clk doc`.
pub(crate) fn options() -> [Arg; 3] {
    let folder = |id: &'static str| Arg::new(id).long(id).value_name("FOLDER").value_parser(value_parser!(PathBuf));
    [
        folder("html").help("Write the documentation as web pages into FOLDER"),
        folder("from")
            .requires("html")
            .help("Read the manual's pages from this copy of Clk's repository [default: those in the binary]"),
        Arg::new("playground")
            .long("playground")
            .value_name("FILE")
            .value_parser(value_parser!(PathBuf))
            .requires("html")
            .conflicts_with("name")
            .help("Add a page that runs programs in the browser, by this simulator as WebAssembly"),
    ]
}

/// What the site of Clk itself is made of, where that is not in the binary.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Own {
    /// A copy of the repository.
    pub from: Option<PathBuf>,
    /// The simulator as WebAssembly.
    pub playground: Option<PathBuf>,
}

pub(crate) fn make(out: &Path, own: &Own, paths: &[PathBuf], context: &mut Context) -> u8 {
    let site = match made(own, paths, context) {
        Ok(site) => site,
        Err(code) => return code,
    };
    for complaint in &site.complaints {
        context.console.error_line(&format!("error: {complaint}"));
    }
    match site.write(out) {
        Ok(pages) => {
            context.console.fact(&format!("wrote {pages} pages; begin with {}", out.join("index.html").display()))
        }
        Err((path, why)) => {
            context.console.report(&disk::unwritable(&path, &why), &Sources::default());
            return exit::FAILURE;
        }
    }
    if site.complaints.is_empty() { exit::OK } else { exit::FAILURE }
}

/// Returns the content of a WebAssembly module.
fn simulator(path: &Path) -> Result<Vec<u8>, (PathBuf, String)> {
    let bytes = disk::read(path).map_err(|why| (path.to_path_buf(), why))?;
    let is_module = bytes.starts_with(b"\0asm");
    is_module.then_some(bytes).ok_or_else(|| (path.to_path_buf(), "it is no WebAssembly module".into()))
}

fn made(own: &Own, paths: &[PathBuf], context: &mut Context) -> Result<site::Site, u8> {
    if paths.is_empty() {
        let texts = match &own.from {
            None => Ok(Texts::embedded()),
            Some(root) => Texts::of_folder(root),
        };
        let simulator = own.playground.as_deref().map(simulator).transpose();
        return match texts.and_then(|texts| Ok((texts, simulator?))) {
            Ok((texts, simulator)) => Ok(site::make(&texts, simulator)),
            Err((path, why)) => {
                context.console.report(&disk::unreadable(&path, &why), &Sources::default());
                Err(exit::FAILURE)
            }
        };
    }
    let mut failed = false;
    let mut programs = Vec::new();
    for path in check::programs(paths, context, &mut failed) {
        match disk::read_source(&path) {
            Ok(text) => programs.push((path, text)),
            Err(why) => {
                failed = true;
                context.console.report(&disk::unreadable(&path, &why), &Sources::default());
            }
        }
    }
    if failed { Err(exit::FAILURE) } else { Ok(site::of_programs(&programs)) }
}
