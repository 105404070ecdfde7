/** Members of a profile part by their shapes. */

const EVER = "ever";

export const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);

/**
 * The members of a part: `facts` and `lists` as pairs of name and value, and those with a value for each window again in
 * `byWindow`, a Map.
 */
export function shapes({ key: _key, windows = {}, ...members }) {
  const found = { facts: [], lists: [], byWindow: new Map() };
  for (const [name, value] of Object.entries(members)) {
    if (name === "warnings" && value?.length === 0) continue;
    const names = isObject(value) ? Object.keys(value) : [];
    const byWindow = names.length > 0 && names.every((each) => Object.hasOwn(windows, each) || each === EVER);
    if (byWindow) found.byWindow.set(name, value);
    if ((byWindow ? Object.values(value) : [value]).every(items)) found.lists.push([name, value]);
    else if (!byWindow) found.facts.push([name, value]);
  }
  return found;
}

/**
 * The items of a list as `{id, value, number, time}`, or of a map of numbers by value, the greatest number first; null
 * for a value that is neither. Items have a number, a time in ms, or only a value.
 */
export function items(value) {
  if (Array.isArray(value)) return newestFirst(value).map(item).filter(({ value }) => value !== undefined);
  if (!isObject(value)) return null;
  return Object.entries(value)
    .filter(([, number]) => Number.isFinite(number))
    .map(([value, number]) => ({ id: value, value, number }))
    .sort((one, other) => other.number - one.number);
}

const newestFirst = (list) => (list[0]?.start === undefined ? list : list.toReversed());

const item = (item) =>
  isObject(item)
    ? item.start !== undefined ? { id: item.start, value: new Date(item.start).toISOString().slice(0, 16), number: item.count ?? item.total }
    : { id: item.id ?? item.value, value: item.value ?? item.name ?? item.id, number: item.count ?? item.total ?? item.countPlays, time: item.timestamp }
    : { id: item, value: item };
