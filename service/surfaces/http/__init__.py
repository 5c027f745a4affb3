"""The HTTP surface: translates requests into use cases and answers into JSON; decides nothing."""
