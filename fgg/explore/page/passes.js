"use strict";
// The passes as a film: a step for each pass, the rules after it, and what became of them.

class PassesView {
  static name = "passes";
  static title = "Passes";

  constructor(panel, page) {
    this.page = page;
    this.frames = [];
    this.pictures = [];
    this.at = 0;
    this.opened_rule = null;
    this.work = new Work(panel);
    this.slider = el("input", { type: "range", min: 0, max: 0, value: 0, id: "pass-slider", "aria-label": "pass",
      oninput: () => this.go(Number(this.slider.value)) });
    this.play = el("button", { class: "icon", id: "pass-play", title: "play", "aria-label": "play", onclick: () => this.turn() }, "▶");
    this.steps = el("div", { class: "steps" });
    this.head = el("div", { class: "pass-head" });
    this.prepared = el("div", { class: "prepared" });
    this.rules = el("div", { class: "rules" });
    this.film = el("div", { hidden: true },
      el("div", { class: "film" }, this.play, el("div", { class: "track" }, this.slider, this.steps)),
      this.head, this.prepared, this.rules, legend());
    panel.append(this.film);
    panel.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (step && event.target !== this.slider) this.go(this.at + step);
    });
  }

  async follow() {
    const keep = this.frames[this.at]?.name;
    this.frames = [];
    this.pictures = [];
    this.stop();
    this.rules.classList.add("stale");
    const done = await this.work.ask("passes", this.page.asked(), {
      text: "running the passes",
      part: (part) => this.take(part),
    });
    this.rules.classList.remove("stale");
    this.film.hidden = !this.frames.length;
    if (!done) return;
    this.done = done;
    this.showSteps();
    const again = this.frames.findIndex((frame) => frame.name === keep);
    this.go(again >= 0 ? again : 0);
  }

  opened() {
    this.at = 0;
    this.frames = [];
    this.opened_rule = null;
  }

  take(part) {
    if ("picture" in part) this.pictures.push(part.picture);
    else this.frames.push(part.frame);
  }

  showSteps() {
    this.slider.max = this.frames.length - 1;
    this.steps.replaceChildren(...this.frames.map((frame, i) => el("button", {
      class: `step${frame.changed || frame.first ? "" : " idle"}`, data: { pass: frame.name },
      title: frame.told, onclick: () => this.go(i),
    }, frame.name.replaceAll("_", " "))));
  }

  go(to) {
    this.at = Math.max(0, Math.min(to, this.frames.length - 1));
    const frame = this.frames[this.at];
    if (!frame) return;
    this.slider.value = this.at;
    [...this.steps.children].forEach((step, i) => {
      step.classList.toggle("now", i === this.at);
      if (i === this.at) step.scrollIntoView({ block: "nearest", inline: "nearest" });
    });
    this.showHead(frame);
    this.showPrepared(frame);
    this.rules.replaceChildren(...frame.rules.map((rule) => this.card(rule)));
    this.rules.dataset.pass = frame.name;
  }

  showHead(frame) {
    const count = (change) => frame.rules.filter((rule) => rule.change === change).length;
    const changes = [
      [count("new"), "new"], [count("changed"), "changed"], [frame.gone.length, "gone"],
    ].filter(([number]) => number);
    replace(this.head,
      el("h2", {}, frame.name.replaceAll("_", " ")),
      el("p", { class: "quiet" }, prose(frame.told)),
      el("p", { class: "facts" },
        plural(frame.rules.length, "rule"),
        changes.map(([number, change]) => el("span", { class: `badge ${change}` }, `${number} ${change}`)),
        !changes.length && !frame.first ? el("span", { class: "badge" }, "nothing to do") : null,
        frame.order ? el("span", { class: "order", title: "the cost if it were compiled as it is now" }, frame.order) : null),
      frame.gone.length ? el("p", { class: "gone" }, frame.gone.map((name) => el("s", {}, name))) : null,
      this.at === this.frames.length - 1 && this.done?.reason ? el("p", { class: "quiet" }, prose(this.done.reason)) : null,
    );
  }

  showPrepared(frame) {
    const before = new Set(this.frames[this.at - 1]?.prepared ?? []);
    this.prepared.replaceChildren(...(frame.prepared.length ? [el("span", { class: "quiet" }, "prepared beforehand")] : []),
      ...frame.prepared.map((line) => {
        const [letter, product] = line.split(" = ");
        return el("span", { class: `matrix${before.has(line) ? "" : " new"}`, data: { letter } },
          el("b", {}, letter), " = ", product);
      }));
  }

  card(rule) {
    const open = this.opened_rule === rule.name;
    const badge = rule.change === "same" ? null : el("span", { class: `badge ${rule.change}` }, rule.change);
    const drawn = rule.picture === null ? el("pre", {}, rule.text) : picture(this.pictures[rule.picture]);
    const card = el("article", { class: `rule ${rule.change}${open ? " open" : ""}`, data: { rule: rule.name }, tabindex: 0,
      onclick: (event) => !getSelection().toString() && !event.target.closest(".more") && this.open(rule.name),
      onkeydown: (event) => event.key === "Enter" && this.open(rule.name) },
    el("header", {}, el("h3", {}, rule.name), badge,
      rule.cost ? el("span", { class: "order" }, rule.cost.order) : null),
    drawn,
    open ? this.details(rule) : null);
    return card;
  }

  open(name) {
    this.opened_rule = this.opened_rule === name ? null : name;
    this.go(this.at);
  }

  details(rule) {
    const rows = [["equation", el("code", { class: "equation" }, rule.equation)], ["rule", el("code", {}, rule.text)]];
    if (rule.source) {
      const nodes = Object.entries(rule.source.nodes).map(([name, now]) => el("li", {},
        el("code", {}, name), now.length === 1 && now[0] === name ? " as it is" : now.length ? [" is ", el("code", {}, now.join(", "))] : " is gone"));
      const place = rule.source.place;
      rows.push(["comes from", [el("span", {}, "your rule ", el("code", {}, rule.source.rule), " "),
        place ? el("button", { class: "small", onclick: () => this.show(place) }, "show it") : null,
        el("ul", {}, nodes)]]);
    } else if (this.frames[this.at].name !== "model") {
      rows.push(["comes from", "the compiler: it stands for no single rule of yours"]);
    }
    if (rule.prepared.length) rows.push(["reads", rule.prepared.map((line) => el("code", {}, line))]);
    if (rule.cost) {
      const at = Object.entries(rule.cost.lengths).map(([name, value]) => `${name} = ${value}`).join(", ");
      rows.push(["cost", `${rule.cost.order}: ${short(rule.cost.multiply_adds)} multiply-adds` +
        ` (${(100 * rule.cost.share).toFixed(1)}%) at ${at ? `${at}, ` : ""}batch ${rule.cost.batch}`]);
    }
    return el("dl", { class: "more" }, rows.map(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]));
  }

  /** Show the rule in the editor that a rule comes from. */
  show([start, end]) {
    this.page.editor.markLine(start);
    this.page.editor.goTo(start, end);
  }

  turn() {
    if (this.timer) return this.stop();
    if (this.at === this.frames.length - 1) this.go(0);
    this.play.textContent = "❚❚";
    this.timer = setInterval(() => {
      this.go(this.at + 1);
      if (this.at === this.frames.length - 1) this.stop();
    }, 1400);
  }

  stop() {
    clearInterval(this.timer);
    this.timer = null;
    this.play.textContent = "▶";
  }
}

function legend() {
  const kinds = [["state", "state node"], ["rank", "rank node"], ["observed", "observed"], ["outer", "external"], ["factor", "factor"], ["nonterminal", "nonterminal"]];
  return el("p", { class: "legend" }, kinds.map(([kind, text]) => el("span", {}, el("i", { class: kind }), text)));
}

registry.push(PassesView);
