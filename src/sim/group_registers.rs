//! The registers of a running group, as ops and machine code access them.

use super::register_ids::Reg;

/// Number of lanes in a chunk. All loops over lanes process whole chunks.
pub(crate) const CHUNK: usize = 16;

/// The location of a register's lanes.
#[derive(Clone, Copy)]
pub(crate) struct Slot {
    pub ptr: *mut u8,
    /// Bytes from chunk to chunk; 0 for a uniform register.
    pub stride: usize,
}

/// The registers of a group; rule G1 of [`group`](super::group) applies to them.
#[derive(Clone, Copy)]
pub(crate) struct GroupRegisters {
    /// For each register, the location of its lanes.
    pub slots: *mut Slot,
    /// For each register, the slot that points to its own memory, used while the register is not a view.
    pub homes: *const Slot,
}

impl GroupRegisters {
    /// # Safety
    /// `reg` is a register of the code.
    #[inline(always)]
    pub unsafe fn slot(&self, reg: Reg) -> Slot {
        // SAFETY: C1: the caller's register belongs to the code, and each register has a slot (G1).
        unsafe { *self.slots.add(reg as usize) }
    }

    /// Returns the slot that points to a register's own memory.
    ///
    /// # Safety
    /// `reg` is a register of the code.
    #[inline(always)]
    pub unsafe fn home(&self, reg: Reg) -> Slot {
        // SAFETY: C1: the caller's register belongs to the code, and each register has a home (G4).
        unsafe { *self.homes.add(reg as usize) }
    }

    /// Changes the location of a register's lanes.
    ///
    /// # Safety
    /// `reg` is a register of the code. The location satisfies G1.
    #[inline(always)]
    pub unsafe fn set_slot(&mut self, reg: Reg, slot: Slot) {
        // SAFETY: C1: the caller's register belongs to the code, and each register has a slot (G4).
        unsafe { *self.slots.add(reg as usize) = slot }
    }

    /// Reads the first lane of a register.
    ///
    /// # Safety
    /// The register holds lanes of `T`'s size.
    #[inline(always)]
    pub unsafe fn first<T: Copy>(&self, reg: Reg) -> T {
        // SAFETY: C1, G1: the register has lanes of `T`'s size, and the first one is initialized.
        unsafe { self.slot(reg).ptr.cast::<T>().read_unaligned() }
    }

    /// Writes a value to all lanes of a uniform register.
    ///
    /// # Safety
    /// The register is uniform and holds lanes of `T`'s size.
    #[inline(always)]
    pub unsafe fn broadcast<T: Copy>(&self, reg: Reg, value: T) {
        // SAFETY: C1, G1: the register is uniform, so it consists of one chunk of lanes of `T`'s size.
        unsafe { self.slot(reg).ptr.cast::<[T; CHUNK]>().write_unaligned([value; CHUNK]) }
    }

    /// Reads one lane of a register, uniform or not.
    ///
    /// # Safety
    /// As for [`GroupRegisters::first`]; `lane` is less than the padded lane count.
    #[inline(always)]
    pub unsafe fn lane<T: Copy>(&self, reg: Reg, lane: usize) -> T {
        // SAFETY: C1, G1: the register has lanes of `T`'s size, and the caller's lane exists.
        unsafe {
            let slot = self.slot(reg);
            slot.ptr.add(lane / CHUNK * slot.stride).cast::<T>().add(lane % CHUNK).read_unaligned()
        }
    }

    /// # Safety
    /// As for [`GroupRegisters::lane`].
    #[inline(always)]
    pub unsafe fn set_lane<T: Copy>(&self, reg: Reg, lane: usize, value: T) {
        // SAFETY: C1, G1: the register has lanes of `T`'s size, and the caller's lane exists.
        unsafe {
            let slot = self.slot(reg);
            slot.ptr.add(lane / CHUNK * slot.stride).cast::<T>().add(lane % CHUNK).write_unaligned(value)
        }
    }
}
