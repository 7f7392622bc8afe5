"""The numbers of the docs pages, from the bundles in contrib/: `make results`.

`schema` is that of data/pages.yaml, which names each table and number; `bundle_runs` has the runs; `cells` computes a
number; `tables` has the text of a table; `fill` fills the marked regions of the pages.
"""
