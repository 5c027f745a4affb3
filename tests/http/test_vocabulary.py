"""The vocabulary, put and read as a whole."""

import pytest

from service.model import DEFAULT_WORKSPACE, System, Vocabulary
from tests.http.calls import VOCABULARY, Json, assert_problem, put_vocabulary, read
from tests.http.conftest import Client, SteadyClient


@pytest.mark.anyio
async def test_what_is_put_is_read(http_both: Client) -> None:
    """C3: the vocabulary comes back as it was put, its defaults filled in, its parts in id order."""
    await put_vocabulary(http_both)
    read_back = await http_both.get("/v1/vocabulary")
    assert read(read_back) == {
        "systems": [
            {
                "system_id": "old",
                "name": "Retired slider",
                "operation_type": None,
                "material": None,
                "interior_exterior": None,
                "use_cases": [],
                "retired_at": "2020-01-01T00:00:00Z",
            },
            {
                "system_id": "sl45",
                "name": "Folding wall SL45",
                "operation_type": "folding",
                "material": "aluminium",
                "interior_exterior": "exterior",
                "use_cases": ["terrace"],
                "retired_at": None,
            },
        ],
        "attributes": VOCABULARY["attributes"],
        "factors": VOCABULARY["factors"],
        "options": [
            {
                "option_id": "cold",
                "factor_id": "climate",
                "label": "freezing winters",
                "value": "alpine",
                "attribute_ids": ["thermal"],
            },
            {
                "option_id": "mild",
                "factor_id": "climate",
                "label": "mild seasons",
                "value": None,
                "attribute_ids": [],
            },
        ],
    }


@pytest.mark.anyio
async def test_what_is_read_can_be_put(http: Client) -> None:
    """The answer of GET is a body of PUT, and PUT answers what GET would."""
    await put_vocabulary(http)
    current = read(await http.get("/v1/vocabulary"))
    assert read(await http.put("/v1/vocabulary", json=current)) == current


@pytest.mark.anyio
async def test_a_vocabulary_is_replaced_whole(http: Client) -> None:
    """A vocabulary that lacks a part removes it."""
    await put_vocabulary(http)
    emptied = read(await http.put("/v1/vocabulary", json={}))
    assert emptied == {"systems": [], "attributes": [], "factors": [], "options": []}


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"systems": [{"system_id": "a", "name": "A"}] * 2}, "invalid_vocabulary"),
        ({"options": [{"option_id": "a", "factor_id": "nowhere", "label": "A"}]}, "invalid_vocabulary"),
        ({"factors": [{"factor_id": " ", "name": "A"}]}, "invalid_vocabulary"),
        ({"factors": [{"factor_id": "a", "name": "A\x00"}]}, "invalid_text"),
        ({"factors": [{"factor_id": "a" * 201, "name": "A"}]}, "invalid_input"),
        ({"factors": [{"factor_id": "a"}]}, "invalid_input"),
        ({"factors": [{"factor_id": "a", "name": "A" * 2_001}]}, "invalid_vocabulary"),
        ({"systems": [{"system_id": "a", "name": "A", "use_cases": ["x"] * 91}]}, "invalid_vocabulary"),
        (
            {"systems": [{"system_id": "a", "name": "A", "retired_at": "2020-01-01T00:00:00"}]},
            "invalid_input",
        ),
        ({"systems": [{"system_id": "a", "name": "A", "colour": "red"}]}, "invalid_input"),
        ({"system": []}, "invalid_input"),
        ([], "invalid_input"),
    ],
)
def test_a_bad_vocabulary_is_refused(steady: SteadyClient, body: object, code: str) -> None:
    """A vocabulary that is not consistent is a clear 400, and the old one stays."""
    assert_problem(steady.put("/v1/vocabulary", json=body), 400, code)
    empty: Json = {"systems": [], "attributes": [], "factors": [], "options": []}
    assert read(steady.get("/v1/vocabulary")) == empty


@pytest.mark.anyio
async def test_more_words_than_can_be_asked_for(http: Client) -> None:
    """U20: the largest system that is taken is answered; a larger one, stored before, is refused at once."""
    use_cases = [f"{number} " * 500 for number in range(90)]
    largest: Json = {"system_id": "s", "name": "wall " * 400, "use_cases": use_cases}
    await put_vocabulary(http, {"systems": [largest]})
    assert read(await http.get("/v1/systems/s/passages"))["results"] == []
    store = http.app.state.application.store
    async with store.transaction(DEFAULT_WORKSPACE) as transaction:
        await transaction.replace_vocabulary(Vocabulary(systems=(System("s", "wall " * 2_000_000),)))
    assert_problem(await http.get("/v1/systems/s/passages"), 400, "query_too_long")
