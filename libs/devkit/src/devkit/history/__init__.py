"""`make history`: an archive, and the states, answers and files made from it, measured against what is to be reached.

A part is a function of a `HistoryLab` that yields rows of the table; `__main__` lists the parts.
"""
