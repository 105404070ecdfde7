"""What every HTTP process says alike: requests, answers, deadlines, problems. Nothing here knows the state."""
