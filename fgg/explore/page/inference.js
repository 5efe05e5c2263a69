"use strict";
// Inference from one item: log Z, charts as they are filled, derivations, posteriors.

const TOP_CELLS = 14;

class InferenceView {
  static name = "inference";
  static title = "Inference";

  constructor(panel, page) {
    this.page = page;
    const known = answers.inference?.asked ?? {};
    this.options = { weights: page.trained ? "trained" : "own", seed: 0, draw: true, inputs: {}, lengths: {}, best: 3, samples: 3,
      ...Object.fromEntries(Object.entries(known).filter(([name]) => INFERENCE_OPTIONS.includes(name))) };
    this.form = el("form", { class: "item card", onsubmit: (event) => { event.preventDefault(); this.infer(); } });
    panel.append(this.form);
    this.work = new Work(panel);
    this.head = el("div", { class: "item-head" });
    this.slider = el("input", { type: "range", min: 0, max: 0, value: 0, id: "level-slider", "aria-label": "level", oninput: () => this.go(Number(this.slider.value)) });
    this.play = el("button", { type: "button", class: "icon", id: "level-play", title: "play", "aria-label": "play", onclick: () => this.turn() }, "▶");
    this.level = el("p", { class: "level quiet" });
    this.charts = el("div", { class: "charts" });
    this.inside = el("section", { hidden: true }, el("div", { class: "section-head" }, el("h2", {}, "Inside pass"), el("span", { class: "quiet" }, "level by level; a cell is log of its sum over states")),
      el("div", { class: "film" }, this.play, el("div", { class: "track" }, this.slider)), this.level, this.charts);
    this.found = el("section");
    this.beliefs = el("section");
    this.body = el("div", { hidden: true }, this.head, this.inside, this.found, this.beliefs);
    panel.append(this.body);
  }

  opened() {
    this.options = { ...this.options, weights: this.page.trained ? "trained" : "own", draw: true, inputs: {}, lengths: {} };
    this.fields = null;
  }

  asked() {
    return this.page.asked(this.options);
  }

  // controls

  showForm() {
    const { observed } = this.page;
    const off = Boolean(exported);
    const key = JSON.stringify([observed, this.page.trained]);
    if (this.shownForm === key && this.fields) return;
    this.shownForm = key;
    this.fields = {};
    const texts = [...observed.inputs.map((item) => [item.name, `${item.name}: ${item.domain}[${item.shape.join(", ")}]`, item.values]),
      ...observed.tables.map((name) => [name, `${name}: table`, []])];
    const rows = texts.map(([name, title, values]) => {
      const list = values.length ? el("datalist", { id: `values-${name}` }, values.map((value) => el("option", { value }))) : null;
      this.fields[name] = el("input", { type: "text", id: `input-${name}`, name, disabled: off, autocomplete: "off", spellcheck: "false",
        placeholder: values.length ? `${values.slice(0, 6).join(" ")} …` : "words or ids between spaces, or a JSON list",
        list: list && texts.length === 1 && values.length < 2 ? list.id : null, value: this.options.inputs[name] ?? "",
        oninput: () => this.typed() });
      return el("label", { class: "input-row" }, el("code", {}, title), this.fields[name]);
    });
    const number = (name, text, low, high, value, change) => field(text, el("input", { type: "number", id: `inference-${name}`, min: low, max: high, value, disabled: off,
      onchange: (event) => { const n = Number.parseInt(event.target.value, 10); if (n >= low && n <= high) { change(n); this.follow(); } else event.target.value = value; } }));
    const set = (name) => (value) => { this.options = { ...this.options, [name]: value }; };
    const lengths = observed.lengths.map((name) => number(`length-${name}`, name, 1, 200, this.options.lengths[name] ?? 6, (value) => {
      this.options = { ...this.options, draw: true, lengths: { ...this.options.lengths, [name]: value } };
    }));
    replace(this.form, rows,
      el("div", { class: "controls-row" },
        el("button", { class: "main", id: "infer", disabled: off }, "Infer"),
        el("button", { type: "button", id: "draw-item", disabled: off, title: "draw an item from the model", onclick: () => this.drawItem() }, texts.length ? "Draw one" : "Draw again"),
        lengths, field("weights", this.weightsMenu()),
        number("seed", "seed", 0, 2 ** 31 - 1, this.options.seed, set("seed")),
        number("best", "best", 1, 20, this.options.best, set("best")),
        number("samples", "samples", 1, 20, this.options.samples, set("samples"))),
      observed.factors.length ? el("p", { class: "quiet small" }, `The log-potentials ${observed.factors.join(", ")} are random, by the seed.`) : null);
  }

  weightsMenu() {
    const { start } = this.page;
    const choices = [["own", "the grammar's own, else random"]];
    if (start.trained) choices.push(["trained", "the opened model's"]);
    for (const name of start.models) choices.push([name, name]);
    if (!choices.some(([name]) => name === this.options.weights)) choices.push([this.options.weights, "a trained model's"]);
    return menu(choices, this.options.weights, (weights) => { this.options = { ...this.options, weights }; this.follow(); },
      { id: "weights", disabled: Boolean(exported) });
  }

  typed() {
    this.options = { ...this.options, draw: false };
  }

  infer() {
    if (exported) return;
    const inputs = Object.fromEntries(Object.entries(this.fields).map(([name, input]) => [name, input.value]));
    const draw = !Object.values(inputs).some((text) => text.trim());
    this.options = { ...this.options, inputs, draw };
    this.follow();
  }

  drawItem() {
    const seed = this.drawnBefore ? (this.options.seed + 1) % 2 ** 31 : this.options.seed;
    this.options = { ...this.options, draw: true, seed };
    const shown = this.form.querySelector("#inference-seed");
    if (shown) shown.value = seed;
    this.follow();
  }

  // answers

  async follow() {
    if (!this.page.observed || this.page.observed.refused) return;
    this.showForm();
    this.stop();
    this.levels = [];
    this.shown = null;
    this.found_lists = {};
    this.refusals = [];
    this.body.classList.add("stale");
    const done = await this.work.ask("inference", this.asked(), { text: "inferring", part: (part) => this.take(part) });
    this.body.classList.remove("stale");
    if (!this.shown && !this.work.busy) this.body.hidden = true;
    if (done && this.levels.length) this.go(this.levels.length - 1);
    return done;
  }

  take(part) {
    const [kind] = Object.keys(part);
    const value = part[kind];
    if (kind === "stage") return this.work.progress(0, 0, value);
    if (kind === "item") this.showItem(value);
    else if (kind === "log_z") { this.shown.log_z = value; this.showHead(); }
    else if (kind === "entropy") { this.shown.entropy = value; this.showHead(); }
    else if (kind === "charts") this.showCharts(value);
    else if (kind === "level") this.takeLevel(value);
    else if (kind === "derivations") { this.found_lists[value.what] = value.list; this.showDerivations(); }
    else if (kind === "beliefs") this.showBeliefs(value);
    else if (kind === "refused") { this.refusals.push(value); this.showDerivations(); }
  }

  showItem(item) {
    this.shown = { item };
    this.drawnBefore = item.drawn;
    this.body.hidden = false;
    this.body.classList.remove("stale");
    this.inside.hidden = true;
    replace(this.found);
    replace(this.beliefs);
    for (const [name, text] of Object.entries(item.inputs)) {
      if (this.fields[name] && (item.drawn || exported)) this.fields[name].value = text;
    }
    for (const [name, length] of Object.entries(item.lengths)) {
      const input = this.form.querySelector(`#inference-length-${CSS.escape(name)}`);
      if (input && document.activeElement !== input) input.value = length;
    }
    this.showHead();
  }

  showHead() {
    const { item, log_z, entropy } = this.shown;
    const facts = [["log Z", log_z === undefined ? "…" : typeof log_z === "string" ? log_z.replace("-inf", "−∞") : log_z.toFixed(4)]];
    if (typeof entropy === "number") facts.push(["entropy", `${entropy.toFixed(3)} nats`]);
    if (item.space) facts.push(["space", item.space]);
    replace(this.head,
      item.words.length ? el("p", { class: "tokens" }, item.words.map((word) => el("span", {}, word))) : null,
      el("div", { class: "headline" }, facts.map(([name, value]) => el("div", { data: { fact: name } }, el("span", { class: "quiet" }, name), el("b", {}, value)))),
      log_z === "-inf" ? el("p", { class: "quiet" }, "This item has no derivation.") : null,
      item.notes.map((note) => el("p", { class: "quiet small" }, prose(note.message))));
  }

  // the inside pass

  showCharts({ list, note }) {
    this.chart_list = list;
    this.inside.hidden = !list.length && !note;
    replace(this.charts, note ? el("p", { class: "quiet" }, note) : null);
    this.play.parentElement.hidden = !list.length;
    replace(this.level);
  }

  takeLevel(level) {
    this.levels.push(level);
    this.slider.max = this.levels.length - 1;
    this.go(this.levels.length - 1);
  }

  /** Show the charts as they are after a level. */
  go(to) {
    this.at = Math.max(0, Math.min(to, this.levels.length - 1));
    const level = this.levels[this.at];
    if (!level) return;
    this.slider.value = this.at;
    replace(this.level, el("b", {}, level.name ? `${level.name} ${level.at}` : this.at ? "at the end" : "at the beginning"), " ",
      level.rules.map((rule) => el("code", {}, rule)));
    const { words } = this.shown.item;
    const cells = this.chart_list.map(() => new Map());
    this.levels.slice(0, this.at + 1).forEach((one, i) => {
      for (const [chart, place, value] of one.cells) cells[chart].set(place.join(), { place, value: Number(value), fresh: i === this.at });
    });
    // All levels decide about the shades, so that they stay what they are.
    const all = this.chart_list.map(() => []);
    for (const one of this.levels) for (const [chart, , value] of one.cells) all[chart].push(Number(value));
    replace(this.charts, this.chart_list.map((chart, number) => this.chart(chart, [...cells[number].values()], shades(all[number]), words)));
  }

  chart(chart, cells, shade, words) {
    const title = el("figcaption", {}, el("code", {}, `${chart.family}${chart.axes.length ? `[${chart.axes.join(", ")}]` : ""}`),
      el("span", { class: "quiet" }, chart.states > 1 ? ` ${plural(chart.states, chart.kind === "rank" ? "rank" : "state")}` : "",
        chart.summed.length ? ` summed over ${chart.summed.join(", ")}` : ""));
    const shown = cells.map((cell) => {
      const at = cell.place.map((place, axis) => place + chart.low[axis]);
      const text = spanned(at, words);
      return { ...cell, shade: shade(cell.value), tip: () => `${chart.family}${at.length ? `[${at.join(", ")}]` : ""}${text ? `\n${text}` : ""}\nlog ${cell.value}` };
    });
    return el("figure", { class: `chart card ${chart.kind}`, data: { family: chart.family, cells: cells.length } }, title,
      chart.axes.length ? heatMap({ ...chart, cells: shown, words, label: chart.family })
        : el("p", { class: "big" }, cells.length ? `${cells[0].value}` : "–"));
  }

  turn() {
    if (this.timer) return this.stop();
    if (this.at === this.levels.length - 1) this.go(0);
    this.play.textContent = "❚❚";
    this.timer = setInterval(() => {
      this.go(this.at + 1);
      if (this.at >= this.levels.length - 1) this.stop();
    }, 700);
  }

  stop() {
    clearInterval(this.timer);
    this.timer = null;
    this.play.textContent = "▶";
  }

  // derivations

  showDerivations() {
    const lists = this.found_lists;
    const titles = { best: lists.best?.length > 1 ? "Best derivations" : "Best derivation", risk: "Minimum Bayes risk", samples: "Samples" };
    const said = this.refusals.map(({ what, diagnostics }) => [el("h2", {}, titles[what] ?? what[0].toUpperCase() + what.slice(1)),
      diagnostics.map((d) => el("p", { class: "quiet", data: { code: d.code } }, el("code", {}, d.code), " ", prose(d.message), d.help ? [": ", prose(d.help)] : null))]);
    replace(this.found, Object.entries(titles).map(([what, title]) => (lists[what]?.length ? [
      el("h2", {}, title), el("div", { class: "derivations", data: { what } }, lists[what].map((one, i) => this.derivation(one, what, i)))] : null)), said);
  }

  derivation(one, what, i) {
    const facts = [];
    if (what === "best") facts.push(el("b", {}, `${i + 1}.`));
    if (one.count > 1) facts.push(el("span", { class: "badge" }, `${one.count} times`));
    if (typeof one.log_weight === "number") facts.push(el("span", { class: "quiet" }, `log-weight ${one.log_weight.toFixed(4)}`));
    if (one.probability !== null) {
      facts.push(el("span", { class: "share" }, el("i", { style: { width: `${Math.max(100 * one.probability, 1)}%` } })), el("span", {}, percent(one.probability)));
    }
    return el("article", { class: "derivation card" }, el("header", {}, facts),
      one.picture ? picture(one.picture) : el("p", { class: "quiet" }, "this is too large to be drawn"),
      el("details", {}, el("summary", {}, el("code", {}, one.written)), el("pre", {}, one.steps.join("\n"))));
  }

  // posteriors

  showBeliefs(tables) {
    const some = tables.filter((table) => table.cells.length && (table.indices.length || table.cells[0].best.length));
    if (some.length) replace(this.beliefs, el("h2", {}, "Posterior"), el("div", { class: "charts wide" }, some.map((table) => this.family(table))));
  }

  family(table) {
    const title = el("figcaption", {}, el("code", {}, `${table.family}${table.indices.length ? `[${table.indices.join(", ")}]` : ""}`),
      el("span", { class: "quiet" }, table.indices.length === 2 ? " how probable each cell is" : " how probable each value is",
        table.left_out ? `; ${table.left_out.toLocaleString("en")} cells are left out` : ""));
    const body = table.values.length && table.values[0] ? this.matrix(table) : table.indices.length === 2 ? el("div", { class: "beside" }, this.map(table), this.cells(table)) : this.cells(table);
    return el("figure", { class: `chart card posterior${table.indices.length === 2 ? " spans" : ""}`, data: { family: table.family } }, title, body);
  }

  /** Values by positions. */
  matrix(table) {
    const shade = (p) => ({ background: `color-mix(in srgb, var(--accent) ${(85 * p).toFixed(0)}%, transparent)`, color: p > 0.55 ? "var(--accent-ink)" : "" });
    const rows = table.cells.map((cell) => {
      const most = Math.max(...cell.row);
      return el("tr", {}, el("th", {}, cell.words || (cell.at.length ? cell.at.join(", ") : table.family)),
        cell.row.map((p) => el("td", { class: p === most ? "most" : "", style: shade(p), title: String(p) }, p >= 0.005 ? p.toFixed(2).replace(/^0/, "") : "")));
    });
    return el("div", { class: "scrolls" }, el("table", { class: "values" },
      el("thead", {}, el("tr", {}, el("th"), table.values.map((value) => el("th", {}, value)))), el("tbody", {}, rows)));
  }

  map(table) {
    const all = table.cells.map((cell) => cell.at);
    const low = [0, 1].map((axis) => Math.min(...all.map((at) => at[axis])));
    const extents = [0, 1].map((axis) => Math.max(...all.map((at) => at[axis])) - low[axis] + 1);
    const cells = table.cells.map((cell) => ({
      place: cell.at.map((index, axis) => index - low[axis]), value: cell.total, shade: Math.min(cell.total, 1), fresh: false,
      tip: () => `${table.family}[${cell.at.join(", ")}] ${percent(cell.total)}\n${cell.words}\n${cell.best.map(([name, p]) => `${name} ${percent(p)}`).join("  ")}`,
    }));
    return heatMap({ axes: table.indices, low, extents, cells, words: this.shown.item.words, label: table.family });
  }

  /** The most probable cells, with their most probable values. */
  cells(table) {
    const chain = table.indices.length <= 1;
    const listed = chain ? table.cells.slice(0, 60) : [...table.cells].sort((a, b) => b.total - a.total).slice(0, TOP_CELLS);
    const rows = listed.map((cell) => el("tr", {},
      el("td", {}, el("code", {}, cell.at.length ? cell.at.join(", ") : table.family)), cell.words ? el("td", { class: "span-words", title: cell.words }, cell.words) : el("td"),
      el("td", { class: "figure" }, percent(cell.total)),
      el("td", { class: "best-values" }, cell.best.slice(0, 3).map(([name, p]) => el("span", {}, name, " ", el("i", {}, percent(p)))))));
    return el("div", { class: "scrolls" }, el("table", { class: "table" }, el("tbody", {}, rows)));
  }
}

const INFERENCE_OPTIONS = ["weights", "seed", "draw", "inputs", "lengths", "best", "samples"];

registry.push(InferenceView);
