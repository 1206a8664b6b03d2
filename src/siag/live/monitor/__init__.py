"""Who watches a run: terminal view, JSON lines, metrics, dashboard."""
