//! Pointers that refer to one of several arrays: `p = c ? a : b`, or `p` after a swap of `p` and `q`. A number selects
//! the array, and each access is an `if` over the arrays.

use super::arith::coerce;
use super::lower::{Facts, Lower};
use super::overload::Chosen;
use super::pointer::{index_of, same_base, same_expr};
use super::tree::{Expr, ExprKind, Stmt, StmtKind};
use super::types::{CType, ClkScalar, INT, LONG};
use super::value::{
    CppPlace, Denoted, PlaceKind, Pointer, PointerBase, PointerChoice, Res, Space, Value, VariableKey, refuse,
};
use crate::source::SourceSpan;
use std::rc::Rc;

/// The maximum number of arrays of one pointer.
pub(crate) const MAX_OPTIONS: usize = 4;

pub(crate) fn refuse_choice<T>(span: SourceSpan) -> Res<T> {
    refuse("this use of a pointer that refers to more than one array", span, "copy the code for each array")
}

/// Returns the choice through which a place is accessed.
pub(crate) fn choice_of(place: &CppPlace) -> Option<Rc<PointerChoice>> {
    match &place.kind {
        PlaceKind::At(Pointer { base: PointerBase::Choice(choice), .. }) => Some(choice.clone()),
        PlaceKind::At(Pointer { base: PointerBase::Object(place), .. })
        | PlaceKind::Field(place, _)
        | PlaceKind::Component(place, _) => choice_of(place),
        PlaceKind::At(_) | PlaceKind::Variable { .. } | PlaceKind::PointerVariable(_) => None,
    }
}

/// Returns the place in one of the arrays of a choice.
pub(crate) fn in_option(place: &CppPlace, option: &Pointer) -> CppPlace {
    let kind = match &place.kind {
        PlaceKind::At(pointer @ Pointer { base: PointerBase::Choice(_), .. }) => {
            PlaceKind::At(Pointer { base: option.base.clone(), ..pointer.clone() })
        }
        PlaceKind::At(pointer @ Pointer { base: PointerBase::Object(inner), .. }) => {
            let base = PointerBase::Object(Box::new(in_option(inner, option)));
            PlaceKind::At(Pointer { base, ..pointer.clone() })
        }
        PlaceKind::Field(base, field) => PlaceKind::Field(Box::new(in_option(base, option)), field.clone()),
        PlaceKind::Component(base, at) => PlaceKind::Component(Box::new(in_option(base, option)), *at),
        kind => kind.clone(),
    };
    CppPlace { kind, ..place.clone() }
}

fn is_null(pointer: &Pointer) -> bool {
    matches!(pointer.base, PointerBase::Null)
}

/// Returns whether two pointers refer to the same array, or both are null.
fn same_option(a: &Pointer, b: &Pointer) -> bool {
    same_base(a, b) || is_null(a) && is_null(b)
}

/// Compares a selector with the position of an array.
fn compare(selector: &Value, op: &'static str, at: usize, span: SourceSpan) -> Expr {
    Expr::binary(op, coerce(selector, ClkScalar::I32), Expr::int(at as i128, ClkScalar::I32, span), span)
}

/// Returns the arrays to which a pointer may refer, without an index.
fn options_of(pointer: &Pointer) -> Vec<Pointer> {
    let bare = |option: &Pointer| Pointer { unit: pointer.unit, to: pointer.to.clone(), index: None, ..option.clone() };
    match &pointer.base {
        PointerBase::Choice(choice) => choice.options.iter().map(bare).collect(),
        _ => vec![bare(pointer)],
    }
}

impl Facts {
    /// Forgets arrays that only earlier passes have stored in pointer variables.
    pub(crate) fn forget_stale_bases(&mut self) {
        let seen = std::mem::take(&mut self.seen_bases);
        if std::mem::take(&mut self.reset_bases) {
            self.bases.clear();
            self.changed = true;
            return;
        }
        let is_seen = |key: &VariableKey, option: &Pointer| {
            seen.get(key).is_some_and(|seen| seen.iter().any(|known| same_base(known, option)))
        };
        if !self.bases.iter().all(|(key, options)| options.iter().all(|option| is_seen(key, option))) {
            self.bases = seen;
            self.changed = true;
        }
    }
}

impl Lower<'_, '_> {
    /// Returns the arrays of a pointer variable. Null is the last one, if the pointer may be null.
    pub(crate) fn pointer_options(&self, key: VariableKey) -> Vec<Pointer> {
        let mut options = self.facts.bases.get(&key).cloned().unwrap_or_default();
        if self.facts.nullable.contains(&key) {
            let to = options.first().map_or(CType::Void, |first| first.to.clone());
            options.push(self.null_pointer(to));
        }
        options
    }

    /// Records the arrays of a pointer variable.
    pub(crate) fn note_base(&mut self, key: VariableKey, pointer: &Pointer, span: SourceSpan) -> Res<()> {
        let options = options_of(pointer);
        for option in options {
            if is_null(&option) {
                self.facts.changed |= self.facts.nullable.insert(key);
                continue;
            }
            if option.prefix.iter().any(|index| !index.stable) {
                return refuse("a pointer to a row that changes", span, "use an array with one axis");
            }
            let seen = self.facts.seen_bases.entry(key).or_default();
            if !seen.iter().any(|known| same_base(known, &option)) {
                seen.push(option.clone());
                let seen = seen.clone();
                self.check_options(&seen, span)?;
            }
            let known = self.facts.bases.entry(key).or_default();
            if !known.iter().any(|known| same_base(known, &option)) {
                self.facts.reset_bases |= known.iter().any(|known| has_new_form(known, &option));
                known.push(option);
                self.facts.changed = true;
            }
        }
        Ok(())
    }

    /// Refuses arrays between which one pointer cannot choose. Arrays of several axes become flat.
    fn check_options(&mut self, options: &[Pointer], span: SourceSpan) -> Res<()> {
        let arrays: Vec<&Pointer> = options.iter().filter(|option| !is_null(option)).collect();
        let Some(first) = arrays.first().filter(|_| options.len() > 1) else { return Ok(()) };
        for option in &arrays {
            let info = match &option.base {
                PointerBase::Array(info) => info,
                // The next pass has an array.
                PointerBase::Object(place) if self.note_pointed(place) => continue,
                PointerBase::Object(place) if self.facts.reset_bases && self.is_pointed(self.root(place)) => continue,
                _ => return refuse("a pointer that refers to several variables", span, "use an array"),
            };
            if info.axes > 1 {
                self.note_flat(info.key);
                continue;
            }
            if option.unit != first.unit || !option.prefix.is_empty() {
                return refuse(
                    "a pointer that refers to arrays of different forms",
                    span,
                    "copy the code for each array",
                );
            }
        }
        if options.len() > MAX_OPTIONS {
            let construct = format!("a pointer that refers to more than {MAX_OPTIONS} arrays");
            return refuse(construct, span, "use an array with one more axis");
        }
        Ok(())
    }

    /// Returns the position among `options` of the array to which a pointer refers.
    pub(crate) fn selected(&mut self, pointer: &Pointer, options: &[Pointer], span: SourceSpan) -> Res<Expr> {
        let position = |wanted: &Pointer| {
            let bare = Pointer { index: None, ..wanted.clone() };
            match options.iter().position(|option| same_option(option, &bare)) {
                Some(at) => Ok(Expr::int(at as i128, ClkScalar::I32, span)),
                None => refuse_choice(span),
            }
        };
        let PointerBase::Choice(choice) = &pointer.base else { return position(pointer) };
        let positions = options_of(pointer).iter().map(position).collect::<Res<Vec<Expr>>>()?;
        let is_same =
            |(at, position): (usize, &Expr)| matches!(position.kind, ExprKind::Int(own, _) if own == at as i128);
        if positions.iter().enumerate().all(is_same) {
            return Ok(coerce(&choice.selector, ClkScalar::I32));
        }
        by_selector(&choice.selector, positions.into_iter().enumerate(), span)
    }

    /// `condition ? a : b` for pointers into different arrays.
    pub(crate) fn choose_pointer(
        &mut self,
        condition: Value,
        a: Pointer,
        b: Pointer,
        span: SourceSpan,
    ) -> Res<Pointer> {
        let mut options: Vec<Pointer> = vec![];
        for pointer in [&a, &b] {
            for option in options_of(pointer) {
                if !options.iter().any(|known| same_option(known, &option)) {
                    options.push(option);
                }
            }
        }
        self.check_options(&options, span)?;
        let condition = self.spill(condition);
        let choose = |x: Expr, y: Expr| {
            Expr::new(ExprKind::If(Box::new(condition.expr.clone()), Box::new(x), Box::new(y)), span)
        };
        let (x, y) = (self.selected(&a, &options, span)?, self.selected(&b, &options, span)?);
        let selector = Value { stable: false, ..Value::new(INT, choose(x, y)) };
        let index = |pointer: &Pointer| index_of(pointer, span);
        let index = match (&a.index, &b.index) {
            (None, None) => None,
            _ => Some(Box::new(Value::new(LONG, choose(index(&a), index(&b))))),
        };
        let valid = if is_null(&a) { &b } else { &a };
        let (unit, to) = (valid.unit, valid.to.clone());
        let base = PointerBase::Choice(Rc::new(PointerChoice { selector, options }));
        Ok(Pointer { base, prefix: vec![], index, unit, to })
    }

    /// Returns whether a choice is not null.
    pub(crate) fn chooses_array(&mut self, choice: &PointerChoice, span: SourceSpan) -> Value {
        for option in &choice.options {
            if let PointerBase::Array(info) = &option.base
                && info.space == Space::Global
            {
                self.requirements.note(format!("the argument `{}` is not a null pointer", info.name), span);
            }
        }
        let Some(null) = choice.options.iter().position(is_null) else { return Value::bool(true, span) };
        let test = compare(&choice.selector, "!=", null, span);
        Value { stable: choice.selector.stable, ..Value::new(CType::Bool, test) }
    }

    /// Asserts that a choice is an array that exists here, and returns the positions of these arrays.
    pub(crate) fn arrays_of_choice(&mut self, choice: &PointerChoice, span: SourceSpan) -> Vec<usize> {
        let is_array = |own: &Self, option: &Pointer| !is_null(option) && own.exists_here(option);
        for (at, option) in choice.options.iter().enumerate() {
            if is_null(option) || self.exists_here(option) {
                continue;
            }
            let other = compare(&choice.selector, "!=", at, span);
            let text = Expr::new(ExprKind::Text("\"an access to a variable outside of its block\"".into()), span);
            self.push(StmtKind::Expr(Expr::call("assert", vec![other, text], span)), span);
        }
        if choice.options.iter().any(is_null) {
            let condition = self.chooses_array(choice, span);
            let text = Expr::new(ExprKind::Text("\"an access through a null pointer\"".into()), span);
            self.push(StmtKind::Expr(Expr::call("assert", vec![condition.expr, text], span)), span);
        }
        (0..choice.options.len()).filter(|&at| is_array(self, &choice.options[at])).collect()
    }

    pub(crate) fn load_choice(&mut self, place: &CppPlace, choice: &PointerChoice, span: SourceSpan) -> Res<Value> {
        let arrays = self.arrays_of_choice(choice, span);
        // The name is taken first, so that no variable in the blocks hides it.
        let name = self.fresh("t");
        let mut loads = vec![];
        for &at in &arrays {
            let inner = in_option(place, &choice.options[at]);
            loads.push((at, self.nested(|lower| lower.load(&inner))?));
        }
        let is_plain = loads.iter().all(|(_, (value, block))| block.is_empty() && !value.effect);
        let value = |value: &Value| super::arith::realize(value);
        if is_plain {
            self.release(&name);
            let values = loads.iter().map(|(at, (load, _))| (*at, value(load)));
            return Ok(Value::new(place.ty.clone(), by_selector(&choice.selector, values, span)?));
        }
        let result = Value::new(place.ty.clone(), Expr::name(name.clone(), span));
        let ty = self.value_type_text(&result);
        self.push(StmtKind::Declare { name, mutable: true, ty, value: None }, span);
        let blocks = loads.into_iter().map(|(at, (load, mut block))| {
            let kind = StmtKind::Assign { place: result.expr.clone(), op: "", value: value(&load) };
            block.push(Stmt { kind, span });
            (at, block)
        });
        let blocks = blocks.collect();
        self.push_choice(choice, blocks, span);
        Ok(result)
    }

    pub(crate) fn store_choice(
        &mut self,
        place: &CppPlace,
        choice: &PointerChoice,
        value: Value,
        span: SourceSpan,
    ) -> Res<()> {
        let value = if value.constant.is_some() { value } else { self.spill(value) };
        let mut blocks = vec![];
        for at in self.arrays_of_choice(choice, span) {
            let inner = in_option(place, &choice.options[at]);
            let ((), block) = self.nested(|lower| lower.store(&inner, value.clone(), span))?;
            blocks.push((at, block));
        }
        self.push_choice(choice, blocks, span);
        Ok(())
    }

    /// Runs code for the array that the selector names, and returns its result in a variable. `options` are positions
    /// among the arrays of the choice.
    pub(crate) fn for_each_option(
        &mut self,
        choice: &PointerChoice,
        options: &[usize],
        (name, span): (&str, SourceSpan),
        code: &mut dyn FnMut(&mut Self, &Pointer) -> Res<Denoted>,
    ) -> Res<Denoted> {
        // The name is taken first, so that no variable in the blocks hides it.
        let name = self.fresh(name);
        let mut result: Option<CType> = None;
        let mut blocks = vec![];
        for &at in options {
            let (denoted, mut block) = self.nested(|lower| code(lower, &choice.options[at]))?;
            match denoted {
                Denoted::Void => {}
                Denoted::Value(value) => {
                    let place = Expr::name(name.clone(), span);
                    let kind = StmtKind::Assign { place, op: "", value: super::arith::realize(&value) };
                    block.push(Stmt { kind, span });
                    result = Some(value.ty);
                }
                _ => return refuse_choice(span),
            }
            blocks.push((at, block));
        }
        let Some(ty) = result else {
            self.release(&name);
            self.push_choice(choice, blocks, span);
            return Ok(Denoted::Void);
        };
        let text = self.t.type_text(&ty);
        self.push(StmtKind::Declare { name: name.clone(), mutable: true, ty: text, value: None }, span);
        self.push_choice(choice, blocks, span);
        Ok(Denoted::Value(Value::new(ty, Expr::name(name, span))))
    }

    /// Calls a function for each array to which an argument may refer. `None` if no argument is such a pointer.
    pub(crate) fn call_with_choice(
        &mut self,
        chosen: &Chosen,
        this: Option<&CppPlace>,
        args: &[Denoted],
        span: SourceSpan,
    ) -> Res<Option<Denoted>> {
        for (at, arg) in args.iter().enumerate() {
            let pointer = match arg {
                Denoted::Pointer(pointer) => pointer.clone(),
                Denoted::Place(CppPlace { kind: PlaceKind::PointerVariable(_), .. }) => {
                    self.pointer_of(arg.clone(), span)?
                }
                _ => continue,
            };
            let PointerBase::Choice(choice) = &pointer.base else { continue };
            if choice.options.iter().any(|option| !is_null(option) && !self.exists_here(option)) {
                return refuse("a pointer to a variable of another block", span, "declare the variable before");
            }
            let mut args: Vec<Denoted> = args.to_vec();
            for arg in &mut args {
                if let Denoted::Value(value) = arg {
                    *arg = Denoted::Value(self.spill(value.clone()));
                }
            }
            let options: Vec<usize> = (0..choice.options.len()).collect();
            let call = &mut |lower: &mut Self, option: &Pointer| {
                let mut args = args.clone();
                args[at] = Denoted::Pointer(match is_null(option) {
                    true => lower.null_pointer(pointer.to.clone()),
                    false => Pointer { base: option.base.clone(), ..pointer.clone() },
                });
                lower.call_chosen(chosen.clone(), this.cloned(), args, span)
            };
            return self.for_each_option(choice, &options, ("t", span), call).map(Some);
        }
        Ok(None)
    }

    /// Runs the block of the array that the selector names. The last block needs no test.
    fn push_choice(&mut self, choice: &PointerChoice, blocks: Vec<(usize, Vec<Stmt>)>, span: SourceSpan) {
        let mut blocks = blocks.into_iter().rev();
        let Some((_, mut chain)) = blocks.next() else { return };
        for (at, then) in blocks {
            let condition = compare(&choice.selector, "==", at, span);
            chain = vec![Stmt { kind: StmtKind::If { condition, then, otherwise: chain }, span }];
        }
        if let Some(block) = self.blocks.last_mut() {
            block.extend(chain);
        }
    }
}

/// Returns whether two pointers refer to one array, whose name or elements have changed between passes.
fn has_new_form(old: &Pointer, new: &Pointer) -> bool {
    match (&old.base, &new.base) {
        (PointerBase::Array(x), PointerBase::Array(y)) => {
            x.key == y.key && !(same_expr(&x.expr, &y.expr) && x.axes == y.axes && x.element == y.element)
        }
        _ => false,
    }
}

/// Returns the expression with the position that the selector names. The last expression needs no test.
fn by_selector(
    selector: &Value,
    values: impl DoubleEndedIterator<Item = (usize, Expr)>,
    span: SourceSpan,
) -> Res<Expr> {
    let mut values = values.rev();
    let Some((_, last)) = values.next() else { return refuse_choice(span) };
    Ok(values.fold(last, |rest, (at, value)| {
        let condition = compare(selector, "==", at, span);
        Expr::new(ExprKind::If(Box::new(condition), Box::new(value), Box::new(rest)), span)
    }))
}
