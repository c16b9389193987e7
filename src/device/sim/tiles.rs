//! Loops over tiles as one op: what the threads of a block do together between two barriers, and each for its own elements, is done for all
//! of them at once. Which loops these are, DeviceIR says; the gain is that work can be divided otherwise than among threads.

mod def;

pub(crate) use self::def::{CopyDef, ProductDef, TakenDef};
use super::copy::{self, MOST_AXES, Window};
use super::group::{Group, Op};
use super::lanes::Step;
use super::product::with_desk;
use super::reg::{NONE, Reg};
use super::shape::{Shape, Word};

/// Stands in front of the loop that adds product `y`, which ends at `x`. If not all threads of the block are here, the loop itself follows.
pub(crate) struct Multiply;

impl Step for Multiply {
    const SHAPE: Shape = Shape::new("product of tiles").x(Word::Target).y(Word::Product);

    unsafe fn step(g: &mut Group, op: *const Op) -> *const Op {
        // SAFETY: C3: `op` is one of the code's, at which the group is, with one behind. C4, C12: `y` is a product of shared arrays with
        // these extents (G3), of which the sum is none of the factors, for instructions of this machine (G6).
        unsafe {
            let o = &*op;
            let def = g.code().products[o.y as usize];
            let memory = |number: u32| (*g.memories.add(number as usize)).ptr;
            let sum = memory(def.sum).cast::<f32>();
            let done = g.is_whole_block() && def.held.add(def.isa, sum, memory(def.left), memory(def.right));
            if done { g.at(o.x) } else { op.add(1) }
        }
    }
}

/// Stands in front of the loop that makes copy `y`, which ends at `x`. If not all threads of the block are here, or an index is out of bounds,
/// the loop itself follows.
pub(crate) struct Fill;

impl Step for Fill {
    const SHAPE: Shape = Shape::new("copy to a tile").x(Word::Target).y(Word::Copy);

    unsafe fn step(g: &mut Group, op: *const Op) -> *const Op {
        // SAFETY: C3: `op` is one of the code's, at which the group is, with one behind. C4, C13: `y` is a copy of as many elements as the
        // tile has, which is another memory than the array (G3).
        unsafe {
            let o = &*op;
            if g.is_whole_block() && fill(g, &g.code().copies[o.y as usize]) { g.at(o.x) } else { op.add(1) }
        }
    }
}

/// Makes a copy; returns false, with nothing done, if an index is out of bounds or overflows.
///
/// # Safety
/// The copy is one of the group's code.
unsafe fn fill(g: &Group, def: &CopyDef) -> bool {
    // SAFETY: C13: registers of places are uniform `i32`s, one for each of the array's axes, of which there are few. The tile has room for
    // all elements, and is another memory (G3).
    unsafe {
        let (to, from) = ((*g.memories.add(def.to as usize)).ptr, &*g.memories.add(def.from as usize));
        let mut windows = [Window { start: 0, count: 1, step: 1, end: i64::MAX }; MOST_AXES];
        let number = |reg: Reg| i64::from(g.first::<i32>(reg));
        for ((taken, axis), window) in def.along.iter().zip(&from.axes).zip(&mut windows) {
            match *taken {
                TakenDef::At(index) => {
                    window.start = number(index);
                    if !(0..axis.extent).contains(&window.start) {
                        return false;
                    }
                }
                TakenDef::From { start, count, step, end } => {
                    let end = if end == NONE { i64::MAX } else { number(end) };
                    *window = Window { start: number(start), count, step, end };
                    // Threads would compute other indices.
                    if i32::try_from(window.start + count as i64 * step).is_err() {
                        return false;
                    }
                }
            }
        }
        let (windows, count) = (&windows[..def.along.len()], def.count());
        match def.transposed {
            None => copy::copy(from, windows, def.size, to),
            Some([columns, rows]) => {
                let copied = with_desk(count * def.size, |desk| {
                    copy::copy(from, windows, def.size, desk.as_mut_ptr());
                    copy::transpose(desk.as_ptr(), [rows, columns], def.size, to);
                });
                if copied.is_none() {
                    return false;
                }
            }
        }
        if def.rounded {
            copy::round(to.cast(), count);
        }
        true
    }
}

impl Group {
    /// Returns whether all threads of a block are active.
    fn is_whole_block(&self) -> bool {
        self.full && !self.is_split && self.shape[3] == 1
    }
}
