"""Documents in, passages out: nothing lost, nothing cut, nothing that harms."""
