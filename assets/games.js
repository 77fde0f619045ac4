/* games.js: the widgets of a lesson that need no server: a guess, a question, this machine's costs, a listing.

   What it is.  `mount(element, data, hooks)` fills an empty element with the widget that `data.kind` names: guess, quiz,
   cost or code. `hooks.solved()` is called once, when a quiz is answered rightly. Mounting again begins anew.

   Why it is so.  A lesson asks before it tells: nothing that would give an answer away is in the page until somebody has
   answered. What counts as standing, and what a pass costs, comes with the data; here it is only put into words, so that
   a sentence and its figure cannot disagree. Digits are added where rounding would make "0.43, not below 0.43".

   What it does not know.  Lessons, the server, models. Texts of lessons are untrusted: they enter through text nodes. */

const lookaheadGames = (() => {
  "use strict";
  const {make, setText, signs} = lookaheadLane;
  let serial = 0;                                          // for ids, where one node describes another
  const id = () => `la-g-${++serial}`;

  // ---------------------------------------------------------------- numbers and small parts

  /** At most so many significant digits, and no idle zeros. */
  const number = (x, most = 6) => String(Number(x.toPrecision(most)));
  /** Two digits, or as many as it takes to look different from numbers that are different. */
  function apart(x, others) {
    let text = "";
    for (let most = 2; most < 7; most++) {
      text = number(x, most);
      if (others.every(other => other === x || Number(text) !== other)) break;
    }
    return text;
  }
  const three = x => x.toFixed(x < 9.995 ? 2 : x < 99.95 ? 1 : 0);
  const passes = x => x === 1 ? "1 pass" : `${three(x)} passes`;
  const ms = x => `${x < 0.995 ? x.toFixed(2) : x < 99.95 ? x.toFixed(1) : x.toFixed(0)} ms`;
  const percent = share => `${(100 * share).toFixed(2)}%`;

  const text = (className, ...words) => make("p", className, {}, ...words);
  const part = (className, ...children) => make("div", className, {}, ...children);
  const live = className => make("div", className, {"aria-live": "polite"});
  /** Something drawn whose meaning stands in words beside it. */
  function drawn(className, style, ...children) {
    const node = make("span", className, {"aria-hidden": "true"}, ...children);
    Object.assign(node.style, style);
    return node;
  }
  function button(word, act, attributes) {
    const node = make("button", "la-g-button", {type: "button", ...attributes}, word);
    node.addEventListener("click", act);
    return node;
  }

  // ---------------------------------------------------------------- guess: will it stand?

  const STANDS = "it stands", REFUSED = "it is refused";

  /** Whether a guess was right, whether it was good, and what of it was luck. */
  function judged(one, chance, guess) {
    const right = guess === one.stands, likelier = one.chance > 0.5, said = right ? "You were right" : "Not right";
    if (one.chance === 1) return `${said}. This one was certain: p is not below q, so it always stands.`;
    if (one.chance === 0) return `${said}. This one was certain: p is 0, so it is always refused.`;
    if (one.chance === 0.5) return `${said}. Neither guess was the better one: both sides were equally likely.`;
    const why = `${chance} is ${likelier ? "above" : "below"} a half, so ${likelier ? "standing" : "a refusal"} was likelier.`;
    if (guess === likelier) return right ? `You were right, and it was the better guess: ${why}` : `Not right, but a good guess and bad luck: ${why}`;
    return right ? `You were right, by luck. The better guess was “${likelier ? STANDS : REFUSED}”: ${why}`
                 : `Not right. The better guess was “${likelier ? STANDS : REFUSED}”: ${why}`;
  }

  /** The numbers from 0 to 1: tinted as far as a draw would let the token stand, and the draw as a dot. */
  function line(one, chance) {
    const until = percent(one.chance), at = percent(one.draw), from = {left: at, transform: `translateX(-${at})`};
    const says = one.chance === 1 ? "always stands" : one.chance === 0 ? "never stands" : `stands below ${chance}`;
    return drawn("la-g-line", {},
      drawn("la-g-above", {}, drawn("la-g-flag", from, `draw ${number(one.draw)}`)),
      drawn("la-g-scale", {}, drawn("la-g-zone", {width: until}), drawn("la-g-dot", {left: at})),
      drawn("la-g-below", {}, one.chance > 0.08 ? drawn("la-g-flag", {left: "0"}, "0") : "",
            drawn("la-g-flag", {left: until, transform: `translateX(-${until})`}, says),
            one.chance < 0.92 ? drawn("la-g-flag", {right: "0"}, "1") : ""));
  }

  function guess(data) {
    const {cases} = data, count = make("span"), score = make("span"), card = part("la-g-card"), after = live("la-g-after");
    const best = cases.filter(one => (one.chance >= 0.5) === one.stands).length;
    let at = 0, right = 0;

    const bar = (kind, label, value) => part("la-g-bar", make("span", "la-g-label", {}, label),
      drawn("la-g-rail", {}, drawn(`la-g-fill la-g-${kind}`, {width: percent(value)})), make("span", "la-g-value", {}, number(value)));

    function ask(focus) {
      const one = cases[at], about = id();
      const token = make("span", "la-g-token", {}, signs(one.token));
      const choices = [[STANDS, true], [REFUSED, false]].map(([word, side]) => button(word, () => answer(side), {"aria-describedby": about}));
      const facts = part("la-g-facts", text("", "Drafted: ", token), bar("p", "p, says the target", one.p), bar("q", "q, says the draft", one.q));
      facts.id = about;
      card.replaceChildren(facts, text("la-g-ask", "Will it stand?"), part("la-g-buttons", ...choices));
      setText(count, `Case ${at + 1} of ${cases.length}`);
      after.replaceChildren();
      if (focus) choices[0].focus();

      function answer(side) {
        right += Number(side === one.stands);
        token.classList.add(one.stands ? "la-g-accepted" : "la-g-rejected");
        choices.forEach((choice, i) => {
          choice.disabled = true;
          choice.setAttribute("aria-pressed", String((i === 0) === side));
        });
        settle(one, side);
      }
    }

    function settle(one, side) {
      const chance = apart(one.chance, [one.draw, 0, 0.5, 1]), last = at + 1 === cases.length;
      const next = last ? button("again", () => { at = right = 0; setText(score, ""); ask(true); }) : button("next", () => { at++; ask(true); });
      setText(score, `${right} of ${at + 1} right`);
      after.replaceChildren(
        text("la-g-sum", `chance = min(1, p/q) = min(1, ${number(one.p)}/${number(one.q)}) = `, make("b", "", {}, chance)),
        line(one, chance),
        text("", make("b", "", {}, `The draw is ${number(one.draw)}, ${one.stands ? "" : "not "}below ${chance}: ${one.stands ? STANDS : REFUSED}.`), ` ${judged(one, chance, side)}`));
      if (last) after.append(text("la-g-end", make("b", "", {}, `${right} of ${cases.length} right.`), ` Somebody who always takes the likelier side gets ${best} of ${cases.length} here.`));
      after.append(part("la-g-buttons", next));
      next.focus();
    }

    ask(false);
    return [part("la-g-head", count, score), card, after];
  }

  // ---------------------------------------------------------------- quiz: one question

  function quiz(data, hooks) {
    const list = data.answers.map(answer => {
      const sign = make("span", "la-g-sign", {"aria-hidden": "true"}, "○"), why = live("la-g-why");
      const node = button("", () => choose(answer, node, sign, why), {"aria-pressed": "false"});
      node.classList.add("la-g-answer");
      node.append(sign, make("span", "", {}, answer.text));
      return {node, why};
    });

    function choose(answer, node, sign, why) {
      if (node.getAttribute("aria-pressed") === "true") return;
      node.setAttribute("aria-pressed", "true");
      node.classList.add(answer.right ? "la-g-right" : "la-g-wrong");
      setText(sign, answer.right ? "✓" : "✕");
      why.replaceChildren(text("", make("b", "", {}, answer.right ? "Right. " : "Not quite. "), answer.why));
      if (!answer.right) return;
      for (const one of list) one.node.disabled = one.node !== node;    // the right one keeps the focus
      if (hooks.solved) hooks.solved();
    }

    return [make("fieldset", "la-g-quiz", {}, make("legend", "", {}, data.question), ...list.flatMap(({node, why}) => [node, why]))];
  }

  // ---------------------------------------------------------------- cost: what rows cost here

  /** Where the figure ends, in passes: measured bars keep well away from it, and what is dearer runs out of the figure. */
  function axisOf(rows, predict) {
    const most = Math.max(...rows.map(row => row.passes)), wanted = Math.max(2.5 * most, predict);
    const counts = rows.map(row => row.rows).sort((a, b) => a - b);
    return Math.max(most, counts.find(count => count >= wanted) || counts[counts.length - 1]);
  }

  function bars(data, guessed) {
    const axis = axisOf(data.rows, guessed === null ? 0 : data.predict), place = x => percent(Math.min(1, x / axis));
    const rows = data.rows.map(row => {
      const out = row.rows > axis, mine = guessed !== null && row.rows === data.predict;
      const track = drawn("la-g-track", {}, drawn(`la-g-whole${out ? " la-g-out" : ""}`, {width: place(row.rows)}), drawn("la-g-fill la-g-p", {width: place(row.passes)}));
      if (out) track.append(drawn("la-g-far", {}, `${row.rows} passes →`));
      if (mine) track.append(drawn("la-g-mine", {left: place(guessed)}));
      return make("li", "la-g-row", {}, make("span", "la-g-label", {}, `${row.rows} ${row.rows === 1 ? "row" : "rows"}`), track,
                  make("span", "la-g-value", {}, `${passes(row.passes)}, ${ms(row.ms)}`));
    });
    const key = part("la-g-key", make("span", "", {}, drawn("la-g-swatch la-g-fill la-g-p", {}), "measured"),
                     make("span", "", {}, drawn("la-g-swatch la-g-whole", {}), "as many passes of one row"));
    if (guessed !== null) key.append(make("span", "", {}, drawn("la-g-swatch la-g-mine", {}), "your guess"));
    return part("la-g-figure", make("ul", "la-g-rows", {role: "list", "aria-label": "What a pass costs, by its rows"}, ...rows), key);
  }

  const power = n => n < 2 ? "" : String(n).replace(/\d/g, digit => "⁰¹²³⁴⁵⁶⁷⁸⁹"[digit]);
  function terms(alpha, k) {
    const all = Array.from({length: k + 1}, (_, i) => i ? number(alpha) + power(i) : "1");
    return (k > 5 ? [...all.slice(0, 3), "...", all[k]] : all).join(" + ");
  }

  /** The speedup that theory expects, line by line, with the numbers in it. */
  function arithmetic({alpha, k, c, v, tokens, cost, speedup, plain}) {
    const draft = `${k} × ${number(c, 3)}`, [t, whole, result, bound] = [tokens, cost, speedup, plain].map(three);
    const lines = [["tokens a pass", `1 + α + ... = ${terms(alpha, k)} = `, t, ""], ["cost of a pass", `v + k × c = ${three(v)} + ${draft} = `, whole, ""],
                   ["speedup", `${t} / ${whole} = `, result, speedup < 1 ? ", slower than naive decoding: don’t" : ""],
                   ["at most", `${t} / (1 + ${draft}) = `, bound, ", Leviathan’s formula: v = 1, further rows for nothing"]];
    return part("la-g-arithmetic",
      text("la-g-small", `α = ${number(alpha)} and k = ${k} are given. Measured here: v, a pass of ${k + 1} rows, and c, a drafted token, both in one-row passes.`),
      make("dl", "", {}, ...lines.flatMap(([name, sum, value, more]) => [make("dt", "", {}, name), make("dd", "", {}, sum, make("b", "", {}, value), more)])));
  }

  function cost(data) {
    const {rows, predict, sum} = data, asked = rows.find(row => row.rows === predict && predict > 1);
    if (!rows.length) return [text("", "Nothing has been measured on this machine yet.")];
    const shown = guessed => [bars(data, guessed), ...(sum ? [arithmetic(sum)] : [])];
    if (!asked) return shown(null);

    const name = id(), value = make("output", "la-g-output", {for: name});
    const range = make("input", "la-g-range", {id: name, type: "range", min: "1", max: String(predict), step: "0.1", value: ((1 + predict) / 2).toFixed(1)});
    const label = make("label", "la-g-question", {for: name}, `How many one-row passes does a pass of ${predict} rows cost on this machine?`);
    const guessed = () => Number(range.value);
    function told() {
      setText(value, `${guessed().toFixed(1)} passes`);
      range.setAttribute("aria-valuetext", value.textContent);
      range.style.setProperty("--la-g-done", percent((guessed() - 1) / (predict - 1)));
    }
    const show = button("show", () => {
      const said = make("p", "la-g-said", {tabindex: "-1"}, `You guessed ${guessed().toFixed(1)}; `, make("b", "", {}, `it is ${three(asked.passes)}.`));
      box.replaceChildren(said, ...shown(guessed()));
      said.focus();
    });
    range.addEventListener("input", told);
    told();
    const box = part("la-g-stack", label, part("la-g-predict", range, value, show),
                     part("la-g-ends", make("span", "", {}, "1: no dearer than one row"), make("span", "", {}, `${predict}: every row at full price`)));
    return [box];
  }

  // ---------------------------------------------------------------- code: a listing

  /** Into the clipboard; where that is forbidden the listing is selected, for the keyboard to copy. */
  async function copy(words, node) {
    try {
      await navigator.clipboard.writeText(words);
      return "copied";
    } catch (_) {
      getSelection().selectAllChildren(node);
      return "selected; copy it with the keyboard";
    }
  }

  function code(data) {
    const marked = new Set(data.marked), where = data.source ? `${data.source}, from line ${data.first}` : "", title = data.title || where || "Listing";
    // The numbers are drawn by the style sheet, so they are in no selection. The marks are elements: they are heard, too.
    const lines = data.text.split("\n").map((words, i) =>
      make(marked.has(data.first + i) ? "mark" : "span", "la-g-codeline", {"data-line": data.first + i}, `${words}\n`));
    const listing = make("code", "", {}, ...lines), said = make("span", "la-g-small", {role: "status"});
    const take = button("copy", async () => setText(said, await copy(data.text, listing)), {"aria-label": `copy: ${title}`});
    listing.style.setProperty("--la-g-digits", `${String(data.first + lines.length - 1).length}ch`);
    const head = part("la-g-head", part("la-g-titles", ...(data.title ? [text("la-g-title", data.title)] : []), ...(where ? [text("la-g-small", where)] : [])), said, take);
    const box = make("div", "la-g-listing", {tabindex: "0", role: "region", "aria-label": marked.size ? `${title}; marked lines: ${[...marked].join(", ")}` : title},
                     make("pre", "", {}, listing));
    return [head, box];
  }

  // ---------------------------------------------------------------- mounting

  const KINDS = {guess, quiz, cost, code};

  function mount(element, data, hooks) {
    element.className = `la-game la-game-${data.kind}`;
    element.replaceChildren(...KINDS[data.kind](data, hooks || {}), ...(data.say ? [text("la-g-say", data.say)] : []));
  }

  return {mount};
})();
