"""Vocabulary: replaced as a whole, so that a reader sees one edition or the other."""

from service.core.vocabulary_rules import check_vocabulary
from service.model import Vocabulary, Workspace
from service.ports.store import Store


async def put_vocabulary(store: Store, workspace: Workspace, vocabulary: Vocabulary) -> None:
    """Replace the workspace's vocabulary. Raises InvalidVocabulary, InvalidText; then nothing changes."""
    check_vocabulary(vocabulary)
    async with store.transaction(workspace) as transaction:
        await transaction.replace_vocabulary(vocabulary)


async def get_vocabulary(store: Store, workspace: Workspace) -> Vocabulary:
    """The workspace's vocabulary, each part in id order."""
    async with store.snapshot() as snapshot:
        return await snapshot.vocabulary(workspace)
