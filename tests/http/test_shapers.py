"""The evidence and hand-off shapers, over HTTP and as the pure functions they are."""

from dataclasses import replace
from datetime import UTC, datetime

import msgspec
import pytest

from service.core.citation import cite, link_to
from service.core.evidence import evidence
from service.core.hand_off import hand_off
from service.model import ContentType, ItemId, Provenance, RetrievedPassage, SourceType, passage_id
from service.surfaces.envelope import ArmsOut, HttpCall, LexicalArmOut, NextStep, RetrievalOut, VectorArmOut
from service.surfaces.http.answers import as_evidence, as_hand_off
from tests.http.calls import Json, document, page, part, passage_ids, put_vocabulary, read, results, store
from tests.http.conftest import Client

SELECTED: Json = {"option_ids": ["cold"]}
EVIDENCE = "/v1/selection/evidence"
HAND_OFF = "/v1/selection/hand-off"


def provenance(item_id: str = "a") -> Provenance:
    """A web page whose link was never checked."""
    return Provenance(
        item_id=ItemId(item_id),
        title="Sill guide",
        content_type=ContentType.TECH_DOC,
        source_type=SourceType.URL,
        source_url="https://example.com/a",
        source_url_ok=None,
        source_filename=None,
        resource_types=None,
        version="v1",
        fetched_at=datetime(2026, 1, 1, tzinfo=UTC),
    )


def hit(source: Provenance, seq: int = 0) -> RetrievedPassage:
    """A passage of an item."""
    return RetrievedPassage(passage_id(source.item_id, seq), None, seq, "sill", 1.0, source)


def rows_of(body: Json, name: str) -> list[object]:
    """A list inside an answer."""
    rows = body[name]
    assert isinstance(rows, list)
    return [*rows]


def test_a_page_says_the_same_in_every_shape() -> None:
    """U7: whatever a page says of itself beside its passages, evidence and hand-off say too."""
    lexical = LexicalArmOut(state="ran", source="index")
    walked = RetrievalOut(
        results=[],
        shown=0,
        has_more=True,
        next_cursor="further",
        next_action=NextStep(do="", http=HttpCall(method="POST", path=EVIDENCE, body={}), cli=""),
        arms=ArmsOut(lexical=lexical, vector=VectorArmOut(state="degraded", reason="store_timeout")),
        corpus_changed=True,
        ranking_changed=True,
    )
    said = set(msgspec.structs.asdict(walked)) - {"results"}
    for shaped in (as_evidence(walked, (), EVIDENCE), as_hand_off(walked, (), HAND_OFF)):
        told = msgspec.structs.asdict(shaped)
        assert {name: told[name] for name in said} == {name: getattr(walked, name) for name in said}


async def fill(client: Client) -> None:
    """Guides with live, dead and unchecked links, an upload, and CAD drawings."""
    await put_vocabulary(client)
    await store(
        client,
        page("live", "freezing guide", "winters too", source_url_ok=True, title="Live"),
        page("dead", "freezing guide", source_url_ok=False, title="Dead"),
        page("unchecked", "freezing guide", title="Unchecked"),
        document("upload", "freezing guide", title="Upload"),
        page("drawing", "freezing guide", source_url_ok=True, title="Sill detail", resource_types=["CAD"]),
        document("model", "freezing guide", title="Model", source_filename="wall.rfa"),
        document("kept", "freezing guide", title="About DWG files", resource_types=["Brochure"]),
    )


@pytest.mark.anyio
async def test_evidence(http: Client) -> None:
    """C28: each passage has its citation, and a link only where the source URL was seen live."""
    await fill(http)
    body = read(await http.post(EVIDENCE, json={**SELECTED, "limit": 200}))
    shown = body["evidence"]
    assert isinstance(shown, list)
    citations = {part(one, "passage", "provenance")["item_id"]: one["citation"] for one in shown}
    assert citations["live"] == {
        "title": "Live",
        "source": "https://example.com/live",
        "version": "v1",
        "link": "https://example.com/live",
    }
    for name in ("dead", "unchecked"):
        assert (citations[name]["link"], citations[name]["source"]) == (None, f"https://example.com/{name}")
    assert (citations["upload"]["link"], citations["upload"]["source"]) == (None, "upload.md")
    plain = read(await http.post("/v1/selection/passages", json={**SELECTED, "limit": 200}))
    assert [one["passage"] for one in shown] == results(plain)


@pytest.mark.anyio
async def test_hand_off(http: Client) -> None:
    """C29: documents stand once each without CAD resources; the passages are those of the retrieval."""
    await fill(http)
    body = read(await http.post(HAND_OFF, json={**SELECTED, "limit": 200}))
    documents = part(body, "resources")["documents"]
    assert isinstance(documents, list)
    by_id = {one["item_id"]: one for one in documents}
    assert by_id.keys() == {"live", "dead", "unchecked", "upload", "kept"}
    assert len(documents) == len(by_id)
    assert by_id["live"] == {"item_id": "live", "title": "Live", "link": "https://example.com/live"}
    assert {by_id[name]["link"] for name in ("dead", "unchecked", "upload", "kept")} == {None}
    plain = read(await http.post("/v1/selection/passages", json={**SELECTED, "limit": 200}))
    assert body["passages"] == results(plain)
    assert {"drawing#0", "model#0"} <= set(passage_ids(plain))


@pytest.mark.anyio
@pytest.mark.parametrize(("path", "rows"), [(EVIDENCE, "evidence"), (HAND_OFF, "passages")])
async def test_shapes_are_paged(http: Client, path: str, rows: str) -> None:
    """U5: a shaped answer leads to its own next page, which goes on where it ended."""
    await fill(http)
    whole = read(await http.post(path, json={**SELECTED, "limit": 200}))[rows]
    body = read(await http.post(path, json={**SELECTED, "limit": 3}))
    walked = rows_of(body, rows)
    while body["has_more"]:
        call = part(body, "next_action", "http")
        assert call["path"] == path
        body = read(await http.post(str(call["path"]), json=call["body"]))
        walked += rows_of(body, rows)
    assert walked == whole


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("path", "empty"),
    [(EVIDENCE, {"evidence": []}), (HAND_OFF, {"resources": {"documents": []}, "passages": []})],
)
async def test_a_shaped_miss_is_empty(http: Client, path: str, empty: Json) -> None:
    """C9: a selection that nothing matches is an empty shape and no error."""
    body = read(await http.post(path, json={"option_ids": ["nobody"]}))
    assert {name: body[name] for name in empty} == empty


@pytest.mark.parametrize(("ok", "link"), [(True, "https://example.com/a"), (False, None), (None, None)])
def test_links(ok: bool | None, link: str | None) -> None:  # noqa: FBT001 - the values of a table
    """C28: a link needs a URL that was seen live; what is dead or unchecked has none."""
    source = replace(provenance(), source_url_ok=ok)
    assert link_to(source) == link
    assert cite(source).link == link
    assert hand_off([hit(source)]).documents[0].link == link


def test_a_live_upload_without_a_url_has_no_link() -> None:
    """C28: there is no link where there is no URL, whatever its liveness says."""
    source = replace(
        provenance(),
        source_type=SourceType.UPLOAD,
        source_url=None,
        source_filename="a.md",
        source_url_ok=True,
    )
    assert (cite(source).link, cite(source).source) == (None, "a.md")


def test_evidence_keeps_order() -> None:
    """C28: evidence is every passage in the order given."""
    passages = [hit(provenance("b")), hit(provenance("a"), 1), hit(provenance("b"), 2)]
    assert [one.passage for one in evidence(passages)] == passages


def test_hand_off_only_narrows_documents() -> None:
    """C29: documents stand in the order of their best passages, and every passage stays."""
    drawing = replace(provenance("d"), title="Wall.dwg")
    passages = [hit(provenance("b")), hit(drawing), hit(provenance("a")), hit(provenance("b"), 1)]
    shaped = hand_off(iter(passages))
    assert [one.item_id for one in shaped.documents] == ["b", "a"]
    assert list(shaped.passages) == passages
