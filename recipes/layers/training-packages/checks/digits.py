# /// check
# summary: scikit-learn reads the data set that it ships
# imports: [sklearn.datasets]
# hint: rebuild the layer training-packages
# ///

import sys

from sklearn.datasets import load_digits

images = len(load_digits().target)
print(f"{images} images of digits")
if images != 1797:
    sys.exit(f"scikit-learn's digits are {images} images, not 1797")
