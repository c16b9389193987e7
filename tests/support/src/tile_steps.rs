//! Runs the steps of a tile program sequentially, with each of its kernels on the simulator. The result defines what
//! the steps must compute on any device.

use std::collections::HashMap;
use std::sync::Arc;

use clk_ir::PreparedKernel;
use clk_ir::def::*;
use clk_ir::typing::I32;
use clk_ir::verify::verify;
use clk_runtime::{Arg, Control, Device, Executable, LaunchConfig, LaunchExtents};
use clk_scalar::{Scalar, ScalarValue};
use clk_sim::Simulator;

/// An array with elements of 32 or 16 bits.
#[derive(Clone, Debug, PartialEq)]
pub struct Array {
    pub shape: Vec<u32>,
    pub scalar: Scalar,
    words: Vec<u128>,
}

impl Array {
    pub fn new(shape: &[u32], scalar: Scalar, elements: impl IntoIterator<Item = u32>) -> Array {
        let elements: Vec<u32> = elements.into_iter().collect();
        let bytes: Vec<u8> = elements.iter().flat_map(|e| e.to_le_bytes()[..scalar.size()].to_vec()).collect();
        let mut words = vec![0_u128; bytes.len().div_ceil(16).max(1)];
        bytemuck::cast_slice_mut::<u128, u8>(&mut words)[..bytes.len()].copy_from_slice(&bytes);
        Array { shape: shape.to_vec(), scalar, words }
    }

    pub fn zeros(shape: &[u32], scalar: Scalar) -> Array {
        Array::new(shape, scalar, vec![0; shape.iter().product::<u32>() as usize])
    }

    fn len(&self) -> usize {
        self.shape.iter().product::<u32>() as usize
    }

    pub fn elements(&self) -> Vec<u32> {
        let bytes = &bytemuck::cast_slice::<u128, u8>(&self.words)[..self.len() * self.scalar.size()];
        let wide = |e: &[u8]| e.iter().rev().fold(0, |all, &byte| all << 8 | u32::from(byte));
        bytes.chunks(self.scalar.size()).map(wide).collect()
    }

    pub fn read(&self) -> Arg<'_> {
        let bytes = &bytemuck::cast_slice::<u128, u8>(&self.words)[..self.len() * self.scalar.size()];
        Arg::Read { bytes, shape: self.shape.clone() }
    }

    pub fn write(&mut self) -> Arg<'_> {
        let len = self.len() * self.scalar.size();
        let bytes = &mut bytemuck::cast_slice_mut::<u128, u8>(&mut self.words)[..len];
        Arg::Write { bytes, shape: self.shape.clone() }
    }
}

/// The arguments of a launch: arrays, each with a flag whether it is written.
pub type Arguments = Vec<(Array, bool)>;

pub fn launch_arguments(arguments: &mut Arguments) -> Vec<Arg<'_>> {
    arguments.iter_mut().map(|(array, written)| if *written { array.write() } else { array.read() }).collect()
}

/// Runs a tile program for all blocks of a grid, in order.
pub fn run(tiles: &TileProgram, arguments: &mut Arguments, grid: [u32; 3]) {
    let mut loaded = HashMap::new();
    for z in 0..grid[2] {
        for y in 0..grid[1] {
            for x in 0..grid[0] {
                let no_values = tiles.tiles.iter().map(|_| None).collect();
                let counters = vec![0; tiles.counters.len()];
                Block { tiles, loaded: &mut loaded, at: [x, y, z], counters, held: no_values }
                    .steps(&tiles.steps, arguments);
            }
        }
    }
}

struct Block<'a> {
    tiles: &'a TileProgram,
    loaded: &'a mut HashMap<*const Module, Arc<dyn Executable>>,
    at: [u32; 3],
    counters: Vec<i32>,
    held: Vec<Option<Array>>,
}

impl Block<'_> {
    fn steps(&mut self, steps: &[TileStep], arguments: &mut Arguments) {
        for step in steps {
            match step {
                TileStep::Map { to: TileTarget::Tile(to), operands, element } => {
                    let TileVar { scalar, columns, is_lhs, .. } = self.tiles.tiles[*to];
                    let columns = columns.unwrap_or(1);
                    let operands = self.operands(operands, columns);
                    let result_type = if is_lhs { Scalar::F32 } else { scalar };
                    let result =
                        self.call(element, [self.tiles.rows, columns], &operands, Some(result_type), arguments);
                    let values =
                        result.elements().into_iter().map(|bits| if is_lhs { rounded(bits, scalar) } else { bits });
                    self.held[*to] = Some(Array::new(&[self.tiles.rows, columns], scalar, values));
                }
                TileStep::Map { to: TileTarget::Array(columns), operands, element } => {
                    let columns = columns.unwrap_or(1);
                    let operands = self.operands(operands, columns);
                    self.call(element, [self.tiles.rows, columns], &operands, None, arguments);
                }
                TileStep::Reduce { to, of, combine: fold } => self.fold(*to, *of, fold, arguments),
                TileStep::Mma { sum, terms, a, b } => self.product(*sum, *terms, a, b, arguments),
                TileStep::If { cond, then, other } => {
                    let holds = self.number(cond, arguments) != 0;
                    self.steps(if holds { then } else { other }, arguments);
                }
                TileStep::Barrier => {}
                TileStep::Repeat { counter, bounds, step, body } => {
                    let [start, end] = [0, 1].map(|k| &bounds[k]).map(|bound| self.number(bound, arguments));
                    let mut at = i64::from(start);
                    while at < i64::from(end) {
                        self.counters[*counter] = at as i32;
                        self.steps(body, arguments);
                        at += i64::from(*step);
                    }
                }
            }
        }
    }

    /// Returns the operands of a step as tiles with this many columns. Operands with one value per row are broadcast.
    fn operands(&self, operands: &[usize], columns: u32) -> Vec<Array> {
        let of = |&tile: &usize| {
            let tile_value = self.held[tile].clone().expect("a tile has values before it is read");
            match self.tiles.tiles[tile].columns {
                Some(own) => {
                    assert_eq!(own, columns);
                    tile_value
                }
                None => {
                    let spread = tile_value.elements().into_iter().flat_map(|bits| vec![bits; columns as usize]);
                    Array::new(&[self.tiles.rows, columns], tile_value.scalar, spread)
                }
            }
        };
        operands.iter().map(of).collect()
    }

    fn number(&mut self, module: &Module, arguments: &mut Arguments) -> i32 {
        self.call(module, [1, 1], &[], Some(Scalar::I32), arguments).elements()[0] as i32
    }

    /// Runs a kernel with one thread per element of a tile; returns its results.
    fn call(
        &mut self,
        module: &Module,
        shape: [u32; 2],
        operands: &[Array],
        result_type: Option<Scalar>,
        arguments: &mut Arguments,
    ) -> Array {
        let first = arguments.len() + 3 + self.counters.len();
        let kernel = self.loaded.entry(std::ptr::from_ref(module)).or_insert_with(|| load(module, first)).clone();
        let mut result = Array::zeros(&shape, result_type.unwrap_or(Scalar::I32));
        let mut args = launch_arguments(arguments);
        let number = |n: u32| Arg::Value(vec![ScalarValue { ty: Scalar::I32, bits: n.into() }]);
        args.extend(self.at.map(number));
        args.extend(self.counters.iter().map(|&n| number(n as u32)));
        args.extend(operands.iter().map(Array::read));
        if result_type.is_some() {
            args.push(result.write());
        }
        let extents = LaunchExtents::Threads([shape[0], shape[1], 1]);
        kernel.launch(&LaunchConfig::from(extents).synchronous(), &mut args, &Control::default()).expect("no fault");
        drop(args);
        result
    }

    fn fold(&mut self, to: usize, of: usize, fold: &Module, arguments: &mut Arguments) {
        let mut rest = self.held[of].clone().expect("a tile has values before it is read");
        let (rows, scalar) = (self.tiles.rows, rest.scalar);
        while rest.shape[1] > 1 {
            let (left, elements) = (rest.shape[1], rest.elements());
            let half = left.next_power_of_two() / 2;
            let from = |first: u32, count: u32| {
                let at = |row: u32| (0..count).map(move |column| (row * left + first + column) as usize);
                let column: Vec<u32> = (0..rows).flat_map(at).map(|at| elements[at]).collect();
                Array::new(&[rows, count], scalar, column)
            };
            let (low, high) = (from(0, left - half), from(half, left - half));
            let joined = self.call(fold, [rows, left - half], &[low, high], Some(scalar), arguments).elements();
            let at = |row: u32, column: u32| match column < left - half {
                true => joined[(row * (left - half) + column) as usize],
                false => elements[(row * left + column) as usize],
            };
            let both: Vec<u32> =
                (0..rows).flat_map(|row| (0..half).map(move |c| (row, c))).map(|(r, c)| at(r, c)).collect();
            rest = Array::new(&[rows, half], scalar, both);
        }
        self.held[to] = Some(rest);
    }

    fn product(&mut self, sum: usize, terms: u32, a: &TileGemmOperand, b: &ArrayWindow, arguments: &mut Arguments) {
        let a = match a {
            TileGemmOperand::Tile(tile) => self.held[*tile].clone().expect("an operand has values before it is read"),
            TileGemmOperand::Window(part) => self.part(part, arguments),
        };
        let b = self.part(b, arguments);
        let mut sums = self.held[sum].clone().expect("accumulators have values before they are updated").elements();
        let (columns, left, right) = (b.shape[1], a.elements(), b.elements());
        assert_eq!((a.shape.as_slice(), b.shape[0], terms % 16), ([self.tiles.rows, terms].as_slice(), terms, 0));
        for (at, bits) in sums.iter_mut().enumerate() {
            let (row, column) = (at as u32 / columns, at as u32 % columns);
            let group = if a.scalar == Scalar::F32 { 8 } else { 16 };
            for first in (0..terms).step_by(group as usize) {
                let term = |k: u32| (left[(row * terms + k) as usize], right[(k * columns + column) as usize]);
                *bits = tensor_step(*bits, &(first..first + group).map(term).collect::<Vec<_>>(), a.scalar);
            }
        }
        self.held[sum] = Some(Array::new(&[self.tiles.rows, columns], Scalar::F32, sums));
    }

    /// Returns a window of an array as an operand, with zeros beyond the edge.
    fn part(&mut self, part: &ArrayWindow, arguments: &mut Arguments) -> Array {
        let starts: Vec<i32> = part.axes.iter().map(|axis| self.number(&axis.start, arguments)).collect();
        let array = arguments[part.param as usize].0.clone();
        let elements = array.elements();
        let [rows, columns] = part.extents();
        let at = |down: u32, across: u32| {
            // The position of an element in the window, and its index along each axis, beginning with the last one.
            let (mut position, mut from, mut pitch) = (down * columns + across, 0_i64, 1_i64);
            for (axis, (own, &start)) in part.axes.iter().zip(&starts).enumerate().rev() {
                let index = i64::from(start) + i64::from(position % own.extent * own.step);
                position /= own.extent;
                if !(0..i64::from(array.shape[axis])).contains(&index) {
                    return 0;
                }
                from += index * pitch;
                pitch *= i64::from(array.shape[axis]);
            }
            if part.scalar == Scalar::F32 { to_tf32(elements[from as usize]) } else { elements[from as usize] }
        };
        let (shape, turned) = if part.transposed { ([columns, rows], true) } else { ([rows, columns], false) };
        let coordinates = (0..shape[0]).flat_map(|x| (0..shape[1]).map(move |y| if turned { (y, x) } else { (x, y) }));
        Array::new(&shape, part.scalar, coordinates.map(|(x, y)| at(x, y)).collect::<Vec<_>>())
    }
}

/// Runs the epilogue of a matrix product for all elements of the product.
pub fn run_epilogue(epilogue: &Module, product: &Array, arguments: &mut Arguments) {
    let kernel = load(epilogue, arguments.len());
    let extents = LaunchExtents::Threads([product.shape[0], product.shape[1], 1]);
    let mut args = launch_arguments(arguments);
    args.push(product.read());
    kernel.launch(&LaunchConfig::from(extents).synchronous(), &mut args, &Control::default()).expect("no fault");
}

/// Loads a kernel whose tile elements and result are passed as arrays.
fn load(module: &Module, first: usize) -> Arc<dyn Executable> {
    let mut module = module.clone();
    let function = &mut module.functions[module.kernel.body];
    let mut at = |k: u8| {
        function.spans.push(Default::default());
        function.exprs.push(Expr { kind: ExprKind::Index(k), ty: I32 })
    };
    let at = [at(0), at(1)];
    let mut lets = vec![];
    for param in first..module.kernel.params.len() {
        match module.kernel.params[param].clone() {
            KernelParam::Value { name, ty } => {
                let memory = function.memories.push(Memory {
                    name: name.clone(),
                    space: MemorySpace::Global { param: param as u32, access: Access::In },
                    layout: ElementLayout::plain(ty),
                    extents: vec![Extent::Launch; 2],
                    values: Arc::default(),
                    span: Default::default(),
                });
                module.kernel.params[param] = KernelParam::Array { name, access: Access::In, memory };
                let own = ExprKind::Param(param as u32);
                let ids = function.exprs.iter().filter(|(_, expr)| expr.kind == own).map(|(id, _)| id);
                for id in ids.collect::<Vec<ExprId>>() {
                    let place = Place { memory, indices: at.to_vec(), leaf: 0, component: None };
                    function.exprs[id].kind = ExprKind::Load { place, hint: CacheHint::None };
                    lets.push(Stmt { kind: StmtKind::Let(id), span: Default::default() });
                }
            }
            KernelParam::Array { memory, .. } => {
                function.memories[memory].extents = vec![Extent::Launch; 2];
                stored_at(&mut function.body, memory, at);
            }
        }
    }
    lets.append(&mut function.body);
    function.body = lets;
    let verified = verify(module).unwrap_or_else(|why| panic!("{why:#?}"));
    Simulator::default().load(Arc::new(PreparedKernel::new(verified, Default::default())), None)
}

fn stored_at(block: &mut [Stmt], result: MemId, at: [ExprId; 2]) {
    for stmt in block {
        match &mut stmt.kind {
            StmtKind::Store { place, .. } if place.memory == result => place.indices = at.to_vec(),
            StmtKind::If { then, other, .. } => {
                [then, other].into_iter().for_each(|block| stored_at(block, result, at))
            }
            StmtKind::For { body, .. } | StmtKind::Loop { body, .. } | StmtKind::Block { body, .. } => {
                stored_at(body, result, at);
            }
            _ => {}
        }
    }
}

/// Returns a number rounded to a 16-bit type, or unchanged for other types.
fn rounded(bits: u32, to: Scalar) -> u32 {
    match to.size() {
        2 => ScalarValue { ty: Scalar::F32, bits: bits.into() }.to_type(to).bits as u32,
        _ => bits,
    }
}

/// Returns a finite `f32` rounded to 10 fraction bits, ties to even.
fn to_tf32(bits: u32) -> u32 {
    (bits + 0xfff + (bits >> 13 & 1)) & !0x1fff
}

/// Adds a group of products to `sum` with the rounding of a tensor core, which docs/tiles.md describes.
fn tensor_step(sum: u32, terms: &[(u32, u32)], format: Scalar) -> u32 {
    let (fraction, width) = match format {
        Scalar::Bf16 => (7, 8),
        Scalar::F32 => (23, 8),
        _ => (10, 5),
    };
    let exponent = |bits: u32, fraction: u32, width: u32| -> Option<i32> {
        let field = bits >> fraction & ((1 << width) - 1);
        let is_zero = bits & ((1 << (fraction + width)) - 1) == 0;
        (!is_zero).then(|| field.max(1) as i32 - ((1 << (width - 1)) - 1))
    };
    let number = |bits: u32| match format {
        Scalar::Bf16 => f64::from(f32::from_bits(bits << 16)),
        Scalar::F32 => f64::from(f32::from_bits(bits)),
        _ => f64::from(f32::from_bits(rounded_up(bits))),
    };
    let of = |&(a, b): &(u32, u32)| Some(exponent(a, fraction, width)? + exponent(b, fraction, width)?);
    let largest = terms.iter().filter_map(of).chain(exponent(sum, 23, 8)).max().unwrap_or(-300).max(-300);
    let grid = 2f64.powi(25 - largest);
    let cut = |x: f64| (x * grid).trunc();
    let all =
        cut(f64::from(f32::from_bits(sum))) + terms.iter().map(|&(a, b)| cut(number(a) * number(b))).sum::<f64>() + 0.0;
    let exact = all / grid;
    let near = exact as f32;
    let bits = near.to_bits();
    if f64::from(near).abs() > exact.abs() { bits - 1 } else { bits }
}

/// Returns the bits of an `f32` that equals an `f16` with the given bits.
fn rounded_up(bits: u32) -> u32 {
    ScalarValue { ty: Scalar::F16, bits: bits.into() }.to_type(Scalar::F32).bits as u32
}
