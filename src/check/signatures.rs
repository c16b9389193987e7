//! Checks structs, constants, and the signatures of functions and kernels.

use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::build::is_literal;
use crate::context::{BodyKind, Cx, ScriptNames, SpaceRequirements};
use crate::format_types::Show;
use crate::infer::TypeClass;
use crate::names::NameRecords;
use crate::scopes::LocalMeaning;
use crate::typed::*;
use crate::types::DimContext;
use crate::{ast_names, const_eval, finish, scalar_count, solve_dims, suggestions};
use clk_base::diag::{Applicability, Diagnostic};
use clk_base::source::Span;
use clk_syntax::ast;

/// Checks the field types of a struct.
pub(crate) fn fields(
    program: &Program,
    module: ModuleId,
    def: &ast::Struct,
    consts: &mut ConstChecker<'_, '_>,
    found: &mut Vec<Diagnostic>,
) -> Vec<Field> {
    let mut cx = Cx::new(program, module, None, BodyKind::Signature);
    cx.script_names = Some(consts.names);
    let mut fields: Vec<Field> = Vec::with_capacity(def.fields.len());
    for f in &def.fields {
        let before = cx.diagnostics.len();
        let mut ty = fixed_type(&mut cx, &f.ty);
        if !is_field(&ty) {
            if cx.diagnostics.len() == before {
                let text = cx.ty_text(&ty);
                let d = Diagnostic::error("E0316", format!("a field can't be `{text}`")).at(
                    f.ty.span,
                    "fields are scalars, vectors, structs, tuples, or arrays whose extents are numbers above 0",
                );
                cx.report(d);
            }
            ty = Type::Error;
        }
        if let Some(before) = fields.iter().find(|o| o.name == f.name.text) {
            let d = Diagnostic::error("E0208", format!("the field `{}` is declared twice", f.name.text))
                .at(f.name.span, "again here")
                .because(before.span, "first here");
            cx.report(d);
        }
        fields.push(Field { name: f.name.text.clone(), ty, span: f.name.span, doc: f.doc.clone() });
    }
    found.append(&mut cx.diagnostics);
    consts.names_found.extend(cx.names_found.take().map(|records| *records));
    fields
}

/// Resolves a type whose extents must be known before functions are checked.
fn fixed_type(cx: &mut Cx<'_>, ty: &ast::Type) -> Type {
    let mut extents = Vec::new();
    let (before, ty) = (cx.diagnostics.len(), cx.ty(ty, &mut DimContext::Free(&mut extents)));
    let open = extents.iter().find_map(|extent| if let DeclaredExtent::Is(e) = extent { Some(e.span) } else { None });
    if let (Some(span), true) = (open, cx.diagnostics.len() == before) {
        let d = Diagnostic::error("E0316", "an extent that is not known early enough")
            .at(span, "types are checked before functions, and a function computes this")
            .help("write the number, or an expression of numbers and of constants that call no function");
        cx.report(d);
    }
    ty
}

fn is_field(ty: &Type) -> bool {
    match ty {
        Type::Array(array) => array.dims.iter().all(|dim| matches!(dim, Dim::Known(1..))),
        Type::Tuple(parts) => parts.iter().all(is_field),
        Type::Scalar(_) | Type::Vector(..) | Type::Struct(_) | Type::Error => true,
        _ => false,
    }
}

/// Reports structs that contain themselves, which would have infinite size.
pub(crate) fn endless_structs(program: &mut Program, ids: &[StructId], found: &mut Vec<Diagnostic>) {
    fn reaches(program: &Program, ty: &Type, goal: StructId, seen: &mut FxHashSet<StructId>) -> bool {
        match ty {
            Type::Struct(id) if *id == goal => true,
            Type::Struct(id) => {
                seen.insert(*id)
                    && program
                        .structs
                        .get(*id)
                        .is_some_and(|s| s.fields.iter().any(|f| reaches(program, &f.ty, goal, seen)))
            }
            Type::Tuple(parts) => parts.iter().any(|p| reaches(program, p, goal, seen)),
            Type::Array(array) => reaches(program, &array.element, goal, seen),
            _ => false,
        }
    }
    for &id in ids {
        let fields = program.structs[id].fields.clone();
        for (i, f) in fields.iter().enumerate() {
            if reaches(program, &f.ty, id, &mut FxHashSet::default()) {
                let d = Diagnostic::error("E0327", format!("`{}` would contain itself", program.structs[id].name))
                    .at(f.span, "this field contains the struct again")
                    .help("keep an index into an array instead");
                found.push(d);
                program.structs[id].fields[i].ty = Type::Error;
            }
        }
    }
    // Field types may refer to structs that are defined later, so this check runs after all structs have been read.
    for &id in ids {
        for i in 0..program.structs[id].fields.len() {
            let field = &program.structs[id].fields[i];
            if let Type::Array(array) = &field.ty
                && scalar_count::holds_array(program, &array.element)
            {
                found.push(scalar_count::not_an_element_error(
                    &Show { program, sig: None, vars: None }.ty(&array.element),
                    field.span,
                ));
                program.structs[id].fields[i].ty = Type::Error;
            }
        }
    }
}

/// The definition of a constant.
#[derive(Clone)]
pub(crate) struct ConstDef<'f> {
    name: &'f ast::Name,
    ty: ConstType<'f>,
    pub value: &'f ast::Expr,
}

/// The type that a constant is declared with.
#[derive(Clone)]
enum ConstType<'f> {
    Any,
    Written(&'f ast::Type),
    Is(Type),
}

impl<'f> ConstDef<'f> {
    pub fn of(def: &'f ast::Const) -> ConstDef<'f> {
        ConstDef { name: &def.name, ty: def.ty.as_ref().map_or(ConstType::Any, ConstType::Written), value: &def.value }
    }
}

/// Checks the constants of a file in dependency order. Constants that call functions are checked after the signatures
/// (`late`).
pub(crate) struct ConstChecker<'f, 'n> {
    pub defs: FxHashMap<ConstId, ConstDef<'f>>,
    /// The requirements of constants, defaults and signatures, including their calls.
    pub needs: Vec<SpaceRequirements>,
    /// The names that the checks recorded.
    pub names_found: Vec<NameRecords>,
    names: &'n ScriptNames,
    state: FxHashMap<ConstId, ConstState>,
    calls: FxHashMap<ConstId, bool>,
}

#[derive(Clone, Copy, PartialEq)]
enum ConstState {
    Busy,
    Done,
}

impl<'f, 'n> ConstChecker<'f, 'n> {
    pub fn new(defs: FxHashMap<ConstId, ConstDef<'f>>, names: &'n ScriptNames) -> Self {
        ConstChecker {
            defs,
            needs: vec![],
            names_found: vec![],
            names,
            state: FxHashMap::default(),
            calls: FxHashMap::default(),
        }
    }

    /// Checks the constants in the extents of struct fields. Structs are checked before all other constants.
    pub fn check_extents(
        &mut self,
        program: &mut Program,
        module: ModuleId,
        def: &ast::Struct,
        found: &mut Vec<Diagnostic>,
    ) {
        let mut ids = Vec::new();
        for field in &def.fields {
            ast_names::dims(&field.ty, &mut |dim| {
                ast_names::names(dim, &mut |name, _| {
                    if let Some(NameBinding::Const(id)) = program.modules[module].names.get(&name.text) {
                        ids.push(*id);
                    }
                });
            });
        }
        for id in ids {
            if !self.calls_functions(program, module, id) {
                self.check_one(program, module, id, found);
            }
        }
    }

    /// Checks the constants that call no user-defined function (`late` false), or all remaining ones.
    pub fn check(&mut self, program: &mut Program, module: ModuleId, late: bool, found: &mut Vec<Diagnostic>) {
        let mut ids: Vec<ConstId> = self.defs.keys().copied().collect();
        ids.sort();
        for id in ids {
            if late || !self.calls_functions(program, module, id) {
                self.check_one(program, module, id, found);
            }
        }
    }

    /// Returns whether a constant, or one that it depends on, calls a function. Each constant is examined once.
    fn calls_functions(&mut self, program: &Program, module: ModuleId, id: ConstId) -> bool {
        let mut open: Vec<ScannedConst> = self.reading(program, module, id).into_iter().collect();
        while let Some(top) = open.last_mut() {
            match top.needs.pop() {
                Some(need) => match self.calls.get(&need) {
                    Some(&known) => top.calls |= known,
                    None => open.extend(self.reading(program, module, need)),
                },
                None => {
                    let (id, calls) = (top.id, top.calls);
                    open.pop();
                    self.calls.insert(id, calls);
                    if let Some(outer) = open.last_mut() {
                        outer.calls |= calls;
                    }
                }
            }
        }
        self.calls.get(&id).is_some_and(|&calls| calls)
    }

    /// Scans the value of a constant for its dependencies. Returns `None` if it has been scanned already.
    fn reading(&mut self, program: &Program, module: ModuleId, id: ConstId) -> Option<ScannedConst> {
        let def = self.defs.get(&id)?;
        if self.calls.contains_key(&id) {
            return None;
        }
        // If the dependencies form a cycle, it is reported when the value is checked.
        self.calls.insert(id, false);
        let mut reading = ScannedConst { id, needs: vec![], calls: false };
        ast_names::names(def.value, &mut |name, _| match program.modules[module].names.get(&name.text) {
            Some(NameBinding::Fn(_) | NameBinding::Module(_)) => reading.calls = true,
            Some(NameBinding::Const(other)) => reading.needs.push(*other),
            _ => {}
        });
        Some(reading)
    }

    /// Checks a constant after the constants it depends on.
    fn check_one(&mut self, program: &mut Program, module: ModuleId, id: ConstId, found: &mut Vec<Diagnostic>) {
        let mut open: Vec<PendingConst<'_>> = self.pending(program, module, id).into_iter().collect();
        while let Some(top) = open.last_mut() {
            let id = top.id;
            match top.needs.pop() {
                Some((need, span)) if self.state.get(&need) == Some(&ConstState::Busy) => {
                    let name = &top.def.name;
                    let d = Diagnostic::error("E0327", format!("the value of `{}` depends on itself", name.text))
                        .at(span, "the circle closes here")
                        .because(name.span, "this constant");
                    found.push(d);
                    // Its value is not checked.
                    let mut cx = Cx::new(program, module, None, BodyKind::Const);
                    cx.script_names = Some(self.names);
                    cx.record_skipped(top.def.value);
                    if let ConstType::Written(ty) = &top.def.ty {
                        ast_names::dims(ty, &mut |dim| cx.record_skipped(dim));
                    }
                    self.names_found.extend(cx.names_found.take().map(|records| *records));
                }
                Some((need, _)) => {
                    open.extend(self.pending(program, module, need));
                    continue;
                }
                None => {
                    let (ty, value) = self.value(program, module, &top.def, found);
                    program.consts[id].ty = ty;
                    program.consts[id].const_value = const_eval::constant(program, &value);
                    program.consts[id].value = Arc::new(value);
                }
            }
            self.state.insert(id, ConstState::Done);
            open.pop();
        }
    }

    /// Starts checking a constant. Returns `None` if its check has been started already.
    fn pending(&mut self, program: &Program, module: ModuleId, id: ConstId) -> Option<PendingConst<'f>> {
        if self.state.contains_key(&id) {
            return None;
        }
        let def = self.defs.get(&id)?.clone();
        self.state.insert(id, ConstState::Busy);
        let mut needs = Vec::new();
        let mut need = |name: &ast::Name| {
            if let Some(NameBinding::Const(other)) = program.modules[module].names.get(&name.text) {
                needs.push((*other, name.span));
            }
        };
        ast_names::names(def.value, &mut |name, _| need(name));
        if let ConstType::Written(ty) = &def.ty {
            ast_names::dims(ty, &mut |dim| ast_names::names(dim, &mut |name, _| need(name)));
        }
        needs.reverse();
        Some(PendingConst { id, def, needs })
    }

    /// Checks the value of a constant whose dependencies have been checked. Returns its type and value.
    fn value(
        &mut self,
        program: &Program,
        module: ModuleId,
        def: &ConstDef<'_>,
        found: &mut Vec<Diagnostic>,
    ) -> (Type, Expr) {
        let mut cx = Cx::new(program, module, None, BodyKind::Const);
        cx.script_names = Some(self.names);
        let declared = match &def.ty {
            ConstType::Any => None,
            ConstType::Written(ty) => {
                let ty = fixed_type(&mut cx, ty);
                Some(if cx.diagnostics.is_empty() { ty } else { Type::Error })
            }
            ConstType::Is(ty) => Some(ty.clone()),
        };
        let mut value = match &declared {
            Some(ty) => cx.declared_value(def.value, ty),
            None => cx.expr(def.value, None),
        };
        finish::expr(&mut cx, &mut value);
        // The extents of an array are taken from its value, because the declared type may not specify them.
        let ty = declared.filter(|ty| !matches!((ty, &value.ty), (Type::Array(_), Type::Array(_))));
        let ty = ty.unwrap_or_else(|| value.ty.clone());
        let reason = match &ty {
            Type::Array(array) if array.dims.iter().all(|dim| matches!(dim, Dim::Known(1..))) => None,
            Type::Array(_) => Some("the extents of a constant array are numbers above 0"),
            _ if crate::build::is_text(&ty) && !cx.diagnostics.is_empty() => None,
            Type::Unit | Type::Never | Type::Range | Type::Str | Type::Strings => {
                Some("constants are scalars, vectors, structs, tuples or arrays of such")
            }
            _ => None,
        };
        if let Some(reason) = reason {
            let text = cx.ty_text(&ty);
            let d = Diagnostic::error("E0316", format!("a constant can't be `{text}`")).at(def.value.span, reason);
            cx.report(d);
        }
        found.append(&mut cx.diagnostics);
        self.needs.push(std::mem::take(&mut cx.needs));
        self.names_found.extend(cx.names_found.take().map(|records| *records));
        (ty, value)
    }
}

/// A constant being scanned: dependencies still to visit, and whether a function call was found.
struct ScannedConst {
    id: ConstId,
    needs: Vec<ConstId>,
    calls: bool,
}

/// A constant that is checked after its dependencies. The last one in the list is the next to be checked.
struct PendingConst<'f> {
    id: ConstId,
    def: ConstDef<'f>,
    needs: Vec<(ConstId, Span)>,
}

/// The syntax of a signature.
pub(crate) struct SignatureSyntax<'f> {
    pub generics: &'f [ast::Generic],
    pub params: &'f [ast::Param],
    pub result: Option<&'f ast::Type>,
    pub kernel: bool,
}

/// Checks a signature and its result type.
pub(crate) fn signature(
    program: &Program,
    module: ModuleId,
    src: &SignatureSyntax<'_>,
    consts: &mut ConstChecker<'_, '_>,
    found: &mut Vec<Diagnostic>,
) -> (Signature, Type) {
    let generics = generics(program, module, src.generics, consts, found);
    let partial = Signature { generics, ..Signature::default() };
    let mut cx = Cx::new(program, module, Some(&partial), BodyKind::Signature);
    cx.script_names = Some(consts.names);
    let (mut dims, mut exprs) = (Vec::new(), Vec::new());
    name_dims(&mut cx, src.params.iter().map(|p| &p.ty), &mut dims);
    name_inner_dims(&mut cx, src.params, &mut dims);
    let of_params = dims.len();
    name_dims(&mut cx, src.result.into_iter(), &mut dims);
    dims[of_params..].iter_mut().for_each(|dim| dim.of_result = true);
    let mut params: Vec<Param> = Vec::with_capacity(src.params.len());
    for p in src.params {
        let ty = cx.ty(&p.ty, &mut DimContext::Signature { dims: &mut dims, exprs: &mut exprs });
        let ty = param_type(&mut cx, p, ty, src.kernel);
        duplicate(&mut cx, &params, p);
        params.push(Param {
            name: p.name.text.clone(),
            access: p.access,
            ty,
            default: None,
            span: p.span,
            name_span: p.name.span,
        });
    }
    let result = match src.result {
        Some(t) => cx.ty(t, &mut DimContext::Signature { dims: &mut dims, exprs: &mut exprs }),
        None => Type::Unit,
    };
    found.append(&mut cx.diagnostics);
    consts.needs.push(std::mem::take(&mut cx.needs));
    consts.names_found.extend(cx.names_found.take().map(|records| *records));
    let sig = Signature { dims, dim_exprs: exprs, params, ..partial };
    if !src.kernel && found.is_empty() {
        undetermined(&sig, found);
    }
    (sig, result)
}

/// Checks the default values of parameters. Each becomes an anonymous constant that is checked with the constants of
/// the file. If the type of a parameter is a type parameter, its default must be a literal. Each call determines the
/// type of this literal.
pub(crate) fn defaults<'f>(
    program: &mut Program,
    module: ModuleId,
    written: &'f [ast::Param],
    sig: &mut Signature,
    consts: &mut ConstChecker<'f, '_>,
    found: &mut Vec<Diagnostic>,
) {
    let mut first: Option<&ast::Param> = None;
    for (i, p) in written.iter().enumerate() {
        let Some(value) = &p.default else {
            if let Some(first) = first.filter(|_| p.access != Access::Out) {
                found.push(missing_default(p, first));
            }
            continue;
        };
        first = first.or(Some(p));
        let Some(ty) = sig.params.get(i).map(|param| param.ty.clone()) else { continue };
        let invalid = has_invalid_default(program, module, p, &ty, sig, found);
        let literal = matches!(ty, Type::Param(_)) && !invalid;
        let default = if literal {
            ParamDefault::Literal(Arc::new(value.clone()))
        } else {
            let none = Expr { kind: ExprKind::Error, ty: Type::Error, span: value.span };
            let id = program.consts.push(Const {
                name: p.name.text.clone(),
                module,
                ty: ty.clone(),
                value: Arc::new(none),
                const_value: None,
                span: p.name.span,
                doc: None,
            });
            if !invalid {
                consts.defs.insert(id, ConstDef { name: &p.name, ty: ConstType::Is(ty), value });
            }
            ParamDefault::Const(id)
        };
        if let Some(param) = sig.params.get_mut(i) {
            param.default = Some(default);
        }
    }
}

fn missing_default(p: &ast::Param, first: &ast::Param) -> Diagnostic {
    let (name, before) = (&p.name.text, &first.name.text);
    Diagnostic::error("E0330", format!("`{name}` has no default, but `{before}` before it has one"))
        .at(p.span, "an argument for this parameter could also be for the other one")
        .because(first.span, "this may be left off")
        .help(format!("give `{name}` a default too, or move it before `{before}`"))
}

/// Returns whether the default of a parameter is invalid, and reports it if so.
fn has_invalid_default(
    program: &Program,
    module: ModuleId,
    p: &ast::Param,
    ty: &Type,
    sig: &Signature,
    found: &mut Vec<Diagnostic>,
) -> bool {
    let Some(value) = &p.default else { return false };
    let mut cx = Cx::new(program, module, Some(sig), BodyKind::Signature);
    let invalid = |title: String, label: &str| Diagnostic::error("E0330", title).at(value.span, label);
    let name = &p.name.text;
    let mut other = None;
    ast_names::names(value, &mut |used, _| {
        let text = &used.text;
        let param = sig.params.iter().any(|o| o.name == *text) || sig.dims.iter().any(|d| d.name == *text);
        if param || sig.generics.iter().any(|g| g.name == *text) {
            other = Some(used.span);
        }
    });
    let d = match ty {
        _ if p.access != Access::In => {
            invalid(format!("`{name}` is written, so it has no default"), "the written value would be lost")
                .help("an `out` array may be left off at a launch, which then returns it")
        }
        Type::Error => return true,
        _ if other.is_some() => {
            invalid(format!("the default of `{name}` depends on other arguments"), "a default is a constant")
                .because(other.unwrap_or(value.span), "this is known only in a call")
        }
        Type::Scalar(_) | Type::Vector(..) | Type::Struct(_) | Type::Tuple(_) => return false,
        Type::Param(_) if is_literal(value) => {
            let mut checked = cx.expr_as(value, ty);
            finish::expr(&mut cx, &mut checked);
            let invalid = !cx.diagnostics.is_empty();
            found.append(&mut cx.diagnostics);
            return invalid;
        }
        Type::Param(_) => invalid(
            format!("the default of `{name}` must be a number"),
            "the type of the parameter is known only in a call",
        ),
        _ => {
            let text = cx.ty_text(ty);
            invalid(
                format!("a parameter of type `{text}` has no default"),
                "defaults are scalars, vectors, structs or tuples",
            )
        }
    };
    found.push(d);
    true
}

/// Declares all dimensions that are single names. This precedes the check of dimension expressions, which can therefore
/// use the names in any order.
fn name_dims<'t>(cx: &mut Cx<'_>, types: impl Iterator<Item = &'t ast::Type>, dims: &mut Vec<DimName>) {
    for ty in types {
        ast_names::dims(ty, &mut |e| {
            if let ast::ExprKind::Name(name) = &e.kind {
                name_dim(cx, name, dims);
            }
        });
    }
}

/// Declares the dimensions that occur only inside of expressions; arguments may determine them.
fn name_inner_dims(cx: &mut Cx<'_>, params: &[ast::Param], dims: &mut Vec<DimName>) {
    for param in params {
        ast_names::dims(&param.ty, &mut |e| {
            solve_dims::names(e, &mut |name| {
                // If the name is that of a script variable, it refers to the variable and declares no dimension. This
                // use is an error, which is reported later.
                if !cx.is_unseen_variable(&name.text) {
                    name_dim(cx, name, dims);
                }
            });
        });
    }
}

fn name_dim(cx: &mut Cx<'_>, name: &ast::Name, dims: &mut Vec<DimName>) {
    let is_const = matches!(cx.module.names.get(&name.text), Some(NameBinding::Const(_) | NameBinding::Error));
    if name.text != "_" && !is_const && !cx.scopes.contains(&name.text) {
        dims.push(DimName { name: name.text.clone(), span: name.span, of_result: false });
        cx.scopes.bind(name.text.clone(), LocalMeaning::Dim(dims.len() as u32 - 1));
        cx.record_dim(dims.len() - 1, name.span);
    }
}

/// Reports dimensions of a function that its arguments do not determine. (A launch can pass the dimensions of a kernel
/// by name.)
fn undetermined(sig: &Signature, found: &mut Vec<Diagnostic>) {
    let order = solve_dims::order(sig);
    let dims = sig.dims.iter().enumerate();
    for (_, dim) in dims.filter(|(i, dim)| !dim.of_result && dim.name != "_" && order.open.contains(&(*i as u32))) {
        let d = Diagnostic::error("E0412", format!("nothing fixes the dimension `{}`", dim.name));
        let d = d.at(dim.span, "no extent determines it");
        found.push(d.help(format!("take it as a parameter: `const {}: i32`", dim.name)));
    }
}

fn param_type(cx: &mut Cx<'_>, p: &ast::Param, ty: Type, kernel: bool) -> Type {
    // A function may have an `inout` parameter that is not an array. A kernel may not, because its threads share only
    // arrays.
    let is_inout = p.access == Access::InOut && !kernel;
    if p.access != Access::In && !is_inout && !matches!(ty, Type::Array(_) | Type::Error) {
        let word = if p.access == Access::Out { "out" } else { "inout" };
        let d = Diagnostic::error("E0316", format!("only an array can be `{word}`"))
            .at(p.span, format!("this is `{}`", cx.ty_text(&ty)))
            .help(
                "a single result is an array of one element: `out total: [f32; 1]`, or `inout total: [f32; 1]` if all \
                 threads add to it, `atomic_add(total[0], v)`",
            );
        cx.report(d);
    }
    let is_allowed = match &ty {
        Type::Scalar(_)
        | Type::Vector(..)
        | Type::Param(_)
        | Type::Array(_)
        | Type::Struct(_)
        | Type::Tuple(_)
        | Type::Error => true,
        Type::Str | Type::Strings => !kernel,
        _ => false,
    };
    if !is_allowed {
        let text = cx.ty_text(&ty);
        let text_in_kernel = kernel && matches!(ty, Type::Str | Type::Strings);
        let mut d = Diagnostic::error("E0316", format!("a parameter can't be `{text}`")).at(
            p.ty.span,
            if text_in_kernel { "text exists on the host only" } else { "not a plain value or an array" },
        );
        if matches!(ty, Type::Fn(_)) {
            let name = &p.name.text;
            d = d.help(format!(
                "a function is a compile-time parameter, `<{name}: {text}>`, which a call passes by name: `{name} = …`"
            ));
        }
        if text_in_kernel {
            d = d.help("kernels take numbers: `parse(f32, text)` reads one from a text, or from each text of an array");
        }
        cx.report(d);
        return Type::Error;
    }
    ty
}

fn duplicate(cx: &mut Cx<'_>, params: &[Param], p: &ast::Param) {
    let twice = params.iter().find(|o| o.name == p.name.text && o.name != "_").map(|o| o.span);
    let shadows = cx.scopes.contains(&p.name.text);
    if let Some(before) = twice {
        let d = Diagnostic::error("E0208", format!("the parameter `{}` is declared twice", p.name.text))
            .at(p.name.span, "again here")
            .because(before, "first here");
        cx.report(d);
    } else if shadows {
        let d = Diagnostic::error(
            "E0208",
            format!("`{}` already names a dimension or a compile-time parameter", p.name.text),
        )
        .at(p.name.span, "the same name again");
        cx.report(d);
    }
}

fn generics(
    program: &Program,
    module: ModuleId,
    list: &[ast::Generic],
    consts: &mut ConstChecker<'_, '_>,
    found: &mut Vec<Diagnostic>,
) -> Vec<Generic> {
    let mut out: Vec<Generic> = Vec::with_capacity(list.len());
    for g in list {
        let so_far = Signature { generics: out.clone(), ..Signature::default() };
        let mut cx = Cx::new(program, module, Some(&so_far), BodyKind::Signature);
        cx.script_names = Some(consts.names);
        let kind = generic_kind(&mut cx, g);
        if let Some(before) = out.iter().find(|o| o.name == g.name.text) {
            let d = Diagnostic::error("E0208", format!("`{}` is declared twice", g.name.text))
                .at(g.name.span, "again here")
                .because(before.span, "first here");
            cx.report(d);
        }
        found.append(&mut cx.diagnostics);
        consts.needs.push(std::mem::take(&mut cx.needs));
        consts.names_found.extend(cx.names_found.take().map(|records| *records));
        drop(cx);
        out.push(Generic { name: g.name.text.clone(), kind, span: g.span, name_span: g.name.span });
    }
    out
}

fn generic_kind(cx: &mut Cx<'_>, g: &ast::Generic) -> GenericKind {
    match &g.kind {
        ast::GenericKind::Type { bound } => GenericKind::Type { bound: bound_named(cx, bound.as_ref()) },
        ast::GenericKind::Const { ty, default } => {
            let ty = cx.ty(ty, &mut DimContext::Free(&mut vec![]));
            if !matches!(ty, Type::Scalar(_) | Type::Param(_) | Type::Error) {
                let text = cx.ty_text(&ty);
                let d = Diagnostic::error("E0316", format!("a compile-time constant can't be `{text}`"))
                    .at(g.span, "a scalar type is expected");
                cx.report(d);
            }
            let default = default.as_ref().map(|e| {
                if matches!(ty, Type::Param(_)) && !is_literal(e) {
                    let title = format!("the default of `{}` must be a number", g.name.text);
                    let d = Diagnostic::error("E0330", title);
                    cx.report(d.at(e.span, "the type of the parameter is known only in a call"));
                }
                let mut e = cx.expr_as(e, &ty);
                finish::expr(cx, &mut e);
                Arc::new(e)
            });
            GenericKind::Const { ty, default }
        }
        ast::GenericKind::Fn { ty, default } => {
            let ty = match cx.ty(ty, &mut DimContext::Free(&mut vec![])) {
                Type::Fn(f) => f,
                _ => cx.fn_type(vec![], Type::Error),
            };
            let default = default.as_ref().and_then(|e| cx.fn_argument(e, &ty).ok());
            GenericKind::Fn { ty, default }
        }
    }
}

fn bound_named(cx: &mut Cx<'_>, bound: Option<&ast::Name>) -> TypeBound {
    let Some(name) = bound else { return TypeBound::Any };
    match name.text.as_str() {
        "Any" => TypeBound::Any,
        "Num" => TypeBound::Num,
        "Int" => TypeBound::Int,
        "Float" => TypeBound::Float,
        word => {
            let mut d = Diagnostic::error("E0204", format!("there is no bound `{word}`"))
                .at(name.span, "a bound is `Any`, `Num`, `Int` or `Float`");
            let near = match word {
                "Number" | "Numeric" => Some("Num"),
                "Integer" => Some("Int"),
                "Real" | "Floating" => Some("Float"),
                _ => suggestions::nearest(word, ["Any", "Num", "Int", "Float"].into_iter()),
            };
            if let Some(near) = near {
                d = d.fix(format!("write `{near}`"), name.span, near, Applicability::MaybeIncorrect);
            }
            cx.report(d);
            TypeBound::Any
        }
    }
}

/// Checks `threads(…)` or `grid(…) block(…)` in the kernel's scope.
pub(crate) fn geometry(cx: &mut Cx<'_>, g: &ast::Geometry) -> Geometry {
    match g {
        ast::Geometry::Threads { indices, block, span } => {
            too_many(cx, indices.len(), "indices", *span);
            let extents: Vec<Expr> = indices.iter().map(|(_, e)| extent(cx, e)).collect();
            let block = block.as_ref().map(|b| block_extents(cx, b, *span));
            let indices: Vec<LocalId> = indices
                .iter()
                .map(|(name, _)| cx.declare(name, crate::build::I32, false, LocalKind::ThreadIndex, None))
                .collect();
            for (index, extent) in indices.iter().zip(&extents) {
                if let (Some(info), ExprKind::Dim(dim)) = (cx.local_info(*index), &extent.kind) {
                    info.dim_of_range = Some(*dim);
                }
            }
            Geometry::Threads { indices, extents, block, span: *span }
        }
        ast::Geometry::Grid { grid, block, span } => {
            too_many(cx, grid.len(), "extents of the grid", *span);
            let grid = grid.iter().map(|e| extent(cx, e)).collect();
            let block = block_extents(cx, block, *span);
            Geometry::Grid { grid, block, span: *span }
        }
        ast::Geometry::Missing(span) => Geometry::Grid { grid: vec![], block: vec![], span: *span },
    }
}

fn block_extents(cx: &mut Cx<'_>, block: &[ast::Expr], span: Span) -> Vec<Expr> {
    too_many(cx, block.len(), "extents of the block", span);
    let block: Vec<Expr> = block.iter().map(|e| extent(cx, e)).collect();
    let threads = block.iter().try_fold(1i64, |n, e| n.checked_mul(crate::const_eval::int(cx, e)?));
    cx.divergence.has_blocks_of_one_thread = threads == Some(1);
    if let Some(n) = threads.filter(|n| *n > 1024 || *n < 1) {
        let d = Diagnostic::error("E0408", format!("a block can't have {n} threads"))
            .at(block.first().map_or(span, |b| b.span), "a block has 1 to 1024 threads in all")
            .help("take smaller blocks and more of them: `block(256)`, `block(16, 16)` or `block(8, 8, 4)`");
        cx.report(d);
    }
    block
}

fn too_many(cx: &mut Cx<'_>, n: usize, what: &str, span: Span) {
    if n > 3 || n == 0 {
        let d =
            Diagnostic::error("E0408", format!("{n} {what} can't be launched")).at(span, "one to three are possible");
        cx.report(d);
    }
}

fn extent(cx: &mut Cx<'_>, e: &ast::Expr) -> Expr {
    let i32 = crate::build::I32;
    let (before, reads) = (cx.diagnostics.len(), cx.initialization.early_reads.len());
    if let ast::ExprKind::Range { start, end, .. } = &e.kind {
        return ranged_extent(cx, e, start.as_deref(), end.as_deref());
    }
    let e = cx.expr(e, Some(&i32));
    cx.initialization.early_reads.truncate(reads);
    if cx.diagnostics.len() == before
        && cx.uniform(&e, "the geometry", "E0408")
        && cx.require_kind(&e, TypeClass::Int, "an extent")
    {
        cx.coerce(&e, &i32, None);
    }
    e
}

/// Reports `threads(i: 0..N)`. An extent is not a range: it is the exclusive end of an index, which always starts at 0.
fn ranged_extent(cx: &mut Cx<'_>, e: &ast::Expr, start: Option<&ast::Expr>, end: Option<&ast::Expr>) -> Expr {
    let d = Diagnostic::error("E0408", "an extent is a number, not a range")
        .at(e.span, "an index always counts from 0")
        .help("`threads(i: N)` runs the body for every `i` from 0 to N - 1");
    let zero = start.is_some_and(|s| matches!(s.kind, ast::ExprKind::Int { value: 0, .. }));
    let d = match end.filter(|_| zero) {
        Some(end) => {
            let before = Span { end: end.span.start, ..e.span };
            d.fix("leave the start off", before, "", Applicability::MaybeIncorrect)
        }
        None => d,
    };
    cx.report(d);
    cx.bad(e.span)
}
