"use strict";
// Heat maps of charts: a strip for one index, a matrix for two.

const HEAT = { cell: 24, least: 5, width: 330, label: 22 };

/** How dark a value is, from 0 to 1, between the least and the greatest that are finite. */
function shades(values) {
  const known = values.filter((value) => Number.isFinite(value));
  const low = Math.min(...known);
  const high = Math.max(...known);
  return (value) => (Number.isFinite(value) ? (high > low ? 0.15 + 0.85 * (value - low) / (high - low) : 0.75) : 0);
}

/** The words that a cell of a chart stands over; empty if its indices are no span. */
function spanned(at, words) {
  if (!words.length) return "";
  if (at.length === 1) return words[at[0]] ?? "";
  const [i, j] = at;
  return i < j && j <= words.length ? words.slice(i, j).join(" ") : "";
}

/**
 * A chart: `axes` are the names of its indices, `low` the least of each, `extents` how many there
 * are. `cells` are `{place, value, shade, fresh, tip}`, where `place` counts from `low`.
 */
function heatMap({ axes, low, extents, cells, words = [], label }) {
  const [rows, columns] = axes.length === 2 ? extents : [1, extents[0] ?? 1];
  const size = Math.max(HEAT.least, Math.min(HEAT.cell, HEAT.width / Math.max(columns, 1)));
  const left = axes.length === 2 ? HEAT.label : 4;
  const bottom = axes.length ? HEAT.label : 4;
  const width = Math.max(left + columns * size + 4, 60);
  const height = rows * size + bottom;
  const drawn = draw("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": label });
  drawn.append(draw("rect", { class: "heat-ground", x: left, y: 0, width: columns * size, height: rows * size }));
  for (const cell of cells) {
    const [row, column] = axes.length === 2 ? cell.place : [0, cell.place[0] ?? 0];
    const gap = size > 9 ? 1 : 0;
    drawn.append(draw("rect", {
      class: `heat${cell.fresh ? " fresh" : ""}`, x: left + column * size + gap / 2, y: row * size + gap / 2,
      width: size - gap, height: size - gap, rx: size > 9 ? 3 : 0, "fill-opacity": cell.shade.toFixed(3),
      onmousemove: (event) => tip.show(event, cell.tip()), onmouseleave: () => tip.hide(),
    }));
  }
  const every = Math.max(1, Math.ceil(18 / size));
  for (let column = 0; axes.length && column < columns; column += every) {
    drawn.append(draw("text", { class: "tick", x: left + (column + 0.5) * size, y: rows * size + 14, "text-anchor": "middle" }, `${column + (low[axes.length - 1] ?? 0)}`));
  }
  for (let row = 0; axes.length === 2 && row < rows; row += every) {
    drawn.append(draw("text", { class: "tick", x: left - 5, y: (row + 0.5) * size + 4, "text-anchor": "end" }, `${row + low[0]}`));
  }
  return el("div", { class: "heat-map", data: { words: words.length } }, drawn);
}

/** A probability as people read it. */
function percent(probability) {
  if (probability >= 0.9995) return "100%";
  if (probability >= 0.0995) return `${(100 * probability).toFixed(0)}%`;
  if (probability >= 0.0005) return `${(100 * probability).toFixed(1)}%`;
  return probability > 0 ? probability.toExponential(0) : "0";
}
