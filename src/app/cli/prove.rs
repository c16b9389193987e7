//! `clk prove`: says of each kernel of a program what is proved of it for all sizes, and shows counterexamples.

use std::path::Path;

use serde_json::json;

use crate::app::context::Context;
use crate::app::script::{self, Compiled};
use crate::app::{exit, names, proof};
use crate::base::escape;
use crate::base::source::Span;
use crate::check::typed::KernelId;
use crate::compile::Session;
use crate::prove::{Report, Verdict, examine_until, of_file};

pub(crate) fn file(path: &Path, kernel: Option<&str>, certificates: bool, context: &mut Context) -> u8 {
    let Some(Compiled { session, .. }) = script::compile_file(path, &mut context.console) else {
        context.console.summary();
        return exit::FAILURE;
    };
    let named = |id: KernelId| (id, session.program.kernels[id].name.to_string());
    let own: Vec<(KernelId, String)> = of_file(&session.program, session.main).into_iter().map(named).collect();
    let found: Vec<KernelId> =
        own.iter().filter(|(_, name)| kernel.is_none_or(|wanted| name == wanted)).map(|(id, _)| *id).collect();
    if found.is_empty() {
        let Some(name) = kernel else {
            context.console.fact("the file has no kernels; those of imported files are examined in their own file");
            return exit::OK;
        };
        let help = names::did_you_mean(name, own.iter().map(|(_, name)| name.as_str()))
            .map(|meant| format!("\n  Help: {meant}"))
            .unwrap_or_default();
        context.console.error_line(&format!("error: `{}` has no kernel `{name}`{help}", path.display()));
        return exit::FAILURE;
    }
    let mut refuted = false;
    for id in found {
        let report = examine_until(&session.program, id, &context.interrupt.flag());
        refuted |= report.is_refuted();
        show(&report, &session, certificates, context);
        if let Some(code) = context.interrupt.exit_code() {
            return code;
        }
    }
    if refuted { exit::FAILURE } else { exit::OK }
}

fn show(report: &Report, session: &Session, certificates: bool, context: &mut Context) {
    let console = &mut context.console;
    let sources = &session.sources;
    let unexamined =
        |(text, place): &(String, Span)| json!({ "arguments": text, "at": proof::position(*place, sources) });
    if console.json {
        for (property, verdict) in &report.verdicts {
            let mut line = json!({
                "kernel": report.kernel,
                "instance": report.instance,
                "property": property.name(),
                "verdict": verdict.word(),
                "assuming": proof::assuming(report, sources),
                "unexamined": report.unexamined.iter().map(unexamined).collect::<Vec<_>>(),
            });
            match verdict {
                Verdict::Proved { steps } => {
                    line["certificates"] = json!(steps);
                    line["largest"] = json!(report.largest.map(|n| n as i64));
                }
                Verdict::Refuted { sizes, .. } => line["sizes"] = json!(sizes),
                Verdict::Unknown { why, place } => {
                    line["why"] = json!(why);
                    line["at"] = json!(place.map(|place| proof::position(place, sources)));
                }
            }
            console.line(&escape::json(line.to_string()));
        }
    } else {
        console.print(&proof::text(report, sources, console.style));
        if certificates && !report.certificates.is_empty() {
            console.print(&report.certificates);
        }
    }
    for found in proof::counterexamples(report) {
        console.report(&found, sources);
    }
}
