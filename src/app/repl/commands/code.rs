//! Commands that show the generated code of a kernel.

use crate::command_error::{CommandError, CommandResult};
use crate::generated::{EmitError, EmitStage, KernelEmitter, assumed_types};
use crate::listing::{self, Language};
use crate::repl::state::Repl;
use crate::{proof, suggestions};
use clk_check::typed::{KernelId, NameBinding};
use clk_prove::prove_kernel_until;

impl Repl<'_> {
    /// Returns the highlighted generated code of a kernel at one stage, compiled with the options used for launches.
    /// Error messages mention `command`.
    pub(super) fn listing(&mut self, command: &str, name: &str, level: EmitStage) -> CommandResult {
        let kernel = self.kernel(command, name)?;
        let language = match level {
            EmitStage::Ir | EmitStage::Tiles | EmitStage::Grad | EmitStage::Lanes => Language::Ir,
            EmitStage::Cuda => Language::Cuda,
            EmitStage::Ptx | EmitStage::Sass => Language::Assembly,
        };
        let style = self.context.console.style;
        let colored = |text: &str| listing::render(text, language, style);
        let (sums, relies) = (self.context.limits.sums, self.context.machine.requires_exact_mma());
        let generator = KernelEmitter::new(self.context.text, None).adding(sums, relies);
        match generator.kernel(&self.session, kernel, level, false) {
            Ok(text) => Ok(colored(&(assumed_types(&self.session.program.kernels[kernel]) + &text))),
            Err(EmitError::Program(diagnostics)) => {
                self.report_all(&diagnostics);
                Ok(String::new())
            }
            Err(EmitError::Open) => {
                Err(format!("`{name}` has compile-time parameters without a default, so their values are unknown")
                    .into())
            }
            Err(EmitError::Tool { what, help, shown }) => {
                self.context.console.print(&colored(&shown));
                Err(CommandError::from(what).help(help))
            }
            Err(EmitError::NoTiles { why, .. }) => Err(format!("`{name}` has no tile program: {why}").into()),
            Err(EmitError::Internal(why)) => Err(format!("internal error while `{name}` was prepared: {why}").into()),
        }
    }

    /// Proves a kernel, or all kernels of the session; returns the verdicts and reports counterexamples.
    pub(super) fn prove(&mut self, name: &str) -> CommandResult {
        let names: Vec<String> = match name {
            "" => self.kernel_names().into_iter().map(str::to_string).collect(),
            name => vec![name.to_string()],
        };
        if names.is_empty() {
            return Err("there is nothing to prove: the session has no kernels yet".into());
        }
        for name in names {
            let kernel = self.kernel("prove", &name)?;
            let report = prove_kernel_until(&self.session.program, kernel, &self.context.interrupt.flag());
            let text = proof::verdicts_text(&report, &self.session.sources, self.context.console.style);
            self.context.console.print(&text);
            self.report_all(&proof::counterexamples(&report));
        }
        Ok(String::new())
    }

    /// Finds a kernel of the session, or of an imported module (`nn.softmax`).
    fn kernel(&self, command: &str, name: &str) -> CommandResult<KernelId> {
        if name.is_empty() {
            return Err(format!("`:{command}` wants the name of a kernel; {}", self.kernels_here()).into());
        }
        let binding = match name.split_once('.') {
            None => self.binding(name),
            Some((module, member)) => match self.binding(module) {
                Some(NameBinding::Module(id)) => {
                    self.session.program.modules.get(id).and_then(|m| m.names.get(member)).copied()
                }
                _ => None,
            },
        };
        match binding {
            Some(NameBinding::Kernel(id)) => Ok(id),
            Some(NameBinding::Fn(_)) => {
                Err(format!("`{name}` is a function: it becomes part of the kernels that call it").into())
            }
            _ => Err(self.no_kernel(name).into()),
        }
    }

    fn kernel_names(&self) -> Vec<&str> {
        let names = self.module().into_iter().flat_map(|m| &m.names);
        names.filter(|(_, b)| matches!(b, NameBinding::Kernel(_))).map(|(name, _)| name.as_str()).collect()
    }

    fn kernels_here(&self) -> String {
        match self.kernel_names().as_slice() {
            [] => "the session has none yet".into(),
            [one] => format!("there is {one}"),
            all => format!("there are {}", all.join(", ")),
        }
    }

    fn no_kernel(&self, name: &str) -> String {
        let near = suggestions::did_you_mean(name, self.kernel_names());
        format!("`{name}` is not a kernel; {}", near.unwrap_or_else(|| self.kernels_here()))
    }
}
