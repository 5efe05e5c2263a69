"""Unmixing: parameters from moments when the topology varies [ID §5].

A moment is a mixture over topologies of *compound parameters*, products of the parameters along a
*backbone*. `mixing` has the mixture, `pcfg_ie` and `dep_ies` the two base algorithms.
"""
