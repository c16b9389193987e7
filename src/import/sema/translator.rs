//! The state of the translation of a file: instantiated records and functions, and the items of the emitted text.

use super::program::{Program, ScopePath};
use super::tree::ClkFile;
use super::types::{CType, FloatKind, RecordId};
use super::types::{TemplateArgs, TemplateValue};
use super::unwritten_reads::UnwrittenRead;
use super::value::{ArrayInfo, Closure, ConstantValue, Res};
use crate::ast::CppFunction;
use crate::source::SourceSpan;
use rustc_hash::{FxHashMap, FxHashSet};
use smol_str::SmolStr;
use std::rc::Rc;

/// The maximum length of an array of pointers in a struct.
const MAX_POINTERS: u64 = 64;

/// If a type is an array of pointers with one axis, returns the type to which they point, and their number. Each of
/// these pointers is translated to a variable.
pub(crate) fn pointer_array(ty: &CType) -> Option<(&CType, u64)> {
    match ty {
        CType::Array(element, Some(count)) if *count <= MAX_POINTERS => match &**element {
            CType::Pointer(to) => Some((to, *count)),
            _ => None,
        },
        _ => None,
    }
}

/// A field of an instantiated record.
#[derive(Clone, Debug)]
pub(crate) struct RecordField<'a> {
    pub(crate) name: SmolStr,
    pub(crate) clk: SmolStr,
    pub(crate) ty: CType,
    pub(crate) init: Option<&'a crate::ast::CppInit>,
}

/// A record with its template arguments.
#[derive(Clone, Debug)]
pub(crate) struct RecordInfo<'a> {
    pub(crate) decl: usize,
    pub(crate) env: TemplateArgs,
    /// The arguments of the class template. For a specialization, `env` has its own parameters instead.
    pub(crate) args: Vec<TemplateValue>,
    pub(crate) clk: SmolStr,
    pub(crate) fields: Vec<RecordField<'a>>,
    /// The scope of its members.
    pub(crate) scope: ScopePath,
    /// Base classes, whose fields come first.
    pub(crate) bases: Vec<RecordId>,
    /// The alignment that the declaration demands; 1 without one.
    pub(crate) align: u64,
    /// Whether the fields have no space between them.
    pub(crate) packed: bool,
    pub(crate) is_union: bool,
    /// The number of numbers and pointers in an object, at all depths; `None` until all fields are known.
    pub(crate) field_count: Option<u64>,
    /// Whether the struct is in the text already.
    pub(crate) emitted: bool,
    /// Set for the class of a lambda.
    pub(crate) closure: Option<Rc<Closure>>,
}

/// How an argument is passed to an instance of a function.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum PassMode {
    Value,
    /// A reference or pointer to one object, passed as `inout` or, if it is not changed, by value.
    Object {
        ty: CType,
        pointer: bool,
    },
    /// Like `Object`, to the object of an earlier parameter with type `object` or to a field in it.
    SameObject {
        of: usize,
        object: CType,
        path: Vec<SmolStr>,
        pointer: bool,
    },
    /// A pointer into an array, or a reference to an element of one: the array, and an index if it is not 0.
    Array {
        element: CType,
        unit: u64,
        to: CType,
        offset: bool,
        reference: bool,
    },
    /// Like `Array`, into the array of an earlier parameter.
    SameArray {
        of: usize,
        unit: u64,
        to: CType,
        offset: bool,
        reference: bool,
    },
    /// A struct that consists of pointers, which are passed after it.
    Pointers(CType),
    Null,
    Group(super::types::GroupKind),
}

/// The properties of a function that its callers take over.
#[derive(Clone, Debug, Default)]
pub(crate) struct CallerRequirements {
    /// Set if the body stores to memory, has barriers, atomics or output.
    pub(crate) effect: bool,
    /// The highest axis of the geometry that the body reads.
    pub(crate) axes: u8,
    /// Limits of the grid that rule out overflow: axis and number of blocks.
    pub(crate) grid_limits: Vec<(u8, i128)>,
    pub(crate) notes: Vec<(SmolStr, SourceSpan)>,
}

impl CallerRequirements {
    /// Adds the requirements of a called function.
    pub(crate) fn add(&mut self, called: &CallerRequirements) {
        self.axes = self.axes.max(called.axes);
        for limit in &called.grid_limits {
            self.limit_grid(*limit);
        }
        for (text, span) in &called.notes {
            self.note(text.clone(), *span);
        }
        self.effect |= called.effect;
    }

    pub(crate) fn note(&mut self, text: impl Into<SmolStr>, span: SourceSpan) {
        let text = text.into();
        if !self.notes.iter().any(|(known, _)| *known == text) {
            self.notes.push((text, span));
        }
    }

    pub(crate) fn limit_grid(&mut self, limit: (u8, i128)) {
        if !self.grid_limits.contains(&limit) {
            self.grid_limits.push(limit);
        }
    }
}

/// A translated copy of a function for certain template arguments and ways of passing arguments.
#[derive(Clone, Debug)]
pub(crate) struct TranslatedFunction {
    pub(crate) name: SmolStr,
    pub(crate) result: CType,
    /// For each parameter (the object of a method first), whether it is changed.
    pub(crate) mutated: Vec<bool>,
    pub(crate) requirements: CallerRequirements,
    /// The result, if the body begins with a `return` of a number.
    pub(crate) constant: Option<ConstantValue>,
    pub(crate) globals: Vec<usize>,
    /// For each of `globals`, whether it is changed.
    pub(crate) globals_mutated: Vec<bool>,
    /// Parameters that must be aligned: the position (the object of a method first), and a number of bytes.
    pub(crate) aligned: Vec<(usize, u64, SourceSpan)>,
}

pub(crate) struct FileTranslator<'a> {
    pub(crate) program: Program<'a>,
    pub(crate) records: Vec<RecordInfo<'a>>,
    pub(crate) record_keys: FxHashMap<String, RecordId>,
    pub(crate) instances: FxHashMap<String, Rc<TranslatedFunction>>,
    pub(crate) in_progress: Vec<String>,
    item_names: FxHashSet<SmolStr>,
    /// The names of variables. Functions avoid them, because a variable would hide the function.
    local_names: FxHashSet<SmolStr>,
    pub(crate) file: ClkFile,
    /// Variables of the file that are arrays of the text, and `__shared__` variables of device functions.
    pub(crate) file_arrays: FxHashMap<usize, Rc<ArrayInfo>>,
    /// The `__shared__` variables of device functions: the declaration with its template arguments, and the Clk type.
    pub(crate) hoisted: Vec<(String, String)>,
    /// Those of `hoisted` and `file_arrays` whose length a launch determines.
    pub(crate) dynamic_arrays: FxHashSet<usize>,
    /// Variables whose values are being evaluated, with the template arguments of their class.
    pub(crate) evaluating: Vec<(usize, String)>,
    /// The template arguments for which a static array of a class is in the text.
    pub(crate) array_instances: FxHashMap<usize, String>,
    /// The values of the enumerators of an enum, for the template arguments of its context.
    pub(crate) enum_values: FxHashMap<(usize, String), Vec<i128>>,
    /// Reads of variables without a value in translated functions.
    pub(crate) unwritten_reads: Vec<UnwrittenRead>,
    /// Whether products and sums of an expression become `fma`.
    pub(crate) contract: bool,
}

impl<'a> FileTranslator<'a> {
    pub(crate) fn new(program: Program<'a>, contract: bool) -> Self {
        FileTranslator {
            program,
            records: vec![],
            record_keys: FxHashMap::default(),
            instances: FxHashMap::default(),
            in_progress: vec![],
            item_names: FxHashSet::default(),
            local_names: FxHashSet::default(),
            file: ClkFile::default(),
            file_arrays: FxHashMap::default(),
            hoisted: vec![],
            dynamic_arrays: FxHashSet::default(),
            evaluating: vec![],
            array_instances: FxHashMap::default(),
            enum_values: FxHashMap::default(),
            unwritten_reads: vec![],
            contract,
        }
    }

    /// Returns whether local names must avoid a name, because an item of the text has it or may get it.
    pub(crate) fn is_item_name(&self, name: &str) -> bool {
        self.item_names.contains(name) || self.program.functions.iter().any(|function| function.name == name)
    }

    /// Notes the name of a variable.
    pub(crate) fn add_local_name(&mut self, name: &SmolStr) {
        self.local_names.insert(name.clone());
    }

    /// Returns an unused name for an item.
    pub(crate) fn item_name(&mut self, wanted: &str) -> SmolStr {
        let base = crate::emit::names::clk_name(wanted);
        let mut name = base.clone();
        let mut number = 1;
        while !self.item_names.insert(name.clone()) {
            number += 1;
            name = SmolStr::from(format!("{base}_{number}"));
        }
        name
    }

    /// Returns an unused name for a function, which no variable hides.
    pub(crate) fn function_name(&mut self, wanted: &str) -> SmolStr {
        loop {
            let name = self.item_name(wanted);
            if !self.local_names.contains(&name) {
                return name;
            }
        }
    }

    pub(crate) fn record(&self, id: RecordId) -> &RecordInfo<'a> {
        &self.records[id.0]
    }

    /// Returns the field of a record and its type.
    pub(crate) fn field(&self, id: RecordId, name: &str) -> Option<&RecordField<'a>> {
        self.records[id.0].fields.iter().find(|field| field.name == name)
    }

    /// Returns the Clk text of a type.
    pub(crate) fn type_text(&self, ty: &CType) -> String {
        match ty {
            CType::Vector(component, count) => format!("{}x{count}", component.scalar().name()),
            CType::Record(id) => self.records[id.0].clk.to_string(),
            // An array in a struct has one axis, so that each of its rows can be a pointer.
            CType::Array(..) => {
                let count = ty.count().map_or("_".to_string(), |count| count.to_string());
                format!("[{}; {count}]", self.type_text(ty.leaf()))
            }
            CType::Reference(to) => self.type_text(to),
            other => other.scalar().map_or("()", |scalar| scalar.name()).to_string(),
        }
    }

    /// Returns a type as C++ writes it, for messages.
    pub(crate) fn describe(&self, ty: &CType) -> String {
        match ty {
            CType::Void => "`void`".into(),
            CType::Bool => "`bool`".into(),
            CType::Int(kind) => format!("`{}`", kind.cpp_name()),
            CType::Float(FloatKind::Float) => "`float`".into(),
            CType::Float(FloatKind::Double) => "`double`".into(),
            CType::Float(FloatKind::Half) => "`half`".into(),
            CType::Float(FloatKind::Bfloat16) => "`__nv_bfloat16`".into(),
            CType::Vector(component, count) => format!("a vector of {count} {}", self.describe(&component.ty())),
            CType::Record(id) if self.records[id.0].closure.is_some() => "a lambda".into(),
            CType::Record(id) => format!("`{}`", self.records[id.0].clk),
            CType::Enum(..) => "an enum".into(),
            CType::Pointer(to) => format!("a pointer to {}", self.describe(to)),
            CType::Reference(to) => format!("a reference to {}", self.describe(to)),
            CType::Array(element, _) => format!("an array of {}", self.describe(element)),
            CType::FunctionPointer(_) => "a pointer to a function".into(),
            CType::Group(_) => "a group of threads".into(),
            CType::Null => "`nullptr`".into(),
            CType::Text => "a string".into(),
            CType::Functor(name) => format!("`{name}`"),
        }
    }

    /// Returns the size of a type in bytes, as C++ lays it out.
    pub(crate) fn size_of(&self, ty: &CType) -> Option<u64> {
        self.layout(ty).map(|(size, _)| size)
    }

    pub(crate) fn align_of(&self, ty: &CType) -> Option<u64> {
        self.layout(ty).map(|(_, align)| align)
    }

    fn layout(&self, ty: &CType) -> Option<(u64, u64)> {
        match ty {
            CType::Vector(component, count) => {
                let one = component.scalar().size();
                let size = one * u64::from(*count);
                let align = if *count == 3 { one } else { size.min(16) };
                Some((size, align))
            }
            CType::Pointer(_) | CType::FunctionPointer(_) | CType::Null => Some((8, 8)),
            CType::Array(element, length) => {
                let (size, align) = self.layout(element)?;
                Some((size.checked_mul((*length)?)?, align))
            }
            CType::Record(id) => {
                let record = &self.records[id.0];
                let (mut size, mut align) = (0u64, record.align);
                for field in &record.fields {
                    let (one, own) = self.layout(&field.ty)?;
                    let own = if record.packed { 1 } else { own };
                    size = if record.is_union { size.max(one) } else { size.next_multiple_of(own) + one };
                    align = align.max(own);
                }
                Some((size.next_multiple_of(align).max(1), align))
            }
            other => other.scalar().map(|scalar| (scalar.size(), scalar.size())),
        }
    }

    /// Returns the type of the numbers of which a record consists, and how many there are. `None` for records with
    /// numbers of several types, pointers or padding.
    pub(crate) fn uniform_numbers(&self, ty: &CType) -> Option<(CType, u64)> {
        let (number, count) = match ty {
            CType::Array(element, length) => {
                let (number, count) = self.uniform_numbers(element)?;
                (number, count.checked_mul((*length)?)?)
            }
            CType::Vector(component, count) => (component.ty(), u64::from(*count)),
            CType::Record(id) if !self.records[id.0].is_union => {
                let mut all: Option<(CType, u64)> = None;
                for field in &self.records[id.0].fields {
                    let (number, count) = self.uniform_numbers(&field.ty)?;
                    all = match all {
                        None => Some((number, count)),
                        Some((known, sum)) if known == number => Some((known, sum.checked_add(count)?)),
                        Some(_) => return None,
                    };
                }
                all?
            }
            other => (other.clone(), other.scalar().map(|_| 1)?),
        };
        (self.size_of(ty)? == self.size_of(&number)?.checked_mul(count)?).then_some((number, count))
    }

    pub(crate) fn has_array(&self, id: RecordId) -> bool {
        self.records[id.0].fields.iter().any(|field| match &field.ty {
            CType::Array(..) => pointer_array(&field.ty).is_none(),
            CType::Record(inner) => self.has_array(*inner),
            _ => false,
        })
    }

    /// Returns the type of the elements of an array in the text. The elements of a Clk array cannot contain arrays, so
    /// an array of such structs becomes one of numbers.
    pub(crate) fn stored_element(&self, ty: &CType) -> CType {
        match ty {
            CType::Record(id) if self.has_array(*id) => {
                self.uniform_numbers(ty).map_or_else(|| ty.clone(), |(number, _)| number)
            }
            _ => ty.clone(),
        }
    }

    /// Returns the place of a field in its record, in bytes.
    pub(crate) fn field_offset(&self, id: RecordId, clk: &str) -> Option<u64> {
        let record = &self.records[id.0];
        let mut offset = 0u64;
        for field in &record.fields {
            let (size, align) = self.layout(&field.ty)?;
            if !record.packed {
                offset = offset.next_multiple_of(align);
            }
            if field.clk == clk {
                return Some(offset);
            }
            offset += size;
        }
        None
    }

    /// Returns a readable suffix for the name of an instance with these template arguments.
    pub(crate) fn template_suffix(&self, args: &TemplateArgs) -> String {
        let mut suffix = String::new();
        for (_, value) in args {
            suffix.push('_');
            suffix.push_str(&self.argument_text(value));
        }
        suffix
    }

    fn argument_text(&self, value: &TemplateValue) -> String {
        match value {
            TemplateValue::Type(ty) => {
                let text = match ty {
                    CType::Pointer(to) => format!("ptr_{}", self.type_text(to)),
                    CType::Functor(name) => name.to_string(),
                    CType::Void => "void".into(),
                    CType::Record(id) if self.records[id.0].closure.is_some() => {
                        self.records[id.0].closure.as_ref().map(|closure| closure.name.to_string()).unwrap_or_default()
                    }
                    other => self.type_text(other),
                };
                text.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '_').collect()
            }
            TemplateValue::Int(value, CType::Bool) => if *value != 0 { "true" } else { "false" }.into(),
            TemplateValue::Int(value, _) if *value < 0 => format!("m{}", -value),
            TemplateValue::Int(value, _) => value.to_string(),
        }
    }

    /// Returns the pointers in a record and in the records in it: the path of fields, and the type of the objects. The
    /// path of a pointer in an array ends with its number.
    pub(crate) fn pointer_fields(&self, id: RecordId) -> Vec<(Vec<SmolStr>, CType)> {
        let mut all = vec![];
        for field in &self.records[id.0].fields {
            match &field.ty {
                CType::Pointer(to) | CType::Reference(to) => all.push((vec![field.clk.clone()], (**to).clone())),
                CType::Record(inner) => {
                    for (path, to) in self.pointer_fields(*inner) {
                        all.push(([vec![field.clk.clone()], path].concat(), to));
                    }
                }
                other => {
                    if let Some((to, count)) = pointer_array(other) {
                        let path = |at: u64| vec![field.clk.clone(), SmolStr::from(at.to_string())];
                        all.extend((0..count).map(|at| (path(at), to.clone())));
                    }
                }
            }
        }
        all
    }

    /// Returns whether a record has anything but pointers.
    pub(crate) fn has_values(&self, id: RecordId) -> bool {
        self.records[id.0].fields.iter().any(|field| match &field.ty {
            CType::Pointer(_) | CType::Reference(_) => false,
            CType::Array(..) => pointer_array(&field.ty).is_none(),
            CType::Record(inner) => self.has_values(*inner),
            _ => true,
        })
    }

    /// Puts a struct and the structs of its fields into the text.
    pub(crate) fn emit_record(&mut self, id: RecordId, span: SourceSpan) -> Res<()> {
        if let Some((path, _)) = self.pointer_fields(id).first() {
            if self.records[id.0].closure.is_some() {
                let construct = "a copy of a lambda that refers to variables";
                return super::value::refuse(construct, span, "call it where it is defined, or pass it to a template");
            }
            let construct = format!("the pointer `{}` in a struct", path.join("."));
            return super::value::refuse(construct, span, "pass the pointer as a parameter of its own");
        }
        self.emit_fields(id, span)
    }

    /// Like [`FileTranslator::emit_record`], but leaves out pointers, which become parameters of their own.
    pub(crate) fn emit_fields(&mut self, id: RecordId, span: SourceSpan) -> Res<()> {
        if self.records[id.0].emitted {
            return Ok(());
        }
        if self.records[id.0].is_union {
            return super::value::refuse("a union as a value", span, "use a local variable, and copy its members");
        }
        self.records[id.0].emitted = true;
        let fields: Vec<_> =
            self.records[id.0].fields.iter().map(|field| (field.clk.clone(), field.ty.clone())).collect();
        let mut texts = vec![];
        for (name, ty) in fields {
            match &ty {
                CType::Pointer(_) | CType::Reference(_) => continue,
                array if pointer_array(array).is_some() => continue,
                CType::Record(inner) => self.emit_fields(*inner, span)?,
                _ => {}
            }
            if let (CType::Array(..), CType::Record(inner)) = (&ty, ty.leaf()) {
                self.emit_record(*inner, span)?;
            }
            match ty.leaf() {
                CType::Pointer(_) => {
                    let construct = format!("the pointer `{name}` in a struct");
                    return super::value::refuse(construct, span, "pass the pointer as a parameter of its own");
                }
                leaf if leaf.is_arithmetic() => {}
                CType::FunctionPointer(_) if matches!(ty, CType::FunctionPointer(_)) => {}
                CType::Record(_) | CType::Vector(..) => {}
                other => {
                    let construct = format!("{} in a struct", self.describe(other));
                    return super::value::refuse(construct, span, "");
                }
            }
            texts.push((name, self.type_text(&ty)));
        }
        if texts.is_empty() {
            // Clk has no structs without fields.
            texts.push((SmolStr::from("empty"), "u8".to_string()));
        }
        let name = self.records[id.0].clk.clone();
        self.file.structs.push(super::tree::Struct { name, fields: texts, span });
        Ok(())
    }

    /// Removes functions that no kernel of the text calls; refused kernels leave some.
    pub(crate) fn drop_unused(&mut self) {
        let mut used: FxHashSet<SmolStr> = FxHashSet::default();
        // A function precedes its callers, so one pass from the end finds all calls.
        let functions = std::mem::take(&mut self.file.functions);
        let mut kept = vec![];
        for function in functions.into_iter().rev() {
            if function.geometry.is_some() || used.contains(&function.name) {
                super::tree::visit_calls(&function.body, &mut |name| {
                    used.insert(name.clone());
                });
                kept.push(function);
            }
        }
        kept.reverse();
        self.file.functions = kept;
    }

    pub(crate) fn function(&self, id: usize) -> &'a CppFunction {
        self.program.functions[id].function
    }
}
