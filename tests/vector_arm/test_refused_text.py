"""Texts that an encoder refuses: their askers get the lexical answer, and nobody else notices."""

from collections.abc import AsyncIterator, Sequence

import numpy as np
import pytest

from embeddings.encoder_service import EncoderService
from embeddings.errors import InvalidText
from service.adapters.encoder import ServiceEncoder
from service.core.breaker import FAILURES, Breaker
from service.model import Workspace
from service.ports.embedding import EncoderFailed, TextRefused
from service.search.degradation import Reason
from service.search.request import ArmState, VectorArm
from tests.builders import capture, store
from tests.embeddings.hash_encoder import HashEncoder
from tests.vector_arm.parts import UNREADABLE, Vectors
from tests.vector_arm.test_read import bytes_of, furnished

pytestmark = pytest.mark.anyio
HERE = Workspace("here")


async def test_a_refused_query_costs_its_own_vectors_only(vectors: Vectors) -> None:
    """C27: a query without a token is answered lexically with encode_error, however often it comes, and the next
    ordinary query has vectors.
    """
    await furnished(vectors)
    await store(vectors.app, capture("e", f"a {UNREADABLE} b", item_id="e"))
    for _ in range(3 * FAILURES):
        answer = await vectors.ask(UNREADABLE)
        assert answer.vector == VectorArm(ArmState.DEGRADED, Reason.ENCODE_ERROR)
    assert bytes_of(answer) == bytes_of(await vectors.lexically(UNREADABLE))
    assert vectors.arm.breakers.encoder == Breaker()
    assert (await vectors.ask("sill")).vector.state is ArmState.RAN


async def test_refused_queries_do_not_hide_an_ill_encoder(vectors: Vectors) -> None:
    """C27: refusals between failures neither count as failures nor as successes."""
    await furnished(vectors)
    for _ in range(FAILURES):
        vectors.encoder.fails = True
        await vectors.ask("sill")
        vectors.encoder.fails = False
        if not vectors.arm.breakers.encoder.is_open:
            await vectors.ask(UNREADABLE)
    assert vectors.arm.breakers.encoder.failures == FAILURES


def refusing(texts: Sequence[str]) -> None:
    """What a tokenizer does that finds nothing."""
    if any(UNREADABLE in text for text in texts):
        raise InvalidText("a text has no token")


@pytest.fixture
async def adapter() -> AsyncIterator[ServiceEncoder]:
    """The adapter over a real service, which refuses one text and whose model fails at another."""

    def before(texts: Sequence[str]) -> None:
        refusing(texts)
        if any("broken" in text for text in texts):
            raise ValueError("no such tensor")

    service = EncoderService(lambda: HashEncoder(before=before))
    service.start()
    await service.wait_ready(30)
    yield ServiceEncoder(service)
    await service.close()


@pytest.mark.parametrize("text", [UNREADABLE, " ", "\ud800"])
async def test_refusals_are_told_from_failures(adapter: ServiceEncoder, text: str) -> None:
    """C27: no token, no text and a lone surrogate are the text's fault; a model that raises is the encoder's."""
    with pytest.raises(TextRefused):
        await adapter.encode_query(text, HERE)
    if text.strip():
        with pytest.raises(TextRefused):
            await adapter.encode_passages(["good", text])
    with pytest.raises(EncoderFailed) as failed:
        await adapter.encode_query("broken", HERE)
    assert not isinstance(failed.value, TextRefused)
    vector = await adapter.encode_query("good", HERE)
    assert np.linalg.norm(vector) == pytest.approx(1.0)
