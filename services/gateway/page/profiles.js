/** The deployed profiles: their measures, declared and live, and their releases. */

import { get } from "./api.js";
import { declaration, differences, table } from "./declaration.js";
import { h, keyed, setText } from "./dom.js";
import { bytes, compact } from "./format.js";
import { follow, liveMark } from "./live.js";
import { measures } from "./measures.js";

/** The profiles of this project come last: the reader's own are looked for. */
const LAST = ["habits", "metrics", "plays"];
const MEASURED_MS = 60_000;
const UNMEASURED = "The Redis user of the API needs the commands dbsize, info, memory|usage and randomkey.";
const NONE = "No profile is deployed. Declare one in a YAML file: docs/profile.md shows how.";

/** The view of `#/profiles`. */
export function profiles(main) {
  const mark = liveMark();
  const note = h("p", { class: "note", role: "alert", hidden: "" });
  const empty = h("p", { class: "quiet", role: "status" }, "asking …");
  const list = h("div", { class: "profiles" });
  const maps = new Map(), cards = new Map();
  let releases = [], left = false;
  main.append(h("div", { class: "title" }, h("h1", {}, "Profiles"), mark.element),
    h("p", { class: "lead" }, "Measures as declared, as they are at present, and the releases that keep them."), note, empty, list);

  function show({ services }) {
    releases = services;
    const due = ({ release }) => !((maps.get(release)?.due ?? 0) > performance.now());
    services.filter(due).forEach(({ release }) => describe(release));
    draw();
  }

  /** Read the profiles of a release, then its memory each minute; a release that does not answer is asked again. */
  async function describe(release) {
    const before = maps.get(release), query = before?.profiles?.length ? "?memory=true" : "";
    maps.set(release, { ...before, due: performance.now() + MEASURED_MS });
    try {
      const { views, memory } = await get(`v1/${release}/processors${query}`);
      const profiles = views.filter(({ profile }) => profile);
      maps.set(release, { profiles, memory, due: query || !profiles.length ? maps.get(release).due : 0 });
    } catch {
      maps.set(release, { ...before, due: 0 });
    }
    draw();
  }

  function draw() {
    if (left) return;
    const found = releases.filter(({ live }) => live).flatMap(({ service, release }) =>
      (maps.get(release)?.profiles ?? []).map((view) => ({ view, releases: beside(service, view) })));
    const place = ({ view }) => LAST.indexOf(view.name);
    found.sort((one, other) => place(one) - place(other));
    keyed(list, found, ({ view }) => view.path, make, (element, { releases }) => cards.get(element).set(releases));
    leave(({ isConnected }) => !isConnected);
    empty.hidden = found.length > 0;
    if (releases.every(({ release }) => maps.get(release)?.profiles)) setText(empty, NONE);
  }

  /** The releases of a service, each with its memory and its profile in place of `view`. */
  const beside = (service, view) =>
    releases.filter((each) => each.service === service).map((each) => {
      const { profiles = [], memory } = maps.get(each.release) ?? {};
      return { ...each, memory, profile: profiles.find(({ path }) => path === view.path)?.profile };
    });

  function make({ view }) {
    const made = card(view);
    cards.set(made.element, made);
    return made.element;
  }

  /** End the cards whose elements are `gone`. */
  function leave(gone) {
    for (const [element, { end }] of cards) if (gone(element) && cards.delete(element)) end();
  }

  function tell(state, problem) {
    mark.set(state);
    note.hidden = !problem;
    empty.hidden ||= Boolean(problem);
    setText(note, problem?.message ?? "");
    list.classList.toggle("stale", state === "away");
  }

  const end = follow("v1/system/stream", "system", "v1/system", show, tell);
  return () => {
    left = true;
    end();
    leave(() => true);
  };
}

function card(view) {
  const { name, topic, key, summary } = view.profile;
  const now = measures(view);
  const releasesTable = table(`Releases of ${name}`, ["release", "answers", "state", "lag", "memory"], []);
  const about = h("p", { class: "quiet" }, summary ? `${summary}. ` : "", "Of ", h("code", {}, topic), `, ${view.key ? `by key (${key})` : "over all keys"}, at `, h("code", {}, view.path));
  const element = h("article", { class: "declared", "aria-label": name }, h("h2", {}, name), about,
    h("div", { class: "columns wide" },
      h("div", {}, declaration(view.profile), h("section", {}, h("h3", {}, "Releases"), releasesTable)),
      now.element));

  function set(releases) {
    const live = releases.find(({ live }) => live).profile;
    keyed(releasesTable.tBodies[0], releases, ({ release }) => release, row, (element, release) => update(element, release, live));
  }

  return { element, set, end: now.end };
}

const row = () => h("tr", {}, h("th", { scope: "row" }), ...Array.from({ length: 4 }, () => h("td")));

function update(row, { release, live, ready, progress, lag, memory, profile }, present) {
  const building = progress < 1 ? `being built, ${Math.floor(100 * progress)} %` : "not ready";
  const changes = live || !profile ? [] : differences(present, profile);
  const texts = [release, live ? "live" : `staged${changes.length ? `; differs in ${changes.join(", ")}` : ""}`,
    ready ? "ready" : building, compact(lag), memory ? `≈ ${bytes(memory)}` : memory === undefined ? "…" : "unknown"];
  texts.forEach((text, at) => setText(row.children[at], text));
  row.lastChild.title = memory === null ? UNMEASURED : "";
}
