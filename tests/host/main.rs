//! Tests scripts: arrays, files, caches and the interpreter of the host.

mod array_functions;
mod caches;
mod dynamic_types;
mod file_formats;
mod files;
mod files_numpy;
mod files_scipy;
mod fuzz_loaders;
mod host;
mod host_code;
mod linear_algebra;
mod plots;
mod scripts;
mod unused_values;
