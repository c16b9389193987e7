//! `clk why`: shows how an element of an array came to be.

use std::path::Path;

use crate::app::context::Context;
use crate::app::script;
use crate::app::world::Captured;
use crate::app::{exit, why};

pub(crate) fn file(path: &Path, asked: &str, levels: Option<usize>, nan: bool, context: &mut Context) -> u8 {
    let Some(mut compiled) = script::compile_file(path, &mut context.console) else {
        context.console.summary();
        return exit::FAILURE;
    };
    let mut interpreter = context.limits.interpreter(&context.interrupt, vec![]);
    interpreter.recorded = Some(vec![]);
    if let Err(error) = script::run_chunks(&compiled, &mut interpreter, &mut Captured::default()) {
        context.console.report(&error, &compiled.session.sources);
        return script::failure_code(&context.interrupt);
    }
    let levels = levels.unwrap_or(why::LEVELS);
    let told = match nan {
        true => why::not_finite(&compiled.session, &interpreter, asked, levels),
        false => why::element(&mut compiled.session, &mut interpreter, asked, levels),
    };
    match told {
        Ok(text) => {
            context.console.print(&text);
            exit::OK
        }
        Err(complaint) => {
            context.console.error_line(&format!("error: {complaint}"));
            script::failure_code(&context.interrupt)
        }
    }
}
