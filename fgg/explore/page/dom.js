"use strict";
// Making elements, writing numbers, and the parts that all views use.

const SVG = "http://www.w3.org/2000/svg";

/** An element with attributes, listeners (`onclick`), and children; text is never markup. */
function el(name, attributes = {}, ...children) {
  return filled(document.createElement(name), attributes, children);
}

/** The same for elements of drawings. */
function draw(name, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, name), attributes, children);
}

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "style") Object.assign(element.style, value);
    else if (name === "data") Object.assign(element.dataset, value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
  return element;
}

/** Put other children into an element; those that are null are left out. */
function replace(element, ...children) {
  element.replaceChildren(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
}

/** A drawing of the engine as an element; nothing in it can run. */
function picture(text) {
  const parsed = new DOMParser().parseFromString(text, "image/svg+xml").documentElement;
  if (parsed.nodeName !== "svg") return el("p", { class: "quiet" }, "this cannot be drawn");
  for (const node of parsed.querySelectorAll("script, foreignObject, a, image, use")) node.remove();
  const drawing = document.adoptNode(parsed);
  drawing.querySelector("rect")?.setAttribute("class", "sheet");
  const frame = el("div", { class: "drawing" }, drawing);
  return frame;
}

/** A number as people read it: 1.2 k, 3.4 M. */
function short(value) {
  if (typeof value === "string") return value;
  if (!Number.isFinite(value)) return String(value);
  const size = Math.abs(value);
  if (size !== 0 && (size < 0.001 || size >= 1e18)) return value.toExponential(2);
  for (const [unit, name] of [[1e15, " P"], [1e12, " T"], [1e9, " G"], [1e6, " M"], [1e3, " k"]]) {
    if (size >= unit) return trimmed(value / unit) + name;
  }
  return trimmed(value);
}

function trimmed(value) {
  return String(Number(value.toPrecision(3)));
}

/** A number of bytes. */
function bytes(value) {
  for (const [unit, name] of [[2 ** 40, "TB"], [2 ** 30, "GB"], [2 ** 20, "MB"], [2 ** 10, "kB"]]) {
    if (value >= unit) return `${trimmed(value / unit)} ${name}`;
  }
  return `${value} bytes`;
}

/** A duration in seconds. */
function duration(seconds) {
  for (const [unit, name] of [[1, "s"], [1e-3, "ms"], [1e-6, "µs"]]) {
    if (seconds >= unit) return `${trimmed(seconds / unit)} ${name}`;
  }
  return `${trimmed(seconds * 1e9)} ns`;
}

function plural(count, word) {
  return `${count.toLocaleString("en")} ${word}${count === 1 ? "" : "s"}`;
}

/** A selection of choices, `[[value, text], …]`. */
function menu(choices, value, change, attributes = {}) {
  const made = el(
    "select",
    { ...attributes, onchange: () => change(made.value) },
    choices.map(([name, text]) => el("option", { value: name }, text)),
  );
  made.value = value ?? "";
  return made;
}

function field(text, ...inputs) {
  return el("label", { class: "field" }, el("span", {}, text), ...inputs);
}

/** What a computation could not do, as a card. */
function problemCard(problem) {
  if (problem.kind === "cancelled") {
    return el("div", { class: "problem mild" }, "cancelled");
  }
  if (problem.kind === "absent") {
    return el("div", { class: "problem mild" }, "this was not computed when the page was exported");
  }
  if (problem.kind === "refused") {
    const cards = problem.diagnostics.map((diagnostic) =>
      el("div", { class: "problem", data: { code: diagnostic.code } },
        el("span", { class: "code" }, diagnostic.code), prose(diagnostic.message),
        diagnostic.help ? el("div", { class: "help" }, prose(diagnostic.help)) : null));
    return el("div", {}, cards);
  }
  const what = problem.kind === "bug" ? "a bug in fggc: " : "";
  return el("div", { class: "problem" }, what + problem.message);
}

/** The text that a tip at the pointer shows, while the pointer is over an element. */
const tip = {
  node: null,
  show(event, ...content) {
    this.node ??= document.body.appendChild(el("div", { class: "tip", role: "tooltip" }));
    this.node.replaceChildren(...content.flat().filter((part) => part !== null));
    this.node.hidden = false;
    const box = this.node.getBoundingClientRect();
    const left = Math.min(event.clientX + 12, innerWidth - box.width - 8);
    const below = event.clientY + 18;
    const top = below + box.height > innerHeight ? event.clientY - box.height - 10 : below;
    Object.assign(this.node.style, { left: `${Math.max(left, 4)}px`, top: `${Math.max(top, 4)}px` });
  },
  hide() {
    if (this.node) this.node.hidden = true;
  },
};

/** The views of the page, in the order of their tabs: classes with a `title` and a `follow()`. */
const registry = [];

/** A text in which what stands between backquotes is code. */
function prose(text) {
  return text.split("`").map((part, i) => (i % 2 ? el("code", {}, part) : part));
}
