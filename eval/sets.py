"""The sets that have names, and folders by path."""

from enum import StrEnum
from pathlib import Path
from typing import Final

import eval as package
from eval.beir import beir_corpus, digest_of, read_dataset
from eval.dataset import Corpus, CorpusKind, Dataset
from eval.errors import MissingFile
from service.surfaces.shipped import DOC2DIAL, PRODUCTS

DATA: Final = Path(package.__file__).parent / "data"
DOC2DIAL_DIVERGENT: Final = "paraphrase"  # the tag of doc2dial's lexically divergent queries


class NamedSet(StrEnum):
    """Sets over the corpora that ship with the project."""

    PARAPHRASE = "paraphrase"
    EXACT = "exact"
    STALE_TRAP = "stale-trap"
    DOC2DIAL = "doc2dial"


def open_set(name: str) -> Dataset:
    """A named set or a BEIR folder by path.

    A folder without corpus.jsonl is judged over the product corpus. Raises EvaluationError.
    """
    if name == NamedSet.DOC2DIAL and (DATA / name).is_dir():
        return read_dataset(DATA / name, name, beir_corpus(DOC2DIAL, name))
    if name in set(NamedSet):
        if not (DATA / name).is_dir():
            raise MissingFile(f"the set {name} is not part of this installation; give its folder by path")
        return read_dataset(DATA / name, name, product_corpus())
    folder = Path(name)
    if not folder.is_dir():
        known = ", ".join(NamedSet)
        raise MissingFile(f"{name[:200]} is neither a set ({known}) nor a folder")
    own = (folder / "corpus.jsonl").exists()
    return read_dataset(folder, folder.resolve().name, None if own else product_corpus())


def product_corpus() -> Corpus:
    """The shipped product corpus with its lifecycle."""
    files = [*(PRODUCTS / "documents").glob("*.md"), PRODUCTS / "lifecycle.json"]
    return Corpus("products", CorpusKind.PRODUCTS, digest_of(files))
