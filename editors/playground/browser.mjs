// Tests the playground in a real browser, which it controls by the DevTools protocol over pipes, without further
// packages.
//
// Usage: node editors/playground/browser.mjs SITE CHROMIUM [SCREENSHOT_FOLDER]
// SITE is the output of `clk doc --html SITE --playground`.
import { strict as assert } from "node:assert";
import { spawn } from "node:child_process";
import { createReadStream, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { extname, join, normalize } from "node:path";

const [site, program, screenshotFolder] = process.argv.slice(2);

// Serves the site.
const TYPES = { ".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".wasm": "application/wasm", ".png": "image/png" };
const server = createServer((request, response) => {
  const path = join(site, normalize(new URL(request.url, "http://x").pathname));
  response.setHeader("Content-Type", TYPES[extname(path)] ?? "application/octet-stream");
  createReadStream(path).on("error", () => { response.statusCode = 404; response.end(); }).pipe(response);
});
await new Promise((done) => server.listen(0, "127.0.0.1", done));
const root = `http://127.0.0.1:${server.address().port}`;

// Starts the browser. Messages are JSON texts, each terminated by a zero byte.
const profile = mkdtempSync(join(tmpdir(), "clk-browser-"));
const chromium = spawn(program,
  ["--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", `--user-data-dir=${profile}`, "about:blank"],
  { stdio: ["ignore", "ignore", "ignore", "pipe", "pipe"] });
let [next, rest] = [1, Buffer.alloc(0)];
const waiting = new Map();
const errors = [];
chromium.stdio[4].on("data", (data) => {
  rest = Buffer.concat([rest, data]);
  for (let end; (end = rest.indexOf(0)) >= 0; rest = rest.subarray(end + 1)) {
    const message = JSON.parse(rest.subarray(0, end).toString());
    if (message.method === "Runtime.exceptionThrown") errors.push(message.params.exceptionDetails.exception?.description);
    const wait = waiting.get(message.id);
    waiting.delete(message.id);
    if (message.error) wait?.failed(new Error(message.error.message)); else wait?.done(message.result);
  }
});
const send = (method, params = {}, sessionId = undefined) => new Promise((done, failed) => {
  waiting.set(next, { done, failed });
  chromium.stdio[3].write(`${JSON.stringify({ id: next++, method, params, sessionId })}\0`);
});
const { targetId } = await send("Target.createTarget", { url: "about:blank" });
const { sessionId } = await send("Target.attachToTarget", { targetId, flatten: true });
const sendToPage = (method, params) => send(method, params, sessionId);
const evaluate = async (expression) => {
  const { result, exceptionDetails } = await sendToPage("Runtime.evaluate", { expression, awaitPromise: true, returnByValue: true });
  if (exceptionDetails) throw new Error(exceptionDetails.exception?.description ?? exceptionDetails.text);
  return result.value;
};
const until = async (condition, seconds = 30) => {
  for (const end = performance.now() + 1000 * seconds; performance.now() < end;) {
    if (await evaluate(condition)) return;
    await new Promise((done) => setTimeout(done, 30));
  }
  throw new Error(`timeout: ${condition}; ${await evaluate("document.getElementById('state').textContent + document.getElementById('output').textContent")}`);
};
const setWindowSize = (width, height) =>
  sendToPage("Emulation.setDeviceMetricsOverride", { width, height, deviceScaleFactor: 1, mobile: width < 500 });
const takeScreenshot = async (name) => {
  if (!screenshotFolder) return;
  const { data } = await sendToPage("Page.captureScreenshot", { format: "png" });
  writeFileSync(join(screenshotFolder, name), Buffer.from(data, "base64"));
};
const pressKey = async (name, code, modifiers = 0) => {
  for (const type of ["rawKeyDown", "keyUp"]) {
    await sendToPage("Input.dispatchKeyEvent", { type, key: name, code: name, windowsVirtualKeyCode: code, modifiers });
  }
};
const open = async (page) => {
  await sendToPage("Page.navigate", { url: "about:blank" });
  await sendToPage("Page.navigate", { url: `${root}/${page}` });
  await until("document.readyState === 'complete' && !!document.getElementById('run') && !document.getElementById('run').disabled");
};
const setProgram = (text) => evaluate(`(() => { const field = document.getElementById("program"); field.value = ${JSON.stringify(text)};
  field.dispatchEvent(new Event("input")); })()`);
const output = () => evaluate("document.getElementById('output').textContent");
const state = () => evaluate("document.getElementById('state').textContent");
const click = (id) => evaluate(`document.getElementById("${id}").click()`);
const untilDone = () => until("/^(Done|Ended|Stopped|Formatted)/.test(document.getElementById('state').textContent)");

let [passed, failed] = [0, 0];
const test = async (name, work) => {
  const start = performance.now();
  try {
    await work();
    passed += 1;
    const seconds = (performance.now() - start) / 1000;
    if (seconds > 5) console.log(`${name}: ${seconds.toFixed(0)} s`);
  } catch (error) {
    failed += 1;
    console.log(`FAILED ${name}: ${error.message}`);
  }
};
await sendToPage("Page.enable");
await sendToPage("Runtime.enable");
await setWindowSize(1280, 1100);

await test("running the first program with the keyboard", async () => {
  await open("playground.html");
  await evaluate("document.getElementById('program').focus()");
  await pressKey("Enter", 13, 2);
  await untilDone();
  assert.match(await output(), /^\[1\. /);
  await until("document.querySelector('#output img')?.naturalWidth > 100");
  assert.ok(await evaluate("document.querySelectorAll('#colors .k').length > 5"));
  await takeScreenshot("playground.png");
});
await test("an error has a source location and a link", async () => {
  await setProgram("kernel f(x: [f32; N], out y: [f32; N]) threads(i: N) {\n    y[i] = x[i + 1]\n}\n\nprint(f(ones(3)))\n");
  await click("run");
  await untilDone();
  assert.match(await output(), /error\[E0601\]/);
  assert.equal(await evaluate("document.querySelector('#output a').getAttribute('href')"), "errors/E0601.html");
  await evaluate("document.querySelector('#output .place').click()");
  const selectedText = "(({ value, selectionStart, selectionEnd }) => value.slice(selectionStart, selectionEnd))(document.getElementById('program'))";
  assert.equal(await evaluate(selectedText), "x[i + 1]");
  await takeScreenshot("playground-error.png");
});
await test("formatting", async () => {
  await setProgram("let  x=1");
  await click("format");
  await untilDone();
  assert.equal(await evaluate("document.getElementById('program').value"), "let x = 1\n");
});
await test("after stopping an infinite loop, the next run works", async () => {
  await setProgram("print(\"here\")\nwhile true { }");
  await click("run");
  await until("document.getElementById('output').textContent.includes('here')");
  await click("stop");
  assert.equal(await state(), "Stopped");
  await setProgram("print(1 + 2)");
  await click("run");
  await untilDone();
  assert.equal(await output(), "3\n");
});
for (const [name, text, code] of [
  ["recursion", "fn f(n: i32) -> i32 { return f(n + 1) + 1 }\nprint(f(1))", "E0517"],
  ["recursion in expressions", "fn f(n: i32) -> i32 { return (1 + (2 * (3 + (f(n + 1) * 2)))) + abs(f(n + 2)) }\nprint(f(1))", "E0517"],
  ["nesting", `print(${"(".repeat(250)}1${")".repeat(250)})`, null],
  ["memory", "var all = [0.0]\nwhile true { all = concat(all, ones(25000000)) }", "E0509"],
]) {
  await test(name, async () => {
    await setProgram(text);
    await click("run");
    await untilDone();
    assert.match(await output(), code ? new RegExp(`error\\[${code}\\]`) : /^1\n$|error\[/);
  });
}
await test("permitted recursion depth", async () => {
  await setProgram("fn f(n: i32) -> i32 {\n    if n == 0 { return 0 }\n    return f(n - 1) + 1\n}\nprint(f(100))");
  await click("run");
  await untilDone();
  assert.equal(await output(), "100\n");
});
await test("much output", async () => {
  await setProgram("while true { print(\"0123456789\") }");
  await click("run");
  await untilDone();
  assert.match(await output(), /Ended: more than 1 MB/);
});
await test("links", async () => {
  await setProgram("print(\"é < 1\")");
  await click("share");
  await until("location.hash.startsWith('#code=')");
  const hash = await evaluate("location.hash");
  await setProgram("let mine = 1");
  await open(`playground.html${hash}`);
  await until("document.getElementById('program').value === 'print(\"é < 1\")'");
  assert.equal(await evaluate("document.getElementById('restore').hidden"), false);
  await click("restore");
  assert.equal(await evaluate("document.getElementById('program').value"), "let mine = 1");
  for (const hostile of ["#from=//example.org/x.html", "#from=../x.html", "#code=AAAA", "#code=%00", "#from=index.html&program=99"]) {
    await open(`playground.html${hostile}`);
    await until("/cannot be followed/.test(document.getElementById('state').textContent)");
    assert.equal(await evaluate("document.getElementById('program').value"), "let mine = 1", hostile);
  }
});
await test("a program of the book", async () => {
  await open("book/01-threads.html".replace(/.*/, "playground.html#from=book/01-threads.html&program=1"));
  await until("document.getElementById('program').value.includes('kernel')");
  await click("run");
  await untilDone();
  assert.match(await state(), /^Done/);
});
await test("phones", async () => {
  await setWindowSize(390, 844);
  await open("playground.html");
  await click("run");
  await untilDone();
  assert.ok(await evaluate("document.documentElement.scrollWidth <= innerWidth"), "the page is wider than a phone");
  await takeScreenshot("playground-phone.png");
});
await test("no JavaScript errors", async () => assert.deepEqual(errors, []));

console.log(`${passed} passed, ${failed} failed`);
chromium.kill();
server.close();
await new Promise((done) => chromium.on("exit", done));
rmSync(profile, { recursive: true, force: true, maxRetries: 5 });
process.exit(failed > 0 ? 1 : 0);
