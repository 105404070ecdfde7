"""The dead-letter topic of a service: its records as they are written, and the letters as they are read."""
