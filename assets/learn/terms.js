/* terms.js: the terms in a lesson's prose that name a part of its drawings of a pass. */

/** Outline the part that a term of the prose names, in the lesson's drawings of a pass: while the term has the pointer
    or the focus, and until the next press after it was pressed. */
export function connect(element) {
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
