"""Keyphrases over HTTP: a small service and the page that uses it. Flask and waitress, one thread for the model."""
