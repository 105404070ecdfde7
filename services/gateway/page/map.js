/** The partitions of a service and who owns them. */

import { glow, h, keyed, setText } from "./dom.js";
import { plural } from "./format.js";

const STATES = { ready: "ready", building: "being built", refused: "refused", none: "nobody answers" };
const LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";

/** A map and its legend. `set(owners)` changes it and returns, in words, which partitions moved. */
export function partitionMap(service) {
  const cells = h("ol", { class: "map", "aria-label": `Partitions of ${service}` });
  const legend = h("ul", { class: "legend" });
  // An instance keeps its letter and colour for as long as the view is open.
  const numbers = new Map();
  const before = new Map();

  function set(owners) {
    const moved = [];
    for (const owner of owners) {
      const now = { ...owner, who: owner.state === "none" ? null : (owner.instance ?? owner.address) };
      if (now.who && !numbers.has(now.who)) numbers.set(now.who, numbers.size);
      const known = before.get(owner.partition);
      if (known && (known.who !== now.who || known.state !== now.state)) moved.push(change(service, known, now));
      before.set(owner.partition, now);
    }
    const all = [...before.values()];
    keyed(cells, all, (each) => each.partition, cell, (cell, each) => update(cell, each, numbers));
    keyed(legend, [...numbers.keys()], (who) => who, entry, (row, who) => explain(row, who, numbers.get(who), all));
    return moved;
  }

  return { element: h("div", {}, cells, legend), set };
}

const letter = (number) => LETTERS[number % LETTERS.length];

function change(service, before, now) {
  const named = (each) => (each.who ? `${each.who}${each.state === "ready" ? "" : ` (${STATES[each.state]})`}` : "nobody");
  return `${service}, partition ${now.partition}: ${named(before)} → ${named(now)}`;
}

function cell() {
  return h("li", {}, h("span", { class: "number" }), h("span", { class: "letter" }));
}

function update(cell, owner, numbers) {
  const [number, who] = cell.children;
  const at = numbers.get(owner.who);
  setText(number, owner.partition);
  const changed = setText(who, at === undefined ? "–" : owner.state === "refused" ? "!" : letter(at));
  cell.dataset.state = owner.state;
  cell.dataset.colour = at === undefined ? "" : at % 6;
  cell.title = `partition ${owner.partition}: ${owner.who ?? "nobody"}, ${STATES[owner.state]}`;
  if (changed) glow(cell);
}

function entry() {
  return h("li", {}, h("span", { class: "key" }), h("span", { class: "who" }), h("span", { class: "quiet" }));
}

function explain(row, who, number, owners) {
  const [key, name, owned] = row.children;
  const own = owners.filter((each) => each.who === who);
  setText(key, letter(number));
  key.dataset.colour = number % 6;
  setText(name, who);
  setText(owned, own.length ? plural(own.length, "partition") : "gone");
  row.classList.toggle("gone", !own.length);
}
