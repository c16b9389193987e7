//! CUDA C++, PTX and machine instructions of kernels, with the registers and memory that they use.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

use thiserror::Error;

use super::libraries;
use crate::devices::back_end::GpuCodeOptions;
use crate::disk::temporary::TempFolder;
use crate::emit_stage::{EmitError, EmitStage};
use clk_base::file_error::FileError;
use clk_base::source::SourceMap;
use clk_cuda::cubin::{self, CubinResources};
use clk_cuda::driver::nvidia;
use clk_cuda::nvrtc::{self, Nvrtc};
use clk_cuda::text::{CodegenOptions, CudaKernel, cuda_text, usual_options};
use clk_ir::PreparedKernel;

/// The default compute capability on machines without a GPU.
const USUAL_ARCHITECTURE: u32 = 90;

/// Generates CUDA C++ and compiles it; opens NVRTC on first use.
pub(crate) struct CudaEmitter {
    options: CodegenOptions,
    /// The compute capability, such as 90 for `sm_90`. By default, that of the first GPU.
    architecture: Option<u32>,
    nvrtc: OnceLock<Result<Nvrtc, Vec<String>>>,
}

impl CudaEmitter {
    pub fn new(options: GpuCodeOptions, architecture: Option<u32>) -> CudaEmitter {
        CudaEmitter { options: super::codegen_options(options), architecture, nvrtc: OnceLock::new() }
    }

    /// Generates the code of a kernel at a stage: the variant for this block shape, and for arrays whose rows are
    /// multiples of the TMA box. `relies` is set if the user has named a GPU generation whose `mma` results must be
    /// reproduced exactly. With `lines`, the code includes line information.
    pub fn code(
        &self,
        prepared: &PreparedKernel,
        block: Option<[u32; 3]>,
        relies: bool,
        stage: EmitStage,
        sources: &SourceMap,
        lines: bool,
    ) -> Result<String, EmitError> {
        let options = CodegenOptions { block, ..self.options.clone() };
        let options = usual_options(prepared, options, self.architecture(), relies);
        match stage {
            EmitStage::Cuda => Ok(cuda_text(prepared, &options, lines.then_some(sources)).text),
            _ => self.machine(prepared, &options, sources, stage, lines),
        }
    }

    /// Returns the registers, spills and shared memory of a kernel, as reported by NVRTC. `None` if NVRTC is missing or
    /// rejects the kernel.
    pub fn resources(
        &self,
        prepared: &PreparedKernel,
        block: Option<[u32; 3]>,
    ) -> Option<clk_profile::KernelResources> {
        let nvrtc = self.nvrtc().ok()?;
        let architecture = self.architecture();
        let kernel = cuda_text(prepared, &CodegenOptions { block, ..self.options.clone() }, None);
        let mut flags = kernel.options.flags();
        flags.push("--ptxas-options=-v".into());
        let compiled = nvrtc.compile(&kernel.text, &format!("{}.cu", kernel.entry), architecture, &flags).ok()?;
        let usage = cubin::resources(&compiled.cubin, architecture).into_iter().find(|r| r.kernel == kernel.entry)?;
        let spilled = spills(&compiled.log, &kernel.entry).map_or(0, |(stores, loads)| stores + loads);
        Some(clk_profile::KernelResources { registers: usage.registers, spilled, shared: usage.shared })
    }

    /// Returns PTX or SASS, preceded by a comment with the resource usage.
    fn machine(
        &self,
        prepared: &PreparedKernel,
        options: &CodegenOptions,
        sources: &SourceMap,
        stage: EmitStage,
        lines: bool,
    ) -> Result<String, EmitError> {
        let nvrtc = self.nvrtc()?;
        let architecture = self.architecture();
        let supported = nvrtc.architectures();
        if !supported.contains(&architecture) {
            let supported: Vec<String> = supported.iter().map(|a| format!("sm_{a}")).collect();
            return Err(tool_error(
                format!("NVRTC {}.{} knows no sm_{architecture}", nvrtc.version().0, nvrtc.version().1),
                format!("it knows {}", supported.join(", ")),
            ));
        }
        let kernel = cuda_text(prepared, options, lines.then_some(sources));
        let mut flags = kernel.options.flags();
        flags.extend(lines.then(|| "-lineinfo".into()));
        let name = format!("{}.cu", kernel.entry);
        let refused = |failure| EmitError::Internal(nvrtc_error(failure));
        let ptx = match stage {
            EmitStage::Ptx => nvrtc.ptx(&kernel.text, &name, architecture, &flags).map_err(refused)?,
            _ => String::new(),
        };
        flags.push("--ptxas-options=-v".into());
        let compiled = nvrtc.compile(&kernel.text, &name, architecture, &flags).map_err(refused)?;
        let shown = usage_comment(&kernel, &compiled.cubin, &compiled.log, architecture);
        if stage == EmitStage::Ptx {
            return Ok(shown + ptx.trim_end() + "\n");
        }
        match disassemble_cubin(&compiled.cubin, lines) {
            Ok(text) => Ok(shown + &text),
            Err((what, help)) => Err(EmitError::Tool { what, help, shown }),
        }
    }

    fn nvrtc(&self) -> Result<&Nvrtc, EmitError> {
        let opened = self.nvrtc.get_or_init(|| Nvrtc::open(&libraries::nvrtc_places()));
        opened.as_ref().map_err(|complaints| {
            let tried = complaints.first().map(|first| format!(" ({first})")).unwrap_or_default();
            tool_error(
                format!("NVIDIA's compiler NVRTC is not found{tried}"),
                "`pip install nvidia-cuda-nvrtc` brings it, `CLK_NVRTC` names its folder; no GPU is needed".into(),
            )
        })
    }

    fn architecture(&self) -> u32 {
        self.architecture.unwrap_or_else(|| nvidia::probe(0).map_or(USUAL_ARCHITECTURE, |gpu| gpu.architecture))
    }
}

/// Returns an error about a tool that is absent or too old, and its remedy.
fn tool_error(what: String, help: String) -> EmitError {
    EmitError::Tool { what, help, shown: String::new() }
}

fn nvrtc_error(failure: nvrtc::NvrtcError) -> String {
    match failure {
        nvrtc::NvrtcError::Rejected { log } => format!("NVRTC refuses the text\n{log}"),
        nvrtc::NvrtcError::Call { function, name, .. } => format!("{function} says {name}"),
    }
}

/// Returns the resource usage of a kernel as comment lines.
fn usage_comment(kernel: &CudaKernel, file: &[u8], log: &str, architecture: u32) -> String {
    let mut text = String::new();
    let entries = cubin::resources(file, architecture);
    let CubinResources { registers, stack, shared, constant, code, .. } =
        entries.into_iter().find(|r| r.kernel == kernel.entry).unwrap_or_default();
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
fn disassemble_cubin(file: &[u8], lines: bool) -> Result<String, (String, String)> {
    let Some(program) = libraries::tool(&["nvdisasm", "cuobjdump"]) else {
        return Err((
            "neither `nvdisasm` nor `cuobjdump` is found, which show a GPU's instructions".into(),
            "install the CUDA toolkit, put its `bin` on PATH or name it by CUDA_HOME; `--stage ptx` needs neither"
                .into(),
        ));
    };
    let failed = |why: DisassemblyError| {
        (format!("`{}` fails: {why}", program.display()), "is it of the same CUDA version as NVRTC?".into())
    };
    let ran = TempFolder::new().map_err(DisassemblyError::from);
    ran.and_then(|folder| disassemble(&program, &folder.file("kernel.cubin", file)?, lines)).map_err(failed)
}

/// Why a tool has not disassembled a cubin.
#[derive(Debug, Error)]
enum DisassemblyError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error("{0}")]
    NoStart(std::io::Error),
    /// The error output of the tool.
    #[error("{0}")]
    Failed(String),
}

fn disassemble(program: &Path, file: &Path, lines: bool) -> Result<String, DisassemblyError> {
    let mut command = Command::new(program);
    match program.file_stem().is_some_and(|name| name == "nvdisasm") {
        true => command.args(if lines { &["-c", "-g"][..] } else { &["-c"] }),
        false => command.arg("-sass"),
    };
    let output = command.arg(file).output().map_err(DisassemblyError::NoStart)?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(DisassemblyError::Failed(String::from_utf8_lossy(&output.stderr).trim().to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spills_are_parsed_from_assembler_output() {
        let log = "ptxas info    : Function properties for scan\n\
            ptxas         .     1200 bytes stack frame, 8 bytes spill stores, 16 bytes spill loads\n\
            ptxas info    : Used 32 registers";
        assert_eq!(spills(log, "scan"), Some((8, 16)));
        assert_eq!(spills(log, "can"), None);
        assert_eq!(spills("", "scan"), None);
    }
}
