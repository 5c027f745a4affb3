"""Nothing authoritative can be forgotten: each table and column is in an archive, or is left out by name."""

from service.adapters.sql import schema
from service.adapters.sql.archive_tables import TABLES

# Derived from what is archived, of the moment, or of one machine; none of it changes what is answered.
LEFT_OUT_TABLES = {
    "embedding_cache",  # encoded again
    "vector_collections",  # built again, and named after their model
    "vector_progress",
    "vector_parked",
    "leases",
    "vector_comparisons",  # told anew within minutes
    "vector_workers",
    "shadow_comparisons",  # what was seen, with bounded keeping
}
LEFT_OUT_COLUMNS = {
    "change_counter.id",  # always 1
    "change_counter.database_id",  # a restored database has a name of its own
    "items.title_terms",  # tokens, made again from the texts
    "passages.heading_terms",
    "passages.body_terms",
    "passages.body_length",
    "rollout_flag_changes.id",  # given again in the same order
    "change_log.nonce",  # a restored history is one of its own
}


def test_every_table() -> None:
    """C12: a new table is archived, or named here as one that needs no backup."""
    archived = {entry.table.name for entry in TABLES}
    assert archived.isdisjoint(LEFT_OUT_TABLES)
    assert archived | LEFT_OUT_TABLES == schema.metadata.tables.keys()


def test_every_column() -> None:
    """C12: a new column of an archived table is in the archive, or named here as derived."""
    left_out = {f"{entry.table.name}.{name}" for entry in TABLES for name in entry.left_out}
    assert left_out == LEFT_OUT_COLUMNS


def test_rows_are_ordered_by_what_is_unique() -> None:
    """C12: an archive's order is total, so that the same rows are the same bytes."""
    for entry in TABLES:
        assert set(entry.order) == {column.name for column in entry.table.primary_key}


def test_rows_follow_what_they_refer_to() -> None:
    """A row's foreign keys name kinds that stand before it."""
    places = {entry.table.name: place for place, entry in enumerate(TABLES)}
    for entry in TABLES:
        for key in entry.table.foreign_keys:
            assert places[key.column.table.name] < places[entry.table.name]
