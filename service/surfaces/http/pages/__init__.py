"""The pages for people: a query tried in a browser, with both arms, ranks and fusion.

They hold no script and ask no other site for anything.
"""
