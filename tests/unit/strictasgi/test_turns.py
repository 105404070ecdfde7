"""How much begins in a turn of the loop."""

import asyncio

from strictasgi.turns import MOST, Turns

MANY = 3 * MOST + 1


def test_what_comes_at_once_begins_in_order_and_not_all_of_it_in_one_turn() -> None:
    async def trial() -> list[list[int]]:
        turns, began = Turns(asyncio.get_running_loop()), list[int]()
        for number in range(MANY):
            turns.begin(lambda number=number: began.append(number))  # type: ignore[misc]
        after = [list(began)]
        while len(began) < MANY:
            await asyncio.sleep(0)
            after.append(list(began))
        return after

    after = asyncio.run(trial())
    assert [len(began) for began in after] == [MOST, 2 * MOST, 3 * MOST, MANY]
    assert after[-1] == list(range(MANY))


def test_each_turn_has_room_again() -> None:
    async def trial() -> int:
        turns, began = Turns(asyncio.get_running_loop()), list[None]()
        for _ in range(3):
            for _ in range(MOST):
                turns.begin(lambda: began.append(None))
            assert len(began) % MOST == 0
            await asyncio.sleep(0)
        return len(began)

    assert asyncio.run(trial()) == 3 * MOST
