//! Printer of TileIR's text form.

use std::fmt::Write;

use rustc_hash::FxHashMap;

use super::print::{print, quoted_name};
use crate::def::{MmaPrecision, Module};
use crate::tiles::{ArrayShape, ArrayWindow, TileAxis, TileGemmOperand, TileProgram, TileStep, TileTarget, TileVar};

/// Prints a tile program: its steps, then the element kernels to which they refer. Printing never fails, not even for a
/// program that the verifier rejects.
pub fn print_tiles(program: &TileProgram) -> String {
    let mut printer = TilePrinter {
        tiles: names(program.tiles.iter().map(|tile| tile.name.as_str())),
        counters: names(program.counters.iter().map(String::as_str)),
        elements: vec![],
        numbers: FxHashMap::default(),
        depth: 1,
        out: String::new(),
    };
    printer.program(program);
    let TilePrinter { elements, mut out, .. } = printer;
    for (number, text) in elements.iter().enumerate() {
        let _ = writeln!(out, "e{number} {{\n{text}}}");
    }
    out
}

/// Returns the printed names of items, each followed by the item's number if the name is not unique.
fn names<'a>(items: impl Iterator<Item = &'a str> + Clone) -> Vec<String> {
    let mut counts: FxHashMap<&str, usize> = FxHashMap::default();
    items.clone().for_each(|name| *counts.entry(name).or_default() += 1);
    let name = |(number, name): (usize, &str)| {
        let number = if counts[name] > 1 { format!(".{number}") } else { String::new() };
        format!("{}{number}", quoted_name(name))
    };
    items.enumerate().map(name).collect()
}

struct TilePrinter {
    /// The printed names of the tiles and of the loop counters.
    tiles: Vec<String>,
    counters: Vec<String>,
    /// The texts of the element kernels, and their positions. Kernels with the same text are printed once.
    elements: Vec<String>,
    numbers: FxHashMap<String, usize>,
    depth: usize,
    out: String,
}

impl TilePrinter {
    fn line(&mut self, text: &str) {
        let _ = writeln!(self.out, "{:indent$}{text}", "", indent = self.depth * 4);
    }

    fn element(&mut self, module: &Module) -> String {
        let text = print(module);
        let number = match self.numbers.get(&text) {
            Some(number) => *number,
            None => {
                self.elements.push(text.clone());
                self.numbers.insert(text, self.elements.len() - 1);
                self.elements.len() - 1
            }
        };
        format!("e{number}")
    }

    fn tile(&self, tile: usize) -> String {
        format!("${}", self.tiles.get(tile).cloned().unwrap_or_else(|| format!("\"?\".{tile}")))
    }

    fn counter(&self, counter: usize) -> String {
        self.counters.get(counter).cloned().unwrap_or_else(|| format!("\"?\".{counter}"))
    }

    fn program(&mut self, program: &TileProgram) {
        let TileProgram { sums, rows, arrays, tiles, counters, steps } = program;
        let sums = match sums {
            MmaPrecision::TensorCore(cores) => cores.name(),
            MmaPrecision::Sequential => "rounded",
        };
        let _ = writeln!(self.out, "tiles {rows} rows {sums} {{");
        for ArrayShape { param, dims } in arrays {
            let dims: Vec<String> =
                dims.iter().map(|dim| dim.as_deref().map_or_else(|| "_".to_string(), quoted_name)).collect();
            self.line(&format!("array arg{param}[{}]", dims.join(", ")));
        }
        for (number, TileVar { name: _, scalar, columns, is_lhs }) in tiles.iter().enumerate() {
            let columns = columns.map_or_else(String::new, |columns| format!("[{columns}]"));
            let lhs = if *is_lhs { " left" } else { "" };
            self.line(&format!("tile {}: {}{columns}{lhs}", self.tile(number), scalar.name()));
        }
        for counter in 0..counters.len() {
            self.line(&format!("counter {}", self.counter(counter)));
        }
        self.steps(steps);
        self.out.push_str("}\n");
    }

    fn steps(&mut self, steps: &[TileStep]) {
        steps.iter().for_each(|step| self.step(step));
    }

    fn nested(&mut self, steps: &[TileStep]) {
        self.depth += 1;
        self.steps(steps);
        self.depth -= 1;
    }

    fn step(&mut self, step: &TileStep) {
        let text = match step {
            TileStep::Map { to, operands, element } => {
                let operands: Vec<String> = operands.iter().map(|&tile| self.tile(tile)).collect();
                let value = format!("{}({})", self.element(element), operands.join(", "));
                match to {
                    TileTarget::Tile(tile) => format!("{} = {value}", self.tile(*tile)),
                    TileTarget::Array(Some(columns)) => format!("store {value} columns {columns}"),
                    TileTarget::Array(None) => format!("store {value}"),
                }
            }
            TileStep::Reduce { to, of, combine } => {
                format!("{} = reduce {} by {}", self.tile(*to), self.tile(*of), self.element(combine))
            }
            TileStep::Mma { sum, terms, a, b } => {
                let a = match a {
                    TileGemmOperand::Tile(tile) => self.tile(*tile),
                    TileGemmOperand::Window(window) => self.window(window),
                };
                format!("{} += {a} * {} terms {terms}", self.tile(*sum), self.window(b))
            }
            TileStep::Barrier => "barrier".to_string(),
            TileStep::If { cond, then, other } => {
                let cond = self.element(cond);
                self.line(&format!("if {cond} {{"));
                self.nested(then);
                if !other.is_empty() {
                    self.line("} else {");
                    self.nested(other);
                }
                "}".to_string()
            }
            TileStep::Repeat { counter, bounds, step, body } => {
                let [start, end] = [0, 1].map(|k| self.element(&bounds[k]));
                self.line(&format!("for {} = {start} .. {end} step {step} {{", self.counter(*counter)));
                self.nested(body);
                "}".to_string()
            }
        };
        self.line(&text);
    }

    fn window(&mut self, window: &ArrayWindow) -> String {
        let ArrayWindow { param, scalar, transposed, axes, element } = window;
        let mut axis_text = |TileAxis { start, extent, step, is_index }: &TileAxis| {
            if *is_index {
                return format!("at {}", self.element(start));
            }
            let step = if *step == 1 { String::new() } else { format!(" step {step}") };
            format!("{extent} from {}{step}", self.element(start))
        };
        let axes: Vec<String> = axes.iter().map(&mut axis_text).collect();
        let transposed = if *transposed { " transposed" } else { "" };
        format!("arg{param}[{}]{transposed}: {} by {}", axes.join(", "), scalar.name(), self.element(element))
    }
}
