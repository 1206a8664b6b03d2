"""A live run: a session, its workers, and how their messages travel."""
