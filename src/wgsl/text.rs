//! Writes WGSL for elementwise kernels: `threads` kernels on scalars of 32 bits, without calls, messages and atomics.

use std::fmt::Write;

use clk_ir::def::*;
use clk_scalar::ops::{MathFn, UnaryOp};
use clk_scalar::Scalar;

/// Returns the text, or which part of the kernel has no equivalent.
pub(crate) fn wgsl(module: &Module) -> Result<String, String> {
    let LaunchForm::Threads { rank } = module.kernel.form else { return Err("it is a `grid` kernel".into()) };
    let function = module.functions.get(module.kernel.body).ok_or("it has no body")?;
    let mut writer = Writer { function, rank, text: String::new(), depth: 1 };
    let header = writer.header(&module.kernel.params)?;
    writer.block(&function.body)?;
    let body = writer.text;
    let locals = function.locals.iter().map(|(id, local)| {
        Ok(format!("    var l{}: {};\n", id.index(), scalar_name(local.ty)?))
    });
    let locals: String = locals.collect::<Result<_, String>>()?;
    let indices = match rank {
        1 => "    let i0 = i32(id.x);\n    if (id.x >= launch.n0) { return; }\n",
        2 => "    let i0 = i32(id.y);\n    let i1 = i32(id.x);\n    if (id.y >= launch.n0 || id.x >= launch.n1) { return; }\n",
        _ => "    let i0 = i32(id.z);\n    let i1 = i32(id.y);\n    let i2 = i32(id.x);\n    \
              if (id.z >= launch.n0 || id.y >= launch.n1 || id.x >= launch.n2) { return; }\n",
    };
    Ok(format!(
        "{header}\n@compute @workgroup_size(64)\nfn main(@builtin(global_invocation_id) id: vec3<u32>) {{\n{indices}{locals}{body}}}\n"
    ))
}

fn scalar_name(ty: Ty) -> Result<&'static str, String> {
    match ty {
        Ty::Scalar(Scalar::F32) => Ok("f32"),
        Ty::Scalar(Scalar::I32) => Ok("i32"),
        Ty::Scalar(Scalar::U32) => Ok("u32"),
        Ty::Scalar(Scalar::Bool) => Ok("bool"),
        other => Err(format!("WGSL has no {}", clk_ir::typing::name(other))),
    }
}

struct Writer<'a> {
    function: &'a Function,
    rank: u8,
    text: String,
    depth: usize,
}

impl Writer<'_> {
    /// Declares the arrays as storage buffers, and the numbers in one uniform buffer.
    fn header(&self, params: &[KernelParam]) -> Result<String, String> {
        let mut fields = (0..self.rank).map(|k| format!("    n{k}: u32,\n")).collect::<String>();
        let mut buffers = String::new();
        for (number, param) in params.iter().enumerate() {
            match param {
                KernelParam::Value { ty, .. } => {
                    // A uniform buffer has no `bool`.
                    let name = if *ty == Ty::Scalar(Scalar::Bool) { "u32" } else { scalar_name(*ty)? };
                    let _ = writeln!(fields, "    p{number}: {name},");
                }
                KernelParam::Array { access, memory, .. } => {
                    let memory = self.function.memories.get(*memory).ok_or("an array is missing")?;
                    let [leaf] = &memory.layout.leaves[..] else { return Err("an array has structs".into()) };
                    let name = scalar_name(leaf.ty)?;
                    if name == "bool" {
                        return Err("a storage buffer has no `bool`".into());
                    }
                    let mode = if *access == Access::In { "read" } else { "read_write" };
                    let _ = writeln!(
                        buffers,
                        "@group(0) @binding({}) var<storage, {mode}> a{number}: array<{name}>;",
                        number + 1
                    );
                    (0..memory.extents.len()).for_each(|axis| {
                        let _ = writeln!(fields, "    e{number}_{axis}: i32,");
                    });
                }
            }
        }
        Ok(format!("struct Launch {{\n{fields}}}\n@group(0) @binding(0) var<uniform> launch: Launch;\n{buffers}"))
    }

    fn line(&mut self, text: &str) {
        let _ = writeln!(self.text, "{}{text}", "    ".repeat(self.depth));
    }

    fn nested(&mut self, block: &Block) -> Result<(), String> {
        self.depth += 1;
        let done = self.block(block);
        self.depth -= 1;
        done
    }

    fn block(&mut self, block: &Block) -> Result<(), String> {
        block.iter().try_for_each(|stmt| self.stmt(&stmt.kind))
    }

    fn stmt(&mut self, stmt: &StmtKind) -> Result<(), String> {
        match stmt {
            StmtKind::Let(expr) => {
                let text = self.operation(*expr)?;
                self.line(&format!("let v{} = {text};", expr.index()));
            }
            StmtKind::Write { local, value } => {
                let value = self.value(*value)?;
                self.line(&format!("l{} = {value};", local.index()));
            }
            StmtKind::Store { place, value, .. } => {
                let (place, value) = (self.place(place)?, self.value(*value)?);
                self.line(&format!("{place} = {value};"));
            }
            StmtKind::If { cond, then, other } => {
                let cond = self.value(*cond)?;
                self.line(&format!("if ({cond}) {{"));
                self.nested(then)?;
                if !other.is_empty() {
                    self.line("} else {");
                    self.nested(other)?;
                }
                self.line("}");
            }
            StmtKind::For { local, start, end, step, inclusive: false, body, .. } => {
                let [start, end, step] = [self.value(*start)?, self.value(*end)?, self.value(*step)?];
                let name = format!("l{}", local.index());
                // The step of a range without `by` is the constant 1.
                if step != "1i" {
                    return Err("a loop has a step".into());
                }
                self.line(&format!("for ({name} = {start}; {name} < {end}; {name}++) {{"));
                self.nested(body)?;
                self.line("}");
            }
            StmtKind::Return(values) if values.is_empty() => self.line("return;"),
            other => return Err(format!("a statement has no equivalent: {other:?}").chars().take(100).collect()),
        }
        Ok(())
    }

    /// Returns the element that a place denotes, in row-major order.
    fn place(&self, place: &Place) -> Result<String, String> {
        let memory = self.function.memories.get(place.memory).ok_or("an array is missing")?;
        let MemorySpace::Global { param, .. } = memory.space else { return Err("it has arrays of its own".into()) };
        let mut index = "0i".to_string();
        for (axis, at) in place.indices.iter().enumerate() {
            let at = self.value(*at)?;
            index = if axis == 0 { format!("i32({at})") } else { format!("({index} * launch.e{param}_{axis} + i32({at}))") };
        }
        Ok(format!("a{param}[{index}]"))
    }

    /// Returns a value as an operand: free expressions in place, others by the name of their `let`.
    fn value(&self, id: ExprId) -> Result<String, String> {
        let expr = self.function.exprs.get(id).ok_or("a value is missing")?;
        if expr.kind.is_free() { self.operation(id) } else { Ok(format!("v{}", id.index())) }
    }

    fn operation(&self, id: ExprId) -> Result<String, String> {
        let expr = self.function.exprs.get(id).ok_or("a value is missing")?;
        let ty = scalar_name(expr.ty)?;
        Ok(match &expr.kind {
            ExprKind::Const(bits) => match ty {
                "f32" => format!("bitcast<f32>({}u)", *bits as u32),
                "i32" => match *bits as u32 as i32 {
                    i32::MIN => "(-2147483647i - 1i)".into(),
                    number if number < 0 => format!("({number}i)"),
                    number => format!("{number}i"),
                },
                "u32" => format!("{}u", *bits as u32),
                _ => (*bits != 0).to_string(),
            },
            ExprKind::Param(number) if ty == "bool" => format!("(launch.p{number} != 0u)"),
            ExprKind::Param(number) => format!("launch.p{number}"),
            ExprKind::Index(axis) => format!("i{axis}"),
            ExprKind::Extent(memory, axis) => match self.function.memories.get(*memory).map(|memory| memory.space) {
                Some(MemorySpace::Global { param, .. }) => format!("launch.e{param}_{axis}"),
                _ => return Err("it has arrays of its own".into()),
            },
            ExprKind::Read(local) => format!("l{}", local.index()),
            ExprKind::Load { place, .. } => self.place(place)?,
            ExprKind::Unary { op, value } => {
                let value = self.value(*value)?;
                match op {
                    UnaryOp::Neg => format!("-{value}"),
                    UnaryOp::Not if ty == "bool" => format!("!{value}"),
                    UnaryOp::Not => format!("~{value}"),
                }
            }
            ExprKind::Binary { op, left, right } => {
                let operator = match op {
                    BinOp::Add => "+",
                    BinOp::Sub => "-",
                    BinOp::Mul => "*",
                    BinOp::Div if ty == "f32" => "/",
                    BinOp::And => "&",
                    BinOp::Or => "|",
                    BinOp::Eq => "==",
                    BinOp::Ne => "!=",
                    BinOp::Lt => "<",
                    BinOp::Le => "<=",
                    BinOp::Gt => ">",
                    BinOp::Ge => ">=",
                    other => return Err(format!("no operator {other:?} with the same meaning")),
                };
                format!("({} {operator} {})", self.value(*left)?, self.value(*right)?)
            }
            ExprKind::Math { function, args } => {
                let args = args.iter().map(|arg| self.value(*arg)).collect::<Result<Vec<_>, _>>()?;
                let name = match function {
                    MathFn::Sqrt => "sqrt",
                    MathFn::Abs => "abs",
                    MathFn::Floor => "floor",
                    MathFn::Ceil => "ceil",
                    MathFn::Exp => "exp",
                    MathFn::Log => "log",
                    MathFn::Sin => "sin",
                    MathFn::Cos => "cos",
                    MathFn::Fma => "fma",
                    other => return Err(format!("no function {other:?}")),
                };
                format!("{name}({})", args.join(", "))
            }
            ExprKind::Select { cond, then, other } => {
                format!("select({}, {}, {})", self.value(*other)?, self.value(*then)?, self.value(*cond)?)
            }
            ExprKind::Convert(value) => format!("{ty}({})", self.value(*value)?),
            ExprKind::Bitcast(value) => format!("bitcast<{ty}>({})", self.value(*value)?),
            _ => return Err("a value has no equivalent".into()),
        })
    }
}
