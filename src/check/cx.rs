//! The state of checking one body (or one constant, or one signature): scopes, variables, diagnostics, and the requirements
//! of the body.

use std::sync::LazyLock;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::base::arena::Arena;
use crate::base::diag::{Applicability, Diagnostic, Misspelt};
use crate::base::source::Span;
use crate::check::infer::Vars;
use crate::check::report::MAX_ERRORS;
use crate::check::show::Show;
use crate::check::typed::*;
use crate::check::{foreign, suggest};
use crate::lang::builtin::{Entry, TABLE};
use crate::lang::ops::BinaryOp;
use crate::lang::scalar::Scalar;
use crate::syntax::ast;

/// The kind of body being checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Home {
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

/// The local meaning of a name in a body.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Slot {
    Local(LocalId),
    Global(GlobalId),
    Dim(u32),
    ConstParam(u32),
    FnParam(u32),
    TypeParam(u32),
}

/// The meaning of a name after lookup in all scopes, the module and the prelude.
#[derive(Clone)]
pub(crate) enum Meaning {
    Slot(Slot),
    Item(Binding),
    Builtin(&'static Entry),
    Type(Type),
}

/// Facts about a local or global beyond its type.
#[derive(Clone, Debug, Default)]
pub(crate) struct Info {
    pub used: bool,
    /// Assigned after its declaration, or passed to an `out` or `inout` parameter.
    pub assigned: bool,
    /// The value of an immutable integer, if known.
    pub known: Option<i64>,
    /// Span of the keyword `let` or `var` that declared it.
    pub word: Option<Span>,
    /// The value may differ between threads.
    pub varying: bool,
    /// An `out` parameter or uninitialized variable that an earlier statement has written.
    pub written: bool,
    /// Declared without a value.
    pub unset: bool,
    /// The literal without a point or a suffix that it begins as.
    pub whole: Option<Span>,
}

/// The first use of an operation that is host-only or device-only.
#[derive(Clone, Debug)]
pub(crate) struct Use {
    pub span: Span,
    pub what: SmolStr,
}

/// Requirements of a body on where it can run: input of the propagation over the call graph in `world`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Needs {
    pub host: Option<Use>,
    pub device: Option<Use>,
    /// Block and warp operations and thread indices, which `threads(…)` kernels do not have.
    pub block: Option<Use>,
    pub grid_barrier: bool,
    /// `print`, which constants have not.
    pub print: Option<Use>,
    pub calls: Vec<(FnId, Span)>,
    /// Functions applied elementwise to arrays, which run as kernels, and functions passed to them.
    pub lifts: Vec<(FnId, Span)>,
}

/// A read of an `out` parameter, or of a variable declared without a value, before any write.
pub(crate) struct EarlyRead {
    pub local: LocalId,
    pub span: Span,
    pub outer_loop: Option<u32>,
    /// The operator of the assignment that reads it: `y[i] += 1`.
    pub op: Option<BinaryOp>,
}

/// The variables that the top-level statements of a script declare, with the spans of their names.
pub(crate) type ScriptNames = FxHashMap<SmolStr, Span>;

/// The names that every module has: builtins and types.
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
    Builtin(&'static Entry),
    Type(Type),
}

pub(crate) fn prelude_names() -> impl Iterator<Item = &'static str> {
    PRELUDE.keys().copied()
}

pub(crate) fn prelude(name: &str) -> Option<Meaning> {
    PRELUDE.get(name).map(|p| match p {
        Prelude::Builtin(e) => Meaning::Builtin(e),
        Prelude::Type(t) => Meaning::Type(t.clone()),
    })
}

/// What threads may part at.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fork {
    If,
    While,
    For,
}

/// A condition or range that differs between threads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parting {
    pub at: Span,
    pub of: Fork,
}

pub(crate) struct Cx<'a> {
    pub program: &'a Program,
    pub module: &'a Module,
    pub sig: &'a Signature,
    pub home: Home,
    /// The variables that the top-level statements of this file declare anywhere.
    pub script_names: Option<&'a ScriptNames>,
    /// The type that `return` takes; none outside of functions.
    pub result: Option<Type>,
    pub vars: Vars,
    pub locals: Arena<Local>,
    pub info: Vec<Info>,
    /// Globals that this chunk declares; their ids follow those of the program.
    pub globals: Vec<Global>,
    /// The extents of `shared` and local arrays, from which constant parameters are inferred.
    pub extents: FxHashMap<LocalId, Vec<Expr>>,
    pub global_info: Vec<Info>,
    pub names: FxHashMap<SmolStr, Slot>,
    /// Previous bindings to restore at the end of the open scopes.
    undo: Vec<(SmolStr, Option<Slot>)>,
    scopes: Vec<usize>,
    pub diagnostics: Vec<Diagnostic>,
    /// Span of an erroneous node in the finished tree.
    pub hole: Option<Span>,
    pub needs: Needs,
    pub used_items: FxHashSet<SmolStr>,
    pub uses_globals: bool,
    /// Number of enclosing loops, and a number that identifies the outermost one.
    pub loops: u32,
    pub loop_count: u32,
    /// Whether the innermost enclosing loop has a `break` so far.
    pub broke: bool,
    pub early_reads: Vec<EarlyRead>,
    /// The compile-time constants of the item that were read so far.
    pub consts_read: FxHashSet<u32>,
    pub writes_in_loops: Vec<(LocalId, u32)>,
    /// Number of reads of thread-dependent values so far; comparing it before and after an expression tells whether that varies.
    pub varying_reads: u32,
    /// For each enclosing condition and loop: where threads part, if they may.
    pub divergent: Vec<Option<Parting>>,
    /// Span of an earlier `return` under a thread-dependent condition.
    pub divergent_return: Option<Span>,
    pub depth: u32,
    /// Number of enclosing `time` and `bench` blocks.
    pub measured: u32,
    /// The depth of expressions that the threads of a block may compute together.
    pub tiles: u32,
}

/// Proof that an error has been reported, so that the program does not run. Functions return it in place of a value they
/// could not determine. It can only be created by reporting (or from the result of an earlier report), so no error can be
/// dropped silently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reported(());

impl Reported {
    /// For [`Binding::Error`]: the error in its definition has been reported.
    pub fn with_definition() -> Self {
        Reported(())
    }
}

static NO_SIGNATURE: LazyLock<Signature> = LazyLock::new(Signature::default);

impl<'a> Cx<'a> {
    pub fn new(program: &'a Program, module: ModuleId, sig: Option<&'a Signature>, home: Home) -> Cx<'a> {
        let sig = sig.unwrap_or(&NO_SIGNATURE);
        let bounds = sig.generics.iter().map(|g| match g.kind {
            GenericKind::Type { bound } => bound,
            GenericKind::Const { .. } | GenericKind::Fn { .. } => Bound::Any,
        });
        let mut cx = Cx {
            program,
            module: &program.modules[module],
            sig,
            home,
            script_names: None,
            result: None,
            vars: Vars::new(bounds.collect()),
            locals: Arena::new(),
            info: Vec::new(),
            globals: Vec::new(),
            extents: FxHashMap::default(),
            global_info: Vec::new(),
            names: FxHashMap::default(),
            undo: Vec::new(),
            scopes: Vec::new(),
            diagnostics: Vec::new(),
            hole: None,
            needs: Needs::default(),
            used_items: FxHashSet::default(),
            uses_globals: false,
            loops: 0,
            loop_count: 0,
            broke: false,
            early_reads: Vec::new(),
            consts_read: FxHashSet::default(),
            writes_in_loops: Vec::new(),
            varying_reads: 0,
            divergent: Vec::new(),
            divergent_return: None,
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
                GenericKind::Type { .. } => Slot::TypeParam(i),
                GenericKind::Const { .. } => Slot::ConstParam(i),
                GenericKind::Fn { .. } => Slot::FnParam(i),
            };
            self.names.insert(g.name.clone(), slot);
        }
        for (i, d) in self.sig.dims.iter().enumerate() {
            self.names.entry(d.name.clone()).or_insert(Slot::Dim(i as u32));
        }
    }

    /// Whether the body runs on the host only, regardless of its callers.
    pub fn in_host(&self) -> bool {
        matches!(self.home, Home::Script | Home::Section)
    }

    pub fn in_kernel(&self) -> bool {
        matches!(self.home, Home::Kernel { .. })
    }

    // Scopes

    pub fn open(&mut self) {
        self.scopes.push(self.undo.len());
    }

    pub fn close(&mut self) {
        let start = self.scopes.pop().unwrap_or(0);
        while self.undo.len() > start {
            if let Some((name, old)) = self.undo.pop() {
                match old {
                    Some(slot) => self.names.insert(name, slot),
                    None => self.names.remove(&name),
                };
            }
        }
    }

    /// Whether the current scope is the outermost one.
    pub fn outermost(&self) -> bool {
        self.scopes.is_empty()
    }

    pub fn bind(&mut self, name: SmolStr, slot: Slot) {
        let old = self.names.insert(name.clone(), slot);
        if !self.scopes.is_empty() {
            self.undo.push((name, old));
        }
    }

    /// Whether a name was bound in the innermost open scope (and not further out).
    pub fn bound_here(&self, name: &str) -> bool {
        let start = self.scopes.last().copied().unwrap_or(0);
        self.undo.get(start..).is_some_and(|s| s.iter().any(|(n, _)| n == name))
    }

    pub fn lookup(&mut self, name: &str) -> Option<Meaning> {
        if let Some(slot) = self.names.get(name) {
            return Some(Meaning::Slot(*slot));
        }
        if let Some((name, binding)) = self.module.names.get_key_value(name) {
            if !self.used_items.contains(name) {
                self.used_items.insert(name.clone());
            }
            return Some(Meaning::Item(*binding));
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
        self.info.push(Info { word, ..Info::default() });
        if name.text != "_" {
            self.bind(name.text.clone(), Slot::Local(id));
        }
        id
    }

    // Diagnostics

    pub fn report(&mut self, diagnostic: Diagnostic) {
        self.diagnostics.push(diagnostic);
    }

    /// Reports an error in an expression or item that has no value because of it.
    pub fn refuse(&mut self, error: Diagnostic) -> Reported {
        debug_assert!(error.is_error());
        self.report(error);
        Reported(())
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

    /// Reports an undefined name.
    pub fn unknown_name(&mut self, name: &ast::Name) -> Reported {
        let word = name.text.as_str();
        let later = self.script_names.and_then(|names| names.get(word)).copied();
        if later.is_some() && !self.in_host() {
            return self.script_variable(name);
        }
        let mut d = Diagnostic::error("E0201", format!("nothing here is called `{word}`"))
            .at(name.span, "this name is not defined");
        if let Some(later) = later {
            d = d
                .because(later, "it is declared only here")
                .help("statements run from top to bottom: move one of the two");
        } else {
            // Only the first errors are shown; `check::suggest_names` searches the names of the module for those.
            let shown = self.diagnostics.len() < MAX_ERRORS;
            let own = shown.then(|| suggest::nearest(word, self.names.keys().map(|n| n.as_str()))).flatten();
            let near = own.map(str::to_owned);
            let foreign = foreign::value(word).or_else(|| foreign::type_name(word));
            match foreign.filter(|foreign| !foreign.plain || near.is_none()) {
                Some(foreign) => d = with_foreign(d, name.span, &foreign),
                None => d.misspelt = Some(Box::new(Misspelt { span: name.span, word: word.to_owned(), near })),
            }
        }
        self.refuse(d)
    }

    // Host and device requirements

    /// Records that something requires the host. In a kernel this is an error; in a function it determines the function's world.
    pub fn need_host(&mut self, span: Span, what: &str) -> bool {
        match self.home {
            Home::Kernel { .. } => {
                let d = Diagnostic::error("E0401", format!("{what} belongs to the host and can't run in a kernel"))
                    .at(span, "only scripts, and functions that only scripts call, can do this")
                    .help(suggest::in_kernels(what));
                self.report(d);
                false
            }
            Home::Fn => {
                self.needs.host.get_or_insert_with(|| Use { span, what: what.into() });
                true
            }
            Home::Script | Home::Section => true,
            Home::Const | Home::Signature => {
                let d = Diagnostic::error("E0314", format!("{what} can't be part of a constant"))
                    .at(span, "this is only known when the program runs");
                self.report(d);
                false
            }
        }
    }

    /// Records that something is done with whole arrays: by the host, or by the threads of a block together.
    pub fn need_arrays(&mut self, span: Span, what: &str) -> bool {
        if !self.in_tile() {
            return self.need_host(span, what);
        }
        self.divergence(span, what);
        true
    }

    /// Whether this is in an expression that the threads of a block compute together.
    pub fn in_tile(&self) -> bool {
        self.in_blocks() && self.tiles > 0
    }

    /// Checks what the threads of a block compute together, if they do.
    pub fn as_tile<T>(&mut self, check: impl FnOnce(&mut Self) -> T) -> T {
        self.tiles += 1;
        let checked = check(self);
        self.tiles -= 1;
        checked
    }

    /// Whether this is a kernel whose geometry gives the blocks, which have tiles.
    pub fn in_blocks(&self) -> bool {
        matches!(self.home, Home::Kernel { threads: false })
    }

    /// Notes that something is printed, which a constant does not.
    pub fn need_print(&mut self, span: Span) {
        match self.home {
            Home::Const | Home::Signature => {
                let d = Diagnostic::error("E0314", "`print` can't be part of a constant")
                    .at(span, "a constant has a value, and does nothing else");
                self.report(d);
            }
            Home::Fn => {
                self.needs.print.get_or_insert_with(|| Use { span, what: "`print`".into() });
            }
            Home::Kernel { .. } | Home::Script | Home::Section => {}
        }
    }

    /// Records that something requires the device; `block` if it also requires the threads of a block.
    pub fn need_device(&mut self, span: Span, what: &str, block: bool) -> bool {
        match self.home {
            Home::Kernel { threads: true } if block => {
                let d = Diagnostic::error("E0403", format!("{what} has no meaning in a kernel with `threads(…)`"))
                    .at(span, "this needs the threads of a block or warp")
                    .note("`threads(i: N)` runs the body once for every index and leaves open how threads form blocks.")
                    .help("write the geometry as `grid(…) block(…)` instead: `grid(ceil_div(N, 256)) block(256)`");
                self.report(d);
                false
            }
            Home::Kernel { .. } => true,
            Home::Fn => {
                self.needs.device.get_or_insert_with(|| Use { span, what: what.into() });
                if block {
                    self.needs.block.get_or_insert_with(|| Use { span, what: what.into() });
                }
                true
            }
            Home::Script | Home::Section | Home::Const | Home::Signature => {
                let d = Diagnostic::error("E0402", format!("{what} only exists in kernels"))
                    .at(span, "the host runs one thing at a time: there are no threads here")
                    .help("put this into a `kernel`, or into an `fn` that a kernel calls");
                self.report(d);
                false
            }
        }
    }
}

/// Adds Clk's equivalent of a foreign word to a diagnostic.
pub(crate) fn with_foreign(d: Diagnostic, span: Span, foreign: &foreign::Foreign) -> Diagnostic {
    match foreign.word {
        Some(word) => {
            let sure = if foreign.plain { Applicability::MaybeIncorrect } else { Applicability::MachineApplicable };
            d.help(format!("Clk calls it `{word}`")).fix(format!("write `{word}`"), span, word, sure)
        }
        None => d.help(foreign.help),
    }
}
