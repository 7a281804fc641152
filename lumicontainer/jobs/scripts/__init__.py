"""Write batch scripts: what a job asks for, what it costs, and the text."""
