//! Generates CUDA code for matrix products on tensor cores.
//!
//! Input: a kernel that is a matrix product. Output: code that computes the product in tiles and calls the kernel's
//! epilogue for each element. The code is based on a template: `product.cu` for `sm_90a`, or `product_sync.cu` for all
//! GPUs since `sm_80`. Both templates include `elements.cu`.

use super::abi::{CodegenOptions, CudaGeometry, CudaKernel, KernelArgument, NARROW, OperandStaging, TmaBox};
use super::generator::{CudaArray, CudaGenerator};
use super::print;
use super::tree::CudaStmt;
use clk_base::source::SourceMap;
use clk_ir::PreparedKernel;
use clk_ir::def::{Access, BinOp, ExprId, ExprKind, Function, KernelParam, Leaf, MemId, MemorySpace, Scalar, Ty};
use clk_ir::ranges::{self, RangeAssumptions};
use clk_ir::tiles::{GemmKernel, GemmOperand};
use clk_runtime::LaunchExtents;

/// A template for the code of matrix products, and its launch constants.
struct GemmTemplate {
    text: &'static str,
    gpus: &'static str,
    /// Number of threads in a block.
    threads: u32,
    /// Bytes of dynamic shared memory per block.
    bytes: u32,
}

/// The template for sm_90a. Shared memory contains alignment, the stages, the panels of eight warps, and up to three
/// barriers per stage.
const OF_SM90A: GemmTemplate = GemmTemplate {
    text: concat!(
        "namespace tensor_cores {\n",
        include_str!("tma.cu"),
        include_str!("elements.cu"),
        "}\n\n",
        include_str!("product.cu")
    ),
    gpus: "sm_90a",
    threads: 384,
    bytes: 1024 + STAGES * (FIRST + SECOND) * 128 + 8 * KEPT_BYTES + 24 * STAGES,
};

/// The template for all GPUs from sm_80 on. Shared memory contains four stages with rows of 64 bytes.
const OF_SM80: GemmTemplate = GemmTemplate {
    text: concat!(
        "namespace tensor_cores {\n",
        include_str!("cp_async.cu"),
        include_str!("elements.cu"),
        "}\n\n",
        include_str!("product_sync.cu")
    ),
    gpus: "sm_80 and later",
    threads: 256,
    bytes: 4 * (FIRST + SECOND) * 64,
};

impl GemmTemplate {
    fn of(copies: OperandStaging) -> &'static GemmTemplate {
        if copies.requires_sm90a() { &OF_SM90A } else { &OF_SM80 }
    }
}

/// `FIRST` is the number of rows of the first operand in a tile, `SECOND` the number of columns of the second operand.
const FIRST: u32 = 128;
const SECOND: u32 = 256;
/// Bytes that a stage contains along the summed axis, which is also the size of a row of a box.
const TERM_BYTES: u32 = 128;
const STAGES: u32 = 3;
/// Bytes of shared memory in which a warp stores accumulators of a tile while the next tile is multiplied: five panels
/// of 16 rows and 32 columns.
const KEPT_BYTES: u32 = 5 * 16 * 32 * 4;

/// The names of the operands' tensor maps.
pub(super) const MAPS: [&str; 2] = ["map_of_a", "map_of_b"];
/// The names of the parameters with the addresses of packed operands.
pub(super) const PACKED: [&str; 2] = ["packed_a", "packed_b"];

/// The compute capability of the GPUs that support the sm_90a instructions. No other GPUs support them.
pub(crate) const TENSOR_ARCHITECTURE: u32 = 90;

/// Returns the size of a block's dynamic shared memory in bytes.
pub(crate) fn shared(copies: OperandStaging) -> u32 {
    GemmTemplate::of(copies).bytes
}

/// Returns the number of rows and columns of the product that the launch's blocks compute, as index extents.
pub(crate) fn extents(tile: [u32; 2], grid: [u32; 3]) -> LaunchExtents {
    LaunchExtents::Threads([grid[1].saturating_mul(tile[0]), grid[0].saturating_mul(tile[1]), 1])
}

/// Returns the number of tiles with `high` rows and `wide` columns that cover the product.
pub(crate) fn tiles([high, wide]: [u32; 2], rows: u32, columns: u32) -> u64 {
    u64::from(rows.div_ceil(high)) * u64::from(columns.div_ceil(wide))
}

/// Returns an upper bound on the number of tiles, for all templates.
pub(crate) fn most_tiles(rows: u32, columns: u32) -> u64 {
    tiles([FIRST, FIRST], rows, columns)
}

/// Returns the tensor-core code of a product, or `None` if the kernel is not a product, or if its epilogue may report
/// faults or print.
pub(super) fn product_text(
    kernel: &PreparedKernel,
    options: &CodegenOptions,
    sources: Option<&SourceMap>,
) -> Option<CudaKernel> {
    let (copies, product) = (options.product?, kernel.module.kernel.gemm.as_ref()?);
    let setting = RangeAssumptions { largest: NARROW, block: None, assume: options.assume };
    let mut ranges = ranges::analyze(&product.epilogue, setting);
    if kernel.in_bounds {
        ranges.assume_in_bounds();
    }
    let plain = CodegenOptions { wide: false, block: None, ..options.clone() };
    let mut generator = CudaGenerator::new(&product.epilogue, &plain, sources, ranges);
    let kernel_text = generator.product(&kernel.module.kernel.name, product, copies)?;
    Some(CudaKernel { options: options.clone(), ..kernel_text })
}

/// An operand in the generated code.
struct ReadOperand {
    /// 0 for the first operand, 1 for the second.
    factor: usize,
    param: usize,
    element: Scalar,
    name: String,
    /// The names of the operand's extents in the code.
    extents: [String; 2],
    by_columns: bool,
    /// The axis along which the product sums.
    terms: usize,
}

impl ReadOperand {
    /// Returns whether the elements along the summed axis are adjacent in memory.
    fn along_terms(&self) -> bool {
        self.terms == 1
    }

    /// Returns the tensor map for boxes that contain `own` rows of the first operand or columns of the second, for the
    /// part of the summed axis in one stage.
    fn map(&self, own: u32) -> KernelArgument {
        let terms = TERM_BYTES / self.element.size() as u32;
        let rows = if self.along_terms() { own } else { terms };
        let (factor, param) = (self.factor, self.param);
        KernelArgument::Map { factor, param, element: self.element, tma_box: TmaBox::plane(terms, rows) }
    }

    fn packed(&self) -> KernelArgument {
        KernelArgument::Packed { factor: self.factor, param: self.param, element: self.element }
    }

    /// Returns the C++ expression that the code passes to the template for this operand.
    fn argument(&self, copies: OperandStaging) -> String {
        match copies {
            OperandStaging::Boxes => MAPS[self.factor].into(),
            OperandStaging::Elements | OperandStaging::Pieces { .. } => {
                format!("tensor_cores::Plain{{{}, {}, {}}}", self.name, self.extents[0], self.extents[1])
            }
        }
    }
}

/// Returns whether the code computes the transposed product. For tf32, the second operand of `wgmma` must be contiguous
/// along the summed axis. The first operand must be so too, or it must be in registers.
fn is_transposed(a: &ReadOperand, b: &ReadOperand, copies: OperandStaging) -> bool {
    copies.requires_sm90a() && a.element == Scalar::F32 && a.along_terms() && !b.along_terms()
}

/// The epilogue: the statements that the kernel runs for each element of the product.
struct GemmEpilogue {
    stmts: Vec<CudaStmt>,
    /// The arrays whose stores are deferred: the template performs them for several elements together.
    deferred_stores: Vec<MemId>,
}

impl CudaGenerator<'_> {
    fn product(&mut self, name: &str, product: &GemmKernel, copies: OperandStaging) -> Option<CudaKernel> {
        let entry = self.naming.used.fresh(name);
        for param in &self.module.kernel.params {
            let (KernelParam::Value { name, .. } | KernelParam::Array { name, .. }) = param;
            let name = self.naming.used.fresh(name);
            self.naming.params.push(name);
        }
        self.arrays();
        self.name_indices(2);
        let (a, b) = (self.read_operand(0, product.a)?, self.read_operand(1, product.b)?);
        if a.element != b.element {
            return None;
        }
        let own = if is_transposed(&a, &b, copies) { [SECOND, FIRST] } else { [FIRST, SECOND] };
        let function = self.function;
        self.deferred.stores = Some(vec![]);
        let stmts = self.capture(|g| {
            g.local_arrays();
            g.declare_locals();
            g.block(&function.body);
        });
        let epilogue = GemmEpilogue { stmts, deferred_stores: self.deferred.stores.take().unwrap_or_default() };
        if self.records.uses_faults
            || self.records.uses_prints
            || self.records.uses_grid
            || !self.is_plain(&epilogue.deferred_stores)
        {
            return None;
        }
        let element = self.naming.params.len() - 1;
        let mut params = self.arguments_of(2);
        params.retain(|param| !matches!(param, KernelArgument::Value { param, .. } if *param == element));
        match copies {
            OperandStaging::Boxes => params.extend([a.map(own[0]), b.map(own[1])]),
            OperandStaging::Elements => {}
            OperandStaging::Pieces { packed } => {
                params.extend([&a, &b].into_iter().filter(|read| packed[read.factor]).map(ReadOperand::packed));
            }
        }
        let packs = copies.packs();
        params.extend(packs.then_some(KernelArgument::GridBarrier));
        let shared = GemmTemplate::of(copies);
        let notes = self.product_notes(&a, &b, shared);
        let text = self.product_body(&entry, &params, [&a, &b], copies, &notes, &epilogue);
        Some(CudaKernel {
            text,
            entry,
            options: self.options.clone(),
            params,
            geometry: CudaGeometry::Product { tile: product.tile, own, threads: shared.threads, shared: shared.bytes },
            max_block: shared.threads,
            static_shared: 0,
            dynamic_shared: vec![],
            cooperative: packs,
            places: std::mem::take(&mut self.records.places),
            prints: vec![],
            assumptions: self.used_assumptions(),
            guards: self.analyses.ranges.summary,
            notes,
        })
    }

    /// Returns an operand, or `None` if tensor cores cannot multiply it.
    fn read_operand(&mut self, which: usize, factor: GemmOperand) -> Option<ReadOperand> {
        let param = factor.param as usize;
        let Some(KernelParam::Array { access: Access::In, memory, .. }) = self.module.kernel.params.get(param) else {
            return None;
        };
        let own = &self.function.memories[*memory];
        let [Leaf { ty: Ty::Scalar(element @ (Scalar::F16 | Scalar::Bf16 | Scalar::F32)), .. }] = own.layout.leaves[..]
        else {
            return None;
        };
        let rank = own.extents.len();
        let extents = [0, 1].map(|axis| self.param_extent(param, axis, rank));
        let name = self.memories[memory.index()].name.clone();
        let terms = usize::from((which == 0) != factor.transposed);
        let by_columns = factor.transposed;
        (rank == 2).then_some(ReadOperand { factor: which, param, element, name, extents, by_columns, terms })
    }

    fn product_notes(&self, a: &ReadOperand, b: &ReadOperand, shared: &GemmTemplate) -> Vec<String> {
        let mut notes = vec![format!("the product of {} and {} on tensor cores of {}", a.name, b.name, shared.gpus)];
        notes.extend(self.notes(None));
        notes
    }

    fn product_body(
        &mut self,
        entry: &str,
        params: &[KernelArgument],
        [a, b]: [&ReadOperand; 2],
        copies: OperandStaging,
        notes: &[String],
        epilogue: &GemmEpilogue,
    ) -> String {
        let element = self.naming.params.last().cloned().unwrap_or_default();
        let names: Vec<String> = params.iter().map(|param| self.parameter(param)).collect();
        let prologue = [std::mem::take(&mut self.preamble.stmts), std::mem::take(&mut self.preamble.shared)].concat();
        let mut text = std::mem::take(&mut self.preamble.helpers).into_text();
        let kind = match a.element {
            Scalar::F32 => "tf32",
            Scalar::Bf16 => "bf16",
            _ => "f16",
        };
        text.push_str(&format!("#define TENSOR_TYPE \"{kind}\"\n#define TENSOR_BYTES {}\n", a.element.size()));
        let mut switches = vec![("A_BY_COLUMNS", u32::from(a.by_columns)), ("B_BY_COLUMNS", u32::from(b.by_columns))];
        switches.extend(match copies {
            OperandStaging::Boxes => vec![("PLAIN", 0)],
            OperandStaging::Elements => vec![("PLAIN", 1)],
            OperandStaging::Pieces { packed: [a, b] } => vec![("A_PACKED", a.into()), ("B_PACKED", b.into())],
        });
        for (name, value) in switches {
            text.push_str(&format!("#define TENSOR_{name} {value}\n"));
        }
        let shared = GemmTemplate::of(copies);
        text.push_str(shared.text);
        text.push('\n');
        notes.iter().for_each(|note| text.push_str(&format!("// {note}\n")));
        let threads = shared.threads;
        text.push_str(&format!("extern \"C\" __global__ void __launch_bounds__({threads}, 1) {entry}(\n    "));
        text.push_str(&names.join(",\n    "));
        text.push_str(") {\n");
        print::block(&prologue, 1, &mut text);
        let [(row, rows), (column, columns)] = [0, 1].map(|k| self.naming.indices[k].clone());
        let (struct_of_left, write) = self.deferred_store_text(&epilogue.deferred_stores);
        let edges = self.edges();
        text.push_str(&format!(
            "{struct_of_left}    const auto at = [&](const bool open, const int {row}, const int {column}, const float {element}, \
             Left &left) __attribute__((always_inline)) {{\n"
        ));
        text.push_str(&format!("        __builtin_assume({row} >= 0 && {column} >= 0);\n"));
        for (at, extents) in [&row, &column].into_iter().zip(&edges) {
            extents.iter().for_each(|extent| {
                text.push_str(&format!("        __builtin_assume(!open || {at} < {extent});\n"));
            });
        }
        print::block(&epilogue.stmts, 2, &mut text);
        text.push_str(&format!("    }};\n{write}"));
        let (terms, is_transposed) = (&a.extents[a.terms], is_transposed(a, b, copies));
        let (a, b) = (a.argument(copies), b.argument(copies));
        let (first, second) = if is_transposed { (b, a) } else { (a, b) };
        let packing_argument = match copies {
            OperandStaging::Pieces { packed } => {
                let name = |given: bool, name: &'static str| if given { name } else { "nullptr" };
                let [a, b] = [0, 1].map(|factor| name(packed[factor], PACKED[factor]));
                format!("tensor_cores::Room{{{a}, {b}, {}}}, ", name(packed.contains(&true), "grid_arrivals"))
            }
            _ => String::new(),
        };
        let least = |all: &String, extents: &[String]| {
            extents.iter().fold(all.clone(), |least, extent| format!("min({least}, {extent})"))
        };
        let open = format!("{}, {}", least(&rows, &edges[0]), least(&columns, &edges[1]));
        let edges = format!("tensor_cores::Edges{{{rows}, {columns}, {open}}}");
        let call =
            format!("tensor_cores::product<Left>({first}, {second}, {packing_argument}{edges}, {terms}, at, write)");
        text.push_str(&format!("    {call};\n}}\n"));
        text
    }

    /// Returns the array extents with which the epilogue compares the row, and those with which it compares the column.
    /// For many elements at once, the code tests that all rows and columns are below these extents. The compiler then
    /// removes the comparisons.
    fn edges(&mut self) -> [Vec<String>; 2] {
        let function = self.function;
        let mut edges: [Vec<String>; 2] = Default::default();
        for (_, expr) in function.exprs.iter() {
            let ExprKind::Binary { op: BinOp::Lt, left, right } = expr.kind else { continue };
            let ExprKind::Extent(memory, axis) = function.exprs[right].kind else { continue };
            let MemorySpace::Global { param, .. } = function.memories[memory].space else { continue };
            let axes = [0, 1].map(|k| depends_on(function, left, k));
            let Some(own) = axes.iter().position(|&depends| depends).filter(|_| axes != [true, true]) else { continue };
            let rank = function.memories[memory].extents.len();
            let name = self.param_extent(param as usize, axis as usize, rank);
            if !edges[own].contains(&name) {
                edges[own].push(name);
            }
        }
        edges
    }

    /// Returns whether stores to these arrays can be deferred: each array has scalar elements, and only one statement
    /// writes it.
    fn is_plain(&self, left: &[MemId]) -> bool {
        let is_one = |id: &MemId| left.iter().filter(|other| *other == id).count() == 1;
        let is_number = |id: &MemId| {
            let leaves = self.function.memories[*id].layout.leaves.as_slice();
            self.memories[id.index()].element.fields.is_none() && matches!(leaves, [Leaf { ty: Ty::Scalar(_), .. }])
        };
        left.iter().all(|id| is_one(id) && is_number(id))
    }

    /// Returns the C++ struct for an element's deferred stores, and the C++ function that performs the deferred stores
    /// of four elements.
    fn deferred_store_text(&self, left: &[MemId]) -> (String, String) {
        let mut members = String::new();
        let mut writes = String::new();
        for id in left {
            let CudaArray { name, element, .. } = &self.memories[id.index()];
            members.push_str(&format!(" tensor_cores::Later<{}> {name};", element.ty));
            let four = [0, 1, 2, 3].map(|k| format!("left[{k}].{name}")).join(", ");
            writes.push_str(&format!("        tensor_cores::write({name}, count, {four});\n"));
        }
        let start =
            "    const auto write = [&](const Left (&left)[4], const int count) __attribute__((always_inline)) {\n";
        (format!("    struct Left {{{members} }};\n"), format!("{start}{writes}    }};\n"))
    }
}

/// Returns whether an expression contains no loads and depends on an index.
fn depends_on(function: &Function, id: ExprId, index: u8) -> bool {
    match &function.exprs[id].kind {
        ExprKind::Index(k) => *k == index,
        ExprKind::Binary { left, right, .. } => {
            depends_on(function, *left, index) || depends_on(function, *right, index)
        }
        ExprKind::Unary { value, .. } | ExprKind::Convert(value) => depends_on(function, *value, index),
        _ => false,
    }
}
