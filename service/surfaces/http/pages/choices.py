"""What the search form offers: the vocabulary's systems, and its factors with their options."""

from collections import defaultdict
from dataclasses import dataclass
from typing import Final

from service.model import Option, Vocabulary
from service.surfaces.http.pages.asked import By, SearchForm

MAX_SHOWN: Final = 1_000  # systems, or options: a longer form is no form


@dataclass(frozen=True, slots=True)
class Choice:
    """Something to pick."""

    value: str
    label: str
    is_chosen: bool


@dataclass(frozen=True, slots=True)
class ChoiceGroup:
    """A factor and its options."""

    name: str
    choices: tuple[Choice, ...]


@dataclass(frozen=True, slots=True)
class Choices:
    """What there is to pick, what of the form the vocabulary does not know, and how much is left out."""

    systems: tuple[Choice, ...]
    groups: tuple[ChoiceGroup, ...]
    unknown: tuple[str, ...]
    left_out: int

    @property
    def chosen(self) -> tuple[Choice, ...]:
        """The options that are picked."""
        return tuple(one for group in self.groups for one in group.choices if one.is_chosen)

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to pick."""
        return not self.systems and not self.groups


def choices_of(vocabulary: Vocabulary, form: SearchForm) -> Choices:
    """The choices of the form's way to ask."""
    if form.by is By.SYSTEM:
        return _systems(vocabulary, form)
    return _options(vocabulary, form)


def _systems(vocabulary: Vocabulary, form: SearchForm) -> Choices:
    systems = sorted(vocabulary.systems, key=lambda system: (system.retired_at is not None, system.name))
    known = {system.system_id for system in systems}
    return Choices(
        systems=tuple(
            Choice(
                one.system_id,
                one.name if one.retired_at is None else f"{one.name} (retired)",
                one.system_id == form.system,
            )
            for one in systems[:MAX_SHOWN]
        ),
        groups=(),
        unknown=(form.system,) if form.system and form.system not in known else (),
        left_out=max(0, len(systems) - MAX_SHOWN),
    )


def _options(vocabulary: Vocabulary, form: SearchForm) -> Choices:
    chosen = set(form.option_ids)
    by_factor: defaultdict[str, list[Option]] = defaultdict(list)
    for option in vocabulary.options[:MAX_SHOWN]:
        by_factor[option.factor_id].append(option)
    groups = [
        ChoiceGroup(
            factor.name,
            tuple(Choice(o.option_id, o.label, o.option_id in chosen) for o in by_factor[factor.factor_id]),
        )
        for factor in vocabulary.factors
        if by_factor[factor.factor_id]
    ]
    known = {option.option_id for option in vocabulary.options}
    return Choices(
        systems=(),
        groups=tuple(groups),
        unknown=tuple(one for one in form.option_ids if one not in known),
        left_out=max(0, len(vocabulary.options) - MAX_SHOWN),
    )
