/** Windows of a part side by side, each with its numbers; one of them is chosen. */

import { scaleEnd } from "./bars.js";
import { h, keyed, setText } from "./dom.js";
import { count, dateTime, timeOf, valueInto, words } from "./format.js";
import { items } from "./shapes.js";

/** Tiles of the windows of `part`: `chosen` is the name of one, the longest at first; `changed()` is called after a choice, `textOf(name)` shows numbers. */
export function windows(part, changed, textOf) {
  const tiles = h("div", { class: "tiles" }), range = h("p", { class: "quiet" });
  const element = h("fieldset", { class: "windows" }, h("legend", { class: "unseen" }, "Window"), tiles, range);
  const control = { element, chosen: null, set };
  let spans;

  /** `spans` are times `from` and `to` by window; `measures` is a Map of values by window. */
  function set(given, measures) {
    spans = given;
    const names = windowNames(spans, measures);
    element.hidden = !names.length;
    if (!names.includes(control.chosen)) control.chosen = names.at(-1);
    keyed(tiles, names, (name) => name, tile, (tile, name) => update(tile, name, measures));
    tellRange();
  }

  function tile(name) {
    const input = h("input", { type: "radio", name: `window of ${part}`, value: name, onchange: choose });
    return h("label", { class: "tile" }, h("span", { class: "window" }, input, name), h("span", { class: "measures" }));
  }

  function choose({ target }) {
    control.chosen = target.value;
    tellRange();
    changed();
  }

  function update(tile, name, measures) {
    const [window, list] = tile.children, kept = [...measures].filter(([, value]) => name in value);
    window.firstChild.checked = name === control.chosen;
    keyed(list, kept, ([measure]) => measure, row, (row, [measure, value]) => show(row, value, name, textOf(measure)));
  }

  function tellRange() {
    const span = spans[control.chosen];
    setText(range, span ? `${dateTime(span.from)} – ${dateTime(span.to)}` : "all events");
  }

  return control;
}

/** The windows from the shortest to the longest, then names without a span, such as `ever`. */
export function windowNames(spans, measures) {
  const length = (name) => (spans[name] ? spans[name].to - spans[name].from : Infinity);
  const names = new Set([...measures.values()].flatMap(Object.keys));
  return [...names].sort((one, other) => length(one) - length(other));
}

const row = ([measure]) => h("span", { class: "measure" },
  h("span", { class: "quiet" }, words(measure)), h("span", { class: "value" }),
  h("span", { class: "bar" }, h("span", { class: "fill" })));

/** A value, with a bar where it is one of several numbers; the first item of a list. */
function show(row, value, name, text) {
  const [, shown, bar] = row.children, list = items(value[name]);
  const most = Math.max(...Object.values(value).filter(Number.isFinite));
  valueInto(shown, list ? list[0]?.value : value[name], list ? count : text);
  bar.hidden = list !== null || !Number.isFinite(most) || (text === count && timeOf(most) !== null);
  if (!bar.hidden) bar.firstChild.style.width = `${Math.max(0, (100 * value[name]) / scaleEnd(most))}%`;
}
