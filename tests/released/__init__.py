"""The release before: its answers and its states. `python -m tests.released` writes both for a new release."""
