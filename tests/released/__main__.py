"""Write the promises and the states of this release."""

import json

from streamstate.releases.contract import promises
from tests.released.documents import ANSWERS, STATES, documents
from tests.released.states import states

if __name__ == "__main__":
    lines = {f"{service}: {line}" for service, document in documents().items() for line in promises(document)}
    ANSWERS.write_text("\n".join(sorted(lines)) + "\n")
    STATES.write_text(json.dumps(states(), indent=2, sort_keys=True) + "\n")
