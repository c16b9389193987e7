//! How functions use their parameters and variables: which are assigned, indexed or counted with. This decides between
//! `let` and `var`, and the types of parameters that state none.

use super::statements::positional;
use super::tree::{ForeignArgument, ForeignExpr, ForeignFunction, ForeignParameter, ForeignStmt, StmtShape, Subscript};
use super::value_types::{ForeignScope, ForeignType};
use std::collections::HashMap;

/// Returns a parameter with a type: the stated one, or the one that its uses suggest.
pub(super) fn inferred(param: &ForeignParameter, function: &ForeignFunction, scope: &ForeignScope) -> ForeignParameter {
    const COUNTS: [&str; 14] =
        ["n", "m", "k", "i", "j", "count", "num", "size", "width", "height", "steps", "depth", "index", "idx"];
    let mut param = param.clone();
    if !param.element.is_empty() {
        return param;
    }
    let (mut rank, mut is_count) = (0, COUNTS.contains(&param.name.as_str()));
    let mut note = |e: &ForeignExpr| match e {
        ForeignExpr::Index(base, subscripts) if base.is_name(&param.name) => rank = rank.max(subscripts.len()),
        ForeignExpr::Index(_, subscripts) => {
            is_count |= subscripts.iter().any(|s| matches!(s, Subscript::Element(e) if e.is_name(&param.name)));
        }
        ForeignExpr::Call(callee, args) => {
            let takes = args.first().is_some_and(|arg| arg.value.is_name(&param.name));
            let path = callee.path().unwrap_or_default();
            match path.rsplit('.').next().unwrap_or("") {
                "len" | "sum" | "mean" | "argmax" | "argmin" | "sort" | "sorted" | "dot" | "cumsum" | "enumerate"
                | "zip"
                    if takes =>
                {
                    rank = rank.max(1);
                }
                "max" | "min" if takes && args.iter().filter(|arg| arg.name.is_none()).count() == 1 => {
                    rank = rank.max(1)
                }
                "range" => is_count |= args.iter().any(|arg| arg.value.uses(&param.name)) && rank == 0,
                _ => {}
            }
            if let ForeignExpr::Field(base, method) = &**callee
                && base.is_name(&param.name)
                && !matches!(method.as_str(), "format")
            {
                rank = rank.max(1);
            }
        }
        ForeignExpr::Field(base, field) if base.is_name(&param.name) => match field.as_str() {
            "shape" | "T" => rank = rank.max(2),
            "size" => rank = rank.max(1),
            _ => {}
        },
        _ => {}
    };
    for stmt in &function.body {
        stmt.visit(&mut |inner| {
            if let StmtShape::For(_, elements, _) = &inner.shape
                && elements.is_name(&param.name)
            {
                note(&ForeignExpr::Call(
                    Box::new(ForeignExpr::name("len")),
                    vec![ForeignArgument { name: None, value: elements.clone() }],
                ));
            }
            inner.expressions().iter().for_each(|e| e.visit(&mut |part| note(part)));
        });
    }
    let default = param.default.as_ref().map(|value| scope.type_of(value)).unwrap_or_default();
    param.is_array = rank > 0;
    let is_text = ["name", "title", "label", "text", "message", "msg", "path", "word"].contains(&param.name.as_str());
    param.element = match default.scalar_name() {
        None if is_text && rank == 0 => "str".to_owned(),
        Some(name) => name.to_owned(),
        None if is_count && rank == 0 => "i32".to_owned(),
        None => "f32".to_owned(),
    };
    if rank > 1 {
        let names = ["M", "N", "K", "L"];
        param.extents = names.iter().take(rank).map(|name| ForeignExpr::name(name)).collect();
    }
    param
}

/// Counts the assignments to each variable.
pub(super) fn count_assignments(stmt: &ForeignStmt, counts: &mut HashMap<String, usize>) {
    stmt.visit(&mut |inner| match &inner.shape {
        StmtShape::Declare { variables, .. } => {
            for variable in variables {
                *counts.entry(variable.name.clone()).or_default() += usize::from(variable.value.is_some());
            }
        }
        StmtShape::Assign(places, op, _) => {
            for place in places {
                let names = match place {
                    ForeignExpr::Tuple(parts) => parts.iter().filter_map(ForeignExpr::path).collect(),
                    ForeignExpr::Index(base, _) => base.path().into_iter().collect(),
                    other => Vec::from_iter(other.path()),
                };
                let is_element = matches!(place, ForeignExpr::Index(..));
                for name in names {
                    *counts.entry(name).or_default() += if op.is_empty() && !is_element { 1 } else { 2 };
                }
            }
        }
        StmtShape::Value(ForeignExpr::Call(callee, _)) => {
            if let ForeignExpr::Field(base, method) = &**callee
                && matches!(method.as_str(), "append" | "push")
                && let Some(name) = base.path()
            {
                *counts.entry(name).or_default() += 2;
            }
        }
        _ => {}
    });
}

/// Returns whether a statement assigns to elements of an array or appends to it.
pub(super) fn changes_elements(stmt: &ForeignStmt, name: &str) -> bool {
    let mut changes = false;
    stmt.visit(&mut |inner| {
        changes |= match &inner.shape {
            StmtShape::Assign(places, ..) => {
                places.iter().any(|place| !matches!(place, ForeignExpr::Name(_)) && place.base().is_name(name))
            }
            StmtShape::Value(ForeignExpr::Call(callee, args)) => {
                let is_append = matches!(&**callee, ForeignExpr::Field(base, method)
                    if matches!(method.as_str(), "append" | "push") && base.is_name(name));
                let is_atomic = callee.path().is_some_and(|path| path.contains("atomic"));
                is_append || is_atomic && args.first().is_some_and(|arg| arg.value.base().is_name(name))
            }
            _ => false,
        }
    });
    changes
}

/// Returns whether a float is added to a variable.
pub(super) fn added_float(name: &str, stmts: &[ForeignStmt], scope: &ForeignScope) -> bool {
    let mut scope = scope.clone();
    infer_locals(stmts, &mut scope);
    is_float_sum(name, stmts, &scope)
}

/// Adds the known types of the variables that statements declare.
pub(super) fn infer_locals(stmts: &[ForeignStmt], scope: &mut ForeignScope) {
    for stmt in stmts {
        stmt.visit(&mut |inner| match &inner.shape {
            StmtShape::Declare { ty, variables, .. } => {
                for variable in variables {
                    let ty = match (&variable.value, variable.extents.is_empty()) {
                        (_, false) => ForeignType::Array(ty.clone()),
                        (Some(value), true) if ty.is_empty() => scope.type_of(value),
                        _ => ForeignType::scalar(ty),
                    };
                    scope.variables.insert(variable.name.clone(), ty);
                }
            }
            StmtShape::Assign(places, "", value) => {
                for place in places {
                    match (place, value) {
                        (ForeignExpr::Name(name), _) if !scope.declares(name) => {
                            let ty = scope.type_of(value);
                            let ty = match ty {
                                ForeignType::Integer if !is_float_sum(name, stmts, scope) => ForeignType::scalar("i32"),
                                ForeignType::Integer | ForeignType::Decimal => ForeignType::scalar("f32"),
                                other => other,
                            };
                            scope.variables.insert(name.clone(), ty);
                        }
                        (ForeignExpr::Tuple(names), ForeignExpr::Tuple(values)) => {
                            for (name, value) in names.iter().zip(values) {
                                if let ForeignExpr::Name(name) = name
                                    && !scope.declares(name)
                                {
                                    let ty = scope.type_of(value);
                                    let ty = if ty == ForeignType::Integer { ForeignType::scalar("i32") } else { ty };
                                    scope.variables.insert(name.clone(), ty);
                                }
                            }
                        }
                        _ => {}
                    }
                }
            }
            StmtShape::For(names, elements, _) => {
                let is_range = match elements {
                    ForeignExpr::Range(..) => true,
                    ForeignExpr::Call(callee, _) => callee.path().is_some_and(|path| path.ends_with("range")),
                    _ => false,
                };
                let arrays: Vec<ForeignType> = match elements {
                    ForeignExpr::Call(callee, args) if callee.is_name("zip") => {
                        args.iter().map(|arg| scope.type_of(&arg.value)).collect()
                    }
                    ForeignExpr::Call(callee, args) if callee.is_name("enumerate") => {
                        let first = args.first().map(|arg| scope.type_of(&arg.value)).unwrap_or_default();
                        vec![ForeignType::Array("i32".into()), first]
                    }
                    other => vec![scope.type_of(other)],
                };
                for (index, name) in names.iter().enumerate() {
                    let ty = match arrays.get(index) {
                        _ if is_range => ForeignType::scalar("i32"),
                        Some(ForeignType::Array(element)) => ForeignType::scalar(element),
                        _ => ForeignType::Unknown,
                    };
                    scope.variables.insert(name.clone(), ty);
                }
            }
            _ => {}
        });
    }
}

/// Returns whether a float is added to a variable that starts as an integer, judged by the variables known so far.
fn is_float_sum(name: &str, stmts: &[ForeignStmt], scope: &ForeignScope) -> bool {
    let mut scope = scope.clone();
    scope.variables.insert(name.to_owned(), ForeignType::Integer);
    let mut found = false;
    for stmt in stmts {
        stmt.visit(&mut |inner| {
            if let StmtShape::For(names, elements, _) = &inner.shape
                && let (ForeignType::Array(element), [name]) = (scope.type_of(elements), &names[..])
            {
                scope.variables.insert(name.clone(), ForeignType::Scalar(element));
            }
            if let StmtShape::Assign(places, op, value) = &inner.shape
                && places.iter().any(|place| place.is_name(name))
            {
                found |= scope.type_of(value).is_float() || *op == "/";
            }
        });
    }
    found
}

/// Returns the element type of a list to which later statements append.
pub(super) fn appended_type(name: &str, later: &[ForeignStmt], scope: &ForeignScope) -> String {
    let mut scope = scope.clone();
    infer_locals(later, &mut scope);
    let mut ty = String::from("f32");
    for stmt in later {
        stmt.visit(&mut |inner| {
            if let StmtShape::Value(ForeignExpr::Call(callee, args)) = &inner.shape
                && matches!(&**callee, ForeignExpr::Field(base, method) if method == "append" && base.is_name(name))
                && let Some(value) = positional(args, 0)
                && let Some(found) = scope.type_of(value).scalar_name()
            {
                ty = found.to_owned();
            }
        });
    }
    ty
}
