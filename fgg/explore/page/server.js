"use strict";
// Asking the server for views; in an exported page, the answers that it holds.

const exportedNode = document.getElementById("exported");
const exported = exportedNode ? JSON.parse(exportedNode.textContent) : null;

/** The last answer of each view: `{asked, parts, done, problem}`, which an export takes along. */
const answers = exported ? exported.answers : {};

/**
 * The answer of a view: `{done}` or `{problem}`. `part` is called with each part beforehand.
 * Aborting `signal` ends the computation: the server notices the closed connection.
 */
async function ask(view, asked, part, signal) {
  if (exported) return replayed(view, part);
  const record = { asked, parts: [] };
  const outcome = await streamed(`view/${view}`, asked, signal, (line) => {
    record.parts.push(line);
    part?.(line);
  });
  if (outcome.problem?.kind !== "cancelled") answers[view] = { ...record, ...outcome };
  return outcome;
}

function replayed(view, part) {
  const known = answers[view];
  if (!known) return { problem: { kind: "absent" } };
  for (const line of known.parts) part?.(line);
  return known.problem ? { problem: known.problem } : { done: known.done };
}

async function streamed(address, asked, signal, part) {
  try {
    const answer = await fetch(address, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(asked),
      signal,
    });
    if (!answer.ok) return { problem: { kind: "lost", message: await answer.text() } };
    let outcome = null;
    for await (const line of lines(answer.body)) {
      const value = JSON.parse(line);
      if ("part" in value) part(value.part);
      else outcome = value;
    }
    return outcome ?? { problem: { kind: "lost", message: "the answer broke off" } };
  } catch (error) {
    if (signal?.aborted) return { problem: { kind: "cancelled" } };
    const message = "the explorer does not answer: is `fggc explore` still running?";
    return { problem: { kind: "lost", message } };
  }
}

async function* lines(stream) {
  const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) break;
    const pieces = (rest + value).split("\n");
    rest = pieces.pop();
    yield* pieces.filter((line) => line);
  }
}

/** A view's computations, one at a time, with a bar that shows them and a button that ends them. */
class Work {
  constructor(root) {
    this.bar = el("i");
    this.track = el("div", { class: "bar" }, this.bar);
    this.text = el("span", {}, "computing");
    this.status = el("div", { class: "status", role: "status" }, this.text, this.track,
      el("button", { class: "small cancel", onclick: () => this.cancel() }, "Cancel"));
    this.problems = el("div", { class: "problems" });
    root.append(this.status, this.problems);
    this.controller = null;
  }

  get busy() {
    return this.controller !== null;
  }

  cancel() {
    this.controller?.abort();
  }

  progress(done, total, text) {
    this.track.classList.toggle("known", total > 0);
    this.bar.style.width = total > 0 ? `${Math.min(100 * done / total, 100)}%` : "";
    if (text) this.text.textContent = text;
  }

  /** Ask for a view; what was asked for before is given up. Returns the answer, or null. */
  async ask(view, options, { part, text = "computing", quiet = false } = {}) {
    this.cancel();
    const mine = new AbortController();
    this.controller = mine;
    this.progress(0, 0, text);
    const wait = setTimeout(() => mine === this.controller && this.status.classList.add("busy"), 150);
    const current = (line) => mine === this.controller && part?.(line);
    const outcome = await ask(view, options, current, mine.signal);
    clearTimeout(wait);
    if (mine !== this.controller) return null;
    this.controller = null;
    this.status.classList.remove("busy");
    this.problems.replaceChildren(...(outcome.problem && !quiet ? [problemCard(outcome.problem)] : []));
    return outcome.done ?? null;
  }
}
