"""What lists leave out: rules of operators, and items that a user was shown."""
