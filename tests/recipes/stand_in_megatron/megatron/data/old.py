import numpy as np

DTYPES = {6: np.float, 7: np.float64, 8: np.float_}
SIZE = np.product((2, 3))
