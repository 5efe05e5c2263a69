"""The documentation site: pages written by hand, and pages made from the code.

`tree.py` gathers all pages, `__main__.py` hands them to Sphinx.
"""
