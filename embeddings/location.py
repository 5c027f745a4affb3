"""From the model setting to a folder on this machine."""

import re
from dataclasses import dataclass
from pathlib import Path

from embeddings.encoder_settings import EncoderSettings, HubAccess
from embeddings.errors import HubUnreachable, ModelNotFound, UnsuitableModel
from embeddings.hub import HubModel, cached_folder, fetch_folder
from embeddings.shipped import SHIPPED_MODELS, shipped_folder

_DEFAULT_ORGANISATION = "sentence-transformers"
_HUB_NAME = re.compile(r"^[A-Za-z0-9][\w.-]*(/[\w.-]+)?$")
_COMMIT = re.compile(r"^[0-9a-f]{40}$")


@dataclass(frozen=True, slots=True)
class ModelLocation:
    """A model folder. `name` is stable across machines; `commit` is set for a hub snapshot only."""

    name: str
    folder: Path
    commit: str | None = None


def locate(settings: EncoderSettings) -> ModelLocation:
    """Find the model: an alias, then a folder, then the hub's cache, and only then the hub.

    Raises:
        ModelNotFound: nothing of that name.
        HubUnreachable: it would have to be fetched, and cannot or may not be.
        UnsuitableModel: the folder is not a sentence-transformers model.
    """
    if settings.model in SHIPPED_MODELS:
        return ModelLocation(settings.model, _checked(shipped_folder(settings.model)))
    path = Path(settings.model).expanduser()
    if path.is_dir():
        return ModelLocation(path.resolve().name, _checked(path))
    if not _HUB_NAME.match(settings.model):
        raise ModelNotFound("the embedding model is neither a folder on this machine nor a hub name")
    return _from_hub(settings)


def _from_hub(settings: EncoderSettings) -> ModelLocation:
    name = settings.model if "/" in settings.model else f"{_DEFAULT_ORGANISATION}/{settings.model}"
    model = HubModel(name, settings.revision, settings.hub_url, settings.hub_cache)
    folder = cached_folder(model)
    if folder is None:
        if settings.hub is HubAccess.NEVER:
            raise HubUnreachable(f"{name!r} is not on this machine and fetching it is switched off")
        folder = fetch_folder(model, settings.hub_timeout_s)
    commit = folder.name if _COMMIT.match(folder.name) else None
    return ModelLocation(name, _checked(folder), commit)


def _checked(folder: Path) -> Path:
    """The folder, if it says how its vectors are made.

    Without `modules.json` the library would guess mean pooling, which is wrong for many models and raises
    nothing.
    """
    if not (folder / "modules.json").is_file():
        raise UnsuitableModel("the model folder has no modules.json: it is not a sentence-transformers model")
    return folder
