//! `clk doc --html`: writes the documentation of Clk or of programs as a folder of static pages.

use std::path::{Path, PathBuf};

use clap::{Arg, value_parser};

use super::check;
use crate::context::AppContext;
use crate::site::{self, SiteSources};
use crate::{disk, exit};
use clk_base::file_error::FileError;
use clk_base::source::SourceMap;

/// Options of `clk doc` that concern the site.
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

/// Inputs for the site of Clk's own documentation that are not part of the binary.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct SiteInputs {
    /// The folder with a copy of the repository, whose pages replace those in the binary.
    pub from: Option<PathBuf>,
    /// The file with the simulator as a WebAssembly module.
    pub playground: Option<PathBuf>,
}

pub(crate) fn make(out: &Path, own: &SiteInputs, paths: &[PathBuf], context: &mut AppContext) -> u8 {
    let site = match build(own, paths, context) {
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
            context.console.report(&disk::unwritable(&path, &why), &SourceMap::default());
            return exit::FAILURE;
        }
    }
    if site.complaints.is_empty() { exit::OK } else { exit::FAILURE }
}

/// Reads a WebAssembly module; on failure, returns the path and the error.
fn simulator(path: &Path) -> Result<Vec<u8>, (PathBuf, FileError)> {
    let bytes = disk::read(path).map_err(|why| (path.to_path_buf(), why))?;
    let is_module = bytes.starts_with(b"\0asm");
    is_module.then_some(bytes).ok_or_else(|| (path.to_path_buf(), FileError::Refused("it is not a WebAssembly module")))
}

fn build(own: &SiteInputs, paths: &[PathBuf], context: &mut AppContext) -> Result<site::Website, u8> {
    if paths.is_empty() {
        let texts = match &own.from {
            None => Ok(SiteSources::embedded()),
            Some(root) => SiteSources::of_folder(root),
        };
        let simulator = own.playground.as_deref().map(simulator).transpose();
        return match texts.and_then(|texts| Ok((texts, simulator?))) {
            Ok((texts, simulator)) => Ok(site::make(&texts, simulator)),
            Err((path, why)) => {
                context.console.report(&disk::unreadable(&path, &why), &SourceMap::default());
                Err(exit::FAILURE)
            }
        };
    }
    let mut failed = false;
    let mut programs = Vec::new();
    for path in check::program_files(paths, context, &mut failed) {
        match disk::read_source(&path) {
            Ok(text) => programs.push((path, text)),
            Err(why) => {
                failed = true;
                context.console.report(&disk::unreadable(&path, &why), &SourceMap::default());
            }
        }
    }
    if failed { Err(exit::FAILURE) } else { Ok(site::of_programs(&programs)) }
}
