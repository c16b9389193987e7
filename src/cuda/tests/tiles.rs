//! Tests of launches of tile programs: which of them run on tensor cores, and with which block sizes.

use super::products::{arguments, storages};
use super::*;
use crate::TensorInstructions;
use crate::driver::MapElement;
use crate::kernel::KernelVariants;
use crate::text::shared_limit_of;
use clk_ir::def;
use clk_ir::typing::{F32, I32};
use clk_runtime::launch_facts::ArgFacts;

const BF16: Ty = Ty::Scalar(Scalar::Bf16);

/// Begins the function of a step. Its first parameters precede those for the elements of tiles.
fn step() -> (FunctionBuilder, MemId) {
    let mut b = FunctionBuilder::new("step");
    b.array("a", Access::In, ElementLayout::plain(BF16), 2);
    b.array("b", Access::In, ElementLayout::plain(BF16), 2);
    let c = b.array("c", Access::Out, ElementLayout::plain(F32), 2);
    for name in ["block_x", "block_y", "block_z"] {
        b.value(name, I32);
    }
    (b, c)
}

fn ended(b: FunctionBuilder) -> def::Module {
    build_module(Default::default(), b, LaunchForm::Threads { rank: 2 })
}

fn constant(value: impl FnOnce(&mut FunctionBuilder) -> ExprId, ty: Ty) -> def::Module {
    let (mut b, _) = step();
    let value = value(&mut b);
    let result = b.array("result", Access::Out, ElementLayout::plain(ty), 0);
    b.store(result, &[], value);
    ended(b)
}

/// Returns a kernel that stores the product of 128 rows of `a` and 64 columns of `b`. The tests do not use its code for
/// GPUs without tensor cores.
fn program() -> PreparedKernel {
    program_of(TensorCoreModel::Sm90)
}

/// Like [`program`], but the results must match this tensor-core model.
fn program_of(cores: TensorCoreModel) -> PreparedKernel {
    let zero = || constant(|b| b.i32(0), I32);
    let part = |param, extents: [u32; 2]| ArrayWindow {
        param,
        scalar: Scalar::Bf16,
        transposed: false,
        axes: extents.map(|extent| TileAxis { start: zero(), extent, step: 1, is_index: false }).to_vec(),
        element: constant(|b| b.constant(ScalarValue::of(0.0_f32).to_type(Scalar::Bf16)), BF16),
    };
    let clear = constant(|b| b.f32(0.0), F32);
    let (mut b, c) = step();
    let x = b.value("x", F32);
    let (row, column) = (b.index(0), b.index(1));
    let [rows, columns] = [0, 1].map(|axis| b.extent(c, axis));
    let inside = [(row, rows), (column, columns)].map(|(at, n)| b.binary(BinOp::Lt, at, n));
    let inside = b.binary(BinOp::And, inside[0], inside[1]);
    b.if_then(inside, |b| b.store(c, &[row, column], x));
    let store = ended(b);
    let steps = vec![
        TileStep::Map { to: TileTarget::Tile(0), operands: vec![], element: clear },
        TileStep::Mma { sum: 0, terms: 32, a: TileGemmOperand::Window(part(0, [128, 32])), b: part(1, [32, 64]) },
        TileStep::Map { to: TileTarget::Array(Some(64)), operands: vec![0], element: store },
    ];
    let tile_vars = vec![TileVar { name: "sums".into(), scalar: Scalar::F32, columns: Some(64), is_lhs: false }];
    let mut b = FunctionBuilder::new("program");
    b.array("a", Access::In, ElementLayout::plain(BF16), 2);
    b.array("b", Access::In, ElementLayout::plain(BF16), 2);
    b.array("c", Access::Out, ElementLayout::plain(F32), 2);
    let mut module = build_module(Default::default(), b, LaunchForm::Grid);
    module.kernel.tile_program = Some(Arc::new(TileProgram {
        sums: MmaPrecision::TensorCore(cores),
        rows: 128,
        arrays: vec![],
        tiles: tile_vars,
        counters: vec![],
        steps,
    }));
    PreparedKernel::new(verify(module).expect("a sound kernel"), Default::default())
}

const SHAPES: [[u32; 2]; 3] = [[129, 32], [32, 64], [129, 64]];
const BLOCKS: LaunchExtents = LaunchExtents::Grid { grid: [5, 3, 2], block: [32, 1, 1] };

#[test]
fn tile_programs_use_the_kernels_grid_and_a_warpgroup_per_64_rows() {
    let (gpu, kernel, fake) = gpu(program(), 1 << 24, |call| {
        assert_eq!((call.shape.grid, call.shape.block), ([5, 3, 2], [384, 1, 1]));
        // Both operands are copied once. Shared memory contains 128 and 32 rows of 128 bytes, alignment, and barriers
        // for copies and transposes.
        assert_eq!(call.shape.shared, 1024 + (128 + 32) * 128 + 16);
        assert_eq!(call.find(KernelArgument::Extent { param: 2, axis: 0 }), 129);
    });
    let mut storages = storages(SHAPES);
    kernel.launch(&BLOCKS.into(), &mut arguments(&mut storages, SHAPES), &Control::default()).unwrap();
    assert_eq!(gpu.statistics().on_matrix_units, 1);
    let state = fake.state.lock().unwrap();
    let maps: Vec<_> = state.maps.iter().map(|map| (map.element, map.extents, map.tma_box)).collect();
    let [a, b] = [[64, 128], [64, 32]].map(|[columns, rows]| TmaBox::plane(columns, rows));
    assert_eq!(maps, [(MapElement::Bf16, [32, 129, 1, 1, 1], a), (MapElement::Bf16, [64, 32, 1, 1, 1], b)]);
}

/// Returns how a launch stages its operands on a GPU of this architecture, and the threads and bytes of shared memory
/// of a block. Returns `None` if it does not run on tensor cores.
fn planned(
    architecture: u32,
    cores: TensorCoreModel,
    settings: GpuSettings,
    shapes: [[u32; 2]; 3],
) -> Option<(OperandStaging, [u32; 2])> {
    let shared_per_block = shared_limit_of(architecture);
    let properties =
        Properties { architecture, multiprocessors: 4, grid: [1 << 20; 3], shared_per_block, ..Properties::default() };
    let (_, _, fake) = gpu(program(), 1 << 20, |_| ());
    let parts = || Ok(Arc::new(Paper) as Arc<dyn CudaCompiler>);
    let gpu = CudaGpu::with_parts(properties, settings, move |_| Ok(fake), parts);
    let kernel = KernelVariants::new(gpu.context.clone(), Arc::new(program_of(cores)), None);
    let mut storages = storages([[0; 2]; 3]);
    let args = &arguments(&mut storages, shapes);
    let facts = ArgFacts { args, extents: BLOCKS, declared: None };
    let plan = kernel.plan(&facts).unwrap_or_else(|_| panic!("a plan")).expect("something to run");
    plan.variant.kernel.options.product.map(|copies| (copies, [plan.shape.block[0], plan.shape.shared]))
}

#[test]
fn launches_choose_the_text_by_instructions_and_precision() {
    let relies = || GpuSettings { relies: true, ..GpuSettings::default() };
    let boxes = Some((OperandStaging::Boxes, [384, 1024 + 160 * 128 + 16]));
    // The block has two warpgroups, which copy the operands to dedicated memory.
    let pieces = Some((OperandStaging::Pieces { packed: [false; 2] }, [256, 128 + 160 * 128]));
    let (sm80, sm90) = (TensorCoreModel::Sm80, TensorCoreModel::Sm90);
    let cases = [
        (75, sm80, None, None),
        (80, sm80, None, pieces),
        (86, sm80, None, pieces),
        (89, sm80, None, pieces),
        (89, sm90, None, None),
        (90, sm80, None, None),
        (90, sm90, boxes, boxes),
        (100, sm90, None, pieces),
        (120, sm90, None, pieces),
    ];
    for (architecture, cores, usual, relied_upon) in cases {
        assert_eq!(planned(architecture, cores, GpuSettings::default(), SHAPES), usual, "{architecture} {cores}");
        assert_eq!(planned(architecture, cores, relies(), SHAPES), relied_upon, "{architecture} {cores}, relied upon");
    }
    let sync = || GpuSettings { tensor: TensorInstructions::Sync, ..GpuSettings::default() };
    assert_eq!(planned(90, sm90, sync(), SHAPES), pieces);
    // TMA cannot copy rows of 66 bytes, and empty operands cannot be multiplied.
    let odd = [[129, 33], [32, 64], [129, 64]];
    assert_eq!(planned(90, sm90, GpuSettings::default(), odd), pieces);
    for settings in [GpuSettings::default(), sync()] {
        assert_eq!(planned(90, sm90, settings, [[0, 32], [32, 64], [0, 64]]), None);
    }
}
