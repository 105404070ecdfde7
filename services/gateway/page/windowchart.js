/** The windows of a key as bars over time, kept up. */

import { get } from "./api.js";
import { h, setText, svg } from "./dom.js";
import { compact, count, dateTime } from "./format.js";
import { poll } from "./live.js";

const SHOWN = 48;
const LEAST = 12;
const WIDTH = 480;
const HEIGHT = 80;

/** A chart of the answer at `path` of a view of windows; `end()` ends it. */
export function windowChart(path) {
  const charts = ["count", "sum"].map(bars);
  const note = h("p", { class: "quiet", role: "status" }, "asking …");
  const element = h("div", { class: "windowed" }, note, h("div", { class: "charts two" }, charts.map(({ element }) => element)));

  function show({ windows }) {
    const sorted = windows.toSorted((one, other) => one.start - other.start), last = sorted.at(-1);
    setText(note, last ? `${dateTime(sorted[0].start)} – ${dateTime(last.end)}` : "This key has no windows.");
    charts.forEach(({ set }) => set(sorted));
  }

  const tell = (problem) => setText(note, problem.status === 404 ? "This key has no windows yet." : problem.message);
  return { element, end: poll(() => get(`${path}?order=desc&limit=${SHOWN}`), show, tell) };
}

/** Bars of the `member` of windows. */
function bars(member) {
  const value = h("span", { class: "value" }, "–");
  const drawing = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img" });
  const element = h("figure", { class: "chart" }, h("figcaption", {}, h("span", {}, `${member}, newest window`), value), drawing);

  function set(windows) {
    const numbers = windows.map((window) => window[member]);
    setText(value, numbers.length ? compact(numbers.at(-1)) : "–");
    drawing.setAttribute("aria-label", `${member} by window: ${numbers.map((number) => count(number)).join(", ")}`);
    drawing.replaceChildren(...windows.map((window, at) => bar(window, numbers, at, windows)));
  }

  return { element, set };
}

function bar(window, numbers, at, windows) {
  // Windows may overlap: a bar is as wide as the least step.
  const each = step(windows), end = windows.at(-1).start + each;
  const length = Math.max(end - windows[0].start, LEAST * each);
  const width = (WIDTH * each) / length, x = WIDTH * (1 - (end - window.start) / length);
  const [least, most] = [Math.min(0, ...numbers), Math.max(0, ...numbers)], scale = HEIGHT / (most - least || 1);
  const top = (most - Math.max(0, numbers[at])) * scale;
  const title = svg("title", {}, `${dateTime(window.start)} – ${dateTime(window.end)}: ${count(numbers[at])}`);
  return svg("rect", { class: "windowbar", x: x + width * 0.1, y: top, width: width * 0.8, height: Math.max(1, Math.abs(numbers[at]) * scale) }, title);
}

/** The least time from one start to the next. */
export const step = (windows) =>
  Math.min(windows[0].end - windows[0].start, ...windows.slice(1).map((window, at) => window.start - windows[at].start));
