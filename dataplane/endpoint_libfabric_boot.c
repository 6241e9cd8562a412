/* endpoint_libfabric_boot.c - the boot half of the libfabric module: choose the provider, open, close, refuse. */
#include "dataplane/endpoint_libfabric.h"
#include <errno.h>
#include <sys/mman.h>
#include <sys/resource.h>

#define FRAME_BYTES_DEFAULT 8192 /* efa-direct carries about one MTU */
#define FRAME_BYTES_SHM     4096 /* above it every message is a process_vm_readv (FACTS) */
#define FRAME_BYTES_LEAST   256

/* Provider names as operators write them, and as libfabric answers. */
struct provider_choice {
    const char *asked;
    const char *name;   /* fi_fabric_attr.prov_name, compared exactly */
    const char *fabric; /* fi_fabric_attr.name that must be, or NULL */
    const char *not_fabric;
};

static struct provider_choice
provider_choice_of(const char *asked)
{
    struct provider_choice choice = { .asked = asked, .name = asked };

    if (strcmp(asked, "net") == 0 || strcmp(asked, "tcp") == 0) {
        /* RDM over TCP without rxm was called net until 1.17 and is tcp since. */
        choice.name = FI_VERSION_GE(fi_version(), FI_VERSION(1, 18)) ? "tcp" : "net";
    } else if (strcmp(asked, "efa-direct") == 0) {
        choice.name = "efa";
        choice.fabric = "efa-direct";
    } else if (strcmp(asked, "efa") == 0) {
        choice.not_fabric = "efa-direct";
    }
    return choice;
}

static bool
choice_fits(const struct provider_choice *choice, const struct endpoint_config *config, const struct fi_info *fi)
{
    const char *fabric = fi->fabric_attr->name ? fi->fabric_attr->name : "";

    return strcmp(fi->fabric_attr->prov_name, choice->name) == 0 &&
           (choice->fabric == NULL || strcmp(fabric, choice->fabric) == 0) &&
           (choice->not_fabric == NULL || strcmp(fabric, choice->not_fabric) != 0) &&
           (config->domain == NULL ||
            (fi->domain_attr->name != NULL && strcmp(fi->domain_attr->name, config->domain) == 0));
}

/* The weakest contract (DESIGN section 3): what every provider grants, efa-direct included. */
static struct fi_info *
hints_of(const struct provider_choice *choice)
{
    struct fi_info *hints = fi_allocinfo();
    if (hints == NULL) {
        return NULL;
    }
    hints->caps = FI_MSG | FI_SOURCE;
    hints->mode = FI_CONTEXT | FI_CONTEXT2;
    hints->ep_attr->type = FI_EP_RDM;
    hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
    hints->domain_attr->av_type = FI_AV_TABLE;
    hints->domain_attr->threading = FI_THREAD_DOMAIN;
    hints->domain_attr->control_progress = FI_PROGRESS_MANUAL;
    hints->domain_attr->data_progress = FI_PROGRESS_MANUAL;
    hints->domain_attr->resource_mgmt = FI_RM_ENABLED;
    hints->fabric_attr->prov_name = strdup(choice->name);
    if (choice->fabric != NULL) {
        hints->fabric_attr->name = strdup(choice->fabric);
    }
    return hints;
}

/* Why a call failed, and what an operator can do about it. Returns `rc`. */
static int
refuse(const char *provider, const char *call, int rc, char *why, size_t why_bytes)
{
    struct rlimit lock = { 0 };
    bool efa = strncmp(provider, "efa", 3) == 0;

    switch (-rc) {
    case FI_ENODATA:
        snprintf(
            why, why_bytes, "libfabric %s has no provider '%s' here (%s: %s): %s; no other provider is used instead",
            fi_tostr("", FI_TYPE_VERSION), provider, call, fi_strerror(-rc),
            efa ? "needs an EFA device that this process may open (in a container pass /dev/infiniband/uverbs* and "
                  "allow the device), or for efa-direct libfabric 2.1"
                : "check `fi_info -p` for the providers of this machine, FI_PROVIDER in the environment, and the "
                  "port's node and domain");
        break;
    case FI_ENOMEM:
        getrlimit(RLIMIT_MEMLOCK, &lock);
        snprintf(why, why_bytes,
                 "%s: %s for provider '%s': the limit on locked memory is %llu KiB; raise it (`ulimit -l unlimited`, "
                 "LimitMEMLOCK=infinity in the unit) or lower rx_slots, tx_slots or frame of the port",
                 call, fi_strerror(-rc), provider, (unsigned long long)lock.rlim_cur / 1024);
        break;
    default:
        snprintf(why, why_bytes, "%s: %s (%d) for provider '%s'", call, fi_strerror(-rc), -rc, provider);
    }
    return rc;
}

/* Ask once; `sized`: for queues as long as wanted. 0 with *found. */
static int
ask_provider(const struct endpoint_config *config, const struct provider_choice *choice, bool sized,
             struct fi_info **found)
{
    struct fi_info *hints = hints_of(choice), *list = NULL;
    bool is_shm = strcmp(choice->name, "shm") == 0;
    const char *node = is_shm ? NULL : config->node; /* shm makes its own names */

    if (hints == NULL) {
        return -FI_ENOMEM;
    }
    if (sized) {
        hints->rx_attr->size = config->rx_slots != 0 ? config->rx_slots : ENDPOINT_RX_SLOTS;
        hints->tx_attr->size = config->tx_slots != 0 ? config->tx_slots : ENDPOINT_TX_SLOTS;
    }
    int rc = fi_getinfo(FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION), node, NULL, node ? FI_SOURCE : 0, hints, &list);
    fi_freeinfo(hints);
    if (rc != 0) {
        return rc;
    }
    *found = NULL;
    for (struct fi_info *fi = list; fi != NULL && *found == NULL; fi = fi->next) {
        /* libfabric answers with layered providers when the plain one lacks something: only the one asked for counts.
         */
        if (choice_fits(choice, config, fi)) {
            *found = fi_dupinfo(fi);
        }
    }
    fi_freeinfo(list);
    return *found != NULL ? 0 : -FI_ENODATA;
}

/* What a provider answered, by what was asked: fi_getinfo takes 0.1 s (measured) and every lcore asks the same. Boot
 * thread only; kept until the process ends. */
struct provider_answer {
    char provider[32], node[64], domain[64];
    size_t rx_wanted, tx_wanted;
    struct fi_info *fi;
};
static struct provider_answer answers[16];

static struct provider_answer *
answer_of(const struct endpoint_config *config, size_t rx_wanted, size_t tx_wanted)
{
    struct provider_answer wanted = { .rx_wanted = rx_wanted, .tx_wanted = tx_wanted };
    const char *node = config->node != NULL ? config->node : "";
    const char *domain = config->domain != NULL ? config->domain : "";
    struct provider_answer *room = NULL;

    if (strlen(config->provider) >= sizeof(wanted.provider) || strlen(node) >= sizeof(wanted.node) ||
        strlen(domain) >= sizeof(wanted.domain)) {
        return NULL;
    }
    strcpy(wanted.provider, config->provider);
    strcpy(wanted.node, node);
    strcpy(wanted.domain, domain);
    for (size_t i = 0; i < ARRAY_COUNT(answers); i++) {
        struct provider_answer *answer = &answers[i];
        if (answer->fi == NULL) {
            room = room == NULL ? answer : room;
            continue;
        }
        wanted.fi = answer->fi;
        if (memcmp(answer, &wanted, sizeof(wanted)) == 0) {
            return answer;
        }
    }
    if (room != NULL) {
        wanted.fi = NULL;
        *room = wanted;
    }
    return room;
}

/* Queues longer than our slots are left as the provider gives them: rxm of 1.17 loses one receive for every message
 * that is too long for its buffer (measured). Some are short by default and longer on request. */
static int
find_provider(struct endpoint *endpoint, const struct endpoint_config *config, char *why, size_t why_bytes)
{
    struct provider_choice choice = provider_choice_of(config->provider);
    size_t rx_wanted = config->rx_slots != 0 ? config->rx_slots : ENDPOINT_RX_SLOTS;
    size_t tx_wanted = config->tx_slots != 0 ? config->tx_slots : ENDPOINT_TX_SLOTS;
    struct provider_answer *answer = answer_of(config, rx_wanted, tx_wanted);
    struct fi_info *longer;

    if (answer != NULL && answer->fi != NULL) {
        endpoint->fi = fi_dupinfo(answer->fi);
        return endpoint->fi != NULL ? 0 : refuse(config->provider, "fi_dupinfo", -FI_ENOMEM, why, why_bytes);
    }
    int rc = ask_provider(config, &choice, false, &endpoint->fi);
    if (rc != 0) {
        return refuse(config->provider, "fi_getinfo", rc, why, why_bytes);
    }
    if ((endpoint->fi->rx_attr->size < rx_wanted || endpoint->fi->tx_attr->size < tx_wanted) &&
        ask_provider(config, &choice, true, &longer) == 0) {
        fi_freeinfo(endpoint->fi);
        endpoint->fi = longer;
    }
    if (answer != NULL) {
        answer->fi = fi_dupinfo(endpoint->fi); /* NULL: asked again next time */
    }
    return 0;
}

/* A number the operator gave, or the default, against what the provider can. */
static int
settle_size(const char *name, uint32_t asked, size_t fallback, size_t least, size_t most, uint32_t *out, char *why,
            size_t why_bytes)
{
    if (asked == 0) {
        *out = (uint32_t)MIN(fallback, most);
    } else if (asked > most || asked < least) {
        snprintf(why, why_bytes, "%s = %u is out of range: this provider takes %zu to %zu", name, asked, least, most);
        return -EINVAL;
    } else {
        *out = asked;
    }
    return 0;
}

static int
settle_sizes(struct endpoint *endpoint, const struct endpoint_config *config, char *why, size_t why_bytes)
{
    struct endpoint_info *info = &endpoint->info;
    const struct fi_info *fi = endpoint->fi;
    bool is_shm = strcmp(fi->fabric_attr->prov_name, "shm") == 0;
    size_t frame_most = MIN(fi->ep_attr->max_msg_size, FRAME_BYTES_DEFAULT);
    size_t frame_default = is_shm ? FRAME_BYTES_SHM : frame_most;

    info->inject_bytes = (uint32_t)MIN(fi->tx_attr->inject_size, frame_most);
    if (settle_size("frame", config->frame_bytes, frame_default, FRAME_BYTES_LEAST, frame_most, &info->frame_bytes, why,
                    why_bytes) != 0 ||
        settle_size("rx_slots", config->rx_slots, ENDPOINT_RX_SLOTS, 1, fi->rx_attr->size, &info->rx_slots, why,
                    why_bytes) != 0 ||
        settle_size("tx_slots", config->tx_slots, ENDPOINT_TX_SLOTS, 1, fi->tx_attr->size, &info->tx_slots, why,
                    why_bytes) != 0) {
        return -EINVAL;
    }
    if (config->send == ENDPOINT_SEND_INJECT && info->inject_bytes < info->frame_bytes) {
        snprintf(why, why_bytes,
                 "send = \"inject\": provider '%s' injects at most %u bytes, a frame of replies has %u; use \"auto\" "
                 "or \"send\"%s",
                 config->provider, info->inject_bytes, info->frame_bytes,
                 info->inject_bytes >= FRAME_BYTES_LEAST ? ", or a smaller frame" : "");
        return -EINVAL;
    }
    return 0;
}

static int
slots_open(struct endpoint *endpoint, struct fabric_slots *slots, uint32_t count, uint64_t access, char *why,
           size_t why_bytes)
{
    const char *provider = endpoint->info.provider;

    slots->mapped_bytes = ALIGN_UP((size_t)count * endpoint->info.frame_bytes, 4096);
    slots->bytes =
        mmap(NULL, slots->mapped_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (slots->bytes == MAP_FAILED) {
        slots->bytes = NULL;
        return refuse(provider, "mmap", -errno, why, why_bytes);
    }
    slots->count = count;
    slots->contexts = aligned_alloc(CACHE_LINE, ALIGN_UP(count * sizeof(slots->contexts[0]), CACHE_LINE));
    if (slots->contexts == NULL) {
        return refuse(provider, "aligned_alloc", -ENOMEM, why, why_bytes);
    }
    memset(slots->contexts, 0, count * sizeof(slots->contexts[0]));
    if (endpoint->fi->domain_attr->mr_mode & FI_MR_LOCAL) {
        int rc = fi_mr_reg(endpoint->domain, slots->bytes, slots->mapped_bytes, access, 0, 0, 0, &slots->mr, NULL);
        if (rc != 0) {
            return refuse(provider, "fi_mr_reg", rc, why, why_bytes);
        }
        slots->descriptor = fi_mr_desc(slots->mr);
    }
    return 0;
}

static void
slots_close(struct fabric_slots *slots)
{
    if (slots->mr != NULL) {
        fi_close(&slots->mr->fid);
    }
    free(slots->contexts);
    if (slots->bytes != NULL) {
        munmap(slots->bytes, slots->mapped_bytes);
    }
}

/* Fabric, domain, CQ, AV, endpoint: each belongs to this endpoint alone, so FI_THREAD_DOMAIN needs no lock. */
static int
objects_open(struct endpoint *endpoint, char *why, size_t why_bytes)
{
    const char *provider = endpoint->info.provider, *call = "fi_fabric";
    struct fi_info *fi = endpoint->fi;
    struct fi_cq_attr cq = { .format = FI_CQ_FORMAT_MSG,
                             .wait_obj = FI_WAIT_NONE,
                             /* efa does not protect a CQ from overrun: room for every operation there can be */
                             .size = (size_t)endpoint->info.rx_slots + endpoint->info.tx_slots };
    struct fi_av_attr av = { .type = FI_AV_TABLE, .count = 256 };

    int rc = fi_fabric(fi->fabric_attr, &endpoint->fabric, NULL);
    if (rc == 0) {
        call = "fi_domain";
        rc = fi_domain(endpoint->fabric, fi, &endpoint->domain, NULL);
    }
    if (rc == 0) {
        call = "fi_cq_open";
        rc = fi_cq_open(endpoint->domain, &cq, &endpoint->cq, NULL);
    }
    if (rc == 0) {
        call = "fi_av_open";
        rc = fi_av_open(endpoint->domain, &av, &endpoint->av, NULL);
    }
    if (rc == 0) {
        call = "fi_endpoint";
        rc = fi_endpoint(endpoint->domain, fi, &endpoint->ep, NULL);
    }
    if (rc == 0) {
        call = "fi_ep_bind";
        rc = fi_ep_bind(endpoint->ep, &endpoint->cq->fid, FI_TRANSMIT | FI_RECV);
    }
    if (rc == 0) {
        rc = fi_ep_bind(endpoint->ep, &endpoint->av->fid, 0);
    }
    return rc == 0 ? 0 : refuse(provider, call, rc, why, why_bytes);
}

/* From libfabric 2 an endpoint may promise short messages, which lets efa receive into our slots without a copy. */
#if FI_MAJOR_VERSION >= 2
static void
promise_short_messages(struct endpoint *endpoint)
{
    size_t most = endpoint->info.frame_bytes;
    (void)fi_setopt(&endpoint->ep->fid, FI_OPT_ENDPOINT, FI_OPT_MAX_MSG_SIZE, &most, sizeof(most)); /* only a hint */
}
#else
static void
promise_short_messages(struct endpoint *endpoint)
{
}
#endif

static int
start(struct endpoint *endpoint, uint32_t rx_post, char *why, size_t why_bytes)
{
    struct endpoint_info *info = &endpoint->info;
    size_t address_bytes = sizeof(info->address);

    promise_short_messages(endpoint);
    int rc = fi_enable(endpoint->ep);
    if (rc == -FI_EBUSY) {
        /* shm names its memory after our pid. What a killed process of that pid left counts as in use, because "its"
         * process lives, and is removed with this answer (prov/shm/src/smr_util.c): the name is free now. */
        rc = fi_enable(endpoint->ep);
    }
    if (rc != 0) {
        return refuse(info->provider, "fi_enable", rc, why, why_bytes);
    }
    rc = fi_getname(&endpoint->ep->fid, info->address, &address_bytes);
    if (rc != 0) {
        return refuse(info->provider, "fi_getname", rc, why, why_bytes);
    }
    info->address_bytes = (uint32_t)address_bytes;
    uint32_t count = rx_post != 0 ? MIN(rx_post, info->rx_slots) : info->rx_slots;
    for (uint32_t slot = 0; slot < count; slot++) {
        if (fabric_post(endpoint, slot) != ENDPOINT_OK) {
            snprintf(why, why_bytes, "provider '%s' takes only %u of %u receive slots: lower rx_slots of the port",
                     info->provider, slot, count);
            return -ENOSPC;
        }
    }
    return 0;
}

static void
describe(struct endpoint *endpoint, const struct endpoint_config *config)
{
    struct endpoint_info *info = &endpoint->info;
    const struct fi_info *fi = endpoint->fi;
    uint32_t version = fi_version();

    snprintf(info->provider, sizeof(info->provider), "%s", config->provider);
    snprintf(info->fabric, sizeof(info->fabric), "%s", fi->fabric_attr->name ? fi->fabric_attr->name : "");
    snprintf(info->domain, sizeof(info->domain), "%s", fi->domain_attr->name ? fi->domain_attr->name : "");
    snprintf(info->version, sizeof(info->version), "%u.%u", FI_MAJOR(version), FI_MINOR(version));
    /* Measured: shm and rxd name some peer, usually the first, for a sender that was never inserted. */
    info->source_reliable =
        strcmp(fi->fabric_attr->prov_name, "shm") != 0 && strstr(fi->fabric_attr->prov_name, "ofi_rxd") == NULL;
}

int
fabric_open(const struct endpoint_config *config, struct endpoint **out, char *why, size_t why_bytes)
{
    struct endpoint *endpoint = calloc(1, sizeof(*endpoint));
    if (endpoint == NULL) {
        return refuse(config->provider, "calloc", -ENOMEM, why, why_bytes);
    }
    int rc = find_provider(endpoint, config, why, why_bytes);
    if (rc != 0) {
        goto out;
    }
    describe(endpoint, config);
    rc = settle_sizes(endpoint, config, why, why_bytes);
    if (rc != 0) {
        goto out;
    }
    rc = objects_open(endpoint, why, why_bytes);
    if (rc != 0) {
        goto out;
    }
    rc = slots_open(endpoint, &endpoint->rx, endpoint->info.rx_slots, FI_RECV, why, why_bytes);
    if (rc != 0) {
        goto out;
    }
    rc = slots_open(endpoint, &endpoint->tx, endpoint->info.tx_slots, FI_SEND, why, why_bytes);
    if (rc != 0) {
        goto out;
    }
    endpoint->tx_peers = calloc(endpoint->info.tx_slots, sizeof(endpoint->tx_peers[0]));
    if (endpoint->tx_peers == NULL) {
        rc = refuse(config->provider, "calloc", -ENOMEM, why, why_bytes);
        goto out;
    }
    rc = start(endpoint, config->rx_post, why, why_bytes);
out:
    if (rc != 0) {
        fabric_close(endpoint);
        return rc;
    }
    *out = endpoint;
    return 0;
}

void
fabric_close(struct endpoint *endpoint)
{
    /* The endpoint first: nothing may be in flight when its slots and its CQ go. */
    if (endpoint->ep != NULL) {
        fi_close(&endpoint->ep->fid);
    }
    slots_close(&endpoint->rx);
    slots_close(&endpoint->tx);
    if (endpoint->av != NULL) {
        fi_close(&endpoint->av->fid);
    }
    if (endpoint->cq != NULL) {
        fi_close(&endpoint->cq->fid);
    }
    if (endpoint->domain != NULL) {
        fi_close(&endpoint->domain->fid);
    }
    if (endpoint->fabric != NULL) {
        fi_close(&endpoint->fabric->fid);
    }
    if (endpoint->fi != NULL) {
        fi_freeinfo(endpoint->fi);
    }
    free(endpoint->tx_peers);
    free(endpoint);
}
