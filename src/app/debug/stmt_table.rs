//! Maps statements of DeviceIR to statements of the program's source.
//!
//! Input: the typed program and a module lowered from it. Output: for each DeviceIR statement, the source statement
//! that it implements, and whether it is the first DeviceIR statement of that source statement. Breakpoints and steps
//! stop at these first statements. Spans of source statements are nested, so a DeviceIR statement belongs to the
//! innermost source statement that contains its span.

use std::collections::HashMap;

use clk_base::source::{FileId, SourceMap, Span};
use clk_check::typed::{self, Body, LocalId, LocalKind, Pattern, Program, StmtKind, Type};
use clk_check::visit;
use clk_ir::def::{Block, Function, Module, Stmt, StmtKind as Ir};

/// A variable and its scope.
#[derive(Clone, Debug)]
pub(crate) struct ScopedName {
    pub name: String,
    /// The span of its definition; DeviceIR locals and memories for the variable have the same span.
    pub span: Span,
    pub ty: Type,
    /// Byte range of the scope in the file.
    pub scope: (u32, u32),
    /// Whether the variable is a parameter, a dimension, or an index of `threads(…)`.
    pub is_given: bool,
}

/// The statements, variables, kernels and functions in the source of a program.
#[derive(Debug, Default)]
pub(crate) struct ProgramSource {
    /// The spans of all statements, sorted by file, start and decreasing length. Statement numbers are indices of this
    /// list.
    places: Vec<Span>,
    names: Vec<ScopedName>,
    /// Kernels and functions with a body: the span of the item, the span of its name, and the name.
    items: Vec<(Span, Span, String)>,
}

impl ProgramSource {
    pub fn of(program: &Program) -> ProgramSource {
        let mut source = ProgramSource::default();
        for (_, kernel) in program.kernels.iter() {
            source.item(kernel.body.as_deref(), kernel.span, kernel.name_span, &kernel.name, &kernel.sig);
        }
        for (_, function) in program.fns.iter() {
            source.item(function.body.as_deref(), function.span, function.name_span, &function.name, &function.sig);
        }
        source.places.sort_by_key(|span| (span.file, span.start, std::cmp::Reverse(span.end)));
        source.places.dedup();
        source
    }

    fn item(&mut self, body: Option<&Body>, span: Span, name_span: Span, name: &str, sig: &typed::Signature) {
        let Some(body) = body else { return };
        self.items.push((span, name_span, name.to_string()));
        let scope = (body.root.span.start, body.root.span.end);
        for dim in &sig.dims {
            let ty = Type::Scalar(clk_scalar::Scalar::I32);
            self.names.push(ScopedName { name: dim.name.to_string(), span: dim.span, ty, scope, is_given: true });
        }
        for (id, local) in body.locals.iter() {
            if matches!(local.kind, LocalKind::Param(_) | LocalKind::ThreadIndex) {
                self.name(body, id, scope, true);
            }
        }
        visit::blocks(&body.root, &mut |block| self.block(body, block));
    }

    /// Adds the statements directly in a block.
    fn block(&mut self, body: &Body, block: &typed::Block) {
        for stmt in &block.stmts {
            self.places.push(stmt.span);
            let rest = (stmt.span.end, block.span.end);
            match &stmt.kind {
                StmtKind::Let { pattern, .. } => self.pattern(body, pattern, rest),
                StmtKind::LocalArray { local, .. } | StmtKind::Shared { local, .. } => {
                    self.name(body, *local, rest, false)
                }
                StmtKind::For { var, body: inner, .. } => {
                    self.name(body, *var, (inner.span.start, inner.span.end), false);
                }
                _ => {}
            }
        }
        self.places.extend(block.tail.iter().map(|tail| tail.span));
    }

    fn pattern(&mut self, body: &Body, pattern: &Pattern, scope: (u32, u32)) {
        match pattern {
            Pattern::Local(id) => self.name(body, *id, scope, false),
            Pattern::Tuple(parts) => parts.iter().for_each(|part| self.pattern(body, part, scope)),
            Pattern::Global(_) | Pattern::Discard => {}
        }
    }

    fn name(&mut self, body: &Body, id: LocalId, scope: (u32, u32), is_given: bool) {
        let Some(local) = body.locals.get(id) else { return };
        let (name, span, ty) = (local.name.to_string(), local.span, local.ty.clone());
        self.names.push(ScopedName { name, span, ty, scope, is_given });
    }

    /// Returns the number of the innermost statement that contains a span.
    pub fn innermost(&self, span: Span) -> Option<u32> {
        let before = self.places.partition_point(|p| (p.file, p.start) <= (span.file, span.start));
        let holds = |place: &Span| place.file == span.file && place.start <= span.start && span.end <= place.end;
        self.places[..before].iter().rposition(holds).map(|at| at as u32)
    }

    pub fn place(&self, place: u32) -> Span {
        self.places.get(place as usize).copied().unwrap_or_default()
    }

    /// Returns the statements that begin on a line. If there are none, uses the next line that has statements. Also
    /// returns the number of the line used.
    pub fn on_line(&self, sources: &SourceMap, file: FileId, line: usize) -> Option<(usize, Vec<u32>)> {
        let mut nearest: Option<(usize, Vec<u32>)> = None;
        // Statements of a translation are on lines of the file from which it was generated.
        let places = self.places.iter().map(|place| sources.original(*place));
        for (at, place) in places.enumerate().filter(|(_, place)| place.file == file) {
            let begins = sources.line_column(place).0;
            if begins < line || nearest.as_ref().is_some_and(|(best, _)| *best < begins) {
                continue;
            }
            match &mut nearest {
                Some((best, places)) if *best == begins => places.push(at as u32),
                _ => nearest = Some((begins, vec![at as u32])),
            }
        }
        nearest
    }

    /// Returns the variables visible at the start of a statement, innermost scope last.
    pub fn visible(&self, at: Span) -> Vec<&ScopedName> {
        let Some((item, ..)) = self.items.iter().find(|(item, ..)| item.file == at.file && item.contains(at.start))
        else {
            return vec![];
        };
        let in_item = |name: &&ScopedName| name.span.file == at.file && item.contains(name.span.start);
        // Parameters, dimensions and indices are visible in the kernel's header as well.
        let is_visible = |name: &&ScopedName| {
            name.is_given || name.scope.0 <= at.start && at.start < name.scope.1.max(name.scope.0 + 1)
        };
        let mut names: Vec<&ScopedName> = vec![];
        for name in self.names.iter().filter(in_item).filter(is_visible) {
            if let Some(outer) = names.iter().position(|other| other.name == name.name) {
                let width = |name: &ScopedName| name.scope.1 - name.scope.0;
                if width(names[outer]) < width(name) {
                    continue;
                }
                names.remove(outer);
            }
            names.push(name);
        }
        names
    }

    /// Returns the names of all kernels and functions.
    pub fn item_names(&self) -> Vec<&str> {
        self.items.iter().map(|(.., name)| name.as_str()).collect()
    }

    /// Returns the source name of a function of a DeviceIR module.
    pub fn name_of<'a>(&'a self, function: &'a Function) -> &'a str {
        self.item_of(function).map_or(&function.name, |(.., name)| name)
    }

    fn item_of(&self, function: &Function) -> Option<&(Span, Span, String)> {
        self.items.iter().find(|(item, name, _)| *name == function.span || *item == function.span)
    }

    /// Returns the span of the last byte of a function's source.
    pub fn end(&self, function: &Function) -> Option<Span> {
        let (item, ..) = self.item_of(function)?;
        Some(Span { start: item.end.saturating_sub(1), ..*item })
    }
}

/// How a DeviceIR statement relates to the source statement that it implements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StmtPart {
    pub place: u32,
    /// Whether it is the first DeviceIR statement of the source statement.
    pub begins: bool,
}

/// Maps the DeviceIR statements of a module to source statements.
#[derive(Debug, Default)]
pub(crate) struct StmtTable {
    /// Keyed by the addresses of the statements, which do not change while the module exists.
    parts: HashMap<usize, StmtPart>,
}

impl StmtTable {
    pub fn of(source: &ProgramSource, module: &Module) -> StmtTable {
        let mut table = StmtTable::default();
        for (_, function) in module.functions.iter() {
            table.block(source, &function.body, None);
        }
        table
    }

    /// Adds the statements of a block. `before` is the source statement executed just before the block. If the block
    /// continues that statement, its first DeviceIR statement is not a new stop.
    fn block(&mut self, source: &ProgramSource, block: &Block, before: Option<u32>) {
        let mut last = before;
        for stmt in block {
            let place = source.innermost(stmt.span);
            // The condition of a `while` loop is a separate stop in each iteration, so the loop statement itself is not
            // a stop.
            let loops = |body: &Block| body.first().and_then(|first| source.innermost(first.span)) == place;
            let begins = match &stmt.kind {
                Ir::Loop { body, .. } => !loops(body),
                _ => true,
            };
            if let Some(place) = place {
                self.parts.insert(
                    std::ptr::from_ref(stmt) as usize,
                    StmtPart { place, begins: begins && last != Some(place) },
                );
                last = Some(place);
            }
            match &stmt.kind {
                Ir::If { then, other, .. } => {
                    self.block(source, then, place);
                    self.block(source, other, place);
                }
                Ir::For { body, .. } | Ir::Block { body, .. } => self.block(source, body, place),
                Ir::Loop { body, .. } => self.block(source, body, None),
                _ => {}
            }
        }
    }

    pub fn part(&self, stmt: &Stmt) -> Option<StmtPart> {
        self.parts.get(&(std::ptr::from_ref(stmt) as usize)).copied()
    }

    /// Returns whether the module implements any of these source statements.
    pub fn contains_any(&self, places: &[u32]) -> bool {
        self.parts.values().any(|part| places.contains(&part.place))
    }
}
