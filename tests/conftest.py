"""One thread a process: on two cores, two workers of two threads each wait for each other."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is imported
