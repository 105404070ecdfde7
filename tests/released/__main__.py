"""Write the promises and the states of this release."""

import json

from tests.released.documents import ANSWERS, STATES, promised
from tests.released.states import states

if __name__ == "__main__":
    lines = (" | ".join([path, *sorted(kept)]) for path, kept in sorted(promised().items()))
    ANSWERS.write_text("\n".join(lines) + "\n")
    stored = (f"{json.dumps(service)}: {json.dumps(state, sort_keys=True)}" for service, state in states().items())
    STATES.write_text("{\n" + ",\n".join(sorted(stored)) + "\n}\n")
