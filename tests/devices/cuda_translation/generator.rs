//! Random CUDA C++ kernels with their arguments, generated from a seed.
//!
//! Each thread reads shared inputs and writes its own elements, so threads can run in any order. Kernels terminate and
//! stay in bounds. They may have signed overflow and other undefined arithmetic, which the C++ compiler's sanitizer
//! detects at run time.

use std::fmt::Write;

use clk_scalar::Scalar;
use clk_testing::random::Random;

/// A scalar type of C++.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CppType {
    Bool,
    I8,
    U8,
    I16,
    U16,
    I32,
    U32,
    I64,
    U64,
    F32,
    F64,
}

use CppType::*;

pub const INTEGERS: &[CppType] = &[I8, U8, I16, U16, I32, I32, I32, U32, U32, I64, U64];
pub const FLOATS: &[CppType] = &[F32, F32, F64];

impl CppType {
    pub fn name(self) -> &'static str {
        match self {
            Bool => "bool",
            I8 => "signed char",
            U8 => "unsigned char",
            I16 => "short",
            U16 => "unsigned short",
            I32 => "int",
            U32 => "unsigned",
            I64 => "long long",
            U64 => "unsigned long long",
            F32 => "float",
            F64 => "double",
        }
    }

    pub fn scalar(self) -> Scalar {
        match self {
            Bool => Scalar::Bool,
            I8 => Scalar::I8,
            U8 => Scalar::U8,
            I16 => Scalar::I16,
            U16 => Scalar::U16,
            I32 => Scalar::I32,
            U32 => Scalar::U32,
            I64 => Scalar::I64,
            U64 => Scalar::U64,
            F32 => Scalar::F32,
            F64 => Scalar::F64,
        }
    }

    pub fn is_float(self) -> bool {
        matches!(self, F32 | F64)
    }
}

/// A parameter of a kernel and its argument.
pub struct CudaParam {
    pub name: String,
    pub ty: CppType,
    pub is_pointer: bool,
    /// Whether the kernel writes through the pointer.
    pub is_written: bool,
    /// The value, or the elements of the array.
    pub bytes: Vec<u8>,
}

pub struct CudaKernel {
    pub name: String,
    /// The kernel with the functions and types that it uses.
    pub text: String,
    pub params: Vec<CudaParam>,
}

pub const GRID: u32 = 2;
pub const BLOCK: u32 = 4;

/// The elements of each output array that belong to one thread.
const SLOTS: usize = 4;

/// The elements of an input array: a power of two, so that a mask gives an index.
const INPUT_LEN: usize = 16;

/// Returns the kernel of a seed.
pub fn kernel(seed: u64) -> CudaKernel {
    let mut generator = Generator::new(seed);
    for _ in 0..generator.random.next_below(3) {
        generator.record();
    }
    if generator.one_in(3) {
        generator.class_family();
    }
    for _ in 0..generator.random.next_below(4) {
        generator.function();
    }
    generator.kernel()
}

#[derive(Clone)]
pub enum VariableKind {
    Value(CppType),
    /// An array or pointer whose elements 0 to `len` - 1 exist. The length is a power of two.
    Elements(CppType, usize),
    Record(usize),
}

#[derive(Clone)]
pub struct Variable {
    pub name: String,
    pub kind: VariableKind,
    pub is_mutable: bool,
    /// Whether another name refers to the same object.
    pub is_aliased: bool,
}

#[derive(Clone)]
pub struct RecordType {
    pub name: String,
    pub fields: Vec<(String, CppType)>,
    pub has_constructor: bool,
}

#[derive(Clone, PartialEq)]
pub enum ParamKind {
    Value(CppType),
    Reference(CppType),
    Pointer(CppType, usize),
    Record(usize),
    RecordReference(usize),
}

#[derive(Clone)]
pub struct FunctionType {
    pub name: String,
    pub params: Vec<ParamKind>,
    /// The number of parameters that have a default.
    pub defaults: usize,
    pub result: CppType,
    /// Whether the first template argument is the type of the first parameter and must be written.
    pub template: Option<CppType>,
}

pub struct Generator {
    pub seed: u64,
    pub random: Random,
    pub text: String,
    pub indent: usize,
    pub next_name: usize,
    /// The variables of each open block.
    pub scopes: Vec<Vec<Variable>>,
    pub records: Vec<RecordType>,
    pub functions: Vec<FunctionType>,
    /// The class template with specializations.
    pub family: Option<String>,
    /// The variables that the current full expression has read.
    pub used: Vec<String>,
    /// The variables that the current full expression changes.
    pub changed: Vec<String>,
    /// The result type of the current function; `None` in a kernel.
    pub result: Option<CppType>,
    /// Whether `break` and `continue` are allowed.
    pub in_loop: bool,
    /// Labels after the current statement, in the blocks around it.
    pub labels: Vec<String>,
    /// Statements that may still be generated.
    pub budget: usize,
}

impl Generator {
    pub fn new(seed: u64) -> Generator {
        let mut random = Random::from_seed(seed.wrapping_add(0x5851_f42d));
        random.word();
        Generator {
            seed,
            random,
            text: String::new(),
            indent: 0,
            next_name: 0,
            scopes: vec![],
            records: vec![],
            functions: vec![],
            family: None,
            used: vec![],
            changed: vec![],
            result: None,
            in_loop: false,
            labels: vec![],
            budget: 0,
        }
    }

    pub fn below(&mut self, n: usize) -> usize {
        self.random.next_below(n)
    }

    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    pub fn name(&mut self, prefix: &str) -> String {
        self.next_name += 1;
        format!("{prefix}{}", self.next_name)
    }

    pub fn line(&mut self, text: &str) {
        let _ = writeln!(self.text, "{:1$}{text}", "", self.indent * 4);
    }

    pub fn open(&mut self, head: &str) {
        self.line(&format!("{head} {{"));
        self.indent += 1;
        self.scopes.push(vec![]);
    }

    pub fn close(&mut self, tail: &str) {
        self.scopes.pop();
        self.indent -= 1;
        self.line(&format!("}}{tail}"));
    }

    pub fn declare(&mut self, name: &str, kind: VariableKind, is_mutable: bool) {
        let variable = Variable { name: name.to_owned(), kind, is_mutable, is_aliased: false };
        if let Some(scope) = self.scopes.last_mut() {
            scope.push(variable);
        }
    }

    pub fn integer_type(&mut self) -> CppType {
        self.random.pick(INTEGERS)
    }

    pub fn value_type(&mut self) -> CppType {
        match self.below(8) {
            0 => Bool,
            1 | 2 => self.random.pick(FLOATS),
            _ => self.integer_type(),
        }
    }

    /// Starts a new full expression.
    pub fn full(&mut self) {
        self.used.clear();
        self.changed.clear();
    }

    /// Returns the visible variables that satisfy a condition and that the current expression does not change.
    pub fn visible(&self, test: impl Fn(&Variable) -> bool) -> Vec<Variable> {
        let mut names: Vec<&str> = vec![];
        let mut found = vec![];
        for variable in self.scopes.iter().rev().flatten() {
            let is_hidden = names.contains(&variable.name.as_str());
            names.push(&variable.name);
            if !is_hidden && test(variable) && !self.changed.contains(&variable.name) {
                found.push(variable.clone());
            }
        }
        found
    }

    pub fn pick_variable(&mut self, test: impl Fn(&Variable) -> bool) -> Option<Variable> {
        let found = self.visible(test);
        (!found.is_empty()).then(|| self.random.pick(&found))
    }

    fn record(&mut self) {
        let name = format!("S{}_{}", self.seed, self.records.len());
        let fields: Vec<(String, CppType)> =
            (0..1 + self.below(3)).map(|at| (format!("f{at}"), self.value_type())).collect();
        let has_constructor = self.one_in(2);
        self.line(&format!("struct {name} {{"));
        self.indent += 1;
        for (field, ty) in &fields {
            self.line(&format!("{} {field};", ty.name()));
        }
        if has_constructor {
            let params: Vec<String> = fields.iter().map(|(field, ty)| format!("{} {field}_", ty.name())).collect();
            let inits: Vec<String> = fields.iter().map(|(field, _)| format!("{field}({field}_)")).collect();
            self.line(&format!("__device__ {name}({}) : {} {{}}", params.join(", "), inits.join(", ")));
        }
        let sums: Vec<String> = fields
            .iter()
            .map(|(field, ty)| format!("r.{field} = ({})(({1}){field} + ({1})other.{field});", ty.name(), widened(*ty)))
            .collect();
        self.line(&format!(
            "__device__ {name} operator+(const {name}& other) const {{ {name} r = *this; {} return r; }}",
            sums.join(" ")
        ));
        let (first, ty) = &fields[0];
        self.line(&format!("__device__ void set({} value) {{ {first} = value; }}", ty.name()));
        self.line(&format!(
            "__device__ {0} take({0} value) {{ {0} old = {first}; {first} = value; return old; }}",
            ty.name()
        ));
        self.indent -= 1;
        self.line("};");
        self.records.push(RecordType { name, fields, has_constructor });
    }

    fn function(&mut self) {
        let name = format!("fn{}_{}", self.seed, self.functions.len());
        let result = self.value_type();
        let is_template = self.one_in(3);
        let records = self.records.len();
        let mut params = vec![];
        for at in 0..1 + self.below(3) {
            let ty = self.value_type();
            params.push(match self.below(8) {
                _ if is_template && at == 0 => ParamKind::Value(ty),
                0 => ParamKind::Reference(ty),
                1 | 2 => ParamKind::Pointer(ty, self.random.pick(&[2, 4])),
                3 if records > 0 => ParamKind::Record(self.below(records)),
                4 if records > 0 => ParamKind::RecordReference(self.below(records)),
                _ => ParamKind::Value(ty),
            });
        }
        let template = match params[0] {
            ParamKind::Value(ty) if is_template => Some(ty),
            _ => None,
        };
        let is_default = params.len() > 1 && matches!(params[params.len() - 1], ParamKind::Value(_)) && self.one_in(3);
        self.scopes = vec![vec![]];
        let mut list = vec![];
        for (at, param) in params.clone().into_iter().enumerate() {
            let name = format!("x{at}");
            let (text, kind, is_mutable, is_aliased) = match param {
                ParamKind::Value(ty) if at == 0 && template.is_some() => {
                    (format!("T {name}"), VariableKind::Value(ty), true, false)
                }
                ParamKind::Value(ty) => (format!("{} {name}", ty.name()), VariableKind::Value(ty), true, false),
                ParamKind::Reference(ty) => (format!("{}& {name}", ty.name()), VariableKind::Value(ty), true, true),
                ParamKind::Pointer(ty, len) => {
                    (format!("const {}* {name}", ty.name()), VariableKind::Elements(ty, len), false, false)
                }
                ParamKind::Record(record) => {
                    (format!("{} {name}", self.records[record].name), VariableKind::Record(record), true, false)
                }
                ParamKind::RecordReference(record) => {
                    (format!("{}& {name}", self.records[record].name), VariableKind::Record(record), true, true)
                }
            };
            let default = if is_default && at + 1 == params.len() { " = 3" } else { "" };
            list.push(format!("{text}{default}"));
            self.scopes[0].push(Variable { name, kind, is_mutable, is_aliased });
        }
        if template.is_some() {
            self.line("template <typename T>");
        }
        let inline = self.random.pick(&["", "__forceinline__ "]);
        self.line(&format!("__device__ {inline}{} {name}({}) {{", result.name(), list.join(", ")));
        self.indent += 1;
        self.result = Some(result);
        self.budget = 1 + self.below(5);
        for _ in 0..1 + self.below(3) {
            self.statement();
        }
        self.full();
        let value = self.value(result, 2);
        self.line(&format!("return {value};"));
        self.indent -= 1;
        self.line("}");
        let defaults = usize::from(is_default);
        self.functions.push(FunctionType { name, params, defaults, result, template });
    }

    fn kernel(mut self) -> CudaKernel {
        let name = format!("k{}", self.seed);
        let mut params = vec![];
        for _ in 0..1 + self.below(4) {
            let (ty, name) = (self.value_type(), self.name("x"));
            let bytes = self.data(ty, INPUT_LEN);
            params.push(CudaParam { name, ty, is_pointer: true, is_written: false, bytes });
        }
        for _ in 0..self.below(3) {
            let (ty, name) = (self.value_type(), self.name("n"));
            let bytes = self.data(ty, 1);
            params.push(CudaParam { name, ty, is_pointer: false, is_written: false, bytes });
        }
        let threads = (GRID * BLOCK) as usize;
        for _ in 0..1 + self.below(3) {
            let (ty, name) = (self.value_type(), self.name("o"));
            let bytes = self.data(ty, threads * SLOTS);
            params.push(CudaParam { name, ty, is_pointer: true, is_written: true, bytes });
        }
        let list: Vec<String> = params
            .iter()
            .map(|param| match (param.is_pointer, param.is_written) {
                (false, _) => format!("{} {}", param.ty.name(), param.name),
                (true, true) => format!("{}* {}", param.ty.name(), param.name),
                (true, false) => format!("const {}* {}", param.ty.name(), param.name),
            })
            .collect();
        self.scopes = vec![vec![]];
        self.result = None;
        self.open(&format!("__global__ void {name}({})", list.join(", ")));
        let ty = self.random.pick(&["int", "unsigned", "const int", "size_t"]);
        self.line(&format!("{ty} t = blockIdx.x * blockDim.x + threadIdx.x;"));
        self.declare("t", VariableKind::Value(I32), false);
        for param in &params {
            match (param.is_pointer, param.is_written) {
                (false, _) => self.declare(&param.name, VariableKind::Value(param.ty), true),
                (true, false) => {
                    self.declare(&param.name, VariableKind::Elements(param.ty, INPUT_LEN), false);
                }
                (true, true) => {
                    let own = format!("{}_own", param.name);
                    self.line(&format!("{}* {own} = {} + t * {SLOTS};", param.ty.name(), param.name));
                    self.declare(&own, VariableKind::Elements(param.ty, SLOTS), true);
                }
            }
        }
        self.budget = 3 + self.below(10);
        for _ in 0..3 + self.below(4) {
            self.statement();
        }
        for param in params.iter().filter(|param| param.is_written) {
            self.full();
            let value = self.value(param.ty, 3);
            let (slot, op) = (self.below(SLOTS), if param.ty == Bool { "=" } else { "+=" });
            self.line(&format!("{}[t * {SLOTS} + {slot}] {op} {value};", param.name));
        }
        self.close("");
        CudaKernel { name, text: self.text, params }
    }

    /// Returns random elements: small numbers, and some extreme ones.
    fn data(&mut self, ty: CppType, count: usize) -> Vec<u8> {
        let mut bytes = vec![];
        for _ in 0..count {
            let small = self.below(41) as i64 - 20;
            let number = match self.below(12) {
                0 => self.random.word() as i64,
                1 => self.below(100_000) as i64,
                _ => small,
            };
            let float = match self.below(20) {
                0 => self.random.pick(&[f64::NAN, f64::INFINITY, -0.0, 1e30, 1e-40]),
                _ => small as f64 / 4.0,
            };
            match ty {
                Bool => bytes.push((number & 1) as u8),
                I8 | U8 => bytes.push(number as u8),
                I16 | U16 => bytes.extend((number as u16).to_le_bytes()),
                I32 | U32 => bytes.extend((number as u32).to_le_bytes()),
                I64 | U64 => bytes.extend((number as u64).to_le_bytes()),
                F32 => bytes.extend((float as f32).to_le_bytes()),
                F64 => bytes.extend(float.to_le_bytes()),
            }
        }
        bytes
    }
}

/// A type in which the sum of two fields does not overflow.
fn widened(ty: CppType) -> &'static str {
    if ty.is_float() { ty.name() } else { "unsigned long long" }
}
