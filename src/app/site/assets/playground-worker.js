// The worker that runs scripts of the playground, so that the page stays responsive and can stop them.
importScripts("clk.js");

// Limits for the output of a script: bytes of text, bytes of all output, and number of events that are sent one at a
// time.
const TEXT = 1 << 20;
const ALL = 64 << 20;
const SINGLE = 1000;
const PAUSE = 50; // ms

class Enough extends Error {}

onmessage = async ({ data: { module, task, source, check } }) => {
  let [text, all, count, sent, kept] = [0, 0, 0, 0, []];
  const send = () => {
    if (kept.length > 0) postMessage({ events: kept });
    [kept, sent] = [[], performance.now()];
  };
  const tell = (event) => {
    const length = event.body.length + event.head.length;
    text += event.kind === "picture" || event.kind === "file" ? 0 : length;
    all += length;
    count += 1;
    if (text > TEXT || all > ALL) throw new Enough();
    const last = kept.at(-1);
    if (event.kind === "print" && last?.kind === "print") last.body += event.body; else kept.push(event);
    // Printed text is sent at once. If there are very many events, it is collected and sent at intervals.
    if (count <= SINGLE || performance.now() - sent > PAUSE) send();
  };
  const begun = performance.now();
  let done;
  try {
    const clk = await CLK.start(module, tell);
    const code = task === "format" ? clk.format(source) : clk.run(source, check);
    done = { code };
  } catch (error) {
    done = { code: 70, why: error instanceof Enough ? "more than 1 MB of text or 64 MB of pictures and files" : String(error) };
  }
  send();
  postMessage({ done, ms: performance.now() - begun });
};
