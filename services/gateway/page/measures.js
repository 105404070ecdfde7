/** The measures of a profile at present: over all keys, or of a key that is chosen. */

import { get } from "./api.js";
import { unitOf } from "./declaration.js";
import { h, keyed, setText } from "./dom.js";
import { textOf } from "./format.js";
import { poll } from "./live.js";
import { part } from "./parts.js";

const SAMPLES = 8;
const OF_USERS = "/v1/users/<key>/";

/** The answers of `view`; `end()` ends them. */
export function measures(view) {
  const heading = h("h3", {}, "Live");
  const shown = part(view.name, (name) => textOf(unitOf(view.profile.measures[name])), null);
  const note = h("p", { class: "quiet", role: "status" }, "asking …");
  const keys = view.key ? chooser(view, choose) : null;
  const element = h("div", {}, heading, keys?.element, note, shown.element);
  let end = () => {}, left = false;

  function choose(key) {
    if (left) return;
    end();
    const path = view.path.slice(1).replace("<key>", encodeURIComponent(key));
    setText(heading, view.key ? `Live, key ${key}` : "Live, over all keys");
    setText(note, "asking …");
    reveal(false);
    end = poll(() => get(path), show, tell);
  }

  function reveal(answered) {
    note.hidden = answered;
    shown.element.hidden = !answered;
  }

  function show(answer) {
    reveal(true);
    shown.set(answer);
  }

  function tell(problem) {
    note.hidden = false;
    shown.element.hidden ||= problem.status === 404;
    setText(note, problem.status === 404 ? "Nothing is known of this key yet." : problem.message);
  }

  if (keys) keys.start((text) => setText(note, text));
  else choose("");
  return {
    element,
    end() {
      left = true;
      end();
    },
  };
}

/** A field for a key, and a sample of keys of users; `choose(key)` is called with the first one, and after a choice. */
function chooser(view, choose) {
  const id = `key-of-${view.name}`;
  const input = h("input", { id, autocomplete: "off", required: "" });
  const samples = h("ul", { class: "samples" });
  const element = h("form", { onsubmit: submit }, h("label", { for: id }, "Key"),
    h("div", { class: "field" }, input, h("button", { type: "submit" }, "Show")), samples);

  function submit(event) {
    event.preventDefault();
    choose(input.value.trim());
  }

  function take(key) {
    input.value = key;
    choose(key);
  }

  async function start(say) {
    if (!view.path.startsWith(OF_USERS)) return say("Type a key: no list of the keys is kept.");
    const found = await get(`v1/users?limit=${SAMPLES}`).then(({ users }) => users, (problem) => say(problem.message));
    if (!found) return;
    const button = (key) => h("li", {}, h("button", { type: "button", class: "sample", onclick: () => take(key) }, key));
    keyed(samples, found, String, button, () => {});
    if (found.length) take(found[0]);
    else say("No user yet: one appears with the first event.");
  }

  return { element, start };
}
