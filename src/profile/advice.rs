//! Advice: what makes a kernel slower than it need be, with the line, the counts that show it, and what to write instead.
//!
//! Input: the counts of launches. Output: warnings. What is advised has been tried where that is possible: another order of indices and a
//! padded array were run with the same arguments, and are advised if they cost less and leave the same in all arrays.

use super::Resources;
use super::bound::{blocks, bound};
use super::devices::{Gpu, Keeps, occupancy};
use super::repair::{self, Kernels};
use crate::base::diag::{Applicability, Diagnostic};
use crate::base::source::Span;
use crate::device::Extents;
use crate::device::profile::{Access, Change, Counted, Deed, Profile, Segment, Trial, Work};

/// What advice is about: the counts, and what is known beside.
pub struct Subject<'a> {
    pub profile: &'a Profile,
    pub kernels: &'a Kernels<'a>,
    pub gpu: &'a Gpu,
    pub resources: Option<Resources>,
    /// The kernel is proved to leave the same in any order of its threads.
    pub any_order: &'a dyn Fn() -> bool,
}

/// Requests below which nothing is said of an access.
const FEW: u64 = 32;

/// Returns the warnings about a kernel.
pub fn advice(subject: &Subject<'_>) -> Vec<Diagnostic> {
    let profile = subject.profile;
    if profile.tiled || profile.of != Counted::Kernel {
        return vec![];
    }
    if let Some(found) = product(profile) {
        return vec![found];
    }
    let mut all = vec![];
    all.extend(uncoalesced(subject));
    all.extend(conflicts(subject));
    all.extend(small_blocks(subject));
    all.extend(divergence(profile));
    all.extend(contention(profile));
    all.extend(repeated(profile));
    all.extend(resources(subject));
    all
}

fn times(count: u64, of: u64) -> f64 {
    count as f64 / of.max(1) as f64
}

/// Writes a quotient with one digit, or none if it is whole.
fn number(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").map_or(text.clone(), str::to_string)
}

fn is_sure(sure: bool) -> Applicability {
    if sure { Applicability::MachineApplicable } else { Applicability::MaybeIncorrect }
}

/// A product of matrices that is written as a loop.
fn product(profile: &Profile) -> Option<Diagnostic> {
    let found = profile.product.as_ref()?;
    let title = format!("`{}` is a product of matrices, one element a thread", profile.kernel);
    let loads = profile.accesses.iter().filter(|access| access.deed == Deed::Load);
    let (requests, lanes) = loads.fold((0, 0), |all, access| (all.0 + access.cost.requests, all.1 + access.cost.lanes));
    let diagnostic = Diagnostic::warning("W0907", title)
        .at(found.span, format!("each thread loads a row of `{}` and a column of `{}`", found.left, found.right))
        .note(format!("{lanes} elements are loaded by {requests} requests, two for each multiplication"));
    let call = format!("{} @ {}", found.left, found.right);
    Some(diagnostic.help(format!(
        "call the library: `{call}`, or `linalg.matmul` of `std.linalg`; inside of kernels tiles: `mma`"
    )))
}

/// Accesses that move more sectors than they need.
fn uncoalesced(subject: &Subject<'_>) -> Vec<Diagnostic> {
    let profile = subject.profile;
    let all: u64 = profile.accesses.iter().map(|access| access.cost.sectors).sum();
    let wasteful = |access: &&Access| {
        let cost = access.cost;
        let excess = cost.sectors.saturating_sub(cost.fewest);
        // Where a branch takes every second lane, the branch is to blame.
        let much = if 10 * cost.lanes < 9 * 32 * cost.requests { excess > cost.fewest } else { excess >= cost.fewest };
        !access.shared && cost.requests >= FEW.min(profile.warps).max(1) && much && 10 * excess >= all
    };
    // Of a struct all of whose parts are read, nothing is wasted.
    let used = |access: &Access| {
        let mut parts: Vec<(u32, u32)> = profile
            .accesses
            .iter()
            .filter(|other| (other.memory, other.deed) == (access.memory, access.deed))
            .map(|other| (other.offset, other.size))
            .collect();
        parts.sort_unstable();
        parts.dedup();
        parts.iter().map(|(_, size)| size).sum::<u32>()
    };
    let is_whole = |access: &Access| {
        access.element > access.size
            && access.cost.stride.unsigned_abs() == u64::from(access.element)
            && 2 * used(access) > access.element
    };
    let mut worst: Vec<&Access> = profile.accesses.iter().filter(wasteful).collect();
    worst.retain(|access| !is_whole(access));
    worst.sort_by_key(|access| std::cmp::Reverse(access.cost.sectors - access.cost.fewest));
    let trial = profile
        .trials
        .iter()
        .filter(|trial| {
            matches!(trial.change, Change::Swap(..)) && trial.same && 10 * trial.after.0 <= 7 * trial.before.0
        })
        .min_by_key(|trial| trial.after.0);
    let mut seen: Vec<Span> = vec![];
    let mut found = vec![];
    for access in worst {
        if seen.contains(&access.span) {
            continue;
        }
        seen.push(access.span);
        let is_same = |other: &&Access| {
            (other.span, other.memory, other.deed, other.offset)
                == (access.span, access.memory, access.deed, access.offset)
        };
        let mended = trial.filter(|trial| {
            trial.accesses.iter().find(is_same).is_some_and(|other| other.cost.sectors < access.cost.sectors)
        });
        found.push(wide(subject, access, mended));
        // One change mends all that it mends: it is said once.
        if mended.is_some() {
            break;
        }
    }
    found
}

fn wide(subject: &Subject<'_>, access: &Access, trial: Option<&Trial>) -> Diagnostic {
    let (profile, cost) = (subject.profile, access.cost);
    let deed = match access.deed {
        Deed::Load => "loads",
        Deed::Store => "stores",
        Deed::Atomic => "updates",
    };
    let many = number(times(cost.sectors, cost.fewest));
    let title =
        format!("a warp {deed} elements of `{}` that lie apart: {many} times the sectors that they fill", access.array);
    let sectors = number(times(cost.sectors, cost.requests));
    let label = format!(
        "{sectors} sectors of 32 bytes a request, where {} hold the elements",
        number(times(cost.fewest, cost.requests))
    );
    let mut diagnostic = Diagnostic::warning("W0901", title).at(access.span, label);
    if cost.stride != 0 {
        diagnostic = diagnostic.note(format!("from each thread of a warp to the next one it is {} bytes", cost.stride));
    }
    let Some(trial) = trial else {
        let help = match (cost.stride, access.element > access.size) {
            (0, _) => {
                "adjacent threads should access adjacent elements: sort the indices, or go through a shared array"
            }
            (_, true) if cost.stride.unsigned_abs() == u64::from(access.element) => {
                "keep what is read together in an array of its own: one array for each part of the struct"
            }
            _ => "let the last index of the array follow the last index of the threads, or go through a shared tile",
        };
        return diagnostic.help(help);
    };
    let Change::Swap(a, b) = trial.change else { return diagnostic };
    let Some(repair) = repair::swap(subject.kernels, profile.span, a, b) else { return diagnostic };
    let sure = repair.sure && (subject.any_order)();
    let title = format!("exchange the indices: `{}`", repair.text);
    let (before, after) = (trial.before.0, trial.after.0);
    diagnostic
        .note(format!(
            "with these indices exchanged, the launch moved {after} sectors instead of {before}, with the same results"
        ))
        .fix_all(title, repair.edits, is_sure(sure))
}

/// Accesses to shared memory that take more passes than they need.
fn conflicts(subject: &Subject<'_>) -> Vec<Diagnostic> {
    let profile = subject.profile;
    let mut arrays: Vec<usize> = vec![];
    let mut found = vec![];
    let mut worst: Vec<&Access> = profile
        .accesses
        .iter()
        .filter(|access| access.shared && access.deed != Deed::Atomic)
        .filter(|access| {
            let (passes, least) = (access.cost.passes, access.cost.least);
            passes - least >= least / 2 && passes - least >= FEW.min(profile.warps)
        })
        .collect();
    worst.sort_by_key(|access| std::cmp::Reverse(access.cost.passes - access.cost.least));
    for access in worst {
        if arrays.contains(&access.memory) {
            continue;
        }
        arrays.push(access.memory);
        let cost = access.cost;
        let ways = number(times(cost.passes, cost.least));
        let title = format!(
            "bank conflicts: an access to `{}` in shared memory takes {ways} passes in place of one",
            access.array
        );
        let label =
            format!("{} passes for {} requests of warps, where {} would do", cost.passes, cost.requests, cost.least);
        let mut diagnostic = Diagnostic::warning("W0902", title).at(access.span, label);
        if cost.stride != 0 {
            diagnostic = diagnostic.note(format!(
                "from each thread of a warp to the next one it is {} bytes; the 32 banks of 4 bytes come again after 128",
                cost.stride
            ));
        }
        let padded = |trial: &&Trial| {
            matches!(trial.change, Change::Pad(memory, _) if memory == access.memory)
                && trial.same
                && 10 * trial.after.1 <= 8 * trial.before.1
        };
        let trial = profile.trials.iter().find(padded);
        let repaired = trial.and_then(|trial| {
            let Change::Pad(_, last) = trial.change else { return None };
            Some((trial, repair::pad(subject.kernels, profile.span, &access.array, last)?))
        });
        found.push(match repaired {
            Some((trial, repair)) => diagnostic
                .note(format!(
                    "with one column more, the launch took {} passes instead of {}",
                    trial.after.1, trial.before.1
                ))
                .fix_all(format!("pad the rows: `{}`", repair.text), repair.edits, is_sure(repair.sure)),
            None => diagnostic.help("let adjacent threads access adjacent words, or pad the rows by one element"),
        });
    }
    found
}

/// Blocks that leave lanes or multiprocessors without work.
fn small_blocks(subject: &Subject<'_>) -> Vec<Diagnostic> {
    let profile = subject.profile;
    let Extents::Grid { .. } = profile.extents else { return vec![] };
    let (grid, threads) = blocks(profile);
    let place = match subject.kernels.at(profile.span) {
        Some((_, kernel)) => match kernel.geometry {
            crate::syntax::ast::Geometry::Grid { span, .. } | crate::syntax::ast::Geometry::Threads { span, .. } => {
                span
            }
            crate::syntax::ast::Geometry::Missing(span) => span,
        },
        None => profile.span,
    };
    let limits = subject.gpu.limits;
    let rest = threads % 32;
    if rest != 0 && grid > 0 {
        let title = format!("blocks of {threads} threads leave {} lanes of their last warp without work", 32 - rest);
        let part = 100.0 * (1.0 - threads as f64 / threads.next_multiple_of(32) as f64);
        let diagnostic =
            Diagnostic::warning("W0903", title).at(place, format!("{part:.0}% of all lanes never do anything"));
        return vec![diagnostic.help("make blocks of a multiple of 32 threads, such as 128 or 256")];
    }
    let held = occupancy(limits, threads as u32, 0, profile.shared);
    if held.keeps == Keeps::Blocks && held.part < 0.75 && grid > 1 {
        let title = format!("blocks of {threads} threads fill {:.0}% of a multiprocessor at most", 100.0 * held.part);
        let label = format!(
            "{} blocks of {threads} threads, of the {} threads that {} holds",
            held.blocks,
            limits.threads,
            subject.gpu.with_article()
        );
        let diagnostic = Diagnostic::warning("W0903", title).at(place, label);
        return vec![diagnostic.help("make blocks larger, such as 128 or 256 threads, and the grid smaller")];
    }
    let bound = bound(profile, subject.gpu).seconds;
    if grid < u64::from(subject.gpu.units) / 2 && bound > 20e-6 {
        let title = format!(
            "{grid} block{} cannot use the {} multiprocessors of {}",
            if grid == 1 { "" } else { "s" },
            subject.gpu.units,
            subject.gpu.with_article()
        );
        let diagnostic = Diagnostic::warning("W0903", title)
            .at(place, format!("the launch takes {:.0} µs at least on so few", 1e6 * bound));
        return vec![diagnostic.help("divide the work into more blocks")];
    }
    vec![]
}

/// Branches and loops that threads of a warp take differently.
fn divergence(profile: &Profile) -> Vec<Diagnostic> {
    let instructions = |work: &[(Span, Work)]| work.iter().map(|(_, work)| work.instructions).sum::<u64>();
    let total: u64 = profile.segments.iter().map(|segment| 32 * segment.warps * instructions(&segment.work)).sum();
    let mut found: Vec<(u64, Diagnostic)> = vec![];
    let mut seen: Vec<Span> = vec![];
    for segment in &profile.segments {
        let Some(branch) = segment.branch else { continue };
        if seen.contains(&branch.span) {
            continue;
        }
        seen.push(branch.span);
        let begins = |other: &&Segment| other.branch.is_some_and(|b| b.span == branch.span);
        // All that is done in its blocks counts, as far as it is done by some of a warp's threads.
        let head = |segment: &Segment| profile.segments.get(segment.head? as usize);
        let own = |other: &&Segment| head(other).is_some_and(|head| begins(&head));
        let idle: u64 = profile
            .segments
            .iter()
            .filter(own)
            .filter(|segment| head(segment).is_some_and(|head| head.parted > 0))
            .map(|segment| (32 * segment.warps).saturating_sub(segment.lanes) * instructions(&segment.work))
            .sum();
        let parted = profile.segments.iter().filter(begins).map(|segment| segment.parted).max().unwrap_or(0);
        let met = match (branch.is_loop, branch.parent.and_then(|at| profile.segments.get(at as usize))) {
            (false, Some(parent)) => parent.warps,
            _ => segment.warps,
        };
        // A guard at the edge parts the last warps; a part of all work is worth a word.
        if 4 * parted < met || 5 * idle < total || met < 8 {
            continue;
        }
        let share = 100.0 * times(idle, total);
        let (title, label, help) = match branch.is_loop {
            true => (
                "threads of a warp leave a loop at different times, and the others wait for the last".to_string(),
                format!("in {parted} of {met} iterations of warps some threads had left"),
                "give the threads of a warp work of one size: sort by the number of iterations, or let a warp share one item",
            ),
            false => (
                "threads of a warp take different branches, one after the other".to_string(),
                format!("in {parted} of {met} warps threads disagree"),
                "let the condition depend on what a warp has in common, or compute both and `select`",
            ),
        };
        let diagnostic = Diagnostic::warning("W0904", title).at(branch.span, label);
        let note = format!("{share:.0}% of the lanes' time of this kernel is spent waiting here");
        found.push((idle, diagnostic.note(note).help(help)));
    }
    found.sort_by_key(|(idle, _)| std::cmp::Reverse(*idle));
    found.into_iter().map(|(_, diagnostic)| diagnostic).take(2).collect()
}

/// Atomic operations of many threads on one element.
fn contention(profile: &Profile) -> Vec<Diagnostic> {
    let crowded = profile.accesses.iter().filter(|access| {
        access.deed == Deed::Atomic && access.cost.crowd >= 8 * access.cost.requests && access.cost.requests >= 4
    });
    crowded
        .map(|access| {
            let many = number(times(access.cost.crowd, access.cost.requests));
            let title =
                format!("{many} threads of a warp update one element of `{}`, one after the other", access.array);
            let label = format!("{} updates by {} warps", access.cost.lanes, access.cost.requests);
            let diagnostic = Diagnostic::warning("W0905", title).at(access.span, label);
            let place = if access.shared { "once a warp" } else { "once a block, from a shared array" };
            diagnostic
                .help(format!("add up first, with `warp_reduce_add`, and update {place}"))
                .help("sums of whole arrays are `sum(x)`, or `std.reduce`; histograms are `std.histogram`")
        })
        .collect()
}

/// Accesses to the same element again and again, of an array that the kernel writes and accesses elsewhere as well: else compilers of GPU
/// code keep the element in a register.
fn repeated(profile: &Profile) -> Vec<Diagnostic> {
    let again = |access: &Access| {
        let (cost, threads) = (access.cost, profile.threads * profile.launches);
        let plain = !access.shared && access.deed != Deed::Atomic;
        plain && 2 * cost.repeated > cost.lanes && cost.lanes >= 4 * threads
    };
    let often = |access: &&Access| {
        let own: Vec<&Access> = profile.accesses.iter().filter(|other| other.memory == access.memory).collect();
        let written = own.iter().any(|other| other.deed != Deed::Load);
        again(access) && written && own.iter().any(|other| !again(other))
    };
    let mut all: Vec<&Access> = profile.accesses.iter().filter(often).collect();
    all.sort_by_key(|access| access.deed != Deed::Load);
    let mut arrays: Vec<usize> = vec![];
    let mut found = vec![];
    for access in all.iter() {
        if arrays.contains(&access.memory) {
            continue;
        }
        arrays.push(access.memory);
        let deed = if access.deed == Deed::Load { "loads" } else { "stores" };
        let each = number(times(access.cost.lanes, profile.threads * profile.launches));
        let title = format!("each thread {deed} the same element of `{}` {each} times", access.array);
        let label =
            format!("{} of {} accesses are to the element of the one before", access.cost.repeated, access.cost.lanes);
        let mut diagnostic = Diagnostic::warning("W0906", title).at(access.span, label);
        if let Some(other) = all.iter().find(|other| other.memory == access.memory && other.span != access.span) {
            diagnostic = diagnostic.because(other.span, "and so here");
        }
        found.push(diagnostic.help("keep it in a variable: load it before the loop, and store it behind"));
    }
    found
}

/// Registers and shared memory that keep threads out, and spills.
fn resources(subject: &Subject<'_>) -> Vec<Diagnostic> {
    let (profile, known) = (subject.profile, subject.resources);
    let (_, threads) = blocks(profile);
    if let Some(known) = known.filter(|known| known.spilled > 0) {
        let title =
            format!("`{}` keeps {} bytes a thread in memory for want of registers", profile.kernel, known.spilled);
        let diagnostic =
            Diagnostic::warning("W0908", title).at(profile.span, format!("{} registers a thread", known.registers));
        return vec![diagnostic.help("unroll less, keep fewer values at a time, or use smaller blocks")];
    }
    // What shared memory takes is known without a compiler as well.
    let (registers, shared) =
        known.map_or((0, profile.shared), |known| (known.registers, profile.shared.max(known.shared.into())));
    let held = occupancy(subject.gpu.limits, threads as u32, registers, shared);
    if held.part >= 0.25 || held.keeps != Keeps::Shared {
        return vec![];
    }
    let title = format!("shared memory leaves room for {:.0}% of a multiprocessor's threads", 100.0 * held.part);
    let plural = if held.blocks == 1 { "" } else { "s" };
    let label = format!("{shared} bytes a block: {} block{plural} at once", held.blocks);
    let help = "use smaller tiles, or larger blocks for the same tile";
    vec![Diagnostic::warning("W0908", title).at(profile.span, label).help(help)]
}
