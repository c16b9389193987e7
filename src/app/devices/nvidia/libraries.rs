//! Finds NVRTC, NCCL and the tools of the CUDA toolkit: at the location set by the user, on the system's search path,
//! in toolkits and in Python packages.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use clk_cuda::nvrtc::NvrtcPath;

/// The environment variable with the path of NVRTC or of the directory that contains it.
pub(crate) const VARIABLE: &str = "CLK_NVRTC";

/// File names of NVRTC, newest version first.
const NAMES: &[&str] = &["libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"];

/// Returns the paths at which to look for NVRTC, in order. If [`VARIABLE`] is set, it is the only one.
pub fn nvrtc_places() -> Vec<NvrtcPath> {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    if let Some(configured) = variable(VARIABLE) {
        let configured = PathBuf::from(configured);
        return if configured.is_dir() { in_folder(&configured) } else { vec![place(configured)] };
    }
    let mut places: Vec<NvrtcPath> =
        NAMES.iter().map(|name| NvrtcPath { library: name.into(), builtins: None }).collect();
    places.extend(folders(variable).iter().flat_map(|folder| in_folder(folder)));
    places
}

/// The environment variable with the path of NCCL or of the directory that contains it.
pub(crate) const NCCL: &str = "CLK_NCCL";

/// Returns the paths at which to look for NCCL, in order. If [`NCCL`] is set, it is the only one.
pub(crate) fn nccl_places() -> Vec<PathBuf> {
    const NAME: &str = "libnccl.so.2";
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    if let Some(named) = variable(NCCL).map(PathBuf::from) {
        return vec![if named.is_dir() { named.join(NAME) } else { named }];
    }
    let existing = folders(variable).into_iter().map(|folder| folder.join(NAME)).filter(|file| file.is_file());
    std::iter::once(PathBuf::from(NAME)).chain(existing).collect()
}

/// Returns the library directories of CUDA toolkits and Python packages that exist.
fn folders(variable: impl Fn(&str) -> Option<OsString>) -> Vec<PathBuf> {
    let mut directories = Vec::new();
    let toolkits = ["CUDA_HOME", "CUDA_PATH"].iter().filter_map(|name| variable(name)).map(PathBuf::from);
    for toolkit in toolkits.chain(children(Path::new("/usr/local"), "cuda")) {
        directories.push(toolkit.join("lib64"));
        directories.push(toolkit.join("targets/x86_64-linux/lib"));
    }
    let mut pythons: Vec<PathBuf> =
        ["VIRTUAL_ENV", "CONDA_PREFIX"].iter().filter_map(|n| variable(n)).map(PathBuf::from).collect();
    // The packages of a Python installation are in a directory relative to its `bin/python3`.
    for folder in variable("PATH").iter().flat_map(std::env::split_paths) {
        if let Ok(python) = fs::canonicalize(folder.join("python3"))
            && let Some(root) = python.parent().and_then(Path::parent)
        {
            pythons.extend(folder.parent().map(Path::to_path_buf));
            pythons.push(root.to_path_buf());
        }
    }
    pythons.extend(variable("HOME").map(|home| PathBuf::from(home).join(".local")));
    pythons.extend(["/usr/local", "/usr"].map(PathBuf::from));
    for root in pythons {
        for python in children(&root.join("lib"), "python3") {
            for packages in ["site-packages", "dist-packages"] {
                let nvidia = python.join(packages).join("nvidia");
                directories
                    .extend(["cu13/lib", "cuda_nvrtc/lib", "cu12/lib", "nccl/lib"].map(|inner| nvidia.join(inner)));
            }
        }
    }
    directories.retain(|folder| folder.is_dir());
    let mut distinct = std::collections::BTreeSet::new();
    directories.retain(|folder| distinct.insert(folder.clone()));
    directories
}

/// Returns the first of these programs found on PATH, in a toolkit or in a Python package.
pub fn tool(names: &[&str]) -> Option<PathBuf> {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let path = variable("PATH");
    let mut places: Vec<PathBuf> = path.iter().flat_map(std::env::split_paths).collect();
    // Libraries are in `lib` or `lib64`; programs are in `bin` in the same parent directory.
    places.extend(folders(variable).iter().filter_map(|lib| Some(lib.parent()?.join("bin"))));
    names.iter().find_map(|name| places.iter().map(|folder| folder.join(name)).find(|file| file.is_file()))
}

/// Returns the entries of a directory whose names begin with a text, in descending order.
fn children(folder: &Path, beginning: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut sorted: Vec<PathBuf> =
        entries.filter(|e| e.file_name().to_string_lossy().starts_with(beginning)).map(|e| e.path()).collect();
    sorted.sort();
    sorted.reverse();
    sorted
}

fn in_folder(folder: &Path) -> Vec<NvrtcPath> {
    NAMES.iter().map(|name| folder.join(name)).filter(|path| path.exists()).map(place).collect()
}

/// Returns a candidate path of NVRTC, together with the `libnvrtc-builtins` library in the same directory.
fn place(library: PathBuf) -> NvrtcPath {
    let builtins = library.parent().and_then(|folder| children(folder, "libnvrtc-builtins.so").into_iter().next());
    NvrtcPath { library, builtins }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_and_toolkits_are_found() {
        let root = tempfile::tempdir().expect("a folder");
        let package = root.path().join("lib/python3.11/site-packages/nvidia/cu13/lib");
        let toolkit = root.path().join("cuda/lib64");
        for folder in [&package, &toolkit] {
            fs::create_dir_all(folder).expect("a folder");
            fs::write(folder.join("libnvrtc.so.13"), "").expect("a file");
            fs::write(folder.join("libnvrtc-builtins.so.13.0"), "").expect("a file");
        }
        let directories = folders(|name| match name {
            "CUDA_HOME" => Some(root.path().join("cuda").into_os_string()),
            "VIRTUAL_ENV" => Some(root.path().as_os_str().to_os_string()),
            _ => None,
        });
        let at = |folder: &PathBuf| directories.iter().position(|f| f == folder).expect("found");
        assert!(at(&toolkit) < at(&package));
        let places = in_folder(&package);
        assert_eq!(places.len(), 1);
        assert_eq!(places[0].builtins, Some(package.join("libnvrtc-builtins.so.13.0")));
    }
}
