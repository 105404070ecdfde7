/** Elements from data, which only ever becomes text, and lists whose items keep their elements. */

const SVG = "http://www.w3.org/2000/svg";
const still = matchMedia("(prefers-reduced-motion: reduce)");

/** An element. Attributes that are null or false are left out, those that begin with "on" are listeners. */
export const h = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);

/** The same for SVG. */
export const svg = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value != null && value !== false) element.setAttribute(name, value);
  }
  element.append(...children.flat().filter((child) => child != null));
  return element;
}

/** Set the text of an element only where it changes, and say whether it did. */
export function setText(element, text) {
  const changes = element.textContent !== String(text);
  if (changes) element.textContent = text;
  return changes;
}

/** Draw the eye to an element for a moment, by its background: its text stays legible, and nothing covers it. */
export function glow(element) {
  if (!still.matches) element.animate([{ offset: 0, backgroundColor: "var(--glow)" }], { duration: 1_200, easing: "ease-out" });
}

/**
 * Show `items` as the children of `list`. An item that stays keeps its element; one that is new or has risen glows.
 * `key` names an item: items of one name are told apart by their order. `make` gives a new element, `update` brings an
 * element up to date.
 */
export function keyed(list, items, key, make, update) {
  const before = new Map([...list.children].map((child) => [child.dataset.key, child]));
  const repeats = new Map();
  const names = items.map((item) => {
    const name = String(key(item)), repeat = repeats.get(name) ?? 0;
    repeats.set(name, repeat + 1);
    return `${repeat}:${name}`;
  });
  const kept = new Set(names);
  before.forEach((child, name) => kept.has(name) || child.remove());
  items.forEach((item, place) => {
    const element = before.get(names[place]) ?? make(item), follower = list.children[place];
    element.dataset.key = names[place];
    update(element, item);
    if (follower === element) return;
    list.insertBefore(element, follower ?? null);
    if (before.size) glow(element);
  });
}
