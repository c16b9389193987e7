//! `clk import`: translates the kernels of a CUDA C++ file to Clk.

use std::path::Path;

use crate::context::AppContext;
use crate::{cuda_files, disk, exit};
use clk_base::source::SourceMap;

pub(crate) fn file(path: &Path, output: Option<&Path>, context: &mut AppContext) -> u8 {
    let mut sources = SourceMap::default();
    let Some(translation) = cuda_files::translate(path, &mut sources, &mut context.console) else {
        context.console.summary();
        return exit::FAILURE;
    };
    match output {
        None => context.console.print(&translation.text),
        Some(output) => {
            if let Err(why) = disk::write_atomically(output, translation.text.as_bytes()) {
                context.console.report(&disk::unwritable(output, &why), &sources);
                return exit::FAILURE;
            }
        }
    }
    context.console.summary();
    if translation.refused.is_empty() { exit::OK } else { exit::FAILURE }
}
