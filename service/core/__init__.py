"""Pure decisions: tokens, scores, order, staleness, facets, cursors, links. No I/O, no clock."""
