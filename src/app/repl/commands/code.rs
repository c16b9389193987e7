//! Commands that show what a kernel becomes.

use std::sync::Arc;

use super::super::Repl;
use super::Answer;
use crate::app::listing::{self, Language};
use crate::app::names;
use crate::check;
use crate::check::typed::{Binding, GenericKind, KernelId};
use crate::compile;
use crate::device::cuda::text::cuda_text;
use crate::ir::{self, Prepared};
use crate::lower::{Argument, Instance};

impl Repl<'_> {
    /// DeviceIR of a kernel.
    pub(super) fn ir(&mut self, name: &str) -> Answer {
        self.listing("ir", name, Language::Ir, |_, prepared| Ok(ir::text::print(&prepared.module)))
    }

    /// CUDA C++ of a kernel, with the options that GPUs run it with.
    pub(super) fn cuda(&mut self, name: &str) -> Answer {
        self.listing("cuda", name, Language::Cuda, |repl, prepared| {
            Ok(cuda_text(prepared, &repl.context.text, None).text)
        })
    }

    /// What a kernel is turned into, in colors.
    fn listing(
        &mut self,
        command: &str,
        name: &str,
        language: Language,
        show: impl FnOnce(&Self, &Arc<Prepared>) -> Result<String, String>,
    ) -> Answer {
        let kernel = self.kernel(command, name)?;
        let program = &self.session.program;
        let Some(instance) = compile::sample_instance(program, kernel) else {
            return Err(format!("`{name}` has compile-time parameters without a default: nothing says what they are"));
        };
        match compile::kernel(program, &instance) {
            Ok(prepared) => {
                let text = self.assumed(&instance) + &show(self, &prepared)?;
                Ok(listing::render(&text, language, self.context.console.style))
            }
            Err(diagnostics) => {
                self.report_all(&diagnostics);
                Ok(String::new())
            }
        }
    }

    /// The types that stand in for those that a launch would give.
    fn assumed(&self, instance: &Instance) -> String {
        let program = &self.session.program;
        let generics = &program.kernels[instance.kernel].sig.generics;
        let types = generics.iter().zip(&instance.arguments).filter_map(|(generic, argument)| match argument {
            Argument::Type(ty) if matches!(generic.kind, GenericKind::Type { .. }) => {
                Some(format!("{} = {}", generic.name, check::show_type(program, None, ty)))
            }
            _ => None,
        });
        let types: Vec<String> = types.collect();
        if types.is_empty() { String::new() } else { format!("// for {}\n", types.join(", ")) }
    }

    /// A kernel of the session, or of a module that it imports (`nn.softmax`).
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
