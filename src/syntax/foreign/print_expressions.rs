//! Prints foreign expressions in Clk's syntax, with the parentheses that Clk's precedence needs and the conversions
//! that its types need.

use super::expressions::whole_expression;
use super::launch_indices::{axis_of, global_axis, launch_index};
use super::statements::positional;
use super::tokens::clk_name;
use super::tree::{Dialect, ForeignArgument, ForeignExpr, Subscript, TextPart};
use super::value_types::{ForeignScope, ForeignType};
use clk_scalar::Scalar;
use clk_scalar::builtin;
use clk_scalar::foreign_names::{self, ClkEquivalent};

/// Precedence levels of Clk.
const LOWEST: u8 = 0;
const SUM: u8 = 8;
const UNARY: u8 = 10;
const POWER: u8 = 11;
const POSTFIX: u8 = 12;

fn level(op: &str) -> u8 {
    match op {
        "||" => 1,
        "&&" => 2,
        "==" | "!=" | "<" | "<=" | ">" | ">=" => 3,
        "|" => 4,
        "^" => 5,
        "&" => 6,
        "<<" | ">>" => 7,
        "+" | "-" => SUM,
        "**" => POWER,
        _ => 9,
    }
}

/// Prints expressions with the types of a scope.
pub(super) struct ExpressionPrinter<'s> {
    pub scope: &'s ForeignScope,
    pub dialect: Dialect,
}

impl ExpressionPrinter<'_> {
    pub fn print(&self, e: &ForeignExpr) -> Option<String> {
        self.at(e, LOWEST)
    }

    /// Prints an expression with parentheses if it is not a single operand.
    pub fn operand_text(&self, e: &ForeignExpr) -> Option<String> {
        self.at(e, POSTFIX)
    }

    /// Prints a condition: C and Python also accept numbers.
    pub fn condition(&self, e: &ForeignExpr) -> Option<String> {
        self.condition_at(e, LOWEST)
    }

    fn condition_at(&self, e: &ForeignExpr, least: u8) -> Option<String> {
        match e {
            ForeignExpr::Binary(op @ ("&&" | "||"), a, b) => {
                let own = level(op);
                let text = format!("{} {op} {}", self.condition_at(a, own)?, self.condition_at(b, own + 1)?);
                Some(in_parentheses_if(own < least, text))
            }
            ForeignExpr::Unary("!", inner) => {
                let ty = self.scope.type_of(inner);
                match ty.is_integer_value() {
                    true => Some(in_parentheses_if(3 < least, format!("{} == 0", self.at(inner, 4)?))),
                    false => Some(format!("!{}", self.condition_at(inner, UNARY)?)),
                }
            }
            _ if self.scope.type_of(e).is_integer_value() => {
                Some(in_parentheses_if(3 < least, format!("{} != 0", self.at(e, 4)?)))
            }
            _ => self.at(e, least),
        }
    }

    /// Prints a value where a value of type `ty` is needed.
    pub fn converted(&self, e: &ForeignExpr, ty: &str) -> Option<String> {
        let own = self.scope.type_of(e);
        let needs_float = ForeignType::scalar(ty).is_float();
        match &own {
            ForeignType::Integer if needs_float => self.float_literal(e, LOWEST),
            ForeignType::Scalar(name) if name != ty && Scalar::from_name(ty).is_some() => {
                Some(format!("{ty}({})", self.print(e)?))
            }
            ForeignType::Decimal if !needs_float && Scalar::from_name(ty).is_some() => {
                Some(format!("{ty}({})", self.print(e)?))
            }
            _ => self.print(e),
        }
    }

    /// Prints an expression of integer literals as a float.
    fn float_literal(&self, e: &ForeignExpr, least: u8) -> Option<String> {
        match e {
            ForeignExpr::Number(text) if text.bytes().all(|b| b.is_ascii_digit()) => Some(format!("{text}.0")),
            ForeignExpr::Unary("-", inner) => {
                Some(in_parentheses_if(UNARY < least, format!("-{}", self.float_literal(inner, UNARY)?)))
            }
            _ => self.at(e, least),
        }
    }

    /// Prints an operand of an operator whose other operand has type `other`.
    fn operand(&self, e: &ForeignExpr, other: &ForeignType, least: u8) -> Option<String> {
        let own = self.scope.type_of(e);
        if other.is_float() && own == ForeignType::Integer {
            return self.float_literal(e, least);
        }
        if other.is_float() && own.is_integer_value() {
            let ty = match other {
                ForeignType::Scalar(name) | ForeignType::Array(name) => name,
                _ => "f32",
            };
            return Some(format!("{ty}({})", self.print(e)?));
        }
        self.at(e, least)
    }

    fn at(&self, e: &ForeignExpr, least: u8) -> Option<String> {
        use ForeignExpr::*;
        if let Some(index) = self.own_index(e) {
            return Some(index);
        }
        Some(match e {
            Number(text) => text.clone(),
            Text(parts) => self.text(parts)?,
            Name(name) => self.name(name, least)?,
            Unary(op, inner) => in_parentheses_if(UNARY < least, format!("{op}{}", self.at(inner, UNARY)?)),
            Binary(op, a, b) => self.binary(op, a, b, least)?,
            Call(callee, args) => self.call(callee, args, least)?,
            Index(base, subscripts) => self.index(base, subscripts)?,
            Field(base, name) => self.field(base, name, least)?,
            Conditional(parts) => {
                let [condition, yes, no] = &**parts;
                let (first, second) = (self.scope.type_of(yes), self.scope.type_of(no));
                match self.scope.type_of(condition).is_array() {
                    true => format!(
                        "select({}, {}, {})",
                        self.print(condition)?,
                        self.operand(yes, &second, LOWEST)?,
                        self.operand(no, &first, LOWEST)?
                    ),
                    false => {
                        let text = format!(
                            "if {} {{ {} }} else {}",
                            self.condition(condition)?,
                            self.operand(yes, &second, LOWEST)?,
                            self.otherwise(no, &first)?
                        );
                        in_parentheses_if(least > LOWEST, text)
                    }
                }
            }
            Cast(ty, inner) => format!("{ty}({})", self.print(inner)?),
            // Clk passes places without an operator.
            Address(inner) => self.at(inner, least)?,
            Pointee(inner) => match &**inner {
                Binary("+", base, offset) if matches!(**base, Name(_)) => {
                    format!("{}[{}]", self.at(base, POSTFIX)?, self.print(offset)?)
                }
                Name(_) => format!("{}[0]", self.at(inner, POSTFIX)?),
                _ => return None,
            },
            Tuple(parts) => format!("({})", self.list(parts)?),
            List(parts) => format!("[{}]", self.list(parts)?),
            Comprehension { value, name, elements, condition } => {
                let array = self.comprehension(value, name, elements, condition.as_deref())?;
                self.at(&array, least)?
            }
            Range(parts, inclusive) => {
                let [start, end, step] = &**parts;
                let bound = |e: &Option<ForeignExpr>| e.as_ref().map_or(Some(String::new()), |e| self.at(e, 1));
                let dots = if *inclusive { "..=" } else { ".." };
                let step = match step {
                    Some(step) => format!(" step {}", self.at(step, 1)?),
                    None => String::new(),
                };
                format!("{}{dots}{}{step}", bound(start)?, bound(end)?)
            }
            Launch(callee, extents, args) => {
                let extents = self.list(extents)?;
                format!("{}<<<{extents}>>>({})", self.at(callee, POSTFIX)?, self.arguments(args)?)
            }
            Closure(..) => return None,
        })
    }

    fn counts_from_one(&self) -> bool {
        self.dialect == Dialect::Julia && !self.scope.counts_from_zero
    }

    /// Returns the name of an index in a kernel of Clk with `threads(row: M, col: N)`: `col` for `global_idx.x`.
    pub fn own_index(&self, e: &ForeignExpr) -> Option<String> {
        if let ForeignExpr::Call(callee, args) = e {
            return self.own_index(&launch_index(callee, args)?);
        }
        let indices = &self.scope.thread_indices;
        let axis = (0..3).find(|axis| *e == axis_of("global_idx", *axis)).or_else(|| global_axis(e))?;
        indices.len().checked_sub(1 + axis).map(|position| indices[position].clone())
    }

    fn otherwise(&self, e: &ForeignExpr, other: &ForeignType) -> Option<String> {
        match e {
            ForeignExpr::Conditional(parts) if !self.scope.type_of(&parts[0]).is_array() => self.print(e),
            _ => Some(format!("{{ {} }}", self.operand(e, other, LOWEST)?)),
        }
    }

    fn list(&self, parts: &[ForeignExpr]) -> Option<String> {
        let joined = parts.iter().map(|part| self.scope.type_of(part)).find(ForeignType::is_float);
        let joined = joined.unwrap_or_default();
        let parts: Option<Vec<String>> = parts.iter().map(|part| self.operand(part, &joined, LOWEST)).collect();
        Some(parts?.join(", "))
    }

    fn name(&self, name: &str, least: u8) -> Option<String> {
        if self.scope.declares(name) {
            return Some(name.to_owned());
        }
        let known = clk_name(name);
        if known != name && !matches!(name, "true" | "false") {
            return Some(known);
        }
        self.foreign_name(name, least)
    }

    /// Prints a name without arguments, such as `INFINITY`, by its row in the table of foreign names.
    fn foreign_name(&self, path: &str, least: u8) -> Option<String> {
        let Some(row) =
            foreign_names::find(path).filter(|row| !row.is_common_word || path.contains('.') || path == "M_PI")
        else {
            return Some(path.to_owned());
        };
        match row.equivalent {
            ClkEquivalent::Name(clk) => Some(clk.to_owned()),
            ClkEquivalent::Code { clk: "f32(math.PI)", .. } => {
                Some("3.1415927".to_owned()).filter(|_| least <= POSTFIX)
            }
            // A number, or an operation on numbers.
            ClkEquivalent::Code { clk, .. } if clk.starts_with(|c: char| c.is_ascii_digit() || c == '(') => {
                Some(in_parentheses_if(least > LOWEST && clk.contains(' '), clk.to_owned()))
            }
            ClkEquivalent::Absent { .. } if path != "None" => Some(path.to_owned()),
            ClkEquivalent::Absent { .. } => None,
            _ => Some(path.to_owned()),
        }
    }

    fn binary(&self, op: &str, a: &ForeignExpr, b: &ForeignExpr, least: u8) -> Option<String> {
        if op == "+"
            && let Some(axis) = global_axis(&ForeignExpr::Binary("+", Box::new(a.clone()), Box::new(b.clone())))
        {
            return Some(format!("global_idx.{}", ["x", "y", "z"][axis]));
        }
        if matches!(op, "&&" | "||") {
            let arrays = self.scope.type_of(a).is_array() || self.scope.type_of(b).is_array();
            if !arrays {
                let e =
                    ForeignExpr::Binary(if op == "&&" { "&&" } else { "||" }, Box::new(a.clone()), Box::new(b.clone()));
                return self.condition_at(&e, least);
            }
            let op = if op == "&&" { "&" } else { "|" };
            let own = level(op);
            let text = format!("{} {op} {}", self.at(a, own)?, self.at(b, own + 1)?);
            return Some(in_parentheses_if(own < least, text));
        }
        let (left, right) = (self.scope.type_of(a), self.scope.type_of(b));
        let is_integer = |ty: &ForeignType| ty.is_integer_value() || *ty == ForeignType::Integer;
        // The quotient of integers is a float.
        if op == "/." && is_integer(&left) && is_integer(&right) {
            let float = ForeignType::scalar("f32");
            let text = format!("{} / {}", self.operand(a, &float, 9)?, self.operand(b, &float, 10)?);
            return Some(in_parentheses_if(9 < least, text));
        }
        if op == "//" && (left.is_float() || right.is_float()) {
            return Some(format!("floor({} / {})", self.operand(a, &right, 9)?, self.operand(b, &left, 10)?));
        }
        if op == "+" && (left == ForeignType::Text || right == ForeignType::Text) && left != right {
            return Some(format!("\"{}{}\"", self.joined_text(a)?, self.joined_text(b)?));
        }
        if op == "%" && left == ForeignType::Text {
            return self.formatted(a, b);
        }
        let own = level(op);
        let shown = if matches!(op, "//" | "/.") { "/" } else { op };
        let (first, second) = match op {
            "**" => (POSTFIX, UNARY),
            _ if own == 3 => (4, 4),
            _ => (own, own + 1),
        };
        let text = format!("{} {shown} {}", self.operand(a, &right, first)?, self.operand(b, &left, second)?);
        Some(in_parentheses_if(own < least, text))
    }

    /// Prints a value as a part of a string.
    fn joined_text(&self, e: &ForeignExpr) -> Option<String> {
        match e {
            ForeignExpr::Text(parts) => {
                let text = self.text(parts)?;
                Some(text[1..text.len() - 1].to_owned())
            }
            ForeignExpr::Binary("+", a, b) if self.scope.type_of(e) == ForeignType::Text => {
                Some(self.joined_text(a)? + &self.joined_text(b)?)
            }
            ForeignExpr::Call(callee, args) if callee.is_name("str") && args.len() == 1 => {
                self.joined_text(&args[0].value)
            }
            _ => Some(format!("{{{}}}", self.print(e)?)),
        }
    }

    fn text(&self, parts: &[TextPart]) -> Option<String> {
        let mut text = String::new();
        for part in parts {
            match part {
                TextPart::Literal(literal) => text += literal,
                TextPart::Value(value, format) => text += &self.value_in_text(value, format)?,
            }
        }
        Some(format!("\"{text}\""))
    }

    /// Prints a value with its format in braces.
    fn value_in_text(&self, value: &ForeignExpr, format: &str) -> Option<String> {
        let percent = format.strip_suffix('%');
        let value = match percent {
            Some(_) => format!("100.0 * {}", self.at(value, 10)?),
            None => self.print(value)?,
        };
        let format = clk_scalar::format::from_foreign(percent.unwrap_or(format))?;
        let colon = if format.is_empty() { "" } else { ":" };
        Some(format!("{{{value}{colon}{format}}}{}", if percent.is_some() { "%" } else { "" }))
    }

    /// Prints `"%d %f" % (a, b)` and the arguments of `printf`.
    fn formatted(&self, text: &ForeignExpr, values: &ForeignExpr) -> Option<String> {
        let values = match values {
            ForeignExpr::Tuple(parts) => parts.clone(),
            other => vec![other.clone()],
        };
        self.printf(text, &values)
    }

    /// Prints a string whose `%` are replaced by values.
    pub fn printf(&self, text: &ForeignExpr, values: &[ForeignExpr]) -> Option<String> {
        let ForeignExpr::Text(parts) = text else { return None };
        let [TextPart::Literal(literal)] = &parts[..] else { return None };
        let mut values = values.iter();
        let mut out = String::new();
        let mut rest = literal.as_str();
        while let Some(at) = rest.find('%') {
            out += &rest[..at];
            rest = &rest[at + 1..];
            if let Some(after) = rest.strip_prefix('%') {
                out.push('%');
                rest = after;
                continue;
            }
            let length = rest.find(|c: char| c.is_ascii_alphabetic() && !"lhz".contains(c))?;
            let letter = &rest[length..length + 1];
            let spec = rest[..length].trim_end_matches(['l', 'h', 'z']);
            let spec = match letter {
                "u" => spec.to_owned(),
                "d" | "i" | "s" | "f" | "g" | "e" | "x" | "X" => format!("{spec}{letter}"),
                _ => return None,
            };
            out += &self.value_in_text(values.next()?, &spec)?;
            rest = &rest[length + 1..];
        }
        out += rest;
        values.next().is_none().then(|| format!("\"{out}\""))
    }

    fn index(&self, base: &ForeignExpr, subscripts: &[Subscript]) -> Option<String> {
        // `x.shape[0]`
        if let ForeignExpr::Field(array, name) = base
            && name == "shape"
            && let [Subscript::Element(axis)] = subscripts
        {
            let array = self.print(array)?;
            let axis = axis.integer();
            return Some(match axis? {
                0 => format!("len({array})"),
                axis if axis > 0 => format!("shape({array}, {axis})"),
                _ => return None,
            });
        }
        if let Some(reshaped) = self.new_axis(base, subscripts) {
            return Some(reshaped);
        }
        let text = self.at(base, POSTFIX)?;
        let mut parts = Vec::new();
        for (axis, subscript) in subscripts.iter().enumerate() {
            parts.push(match subscript {
                Subscript::Element(e) if self.counts_from_one() => self.print(&zero_based(e, &text))?,
                Subscript::Element(e) => self.index_from_end(&text, axis, e)?,
                Subscript::Range([start, end, step]) => {
                    let start = start.as_deref();
                    let start = match start {
                        Some(e) if self.counts_from_one() => self.print(&zero_based(e, &text))?,
                        Some(e) => self.index_from_end(&text, axis, e)?,
                        None => String::new(),
                    };
                    let end = match end.as_deref() {
                        Some(e) if self.counts_from_one() => self.print(&replace_end(e, &text))?,
                        Some(e) => self.index_from_end(&text, axis, e)?,
                        None => String::new(),
                    };
                    match step.as_deref() {
                        None => format!("{start}..{end}"),
                        Some(step) if step.integer() == Some(1) => format!("{start}..{end}"),
                        Some(step) if step.integer().is_none_or(|step| step > 0) => {
                            format!("{start}..{end} step {}", self.print(step)?)
                        }
                        Some(step) if step.integer() == Some(-1) && start.is_empty() && end.is_empty() => {
                            return (subscripts.len() == 1).then(|| format!("flip({text})"));
                        }
                        Some(_) => return None,
                    }
                }
                Subscript::Rest => "..".to_owned(),
                Subscript::NewAxis => return None,
            });
        }
        Some(format!("{text}[{}]", parts.join(", ")))
    }

    /// Prints `x[:, None]`, `x[None, :]` and `x[np.newaxis]` as `reshape`.
    fn new_axis(&self, base: &ForeignExpr, subscripts: &[Subscript]) -> Option<String> {
        let whole = |s: &Subscript| matches!(s, Subscript::Range([None, None, None]));
        let extents = match subscripts {
            [all, Subscript::NewAxis] if whole(all) => "-1, 1",
            [Subscript::NewAxis, all] if whole(all) => "1, -1",
            _ => return None,
        };
        Some(format!("reshape({}, {extents})", self.print(base)?))
    }

    /// Prints an index; a negative literal counts from the end.
    fn index_from_end(&self, array: &str, axis: usize, e: &ForeignExpr) -> Option<String> {
        match e {
            ForeignExpr::Unary("-", inner) if matches!(**inner, ForeignExpr::Number(_)) => {
                let extent = if axis == 0 { format!("len({array})") } else { format!("shape({array}, {axis})") };
                Some(format!("{extent} - {}", self.print(inner)?))
            }
            _ => self.print(e),
        }
    }

    fn field(&self, base: &ForeignExpr, name: &str, least: u8) -> Option<String> {
        let e = ForeignExpr::Field(Box::new(base.clone()), name.to_owned());
        let path = e.path();
        if let Some(path) = &path {
            let root = path.split('.').next().unwrap_or_default();
            if !self.scope.declares(root) && (foreign_names::is_module(root) || root == "Math" || root == "math") {
                let clk = self.foreign_name(path, least)?;
                return (clk != *path).then_some(clk);
            }
        }
        if let ForeignExpr::Name(ty) = base
            && let Some(limit) = self.limit_of_type(ty, name)
        {
            return Some(in_parentheses_if(limit.starts_with('-') && least > UNARY, limit));
        }
        let base_text = self.at(base, POSTFIX)?;
        Some(match name {
            "shape" => format!("shape({base_text})"),
            "T" => format!("transpose({base_text})"),
            "size" => format!("len({base_text})"),
            _ => format!("{base_text}.{name}"),
        })
    }

    fn arguments(&self, args: &[ForeignArgument]) -> Option<String> {
        let mut parts = Vec::new();
        for arg in args {
            let value = self.print(&arg.value)?;
            parts.push(match &arg.name {
                Some(name) => format!("{name} = {value}"),
                None => value,
            });
        }
        Some(parts.join(", "))
    }

    fn call(&self, callee: &ForeignExpr, args: &[ForeignArgument], least: u8) -> Option<String> {
        if let Some(path) = callee.path()
            && !path.contains('.')
            && (self.scope.declares(&path) || self.scope.results.contains_key(&path))
        {
            return Some(format!("{path}({})", self.arguments(args)?));
        }
        // `cg::this_thread_block().sync()`
        if let ForeignExpr::Field(base, method) = callee
            && let ForeignExpr::Call(group, _) = &**base
            && method == "sync"
        {
            return match name_of_group(&group.path()?)? {
                "this_thread_block" => Some("barrier()".to_owned()),
                "this_grid" => Some("grid_barrier()".to_owned()),
                _ => None,
            };
        }
        if let ForeignExpr::Field(base, method) = callee {
            let root = base.path().and_then(|path| path.split('.').next().map(str::to_owned));
            let is_module = root.is_some_and(|root| {
                !self.scope.declares(&root)
                    && (foreign_names::is_module(&root) || matches!(root.as_str(), "Math" | "std" | "thrust"))
            });
            if !is_module {
                return self.method(base, method, args, least);
            }
        }
        let path = callee.path()?;
        if let Some(index) = launch_index(callee, args) {
            return self.at(&index, least);
        }
        if name_of_group(&path).is_some() {
            return None;
        }
        if let Some(text) = self.atomic_with_index(&path, args) {
            return Some(text);
        }
        if let Some(text) = self.kept_axis(callee, args) {
            return text;
        }
        let name = foreign_names::last_name(&path).to_owned();
        let first = positional(args, 0);
        match name.as_str() {
            "launch" if path == "wp.launch" => return self.warp_launch(args),
            "reduce" | "accumulate" if path.starts_with("thrust.") || path.starts_with("std.") => {
                return self.reduction_of_range(args);
            }
            "printf" => {
                let values: Vec<ForeignExpr> = args.get(1..)?.iter().map(|arg| arg.value.clone()).collect();
                let text = self.printf(first?, &values)?;
                return Some(format!("print({})", text.replacen("\\n\"", "\"", 1)));
            }
            "println" => return Some(format!("print({})", self.arguments(args)?)),
            "print" => {
                // `print("{} and {}", a, b)`, as in Rust.
                if let [ForeignArgument { value: ForeignExpr::Text(parts), .. }, values @ ..] = args
                    && let [TextPart::Literal(literal)] = &parts[..]
                    && literal.contains("{{")
                    && !values.is_empty()
                    && self.dialect != Dialect::Python
                {
                    return Some(format!("print({})", self.format_method(parts, values)?));
                }
                let is_plain = args.iter().all(|arg| arg.name.is_none());
                return is_plain.then(|| Some(format!("print({})", self.arguments(args)?)))?;
            }
            "str" if args.len() == 1 => return Some(format!("\"{}\"", self.joined_text(first?)?)),
            "range" | "enumerate" | "zip" | "reversed" => return None,
            "map" | "filter" | "reduce" => return self.higher_order(&name, args, least),
            "float" | "int" | "double" if args.len() == 1 => {
                let ty = crate::mistakes::c_type(&name)?;
                return Some(format!("{ty}({})", self.print(first?)?));
            }
            "array" | "asarray"
                if args.len() == 1 || matches!(args, [_, arg] if arg.name.as_deref() == Some("dtype")) =>
            {
                return self.at(first?, least);
            }
            "zeros" | "ones" | "empty" | "full" | "random" | "rand" | "randn" => {
                return self.creation(&name, args);
            }
            "reshape" => return self.reshape(first?, args.get(1..)?),
            "concatenate" | "stack" | "vstack" | "hstack" if args.len() == 1 => {
                if let Some(ForeignExpr::Tuple(parts) | ForeignExpr::List(parts)) = first {
                    let clk = if matches!(name.as_str(), "stack" | "vstack") { "stack" } else { "concat" };
                    return Some(format!("{clk}({})", self.list(parts)?));
                }
            }
            "append" | "push" if matches!(args, [_, value] if self.scope.type_of(&value.value).scalar_name().is_some()) =>
            {
                return Some(format!("concat({}, [{}])", self.print(first?)?, self.print(&args.get(1)?.value)?));
            }
            "pow" if args.len() == 2 => {
                let power = ForeignExpr::binary("**", args[0].value.clone(), args[1].value.clone());
                return self.at(&power, least);
            }
            _ => {}
        }
        if let Some(row) = foreign_names::find(&path) {
            return self.foreign_call(&row, &path, args, least);
        }
        if path.contains('.') {
            return None;
        }
        Some(format!("{path}({})", self.arguments(args)?))
    }

    /// Prints a reduction that keeps its axis with one element: `sum(a, axis = 1, keepdims = true)`. Returns `None`
    /// if the call has no such argument, and `Some(None)` if it cannot be printed.
    fn kept_axis(&self, callee: &ForeignExpr, args: &[ForeignArgument]) -> Option<Option<String>> {
        let named =
            |names: &[&str]| args.iter().position(|arg| arg.name.as_deref().is_some_and(|n| names.contains(&n)));
        let keeps = named(&["keepdims", "keepdim", "keep_dims"])?;
        let axis = named(&["axis", "dim"]).and_then(|at| args[at].value.integer());
        let mut others = args.to_vec();
        let is_kept = others.remove(keeps).value.is_name("true");
        let call = self.call(callee, &others, LOWEST);
        Some(match axis {
            // A row broadcasts to all rows.
            _ if !is_kept => call,
            Some(0) => call,
            Some(1) | Some(-1) => call.map(|call| format!("reshape({call}, -1, 1)")),
            _ => None,
        })
    }

    /// Prints an atomic operation of Numba or Warp, whose index is an argument: `cuda.atomic.add(h, i, 1)`.
    fn atomic_with_index(&self, path: &str, args: &[ForeignArgument]) -> Option<String> {
        let operation = path.strip_prefix("cuda.atomic.").or_else(|| path.strip_prefix("wp.atomic_"))?;
        let operation = match operation {
            "exch" => "exchange",
            "add" | "sub" | "min" | "max" => operation,
            _ => return None,
        };
        let [array, index, value] = args else { return None };
        let subscripts = match &index.value {
            ForeignExpr::Tuple(parts) => parts.iter().cloned().map(Subscript::Element).collect(),
            index => vec![Subscript::Element(index.clone())],
        };
        let place = self.print(&ForeignExpr::Index(Box::new(array.value.clone()), subscripts))?;
        Some(format!("atomic_{operation}({place}, {})", self.print(&value.value)?))
    }

    /// Prints `wp.launch(f, dim = n, inputs = [x], outputs = [y])` as a call.
    fn warp_launch(&self, args: &[ForeignArgument]) -> Option<String> {
        let kernel = positional(args, 0)?.path()?;
        let mut values = Vec::new();
        for arg in args.iter().filter(|arg| matches!(arg.name.as_deref(), Some("inputs" | "outputs"))) {
            let (ForeignExpr::List(parts) | ForeignExpr::Tuple(parts)) = &arg.value else { return None };
            for part in parts {
                values.push(self.print(part)?);
            }
        }
        Some(format!("{kernel}({})", values.join(", ")))
    }

    /// Prints `std::accumulate(x.begin(), x.end(), 0.0f)` as a sum.
    fn reduction_of_range(&self, args: &[ForeignArgument]) -> Option<String> {
        let ForeignExpr::Call(begin, _) = positional(args, 0)? else { return None };
        let ForeignExpr::Field(array, name) = &**begin else { return None };
        let is_sum = match positional(args, 3) {
            None => true,
            Some(op) => matches!(op, ForeignExpr::Call(callee, _) if callee.path()?.ends_with(".plus")),
        };
        (name == "begin" && is_sum).then(|| Some(format!("sum({})", self.print(array)?)))?
    }

    /// Prints a call of a function in the table of foreign names.
    fn foreign_call(
        &self,
        row: &foreign_names::ForeignName,
        path: &str,
        args: &[ForeignArgument],
        least: u8,
    ) -> Option<String> {
        if let Some(clk) = row.replacement(path).filter(|clk| clk.starts_with(|c: char| c.is_alphabetic())) {
            // The axis of `size(a, 1)` counts from 0 or from 1.
            if clk == "len" && args.len() > 1 {
                return None;
            }
            return Some(format!("{clk}({})", self.arguments(args)?));
        }
        let ClkEquivalent::Code { clk, .. } = row.equivalent else { return None };
        // `__shfl_down_sync(mask, v, delta)`
        if path.starts_with("__") && path.ends_with("_sync") {
            let (function, mask) = (clk.split('(').next()?, args.first()?);
            let values = self.arguments(&args[1..])?;
            let is_full = matches!(&mask.value, ForeignExpr::Number(text) if text == "0xffffffff");
            return Some(match is_full {
                true => format!("{function}({values})"),
                false => format!("{function}({values}, among = {})", self.print(&mask.value)?),
            });
        }
        let operands = if args.len() == 1 { &["x"][..] } else { &["x", "y"][..] };
        if args.len() > 2 || args.iter().any(|arg| arg.name.is_some()) {
            return (!row.is_common_word).then_some(()).and(None).or_else(|| {
                (!path.contains('.')).then(|| Some(format!("{path}({})", self.arguments(args)?))).flatten()
            });
        }
        let code = whole_expression(clk, Dialect::C)?;
        let mut is_simple = true;
        code.visit(&mut |e| {
            if let ForeignExpr::Name(name) = e {
                is_simple &= operands.contains(&name.as_str()) || builtin::find(name).is_some();
            }
        });
        if !is_simple || clk.contains('.') && !clk.contains("..") && !clk.contains(|c: char| c.is_ascii_digit()) {
            return None;
        }
        let code = operands.iter().zip(args).fold(code, |code, (name, arg)| code.substitute(name, &arg.value));
        self.at(&code, least)
    }

    fn method(&self, base: &ForeignExpr, method: &str, args: &[ForeignArgument], least: u8) -> Option<String> {
        let with_base = |args: &[ForeignArgument]| {
            let first = ForeignArgument { name: None, value: base.clone() };
            std::iter::once(first).chain(args.iter().cloned()).collect::<Vec<_>>()
        };
        match method {
            "astype" | "type" | "to" => {
                let path = positional(args, 0)?.path()?;
                let ty = crate::mistakes::c_type(foreign_names::last_name(&path))?;
                return Some(format!("{ty}({})", self.print(base)?));
            }
            "reshape" | "view" => return self.reshape(base, args),
            "item" | "copy" | "numpy" | "cpu" | "cuda" | "contiguous" | "iter" | "collect" | "into_iter" | "to_vec"
            | "cloned" | "detach"
                if args.is_empty() =>
            {
                return self.at(base, least);
            }
            "len" | "size" | "shape" if args.is_empty() => {
                return Some(format!("{}({})", if method == "shape" { "shape" } else { "len" }, self.print(base)?));
            }
            "map" | "filter" => {
                let closure = args.first()?.clone();
                return self.higher_order(
                    method,
                    &[closure, ForeignArgument { name: None, value: base.clone() }],
                    least,
                );
            }
            "format" => {
                let ForeignExpr::Text(parts) = base else { return None };
                return self.format_method(parts, args);
            }
            "append" | "push" => return None,
            _ => {}
        }
        if let Some(row) = foreign_names::find(method) {
            return self.foreign_call(&row, method, &with_base(args), least);
        }
        let is_function = builtin::find(method).is_some_and(|entry| entry.signature.starts_with(['(', '<']));
        match is_function {
            true => Some(format!("{method}({})", self.arguments(&with_base(args))?)),
            false => Some(format!("{}.{method}({})", self.at(base, POSTFIX)?, self.arguments(args)?)),
        }
    }

    /// Prints `"x = {}".format(x)`.
    fn format_method(&self, parts: &[TextPart], args: &[ForeignArgument]) -> Option<String> {
        let [TextPart::Literal(literal)] = parts else { return None };
        let mut out = String::new();
        let mut values = args.iter();
        // Braces are doubled, because the string does not interpolate.
        let mut rest = literal.as_str();
        while let Some(at) = rest.find("{{") {
            out += &rest[..at];
            let inside = &rest[at + 2..];
            let close = inside.find("}}")?;
            let (name, format) = inside[..close].split_once(':').unwrap_or((&inside[..close], ""));
            let value = match name {
                "" => &values.next()?.value,
                _ => match name.parse::<usize>() {
                    Ok(index) => &args.get(index)?.value,
                    Err(_) => &args.iter().find(|arg| arg.name.as_deref() == Some(name))?.value,
                },
            };
            out += &self.value_in_text(value, format)?;
            rest = &inside[close + 2..];
        }
        Some(format!("\"{out}{rest}\""))
    }

    fn reshape(&self, array: &ForeignExpr, extents: &[ForeignArgument]) -> Option<String> {
        let extents = match extents {
            [ForeignArgument { name: None, value: ForeignExpr::Tuple(parts) | ForeignExpr::List(parts) }] => {
                self.list(parts)?
            }
            _ => self.arguments(extents)?,
        };
        Some(format!("reshape({}, {extents})", self.print(array)?))
    }

    /// Prints `np.zeros((3, 4), dtype=np.float32)`.
    fn creation(&self, name: &str, args: &[ForeignArgument]) -> Option<String> {
        let mut parts = Vec::new();
        let mut ty_of_elements = None;
        for (position, arg) in args.iter().enumerate() {
            match (&arg.name, &arg.value) {
                // `zeros(Float64, 3)` of Julia.
                (None, ForeignExpr::Name(ty)) if position == 0 && args.len() > 1 && self.names_type(ty) => {
                    ty_of_elements = crate::mistakes::c_type(ty);
                }
                (None, ForeignExpr::Tuple(extents) | ForeignExpr::List(extents)) => parts.push(self.list(extents)?),
                (None, value) => parts.push(self.print(value)?),
                (Some(key), value) if key == "dtype" => {
                    let path = value.path()?;
                    let ty = crate::mistakes::c_type(foreign_names::last_name(&path))?;
                    if ty != "f32" {
                        parts.push(format!("type = {ty}"));
                    }
                }
                (Some(_), _) => return None,
            }
        }
        parts.extend(ty_of_elements.filter(|ty| *ty != "f32").map(|ty| format!("type = {ty}")));
        let clk = match name {
            "empty" => "zeros",
            "rand" => "random",
            "randn" => "random_normal",
            name => name,
        };
        Some(format!("{clk}({})", parts.join(", ")))
    }

    /// Returns the number `f32::MAX`, `i32::MIN` and the like.
    fn limit_of_type(&self, ty: &str, name: &str) -> Option<String> {
        let scalar = Scalar::from_name(crate::mistakes::c_type(ty)?).filter(|_| self.names_type(ty))?;
        let bits = 8 * scalar.size() as u32;
        let is_signed = scalar.name().starts_with('i');
        let of_c = |name: &str| self.foreign_name(name, POSTFIX);
        Some(match (scalar.name(), name.to_ascii_uppercase().as_str()) {
            ("f32", "MAX") => of_c("FLT_MAX")?,
            ("f32", "MIN") => format!("-{}", of_c("FLT_MAX")?),
            ("f32", "EPSILON") => of_c("FLT_EPSILON")?,
            ("f64", "MAX") => of_c("DBL_MAX")?,
            ("f64", "MIN") => format!("-{}", of_c("DBL_MAX")?),
            ("f64", "EPSILON") => of_c("DBL_EPSILON")?,
            ("f32" | "f64", "INFINITY") => of_c("INFINITY")?,
            (clk, limit @ ("MAX" | "MIN")) if clk.starts_with(['i', 'u']) => {
                let suffix = if clk == "i32" { "" } else { clk };
                match (limit, is_signed) {
                    ("MAX", _) => format!("{}{suffix}", u64::MAX >> (64 - bits + u32::from(is_signed))),
                    (_, true) => format!("-{}{suffix}", 1u64 << (bits - 1)),
                    (_, false) => format!("0{suffix}"),
                }
            }
            _ => return None,
        })
    }

    fn names_type(&self, name: &str) -> bool {
        !self.scope.declares(name) && crate::mistakes::c_type(name).is_some_and(|ty| !ty.is_empty())
    }

    /// Prints `map(f, x)`, `filter(f, x)` and `reduce(f, x)`: functions of numbers take whole arrays.
    fn higher_order(&self, name: &str, args: &[ForeignArgument], least: u8) -> Option<String> {
        let function = positional(args, 0)?;
        // `reduce(f, 0, x)` of Futhark has the neutral element before the array.
        let array = match (name, positional(args, 2)) {
            ("reduce", Some(array)) => array,
            _ => positional(args, 1)?,
        };
        let applied = match function {
            ForeignExpr::Closure(params, value) => match (name, &params[..]) {
                ("reduce", [a, b]) => {
                    let sum = |op| ForeignExpr::binary(op, ForeignExpr::name(a), ForeignExpr::name(b));
                    let clk = [("+", "sum"), ("*", "prod")].into_iter().find(|(op, _)| **value == sum(op))?.1;
                    return Some(format!("{clk}({})", self.print(array)?));
                }
                (_, [param]) => self.elementwise(value, param, array)?,
                _ => return None,
            },
            ForeignExpr::Name(_) | ForeignExpr::Field(..) => ForeignExpr::Call(
                Box::new(function.clone()),
                vec![ForeignArgument { name: None, value: array.clone() }],
            ),
            _ => return None,
        };
        match name {
            "map" => self.at(&applied, least),
            "filter" => Some(format!("{}[{}]", self.at(array, POSTFIX)?, self.print(&applied)?)),
            _ => None,
        }
    }

    /// Replaces the variable of an expression by a whole array. This has the same meaning only if the expression
    /// consists of operators and functions that take whole arrays.
    fn elementwise(&self, value: &ForeignExpr, name: &str, array: &ForeignExpr) -> Option<ForeignExpr> {
        let is_elementwise = !value.contains(|e| match e {
            ForeignExpr::Number(_) | ForeignExpr::Name(_) | ForeignExpr::Unary(..) | ForeignExpr::Cast(..) => false,
            ForeignExpr::Binary(op, ..) => matches!(*op, "//" | "@"),
            ForeignExpr::Conditional(_) | ForeignExpr::Field(..) => false,
            ForeignExpr::Call(callee, args) => {
                let is_user_function = callee.path().is_some_and(|path| self.scope.results.contains_key(&path));
                let path = callee.path().unwrap_or_default();
                let known = foreign_names::find(&path).is_some_and(|row| row.replacement(&path).is_some())
                    || builtin::find(&path).is_some()
                    || crate::mistakes::c_type(&path).is_some();
                args.len() > 2 || !is_user_function && !known
            }
            _ => true,
        });
        // An array has no elements of its own to choose from, so its condition selects.
        let scope_has_array = ForeignExpr::rewrite(value.clone(), &mut |e| match e {
            ForeignExpr::Conditional(parts) if parts[0].uses(name) => {
                let [condition, yes, no] = *parts;
                let arg = |value| ForeignArgument { name: None, value };
                ForeignExpr::Call(Box::new(ForeignExpr::name("select")), vec![arg(condition), arg(yes), arg(no)])
            }
            other => other,
        });
        is_elementwise.then(|| scope_has_array.substitute(name, array))
    }

    /// Converts `[value for name in elements if condition]` to an expression of whole arrays.
    fn comprehension(
        &self,
        value: &ForeignExpr,
        name: &str,
        elements: &ForeignExpr,
        condition: Option<&ForeignExpr>,
    ) -> Option<ForeignExpr> {
        let arg = |value| ForeignArgument { name: None, value };
        let array = match elements {
            ForeignExpr::Call(callee, args) if callee.is_name("range") => {
                ForeignExpr::Call(Box::new(ForeignExpr::name("arange")), args.clone())
            }
            ForeignExpr::Range(parts, false) if parts[0].as_ref().is_some_and(|e| e.integer() == Some(0)) => {
                let end = parts[1].clone().filter(|_| parts[2].is_none())?;
                ForeignExpr::Call(Box::new(ForeignExpr::name("arange")), vec![arg(end)])
            }
            ForeignExpr::Range(..) => return None,
            other => other.clone(),
        };
        let array = match condition {
            Some(condition) => {
                let chosen = self.elementwise(condition, name, &array)?;
                ForeignExpr::Index(Box::new(array), vec![Subscript::Element(chosen)])
            }
            None => array,
        };
        value.uses(name).then(|| self.elementwise(value, name, &array))?
    }
}

/// Returns an index that counts from 0 for one that counts from 1.
fn zero_based(index: &ForeignExpr, array: &str) -> ForeignExpr {
    let one = || ForeignExpr::Number("1".into());
    match replace_end(index, array) {
        ForeignExpr::Number(text) => match text.parse::<i64>() {
            Ok(value) => ForeignExpr::Number((value - 1).to_string()),
            Err(_) => ForeignExpr::binary("-", ForeignExpr::Number(text), one()),
        },
        ForeignExpr::Binary("+", a, b) if b.integer() == Some(1) => *a,
        ForeignExpr::Binary("+", a, b) if b.integer().is_some_and(|n| n > 1) => {
            ForeignExpr::binary("+", *a, ForeignExpr::Number((b.integer().unwrap_or(1) - 1).to_string()))
        }
        ForeignExpr::Binary("-", a, b) if b.integer().is_some_and(|n| n > 0) => {
            ForeignExpr::binary("-", *a, ForeignExpr::Number((b.integer().unwrap_or(0) + 1).to_string()))
        }
        other => ForeignExpr::binary("-", other, one()),
    }
}

/// Replaces `end` of Julia by the length of the array.
fn replace_end(index: &ForeignExpr, array: &str) -> ForeignExpr {
    let length = ForeignExpr::Call(
        Box::new(ForeignExpr::name("len")),
        vec![ForeignArgument { name: None, value: ForeignExpr::name(array) }],
    );
    index.clone().substitute("end", &length)
}

fn in_parentheses_if(condition: bool, text: String) -> String {
    if condition { format!("({text})") } else { text }
}

/// Returns the function of cooperative groups that a path names.
fn name_of_group(path: &str) -> Option<&str> {
    let name = foreign_names::last_name(path);
    matches!(name, "this_thread_block" | "this_grid" | "tiled_partition").then_some(name)
}
