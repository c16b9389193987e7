// Activates the extension with a stand-in for VS Code: commands and the client of the language server are as declared.

const assert = require('node:assert');
const Module = require('node:module');
const path = require('node:path');

const folder = path.join(__dirname, '..');
const registered = new Map();
const sent = [];
const clients = [];

const vscode = {
  Uri: class {},
  ViewColumn: { Beside: -2 },
  workspace: {
    getConfiguration: () => ({ get: (name) => ({ path: 'my clk', server: true, device: 'sim' })[name] }),
    onDidChangeConfiguration: () => ({ dispose() {} }),
    textDocuments: [],
  },
  window: {
    activeTextEditor: { document: { uri: { scheme: 'file', fsPath: '/a folder/x.clk', toString: () => 'file:///a%20folder/x.clk' } } },
    createTerminal: (options) => ({ show() {}, dispose() {}, sendText: (text) => sent.push([options.cwd, text]) }),
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

// The real client needs a real VS Code to load.
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
  assert.deepStrictEqual([...registered.keys()].sort(), manifest.contributes.commands.map((one) => one.command).sort());
  assert.strictEqual(clients.length, 1);
  assert.deepStrictEqual(clients[0].words[2], { command: 'my clk', args: ['lsp'] });
  assert.ok(clients[0].running);
  await registered.get('clk.run')();
  assert.deepStrictEqual(sent.pop(), ['/a folder', "'my clk' run --device sim '/a folder/x.clk'"]);
  await registered.get('clk.restart')();
  assert.strictEqual(clients.length, 2);
  assert.ok(!clients[0].running && clients[1].running);
  await extension.deactivate();
  assert.ok(!clients[1].running);
  console.log(`${registered.size} commands, and the client starts and stops`);
}

main().catch((error) => { console.error(error); process.exit(1); });
