"""The erasure of users: requests in a topic of deletions, their effect on a state, and the receipts of services."""
