"""A model by its hub name: from the cache without a single request, else from the hub, else a fast refusal."""

import threading
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path

import huggingface_hub
from huggingface_hub.errors import (
    HfHubHTTPError,
    HFValidationError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
    RevisionResolutionError,
)
from huggingface_hub.hf_api import ModelInfo
from huggingface_hub.utils import httpx  # type: ignore[attr-defined] # exported for this, not declared

from embeddings.errors import EmbeddingError, HubUnreachable, ModelNotFound, UnsuitableModel
from embeddings.model_files import files_below, shaping_files

_LAST_FILE = "modules.json"
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
    """The snapshot already on this machine, or None; asks nobody.

    `fetch_folder` writes `modules.json` last, so a snapshot that has it is whole.
    """
    try:
        found = huggingface_hub.try_to_load_from_cache(
            model.name, _LAST_FILE, revision=model.revision, cache_dir=model.cache
        )
    except HFValidationError as error:
        raise ModelNotFound(f"{model.name!r} is neither a folder nor a hub name") from error
    if not isinstance(found, str):
        return None
    folder = Path(found).parent
    has_weights = any(name.endswith((".safetensors", ".bin")) for name in shaping_files(files_below(folder)))
    return folder if has_weights else None


def fetch_folder(model: HubModel, timeout_s: float) -> Path:
    """Download what the model needs and return its snapshot.

    Raises:
        ModelNotFound: the hub does not have it, or not for us.
        UnsuitableModel: the repository is not a sentence-transformers model.
        HubUnreachable: no answer within `timeout_s`, or the download broke off.
    """
    info = _ask(model, timeout_s)
    wanted = shaping_files(sibling.rfilename for sibling in info.siblings or ())
    if _LAST_FILE not in wanted:
        raise UnsuitableModel(f"{model.name!r} has no {_LAST_FILE}: it is not a sentence-transformers model")
    wanted.remove(_LAST_FILE)
    try:
        folder = Path(
            huggingface_hub.snapshot_download(
                model.name,
                revision=info.sha,
                cache_dir=model.cache,
                endpoint=model.url,
                etag_timeout=timeout_s,
                allow_patterns=wanted,
            )
        )
        # By branch name, because that is what makes the cache remember which commit the branch was.
        last = huggingface_hub.hf_hub_download(
            model.name,
            _LAST_FILE,
            revision=model.revision,
            cache_dir=model.cache,
            endpoint=model.url,
            etag_timeout=timeout_s,
        )
    except _ABSENT as error:
        raise ModelNotFound(f"the hub has no model {model.name!r} at this revision") from error
    except _UNREACHABLE as error:
        raise HubUnreachable(f"fetching {model.name!r} from its hub broke off") from error
    if Path(last).parent != folder:
        raise HubUnreachable(f"{model.name!r} changed on its hub while it was fetched")
    return folder


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
