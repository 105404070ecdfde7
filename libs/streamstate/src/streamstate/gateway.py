"""A service's declarations of its views for the gateway, sent with the owner map: the gateway knows no service."""

from typing import Literal

import msgspec

Scope = Literal["read", "explore", "admin"]
"""A caller's rights: read the data of a key, explore the data of all keys, operate."""

READ: Scope = "read"
EXPLORE: Scope = "explore"
ADMIN: Scope = "admin"


class NamedIds(msgspec.Struct, frozen=True, omit_defaults=True):
    """The ids in the answer of a view to which the gateway adds names.

    views: by the path of an id in the answer, the view whose answer for the id has its `name`. A path is the names of
        the lists on the way to the id, and of its member, joined by dots. The gateway adds the name beside the id:
        `name` beside `id`, `artistName` beside `artistId`; null for an unknown name.
    empty_warnings: whether the answer has the member `warnings` also when no name is missing.
    """

    views: dict[str, str]
    empty_warnings: bool = True


class Cost(msgspec.Struct, frozen=True, omit_defaults=True):
    """The price of a request: `base`, multiplied by each parameter's ratio to its covered value.

    base: in reads of a key.
    covers: by parameter, the largest value without surcharge.
    """

    base: int = 1
    covers: dict[str, int] = msgspec.field(default_factory=dict)


class Part(msgspec.Struct, frozen=True, omit_defaults=True):
    """Makes a view, called by its name, a part of `/v1/users/{id}`: its members become members of the joined answer.

    The view has the scope `read`. Its member `warnings`, a list of strings, is added to the warnings of the joined
    answer.

    members: the lists that the view adds. When the view fails, the lists are empty and named in `warnings`; for a key
        unknown to the view, the lists are only empty.
    remarks: further lists, then empty and not named in `warnings`.
    required: whether a failure of the view fails the request, with the view's problem. At most one part is required.
    by_default: whether a request without a choice of parts gets the part.
    parameters: the view's parameters that a request for the joined answer accepts too.
    """

    members: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    required: bool = False
    by_default: bool = True
    parameters: tuple[str, ...] = ()
