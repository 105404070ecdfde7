/** What a user may like, and why. */

import { nameInto } from "./bars.js";
import { h, keyed } from "./dom.js";

const SHOWN = 5;
const RENEWED_MS = 10_000;

/** Lists of the recommendations of `kinds`; `set(profile)` changes them, as it gets them at most every `RENEWED_MS`. */
export function recommendations(kinds) {
  const lists = kinds.map((kind) => [kind, h("ol", { class: "advice" }), h("p", { class: "quiet", hidden: "" }, "what is popular")]);
  let shownAt = -RENEWED_MS;

  function set(profile) {
    // Each answer is a new draw of random walks: shown each time, nobody could read it.
    if (performance.now() - shownAt < RENEWED_MS) return;
    for (const [kind, list, popular] of lists) {
      const member = `${kind}Recommendations`, items = profile[member] ?? [];
      if (items.length) shownAt = performance.now();
      popular.hidden = !profile.fallbacks?.includes(member);
      keyed(list, items.slice(0, SHOWN), (item) => item.id, row, (row, item) => update(row, item, kind));
    }
  }

  const element = h("div", { class: "columns" }, lists.map(([kind, list, popular]) =>
    h("div", {}, h("h3", {}, `${kind[0].toUpperCase()}${kind.slice(1)}s`), popular, list)));
  return { element, set };
}

const row = () => h("li", {}, h("span", { class: "name" }), h("span", { class: "why" }));

function update(row, item, kind) {
  const [name, why] = row.children;
  const called = `${kind[0].toUpperCase()}${kind.slice(1)}`;
  nameInto(name, item.name, called, item.id);
  const known = (item.why ?? []).map((each) => {
    const element = h("b");
    nameInto(element, each.name, called, each.id);
    return element;
  });
  const listed = known.flatMap((element, place) => [place ? (place === known.length - 1 ? " and " : ", ") : "", element]);
  why.replaceChildren(...(known.length ? ["because of ", ...listed] : []));
}
