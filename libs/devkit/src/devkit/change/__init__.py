"""`make change`: folds are changed under load, with stage, wait, promote, back and drop, and what clients see of it."""
