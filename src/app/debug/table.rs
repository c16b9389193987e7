//! The statements of a program's source, and which of a kernel's statements belong to each.
//!
//! In: the typed program, and a module that was lowered from it. Out: for a statement of DeviceIR the statement of the source that it is a
//! part of, and whether it begins it: there breakpoints and steps stop. Idea: spans of statements are nested, so a statement of
//! DeviceIR belongs to the innermost one that contains its span.

use std::collections::HashMap;

use crate::base::source::{FileId, Sources, Span};
use crate::check::typed::{self, Body, ExprKind, LocalId, LocalKind, Pattern, Program, StmtKind, Type};
use crate::check::walk;
use crate::ir::def::{Block, Function, Module, Stmt, StmtKind as Ir};

/// A name, and where it is visible.
#[derive(Clone, Debug)]
pub(crate) struct Name {
    pub name: String,
    /// Its definition, the same as of the locals and memories that hold it.
    pub span: Span,
    pub ty: Type,
    /// From here to there in the file.
    pub scope: (u32, u32),
    /// It is a parameter, a dimension, or an index of `threads(…)`.
    pub is_given: bool,
}

/// All functions and kernels of a program.
#[derive(Debug, Default)]
pub(crate) struct Source {
    /// The spans of statements, by file, start and length.
    places: Vec<Span>,
    names: Vec<Name>,
    /// The bodies: the span of the item, of its name, and the name.
    items: Vec<(Span, Span, String)>,
}

impl Source {
    pub fn of(program: &Program) -> Source {
        let mut source = Source::default();
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
            let ty = Type::Scalar(crate::lang::scalar::Scalar::I32);
            self.names.push(Name { name: dim.name.to_string(), span: dim.span, ty, scope, is_given: true });
        }
        for (id, local) in body.locals.iter() {
            if matches!(local.kind, LocalKind::Param(_) | LocalKind::ThreadIndex) {
                self.name(body, id, scope, true);
            }
        }
        self.block(body, &body.root);
        walk::exprs(&body.root, &mut |e| match &e.kind {
            ExprKind::If { then, other, .. } => {
                self.block(body, then);
                other.iter().for_each(|other| self.block(body, other));
            }
            ExprKind::Block(block) | ExprKind::Time(block) => self.block(body, block),
            _ => {}
        });
    }

    /// Adds the statements of a block, and of the loops in it; those in expressions are found by themselves.
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
                    self.block(body, inner);
                }
                StmtKind::While { body: inner, .. } => self.block(body, inner),
                StmtKind::Loop { body: inner } => self.block(body, inner),
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
        self.names.push(Name { name, span, ty, scope, is_given });
    }

    /// Returns the innermost statement that contains a span.
    pub fn innermost(&self, span: Span) -> Option<u32> {
        let before = self.places.partition_point(|p| (p.file, p.start) <= (span.file, span.start));
        let holds = |place: &Span| place.file == span.file && place.start <= span.start && span.end <= place.end;
        self.places[..before].iter().rposition(holds).map(|at| at as u32)
    }

    pub fn place(&self, place: u32) -> Span {
        self.places.get(place as usize).copied().unwrap_or_default()
    }

    /// Returns the statements that begin on a line of a file, or on the next line where some begin, and that line.
    pub fn on_line(&self, sources: &Sources, file: FileId, line: usize) -> Option<(usize, Vec<u32>)> {
        let mut found: Option<(usize, Vec<u32>)> = None;
        for (at, place) in self.places.iter().enumerate().filter(|(_, place)| place.file == file) {
            let begins = sources.line_column(*place).0;
            if begins < line || found.as_ref().is_some_and(|(best, _)| *best < begins) {
                continue;
            }
            match &mut found {
                Some((best, places)) if *best == begins => places.push(at as u32),
                _ => found = Some((begins, vec![at as u32])),
            }
        }
        found
    }

    /// Returns the names that are visible where a statement begins, inner ones last.
    pub fn visible(&self, at: Span) -> Vec<&Name> {
        let Some((item, ..)) = self.items.iter().find(|(item, ..)| item.file == at.file && item.contains(at.start))
        else {
            return vec![];
        };
        let in_item = |name: &&Name| name.span.file == at.file && item.contains(name.span.start);
        // The head of a kernel sees what it gives to the body.
        let is_visible =
            |name: &&Name| name.is_given || name.scope.0 <= at.start && at.start < name.scope.1.max(name.scope.0 + 1);
        let mut found: Vec<&Name> = vec![];
        for name in self.names.iter().filter(in_item).filter(is_visible) {
            if let Some(outer) = found.iter().position(|other| other.name == name.name) {
                let width = |name: &Name| name.scope.1 - name.scope.0;
                if width(found[outer]) < width(name) {
                    continue;
                }
                found.remove(outer);
            }
            found.push(name);
        }
        found
    }

    /// Returns the names of all kernels and functions.
    pub fn item_names(&self) -> Vec<&str> {
        self.items.iter().map(|(.., name)| name.as_str()).collect()
    }

    /// Returns what the source calls a function of a module.
    pub fn name_of<'a>(&'a self, function: &'a Function) -> &'a str {
        self.item_of(function).map_or(&function.name, |(.., name)| name)
    }

    fn item_of(&self, function: &Function) -> Option<&(Span, Span, String)> {
        self.items.iter().find(|(item, name, _)| *name == function.span || *item == function.span)
    }

    /// Returns the last byte of a function of a module.
    pub fn end(&self, function: &Function) -> Option<Span> {
        let (item, ..) = self.item_of(function)?;
        Some(Span { start: item.end.saturating_sub(1), ..*item })
    }
}

/// What a statement of DeviceIR is a part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub place: u32,
    /// It is the first one of the statement of the source.
    pub begins: bool,
}

/// The statements of a module.
#[derive(Debug, Default)]
pub(crate) struct Table {
    /// By their addresses, which are fixed as long as the module is.
    parts: HashMap<usize, Part>,
}

impl Table {
    pub fn of(source: &Source, module: &Module) -> Table {
        let mut table = Table::default();
        for (_, function) in module.functions.iter() {
            table.block(source, &function.body, None);
        }
        table
    }

    /// `before` is the statement of the source that comes before the block's first one without a stop between.
    fn block(&mut self, source: &Source, block: &Block, before: Option<u32>) {
        let mut last = before;
        for stmt in block {
            let place = source.innermost(stmt.span);
            // The condition of `while` begins anew in each turn, and the loop itself is no stop.
            let loops = |body: &Block| body.first().and_then(|first| source.innermost(first.span)) == place;
            let begins = match &stmt.kind {
                Ir::Loop { body, .. } => !loops(body),
                _ => true,
            };
            if let Some(place) = place {
                self.parts
                    .insert(std::ptr::from_ref(stmt) as usize, Part { place, begins: begins && last != Some(place) });
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

    pub fn part(&self, stmt: &Stmt) -> Option<Part> {
        self.parts.get(&(std::ptr::from_ref(stmt) as usize)).copied()
    }

    /// Returns whether the module has one of these statements.
    pub fn has(&self, places: &[u32]) -> bool {
        self.parts.values().any(|part| places.contains(&part.place))
    }
}
