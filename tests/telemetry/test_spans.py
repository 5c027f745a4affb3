"""The tree of spans: what a read and a write consist of, and what their spans say."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace

import pytest
from litestar import Litestar
from litestar.testing import AsyncTestClient
from opentelemetry.trace import SpanKind, StatusCode, format_span_id, format_trace_id

from service.adapters.sql.ledger import SqlVectorLedger
from service.adapters.tracing.documents import TracedDocuments
from service.adapters.tracing.lexical import TracedLexicalIndex
from service.adapters.tracing.opening import Tracing
from service.adapters.tracing.settings import QueryText
from service.adapters.tracing.store import TracedStore
from service.adapters.tracing.timed import StepTimes, TimedTracer
from service.adapters.vectors.memory import MemoryVectorIndex
from service.bootstrap import Application, utc_now
from service.core.drill import parse_drill
from service.ingest.capture import Capturing
from service.ingest.vectors import StepOutcome, VectorWorker
from service.model import DEFAULT_WORKSPACE
from service.ports.tracing import UNTRACED, Step
from service.search.degradation import Reason
from service.search.plan import Hybrid
from service.search.request import Arms, ByQuery, Explain, RetrieveOptions
from service.search.retrieve import Retriever
from service.settings import Settings
from service.surfaces.http.app import create_app
from service.surfaces.http.tracing import Traced
from tests import builders
from tests.http.calls import ask, document, store
from tests.http.conftest import Client
from tests.rollout.parts import CORPUS, QUERIES, House, WordEncoder
from tests.telemetry.spans import Spans, Tree, context_of, kept_spans

pytestmark = pytest.mark.anyio

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = "b7ad6b7169203331"
OPTIONS = RetrieveOptions(DEFAULT_WORKSPACE)
RARE_WORDS = "xylophone zeppelin"
LEXICAL_ARM: Tree = {"lexical_candidates": {}, "load_rows": {}}
SNAPSHOT_STEPS: Tree = {"snapshot": {}, "resolve": {}, "index_view": {}, "lexical": LEXICAL_ARM, "page": {}}


@dataclass(frozen=True, slots=True)
class Watched:
    """An application over HTTP whose spans are kept."""

    client: Client
    spans: Spans

    @property
    def application(self) -> Application:
        """The use cases behind it."""
        application: Application = self.client.app.state.application
        return application


async def nothing_left() -> None:
    """Spans in memory need no delivery."""


def with_spans(application: Application, spans: Spans) -> Application:
    """The same application with another tracer, joined as the composition root does it."""
    tracer = spans.tracer
    told_store = TracedStore(application.store, tracer)
    told_lexical = TracedLexicalIndex(application.lexical, tracer)
    return replace(
        application,
        tracing=Tracing(tracer, spans.times, nothing_left),
        retriever=Retriever(told_store, told_lexical, None, tracer),
        capturing=Capturing(told_store, told_lexical, utc_now),
        documents=TracedDocuments(tracer),
    )


def traced(app: Litestar) -> Litestar:
    """The application with a span around every request, which it may have already."""
    if not isinstance(app.asgi_handler, Traced):
        app.asgi_handler = Traced(app.asgi_handler, app.state)
    return app


@pytest.fixture
async def watched(sqlite_settings: Settings) -> AsyncIterator[Watched]:
    """An application whose spans are kept, queries hidden."""
    spans = kept_spans()
    async with AsyncTestClient(traced(create_app(sqlite_settings)), raise_server_exceptions=False) as client:
        client.app.state.application = with_spans(client.app.state.application, spans)
        yield Watched(client, spans)


async def test_the_common_read(watched: Watched) -> None:
    """U19: a free-text read is one trace: the request, the use case, and each step below it."""
    await store(watched.client, document("a", "sill", "jamb"))
    watched.spans.kept.clear()
    await ask(watched.client, "sill")
    (root,) = watched.spans.named("POST /v1/retrieve")
    assert root.parent is None
    assert root.kind is SpanKind.SERVER
    assert watched.spans.tree(root) == {
        "retrieve": {"resolve": {}, "lexical": LEXICAL_ARM, "page": {}},
    }
    attributes = root.attributes or {}
    assert attributes["http.route"] == "/v1/retrieve"
    assert attributes["http.response.status_code"] == 200
    (read,) = watched.spans.named("retrieve")
    assert dict(read.attributes or {}) == {
        "citewell.results": 1,
        "citewell.lexical": "index",
        "citewell.vector": "off",
        "citewell.reason": "off",
    }
    (rows,) = watched.spans.named("load_rows")
    assert (rows.attributes or {})["citewell.live"] == 1


async def test_a_read_in_a_snapshot(watched: Watched) -> None:
    """U19: a read that needs a snapshot shows it, with the time the index took to reach it."""
    options: dict[str, object] = {"limit": 1}
    await store(watched.client, document("a", "sill one", "sill two"))
    first = await ask(watched.client, "sill", **options)
    watched.spans.kept.clear()
    await ask(watched.client, "sill", **options, cursor=first["next_cursor"])
    (read,) = watched.spans.named("retrieve")
    assert watched.spans.tree(read) == SNAPSHOT_STEPS


async def test_a_write(watched: Watched) -> None:
    """U19: a capture of a document shows its extraction, its transaction and what the index took."""
    body = {**document("a"), "text": "# Sills\n\nA sill.", "format": "markdown"}
    del body["passages"]
    await store(watched.client, body)
    (root,) = watched.spans.named("POST /v1/items")
    assert watched.spans.tree(root) == {"extract": {}, "transaction": {}, "index": {}}


async def test_the_callers_trace_goes_on(watched: Watched) -> None:
    """U19: a W3C traceparent makes the request a child of the caller's span; a broken one begins a new trace."""
    await watched.client.post(
        "/v1/retrieve", json={"query": "sill"}, headers={"traceparent": f"00-{TRACE}-{PARENT}-01"}
    )
    (root,) = watched.spans.named("POST /v1/retrieve")
    assert format_trace_id(context_of(root).trace_id) == TRACE
    assert root.parent is not None
    assert format_span_id(root.parent.span_id) == PARENT
    watched.spans.kept.clear()
    broken = {"traceparent": f"00-{TRACE}-nothing-01"}
    await watched.client.post("/v1/retrieve", json={"query": "sill"}, headers=broken)
    (root,) = watched.spans.named("POST /v1/retrieve")
    assert root.parent is None
    assert format_trace_id(context_of(root).trace_id) != TRACE


async def test_a_caller_that_is_not_sampled_is_not_traced(watched: Watched) -> None:
    """U19: whoever decided against tracing a request decides for the whole of it."""
    headers = {"traceparent": f"00-{TRACE}-{PARENT}-00"}
    await watched.client.post("/v1/retrieve", json={"query": "sill"}, headers=headers)
    assert watched.spans.all() == ()


async def test_failures_are_told_by_their_code(watched: Watched) -> None:
    """U19: a refused request's steps name the error's code, never its message; its request is no failure."""
    await watched.client.post("/v1/retrieve", json={"query": "sill", "cursor": RARE_WORDS})
    (read,) = watched.spans.named("retrieve")
    assert read.status.status_code is StatusCode.ERROR
    assert (read.attributes or {})["error.type"] == "invalid_cursor"
    assert read.status.description is None
    assert read.events == ()
    (root,) = watched.spans.named("POST /v1/retrieve")
    assert root.status.status_code is StatusCode.UNSET, "the caller was wrong, not the service"


async def test_no_span_holds_what_a_caller_sent(watched: Watched) -> None:
    """U18, U19: queries, texts, titles, keys, ids and workspaces stay out of spans, in misses and errors too."""
    client, mine = watched.client, "my-secret-workspace"
    headers = {"x-citewell-workspace": mine, "authorization": "Bearer nothing"}
    body = document("a", f"about {RARE_WORDS}")
    await client.post("/v1/items", json=body, headers=headers)
    await client.post("/v1/retrieve", json={"query": RARE_WORDS}, headers=headers)
    await client.post("/v1/retrieve", json={"query": RARE_WORDS, "cursor": RARE_WORDS}, headers=headers)
    await client.get(f"/v1/systems/{RARE_WORDS}/passages?limit=8&cursor={RARE_WORDS}", headers=headers)
    await client.get(f"/v1/items/{RARE_WORDS}", headers=headers)
    await client.get(f"/nowhere/{RARE_WORDS}", headers=headers)
    told = watched.spans.text()
    assert len(watched.spans.all()) > 10
    for word in (*RARE_WORDS.split(), mine, "Bearer"):
        assert word not in told


async def test_queries_are_told_where_the_operator_says_so(sqlite_app: Application) -> None:
    """U19: with CITEWELL_LOG_QUERIES the read's span holds the query, cut at 500 characters, and no other does."""
    spans = kept_spans(QueryText.SHOWN)
    retriever = with_spans(sqlite_app, spans).retriever
    await retriever.retrieve(ByQuery("sill " * 200), OPTIONS)
    assert [span.name for span in spans.all() if "sill" in span.to_json()] == ["retrieve"]
    (read,) = spans.named("retrieve")
    assert len(str((read.attributes or {})["citewell.query"])) == 500


async def test_both_arms(home: House) -> None:
    """U19: with vectors the trace shows encoding, search, the wait for them, and the fusion with its rows."""
    spans = kept_spans()
    answer = await hybrid(home, spans).retrieve(ByQuery("noise"), replace(OPTIONS, arms=Arms.HYBRID))
    assert answer.vector.reason == "ran"
    (read,) = spans.named("retrieve")
    assert spans.tree(read) == {
        "snapshot": {},
        "resolve": {},
        "index_view": {},
        "vector": {"encode": {}, "vector_search": {}},
        "lexical": LEXICAL_ARM,
        "vector_wait": {},
        "fuse": {"load_vector_rows": {}},
        "page": {},
    }


async def test_a_vector_arm_that_cannot_run(home: House) -> None:
    """C26, U19: a span says why in the closed list's words; the read's is no error, since it answered."""
    spans = kept_spans()
    drill = parse_drill("off")
    await hybrid(home, spans).retrieve(ByQuery("noise"), replace(OPTIONS, arms=Arms.HYBRID, drill=drill))
    assert not spans.named("vector")  # what is refused is not begun
    (read,) = spans.named("retrieve")
    assert read.status.status_code is StatusCode.UNSET
    assert (read.attributes or {})["citewell.reason"] == Reason.FORCED_OFF


async def test_concurrent_reads_keep_their_spans_apart(home: House) -> None:
    """U19: reads that run at the same time each have one whole tree; no span is under another's root."""
    spans = kept_spans()
    retriever = hybrid(home, spans)
    asked = [ByQuery(word) for word in ("noise", "sill", "glass", "care") * 5]
    await asyncio.gather(*(retriever.retrieve(one, replace(OPTIONS, arms=Arms.HYBRID)) for one in asked))
    reads = spans.named("retrieve")
    assert len(reads) == len(asked)
    assert len({context_of(read).trace_id for read in reads}) == len(asked)
    assert {tuple(sorted(spans.tree(read))) for read in reads} == {
        ("fuse", "index_view", "lexical", "page", "resolve", "snapshot", "vector", "vector_wait")
    }


async def test_answers_do_not_depend_on_being_traced(home: House) -> None:
    """C12: the same request gives the same answer with a tracer and without, byte for byte."""
    plain = Retriever(home.app.store, home.app.lexical, Hybrid(home.arm, home.flag, budget=30.0))
    told = hybrid(home, kept_spans())
    for query in QUERIES:
        for arms in (Arms.LEXICAL, Arms.HYBRID):
            asked = replace(OPTIONS, arms=arms, explain=Explain.ON)
            assert await told.retrieve(ByQuery(query), asked) == await plain.retrieve(ByQuery(query), asked)


async def test_every_step_is_timed(home: House) -> None:
    """U19: a step is counted once each time it is taken, in its own histogram, traced or not."""
    times = StepTimes()
    retriever = hybrid(home, TimedTracer(times, UNTRACED))
    for _ in range(3):
        await retriever.retrieve(ByQuery("noise"), replace(OPTIONS, arms=Arms.HYBRID))
    counted = {reading.step: sum(reading.counts) for reading in times.readings()}
    assert counted.keys() == set(Step)
    for step in (Step.RETRIEVE, Step.LEXICAL, Step.ENCODE, Step.VECTOR_SEARCH, Step.FUSE, Step.PAGE):
        assert counted[step] == 3, step
    assert counted[Step.EXTRACT] == 0


async def test_the_vector_worker(sqlite_app: Application) -> None:
    """U19: a step of the worker that has work is a trace of its own; an idle one leaves none behind."""
    spans, index = kept_spans(), MemoryVectorIndex()
    ledger = SqlVectorLedger(sqlite_app.store.engines, "float32")
    worker = VectorWorker(ledger, index, WordEncoder(), "words", tracer=spans.tracer)
    await builders.store(sqlite_app, *CORPUS)
    while await worker.step() is StepOutcome.WORKED:
        pass
    await worker.step()
    (step,) = spans.named("worker_step")
    assert step.parent is None
    assert (step.attributes or {})["citewell.items"] == len(CORPUS)
    await worker.release()
    await index.close()


def hybrid(home: House, spans: Spans | TimedTracer) -> Retriever:
    """The read path with both arms, told to a tracer."""
    tracer = spans.tracer if isinstance(spans, Spans) else spans
    told = Hybrid(home.arm, home.flag, budget=30.0)
    return Retriever(
        TracedStore(home.app.store, tracer), TracedLexicalIndex(home.app.lexical, tracer), told, tracer
    )
