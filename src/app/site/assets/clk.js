// The JavaScript interface to Clk as WebAssembly, used by the page, its worker and the tests. Each run has its own
// instance, so that runs do not affect each other and a crash ends only one run.
globalThis.CLK = (() => {
  const KINDS = ["print", "report", "picture", "file", "value", "formatted", "colored"];
  const coder = new TextEncoder();
  const decoder = new TextDecoder();

  // Starts an instance of the module. Calls `tell` with each event {kind, head, body}. The body of a picture or a file
  // is bytes.
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
    // Runs `work`. If it crashes, the instance can still report its last message. Exit code 70 means an internal error.
    const guarded = (work) => {
      let refused = null;
      telling = (event) => {
        try {
          tell(event);
        } catch (error) {
          // The receiver of events has thrown this error, so it gets no further events.
          refused = error;
          throw error;
        }
      };
      try {
        return work();
      } catch (error) {
        if (refused) throw refused;
        telling = tell;
        // Engines report a stack overflow differently: as RangeError, as InternalError, or as an out-of-bounds access.
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
