// Clk as WebAssembly: what the page, its worker and the tests call. A run has an instance of its own, so that nothing of a run is left
// for the next one, and what ends an instance ends one run.
globalThis.CLK = (() => {
  const KINDS = ["print", "report", "picture", "file", "value", "formatted", "colored"];
  const coder = new TextEncoder();
  const decoder = new TextDecoder();

  // Starts an instance of a module. `tell` takes events: {kind, head, body}, where the body of pictures and files is bytes.
  const start = async (module, tell) => {
    let [memory, telling] = [null, tell];
    const text = (at, length) => decoder.decode(new Uint8Array(memory.buffer, at >>> 0, length >>> 0));
    const event = (number, head, headLength, body, bodyLength) => {
      const kind = KINDS[number];
      const isBytes = kind === "picture" || kind === "file";
      const content = isBytes ? new Uint8Array(memory.buffer, body >>> 0, bodyLength >>> 0).slice() : text(body, bodyLength);
      telling({ kind, head: text(head, headLength), body: content });
    };
    const { exports } = await WebAssembly.instantiate(module, { clk: { event, now: () => performance.now() } });
    memory = exports.memory;

    const call = (name, source, ...more) => {
      const bytes = coder.encode(source);
      const at = exports.clk_alloc(bytes.length) >>> 0;
      if (at === 0) throw new WebAssembly.RuntimeError("the text does not fit into memory");
      new Uint8Array(memory.buffer, at, bytes.length).set(bytes);
      return exports[name](at, bytes.length, ...more);
    };
    // An instance that has ended in the middle is good for its last words only; exit code 70 is that of internal errors.
    const guarded = (work) => {
      let refused = null;
      telling = (event) => {
        try {
          tell(event);
        } catch (error) {
          // Whoever takes events wants no more of them.
          refused = error;
          throw error;
        }
      };
      try {
        return work();
      } catch (error) {
        if (refused) throw refused;
        telling = tell;
        // Engines say in different words that the stack is exhausted: RangeError, InternalError, or an access beyond it.
        const isStack = error instanceof RangeError || /recursion|out of bounds|stack/i.test(String(error));
        exports.clk_last_words(isStack ? 1 : 0);
        return 70;
      }
    };
    return {
      run: (source, check) => guarded(() => call("clk_run", source, check ? 1 : 0)),
      format: (source) => guarded(() => call("clk_format", source)),
      highlight: (source) => call("clk_highlight", source),
    };
  };
  return { start };
})();
