/** A profile as declared, in words. */

import { h } from "./dom.js";

/** The declared tables of a profile: its measures, its rules, and how keys are found by its indexes. */
export function declaration({ name, path, where, measures, rules = {} }) {
  const measureRows = Object.entries(measures).map(([measure, words]) => [measure, measured(words), windowsOf(words).join(", ")]);
  const ruleRows = Object.entries(rules).map(([rule, { when, over, cooldown }]) =>
    [rule, told(when) + (over ? ` over ${over}` : ""), cooldown ?? "none", explored(`/v1/rules/${name}/${rule}`, {}, "latest")]);
  const indexes = Object.entries(measures).filter(([, { index }]) => index).flatMap(([measure, words]) => indexesOf(measure, windowsOf(words)));
  const find = `${path.replace("/<key>", "")}/find`;
  return [
    h("section", {}, h("h3", {}, "Measures"), where && h("p", { class: "quiet" }, `Of events with ${told(where)}.`),
      table(`Measures of ${name}`, ["measure", "kind", "windows"], measureRows)),
    ruleRows.length ? h("section", {}, h("h3", {}, "Rules"), table(`Rules of ${name}`, ["rule", "when", "cooldown", "crossings"], ruleRows)) : null,
    indexes.length ? h("section", {}, h("h3", {}, "Indexes"),
      h("p", {}, indexes.join(", ")),
      h("p", { class: "quiet" }, "Keys by a value: ", explored(find, { where: `${indexes[0]}.ge.1` }, `${find}?where=${indexes[0]}.ge.1`))) : null,
  ];
}

const windowsOf = ({ over = "ever" }) => [over].flat();
const indexesOf = (measure, windows) => windows.map((window) => (windows.length === 1 ? measure : `${measure}_${window}`));

/** A link to an answer in the view Explore. */
const explored = (path, given, text) => h("a", { href: `#/explore?${new URLSearchParams({ path, ...given })}` }, text);

/** A table with a caption for screen readers; the first cell of a row is its head. */
export function table(caption, titles, rows) {
  const cell = (content, at) => (at ? h("td", {}, content) : h("th", { scope: "row" }, breakable(content)));
  return h("table", {}, h("caption", { class: "unseen" }, caption),
    h("thead", {}, h("tr", {}, titles.map((title) => h("th", { scope: "col" }, title)))),
    h("tbody", {}, rows.map((cells) => h("tr", {}, cells.map(cell)))));
}

/** A name that breaks between its words alone. */
const breakable = (name) => name.split(/(?<=[_-])|(?=[A-Z])/).flatMap((word) => [word, h("wbr")]);

/** The field whose unit the numbers of a measure have, if any. */
export const unitOf = ({ total, least, most, mean, first, last } = {}) => total ?? least ?? most ?? mean ?? first ?? last;

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
