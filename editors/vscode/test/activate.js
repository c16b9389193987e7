// Activates the extension with a mock of VS Code, and checks its commands and the client of the language server.

const assert = require('node:assert');
const Module = require('node:module');
const path = require('node:path');

const folder = path.join(__dirname, '..');
const registered = new Map();
const terminalCommands = [];
const clients = [];
const documents = [];
const values = { path: 'my clk', server: true, cuda: false, device: 'sim' };
const listeners = {};

class Uri {
  constructor(text) { this.text = text; this.scheme = 'file'; this.fsPath = decodeURIComponent(text.replace('file://', '')); }
  static parse(text) { return new Uri(text); }
  toString() { return this.text; }
}

const adapters = new Map();

const vscode = {
  Uri: Uri,
  DebugAdapterExecutable: class { constructor(...words) { this.words = words; } },
  debug: {
    registerDebugAdapterDescriptorFactory: (type, factory) => { adapters.set(type, factory); return { dispose() {} }; },
    registerDebugConfigurationProvider: (type, provider) => { adapters.set(`${type} configuration`, provider); return { dispose() {} }; },
  },
  ViewColumn: { Beside: -2 },
  languages: {
    match: (selector, document) => {
      const matches = ({ language, pattern }) => (language ? language === document.languageId : pattern && document.name.endsWith('.cu'));
      return selector.some(matches) ? 10 : 0;
    },
  },
  workspace: {
    getConfiguration: () => ({ get: (name) => values[name] }),
    onDidChangeConfiguration: (listener) => { listeners.configured = listener; return { dispose() {} }; },
    onDidOpenTextDocument: (listener) => { listeners.opened = listener; return { dispose() {} }; },
    textDocuments: [],
    openTextDocument: async (document) => { documents.push(document); },
  },
  window: {
    activeTextEditor: { document: { uri: new Uri('file:///a%20folder/x.clk') } },
    showQuickPick: async (stages) => { assert.deepStrictEqual(stages, ['ast', 'typed', 'ir']); return 'ir'; },
    showTextDocument: async () => {},
    createTerminal: (options) => ({ show() {}, dispose() {}, sendText: (text) => terminalCommands.push([options.cwd, text]) }),
    showErrorMessage: async (message) => { throw new Error(message); },
  },
  commands: {
    registerCommand: (name, action) => { registered.set(name, action); return { dispose() {} }; },
    executeCommand() {},
  },
};
const client = {
  RevealOutputChannelOn: { Never: 4 },
  LanguageClient: class {
    constructor(...words) { Object.assign(this, { words, running: false }); clients.push(this); }
    async start() { this.running = true; }
    async stop() { this.running = false; }
  },
};

// The output of `clk`.
const help = '  -s, --stage <STAGE>\n          ast, typed or ir [default: ir]\n          \n          [possible values: ast, typed, ir]\n';
require('node:child_process').execFile = (program, words, options, done) =>
  done(null, words[1] === '--help' ? help : `${words.join(' ')}\n`, '');

// The real client can be loaded only in VS Code.
const load = Module._load;
Module._load = (name, ...rest) => {
  if (name === 'vscode') return vscode;
  if (name === 'vscode-languageclient/node') return client;
  return load(name, ...rest);
};

async function main() {
  const extension = require(path.join(folder, 'extension.js'));
  const manifest = require(path.join(folder, 'package.json'));
  await extension.activate({ subscriptions: [] });
  assert.deepStrictEqual([...registered.keys()].sort(), manifest.contributes.commands.map((entry) => entry.command).sort());
  const debuggers = manifest.contributes.debuggers.map((entry) => entry.type);
  assert.deepStrictEqual([...adapters.keys()].sort(), debuggers.flatMap((type) => [type, `${type} configuration`]).sort());
  const adapter = adapters.get('clk').createDebugAdapterDescriptor({ configuration: { program: '/a folder/x.clk' } });
  assert.deepStrictEqual(adapter.words, ['my clk', ['dap'], { cwd: '/a folder' }]);
  assert.strictEqual(adapters.get('clk configuration').resolveDebugConfiguration(undefined, {}).program, '${file}');
  // CUDA files activate the extension, but are served only on request.
  vscode.workspace.textDocuments.push({ languageId: 'cuda-cpp', name: 'x.cu', uri: new Uri('file:///x.cu') });
  await listeners.opened();
  assert.strictEqual(clients.length, 0);
  values.cuda = true;
  await listeners.configured({ affectsConfiguration: (name) => name === 'clk.cuda' });
  assert.strictEqual(clients.length, 1);
  assert.ok(clients[0].words[3].documentSelector.some((filter) => filter.pattern === '**/*.{cu,cuh}'));
  values.cuda = false;
  await listeners.configured({ affectsConfiguration: (name) => name === 'clk.cuda' });
  assert.ok(clients.length === 1 && !clients.pop().running);
  vscode.workspace.textDocuments.push({ languageId: 'clk', name: 'x.clk', uri: new Uri('file:///x.clk') });
  await listeners.opened();
  await listeners.opened();
  assert.strictEqual(clients.length, 1);
  assert.deepStrictEqual(clients[0].words[2], { command: 'my clk', args: ['lsp'] });
  assert.ok(clients[0].running);
  await registered.get('clk.run')();
  assert.deepStrictEqual(terminalCommands.pop(), ['/a folder', "'my clk' run --device sim '/a folder/x.clk'"]);
  await registered.get('clk.test')('file:///a%20folder/x.clk', "it's well");
  assert.deepStrictEqual(terminalCommands.pop(), ['/a folder', "'my clk' test --device sim --filter 'it'\\''s well' '/a folder/x.clk'"]);
  await registered.get('clk.profile')(undefined, 'scale');
  assert.deepStrictEqual(terminalCommands.pop(), ['/a folder', "'my clk' profile '/a folder/x.clk' scale"]);
  await registered.get('clk.emit')(undefined, 'scale');
  assert.deepStrictEqual(documents.pop(), { content: 'emit --stage ir --kernel scale /a folder/x.clk\n', language: 'plaintext' });
  await registered.get('clk.emit')('file:///a%20folder/x.clk', 'scale', 'cuda');
  assert.deepStrictEqual(documents.pop(), { content: 'emit --stage cuda --kernel scale /a folder/x.clk\n', language: 'cpp' });
  await registered.get('clk.restart')();
  assert.strictEqual(clients.length, 2);
  assert.ok(!clients[0].running && clients[1].running);
  await extension.deactivate();
  assert.ok(!clients[1].running);
  console.log(`${registered.size} commands, and the client starts and stops`);
}

main().catch((error) => { console.error(error); process.exit(1); });
