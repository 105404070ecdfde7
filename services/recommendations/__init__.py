"""Recommendations: SALSA random walks over the live graph of listening events."""
