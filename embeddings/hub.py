"""A model by its hub name: from the cache without a single request, else from the hub, else a fast refusal."""

import threading
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path

import huggingface_hub
from huggingface_hub.errors import (
    HfHubHTTPError,
    HFValidationError,
    LocalEntryNotFoundError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
    RevisionResolutionError,
)
from huggingface_hub.hf_api import ModelInfo
from huggingface_hub.utils import httpx  # type: ignore[attr-defined] # exported for this, not declared

from embeddings.errors import EmbeddingError, HubUnreachable, ModelNotFound
from embeddings.model_files import files_below, shaping_files

# A 404 has several names; to the one who set the model they mean the same.
_ABSENT = (RepositoryNotFoundError, RevisionNotFoundError, HFValidationError)
_UNREACHABLE = (HfHubHTTPError, httpx.HTTPError, RevisionResolutionError, OSError)


@dataclass(frozen=True, slots=True)
class HubModel:
    """A repository on a hub. `url` None is the hub's own address, `cache` None its usual folder."""

    name: str
    revision: str | None
    url: str | None
    cache: Path | None


def cached_folder(model: HubModel) -> Path | None:
    """The snapshot already on this machine, or None; asks nobody."""
    try:
        folder = Path(
            huggingface_hub.snapshot_download(
                model.name, revision=model.revision, cache_dir=model.cache, local_files_only=True
            )
        )
    except (LocalEntryNotFoundError, RevisionResolutionError):
        return None
    except HFValidationError as error:
        raise ModelNotFound(f"{model.name!r} is neither a folder nor a hub name") from error
    return folder if _is_complete(folder) else None


def fetch_folder(model: HubModel, timeout_s: float) -> Path:
    """Download what the model needs and return its snapshot.

    Raises:
        ModelNotFound: the hub does not have it, or not for us.
        HubUnreachable: no answer within `timeout_s`, or the download broke off.
    """
    info = _ask(model, timeout_s)
    wanted = shaping_files(sibling.rfilename for sibling in info.siblings or ())
    try:
        folder = huggingface_hub.snapshot_download(
            model.name,
            revision=model.revision,
            cache_dir=model.cache,
            endpoint=model.url,
            etag_timeout=timeout_s,
            allow_patterns=wanted,
        )
    except _ABSENT as error:
        raise ModelNotFound(f"the hub has no model {model.name!r} at this revision") from error
    except _UNREACHABLE as error:
        raise HubUnreachable(f"fetching {model.name!r} from its hub broke off") from error
    return Path(folder)


def _is_complete(folder: Path) -> bool:
    """Whether an interrupted download left enough to load; a half one is fetched again."""
    names = shaping_files(files_below(folder))
    return "modules.json" in names and any(name.endswith((".safetensors", ".bin")) for name in names)


def _ask(model: HubModel, timeout_s: float) -> ModelInfo:
    """What the hub says of a model, within a hard deadline.

    The client's own timeout does not bound name resolution, which may hang for longer than any caller
    waits; hence the thread, which is left behind.
    """
    answer: Future[ModelInfo] = Future()

    def request() -> None:
        try:
            api = huggingface_hub.HfApi(endpoint=model.url)
            answer.set_result(api.model_info(model.name, revision=model.revision, timeout=timeout_s))
        except _ABSENT as error:
            answer.set_exception(_caused(ModelNotFound(f"the hub has no model {model.name!r}"), error))
        except _UNREACHABLE as error:
            unreachable = HubUnreachable(f"{model.name!r} is not on this machine and its hub does not answer")
            answer.set_exception(_caused(unreachable, error))

    threading.Thread(target=request, name="hub-question", daemon=True).start()
    try:
        return answer.result(timeout_s * 1.5)
    except TimeoutError as error:
        raise HubUnreachable(f"{model.name!r} is not on this machine and its hub does not answer") from error


def _caused(error: EmbeddingError, cause: Exception) -> EmbeddingError:
    error.__cause__ = cause
    return error
