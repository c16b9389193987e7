//! The state of checking one body (or one constant, or one signature): scopes, variables, diagnostics, and the
//! requirements that determine whether the body can run on the host or on devices.

use std::sync::LazyLock;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::divergence::Divergence;
use crate::format_types::Show;
use crate::infer::Vars;
use crate::initialization::{EnclosingLoops, Initialization};
use crate::names::NameRecords;
use crate::scopes::{LocalMeaning, Scopes};
use crate::suggestions;
use crate::typed::*;
use clk_base::arena::Arena;
use clk_base::diag::{Applicability, Diagnostic};
use clk_base::source::Span;
use clk_scalar::Scalar;
use clk_scalar::builtin::{Builtin, BuiltinEntry, TABLE};
use clk_syntax::ast;

/// The kind of body being checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyKind {
    /// A kernel; `threads` is true for the geometry form `threads(…)`.
    Kernel {
        threads: bool,
    },
    Fn,
    /// The statements of a script; variables declared at its top level are globals.
    Script,
    /// A `test` or `bench` section.
    Section,
    Const,
    /// The types and dimensions of a signature.
    Signature,
}

/// The meaning of a name after lookup in all scopes, the module and the prelude.
#[derive(Clone)]
pub(crate) enum ResolvedName {
    Slot(LocalMeaning),
    Item(NameBinding),
    Builtin(&'static BuiltinEntry),
    Type(Type),
}

/// What the checker has found out about a local or global, besides its type.
#[derive(Clone, Debug, Default)]
pub(crate) struct Info {
    pub used: bool,
    /// Whether the variable is assigned after its declaration, or passed to an `out` or `inout` parameter.
    pub assigned: bool,
    /// The value of an immutable integer, if known.
    pub const_value: Option<i64>,
    /// Span of the keyword `let` or `var` that declared it.
    pub keyword: Option<Span>,
    /// The position of the dimension that a thread index is less than.
    pub dim_of_range: Option<u32>,
    /// Whether the value may differ between threads.
    pub varying: bool,
    /// Whether an earlier statement has written it; used for `out` parameters and uninitialized variables.
    pub written: bool,
    /// Whether the variable is declared without a value.
    pub uninitialized: bool,
    /// The span of its initial value, if that is a number without a point or a suffix.
    pub int_literal: Option<Span>,
}

/// The first use of a host-only or device-only operation in a body.
#[derive(Clone, Debug)]
pub(crate) struct SpaceUse {
    pub span: Span,
    pub operation: SmolStr,
}

/// Operations and calls of a body that determine whether it can run on the host or on devices. `execution_space`
/// propagates these requirements through the call graph.
#[derive(Clone, Debug, Default)]
pub(crate) struct SpaceRequirements {
    pub host: Option<SpaceUse>,
    pub device: Option<SpaceUse>,
    /// The first use of a block or warp operation or a thread index, which `threads(…)` kernels must not contain.
    pub block: Option<SpaceUse>,
    pub grid_barrier: bool,
    /// A use of `print`, which is an error in a constant.
    pub print: Option<SpaceUse>,
    pub calls: Vec<(FnId, Span)>,
    /// Functions that are applied elementwise to arrays, which is executed as a kernel, and functions passed to them.
    pub lifts: Vec<(FnId, Span)>,
}

/// The variables that the top-level statements of a script declare, with the spans of their names.
pub(crate) type ScriptNames = FxHashMap<SmolStr, Span>;

/// The names that are in scope in every module: builtins and types.
static PRELUDE: LazyLock<FxHashMap<&'static str, Prelude>> = LazyLock::new(|| {
    let mut map = FxHashMap::default();
    for entry in TABLE {
        map.insert(entry.name, Prelude::Builtin(entry));
    }
    for s in Scalar::ALL {
        map.insert(s.name(), Prelude::Type(Type::Scalar(s)));
        for n in 2..=4u8 {
            if s.is_num() {
                let name: &'static str = Box::leak(format!("{s}x{n}").into_boxed_str());
                map.insert(name, Prelude::Type(Type::Vector(s, n)));
            }
        }
    }
    map.insert("str", Prelude::Type(Type::Str));
    map
});

enum Prelude {
    Builtin(&'static BuiltinEntry),
    Type(Type),
}

pub(crate) fn prelude_names() -> impl Iterator<Item = &'static str> {
    PRELUDE.keys().copied()
}

pub(crate) fn prelude(name: &str) -> Option<ResolvedName> {
    PRELUDE.get(name).map(|p| match p {
        Prelude::Builtin(e) => ResolvedName::Builtin(e),
        Prelude::Type(t) => ResolvedName::Type(t.clone()),
    })
}

/// The items, constants and script variables that the checked code has read so far.
#[derive(Default)]
pub(crate) struct Uses {
    pub items: FxHashSet<SmolStr>,
    /// The compile-time constants of the item.
    pub const_params: FxHashSet<u32>,
    pub has_globals: bool,
}

pub(crate) struct Cx<'a> {
    pub program: &'a Program,
    pub module: &'a Module,
    pub sig: &'a Signature,
    pub home: BodyKind,
    /// All variables that the top-level statements of this file declare.
    pub script_names: Option<&'a ScriptNames>,
    /// The type of values that `return` accepts; `None` outside of functions.
    pub result: Option<Type>,
    /// Where `-> T` can be inserted in a function without a result type: before its body.
    pub missing_result: Option<Span>,
    pub vars: Vars,
    pub locals: Arena<Local>,
    pub info: Vec<Info>,
    /// Globals that this script chunk (the statements of a file or REPL entry) declares. Their ids follow the ids of
    /// the program's globals.
    pub globals: Vec<Global>,
    /// The extents of `shared` and local arrays, from which constant parameters are inferred.
    pub extents: FxHashMap<LocalId, Vec<Expr>>,
    pub global_info: Vec<Info>,
    pub scopes: Scopes,
    /// The names that were recorded, if the program has a table of names.
    pub names_found: Option<Box<NameRecords>>,
    pub diagnostics: Vec<Diagnostic>,
    /// Span of an erroneous node in the finished tree, if there is one.
    pub hole: Option<Span>,
    pub needs: SpaceRequirements,
    pub uses: Uses,
    pub loops: EnclosingLoops,
    pub initialization: Initialization,
    pub divergence: Divergence,
    pub depth: u32,
    /// Number of enclosing `time` and `bench` blocks.
    pub measured: u32,
    /// Nesting depth of tile expressions, which the threads of a block may compute together.
    pub tiles: u32,
}

/// Proof that an error has been reported, so that the program is not executed. Functions return it in place of a value
/// that they could not determine. It can be created only by reporting an error, or from the proof of an earlier report,
/// so no error is dropped silently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ErrorReported(());

impl ErrorReported {
    /// Returns the proof for a use of [`NameBinding::Error`], because the error in its definition has been reported.
    pub fn with_definition() -> Self {
        ErrorReported(())
    }
}

static NO_SIGNATURE: LazyLock<Signature> = LazyLock::new(Signature::default);

impl<'a> Cx<'a> {
    pub fn new(program: &'a Program, module: ModuleId, sig: Option<&'a Signature>, home: BodyKind) -> Cx<'a> {
        let sig = sig.unwrap_or(&NO_SIGNATURE);
        let bounds = sig.generics.iter().map(|g| match g.kind {
            GenericKind::Type { bound } => bound,
            GenericKind::Const { .. } | GenericKind::Fn { .. } => TypeBound::Any,
        });
        let mut cx = Cx {
            program,
            module: &program.modules[module],
            sig,
            home,
            script_names: None,
            result: None,
            missing_result: None,
            vars: Vars::new(bounds.collect()),
            locals: Arena::new(),
            info: Vec::new(),
            globals: Vec::new(),
            extents: FxHashMap::default(),
            global_info: Vec::new(),
            scopes: Scopes::default(),
            names_found: program.names.is_some().then(Box::default),
            diagnostics: Vec::new(),
            hole: None,
            needs: SpaceRequirements::default(),
            uses: Uses::default(),
            loops: EnclosingLoops::default(),
            initialization: Initialization::default(),
            divergence: Divergence::default(),
            depth: 0,
            measured: 0,
            tiles: 0,
        };
        cx.add_signature_names();
        cx
    }

    fn add_signature_names(&mut self) {
        for (i, g) in self.sig.generics.iter().enumerate() {
            let i = i as u32;
            let slot = match g.kind {
                GenericKind::Type { .. } => LocalMeaning::TypeParam(i),
                GenericKind::Const { .. } => LocalMeaning::ConstParam(i),
                GenericKind::Fn { .. } => LocalMeaning::FnParam(i),
            };
            self.scopes.bind(g.name.clone(), slot);
        }
        for (i, d) in self.sig.dims.iter().enumerate() {
            if !self.scopes.contains(&d.name) {
                self.scopes.bind(d.name.clone(), LocalMeaning::Dim(i as u32));
            }
        }
    }

    /// Returns whether the body runs on the host only, regardless of its callers.
    pub fn in_host(&self) -> bool {
        matches!(self.home, BodyKind::Script | BodyKind::Section)
    }

    pub fn in_kernel(&self) -> bool {
        matches!(self.home, BodyKind::Kernel { .. })
    }

    pub fn lookup(&mut self, name: &str) -> Option<ResolvedName> {
        if let Some(slot) = self.scopes.get(name) {
            return Some(ResolvedName::Slot(slot));
        }
        if let Some((name, binding)) = self.module.names.get_key_value(name) {
            if !self.uses.items.contains(name) {
                self.uses.items.insert(name.clone());
            }
            return Some(ResolvedName::Item(*binding));
        }
        prelude(name)
    }

    pub fn global(&self, id: GlobalId) -> Option<&Global> {
        match id.index().checked_sub(self.program.globals.len()) {
            None => self.program.globals.get(id),
            Some(i) => self.globals.get(i),
        }
    }

    pub fn global_info(&mut self, id: GlobalId) -> Option<&mut Info> {
        let i = id.index().checked_sub(self.program.globals.len())?;
        self.global_info.get_mut(i)
    }

    /// Returns the span of the `let` or `var` that declares a variable of the checked text.
    pub fn global_keyword(&self, id: GlobalId) -> Option<Span> {
        let i = id.index().checked_sub(self.program.globals.len())?;
        self.global_info.get(i)?.keyword
    }

    pub fn local_info(&mut self, id: LocalId) -> Option<&mut Info> {
        self.info.get_mut(id.index())
    }

    /// Adds a local and binds its name in the current scope.
    pub fn declare(
        &mut self,
        name: &ast::Name,
        ty: Type,
        mutable: bool,
        kind: LocalKind,
        word: Option<Span>,
    ) -> LocalId {
        let id = self.locals.push(Local { name: name.text.clone(), ty, mutable, kind, span: name.span });
        self.info.push(Info { keyword: word, ..Info::default() });
        let definition = match kind {
            LocalKind::Var => Some(if mutable { DefinitionKind::Var } else { DefinitionKind::Let }),
            LocalKind::Loop => Some(DefinitionKind::Loop),
            LocalKind::Shared => Some(DefinitionKind::Shared),
            // These are recorded with the signature.
            LocalKind::Param(_) | LocalKind::ThreadIndex => None,
        };
        if let Some(definition) = definition {
            self.record_variable(name, definition, NameTarget::Local(name.span));
        }
        if name.text != "_" {
            self.scopes.bind(name.text.clone(), LocalMeaning::Local(id));
        }
        id
    }

    // Diagnostics

    pub fn report(&mut self, diagnostic: Diagnostic) {
        self.diagnostics.push(diagnostic);
    }

    /// Reports an error that leaves an expression or item without a value.
    pub fn report_error(&mut self, error: Diagnostic) -> ErrorReported {
        debug_assert!(error.is_error());
        self.report(error);
        ErrorReported(())
    }

    pub fn failed(&self) -> bool {
        self.diagnostics.iter().any(Diagnostic::is_error)
    }

    pub fn show(&self) -> Show<'_> {
        Show { program: self.program, sig: Some(self.sig), vars: Some(&self.vars) }
    }

    pub fn ty_text(&self, ty: &Type) -> String {
        self.show().ty(ty)
    }

    pub fn bad(&self, span: Span) -> Expr {
        Expr { kind: ExprKind::Error, ty: Type::Error, span }
    }

    // Host and device requirements

    /// Records that an operation requires the host. In a kernel, this is an error. In a function, it determines the
    /// execution space.
    pub fn need_host(&mut self, span: Span, what: &str) -> bool {
        match self.home {
            BodyKind::Kernel { .. } => {
                let d = Diagnostic::error("E0401", format!("{what} belongs to the host and can't run in a kernel"))
                    .at(span, "only scripts, and functions that only scripts call, can do this")
                    .help(suggestions::in_kernels(what));
                self.report(d);
                false
            }
            BodyKind::Fn => {
                self.needs.host.get_or_insert_with(|| SpaceUse { span, operation: what.into() });
                true
            }
            BodyKind::Script | BodyKind::Section => true,
            BodyKind::Const | BodyKind::Signature => {
                let d = Diagnostic::error("E0314", format!("{what} can't be part of a constant"))
                    .at(span, "this is only known when the program runs");
                self.report(d);
                false
            }
        }
    }

    /// Records an operation on whole arrays, which the host or, in a tile expression, all threads of a block perform.
    pub fn need_arrays(&mut self, span: Span, what: &str) -> bool {
        if !self.in_tile() {
            return self.need_host(span, what);
        }
        self.require_convergence(span, what);
        true
    }

    /// Returns whether the checker is in an expression that the threads of a block compute together.
    pub fn in_tile(&self) -> bool {
        self.in_blocks() && self.tiles > 0
    }

    /// Runs `check` on an expression or place that may be a tile, which the threads of a block compute together.
    pub fn as_tile<T>(&mut self, check: impl FnOnce(&mut Self) -> T) -> T {
        self.tiles += 1;
        let checked = check(self);
        self.tiles -= 1;
        checked
    }

    /// Returns whether this is a kernel with the geometry `grid(…) block(…)`; only such kernels have tiles.
    pub fn in_blocks(&self) -> bool {
        matches!(self.home, BodyKind::Kernel { threads: false })
    }

    /// Records a use of `print`, which is an error in a constant.
    pub fn need_print(&mut self, span: Span) {
        match self.home {
            BodyKind::Const | BodyKind::Signature => {
                let d = Diagnostic::error("E0314", "`print` can't be part of a constant")
                    .at(span, "a constant only computes a value");
                self.report(d);
            }
            BodyKind::Fn => {
                self.needs.print.get_or_insert_with(|| SpaceUse { span, operation: "`print`".into() });
            }
            BodyKind::Kernel { .. } | BodyKind::Script | BodyKind::Section => {}
        }
    }

    /// Returns the names of the indices of a kernel with `threads(…)`, in backticks.
    fn thread_index_names(&self) -> Vec<String> {
        let is_index = |local: &&Local| local.kind == LocalKind::ThreadIndex;
        self.locals.iter().map(|(_, local)| local).filter(is_index).map(|local| format!("`{}`", local.name)).collect()
    }

    /// Reports `thread_idx.x` and `global_idx.x` in a kernel with `threads(…)`, whose index has a name. Returns whether
    /// it was reported.
    pub fn coordinate_of_named_index(&mut self, base: &ast::Expr, name: &ast::Name) -> bool {
        let ast::ExprKind::Name(variable) = &crate::build::bare(base).kind else { return false };
        let from_last = match &*name.text {
            "x" => 1,
            "y" => 2,
            "z" => 3,
            _ => return false,
        };
        let is_index = matches!(
            self.lookup(&variable.text),
            Some(ResolvedName::Builtin(entry)) if matches!(entry.builtin, Builtin::ThreadIdx | Builtin::GlobalIdx)
        );
        if !is_index || self.home != (BodyKind::Kernel { threads: true }) {
            return false;
        }
        let names = self.thread_index_names();
        let Some(index) = names.len().checked_sub(from_last).and_then(|at| names.get(at)) else { return false };
        let span = base.span.to(name.span);
        let written = format!("{}.{}", variable.text, name.text);
        let d = Diagnostic::error("E0403", format!("`{written}` has no meaning in a kernel with `threads(…)`"))
            .at(span, "this needs the threads of a block")
            .note("`threads(i: N)` runs the body once for every index and leaves open how threads form blocks.")
            .fix(
                format!("the index of the thread is {index}"),
                span,
                index.trim_matches('`').to_owned(),
                Applicability::MaybeIncorrect,
            );
        self.report(d);
        true
    }

    /// Records that an operation requires a device. `block` is true if it also requires a kernel with blocks of
    /// threads.
    pub fn need_device(&mut self, span: Span, what: &str, block: bool) -> bool {
        match self.home {
            BodyKind::Kernel { threads: true } if block => {
                let d = Diagnostic::error("E0403", format!("{what} has no meaning in a kernel with `threads(…)`"))
                    .at(span, "this needs the threads of a block or warp")
                    .note(
                        "`threads(i: N)` runs the body once for every index and leaves open how threads form blocks.",
                    );
                let grid = "write the geometry as `grid(…) block(…)` instead: `grid(ceil_div(N, 256)) block(256)`";
                let d = match self.thread_index_names() {
                    names if matches!(what, "`thread_idx`" | "`global_idx`") && !names.is_empty() => {
                        let (are, names) =
                            (if names.len() == 1 { "index is" } else { "indices are" }, names.join(", "));
                        d.help(format!("the thread's {are} {names}; or {grid}"))
                    }
                    _ => d.help(grid),
                };
                self.report(d);
                false
            }
            BodyKind::Kernel { .. } => true,
            BodyKind::Fn => {
                self.needs.device.get_or_insert_with(|| SpaceUse { span, operation: what.into() });
                if block {
                    self.needs.block.get_or_insert_with(|| SpaceUse { span, operation: what.into() });
                }
                true
            }
            BodyKind::Script | BodyKind::Section | BodyKind::Const | BodyKind::Signature => {
                let d = Diagnostic::error("E0402", format!("{what} only exists in kernels"))
                    .at(span, "the host runs one thing at a time: there are no threads here")
                    .help("put this into a `kernel`, or into an `fn` that a kernel calls");
                self.report(d);
                false
            }
        }
    }
}
