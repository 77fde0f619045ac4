/* counters.js: an engine's counters, with their names, as the numbers of lesson 6: accepted of drafted, tokens per
   pass, and α. */

import {make, setText} from "../../page/dom.js";
import {hundredths} from "../../page/numbers.js";
import {part} from "../widget.js";
import {choice} from "./handles.js";

/** By engine: the fields with the values of lesson 6's example (α = 0.8, k = 4, 1000 passes), and their meaning. */
export const ENGINES = [
  {
    name: "vLLM",
    fields: [
      ["vllm:spec_decode_num_drafts_total", 1000],
      ["vllm:spec_decode_num_draft_tokens_total", 4000],
      ["vllm:spec_decode_num_accepted_tokens_total", 2362],
    ],
    read: ([passes, drafted, accepted]) => ({k: drafted / passes, accepted: accepted / passes}),
  },
  {
    name: "llama-server",
    fields: [
      ["timings.predicted_n", 3362],
      ["timings.draft_n", 4000],
      ["timings.draft_n_accepted", 2362],
    ],
    read: ([written, drafted, accepted]) => {
      const passes = written - accepted; // each pass writes one token of the target's own
      return {k: drafted / passes, accepted: accepted / passes};
    },
  },
  {
    name: "SGLang",
    fields: [
      ["sglang:spec_accept_length", 3.362],
      ["drafted tokens per pass, as configured", 4],
    ],
    read: ([tokens, k]) => ({k, accepted: tokens - 1}),
  },
];

/** The α with which a chain of `k` tokens has `accepted` accepted tokens per pass: α + ... + α^k. If k is not whole,
    the last power counts in part. */
export function alphaOf(accepted, k) {
  const sum = alpha => {
    let total = 0;
    for (let i = 1; i <= k; i++) total += alpha ** i;
    return total + (k % 1) * alpha ** Math.ceil(k);
  };
  let [low, high] = [0, 1];
  for (let i = 0; i < 40; i++) {
    const middle = (low + high) / 2;
    if (sum(middle) < accepted) low = middle;
    else high = middle;
  }
  return (low + high) / 2;
}

/** {k, tokens per pass, share: accepted of drafted, alpha} of an engine's values; null if they are impossible. */
export function numbersOf(engine, values) {
  const {k, accepted} = ENGINES[engine].read(values);
  if (!(k > 0 && accepted >= 0 && accepted <= k && k < 100)) return null;
  return {k, tokens: 1 + accepted, share: accepted / k, alpha: alphaOf(accepted, k)};
}

export function figure() {
  let engine = 0;
  let inputs = [];
  const fields = part("la-f-fields");
  const result = make("p.la-f-advice", {"aria-live": "polite"});

  function draw() {
    const numbers = numbersOf(
      engine,
      inputs.map(input => Number(input.value)),
    );
    const words = ({k, tokens, share, alpha}) =>
      `k = ${hundredths(k)}. Accepted of drafted: ${hundredths(share)}. Tokens per pass: ${hundredths(tokens)}. ` +
      `This is α = ${hundredths(alpha)}, if α is the same at every position.`;
    setText(result, numbers ? words(numbers) : "These counters are impossible: more tokens are accepted than drafted.");
  }

  function open(chosen) {
    engine = chosen;
    inputs = ENGINES[engine].fields.map(([, value]) =>
      make("input.la-f-word", {type: "number", min: 0, step: "any", value, inputmode: "decimal"}),
    );
    const labels = ENGINES[engine].fields.map(([name], i) => make("label.la-f-field", make("code", name), inputs[i]));
    fields.replaceChildren(...labels);
    for (const input of inputs) input.addEventListener("input", draw);
    draw();
  }

  open(0);
  return [
    choice(
      "engine",
      ENGINES.map(({name}) => name),
      engine,
      open,
    ),
    fields,
    result,
  ];
}
