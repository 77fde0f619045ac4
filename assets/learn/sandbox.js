/* sandbox.js: runs a reader's function in the browser, without access to the page, the server or the network.

   The function runs in a worker inside a sandboxed frame. The frame has no origin, so it reads neither the page nor
   its storage. Its policy forbids requests, and a worker has no document, so it cannot navigate either. The frame ends
   a worker that computes for too long. The worker returns each value as JSON. */

import {make} from "../page/dom.js";

const LIMIT_MS = 2000;
const START_MS = 8000; // for the frame on a busy machine
const MAX_CHARS = 400; // of a returned value
const POLICY = "default-src 'none'; script-src 'unsafe-inline' 'unsafe-eval'; worker-src blob:";

/* The worker's script. `draw(weights)` is deterministic, because each case has its own random number. */
const WORKER = `
const drawing = random => weights => {
  const total = weights.reduce((sum, weight) => sum + weight, 0);
  if (!(total > 0)) throw new Error("draw(weights) needs a sum above 0");
  let rest = random * total;
  const index = weights.findIndex(weight => (rest -= weight) < 0);
  return index < 0 ? weights.findLastIndex(weight => weight > 0) : index;
};
const short = value => String(JSON.stringify(value)).slice(0, ${MAX_CHARS});
onmessage = ({data: {names, body, cases}}) => {
  const send = postMessage.bind(globalThis);
  globalThis.postMessage = undefined; // a loop of messages would block the page
  let run;
  try {
    run = new Function(...names, "draw", '"use strict";\\n' + body);
  } catch (error) {
    return send({error: short(error.message)});
  }
  const values = cases.map(({values, random}) => {
    try {
      return {value: short(run(...values, drawing(random)))};
    } catch (error) {
      return {error: short(error?.message ?? error)};
    }
  });
  send({values});
};`;

/* The frame's script: it starts the worker, and ends it after its reply or the time limit. */
const FRAME = `
onmessage = ({data: {worker: source, limit, task}, ports: [port]}) => {
  const worker = new Worker(URL.createObjectURL(new Blob([source], {type: "text/javascript"})));
  const end = report => {
    clearTimeout(timer);
    worker.terminate();
    port.postMessage(report);
  };
  const timer = setTimeout(end, limit, {late: true});
  worker.onmessage = ({data}) => end(data);
  worker.onerror = () => end({error: '"the sandbox stopped"'});
  worker.postMessage(task);
};`;

/** The document of the frame. Its elements are made as nodes, because a script here cannot contain their tags. */
function frameDocument() {
  const page = document.implementation.createHTMLDocument("");
  const policy = page.createElement("meta");
  policy.httpEquiv = "Content-Security-Policy";
  policy.content = POLICY;
  const script = page.createElement("script");
  script.textContent = FRAME;
  page.head.append(policy, script);
  return page.documentElement.outerHTML;
}

const isText = text => typeof text === "string" && text.length <= MAX_CHARS;

/** Return a report if it has the right form, because the reader's code may change the worker's functions. */
function checked(report, task) {
  if (report?.late === true) return {late: true};
  if (isText(report?.error)) return {error: report.error};
  const {values} = report || {};
  const isComplete = Array.isArray(values) && values.length === task.cases.length;
  const isValid = entry => isText(entry?.value) || isText(entry?.error);
  return isComplete && values.every(isValid) ? {values} : {error: '"the code sent an unknown message"'};
}

/** Run a function with the parameters `names` and this body on all cases, {values, random}. Returns a promise of
    {values: [{value} or {error}]}, of {error} if the code cannot be read, or of {late: true}. Values and errors are
    JSON. */
export function run(task, limit = LIMIT_MS) {
  const frame = make("iframe", {sandbox: "allow-scripts", title: "sandbox", srcdoc: frameDocument()});
  frame.hidden = true;
  return new Promise(resolve => {
    const {port1, port2} = new MessageChannel();
    const end = report => {
      clearTimeout(timer);
      frame.remove();
      port1.close();
      resolve(checked(report, task));
    };
    const timer = setTimeout(end, limit + START_MS, {late: true});
    port1.onmessage = ({data}) => end(data);
    frame.onload = () => frame.contentWindow.postMessage({worker: WORKER, limit, task}, "*", [port2]);
    document.body.append(frame);
  });
}
