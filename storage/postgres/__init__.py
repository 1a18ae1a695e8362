"""The parts of the embedded PostgreSQL: binaries, system user, home folder, postmaster."""
