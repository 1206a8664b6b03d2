"""What everything else stands on: types, errors, checks, randomness, dispatch, schedules, safe files."""
