/** The services, their partitions and how they do. */

import { chart } from "./chart.js";
import { h, keyed, setText } from "./dom.js";
import { compact, count, duration, plural } from "./format.js";
import { follow, isSilent, liveMark } from "./live.js";
import { partitionMap } from "./map.js";

const SAMPLE_MS = 1_000;
const REMEMBERED = 12;

/** What the stages mean at which a record is refused. */
const REFUSED = {
  decode: "cannot be decoded",
  fold: "cannot be folded",
  schema: "of an unknown schema",
  timestamp: "out of time",
  skip: "left out by an operator",
};

/** The view of `#/system`. */
export function system(main) {
  const mark = liveMark();
  const note = h("p", { class: "note", role: "alert", hidden: "" });
  const list = h("div", { class: "services" });
  const log = h("ol", { class: "log", "aria-live": "polite" });
  const changes = h("section", { hidden: "" }, h("h2", {}, "What changed"), log);
  const cards = new Map();
  let away = true;
  main.append(h("div", { class: "title" }, h("h1", {}, "System"), mark.element), note, list, changes);

  function show(answer) {
    keyed(list, answer.services, (service) => service.name, make, (_element, service) => remember(cards.get(service.name).set(service)));
  }

  function make(service) {
    cards.set(service.name, card(service.name));
    return cards.get(service.name).element;
  }

  function remember(moves) {
    const time = new Date().toLocaleTimeString();
    moves.forEach((move) => log.prepend(h("li", {}, h("time", {}, time), move)));
    while (log.children.length > REMEMBERED) log.lastChild.remove();
    changes.hidden = !log.children.length;
  }

  function tell(state, problem) {
    away = state === "away";
    mark.set(state);
    note.hidden = !problem;
    setText(note, problem?.message ?? "");
    list.classList.toggle("stale", away);
  }

  const timer = setInterval(() => away || cards.forEach((card) => card.sample()), SAMPLE_MS);
  const end = follow("v1/system/stream", "system", "v1/system", show, tell);
  return () => {
    clearInterval(timer);
    end();
  };
}

function card(name) {
  const map = partitionMap(name);
  const state = h("span", { class: "state" });
  const built = h("progress", { max: "1", "aria-label": `${name}: the state being built` });
  const building = h("p", { class: "building", hidden: "" }, "the state is being built ", built, h("span"));
  const troubles = h("ul", { class: "troubles", role: "alert" });
  const letters = h("h3"), reasons = h("ul", { class: "reasons" });
  const dead = h("section", { class: "dead" }, letters, reasons,
    h("p", { class: "quiet" }, "Records that could not be used; all others count. They are kept: ", h("code", {}, `streamstate dlq list ${name}`)));
  const charts = [
    [chart("lag, records", compact), (now) => (isSilent() ? null : now.lag)],
    [chart("freshness", duration), (now) => now.freshnessMs],
    [chart("reads/s", (value) => (value < 10 ? value.toFixed(1) : compact(value))), (now) => now.readsPerSecond],
  ];
  let now;

  function set(service) {
    now = service;
    const folds = !service.troubles.length;
    setText(state, `${service.ready ? "ready" : "not ready"}${folds ? "" : ", does not fold"}${service.live ? "" : ", not live"}`);
    state.dataset.ready = service.ready && folds;
    building.hidden = service.owners.every((owner) => owner.state !== "building");
    built.value = service.progress;
    setText(building.lastChild, ` ${Math.floor(100 * service.progress)} %`);
    keyed(troubles, service.troubles, (text) => text, () => h("li"), setText);
    dead.hidden = !service.deadLetters;
    setText(letters, plural(service.deadLetters, "dead letter"));
    const most = Object.entries(service.deadLetterReasons).sort(([, one], [, other]) => other - one);
    keyed(reasons, most, ([reason]) => reason, reasonRow, explainReason);
    return map.set(service.owners);
  }

  const element = h("article", { class: "service", "aria-label": name },
    h("h2", {}, name, state), building, troubles, map.element,
    h("div", { class: "charts" }, charts.map(([chart]) => chart.element)), dead);
  return { element, set, sample: () => now && charts.forEach(([chart, value]) => chart.add(value(now))) };
}

const reasonRow = () => h("li", {}, h("span", { class: "count" }), h("span"), h("code", { class: "quiet" }));

function explainReason(row, [reason, number]) {
  const [stage, exception] = reason.split(": ");
  const [counted, words, raised] = row.children;
  setText(counted, count(number));
  setText(words, REFUSED[stage] ?? stage);
  setText(raised, exception ?? "");
}
