"""Stands in for what compiles these kernels in a job."""
