#include "dataplane/mail.h"

uint32_t
mail_room(const struct mail_ring *ring)
{
    uint32_t tail = load_relaxed(&ring->tail); /* ours */
    uint32_t head = load_acquire(&ring->head); /* pairs with the release in mail_take(): the slot was copied out */
    return LIMIT_MAIL_SLOTS - (tail - head);
}

bool
mail_post(struct mail_ring *ring, const struct mail *mail)
{
    if (mail_room(ring) == 0) {
        return false;
    }
    uint32_t tail = load_relaxed(&ring->tail);
    ring->slots[tail % LIMIT_MAIL_SLOTS] = *mail;
    store_release(&ring->tail, tail + 1); /* pairs with the acquire in mail_take() */
    return true;
}

bool
mail_take(struct mail_ring *ring, struct mail *mail)
{
    uint32_t head = load_relaxed(&ring->head); /* ours */
    if (head == load_acquire(&ring->tail)) {   /* pairs with the release in mail_post() */
        return false;
    }
    *mail = ring->slots[head % LIMIT_MAIL_SLOTS];
    store_release(&ring->head, head + 1); /* pairs with the acquire in mail_room() */
    return true;
}
