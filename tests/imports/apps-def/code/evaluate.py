import einops

print(einops.__version__)
