"use strict";
// The editor: a text area over its coloured text, with underlines and tips for diagnostics.

class Editor {
  /** `changed` is called with the text after each change by the user. */
  constructor(root, lex, changed) {
    this.root = root;
    this.lex = lex;
    this.changed = changed;
    this.diagnostics = [];
    this.marked = null;
    this.gutter = el("div", { class: "gutter", "aria-hidden": "true" });
    this.shown = el("pre", { "aria-hidden": "true" });
    this.area = el("textarea", {
      spellcheck: "false", autocomplete: "off", autocapitalize: "off", wrap: "off",
      "aria-label": "grammar", readonly: Boolean(exported),
      oninput: () => this.typed(),
      onkeydown: (event) => this.key(event),
      onmousemove: (event) => this.hover(event),
      onmouseleave: () => tip.hide(),
    });
    root.append(this.gutter, el("div", { class: "code" }, this.shown, this.area));
  }

  get text() {
    return this.area.value;
  }

  /** Put another text in the place of this one. */
  load(text) {
    this.area.value = text;
    this.diagnostics = [];
    this.marked = null;
    this.show();
    this.root.scrollTop = 0;
  }

  typed() {
    // Until the text has been checked again, underlines behind the change stay where they can.
    this.diagnostics = this.diagnostics.filter((d) => d.end < this.area.selectionStart - 1);
    this.show();
    this.changed(this.text);
  }

  key(event) {
    if (event.key === "Tab" && !event.shiftKey && !event.ctrlKey && !event.altKey && !exported) {
      event.preventDefault();
      this.insert("  ");
    }
    if (event.key === "Escape") this.area.blur();
  }

  /** Type a text at the cursor, so that it can be undone. */
  insert(text) {
    this.area.focus();
    if (!document.execCommand("insertText", false, text)) {
      this.area.setRangeText(text, this.area.selectionStart, this.area.selectionEnd, "end");
      this.typed();
    }
  }

  /** Replace a range of the text. */
  replace(start, end, text) {
    this.area.focus();
    this.area.setSelectionRange(start, end);
    this.insert(text);
  }

  /** Show diagnostics of the present text. */
  report(diagnostics) {
    this.diagnostics = diagnostics.filter((d) => d.placed);
    this.show();
  }

  /** Mark a range, or none. */
  mark(start, end) {
    this.marked = start === undefined ? null : [start, end, "here"];
    this.show();
  }

  /** Mark the line that a place is in. */
  markLine(place) {
    const end = this.text.indexOf("\n", place);
    this.mark(this.text.lastIndexOf("\n", place) + 1, end < 0 ? this.text.length : end);
  }

  /** Bring a place of the text into view and put the cursor there. */
  goTo(start, end) {
    this.area.focus({ preventScroll: true });
    this.area.setSelectionRange(start, end);
    const line = this.text.slice(0, start).split("\n").length - 1;
    this.root.scrollTo({ top: Math.max(line * 20 - this.root.clientHeight / 3, 0) });
  }

  show() {
    const text = this.text;
    const marks = this.diagnostics.map((d) => {
      const end = Math.max(d.end, d.start + 1);
      return [d.start, Math.min(end, text.length + 1), `underline ${d.severity}`];
    });
    if (this.marked) marks.push(this.marked);
    // A mark at the very end needs a character to stand under.
    const padded = text + (marks.some((mark) => mark[1] > text.length) ? " \n" : "\n");
    this.shown.replaceChildren(...coloured(padded, this.lex(text), marks));
    const worst = new Map();
    for (const d of this.diagnostics) {
      if (worst.get(d.line) !== "error") worst.set(d.line, d.severity);
    }
    const count = text.split("\n").length;
    if (this.gutter.childElementCount !== count) {
      this.gutter.replaceChildren(...Array.from({ length: count }, (_, i) => el("span", {}, `${i + 1}`)));
    }
    [...this.gutter.children].forEach((number, i) => (number.className = worst.get(i + 1) ?? ""));
  }

  /** The place in the text that a pointer is at. */
  placeAt(event) {
    const box = this.area.getBoundingClientRect();
    const style = getComputedStyle(this.area);
    this.width ??= this.measure();
    const line = Math.floor((event.clientY - box.top - parseFloat(style.paddingTop)) / 20);
    const column = (event.clientX - box.left - parseFloat(style.paddingLeft)) / this.width;
    const rows = this.text.split("\n");
    if (line < 0 || line >= rows.length || column < 0 || column > rows[line].length + 1) return -1;
    return rows.slice(0, line).reduce((sum, row) => sum + row.length + 1, 0) + Math.floor(column);
  }

  measure() {
    const probe = el("span", {}, "0".repeat(100));
    this.shown.append(probe);
    const width = probe.getBoundingClientRect().width / 100;
    probe.remove();
    return width;
  }

  hover(event) {
    const place = this.placeAt(event);
    const here = this.diagnostics.filter((d) => d.start <= place && place < Math.max(d.end, d.start + 1));
    if (!here.length || place < 0) return tip.hide();
    tip.show(event, here.map((d) => el("div", {},
      el("b", { class: d.severity }, d.code), ` ${d.message}`,
      d.help ? el("div", { class: "help" }, d.help) : null)));
  }
}
