"""A recorded race: its schema, the events sent to a page, the verdict, charts and exports."""
