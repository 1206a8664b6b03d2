"""TCP and TLS."""
