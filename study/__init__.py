"""Many trials: definition, plan, dispatch and the results database."""
