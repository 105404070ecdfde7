/** Some keys of users and topics, those first that were updated last. */

import { get } from "./api.js";
import { glow, h, keyed, setText } from "./dom.js";
import { ago, dateTime, plural } from "./format.js";
import { poll } from "./live.js";

const ASKED = 40;
const SHOWN = 8;
const NO_USERS = "No user yet: one appears with the first event.";
const NO_KEYS = "No key yet among those that were tried. Choose a call above, and type a key.";
const TEXT_KEYS = "To see keys here, keep them: keys: true for this topic in STREAMSTATE_KEPT.";

/** Users, if the services tell their plays. */
export function usersOf(paths) {
  if (!asked(paths, "metrics")) return [];
  const keys = () => get(`v1/users?limit=${ASKED}`).then(({ users }) => users);
  const read = ({ lastListeningEvent, eventCount }) => [Date.parse(lastListeningEvent), plural(eventCount, "play")];
  return [{ name: "Users", view: "metrics", keys, read, empty: NO_USERS, address: (key) => `#/users/${key}` }];
}

/** The topics whose last values are kept; `windows` is the path of a topic's windows. */
export function topicsOf(paths) {
  const names = Object.keys(paths).map((path) => path.match(/^\/v1\/topics\/([^/]+)\/{key}$/)?.[1]);
  return names.filter((name) => name && asked(paths, `topic-${name}`)).map((name) => topicOf(paths, name));
}

const asked = (paths, view) => paths["/v1/many"].get.parameters.some(({ name }) => name === view);

function topicOf(paths, name) {
  const path = `/v1/topics/${name}`, windows = `${path}/{key}/windows`, call = windows in paths ? windows : `${path}/{key}`;
  const numbers = paths[`${path}/{key}`].get.parameters.find(({ name }) => name === "key").schema.type === "integer";
  const kept = path in paths;
  const keys = kept
    ? () => get(`v1/topics/${name}?limit=${ASKED}`).then(({ keys }) => keys)
    : async () => (numbers ? [...Array(ASKED).keys()] : []);
  const read = ({ timestamp, value }) => [timestamp, typeof value === "string" ? value : JSON.stringify(value)];
  const address = (key) => `#/explore?${new URLSearchParams({ path: call, key })}`;
  const pathOf = windows in paths && ((key) => windows.slice(1).replace("{key}", encodeURIComponent(key)));
  return { name, view: `topic-${name}`, keys, read, empty: kept || numbers ? NO_KEYS : TEXT_KEYS, address, windows: pathOf };
}

/** A list of keys of a source; `newest(key)` is called with the key that was updated last. */
export function samples({ name, view, keys, read, empty, address }, newest = () => {}) {
  const note = h("p", { class: "quiet", role: "status" }, "asking …");
  const list = h("ol", { class: "recent" });
  const element = h("section", { "aria-label": name }, h("h3", {}, name), note, list);
  let known = [];

  async function look() {
    if (!known.length) known = await keys();
    if (!known.length) return [];
    const query = known.map((key) => `${view}=${encodeURIComponent(key)}`).join("&");
    return Object.entries((await get(`v1/many?${query}`))[view]).filter(([, answer]) => answer);
  }

  function show(answers) {
    const found = answers.map(([key, answer]) => [key, ...read(answer)]).sort(([, one], [, other]) => other - one);
    keyed(list, found.slice(0, SHOWN), ([key]) => key, ([key]) => row(address(key)), update);
    note.hidden = found.length > 0;
    setText(note, empty);
    if (found.length) newest(found[0][0]);
  }

  function tell(problem) {
    note.hidden = false;
    setText(note, problem.message);
  }

  return { element, end: poll(look, show, tell) };
}

const row = (address) => h("li", {}, h("a", { class: "name", href: address }), h("span", { class: "by" }), h("time"));

function update(row, [key, updated, text]) {
  const [name, by, time] = row.children, before = time.dataset.time;
  setText(name, key);
  setText(by, text);
  if (before && before !== String(updated)) glow(row);
  time.dataset.time = updated;
  time.title = dateTime(updated);
  setText(time, ago(updated));
}
