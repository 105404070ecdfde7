"""Common parts of every HTTP process: requests, answers, deadlines, problems. Independent of the state."""
