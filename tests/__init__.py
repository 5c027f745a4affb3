"""Tests are facts about citewell."""
