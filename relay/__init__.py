"""The relay: ends clean, young transactions at once, and passes all other ops to the job."""
