//! Launches of programs of tiles: which of them tensor cores compute, and with which blocks.

use super::products::{arguments, storages};
use super::*;
use crate::device::cuda::Instructions;
use crate::device::cuda::driver::MapElement;
use crate::device::cuda::kernel::Kernel;
use crate::device::cuda::plan::Facts;
use crate::device::cuda::text::room_of;
use crate::ir::def;
use crate::ir::typing::{F32, I32};

const BF16: Ty = Ty::Scalar(Scalar::Bf16);

/// Begins a kernel of a step, with its parameters up to the elements of tiles.
fn step() -> (FunctionBuilder, MemId) {
    let mut b = FunctionBuilder::new("step");
    b.array("a", Access::In, Layout::plain(BF16), 2);
    b.array("b", Access::In, Layout::plain(BF16), 2);
    let c = b.array("c", Access::Out, Layout::plain(F32), 2);
    for name in ["block_x", "block_y", "block_z"] {
        b.value(name, I32);
    }
    (b, c)
}

fn ended(b: FunctionBuilder) -> def::Module {
    module(Default::default(), b, Form::Threads { rank: 2 })
}

fn constant(value: impl FnOnce(&mut FunctionBuilder) -> ExprId, ty: Ty) -> def::Module {
    let (mut b, _) = step();
    let value = value(&mut b);
    let result = b.array("result", Access::Out, Layout::plain(ty), 0);
    b.store(result, &[], value);
    ended(b)
}

/// Returns a kernel that stores the product of 128 rows of `a` and 64 columns of `b`. What it does without tensor cores does not matter here.
fn program() -> Prepared {
    program_of(Cores::Sm90)
}

/// The same with sums that have the bits of these tensor cores.
fn program_of(cores: Cores) -> Prepared {
    let zero = || constant(|b| b.i32(0), I32);
    let part = |param, extents: [u32; 2]| TilePart {
        param,
        scalar: Scalar::Bf16,
        transposed: false,
        axes: extents.map(|extent| TileAxis { start: zero(), extent, step: 1 }).to_vec(),
        element: zero(),
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
        TileStep::Each { to: TileTarget::Held(0), operands: vec![], element: clear },
        TileStep::Product { sum: 0, terms: 32, a: TileFactor::Part(part(0, [128, 32])), b: part(1, [32, 64]) },
        TileStep::Each { to: TileTarget::Array(Some(64)), operands: vec![0], element: store },
    ];
    let held = vec![HeldTile { name: "sums".into(), scalar: Scalar::F32, columns: Some(64), is_factor: false }];
    let mut b = FunctionBuilder::new("program");
    b.array("a", Access::In, Layout::plain(BF16), 2);
    b.array("b", Access::In, Layout::plain(BF16), 2);
    b.array("c", Access::Out, Layout::plain(F32), 2);
    let mut module = module(Default::default(), b, Form::Grid);
    module.kernel.tiles = Some(Arc::new(Tiles { cores, rows: 128, held, counters: vec![], steps }));
    Prepared::new(verify(module).expect("a sound kernel"), Default::default())
}

const SHAPES: [[u32; 2]; 3] = [[129, 32], [32, 64], [129, 64]];
const BLOCKS: Extents = Extents::Grid { grid: [5, 3, 2], block: [32, 1, 1] };

#[test]
fn a_program_of_tiles_is_launched_with_the_blocks_of_the_kernel_and_a_warpgroup_for_64_rows() {
    let (gpu, kernel, fake) = gpu(program(), 1 << 24, |call| {
        assert_eq!((call.shape.grid, call.shape.block), ([5, 3, 2], [384, 1, 1]));
        // Both factors are copied once: 128 and 32 rows of 128 bytes; alignment, and barriers for what is copied and what is turned.
        assert_eq!(call.shape.shared, 1024 + (128 + 32) * 128 + 16);
        assert_eq!(call.find(KernelArgument::Extent { param: 2, axis: 0 }), 129);
    });
    let mut storages = storages(SHAPES);
    kernel.launch(BLOCKS, &mut arguments(&mut storages, SHAPES), &Control::default()).unwrap();
    assert_eq!(gpu.statistics().on_tensor_cores, 1);
    let state = fake.state.lock().unwrap();
    let maps: Vec<_> = state.maps.iter().map(|map| (map.element, map.extents, map.of_box)).collect();
    let [a, b] = [[64, 128], [64, 32]].map(|[columns, rows]| OfBox::plane(columns, rows));
    assert_eq!(maps, [(MapElement::Bf16, [32, 129, 1, 1, 1], a), (MapElement::Bf16, [64, 32, 1, 1, 1], b)]);
}

/// Returns how a launch reads the factors on a GPU of this architecture, with how many threads and bytes of shared memory a block; `None` without
/// tensor cores.
fn planned(architecture: u32, cores: Cores, settings: Settings, shapes: [[u32; 2]; 3]) -> Option<(Copies, [u32; 2])> {
    let shared_per_block = room_of(architecture);
    let properties =
        Properties { architecture, multiprocessors: 4, grid: [1 << 20; 3], shared_per_block, ..Properties::default() };
    let (_, _, fake) = gpu(program(), 1 << 20, |_| ());
    let parts = || Ok(Arc::new(Paper) as Arc<dyn Compiler>);
    let gpu = Gpu::with_parts(properties, settings, move |_| Ok(fake), parts);
    let kernel = Kernel::new(gpu.context.clone(), Arc::new(program_of(cores)), None);
    let mut storages = storages([[0; 2]; 3]);
    let args = &arguments(&mut storages, shapes);
    let facts = Facts { args, extents: BLOCKS, declared: None };
    let plan = kernel.plan(&facts).unwrap_or_else(|_| panic!("a plan")).expect("something to run");
    plan.variant.kernel.options.product.map(|copies| (copies, [plan.shape.block[0], plan.shape.shared]))
}

#[test]
fn launches_have_the_text_whose_instructions_and_bits_are_there() {
    let relies = || Settings { relies: true, ..Settings::default() };
    let boxes = Some((Copies::Boxes, [384, 1024 + 160 * 128 + 16]));
    // Two warpgroups that copy what they multiply, to places of their own.
    let pieces = Some((Copies::Pieces { packed: [false; 2] }, [256, 128 + 160 * 128]));
    let (sm80, sm90) = (Cores::Sm80, Cores::Sm90);
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
        assert_eq!(planned(architecture, cores, Settings::default(), SHAPES), usual, "{architecture} {cores}");
        assert_eq!(planned(architecture, cores, relies(), SHAPES), relied_upon, "{architecture} {cores}, relied upon");
    }
    let sync = || Settings { tensor: Instructions::Sync, ..Settings::default() };
    assert_eq!(planned(90, sm90, sync(), SHAPES), pieces);
    // Rows of 66 bytes are no boxes; without elements there is nothing to multiply.
    let odd = [[129, 33], [32, 64], [129, 64]];
    assert_eq!(planned(90, sm90, Settings::default(), odd), pieces);
    for settings in [Settings::default(), sync()] {
        assert_eq!(planned(90, sm90, settings, [[0, 32], [32, 64], [0, 64]]), None);
    }
}
