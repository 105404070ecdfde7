"""Pages of other origins: none by default, and those that are allowed without a credential in their preflight."""

from werkzeug.test import Client

from tests.serving import Loop
from tests.unit.gateway.deployment import USER
from tests.unit.gateway.guarding import READ, Guarded

PAGE = "https://app.company"
PREFLIGHT = {"Origin": PAGE, "Access-Control-Request-Method": "GET", "Access-Control-Request-Headers": "authorization"}


def test_a_page_of_another_origin_is_not_answered_by_default(guarded: Guarded) -> None:
    assert guarded.client.options("/v1/plays", headers=PREFLIGHT).status_code == 401
    answer = guarded.get(f"/v1/users/{USER}", guarded.keys[READ], Origin=PAGE)
    assert {name for name, _ in answer.headers if name.startswith("Access-Control") or name == "Vary"} == set()


def test_a_page_of_an_allowed_origin_asks_before_without_a_credential_and_reads_answers(
    guarded: Guarded, loop: Loop
) -> None:
    client = Client(loop.wsgi(guarded.deployment.app(origins=(PAGE,))))
    for path in (f"/v1/users/{USER}", "/nowhere"):
        asked = client.options(path, headers=PREFLIGHT)
        assert (asked.status_code, asked.get_data()) == (204, b"")
        assert "Authorization" in asked.headers["Access-Control-Allow-Headers"]
        assert {name: asked.headers[name] for name in ("Access-Control-Allow-Origin", "Vary")} == {
            "Access-Control-Allow-Origin": PAGE,
            "Vary": "Origin",
        }
    mine = {"Authorization": f"Bearer {guarded.keys[READ]}", "Origin": PAGE}
    for path, headers, status in (
        (f"/v1/users/{USER}", mine, 200),
        ("/v1/plays", mine, 403),
        ("/v1/plays", PREFLIGHT, 401),
    ):
        answer = client.get(path, headers=headers)
        assert (answer.status_code, answer.headers["Access-Control-Allow-Origin"]) == (status, PAGE)
        assert {"Position", "RateLimit", "X-Request-Id"} <= {
            *answer.headers["Access-Control-Expose-Headers"].split(", ")
        }
    for other in ("https://app.company.evil", "null", "http://app.company"):
        assert client.options("/v1/plays", headers=PREFLIGHT | {"Origin": other}).status_code == 401
        answer = client.get(f"/v1/users/{USER}", headers=mine | {"Origin": other})
        assert (answer.status_code, answer.headers["Vary"]) == (200, "Origin")
        assert "Access-Control-Allow-Origin" not in answer.headers
