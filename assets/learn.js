/* learn.js: the Learn tab's own few habits: which lesson is open, its address, links between lessons, printing.

   What it is.  `begun(first)` and `opened(name)` tell which lesson to show and keep the address in step, so that Back,
   reload and a copied address work; `left()` when another tab is chosen; `shown(element, name)` when a lesson stands on
   the page: it makes its links turn the page of this tab and not the whole page; `solved(name)` remembers that its
   question was answered; `handout()` prints the last section alone.

   Why it is so.  A lesson is a real address (`?lesson=03-rejection`), yet turning to it must not throw away a race that
   is on show in another tab.

   What it does not know.  What is in a lesson. The server renders it; widgets are games.js's and timeline.js's business. */

const lookaheadLearn = (() => {
  "use strict";
  const STORE = "lookahead-solved";
  const button = name => document.getElementById(`la-lesson-${name}`);
  const nameIn = address => new URL(address, location.href).searchParams.get("lesson");

  let here = false;

  function opened(name) {
    if (nameIn(location.href) !== name) history.pushState(null, "", `?lesson=${name}`);
    return name;
  }

  /** The tab is chosen: the lesson that was open, or that the address asks for, or the first. */
  function begun(first) {
    here = true;
    const held = document.querySelector("#la-open textarea, #la-open input");
    return opened((held && held.value) || nameIn(location.href) || first);
  }

  /** Another tab is chosen; the first time that is the page's own choice, and a link may still be waiting to be followed. */
  function left() {
    if (here && nameIn(location.href)) history.replaceState(null, "", location.pathname);
    here = false;
  }

  function turn(name) {
    const found = button(name);
    if (found) found.click();
    return Boolean(found);
  }

  addEventListener("popstate", () => { const name = nameIn(location.href); if (name) turn(name); });

  /** Links to lessons are followed here; all others are plain links. */
  function links(element) {
    element.addEventListener("click", event => {
      const link = event.target.closest("a[href]");
      if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
      const name = nameIn(link.href);
      if (name && turn(name)) event.preventDefault();
    });
  }

  function remembered() {
    try { return new Set(JSON.parse(localStorage.getItem(STORE)) || []); } catch (_) { return new Set(); }
  }

  function marks(current) {
    const done = remembered();
    for (const one of document.querySelectorAll("[id^='la-lesson-']")) {
      const name = one.id.slice("la-lesson-".length);
      if (current) { if (name === current) one.setAttribute("aria-current", "page"); else one.removeAttribute("aria-current"); }
      one.classList.toggle("la-solved", done.has(name));
      one.title = done.has(name) ? "its question is answered" : "";
    }
  }

  /** The lesson stands on the page: say so in the list, and begin at its top. */
  function shown(element, name) {
    marks(name);
    if (!element.laLinks) { element.laLinks = true; links(element); }
    const here = button(name), strip = here && here.parentElement;
    if (strip && strip.scrollWidth > strip.clientWidth) strip.scrollLeft = here.offsetLeft - strip.offsetLeft - 16;
    if (window.scrollY > 0) window.scrollTo({top: 0});
  }

  function solved(name) {
    try { localStorage.setItem(STORE, JSON.stringify([...remembered().add(name)])); } catch (_) { /* forbidden: nothing is kept */ }
    marks();
  }

  /** The last section of the page alone, on paper. */
  function handout() {
    const lesson = document.getElementById("la-lesson").classList;
    lesson.add("la-handout");
    addEventListener("afterprint", () => lesson.remove("la-handout"), {once: true});
    print();
  }

  return {begun, opened, left, shown, solved, handout};
})();
