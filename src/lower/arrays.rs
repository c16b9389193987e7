//! Local, shared and constant arrays: their sizes and initial values.

use super::context::{BodyLowering, LoweredLocal};
use super::error::{Fallible, internal};
use super::tile_stmt::{TileRegion, TileStmt};
use super::types;
use clk_base::diag::Diagnostic;
use clk_base::source::Span;
use clk_check::typed::{ArrayInit, Dim, Expr, LocalId, Type};
use clk_ir::def::{self, BuiltinIndex, ElementLayout, ExprId, Extent, MemId, MemorySpace, Place, StmtKind};
use clk_scalar::ScalarValue;

/// Maximum local memory per thread in CUDA, in bytes.
const LOCAL_BYTES: u64 = 512 * 1024;
/// Maximum size of a constant array in bytes.
const CONSTANT_BYTES: u64 = 512 * 1024;
/// Maximum shared memory per block, in bytes, on the GPUs with the most shared memory.
const SHARED_BYTES: u64 = 227 * 1024;
/// Maximum number of elements that are initialized or copied without a loop.
pub(crate) const STRAIGHT: u64 = 8;

impl BodyLowering<'_, '_> {
    pub fn local_array(&mut self, id: LocalId, extents: &[Expr], init: &ArrayInit, span: Span) -> Fallible<()> {
        let declared = self.local(id, span)?;
        let element = self.element_type(&declared.ty, span)?;
        let mut sizes = Vec::with_capacity(extents.len());
        for extent in extents {
            let value = self.scalar(extent)?;
            sizes.push(self.known_size(value, &declared.name, extent)?);
        }
        let layout = types::layout(self.program, &element, span)?;
        let memory = self.local_memory(&declared.name, layout, &sizes, declared.span)?;
        self.out.stmt(StmtKind::Declare(memory), span);
        // Bind the name after lowering the initializer, which may read a variable of the same name that is shadowed
        // then.
        let initialized = self.first_values(memory, &sizes, &element, init);
        self.slots.insert(id, LoweredLocal::Array(memory));
        initialized
    }

    /// Declares a thread-local array after checking its size.
    fn local_memory(&mut self, name: &str, layout: ElementLayout, extents: &[u32], span: Span) -> Fallible<MemId> {
        check_size(name, extents, &layout, &LOCAL, span)?;
        Ok(self.new_memory(name, MemorySpace::Local, layout, extents, span))
    }

    /// Declares an uninitialized thread-local array.
    pub(crate) fn fresh_memory(
        &mut self,
        name: &str,
        layout: ElementLayout,
        extents: &[u32],
        span: Span,
    ) -> Fallible<MemId> {
        let memory = self.local_memory(name, layout, extents, span)?;
        self.out.stmt(StmtKind::Declare(memory), span);
        Ok(memory)
    }

    fn first_values(&mut self, memory: MemId, sizes: &[u32], element: &Type, init: &ArrayInit) -> Fallible<()> {
        match init {
            ArrayInit::None => Ok(()),
            ArrayInit::Fill(value) => {
                let values = self.value_as(value, element)?;
                self.fill(memory, sizes, &values, value.span)
            }
            ArrayInit::Elements(elements) => self.store_elements(memory, sizes, element, elements),
            ArrayInit::Copy(value) => self.array_into(value, memory, true),
        }
    }

    pub(crate) fn element_type(&self, ty: &Type, span: Span) -> Fallible<Type> {
        match ty {
            Type::Array(array) => self.mono.ty(&array.element, span),
            // A shared scalar is declared with a scalar type instead of an array type.
            other => self.mono.ty(other, span),
        }
    }

    fn known_size(&self, value: ExprId, name: &str, extent: &Expr) -> Fallible<u32> {
        let Some(known) = self.out.const_value(value).and_then(ScalarValue::as_integer) else {
            self.check_extent_overflow(value, name, extent.span)?;
            return Err(Box::new(
                Diagnostic::error("E0480", format!("the size of `{name}` is not known when the kernel is compiled"))
                    .at(extent.span, "this depends on the launch")
                    .note("each thread has its own copy, in registers where possible, so the size must be a constant")
                    .help("use a literal, a `const`, or a const parameter: `kernel k<const T: i32 = 16>(…)`"),
            ));
        };
        size(known, name, extent.span)
    }

    fn new_memory(
        &mut self,
        name: &str,
        space: MemorySpace,
        layout: ElementLayout,
        extents: &[u32],
        span: Span,
    ) -> MemId {
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
            self.out.stmt(StmtKind::Store { place, value, hint: def::CacheHint::None }, span);
        }
    }

    /// Returns the index tuple of a row-major position, as constants.
    pub(crate) fn tuple_of(&mut self, position: u64, extents: &[u32], span: Span) -> Vec<ExprId> {
        let mut rest = position;
        let mut at: Vec<u64> = extents
            .iter()
            .rev()
            .map(|&extent| {
                let position_in_axis = rest % u64::from(extent.max(1));
                rest /= u64::from(extent.max(1));
                position_in_axis
            })
            .collect();
        at.reverse();
        at.into_iter().map(|index| self.out.i32(index as i32, span)).collect()
    }

    /// Declares a local array with these elements. A `for` over an array literal iterates over it.
    pub(crate) fn filled_array(&mut self, name: &str, element: &Type, values: &[Expr], span: Span) -> Fallible<MemId> {
        let extents = [values.len() as u32];
        let layout = types::layout(self.program, element, span)?;
        let memory = self.new_memory(name, MemorySpace::Local, layout, &extents, span);
        self.out.stmt(StmtKind::Declare(memory), span);
        self.store_elements(memory, &extents, element, values)?;
        Ok(memory)
    }

    /// Declares a `const` array.
    pub(crate) fn constant_table(
        &mut self,
        name: &str,
        ty: &Type,
        values: &[ScalarValue],
        span: Span,
    ) -> Fallible<MemId> {
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
        if elements(&extents).saturating_mul(layout.scalar_count() as u64) != values.len() as u64 {
            return Err(internal(span, "a constant array of another size"));
        }
        let extents = extents.into_iter().map(Extent::Known).collect();
        Ok(self.out.at(span).constants(name, layout, extents, values.iter().map(|value| value.bits)))
    }

    // Shared memory

    pub fn shared(&mut self, id: LocalId, extents: &[Expr], span: Span) -> Fallible<()> {
        let (start, declared) = (self.out.open_len(), self.local(id, span)?);
        let element = self.element_type(&declared.ty, span)?;
        let layout = types::layout(self.program, &element, span)?;
        let mut lowered = Vec::with_capacity(extents.len());
        for extent in extents {
            let value = self.scalar(extent)?;
            self.check_extent_overflow(value, &declared.name, extent.span)?;
            lowered.push(match self.out.const_value(value).and_then(ScalarValue::as_integer) {
                Some(sizes) => Extent::Known(size(sizes, &declared.name, extent.span)?),
                None if self.is_uniform(value) => Extent::Dynamic(value),
                None => return Err(not_uniform(&declared.name, extent.span)),
            });
        }
        let sizes: Option<Vec<u32>> = lowered.iter().map(|extent| extent.known()).collect();
        if let Some(sizes) = sizes {
            check_size(&declared.name, &sizes, &layout, &SHARED, declared.span)?;
        }
        let memory = self.out.at(declared.span).memory(declared.name.as_str(), MemorySpace::Shared, layout, lowered);
        self.slots.insert(id, LoweredLocal::Array(memory));
        self.wrap_region(start, TileRegion::Stmt(Box::new(TileStmt::Declare(memory))), span);
        Ok(())
    }

    /// Reports an overflow in the computation of an extent from constants.
    fn check_extent_overflow(&self, value: ExprId, name: &str, span: Span) -> Fallible<()> {
        if self.out.const_value(value).is_some() || !self.is_of_constants(value) {
            return Ok(());
        }
        let ty = self.out.ty(value).scalar();
        Err(Box::new(
            Diagnostic::error("E0481", format!("`{name}` has an extent that does not fit `{ty}`"))
                .at(span, "computing this overflows"),
        ))
    }

    /// Returns whether a value is computed from constants alone.
    fn is_of_constants(&self, value: ExprId) -> bool {
        let kind = &self.out.function().exprs[value].kind;
        let mut is_const = kind.is_pure() && (!kind.is_free() || matches!(kind, def::ExprKind::Const(_)));
        kind.operands(|operand| is_const &= self.is_of_constants(operand));
        is_const
    }

    /// Returns whether a value is uniform over the launch and can be computed before a block starts.
    fn is_uniform(&self, value: ExprId) -> bool {
        use def::ExprKind::*;
        match &self.out.function().exprs[value].kind {
            Const(_) | Param(_) | Extent(..) => true,
            Id(id, _) => matches!(id, BuiltinIndex::BlockDim | BuiltinIndex::GridDim),
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
            let range = if known <= 0 { "at least 1" } else { "below 2^31" };
            Err(Box::new(
                Diagnostic::error("E0481", format!("`{name}` has an extent of {known}"))
                    .at(span, format!("this is {known}; it must be {range}")),
            ))
        }
    }
}

/// A limit on memory, with the diagnostic code, the owner of the memory (a thread or a block), the limit in bytes, and
/// the help text.
struct MemoryLimit {
    code: &'static str,
    whose: &'static str,
    bytes: u64,
    help: &'static str,
}

const LOCAL: MemoryLimit = MemoryLimit {
    code: "E0482",
    whose: "a thread has",
    bytes: LOCAL_BYTES,
    help: "let the threads of a block share it (`shared`), or pass an array to the kernel",
};
const CONSTANT: MemoryLimit = MemoryLimit {
    code: "E0482",
    whose: "constants of a kernel may take",
    bytes: CONSTANT_BYTES,
    help: "make it a variable of the script, and pass it to the kernel as an array",
};
const SHARED: MemoryLimit = MemoryLimit {
    code: "E0483",
    whose: "a block has",
    bytes: SHARED_BYTES,
    help: "make the tile smaller, or keep the data in an array of the kernel",
};

fn check_size(name: &str, extents: &[u32], layout: &ElementLayout, limit: &MemoryLimit, span: Span) -> Fallible<()> {
    let bytes = elements(extents).saturating_mul(layout.size as u64);
    if bytes <= limit.bytes {
        return Ok(());
    }
    Err(Box::new(
        Diagnostic::error(limit.code, format!("`{name}` takes more memory than {}", limit.whose))
            .at(span, format!("{bytes} bytes, of {} at most", limit.bytes))
            .help(limit.help),
    ))
}

fn not_uniform(name: &str, span: Span) -> Box<Diagnostic> {
    Box::new(
        Diagnostic::error("E0487", format!("the size of `{name}` is not known when a block starts"))
            .at(span, "this differs between threads, or is computed while they run")
            .help("compute it from constants, dimensions and scalar parameters"),
    )
}
