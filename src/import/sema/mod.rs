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
#[cfg(test)]
mod class_tests;
mod constructors;
mod decl;
mod expr;
mod external_functions;
mod file_variables;
mod function;
mod function_pointers;
mod host_arithmetic;
mod host_calls;
mod host_code;
mod host_declarations;
mod host_escapes;
mod host_launches;
mod host_values;
mod indeterminate_values;
mod index_limits;
mod jumps;
mod lambdas;
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
mod object_operators;
mod order;
mod overload;
mod packed_integers;
mod path_conditions;
mod place;
mod pointed_variables;
mod pointer;
mod pointer_choice;
mod polynomial;
mod printf;
mod program;
mod record_numbers;
mod reinterpret;
mod resolve;
mod size_comments;
mod size_names;
mod specializations;
mod stmt;
#[cfg(test)]
mod tests;
mod translator;
pub(crate) mod tree;
pub(crate) mod types;
mod understood_launches;
mod unwritten_reads;
mod value;
mod visible_functions;

use crate::ast::{CppFunction, CppTypeKind, FunctionBody, QualifiedName, Refusal, TranslationUnit};
use crate::comments::{FileComments, PlacedComments};
use crate::emit::{OriginMap, print_file};
use crate::launches::launched_kernels;
use crate::options::ImportOptions;
use crate::source::{Provenance, SourceSpan};
use clk_base::diag::Diagnostic;
pub use host_launches::BufferContents;
use launch_sizes::KernelLaunches;
pub use launch_sizes::LaunchDoubt;
pub use lengths::{DerivedLength, SuggestedLength};
use lower::{Facts, Lower};
use program::Program;
use rustc_hash::FxHashMap;
use size_comments::StatedExtents;
use smol_str::SmolStr;
use translator::FileTranslator;
use tree::Geometry;
use types::TemplateArgs;
pub use understood_launches::{
    CudaLaunch, HostInteger, HostUnknown, HostUnknowns, InitialValue, KernelParameter, LaunchArgument, ParameterRole,
};

/// The code of warnings about kernels that are not translated.
pub const LEFT_OUT: &str = "W0850";

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
    /// The parameters, in the order of the text.
    pub parameters: Vec<KernelParameter>,
    /// Whether all launches have one block.
    pub has_one_block: bool,
    /// An atomic function of block scope, which the translation has with device scope. Races between blocks through it
    /// are not found. `None` if all launches have one block.
    pub block_scope: Option<SourceSpan>,
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
    /// Errors of translated kernels: variables that are read before they have a value.
    pub errors: Vec<Diagnostic>,
    /// Warnings about launches that the assumptions exclude.
    pub warnings: Vec<Diagnostic>,
    /// The launches in host code, in the order of the file, and the values on which they depend.
    pub launches: Vec<CudaLaunch>,
    pub unknowns: HostUnknowns,
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
    let mut kernel_of_launch: FxHashMap<usize, SmolStr> = FxHashMap::default();
    let axiom = unit.identifiers.get("__axiom").and_then(|places| places.first()).copied();
    let axiom = axiom.filter(|_| !t.program.declares("__axiom")).map(|span| Refusal {
        construct: "an `__axiom` of the file".into(),
        span,
        help: Some("state it as a `__requires` at the beginning of the kernel".into()),
    });
    for id in kernels {
        let function: &CppFunction = t.function(id);
        let name = t.program.functions[id].name.clone();
        // A counterexample may contradict the axiom.
        if let Some(axiom) = &axiom {
            translation.refused.push(refusal_of(&name, function.name_span, axiom));
            continue;
        }
        let instances = match kernel_instances(&mut t, id, &launched) {
            Ok((instances, left_out)) => {
                if left_out > 0 {
                    let title = format!("{left_out} instances of `{name}` are not translated");
                    let help = format!("Clk translates at most {MAX_INSTANCES} instances of a kernel template");
                    let warning = Diagnostic::warning(LEFT_OUT, title).at(function.name_span.span, "this template");
                    translation.warnings.push(warning.help(help));
                }
                instances
            }
            Err(refusal) => {
                translation.refused.push(refusal_of(&name, function.name_span, &refusal));
                continue;
            }
        };
        let launches = KernelLaunches::of(&host, unit.of_host(), &t.program, id, instances.len() != 1);
        let comments = size_comments::comments_of(unit, &t.program, id);
        let stated = StatedExtents::of(&comments);
        let launched_instances: Vec<(usize, usize)> = launched_instances(&mut t, id, &host, &instances);
        for (instance, (env, choice)) in instances.into_iter().enumerate() {
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
                    let block_scope =
                        info.notes.iter().find(|(text, _)| text == builtin::BLOCK_SCOPE).map(|(_, place)| *place);
                    let own = t.file.functions.iter().find(|own| own.name == info.clk);
                    let has_one_block = own.and_then(|own| own.geometry.as_ref()).is_some_and(Geometry::has_one_block);
                    let choice = choice.map(|text| (SmolStr::from(text), function.name_span));
                    let assumption =
                        |is_clause| move |(text, source): (SmolStr, SourceSpan)| Assumption { text, source, is_clause };
                    let all =
                        choice.into_iter().map(assumption(false)).chain(sizes.notes.into_iter().map(assumption(true)));
                    let all = all.chain(info.clauses.into_iter().map(assumption(true)));
                    let unstated = sizes.unstated.into_iter().chain(info.notes);
                    let all = all.chain(unstated.map(assumption(false)));
                    for (launch, _) in launched_instances.iter().filter(|(_, own)| *own == instance) {
                        kernel_of_launch.insert(*launch, info.clk.clone());
                    }
                    translation.kernels.push(TranslatedKernel {
                        has_one_block,
                        block_scope: block_scope.filter(|_| !has_one_block),
                        parameters: kernel_parameters(&names, info.roles, &host),
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
    let describe = |(at, launch): (usize, &host_launches::HostLaunch<'_>)| {
        CudaLaunch::of(launch, kernel_of_launch.get(&at).cloned())
    };
    translation.launches = host.launches.iter().enumerate().map(describe).collect();
    translation.launches.sort_by_key(|launch| launch.place.span);
    translation.unknowns = HostUnknowns::of(&host);
    let mut reads = std::mem::take(&mut t.unwritten_reads);
    reads.sort_by_key(|read| read.declared.span);
    reads.dedup_by_key(|read| read.declared);
    translation.errors.extend(reads.iter().map(|read| provenance.explain(read.diagnostic(), read.read)));
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

/// Describes the parameters of a kernel. `names` are their names in C++.
fn kernel_parameters(
    names: &[SmolStr],
    roles: Vec<ParameterRole>,
    host: &host_launches::HostLaunches<'_>,
) -> Vec<KernelParameter> {
    let parameter = |(name, role): (&SmolStr, ParameterRole)| {
        let role = match role {
            ParameterRole::FileVariable { .. } if host.set_variables.contains(name) => {
                ParameterRole::FileVariable { initial: None }
            }
            role => role,
        };
        KernelParameter { name: name.clone(), role }
    };
    names.iter().zip(roles).map(parameter).collect()
}

/// Returns the launches in host code that run an instance of a kernel: the index of the launch and of the instance.
fn launched_instances<'a>(
    t: &mut FileTranslator<'a>,
    id: usize,
    host: &host_launches::HostLaunches<'a>,
    instances: &[(TemplateArgs, Option<String>)],
) -> Vec<(usize, usize)> {
    let function = t.function(id);
    let entry = t.program.functions[id].clone();
    let is_definition = |other: &program::FunctionDecl<'_>| {
        other.name == entry.name
            && other.function.attributes.global
            && !matches!(other.function.body, FunctionBody::None)
    };
    // For overloaded kernels, the types of the arguments decide.
    if t.program.functions.iter().filter(|other| is_definition(other)).count() != 1 {
        return vec![];
    }
    let mut found = vec![];
    for (at, launch) in host.launches.iter().enumerate() {
        let Some(last) = launch.kernel.segments.last().filter(|last| last.name.text == entry.name) else { continue };
        if launch.args.len() > function.params.len() {
            continue;
        }
        let instance = match (&function.template, last.args.as_deref()) {
            (Some(header), Some(args)) => {
                let mut lower = Lower::new(t, vec![], entry.scope.clone(), Facts::default());
                let env = lower.explicit_args(header, args, function.name_span).ok();
                env.and_then(|env| instances.iter().position(|(known, _)| *known == env))
            }
            // The arguments of the template are deduced, which is possible in one way only if there is one instance.
            _ => (instances.len() == 1).then_some(0),
        };
        found.extend(instance.map(|instance| (at, instance)));
    }
    found
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

/// The template arguments of an instance of a kernel. The text describes a choice that the file does not state.
type KernelInstance = (TemplateArgs, Option<String>);

/// Returns the template arguments with which a kernel is translated, and the number of further instances. Explicit
/// instantiations and launches determine them. A template without either is translated for one choice, which is an
/// assumption.
fn kernel_instances<'a>(
    t: &mut FileTranslator<'a>,
    id: usize,
    launched: &[&'a QualifiedName],
) -> Result<(Vec<KernelInstance>, usize), Box<Refusal>> {
    let function = t.function(id);
    let Some(header) = &function.template else { return Ok((vec![(vec![], None)], 0)) };
    let entry = t.program.functions[id].clone();
    if header.params.is_empty() {
        return Ok((vec![(vec![], None)], 0));
    }
    let mut all: Vec<KernelInstance> = vec![];
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
        {
            all.push((env, None));
        }
    }
    let left_out = all.len().saturating_sub(MAX_INSTANCES);
    all.truncate(MAX_INSTANCES);
    if all.is_empty() {
        let mut lower = Lower::new(t, vec![], entry.scope.clone(), Facts::default());
        if let Ok(env) = lower.explicit_args(header, &[], function.name_span) {
            all.push((env, None));
        } else {
            let (env, text) = lower.representative_args(header, &types::FLOAT, function.name_span)?;
            all.push((env, Some(text)));
        }
    }
    Ok((all, left_out))
}

/// Maximum number of instances of one kernel template. Further ones have a warning.
const MAX_INSTANCES: usize = 32;
