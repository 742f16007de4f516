// The page: puts the parts together and keeps each told of what concerns it.
//
//   ctl messages -> status, controls, parameters, journal, catalogue
//   data frames  -> tiles, drawn once per picture of the browser, then the credit goes back

import "uplot/dist/uPlot.min.css";
import "./style.css";
import { enter } from "./auth.js";
import { Controls } from "./controls.js";
import { el, recall, remember, text } from "./dom.js";
import type { Frame } from "./frames.js";
import { unitOf } from "./numbers.js";
import { Catalogue, Journal, Parameters } from "./panel.js";
import { Session, type Link } from "./session.js";
import { Status } from "./status.js";
import { Tile } from "./tile.js";
import type { Diagram, FromRun, Role } from "./words.js";

/// Diagrams open at the first visit; the others wait in the list.
const OPEN_AT_FIRST = 24;

class Page {
  private readonly session = new Session({
    heard: (m) => this.heard(m),
    frames: (f) => this.frames(f),
    link: (l) => this.link(l),
  });
  private readonly status = new Status(() => void this.session.connect(), (name) => {
    remember("name", name);
    this.session.name(name);
  });
  private readonly controls = new Controls(this.session, (wait) => {
    this.waiting = wait;
    document.body.classList.toggle("waiting", wait);
    this.look();
  }, (words) => this.journal.aside(words));
  private readonly parameters = new Parameters((act) => this.session.act(act), (act) => void this.controls.ask(act));
  private readonly catalogue = new Catalogue((id, open) => this.toggle(id, open));
  private readonly journal = new Journal();
  private readonly grid = el("main", { class: "grid", "aria-label": "Diagrams" });
  private readonly empty = el("p", { class: "empty" }, "Diagrams appear here as the run declares them.");
  private readonly tiles = new Map<number, Tile>();
  private readonly inSight = new IntersectionObserver((entries) => this.seen(entries), { rootMargin: "80px" });
  private diagrams: Diagram[] = [];
  private role: Role = "viewer";
  private run = "";
  private waiting = false;
  private drawing = 0;
  private lookTimer = 0;

  constructor() {
    this.grid.append(this.empty);
    const top = el("div", { class: "top" }, this.status.node, this.controls.node, this.status.banner);
    // The side panel stays in sight below the bars, whatever their height.
    new ResizeObserver(() => document.documentElement.style.setProperty("--top", `${top.offsetHeight}px`)).observe(top);
    document.body.append(
      top,
      el("div", { class: "below" }, this.grid,
        el("aside", {}, this.parameters.node, this.catalogue.node, this.journal.node)));
    document.addEventListener("visibilitychange", () => {
      this.look();
      if (!document.hidden) this.drawSoon();
    });
  }

  begin(): void {
    void this.session.begin();
  }

  private heard(m: FromRun): void {
    switch (m.say) {
      case "hello": {
        this.role = m.role;
        this.run = m.run.name || m.run.id;
        this.status.setRun(m.run, m.role);
        this.controls.setRole(m.role, m.steps);
        this.parameters.setRole(m.role);
        this.journal.clear();
        document.body.dataset["role"] = m.role;
        const name = recall("name");
        if (name) this.session.name(name);
        break;
      }
      case "catalogue":
        this.status.setProgress(m.progress, unitOf(m.diagrams.find((d) => d.kind === "history")?.x ?? "").unit);
        this.parameters.setCommands(m.commands);
        this.declare(m.diagrams);
        break;
      case "parameters":
        this.parameters.setItems(m.items);
        break;
      case "state":
        document.body.dataset["state"] = m.state;
        this.status.setState(m, this.role);
        this.controls.setState(m);
        break;
      case "messages":
        this.journal.messages(m.items);
        break;
      case "steer":
        this.journal.steering(m.items);
        this.controls.heard(m.items);
        this.parameters.heard(m.items);
        break;
    }
  }

  private link(link: Link): void {
    this.status.setLink(link);
    this.controls.setConnected(link.is === "open");
    document.body.dataset["link"] = link.is;
    if (link.is === "refused") this.askForLink(link.why);
  }

  private declare(diagrams: Diagram[]): void {
    this.diagrams = diagrams;
    for (const d of diagrams) {
      const tile = this.tiles.get(d.id);
      if (tile) tile.update(d);
      else if (this.wanted(d)) this.open(d);
    }
    this.arrange();
  }

  private wanted(d: Diagram): boolean {
    const said = recall(`open:${this.run}:${d.title}`);
    return said === null ? d.id < OPEN_AT_FIRST : said === "1";
  }

  private open(d: Diagram): void {
    const tile = new Tile(d, { sight: () => this.look(), close: (t) => this.toggle(t.id, false) });
    this.tiles.set(d.id, tile);
    const after = [...this.tiles.keys()].filter((id) => id > d.id).sort((a, b) => a - b)[0];
    this.grid.insertBefore(tile.node, after === undefined ? null : (this.tiles.get(after)?.node ?? null));
    this.inSight.observe(tile.node);
  }

  private toggle(id: number, open: boolean): void {
    const d = this.diagrams.find((x) => x.id === id);
    const tile = this.tiles.get(id);
    if (!d) return;
    remember(`open:${this.run}:${d.title}`, open ? "1" : "0");
    if (open && !tile) this.open(d);
    if (!open && tile) {
      this.inSight.unobserve(tile.node);
      tile.destroy();
      this.tiles.delete(id);
    }
    this.arrange();
  }

  private arrange(): void {
    this.empty.hidden = this.tiles.size > 0;
    text(this.empty, this.diagrams.length ? "All diagrams are closed; open some from the list." : "Diagrams appear here as the run declares them.");
    this.grid.dataset["count"] = String(this.tiles.size);
    this.catalogue.set(this.diagrams, (id) => this.tiles.has(id));
    this.look();
  }

  private seen(entries: IntersectionObserverEntry[]): void {
    for (const entry of entries) {
      const tile = this.tiles.get(Number((entry.target as HTMLElement).dataset["diagram"]));
      if (tile) tile.visible = entry.isIntersecting;
    }
    this.look();
  }

  /// Tells the monitor what is in sight, a moment after the last change.
  private look(): void {
    clearTimeout(this.lookTimer);
    this.lookTimer = window.setTimeout(() => {
      const open = this.waiting ? [] : [...this.tiles.values()].filter((t) => t.visible).map((t) => t.view());
      this.session.look(open, document.hidden);
    }, 60);
  }

  private frames(frames: Frame[]): void {
    const byDiagram = new Map<number, Frame[]>();
    for (const f of frames) byDiagram.set(f.diagram, [...(byDiagram.get(f.diagram) ?? []), f]);
    if (!this.waiting) for (const [id, list] of byDiagram) this.tiles.get(id)?.take(list);
    this.drawSoon();
  }

  private drawSoon(): void {
    this.drawing ||= requestAnimationFrame(() => {
      this.drawing = 0;
      if (!this.waiting) for (const tile of this.tiles.values()) tile.draw();
      this.session.creditBack();
    });
  }

  private askForLink(why: string): void {
    const input = el("input", { type: "text", placeholder: "link", "aria-label": "Link", autocomplete: "off", spellcheck: "false" });
    const note = el("p", { class: "note" }, why);
    const dialog = el("dialog", { class: "door" }, el("h2", {}, "This page needs a link"), note,
      el("form", { submit: (e) => {
        e.preventDefault();
        const code = /c=([^&\s]+)/.exec(input.value)?.[1] ?? input.value.trim();
        void enter(code).then((refusal) => {
          if (refusal) return text(note, refusal);
          dialog.remove();
          void this.session.connect();
        });
      } }, input, el("button", { type: "submit", class: "verb" }, "Open")));
    document.querySelector("dialog.door")?.remove();
    document.body.append(dialog);
    dialog.show();
  }
}

new Page().begin();
