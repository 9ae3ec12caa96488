"""The commands of DSSTNE, a module for each; :mod:`dsstne.cli` runs them.

A module has ``parse``, which reads a command line and imports nothing that takes time, and ``run``, which does the
work.
"""
