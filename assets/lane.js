/* lane.js: one lane of text, and the few DOM helpers the timeline shares with it.

   What it is.  `create(lane, log, owner)` makes the box of one lane; `update(view, playing)` brings its text to one frame:
   the settled passes, then the run in flight (ghosts, and the sweep of the target's pass over them).

   Why it is so.  A settled pass is built once and afterwards only attached or detached, so going forward appends and
   going back cuts the tail; spans that did not change are never touched. A rejected run folds by a class on its
   pass. The sweep is one custom property on one container: nothing is animated per token.

   What it does not know.  Time, playback, the other lanes. `owner.hover(step)` and `owner.pick(step)` are told which
   pass the reader points at, `owner.point(step, part, node)` which token (node null: none any more). Model text is
   untrusted: it enters the page through text nodes only. */

const lookaheadLane = (() => {
  "use strict";
  const P = lookaheadPlayer;

  // ---------------------------------------------------------------- small DOM helpers

  function make(tag, className, attributes, ...children) {
    const node = document.createElement(tag);
    if (className) node.className = className;
    for (const [name, value] of Object.entries(attributes || {})) node.setAttribute(name, value);
    node.append(...children);
    return node;
  }

  function setText(node, text) { if (node.textContent !== text) node.textContent = text; }
  function setFlag(node, name, on) { if (node.classList.contains(name) !== on) node.classList.toggle(name, on); }
  function setAttr(node, name, value) { if (node.getAttribute(name) !== value) node.setAttribute(name, value); }

  // ---------------------------------------------------------------- one lane of text

  /** Line breaks and tabs inside a drafted or rejected run are shown as signs: only emitted text may break lines. */
  const signs = text => text.replace(/\r?\n/g, "↵").replace(/\t/g, "→") || "·";

  function create(lane, log, owner) {
    const prompt = make("span", "la-prompt", {}, log.header.prompt.text);
    const run = make("span", "la-run", {"aria-hidden": "true"}), caret = make("span", "la-caret", {"aria-hidden": "true"});
    const words = make("div", "la-text", {dir: "auto"}, prompt, run, caret);
    const scroll = make("div", "la-scroll", {tabindex: "0", role: "region", "aria-label": `${lane.name}: text`}, words);
    const aside = make("span", "la-aside");
    const node = make("section", `la-lane${lane.naive ? " la-naive" : ""}`, {},
                      make("div", "la-lanehead", {}, make("span", "la-name", {}, lane.name), aside), scroll);
    const nodes = [];
    let drawn = 0, latest = -1, flying = -1, ghosts = 0, follow = true, marked = -1, pointed = null;

    scroll.addEventListener("scroll", () => {
      follow = scroll.scrollHeight - scroll.clientHeight - scroll.scrollTop < 40;
    }, {passive: true});

    /** A token node that can be asked about: its part, and how warm it is in the heat views. */
    function asked(token, part, heat) {
      token.laPart = part;
      const warm = heat[part.emitted];
      if (!warm) return;
      if (warm.fails !== null) token.dataset.fails = String(warm.fails);
      if (warm.bits !== null) token.dataset.bits = String(lookaheadHeat.levelOf(warm.bits));
    }

    function build(index) {
      const step = lane.steps[index], parts = P.passParts(step, lane.naive), heat = lookaheadHeat.heatOf(step);
      const pass = make("span", "la-pass");
      pass.laStep = index;                                  // read back by the click and hover handlers
      for (const part of parts) {
        const dead = part.kind === "rejected" || part.kind === "unvisited", sign = part.kind === "note" || part.kind === "tick";
        const token = make("span", `la-tok la-${part.kind}`, dead || sign ? {"aria-hidden": "true"} : {}, dead ? signs(part.text) : part.text);
        if (!sign) asked(token, part, heat);
        pass.append(token);
      }
      return pass;
    }
    const passNode = index => nodes[index] || (nodes[index] = build(index));

    function setFlying(view) {
      if (view.flying !== flying || view.ghosts < ghosts) { run.replaceChildren(); ghosts = 0; flying = view.flying; }
      if (ghosts < view.ghosts) {
        const step = lane.steps[flying], chain = P.ghostChain(step);
        while (ghosts < view.ghosts) run.append(make("span", "la-tok la-ghost", {}, signs(step.draft.pieces[chain.rows[ghosts++]])));
        if (ghosts === chain.rows.length && chain.more > 0) run.append(make("span", "la-tok la-note", {}, P.moreRows(chain.more)));
      }
      setFlag(run, "la-sweeping", view.sweep !== null && ghosts > 0);
      if (view.sweep !== null) run.style.setProperty("--la-sweep", `${(view.sweep * 100).toFixed(1)}%`);
    }

    function update(view, playing) {
      const before = drawn + ghosts / 1000 + latest;
      while (drawn > view.settled) nodes[--drawn].remove();
      if (drawn < view.settled) {
        const added = document.createDocumentFragment();
        while (drawn < view.settled) added.append(passNode(drawn++));
        run.before(added);
      }
      if (latest !== drawn - 1) {
        if (nodes[latest]) nodes[latest].classList.remove("la-latest");
        latest = drawn - 1;
        if (nodes[latest]) nodes[latest].classList.add("la-latest");
      }
      if (!lane.naive) setFlying(view);
      setFlag(caret, "la-on", playing && !view.finished);
      const last = lane.steps[drawn - 1];
      setText(aside, view.finished ? `${view.tokens} tokens; ${P.FINISH[last.finish] || last.finish}`
              : lane.prefill_s === null ? "" : `prompt read in ${P.milliseconds(lane.prefill_s)}, not on the clock`);
      if (before !== drawn + ghosts / 1000 + latest) toEnd();
    }

    function toEnd() { if (follow) scroll.scrollTop = scroll.scrollHeight; }
    function mark(index) {
      if (nodes[marked]) nodes[marked].classList.remove("la-marked");
      marked = index;
      if (index >= 0) passNode(index).classList.add("la-marked");
    }
    const passOf = target => target.closest ? target.closest(".la-pass") : null;
    const stepOf = target => { const pass = passOf(target); return pass ? pass.laStep : -1; };

    // ---- one token under the pointer, the finger or the keyboard

    function point(token) {
      if (token === pointed) return;
      if (pointed) pointed.classList.remove("la-pointed");
      pointed = token;
      if (token) token.classList.add("la-pointed");
      owner.point(token ? stepOf(token) : -1, token && token.laPart, token);
    }
    const tokenOf = target => { const token = target.closest ? target.closest(".la-tok") : null; return token && token.laPart ? token : null; };
    const shown = () => [...words.querySelectorAll(".la-pass > .la-tok")].filter(token => token.laPart && token.offsetParent);

    function walk(event) {
      const move = {ArrowLeft: -1, ArrowRight: 1}[event.key], tokens = shown();
      if (!tokens.length) return;
      if (event.key === "Enter" && !pointed) point(tokens[tokens.length - 1]);
      else if (event.key === "Enter") owner.pick(stepOf(pointed));
      else if (event.key === "Escape" && pointed) point(null);
      else if (move && pointed) point(tokens[Math.max(0, Math.min(tokens.length - 1, tokens.indexOf(pointed) + move))]);
      else return;
      event.preventDefault();
      event.stopPropagation();                              // the arrows step through passes everywhere else
      if (pointed) pointed.scrollIntoView({block: "nearest"});
    }

    words.addEventListener("pointerover", event => { owner.hover(stepOf(event.target)); point(tokenOf(event.target)); });
    words.addEventListener("pointerleave", () => { owner.hover(-1); point(null); });
    words.addEventListener("click", event => owner.pick(stepOf(event.target)));
    scroll.addEventListener("keydown", walk);
    scroll.addEventListener("blur", () => point(null));
    return {node, update, mark, toEnd};
  }

  return {create, make, setText, setFlag, setAttr, signs};
})();
