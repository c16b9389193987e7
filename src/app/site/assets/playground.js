// The page of the playground: an editor with highlighting by Clk's own lexer, and the output of scripts. Scripts run in
// a worker. The browser stores the text. The fragment of a link contains a text, or the name of a page and the number
// of a program in it.
(() => {
  const at = (id) => document.getElementById(id);
  const [field, colors, output, state] = [at("program"), at("colors"), at("output"), at("state")];
  const [run, stop, check, format, share, examples, restore] =
    ["run", "stop", "check", "format", "share", "examples", "restore"].map(at);
  const COLORED = 100_000; // characters
  const LINKED = 1 << 20; // bytes of a text in a link
  const SHOWN = 2 << 20; // characters of output

  let module = null;
  let colorer = null;
  let worker = null;
  let urls = [];

  const say = (text) => { state.textContent = text; };

  // Stores the text that the user has typed. It is saved before an example or a link replaces it.
  const store = {
    get: (key) => { try { return localStorage.getItem(`clk.${key}`); } catch { return null; } },
    set: (key, value) => { try { localStorage.setItem(`clk.${key}`, value); } catch { /* private windows keep nothing */ } },
  };
  let given = null; // the text as an example or a link gave it
  const place = (text) => {
    if (field.value.trim() !== "" && field.value !== given && field.value !== text) {
      store.set("before", field.value);
      restore.hidden = false;
    }
    given = text;
    field.value = text;
    changed();
  };
  const changed = () => {
    store.set("text", field.value);
    color();
  };

  const color = () => {
    let html = null;
    if (colorer && field.value.length < COLORED) {
      try {
        colorer.highlight(field.value);
        html = colorer.html;
      } catch { colorer = null; }
    }
    if (html === null) colors.textContent = field.value; else colors.innerHTML = html;
    colors.append("\n");
    field.style.height = "auto";
    field.style.height = `${field.scrollHeight}px`;
  };

  // Shows the output. ANSI colors become CSS classes, and diagnostic codes become links to their pages.
  const classes = { 31: "error", 33: "warning", 34: "t", 36: "b", "38;5;115": "s", "38;5;246": "c", "38;5;240": "c", "38;5;249": "c" };
  const colored = (text) => {
    const block = document.createElement("pre");
    block.className = "output report";
    let name = "";
    for (const part of text.trimEnd().split(/(\x1b\[[0-9;]*m)/)) {
      const code = /^\x1b\[([0-9;]*)m$/.exec(part);
      if (code) { name = classes[code[1]] ?? ""; continue; }
      const span = document.createElement("span");
      span.className = name;
      const head = /^(error|warning|note)\[([A-Z]\d{4})\](.*)$/s.exec(part);
      if (head) {
        const link = document.createElement("a");
        [link.href, link.textContent] = [`errors/${head[2]}.html`, head[2]];
        span.append(`${head[1]}[`, link, `]${head[3]}`);
      } else {
        span.textContent = part;
      }
      block.append(span);
    }
    return block;
  };
  // Selects a message's source location in the editor. Lines and columns count from 1, columns in characters.
  const go = (place) => {
    const lines = field.value.split("\n");
    const index = (line, column) =>
      lines.slice(0, line - 1).reduce((sum, text) => sum + text.length + 1, 0) + [...(lines[line - 1] ?? "")].slice(0, column - 1).join("").length;
    field.focus();
    field.setSelectionRange(index(place.line, place.column), index(place.end_line, place.end_column));
  };
  const report = ({ head, body }) => {
    output.append(colored(body));
    const first = JSON.parse(head).labels?.find((label) => label.primary);
    if (!first || first.file !== "playground.clk") return;
    const button = document.createElement("button");
    [button.type, button.className, button.textContent] = ["button", "place", `Show line ${first.line}`];
    button.onclick = () => go(first);
    output.append(button);
  };
  const address = (bytes, type) => {
    urls.push(URL.createObjectURL(new Blob([bytes], { type })));
    return urls.at(-1);
  };
  const picture = (bytes, type, name) => {
    const image = document.createElement("img");
    [image.src, image.alt] = [address(bytes, type), name];
    output.append(image);
  };
  let [printed, length] = [null, 0];
  const print = (text) => {
    if (!printed || output.lastChild !== printed) {
      printed = document.createElement("pre");
      printed.className = "output";
      output.append(printed);
    }
    length += text.length;
    // Text is appended to one text node, because a script may print very often.
    if (length < SHOWN && printed.firstChild) printed.firstChild.appendData(text);
    else if (length < SHOWN) printed.append(text);
  };
  const SHOW = {
    print: ({ body }) => print(body),
    value: ({ body }) => print(`${body}\n`),
    report,
    picture: ({ head, body }) => picture(body, head, "a picture"),
    file: ({ head, body }) => {
      const type = /\.png$/i.test(head) ? "image/png" : /\.svg$/i.test(head) ? "image/svg+xml" : null;
      if (type) picture(body, type, head);
      const link = document.createElement("a");
      [link.href, link.download, link.textContent] = [address(body, "application/octet-stream"), head.split("/").pop(), `Save ${head}`];
      const line = document.createElement("p");
      line.append(link);
      output.append(line);
    },
    formatted: ({ body }) => { if (body !== field.value) { field.value = body; changed(); } },
  };

  // Starts and stops runs.
  const busy = (is) => {
    [run.disabled, format.disabled, stop.disabled] = [is || !module, is || !module, !is];
  };
  const end = (text) => {
    worker?.terminate();
    worker = null;
    busy(false);
    say(text);
  };
  const clear = () => {
    urls.forEach((url) => URL.revokeObjectURL(url));
    urls = [];
    [printed, length] = [null, 0];
    output.replaceChildren();
  };
  const begin = (task) => {
    if (!module || worker) return;
    clear();
    busy(true);
    say(task === "run" ? "Running …" : "Formatting …");
    worker = new Worker("playground-worker.js");
    worker.onmessage = ({ data }) => {
      data.events?.forEach((event) => SHOW[event.kind]?.(event));
      if (!data.done) return;
      const time = data.ms < 1000 ? `${data.ms.toFixed(0)} ms` : `${(data.ms / 1000).toFixed(2)} s`;
      const { code, why } = data.done;
      if (why) print(`Ended: ${why}.\n`);
      end(code === 0 ? (task === "run" ? `Done in ${time}` : "Formatted") : why ? "Ended" : `Ended with code ${code} after ${time}`);
    };
    worker.onerror = (event) => {
      event.preventDefault();
      print(`The run has ended: ${event.message ?? "the worker cannot be started"}\n`);
      end("Ended");
    };
    worker.postMessage({ module, task, source: field.value, check: check.checked });
  };
  run.onclick = () => begin("run");
  format.onclick = () => begin("format");
  stop.onclick = () => end("Stopped");

  // Links: `#code=TEXT` contains a text (compressed, in URL-safe Base64); `#from=PAGE&program=N` refers to the Nth
  // program of a page.
  const through = async (bytes, stream, most) => {
    const reader = new Blob([bytes]).stream().pipeThrough(stream).getReader();
    const parts = [];
    for (let all = 0; ;) {
      const { done, value } = await reader.read();
      if (done) return new Blob(parts).arrayBuffer();
      all += value.length;
      if (all > most) { await reader.cancel(); throw new Error("the text is too long"); }
      parts.push(value);
    }
  };
  const packed = async (text) => {
    const bytes = new Uint8Array(await through(new TextEncoder().encode(text), new CompressionStream("deflate-raw"), Infinity));
    let binary = "";
    for (const byte of bytes) binary += String.fromCharCode(byte);
    return btoa(binary).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
  };
  const unpacked = async (code) => {
    const binary = atob(code.replaceAll("-", "+").replaceAll("_", "/"));
    const bytes = Uint8Array.from(binary, (c) => c.charCodeAt(0));
    return new TextDecoder().decode(await through(bytes, new DecompressionStream("deflate-raw"), LINKED));
  };
  const programs = async (page) => {
    if (!/^[\w-]+(\/[\w-]+)*\.html$/.test(page)) throw new Error("no page of this site");
    const answer = await fetch(page);
    if (!answer.ok) throw new Error(`no page ${page}`);
    const parsed = new DOMParser().parseFromString(await answer.text(), "text/html");
    return [...parsed.querySelectorAll("pre.program")].map((block) => block.textContent);
  };
  const follow = async () => {
    const asked = new URLSearchParams(location.hash.slice(1));
    try {
      if (asked.has("code")) return place(await unpacked(asked.get("code")));
      if (!asked.has("from")) return;
      const text = (await programs(asked.get("from")))[Number(asked.get("program") ?? 1) - 1];
      if (text === undefined) throw new Error("no such program");
      place(text);
    } catch (error) {
      say(`The link cannot be followed: ${error.message}`);
    }
  };
  share.onclick = async () => {
    location.hash = `code=${await packed(field.value)}`;
    given = field.value;
    try {
      await navigator.clipboard.writeText(location.href);
      say("The link is copied");
    } catch {
      say("The link is in the address bar");
    }
  };
  examples.onchange = () => {
    if (examples.value) location.hash = `from=${examples.value}`;
    examples.value = "";
  };
  restore.onclick = () => {
    const before = store.get("before");
    if (before !== null) place(before);
  };
  window.addEventListener("hashchange", follow);

  field.addEventListener("input", changed);
  document.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); begin("run"); }
  });
  // A new line gets the indentation of the previous one. Tab is not handled: it leaves the editor, as in all fields.
  field.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.ctrlKey || event.metaKey || event.isComposing) return;
    const line = field.value.slice(0, field.selectionStart).split("\n").pop();
    const indent = /^\s*/.exec(line)[0] + (/\{\s*$/.test(line) ? "    " : "");
    if (indent === "") return;
    event.preventDefault();
    // The user can undo this command, unlike an assignment to the field.
    if (!document.execCommand("insertText", false, `\n${indent}`)) field.setRangeText(`\n${indent}`, field.selectionStart, field.selectionEnd, "end");
    changed();
  });

  const load = async () => {
    restore.hidden = store.get("before") === null;
    const kept = store.get("text");
    given = field.value.trim() === "" ? at("first").textContent : field.value;
    field.value = kept ?? given;
    color();
    await follow();
    if (location.protocol === "file:") {
      return say("Browsers run no WebAssembly from files: serve this folder, for example by `python3 -m http.server`");
    }
    try {
      const answer = await fetch("playground.wasm");
      if (!answer.ok) throw new Error(`playground.wasm: ${answer.status}`);
      module = await WebAssembly.compile(await answer.arrayBuffer());
      const told = { html: "" };
      const instance = await CLK.start(module, ({ kind, body }) => { if (kind === "colored") told.html = body; });
      colorer = { highlight: (text) => instance.highlight(text), get html() { return told.html; } };
      busy(false);
      color();
      if (state.textContent === "Loading …") say("Ready");
    } catch (error) {
      say(`The simulator cannot be loaded: ${error.message}`);
    }
  };
  say("Loading …");
  load();
})();
