/** Any answer of any service by its key, with the address of the call; before a call, what moves at present. */

import { ask, get } from "./api.js";
import { h, setText } from "./dom.js";
import { overview } from "./overview.js";
import { windowChart } from "./windowchart.js";

const TOLD = ["Served-By", "Position", "State-Age-Ms"];

/** The view of `#/explore?path=…&key=…`. */
export function explore(main, part) {
  const form = h("form", { class: "explore", onsubmit: (event) => submit(event, form), onchange: renew });
  const moving = h("div", { class: "moving" });
  const note = h("p", { class: "note", role: "alert", hidden: "" });
  let end = () => {}, left = false, calls = [], result = results();
  main.append(h("h1", {}, "Explore"),
    h("p", { class: "lead" }, "Any topic, region, window or name by its key, as the API answers it."), note, form, moving, result);

  async function start(wanted) {
    const { paths } = await get("openapi.json");
    if (left) return;
    calls = listed(paths);
    const chosen = calls.find((call) => call.path === wanted.get("path"));
    fill(form, calls, chosen ?? calls[0], wanted);
    if (!wanted.has("path")) end = overview(moving, paths);
    else if (!chosen) throw new Error(`No service answers at ${wanted.get("path")}. Choose another call.`);
    else if (chosen.path.endsWith("/windows")) {
      const drawn = windowChart(address(chosen, new URLSearchParams({ key: wanted.get("key") })));
      end = drawn.end;
      moving.append(h("h2", {}, `Windows of the key ${wanted.get("key")}`), drawn.element);
    }
    if (wanted.has("path")) await answer(result, chosen, wanted);
  }

  /** Another call has other parameters, and no answer yet. */
  function renew({ target }) {
    if (target.id !== "path") return;
    end();
    note.hidden = true;
    fill(form, calls, calls[target.selectedIndex], new URLSearchParams(new FormData(form)));
    moving.replaceChildren();
    // An answer that is still awaited goes into the old element.
    const before = result;
    before.replaceWith(result = results());
  }

  start(new URLSearchParams(part)).catch((problem) => {
    note.hidden = false;
    setText(note, problem.message);
  });
  return () => {
    left = true;
    end();
  };
}

const results = () => h("section", { class: "result", "aria-live": "polite" });

/** The calls that are about a key, or about everything, and answer once. */
export function listed(paths) {
  return Object.entries(paths)
    .filter(([path, item]) => path.startsWith("/v1/") && item.get && !/\/stream$|^\/v1\/many$/.test(path))
    .map(([path, { get }]) => ({ path, summary: get.summary, parameters: (get.parameters ?? []).filter(({ in: place }) => place !== "header") }))
    .sort((one, other) => (one.path < other.path ? -1 : 1));
}

/** The address of a call, relative to the gateway's. */
export function address({ path, parameters }, wanted) {
  const filled = path.replace(/{(\w+)}/g, (_place, name) => encodeURIComponent(wanted.get(name) ?? ""));
  const query = new URLSearchParams();
  for (const { name, in: place } of parameters) if (place === "query" && wanted.get(name)) query.set(name, wanted.get(name));
  return `${filled.slice(1)}${query.size ? `?${query}` : ""}`;
}

function submit(event, form) {
  event.preventDefault();
  const given = [...new FormData(form)].filter(([, text]) => text);
  const wanted = `#/explore?${new URLSearchParams(given)}`;
  // The same question may have another answer by now.
  if (location.hash === wanted) dispatchEvent(new HashChangeEvent("hashchange"));
  else location.hash = wanted;
}

function fill(form, calls, chosen, wanted) {
  const options = calls.map(({ path, summary }) => h("option", { value: path, selected: path === chosen.path ? "" : null }, `${path} – ${summary}`));
  const choose = h("select", { id: "path", name: "path" }, options);
  const inputs = chosen.parameters.map(({ name, description, required }) =>
    h("div", {},
      h("label", { for: `given-${name}` }, name, required ? "" : h("span", { class: "quiet" }, " (optional)")),
      h("input", { id: `given-${name}`, name, required: required ? "" : null, value: wanted.get(name) ?? "", autocomplete: "off", "aria-describedby": `about-${name}` }),
      h("p", { id: `about-${name}`, class: "hint" }, (description ?? "").replaceAll("`", ""))));
  const focused = document.activeElement?.id;
  form.replaceChildren(h("div", { class: "wide" }, h("label", { for: "path" }, "Call"), choose), ...inputs, h("button", { type: "submit" }, "Ask"));
  if (focused) document.getElementById(focused)?.focus();
}

async function answer(result, call, wanted) {
  const path = address(call, wanted);
  const url = new URL(path, document.baseURI).href;
  const { status, headers, text } = await ask(path);
  const copied = h("span", { class: "quiet", role: "status" });
  const shown = h("code", {}, url);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(url);
      setText(copied, "copied");
    } catch {
      // Browsers refuse it on pages that came without TLS from another machine.
      getSelection().selectAllChildren(shown);
      setText(copied, "selected: copy it with Ctrl+C");
    }
  };
  const told = TOLD.filter((name) => headers.has(name)).map((name) => h("div", {}, h("dt", {}, name), h("dd", {}, headers.get(name))));
  result.replaceChildren(
    h("h2", {}, status === 200 ? "Answer" : `Answer ${status}`),
    h("p", { class: "address" }, shown, h("button", { type: "button", onclick: copy }, "Copy address"), copied),
    h("dl", { class: "told" }, told),
    h("pre", { tabindex: "0", "aria-label": "the answer" }, pretty(text)));
}

/** JSON with line breaks, numbers as they are written; any other text as it is. */
export function pretty(text) {
  try {
    const kept = (_name, value, context) => (typeof value === "number" && JSON.rawJSON && context ? JSON.rawJSON(context.source) : value);
    return JSON.stringify(JSON.parse(text, kept), null, 2);
  } catch {
    return text;
  }
}
