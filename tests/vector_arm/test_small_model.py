"""The arm with a real small model: long passages, and texts without a token."""

import time
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest

from embeddings.encoder_service import EncoderService
from embeddings.encoder_settings import EncoderSettings
from service.adapters.encoder import ServiceEncoder
from service.adapters.sql.ledger import SqlVectorLedger
from service.adapters.vectors.memory import MemoryVectorIndex
from service.bootstrap import Application
from service.core.breaker import FAILURES, Breaker
from service.ingest.vectors import StepOutcome, VectorWorker
from service.model import DEFAULT_WORKSPACE
from service.ports.vectors import VectorQuery
from service.search.degradation import Reason
from service.search.plan import Hybrid
from service.search.request import Answer, Arms, ArmState, ByQuery, RetrieveOptions, VectorArm
from service.search.retrieve import Retriever
from service.search.vector_arm import VectorArm as VectorSearchArm
from tests.builders import capture, ids, store
from tests.vector_arm.parts import GENEROUS_S, AlwaysOn

pytestmark = [pytest.mark.anyio, pytest.mark.model]
RAIN = "Rain water that reaches the threshold runs along the channel and leaves through weep holes. "
TAIL = (
    "A lost key is replaced by the manufacturer on presentation of the security card. Spare keys are cut to the "
    "number on that card. Without the card the cylinder of the lock is exchanged. "
    "New cylinders come with five keys. "
    "Keys that were stolen are reported to the locksmith."
)
ASKED = "what do I do when I have lost the key to the lock"


@dataclass(frozen=True, slots=True)
class Modelled:
    """An application with the small model's vectors."""

    app: Application
    encoder: ServiceEncoder
    ledger: SqlVectorLedger
    index: MemoryVectorIndex
    arm: VectorSearchArm

    async def sync(self) -> None:
        """Give every passage its vectors."""
        worker = VectorWorker(self.ledger, self.index, self.encoder, "minilm")
        while await worker.step() is StepOutcome.WORKED:
            pass
        await worker.release()

    async def ask(self, query: str, arms: Arms = Arms.BY_FLAG) -> Answer:
        """Retrieve with the flag on."""
        hybrid = Hybrid(self.arm, AlwaysOn(), budget=GENEROUS_S)
        retriever = Retriever(self.app.store, self.app.lexical, hybrid)
        return await retriever.retrieve(ByQuery(query), RetrieveOptions(DEFAULT_WORKSPACE, arms=arms))


@pytest.fixture
async def modelled(sqlite_app: Application) -> AsyncIterator[Modelled]:
    """The small model, loaded, over an empty corpus."""
    service = EncoderService.of(EncoderSettings(model="minilm"))
    service.start()
    await service.wait_ready(120)
    encoder, index = ServiceEncoder(service), MemoryVectorIndex()
    ledger = SqlVectorLedger(sqlite_app.store.engines, "float32")
    arm = VectorSearchArm(encoder, index, ledger)
    yield Modelled(sqlite_app, encoder, ledger, index, arm)
    await arm.close()
    await service.close()


async def test_the_end_of_a_long_passage_is_found(modelled: Modelled) -> None:
    """C25: what only the last sentence of a passage of several windows says is found by the vector arm alone,
    before shorter passages that are nearer to everything else the long one says.
    """
    await store(
        modelled.app,
        capture("long", RAIN * 40 + TAIL, title="Drainage", item_id="long"),
        capture("rain", RAIN, title="Drainage", item_id="rain"),
        capture("handle", "Handles of a door come in four finishes.", title="Handles", item_id="handle"),
        capture("bill", "Payment is due within thirty days.", title="Terms", item_id="bill"),
    )
    await modelled.sync()
    answer = await modelled.ask(ASKED, Arms.VECTOR)
    assert answer.vector == VectorArm(ArmState.RAN, "ran")
    assert ids(answer)[0] == "long"
    assert answer.results[0].text.endswith(TAIL)
    (serving,) = await modelled.ledger.collections()
    vector = await modelled.encoder.encode_query(ASKED, DEFAULT_WORKSPACE)
    nearest = VectorQuery(vector, DEFAULT_WORKSPACE, None, 100)
    hits = await modelled.index.search(serving.name, nearest, time.monotonic() + GENEROUS_S)
    windows = [hit.key.window for hit in hits if hit.key.item_id == "long"]
    assert windows[0] == max(windows) > 0


async def test_texts_without_a_token(modelled: Modelled) -> None:
    """C27: queries in which the model's own tokenizer finds nothing cost nobody else's vectors."""
    await store(modelled.app, capture("a", "a sill", item_id="a"))
    await modelled.sync()
    for query in ("\u200b", "\u0301", "\ufe0f") * FAILURES:
        answer = await modelled.ask(query)
        assert answer.vector == VectorArm(ArmState.DEGRADED, Reason.ENCODE_ERROR)
    assert modelled.arm.breakers.encoder == Breaker()
    assert (await modelled.ask("sill")).vector == VectorArm(ArmState.RAN, "ran")
