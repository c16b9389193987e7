//! Emits constant arrays as data of the CUDA module.
//!
//! Input: the kernel's arrays in [`MemorySpace::Constant`]. Output: a C array with an initializer for each, before the
//! kernel. Constant memory is limited to 64 KiB, and an access is fast only if all lanes of a warp read the same
//! address. So an array is placed in constant memory if every index into it is uniform in a block. Otherwise, it is
//! placed in global memory, and loads use the read-only cache.

use super::generator::{CudaGenerator, CudaType};
use super::print;
use super::tree::{CudaExpr, CudaStmt};
use clk_ir::def::*;
use clk_ir::variance::{self, Variance, Variances};
use clk_ir::visit::each_stmt;
use clk_scalar::ScalarValue;

/// The size of a kernel's constant memory in bytes.
const CONSTANT_MEMORY: u64 = 64 * 1024;
/// Maximum width of a line with initial values, in characters.
const WIDTH: usize = 110;

impl CudaGenerator<'_> {
    /// Emits the definitions of the constant arrays.
    pub fn constant_arrays(&mut self) {
        let function = self.function;
        if !function.memories.iter().any(|(_, memory)| memory.space == MemorySpace::Constant) {
            return;
        }
        let variance = variance::analyze(function);
        let mut bytes_left = CONSTANT_MEMORY;
        for (id, memory) in function.memories.iter().filter(|(_, memory)| memory.space == MemorySpace::Constant) {
            let bytes = memory.known_len().unwrap_or(0).saturating_mul(memory.layout.size as u64).next_multiple_of(16);
            let close = bytes <= bytes_left && is_read_uniformly(function, &variance, id);
            if close {
                bytes_left -= bytes;
            }
            let space = if close { "__constant__" } else { "__device__" };
            if values_are_plain(memory) {
                self.emit_initialized(id, memory, space);
            } else {
                self.emit_words(id, memory, space);
            }
        }
    }

    fn emit_initialized(&mut self, id: MemId, memory: &Memory, space: &str) {
        let CudaType { ty, fields, gaps } = self.memories[id.index()].element.clone();
        let values: Vec<String> = memory
            .values
            .chunks(memory.layout.scalar_count().max(1))
            .map(|scalars| {
                let leaves = self.leaves(&memory.layout, scalars);
                match fields {
                    Some(_) => {
                        let padding = |&gap: &bool| if gap { "{}, " } else { "" };
                        let parts: Vec<String> =
                            leaves.iter().zip(&gaps).map(|(leaf, gap)| format!("{}{leaf}", padding(gap))).collect();
                        format!("{{{}}}", parts.join(", "))
                    }
                    None => leaves.concat(),
                }
            })
            .collect();
        let extents: Vec<usize> =
            memory.extents.iter().map(|extent| if let Extent::Known(n) = extent { *n as usize } else { 1 }).collect();
        let suffix: String = extents.iter().map(|n| format!("[{n}]")).collect();
        let name = self.memories[id.index()].name.clone();
        self.memories[id.index()].by_axis = true;
        self.preamble.helpers.add(&format!("{space} const {ty} {name}{suffix} = {};", nested(&values, &extents)));
    }

    /// Returns the leaves (scalar and vector fields) of an element as C++ literals.
    fn leaves(&mut self, layout: &ElementLayout, scalars: &[u64]) -> Vec<String> {
        let mut rest = scalars.iter();
        let mut leaves = Vec::with_capacity(layout.leaves.len());
        for leaf in &layout.leaves {
            let lanes: Vec<CudaExpr> = rest
                .by_ref()
                .take(usize::from(leaf.ty.lanes()))
                .map(|&bits| self.preamble.helpers.literal(ScalarValue { ty: leaf.ty.scalar(), bits }))
                .collect();
            let lanes: Vec<String> = lanes.iter().map(print::expr).collect();
            leaves.push(match leaf.ty {
                Ty::Scalar(_) => lanes.concat(),
                Ty::Vector(..) => format!("{{{}}}", lanes.join(", ")),
            });
        }
        leaves
    }

    /// Emits an array as raw words, and a pointer through which the elements are read. This is necessary for infinities
    /// and NaNs: their literals are function calls, which initializers of module data must not contain.
    fn emit_words(&mut self, id: MemId, memory: &Memory, space: &str) {
        let name = self.memories[id.index()].name.clone();
        let (words, ty) =
            (self.naming.used.fresh(&format!("{name}_bits")), self.memories[id.index()].element.ty.clone());
        let mut bytes = memory.bytes();
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        let values: Vec<String> =
            bytes.chunks_exact(4).map(|b| format!("{:#x}", u32::from_le_bytes([b[0], b[1], b[2], b[3]]))).collect();
        let count = values.len();
        let list = nested(&values, &[count]);
        self.preamble.helpers.add(&format!("{space} __align__(16) const unsigned {words}[{count}] = {list};"));
        let value = Some(CudaExpr::Call(format!("(const {ty} *)"), vec![CudaExpr::Atom(words)]));
        let ty = format!("const {ty} *const");
        self.preamble.stmts.push(CudaStmt::Declare { ty, name, suffix: String::new(), value });
    }
}

/// Returns whether all initial values can be written as C++ literals without calls.
fn values_are_plain(memory: &Memory) -> bool {
    let scalars = memory.layout.leaves.iter().flat_map(|leaf| (0..leaf.ty.lanes()).map(|_| leaf.ty.scalar()));
    let scalars: Vec<Scalar> = scalars.collect();
    let finite = |(&bits, &ty): (&u64, &Scalar)| {
        !matches!(ty, Scalar::F32 | Scalar::F64) || ScalarValue { ty, bits }.as_f64().is_finite()
    };
    memory.values.iter().zip(scalars.iter().cycle()).all(finite)
}

/// Returns the values in nested braces, as the initializer of an array with these extents.
fn nested(values: &[String], extents: &[usize]) -> String {
    match extents {
        [] => values.concat(),
        [_] => {
            let mut text = String::from("{");
            let mut column = 1;
            for (i, value) in values.iter().enumerate() {
                let lead = if i == 0 { "" } else { ", " };
                if column + value.len() > WIDTH {
                    text.push_str(if i == 0 { "\n    " } else { ",\n    " });
                    column = 4;
                } else {
                    text.push_str(lead);
                }
                text.push_str(value);
                column += value.len() + 2;
            }
            text.push('}');
            text
        }
        [_, inner @ ..] => {
            let size = inner.iter().product::<usize>().max(1);
            let rows: Vec<String> = values.chunks(size).map(|row| nested(row, inner)).collect();
            format!("{{\n    {}}}", rows.join(",\n    "))
        }
    }
}

/// Returns whether the threads of a block always read the same element.
fn is_read_uniformly(function: &Function, variance: &Variances, memory: MemId) -> bool {
    let mut together = true;
    each_stmt(&function.body, &mut |stmt| {
        if let StmtKind::Let(id) = stmt.kind
            && let ExprKind::Load { place, .. } = &function.exprs[id].kind
            && place.memory == memory
        {
            together &= place.indices.iter().all(|&index| variance.exprs[index] == Variance::Uniform);
        }
    });
    together
}
