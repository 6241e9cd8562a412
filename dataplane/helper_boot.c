#include "dataplane/dataplane.h"
#include "dataplane/glob.h"
#include "dataplane/helper.h"
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#define HELPER_NICE 10

static_assert(LIMIT_LCORES + LIMIT_HELPERS + 1 <= LIMIT_MEMBERS, "each, and the management core, is a member");

/* What the helper's boot memory holds, in one block. */
struct helper_block {
    struct helper helper;
    struct glob pattern;
    uint8_t key[LIMIT_KEY_BYTES];
    pthread_t thread;
    bool thread_runs;
    int begin_error;
};

static struct helper_block *
block_of(struct helper *helper)
{
    return CONTAINER_OF(helper, struct helper_block, helper);
}

static void *
boot_take(size_t bytes)
{
    void *block = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    return block == MAP_FAILED ? NULL : block;
}

static bool
rings_open(struct helper *helper)
{
    for (uint32_t i = 0; i < helper->dataplane->lcore_count; i++) {
        struct lcore *lcore = helper->dataplane->lcores[i];
        helper->mail_in[i] = lcore->mail_out[MAIL_FROM_HELPER] = boot_take(sizeof(struct mail_ring));
        helper->mail_out[i] = lcore->mail_in[MAIL_FROM_HELPER] = boot_take(sizeof(struct mail_ring));
        if (helper->mail_in[i] == NULL || helper->mail_out[i] == NULL) {
            return false;
        }
    }
    return true;
}

int
helper_open(struct dataplane *dataplane, struct helper **out)
{
    struct helper_block *block = boot_take(sizeof(*block));
    if (block == NULL) {
        return -ENOMEM;
    }
    struct helper *helper = &block->helper;
    helper->dataplane = dataplane;
    helper->key = block->key;
    helper->job.pattern = &block->pattern;
    helper->now_ms = dataplane->started_ms;
    int error = mail_waker_open(&helper->waker);
    if (error == 0 && !rings_open(helper)) {
        error = -ENOMEM;
    }
    if (error != 0) {
        helper_close(helper);
        return error;
    }
    *out = helper;
    return 0;
}

void
helper_close(struct helper *helper)
{
    for (uint32_t i = 0; i < LIMIT_LCORES; i++) {
        if (helper->mail_in[i] != NULL) {
            munmap(helper->mail_in[i], sizeof(struct mail_ring));
        }
        if (helper->mail_out[i] != NULL) {
            munmap(helper->mail_out[i], sizeof(struct mail_ring));
        }
    }
    mail_waker_close(&helper->waker);
    munmap(block_of(helper), sizeof(struct helper_block));
}

int
helper_begin(struct helper *helper)
{
    struct dataplane *dataplane = helper->dataplane;
    helper->store = store_join(dataplane->store, dataplane->lcore_count, HELPER_NAME);
    if (helper->store == NULL) {
        return -ENOMEM;
    }
    helper->memory = store_memory(helper->store);
    uint64_t share_bytes = load_relaxed(&dataplane->live.session_bytes); /* see live.h */
    stream_reserve_init(&helper->reserve, helper->memory, NULL, share_bytes);
    helper->tid = gettid();
    store_release(&helper->state, HELPER_WORKING); /* pairs with the acquire in helper_start() */
    return 0;
}

void
helper_end(struct helper *helper)
{
    struct helper_job *job = &helper->job;
    if (job->later != NULL) { /* nobody waits for it: lcores stop first */
        stream_out_fini(&job->later->out);
        helper_keys_end(helper);
        job->later = NULL;
    }
    stream_reserve_fini(&helper->reserve);
    store_leave(helper->store);
    helper->store = NULL;
    store_release(&helper->state, HELPER_STOPPED);
}

/* Never in the way: whoever shares these CPUs goes first. Failing changes nothing but that. */
static void
helper_stand_back(void)
{
    struct sched_param none = { 0 };
    (void)sched_setscheduler(0, SCHED_BATCH, &none);
    (void)setpriority(PRIO_PROCESS, (id_t)gettid(), getpriority(PRIO_PROCESS, 0) + HELPER_NICE); /* 19 at most */
}

static void *
helper_main(void *argument)
{
    struct helper *helper = argument;
    pthread_setname_np(pthread_self(), HELPER_NAME);
    helper_stand_back();
    int error = helper_begin(helper);
    if (error != 0) {
        block_of(helper)->begin_error = error;
        store_release(&helper->state, HELPER_STOPPED); /* pairs with the acquire in helper_start() */
        return NULL;
    }
    helper_run(helper);
    helper_end(helper);
    return NULL;
}

int
helper_start(struct helper *helper)
{
    struct helper_block *block = block_of(helper);
    int error = pthread_create(&block->thread, NULL, helper_main, helper);
    if (error != 0) {
        return -error;
    }
    block->thread_runs = true;
    while (load_acquire(&helper->state) == HELPER_BOOT) { /* pairs with the releases in helper_main() */
        sched_yield();
    }
    return block->begin_error;
}

void
helper_stop(struct helper *helper)
{
    struct helper_block *block = block_of(helper);
    if (block->thread_runs) {
        store_relaxed(&helper->stop, true);
        mail_wake(&helper->waker); /* its fence orders the flag before the look at who sleeps */
        pthread_join(block->thread, NULL);
        block->thread_runs = false;
    }
}
