"""Models from measurements: pure numpy and scipy, no files, sockets, clocks or logs."""
