"""Workspaces and the memory of encoded queries."""

from collections.abc import Sequence

import pytest

from embeddings.encoder_service import EncoderService
from embeddings.encoder_state import EncoderReading
from service.adapters.encoder import ServiceEncoder
from service.adapters.sql.ledger import SqlVectorLedger
from service.adapters.vectors.memory import MemoryVectorIndex
from service.bootstrap import Application
from service.ingest.vectors import StepOutcome, VectorWorker
from service.model import Workspace
from service.search.plan import Hybrid
from service.search.request import ArmState, ByQuery, RetrieveOptions
from service.search.retrieve import Retriever
from service.search.vector_arm import VectorArm
from tests.builders import capture, store
from tests.embeddings.hash_encoder import HashEncoder
from tests.vector_arm.parts import GENEROUS_S, AlwaysOn

pytestmark = pytest.mark.anyio
ACME, ZETA = Workspace("acme"), Workspace("zeta")


async def test_no_workspace_is_served_from_the_memory_of_another(sqlite_app: Application) -> None:
    """U18: the same text from a second workspace is encoded anew; counts prove it, not times."""
    encoded: list[str] = []

    def note(texts: Sequence[str]) -> None:
        encoded.extend(texts)

    app, index = sqlite_app, MemoryVectorIndex()
    service = EncoderService(lambda: HashEncoder(before=note))
    service.start()
    await service.wait_ready(30)
    encoder, ledger = ServiceEncoder(service), SqlVectorLedger(app.store.engines, "float32")
    worker = VectorWorker(ledger, index, encoder, "hash")
    for workspace in (ACME, ZETA):
        await store(app, capture("a", "bottom roller", item_id=f"{workspace}-1"), workspace=workspace)
    while await worker.step() is StepOutcome.WORKED:
        pass
    encoded.clear()
    retriever = Retriever(
        app.store, app.lexical, Hybrid(VectorArm(encoder, index, ledger), AlwaysOn(), budget=GENEROUS_S)
    )
    for workspace in (ACME, ACME, ZETA, ZETA, ACME):
        answer = await retriever.retrieve(ByQuery("roller"), RetrieveOptions(workspace))
        assert answer.vector.state is ArmState.RAN
    assert encoded == ["roller", "roller"]
    assert service.reading == EncoderReading(cache_hits=3, cache_misses=2, waiting=0)
    await service.close()
    await index.close()
