"use strict";
// Curves and points on logarithmic axes.

const PLOT = { width: 460, height: 270, left: 58, right: 14, top: 12, bottom: 40 };

/** A logarithmic axis: places for values, and the values that get a tick. */
class Axis {
  constructor(values, from, to) {
    const known = values.filter((value) => value > 0);
    this.low = Math.log10(Math.min(...known));
    this.high = Math.log10(Math.max(...known));
    if (this.high - this.low < 0.3) {
      this.low -= 0.2;
      this.high += 0.2;
    }
    [this.from, this.to] = [from, to];
  }

  at(value) {
    return this.from + (this.to - this.from) * (Math.log10(value) - this.low) / (this.high - this.low);
  }

  /** Round values; with the base 1024 they are round as bytes. */
  ticks(base = 10) {
    const span = this.high - this.low;
    const step = Math.max(1, Math.ceil(span / 7));
    const digits = span < 2.2 ? [1, 2, 5] : [1];
    const values = [];
    for (let power = Math.floor(this.low) - 1; power <= this.high; power += step) {
      const unit = base === 10 ? 10 ** power : 10 ** (((power % 3) + 3) % 3) * 1024 ** Math.floor(power / 3);
      for (const digit of digits) values.push(digit * unit);
    }
    return values.filter((value) => Math.log10(value) >= this.low - 1e-9 && Math.log10(value) <= this.high + 1e-9);
  }
}

/**
 * A plot. `lines` are `{name, kind, points: [[x, y], …], dots}`, `marks` are `{at, text}` on the
 * axis of x, `format` writes values of y, whose ticks are round to a `base`.
 */
function plot({ title, x, y, lines, marks = [], format = short, formatX = short, base = 10, dots = [] }) {
  const { width, height, left, right, top, bottom } = PLOT;
  const all = [...lines.flatMap((line) => line.points), ...dots.map((dot) => dot.point)];
  if (!all.length) return el("figure", { class: "plot" });
  const across = new Axis([...all.map((p) => p[0]), ...marks.map((m) => m.at)], left, width - right);
  const up = new Axis(all.map((p) => p[1]), height - bottom, top);
  const drawn = draw("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": title });
  for (const value of up.ticks(base)) {
    const place = up.at(value);
    drawn.append(
      draw("line", { class: "grid", x1: left, x2: width - right, y1: place, y2: place }),
      draw("text", { class: "tick", x: left - 7, y: place + 3.5, "text-anchor": "end" }, format(value)));
  }
  for (const value of across.ticks()) {
    const place = across.at(value);
    drawn.append(
      draw("line", { class: "grid", x1: place, x2: place, y1: top, y2: height - bottom }),
      draw("text", { class: "tick", x: place, y: height - bottom + 15, "text-anchor": "middle" }, formatX(value)));
  }
  drawn.append(draw("text", { class: "axis", x: (left + width - right) / 2, y: height - 6, "text-anchor": "middle" }, x));
  for (const mark of marks) {
    const place = across.at(mark.at);
    const last = place > width - 90;
    drawn.append(
      draw("line", { class: `mark ${mark.kind ?? ""}`, x1: place, x2: place, y1: top, y2: height - bottom }),
      draw("text", { class: `mark-text ${mark.kind ?? ""}`, x: place + (last ? -4 : 4), y: top + 11, "text-anchor": last ? "end" : "start" }, mark.text));
  }
  for (const line of lines) {
    const path = line.points.map(([a, b], i) => `${i ? "L" : "M"}${across.at(a).toFixed(1)} ${up.at(b).toFixed(1)}`);
    drawn.append(draw("path", { class: `curve ${line.kind}`, d: path.join(" "), fill: "none" }));
    if (line.dots === false) continue;
    for (const [a, b] of line.points) {
      drawn.append(draw("circle", { class: `dot ${line.kind}`, cx: across.at(a), cy: up.at(b), r: 3.2,
        onmousemove: (event) => tip.show(event, `${line.name}\n${x} ${a.toLocaleString("en")}: ${format(b)}`),
        onmouseleave: () => tip.hide() }));
    }
  }
  for (const dot of dots) {
    const [a, b] = dot.point;
    drawn.append(draw("circle", { class: `dot big ${dot.kind}`, cx: across.at(a), cy: up.at(b), r: 6,
      onmousemove: (event) => tip.show(event, dot.tip), onmouseleave: () => tip.hide() }));
    if (dot.text) drawn.append(draw("text", { class: "dot-text", x: across.at(a) + (dot.left ? -10 : 10), y: up.at(b) + 4, "text-anchor": dot.left ? "end" : "start" }, dot.text));
  }
  return el("figure", { class: "plot card" }, el("figcaption", {}, title, y ? el("span", { class: "quiet" }, ` ${y}`) : null), drawn);
}

/** A cost such as `O(n^3*r + n^2)` as people write it, with raised exponents. */
function polynomial(text) {
  return text.split(/(\^\d+|\*| \+ )/).map((part) => {
    if (part.startsWith("^")) return el("sup", {}, part.slice(1));
    if (part === "*") return "\u2009";
    return part;
  });
}
