"use strict";
// Proofs: comparisons tick one by one; a planted fault is found, with a counterexample.

const PROOF_OPTIONS = ["fault", "fault_space", "fault_pass", "place", "trials", "length", "seed", "floats"];
const FAULT_TITLES = [["", "none"], ["drop_rule", "a rule is lost"], ["repeat_rule", "a rule is there twice"], ["drop_factor", "a factor is lost"],
  ["swap_ends", "two ends are swapped"], ["shift_index", "an index is off by one"]];
const MARKS = { true: "✓", false: "✗", null: "?" };

class ProofView {
  static name = "proof";
  static title = "Proof";

  constructor(panel, page) {
    this.page = page;
    const known = answers.proof?.asked ?? {};
    this.options = { fault: "", fault_space: "state", fault_pass: "fold", place: 0, trials: 3, length: 4, seed: 0, floats: false,
      ...Object.fromEntries(Object.entries(known).filter(([name]) => PROOF_OPTIONS.includes(name))) };
    this.stages = [];
    this.form = el("div", { class: "controls-row card" });
    panel.append(el("p", { class: "lead quiet" }, "Z of the grammar after each pass, and of the plan, is compared with that of the source: exactly, in fields GF(p), for random weights. Polynomials that differ would agree there with a tiny chance only."), this.form);
    this.work = new Work(panel);
    this.verdict = el("div", { class: "verdict", role: "status" });
    this.planted = el("div");
    this.table = el("div", { class: "stages" });
    this.example = el("div");
    this.more = el("div");
    this.body = el("div", { hidden: true }, this.verdict, this.planted, this.example, this.table, this.more);
    panel.append(this.body);
    this.showForm();
  }

  opened() {
    this.options = { ...this.options, fault: "", place: 0 };
    this.showForm();
  }

  showForm() {
    const off = Boolean(exported);
    const set = (name, then) => (value) => { this.options = { ...this.options, [name]: value }; then?.(); this.showForm(); this.follow(); };
    const { fault, fault_space, fault_pass, trials, length, floats } = this.options;
    const number = (name, text, low, high, value) => field(text, el("input", { type: "number", id: `proof-${name}`, min: low, max: high, value, disabled: off,
      onchange: (event) => { const n = Number.parseInt(event.target.value, 10); if (n >= low && n <= high) set(name)(n); else event.target.value = value; } }));
    const spaces = this.page.checked?.ranked === false ? ["dense"] : ["dense", "state", "rank"];
    const passes = PIPELINE_NAMES[fault_space] ?? [];
    replace(this.form,
      el("button", { class: "main", id: "prove", disabled: off, onclick: () => this.follow() }, "Prove"),
      number("trials", "points", 1, 50, trials), number("length", "lengths up to", 1, 8, length),
      el("label", { class: "field" }, el("input", { type: "checkbox", id: "proof-floats", checked: floats, disabled: off || Boolean(fault), onchange: (event) => set("floats")(event.target.checked) }), el("span", {}, "programs, in float64")),
      field("plant a fault", menu(FAULT_TITLES, fault, set("fault", () => { this.options.place = 0; this.options.fault_space = this.page.checked?.ranked ? fault_space : "dense"; }), { id: "fault", disabled: off })),
      fault ? [field("in", menu(spaces.map((name) => [name, `${name} space`]), fault_space, set("fault_space", () => { this.options.fault_pass = "fold"; }), { id: "fault-space", disabled: off })),
        field("after", menu(passes.map((name) => [name, name.replaceAll("_", " ")]), fault_pass, set("fault_pass", () => { this.options.place = 0; }), { id: "fault-pass", disabled: off })),
        el("button", { id: "another", disabled: off, onclick: () => set("place")(this.options.place + 1) }, "Elsewhere")] : null);
  }

  async follow() {
    this.rows = new Map();
    this.stages = [];
    this.shown = null;
    replace(this.planted);
    replace(this.example);
    replace(this.more);
    replace(this.verdict, el("span", { class: "badge" }, "running"));
    this.verdict.className = "verdict";
    this.body.hidden = false;
    if (this.options.fault && !this.page.checked?.ranked && this.options.fault_space !== "dense") this.options.fault_space = "dense";
    this.showForm();
    const done = await this.work.ask("proof", this.page.asked(this.options), { text: "proving", part: (part) => this.take(part) });
    if (done) this.finish(done);
    else if (!this.work.busy) {
      replace(this.verdict);
      if (!this.rows.size) this.body.hidden = true;
    }
  }

  take(part) {
    if (part.stages) { this.stages = part.stages; this.showTable(); }
    else if (part.progress) this.work.progress(part.progress[0], part.progress[1], "proving");
    else if (part.planted) this.showPlanted(part.planted);
    else if (part.row) {
      const { row } = part;
      this.rows.set(`${row.space}|${row.what}|${row.quantity}`, row);
      this.showTable();
    }
  }

  showPlanted(planted) {
    replace(this.planted, el("div", { class: "card planted" }, el("h3", {}, `Planted after ${planted.after.replaceAll("_", " ")}: ${planted.title}`),
      planted.before.map((text) => el("pre", { class: "before" }, text)),
      planted.instead.length ? planted.instead.map((text) => el("pre", { class: "after" }, text)) : el("pre", { class: "after" }, "(nothing)"),
      el("p", { class: "quiet small" }, `place ${planted.place + 1} of ${planted.places}`)));
  }

  showTable() {
    const idle = this.shown?.idle ?? {};
    const columns = this.stages.map(({ space, what }) => {
      const mine = [...this.rows.values()].filter((row) => row.space === space);
      const extra = mine.filter((row) => !what.includes(row.what)).map((row) => row.what === "program" ? `program: ${row.quantity}` : row.what);
      const reported = (name) => mine.find((row) => row.what === name || (name.startsWith("program: ") && row.what === "program" && name === `program: ${row.quantity}`));
      const names = [...what, ...new Set(extra)];
      return el("article", { class: `card stage ${space}` }, el("h3", {}, `${space} space`), el("ol", {}, names.map((name) => this.step(name, reported(name), idle[space] ?? []))));
    });
    replace(this.table, columns);
  }

  step(name, row, idle) {
    const plain = name.replace(/^after /, "");
    const nothing = idle.includes(plain) || (name === "plan" && idle.includes("plan and program"));
    const state = row ? String(row.holds) : nothing ? "idle" : this.shown ? "absent" : "waiting";
    const mark = row ? MARKS[String(row.holds)] : nothing ? "·" : "";
    const said = row ? (row.holds ? (row.chance !== undefined ? `degree ${row.degree}` : "") : row.note ?? "differs") : nothing ? "nothing to do" : state === "absent" ? "nothing new" : "";
    const tips = row ? [`${row.quantity} in ${row.numbers}`, `${row.items} items at ${row.trials} points`,
      row.chance === undefined ? (row.error === undefined ? "" : `equal to ${Number(row.error).toExponential(0)}`) : row.chance ? `wrong with probability at most ${row.chance.toExponential(0)}` : "", row.note ?? ""].filter(Boolean).join("\n") : "";
    return el("li", { class: `check ${state}`, data: { step: name }, title: tips || null }, el("i", {}, mark), el("span", {}, plain.replaceAll("_", " ")), said ? el("span", { class: "quiet" }, said) : null);
  }

  finish(done) {
    const idle = {};
    for (const line of done.unchanged ?? []) {
      const [space, names] = line.split(": ");
      idle[space] = names.split(", ");
    }
    this.shown = { idle };
    this.showTable();
    const words = { proved: "proved", refuted: "refuted", undecided: "undecided", noticed: "noticed" };
    const chances = [...this.rows.values()].map((row) => row.chance).filter((chance) => chance !== undefined);
    const about = {
      proved: chances.length ? `all comparisons hold; the chance that one of them is wrong is at most ${Math.max(...chances).toExponential(0)}` : "all comparisons hold",
      refuted: "a comparison fails", undecided: (done.reasons ?? []).join("; "), noticed: "a later pass of the compiler refuses the faulty grammar",
    };
    this.verdict.className = `verdict ${done.verdict}`;
    replace(this.verdict, el("b", {}, words[done.verdict]), el("span", {}, prose(about[done.verdict])));
    if (done.verdict === "noticed") replace(this.example, el("div", { class: "card" }, el("h3", {}, "What it says"), el("p", {}, prose(done.message))));
    if (done.example) {
      const [title, ...lines] = done.example;
      replace(this.example, el("div", { class: "card counterexample" }, el("h3", {}, title[0].toUpperCase() + title.slice(1)), el("pre", {}, lines.map((line) => line.replace(/^ {2}/, "")).join("\n"))));
    }
    const sizes = Object.entries(done.sizes ?? {}).map(([name, value]) => `${name} = ${value}`).join(", ");
    const left = (done.left_out ?? []).filter((one) => one.what !== "programs");
    if (done.items !== undefined) {
      replace(this.more, el("p", { class: "quiet small" }, `${plural(done.items, "item")} of lengths up to ${done.length}, ${done.with_derivations.toLocaleString("en")} with derivations`, sizes ? `; at small sizes ${sizes}` : "", "."),
        left.map((one) => el("p", { class: "quiet small" }, `Left out: ${one.what}: `, prose(one.reason))));
    }
  }
}

const PIPELINE_NAMES = {
  dense: ["unequal", "close", "split", "pin", "narrow", "fold"],
  state: ["unequal", "close", "cpd", "split", "pin", "narrow", "heads", "fold"],
  rank: ["unequal", "close", "cpd", "split", "pin", "narrow", "rank_space", "fold"],
};

registry.push(ProofView);
