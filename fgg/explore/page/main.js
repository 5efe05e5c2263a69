"use strict";
// The page: the model (text, sizes, query, space), its checks, and the tabs.

const CHECK_PAUSE = 200;
const VIEW_PAUSE = 350;

class Page {
  constructor(start) {
    this.start = start;
    this.text = start.text;
    this.name = start.name;
    this.query = start.query ?? null;
    this.space = start.space ?? "auto";
    this.sizes = { ...(start.sizes ?? {}) };
    this.trained = Boolean(start.trained);
    this.checked = null;
    this.timers = {};
    this.views = [];
    this.editor = new Editor(document.getElementById("editor"), lexerOf(start.lexer), (text) => this.typed(text));
    this.sizesRoot = document.getElementById("sizes");
    this.messages = document.getElementById("messages");
    this.buildBar();
    this.buildTabs();
    this.editor.load(this.text);
    this.check();
  }

  /** What a view's request says of the model, with options of its own. */
  asked(options = {}) {
    const { name, text, sizes, query, space } = this;
    return { name, text, sizes, query, space, ...options };
  }

  // the bar

  buildBar() {
    const library = [["", this.start.name], ...this.start.library.map((g) => [g.name, g.name])];
    this.libraryMenu = menu(library, "", (name) => this.open(name), { id: "library", disabled: Boolean(exported) });
    for (const option of this.libraryMenu.options) {
      option.title = this.start.library.find((g) => g.name === option.value)?.title ?? "";
    }
    this.queryField = field("query", menu([], "", (name) => this.choose("query", name), { id: "query", disabled: Boolean(exported) }));
    const spaces = [["auto", "auto"], ["rank", "rank"], ["state", "state"], ["dense", "dense"]];
    this.spaceField = field("space", menu(spaces, this.space, (name) => this.choose("space", name), { id: "space", disabled: Boolean(exported) }));
    document.getElementById("controls").append(field("model", this.libraryMenu), this.queryField, this.spaceField);
    const actions = document.getElementById("actions");
    actions.append(el("button", { class: "icon", id: "theme", title: "light or dark", "aria-label": "light or dark", onclick: () => theme.turn() }, "◐"));
    if (!exported) actions.append(new Share(this).button);
    this.queryField.hidden = true;
    this.spaceField.hidden = true;
  }

  /** Open a grammar of the library, or the text that the page began with. */
  async open(name) {
    let { text } = this.start;
    if (name) {
      const answer = await fetch(`library?${encodeURIComponent(name)}`);
      if (!answer.ok) return;
      text = (await answer.json()).text;
    }
    this.trained = Boolean(this.start.trained) && !name;
    this.sizes = name ? {} : { ...(this.start.sizes ?? {}) };
    this.query = name ? null : this.start.query ?? null;
    this.name = name ? `${name}.fgg` : this.start.name;
    this.text = text;
    this.editor.load(text);
    for (const view of this.views) view.opened?.();
    await this.check();
  }

  choose(what, value) {
    this[what] = value;
    this.showMenus();
    this.refresh();
  }

  // the text

  typed(text) {
    this.text = text;
    this.later("check", CHECK_PAUSE, () => this.check());
  }

  later(name, pause, work) {
    clearTimeout(this.timers[name]);
    this.timers[name] = setTimeout(work, pause);
  }

  /** Check the text; if it has no errors, views follow. */
  async check() {
    this.checking?.abort();
    const mine = (this.checking = new AbortController());
    const { text } = this;
    const outcome = await ask("check", this.asked(), null, mine.signal);
    if (mine !== this.checking || text !== this.text) return;
    if (outcome.problem) {
      if (outcome.problem.kind !== "cancelled") this.messages.replaceChildren(problemCard(outcome.problem));
      return;
    }
    this.checked = outcome.done;
    this.editor.report(outcome.done.diagnostics);
    this.showMessages();
    document.body.dataset.checked = outcome.done.ok ? "ok" : "wrong";
    if (!outcome.done.ok) return;
    if (!this.checked.queries.some((query) => query.name === this.query)) this.query = this.checked.query;
    this.showMenus();
    this.showSizes();
    this.refresh();
  }

  showMenus() {
    const names = this.checked.queries.map((query) => query.name).filter((name) => name !== null);
    this.queryField.hidden = names.length < 2;
    this.queryField.lastChild.replaceChildren(...names.map((name) => el("option", { value: name }, name)));
    this.queryField.lastChild.value = this.query ?? "";
    this.spaceField.hidden = !this.checked.ranked;
    this.spaceField.lastChild.value = this.space;
  }

  /** What is observed under the present query. */
  get observed() {
    return this.checked?.queries.find((query) => query.name === this.query) ?? null;
  }

  showMessages() {
    const { diagnostics, ok, summary } = this.checked;
    const rows = diagnostics.map((d) => el("div", {
      class: `message ${d.severity}`, data: { code: d.code },
      onclick: () => d.placed && this.editor.goTo(d.start, Math.max(d.end, d.start)),
    },
    el("span", { class: "code" }, d.code),
    el("span", { class: "where" }, d.placed ? `line ${d.line}` : ""),
    el("span", {}, prose(d.message)),
    d.fix && !exported ? el("button", { class: "small", onclick: (event) => {
      event.stopPropagation();
      this.editor.replace(d.start, d.end, d.fix);
    } }, `use ${d.fix}`) : el("span"),
    d.help ? el("span", { class: "help" }, prose(d.help)) : null));
    const text = ok ? [el("b", {}, "✓ "), summary.join(" · ")] : null;
    this.messages.replaceChildren(...rows, ...(text ? [el("div", { class: "summary" }, text)] : []));
  }

  // sizes

  showSizes() {
    const names = this.checked.sizes.map((size) => size.name).join(" ");
    if (this.shownSizes === names) {
      for (const size of this.checked.sizes) this.sliders[size.name].show(size.value);
      return;
    }
    this.shownSizes = names;
    this.sliders = {};
    this.sizesRoot.replaceChildren(...this.checked.sizes.map((size) => {
      this.sliders[size.name] = new Slider(size.name, size.value, (value) => this.resize(size.name, value));
      return this.sliders[size.name].root;
    }));
  }

  resize(name, value) {
    this.sizes = { ...this.sizes, [name]: value };
    this.sliders[name].root.classList.add("changed");
    this.later("check", CHECK_PAUSE, () => this.check());
  }

  // tabs

  buildTabs() {
    const tabs = document.getElementById("tabs");
    const panels = document.getElementById("panels");
    const work = document.getElementById("work");
    const model = el("button", { class: "only-narrow", role: "tab", onclick: () => {
      work.classList.add("shows-model");
      this.select(null);
    } }, "Model");
    tabs.append(model);
    for (const kind of registry) {
      const panel = el("div", { class: "panel", id: `panel-${kind.name}`, role: "tabpanel", hidden: true });
      const view = new kind(panel, this);
      view.panel = panel;
      view.tab = el("button", { role: "tab", id: `tab-${kind.name}`, onclick: () => {
        work.classList.remove("shows-model");
        this.select(view);
      } }, kind.title);
      tabs.append(view.tab);
      panels.append(panel);
      this.views.push(view);
    }
    this.modelTab = model;
    const first = this.views.find((view) => view.constructor.name === this.start.tab) ?? this.views[0];
    if (first) this.select(first);
  }

  select(view) {
    if (view) {
      for (const other of this.views) {
        other.panel.hidden = other !== view;
        other.tab.setAttribute("aria-selected", other === view);
      }
      this.current = view;
      view.tab.scrollIntoView({ block: "nearest", inline: "nearest" });
      this.modelTab.setAttribute("aria-selected", false);
      this.follow(view);
    } else {
      for (const other of this.views) other.tab.setAttribute("aria-selected", false);
      this.modelTab.setAttribute("aria-selected", true);
    }
  }

  /** The model has changed: the view that is seen follows, others once they are seen. */
  refresh() {
    this.version = (this.version ?? 0) + 1;
    this.later("view", exported ? 0 : VIEW_PAUSE, () => this.current && this.follow(this.current));
  }

  /** Let a view show the present model, unless it does already. */
  async follow(view) {
    if (!this.checked?.ok) return;
    if (view.seen !== this.version) {
      view.seen = this.version;
      view.following = view.follow();
    }
    await view.following;
  }
}

/** A size: a slider on a logarithmic scale, and a field for its exact value. */
class Slider {
  constructor(name, value, change, { most = 0, label = name } = {}) {
    this.most = most || Math.max(64, 8 * value);
    this.range = el("input", { type: "range", min: 0, max: 1000, "aria-label": name,
      oninput: () => this.set(this.fromRange(), change) });
    this.number = el("input", { type: "number", min: 1, value, "aria-label": `${name}, exact`,
      oninput: () => this.set(Number.parseInt(this.number.value, 10), change) });
    this.root = el("div", { class: "size", data: { size: name } }, el("span", { title: label }, label), this.range, this.number);
    this.show(value);
  }

  fromRange() {
    return Math.max(1, Math.round(this.most ** (this.range.value / 1000)));
  }

  show(value) {
    this.most = Math.max(this.most, value);
    if (document.activeElement !== this.number) this.number.value = value;
    if (this.fromRange() !== value) this.range.value = 1000 * Math.log(value) / Math.log(this.most);
  }

  set(value, change) {
    if (!Number.isInteger(value) || value < 1 || value > 1e9) return;
    this.show(value);
    this.number.value = value;
    change(value);
  }
}

const theme = {
  apply(name) {
    document.documentElement.dataset.theme = name;
  },
  begin() {
    const dark = matchMedia("(prefers-color-scheme: dark)");
    this.apply(dark.matches ? "dark" : "light");
    dark.addEventListener("change", () => this.apply(dark.matches ? "dark" : "light"));
  },
  turn() {
    this.apply(document.documentElement.dataset.theme === "dark" ? "light" : "dark");
  },
};

async function begin() {
  theme.begin();
  const start = exported ? exported.start : await (await fetch("start")).json();
  document.title = `${start.name} · fgg explorer`;
  globalThis.page = new Page(start);
}

begin();
