"""What follows from runs and models: cost, forecasts, progress. Values in, values out."""
