"use strict";
// What each space costs, along which numbers, and what GPUs could do at most.

class CostView {
  static name = "cost";
  static title = "Cost";

  constructor(panel, page) {
    this.page = page;
    this.options = { lengths: {}, batch: 16, dtype: "float32", ...(answers.cost?.asked ?? {}) };
    this.device = answers.roofline?.asked.device ?? page.start.devices[0].name;
    this.controls = el("div", { class: "controls-row" });
    panel.append(this.controls);
    this.work = new Work(panel);
    this.spaces = el("div", { class: "spaces" });
    this.turns = el("div", { class: "turns" });
    this.plots = el("div", { class: "plots" });
    this.items = el("div");
    this.along = el("div", { class: "section-head" });
    this.deviceMenu = menu(page.start.devices.map((device) => [device.name, device.title]), this.device,
      (name) => this.chooseDevice(name), { id: "device", disabled: Boolean(exported) });
    this.body = el("div", { hidden: true }, this.spaces, this.along, this.turns, this.plots, this.items,
      el("div", { class: "section-head" }, el("h2", {}, "On a GPU"), field("device", this.deviceMenu)));
    this.roof = el("div");
    panel.append(this.body);
    this.rooflineWork = new Work(this.body);
    this.body.append(this.roof);
  }

  opened() {
    this.options = { ...this.options, lengths: {}, vary: undefined };
    this.shownControls = null;
  }

  asked(more = {}) {
    const { lengths, batch, dtype, vary } = this.options;
    return this.page.asked({ lengths, batch, dtype, vary, ...more });
  }

  async follow() {
    this.points = [];
    this.turning = [];
    this.spaces.classList.add("stale");
    const counted = this.count();
    await Promise.all([counted, this.followRoofline(counted)]);
  }

  async count() {
    const { vary } = this.options;
    const known = this.page.observed?.lengths ?? [];
    this.options.lengths = Object.fromEntries(Object.entries(this.options.lengths).filter(([name]) => known.includes(name)));
    const sizes = this.page.checked.sizes.map((size) => size.name);
    if (vary && ![...known, ...sizes, "batch"].includes(vary)) this.options.vary = undefined;
    this.here = null;
    const done = await this.work.ask("cost", this.asked(), { text: "counting", part: (part) => this.take(part) });
    this.spaces.classList.remove("stale");
    if (!this.here && !this.work.busy) this.body.hidden = true;
    this.finished = Boolean(done);
  }

  async followRoofline() {
    const done = await this.rooflineWork.ask("roofline", this.asked({ device: this.device, vary: undefined }), { text: "counting on a GPU", quiet: true });
    if (done) this.showRoofline(done);
    else if (!this.rooflineWork.busy) this.roof.replaceChildren();
  }

  chooseDevice(name) {
    this.device = name;
    this.followRoofline();
  }

  change(options) {
    this.options = { ...this.options, ...options };
    this.page.later("cost", VIEW_PAUSE, () => this.follow());
  }

  take(part) {
    if (part.here) {
      this.here = part.here;
      this.body.hidden = false;
      this.spaces.classList.remove("stale");
      this.showControls();
      this.showSpaces();
      this.showItems();
    } else if (part.point) {
      this.points.push(part.point);
    } else {
      this.turning.push(part.turns);
    }
    this.showPlots();
  }

  showControls() {
    const { setting, variables, vary } = this.here;
    const names = Object.keys(variables).join(" ");
    if (this.shownControls !== names) {
      this.shownControls = names;
      const off = (slider) => {
        for (const input of slider.root.querySelectorAll("input")) input.disabled = Boolean(exported);
        return slider.root;
      };
      const lengths = Object.entries(setting.lengths).map(([name, value]) =>
        off(new Slider(name, value, (n) => this.change({ lengths: { ...this.options.lengths, [name]: n } }), { most: 512})));
      const batch = off(new Slider("batch", setting.batch, (n) => this.change({ batch: n }), { most: 1024 }));
      const types = ["float32", "float64"].map((name) => [name, name]);
      replace(this.controls, lengths, batch,
        field("numbers", menu(types, setting.dtype, (dtype) => this.change({ dtype }), { disabled: Boolean(exported) })));
      const axes = Object.keys(variables).map((name) => [name, name]);
      replace(this.along, el("h2", {}, "Along"), menu(axes, vary, (name) => this.change({ vary: name }), { id: "vary", disabled: Boolean(exported), "aria-label": "along" }),
        el("span", { class: "quiet" }, "all other numbers stay as they are"));
    }
  }

  showSpaces() {
    const { spaces, refused, chosen } = this.here;
    const least = Math.min(...spaces.map((space) => space.multiply_adds));
    const cards = spaces.map((space) => el("article", { class: `card space ${space.name}${space.name === chosen ? " chosen" : ""}`, data: { space: space.name } },
      el("header", {}, el("h3", {}, spaces.length > 1 ? `${space.name} space` : "the program"),
        space.name === chosen && spaces.length > 1 ? el("span", { class: "badge proved" }, "auto takes this") : null),
      el("p", { class: "big order" }, polynomial(space.order)),
      el("dl", { class: "figures" },
        el("dt", {}, "multiply-adds"), el("dd", {}, short(space.multiply_adds), space.multiply_adds > least ? el("span", { class: "quiet" }, ` ${trimmed(space.multiply_adds / least)}×`) : null),
        space.made ? [el("dt", {}, "of these"), el("dd", {}, `${short(space.made)} to make factors from their pieces`)] : null,
        el("dt", {}, "memory"), el("dd", {}, bytes(space.peak)),
        Object.entries(space.bytes).filter(([, value]) => value).map(([name, value]) => [el("dt", { class: "inner" }, name), el("dd", { class: "inner" }, bytes(value))]))));
    const others = Object.entries(refused).map(([name, why]) => el("article", { class: `card space refused ${name}` },
      el("header", {}, el("h3", {}, `${name} space`)), el("p", { class: "quiet" }, prose(why))));
    replace(this.spaces, cards, others);
  }

  showItems() {
    const { spaces, chosen } = this.here;
    const space = spaces.find((one) => one.name === chosen);
    const rows = space.items.slice(0, 40).map((item) => el("tr", {},
      el("td", {}, el("code", {}, item.name)), el("td", { class: "quiet" }, item.when),
      el("td", { class: "order" }, polynomial(item.order)), el("td", { class: "figure" }, short(item.multiply_adds)),
      el("td", { class: "share" }, el("i", { style: { width: `${Math.max(100 * item.share, 0.5)}%` } }))));
    replace(this.items, el("h2", {}, "Where it goes"), el("div", { class: "card scrolls" },
      el("table", { class: "table" }, el("thead", {}, el("tr", {}, ["contraction", "when", "order", "multiply-adds", "share"].map((name) => el("th", {}, name)))), el("tbody", {}, rows))));
  }

  showPlots() {
    if (!this.here) return;
    const { vary, variables, spaces } = this.here;
    const names = [...new Set(this.points.flatMap((point) => Object.keys(point.spaces)))];
    const points = [...this.points].sort((a, b) => a.at - b.at);
    const mine = this.turning.find((entry) => entry.name === vary)?.turns ?? [];
    const marks = [...mine.map((turn) => ({ at: turn.at, text: `${turn.after} from ${turn.at}`, kind: turn.after })), { at: variables[vary], text: "here", kind: "now" }];
    const curves = (figure) => names.map((name) => ({ name: `${name} space`, kind: name,
      points: points.filter((point) => point.spaces[name]?.[figure] > 0).map((point) => [point.at, point.spaces[name][figure]]) }));
    const key = names.length > 1 ? el("p", { class: "key" }, names.map((name) => el("span", { class: name }, el("i"), `${name} space`))) : null;
    replace(this.plots, ...(points.length > 1 ? [
      plot({ title: "multiply-adds", y: "of the inside pass", x: vary, lines: curves("multiply_adds"), marks }),
      plot({ title: "memory", y: "of both passes", x: vary, lines: curves("bytes"), marks, format: bytes, base: 1024 }), key] : []));
    const turns = this.turning.flatMap(({ name, turns: some }) => some.map((turn) => [name, turn]));
    if (spaces.length + Object.keys(this.here.refused).length < 2) return replace(this.turns);
    replace(this.turns, el("span", { class: "quiet" }, this.work.busy ? "looking where auto would change its mind …" : turns.length ? "auto would change its mind:" : "auto would take this space wherever one of these numbers goes."),
      turns.map(([name, turn]) => el("span", { class: `turn ${turn.after}` }, el("b", {}, `${turn.after}`), ` from ${name} = ${turn.at.toLocaleString("en")} on`)));
  }

  showRoofline(report) {
    const programs = [...new Set(report.passes.map((row) => row.program))];
    const kind = (program) => ["torch", "triton"].includes(program) ? program : "published";
    const some = report.passes.filter((row) => row.multiply_adds > 0 && row.bytes > 0 && row.seconds > 0 && row.pass !== "whole");
    const dots = some.map((row) => ({ kind: kind(row.program), point: [row.intensity, 2 * row.multiply_adds / row.seconds],
      tip: `${row.program}, ${row.pass}\n${short(2 * row.multiply_adds / row.seconds)}flop/s at ${trimmed(row.intensity)} flop/byte\n${plural(row.launches, "launch").replace("launchs", "launches")}, ${bytes(row.bytes)}, at least ${duration(row.seconds)}` }));
    const knee = report.flops / report.bandwidth;
    const low = Math.min(0.05, ...some.map((row) => row.intensity));
    const high = Math.max(10 * knee, ...some.map((row) => row.intensity));
    const roof = { name: "roofline", kind: "roof", dots: false, points: [[low, low * report.bandwidth], [knee, report.flops], [high, report.flops]] };
    const whole = report.passes.filter((row) => row.pass === "whole");
    const rows = whole.map((row) => el("tr", {}, el("td", {}, el("span", { class: `spot ${kind(row.program)}` }), row.program),
      el("td", { class: "figure" }, row.launches.toLocaleString("en")), el("td", { class: "figure" }, bytes(row.bytes)),
      el("td", { class: "figure" }, short(row.multiply_adds)), el("td", { class: "figure" }, duration(row.seconds)),
      el("td", { class: "figure" }, row.roofline_seconds ? `${trimmed(row.seconds / row.roofline_seconds)}×` : "")));
    replace(this.roof,
      el("p", { class: "quiet" }, `Counted, not measured: the ${report.space} program on ${report.title}. `,
        report.fits ? `It needs ${bytes(report.needed)} of ${bytes(report.memory)}.` : el("b", { class: "bad" }, `It needs ${bytes(report.needed)}; the device has ${bytes(report.memory)}.`)),
      el("div", { class: "plots" },
        plot({ title: "roofline", y: "operations a second", x: "operations for each byte moved", lines: [roof], dots, format: (value) => `${short(value)}` }),
        el("div", { class: "card scrolls" }, el("table", { class: "table" },
          el("thead", {}, el("tr", {}, ["program", "launches", "bytes", "multiply-adds", "time, at least", "roofline"].map((name) => el("th", {}, name)))), el("tbody", {}, rows)),
        el("p", { class: "quiet small" }, `Each dot is a pass of a program: ${programs.join(", ")}. What stands under the slope waits for memory, what stands far below the roof for launches.`))));
  }
}

registry.push(CostView);
