//! Prints a kernel without calls as Clk source, for `clk emit --stage grad`.
//!
//! Input: a kernel, and its header, which DeviceIR does not contain. Output: source with the same meaning, or `None` if
//! the kernel contains constructs that the language cannot express (jumps out of several loops, vectors of `bool`). A
//! pure expression that is used once is printed inside the expression that uses it.

use std::fmt::Write as _;

use rustc_hash::{FxHashMap, FxHashSet};

use super::derived::{DerivedParamRole, param_of};
use clk_ir::def::*;
use clk_ir::visit::each_stmt;
use clk_scalar::builtin::Builtin;
use clk_scalar::ops::{BinaryOp, UnaryOp};
use clk_scalar::{Scalar, ScalarValue};

/// The parts of a kernel's header, as source text.
pub struct KernelHeader {
    /// The extents and the element type of each parameter of the primal kernel. A by-value parameter has no extents.
    pub params: Vec<(Vec<String>, String)>,
    /// The launch geometry, such as `threads(i: N)`.
    pub geometry: String,
    /// The names of the kernel's indices.
    pub indices: Vec<String>,
    /// The extents of a tape except the first.
    pub threads: Vec<String>,
}

/// Prints a derived kernel as source.
pub fn print(module: &Module, roles: &[DerivedParamRole], head: &KernelHeader) -> Option<String> {
    let f = module.functions.get(module.kernel.body)?;
    let prefix = prefix(module, f, head);
    let mut printer = SourcePrinter {
        module,
        roles,
        f,
        head,
        out: String::new(),
        depth: 1,
        open: vec![],
        prefix,
        uses: count_uses(f),
        inlined: FxHashSet::default(),
    };
    let params = (0..module.kernel.params.len()).map(|i| printer.param(i)).collect::<Option<Vec<_>>>()?;
    printer.declarations()?;
    printer.block(&f.body)?;
    let joined = params.join(", ");
    let one = format!("kernel {}({joined}) {}", module.kernel.name, head.geometry);
    let signature = if one.len() <= 110 {
        one
    } else {
        format!("kernel {}(\n    {},\n)\n    {}", module.kernel.name, params.join(",\n    "), head.geometry)
    };
    Some(format!("{signature} {{\n{}}}\n", printer.out))
}

/// Returns a prefix for the names of expressions, so that the prefix followed by digits is not an existing name.
/// (Printed names of locals contain an underscore.)
fn prefix(module: &Module, f: &Function, head: &KernelHeader) -> &'static str {
    let numbered = |name: &str, prefix: &str| {
        name.strip_prefix(prefix).is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let is_free = |prefix: &&&str| {
        let mut names =
            f.memories.iter().map(|(_, memory)| memory.name.as_str()).chain(module.kernel.params.iter().map(|param| {
                match param {
                    KernelParam::Value { name, .. } | KernelParam::Array { name, .. } => name.as_str(),
                }
            }));
        !names.any(|name| numbered(name, prefix)) && !head.indices.iter().any(|name| numbered(name, prefix))
    };
    ["v", "t", "e", "w", "value", "step"].iter().find(is_free).copied().unwrap_or("of")
}

/// Counts the uses of every expression.
fn count_uses(f: &Function) -> FxHashMap<ExprId, usize> {
    let mut counts: FxHashMap<ExprId, usize> = FxHashMap::default();
    each_stmt(&f.body, &mut |stmt| {
        let mut used = |id| *counts.entry(id).or_default() += 1;
        if let StmtKind::Let(id) = stmt.kind {
            f.exprs[id].kind.operands(&mut used);
        }
        stmt.kind.operands(&mut used);
    });
    counts
}

struct SourcePrinter<'a> {
    module: &'a Module,
    roles: &'a [DerivedParamRole],
    f: &'a Function,
    head: &'a KernelHeader,
    out: String,
    depth: usize,
    /// The name of an expression is this prefix and a number.
    prefix: &'static str,
    /// Labels of the enclosing loops, innermost last.
    open: Vec<Label>,
    uses: FxHashMap<ExprId, usize>,
    /// Expressions that are printed inside the expression that uses them.
    inlined: FxHashSet<ExprId>,
}

/// How tightly the operator of a printed expression binds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Precedence {
    /// Comparisons, logical and bitwise operators: always in parentheses inside another operator.
    Loose,
    Sum,
    Product,
    Prefix,
    Tight,
}

fn precedence_of(op: BinOp) -> Precedence {
    match op {
        BinOp::Add | BinOp::Sub => Precedence::Sum,
        BinOp::Mul | BinOp::Div | BinOp::Rem => Precedence::Product,
        _ => Precedence::Loose,
    }
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
        Some(integer) if value.ty == Scalar::I32 && (0..=i128::from(i32::MAX)).contains(&integer) => {
            integer.to_string()
        }
        Some(integer) if integer >= 0 => format!("{integer}{}", value.ty),
        Some(_) if value.bits == 1 << (value.ty.bits() - 1) => sized(value),
        Some(integer) => format!("({integer}{})", value.ty),
        None if !value.as_f64().is_finite() || value.ty.size() == 2 => sized(value),
        None if value.as_f64().is_sign_negative() => format!("({value}{})", value.ty),
        None => format!("{value}{}", value.ty),
    }
}

/// Returns the position in a block of the only statement that uses an expression; `None` if several statements use it.
fn find_single_user(f: &Function, block: &[Stmt], from: usize, id: ExprId) -> Option<usize> {
    block.iter().enumerate().skip(from).find_map(|(position, stmt)| {
        let mut uses_it = false;
        if let StmtKind::Let(other) = stmt.kind {
            f.exprs[other].kind.operands(|operand| uses_it |= operand == id);
        }
        stmt.kind.operands(|operand| uses_it |= operand == id);
        uses_it.then_some(position)
    })
}

impl SourcePrinter<'_> {
    fn line(&mut self, text: &str) {
        let _ = writeln!(self.out, "{:indent$}{text}", "", indent = self.depth * 4);
    }

    fn param(&self, position: usize) -> Option<String> {
        let original = match self.roles.get(position)? {
            DerivedParamRole::Primal(i) | DerivedParamRole::Tangent(i) | DerivedParamRole::Adjoint(i) => {
                self.head.params.get(*i)
            }
            DerivedParamRole::Extent(_)
            | DerivedParamRole::Sums(_)
            | DerivedParamRole::Tape(_)
            | DerivedParamRole::Counts => None,
        };
        match &self.module.kernel.params[position] {
            KernelParam::Value { name, ty } => Some(format!("{name}: {}", type_name(*ty)?)),
            KernelParam::Array { access, memory, .. } => {
                let access = match access {
                    Access::In => "",
                    Access::Out => "out ",
                    Access::InOut => "inout ",
                };
                let layout = &self.f.memories[*memory].layout;
                let plain = layout.leaves.first().filter(|leaf| leaf.path.is_empty()).map(|leaf| leaf.ty);
                let (extents, element) = match original {
                    Some((extents, element)) if !extents.is_empty() => {
                        let element_type = plain.and_then(type_name).unwrap_or_else(|| element.clone());
                        (extents.join(", "), element_type)
                    }
                    Some(_) => (format!("PARTS{position}"), type_name(plain?)?),
                    None => {
                        let first = self.module.kernel.name.to_uppercase();
                        let scalar = plain?.scalar();
                        let slots = format!("{first}_{}", scalar.name().to_uppercase());
                        let extents: Vec<String> =
                            std::iter::once(slots).chain(self.head.threads.iter().cloned()).collect();
                        (extents.join(", "), type_name(plain?)?)
                    }
                };
                Some(format!("{access}{}: [{element}; {extents}]", self.memory(*memory)))
            }
        }
    }

    fn declarations(&mut self) -> Option<()> {
        let f = self.f;
        let mut counters = FxHashSet::default();
        each_stmt(&f.body, &mut |stmt| {
            if let StmtKind::For { local, .. } = stmt.kind {
                counters.insert(local);
            }
        });
        for (id, memory) in f.memories.iter() {
            let word = match memory.space {
                MemorySpace::Shared => "shared",
                MemorySpace::Local => "var",
                MemorySpace::Global { .. } => continue,
                MemorySpace::Constant | MemorySpace::Param { .. } => return None,
            };
            let [leaf] = &memory.layout.leaves[..] else { return None };
            let extents = memory.extents.iter().map(|extent| match extent {
                Extent::Known(n) => Some(n.to_string()),
                Extent::Dynamic(id) => self.tree(*id).map(|(text, _)| text),
                Extent::Launch => None,
            });
            let (extents, element) = (extents.collect::<Option<Vec<_>>>()?, type_name(leaf.ty)?);
            let ty = if extents.is_empty() { element } else { format!("[{element}; {}]", extents.join(", ")) };
            self.line(&format!("{word} {}: {ty}", self.memory(id)));
        }
        for (id, local) in f.locals.iter().filter(|(id, _)| !counters.contains(id)) {
            let zero = constant(ScalarValue::zero(local.ty.scalar()));
            let zero = if local.ty.lanes() == 1 { zero } else { format!("{}({zero})", type_name(local.ty)?) };
            self.line(&format!("var {} = {zero}", self.local(id)));
        }
        Some(())
    }

    fn local(&self, id: LocalId) -> String {
        let name: String = self.f.locals[id].name.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
        format!("{}_{}", if name.is_empty() { "local" } else { &name }, id.index())
    }

    fn memory(&self, id: MemId) -> String {
        let name = &self.f.memories[id].name;
        let is_unique = self.f.memories.iter().filter(|(_, m)| m.name == *name).count() == 1;
        if is_unique { name.clone() } else { format!("{name}_{}", id.index()) }
    }

    /// Returns the text of an operand: its name, or the expression itself if it is printed at its use.
    fn operand(&self, id: ExprId) -> Option<(String, Precedence)> {
        let kind = &self.f.exprs[id].kind;
        if kind.is_free() || self.inlined.contains(&id) {
            return self.tree(id);
        }
        Some((format!("{}{}", self.prefix, id.index()), Precedence::Tight))
    }

    fn text(&self, id: ExprId) -> Option<String> {
        self.operand(id).map(|(text, _)| text)
    }

    fn parenthesized(&self, id: ExprId, at_least: Precedence) -> Option<String> {
        let (text, precedence) = self.operand(id)?;
        Some(if precedence >= at_least { text } else { format!("({text})") })
    }

    fn list(&self, ids: &[ExprId]) -> Option<String> {
        Some(ids.iter().map(|&id| self.text(id)).collect::<Option<Vec<_>>>()?.join(", "))
    }

    fn place(&self, place: &Place) -> Option<String> {
        let mut text = self.memory(place.memory);
        if !place.indices.is_empty() {
            let _ = write!(text, "[{}]", self.list(&place.indices)?);
        }
        let leaf = &self.f.memories[place.memory].layout.leaves[place.leaf as usize];
        if !leaf.path.is_empty() {
            let _ = write!(text, ".{}", leaf.path);
        }
        if let Some(lane) = place.component {
            let _ = write!(text, ".{}", lane_name(lane));
        }
        Some(text)
    }

    /// Returns the text of the expression that computes a value.
    fn tree(&self, id: ExprId) -> Option<(String, Precedence)> {
        let Expr { kind, ty } = &self.f.exprs[id];
        let tight = |text: String| Some((text, Precedence::Tight));
        type_name(*ty)?;
        match kind {
            ExprKind::Const(bits) => tight(constant(ScalarValue { ty: ty.scalar(), bits: *bits })),
            ExprKind::Param(i) => match self.module.kernel.params.get(*i as usize)? {
                KernelParam::Value { name, .. } | KernelParam::Array { name, .. } => tight(name.clone()),
            },
            ExprKind::Id(id, axis) => {
                let name = match id {
                    BuiltinIndex::Thread => "thread_idx",
                    BuiltinIndex::Block => "block_idx",
                    BuiltinIndex::BlockDim => "block_dim",
                    BuiltinIndex::GridDim => "grid_dim",
                    BuiltinIndex::Global => "global_idx",
                };
                tight(format!("{name}.{}", ["x", "y", "z"][*axis as usize]))
            }
            ExprKind::Index(k) => tight(self.head.indices.get(usize::from(*k))?.clone()),
            ExprKind::LaneIdx => tight("lane_idx".into()),
            ExprKind::WarpIdx => tight("warp_idx".into()),
            ExprKind::Extent(memory, axis) => tight(self.extent(*memory, *axis)),
            ExprKind::Read(local) => tight(self.local(*local)),
            ExprKind::Load { place, .. } => tight(self.place(place)?),
            // The negated literal must be in the range of its type.
            ExprKind::Unary { op: UnaryOp::Neg, value } if ty.scalar().is_int() => {
                tight(format!("wrapping_neg({})", self.text(*value)?))
            }
            ExprKind::Unary { op, value } => {
                let sign = if *op == UnaryOp::Neg { "-" } else { "!" };
                Some((format!("{sign}{}", self.parenthesized(*value, Precedence::Tight)?), Precedence::Prefix))
            }
            ExprKind::Binary { op, left, right } => {
                let symbol = match (op, self.f.exprs[*left].ty.scalar()) {
                    (BinOp::And, Scalar::Bool) => BinaryOp::And.symbol(),
                    (BinOp::Or, Scalar::Bool) => BinaryOp::Or.symbol(),
                    (BinOp::Xor, Scalar::Bool) => BinaryOp::Ne.symbol(),
                    _ => op.operator().symbol(),
                };
                let precedence = precedence_of(*op);
                // Sums and products are left-associative, so only the right operand needs a higher precedence.
                let (first, second) = match precedence {
                    Precedence::Sum => (Precedence::Sum, Precedence::Product),
                    Precedence::Product => (Precedence::Product, Precedence::Prefix),
                    _ => (Precedence::Tight, Precedence::Tight),
                };
                Some((
                    format!("{} {symbol} {}", self.parenthesized(*left, first)?, self.parenthesized(*right, second)?),
                    precedence,
                ))
            }
            ExprKind::Math { function, args } => {
                tight(format!("{}({})", Builtin::Math(*function).name(), self.list(args)?))
            }
            ExprKind::Select { cond, then, other } => tight(format!("select({})", self.list(&[*cond, *then, *other])?)),
            ExprKind::Convert(value) => tight(format!("{}({})", type_name(*ty)?, self.text(*value)?)),
            ExprKind::Bitcast(value) if self.f.exprs[*value].ty == *ty => {
                tight(format!("no_grad({})", self.text(*value)?))
            }
            ExprKind::Bitcast(value) => tight(format!("bitcast({}, {})", type_name(*ty)?, self.text(*value)?)),
            ExprKind::Compose(parts) => tight(format!("{}({})", type_name(*ty)?, self.list(parts)?)),
            ExprKind::Extract { value, lane } => {
                tight(format!("{}.{}", self.parenthesized(*value, Precedence::Tight)?, lane_name(*lane)))
            }
            ExprKind::Result => None,
        }
    }

    fn extent(&self, memory: MemId, axis: u8) -> String {
        let source_name = param_of(self.f, memory).and_then(|param| match self.roles.get(param)? {
            DerivedParamRole::Primal(i) | DerivedParamRole::Tangent(i) | DerivedParamRole::Adjoint(i) => {
                self.head.params.get(*i)?.0.get(usize::from(axis))
            }
            DerivedParamRole::Extent(_)
            | DerivedParamRole::Sums(_)
            | DerivedParamRole::Tape(_)
            | DerivedParamRole::Counts => None,
        });
        match source_name {
            Some(name) if name.chars().all(|c| c.is_alphanumeric() || c == '_') => name.clone(),
            _ => format!("shape({}, {axis})", self.memory(memory)),
        }
    }

    /// Finds the expressions of a block that can be printed inside the expression that uses them.
    fn inline(&mut self, block: &[Stmt]) {
        let f = self.f;
        let mut printed: FxHashMap<ExprId, usize> = FxHashMap::default();
        for (position, stmt) in block.iter().enumerate().rev() {
            let StmtKind::Let(id) = stmt.kind else { continue };
            if self.uses.get(&id) != Some(&1) {
                continue;
            }
            let Some(at) = find_single_user(f, block, position + 1, id) else { continue };
            let at = match block[at].kind {
                StmtKind::Let(other) => printed.get(&other).copied().unwrap_or(at),
                _ => at,
            };
            if self.is_unchanged(&block[position + 1..at], &f.exprs[id].kind) {
                self.inlined.insert(id);
                printed.insert(id, at);
            }
        }
    }

    /// Returns whether an expression has the same value before and after these statements.
    fn is_unchanged(&self, between: &[Stmt], kind: &ExprKind) -> bool {
        let mut same = true;
        match kind {
            ExprKind::Read(local) => each_stmt(between, &mut |stmt| {
                let is_write = matches!(&stmt.kind,
                    StmtKind::Write { local: own, .. } | StmtKind::For { local: own, .. } if own == local);
                same &= !is_write;
            }),
            ExprKind::Load { place, .. } => {
                let constant =
                    matches!(self.f.memories[place.memory].space, MemorySpace::Global { access: Access::In, .. });
                each_stmt(between, &mut |stmt| {
                    same &= constant || matches!(stmt.kind, StmtKind::Let(_) | StmtKind::Write { .. })
                });
            }
            ExprKind::Result => same = false,
            _ => {}
        }
        same
    }

    fn block(&mut self, block: &[Stmt]) -> Option<()> {
        self.inline(block);
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

    fn loop_(&mut self, label: Label, head: &str, body: &[Stmt], tail: &str) -> Option<()> {
        self.open.push(label);
        self.nested(head, body, tail)?;
        self.open.pop();
        Some(())
    }

    fn innermost(&self, label: Label, word: &str) -> Option<String> {
        (self.open.last() == Some(&label)).then(|| word.to_string())
    }

    fn result(&mut self, result: Option<ExprId>, text: &str) -> Option<()> {
        match result {
            Some(id) => {
                type_name(self.f.exprs[id].ty)?;
                self.line(&format!("let {}{} = {text}", self.prefix, id.index()));
            }
            None => self.line(text),
        }
        Some(())
    }

    fn statement(&mut self, stmt: &Stmt) -> Option<()> {
        let text = match &stmt.kind {
            StmtKind::Let(id) if self.inlined.contains(id) || self.f.exprs[*id].kind.is_free() => return Some(()),
            StmtKind::Let(id) => {
                let (text, _) = self.tree(*id)?;
                return self.result(Some(*id), &text);
            }
            StmtKind::Write { local, value } => format!("{} = {}", self.local(*local), self.text(*value)?),
            StmtKind::Store { place, value, .. } => format!("{} = {}", self.place(place)?, self.text(*value)?),
            StmtKind::Atomic { op, place, value, compare, result } => {
                let args: Vec<ExprId> = compare.iter().chain([value]).copied().collect();
                let text = format!("{}({}, {})", Builtin::Atomic(*op).name(), self.place(place)?, self.list(&args)?);
                return self.result(*result, &text);
            }
            StmtKind::Barrier { kind, value, result } => {
                let args: Vec<ExprId> = value.iter().copied().collect();
                let text = format!("{}({})", Builtin::Barrier(*kind).name(), self.list(&args)?);
                return self.result(*result, &text);
            }
            StmtKind::Warp { op, value, lane, among, result } => {
                let lane = lane.map_or(Some(String::new()), |lane| Some(format!(", i32({})", self.text(lane)?)))?;
                let among =
                    among.map_or(Some(String::new()), |mask| Some(format!(", among = {}", self.text(mask)?)))?;
                let text = format!("{}({}{lane}{among})", Builtin::Warp(*op).name(), self.text(*value)?);
                return self.result(Some(*result), &text);
            }
            StmtKind::Fence(FenceScope::Device) => "fence()".into(),
            StmtKind::Fence(FenceScope::Block) => "fence_block()".into(),
            StmtKind::If { cond, then, other } => return self.branches(*cond, then, other),
            StmtKind::For { label, local, start, end, step, inclusive, body, .. } => {
                let dots = if *inclusive { "..=" } else { ".." };
                let (start, end) =
                    (self.parenthesized(*start, Precedence::Sum)?, self.parenthesized(*end, Precedence::Sum)?);
                let step = match self.text(*step)? {
                    one if one == "1" => String::new(),
                    step => format!(" step {step}"),
                };
                let head = format!("for {} in {start}{dots}{end}{step}", self.local(*local));
                return self.loop_(*label, &head, body, "");
            }
            StmtKind::Loop { label, body, .. } => return self.loop_(*label, "loop", body, ""),
            StmtKind::Block { label, body } => return self.loop_(*label, "loop", body, "break"),
            StmtKind::Break(label) => self.innermost(*label, "break")?,
            StmtKind::Continue(label) => self.innermost(*label, "continue")?,
            StmtKind::Return(_) => "return".into(),
            StmtKind::Assert { cond, .. } => format!("assert({})", self.text(*cond)?),
            StmtKind::Print { .. } | StmtKind::Declare(_) => return Some(()),
            StmtKind::Call { .. } => return None,
        };
        self.line(&text);
        Some(())
    }

    fn branches(&mut self, cond: ExprId, then: &[Stmt], other: &[Stmt]) -> Option<()> {
        if then.is_empty() {
            let negated = format!("if !{}", self.parenthesized(cond, Precedence::Tight)?);
            return self.nested(&negated, other, "");
        }
        self.nested(&format!("if {}", self.text(cond)?), then, "")?;
        if other.is_empty() {
            return Some(());
        }
        // Removes the line break after `}`, to print `} else {` on one line.
        self.out.truncate(self.out.trim_end().len());
        self.out.push_str(" else {\n");
        self.depth += 1;
        self.block(other)?;
        self.depth -= 1;
        self.line("}");
        Some(())
    }
}

fn lane_name(lane: u8) -> &'static str {
    ["x", "y", "z", "w"][usize::from(lane) & 3]
}
