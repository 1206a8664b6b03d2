"""What the papers of the methods claim, as functions that put it to the test."""
