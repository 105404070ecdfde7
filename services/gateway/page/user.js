/** What is known of a user, as it changes. */

import { get } from "./api.js";
import { bars } from "./bars.js";
import { h, setText } from "./dom.js";
import { ago, count, dateTime, plural, textOf } from "./format.js";
import { follow, liveMark } from "./live.js";
import { parts } from "./parts.js";
import { recent } from "./recent.js";
import { recommendations } from "./recommendations.js";
import { search } from "./search.js";

const KINDS = ["artist", "album", "track"];
const AGES_MS = 1_000;
const SPOKEN_MS = 15_000;
const UNKNOWN = "Nothing is known of this user yet. The profile appears with the first play.";

/** The view of `#/users/{id}`. */
export function user(main, id) {
  const path = `v1/users/${id}`;
  const mark = liveMark();
  const note = h("p", { class: "note", hidden: "" });
  let schemas = {};
  // The schema of a part has the part's name in capitals, and says whose unit a number has.
  const view = profile((part, name) => textOf(schemas[part.split("-").map(capital).join("")]?.properties?.[name]?.description));
  main.append(
    h("div", { class: "top" },
      h("div", {}, h("div", { class: "title" }, h("h1", {}, `User ${id}`), mark.element), view.numbers), search(id)),
    note, view.element);

  function say(text, role = "alert") {
    note.hidden = !text;
    note.setAttribute("role", role);
    setText(note, text ?? "");
  }

  function show(answer) {
    if (answer) say(answer.warnings.join(" · "));
    else say(UNKNOWN, "status");
    view.element.hidden = view.numbers.hidden = !answer;
    if (answer) view.set(answer);
  }

  function tell(state, problem, parts) {
    const unknown = problem?.status === 404;
    mark.set(unknown ? "polling" : state);
    if (unknown) show(null);
    else if (problem) say(problem.message);
    view.element.classList.toggle("stale", state === "away" && !unknown);
    // A part whose service is missing makes the whole a problem; the default parts are what there is.
    if (parts && view.element.hidden && [400, 503].includes(problem?.status)) start("");
  }

  let end = () => {}, left = false;
  function start(parts) {
    end();
    const query = parts && `parts=${parts}`;
    const [stream, plain] = [`${path}/stream?${query}`, `${path}?explain=true&${query}`];
    end = follow(stream, "profile", plain, show, (state, problem) => tell(state, problem, parts));
  }

  get("openapi.json")
    .then(({ components }) => (schemas = components.schemas).Parts.items.enum.join(","))
    // While the gateway does not tell the names of the parts, the default parts are shown.
    .catch(() => "")
    .then((names) => left || start(names));
  return () => {
    left = true;
    end();
    view.end();
  };
}

function profile(textOf) {
  const facts = { plays: h("dd", { class: "big" }), first: h("dd"), last: h("dd") };
  const spoken = h("p", { class: "unseen", "aria-live": "polite" });
  const tops = KINDS.map((kind) => [`${capital(kind)}s`, bars(capital(kind))]);
  const advice = recommendations(KINDS);
  const plays = recent(), further = parts(textOf);
  const justPlayed = section("Just played", plays.element);
  let now;

  function ages() {
    if (!now) return;
    setText(facts.first, ago(now.firstListeningEvent));
    setText(facts.last, ago(now.lastListeningEvent));
    plays.ages();
    further.ages();
  }

  function set(answer) {
    now = answer;
    setText(facts.plays, count(answer.eventCount));
    facts.first.title = dateTime(answer.firstListeningEvent);
    facts.last.title = dateTime(answer.lastListeningEvent);
    tops.forEach(([kinds, list]) => list.set(answer[`topTen${kinds}`]));
    advice.set(answer);
    further.set(answer);
    justPlayed.hidden = !answer.recent;
    plays.set(answer.recent ?? []);
    ages();
  }

  const timers = [
    setInterval(ages, AGES_MS),
    setInterval(() => now && setText(spoken, plural(now.eventCount, "play")), SPOKEN_MS),
  ];
  const numbers = h("dl", { class: "facts", hidden: "" },
    fact("plays", facts.plays), fact("first", facts.first), fact("last", facts.last));
  const element = h("div", { class: "profile", hidden: "" },
    spoken,
    section("Most played", h("div", { class: "columns" },
      tops.map(([kinds, list]) => h("div", {}, h("h3", {}, kinds), list.element)))),
    further.element,
    section("May like next", advice.element),
    justPlayed);
  return { numbers, element, set, end: () => timers.forEach(clearInterval) };
}

const capital = (word) => word[0].toUpperCase() + word.slice(1);
const fact = (name, value) => h("div", {}, h("dt", {}, name), value);
const section = (title, content) => h("section", {}, h("h2", {}, title), content);
