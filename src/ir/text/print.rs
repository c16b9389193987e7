//! Printer of DeviceIR's text form.

use std::fmt::Write;

use half::{bf16, f16};
use rustc_hash::FxHashMap;

use super::{AXES, COMPONENTS, IDS, is_identifier, keyword_of};
use crate::def::*;
use crate::renumber::tree_size;
use clk_base::arena::{Arena, Id};
use clk_base::source::Span;
use clk_scalar::Scalar;
use clk_scalar::builtin::Builtin;
use clk_scalar::ops::UnaryOp;

/// Prints a module without spans, for people to read.
pub fn print(module: &Module) -> String {
    printed(module, false)
}

/// Prints a module with the spans of statements and declarations, as `!file:start-end` at the end of the line.
pub fn print_spans(module: &Module) -> String {
    printed(module, true)
}

/// Prints an expression of a kernel's body, with its operands nested inside.
pub fn print_value(module: &Module, id: ExprId) -> String {
    let function = &module.functions[module.kernel.body];
    if tree_size(function, id).is_none() {
        return format!("%{}", id.index());
    }
    let locals = local_refs(function);
    IrPrinter { module, function, locals, spans: false, depth: 0, out: &mut String::new() }.tree(id)
}

/// Prints the name of an array of a kernel's body.
pub fn print_memory(module: &Module, id: MemId) -> String {
    memory_ref(&module.functions[module.kernel.body], id)
}

fn printed(module: &Module, spans: bool) -> String {
    let mut out = String::new();
    kernel(&mut out, module, spans);
    for (id, function) in module.functions.iter() {
        let locals = local_refs(function);
        let mut printer = IrPrinter { module, function, locals, spans, depth: 1, out: &mut out };
        printer.function(id);
    }
    out
}

fn kernel(out: &mut String, module: &Module, spans: bool) {
    let Kernel { name, body, form, params, cooperative, gemm, tile_program, span } = &module.kernel;
    let function = module.functions.get(*body);
    let params: Vec<String> = params
        .iter()
        .map(|param| match param {
            KernelParam::Value { name, ty } => format!("{}: {}", quoted_name(name), ty),
            KernelParam::Array { name, access, memory } => {
                let memory = function.map_or(format!("@{}", memory.index()), |f| memory_ref(f, *memory));
                format!("{}: {} {memory}", quoted_name(name), access_word(*access))
            }
        })
        .collect();
    let form = match form {
        LaunchForm::Threads { rank } => format!("threads {rank}"),
        LaunchForm::Grid => "grid".to_string(),
    };
    let cooperative = if *cooperative { " cooperative" } else { "" };
    let last = body.index() + 1 == module.functions.len();
    let body = if last { String::new() } else { format!(" body {}", body.index()) };
    let span = if spans { span_text(*span) } else { String::new() };
    if gemm.is_some() {
        out.push_str("// The kernel is a matrix product.\n");
    }
    if tile_program.is_some() {
        out.push_str("// The kernel has a tile program.\n");
    }
    let _ = writeln!(out, "kernel {}({}) {form}{cooperative}{body}{span}", quoted_name(name), params.join(", "));
}

fn access_word(access: Access) -> &'static str {
    match access {
        Access::In => "in",
        Access::Out => "out",
        Access::InOut => "inout",
    }
}

fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

pub(super) fn quoted_name(name: &str) -> String {
    if is_identifier(name) { name.to_string() } else { quoted(name) }
}

fn span_text(span: Span) -> String {
    format!(" !{}:{}-{}", span.file.0, span.start, span.end)
}

/// Returns the name of an item of an arena, followed by the item's number if the name is not unique.
fn reference<T>(arena: &Arena<T>, id: Id<T>, name: impl Fn(&T) -> &str) -> String {
    let Some(item) = arena.get(id) else { return format!("\"?\".{}", id.index()) };
    let own = name(item);
    let shared = arena.iter().filter(|(_, other)| name(other) == own).count() > 1;
    let number = if shared { format!(".{}", id.index()) } else { String::new() };
    format!("{}{number}", quoted_name(own))
}

fn memory_ref(function: &Function, id: MemId) -> String {
    format!("@{}", reference(&function.memories, id, |m| &m.name))
}

/// Returns the names of all locals, each followed by the local's number if the name is not unique.
fn local_refs(function: &Function) -> Vec<String> {
    let mut counts: FxHashMap<&str, usize> = FxHashMap::default();
    function.locals.iter().for_each(|(_, local)| *counts.entry(&local.name).or_default() += 1);
    let name = |(id, local): (LocalId, &Local)| {
        let number = if counts[&*local.name] > 1 { format!(".{}", id.index()) } else { String::new() };
        format!("${}{number}", quoted_name(&local.name))
    };
    function.locals.iter().map(name).collect()
}

/// Returns the text of a constant with its type. Parsing the text returns the same bits.
pub(super) fn constant(bits: u64, scalar: Scalar) -> String {
    let raw = format!("{}#{bits:x}", scalar.name());
    let width = scalar.bits();
    if scalar != Scalar::Bool && width < 64 && bits >> width != 0 {
        return raw;
    }
    let float = |text: String, finite: bool| if finite { format!("{text}{}", scalar.name()) } else { raw.clone() };
    match scalar {
        Scalar::Bool if bits == 0 => "false".to_string(),
        Scalar::Bool if bits == 1 => "true".to_string(),
        Scalar::Bool => raw,
        Scalar::F16 => {
            let x = f16::from_bits(bits as u16).to_f32();
            float(format!("{x:?}"), x.is_finite())
        }
        Scalar::Bf16 => {
            let x = bf16::from_bits(bits as u16).to_f32();
            float(format!("{x:?}"), x.is_finite())
        }
        Scalar::F32 => {
            let x = f32::from_bits(bits as u32);
            float(format!("{x:?}"), x.is_finite())
        }
        Scalar::F64 => {
            let x = f64::from_bits(bits);
            float(format!("{x:?}"), x.is_finite())
        }
        _ if scalar.is_signed() => {
            let value = ((bits << (64 - width)) as i64) >> (64 - width);
            format!("{value}{}", scalar.name())
        }
        _ => format!("{bits}{}", scalar.name()),
    }
}

struct IrPrinter<'a> {
    module: &'a Module,
    function: &'a Function,
    /// The printed names of the locals, by index.
    locals: Vec<String>,
    spans: bool,
    depth: usize,
    out: &'a mut String,
}

impl IrPrinter<'_> {
    fn line(&mut self, text: &str) {
        let _ = writeln!(self.out, "{:indent$}{text}", "", indent = self.depth * 4);
    }

    fn local_ref(&self, id: LocalId) -> String {
        self.locals.get(id.index()).cloned().unwrap_or_else(|| format!("$\"?\".{}", id.index()))
    }

    fn span(&self, span: Span) -> String {
        if self.spans { span_text(span) } else { String::new() }
    }

    fn function(&mut self, id: FunctionId) {
        let function = self.function;
        let tys = |tys: &[Ty]| tys.iter().map(Ty::to_string).collect::<Vec<_>>().join(", ");
        let results =
            if function.results.is_empty() { String::new() } else { format!(" -> {}", tys(&function.results)) };
        let name = reference(&self.module.functions, id, |f| &f.name);
        let span = self.span(function.span);
        let _ = writeln!(self.out, "fn {name}({}){results}{span} {{", tys(&function.params));
        for (id, memory) in function.memories.iter() {
            self.memory(id, memory);
        }
        for (id, local) in function.locals.iter() {
            let text = format!("var {}: {}{}", self.local_ref(id), local.ty, self.span(local.span));
            self.line(&text);
        }
        self.block(&function.body);
        self.out.push_str("}\n");
    }

    fn memory(&mut self, id: MemId, memory: &Memory) {
        let space = match memory.space {
            MemorySpace::Global { param, access } => format!("global {param} {}", access_word(access)),
            MemorySpace::Shared => "shared".to_string(),
            MemorySpace::Local => "local".to_string(),
            MemorySpace::Constant => "constant".to_string(),
            MemorySpace::Param { position, access } => format!("param {position} {}", access_word(access)),
        };
        let extents: Vec<String> = memory.extents.iter().map(|extent| self.extent(extent)).collect();
        let text = format!(
            "{space} {}: {}[{}]{}{}",
            memory_ref(self.function, id),
            layout(&memory.layout),
            extents.join(", "),
            constants(memory),
            self.span(memory.span)
        );
        self.line(&text);
    }

    fn extent(&self, extent: &Extent) -> String {
        match *extent {
            Extent::Known(n) => n.to_string(),
            Extent::Launch => "_".to_string(),
            Extent::Dynamic(id) if tree_size(self.function, id).is_some() => self.tree(id),
            Extent::Dynamic(id) => format!("%{}", id.index()),
        }
    }

    /// Returns the text of an expression without a `Let`, with its operands nested inside.
    fn tree(&self, id: ExprId) -> String {
        match self.function.exprs.get(id) {
            Some(expr) if !expr.kind.is_free() => {
                format!("({}: {})", expr.ty, self.expression(&expr.kind, &|id| self.tree(id)))
            }
            _ => self.operand(id),
        }
    }

    fn operand(&self, id: ExprId) -> String {
        let Some(expr) = self.function.exprs.get(id) else { return format!("%{}", id.index()) };
        match &expr.kind {
            ExprKind::Const(bits) => constant(*bits, expr.ty.scalar()),
            ExprKind::Param(i) => format!("arg{i}"),
            ExprKind::Id(id, axis) => format!("{}.{}", keyword_of(&IDS, id), keyword_of(&AXES, axis)),
            ExprKind::Index(k) => format!("index{k}"),
            ExprKind::LaneIdx => "lane".to_string(),
            ExprKind::WarpIdx => "warp".to_string(),
            ExprKind::Extent(memory, axis) => format!("extent({}, {axis})", memory_ref(self.function, *memory)),
            _ => format!("%{}", id.index()),
        }
    }

    /// Returns the text of a loop's collective operation, which follows the loop's header.
    fn collective(&self, collective: &CollectiveLoop) -> String {
        let name_of = |memory: MemId| memory_ref(self.function, memory);
        match collective {
            CollectiveLoop::Gemm(p) => {
                let sums = match p.precision {
                    usual if usual == MmaPrecision::default() => String::new(),
                    MmaPrecision::TensorCore(cores) => format!(" {cores}"),
                    MmaPrecision::Sequential => " rounded".into(),
                };
                format!(" adds {} = {} * {}{sums}", name_of(p.sum), name_of(p.left), name_of(p.right))
            }
            CollectiveLoop::Copy(copy) => {
                let window_text = |window: &AxisWindow| match window {
                    AxisWindow::Index(index) => format!("at {}", self.operand(*index)),
                    AxisWindow::Range { start, extent, step, end } => {
                        let end = end.map_or_else(String::new, |end| format!(" below {}", self.operand(end)));
                        format!("{extent} from {} step {step}{end}", self.operand(*start))
                    }
                };
                let windows: Vec<String> = copy.axes.iter().map(window_text).collect();
                let transposed = if copy.transposed { " transposed" } else { "" };
                let rounded = if copy.rounded { " rounded" } else { "" };
                format!(
                    " copies {} = {}[{}]{transposed}{rounded}",
                    name_of(copy.to),
                    name_of(copy.from),
                    windows.join(", ")
                )
            }
        }
    }

    fn operands(&self, ids: &[ExprId]) -> String {
        ids.iter().map(|&id| self.operand(id)).collect::<Vec<_>>().join(", ")
    }

    fn place(&self, place: &Place, operand: &dyn Fn(ExprId) -> String) -> String {
        let indices: Vec<String> = place.indices.iter().map(|&i| operand(i)).collect();
        let mut text = format!("{}[{}]", memory_ref(self.function, place.memory), indices.join(", "));
        let leaves = self.function.memories.get(place.memory).map_or(0, |m| m.layout.leaves.len());
        if leaves != 1 || place.leaf != 0 {
            let _ = write!(text, ":{}", place.leaf);
        }
        if let Some(component) = place.component {
            let _ = write!(text, ".{}", COMPONENTS.get(component as usize).unwrap_or(&"?"));
        }
        text
    }

    /// Returns the text on the right side of a `Let`.
    fn expression(&self, kind: &ExprKind, operand: &dyn Fn(ExprId) -> String) -> String {
        let list = |ids: &[ExprId]| ids.iter().map(|&id| operand(id)).collect::<Vec<_>>().join(", ");
        match kind {
            ExprKind::Read(local) => format!("read {}", self.local_ref(*local)),
            ExprKind::Load { place, hint } => format!("load {}{}", self.place(place, operand), hint_text(*hint)),
            ExprKind::Unary { op: UnaryOp::Neg, value } => format!("neg {}", operand(*value)),
            ExprKind::Unary { op: UnaryOp::Not, value } => format!("not {}", operand(*value)),
            ExprKind::Binary { op, left, right } => {
                format!("{} {} {}", operand(*left), op.operator().symbol(), operand(*right))
            }
            ExprKind::Math { function, args } => format!("{}({})", Builtin::Math(*function).name(), list(args)),
            ExprKind::Select { cond, then, other } => {
                format!("select {}, {}, {}", operand(*cond), operand(*then), operand(*other))
            }
            ExprKind::Convert(value) => format!("convert {}", operand(*value)),
            ExprKind::Bitcast(value) => format!("bitcast {}", operand(*value)),
            ExprKind::Compose(parts) => format!("compose {}", list(parts)),
            ExprKind::Extract { value, lane } => format!("extract {}, {lane}", operand(*value)),
            ExprKind::Result => "result".to_string(),
            ExprKind::Const(_)
            | ExprKind::Param(_)
            | ExprKind::Id(..)
            | ExprKind::Index(_)
            | ExprKind::LaneIdx
            | ExprKind::WarpIdx
            | ExprKind::Extent(..) => "free".to_string(),
        }
    }

    fn block(&mut self, block: &Block) {
        for stmt in block {
            self.stmt(stmt);
        }
    }

    fn nested(&mut self, block: &Block) {
        self.depth += 1;
        self.block(block);
        self.depth -= 1;
    }

    fn stmt(&mut self, stmt: &Stmt) {
        let span = self.span(stmt.span);
        match &stmt.kind {
            StmtKind::If { cond, then, other } => {
                self.line(&format!("if {}{span} {{", self.operand(*cond)));
                self.nested(then);
                if !other.is_empty() {
                    self.line("} else {");
                    self.nested(other);
                }
                self.line("}");
            }
            StmtKind::For { label, local, start, end, step, inclusive, unroll, collective, body } => {
                let dots = if *inclusive { "..=" } else { ".." };
                let collective = collective.as_ref().map_or_else(String::new, |collective| self.collective(collective));
                self.line(&format!(
                    "for '{} {} = {} {dots} {} step {}{}{}{span} {{",
                    label.0,
                    self.local_ref(*local),
                    self.operand(*start),
                    self.operand(*end),
                    self.operand(*step),
                    unroll_text(*unroll),
                    collective
                ));
                self.nested(body);
                self.line("}");
            }
            StmtKind::Loop { label, unroll, body } => {
                self.line(&format!("loop '{}{}{span} {{", label.0, unroll_text(*unroll)));
                self.nested(body);
                self.line("}");
            }
            StmtKind::Block { label, body } => {
                self.line(&format!("block '{}{span} {{", label.0));
                self.nested(body);
                self.line("}");
            }
            kind => {
                let text = self.simple(kind);
                self.line(&format!("{text}{span}"));
            }
        }
    }

    /// Returns the text that assigns a statement's results, such as `%1: f32 = `; empty if there are none.
    fn target(&self, results: &[ExprId]) -> String {
        if results.is_empty() {
            return String::new();
        }
        let one = |&id: &ExprId| {
            let ty = self.function.exprs.get(id).map_or("?".to_string(), |e| e.ty.to_string());
            format!("%{}: {ty}", id.index())
        };
        format!("{} = ", results.iter().map(one).collect::<Vec<_>>().join(", "))
    }

    /// Returns the text of a statement without nested blocks.
    fn simple(&self, kind: &StmtKind) -> String {
        let operand = |id: ExprId| self.operand(id);
        let optional = |id: &Option<ExprId>| id.map_or(String::new(), |id| format!(" {}", self.operand(id)));
        match kind {
            StmtKind::Let(id) => match self.function.exprs.get(*id) {
                Some(expr) if expr.kind.is_free() => format!("let {}", operand(*id)),
                Some(expr) => format!("{}{}", self.target(&[*id]), self.expression(&expr.kind, &operand)),
                None => format!("%{} = ?", id.index()),
            },
            StmtKind::Write { local, value } => format!("{} = {}", self.local_ref(*local), operand(*value)),
            StmtKind::Store { place, value, hint } => {
                format!("store {} = {}{}", self.place(place, &operand), operand(*value), hint_text(*hint))
            }
            StmtKind::Atomic { op, place, value, compare, result } => {
                let compare = compare.map_or(String::new(), |c| format!(" if {}", operand(c)));
                format!(
                    "{}{} {}, {}{compare}",
                    self.target(result.as_slice()),
                    Builtin::Atomic(*op).name(),
                    self.place(place, &operand),
                    operand(*value)
                )
            }
            StmtKind::Barrier { kind, value, result } => {
                format!("{}{}{}", self.target(result.as_slice()), Builtin::Barrier(*kind).name(), optional(value))
            }
            StmtKind::Warp { op, value, lane, among, result } => {
                let lane = lane.map_or(String::new(), |l| format!(", {}", operand(l)));
                let among = among.map_or(String::new(), |m| format!(" among {}", operand(m)));
                format!("{}{} {}{lane}{among}", self.target(&[*result]), Builtin::Warp(*op).name(), operand(*value))
            }
            StmtKind::Fence(FenceScope::Device) => "fence".to_string(),
            StmtKind::Fence(FenceScope::Block) => "fence_block".to_string(),
            StmtKind::Break(label) => format!("break '{}", label.0),
            StmtKind::Continue(label) => format!("continue '{}", label.0),
            StmtKind::Return(values) if values.is_empty() => "return".to_string(),
            StmtKind::Return(values) => format!("return {}", self.operands(values)),
            StmtKind::Call { function, args, memories, results } => {
                let memories: Vec<String> = memories.iter().map(|&m| memory_ref(self.function, m)).collect();
                let memories = if memories.is_empty() { String::new() } else { format!("; {}", memories.join(", ")) };
                let callee = reference(&self.module.functions, *function, |f| &f.name);
                format!("{}call {callee}({}{memories})", self.target(results), self.operands(args))
            }
            StmtKind::Assert { cond, message } => format!("assert {}{}", operand(*cond), self.parts(message, ", ")),
            StmtKind::Print { parts } => format!("print{}", self.parts(parts, " ")),
            StmtKind::Declare(memory) => format!("declare {}", memory_ref(self.function, *memory)),
            StmtKind::If { .. } | StmtKind::For { .. } | StmtKind::Loop { .. } | StmtKind::Block { .. } => {
                String::new()
            }
        }
    }

    fn parts(&self, parts: &[MessageSegment], lead: &str) -> String {
        let one = |part: &MessageSegment| match part {
            MessageSegment::Text(text) => quoted(text),
            MessageSegment::Value(value, format) if format.is_empty() => self.operand(*value),
            MessageSegment::Value(value, format) => format!("{} {}", self.operand(*value), quoted(format)),
        };
        let parts: Vec<String> = parts.iter().map(one).collect();
        if parts.is_empty() { String::new() } else { format!("{lead}{}", parts.join(", ")) }
    }
}

/// Returns the contents of an array of constants as text: ` = 1i32, 2i32`.
fn constants(memory: &Memory) -> String {
    if memory.space != MemorySpace::Constant {
        return String::new();
    }
    let lanes = |leaf: &Leaf| (0..leaf.ty.lanes()).map(|_| leaf.ty.scalar()).collect::<Vec<_>>();
    let scalars: Vec<Scalar> = memory.layout.leaves.iter().flat_map(lanes).collect();
    let values = memory.values.iter().zip(scalars.iter().cycle());
    format!(" = {}", values.map(|(&bits, &scalar)| constant(bits, scalar)).collect::<Vec<_>>().join(", "))
}

fn layout(layout: &ElementLayout) -> String {
    if let [leaf] = layout.leaves.as_slice()
        && *layout == ElementLayout::plain(leaf.ty)
    {
        return leaf.ty.to_string();
    }
    let leaf = |leaf: &Leaf| format!("{}: {} at {}", quoted_name(&leaf.path), leaf.ty, leaf.offset);
    let leaves: Vec<String> = layout.leaves.iter().map(leaf).collect();
    format!("{{{}; size {}; align {}}}", leaves.join(", "), layout.size, layout.align)
}

fn hint_text(hint: CacheHint) -> &'static str {
    match hint {
        CacheHint::None => "",
        CacheHint::Cached => " cached",
        CacheHint::Streaming => " streaming",
    }
}

fn unroll_text(unroll: Unroll) -> String {
    match unroll {
        Unroll::Auto => String::new(),
        Unroll::Full => " unroll".to_string(),
        Unroll::By(n) => format!(" unroll {n}"),
        Unroll::Never => " nounroll".to_string(),
    }
}
