//! The generated code of a kernel, for `clk emit` and sessions: IR, tile programs, its derivative, LaneIR, or the code
//! of a GPU.

use super::devices::{CudaEmitter, GpuCodeOptions};
pub(crate) use super::emit_stage::{EmitError, EmitStage};
use super::gradient;
use clk_base::source::Span;
use clk_check::typed::{ExprKind, FnRef, Generic, GenericKind, Kernel, KernelId, Type, TypeBound};
use clk_compile::Session;
use clk_host::interp::constant_block;
use clk_ir::{Checks, PreparedKernel};
use clk_lower::{FunctionInstance, GenericArgument, Instance, MmaPrecision, TileRefusal};
use clk_scalar::{Scalar, ScalarValue};
use clk_sim::lane_ir_text;

/// Generates code for kernels.
pub(crate) struct KernelEmitter {
    gpu: CudaEmitter,
    /// The checks that the simulator would perform. They change only LaneIR.
    checks: Checks,
    /// The precision with which `mma` accumulates.
    sums: MmaPrecision,
    /// Whether the user has named a GPU generation whose `mma` results must be reproduced exactly. The code then relies
    /// on the documented arithmetic of its tensor cores.
    relies: bool,
}

impl KernelEmitter {
    /// `architecture` is the compute capability, such as 90 for `sm_90`. By default, it is that of the first GPU.
    pub fn new(options: GpuCodeOptions, architecture: Option<u32>) -> KernelEmitter {
        KernelEmitter {
            gpu: CudaEmitter::new(options, architecture),
            checks: Checks::default(),
            sums: MmaPrecision::default(),
            relies: false,
        }
    }

    /// Sets the checks that the simulator would perform.
    pub fn checking(self, checks: Checks) -> KernelEmitter {
        KernelEmitter { checks, ..self }
    }

    /// Sets the precision with which `mma` accumulates. `relies` is set if the user has named a GPU generation.
    pub fn adding(self, sums: MmaPrecision, relies: bool) -> KernelEmitter {
        KernelEmitter { sums, relies, ..self }
    }

    /// Generates the code of a kernel at a stage. Its compile-time arguments are their defaults or typical types. With
    /// `lines`, CUDA C++ and machine code include line information.
    pub fn kernel(&self, session: &Session, id: KernelId, level: EmitStage, lines: bool) -> Result<String, EmitError> {
        let kernel = &session.program.kernels[id];
        let arguments: Option<Vec<GenericArgument>> = kernel.sig.generics.iter().map(default_argument).collect();
        let instance = Instance { sums: self.sums, ..Instance::new(id, arguments.ok_or(EmitError::Open)?) };
        if level == EmitStage::Grad {
            return gradient::text(session, &instance).map_err(EmitError::Program);
        }
        let checks = if level == EmitStage::Lanes { self.checks } else { Checks::default() };
        let prepared = clk_compile::compile_kernel(&session.program, &instance, checks).map_err(EmitError::Program)?;
        match level {
            EmitStage::Ir | EmitStage::Grad => Ok(clk_ir::text::print(&prepared.module)),
            EmitStage::Tiles => self.tiles(session, &instance, &prepared),
            EmitStage::Lanes => Ok(lane_ir_text(&prepared, &session.sources)),
            // Generates the variant for the block size in the signature.
            EmitStage::Cuda | EmitStage::Ptx | EmitStage::Sass => {
                let block = constant_block(&session.program, &session.program.kernels[id]);
                self.gpu.code(&prepared, block, self.relies, level, &session.sources, lines)
            }
        }
    }

    /// Returns the tile program of a kernel: the one that devices run, or as lowered if no device has code for it.
    fn tiles(&self, session: &Session, instance: &Instance, prepared: &PreparedKernel) -> Result<String, EmitError> {
        let Kernel { name, .. } = &session.program.kernels[instance.kernel];
        let lowered = clk_lower::lower(&session.program, instance).map_err(EmitError::Program)?.kernel.tile_program;
        let kernel = &prepared.module.kernel;
        let use_of = match (&kernel.gemm, &kernel.tile_program) {
            (Some(_), _) => ", which is a matrix product",
            (None, Some(_)) => "",
            (None, None) => ", which devices run thread by thread",
        };
        if let Some(tiles) = kernel.tile_program.as_ref().or(lowered.as_ref()) {
            return Ok(format!("// kernel {name}{use_of}\n{}", clk_ir::text::print_tiles(tiles)));
        }
        Err(match clk_lower::tile_refusal(&session.program, instance) {
            Some((TileRefusal { span, reason }, tiles)) => {
                let line_of = |span| session.sources.line_column(span).0;
                let text_of = |(span, text): &(Span, String)| format!("// line {}: {text}\n", line_of(*span));
                let statements = tiles.iter().map(text_of).collect();
                EmitError::NoTiles { why: format!("{reason} (line {})", line_of(span)), statements }
            }
            None => EmitError::Internal("its tile program was dropped".into()),
        })
    }

    /// Returns the registers, spills and shared memory of a kernel without compile-time parameters, as reported by the
    /// GPU's compiler. `None` if it is missing or rejects the kernel.
    pub fn resources(&self, session: &Session, id: KernelId) -> Option<clk_profile::KernelResources> {
        let prepared =
            clk_compile::compile_kernel(&session.program, &Instance::new(id, vec![]), Checks::default()).ok()?;
        self.gpu.resources(&prepared, constant_block(&session.program, &session.program.kernels[id]))
    }
}

/// Returns a comment with the types that generated code assumes for type parameters; empty if there are none.
pub(crate) fn assumed_types(kernel: &Kernel) -> String {
    let types = kernel.sig.generics.iter().filter_map(|generic| match generic.kind {
        GenericKind::Type { bound: TypeBound::Int } => Some(format!("{} = i32", generic.name)),
        GenericKind::Type { .. } => Some(format!("{} = f32", generic.name)),
        _ => None,
    });
    let types: Vec<String> = types.collect();
    if types.is_empty() { String::new() } else { format!("// for {}\n", types.join(", ")) }
}

/// Returns a compile-time argument for a parameter: its default value, or a typical type.
fn default_argument(generic: &Generic) -> Option<GenericArgument> {
    match &generic.kind {
        GenericKind::Type { bound: TypeBound::Int } => Some(GenericArgument::Type(Type::Scalar(Scalar::I32))),
        GenericKind::Type { bound: TypeBound::Any | TypeBound::Num | TypeBound::Float } => {
            Some(GenericArgument::Type(Type::Scalar(Scalar::F32)))
        }
        GenericKind::Const { ty: Type::Scalar(ty), default: Some(value) } => match value.kind {
            ExprKind::Int(value) if ty.is_int() => {
                let mask = u64::MAX >> (64 - ty.bits());
                Some(GenericArgument::Const(ScalarValue { ty: *ty, bits: value as u64 & mask }))
            }
            ExprKind::Bool(value) => Some(GenericArgument::Const(ScalarValue { ty: Scalar::Bool, bits: value.into() })),
            _ => None,
        },
        GenericKind::Const { .. } => None,
        GenericKind::Fn { default: Some(FnRef::Builtin(builtin)), .. } => {
            Some(GenericArgument::Fn(FunctionInstance::Builtin(*builtin)))
        }
        GenericKind::Fn { default: Some(FnRef::Fn { id, generics }), .. } if generics.is_empty() => {
            Some(GenericArgument::Fn(FunctionInstance::Fn { id: *id, arguments: vec![] }))
        }
        GenericKind::Fn { .. } => None,
    }
}
