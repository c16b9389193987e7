//! Prints DeviceIR as Clk source, which the front end and lowering have to turn into a program with the same meaning.
//!
//! Not everything can be expressed: jumps only target the innermost loop, and there are no vectors of `bool`.

use std::fmt::Write;

use clk_ir::def::*;
use clk_runtime::LaunchExtents;
use clk_scalar::builtin::Builtin;
use clk_scalar::ops::UnaryOp;
use clk_scalar::{Scalar, ScalarValue};

use crate::generate::{Argument, Program};

/// Prints the program's kernel `k`, its functions and structs; `None` if it cannot be expressed in source.
pub fn text(program: &Program) -> Option<String> {
    let mut structs = vec![];
    let mut items = String::new();
    for (id, function) in program.module.functions.iter() {
        let mut printer =
            Printer { program, function, structs: &mut structs, out: String::new(), depth: 1, inner: vec![] };
        items.push_str(&printer.constants()?);
        items.push_str(&if id == program.module.kernel.body { printer.kernel()? } else { printer.function()? });
    }
    let declared = structs.iter().enumerate().map(|(i, layout)| declaration(&format!("S{i}"), layout));
    Some(declared.collect::<String>() + &items)
}

/// Prints a struct, after the structs that it contains.
fn declaration(name: &str, layout: &ElementLayout) -> String {
    let (mut before, mut fields) = (String::new(), vec![]);
    let mut leaves = layout.leaves.as_slice();
    while let [leaf, rest @ ..] = leaves {
        let Some((field, _)) = leaf.path.split_once('.') else {
            fields.push(format!("{}: {}", leaf.path, leaf.ty));
            leaves = rest;
            continue;
        };
        let inside = |l: &&Leaf| l.path.split_once('.').is_some_and(|(f, _)| f == field);
        let count = leaves.iter().take_while(inside).count();
        let inner = leaves[..count].iter().map(|l| (l.path[field.len() + 1..].to_string(), l.ty));
        before += &declaration(&format!("{name}_{field}"), &ElementLayout::from_leaves(inner));
        fields.push(format!("{field}: {name}_{field}"));
        leaves = &leaves[count..];
    }
    format!("{before}struct {name} {{ {} }}\n", fields.join(", "))
}

/// Prints a struct value from the values of its scalar and vector fields.
fn record(name: &str, layout: &ElementLayout, values: &[String]) -> String {
    let mut fields = vec![];
    let (mut leaves, mut values) = (layout.leaves.as_slice(), values);
    while let ([leaf, ..], [value, ..]) = (leaves, values) {
        let mut count = 1;
        match leaf.path.split_once('.') {
            None => fields.push(format!("{}: {value}", leaf.path)),
            Some((field, _)) => {
                let inside = |l: &&Leaf| l.path.split_once('.').is_some_and(|(f, _)| f == field);
                count = leaves.iter().take_while(inside).count();
                let inner = leaves[..count].iter().map(|l| (l.path[field.len() + 1..].to_string(), l.ty));
                let inner = record(&format!("{name}_{field}"), &ElementLayout::from_leaves(inner), &values[..count]);
                fields.push(format!("{field}: {inner}"));
            }
        }
        (leaves, values) = (&leaves[count..], &values[count..]);
    }
    format!("{name} {{ {} }}", fields.join(", "))
}

/// Prints the elements of an array in nested brackets, one level per axis.
fn rows(elements: &[String], extents: &[usize]) -> String {
    match extents {
        [] | [_] => format!("[{}]", elements.join(", ")),
        [_, inner @ ..] => {
            let rows = elements.chunks(inner.iter().product::<usize>().max(1));
            format!("[{}]", list(rows.map(|row| self::rows(row, inner))))
        }
    }
}

struct Printer<'p> {
    program: &'p Program,
    function: &'p Function,
    structs: &'p mut Vec<ElementLayout>,
    out: String,
    depth: usize,
    /// Labels of the open loops, innermost last.
    inner: Vec<Label>,
}

fn list(items: impl IntoIterator<Item = String>) -> String {
    items.into_iter().collect::<Vec<_>>().join(", ")
}

fn type_name(ty: Ty) -> Option<String> {
    (!matches!(ty, Ty::Vector(Scalar::Bool, _))).then(|| ty.to_string())
}

fn constant(value: ScalarValue) -> String {
    let raw = |unsigned: Scalar| format!("bitcast({}, 0x{:x}{unsigned})", value.ty, value.bits);
    let sized = |value: ScalarValue| match value.ty.size() {
        1 => raw(Scalar::U8),
        2 => raw(Scalar::U16),
        4 => raw(Scalar::U32),
        _ => raw(Scalar::U64),
    };
    match value.as_integer() {
        _ if value.ty == Scalar::Bool => value.is_true().to_string(),
        Some(integer) if integer >= 0 => format!("{integer}{}", value.ty),
        Some(_) if value.bits == 1 << (value.ty.bits() - 1) => sized(value),
        Some(integer) => format!("({integer}{})", value.ty),
        None if !value.as_f64().is_finite() || value.ty.size() == 2 => sized(value),
        None if value.as_f64().is_sign_negative() => format!("({value}{})", value.ty),
        None => format!("{value}{}", value.ty),
    }
}

impl Printer<'_> {
    fn line(&mut self, text: &str) {
        let _ = writeln!(self.out, "{:indent$}{text}", "", indent = self.depth * 4);
    }

    fn element(&mut self, layout: &ElementLayout) -> Option<String> {
        match layout.leaves.as_slice() {
            [leaf] if leaf.path.is_empty() => type_name(leaf.ty),
            _ => {
                let position = self.structs.iter().position(|s| s == layout);
                let number = position.unwrap_or(self.structs.len());
                if position.is_none() {
                    self.structs.push(layout.clone());
                }
                Some(format!("S{number}"))
            }
        }
    }

    /// Prints the function's constant arrays, as items.
    fn constants(&mut self) -> Option<String> {
        let mut text = String::new();
        let function = self.function;
        for (id, memory) in function.memories.iter().filter(|(_, m)| m.space == MemorySpace::Constant) {
            let known_extent = |extent: &Extent| if let Extent::Known(n) = extent { Some(*n as usize) } else { None };
            let extents = memory.extents.iter().map(known_extent).collect::<Option<Vec<_>>>()?;
            let element = self.element(&memory.layout)?;
            let mut values = memory.values.iter();
            let mut elements = vec![];
            for _ in 0..extents.iter().product() {
                let mut leaves = vec![];
                for ty in memory.layout.leaves.iter().map(|leaf| leaf.ty) {
                    let lanes = values.by_ref().take(ty.lanes() as usize);
                    let lanes = list(lanes.map(|&bits| constant(ScalarValue { ty: ty.scalar(), bits })));
                    leaves.push(if ty.lanes() == 1 { lanes } else { format!("{}({lanes})", type_name(ty)?) });
                }
                elements.push(match &memory.layout.leaves[..] {
                    [leaf] if leaf.path.is_empty() => leaves.concat(),
                    _ => record(&element, &memory.layout, &leaves),
                });
            }
            let shape = list(extents.iter().map(usize::to_string));
            let rows = rows(&elements, &extents);
            let _ = writeln!(text, "const {}: [{element}; {shape}] = {rows}", self.memory(id));
        }
        Some(text)
    }

    fn kernel(&mut self) -> Option<String> {
        let kernel = &self.program.module.kernel;
        let mut params = vec![];
        for (param, argument) in kernel.params.iter().zip(&self.program.arguments) {
            params.push(match (param, argument) {
                (KernelParam::Value { name, ty }, _) => format!("{name}: {}", type_name(*ty)?),
                (KernelParam::Array { access, memory, .. }, Argument::Array { layout, shape, .. }) => {
                    let access = match access {
                        Access::In => "",
                        // In source, writing a component of an element also reads the element, so such a parameter must
                        // be `inout`.
                        Access::Out if matches!(&layout.leaves[..], [leaf] if leaf.path.is_empty() && leaf.ty.lanes() == 1) => {
                            "out "
                        }
                        Access::Out | Access::InOut => "inout ",
                    };
                    let shape = list(shape.iter().map(u32::to_string));
                    format!("{access}{}: [{}; {shape}]", self.memory(*memory), self.element(layout)?)
                }
                _ => return None,
            });
        }
        let geometry = match self.program.extents {
            LaunchExtents::Threads(n) => {
                let LaunchForm::Threads { rank } = kernel.form else { return None };
                format!("threads({})", list((0..rank as usize).map(|k| format!("i{k}: {}", n[k]))))
            }
            LaunchExtents::Grid { grid, block } => {
                format!("grid({}) block({})", list(grid.map(|n| n.to_string())), list(block.map(|n| n.to_string())))
            }
        };
        self.body()?;
        Some(format!("kernel k({}) {geometry} {{\n{}}}\n", params.join(", "), self.out))
    }

    fn function(&mut self) -> Option<String> {
        let mut params = vec![];
        for (i, ty) in self.function.params.iter().enumerate() {
            params.push(format!("p{i}: {}", type_name(*ty)?));
        }
        for (id, memory) in self.function.memories.iter() {
            if let MemorySpace::Param { .. } = memory.space {
                params.push(format!("{}: [{}; D{}]", self.memory(id), self.element(&memory.layout)?, id.index()));
            }
        }
        let results = self.function.results.iter().map(|&ty| type_name(ty)).collect::<Option<Vec<_>>>()?;
        let results = if let [one] = &results[..] { one.clone() } else { format!("({})", results.join(", ")) };
        self.body()?;
        let (name, params) = (&self.function.name, params.join(", "));
        Some(format!("fn {name}({params}) -> {results} {{\n{}}}\n", self.out))
    }

    fn body(&mut self) -> Option<()> {
        for (id, local) in self.function.locals.iter() {
            let zero = constant(ScalarValue::zero(local.ty.scalar()));
            let ty = type_name(local.ty)?;
            let zero = match local.ty {
                Ty::Scalar(_) => zero,
                Ty::Vector(_, n) => format!("{ty}({})", list(vec![zero; n as usize])),
            };
            if !self.is_loop_variable(id) {
                self.line(&format!("var l{}: {ty} = {zero}", id.index()));
            }
        }
        for (id, memory) in self.function.memories.iter() {
            let word = match memory.space {
                MemorySpace::Shared => "shared",
                MemorySpace::Local => "var",
                MemorySpace::Global { .. } | MemorySpace::Param { .. } | MemorySpace::Constant => continue,
            };
            let element = self.element(&memory.layout)?;
            let extents = memory.extents.iter().map(|extent| match extent {
                Extent::Known(n) => Some(n.to_string()),
                // A dynamic extent is always the size of the block, which source has to state as a number.
                Extent::Dynamic(_) => match self.program.extents {
                    LaunchExtents::Grid { block, .. } => Some(block.iter().product::<u32>().to_string()),
                    LaunchExtents::Threads(_) => None,
                },
                Extent::Launch => None,
            });
            let extents = extents.collect::<Option<Vec<_>>>()?;
            let ty = if extents.is_empty() { element } else { format!("[{element}; {}]", extents.join(", ")) };
            self.line(&format!("{word} {}: {ty}", self.memory(id)));
        }
        self.block(&self.function.body)
    }

    /// Returns an array's name as it appears in faults, or a unique one if several arrays share that name.
    fn memory(&self, id: MemId) -> String {
        let own = &self.function.memories[id].name;
        let is_unique = self.function.memories.iter().filter(|(_, m)| m.name == *own).count() == 1;
        if is_unique { own.clone() } else { format!("m{}", id.index()) }
    }

    fn is_loop_variable(&self, local: LocalId) -> bool {
        let mut is_loop_variable = false;
        clk_ir::visit::each_stmt(&self.function.body, &mut |stmt| {
            is_loop_variable |= matches!(stmt.kind, StmtKind::For { local: own, .. } if own == local);
        });
        is_loop_variable
    }

    fn operand(&self, expr: ExprId) -> Option<String> {
        let axis = |axis: Axis| ["x", "y", "z"][axis as usize];
        let Expr { kind, ty } = &self.function.exprs[expr];
        Some(match kind {
            ExprKind::Const(bits) => constant(ScalarValue { ty: ty.scalar(), bits: *bits }),
            ExprKind::Param(i) if self.function.params.is_empty() => {
                match &self.program.module.kernel.params[*i as usize] {
                    KernelParam::Value { name, .. } | KernelParam::Array { name, .. } => name.clone(),
                }
            }
            ExprKind::Param(i) => format!("p{i}"),
            ExprKind::Id(id, a) => {
                let name = match id {
                    BuiltinIndex::Thread => "thread_idx",
                    BuiltinIndex::Block => "block_idx",
                    BuiltinIndex::BlockDim => "block_dim",
                    BuiltinIndex::GridDim => "grid_dim",
                    BuiltinIndex::Global => "global_idx",
                };
                format!("{name}.{}", axis(*a))
            }
            ExprKind::Index(k) => format!("i{k}"),
            ExprKind::LaneIdx => "lane_idx".into(),
            ExprKind::WarpIdx => "warp_idx".into(),
            ExprKind::Extent(memory, axis) => format!("shape({}, {axis})", self.memory(*memory)),
            _ => format!("e{}", expr.index()),
        })
    }

    fn operands(&self, exprs: &[ExprId]) -> Option<String> {
        Some(exprs.iter().map(|&e| self.operand(e)).collect::<Option<Vec<_>>>()?.join(", "))
    }

    fn place(&self, place: &Place) -> Option<String> {
        let mut text = self.memory(place.memory);
        if !place.indices.is_empty() {
            let _ = write!(text, "[{}]", self.operands(&place.indices)?);
        }
        let leaf = &self.function.memories[place.memory].layout.leaves[place.leaf as usize];
        if !leaf.path.is_empty() {
            let _ = write!(text, ".{}", leaf.path);
        }
        if let Some(lane) = place.component {
            let _ = write!(text, ".{}", ["x", "y", "z", "w"][lane as usize]);
        }
        Some(text)
    }

    fn expression(&self, expr: ExprId) -> Option<String> {
        let Expr { kind, ty } = &self.function.exprs[expr];
        let ty_of = |e: ExprId| self.function.exprs[e].ty;
        Some(match kind {
            ExprKind::Read(local) => format!("l{}", local.index()),
            ExprKind::Load { place, hint } => {
                let text = self.place(place)?;
                match hint {
                    // Cache hints apply to whole elements only.
                    CacheHint::Cached if text.ends_with(']') => format!("cached({text})"),
                    CacheHint::Streaming if text.ends_with(']') => format!("streaming({text})"),
                    _ => text,
                }
            }
            // `-` is only valid for signed types, and a negated literal has to fit its type.
            ExprKind::Unary { op: UnaryOp::Neg, value }
                if ty.scalar().is_unsigned()
                    || ty.scalar().is_int() && matches!(self.function.exprs[*value].kind, ExprKind::Const(_)) =>
            {
                format!("wrapping_neg({})", self.operand(*value)?)
            }
            ExprKind::Unary { op: UnaryOp::Neg, value } => format!("-{}", self.operand(*value)?),
            ExprKind::Unary { op: UnaryOp::Not, value } => format!("!{}", self.operand(*value)?),
            ExprKind::Binary { op, left, right } => {
                let symbol = match (op, ty_of(*left).scalar()) {
                    (BinOp::And, Scalar::Bool) => "&&",
                    (BinOp::Or, Scalar::Bool) => "||",
                    (BinOp::Xor, Scalar::Bool) => "!=",
                    _ => op.operator().symbol(),
                };
                format!("{} {symbol} {}", self.operand(*left)?, self.operand(*right)?)
            }
            ExprKind::Math { function, args } => {
                format!("{}({})", Builtin::Math(*function).name(), self.operands(args)?)
            }
            ExprKind::Select { cond, then, other } => format!("select({})", self.operands(&[*cond, *then, *other])?),
            ExprKind::Convert(value) => format!("{}({})", type_name(*ty)?, self.operand(*value)?),
            ExprKind::Bitcast(value) => format!("bitcast({}, {})", type_name(*ty)?, self.operand(*value)?),
            ExprKind::Compose(parts) => format!("{}({})", type_name(*ty)?, self.operands(parts)?),
            ExprKind::Extract { value, lane } => {
                format!("{}.{}", self.operand(*value)?, ["x", "y", "z", "w"][*lane as usize])
            }
            _ => self.operand(expr)?,
        })
    }

    fn block(&mut self, block: &[Stmt]) -> Option<()> {
        block.iter().try_for_each(|stmt| self.statement(stmt))
    }

    fn nested(&mut self, head: &str, block: &[Stmt], tail: &str) -> Option<()> {
        self.line(&format!("{head} {{"));
        self.depth += 1;
        self.block(block)?;
        if !tail.is_empty() {
            self.line(tail);
        }
        self.depth -= 1;
        self.line("}");
        Some(())
    }

    /// Prints `let e5: i32 = ` before an expression with a result.
    fn result(&mut self, result: Option<ExprId>, text: String) -> Option<()> {
        let target = match result {
            Some(expr) => format!("let e{}: {} = ", expr.index(), type_name(self.function.exprs[expr].ty)?),
            None => String::new(),
        };
        self.line(&format!("{target}{text}"));
        Some(())
    }

    fn innermost(&self, label: Label, word: &str) -> Option<String> {
        (self.inner.last() == Some(&label)).then(|| word.to_string())
    }

    fn loop_(&mut self, label: Label, unroll: Unroll, head: &str, body: &[Stmt], tail: &str) -> Option<()> {
        let hint = match unroll {
            Unroll::Auto => String::new(),
            Unroll::Full => "#unroll ".into(),
            Unroll::By(n) => format!("#unroll({n}) "),
            Unroll::Never => "#nounroll ".into(),
        };
        self.inner.push(label);
        self.nested(&format!("{hint}{head}"), body, tail)?;
        self.inner.pop();
        Some(())
    }

    fn statement(&mut self, stmt: &Stmt) -> Option<()> {
        let text = match &stmt.kind {
            StmtKind::Let(expr) => {
                let text = self.expression(*expr)?;
                return self.result(Some(*expr), text);
            }
            StmtKind::Write { local, value } => format!("l{} = {}", local.index(), self.operand(*value)?),
            StmtKind::Store { place, value, .. } => format!("{} = {}", self.place(place)?, self.operand(*value)?),
            StmtKind::Atomic { op, place, value, compare, result } => {
                let args: Vec<ExprId> = compare.iter().chain([value]).copied().collect();
                let name = Builtin::Atomic(*op).name();
                let text = format!("{name}({}, {})", self.place(place)?, self.operands(&args)?);
                return self.result(*result, text);
            }
            StmtKind::Barrier { kind, value, result } => {
                let args: Vec<ExprId> = value.iter().copied().collect();
                let text = format!("{}({})", Builtin::Barrier(*kind).name(), self.operands(&args)?);
                return self.result(*result, text);
            }
            StmtKind::Warp { op, value, lane, among, result } => {
                let lane = match lane {
                    Some(lane) => format!(", i32({})", self.operand(*lane)?),
                    None => String::new(),
                };
                let among = match among {
                    Some(among) => format!(", among = {}", self.operand(*among)?),
                    None => String::new(),
                };
                let text = format!("{}({}{lane}{among})", Builtin::Warp(*op).name(), self.operand(*value)?);
                return self.result(Some(*result), text);
            }
            StmtKind::Fence(FenceScope::Device) => "fence()".into(),
            StmtKind::Fence(FenceScope::Block) => "fence_block()".into(),
            StmtKind::If { cond, then, other } => {
                self.nested(&format!("if {}", self.operand(*cond)?), then, "")?;
                if other.is_empty() {
                    return Some(());
                }
                return self.nested("else", other, "");
            }
            StmtKind::For { label, local, start, end, step, inclusive, unroll, body, .. } => {
                let dots = if *inclusive { "..=" } else { ".." };
                let (start, end, step) = (self.operand(*start)?, self.operand(*end)?, self.operand(*step)?);
                let head = format!("for l{} in {start}{dots}{end} step {step}", local.index());
                return self.loop_(*label, *unroll, &head, body, "");
            }
            StmtKind::Loop { label, unroll, body } => return self.loop_(*label, *unroll, "loop", body, ""),
            StmtKind::Block { label, body } => return self.loop_(*label, Unroll::Auto, "loop", body, "break"),
            StmtKind::Break(label) => self.innermost(*label, "break")?,
            StmtKind::Continue(label) => self.innermost(*label, "continue")?,
            StmtKind::Return(values) => match &values[..] {
                [] => "return".into(),
                [one] => format!("return {}", self.operand(*one)?),
                many => format!("return ({})", self.operands(many)?),
            },
            StmtKind::Call { function, args, memories, results } => {
                let memories = memories.iter().map(|&m| self.memory(m));
                let args = args.iter().map(|&a| self.operand(a)).collect::<Option<Vec<_>>>()?;
                let name = &self.program.module.functions[*function].name;
                let text = format!("{name}({})", list(args.into_iter().chain(memories)));
                match &results[..] {
                    [one] => return self.result(Some(*one), text),
                    many => format!("let ({}) = {text}", list(many.iter().map(|e| format!("e{}", e.index())))),
                }
            }
            StmtKind::Assert { cond, message } => {
                format!("assert({}, \"{}\")", self.operand(*cond)?, self.message(message)?)
            }
            StmtKind::Print { parts } => format!("print(\"{}\")", self.message(parts)?),
            StmtKind::Declare(_) => return Some(()),
        };
        self.line(&text);
        Some(())
    }

    fn message(&self, parts: &[MessageSegment]) -> Option<String> {
        let part = |part: &MessageSegment| match part {
            MessageSegment::Text(text) => Some(text.replace('\n', "")),
            MessageSegment::Value(expr, spec) if spec.is_empty() => Some(format!("{{{}}}", self.operand(*expr)?)),
            MessageSegment::Value(expr, spec) => Some(format!("{{{}:{spec}}}", self.operand(*expr)?)),
        };
        parts.iter().map(part).collect()
    }
}
