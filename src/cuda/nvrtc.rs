//! NVRTC: compiles CUDA C++ to machine code for one architecture, in this process and without a toolkit or a GPU. The
//! app passes the candidate locations of the library as [`NvrtcPath`]s, which are tried in order.

use std::ffi::{CStr, CString, c_char, c_int};
use std::path::PathBuf;
use std::sync::Arc;

use libloading::Library;

/// A candidate location of the library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NvrtcPath {
    /// A path, or a file name that the system's library search finds.
    pub library: PathBuf,
    /// Path of the library that NVRTC itself opens by file name. It is opened first, because NVRTC finds it only if it
    /// is already open or the system's library search finds it.
    pub builtins: Option<PathBuf>,
}

/// The output of a compilation.
#[derive(Clone, Debug)]
pub struct NvrtcOutput {
    /// Machine code (a cubin) for the driver.
    pub cubin: Vec<u8>,
    /// Warnings, and output that `-v` options request.
    pub log: String,
}

/// The reason why NVRTC has produced no machine code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NvrtcError {
    /// NVRTC rejected the source. For generated code, this is a bug in Clk.
    Rejected { log: String },
    /// A call that cannot fail for valid input failed with this `nvrtcResult`.
    Call { function: &'static str, code: i32, name: String },
}

/// The reason why a library cannot be used as NVRTC.
#[derive(Debug, thiserror::Error)]
enum NvrtcOpenError {
    #[error(transparent)]
    Library(#[from] libloading::Error),
    #[error("nvrtcVersion returns {0}")]
    Version(NvrtcStatus),
}

/// The interface to a CUDA compiler: NVRTC, or a fake compiler in tests.
pub trait CudaCompiler: Send + Sync {
    /// Returns the compiler's major and minor version, which are part of the cache key.
    fn version(&self) -> (i32, i32);

    /// See [`Nvrtc::compile`].
    fn compile(
        &self,
        source: &str,
        name: &str,
        architecture: u32,
        options: &[String],
    ) -> Result<NvrtcOutput, NvrtcError>;
}

impl CudaCompiler for Nvrtc {
    fn version(&self) -> (i32, i32) {
        self.version
    }

    fn compile(
        &self,
        source: &str,
        name: &str,
        architecture: u32,
        options: &[String],
    ) -> Result<NvrtcOutput, NvrtcError> {
        Nvrtc::compile(self, source, name, architecture, options)
    }
}

type ProgramHandle = *mut std::ffi::c_void;
type NvrtcStatus = c_int;

/// The functions of the library that Clk calls, named without the prefix `nvrtc`.
struct NvrtcFunctions {
    version: unsafe extern "C" fn(*mut c_int, *mut c_int) -> NvrtcStatus,
    error_name: unsafe extern "C" fn(NvrtcStatus) -> *const c_char,
    create: unsafe extern "C" fn(
        *mut ProgramHandle,
        *const c_char,
        *const c_char,
        c_int,
        *const *const c_char,
        *const *const c_char,
    ) -> NvrtcStatus,
    destroy: unsafe extern "C" fn(*mut ProgramHandle) -> NvrtcStatus,
    compile: unsafe extern "C" fn(ProgramHandle, c_int, *const *const c_char) -> NvrtcStatus,
    cubin: Getter,
    ptx: Getter,
    log: Getter,
    archs_count: unsafe extern "C" fn(*mut c_int) -> NvrtcStatus,
    archs: unsafe extern "C" fn(*mut c_int) -> NvrtcStatus,
}

/// The two functions that return the size and the contents of one of NVRTC's outputs.
struct Getter {
    name: &'static str,
    size: unsafe extern "C" fn(ProgramHandle, *mut usize) -> NvrtcStatus,
    get: unsafe extern "C" fn(ProgramHandle, *mut c_char) -> NvrtcStatus,
}

const SUCCESS: NvrtcStatus = 0;
const COMPILATION_FAILED: NvrtcStatus = 6;

/// The NVRTC library, which has been opened.
#[derive(Clone)]
pub struct Nvrtc {
    functions: Arc<NvrtcFunctions>,
    version: (i32, i32),
    place: PathBuf,
}

impl Nvrtc {
    /// Opens the library at the first location where this succeeds. The error has the reason for each location.
    pub fn open(places: &[NvrtcPath]) -> Result<Nvrtc, Vec<String>> {
        let mut complaints = Vec::new();
        for place in places {
            match Self::open_one(place) {
                Ok(nvrtc) => return Ok(nvrtc),
                Err(why) => complaints.push(format!("{}: {why}", place.library.display())),
            }
        }
        Err(complaints)
    }

    fn open_one(place: &NvrtcPath) -> Result<Nvrtc, NvrtcOpenError> {
        // SAFETY: NVRTC's initializers do not depend on the state of this process.
        let library = unsafe { Library::new(&place.library) }?;
        if let Some(builtins) = &place.builtins {
            // Ignore an error: compilation reports a missing library. SAFETY: as above.
            if let Ok(builtins) = unsafe { Library::new(builtins) } {
                // Never close the library, because NVRTC finds it by name only while it is open.
                std::mem::forget(builtins);
            }
        }
        let functions = functions(&library)?;
        // Never unload NVRTC: this would crash if another thread compiles, and has no benefit.
        std::mem::forget(library);
        let (mut major, mut minor) = (0, 0);
        // SAFETY: both arguments point to integers.
        let status = unsafe { (functions.version)(&mut major, &mut minor) };
        if status != SUCCESS {
            return Err(NvrtcOpenError::Version(status));
        }
        Ok(Nvrtc { functions: Arc::new(functions), version: (major, minor), place: place.library.clone() })
    }

    /// Returns the major and minor version of NVRTC's CUDA release.
    pub fn version(&self) -> (i32, i32) {
        self.version
    }

    /// Returns the location at which the library was found.
    pub fn place(&self) -> &std::path::Path {
        &self.place
    }

    /// Returns the architectures for which NVRTC compiles, as numbers such as 75 for `sm_75`.
    pub fn architectures(&self) -> Vec<u32> {
        let mut count = 0;
        // SAFETY: `count` is an integer.
        if unsafe { (self.functions.archs_count)(&mut count) } != SUCCESS {
            return vec![];
        }
        let mut numbers = vec![0; usize::try_from(count).unwrap_or(0)];
        // SAFETY: the list has the length that the library requested.
        if numbers.is_empty() || unsafe { (self.functions.archs)(numbers.as_mut_ptr()) } != SUCCESS {
            return vec![];
        }
        numbers.into_iter().filter_map(|arch| u32::try_from(arch).ok()).collect()
    }

    /// Compiles a source with `--gpu-architecture=sm_<architecture>`, unless the options contain a different
    /// architecture. `name` is the file name in messages and line tables.
    pub fn compile(
        &self,
        source: &str,
        name: &str,
        architecture: u32,
        options: &[String],
    ) -> Result<NvrtcOutput, NvrtcError> {
        let program = self.build_program(source, name, architecture, options)?;
        let cubin = program.text(&self.functions.cubin)?;
        let log = readable(program.text(&self.functions.log)?);
        Ok(NvrtcOutput { cubin, log })
    }

    /// Compiles a source to PTX, NVIDIA's assembly language, for people to read.
    pub fn ptx(&self, source: &str, name: &str, architecture: u32, options: &[String]) -> Result<String, NvrtcError> {
        self.build_program(source, name, architecture, options)?.text(&self.functions.ptx).map(readable)
    }

    fn build_program(
        &self,
        source: &str,
        name: &str,
        architecture: u32,
        options: &[String],
    ) -> Result<NvrtcProgram<'_>, NvrtcError> {
        let (source, name) = (c_string(source), c_string(name));
        let mut program = NvrtcProgram { nvrtc: self, handle: std::ptr::null_mut() };
        let nothing = std::ptr::null();
        // SAFETY: both strings are zero-terminated and live until the call returns. The call copies them. There are no
        // headers.
        let status = unsafe {
            (self.functions.create)(&mut program.handle, source.as_ptr(), name.as_ptr(), 0, nothing, nothing)
        };
        self.check("nvrtcCreateProgram", status)?;
        let own = format!("--gpu-architecture=sm_{architecture}");
        let is_named = options.iter().any(|option| option.starts_with("--gpu-architecture="));
        let words = (!is_named).then_some(&own).into_iter().chain(options);
        let words: Vec<CString> = words.map(|word| c_string(word)).collect();
        let pointers: Vec<*const c_char> = words.iter().map(|w| w.as_ptr()).collect();
        // SAFETY: the program is alive and the number of options is correct.
        let status = unsafe { (self.functions.compile)(program.handle, pointers.len() as c_int, pointers.as_ptr()) };
        if status == COMPILATION_FAILED {
            return Err(NvrtcError::Rejected { log: readable(program.text(&self.functions.log)?) });
        }
        self.check("nvrtcCompileProgram", status)?;
        Ok(program)
    }

    fn check(&self, function: &'static str, status: NvrtcStatus) -> Result<(), NvrtcError> {
        if status == SUCCESS {
            return Ok(());
        }
        // SAFETY: the library returns a static string for any number.
        let name = unsafe { (self.functions.error_name)(status) };
        let name = match name.is_null() {
            true => String::new(),
            // SAFETY: the string lives as long as the library.
            false => unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned(),
        };
        Err(NvrtcError::Call { function, code: status, name })
    }
}

/// NVRTC's handle of a program that is being compiled. Dropping destroys it.
struct NvrtcProgram<'n> {
    nvrtc: &'n Nvrtc,
    handle: ProgramHandle,
}

impl NvrtcProgram<'_> {
    fn text(&self, getter: &Getter) -> Result<Vec<u8>, NvrtcError> {
        let mut size = 0;
        // SAFETY: the program is alive.
        self.nvrtc.check(getter.name, unsafe { (getter.size)(self.handle, &mut size) })?;
        let mut bytes = vec![0u8; size];
        // SAFETY: the buffer has the size that the library requested.
        self.nvrtc.check(getter.name, unsafe { (getter.get)(self.handle, bytes.as_mut_ptr().cast()) })?;
        Ok(bytes)
    }
}

impl Drop for NvrtcProgram<'_> {
    fn drop(&mut self) {
        if !self.handle.is_null() {
            // SAFETY: the program was created, and this is the only place that destroys it.
            unsafe { (self.nvrtc.functions.destroy)(&mut self.handle) };
        }
    }
}

/// Returns a zero-terminated copy of the text, truncated at the first zero byte. Generated code contains no zero bytes.
fn c_string(text: &str) -> CString {
    let bytes: Vec<u8> = text.bytes().take_while(|&b| b != 0).collect();
    CString::new(bytes).unwrap_or_default()
}

fn readable(mut bytes: Vec<u8>) -> String {
    while bytes.last() == Some(&0) {
        bytes.pop();
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn functions(library: &Library) -> Result<NvrtcFunctions, libloading::Error> {
    macro_rules! symbol {
        ($name:literal) => {
            // SAFETY: the types are those in `nvrtc.h`, which have not changed since CUDA 11.
            *unsafe { library.get(concat!($name, "\0").as_bytes()) }?
        };
    }
    macro_rules! getter {
        ($size:literal, $get:literal) => {
            Getter { name: $get, size: symbol!($size), get: symbol!($get) }
        };
    }
    Ok(NvrtcFunctions {
        version: symbol!("nvrtcVersion"),
        error_name: symbol!("nvrtcGetErrorString"),
        create: symbol!("nvrtcCreateProgram"),
        destroy: symbol!("nvrtcDestroyProgram"),
        compile: symbol!("nvrtcCompileProgram"),
        cubin: getter!("nvrtcGetCUBINSize", "nvrtcGetCUBIN"),
        ptx: getter!("nvrtcGetPTXSize", "nvrtcGetPTX"),
        log: getter!("nvrtcGetProgramLogSize", "nvrtcGetProgramLog"),
        archs_count: symbol!("nvrtcGetNumSupportedArchs"),
        archs: symbol!("nvrtcGetSupportedArchs"),
    })
}
