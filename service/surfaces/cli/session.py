"""The parts a command works with, opened for as long as it runs."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import TypeVar

from service.adapters.flags.settings import PATIENT
from service.bootstrap import Application, application
from service.settings import Settings, VectorMode
from service.surfaces.cli.logs import logs_to_stderr
from service.surfaces.cli.terminal import tell

T = TypeVar("T")
INDEX_PATIENCE = 3_600.0  # seconds: a command has nobody else to serve while its index is being built
QUIET_FOR = 1.5  # seconds of waiting before anybody is told what for


def run(work: Coroutine[object, object, T]) -> T:
    """Run a command's work to its end; what goes well on the way is not logged."""
    logs_to_stderr("WARNING")
    return asyncio.run(work)


def without_vectors(settings: Settings) -> Settings:
    """The settings of a command that never searches by vectors: no model is loaded for it."""
    return settings.model_copy(update={"vectors": VectorMode.OFF})


@asynccontextmanager
async def patient_application(settings: Settings) -> AsyncIterator[Application]:
    """An application whose reads wait until the index of this process is complete, and for the flag's holder.

    It searches by vectors where the settings say so, and leaves following the change log to the service.
    """
    patient = settings.model_copy(update={"index_patience": INDEX_PATIENCE})
    if settings.vectors is VectorMode.ON:
        patient = patient.model_copy(update={"vectors": VectorMode.READ})
    told = asyncio.create_task(_tell_later())
    try:
        async with application(patient, PATIENT) as app:
            told.cancel()
            yield app
    finally:
        told.cancel()
        with suppress(asyncio.CancelledError):
            await told


async def _tell_later() -> None:
    await asyncio.sleep(QUIET_FOR)
    tell("bringing the lexical index up to date…")
