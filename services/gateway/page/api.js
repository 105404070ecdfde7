/** Calls to the gateway that serves this page. */

/** An answer that is an error; `status` is 0 when the gateway cannot be reached. */
export class Problem extends Error {
  constructor(status, detail) {
    super(detail);
    this.status = status;
  }
}

/** JSON whose whole numbers beyond 2^53, such as ids, stay exact as texts. */
export const exact = (text) =>
  JSON.parse(text, (_name, value, context) =>
    Number.isInteger(value) && !Number.isSafeInteger(value) && context ? context.source : value,
  );

/** The answer for a path, whatever it is. Throws a Problem when there is none. */
export async function ask(path) {
  try {
    const answer = await fetch(path);
    return { status: answer.status, headers: answer.headers, text: await answer.text() };
  } catch {
    throw new Problem(0, "The gateway does not answer. This page tries again.");
  }
}

/** The JSON for a path. Throws a Problem for any answer but 200. */
export async function get(path) {
  const answer = await ask(path);
  if (answer.status === 200) return exact(answer.text);
  let detail = `The gateway answered ${answer.status}.`;
  try {
    detail = JSON.parse(answer.text).detail ?? detail;
  } catch {
    // A proxy in between may answer with something else.
  }
  throw new Problem(answer.status, detail);
}
