"use strict";
// Identifiability: ranks against the number of parameters, and null directions as arrows.

const IDENTIFY_OPTIONS = ["length", "moments", "seed", "at"];
const MOMENT_TITLES = { 12: "first two tokens", "**": "any two tokens", 123: "first three tokens", "123e1": "two tokens, slices of a third", "***": "any three tokens", "***e1": "any two, slices of a third", all: "whole strings" };

class IdentifyView {
  static name = "identify";
  static title = "Identify";

  constructor(panel, page) {
    this.page = page;
    const known = answers.identify?.asked ?? {};
    this.options = { length: 4, moments: "**", seed: 0, at: {},
      ...Object.fromEntries(Object.entries(known).filter(([name]) => IDENTIFY_OPTIONS.includes(name))) };
    this.form = el("div", { class: "controls-row card" });
    panel.append(el("p", { class: "lead quiet" }, "Do moments of strings determine the parameters? Yes if the Jacobian of the moments has as great a rank as there are parameters. Ranks are exact, at a random point of a prime field."), this.form);
    this.work = new Work(panel);
    this.verdict = el("div", { class: "verdict" });
    this.bar = el("div");
    this.grid = el("div", { class: "card scrolls" });
    this.directions = el("section");
    this.body = el("div", { hidden: true }, this.verdict, this.bar, el("h2", {}, "Ranks by moments and length"), this.grid, this.directions);
    panel.append(this.body);
  }

  opened() {
    this.options = { ...this.options, at: {} };
    this.shownSizes = null;
  }

  change(options) {
    this.options = { ...this.options, ...options };
    this.page.later("identify", VIEW_PAUSE, () => this.follow());
  }

  showForm(sizes) {
    const off = Boolean(exported);
    const key = sizes.map((size) => size.name).join(" ");
    if (this.shownSizes === key) return;
    this.shownSizes = key;
    const still = (slider) => {
      for (const input of slider.root.querySelectorAll("input")) input.disabled = off;
      return slider.root;
    };
    const moments = Object.entries(MOMENT_TITLES).map(([name, title]) => [name, `${name}: ${title}`]);
    moments.sort((a, b) => Object.keys(MOMENT_TITLES).indexOf(a[0]) - Object.keys(MOMENT_TITLES).indexOf(b[0]));
    this.momentsMenu = menu(moments, this.options.moments, (name) => this.change({ moments: name }), { id: "moments", disabled: off });
    replace(this.form, field("moments", this.momentsMenu),
      still(this.lengthSlider = new Slider("length", this.options.length, (value) => value <= 12 && this.change({ length: value }), { most: 12 })),
      sizes.map((size) => still(new Slider(size.name, size.value, (value) => value <= 64 && this.change({ at: { ...this.options.at, [size.name]: value } }), { most: 16 }))));
  }

  async follow() {
    this.cells = [];
    this.result = null;
    this.body.classList.add("stale");
    const done = await this.work.ask("identify", this.page.asked(this.options), { text: "computing ranks", part: (part) => this.take(part) });
    this.body.classList.remove("stale");
    if (!this.result && !this.work.busy) this.body.hidden = true;
    return done;
  }

  take(part) {
    if (part.sizes) this.showForm(part.sizes);
    else if (part.result) { this.result = part.result; this.body.hidden = false; this.body.classList.remove("stale"); this.show(); }
    else { this.cells.push(part.cell); this.showGrid(); }
  }

  show() {
    const { result } = this;
    const kind = { yes: "proved", no: "refuted", undefined: "undecided" }[result.verdict];
    this.verdict.className = `verdict ${kind}`;
    const text = result.verdict === "undefined" ? `strings of length ${result.length} are too short for these moments`
      : result.verdict === "yes" ? "full rank at a random point: a proof" : `wrong with probability at most ${result.error.toExponential(0)}`;
    replace(this.verdict, el("b", {}, result.meaning), el("span", {}, text));
    const share = result.rank === null ? 0 : result.rank / Math.max(result.parameters, 1);
    const facts = [];
    for (const gauge of result.gauges) facts.push(`${gauge.dimension} of the deficiency are a change of basis of \`${gauge.domain}\` that no string notices`);
    if (result.deficiency && result.deficiency_of_all !== null) {
      facts.push(result.deficiency_of_all === 0 ? "whole strings of this length determine all parameters"
        : result.deficiency_of_all === result.deficiency ? "whole strings of this length tell no more" : `from whole strings the deficiency is ${result.deficiency_of_all}`);
    }
    replace(this.bar, el("div", { class: "rank-bar", role: "img", "aria-label": `rank ${result.rank} of ${result.parameters}` },
      el("i", { style: { width: `${100 * share}%` } }),
      el("span", {}, result.rank === null ? `${result.parameters.toLocaleString("en")} parameters` : `rank ${result.rank.toLocaleString("en")} of ${plural(result.parameters, "parameter")}`)),
    el("p", { class: "quiet small" }, `${plural(result.moments, "moment")} ${result.observed} of strings of length ${result.length}`),
    facts.map((fact) => el("p", { class: "small" }, prose(fact))));
    this.showGrid();
    this.showDirections(0);
  }

  showGrid() {
    if (!this.result) return;
    const lengths = [...new Set(this.cells.map((cell) => cell.length))].sort((a, b) => a - b);
    const names = this.result.moments_names;
    const at = (name, length) => this.cells.find((cell) => cell.moments === name && cell.length === length);
    const cell = (name, length) => {
      const one = at(name, length);
      const chosen = name === this.options.moments && length === this.options.length ? " chosen" : "";
      if (!one) return el("td", { class: chosen });
      if (one.rank === undefined || one.rank === null) return el("td", { class: `undefined${chosen}`, title: one.why ?? one.verdict }, one.verdict === "undefined" ? "–" : "…");
      return el("td", { class: `${one.verdict}${chosen}`, title: `${one.moments}, length ${one.length}: rank ${one.rank} of ${one.parameters}` },
        el("button", { disabled: Boolean(exported), onclick: () => this.choose(name, length) }, el("b", {}, one.rank), el("i", { style: { width: `${100 * one.rank / Math.max(one.parameters, 1)}%` } })));
    };
    replace(this.grid, el("table", { class: "ranks" },
      el("thead", {}, el("tr", {}, el("th", {}, "moments"), lengths.map((length) => el("th", {}, `n = ${length}`)))),
      el("tbody", {}, names.map((name) => el("tr", {}, el("th", { title: MOMENT_TITLES[name] ?? "" }, el("code", {}, name)), lengths.map((length) => cell(name, length)))))),
    el("p", { class: "quiet small" }, `Full rank is ${this.result.parameters.toLocaleString("en")}, the number of parameters.`));
  }

  choose(name, length) {
    this.options = { ...this.options, moments: name, length };
    this.momentsMenu.value = name;
    this.lengthSlider.show(length);
    this.lengthSlider.number.value = length;
    this.follow();
  }

  showDirections(number) {
    const { directions, more } = this.result;
    if (!directions.length) return replace(this.directions);
    const tabs = directions.map((_, i) => el("button", { class: "choice", "aria-pressed": String(i === number), onclick: () => this.showDirections(i) }, `${i + 1}`));
    replace(this.directions, el("div", { class: "section-head" }, el("h2", {}, "Null directions"), el("div", { class: "choices", role: "group", "aria-label": "direction" }, tabs),
      el("span", { class: "quiet" }, "move the parameters along the arrows, and no moment changes", more ? ` (${more} more)` : "")),
    el("div", { class: "moves" }, directions[number].map((move) => this.move(move))));
  }

  /** A factor as a table; each entry that moves has an arrow, as long as it moves. */
  move(move) {
    const title = el("figcaption", {}, el("code", {}, move.factor), el("span", { class: "quiet" }, ` ${move.shape.join(" × ")}`));
    if (!move.rows.length) {
      return el("figure", { class: "card move" }, title, el("p", {}, move.entries.map(([at, change]) => el("span", { class: "badge" }, `[${at.join(", ")}] ${change > 0 ? "+" : ""}${change}`))));
    }
    const size = 26;
    const width = move.rows[0].length * size;
    const height = move.rows.length * size;
    const drawn = draw("svg", { viewBox: `0 0 ${width + 2} ${height + 2}`, width: width + 2, height: height + 2, role: "img", "aria-label": `changes of ${move.factor}` });
    move.rows.forEach((row, i) => row.forEach((change, j) => {
      const x = 1 + j * size;
      const y = 1 + i * size;
      const kind = change > 0 ? "up" : change < 0 ? "down" : "still";
      const cell = draw("g", { class: `arrow ${kind}`, onmousemove: (event) => tip.show(event, `${move.factor}[${placeOf(move.shape, i, j)}] ${change > 0 ? "+" : ""}${change}`), onmouseleave: () => tip.hide() },
        draw("rect", { x, y, width: size, height: size, "fill-opacity": (0.08 + 0.3 * Math.min(Math.abs(change), 1)).toFixed(3) }));
      if (change) {
        const long = Math.max(5, (size - 8) * Math.min(1, Math.sqrt(Math.abs(change))));
        const sign = change > 0 ? 1 : -1;
        const [from, to] = [y + size / 2 + sign * long / 2, y + size / 2 - sign * long / 2];
        const middle = x + size / 2;
        const head = Math.min(4, long / 2);
        cell.append(draw("path", { d: `M${middle} ${from}L${middle} ${to}M${middle - head} ${to + sign * head}L${middle} ${to}L${middle + head} ${to + sign * head}` }));
      } else {
        cell.append(draw("circle", { cx: x + size / 2, cy: y + size / 2, r: 1.2 }));
      }
      drawn.append(cell);
    }));
    return el("figure", { class: "card move", data: { factor: move.factor } }, title, el("div", { class: "scrolls" }, drawn));
  }
}

/** The index of an entry whose last axis is a column and whose other axes are rows. */
function placeOf(shape, row, column) {
  const index = [column];
  for (const size of shape.slice(0, -1).reverse()) {
    index.unshift(row % size);
    row = Math.floor(row / size);
  }
  return index.join(", ");
}

registry.push(IdentifyView);
