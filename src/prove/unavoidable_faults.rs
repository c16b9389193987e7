//! Faults of a kernel that no choice of sizes avoids.
//!
//! A kernel that is wrong for some sizes may be right in its program, because the program launches it with others: an
//! array that is one element longer, or a number of rows that fits the number of threads. `clk check` must not report
//! such a kernel. It runs the kernel at a fixed sample of launches, in which dimensions are equal and unequal, integer
//! parameters are harmless and large, and arrays have different elements. A fault is reported only if every one of
//! these launches has it at the same place.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustc_hash::FxHashMap;

use super::instances;
use super::replay::{ReplayFilling, ReplayRunner, ReplaySizes};
use super::report::Property;
use super::unstated_lengths::UnstatedLengths;
use clk_base::diag::Diagnostic;
use clk_base::linear::AffineForm;
use clk_check::typed::{KernelId, Program};
use clk_compile::symbolic_launch::{self, LaunchSizes, MAX_DIMENSION};
use clk_ir::footprint::constant;
use clk_sim::Proofs;

/// The properties whose violations are reported.
const REPORTED: [Property; 4] = [Property::InBounds, Property::RaceFree, Property::Initialized, Property::Barriers];

/// Smaller launches do not count, because one thread or a few of them may avoid a fault, such as a race, that makes the
/// kernel useless.
const LEAST_THREADS: u64 = 32;
/// Larger launches are left out, because they take too long.
const MOST_THREADS: u64 = 1 << 14;

/// A dimension that is at least as large as the product of all others.
const LARGE: i128 = 4096;

/// The contents of arrays. With positions as elements, indices that are read from an array are distinct.
const FILLINGS: [ReplayFilling; 4] =
    [ReplayFilling::Numbers(0), ReplayFilling::Positions, ReplayFilling::Numbers(1), ReplayFilling::Numbers(2)];

/// A fault that all tested launches have.
#[derive(Clone, Debug)]
pub struct UnavoidableFault {
    pub property: Property,
    /// The fault of the first launch.
    pub diagnostic: Diagnostic,
    /// The sizes of the first launch, such as `N = 64`.
    pub sizes: String,
}

/// Returns the faults that all tested launches of a kernel have. Soon after `stop` is set, the search ends without
/// faults.
pub fn unavoidable_faults(program: &Program, id: KernelId, stop: &Arc<AtomicBool>) -> Vec<UnavoidableFault> {
    let Some(kernel) = program.kernels.get(id).filter(|_| !has_replaced_geometry(program, id)) else { return vec![] };
    let mut remaining: Option<Vec<UnavoidableFault>> = None;
    for named in instances::find_instances(program, id, kernel).proved {
        let Ok(prepared) = named.prepared else { return vec![] };
        let (instance, module) = (&named.instance, &*prepared.module);
        let any = LaunchSizes::Any(MAX_DIMENSION);
        let Ok(launch) = symbolic_launch::symbolic_launch(program, kernel, instance, module, &any) else {
            return vec![];
        };
        let mut runner = ReplayRunner::new(program, kernel, instance, module, UnstatedLengths::default(), stop);
        // A proof takes longer than the checks of these few launches.
        runner.proofs = Proofs::Unused;
        let all = sample(&launch.dims, &launch.scalars);
        let count = |sizes| runner.thread_count(sizes).filter(|count| *count <= MOST_THREADS).unwrap_or(0);
        let threads: Vec<u64> = all.iter().map(count).collect();
        let least = LEAST_THREADS.min(threads.iter().copied().max().unwrap_or(0)).max(1);
        let tested = all.iter().zip(&threads).filter(|(_, threads)| **threads >= least).map(|(sizes, _)| sizes);
        let mut counted = 0;
        for sizes in tested {
            // The first launches run with all contents.
            let own =
                if counted < 2 { &FILLINGS[..] } else { std::slice::from_ref(&FILLINGS[counted % FILLINGS.len()]) };
            let mut has_run = false;
            for &filling in own {
                // Contents that the kernel's promises exclude do not count.
                let Some(findings) = runner.findings(sizes, filling) else { continue };
                has_run = true;
                let found: Vec<UnavoidableFault> = findings
                    .into_iter()
                    .filter(|found| REPORTED.contains(&found.property) && found.diagnostic.is_error())
                    .map(|found| UnavoidableFault {
                        property: found.property,
                        diagnostic: found.diagnostic,
                        sizes: found.sizes,
                    })
                    .collect();
                let common = match remaining.take() {
                    None => found,
                    Some(known) => {
                        known.into_iter().filter(|one| found.iter().any(|other| one.is_same(other))).collect()
                    }
                };
                if common.is_empty() || stop.load(Ordering::Relaxed) {
                    return vec![];
                }
                remaining = Some(common);
            }
            counted += usize::from(has_run);
        }
        if counted == 0 {
            return vec![];
        }
    }
    let mut all: Vec<UnavoidableFault> = vec![];
    for fault in remaining.into_iter().flatten() {
        if !all.iter().any(|known| known.is_same(&fault)) {
            all.push(fault);
        }
    }
    all
}

impl UnavoidableFault {
    fn is_same(&self, other: &UnavoidableFault) -> bool {
        let place = |fault: &UnavoidableFault| (fault.property, fault.diagnostic.code, fault.diagnostic.primary());
        place(self) == place(other)
    }
}

/// Returns whether a launch of the program replaces the kernel's geometry by `<<<grid, block>>>`.
fn has_replaced_geometry(program: &Program, id: KernelId) -> bool {
    let mut is_replaced = false;
    clk_compile::each_launch(program, &|_| true, &mut |launch, _| {
        is_replaced |= launch.kernel == id && (launch.grid.is_some() || launch.block.is_some());
    });
    is_replaced
}

/// Returns the sizes of the launches that are tested: each choice of dimensions with each choice of integer parameters.
fn sample(dims: &[AffineForm], scalars: &[(u32, AffineForm)]) -> Vec<ReplaySizes> {
    let fixed_dims: Vec<Option<i128>> = dims.iter().map(constant).collect();
    let fixed_scalars: Vec<Option<i128>> = scalars.iter().map(|(_, form)| constant(form)).collect();
    let choices = |own: Vec<Vec<i128>>, fixed: &[Option<i128>]| {
        let mut all: Vec<Vec<i128>> = vec![];
        for choice in own {
            let choice: Vec<i128> = choice.iter().zip(fixed).map(|(own, fixed)| fixed.unwrap_or(*own)).collect();
            if !all.contains(&choice) {
                all.push(choice);
            }
        }
        all
    };
    let dim_choices = choices(dimension_choices(dims.len()), &fixed_dims);
    let scalar_choices = choices(scalar_choices(scalars.len()), &fixed_scalars);
    let mut all = vec![];
    for dims in &dim_choices {
        for choice in &scalar_choices {
            let scalars: FxHashMap<u32, i128> =
                scalars.iter().zip(choice).map(|((position, _), value)| (*position, *value)).collect();
            all.push(ReplaySizes { dims: dims.clone(), scalars });
        }
    }
    all
}

/// Returns vectors of `count` numbers: for each position, one in which it is `own` and the others are `others`.
fn one_by_one(count: usize, own: i128, others: i128) -> impl Iterator<Item = Vec<i128>> {
    let vector = move |at| (0..count).map(|k| if k == at { own } else { others }).collect();
    (0..if count > 1 { count } else { 0 }).map(vector)
}

fn dimension_choices(count: usize) -> Vec<Vec<i128>> {
    // With many dimensions, the product of all but one is at most as large as the largest one.
    let few = if count > 3 { 8 } else { 33 };
    let mut all: Vec<Vec<i128>> = [64, 100, 256, 16, LARGE, 1 << 16].map(|n| vec![n; count]).to_vec();
    all.push((0..count).map(|k| 40 << k.min(4)).collect());
    all.push((0..count).rev().map(|k| 40 << k.min(4)).collect());
    all.extend(one_by_one(count, LARGE, few));
    all.extend(one_by_one(count, 1 << 16, few));
    all.extend(one_by_one(count, 2, 70));
    all
}

fn scalar_choices(count: usize) -> Vec<Vec<i128>> {
    let mut all: Vec<Vec<i128>> = [0, 1, 64, -1, 2, 63, LARGE].map(|n| vec![n; count]).to_vec();
    all.extend(one_by_one(count, 1, 64));
    all.extend(one_by_one(count, 64, 1));
    all.extend(one_by_one(count, 0, 64));
    all
}
