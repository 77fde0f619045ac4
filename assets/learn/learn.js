/* learn.js: the Learn tab's own few habits: which lesson is open, its address, links between lessons, printing.

   What it is.  `begun(first)` and `opened(name)` tell which lesson to show and keep the address in step, so that Back,
   reload and a copied address work; `shown(element, name)` marks the lesson on the page; `solved(name)` remembers that
   its question was answered; `handout(heading)` prints one of its sections.

   Why it is so.  A lesson is a real address (`?lesson=03-rejection`), yet turning to it must not throw away a race that
   is on show in another tab.

   What it does not know.  What is in a lesson: the server renders it; games.js and timeline.js have the widgets. */

import * as stored from "../timeline/stored.js";

const STORE = "lookahead-solved";
const button = name => document.getElementById(`la-lesson-${name}`);
const nameIn = address => new URL(address, location.href).searchParams.get("lesson");

let isOpen = false; // whether this tab is chosen

export function opened(name) {
  if (nameIn(location.href) !== name) history.pushState(null, "", `?lesson=${name}`);
  return name;
}

/** The tab is chosen: the lesson that was open, or that the address asks for, or the first. */
export function begun(first) {
  isOpen = true;
  const open = document.querySelector("#la-open textarea, #la-open input");
  return opened(open?.value || nameIn(location.href) || first);
}

/** Another tab is chosen; before this one ever was, that is the page's own choice, and a link may be waiting. */
export function left() {
  if (isOpen && nameIn(location.href)) history.replaceState(null, "", location.pathname);
  isOpen = false;
}

function turn(name) {
  button(name)?.click();
  return Boolean(button(name));
}

addEventListener("popstate", () => {
  const name = nameIn(location.href);
  if (name) turn(name);
});

/** Links to lessons are followed here; all others are plain links. */
function links(element) {
  element.addEventListener("click", event => {
    const link = event.target.closest("a[href]");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
    const name = nameIn(link.href);
    if (name && turn(name)) event.preventDefault();
  });
}

const remembered = () => new Set([stored.get(STORE, "localStorage") ?? []].flat());

/** Which lessons are done, and which one is open where that is given. */
function marks(current) {
  const done = remembered();
  for (const entry of document.querySelectorAll("[id^='la-lesson-']")) {
    const name = entry.id.slice("la-lesson-".length);
    if (name === current) entry.setAttribute("aria-current", "page");
    else if (current) entry.removeAttribute("aria-current");
    entry.classList.toggle("la-solved", done.has(name));
    entry.title = done.has(name) ? "its question is answered" : "";
  }
}

/** The lesson is on the page: mark it in the list, and scroll to its top. */
export function shown(element, name) {
  marks(name);
  if (!element.laLinks) links(element);
  element.laLinks = true;
  const entry = button(name);
  const strip = entry?.parentElement;
  if (strip?.scrollWidth > strip?.clientWidth) strip.scrollLeft = entry.offsetLeft - strip.offsetLeft - 16;
  if (window.scrollY > 0) window.scrollTo({top: 0});
}

export function solved(name) {
  stored.put(STORE, [...remembered().add(name)], "localStorage");
  marks();
}

/** The section of that heading alone, on paper. */
export function handout(heading) {
  const lesson = document.getElementById("la-lesson");
  const sections = [...lesson.querySelectorAll(".la-read section")];
  const section = sections.find(one => one.querySelector("h2")?.textContent === heading);
  const show = on => {
    lesson.classList.toggle("la-handout", on);
    section.classList.toggle("la-printed", on);
  };
  show(true);
  addEventListener("afterprint", () => show(false), {once: true});
  print();
}
