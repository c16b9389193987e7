//! Analyzes the kernels and functions of an embedded program: proofs, CUDA code, profiles and provenance.
//!
//! The results equal those of `clk prove`, `clk emit --stage cuda`, `clk profile` and `clk why`. Profiling and tracing
//! run a call on the simulator, on copies of the arguments.

use super::describe::Callable;
use super::program::{EmbedCall, EmbedErrors, EmbedProgram, ObservedCall};
use super::report::EmbedReport;
use crate::command_error::CommandResult;
use crate::devices::GpuCodeOptions;
use crate::generated::{EmitError, EmitStage, KernelEmitter, assumed_types};
use crate::launch::compiled_launch::CallableItem;
use crate::profile::advice::{KernelIds, advice_for, names_of_gpus};
use crate::profile::{ProfileView, expressions};
use crate::{proof, suggestions, why};
use clk_base::diag::Diagnostic;
use clk_base::render::RenderStyle;
use clk_check::typed::KernelId;
use clk_compile::Session;
use clk_host::array::Array;
use clk_host::interp::Interpreter;
use clk_host::problem::RuntimeError;
use clk_profile::edits::ParsedKernels;
use clk_profile::gpus::{GPUS, GpuModel, find_gpu};
use clk_prove::prove_kernel_until;
use clk_runtime::profile::{CostCounting, Profile, ProfileCollector};

/// The result of proving the properties of a kernel.
pub struct KernelProof {
    pub text: String,
    /// The name of each property, and its verdict: `proved`, `refuted` or `unknown`.
    pub verdicts: Vec<(String, &'static str)>,
    pub counterexamples: Vec<EmbedReport>,
    /// Whether the proofs cover the compile-time arguments of every launch in the program.
    pub is_complete: bool,
}

/// The estimated cost of a call on a GPU.
pub struct CallProfile {
    pub text: String,
    /// The profile of each kernel and array expression, as JSON.
    pub counts: Vec<String>,
    pub advice: Vec<EmbedReport>,
}

/// A request for the provenance of an array element.
pub struct OriginQuery {
    /// An element such as `r[17]`. If `first_nan` is set, the name of an array.
    pub element: String,
    /// The number of levels of the tree to show; `None` for the default.
    pub levels: Option<usize>,
    /// The position in the tree at which to continue, such as `2.1`, as an earlier tree showed it.
    pub more: Option<String>,
    /// Whether to trace the first element that is infinite or NaN.
    pub first_nan: bool,
}

/// The style of reports as text.
const STYLE: RenderStyle = RenderStyle { color: false, ascii: false, width: 100 };

impl EmbedProgram {
    /// Proves the properties of a kernel for all sizes, or finds counterexamples.
    pub fn prove(&self, callable: usize) -> Result<KernelProof, EmbedErrors> {
        let kernel = self.kernel(callable, "proofs are of kernels")?;
        let stop = self.stop_flag();
        self.guard(|session| {
            let report = prove_kernel_until(&session.program, kernel, &stop);
            let verdicts = report.verdicts.iter().map(|(property, verdict)| (property.name(), verdict.word()));
            Ok(KernelProof {
                text: proof::verdicts_text(&report, &session.sources, STYLE),
                verdicts: verdicts.collect(),
                counterexamples: EmbedReport::all(&proof::counterexamples(&report), &session.sources),
                is_complete: report.unexamined.is_empty(),
            })
        })
    }

    /// Returns the CUDA C++ code of a kernel.
    pub fn cuda(&self, callable: usize) -> Result<String, EmbedErrors> {
        let id = self.kernel(callable, "it becomes part of the kernels that call it")?;
        self.guard(|session| {
            let kernel = &session.program.kernels[id];
            match KernelEmitter::new(GpuCodeOptions::default(), None).kernel(session, id, EmitStage::Cuda, false) {
                Ok(text) => Ok(assumed_types(kernel) + &text),
                Err(EmitError::Program(diagnostics)) => Err(EmbedReport::all(&diagnostics, &session.sources)),
                Err(EmitError::Open) => {
                    let title = format!("a compile-time parameter of `{}` has no default", kernel.name);
                    let problem = RuntimeError::new("E0802", title).help("give it one: `kernel k<K: i32 = 4>(…)`");
                    Err(vec![EmbedReport::of(problem)])
                }
                Err(EmitError::Tool { what, help, .. }) => {
                    Err(vec![EmbedReport::of(RuntimeError::new("E0803", what).help(help))])
                }
                Err(EmitError::NoTiles { why, .. } | EmitError::Internal(why)) => {
                    let title = format!("internal error while `{}` was prepared: {why}", kernel.name);
                    Err(vec![EmbedReport::of(RuntimeError::new("E0999", title))])
                }
            }
        })
    }

    /// Runs a call on the simulator and estimates its cost on a GPU. `gpu` is one of the names that `clk profile --for`
    /// accepts.
    pub fn profile(
        &mut self,
        callable: usize,
        call: EmbedCall,
        gpu: Option<&str>,
        stack_end: usize,
    ) -> Result<CallProfile, EmbedErrors> {
        let gpu = match gpu {
            None => &GPUS[0],
            Some(name) => find_gpu(name).ok_or_else(|| {
                let problem = RuntimeError::new("E0803", format!("no GPU `{name}` is known"));
                vec![EmbedReport::of(problem.help(format!("known are {}", names_of_gpus())))]
            })?,
        };
        let counting = ProfileCollector::default().with_expressions(true);
        let counted = counting.clone();
        let begin = |interpreter: &mut Interpreter| interpreter.set_profile_collector(Some(counted));
        self.observe(callable, call, stack_end, begin, |ran| Ok(shown(&counting.take(), ran.session, gpu)))
    }

    /// Runs a call on the simulator and returns the provenance of an element of an array that it writes or returns.
    pub fn why(
        &mut self,
        callable: usize,
        call: EmbedCall,
        asked: &OriginQuery,
        stack_end: usize,
    ) -> Result<String, EmbedErrors> {
        let begin = |interpreter: &mut Interpreter| interpreter.observers.recorded_launches = Some(vec![]);
        self.observe(callable, call, stack_end, begin, |ran| {
            origin(ran, asked).map_err(|why| Box::new(RuntimeError::new("E0803", why.to_string()).anywhere()))
        })
    }

    /// Returns the kernel with this index among the callables. For a function, returns an error that contains `why`.
    fn kernel(&self, callable: usize, why: &str) -> Result<KernelId, EmbedErrors> {
        match self.callables().get(callable) {
            Some(Callable { item: CallableItem::Kernel(id), .. }) => Ok(*id),
            Some(Callable { name, .. }) => {
                Err(vec![EmbedReport::of(RuntimeError::new("E0803", format!("`{name}` is a function: {why}")))])
            }
            None => Err(vec![]),
        }
    }
}

fn shown(profiles: &[Profile], session: &Session, gpu: &'static GpuModel) -> CallProfile {
    let (kernels, ids) = (ParsedKernels::new(&session.sources), KernelIds::of(session));
    let (mut text, mut counts, mut advice) = (String::new(), vec![], vec![]);
    for profile in profiles {
        let shown = ProfileView { profile, resources: None, gpu, sources: &session.sources, kernels: &kernels };
        counts.push(shown.json().to_string());
        if profile.of != CostCounting::Expression {
            text += &shown.text(STYLE);
        }
        let found: Vec<Diagnostic> = advice_for(profile, None, gpu, session, &kernels, &ids);
        advice.extend(EmbedReport::all(&found, &session.sources));
    }
    text += &expressions::table(profiles.iter(), gpu, &session.sources, STYLE).unwrap_or_default();
    if profiles.is_empty() {
        text = "no kernel was launched\n".into();
    }
    CallProfile { text, counts, advice }
}

fn origin(ran: &ObservedCall<'_>, asked: &OriginQuery) -> CommandResult {
    let OriginQuery { element, levels, more, first_nan } = asked;
    let part = why::TreeWindow::new(*levels, more.as_deref())?;
    let arrays = ran.arrays();
    let find = |name: &str| -> CommandResult<Array> {
        if let Some((_, array)) = arrays.iter().find(|(own, _)| own == name) {
            return Ok(array.clone());
        }
        let known: Vec<String> = arrays.iter().map(|(own, _)| format!("`{own}`")).collect();
        let title = match (&known[..], suggestions::did_you_mean(name, arrays.iter().map(|(own, _)| own.as_str()))) {
            ([], _) => format!("`{}` writes and returns no array", ran.of.name),
            (_, Some(meant)) => format!("`{}` writes no array `{name}`; {meant}", ran.of.name),
            (known, None) => format!("`{}` writes no array `{name}`, but {}", ran.of.name, known.join(", ")),
        };
        Err(title.into())
    };
    let (session, interpreter) = (ran.session, ran.interpreter);
    let tree = match first_nan {
        true => why::trace_nonfinite_in(session, interpreter, element.trim(), find(element.trim())?, &part)?,
        false => why::element_of_call(session, interpreter, element, find, &part)?,
    };
    Ok(tree.text(|place| format!("more=\"{place}\"")))
}
