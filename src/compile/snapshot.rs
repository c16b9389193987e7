//! Snapshots of a session, to which a failed entry returns.
//!
//! A check appends to the arenas of the program and binds names of one module. A snapshot therefore consists of the
//! lengths of the arenas, and of copies of the small parts that change in place. It does not copy the program.

use indexmap::IndexMap;
use smol_str::SmolStr;

use super::session::{Modules, Session, SessionDefinitions};
use clk_base::arena::Arena;
use clk_base::shared::CopyOnWrite;
use clk_check::typed::{ModuleId, NameBinding, NameTable, Program, Struct};

/// The state of a session, except its sources and its folder: messages may refer to the text of a failed entry.
pub struct SessionSnapshot {
    mark: ProgramMark,
    main: Option<ModuleId>,
    scope: MainScope,
    modules: Modules,
    definitions: SessionDefinitions,
}

/// The parts of the main module that an entry changes.
#[derive(Clone, Default)]
struct MainScope {
    doc: Option<String>,
    names: IndexMap<SmolStr, NameBinding>,
}

/// The lengths of a program's arenas, and its parts that a check changes in place.
pub(super) struct ProgramMark {
    modules: usize,
    consts: usize,
    fns: usize,
    kernels: usize,
    globals: usize,
    tests: usize,
    benches: usize,
    chunks: usize,
    /// A struct that is defined again without a change replaces the former one.
    structs: CopyOnWrite<Arena<Struct>>,
    names: Option<CopyOnWrite<NameTable>>,
}

impl ProgramMark {
    pub fn of(program: &Program) -> ProgramMark {
        ProgramMark {
            modules: program.modules.len(),
            consts: program.consts.len(),
            fns: program.fns.len(),
            kernels: program.kernels.len(),
            globals: program.globals.len(),
            tests: program.tests.len(),
            benches: program.benches.len(),
            chunks: program.chunks.len(),
            structs: program.structs.clone(),
            names: program.names.clone(),
        }
    }

    fn restore(&self, program: &mut Program) {
        program.modules.truncate(self.modules);
        truncate(&mut program.consts, self.consts);
        truncate(&mut program.fns, self.fns);
        truncate(&mut program.kernels, self.kernels);
        program.globals.truncate(self.globals);
        program.tests.truncate(self.tests);
        program.benches.truncate(self.benches);
        program.chunks.truncate(self.chunks);
        program.structs = self.structs.clone();
        program.names.clone_from(&self.names);
    }
}

/// Drops all but the first `len` items. Does not copy a shared arena that is not longer.
fn truncate<T: Clone>(arena: &mut CopyOnWrite<Arena<T>>, len: usize) {
    if arena.len() > len {
        arena.truncate(len);
    }
}

impl SessionSnapshot {
    /// Returns the item to which a name of the main module referred.
    pub fn binding(&self, name: &str) -> Option<NameBinding> {
        self.scope.names.get(name).copied()
    }

    /// Returns the number of tests that the program had.
    pub fn tests(&self) -> usize {
        self.mark.tests
    }

    /// Returns the number of benches that the program had.
    pub fn benches(&self) -> usize {
        self.mark.benches
    }
}

impl Session {
    /// Returns a snapshot of the session, to which [`Session::restore`] returns.
    pub fn snapshot(&self) -> SessionSnapshot {
        let scope = |main: ModuleId| {
            let module = self.program.modules.get(main)?;
            Some(MainScope { doc: module.doc.clone(), names: module.names.clone() })
        };
        SessionSnapshot {
            mark: ProgramMark::of(&self.program),
            main: self.main,
            scope: self.main.and_then(scope).unwrap_or_default(),
            modules: self.modules.clone(),
            definitions: self.definitions.clone(),
        }
    }

    /// Removes everything that was added since a snapshot, except sources.
    pub fn restore(&mut self, before: &SessionSnapshot) {
        before.mark.restore(&mut self.program);
        self.main = before.main;
        self.restore_scope(before);
        self.modules = before.modules.clone();
        self.definitions = before.definitions.clone();
    }

    /// Like [`Session::restore`], but keeps the imports that were loaded when `loaded` was taken.
    pub(super) fn restore_loaded(&mut self, loaded: &ProgramMark, before: &SessionSnapshot) {
        loaded.restore(&mut self.program);
        self.restore_scope(before);
    }

    fn restore_scope(&mut self, before: &SessionSnapshot) {
        let MainScope { doc, names } = before.scope.clone();
        if let Some(main) = self.main
            && self.program.modules.get(main).is_some()
        {
            let module = &mut self.program.modules[main];
            (module.doc, module.names) = (doc, names);
        }
    }
}
