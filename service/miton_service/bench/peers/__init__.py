"""Programs that are measured beside Miton, on the same weights; each runs in a process of its own."""
