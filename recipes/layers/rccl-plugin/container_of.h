/* aws-ofi-rccl has container_of from rdma/fabric.h, which defines it no longer since libfabric 2.0. */
#ifndef container_of
#include <stddef.h>
#define container_of(pointer, type, member) ((type *)((char *)(pointer) - offsetof(type, member)))
#endif
