"""Keys, workspaces and what may not be seen."""
