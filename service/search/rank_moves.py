"""How two rankings of one request differ: the shared part of their tops, and who moved."""

from collections.abc import Sequence
from enum import StrEnum

from service.ports.shadow import RankMove

CUTOFF = 8  # the default limit: what a caller sees


class MoveKind(StrEnum):
    """How far a passage moves when the hybrid answers."""

    ENTERED = "entered"
    UP_FAR = "up_3_or_more"
    UP = "up_1_or_2"
    DOWN = "down_1_or_2"
    DOWN_FAR = "down_3_or_more"
    LEFT = "left"


def overlap(lexical: Sequence[str], hybrid: Sequence[str]) -> float:
    """The share of the longer top that both have, from 0 to 1; 1 where both are empty."""
    longer = max(len(lexical), len(hybrid))
    return len(set(lexical) & set(hybrid)) / longer if longer else 1.0


def rank_moves(lexical: Sequence[str], hybrid: Sequence[str]) -> tuple[RankMove, ...]:
    """The passages whose rank differs: in the hybrid's order, then those that left in lexical order."""
    before = {name: rank for rank, name in enumerate(lexical, start=1)}
    after = {name: rank for rank, name in enumerate(hybrid, start=1)}
    moves = [RankMove(name, before.get(name), rank) for name, rank in after.items()]
    moves += [RankMove(name, rank, None) for name, rank in before.items() if name not in after]
    return tuple(move for move in moves if move.lexical_rank != move.hybrid_rank)


def kind_of(move: RankMove) -> MoveKind:
    """Which kind a move is."""
    if move.lexical_rank is None:
        return MoveKind.ENTERED
    if move.hybrid_rank is None:
        return MoveKind.LEFT
    places = move.lexical_rank - move.hybrid_rank
    if places > 0:
        return MoveKind.UP_FAR if places >= 3 else MoveKind.UP
    return MoveKind.DOWN_FAR if places <= -3 else MoveKind.DOWN
