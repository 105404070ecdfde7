/** Rankings as bars that grow. */

import { glow, h, keyed, setText } from "./dom.js";
import { count } from "./format.js";

const STEPS = [1, 1.5, 2, 3, 4, 5, 6, 8, 10];

/** The end of a scale for numbers up to `most`: so round that it stays for a while, and even the longest bar grows. */
export function scaleEnd(most) {
  const magnitude = 10 ** Math.floor(Math.log10(Math.max(1, most)));
  return STEPS.map((step) => step * magnitude).find((end) => end > most);
}

/**
 * A list of `{id, name, countPlays}`; `set(items)` changes it. `kind` is what an item without a name is called,
 * `unit` the word after a count for screen readers, `text` shows a count.
 */
export function bars(kind, unit = "plays", text = count) {
  const element = h("ol", { class: "bars" });
  return {
    element,
    set(items) {
      const end = scaleEnd(items[0]?.countPlays ?? 1);
      keyed(element, items, (item) => item.id, () => row(unit), (row, item) => update(row, item, kind, end, text));
    },
  };
}

function row(unit) {
  return h("li", {},
    h("span", { class: "name" }),
    h("span", { class: "count" }),
    h("span", { class: "unseen" }, ` ${unit}`),
    h("span", { class: "bar" }, h("span", { class: "fill" })));
}

function update(row, item, kind, end, text) {
  const [name, plays, , bar] = row.children;
  nameInto(name, item.name, kind, item.id);
  const known = plays.textContent !== "";
  if (setText(plays, text(item.countPlays)) && known) glow(row);
  bar.firstChild.style.width = `${(100 * item.countPlays) / end}%`;
}

/** Show the name of a thing, or its kind and id when it has none. */
export function nameInto(element, name, kind, id) {
  setText(element, name ?? `${kind} ${id}`);
  element.classList.toggle("nameless", name == null);
  element.title = `${kind} ${id}`;
}
