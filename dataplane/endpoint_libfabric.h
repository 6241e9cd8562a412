/* endpoint_libfabric.h - what the two halves of the libfabric module share: boot and hot path. */
#pragma once
#include "dataplane/endpoint.h"
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>

/* One context for each operation in flight; its place in the array is the slot. */
struct fabric_slots {
    uint8_t *bytes; /* count slots of frame_bytes, page-aligned */
    size_t mapped_bytes;
    uint32_t count;
    struct fi_context2 *contexts;
    struct fid_mr *mr; /* NULL where the provider needs none */
    void *descriptor;
};

struct endpoint {
    struct endpoint_info info;
    struct fi_info *fi;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_cq *cq;
    struct fid_av *av;
    struct fid_ep *ep;
    struct fabric_slots rx, tx;
    uint64_t *tx_peers; /* peer of each tx slot in flight */
};

/* endpoint_libfabric_boot.c */
int fabric_open(const struct endpoint_config *config, struct endpoint **out, char *why, size_t why_bytes);
void fabric_close(struct endpoint *endpoint);

/* endpoint_libfabric.c */
enum endpoint_status fabric_post(struct endpoint *endpoint, uint32_t slot);
