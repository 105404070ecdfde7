"""The starts of walks, as a request names them."""

from collections.abc import Mapping, Sequence

from services.events import KINDS
from services.recommendations.control.rules import ID
from services.recommendations.graph.bipartite import Bipartite
from services.recommendations.walks.salsa import Start
from streamstate.errors import BadKey
from streamstate.keys import LONG
from streamstate.web.http.parameters import bad_parameter

USER = "user"
MOST = 20
"""The most starts of a request."""

_ONE = rf"(?:{USER}|(?:{'|'.join(KINDS)}):{ID})(?::[0-9]{{1,3}}(?:\.[0-9]{{1,3}})?)?"
PATTERN = rf"^{_ONE}(?:,{_ONE}){{0,{MOST - 1}}}$"


class Starts:
    """Users and items with weights, parsed from a text such as `artists:1:0.7,artists:5:0.3,user`."""

    def __init__(self, text: str) -> None:
        """Raises a 400 `Problem` for an id or a weight beyond its limits."""
        self._weights: dict[tuple[str, int | None], float] = {}
        for one in filter(None, text.split(",")):
            kind, *rest = one.split(":")
            item = None if kind == USER else parse_id("starts", rest.pop(0))
            weight = float(rest[0]) if rest else 1.0
            if weight == 0:
                raise bad_parameter(f"starts: the weight of {one} is 0; leave the start out")
            self._weights[kind, item] = self._weights.get((kind, item), 0.0) + weight

    def items(self, kind: str) -> Sequence[int]:
        """The ids of the items of the kind."""
        return [item for of, item in self._weights if of == kind and item is not None]

    def within(self, views: Mapping[str, Bipartite], user: int | None) -> Sequence[Start]:
        """The starts in the graph. Raises a 400 `Problem` for the start `user` without a user."""
        starts = []
        for (kind, item), weight in self._weights.items():
            if item is not None:
                starts.append(Start(views[kind].listeners(item), weight))
            elif user is None:
                raise bad_parameter(f"starts: {USER} is known only at /v1/users/; name items")
            else:
                starts.append(Start(views[KINDS[0]].at(user), weight))
        return starts


def parse_id(parameter: str, text: str) -> int:
    """The id. Raises a 400 `Problem` that names the parameter, for an id beyond its limit."""
    try:
        return LONG.parse(text)
    except BadKey as error:
        raise bad_parameter(f"{parameter}: {error}") from error
