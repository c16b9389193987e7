// Debugs a program with `clk dap` and checks the types of all that it sends against those of the published protocol.
// In: the `clk` to ask, and the folder with the packages `@vscode/debugprotocol` and `typescript`.

const assert = require('node:assert');
const childProcess = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');

const [, , clk, packages] = process.argv;
const ts = require(path.join(packages, 'node_modules', 'typescript'));
const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'clk-'));
const program = path.join(folder, 'program.clk');
fs.writeFileSync(program, `fn twice(v: i32) -> i32 {
    2 * v
}
kernel doubled(x: [i32; N], out y: [i32; N]) grid(1) block(64) {
    shared s: [i32; 64]
    let t = thread_idx.x
    s[t] = twice(x[t])
    barrier()
    y[t] = s[63 - t] / (t - 63)
}
print("begins")
doubled(arange(64))
`);

const child = childProcess.spawn(clk, ['dap'], { stdio: ['pipe', 'pipe', 'inherit'], env: { ...process.env, CLK_DEVICE: 'sim' } });
const messages = [];
const waiting = [];
let bytes = Buffer.alloc(0);
let seq = 0;

child.stdout.on('data', (data) => {
  bytes = Buffer.concat([bytes, data]);
  for (;;) {
    const end = bytes.indexOf('\r\n\r\n');
    if (end < 0) return;
    const length = Number(/Content-Length: (\d+)/.exec(bytes.subarray(0, end))[1]);
    if (bytes.length < end + 4 + length) return;
    const message = JSON.parse(bytes.subarray(end + 4, end + 4 + length));
    bytes = bytes.subarray(end + 4 + length);
    messages.push(message);
    for (const one of [...waiting]) {
      if (!one.is(message)) continue;
      waiting.splice(waiting.indexOf(one), 1);
      one.done(message);
    }
  }
});

const until = (is) => new Promise((done) => waiting.push({ is, done }));

/** Sends a request and waits for its response. */
function ask(command, args) {
  seq += 1;
  const own = seq;
  const text = JSON.stringify({ seq: own, type: 'request', command, arguments: args });
  const answer = until((message) => message.type === 'response' && message.request_seq === own);
  child.stdin.write(`Content-Length: ${Buffer.byteLength(text)}\r\n\r\n${text}`);
  return answer;
}

const stopped = () => until((message) => message.type === 'event' && message.event === 'stopped');

async function session() {
  await ask('initialize', { adapterID: 'clk' });
  await ask('launch', { program });
  await ask('setBreakpoints', { source: { path: program }, breakpoints: [{ line: 2, condition: 'v == 3' }, { line: 500 }] });
  await ask('setFunctionBreakpoints', { breakpoints: [{ name: 'nobody' }] });
  await ask('setExceptionBreakpoints', { filters: ['fault', 'nan'] });
  await ask('dataBreakpointInfo', { name: 's[5]' });
  await ask('dataBreakpointInfo', { name: 'everything' });
  await ask('setDataBreakpoints', { breakpoints: [{ dataId: 's[5]' }] });
  let stop = stopped();
  await ask('configurationDone');
  let threadId = (await stop).body.threadId;
  await ask('threads');
  const trace = await ask('stackTrace', { threadId });
  const frameId = trace.body.stackFrames[1].id;
  for (const scope of (await ask('scopes', { frameId })).body.scopes) {
    for (const one of (await ask('variables', { variablesReference: scope.variablesReference })).body.variables) {
      if (one.variablesReference) await ask('variables', { variablesReference: one.variablesReference, start: 3, count: 5 });
    }
  }
  await ask('evaluate', { expression: 'x[t] + 1', frameId });
  await ask('evaluate', { expression: 'x', frameId });
  await ask('evaluate', { expression: 'x +', frameId });
  // Back to the breakpoint, on to the write and the fault, back to the write, and to the fault again.
  for (const command of ['stepOut', 'next', 'stepBack', 'continue', 'continue', 'reverseContinue', 'continue']) {
    stop = stopped();
    await ask(command, { threadId });
    threadId = (await stop).body.threadId;
  }
  await ask('exceptionInfo', { threadId });
  await ask('nonsense', {});
  const over = until((message) => message.event === 'terminated');
  await ask('continue', { threadId });
  await over;
  await ask('disconnect', {});
}

/** The type that a message has to have. */
function type(message) {
  const named = (name, kind) => `DebugProtocol.${name[0].toUpperCase()}${name.slice(1)}${kind}`;
  if (message.type === 'event') return named(message.event, 'Event');
  return message.success ? named(message.command, 'Response') : 'DebugProtocol.ErrorResponse';
}

session().then(() => {
  const file = path.join(packages, 'protocol-check.ts');
  const lines = messages.map((message, i) => `export const message${i}: ${type(message)} = ${JSON.stringify(message)};`);
  fs.writeFileSync(file, `import { DebugProtocol } from '@vscode/debugprotocol';\n${lines.join('\n')}\n`);
  const checked = ts.createProgram([file], { noEmit: true, strict: true, skipLibCheck: true, moduleResolution: ts.ModuleResolutionKind.Node10 });
  const found = ts.getPreEmitDiagnostics(checked).map((one) => ts.flattenDiagnosticMessageText(one.messageText, '\n'));
  assert.deepStrictEqual(found, []);
  const kinds = new Set(messages.map(type));
  assert.ok(kinds.size >= 20, [...kinds].join(' '));
  console.log(`${messages.length} messages of ${kinds.size} types are as the protocol says`);
  fs.rmSync(folder, { recursive: true });
}).catch((error) => { console.error(error); child.kill(); process.exit(1); });
setTimeout(() => { console.error('no answer in a minute'); child.kill(); process.exit(1); }, 60000).unref();
