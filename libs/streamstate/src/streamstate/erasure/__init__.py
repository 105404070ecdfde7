"""The erasure of users: requests in a topic of deletions, what they mean for a state, and the receipts of services."""
