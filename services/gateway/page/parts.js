/** Parts of a profile that are objects, such as `habits`: the shape of each member decides how it is shown. */

import { bars } from "./bars.js";
import { h, keyed, setText } from "./dom.js";
import { ago, valueInto, words } from "./format.js";
import { isObject, items, shapes } from "./shapes.js";
import { windows } from "./windows.js";

const SHOWN = 10;

/** A section for each part of an answer; `set(answer)` changes them, `ages()` their times. `textOf(part, name)` is as for a part. */
export function parts(textOf) {
  const element = h("div", { class: "parts" });
  const sections = new WeakMap();

  function set(answer) {
    const named = Object.entries(answer).filter(([, members]) => isObject(members));
    keyed(element, named, ([name]) => name, ([name]) => section(name), (element, [, members]) => sections.get(element)(members));
  }

  function section(name) {
    const { element, set } = part(name, (member) => textOf(name, member));
    sections.set(element, set);
    return element;
  }

  const ages = () => element.querySelectorAll("[data-time]").forEach((value) => setText(value, ago(Number(value.dataset.time))));
  return { element, set, ages };
}

/** The members of the part `name`, by their shapes, below `heading`, if any; `textOf(name)` shows the numbers of a member. */
export function part(name, textOf, heading = h("h2", {}, words(name))) {
  const facts = h("dl", { class: "facts" }), columns = h("div", { class: "columns" }), lists = new WeakMap();
  const tiles = windows(name, draw, textOf);
  const element = h("section", { "aria-label": words(name) }, heading, facts, tiles.element, columns);
  let now;

  function set(members) {
    now = shapes(members);
    keyed(facts, now.facts, ([name]) => name, fact, (element, [name, value]) => valueInto(element.lastChild, value, textOf(name)));
    tiles.set(members.windows ?? {}, now.byWindow);
    draw();
  }

  function draw() {
    keyed(columns, now.lists, ([name]) => name, column, update);
  }

  function column([name]) {
    const counts = bars(words(name), "", textOf(name));
    const element = h("div", {}, h("h3"), h("p", { class: "quiet" }), counts.element, h("ol", { class: "advice" }));
    lists.set(element, counts);
    return element;
  }

  function update(column, [name, value]) {
    const byWindow = now.byWindow.has(name), kept = !byWindow || tiles.chosen in value;
    const shown = kept ? items(byWindow ? value[tiles.chosen] : value).slice(0, SHOWN) : [];
    const [title, note, , others] = column.children, counted = shown.filter(({ number }) => number !== undefined);
    setText(title, words(name) + (byWindow ? ` · ${tiles.chosen}` : ""));
    setText(note, kept ? "none" : `kept for ${Object.keys(value).join(", ")}`);
    note.hidden = shown.length > 0;
    lists.get(column).set(counted.map(({ id, value, number }) => ({ id, name: value, countPlays: number })));
    others.replaceChildren(...shown.filter(({ number }) => number === undefined).map(row));
  }

  return { element, set };
}

const fact = ([name]) => h("div", {}, h("dt", {}, words(name)), h("dd"));

function row({ value, time }) {
  const when = h("span", { class: "why" });
  if (time !== undefined) valueInto(when, time);
  return h("li", {}, h("span", { class: "name" }, String(value)), when);
}
