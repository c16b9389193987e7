//! Commands that show the generated code of a kernel.

use crate::app::generated::{Failure, Generator, Level, assumed_types};
use crate::app::listing::{self, Language};
use crate::app::repl::state::{Answer, Repl};
use crate::app::{names, proof};
use crate::check::typed::{Binding, KernelId};
use crate::prove::examine_until;

impl Repl<'_> {
    /// Returns the generated code of a kernel, in color, with the options used for launches. `command` is named in error messages.
    pub(super) fn listing(&mut self, command: &str, name: &str, level: Level) -> Answer {
        let kernel = self.kernel(command, name)?;
        let language = match level {
            Level::Ir | Level::Grad | Level::Lanes => Language::Ir,
            Level::Cuda => Language::Cuda,
            Level::Ptx | Level::Sass => Language::Assembly,
        };
        let style = self.context.console.style;
        let colored = |text: &str| listing::render(text, language, style);
        let (sums, relies) = (self.context.limits.sums, self.context.machine.relies());
        let generator = Generator::new(self.context.text.clone(), None).adding(sums, relies);
        match generator.kernel(&self.session, kernel, level, false) {
            Ok(text) => Ok(colored(&(assumed_types(&self.session.program.kernels[kernel]) + &text))),
            Err(Failure::Program(diagnostics)) => {
                self.report_all(&diagnostics);
                Ok(String::new())
            }
            Err(Failure::Open) => {
                Err(format!("`{name}` has compile-time parameters without a default: nothing says what they are"))
            }
            Err(Failure::Tool { what, help, shown }) => {
                self.context.console.print(&colored(&shown));
                Err(format!("{what}\n  Help: {help}"))
            }
            Err(Failure::Internal(why)) => Err(format!("internal error while `{name}` was prepared: {why}")),
        }
    }

    /// Says what is proved of a kernel, or of all kernels of the session, and reports counterexamples.
    pub(super) fn prove(&mut self, name: &str) -> Answer {
        let names: Vec<String> = match name {
            "" => self.kernel_names().into_iter().map(str::to_string).collect(),
            name => vec![name.to_string()],
        };
        if names.is_empty() {
            return Err("there is nothing to prove: the session has no kernels yet".into());
        }
        for name in names {
            let kernel = self.kernel("prove", &name)?;
            let report = examine_until(&self.session.program, kernel, &self.context.interrupt.flag());
            let text = proof::text(&report, &self.session.sources, self.context.console.style);
            self.context.console.print(&text);
            self.report_all(&proof::counterexamples(&report));
        }
        Ok(String::new())
    }

    /// Returns a kernel of the session, or of an imported module (`nn.softmax`).
    fn kernel(&self, command: &str, name: &str) -> Result<KernelId, String> {
        if name.is_empty() {
            return Err(format!("`:{command}` wants the name of a kernel; {}", self.kernels_here()));
        }
        let found = match name.split_once('.') {
            None => self.binding(name),
            Some((module, member)) => match self.binding(module) {
                Some(Binding::Module(id)) => {
                    self.session.program.modules.get(id).and_then(|m| m.names.get(member)).copied()
                }
                _ => None,
            },
        };
        match found {
            Some(Binding::Kernel(id)) => Ok(id),
            Some(Binding::Fn(_)) => Err(format!("`{name}` is a function: it becomes part of the kernels that call it")),
            _ => Err(self.no_kernel(name)),
        }
    }

    fn kernel_names(&self) -> Vec<&str> {
        let names = self.module().into_iter().flat_map(|m| &m.names);
        names.filter(|(_, b)| matches!(b, Binding::Kernel(_))).map(|(name, _)| name.as_str()).collect()
    }

    fn kernels_here(&self) -> String {
        match self.kernel_names().as_slice() {
            [] => "the session has none yet".into(),
            [one] => format!("there is {one}"),
            all => format!("there are {}", all.join(", ")),
        }
    }

    fn no_kernel(&self, name: &str) -> String {
        let near = names::did_you_mean(name, self.kernel_names());
        format!("`{name}` is not a kernel; {}", near.unwrap_or_else(|| self.kernels_here()))
    }
}
