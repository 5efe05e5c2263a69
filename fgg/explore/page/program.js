"use strict";
// Emitted programs beside the rules: pointing at a line marks its rules, and the other way round.

const LANGUAGE_TITLES = { python: "Python", cpp: "C++", triton: "Triton", numpy: "NumPy" };

class ProgramView {
  static name = "program";
  static title = "Program";

  constructor(panel, page) {
    this.page = page;
    this.language = "python";
    this.work = new Work(panel);
    this.tabs = el("div", { class: "choices", role: "group", "aria-label": "language" });
    this.note = el("p", { class: "quiet small" });
    this.rules = el("div", { class: "equations" });
    this.code = el("div", { class: "listing card", tabindex: 0, "aria-label": "program" });
    this.copy = el("button", { class: "small", onclick: () => this.take_along() }, "Copy");
    this.body = el("div", { hidden: true },
      el("div", { class: "section-head" }, this.tabs, this.copy, this.note), el("div", { class: "program" }, this.rules, this.code));
    panel.append(this.body);
    this.code.addEventListener("mouseover", (event) => this.point(this.rulesAt(event), false));
    this.code.addEventListener("mouseleave", () => this.point(this.kept ?? [], false));
    this.code.addEventListener("click", (event) => this.keep(this.rulesAt(event)));
  }

  async follow() {
    this.programs = {};
    this.list = [];
    this.kept = null;
    this.code.classList.add("stale");
    const done = await this.work.ask("program", this.page.asked(), { text: "writing programs", part: (part) => this.part(part) });
    this.code.classList.remove("stale");
    this.body.hidden = !this.list.length;
    if (done) replace(this.note, prose(done.reason || `${done.space} space`));
  }

  opened() {
    this.kept = null;
  }

  part(part) {
    if (part.rules) {
      this.list = part.rules;
      this.body.hidden = false;
      this.showRules();
    } else if (part.program) {
      this.programs[part.program.language] = part.program;
    } else {
      this.programs[part.refused.language] = part.refused;
    }
    const shown = part.program?.language ?? part.refused?.language;
    if (shown) this.showTabs();
    if (shown === this.language) this.showCode();
  }

  showTabs() {
    replace(this.tabs, Object.keys(LANGUAGE_TITLES).filter((name) => this.programs[name]).map((name) => el("button", {
      class: "choice", id: `language-${name}`, "aria-pressed": String(name === this.language),
      onclick: () => { this.language = name; this.showTabs(); this.showCode(); },
    }, LANGUAGE_TITLES[name])));
  }

  showRules() {
    replace(this.rules, this.list.map((rule, number) => el("article", {
      class: "equation-card", data: { number, rule: rule.name }, tabindex: 0,
      onmouseenter: () => this.point([number], false), onmouseleave: () => this.point(this.kept ?? [], false),
      onclick: () => this.keep([number], true), onkeydown: (event) => event.key === "Enter" && this.keep([number], true),
    }, el("header", {}, el("code", {}, rule.name), rule.source && rule.source !== rule.name ? el("span", { class: "quiet" }, ` from ${rule.source}`) : rule.source ? null : el("span", { class: "quiet" }, " by the compiler")),
    el("code", { class: "math" }, rule.equation))));
  }

  showCode() {
    const program = this.programs[this.language];
    if (!program) return;
    this.copy.hidden = !program.text;
    if (program.diagnostics) return replace(this.code, problemCard({ kind: "refused", diagnostics: program.diagnostics }));
    const tokens = programTokens(program.text, this.language === "cpp" ? "cpp" : "python");
    const lines = program.text.replace(/\n$/, "").split("\n");
    let start = 0;
    let next = 0;
    const rows = lines.map((line, number) => {
      const end = start + line.length;
      while (next < tokens.length && tokens[next][1] <= start) next++;
      const mine = [];
      for (let i = next; i < tokens.length && tokens[i][0] < end; i++) {
        mine.push([Math.max(tokens[i][0] - start, 0), Math.min(tokens[i][1], end) - start, tokens[i][2]]);
      }
      start = end + 1;
      const rules = program.lines[number] ?? [];
      return el("div", { class: `row${rules.length ? " linked" : ""}`, data: { rules: rules.join(" ") } },
        el("span", { class: "line-number" }, `${number + 1}`), el("span", { class: "line" }, line ? coloured(line, mine) : " "));
    });
    replace(this.code, rows);
    this.code.scrollTop = 0;
    this.point(this.kept ?? [], Boolean(this.kept));
  }

  rulesAt(event) {
    const text = event.target.closest?.(".row")?.dataset.rules;
    return text ? text.split(" ").map(Number) : [];
  }

  /** Mark rules, their lines and the user's rules that they come from. */
  point(rules, scroll) {
    const key = rules.join(" ");
    if (this.pointed === key && !scroll && rules.length) return;
    this.pointed = key;
    for (const card of this.rules.children) card.classList.toggle("pointed", rules.includes(Number(card.dataset.number)));
    let first = null;
    for (const row of this.code.children) {
      const on = Boolean(row.dataset.rules) && rules.some((rule) => row.dataset.rules.split(" ").includes(String(rule)));
      row.classList.toggle("pointed", on);
      if (on && !first && isCode(row)) first = row;
    }
    const place = rules.map((rule) => this.list[rule]?.place).find((one) => one);
    if (place) this.page.editor.markLine(place[0]);
    else this.page.editor.mark();
    if (scroll && first) this.code.scrollTo({ top: first.offsetTop - this.code.offsetTop - 60 });
    if (!scroll && rules.length) this.rules.children[rules[0]]?.scrollIntoView({ block: "nearest" });
  }

  /** Keep rules marked when the pointer goes; the same ones once more are let go. */
  keep(rules, scroll = false) {
    this.kept = this.kept?.join() === rules.join() || !rules.length ? null : rules;
    this.point(this.kept ?? [], scroll && Boolean(this.kept));
    for (const card of this.rules.children) card.classList.toggle("kept", Boolean(this.kept?.includes(Number(card.dataset.number))));
  }

  async take_along() {
    try {
      await navigator.clipboard.writeText(this.programs[this.language].text);
      this.copy.textContent = "Copied";
    } catch {
      this.copy.textContent = "cannot copy here";
    }
    setTimeout(() => (this.copy.textContent = "Copy"), 1500);
  }
}

/** Whether a row is more than a comment or a part of a docstring. */
function isCode(row) {
  return [...row.lastChild.childNodes].some((part) => part.textContent.trim() && !/comment|string/.test(part.className ?? ""));
}

registry.push(ProgramView);
