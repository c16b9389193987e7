//! Products of matrices on tensor cores. In: a kernel that is a product, and how the factors are read. Out: a text that computes it in tiles
//! of its own, around what the kernel does with each element.
//!
//! `product.cu` is the part that texts for sm_90 share. It has to be compiled for `sm_90a`, and runs on no other GPU. `product_sync.cu` is
//! that of texts for all GPUs from sm_80 on, and `elements.cu` what both have in common.

use super::abi::{Copies, CudaKernel, Geometry, KernelArgument, NARROW, OfBox, Options};
use super::generator::{Array, Gen};
use super::print;
use super::tree::Stmt;
use crate::base::source::Sources;
use crate::device::Extents;
use crate::ir::Prepared;
use crate::ir::def::{
    Access, BinOp, ExprId, ExprKind, Factor, Function, KernelParam, Leaf, MemId, Product, Scalar, Space, Ty,
};
use crate::ir::ranges::{self, Setting};

/// A text that products share, and the constants of its launches.
struct Shared {
    text: &'static str,
    gpus: &'static str,
    /// Threads of a block.
    threads: u32,
    /// Bytes of dynamic shared memory.
    bytes: u32,
}

/// That of sm_90a: alignment, stages, what eight warps keep, and up to three barriers for each stage.
const OF_SM90A: Shared = Shared {
    text: concat!(
        "namespace tensor_cores {\n",
        include_str!("boxes.cu"),
        include_str!("elements.cu"),
        "}\n\n",
        include_str!("product.cu")
    ),
    gpus: "sm_90a",
    threads: 384,
    bytes: 1024 + STAGES * (FIRST + SECOND) * 128 + 8 * KEPT + 24 * STAGES,
};

/// That of all GPUs from sm_80 on: four stages of 64 bytes a row.
const OF_SM80: Shared = Shared {
    text: concat!(
        "namespace tensor_cores {\n",
        include_str!("pieces.cu"),
        include_str!("elements.cu"),
        "}\n\n",
        include_str!("product_sync.cu")
    ),
    gpus: "sm_80 and later",
    threads: 256,
    bytes: 4 * (FIRST + SECOND) * 64,
};

impl Shared {
    fn of(copies: Copies) -> &'static Shared {
        if copies.is_of_sm90a() { &OF_SM90A } else { &OF_SM80 }
    }
}

/// The rows and columns that an instruction's first and second factor have in a tile.
const FIRST: u32 = 128;
const SECOND: u32 = 256;
/// Bytes of the terms of a stage, and of a row of a box.
const TERM_BYTES: u32 = 128;
const STAGES: u32 = 3;
/// What a warp keeps of a tile while the next one is multiplied: five panels of 16 rows and 32 columns.
const KEPT: u32 = 5 * 16 * 32 * 4;

/// The names of the maps of the factors.
pub(super) const MAPS: [&str; 2] = ["map_of_a", "map_of_b"];
/// The names of the memory of packed factors.
pub(super) const PACKED: [&str; 2] = ["packed_a", "packed_b"];

/// The compute capability of the only GPUs with the instructions of the text.
pub(crate) const TENSOR_ARCHITECTURE: u32 = 90;

/// Returns the bytes of dynamic shared memory of a block.
pub(crate) fn shared(copies: Copies) -> u32 {
    Shared::of(copies).bytes
}

/// Returns the rows and columns that a launch's blocks compute, as index extents.
pub(crate) fn extents(tile: [u32; 2], grid: [u32; 3]) -> Extents {
    Extents::Threads([grid[1].saturating_mul(tile[0]), grid[0].saturating_mul(tile[1]), 1])
}

/// Returns the number of tiles of so many rows and columns.
pub(crate) fn tiles([high, wide]: [u32; 2], rows: u32, columns: u32) -> u64 {
    u64::from(rows.div_ceil(high)) * u64::from(columns.div_ceil(wide))
}

/// Returns a number of tiles that no text has more of.
pub(crate) fn most_tiles(rows: u32, columns: u32) -> u64 {
    tiles([FIRST, FIRST], rows, columns)
}

/// Returns the text of a product for tensor cores; `None` if the kernel is none, or may report faults or print for an element.
pub(super) fn product_text(kernel: &Prepared, options: &Options, sources: Option<&Sources>) -> Option<CudaKernel> {
    let (copies, product) = (options.product?, kernel.module.kernel.product.as_ref()?);
    let setting = Setting { largest: NARROW, block: None, assume: options.assume };
    let mut ranges = ranges::analyze(&product.epilogue, setting);
    if kernel.in_bounds {
        ranges.vouch();
    }
    let plain = Options { wide: false, block: None, ..options.clone() };
    let mut generator = Gen::new(&product.epilogue, &plain, sources, ranges);
    let found = generator.product(&kernel.module.kernel.name, product, copies)?;
    Some(CudaKernel { options: options.clone(), ..found })
}

/// A factor in the text.
struct Read {
    /// 0 for the first, 1 for the second one.
    factor: usize,
    param: usize,
    element: Scalar,
    name: String,
    /// The names of its extents.
    extents: [String; 2],
    by_columns: bool,
    /// Which of its axes is that of the sums.
    terms: usize,
}

impl Read {
    /// Whether the terms of a sum lie beside each other in memory.
    fn along_terms(&self) -> bool {
        self.terms == 1
    }

    /// Returns the map for boxes of a stage's terms, and so many rows of the first factor or columns of the second one.
    fn map(&self, own: u32) -> KernelArgument {
        let terms = TERM_BYTES / self.element.size() as u32;
        let rows = if self.along_terms() { own } else { terms };
        let (factor, param) = (self.factor, self.param);
        KernelArgument::Map { factor, param, element: self.element, of_box: OfBox::plane(terms, rows) }
    }

    fn packed(&self) -> KernelArgument {
        KernelArgument::Packed { factor: self.factor, param: self.param, element: self.element }
    }

    /// Returns what the text passes for it.
    fn argument(&self, copies: Copies) -> String {
        match copies {
            Copies::Boxes => MAPS[self.factor].into(),
            Copies::Elements | Copies::Pieces { .. } => {
                format!("tensor_cores::Plain{{{}, {}, {}}}", self.name, self.extents[0], self.extents[1])
            }
        }
    }
}

/// Whether the instructions compute the transposed product: the one of sm_90a for tf32 reads its second factor along the terms, and its first one so or
/// from registers.
fn is_transposed(a: &Read, b: &Read, copies: Copies) -> bool {
    copies.is_of_sm90a() && a.element == Scalar::F32 && a.along_terms() && !b.along_terms()
}

impl Gen<'_> {
    fn product(&mut self, name: &str, product: &Product, copies: Copies) -> Option<CudaKernel> {
        let entry = self.names.fresh(name);
        for param in &self.module.kernel.params {
            let (KernelParam::Value { name, .. } | KernelParam::Array { name, .. }) = param;
            let name = self.names.fresh(name);
            self.params.push(name);
        }
        self.arrays();
        self.name_indices(2);
        let (a, b) = (self.factor(0, product.a)?, self.factor(1, product.b)?);
        if a.element != b.element {
            return None;
        }
        let own = if is_transposed(&a, &b, copies) { [SECOND, FIRST] } else { [FIRST, SECOND] };
        let function = self.function;
        self.left = Some(vec![]);
        let body = self.within(|g| {
            g.local_arrays();
            g.declare_locals();
            g.block(&function.body);
        });
        let left = self.left.take().unwrap_or_default();
        if self.uses_faults || self.uses_prints || self.uses_grid || !self.is_plain(&left) {
            return None;
        }
        let element = self.params.len() - 1;
        let mut params = self.arguments_of(2);
        params.retain(|param| !matches!(param, KernelArgument::Value { param, .. } if *param == element));
        match copies {
            Copies::Boxes => params.extend([a.map(own[0]), b.map(own[1])]),
            Copies::Elements => {}
            Copies::Pieces { packed } => {
                params.extend([&a, &b].into_iter().filter(|read| packed[read.factor]).map(Read::packed));
            }
        }
        let packs = copies.packs();
        params.extend(packs.then_some(KernelArgument::GridBarrier));
        let shared = Shared::of(copies);
        let notes = self.product_notes(&a, &b, shared);
        let text = self.product_body(&entry, &params, [&a, &b], copies, &notes, (&body, &left));
        Some(CudaKernel {
            text,
            entry,
            options: self.options.clone(),
            params,
            geometry: Geometry::Product { tile: product.tile, own, threads: shared.threads, shared: shared.bytes },
            max_block: shared.threads,
            static_shared: 0,
            dynamic_shared: vec![],
            cooperative: packs,
            places: std::mem::take(&mut self.places),
            prints: vec![],
            assumptions: self.relied_upon(),
            guards: self.ranges.summary,
            notes,
        })
    }

    /// Returns a factor; `None` if it is none that tensor cores multiply.
    fn factor(&mut self, which: usize, factor: Factor) -> Option<Read> {
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
        (rank == 2).then_some(Read { factor: which, param, element, name, extents, by_columns, terms })
    }

    fn product_notes(&self, a: &Read, b: &Read, shared: &Shared) -> Vec<String> {
        let mut notes = vec![format!("the product of {} and {} on tensor cores of {}", a.name, b.name, shared.gpus)];
        notes.extend(self.notes(None));
        notes
    }

    fn product_body(
        &mut self,
        entry: &str,
        params: &[KernelArgument],
        [a, b]: [&Read; 2],
        copies: Copies,
        notes: &[String],
        (body, left): (&[Stmt], &[MemId]),
    ) -> String {
        let element = self.params.last().cloned().unwrap_or_default();
        let names: Vec<String> = params.iter().map(|param| self.parameter(param)).collect();
        let prologue = [std::mem::take(&mut self.prologue), std::mem::take(&mut self.prologue_shared)].concat();
        let mut text = std::mem::take(&mut self.helpers).into_text();
        let kind = match a.element {
            Scalar::F32 => "tf32",
            Scalar::Bf16 => "bf16",
            _ => "f16",
        };
        text.push_str(&format!("#define TENSOR_TYPE \"{kind}\"\n#define TENSOR_BYTES {}\n", a.element.size()));
        let mut switches = vec![("A_BY_COLUMNS", u32::from(a.by_columns)), ("B_BY_COLUMNS", u32::from(b.by_columns))];
        switches.extend(match copies {
            Copies::Boxes => vec![("PLAIN", 0)],
            Copies::Elements => vec![("PLAIN", 1)],
            Copies::Pieces { packed: [a, b] } => vec![("A_PACKED", a.into()), ("B_PACKED", b.into())],
        });
        for (name, value) in switches {
            text.push_str(&format!("#define TENSOR_{name} {value}\n"));
        }
        let shared = Shared::of(copies);
        text.push_str(shared.text);
        text.push('\n');
        notes.iter().for_each(|note| text.push_str(&format!("// {note}\n")));
        let threads = shared.threads;
        text.push_str(&format!("extern \"C\" __global__ void __launch_bounds__({threads}, 1) {entry}(\n    "));
        text.push_str(&names.join(",\n    "));
        text.push_str(") {\n");
        print::block(&prologue, 1, &mut text);
        let [(row, rows), (column, columns)] = [0, 1].map(|k| self.indices[k].clone());
        let (struct_of_left, write) = self.left_of_elements(left);
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
        print::block(body, 2, &mut text);
        text.push_str(&format!("    }};\n{write}"));
        let (terms, is_transposed) = (&a.extents[a.terms], is_transposed(a, b, copies));
        let (a, b) = (a.argument(copies), b.argument(copies));
        let (first, second) = if is_transposed { (b, a) } else { (a, b) };
        let room = match copies {
            Copies::Pieces { packed } => {
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
        let call = format!("tensor_cores::product<Left>({first}, {second}, {room}{edges}, {terms}, at, write)");
        text.push_str(&format!("    {call};\n}}\n"));
        text.replace("FAULT_WORD", "nullptr")
    }

    /// Returns the extents of arrays that numbers of the row, and those of the column, are compared with: where all rows and columns are below
    /// them, which is asked once for many elements, comparisons of the row and the column themselves are left out by the compiler.
    fn edges(&mut self) -> [Vec<String>; 2] {
        let function = self.function;
        let mut edges: [Vec<String>; 2] = Default::default();
        for (_, expr) in function.exprs.iter() {
            let ExprKind::Binary { op: BinOp::Lt, left, right } = expr.kind else { continue };
            let ExprKind::Extent(memory, axis) = function.exprs[right].kind else { continue };
            let Space::Global { param, .. } = function.memories[memory].space else { continue };
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

    /// Whether each array is written by one statement, and its elements are numbers: then what an element leaves can be written later.
    fn is_plain(&self, left: &[MemId]) -> bool {
        let is_one = |id: &MemId| left.iter().filter(|other| *other == id).count() == 1;
        let is_number = |id: &MemId| {
            let leaves = self.function.memories[*id].layout.leaves.as_slice();
            self.memories[id.index()].element.fields.is_none() && matches!(leaves, [Leaf { ty: Ty::Scalar(_), .. }])
        };
        left.iter().all(|id| is_one(id) && is_number(id))
    }

    /// Returns the type of what an element leaves, and the function that writes what four of them left.
    fn left_of_elements(&self, left: &[MemId]) -> (String, String) {
        let mut members = String::new();
        let mut writes = String::new();
        for id in left {
            let Array { name, element, .. } = &self.memories[id.index()];
            members.push_str(&format!(" tensor_cores::Later<{}> {name};", element.ty));
            let four = [0, 1, 2, 3].map(|k| format!("left[{k}].{name}")).join(", ");
            writes.push_str(&format!("        tensor_cores::write({name}, count, {four});\n"));
        }
        let start =
            "    const auto write = [&](const Left (&left)[4], const int count) __attribute__((always_inline)) {\n";
        (format!("    struct Left {{{members} }};\n"), format!("{start}{writes}    }};\n"))
    }
}

/// Whether an expression without loads depends on an index.
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
