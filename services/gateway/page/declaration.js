/** The measures of a profile as declared, in words. */

import { h } from "./dom.js";
import { isObject } from "./shapes.js";

/** A table of the measures of a declaration. */
export function declaration({ name, measures }) {
  const rows = Object.entries(measures).map(([measure, words]) =>
    h("tr", {}, h("th", { scope: "row" }, measure), h("td", {}, measured(words)), h("td", {}, [words.over ?? "ever"].flat().join(", "))));
  return h("table", {},
    h("caption", { class: "unseen" }, `Measures of ${name}`),
    h("thead", {}, h("tr", {}, ["measure", "kind", "windows"].map((title) => h("th", { scope: "col" }, title)))),
    h("tbody", {}, rows));
}

/** What a measure counts: "top 5 of genre by total of durationMs where device = phone". */
export function measured({ over: _over, where = {}, by, of, top, recent, total, index, ...kinds }) {
  const listed = top ? `top ${top} of ${of}${total ? ` by total of ${total}` : ""}` : recent && `recent ${recent} of ${of}`;
  const [[kind, field] = ["total", total]] = Object.entries(kinds);
  const conditions = told(where);
  return `${listed || `${kind} ${field}`}${by ? ` by ${by}` : ""}${conditions && ` where ${conditions}`}${index ? ", indexed" : ""}`;
}

/** Conditions as text: `{genre: {eq: folk}, any: [{…}, {…}]}` is "genre eq folk and (… or …)". */
function told(where) {
  const texts = Object.entries(where).map(([field, inner]) =>
    Array.isArray(inner)
      ? `(${inner.map((each) => told(each)).join(field === "any" ? " or " : " and ")})`
      : Object.entries(inner).map(([word, value]) => `${field} ${word} ${[value].flat().join(", ")}`).join(" and "));
  return texts.join(" and ");
}

/** The measures, fields and further words in which two declarations differ. */
export function differences(one, other) {
  const words = (declared) => ({ ...declared, ...declared.measures, name: null, measures: null });
  const [before, after] = [words(one), words(other)];
  const names = new Set([...Object.keys(before), ...Object.keys(after)]);
  return [...names].filter((name) => JSON.stringify(before[name]) !== JSON.stringify(after[name]));
}
