"""A service over another one's derived topic."""
