/* lwippools.h - the blocks of mem_malloc(): headers, and datagrams that lwIP builds itself. Expanded more than once. */
LWIP_MALLOC_MEMPOOL_START
LWIP_MALLOC_MEMPOOL(STACK_SEGMENTS + 4096, 160)
LWIP_MALLOC_MEMPOOL(256, 1664)
LWIP_MALLOC_MEMPOOL(32, 9600)
LWIP_MALLOC_MEMPOOL_END
