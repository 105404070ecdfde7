"""Holds every stored key against a recount of the topics, while the streams run. Shares no code with the folds."""
