// Tests the playground: compares the output of scripts with that of `clk`, and runs scripts that exhaust memory, stack
// or time.
//
// Usage: node editors/playground/test.mjs PLAYGROUND.wasm CLK
import { strict as assert } from "node:assert";
import { spawnSync } from "node:child_process";
import { cpSync, mkdtempSync, mkdirSync, readFileSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { runInThisContext } from "node:vm";
import { Worker } from "node:worker_threads";
import { gzipSync } from "node:zlib";

const root = fileURLToPath(new URL("../..", import.meta.url));
const assets = join(root, "src/app/site/assets");
const [wasm, clk] = process.argv.slice(2).map((path) => resolve(path));
const read = (path) => readFileSync(join(root, path), "utf8");
runInThisContext(readFileSync(join(assets, "clk.js"), "utf8"));

const bytes = readFileSync(wasm);
const compileStart = performance.now();
const module = await WebAssembly.compile(bytes);
const compileTime = performance.now() - compileStart;
console.log(`the simulator: ${bytes.length} bytes, ${gzipSync(bytes).length} compressed, compiled in ${compileTime.toFixed(0)} ms`);

// Runs a script in a new instance. Returns its printed text, diagnostics, files, number of pictures, exit code and
// time.
const run = async (source, check = true) => {
  const result = { printed: "", reports: [], files: {}, pictures: 0 };
  const start = performance.now();
  const instance = await globalThis.CLK.start(module, ({ kind, head, body }) => {
    if (kind === "print") result.printed += body;
    if (kind === "report") result.reports.push({ ...JSON.parse(head), text: body });
    if (kind === "file") result.files[head] = Buffer.from(body);
    if (kind === "picture") result.pictures += 1;
  });
  result.code = instance.run(source, check);
  result.ms = performance.now() - start;
  return result;
};

let [passed, failed] = [0, 0];
const test = async (name, work) => {
  try {
    await work();
    passed += 1;
  } catch (error) {
    failed += 1;
    console.log(`FAILED ${name}: ${error.message}`);
  }
};
const folder = mkdtempSync(join(tmpdir(), "clk-playground-"));
process.on("exit", () => rmSync(folder, { recursive: true, force: true }));
const runClk = (options, file) => spawnSync(clk, ["run", ...options, file], { cwd: folder, encoding: "utf8" });
const names = (path) => readdirSync(join(root, path)).filter((name) => name.endsWith(".clk")).sort();

// The examples print the same text and write the same files as with `clk`. Times are masked, since some examples print
// them.
mkdirSync(join(folder, "examples"));
cpSync(join(root, "examples/data"), join(folder, "examples/data"), { recursive: true });
const maskTimes = (text) => text.replace(/[\d.]+ (s|ms|µs|ns)\b/g, "TIME");
const times = [];
for (const name of names("examples")) {
  await test(name, async () => {
    const path = join(root, "examples", name);
    const start = performance.now();
    const native = runClk(["--check", "--deterministic", "--workers", "1"], path);
    const nativeTime = performance.now() - start;
    const result = await run(read(`examples/${name}`));
    assert.equal(result.reports.map((report) => report.text).join("\n"), "");
    assert.deepEqual([result.code, native.status], [0, 0], native.stderr);
    // In a terminal, pictures are lines of text: ignore them.
    let lines = maskTimes(native.stdout).split("\n");
    if (result.pictures > 0) lines = lines.filter((line) => maskTimes(result.printed).split("\n").includes(line));
    assert.equal(maskTimes(result.printed), lines.join("\n"));
    for (const [file, content] of Object.entries(result.files)) {
      assert.ok(readFileSync(join(folder, file)).equals(content), `${file} differs`);
    }
    times.push([name, nativeTime, result.ms]);
  });
}

// The diagnostics equal those of `clk run --json`, except for the file name.
const GOLDEN = "tests/diagnostics/golden";
for (const name of names(GOLDEN)) {
  const text = read(`${GOLDEN}/${name}`);
  const options = /^\/\/# (.*)/.exec(text)?.[1].trim() ?? "";
  if (options !== "" && options !== "--check") continue;
  await test(name, async () => {
    const check = options === "--check";
    const native = runClk(["--json", "--workers", "1", ...(check ? ["--check"] : [])], join(root, GOLDEN, name));
    const result = await run(text, check);
    const withoutName = ({ text, ...report }) => JSON.parse(JSON.stringify(report).replaceAll("playground.clk", "FILE"));
    const lines = native.stderr.split("\n").filter((line) => line.startsWith("{"));
    const path = JSON.stringify(join(root, GOLDEN, name)).slice(1, -1);
    const expected = lines.map((line) => JSON.parse(line.replaceAll(path, "FILE"))).filter((line) => line.kind === "diagnostic");
    assert.deepEqual(result.reports.map(withoutName), expected);
  });
}

// The corpora of faulty and of correct kernels (tests/devices/fault_corpus.rs): a comment `//~ CODE text` precedes the reported line.
for (const corpus of ["faults", "sound"]) {
  for (const name of names(`tests/${corpus}`)) {
    const lines = read(`tests/${corpus}/${name}`).split("\n");
    const starts = lines.flatMap((line, i) => (line.startsWith("//# ") ? [i] : []));
    for (const [number, begin] of starts.entries()) {
      const title = lines[begin].slice(4);
      // Skip programs with options other than `--check`, and a hazard that `clk` does not report because of a proof.
      if (title.startsWith("[") || title === "blocks that wait for each other") continue;
      const end = starts[number + 1] ?? lines.length;
      // Replace the other programs by empty lines, so that line numbers stay the same.
      const text = lines.map((line, i) => (i >= begin && i < end ? line : "")).join("\n");
      await test(`${corpus}/${name}: ${title}`, async () => {
        const { reports } = await run(text);
        const marker = lines.findIndex((line, i) => i >= begin && i < end && line.includes("//~ "));
        // Ignore warnings about style and about larger launches.
        const relevant = reports.filter((report) => !/^W00|W0611/.test(report.code));
        if (marker < 0) return assert.equal(relevant.map((report) => report.text).join("\n"), "");
        let line = marker + 1;
        while (lines[line].trim().startsWith("//~")) line += 1;
        const code = /\/\/~ (\w+)/.exec(lines[marker])[1];
        const isExpected = (report) => report.code === code && report.labels.some((label) => label.primary && label.line === line + 1);
        assert.ok(reports.some(isExpected), `${code} at line ${line + 1}: ${reports.map((report) => report.text).join("\n")}`);
      });
    }
  }
}

// The programs in the documentation run without diagnostics.
const pages = ["book", "howto", "from", "."].flatMap((section) =>
  readdirSync(join(root, "docs", section)).filter((name) => name.endsWith(".md")).map((name) => join("docs", section, name)));
for (const page of pages) {
  const programs = [...read(page).matchAll(/^```clk\n(.*?)^```$/gms)];
  for (const [number, [, text]] of programs.entries()) {
    await test(`${page}, program ${number + 1}`, async () => {
      const { code, reports } = await run(text);
      assert.equal(reports.map((report) => report.text).join("\n"), "");
      assert.equal(code, 0);
    });
  }
}

// Each failure is reported with a code and a line, and ends only the run.
const failures = [
  ["a race", "kernel f(out y: [i32; 1]) threads(i: 64) { y[0] = i }\nprint(f())", "E0610", 1],
  ["an index out of bounds", "kernel f(x: [f32; N], out y: [f32; N]) threads(i: N) { y[i] = x[i + 1] }\nprint(f(ones(3)))", "E0601", 1],
  ["a syntax error", "let x = (1 + \nprint(x)", null, null],
  ["an array of 37 GiB", "let n = parse(i32, \"100000\")\nprint(sum(zeros(n, n)))", "E0509", 2],
  ["an array of 2^32 bytes", "let n = parse(i32, \"32768\")\nlet x = zeros(n, n)\nprint(sum(x))", "E0509", null],
  ["an array of 2^32 + 8 bytes", "let n = parse(i32, \"536870913\")\nlet x = full(n, 1.0f64)\nprint(x[n - 1])", "E0509", null],
  ["an array of 2 GiB", "let n = parse(i32, \"536870912\")\nlet x = full(n, 1.0)\nprint(sum(x))", "E0509", null],
  ["an array of 2^33 elements", "let n = parse(i32, \"2048\")\nprint(sum(full((n, n, n), true)))", null, null],
  ["arrays that fill memory", "var all = [0.0]\nwhile true { all = concat(all, ones(25000000)) }", "E0509", 2],
  ["a text that fills memory", "var text = \"0123456789\"\nwhile true { text = text + text }", "E0509", 2],
  ["infinite recursion", "fn f(n: i32) -> i32 { return f(n + 1) + 1 }\nprint(f(1))", "E0517", 1],
  ["a missing file", "print(read_text(\"/etc/passwd\"))", "E0701", 1],
  ["an import of a file", "import shapes\nprint(1)", null, 1],
  ["a GPU", "on gpu { print(sum(ones(3))) }", null, 1],
  ["a division by zero", "let n = parse(i32, \"0\")\nprint(1 / n)", null, 2],
];
for (const [name, source, code, line] of failures) {
  await test(name, async () => {
    const result = await run(source);
    const first = result.reports.find((report) => report.severity === "error");
    assert.ok(first, `no error: ${result.printed}`);
    assert.ok(result.code === 1 || result.code === 70, `code ${result.code}`);
    if (code) assert.equal(first.code, code, first.text);
    if (line) assert.equal(first.labels[0]?.line, line, first.text);
  });
}
for (const depth of [10, 100, 250, 1000, 100_000]) {
  for (const [name, source, expected] of [
    ["parentheses", `print(${"(".repeat(depth)}1${")".repeat(depth)})`, "1\n"],
    ["blocks", `${"if true { ".repeat(depth)}print(1)${" }".repeat(depth)}`, "1\n"],
    ["signs", `print(${"- ".repeat(depth * 2)}1)`, "1\n"],
    ["sums", `print(${"1 + ".repeat(depth)}1)`, `${depth + 1}\n`],
    ["arrays", `let x = ${"[".repeat(depth)}1${"]".repeat(depth)}\nprint(rank(x))`, null],
  ]) {
    await test(`${depth} nested ${name}`, async () => {
      const result = await run(source);
      assert.ok(result.code === 0 ? result.printed === expected : result.reports.length > 0, JSON.stringify(result).slice(0, 500));
    });
  }
}
await test("formatting", async () => {
  const events = [];
  const instance = await globalThis.CLK.start(module, (event) => events.push(event));
  assert.equal(instance.format("let  x=1\n"), 0);
  assert.deepEqual(events, [{ kind: "formatted", head: "", body: "let x = 1\n" }]);
  assert.equal(instance.format("let x = ("), 1);
  assert.equal(events[1].kind, "report");
  instance.highlight("let x = \"<\" // é");
  assert.equal(events[2].body, "<span class=\"k\">let</span> x = <span class=\"s\">&quot;&lt;&quot;</span> <span class=\"c\">// é</span>");
});

// Runs the worker of the page in a worker of Node.js.
const workerShim = `
  const { parentPort } = require("node:worker_threads");
  const { readFileSync } = require("node:fs");
  const { join } = require("node:path");
  const load = (name) => require("node:vm").runInThisContext(readFileSync(join(${JSON.stringify(assets)}, name), "utf8"));
  globalThis.postMessage = (message) => parentPort.postMessage(message);
  globalThis.importScripts = load;
  load("playground-worker.js");
  parentPort.on("message", (data) => globalThis.onmessage({ data }));`;
const runInWorker = (source, timeout) => new Promise((done) => {
  const worker = new Worker(workerShim, { eval: true, resourceLimits: { stackSizeMb: 1 } });
  const events = [];
  const end = async (outcome) => { await worker.terminate(); done({ events, ...outcome }); };
  const timer = timeout && setTimeout(() => end({ stopped: true }), timeout);
  worker.on("error", (error) => end({ error }));
  worker.on("message", (message) => {
    events.push(...(message.events ?? []));
    if (message.done) { clearTimeout(timer); void end(message.done); }
  });
  worker.postMessage({ module, task: "run", source, check: true });
});
await test("the worker", async () => {
  const { events, code } = await runInWorker("print(1)\nimage(zeros(4, 4))");
  assert.deepEqual([code, events.map((event) => event.kind)], [0, ["print", "picture"]]);
});
await test("stopping an infinite loop keeps its output", async () => {
  const { events, stopped } = await runInWorker("print(1)\nprint(2)\nvar n = 0\nwhile true { n += 1 }", 2000);
  assert.deepEqual([stopped, events.map((event) => event.body).join("")], [true, "1\n2\n"]);
});
await test("an infinite kernel can be stopped", async () => {
  const { stopped } = await runInWorker("kernel f(inout y: [i32; 1]) threads(i: 1) { while y[0] == 0 { y[0] = 0 } }\nvar y = [0]\nf(y)", 2000);
  assert.ok(stopped);
});
await test("unlimited output ends the run", async () => {
  const { code, why } = await runInWorker("while true { print(\"0123456789\") }");
  assert.ok(code === 70 && why.includes("1 MB"), `${code} ${why}`);
});
await test("recursion in a worker with a small stack", async () => {
  const { code, events } = await runInWorker("fn f(n: i32) -> i32 { return f(n + 1) + 1 }\nprint(f(1))");
  assert.ok(code !== 0 && events[0].kind === "report" && JSON.parse(events[0].head).code === "E0517", JSON.stringify(events));
});

times.sort((a, b) => b[2] - a[2]);
console.log("the slowest examples: ms with clk (including its start), ms in WebAssembly");
for (const [name, native, web] of times.slice(0, 12)) console.log(`  ${name.padEnd(28)} ${native.toFixed(0).padStart(6)} ${web.toFixed(0).padStart(6)}`);
console.log(`${passed} passed, ${failed} failed`);
process.exit(failed > 0 ? 1 : 0);
