//! Collective loops over tiles, executed by a single op. In such a loop, all threads of a block together multiply or
//! copy tiles, between two barriers. DeviceIR marks these loops. The op does the work of all threads at once, which is
//! faster than running the loop for each thread.

mod def;

pub(crate) use self::def::{CopyDef, ProductDef, WindowDef};
use super::group::{Op, ThreadGroup};
use super::lanes::OpStep;
use super::op_shape::{OpShape, OperandRole};
use super::product::with_pack_buffer;
use super::register_ids::{NONE, Reg};
use super::tile_copy::{self, CopyWindow, MAX_COPIED_AXES};

/// Precedes the loop that computes tile product `y`: computes the product and jumps to the end of the loop, `x`. If
/// some threads of the block are inactive, continues with the loop instead.
pub(crate) struct MultiplyTiles;

impl OpStep for MultiplyTiles {
    const SHAPE: OpShape = OpShape::new("product of tiles").x(OperandRole::Target).y(OperandRole::Product);

    unsafe fn step(g: &mut ThreadGroup, op: *const Op) -> *const Op {
        // SAFETY: C3: `op` is the group's current op in the code, and another op follows. C4, C12: `y` is a product of
        // shared arrays with these extents (G3), the sum differs from both factors, and this machine has the
        // instructions (G6).
        unsafe {
            let o = &*op;
            let def = g.code().products[o.y as usize];
            let memory = |number: u32| (*g.memories.add(number as usize)).ptr;
            let sum = memory(def.sum).cast::<f32>();
            let done =
                g.all_threads_active() && def.gemm.add_product(def.isa, sum, memory(def.left), memory(def.right));
            if done { g.op_at(o.x) } else { op.add(1) }
        }
    }
}

/// Precedes the loop that performs tile copy `y`: performs the copy and jumps to the end of the loop, `x`. If some
/// threads of the block are inactive, or if an index is out of bounds, continues with the loop instead.
pub(crate) struct TileFill;

impl OpStep for TileFill {
    const SHAPE: OpShape = OpShape::new("copy to a tile").x(OperandRole::Target).y(OperandRole::Copy);

    unsafe fn step(g: &mut ThreadGroup, op: *const Op) -> *const Op {
        // SAFETY: C3: `op` is the group's current op in the code, and another op follows. C4, C13: `y` is a copy of as
        // many elements as the tile has, and the tile and the array are different memories (G3).
        unsafe {
            let o = &*op;
            if g.all_threads_active() && copy_to_tile(g, &g.code().copies[o.y as usize]) {
                g.op_at(o.x)
            } else {
                op.add(1)
            }
        }
    }
}

/// Performs a tile copy. Returns false, without any effect, if an index is out of bounds or overflows `i32`.
///
/// # Safety
/// The copy belongs to the group's code.
unsafe fn copy_to_tile(g: &ThreadGroup, def: &CopyDef) -> bool {
    // SAFETY: C13: the registers of indices are uniform `i32`s, one for each axis of the array, and there are at most
    // `MAX_COPIED_AXES` axes. The tile has room for all elements, and is not the memory of the array (G3).
    unsafe {
        let (to, from) = ((*g.memories.add(def.to as usize)).ptr, &*g.memories.add(def.from as usize));
        let mut windows = [CopyWindow { start: 0, count: 1, step: 1, end: i64::MAX }; MAX_COPIED_AXES];
        let number = |reg: Reg| i64::from(g.registers.first::<i32>(reg));
        for ((taken, axis), window) in def.windows.iter().zip(&from.axes).zip(&mut windows) {
            match *taken {
                WindowDef::At(index) => {
                    window.start = number(index);
                    if !(0..axis.extent).contains(&window.start) {
                        return false;
                    }
                }
                WindowDef::Range { start, count, step, end } => {
                    let end = if end == NONE { i64::MAX } else { number(end) };
                    *window = CopyWindow { start: number(start), count, step, end };
                    // The threads of the loop would compute wrapped indices, so the loop has to run.
                    if i32::try_from(window.start + count as i64 * step).is_err() {
                        return false;
                    }
                }
            }
        }
        let (windows, count) = (&windows[..def.windows.len()], def.count());
        match def.transposed {
            None => tile_copy::copy_windows(from, windows, def.size, to),
            Some([columns, rows]) => {
                let copied = with_pack_buffer(count * def.size, |buffer| {
                    tile_copy::copy_windows(from, windows, def.size, buffer.as_mut_ptr());
                    tile_copy::transpose(buffer.as_ptr(), [rows, columns], def.size, to);
                });
                if copied.is_none() {
                    return false;
                }
            }
        }
        if def.rounds_to_tf32 {
            tile_copy::round_to_tf32(to.cast(), count);
        }
        true
    }
}

impl ThreadGroup {
    /// Returns whether all threads of a block are active.
    fn all_threads_active(&self) -> bool {
        self.mask.full && !self.split.is_split && self.shape.extents[3] == 1
    }
}
