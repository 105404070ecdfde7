"""The profile of a file, whose first workers die between the publication of a rule's record and its commit."""
