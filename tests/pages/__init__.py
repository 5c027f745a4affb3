"""The pages for people: what they show, what they refuse, and how they behave in a real browser."""
