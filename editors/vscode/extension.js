// The extension: a client for `clk lsp`, commands that run `clk` in a terminal, and the debugger.

const childProcess = require('node:child_process');
const path = require('node:path');
const vscode = require('vscode');
const { LanguageClient, RevealOutputChannelOn } = require('vscode-languageclient/node');

let client;
let terminal;

const settings = () => vscode.workspace.getConfiguration('clk');

/** Returns the documents that the language server serves. CUDA files are served on request, as other servers own them. */
function servedDocuments() {
  const own = [{ language: 'clk', scheme: 'file' }, { language: 'clk', scheme: 'untitled' }];
  return settings().get('cuda') ? [...own, { pattern: '**/*.{cu,cuh}', scheme: 'file' }] : own;
}

/** Starts the server when a served document is open. CUDA files activate the extension even if they are not served. */
async function startServer() {
  const isServed = (document) => vscode.languages.match(servedDocuments(), document) > 0;
  if (client || !settings().get('server') || !vscode.workspace.textDocuments.some(isServed)) return;
  const command = settings().get('path');
  client = new LanguageClient(
    'clk',
    'Clk',
    { command, args: ['lsp'] },
    {
      documentSelector: servedDocuments(),
      revealOutputChannelOn: RevealOutputChannelOn.Never,
      middleware: { executeCommand: executeCommand },
    },
  );
  try {
    await client.start();
  } catch (error) {
    client = undefined;
    const open = 'Open Settings';
    const answer = await vscode.window.showErrorMessage(
      `The language server \`${command} lsp\` did not start: ${error.message}`, open);
    if (answer === open) vscode.commands.executeCommand('workbench.action.openSettings', 'clk.path');
  }
}

/** Lets the server execute a command. Shows the result of `clk.prove` next to the program. */
async function executeCommand(command, args, next) {
  const content = await next(command, args);
  if (command === 'clk.prove' && typeof content === 'string') {
    const document = await vscode.workspace.openTextDocument({ content, language: 'plaintext' });
    await vscode.window.showTextDocument(document, { viewColumn: vscode.ViewColumn.Beside, preview: true });
  }
  return content;
}

async function stopServer() {
  const running = client;
  client = undefined;
  if (running) await running.stop();
}

/** Returns the file for a command: its argument, which a code lens passes, or the file in the editor. Saves it if necessary. */
async function savedFile(argument) {
  const target = typeof argument === 'string' ? vscode.Uri.parse(argument) : argument;
  const active = vscode.window.activeTextEditor?.document;
  const uri = target instanceof vscode.Uri ? target : active?.uri;
  const document = vscode.workspace.textDocuments.find((candidate) => candidate.uri.toString() === uri?.toString());
  if (document?.isDirty && !(await document.save())) return undefined;
  if (!uri || uri.scheme !== 'file') {
    vscode.window.showWarningMessage('Save the program to a file first.');
    return undefined;
  }
  return uri.fsPath;
}

/** Returns the device option of the settings. */
function deviceOption() {
  const name = settings().get('device');
  return name ? ['--device', name] : [];
}

/** Runs `clk` with these arguments in the folder of the file, in a new terminal that replaces the previous one. */
function runInTerminal(title, file, args) {
  terminal?.dispose();
  terminal = vscode.window.createTerminal({
    name: `clk ${title}`,
    cwd: path.dirname(file),
    isTransient: true,
  });
  terminal.show(true);
  const quoted = [settings().get('path'), ...args].map(quote).join(' ');
  // PowerShell needs an ampersand before a quoted program.
  terminal.sendText(process.platform === 'win32' && quoted.startsWith('"') ? `& ${quoted}` : quoted);
}

/** Quotes a word for the shell of the platform. */
function quote(word) {
  if (/^[\w./:=+,@%-]+$/.test(word)) return word;
  return process.platform === 'win32' ? `"${word.replace(/"/g, '`"')}"` : `'${word.replace(/'/g, `'\\''`)}'`;
}

/** Returns a command that runs a subcommand on the file. A code lens may also pass the name of a test or benchmark. */
function terminalCommand(subcommand) {
  return async (argument, name) => {
    const file = await savedFile(argument);
    const filter = typeof name === 'string' && name !== '' ? ['--filter', name] : [];
    if (file) runInTerminal(subcommand, file, [subcommand, ...deviceOption(), ...filter, file]);
  };
}

/** Profiles the kernels of a file, or one of them. */
async function profile(argument, name) {
  const file = await savedFile(argument);
  const kernel = typeof name === 'string' && name !== '' ? [name] : [];
  if (file) runInTerminal('profile', file, ['profile', file, ...kernel]);
}

/** Runs `clk` and returns its output. Rejects with its error output on failure. */
function clkOutput(args, cwd) {
  return new Promise((resolve, reject) => {
    const options = { cwd, maxBuffer: 64 << 20, env: { ...process.env, NO_COLOR: '1' } };
    childProcess.execFile(settings().get('path'), args, options, (error, stdout, stderr) => {
      if (error) reject(new Error(stderr.trim() || error.message));
      else resolve(stdout);
    });
  });
}

/** Lets the user pick one of the stages that this `clk` supports. */
async function pickStage(folder) {
  const help = await clkOutput(['emit', '--help'], folder);
  const stages = /--stage[^[]*(?:\[default[^\]]*\]\s*)?\[possible values: ([^\]]*)\]/.exec(help)?.[1].split(', ') ?? ['ir'];
  return vscode.window.showQuickPick(stages, { placeHolder: 'Stage' });
}

/** Shows the output of a compiler stage, for the program or one kernel, next to its source. Asks for the stage if it is undefined. */
async function emit(argument, name, requestedStage) {
  const file = await savedFile(argument);
  if (!file) return;
  try {
    const stage = typeof requestedStage === 'string' ? requestedStage : await pickStage(path.dirname(file));
    if (!stage) return;
    const kernel = typeof name === 'string' && name !== '' ? ['--kernel', name] : [];
    const content = await clkOutput(['emit', '--stage', stage, ...kernel, file], path.dirname(file));
    const language = stage === 'cuda' ? 'cpp' : 'plaintext';
    const document = await vscode.workspace.openTextDocument({ content, language });
    await vscode.window.showTextDocument(document, { viewColumn: vscode.ViewColumn.Beside, preview: true });
  } catch (error) {
    vscode.window.showErrorMessage(error.message);
  }
}

/** Starts `clk dap` for a debug session, in the folder `cwd` of its configuration or that of the program. */
const debugAdapters = {
  createDebugAdapterDescriptor(session) {
    const { cwd, program } = session.configuration;
    const options = { cwd: cwd ?? (program ? path.dirname(program) : undefined) };
    return new vscode.DebugAdapterExecutable(settings().get('path'), ['dap'], options);
  },
};

/** Debugs the file in the editor if there is no launch configuration. */
const debugConfigurations = {
  resolveDebugConfiguration(_folder, configuration) {
    const isEmpty = !configuration.type && !configuration.request && !configuration.name;
    if (!isEmpty) return configuration;
    return { type: 'clk', request: 'launch', name: 'Debug Clk Script', program: '${file}' };
  },
};

exports.activate = async function activate(context) {
  context.subscriptions.push(
    vscode.debug.registerDebugAdapterDescriptorFactory('clk', debugAdapters),
    vscode.debug.registerDebugConfigurationProvider('clk', debugConfigurations),
    vscode.commands.registerCommand('clk.run', terminalCommand('run')),
    vscode.commands.registerCommand('clk.test', terminalCommand('test')),
    vscode.commands.registerCommand('clk.bench', terminalCommand('bench')),
    vscode.commands.registerCommand('clk.profile', profile),
    vscode.commands.registerCommand('clk.emit', emit),
    vscode.commands.registerCommand('clk.restart', async () => {
      await stopServer();
      await startServer();
    }),
    vscode.workspace.onDidOpenTextDocument(startServer),
    vscode.workspace.onDidChangeConfiguration(async (event) => {
      if (['clk.path', 'clk.server', 'clk.cuda'].some((name) => event.affectsConfiguration(name))) {
        await stopServer();
        await startServer();
      }
    }),
  );
  await startServer();
};

exports.deactivate = stopServer;
