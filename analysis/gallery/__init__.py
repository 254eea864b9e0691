"""The figures, one kind a file: a function that returns what is shown, and one that draws it."""
