/* learn.js: the Learn tab: it opens lessons, follows links between them, marks solved lessons and prints a section. */

import * as address from "../page/address.js";
import * as stored from "../timeline/stored.js";

const STORE = "lookahead-solved";
const button = name => document.getElementById(`la-lesson-${name}`);
let isFollowed = false; // a link has opened the lesson that is shown next

/** Called when a lesson is opened. */
export function opened(name) {
  address.opened(name);
  return name;
}

/** Called when the tab is selected. Returns the lesson in the address, else the one that was open, else the first. */
export function begun(first) {
  const open = document.querySelector("#la-open textarea, #la-open input");
  return opened(address.lessonOf(location.href) || open?.value || first);
}

/** Open linked lessons in this tab. Other links are plain links. */
function followLinks(element) {
  element.addEventListener("click", event => {
    const link = event.target.closest("a[href]");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
    const target = button(address.lessonOf(link.href));
    if (!target) return;
    isFollowed = true;
    target.click();
    event.preventDefault();
  });
}

const solvedLessons = () => new Set([stored.get(STORE, "localStorage") ?? []].flat());

/** Mark the solved lessons in the list, and the open lesson if `current` is given. */
function updateMarks(current) {
  const done = solvedLessons();
  for (const entry of document.querySelectorAll("[id^='la-lesson-']")) {
    const name = entry.id.slice("la-lesson-".length);
    if (name === current) entry.setAttribute("aria-current", "page");
    else if (current) entry.removeAttribute("aria-current");
    entry.classList.toggle("la-solved", done.has(name));
    entry.title = done.has(name) ? "its question is answered" : "";
  }
}

/** Outline the part that a term of the prose names, in the lesson's drawings of a pass: while the term has the pointer
    or the focus, and until the next press after it was pressed. */
function connectTerms(element) {
  let pressed = null;
  const termOf = ({target}) => target.closest?.(".la-term");
  const figures = () =>
    [...element.querySelectorAll(".la-game-figure")].filter(node => node.querySelector(".la-f-pass"));
  const outline = term => {
    for (const figure of figures()) figure.dataset.lit = term?.dataset.part || "";
  };
  const press = term => {
    pressed?.setAttribute("aria-pressed", "false");
    pressed = pressed === term ? null : term;
    pressed?.setAttribute("aria-pressed", "true");
    outline(pressed);
    const distance = figure => Math.abs(figure.getBoundingClientRect().top - term.getBoundingClientRect().top);
    const [nearest] = figures().sort((a, b) => distance(a) - distance(b));
    if (pressed) nearest?.querySelector(".la-f-pass").scrollIntoView({block: "nearest"});
  };
  for (const type of ["mouseover", "focusin"])
    element.addEventListener(type, event => termOf(event) && outline(termOf(event)));
  for (const type of ["mouseout", "focusout"])
    element.addEventListener(type, event => termOf(event) && outline(pressed));
  element.addEventListener("click", event => termOf(event) && press(termOf(event)));
  element.addEventListener("keydown", event => {
    if (!termOf(event) || !["Enter", " "].includes(event.key)) return;
    event.preventDefault();
    press(termOf(event));
  });
}

/** Called when a lesson is on the page: mark it in the list, and scroll to its top. After a link, its title gets the
    focus. */
export function shown(element, name) {
  updateMarks(name);
  if (!element.laLinks) for (const connect of [followLinks, connectTerms]) connect(element);
  element.laLinks = true;
  const entry = button(name);
  const strip = entry?.parentElement;
  if (strip?.scrollWidth > strip?.clientWidth) strip.scrollLeft = entry.offsetLeft - strip.offsetLeft - 16;
  if (window.scrollY > 0) window.scrollTo({top: 0});
  if (isFollowed) element.querySelector(".la-lessontitle").focus({preventScroll: true});
  isFollowed = false;
}

/** Store that the lesson's question was answered. */
export function solved(name) {
  stored.put(STORE, [...solvedLessons().add(name)], "localStorage");
  updateMarks();
}

/** Print only the section with this heading. */
export function handout(heading) {
  const lesson = document.getElementById("la-lesson");
  const sections = [...lesson.querySelectorAll(".la-read section")];
  const section = sections.find(entry => entry.querySelector("h2")?.textContent === heading);
  const show = on => {
    lesson.classList.toggle("la-handout", on);
    section.classList.toggle("la-printed", on);
  };
  show(true);
  addEventListener("afterprint", () => show(false), {once: true});
  print();
}
