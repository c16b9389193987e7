//! Local, shared and constant arrays: their sizes and initial values.

use super::error::{Fallible, internal};
use super::types;
use super::unit::{Body, Slot};
use crate::base::diag::Diagnostic;
use crate::base::source::Span;
use crate::check::typed::{ArrayInit, Dim, Expr, LocalId, Type};
use crate::ir::def::{self, ExprId, Extent, Id3, Layout, MemId, Place, Space, StmtKind};
use crate::lang::scalar::Value;

/// Maximum local memory per thread in CUDA.
const LOCAL_BYTES: u64 = 512 * 1024;
/// Maximum size of a constant array.
const CONSTANT_BYTES: u64 = 512 * 1024;
/// Maximum shared memory per block on the GPUs that have the most.
const SHARED_BYTES: u64 = 227 * 1024;
/// Maximum number of elements that are initialized or copied without a loop.
pub(crate) const STRAIGHT: u64 = 8;

impl Body<'_, '_> {
    pub fn local_array(&mut self, id: LocalId, extents: &[Expr], init: &ArrayInit, span: Span) -> Fallible<()> {
        let declared = self.local(id, span)?;
        let element = self.element_type(&declared.ty, span)?;
        let mut known = Vec::with_capacity(extents.len());
        for extent in extents {
            let value = self.scalar(extent)?;
            known.push(self.known_size(value, &declared.name, extent)?);
        }
        let layout = types::layout(self.program, &element, span)?;
        let memory = self.local_memory(&declared.name, layout, &known, declared.span)?;
        self.out.stmt(StmtKind::Declare(memory), span);
        // Bind the name after the initializer, which may use a variable that the new one shadows.
        let made = self.first_values(memory, &known, &element, init);
        self.slots.insert(id, Slot::Array(memory));
        made
    }

    /// Declares a thread-local array after checking its size.
    fn local_memory(&mut self, name: &str, layout: Layout, extents: &[u32], span: Span) -> Fallible<MemId> {
        check_size(name, extents, &layout, &LOCAL, span)?;
        Ok(self.new_memory(name, Space::Local, layout, extents, span))
    }

    /// Declares a thread-local array that is uninitialized.
    pub(crate) fn fresh_memory(&mut self, name: &str, layout: Layout, extents: &[u32], span: Span) -> Fallible<MemId> {
        let memory = self.local_memory(name, layout, extents, span)?;
        self.out.stmt(StmtKind::Declare(memory), span);
        Ok(memory)
    }

    fn first_values(&mut self, memory: MemId, known: &[u32], element: &Type, init: &ArrayInit) -> Fallible<()> {
        match init {
            ArrayInit::None => Ok(()),
            ArrayInit::Fill(value) => {
                let values = self.value_as(value, element)?;
                self.fill(memory, known, &values, value.span)
            }
            ArrayInit::Elements(elements) => self.store_elements(memory, known, element, elements),
            ArrayInit::Copy(value) => self.array_into(value, memory, true),
        }
    }

    pub(crate) fn element_type(&self, ty: &Type, span: Span) -> Fallible<Type> {
        match ty {
            Type::Array(array) => self.mono.ty(&array.element, span),
            // A shared scalar may be declared with the type of its value.
            other => self.mono.ty(other, span),
        }
    }

    fn known_size(&self, value: ExprId, name: &str, extent: &Expr) -> Fallible<u32> {
        let Some(known) = self.out.known(value).and_then(Value::as_integer) else {
            self.fits(value, name, extent.span)?;
            return Err(Box::new(
                Diagnostic::error("E0480", format!("the size of `{name}` is not known when the kernel is compiled"))
                    .at(extent.span, "this depends on the launch")
                    .note("each thread has its own copy, in registers where possible, so the size has to be a constant")
                    .help("use a literal, a `const`, or a const parameter: `kernel k<const T: i32 = 16>(…)`"),
            ));
        };
        size(known, name, extent.span)
    }

    fn new_memory(&mut self, name: &str, space: Space, layout: Layout, extents: &[u32], span: Span) -> MemId {
        let extents = extents.iter().map(|&n| Extent::Known(n)).collect();
        self.out.at(span).memory(name, space, layout, extents)
    }

    fn fill(&mut self, memory: MemId, extents: &[u32], values: &[ExprId], span: Span) -> Fallible<()> {
        if elements(extents) > STRAIGHT {
            return self.for_all(extents, span, &mut |this, at| {
                this.store_element(memory, at, values, span);
                Ok(())
            });
        }
        for position in 0..elements(extents) {
            let at = self.tuple_of(position, extents, span);
            self.store_element(memory, &at, values, span);
        }
        Ok(())
    }

    pub(crate) fn store_elements(
        &mut self,
        memory: MemId,
        extents: &[u32],
        ty: &Type,
        values: &[Expr],
    ) -> Fallible<()> {
        for (position, value) in values.iter().enumerate() {
            let leaves = self.value_as(value, ty)?;
            let at = self.tuple_of(position as u64, extents, value.span);
            self.store_element(memory, &at, &leaves, value.span);
        }
        Ok(())
    }

    pub(crate) fn store_element(&mut self, memory: MemId, at: &[ExprId], leaves: &[ExprId], span: Span) {
        for (leaf, &value) in leaves.iter().enumerate() {
            let place = Place { memory, indices: at.to_vec(), leaf: leaf as u32, component: None };
            self.out.stmt(StmtKind::Store { place, value, hint: def::Hint::None }, span);
        }
    }

    /// Returns the index tuple of a row-major position, as constants.
    pub(crate) fn tuple_of(&mut self, position: u64, extents: &[u32], span: Span) -> Vec<ExprId> {
        let mut rest = position;
        let mut at: Vec<u64> = extents
            .iter()
            .rev()
            .map(|&extent| {
                let here = rest % u64::from(extent.max(1));
                rest /= u64::from(extent.max(1));
                here
            })
            .collect();
        at.reverse();
        at.into_iter().map(|index| self.out.i32(index as i32, span)).collect()
    }

    /// Declares a local array with these elements, for a `for` over a list.
    pub(crate) fn filled_array(&mut self, name: &str, element: &Type, values: &[Expr], span: Span) -> Fallible<MemId> {
        let extents = [values.len() as u32];
        let layout = types::layout(self.program, element, span)?;
        let memory = self.new_memory(name, Space::Local, layout, &extents, span);
        self.out.stmt(StmtKind::Declare(memory), span);
        self.store_elements(memory, &extents, element, values)?;
        Ok(memory)
    }

    /// Declares a `const` array.
    pub(crate) fn constant_table(&mut self, name: &str, ty: &Type, values: &[Value], span: Span) -> Fallible<MemId> {
        let Type::Array(array) = ty else { return Err(internal(span, "an index into a constant that is no array")) };
        let element = self.mono.ty(&array.element, span)?;
        let layout = types::layout(self.program, &element, span)?;
        let mut extents = Vec::with_capacity(array.dims.len());
        for dim in &array.dims {
            match dim {
                Dim::Known(n) => extents.push(size(i128::from(*n), name, span)?),
                _ => return Err(internal(span, "a constant array of unknown size")),
            }
        }
        check_size(name, &extents, &layout, &CONSTANT, span)?;
        if elements(&extents).saturating_mul(layout.scalars() as u64) != values.len() as u64 {
            return Err(internal(span, "a constant array of another size"));
        }
        let extents = extents.into_iter().map(Extent::Known).collect();
        Ok(self.out.at(span).constants(name, layout, extents, values.iter().map(|value| value.bits)))
    }

    // Shared memory

    pub fn shared(&mut self, id: LocalId, extents: &[Expr], span: Span) -> Fallible<()> {
        let declared = self.local(id, span)?;
        let element = self.element_type(&declared.ty, span)?;
        let layout = types::layout(self.program, &element, span)?;
        let mut lowered = Vec::with_capacity(extents.len());
        for extent in extents {
            let value = self.scalar(extent)?;
            self.fits(value, &declared.name, extent.span)?;
            lowered.push(match self.out.known(value).and_then(Value::as_integer) {
                Some(known) => Extent::Known(size(known, &declared.name, extent.span)?),
                None if self.is_uniform(value) => Extent::Dynamic(value),
                None => return Err(not_uniform(&declared.name, extent.span)),
            });
        }
        let known: Option<Vec<u32>> =
            lowered.iter().map(|e| if let Extent::Known(n) = e { Some(*n) } else { None }).collect();
        if let Some(known) = known {
            check_size(&declared.name, &known, &layout, &SHARED, declared.span)?;
        }
        let memory = self.out.at(declared.span).memory(declared.name.as_str(), Space::Shared, layout, lowered);
        self.slots.insert(id, Slot::Array(memory));
        Ok(())
    }

    /// Refuses an extent that would be known, if computing it did not overflow.
    fn fits(&self, value: ExprId, name: &str, span: Span) -> Fallible<()> {
        if self.out.known(value).is_some() || !self.is_of_constants(value) {
            return Ok(());
        }
        let ty = self.out.ty(value).scalar();
        Err(Box::new(
            Diagnostic::error("E0481", format!("`{name}` has an extent that does not fit `{ty}`"))
                .at(span, "computing this overflows"),
        ))
    }

    /// Whether a value is computed from constants alone.
    fn is_of_constants(&self, value: ExprId) -> bool {
        let kind = &self.out.function().exprs[value].kind;
        let mut found = kind.is_pure() && (!kind.is_free() || matches!(kind, def::ExprKind::Const(_)));
        kind.operands(|operand| found &= self.is_of_constants(operand));
        found
    }

    /// Whether a value is uniform over the launch and can be computed before a block starts.
    fn is_uniform(&self, value: ExprId) -> bool {
        use def::ExprKind::*;
        match &self.out.function().exprs[value].kind {
            Const(_) | Param(_) | Extent(..) => true,
            Id(id, _) => matches!(id, Id3::BlockDim | Id3::GridDim),
            Unary { value, .. } | Convert(value) | Bitcast(value) | Extract { value, .. } => self.is_uniform(*value),
            Binary { left, right, .. } => self.is_uniform(*left) && self.is_uniform(*right),
            Math { args, .. } | Compose(args) => args.iter().all(|&arg| self.is_uniform(arg)),
            Select { cond, then, other } => [cond, then, other].into_iter().all(|&part| self.is_uniform(part)),
            Index(_) | LaneIdx | WarpIdx | Read(_) | Load { .. } | Result => false,
        }
    }
}

pub(crate) fn elements(extents: &[u32]) -> u64 {
    extents.iter().fold(1, |all, &n| all.saturating_mul(u64::from(n)))
}

pub(crate) fn size(known: i128, name: &str, span: Span) -> Fallible<u32> {
    match u32::try_from(known) {
        Ok(n) if n > 0 && n <= i32::MAX as u32 => Ok(n),
        _ => {
            let what = if known <= 0 { "at least 1" } else { "below 2^31" };
            Err(Box::new(
                Diagnostic::error("E0481", format!("`{name}` has an extent of {known}"))
                    .at(span, format!("this is {known}; it has to be {what}")),
            ))
        }
    }
}

/// A memory limit: the diagnostic code, the owner of the memory, its size in bytes, and the help text.
struct Room {
    code: &'static str,
    whose: &'static str,
    bytes: u64,
    help: &'static str,
}

const LOCAL: Room = Room {
    code: "E0482",
    whose: "a thread has",
    bytes: LOCAL_BYTES,
    help: "let the threads of a block share it (`shared`), or pass an array to the kernel",
};
const CONSTANT: Room = Room {
    code: "E0482",
    whose: "constants of a kernel may take",
    bytes: CONSTANT_BYTES,
    help: "make it a variable of the script, and pass it to the kernel as an array",
};
const SHARED: Room = Room {
    code: "E0483",
    whose: "a block has",
    bytes: SHARED_BYTES,
    help: "make the tile smaller, or keep the data in an array of the kernel",
};

fn check_size(name: &str, extents: &[u32], layout: &Layout, room: &Room, span: Span) -> Fallible<()> {
    let bytes = elements(extents).saturating_mul(layout.size as u64);
    if bytes <= room.bytes {
        return Ok(());
    }
    Err(Box::new(
        Diagnostic::error(room.code, format!("`{name}` takes more memory than {}", room.whose))
            .at(span, format!("{bytes} bytes, of {} at most", room.bytes))
            .help(room.help),
    ))
}

fn not_uniform(name: &str, span: Span) -> Box<Diagnostic> {
    Box::new(
        Diagnostic::error("E0487", format!("the size of `{name}` is not known when a block starts"))
            .at(span, "this differs between threads, or is computed while they run")
            .help("compute it from constants, dimensions and scalar parameters"),
    )
}
