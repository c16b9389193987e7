//! The tools: their names, descriptions and parameters, and the commands that they run.
//!
//! Agents decide by the descriptions which tool to call and how to understand its verdict.

use serde_json::{Value, json};

use super::arguments::{Arguments, Parameter, ParameterKind, input_schema};
use super::debug_at;
use super::schema::output_schema;
use super::tool_call::ToolCall;
use super::transcript::STYLE;
use crate::cli::{self, CheckProofs, ProfileOptions};
use crate::context::AppContext;
use crate::cuda_launches::CudaLaunchOptions;
use crate::exit;
use clk_import::ImportOptions;

/// A tool.
pub(super) struct Tool {
    pub name: &'static str,
    title: &'static str,
    about: &'static str,
    pub parameters: &'static [Parameter],
    /// Describes the items of `results`.
    results: &'static str,
    /// Whether errors in the program are the tool's result, not a failure of the tool.
    pub reports_programs: bool,
    /// Whether the tool can change something: only `run` and the like can, with `--write`.
    runs_scripts: bool,
    /// Runs the tool; returns the exit code.
    pub run: fn(&ToolCall<'_>, &mut AppContext) -> u8,
}

impl Tool {
    pub fn takes_program(&self) -> bool {
        self.parameters.iter().any(|parameter| parameter.name == SOURCE.name)
    }

    /// Returns whether the program is a CUDA file.
    pub fn is_for_cuda(&self) -> bool {
        self.name == "import_cuda"
    }

    /// Returns the tool as `tools/list` describes it.
    fn description(&self, may_write: bool) -> Value {
        let read_only = !(self.runs_scripts && may_write);
        json!({
            "name": self.name,
            "title": self.title,
            "description": self.about,
            "inputSchema": input_schema(self.parameters),
            "outputSchema": output_schema(self.results),
            "annotations": {
                "title": self.title, "readOnlyHint": read_only, "destructiveHint": !read_only, "openWorldHint": false,
            },
        })
    }
}

/// Returns the descriptions of all tools.
pub(super) fn descriptions(may_write: bool) -> Vec<Value> {
    TOOLS.iter().map(|tool| tool.description(may_write)).collect()
}

pub(super) fn find(name: &str) -> Option<&'static Tool> {
    TOOLS.iter().find(|tool| tool.name == name)
}

const SOURCE: Parameter =
    Parameter::optional("source", ParameterKind::Text, "The text of the program. Give either this or `path`.");
const PATH: Parameter = Parameter::optional(
    "path",
    ParameterKind::Text,
    "A file in the server's root folder, such as `kernels/blur.clk`. Give either this or `source`. Without `--root`, the server reads no files.",
);
const PATH_WITH_CUDA: Parameter = Parameter {
    about: "A file in the server's root folder: a `.clk` program, or a CUDA C++ file (`.cu`, `.cuh`). Give either this or `source`. Without `--root`, the server reads no files.",
    ..PATH
};
const LANGUAGE: Parameter = Parameter::optional(
    "language",
    ParameterKind::Choice(&["clk", "cuda"]),
    "The language of `source` [default: clk]. Files have the language of their extension.",
);
const DEFINES: Parameter = Parameter::optional(
    "defines",
    ParameterKind::Texts,
    "For CUDA: macros to define, such as `BLOCK=256`. The value of `NAME` alone is 1.",
);
const TIME: Parameter = Parameter::optional(
    "time_limit",
    ParameterKind::Seconds,
    "End the call after this many seconds [default and maximum: the server's `--time`].",
);
const KERNEL: Parameter =
    Parameter::optional("kernel", ParameterKind::Text, "Only the kernel with this name [default: all].");
const ARGUMENTS: Parameter =
    Parameter::optional("args", ParameterKind::Texts, "The script's command-line arguments, which it reads as `args`.");

const NO_RESULTS: &str = "Empty. The verdict is `status`; the reasons are in `diagnostics`.";
const SUMMARY: &str =
    "One item with the numbers of `errors` and `warnings`. The verdict is `status`; the reasons are in `diagnostics`.";

static TOOLS: &[Tool] = &[
    Tool {
        name: "check",
        title: "Check a program without running it",
        about: "Reports the mistakes of a Clk program or a CUDA C++ file without running its script: syntax, names, types, array shapes, misuse of host or device operations, and violated contracts. It also runs each kernel at a few sizes, and reports faults (out of bounds, races, barriers, reads of unwritten shared memory) that no choice of sizes avoids. Call it after each edit, before `run` or `prove`: it takes milliseconds. `status` is `ok` if there is no error; warnings do not change it. `ok` means that the program compiles, not that its kernels are correct: use `prove` or `run` for that. Each diagnostic has a code, a line and column, and often a fix with exact edits. For a file with a fault in a kernel, `status` is `failed` and the diagnostic names the line.",
        parameters: &[SOURCE, PATH_WITH_CUDA, LANGUAGE, DEFINES, TIME],
        results: SUMMARY,
        reports_programs: true,
        runs_scripts: false,
        run: check,
    },
    Tool {
        name: "run",
        title: "Run a Clk script with all checks",
        about: "Runs a Clk script on the simulator, with the checks for races, reads of unwritten memory, overflow and indices out of bounds, and returns what it printed. Use it to test behavior on concrete data. `status` is `ok` if the script ended without a fault. `failed` means that it does not compile, that it called `exit` with another code than 0, or that an operation or a kernel had a fault: the diagnostic names the line, the thread and the values. A run without a fault says nothing about other sizes or data: `prove` covers all sizes. For a CUDA file, the launches in its host code run with generated arrays, and with chosen numbers where the file does not determine them. Scripts read files only in the root folder, and write none unless the server permits it.",
        parameters: &[
            SOURCE,
            PATH,
            ARGUMENTS,
            Parameter::optional(
                "check",
                ParameterKind::Switch,
                "Whether kernels run with all checks [default: true]. Without them they run faster, and races and reads of unwritten memory are not reported.",
            ),
            Parameter::optional(
                "trap_nan",
                ParameterKind::Switch,
                "Whether to stop where the first NaN or infinity is computed [default: false].",
            ),
            Parameter::optional(
                "seed",
                ParameterKind::Whole(0),
                "The seed of `random` and similar builtins [default: 0].",
            ),
            Parameter::optional(
                "max_steps",
                ParameterKind::Whole(1),
                "Stop a kernel whose threads take more loop iterations than this [default: no limit but the time].",
            ),
            TIME,
        ],
        results: NO_RESULTS,
        reports_programs: true,
        runs_scripts: true,
        run,
    },
    Tool {
        name: "prove",
        title: "Prove kernels correct for every size",
        about: "Proves for each kernel, for every size of its arrays and every launch, these properties: `in bounds` (all accesses), `free of races`, `written` (every element of `out` arrays), `initialized` (no read of a shared array before a write), `barriers` (all threads of a block reach the same ones), `no overflow` (integers), and `any order` (the result does not depend on the order of threads). Use it to find faults in Clk or CUDA C++ kernels, and to be sure that there are none, without test data. Each property has a verdict. `proved`: it holds for all sizes. `refuted`: it does not; the diagnostic shows the line, and sizes and threads for which a run has confirmed the fault. `unknown`: neither was found; it says nothing, and `why` and `at` name the obstacle. `assuming` lists conditions on the arguments under which a proof holds: callers must ensure them. `status` is `failed` if a property is refuted.",
        parameters: &[
            SOURCE,
            PATH_WITH_CUDA,
            LANGUAGE,
            KERNEL,
            Parameter::optional(
                "certificate",
                ParameterKind::Switch,
                "Whether the text contains the steps of the proofs [default: false].",
            ),
            DEFINES,
            TIME,
        ],
        results: "One item for each kernel and property: `kernel`, `instance` (compile-time arguments), `property`, `verdict` (`proved`, `refuted` or `unknown`), `assuming`, and `sizes` of a counterexample or `why` and `at` for unknown",
        reports_programs: false,
        runs_scripts: false,
        run: prove,
    },
    Tool {
        name: "profile",
        title: "Estimate what kernels cost on a GPU",
        about: "Runs a Clk script on the simulator and counts for each launched kernel and line what it costs a GPU: memory sectors, bank conflicts, divergence, atomics. Returns a lower bound on the time, the limiting resource, and advice with fixes as diagnostics. Use it to find out why a kernel is slow and whether a change helps; no GPU is needed. The numbers are counts and bounds, not measured times. The script must launch the kernel; otherwise name a `bench` or `test` block.",
        parameters: &[
            SOURCE,
            PATH,
            KERNEL,
            Parameter::optional(
                "gpu",
                ParameterKind::Text,
                "The GPU of the bounds: `h200`, `h100`, `a100`, `rtx4090` and others [default: h200].",
            ),
            Parameter::optional(
                "blocks",
                ParameterKind::Whole(1),
                "Count about this many blocks of each launch and extrapolate, for large launches [default: all].",
            ),
            Parameter::optional(
                "expressions",
                ParameterKind::Switch,
                "Whether to count array expressions of the script too [default: false].",
            ),
            Parameter::optional(
                "bench",
                ParameterKind::Text,
                "Also run the `bench` blocks whose names contain this text, once.",
            ),
            Parameter::optional(
                "test",
                ParameterKind::Text,
                "Also run the `test` blocks whose names contain this text.",
            ),
            TIME,
        ],
        results: "One item for each profiled kernel, with its launches, bounds on the time, and the cost of each line",
        reports_programs: false,
        runs_scripts: true,
        run: profile,
    },
    Tool {
        name: "debug_at",
        title: "Show the state of threads at a line",
        about: "Runs a Clk script, stops the first thread of a kernel that reaches a line (and meets `condition`, `thread` and `block`), and returns its state: the line, the call stack, all visible variables, values of `expressions`, and where the other threads of its block are and for which barrier they wait. Use it to see why a kernel computes a wrong value or hangs. The line has not been executed yet when the state is read. If a thread faults before, the state at the fault is returned with its diagnostic. `status` is `failed` if no thread stopped there. One call shows one stop: ask for the next with `hit`.",
        parameters: &[
            SOURCE,
            PATH,
            Parameter::required(
                "line",
                ParameterKind::Whole(1),
                "The line of a statement in a kernel or a function that it calls, counted from 1. A line without a statement means the next one.",
            ),
            Parameter::optional(
                "file",
                ParameterKind::Text,
                "The imported file that contains the line [default: the program].",
            ),
            Parameter::optional(
                "condition",
                ParameterKind::Text,
                "An expression over the variables of the thread that must be true, such as `i == 7 && x > 0.0`.",
            ),
            Parameter::optional(
                "thread",
                ParameterKind::Coordinates,
                "Only the thread with this index in its block, or in a kernel with `threads(i: N)` with this index: `[3]` or `[1, 2]`.",
            ),
            Parameter::optional("block", ParameterKind::Coordinates, "Only threads of this block."),
            Parameter::optional("hit", ParameterKind::Whole(1), "Stop at this occurrence [default: 1, the first]."),
            Parameter::optional(
                "expressions",
                ParameterKind::Texts,
                "Expressions to evaluate in the thread, such as `x[i - 1]` or `i * 4`. An array's name shows its elements.",
            ),
            Parameter::optional(
                "test",
                ParameterKind::Text,
                "Debug the `test` blocks whose titles contain this text, not the statements of the script.",
            ),
            ARGUMENTS,
            TIME,
        ],
        results: "One item for the stop: `kernel`, `launch`, `step`, `thread`, `file`, `line`, `stack`, `variables`, `expressions`, `threads` (states of the threads of the block) and `barriers`",
        reports_programs: false,
        runs_scripts: true,
        run: debug_at::run,
    },
    Tool {
        name: "why",
        title: "Explain how an array element was computed",
        about: "Runs a Clk script and shows how one element of an array came to be, as a tree from the element back to the inputs: the launch and the thread that wrote it, the expression with its values, and the same for each value that it was computed from. Use it when a result is wrong and you do not know which step is at fault; with `nan`, it finds the operation that produced the first NaN or infinity. Where the tree says `… [2]`, call again with `more` set to `2`.",
        parameters: &[
            SOURCE,
            PATH,
            Parameter::required(
                "element",
                ParameterKind::Text,
                "An element of a variable of the script, such as `y[17]` or `image[2, 3]`; with `nan`, the name of an array.",
            ),
            Parameter::optional("levels", ParameterKind::Whole(1), "How many levels of the tree to show [default: 6]."),
            Parameter::optional(
                "more",
                ParameterKind::Text,
                "Continue at this place of the tree: `2`, and below it at `… [1]`: `2.1`.",
            ),
            Parameter::optional(
                "nan",
                ParameterKind::Switch,
                "Whether to search the array `element` for a number that is not finite and trace that [default: false].",
            ),
            TIME,
        ],
        results: "One item: `element`, and its `tree` as text",
        reports_programs: false,
        runs_scripts: true,
        run: why,
    },
    Tool {
        name: "explain",
        title: "Explain a diagnostic code",
        about: "Explains the code of a diagnostic, such as `E0301`: what it means, an example that causes it, and the corrected program. Use it when the title and the help of a diagnostic are not enough. Without a code, lists all codes with their titles.",
        parameters: &[Parameter::optional("code", ParameterKind::Text, "A code such as `E0301` or `W0602`.")],
        results: "One item for each page: `code`, `title` and, if a code was given, `text` as Markdown",
        reports_programs: false,
        runs_scripts: false,
        run: explain,
    },
    Tool {
        name: "doc",
        title: "Look up or search the documentation",
        about: "Shows the documentation of a builtin (`sqrt`), a module (`std.linalg`), a member of one (`std.linalg.matmul`), a keyword (`kernel`), or a file of the root folder (`lib.clk`). A name of CUDA, NumPy, Triton or Python (`__syncthreads`, `np.where`) leads to its equivalent in Clk. Other words are searched for in all documentation. Use it before writing code with a name that you are not sure about. Without a name, lists all builtins, modules and keywords. Longer texts, such as a tour of the language, are resources of this server (`clk://manual/…`).",
        parameters: &[Parameter::optional("name", ParameterKind::Text, "A name, or words to search for.")],
        results: "One item: `name`, and the documentation as `text`",
        reports_programs: false,
        runs_scripts: false,
        run: doc,
    },
    Tool {
        name: "import_cuda",
        title: "Translate CUDA kernels to Clk",
        about: "Translates the kernels of a CUDA C++ file to Clk. `output` is the Clk program. Use it to port kernels; to find faults in CUDA kernels, call `check` or `prove` with the CUDA file directly. Kernels with constructs that have no translation are left out: each has a diagnostic that names the construct, and `status` is `failed` although the others are translated. Notes list assumptions of the translation about array lengths, which you must confirm. Host code is not translated.",
        parameters: &[
            Parameter { about: "The text of a CUDA C++ file. Give either this or `path`.", ..SOURCE },
            Parameter {
                about: "A CUDA C++ file (`.cu`, `.cuh`) in the server's root folder. Give either this or `source`.",
                ..PATH
            },
            DEFINES,
            Parameter::optional(
                "include",
                ParameterKind::Texts,
                "Folders in the root folder in which to look for headers.",
            ),
            TIME,
        ],
        results: "One item for each kernel: `kernel`, `file`, `line`, `accepted`, and the `construct` that stops its translation",
        reports_programs: false,
        runs_scripts: false,
        run: import_cuda,
    },
];

/// Returns the options for CUDA files.
pub(super) fn cuda_options(arguments: &Arguments) -> ImportOptions {
    let define = |text: String| match text.split_once('=') {
        Some((name, value)) => (name.to_owned(), value.to_owned()),
        None => (text, "1".to_owned()),
    };
    ImportOptions {
        defines: arguments.texts("defines").into_iter().map(define).collect(),
        include_dirs: arguments.texts("include"),
        ..ImportOptions::default()
    }
}

fn check(call: &ToolCall<'_>, context: &mut AppContext) -> u8 {
    cli::check_files(&[call.path.to_path_buf()], CheckProofs::Faults, context)
}

fn run(call: &ToolCall<'_>, context: &mut AppContext) -> u8 {
    let ToolCall { arguments, path, .. } = *call;
    let checks = arguments.switch("check").unwrap_or(true);
    let limits = &mut context.limits;
    (limits.check, limits.hints) = (Some(checks), checks);
    limits.trap_nan = arguments.switch("trap_nan").unwrap_or(false);
    limits.seed = arguments.whole("seed");
    limits.max_steps = arguments.whole("max_steps").unwrap_or(0);
    cli::run_file(path, arguments.texts("args"), false, &CudaLaunchOptions::default(), context)
}

fn prove(call: &ToolCall<'_>, context: &mut AppContext) -> u8 {
    let ToolCall { arguments, path, .. } = *call;
    let certificates = arguments.switch("certificate").unwrap_or(false);
    cli::prove_file(path, arguments.text("kernel"), certificates, context)
}

fn profile(call: &ToolCall<'_>, context: &mut AppContext) -> u8 {
    let ToolCall { arguments, path, .. } = *call;
    let text = |name| arguments.owned_text(name);
    let options = ProfileOptions {
        kernel: text("kernel"),
        gpu: text("gpu"),
        blocks: arguments.whole("blocks"),
        bench: text("bench"),
        test: text("test"),
        expressions: arguments.switch("expressions").unwrap_or(false),
        launches: CudaLaunchOptions { kernel: text("kernel"), ..CudaLaunchOptions::default() },
    };
    cli::profile_file(path, &options, context)
}

fn why(call: &ToolCall<'_>, context: &mut AppContext) -> u8 {
    let ToolCall { arguments, path, .. } = *call;
    let levels = arguments.whole("levels").map(|levels| usize::try_from(levels).unwrap_or(usize::MAX));
    let nan = arguments.switch("nan").unwrap_or(false);
    let element = arguments.text("element").unwrap_or_default();
    cli::why_file(path, element, levels, arguments.text("more"), nan, context)
}

fn explain(call: &ToolCall<'_>, context: &mut AppContext) -> u8 {
    let Some(code) = call.arguments.text("code") else {
        let data = || clk_codes::pages().map(|page| json!({ "code": page.code, "title": page.title })).collect();
        let line = |page: &clk_codes::Page| format!("{}  {}\n", page.code, page.title);
        context.console.results("code", data, |_| clk_codes::pages().map(line).collect());
        return exit::OK;
    };
    match (clk_codes::find(code.trim()), cli::explanation(code, STYLE)) {
        (Some(page), Ok(text)) => {
            let data = json!({ "code": page.code, "title": page.title, "text": page.text });
            context.console.results("code", || vec![data], |_| text);
            exit::OK
        }
        (_, text) => context.show(text),
    }
}

fn doc(call: &ToolCall<'_>, context: &mut AppContext) -> u8 {
    let name = call.arguments.text("name");
    match cli::documentation(name, STYLE) {
        Ok(text) => {
            context.console.results("doc", || vec![json!({ "name": name, "text": text })], |_| text.clone());
            exit::OK
        }
        error => context.show(error),
    }
}

fn import_cuda(call: &ToolCall<'_>, context: &mut AppContext) -> u8 {
    let path = call.path;
    if !crate::cuda_files::is_cuda_file(path) {
        context.console.error_line("error: `path` must name a CUDA file (`.cu` or `.cuh`)");
        return exit::USAGE;
    }
    let code = cli::import_files(&[path.to_path_buf()], None, false, context);
    cli::import_coverage(&[path.to_path_buf()], context);
    code
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptions_are_complete() {
        let tools = descriptions(false);
        assert_eq!(tools.len(), 9);
        for tool in &tools {
            let name = tool["name"].as_str().expect("a name");
            assert!(find(name).is_some_and(|found| found.name == name), "{name}");
            assert!(tool["description"].as_str().is_some_and(|text| text.len() > 100), "{name}");
            assert_eq!(tool["annotations"]["readOnlyHint"], true, "{name}");
            let properties = tool["inputSchema"]["properties"].as_object().expect("properties");
            assert_eq!(properties.len(), find(name).expect("the tool").parameters.len(), "{name}: names are unique");
        }
        let writing: Vec<Value> = descriptions(true)
            .into_iter()
            .filter(|tool| tool["annotations"]["readOnlyHint"] == false)
            .map(|tool| tool["name"].clone())
            .collect();
        assert_eq!(writing, ["run", "profile", "debug_at", "why"]);
    }
}
