/* learn.js: the Learn tab: it opens lessons, follows links between them, marks solved lessons and prints a section. */

import * as address from "../page/address.js";
import {teaching} from "../page/load.js";
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

/** Called when a lesson is on the page: mark it in the list, and scroll to its top. After a link, its title gets the
    focus. */
export function shown(element, name) {
  updateMarks(name);
  if (!element.laLinks) {
    followLinks(element);
    teaching().then(({terms}) => terms.connect(element));
  }
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
