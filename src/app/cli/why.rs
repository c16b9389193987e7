//! `clk why`: shows the provenance of an array element.

use std::path::Path;

use clap::{Arg, ArgAction, Command, value_parser};
use serde_json::json;

use super::common_args;
use crate::context::AppContext;
use crate::effects::CapturedEffects;
use crate::script;
use crate::{exit, why};

/// Returns the definition of the command line of `clk why`.
pub(crate) fn command() -> Command {
    Command::new("why")
        .about("Show how an element of an array came to be, back to the inputs")
        .arg(common_args::file("The program"))
        .arg(Arg::new("element").value_name("ELEMENT").required(true).help("An element of a variable, such as `y[17]`"))
        .arg(
            Arg::new("levels")
                .long("levels")
                .value_name("N")
                .value_parser(value_parser!(usize))
                .help("How many levels of the tree to show [default: 6]"),
        )
        .arg(
            Arg::new("more")
                .long("more")
                .value_name("N")
                .help("Go on where the tree says `… [N]`; below that at `… [M]`: N.M"),
        )
        .arg(
            Arg::new("nan")
                .long("nan")
                .action(ArgAction::SetTrue)
                .help("ELEMENT is a variable: show the first number that is not finite on the way to it"),
        )
}

pub(crate) fn file(
    path: &Path,
    asked: &str,
    levels: Option<usize>,
    more: Option<&str>,
    nan: bool,
    context: &mut AppContext,
) -> u8 {
    let part = match why::TreeWindow::new(levels, more) {
        Ok(part) => part,
        Err(complaint) => {
            context.console.error_line(&format!("error: {complaint}"));
            return exit::USAGE;
        }
    };
    let Some(mut compiled) = script::compile_file(path, &mut context.console) else {
        context.console.summary();
        return exit::FAILURE;
    };
    let mut interpreter = context.limits.interpreter(&context.interrupt, vec![]);
    interpreter.observers.recorded_launches = Some(vec![]);
    if let Err(error) = script::run_chunks(&compiled, &mut interpreter, &mut CapturedEffects::default()) {
        context.console.report(&error, &compiled.session.sources);
        return script::failure_code(&context.interrupt);
    }
    let explanation = match nan {
        true => why::trace_nonfinite(&compiled.session, &interpreter, asked, &part),
        false => why::element(&mut compiled.session, &mut interpreter, asked, &part),
    };
    match explanation {
        Ok(tree) => {
            let text = tree.text(|place| format!("--more {place}"));
            context.console.results("why", || vec![json!({ "element": asked, "tree": text })], |_| text.clone());
            exit::OK
        }
        Err(complaint) => {
            context.console.error_line(&format!("error: {complaint}"));
            script::failure_code(&context.interrupt)
        }
    }
}
