//! Random kernels in DeviceIR with their launches, generated from a seed.
//!
//! The kernels are well typed, terminate, and have a unique result. Threads reach barriers in uniform control flow, and
//! communicate only by writing their own elements before a barrier and reading others after it. They use atomics only
//! if the order does not matter, and read only initialized memory. Some programs have one statement that may fault.
//!
//! Programs of [`program`] do not observe the bits of NaNs, since GPUs compute NaNs with other bits. Programs of
//! [`checked_program`] observe them. Most of their operations have operands for which checks report nothing, so that
//! some of the programs run to their end.

mod body;
mod expr;
pub mod keep;
mod permute;
mod random;

use clk_base::arena::Arena;
use clk_base::source::{FileId, Span};
use clk_ir::build::{self, FunctionBuilder};
use clk_ir::def::*;
use clk_runtime::{Arg, LaunchExtents};
use clk_scalar::{Scalar, ScalarValue};

use random::Random;

#[derive(Clone)]
pub struct Program {
    pub seed: u64,
    pub module: Module,
    pub extents: LaunchExtents,
    pub arguments: Vec<Argument>,
}

#[derive(Clone)]
pub enum Argument {
    Value(Vec<ScalarValue>),
    Array { layout: ElementLayout, shape: Vec<u32>, bytes: Bytes, write: bool },
}

/// Bytes aligned to 16, as devices require.
#[derive(Clone)]
pub struct Bytes {
    words: Vec<u128>,
    len: usize,
}

impl Bytes {
    pub fn zeros(len: usize) -> Bytes {
        Bytes { words: vec![0; len.div_ceil(16)], len }
    }

    pub fn get(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.words)[..self.len]
    }

    pub fn get_mut(&mut self) -> &mut [u8] {
        &mut bytemuck::cast_slice_mut(&mut self.words)[..self.len]
    }
}

/// Converts arguments to the argument type of launches, which borrows the bytes.
pub fn launch_arguments(arguments: &mut [Argument]) -> Vec<Arg<'_>> {
    let launch = |argument| match argument {
        &mut Argument::Value(ref values) => Arg::Value(values.clone()),
        Argument::Array { shape, bytes, write: true, .. } => {
            Arg::Write { bytes: bytes.get_mut(), shape: shape.clone() }
        }
        Argument::Array { shape, bytes, write: false, .. } => Arg::Read { bytes: bytes.get(), shape: shape.clone() },
    };
    arguments.iter_mut().map(launch).collect()
}

/// The kind of control flow at a point of the program.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Flow {
    /// All threads of a block reach this point together.
    Uniform,
    Varying,
}

/// A value that is in scope.
#[derive(Clone, Copy)]
struct ScopedValue {
    expr: ExprId,
    uniform: bool,
}

#[derive(Clone, Copy)]
struct Variable {
    local: LocalId,
    ty: Ty,
    uniform: bool,
}

/// An array that can be read at any element (and written, if it is the thread's own).
#[derive(Clone)]
struct Readable {
    memory: MemId,
    layout: ElementLayout,
    /// The extent of each axis; `None` if it is known only at run time.
    shape: Vec<Option<u32>>,
    own: bool,
}

#[derive(Clone, Copy)]
struct Target {
    label: Label,
    is_loop: bool,
    flow: Flow,
}

/// An array with one element per thread, at the indices in `Generator::place`.
#[derive(Clone)]
struct OwnElement {
    memory: MemId,
    layout: ElementLayout,
    access: Access,
}

/// A function that can be called.
#[derive(Clone)]
struct Callee {
    id: FunctionId,
    params: Vec<Ty>,
    results: Vec<Ty>,
    array: Option<ElementLayout>,
}

/// Generates the kernel of a program, or one of its functions.
struct Generator {
    random: Random,
    b: FunctionBuilder,
    /// The values in scope, as one list per open block.
    known: Vec<Vec<ScopedValue>>,
    variables: Vec<Vec<Variable>>,
    readable: Vec<Vec<Readable>>,
    targets: Vec<Target>,
    flow: Flow,
    /// Number of statements that may still be generated.
    budget: usize,
    /// Whether the kernel is declared with `grid(…) block(…)`, so that barriers, shared memory and warp operations are
    /// available.
    grid: bool,
    /// Whether a function is being generated, and not the kernel's body.
    in_function: bool,
    results: Vec<Ty>,
    /// Whether `return` is allowed. Kernels with grid barriers must not contain `return`, since all threads have to
    /// reach the barriers.
    may_return: bool,
    block: u32,
    /// The indices of the thread's own element in arrays with one element per thread.
    place: Vec<ExprId>,
    /// The indices that the launch assigns to threads, and their extents.
    coordinates: Vec<(ExprId, u32)>,
    own: Vec<OwnElement>,
    counters: Vec<(MemId, Scalar, u32, usize)>,
    callees: Vec<Callee>,
    arguments: Vec<Argument>,
    /// Number of potentially faulting statements still to generate.
    risks: usize,
    /// Whether the program is for runs with all checks.
    checked: bool,
    spans: u32,
}

impl Generator {
    fn new(random: Random, name: &str, spans: u32) -> Generator {
        Generator {
            random,
            b: FunctionBuilder::new(name),
            known: vec![vec![]],
            variables: vec![vec![]],
            readable: vec![vec![]],
            targets: vec![],
            flow: Flow::Varying,
            budget: 0,
            grid: false,
            in_function: true,
            results: vec![],
            may_return: true,
            block: 1,
            place: vec![],
            coordinates: vec![],
            own: vec![],
            counters: vec![],
            callees: vec![],
            arguments: vec![],
            risks: 0,
            checked: false,
            spans,
        }
    }

    /// Gives the statements and expressions that are generated next a unique span.
    fn mark(&mut self) {
        self.spans += 2;
        self.b.set_span(Span::new(FileId(0), self.spans as usize, self.spans as usize + 1));
    }

    fn remember(&mut self, expr: ExprId, uniform: bool) {
        if let Some(scope) = self.known.last_mut() {
            scope.push(ScopedValue { expr, uniform });
        }
    }

    /// Generates a block with `fill`; its declarations go out of scope at the end.
    fn scope(&mut self, flow: Flow, fill: impl FnOnce(&mut Self)) -> Block {
        let outside = std::mem::replace(&mut self.flow, flow);
        self.b.push_block();
        self.known.push(vec![]);
        self.variables.push(vec![]);
        self.readable.push(vec![]);
        fill(self);
        self.readable.pop();
        self.variables.pop();
        self.known.pop();
        self.flow = outside;
        self.b.pop_block()
    }
}

/// Generates the program of a seed.
pub fn program(seed: u64) -> Program {
    generate(seed, false)
}

/// Generates the program of a seed for runs with all checks.
pub fn checked_program(seed: u64) -> Program {
    generate(seed, true)
}

fn generate(seed: u64, checked: bool) -> Program {
    let mut random = Random::new(seed);
    let mut functions = Arena::new();
    let mut callees = vec![];
    let mut spans = 0;
    while random.one_in(3) && callees.len() < 3 {
        let mut g = Generator::new(random, &format!("f{}", callees.len()), spans);
        g.callees = callees.clone();
        g.checked = checked;
        let callee = g.function(&mut functions);
        callees.push(callee);
        (random, spans) = (g.random, g.spans);
    }
    let mut g = Generator::new(random, "k", spans);
    g.callees = callees;
    g.checked = checked;
    g.in_function = false;
    let (form, extents) = g.geometry();
    g.signature(extents);
    g.risks = g.random.one_in(4).into();
    g.budget = if g.threads(extents) > 500 { 4 } else { g.random.between(4, 28) };
    g.kernel_body();
    let Generator { b, arguments, .. } = g;
    Program { seed, module: build::build_module(functions, b, form), extents, arguments }
}

impl Generator {
    fn threads(&self, extents: LaunchExtents) -> u32 {
        match extents {
            LaunchExtents::Threads(n) => n.iter().product(),
            LaunchExtents::Grid { grid, block } => grid.iter().chain(&block).product(),
        }
    }

    fn geometry(&mut self) -> (LaunchForm, LaunchExtents) {
        if self.random.one_in(3) {
            let rank = self.random.between(1, 3);
            let mut extents = [1; 3];
            let most = if self.random.one_in(30) { [3000, 60, 15] } else { [70, 12, 6] }[rank - 1];
            extents[..rank].fill_with(|| self.random.between(1, most) as u32);
            if self.random.one_in(40) {
                extents[0] = 0;
            }
            return (LaunchForm::Threads { rank: rank as u8 }, LaunchExtents::Threads(extents));
        }
        self.grid = true;
        self.flow = Flow::Uniform;
        let block = match self.random.next_below(8) {
            0..=2 => [32, 1, 1],
            3 => [64, 1, 1],
            4 => [16, 4, 1],
            5 => [8, 2, 6],
            6 if self.random.one_in(10) => [self.random.between(100, 1024) as u32, 1, 1],
            6 => [self.random.between(1, 100) as u32, 1, 1],
            _ => [self.random.between(1, 9) as u32, self.random.between(1, 5) as u32, self.random.between(1, 3) as u32],
        };
        let grid = match self.random.next_below(4) {
            0 | 1 => [1, 1, 1],
            2 => [self.random.between(1, 4) as u32, 1, 1],
            _ => [2, self.random.between(1, 2) as u32, self.random.between(1, 2) as u32],
        };
        self.block = block.iter().product();
        (LaunchForm::Grid, LaunchExtents::Grid { grid, block })
    }

    /// Chooses a value. In checked programs every NaN has the bits of a computed NaN, since it is unspecified whether
    /// `x * 1.0` keeps the bits of other NaNs.
    fn value(&mut self, scalar: Scalar) -> ScalarValue {
        let value = self.random.value(scalar);
        if self.checked { value.with_canonical_nan() } else { value }
    }

    fn layout(&mut self) -> ElementLayout {
        if self.random.one_in(3) { self.nested_layout() } else { ElementLayout::plain(self.random.ty()) }
    }

    fn bytes(&mut self, layout: &ElementLayout, shape: &[u32]) -> Bytes {
        let count = shape.iter().product::<u32>() as usize;
        let mut bytes = Bytes::zeros(count * layout.size);
        for element in bytes.get_mut().chunks_mut(layout.size) {
            for leaf in &layout.leaves {
                let size = leaf.ty.scalar().size();
                for lane in 0..leaf.ty.lanes() as usize {
                    let value = self.value(leaf.ty.scalar());
                    element[leaf.offset + lane * size..][..size].copy_from_slice(&value.to_bytes()[..size]);
                }
            }
        }
        bytes
    }

    /// Generates the parameters: values, input arrays, arrays with one element per thread, counters.
    fn signature(&mut self, extents: LaunchExtents) {
        for i in 0..self.random.next_below(4) {
            let ty = self.random.ty();
            let param = self.b.value(format!("v{i}"), ty);
            self.remember(param, true);
            let values = (0..ty.lanes()).map(|_| self.value(ty.scalar())).collect();
            self.arguments.push(Argument::Value(values));
        }
        for i in 0..self.random.next_below(4) {
            let layout = self.layout();
            let shape = self.shape();
            let rank = shape.len();
            let memory = self.b.array(format!("x{i}"), Access::In, layout.clone(), rank);
            let bytes = self.bytes(&layout, &shape);
            self.arguments.push(Argument::Array { layout: layout.clone(), shape: shape.clone(), bytes, write: false });
            self.readable[0].push(Readable {
                memory,
                layout,
                shape: shape.into_iter().map(Some).collect(),
                own: false,
            });
        }
        let shape = self.own_shape(extents);
        for i in 0..self.random.between(1, 4) {
            let layout = self.layout();
            let access = if self.random.one_in(2) { Access::Out } else { Access::InOut };
            let memory = self.b.array(format!("r{i}"), access, layout.clone(), shape.len());
            let bytes = self.bytes(&layout, &shape);
            self.arguments.push(Argument::Array { layout: layout.clone(), shape: shape.clone(), bytes, write: true });
            self.own.push(OwnElement { memory, layout, access });
        }
        for i in 0..self.random.next_below(3) {
            let ((scalar, family), extent) = (self.counter(), self.random.between(1, 5) as u32);
            let memory = self.b.array(format!("c{i}"), Access::InOut, ElementLayout::plain(Ty::Scalar(scalar)), 1);
            let layout = ElementLayout::plain(Ty::Scalar(scalar));
            let mut bytes = self.bytes(&layout, &[extent]);
            if scalar.is_float() {
                // Counters start at zero, since only small integers are summed exactly in any order.
                bytes.get_mut().fill(0);
            }
            self.arguments.push(Argument::Array { layout, shape: vec![extent], bytes, write: true });
            self.counters.push((memory, scalar, extent, family));
        }
    }

    /// Chooses a shape; one axis may be long, so that neighboring threads can read neighboring elements.
    fn shape(&mut self) -> Vec<u32> {
        let rank = self.random.pick(&[1, 1, 2, 2, 3]);
        let mut shape: Vec<u32> = (0..rank).map(|_| self.random.between(1, 10) as u32).collect();
        if self.random.one_in(2) {
            shape[self.random.next_below(rank)] = self.random.between(20, 150) as u32;
        }
        shape
    }

    /// Chooses the shape of arrays with one element per thread, and computes the thread's indices.
    fn own_shape(&mut self, extents: LaunchExtents) -> Vec<u32> {
        if let LaunchExtents::Grid { grid, block } = extents {
            for (i, axis) in [Axis::X, Axis::Y, Axis::Z].into_iter().enumerate() {
                let (thread, global) = (self.b.id(BuiltinIndex::Thread, axis), self.b.id(BuiltinIndex::Global, axis));
                self.coordinates.extend([(thread, block[i]), (global, grid[i] * block[i])]);
            }
        }
        match extents {
            LaunchExtents::Threads(n) => {
                let rank = n.iter().rposition(|&n| n != 1).map_or(1, |i| i + 1);
                self.place = (0..rank as u8).map(|k| self.b.index(k)).collect();
                self.coordinates = self.place.iter().copied().zip(n).collect();
                n[..rank].to_vec()
            }
            LaunchExtents::Grid { grid, block }
                if grid[1..] == [1, 1] && block[1..] == [1, 1] && self.random.one_in(2) =>
            {
                self.place = vec![self.b.id(BuiltinIndex::Global, Axis::X)];
                vec![grid[0] * block[0]]
            }
            LaunchExtents::Grid { grid, block } => {
                self.mark();
                let [bx, by, bz] = [Axis::X, Axis::Y, Axis::Z].map(|axis| self.b.id(BuiltinIndex::Block, axis));
                let (gx, gy) = (self.b.i32(grid[0] as i32), self.b.i32(grid[1] as i32));
                let at_block = self.horner(bz, gy, by, gx, bx);
                let at_thread = self.flat_thread(block);
                self.place = vec![at_block, at_thread];
                vec![grid.iter().product(), block.iter().product()]
            }
        }
    }

    /// Computes `(a * m + b) * n + c`.
    fn horner(&mut self, a: ExprId, m: ExprId, b: ExprId, n: ExprId, c: ExprId) -> ExprId {
        let a = self.b.binary(BinOp::Mul, a, m);
        let a = self.b.binary(BinOp::Add, a, b);
        let a = self.b.binary(BinOp::Mul, a, n);
        self.b.binary(BinOp::Add, a, c)
    }

    fn flat_thread(&mut self, block: [u32; 3]) -> ExprId {
        let [x, y, z] = [Axis::X, Axis::Y, Axis::Z].map(|axis| self.b.id(BuiltinIndex::Thread, axis));
        let (nx, ny) = if self.random.one_in(2) {
            (self.b.i32(block[0] as i32), self.b.i32(block[1] as i32))
        } else {
            (self.b.id(BuiltinIndex::BlockDim, Axis::X), self.b.id(BuiltinIndex::BlockDim, Axis::Y))
        };
        self.horner(z, ny, y, nx, x)
    }

    /// Generates a function that takes values and possibly an array, and returns values.
    fn function(&mut self, functions: &mut Arena<Function>) -> Callee {
        self.mark();
        let params: Vec<Ty> = (0..self.random.next_below(4)).map(|_| self.random.ty()).collect();
        for &ty in &params {
            let param = self.b.param(ty);
            self.remember(param, false);
        }
        self.results = (0..self.random.between(1, 2)).map(|_| self.random.ty()).collect();
        self.b.results(self.results.clone());
        let array = self.random.one_in(3).then(|| self.layout());
        if let Some(layout) = array.clone() {
            let memory = self.b.array_param("a", Access::In, layout.clone(), 1);
            self.readable[0].push(Readable { memory, layout, shape: vec![None], own: false });
        }
        self.budget = self.random.between(1, 8);
        self.statements(0);
        self.finish_function();
        let function = std::mem::replace(&mut self.b, FunctionBuilder::new("")).finish();
        let id = functions.push(function);
        Callee { id, params, results: self.results.clone(), array }
    }
}
