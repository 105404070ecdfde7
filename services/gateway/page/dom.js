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

/** Draw the eye to an element for a moment, by its background: its text stays legible. */
export const glow = (element) => animate(element, [{ offset: 0, backgroundColor: "var(--glow)" }], 1_200);

/** Play an animation, unless the reader wants none. */
export function animate(element, keyframes, milliseconds) {
  if (!still.matches) element.animate(keyframes, { duration: milliseconds, easing: "ease-out" });
}

/**
 * Show `items` as the children of `list`. An item that stays keeps its element, which glides to its new place.
 * `key` names an item, `make` gives a new element, `update` brings an element up to date.
 */
export function keyed(list, items, key, make, update) {
  const before = new Map([...list.children].map((child) => [child.dataset.key, child]));
  const tops = new Map([...list.children].map((child) => [child, child.offsetTop]));
  items.forEach((item, place) => {
    const name = String(key(item));
    const element = before.get(name) ?? make(item);
    before.delete(name);
    element.dataset.key = name;
    update(element, item);
    if (list.children[place] !== element) list.insertBefore(element, list.children[place] ?? null);
  });
  before.forEach((child) => child.remove());
  if (tops.size) for (const child of list.children) glide(child, tops.get(child));
}

function glide(child, top) {
  if (top === undefined) glow(child);
  else if (top !== child.offsetTop) animate(child, { transform: [`translateY(${top - child.offsetTop}px)`, "none"] }, 350);
}
