//! Formats types, signatures and dimensions for diagnostics.

use crate::infer::{TypeClass, Vars};
use crate::typed::{Access, Dim, Generic, GenericKind, Program, Signature, Type, TypeBound};

/// The context in which a type is formatted: it provides the names of structs, type parameters and dimensions.
#[derive(Clone, Copy)]
pub struct Show<'a> {
    pub program: &'a Program,
    pub sig: Option<&'a Signature>,
    pub vars: Option<&'a Vars>,
}

impl Show<'_> {
    pub fn ty(&self, ty: &Type) -> String {
        let shallow = self.vars.map(|v| v.shallow(ty));
        let ty = shallow.as_ref().unwrap_or(ty);
        if let Some(kind) = self.vars.and_then(|v| v.kind(ty)) {
            return match kind {
                TypeClass::Any => "_",
                // A literal whose type is not yet determined is shown with its default type.
                TypeClass::Num | TypeClass::Int => "i32",
                TypeClass::Float | TypeClass::Element => "f32",
            }
            .into();
        }
        match ty {
            Type::Error => "?".into(),
            Type::Unit => "()".into(),
            Type::Never => "nothing".into(),
            Type::Unknown => "unknown until it runs".into(),
            Type::Scalar(s) => s.name().into(),
            Type::Vector(s, n) => format!("{s}x{n}"),
            Type::Param(p) => {
                self.sig.and_then(|s| s.generics.get(*p as usize)).map_or("T".into(), |g| g.name.to_string())
            }
            Type::Array(a) if a.dims.is_empty() => self.ty(&a.element),
            Type::Array(a) => {
                let dims: Vec<_> = a.dims.iter().map(|d| self.dim(d)).collect();
                format!("[{}; {}]", self.ty(&a.element), dims.join(", "))
            }
            Type::Struct(id) => self.program.structs.get(*id).map_or("struct".into(), |s| s.name.to_string()),
            Type::Tuple(parts) => format!("({})", self.list(parts)),
            Type::Fn(f) if f.result == Type::Unit => format!("fn({})", self.list(&f.params)),
            Type::Fn(f) => format!("fn({}) -> {}", self.list(&f.params), self.ty(&f.result)),
            Type::Str => "str".into(),
            Type::Range => "range".into(),
            Type::Timing => "timing".into(),
            Type::Strings => "[str; _]".into(),
            Type::Kernel(id) => self.program.kernels.get(*id).map_or("kernel".into(), |k| format!("kernel {}", k.name)),
            Type::Module(id) => self.program.modules.get(*id).map_or("module".into(), |m| format!("module {}", m.name)),
        }
    }

    fn list(&self, types: &[Type]) -> String {
        types.iter().map(|t| self.ty(t)).collect::<Vec<_>>().join(", ")
    }

    pub fn dim(&self, dim: &Dim) -> String {
        match dim {
            Dim::Known(n) => n.to_string(),
            Dim::Name(i) => self.sig.and_then(|s| s.dims.get(*i as usize)).map_or("_".into(), |d| d.name.to_string()),
            Dim::Expr(_) | Dim::Local(_) => "…".into(),
            Dim::Unknown => "_".into(),
        }
    }

    fn generic(&self, g: &Generic) -> String {
        match &g.kind {
            GenericKind::Type { bound: TypeBound::Any } => g.name.to_string(),
            GenericKind::Type { bound } => format!("{}: {bound:?}", g.name),
            GenericKind::Const { ty, .. } => format!("const {}: {}", g.name, self.ty(ty)),
            GenericKind::Fn { ty, .. } => format!("{}: {}", g.name, self.ty(&Type::Fn(ty.clone()))),
        }
    }

    /// Formats a signature: `kernel saxpy(alpha: f32, x: [f32; N], out r: [f32; N])`.
    pub fn signature(&self, word: &str, name: &str, sig: &Signature, result: Option<&Type>) -> String {
        let me = Show { sig: Some(sig), ..*self };
        let generics: Vec<_> = sig.generics.iter().map(|g| me.generic(g)).collect();
        let params = sig.params.iter().map(|p| {
            let access = match p.access {
                Access::In => "",
                Access::Out => "out ",
                Access::InOut => "inout ",
            };
            let default = if p.default.is_some() { " = …" } else { "" };
            format!("{access}{}: {}{default}", p.name, me.ty(&p.ty))
        });
        let params = params.collect::<Vec<_>>().join(", ");
        let generics = if generics.is_empty() { String::new() } else { format!("<{}>", generics.join(", ")) };
        let result = match result {
            None | Some(Type::Unit) => String::new(),
            Some(ty) => format!(" -> {}", me.ty(ty)),
        };
        format!("{word} {name}{generics}({params}){result}")
    }
}
