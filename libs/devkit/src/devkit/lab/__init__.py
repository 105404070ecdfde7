"""The lab: what the system does on this machine, measured on real parts and held against targets.

`bench`, `change` and `history` are its runs, each started by the target of `make` of that name. A run calls measures:
a measure adds targets and figures to the report of the run. A new one takes a module in `measures`, and a line in its
run.
"""
