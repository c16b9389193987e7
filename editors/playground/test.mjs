// Tests of the playground: what it gives for scripts is compared with what `clk` gives, and what no page should suffer from is tried.
// node editors/playground/test.mjs PLAYGROUND.wasm CLK
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
let begun = performance.now();
const module = await WebAssembly.compile(bytes);
const compiling = performance.now() - begun;
console.log(`the simulator: ${bytes.length} bytes, ${gzipSync(bytes).length} compressed, compiled in ${compiling.toFixed(0)} ms`);

// Runs a text in a new instance: what it printed, its messages, files, and how it ended.
const run = async (source, check = true) => {
  const got = { printed: "", reports: [], files: {}, pictures: 0 };
  const begun = performance.now();
  const instance = await globalThis.CLK.start(module, ({ kind, head, body }) => {
    if (kind === "print") got.printed += body;
    if (kind === "report") got.reports.push({ ...JSON.parse(head), text: body });
    if (kind === "file") got.files[head] = Buffer.from(body);
    if (kind === "picture") got.pictures += 1;
  });
  got.code = instance.run(source, check);
  got.ms = performance.now() - begun;
  return got;
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
const native = (options, file) => spawnSync(clk, ["run", ...options, file], { cwd: folder, encoding: "utf8" });
const names = (path) => readdirSync(join(root, path)).filter((name) => name.endsWith(".clk")).sort();

// The examples print and write what they do in a terminal, to the byte. Some say how long they took: digits of times are left out.
mkdirSync(join(folder, "examples"));
cpSync(join(root, "examples/data"), join(folder, "examples/data"), { recursive: true });
const untimed = (text) => text.replace(/[\d.]+ (s|ms|µs|ns)\b/g, "TIME");
const times = [];
for (const name of names("examples")) {
  await test(name, async () => {
    const path = join(root, "examples", name);
    const begun = performance.now();
    const there = native(["--check", "--deterministic", "--workers", "1"], path);
    const took = performance.now() - begun;
    const here = await run(read(`examples/${name}`));
    assert.equal(here.reports.map((report) => report.text).join("\n"), "");
    assert.deepEqual([here.code, there.status], [0, 0], there.stderr);
    // A terminal has pictures as lines between the others.
    let lines = untimed(there.stdout).split("\n");
    if (here.pictures > 0) lines = lines.filter((line) => untimed(here.printed).split("\n").includes(line));
    assert.equal(untimed(here.printed), lines.join("\n"));
    for (const [file, content] of Object.entries(here.files)) {
      assert.ok(readFileSync(join(folder, file)).equals(content), `${file} differs`);
    }
    times.push([name, took, here.ms]);
  });
}

// Messages are those of `clk run --json`, but for the name of the file.
const SAME = "tests/diagnostics/golden";
for (const name of names(SAME)) {
  const text = read(`${SAME}/${name}`);
  const options = /^\/\/# (.*)/.exec(text)?.[1].trim() ?? "";
  if (options !== "" && options !== "--check") continue;
  await test(name, async () => {
    const check = options === "--check";
    const there = native(["--json", "--workers", "1", ...(check ? ["--check"] : [])], join(root, SAME, name));
    const here = await run(text, check);
    const plain = ({ text, ...report }) => JSON.parse(JSON.stringify(report).replaceAll("playground.clk", "FILE"));
    const expected = there.stderr.split("\n").filter((line) => line.startsWith("{"));
    const written = expected.map((line) => JSON.parse(line.replaceAll(JSON.stringify(join(root, SAME, name)).slice(1, -1), "FILE")));
    assert.deepEqual(here.reports.map(plain), written);
  });
}

// The corpora of faulty and of correct kernels (tests/truth.rs): a comment `//~ CODE text` stands above the line that is reported.
for (const corpus of ["faults", "sound"]) {
  for (const name of names(`tests/${corpus}`)) {
    const lines = read(`tests/${corpus}/${name}`).split("\n");
    const begins = lines.flatMap((line, at) => (line.startsWith("//# ") ? [at] : []));
    for (const [number, begin] of begins.entries()) {
      const title = lines[begin].slice(4);
      // Other options than `--check`; and a hazard that a proof excludes, so that `clk` does not name it.
      if (title.startsWith("[") || title === "blocks that wait for each other") continue;
      const end = begins[number + 1] ?? lines.length;
      // Lines keep their numbers.
      const text = lines.map((line, at) => (at >= begin && at < end ? line : "")).join("\n");
      await test(`${corpus}/${name}: ${title}`, async () => {
        const { reports } = await run(text);
        const at = lines.findIndex((line, at) => at >= begin && at < end && line.includes("//~ "));
        // Style, and what larger launches would do, is not what these are about.
        const serious = reports.filter((report) => !/^W00|W0611/.test(report.code));
        if (at < 0) return assert.equal(serious.map((report) => report.text).join("\n"), "");
        let line = at + 1;
        while (lines[line].trim().startsWith("//~")) line += 1;
        const code = /\/\/~ (\w+)/.exec(lines[at])[1];
        const fits = (report) => report.code === code && report.labels.some((label) => label.primary && label.line === line + 1);
        assert.ok(reports.some(fits), `${code} at line ${line + 1}: ${reports.map((report) => report.text).join("\n")}`);
      });
    }
  }
}

// The programs of the pages run, without a message.
const pages = ["book", "howto", "from", "."].flatMap((part) =>
  readdirSync(join(root, "docs", part)).filter((name) => name.endsWith(".md")).map((name) => join("docs", part, name)));
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

// What goes wrong says so, with a code and a line, and ends the run only.
const wrong = [
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
  ["recursion without an end", "fn f(n: i32) -> i32 { return f(n + 1) + 1 }\nprint(f(1))", "E0517", 1],
  ["a file that is not there", "print(read_text(\"/etc/passwd\"))", "E0701", 1],
  ["an import of a file", "import shapes\nprint(1)", null, 1],
  ["a GPU", "on gpu { print(sum(ones(3))) }", null, 1],
  ["a division by zero", "let n = parse(i32, \"0\")\nprint(1 / n)", null, 2],
];
for (const [name, source, code, line] of wrong) {
  await test(name, async () => {
    const got = await run(source);
    const first = got.reports.find((report) => report.severity === "error");
    assert.ok(first, `no error: ${got.printed}`);
    assert.ok(got.code === 1 || got.code === 70, `code ${got.code}`);
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
      const got = await run(source);
      assert.ok(got.code === 0 ? got.printed === expected : got.reports.length > 0, JSON.stringify(got).slice(0, 500));
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

// The worker of the page, in one of node's.
const shim = `
  const { parentPort } = require("node:worker_threads");
  const { readFileSync } = require("node:fs");
  const { join } = require("node:path");
  const load = (name) => require("node:vm").runInThisContext(readFileSync(join(${JSON.stringify(assets)}, name), "utf8"));
  globalThis.postMessage = (message) => parentPort.postMessage(message);
  globalThis.importScripts = load;
  load("playground-worker.js");
  parentPort.on("message", (data) => globalThis.onmessage({ data }));`;
const inWorker = (source, wait) => new Promise((done) => {
  const worker = new Worker(shim, { eval: true, resourceLimits: { stackSizeMb: 1 } });
  const events = [];
  const end = async (how) => { await worker.terminate(); done({ events, ...how }); };
  const timer = wait && setTimeout(() => end({ stopped: true }), wait);
  worker.on("error", (error) => end({ error }));
  worker.on("message", (message) => {
    events.push(...(message.events ?? []));
    if (message.done) { clearTimeout(timer); void end(message.done); }
  });
  worker.postMessage({ module, task: "run", source, check: true });
});
await test("the worker", async () => {
  const { events, code } = await inWorker("print(1)\nimage(zeros(4, 4))");
  assert.deepEqual([code, events.map((event) => event.kind)], [0, ["print", "picture"]]);
});
await test("a loop without an end is stopped, and what it printed was seen", async () => {
  const { events, stopped } = await inWorker("print(1)\nprint(2)\nvar n = 0\nwhile true { n += 1 }", 2000);
  assert.deepEqual([stopped, events.map((event) => event.body).join("")], [true, "1\n2\n"]);
});
await test("a kernel without an end is stopped", async () => {
  const { stopped } = await inWorker("kernel f(inout y: [i32; 1]) threads(i: 1) { while y[0] == 0 { y[0] = 0 } }\nvar y = [0]\nf(y)", 2000);
  assert.ok(stopped);
});
await test("printing without an end is ended", async () => {
  const { code, why } = await inWorker("while true { print(\"0123456789\") }");
  assert.ok(code === 70 && why.includes("1 MB"), `${code} ${why}`);
});
await test("recursion in a worker with a small stack", async () => {
  const { code, events } = await inWorker("fn f(n: i32) -> i32 { return f(n + 1) + 1 }\nprint(f(1))");
  assert.ok(code !== 0 && events[0].kind === "report" && JSON.parse(events[0].head).code === "E0517", JSON.stringify(events));
});

times.sort((a, b) => b[2] - a[2]);
console.log("the slowest examples: ms of clk (with its start), ms here");
for (const [name, there, here] of times.slice(0, 12)) console.log(`  ${name.padEnd(28)} ${there.toFixed(0).padStart(6)} ${here.toFixed(0).padStart(6)}`);
console.log(`${passed} passed, ${failed} failed`);
process.exit(failed > 0 ? 1 : 0);
