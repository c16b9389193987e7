//! The state of lowering one module: the functions lowered so far, and the state of the function being lowered.

use std::collections::{HashMap, HashSet};

use super::emit::ExprEmitter;
use super::error::{Fallible, internal, is_internal};
use super::instance::{GenericArgument, Instance, MmaPrecision};
use super::mono::Mono;
use super::tile_stmt::TileRegion;
use super::{describe, types};
use clk_base::arena::Arena;
use clk_base::diag::Diagnostic;
use clk_base::source::Span;
use clk_check::typed::{self, ConstId, FnId, KernelId, LocalId, Program, Type};
use clk_ir::def::{self, ExprId, ExprKind, FunctionId, Label, MemId, Scalar, Ty};
use clk_scalar::ScalarValue;

/// The beginning of a note about compile-time arguments.
const INSTANCE: &str = "this is";

/// State shared by all functions of a module.
pub(crate) struct ModuleLowering<'a> {
    pub program: &'a Program,
    pub functions: Arena<def::Function>,
    pub cooperative: bool,
    /// Whether run-time checks are enabled. Then expressions that a check may report are not evaluated speculatively.
    pub has_checks: bool,
    /// Whether each variable of the source gets debug locals, which are written where the variable is bound.
    pub debug_locals: bool,
    /// The precision of the sums in `mma`.
    pub sums: MmaPrecision,
    pub constants: HashMap<ConstId, Vec<ScalarValue>>,
    pub(super) instances: HashMap<(FnId, Vec<GenericArgument>), FunctionId>,
    pub(super) active: Vec<(FnId, Vec<GenericArgument>)>,
    errors: Vec<Diagnostic>,
    /// The kernel being lowered and its compile-time arguments. `None` for a kernel that lowering creates to apply a
    /// function to arrays.
    kernel: Option<(KernelId, Vec<GenericArgument>)>,
}

impl<'a> ModuleLowering<'a> {
    pub fn new(program: &'a Program) -> Self {
        ModuleLowering {
            program,
            functions: Arena::new(),
            cooperative: false,
            has_checks: false,
            debug_locals: false,
            sums: MmaPrecision::default(),
            constants: HashMap::new(),
            instances: HashMap::new(),
            active: vec![],
            errors: vec![],
            kernel: None,
        }
    }

    pub fn of_kernel(program: &'a Program, instance: &Instance) -> Self {
        let kernel = Some((instance.kernel, instance.arguments.clone()));
        ModuleLowering { kernel, sums: instance.sums, ..ModuleLowering::new(program) }
    }

    /// Returns whether the module is a kernel of the program, not one that lowering creates to apply a function to
    /// arrays.
    pub fn is_of_kernel(&self) -> bool {
        self.kernel.is_some()
    }

    /// Records an error, annotated with the compile-time arguments of the instance.
    pub fn report(&mut self, error: Box<Diagnostic>) {
        let error = self.annotated(error);
        if !self.errors.contains(&error) {
            self.errors.push(*error);
        }
    }

    pub(super) fn annotated(&self, error: Box<Diagnostic>) -> Box<Diagnostic> {
        match self.instance_note() {
            Some(note) if !error.notes.iter().any(|other| other.starts_with(INSTANCE)) => Box::new(error.note(note)),
            _ => error,
        }
    }

    fn instance_note(&self) -> Option<String> {
        let (name, generics, arguments) = match (self.active.last(), &self.kernel) {
            (Some((id, arguments)), _) => {
                let function = self.program.fns.get(*id)?;
                (&function.name, &function.sig.generics, arguments)
            }
            (None, Some((id, arguments))) => {
                let kernel = self.program.kernels.get(*id)?;
                (&kernel.name, &kernel.sig.generics, arguments)
            }
            (None, None) => return None,
        };
        let argument_text = describe::arguments(self.program, generics, arguments)?;
        Some(format!("{INSTANCE} `{name}` with {argument_text}"))
    }

    pub fn has_errors(&self) -> bool {
        !self.errors.is_empty()
    }

    /// Returns the errors. Drops internal errors if there are other errors, because they are probably consequences of
    /// these.
    pub fn into_errors(self) -> Vec<Diagnostic> {
        let (internal, own): (Vec<_>, Vec<_>) = self.errors.into_iter().partition(is_internal);
        if own.is_empty() { internal } else { own }
    }
}

/// The lowered form of a local of the typed tree.
#[derive(Clone, Debug)]
pub(crate) enum LoweredLocal {
    /// A `let`: one value for each leaf of its type.
    Value(Vec<ExprId>),
    /// A `var`: one mutable local for each leaf of its type.
    Variable(Vec<def::LocalId>),
    Array(MemId),
}

/// The source of a dimension's value.
#[derive(Clone, Copy, Debug)]
pub(crate) enum DimSource {
    Extent(MemId, u8),
    /// A hidden parameter of the kernel.
    Param(u32),
    /// An `i32` computed from the extents of a function's arrays when it is called.
    Value(ExprId),
}

/// The state of lowering one function or kernel body.
pub struct BodyLowering<'a, 'u> {
    pub unit: &'u mut ModuleLowering<'a>,
    pub program: &'a Program,
    pub mono: Mono<'a>,
    pub locals: &'a Arena<typed::Local>,
    pub slots: HashMap<LocalId, LoweredLocal>,
    pub dims: Vec<Option<DimSource>>,
    pub out: ExprEmitter,
    pub loops: Vec<Label>,
    /// The concrete result type.
    pub result: Type,
    /// The memory that receives the result, if it is an array.
    pub result_array: Option<MemId>,
    /// Extents of array parameters that are constants in the signature, by memory and axis.
    pub fixed: HashMap<(MemId, u8), u32>,
    /// Memories of constant arrays.
    pub tables: HashMap<ConstId, MemId>,
    /// The regions of the body of a kernel that may become a tile program; otherwise `None`.
    pub(super) regions: Option<Vec<TileRegion>>,
    /// Shared memory of earlier tile assignments that can be reused, and the shared memory that the current assignment
    /// uses: see [`super::tiles`].
    pub(super) reusable_memories: Vec<MemId>,
    pub(super) tile_memories: Vec<MemId>,
    /// Values and loop counters that are the same in all threads of a block.
    pub(super) uniform: HashSet<ExprId>,
    pub(super) counters: HashSet<def::LocalId>,
    /// The `inout` parameters that are not arrays. Their final values are returned after the function's result.
    pub inout_params: Vec<LocalId>,
}

impl<'a, 'u> BodyLowering<'a, 'u> {
    pub fn new(
        unit: &'u mut ModuleLowering<'a>,
        arguments: &[GenericArgument],
        dims: usize,
        locals: &'a Arena<typed::Local>,
        out: ExprEmitter,
    ) -> Self {
        let program = unit.program;
        BodyLowering {
            unit,
            program,
            mono: Mono::new(program, arguments),
            locals,
            slots: HashMap::new(),
            dims: vec![None; dims],
            out,
            loops: vec![],
            result: Type::Unit,
            result_array: None,
            tables: HashMap::new(),
            inout_params: vec![],
            regions: None,
            reusable_memories: vec![],
            tile_memories: vec![],
            uniform: HashSet::new(),
            counters: HashSet::new(),
            fixed: HashMap::new(),
        }
    }

    pub fn machine(&self, ty: &Type, span: Span) -> Fallible<Vec<Ty>> {
        types::machine(self.program, ty, span)
    }

    /// Returns the concrete type of an expression.
    pub(crate) fn type_of(&self, expr: &typed::Expr) -> Fallible<Type> {
        self.mono.ty(&expr.ty, expr.span)
    }

    pub fn local(&self, id: LocalId, span: Span) -> Fallible<&'a typed::Local> {
        self.locals.get(id).ok_or_else(|| internal(span, "a variable that does not exist"))
    }

    pub(crate) fn slot(&self, id: LocalId, span: Span) -> Fallible<LoweredLocal> {
        self.slots.get(&id).cloned().ok_or_else(|| {
            let name = self.locals.get(id).map_or("?", |local| local.name.as_str());
            internal(span, format!("`{name}` is used where it has no value"))
        })
    }

    /// Returns zeros in place of a value that unreachable code would use.
    pub(crate) fn unreachable(&mut self, ty: &Type, span: Span) -> Fallible<Vec<ExprId>> {
        let machine = self.machine(ty, span)?;
        Ok(machine.into_iter().map(|ty| self.out.zero(ty, span)).collect())
    }

    /// Returns the value of a dimension, an `i32`.
    pub fn dim(&mut self, dim: u32, span: Span) -> Fallible<ExprId> {
        match self.dims.get(dim as usize).copied().flatten() {
            Some(DimSource::Extent(memory, axis)) => Ok(self.extent(memory, axis, span)),
            Some(DimSource::Param(i)) => Ok(self.out.value(ExprKind::Param(i), Ty::Scalar(Scalar::I32), span)),
            Some(DimSource::Value(value)) => Ok(value),
            None => Err(internal(span, "a dimension that nothing binds")),
        }
    }

    /// Returns an array's extent along an axis, as a constant if it is known.
    pub fn extent(&mut self, memory: MemId, axis: u8, span: Span) -> ExprId {
        match self.known_extent(memory, axis) {
            Some(n) => self.out.i32(n as i32, span),
            None => self.out.value(ExprKind::Extent(memory, axis), Ty::Scalar(Scalar::I32), span),
        }
    }

    pub(crate) fn known_extent(&self, memory: MemId, axis: u8) -> Option<u32> {
        match self.out.function().memories[memory].extents.get(axis as usize) {
            Some(def::Extent::Known(n)) => Some(*n),
            _ => self.fixed.get(&(memory, axis)).copied(),
        }
    }
}
