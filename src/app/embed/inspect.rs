//! Proves, compiles, profiles and traces the kernels and functions of an embedded program.
//!
//! The results equal those of `clk prove`, `clk emit --stage cuda`, `clk profile` and `clk why`. Profiling and tracing run a call on the
//! simulator, with copies of the arguments.

use super::describe::Callable;
use super::program::{Call, Failure, ObservedCall, Program};
use super::report::Report;
use crate::app::generated::{self, Generator, Level, assumed_types};
use crate::app::launch::form::Item;
use crate::app::profile::advice::{KernelIds, advice_for, names_of_gpus};
use crate::app::profile::{Shown, expressions};
use crate::app::{names, proof, why};
use crate::base::diag::Diagnostic;
use crate::base::render::Style;
use crate::check::typed::KernelId;
use crate::compile::Session;
use crate::device::cuda::text::Options;
use crate::device::profile::{Counted, Counting, Profile};
use crate::host::array::Array;
use crate::host::interp::Interpreter;
use crate::host::problem::Problem;
use crate::profile::devices::{GPUS, Gpu, find};
use crate::profile::repair::Kernels;
use crate::prove::examine_until;

/// The verdicts on the properties of a kernel.
pub struct Proof {
    pub text: String,
    /// By property: its name, and `proved`, `refuted` or `unknown`.
    pub verdicts: Vec<(String, &'static str)>,
    pub counterexamples: Vec<Report>,
    /// Whether the kernel was examined with the compile-time arguments of every launch.
    pub is_complete: bool,
}

/// The cost of a call on a GPU.
pub struct CallProfile {
    pub text: String,
    /// The counts of each kernel and array expression, as JSON.
    pub counts: Vec<String>,
    pub advice: Vec<Report>,
}

/// Asks for the origin of an element.
pub struct OriginQuery {
    /// An element, `r[17]`; for `first_nan`, the name of an array.
    pub element: String,
    /// The number of levels of the tree; `None` for the default.
    pub levels: Option<usize>,
    /// The node at which to continue, as the tree prints it: `2.1`.
    pub more: Option<String>,
    /// Whether to follow the first number that is not finite.
    pub first_nan: bool,
}

/// The style of texts.
const STYLE: Style = Style { color: false, ascii: false, width: 100 };

impl Program {
    /// Proves the properties of a kernel for all sizes, or finds counterexamples.
    pub fn prove(&self, callable: usize) -> Result<Proof, Failure> {
        let kernel = self.kernel(callable, "proofs are of kernels")?;
        let stop = self.stop_flag();
        self.guard(|session| {
            let report = examine_until(&session.program, kernel, &stop);
            let verdicts = report.verdicts.iter().map(|(property, verdict)| (property.name(), verdict.word()));
            Ok(Proof {
                text: proof::text(&report, &session.sources, STYLE),
                verdicts: verdicts.collect(),
                counterexamples: Report::all(&proof::counterexamples(&report), &session.sources),
                is_complete: report.unexamined.is_empty(),
            })
        })
    }

    /// Returns the CUDA C++ of a kernel.
    pub fn cuda(&self, callable: usize) -> Result<String, Failure> {
        let id = self.kernel(callable, "it becomes part of the kernels that call it")?;
        self.guard(|session| {
            let kernel = &session.program.kernels[id];
            match Generator::new(Options::default(), None).kernel(session, id, Level::Cuda, false) {
                Ok(text) => Ok(assumed_types(kernel) + &text),
                Err(generated::Failure::Program(diagnostics)) => Err(Report::all(&diagnostics, &session.sources)),
                Err(generated::Failure::Open) => {
                    let title = format!("a compile-time parameter of `{}` has no default", kernel.name);
                    let problem = Problem::new("E0802", title).help("give it one: `kernel k<K: i32 = 4>(…)`");
                    Err(vec![Report::of(problem)])
                }
                Err(generated::Failure::Tool { what, help, .. }) => {
                    Err(vec![Report::of(Problem::new("E0803", what).help(help))])
                }
                Err(generated::Failure::Internal(why)) => {
                    let title = format!("internal error while `{}` was prepared: {why}", kernel.name);
                    Err(vec![Report::of(Problem::new("E0999", title))])
                }
            }
        })
    }

    /// Runs a call and reports its cost on a GPU; `gpu` is one of those that `clk profile --for` knows.
    pub fn profile(
        &mut self,
        callable: usize,
        call: Call,
        gpu: Option<&str>,
        stack_end: usize,
    ) -> Result<CallProfile, Failure> {
        let gpu = match gpu {
            None => &GPUS[0],
            Some(name) => find(name).ok_or_else(|| {
                let problem = Problem::new("E0803", format!("no GPU `{name}` is known"));
                vec![Report::of(problem.help(format!("known are {}", names_of_gpus())))]
            })?,
        };
        let counting = Counting::default().with_expressions(true);
        let counted = counting.clone();
        let begin = |interpreter: &mut Interpreter| interpreter.count(Some(counted));
        self.observe(callable, call, stack_end, begin, |ran| Ok(shown(&counting.take(), ran.session, gpu)))
    }

    /// Runs a call and returns the origin of an element of an array that it writes or returns.
    pub fn why(
        &mut self,
        callable: usize,
        call: Call,
        asked: &OriginQuery,
        stack_end: usize,
    ) -> Result<String, Failure> {
        let begin = |interpreter: &mut Interpreter| interpreter.recorded = Some(vec![]);
        self.observe(callable, call, stack_end, begin, |ran| {
            origin(ran, asked).map_err(|why| Box::new(Problem::new("E0803", why).anywhere()))
        })
    }

    /// Returns the kernel that a callable is; for functions, an error that explains why.
    fn kernel(&self, callable: usize, why: &str) -> Result<KernelId, Failure> {
        match self.callables().get(callable) {
            Some(Callable { item: Item::Kernel(id), .. }) => Ok(*id),
            Some(Callable { name, .. }) => {
                Err(vec![Report::of(Problem::new("E0803", format!("`{name}` is a function: {why}")))])
            }
            None => Err(vec![]),
        }
    }
}

fn shown(profiles: &[Profile], session: &Session, gpu: &'static Gpu) -> CallProfile {
    let (kernels, ids) = (Kernels::new(&session.sources), KernelIds::of(session));
    let (mut text, mut counts, mut advice) = (String::new(), vec![], vec![]);
    for profile in profiles {
        let shown = Shown { profile, resources: None, gpu, sources: &session.sources, kernels: &kernels };
        counts.push(shown.json().to_string());
        if profile.of != Counted::Expression {
            text += &shown.text(STYLE);
        }
        let found: Vec<Diagnostic> = advice_for(profile, None, gpu, (session, &kernels, &ids));
        advice.extend(Report::all(&found, &session.sources));
    }
    text += &expressions::table(profiles.iter(), gpu, &session.sources, STYLE).unwrap_or_default();
    if profiles.is_empty() {
        text = "no kernel was launched\n".into();
    }
    CallProfile { text, counts, advice }
}

fn origin(ran: &ObservedCall<'_>, asked: &OriginQuery) -> Result<String, String> {
    let OriginQuery { element, levels, more, first_nan } = asked;
    let part = why::Part::new(*levels, more.as_deref())?;
    let arrays = ran.arrays();
    let find = |name: &str| -> Result<Array, String> {
        if let Some((_, array)) = arrays.iter().find(|(own, _)| own == name) {
            return Ok(array.clone());
        }
        let known: Vec<String> = arrays.iter().map(|(own, _)| format!("`{own}`")).collect();
        Err(match (&known[..], names::did_you_mean(name, arrays.iter().map(|(own, _)| own.as_str()))) {
            ([], _) => format!("`{}` writes and returns no array", ran.of.name),
            (_, Some(meant)) => format!("`{}` writes no array `{name}`; {meant}", ran.of.name),
            (known, None) => format!("`{}` writes no array `{name}`, but {}", ran.of.name, known.join(", ")),
        })
    };
    let (session, interpreter) = (ran.session, ran.interpreter);
    let tree = match first_nan {
        true => why::not_finite_in(session, interpreter, (element.trim(), find(element.trim())?), &part)?,
        false => why::element_of_call(session, interpreter, element, find, &part)?,
    };
    Ok(tree.text(|place| format!("more=\"{place}\"")))
}
