//! Types and meaning of CUDA C++: resolves names, instantiates templates, writes out all conversions, puts effects in
//! order, and turns pointers into arrays with indices. The result is a tree of Clk items, which `emit` prints.
//!
//! `translate` handles each kernel alone: a construct without a translation refuses the kernel that contains it.

mod abduction;
mod annotations;
mod arith;
mod assigned_names;
mod builtin;
mod call;
mod decl;
mod expr;
mod external_functions;
mod file_variables;
mod function;
mod function_pointers;
mod host_calls;
mod host_code;
mod host_declarations;
mod host_escapes;
mod host_launches;
mod host_values;
mod index_limits;
mod launch_script;
mod launch_sizes;
#[cfg(test)]
mod launch_tests;
#[cfg(test)]
mod length_tests;
mod lengths;
mod loops;
mod lower;
mod math;
mod memory_functions;
mod order;
mod overload;
mod packed_integers;
mod path_conditions;
mod place;
mod pointer;
mod pointer_choice;
mod polynomial;
mod program;
mod record_numbers;
mod reinterpret;
mod resolve;
mod size_comments;
mod size_names;
mod stmt;
#[cfg(test)]
mod tests;
mod translator;
pub(crate) mod tree;
pub(crate) mod types;
mod value;

use crate::ast::{CppFunction, CppTypeKind, FunctionBody, QualifiedName, Refusal, TranslationUnit};
use crate::comments::{FileComments, PlacedComments};
use crate::emit::{OriginMap, print_file};
use crate::launches::launched_kernels;
use crate::options::ImportOptions;
use crate::source::{Provenance, SourceSpan};
use clk_base::diag::Diagnostic;
use launch_sizes::KernelLaunches;
pub use launch_sizes::LaunchDoubt;
pub use lengths::{DerivedLength, SuggestedLength};
use lower::{Facts, Lower};
use program::Program;
use size_comments::StatedExtents;
use smol_str::SmolStr;
use translator::FileTranslator;
use types::TemplateArgs;

/// The code of warnings about a launch that passes one array twice.
const ALIASED: &str = "W0854";

/// The code of diagnostics about constructs without a translation.
pub const REFUSED: &str = "E0850";

/// Something that a translation takes for granted. A verdict about the kernel holds only if it is true.
#[derive(Clone, Debug, PartialEq)]
pub struct Assumption {
    pub text: SmolStr,
    /// The place in the CUDA file that it is about.
    pub source: SourceSpan,
    /// Whether an `assume` clause of the text states it.
    pub is_clause: bool,
}

/// A kernel of the translated text.
#[derive(Clone, Debug)]
pub struct TranslatedKernel {
    /// The name in the CUDA file.
    pub name: SmolStr,
    /// The name in the text, which has the template arguments as a suffix.
    pub clk_name: SmolStr,
    pub source: SourceSpan,
    pub assumptions: Vec<Assumption>,
    /// The arrays whose assumed lengths are derived from accesses of the kernel or from launches.
    pub derived_lengths: Vec<DerivedLength>,
    /// A launch in the file that may break an assumption, so that no proof applies to all launches.
    pub launch_doubt: Option<LaunchDoubt>,
}

/// A kernel without a translation.
#[derive(Clone, Debug)]
pub struct RefusedKernel {
    pub name: SmolStr,
    /// The name in its declaration; the construct for a kernel that does not parse.
    pub source: SourceSpan,
    /// The C++ term for the construct.
    pub construct: SmolStr,
    pub diagnostic: Diagnostic,
}

/// The Clk text of a CUDA file.
#[derive(Clone, Debug, Default)]
pub struct CudaTranslation {
    pub text: String,
    pub map: OriginMap,
    /// Statements that launch each kernel once. They follow the text in a file of their own.
    pub script: String,
    pub kernels: Vec<TranslatedKernel>,
    pub refused: Vec<RefusedKernel>,
    /// Warnings about launches that the assumptions exclude.
    pub warnings: Vec<Diagnostic>,
}

/// Stack for the recursion over nested code, whose depth is bounded.
const STACK_BYTES: usize = 256 << 20;

/// Translates all kernels of a file.
pub fn translate(unit: &TranslationUnit, provenance: &Provenance, options: &ImportOptions) -> CudaTranslation {
    let on_thread = std::thread::scope(|scope| {
        let builder = std::thread::Builder::new().name("cuda import".into()).stack_size(STACK_BYTES);
        let handle = builder.spawn_scoped(scope, || translate_unit(unit, provenance, options)).ok()?;
        Some(handle.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    });
    // Without threads, the stack of the caller has to suffice.
    on_thread.unwrap_or_else(|| translate_unit(unit, provenance, options))
}

fn translate_kernel(
    t: &mut FileTranslator<'_>,
    id: usize,
    env: TemplateArgs,
    stated: StatedExtents,
) -> Result<function::KernelInfo, Box<Refusal>> {
    let scope = t.program.functions[id].scope.clone();
    Lower::new(t, env.clone(), scope, Facts::default()).kernel(id, env, stated)
}

fn translate_unit(unit: &TranslationUnit, provenance: &Provenance, options: &ImportOptions) -> CudaTranslation {
    let program = Program::new(&unit.decls);
    let mut translation = CudaTranslation::default();
    let refusal_of = |name: &SmolStr, source: SourceSpan, refusal: &Refusal| {
        let title = format!("kernel `{name}` is not translated: it uses {}", refusal.construct);
        let mut diagnostic = Diagnostic::error(REFUSED, title).at(refusal.span.span, "Clk has no equivalent");
        if let Some(help) = &refusal.help {
            diagnostic = diagnostic.help(help.to_string());
        }
        let diagnostic = provenance.explain(diagnostic, refusal.span);
        RefusedKernel { name: name.clone(), source, construct: refusal.construct.clone(), diagnostic }
    };
    for (name, kernel, refusal) in &program.refused {
        if *kernel {
            translation.refused.push(refusal_of(name, refusal.span, refusal));
        }
    }
    let kernels: Vec<usize> = (0..program.functions.len())
        .filter(|&id| {
            let function = program.functions[id].function;
            function.attributes.global && !matches!(function.body, FunctionBody::None)
        })
        .collect();
    let launched = launched_kernels(unit);
    let mut t = FileTranslator::new(program, options.contract);
    let host = host_code::launches_of(unit.of_host(), &mut |ty| {
        // An alias may be another type in the host pass.
        let is_alias = |name: &SmolStr| t.program.aliases.iter().any(|(alias, _)| alias.name.text == *name);
        if let (Some(_), CppTypeKind::Named(name)) = (&unit.host, &ty.kind)
            && name.segments.last().is_some_and(|last| is_alias(&last.name.text))
        {
            return None;
        }
        let ty = Lower::new(&mut t, vec![], vec![], Facts::default()).resolve_type(ty).ok()?;
        // The size of a record may depend on attributes and pragmas that the translation ignores.
        if matches!(ty, types::CType::Record(_) | types::CType::Array(..)) { None } else { t.size_of(&ty) }
    });
    for id in kernels {
        let function: &CppFunction = t.function(id);
        let name = t.program.functions[id].name.clone();
        let instances = match kernel_instances(&mut t, id, &launched) {
            Ok(instances) => instances,
            Err(refusal) => {
                translation.refused.push(refusal_of(&name, function.name_span, &refusal));
                continue;
            }
        };
        let launches = KernelLaunches::of(&host, unit.of_host(), &t.program, id, instances.len() != 1);
        let comments = size_comments::comments_of(unit, &t.program, id);
        let stated = StatedExtents::of(&comments);
        for (env, choice) in instances {
            let mut result = translate_kernel(&mut t, id, env, stated);
            let mut choice = choice;
            if let (Err(_), Some(_), Some(header)) = (&result, &choice, &function.template) {
                // Many templates are for integers only.
                let scope = t.program.functions[id].scope.clone();
                let mut lower = Lower::new(&mut t, vec![], scope, Facts::default());
                if let Ok((env, text)) = lower.representative_args(header, &types::INT, function.name_span)
                    && let Ok(info) = translate_kernel(&mut t, id, env, stated)
                {
                    result = Ok(info);
                    choice = Some(text);
                }
            }
            match result {
                Ok(info) => {
                    let own = t.file.functions.iter().find(|own| own.name == info.clk);
                    let names = own.map_or_else(Vec::new, |own| size_names::cpp_names(function, own));
                    let sizes =
                        match lengths::assume_sizes(&mut t.file, (&name, &info.clk), &names, &comments, &launches) {
                            Ok(sizes) => sizes,
                            Err((why, source)) => {
                                let title = format!("kernel `{name}` is not translated: {why}");
                                let diagnostic = Diagnostic::error(REFUSED, title).at(source.span, "in this comment");
                                let construct = "this comment about sizes".into();
                                let source = function.name_span;
                                translation.refused.push(RefusedKernel {
                                    name: name.clone(),
                                    source,
                                    construct,
                                    diagnostic,
                                });
                                t.file.functions.retain(|function| function.name != info.clk);
                                continue;
                            }
                        };
                    translation.warnings.extend(alias_warning(&t, &info.clk, &names, &launches));
                    let choice = choice.map(|text| (SmolStr::from(text), function.name_span));
                    let assumption =
                        |is_clause| move |(text, source): (SmolStr, SourceSpan)| Assumption { text, source, is_clause };
                    let all =
                        choice.into_iter().map(assumption(false)).chain(sizes.notes.into_iter().map(assumption(true)));
                    let all = all.chain(info.clauses.into_iter().map(assumption(true)));
                    let unstated = sizes.unstated.into_iter().chain(info.notes);
                    let all = all.chain(unstated.map(assumption(false)));
                    translation.kernels.push(TranslatedKernel {
                        name: name.clone(),
                        clk_name: info.clk,
                        source: function.name_span,
                        assumptions: all.collect(),
                        derived_lengths: sizes.derived,
                        launch_doubt: sizes.doubt,
                    });
                }
                Err(refusal) => translation.refused.push(refusal_of(&name, function.name_span, &refusal)),
            }
        }
    }
    t.drop_unused();
    let kernels = &translation.kernels;
    let of_file = FileComments::new(unit, |comment| !size_comments::is_size_comment(comment));
    let comments = |item: &tree::ClkFunction| {
        let source = t.program.functions.iter().find(|entry| entry.function.name_span == item.span);
        let mut placed =
            source.map_or_else(PlacedComments::default, |entry| of_file.of_function(entry.function, &item.body));
        let kernel = kernels.iter().find(|kernel| kernel.clk_name == item.name);
        for assumption in kernel.iter().flat_map(|kernel| &kernel.assumptions) {
            placed.head.push(format!(" assumes that {}", assumption.text));
        }
        placed
    };
    (translation.text, translation.map) = print_file(&t.file, &comments);
    translation.script = launch_script::launch_script(&t.file);
    translation
}

/// Warns about a launch that passes an array twice, if the kernel writes it.
fn alias_warning(
    t: &FileTranslator<'_>,
    kernel: &str,
    names: &[SmolStr],
    launches: &KernelLaunches<'_>,
) -> Option<Diagnostic> {
    let kernel = t.file.functions.iter().find(|function| function.name == kernel)?;
    // A struct with pointers is an array for each pointer: `v_p`.
    let arrays_of = |name: &SmolStr| -> Vec<&tree::Param> {
        let is_own = |known: &SmolStr| known == name || known.starts_with(&format!("{name}_"));
        let params =
            names.iter().zip(&kernel.params).filter(|(known, param)| is_own(known) && param.ty.starts_with('['));
        params.map(|(_, param)| param).collect()
    };
    let is_array = |name: &SmolStr| !arrays_of(name).is_empty();
    let is_written = |name: &SmolStr| arrays_of(name).iter().any(|param| param.inout);
    let (first, second, source) = launches.aliased(&is_array, &is_written)?;
    let title = format!("this launch passes the same array for `{first}` and `{second}`");
    let note =
        format!("the translation of `{}` assumes that its pointer parameters refer to different arrays", kernel.name);
    Some(Diagnostic::warning(ALIASED, title).at(source.span, "launched here").note(note))
}

/// Returns the template arguments with which a kernel is translated. Explicit instantiations and launches determine
/// them. A template without either is translated for one choice, which is an assumption.
fn kernel_instances<'a>(
    t: &mut FileTranslator<'a>,
    id: usize,
    launched: &[&'a QualifiedName],
) -> Result<Vec<(TemplateArgs, Option<String>)>, Box<Refusal>> {
    let function = t.function(id);
    let Some(header) = &function.template else { return Ok(vec![(vec![], None)]) };
    let entry = t.program.functions[id].clone();
    if header.params.is_empty() {
        return Ok(vec![(vec![], None)]);
    }
    let mut all: Vec<(TemplateArgs, Option<String>)> = vec![];
    let explicit = t
        .program
        .instantiations
        .iter()
        .filter(|(instance, _)| program::function_key(&instance.name) == entry.name)
        .filter_map(|(instance, _)| instance.template_args.as_deref());
    let launched = launched.iter().filter_map(|name| name.segments.last());
    let launched = launched.filter(|last| last.name.text == entry.name).filter_map(|last| last.args.as_deref());
    let candidates: Vec<_> = explicit.chain(launched).collect();
    for args in candidates {
        let mut lower = Lower::new(t, vec![], entry.scope.clone(), Facts::default());
        // Arguments that depend on parameters of host templates are not known here.
        if let Ok(env) = lower.explicit_args(header, args, function.name_span)
            && !all.iter().any(|(known, _)| *known == env)
            && all.len() < MAX_INSTANCES
        {
            all.push((env, None));
        }
    }
    if all.is_empty() {
        let mut lower = Lower::new(t, vec![], entry.scope.clone(), Facts::default());
        if let Ok(env) = lower.explicit_args(header, &[], function.name_span) {
            all.push((env, None));
        } else {
            let (env, text) = lower.representative_args(header, &types::FLOAT, function.name_span)?;
            all.push((env, Some(text)));
        }
    }
    Ok(all)
}

/// Maximum number of instances of one kernel template.
const MAX_INSTANCES: usize = 8;
