"""Passages for people: what a passage says, where it says so, and how to cite it."""

import textwrap
from typing import Final

from service.surfaces.cli.escaping import printable
from service.surfaces.cli.terminal import output, say
from service.surfaces.envelope import RetrievalOut
from service.surfaces.wire import ExplainOut, ProvenanceOut, RetrievedPassageOut

INDENT: Final = "   "


def say_passages(shown: RetrievalOut) -> None:
    """A page of passages, best first, and the next command."""
    if not shown.results:
        say("no passage found")
    for number, passage in enumerate(shown.results, start=1):
        say_passage(number, passage)
    vector = shown.arms.vector
    say(f"{shown.shown} shown · lexical {shown.arms.lexical.state} · vector {vector.state} ({vector.reason})")
    if shown.corpus_changed:
        say("the corpus has changed since the page before this one")
    say(f"next: {shown.next_action.cli}")


def say_passage(number: int, passage: RetrievedPassageOut) -> None:
    """One passage: where, what, and its citation."""
    place = (
        passage.provenance.title
        if passage.heading is None
        else f"{passage.provenance.title} > {passage.heading}"
    )
    say(f"{number}. {' '.join(place.split())}")
    width = max(40, min(output().width, 100))
    for paragraph in printable(passage.text).splitlines():
        lines = textwrap.wrap(paragraph, width, initial_indent=INDENT, subsequent_indent=INDENT)
        for line in lines:
            say(line)
    say(f"{INDENT}— {citation(passage.provenance)} [{passage.passage_id}, score {passage.score:.2f}]")
    if passage.explain is not None:
        _say_why(passage.explain)
    say("")


def citation(provenance: ProvenanceOut) -> str:
    """Title, version and source; the source is a link to follow only where it was seen alive."""
    source = provenance.source_filename or "unnamed upload"
    if provenance.source_url is not None:
        liveness = {True: "live", False: "dead link", None: "link not checked"}[provenance.source_url_ok]
        source = f"{provenance.source_url} ({liveness})"
    return f"{provenance.title}, {provenance.version}, {source}"


def _say_why(why: ExplainOut) -> None:
    matches = ", ".join(f"{match.term} {match.score:.2f}" for match in why.matches) or "no term"
    say(f"{INDENT}  rank {why.lexical_rank}, lexical {why.lexical_score:.2f}: {matches}")
    for facet in why.matched_facets:
        say(f"{INDENT}  boosted by the tag {facet.facet_type} {facet.facet_id}: +{why.tag_boost:.2f}")
