"""Retrieving for one person who waits: the vector arm gets the time that it takes to begin."""

import asyncio
import time
from dataclasses import replace
from typing import Final

from service.bootstrap import Application
from service.core.drill import DrillKind
from service.ports.embedding import EncoderState
from service.search.degradation import Reason
from service.search.request import Answer, RetrieveOptions, Subject
from service.settings import Settings, VectorMode
from service.surfaces.cli.terminal import tell

MODEL_PATIENCE_S: Final = 60.0
ARM_PATIENCE_S: Final = 10.0  # the first question to a model and to a store, which nobody else waits behind
POLL_S: Final = 0.05


async def asked(app: Application, subject: Subject, options: RetrieveOptions) -> Answer:
    """The answer, with vectors where flag and settings say so; why without them is told on standard error.

    A model that is still loading is waited for, MODEL_PATIENCE_S at most. A drill has a request's own budget.
    """
    if options.drill is None:
        patience = max(ARM_PATIENCE_S, app.settings.vector_budget)
        options = replace(options, budget=patience)
    answer = await app.retriever.retrieve(subject, options)
    if answer.vector.reason == Reason.MODEL_LOADING:
        await _loaded(app)
        answer = await app.retriever.retrieve(subject, options)
    why_not = _why_not(app, answer, options)
    if why_not is not None:
        tell(why_not)
    return answer


async def _loaded(app: Application) -> None:
    """Wait until the model is there, or cannot be had."""
    if app.vectors.worker is None:
        return
    tell(f"loading the model {app.settings.embedding_model}…")
    until = time.monotonic() + MODEL_PATIENCE_S
    encoder = app.vectors.worker.encoder
    while encoder.state is EncoderState.LOADING and time.monotonic() < until:  # noqa: ASYNC110 - it tells nobody
        await asyncio.sleep(POLL_S)


def _why_not(app: Application, answer: Answer, options: RetrieveOptions) -> str | None:
    settings, reason = app.settings, answer.vector.reason
    if reason == Reason.NO_MODEL:
        drill = options.drill
        if drill is not None and drill.kind is DrillKind.SLOW:
            return f"there is no vector arm to be slow in this drill: {_absence(app)}"
        return f"answered without vectors: {_absence(app)}"
    if reason == Reason.MODEL_LOADING:
        model, seconds = settings.embedding_model, MODEL_PATIENCE_S
        return f"answered without vectors: the model {model} is not loaded after {seconds:.0f} s"
    if reason == Reason.STORE_UNAVAILABLE and not settings.qdrant_url:
        return (
            "answered without vectors: Qdrant Edge in the data directory cannot be opened; it is one process's "
            "alone, so where the service runs ask the service"
        )
    return None


def _absence(app: Application) -> str:
    settings: Settings = app.settings
    if settings.vectors is VectorMode.OFF or app.vectors.worker is None:
        return "CITEWELL_VECTORS is off here"
    return f"the model {settings.embedding_model} cannot be loaded: {app.vectors.worker.encoder.failure}"
