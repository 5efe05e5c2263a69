"use strict";
// Sharing: the page with all that it shows as one file that needs no server.

class Share {
  constructor(page) {
    this.page = page;
    this.button = el("button", { id: "share", title: "save this page with all its tabs as one file",
      onclick: () => (this.running ? this.cancel() : this.share()) }, "Share");
  }

  cancel() {
    this.running = false;
    this.viewed?.work.cancel();
  }

  /** Compute the tabs that have not been seen, then save the page. */
  async share() {
    const { page } = this;
    if (!page.checked?.ok) return;
    this.running = true;
    for (const view of page.views) {
      if (!this.running) break;
      this.button.textContent = `${view.constructor.title} …`;
      this.viewed = view;
      await page.follow(view);
    }
    if (this.running) await this.save();
    this.running = false;
    this.button.textContent = "Share";
  }

  /** The state of the page: what it began with, now with the present model, and all answers. */
  state() {
    const { text, name, sizes, query, space, trained, current } = this.page;
    const tab = current?.constructor.name;
    return { start: { ...this.page.start, text, name, sizes, query, space, trained, tab }, answers };
  }

  async save() {
    const answer = await fetch("export", {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(this.state()),
    });
    if (!answer.ok) {
      this.page.messages.replaceChildren(problemCard({ kind: "lost", message: await answer.text() }));
      return;
    }
    const address = URL.createObjectURL(await answer.blob());
    const link = el("a", { href: address, download: `${this.page.name.replace(/\.fgg$/, "")}.html` });
    link.click();
    URL.revokeObjectURL(address);
  }
}
