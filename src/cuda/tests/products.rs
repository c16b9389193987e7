//! Tests of launches of matrix products: which of them run on tensor cores, and with which arguments.

use super::*;
use crate::TensorInstructions;
use crate::driver::MapElement;
use crate::kernel::KernelVariants;
use crate::text::abi::MAX_AXES;
use crate::text::product_shared;
use clk_ir::typing::F32;
use clk_runtime::launch_facts::ArgFacts;

const BF16: Ty = Ty::Scalar(Scalar::Bf16);

fn parameters(b: &mut FunctionBuilder, of: Ty) -> MemId {
    b.array("a", Access::In, ElementLayout::plain(of), 2);
    b.array("b", Access::In, ElementLayout::plain(of), 2);
    b.array("c", Access::Out, ElementLayout::plain(F32), 2)
}

/// Returns a kernel that is the product of `a` and the transposed `b`.
fn product() -> PreparedKernel {
    product_of(BF16, [false, true], TensorCoreModel::Sm90)
}

/// Returns a kernel for the product of `a` and `b`, or of their transposes, whose results must match this tensor-core
/// model. The tests do not use its code for GPUs without tensor cores.
fn product_of(of: Ty, transposed: [bool; 2], cores: TensorCoreModel) -> PreparedKernel {
    let mut b = FunctionBuilder::new("product_epilogue");
    let c = parameters(&mut b, of);
    let element = b.value("element", F32);
    let (row, column) = (b.index(0), b.index(1));
    let [rows, columns] = [0, 1].map(|axis| b.extent(c, axis));
    let inside = [(row, rows), (column, columns)].map(|(at, n)| b.binary(BinOp::Lt, at, n));
    let inside = b.binary(BinOp::And, inside[0], inside[1]);
    b.if_then(inside, |b| b.store(c, &[row, column], element));
    let epilogue = build_module(Default::default(), b, LaunchForm::Threads { rank: 2 });
    let mut b = FunctionBuilder::new("product");
    parameters(&mut b, of);
    let mut module = build_module(Default::default(), b, LaunchForm::Grid);
    let [a, b] = [0, 1].map(|param| GemmOperand { param, transposed: transposed[param as usize] });
    module.kernel.gemm = Some(Arc::new(GemmKernel { a, b, cores, tile: [16, 32], epilogue }));
    PreparedKernel::new(verify(module).expect("a sound kernel"), Default::default())
}

const SHAPES: [[u32; 2]; 3] = [[700, 64], [300, 64], [700, 300]];
const BLOCKS: LaunchExtents = LaunchExtents::Grid { grid: [10, 44, 1], block: [64, 1, 1] };

pub(super) fn arguments<'a>(storages: &'a mut [Storage; 3], shapes: [[u32; 2]; 3]) -> [Arg<'a>; 3] {
    let [a, b, c] = storages;
    let [of_a, of_b, of_c] = shapes.map(|shape| shape.to_vec());
    [
        Arg::Array { storage: a, shape: of_a },
        Arg::Array { storage: b, shape: of_b },
        Arg::ArrayMut { storage: c, shape: of_c },
    ]
}

pub(super) fn storages(shapes: [[u32; 2]; 3]) -> [Storage; 3] {
    [(0, 2), (1, 2), (2, 4)]
        .map(|(k, size): (usize, usize)| Storage::zeros((shapes[k][0] * shapes[k][1]) as usize * size))
}

#[test]
fn products_use_tensor_maps_and_a_block_per_multiprocessor() {
    let (gpu, kernel, fake) = gpu(product(), 1 << 24, |call| {
        // The product has 6 by 2 tiles of 128 by 256 elements; the GPU has 4 multiprocessors.
        assert_eq!((call.shape.grid, call.shape.block), ([4, 1, 1], [384, 1, 1]));
        assert_eq!((call.shape.shared, call.shape.cooperative), (product_shared(OperandStaging::Boxes), false));
        // The index extents are the rows and columns that the launch's blocks compute.
        assert_eq!(call.find(KernelArgument::IndexExtent { index: 0 }), 16 * 44);
        assert_eq!(call.find(KernelArgument::IndexExtent { index: 1 }), 32 * 10);
        assert_eq!(call.find(KernelArgument::Extent { param: 0, axis: 1 }), 64);
    });
    let mut storages = storages(SHAPES);
    kernel.launch(&BLOCKS.into(), &mut arguments(&mut storages, SHAPES), &Control::default()).unwrap();
    assert_eq!(gpu.statistics().on_matrix_units, 1);
    let state = fake.state.lock().unwrap();
    let expected = [(700, 128), (300, 256)]
        .map(|(rows, tma_box)| (MapElement::Bf16, [64, rows, 1, 1, 1], TmaBox::plane(64, tma_box)));
    let maps: Vec<_> = state.maps.iter().map(|map| (map.element, map.extents, map.tma_box)).collect();
    assert_eq!(maps, expected);
    assert!(state.maps.iter().all(|map| state.memory.contains_key(&map.address.0)));
}

/// Returns how a launch stages its operands, and the number of blocks. Returns `None` if it does not run on tensor
/// cores.
fn planned(kernel: &KernelVariants, extents: LaunchExtents, shapes: [[u32; 2]; 3]) -> Option<(OperandStaging, u32)> {
    let mut storages = storages([[0; 2]; 3]);
    let args = &arguments(&mut storages, shapes);
    let facts = ArgFacts { args, extents, declared: None };
    let plan = kernel.plan(&facts).unwrap_or_else(|_| panic!("a plan")).expect("something to run");
    plan.variant.kernel.options.product.map(|copies| (copies, plan.shape.grid[0]))
}

#[test]
fn launches_choose_their_text() {
    let grid = |grid| LaunchExtents::Grid { grid, block: [64, 1, 1] };
    let boxes = |blocks| Some((OperandStaging::Boxes, blocks));
    let packed = |packed, blocks| Some((OperandStaging::Pieces { packed }, blocks));
    let (gpu, ..) = gpu(product(), 1 << 20, |_| ());
    let kernel = KernelVariants::new(gpu.context.clone(), Arc::new(product()), None);
    let cases = [
        (BLOCKS, SHAPES, boxes(4)),
        (grid([1, 1, 1]), SHAPES, boxes(1)),
        // Rows of 130 bytes are not a multiple of 16 bytes, so TMA cannot copy them.
        (BLOCKS, [[700, 65], [300, 65], [700, 300]], packed([true; 2], 4)),
        (BLOCKS, [[700, 0], [300, 0], [700, 300]], None),
        (BLOCKS, [[0, 64], [300, 64], [0, 300]], None),
        (BLOCKS, [[700, 64], [300, 72], [700, 300]], None),
        (grid([10, 44, 2]), SHAPES, None),
        // The number of elements does not fit in 32 bits.
        (BLOCKS, [[1 << 20, 1 << 12], [300, 1 << 12], [700, 300]], None),
        (BLOCKS, SHAPES, boxes(4)),
    ];
    for (extents, shapes, expected) in cases {
        assert_eq!(planned(&kernel, extents, shapes), expected, "{extents:?} {shapes:?}");
    }
}

/// Returns how a GPU of this architecture stages the operands of a product whose results must match this tensor-core
/// model.
fn read_by(
    architecture: u32,
    cores: TensorCoreModel,
    settings: GpuSettings,
    shapes: [[u32; 2]; 3],
) -> Option<OperandStaging> {
    let shared_per_block = if architecture == 90 { 227 << 10 } else { 99 << 10 };
    let properties =
        Properties { architecture, multiprocessors: 4, grid: [1 << 20; 3], shared_per_block, ..Properties::default() };
    let (_, _, fake) = gpu(product(), 1 << 20, |_| ());
    let parts = || Ok(Arc::new(Paper) as Arc<dyn CudaCompiler>);
    let gpu = CudaGpu::with_parts(properties, settings, move |_| Ok(fake), parts);
    let kernel = KernelVariants::new(gpu.context.clone(), Arc::new(product_of(BF16, [false, true], cores)), None);
    planned(&kernel, BLOCKS, shapes).map(|(copies, _)| copies)
}

/// Tensor cores are used if their results match the selected model. Matching must have been tested on this
/// architecture, unless the user relies on the published behavior.
#[test]
fn tensor_core_texts_match_the_requested_precision() {
    let relies = || GpuSettings { relies: true, ..GpuSettings::default() };
    let pieces = Some(OperandStaging::Pieces { packed: [false; 2] });
    let (sm80, sm90) = (TensorCoreModel::Sm80, TensorCoreModel::Sm90);
    let cases = [
        (80, sm90, None, None),
        (80, sm80, None, pieces),
        (86, sm80, None, pieces),
        (89, sm80, None, pieces),
        (90, sm90, Some(OperandStaging::Boxes), Some(OperandStaging::Boxes)),
        (90, sm80, None, None),
        (100, sm90, None, pieces),
        (120, sm90, None, pieces),
        (120, sm80, None, None),
        (75, sm80, None, None),
    ];
    for (architecture, cores, usual, relied_upon) in cases {
        assert_eq!(read_by(architecture, cores, GpuSettings::default(), SHAPES), usual, "{architecture} {cores}");
        assert_eq!(read_by(architecture, cores, relies(), SHAPES), relied_upon, "{architecture} {cores}, relied upon");
    }
    let sync = GpuSettings { tensor: TensorInstructions::Sync, ..GpuSettings::default() };
    assert_eq!(read_by(90, sm90, sync, SHAPES), pieces);
    let odd = [[700, 64], [300, 65], [700, 300]];
    assert_eq!(read_by(80, sm80, relies(), odd), None, "as many terms in both");
}

#[test]
fn reasons_against_tensor_cores_are_reported_once() {
    static SAID: Mutex<Vec<String>> = Mutex::new(vec![]);
    let tell = Some((|what: &str| SAID.lock().unwrap().push(what.into())) as fn(&str));
    for (architecture, cores) in [
        (89, TensorCoreModel::Sm90),
        (120, TensorCoreModel::Sm90),
        (90, TensorCoreModel::Sm90),
        (61, TensorCoreModel::Sm90),
    ] {
        read_by(architecture, cores, GpuSettings { tell, ..GpuSettings::default() }, SHAPES);
    }
    let said = SAID.lock().unwrap();
    assert_eq!(said.len(), 2, "{said:#?}");
    assert!(
        said[0].contains("(sm_89), slowly: its tensor cores round differently from those of sm_90; `--mma sm_80`"),
        "{said:#?}"
    );
    assert!(said[1].contains("(sm_120)") && said[1].contains("was not tried; `--mma sm_90` relies on it"), "{said:#?}");
}

/// Packed operands have separate memory whose rows are whole 16-byte chunks, and all blocks run at the same time.
#[test]
fn operands_are_packed_into_separate_memory() {
    let body: Body = |call| {
        assert_eq!((call.shape.grid, call.shape.block), ([4, 1, 1], [256, 1, 1]));
        assert!(call.shape.cooperative);
        let packed = |factor| KernelArgument::Packed { factor, param: factor, element: Scalar::Bf16 };
        // Rows of 65 elements are padded to 72 elements.
        for (argument, bytes) in
            [(packed(0), 2 * 700 * 72), (packed(1), 2 * 300 * 72), (KernelArgument::GridBarrier, 4)]
        {
            let address = call.find(argument.clone());
            assert_eq!(call.memory[&address].len(), bytes, "{argument:?}");
        }
    };
    let copies = OperandStaging::Pieces { packed: [true; 2] };
    assert_eq!(launched_odd(of(90, 1 << 24), None, Some(copies), body), 1);
}

/// Rows of 130 bytes are not a multiple of 16 bytes, so TMA cannot copy them.
const ODD_SHAPES: [[u32; 2]; 3] = [[700, 65], [300, 65], [700, 300]];

/// Returns the properties of a GPU of this architecture with this much memory.
fn of(architecture: u32, memory: u64) -> Properties {
    let shared_per_block = if architecture == 90 { 227 << 10 } else { 163 << 10 };
    Properties {
        architecture,
        memory,
        multiprocessors: 4,
        shared_per_block,
        grid: [1 << 20; 3],
        ..Properties::default()
    }
}

/// Launches a product of [`ODD_SHAPES`] on a GPU that can have this number of resident blocks. The fake driver expects
/// the parameters of code with the given staging. Returns the number of launches on tensor cores.
fn launched_odd(properties: Properties, resident: Option<u32>, copies: Option<OperandStaging>, body: Body) -> u64 {
    let cores = TensorCoreModel::for_architecture(properties.architecture).expect("tensor cores");
    let of_cores = || product_of(BF16, [false, true], cores);
    let block = if copies.is_none() { Some([64, 1, 1]) } else { None };
    let options = CodegenOptions { stop: true, product: copies, block, ..CodegenOptions::default() };
    let params = cuda_text(&of_cores(), &options, None).params;
    let state = Mutex::new(State { resident, ..State::default() });
    let fake = Arc::new(Fake { properties: properties.clone(), params, body, state });
    let driver = fake.clone();
    let settings = GpuSettings { relies: true, ..GpuSettings::default() };
    let parts = || Ok(Arc::new(Paper) as Arc<dyn CudaCompiler>);
    let gpu = CudaGpu::with_parts(properties, settings, move |_| Ok(driver), parts);
    let mut storages = storages(ODD_SHAPES);
    let kernel = KernelVariants::new(gpu.context.clone(), Arc::new(of_cores()), None);
    kernel.launch(&BLOCKS.into(), &mut arguments(&mut storages, ODD_SHAPES), &Control::default()).unwrap();
    gpu.context.finish().unwrap();
    assert_eq!(fake.count("launch"), 1);
    gpu.statistics().on_matrix_units
}

/// If memory for packed operands is full, a launch copies operands by elements, or does not use tensor cores.
#[test]
fn products_run_without_memory_for_packed_operands() {
    // The arrays have 970,000 bytes, and the packed operands 144,000 bytes.
    let by_elements: Body = |call| assert_eq!((call.shape.block, call.shape.cooperative), ([384, 1, 1], false));
    assert_eq!(launched_odd(of(90, 1_000_000), None, Some(OperandStaging::Elements), by_elements), 1);
    let usual: Body = |call| assert_eq!((call.shape.grid, call.shape.block), ([10, 44, 1], [64, 1, 1]));
    assert_eq!(launched_odd(of(80, 1_000_000), None, None, usual), 0);
    // There is enough memory only for the first packed operand.
    assert_eq!(launched_odd(of(80, 1_100_000), None, None, usual), 0);
}

/// If fewer blocks can be resident, each block computes more tiles. If no block can be resident, the launch uses
/// another variant.
#[test]
fn packing_uses_one_wave_of_blocks() {
    let packed = Some(OperandStaging::Pieces { packed: [true; 2] });
    let fewer: Body = |call| assert_eq!((call.shape.grid, call.shape.cooperative), ([3, 1, 1], true));
    assert_eq!(launched_odd(of(90, 1 << 24), Some(3), packed, fewer), 1);
    let by_elements: Body = |call| assert_eq!((call.shape.grid, call.shape.cooperative), ([4, 1, 1], false));
    assert_eq!(launched_odd(of(90, 1 << 24), Some(0), Some(OperandStaging::Elements), by_elements), 1);
    let usual: Body = |call| assert_eq!((call.shape.grid, call.shape.block), ([10, 44, 1], [64, 1, 1]));
    assert_eq!(launched_odd(of(80, 1 << 24), Some(0), None, usual), 0);
}

/// For each tensor map of a launch, the extents of the array, last axis first, and the columns and rows of the box.
type Maps = Vec<([u32; 2], [u32; 2])>;

/// A tf32 operand that is not contiguous along the summed axis is read from registers. If this applies only to the
/// second operand, tiles of the product have more rows than columns.
#[test]
fn tf32_products_depend_on_the_operand_layout() {
    let (m, k, n) = (256, 64, 128);
    let blocks = LaunchExtents::Grid { grid: [4, 16, 1], block: [64, 1, 1] };
    let cases: [([bool; 2], u32, Maps); 4] = [
        ([false, true], 2, vec![([k, m], [32, 128]), ([k, n], [32, 256])]),
        ([false, false], 1, vec![([k, m], [32, 256]), ([n, k], [32, 32])]),
        ([true, true], 2, vec![([m, k], [32, 32]), ([k, n], [32, 256])]),
        ([true, false], 2, vec![([m, k], [32, 32]), ([n, k], [32, 32])]),
    ];
    for (transposed, tiles, maps) in cases {
        let [a, b] = transposed;
        let shapes = [if a { [k, m] } else { [m, k] }, if b { [n, k] } else { [k, n] }, [m, n]];
        let (gpu, _, fake) = gpu(product_of(F32, transposed, TensorCoreModel::Sm90), 1 << 24, |_| ());
        let kernel = KernelVariants::new(
            gpu.context.clone(),
            Arc::new(product_of(F32, transposed, TensorCoreModel::Sm90)),
            None,
        );
        assert_eq!(planned(&kernel, blocks, shapes), Some((OperandStaging::Boxes, tiles)), "{transposed:?}");
        let mut storages = shapes.map(|[rows, columns]| Storage::zeros((rows * columns) as usize * 4));
        kernel.launch(&blocks.into(), &mut arguments(&mut storages, shapes), &Control::default()).unwrap();
        let state = fake.state.lock().unwrap();
        let first = |axes: [u32; MAX_AXES]| [axes[0], axes[1]];
        let launch_maps: Maps = state.maps.iter().map(|map| (first(map.extents), first(map.tma_box.extents))).collect();
        assert_eq!(launch_maps, maps, "{transposed:?}");
        assert!(state.maps.iter().all(|map| map.element == MapElement::Tf32));
    }
}
