"""The relay: between the op topic and the job, it ends clean, young transactions at once."""
