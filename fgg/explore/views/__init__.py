"""The views of the explorer's page: each module has `view(asked, send)`, which returns its answer.

Parts of an answer may be sent beforehand. `fgg.explore.lanes.VIEWS` lists the views.
"""
