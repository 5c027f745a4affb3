"""The vector arm's faults, caused for real: processes killed, files destroyed, disks filled, encoders slow."""
