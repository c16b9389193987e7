//! NVRTC: compiles CUDA text to machine code of one architecture, in this process and without a toolkit. It needs no GPU.
//!
//! The app decides where to find the library: it passes [`Place`]s to try in order.

use std::ffi::{CStr, CString, c_char, c_int};
use std::path::PathBuf;
use std::sync::Arc;

use libloading::Library;

/// A candidate location of the library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// A path, or a bare name for the system's search.
    pub library: PathBuf,
    /// NVRTC opens its second library by bare name, which only works if the system's search finds it or it is open already.
    pub builtins: Option<PathBuf>,
}

/// The output of a compilation.
#[derive(Clone, Debug)]
pub struct Compiled {
    /// Machine code (a cubin) for the driver.
    pub cubin: Vec<u8>,
    /// Warnings, and output that `-v` options request.
    pub log: String,
}

/// Why there is no machine code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// NVRTC rejected the text; for generated text that is a bug in Clk.
    Rejected { log: String },
    /// A call that cannot fail on valid input failed with this `nvrtcResult`.
    Call { function: &'static str, code: i32, name: String },
}

/// The interface to a compiler: NVRTC, or a test's.
pub trait Compiler: Send + Sync {
    /// Returns major and minor version, which are a part of the cache key.
    fn version(&self) -> (i32, i32);

    /// See [`Nvrtc::compile`].
    fn compile(&self, source: &str, name: &str, architecture: u32, options: &[String]) -> Result<Compiled, Failure>;
}

impl Compiler for Nvrtc {
    fn version(&self) -> (i32, i32) {
        self.version
    }

    fn compile(&self, source: &str, name: &str, architecture: u32, options: &[String]) -> Result<Compiled, Failure> {
        Nvrtc::compile(self, source, name, architecture, options)
    }
}

type Handle = *mut std::ffi::c_void;
type Status = c_int;

/// The functions of the library that are used, named without the prefix `nvrtc`.
struct Functions {
    version: unsafe extern "C" fn(*mut c_int, *mut c_int) -> Status,
    error_name: unsafe extern "C" fn(Status) -> *const c_char,
    create: unsafe extern "C" fn(
        *mut Handle,
        *const c_char,
        *const c_char,
        c_int,
        *const *const c_char,
        *const *const c_char,
    ) -> Status,
    destroy: unsafe extern "C" fn(*mut Handle) -> Status,
    compile: unsafe extern "C" fn(Handle, c_int, *const *const c_char) -> Status,
    cubin: Getter,
    ptx: Getter,
    log: Getter,
    archs_count: unsafe extern "C" fn(*mut c_int) -> Status,
    archs: unsafe extern "C" fn(*mut c_int) -> Status,
}

/// The pair of functions that return an output's size and contents.
struct Getter {
    name: &'static str,
    size: unsafe extern "C" fn(Handle, *mut usize) -> Status,
    get: unsafe extern "C" fn(Handle, *mut c_char) -> Status,
}

const SUCCESS: Status = 0;
const COMPILATION_FAILED: Status = 6;

/// The open library.
#[derive(Clone)]
pub struct Nvrtc {
    functions: Arc<Functions>,
    version: (i32, i32),
    place: PathBuf,
}

impl Nvrtc {
    /// Opens the first location that works; `Err` has the reason for each that does not.
    pub fn open(places: &[Place]) -> Result<Nvrtc, Vec<String>> {
        let mut complaints = Vec::new();
        for place in places {
            match Self::open_one(place) {
                Ok(nvrtc) => return Ok(nvrtc),
                Err(why) => complaints.push(format!("{}: {why}", place.library.display())),
            }
        }
        Err(complaints)
    }

    fn open_one(place: &Place) -> Result<Nvrtc, String> {
        // SAFETY: NVRTC's initializers do not depend on the state of this process.
        let library = unsafe { Library::new(&place.library) }.map_err(|e| e.to_string())?;
        if let Some(builtins) = &place.builtins {
            // SAFETY: as above. If it is missing, compilation reports that, so a failure here needs no message of its own.
            if let Ok(builtins) = unsafe { Library::new(builtins) } {
                // Kept open until the process ends: NVRTC finds it by name only while it is open.
                std::mem::forget(builtins);
            }
        }
        let functions = functions(&library).map_err(|e| e.to_string())?;
        // Unloading NVRTC while another thread compiles would crash, and nothing is gained by it.
        std::mem::forget(library);
        let (mut major, mut minor) = (0, 0);
        // SAFETY: both point to integers.
        let status = unsafe { (functions.version)(&mut major, &mut minor) };
        if status != SUCCESS {
            return Err(format!("nvrtcVersion returns {status}"));
        }
        Ok(Nvrtc { functions: Arc::new(functions), version: (major, minor), place: place.library.clone() })
    }

    /// Returns major and minor version of CUDA.
    pub fn version(&self) -> (i32, i32) {
        self.version
    }

    /// Returns where it was found.
    pub fn place(&self) -> &std::path::Path {
        &self.place
    }

    /// Returns the architectures that it compiles for: 75 for `sm_75`.
    pub fn architectures(&self) -> Vec<u32> {
        let mut count = 0;
        // SAFETY: `count` is an integer.
        if unsafe { (self.functions.archs_count)(&mut count) } != SUCCESS {
            return vec![];
        }
        let mut found = vec![0; usize::try_from(count).unwrap_or(0)];
        // SAFETY: the list has the length that the library requested.
        if found.is_empty() || unsafe { (self.functions.archs)(found.as_mut_ptr()) } != SUCCESS {
            return vec![];
        }
        found.into_iter().filter_map(|arch| u32::try_from(arch).ok()).collect()
    }

    /// Compiles a text for `--gpu-architecture=sm_<architecture>`, if the options name no other. `name` is the file name in messages and line tables.
    pub fn compile(
        &self,
        source: &str,
        name: &str,
        architecture: u32,
        options: &[String],
    ) -> Result<Compiled, Failure> {
        let program = self.built(source, name, architecture, options)?;
        let cubin = program.text(&self.functions.cubin)?;
        let log = readable(program.text(&self.functions.log)?);
        Ok(Compiled { cubin, log })
    }

    /// Compiles a text to PTX, NVIDIA's assembly language, for people to read.
    pub fn ptx(&self, source: &str, name: &str, architecture: u32, options: &[String]) -> Result<String, Failure> {
        self.built(source, name, architecture, options)?.text(&self.functions.ptx).map(readable)
    }

    fn built(&self, source: &str, name: &str, architecture: u32, options: &[String]) -> Result<Program<'_>, Failure> {
        let (source, name) = (c_string(source), c_string(name));
        let mut program = Program { nvrtc: self, handle: std::ptr::null_mut() };
        let nothing = std::ptr::null();
        // SAFETY: both strings are zero-terminated and live until the call returns, which copies them; there are no headers.
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
            return Err(Failure::Rejected { log: readable(program.text(&self.functions.log)?) });
        }
        self.check("nvrtcCompileProgram", status)?;
        Ok(program)
    }

    fn check(&self, function: &'static str, status: Status) -> Result<(), Failure> {
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
        Err(Failure::Call { function, code: status, name })
    }
}

/// A program being compiled; destroyed on drop.
struct Program<'n> {
    nvrtc: &'n Nvrtc,
    handle: Handle,
}

impl Program<'_> {
    fn text(&self, getter: &Getter) -> Result<Vec<u8>, Failure> {
        let mut size = 0;
        // SAFETY: the program is alive.
        self.nvrtc.check(getter.name, unsafe { (getter.size)(self.handle, &mut size) })?;
        let mut bytes = vec![0u8; size];
        // SAFETY: the buffer has the size that the library requested.
        self.nvrtc.check(getter.name, unsafe { (getter.get)(self.handle, bytes.as_mut_ptr().cast()) })?;
        Ok(bytes)
    }
}

impl Drop for Program<'_> {
    fn drop(&mut self) {
        if !self.handle.is_null() {
            // SAFETY: it was created and is destroyed once.
            unsafe { (self.nvrtc.functions.destroy)(&mut self.handle) };
        }
    }
}

/// Returns a zero-terminated copy, cut at an interior zero, which no generated text has.
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

fn functions(library: &Library) -> Result<Functions, libloading::Error> {
    macro_rules! symbol {
        ($name:literal) => {
            // SAFETY: the types are those of `nvrtc.h`, unchanged since CUDA 11.
            *unsafe { library.get(concat!($name, "\0").as_bytes()) }?
        };
    }
    macro_rules! getter {
        ($size:literal, $get:literal) => {
            Getter { name: $get, size: symbol!($size), get: symbol!($get) }
        };
    }
    Ok(Functions {
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
