//! Verifier rules for tables: accesses, strips, loops, memories, regions, and launch constants.

use rustc_hash::FxHashSet;

use super::registers::{CodeVerifier, VerifyResult, in_table, width};
use crate::code::*;
use crate::group::Op;
use crate::lanes::is_wide;
use crate::lir::{self, RegionInput, for_each_inst};
use crate::memory::layout::{element_columns, known_extents};
use crate::op_shape::{Indices, LoopKind, MemoryOperandKind, Width, WriteKind};
use crate::product::TileGemm;
use crate::rule_violation::violation;
use crate::strip::{Micro, PLACES, SCRATCH, StripDef, StripOpcode as Act, StripOperand};
use crate::tile_copy::MAX_COPIED_AXES;
use crate::tiles::{ProductDef, WindowDef};
use clk_ir::def::{BuiltinIndex, Extent};
use clk_scalar::Scalar;
use clk_scalar::ops::WarpOp;

/// Checks the entries of tables to which no op refers directly.
pub(super) fn code(verifier: &mut CodeVerifier<'_>) -> VerifyResult {
    let code = verifier.code;
    if code.registers.defs.len() > NONE.into() || code.registers.masks.len() > NONE.into() {
        return Err(violation("C1 registers", "too many registers or masks"));
    }
    masks(verifier)?;
    launch(verifier)?;
    for (number, memory) in code.memories.iter().enumerate() {
        self::memory(verifier, memory).map_err(|e| e.at(format_args!(" of memory {number}, {}", memory.name)))?;
    }
    if code.events.tracked.len() != code.memories.len() {
        return Err(violation("C4 tables", "the table of tracked memories is incomplete"));
    }
    for product in &code.products {
        self::product(code, product)?;
    }
    for &site in code.events.tracked.iter().flatten().flat_map(|watched| &watched.site_ids) {
        in_table("note", site, code.events.access_sites.len())?;
    }
    for (number, region) in code.regions.iter().enumerate() {
        self::region(verifier, region).map_err(|e| e.at(format_args!(" in region {number}")))?;
        if region.inner as usize > number {
            return Err(violation("C4 tables", format!("region {number} has parts that do not exist")));
        }
    }
    match code.source.region_spans.len() == code.regions.len() {
        true => Ok(()),
        false => Err(violation("C4 tables", "not every region has a span")),
    }
}

fn masks(verifier: &CodeVerifier<'_>) -> VerifyResult {
    let code = verifier.code;
    let mut seen_registers = FxHashSet::default();
    for (number, &reg) in code.registers.masks.iter().enumerate() {
        verifier.exists(reg, Width::Four).map_err(|e| e.at(format_args!(" in mask {number}")))?;
        if verifier.is_uniform(reg) || !seen_registers.insert(reg) || verifier.views.contains(&reg) {
            return Err(violation("C2 masks", format!("register {reg} cannot be that of mask {number}")));
        }
    }
    verifier.mask_exists(0)
}

fn launch(verifier: &mut CodeVerifier<'_>) -> VerifyResult {
    let code = verifier.code;
    for &(reg, special) in code.registers.launch.iter().chain(&code.registers.block) {
        let scalar = match special {
            Special::Const(scalar, _) | Special::Param(_, _, scalar) => scalar,
            Special::Extent(memory, _) => {
                in_table("memory", memory, code.memories.len())?;
                Scalar::I32
            }
            Special::Id(..) => Scalar::I32,
        };
        if verifier.uniform(reg, width(scalar)).is_err() {
            return Err(violation("C10 launch", format!("register {reg} cannot hold what is set")));
        }
    }
    let of_block = |special| matches!(special, Special::Id(BuiltinIndex::Block | BuiltinIndex::Global, _));
    let is_separate = code.registers.block.iter().all(|&(_, s)| of_block(s))
        && !code.registers.launch.iter().any(|&(_, s)| of_block(s));
    if is_separate {
        Ok(())
    } else {
        Err(violation("C10 launch", "a launch value in the block's table, or the reverse"))
    }
}

fn memory(verifier: &mut CodeVerifier<'_>, memory: &MemoryDef) -> VerifyResult {
    if memory.extent_regs.len() != memory.extents.len() {
        return Err(violation("C9 memories", "the table of extent registers is incomplete"));
    }
    for (extent, &reg) in memory.extents.iter().zip(&memory.extent_regs) {
        match extent {
            Extent::Dynamic(_) => verifier.uniform(reg, Width::Four)?,
            _ if reg != NONE => return Err(violation("C9 memories", "a register for an extent that is not dynamic")),
            _ => {}
        }
    }
    let fixed = memory.extents.iter().all(|extent| matches!(extent, Extent::Known(_)));
    let bytes = || known_extents(memory).map(|n| n as usize).product::<usize>() * memory.layout.size;
    match memory.kind {
        MemoryKind::Local | MemoryKind::Constant if !fixed => {
            Err(violation("C9 memories", "an extent that is not known"))
        }
        MemoryKind::Constant if memory.constants.len() != bytes() => {
            Err(violation("C9 memories", "constants are missing"))
        }
        _ => Ok(()),
    }
}

fn product(code: &KernelTables, product: &ProductDef) -> VerifyResult {
    let TileGemm { rows, columns, inner, scalar, .. } = product.gemm;
    let matrices = [
        (product.sum, [rows, columns], Scalar::F32),
        (product.left, [rows, inner], scalar),
        (product.right, [inner, columns], scalar),
    ];
    for (number, extents, scalar) in matrices {
        in_table("memory", number, code.memories.len())?;
        let def = &code.memories[number as usize];
        let is_valid = def.extents.iter().all(|extent| matches!(extent, Extent::Known(_)))
            && known_extents(def).map(|n| n as usize).eq(extents)
            && def.layout.size == scalar.size();
        if def.kind != MemoryKind::Shared || !is_valid {
            return Err(violation("C12 products", format!("{} is no such matrix", def.name)));
        }
    }
    let is_distinct = product.sum != product.left && product.sum != product.right;
    match is_distinct && product.gemm.is_covered(product.isa) {
        true => Ok(()),
        false => Err(violation("C12 products", "there is no code for it")),
    }
}

impl CodeVerifier<'_> {
    /// Checks a tile copy, and records that the op reads the registers of its axis windows.
    pub(super) fn copy(&mut self, number: u32) -> VerifyResult {
        in_table("copy", number, self.code.copies.len())?;
        let code = self.code;
        let copy = &code.copies[number as usize];
        for memory in [copy.to, copy.from] {
            in_table("memory", memory, code.memories.len())?;
        }
        let (to, from) = (&code.memories[copy.to as usize], &code.memories[copy.from as usize]);
        let fixed = to.extents.iter().all(|extent| matches!(extent, Extent::Known(_)));
        let extents: Vec<usize> = known_extents(to).map(|n| n as usize).collect();
        let is_valid = to.kind == MemoryKind::Shared
            && from.kind != MemoryKind::Local
            && fixed
            && extents.iter().product::<usize>() == copy.count()
            && to.layout.size == copy.size
            && from.layout.size == copy.size
            && copy.to != copy.from
            && copy.windows.len() == from.extents.len()
            && copy.windows.len() <= MAX_COPIED_AXES
            && copy.transposed.is_none_or(|transposed| extents == transposed)
            && (!copy.rounds_to_tf32 || copy.size == 4);
        for taken in &copy.windows {
            match *taken {
                WindowDef::At(index) => self.uniform(index, Width::Four)?,
                WindowDef::Range { step, .. } if step < 1 => return Err(violation("C13 copies", "a step below 1")),
                WindowDef::Range { start, end, .. } => {
                    self.uniform(start, Width::Four)?;
                    if end != NONE {
                        self.uniform(end, Width::Four)?;
                    }
                }
            }
        }
        if is_valid { Ok(()) } else { Err(violation("C13 copies", format!("{} does not match the copy", to.name))) }
    }
}

fn region(verifier: &mut CodeVerifier<'_>, region: &lir::LaneRegion) -> VerifyResult {
    lir::verify::verify(region).map_err(|e| violation("C11 regions", e.to_string()))?;
    let lanes =
        |v: &CodeVerifier<'_>, reg: Reg| matches!(v.code.registers.defs.get(reg as usize), Some(RegDef::Lanes { .. }));
    if let Some(reg) = region.reads.iter().find(|&&reg| !lanes(verifier, reg)) {
        return Err(violation("C11 regions", format!("{reg} is not a register of lanes")));
    }
    for written in &region.writes {
        verifier.exists(written.reg, width(written.scalar))?;
        if verifier.is_uniform(written.reg) != written.uniform || verifier.set.contains(&written.reg) {
            return Err(violation("C11 regions", format!("register {} cannot be written", written.reg)));
        }
    }
    for touched in &region.memories {
        let number = touched.memory.index();
        in_table("memory", number as u32, verifier.code.memories.len())?;
        let def = &verifier.code.memories[number];
        if touched.own != (def.kind == MemoryKind::Local) || (touched.stores && !def.writable) {
            return Err(violation("C11 regions", format!("{} is accessed", def.name)));
        }
    }
    for &(memory, _) in &region.owned {
        in_table("memory", memory.index() as u32, verifier.code.memories.len())?;
    }
    for report in &region.reports {
        in_table("note", report.note, verifier.code.events.access_sites.len())?;
    }
    inputs(verifier, region)
}

/// Checks the inputs of a LaneIR region: their registers and memories exist and have the right type.
fn inputs(verifier: &mut CodeVerifier<'_>, region: &lir::LaneRegion) -> VerifyResult {
    let mut insts: Vec<&lir::LaneInst> = region.setup.iter().collect();
    for_each_inst(&region.body, &mut |inst| insts.push(inst));
    let mut columns = vec![];
    for inst in &insts {
        let (lir::LaneOp::Input(input) | lir::LaneOp::BroadcastInput(input)) = inst.op else { continue };
        match input {
            RegionInput::Uniform(reg, scalar) => verifier.uniform(reg, width(scalar))?,
            RegionInput::LaneRegister(reg) => columns.push((inst.dst, reg)),
            RegionInput::BaseAddress(id)
            | RegionInput::Exclusive(id)
            | RegionInput::InitBytes(id)
            | RegionInput::InitValue(id) => in_table("memory", id.index() as u32, verifier.code.memories.len())?,
            RegionInput::Extent(id, axis) | RegionInput::Pitch(id, axis) => {
                in_table("memory", id.index() as u32, verifier.code.memories.len())?;
                in_table("axis", axis.into(), verifier.code.memories[id.index()].extents.len())?;
            }
            RegionInput::FirstCoord(_) | RegionInput::LastCoord(_) | RegionInput::ColumnBytes => {}
        }
    }
    for inst in insts {
        let value = match inst.op {
            lir::LaneOp::LoadReg => inst.dst,
            lir::LaneOp::StoreReg => inst.args[1],
            _ => continue,
        };
        let bytes = if region.ty(value) == lir::LaneTy::V64 { Width::Eight } else { Width::Four };
        match columns.iter().find(|(address, _)| *address == inst.args[0]) {
            Some(&(_, reg)) => verifier.exists(reg, bytes)?,
            None => return Err(violation("C11 regions", format!("`{inst}` has no register"))),
        }
    }
    Ok(())
}

// Tables that ops refer to

impl CodeVerifier<'_> {
    pub(super) fn memory(&self, number: u32, kind: MemoryOperandKind) -> VerifyResult {
        in_table("memory", number, self.code.memories.len())?;
        let memory = &self.code.memories[number as usize];
        let is_valid = match kind {
            MemoryOperandKind::Local => memory.kind == MemoryKind::Local,
            MemoryOperandKind::Words => {
                memory.kind == MemoryKind::Shared && memory.layout.size == 4 && memory.extents.len() == 1
            }
        };
        if is_valid {
            Ok(())
        } else {
            Err(violation("C5 accesses", format!("array {} is of another kind", memory.name)))
        }
    }

    /// Checks the memory, the indices and the offset of an access to `count` components.
    fn place(&mut self, access: &AccessOperands, indices: Indices, count: usize) -> VerifyResult<MemoryKind> {
        in_table("memory", access.memory, self.code.memories.len())?;
        let memory = &self.code.memories[access.memory as usize];
        if access.axes.len() != memory.extents.len() {
            return Err(violation("C5 accesses", format!("{} indices of {}", access.axes.len(), memory.name)));
        }
        let (size, end) = match memory.kind {
            MemoryKind::Local => (if is_wide(access.scalar) { 2 } else { 1 }, element_columns(memory)),
            _ => (access.scalar.size(), memory.layout.size),
        };
        if access.offset as usize + count * size > end {
            return Err(violation("C5 accesses", format!("a component beyond the element of {}", memory.name)));
        }
        access.axes.iter().try_for_each(|index| self.index(index, indices))?;
        Ok(memory.kind)
    }

    fn index(&mut self, index: &AffineIndex, indices: Indices) -> VerifyResult {
        self.read(index.base, if index.wide { Width::Eight } else { Width::Four })?;
        for coef in index.coef {
            if let Coef::Reg(reg) = coef {
                self.uniform(reg, Width::Four)?;
            }
        }
        let (plain, uniform) = (index.coef == [Coef::Zero; AXES], self.is_uniform(index.base));
        let is_valid = match indices {
            Indices::Uniform => plain && uniform,
            Indices::Affine => uniform && (plain || !index.wide),
            Indices::Lanes => plain,
            Indices::Any => plain || (uniform && !index.wide),
        };
        if is_valid { Ok(()) } else { Err(violation("C5 accesses", "an index of another form")) }
    }

    fn access(&self, number: u32) -> VerifyResult<AccessOperands> {
        in_table("access", number, self.code.accesses.len())?;
        let access = self.code.accesses[number as usize].clone();
        in_table("span", access.span, self.code.source.spans.len())?;
        Ok(access)
    }

    pub(super) fn load(&mut self, number: u32, indices: Indices, bytes: usize) -> VerifyResult {
        let access = self.access(number)?;
        let kind = self.place(&access, indices, access.regs.len())?;
        if kind == MemoryKind::Local || access.scalar.size() != bytes {
            return Err(violation("C5 accesses", "another load's elements"));
        }
        if access.may_view && (access.regs.len() != 1 || bytes != 4 || indices != Indices::Affine) {
            return Err(violation("C6 views", "a load that cannot be a view"));
        }
        for &reg in &access.regs {
            match indices {
                _ if access.may_view => self.view(reg)?,
                Indices::Uniform => self.write_uniform(reg, width(access.scalar))?,
                _ => self.write_lanes(reg, width(access.scalar))?,
            }
        }
        Ok(())
    }

    pub(super) fn store(&mut self, number: u32, indices: Indices, bytes: usize, at: usize) -> VerifyResult {
        let access = self.access(number)?;
        let kind = self.place(&access, indices, access.regs.len())?;
        let writable = self.code.memories[access.memory as usize].writable;
        if kind == MemoryKind::Local || !writable || access.scalar.size() != bytes {
            return Err(violation("C5 accesses", "another store's elements"));
        }
        let aims = self.shapes[at].name == "aim";
        access.regs.iter().try_for_each(|&reg| match aims {
            true => self.view(reg),
            false => self.read(reg, width(access.scalar)),
        })
    }

    pub(super) fn local(&mut self, number: u32, indices: Indices, width: Width, write: WriteKind) -> VerifyResult {
        let access = self.access(number)?;
        let kind = self.place(&access, indices, access.regs.len())?;
        if kind != MemoryKind::Local || super::registers::width(access.scalar) != width {
            return Err(violation("C5 accesses", "elements that are not a local array's"));
        }
        access.regs.iter().try_for_each(|&reg| match write {
            WriteKind::Yes => self.read(reg, width),
            WriteKind::No => self.write_lanes(reg, width),
        })
    }

    pub(super) fn forms(&mut self, number: u32, count: usize) -> VerifyResult {
        in_table("access", number, self.code.accesses.len())?;
        let axes = &self.code.accesses[number as usize].axes;
        if axes.len() != count || axes.iter().any(|index| index.wide) {
            return Err(violation("C5 accesses", format!("not {count} affine forms")));
        }
        axes.iter().try_for_each(|index| self.index(index, Indices::Affine))
    }

    pub(super) fn atomic(&mut self, number: u32, indices: Indices, bytes: usize) -> VerifyResult {
        in_table("atomic operation", number, self.code.atomics.len())?;
        let def = &self.code.atomics[number as usize];
        let access = self.access(def.access)?;
        let kind = self.place(&access, indices, 1)?;
        let size = access.scalar.size();
        let element = self.code.memories[access.memory as usize].layout.size;
        let aligned = (access.offset as usize).is_multiple_of(size) && element.is_multiple_of(size);
        let writable = self.code.memories[access.memory as usize].writable;
        let place = matches!(kind, MemoryKind::Global(_) | MemoryKind::Shared) && writable;
        if !place || !aligned || (bytes != 0 && bytes != size) {
            return Err(violation("C5 accesses", "an atomic operation's elements"));
        }
        let width = width(access.scalar);
        self.read(def.value, width)?;
        self.may_read(def.compare, width)?;
        if def.result == NONE { Ok(()) } else { self.write_lanes(def.result, width) }
    }

    pub(super) fn slow(&mut self, number: u32, d: Reg) -> VerifyResult {
        in_table("operation", number, self.code.slow.len())?;
        let def = &self.code.slow[number as usize];
        def.args.iter().try_for_each(|&(reg, scalar)| self.read(reg, width(scalar)))?;
        self.result(d, width(def.out))
    }

    pub(super) fn warp(&mut self, number: u32) -> VerifyResult {
        in_table("warp operation", number, self.code.warps.len())?;
        let def = &self.code.warps[number as usize];
        let out = match def.op {
            WarpOp::Ballot | WarpOp::MatchAny => Scalar::U32,
            WarpOp::Any | WarpOp::All => Scalar::Bool,
            _ => def.scalar,
        };
        self.read(def.value, width(def.scalar))?;
        self.may_read(def.lane, Width::Four)?;
        self.may_read(def.participants, Width::Four)?;
        self.write_lanes(def.result, width(out))
    }

    pub(super) fn message(&mut self, number: u32) -> VerifyResult {
        in_table("message", number, self.code.messages.len())?;
        for part in &self.code.messages[number as usize].parts {
            if let MessagePart::Value(regs, scalar, _) = part {
                regs.iter().try_for_each(|&reg| self.read(reg, width(*scalar)))?;
            }
        }
        Ok(())
    }

    pub(super) fn loop_(&mut self, number: u32, kind: LoopKind, op: &Op) -> VerifyResult {
        in_table("loop", number, self.code.loops.len())?;
        let def = &self.code.loops[number as usize];
        in_table("span", def.span, self.code.source.spans.len())?;
        let width = width(def.scalar);
        let by_lanes = matches!(kind, LoopKind::Lanes | LoopKind::Enter);
        for reg in [def.start, def.end, def.step] {
            if by_lanes { self.read(reg, width)? } else { self.uniform(reg, width)? }
        }
        if !by_lanes || op.c != 1 {
            self.write_uniform(def.local, width)?;
        } else {
            self.write_lanes(def.local, width)?;
        }
        let is_valid = match kind {
            LoopKind::Next => (op.d, op.a) == (def.local, def.step) && (op.c != 1 || def.scalar.size() == 4),
            LoopKind::Words => def.scalar == Scalar::I32,
            LoopKind::OptionalI32 => def.scalar == Scalar::I32 || op.c == 0,
            // If the loop variable is affine, each iteration adds the step to its base, so the step must be uniform.
            LoopKind::Lanes | LoopKind::Enter => op.c == 1 || self.is_uniform(def.step),
            LoopKind::Uniform => true,
        };
        if !is_valid {
            return Err(violation("C4 tables", "the op of another loop"));
        }
        if !by_lanes {
            return Ok(());
        }
        if kind == LoopKind::Enter && op.c != 1 {
            self.uniform(op.a, width)?;
        }
        if let Some(form) = &def.form {
            self.index(form, Indices::Affine)?;
        }
        if kind == LoopKind::Enter {
            self.set_mask(def.mask)?
        } else {
            self.mask(def.mask)?
        }
        self.write_lanes(def.trips, Width::Four)
    }

    pub(super) fn notes(&mut self, first: u32, count: u32) -> VerifyResult {
        for number in first..first + count {
            in_table("note", number, self.code.events.access_sites.len())?;
            let note = &self.code.events.access_sites[number as usize];
            let access = self.access(note.access)?;
            in_table("memory", access.memory, self.code.memories.len())?;
            note.values.iter().try_for_each(|&reg| self.read(reg, width(access.scalar)))?;
            if note.kind.is_atomic() {
                in_table("atomic operation", note.atomic, self.code.atomics.len())?;
            }
            if self.code.events.tracked[access.memory as usize].is_none() && self.code.events.counted_warps.is_none() {
                return Err(violation("C4 tables", "a note of a memory that is not watched"));
            }
        }
        Ok(())
    }

    pub(super) fn wait(&mut self, number: u32) -> VerifyResult {
        in_table("wait", number, self.code.events.polling_loops.len())?;
        let wait = &self.code.events.polling_loops[number as usize];
        self.mask(wait.entered)?;
        wait.progress_locals
            .iter()
            .chain(&wait.weak_locals)
            .try_for_each(|&(reg, scalar)| self.read(reg, width(scalar)))
    }

    pub(super) fn nan_check(&mut self, number: u32, d: Reg) -> VerifyResult {
        in_table("birth", number, self.code.events.nan_checks.len())?;
        let nan_check = &self.code.events.nan_checks[number as usize];
        self.read(d, width(nan_check.scalar))?;
        nan_check.args.iter().try_for_each(|&(reg, scalar)| self.read(reg, width(scalar)))
    }

    // Strips

    pub(super) fn strip(&mut self, number: u32, at: usize) -> VerifyResult {
        in_table("strip", number, self.code.strips.len())?;
        let def = &self.code.strips[number as usize];
        if def.places.len() > PLACES {
            return Err(violation("C8 strips", "too many operands"));
        }
        for &place in &def.places {
            match place {
                StripOperand::Reg(reg) => self.read(reg, Width::Four)?,
                StripOperand::Scratch(k) if usize::from(k) >= SCRATCH => {
                    return Err(violation("C8 strips", "too many temporaries"));
                }
                StripOperand::Kept(mask) => self.set_mask(mask)?,
                StripOperand::Scratch(_) | StripOperand::Mask => {}
            }
        }
        let aimed = self.aimed(at);
        let mut scratch = FxHashSet::default();
        let mut keeps = false;
        for micro in &def.micros {
            let (reads, writes) = operands(micro);
            for number in reads {
                if let StripOperand::Scratch(k) = place_of(def, number)?
                    && !scratch.contains(&k)
                {
                    return Err(violation("C8 strips", format!("temporary {k} is read before it is written")));
                }
            }
            let Some(number) = writes else { continue };
            match place_of(def, number)? {
                StripOperand::Reg(reg) if aimed == Some(reg) => {}
                StripOperand::Reg(reg) => self.write_lanes(reg, Width::Four)?,
                StripOperand::Scratch(k) => {
                    scratch.insert(k);
                }
                StripOperand::Kept(mask) if is_keep(micro.code) && def.kept == Some(mask) => keeps = true,
                StripOperand::Kept(_) | StripOperand::Mask => return Err(violation("C8 strips", "a mask is written")),
            }
        }
        if keeps != def.kept.is_some() {
            return Err(violation("C8 strips", "it does not compute the mask that it says"));
        }
        match self.shapes[at].name == "strip" && self.jumps(at) {
            true => self.target(self.ops[at].x, at),
            false => Ok(()),
        }
    }

    /// Returns the register that the op before a strip redirects, if that op is an `aim`.
    fn aimed(&self, at: usize) -> Option<Reg> {
        let aim_op = at.checked_sub(1).filter(|&aim_op| self.shapes[aim_op].name == "aim")?;
        self.code.accesses.get(self.ops[aim_op].x as usize)?.regs.first().copied()
    }
}

fn place_of(def: &StripDef, number: u8) -> VerifyResult<StripOperand> {
    let missing = || violation("C8 strips", format!("there is no operand {number}"));
    def.places.get(usize::from(number)).copied().ok_or_else(missing)
}

fn is_keep(act: Act) -> bool {
    matches!(act, Act::Keep | Act::KeepNot)
}

/// Returns the operands that an operation of a strip reads, and the operand that it writes.
fn operands(micro: &Micro) -> (Vec<u8>, Option<u8>) {
    use Act::*;
    let &Micro { code, m, n, q } = micro;
    match code {
        Store | StoreB => (vec![], Some(m)),
        StoreMasked | Keep | KeepNot => (vec![n], Some(m)),
        Accumulate => (vec![m, n, q], Some(q)),
        AddAB | SubAB | SubFromAB | MulAB | Square | SquareB | Double | DoubleB => (vec![], None),
        Neg | Abs | Sqrt | Rsqrt | NegI | Not | FromI | FromU => (vec![], None),
        LoadAdd | LoadSub | LoadMul | LoadAddB | LoadSubB | LoadMulB | Fma | Select => (vec![m, n], None),
        AddAdd | AddSub | AddMul | SubAdd | SubSub | SubMul | FromAdd | FromSub | FromMul => (vec![m, n], None),
        MulAdd | MulSub | MulFrom | MulMul => (vec![m, n], None),
        Load | LoadB | Add | Sub | SubFrom | Mul | AddB | SubB | SubFromB | MulB | Ahead => (vec![m], None),
        Div | DivInto | Min | Max | Lt | Le | Gt | Ge | Eq | Ne | And | Or | Xor => (vec![m], None),
        AddI | SubI | SubFromI | MulI | LtI | LeI | GtI | GeI | LtU | LeU | GtU | GeU | EqI | NeI => (vec![m], None),
    }
}
