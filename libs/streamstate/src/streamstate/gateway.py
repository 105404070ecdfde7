"""What a service declares of its views for the gateway, which knows no service: it comes with the owner map."""

import msgspec


class NamedIds(msgspec.Struct, frozen=True, omit_defaults=True):
    """The ids in the answer of a view to which the gateway adds names.

    views: by the place of an id, the view whose answer for that id has its `name`. A place is the names of the lists on
        the way to the id, and of its member, joined by dots. The name is put beside the id: `name` beside `id`,
        `artistName` beside `artistId`; null where there is none.
    empty_warnings: whether the answer has the member `warnings` also when all names could be had.
    """

    views: dict[str, str]
    empty_warnings: bool = True


class Part(msgspec.Struct, frozen=True, omit_defaults=True):
    """Makes a view, called by its name, a part of `/v1/users/{id}`: its members become members of that answer.

    A member `warnings` of the view, a list of strings, is added to the warnings of the whole.

    members: the lists that the view adds. When it fails they are empty, and `warnings` names each of them; for a key
        that it does not know they are just empty.
    remarks: further lists, which are empty then and not named.
    required: whether there is no answer without it, but its own problem. Of one part at most.
    by_default: whether it is there when the request does not choose parts.
    parameters: those of its parameters that a request for the whole may have too.
    """

    members: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    required: bool = False
    by_default: bool = True
    parameters: tuple[str, ...] = ()
