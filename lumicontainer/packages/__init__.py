"""Read the formats that name packages of Python: one module each. Text in, values out."""
