//! Launches of products of matrices: which of them tensor cores compute, and what is passed to their text.

use super::*;
use crate::device::cuda::Instructions;
use crate::device::cuda::driver::MapElement;
use crate::device::cuda::kernel::Kernel;
use crate::device::cuda::plan::Facts;
use crate::device::cuda::text::abi::MOST_AXES;
use crate::device::cuda::text::product_shared;
use crate::ir::typing::F32;

const BF16: Ty = Ty::Scalar(Scalar::Bf16);

fn parameters(b: &mut FunctionBuilder, of: Ty) -> MemId {
    b.array("a", Access::In, Layout::plain(of), 2);
    b.array("b", Access::In, Layout::plain(of), 2);
    b.array("c", Access::Out, Layout::plain(F32), 2)
}

/// Returns a kernel that is the product of `a` and `b`, the latter given by its columns.
fn product() -> Prepared {
    product_of(BF16, [false, true], Cores::Sm90)
}

/// Returns a kernel that is the product of `a` and `b`, or of their transpositions, with sums that have the bits of these tensor cores. What it
/// does without tensor cores does not matter here.
fn product_of(of: Ty, transposed: [bool; 2], cores: Cores) -> Prepared {
    let mut b = FunctionBuilder::new("product_epilogue");
    let c = parameters(&mut b, of);
    let element = b.value("element", F32);
    let (row, column) = (b.index(0), b.index(1));
    let [rows, columns] = [0, 1].map(|axis| b.extent(c, axis));
    let inside = [(row, rows), (column, columns)].map(|(at, n)| b.binary(BinOp::Lt, at, n));
    let inside = b.binary(BinOp::And, inside[0], inside[1]);
    b.if_then(inside, |b| b.store(c, &[row, column], element));
    let epilogue = module(Default::default(), b, Form::Threads { rank: 2 });
    let mut b = FunctionBuilder::new("product");
    parameters(&mut b, of);
    let mut module = module(Default::default(), b, Form::Grid);
    let [a, b] = [0, 1].map(|param| Factor { param, transposed: transposed[param as usize] });
    module.kernel.product = Some(Arc::new(Product { a, b, cores, tile: [16, 32], epilogue }));
    Prepared::new(verify(module).expect("a sound kernel"), Default::default())
}

const SHAPES: [[u32; 2]; 3] = [[700, 64], [300, 64], [700, 300]];
const BLOCKS: Extents = Extents::Grid { grid: [10, 44, 1], block: [64, 1, 1] };

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
fn a_product_is_launched_with_maps_and_a_block_for_each_multiprocessor() {
    let (gpu, kernel, fake) = gpu(product(), 1 << 24, |call| {
        // 6 by 2 tiles of 128 by 256, on 4 multiprocessors.
        assert_eq!((call.shape.grid, call.shape.block), ([4, 1, 1], [384, 1, 1]));
        assert_eq!((call.shape.shared, call.shape.cooperative), (product_shared(Copies::Boxes), false));
        // What the blocks of the launch compute.
        assert_eq!(call.find(KernelArgument::IndexExtent { index: 0 }), 16 * 44);
        assert_eq!(call.find(KernelArgument::IndexExtent { index: 1 }), 32 * 10);
        assert_eq!(call.find(KernelArgument::Extent { param: 0, axis: 1 }), 64);
    });
    let mut storages = storages(SHAPES);
    kernel.launch(BLOCKS, &mut arguments(&mut storages, SHAPES), &Control::default()).unwrap();
    assert_eq!(gpu.statistics().on_tensor_cores, 1);
    let state = fake.state.lock().unwrap();
    let expected = [(700, 128), (300, 256)]
        .map(|(rows, of_box)| (MapElement::Bf16, [64, rows, 1, 1, 1], OfBox::plane(64, of_box)));
    let maps: Vec<_> = state.maps.iter().map(|map| (map.element, map.extents, map.of_box)).collect();
    assert_eq!(maps, expected);
    assert!(state.maps.iter().all(|map| state.memory.contains_key(&map.address.0)));
}

/// Returns how the factors are read in a launch, and the number of blocks; `None` without tensor cores.
fn planned(kernel: &Kernel, extents: Extents, shapes: [[u32; 2]; 3]) -> Option<(Copies, u32)> {
    let mut storages = storages([[0; 2]; 3]);
    let args = &arguments(&mut storages, shapes);
    let facts = Facts { args, extents, declared: None };
    let plan = kernel.plan(&facts).unwrap_or_else(|_| panic!("a plan")).expect("something to run");
    plan.variant.kernel.options.product.map(|copies| (copies, plan.shape.grid[0]))
}

#[test]
fn launches_choose_their_text() {
    let grid = |grid| Extents::Grid { grid, block: [64, 1, 1] };
    let boxes = |blocks| Some((Copies::Boxes, blocks));
    let packed = |packed, blocks| Some((Copies::Pieces { packed }, blocks));
    let (gpu, ..) = gpu(product(), 1 << 20, |_| ());
    let kernel = Kernel::new(gpu.context.clone(), Arc::new(product()), None);
    let cases = [
        (BLOCKS, SHAPES, boxes(4)),
        (grid([1, 1, 1]), SHAPES, boxes(1)),
        // Rows of 130 bytes.
        (BLOCKS, [[700, 65], [300, 65], [700, 300]], packed([true; 2], 4)),
        (BLOCKS, [[700, 0], [300, 0], [700, 300]], None),
        (BLOCKS, [[0, 64], [300, 64], [0, 300]], None),
        (BLOCKS, [[700, 64], [300, 72], [700, 300]], None),
        (grid([10, 44, 2]), SHAPES, None),
        // More elements than 32 bits count.
        (BLOCKS, [[1 << 20, 1 << 12], [300, 1 << 12], [700, 300]], None),
        (BLOCKS, SHAPES, boxes(4)),
    ];
    for (extents, shapes, expected) in cases {
        assert_eq!(planned(&kernel, extents, shapes), expected, "{extents:?} {shapes:?}");
    }
}

/// Returns how a GPU of this architecture reads the factors of a product whose sums have the bits of these tensor cores.
fn read_by(architecture: u32, cores: Cores, settings: Settings, shapes: [[u32; 2]; 3]) -> Option<Copies> {
    let shared_per_block = if architecture == 90 { 227 << 10 } else { 99 << 10 };
    let properties =
        Properties { architecture, multiprocessors: 4, grid: [1 << 20; 3], shared_per_block, ..Properties::default() };
    let (_, _, fake) = gpu(product(), 1 << 20, |_| ());
    let parts = || Ok(Arc::new(Paper) as Arc<dyn Compiler>);
    let gpu = Gpu::with_parts(properties, settings, move |_| Ok(fake), parts);
    let kernel = Kernel::new(gpu.context.clone(), Arc::new(product_of(BF16, [false, true], cores)), None);
    planned(&kernel, BLOCKS, shapes).map(|(copies, _)| copies)
}

/// Tensor cores are used where their bits are those of the run, and were compared with them or are relied upon.
#[test]
fn gpus_have_texts_for_tensor_cores_whose_bits_are_wanted() {
    let relies = || Settings { relies: true, ..Settings::default() };
    let pieces = Some(Copies::Pieces { packed: [false; 2] });
    let (sm80, sm90) = (Cores::Sm80, Cores::Sm90);
    let cases = [
        (80, sm90, None, None),
        (80, sm80, None, pieces),
        (86, sm80, None, pieces),
        (89, sm80, None, pieces),
        (90, sm90, Some(Copies::Boxes), Some(Copies::Boxes)),
        (90, sm80, None, None),
        (100, sm90, None, pieces),
        (120, sm90, None, pieces),
        (120, sm80, None, None),
        (75, sm80, None, None),
    ];
    for (architecture, cores, usual, relied_upon) in cases {
        assert_eq!(read_by(architecture, cores, Settings::default(), SHAPES), usual, "{architecture} {cores}");
        assert_eq!(read_by(architecture, cores, relies(), SHAPES), relied_upon, "{architecture} {cores}, relied upon");
    }
    let sync = Settings { tensor: Instructions::Sync, ..Settings::default() };
    assert_eq!(read_by(90, sm90, sync, SHAPES), pieces);
    let odd = [[700, 64], [300, 65], [700, 300]];
    assert_eq!(read_by(80, sm80, relies(), odd), None, "as many terms in both");
}

#[test]
fn why_tensor_cores_are_not_used_is_said_once() {
    static SAID: Mutex<Vec<String>> = Mutex::new(vec![]);
    let tell = Some((|what: &str| SAID.lock().unwrap().push(what.into())) as fn(&str));
    for (architecture, cores) in [(89, Cores::Sm90), (120, Cores::Sm90), (90, Cores::Sm90), (61, Cores::Sm90)] {
        read_by(architecture, cores, Settings { tell, ..Settings::default() }, SHAPES);
    }
    let said = SAID.lock().unwrap();
    assert_eq!(said.len(), 2, "{said:#?}");
    assert!(
        said[0].contains("(sm_89), slowly: its tensor cores have other bits than those of sm_90; `--mma sm_80`"),
        "{said:#?}"
    );
    assert!(said[1].contains("(sm_120)") && said[1].contains("was not tried; `--mma sm_90` relies on it"), "{said:#?}");
}

/// What is packed has memory of its own, with rows of whole pieces, and all blocks run at the same time.
#[test]
fn factors_are_packed_to_memory_of_their_own() {
    let body: Body = |call| {
        assert_eq!((call.shape.grid, call.shape.block), ([4, 1, 1], [256, 1, 1]));
        assert!(call.shape.cooperative);
        let packed = |factor| KernelArgument::Packed { factor, param: factor, element: Scalar::Bf16 };
        // 65 elements become 72.
        for (argument, bytes) in
            [(packed(0), 2 * 700 * 72), (packed(1), 2 * 300 * 72), (KernelArgument::GridBarrier, 4)]
        {
            let address = call.find(argument.clone());
            assert_eq!(call.memory[&address].len(), bytes, "{argument:?}");
        }
    };
    let copies = Copies::Pieces { packed: [true; 2] };
    assert_eq!(launched_odd(of(90, 1 << 24), None, Some(copies), body), 1);
}

/// Rows of 130 bytes.
const ODD_SHAPES: [[u32; 2]; 3] = [[700, 65], [300, 65], [700, 300]];

/// Returns a GPU with so much memory.
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

/// Launches the product of factors with odd rows on a GPU where so many blocks run at the same time, with a driver that expects the parameters
/// of a text that reads factors like this; returns how many launches were on tensor cores.
fn launched_odd(properties: Properties, resident: Option<u32>, copies: Option<Copies>, body: Body) -> u64 {
    let cores = Cores::of(properties.architecture).expect("tensor cores");
    let of_cores = || product_of(BF16, [false, true], cores);
    let block = if copies.is_none() { Some([64, 1, 1]) } else { None };
    let options = Options { stop: true, product: copies, block, ..Options::default() };
    let params = cuda_text(&of_cores(), &options, None).params;
    let state = Mutex::new(State { resident, ..State::default() });
    let fake = Arc::new(Fake { properties: properties.clone(), params, body, state });
    let driver = fake.clone();
    let settings = Settings { relies: true, ..Settings::default() };
    let parts = || Ok(Arc::new(Paper) as Arc<dyn Compiler>);
    let gpu = Gpu::with_parts(properties, settings, move |_| Ok(driver), parts);
    let mut storages = storages(ODD_SHAPES);
    let kernel = Kernel::new(gpu.context.clone(), Arc::new(of_cores()), None);
    kernel.launch(BLOCKS, &mut arguments(&mut storages, ODD_SHAPES), &Control::default()).unwrap();
    gpu.context.finish().unwrap();
    assert_eq!(fake.count("launch"), 1);
    gpu.statistics().on_tensor_cores
}

/// Where memory for packed factors is missing, a launch does without: by copies of elements, or without tensor cores.
#[test]
fn without_memory_for_packed_factors_there_are_other_ways() {
    // The arrays have 970,000 bytes, the packed factors 144,000.
    let by_elements: Body = |call| assert_eq!((call.shape.block, call.shape.cooperative), ([384, 1, 1], false));
    assert_eq!(launched_odd(of(90, 1_000_000), None, Some(Copies::Elements), by_elements), 1);
    let usual: Body = |call| assert_eq!((call.shape.grid, call.shape.block), ([10, 44, 1], [64, 1, 1]));
    assert_eq!(launched_odd(of(80, 1_000_000), None, None, usual), 0);
    // With memory for the first factor alone.
    assert_eq!(launched_odd(of(80, 1_100_000), None, None, usual), 0);
}

/// Blocks that meet take more tiles where fewer run at the same time; where none does, there are other ways.
#[test]
fn as_many_blocks_pack_as_run_at_the_same_time() {
    let packed = Some(Copies::Pieces { packed: [true; 2] });
    let fewer: Body = |call| assert_eq!((call.shape.grid, call.shape.cooperative), ([3, 1, 1], true));
    assert_eq!(launched_odd(of(90, 1 << 24), Some(3), packed, fewer), 1);
    let by_elements: Body = |call| assert_eq!((call.shape.grid, call.shape.cooperative), ([4, 1, 1], false));
    assert_eq!(launched_odd(of(90, 1 << 24), Some(0), Some(Copies::Elements), by_elements), 1);
    let usual: Body = |call| assert_eq!((call.shape.grid, call.shape.block), ([10, 44, 1], [64, 1, 1]));
    assert_eq!(launched_odd(of(80, 1 << 24), Some(0), None, usual), 0);
}

/// The maps of a launch: the extents of the arrays, the last axis first, and the columns and rows of their boxes.
type Maps = Vec<([u32; 2], [u32; 2])>;

/// Of tf32, the factor that does not lie along the terms goes through registers, which makes a tile of the product higher than wide if it is
/// the second one alone.
#[test]
fn products_of_tf32_are_launched_by_how_their_factors_lie() {
    let (m, k, n) = (256, 64, 128);
    let blocks = Extents::Grid { grid: [4, 16, 1], block: [64, 1, 1] };
    let cases: [([bool; 2], u32, Maps); 4] = [
        ([false, true], 2, vec![([k, m], [32, 128]), ([k, n], [32, 256])]),
        ([false, false], 1, vec![([k, m], [32, 256]), ([n, k], [32, 32])]),
        ([true, true], 2, vec![([m, k], [32, 32]), ([k, n], [32, 256])]),
        ([true, false], 2, vec![([m, k], [32, 32]), ([n, k], [32, 32])]),
    ];
    for (transposed, tiles, maps) in cases {
        let [a, b] = transposed;
        let shapes = [if a { [k, m] } else { [m, k] }, if b { [n, k] } else { [k, n] }, [m, n]];
        let (gpu, _, fake) = gpu(product_of(F32, transposed, Cores::Sm90), 1 << 24, |_| ());
        let kernel = Kernel::new(gpu.context.clone(), Arc::new(product_of(F32, transposed, Cores::Sm90)), None);
        assert_eq!(planned(&kernel, blocks, shapes), Some((Copies::Boxes, tiles)), "{transposed:?}");
        let mut storages = shapes.map(|[rows, columns]| Storage::zeros((rows * columns) as usize * 4));
        kernel.launch(blocks, &mut arguments(&mut storages, shapes), &Control::default()).unwrap();
        let state = fake.state.lock().unwrap();
        let first = |axes: [u32; MOST_AXES]| [axes[0], axes[1]];
        let found: Maps = state.maps.iter().map(|map| (first(map.extents), first(map.of_box.extents))).collect();
        assert_eq!(found, maps, "{transposed:?}");
        assert!(state.maps.iter().all(|map| map.element == MapElement::Tf32));
    }
}
