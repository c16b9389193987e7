//! `clk prove`: says of each kernel of a program what is proved of it for all sizes, and shows counterexamples.

use std::path::Path;

use serde_json::json;

use crate::app::context::Context;
use crate::app::script::{self, Compiled};
use crate::app::{exit, names};
use crate::base::escape;
use crate::base::source::Span;
use crate::check::typed::KernelId;
use crate::compile::Session;
use crate::prove::{Report, Verdict, examine};

pub(crate) fn file(path: &Path, kernel: Option<&str>, certificates: bool, context: &mut Context) -> u8 {
    let Some(Compiled { session, .. }) = script::compile_file(path, &mut context.console) else {
        context.console.summary();
        return exit::FAILURE;
    };
    let own: Vec<(KernelId, String)> = session
        .program
        .kernels
        .iter()
        .filter(|(_, k)| Some(k.module) == session.main)
        .map(|(id, k)| (id, k.name.to_string()))
        .collect();
    let found: Vec<KernelId> =
        own.iter().filter(|(_, name)| kernel.is_none_or(|wanted| name == wanted)).map(|(id, _)| *id).collect();
    if found.is_empty() {
        let Some(name) = kernel else {
            context.console.fact("the program has no kernels");
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
        let report = examine(&session.program, id);
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
    let assuming: Vec<&str> = report.assuming.iter().map(|clause| session.sources.slice(*clause)).collect();
    if console.json {
        for (property, verdict) in &report.verdicts {
            let mut line = json!({
                "kernel": report.kernel,
                "instance": report.instance,
                "property": property.name(),
                "verdict": verdict.word(),
                "assuming": assuming,
            });
            match verdict {
                Verdict::Proved { steps } => {
                    line["certificates"] = json!(steps);
                    line["largest"] = json!(report.largest.map(|n| n as i64));
                }
                Verdict::Refuted { sizes, .. } => line["sizes"] = json!(sizes),
                Verdict::Unknown { why, place } => {
                    line["why"] = json!(why);
                    line["at"] = json!(place.map(|place| position(place, session)));
                }
            }
            console.line(&escape::json(line.to_string()));
        }
    } else {
        let instance = if report.instance.is_empty() { String::new() } else { format!("  ({})", report.instance) };
        console.line(&format!("{}{}", escape::name(&report.kernel), escape::name(&instance)));
        if !assuming.is_empty() {
            console.line(&format!("  assuming {}", escape::name(&assuming.join(", "))));
        }
        for (property, verdict) in &report.verdicts {
            let text = match verdict {
                Verdict::Proved { .. } => {
                    let sizes = match report.largest {
                        None => "for all sizes".to_string(),
                        Some(largest) => format!("for all arrays of up to {largest} elements"),
                    };
                    format!("{} {sizes}", console.paint("32", "proved"))
                }
                Verdict::Refuted { sizes, .. } if sizes.is_empty() => console.paint("31", "refuted"),
                Verdict::Refuted { sizes, .. } => format!("{} by {sizes}", console.paint("31", "refuted")),
                Verdict::Unknown { why, place } => {
                    let at = place.map(|place| format!("{}: ", position(place, session))).unwrap_or_default();
                    format!("{}: {at}{why}", console.paint("33", "unknown"))
                }
            };
            console.line(&format!("  {:<14}  {text}", property.name()));
        }
        if certificates && !report.certificates.is_empty() {
            console.print(&report.certificates);
        }
    }
    let mut shown = vec![];
    for (_, verdict) in &report.verdicts {
        if let Verdict::Refuted { found, .. } = verdict
            && !shown.contains(found)
        {
            console.report(found, &session.sources);
            shown.push(found.clone());
        }
    }
}

fn position(place: Span, session: &Session) -> String {
    let (line, column) = session.sources.line_column(place);
    format!("{}:{line}:{column}", session.sources.name(place.file))
}
