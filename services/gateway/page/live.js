/** Data that moves: an event stream, and in its place the plain answer again and again while there is no stream. */

import { exact, get } from "./api.js";
import { h, setText } from "./dom.js";

const RETRY_MS = 2_000;

/**
 * Follow the stream at `path` whose events are called `event`; `plain` is the path of the same answer once.
 * `show(data)` gets each answer, `tell(state, problem)` whether this is "live", "polling" or "away".
 * A hidden page holds no stream. Returns what ends it.
 */
export function follow(path, event, plain, show, tell) {
  let source, timer, ended = false;

  function connect() {
    close();
    source = new EventSource(path);
    source.addEventListener("open", () => tell("live"));
    source.addEventListener(event, (message) => show(exact(message.data)));
    source.addEventListener("error", () => (source.readyState === EventSource.CLOSED ? instead() : tell("away")));
  }

  async function instead() {
    try {
      const data = await get(plain);
      if (!ended) show(data);
      if (!ended) tell("polling");
    } catch (problem) {
      if (!ended) tell("away", problem);
    }
    if (!ended && !document.hidden) timer = setTimeout(connect, RETRY_MS);
  }

  function close() {
    clearTimeout(timer);
    source?.close();
  }

  const seen = () => (document.hidden ? close() : connect());
  document.addEventListener("visibilitychange", seen);
  connect();
  return () => {
    ended = true;
    document.removeEventListener("visibilitychange", seen);
    close();
  };
}

/**
 * Call `read` every 2 s while the page is seen. `show(data)` gets each answer, `tell(problem)` the reason for none.
 * Without the rights, it is called once. Returns what ends it.
 */
export function poll(read, show, tell) {
  let timer, ended = false;

  async function look() {
    if (!document.hidden) await read().then((data) => ended || show(data), (problem) => ended || refused(problem));
    if (!ended) timer = setTimeout(look, RETRY_MS);
  }

  function refused(problem) {
    ended = [401, 403].includes(problem.status);
    tell(problem);
  }

  look();
  return () => {
    ended = true;
    clearTimeout(timer);
  };
}

const WORDS = { live: "live", polling: "every 2 s", away: "reconnecting …", waiting: "connecting …" };

/** The small mark that says whether a view is live; `set(state)` changes it. */
export function liveMark() {
  const word = h("span", {}, WORDS.waiting);
  const element = h("span", { class: "mark", role: "status", "data-state": "waiting" }, word);
  return {
    element,
    set(state) {
      element.dataset.state = state;
      setText(word, WORDS[state]);
    },
  };
}
