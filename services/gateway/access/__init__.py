"""Who may ask for what, and how much: callers by key or JWT, their scopes and limits."""
