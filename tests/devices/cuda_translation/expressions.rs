//! Expressions of random CUDA kernels.

use super::generator::CppType::*;
use super::generator::{CppType, FunctionType, Generator, ParamKind, VariableKind};

impl Generator {
    /// Returns an index of an array with `len` elements.
    pub fn index(&mut self, len: usize, depth: usize) -> String {
        match self.below(3) {
            0 => self.below(len).to_string(),
            _ => format!("{} & {}", self.unary_operand(depth), len - 1),
        }
    }

    pub fn unary_operand(&mut self, depth: usize) -> String {
        format!("({})", self.integer(depth.saturating_sub(1)))
    }

    /// An object that can be read: a variable, an element, or a field.
    pub fn object(&mut self, is_float: bool, depth: usize) -> Option<String> {
        let has = |ty: CppType| ty.is_float() == is_float;
        let records = self.records.clone();
        let variable = self.pick_variable(|variable| match &variable.kind {
            VariableKind::Value(ty) | VariableKind::Elements(ty, _) => has(*ty),
            VariableKind::Record(record) => records[*record].fields.iter().any(|field| has(field.1)),
        })?;
        self.used.push(variable.name.clone());
        Some(match variable.kind {
            VariableKind::Value(_) => variable.name,
            VariableKind::Elements(_, len) => {
                if self.one_in(6) {
                    return Some(format!("*({} + ({}))", variable.name, self.index(len, depth)));
                }
                format!("{}[{}]", variable.name, self.index(len, depth))
            }
            VariableKind::Record(record) => {
                let fields: Vec<_> = records[record].fields.iter().filter(|field| has(field.1)).collect();
                let field = self.random.pick(&fields);
                format!("{}.{}", variable.name, field.0)
            }
        })
    }

    /// An object that can be assigned, and its type.
    pub fn target(&mut self) -> Option<(String, CppType)> {
        let variable = self.pick_variable(|variable| variable.is_mutable)?;
        self.used.push(variable.name.clone());
        Some(match variable.kind {
            VariableKind::Value(ty) => (variable.name, ty),
            VariableKind::Elements(ty, len) => {
                let index = self.index(len, 1);
                (format!("{}[{index}]", variable.name), ty)
            }
            VariableKind::Record(record) => {
                let fields = self.records[record].fields.clone();
                let (field, ty) = self.random.pick(&fields);
                (format!("{}.{field}", variable.name), ty)
            }
        })
    }

    /// A variable that this full expression may change, since nothing else in it uses the variable.
    pub fn changed_variable(&mut self, is_float: bool) -> Option<(String, CppType)> {
        let used = self.used.clone();
        let variable = self.pick_variable(|variable| {
            let fits = matches!(variable.kind, VariableKind::Value(ty) if ty.is_float() == is_float && ty != Bool);
            fits && variable.is_mutable && !variable.is_aliased && !used.contains(&variable.name)
        })?;
        self.changed.push(variable.name.clone());
        let VariableKind::Value(ty) = variable.kind else { return None };
        Some((variable.name, ty))
    }

    pub fn integer_literal(&mut self) -> String {
        let literal: String = match self.below(12) {
            0 => format!("{}u", self.below(300)),
            1 => self.random.pick(&["2147483647", "0x7fffffff", "0xffu", "65535", "0x80000000u", "4294967295u"]).into(),
            2 => format!("{}ll", self.below(100_000)),
            3 => self.random.pick(&["'a'", "true", "false", "'\\0'", "sizeof(int)", "sizeof(double)"]).into(),
            4 => format!("{}ull", self.below(1000)),
            5 => format!("K{}", self.below(3)),
            _ => self.below(20).to_string(),
        };
        format!("OPAQUE({literal})")
    }

    pub fn integer_leaf(&mut self, depth: usize) -> String {
        if self.one_in(10) {
            return self.random.pick(&["threadIdx.x", "blockIdx.x", "blockDim.x", "gridDim.x"]).into();
        }
        if self.one_in(4) {
            return self.integer_literal();
        }
        self.object(false, depth).unwrap_or_else(|| self.integer_literal())
    }

    pub fn integer(&mut self, depth: usize) -> String {
        if depth == 0 {
            return self.integer_leaf(0);
        }
        let d = depth - 1;
        match self.below(27) {
            25 => self.family_member(d).unwrap_or_else(|| self.integer_leaf(depth)),
            0..=3 => format!("({} {} {})", self.integer(d), self.random.pick(&["+", "-"]), self.integer(d)),
            4 => format!("({} * {})", self.integer(d), self.integer_leaf(0)),
            5 | 6 => format!("({} {} {})", self.integer(d), self.random.pick(&["&", "|", "^"]), self.integer(d)),
            7 => {
                // A shift of a negative number to the left is undefined.
                let unsigned = self.random.pick(&["(unsigned)", "(unsigned)", "(unsigned char)", ""]);
                format!("({unsigned}OPAQUE{} << ({} & 7))", self.unary_operand(d + 1), self.integer(d))
            }
            8 => format!("({} >> ({} & 7))", self.integer(d), self.integer(d)),
            9 => format!("({} / {})", self.integer(d), self.random.pick(&["3", "7u", "2", "10ll", "-4"])),
            10 => format!("({} % (({} & 7) + 1))", self.integer(d), self.integer(d)),
            11 | 12 => format!("({} ? {} : {})", self.condition(d), self.integer(d), self.integer(d)),
            13 | 14 => self.cast(d),
            15 => format!("{}({})", self.random.pick(&["-", "~", "+", "!"]), self.integer(d)),
            16 => format!("({})", self.condition(d)),
            17 => format!("(int)({})", self.checked_float(d)),
            18 => self.bit_function(d),
            19 => {
                let function = self.random.pick(&["min", "max"]);
                let kind = self.random.pick(&["int", "unsigned", "long long"]);
                format!("{function}(({kind})OPAQUE({}), ({kind})OPAQUE({}))", self.integer(d), self.integer(d))
            }
            20 => format!("SQ({} & 63)", self.unary_operand(d)),
            21 => self.effect(false, d),
            22 | 23 => self.call(false, d),
            24 => format!("({}, {})", self.integer(d), self.integer(d)),
            _ => self.integer_leaf(depth),
        }
    }

    pub fn cast(&mut self, depth: usize) -> String {
        let ty = self.integer_type().name();
        let value = format!("OPAQUE({})", self.integer(depth));
        match self.below(3) {
            0 if !ty.contains(' ') => format!("{ty}({value})"),
            1 => format!("static_cast<{ty}>({value})"),
            _ => format!("({ty})({value})"),
        }
    }

    pub fn bit_function(&mut self, depth: usize) -> String {
        const FUNCTIONS: &[&str] =
            &["__popc", "__clz", "__ffs", "__brev", "__popcll", "__clzll", "__ffsll", "__brevll"];
        match self.below(6) {
            4 => self.packed_function(depth),
            5 => {
                let function = self.random.pick(&[
                    "spec((unsigned)",
                    "spec((int)",
                    "spec<short>(",
                    "spec((short)",
                    "only((int)",
                    "only((unsigned char)",
                ]);
                format!("{function}OPAQUE({}))", self.integer(depth))
            }
            0 => format!("__umulhi({}, {})", self.integer(depth), self.integer(depth)),
            1 => format!("__mulhi((int)OPAQUE({}), (int)OPAQUE({}))", self.integer(depth), self.integer(depth)),
            _ => format!("{}({})", self.random.pick(FUNCTIONS), self.integer(depth)),
        }
    }

    /// A function of the bytes or words of its arguments.
    fn packed_function(&mut self, depth: usize) -> String {
        let (x, y) = (self.integer(depth), self.integer(depth));
        match self.below(5) {
            0 => {
                let selector: String = (0..4).map(|_| char::from(b'0' + self.below(8) as u8)).collect();
                format!("__byte_perm((unsigned)OPAQUE({x}), (unsigned)OPAQUE({y}), 0x{selector})")
            }
            1 => {
                let kind = self.random.pick(&["int", "unsigned"]);
                let z = self.integer(depth);
                format!("__dp4a(({kind})OPAQUE({x}), ({kind})OPAQUE({y}), ({kind})OPAQUE({z}))")
            }
            2 => format!("__double2hiint((double)OPAQUE({x}))"),
            3 => format!("__double2loint((double)OPAQUE({x}) / 3)"),
            _ => format!("(__hiloint2double((int)OPAQUE({x}) & 0x3fffffff, (int)OPAQUE({y})) > 0.5)"),
        }
    }

    /// An expression that changes a variable.
    pub fn effect(&mut self, is_float: bool, depth: usize) -> String {
        let Some((name, ty)) = self.changed_variable(is_float) else { return self.leaf(is_float, depth) };
        match self.below(5) {
            0 => format!("{name}++"),
            1 => format!("--{name}"),
            2 => format!("({name} += {})", self.value(ty, depth.min(1))),
            3 => format!("{name}--"),
            _ => format!("({name} = {})", self.value(ty, depth)),
        }
    }

    pub fn leaf(&mut self, is_float: bool, depth: usize) -> String {
        if is_float { self.float_leaf(depth) } else { self.integer_leaf(depth) }
    }

    pub fn float_leaf(&mut self, depth: usize) -> String {
        if self.one_in(4) {
            let number = self.below(64) as f64 / 4.0;
            let suffix = self.random.pick(&["f", ""]);
            return format!("{number:?}{suffix}");
        }
        match self.object(true, depth) {
            Some(object) => object,
            None => format!("(float)({})", self.integer_leaf(depth)),
        }
    }

    pub fn float(&mut self, depth: usize) -> String {
        if depth == 0 {
            return self.float_leaf(0);
        }
        let d = depth - 1;
        match self.below(16) {
            0..=4 => {
                format!("({} {} {})", self.float(d), self.random.pick(&["+", "-", "*", "/"]), self.float(d))
            }
            5 => format!("({} + {})", self.float(d), self.integer(d)),
            6 => format!("({} * {})", self.integer(d), self.float(d)),
            7 => format!("-({})", self.float(d)),
            8 => format!("({} ? {} : {})", self.condition(d), self.float(d), self.float(d)),
            9 => format!("({})({})", self.random.pick(&["float", "double"]), self.integer(d)),
            10 => format!("sqrtf(fabsf({}))", self.float(d)),
            11 => {
                let function = self.random.pick(&["floorf", "ceilf", "truncf", "fabs", "floor", "rintf"]);
                format!("{function}({})", self.float(d))
            }
            12 => self.effect(true, d),
            13 => self.call(true, d),
            14 => format!("fmaf({}, {}, {})", self.float(d), self.float(d), self.float(d)),
            _ => self.float_leaf(depth),
        }
    }

    pub fn condition(&mut self, depth: usize) -> String {
        let d = depth.saturating_sub(1);
        match self.below(10) {
            0..=3 => format!("{} {} {}", self.operand(d), self.comparison(), self.operand(d)),
            4 => format!("{} {} {}", self.float(d), self.comparison(), self.float(d)),
            5 => format!("({} && {})", self.condition(d), self.condition(d)),
            6 => format!("({} || {})", self.condition(d), self.condition(d)),
            7 => format!("!({})", self.condition(d)),
            8 => format!("({} & {})", self.operand(d), 1 << self.below(4)),
            _ => self.operand(d),
        }
    }

    pub fn comparison(&mut self) -> &'static str {
        self.random.pick(&["<", "<=", ">", ">=", "==", "!="])
    }

    pub fn operand(&mut self, depth: usize) -> String {
        self.integer(depth)
    }

    /// An expression whose type converts to another type implicitly.
    pub fn value(&mut self, ty: CppType, depth: usize) -> String {
        match ty {
            Bool if self.one_in(2) => self.condition(depth),
            Bool => self.integer(depth),
            _ if ty.is_float() => {
                if self.one_in(4) {
                    self.integer(depth)
                } else {
                    self.float(depth)
                }
            }
            _ if self.one_in(12) => self.checked_float(depth),
            I64 | U64 => self.integer(depth),
            _ => format!("OPAQUE({})", self.integer(depth)),
        }
    }

    /// A floating-point number that becomes an integer, seldom without a check of its size.
    pub fn checked_float(&mut self, depth: usize) -> String {
        let value = self.float(depth);
        if self.one_in(8) { value } else { format!("SMALL({value})") }
    }

    pub fn call(&mut self, is_float: bool, depth: usize) -> String {
        let fitting: Vec<FunctionType> =
            self.functions.iter().filter(|function| function.result.is_float() == is_float).cloned().collect();
        if fitting.is_empty() {
            return self.leaf(is_float, depth);
        }
        let function = self.random.pick(&fitting);
        let count = function.params.len() - self.below(function.defaults + 1);
        let mut args = vec![];
        for param in &function.params[..count] {
            let arg = match param {
                ParamKind::Value(ty) if function.template.is_some() => {
                    format!("({})({})", ty.name(), self.value(*ty, depth))
                }
                ParamKind::Value(ty) => self.value(*ty, depth),
                ParamKind::Reference(ty) => {
                    let (used, ty) = (self.used.clone(), *ty);
                    let found = self.pick_variable(|variable| {
                        let fits = matches!(variable.kind, VariableKind::Value(found) if found == ty);
                        fits && variable.is_mutable && !variable.is_aliased && !used.contains(&variable.name)
                    });
                    let Some(variable) = found else { return self.leaf(is_float, depth) };
                    self.changed.push(variable.name.clone());
                    variable.name
                }
                ParamKind::Pointer(ty, len) => {
                    let (ty, len) = (*ty, *len);
                    let fits = |kind: &VariableKind| matches!(kind, VariableKind::Elements(found, have) if *found == ty && *have >= len);
                    let Some(variable) = self.pick_variable(|variable| fits(&variable.kind)) else {
                        return self.leaf(is_float, depth);
                    };
                    self.used.push(variable.name.clone());
                    match variable.kind {
                        VariableKind::Elements(_, have) if have > len && self.one_in(2) => {
                            let offset = self.below(have - len + 1);
                            format!("{} + {offset}", variable.name)
                        }
                        _ => variable.name,
                    }
                }
                ParamKind::Record(record) | ParamKind::RecordReference(record) => {
                    let record = *record;
                    let is_reference = *param == ParamKind::RecordReference(record);
                    let used = self.used.clone();
                    let found = self.pick_variable(|variable| {
                        let fits = matches!(variable.kind, VariableKind::Record(found) if found == record);
                        let is_free = variable.is_mutable && !variable.is_aliased && !used.contains(&variable.name);
                        fits && (!is_reference || is_free)
                    });
                    let Some(variable) = found else { return self.leaf(is_float, depth) };
                    let names = if is_reference { &mut self.changed } else { &mut self.used };
                    names.push(variable.name.clone());
                    variable.name
                }
            };
            args.push(arg);
        }
        let explicit = match function.template {
            Some(ty) if self.one_in(2) => format!("<{}>", ty.name()),
            _ => String::new(),
        };
        format!("{}{explicit}({})", function.name, args.join(", "))
    }
}
