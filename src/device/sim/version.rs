//! The code that a kernel runs as: one that tells the checker of all accesses, and one that leaves out what is proved.
//!
//! Input: a kernel, and its launches with checks of memory. Output: the code for each. The idea: proofs are about launches that are as the
//! kernel's signature says, and cost some milliseconds. So a kernel gets the second code once such launches have had enough threads.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use super::code::Code;
use super::compile::{self, Compiled};
use super::group::Op;
use super::isa::Isa;
use super::report::Report;
use super::tier::{Jit, Tier};
use crate::base::source::Sources;
use crate::device::{Control, Declared};
use crate::ir::def::StmtKind;
use crate::ir::visit::each_stmt;
use crate::ir::{Apart, MOST_ELEMENTS, Prepared};

/// A kernel as compiled code.
pub(super) struct Version {
    pub ops: Vec<Op>,
    pub code: Code,
    pub tier: Arc<Tier>,
    report: Arc<Report>,
}

impl Version {
    pub fn new(Compiled { ops, code }: Compiled, names: Vec<String>, report: Arc<Report>) -> Version {
        report.count_regions(&code);
        Version { ops, code, tier: Arc::new(Tier::new(names, report.clone())), report }
    }
}

/// Whether runs with checks look at accesses that are proved to be right.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Proofs {
    /// They look at everything.
    #[default]
    Unused,
    /// They do not, where that pays.
    Used,
    /// They do not: for tests.
    Always,
}

/// Threads of a kernel's checked launches, from which on proofs pay; and of one with loops over tiles, of which a thread does more.
const WORTHWHILE: u64 = 1 << 16;
const WORTHWHILE_TILES: u64 = 1 << 10;

/// The code without what is proved, made when it is first wanted.
#[derive(Default)]
pub(super) struct Lean {
    threads: AtomicU64,
    has_tiles: OnceLock<bool>,
    version: OnceLock<Option<Box<Version>>>,
}

impl Lean {
    /// Returns the code for a launch of so many threads, if something is proved of it and the kernel has had enough of them.
    pub fn of(
        &self,
        kernel: &Prepared,
        full: &Version,
        (proofs, isa, jit): (Proofs, Isa, Jit),
        threads: u64,
        control: &Control,
    ) -> Option<&Version> {
        let is_proved = |launch: Declared| launch.largest <= MOST_ELEMENTS && launch.promises;
        // The interpreter looks at each access of threads that synchronize by fences or poll.
        let exact = full.code.syncs || full.code.polls || full.code.counted.is_some();
        if proofs == Proofs::Unused || exact || !control.declared.is_some_and(is_proved) {
            return None;
        }
        let before = self.threads.fetch_add(threads, Ordering::Relaxed);
        let tiles = || *self.has_tiles.get_or_init(|| has_tiles(kernel));
        let pays = |threads: u64| threads >= WORTHWHILE || threads >= WORTHWHILE_TILES && tiles();
        if proofs == Proofs::Used && !pays(before.saturating_add(threads)) {
            return None;
        }
        self.version.get_or_init(|| make(kernel, full, (isa, jit)).map(Box::new)).as_deref()
    }
}

/// Returns whether a kernel has loops over tiles: each may be one op, in place of some thousands for the block, if nothing looks at it.
fn has_tiles(kernel: &Prepared) -> bool {
    let mut found = false;
    let bodies = kernel.module.functions.iter().map(|(_, function)| &function.body);
    bodies.for_each(|body| {
        each_stmt(body, &mut |stmt| found |= matches!(stmt.kind, StmtKind::For { together: Some(_), .. }));
    });
    found
}

/// Compiles a kernel without what is proved; `None` if that is nothing of what is looked at.
fn make(kernel: &Prepared, full: &Version, (isa, jit): (Isa, Jit)) -> Option<Version> {
    let apart = kernel.declared.as_ref()?.apart(&kernel.module);
    let matters = |(watched, apart): (&Option<_>, &Apart)| watched.is_some() && apart.is_free;
    if !full.code.watched.iter().zip(apart).any(matters) {
        return None;
    }
    let compiled = compile::compile_for(kernel, isa, jit.is_here(isa), apart).ok()?;
    let names = full.report.names(&kernel.module.kernel.name, &compiled.code, &Sources::default());
    Some(Version::new(compiled, names, full.report.clone()))
}
