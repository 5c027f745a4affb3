"""The composition root: the one place where parts are constructed and joined."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import version

from service.adapters.documents import ExtractedDocuments
from service.adapters.extract import ExtractLimits
from service.adapters.flags.evaluated import OpenFeatureFlag
from service.adapters.flags.opening import open_flag
from service.adapters.flags.report_file import read_report
from service.adapters.flags.settings import PATIENT, PROMPT, FlagSettings, FlagTiming
from service.adapters.flags.sweep import SqlFlagSweep
from service.adapters.lexical.index import LexicalSettings, TantivyLexicalIndex
from service.adapters.lexical.shard import ShardTiming
from service.adapters.sql.archive import SqlArchive
from service.adapters.sql.engine import database_url, open_engines
from service.adapters.sql.keys import SqlKeyLedger
from service.adapters.sql.migrate import upgrade
from service.adapters.sql.rollout import SqlFlagLedger, SqlShadowLedger
from service.adapters.sql.store import SqlStore
from service.adapters.tracing.documents import TracedDocuments
from service.adapters.tracing.lexical import TracedLexicalIndex
from service.adapters.tracing.opening import Tracing, open_tracing
from service.adapters.tracing.settings import QueryText, TracingSettings
from service.adapters.tracing.store import TracedStore
from service.core.fusion import FusionMethod, FusionSettings
from service.ingest.absent_index import AbsentIndex
from service.ingest.archive import Archiving
from service.ingest.capture import Capturing
from service.ingest.files import FileIngest, IngestParts
from service.ingest.flag import FlagControl, FlagOrigin
from service.ingest.keys import Gatekeeper, KeyControl
from service.ingest.kill_switch import KillSwitch
from service.ingest.lifecycle import Lifecycle
from service.ingest.tags import Tagging
from service.model import Workspace
from service.ports.shadow import Retention
from service.search.plan import Hybrid
from service.search.retrieve import Retriever
from service.search.shadow import ShadowRunner, ShadowSettings
from service.settings import Settings
from service.vector_parts import VectorParts, vector_parts


@dataclass(frozen=True, slots=True)
class Application:
    """The use cases of one process, over one database and one index folder."""

    settings: Settings
    store: SqlStore
    lexical: TantivyLexicalIndex
    retriever: Retriever
    capturing: Capturing
    documents: ExtractedDocuments
    files: FileIngest
    lifecycle: Lifecycle
    tagging: Tagging
    vectors: VectorParts
    flag: OpenFeatureFlag
    shadow: ShadowRunner
    gatekeeper: Gatekeeper
    tracing: Tracing


@dataclass(frozen=True, slots=True)
class Writers:
    """The use cases of a process that writes and never retrieves: it keeps no index."""

    store: SqlStore
    lifecycle: Lifecycle
    tagging: Tagging


def utc_now() -> datetime:
    """The clock of every use case."""
    return datetime.now(UTC)


@asynccontextmanager
async def open_store(settings: Settings) -> AsyncIterator[SqlStore]:
    """The database alone, its schema brought to this version. Raises ConfigurationError."""
    engines = open_engines(database_url(settings.resolved_database_url))
    try:
        await upgrade(engines)
        yield SqlStore(engines)
    finally:
        await engines.close()


@asynccontextmanager
async def writing(settings: Settings) -> AsyncIterator[Writers]:
    """What it takes to change single items and tags. Raises ConfigurationError."""
    async with open_store(settings) as store:
        yield Writers(store, Lifecycle(store, AbsentIndex(), utc_now), Tagging(store, utc_now))


@asynccontextmanager
async def keyring(settings: Settings) -> AsyncIterator[KeyControl]:
    """What it takes to make and revoke API keys. Raises ConfigurationError."""
    async with open_store(settings) as store:
        yield KeyControl(SqlKeyLedger(store.engines), utc_now)


@asynccontextmanager
async def application(settings: Settings, flag_timing: FlagTiming = PROMPT) -> AsyncIterator[Application]:
    """Everything a surface needs, opened in order and closed in reverse. Raises ConfigurationError."""
    async with AsyncExitStack() as stack:
        tracing = _open_tracing(settings)
        stack.push_async_callback(tracing.close)
        store = await stack.enter_async_context(open_store(settings))
        timing = ShardTiming(settings.index_grace, settings.index_checkpoint_every)
        lexical_settings = LexicalSettings(
            settings.data_dir / "lexical",
            settings.index_patience,
            settings.scan_bound,
            timing,
            settings.open_workspaces,
            first=Workspace(settings.workspace),
        )
        lexical = TantivyLexicalIndex(store, store, lexical_settings)
        stack.push_async_callback(lexical.close)
        await lexical.start()
        flag = _open_flag(settings, store, flag_timing)
        stack.push_async_callback(flag.close)
        vectors = await stack.enter_async_context(vector_parts(settings, store.engines, tracing.tracer))
        fusion = fusion_settings(settings)
        hybrid = Hybrid(vectors.arm, flag, fusion, settings.vector_budget)
        shadow = await _open_shadow(settings, store, Retriever(store, lexical, hybrid))
        stack.push_async_callback(shadow.close)
        gatekeeper = Gatekeeper(
            SqlKeyLedger(store.engines), utc_now, Workspace(settings.workspace), settings.key_rate
        )
        stack.push_async_callback(gatekeeper.close)
        tracer = tracing.tracer
        documents = TracedDocuments(tracer, ExtractLimits(line_bytes=settings.max_line_bytes))
        told_store, told_lexical = TracedStore(store, tracer), TracedLexicalIndex(lexical, tracer)
        asked = replace(hybrid, shadow=shadow.compare)
        yield Application(
            settings=settings,
            store=store,
            lexical=lexical,
            retriever=Retriever(told_store, told_lexical, asked, tracer, settings.max_answer_bytes),
            capturing=Capturing(told_store, told_lexical, utc_now),
            documents=documents,
            files=FileIngest(IngestParts(told_store, told_lexical, documents, documents, utc_now)),
            lifecycle=Lifecycle(told_store, told_lexical, utc_now),
            tagging=Tagging(told_store, utc_now),
            vectors=vectors,
            flag=flag,
            shadow=shadow,
            gatekeeper=gatekeeper,
            tracing=tracing,
        )


def _open_tracing(settings: Settings) -> Tracing:
    queries = QueryText.SHOWN if settings.log_queries else QueryText.HIDDEN
    return open_tracing(TracingSettings(settings.otel_endpoint, queries, version("citewell")))


def fusion_settings(settings: Settings) -> FusionSettings:
    """How the arms are fused, as the settings say."""
    return FusionSettings(
        k=settings.fusion_k,
        lexical_weight=settings.fusion_lexical_weight,
        vector_weight=settings.fusion_vector_weight,
        method=FusionMethod(settings.fusion_method),
        power=settings.fusion_coverage_power,
    )


@dataclass(frozen=True, slots=True)
class FlagUseCases:
    """What a person does with the rollout flag."""

    store: SqlStore
    control: FlagControl
    switch: KillSwitch


@asynccontextmanager
async def flag_use_cases(settings: Settings) -> AsyncIterator[FlagUseCases]:
    """The flag for a command, which waits for its holder. Raises ConfigurationError."""
    async with open_store(settings) as store:
        flag = _open_flag(settings, store, PATIENT)
        try:
            holder = settings.flag_provider
            origin = FlagOrigin(holder, settings.hybrid_retrieval)
            control = FlagControl(SqlFlagLedger(store.engines), flag, origin, read_report, utc_now)
            yield FlagUseCases(store, control, KillSwitch(SqlFlagSweep(store.engines), holder, utc_now))
        finally:
            await flag.close()


def _open_flag(settings: Settings, store: SqlStore, timing: FlagTiming) -> OpenFeatureFlag:
    chosen = FlagSettings(settings.flag_provider, settings.hybrid_retrieval, settings.flag_file, timing)
    return open_flag(chosen, SqlFlagLedger(store.engines))


async def _open_shadow(settings: Settings, store: SqlStore, retriever: Retriever) -> ShadowRunner:
    bounds = ShadowSettings(key=await store.database_id(), retention=Retention(rows=settings.shadow_keep))
    return ShadowRunner(retriever, SqlShadowLedger(store.engines), utc_now, bounds)


@asynccontextmanager
async def archiving(settings: Settings) -> AsyncIterator[Archiving]:
    """What it takes to export and import everything. Raises ConfigurationError."""
    async with open_store(settings) as store:
        yield Archiving(SqlArchive(store.engines), utc_now)
