"""Published totals that an operator corrects. Before, no published total may ever have gone down."""

import json

from typer.testing import CliRunner

from services.clicks.model import CLICKS_PER_REGION, USER_CLICKS
from streamstate.cli.main import app
from tests.integration.cases import produce
from tests.integration.driving import SETTLED_S, Driving
from tests.waiting import until


def test_totals_that_are_too_high_are_corrected(driving: Driving) -> None:
    """Also that of a region that the state does not have; the stream goes on publishing."""
    produce(driving, USER_CLICKS, b"a user", b"5")
    driving.out.flush()
    driving.settle()
    totals = driving.regions()
    until(lambda: last_totals(driving) == totals, SETTLED_S, "the first totals")
    region, total = min(totals.items())
    driving.out.produce(CLICKS_PER_REGION, b"%d" % 2**50, region)
    driving.out.produce(CLICKS_PER_REGION, b"7", "nowhere")
    driving.out.flush()
    arguments = ["reset", "clicks", "--totals", "--yes", "--json"]
    result = CliRunner().invoke(app, arguments, env=driving.environment())
    assert result.exit_code == 0, result.output
    corrected = {each["field"]: (each["published"], each["total"]) for each in json.loads(result.stdout)}
    assert corrected == {"nowhere": (7, None), region: (2**50, total)}
    until(lambda: last_totals(driving) == totals, 30, "the totals of the state")
    produce(driving, USER_CLICKS, b"a user", b"5")
    driving.out.flush()
    until(lambda: sum(last_totals(driving).values()) == sum(totals.values()) + 5, SETTLED_S, "the next total")


def last_totals(driving: Driving) -> dict[str, int]:
    """The last total of each region, without removed totals."""
    last = {(message.key() or b"").decode(): message.value() for message in driving.read(CLICKS_PER_REGION)}
    return {region: int(total) for region, total in last.items() if total is not None}
