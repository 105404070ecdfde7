/** What moves at present: the busiest topics, keys that were just updated, and windows. */

import { chart } from "./chart.js";
import { h, keyed, setText } from "./dom.js";
import { compact, plural } from "./format.js";
import { follow, liveMark } from "./live.js";
import { samples, topicsOf, usersOf } from "./samples.js";
import { windowChart } from "./windowchart.js";

const BUSIEST = 6;
const SAMPLE_MS = 1_000;

/** Fill `element`, given the paths of the API; returns what ends it. */
export function overview(element, paths) {
  const topics = busiest();
  const ends = [topics.end], columns = h("div", { class: "columns wide" });
  for (const source of [...usersOf(paths), ...topicsOf(paths)]) {
    let windowed = !source.windows;
    const listed = samples(source, (key) => {
      // The first key stays: a chart that changes its key with each event cannot be read.
      if (windowed) return;
      windowed = true;
      const drawn = windowChart(source.windows(key));
      ends.push(drawn.end);
      listed.element.append(h("h3", {}, `Windows of the key ${key}`), drawn.element);
    });
    ends.push(listed.end);
    columns.append(listed.element);
  }
  element.replaceChildren(topics.element,
    h("section", {}, h("h2", {}, "Just updated"),
      columns.children.length ? columns : h("p", { class: "quiet" }, "No service answers about users or topics by key.")));
  return () => ends.forEach((end) => end());
}

function busiest() {
  const mark = liveMark();
  const note = h("p", { class: "quiet", role: "status" }, "asking …");
  const list = h("ol", { class: "charts" }), charts = new WeakMap();
  const element = h("section", {}, h("div", { class: "title" }, h("h2", {}, "Busiest topics"), mark.element), note, list);
  let now = [];

  function show({ topics = [] }) {
    now = topics.slice(0, BUSIEST);
    keyed(list, now, ({ name }) => name, make, (row, { records }) => setText(row.lastChild, plural(records, "record")));
    setText(note, topics.length ? "Records a second, over ten seconds." : "No topic has records yet.");
  }

  function make({ name }) {
    const rate = chart(name, (value) => `${value < 10 ? value.toFixed(1) : compact(value)}/s`);
    const row = h("li", {}, rate.element, h("p", { class: "quiet" }));
    charts.set(row, rate);
    return row;
  }

  function tell(state, problem) {
    mark.set(state);
    list.classList.toggle("stale", state === "away");
    if (problem) setText(note, problem.message);
  }

  const sample = () => now.forEach(({ recordsPerSecond }, at) => charts.get(list.children[at]).add(recordsPerSecond));
  const timer = setInterval(sample, SAMPLE_MS);
  const end = follow("v1/system/stream", "system", "v1/system", show, tell);
  return {
    element,
    end() {
      clearInterval(timer);
      end();
    },
  };
}
