//! The state of the translation of one function: its scopes, the block under construction, and the facts about its
//! variables.
//!
//! A function is translated repeatedly until its [`Facts`] do not change: which variables are assigned after their
//! declaration, which array a pointer refers to, which arrays must be flat. The first pass assumes the simplest case.

use super::program::ScopePath;
use super::translator::{CallerRequirements, FileTranslator};
use super::tree::{Expr, ExprKind, Stmt, StmtKind};
use super::types::{CType, ClkScalar, TemplateArgs};
use super::unwritten_reads::{UnwrittenRead, unwritten_reads};
pub(crate) use super::value::Local;
use super::value::{CppPlace, Pointer, Res, Space, Value, VariableKey, refuse};
use crate::ast::CppStmt;
use crate::emit::names::clk_name;
use crate::source::SourceSpan;
use rustc_hash::{FxHashMap, FxHashSet};
use smol_str::SmolStr;

/// What passes over a function have found out about its variables.
#[derive(Clone, Debug, Default)]
pub(crate) struct Facts {
    /// Variables that are assigned after their declaration, or passed to functions that change them.
    pub(crate) mutated: FxHashSet<VariableKey>,
    /// Arrays of several axes whose rows are used as pointers.
    pub(crate) flat: FxHashSet<VariableKey>,
    /// Loop variables that the body of their loop assigns.
    pub(crate) assigned_in_loop: FxHashSet<VariableKey>,
    /// The arrays that a pointer variable refers to, without null.
    pub(crate) bases: FxHashMap<VariableKey, Vec<Pointer>>,
    /// Those of `bases` that the current pass has seen. The others are of earlier passes, which knew less.
    pub(crate) seen_bases: FxHashMap<VariableKey, Vec<Pointer>>,
    /// Whether an array has another form in the next pass, so that `bases` is out of date.
    pub(crate) reset_bases: bool,
    /// Pointer variables that may be null.
    pub(crate) nullable: FxHashSet<VariableKey>,
    /// The type of the elements of dynamic shared memory that is declared as bytes.
    pub(crate) elements: FxHashMap<VariableKey, CType>,
    /// Variables and arrays that are passed to functions that may change them, so that they need a value.
    pub(crate) passed: FxHashSet<VariableKey>,
    /// Arrays of the file that the function uses.
    pub(crate) file_arrays: FxHashSet<usize>,
    /// Variables without an initial value that are read before they are written: the places of the declaration and of
    /// the first read.
    pub(crate) unwritten_reads: FxHashMap<SourceSpan, SourceSpan>,
    /// Variables to which a pointer refers that may also refer to other variables. They are arrays of one element.
    pub(crate) pointed: FxHashSet<VariableKey>,
    /// The pointers of arrays in structs that the kernel uses: the struct, and the path of fields.
    pub(crate) used_pointers: FxHashSet<String>,
    /// Labels that need a variable, which tells whether code has jumped to them.
    pub(crate) jump_flags: FxHashSet<SmolStr>,
    /// Whether the next pass has other `jump_flags`.
    pub(crate) has_new_jump_flags: bool,
    pub(crate) changed: bool,
}

impl Facts {
    /// Prepares the facts for the next pass. `stmts` is the translated body if the pass had no error. If the next pass
    /// declares variables in another order, because they are declared before a jump, their keys change, and all facts
    /// about them are forgotten.
    pub(crate) fn end_pass(&mut self, stmts: Option<&[Stmt]>) {
        if self.has_new_jump_flags {
            let jump_flags = std::mem::take(&mut self.jump_flags);
            *self = Facts { jump_flags, changed: true, ..Facts::default() };
            return;
        }
        self.forget_stale_bases();
        if let (Some(stmts), false) = (stmts, self.changed) {
            for (declared, read) in unwritten_reads(stmts) {
                self.changed |= self.unwritten_reads.insert(declared, read).is_none();
            }
        }
    }
}

/// What `break` and `continue` do in the innermost loop or `switch`.
#[derive(Clone, Debug)]
pub(crate) struct LoopState<'a> {
    /// Whether it is a `switch` that is translated to a loop, or to a chain of conditions.
    pub(crate) is_switch: bool,
    /// The step of a `for`, to be executed before `continue`.
    pub(crate) step: Option<&'a crate::ast::CppExpr>,
    /// The condition of a `do`, to be tested before `continue`.
    pub(crate) tail: Option<&'a crate::ast::CppExpr>,
    /// The counter of a loop that may become a Clk `for`.
    pub(crate) counter: Option<VariableKey>,
    /// Whether this loop translates a `switch`, so that a `continue` in it would not continue the loop around the
    /// `switch`.
    pub(crate) traps_continue: bool,
    /// The number of scopes outside of the body, in which `step` and `tail` are translated.
    pub(crate) scopes: usize,
}

/// A label after the current statement, in a block around it.
#[derive(Clone, Debug)]
pub(crate) struct LabelAhead {
    pub(crate) label: SmolStr,
    /// The variable that is true after a jump; `None` until a pass has found out that it is needed.
    pub(crate) flag: Option<SmolStr>,
    /// The number of loops around the label.
    pub(crate) loops: usize,
    /// Whether the translation has passed the label, so that a jump to it would be backward.
    pub(crate) is_passed: bool,
}

/// The labels that statements of the function may jump to.
#[derive(Debug, Default)]
pub(crate) struct JumpState {
    /// The labels after the current statement, in the blocks around it.
    pub(crate) targets: Vec<LabelAhead>,
    /// Declarations that a `goto` passes, which are translated before it.
    pub(crate) declared_early: Vec<*const CppStmt>,
}

/// The type that the function returns.
#[derive(Debug)]
pub(crate) struct ResultType {
    pub(crate) ty: CType,
    /// Whether the first `return` decides the type.
    pub(crate) is_deduced: bool,
    /// Whether `ty` is the type of a `return`.
    pub(crate) has_deduced: bool,
}

/// How the variables of the function are declared.
#[derive(Debug, Default)]
pub(crate) struct VariableDeclarations {
    last_key: usize,
    /// Variables that blocks of the function declare.
    pub(crate) in_blocks: FxHashSet<VariableKey>,
    /// Variables that are declared `const` or `constexpr`.
    pub(crate) constants: FxHashSet<VariableKey>,
    /// Variables and parameters that are declared as references.
    pub(crate) references: FxHashSet<VariableKey>,
    /// Pointers that a lambda captures by reference. They keep their value from then on.
    pub(crate) captured_pointers: Vec<(VariableKey, SmolStr)>,
}

impl VariableDeclarations {
    pub(crate) fn new_key(&mut self) -> VariableKey {
        self.last_key += 1;
        VariableKey(self.last_key)
    }

    /// Returns the number of the next key.
    pub(crate) fn peek_key(&self) -> usize {
        self.last_key + 1
    }
}

/// What comments about a kernel state about its launches.
#[derive(Debug, Default)]
pub(crate) struct StatedLaunch {
    /// The extents of the block.
    pub(crate) block: [Option<i128>; 3],
    /// The values of a launch that conditions of `assume` may contain: the variable and the parameter of the kernel.
    pub(crate) values: Vec<(SmolStr, SmolStr)>,
    /// Conditions that the kernel assumes.
    pub(crate) assumed: Vec<(Expr, SourceSpan)>,
}

/// The shared arrays of a kernel.
#[derive(Debug, Default)]
pub(crate) struct SharedDeclarations {
    pub(crate) declarations: Vec<Stmt>,
    /// The parameter with the length of dynamic shared memory, and the variable of its declaration.
    pub(crate) dynamic_length: Option<SmolStr>,
    pub(crate) dynamic_key: Option<VariableKey>,
}

pub(crate) struct Lower<'t, 'a> {
    pub(crate) t: &'t mut FileTranslator<'a>,
    pub(crate) env: TemplateArgs,
    pub(crate) scope: ScopePath,
    /// The function whose body is translated.
    pub(crate) function: Option<usize>,
    pub(crate) is_kernel: bool,
    /// The object of a method.
    pub(crate) this: Option<CppPlace>,
    pub(crate) result: ResultType,
    pub(crate) locals: Vec<FxHashMap<SmolStr, Local>>,
    names: Vec<FxHashSet<SmolStr>>,
    pub(crate) blocks: Vec<Vec<Stmt>>,
    pub(crate) facts: Facts,
    pub(crate) variables: VariableDeclarations,
    pub(crate) loops: Vec<LoopState<'a>>,
    pub(crate) jumps: JumpState,
    /// Variables whose value is any value, because they are read before they have one.
    pub(crate) unwritten_reads: Vec<UnwrittenRead>,
    pub(crate) requirements: CallerRequirements,
    /// Variables of the file that the body uses as arrays.
    pub(crate) globals: Vec<usize>,
    pub(crate) stated_launch: StatedLaunch,
    /// Parameters of a device function that must be aligned: the array, and a number of bytes.
    pub(crate) aligned: Vec<(VariableKey, u64, SourceSpan)>,
    pub(crate) shared: SharedDeclarations,
    /// The number of expressions and statements around the current one.
    depth: u32,
}

/// Maximum depth of nested expressions and statements.
const MAX_DEPTH: u32 = 300;

impl<'t, 'a> Lower<'t, 'a> {
    pub(crate) fn new(t: &'t mut FileTranslator<'a>, env: TemplateArgs, scope: ScopePath, facts: Facts) -> Self {
        Lower {
            t,
            env,
            scope,
            function: None,
            is_kernel: false,
            this: None,
            result: ResultType { ty: CType::Void, is_deduced: false, has_deduced: false },
            locals: vec![FxHashMap::default()],
            names: vec![FxHashSet::default()],
            blocks: vec![vec![]],
            facts,
            variables: VariableDeclarations::default(),
            loops: vec![],
            jumps: JumpState::default(),
            unwritten_reads: vec![],
            requirements: CallerRequirements::default(),
            globals: vec![],
            stated_launch: StatedLaunch::default(),
            aligned: vec![],
            shared: SharedDeclarations::default(),
            depth: 0,
        }
    }

    pub(crate) fn enter(&mut self, span: SourceSpan) -> Res<()> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return refuse("deeply nested code", span, "split the expression or the statement");
        }
        Ok(())
    }

    pub(crate) fn leave(&mut self) {
        self.depth -= 1;
    }

    // ---- statements under construction ----

    pub(crate) fn push(&mut self, kind: StmtKind, span: SourceSpan) {
        if let Some(block) = self.blocks.last_mut() {
            block.push(Stmt { kind, span });
        }
    }

    /// Returns the position after the last statement of the block.
    pub(crate) fn mark(&self) -> usize {
        self.blocks.last().map_or(0, Vec::len)
    }

    /// Translates something into a block of its own, with its own scope of names.
    pub(crate) fn nested<T>(&mut self, f: impl FnOnce(&mut Self) -> Res<T>) -> Res<(T, Vec<Stmt>)> {
        self.blocks.push(vec![]);
        self.locals.push(FxHashMap::default());
        self.names.push(FxHashSet::default());
        let result = f(self);
        self.names.pop();
        self.locals.pop();
        let block = self.blocks.pop().unwrap_or_default();
        Ok((result?, block))
    }

    /// Like [`Lower::nested`], but the statements go into the current block.
    pub(crate) fn scoped<T>(&mut self, f: impl FnOnce(&mut Self) -> Res<T>) -> Res<T> {
        self.locals.push(FxHashMap::default());
        self.names.push(FxHashSet::default());
        let result = f(self);
        // The names stay in use, because their declarations are in the enclosing block.
        let names = self.names.pop().unwrap_or_default();
        if let Some(outer) = self.names.last_mut() {
            outer.extend(names);
        }
        self.locals.pop();
        result
    }

    // ---- names ----

    /// Returns an unused name for a variable.
    pub(crate) fn fresh(&mut self, name: &str) -> SmolStr {
        let base = clk_name(name);
        let mut candidate = base.clone();
        let mut number = 1;
        while self.names.iter().any(|names| names.contains(&candidate)) || self.t.is_item_name(&candidate) {
            number += 1;
            candidate = SmolStr::from(format!("{base}_{number}"));
        }
        if let Some(names) = self.names.last_mut() {
            names.insert(candidate.clone());
        }
        self.t.add_local_name(&candidate);
        candidate
    }

    /// Gives back a name that is not needed.
    pub(crate) fn release(&mut self, name: &SmolStr) {
        if let Some(names) = self.names.last_mut() {
            names.remove(name);
        }
    }

    /// Reserves a name in the whole function.
    pub(crate) fn fresh_in_function(&mut self, name: &str) -> SmolStr {
        let name = self.fresh(name);
        if let Some(names) = self.names.first_mut() {
            names.insert(name.clone());
        }
        name
    }

    pub(crate) fn declare(&mut self, name: &str, local: Local) {
        if let Some(scope) = self.locals.last_mut() {
            scope.insert(SmolStr::from(name), local);
        }
    }

    pub(crate) fn find_local(&self, name: &str) -> Option<&Local> {
        self.locals.iter().rev().find_map(|scope| scope.get(name))
    }

    // ---- facts ----

    pub(crate) fn note_mutated(&mut self, key: VariableKey) {
        if self.facts.mutated.insert(key) {
            self.facts.changed = true;
        }
        let in_loop = self.loops.iter().any(|state| state.counter == Some(key));
        if in_loop && self.facts.assigned_in_loop.insert(key) {
            self.facts.changed = true;
        }
    }

    pub(crate) fn note_passed(&mut self, key: VariableKey) {
        if self.facts.passed.insert(key) {
            self.facts.changed = true;
        }
    }

    pub(crate) fn is_mutated(&self, key: VariableKey) -> bool {
        self.facts.mutated.contains(&key)
    }

    pub(crate) fn note_flat(&mut self, key: VariableKey) {
        if self.facts.flat.insert(key) {
            self.facts.changed = true;
            self.facts.reset_bases = true;
        }
    }

    // ---- temporaries ----

    /// Stores a value in a temporary variable and returns the variable, unless the value is stable already.
    pub(crate) fn spill(&mut self, value: Value) -> Value {
        if value.stable && !value.effect {
            return value;
        }
        let mark = self.mark();
        self.spill_at(value, mark)
    }

    /// Like [`Lower::spill`], but declares the variable before the statement at `mark` of the current block.
    pub(crate) fn spill_at(&mut self, value: Value, mark: usize) -> Value {
        if value.stable && !value.effect {
            return value;
        }
        let span = value.expr.span;
        let name = self.fresh("t");
        let ty = self.value_type_text(&value);
        let stmt = Stmt {
            kind: StmtKind::Declare { name: name.clone(), mutable: false, ty, value: Some(value.expr.clone()) },
            span,
        };
        if let Some(block) = self.blocks.last_mut() {
            block.insert(mark.min(block.len()), stmt);
        }
        Value { expr: Expr::name(name, span), stable: true, effect: false, ..value }
    }

    /// Like [`Lower::spill_at`], but stores the factors of a product instead of the product.
    pub(crate) fn spill_product(&mut self, value: Value, mark: usize) -> Value {
        let factor = |lower: &mut Self, factor: &Expr| {
            let is_constant = matches!(factor.kind, ExprKind::Float(..));
            let factor = Value { stable: is_constant, ..Value::new(value.ty.clone(), factor.clone()) };
            Box::new(lower.spill_at(factor, mark).expr)
        };
        let kind = match &value.expr.kind {
            ExprKind::Binary("*", x, y) => ExprKind::Binary("*", factor(self, x), factor(self, y)),
            ExprKind::Unary("-", product) => match &product.kind {
                ExprKind::Binary("*", x, y) => {
                    let product = ExprKind::Binary("*", factor(self, x), factor(self, y));
                    ExprKind::Unary("-", Box::new(Expr::new(product, value.expr.span)))
                }
                _ => return self.spill_at(value, mark),
            },
            _ => return self.spill_at(value, mark),
        };
        Value { expr: Expr::new(kind, value.expr.span), stable: true, ..value }
    }

    /// Returns the Clk type of the expression of a value.
    pub(crate) fn value_type_text(&self, value: &Value) -> String {
        match value.ty.scalar() {
            Some(_) => value.rep.name().to_string(),
            None => self.t.type_text(&value.ty),
        }
    }

    // ---- small constructors ----

    pub(crate) fn variable_value(&self, name: &SmolStr, key: VariableKey, ty: &CType, span: SourceSpan) -> Value {
        Value { stable: !self.is_mutated(key), ..Value::new(ty.clone(), Expr::name(name.clone(), span)) }
    }

    pub(crate) fn space_has_effects(space: Space) -> bool {
        !matches!(space, Space::Local)
    }

    pub(crate) fn scalar_of(&self, ty: &CType, span: SourceSpan) -> Res<ClkScalar> {
        match ty.scalar() {
            Some(scalar) => Ok(scalar),
            None => refuse(format!("{} as a number", self.t.describe(ty)), span, ""),
        }
    }
}
