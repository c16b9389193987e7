//! Prints tile statements, for `clk emit --stage tiles`.
//!
//! The syntax is similar to TileIR's: `@a[64 from k, at 0i32]` is a window of the array `a`. Values are written as in
//! DeviceIR, with their operands nested inside.

use super::kernel::LoweredKernel;
use super::tile_expr::{AxisRange, TileAxisIndex, TileElementOp, TileExpr, TileNode, TileWindow, shape_text};
use super::tile_stmt::{TileReductionOp, TileStmt};
use clk_base::source::Span;
use clk_ir::def::{ExprId, MemId, Module};
use clk_ir::text::{print_memory, print_value};
use clk_scalar::builtin::Builtin;
use clk_scalar::ops::UnaryOp;

/// Returns the text and the location of each tile statement of a kernel.
pub(super) fn statements(lowered: &LoweredKernel) -> Vec<(Span, String)> {
    let printer = TileStmtPrinter { module: &lowered.module };
    lowered.regions.iter().filter_map(|region| printer.stmt(region.stmt()?)).collect()
}

struct TileStmtPrinter<'m> {
    module: &'m Module,
}

impl TileStmtPrinter<'_> {
    fn stmt(&self, stmt: &TileStmt) -> Option<(Span, String)> {
        Some(match stmt {
            TileStmt::Declare(_) | TileStmt::Uniform { .. } => return None,
            TileStmt::Assign { to, op, value, .. } => {
                let op = op.map_or("", |op| op.symbol());
                (to.span, format!("{} {op}= {}", self.tile(to), self.tile(value)))
            }
            TileStmt::Reduce { to, of, axis, fold } => {
                let fold = match fold {
                    TileReductionOp::Operator(op) => op.symbol(),
                    TileReductionOp::Math(function) => Builtin::Math(*function).name(),
                };
                let text = format!("{} = reduce {} by {fold} along {axis}", self.memory(to.memory), self.tile(of));
                (of.span, text)
            }
            TileStmt::Product { to, acc, a, b } => {
                let [acc_text, a, b] = [acc, a, b].map(|tile| self.tile(tile));
                (acc.span, format!("{} = {acc_text} + {a} * {b}", self.memory(to.memory)))
            }
        })
    }

    fn tile(&self, tile: &TileExpr) -> String {
        match &tile.node {
            TileNode::Same(value) => self.value(*value),
            TileNode::Count => format!("arange({})", tile.shape.first().copied().unwrap_or(0)),
            TileNode::Part(part) => self.window(part, &tile.shape),
            TileNode::Transposed(of) => format!("transpose({})", self.tile(of)),
            TileNode::Reshaped(of) => format!("reshape({}, {})", self.tile(of), shape_text(&tile.shape)),
            TileNode::Each(op, parts) => {
                let parts: Vec<String> = parts.iter().map(|part| self.tile(part)).collect();
                let call = |name: &str| format!("{name}({})", parts.join(", "));
                match op {
                    TileElementOp::Unary(UnaryOp::Neg) => call("neg"),
                    TileElementOp::Unary(UnaryOp::Not) => call("not"),
                    TileElementOp::Binary(op) => format!("({})", parts.join(&format!(" {} ", op.symbol()))),
                    TileElementOp::Convert(to) => call(&to.to_string()),
                    TileElementOp::Builtin(builtin) => call(builtin.name()),
                    TileElementOp::Call(function, _) => call(&self.module.functions[*function].name),
                }
            }
        }
    }

    fn window(&self, part: &TileWindow, shape: &[u32]) -> String {
        if part.is_whole() {
            return self.memory(part.memory);
        }
        let mut extents = shape.iter();
        let axes = part.axes.iter().map(|axis| match axis {
            TileAxisIndex::At(index) => format!("at {}", self.value(*index)),
            TileAxisIndex::From(AxisRange { start, step, end }) => {
                let mut text = extents.next().map_or_else(String::new, u32::to_string);
                text += &start.map_or_else(String::new, |start| format!(" from {}", self.value(start)));
                text += &if *step == 1 { String::new() } else { format!(" step {step}") };
                text += &end.map_or_else(String::new, |end| format!(" below {}", self.value(end)));
                text
            }
        });
        let axes: Vec<String> = axes.collect();
        format!("{}[{}]", self.memory(part.memory), axes.join(", "))
    }

    fn value(&self, id: ExprId) -> String {
        print_value(self.module, id)
    }

    fn memory(&self, id: MemId) -> String {
        print_memory(self.module, id)
    }
}
