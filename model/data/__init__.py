"""Interactions from their source to the batches that a trial trains on."""
