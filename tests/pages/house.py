"""A service with documents, a vocabulary, hostile texts and a vector arm that fits on a page."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec
import uvicorn
from litestar import Litestar

from eval.inference import Comparison, Interval
from eval.report import (
    Against,
    CheckOut,
    FindingsOut,
    Model,
    Report,
    SetReport,
    Timings,
    report_bytes,
)
from service.adapters.sql.ledger import SqlVectorLedger
from service.adapters.sql.rollout import SqlShadowLedger
from service.adapters.vectors.memory import MemoryVectorIndex
from service.bootstrap import Application, fusion_settings
from service.ingest.vectors import StepOutcome, VectorWorker
from service.ingest.vocabulary import put_vocabulary
from service.model import (
    DEFAULT_WORKSPACE,
    Capture,
    ContentType,
    Factor,
    ItemId,
    Option,
    PassageText,
    Source,
    SourceType,
    System,
)
from service.ports.shadow import RankMove, Retention, ShadowComparison
from service.search.plan import Hybrid
from service.search.retrieve import Retriever
from service.search.vector_arm import VectorArm
from service.settings import Settings
from service.surfaces import shipped
from service.surfaces.http.app import create_app
from service.surfaces.http.pages.evaluation import evaluation_folder
from service.surfaces.wire import VocabularyIn, decode_json, vocabulary_of
from tests.vector_arm.parts import GENEROUS_S, AlwaysOn, WordEncoder

HOSTILE: Final = ItemId("hostile")
LIVE: Final = ItemId("live-link")
SCRIPT: Final = "<script>alert('run')</script>"
HOSTILE_TITLE: Final = "<img src=x onerror=alert('title')> quarrelsome \u202egnp.exe"
HOSTILE_HEADING: Final = '"><svg onload=alert(1)> quarrelsome </a>'
HOSTILE_TEXT: Final = (
    f"quarrelsome {SCRIPT} &amp; <iframe src=//elsewhere.example></iframe>\n"
    "\x1b[31mred\x1b[0m \x9b2J \u202edesrever\u202c \u2066isolated\u2069 gone: \ufffd\n"
    "<style>*{display:none}</style> {{ 7*7 }} {% raw %} javascript:alert(1) quarrelsome"
)
HOSTILE_URL: Final = "https://elsewhere.example/\"onmouseover='alert(1)'><b>"
OLD: Final = ItemId("sl45-installation-guide-rev-a")


async def fill(app: Application) -> None:
    """The shipped product documents with their lifecycle, and what is hostile beside them."""
    workspace = DEFAULT_WORKSPACE
    await shipped.ingest_products(app, workspace, shipped.SILENT)
    stated = decode_json((shipped.PRODUCTS / "vocabulary.json").read_bytes(), VocabularyIn)
    known = vocabulary_of(stated)
    hostile = replace(
        known,
        systems=(*known.systems, System("hostile", f"{SCRIPT} wall", material='"><b>')),
        factors=(*known.factors, Factor("hostile", f"{SCRIPT} factor")),
        options=(*known.options, Option("hostile", "hostile", f"{SCRIPT} \u202eoption")),
    )
    await put_vocabulary(app.store, workspace, hostile)
    await shipped._load_tags(app, workspace)
    await shipped._load_lifecycle(app, workspace)
    await app.capturing.capture(workspace, hostile_capture())
    await app.capturing.capture(workspace, live_capture())


def hostile_capture() -> Capture:
    """A document that tries everything."""
    return Capture(
        title=HOSTILE_TITLE,
        content_type=ContentType.BLOG,
        source=Source(SourceType.URL, HOSTILE_URL, None),
        version="v1<b>",
        passages=(PassageText(0, HOSTILE_HEADING, HOSTILE_TEXT), PassageText(1, None, "W" * 5_000)),
        item_id=HOSTILE,
        source_url_ok=True,
    )


def live_capture() -> Capture:
    """A document whose source was seen live."""
    return Capture(
        title="Quiet wall, a page that lives",
        content_type=ContentType.MARKETING,
        source=Source(SourceType.URL, "https://example.com/quiet?a=1&b=2", None),
        version="2024",
        passages=(PassageText(0, "Quiet", "An unmistakablequiet passage."),),
        item_id=LIVE,
        source_url_ok=True,
    )


async def with_vectors(app: Application) -> Application:
    """The same application with an arm that is on, its vectors in memory and up to date."""
    ledger, index, encoder = SqlVectorLedger(app.store.engines, "float32"), MemoryVectorIndex(), WordEncoder()
    worker = VectorWorker(ledger, index, encoder, "words", owner="pages")
    while await worker.step() is StepOutcome.WORKED:
        pass
    hybrid = Hybrid(
        VectorArm(encoder, index, ledger), AlwaysOn(), fusion_settings(app.settings), budget=GENEROUS_S
    )
    return replace(app, retriever=Retriever(app.store, app.lexical, hybrid))


async def keep_reports(app: Application) -> None:
    """What shadow mode and the evaluation would have left."""
    now = datetime.now(UTC)
    compared = ShadowComparison(
        workspace=DEFAULT_WORKSPACE,
        at=now - timedelta(minutes=5),
        subject="query",
        query_hash="0" * 32,
        lexical_ms=3.0,
        hybrid_ms=21.5,
        degraded=None,
        overlap=0.75,
        moves=(RankMove("a#0", 4, 1), RankMove("b#0", None, 2), RankMove("c#0", 1, None)),
    )
    late = replace(compared, degraded="encode_timeout", overlap=None, moves=())
    await SqlShadowLedger(app.store.engines).add([compared, late], Retention())
    folder = evaluation_folder(app.settings)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "report.json").write_bytes(report_bytes(report()))


def report() -> Report:
    """A small evaluation that says GO."""
    arms = {
        "lexical": {"recall@8": Interval(0.612, 0.551, 0.671), "nDCG@10": Interval(0.48, 0.43, 0.53)},
        "vector": {"recall@8": Interval(0.79, 0.74, 0.84), "nDCG@10": Interval(0.6, 0.55, 0.65)},
        "hybrid": {"recall@8": Interval(0.841, 0.797, 0.882), "nDCG@10": Interval(0.66, 0.61, 0.7)},
    }
    gain = Comparison(Interval(0.229, 0.171, 0.288), 0.0001, 74, 200, 12)
    one = SetReport(
        name="paraphrase",
        dataset_hash="ab" * 32,
        corpus="products",
        queries=286,
        better_single_arm="vector",
        arms=arms,
        comparisons=[Against("lexical", "recall@8", gain)],
        slices=[],
        per_query={},
        first_relevant={},
        discordant=[],
        passages={},
        look_alikes=[],
        stale=[],
        findings=FindingsOut(),
    )
    return Report(
        schema="citewell-eval-1",
        decision="GO",
        dataset_hash="cd" * 32,
        created_at=datetime(2024, 5, 1, 12, 30, tzinfo=UTC),
        seed=7,
        model=Model("minilm <b>", "f" * 16),
        settings={"fusion_k": 5},
        versions={},
        checks=[
            CheckOut("bar", holds=True, figures="hybrid recall@8 0.841, at least 0.80 is needed"),
            CheckOut("stale", holds=True, figures="0 passages of stale items in the answers, must be 0"),
        ],
        sets=[one],
        timings=Timings(),
    )


def filled_app(settings: Settings) -> Litestar:
    """The HTTP application of a house that is filled before it answers."""
    app = create_app(settings)

    async def furnish(starting: Litestar) -> None:
        running: Application = starting.state.application
        await fill(running)
        await keep_reports(running)
        starting.state.application = await with_vectors(running)

    app.on_startup.append(furnish)
    return app


@dataclass(frozen=True, slots=True)
class Site:
    """A server on loopback and the settings it runs with."""

    url: str
    settings: Settings


@contextmanager
def site(settings: Settings, app: Litestar) -> Iterator[Site]:
    """A real server in a thread, on a free loopback port, until the block ends."""
    config = uvicorn.Config(app, host="127.0.0.1", port=0, log_config=None, access_log=False, lifespan="on")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive(), "the server could not start"
            thread.join(0.05)
        port = server.servers[0].sockets[0].getsockname()[1]
        yield Site(f"http://127.0.0.1:{port}", settings)
    finally:
        server.should_exit = True
        thread.join(30.0)


def json_of(report_file: bytes) -> dict[str, object]:
    """A report as plain JSON, to be damaged."""
    return msgspec.json.decode(report_file, type=dict[str, object])
