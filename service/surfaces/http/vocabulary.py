"""The vocabulary of the workspace: put and read as a whole."""

from typing import Final

import msgspec
from litestar import get, put
from litestar.params import JSONBody

from service.bootstrap import Application
from service.core.access import Access
from service.ingest.vocabulary import get_vocabulary, put_vocabulary
from service.surfaces.http.access import READS, WRITES, Asking
from service.surfaces.http.parts import App
from service.surfaces.http.problems import responses
from service.surfaces.wire import VocabularyIn, vocabulary_of, vocabulary_out

_TAGS: Final = ["vocabulary"]


@put(
    "/v1/vocabulary", tags=_TAGS, summary="Replace the vocabulary", responses=responses(413, 415), opt=WRITES
)
async def replace_vocabulary(data: JSONBody[VocabularyIn], application: App, access: Asking) -> VocabularyIn:
    """Replace the whole vocabulary and answer with it, each part in id order."""
    await put_vocabulary(application.store, access.workspace, vocabulary_of(data))
    return await _current(application, access)


@get("/v1/vocabulary", tags=_TAGS, summary="Read the vocabulary", responses=responses(), opt=READS)
async def read_vocabulary(application: App, access: Asking) -> VocabularyIn:
    """The whole vocabulary, in the form in which it is put."""
    return await _current(application, access)


async def _current(application: Application, access: Access) -> VocabularyIn:
    return msgspec.convert(
        vocabulary_out(await get_vocabulary(application.store, access.workspace)), VocabularyIn
    )
