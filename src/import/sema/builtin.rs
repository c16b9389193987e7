//! Functions of the CUDA headers: barriers, atomics, warp functions, conversions and bit operations. `math` has the
//! mathematical functions.

use super::arith::{bits, coerce, realize};
use super::lower::Lower;
use super::pointer_choice::{choice_of, in_option};
use super::resolve::header_name;
use super::tree::{Expr, ExprKind, Stmt, StmtKind};
use super::types::TemplateValue;
use super::types::{CType, ClkScalar, FLOAT, FloatKind, GroupKind, INT, IntKind, UINT, header_type};
use super::value::{CppPlace, Denoted, PlaceKind, Pointer, PointerBase, Res, Space, Value, refuse};
use crate::ast::{CppBinaryOp, CppExpr, CppExprKind, QualifiedName};
use crate::source::SourceSpan;

/// Functions without a translation, with a way around each.
const REFUSED: &[(&str, &str)] = &[
    (
        "__activemask",
        "CUDA does not define which lanes are active: compute the mask with `__ballot_sync(0xffffffff, condition)` before \
         the branch, or pass 0xffffffff if the whole warp gets here",
    ),
    ("clock", "measure the time of the launch"),
    ("clock64", "measure the time of the launch"),
    ("malloc", "pass an array to the kernel"),
    ("free", "pass an array to the kernel"),
    ("tex1Dfetch", "pass an array instead of a texture"),
    ("tex1D", "pass an array instead of a texture"),
    ("tex2D", "pass an array instead of a texture"),
    ("tex3D", "pass an array instead of a texture"),
    ("curand", "use random numbers that the host computes, or `std.random` of Clk"),
    ("curand_init", "use random numbers that the host computes, or `std.random` of Clk"),
    ("curand_uniform", "use random numbers that the host computes, or `std.random` of Clk"),
    ("curand_normal", "use random numbers that the host computes, or `std.random` of Clk"),
];

/// The assumption of kernels with atomic functions of block scope: Clk's atomics order all threads, so races between
/// blocks through such functions are not found.
pub(crate) const BLOCK_SCOPE: &str = "atomic functions of block scope, such as `atomicAdd_block`, have device scope";

impl<'a> Lower<'_, 'a> {
    pub(crate) fn call_builtin(
        &mut self,
        name: &'a QualifiedName,
        args: &'a [CppExpr],
        span: SourceSpan,
    ) -> Res<Denoted> {
        let text: Vec<_> = name.segments.iter().map(|segment| segment.name.text.as_str()).collect();
        if let Some(value) = self.numeric_limit(name, span)? {
            return Ok(Denoted::Value(value));
        }
        let Some(last) = header_name(name) else {
            return refuse(format!("the function `{}`", text.join("::")), span, "define it in this file");
        };
        let last = match last.as_str() {
            "__builtin_memcpy" => "memcpy",
            "__builtin_memmove" => "memmove",
            "__builtin_memset" => "memset",
            other => other,
        };
        if let Some((_, help)) = REFUSED.iter().find(|(known, _)| *known == last) {
            return refuse(format!("`{last}`"), span, help);
        }
        if let Some(ty) = last.strip_prefix("make_").and_then(header_type) {
            let items: Vec<_> = args.iter().collect();
            return Ok(Denoted::Value(self.construct(&ty, &items, false, span)?));
        }
        if let Some(denoted) = self.call_annotation(last, args, span)? {
            return Ok(denoted);
        }
        if let Some(denoted) = self.call_synchronization(last, args, span)? {
            return Ok(denoted);
        }
        if let Some(op) = last.strip_prefix("atomic") {
            let (op, has_block_scope) = match op.strip_suffix("_block") {
                Some(op) => (op, true),
                None => (op.trim_end_matches("_system"), false),
            };
            return self.call_atomic(op, has_block_scope, args, span);
        }
        if let ("__nv_atomic_load_n", [address, CppExpr { kind: CppExprKind::Name(_), .. }, rest @ ..]) = (last, args) {
            let has_device_scope = rest.iter().all(|scope| {
                matches!(&scope.kind, CppExprKind::Name(name)
                    if header_name(name).is_some_and(|name| matches!(name.as_str(),
                        "__NV_THREAD_SCOPE_DEVICE" | "__NV_THREAD_SCOPE_SYSTEM")))
            });
            return self.call_atomic("Load", !has_device_scope, std::slice::from_ref(address), span);
        }
        if let Some(denoted) = self.call_warp(last, args, span)? {
            return Ok(denoted);
        }
        if let Some(denoted) = self.call_bits(last, args, span)? {
            return Ok(denoted);
        }
        if let Some(denoted) = self.call_cooperative(last, name, args, span)? {
            return Ok(denoted);
        }
        if let Some(value) = self.call_math(last, args, span)? {
            return Ok(Denoted::Value(value));
        }
        refuse(format!("the function `{}`", text.join("::")), span, "define it in this file")
    }

    /// `std::numeric_limits<T>::max()` and the like.
    fn numeric_limit(&mut self, name: &'a QualifiedName, span: SourceSpan) -> Res<Option<Value>> {
        let [.., class, function] = name.segments.as_slice() else { return Ok(None) };
        if class.name.text != "numeric_limits" {
            return Ok(None);
        }
        let Some([arg]) = class.args.as_deref() else { return Ok(None) };
        let TemplateValue::Type(ty) = self.template_arg(arg)? else { return Ok(None) };
        let single = ty == FLOAT;
        let number = match (&ty, function.name.text.as_str()) {
            (CType::Float(FloatKind::Float | FloatKind::Double), function) => match function {
                "max" => {
                    if single {
                        f64::from(f32::MAX)
                    } else {
                        f64::MAX
                    }
                }
                "lowest" => {
                    if single {
                        f64::from(f32::MIN)
                    } else {
                        f64::MIN
                    }
                }
                "min" => {
                    if single {
                        f64::from(f32::MIN_POSITIVE)
                    } else {
                        f64::MIN_POSITIVE
                    }
                }
                "epsilon" => {
                    if single {
                        f64::from(f32::EPSILON)
                    } else {
                        f64::EPSILON
                    }
                }
                "infinity" => f64::INFINITY,
                "quiet_NaN" => f64::NAN,
                _ => return Ok(None),
            },
            (other, function) if other.is_integer() => {
                let (low, high) = self.scalar_of(&ty, span)?.limits();
                let number = match function {
                    "max" => high,
                    "min" | "lowest" => low,
                    _ => return Ok(None),
                };
                return Ok(Some(Value::int(number, ty, span)));
            }
            _ => return Ok(None),
        };
        Ok(Some(Value::float(number, ty, span)))
    }

    pub(crate) fn void_call(&mut self, clk: &str, args: Vec<Expr>, span: SourceSpan) -> Res<Denoted> {
        self.requirements.effect = true;
        self.push(StmtKind::Expr(Expr::call(clk, args, span)), span);
        Ok(Denoted::Void)
    }

    fn effect_value(&mut self, ty: CType, expr: Expr) -> Denoted {
        self.requirements.effect = true;
        Denoted::Value(Value { effect: true, ..Value::new(ty, expr) })
    }

    fn call_synchronization(&mut self, name: &str, args: &'a [CppExpr], span: SourceSpan) -> Res<Option<Denoted>> {
        Ok(Some(match (name, args) {
            ("__syncthreads", []) => self.void_call("barrier", vec![], span)?,
            ("__threadfence" | "__threadfence_system", []) => self.void_call("fence", vec![], span)?,
            ("__threadfence_block", []) => self.void_call("fence_block", vec![], span)?,
            ("__syncwarp", []) => self.void_call("warp_barrier", vec![], span)?,
            ("__syncwarp", [mask]) => {
                let mask = self.operand(mask)?;
                let mask = self.convert(mask, &UINT, span)?;
                if mask.constant_int() != Some(0xffff_ffff) {
                    return refuse("`__syncwarp` of a part of a warp", span, "synchronize the whole warp");
                }
                self.void_call("warp_barrier", vec![], span)?
            }
            ("__syncthreads_or" | "__syncthreads_and" | "__syncthreads_count", [predicate]) => {
                let predicate = self.condition(predicate)?;
                let clk = match name {
                    "__syncthreads_or" => "barrier_any",
                    "__syncthreads_and" => "barrier_all",
                    _ => "barrier_count",
                };
                let call = Expr::call(clk, vec![predicate.expr], span);
                if clk == "barrier_count" {
                    self.effect_value(INT, call)
                } else {
                    let converted = Expr::call("i32", vec![call], span);
                    self.effect_value(INT, converted)
                }
            }
            ("__trap" | "abort", []) => {
                let no = Expr::new(ExprKind::Bool(false), span);
                self.void_call("assert", vec![no], span)?
            }
            ("assert", [condition]) => {
                // `assert(p && "text")`
                let condition = match &condition.kind {
                    CppExprKind::Binary { op: CppBinaryOp::And, left, right }
                        if matches!(right.kind, CppExprKind::String(_)) =>
                    {
                        left
                    }
                    _ => condition,
                };
                let condition = self.condition(condition)?;
                self.void_call("assert", vec![condition.expr], span)?
            }
            ("printf", [format, values @ ..]) => self.call_printf(format, values, span)?,
            // Waiting threads need no pause.
            ("__nanosleep", [duration]) => {
                self.discard(duration)?;
                Denoted::Void
            }
            ("memset", [to, byte, size]) => self.call_memset(to, byte, size, span)?,
            ("memcpy", [to, from, size]) => self.call_memcpy(to, from, size, span)?,
            ("__builtin_expect", [value, _]) => {
                let value = self.rvalue(value)?;
                Denoted::Value(self.convert(value, &CType::Int(IntKind::Long), span)?)
            }
            ("__builtin_unreachable", []) => {
                let no = Expr::new(ExprKind::Bool(false), span);
                self.void_call("assert", vec![no], span)?
            }
            ("swap", [a, b]) => {
                let (x, y) = (self.place(a)?, self.place(b)?);
                if let CType::Pointer(_) = x.ty {
                    let mut old_x = self.pointer_of(Denoted::Place(x.clone()), span)?;
                    let mut old_y = self.pointer_of(Denoted::Place(y.clone()), span)?;
                    let mark = self.mark();
                    self.spill_pointer(&mut old_x, mark);
                    self.spill_pointer(&mut old_y, mark);
                    self.assign_pointer(&x, old_y, span)?;
                    self.assign_pointer(&y, old_x, span)?;
                    return Ok(Some(Denoted::Void));
                }
                let (old_x, old_y) = (self.load(&x)?, self.load(&y)?);
                let old_x = self.spill(Value { stable: false, ..old_x });
                self.store(&x, old_y, span)?;
                self.store(&y, old_x, span)?;
                Denoted::Void
            }
            _ => return Ok(None),
        }))
    }

    // ---- atomics ----

    /// Returns the element that the first argument of an atomic function points to.
    fn atomic_place(&mut self, address: &'a CppExpr) -> Res<(CppPlace, CType)> {
        let span = address.span;
        let denoted = self.denote(address)?;
        let pointer = self.pointer_of(denoted, span)?;
        let to = pointer.to.clone();
        match self.object_at(pointer, span)? {
            Denoted::Place(mut place) => {
                self.fix_place(&mut place);
                Ok((place, to))
            }
            _ => refuse("an atomic operation here", span, ""),
        }
    }

    fn call_atomic(&mut self, op: &str, has_block_scope: bool, args: &'a [CppExpr], span: SourceSpan) -> Res<Denoted> {
        let clk = match op {
            "Add" => "atomic_add",
            "Sub" => "atomic_sub",
            "Min" => "atomic_min",
            "Max" => "atomic_max",
            "And" => "atomic_and",
            "Or" => "atomic_or",
            "Xor" => "atomic_xor",
            "Exch" => "atomic_exchange",
            "CAS" => "atomic_compare_exchange",
            "Load" => "atomic_load",
            "Inc" | "Dec" => "",
            _ => return refuse(format!("`atomic{op}`"), span, ""),
        };
        let [address, values @ ..] = args else { return refuse(format!("`atomic{op}`"), span, "") };
        let count = match op {
            "CAS" => 2,
            "Load" => 0,
            _ => 1,
        };
        if values.len() != count {
            return refuse(format!("`atomic{op}` with {} arguments", args.len()), span, "");
        }
        let (place, ty) = self.atomic_place(address)?;
        let refs: Vec<_> = values.iter().collect();
        let values = self.operands(&refs)?;
        let Some(choice) = choice_of(&place) else {
            return self.atomic_at((op, clk), has_block_scope, (place, ty), values, span);
        };
        let values: Vec<Value> = values.into_iter().map(|value| self.spill(value)).collect();
        let arrays = self.arrays_of_choice(&choice, span);
        self.for_each_option(&choice, &arrays, ("_old", span), &mut |lower, option| {
            let place = in_option(&place, option);
            lower.atomic_at((op, clk), has_block_scope, (place, ty.clone()), values.clone(), span)
        })
    }

    /// Translates an atomic function of an element of one array. `clk` is its name in Clk; empty if it is a loop.
    fn atomic_at(
        &mut self,
        (op, clk): (&str, &str),
        has_block_scope: bool,
        (mut place, ty): (CppPlace, CType),
        values: Vec<Value>,
        span: SourceSpan,
    ) -> Res<Denoted> {
        if let (CType::Vector(component, count), "Add") = (&ty, op) {
            let (component, count) = (component.ty(), *count);
            return self.atomic_vector_add(place, &ty.clone(), &component, count, values, span);
        }
        let Some(scalar) = ty.scalar() else {
            return refuse(
                format!("`atomic{op}` of {}", self.t.describe(&ty)),
                span,
                "use one operation for each component",
            );
        };
        if op != "Load" {
            let root = self.root(&place);
            self.note_mutated(root);
        }
        self.requirements.effect = true;
        if !self.is_shared_place(&place) {
            return refuse("an atomic operation on a variable of one thread", span, "use plain operations");
        }
        // In shared memory, both scopes are the same.
        let is_shared = match &place.kind {
            PlaceKind::At(Pointer { base: PointerBase::Array(info), .. }) => info.space == Space::Shared,
            _ => false,
        };
        if has_block_scope && !is_shared {
            self.requirements.note(BLOCK_SCOPE, span);
        }
        // An element of another type of the same size: only operations that move bits are possible.
        let mut element = scalar;
        if let PlaceKind::At(pointer) = &mut place.kind
            && let PointerBase::Array(info) = &pointer.base
            && let Some(own) = info.element.scalar()
            && own != scalar
        {
            let same_bits = own.size() == scalar.size() && own != ClkScalar::Bool;
            let moves = matches!(op, "CAS" | "Exch" | "Load" | "And" | "Or" | "Xor" | "Add" | "Sub");
            let moves = if own.is_float() || scalar.is_float() { matches!(op, "CAS" | "Exch" | "Load") } else { moves };
            if !same_bits || !moves {
                return refuse(
                    format!("`atomic{op}` through a pointer to another type"),
                    span,
                    "use one type for the array",
                );
            }
            element = own;
            pointer.to = info.element.clone();
            place.ty = info.element.clone();
        }
        let target = self.place_expr(&place, span)?;
        let mut exprs = vec![target.clone()];
        for value in values {
            let value = self.converted(value, &ty, span)?;
            exprs.push(bits(value, scalar, element, span));
        }
        if clk.is_empty() {
            return self.atomic_wrapping(op, target, exprs.remove(1), &ty, span);
        }
        let call = bits(Expr::call(clk, exprs, span), element, scalar, span);
        Ok(self.effect_value(ty, call))
    }

    /// `atomicAdd` of a vector, which is atomic for each component but not as a whole.
    fn atomic_vector_add(
        &mut self,
        place: CppPlace,
        ty: &CType,
        component: &CType,
        count: u8,
        values: Vec<Value>,
        span: SourceSpan,
    ) -> Res<Denoted> {
        let PlaceKind::At(pointer) = &place.kind else {
            return refuse("an atomic operation on a variable of one thread", span, "use plain operations");
        };
        let Some(value) = values.into_iter().next() else { return refuse("`atomicAdd`", span, "") };
        let value = self.convert(value, ty, span)?;
        let value = self.spill(value).expr;
        let first = self.cast_pointer(pointer.clone(), component, span)?;
        let mut parts = vec![];
        for at in 0..count {
            let by = Value::int(i128::from(at), super::types::LONG, span);
            let pointer = self.offset(first.clone(), by, false, span)?;
            let place = CppPlace { kind: PlaceKind::At(pointer), ty: component.clone(), span };
            if !self.is_shared_place(&place) {
                return refuse("an atomic operation on a variable of one thread", span, "use plain operations");
            }
            let root = self.root(&place);
            self.note_mutated(root);
            let target = self.place_expr(&place, span)?;
            let add = super::arith::vector_part(&value, usize::from(at), span);
            let call = Expr::call("atomic_add", vec![target, add], span);
            // The result is often unused.
            let name = self.fresh("_old");
            let ty = self.t.type_text(component);
            self.push(StmtKind::Declare { name: name.clone(), mutable: false, ty, value: Some(call) }, span);
            parts.push(Expr::name(name, span));
        }
        self.requirements.effect = true;
        let name = self.t.type_text(ty);
        Ok(Denoted::Value(Value::new(ty.clone(), Expr::call(name, parts, span))))
    }

    /// `atomicInc` and `atomicDec` wrap at a limit; Clk has compare-and-exchange for them.
    fn atomic_wrapping(&mut self, op: &str, target: Expr, limit: Expr, ty: &CType, span: SourceSpan) -> Res<Denoted> {
        if *ty != UINT {
            return refuse(format!("`atomic{op}` of {}", self.t.describe(ty)), span, "use `unsigned int`");
        }
        let limit = self.spill(Value::new(UINT, limit)).expr;
        let old = Expr::name(self.fresh("old"), span);
        let number = |n| Expr::int(n, ClkScalar::U32, span);
        let next = if op == "Inc" {
            let more = Expr::binary("+", old.clone(), number(1), span);
            let full = Expr::binary(">=", old.clone(), limit, span);
            Expr::new(ExprKind::If(Box::new(full), Box::new(number(0)), Box::new(more)), span)
        } else {
            let less = Expr::binary("-", old.clone(), number(1), span);
            let zero = Expr::binary("==", old.clone(), number(0), span);
            let above = Expr::binary(">", old.clone(), limit.clone(), span);
            let wraps = Expr::binary("||", zero, above, span);
            Expr::new(ExprKind::If(Box::new(wraps), Box::new(limit), Box::new(less)), span)
        };
        let ExprKind::Name(name) = &old.kind else { return Ok(Denoted::Void) };
        // If the guess is wrong, the first exchange returns the element, so no separate load is needed.
        let guess = Some(number(0));
        let declare = StmtKind::Declare { name: name.clone(), mutable: true, ty: "u32".into(), value: guess };
        self.push(declare, span);
        let seen_name = self.fresh("seen");
        let seen = Expr::name(seen_name.clone(), span);
        let exchange = Expr::call("atomic_compare_exchange", vec![target, old.clone(), next], span);
        let body = vec![
            Stmt {
                kind: StmtKind::Declare { name: seen_name, mutable: false, ty: "u32".into(), value: Some(exchange) },
                span,
            },
            Stmt {
                kind: StmtKind::If {
                    condition: Expr::binary("==", seen.clone(), old.clone(), span),
                    then: vec![Stmt { kind: StmtKind::Break, span }],
                    otherwise: vec![],
                },
                span,
            },
            Stmt { kind: StmtKind::Assign { place: old.clone(), op: "", value: seen }, span },
        ];
        self.push(StmtKind::Loop(body), span);
        Ok(Denoted::Value(Value::new(UINT, old)))
    }

    // ---- warps ----

    /// Returns the argument `among` for a mask; nothing for the whole warp.
    fn among(&mut self, mask: &Value, span: SourceSpan) -> Res<Option<Expr>> {
        let mask = self.convert(mask.clone(), &UINT, span)?;
        if mask.constant_int() == Some(0xffff_ffff) {
            return Ok(None);
        }
        Ok(Some(Expr::new(ExprKind::Named("among", Box::new(realize(&mask))), span)))
    }

    fn call_warp(&mut self, name: &str, args: &'a [CppExpr], span: SourceSpan) -> Res<Option<Denoted>> {
        let base = name.strip_suffix("_sync").unwrap_or(name);
        let masked = base.len() != name.len();
        let known = matches!(
            base,
            "__shfl"
                | "__shfl_up"
                | "__shfl_down"
                | "__shfl_xor"
                | "__ballot"
                | "__any"
                | "__all"
                | "__match_any"
                | "__reduce_add"
                | "__reduce_min"
                | "__reduce_max"
                | "__reduce_and"
                | "__reduce_or"
                | "__reduce_xor"
        );
        if !known {
            return Ok(None);
        }
        let refs: Vec<_> = args.iter().collect();
        let mut values = self.operands(&refs)?;
        if values.is_empty() || masked && values.len() < 2 {
            return refuse(format!("`{name}` with {} arguments", args.len()), span, "");
        }
        let among = if masked {
            let mask = values.remove(0);
            self.among(&mask, span)?
        } else {
            None
        };
        if base.starts_with("__shfl") {
            return Ok(Some(self.shuffle(base, values, among, span)?));
        }
        let value = values.remove(0);
        let with_mask = |mut list: Vec<Expr>| {
            list.extend(among.clone());
            list
        };
        Ok(Some(match base {
            "__ballot" => {
                let truth = self.truth(value);
                self.effect_value(UINT, Expr::call("ballot", with_mask(vec![truth.expr]), span))
            }
            "__any" | "__all" => {
                let truth = self.truth(value);
                let clk = if base == "__any" { "warp_any" } else { "warp_all" };
                let call = Expr::call(clk, with_mask(vec![truth.expr]), span);
                self.effect_value(INT, Expr::call("i32", vec![call], span))
            }
            "__match_any" => {
                let expr = realize(&value);
                self.effect_value(UINT, Expr::call("match_any", with_mask(vec![expr]), span))
            }
            _ => {
                let clk = base.replace("__reduce_", "warp_reduce_");
                let ty = match value.ty.promoted() {
                    Some(kind) => CType::Int(kind),
                    None => return refuse(format!("`{name}` of this type"), span, ""),
                };
                let expr = self.converted(value, &ty, span)?;
                self.effect_value(ty, Expr::call(clk, with_mask(vec![expr]), span))
            }
        }))
    }

    /// A shuffle with CUDA's arguments: the value, the lane or distance, and the width of the segments.
    fn shuffle(&mut self, name: &str, mut values: Vec<Value>, among: Option<Expr>, span: SourceSpan) -> Res<Denoted> {
        if !(2..=3).contains(&values.len()) {
            return refuse(format!("`{name}` with these arguments"), span, "");
        }
        let width = match values.get(2).map(Value::constant_int) {
            None => 32,
            Some(Some(width @ (1 | 2 | 4 | 8 | 16 | 32))) => width,
            Some(Some(_)) => return refuse(format!("`{name}` with this width"), span, "use a power of two up to 32"),
            // Not a width of CUDA: the forms for constant widths do not apply.
            Some(None) => 0,
        };
        let width_expr = match values.get(2) {
            Some(value) if width == 0 => {
                self.requirements.note("the width of a shuffle is 1, 2, 4, 8, 16 or 32", span);
                let value = self.convert(value.clone(), &INT, span)?;
                self.spill(Value { expr: coerce(&value, ClkScalar::I32), rep: ClkScalar::I32, ..value }).expr
            }
            _ => Expr::int(width, ClkScalar::I32, span),
        };
        let by = values.remove(1);
        let value = values.remove(0);
        let by = self.convert(by, &INT, span)?;
        let by = coerce(&by, ClkScalar::I32);
        let constant = match by.kind {
            ExprKind::Int(number, _) => Some(number),
            _ => None,
        };
        let ty = value.ty.clone();
        let source = realize(&value);
        let int = |n: i128| Expr::int(n, ClkScalar::I32, span);
        let lane = || Expr::name("lane_idx", span);
        let binary = |op, a, b| Expr::binary(op, a, b, span);
        let minus = |a: Expr, b: &Expr| match (&a.kind, &b.kind) {
            (ExprKind::Int(x, _), ExprKind::Int(y, _)) => int(x - y),
            _ => binary("-", a, b.clone()),
        };
        let (clk, lane) = match name {
            "__shfl" if width == 32 => match constant {
                Some(n) => ("shuffle", int(n & 31)),
                None => ("shuffle", binary("&", by, int(31))),
            },
            "__shfl" => {
                let start = binary("&", lane(), minus(int(32), &width_expr));
                ("shuffle", binary("+", start, binary("&", by, minus(width_expr, &int(1)))))
            }
            "__shfl_xor" if width == 32 || constant.is_some_and(|n| n < width) => match constant {
                Some(n) if !(0..32).contains(&n) => return refuse("this lane mask", span, "use a mask below 32"),
                _ => ("shuffle_xor", by),
            },
            "__shfl_down" if width == 32 => ("shuffle_down", by),
            "__shfl_up" if width == 32 => ("shuffle_up", by),
            _ => {
                // In a segment, a lane whose source is outside of it keeps its own value.
                let by = self.spill(Value::new(INT, by)).expr;
                let mask = minus(width_expr.clone(), &int(1));
                let own = binary("&", lane(), mask.clone());
                let (inside, from) = match name {
                    "__shfl_down" => (binary("<", binary("+", own, by.clone()), width_expr), binary("+", lane(), by)),
                    "__shfl_up" => (binary(">=", own, by.clone()), binary("-", lane(), by)),
                    _ => {
                        // Lanes may read from earlier segments, but not from later ones.
                        let from = binary("^", lane(), by);
                        let limit = binary("|", lane(), mask);
                        (binary("<=", from.clone(), limit), from)
                    }
                };
                ("shuffle", Expr::new(ExprKind::If(Box::new(inside), Box::new(from), Box::new(lane())), span))
            }
        };
        let mut exprs = vec![source, lane];
        exprs.extend(among);
        Ok(self.effect_value(ty, Expr::call(clk, exprs, span)))
    }

    // ---- cooperative groups ----

    fn call_cooperative(
        &mut self,
        last: &str,
        name: &'a QualifiedName,
        args: &'a [CppExpr],
        span: SourceSpan,
    ) -> Res<Option<Denoted>> {
        match last {
            "this_thread_block" => return Ok(Some(Denoted::Group(GroupKind::Block))),
            "this_grid" => return Ok(Some(Denoted::Group(GroupKind::Grid))),
            "coalesced_threads" => {
                return refuse("`coalesced_threads`", span, "use `__ballot_sync` before the branch, and its mask");
            }
            "tiled_partition" => {
                let explicit = name.segments.last().and_then(|segment| segment.args.as_deref()).unwrap_or(&[]);
                if let Some(first) = explicit.first()
                    && let TemplateValue::Int(lanes @ (1 | 2 | 4 | 8 | 16 | 32), _) = self.template_arg(first)?
                {
                    return Ok(Some(Denoted::Group(GroupKind::Tile(lanes as u32))));
                }
                return refuse("a tile of this size", span, "use `tiled_partition<32>(block)`");
            }
            _ => {}
        }
        let Some(first) = args.first() else { return Ok(None) };
        match last {
            "sync" | "synchronize" | "thread_rank" => {
                let Denoted::Group(group) = self.denote(first)? else { return Ok(None) };
                let method = if last == "synchronize" { "sync" } else { last };
                Ok(Some(self.call_group(group, method, &[], span)?))
            }
            "reduce" if args.len() == 3 => {
                let Denoted::Group(group) = self.denote(first)? else { return Ok(None) };
                let GroupKind::Tile(32) = group else {
                    return refuse("`cg::reduce` of this group", span, "use a tile of 32 threads");
                };
                let value = self.operand(&args[1])?;
                let functor = match &args[2].kind {
                    CppExprKind::Construct { ty, .. } => self.resolve_type(ty)?,
                    CppExprKind::Call { callee, .. } => match &callee.kind {
                        CppExprKind::Name(name) => self.type_name(name, span)?.unwrap_or(CType::Void),
                        _ => CType::Void,
                    },
                    _ => CType::Void,
                };
                let CType::Functor(op) = functor else { return refuse("this reduction", span, "use `cg::plus<T>()`") };
                let clk = match op.as_str() {
                    "plus" => "warp_reduce_add",
                    "less" => "warp_reduce_min",
                    "greater" => "warp_reduce_max",
                    "bit_and" => "warp_reduce_and",
                    "bit_or" => "warp_reduce_or",
                    _ => "warp_reduce_xor",
                };
                if value.ty.is_float() && op == "plus" {
                    self.requirements.note("`cg::reduce` adds in the order of a butterfly", span);
                }
                let ty = value.ty.clone();
                Ok(Some(self.effect_value(ty, Expr::call(clk, vec![realize(&value)], span))))
            }
            _ => Ok(None),
        }
    }

    fn linear_thread(&mut self, span: SourceSpan) -> Expr {
        let part = |lower: &mut Self, which, axis| lower.position(which, axis, span).expr;
        let (x, y, z) = (part(self, 0, "x"), part(self, 0, "y"), part(self, 0, "z"));
        let (width, height) = (part(self, 2, "x"), part(self, 2, "y"));
        let row = Expr::binary("+", Expr::binary("*", z, height, span), y, span);
        Expr::binary("+", Expr::binary("*", row, width, span), x, span)
    }

    /// A method of a group of threads.
    pub(crate) fn call_group(
        &mut self,
        group: GroupKind,
        name: &str,
        args: &'a [CppExpr],
        span: SourceSpan,
    ) -> Res<Denoted> {
        let uint = |expr: Expr, high: i128| {
            Denoted::Value(Value {
                rep: ClkScalar::I32,
                range: Some((0, high)),
                stable: true,
                ..Value::new(UINT, expr)
            })
        };
        let int = |n: i128| Expr::int(n, ClkScalar::I32, span);
        match (group, name) {
            (GroupKind::Block, "sync") => self.void_call("barrier", vec![], span),
            (GroupKind::Grid, "sync") => self.void_call("grid_barrier", vec![], span),
            (GroupKind::Tile(32), "sync") => self.void_call("warp_barrier", vec![], span),
            (GroupKind::Block, "thread_rank") => {
                let expr = self.linear_thread(span);
                Ok(uint(expr, 1023))
            }
            (GroupKind::Block, "size" | "num_threads") => {
                let part = |lower: &mut Self, axis| lower.position(2, axis, span).expr;
                let (x, y, z) = (part(self, "x"), part(self, "y"), part(self, "z"));
                let product = Expr::binary("*", Expr::binary("*", x, y, span), z, span);
                Ok(uint(product, 1024))
            }
            (GroupKind::Tile(32), "thread_rank") => Ok(uint(Expr::name("lane_idx", span), 31)),
            (GroupKind::Tile(lanes), "thread_rank") => {
                let lane = Expr::name("lane_idx", span);
                let rank = Expr::binary("%", lane, int(i128::from(lanes)), span);
                Ok(uint(rank, i128::from(lanes) - 1))
            }
            (GroupKind::Tile(lanes), "size" | "num_threads") => {
                Ok(Denoted::Value(Value::int(i128::from(lanes), UINT, span)))
            }
            (GroupKind::Tile(lanes), "meta_group_size") => {
                let part = |lower: &mut Self, axis| lower.position(2, axis, span).expr;
                let (x, y, z) = (part(self, "x"), part(self, "y"), part(self, "z"));
                let product = Expr::binary("*", Expr::binary("*", x, y, span), z, span);
                let rounded = Expr::binary("+", product, int(i128::from(lanes) - 1), span);
                Ok(uint(Expr::binary("/", rounded, int(i128::from(lanes)), span), 1024))
            }
            (GroupKind::Tile(lanes), "meta_group_rank") => {
                let thread = self.linear_thread(span);
                Ok(uint(Expr::binary("/", thread, int(i128::from(lanes)), span), 1023))
            }
            (GroupKind::Tile(lanes), "shfl" | "shfl_up" | "shfl_down" | "shfl_xor") => {
                let refs: Vec<_> = args.iter().collect();
                let mut values = self.operands(&refs)?;
                values.push(Value::int(i128::from(lanes), INT, span));
                self.shuffle(&format!("__{name}"), values, None, span)
            }
            (GroupKind::Tile(32), "any" | "all" | "ballot") => {
                let Some(predicate) = args.first() else { return refuse("this call", span, "") };
                let predicate = self.condition(predicate)?;
                let (clk, ty) = match name {
                    "any" => ("warp_any", INT),
                    "all" => ("warp_all", INT),
                    _ => ("ballot", UINT),
                };
                let call = Expr::call(clk, vec![predicate.expr], span);
                let call = if ty == INT { Expr::call("i32", vec![call], span) } else { call };
                Ok(self.effect_value(ty, call))
            }
            _ => refuse(format!("`{name}` of this group of threads"), span, "use the functions of CUDA C"),
        }
    }

    // ---- bits and conversions ----

    fn call_bits(&mut self, name: &str, args: &'a [CppExpr], span: SourceSpan) -> Res<Option<Denoted>> {
        let ulong = CType::Int(IntKind::UnsignedLongLong);
        let long = CType::Int(IntKind::LongLong);
        let double = super::types::DOUBLE;
        let half = CType::Float(FloatKind::Half);
        let bfloat = CType::Float(FloatKind::Bfloat16);
        // Reinterpretations: the argument and the result.
        let reinterpretation = match name {
            "__float_as_int" => Some((FLOAT, INT)),
            "__float_as_uint" => Some((FLOAT, UINT)),
            "__int_as_float" => Some((INT, FLOAT)),
            "__uint_as_float" => Some((UINT, FLOAT)),
            "__double_as_longlong" => Some((double.clone(), long.clone())),
            "__longlong_as_double" => Some((long.clone(), double)),
            "__half_as_ushort" => Some((half.clone(), CType::Int(IntKind::UnsignedShort))),
            "__half_as_short" => Some((half.clone(), CType::Int(IntKind::Short))),
            "__ushort_as_half" => Some((CType::Int(IntKind::UnsignedShort), half)),
            "__short_as_half" => Some((CType::Int(IntKind::Short), half)),
            "__bfloat16_as_ushort" => Some((bfloat, CType::Int(IntKind::UnsignedShort))),
            "__bfloat16_as_short" => Some((bfloat, CType::Int(IntKind::Short))),
            "__ushort_as_bfloat16" => Some((CType::Int(IntKind::UnsignedShort), bfloat)),
            "__short_as_bfloat16" => Some((CType::Int(IntKind::Short), bfloat)),
            _ => None,
        };
        if let (Some((from, to)), [value]) = (reinterpretation, args) {
            let value = self.operand(value)?;
            let value = self.convert(value, &from, span)?;
            if let (Some(number), CType::Float(FloatKind::Float)) = (value.constant_int(), &to) {
                let float = f32::from_bits(number as u32);
                return Ok(Some(Denoted::Value(Value::float(f64::from(float), FLOAT, span))));
            }
            let (a, b) = (self.scalar_of(&from, span)?, self.scalar_of(&to, span)?);
            let expr = bits(realize(&value), a, b, span);
            return Ok(Some(Denoted::Value(Value::new(to, expr).with_flags(value.stable, false))));
        }
        if matches!(name, "__ldg" | "__ldcg" | "__ldca" | "__ldcs" | "__ldlu" | "__ldcv")
            && let [address] = args
        {
            let denoted = self.denote(address)?;
            let pointer = self.pointer_of(denoted, span)?;
            let denoted = self.object_at(pointer, span)?;
            return Ok(Some(Denoted::Value(self.value_of(denoted, span)?)));
        }
        if matches!(name, "__stcg" | "__stcs" | "__stwb" | "__stwt")
            && let [address, value] = args
        {
            let value = self.operand(value)?;
            let denoted = self.denote(address)?;
            let pointer = self.pointer_of(denoted, span)?;
            let Denoted::Place(place) = self.object_at(pointer, span)? else { return Ok(None) };
            let value = self.convert(value, &place.ty.clone(), span)?;
            self.store(&place, value, span)?;
            return Ok(Some(Denoted::Void));
        }
        if let Some(value) = self.call_packed(name, args, span)? {
            return Ok(Some(Denoted::Value(value)));
        }
        // Functions of one or two integers: the type of the arguments, the Clk function, the type of the result.
        let (ty, clk, result, high) = match name {
            "__popc" => (UINT, "popcount", INT, 32),
            "__popcll" => (ulong, "popcount", INT, 64),
            "__clz" => (UINT, "clz", INT, 32),
            "__clzll" => (ulong, "clz", INT, 64),
            "__ffs" => (UINT, "ctz", INT, 32),
            "__ffsll" => (ulong, "ctz", INT, 64),
            "__brev" => (UINT, "reverse_bits", UINT, -1),
            "__brevll" => (ulong.clone(), "reverse_bits", ulong, -1),
            "__mulhi" => (INT, "mul_hi", INT, -1),
            "__umulhi" => (UINT, "mul_hi", UINT, -1),
            "__mul64hi" => (long.clone(), "mul_hi", long, -1),
            "__umul64hi" => (ulong.clone(), "mul_hi", ulong, -1),
            _ => return Ok(None),
        };
        let refs: Vec<_> = args.iter().collect();
        let values = self.operands(&refs)?;
        if values.len() != if clk == "mul_hi" { 2 } else { 1 } {
            return refuse(format!("`{name}` with {} arguments", args.len()), span, "");
        }
        let mut exprs = vec![];
        let stable = values.iter().all(|value| value.stable);
        for value in values {
            exprs.push(self.converted(value, &ty, span)?);
        }
        let value = if clk == "ctz" {
            // `__ffs` counts from 1, and is 0 for 0.
            let bit = self.spill(Value::new(ty.clone(), exprs.remove(0)).with_flags(stable, false));
            let scalar = self.scalar_of(&ty, span)?;
            let zero = Expr::binary("==", bit.expr.clone(), Expr::int(0, scalar, span), span);
            let count = Expr::call("i32", vec![Expr::call("ctz", vec![bit.expr], span)], span);
            let one = Expr::binary("+", count, Expr::int(1, ClkScalar::I32, span), span);
            let none = Expr::int(0, ClkScalar::I32, span);
            Value::new(INT, Expr::new(ExprKind::If(Box::new(zero), Box::new(none), Box::new(one)), span))
        } else {
            let call = Expr::call(clk, exprs, span);
            let call = if high >= 0 { Expr::call("i32", vec![call], span) } else { call };
            Value::new(result, call)
        };
        let range = if high >= 0 { Some((0, high)) } else { value.range };
        Ok(Some(Denoted::Value(Value { range, stable, ..value })))
    }
}
