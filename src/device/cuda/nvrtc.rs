//! NVRTC: CUDA text to machine code of one architecture, in this process and without a toolkit. It needs no GPU.
//!
//! Where the library lies is the app's business: it gives [`Place`]s to try in order.

use std::ffi::{CStr, CString, c_char, c_int};
use std::path::PathBuf;
use std::sync::Arc;

use libloading::Library;

/// A copy of the library that may or may not be there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// A path, or a bare name for the system's search.
    pub library: PathBuf,
    /// NVRTC opens its second library by bare name, which only works if the system's search finds it or it is open already.
    pub builtins: Option<PathBuf>,
}

/// What a text became.
#[derive(Clone, Debug)]
pub struct Compiled {
    /// Machine code, as the driver loads it.
    pub cubin: Vec<u8>,
    /// Warnings, and what `-v` options ask the assembler to say.
    pub log: String,
}

/// Why there is no machine code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// NVRTC found mistakes in the text, which for generated text is a fault of Clk.
    Rejected { log: String },
    /// A call that cannot fail on sound input did, with this `nvrtcResult`.
    Call { function: &'static str, code: i32, name: String },
}

/// What the run time asks of a compiler: NVRTC, or a test's.
pub trait Compiler: Send + Sync {
    /// Major and minor, as a part of the names in the cache.
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

/// The functions of the library that are used, under their names without `nvrtc`.
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

/// The pair of functions that tell a text's size and write it.
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
    /// Opens the first of these that is there; `Err` says for each why it is not.
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
        // SAFETY: NVRTC's initialisers do nothing that depends on the state of this process.
        let library = unsafe { Library::new(&place.library) }.map_err(|e| e.to_string())?;
        if let Some(builtins) = &place.builtins {
            // SAFETY: as above. Without it compilation reports what is missing, so a failure here needs no message of its own.
            if let Ok(builtins) = unsafe { Library::new(builtins) } {
                // Open until the process ends: NVRTC finds it by name only while it is.
                std::mem::forget(builtins);
            }
        }
        let functions = functions(&library).map_err(|e| e.to_string())?;
        // Unloading NVRTC while another thread compiles would end badly, and nothing is gained by it.
        std::mem::forget(library);
        let (mut major, mut minor) = (0, 0);
        // SAFETY: both point to integers.
        let status = unsafe { (functions.version)(&mut major, &mut minor) };
        if status != SUCCESS {
            return Err(format!("nvrtcVersion returns {status}"));
        }
        Ok(Nvrtc { functions: Arc::new(functions), version: (major, minor), place: place.library.clone() })
    }

    /// Major and minor version of CUDA.
    pub fn version(&self) -> (i32, i32) {
        self.version
    }

    /// Where it was found.
    pub fn place(&self) -> &std::path::Path {
        &self.place
    }

    /// The architectures it compiles for: 75 for `sm_75`.
    pub fn architectures(&self) -> Vec<u32> {
        let mut count = 0;
        // SAFETY: `count` is an integer.
        if unsafe { (self.functions.archs_count)(&mut count) } != SUCCESS {
            return vec![];
        }
        let mut found = vec![0; usize::try_from(count).unwrap_or(0)];
        // SAFETY: the list has as many places as the library asked for.
        if found.is_empty() || unsafe { (self.functions.archs)(found.as_mut_ptr()) } != SUCCESS {
            return vec![];
        }
        found.into_iter().filter_map(|arch| u32::try_from(arch).ok()).collect()
    }

    /// Compiles a text for `--gpu-architecture=sm_<architecture>`. `name` is what messages and line tables call it.
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

    /// The same in NVIDIA's assembly language for people to read.
    pub fn ptx(&self, source: &str, name: &str, architecture: u32, options: &[String]) -> Result<String, Failure> {
        self.built(source, name, architecture, options)?.text(&self.functions.ptx).map(readable)
    }

    fn built(&self, source: &str, name: &str, architecture: u32, options: &[String]) -> Result<Program<'_>, Failure> {
        let (source, name) = (c_string(source), c_string(name));
        let mut program = Program { nvrtc: self, handle: std::ptr::null_mut() };
        let nothing = std::ptr::null();
        // SAFETY: both texts end in a zero and live until the call returns, which copies them; there are no headers.
        let status = unsafe {
            (self.functions.create)(&mut program.handle, source.as_ptr(), name.as_ptr(), 0, nothing, nothing)
        };
        self.check("nvrtcCreateProgram", status)?;
        let mut words = vec![c_string(&format!("--gpu-architecture=sm_{architecture}"))];
        words.extend(options.iter().map(|o| c_string(o)));
        let pointers: Vec<*const c_char> = words.iter().map(|w| w.as_ptr()).collect();
        // SAFETY: the program is alive and there are as many options as are said.
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
        // SAFETY: the library answers any number with a text of its own.
        let name = unsafe { (self.functions.error_name)(status) };
        let name = match name.is_null() {
            true => String::new(),
            // SAFETY: it is a text that lives as long as the library.
            false => unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned(),
        };
        Err(Failure::Call { function, code: status, name })
    }
}

/// One text on its way; destroyed when dropped.
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
        // SAFETY: there is room for as many bytes as the library asked for.
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

/// A text that ends in a zero; one inside, which no generated text has, would end it early.
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
    /// SAFETY of all calls: the types are those of `nvrtc.h`, which have been the same since CUDA 11.
    macro_rules! symbol {
        ($name:literal) => {
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
