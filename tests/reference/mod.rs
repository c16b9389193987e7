//! The reference interpreter of DeviceIR, which the results of devices are compared with. It runs one thread at a time, in
//! the simplest way possible.
//!
//! A thread runs until it ends or waits at a barrier or a warp operation; when all threads that participate have arrived, the
//! operation is performed and they continue. Uninitialized memory reads as zero. The other threads continue after one has
//! faulted, since a device may report any of the faults.

mod eval;
mod memory;
#[cfg(test)]
mod tests;
mod thread;

use std::collections::HashMap;

use clk_lang::base::arena::Id;
use clk_lang::device::{Arg, Extents, Fault, FaultKind};
use clk_lang::ir::def::{Function, KernelParam, Layout, Leaf, Memory, Module, Stmt, StmtKind};
use clk_lang::lang::ops::{BarrierKind, BinaryOp, MathFn, WarpOp};
use clk_lang::lang::scalar::{Value, dynamic};

use eval::same;
use memory::Val;
use thread::{Ids, Parameter, State, Thread, Wait, World};

/// The outcome of a launch.
pub struct Outcome {
    pub output: String,
    /// The first fault of every thread that faulted.
    pub faults: Vec<Fault>,
}

/// Runs a kernel like `device::Executable::launch`. Arrays are written even if there are faults.
pub fn launch(module: &Module, extents: Extents, args: &mut [Arg<'_>]) -> Outcome {
    let parameters = parameters(module, args);
    let mut launch =
        Launch { global: args.iter().map(bytes).collect(), parameters, output: String::new(), faults: vec![] };
    let mut blocks = blocks(module, extents);
    if module.kernel.cooperative {
        launch.cooperate(&mut blocks);
    } else {
        blocks.iter_mut().for_each(|block| launch.run(block));
    }
    for (arg, bytes) in args.iter_mut().zip(&launch.global) {
        match arg {
            Arg::Write { bytes: to, .. } => to.copy_from_slice(bytes),
            Arg::ArrayMut { storage, .. } => storage.bytes_mut().unwrap().copy_from_slice(bytes),
            Arg::Value(_) | Arg::Read { .. } | Arg::Array { .. } => {}
        }
    }
    Outcome { output: launch.output, faults: launch.faults }
}

fn bytes(arg: &Arg<'_>) -> Vec<u8> {
    match arg {
        Arg::Value(_) => vec![],
        Arg::Read { bytes, .. } => bytes.to_vec(),
        Arg::Write { bytes, .. } => bytes.to_vec(),
        Arg::Array { storage, .. } => storage.bytes().unwrap().to_vec(),
        Arg::ArrayMut { storage, .. } => storage.bytes().unwrap().to_vec(),
    }
}

fn parameters(module: &Module, args: &[Arg<'_>]) -> Vec<Parameter> {
    let pair = |(param, arg): (&KernelParam, &Arg<'_>)| match (param, arg) {
        (KernelParam::Value { ty, .. }, Arg::Value(values)) => {
            Parameter::Value(Val::from_values(*ty, values.iter().copied()))
        }
        (KernelParam::Array { .. }, array) => {
            Parameter::Shape(array.shape().expect("an array for an array parameter").to_vec())
        }
        _ => panic!("an argument does not fit its parameter"),
    };
    module.kernel.params.iter().zip(args).map(pair).collect()
}

/// A block in progress.
struct Block<'m> {
    threads: Vec<Thread<'m>>,
    shared: HashMap<(Id<Function>, Id<Memory>), Vec<u8>>,
}

fn places([x, y, z]: [u32; 3]) -> impl Iterator<Item = [u32; 3]> {
    (0..z).flat_map(move |k| (0..y).flat_map(move |j| (0..x).map(move |i| [i, j, k])))
}

/// Creates all blocks of a launch; for `threads(…)`, one block of one thread for each index tuple.
fn blocks(module: &Module, extents: Extents) -> Vec<Block<'_>> {
    match extents {
        Extents::Threads(n) => {
            let clk_lang::ir::def::Form::Threads { rank } = module.kernel.form else { panic!("a grid was expected") };
            // The last index varies fastest.
            let tuples = places([n[2], n[1], n[0]]).map(|[c, b, a]| [a, b, c]);
            let ids = tuples.map(|index| Ids { index: Some((index, rank as usize)), ..Ids::default() });
            ids.map(|ids| Block { threads: vec![Thread::new(module, ids)], shared: HashMap::new() }).collect()
        }
        Extents::Grid { grid, block } => {
            let block_of = |at: [u32; 3]| {
                let ids = |(flat, thread): (usize, [u32; 3])| Ids {
                    thread,
                    block: at,
                    block_dim: block,
                    grid_dim: grid,
                    flat: flat as u32,
                    index: None,
                };
                let threads = places(block).enumerate().map(|place| Thread::new(module, ids(place)));
                Block { threads: threads.collect(), shared: HashMap::new() }
            };
            places(grid).map(block_of).collect()
        }
    }
}

struct Launch {
    global: Vec<Vec<u8>>,
    parameters: Vec<Parameter>,
    output: String,
    faults: Vec<Fault>,
}

impl Launch {
    /// Runs a block until no thread can make progress.
    fn run(&mut self, block: &mut Block<'_>) {
        let Block { threads, shared } = block;
        loop {
            let mut world = World {
                parameters: &self.parameters,
                global: &mut self.global,
                shared,
                output: &mut self.output,
                faults: &mut self.faults,
            };
            threads.iter_mut().filter(|t| matches!(t.state, State::Ready)).for_each(|t| t.run(&mut world));
            let warps = threads.chunks_mut(32).map(meet_warp).filter(|met| *met).count() > 0;
            if !warps && !meet_block(threads) {
                return self.stuck(threads);
            }
        }
    }

    /// Runs all blocks from one grid barrier to the next.
    fn cooperate(&mut self, blocks: &mut [Block<'_>]) {
        loop {
            blocks.iter_mut().for_each(|block| self.run(block));
            let all = blocks.iter().flat_map(|b| &b.threads);
            if all.clone().count() == 0 || !all.clone().all(|t| waits_at(t, BarrierKind::Grid)) {
                let waiting = all.clone().filter(|t| waits_at(t, BarrierKind::Grid)).collect();
                return self.diverged(waiting, all.count());
            }
            blocks.iter_mut().flat_map(|b| &mut b.threads).for_each(|t| t.resume(None));
        }
    }

    /// Reports a fault for threads that wait for an operation that can never complete, unless another fault explains it.
    fn stuck(&mut self, threads: &[Thread<'_>]) {
        let faulted = threads.iter().any(|t| matches!(t.state, State::Faulted));
        let waiting: Vec<&Thread<'_>> = threads.iter().filter(|t| matches!(t.state, State::Waiting(..))).collect();
        let at_grid = waiting.len() == threads.len() && waiting.iter().all(|t| waits_at(t, BarrierKind::Grid));
        if !faulted && !at_grid {
            self.diverged(waiting, threads.len());
        }
    }

    fn diverged(&mut self, waiting: Vec<&Thread<'_>>, threads: usize) {
        let Some((first, State::Waiting(at, _))) = waiting.first().map(|t| (t.ids, t.state)) else { return };
        if !self.faults.is_empty() {
            return;
        }
        let (arrived, expected) = (waiting.len() as u32, threads as u32);
        self.faults.push(Fault {
            kind: FaultKind::Divergence { what: "barrier", arrived, expected, elsewhere: None },
            span: at.span,
            trace: vec![],
            block: first.block,
            thread: first.thread,
            index: None,
            others: 0,
            output: self.output.clone(),
        });
    }
}

fn waits_at(thread: &Thread<'_>, barrier: BarrierKind) -> bool {
    matches!(thread.state, State::Waiting(Stmt { kind: StmtKind::Barrier { kind, .. }, .. }, _) if *kind == barrier)
}

/// Returns the statement that all these threads wait at, and the operands of each.
fn meeting<'m>(threads: &[Thread<'m>]) -> Option<(&'m Stmt, Vec<Wait>)> {
    let State::Waiting(place, _) = threads.first()?.state else { return None };
    let wait = |thread: &Thread<'m>| match thread.state {
        State::Waiting(at, wait) if std::ptr::eq(at, place) => Some(wait),
        _ => None,
    };
    Some((place, threads.iter().map(wait).collect::<Option<Vec<Wait>>>()?))
}

/// Performs a warp operation if all threads of the warp, or all in its mask, wait at it.
fn meet_warp(warp: &mut [Thread<'_>]) -> bool {
    if let Some((op, lanes)) = group(warp) {
        let brought: Vec<Option<(Val, i128)>> = (0..warp.len())
            .map(|i| match warp[i].state {
                State::Waiting(_, Wait::Warp { value, lane, .. }) if lanes.contains(&i) => {
                    Some((value, lane.map_or(0, |l| l.integer())))
                }
                _ => None,
            })
            .collect();
        for &lane in &lanes {
            let result = group_result(op, &brought, lane);
            warp[lane].resume(Some(result));
        }
        return true;
    }
    let Some((place, waits)) = meeting(warp) else { return false };
    if waits.iter().any(|wait| matches!(wait, Wait::Warp { among: Some(_), .. })) {
        return false;
    }
    let results = match place.kind {
        StmtKind::Barrier { kind: BarrierKind::Warp, .. } => vec![None; warp.len()],
        StmtKind::Warp { op, .. } => {
            let brought = |wait: &Wait| match *wait {
                Wait::Warp { value, lane, .. } => (value, lane.map_or(0, |l| l.integer())),
                Wait::Barrier { .. } => panic!("it is a warp operation"),
            };
            let lanes: Vec<_> = waits.iter().map(brought).collect();
            warp_results(op, &lanes).into_iter().map(Some).collect()
        }
        _ => return false,
    };
    warp.iter_mut().zip(results).for_each(|(thread, result)| thread.resume(result));
    true
}

/// Returns lanes that wait at the same operation and are exactly the lanes in its mask, as seen by each of them, so that they
/// can proceed.
fn group(warp: &[Thread<'_>]) -> Option<(WarpOp, Vec<usize>)> {
    let at = |lane: usize| match warp.get(lane)?.state {
        State::Waiting(stmt, Wait::Warp { among: Some(mask), .. }) => Some((stmt, mask)),
        _ => None,
    };
    (0..warp.len()).find_map(|lane| {
        let (stmt, mask) = at(lane)?;
        let lanes: Vec<usize> = (0..32).filter(|other| mask >> other & 1 != 0).collect();
        let same = |&other: &usize| at(other).is_some_and(|(s, m)| std::ptr::eq(s, stmt) && m == mask);
        let StmtKind::Warp { op, .. } = stmt.kind else { return None };
        (lanes.contains(&lane) && lanes.iter().all(same)).then_some((op, lanes))
    })
}

/// Returns the result of a lane of a group; the group's lanes are those with an operand.
fn group_result(op: WarpOp, brought: &[Option<(Val, i128)>], own: usize) -> Val {
    let at = |lane: i128| usize::try_from(lane).ok().and_then(|l| brought.get(l).copied().flatten());
    let (value, lane) = brought[own].expect("it is one of the group");
    let own = own as i128;
    let from = |lane: i128| at(lane).map_or(value, |(val, _)| val);
    let holding = |holds: &dyn Fn(Val) -> bool| {
        let one = |(i, b): (usize, &Option<(Val, i128)>)| b.is_some_and(|(val, _)| holds(val)).then_some(1u32 << i);
        brought.iter().enumerate().filter_map(one).sum::<u32>()
    };
    let fold = |combine: &dyn Fn(Value, Value) -> Result<Value, dynamic::Failure>| {
        let values = brought.iter().flatten().map(|(val, _)| val.lane(0));
        Val::scalar(values.reduce(|a, b| combine(a, b).expect("a typed reduction")).expect("a lane"))
    };
    match op {
        WarpOp::Shuffle => from(lane.rem_euclid(32)),
        WarpOp::ShuffleUp => from(own - lane),
        WarpOp::ShuffleDown => from(own + lane),
        WarpOp::ShuffleXor => from(own ^ lane),
        WarpOp::Ballot => Val::scalar(Value::of(holding(&|val: Val| val.is_true()))),
        WarpOp::Any => Val::bool(holding(&|val: Val| val.is_true()) != 0),
        WarpOp::All => Val::bool(brought.iter().flatten().all(|(val, _)| val.is_true())),
        WarpOp::MatchAny => Val::scalar(Value::of(holding(&|val| val.lane(0).bits == value.lane(0).bits))),
        WarpOp::ReduceAdd => fold(&|a, b| dynamic::binary(BinaryOp::Add, a, b)),
        WarpOp::ReduceMin => fold(&|a, b| dynamic::math(MathFn::Min, &[a, b])),
        WarpOp::ReduceMax => fold(&|a, b| dynamic::math(MathFn::Max, &[a, b])),
        WarpOp::ReduceAnd => fold(&|a, b| dynamic::binary(BinaryOp::BitAnd, a, b)),
        WarpOp::ReduceOr => fold(&|a, b| dynamic::binary(BinaryOp::BitOr, a, b)),
        WarpOp::ReduceXor => fold(&|a, b| dynamic::binary(BinaryOp::BitXor, a, b)),
    }
}

/// Returns the result of each lane. Lanes beyond the end of the block do not participate.
fn warp_results(op: WarpOp, lanes: &[(Val, i128)]) -> Vec<Val> {
    let value = |lane: i128, own: usize| usize::try_from(lane).ok().and_then(|l| lanes.get(l)).unwrap_or(&lanes[own]).0;
    let shuffle = |from: &dyn Fn(i128, i128) -> i128| -> Vec<Val> {
        lanes.iter().enumerate().map(|(own, &(_, lane))| value(from(own as i128, lane), own)).collect()
    };
    let everyone = |val: Val| vec![val; lanes.len()];
    match op {
        WarpOp::Shuffle => shuffle(&|_, lane| lane.rem_euclid(32)),
        WarpOp::ShuffleUp => shuffle(&|own, lane| own - lane),
        WarpOp::ShuffleDown => shuffle(&|own, lane| own + lane),
        WarpOp::ShuffleXor => shuffle(&|own, lane| own ^ lane),
        WarpOp::Ballot => {
            let bits = lanes.iter().enumerate().fold(0u32, |bits, (i, (val, _))| bits | (val.is_true() as u32) << i);
            everyone(Val::scalar(Value::of(bits)))
        }
        WarpOp::MatchAny => {
            let same = |own: Val| {
                let equal = |(i, (val, _)): (usize, &(Val, i128))| {
                    if val.lane(0).bits == own.lane(0).bits { 1u32 << i } else { 0 }
                };
                Val::scalar(Value::of(lanes.iter().enumerate().map(equal).sum::<u32>()))
            };
            lanes.iter().map(|&(own, _)| same(own)).collect()
        }
        WarpOp::Any => everyone(Val::bool(lanes.iter().any(|(val, _)| val.is_true()))),
        WarpOp::All => everyone(Val::bool(lanes.iter().all(|(val, _)| val.is_true()))),
        WarpOp::ReduceAdd => butterfly(lanes, |a, b| dynamic::binary(BinaryOp::Add, a, b)),
        WarpOp::ReduceMin => butterfly(lanes, |a, b| dynamic::math(MathFn::Min, &[a, b])),
        WarpOp::ReduceMax => butterfly(lanes, |a, b| dynamic::math(MathFn::Max, &[a, b])),
        WarpOp::ReduceAnd => butterfly(lanes, |a, b| dynamic::binary(BinaryOp::BitAnd, a, b)),
        WarpOp::ReduceOr => butterfly(lanes, |a, b| dynamic::binary(BinaryOp::BitOr, a, b)),
        WarpOp::ReduceXor => butterfly(lanes, |a, b| dynamic::binary(BinaryOp::BitXor, a, b)),
    }
}

/// Computes a butterfly reduction; lane 0's result is the result of all lanes. A lane without a partner keeps its value.
fn butterfly(lanes: &[(Val, i128)], combine: impl Fn(Value, Value) -> Result<Value, dynamic::Failure>) -> Vec<Val> {
    let mut values: Vec<Value> = lanes.iter().map(|(val, _)| val.lane(0)).collect();
    for distance in [16, 8, 4, 2, 1] {
        let partner = |lane: usize, own: Value| match values.get(lane ^ distance) {
            Some(&other) => combine(own, other).expect("a typed reduction"),
            None => own,
        };
        values = values.iter().enumerate().map(|(lane, &own)| partner(lane, own)).collect();
    }
    vec![Val::scalar(values[0]); lanes.len()]
}

/// Performs a block barrier if all threads of the block wait at the same one.
fn meet_block(threads: &mut [Thread<'_>]) -> bool {
    let Some((place, waits)) = meeting(threads) else { return false };
    let StmtKind::Barrier { kind, .. } = place.kind else { return false };
    let yes = |wait: &&Wait| matches!(wait, Wait::Barrier { value: Some(v), .. } if v.is_true());
    let votes = waits.iter().filter(yes).count();
    let result = match kind {
        BarrierKind::Block => None,
        BarrierKind::BlockAny => Some(Val::bool(votes > 0)),
        BarrierKind::BlockAll => Some(Val::bool(votes == threads.len())),
        BarrierKind::BlockCount => Some(Val::i32(votes as i32)),
        BarrierKind::Warp | BarrierKind::Grid => return false,
    };
    threads.iter_mut().for_each(|thread| thread.resume(result));
    true
}

/// Returns the first difference between two arrays: the element, its leaf and both values. Padding is ignored.
pub fn first_difference(layout: &Layout, a: &[u8], b: &[u8]) -> Option<String> {
    if a.len() != b.len() {
        return Some(format!("{} and {} bytes", a.len(), b.len()));
    }
    let values = |bytes: &[u8], at: usize, leaf: &Leaf| -> Vec<Value> {
        let bytes = &bytes[at * layout.size + leaf.offset..][..leaf.ty.size()];
        let scalar = leaf.ty.scalar();
        bytes.chunks(scalar.size()).map(|value| Value::from_bytes(scalar, value)).collect()
    };
    for at in 0..a.len() / layout.size.max(1) {
        for leaf in &layout.leaves {
            let (a, b) = (values(a, at, leaf), values(b, at, leaf));
            if !a.iter().zip(&b).all(|(&a, &b)| same(a, b)) {
                let show = |values: &[Value]| values.iter().map(Value::to_string).collect::<Vec<_>>().join(", ");
                return Some(format!("element {at}, leaf `{}`: {} and {}", leaf.path, show(&a), show(&b)));
            }
        }
    }
    None
}
