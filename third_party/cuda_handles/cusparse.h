#include "cuda_handles.h"
