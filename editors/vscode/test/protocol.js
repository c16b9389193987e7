// Debugs a program with `clk dap`, and checks the types of all its messages against the published protocol.
// Usage: node protocol.js CLK FOLDER, where FOLDER has the packages `@vscode/debugprotocol` and `typescript`.

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
    for (const waiter of [...waiting]) {
      if (!waiter.matches(message)) continue;
      waiting.splice(waiting.indexOf(waiter), 1);
      waiter.done(message);
    }
  }
});

const nextMessage = (matches) => new Promise((done) => waiting.push({ matches, done }));

/** Sends a request and waits for its response. */
function request(command, args) {
  seq += 1;
  const requestSeq = seq;
  const text = JSON.stringify({ seq: requestSeq, type: 'request', command, arguments: args });
  const response = nextMessage((message) => message.type === 'response' && message.request_seq === requestSeq);
  child.stdin.write(`Content-Length: ${Buffer.byteLength(text)}\r\n\r\n${text}`);
  return response;
}

const nextStop = () => nextMessage((message) => message.type === 'event' && message.event === 'stopped');

async function session() {
  await request('initialize', { adapterID: 'clk' });
  await request('launch', { program });
  await request('setBreakpoints', { source: { path: program }, breakpoints: [{ line: 2, condition: 'v == 3' }, { line: 500 }] });
  await request('setFunctionBreakpoints', { breakpoints: [{ name: 'nobody' }] });
  await request('setExceptionBreakpoints', { filters: ['fault', 'nan'] });
  await request('dataBreakpointInfo', { name: 's[5]' });
  await request('dataBreakpointInfo', { name: 'everything' });
  await request('setDataBreakpoints', { breakpoints: [{ dataId: 's[5]' }] });
  let stop = nextStop();
  await request('configurationDone');
  let threadId = (await stop).body.threadId;
  await request('threads');
  const trace = await request('stackTrace', { threadId });
  const frameId = trace.body.stackFrames[1].id;
  for (const scope of (await request('scopes', { frameId })).body.scopes) {
    const { variables } = (await request('variables', { variablesReference: scope.variablesReference })).body;
    for (const { variablesReference } of variables) {
      if (variablesReference) await request('variables', { variablesReference, start: 3, count: 5 });
    }
  }
  await request('evaluate', { expression: 'x[t] + 1', frameId });
  await request('evaluate', { expression: 'x', frameId });
  await request('evaluate', { expression: 'x +', frameId });
  // Step back to the breakpoint, continue to the write and the fault, reverse to the write, and continue to the fault.
  for (const command of ['stepOut', 'next', 'stepBack', 'continue', 'continue', 'reverseContinue', 'continue']) {
    stop = nextStop();
    await request(command, { threadId });
    threadId = (await stop).body.threadId;
  }
  await request('exceptionInfo', { threadId });
  await request('nonsense', {});
  const terminated = nextMessage((message) => message.event === 'terminated');
  await request('continue', { threadId });
  await terminated;
  await request('disconnect', {});
}

/** Returns the type of the protocol for a message. */
function protocolType(message) {
  const typeName = (name, kind) => `DebugProtocol.${name[0].toUpperCase()}${name.slice(1)}${kind}`;
  if (message.type === 'event') return typeName(message.event, 'Event');
  return message.success ? typeName(message.command, 'Response') : 'DebugProtocol.ErrorResponse';
}

session().then(() => {
  const file = path.join(packages, 'protocol-check.ts');
  const lines = messages.map((message, i) => `export const message${i}: ${protocolType(message)} = ${JSON.stringify(message)};`);
  fs.writeFileSync(file, `import { DebugProtocol } from '@vscode/debugprotocol';\n${lines.join('\n')}\n`);
  const tsProgram = ts.createProgram([file], { noEmit: true, strict: true, skipLibCheck: true, moduleResolution: ts.ModuleResolutionKind.Node10 });
  const diagnostics = ts.getPreEmitDiagnostics(tsProgram).map(({ messageText }) => ts.flattenDiagnosticMessageText(messageText, '\n'));
  assert.deepStrictEqual(diagnostics, []);
  const kinds = new Set(messages.map(protocolType));
  assert.ok(kinds.size >= 20, [...kinds].join(' '));
  console.log(`${messages.length} messages of ${kinds.size} types conform to the protocol`);
  fs.rmSync(folder, { recursive: true });
}).catch((error) => { console.error(error); child.kill(); process.exit(1); });
setTimeout(() => { console.error('timeout after one minute'); child.kill(); process.exit(1); }, 60000).unref();
