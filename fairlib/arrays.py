"""Types of arrays, for annotations."""

import numpy as np
from numpy.typing import NDArray

Float = NDArray[np.float64]
Float32 = NDArray[np.float32]
Int = NDArray[np.int64]
Index = NDArray[np.intp]
Int8 = NDArray[np.int8]
Bool = NDArray[np.bool_]
Str = NDArray[np.object_]  # of Python strings
