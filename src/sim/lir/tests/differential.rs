//! Differential tests: regions of fixed and random kernels compute the same results as the interpreter.

use std::sync::Arc;

use super::evaluator::{RegionEvaluator, TestArray, WIDTH, column};
use super::random_kernels::kernel;
use super::*;
use crate::compile::place::columns;
use crate::lanes::lane_of_raw;
use crate::{Arg, Control, Device, Jit, LaunchExtents, Simulator};
use clk_base::arena::Id;
use clk_ir::PreparedKernel;
use clk_ir::def::{BuiltinIndex, ExprKind, KernelParam, MemorySpace, Ty as Type};
use clk_runtime::storage::Storage;
use clk_scalar::ScalarValue as Bits;

/// A pseudo-random number generator.
pub(super) struct PseudoRandom(pub u64);

impl PseudoRandom {
    pub fn next_below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % limit
    }
}

/// The outcome of comparing a region with the interpreter.
#[derive(Clone, Copy, Debug, PartialEq)]
enum ComparisonOutcome {
    Same,
    /// A batch took a side exit, after which the interpreter would run the statements.
    Left,
    /// No region was built for the kernel.
    None,
}

/// The shapes of one-dimensional and two-dimensional arrays.
const LIST: [u32; 1] = [40];
const TABLE: [u32; 2] = [19, 21];

fn value(ty: Type, n: i64) -> Vec<Bits> {
    let from = Bits::of(n);
    vec![from.to_type(ty.scalar()); ty.lanes() as usize]
}

fn fill(array: &mut TestArray, scalar: Scalar, numbers: &mut PseudoRandom) {
    for cell in array.bytes.chunks_mut(scalar.size()) {
        let n = numbers.next_below(16) as i64;
        let bits = match scalar {
            Scalar::Bool => (n & 1) as u64,
            Scalar::F32 | Scalar::F64 => Bits::of(n as f64 * 0.5 - 1.0).to_type(scalar).bits,
            _ => Bits::of(n).to_type(scalar).bits,
        };
        cell.copy_from_slice(&bits.to_le_bytes()[..scalar.size()]);
    }
}

/// Runs a kernel of one block as a region and in the interpreter. `apart`: a batch is one vector rather than the whole
/// block.
#[track_caller]
fn compare(text: &str, n: i64, block: [i32; 2], apart: bool, seed: u64) -> ComparisonOutcome {
    let module = module(text);
    let f = &module.functions[module.kernel.body];
    let Some(mut region) = region(f) else { return ComparisonOutcome::None };
    verify(&region).unwrap_or_else(|e| panic!("{e}\n{region}\n{text}"));
    // For even seeds, evaluate the region as built; for odd seeds, after the passes.
    if seed % 2 == 1 {
        if (block[0] as usize).is_multiple_of(WIDTH) {
            let extents = if seed % 4 == 1 { [block[0] as u32, block[1] as u32, 1] } else { [0; 3] };
            crate::lir::full_group::specialize(&mut region, extents, block[0] as usize == WIDTH);
        }
        copy_coalescing::coalesce_copies(&mut region);
        crate::lir::fold_displacements::fold_address_constants(&mut region);
        liveness::eliminate_dead_code(&mut region);
        verify(&region).unwrap_or_else(|e| panic!("{e}\n{region}\n{text}"));
    }
    let mut numbers = PseudoRandom(seed);
    let (mut memories, mut storages) = (vec![], vec![]);
    for (id, memory) in f.memories.iter() {
        if memory.space == MemorySpace::Local {
            // Local arrays initially contain garbage, which the kernel must zero.
            let element: usize = memory.layout.leaves.iter().map(|leaf| columns(leaf.ty)).sum();
            let bytes = vec![0xa5; memory.known_len().expect("a size") as usize * element * column(block)];
            memories.push((id, TestArray { bytes, shape: vec![], size: 0 }));
            continue;
        }
        let shape = if memory.extents.len() == 1 { LIST.to_vec() } else { TABLE.to_vec() };
        let count: u32 = shape.iter().product();
        let size = memory.layout.size;
        let mut array = TestArray { bytes: vec![0; count as usize * size], shape, size };
        fill(&mut array, memory.layout.leaves[0].ty.scalar(), &mut numbers);
        let mut storage = Storage::zeros(array.bytes.len());
        storage.bytes_mut().expect("on the host").copy_from_slice(&array.bytes);
        storages.push(storage);
        memories.push((id, array));
    }
    let params = module.kernel.params.clone();
    let mut rest = storages.iter_mut();
    let mut args: Vec<Arg<'_>> = params
        .iter()
        .map(|param| match param {
            KernelParam::Value { ty, .. } => Arg::Value(value(*ty, n)),
            KernelParam::Array { memory, .. } => {
                let shape = memories[memory.index()].1.shape.clone();
                Arg::ArrayMut { storage: rest.next().expect("in the order of parameters"), shape }
            }
        })
        .collect();
    let verified = clk_ir::verify::verify(module.clone()).expect("a sound kernel");
    let kernel =
        Simulator::default().with_jit(Jit::Off).load(Arc::new(PreparedKernel::new(verified, Default::default())), None);
    let [x, y] = block.map(|n| n as u32);
    let extents = LaunchExtents::Grid { grid: [1; 3], block: [x, y, 1] };
    let ran = kernel.launch(&extents.into(), &mut args, &Control::default());

    let registers = registers(f).1;
    let uniform = |reg: Reg| {
        let (_, e, lane) = registers[reg as usize];
        let scalar = f.exprs[e].ty.scalar();
        let raw = match f.exprs[e].kind {
            ExprKind::Param(k) => match &params[k as usize] {
                KernelParam::Value { ty, .. } => value(*ty, n)[lane as usize].bits,
                _ => unreachable!("an array"),
            },
            ExprKind::Id(BuiltinIndex::Block, _) => 0,
            ExprKind::Id(BuiltinIndex::BlockDim, axis) => [x, y, 1][axis as usize].into(),
            ExprKind::Id(BuiltinIndex::GridDim, _) => 1,
            ExprKind::Extent(memory, axis) => {
                let shape = if f.memories[memory].extents.len() == 1 { &LIST[..] } else { &TABLE[..] };
                shape[axis as usize].into()
            }
            ref kind => unimplemented!("{kind:?}"),
        };
        lane_of_raw(scalar, raw)
    };
    let vectors: Vec<(i32, i32)> =
        (0..block[1]).flat_map(|y| (0..block[0]).step_by(WIDTH).map(move |x| (x, y))).collect();
    let batches: Vec<Vec<(i32, i32)>> =
        if apart { vectors.into_iter().map(|v| vec![v]).collect() } else { vec![vectors] };
    for vectors in batches {
        let mut world =
            RegionEvaluator { region: &region, uniform: &uniform, memories, block, vectors, values: vec![], steps: 0 };
        if !world.run() {
            return ComparisonOutcome::Left;
        }
        memories = world.memories;
    }
    assert!(ran.is_ok(), "the interpreter stops: {:?}\n{text}\n{region}", ran.unwrap_err());
    for (k, storage) in storages.iter_mut().enumerate() {
        let (found, expected) = (&memories[k].1, storage.bytes_mut().expect("on the host"));
        if found.bytes != expected {
            let size = f.memories[Id::new(k)].layout.leaves[0].ty.scalar().size();
            let at = (0..expected.len()).find(|&i| found.bytes[i] != expected[i]).unwrap_or(0);
            let at = at / size * size;
            panic!(
                "array {k}, element {}: {:?} instead of {:?} (n {n}, block {block:?}, apart {apart}, seed {seed})\n{text}\n{region}",
                at / size,
                &found.bytes[at..at + size],
                &expected[at..at + size]
            );
        }
    }
    ComparisonOutcome::Same
}

#[test]
fn kernels_match_the_interpreter() {
    for (name, text) in kernels::ALL {
        let mut same = 0;
        for seed in 0..8 {
            let ([x, y], n) = ([[13, 1], [8, 3], [5, 2]][seed % 3], [4, 1, 7, 0][seed % 4]);
            let block = [x, if text.contains("thread.y") { y } else { 1 }];
            for apart in [false, true] {
                let outcome = compare(text, n, block, apart, seed as u64);
                assert!(outcome != ComparisonOutcome::None, "{name}");
                same += u32::from(outcome == ComparisonOutcome::Same);
            }
        }
        assert!(same > 0, "{name}: some runs are compared");
    }
}

#[test]
fn random_kernels_match_the_interpreter() {
    let setting = |name: &str| std::env::var(name).ok().and_then(|n| n.parse::<u64>().ok());
    let (first, count) = (setting("CLK_RANDOM_SEED").unwrap_or(0), setting("CLK_RANDOM_PROGRAMS").unwrap_or(60));
    let mut outcomes = [0; 3];
    for seed in first..first + count {
        let text = kernel(seed);
        for (n, block, apart) in [(3, [13, 2], seed % 2 == 0), (5, [8, 1], true)] {
            outcomes[compare(&text, n, block, apart, seed) as usize] += 1;
        }
    }
    let [same, left, none] = outcomes;
    assert!(
        count < 20 || same > left + none,
        "most runs are compared: {same} are the same, {left} left, {none} have no region"
    );
}
