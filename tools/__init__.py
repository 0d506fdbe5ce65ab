"""Tools of a checkout: set-up, the lock of the jars, archives of classes, the SBOM."""
