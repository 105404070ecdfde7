/** Members of a profile part by their shapes. */

const EVER = "ever";

/** The members that are `facts` and `rankings`, as pairs of name and value, and all that are `byWindow`, as a Map. */
export function shapes({ key: _key, windows = {}, ...members }) {
  const found = { facts: [], rankings: [], byWindow: new Map() };
  for (const [name, value] of Object.entries(members)) {
    const names = isObject(value) ? Object.keys(value) : [];
    const byWindow = names.length > 0 && names.every((each) => Object.hasOwn(windows, each) || each === EVER);
    const values = byWindow ? Object.values(value) : [value];
    const ranked = values.every(ranking), counted = values.every(Number.isFinite);
    if (ranked) found.rankings.push([name, value]);
    else if (!byWindow && (counted || typeof value === "string")) found.facts.push([name, value]);
    if (byWindow && (ranked || counted)) found.byWindow.set(name, value);
  }
  return found;
}

/** A list of `{value, count}`, or a map of numbers by value, as such a list; null for any other value. */
export function ranking(value) {
  if (typeof value !== "object" || value === null) return null;
  const items = Array.isArray(value) ? value : Object.entries(value)
    .map(([value, count]) => ({ value, count })).sort((one, other) => other.count - one.count);
  return items.every((item) => Number.isFinite(item?.count)) ? items : null;
}

export const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);
