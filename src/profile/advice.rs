//! Advice: finds what makes a kernel slower than necessary. A warning contains the line, the counts that are evidence,
//! and a better alternative.
//!
//! Input: the counts of launches. Output: warnings. Two kinds of advice have already been tested: the profiler ran the
//! kernel with the same arguments and with another order of indices or a padded array. They are suggested if the cost
//! is lower and the results are the same.

use super::KernelResources;
use super::edits::{self, ParsedKernels};
use super::gpus::{GpuModel, OccupancyLimit, occupancy};
use super::roofline::{block_counts, roofline};
use clk_base::diag::{Applicability, Diagnostic};
use clk_base::source::Span;
use clk_runtime::LaunchExtents;
use clk_runtime::profile::{
    AccessKind, AccessProfile, ChangeTrial, CostCounting, LayoutChange, OpCounts, Profile, StraightLineSegment,
};

/// The profile of a kernel, and additional facts about it.
pub struct AdviceContext<'a> {
    pub profile: &'a Profile,
    pub kernels: &'a ParsedKernels<'a>,
    pub gpu: &'a GpuModel,
    pub resources: Option<KernelResources>,
    /// Whether the kernel's results are proved not to depend on the order of its threads.
    pub any_order: &'a dyn Fn() -> bool,
}

/// The minimum number of requests of an access for which there is advice.
const MIN_REQUESTS: u64 = 32;

/// Returns the warnings about a kernel.
pub fn advise(subject: &AdviceContext<'_>) -> Vec<Diagnostic> {
    let profile = subject.profile;
    if profile.tiled || profile.of != CostCounting::Kernel {
        return vec![];
    }
    if let Some(found) = matrix_product_advice(profile) {
        return vec![found];
    }
    let mut all = vec![];
    all.extend(coalescing_advice(subject));
    all.extend(bank_conflict_advice(subject));
    all.extend(block_size_advice(subject));
    all.extend(divergence_advice(profile));
    all.extend(contention_advice(profile));
    all.extend(repeated_access_advice(profile));
    all.extend(resource_advice(subject));
    all
}

fn ratio(count: u64, of: u64) -> f64 {
    count as f64 / of.max(1) as f64
}

/// Formats a number with one decimal, or without decimals if it is an integer.
fn number_text(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").map_or(text.clone(), str::to_string)
}

fn applicability(sure: bool) -> Applicability {
    if sure { Applicability::MachineApplicable } else { Applicability::MaybeIncorrect }
}

/// Advice on a matrix product that is computed by a loop instead of `@`.
fn matrix_product_advice(profile: &Profile) -> Option<Diagnostic> {
    let product = profile.product.as_ref()?;
    let title = format!("`{}` is a product of matrices, one element a thread", profile.kernel);
    let loads = profile.accesses.iter().filter(|access| access.access_kind == AccessKind::Load);
    let (requests, lanes) = loads.fold((0, 0), |all, access| (all.0 + access.cost.requests, all.1 + access.cost.lanes));
    let diagnostic = Diagnostic::warning("W0907", title)
        .at(product.span, format!("each thread loads a row of `{}` and a column of `{}`", product.left, product.right))
        .note(format!("{lanes} elements are loaded by {requests} requests, two for each multiplication"));
    let call = format!("{} @ {}", product.left, product.right);
    Some(diagnostic.help(format!(
        "call the library: `{call}`, or `linalg.matmul` of `std.linalg`; in kernels, use tiles and `mma`"
    )))
}

/// Advice on uncoalesced accesses, which move more sectors than necessary.
fn coalescing_advice(subject: &AdviceContext<'_>) -> Vec<Diagnostic> {
    let profile = subject.profile;
    let all: u64 = profile.accesses.iter().map(|access| access.cost.sectors).sum();
    let wasteful = |access: &&AccessProfile| {
        let cost = access.cost;
        let excess = cost.sectors.saturating_sub(cost.fewest);
        // If many lanes are inactive, a branch is the cause, so only a larger excess is reported.
        let much = if 10 * cost.lanes < 9 * 32 * cost.requests { excess > cost.fewest } else { excess >= cost.fewest };
        !access.shared && cost.requests >= MIN_REQUESTS.min(profile.warps).max(1) && much && 10 * excess >= all
    };
    // Strided accesses are not wasteful if the kernel accesses most of the bytes of each struct.
    let used_bytes = |access: &AccessProfile| {
        let mut parts: Vec<(u32, u32)> = profile
            .accesses
            .iter()
            .filter(|other| (other.memory, other.access_kind) == (access.memory, access.access_kind))
            .map(|other| (other.offset, other.size))
            .collect();
        parts.sort_unstable();
        parts.dedup();
        parts.iter().map(|(_, size)| size).sum::<u32>()
    };
    let is_whole_struct_used = |access: &AccessProfile| {
        access.element > access.size
            && access.cost.stride.unsigned_abs() == u64::from(access.element)
            && 2 * used_bytes(access) > access.element
    };
    let mut worst: Vec<&AccessProfile> = profile.accesses.iter().filter(wasteful).collect();
    worst.retain(|access| !is_whole_struct_used(access));
    worst.sort_by_key(|access| std::cmp::Reverse(access.cost.sectors - access.cost.fewest));
    let trial = profile
        .trials
        .iter()
        .filter(|trial| {
            matches!(trial.change, LayoutChange::Swap(..)) && trial.same && 10 * trial.after.0 <= 7 * trial.before.0
        })
        .min_by_key(|trial| trial.after.0);
    let mut visited: Vec<Span> = vec![];
    let mut diagnostics = vec![];
    for access in worst {
        if visited.contains(&access.span) {
            continue;
        }
        visited.push(access.span);
        let is_same = |other: &&AccessProfile| {
            (other.span, other.memory, other.access_kind, other.offset)
                == (access.span, access.memory, access.access_kind, access.offset)
        };
        let improving_trial = trial.filter(|trial| {
            trial.accesses.iter().find(is_same).is_some_and(|other| other.cost.sectors < access.cost.sectors)
        });
        diagnostics.push(uncoalesced_diagnostic(subject, access, improving_trial));
        // The same change improves all these accesses, so it is reported only once.
        if improving_trial.is_some() {
            break;
        }
    }
    diagnostics
}

fn uncoalesced_diagnostic(
    subject: &AdviceContext<'_>,
    access: &AccessProfile,
    trial: Option<&ChangeTrial>,
) -> Diagnostic {
    let (profile, cost) = (subject.profile, access.cost);
    let verb = match access.access_kind {
        AccessKind::Load => "loads",
        AccessKind::Store => "stores",
        AccessKind::AtomicRmw | AccessKind::AtomicLoad => "updates",
    };
    let factor = number_text(ratio(cost.sectors, cost.fewest));
    let title = format!(
        "a warp {verb} elements of `{}` that are not adjacent: {factor} times the sectors that they fill",
        access.array
    );
    let sectors = number_text(ratio(cost.sectors, cost.requests));
    let label = format!(
        "{sectors} sectors of 32 bytes per request; {} would suffice",
        number_text(ratio(cost.fewest, cost.requests))
    );
    let mut diagnostic = Diagnostic::warning("W0901", title).at(access.span, label);
    if cost.stride != 0 {
        diagnostic =
            diagnostic.note(format!("the distance between adjacent threads of a warp is {} bytes", cost.stride));
    }
    let Some(trial) = trial else {
        let help = match (cost.stride, access.element > access.size) {
            (0, _) => {
                "adjacent threads should access adjacent elements: sort the indices, or stage the data in a shared array"
            }
            (_, true) if cost.stride.unsigned_abs() == u64::from(access.element) => {
                "split the struct into one array per field that is read separately"
            }
            _ => {
                "make the last index of the array follow the last index of the threads, or stage the data in a shared tile"
            }
        };
        return diagnostic.help(help);
    };
    let LayoutChange::Swap(a, b) = trial.change else { return diagnostic };
    let Some(repair) = edits::swap_indices(subject.kernels, profile.span, a, b) else { return diagnostic };
    let sure = repair.sure && (subject.any_order)();
    let title = format!("exchange the indices: `{}`", repair.text);
    let (before, after) = (trial.before.0, trial.after.0);
    diagnostic
        .note(format!(
            "with these indices exchanged, the launch moved {after} sectors instead of {before}, with the same results"
        ))
        .fix_all(title, repair.edits, applicability(sure))
}

/// Advice on accesses to shared memory that need more transactions than necessary because of bank conflicts.
fn bank_conflict_advice(subject: &AdviceContext<'_>) -> Vec<Diagnostic> {
    let profile = subject.profile;
    let mut arrays: Vec<usize> = vec![];
    let mut diagnostics = vec![];
    let mut worst: Vec<&AccessProfile> = profile
        .accesses
        .iter()
        .filter(|access| access.shared && access.access_kind != AccessKind::AtomicRmw)
        .filter(|access| {
            let (passes, least) = (access.cost.passes, access.cost.least);
            passes - least >= least / 2 && passes - least >= MIN_REQUESTS.min(profile.warps)
        })
        .collect();
    worst.sort_by_key(|access| std::cmp::Reverse(access.cost.passes - access.cost.least));
    for access in worst {
        if arrays.contains(&access.memory) {
            continue;
        }
        arrays.push(access.memory);
        let cost = access.cost;
        let ways = number_text(ratio(cost.passes, cost.least));
        let title = format!(
            "bank conflicts: an access to `{}` in shared memory takes {ways} transactions instead of one",
            access.array
        );
        let label = format!(
            "{} transactions for {} requests of warps; {} would suffice",
            cost.passes, cost.requests, cost.least
        );
        let mut diagnostic = Diagnostic::warning("W0902", title).at(access.span, label);
        if cost.stride != 0 {
            diagnostic = diagnostic.note(format!(
                "the distance between adjacent threads of a warp is {} bytes; the 32 banks of 4 bytes repeat every 128 bytes",
                cost.stride
            ));
        }
        let is_padding_trial = |trial: &&ChangeTrial| {
            matches!(trial.change, LayoutChange::Pad(memory, _) if memory == access.memory)
                && trial.same
                && 10 * trial.after.1 <= 8 * trial.before.1
        };
        let trial = profile.trials.iter().find(is_padding_trial);
        let repaired = trial.and_then(|trial| {
            let LayoutChange::Pad(_, last) = trial.change else { return None };
            Some((trial, edits::pad_array(subject.kernels, profile.span, &access.array, last)?))
        });
        diagnostics.push(match repaired {
            Some((trial, repair)) => diagnostic
                .note(format!(
                    "with one more column, the launch took {} transactions instead of {}",
                    trial.after.1, trial.before.1
                ))
                .fix_all(format!("pad the rows: `{}`", repair.text), repair.edits, applicability(repair.sure)),
            None => diagnostic.help("make adjacent threads access adjacent words, or pad the rows by one element"),
        });
    }
    diagnostics
}

/// Advice on blocks that leave lanes or multiprocessors idle.
fn block_size_advice(subject: &AdviceContext<'_>) -> Vec<Diagnostic> {
    let profile = subject.profile;
    let LaunchExtents::Grid { .. } = profile.extents else { return vec![] };
    let (grid, threads) = block_counts(profile);
    let place = match subject.kernels.at(profile.span) {
        Some((_, kernel)) => match kernel.geometry {
            clk_syntax::ast::Geometry::Grid { span, .. } | clk_syntax::ast::Geometry::Threads { span, .. } => span,
            clk_syntax::ast::Geometry::Missing(span) => span,
        },
        None => profile.span,
    };
    let limits = subject.gpu.limits;
    let rest = threads % 32;
    if rest != 0 && grid > 0 {
        let title = format!("blocks of {threads} threads leave {} lanes of their last warp idle", 32 - rest);
        let part = 100.0 * (1.0 - threads as f64 / threads.next_multiple_of(32) as f64);
        let diagnostic =
            Diagnostic::warning("W0903", title).at(place, format!("{part:.0}% of all lanes are always idle"));
        return vec![diagnostic.help("make blocks of a multiple of 32 threads, such as 128 or 256")];
    }
    let occupied = occupancy(limits, threads as u32, 0, profile.shared);
    if occupied.limit == OccupancyLimit::Blocks && occupied.part < 0.75 && grid > 1 {
        let title =
            format!("blocks of {threads} threads fill at most {:.0}% of a multiprocessor", 100.0 * occupied.part);
        let label = format!(
            "{} blocks of {threads} threads; a multiprocessor holds {} threads on {}",
            occupied.blocks,
            limits.threads,
            subject.gpu.with_article()
        );
        let diagnostic = Diagnostic::warning("W0903", title).at(place, label);
        return vec![diagnostic.help("make blocks larger, such as 128 or 256 threads, and the grid smaller")];
    }
    let bound = roofline(profile, subject.gpu).seconds;
    if grid < u64::from(subject.gpu.units) / 2 && bound > 20e-6 {
        let title = format!(
            "{grid} block{} cannot use the {} multiprocessors of {}",
            if grid == 1 { "" } else { "s" },
            subject.gpu.units,
            subject.gpu.with_article()
        );
        let diagnostic = Diagnostic::warning("W0903", title)
            .at(place, format!("the launch takes at least {:.0} µs on so few", 1e6 * bound));
        return vec![diagnostic.help("divide the work into more blocks")];
    }
    vec![]
}

/// Advice on branches and loops in which the threads of a warp diverge.
fn divergence_advice(profile: &Profile) -> Vec<Diagnostic> {
    let instructions = |work: &[(Span, OpCounts)]| work.iter().map(|(_, work)| work.instructions).sum::<u64>();
    let total: u64 = profile.segments.iter().map(|segment| 32 * segment.warps * instructions(&segment.work)).sum();
    let mut diagnostics: Vec<(u64, Diagnostic)> = vec![];
    let mut visited: Vec<Span> = vec![];
    for segment in &profile.segments {
        let Some(branch) = segment.branch else { continue };
        if visited.contains(&branch.span) {
            continue;
        }
        visited.push(branch.span);
        let begins = |other: &&StraightLineSegment| other.branch.is_some_and(|b| b.span == branch.span);
        // If the warp diverges at the branch, the lanes that are inactive in the blocks of the branch are counted as
        // idle.
        let head = |segment: &StraightLineSegment| profile.segments.get(segment.head? as usize);
        let belongs_to_branch = |other: &&StraightLineSegment| head(other).is_some_and(|head| begins(&head));
        let idle: u64 = profile
            .segments
            .iter()
            .filter(belongs_to_branch)
            .filter(|segment| head(segment).is_some_and(|head| head.divergent_warps > 0))
            .map(|segment| (32 * segment.warps).saturating_sub(segment.lanes) * instructions(&segment.work))
            .sum();
        let divergent_warps =
            profile.segments.iter().filter(begins).map(|segment| segment.divergent_warps).max().unwrap_or(0);
        let executions = match (branch.is_loop, branch.parent.and_then(|at| profile.segments.get(at as usize))) {
            (false, Some(parent)) => parent.warps,
            _ => segment.warps,
        };
        // A bounds guard diverges only in the last warps, so only frequent divergence is reported.
        if 4 * divergent_warps < executions || 5 * idle < total || executions < 8 {
            continue;
        }
        let share = 100.0 * ratio(idle, total);
        let (title, label, help) = match branch.is_loop {
            true => (
                "threads of a warp leave a loop at different times, and wait for the last one".to_string(),
                format!("in {divergent_warps} of {executions} iterations of warps some threads had left"),
                "give the threads of a warp equal work: sort by the number of iterations, or let a warp share one item",
            ),
            false => (
                "threads of a warp take different branches, which run sequentially".to_string(),
                format!("in {divergent_warps} of {executions} warps threads disagree"),
                "make the condition uniform within a warp, or compute both sides and `select`",
            ),
        };
        let diagnostic = Diagnostic::warning("W0904", title).at(branch.span, label);
        let note = format!("{share:.0}% of this kernel's lane time is spent waiting here");
        diagnostics.push((idle, diagnostic.note(note).help(help)));
    }
    diagnostics.sort_by_key(|(idle, _)| std::cmp::Reverse(*idle));
    diagnostics.into_iter().map(|(_, diagnostic)| diagnostic).take(2).collect()
}

/// Advice on atomic operations of many threads on the same element.
fn contention_advice(profile: &Profile) -> Vec<Diagnostic> {
    let contended = profile.accesses.iter().filter(|access| {
        access.access_kind == AccessKind::AtomicRmw
            && access.cost.atomic_contention >= 8 * access.cost.requests
            && access.cost.requests >= 4
    });
    contended
        .map(|access| {
            let threads = number_text(ratio(access.cost.atomic_contention, access.cost.requests));
            let title = format!("{threads} threads of a warp update one element of `{}` sequentially", access.array);
            let label = format!("{} updates by {} warps", access.cost.lanes, access.cost.requests);
            let diagnostic = Diagnostic::warning("W0905", title).at(access.span, label);
            let place = if access.shared { "once per warp" } else { "once per block, from a shared array" };
            diagnostic
                .help(format!("add up first, with `warp_reduce_add`, and update {place}"))
                .help("sums of whole arrays are `sum(x)`, or `std.reduce`; histograms are `std.histogram`")
        })
        .collect()
}

/// Advice on repeated accesses of a loop to the same element of an array that the kernel writes and also accesses
/// elsewhere. Because of the other accesses, GPU compilers cannot keep the element in a register.
fn repeated_access_advice(profile: &Profile) -> Vec<Diagnostic> {
    let is_repeated = |access: &AccessProfile| {
        let (cost, threads) = (access.cost, profile.threads * profile.launches);
        let plain = !access.shared && access.access_kind != AccessKind::AtomicRmw;
        plain && 2 * cost.repeated > cost.lanes && cost.lanes >= 4 * threads
    };
    let is_wasteful = |access: &&AccessProfile| {
        let accesses: Vec<&AccessProfile> =
            profile.accesses.iter().filter(|other| other.memory == access.memory).collect();
        let written = accesses.iter().any(|other| other.access_kind != AccessKind::Load);
        is_repeated(access) && written && accesses.iter().any(|other| !is_repeated(other))
    };
    let mut all: Vec<&AccessProfile> = profile.accesses.iter().filter(is_wasteful).collect();
    all.sort_by_key(|access| access.access_kind != AccessKind::Load);
    let mut arrays: Vec<usize> = vec![];
    let mut diagnostics = vec![];
    for access in all.iter() {
        if arrays.contains(&access.memory) {
            continue;
        }
        arrays.push(access.memory);
        let verb = if access.access_kind == AccessKind::Load { "loads" } else { "stores" };
        let count = number_text(ratio(access.cost.lanes, profile.threads * profile.launches));
        let title = format!("each thread {verb} the same element of `{}` {count} times", access.array);
        let label = format!(
            "{} of {} accesses are to the same element as the previous one",
            access.cost.repeated, access.cost.lanes
        );
        let mut diagnostic = Diagnostic::warning("W0906", title).at(access.span, label);
        if let Some(other) = all.iter().find(|other| other.memory == access.memory && other.span != access.span) {
            diagnostic = diagnostic.because(other.span, "and here");
        }
        diagnostics
            .push(diagnostic.help("keep it in a variable: load it before the loop, and store it after the loop"));
    }
    diagnostics
}

/// Advice on registers and shared memory that limit occupancy, and on spills.
fn resource_advice(subject: &AdviceContext<'_>) -> Vec<Diagnostic> {
    let (profile, known) = (subject.profile, subject.resources);
    let (_, threads) = block_counts(profile);
    if let Some(known) = known.filter(|known| known.spilled > 0) {
        let title = format!("`{}` spills {} bytes per thread to memory", profile.kernel, known.spilled);
        let diagnostic =
            Diagnostic::warning("W0908", title).at(profile.span, format!("{} registers per thread", known.registers));
        return vec![diagnostic.help("unroll less, keep fewer values at a time, or use smaller blocks")];
    }
    // Without a report of the GPU compiler, only the use of shared memory is known.
    let (registers, shared) =
        known.map_or((0, profile.shared), |known| (known.registers, profile.shared.max(known.shared.into())));
    let occupied = occupancy(subject.gpu.limits, threads as u32, registers, shared);
    if occupied.part >= 0.25 || occupied.limit != OccupancyLimit::Shared {
        return vec![];
    }
    let title =
        format!("shared memory limits occupancy to {:.0}% of a multiprocessor's threads", 100.0 * occupied.part);
    let plural = if occupied.blocks == 1 { "" } else { "s" };
    let label = format!("{shared} bytes per block: {} block{plural} at once", occupied.blocks);
    let help = "use smaller tiles, or larger blocks for the same tile";
    vec![Diagnostic::warning("W0908", title).at(profile.span, label).help(help)]
}
