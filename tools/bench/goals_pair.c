#include "tools/bench/goals_pair.h"

bool
goals_pair_start(struct goals_pair *pair, const struct goals *goals, char *why, size_t why_bytes)
{
    struct server_plan plan = goals_plan(goals, NULL);
    *pair = (struct goals_pair){ 0 };
    if (!goals->have_redis) {
        snprintf(why, why_bytes, "%s", goals->redis_why);
        return false;
    }
    if (!server_start_sluice(&pair->servers[0], &plan, why, why_bytes)) {
        return false;
    }
    server_pause(&pair->servers[0]);
    plan.program = goals->redis;
    return server_start_redis(&pair->servers[1], &plan, why, why_bytes);
}

void
goals_pair_stop(struct goals_pair *pair)
{
    server_stop(&pair->servers[1]);
    server_stop(&pair->servers[0]);
}

void
goals_pair_turn(const struct goals_pair *pair, uint32_t index)
{
    for (uint32_t i = 0; i < ARRAY_COUNT(pair->servers); i++) {
        if (i != index) {
            server_pause(&pair->servers[i]);
        }
    }
    if (index < ARRAY_COUNT(pair->servers)) {
        server_resume(&pair->servers[index]);
    }
}
