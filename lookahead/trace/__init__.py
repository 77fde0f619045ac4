"""A recorded race: its schema, the events on their way to a page, the verdict, charts and exports."""
