// The extension: the client of `clk lsp`, and commands that run `clk` in a terminal.

const childProcess = require('node:child_process');
const path = require('node:path');
const vscode = require('vscode');
const { LanguageClient, RevealOutputChannelOn } = require('vscode-languageclient/node');

let client;
let terminal;

const settings = () => vscode.workspace.getConfiguration('clk');

async function startServer() {
  if (!settings().get('server')) return;
  const command = settings().get('path');
  client = new LanguageClient(
    'clk',
    'Clk',
    { command, args: ['lsp'] },
    {
      documentSelector: [{ language: 'clk', scheme: 'file' }, { language: 'clk', scheme: 'untitled' }],
      revealOutputChannelOn: RevealOutputChannelOn.Never,
      middleware: { executeCommand: proved },
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

/** Has the server execute a command; what it says of a kernel is shown beside the program. */
async function proved(command, args, next) {
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

/** The file that a command is about: its argument (a code lens gives one) or the one in the editor, saved. */
async function savedFile(argument) {
  const wanted = typeof argument === 'string' ? vscode.Uri.parse(argument) : argument;
  const active = vscode.window.activeTextEditor?.document;
  const uri = wanted instanceof vscode.Uri ? wanted : active?.uri;
  const document = vscode.workspace.textDocuments.find((one) => one.uri.toString() === uri?.toString());
  if (document?.isDirty && !(await document.save())) return undefined;
  if (!uri || uri.scheme !== 'file') {
    vscode.window.showWarningMessage('Save the program to a file first.');
    return undefined;
  }
  return uri.fsPath;
}

/** The device flag of the settings. */
function device() {
  const name = settings().get('device');
  return name ? ['--device', name] : [];
}

/** Runs `clk` with these words in the folder of the file; a new terminal, or the last one when it is done. */
function inTerminal(title, file, words) {
  terminal?.dispose();
  terminal = vscode.window.createTerminal({
    name: `clk ${title}`,
    cwd: path.dirname(file),
    isTransient: true,
  });
  terminal.show(true);
  const quoted = [settings().get('path'), ...words].map(quote).join(' ');
  // PowerShell starts a quoted program only behind an ampersand.
  terminal.sendText(process.platform === 'win32' && quoted.startsWith('"') ? `& ${quoted}` : quoted);
}

/** A word as the shell of the platform takes it. */
function quote(word) {
  if (/^[\w./:=+,@%-]+$/.test(word)) return word;
  return process.platform === 'win32' ? `"${word.replace(/"/g, '`"')}"` : `'${word.replace(/'/g, `'\\''`)}'`;
}

/** A command with the file as its argument; a code lens may also name the test or the bench that is meant. */
function terminalCommand(subcommand) {
  return async (argument, name) => {
    const file = await savedFile(argument);
    const filter = typeof name === 'string' && name !== '' ? ['--filter', name] : [];
    if (file) inTerminal(subcommand, file, [subcommand, ...device(), ...filter, file]);
  };
}

/** Counts what the kernels of a file cost a GPU, or one of them. */
async function profile(argument, name) {
  const file = await savedFile(argument);
  const kernel = typeof name === 'string' && name !== '' ? [name] : [];
  if (file) inTerminal('profile', file, ['profile', file, ...kernel]);
}

/** What `clk` writes, or an error with what it says instead. */
function output(words, cwd) {
  return new Promise((resolve, reject) => {
    const options = { cwd, maxBuffer: 64 << 20, env: { ...process.env, NO_COLOR: '1' } };
    childProcess.execFile(settings().get('path'), words, options, (error, stdout, stderr) => {
      if (error) reject(new Error(stderr.trim() || error.message));
      else resolve(stdout);
    });
  });
}

/** A stage that this `clk` knows, picked by the user. */
async function chosenStage(folder) {
  const help = await output(['emit', '--help'], folder);
  const stages = /--stage[^[]*(?:\[default[^\]]*\]\s*)?\[possible values: ([^\]]*)\]/.exec(help)?.[1].split(', ') ?? ['ir'];
  return vscode.window.showQuickPick(stages, { placeHolder: 'Stage' });
}

/** Shows the program, or one kernel of it, at a stage of the compiler beside its text; asks for the stage if none is given. */
async function emit(argument, name, given) {
  const file = await savedFile(argument);
  if (!file) return;
  try {
    const stage = typeof given === 'string' ? given : await chosenStage(path.dirname(file));
    if (!stage) return;
    const kernel = typeof name === 'string' && name !== '' ? ['--kernel', name] : [];
    const content = await output(['emit', '--stage', stage, ...kernel, file], path.dirname(file));
    const language = stage === 'cuda' ? 'cpp' : 'plaintext';
    const document = await vscode.workspace.openTextDocument({ content, language });
    await vscode.window.showTextDocument(document, { viewColumn: vscode.ViewColumn.Beside, preview: true });
  } catch (error) {
    vscode.window.showErrorMessage(error.message);
  }
}

/** Starts `clk dap` for a debug session, in the folder that its configuration names. */
const debugAdapters = {
  createDebugAdapterDescriptor(session) {
    const { cwd, program } = session.configuration;
    const options = { cwd: cwd ?? (program ? path.dirname(program) : undefined) };
    return new vscode.DebugAdapterExecutable(settings().get('path'), ['dap'], options);
  },
};

/** Without a launch configuration, the file in the editor is debugged. */
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
    vscode.workspace.onDidChangeConfiguration(async (event) => {
      if (event.affectsConfiguration('clk.path') || event.affectsConfiguration('clk.server')) {
        await stopServer();
        await startServer();
      }
    }),
  );
  await startServer();
};

exports.deactivate = stopServer;
