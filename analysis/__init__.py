"""From the results database to frames, figures, tables and the report; reads only."""
