//! The state of lowering one module: the functions lowered so far, and the state of the function being lowered.

use std::collections::{HashMap, HashSet};

use super::emit::Emitter;
use super::error::{Fallible, internal, is_internal};
use super::instance::{Argument, Instance, Sums};
use super::mono::Mono;
use super::tile::Tile;
use super::{describe, types};
use crate::base::arena::Arena;
use crate::base::diag::Diagnostic;
use crate::base::source::Span;
use crate::check::typed::{self, ConstId, FnId, KernelId, LocalId, Program, Type};
use crate::ir::def::{self, ExprId, ExprKind, FunctionId, Label, MemId, Scalar, Ty};
use crate::lang::scalar::Value;

/// Start of a note about compile-time arguments.
const INSTANCE: &str = "this is";

/// State shared by all functions of a module.
pub(crate) struct Unit<'a> {
    pub program: &'a Program,
    pub functions: Arena<def::Function>,
    pub cooperative: bool,
    /// Whether run-time checks are enabled, which rule out speculative evaluation: a check could fail in it.
    pub careful: bool,
    /// Whether each variable of the source becomes a local that is written where the variable is bound, for whoever looks at them.
    pub named: bool,
    /// How `mma` adds.
    pub sums: Sums,
    pub constants: HashMap<ConstId, Vec<Value>>,
    pub(super) instances: HashMap<(FnId, Vec<Argument>), FunctionId>,
    pub(super) active: Vec<(FnId, Vec<Argument>)>,
    errors: Vec<Diagnostic>,
    /// The kernel being lowered, if it is one of the program's.
    kernel: Option<(KernelId, Vec<Argument>)>,
}

impl<'a> Unit<'a> {
    pub fn new(program: &'a Program) -> Self {
        Unit {
            program,
            functions: Arena::new(),
            cooperative: false,
            careful: false,
            named: false,
            sums: Sums::default(),
            constants: HashMap::new(),
            instances: HashMap::new(),
            active: vec![],
            errors: vec![],
            kernel: None,
        }
    }

    pub fn of_kernel(program: &'a Program, instance: &Instance) -> Self {
        let kernel = Some((instance.kernel, instance.arguments.clone()));
        Unit { kernel, sums: instance.sums, ..Unit::new(program) }
    }

    /// Whether this is a kernel of the program, and not one that applies a function.
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
            Some(note) if !error.notes.iter().any(|known| known.starts_with(INSTANCE)) => Box::new(error.note(note)),
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
        let given = describe::arguments(self.program, generics, arguments)?;
        Some(format!("{INSTANCE} `{name}` with {given}"))
    }

    pub fn has_errors(&self) -> bool {
        !self.errors.is_empty()
    }

    /// Returns the errors. Internal errors are dropped if there are others, since they are consequences of those.
    pub fn into_errors(self) -> Vec<Diagnostic> {
        let (internal, own): (Vec<_>, Vec<_>) = self.errors.into_iter().partition(is_internal);
        if own.is_empty() { internal } else { own }
    }
}

/// The lowered form of a local of the typed tree.
#[derive(Clone, Debug)]
pub(crate) enum Slot {
    /// A `let`: one value per leaf.
    Value(Vec<ExprId>),
    /// A `var`: one mutable local per leaf.
    Variable(Vec<def::LocalId>),
    Array(MemId),
}

/// The source of a dimension's value.
#[derive(Clone, Copy, Debug)]
pub(crate) enum DimSource {
    Extent(MemId, u8),
    /// A hidden value parameter.
    Param(u32),
    /// An `i32` computed from the extents of a function's arrays when it is called.
    Value(ExprId),
}

/// The state of lowering one function or kernel body.
pub struct Body<'a, 'u> {
    pub unit: &'u mut Unit<'a>,
    pub program: &'a Program,
    pub mono: Mono<'a>,
    pub locals: &'a Arena<typed::Local>,
    pub slots: HashMap<LocalId, Slot>,
    pub dims: Vec<Option<DimSource>>,
    pub out: Emitter,
    pub loops: Vec<Label>,
    /// The concrete result type.
    pub result: Type,
    /// The memory that receives the result, if it is an array.
    pub result_array: Option<MemId>,
    /// Extents of array parameters that are fixed by the signature, by memory and axis.
    pub fixed: HashMap<(MemId, u8), u32>,
    /// Memories of constant arrays.
    pub tables: HashMap<ConstId, MemId>,
    /// Where tiles are, and the block, if it is not one of a launch: see [`super::product`].
    pub(super) tiles: HashMap<LocalId, Tile>,
    pub(super) block: Option<[ExprId; 3]>,
    /// What reductions have given: see [`super::program`].
    pub(super) given: HashMap<Span, Tile>,
    /// Shared memories of tiles that assignments before have kept, and those that this one has taken: see [`super::tiles`].
    pub(super) spare: Vec<MemId>,
    pub(super) taken: Vec<MemId>,
    /// Values, and counters of loops, that all threads of a block share.
    pub(super) uniform: HashSet<ExprId>,
    pub(super) counters: HashSet<def::LocalId>,
    /// `inout` value parameters: their final values are returned after the function's result.
    pub handed_back: Vec<LocalId>,
}

impl<'a, 'u> Body<'a, 'u> {
    pub fn new(
        unit: &'u mut Unit<'a>,
        arguments: &[Argument],
        dims: usize,
        locals: &'a Arena<typed::Local>,
        out: Emitter,
    ) -> Self {
        let program = unit.program;
        Body {
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
            handed_back: vec![],
            tiles: HashMap::new(),
            block: None,
            given: HashMap::new(),
            spare: vec![],
            taken: vec![],
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
        self.locals.get(id).ok_or_else(|| internal(span, "a variable that is not there"))
    }

    pub(crate) fn slot(&self, id: LocalId, span: Span) -> Fallible<Slot> {
        self.slots.get(&id).cloned().ok_or_else(|| {
            let name = self.locals.get(id).map_or("?", |local| local.name.as_str());
            internal(span, format!("`{name}` is used where it has no value"))
        })
    }

    /// Returns zeros as placeholders for a value in unreachable code.
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
