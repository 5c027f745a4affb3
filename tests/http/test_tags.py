"""Facet tags: proposed, decided, listed."""

import pytest

from tests.http.calls import (
    Json,
    assert_problem,
    document,
    item_ids,
    part,
    put_vocabulary,
    read,
    results,
    store,
)
from tests.http.conftest import Client, SteadyClient

pytestmark = pytest.mark.anyio

FACTOR: Json = {"facet_type": "factor", "facet_id": "climate"}
ATTRIBUTE: Json = {"facet_type": "attribute", "facet_id": "thermal"}

BAD_PROPOSALS: tuple[tuple[Json, int, str], ...] = (
    ({"item_id": "nobody"}, 404, "item_not_found"),
    ({"facet_id": "nothing"}, 404, "facet_not_found"),
    ({"facet_id": "é" * 10_000}, 404, "facet_not_found"),
    ({"item_id": "a\x00"}, 400, "invalid_text"),
    ({"facet_id": "a\x00"}, 400, "invalid_text"),
    ({"facet_type": "colour"}, 400, "invalid_input"),
    ({"by": " "}, 400, "invalid_input"),
    ({"by": "a" * 201}, 400, "invalid_input"),
    ({"by": None}, 400, "invalid_input"),
    ({"status": "accepted"}, 400, "invalid_input"),
)


async def propose(client: Client, item_id: str, facet: Json = FACTOR) -> str:
    """The id of a proposed tag."""
    answer = await client.post("/v1/facet-tags", json={"item_id": item_id, **facet})
    assert answer.status_code == 200, answer.text
    return str(read(answer)["tag_id"])


async def selected(client: Client) -> list[object]:
    """The items that a cold climate selects."""
    return item_ids(read(await client.post("/v1/selection/passages", json={"option_ids": ["cold"]})))


async def test_a_tags_life(http_both: Client) -> None:
    """C4: a tag is proposed, accepted, rejected; each change is kept with who and when."""
    await put_vocabulary(http_both)
    await store(http_both, document("a", "nothing in common"))
    proposed = await http_both.post("/v1/facet-tags", json={"item_id": "a", **FACTOR, "by": "Ada"})
    tag_id = read(proposed)["tag_id"]
    assert read(proposed) == {"tag_id": tag_id, "status": "proposed"}
    accepted = await http_both.post(f"/v1/facet-tags/{tag_id}/accept", json={"by": "Grace"})
    assert read(accepted)["status"] == "accepted"
    rejected = read(await http_both.post(f"/v1/facet-tags/{tag_id}/reject"))
    assert {**rejected, "events": None} == {
        "tag_id": tag_id,
        "item_id": "a",
        "facet_type": "factor",
        "facet_id": "climate",
        "status": "rejected",
        "events": None,
    }
    events = rejected["events"]
    assert isinstance(events, list)
    steps = [(event["before"], event["after"], event["by"]) for event in events]
    assert steps == [
        (None, "proposed", "Ada"),
        ("proposed", "accepted", "Grace"),
        ("accepted", "rejected", "anonymous"),
    ]
    assert results(read(await http_both.get("/v1/facet-tags"))) == [rejected]


async def test_only_accepted_tags_lift(http_both: Client) -> None:
    """C22: an accepted tag lifts its item for selections of its facet; a proposed or rejected one never does."""
    await put_vocabulary(http_both)
    await store(http_both, document("a", "nothing in common"), document("b", "freezing"))
    tag_id = await propose(http_both, "a", ATTRIBUTE)
    assert await selected(http_both) == ["b"]
    await http_both.post(f"/v1/facet-tags/{tag_id}/accept")
    assert set(await selected(http_both)) == {"a", "b"}
    assert item_ids(read(await http_both.get("/v1/systems/sl45/passages"))) == []
    await http_both.post(f"/v1/facet-tags/{tag_id}/reject")
    assert await selected(http_both) == ["b"]


async def test_proposing_again_changes_nothing(http: Client) -> None:
    """A tag that exists is answered as it stands."""
    await put_vocabulary(http)
    await store(http, document("a", "sill"))
    tag_id = await propose(http, "a")
    await http.post(f"/v1/facet-tags/{tag_id}/accept")
    again = await http.post("/v1/facet-tags", json={"item_id": "a", **FACTOR})
    assert read(again) == {"tag_id": tag_id, "status": "accepted"}


async def test_lists_are_paged(http_both: Client) -> None:
    """U6: tags are listed page by page in tag id order, filtered by item and by status."""
    await put_vocabulary(http_both)
    for number in range(5):
        await store(http_both, document(f"d{number}", "sill"))
        await propose(http_both, f"d{number}")
    tag_id = await propose(http_both, "d0", ATTRIBUTE)
    await http_both.post(f"/v1/facet-tags/{tag_id}/accept")
    whole = results(read(await http_both.get("/v1/facet-tags")))
    assert [tag["tag_id"] for tag in whole] == sorted(str(tag["tag_id"]) for tag in whole)
    assert len(whole) == 6
    walked: list[Json] = []
    path = "/v1/facet-tags?limit=4"
    while path:
        body = read(await http_both.get(path))
        walked += results(body)
        assert body["has_more"] is (body["next_cursor"] is not None) is (body["next_action"] is not None)
        path = str(part(body, "next_action", "http")["path"]) if body["has_more"] else ""
    assert walked == whole
    assert len(results(read(await http_both.get("/v1/facet-tags?item_id=d0")))) == 2
    accepted = results(read(await http_both.get("/v1/facet-tags?status=accepted")))
    assert [tag["tag_id"] for tag in accepted] == [tag_id]
    assert results(read(await http_both.get("/v1/facet-tags?item_id=nobody"))) == []
    assert results(read(await http_both.get("/v1/facet-tags?item_id=a%00"))) == []


async def test_tag_cursors_are_bound(http: Client) -> None:
    """U7: a cursor of a list with other filters is refused, and so is an invented one."""
    await put_vocabulary(http)
    await store(http, document("a", "sill"))
    await propose(http, "a")
    await propose(http, "a", ATTRIBUTE)
    cursor = read(await http.get("/v1/facet-tags?limit=1"))["next_cursor"]
    for query in (
        f"status=proposed&cursor={cursor}",
        f"item_id=a&cursor={cursor}",
        "cursor=tag-1.x",
        "cursor=",
    ):
        assert_problem(await http.get(f"/v1/facet-tags?{query}"), 400, "invalid_cursor")


async def test_new_versions_start_with_proposals(http: Client) -> None:
    """C4: a new version of a source has its predecessor's accepted tags as proposals: a person decides again."""
    await put_vocabulary(http)
    await store(http, document("a", "nothing in common"))
    await http.post(f"/v1/facet-tags/{await propose(http, 'a')}/accept")
    await store(http, document("a", "nothing at all in common", item_id="a2"))
    (carried,) = results(read(await http.get("/v1/facet-tags?item_id=a2")))
    assert carried["status"] == "proposed"
    assert await selected(http) == []


async def test_a_bad_proposal_is_refused(http_both: Client) -> None:
    """A tag of an unknown item or facet is 404, and a malformed one 400."""
    await put_vocabulary(http_both)
    await store(http_both, document("a", "sill"))
    for changes, status, code in BAD_PROPOSALS:
        answer = await http_both.post("/v1/facet-tags", json={"item_id": "a", **FACTOR, **changes})
        assert_problem(answer, status, code)


@pytest.mark.parametrize("decision", ["accept", "reject"])
def test_a_bad_decision_is_refused(steady: SteadyClient, decision: str) -> None:
    """An unknown tag is 404, a malformed decision 400."""
    for tag_id in ("nobody", "a%00b", "%ff"):
        assert_problem(steady.post(f"/v1/facet-tags/{tag_id}/{decision}"), 404, "tag_not_found")
    path = f"/v1/facet-tags/tag-1/{decision}"
    bad: tuple[object, ...] = ({"by": ""}, {"by": 5}, {"who": "Ada"}, [])
    for body in bad:
        assert_problem(steady.post(path, json=body), 400, "invalid_input")


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("limit=0", "invalid_limit"),
        ("limit=201", "invalid_limit"),
        ("limit=x", "invalid_limit"),
        ("status=maybe", "invalid_input"),
        ("state=accepted", "invalid_input"),
    ],
)
def test_a_bad_list_is_refused(steady: SteadyClient, query: str, code: str) -> None:
    """A list with a malformed filter is 400, never an empty list."""
    assert_problem(steady.get(f"/v1/facet-tags?{query}"), 400, code)
