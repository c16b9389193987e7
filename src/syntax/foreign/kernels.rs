//! Derives the head of a Clk kernel from the head and the body of a kernel of CUDA or Numba.
//!
//! The index `blockIdx.x * blockDim.x + threadIdx.x` becomes an index of `threads(i: N)`. The guard `i < n` is removed,
//! and `n` becomes the extent `N` of the arrays. Flat indices `row * width + col` become two indices. A kernel that
//! uses shared memory, barriers or the numbers of its blocks gets `grid(…) block(…)` instead.

use super::launch_indices::{aliases, axis_of, has_one_block, normalize};
use super::tokens::clk_name;
use super::tree::{
    ForeignExpr, ForeignFunction, ForeignParameter, ForeignStmt, ForeignVariable, StmtShape, Subscript,
    rewrite_statements,
};
use super::triton::{is_triton, per_element};
use super::usage::{changes_elements, inferred};
use super::value_types::{ForeignScope, ForeignType};
use crate::token::KEYWORDS;
use std::collections::HashMap;

/// Longer heads have their launch clause on a line of its own.
const LONGEST_HEAD: usize = 100;

/// A kernel in Clk: its head, its body, and the types of its parameters and indices.
pub(super) struct ClkKernel {
    pub head: String,
    pub body: Vec<ForeignStmt>,
    pub variables: Vec<(String, ForeignType)>,
}

/// An index of all threads along an axis.
#[derive(Clone, Debug)]
struct ThreadIndex {
    name: String,
    /// 0 for x.
    axis: usize,
    bound: Option<ForeignExpr>,
}

/// The accesses of a kernel to one of its arrays.
#[derive(Default)]
struct ArrayUse {
    /// The extents in Clk's spelling.
    extents: Vec<String>,
    /// Whether its flat indices become two indices, with this row length.
    row_length: Option<ForeignExpr>,
}

impl ClkKernel {
    pub fn new(function: &ForeignFunction) -> Option<ClkKernel> {
        match is_triton(function) {
            true => ClkKernel::from_cuda(&per_element(function)?),
            false => ClkKernel::from_cuda(function),
        }
    }

    fn from_cuda(function: &ForeignFunction) -> Option<ClkKernel> {
        let scope = ForeignScope::default();
        let mut params: Vec<ForeignParameter> =
            function.params.iter().map(|param| inferred(param, function, &scope)).collect();
        let aliases = aliases(&function.body);
        let has_one_block = has_one_block(&function.body);
        let mut body = rewrite_statements(function.body.clone(), &mut |e| normalize(e, &aliases, has_one_block));
        // `in` and `out` are common names of parameters, and keywords of Clk.
        for param in params.iter_mut().filter(|param| KEYWORDS.iter().any(|(word, _)| *word == param.name)) {
            let (old, new) = (param.name.clone(), clk_name(&param.name));
            body = rewrite_statements(body, &mut |e| if e.is_name(&old) { ForeignExpr::name(&new) } else { e });
            param.name = new;
        }
        set_dynamic_extents(&mut body);
        let mut translator = KernelTranslator { params, dimensions: HashMap::new(), body };
        translator.drop_unused(&aliases);
        match function.geometry.is_empty() {
            true => translator.derive(function),
            false => translator.with_geometry(function),
        }
    }
}

struct KernelTranslator {
    params: Vec<ForeignParameter>,
    /// Clk's names of extents by the expressions of the foreign kernel, printed for comparison.
    dimensions: HashMap<String, String>,
    body: Vec<ForeignStmt>,
}

impl KernelTranslator {
    /// Keeps the launch clause of a head that has one.
    fn with_geometry(self, function: &ForeignFunction) -> Option<ClkKernel> {
        let uses: Vec<ArrayUse> = self.params.iter().map(|_| ArrayUse::default()).collect();
        let head = self.head(function, &uses, &function.geometry, &[], &[]);
        let variables = self.variables(&[]);
        Some(ClkKernel { head, body: self.body, variables })
    }

    fn derive(mut self, function: &ForeignFunction) -> Option<ClkKernel> {
        self.name_global_index();
        let mut indices = self.take_indices();
        // Blocks may reach beyond the extents, so their guards stay.
        let mut has_blocks = self.uses_blocks();
        if !has_blocks || self.is_strided_loop() {
            self.take_guards(&mut indices);
            self.unroll_strided_loop(&mut indices);
            has_blocks = self.uses_blocks();
        }
        // A kernel without an index has one thread.
        has_blocks |= indices.is_empty();
        self.find_bounds(&mut indices);
        let mut removed: Vec<String> = Vec::new();
        for bound in indices.iter().filter_map(|index| index.bound.as_ref()) {
            self.name_dimension(bound, &mut removed)?;
        }
        let uses: Option<Vec<ArrayUse>> =
            (0..self.params.len()).map(|p| self.array_use(p, &indices, &mut removed)).collect();
        let mut uses = uses?;
        // An index without a guard runs over the array that it indexes.
        let extents: Vec<String> = indices
            .iter()
            .map(|index| match &index.bound {
                Some(bound) => self.dimension(bound),
                None => self.dimensions.get(&unguarded_key(&index.name)).cloned(),
            })
            .collect::<Option<Vec<String>>>()?;
        self.rewrite_accesses(&uses);
        let dimensions = self.dimensions.clone();
        let body = std::mem::take(&mut self.body);
        self.body = rewrite_statements(body, &mut |e| match dimensions.get(&format!("{e:?}")) {
            Some(name) => ForeignExpr::name(name),
            None => e,
        });
        let geometry = if has_blocks {
            self.block_geometry(&indices, &extents, &mut uses)?
        } else {
            let mut axes: Vec<(usize, String)> = indices
                .iter()
                .zip(&extents)
                .map(|(index, extent)| (index.axis, format!("{}: {extent}", index.name)))
                .collect();
            axes.sort_by_key(|(axis, _)| std::cmp::Reverse(*axis));
            let axes: Vec<String> = axes.into_iter().map(|(_, text)| text).collect();
            format!("threads({})", axes.join(", "))
        };
        let head = self.head(function, &uses, &geometry, &removed, &indices);
        let mut variables = self.variables(&removed);
        variables.extend(function.generics.iter().filter_map(|generic| {
            let (name, ty) = generic.strip_prefix("const ")?.split_once(": ")?;
            Some((name.to_owned(), ForeignType::scalar(ty.split(' ').next()?)))
        }));
        variables.extend(indices.iter().map(|index| (index.name.clone(), ForeignType::scalar("i32"))));
        variables.extend(self.dimensions.values().map(|name| (name.clone(), ForeignType::scalar("i32"))));
        if has_blocks {
            let mut lets: Vec<ForeignStmt> = indices
                .iter()
                .map(|index| {
                    let value = Some(axis_of("global_idx", index.axis));
                    ForeignStmt::new(StmtShape::Bind("let", index.name.clone(), value))
                })
                .collect();
            lets.append(&mut self.body);
            self.body = lets;
        }
        Some(ClkKernel { head, body: self.body, variables })
    }

    /// Removes the variables that only name a number of the launch and are not used.
    fn drop_unused(&mut self, aliases: &HashMap<String, ForeignExpr>) {
        let body = std::mem::take(&mut self.body);
        let is_used = |name: &str| body.iter().any(|stmt| stmt.uses(name) && declared_name(stmt) != Some(name));
        let unused: Vec<String> = aliases.keys().filter(|name| !is_used(name)).cloned().collect();
        let keeps = |stmt: &ForeignStmt| !declared_name(stmt).is_some_and(|name| unused.iter().any(|n| n == name));
        self.body = body.into_iter().filter(keeps).collect();
    }

    /// Gives an index that has no name the name `i`.
    fn name_global_index(&mut self) {
        let x = axis_of("global_idx", 0);
        let is_named = self.body.iter().any(|stmt| match &stmt.shape {
            StmtShape::Declare { variables, .. } => variables.iter().any(|v| v.value.as_ref() == Some(&x)),
            StmtShape::Assign(_, "", value) | StmtShape::Bind("let", _, Some(value)) => *value == x,
            _ => false,
        });
        let is_free = !self.body.iter().any(|stmt| stmt.uses("i") || declares_deeply(stmt, "i"));
        let mut is_used = false;
        for stmt in &self.body {
            stmt.visit(&mut |inner| is_used |= inner.expressions().iter().any(|e| e.contains(|part| *part == x)));
        }
        if is_named || !is_used || !is_free || self.params.iter().any(|param| param.name == "i") {
            return;
        }
        let body = std::mem::take(&mut self.body);
        self.body = rewrite_statements(body, &mut |e| if e == x { ForeignExpr::name("i") } else { e });
        self.body.insert(0, ForeignStmt::new(StmtShape::Bind("let", "i".to_owned(), Some(x))));
    }

    /// Removes the definitions of the indices of all threads from the body.
    fn take_indices(&mut self) -> Vec<ThreadIndex> {
        let mut indices = Vec::new();
        let global = |e: &ForeignExpr| (0..3).find(|axis| *e == axis_of("global_idx", *axis));
        let body = std::mem::take(&mut self.body);
        for mut stmt in body {
            match &mut stmt.shape {
                StmtShape::Declare { variables, is_shared: false, .. } => {
                    variables.retain(|variable| match variable.value.as_ref().and_then(global) {
                        Some(axis) => {
                            indices.push(ThreadIndex { name: variable.name.clone(), axis, bound: None });
                            false
                        }
                        None => true,
                    });
                    if variables.is_empty() {
                        continue;
                    }
                }
                StmtShape::Assign(places, "", value) => {
                    if let ([ForeignExpr::Name(name)], Some(axis)) = (&places[..], global(value)) {
                        indices.push(ThreadIndex { name: name.clone(), axis, bound: None });
                        continue;
                    }
                    let is_grid =
                        matches!(value, ForeignExpr::Call(callee, _) if callee.path().as_deref() == Some("cuda.grid"));
                    // `i, j = wp.tid()`, where the last axis is the fastest one.
                    let is_tid = global(value) == Some(0);
                    if let ([ForeignExpr::Tuple(names)], true) = (&places[..], is_grid || is_tid) {
                        for (position, name) in names.iter().enumerate().take(3) {
                            let axis = if is_tid { names.len().min(3) - 1 - position } else { position };
                            indices.push(ThreadIndex { name: name.path().unwrap_or_default(), axis, bound: None });
                        }
                        continue;
                    }
                }
                StmtShape::Bind("let", name, Some(value)) => {
                    if let Some(axis) = global(value) {
                        indices.push(ThreadIndex { name: name.clone(), axis, bound: None });
                        continue;
                    }
                }
                _ => {}
            }
            self.body.push(stmt);
        }
        indices
    }

    /// Removes guards such as `if (i < n) { … }` and `if (i >= n) return;`, which state the bounds of the indices.
    fn take_guards(&mut self, indices: &mut [ThreadIndex]) {
        let mut body = Vec::new();
        let stmts = std::mem::take(&mut self.body);
        let count = stmts.len();
        for (position, mut stmt) in stmts.into_iter().enumerate() {
            let StmtShape::If(branches, otherwise) = &mut stmt.shape else {
                body.push(stmt);
                continue;
            };
            let [(condition, inner)] = &mut branches[..] else {
                body.push(stmt);
                continue;
            };
            let returns = matches!(&inner[..], [ForeignStmt { shape: StmtShape::Return(None), .. }]);
            if returns && otherwise.is_empty() && outside(condition, indices) {
                let mut known = Vec::new();
                parts_of(condition, "||", &mut known);
                for part in &known {
                    note_bound(part, ">=", "<=", indices);
                }
                continue;
            }
            if position + 1 < count || !otherwise.is_empty() {
                body.push(stmt);
                continue;
            }
            let mut conditions = Vec::new();
            parts_of(condition, "&&", &mut conditions);
            let left: Vec<ForeignExpr> =
                conditions.iter().filter(|part| !note_bound(part, "<", ">", indices)).cloned().collect();
            match left.into_iter().reduce(|a, b| ForeignExpr::binary("&&", a, b)) {
                None => body.append(inner),
                Some(rest) => {
                    *condition = rest;
                    body.push(stmt);
                }
            }
        }
        self.body = body;
    }

    /// Returns whether the body ends with a loop whose step is the number of threads.
    fn is_strided_loop(&self) -> bool {
        let last = self.body.last().map(|stmt| &stmt.shape);
        matches!(last, Some(StmtShape::CFor(first, ..)) if (**first).as_ref().is_some_and(|first| {
            first.expressions().iter().any(|e| matches!(e, ForeignExpr::Name(_)))
        }))
    }

    /// Finds the bounds of indices that no guard states: `i < n ? x[i] : 0`.
    fn find_bounds(&self, indices: &mut [ThreadIndex]) {
        let mut found = Vec::new();
        for stmt in &self.body {
            stmt.visit(&mut |inner| {
                for e in inner.expressions() {
                    e.visit(&mut |part| {
                        found.extend(bound_of(part, "<", ">", indices));
                        // `i < n - 1`
                        if let ForeignExpr::Binary("<", index, bound) = part
                            && let ForeignExpr::Binary("-", extent, _) = &**bound
                        {
                            let whole = ForeignExpr::Binary("<", index.clone(), extent.clone());
                            found.extend(bound_of(&whole, "<", ">", indices));
                        }
                    });
                }
            });
        }
        for (position, bound) in found {
            indices[position].bound.get_or_insert(bound);
        }
    }

    /// Replaces a loop over all indices with the stride of the grid by its body.
    fn unroll_strided_loop(&mut self, indices: &mut [ThreadIndex]) {
        let [index] = indices else { return };
        let stride = ForeignExpr::binary("*", axis_of("blockDim", 0), axis_of("gridDim", 0));
        let swapped = ForeignExpr::binary("*", axis_of("gridDim", 0), axis_of("blockDim", 0));
        let mut strides = vec![stride, swapped];
        let mut at = None;
        for (position, stmt) in self.body.iter().enumerate() {
            match &stmt.shape {
                StmtShape::Declare { variables, .. } => {
                    let [ForeignVariable { name, value: Some(value), .. }] = &variables[..] else { return };
                    if !strides.contains(value) {
                        return;
                    }
                    strides.push(ForeignExpr::name(name));
                }
                StmtShape::CFor(first, Some(ForeignExpr::Binary("<", left, bound)), step, _) => {
                    let (Some(first), Some(step)) = (&**first, &**step) else { return };
                    let StmtShape::Declare { variables, .. } = &first.shape else { return };
                    let [ForeignVariable { name, value: Some(value), .. }] = &variables[..] else { return };
                    let StmtShape::Assign(places, "+", amount) = &step.shape else { return };
                    let is_strided = value.is_name(&index.name)
                        && left.is_name(name)
                        && places[0].is_name(name)
                        && strides.contains(amount);
                    if !is_strided || position + 1 < self.body.len() {
                        return;
                    }
                    (index.name, index.bound) = (name.clone(), Some((**bound).clone()));
                    at = Some(position);
                }
                _ => return,
            }
        }
        if let Some(StmtShape::CFor(_, _, _, body)) = at.and_then(|at| self.body.get(at)).map(|stmt| stmt.shape.clone())
        {
            self.body = body;
        }
    }

    /// Returns whether the body needs blocks: shared memory, barriers, or numbers of threads and blocks.
    fn uses_blocks(&self) -> bool {
        const WORDS: [&str; 9] = [
            "threadIdx",
            "blockIdx",
            "blockDim",
            "gridDim",
            "__syncthreads",
            "warpSize",
            "thread_idx",
            "block_idx",
            "global_idx",
        ];
        let mut found = false;
        for stmt in &self.body {
            stmt.visit(&mut |inner| {
                found |= matches!(inner.shape, StmtShape::Declare { is_shared: true, .. })
                    || matches!(&inner.shape, StmtShape::Raw(text) if text.starts_with("shared"));
                for e in inner.expressions() {
                    e.visit(&mut |part| match part {
                        ForeignExpr::Name(name) => {
                            found |= WORDS.contains(&name.as_str())
                                || name.starts_with("__shfl")
                                || name.starts_with("__ballot");
                        }
                        ForeignExpr::Field(base, name) => {
                            found |= base.is_name("cuda") && matches!(name.as_str(), "syncthreads" | "shared");
                        }
                        _ => {}
                    });
                }
            });
        }
        found
    }

    /// Names the extent that an expression stands for: `n` is `N`, `x.size` and `x.shape[0]` are `N`.
    fn name_dimension(&mut self, e: &ForeignExpr, removed: &mut Vec<String>) -> Option<()> {
        let key = format!("{e:?}");
        if self.dimensions.contains_key(&key) || e.integer().is_some() {
            return Some(());
        }
        let name = match e {
            ForeignExpr::Name(name) => {
                let is_param = self.params.iter().any(|param| param.name == *name && !param.is_array);
                if !is_param {
                    // A constant of the program.
                    return name.chars().all(|c| c.is_uppercase() || c == '_' || c.is_ascii_digit()).then_some(());
                }
                removed.push(name.clone());
                let is_count = matches!(name.as_str(), "size" | "length" | "len" | "count" | "total");
                let is_free = !self.dimensions.values().any(|known| known == "N");
                match (is_count || name.starts_with("n_") || name.starts_with("num")) && is_free {
                    true => "N".to_owned(),
                    false => name.to_uppercase(),
                }
            }
            ForeignExpr::Field(base, field) if field == "size" && matches!(**base, ForeignExpr::Name(_)) => {
                self.free_dimension()
            }
            ForeignExpr::Index(base, _) if base.path().is_some_and(|path| path.ends_with(".shape")) => {
                self.free_dimension()
            }
            ForeignExpr::Call(callee, args) if callee.is_name("len") && args.len() == 1 => self.free_dimension(),
            _ => return None,
        };
        if self.params.iter().any(|param| param.name == name && !removed.contains(&name)) {
            return None;
        }
        self.dimensions.insert(key, name);
        Some(())
    }

    fn free_dimension(&self) -> String {
        let names = ["N", "M", "K", "L", "P", "Q", "R", "S"];
        let is_used = |name: &str| {
            self.dimensions.values().any(|known| known == name) || self.params.iter().any(|param| param.name == name)
        };
        names.into_iter().find(|name| !is_used(name)).unwrap_or("T").to_owned()
    }

    /// Returns the extent that an expression stands for, in Clk's spelling.
    fn dimension(&self, e: &ForeignExpr) -> Option<String> {
        if let Some(value) = e.integer() {
            return Some(value.to_string());
        }
        match self.dimensions.get(&format!("{e:?}")) {
            Some(name) => Some(name.clone()),
            None => e.path().filter(|path| !path.contains('.')),
        }
    }

    /// Returns the bounds of the loop variables of the body.
    fn loop_bounds(&self) -> HashMap<String, ForeignExpr> {
        let mut bounds = HashMap::new();
        for stmt in &self.body {
            stmt.visit(&mut |inner| match &inner.shape {
                StmtShape::CFor(_, Some(ForeignExpr::Binary("<", left, bound)), _, _) => {
                    if let Some(name) = left.path() {
                        bounds.insert(name, (**bound).clone());
                    }
                }
                StmtShape::For(names, ForeignExpr::Call(callee, args), _) if callee.is_name("range") => {
                    if let (Some(name), Some(bound)) = (names.first(), args.last().filter(|_| args.len() <= 2)) {
                        bounds.insert(name.clone(), bound.value.clone());
                    }
                }
                StmtShape::For(names, ForeignExpr::Range(parts, false), _) => {
                    if let (Some(name), Some(bound)) = (names.first(), &parts[1]) {
                        bounds.insert(name.clone(), bound.clone());
                    }
                }
                _ => {}
            });
        }
        bounds
    }

    /// Determines the extents of an array from the indices of its accesses.
    fn array_use(&mut self, position: usize, indices: &[ThreadIndex], removed: &mut Vec<String>) -> Option<ArrayUse> {
        let param = self.params[position].clone();
        let mut usage = ArrayUse::default();
        if !param.is_array {
            return Some(usage);
        }
        if !param.extents.is_empty() && param.extents.iter().all(|e| e.integer().is_some()) {
            usage.extents = param.extents.iter().filter_map(|e| self.dimension(e)).collect();
            return Some(usage);
        }
        let mut accesses: Vec<Vec<ForeignExpr>> = Vec::new();
        let mut is_plain = true;
        for stmt in &self.body {
            stmt.visit(&mut |inner| {
                for e in inner.expressions() {
                    e.visit(&mut |part| {
                        if let ForeignExpr::Index(base, subscripts) = part
                            && base.is_name(&param.name)
                        {
                            let elements = subscripts.iter().filter_map(|s| match s {
                                Subscript::Element(e) => Some(e.clone()),
                                _ => None,
                            });
                            accesses.push(elements.collect());
                            is_plain &= subscripts.iter().all(|s| matches!(s, Subscript::Element(_)));
                        }
                    });
                }
            });
        }
        if !is_plain {
            return None;
        }
        let mut bounds = self.loop_bounds();
        bounds.extend(indices.iter().filter_map(|index| Some((index.name.clone(), index.bound.clone()?))));
        let rank = accesses.first().map_or(1, Vec::len);
        if accesses.iter().any(|access| access.len() != rank) {
            return None;
        }
        // All flat indices are `row * length + column` with the same length.
        let flat: Option<Vec<(ForeignExpr, ForeignExpr, ForeignExpr)>> =
            accesses.iter().map(|access| if rank == 1 { row_and_column(&access[0]) } else { None }).collect();
        let flat = flat.filter(|flat| !flat.is_empty() && flat.iter().all(|(_, length, _)| *length == flat[0].1));
        if let Some(flat) = flat.filter(|flat| self.name_dimension(&flat[0].1, removed).is_some()) {
            let length = flat[0].1.clone();
            let rows = flat.iter().find_map(|(row, _, _)| bounds.get(&row.path()?).cloned());
            let rows = match rows {
                Some(rows) if self.name_dimension(&rows, removed).is_some() => self.dimension(&rows)?,
                // The rows of an image over whose pixels the indices run.
                _ => match indices {
                    [a, b] if a.bound.as_ref() == Some(&length) && b.bound.is_some() => {
                        b.bound.as_ref().and_then(|bound| self.dimension(bound))?
                    }
                    [b, a] if a.bound.as_ref() == Some(&length) && b.bound.is_some() => {
                        b.bound.as_ref().and_then(|bound| self.dimension(bound))?
                    }
                    _ => self.new_dimension(),
                },
            };
            usage.extents = vec![rows, self.dimension(&length)?];
            usage.row_length = Some(length);
            return Some(usage);
        }
        for axis in 0..rank {
            let along: Vec<&ForeignExpr> = accesses.iter().map(|access| &access[axis]).collect();
            let bound = along.iter().find_map(|e| bounds.get(&e.path()?).cloned());
            let constant = along.iter().map(|e| e.integer()).try_fold(0, |most, value| Some(value?.max(most)));
            let extent = match (bound, constant) {
                (Some(bound), _) if self.name_dimension(&bound, removed).is_some() => self.dimension(&bound)?,
                (_, Some(most)) if !along.is_empty() => (most + 1).to_string(),
                _ if along.iter().any(|e| indices.iter().any(|index| e.is_name(&index.name))) => {
                    // The index has no guard: all arrays with this index have its extent.
                    let index = indices.iter().find(|index| along.iter().any(|e| e.is_name(&index.name)))?;
                    self.unguarded_dimension(&index.name)
                }
                _ if along.iter().any(|e| **e == axis_of("blockIdx", 0)) => "blocks".to_owned(),
                _ => self.new_dimension(),
            };
            usage.extents.push(extent);
        }
        Some(usage)
    }

    fn new_dimension(&mut self) -> String {
        let name = self.free_dimension();
        self.dimensions.insert(format!("fresh {name}"), name.clone());
        name
    }

    fn unguarded_dimension(&mut self, index: &str) -> String {
        let key = unguarded_key(index);
        if let Some(name) = self.dimensions.get(&key) {
            return name.clone();
        }
        let name = self.free_dimension();
        self.dimensions.insert(key, name.clone());
        name
    }

    /// Replaces flat indices by two indices.
    fn rewrite_accesses(&mut self, uses: &[ArrayUse]) {
        let flat: Vec<&str> = self
            .params
            .iter()
            .zip(uses)
            .filter(|(_, usage)| usage.row_length.is_some())
            .map(|(param, _)| param.name.as_str())
            .collect();
        let body = std::mem::take(&mut self.body);
        let body = rewrite_statements(body, &mut |e| match &e {
            ForeignExpr::Index(base, subscripts) if flat.iter().any(|name| base.is_name(name)) => match &subscripts[..]
            {
                [Subscript::Element(at)] => match row_and_column(at) {
                    Some((row, _, column)) => {
                        ForeignExpr::Index(base.clone(), vec![Subscript::Element(row), Subscript::Element(column)])
                    }
                    None => e,
                },
                _ => e,
            },
            _ => e,
        });
        self.body = body;
    }

    /// Returns `grid(…) block(…)`: the block has the size of the shared arrays.
    fn block_geometry(&self, indices: &[ThreadIndex], extents: &[String], uses: &mut [ArrayUse]) -> Option<String> {
        let mut size = None;
        for stmt in &self.body {
            if let StmtShape::Declare { is_shared: true, variables, .. } = &stmt.shape {
                size = size.or_else(|| self.dimension(variables.first()?.extents.first()?));
            }
        }
        let axes = indices.iter().map(|index| index.axis).max().map_or(1, |axis| axis + 1);
        let size = size.unwrap_or_else(|| if axes == 1 { "256".to_owned() } else { "16".to_owned() });
        let mut grid = Vec::new();
        for axis in 0..axes {
            let position = indices.iter().position(|index| index.axis == axis);
            grid.push(match position {
                Some(position) => format!("ceil_div({}, {size})", extents[position]),
                None => "1".to_owned(),
            });
        }
        for usage in uses {
            for extent in usage.extents.iter_mut().filter(|extent| *extent == "blocks") {
                *extent = grid[0].clone();
            }
        }
        Some(format!("grid({}) block({})", grid.join(", "), vec![size; axes].join(", ")))
    }

    fn head(
        &self,
        function: &ForeignFunction,
        uses: &[ArrayUse],
        geometry: &str,
        removed: &[String],
        indices: &[ThreadIndex],
    ) -> String {
        let mut texts = Vec::new();
        for (param, usage) in self.params.iter().zip(uses) {
            if removed.contains(&param.name) {
                continue;
            }
            texts.push(match param.is_array {
                true => {
                    let extents = match usage.extents.is_empty() {
                        true if param.extents.is_empty() => "N".to_owned(),
                        true => param.extents.iter().filter_map(|e| self.dimension(e)).collect::<Vec<_>>().join(", "),
                        false => usage.extents.join(", "),
                    };
                    format!("{}{}: [{}; {extents}]", self.access(param, indices), param.name, param.element)
                }
                false => format!("{}: {}", param.name, param.element),
            });
        }
        let generics = match function.generics.is_empty() {
            true => String::new(),
            false => format!("<{}>", function.generics.join(", ")),
        };
        let head = format!("kernel {}{generics}({})", function.name, texts.join(", "));
        match head.len() + geometry.len() > LONGEST_HEAD {
            true => format!("{head}\n    {geometry}\n"),
            false => format!("{head} {geometry}"),
        }
    }

    /// Returns `out` if every thread writes its own element and nothing reads the array, and `inout` if the kernel
    /// changes it in another way.
    fn access(&self, param: &ForeignParameter, indices: &[ThreadIndex]) -> &'static str {
        if !self.body.iter().any(|stmt| changes_elements(stmt, &param.name)) {
            return "";
        }
        let is_own = |place: &ForeignExpr| match place {
            ForeignExpr::Index(base, subscripts) if base.is_name(&param.name) => {
                let is_block = matches!(&subscripts[..], [Subscript::Element(e)] if *e == axis_of("blockIdx", 0));
                let is_index = |index: &ThreadIndex| {
                    subscripts.iter().any(|s| matches!(s, Subscript::Element(e) if e.is_name(&index.name)))
                };
                is_block || subscripts.len() == indices.len() && !indices.is_empty() && indices.iter().all(is_index)
            }
            _ => false,
        };
        let (mut reads, mut other_writes, mut own_writes) = (0, 0, 0);
        for stmt in &self.body {
            stmt.visit(&mut |inner| {
                let mut places = 0;
                if let StmtShape::Assign(targets, op, _) = &inner.shape {
                    for target in targets {
                        match target {
                            ForeignExpr::Index(base, _) if base.is_name(&param.name) => {
                                places += 1;
                                let is_plain = op.is_empty() && is_own(target);
                                own_writes += usize::from(is_plain);
                                other_writes += usize::from(!is_plain);
                            }
                            _ => {}
                        }
                    }
                }
                for e in inner.expressions() {
                    e.visit(&mut |part| reads += usize::from(part.is_name(&param.name)));
                }
                reads -= places;
            });
        }
        let is_unconditional = self.body.iter().any(|stmt| is_written_in(stmt, &is_own, indices));
        match reads == 0 && other_writes == 0 && own_writes > 0 && is_unconditional {
            true => "out ",
            false => "inout ",
        }
    }

    fn variables(&self, removed: &[String]) -> Vec<(String, ForeignType)> {
        let kept = self.params.iter().filter(|param| !removed.contains(&param.name));
        kept.map(|param| {
            let ty = match param.is_array {
                true => ForeignType::Array(param.element.clone()),
                false => ForeignType::scalar(&param.element),
            };
            (param.name.clone(), ty)
        })
        .collect()
    }
}

/// Gives shared arrays without an extent, `extern __shared__ float s[]`, an element for each thread of a block.
fn set_dynamic_extents(body: &mut [ForeignStmt]) {
    for stmt in body {
        if let StmtShape::Declare { is_shared: true, variables, .. } = &mut stmt.shape {
            let extents = variables.iter_mut().flat_map(|variable| &mut variable.extents);
            extents.filter(|extent| extent.is_name("")).for_each(|extent| *extent = ForeignExpr::Number("256".into()));
        }
    }
}

/// Returns the only variable that a statement declares.
fn declared_name(stmt: &ForeignStmt) -> Option<&str> {
    match &stmt.shape {
        StmtShape::Declare { variables, .. } => match &variables[..] {
            [variable] => Some(&variable.name),
            _ => None,
        },
        StmtShape::Bind(_, name, _) => Some(name),
        StmtShape::Assign(places, "", _) => match &places[..] {
            [ForeignExpr::Name(name)] => Some(name),
            _ => None,
        },
        _ => None,
    }
}

/// Returns whether a statement or one in its blocks declares a variable of this name.
fn declares_deeply(stmt: &ForeignStmt, name: &str) -> bool {
    let mut found = false;
    stmt.visit(&mut |inner| {
        found |= declared_name(inner) == Some(name)
            || matches!(&inner.shape, StmtShape::For(names, ..) if names.iter().any(|n| n == name));
    });
    found
}

/// Returns whether a statement of the body writes the thread's own element: itself, or in all branches of an `if`, or
/// in the branch of the block's first thread.
fn is_written_in(stmt: &ForeignStmt, is_own: &dyn Fn(&ForeignExpr) -> bool, indices: &[ThreadIndex]) -> bool {
    match &stmt.shape {
        StmtShape::Assign(places, ..) => places.iter().any(is_own),
        StmtShape::If(branches, otherwise) => {
            let all = |body: &[ForeignStmt]| body.iter().any(|stmt| is_written_in(stmt, is_own, indices));
            let is_guard = match &branches[..] {
                [(condition, _)] => {
                    let mut parts = Vec::new();
                    parts_of(condition, "&&", &mut parts);
                    parts.iter().all(|part| bound_of(part, "<", ">", indices).is_some())
                }
                _ => false,
            };
            let every = branches.iter().all(|(_, body)| all(body));
            let first_thread =
                matches!(&branches[..], [(ForeignExpr::Binary("==", _, zero), _)] if zero.integer() == Some(0));
            every && (all(otherwise) || first_thread || is_guard)
        }
        _ => false,
    }
}

/// Returns the key of the extent over which an index without a guard runs.
fn unguarded_key(index: &str) -> String {
    format!("index {index}")
}

/// Splits `a && b && c` into its parts.
fn parts_of(e: &ForeignExpr, op: &str, parts: &mut Vec<ForeignExpr>) {
    match e {
        ForeignExpr::Binary(own, a, b) if *own == op => {
            parts_of(a, op, parts);
            parts_of(b, op, parts);
        }
        other => parts.push(other.clone()),
    }
}

/// Returns whether a condition holds only for indices beyond their bounds.
fn outside(condition: &ForeignExpr, indices: &[ThreadIndex]) -> bool {
    let mut parts = Vec::new();
    parts_of(condition, "||", &mut parts);
    parts.iter().all(|part| bound_of(part, ">=", "<=", indices).is_some())
}

/// Returns the index and the bound of `i < n` or `n > i`.
fn bound_of(part: &ForeignExpr, op: &str, swapped: &str, indices: &[ThreadIndex]) -> Option<(usize, ForeignExpr)> {
    let ForeignExpr::Binary(own, a, b) = part else { return None };
    let (index, bound) = if *own == op {
        (a, b)
    } else if *own == swapped {
        (b, a)
    } else {
        return None;
    };
    let position = indices.iter().position(|known| index.is_name(&known.name))?;
    let is_extent = match &**bound {
        ForeignExpr::Name(_) | ForeignExpr::Number(_) | ForeignExpr::Field(..) => true,
        ForeignExpr::Index(base, _) => base.path().is_some_and(|path| path.ends_with(".shape")),
        ForeignExpr::Call(callee, _) => callee.is_name("len"),
        _ => false,
    };
    is_extent.then(|| (position, (**bound).clone()))
}

/// Notes the bound that a condition states; returns whether it states one.
fn note_bound(part: &ForeignExpr, op: &str, swapped: &str, indices: &mut [ThreadIndex]) -> bool {
    match bound_of(part, op, swapped, indices) {
        Some((position, bound)) => {
            let known = &mut indices[position].bound;
            let is_same = known.as_ref().is_none_or(|known| *known == bound);
            if is_same {
                *known = Some(bound);
            }
            is_same
        }
        None => false,
    }
}

/// Splits `row * length + column`, in any order.
fn row_and_column(e: &ForeignExpr) -> Option<(ForeignExpr, ForeignExpr, ForeignExpr)> {
    let ForeignExpr::Binary("+", a, b) = e else { return None };
    let product = |e: &ForeignExpr| match e {
        ForeignExpr::Binary("*", row, length) if matches!(**length, ForeignExpr::Name(_)) => {
            Some(((**row).clone(), (**length).clone()))
        }
        _ => None,
    };
    match (product(a), product(b)) {
        (Some((row, length)), _) => Some((row, length, (**b).clone())),
        (None, Some((row, length))) => Some((row, length, (**a).clone())),
        _ => None,
    }
}
