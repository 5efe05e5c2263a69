"""The explorer, `fggc explore`: a local page that shows how a grammar becomes a program.

`server.py` answers the requests of the page, after `guard.py` has let them in. Every computation
runs in a worker process (`lanes.py`, `worker.py`) with limits of time and memory. `asked.py` holds
what a request asks for; each tab of the page has its module in `views/`. The page itself, plain
HTML, CSS and JavaScript, is in `page/`; `export.py` writes it as one file that needs no server.
"""
