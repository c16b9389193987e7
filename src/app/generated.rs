//! The generated code of a kernel, for `clk emit` and sessions: IR, CUDA text, PTX or machine instructions, with its resource
//! usage.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

use super::disk::temporary::Folder;
use super::gradient;
use super::libraries;
use crate::base::diag::Diagnostic;
use crate::base::source::Sources;
use crate::check::typed::{Bound, ExprKind, FnRef, Generic, GenericKind, Kernel, KernelId, Type};
use crate::compile::{self, Session};
use crate::device::cuda::cubin::{self, Resources};
use crate::device::cuda::driver::nvidia;
use crate::device::cuda::nvrtc::{self, Nvrtc};
use crate::device::cuda::text::{CudaKernel, Options, cuda_text, usual_options};
use crate::device::sim::lanes_text;
use crate::host::interp::constant_block;
use crate::ir::{self, Checks, Prepared};
use crate::lang::scalar::{Scalar, Value};
use crate::lower::{Argument, Function, Instance, Sums};

/// A stage of code generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    Ir,
    /// The derivative, as source.
    Grad,
    /// LaneIR, which the simulator makes machine code of.
    Lanes,
    Cuda,
    Ptx,
    /// Machine instructions of the GPU.
    Sass,
}

/// Why there is no generated code.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The program has errors.
    Program(Vec<Diagnostic>),
    /// A compile-time parameter of the kernel has no default, so the kernel cannot be instantiated.
    Open,
    /// A library or a tool is missing or failed: the problem and its remedy. `shown` is the output up to that point.
    Tool { what: String, help: String, shown: String },
    /// An internal error of Clk.
    Internal(String),
}

/// The compute capability when none is given and the machine has no GPU.
const USUAL_ARCHITECTURE: u32 = 90;

/// Generates code for kernels; opens NVRTC on first use.
pub(crate) struct Generator {
    options: Options,
    /// What the simulator looks for, as far as that shows: in LaneIR.
    checks: Checks,
    /// How `mma` adds.
    sums: Sums,
    /// Whether the run names the tensor cores whose bits that is, and so relies on what is published of them.
    relies: bool,
    /// The compute capability, 90 for `sm_90`; by default that of the first GPU.
    architecture: Option<u32>,
    nvrtc: OnceLock<Result<Nvrtc, Vec<String>>>,
}

impl Generator {
    pub fn new(options: Options, architecture: Option<u32>) -> Generator {
        Generator {
            options,
            checks: Checks::default(),
            sums: Sums::default(),
            relies: false,
            architecture,
            nvrtc: OnceLock::new(),
        }
    }

    /// Returns the generator for launches with these checks.
    pub fn checking(self, checks: Checks) -> Generator {
        Generator { checks, ..self }
    }

    /// Returns the generator for launches in which `mma` adds like this; `relies` says that the run names a model of tensor cores.
    pub fn adding(self, sums: Sums, relies: bool) -> Generator {
        Generator { sums, relies, ..self }
    }

    /// Generates the code of a kernel, with defaults or typical types as its compile-time arguments. With `lines`, CUDA text and
    /// machine code carry line information.
    pub fn kernel(&self, session: &Session, id: KernelId, level: Level, lines: bool) -> Result<String, Failure> {
        let kernel = &session.program.kernels[id];
        let arguments: Option<Vec<Argument>> = kernel.sig.generics.iter().map(stand_in).collect();
        let instance = Instance { sums: self.sums, ..Instance::new(id, arguments.ok_or(Failure::Open)?) };
        if level == Level::Grad {
            return gradient::text(session, &instance).map_err(Failure::Program);
        }
        let checks = if level == Level::Lanes { self.checks } else { Checks::default() };
        let prepared = compile::kernel(&session.program, &instance, checks).map_err(Failure::Program)?;
        let named = lines.then_some(&session.sources);
        match level {
            Level::Ir | Level::Grad => Ok(ir::text::print(&prepared.module)),
            Level::Lanes => Ok(lanes_text(&prepared, &session.sources)),
            // What launches run whose blocks are the signature's, and whose arrays have rows of whole boxes.
            Level::Cuda | Level::Ptx | Level::Sass => {
                let block = constant_block(&session.program, &session.program.kernels[id]);
                let options = Options { block, ..self.options.clone() };
                let options = usual_options(&prepared, options, self.architecture(), self.relies);
                match level {
                    Level::Cuda => Ok(cuda_text(&prepared, &options, named).text),
                    _ => self.machine(&prepared, &options, &session.sources, level, lines),
                }
            }
        }
    }

    /// Returns what NVRTC says of a kernel that has no compile-time parameters: registers, spills, shared memory. `None` if there is no NVRTC, or
    /// it refuses.
    pub fn resources(&self, session: &Session, id: KernelId) -> Option<crate::profile::Resources> {
        let prepared = compile::kernel(&session.program, &Instance::new(id, vec![]), Checks::default()).ok()?;
        let nvrtc = self.nvrtc().ok()?;
        let architecture = self.architecture();
        let block = constant_block(&session.program, &session.program.kernels[id]);
        let kernel = cuda_text(&prepared, &Options { block, ..self.options.clone() }, None);
        let mut flags = kernel.options.flags();
        flags.push("--ptxas-options=-v".into());
        let compiled = nvrtc.compile(&kernel.text, &format!("{}.cu", kernel.entry), architecture, &flags).ok()?;
        let found = cubin::resources(&compiled.cubin, architecture).into_iter().find(|r| r.kernel == kernel.entry)?;
        let spilled = spills(&compiled.log, &kernel.entry).map_or(0, |(stores, loads)| stores + loads);
        Some(crate::profile::Resources { registers: found.registers, spilled, shared: found.shared })
    }

    /// Returns PTX or SASS, preceded by a comment with the resource usage.
    fn machine(
        &self,
        prepared: &Prepared,
        options: &Options,
        sources: &Sources,
        level: Level,
        lines: bool,
    ) -> Result<String, Failure> {
        let nvrtc = self.nvrtc()?;
        let architecture = self.architecture();
        let known = nvrtc.architectures();
        if !known.contains(&architecture) {
            let known: Vec<String> = known.iter().map(|a| format!("sm_{a}")).collect();
            return Err(tool(
                format!("NVRTC {}.{} knows no sm_{architecture}", nvrtc.version().0, nvrtc.version().1),
                format!("it knows {}", known.join(", ")),
            ));
        }
        let kernel = cuda_text(prepared, options, lines.then_some(sources));
        let mut flags = kernel.options.flags();
        flags.extend(lines.then(|| "-lineinfo".into()));
        let name = format!("{}.cu", kernel.entry);
        let refused = |failure| Failure::Internal(rejection(failure));
        let ptx = match level {
            Level::Ptx => nvrtc.ptx(&kernel.text, &name, architecture, &flags).map_err(refused)?,
            _ => String::new(),
        };
        flags.push("--ptxas-options=-v".into());
        let compiled = nvrtc.compile(&kernel.text, &name, architecture, &flags).map_err(refused)?;
        let shown = table(&kernel, &compiled.cubin, &compiled.log, architecture);
        if level == Level::Ptx {
            return Ok(shown + ptx.trim_end() + "\n");
        }
        match disassembled(&compiled.cubin, lines) {
            Ok(text) => Ok(shown + &text),
            Err((what, help)) => Err(Failure::Tool { what, help, shown }),
        }
    }

    fn nvrtc(&self) -> Result<&Nvrtc, Failure> {
        let opened = self.nvrtc.get_or_init(|| Nvrtc::open(&libraries::nvrtc_places()));
        opened.as_ref().map_err(|complaints| {
            let tried = complaints.first().map(|first| format!(" ({first})")).unwrap_or_default();
            tool(
                format!("NVIDIA's compiler NVRTC is not found{tried}"),
                "`pip install nvidia-cuda-nvrtc` brings it, `CLK_NVRTC` names its folder; no GPU is needed".into(),
            )
        })
    }

    fn architecture(&self) -> u32 {
        self.architecture.unwrap_or_else(|| nvidia::probe(0).map_or(USUAL_ARCHITECTURE, |gpu| gpu.architecture))
    }
}

fn tool(what: String, help: String) -> Failure {
    Failure::Tool { what, help, shown: String::new() }
}

fn rejection(failure: nvrtc::Failure) -> String {
    match failure {
        nvrtc::Failure::Rejected { log } => format!("NVRTC refuses the text\n{log}"),
        nvrtc::Failure::Call { function, name, .. } => format!("{function} says {name}"),
    }
}

/// Returns the resource usage of a kernel as comment lines.
fn table(kernel: &CudaKernel, file: &[u8], log: &str, architecture: u32) -> String {
    let mut text = String::new();
    let found = cubin::resources(file, architecture);
    let Resources { registers, stack, shared, constant, code, .. } =
        found.into_iter().find(|r| r.kernel == kernel.entry).unwrap_or_default();
    let dynamic = if kernel.dynamic_shared.is_empty() { "" } else { " and what the launch asks for" };
    let spilled = match spills(log, &kernel.entry) {
        Some((0, 0)) => "none".to_string(),
        Some((stores, loads)) => format!("{stores} bytes stored, {loads} loaded"),
        None => "not said".to_string(),
    };
    let rows = [
        ("registers", format!("{registers} a thread")),
        ("spilled", spilled),
        ("shared", format!("{shared} bytes a block{dynamic}")),
        ("stack", format!("{stack} bytes a thread")),
        ("constants", format!("{constant} bytes, arguments included")),
        ("code", format!("{code} bytes")),
    ];
    let _ = writeln!(text, "// {} for sm_{architecture}, blocks of up to {} threads", kernel.entry, kernel.max_block);
    for (name, value) in rows {
        let _ = writeln!(text, "//   {name:<10} {value}");
    }
    text
}

/// Returns the bytes of spill stores and spill loads from the log of `ptxas`.
fn spills(log: &str, kernel: &str) -> Option<(u32, u32)> {
    let mut lines = log.lines().skip_while(|line| !line.ends_with(&format!("Function properties for {kernel}")));
    let line = lines.nth(1)?;
    let before = |what: &str| line.split(what).next()?.trim_end().rsplit([' ', ',']).next()?.parse().ok();
    Some((before(" bytes spill stores")?, before(" bytes spill loads")?))
}

/// Disassembles a cubin with a tool of the CUDA toolkit; `Err` is the problem and its remedy.
fn disassembled(file: &[u8], lines: bool) -> Result<String, (String, String)> {
    let Some(program) = libraries::tool(&["nvdisasm", "cuobjdump"]) else {
        return Err((
            "neither `nvdisasm` nor `cuobjdump` is found, which show a GPU's instructions".into(),
            "install the CUDA toolkit, put its `bin` on PATH or name it by CUDA_HOME; `--stage ptx` needs neither"
                .into(),
        ));
    };
    let failed = |why: String| {
        (format!("`{}` fails: {why}", program.display()), "is it of the same CUDA version as NVRTC?".into())
    };
    let ran = Folder::new().and_then(|folder| run(&program, &folder.file("kernel.cubin", file)?, lines));
    ran.map_err(failed)
}

fn run(program: &Path, file: &Path, lines: bool) -> Result<String, String> {
    let mut command = Command::new(program);
    match program.file_stem().is_some_and(|name| name == "nvdisasm") {
        true => command.args(if lines { &["-c", "-g"][..] } else { &["-c"] }),
        false => command.arg("-sass"),
    };
    let output = command.arg(file).output().map_err(|error| error.to_string())?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(String::from_utf8_lossy(&output.stderr).trim().to_string()),
    }
}

/// Returns a comment with the types that generated code assumes for type parameters; empty if there are none.
pub(crate) fn assumed_types(kernel: &Kernel) -> String {
    let types = kernel.sig.generics.iter().filter_map(|generic| match generic.kind {
        GenericKind::Type { bound: Bound::Int } => Some(format!("{} = i32", generic.name)),
        GenericKind::Type { .. } => Some(format!("{} = f32", generic.name)),
        _ => None,
    });
    let types: Vec<String> = types.collect();
    if types.is_empty() { String::new() } else { format!("// for {}\n", types.join(", ")) }
}

/// Returns a compile-time argument for a parameter: its default, or a typical type.
fn stand_in(generic: &Generic) -> Option<Argument> {
    match &generic.kind {
        GenericKind::Type { bound: Bound::Int } => Some(Argument::Type(Type::Scalar(Scalar::I32))),
        GenericKind::Type { bound: Bound::Any | Bound::Num | Bound::Float } => {
            Some(Argument::Type(Type::Scalar(Scalar::F32)))
        }
        GenericKind::Const { ty: Type::Scalar(ty), default: Some(value) } => match value.kind {
            ExprKind::Int(value) if ty.is_int() => {
                let mask = u64::MAX >> (64 - ty.bits());
                Some(Argument::Const(Value { ty: *ty, bits: value as u64 & mask }))
            }
            ExprKind::Bool(value) => Some(Argument::Const(Value { ty: Scalar::Bool, bits: value.into() })),
            _ => None,
        },
        GenericKind::Const { .. } => None,
        GenericKind::Fn { default: Some(FnRef::Builtin(builtin)), .. } => {
            Some(Argument::Fn(Function::Builtin(*builtin)))
        }
        GenericKind::Fn { default: Some(FnRef::Fn { id, generics }), .. } if generics.is_empty() => {
            Some(Argument::Fn(Function::Fn { id: *id, arguments: vec![] }))
        }
        GenericKind::Fn { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spills_are_read_from_the_assemblers_words() {
        let log = "ptxas info    : Function properties for scan\n\
            ptxas         .     1200 bytes stack frame, 8 bytes spill stores, 16 bytes spill loads\n\
            ptxas info    : Used 32 registers";
        assert_eq!(spills(log, "scan"), Some((8, 16)));
        assert_eq!(spills(log, "can"), None);
        assert_eq!(spills("", "scan"), None);
    }
}
